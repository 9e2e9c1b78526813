//! The task that tells one incarnation of a broker what to do: one request in flight, in the order queued, each again and
//! again until it is answered or the incarnation is gone.
//!
//! Must never touch the context (an answer becomes an event) and never skip a request that can be sent.
//! Upstream: `RequestSendThread`; unlike it, the connection follows a changed endpoint, and versions are the broker's own.

use std::sync::Arc;
use std::time::Duration;

use klamm_codec::CodecError;
use klamm_codec::control::ControlRequest;
use klamm_codec::version::{BrokerVersions, ControlVersions};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, error, info, trace, warn};

use super::backoff::{Doubling, Notice, Outage, Patience};
use super::connection::{Connection, ConnectionError, NoListener};
use super::queue::{Backlog, QueuedRequest, RequestQueue};
use super::wire::{self, BrokerAnswer};
use super::{BrokerRanges, ChannelConfig};
use crate::effect::Incarnation;
use crate::event::{ControllerEvent, EventSink};
use crate::model::{Endpoint, InterBrokerProtocol, KafkaError};
use crate::observe::{ChannelMetrics, STATE_CHANGE};

/// Where a broker is to be dialled, as its registration says.
pub(super) type Dialled = Result<Endpoint, NoListener>;

/// See the file's comment.
pub(super) struct RequestSendThread {
    pub(super) incarnation: Incarnation,
    pub(super) queue: Arc<RequestQueue>,
    pub(super) metrics: Arc<ChannelMetrics>,
    pub(super) endpoint: watch::Receiver<Dialled>,
    pub(super) config: Arc<ChannelConfig>,
    pub(super) client_id: Arc<str>,
    pub(super) sink: Arc<dyn EventSink>,
    pub(super) ranges: BrokerRanges,
}

/// A connection and what was agreed on it. The versions stay the same for as long as it lasts: a broker that gets
/// UpdateMetadata now with topic ids and now without loses them.
struct Channel {
    connection: Connection,
    broker: BrokerVersions,
    control: ControlVersions,
    protocol: InterBrokerProtocol,
    _connected: Connected,
}

/// While this lives, the metrics say that there is a connection.
struct Connected(Arc<ChannelMetrics>);

impl Connected {
    fn tell(metrics: &Arc<ChannelMetrics>) -> Connected {
        metrics.set_connected(true);
        Connected(Arc::clone(metrics))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.set_connected(false);
    }
}

/// How far the sending has come; lives as long as the task.
struct Progress {
    channel: Option<Channel>,
    pause: Doubling,
    setup_timeout: Doubling,
    trouble: Option<Trouble>,
}

/// Tries fail, since when and how loudly.
struct Trouble {
    since: Instant,
    outage: Outage,
}

impl Progress {
    fn new(config: &ChannelConfig) -> Progress {
        Progress {
            channel: None,
            pause: Doubling::between_tries(),
            setup_timeout: Doubling::new(
                config.connection_setup_timeout_ms,
                config.connection_setup_timeout_max_ms,
            ),
            trouble: None,
        }
    }

    /// Another endpoint: what failed there says nothing of here.
    fn begin_again(&mut self) {
        self.channel = None;
        self.pause.reset();
        self.setup_timeout.reset();
    }
}

/// Why a try came to nothing.
enum Failure {
    /// Try again after a pause.
    Connection(ConnectionError),
    /// The request can't be put into bytes: it would fail for ever, and everything behind it would wait for ever.
    Unsendable(CodecError),
    /// The incarnation is gone.
    Gone,
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Failure {
        Failure::Connection(error)
    }
}

/// What came of a request.
enum Delivery {
    Answered(BrokerAnswer),
    Dropped,
}

impl RequestSendThread {
    /// Runs until it is aborted, or the queue is closed.
    pub(super) async fn run(mut self) {
        let mut progress = Progress::new(&self.config);
        while self.queue.is_open() {
            let Some(queued) = self.next_request(&mut progress).await else {
                return;
            };
            let delivery = self.deliver(queued, &mut progress).await;
            let backlog = self.queue.answered();
            if let Delivery::Answered(answer) = delivery {
                self.report(answer, backlog);
            }
        }
    }

