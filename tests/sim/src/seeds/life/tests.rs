//! Small clusters in which brokers live as they do, led by hand: the test is their controller.

mod alter_partition;
mod changes;
mod copies;

use std::collections::{BTreeMap, BTreeSet};

use klamm::effect::{
    AlterPartitionAnswer, AnnouncedLeadership, ByTopic, Committed, LeaderAndIsrPartition,
    ReplicaDisposal, StateRead, StopReplicaPartition, TopicReference, UpdateMetadataPartition,
};
use klamm::event::AlterPartitionItem;
use klamm::model::{
    Broker, BrokerEpoch, BrokerIds, ControllerEpoch, KafkaError, LeaderAndIsr, LeaderEpoch,
    LeaderRecoveryState, PartitionEpoch, ReplicaAssignment, TopicId,
};
use klamm::zk::{paths, znode};

use super::*;
use crate::clock::VirtualTime;
use crate::replica_log::ReplicaLog;
use crate::request::{Body, Request};
use crate::world::{partition, protocol};
use crate::zookeeper::ZooKeeper;

const LAG_MS: u64 = 10_000;
const ALWAYS: Rate = Rate(1_000_000);

/// What the brokers of a test find around them.
struct Around {
    time: VirtualTime,
    sessions: BTreeMap<BrokerId, ZkSession>,
    knows_controller: bool,
    cut: BTreeSet<(BrokerId, BrokerId)>,
    asked: Vec<AlterPartitionRequest>,
    acknowledged: Vec<(BrokerId, Record)>,
}

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn session(&self, broker: BrokerId) -> Option<ZkSession> {
        self.sessions.get(&broker).cloned()
    }

    fn ask_isr(&mut self, _: BrokerId, request: AlterPartitionRequest) -> bool {
        if self.knows_controller {
            self.asked.push(request);
        }
        self.knows_controller
    }

    fn acknowledged(&mut self, broker: BrokerId, _: &TopicPartition, record: Record) {
        self.acknowledged.push((broker, record));
    }

    fn reaches(&self, follower: BrokerId, leader: BrokerId) -> bool {
        !self.cut.contains(&(follower, leader))
    }
}

struct Small {
    zookeeper: ZooKeeper,
    cluster: Cluster,
    around: Around,
    life: Life,
    topic_id: Option<TopicId>,
}

/// Brokers 1 to 3 of a release at a protocol, started.
fn small(release: &str, ibp: &str) -> Small {
    small_with(release, ibp, Habits::default())
}

fn small_with(release: &str, ibp: &str, habits: Habits) -> Small {
    let zookeeper = ZooKeeper::new();
    for path in paths::BASE_PATHS {
        zookeeper.poke(path, b"");
    }
    let cluster = Cluster::default();
    let mut sessions = BTreeMap::new();
    for id in [1, 2, 3].map(BrokerId) {
        let mut broker = SimBroker::new(id, protocol(release), protocol(ibp));
        broker.start(BrokerEpoch(i64::from(id.0)));
        cluster.borrow_mut().insert(id, broker);
        sessions.insert(id, zookeeper.connect_deaf());
    }
    let habits = Habits {
        lag_ms_max: LAG_MS,
        produce: Rate::NEVER,
        ..habits
    };
    Small {
        zookeeper,
        cluster,
        around: Around {
            time: VirtualTime::default(),
            sessions,
            knows_controller: true,
            cut: BTreeSet::new(),
            asked: Vec::new(),
            acknowledged: Vec::new(),
        },
        life: Life::new(habits, Chance::of(1, "life")),
        topic_id: protocol(ibp)
            .has_topic_ids()
            .then(|| TopicId::new([7; 16]).unwrap()),
    }
}

impl Small {
    fn broker<T>(&self, id: i32, with: impl FnOnce(&mut SimBroker) -> T) -> T {
        with(self.cluster.borrow_mut().get_mut(&BrokerId(id)).unwrap())
    }

    fn log(&self, id: i32, of: &str) -> ReplicaLog {
        self.broker(id, |broker| broker.disk.get(&partition(of)).cloned())
            .unwrap_or_default()
    }

    fn ids(&self, id: i32, of: &str) -> Vec<u64> {
        self.log(id, of).records.iter().map(|r| r.id).collect()
    }

    /// What the state says: leader epoch, in-sync set, version.
    fn state(&self, of: &str) -> (i32, Vec<i32>, i32) {
        let path = paths::state(&partition(of));
        let node = self.zookeeper.look(&path).unwrap();
        let read = znode::decode_state(&path, node.data(), node.stat().version);
        let state = read.found().unwrap();
        let led = state.leader_and_isr;
        (
            led.leader_epoch.0,
            led.isr.as_i32s().to_vec(),
            state.partition_epoch.0,
        )
    }

    /// Writes a state as a controller does.
    fn write(&self, of: &str, leader: i32, isr: &[i32], epoch: i32) -> Committed<LeaderAndIsr> {
        let path = paths::state(&partition(of));
        let state = LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            isr: BrokerIds::from(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        };
        let data = znode::encode_state(&state, ControllerEpoch(1));
        self.zookeeper.poke(&path, &data);
        let version = self.zookeeper.look(&path).unwrap().stat().version;
        StateRead {
            leader_and_isr: state,
            controller_epoch: ControllerEpoch(1),
            partition_epoch: PartitionEpoch(version),
        }
        .into()
    }

    /// Elects a leader among brokers 1 to 3, and tells some of them.
    fn elect(&self, of: &str, leader: i32, isr: &[i32], epoch: i32, told: &[i32]) {
        let state = self.write(of, leader, isr, epoch);
        self.tell(of, &state, told);
    }

