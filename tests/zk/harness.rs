//! Genuine servers, one of each version for all tests, each test below a chroot of its own; and a queue that records.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use klamm::config::ZooKeeperConnect;
use klamm::effect::{Read, Term, TopicZnode, ZkOutcome, ZkWrite};
use klamm::event::{ControllerEvent, EventSink};
use klamm::model::{
    Broker, BrokerId, BrokerIds, ControllerEpoch, Endpoint, Features, LeaderAndIsr, LeaderEpoch,
    PartitionEpoch, ReplicaAssignment, SecurityProtocol, TopicName, TopicPartition,
};
use klamm::port::{Taking, Zk};
use klamm::zk::{Observer, Session, SessionState, Settings, StartError, ZkClient, znode};
use klamm_rig::jars::Jars;
use klamm_rig::run::Run;
use klamm_rig::version::KafkaVersion;
use klamm_rig::zookeeper::ZooKeeper;
use tokio::sync::{Notify, oneshot};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

pub const KLAMM: BrokerId = BrokerId(900);
pub const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
pub const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
/// Between two looks at what is waited for.
const POLL: Duration = Duration::from_millis(20);
/// Long enough for anything that happens at all.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A ZooKeeper that was started.
pub struct Server {
    _run: Run,
    pub zookeeper: ZooKeeper,
}

impl Server {
    pub fn start(version: KafkaVersion) -> Server {
        let run = Run::start("zk").unwrap();
        let zookeeper = ZooKeeper::start(&run, Jars::of(version).unwrap()).unwrap();
        Server {
            _run: run,
            zookeeper,
        }
    }
}

/// ZooKeeper 3.8.
pub fn modern() -> &'static str {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(KafkaVersion::V3_9_2));
    &server.zookeeper.connect
}

/// ZooKeeper 3.5: no reads in groups, no persistent watches.
pub fn old() -> &'static str {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(KafkaVersion::V2_4_1));
    &server.zookeeper.connect
}

/// ZooKeeper 3.4.
pub fn ancient() -> &'static str {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(KafkaVersion::V1_1_1));
    &server.zookeeper.connect
}

/// A path that no other test uses.
pub fn fresh_chroot() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("/test-{}", NUMBER.fetch_add(1, Ordering::SeqCst))
}

/// klamm's session under test, with a plain client beside it that plays everybody else.
pub struct Fixture {
    pub session: Session,
    pub zk: ZkClient,
    pub events: Arc<Events>,
    /// Sees the same chroot, directly.
    pub others: Client,
    pub server: &'static str,
    pub chroot: String,
}

impl Fixture {
    /// A session through `address` (a proxy, or the server itself) with a cluster's base paths.
    pub async fn through(server: &'static str, address: &str, session_ms: u32) -> Fixture {
        let chroot = fresh_chroot();
        let events = Arc::new(Events::default());
        let session = start(address, &chroot, session_ms, &events, KLAMM)
            .await
            .unwrap();
        let zk = session.client().clone();
        zk.create_base_paths().await.unwrap();
        let others = Client::connect(&format!("{server}{chroot}")).await.unwrap();
        Fixture {
            session,
            zk,
            events,
            others,
            server,
            chroot,
        }
    }

    pub async fn at(server: &'static str) -> Fixture {
        Fixture::through(server, server, 6_000).await
    }

    /// Another klamm on the same cluster.
    pub async fn another(&self, id: BrokerId) -> Session {
        let events = Arc::new(Events::default());
        start(self.server, &self.chroot, 6_000, &events, id)
            .await
            .unwrap()
    }

    /// Takes the role, whoever holds it.
    pub async fn lead(&self) -> Term {
        let view = self.zk.role_view().await.unwrap();
        match self.zk.take_role(&view, &klamm(KLAMM)).await.unwrap() {
            Taking::Won(term) => term,
            Taking::Raced => panic!("nobody else was there to race with: {view:?}"),
        }
    }

    /// Topics of `partitions` partitions each, without states.
    pub async fn create_topics(&self, topics: usize, partitions: i32) -> Vec<TopicName> {
        let names: Vec<TopicName> = (0..topics)
            .map(|number| TopicName::new(&format!("topic-{number:05}")))
            .collect();
        let data = znode::encode_topic(&TopicZnode {
            topic_id: None,
            partitions: (0..partitions)
                .map(|p| (p, ReplicaAssignment::settled(BrokerIds::from([1, 2]))))
                .collect(),
            version: 0,
        });
        for slice in names.chunks(200) {
            let mut writer = self.others.new_multi_writer();
            for name in slice {
                let path = format!("/brokers/topics/{name}");
                writer.add_create(&path, &data, &PERSISTENT).unwrap();
            }
            writer.commit().await.unwrap();
        }
        names
    }

    /// Creates states for partitions, which must work.
    pub async fn create_states(&self, term: &Term, partitions: &[TopicPartition]) {
        let writes: Vec<ZkWrite> = partitions.iter().map(|p| create(p, term, 0)).collect();
        let outcomes = self.zk.write(term, &writes).await.unwrap();
        for outcome in outcomes {
            assert_eq!(outcome, ZkOutcome::Written { version: 0 });
        }
    }