    /// Waits for the next request, and meanwhile for the end of an idle connection or another endpoint.
    async fn next_request(&mut self, progress: &mut Progress) -> Option<QueuedRequest> {
        let broker = self.incarnation.broker;
        loop {
            if let Some(queued) = self.queue.take(Instant::now()) {
                return Some(queued);
            }
            let mut endpoint = self.endpoint.clone();
            tokio::select! {
                () = self.queue.arrival() => {}
                () = moved(&mut endpoint) => {
                    self.endpoint = endpoint;
                    progress.begin_again();
                }
                () = idle_end(progress.channel.as_ref()) => {
                    debug!("Broker {broker} closed its idle connection");
                    progress.channel = None;
                }
            }
            if !self.queue.is_open() {
                return None;
            }
        }
    }

    /// Sends one request until it is answered.
    async fn deliver(&mut self, mut queued: QueuedRequest, progress: &mut Progress) -> Delivery {
        let mut patience = Patience::new();
        loop {
            let begun = Instant::now();
            let mut endpoint = self.endpoint.clone();
            let tried = tokio::select! {
                biased;
                () = moved(&mut endpoint) => None,
                tried = self.attempt(&mut queued, progress) => Some(tried),
            };
            match tried {
                None => {
                    self.endpoint = endpoint;
                    progress.begin_again();
                    self.log_move();
                    continue;
                }
                Some(Ok(answer)) => {
                    self.recovered(progress);
                    if !self.is_premature(&answer, progress, &mut patience) {
                        progress.pause.reset();
                        return Delivery::Answered(answer);
                    }
                }
                Some(Err(Failure::Connection(error))) => {
                    progress.channel = None;
                    self.failed(&queued, &error, begun, progress);
                }
                Some(Err(Failure::Unsendable(why))) => {
                    self.log_unsendable(&queued, &why);
                    return Delivery::Dropped;
                }
                Some(Err(Failure::Gone)) => return Delivery::Dropped,
            }
            self.pause(progress).await;
        }
    }

