//! KafkaController: one match over all that can happen, and one file for each family of events.
//!
//! Flow: straight-line async functions over the ports, read top-down beside the Java controller's. The loop (in
//! `runtime`) takes no other event while one is processed. Nothing here knows tokio, a socket or a wire.
//! Upstream: `KafkaController.scala`.

mod awaited;
mod brokers;
mod compare;
mod configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod deletion;
mod elections;
mod failover;
mod features;
mod isr;
mod list_reassignments;
mod log;
pub mod preflight;
mod producer_ids;
mod quotas;
mod reassign;
mod refused;
mod responses;
mod role;
mod scram;
mod shared_settings;
mod shutdown;
mod sweep;
mod tokens;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{error, info, warn};

use crate::effect::{Answer, ControlRequests, Incarnation, ReplyTo, Term, ZkOutcome};
use crate::error::{Disposition, disposition};
use crate::event::{ControllerEvent, ControllerState};
use crate::machine::acknowledgement::MetadataAcknowledgements;
use crate::machine::candidacy::{Candidacy, Survey, TakeoverPolicy, Unfit};
use crate::machine::config_changes::SeenConfigChanges;
use crate::machine::mutation_quota::{ControllerMutationQuotas, QuotaWindow};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::topic_creation::TopicDefaults;
use crate::machine::{Applied, Decision, Fetched, Needs, Refused, StateChange};
use crate::model::{
    ApiError, BrokerId, Endpoint, InterBrokerProtocol, KafkaError, SharedSetting, SharedSettings,
    TopicName, TopicPartition,
};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Ports, Replies, Zk, ZkFault};
use crate::state::{ControllerContext, ControllerSnapshot, TermHistory};
use log::Complaints;
use refused::RefusedStates;

/// How long klamm keeps out of office after ZooKeeper refused what it needs to get there.
const HOLD_OFF_MS: u64 = 5_000;

/// What the controller is told once, at its start.
#[derive(Debug, Clone)]
pub struct ControllerSettings {
    /// `klamm.id`.
    pub own_id: BrokerId,
    /// `klamm.listeners`, as advertised.
    pub listeners: Vec<Endpoint>,
    /// `klamm.takeover`.
    pub takeover: TakeoverPolicy,
    /// `klamm.takeover.delay.ms`.
    pub takeover_delay_ms: u64,
    /// `inter.broker.protocol.version`, where the operator gave it: it wins over what brokers say.
    pub protocol: Option<InterBrokerProtocol>,
    /// `unclean.leader.election.enable` in the configuration file.
    pub unclean_leader_election_enable: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// What klamm has of the settings that every controller of the cluster should share; what is left out is not compared
    /// with the brokers'.
    pub shared: SharedSettings,
    /// What stands in for what clients leave open where they create topics.
    pub topic_defaults: TopicDefaults,
    /// How long clients may save up what they don't use of their quotas on partitions created and deleted.
    pub quota_window: QuotaWindow,
    /// How often everything is compared with ZooKeeper: 60 s, or 5 s where topics are polled.
    pub anti_entropy_period_ms: u64,
    /// How often expired delegation tokens are looked for; `None`: the cluster has none.
    pub token_expiry_check_interval_ms: Option<u64>,
    /// `None`: `auto.leader.rebalance.enable` is false.
    pub leader_balance: Option<LeaderBalance>,
}

/// When leaders go back to the preferred replicas by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderBalance {
    /// `leader.imbalance.check.interval.seconds`, in milliseconds.
    pub interval_ms: u64,
    /// `leader.imbalance.per.broker.percentage`: up to so much of what prefers a broker may have another leader, in
    /// percent.
    pub threshold_percent: u32,
}

/// Why the process ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// It was told to, and the role is given back.
    #[error("the role is given back")]
    Released,
    /// klamm must not lead this cluster as it is; nothing was taken, or the role is given back.
    #[error("{0}")]
    Unfit(Unfit),
    /// Another process with the same `klamm.id` took its place.
    #[error(
        "another process with klamm.id={0} took this one's place; two klamms need two ids: stop one of them or give it an id of its own"
    )]
    Replaced(BrokerId),
}

