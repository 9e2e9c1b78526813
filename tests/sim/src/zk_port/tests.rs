//! That the port keeps the contract which the controller relies on. The cases are those of `KafkaZkClientTest` that
//! concern the controller, and what klamm asks beyond them.

use std::sync::Arc;

use klamm::effect::{NotificationName, ProducerIdBlock};
use klamm::event::{ControllerEvent, Sweep};
use klamm::model::{
    BrokerIds, ControllerEpoch, Endpoint, LeaderAndIsr, PartitionEpoch, ReplicaAssignment,
    SecurityProtocol,
};
use klamm::port::Holder;
use klamm::zk::{paths, znode};

use super::*;
use crate::drive::now;
use crate::zookeeper::{CreateMode, ZkError};

struct Fixture {
    zookeeper: ZooKeeper,
    queue: SimQueue,
    port: SimZk,
}

fn fixture() -> Fixture {
    watching(TopicWatches::Recursive)
}

fn watching(watches: TopicWatches) -> Fixture {
    let (zookeeper, time) = (ZooKeeper::new(), VirtualTime::default());
    let queue = SimQueue::new(&time);
    let port = SimZk::new(&zookeeper, BrokerId(9), &time, &queue, watches);
    port.open_session();
    now(port.create_base_paths()).unwrap();
    Fixture {
        zookeeper,
        queue,
        port,
    }
}

impl Fixture {
    fn events(&self) -> Vec<ControllerEvent> {
        std::iter::from_fn(|| self.queue.take()).collect()
    }

    fn view(&self) -> RoleView {
        now(self.port.role_view()).unwrap()
    }

    fn take(&self) -> Taking {
        now(self.port.take_role(&self.view(), &me())).unwrap()
    }

    fn won(&self) -> Term {
        match self.take() {
            Taking::Won(term) => term,
            Taking::Raced => panic!("nobody else was there"),
        }
    }

    fn write(&self, term: &Term, writes: &[ZkWrite]) -> Vec<ZkOutcome> {
        now(self.port.write(term, writes)).unwrap()
    }

    fn text(&self, path: &str) -> Option<String> {
        self.zookeeper.look(path).map(|node| node.text())
    }

    fn put_topic(&self, name: &str) {
        let path = paths::topic(&TopicName::new(name));
        let data = br#"{"version":1,"partitions":{"0":[1,2]}}"#;
        self.zookeeper.poke(&path, data);
    }
}

fn me() -> Broker {
    Broker {
        id: BrokerId(9),
        endpoints: vec![Endpoint {
            listener: Arc::from("PLAINTEXT"),
            host: Arc::from("127.0.0.9"),
            port: 9092,
            security_protocol: SecurityProtocol::Plaintext,
        }],
        rack: None,
        features: Default::default(),
    }
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(&TopicName::new(topic), index)
}

fn led_by(leader: i32) -> LeaderAndIsr {
    LeaderAndIsr::initial(BrokerId(leader), BrokerIds::from([leader]))
}

fn create_state(topic: &str, index: i32) -> ZkWrite {
    ZkWrite::CreateState {
        partition: partition(topic, index),
        leader_and_isr: led_by(1),
        controller_epoch: ControllerEpoch(1),
    }
}

fn set_state(topic: &str, index: i32, leader: i32, expected: i32) -> ZkWrite {
    ZkWrite::SetState {
        partition: partition(topic, index),
        leader_and_isr: led_by(leader),
        controller_epoch: ControllerEpoch(1),
        expected: PartitionEpoch(expected),
    }
}

const WRITTEN_0: ZkOutcome = ZkOutcome::Written { version: 0 };
const WRITTEN_1: ZkOutcome = ZkOutcome::Written { version: 1 };

#[test]
fn the_first_term_has_epoch_one_and_registers_klamm_with_its_mark() {
    let it = fixture();
    assert_eq!(it.view().holder, Holder::Nobody);
    assert_eq!(it.view().epoch, None);
    assert_eq!(it.won().epoch, ControllerEpoch(1));
    assert_eq!(it.view().holder, Holder::Ourselves);
    assert_eq!(it.text(paths::CONTROLLER_EPOCH).as_deref(), Some("1"));
    let registration = it.zookeeper.look("/brokers/ids/9").unwrap();
    assert!(znode::is_klamm_registration(registration.data()));
    assert_eq!(
        registration.stat().owner,
        it.port.session().map(|session| session.id())
    );
}

