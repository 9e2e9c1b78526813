//! All metrics of klamm, in one struct, and their text under the names that jmx_exporter gives the Java controller's.
//!
//! Upstream counterparts: the gauges of `KafkaController.scala`, `ControllerStats`, `ControllerEventManager`,
//! `ControllerChannelManager`, `ZooKeeperClient`. Left out: `BrokerState`, by which dashboards count brokers with data.
//! A klamm that is not the controller exports zeros, so that sums over all nodes of a cluster hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::exposition::{Exposition, Kind, Label, TimerSeries};
use super::instruments::{Counter, Gauge, Timer, lock};
use crate::event::ControllerState;
use crate::model::BrokerId;
use crate::state::{ControllerSnapshot, Gauges, Ineligible, Waiting};

/// `ZkMigrationState` of every broker and controller that is not on its way to KRaft.
const MIGRATION_STATE_ZOOKEEPER: i64 = 4;

/// What happened to the ZooKeeper session, as `SessionExpireListener` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent {
    Disconnected,
    SyncConnected,
    Expired,
    AuthFailed,
    ConnectedReadOnly,
    SaslAuthenticated,
}

impl SessionEvent {
    const ALL: [Self; 6] = [
        Self::Disconnected,
        Self::SyncConnected,
        Self::Expired,
        Self::AuthFailed,
        Self::ConnectedReadOnly,
        Self::SaslAuthenticated,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnects",
            Self::SyncConnected => "syncconnects",
            Self::Expired => "expires",
            Self::AuthFailed => "authfailures",
            Self::ConnectedReadOnly => "readonlyconnects",
            Self::SaslAuthenticated => "saslauthentications",
        }
    }
}

/// The stages of a takeover, in their order; each is timed from the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailoverPhase {
    /// The transaction that takes the role.
    Claim,
    /// Reading the cluster from ZooKeeper.
    Load,
    /// Until the first UpdateMetadata is queued for every broker.
    FirstUpdate,
    /// Until the replica and partition machines have started and their requests are queued.
    StateMachines,
    /// From the beginning of the claim to the end of all.
    Total,
}

impl FailoverPhase {
    const ALL: [Self; 5] = [
        Self::Claim,
        Self::Load,
        Self::FirstUpdate,
        Self::StateMachines,
        Self::Total,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Load => "load",
            Self::FirstUpdate => "first_update",
            Self::StateMachines => "state_machines",
            Self::Total => "total",
        }
    }
}

/// The channel to one incarnation of a broker; its task keeps it up to date.
#[derive(Debug, Default)]
pub struct ChannelMetrics {
    /// Requests that were not sent yet; the one in flight does not count.
    pub queue_size: Gauge,
    /// How many requests were sent, and how long each waited in the queue.
    pub request_rate_and_queue_time: Timer,
    connected: AtomicBool,
    oldest_request: Mutex<Option<Instant>>,
}

impl ChannelMetrics {
    /// Tells whether there is a connection.
    pub fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Tells when the oldest request without an answer was queued, or that there is none.
    pub fn set_oldest_request(&self, queued_at: Option<Instant>) {
        *lock(&self.oldest_request) = queued_at;
    }

    /// How long the oldest request without an answer has waited.
    pub fn oldest_request_age_at(&self, now: Instant) -> Option<Duration> {
        lock(&self.oldest_request).map(|queued_at| now.saturating_duration_since(queued_at))
    }
}

