//! What becomes of a leader's wish to change an in-sync set: AlterPartition, called AlterIsr in version 0.
//!
//! Must never raise a leader epoch or change a leader, and never answer a code that the sender's release doesn't know: an
//! unknown one leaves a partition of Kafka 2.7 to 3.0 pending for good. Upstream: `KafkaController.tryProcessAlterPartition`
//! (`processAlterIsr` up to 3.1); `handleAlterPartitionError` in `Partition.scala` is who hears the answer.

use std::collections::BTreeSet;

use crate::effect::{
    AlterPartitionAnswer, Committed, Incarnation, TopicReference, ZkOutcome, ZkWrite,
};
use crate::event::{AlterPartitionItem, AlterPartitionRequest};
use crate::model::{
    BrokerId, BrokerIds, ControllerEpoch, KafkaError, LeaderAndIsr, LeaderEpoch,
    LeaderRecoveryState, PartitionEpoch, TopicPartition,
};
use crate::planted::planted;
use crate::state::ControllerContext;

/// Whether a request is heard at all.
///
/// # Errors
/// `NOT_CONTROLLER` while we are not the controller; `STALE_BROKER_EPOCH` unless the sender is registered under exactly
/// the epoch that it names.
pub fn admit(context: &ControllerContext, from: Incarnation) -> Result<(), KafkaError> {
    if context.term().is_none() {
        return Err(KafkaError::NOT_CONTROLLER);
    }
    match context.registration(from.broker) {
        Some(known) if known.epoch == from.epoch => Ok(()),
        Some(_) | None => Err(KafkaError::STALE_BROKER_EPOCH),
    }
}

/// Why a partition's in-sync set was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IsrRefusal {
    /// No topic has this id.
    #[error("no topic has this id")]
    UnknownTopicId,
    /// There is no such partition, or it was never led.
    #[error("there is no such partition, or it has no leader yet")]
    UnknownPartition,
    /// The sender has seen a later state than we hold: it is read again, and the sender asks again.
    #[error(
        "the sender knows leader epoch {leader_epoch} and partition epoch {partition_epoch}, later than ours; its state is read again"
    )]
    AheadOfUs {
        /// As the sender knows it.
        leader_epoch: LeaderEpoch,
        /// As the sender knows it.
        partition_epoch: PartitionEpoch,
    },
    /// Another leader epoch has begun.
    #[error("the sender leads under leader epoch {0}, and a later one has begun")]
    StaleLeaderEpoch(LeaderEpoch),
    /// Somebody else leads.
    #[error("the sender is not the leader, {0} is")]
    NotTheLeader(BrokerId),
    /// The wish is based on an older state.
    #[error(
        "the sender's wish is based on partition epoch {0}, which is no longer the current one"
    )]
    StalePartitionEpoch(PartitionEpoch),
    /// Replicas that aren't assigned.
    #[error("{0} in the new in-sync set are not among the assigned replicas")]
    NotAssigned(BrokerIds),
    /// Nobody would be in sync.
    #[error("the new in-sync set is empty")]
    EmptyIsr,
    /// The leader is in sync with itself.
    #[error("the new in-sync set leaves out the leader")]
    LeaderLeftOut,
    /// A replica is in sync once.
    #[error("broker {0} stands twice in the new in-sync set")]
    RepeatedMember(BrokerId),
    /// A leader that still recovers is alone in sync (KIP-704).
    #[error(
        "the leader is recovering from an unclean election, and the new in-sync set has other members"
    )]
    RecoveringWithFollowers,
    /// Only an unclean election begins a recovery (KIP-704).
    #[error("a recovered leader can't become recovering")]
    RecoveryCannotBegin,
    /// Members that are dead or leaving (KIP-841).
    #[error("{0} in the new in-sync set are not live, or are shutting down")]
    NotLive(BrokerIds),
    /// Somebody wrote the state first.
    #[error("its state was written by somebody else first; it is read again")]
    Conflict,
    /// There is no state node.
    #[error("its state node is gone from ZooKeeper; it is read again")]
    StateMissing,
    /// ZooKeeper refused the write.
    #[error("ZooKeeper refused the write: {0}")]
    Zk(String),
}

