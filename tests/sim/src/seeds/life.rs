//! What genuine brokers do by themselves: followers copy, leaders append, commit, and change their in-sync sets.
//!
//! A broker acts on what it was told by control requests and by its followers, never on what the tree says. Must never
//! let a broker do something that its process could not: one that hangs does nothing, one that is dead keeps its disk
//! alone. Upstream: `Partition.scala`, `ReplicaManager.scala`, `ReplicaFetcherThread.scala`.

mod alter_partition;
mod fetch;
mod isr;
mod leading;
mod memory;
mod zk_isr;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use klamm::effect::Answer;
use klamm::event::AlterPartitionRequest;
use klamm::model::{BrokerId, InterBrokerProtocol, TopicPartition};

use crate::broker::{Process, SimBroker};
use crate::brokers::Cluster;
use crate::chance::{Chance, Rate, Span};
use crate::replica_log::Record;
use crate::zookeeper::ZkSession;
use leading::IsrChange;
use memory::{FIRST_WITH_STEADY_WISHES, Known, Memory, Role};

/// Leaders wait for, and let in, live brokers alone from here on (KIP-841).
const RELEASE_3_3: InterBrokerProtocol = InterBrokerProtocol::new(3, 3, 0);

/// What brokers find around them.
pub trait Surroundings {
    /// Milliseconds since the world began.
    fn now_ms(&self) -> u64;
    /// The broker's ZooKeeper session; `None` while it has none.
    fn session(&self, broker: BrokerId) -> Option<ZkSession>;
    /// Sends an AlterPartition to the controller that the broker knows of. `false`: it knows of none.
    ///
    /// `true`: the answer comes through [`Life::isr_answered`], once, also where the connection is lost. One to a process
    /// that has died since must not come any more. A broker does not wait for ever: after 30 s it takes the connection for
    /// lost (`controller.socket.timeout.ms`), which is for the surroundings to say.
    fn ask_isr(&mut self, broker: BrokerId, request: AlterPartitionRequest) -> bool;
    /// A record was acknowledged to its producer: the leader's high watermark has passed it. A later leader that had not
    /// heard of it yet says so again.
    fn acknowledged(&mut self, broker: BrokerId, partition: &TopicPartition, record: Record);
    /// Whether a follower's requests reach a leader.
    fn reaches(&self, follower: BrokerId, leader: BrokerId) -> bool {
        let _ = (follower, leader);
        true
    }
}

/// How brokers live in a world.
#[derive(Debug, Clone)]
pub struct Habits {
    /// Records that one fetch of a partition brings at most; 1 or more.
    pub fetch_records: usize,
    /// `replica.lag.time.max.ms`.
    pub lag_ms_max: u64,
    /// How often a leader is sent a record for a partition, at each tick.
    pub produce: Rate,
    /// How long a broker waits before it asks the controller again.
    pub isr_retry_ms: u64,
    /// How often a follower stops fetching a partition, at each fetch.
    pub stall: Rate,
    /// For how long it then does not fetch it.
    pub stall_ms: Span,
}

impl Default for Habits {
    /// Kafka's defaults; followers don't stall.
    fn default() -> Habits {
        Habits {
            fetch_records: 100,
            lag_ms_max: 30_000,
            produce: Rate(100_000),
            isr_retry_ms: 50,
            stall: Rate::NEVER,
            stall_ms: Span::NONE,
        }
    }
}

/// Whether anything is produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Producers {
    Busy,
    Quiet,
}

/// The life of all brokers of a world.
#[derive(Debug)]
pub struct Life {
    habits: Habits,
    chance: Chance,
    producers: Producers,
    records_made: u64,
    memories: BTreeMap<BrokerId, Option<Memory>>,
}

impl Life {
    /// Brokers with these habits, of which nothing is known yet.
    pub fn new(habits: Habits, chance: Chance) -> Life {
        Life {
            habits,
            chance,
            producers: Producers::Busy,
            records_made: 0,
            memories: BTreeMap::new(),
        }
    }

    /// Producers stop, and followers stall no more. All else goes on.
    pub fn calm_down(&mut self) {
        self.habits.stall = Rate::NEVER;
        self.quiet();
    }

    /// Producers stop. All else goes on.
    pub fn quiet(&mut self) {
        self.producers = Producers::Quiet;
    }

    /// A broker does what it has to do now. No time passes; one that doesn't run does nothing.
    pub fn tick(&mut self, cluster: &Cluster, broker: BrokerId, around: &mut impl Surroundings) {
        let now_ms = around.now_ms();
        if !self.looks_around(cluster, broker, now_ms) {
            return;
        }
        if let Some(answer) = self.memory(broker).and_then(|memory| memory.unread.take()) {
            self.hear_answer(cluster, broker, answer, around);
        }
        self.fetch(cluster, broker, around);
        self.append(cluster, broker);
        self.commit(cluster, broker, around);
        self.shrink(cluster, broker, around);
        self.settle_writes(cluster, broker, around);
        self.notify(broker, around);
        self.ask(cluster, broker, around);
    }

