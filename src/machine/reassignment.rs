//! Reassignment: what may be asked for, how a partition gets from its replicas to its target, and what it waits for.
//!
//! ```text
//!   asked for ─► begun: adding and removing stand in the topic's node ─► announced: leader epoch + 1, the added copy the log
//!                                                                              │ all of the target are in sync
//!                                                                              ▼
//!                    the node holds the target alone ◄── the removed are told to delete ◄── leader among the target
//! ```
//!
//! Which partitions move, and where to, stands in their assignments alone, so that the next controller, a Java one too,
//! goes on from wherever this one stopped. Must never let a replica delete its log before another that is in sync leads,
//! nor before the leader epoch rose: brokers 2.6.0 to 3.4.0 refuse a StopReplica under the epoch that they know
//! (KAFKA-13972). Upstream: `onPartitionReassignment` and what it calls in `KafkaController.scala`, with the same steps in
//! the same order, but for all partitions at once. Differences that are meant:
//! - What a cancelled or replaced reassignment has added stays assigned, as added and to be removed, until somebody else
//!   leads and it was told to delete. Upstream takes it out of the topic's node first: a crash then leaves its log behind,
//!   and a partition that only it could lead without a leader.
//! - The leadership is handed over and the removed leave only if all of the target are in sync at that very write.
//! - A partition that was never led has nothing to copy: its assignment is replaced.

mod hand_over;

use std::collections::{BTreeMap, BTreeSet};

use super::replica::LocalReplicaStep;
use super::*;
use crate::effect::{PartitionErrors, TopicReference};
use crate::model::{ApiError, BrokerId, BrokerIds, KafkaError, ReplicaAssignment};
pub use crate::state::Waiting;
pub use hand_over::{LeaderChange, told_of_all, unaware};

/// What is asked for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// To have these replicas, in this order.
    Target(BrokerIds),
    /// To have those that it had before.
    Cancel,
}

/// Who asks: an API request hears of every fault at once, a node is written for a cluster whose brokers may be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// AlterPartitionReassignments.
    Api,
    /// `/admin/reassign_partitions`.
    Node,
}

/// Why a partition is not reassigned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReassigned {
    /// Nobody is named.
    #[error("the replica list is empty; name at least one broker")]
    NoReplicas,
    /// There can't be so many: how many are named, and how many brokers there are to name.
    #[error(
        "{named} replicas are more than there are brokers to host them: {possible} are live or host the partition already; name each broker once"
    )]
    TooManyReplicas {
        /// In the list.
        named: usize,
        /// At most.
        possible: usize,
    },
    /// A broker hosts a partition once.
    #[error("broker {0} stands twice in the replica list; name each broker once")]
    RepeatedBroker(BrokerId),
    /// Ids start at 0.
    #[error("{0} in the replica list is no broker id; ids are 0 or more")]
    NegativeBroker(BrokerId),
    /// A klamm never keeps a replica.
    #[error("{0} in the replica list is the id of a klamm, which keeps no replicas; name a broker")]
    Klamm(BrokerId),
    /// New replicas need a broker that is there.
    #[error(
        "the brokers {0} are not live, so that they can't take a new replica; start them or name others"
    )]
    NotLive(BrokerIds),
    /// Nobody has ever heard of it.
    #[error(
        "the brokers {0} are not registered and host no replica of any topic; correct the ids, or start the brokers and ask again"
    )]
    UnknownBrokers(BrokerIds),
    /// There is no such partition.
    #[error("there is no such partition")]
    UnknownPartition,
    /// Its topic is to be deleted.
    #[error("its topic is being deleted")]
    BeingDeleted,
    /// Nothing runs that could be cancelled.
    #[error("the partition is not being reassigned, so that there is nothing to cancel")]
    NothingToCancel,
    /// All replicas are being added, says the topic's node.
    #[error(
        "the topic's node doesn't say which replicas the partition had before; name the wanted ones instead of cancelling"
    )]
    OriginUnknown,
    /// The topic's node could not be written.
    #[error("{0}")]
    NotWritten(String),
}