#[test]
fn a_takeover_moves_role_and_fence_at_once_and_the_old_holder_hears_of_it() {
    let it = fixture();
    let heard = SimQueue::new(&VirtualTime::default());
    let ears = heard.clone();
    let java = it
        .zookeeper
        .connect(move |_| ears.put(ControllerEvent::Reelect));
    it.zookeeper.poke(paths::CONTROLLER_EPOCH, b"7");
    let controller = br#"{"version":1,"brokerid":2,"timestamp":"0"}"#;
    java.create(paths::CONTROLLER, controller, CreateMode::Ephemeral)
        .unwrap();
    java.exists_and_watch(paths::CONTROLLER).unwrap();
    let holder = Holder::Broker {
        id: BrokerId(2),
        version: 0,
    };
    assert_eq!(it.view().holder, holder);
    let term = it.won();
    assert_eq!((term.epoch, term.epoch_zk_version), (ControllerEpoch(8), 1));
    assert_eq!(heard.take(), Some(ControllerEvent::Reelect));
    assert_eq!(
        java.set(paths::CONTROLLER_EPOCH, b"9", Some(0)),
        Err(ZkError::BadVersion)
    );
}

#[test]
fn a_takeover_decided_on_an_old_view_is_a_lost_race_and_changes_nothing() {
    let it = fixture();
    it.zookeeper.poke(paths::CONTROLLER_EPOCH, b"7");
    let view = it.view();
    let java = it.zookeeper.connect_deaf();
    let controller = br#"{"version":1,"brokerid":2,"timestamp":"0"}"#;
    java.create(paths::CONTROLLER, controller, CreateMode::Ephemeral)
        .unwrap();
    let before = it.zookeeper.dump();
    assert_eq!(now(it.port.take_role(&view, &me())), Ok(Taking::Raced));
    assert_eq!(it.zookeeper.dump(), before);
}

#[test]
fn a_takeover_whose_answer_was_lost_is_known_by_the_owner_of_the_node() {
    let it = fixture();
    it.port.faults().at_next(Call::TakeRole, Fault::LossAfter);
    assert!(matches!(it.take(), Taking::Won(_)));
    assert_eq!(it.view().epoch.unwrap().epoch, ControllerEpoch(1));

    let twin = fixture();
    twin.port
        .faults()
        .at_next(Call::TakeRole, Fault::LossBefore);
    assert!(matches!(twin.take(), Taking::Won(_)));
}

#[test]
fn leftovers_of_a_former_life_are_replaced() {
    let it = fixture();
    it.won();
    let queue = SimQueue::new(&VirtualTime::default());
    let time = VirtualTime::default();
    let again = SimZk::new(
        &it.zookeeper,
        BrokerId(9),
        &time,
        &queue,
        Default::default(),
    );
    again.open_session();
    let view = now(again.role_view()).unwrap();
    assert_eq!(view.holder, Holder::Namesake { version: 0 });
    assert_eq!(view.own_registration, Some(0));
    let Ok(Taking::Won(term)) = now(again.take_role(&view, &me())) else {
        panic!("the leftover stands in the way");
    };
    assert_eq!(term.epoch, ControllerEpoch(2));
    let owner = it.zookeeper.look("/brokers/ids/9").unwrap().stat().owner;
    assert_eq!(owner, again.session().map(|session| session.id()));
}

#[test]
fn holders_are_told_apart() {
    let it = fixture();
    let cases: [(&[u8], Holder); 3] = [
        (
            br#"{"version":2,"brokerid":8,"timestamp":"0","klamm":true}"#,
            Holder::Klamm {
                id: BrokerId(8),
                version: 0,
            },
        ),
        (
            br#"{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":4}"#,
            Holder::Kraft,
        ),
        (
            br#"{"version":2,"brokerid":1,"timestamp":"0","kraftControllerEpoch":-1}"#,
            Holder::Broker {
                id: BrokerId(1),
                version: 0,
            },
        ),
    ];
    for (data, holder) in cases {
        it.zookeeper.poke(paths::CONTROLLER, data);
        assert_eq!(it.view().holder, holder);
        it.zookeeper.uproot(paths::CONTROLLER);
    }
    it.zookeeper.poke(paths::CONTROLLER, b"broken");
    assert!(matches!(it.view().holder, Holder::Unreadable { .. }));
}