    /// The answer to a broker's AlterPartition; `None`: the connection was lost.
    pub fn isr_answered(
        &mut self,
        cluster: &Cluster,
        broker: BrokerId,
        answer: Option<Answer>,
        around: &mut impl Surroundings,
    ) {
        let now_ms = around.now_ms();
        if self.looks_around(cluster, broker, now_ms) {
            self.hear_answer(cluster, broker, answer, around);
            self.commit(cluster, broker, around);
            return;
        }
        let hangs = cluster
            .borrow()
            .get(&broker)
            .is_some_and(|broker| broker.process == Process::Paused);
        if let Some(memory) = self.memory(broker).filter(|_| hangs) {
            memory.unread = Some(answer);
        }
    }

    /// Whether a broker has no change of an in-sync set under way, and none that the controller has yet to hear of.
    pub fn is_at_rest(&self, broker: BrokerId) -> bool {
        let Some(Some(memory)) = self.memories.get(&broker) else {
            return true;
        };
        let is_sure = |known: &Known| match &known.role {
            Role::Leads(leading) => !matches!(leading.change, IsrChange::Unsure(_)),
            Role::Follows(_) => true,
        };
        memory.asker.is_empty()
            && memory.notices.is_empty()
            && memory.unread.is_none()
            && memory.partitions.values().all(is_sure)
    }

    /// Whether a broker up to 3.0 waits for an answer that it has had: it took the refusal of an older wish for that of a new
    /// one which is the same set, and changes nothing more until it is told to lead anew.
    pub fn is_wedged(&self, cluster: &Cluster, id: BrokerId) -> bool {
        let Some(Some(memory)) = self.memories.get(&id) else {
            return false;
        };
        let is_old = |broker: &SimBroker| broker.release < FIRST_WITH_STEADY_WISHES;
        let waits = |(partition, known): (&TopicPartition, &Known)| match &known.role {
            Role::Leads(leading) => {
                matches!(leading.change, IsrChange::Pending(_)) && !memory.asker.has(partition)
            }
            Role::Follows(_) => false,
        };
        cluster.borrow().get(&id).is_some_and(is_old) && memory.partitions.iter().any(waits)
    }

    /// A running broker takes in what it was ordered since. `false`: it doesn't run.
    fn looks_around(&mut self, cluster: &Cluster, id: BrokerId, now_ms: u64) -> bool {
        let cluster = cluster.borrow();
        let running = cluster
            .get(&id)
            .filter(|broker| broker.process == Process::Running);
        let Some(broker) = running else {
            return false;
        };
        Memory::of(self.memories.entry(id).or_default(), broker, now_ms);
        true
    }

    fn memory(&mut self, broker: BrokerId) -> Option<&mut Memory> {
        self.memories.get_mut(&broker)?.as_mut()
    }

    /// The partitions that a broker leads.
    fn led_by(&self, broker: BrokerId) -> Vec<TopicPartition> {
        let Some(Some(memory)) = self.memories.get(&broker) else {
            return Vec::new();
        };
        let known = memory.partitions.iter();
        let led = known.filter(|(_, known)| matches!(known.role, Role::Leads(_)));
        led.map(|(partition, _)| partition.clone()).collect()
    }

    /// Producers send to a leader, whoever it is in its own eyes.
    fn append(&mut self, cluster: &Cluster, id: BrokerId) {
        if self.producers == Producers::Quiet {
            return;
        }
        let mut cluster = cluster.borrow_mut();
        let Some(broker) = cluster.get_mut(&id) else {
            return;
        };
        for (partition, replica) in &broker.replicas {
            // min.insync.replicas is 1.
            let leads = replica.leader == id && !replica.isr.is_empty();
            if !leads || !self.chance.strikes(self.habits.produce) {
                continue;
            }
            self.records_made += 1;
            let record = Record {
                leader_epoch: replica.leader_epoch,
                id: self.records_made,
            };
            let log = broker.disk.entry(partition.clone()).or_default();
            log.append(record);
        }
    }

    /// Leaders raise their high watermarks as far as they may.
    fn commit(&mut self, cluster: &Cluster, id: BrokerId, around: &mut impl Surroundings) {
        let (now_ms, lag_ms_max) = (around.now_ms(), self.habits.lag_ms_max);
        let mut committed: Vec<(TopicPartition, Vec<Record>)> = Vec::new();
        {
            let mut cluster = cluster.borrow_mut();
            let (Some(broker), Some(memory)) = (cluster.get_mut(&id), self.memory(id)) else {
                return;
            };
            let SimBroker {
                replicas,
                disk,
                alive,
                release,
                ..
            } = broker;
            let counts = |id| *release < RELEASE_3_3 || alive.contains_key(&id);
            for (partition, known) in &memory.partitions {
                let (Role::Leads(leading), Some(replica), Some(log)) = (
                    &known.role,
                    replicas.get(partition),
                    disk.get_mut(partition),
                ) else {
                    continue;
                };
                let end = log.end();
                if end == log.high_watermark || replica.isr.is_empty() {
                    continue;
                }
                let to = leading.committable(replica, end, now_ms, lag_ms_max, counts);
                let records = to.map(|to| log.commit(to)).unwrap_or_default();
                if !records.is_empty() {
                    committed.push((partition.clone(), records.to_vec()));
                }
            }
        }
        for (partition, records) in committed {
            for record in records {
                around.acknowledged(id, &partition, record);
            }
        }
    }
}
