//! What the leaders among the simulated brokers do by themselves: they change in-sync sets, below IBP 2.7 by writing
//! ZooKeeper, from then on by asking the controller.
//!
//! A leader acts on what it was told, never on what the tree says. Upstream: `Partition.scala`, `AlterPartitionManager`.

use klamm::effect::{Answer, ReplyTo, TopicReference};
use klamm::event::{AlterPartitionItem, AlterPartitionRequest, ControllerEvent};
use klamm::model::{
    BrokerId, BrokerIds, ControllerEpoch, InterBrokerProtocol, LeaderAndIsr, LeaderRecoveryState,
    PartitionEpoch, TopicPartition,
};
use klamm::zk::{paths, znode};

use crate::broker::{LocalReplica, Process, SimBroker};
use crate::world::{World, partition, protocol};
use crate::zookeeper::CreateMode;

/// The AlterPartition version that a broker of this release sends, if its topic has an id.
pub(crate) fn alter_partition_version(release: InterBrokerProtocol) -> i16 {
    match release {
        release if release >= protocol("3.5") => 3,
        release if release >= protocol("3.3") => 2,
        release if release >= protocol("3.2") => 1,
        _ => 0,
    }
}

impl World {
    /// The broker that leads a partition in its own eyes, under the highest epoch.
    fn leader_of(&self, of: &TopicPartition) -> Option<(BrokerId, LocalReplica)> {
        let cluster = self.cluster.borrow();
        let leaders = cluster
            .values()
            .filter(|broker| broker.process == Process::Running)
            .filter_map(|broker| Some((broker.id, broker.leads(of)?.clone())));
        leaders.max_by_key(|(_, replica)| replica.leader_epoch)
    }