#[test]
fn a_release_takes_both_nodes_and_nobody_elses() {
    let it = fixture();
    let term = it.won();
    it.port
        .faults()
        .at_next(Call::ReleaseRole, Fault::LossAfter);
    now(it.port.release_role(&term)).unwrap();
    assert!(it.zookeeper.look(paths::CONTROLLER).is_none());
    assert!(it.zookeeper.look("/brokers/ids/9").is_none());
    it.zookeeper.poke(paths::CONTROLLER_EPOCH, b"2");
    assert_eq!(now(it.port.release_role(&term)), Err(ZkFault::Fenced));
}

#[test]
fn state_writes_are_judged_each_by_itself() {
    let it = fixture();
    let term = it.won();
    it.put_topic("t");
    let outcomes = it.write(
        &term,
        &[
            create_state("t", 0),
            create_state("t", 1),
            create_state("t", 0),
            create_state("gone", 0),
        ],
    );
    assert_eq!(
        outcomes,
        [
            WRITTEN_0,
            WRITTEN_0,
            ZkOutcome::AlreadyExists,
            ZkOutcome::Missing
        ]
    );
    let outcomes = it.write(
        &term,
        &[
            set_state("t", 0, 2, 0),
            set_state("t", 1, 2, 5),
            set_state("t", 2, 2, 0),
        ],
    );
    assert_eq!(
        outcomes,
        [WRITTEN_1, ZkOutcome::VersionConflict, ZkOutcome::Missing]
    );
    let states =
        now(it
            .port
            .partition_states(&[partition("t", 0), partition("t", 7), partition("t", 1)]))
        .unwrap();
    assert!(matches!(&states[0], Read::Found(state) if state.leader_and_isr == led_by(2)));
    assert_eq!(states[1], Read::Missing);
    assert!(matches!(&states[2], Read::Found(state) if state.leader_and_isr == led_by(1)));
}

#[test]
fn a_write_under_a_former_term_changes_nothing() {
    let it = fixture();
    let term = it.won();
    it.put_topic("t");
    it.zookeeper.poke(paths::CONTROLLER_EPOCH, b"2");
    let before = it.zookeeper.dump();
    let written = now(it.port.write(&term, &[create_state("t", 0)]));
    assert_eq!(written, Err(ZkFault::Fenced));
    assert_eq!(it.zookeeper.dump(), before);
}

#[test]
fn a_write_whose_answer_was_lost_counts_as_written_where_it_took_hold() {
    for lost in [Fault::LossAfter, Fault::LossBefore] {
        let it = fixture();
        let term = it.won();
        it.put_topic("t");
        it.zookeeper.poke(paths::PRODUCER_ID_BLOCK, b"");
        let notice = NotificationName("isr_change_0000000000".to_owned());
        it.zookeeper.poke(&paths::isr_change(&notice), b"");
        let block = ProducerIdBlock {
            broker: BrokerId(1),
            first: 0,
            last: 999,
        };
        it.port.faults().at_next(Call::Write, lost);
        let outcomes = it.write(
            &term,
            &[
                create_state("t", 0),
                ZkWrite::DeleteIsrChangeNotification(notice),
                ZkWrite::SetProducerIdBlock { block, expected: 0 },
            ],
        );
        assert_eq!(outcomes, [WRITTEN_0, WRITTEN_0, WRITTEN_1]);
        let node = it.zookeeper.look(paths::PRODUCER_ID_BLOCK).unwrap();
        assert_eq!(node.stat().version, 1, "the block was handed out once");
    }
}

