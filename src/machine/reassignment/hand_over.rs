//! The hand-over of a reassigned partition's leadership: who leads next, and what replicas its leader is told of.
//!
//! Must never name fewer replicas to a leader than are in sync, nor leave one with more than the topic's node holds once
//! the reassignment is done. Upstream: `moveReassignedPartitionLeaderIfRequired` and
//! `updateLeaderEpochAndSendRequest` in `KafkaController.scala`.

use std::collections::BTreeMap;

use super::super::*;
use super::{Kind, Transition, can_drop, is_complete, is_still_in_sync, started};
use crate::machine::election;
use crate::model::{BrokerId, LeaderEpoch};

/// The write of leadership that goes with each transition: the leader epoch rises always, and the leader changes where
/// it goes or is offline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderChange {
    transitions: BTreeMap<TopicPartition, Transition>,
    round: Round,
}

impl LeaderChange {
    /// For these, which the context knows as begun.
    pub fn new(transitions: &[Transition]) -> LeaderChange {
        let by_partition =
            |transition: &Transition| (transition.partition.clone(), transition.clone());
        LeaderChange {
            transitions: transitions.iter().map(by_partition).collect(),
            round: Round::First,
        }
    }
}

/// Who is to lead, decided on `current`, which may be newer than what the transition was decided on.
fn next_leader(
    context: &ControllerContext,
    transition: &Transition,
    current: &LeaderAndIsr,
) -> Result<BrokerId, Refusal> {
    let Transition {
        partition: at,
        from,
        to,
        kind,
    } = transition;
    let is_online = |id: BrokerId| context.is_replica_online(id, at);
    let (still_holds, must_be_online) = match kind {
        Kind::Announce => return Ok(current.leader),
        Kind::Drop => (can_drop(context, at, from, &current.isr), false),
        Kind::Complete => (is_complete(context, at, from, &current.isr), true),
    };
    if !still_holds {
        return Err(Refusal::NoEligibleLeader(
            "an in-sync replica that the reassignment needs has just left the in-sync set",
        ));
    }
    let stays = to.replicas.contains(current.leader);
    if stays && (!must_be_online || is_online(current.leader)) {
        return Ok(current.leader);
    }
    match election::reassign(&to.replicas, &current.isr, is_online) {
        Ok(elected) => Ok(elected.leader),
        Err(_) if transition.removed().any(|id| current.isr.contains(id)) => {
            Err(Refusal::NoEligibleLeader(
                "no replica of the reassignment's target is online and in sync",
            ))
        }
        // It had no leader and gets none by this, but what goes is no loss.
        Err(_) => Ok(current.leader),
    }
}

impl StateChange for LeaderChange {
    fn needs(&self, _context: &ControllerContext) -> Needs {
        let states = match self.round {
            Round::First => Vec::new(),
            Round::Again => self.transitions.keys().cloned().collect(),
        };
        Needs {
            states,
            topic_configs: Vec::new(),
        }
    }

    fn decide(&self, context: &ControllerContext, fetched: &Fetched) -> Decision {
        let mut decision = Decision::default();
        for (at, transition) in &self.transitions {
            let planned = context
                .term()
                .ok_or(Refusal::NotController)
                .and_then(|term| {
                    let current = current_state(context, term, fetched, at)?;
                    let current = current.ok_or(Refusal::StateMissing)?;
                    let leader = next_leader(context, transition, &current)?;
                    Ok(ZkWrite::SetState {
                        partition: at.clone(),
                        leader_and_isr: current.next(leader, current.isr.clone()),
                        controller_epoch: term.epoch,
                        expected: current.partition_epoch(),
                    })
                });
            match planned {
                Ok(write) => decision.planned.push(Planned {
                    partition: at.clone(),
                    write,
                    recipients: transition.to.replicas.iter().collect(),
                    reason: Reason::Reassigned,
                }),
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
        let mut applied = Applied {
            refused: decision.refused,
            ..Applied::default()
        };
        for (planned, outcome) in with_outcomes(decision.planned, outcomes) {
            let at = planned.partition;
            match judge_outcome(&planned.write, outcome) {
                Written::Committed(state) => {
                    if context.is_replica_online(state.leader, &at) {
                        context.put_partition_state(&at, PartitionState::Online);
                    }
                    context.put_leadership(&at, state);
                    if let Some(transition) = self.transitions.get(&at) {
                        announce(context, transition, &planned.recipients, batch);
                    }
                    applied.changes.push((at.clone(), Reason::Reassigned));
                    applied.done.push(at);
                }
                Written::LostRace => applied.retry.push(at),
                Written::Not(reason) => applied.refused.push(Refused {
                    partition: at,
                    reason,
                }),
            }
        }
        applied
    }

    fn again(&self, retry: Vec<TopicPartition>) -> Self {
        let of = |at: TopicPartition| Some((at.clone(), self.transitions.get(&at)?.clone()));
        LeaderChange {
            transitions: retry.into_iter().filter_map(of).collect(),
            round: Round::Again,
        }
    }
}

/// Those that are being added may create their logs wherever they have room; for the others, and for those that have come
/// into the in-sync set already, a log on a failed directory must not be made anew elsewhere.
///
/// While some of those that go are still in sync the leader is told of all replicas, unlike upstream: it waits for
/// replicas alone before it acknowledges a record, and one of the in-sync set that isn't named as a replica could be
/// elected without that record if the controller ended here.
fn announce(
    context: &mut ControllerContext,
    transition: &Transition,
    recipients: &[BrokerId],
    batch: &mut ControllerBrokerRequestBatch,
) {
    let at = &transition.partition;
    let known = context.partition(at).map(|found| found.assignment.clone());
    if is_still_in_sync(context, transition) {
        context.put_assignment(at, transition.from.clone());
    }
    let state = context.leadership(at);
    let has_no_log = |id: &BrokerId| state.is_none_or(|state| !state.isr.contains(*id));
    let starting: Vec<BrokerId> = match transition.kind {
        Kind::Complete => Vec::new(),
        Kind::Announce | Kind::Drop => started(&transition.to).filter(has_no_log).collect(),
    };
    let others = recipients.iter().filter(|id| !starting.contains(id));
    let others: Vec<BrokerId> = others.copied().collect();
    batch.add_leader_and_isr(context, &others, at, false);
    if !starting.is_empty() {
        batch.add_leader_and_isr(context, &starting, at, true);
    }
    if let Some(known) = known {
        context.put_assignment(at, known);
    }
}

/// Under which leader epochs leaders have just been told of all replicas: see [`announce`].
pub fn told_of_all(
    context: &ControllerContext,
    transitions: &[&Transition],
) -> BTreeMap<TopicPartition, LeaderEpoch> {
    let told = transitions.iter().filter_map(|transition| {
        let state = context.leadership(&transition.partition)?;
        let is_all = is_still_in_sync(context, transition);
        is_all.then(|| (transition.partition.clone(), state.leader_epoch))
    });
    told.collect()
}

/// Those whose removed replicas have left the in-sync set although no controller raised the leader epoch since.
pub fn unaware(
    context: &ControllerContext,
    told_of_all: &BTreeMap<TopicPartition, LeaderEpoch>,
    transitions: &[&Transition],
) -> Vec<Transition> {
    let is_unaware = |transition: &&&Transition| {
        let at = &transition.partition;
        let epoch = context.leadership(at).map(|state| state.leader_epoch);
        epoch.is_some()
            && told_of_all.get(at).copied() == epoch
            && !is_still_in_sync(context, transition)
    };
    transitions
        .iter()
        .filter(is_unaware)
        .map(|transition| (*transition).clone())
        .collect()
}