/// Every metric. Shared as `Arc<Metrics>`; updated from any thread.
#[derive(Debug, Default)]
pub struct Metrics {
    /// 1 while klamm is the controller.
    pub active_controller_count: Gauge,
    /// Partitions without an online leader.
    pub offline_partitions_count: Gauge,
    /// Partitions led by another than the preferred replica.
    pub preferred_replica_imbalance_count: Gauge,
    /// The number of the [`ControllerState`] of the event at hand.
    pub controller_state: Gauge,
    pub global_topic_count: Gauge,
    pub global_partition_count: Gauge,
    pub topics_to_delete_count: Gauge,
    pub replicas_to_delete_count: Gauge,
    pub topics_ineligible_to_delete_count: Gauge,
    pub replicas_ineligible_to_delete_count: Gauge,
    /// Deletions of topics that wait, by reason.
    topic_deletions_waiting: [Gauge; Ineligible::LABELS.len()],
    /// Partitions that are being reassigned.
    pub partitions_being_reassigned: Gauge,
    /// The same, by what they wait for.
    reassignments_waiting: [Gauge; Waiting::LABELS.len()],
    /// Live brokers.
    pub active_broker_count: Gauge,
    /// Elections of a leader from outside of the in-sync set, since the process started.
    pub unclean_leader_elections: Counter,
    /// Events that wait.
    pub event_queue_size: Gauge,
    /// How long events waited.
    pub event_queue_time: Timer,
    /// From a request to ZooKeeper to its answer.
    pub zookeeper_request_latency: Timer,
    /// The epoch of klamm's term; 0 while it is not the controller.
    pub controller_epoch: Gauge,
    /// Partitions whose assignment names a klamm although they have a state.
    pub assignments_naming_klamm_partitions: Gauge,
    /// Replicas on log directories that their brokers reported as failed.
    pub replicas_on_failed_log_dirs: Gauge,
    /// Terms that began.
    pub failovers: Counter,
    /// Terms that ended, for whatever reason.
    pub resignations: Counter,
    /// Groups of writes that ZooKeeper refused because another controller has been elected.
    pub fenced_writes: Counter,
    /// Answers of brokers that were dropped, because they belong to an older incarnation or term.
    pub stale_replies: Counter,
    /// Frames of klamm's own traffic that were written to the capture.
    pub captured_frames: Counter,
    /// Frames that are not in the capture, because the disk could not follow or refused them.
    pub capture_dropped_frames: Counter,
    state_timers: [Timer; ControllerState::ALL.len()],
    session_events: [Counter; SessionEvent::ALL.len()],
    failover_ms: [Gauge; FailoverPhase::ALL.len()],
    channels: Mutex<BTreeMap<BrokerId, Arc<ChannelMetrics>>>,
    /// The event at hand, and since when.
    running_event: Mutex<Option<(ControllerState, Instant)>>,
}

impl Metrics {
    /// An event begins: it waited for `queued`.
    pub fn event_begins(&self, state: ControllerState, queued: Duration) {
        self.event_queue_time.record(queued);
        self.controller_state.set(state as u8);
        *lock(&self.running_event) = Some((state, Instant::now()));
    }

    /// The event that began last ended.
    pub fn event_ends(&self) {
        self.controller_state.set(ControllerState::Idle as u8);
        let running = lock(&self.running_event).take();
        if let Some((state, since)) = running {
            self.state_timer(state).record(since.elapsed());
        }
    }

    /// How long the event at hand has been running; none between events.
    pub fn event_running_for_at(&self, now: Instant) -> Option<Duration> {
        lock(&self.running_event).map(|(_, since)| now.saturating_duration_since(since))
    }

    /// The timer of a state. That of a state without a name in Java is kept, and not exported.
    pub fn state_timer(&self, state: ControllerState) -> &Timer {
        // One timer for each state, in the order of ALL: the position is that of the state's number.
        &self.state_timers[state as usize]
    }