impl IsrRefusal {
    /// The code for a sender of this request version. Up to Kafka 3.0, whose version is 0, leaders know three codes; what
    /// else they must hear becomes the one of them that makes them give up.
    fn code(&self, version: i16) -> KafkaError {
        match self {
            Self::UnknownTopicId if version >= 2 => KafkaError::UNKNOWN_TOPIC_ID,
            Self::UnknownTopicId | Self::UnknownPartition | Self::StateMissing => {
                KafkaError::UNKNOWN_TOPIC_OR_PARTITION
            }
            Self::StaleLeaderEpoch(_) | Self::NotTheLeader(_) | Self::NotAssigned(_) => {
                KafkaError::FENCED_LEADER_EPOCH
            }
            Self::StalePartitionEpoch(_) | Self::Conflict => KafkaError::INVALID_UPDATE_VERSION,
            _ if version == 0 => KafkaError::INVALID_UPDATE_VERSION,
            // The whole request comes again once the sender has looked who the controller is: by then we have read.
            Self::AheadOfUs { .. } => KafkaError::NOT_CONTROLLER,
            Self::EmptyIsr
            | Self::LeaderLeftOut
            | Self::RepeatedMember(_)
            | Self::RecoveringWithFollowers
            | Self::RecoveryCannotBegin => KafkaError::INVALID_REQUEST,
            Self::NotLive(_) if version >= 2 => KafkaError::INELIGIBLE_REPLICA,
            Self::NotLive(_) => KafkaError::OPERATION_NOT_ATTEMPTED,
            Self::Zk(_) => KafkaError::UNKNOWN_SERVER_ERROR,
        }
    }

    /// Whether the context is behind ZooKeeper.
    fn wants_reread(&self) -> bool {
        matches!(
            self,
            Self::AheadOfUs { .. } | Self::Conflict | Self::StateMissing
        )
    }
}

/// What was found of each partition asked about, and what is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlterPartitionDecision {
    /// To be written; each conditional on the partition's epoch.
    pub writes: Vec<ZkWrite>,
    /// One a partition, in the order of the request.
    findings: Vec<Finding>,
}

/// What was found of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    topic: TopicReference,
    number: i32,
    /// Its name, if there is such a partition.
    partition: Option<TopicPartition>,
    verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It is as wanted already.
    Unchanged(Committed<LeaderAndIsr>),
    /// The write at this position decides.
    Write(usize),
    Refused(IsrRefusal),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlterPartitionApplied {
    /// One a partition asked about, in the order of the request.
    pub answers: Vec<AlterPartitionAnswer>,
    /// Every known partition asked about, changed or not: an UpdateMetadata of them goes to all brokers, and no LeaderAndIsr.
    pub announce: Vec<TopicPartition>,
    /// Where the context is behind ZooKeeper.
    pub reread: Vec<TopicPartition>,
    /// Whose in-sync set changed: a reassignment of theirs may be complete.
    pub changed: Vec<TopicPartition>,
    /// What was refused and why, for the log.
    pub refused: Vec<RefusedAlteration>,
}

/// One refusal, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAlteration {
    /// The topic as the request named it.
    pub topic: TopicReference,
    /// Index within the topic.
    pub partition: i32,
    /// What the sender is told.
    pub code: KafkaError,
    /// Why.
    pub reason: IsrRefusal,
}

/// Decides on each partition of an admitted request. One that stands twice in it counts as it stands last, as in Java.
pub fn decide(
    context: &ControllerContext,
    request: &AlterPartitionRequest,
) -> AlterPartitionDecision {
    let mut decision = AlterPartitionDecision::default();
    let Some(term) = context.term() else {
        return decision;
    };
    for item in last_of_each(request) {
        let partition = named(context, item);
        let judgement = partition
            .clone()
            .and_then(|partition| Ok((judge(context, request, item, &partition)?, partition)));
        let verdict = match judgement {
            Ok((Judgement::Unchanged(held), _)) => Verdict::Unchanged(held),
            Ok((Judgement::Change(wanted), partition)) => {
                let expected = planted!(
                    AcceptStaleLeader,
                    context
                        .leadership(&partition)
                        .map_or(item.partition_epoch, |held| held.partition_epoch()),
                    item.partition_epoch
                );
                let write = write(partition, expected, wanted, term.epoch);
                decision.writes.push(write);
                Verdict::Write(decision.writes.len() - 1)
            }
            Err(refusal) => Verdict::Refused(refusal),
        };
        decision.findings.push(Finding {
            topic: item.topic.clone(),
            number: item.partition,
            partition: partition.ok(),
            verdict,
        });
    }
    decision
}