    /// The leader of a partition writes a new in-sync set into ZooKeeper and leaves a notice, as below IBP 2.7. `false`:
    /// its version was stale, and nothing changed.
    pub fn leader_writes_isr(&mut self, of: &str, isr: &[i32]) -> bool {
        let of = partition(of);
        let Some((id, replica)) = self.leader_of(&of) else {
            panic!("nobody leads {of}");
        };
        let path = paths::state(&of);
        let state = LeaderAndIsr {
            leader: id,
            leader_epoch: replica.leader_epoch,
            isr: BrokerIds::from(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        };
        let epoch = self.broker(id.0, |broker| broker.controller_epoch);
        let data = znode::encode_state(&state, ControllerEpoch(epoch.0));
        let session = self.session(id.0).clone();
        let Ok(stat) = session.set(&path, &data, Some(replica.partition_epoch.0)) else {
            return false;
        };
        let notice = znode::encode_isr_change(std::slice::from_ref(&of));
        let parent = format!("{}/isr_change_", paths::ISR_CHANGE_NOTIFICATION);
        let made = session.create(&parent, &notice, CreateMode::PersistentSequential);
        assert!(made.is_ok(), "{made:?}");
        self.broker_mut(id.0, |broker| {
            learn(broker, &of, &state.isr, PartitionEpoch(stat.version));
        });
        true
    }

    /// What the leader of a partition asks the controller for to get a new in-sync set, as from IBP 2.7 on.
    pub fn isr_request(&self, of: &str, isr: &[i32]) -> AlterPartitionRequest {
        let of = partition(of);
        let Some((id, replica)) = self.leader_of(&of) else {
            panic!("nobody leads {of}");
        };
        let (release, topic_id) = self.broker(id.0, |broker| {
            (broker.release, broker.logs.get(&of).copied().flatten())
        });
        let version = alter_partition_version(release);
        let (version, topic) = match topic_id {
            Some(topic_id) if version >= 2 => (version, TopicReference::Id(topic_id)),
            _ => (version.min(1), TopicReference::Name(of.topic.clone())),
        };
        AlterPartitionRequest {
            version,
            from: self.incarnation(id.0),
            partitions: vec![AlterPartitionItem {
                topic,
                partition: of.partition,
                leader_epoch: replica.leader_epoch,
                new_isr: BrokerIds::from(isr),
                leader_recovery_state: LeaderRecoveryState::Recovered,
                partition_epoch: replica.partition_epoch,
            }],
        }
    }

    /// Sends an AlterPartition to the first klamm.
    pub fn send_isr_request(&mut self, request: AlterPartitionRequest) -> ReplyTo {
        let reply_to = self.klamm().open_slot();
        let event = ControllerEvent::AlterPartitionReceived { request, reply_to };
        self.klamm().queue.put(event);
        reply_to
    }

    /// The leader of a partition gets a new in-sync set from the controller, and learns what it was answered.
    pub fn leader_asks_isr(&mut self, of: &str, isr: &[i32]) -> Answer {
        let request = self.isr_request(of, isr);
        let id = request.from.broker;
        let slot = self.send_isr_request(request);
        self.settle();
        let answer = self.answer_to(slot);
        if let Answer::AlterPartition(Ok(answers)) = &answer {
            for one in answers {
                if let Ok(state) = &one.result {
                    let (isr, epoch) = (state.isr.clone(), state.partition_epoch());
                    self.broker_mut(id.0, |broker| learn(broker, &partition(of), &isr, epoch));
                }
            }
        }
        answer
    }

    /// Every leader adds the followers that fetch from it to its in-sync set, until no set grows any more.
    pub fn catch_up(&mut self) {
        self.settle();
        for (of, isr) in self.sets_to_grow() {
            let leads_by_asking = match self.leader_of(&partition(&of)) {
                Some((id, _)) => self.broker(id.0, |broker| broker.protocol.has_alter_partition()),
                None => continue,
            };
            if leads_by_asking {
                self.leader_asks_isr(&of, &isr);
            } else {
                self.leader_writes_isr(&of, &isr);
            }
            self.settle();
        }
    }

    /// Partitions whose leader has followers that fetch from it under its epoch and are not in its in-sync set.
    fn sets_to_grow(&self) -> Vec<(String, Vec<i32>)> {
        let cluster = self.cluster.borrow();
        let running = |broker: &&SimBroker| broker.process == Process::Running;
        let mut sets = Vec::new();
        for leader in cluster.values().filter(running) {
            for (of, led) in &leader.replicas {
                // Of what its clients don't know a leader tells followers that it doesn't exist.
                if led.leader != leader.id || !leader.cache.contains_key(of) {
                    continue;
                }
                let fetches = |id: &BrokerId| {
                    let follower = cluster.get(id).filter(running);
                    let replica = follower.and_then(|follower| follower.replicas.get(of));
                    replica.is_some_and(|replica| {
                        replica.is_fetching
                            && replica.leader == leader.id
                            && replica.leader_epoch == led.leader_epoch
                    })
                };
                let joining = led.replicas.iter();
                let joining = joining.filter(|id| !led.isr.contains(*id) && fetches(id));
                let grown: Vec<i32> = led.isr.iter().chain(joining).map(|id| id.0).collect();
                if grown.len() > led.isr.len() {
                    sets.push((of.to_string(), grown));
                }
            }
        }
        sets
    }

    /// A broker loses the log directory that these partitions are in, and leaves a notice.
    pub fn fail_log_dir(&mut self, id: i32, lost: &[&str]) {
        let lost: Vec<TopicPartition> = lost.iter().map(|of| partition(of)).collect();
        self.broker_mut(id, |broker| broker.fail_log_dir(&lost));
        let parent = format!("{}/log_dir_event_", paths::LOG_DIR_EVENT_NOTIFICATION);
        let notice = znode::encode_log_dir_event(BrokerId(id));
        let session = self.session(id).clone();
        let made = session.create(&parent, &notice, CreateMode::PersistentSequential);
        assert!(made.is_ok(), "{made:?}");
    }
}

/// Takes in what a leader was answered.
fn learn(broker: &mut SimBroker, of: &TopicPartition, isr: &BrokerIds, epoch: PartitionEpoch) {
    // An answer that comes after a later LeaderAndIsr is no news.
    if let Some(replica) = broker.replicas.get_mut(of)
        && replica.partition_epoch < epoch
    {
        replica.isr = isr.clone();
        replica.partition_epoch = epoch;
    }
}
