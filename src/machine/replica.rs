//! ReplicaStateMachine: where each replica stands, and what the in-sync set loses when one goes.
//!
//! ```text
//!   to                  from                                     what it takes
//!   New                 NonExistent                              LeaderAndIsr (is_new) to it, if there is a leader
//!   Online              New                                      nothing: its first LeaderAndIsr is sent elsewhere
//!   Online              Online, Offline, DeletionIneligible      LeaderAndIsr of the state as it is: a probe
//!   Offline             New, Online, Offline, DeletionIneligible see `OfflineChange`
//!   DeletionStarted     Offline                                  StopReplica with deletion
//!   DeletionSuccessful  DeletionStarted                          nothing
//!   DeletionIneligible  Offline, DeletionStarted                 nothing
//!   NonExistent         DeletionSuccessful                       it leaves the assignment in memory
//! ```
//!
//! Any other step is refused and changes nothing. Must never ask whether a replica's broker is alive: a replica on a dead
//! broker goes Online with the others when its topic is made, and what is meant for it is dropped when the batch is sent.
//! Upstream: `ReplicaStateMachine.scala`. Where it adds a replica to the assignment that goes from New to Online without
//! being in it, that is refused here: memory would say what ZooKeeper doesn't.

use super::election::retained;
use super::*;
use crate::effect::ReplicaDisposal;
use crate::model::{BrokerId, ReplicaAssignment};

/// Steps that need no ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalReplicaStep {
    /// To New: the replica is assigned.
    New,
    /// To Online: its broker is told what it hosts.
    Online,
    /// To DeletionStarted: its broker is told to delete the log.
    DeletionStarted,
    /// To DeletionIneligible: its deletion can't go on for now.
    DeletionIneligible,
    /// To DeletionSuccessful: its broker deleted the log.
    DeletionSuccessful,
    /// To NonExistent: it leaves the assignment.
    NonExistent,
}

impl LocalReplicaStep {
    fn target(self) -> ReplicaState {
        match self {
            Self::New => ReplicaState::New,
            Self::Online => ReplicaState::Online,
            Self::DeletionStarted => ReplicaState::DeletionStarted,
            Self::DeletionIneligible => ReplicaState::DeletionIneligible,
            Self::DeletionSuccessful => ReplicaState::DeletionSuccessful,
            Self::NonExistent => ReplicaState::NonExistent,
        }
    }
}

/// Whether the table above has the step.
fn is_legal(from: ReplicaState, to: ReplicaState) -> bool {
    use ReplicaState::{
        DeletionIneligible, DeletionStarted, DeletionSuccessful, New, NonExistent, Offline, Online,
    };
    match to {
        New => from == NonExistent,
        Online | Offline => matches!(from, New | Online | Offline | DeletionIneligible),
        DeletionStarted => from == Offline,
        DeletionSuccessful => from == DeletionStarted,
        DeletionIneligible => matches!(from, Offline | DeletionStarted),
        NonExistent => from == DeletionSuccessful,
    }
}

/// To Offline: the replicas leave the in-sync sets, and their brokers are told to stop fetching.
///
/// | state in ZooKeeper | written | the others hear |
/// |---|---|---|
/// | replica in the in-sync set | without it, leader epoch one higher; leader −1 if it led | the new state |
/// | nobody would be left in sync | the set as it is, leader −1 if it led, leader epoch one higher | the new state |
/// | replica not in the in-sync set | nothing | the state as it is |
/// | no leadership known | nothing | who is alive |
/// | missing, the topic is queued for deletion | nothing: there is no set to leave | nothing |
///
/// **Several replicas of one partition** go in one write and one leader epoch; upstream goes broker by broker and writes
/// as often. Where all in-sync replicas go at once, all of them stay in the set: none could have written without the
/// others, so whichever returns first holds every acknowledged record. Upstream keeps the one that its hash map names
/// last, and only that one can lead again.
///
/// **StopReplica** follows the write and carries the epoch that the write made; upstream sends it with the epoch before.
/// Brokers 2.6.0 to 3.4.0 refuse an epoch that equals their own (KAFKA-13972), so there only the epoch after the shrink
/// stops a replica; 3.4.1 and later, and those before 2.6.0, take either. A replica that was not in sync needs no write
/// and is sent the epoch as it is: such a broker may go on fetching, which harms nobody, and gets its answer when its
/// broker goes or a later write raises the epoch. Where the write failed the StopReplica still goes out.
///
/// The cache keeps the controller epoch that ZooKeeper holds; upstream notes its own even where it wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineChange {
    leaving: Vec<(TopicPartition, Vec<BrokerId>)>,
    round: Round,
}