/// The controller.
#[derive(Debug)]
pub struct KafkaController<Z, B, R, C> {
    settings: ControllerSettings,
    context: ControllerContext,
    ports: Ports<Z, B, R, C>,
    candidacy: Candidacy,
    survey: Survey,
    complaints: Complaints,
    is_loaded: bool,
    history: TermHistory,
    standing_by: Arc<str>,
    takeover_due_at_ms: Option<u64>,
    /// When the timer of the next sweep rings, if it was set.
    sweep_due_at_ms: Option<u64>,
    /// When the role is looked at because an event failed.
    role_look_due_at_ms: Option<u64>,
    /// Brokers that leave, and have yet to hear that they lead no more.
    departures: Vec<shutdown::Departure>,
    /// Clients that wait until the topics that they deleted are gone.
    awaited_deletions: Vec<delete_topics::AwaitedDeletion>,
    /// Clients that wait until the partitions that they asked for are led.
    awaited_leaders: Vec<awaited::AwaitedLeaders>,
    /// Which brokers have heard of what.
    acknowledgements: MetadataAcknowledgements,
    /// Which notices below `/config/changes` were looked at.
    seen_config_changes: SeenConfigChanges,
    /// What clients may create and delete.
    quotas: ControllerMutationQuotas,
    /// The quotas were read; where ZooKeeper refused they are read again.
    are_quotas_known: bool,
    /// Waiting clients that have used up a quota.
    throttles: BTreeMap<ReplyTo, quotas::Throttle>,
    /// When expired delegation tokens are looked for next.
    token_check_due_at_ms: Option<u64>,
    /// When the balance of leaders is looked at next.
    balance_due_at_ms: Option<u64>,
    /// The partitions in `/admin/reassign_partitions` when it was looked at last.
    reassignment_node: BTreeSet<TopicPartition>,
    /// When a large `/admin/reassign_partitions` is rewritten next.
    node_due_at_ms: Option<u64>,
    /// When the states of moving partitions are looked at next, where leaders write them without asking.
    states_due_at_ms: Option<u64>,
    /// The role is not taken before this time: it was taken, and the cluster could not be read.
    hold_off_until_ms: u64,
    /// Something that was to be done was refused by ZooKeeper; the next sweep makes up for it.
    has_unfinished_work: bool,
    /// What was refused of single partitions' states.
    refused_states: RefusedStates,
    /// The protocol that the cluster has yet to leave behind altogether: ZooKeeper refused a part of what follows from it.
    adopting_from: Option<InterBrokerProtocol>,
    /// Topics with partitions that are assigned to klamms only, while no broker is live to take their place.
    unplaced_topics: BTreeSet<TopicName>,
    /// Which brokers were said to differ, in what, and by which value.
    differing_settings: BTreeSet<(SharedSetting, BrokerId, String)>,
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// A controller that knows nothing yet; its first event is `Startup`.
    pub fn new(settings: ControllerSettings, ports: Ports<Z, B, R, C>) -> Self {
        let listener_names = settings
            .listeners
            .iter()
            .map(|endpoint| endpoint.listener.to_string())
            .collect();
        KafkaController {
            context: ControllerContext::new(),
            candidacy: Candidacy::new(settings.takeover, settings.takeover_delay_ms),
            survey: Survey::new(listener_names),
            complaints: Complaints::default(),
            is_loaded: false,
            history: TermHistory::default(),
            standing_by: Arc::from("starting"),
            takeover_due_at_ms: None,
            sweep_due_at_ms: None,
            role_look_due_at_ms: None,
            departures: Vec::new(),
            awaited_deletions: Vec::new(),
            awaited_leaders: Vec::new(),
            acknowledgements: MetadataAcknowledgements::default(),
            seen_config_changes: SeenConfigChanges::default(),
            quotas: ControllerMutationQuotas::new(settings.quota_window),
            are_quotas_known: false,
            throttles: BTreeMap::new(),
            token_check_due_at_ms: None,
            balance_due_at_ms: None,
            reassignment_node: BTreeSet::new(),
            node_due_at_ms: None,
            states_due_at_ms: None,
            hold_off_until_ms: 0,
            has_unfinished_work: false,
            refused_states: RefusedStates::default(),
            adopting_from: None,
            unplaced_topics: BTreeSet::new(),
            differing_settings: BTreeSet::new(),
            settings,
            ports,
        }
    }

