//! What is decided: each file offers `needs` (what to read), `decide` (reads in; writes, refusals and reasons out) and
//! `apply` (outcomes in; new context and requests out).
//!
//! Pure: no port is in reach, so nothing here can wait or act. `controller` loops the three.

pub mod acknowledgement;
pub mod candidacy;
pub mod comparison;
pub mod config_changes;
pub mod deletion;
pub mod election;
pub mod features;
pub mod isr;
pub mod membership;
pub mod mutation_quota;
pub mod own_broker;
pub mod partition;
pub mod placement;
pub mod preferred;
pub mod preflight;
pub mod producer_ids;
pub mod reassignment;
pub mod replica;
pub mod request_batch;
pub mod request_length;
pub mod sanitise;
pub mod scram;
pub mod shared_settings;
pub mod shutdown;
#[cfg(test)]
mod small_cluster;
pub mod tokens;
pub mod topic_creation;
pub mod topic_growth;

#[cfg(test)]
pub(crate) mod fixture;

use std::collections::BTreeMap;

use crate::effect::{Committed, ElectionConfig, Read, Term, ZkOutcome, ZkWrite};
use crate::model::{LeaderAndIsr, Replica, TopicName, TopicPartition};
use crate::planted::planted;
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
    /// There is no term to decide in.
    #[error("this node is not the controller")]
    NotController,
    /// A replica that leads its partition can't be started as a new one.
    #[error("replica {0:?} leads the partition and so can't be a new one")]
    ReplicaLeads(Replica),
    /// The replica is none of the partition's.
    #[error("replica {0:?} is not in the partition's assignment")]
    NotAssigned(Replica),
}

/// Whether a change is decided on what the context holds, or on states that are read anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The context's states will do: the version check of the write decides.
    First,
    /// They lost a race and are read again.
    Again,
}

/// The state that a change of `partition` is decided on: as read, if it was read, else as the context holds it; `None`
/// if neither knows one. Refused if it can't be relied on.
fn current_state(
    context: &ControllerContext,
    term: Term,
    fetched: &Fetched,
    partition: &TopicPartition,
) -> Result<Option<Committed<LeaderAndIsr>>, Refusal> {
    let state = match fetched.states.get(partition) {
        Some(Read::Found(state)) => Some(state),
        Some(Read::Missing) => None,
        Some(Read::Broken(why)) => return Err(Refusal::Broken(why.clone())),
        None => context.leadership(partition),
    };
    match state {
        Some(state) if state.controller_epoch() > term.epoch => {
            Err(Refusal::LaterController(state.controller_epoch()))
        }
        state => Ok(state.cloned()),
    }
}

/// What became of a planned write.
enum Written {
    /// ZooKeeper holds it.
    Committed(Committed<LeaderAndIsr>),
    /// Somebody else wrote first.
    LostRace,
    /// It wasn't written.
    Not(Refusal),
}

/// Reads an outcome of a write of a partition's state.
fn judge_outcome(write: &ZkWrite, outcome: Option<&ZkOutcome>) -> Written {
    let Some(outcome) = outcome else {
        return Written::Not(Refusal::Zk("the write was not answered".to_owned()));
    };
    planted!(TreatConflictAsWritten => {
        let imagined = crate::planted::imagined(std::slice::from_ref(write));
        if let (ZkOutcome::VersionConflict, Some(state)) = (outcome, write.committed(&imagined[0])) {
            return Written::Committed(state);
        }
    });
    match (write.committed(outcome), outcome) {
        (Some(state), _) => Written::Committed(state),
        (None, ZkOutcome::VersionConflict | ZkOutcome::AlreadyExists) => Written::LostRace,
        (None, ZkOutcome::Missing) => Written::Not(Refusal::StateMissing),
        (None, ZkOutcome::Refused(why)) => Written::Not(Refusal::Zk(why.clone())),
        (None, ZkOutcome::Written { .. }) => {
            Written::Not(Refusal::Zk("the write was not one of a state".to_owned()))
        }
    }
}

/// Pairs what was planned with what became of it.
fn with_outcomes(
    planned: Vec<Planned>,
    outcomes: &[ZkOutcome],
) -> impl Iterator<Item = (Planned, Option<&ZkOutcome>)> {
    planned
        .into_iter()
        .enumerate()
        .map(|(position, planned)| (planned, outcomes.get(position)))
}
