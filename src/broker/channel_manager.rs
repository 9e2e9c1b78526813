//! One channel for each live broker: the port through which the controller's decisions leave.
//!
//! Must never wait: requests are queued, and everything else is done by tasks. Upstream: `ControllerChannelManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::queue::RequestQueue;
use super::send_loop::{Dialled, RequestSendThread};
use super::survey::Survey;
use super::wire::{self, BrokerRequest};
use super::{BrokerRanges, ChannelConfig};
use crate::effect::{ByTopic, ControlRequests, Incarnation, ReplicaDisposal};
use crate::event::{ControllerEvent, EventSink};
use crate::model::{BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration};
use crate::observe::{ChannelMetrics, Metrics, STATE_CHANGE};
use crate::port::Brokers;

const TARGET: &str = "kafka.controller.ControllerChannelManager";

/// The channels. Dropping it closes them.
pub struct ControllerChannelManager {
    config: Arc<ChannelConfig>,
    client_id: Arc<str>,
    runtime: Handle,
    sink: Arc<dyn EventSink>,
    channels: BTreeMap<BrokerId, BrokerChannel>,
    /// The incarnations that were surveyed: a second survey could only say less.
    surveyed: BTreeMap<BrokerId, BrokerEpoch>,
    metrics: Arc<Metrics>,
    ranges: BrokerRanges,
}

/// Upstream: `ControllerBrokerStateInfo`.
struct BrokerChannel {
    incarnation: Incarnation,
    queue: Arc<RequestQueue>,
    metrics: Arc<ChannelMetrics>,
    endpoint: watch::Sender<Dialled>,
    task: AbortHandle,
    survey: Option<AbortHandle>,
}

impl BrokerChannel {
    fn close(self) {
        self.queue.close();
        self.task.abort();
        if let Some(survey) = self.survey {
            survey.abort();
        }
    }
}