    /// What the controller knows, for checks.
    pub fn context(&self) -> &ControllerContext {
        &self.context
    }

    /// Handles one event to its end. An event that fails costs itself; only a lost term costs the role.
    pub async fn process(&mut self, event: ControllerEvent) -> Option<Stop> {
        let state = event.state();
        if !self.is_loaded
            && let Some((reply_to, answer)) = preempted_answer(&event)
        {
            // Not in office, or not yet: whoever asks looks for the controller again.
            self.answer(reply_to, answer);
            return None;
        }
        let mut outcome = self.dispatch(event).await;
        let stop = loop {
            let fault = match outcome {
                Ok(stop) => break stop,
                Err(fault) => fault,
            };
            match disposition(&fault) {
                Disposition::Resign => {
                    // The look finds the epoch changed and resigns. Whoever was elected may be gone again by then, so it
                    // may also end in another try for the role, with an outcome of its own.
                    self.history.fenced_writes += 1;
                    info!(target: log::CONTROLLER, "{fault}");
                    outcome = self.look_at_role().await;
                }
                Disposition::AwaitExpiry => {
                    info!(target: log::CONTROLLER, "{fault}; everything is looked at again in the next one");
                    break None;
                }
                Disposition::FailEvent => {
                    self.fail_event(&fault).await;
                    break None;
                }
            }
        };
        self.answer_awaited_deletions();
        self.answer_awaited_leaders();
        self.publish(ControllerState::Idle);
        tracing::trace!(?state, "event processed");
        stop
    }

