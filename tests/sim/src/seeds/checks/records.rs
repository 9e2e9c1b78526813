//! No record that was acknowledged to its producer is ever lost, unless an unclean election was allowed to lose it.
//!
//! A partition that is deleted and created again begins a new life with nothing acknowledged. Which life a broker leads is
//! told by ZooKeeper's states: the latest in which it led under that leader epoch. So a leader of a partition long gone,
//! which has not heard of it, speaks for that one. Must never look at what the controller believes.

use std::collections::{BTreeMap, BTreeSet};

use klamm::effect::Read;
use klamm::model::{BrokerId, LeaderEpoch, TopicPartition};
use klamm::zk::{paths, znode};

use crate::replica_log::{Record, ReplicaLog};
use crate::zookeeper::ZooKeeper;

/// A broker that leads a partition in its own eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership<'a> {
    /// What it leads.
    pub partition: &'a TopicPartition,
    /// Who leads.
    pub leader: BrokerId,
    /// Under which epoch.
    pub leader_epoch: LeaderEpoch,
}

/// All that was acknowledged in a world.
#[derive(Debug, Default)]
pub struct Records {
    lives: BTreeMap<TopicPartition, Lives>,
    /// By partition and the number of its life.
    acknowledged: BTreeMap<(TopicPartition, usize), Acknowledged>,
    count: usize,
}

/// Who led in which life of a partition, as far as the states have been read.
#[derive(Debug, Default)]
struct Lives {
    states_read: usize,
    count: usize,
    led: BTreeMap<(BrokerId, LeaderEpoch), usize>,
}

#[derive(Debug, Default)]
struct Acknowledged {
    /// In the order of the log, each with the leader epoch under which it was acknowledged first.
    records: Vec<(LeaderEpoch, Record)>,
    ids: BTreeSet<u64>,
    /// The epoch of the last unclean election that was allowed: what leaders before it say is void.
    forgiven: Option<LeaderEpoch>,
}

impl Records {
    /// How many records were acknowledged, forgiven ones included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A leader's high watermark has passed a record. One that was acknowledged before is no news.
    pub fn acknowledged(&mut self, zookeeper: &ZooKeeper, by: Leadership<'_>, record: Record) {
        let Some(known) = self.of(zookeeper, by) else {
            return;
        };
        if known.forgiven.is_some_and(|epoch| by.leader_epoch < epoch)
            || !known.ids.insert(record.id)
        {
            return;
        }
        known.records.push((by.leader_epoch, record));
        self.count += 1;
    }

    /// Whether a leader has all that was acknowledged under its leader epoch and before, in the same order. To be asked when
    /// a broker begins to lead, and of every leader at the end.
    ///
    /// # Errors
    /// The first record that it lacks.
    pub fn leader_has_all(
        &mut self,
        zookeeper: &ZooKeeper,
        leader: Leadership<'_>,
        log: &ReplicaLog,
    ) -> Result<(), String> {
        let Some(known) = self.of(zookeeper, leader) else {
            return Ok(());
        };
        let mut held = log.records.iter();
        let due = known.records.iter();
        let mut due = due.filter(|(under, _)| *under <= leader.leader_epoch);
        let Some((under, lost)) = due.find(|(_, record)| !held.any(|one| one == record)) else {
            return Ok(());
        };
        let Leadership {
            partition,
            leader,
            leader_epoch,
        } = leader;
        let place = if log.records.contains(lost) {
            "out of order"
        } else {
            "missing"
        };
        Err(format!(
            "{partition}: record {} of leader epoch {}, acknowledged under leader epoch {under}, is {place} in the log of broker {leader}, which leads under leader epoch {leader_epoch} and holds {} records; {} were acknowledged",
            lost.id,
            lost.leader_epoch,
            log.end(),
            known.records.len(),
        ))
    }

    /// A leader was elected uncleanly, as its topic allows: what it doesn't have is lost by right, and what leaders before
    /// it still acknowledge is void. To be told when it begins to lead.
    pub fn forgive(&mut self, zookeeper: &ZooKeeper, leader: Leadership<'_>, log: &ReplicaLog) {
        let Some(known) = self.of(zookeeper, leader) else {
            return;
        };
        let held: BTreeSet<&Record> = log.records.iter().collect();
        let epoch = leader.leader_epoch;
        known
            .records
            .retain(|(under, record)| *under > epoch || held.contains(record));
        known.ids = known.records.iter().map(|(_, record)| record.id).collect();
        known.forgiven = known.forgiven.max(Some(epoch));
    }

    /// What was acknowledged in the life that a leader leads; `None`: ZooKeeper never held that it does.
    fn of(&mut self, zookeeper: &ZooKeeper, by: Leadership<'_>) -> Option<&mut Acknowledged> {
        let lives = match self.lives.get_mut(by.partition) {
            Some(lives) => lives,
            None => self.lives.entry(by.partition.clone()).or_default(),
        };
        lives.read(zookeeper, by.partition);
        let life = *lives.led.get(&(by.leader, by.leader_epoch))?;
        let key = (by.partition.clone(), life);
        Some(self.acknowledged.entry(key).or_default())
    }
}

