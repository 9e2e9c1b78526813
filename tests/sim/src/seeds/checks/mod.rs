//! The checkers: what must hold in every world, looked at from outside.
//!
//! They see what ZooKeeper's transactions did and what brokers were told, never what a controller meant. A breach ends the
//! run. Must never forgive what a user would suffer from.

mod permission;
pub mod records;
mod states;
mod strays;
mod wishes;

use std::collections::BTreeMap;

use klamm::effect::ProducerIdBlock;
use klamm::model::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicName, TopicPartition,
};
use klamm::zk::paths::{self, TopicPath};
use klamm::zk::znode;

use super::trace::Trace;
use crate::broker::{Process, SimBroker};
use crate::replica_log::{Record, ReplicaLog};
use crate::request::Request;
use crate::world::{KLAMM, World};
use crate::zookeeper::{SessionId, Transaction};

use permission::Permissions;
use records::{Leadership, Records};
use states::{Author, States};
use strays::Strays;
use wishes::Wishes;

/// Under which controller epoch which incarnation of a broker was told something last.
type Attended = BTreeMap<BrokerId, (i32, BrokerEpoch)>;

/// For so long a klamm that hung may have overlooked a hold.
const HOLD_MS: u64 = 30_000;

/// A controller that was cut off may have overlooked for so long that a broker is gone.
const LONG_GONE_MS: u64 = 20_000;

/// See the file's comment.
#[derive(Debug, Default)]
pub struct Checks {
    transactions_seen: usize,
    /// Who was elected under which epoch.
    terms: BTreeMap<i32, (BrokerId, SessionId)>,
    epoch: i32,
    states: States,
    strays: Strays,
    attended: Attended,
    /// Under which controller epoch topics went, and whom that controller had reached.
    gone: BTreeMap<TopicName, (i32, Attended)>,
    /// Under which controller epoch somebody last asked for a topic's deletion.
    marked: BTreeMap<TopicName, i32>,
    /// Which process of a broker wasn't reached then.
    missed: BTreeMap<(BrokerId, TopicName), u64>,
    permissions: Permissions,
    wishes: Wishes,
    records: Records,
    /// Under which epoch a broker was last seen to lead a partition, and in which life of its process.
    leading: BTreeMap<(BrokerId, TopicPartition), (u64, LeaderEpoch)>,
    hold_since_ms: Option<u64>,
    /// The blocks of producer ids that brokers heard of: the first of each, and the last.
    producer_ids: BTreeMap<i64, i64>,
    /// Since when brokers' registrations are gone.
    gone_since_ms: BTreeMap<BrokerId, u64>,
    /// What doesn't hold.
    breaches: Vec<String>,
}

impl Checks {
    /// Looks at all that happened since this was last called.
    pub fn see(&mut self, world: &World, trace: &mut Trace) {
        let transactions = world.zookeeper.transactions_since(self.transactions_seen);
        self.transactions_seen += transactions.len();
        for transaction in transactions {
            self.see_transaction(world, &transaction, trace);
        }
        self.see_leaders(world);
        if !self.breaches.is_empty() {
            panic!("{}", self.breaches.join("\n"));
        }
    }

    /// Whoever begins to lead has all that was acknowledged, unless an unclean election lost it by right.
    fn see_leaders(&mut self, world: &World) {
        let cluster = world.cluster.borrow();
        let running = |broker: &&SimBroker| broker.process == Process::Running;
        for broker in cluster.values().filter(running) {
            for (at, replica) in &broker.replicas {
                if replica.leader != broker.id {
                    continue;
                }
                let seen = (broker.starts, replica.leader_epoch);
                let key = (broker.id, at.clone());
                if self.leading.get(&key) == Some(&seen) {
                    continue;
                }
                self.leading.insert(key, seen);
                self.begins_to_lead(world, broker, at, replica.leader_epoch);
            }
        }
    }

    fn begins_to_lead(
        &mut self,
        world: &World,
        broker: &SimBroker,
        at: &TopicPartition,
        leader_epoch: LeaderEpoch,
    ) {
        let leadership = Leadership {
            partition: at,
            leader: broker.id,
            leader_epoch,
        };
        let empty = ReplicaLog::default();
        let log = broker.disk.get(at).unwrap_or(&empty);
        if self.states.was_elected_uncleanly(at, leader_epoch) {
            self.records.forgive(&world.zookeeper, leadership, log);
            return;
        }
        let whole = self
            .records
            .leader_has_all(&world.zookeeper, leadership, log);
        self.breaches.extend(whole.err());
    }

