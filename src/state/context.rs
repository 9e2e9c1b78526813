//! ControllerContext (signatures; the bodies follow).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Gauges;
use crate::effect::{Committed, Term};
use crate::model::{
    Broker, BrokerId, BrokerIds, BrokerRegistration, InterBrokerProtocol, LeaderAndIsr, Replica,
    ReplicaAssignment, TopicId, TopicName, TopicPartition,
};

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
    pub partitions: BTreeMap<i32, Partition>,
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
}

/// The controller's whole memory.
#[derive(Debug, Default)]
pub struct ControllerContext {}

impl ControllerContext {
    /// Empty. `klamm_ids` are never live brokers, never replicas.
    pub fn new() -> Self {
        todo!()
    }
    /// Forgets everything but unclean-election count: the role is gone, or a new term begins.
    pub fn reset(&mut self) {
        todo!()
    }

    // --- term, protocol, klamm's own
    /// Our term.
    pub fn term(&self) -> Option<Term> {
        todo!()
    }
    /// Begins a term.
    pub fn begin_term(&mut self, _term: Term) {
        todo!()
    }
    /// The cluster's protocol: the minimum over its brokers.
    pub fn protocol(&self) -> InterBrokerProtocol {
        todo!()
    }
    /// Sets it.
    pub fn set_protocol(&mut self, _protocol: InterBrokerProtocol) {
        todo!()
    }
    /// Ids that klamms use or used.
    pub fn klamm_ids(&self) -> &BTreeSet<BrokerId> {
        todo!()
    }
    /// Sets them.
    pub fn set_klamm_ids(&mut self, _ids: BTreeSet<BrokerId>) {
        todo!()
    }
    /// Our own entry in live_brokers of UpdateMetadata.
    pub fn set_own_broker(&mut self, _own: Broker) {
        todo!()
    }
    /// Our own entry.
    pub fn own_broker(&self) -> Option<&Broker> {
        todo!()
    }

    // --- brokers (genuine ones only)
    /// Adds or replaces a live broker.
    pub fn add_live_broker(&mut self, _registration: BrokerRegistration) {
        todo!()
    }
    /// Removes one, with its shutting-down mark.
    pub fn remove_live_broker(&mut self, _id: BrokerId) -> Option<BrokerRegistration> {
        todo!()
    }
    /// Registered (live or shutting down).
    pub fn registration(&self, _id: BrokerId) -> Option<&BrokerRegistration> {
        todo!()
    }
    /// All registered, by id.
    pub fn live_or_shutting_down_brokers(&self) -> impl Iterator<Item = &BrokerRegistration> {
        std::iter::empty()
    }
    /// Registered and not shutting down.
    pub fn is_live(&self, _id: BrokerId) -> bool {
        todo!()
    }
    /// Registered.
    pub fn is_live_or_shutting_down(&self, _id: BrokerId) -> bool {
        todo!()
    }
    /// Marks a registered broker as leaving.
    pub fn begin_shutting_down(&mut self, _id: BrokerId) {
        todo!()
    }
    /// Those leaving.
    pub fn shutting_down(&self) -> &BTreeSet<BrokerId> {
        todo!()
    }
    /// live_brokers of a request: all registered and ourselves.
    pub fn announced_brokers(&self) -> Arc<[Broker]> {
        todo!()
    }

    // --- offline log directories
    /// Marks or clears a replica as on a failed log directory; true if that changed anything.
    pub fn set_replica_on_offline_dir(&mut self, _replica: &Replica, _offline: bool) -> bool {
        todo!()
    }
    /// Forgets a broker's failed directories (it restarted, or died).
    pub fn clear_offline_dirs(&mut self, _id: BrokerId) {
        todo!()
    }
    /// Live, not shutting down, and not on a failed directory.
    pub fn is_replica_online(&self, _id: BrokerId, _partition: &TopicPartition) -> bool {
        todo!()
    }
    /// Registered (also shutting down), and not on a failed directory.
    pub fn is_replica_online_or_shutting_down(
        &self,
        _id: BrokerId,
        _partition: &TopicPartition,
    ) -> bool {
        todo!()
    }