impl NotReassigned {
    /// What a client is told.
    pub fn to_api_error(&self) -> ApiError {
        ApiError {
            error: match self {
                Self::NoReplicas
                | Self::TooManyReplicas { .. }
                | Self::RepeatedBroker(_)
                | Self::NegativeBroker(_)
                | Self::Klamm(_)
                | Self::NotLive(_)
                | Self::UnknownBrokers(_)
                | Self::OriginUnknown => KafkaError::INVALID_REPLICA_ASSIGNMENT,
                Self::UnknownPartition | Self::BeingDeleted => {
                    KafkaError::UNKNOWN_TOPIC_OR_PARTITION
                }
                Self::NothingToCancel => KafkaError::NO_REASSIGNMENT_IN_PROGRESS,
                Self::NotWritten(_) => KafkaError::UNKNOWN_SERVER_ERROR,
            },
            message: self.to_string(),
        }
    }
}

/// The assignment that a wish comes to, or why it is not to be. The order of the checks is upstream's.
///
/// A running reassignment of a topic that is to be deleted can be cancelled, which the deletion may wait for; upstream
/// refuses that too.
pub fn judge(
    context: &ControllerContext,
    at: &TopicPartition,
    wish: &Wish,
    asker: Asker,
) -> Result<ReplicaAssignment, NotReassigned> {
    let found = context.partition(at);
    let target = match wish {
        Wish::Cancel => {
            let running = found.filter(|found| found.assignment.is_being_reassigned());
            let running = &running.ok_or(NotReassigned::NothingToCancel)?.assignment;
            let origin = running.origin();
            if origin.is_empty() {
                return Err(NotReassigned::OriginUnknown);
            }
            return Ok(running.redirect_to(&origin));
        }
        Wish::Target(target) => target,
    };
    let nothing = ReplicaAssignment::none();
    let current = found.map_or(&nothing, |found| &found.assignment);
    check_target(context, current, target, asker)?;
    if found.is_none() {
        return Err(NotReassigned::UnknownPartition);
    }
    if context.is_queued_for_deletion(&at.topic) {
        return Err(NotReassigned::BeingDeleted);
    }
    Ok(current.redirect_to(target))
}

fn check_target(
    context: &ControllerContext,
    current: &ReplicaAssignment,
    target: &BrokerIds,
    asker: Asker,
) -> Result<(), NotReassigned> {
    if target.is_empty() {
        return Err(NotReassigned::NoReplicas);
    }
    if asker == Asker::Api {
        check_number(context, current, target)?;
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = target.iter().find(|id| !seen.insert(*id)) {
        return Err(NotReassigned::RepeatedBroker(twice));
    }
    if let Some(negative) = target.iter().find(|id| id.0 < 0) {
        return Err(NotReassigned::NegativeBroker(negative));
    }
    let is_klamm = |id: &BrokerId| context.klamm_ids().contains(id);
    if let Some(klamm) = target.iter().find(is_klamm) {
        return Err(NotReassigned::Klamm(klamm));
    }
    let unfit: BrokerIds = match asker {
        Asker::Api => {
            let adding = current.reassign_to(target).adding;
            let not_live = adding.iter().filter(|id| !context.is_live(*id));
            not_live.collect()
        }
        Asker::Node => {
            let unknown = target.iter().filter(|id| !context.is_known_broker(*id));
            unknown.collect()
        }
    };
    match (unfit.is_empty(), asker) {
        (true, _) => Ok(()),
        (false, Asker::Api) => Err(NotReassigned::NotLive(unfit)),
        (false, Asker::Node) => Err(NotReassigned::UnknownBrokers(unfit)),
    }
}

/// Before anything is made of a list: a frame has room for millions of ids, and the refusal would name them all. A node
/// has not, and may name brokers that are down.
fn check_number(
    context: &ControllerContext,
    current: &ReplicaAssignment,
    target: &BrokerIds,
) -> Result<(), NotReassigned> {
    let registered = context.live_or_shutting_down_brokers().count();
    let possible = registered.saturating_add(current.replicas.len());
    let named = target.len();
    if named > possible {
        return Err(NotReassigned::TooManyReplicas { named, possible });
    }
    Ok(())
}

/// What the entries of `/admin/reassign_partitions` come to. Each list is in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requested {
    /// To be begun, with the assignment to write.
    pub begin: Vec<(TopicPartition, ReplicaAssignment)>,
    /// Not to be done, and why.
    pub refused: Vec<(TopicPartition, NotReassigned)>,
}

/// Sorts out what a node asks for; what runs towards the wanted target already is in neither list.
pub fn requested(
    context: &ControllerContext,
    targets: &BTreeMap<TopicPartition, BrokerIds>,
) -> Requested {
    let mut sorted = Requested::default();
    for (at, target) in targets {
        if runs_towards(context, at, target) {
            continue;
        }
        match judge(context, at, &Wish::Target(target.clone()), Asker::Node) {
            Ok(next) => sorted.begin.push((at.clone(), next)),
            Err(why) => sorted.refused.push((at.clone(), why)),
        }
    }
    sorted
}

