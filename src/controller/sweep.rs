//! Anti-entropy: no lost watch outlives a minute. And the second look where old brokers may have written late.
//!
//! A sweep goes in slices, each an event of its own, so that nothing waits long behind it. It decides nothing itself:
//! what differs is handled as the watch would have had it handled. Upstream has no counterpart.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::isr::is_of_newer_controller;
use super::{KafkaController, log};
use crate::effect::Read;
use crate::event::{ControllerEvent, Sweep};
use crate::machine::partition;
use crate::machine::replica::OfflineChange;
use crate::model::{Replica, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};
use crate::state::ReplicaState;

/// Topics compared in one slice.
const SLICE: usize = 500;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_anti_entropy(&mut self, sweep: Sweep) -> Result<(), ZkFault> {
        let (next, outcome) = match sweep {
            Sweep::Begin => {
                // Before anything that may fail: a sweep that fails must not be the last one.
                self.schedule_sweep();
                self.refused_states.begin_sweep();
                let outcome = self.sweep_at_once().await;
                self.refused_states.end_sweep();
                (Some(None), outcome)
            }
            Sweep::Topics { after } => {
                let slice = self.topics_after(after);
                let last = slice.last().map(|(name, _)| name.clone());
                let next = last.filter(|_| slice.len() == SLICE);
                (next.map(Some), self.sweep_topics(slice).await)
            }
        };
        // What is refused costs its part alone; a term that is over costs the rest.
        if let (Some(after), Ok(()) | Err(ZkFault::Refused { .. })) = (next, &outcome) {
            let slice = ControllerEvent::AntiEntropy(Sweep::Topics { after });
            self.ports.clock.schedule(0, slice);
        }
        outcome
    }

    /// Sets the timer of the next sweep, unless it runs already: a reconnect asks for sweeps out of turn.
    pub(super) fn schedule_sweep(&mut self) {
        let now_ms = self.ports.clock.now_ms();
        if self.sweep_due_at_ms.is_some_and(|due_ms| due_ms > now_ms) {
            return;
        }
        let period_ms = self.settings.anti_entropy_period_ms;
        self.sweep_due_at_ms = Some(now_ms.saturating_add(period_ms));
        let sweep = ControllerEvent::AntiEntropy(Sweep::Begin);
        self.ports.clock.schedule(period_ms, sweep);
    }

    /// All but the topics. Each part is looked at, whatever is refused of the others; what was refused first is returned.
    async fn sweep_at_once(&mut self) -> Result<(), ZkFault> {
        let mut refused = Ok(());
        let outcome = self.sweep_brokers().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.process_topic_change().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.sweep_reassignments().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.sweep_deletions().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.process_isr_change_notification().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.process_log_dir_event_notification().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.process_config_change().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.process_preferred_replica_election().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.finish_work().await;
        go_on(&mut refused, outcome)?;
        let outcome = self.adopt_protocol().await;
        go_on(&mut refused, outcome)?;
        refused
    }

    async fn sweep_brokers(&mut self) -> Result<(), ZkFault> {
        let listed = self.ports.zk.brokers().await?;
        let diff = crate::machine::membership::diff_brokers(&self.context, listed);
        if !diff.is_empty() {
            self.ports.clock.schedule(0, ControllerEvent::BrokerChange);
        }
        Ok(())
    }

    /// Does what an event left undone because ZooKeeper refused something. A refused state costs its partition alone, so that
    /// one which stays refused troubles nobody else with each sweep.
    async fn finish_work(&mut self) -> Result<(), ZkFault> {
        let refused = self.refused_states.take_due();
        if !self.has_unfinished_work {
            return self.retry(&refused).await;
        }
        let left_behind = self.left_behind(self.context.all_replicas());
        self.on_replicas_become_offline(left_behind).await?;
        self.lead_unplaced_topics().await?;
        self.has_unfinished_work = false;
        Ok(())
    }

    /// Tries again what was refused of these partitions' states. What stands against a deletion is tried by that.
    async fn retry(&mut self, refused: &BTreeSet<TopicPartition>) -> Result<(), ZkFault> {
        if refused.is_empty() {
            return Ok(());
        }
        let mut candidates = partition::online_candidates(&self.context);
        candidates.retain(|at| refused.contains(at));
        self.bring_online(candidates).await?;
        let mut kept: Vec<TopicPartition> = refused.iter().cloned().collect();
        kept.retain(|at| !self.context.is_to_be_forgotten(&at.topic));
        let left_behind = self.left_behind(self.replicas_of(&kept));
        if !left_behind.is_empty() {
            self.change_and_send(OfflineChange::new(left_behind))
                .await?;
        }
        let moving = self.moving();
        self.review_reassignments(&moving);
        Ok(())
    }

    /// Those that are not online, and have not been taken offline.
    pub(super) fn left_behind(&self, mut replicas: Vec<Replica>) -> Vec<Replica> {
        replicas.retain(|replica| {
            let (id, at) = (replica.broker, &replica.partition);
            let is_left_behind = match self.context.replica_state(replica) {
                ReplicaState::New | ReplicaState::Online | ReplicaState::DeletionStarted => true,
                // Where those stand that were not online at the takeover.
                ReplicaState::DeletionIneligible => !self.context.is_to_be_forgotten(&at.topic),
                ReplicaState::Offline
                | ReplicaState::DeletionSuccessful
                | ReplicaState::NonExistent => false,
            };
            is_left_behind && !self.context.is_replica_online_or_shutting_down(id, at)
        });
        replicas
    }

    /// The next topics to compare, and the versions of their nodes.
    fn topics_after(&self, after: Option<TopicName>) -> Vec<(TopicName, i32)> {
        self.context
            .topics()
            .range((
                after.as_ref().map_or(Bound::Unbounded, Bound::Excluded),
                Bound::Unbounded,
            ))
            .take(SLICE)
            .map(|(name, topic)| (name.clone(), topic.znode_version))
            .collect()
    }

    /// Compares one slice.
    async fn sweep_topics(&mut self, slice: Vec<(TopicName, i32)>) -> Result<(), ZkFault> {
        if slice.is_empty() {
            return Ok(());
        }
        let names: Vec<TopicName> = slice.iter().map(|(name, _)| name.clone()).collect();
        let reads = self.ports.zk.topics(&names).await?;
        let differs = slice
            .iter()
            .zip(reads)
            .filter_map(|((name, version), read)| match read {
                Read::Found(znode) if znode.version != *version => Some(name.clone()),
                _ => None,
            });
        let changed: Vec<TopicName> = differs.collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.process_partition_modifications(&changed).await
    }

    /// Reads every state again; what changed is announced in full.
    pub(super) async fn process_reread_states(&mut self) -> Result<(), ZkFault> {
        let term = self.term()?;
        let partitions = self.context.partitions_with_leadership();
        let known: Vec<_> = partitions
            .iter()
            .map(|p| self.context.leadership(p).map(|s| s.partition_epoch()))
            .collect();
        let reads = self.ports.zk.partition_states(&partitions).await?;
        let mut changed: Vec<TopicPartition> = Vec::new();
        for ((partition, known), read) in partitions.into_iter().zip(known).zip(reads) {
            if let Read::Found(state) = read
                && known != Some(state.partition_epoch)
                && !is_of_newer_controller(&state, term)
            {
                self.context.put_leadership(&partition, state.into());
                changed.push(partition);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        tracing::info!(target: log::CONTROLLER, "{} partitions were written by a former controller after the takeover", changed.len());
        self.tell_replicas(&changed);
        self.on_replicas_become_offline(Vec::new()).await?;
        self.on_in_sync_sets_changed(&changed).await
    }
}

/// Keeps the first refusal; what ends the term is passed on.
fn go_on(first: &mut Result<(), ZkFault>, outcome: Result<(), ZkFault>) -> Result<(), ZkFault> {
    match outcome {
        Err(fault @ ZkFault::Refused { .. }) => {
            if first.is_ok() {
                *first = Err(fault);
            }
            Ok(())
        }
        outcome => outcome,
    }
}