impl std::fmt::Debug for ControllerChannelManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerChannelManager")
            .field("config", &self.config)
            .field("brokers", &self.channels.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl ControllerChannelManager {
    /// No channels yet. Their tasks run on `runtime`, which needs I/O and time; answers go to `sink`. Each open channel has
    /// its gauges in `metrics`.
    pub fn new(
        config: ChannelConfig,
        runtime: Handle,
        sink: Arc<dyn EventSink>,
        metrics: Arc<Metrics>,
    ) -> ControllerChannelManager {
        ControllerChannelManager {
            client_id: Arc::from(config.controller_id.to_string()),
            config: Arc::new(config),
            runtime,
            sink,
            channels: BTreeMap::new(),
            surveyed: BTreeMap::new(),
            metrics,
            ranges: BrokerRanges::default(),
        }
    }

    /// What the brokers understand, for the node's own listener.
    pub fn ranges(&self) -> BrokerRanges {
        self.ranges.clone()
    }

    fn close_channel(&mut self, broker: BrokerId) {
        if let Some(channel) = self.channels.remove(&broker) {
            self.metrics.close_channel(broker, &channel.metrics);
            channel.close();
        }
    }

    fn survey_one(&mut self, registration: &BrokerRegistration) -> AbortHandle {
        self.surveyed
            .insert(registration.broker.id, registration.epoch);
        let survey = Survey {
            incarnation: incarnation(registration),
            endpoint: self.config.endpoint_of(&registration.broker),
            client_id: Arc::clone(&self.client_id),
            questions: self.config.survey,
            within: Duration::from_millis(self.config.survey_timeout_ms),
            ranges: self.ranges.clone(),
            capture: self.config.capture.clone(),
        };
        let sink = Arc::clone(&self.sink);
        let asking = async move {
            sink.put(ControllerEvent::BrokerSurveyed(survey.run().await));
        };
        self.runtime.spawn(asking).abort_handle()
    }

    fn requests_by_broker(&self, requests: ControlRequests) -> Vec<(BrokerId, BrokerRequest)> {
        let ChannelConfig {
            controller_id,
            inter_broker_listener,
            ..
        } = &*self.config;
        wire::requests_by_broker(requests, *controller_id, inter_broker_listener)
    }
}

impl Brokers for ControllerChannelManager {
    fn add_broker(&mut self, registration: &BrokerRegistration) {
        let incarnation = incarnation(registration);
        let broker = incarnation.broker;
        self.close_channel(broker);
        let dialled = self.config.endpoint_of(&registration.broker);
        match &dialled {
            Ok(at) => debug!(target: TARGET, "Opening a channel to broker {broker} at {at}"),
            Err(why) => warn!(target: TARGET, "Broker {broker} can't be given orders: {why}"),
        }
        let (endpoint, dialled) = watch::channel(dialled);
        let metrics = self.metrics.open_channel(broker);
        let queue = Arc::new(RequestQueue::new(Arc::clone(&metrics)));
        let thread = RequestSendThread {
            incarnation,
            queue: Arc::clone(&queue),
            metrics: Arc::clone(&metrics),
            endpoint: dialled,
            config: Arc::clone(&self.config),
            client_id: Arc::clone(&self.client_id),
            sink: Arc::clone(&self.sink),
            ranges: self.ranges.clone(),
        };
        let task = self.runtime.spawn(thread.run()).abort_handle();
        let survey = match self.surveyed.get(&broker) {
            Some(epoch) if *epoch == registration.epoch => None,
            _ => Some(self.survey_one(registration)),
        };
        let channel = BrokerChannel {
            incarnation,
            queue,
            metrics,
            endpoint,
            task,
            survey,
        };
        self.channels.insert(broker, channel);
    }

    fn remove_broker(&mut self, id: BrokerId) {
        self.close_channel(id);
        self.ranges.forget(id);
        self.surveyed.remove(&id);
    }

    fn move_broker(&mut self, registration: &BrokerRegistration) {
        let to = self.config.endpoint_of(&registration.broker);
        if let Some(channel) = self.channels.get(&registration.broker.id) {
            channel.endpoint.send_if_modified(|at| {
                let moved = *at != to;
                *at = to;
                moved
            });
        }
    }

    fn send(&mut self, requests: ControlRequests) {
        log_batch(&requests);
        let controller_epoch = requests.controller_epoch;
        let now = Instant::now();
        for (broker, request) in self.requests_by_broker(requests) {
            match self.channels.get(&broker) {
                Some(channel) => channel.queue.push(request, now),
                None => warn!(
                    target: TARGET,
                    "{} of {} partitions in controller epoch {controller_epoch} is not sent to broker {broker}, which is not there",
                    request.name(),
                    request.partition_count(),
                ),
            }
        }
    }

    fn replace_queue(&mut self, of: Incarnation, requests: ControlRequests) {
        let Some(channel) = self.channels.get(&of.broker) else {
            return;
        };
        if channel.incarnation != of {
            return;
        }
        let fresh = self.requests_by_broker(requests).into_iter();
        let fresh = fresh.filter(|(broker, _)| *broker == of.broker);
        let fresh = fresh.map(|(_, request)| request).collect();
        let (before, after) = channel.queue.replace(fresh, Instant::now());
        info!(
            target: TARGET,
            "Broker {} was behind: {before} unsent requests became {after}", of.broker
        );
    }

    fn survey(&mut self, registrations: &[BrokerRegistration]) {
        let asked = registrations
            .iter()
            .map(|registration| registration.broker.id);
        let known: BTreeSet<BrokerId> = asked.chain(self.channels.keys().copied()).collect();
        self.ranges.keep_only(&known);
        self.surveyed.retain(|broker, _| known.contains(broker));
        for registration in registrations {
            self.survey_one(registration);
        }
    }

    fn shut_down(&mut self) {
        for (broker, channel) in std::mem::take(&mut self.channels) {
            self.metrics.close_channel(broker, &channel.metrics);
            channel.close();
        }
    }
}

impl Drop for ControllerChannelManager {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn incarnation(registration: &BrokerRegistration) -> Incarnation {
    Incarnation {
        broker: registration.broker.id,
        epoch: registration.epoch,
    }
}

/// What is about to be sent, a line a request; an UpdateMetadata for many brokers is one.
fn log_batch(requests: &ControlRequests) {
    fn count<T>(topics: &[ByTopic<T>], which: impl Fn(&T) -> bool) -> usize {
        let all = topics.iter().flat_map(|topic| &topic.partitions);
        all.filter(|partition| which(partition)).count()
    }
    let controller_epoch = requests.controller_epoch.0;
    for (broker, topics) in &requests.leader_and_isr {
        let led = count(topics, |it| it.state.leader == *broker);
        let all = count(topics, |_| true);
        info!(
            target: STATE_CHANGE,
            controller_epoch,
            "LeaderAndIsr for broker {broker}: {led} partitions to lead, {} to follow", all - led
        );
    }
    if let Some(update) = &requests.update_metadata {
        let brokers: BrokerIds = update.to.iter().copied().collect();
        info!(
            target: STATE_CHANGE,
            controller_epoch,
            "UpdateMetadata for brokers {brokers}: {} partitions, {} live brokers",
            count(&update.topics, |_| true),
            requests.live_brokers.len(),
        );
    }
    for (broker, topics) in &requests.stop_replica {
        let deleted = count(topics, |it| it.disposal == ReplicaDisposal::Delete);
        let all = count(topics, |_| true);
        info!(
            target: STATE_CHANGE,
            controller_epoch,
            "StopReplica for broker {broker}: {deleted} replicas to delete, {} to keep", all - deleted
        );
    }
}