    /// Takes over what an event left behind; zeros while klamm is not the controller.
    pub fn publish(&self, snapshot: &ControllerSnapshot) {
        let gauges = if snapshot.term.is_some() {
            snapshot.gauges
        } else {
            Gauges::default()
        };
        self.active_controller_count
            .set(i64::from(snapshot.term.is_some()));
        self.controller_epoch
            .set(snapshot.term.map_or(0, |term| term.epoch.0));
        self.offline_partitions_count.set(gauges.offline_partitions);
        self.preferred_replica_imbalance_count
            .set(gauges.preferred_replica_imbalance);
        self.global_topic_count.set(gauges.topics);
        self.global_partition_count.set(gauges.partitions);
        self.topics_to_delete_count.set(gauges.topics_to_delete);
        self.replicas_to_delete_count.set(gauges.replicas_to_delete);
        self.topics_ineligible_to_delete_count
            .set(gauges.topics_ineligible_to_delete);
        self.replicas_ineligible_to_delete_count
            .set(gauges.replicas_ineligible_to_delete);
        let waiting = gauges.deletions_waiting.into_iter();
        for (gauge, count) in self.topic_deletions_waiting.iter().zip(waiting) {
            gauge.set(count);
        }
        self.partitions_being_reassigned
            .set(gauges.partitions_being_reassigned);
        let waiting = gauges.reassignments_waiting.into_iter();
        for (gauge, count) in self.reassignments_waiting.iter().zip(waiting) {
            gauge.set(count);
        }
        self.active_broker_count.set(gauges.active_brokers);
        self.assignments_naming_klamm_partitions
            .set(gauges.assignments_naming_klamm);
        self.replicas_on_failed_log_dirs
            .set(gauges.replicas_on_failed_log_dirs);
        self.unclean_leader_elections
            .raise_to(snapshot.gauges.unclean_leader_elections);
        let history = &snapshot.history;
        self.failovers.raise_to(history.failovers);
        self.resignations.raise_to(history.resignations);
        self.fenced_writes.raise_to(history.fenced_writes);
        self.stale_replies.raise_to(history.stale_replies);
        let times = &history.last_failover;
        for (phase, time_ms) in [
            (FailoverPhase::Claim, times.claim_ms),
            (FailoverPhase::Load, times.load_ms),
            (FailoverPhase::FirstUpdate, times.first_update_ms),
            (FailoverPhase::StateMachines, times.state_machines_ms),
            (FailoverPhase::Total, times.total_ms()),
        ] {
            self.failover_ms[phase as usize].set(time_ms);
        }
    }

    /// Counts what happened to the session.
    pub fn session_event(&self, event: SessionEvent) {
        self.session_events[event as usize].increment();
    }

    /// A channel opens: fresh metrics, in place of those of an older incarnation of the broker.
    pub fn open_channel(&self, broker: BrokerId) -> Arc<ChannelMetrics> {
        let channel = Arc::new(ChannelMetrics::default());
        lock(&self.channels).insert(broker, Arc::clone(&channel));
        channel
    }

    /// A channel closed. Those of a newer incarnation stay.
    pub fn close_channel(&self, broker: BrokerId, channel: &Arc<ChannelMetrics>) {
        let mut channels = lock(&self.channels);
        if channels
            .get(&broker)
            .is_some_and(|current| Arc::ptr_eq(current, channel))
        {
            channels.remove(&broker);
        }
    }

    /// The open channels, by broker.
    pub fn channels(&self) -> Vec<(BrokerId, Arc<ChannelMetrics>)> {
        lock(&self.channels)
            .iter()
            .map(|(broker, channel)| (*broker, Arc::clone(channel)))
            .collect()
    }

    /// The text of all metrics.
    pub fn expose_at(&self, now: Instant) -> String {
        let mut out = Exposition::default();
        self.expose_controller(&mut out);
        self.expose_controller_stats(&mut out, now);
        self.expose_event_manager(&mut out, now);
        let channels = self.channels();
        expose_channel_manager(&mut out, &channels, now);
        self.expose_zookeeper(&mut out, now);
        self.expose_own(&mut out);
        expose_own_channels(&mut out, &channels, now);
        out.finish()
    }