/// The items without those that stand again further on.
fn last_of_each(request: &AlterPartitionRequest) -> Vec<&AlterPartitionItem> {
    let mut seen = BTreeSet::new();
    let mut items: Vec<&AlterPartitionItem> = request
        .partitions
        .iter()
        .rev()
        .filter(|item| {
            let topic = match &item.topic {
                TopicReference::Name(name) => (Some(name), None),
                TopicReference::Id(id) => (None, Some(*id)),
            };
            seen.insert((topic, item.partition))
        })
        .collect();
    items.reverse();
    items
}

/// The partition that an item names.
fn named(
    context: &ControllerContext,
    item: &AlterPartitionItem,
) -> Result<TopicPartition, IsrRefusal> {
    let name = match &item.topic {
        TopicReference::Name(name) => name,
        TopicReference::Id(id) => context.topic_name(*id).ok_or(IsrRefusal::UnknownTopicId)?,
    };
    let partition = TopicPartition::new(name, item.partition);
    match context.leadership(&partition) {
        Some(_) => Ok(partition),
        None => Err(IsrRefusal::UnknownPartition),
    }
}

/// What an item that passed the tests comes to.
#[derive(Debug)]
enum Judgement {
    /// Nothing to write.
    Unchanged(Committed<LeaderAndIsr>),
    /// To be written.
    Change(LeaderAndIsr),
}

/// The tests, in the order of Kafka 3.3 and later for every version: which one speaks first decides what a leader that
/// repeats itself, or was deposed, makes of the answer.
///
/// Version 0 differs in two ways, as its controllers did: a partition epoch ahead of ours is left for ZooKeeper to judge,
/// and nobody asks whether the members are live (since KAFKA-14140).
fn judge(
    context: &ControllerContext,
    request: &AlterPartitionRequest,
    item: &AlterPartitionItem,
    partition: &TopicPartition,
) -> Result<Judgement, IsrRefusal> {
    let held = context
        .leadership(partition)
        .ok_or(IsrRefusal::UnknownPartition)?;
    let is_later_state = item.partition_epoch > held.partition_epoch();
    if item.leader_epoch > held.leader_epoch || (is_later_state && request.version > 0) {
        return Err(IsrRefusal::AheadOfUs {
            leader_epoch: item.leader_epoch,
            partition_epoch: item.partition_epoch,
        });
    }
    if item.leader_epoch < held.leader_epoch {
        planted!(AcceptStaleLeader => {
            let isr = item.new_isr.clone();
            return Ok(Judgement::Change(LeaderAndIsr { isr, ..(**held).clone() }));
        });
        return Err(IsrRefusal::StaleLeaderEpoch(item.leader_epoch));
    }
    // Java takes the sender's word for it, and would write it down as the leader.
    if request.from.broker != held.leader {
        return Err(IsrRefusal::NotTheLeader(held.leader));
    }
    let wanted = LeaderAndIsr {
        leader: held.leader,
        leader_epoch: held.leader_epoch,
        isr: item.new_isr.clone(),
        leader_recovery_state: item.leader_recovery_state,
    };
    // Before the test of the partition epoch: a leader that repeats itself still names the old one (KAFKA-14144).
    if wanted == **held && !is_later_state {
        return Ok(Judgement::Unchanged(held.clone()));
    }
    if item.partition_epoch < held.partition_epoch() {
        return Err(IsrRefusal::StalePartitionEpoch(item.partition_epoch));
    }
    check_isr(&wanted)?;
    check_recovery(&wanted, held)?;
    check_members(context, request.version, &wanted.isr, partition)?;
    Ok(Judgement::Change(wanted))
}

/// An in-sync set has its leader in it, and everybody once. Java writes whatever it is sent.
fn check_isr(wanted: &LeaderAndIsr) -> Result<(), IsrRefusal> {
    if wanted.isr.is_empty() {
        return Err(IsrRefusal::EmptyIsr);
    }
    if !wanted.isr.contains(wanted.leader) {
        return Err(IsrRefusal::LeaderLeftOut);
    }
    let mut seen = BTreeSet::new();
    match wanted.isr.iter().find(|member| !seen.insert(*member)) {
        Some(member) => Err(IsrRefusal::RepeatedMember(member)),
        None => Ok(()),
    }
}