impl OfflineChange {
    /// Take `replicas` offline.
    pub fn new(mut replicas: Vec<Replica>) -> Self {
        replicas.sort_unstable();
        replicas.dedup();
        let mut leaving: Vec<(TopicPartition, Vec<BrokerId>)> = Vec::new();
        for Replica { partition, broker } in replicas {
            match leaving.last_mut() {
                Some((last, brokers)) if *last == partition => brokers.push(broker),
                _ => leaving.push((partition, vec![broker])),
            }
        }
        OfflineChange {
            leaving,
            round: Round::First,
        }
    }

    fn plan(
        context: &ControllerContext,
        term: Term,
        at: &TopicPartition,
        current: &Committed<LeaderAndIsr>,
        leaving: &[BrokerId],
    ) -> Option<Planned> {
        let first = *leaving.iter().find(|id| current.isr.contains(**id))?;
        let leader_goes = current.isr.contains(current.leader) && leaving.contains(&current.leader);
        let leader = if leader_goes {
            BrokerId::NO_LEADER
        } else {
            current.leader
        };
        // A klamm never fetches: it is no member that others could leave the set to, but where it leads or stands alone.
        let counts = |id| id == current.leader || !context.klamm_ids().contains(&id);
        let rest = retained(&current.isr, |id| counts(id) && !leaving.contains(&id));
        // The last members stay, or nobody could ever be elected.
        let isr = if rest.is_empty() && !planted!(EmptyInSyncSet) {
            let genuine = retained(&current.isr, |id| !context.klamm_ids().contains(&id));
            if genuine.is_empty() {
                current.isr.clone()
            } else {
                genuine
            }
        } else {
            rest
        };
        Some(Planned {
            partition: at.clone(),
            write: ZkWrite::SetState {
                partition: at.clone(),
                leader_and_isr: current.next(leader, isr),
                controller_epoch: term.epoch,
                expected: current.partition_epoch(),
            },
            recipients: planted!(TellLeaderAlone, vec![leader], others(context, at, leaving)),
            reason: Reason::ReplicaOffline(first),
        })
    }

    /// Notes the replicas of one partition as Offline and tells the others of its state.
    fn settle(
        context: &mut ControllerContext,
        at: &TopicPartition,
        leaving: &[BrokerId],
        state: Committed<LeaderAndIsr>,
        recipients: &[BrokerId],
        batch: &mut ControllerBrokerRequestBatch,
    ) {
        context.put_leadership(at, state);
        put_states(context, at, leaving, ReplicaState::Offline);
        if !context.is_to_be_forgotten(&at.topic) {
            batch.add_leader_and_isr(context, recipients, at, false);
        }
    }

    /// Those of partition `at` that are to leave and may.
    fn valid(&self, context: &ControllerContext, at: &TopicPartition) -> Vec<BrokerId> {
        let slot = self.leaving.binary_search_by(|(other, _)| other.cmp(at));
        let leaving = slot.ok().and_then(|slot| self.leaving.get(slot));
        leaving.map_or_else(Vec::new, |(_, brokers)| may_leave(context, at, brokers))
    }
}

impl StateChange for OfflineChange {
    /// Where something is written, its version tells whether the context was right. Where nothing is, ZooKeeper is asked
    /// first: leaders below IBP 2.7 write in-sync sets themselves, and may have let in who leaves now.
    fn needs(&self, context: &ControllerContext) -> Needs {
        let is_read = |(at, brokers): &&(TopicPartition, Vec<BrokerId>)| {
            let known = context.leadership(at);
            let is_in_sync =
                |state: &Committed<LeaderAndIsr>| brokers.iter().any(|id| state.isr.contains(*id));
            self.round == Round::Again || known.is_some_and(|state| !is_in_sync(state))
        };
        let states = self.leaving.iter().filter(is_read);
        let states = states.map(|(at, _)| at.clone()).collect();
        Needs {
            states,
            topic_configs: Vec::new(),
        }
    }

