//! Elections.
/// Whether an unclean election may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncleanRule {
    /// The topic's configuration decides; this where it says nothing.
    ByConfig {
        /// The cluster's default.
        default: bool,
    },
    /// Asked for by an operator, whatever the configuration says.
    Always,
}

/// How to find a leader. Upstream: `PartitionLeaderElectionStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionStrategy {
    /// The leader is gone.
    OfflinePartition(UncleanRule),
    /// A reassignment needs a leader among its target.
    Reassign,
    /// The preferred replica.
    PreferredReplica,
    /// The leader is leaving.
    ControlledShutdown,
}