    // --- topics
    /// All topics by name.
    pub fn topics(&self) -> &BTreeMap<TopicName, Topic> {
        todo!()
    }
    /// One topic.
    pub fn topic(&self, _name: &TopicName) -> Option<&Topic> {
        todo!()
    }
    /// The name of a topic id.
    pub fn topic_name(&self, _id: TopicId) -> Option<&TopicName> {
        todo!()
    }
    /// Adds the topic if new; sets id and znode version.
    pub fn put_topic(&mut self, _name: &TopicName, _id: Option<TopicId>, _znode_version: i32) {
        todo!()
    }
    /// Forgets a topic and all that hangs on it.
    pub fn remove_topic(&mut self, _name: &TopicName) {
        todo!()
    }
    /// One partition.
    pub fn partition(&self, _partition: &TopicPartition) -> Option<&Partition> {
        todo!()
    }
    /// Sets a partition's assignment; the topic must be there.
    pub fn put_assignment(&mut self, _partition: &TopicPartition, _assignment: ReplicaAssignment) {
        todo!()
    }
    /// Assigned replicas; empty if unknown.
    pub fn replicas(&self, _partition: &TopicPartition) -> BrokerIds {
        todo!()
    }
    /// What ZooKeeper holds.
    pub fn leadership(&self, _partition: &TopicPartition) -> Option<&Committed<LeaderAndIsr>> {
        todo!()
    }
    /// Notes what ZooKeeper holds. A partition that isn't assigned is ignored.
    pub fn put_leadership(&mut self, _partition: &TopicPartition, _state: Committed<LeaderAndIsr>) {
        todo!()
    }
    /// Every partition with a known leadership (leader −1 included), in order.
    pub fn partitions_with_leadership(&self) -> Vec<TopicPartition> {
        todo!()
    }
    /// Every replica on a broker, in order.
    pub fn replicas_on(&self, _id: BrokerId) -> Vec<Replica> {
        todo!()
    }
    /// Every replica there is.
    pub fn all_replicas(&self) -> Vec<Replica> {
        todo!()
    }
    /// Partitions with a leadership whose leader replica is not online, topics being deleted left out.
    pub fn partitions_with_offline_leader(&self) -> Vec<TopicPartition> {
        todo!()
    }
    /// Partitions in this state, in order.
    pub fn partitions_in(&self, _states: &[PartitionState]) -> Vec<TopicPartition> {
        todo!()
    }
    /// Where a partition stands; NonExistent if unknown.
    pub fn partition_state(&self, _partition: &TopicPartition) -> PartitionState {
        todo!()
    }
    /// Sets it.
    pub fn put_partition_state(&mut self, _partition: &TopicPartition, _state: PartitionState) {
        todo!()
    }
    /// Where a replica stands; NonExistent if unknown.
    pub fn replica_state(&self, _replica: &Replica) -> ReplicaState {
        todo!()
    }
    /// Sets it (NonExistent drops the entry).
    pub fn put_replica_state(&mut self, _replica: &Replica, _state: ReplicaState) {
        todo!()
    }

    // --- deletion (the operations issue drives these; elections already heed them)
    /// Queued for deletion.
    pub fn is_queued_for_deletion(&self, _topic: &TopicName) -> bool {
        todo!()
    }
    /// Queues topics; the gauges follow.
    pub fn queue_for_deletion(&mut self, _topic: &TopicName) {
        todo!()
    }
    /// Marks a topic's deletion as begun.
    pub fn begin_deletion(&mut self, _topic: &TopicName) {
        todo!()
    }
    /// Deletion begun.
    pub fn is_deletion_begun(&self, _topic: &TopicName) -> bool {
        todo!()
    }

    /// The counts.
    pub fn gauges(&self) -> Gauges {
        todo!()
    }
    /// One more unclean election.
    pub fn count_unclean_election(&mut self) {
        todo!()
    }
}