    /// Every event and who answers it. An `Err` has cost no reply: whoever holds a slot answers it first. Requests come here
    /// in office only.
    async fn dispatch(&mut self, event: ControllerEvent) -> Result<Option<Stop>, ZkFault> {
        match event {
            ControllerEvent::Startup => self.process_startup().await,
            ControllerEvent::ControllerChange | ControllerEvent::Reelect => {
                self.look_at_role().await
            }
            ControllerEvent::KlammNodesChange => self.process_klamm_nodes_change().await,
            ControllerEvent::TakeoverDue => self.process_takeover_due().await,
            ControllerEvent::Expire => Ok(self.process_expire()),
            ControllerEvent::RegisterBrokerAndReelect => self.process_startup().await,
            ControllerEvent::BrokerSurveyed(survey) => self.process_broker_surveyed(survey).await,
            ControllerEvent::Shutdown => self.process_shutdown().await.map(Some),
            ControllerEvent::ControlledShutdown {
                broker,
                broker_epoch,
                reply_to,
            } => {
                self.process_controlled_shutdown(broker, broker_epoch, reply_to)
                    .await
            }
            ControllerEvent::AlterPartitionReceived { request, reply_to } => self
                .process_alter_partition(request, reply_to)
                .await
                .map(none),
            ControllerEvent::AllocateProducerIds { from, reply_to } => self
                .process_allocate_producer_ids(from, reply_to)
                .await
                .map(none),
            ControllerEvent::ElectLeaders {
                partitions,
                election,
                timeout_ms,
                reply_to,
            } => self
                .process_elect_leaders(partitions, election, timeout_ms, reply_to)
                .await
                .map(none),
            ControllerEvent::AlterPartitionReassignments { targets, reply_to } => self
                .process_alter_partition_reassignments(targets, reply_to)
                .await
                .map(none),
            ControllerEvent::ListPartitionReassignments {
                partitions,
                reply_to,
            } => {
                self.process_list_partition_reassignments(partitions, reply_to);
                Ok(None)
            }
            ControllerEvent::UpdateFeatures { updates, reply_to } => {
                self.process_update_features(updates, reply_to).await
            }
            ControllerEvent::AlterUserScramCredentials {
                alterations,
                reply_to,
            } => self
                .process_alter_user_scram_credentials(alterations, reply_to)
                .await
                .map(none),
            ControllerEvent::BrokerChange if self.context.term().is_none() => {
                self.begin_survey().await.map(none)
            }
            _ if self.context.term().is_none() => Ok(None),
            ControllerEvent::BrokerChange => self.process_broker_change().await,
            ControllerEvent::BrokerModifications(id) => self.process_broker_modifications(id).await,
            ControllerEvent::TopicChange => self.process_topic_change().await.map(none),
            ControllerEvent::PartitionModifications(_) if planted!(DeafToGrowth) => Ok(None),
            ControllerEvent::PartitionModifications(topic) => self
                .process_partition_modifications(&[topic])
                .await
                .map(none),
            ControllerEvent::TopicDeletion => {
                planted!(ForgetRearm => {
                    if crate::planted::was_heard_before(self.term()?.epoch) {
                        return Ok(None);
                    }
                });
                self.process_topic_deletion().await.map(none)
            }
            ControllerEvent::IsrChangeNotification => {
                self.process_isr_change_notification().await.map(none)
            }
            ControllerEvent::LogDirEventNotification => {
                self.process_log_dir_event_notification().await.map(none)
            }
            ControllerEvent::PreferredReplicaElection => {
                self.process_preferred_replica_election().await.map(none)
            }
            ControllerEvent::PartitionReassignment => {
                self.process_partition_reassignment().await.map(none)
            }
            ControllerEvent::PartitionReassignmentIsrChange => self
                .process_partition_reassignment_isr_change()
                .await
                .map(none),
            ControllerEvent::AutoPreferredReplicaLeaderElection => {
                self.process_auto_leader_election().await.map(none)
            }
            ControllerEvent::DeleteTopics {
                topics,
                timeout_ms,
                claimant,
                reply_to,
            } => self
                .process_delete_topics(topics, timeout_ms, claimant, reply_to)
                .await
                .map(none),
            ControllerEvent::CreateTopics {
                request,
                claimant,
                reply_to,
            } => self
                .process_create_topics(request, claimant, reply_to)
                .await
                .map(none),
            ControllerEvent::CreatePartitions {
                request,
                claimant,
                reply_to,
            } => self
                .process_create_partitions(request, claimant, reply_to)
                .await
                .map(none),
            ControllerEvent::Compare(reply_to) => self.process_compare(reply_to).await.map(none),
            // Who waited long enough is answered at the end of every event.
            ControllerEvent::AnswerDue => Ok(None),
            ControllerEvent::ExpireDelegationTokens => {
                self.process_expire_delegation_tokens().await.map(none)
            }
            ControllerEvent::ConfigChange => self.process_config_change().await.map(none),
            ControllerEvent::UncleanLeaderElectionEnable => self
                .process_unclean_leader_election_enable()
                .await
                .map(none),
            ControllerEvent::TopicUncleanLeaderElectionEnable(topic) => self
                .process_topic_unclean_leader_election_enable(topic)
                .await
                .map(none),
            ControllerEvent::LeaderAndIsrResponseReceived { from, response } => {
                self.process_leader_and_isr_response(from, response).await
            }
            ControllerEvent::UpdateMetadataResponseReceived {
                from,
                number,
                error,
            } => {
                self.process_update_metadata_response(from, number, error)
                    .await
            }
            ControllerEvent::StopReplicaResponseReceived {
                from,
                controller_epoch,
                deleted,
                response,
            } => {
                self.process_stop_replica_response(from, controller_epoch, &deleted, &response)
                    .await
            }
            ControllerEvent::DepartureDue(of) => {
                self.process_departure_due(of);
                Ok(None)
            }
            ControllerEvent::ChannelBehind(of) => {
                self.process_channel_behind(of);
                Ok(None)
            }
            ControllerEvent::AntiEntropy(sweep) => self.process_anti_entropy(sweep).await.map(none),
            ControllerEvent::RereadStates => self.process_reread_states().await.map(none),
        }
    }