/// What to say of an entry of the node that is not done.
pub fn refused_entry(at: &TopicPartition, wanted: Option<&BrokerIds>, why: &str) -> String {
    let wanted = wanted.map(ToString::to_string).unwrap_or_default();
    format!(
        "/admin/reassign_partitions: partition {at} is not reassigned to {wanted}, and klamm takes the entry out: {why}"
    )
}

/// Whether a partition is being reassigned to exactly these replicas.
pub fn runs_towards(context: &ControllerContext, at: &TopicPartition, target: &BrokerIds) -> bool {
    context.partition(at).is_some_and(|found| {
        let assignment = &found.assignment;
        assignment.is_being_reassigned() && assignment.target() == *target
    })
}

/// Whether a partition has exactly these replicas and isn't being reassigned.
pub fn rests_at(context: &ControllerContext, at: &TopicPartition, replicas: &BrokerIds) -> bool {
    context.partition(at).is_some_and(|found| {
        let assignment = &found.assignment;
        !assignment.is_being_reassigned() && assignment.replicas == *replicas
    })
}

/// Partitions that were led and will, as far as is known, have a replica on a klamm. In order.
pub fn to_move_off_klamms(context: &ControllerContext) -> Vec<TopicPartition> {
    let klamms = context.klamm_ids();
    let hosted = klamms.iter().flat_map(|id| context.replicas_on(*id));
    let partitions: BTreeSet<TopicPartition> = hosted.map(|replica| replica.partition).collect();
    let named_by_target = |at: &TopicPartition| {
        context.partition(at).is_some_and(|found| {
            let target = found.assignment.target();
            found.leadership.is_some() && target.iter().any(|id| klamms.contains(&id))
        })
    };
    let movable = partitions
        .into_iter()
        .filter(|at| named_by_target(at) && !context.is_queued_for_deletion(&at.topic));
    movable.collect()
}

/// How closely a reassignment is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It begins, or somebody who takes part has forgotten all about it: it is announced.
    Announce,
    /// Whether it can go on; if not, nobody is told anything.
    Check,
}

/// What a reassignment comes to next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All replicas hear of it under a new leader epoch.
    Announce,
    /// What an earlier target added goes; the rest is announced.
    Drop,
    /// The target is in sync: the rest goes.
    Complete,
}

/// One partition on its way from an assignment to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Whose.
    pub partition: TopicPartition,
    /// What stands in the topic's node.
    pub from: ReplicaAssignment,
    /// What will.
    pub to: ReplicaAssignment,
    /// What is done.
    pub kind: Kind,
}

impl Transition {
    /// The replicas that go.
    pub fn removed(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let before = self.from.replicas.iter();
        before.filter(|id| !self.to.replicas.contains(*id))
    }

    fn replicas(&self, ids: impl Iterator<Item = BrokerId>) -> Vec<Replica> {
        let partition = &self.partition;
        ids.map(|broker| Replica {
            partition: partition.clone(),
            broker,
        })
        .collect()
    }

    /// The same, as replicas.
    pub fn removed_replicas(&self) -> Vec<Replica> {
        self.replicas(self.removed())
    }

    /// Those that start to copy.
    pub fn started_replicas(&self) -> Vec<Replica> {
        match self.kind {
            Kind::Announce | Kind::Drop => self.replicas(started(&self.to)),
            Kind::Complete => Vec::new(),
        }
    }
}

fn started(assignment: &ReplicaAssignment) -> impl Iterator<Item = BrokerId> + '_ {
    let adding = assignment.adding.iter();
    adding.filter(|id| !assignment.removing.contains(*id))
}

/// Partitions that were never led, as far as the context knows: whether ZooKeeper knows better has to be read.
pub fn without_leadership(
    context: &ControllerContext,
    partitions: &[TopicPartition],
) -> Vec<TopicPartition> {
    let unled = |at: &&TopicPartition| {
        let found = context.partition(at);
        found.is_some_and(|found| found.leadership.is_none())
    };
    partitions.iter().filter(unled).cloned().collect()
}