    fn expose_controller(&self, out: &mut Exposition) {
        for (name, help, value) in [
            (
                "activecontrollercount",
                "1 on the node that is the controller.",
                self.active_controller_count.get(),
            ),
            (
                "offlinepartitionscount",
                "Partitions without an online leader.",
                self.offline_partitions_count.get(),
            ),
            (
                "preferredreplicaimbalancecount",
                "Partitions led by another than the preferred replica.",
                self.preferred_replica_imbalance_count.get(),
            ),
            (
                "controllerstate",
                "The number of the state that the event at hand belongs to.",
                self.controller_state.get(),
            ),
            (
                "globaltopiccount",
                "Topics of the cluster.",
                self.global_topic_count.get(),
            ),
            (
                "globalpartitioncount",
                "Partitions of the cluster.",
                self.global_partition_count.get(),
            ),
            (
                "topicstodeletecount",
                "Topics queued for deletion.",
                self.topics_to_delete_count.get(),
            ),
            (
                "replicastodeletecount",
                "Replicas of topics queued for deletion.",
                self.replicas_to_delete_count.get(),
            ),
            (
                "topicsineligibletodeletecount",
                "Topics whose deletion waits for something.",
                self.topics_ineligible_to_delete_count.get(),
            ),
            (
                "replicasineligibletodeletecount",
                "Replicas whose deletion waits for something.",
                self.replicas_ineligible_to_delete_count.get(),
            ),
            (
                "activebrokercount",
                "Live brokers.",
                self.active_broker_count.get(),
            ),
            ("fencedbrokercount", "Always 0 with ZooKeeper.", 0),
            (
                "zkmigrationstate",
                "4: no migration to KRaft.",
                MIGRATION_STATE_ZOOKEEPER,
            ),
        ] {
            out.single(
                &format!("kafka_controller_kafkacontroller_{name}"),
                Kind::Gauge,
                help,
                value,
            );
        }
    }

    fn expose_controller_stats(&self, out: &mut Exposition, now: Instant) {
        out.single(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            Kind::Counter,
            "Elections of a leader from outside of the in-sync set.",
            self.unclean_leader_elections.get(),
        );
        for state in ControllerState::ALL {
            let Some(name) = state.timer_name() else {
                continue;
            };
            let name = format!("kafka_controller_controllerstats_{}", name.to_lowercase());
            let help =
                format!("Events of the state {state:?}, and the milliseconds that they took.");
            out.timer(
                &name,
                &help,
                &[series(Vec::new(), self.state_timer(state), now)],
            );
        }
    }

    fn expose_event_manager(&self, out: &mut Exposition, now: Instant) {
        out.single(
            "kafka_controller_controllereventmanager_eventqueuesize",
            Kind::Gauge,
            "Events that wait.",
            self.event_queue_size.get(),
        );
        out.timer(
            "kafka_controller_controllereventmanager_eventqueuetimems",
            "Events taken from the queue, and the milliseconds that they waited.",
            &[series(Vec::new(), &self.event_queue_time, now)],
        );
    }

    fn expose_zookeeper(&self, out: &mut Exposition, now: Instant) {
        for event in SessionEvent::ALL {
            let name = format!(
                "kafka_server_sessionexpirelistener_zookeeper{}_total",
                event.name()
            );
            let count = self.session_events[event as usize].get();
            out.single(
                &name,
                Kind::Counter,
                "What happened to the ZooKeeper session.",
                count,
            );
        }
        out.timer(
            "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
            "Requests to ZooKeeper, and the milliseconds until the answer.",
            &[series(Vec::new(), &self.zookeeper_request_latency, now)],
        );
    }