impl Lives {
    fn read(&mut self, zookeeper: &ZooKeeper, partition: &TopicPartition) {
        let path = paths::state(partition);
        for (version, data) in zookeeper.held_states_from(&path, self.states_read) {
            self.states_read += 1;
            // A node is created with version 0, and never has it again.
            self.count += usize::from(version == 0);
            if let Read::Found(state) = znode::decode_state(&path, &data, version) {
                let led = state.leader_and_isr;
                self.led.insert((led.leader, led.leader_epoch), self.count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::partition;
    use klamm::model::{BrokerIds, ControllerEpoch, LeaderAndIsr};

    struct Fixture {
        zookeeper: ZooKeeper,
        at: TopicPartition,
        records: Records,
    }

    fn fixture() -> Fixture {
        Fixture {
            zookeeper: ZooKeeper::new(),
            at: partition("t-0"),
            records: Records::default(),
        }
    }

    impl Fixture {
        fn elect(&self, leader: i32, epoch: i32) {
            let state = LeaderAndIsr {
                leader_epoch: LeaderEpoch(epoch),
                ..LeaderAndIsr::initial(BrokerId(leader), BrokerIds::from([leader]))
            };
            let data = znode::encode_state(&state, ControllerEpoch(1));
            self.zookeeper.poke(&paths::state(&self.at), &data);
        }

        fn delete(&self) {
            self.zookeeper.uproot("/brokers/topics/t");
        }

        fn acknowledge(&mut self, by: (i32, i32), ids: &[u64]) {
            for id in ids {
                let leader = led(&self.at, by);
                self.records
                    .acknowledged(&self.zookeeper, leader, record(*id));
            }
        }

        fn check(&mut self, by: (i32, i32), held: &[u64]) -> Result<(), String> {
            let leader = led(&self.at, by);
            self.records
                .leader_has_all(&self.zookeeper, leader, &log(held))
        }

        fn forgive(&mut self, by: (i32, i32), held: &[u64]) {
            let leader = led(&self.at, by);
            self.records.forgive(&self.zookeeper, leader, &log(held));
        }
    }

    fn led(partition: &TopicPartition, (leader, epoch): (i32, i32)) -> Leadership<'_> {
        Leadership {
            partition,
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
        }
    }

    fn record(id: u64) -> Record {
        Record {
            leader_epoch: LeaderEpoch(0),
            id,
        }
    }

    fn log(ids: &[u64]) -> ReplicaLog {
        ReplicaLog {
            records: ids.iter().copied().map(record).collect(),
            high_watermark: 0,
        }
    }

    #[test]
    fn a_new_leader_without_an_acknowledged_record_is_found() {
        let mut f = fixture();
        f.elect(1, 0);
        f.acknowledge((1, 0), &[1, 2, 3, 2]);
        assert_eq!(f.records.count(), 3);
        f.elect(2, 1);
        assert_eq!(f.check((2, 1), &[1, 2, 3]), Ok(()));
        assert_eq!(f.check((2, 1), &[1, 2, 3, 4]), Ok(()));
        let lost = f.check((2, 1), &[1, 3]).unwrap_err();
        assert!(lost.contains("record 2 of leader epoch 0"), "{lost}");
        assert!(lost.contains("missing"), "{lost}");
        let moved = f.check((2, 1), &[2, 1, 3]).unwrap_err();
        assert!(moved.contains("out of order"), "{moved}");
    }

    #[test]
    fn two_leaders_that_acknowledge_different_records_are_found() {
        let mut f = fixture();
        f.elect(1, 0);
        f.acknowledge((1, 0), &[1]);
        f.elect(2, 1);
        f.acknowledge((2, 1), &[2]);
        f.acknowledge((1, 0), &[3]);
        assert!(f.check((2, 1), &[1, 2]).is_err());
    }

    #[test]
    fn a_leader_that_hears_late_of_its_election_answers_for_what_was_before_it() {
        let mut f = fixture();
        f.elect(1, 0);
        f.acknowledge((1, 0), &[1]);
        f.elect(2, 1);
        f.elect(3, 2);
        f.acknowledge((3, 2), &[2]);
        assert_eq!(f.check((2, 1), &[1]), Ok(()));
        assert!(f.check((2, 1), &[]).is_err());
    }

    #[test]
    fn an_unclean_election_forgives_what_its_leader_lacks_and_nothing_more() {
        let mut f = fixture();
        f.elect(1, 0);
        f.acknowledge((1, 0), &[1, 2]);
        f.elect(2, 1);
        f.forgive((2, 1), &[1]);
        assert_eq!(f.check((2, 1), &[1]), Ok(()));
        assert!(f.check((2, 1), &[]).is_err());
        // The old leader has not heard of it.
        f.acknowledge((1, 0), &[3]);
        assert_eq!(f.check((2, 1), &[1]), Ok(()));
        f.acknowledge((2, 1), &[4]);
        f.elect(1, 2);
        assert!(f.check((1, 2), &[1]).is_err());
        assert_eq!(f.check((1, 2), &[1, 4]), Ok(()));
    }

    #[test]
    fn a_topic_that_is_created_again_begins_with_nothing_acknowledged() {
        let mut f = fixture();
        f.elect(1, 0);
        f.elect(1, 1);
        f.acknowledge((1, 1), &[1, 2]);
        f.delete();
        f.elect(2, 0);
        assert_eq!(f.check((2, 0), &[]), Ok(()));
        // Broker 1 still leads what is gone.
        f.acknowledge((1, 1), &[3]);
        assert_eq!(f.check((2, 0), &[]), Ok(()));
        f.acknowledge((2, 0), &[4]);
        f.elect(1, 1);
        assert!(f.check((1, 1), &[1, 2, 3]).is_err());
        assert_eq!(f.check((1, 1), &[1, 2, 4]), Ok(()));
    }
}
