//! Anti-entropy: no lost watch outlives a minute. And the second look where old brokers may have written late.
//!
//! A sweep goes in slices, each an event of its own, so that nothing waits long behind it. It decides nothing itself:
//! what differs is handled as the watch would have had it handled. Upstream has no counterpart.

use std::ops::Bound;

use super::isr::is_of_newer_controller;
use super::{KafkaController, log};
use crate::effect::Read;
use crate::event::{ControllerEvent, Sweep};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::model::{BrokerId, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};
use crate::state::ReplicaState;

/// Topics compared in one slice.
const SLICE: usize = 500;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_anti_entropy(&mut self, sweep: Sweep) -> Result<(), ZkFault> {
        let next = match sweep {
            Sweep::Begin => {
                // Before anything that may fail: a sweep that fails must not be the last one.
                self.schedule_sweep();
                self.sweep_brokers_and_notices().await?;
                self.finish_work().await?;
                Some(None)
            }
            Sweep::Topics { after } => self.sweep_topics(after).await?.map(Some),
        };
        if let Some(after) = next {
            let slice = ControllerEvent::AntiEntropy(Sweep::Topics { after });
            self.ports.clock.schedule(0, slice);
        }
        Ok(())
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

    /// Does what an event left undone because ZooKeeper refused something.
    async fn finish_work(&mut self) -> Result<(), ZkFault> {
        if !self.has_unfinished_work {
            return Ok(());
        }
        let left_behind = self
            .context
            .all_replicas()
            .into_iter()
            .filter(|replica| {
                let (id, partition) = (replica.broker, &replica.partition);
                !self
                    .context
                    .is_replica_online_or_shutting_down(id, partition)
                    && matches!(
                        self.context.replica_state(replica),
                        ReplicaState::New | ReplicaState::Online | ReplicaState::DeletionStarted
                    )
            })
            .collect();
        self.on_replicas_become_offline(left_behind).await?;
        self.lead_unplaced_topics().await?;
        self.has_unfinished_work = false;
        Ok(())
    }

    async fn sweep_brokers_and_notices(&mut self) -> Result<(), ZkFault> {
        let listed = self.ports.zk.brokers().await?;
        let diff = crate::machine::membership::diff_brokers(&self.context, listed);
        if !diff.is_empty() {
            self.ports.clock.schedule(0, ControllerEvent::BrokerChange);
        }
        self.process_topic_change().await?;
        self.sweep_reassignments().await?;
        self.sweep_deletions().await?;
        self.process_isr_change_notification().await?;
        self.process_log_dir_event_notification().await?;
        self.process_config_change().await?;
        self.process_preferred_replica_election().await
    }

    /// Compares one slice; returns its last name, or `None` after the last slice.
    async fn sweep_topics(
        &mut self,
        after: Option<TopicName>,
    ) -> Result<Option<TopicName>, ZkFault> {
        let slice: Vec<(TopicName, i32)> = self
            .context
            .topics()
            .range((
                after.as_ref().map_or(Bound::Unbounded, Bound::Excluded),
                Bound::Unbounded,
            ))
            .take(SLICE)
            .map(|(name, topic)| (name.clone(), topic.znode_version))
            .collect();
        let names: Vec<TopicName> = slice.iter().map(|(name, _)| name.clone()).collect();
        let reads = if names.is_empty() {
            Vec::new()
        } else {
            self.ports.zk.topics(&names).await?
        };
        let differs = slice
            .iter()
            .zip(reads)
            .filter_map(|((name, version), read)| match read {
                Read::Found(znode) if znode.version != *version => Some(name.clone()),
                _ => None,
            });
        let changed: Vec<TopicName> = differs.collect();
        if !changed.is_empty() {
            self.process_partition_modifications(&changed).await?;
        }
        Ok(if slice.len() == SLICE {
            names.into_iter().last()
        } else {
            None
        })
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
        let mut batch = ControllerBrokerRequestBatch::new();
        for partition in &changed {
            let replicas: Vec<BrokerId> = self.context.replicas(partition).iter().collect();
            batch.add_leader_and_isr(&self.context, &replicas, partition, false);
        }
        self.send(batch);
        self.on_replicas_become_offline(Vec::new()).await?;
        self.on_in_sync_sets_changed(&changed).await
    }
}