    fn expose_own(&self, out: &mut Exposition) {
        out.family(
            "klamm_build_info",
            Kind::Gauge,
            "Always 1; the label tells the version.",
        );
        out.sample(
            "klamm_build_info",
            &[("version", &env!("CARGO_PKG_VERSION"))],
            1,
        );
        out.single(
            "klamm_controller_epoch",
            Kind::Gauge,
            "The epoch of this klamm's term; 0 while it is not the controller.",
            self.controller_epoch.get(),
        );
        out.single(
            "klamm_assignments_naming_klamm_partitions",
            Kind::Gauge,
            "Partitions with a state whose assignment names a klamm, which can hold no replica.",
            self.assignments_naming_klamm_partitions.get(),
        );
        out.single(
            "klamm_failed_log_dir_replicas",
            Kind::Gauge,
            "Replicas on log directories that their brokers reported as failed; a restart of the broker clears it.",
            self.replicas_on_failed_log_dirs.get(),
        );
        let name = "klamm_topic_deletions_waiting";
        out.family(
            name,
            Kind::Gauge,
            "Topics whose deletion waits, by what it waits for.",
        );
        for (reason, gauge) in Ineligible::LABELS.iter().zip(&self.topic_deletions_waiting) {
            out.sample(name, &[("reason", reason)], gauge.get());
        }
        out.single(
            "klamm_partitions_being_reassigned",
            Kind::Gauge,
            "Partitions that are being reassigned.",
            self.partitions_being_reassigned.get(),
        );
        let name = "klamm_reassignments_waiting";
        out.family(
            name,
            Kind::Gauge,
            "Partitions that are being reassigned, by what they wait for; catching_up is the normal case.",
        );
        for (reason, gauge) in Waiting::LABELS.iter().zip(&self.reassignments_waiting) {
            out.sample(name, &[("reason", reason)], gauge.get());
        }
        for (name, help, counter) in [
            (
                "klamm_failovers_total",
                "Terms as controller that began.",
                &self.failovers,
            ),
            (
                "klamm_resignations_total",
                "Terms as controller that ended.",
                &self.resignations,
            ),
            (
                "klamm_fenced_writes_total",
                "Groups of writes refused because another controller has been elected.",
                &self.fenced_writes,
            ),
            (
                "klamm_stale_replies_total",
                "Answers of brokers dropped because they belong to an older incarnation or term.",
                &self.stale_replies,
            ),
            (
                "klamm_captured_frames_total",
                "Frames of klamm's own traffic that were written to the capture.",
                &self.captured_frames,
            ),
            (
                "klamm_capture_dropped_frames_total",
                "Frames that are not in the capture, because the disk could not follow or refused them.",
                &self.capture_dropped_frames,
            ),
        ] {
            out.single(name, Kind::Counter, help, counter.get());
        }
        let name = "klamm_failover_duration_ms";
        out.family(
            name,
            Kind::Gauge,
            "How long each stage of the last takeover took, in milliseconds.",
        );
        for phase in FailoverPhase::ALL {
            out.sample(
                name,
                &[("phase", &phase.name())],
                self.failover_ms[phase as usize].get(),
            );
        }
    }
}

fn series<'a>(labels: Vec<Label<'a>>, timer: &Timer, now: Instant) -> TimerSeries<'a> {
    TimerSeries {
        labels,
        count: timer.count(),
        times_ms: timer.quantiles_ms_at(now),
    }
}

fn expose_channel_manager(
    out: &mut Exposition,
    channels: &[(BrokerId, Arc<ChannelMetrics>)],
    now: Instant,
) {
    let sizes: Vec<_> = channels
        .iter()
        .map(|(broker, channel)| (broker, channel.queue_size.get()))
        .collect();
    out.single(
        "kafka_controller_controllerchannelmanager_totalqueuesize",
        Kind::Gauge,
        "Requests that wait, for all brokers.",
        sizes.iter().map(|(_, size)| size).sum::<i64>(),
    );
    let name = "kafka_controller_controllerchannelmanager_queuesize";
    out.family(name, Kind::Gauge, "Requests that wait, for one broker.");
    for (broker, size) in &sizes {
        out.sample(name, &[("broker_id", broker)], size);
    }
    let timers: Vec<_> = channels
        .iter()
        .map(|(broker, channel)| {
            series(
                vec![("broker_id", broker)],
                &channel.request_rate_and_queue_time,
                now,
            )
        })
        .collect();
    out.timer(
        "kafka_controller_controllerchannelmanager_requestrateandqueuetimems",
        "Requests sent to one broker, and the milliseconds that they waited before.",
        &timers,
    );
}

