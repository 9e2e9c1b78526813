//! Indexes of the context: what a broker hosts, what it leads, what waits for a leader, what moves, and names by topic id.
//!
//! They answer each event in the time its answer takes, where the Java controller walks all partitions. They hold
//! nothing that the topics don't: [`Indexes::rebuilt`] makes them anew, and `check` compares.
//! Upstream: none; `ControllerContext.scala` filters its maps.

use std::collections::{BTreeMap, BTreeSet};

use super::topic::{Partition, PartitionState, Topic};
use crate::model::{BrokerId, ReplicaAssignment, TopicId, TopicName, TopicPartition};

/// Partitions by broker; a broker without any has no entry.
pub(super) type ByBroker = BTreeMap<BrokerId, BTreeSet<TopicPartition>>;

/// See the file's comment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    /// Broker → partitions that have it in their assignment.
    pub(super) hosted: ByBroker,
    /// Leader (−1 included) → partitions that have it in their leadership. Whether the leader is online is not
    /// in here: a broker that comes or goes costs nothing.
    pub(super) led: ByBroker,
    /// Partitions in the states New and Offline.
    pub(super) leaderless: BTreeSet<TopicPartition>,
    /// Partitions that are being reassigned.
    pub(super) moving: BTreeSet<TopicPartition>,
    /// Topic id → name.
    pub(super) topic_names: BTreeMap<TopicId, TopicName>,
}

impl Indexes {
    /// The indexes as the topics alone make them.
    pub(super) fn rebuilt(topics: &BTreeMap<TopicName, Topic>) -> Indexes {
        let mut indexes = Indexes::default();
        for (name, topic) in topics {
            if let Some(id) = topic.id {
                indexes.topic_names.insert(id, name.clone());
            }
            for (index, partition) in topic.partitions.iter() {
                indexes.add(&TopicPartition::new(name, *index), partition);
            }
        }
        indexes
    }

    /// Notes all that is known of a partition.
    fn add(&mut self, at: &TopicPartition, partition: &Partition) {
        let nothing = ReplicaAssignment::none();
        self.reassigned(at, &nothing, &partition.assignment);
        self.led_by(at, None, leader_of(partition));
        self.moved(at, PartitionState::NonExistent, partition.state);
    }

    /// Forgets all that is known of a partition.
    pub(super) fn remove(&mut self, at: &TopicPartition, partition: &Partition) {
        let nothing = ReplicaAssignment::none();
        self.reassigned(at, &partition.assignment, &nothing);
        self.led_by(at, leader_of(partition), None);
        self.moved(at, partition.state, PartitionState::NonExistent);
    }

    /// The assignment of a partition changed.
    pub(super) fn reassigned(
        &mut self,
        at: &TopicPartition,
        before: &ReplicaAssignment,
        after: &ReplicaAssignment,
    ) {
        let (left, came) = (&before.replicas, &after.replicas);
        for id in left.iter().filter(|id| !came.contains(*id)) {
            take(&mut self.hosted, id, at);
        }
        for id in came.iter().filter(|id| !left.contains(*id)) {
            self.hosted.entry(id).or_default().insert(at.clone());
        }
        match (before.is_being_reassigned(), after.is_being_reassigned()) {
            (false, true) => {
                self.moving.insert(at.clone());
            }
            (true, false) => {
                self.moving.remove(at);
            }
            (true, true) | (false, false) => {}
        }
    }

    /// The leader of a partition changed.
    pub(super) fn led_by(
        &mut self,
        at: &TopicPartition,
        before: Option<BrokerId>,
        after: Option<BrokerId>,
    ) {
        if before == after {
            return;
        }
        if let Some(id) = before {
            take(&mut self.led, id, at);
        }
        if let Some(id) = after {
            self.led.entry(id).or_default().insert(at.clone());
        }
    }

    /// The state of a partition changed.
    pub(super) fn moved(
        &mut self,
        at: &TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) {
        match (is_leaderless(before), is_leaderless(after)) {
            (false, true) => {
                self.leaderless.insert(at.clone());
            }
            (true, false) => {
                self.leaderless.remove(at);
            }
            (true, true) | (false, false) => {}
        }
    }
}

/// Whether partitions in this state stand in [`Indexes::leaderless`].
pub(super) fn is_leaderless(state: PartitionState) -> bool {
    matches!(state, PartitionState::New | PartitionState::Offline)
}

/// The leader in a partition's leadership, −1 included; `None` where no leadership is known.
pub(super) fn leader_of(partition: &Partition) -> Option<BrokerId> {
    partition.leadership.as_ref().map(|state| state.leader)
}

fn take(index: &mut ByBroker, id: BrokerId, at: &TopicPartition) {
    if let Some(partitions) = index.get_mut(&id) {
        partitions.remove(at);
        if partitions.is_empty() {
            index.remove(&id);
        }
    }
}