    fn tell(&self, of: &str, state: &Committed<LeaderAndIsr>, told: &[i32]) {
        let of = partition(of);
        let replicas = BrokerIds::from([1, 2, 3]);
        let alive: Vec<Broker> = [1, 2, 3].map(named).into();
        let metadata = Body::UpdateMetadata {
            live_brokers: alive.into(),
            number: 0,
            topics: vec![self.by_topic(
                &of,
                UpdateMetadataPartition {
                    partition: of.partition,
                    leadership: AnnouncedLeadership::Committed(state.clone()),
                    replicas: replicas.clone(),
                    offline_replicas: BrokerIds::empty(),
                },
            )]
            .into(),
        };
        let order = Body::LeaderAndIsr(vec![self.by_topic(
            &of,
            LeaderAndIsrPartition {
                partition: of.partition,
                state: state.clone(),
                assignment: ReplicaAssignment::settled(replicas),
                is_new: false,
            },
        )]);
        for id in told {
            self.send(*id, &metadata);
            self.send(*id, &order);
        }
    }

    fn stop(&self, id: i32, of: &str) {
        let of = partition(of);
        let stop = StopReplicaPartition {
            partition: of.partition,
            leader_epoch: LeaderEpoch(-2),
            disposal: ReplicaDisposal::Delete,
        };
        self.send(id, &Body::StopReplica(vec![self.by_topic(&of, stop)]));
    }

    fn by_topic<T>(&self, of: &TopicPartition, one: T) -> ByTopic<T> {
        ByTopic {
            topic: of.topic.clone(),
            topic_id: self.topic_id,
            partitions: vec![one],
        }
    }

    fn send(&self, id: i32, body: &Body) {
        self.broker(id, |broker| {
            broker.handle(&Request {
                controller_epoch: ControllerEpoch(1),
                broker_epoch: broker.epoch,
                protocol: broker.protocol,
                body: body.clone(),
            })
        });
    }

    /// One tick of each of these.
    fn tick(&mut self, ids: &[i32]) {
        for id in ids {
            self.life
                .tick(&self.cluster, BrokerId(*id), &mut self.around);
        }
    }

    /// Time passes, with a tick of each of these every 50 ms.
    fn pass(&mut self, ms: u64, ids: &[i32]) {
        for _ in 0..ms / 50 {
            let now_ms = self.around.now_ms();
            self.around.time.move_to(now_ms + 50);
            self.tick(ids);
        }
    }

    /// A producer sends one record to a leader.
    fn produce(&mut self, leader: i32) {
        self.life.habits.produce = ALWAYS;
        self.tick(&[leader]);
        self.life.habits.produce = Rate::NEVER;
    }

    fn restart(&self, id: i32) {
        self.broker(id, |broker| {
            broker.process = Process::Dead;
            let epoch = BrokerEpoch(broker.epoch.0 + 10);
            broker.start(epoch);
        });
    }

    fn set_process(&self, id: i32, process: Process) {
        self.broker(id, |broker| broker.process = process);
    }

    fn acknowledged(&self) -> Vec<u64> {
        let each = self.around.acknowledged.iter();
        each.map(|(_, record)| record.id).collect()
    }

    /// What was asked last.
    fn last_asked(&self) -> &AlterPartitionRequest {
        self.around.asked.last().unwrap()
    }

    /// The in-sync sets that were asked for, in order.
    fn sets_asked(&self) -> Vec<Vec<i32>> {
        let each = self.around.asked.iter().flat_map(|r| &r.partitions);
        each.map(|item| item.new_isr.as_i32s().to_vec()).collect()
    }

    fn answer(&mut self, broker: i32, answer: Option<Answer>) {
        let id = BrokerId(broker);
        self.life
            .isr_answered(&self.cluster, id, answer, &mut self.around);
    }

    /// The controller grants all that was asked last.
    fn grant(&mut self, broker: i32) {
        let items = self.last_asked().partitions.clone();
        let answers = items.into_iter().map(|item| self.granted(broker, item));
        let answers = Answer::AlterPartition(Ok(answers.collect()));
        self.answer(broker, Some(answers));
    }

    fn granted(&self, broker: i32, item: AlterPartitionItem) -> AlterPartitionAnswer {
        let of = match &item.topic {
            TopicReference::Name(name) => TopicPartition::new(name, item.partition),
            TopicReference::Id(_) => partition(&format!("t-{}", item.partition)),
        };
        let isr = item.new_isr.as_i32s();
        let state = self.write(&of.to_string(), broker, isr, item.leader_epoch.0);
        AlterPartitionAnswer {
            topic: item.topic,
            partition: item.partition,
            result: Ok(state),
        }
    }

    /// The controller refuses the partitions asked about last, each with a code.
    fn refuse(&mut self, broker: i32, codes: &[KafkaError]) {
        let items = self.last_asked().partitions.clone();
        let answers = items.into_iter().zip(codes);
        let answers = answers.map(|(item, code)| AlterPartitionAnswer {
            topic: item.topic,
            partition: item.partition,
            result: Err(*code),
        });
        let answers = Answer::AlterPartition(Ok(answers.collect()));
        self.answer(broker, Some(answers));
    }
}

fn named(id: i32) -> Broker {
    Broker {
        id: BrokerId(id),
        endpoints: Vec::new(),
        rack: None,
        features: Default::default(),
    }
}

const ALL: &[i32] = &[1, 2, 3];