fn expose_own_channels(
    out: &mut Exposition,
    channels: &[(BrokerId, Arc<ChannelMetrics>)],
    now: Instant,
) {
    let name = "klamm_broker_connected";
    out.family(
        name,
        Kind::Gauge,
        "1 where there is a connection to the broker.",
    );
    for (broker, channel) in channels {
        out.sample(
            name,
            &[("broker_id", broker)],
            u8::from(channel.is_connected()),
        );
    }
    let name = "klamm_broker_oldest_request_age_ms";
    out.family(
        name,
        Kind::Gauge,
        "How long the oldest request without an answer has waited; 0 where there is none.",
    );
    for (broker, channel) in channels {
        let age = channel.oldest_request_age_at(now).unwrap_or_default();
        out.sample(name, &[("broker_id", broker)], age.as_millis());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Term;
    use crate::model::ControllerEpoch;
    use crate::state::{FailoverTimes, TermHistory};

    fn active() -> ControllerSnapshot {
        ControllerSnapshot {
            term: Some(Term {
                epoch: ControllerEpoch(7),
                epoch_zk_version: 6,
            }),
            is_loaded: true,
            gauges: Gauges {
                offline_partitions: 1,
                preferred_replica_imbalance: 2,
                topics: 3,
                partitions: 4,
                active_brokers: 5,
                topics_to_delete: 6,
                replicas_to_delete: 7,
                topics_ineligible_to_delete: 8,
                deletions_waiting: [1, 2, 3, 4, 5],
                replicas_ineligible_to_delete: 9,
                assignments_naming_klamm: 10,
                replicas_on_failed_log_dirs: 32,
                partitions_being_reassigned: 19,
                reassignments_waiting: [1, 2, 3, 4, 5, 6],
                unclean_leader_elections: 11,
            },
            history: TermHistory {
                failovers: 12,
                resignations: 13,
                fenced_writes: 14,
                stale_replies: 15,
                last_failover: FailoverTimes {
                    claim_ms: 16,
                    load_ms: 140,
                    first_update_ms: 17,
                    state_machines_ms: 18,
                },
            },
            ..ControllerSnapshot::default()
        }
    }

    /// Without the lines about families.
    fn samples(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn every_metric_has_the_name_that_dashboards_expect() {
        let metrics = Metrics::default();
        metrics.publish(&active());
        metrics.event_queue_size.set(12);
        metrics.session_event(SessionEvent::Expired);
        let now = Instant::now();
        let channel = metrics.open_channel(BrokerId(3));
        channel.queue_size.set(2);
        channel.set_connected(true);
        channel.set_oldest_request(Some(now));
        channel
            .request_rate_and_queue_time
            .record_at(now, Duration::from_millis(1));
        let later = now + Duration::from_millis(1500);
        let exposed = metrics
            .expose_at(later)
            .replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let golden = include_str!("testdata/metrics.txt");
        assert_eq!(
            exposed, golden,
            "the text changed; if on purpose, testdata/metrics.txt follows\n{exposed}"
        );
    }

    #[test]
    fn a_standby_exports_zeros_and_keeps_its_counters() {
        let metrics = Metrics::default();
        metrics.publish(&active());
        let standby = ControllerSnapshot {
            gauges: active().gauges,
            ..ControllerSnapshot::default()
        };
        metrics.publish(&standby);
        let text = metrics.expose_at(Instant::now());
        let controller = samples(&text)
            .into_iter()
            .filter(|line| line.starts_with("kafka_controller_kafkacontroller_"));
        for line in controller.filter(|line| !line.contains("zkmigrationstate")) {
            assert!(line.ends_with(" 0"), "{line}");
        }
        assert!(
            text.contains("\nkafka_controller_controllerstats_uncleanleaderelections_total 11\n")
        );
    }

    #[test]
    fn an_event_is_timed_under_its_state() {
        let metrics = Metrics::default();
        metrics.event_begins(ControllerState::BrokerChange, Duration::from_millis(3));
        assert_eq!(metrics.controller_state.get(), 2);
        assert!(metrics.event_running_for_at(Instant::now()).is_some());
        metrics.event_ends();
        assert_eq!(
            (
                metrics.controller_state.get(),
                metrics.event_running_for_at(Instant::now())
            ),
            (0, None)
        );
        let text = metrics.expose_at(Instant::now());
        assert!(
            text.contains(
                "\nkafka_controller_controllerstats_leaderelectionrateandtimems_count 1\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\nkafka_controller_controllereventmanager_eventqueuetimems_count 1\n"),
            "{text}"
        );
    }

    #[test]
    fn a_late_close_of_an_old_incarnation_leaves_the_new_one() {
        let metrics = Metrics::default();
        let old = metrics.open_channel(BrokerId(1));
        let new = metrics.open_channel(BrokerId(1));
        new.queue_size.set(4);
        metrics.close_channel(BrokerId(1), &old);
        assert_eq!(metrics.channels().len(), 1);
        metrics.close_channel(BrokerId(1), &new);
        assert!(metrics.channels().is_empty());
        assert!(!metrics.expose_at(Instant::now()).contains("broker_id"));
    }
}