    /// ZooKeeper refused what an event needed. In office it is made up for by the next sweep; on the way there klamm
    /// steps back for a moment, so that others can lead what it can't read.
    async fn fail_event(&mut self, fault: &ZkFault) {
        if self.is_loaded {
            error!(target: log::CONTROLLER, "{fault}; what was to be done is tried again with the next sweep, and the role is looked at again in {HOLD_OFF_MS} ms at the latest");
            self.has_unfinished_work = true;
            self.schedule_role_look();
            return;
        }
        error!(target: log::CONTROLLER, "{fault}; klamm can't lead before this works, it is tried again in {HOLD_OFF_MS} ms");
        let now_ms = self.ports.clock.now_ms();
        if now_ms >= self.hold_off_until_ms {
            self.hold_off_until_ms = now_ms.saturating_add(HOLD_OFF_MS);
            let again = ControllerEvent::RegisterBrokerAndReelect;
            self.ports.clock.schedule(HOLD_OFF_MS, again);
        }
        if let Err(gone) = self.release().await {
            info!(target: log::CONTROLLER, "the role was gone before it could be given back: {gone}");
        }
    }

    /// What failed may have been the look at the role, whose watch is spent then: nobody else would look again. One timer
    /// serves all that fails until then.
    fn schedule_role_look(&mut self) {
        let now_ms = self.ports.clock.now_ms();
        if self
            .role_look_due_at_ms
            .is_some_and(|due_ms| due_ms > now_ms)
        {
            return;
        }
        self.role_look_due_at_ms = Some(now_ms.saturating_add(HOLD_OFF_MS));
        let look = ControllerEvent::ControllerChange;
        self.ports.clock.schedule(HOLD_OFF_MS, look);
    }

    /// Reads what a decision needs.
    async fn fetch(&mut self, needs: Needs) -> Result<Fetched, ZkFault> {
        let mut fetched = Fetched::default();
        if !needs.states.is_empty() {
            let reads = self.ports.zk.partition_states(&needs.states).await?;
            fetched.states = needs
                .states
                .into_iter()
                .zip(reads.into_iter().map(|read| read.map(Into::into)))
                .collect();
        }
        if !needs.topic_configs.is_empty() {
            let reads = self.ports.zk.topic_configs(&needs.topic_configs).await?;
            fetched.topic_configs = needs.topic_configs.into_iter().zip(reads).collect();
        }
        Ok(fetched)
    }

    /// Reads, decides, writes and applies until nothing has lost a version race. What brokers must hear is in `batch`.
    async fn change<A: StateChange>(
        &mut self,
        mut ask: A,
        batch: &mut ControllerBrokerRequestBatch,
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        let mut done = Vec::new();
        loop {
            let needs = ask.needs(&self.context);
            let fetched = if needs.is_empty() {
                Fetched::default()
            } else {
                self.fetch(needs).await?
            };
            let decision = ask.decide(&self.context, &fetched);
            let writes = decision.writes();
            let outcomes = if writes.is_empty() {
                Vec::new()
            } else {
                planted!(SendBeforeCommit => {
                    let mut early = ControllerBrokerRequestBatch::new();
                    let imagined = crate::planted::imagined(&writes);
                    ask.apply(&mut self.context, decision.clone(), &imagined, &mut early);
                    self.send(early);
                });
                self.ports.zk.write(&self.term()?, &writes).await?
            };
            let applied = ask.apply(&mut self.context, decision, &outcomes, batch);
            self.log_changes(&applied);
            done.extend(applied.done);
            if applied.retry.is_empty() || planted!(DropLostRace) {
                return Ok(done);
            }
            ask = ask.again(applied.retry);
        }
    }

    /// As [`Self::change`], and sends the batch. Also where a later round was refused: what the earlier ones committed
    /// must be heard, and nobody else would say it.
    async fn change_and_send<A: StateChange>(
        &mut self,
        ask: A,
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        let mut batch = ControllerBrokerRequestBatch::new();
        let outcome = self.change(ask, &mut batch).await;
        self.send_unless_deposed(batch, &outcome);
        outcome
    }

