//! What the controller knows: the context, its indexes, its gauges, and the check of all of it.
//!
//! Changed only by the `apply` functions in `machine` and by the load in `controller::failover`; never by a watch, a
//! connection or a reply. Upstream: `ControllerContext.scala`.

mod check;
mod context;
mod deletion;
mod gauges;
mod index;
mod reassignment;
mod topic;

pub use check::violations;
pub use context::ControllerContext;
pub use deletion::Ineligible;
pub use gauges::Gauges;
pub use reassignment::Waiting;
pub use topic::{Partition, PartitionState, Partitions, ReplicaState, Topic};

use std::sync::Arc;

use crate::effect::Term;
use crate::event::ControllerState;
use crate::model::BrokerRegistration;

/// What the rest of the node may know after an event: metrics, health, and whom to relay to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControllerSnapshot {
    /// Our term, while we are the controller.
    pub term: Option<Term>,
    /// The context was loaded in this term.
    pub is_loaded: bool,
    /// What is being done.
    pub state: ControllerState,
    /// The genuine brokers that are live.
    pub brokers: Arc<[BrokerRegistration]>,
    /// Counts.
    pub gauges: Gauges,
    /// What became of the role so far.
    pub history: TermHistory,
    /// Why we are not the controller, in words for an operator; empty while we are.
    pub standing_by: Arc<str>,
}

/// What became of the role since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TermHistory {
    /// Terms that began.
    pub failovers: u64,
    /// Terms that ended, for whatever reason.
    pub resignations: u64,
    /// Times that ZooKeeper refused a write because another controller had been elected.
    pub fenced_writes: u64,
    /// Answers of brokers that were dropped because they belong to an older incarnation.
    pub stale_replies: u64,
    /// How long the stages of the last takeover took.
    pub last_failover: FailoverTimes,
}

/// The stages of a takeover, each from the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailoverTimes {
    /// The transaction that takes the role.
    pub claim_ms: u64,
    /// Reading the cluster from ZooKeeper.
    pub load_ms: u64,
    /// Queueing the first UpdateMetadata.
    pub first_update_ms: u64,
    /// Starting the state machines and queueing their requests.
    pub state_machines_ms: u64,
}

impl FailoverTimes {
    /// From the beginning of the claim to the end of all.
    pub fn total_ms(&self) -> u64 {
        self.claim_ms + self.load_ms + self.first_update_ms + self.state_machines_ms
    }
}
