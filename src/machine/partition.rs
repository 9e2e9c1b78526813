//! PartitionStateMachine: where each partition stands, and how one comes to be led.
//!
//! ```text
//!                        ┌───────── being deleted ──────────┐
//!                        │                                  ▼
//!   NonExistent ──────► New ──────► Online ── leader gone ─► Offline ──────► NonExistent
//!                         create    │    ▲ ◄─── elect ──────  │    ▲
//!                                   └────┘ elect another      └────┘ still without
//!
//!   to           from                        what it takes
//!   New          NonExistent                 nothing
//!   Online       New                         create the state: first online replica leads, all online are in sync
//!   Online       Online, Offline             an election and a write of the state
//!   Offline      New, Online, Offline        nothing
//!   NonExistent  Offline                     nothing
//! ```
//!
//! Any other step is refused and changes nothing. Must never call a partition Online that has no leadership in ZooKeeper.
//! Upstream: `PartitionStateMachine.scala`. Two differences are meant:
//! - An election is decided on the state that the context holds; upstream reads every state again first. The version
//!   check of the write finds out what was stale, and only that is read.
//! - A creation that is answered "exists already" reads what exists and goes on from there. Upstream leaves the partition
//!   New until the next failover, even where it was its own write whose answer got lost.

use super::election::{
    self, Cleanness, Elected, ElectionStrategy, UncleanElection, UncleanRule, Undecided,
};
use super::*;
use crate::model::{BrokerId, BrokerIds, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState};
use crate::state::Partition;

/// Steps that need no ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPartitionStep {
    /// To New: the partition is assigned.
    New,
    /// To Offline: its leader is gone, or its topic is being deleted.
    Offline,
    /// To NonExistent: its deletion goes on.
    NonExistent,
}

impl LocalPartitionStep {
    fn target(self) -> PartitionState {
        match self {
            Self::New => PartitionState::New,
            Self::Offline => PartitionState::Offline,
            Self::NonExistent => PartitionState::NonExistent,
        }
    }
}

/// Whether the diagram above has an arrow.
fn is_legal(from: PartitionState, to: PartitionState) -> bool {
    use PartitionState::{New, NonExistent, Offline, Online};
    match to {
        New => from == NonExistent,
        Online | Offline => matches!(from, New | Online | Offline),
        NonExistent => from == Offline,
    }
}

/// To Online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlineChange {
    partitions: Vec<TopicPartition>,
    strategy: ElectionStrategy,
    round: Round,
}

/// What is to be done for one partition.
enum Verdict {
    Write(Planned),
    /// ZooKeeper holds a state that will do.
    Adopt(Committed<LeaderAndIsr>, Vec<BrokerId>),
}

impl OnlineChange {
    /// Bring `partitions` online: those that are New by creating their state, the others by an election.
    pub fn new(mut partitions: Vec<TopicPartition>, strategy: ElectionStrategy) -> Self {
        partitions.sort_unstable();
        partitions.dedup();
        OnlineChange {
            partitions,
            strategy,
            round: Round::First,
        }
    }

    /// Whether the topic's configuration may decide about this partition, as far as the context can tell: nobody in sync
    /// is online, but somebody is.
    fn config_may_decide(
        &self,
        context: &ControllerContext,
        at: &TopicPartition,
        found: &Partition,
    ) -> bool {
        let ElectionStrategy::OfflinePartition(UncleanRule::ByConfig { .. }) = self.strategy else {
            return false;
        };
        let is_online = |id: BrokerId| context.is_replica_online(id, at);
        let in_sync_is_online = match (self.round, &found.leadership) {
            (Round::First, Some(state)) => in_sync(context, found, state).iter().any(is_online),
            // The in-sync set will be known only after the read that goes with this one.
            (Round::Again, _) | (Round::First, None) => false,
        };
        !in_sync_is_online && found.assignment.replicas.iter().any(is_online)
    }