    /// A record was acknowledged to its producer.
    pub fn acknowledged(
        &mut self,
        world: &World,
        broker: BrokerId,
        at: &TopicPartition,
        record: Record,
    ) {
        let leader_epoch = world.broker(broker.0, |broker| {
            broker.replicas.get(at).map(|replica| replica.leader_epoch)
        });
        if let Some(leader_epoch) = leader_epoch {
            let leadership = Leadership {
                partition: at,
                leader: broker,
                leader_epoch,
            };
            self.records
                .acknowledged(&world.zookeeper, leadership, record);
        }
    }

    /// Whether a broker should have forgotten a topic: it was there when the controller in office deleted it, and since.
    pub fn should_have_forgotten(&self, broker: &SimBroker, topic: &TopicName) -> bool {
        let missed = self.missed.get(&(broker.id, topic.clone()));
        // What an earlier controller announced before its states went is announced by nobody again, as upstream.
        let by_another = self.marked.get(topic) != Some(&self.epoch);
        if by_another || missed == Some(&broker.starts) || self.strays.is_muddled(topic) {
            return false;
        }
        self.gone.get(topic).is_some_and(|(epoch, attended)| {
            let there = Some(&(self.epoch, broker.epoch));
            *epoch == self.epoch && attended.get(&broker.id) == there
        })
    }

    /// Whether the controller in office can't know of a log that a move left behind.
    pub fn is_beyond(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        self.strays.is_beyond(broker, at, self.epoch)
    }

    /// A broker took a request.
    pub fn took(&mut self, broker: BrokerId, request: &Request) {
        let told = (request.controller_epoch.0, request.broker_epoch);
        self.attended.insert(broker, told);
    }

    /// How many records were acknowledged.
    pub fn records(&self) -> usize {
        self.records.count()
    }

    /// Every leader has all that was acknowledged.
    pub fn leaders_have_all(&mut self, world: &World) -> Vec<String> {
        self.leading.clear();
        self.see_leaders(world);
        std::mem::take(&mut self.breaches)
    }

    fn see_transaction(&mut self, world: &World, transaction: &Transaction, trace: &mut Trace) {
        self.see_role(world, transaction);
        let author = self.author(world, transaction.session);
        let now_ms = world.time.now_ms();
        let wishes = self.wishes.see(&transaction.nodes, author, &self.strays);
        self.breaches.extend(wishes);
        for (path, node) in &transaction.nodes {
            self.breaches
                .extend(self.of_no_term(author, transaction.session, path));
            self.permissions.see(path, node.as_ref(), now_ms);
            if trace.is_kept() && is_worth_a_line(path) {
                match node {
                    Some(node) => trace.line(
                        now_ms,
                        format_args!("{author:?} {path} v{} {}", node.stat().version, node.text()),
                    ),
                    None => trace.line(now_ms, format_args!("{author:?} {path} gone")),
                }
            }
            if let Some(id) = path.strip_prefix(paths::BROKER_IDS).and_then(id_of) {
                match node {
                    Some(_) => _ = self.gone_since_ms.remove(&id),
                    None => _ = self.gone_since_ms.insert(id, now_ms),
                }
            }
            if let Some(name) = path.strip_prefix(paths::DELETE_TOPICS)
                && let Some(name) = name.strip_prefix('/')
                && node.is_some()
            {
                self.marked.insert(TopicName::new(name), self.epoch);
            }
            if node.is_none()
                && let Some(TopicPath::Topic(topic)) = paths::topic_path(path)
            {
                self.note_who_missed(world, &topic);
                self.breaches
                    .extend(self.deleted_too_early(world, author, &topic));
                self.gone.insert(topic, (self.epoch, self.attended.clone()));
            }
            let attended = &self.attended;
            let is_attended = |id: BrokerId| {
                let cluster = world.cluster.borrow();
                let broker = cluster.get(&id);
                broker.is_some_and(|broker| attended.get(&id) == Some(&(self.epoch, broker.epoch)))
            };
            self.strays
                .see(path, node.as_ref(), self.epoch, is_attended);
            let Some(at) = states::partition_of(path) else {
                continue;
            };
            let may_be_unclean = self.permissions.allow(&at, now_ms);
            let breach = self
                .states
                .see(&at, node.as_ref(), author, self.epoch, may_be_unclean);
            self.breaches
                .extend(breach.map(|why| format!("{path}: {why}")));
            for id in self.states.joined(author) {
                let gone = self.gone_since_ms.get(&id);
                if gone.is_some_and(|since_ms| since_ms + LONG_GONE_MS < now_ms) {
                    self.breaches.push(format!(
                        "{path}: {author:?} let broker {id} into the in-sync set, which is long gone"
                    ));
                }
            }
        }
    }

