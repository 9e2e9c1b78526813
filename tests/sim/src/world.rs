//! A cluster in memory: ZooKeeper, brokers, klamms, and what operators and brokers do to them.
//!
//! Everything happens when the test says so: brokers read, events are processed and time passes only in `settle` and
//! `advance`. Must never reach into a controller: it is shown the world through its ports alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use klamm::controller::ControllerSettings;
use klamm::effect::{Answer, ElectionConfig, Incarnation, Read, ReplyTo, StateRead, TopicZnode};
use klamm::event::{Claimant, ControllerEvent, ElectionType, QuotaEnforcement};
use klamm::machine::candidacy::TakeoverPolicy;
use klamm::machine::mutation_quota::QuotaWindow;
use klamm::machine::topic_creation::TopicDefaults;
use klamm::model::topic_config::BrokerProperties;
use klamm::model::{
    BrokerEpoch, BrokerId, BrokerIds, ControllerEpoch, Endpoint, InterBrokerProtocol,
    LeaderRecoveryState, ReplicaAssignment, SecurityProtocol, SharedSettings, TopicId, TopicName,
    TopicPartition,
};
use klamm::zk::{paths, znode};

use crate::broker::{Process, SimBroker};
use crate::brokers::Cluster;
use crate::clock::VirtualTime;
use crate::klamm::Klamm;
use crate::pace::Pace;
use crate::zk_port::{Fate, TopicWatches};
use crate::zookeeper::{CreateMode, Op, SessionId, ZkSession, ZooKeeper};

/// The id of the first klamm of a world.
pub const KLAMM: i32 = 9;

/// Steps after which a world that still moves is taken for one that never rests.
const STEPS_MAX: usize = 100_000;

/// A cluster in memory.
#[derive(Debug)]
pub struct World {
    /// Its time.
    pub time: VirtualTime,
    /// Its ZooKeeper.
    pub zookeeper: ZooKeeper,
    /// Its brokers.
    pub cluster: Cluster,
    /// Its klamms, in the order in which they were started.
    pub klamms: Vec<Klamm>,
    sessions: BTreeMap<BrokerId, ZkSession>,
    watches: TopicWatches,
    /// Processes started: no two may make the same topic ids.
    klamms_started: u64,
}

/// For so long who asks for elections waits for brokers to hear of them.
const ELECTION_TIMEOUT_MS: i32 = 30_000;

/// `t-0` as a partition.
pub fn partition(text: &str) -> TopicPartition {
    let parsed = text
        .rsplit_once('-')
        .and_then(|(topic, index)| Some((topic, index.parse().ok()?)));
    match parsed {
        Some((topic, index)) => TopicPartition::new(&TopicName::new(topic), index),
        None => panic!("`{text}` is no partition"),
    }
}

/// `2.8` as a protocol.
pub fn protocol(text: &str) -> InterBrokerProtocol {
    match text.parse() {
        Ok(protocol) => protocol,
        Err(unknown) => panic!("{unknown}"),
    }
}

impl World {
    /// Brokers with these ids, all of one release at its own protocol, started; no klamm yet.
    pub fn of_brokers(ids: &[i32], release: &str) -> World {
        let mut world = World::empty();
        for id in ids {
            world.add_broker(*id, release, release);
            world.start_broker(*id);
        }
        world
    }

    /// The same with a klamm that has taken the role; what it said so far is forgotten.
    pub fn led(ids: &[i32], release: &str) -> World {
        let mut world = World::of_brokers(ids, release);
        world.start_klamm();
        world.settle();
        assert!(world.klamm().is_active(), "{}", world.standing_by());
        world.told();
        world
    }

    /// A ZooKeeper with nothing but the paths that a first broker creates.
    pub fn empty() -> World {
        let zookeeper = ZooKeeper::new();
        for path in paths::BASE_PATHS.iter().chain([&paths::PRODUCER_ID_BLOCK]) {
            zookeeper.poke(path, b"");
        }
        World {
            time: VirtualTime::default(),
            zookeeper,
            cluster: Cluster::default(),
            klamms: Vec::new(),
            sessions: BTreeMap::new(),
            watches: TopicWatches::default(),
            klamms_started: 0,
        }
    }