/// A leader leaves its recovery alone and for good (KIP-704).
fn check_recovery(wanted: &LeaderAndIsr, held: &LeaderAndIsr) -> Result<(), IsrRefusal> {
    match (held.leader_recovery_state, wanted.leader_recovery_state) {
        (_, LeaderRecoveryState::Recovering) if wanted.isr.len() > 1 => {
            Err(IsrRefusal::RecoveringWithFollowers)
        }
        (LeaderRecoveryState::Recovered, LeaderRecoveryState::Recovering) => {
            Err(IsrRefusal::RecoveryCannotBegin)
        }
        _ => Ok(()),
    }
}

/// Members are assigned (Java doesn't ask), and live where the sender knows the code for it (KIP-841). Kafka ignores the
/// members' broker epochs that version 3 carries, and so does klamm.
fn check_members(
    context: &ControllerContext,
    version: i16,
    isr: &BrokerIds,
    partition: &TopicPartition,
) -> Result<(), IsrRefusal> {
    let replicas = context.replicas(partition);
    let strangers: BrokerIds = isr.iter().filter(|id| !replicas.contains(*id)).collect();
    if !strangers.is_empty() {
        return Err(IsrRefusal::NotAssigned(strangers));
    }
    let not_live: BrokerIds = isr.iter().filter(|id| !context.is_live(*id)).collect();
    if version > 0 && !not_live.is_empty() {
        return Err(IsrRefusal::NotLive(not_live));
    }
    Ok(())
}

/// The write of a changed in-sync set: same leader, same leader epoch, our controller epoch.
fn write(
    partition: TopicPartition,
    expected: PartitionEpoch,
    wanted: LeaderAndIsr,
    controller_epoch: ControllerEpoch,
) -> ZkWrite {
    ZkWrite::SetState {
        partition,
        leader_and_isr: wanted,
        controller_epoch,
        expected,
    }
}

/// Notes what became of the writes, and answers. `outcomes` has one entry a write, in order.
pub fn apply(
    context: &mut ControllerContext,
    request: &AlterPartitionRequest,
    decision: AlterPartitionDecision,
    outcomes: &[ZkOutcome],
) -> AlterPartitionApplied {
    let AlterPartitionDecision { writes, findings } = decision;
    let mut applied = AlterPartitionApplied::default();
    let mut announce = BTreeSet::new();
    for finding in findings {
        let result = match finding.verdict {
            Verdict::Unchanged(held) => Ok(held),
            Verdict::Refused(refusal) => Err(refusal),
            Verdict::Write(position) => written(writes.get(position), outcomes.get(position)),
        };
        if let Some(partition) = finding.partition {
            match &result {
                Ok(state) if context.leadership(&partition) != Some(state) => {
                    context.put_leadership(&partition, state.clone());
                    applied.changed.push(partition.clone());
                }
                Err(refusal) if refusal.wants_reread() => applied.reread.push(partition.clone()),
                Ok(_) | Err(_) => {}
            }
            announce.insert(partition);
        }
        let result = result.map_err(|reason| {
            let code = reason.code(request.version);
            applied.refused.push(RefusedAlteration {
                topic: finding.topic.clone(),
                partition: finding.number,
                code,
                reason,
            });
            code
        });
        applied.answers.push(AlterPartitionAnswer {
            topic: finding.topic,
            partition: finding.number,
            result,
        });
    }
    applied.announce = announce.into_iter().collect();
    applied
}

/// What ZooKeeper made of a write.
fn written(
    write: Option<&ZkWrite>,
    outcome: Option<&ZkOutcome>,
) -> Result<Committed<LeaderAndIsr>, IsrRefusal> {
    let (Some(write), Some(outcome)) = (write, outcome) else {
        return Err(IsrRefusal::Zk("nothing was heard of it".to_owned()));
    };
    if let Some(committed) = write.committed(outcome) {
        return Ok(committed);
    }
    Err(match outcome {
        ZkOutcome::VersionConflict => IsrRefusal::Conflict,
        ZkOutcome::Missing => IsrRefusal::StateMissing,
        ZkOutcome::Refused(why) => IsrRefusal::Zk(why.clone()),
        ZkOutcome::Written { .. } | ZkOutcome::AlreadyExists => {
            IsrRefusal::Zk(format!("unexpected outcome {outcome:?}"))
        }
    })
}

#[cfg(test)]
mod tests;