#[test]
fn somebody_elses_write_is_never_taken_for_our_own() {
    let it = fixture();
    let term = it.won();
    it.put_topic("t");
    it.write(&term, &[create_state("t", 0)]);
    let leader = it.zookeeper.connect_deaf();
    let path = paths::state(&partition("t", 0));
    let theirs = znode::encode_state(&led_by(3), ControllerEpoch(1));
    leader.set(&path, &theirs, Some(0)).unwrap();
    it.port.faults().at_next(Call::Write, Fault::LossAfter);
    assert_eq!(
        it.write(&term, &[set_state("t", 0, 2, 0)]),
        [ZkOutcome::VersionConflict]
    );
}

#[test]
fn broken_and_missing_nodes_cost_only_themselves() {
    let it = fixture();
    it.put_topic("good");
    it.zookeeper.poke("/brokers/topics/bad", b"{");
    let names = ["good", "bad", "gone"].map(TopicName::new);
    let reads = now(it.port.topics(&names)).unwrap();
    assert!(matches!(&reads[0], Read::Found(znode)
        if znode.partitions[&0] == ReplicaAssignment::settled(BrokerIds::from([1, 2]))));
    assert!(matches!(&reads[1], Read::Broken(why) if why.contains("/brokers/topics/bad")));
    assert_eq!(reads[2], Read::Missing);

    it.zookeeper.poke("/brokers/ids/1", b"");
    let session = it.zookeeper.connect_deaf();
    let registration = znode::encode_broker(&me(), 4, 0);
    let (_, stat) = session
        .create("/brokers/ids/2", &registration, CreateMode::Ephemeral)
        .unwrap();
    let brokers = now(it.port.brokers()).unwrap();
    assert!(matches!(&brokers[0], (BrokerId(1), Read::Broken(_))));
    assert!(
        matches!(&brokers[1], (BrokerId(2), Read::Found(found)) if found.epoch.0 == stat.czxid)
    );
    assert_eq!(brokers.len(), 2);
}

#[test]
fn missing_parents_read_as_empty() {
    let (zookeeper, time) = (ZooKeeper::new(), VirtualTime::default());
    let queue = SimQueue::new(&time);
    let port = SimZk::new(&zookeeper, BrokerId(9), &time, &queue, Default::default());
    port.open_session();
    assert_eq!(now(port.brokers()), Ok(Vec::new()));
    assert_eq!(now(port.topic_names()), Ok(Vec::new()));
    assert_eq!(now(port.topic_deletions()), Ok(Vec::new()));
    assert_eq!(now(port.klamm_ids()), Ok(BTreeSet::new()));
    assert_eq!(now(port.isr_change_notifications()), Ok(Vec::new()));
    assert_eq!(now(port.feature()), Ok(Read::Missing));
    let topic = TopicName::new("t");
    let unset = Read::Found(ElectionConfig::default());
    assert_eq!(now(port.topic_configs(&[topic])), Ok(vec![unset]));
    assert_eq!(now(port.default_broker_config()), Ok(Read::Missing));
}

#[test]
fn klamm_ids_stay() {
    let it = fixture();
    now(it.port.record_klamm_id()).unwrap();
    now(it.port.record_klamm_id()).unwrap();
    it.zookeeper.poke("/klamm/ids/strange", b"");
    it.zookeeper.expire(it.port.session().unwrap().id());
    it.port.open_session();
    assert_eq!(now(it.port.klamm_ids()), Ok(BTreeSet::from([BrokerId(9)])));
}

