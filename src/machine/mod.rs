//! What is decided: each file offers `needs` (what to read), `decide` (reads in; writes, refusals and reasons out) and
//! `apply` (outcomes in; new context and requests out).
//!
//! Pure: no port is in reach, so nothing here can wait or act. `controller` loops the three.

pub mod candidacy;
pub mod election;
pub mod features;
pub mod isr;
pub mod membership;
pub mod own_broker;
pub mod partition;
pub mod producer_ids;
pub mod replica;
pub mod request_batch;
pub mod sanitise;
pub mod shutdown;
#[cfg(test)]
mod small_cluster;

use std::collections::BTreeMap;

use crate::effect::{Committed, ElectionConfig, Read, ZkOutcome, ZkWrite};
use crate::model::{LeaderAndIsr, Replica, TopicName, TopicPartition};
use crate::state::{ControllerContext, PartitionState, ReplicaState};
use request_batch::ControllerBrokerRequestBatch;

/// What a decision has to read first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// States that the context doesn't hold, or that lost a version race.
    pub states: Vec<TopicPartition>,
    /// Topics whose configuration decides.
    pub topic_configs: Vec<TopicName>,
}

impl Needs {
    /// Nothing to read.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.topic_configs.is_empty()
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// States, one for each asked for.
    pub states: BTreeMap<TopicPartition, Read<Committed<LeaderAndIsr>>>,
    /// Configurations, one for each asked for.
    pub topic_configs: BTreeMap<TopicName, Read<ElectionConfig>>,
}

/// A change of leadership that was decided: the write, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Whose.
    pub partition: TopicPartition,
    /// `CreateState` or `SetState`.
    pub write: ZkWrite,
    /// Who hears of it by LeaderAndIsr once it is committed.
    pub recipients: Vec<crate::model::BrokerId>,
    /// Why, for the state-change log.
    pub reason: Reason,
}

/// What `decide` found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// To be written, in order.
    pub planned: Vec<Planned>,
    /// Already as wanted in ZooKeeper: no write, but `apply` notes it and tells the brokers.
    pub unchanged: Vec<(
        TopicPartition,
        Committed<LeaderAndIsr>,
        Vec<crate::model::BrokerId>,
    )>,
    /// Not to be done, and why.
    pub refused: Vec<Refused>,
}

impl Decision {
    /// The writes, in the order of `planned`.
    pub fn writes(&self) -> Vec<ZkWrite> {
        self.planned
            .iter()
            .map(|planned| planned.write.clone())
            .collect()
    }
}

/// A change that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Whose.
    pub partition: TopicPartition,
    /// Why.
    pub reason: Refusal,
}

/// What `apply` made of the outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Done.
    pub done: Vec<TopicPartition>,
    /// What was committed for which reason, for the state-change log.
    pub changes: Vec<(TopicPartition, Reason)>,
    /// Lost a version race: read again, decide again.
    pub retry: Vec<TopicPartition>,
    /// Not done.
    pub refused: Vec<Refused>,
}

/// A question put to a state machine that needs ZooKeeper to answer it. `controller` loops needs → decide → apply.
pub trait StateChange {
    /// What to read before deciding.
    fn needs(&self, context: &ControllerContext) -> Needs;
    /// Decides on what the context and the reads say.
    fn decide(&self, context: &ControllerContext, fetched: &Fetched) -> Decision;
    /// Notes what became of the writes, and adds what brokers must hear to the batch.
    fn apply(
        &self,
        context: &mut ControllerContext,
        decision: Decision,
        outcomes: &[ZkOutcome],
        batch: &mut ControllerBrokerRequestBatch,
    ) -> Applied;
    /// The same question for those that lost a race; their states are read again.
    fn again(&self, retry: Vec<TopicPartition>) -> Self;
}

/// Why a leadership was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// First leader of a new partition.
    Created,
    /// The leader was gone; this one was in the in-sync set.
    LeaderOffline,
    /// The leader was gone and no in-sync replica was online; unclean election was allowed.
    UncleanElection,
    /// The preferred replica took over.
    Preferred,
    /// A reassignment needs a leader among its target.
    Reassigned,
    /// The leader is leaving.
    ControlledShutdown,
    /// A replica left the in-sync set.
    ReplicaOffline(crate::model::BrokerId),
}

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The state machines don't allow the step.
    #[error("partition can't go from {from:?} to {to:?}")]
    IllegalPartitionStep {
        /// Where it stands.
        from: PartitionState,
        /// Where it should go.
        to: PartitionState,
    },
    /// The state machines don't allow the step.
    #[error("replica {replica:?} can't go from {from:?} to {to:?}")]
    IllegalReplicaStep {
        /// Whose.
        replica: Replica,
        /// Where it stands.
        from: ReplicaState,
        /// Where it should go.
        to: ReplicaState,
    },
    /// No assigned replica is online.
    #[error(
        "none of the assigned replicas {0} is online; it gets a leader as soon as one of them is"
    )]
    NoReplicaOnline(crate::model::BrokerIds),
    /// No in-sync replica is online and unclean election is off.
    #[error(
        "none of the in-sync replicas {0} is online and unclean leader election is off; bring one of them back, or set unclean.leader.election.enable=true for the topic and accept the loss of records"
    )]
    NoInSyncReplicaOnline(crate::model::BrokerIds),
    /// The strategy found nobody.
    #[error("no eligible leader: {0}")]
    NoEligibleLeader(&'static str),
    /// The state node is missing.
    #[error("its state node is missing in ZooKeeper")]
    StateMissing,
    /// A node can't be understood.
    #[error("{0}")]
    Broken(String),
    /// Another controller wrote later.
    #[error("a controller with the later epoch {0} wrote its state")]
    LaterController(crate::model::ControllerEpoch),
    /// The state to be created exists already.
    #[error("its state node exists already")]
    StateExists,
    /// ZooKeeper refused.
    #[error("ZooKeeper refused: {0}")]
    Zk(String),
}