    /// Whatever a klamm writes of the cluster it writes in the newest term, which it won in this very session.
    fn of_no_term(&self, author: Author, session: SessionId, path: &str) -> Option<String> {
        let Author::Klamm(id) = author else {
            return None;
        };
        let is_of_cluster = [
            "/brokers/topics/",
            "/admin/delete_topics/",
            "/isr_change_notification/",
            "/log_dir_event_notification/",
            "/config/changes/",
            paths::REASSIGN_PARTITIONS,
            paths::PREFERRED_REPLICA_ELECTION,
        ];
        if !is_of_cluster.iter().any(|of| path.starts_with(of)) {
            return None;
        }
        let newest = self.terms.get(&self.epoch);
        (newest != Some(&(id, session)))
            .then(|| format!("{path}: klamm {id} wrote it under a term that is not its own"))
    }

    /// A klamm removes a topic once each replica's log is gone: what stays would be part of a new topic of that name.
    fn deleted_too_early(
        &self,
        world: &World,
        author: Author,
        topic: &TopicName,
    ) -> Option<String> {
        if !matches!(author, Author::Klamm(_)) || self.strays.is_muddled(topic) {
            return None;
        }
        let kept = self.strays.assigned(topic).find(|(broker, at)| {
            let cluster = world.cluster.borrow();
            let broker = cluster.get(broker);
            broker.is_some_and(|broker| broker.keeps_log(at))
        });
        kept.map(|(broker, at)| {
            format!("{author:?} removed topic {topic}, and broker {broker} keeps the log of {at}")
        })
    }

    /// Processes that no controller reached when a topic went know it for as long as they live.
    fn note_who_missed(&mut self, world: &World, topic: &TopicName) {
        for broker in world.cluster.borrow().values() {
            let told = self.attended.get(&broker.id);
            let is_reached = told == Some(&(self.epoch, broker.epoch));
            if !(is_reached && world.is_registered(broker.id.0)) {
                let key = (broker.id, topic.clone());
                self.missed.insert(key, broker.starts);
            }
        }
    }

    /// Epochs rise by one, each is won by one, and klamms take none while they are held back.
    fn see_role(&mut self, world: &World, transaction: &Transaction) {
        let find = |wanted: &str| {
            let mut nodes = transaction.nodes.iter().rev();
            nodes.find_map(|(path, node)| (path == wanted).then(|| node.clone()).flatten())
        };
        let Some(epoch) = find(paths::CONTROLLER_EPOCH) else {
            return;
        };
        let Ok(ControllerEpoch(number)) = znode::decode_controller_epoch(epoch.data()) else {
            self.breaches
                .push("/controller_epoch holds nonsense".to_owned());
            return;
        };
        if number == self.epoch {
            return;
        }
        if number != self.epoch + 1 && self.epoch != 0 {
            let before = self.epoch;
            self.breaches
                .push(format!("/controller_epoch went from {before} to {number}"));
        }
        self.epoch = number;
        // Up to 2.1 a Java controller makes its node first, and raises the epoch after that.
        let winner = find(paths::CONTROLLER)
            .or_else(|| world.zookeeper.look(paths::CONTROLLER))
            .and_then(|node| znode::decode_controller(node.data()).ok())
            .map(|controller| controller.broker);
        let is_klamm = winner.is_some_and(|id| id.0 >= KLAMM);
        let now_ms = world.time.now_ms();
        let is_held = world.zookeeper.look(paths::KLAMM_HOLD).is_some();
        if is_klamm && is_held && self.hold_since_ms.is_some_and(|at| at + HOLD_MS < now_ms) {
            self.breaches
                .push(format!("{winner:?} took the role under a hold"));
        }
        if let Some(winner) = winner {
            self.terms.insert(number, (winner, transaction.session));
        }
    }