    /// Whether nobody can be elected, as far as the context can tell. Where something is written, its version tells
    /// whether the context was right. To leave a partition without a leader writes nothing, so ZooKeeper is asked first:
    /// leaders below IBP 2.7 write in-sync sets themselves, and one that died may have let somebody in before.
    fn finds_nobody(
        &self,
        context: &ControllerContext,
        at: &TopicPartition,
        found: &Partition,
    ) -> bool {
        let Some(state) = &found.leadership else {
            return false;
        };
        let replicas = &found.assignment.replicas;
        let is_online = |id: BrokerId| context.is_replica_online(id, at);
        let in_sync = in_sync(context, found, state);
        let mut in_sync = in_sync.iter();
        let somebody = match self.strategy {
            ElectionStrategy::OfflinePartition(_) => {
                in_sync.any(|id| replicas.contains(id) && is_online(id))
            }
            ElectionStrategy::PreferredReplica => {
                in_sync.any(|id| replicas.first() == Some(id) && is_online(id))
            }
            ElectionStrategy::Reassign => {
                let target = found.assignment.target();
                in_sync.any(|id| target.contains(id) && is_online(id))
            }
            ElectionStrategy::ControlledShutdown => in_sync.any(|id| {
                !context.shutting_down().contains(&id)
                    && context.is_replica_online_or_shutting_down(id, at)
            }),
        };
        !somebody
    }

    fn judge(
        &self,
        context: &ControllerContext,
        term: Term,
        fetched: &Fetched,
        at: &TopicPartition,
    ) -> Result<Verdict, Refusal> {
        let from = context.partition_state(at);
        let found = context
            .partition(at)
            .filter(|_| is_legal(from, PartitionState::Online));
        let Some(found) = found else {
            let to = PartitionState::Online;
            return Err(Refusal::IllegalPartitionStep { from, to });
        };
        let current = current_state(context, term, fetched, at)?;
        match (from, current) {
            (PartitionState::New, None) => create(context, term, at, found).map(Verdict::Write),
            (_, None) => Err(Refusal::StateMissing),
            // One that a controller up to 2.0 made late, with a klamm in it, is elected on instead.
            (PartitionState::New, Some(current))
                if context.is_replica_online(current.leader, at)
                    && !current
                        .isr
                        .iter()
                        .any(|id| context.klamm_ids().contains(&id)) =>
            {
                let replicas = found.assignment.replicas.iter();
                let recipients = replicas.filter(|id| context.is_replica_online(*id, at));
                Ok(Verdict::Adopt(current, recipients.collect()))
            }
            (_, Some(current)) => self
                .elect(context, term, fetched, at, &current)
                .map(Verdict::Write),
        }
    }

    fn elect(
        &self,
        context: &ControllerContext,
        term: Term,
        fetched: &Fetched,
        at: &TopicPartition,
        current: &Committed<LeaderAndIsr>,
    ) -> Result<Planned, Refusal> {
        let elected = self.vote(context, fetched, at, current)?;
        let mut next = current.next(elected.leader, elected.isr);
        if elected.cleanness == Cleanness::Unclean && context.protocol().has_leader_recovery() {
            next.leader_recovery_state = LeaderRecoveryState::Recovering;
        }
        planted!(ReuseLeaderEpoch => { next.leader_epoch = current.leader_epoch; });
        Ok(Planned {
            partition: at.clone(),
            write: ZkWrite::SetState {
                partition: at.clone(),
                leader_and_isr: next,
                controller_epoch: term.epoch,
                expected: current.partition_epoch(),
            },
            recipients: elected.recipients,
            reason: self.reason(elected.cleanness),
        })
    }

    fn vote(
        &self,
        context: &ControllerContext,
        fetched: &Fetched,
        at: &TopicPartition,
        current: &Committed<LeaderAndIsr>,
    ) -> Result<Elected, Refusal> {
        let replicas = context.replicas(at);
        let isr = &election::in_sync(&current.isr, &replicas, context.klamm_ids());
        let is_online = |id: BrokerId| context.is_replica_online(id, at);
        let result = match self.strategy {
            ElectionStrategy::OfflinePartition(rule) => {
                let clean = UncleanElection::Forbidden;
                match election::offline_partition(&replicas, isr, clean, is_online) {
                    Err(Undecided::NoInSyncReplicaOnline) => {
                        let unclean = unclean_election(rule, fetched, &at.topic)?;
                        election::offline_partition(&replicas, isr, unclean, is_online)
                    }
                    decided => decided,
                }
            }
            ElectionStrategy::Reassign => {
                let target = context.partition(at).map(|found| found.assignment.target());
                election::reassign(&target.unwrap_or(replicas.clone()), isr, is_online)
            }
            ElectionStrategy::PreferredReplica => {
                election::preferred_replica(&replicas, isr, is_online)
            }
            ElectionStrategy::ControlledShutdown => {
                let shutting_down = context.shutting_down();
                election::controlled_shutdown(&replicas, isr, shutting_down, |id| {
                    context.is_replica_online_or_shutting_down(id, at)
                })
            }
        };
        result.map_err(|why| refusal(why, replicas, isr.clone()))
    }

