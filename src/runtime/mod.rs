//! The wiring, the one loop, and the order in which things start and stop.
//!
//! Shell: decides nothing about partitions. What has to be proven before a held role is taken is done here first:
//! listeners bound, ZooKeeper read, `klamm.id` vetted. Upstream: `KafkaServer.startup`, `ControllerEventThread`.

pub mod check;
mod clock;
mod event_loop;
mod handover;
mod observer;
mod open_files;
mod queue;
mod replies;

pub use clock::SystemClock;
pub use event_loop::{EventThread, Watched};
pub use handover::{handback, takeover};
pub use queue::EventQueue;
pub use replies::{Published, ReplySlots};

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::api::{self, BindError, ServerContext};
use crate::broker::{ChannelConfig, ControllerChannelManager, SurveyQuestions};
use crate::cli::ExitStatus;
use crate::config::{Config, TakeoverPolicy};
use crate::controller::{ControllerSettings, KafkaController, LeaderBalance, Stop};
use crate::event::{ControllerEvent, EventSink};
use crate::machine::candidacy;
use crate::machine::mutation_quota::QuotaWindow;
use crate::machine::topic_creation::TopicDefaults;
use crate::model::BrokerId;
use crate::model::topic_config::BrokerProperties;
use crate::observe::capture::CaptureStartError;
use crate::observe::http::{self, Compare, Observed};
use crate::observe::telemetry::TelemetryError;
use crate::observe::{Capture, CaptureTap, HealthSnapshot, Metrics};
use crate::port::Ports;
use crate::state::ControllerSnapshot;
use crate::zk::{Handover, Session, SessionState, Settings, StartError, UnusableId};
use observer::SessionObserver;

/// How long a role that was given up may stay vacant before it is only said so.
const SUCCESSOR_WAIT_MS: u64 = 20_000;
/// No lost watch outlives this.
const ANTI_ENTROPY_PERIOD_MS: u64 = 60_000;

/// Why the process ends without having done what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Logs can't be written.
    #[error(transparent)]
    Telemetry(TelemetryError),
    /// A listener, or the process itself, could not be set up.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The capture that was asked for can't begin.
    #[error(transparent)]
    Capture(#[from] CaptureStartError),
    /// A listener of the node can't be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No session.
    #[error(transparent)]
    ZooKeeper(#[from] StartError),
    /// The id is taken.
    #[error(transparent)]
    UnusableId(#[from] UnusableId),
    /// ZooKeeper refused a hand-back or its end.
    #[error(transparent)]
    Zk(#[from] crate::port::ZkFault),
    /// The controller ended.
    #[error("{0}")]
    Stopped(Stop),
    /// The controller's thread is gone without a word.
    #[error(
        "the controller's thread failed; its last words are in the log. Start klamm again: a broker leads meanwhile"
    )]
    ThreadFailed,
    /// The role was given back and nobody took it.
    #[error(
        "the role was given back, but no broker took it within {0} s; see the brokers' controller.log"
    )]
    NoSuccessor(u64),
}

impl RunError {
    /// What the process ends with.
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            RunError::UnusableId(UnusableId::Zk(_)) => ExitStatus::Failed,
            RunError::UnusableId(_) | RunError::Stopped(Stop::Unfit(_)) => ExitStatus::Refused,
            RunError::Stopped(Stop::Replaced(_)) => ExitStatus::Replaced,
            RunError::ZooKeeper(StartError::TooOld { .. }) => ExitStatus::Refused,
            _ => ExitStatus::Failed,
        }
    }
}