    fn decide(&self, context: &ControllerContext, fetched: &Fetched) -> Decision {
        let mut decision = Decision::default();
        for (at, brokers) in &self.leaving {
            let leaving = may_leave(context, at, brokers);
            let illegal = brokers.iter().filter(|id| !leaving.contains(id));
            decision.refused.extend(illegal.map(|id| {
                let replica = Replica {
                    partition: at.clone(),
                    broker: *id,
                };
                refuse_step(context, replica, ReplicaState::Offline)
            }));
            let is_led = context.leadership(at).is_some();
            if leaving.is_empty() || !is_led {
                continue;
            }
            let current = match context.term() {
                Some(term) => current_state(context, term, fetched, at).map(|state| (term, state)),
                None => Err(Refusal::NotController),
            };
            match current {
                Ok((term, Some(current))) => {
                    match Self::plan(context, term, at, &current, &leaving) {
                        Some(planned) => decision.planned.push(planned),
                        None => {
                            let recipients = others(context, at, &leaving);
                            decision.unchanged.push((at.clone(), current, recipients));
                        }
                    }
                }
                Ok((_, None)) => refuse_missing(at, &mut decision.refused),
                Err(reason) => decision.refused.push(Refused {
                    partition: at.clone(),
                    reason,
                }),
            }
        }
        decision
    }

    fn apply(
        &self,
        context: &mut ControllerContext,
        decision: Decision,
        outcomes: &[ZkOutcome],
        batch: &mut ControllerBrokerRequestBatch,
    ) -> Applied {
        let mut applied = Applied::default();
        for refused in decision.refused {
            match refused.reason {
                Refusal::StateMissing => {
                    self.settle_missing(context, refused.partition, &mut applied)
                }
                _ => applied.refused.push(refused),
            }
        }
        for (at, state, recipients) in decision.unchanged {
            let leaving = self.valid(context, &at);
            Self::settle(context, &at, &leaving, state, &recipients, batch);
            applied.done.push(at);
        }
        for (planned, outcome) in with_outcomes(decision.planned, outcomes) {
            let Planned {
                partition: at,
                write,
                recipients,
                reason,
            } = planned;
            match judge_outcome(&write, outcome) {
                Written::Committed(state) => {
                    let leaving = self.valid(context, &at);
                    note_changes(context, &at, &leaving, reason, &mut applied.changes);
                    Self::settle(context, &at, &leaving, state, &recipients, batch);
                    applied.done.push(at);
                }
                Written::LostRace => applied.retry.push(at),
                Written::Not(Refusal::StateMissing)
                    if context.is_queued_for_deletion(&at.topic) =>
                {
                    let leaving = self.valid(context, &at);
                    put_states(context, &at, &leaving, ReplicaState::Offline);
                    applied.done.push(at);
                }
                Written::Not(reason) => applied.refused.push(Refused {
                    partition: at,
                    reason,
                }),
            }
        }
        self.settle_unled(context, batch, &mut applied);
        self.stop_replicas(context, batch, &applied.retry);
        applied
    }

    fn again(&self, retry: Vec<TopicPartition>) -> Self {
        let retry: std::collections::BTreeSet<TopicPartition> = retry.into_iter().collect();
        let leaving = self.leaving.iter();
        OfflineChange {
            leaving: leaving
                .filter(|(at, _)| retry.contains(at))
                .cloned()
                .collect(),
            round: Round::Again,
        }
    }
}

impl OfflineChange {
    /// The state of one partition is missing: an error, unless its topic is being deleted. There is no set to leave then,
    /// and the deletion must not wait for one.
    fn settle_missing(
        &self,
        context: &mut ControllerContext,
        at: TopicPartition,
        applied: &mut Applied,
    ) {
        if context.is_queued_for_deletion(&at.topic) {
            let leaving = self.valid(context, &at);
            put_states(context, &at, &leaving, ReplicaState::Offline);
            applied.done.push(at);
        } else {
            refuse_missing(&at, &mut applied.refused);
        }
    }