/// What becomes of these partitions now. Those without a known leadership are left out.
pub fn transitions(
    context: &ControllerContext,
    partitions: &[TopicPartition],
    look: Look,
) -> Vec<Transition> {
    let mut planned = Vec::new();
    for at in partitions {
        let Some(found) = context.partition(at) else {
            continue;
        };
        let Some(state) = &found.leadership else {
            continue;
        };
        let from = found.assignment.clone();
        if look == Look::Check && !from.is_being_reassigned() {
            continue;
        }
        let (kind, to) = if is_complete(context, at, &from, &state.isr) {
            (Kind::Complete, ReplicaAssignment::settled(from.target()))
        } else if can_drop(context, at, &from, &state.isr) {
            (Kind::Drop, from.after_drop())
        } else if look == Look::Announce {
            (Kind::Announce, from.clone())
        } else {
            continue;
        };
        planned.push(Transition {
            partition: at.clone(),
            from,
            to,
            kind,
        });
    }
    planned
}

/// Whether a reassignment can end: all of the target are in sync, and somebody of it can lead. One that was cancelled
/// ends as soon as somebody can lead, or if those that go hold nothing that others miss.
fn is_complete(
    context: &ControllerContext,
    at: &TopicPartition,
    assignment: &ReplicaAssignment,
    isr: &BrokerIds,
) -> bool {
    if !assignment.is_being_reassigned() {
        return true;
    }
    if assignment.is_being_cancelled() {
        return can_drop(context, at, assignment, isr);
    }
    let target = assignment.target();
    target.iter().all(|id| isr.contains(id))
        && target.iter().any(|id| context.is_replica_online(id, at))
}

/// Whether there is something to drop, and it may go: somebody else can lead, or what goes holds nothing that others
/// miss.
fn can_drop(
    context: &ControllerContext,
    at: &TopicPartition,
    assignment: &ReplicaAssignment,
    isr: &BrokerIds,
) -> bool {
    let dropping = assignment.dropping();
    let stays = |id: &BrokerId| !dropping.contains(*id);
    let mut rest = assignment.replicas.iter().filter(stays);
    !dropping.is_empty()
        && (rest.any(|id| isr.contains(id) && context.is_replica_online(id, at))
            || !dropping.iter().any(|id| isr.contains(id)))
}

/// Has the context know what is to be, before brokers are told. What is not carried out goes back: see [`restore`].
pub fn begin(context: &mut ControllerContext, transitions: &[Transition]) {
    for transition in transitions {
        let at = &transition.partition;
        // One that was never started can't leave either, and its broker may have heard of it from somebody else.
        for replica in transition.removed_replicas() {
            if context.replica_state(&replica) == ReplicaState::NonExistent {
                context.put_replica_state(&replica, ReplicaState::New);
            }
        }
        if transition.kind == Kind::Complete {
            for replica in transition.replicas(transition.to.replicas.iter()) {
                let state = context.replica_state(&replica);
                if matches!(state, ReplicaState::New | ReplicaState::NonExistent) {
                    context.put_replica_state(&replica, ReplicaState::Online);
                }
            }
        }
        context.put_assignment(at, transition.to.clone());
    }
}

/// Takes back what was not carried out: the topic's node still says what was before.
pub fn restore(context: &mut ControllerContext, transitions: &[&Transition]) {
    for transition in transitions {
        if context.partition(&transition.partition).is_none() {
            continue;
        }
        context.put_assignment(&transition.partition, transition.from.clone());
        for replica in transition.removed_replicas() {
            let state = context.replica_state(&replica);
            if !matches!(state, ReplicaState::New | ReplicaState::Online) {
                context.put_replica_state(&replica, ReplicaState::Offline);
            }
        }
    }
}

/// Whether a removed replica is still in its partition's in-sync set, so that it must not delete anything.
pub fn is_still_in_sync(context: &ControllerContext, transition: &Transition) -> bool {
    let state = context.leadership(&transition.partition);
    state.is_some_and(|state| transition.removed().any(|id| state.isr.contains(id)))
}

/// The removed have left their in-sync sets: they are told to delete their logs, and are forgotten. Nobody waits for
/// their answers, as upstream: a broker that is away keeps the log until an operator removes it.
pub fn tell_removed(
    context: &mut ControllerContext,
    transitions: &[&Transition],
    batch: &mut ControllerBrokerRequestBatch,
) -> Vec<Refused> {
    let replicas: Vec<Replica> = transitions
        .iter()
        .flat_map(|transition| transition.removed_replicas())
        .collect();
    let mut refused = Vec::new();
    for step in [
        LocalReplicaStep::DeletionStarted,
        LocalReplicaStep::DeletionSuccessful,
        LocalReplicaStep::NonExistent,
    ] {
        refused.extend(replica::handle_state_changes(
            context, &replicas, step, batch,
        ));
    }
    refused
}

