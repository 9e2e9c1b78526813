//! The counts that dashboards show. Upstream: the gauges in `KafkaController.scala`.

/// Counts kept by the context as it changes; all zero while not the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Partitions without an online leader, of topics that are not being deleted.
    pub offline_partitions: u64,
    /// Partitions led by another than the preferred replica, of topics that are not being deleted.
    pub preferred_replica_imbalance: u64,
    /// Topics.
    pub topics: u64,
    /// Partitions.
    pub partitions: u64,
    /// Live brokers.
    pub active_brokers: u64,
    /// Topics queued for deletion.
    pub topics_to_delete: u64,
    /// Replicas of topics queued for deletion.
    pub replicas_to_delete: u64,
    /// Topics whose deletion waits.
    pub topics_ineligible_to_delete: u64,
    /// Replicas whose deletion waits.
    pub replicas_ineligible_to_delete: u64,
    /// Partitions whose assignment names a klamm although they have a state.
    pub assignments_naming_klamm: u64,
    /// Unclean leader elections since the process started.
    pub unclean_leader_elections: u64,
}
