//! Brokers come, go, bounce and change: BrokerChange, BrokerModifications, LogDirEventNotification.
//!
//! Upstream: `processBrokerChange`, `onBrokerStartup`, `onBrokerFailure`, `onReplicasBecomeOffline`,
//! `processBrokerModification`, `processLogDirEventNotification`.

use std::collections::BTreeSet;

use tracing::info;

use super::{KafkaController, Stop, log};
use crate::effect::{Read, ZkWrite};
use crate::machine::candidacy::{Unfit, Verdict};
use crate::machine::deletion;
use crate::machine::membership::{self, BrokerDiff};
use crate::machine::own_broker;
use crate::machine::partition::{self, LocalPartitionStep};
use crate::machine::replica::{self, LocalReplicaStep, OfflineChange};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::model::{BrokerId, BrokerRegistration, Replica, TopicName};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};
use crate::state::ReplicaState;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_broker_change(&mut self) -> Result<Option<Stop>, ZkFault> {
        let listed = self.ports.zk.brokers().await?;
        let (registered, _) = own_broker::genuine(
            listed.clone(),
            self.context.klamm_ids(),
            self.settings.own_id,
        );
        self.ask_unasked(registered.clone());
        if let Verdict::Unfit(unfit) = self.survey.verdict()
            && !matches!(unfit, Unfit::TooManySilent { .. })
        {
            return self.give_up_unfit(unfit).await.map(Some);
        }
        let diff = membership::diff_brokers(&self.context, listed);
        self.log_broker_diff(&diff);
        self.warn_broken(diff.broken.iter().map(|(_, why)| why.clone()));
        self.apply_broker_diff(diff).await?;
        self.follow_own_registration(&registered).await?;
        Ok(None)
    }

    /// Surveys incarnations that were not asked yet: their protocol counts, and an authorizer forbids the role.
    pub(super) fn ask_unasked(&mut self, registered: Vec<BrokerRegistration>) {
        let unasked = self.survey.register(registered);
        if !unasked.is_empty() {
            self.ports.brokers.survey(&unasked);
        }
    }

    fn log_broker_diff(&self, diff: &BrokerDiff) {
        let ids = |found: &[BrokerRegistration]| {
            join(found.iter().map(|registration| registration.broker.id))
        };
        info!(
            target: log::CONTROLLER,
            "Newly added brokers: {}, deleted brokers: {}, bounced brokers: {}, all live brokers: {}",
            ids(&diff.new), join(diff.dead.iter().copied()), ids(&diff.bounced), join(self.registered_ids())
        );
    }

    /// Channels first, then new, bounced and dead brokers in this order, as upstream.
    async fn apply_broker_diff(&mut self, diff: BrokerDiff) -> Result<(), ZkFault> {
        let new = self.feature_compatible(diff.new).await?;
        let bounced_ids: Vec<BrokerId> = diff
            .bounced
            .iter()
            .map(|registration| registration.broker.id)
            .collect();
        let bounced = self.feature_compatible(diff.bounced).await?;
        for registration in &new {
            self.ports.brokers.add_broker(registration);
        }
        for id in bounced_ids.iter().chain(&diff.dead) {
            self.ports.brokers.remove_broker(*id);
        }
        for registration in &bounced {
            self.ports.brokers.add_broker(registration);
        }

        self.on_broker_startup(new).await?;
        if !bounced_ids.is_empty() {
            self.on_broker_failure(&bounced_ids).await?;
            self.on_broker_startup(bounced).await?;
        }
        if !diff.dead.is_empty() {
            self.on_broker_failure(&diff.dead).await?;
        }
        self.on_brokers_modified(diff.changed);
        self.adopt_protocol().await
    }

    /// Steps 2 and 3 come before 4: a follower ignores a leader that it doesn't know to be alive, and answers 0.
    async fn on_broker_startup(&mut self, started: Vec<BrokerRegistration>) -> Result<(), ZkFault> {
        if started.is_empty() {
            return Ok(());
        }
        let existing = self.registered_ids();
        let ids: Vec<BrokerId> = started
            .iter()
            .map(|registration| registration.broker.id)
            .collect();
        info!(target: log::CONTROLLER, "New broker startup callback for {}", join(ids.iter().copied()));
        for registration in started {
            self.context.add_live_broker(registration);
        }
        // 1. What their directories were like before is void, and so is what they were told and never answered.
        for id in &ids {
            self.context.clear_offline_dirs(*id);
            deletion::forget_orders(&mut self.context, *id);
        }
        // 2. The others hear who is alive. 3. The new ones hear everything.
        self.send_update_metadata(&existing, &[]);
        let mut known = self.context.partitions_with_leadership();
        // One whose session alone had ended knows still what was announced as gone meanwhile. Of a topic whose deletion
        // has ended by then nothing is known any more: it hears of that at its restart, as under the Java controller.
        known.retain(|partition| {
            !self.context.is_to_be_forgotten(&partition.topic)
                || self.context.is_deletion_begun(&partition.topic)
        });
        if !planted!(SkipMetadataOfReturned) {
            self.send_update_metadata(&ids, &known);
        }
        // 4. They hear what they host.
        if !planted!(SkipProbe) {
            self.probe_replicas_on(&ids);
        }
        // 5. What could not be led may be now, and so may what had nobody to be placed on.
        self.trigger_online_partition_state_change().await?;
        self.lead_unplaced_topics().await?;
        self.resume_reassignments_on(&ids).await?;
        self.resume_deletions_on(&ids).await
    }

    /// Tries topics once more that had nobody to be placed on: those that still have none are noted again.
    pub(super) async fn lead_unplaced_topics(&mut self) -> Result<(), ZkFault> {
        let unplaced = std::mem::take(&mut self.unplaced_topics);
        let topics: Vec<TopicName> = unplaced.iter().cloned().collect();
        let outcome = self.process_partition_modifications(&topics).await;
        if outcome.is_err() {
            self.unplaced_topics.extend(unplaced);
        }
        outcome
    }

    /// Tells brokers of all that they host, as it is. Those that were told to delete a replica host it no more.
    fn probe_replicas_on(&mut self, ids: &[BrokerId]) {
        let replicas = ids.iter().flat_map(|id| self.context.replicas_on(*id));
        let replicas: Vec<Replica> = replicas
            .filter(|replica| !deletion::is_told(self.context.replica_state(replica)))
            .collect();
        // New ones are told where their partition gets its first leader. Where ZooKeeper refused something in the midst of
        // that, it was led without them, or they are in sync and nobody told them so: then they may have logs, which must
        // not be made anew.
        let is_untold = |replica: &&Replica| {
            self.context.replica_state(replica) == ReplicaState::New
                && self.context.leadership(&replica.partition).is_some()
        };
        let untold: Vec<Replica> = replicas.iter().filter(is_untold).cloned().collect();
        let mut batch = ControllerBrokerRequestBatch::new();
        let refused = replica::handle_state_changes(
            &mut self.context,
            &replicas,
            LocalReplicaStep::Online,
            &mut batch,
        );
        self.log_refused(&refused);
        for Replica { partition, broker } in untold {
            let state = self.context.leadership(&partition);
            let is_new = state.is_none_or(|state| !state.isr.contains(broker));
            batch.add_leader_and_isr(&self.context, &[broker], &partition, is_new);
        }
        self.send(batch);
    }

    async fn on_broker_failure(&mut self, ids: &[BrokerId]) -> Result<(), ZkFault> {
        info!(target: log::CONTROLLER, "Broker failure callback for {}", join(ids.iter().copied()));
        for id in ids {
            self.context.remove_live_broker(*id);
            self.context.clear_offline_dirs(*id);
        }
        let replicas = ids
            .iter()
            .flat_map(|id| self.context.replicas_on(*id))
            .collect();
        self.on_replicas_become_offline(replicas).await
    }

    /// New leaders are written and announced before in-sync sets are shrunk: clients wait for the former.
    pub(super) async fn on_replicas_become_offline(
        &mut self,
        replicas: Vec<Replica>,
    ) -> Result<(), ZkFault> {
        let (of_deleted, of_kept): (Vec<Replica>, Vec<Replica>) = replicas
            .into_iter()
            .partition(|replica| self.context.is_to_be_forgotten(&replica.partition.topic));
        // Every partition of the cluster whose leader is gone, not only those of these replicas: what an earlier event
        // missed heals here.
        let leaderless = self.context.partitions_with_offline_leader();
        let refused = partition::handle_state_changes(
            &mut self.context,
            &leaderless,
            LocalPartitionStep::Offline,
        );
        self.log_refused(&refused);
        let led = self.trigger_online_partition_state_change().await?;

        let informed = led > 0 || !of_kept.is_empty();
        if !of_kept.is_empty() {
            self.change_and_send(OfflineChange::new(of_kept)).await?;
        }
        self.fail_deletions(of_deleted).await?;
        if !informed {
            // Nobody was told that a broker is gone (KAFKA-13225).
            let brokers = self.registered_ids();
            self.send_update_metadata(&brokers, &[]);
        }
        let moving = self.moving();
        self.review_reassignments(&moving);
        Ok(())
    }

    /// A registration was rewritten. One that is news is looked at together with the others: klamm may lack a listener that
    /// the broker has now, and a broker that lacked a feature may have it now.
    pub(super) async fn process_broker_modifications(
        &mut self,
        id: BrokerId,
    ) -> Result<Option<Stop>, ZkFault> {
        if id == self.settings.own_id || self.context.klamm_ids().contains(&id) {
            return Ok(None);
        }
        match self.ports.zk.broker(id).await? {
            Read::Found(read) if self.context.registration(id) != Some(&read) => {
                self.process_broker_change().await
            }
            Read::Found(_) | Read::Missing => Ok(None),
            Read::Broken(why) => {
                self.warn_broken([why]);
                Ok(None)
            }
        }
    }

    /// Endpoints changed in place: all brokers hear it, and the connection follows (Java's stays on the old address).
    fn on_brokers_modified(&mut self, changed: Vec<BrokerRegistration>) {
        if changed.is_empty() {
            return;
        }
        for registration in changed {
            info!(target: log::CONTROLLER, "broker {} changed its registration", registration.broker.id);
            self.ports.brokers.move_broker(&registration);
            self.context.add_live_broker(registration);
        }
        let brokers = self.registered_ids();
        self.send_update_metadata(&brokers, &[]);
    }

    /// klamm's rack follows the brokers' racks.
    async fn follow_own_registration(
        &mut self,
        registered: &[BrokerRegistration],
    ) -> Result<(), ZkFault> {
        let changed = self
            .context
            .own_broker()
            .and_then(|own| own_broker::changed_registration(own, registered));
        if let Some(me) = changed {
            self.ports.zk.update_registration(&me).await?;
            self.context.set_own_broker(me);
            let brokers = self.registered_ids();
            self.send_update_metadata(&brokers, &[]);
        }
        Ok(())
    }

    /// A broker lost a log directory: it is asked about all that it hosts, and its answers tell what is lost.
    pub(super) async fn process_log_dir_event_notification(&mut self) -> Result<(), ZkFault> {
        let notices = self.ports.zk.log_dir_event_notifications().await?;
        let mut brokers = BTreeSet::new();
        for notice in &notices {
            match &notice.content {
                Read::Found(id) => {
                    brokers.insert(*id);
                }
                Read::Missing => {}
                Read::Broken(why) => self.warn_broken([why.clone()]),
            }
        }
        // One that lost its last directory is on its way out, or gone: its replicas are offline altogether then.
        brokers.retain(|id| self.context.is_live_or_shutting_down(*id));
        if !brokers.is_empty() {
            info!(target: log::CONTROLLER, "Handling log directory failure for brokers {}", join(brokers.iter().copied()));
            let brokers: Vec<BrokerId> = brokers.into_iter().collect();
            self.probe_replicas_on(&brokers);
        }
        let writes: Vec<ZkWrite> = notices
            .into_iter()
            .map(|notice| ZkWrite::DeleteLogDirEventNotification(notice.name))
            .collect();
        self.delete_notifications(&writes).await
    }
}

/// `1,2,3`, as the Java controller's log shows brokers.
pub(super) fn join(ids: impl IntoIterator<Item = BrokerId>) -> String {
    ids.into_iter()
        .map(|id| id.to_string())
        .collect::<Vec<_>>()
        .join(",")
}