    /// Replicas of partitions that nobody was told of yet: no in-sync set loses them, but brokers hear who is alive.
    fn settle_unled(
        &self,
        context: &mut ControllerContext,
        batch: &mut ControllerBrokerRequestBatch,
        applied: &mut Applied,
    ) {
        let mut unled = Vec::new();
        for (at, brokers) in &self.leaving {
            if context.leadership(at).is_some() {
                continue;
            }
            let leaving = may_leave(context, at, brokers);
            if !leaving.is_empty() {
                put_states(context, at, &leaving, ReplicaState::Offline);
                unled.push(at.clone());
            }
        }
        if !unled.is_empty() {
            let registered = context.live_or_shutting_down_brokers();
            let everyone: Vec<BrokerId> = registered.map(|found| found.broker.id).collect();
            batch.add_update_metadata(context, &everyone, &unled);
            applied.done.append(&mut unled);
        }
    }

    /// StopReplica to every replica that may leave, whatever became of its write. Those that are decided again get theirs
    /// then. (A step to Offline that was legal is legal again once it was made.)
    fn stop_replicas(
        &self,
        context: &ControllerContext,
        batch: &mut ControllerBrokerRequestBatch,
        retry: &[TopicPartition],
    ) {
        for (at, brokers) in &self.leaving {
            if retry.binary_search(at).is_ok() {
                continue;
            }
            for broker in may_leave(context, at, brokers) {
                let replica = Replica {
                    partition: at.clone(),
                    broker,
                };
                batch.add_stop_replica(context, &replica, ReplicaDisposal::Keep);
            }
        }
    }
}

fn may_leave(
    context: &ControllerContext,
    at: &TopicPartition,
    brokers: &[BrokerId],
) -> Vec<BrokerId> {
    let Some(found) = context.partition(at) else {
        return Vec::new();
    };
    let legal = |id: &BrokerId| is_legal(found.replica_state(*id), ReplicaState::Offline);
    brokers.iter().copied().filter(legal).collect()
}

/// The assigned replicas that stay.
fn others(context: &ControllerContext, at: &TopicPartition, leaving: &[BrokerId]) -> Vec<BrokerId> {
    let Some(found) = context.partition(at) else {
        return Vec::new();
    };
    let replicas = found.assignment.replicas.iter();
    replicas.filter(|id| !leaving.contains(id)).collect()
}

fn refuse_missing(at: &TopicPartition, refused: &mut Vec<Refused>) {
    refused.push(Refused {
        partition: at.clone(),
        reason: Refusal::StateMissing,
    });
}

fn refuse_step(context: &ControllerContext, replica: Replica, to: ReplicaState) -> Refused {
    let from = context.replica_state(&replica);
    Refused {
        partition: replica.partition.clone(),
        reason: Refusal::IllegalReplicaStep { replica, from, to },
    }
}

/// One line in the log for each replica that was in sync and left.
fn note_changes(
    context: &ControllerContext,
    at: &TopicPartition,
    leaving: &[BrokerId],
    reason: Reason,
    changes: &mut Vec<(TopicPartition, Reason)>,
) {
    changes.push((at.clone(), reason.clone()));
    let before = context.leadership(at);
    let left = leaving
        .iter()
        .filter(|id| before.is_some_and(|state| state.isr.contains(**id)))
        .map(|id| Reason::ReplicaOffline(*id))
        .filter(|other| *other != reason);
    changes.extend(left.map(|other| (at.clone(), other)));
}

fn put_states(
    context: &mut ControllerContext,
    at: &TopicPartition,
    brokers: &[BrokerId],
    state: ReplicaState,
) {
    for broker in brokers {
        let replica = Replica {
            partition: at.clone(),
            broker: *broker,
        };
        context.put_replica_state(&replica, state);
    }
}

/// Initial states at failover: online replicas Online, others DeletionIneligible. Returns (online, offline), for the two
/// transitions that follow.
pub fn startup(context: &mut ControllerContext) -> (Vec<Replica>, Vec<Replica>) {
    let is_online =
        |replica: &Replica| context.is_replica_online(replica.broker, &replica.partition);
    let (online, offline): (Vec<_>, Vec<_>) =
        context.all_replicas().into_iter().partition(is_online);
    for replica in &online {
        context.put_replica_state(replica, ReplicaState::Online);
    }
    for replica in &offline {
        context.put_replica_state(replica, ReplicaState::DeletionIneligible);
    }
    (online, offline)
}