    /// Two questions about different partitions, written in one round; each is announced in a batch of its own, in this
    /// order. What lost a race goes round again by itself.
    async fn change_both_and_send<A: StateChange, F: StateChange>(
        &mut self,
        first: A,
        second: F,
    ) -> Result<(), ZkFault> {
        let (first_needs, second_needs) = (first.needs(&self.context), second.needs(&self.context));
        if !first_needs.is_empty() || !second_needs.is_empty() {
            self.change_and_send(first).await?;
            return self.change_and_send(second).await.map(|_| ());
        }
        let nothing = Fetched::default();
        let first_decision = first.decide(&self.context, &nothing);
        let second_decision = second.decide(&self.context, &nothing);
        let mut writes = first_decision.writes();
        let of_first = writes.len();
        writes.extend(second_decision.writes());
        let outcomes = if writes.is_empty() {
            Vec::new()
        } else {
            self.ports.zk.write(&self.term()?, &writes).await?
        };
        let (first_outcomes, second_outcomes) = outcomes.split_at(of_first.min(outcomes.len()));
        let first_retry = self.apply_and_send(&first, first_decision, first_outcomes);
        let second_retry = self.apply_and_send(&second, second_decision, second_outcomes);
        if !first_retry.is_empty() {
            self.change_and_send(first.again(first_retry)).await?;
        }
        if !second_retry.is_empty() {
            self.change_and_send(second.again(second_retry)).await?;
        }
        Ok(())
    }

    fn apply_and_send<A: StateChange>(
        &mut self,
        ask: &A,
        decision: Decision,
        outcomes: &[ZkOutcome],
    ) -> Vec<TopicPartition> {
        let mut batch = ControllerBrokerRequestBatch::new();
        let applied = ask.apply(&mut self.context, decision, outcomes, &mut batch);
        self.log_changes(&applied);
        self.send(batch);
        applied.retry
    }

    /// Under a lost term nothing more leaves.
    fn send_unless_deposed<T>(
        &mut self,
        batch: ControllerBrokerRequestBatch,
        outcome: &Result<T, ZkFault>,
    ) {
        match outcome {
            Ok(_) | Err(ZkFault::Refused { .. }) => self.send(batch),
            Err(ZkFault::Fenced | ZkFault::SessionLost) => {}
        }
    }

    fn log_changes(&mut self, applied: &Applied) {
        for (partition, reason) in &applied.changes {
            if let Some(state) = self.context.leadership(partition) {
                info!(
                    target: log::STATE_CHANGE,
                    "partition {partition}: leader {}, isr {}, leader epoch {} ({reason:?})",
                    state.leader, state.isr, state.leader_epoch
                );
            }
        }
        self.log_refused(&applied.refused);
    }

    /// What ZooKeeper refused, or what can't be understood, is tried again with the next sweep.
    fn log_refused(&mut self, refused: &[Refused]) {
        for refused in refused {
            if self.refused_states.note(refused) {
                let Refused { partition, reason } = refused;
                info!(target: log::STATE_CHANGE, "partition {partition}: not changed: {reason}");
            }
        }
    }

    /// Hands a finished batch to the channels.
    fn send(&mut self, batch: ControllerBrokerRequestBatch) {
        if let Some(requests) = self.numbered(batch) {
            self.ports.brokers.send(requests);
        }
    }

    /// The requests of a batch; their UpdateMetadata can be told from others when it is answered.
    fn numbered(&mut self, batch: ControllerBrokerRequestBatch) -> Option<ControlRequests> {
        let mut requests = batch.into_requests(&self.context)?;
        if let Some(update) = &mut requests.update_metadata {
            let registered = update
                .to
                .iter()
                .filter_map(|id| self.context.registration(*id));
            let to = registered.map(|registration| Incarnation {
                broker: registration.broker.id,
                epoch: registration.epoch,
            });
            update.number = self.acknowledgements.number(to);
        }
        Some(requests)
    }

    /// UpdateMetadata of `partitions` (none: only who is alive) to `recipients`, at once.
    fn send_update_metadata(&mut self, recipients: &[BrokerId], partitions: &[TopicPartition]) {
        let mut batch = ControllerBrokerRequestBatch::new();
        batch.add_update_metadata(&self.context, recipients, partitions);
        self.send(batch);
    }

