//! What the controller knows: the context, its indexes, its gauges, and the check of all of it.
//!
//! Changed only by the `apply` functions in `machine` and by the load in `controller::failover`; never by a watch, a
//! connection or a reply. Upstream: `ControllerContext.scala`.

mod check;
mod context;
mod gauges;
mod index;
mod topic;

pub use check::violations;
pub use context::ControllerContext;
pub use gauges::Gauges;
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
    /// Why we are not the controller, in words for an operator; empty while we are.
    pub standing_by: Arc<str>,
}