/// Runs the node until it is told to stop, is replaced, or must not go on.
///
/// # Errors
/// See [`RunError`].
pub fn run(config: &Config) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(config));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(config: &Config) -> Result<(), RunError> {
    info!("{}", config.summary());
    for notice in &config.notices {
        info!("{notice}");
    }
    let files_max = open_files::raise_limit();
    let connections_max = open_files::connections_of_each(files_max, config.listeners.len());
    let metrics = Arc::new(Metrics::default());
    let start = |asked| Capture::start(asked, Arc::clone(&metrics));
    let capture = config.capture.as_ref().map(start).transpose()?;
    let tap = capture.as_ref().map(Capture::tap).unwrap_or_default();
    let (health, health_latest) = watch::channel(HealthSnapshot::starting(config.klamm_id));
    let replies = ReplySlots::default();
    let queue = EventQueue::new(replies.clone());
    let stop_pages = CancellationToken::new();
    let pages = match &config.http_listen {
        Some(address) => {
            let listener = http::bind(address).await?;
            let (slots, events) = (replies.clone(), queue.clone());
            let compare = Compare(Arc::new(move || {
                let (reply_to, answer) = slots.open();
                events.put(ControllerEvent::Compare(reply_to));
                answer
            }));
            let observed = Observed {
                metrics: Arc::clone(&metrics),
                health: health_latest,
                compare,
            };
            Some(tokio::spawn(http::serve(
                listener,
                observed,
                stop_pages.clone(),
            )))
        }
        None => None,
    };
    let bound = api::bind(&config.listeners).await?;

    let sink: Arc<dyn EventSink> = Arc::new(queue.clone());
    let health = Arc::new(health);
    let observer = Arc::new(SessionObserver::new(
        Arc::clone(&metrics),
        Arc::clone(&health),
    ));
    let session = Session::start(session_settings(config), Arc::clone(&sink), observer).await?;
    session.client().vet_own_id().await?;

    let handle = tokio::runtime::Handle::current();
    let channels = ControllerChannelManager::new(
        channel_config(config, tap.clone()),
        handle.clone(),
        Arc::clone(&sink),
        Arc::clone(&metrics),
    );
    let (published, snapshot) = Published::new(replies.clone());
    let server = bound.serve(server_context(
        config,
        connections_max,
        &channels,
        replies,
        snapshot.clone(),
        Arc::clone(&sink),
        tap,
    ));
    let ports = Ports {
        zk: session.client().clone(),
        brokers: channels,
        replies: published,
        clock: SystemClock::new(queue.clone(), handle),
    };
    let settings = controller_settings(config);
    let watched = Watched {
        metrics,
        health,
        snapshot,
    };
    let mut thread = EventThread::start(queue.clone(), watched, move || {
        KafkaController::new(settings, ports)
    })?;
    queue.put(ControllerEvent::Startup);

    let stop = until_stopped(&mut thread, &queue, config).await;
    let outcome = conclude(stop, &session, thread.was_active()).await;
    session.close().await;
    server.shutdown().await;
    if let Some(capture) = capture {
        capture.finish().await;
    }
    stop_pages.cancel();
    if let Some(pages) = pages {
        // The pages end within a second of being told to; what they answered last no longer matters.
        let _ = pages.await;
    }
    outcome
}

/// Waits for the controller to end, or tells it to.
async fn until_stopped(
    thread: &mut EventThread,
    queue: &EventQueue,
    config: &Config,
) -> Result<Stop, RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        stop = thread.ended() => return stop.ok_or(RunError::ThreadFailed),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("told to stop: giving the role back");
    // What waits is answered, what runs is finished, then the role goes back in one transaction.
    drop(queue.clear_and_put(ControllerEvent::Shutdown));
    let patience = Duration::from_millis(config.zookeeper.session_timeout_ms);
    tokio::select! {
        stop = thread.ended() => stop.ok_or(RunError::ThreadFailed),
        () = tokio::time::sleep(patience) => {
            warn!("ZooKeeper could not be reached to give the role back; it lapses with the session");
            Ok(Stop::Released)
        }
        _ = terminate.recv() => Ok(Stop::Released),
        _ = interrupt.recv() => Ok(Stop::Released),
    }
}

/// A release is done when somebody holds the role. While ZooKeeper is away nobody can be seen to take it.
async fn conclude(
    stop: Result<Stop, RunError>,
    session: &Session,
    was_active: bool,
) -> Result<(), RunError> {
    let stop = stop.inspect_err(|failure| error!("{failure}"))?;
    let gave_back = was_active && !matches!(stop, Stop::Replaced(_));
    let can_look = session.client().session_state() == SessionState::Connected;
    if gave_back && can_look {
        match session.client().await_successor(SUCCESSOR_WAIT_MS).await {
            Ok(Handover::Taken { by, .. }) => info!("broker {by} is the controller now"),
            Ok(Handover::Vacant { .. }) => {
                warn!("nobody has taken the role within {SUCCESSOR_WAIT_MS} ms")
            }
            Err(fault) => info!("could not look who has the role: {fault}"),
        }
    }
    match stop {
        Stop::Released => Ok(()),
        other => {
            error!("{other}");
            Err(RunError::Stopped(other))
        }
    }
}

