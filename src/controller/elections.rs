//! Leaders that are elected although the present ones live: on request, and to balance.
//!
//! Upstream: `processReplicaLeaderElection` for `/admin/preferred_replica_election` and for ElectLeaders,
//! `processAutoPreferredReplicaLeaderElection`.

use tracing::{info, warn};

use super::awaited::{Answering, Awaited};
use super::{KafkaController, log};
use crate::effect::{Answer, ElectionResult, Read, ReplyTo, ZkOutcome, ZkWrite};
use crate::event::{ControllerEvent, ElectionType};
use crate::machine::election::{ElectionStrategy, UncleanRule};
use crate::machine::partition::OnlineChange;
use crate::machine::{preferred, request_length};
use crate::model::{ApiError, KafkaError, TopicPartition};
use crate::planted::planted;
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
        planted!(KeepPreferredNode => { return Ok(()); });
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
        let sorted = preferred::requested(&self.context, asked, ElectionType::Preferred);
        for (partition, why) in &sorted.refused {
            warn!(target: log::CONTROLLER, "{}", preferred::refused_entry(partition, *why));
        }
        info!(
            target: log::CONTROLLER,
            "preferred leaders asked for: {} partitions to elect, {} are led so already",
            sorted.elect.len(), sorted.led.len()
        );
        self.elect_preferred(sorted.elect).await
    }

    /// ElectLeaders (KIP-460). Every way out answers.
    pub(super) async fn process_elect_leaders(
        &mut self,
        partitions: Option<Vec<TopicPartition>>,
        election: ElectionType,
        timeout_ms: i32,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        let length = partitions.as_ref().map_or(0, Vec::len);
        if let Err(error) = request_length::check_partitions(length) {
            self.answer(reply_to, Answer::ElectLeaders(Err(error)));
            return Ok(());
        }
        let names_them = partitions.is_some();
        let asked = partitions.unwrap_or_else(|| preferred::all_partitions(&self.context));
        let sorted = preferred::requested(&self.context, asked, election);
        info!(
            target: log::CONTROLLER,
            "{election:?} leaders asked for: {} partitions to elect, {} are led so already, {} can't be",
            sorted.elect.len(), sorted.led.len(), sorted.refused.len()
        );
        let outcome = self.elect_as_asked(sorted.elect.clone(), election).await;
        let refusal = match &outcome {
            Ok(()) => None,
            Err(ZkFault::Refused { .. }) => outcome.as_ref().err().map(ToString::to_string),
            Err(ZkFault::Fenced | ZkFault::SessionLost) => {
                let not_controller = Err(KafkaError::NOT_CONTROLLER);
                self.answer(reply_to, Answer::ElectLeaders(not_controller));
                return outcome;
            }
        };
        let mut answers: Vec<ElectionResult> = Vec::new();
        for partition in sorted.elect {
            let result = self.elected(&partition, election, refusal.as_deref());
            answers.push((partition, result));
        }
        let refused = sorted.refused.into_iter();
        answers.extend(refused.map(|(partition, why)| (partition, Err(why.answer()))));
        if names_them {
            let led = sorted.led.into_iter();
            answers.extend(led.map(|partition| (partition, Err(preferred::not_needed()))));
        }
        answers.sort_by(|(one, _), (other, _)| one.cmp(other));
        let awaited = vec![Awaited::elected(&answers)];
        self.await_leaders(
            awaited,
            Answering::ElectLeaders(answers),
            timeout_ms,
            reply_to,
        );
        outcome
    }

    /// What became of one partition: the context knows, also where a later round of the election was refused.
    fn elected(
        &self,
        partition: &TopicPartition,
        election: ElectionType,
        refusal: Option<&str>,
    ) -> Result<(), ApiError> {
        if preferred::is_served(&self.context, partition, election) {
            return Ok(());
        }
        Err(match refusal {
            Some(why) => ApiError {
                error: KafkaError::UNKNOWN_SERVER_ERROR,
                message: why.to_owned(),
            },
            None => preferred::nobody(&self.context, partition, election),
        })
    }

    async fn elect_as_asked(
        &mut self,
        partitions: Vec<TopicPartition>,
        election: ElectionType,
    ) -> Result<(), ZkFault> {
        match election {
            ElectionType::Preferred => self.elect_preferred(partitions).await,
            ElectionType::Unclean if partitions.is_empty() => Ok(()),
            ElectionType::Unclean => {
                let strategy = ElectionStrategy::OfflinePartition(UncleanRule::Always);
                let ask = OnlineChange::new(partitions, strategy);
                self.change_and_send(ask).await.map(drop)
            }
        }
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