/// Steps that need no ZooKeeper. Returns those that were refused; they change nothing.
///
/// Replicas of one partition that follow each other are told in one go, so pass them in order.
pub fn handle_state_changes(
    context: &mut ControllerContext,
    replicas: &[Replica],
    step: LocalReplicaStep,
    batch: &mut ControllerBrokerRequestBatch,
) -> Vec<Refused> {
    let to = step.target();
    let mut refused = Vec::new();
    for of_one_partition in replicas.chunk_by(|one, next| one.partition == next.partition) {
        let (legal, illegal): (Vec<&Replica>, Vec<&Replica>) = of_one_partition
            .iter()
            .partition(|replica| is_legal(context.replica_state(replica), to));
        let illegal = illegal.into_iter();
        refused.extend(illegal.map(|replica| refuse_step(context, replica.clone(), to)));
        let Some(first) = legal.first() else {
            continue;
        };
        let at = &first.partition;
        match step {
            LocalReplicaStep::New => begin(context, at, &legal, batch, &mut refused),
            LocalReplicaStep::Online => come_online(context, at, &legal, batch, &mut refused),
            LocalReplicaStep::DeletionStarted => {
                for replica in legal {
                    context.put_replica_state(replica, to);
                    batch.add_stop_replica(context, replica, ReplicaDisposal::Delete);
                }
            }
            LocalReplicaStep::DeletionIneligible | LocalReplicaStep::DeletionSuccessful => {
                for replica in legal {
                    context.put_replica_state(replica, to);
                }
            }
            LocalReplicaStep::NonExistent => {
                for replica in legal {
                    unassign(context, replica);
                    context.put_replica_state(replica, to);
                }
            }
        }
    }
    refused
}

/// To New: where there is a leader the replica hears of it, and may create its log.
fn begin(
    context: &mut ControllerContext,
    at: &TopicPartition,
    replicas: &[&Replica],
    batch: &mut ControllerBrokerRequestBatch,
    refused: &mut Vec<Refused>,
) {
    let leader = context.leadership(at).map(|state| state.leader);
    let mut recipients = Vec::with_capacity(replicas.len());
    for replica in replicas {
        if leader == Some(replica.broker) {
            refused.push(Refused {
                partition: at.clone(),
                reason: Refusal::ReplicaLeads((*replica).clone()),
            });
        } else {
            context.put_replica_state(replica, ReplicaState::New);
            recipients.push(replica.broker);
        }
    }
    if !recipients.is_empty() {
        batch.add_leader_and_isr(context, &recipients, at, true);
    }
}

/// To Online: those that were more than New are told the state as it is.
fn come_online(
    context: &mut ControllerContext,
    at: &TopicPartition,
    replicas: &[&Replica],
    batch: &mut ControllerBrokerRequestBatch,
    refused: &mut Vec<Refused>,
) {
    let assigned = context.replicas(at);
    let mut recipients = Vec::with_capacity(replicas.len());
    for replica in replicas {
        match context.replica_state(replica) {
            ReplicaState::New if !assigned.contains(replica.broker) => refused.push(Refused {
                partition: at.clone(),
                reason: Refusal::NotAssigned((*replica).clone()),
            }),
            ReplicaState::New => context.put_replica_state(replica, ReplicaState::Online),
            _ => {
                context.put_replica_state(replica, ReplicaState::Online);
                recipients.push(replica.broker);
            }
        }
    }
    if !recipients.is_empty() {
        batch.add_leader_and_isr(context, &recipients, at, false);
    }
}

/// Takes a replica whose log is deleted out of the assignment in memory.
fn unassign(context: &mut ControllerContext, replica: &Replica) {
    let Some(found) = context.partition(&replica.partition) else {
        return;
    };
    let ReplicaAssignment {
        replicas,
        adding,
        removing,
    } = &found.assignment;
    let rest = ReplicaAssignment {
        replicas: replicas.without(replica.broker),
        adding: adding.without(replica.broker),
        removing: removing.without(replica.broker),
    };
    context.put_assignment(&replica.partition, rest);
}

#[cfg(test)]
mod tests;