    /// One try. The connection is put back only after a whole answer.
    async fn attempt(
        &self,
        queued: &mut QueuedRequest,
        progress: &mut Progress,
    ) -> Result<BrokerAnswer, Failure> {
        let protocol = queued.request.protocol();
        let channel = progress.channel.take();
        let mut channel = match channel.filter(|channel| channel.protocol == protocol) {
            Some(channel) => channel,
            None => self.connect(protocol, progress).await?,
        };
        let kept = queued.request.split_off_kept(channel.control.stop_replica);
        if let Some(kept) = kept {
            self.queue.put_first(kept, queued.queued_at);
        }
        let encoded = queued
            .request
            .encode(channel.control, self.incarnation.epoch);
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(why) => {
                progress.channel = Some(channel);
                return Err(Failure::Unsendable(why));
            }
        };
        if !self.queue.is_open() {
            return Err(Failure::Gone);
        }
        let answer = self
            .exchange(&mut channel.connection, queued, &encoded)
            .await?;
        progress.channel = Some(channel);
        progress.setup_timeout.reset();
        Ok(answer)
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        queued: &QueuedRequest,
        encoded: &ControlRequest,
    ) -> Result<BrokerAnswer, ConnectionError> {
        let (key, version) = (encoded.key(), encoded.version());
        let within = Duration::from_millis(self.config.request_timeout_ms);
        let encode = |correlation_id, client_id: &str| encoded.frame(correlation_id, client_id);
        let payload = connection.exchange(key, version, within, encode).await?;
        let answer = queued.request.answer(version, &payload)?;
        trace!(
            target: STATE_CHANGE,
            "Broker {} answered {key} v{version} of {} partitions: {}",
            self.incarnation.broker,
            queued.request.partition_count(),
            answer.error(),
        );
        Ok(answer)
    }

    /// Connects, asks for the versions and agrees on them.
    async fn connect(
        &self,
        protocol: InterBrokerProtocol,
        progress: &mut Progress,
    ) -> Result<Channel, ConnectionError> {
        let endpoint = self.endpoint.borrow().clone()?;
        let within = Duration::from_millis(self.config.request_timeout_ms);
        let setup_timeout = progress.setup_timeout.next();
        let mut connection = Connection::open(
            &endpoint,
            &self.client_id,
            setup_timeout,
            &self.config.capture,
        )
        .await?;
        let broker = connection.ask_versions(within).await?;
        let control = wire::control_versions(&broker, protocol)?;
        if self.queue.is_open() {
            self.ranges.set(self.incarnation.broker, broker.clone());
        }
        info!(
            "Connected to broker {} at {endpoint}: LeaderAndIsr v{}, UpdateMetadata v{}, StopReplica v{} (inter-broker protocol {protocol})",
            self.incarnation.broker,
            control.leader_and_isr.get(),
            control.update_metadata.get(),
            control.stop_replica.get(),
        );
        Ok(Channel {
            connection,
            broker,
            control,
            protocol,
            _connected: Connected::tell(&self.metrics),
        })
    }

    /// Whether to send the same again: a broker 2.2.0 to 2.5.0 answers −1 for a moment after it registered, because it does
    /// not know its own epoch yet (KAFKA-9839). The Java controller drops the request there and the broker misses it.
    fn is_premature(
        &self,
        answer: &BrokerAnswer,
        progress: &Progress,
        patience: &mut Patience,
    ) -> bool {
        let channel = progress.channel.as_ref();
        let lagging = answer.error() == KafkaError::UNKNOWN_SERVER_ERROR
            && channel.is_some_and(|channel| wire::may_lag_behind_its_own_epoch(&channel.broker))
            && patience.once_more();
        if lagging {
            debug!(
                "Broker {} may not know its registration {} yet; the same is sent again",
                self.incarnation.broker, self.incarnation.epoch,
            );
        }
        lagging
    }

    async fn pause(&mut self, progress: &mut Progress) {
        let mut endpoint = self.endpoint.clone();
        tokio::select! {
            () = sleep(progress.pause.next()) => {}
            () = moved(&mut endpoint) => {
                self.endpoint = endpoint;
                progress.begin_again();
                self.log_move();
            }
        }
    }

    fn report(&self, answer: BrokerAnswer, backlog: Backlog) {
        if !self.queue.is_open() {
            return;
        }
        if let Some(event) = answer.into_event(self.incarnation) {
            self.sink.put(event);
        }
        if backlog == Backlog::TooLong {
            self.sink
                .put(ControllerEvent::ChannelBehind(self.incarnation));
        }
    }

    fn recovered(&self, progress: &mut Progress) {
        if let Some(trouble) = progress.trouble.take() {
            info!(
                "Broker {} answers again after {} ms",
                self.incarnation.broker,
                trouble.since.elapsed().as_millis(),
            );
        }
    }

    fn failed(
        &self,
        queued: &QueuedRequest,
        why: &ConnectionError,
        begun: Instant,
        progress: &mut Progress,
    ) {
        let trouble = progress.trouble.get_or_insert_with(|| Trouble {
            since: begun,
            outage: Outage::new(),
        });
        let lasted_ms = trouble.since.elapsed().as_millis() as u64;
        let broker = self.incarnation.broker;
        let name = queued.request.name();
        match trouble.outage.failed(lasted_ms) {
            Notice::Begins => info!(
                "{name} did not reach broker {broker}: {why}. It is sent again until the broker answers or is gone"
            ),
            Notice::Warns => warn!(
                "Broker {broker} is registered and has not taken {name} for {} s: {why}. Until it does it knows of no new leader; check that it runs and can be reached from here",
                lasted_ms / 1_000,
            ),
            Notice::Silent => debug!("{name} did not reach broker {broker}: {why}"),
        }
    }

    fn log_unsendable(&self, queued: &QueuedRequest, why: &CodecError) {
        error!(
            "{} of {} partitions for broker {} can't be written and is left out: {why}",
            queued.request.name(),
            queued.request.partition_count(),
            self.incarnation.broker,
        );
    }

    fn log_move(&self) {
        let broker = self.incarnation.broker;
        match &*self.endpoint.borrow() {
            Ok(endpoint) => info!("Broker {broker} moved to {endpoint}"),
            Err(error) => info!("Broker {broker} can't be dialled: {error}"),
        }
    }
}

/// Another endpoint was announced. Never, once the manager is gone: then the task is being aborted.
async fn moved(endpoint: &mut watch::Receiver<Dialled>) {
    if endpoint.changed().await.is_err() {
        std::future::pending().await
    }
}

/// The end of an idle connection; never, where there is none.
async fn idle_end(channel: Option<&Channel>) {
    match channel {
        Some(channel) => channel.connection.end().await,
        None => std::future::pending().await,
    }
}