    fn reason(&self, cleanness: Cleanness) -> Reason {
        match (self.strategy, cleanness) {
            (_, Cleanness::Unclean) => Reason::UncleanElection,
            (ElectionStrategy::OfflinePartition(_), Cleanness::Clean) => Reason::LeaderOffline,
            (ElectionStrategy::Reassign, Cleanness::Clean) => Reason::Reassigned,
            (ElectionStrategy::PreferredReplica, Cleanness::Clean) => Reason::Preferred,
            (ElectionStrategy::ControlledShutdown, Cleanness::Clean) => Reason::ControlledShutdown,
        }
    }
}

impl StateChange for OnlineChange {
    fn needs(&self, context: &ControllerContext) -> Needs {
        let mut needs = Needs::default();
        for at in &self.partitions {
            let Some(found) = context.partition(at) else {
                continue;
            };
            if !is_legal(found.state, PartitionState::Online) {
                continue;
            }
            let is_unknown = found.leadership.is_none() && found.state != PartitionState::New;
            let is_created = found.leadership.is_none() && found.state == PartitionState::New;
            if self.round == Round::Again || is_unknown || self.finds_nobody(context, at, found) {
                needs.states.push(at.clone());
            } else if is_created {
                continue;
            }
            // Partitions are in order, so that those of one topic follow each other.
            if needs.topic_configs.last() != Some(&at.topic)
                && self.config_may_decide(context, at, found)
            {
                needs.topic_configs.push(at.topic.clone());
            }
        }
        needs
    }