#[test]
fn watches_say_where_to_look() {
    for watches in [TopicWatches::Recursive, TopicWatches::OneShot] {
        let it = watching(watches);
        let broker = it.zookeeper.connect_deaf();
        let registration = znode::encode_broker(&me(), 4, 0);
        broker
            .create("/brokers/ids/2", &registration, CreateMode::Ephemeral)
            .unwrap();
        it.put_topic("t");
        it.view();
        now(it.port.brokers()).unwrap();
        now(it.port.topic_names()).unwrap();
        now(it.port.topics(&[TopicName::new("t")])).unwrap();
        now(it.port.isr_change_notifications()).unwrap();
        now(it.port.log_dir_event_notifications()).unwrap();
        now(it.port.topic_deletions()).unwrap();
        now(it.port.record_klamm_id()).unwrap();
        now(it.port.klamm_ids()).unwrap();
        it.events();
        let then = |act: &dyn Fn(), expected: ControllerEvent| {
            act();
            assert_eq!(it.events(), [expected], "{watches:?}");
        };
        let poke = |path: &str, data: &[u8]| it.zookeeper.poke(path, data);
        let t = TopicName::new("t");
        then(
            &|| poke("/brokers/topics/t", b"{}"),
            ControllerEvent::PartitionModifications(t),
        );
        then(&|| it.put_topic("u"), ControllerEvent::TopicChange);
        then(
            &|| poke("/brokers/ids/2", b"{}"),
            ControllerEvent::BrokerModifications(BrokerId(2)),
        );
        then(
            &|| poke("/brokers/ids/3", b"{}"),
            ControllerEvent::BrokerChange,
        );
        then(
            &|| poke("/isr_change_notification/isr_change_0000000000", b""),
            ControllerEvent::IsrChangeNotification,
        );
        then(
            &|| poke("/log_dir_event_notification/log_dir_event_0000000000", b""),
            ControllerEvent::LogDirEventNotification,
        );
        then(
            &|| poke("/admin/delete_topics/t", b""),
            ControllerEvent::TopicDeletion,
        );
        then(
            &|| poke(paths::CONTROLLER, b"{}"),
            ControllerEvent::ControllerChange,
        );
        it.view();
        then(
            &|| it.zookeeper.uproot(paths::CONTROLLER),
            ControllerEvent::Reelect,
        );
        then(
            &|| poke(paths::KLAMM_HOLD, b""),
            ControllerEvent::KlammNodesChange,
        );
        then(
            &|| poke("/klamm/ids/8", b""),
            ControllerEvent::KlammNodesChange,
        );
        poke("/brokers/topics/t/partitions/0/state", b"{}");
        poke("/config/topics/t", b"{}");
        assert_eq!(it.events(), [], "states are not listened to");
    }
}

#[test]
fn a_broker_that_died_is_one_change_of_the_list() {
    let it = fixture();
    let broker = it.zookeeper.connect_deaf();
    let registration = znode::encode_broker(&me(), 4, 0);
    broker
        .create("/brokers/ids/2", &registration, CreateMode::Ephemeral)
        .unwrap();
    now(it.port.brokers()).unwrap();
    it.events();
    broker.close();
    assert_eq!(it.events(), [ControllerEvent::BrokerChange]);
}

#[test]
fn an_expiry_clears_the_queue_and_hands_out_what_was_in_it() {
    let it = fixture();
    it.queue.put(ControllerEvent::TopicChange);
    it.port
        .faults()
        .at_next(Call::TopicNames, Fault::SessionLostBefore);
    assert_eq!(now(it.port.topic_names()), Err(ZkFault::SessionLost));
    assert_eq!(it.events(), [ControllerEvent::Expire]);
    let preempted = it.port.take_preempted();
    assert_eq!(preempted[0].event, ControllerEvent::TopicChange);
    assert_eq!(now(it.port.brokers()), Err(ZkFault::SessionLost));
    it.port.open_session();
    assert_eq!(now(it.port.brokers()), Ok(Vec::new()));
}

#[test]
fn after_a_cut_connection_everything_is_looked_at_again() {
    let it = fixture();
    assert_eq!(now(it.port.brokers()), Ok(Vec::new()));
    it.events();
    it.port.faults().at_next(Call::Feature, Fault::LossBefore);
    assert_eq!(now(it.port.feature()), Ok(Read::Missing));
    let events = it.events();
    for look in [
        ControllerEvent::ControllerChange,
        ControllerEvent::KlammNodesChange,
        ControllerEvent::BrokerChange,
        ControllerEvent::TopicChange,
        ControllerEvent::AntiEntropy(Sweep::Begin),
    ] {
        assert!(events.contains(&look), "{look:?}");
    }
    it.zookeeper.poke("/brokers/ids/3", b"{}");
    assert_eq!(it.events(), [], "its watch ended with the connection");
    it.put_topic("t");
    assert_eq!(
        it.events(),
        [ControllerEvent::TopicChange],
        "the recursive watch was armed again"
    );
}