/// What a broker that was told to delete replicas answered with an error, where it hosts them no more and their topics
/// stay.
pub fn refused_removals(
    context: &ControllerContext,
    broker: BrokerId,
    deleted: &[TopicPartition],
    response: &PartitionErrors,
) -> Vec<(TopicPartition, KafkaError)> {
    let deleted: BTreeSet<&TopicPartition> = deleted.iter().collect();
    let mut refused = Vec::new();
    for (topic, index, error) in &response.partitions {
        let name = match topic {
            TopicReference::Name(name) => Some(name),
            TopicReference::Id(id) => context.topic_name(*id),
        };
        let Some(name) = name.filter(|_| !error.is_none()) else {
            continue;
        };
        let at = TopicPartition::new(name, *index);
        let is_removed = deleted.contains(&at)
            && !context.is_deletion_begun(name)
            && !context.replicas(&at).contains(broker);
        if is_removed {
            refused.push((at, *error));
        }
    }
    refused
}

/// Those that start to copy, as far as they have not been started: they are New until they are in sync.
pub fn start_added(
    context: &mut ControllerContext,
    transitions: &[&Transition],
    batch: &mut ControllerBrokerRequestBatch,
) -> Vec<Refused> {
    let added = transitions
        .iter()
        .flat_map(|transition| transition.started_replicas());
    let added: Vec<Replica> = added
        .filter(|replica| context.replica_state(replica) == ReplicaState::NonExistent)
        .collect();
    replica::handle_state_changes(context, &added, LocalReplicaStep::New, batch)
}

/// Replaces the assignment of a partition that was never led: those who go have nothing, and those who come wait for
/// its first leader as the others do.
pub fn replace_unled(context: &mut ControllerContext, at: &TopicPartition, to: &ReplicaAssignment) {
    let before = context.replicas(at);
    context.put_assignment(at, to.clone());
    let of = |broker| Replica {
        partition: at.clone(),
        broker,
    };
    for gone in before.iter().filter(|id| !to.replicas.contains(*id)) {
        context.put_replica_state(&of(gone), ReplicaState::NonExistent);
    }
    for added in to.replicas.iter() {
        if context.replica_state(&of(added)) == ReplicaState::NonExistent {
            context.put_replica_state(&of(added), ReplicaState::Online);
        }
    }
}

/// Notes what these wait for; returns those whose reason is news and worth a word. What was refused stays so until it is
/// tried again.
pub fn review(
    context: &mut ControllerContext,
    partitions: &[TopicPartition],
) -> Vec<(TopicPartition, Waiting)> {
    let mut news = Vec::new();
    for at in partitions {
        let before = context.reassignments_waiting().get(at);
        if matches!(before, Some(Waiting::ZooKeeperRefused(_))) {
            continue;
        }
        let Some(why) = why_it_waits(context, at) else {
            continue;
        };
        if context.set_reassignment_waiting(at, why.clone()) && why.is_worth_a_word() {
            news.push((at.clone(), why));
        }
    }
    news
}

fn why_it_waits(context: &ControllerContext, at: &TopicPartition) -> Option<Waiting> {
    let found = context.partition(at)?;
    let assignment = &found.assignment;
    let target = assignment.target();
    let Some(state) = &found.leadership else {
        return Some(Waiting::NoLeader(assignment.replicas.clone()));
    };
    let dropping = assignment.dropping();
    if !dropping.is_empty() && !can_drop(context, at, assignment, &state.isr) {
        return Some(Waiting::NobodyLeft(assignment.after_drop().replicas));
    }
    let leader_is_there = context.is_replica_online_or_shutting_down(state.leader, at);
    let missing: BrokerIds = target
        .iter()
        .filter(|id| !state.isr.contains(*id))
        .collect();
    let needed = if missing.is_empty() {
        &target
    } else {
        &missing
    };
    let away = needed.iter().find(|id| !context.is_replica_online(*id, at));
    Some(match away {
        Some(id) if context.is_live(id) => Waiting::LogDirFailed(id),
        Some(id) => Waiting::BrokerDown(id),
        None if !leader_is_there => Waiting::NoLeader(state.isr.clone()),
        None => Waiting::CatchingUp(missing),
    })
}

#[cfg(test)]
mod tests;
