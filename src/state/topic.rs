//! One topic of the context, its partitions, and where each partition and replica stands.
//!
//! Must never be changed but through `ControllerContext`, which keeps the indexes and the counts in step.
//! Upstream: the maps keyed by partition and by replica in `ControllerContext.scala`. Here a replica's state stands beside
//! its partition, so that a partition is found once instead of four times.

use crate::effect::Committed;
use crate::model::{BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId};

/// Where a partition stands. Upstream: `PartitionState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PartitionState {
    /// Not there.
    #[default]
    NonExistent,
    /// Assigned, never led.
    New,
    /// Led.
    Online,
    /// Its leader is gone.
    Offline,
}

/// Where a replica stands. Upstream: `ReplicaState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ReplicaState {
    /// Not there.
    #[default]
    NonExistent,
    /// Assigned, not started.
    New,
    /// Started.
    Online,
    /// Its broker or log directory is gone.
    Offline,
    /// Told to delete its log.
    DeletionStarted,
    /// Log deleted.
    DeletionSuccessful,
    /// Its deletion waits.
    DeletionIneligible,
}

/// One topic.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its id.
    pub id: Option<TopicId>,
    /// Version of `/brokers/topics/T` as last read or written.
    pub znode_version: i32,
    /// Partitions by index.
    pub partitions: Partitions,
}

/// One partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Where its replicas are.
    pub assignment: ReplicaAssignment,
    /// Where it stands.
    pub state: PartitionState,
    /// Who leads it, as ZooKeeper holds it.
    pub leadership: Option<Committed<LeaderAndIsr>>,
    /// Those replicas that stand anywhere else than NonExistent, in the order of their brokers.
    replica_states: Vec<(BrokerId, ReplicaState)>,
}

impl Partition {
    /// A partition that has just been assigned.
    pub(super) fn new(assignment: ReplicaAssignment) -> Partition {
        Partition {
            assignment,
            state: PartitionState::NonExistent,
            leadership: None,
            replica_states: Vec::new(),
        }
    }

    /// Where the replica on `broker` stands; NonExistent if nothing is known of it.
    pub fn replica_state(&self, broker: BrokerId) -> ReplicaState {
        match self.slot_of(broker) {
            Ok(slot) => self.replica_states[slot].1,
            Err(_) => ReplicaState::NonExistent,
        }
    }

    /// Every replica that stands anywhere else than NonExistent, in the order of the brokers.
    pub fn replica_states(&self) -> impl Iterator<Item = (BrokerId, ReplicaState)> + '_ {
        self.replica_states.iter().copied()
    }

    /// Sets where the replica on `broker` stands; NonExistent drops the entry.
    pub(super) fn set_replica_state(&mut self, broker: BrokerId, state: ReplicaState) {
        match (self.slot_of(broker), state) {
            (Ok(slot), ReplicaState::NonExistent) => {
                self.replica_states.remove(slot);
            }
            (Ok(slot), state) => self.replica_states[slot].1 = state,
            (Err(_), ReplicaState::NonExistent) => {}
            (Err(slot), state) => {
                if self.replica_states.is_empty() {
                    self.replica_states
                        .reserve_exact(self.assignment.replicas.len());
                }
                self.replica_states.insert(slot, (broker, state));
            }
        }
    }

    fn slot_of(&self, broker: BrokerId) -> Result<usize, usize> {
        self.replica_states
            .binary_search_by_key(&broker, |(id, _)| *id)
    }
}

/// The partitions of one topic in the order of their indexes: an ordered map that is a plain array underneath.
///
/// Most topics have few partitions and all indexes from 0 on. A tree would keep room for eleven of them in every topic,
/// which at 50,000 topics of one partition is most of the memory that the node may take.
#[derive(Debug, Clone, Default)]
pub struct Partitions {
    entries: Vec<(i32, Partition)>,
}

impl Partitions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The partition with this index.
    pub fn get(&self, index: &i32) -> Option<&Partition> {
        let slot = self.slot_of(*index).ok()?;
        self.entries.get(slot).map(|(_, partition)| partition)
    }

    /// Index and partition, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&i32, &Partition)> + ExactSizeIterator {
        self.into_iter()
    }

    /// The indexes, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &i32> + ExactSizeIterator {
        self.entries.iter().map(|(index, _)| index)
    }

    /// The partitions, in the order of their indexes.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Partition> + ExactSizeIterator {
        self.entries.iter().map(|(_, partition)| partition)
    }

    pub(super) fn get_mut(&mut self, index: i32) -> Option<&mut Partition> {
        let slot = self.slot_of(index).ok()?;
        self.entries.get_mut(slot).map(|(_, partition)| partition)
    }

    /// Adds a partition whose index isn't there yet; one that is there stays as it is.
    pub(super) fn insert_new(&mut self, index: i32, partition: impl FnOnce() -> Partition) {
        if let Err(slot) = self.slot_of(index) {
            if self.entries.len() == self.entries.capacity() {
                self.entries.reserve_exact(1 + self.entries.len() / 2);
            }
            self.entries.insert(slot, (index, partition()));
        }
    }

    fn slot_of(&self, index: i32) -> Result<usize, usize> {
        let guess = usize::try_from(index).unwrap_or(usize::MAX);
        match self.entries.get(guess) {
            Some((found, _)) if *found == index => Ok(guess),
            _ => self.entries.binary_search_by_key(&index, |(at, _)| *at),
        }
    }
}

impl<'a> IntoIterator for &'a Partitions {
    type Item = (&'a i32, &'a Partition);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (i32, Partition)>,
        fn(&'a (i32, Partition)) -> Self::Item,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.entries
            .iter()
            .map(|(index, partition)| (index, partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BrokerIds;

    fn partition(replicas: &[i32]) -> Partition {
        Partition::new(ReplicaAssignment::settled(BrokerIds::from(replicas)))
    }

    #[test]
    fn partitions_are_found_whatever_order_and_gaps_their_indexes_come_in() {
        let mut partitions = Partitions::default();
        for index in [7, 0, -3, 2, 0, 1] {
            partitions.insert_new(index, || partition(&[index]));
        }
        assert_eq!(
            partitions.keys().copied().collect::<Vec<_>>(),
            [-3, 0, 1, 2, 7]
        );
        for index in [-3, 0, 1, 2, 7] {
            let found = partitions.get(&index).unwrap();
            assert_eq!(found.assignment.replicas, BrokerIds::from([index]));
        }
        assert!(partitions.get(&3).is_none());
        assert!(partitions.get(&i32::MIN).is_none());
        assert_eq!((&partitions).into_iter().count(), 5);
    }

    #[test]
    fn a_replica_without_an_entry_is_non_existent_and_becoming_so_drops_the_entry() {
        let mut partition = partition(&[3, 1]);
        partition.set_replica_state(BrokerId(3), ReplicaState::Online);
        partition.set_replica_state(BrokerId(1), ReplicaState::New);
        partition.set_replica_state(BrokerId(2), ReplicaState::NonExistent);
        assert_eq!(partition.replica_state(BrokerId(1)), ReplicaState::New);
        assert_eq!(partition.replica_state(BrokerId(3)), ReplicaState::Online);
        partition.set_replica_state(BrokerId(3), ReplicaState::NonExistent);
        assert_eq!(
            partition.replica_states().collect::<Vec<_>>(),
            [(BrokerId(1), ReplicaState::New)]
        );
    }
}