/// The configuration's ranges end far below; a cast must not wrap all the same.
fn saturating(milliseconds: u64) -> u32 {
    u32::try_from(milliseconds).unwrap_or(u32::MAX)
}

fn session_settings(config: &Config) -> Settings {
    Settings {
        connect: config.zookeeper.connect.clone(),
        session_timeout_ms: saturating(config.zookeeper.session_timeout_ms),
        connection_timeout_ms: saturating(config.zookeeper.connection_timeout_ms),
        id: config.klamm_id,
    }
}

fn server_context(
    config: &Config,
    connections_max: usize,
    channels: &ControllerChannelManager,
    replies: ReplySlots,
    snapshot: watch::Receiver<ControllerSnapshot>,
    events: Arc<dyn EventSink>,
    capture: CaptureTap,
) -> ServerContext {
    let ranges = channels.ranges();
    ServerContext {
        own_id: config.klamm_id,
        events,
        open_slot: Arc::new(move || replies.open()),
        snapshot,
        common_ranges: Arc::new(move || ranges.common()),
        limits: api::Limits {
            request_max_bytes: config.socket_request_max_bytes as usize,
            connections_max_idle: config.connections_max_idle_ms.map(Duration::from_millis),
            connections_max,
        },
        capture,
    }
}

fn channel_config(config: &Config, capture: CaptureTap) -> ChannelConfig {
    ChannelConfig {
        capture,
        control_plane_listener: config.control_plane_listener_name.as_deref().map(Arc::from),
        request_timeout_ms: config.controller_socket_timeout_ms,
        connection_setup_timeout_ms: config.socket_connection_setup_timeout_ms,
        connection_setup_timeout_max_ms: config.socket_connection_setup_timeout_max_ms,
        // The authorizer is asked for even where the operator gave the protocol: nothing about security is assumed.
        survey: SurveyQuestions::VersionsProtocolAndAuthorizer,
        ..ChannelConfig::new(config.klamm_id, &config.inter_broker_listener_name)
    }
}

fn controller_settings(config: &Config) -> ControllerSettings {
    ControllerSettings {
        own_id: config.klamm_id,
        listeners: config.advertised_endpoints(),
        takeover: match config.takeover_policy {
            TakeoverPolicy::Always => candidacy::TakeoverPolicy::Always,
            TakeoverPolicy::Vacant => candidacy::TakeoverPolicy::Vacant,
        },
        takeover_delay_ms: config.takeover_delay_ms,
        protocol: config.inter_broker_protocol,
        unclean_leader_election_enable: config.unclean_leader_election_enable,
        delete_topic_enable: config.delete_topic_enable,
        shared: config.shared_settings(),
        topic_defaults: TopicDefaults {
            num_partitions: config.num_partitions,
            replication_factor: config.default_replication_factor,
            broker: BrokerProperties::of_file(config.topic_defaults.clone()),
        },
        quota_window: QuotaWindow {
            num: config.controller_quota_window_num,
            size_seconds: config.controller_quota_window_size_seconds,
        },
        anti_entropy_period_ms: ANTI_ENTROPY_PERIOD_MS,
        token_expiry_check_interval_ms: config.delegation_token_expiry_check_interval_ms,
        leader_balance: config
            .auto_leader_rebalance_enable
            .then_some(LeaderBalance {
                interval_ms: config
                    .leader_imbalance_check_interval_seconds
                    .saturating_mul(1_000),
                threshold_percent: config.leader_imbalance_per_broker_percentage,
            }),
    }
}

/// The id that a session without a node uses: it contends for nothing.
const NOBODY: BrokerId = BrokerId::NO_LEADER;