    /// How klamms started from now on watch topics.
    pub fn watching(mut self, watches: TopicWatches) -> World {
        self.watches = watches;
        self
    }

    // --- klamms

    /// What the first klamm is configured with.
    pub fn settings() -> ControllerSettings {
        ControllerSettings {
            own_id: BrokerId(KLAMM),
            listeners: vec![endpoint(KLAMM)],
            takeover: TakeoverPolicy::Always,
            takeover_delay_ms: 5_000,
            protocol: None,
            unclean_leader_election_enable: false,
            delete_topic_enable: true,
            shared: SharedSettings::new(),
            topic_defaults: TopicDefaults {
                num_partitions: 1,
                replication_factor: 1,
                broker: BrokerProperties::default(),
            },
            quota_window: QuotaWindow::default(),
            anti_entropy_period_ms: 60_000,
            token_expiry_check_interval_ms: None,
            leader_balance: None,
        }
    }

    /// Starts the first klamm.
    pub fn start_klamm(&mut self) -> &mut Klamm {
        self.start_klamm_with(World::settings())
    }

    /// Starts a klamm. One that is started again is a new process in the place of the old.
    pub fn start_klamm_with(&mut self, settings: ControllerSettings) -> &mut Klamm {
        let id = settings.own_id;
        let fate = Fate::at_once(Pace::at_once(&self.time));
        self.start_klamm_of(settings, fate);
        self.klamm_with_id(id.0)
    }

    /// Starts a klamm whose line to ZooKeeper may take its time and be cut.
    pub fn start_klamm_of(&mut self, settings: ControllerSettings, fate: Fate) {
        let id = settings.own_id;
        let started = self.process_of(settings, fate);
        match self.klamms.iter().position(|klamm| klamm.id == id) {
            Some(place) => self.klamms[place] = started,
            None => self.klamms.push(started),
        }
    }

    /// A klamm's process beside those that the world has.
    pub fn process(&mut self, settings: ControllerSettings) -> Klamm {
        let fate = Fate::at_once(Pace::at_once(&self.time));
        self.process_of(settings, fate)
    }

    fn process_of(&mut self, settings: ControllerSettings, fate: Fate) -> Klamm {
        self.klamms_started += 1;
        Klamm::start(
            settings,
            &self.zookeeper,
            &self.cluster,
            &self.time,
            self.watches,
            self.klamms_started,
            fate,
        )
    }

    /// The first klamm.
    pub fn klamm(&mut self) -> &mut Klamm {
        match self.klamms.first_mut() {
            Some(klamm) => klamm,
            None => panic!("no klamm was started"),
        }
    }

    /// The klamm with this id.
    pub fn klamm_with_id(&mut self, id: i32) -> &mut Klamm {
        match self.klamms.iter_mut().find(|klamm| klamm.id.0 == id) {
            Some(klamm) => klamm,
            None => panic!("no klamm {id} was started"),
        }
    }

    /// What the first klamm told the brokers since this was last asked, a line a request; see `request::batch_lines`.
    pub fn told(&mut self) -> Vec<String> {
        self.klamm().channels.take_lines()
    }

    /// Why the first klamm is not the controller.
    pub fn standing_by(&mut self) -> String {
        self.klamm().snapshot().standing_by.to_string()
    }

    // --- time