    fn author(&self, world: &World, session: SessionId) -> Author {
        for klamm in &world.klamms {
            if klamm.zk().session().is_some_and(|own| own.id() == session) {
                return Author::Klamm(klamm.id);
            }
        }
        match world.broker_of_session(session) {
            Some(id) => Author::Broker(id),
            None if self.terms.values().any(|(_, of)| *of == session) => Author::Rival,
            None => Author::Operator,
        }
    }

    /// Who was elected under an epoch.
    pub fn controller_of(&self, epoch: ControllerEpoch) -> Option<BrokerId> {
        self.terms.get(&epoch.0).map(|(winner, _)| *winner)
    }

    /// A client asks for leaders of these partitions, in sync or not; `None`: of all.
    pub fn unclean_was_asked(&mut self, partitions: Option<&[TopicPartition]>, now_ms: u64) {
        self.permissions.were_asked(partitions, now_ms);
    }

    /// How often topics of this name have gone.
    pub fn times_gone(&self, topic: &TopicName) -> usize {
        self.wishes.times_gone(topic)
    }

    /// A client was told that its topic was made, or has grown. `times_gone`: when it asked.
    pub fn topic_was_said_to_be_there(
        &mut self,
        world: &World,
        topic: &TopicName,
        count: usize,
        times_gone: usize,
    ) {
        if self.times_gone(topic) == times_gone {
            self.breaches
                .extend(self.wishes.was_made(world, topic, count));
        }
    }

    /// A broker was told that it leads nothing any more: whatever has another replica in sync has another leader.
    pub fn broker_was_let_go(&mut self, world: &World, id: BrokerId) {
        for (at, state) in self.states.led_by(id) {
            let topic = world.readable_topic(at.topic.as_str());
            let assignment = topic.and_then(|topic| topic.partitions.get(&at.partition).cloned());
            let marker = paths::topic_deletion(&at.topic);
            // What moves now had perhaps one replica when it was let go.
            let is_shared = assignment.is_some_and(|assignment| {
                assignment.replicas.len() > 1 && !assignment.is_being_reassigned()
            });
            let is_muddled = self.strays.is_muddled(&at.topic);
            if is_shared && !is_muddled && world.zookeeper.look(&marker).is_none() {
                self.breaches.push(format!(
                    "broker {id} was told that it leads nothing, and leads {at}: {state:?}"
                ));
            }
        }
    }

    /// A broker heard which producer ids are its own: no other's are among them.
    pub fn producer_ids_were_given(&mut self, block: &ProducerIdBlock) {
        let before = self.producer_ids.range(..=block.last).next_back();
        if let Some((first, last)) = before.filter(|(_, last)| **last >= block.first) {
            let breach = format!("{block:?} was given, and {first} to {last} were given before");
            self.breaches.push(breach);
        }
        self.producer_ids.insert(block.first, block.last);
    }

    /// A client that waited was told that no client finds a topic any more: at least one broker has forgotten it.
    pub fn topic_was_said_to_be_gone(&mut self, world: &World, topic: &TopicName, made_at: i64) {
        let node = world.zookeeper.look(&paths::topic(topic));
        if node.is_none_or(|node| node.stat().czxid != made_at) {
            return;
        }
        let cluster = world.cluster.borrow();
        // One that hangs, or whose session has just ended, may be the one that has forgotten it.
        let is_reached = |broker: &&SimBroker| {
            let told = self.attended.get(&broker.id);
            broker.process != Process::Dead && told == Some(&(self.epoch, broker.epoch))
        };
        let mut reached = cluster.values().filter(is_reached);
        let is_there = |broker: &SimBroker| {
            broker.process == Process::Running && world.is_registered(broker.id.0)
        };
        let is_any_there = reached.clone().any(is_there);
        let knows = |broker: &SimBroker| broker.cache.keys().any(|at| at.topic == *topic);
        if is_any_there && reached.all(knows) {
            self.breaches.push(format!(
                "a client was told that {topic} is gone, and every broker tells of it"
            ));
        }
    }

    /// An operator put the hold on all klamms, none being there.
    pub fn hold_was_put(&mut self, now_ms: u64) {
        self.hold_since_ms = Some(now_ms);
    }
}

/// The broker of what follows `/brokers/ids`.
fn id_of(rest: &str) -> Option<BrokerId> {
    paths::id_of_child(rest.strip_prefix('/')?)
}

fn is_worth_a_line(path: &str) -> bool {
    path != "/"
}
