//! onControllerFailover: from the won role to "ready", in the Java controller's order of steps.
//!
//! The one place besides the `apply` functions that fills the context. Upstream: `onControllerFailover`,
//! `initializeControllerContext`.

use tracing::{info, warn};

use super::topics::Unknown;
use super::{KafkaController, log};
use crate::effect::{Read, Term, ZkOutcome, ZkWrite};
use crate::event::ControllerEvent;
use crate::machine::mutation_quota::ControllerMutationQuotas;
use crate::machine::partition::{self, OnlineChange};
use crate::machine::replica::{self, LocalReplicaStep, OfflineChange};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::{features, own_broker};
use crate::model::{Broker, BrokerId, InterBrokerProtocol, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// Brokers up to 2.0 fence none of their controller's writes (KAFKA-6082): one that was deposed may still write for a
/// moment after we have read.
const REREAD_AFTER_MS: u64 = 10_000;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// The role is won: learn the cluster, then tell it.
    pub(super) async fn on_controller_failover(
        &mut self,
        term: Term,
        me: Broker,
    ) -> Result<(), ZkFault> {
        let began_at_ms = self.ports.clock.now_ms();
        self.context.reset();
        self.context.begin_term(term);
        self.context.set_own_broker(me);
        self.takeover_due_at_ms = None;
        self.quotas = ControllerMutationQuotas::new(self.settings.quota_window);
        self.are_quotas_known = false;
        self.context.set_klamm_ids(self.ports.zk.klamm_ids().await?);
        // Without any broker nothing is known of those to come.
        let lowest = InterBrokerProtocol::assumed_from_registration(4);
        self.context
            .set_protocol(self.cluster_protocol().unwrap_or(lowest));
        if !self.set_up_features().await? {
            self.adopting_from = Some(self.context.protocol());
        }
        self.note_config_changes().await?;
        self.purge_notifications().await?;
        self.initialize_controller_context().await?;
        self.queue_pending_deletions().await?;
        let read_at_ms = self.ports.clock.now_ms();

        // Brokers ignore a leader that they don't know to be alive, so they learn first who is.
        let brokers = self.registered_ids();
        self.send_update_metadata(&brokers, &[]);
        let announced_at_ms = self.ports.clock.now_ms();
        self.start_replica_state_machine().await?;
        self.start_partition_state_machine().await?;
        self.is_loaded = true;
        let ready_at_ms = self.ports.clock.now_ms();
        let times = &mut self.history.last_failover;
        times.load_ms = read_at_ms - began_at_ms;
        times.first_update_ms = announced_at_ms - read_at_ms;
        times.state_machines_ms = ready_at_ms - announced_at_ms;
        let gauges = self.context.gauges();
        info!(
            target: log::CONTROLLER,
            "Ready to serve as the new controller with epoch {}: {} brokers, {} topics, {} partitions ({} offline), protocol {}; read in {} ms, decided and queued in {} ms",
            term.epoch, gauges.active_brokers, gauges.topics, gauges.partitions, gauges.offline_partitions,
            self.context.protocol(), read_at_ms - began_at_ms, ready_at_ms - read_at_ms
        );
        self.start_timers();
        self.initialize_partition_reassignments().await?;
        self.resume_deletions().await?;
        self.load_quotas().await?;
        // Asked for under an earlier controller, which may not have come to it.
        self.process_preferred_replica_election().await
    }

    fn cluster_protocol(&self) -> Option<InterBrokerProtocol> {
        self.survey.cluster_protocol(self.settings.protocol)
    }

    /// The brokers' protocol changed, or became known: versions, `/feature` and topic ids follow. What ZooKeeper refuses of
    /// it is done by the next sweep, or when the protocol is looked at again before.
    pub(super) async fn adopt_protocol(&mut self) -> Result<(), ZkFault> {
        let current = self.context.protocol();
        let protocol = self.cluster_protocol().unwrap_or(current);
        let is_done = protocol == current && self.adopting_from.is_none();
        if is_done || !self.is_loaded {
            return Ok(());
        }
        if protocol != current {
            info!(target: log::CONTROLLER, "the brokers' inter-broker protocol is {protocol} now, it was {current}");
            self.context.set_protocol(protocol);
        }
        // The lowest since all was done: what was made meanwhile lacks what came after that.
        let before = self.adopting_from.map_or(current, |from| from.min(current));
        self.adopting_from = Some(before);
        let is_set_up = self.set_up_features().await?;
        self.give_topic_ids(before).await?;
        self.adopting_from = (!is_set_up).then_some(protocol);
        Ok(())
    }

    /// Topics that came before ids get them, and brokers hear of them.
    async fn give_topic_ids(&mut self, before: InterBrokerProtocol) -> Result<(), ZkFault> {
        let protocol = self.context.protocol();
        if !protocol.has_topic_ids() {
            return Ok(());
        }
        if !before.has_topic_ids() {
            let topics: Vec<TopicName> = self.context.topics().keys().cloned().collect();
            self.process_partition_modifications(&topics).await?;
        }
        if protocol.leader_and_isr_version() != before.leader_and_isr_version() {
            self.send_topic_ids();
        }
        Ok(())
    }

    /// Brokers write a topic's id beside their logs when a LeaderAndIsr names it, also under an unchanged leader epoch.
    fn send_topic_ids(&mut self) {
        let mut batch = ControllerBrokerRequestBatch::new();
        for partition in self.context.partitions_with_leadership() {
            let replicas: Vec<BrokerId> = self.context.replicas(&partition).iter().collect();
            batch.add_leader_and_isr(&self.context, &replicas, &partition, false);
        }
        self.send(batch);
    }

    /// `/feature` as the cluster's protocol wants it (KIP-584); whether it is.
    async fn set_up_features(&mut self) -> Result<bool, ZkFault> {
        loop {
            let current = self.ports.zk.feature().await?;
            let write = match features::desired(self.context.protocol(), &current) {
                features::FeaturePlan::Leave => return Ok(true),
                features::FeaturePlan::Unreadable(why) => {
                    self.warn_broken([why]);
                    return Ok(false);
                }
                features::FeaturePlan::Write(write) => write,
            };
            match self.ports.zk.write(&self.term()?, &[write]).await?.pop() {
                Some(
                    ZkOutcome::VersionConflict | ZkOutcome::AlreadyExists | ZkOutcome::Missing,
                ) => {}
                Some(ZkOutcome::Refused(why)) => {
                    self.warn_broken([format!("/feature could not be set up: {why}")]);
                    return Ok(false);
                }
                Some(ZkOutcome::Written { .. }) | None => return Ok(true),
            }
        }
    }

    /// What was notified before is read as state now. Only what was listed may be deleted, and only because the whole
    /// state is read afterwards.
    async fn purge_notifications(&mut self) -> Result<(), ZkFault> {
        let log_dirs = self.ports.zk.log_dir_event_notifications().await?;
        let isr_changes = self.ports.zk.isr_change_notifications().await?;
        let mut writes: Vec<ZkWrite> = log_dirs
            .into_iter()
            .map(|notice| ZkWrite::DeleteLogDirEventNotification(notice.name))
            .collect();
        writes.extend(
            isr_changes
                .into_iter()
                .map(|notice| ZkWrite::DeleteIsrChangeNotification(notice.name)),
        );
        self.delete_notifications(&writes).await
    }

    /// Deletes notices that were read; one that is gone already is as good.
    pub(super) async fn delete_notifications(&mut self, writes: &[ZkWrite]) -> Result<(), ZkFault> {
        if writes.is_empty() {
            return Ok(());
        }
        let outcomes = self.ports.zk.write(&self.term()?, writes).await?;
        for (write, outcome) in writes.iter().zip(&outcomes) {
            if let ZkOutcome::Refused(why) = outcome {
                warn!(target: log::CONTROLLER, "a notification could not be deleted ({write:?}): {why}");
            }
        }
        Ok(())
    }

    async fn initialize_controller_context(&mut self) -> Result<(), ZkFault> {
        let listed = self.ports.zk.brokers().await?;
        let (registered, broken) =
            own_broker::genuine(listed, self.context.klamm_ids(), self.settings.own_id);
        self.warn_broken(broken);
        self.ask_unasked(registered.clone());
        for registration in self.feature_compatible(registered).await? {
            self.ports.brokers.add_broker(&registration);
            self.context.add_live_broker(registration);
        }
        let names = self.list_topics().await?;
        // Who has no state yet is found by the partition state machine.
        self.take_in_topics(names, Unknown::MayHaveState, &mut Vec::new())
            .await
    }

    async fn start_replica_state_machine(&mut self) -> Result<(), ZkFault> {
        let (online, offline) = replica::startup(&mut self.context);
        let mut batch = ControllerBrokerRequestBatch::new();
        let refused = replica::handle_state_changes(
            &mut self.context,
            &online,
            LocalReplicaStep::Online,
            &mut batch,
        );
        self.log_refused(&refused);
        self.send(batch);
        if !offline.is_empty() {
            self.change_and_send(OfflineChange::new(offline)).await?;
        }
        Ok(())
    }

    async fn start_partition_state_machine(&mut self) -> Result<(), ZkFault> {
        partition::startup(&mut self.context);
        self.trigger_online_partition_state_change().await?;
        Ok(())
    }

    /// Tries to lead every partition that is new or offline; says how many it led.
    pub(super) async fn trigger_online_partition_state_change(&mut self) -> Result<usize, ZkFault> {
        let candidates = partition::online_candidates(&self.context);
        self.bring_online(candidates).await
    }

    /// Tries to lead these; says how many it led.
    pub(super) async fn bring_online(
        &mut self,
        candidates: Vec<TopicPartition>,
    ) -> Result<usize, ZkFault> {
        if candidates.is_empty() {
            return Ok(0);
        }
        let ask = OnlineChange::new(candidates, self.offline_election().await?);
        Ok(self.change_and_send(ask).await?.len())
    }

    fn start_timers(&mut self) {
        self.schedule_sweep();
        self.start_balancing();
        self.start_token_checks();
        if self.context.protocol() < InterBrokerProtocol::new(2, 1, 0) {
            self.ports
                .clock
                .schedule(REREAD_AFTER_MS, ControllerEvent::RereadStates);
        }
    }

    /// Leaves out brokers that lack a finalized feature; without `/feature`, or where it can't be read, nobody.
    pub(super) async fn feature_compatible(
        &mut self,
        registered: Vec<crate::model::BrokerRegistration>,
    ) -> Result<Vec<crate::model::BrokerRegistration>, ZkFault> {
        if registered.is_empty() {
            return Ok(registered);
        }
        let finalized = match self.ports.zk.feature().await? {
            Read::Found((znode, _)) if znode.enabled => znode,
            Read::Broken(why) => {
                self.warn_broken([why]);
                return Ok(registered);
            }
            Read::Found(_) | Read::Missing => return Ok(registered),
        };
        let (compatible, kept_out): (Vec<_>, Vec<_>) = registered
            .into_iter()
            .map(|registration| {
                (
                    features::incompatible(&finalized, &registration.broker),
                    registration,
                )
            })
            .partition(|(why, _)| why.is_none());
        for (why, registration) in kept_out {
            let why = why.unwrap_or_default();
            self.warn_broken([format!(
                "broker {} is kept out of the cluster: {why}",
                registration.broker.id
            )]);
        }
        Ok(compatible
            .into_iter()
            .map(|(_, registration)| registration)
            .collect())
    }
}