    /// Processes events and lets brokers read until nothing is left to do. Time stands still.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("the world doesn't come to rest");
    }

    /// Each klamm processes one event, then each running broker reads one request. Whether anything happened.
    pub fn step(&mut self) -> bool {
        let mut any = false;
        for klamm in &mut self.klamms {
            any |= klamm.step();
            any |= klamm.channels.deliver_one_each();
        }
        any
    }

    /// Lets time pass; timers ring in order, and the world settles after each.
    pub fn advance(&mut self, by_ms: u64) {
        let until_ms = self.time.now_ms() + by_ms;
        loop {
            self.settle();
            let due = self
                .klamms
                .iter()
                .filter_map(|k| k.queue.next_due_ms())
                .min();
            match due {
                Some(due_ms) if due_ms <= until_ms => self.time.move_to(due_ms),
                _ => break,
            }
        }
        self.time.move_to(until_ms);
        self.settle();
    }

    // --- brokers

    /// Adds a broker that is not started.
    pub fn add_broker(&mut self, id: i32, release: &str, ibp: &str) {
        let broker = SimBroker::new(BrokerId(id), protocol(release), protocol(ibp));
        self.cluster.borrow_mut().insert(BrokerId(id), broker);
    }

    /// Starts a broker: a session, a registration, an empty memory.
    pub fn start_broker(&mut self, id: i32) {
        self.start_broker_with(id, None);
    }

    /// Starts a broker in a rack.
    pub fn start_broker_with(&mut self, id: i32, rack: Option<&str>) {
        let epoch = self.register(id, rack);
        self.broker_mut(id, |broker| broker.start(epoch));
    }

    /// A broker whose session ended registers in a new one; its process forgets nothing.
    pub fn register_again(&mut self, id: i32) {
        let epoch = self.register(id, None);
        self.broker_mut(id, |broker| broker.epoch = epoch);
    }

    /// Whether a broker has a session.
    pub fn is_registered(&self, id: i32) -> bool {
        self.sessions.contains_key(&BrokerId(id))
    }

    /// Whose session it is.
    pub fn broker_of_session(&self, session: SessionId) -> Option<BrokerId> {
        let mut sessions = self.sessions.iter();
        sessions.find_map(|(id, own)| (own.id() == session).then_some(*id))
    }

    fn register(&mut self, id: i32, rack: Option<&str>) -> BrokerEpoch {
        let ibp = self.broker(id, |broker| broker.protocol);
        let session = self.zookeeper.connect_deaf();
        let registration = registration(id, ibp, &[endpoint(id)], rack);
        let path = paths::broker(BrokerId(id));
        let made = session.create(&path, registration.as_bytes(), CreateMode::Ephemeral);
        let Ok((_, stat)) = made else {
            panic!("{path} is in the way: {made:?}");
        };
        self.sessions.insert(BrokerId(id), session);
        BrokerEpoch(stat.czxid)
    }

    /// Ends a broker's process; its registration goes.
    pub fn kill(&mut self, id: i32) {
        self.crash(id);
        self.expire_broker(id);
    }

    /// Ends a broker's process; its session lives until it is expired.
    pub fn crash(&mut self, id: i32) {
        self.broker_mut(id, |broker| broker.process = Process::Dead);
    }

    /// Ends a broker's session: its registration goes.
    pub fn expire_broker(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&BrokerId(id)) {
            session.close();
        }
    }

    /// Ends and starts a broker before anybody looks.
    pub fn bounce(&mut self, id: i32) {
        self.kill(id);
        self.start_broker(id);
    }

    /// Stops a broker's process; its session lives.
    pub fn pause(&mut self, id: i32) {
        self.broker_mut(id, |broker| broker.process = Process::Paused);
    }

    /// Lets a paused broker go on.
    pub fn resume(&mut self, id: i32) {
        self.broker_mut(id, |broker| broker.process = Process::Running);
    }

    /// A broker changes its listeners in place.
    pub fn set_endpoints(&mut self, id: i32, endpoints: &[Endpoint]) {
        let ibp = self.broker(id, |broker| broker.protocol);
        let data = registration(id, ibp, endpoints, None);
        let path = paths::broker(BrokerId(id));
        let written = self.session(id).set(&path, data.as_bytes(), None);
        assert!(written.is_ok(), "{path}: {written:?}");
    }

    /// Looks at a broker.
    pub fn broker<T>(&self, id: i32, look: impl FnOnce(&SimBroker) -> T) -> T {
        match self.cluster.borrow().get(&BrokerId(id)) {
            Some(broker) => look(broker),
            None => panic!("there is no broker {id}"),
        }
    }

    /// Changes a broker.
    pub fn broker_mut<T>(&self, id: i32, change: impl FnOnce(&mut SimBroker) -> T) -> T {
        match self.cluster.borrow_mut().get_mut(&BrokerId(id)) {
            Some(broker) => change(broker),
            None => panic!("there is no broker {id}"),
        }
    }

    /// The ids that a broker takes for alive, in order.
    pub fn alive_at(&self, id: i32) -> Vec<i32> {
        self.broker(id, |broker| broker.alive.keys().map(|id| id.0).collect())
    }

    /// What a broker tells clients of a partition: `leader 1 isr [1,2] offline []`.
    pub fn cached_at(&self, id: i32, of: &str) -> Option<String> {
        self.broker(id, |broker| {
            let cached = broker.cache.get(&partition(of))?;
            Some(format!(
                "leader {} isr {} offline {}",
                cached.leadership.leader, cached.leadership.isr, cached.offline_replicas
            ))
        })
    }

    pub(crate) fn session(&self, id: i32) -> &ZkSession {
        match self.sessions.get(&BrokerId(id)) {
            Some(session) => session,
            None => panic!("broker {id} has no session"),
        }
    }

    /// The current incarnation of a broker.
    pub fn incarnation(&self, id: i32) -> Incarnation {
        Incarnation {
            broker: BrokerId(id),
            epoch: self.broker(id, |broker| broker.epoch),
        }
    }

    /// A broker asks the first klamm to let it go.
    pub fn ask_shutdown(&mut self, id: i32) -> ReplyTo {
        let broker_epoch = self.broker(id, |broker| {
            (broker.protocol >= protocol("2.2")).then_some(broker.epoch)
        });
        let reply_to = self.klamm().open_slot();
        self.klamm().queue.put(ControllerEvent::ControlledShutdown {
            broker: BrokerId(id),
            broker_epoch,
            reply_to,
        });
        reply_to
    }

    /// What a slot of the first klamm was answered.
    pub fn answer_to(&mut self, slot: ReplyTo) -> Answer {
        match self.klamm().replies.answer_to(slot) {
            Some(answer) => answer,
            None => panic!("{slot:?} was not answered"),
        }
    }

    // --- topics, as tools and brokers write them

    /// Creates a topic: one list of replicas a partition.
    pub fn create_topic(&mut self, name: &str, assignments: &[&[i32]]) {
        self.write_topic(name, None, assignments);
    }

    /// Creates a topic with an id.
    pub fn create_topic_with_id(&mut self, name: &str, id: TopicId, assignments: &[&[i32]]) {
        self.write_topic(name, Some(id), assignments);
    }

    /// Rewrites a topic's node whole, as tools do from an older read.
    pub fn write_topic(&mut self, name: &str, topic_id: Option<TopicId>, assignments: &[&[i32]]) {
        let replicas = assignments.iter().map(|ids| BrokerIds::from(*ids));
        let partitions = (0..)
            .zip(replicas.map(ReplicaAssignment::settled))
            .collect();
        let node = TopicZnode {
            topic_id,
            partitions,
            version: 0,
        };
        let path = paths::topic(&TopicName::new(name));
        self.zookeeper.poke(&path, &znode::encode_topic(&node));
    }

    /// Adds a partition to a topic.
    pub fn add_partition(&mut self, name: &str, replicas: &[i32]) {
        let Some(mut node) = self.topic(name) else {
            panic!("there is no topic {name}");
        };
        let next = node.partitions.keys().last().map_or(0, |last| last + 1);
        let assignment = ReplicaAssignment::settled(BrokerIds::from(replicas));
        node.partitions.insert(next, assignment);
        let path = paths::topic(&TopicName::new(name));
        self.zookeeper.poke(&path, &znode::encode_topic(&node));
    }

    /// Removes a topic's nodes, as the end of a deletion does.
    pub fn remove_topic(&mut self, name: &str) {
        self.zookeeper.uproot(&paths::topic(&TopicName::new(name)));
    }

    /// A topic's node.
    pub fn topic(&self, name: &str) -> Option<TopicZnode> {
        let path = paths::topic(&TopicName::new(name));
        let node = self.zookeeper.look(&path)?;
        match znode::decode_topic(&path, node.data(), node.stat().version) {
            Read::Found(found) => Some(found),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A topic's node, if it is there and can be read.
    pub fn readable_topic(&self, name: &str) -> Option<TopicZnode> {
        let path = paths::topic(&TopicName::new(name));
        let node = self.zookeeper.look(&path)?;
        znode::decode_topic(&path, node.data(), node.stat().version).found()
    }

    /// The replicas that a topic's node assigns to a partition.
    pub fn assigned(&self, of: &str) -> Vec<i32> {
        let of = partition(of);
        let topic = self.topic(of.topic.as_str());
        let assignment = topic.and_then(|topic| topic.partitions.get(&of.partition).cloned());
        match assignment {
            Some(assignment) => assignment.replicas.as_i32s().to_vec(),
            None => panic!("{of} is not assigned"),
        }
    }

    /// Sets `unclean.leader.election.enable` of a topic.
    pub fn allow_unclean(&mut self, topic: &str, allowed: bool) {
        let config = ElectionConfig {
            unclean_leader_election_enable: Some(allowed),
        };
        let path = paths::topic_config(&TopicName::new(topic));
        self.zookeeper
            .poke(&path, &znode::encode_election_config(&config));
    }

    /// Sets `unclean.leader.election.enable` as kafka-configs does: the configuration of `entity` (`topics/t`,
    /// `brokers/<default>`), then a notice. `None` removes the key.
    pub fn configure_unclean(&mut self, entity: &str, enabled: Option<bool>) {
        let config = ElectionConfig {
            unclean_leader_election_enable: enabled,
        };
        let path = format!("/config/{entity}");
        self.zookeeper
            .poke(&path, &znode::encode_election_config(&config));
        self.notify_config_change(&znode::encode_config_change(entity));
    }

    /// Writes a configuration as kafka-configs does: that of `entity` (`clients/c`), then a notice.
    pub fn configure(&mut self, entity: &str, content: &str) {
        self.zookeeper
            .poke(&format!("/config/{entity}"), content.as_bytes());
        self.notify_config_change(&znode::encode_config_change(entity));
    }

    /// Leaves a notice below `/config/changes`.
    pub fn notify_config_change(&mut self, content: &[u8]) {
        let hand = self.zookeeper.connect_deaf();
        let parent = format!("{}/config_change_", paths::CONFIG_CHANGES);
        let made = hand.create(&parent, content, CreateMode::PersistentSequential);
        assert!(made.is_ok(), "{made:?}");
        hand.close();
    }

    /// An operator asks the first klamm for elections; what it was answered.
    pub fn elect_leaders(&mut self, asked: Option<&[&str]>, election: ElectionType) -> Answer {
        let reply_to = self.ask_election(asked, election);
        self.settle();
        if self.klamm().replies.answer_to(reply_to).is_none() {
            // A broker hangs: nobody waits longer for it once another has heard.
            self.advance(1_000);
        }
        self.answer_to(reply_to)
    }

    /// An operator asks the first klamm for elections.
    pub fn ask_election(&mut self, asked: Option<&[&str]>, election: ElectionType) -> ReplyTo {
        let partitions = asked.map(|asked| asked.iter().map(|of| partition(of)).collect());
        let reply_to = self.klamm().open_slot();
        self.klamm().queue.put(ControllerEvent::ElectLeaders {
            partitions,
            election,
            timeout_ms: ELECTION_TIMEOUT_MS,
            reply_to,
        });
        reply_to
    }

    /// A partition's state in ZooKeeper.
    pub fn state(&self, of: &str) -> Option<StateRead> {
        let path = paths::state(&partition(of));
        let node = self.zookeeper.look(&path)?;
        match znode::decode_state(&path, node.data(), node.stat().version) {
            Read::Found(found) => Some(found),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// A partition's state in ZooKeeper in short: `leader 1 isr [1,2] le 0`; `none` without one.
    pub fn led_by(&self, of: &str) -> String {
        let Some(StateRead { leader_and_isr, .. }) = self.state(of) else {
            return "none".to_owned();
        };
        let recovering = match leader_and_isr.leader_recovery_state {
            LeaderRecoveryState::Recovered => "",
            LeaderRecoveryState::Recovering => " recovering",
        };
        format!(
            "leader {} isr {} le {}{recovering}",
            leader_and_isr.leader, leader_and_isr.isr, leader_and_isr.leader_epoch
        )
    }

    // --- other controllers

    /// The role goes to a Java broker's controller: `/controller` is deleted by somebody, and it wins the election.
    pub fn java_takes_role(&mut self, id: i32) -> ZkSession {
        seize_role(&self.zookeeper, BrokerId(id))
    }

    /// The number in `/controller_epoch`.
    pub fn controller_epoch(&self) -> i32 {
        let node = self.zookeeper.look(paths::CONTROLLER_EPOCH);
        let epoch = node.map(|node| znode::decode_controller_epoch(node.data()));
        match epoch {
            Some(Ok(ControllerEpoch(epoch))) => epoch,
            Some(Err(why)) => panic!("{why}"),
            None => 0,
        }
    }

    /// The id in `/controller`.
    pub fn controller(&self) -> Option<i32> {
        let node = self.zookeeper.look(paths::CONTROLLER)?;
        match znode::decode_controller(node.data()) {
            Ok(controller) => Some(controller.broker.0),
            Err(why) => panic!("{why}"),
        }
    }
}

/// What a Java broker of 2.1 or later does to become the controller, once `/controller` was deleted.
pub fn seize_role(zookeeper: &ZooKeeper, id: BrokerId) -> ZkSession {
    zookeeper.uproot(paths::CONTROLLER);
    let session = zookeeper.connect_deaf();
    let (epoch, version) = match session.get(paths::CONTROLLER_EPOCH) {
        Ok((data, stat)) => match znode::decode_controller_epoch(&data) {
            Ok(epoch) => (epoch.0, stat.version),
            Err(why) => panic!("{why}"),
        },
        Err(_) => {
            zookeeper.poke(paths::CONTROLLER_EPOCH, b"0");
            (0, 0)
        }
    };
    let controller = format!(r#"{{"version":1,"brokerid":{id},"timestamp":"0"}}"#);
    let next = (epoch + 1).to_string();
    let won = session.multi(&[
        Op::create(
            paths::CONTROLLER,
            controller.as_bytes(),
            CreateMode::Ephemeral,
        ),
        Op::set(paths::CONTROLLER_EPOCH, next.as_bytes(), Some(version)),
    ]);
    assert!(won.is_ok(), "broker {id} can't win the role: {won:?}");
    session
}

/// A client without a name, which understands that it is to wait.
pub fn anonymous() -> Claimant {
    Claimant {
        user: "ANONYMOUS".to_owned(),
        client_id: String::new(),
        enforcement: QuotaEnforcement::Strict,
    }
}

/// The PLAINTEXT listener of a node.
pub fn endpoint(id: i32) -> Endpoint {
    Endpoint {
        listener: Arc::from("PLAINTEXT"),
        host: Arc::from(format!("host{id}")),
        port: 9092,
        security_protocol: SecurityProtocol::Plaintext,
    }
}

/// `/brokers/ids/N` as a genuine broker of this protocol writes it.
fn registration(
    id: i32,
    ibp: InterBrokerProtocol,
    endpoints: &[Endpoint],
    rack: Option<&str>,
) -> String {
    let listeners: Vec<String> = endpoints.iter().map(|e| format!("\"{e}\"")).collect();
    let protocols: Vec<String> = endpoints
        .iter()
        .map(|e| format!("\"{}\":\"{}\"", e.listener, e.security_protocol.name()))
        .collect();
    let rack = rack.map_or(String::new(), |rack| format!(r#","rack":"{rack}""#));
    let (version, features) = match ibp.has_feature_versioning() {
        true => (5, r#","features":{}"#),
        false => (4, ""),
    };
    format!(
        r#"{{"version":{version},"host":"host{id}","port":9092,"jmx_port":-1,"timestamp":"0","endpoints":[{}],"listener_security_protocol_map":{{{}}}{features}{rack}}}"#,
        listeners.join(","),
        protocols.join(",")
    )
}