    fn term(&self) -> Result<Term, ZkFault> {
        self.context.term().ok_or(ZkFault::Fenced)
    }

    fn registered_ids(&self) -> Vec<BrokerId> {
        self.context
            .live_or_shutting_down_brokers()
            .map(|registration| registration.broker.id)
            .collect()
    }

    fn answer(&mut self, to: ReplyTo, answer: Answer) {
        let answer = self.throttled(to, answer);
        self.ports.replies.answer(to, answer);
    }

    fn publish(&mut self, state: ControllerState) {
        let term = self.context.term();
        let snapshot = ControllerSnapshot {
            term,
            is_loaded: self.is_loaded,
            state,
            brokers: self
                .context
                .live_or_shutting_down_brokers()
                .cloned()
                .collect(),
            gauges: self.context.gauges(),
            history: self.history,
            standing_by: if term.is_some() {
                Arc::from("")
            } else {
                Arc::clone(&self.standing_by)
            },
        };
        self.ports.replies.publish(snapshot);
    }

    /// Notes why klamm doesn't contend; said once, not at each look.
    fn stand_by(&mut self, why: &str) {
        if self.standing_by.as_ref() != why {
            info!(target: log::CONTROLLER, "standing by: {why}");
            self.standing_by = Arc::from(why);
        }
    }

    fn warn_broken(&mut self, broken: impl IntoIterator<Item = String>) {
        for why in broken {
            if self.complaints.is_new(&why) {
                warn!(target: log::CONTROLLER, "{why}");
            }
        }
    }
}

/// What a waiting request is answered when it will not be processed: the queue was cleared, or the process ends.
/// Java leaves AlterPartition, AllocateProducerIds and UpdateFeatures without an answer, so their senders wait for a time-out.
pub fn preempted_answer(event: &ControllerEvent) -> Option<(ReplyTo, Answer)> {
    match event {
        ControllerEvent::ControlledShutdown { reply_to, .. } => Some((
            *reply_to,
            Answer::ControlledShutdown(Err(KafkaError::STALE_CONTROLLER_EPOCH)),
        )),
        ControllerEvent::AlterPartitionReceived { .. } if planted!(LeaveUnanswered) => None,
        ControllerEvent::AlterPartitionReceived { reply_to, .. } => Some((
            *reply_to,
            Answer::AlterPartition(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::AllocateProducerIds { reply_to, .. } => Some((
            *reply_to,
            Answer::AllocateProducerIds(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::Compare(reply_to) => {
            Some((*reply_to, Answer::Compare(Err(KafkaError::NOT_CONTROLLER))))
        }
        ControllerEvent::DeleteTopics { reply_to, .. } => Some((
            *reply_to,
            Answer::DeleteTopics(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::CreateTopics { reply_to, .. } => Some((
            *reply_to,
            Answer::CreateTopics(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::CreatePartitions { reply_to, .. } => Some((
            *reply_to,
            Answer::CreatePartitions(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::UpdateFeatures { reply_to, .. } => Some((
            *reply_to,
            Answer::UpdateFeatures(Err(ApiError::new(
                KafkaError::NOT_CONTROLLER,
                "this node is not the controller any more",
            ))),
        )),
        ControllerEvent::AlterUserScramCredentials { reply_to, .. } => Some((
            *reply_to,
            Answer::AlterUserScramCredentials(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::ElectLeaders { reply_to, .. } => Some((
            *reply_to,
            Answer::ElectLeaders(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::AlterPartitionReassignments { reply_to, .. } => Some((
            *reply_to,
            Answer::AlterPartitionReassignments(Err(KafkaError::NOT_CONTROLLER)),
        )),
        ControllerEvent::ListPartitionReassignments { reply_to, .. } => Some((
            *reply_to,
            Answer::ListPartitionReassignments(Err(KafkaError::NOT_CONTROLLER)),
        )),
        _ => None,
    }
}

/// An event that can't end the process.
fn none(_: ()) -> Option<Stop> {
    None
}
