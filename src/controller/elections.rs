//! Leaders that are elected although the present ones live: on request, and to balance.
//!
//! Upstream: `processReplicaLeaderElection` for `/admin/preferred_replica_election`,
//! `processAutoPreferredReplicaLeaderElection`.

use tracing::{info, warn};

use super::{KafkaController, log};
use crate::effect::{Read, ZkOutcome, ZkWrite};
use crate::event::ControllerEvent;
use crate::machine::election::ElectionStrategy;
use crate::machine::partition::OnlineChange;
use crate::machine::preferred;
use crate::model::TopicPartition;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// The first look after a takeover, as upstream.
const FIRST_BALANCE_MS: u64 = 5_000;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Elects what the node asks for, and removes it, whatever it holds: a node that stays keeps the tools from asking
    /// again.
    pub(super) async fn process_preferred_replica_election(&mut self) -> Result<(), ZkFault> {
        match self.ports.zk.preferred_replica_election().await? {
            Read::Missing => return Ok(()),
            Read::Broken(why) => self.warn_broken([why]),
            Read::Found(asked) => {
                self.warn_broken(asked.broken);
                self.elect_requested(asked.partitions).await?;
            }
        }
        let removal = [ZkWrite::DeletePreferredReplicaElection];
        let removed = self.ports.zk.write(&self.term()?, &removal).await?;
        if let Some(ZkOutcome::Refused(why)) = removed.first() {
            warn!(
                target: log::CONTROLLER,
                "/admin/preferred_replica_election was done and can't be removed, remove it by hand: {why}"
            );
        }
        Ok(())
    }

    async fn elect_requested(&mut self, asked: Vec<TopicPartition>) -> Result<(), ZkFault> {
        let sorted = preferred::requested(&self.context, asked);
        for (partition, why) in &sorted.refused {
            warn!(
                target: log::CONTROLLER,
                "the preferred leader of {partition} is not elected (/admin/preferred_replica_election): {why}"
            );
        }
        info!(
            target: log::CONTROLLER,
            "preferred leaders asked for: {} partitions to elect, {} are led so already",
            sorted.elect.len(), sorted.led.len()
        );
        self.elect_preferred(sorted.elect).await
    }

    pub(super) async fn process_auto_leader_election(&mut self) -> Result<(), ZkFault> {
        let Some(balance) = self.settings.leader_balance else {
            return Ok(());
        };
        let now_ms = self.ports.clock.now_ms();
        // A timer of an earlier term: the one that was set last counts.
        if self.balance_due_at_ms.is_none_or(|due_ms| now_ms < due_ms) {
            return Ok(());
        }
        // Before anything that may fail: a look that fails must not be the last one.
        self.schedule_balance(balance.interval_ms);
        let chosen = preferred::imbalanced(&self.context, balance.threshold_percent);
        if let Some(first) = chosen.first() {
            info!(
                target: log::CONTROLLER,
                "{} partitions go back to their preferred leaders, {first} first: others led more than {} % of what prefers a broker",
                chosen.len(), balance.threshold_percent
            );
        }
        self.elect_preferred(chosen).await
    }

    /// Looks at the balance soon, and again and again as long as the term lasts.
    pub(super) fn start_balancing(&mut self) {
        if self.settings.leader_balance.is_some() {
            self.schedule_balance(FIRST_BALANCE_MS);
        }
    }

    fn schedule_balance(&mut self, delay_ms: u64) {
        let now_ms = self.ports.clock.now_ms();
        self.balance_due_at_ms = Some(now_ms.saturating_add(delay_ms));
        let look = ControllerEvent::AutoPreferredReplicaLeaderElection;
        self.ports.clock.schedule(delay_ms, look);
    }

    async fn elect_preferred(&mut self, partitions: Vec<TopicPartition>) -> Result<(), ZkFault> {
        if partitions.is_empty() {
            return Ok(());
        }
        let ask = OnlineChange::new(partitions, ElectionStrategy::PreferredReplica);
        self.change_and_send(ask).await.map(drop)
    }
}