    fn decide(&self, context: &ControllerContext, fetched: &Fetched) -> Decision {
        let mut decision = Decision::default();
        for at in &self.partitions {
            let verdict = match context.term() {
                Some(term) => self.judge(context, term, fetched, at),
                None => Err(Refusal::NotController),
            };
            match verdict {
                Ok(Verdict::Write(planned)) => decision.planned.push(planned),
                Ok(Verdict::Adopt(state, recipients)) => {
                    decision.unchanged.push((at.clone(), state, recipients));
                }
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
        for (at, state, recipients) in decision.unchanged {
            let is_ours = is_our_creation(context, &at, &state);
            if is_ours {
                applied.changes.push((at.clone(), Reason::Created));
            }
            bring_online(context, &at, state, &recipients, is_ours, batch);
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
                    if reason == Reason::UncleanElection {
                        context.count_unclean_election();
                    }
                    let is_new = reason == Reason::Created;
                    bring_online(context, &at, state, &recipients, is_new, batch);
                    applied.changes.push((at.clone(), reason));
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
        OnlineChange {
            round: Round::Again,
            ..OnlineChange::new(retry, self.strategy)
        }
    }
}

/// The first state of a new partition. A klamm is never online, so none of them gets in, whatever the assignment says.
fn create(
    context: &ControllerContext,
    term: Term,
    at: &TopicPartition,
    found: &Partition,
) -> Result<Planned, Refusal> {
    let replicas = &found.assignment.replicas;
    let online = election::retained(replicas, |id| context.is_replica_online(id, at));
    let leader = online
        .first()
        .ok_or_else(|| Refusal::NoReplicaOnline(replicas.clone()))?;
    Ok(Planned {
        partition: at.clone(),
        recipients: online.iter().collect(),
        write: ZkWrite::CreateState {
            partition: at.clone(),
            leader_and_isr: LeaderAndIsr::initial(leader, online),
            controller_epoch: term.epoch,
        },
        reason: Reason::Created,
    })
}

/// What the rule comes to for a topic. A configuration that can't be read allows nothing.
fn unclean_election(
    rule: UncleanRule,
    fetched: &Fetched,
    topic: &TopicName,
) -> Result<UncleanElection, Refusal> {
    let default = match rule {
        UncleanRule::Always => return Ok(UncleanElection::Allowed),
        UncleanRule::ByConfig { default } => default,
    };
    let config = planted!(
        UncleanForAll,
        fetched.topic_configs.values().next(),
        fetched.topic_configs.get(topic)
    );
    let configured = match config {
        Some(Read::Found(config)) => config.unclean_leader_election_enable,
        Some(Read::Missing) => None,
        Some(Read::Broken(why)) => return Err(Refusal::Broken(why.clone())),
        None => {
            let unread = format!("the configuration of topic {topic} was not read");
            return Err(Refusal::Broken(unread));
        }
    };
    Ok(match configured.unwrap_or(default) {
        true => UncleanElection::Allowed,
        false => UncleanElection::Forbidden,
    })
}

fn refusal(
    why: Undecided,
    replicas: crate::model::BrokerIds,
    isr: crate::model::BrokerIds,
) -> Refusal {
    match why {
        Undecided::NoReplicaOnline => Refusal::NoReplicaOnline(replicas),
        Undecided::NoInSyncReplicaOnline => Refusal::NoInSyncReplicaOnline(isr),
        Undecided::InSyncReplicasNotAssigned => Refusal::NoEligibleLeader(
            "the in-sync replicas that are online are not in the assignment; assign one of them",
        ),
        Undecided::NoTargetReplicaInSync => Refusal::NoEligibleLeader(
            "no replica of the reassignment's target is online and in sync",
        ),
        Undecided::PreferredReplicaNotInSync => {
            Refusal::NoEligibleLeader("the preferred replica is not online or not in sync")
        }
        Undecided::AllInSyncReplicasShuttingDown => {
            Refusal::NoEligibleLeader("every in-sync replica that is online is shutting down")
        }
    }
}

/// Whether a state that was found where one should be created is our own creation, its answer lost. The brokers haven't
/// heard of it then, and may create the log.
fn is_our_creation(
    context: &ControllerContext,
    at: &TopicPartition,
    state: &Committed<LeaderAndIsr>,
) -> bool {
    let our_epoch = context.term().map(|term| term.epoch);
    context.partition_state(at) == PartitionState::New
        && our_epoch == Some(state.controller_epoch())
        && state.leader_epoch == LeaderEpoch::INITIAL
}

fn bring_online(
    context: &mut ControllerContext,
    at: &TopicPartition,
    state: Committed<LeaderAndIsr>,
    recipients: &[BrokerId],
    is_new: bool,
    batch: &mut ControllerBrokerRequestBatch,
) {
    context.put_leadership(at, state);
    context.put_partition_state(at, PartitionState::Online);
    batch.add_leader_and_isr(context, recipients, at, is_new);
}

/// Initial states at failover, from the leaderships that were read: without one New, with a leader that is online
/// Online, else Offline.
pub fn startup(context: &mut ControllerContext) {
    let mut states = Vec::new();
    for (name, topic) in context.topics() {
        for (index, found) in &topic.partitions {
            let at = TopicPartition::new(name, *index);
            let state = match &found.leadership {
                None => PartitionState::New,
                Some(state) if context.is_replica_online(state.leader, &at) => {
                    PartitionState::Online
                }
                Some(_) => PartitionState::Offline,
            };
            states.push((at, state));
        }
    }
    for (at, state) in states {
        context.put_partition_state(&at, state);
    }
}

/// The partitions that should be brought online whenever a broker comes or goes: New or Offline, and not of a topic that
/// is being deleted. One that is to be deleted, but moves first, needs a leader to copy from: without one the move would
/// never end, nor the deletion begin. Upstream: `triggerOnlinePartitionStateChange`, which leaves it without.
pub fn online_candidates(context: &ControllerContext) -> Vec<TopicPartition> {
    let mut candidates = context.partitions_in(&[PartitionState::New, PartitionState::Offline]);
    candidates.retain(|at| !context.is_to_be_forgotten(&at.topic));
    candidates
}

/// Steps that need no ZooKeeper. Returns those that the diagram doesn't have; they change nothing.
pub fn handle_state_changes(
    context: &mut ControllerContext,
    partitions: &[TopicPartition],
    step: LocalPartitionStep,
) -> Vec<Refused> {
    let to = step.target();
    let mut refused = Vec::new();
    for at in partitions {
        let from = context.partition_state(at);
        if is_legal(from, to) {
            context.put_partition_state(at, to);
        } else {
            refused.push(Refused {
                partition: at.clone(),
                reason: Refusal::IllegalPartitionStep { from, to },
            });
        }
    }
    refused
}

/// Who may be taken for in sync.
fn in_sync(context: &ControllerContext, found: &Partition, state: &LeaderAndIsr) -> BrokerIds {
    election::in_sync(&state.isr, &found.assignment.replicas, context.klamm_ids())
}

#[cfg(test)]
mod tests;