    /// Whose session an ephemeral node is.
    pub async fn ephemeral_owner(&self, path: &str) -> Option<i64> {
        let stat = self.others.check_stat(path).await.unwrap();
        stat.map(|stat| stat.ephemeral_owner)
    }
}

pub async fn start(
    address: &str,
    chroot: &str,
    session_timeout_ms: u32,
    events: &Arc<Events>,
    id: BrokerId,
) -> Result<Session, StartError> {
    let settings = Settings {
        connect: ZooKeeperConnect::parse(&format!("{address}{chroot}")).unwrap(),
        session_timeout_ms,
        connection_timeout_ms: 10_000,
        id,
    };
    let sink: Arc<dyn EventSink> = Arc::<Events>::clone(events);
    let observer: Arc<dyn Observer> = Arc::<Events>::clone(events);
    Session::start(settings, sink, observer).await
}

/// A klamm as it registers itself.
pub fn klamm(id: BrokerId) -> Broker {
    Broker {
        id,
        endpoints: vec![Endpoint {
            listener: Arc::from("PLAINTEXT"),
            host: Arc::from("localhost"),
            port: 9092,
            security_protocol: SecurityProtocol::Plaintext,
        }],
        rack: None,
        features: Features::new(),
    }
}

/// `partitions` partitions of each topic.
pub fn partitions_of(topics: &[TopicName], partitions: i32) -> Vec<TopicPartition> {
    let of_topic = |topic| (0..partitions).map(move |p| TopicPartition::new(topic, p));
    topics.iter().flat_map(of_topic).collect()
}

pub fn led_by(leader: i32) -> LeaderAndIsr {
    LeaderAndIsr::initial(BrokerId(leader), BrokerIds::from([1, 2]))
}

/// The creation of a state; `leader` tells one state from another.
pub fn create(partition: &TopicPartition, term: &Term, leader: i32) -> ZkWrite {
    ZkWrite::CreateState {
        partition: partition.clone(),
        leader_and_isr: led_by(leader),
        controller_epoch: term.epoch,
    }
}

/// A change of a state.
pub fn set(partition: &TopicPartition, term: &Term, leader: i32, expected: i32) -> ZkWrite {
    ZkWrite::SetState {
        partition: partition.clone(),
        leader_and_isr: LeaderAndIsr {
            leader_epoch: LeaderEpoch(expected + 1),
            ..led_by(leader)
        },
        controller_epoch: term.epoch,
        expected: PartitionEpoch(expected),
    }
}

/// The leader that a read state names.
pub fn leader<E: std::fmt::Debug>(
    read: Result<Vec<Read<klamm::effect::StateRead>>, E>,
) -> Vec<i32> {
    let leader_of = |read: Read<klamm::effect::StateRead>| match read {
        Read::Found(state) => state.leader_and_isr.leader.0,
        other => panic!("no state: {other:?}"),
    };
    read.unwrap().into_iter().map(leader_of).collect()
}

pub const FIRST: ControllerEpoch = ControllerEpoch(1);

/// A queue that keeps all it was given, and counts requests and connections.
#[derive(Default)]
pub struct Events {
    requests: AtomicU64,
    connections: AtomicU64,
    log: Mutex<Vec<ControllerEvent>>,
    more: Notify,
    expiry: Mutex<Option<oneshot::Sender<()>>>,
}

impl Observer for Events {
    fn request_done(&self, _took: Duration) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    fn session_changed(&self, state: SessionState) {
        if state == SessionState::Connected {
            self.connections.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Events {
    /// How many requests were answered so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// How often a connection came up so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn seen(&self) -> Vec<ControllerEvent> {
        self.seen_since(0)
    }

    /// What came after the first `taken`.
    pub fn seen_since(&self, taken: usize) -> Vec<ControllerEvent> {
        self.log
            .lock()
            .unwrap()
            .get(taken..)
            .unwrap_or_default()
            .to_vec()
    }

    pub fn forget(&self) {
        self.log.lock().unwrap().clear();
    }

    /// Waits until `wanted` was put.
    pub async fn wait_for(&self, wanted: &ControllerEvent) {
        let waiting = async {
            loop {
                let more = self.more.notified();
                if self.seen().contains(wanted) {
                    return;
                }
                more.await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{wanted:?} never came; seen: {:?}", self.seen());
        }
    }

    /// Says that the Expire event was handled.
    pub fn expiry_is_handled(&self) {
        let waiting = self.expiry.lock().unwrap().take();
        waiting.unwrap().send(()).unwrap();
    }
}

impl EventSink for Events {
    fn put(&self, event: ControllerEvent) {
        self.log.lock().unwrap().push(event);
        self.more.notify_waiters();
    }

    fn clear_and_put(&self, event: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (done, handled) = oneshot::channel();
        *self.expiry.lock().unwrap() = Some(done);
        self.put(event);
        Box::pin(async move { handled.await.unwrap() })
    }
}

/// Asks again and again until it is so.
pub async fn until(what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !probe().await {
            tokio::time::sleep(POLL).await;
        }
    };
    if tokio::time::timeout(PATIENCE, asking).await.is_err() {
        panic!("waited in vain for {what}");
    }
}
