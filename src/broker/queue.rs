//! What is unsent for one incarnation of a broker: first in, first out.
//!
//! Never re-ordered and never thinned, but for [`RequestQueue::replace`], which the loop asks for: a LeaderAndIsr ahead of
//! the UpdateMetadata that made its leader live is ignored by a follower, which answers 0 all the same.
//! Upstream: `ControllerBrokerStateInfo.messageQueue`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::wire::{BrokerRequest, Order, SharedUpdateMetadata};
use crate::effect::{AnnouncedLeadership, ByTopic, UpdateMetadataPartition};
use crate::model::{TopicId, TopicName};
use crate::observe::ChannelMetrics;

/// Above so many unsent requests the loop replaces them by what is true now.
pub(super) const BEHIND_ABOVE: usize = 64;

/// A request and when it was queued.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) request: BrokerRequest,
    pub(super) queued_at: Instant,
}

/// What a broker's answer says of the queue behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Nothing to tell, or told already.
    Bearable,
    /// More is unsent than is worth sending one by one.
    TooLong,
}

/// One incarnation's queue, shared by the loop's thread and the send task.
#[derive(Debug)]
pub(super) struct RequestQueue {
    state: Mutex<State>,
    arrived: Notify,
    metrics: Arc<ChannelMetrics>,
}

#[derive(Debug)]
struct State {
    unsent: VecDeque<QueuedRequest>,
    /// When the request that has no answer yet was queued.
    unanswered_since: Option<Instant>,
    open: bool,
    backlog_told: bool,
}

impl RequestQueue {
    /// Empty and open; tells `metrics` of itself.
    pub(super) fn new(metrics: Arc<ChannelMetrics>) -> RequestQueue {
        RequestQueue {
            state: Mutex::new(State {
                unsent: VecDeque::new(),
                unanswered_since: None,
                open: true,
                backlog_told: false,
            }),
            arrived: Notify::new(),
            metrics,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a request, at `queued_at`.
    pub(super) fn push(&self, request: BrokerRequest, queued_at: Instant) {
        let mut state = self.state();
        if !state.open {
            return;
        }
        state.unsent.push_back(QueuedRequest { request, queued_at });
        self.tell_metrics(&state);
        drop(state);
        self.arrived.notify_one();
    }

    /// Puts the second half of a request that had to be split before all others.
    pub(super) fn put_first(&self, request: BrokerRequest, queued_at: Instant) {
        let mut state = self.state();
        if state.open {
            state
                .unsent
                .push_front(QueuedRequest { request, queued_at });
            self.tell_metrics(&state);
        }
    }

    /// Takes the oldest. It counts as unanswered until [`RequestQueue::answered`].
    pub(super) fn take(&self, now: Instant) -> Option<QueuedRequest> {
        let mut state = self.state();
        let queued = state.unsent.pop_front()?;
        state.unanswered_since = Some(queued.queued_at);
        self.tell_metrics(&state);
        let waited = now.saturating_duration_since(queued.queued_at);
        self.metrics.request_rate_and_queue_time.record(waited);
        Some(queued)
    }

    /// Waits until there may be something to take.
    pub(super) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// The request taken last has its answer, or will never have one.
    pub(super) fn answered(&self) -> Backlog {
        let mut state = self.state();
        state.unanswered_since = None;
        self.tell_metrics(&state);
        let too_long = state.unsent.len() > BEHIND_ABOVE;
        let told = std::mem::replace(&mut state.backlog_told, too_long);
        if too_long && !told {
            Backlog::TooLong
        } else {
            Backlog::Bearable
        }
    }

    /// Drops what is unsent, for good.
    pub(super) fn close(&self) {
        let dropped = {
            let mut state = self.state();
            state.open = false;
            std::mem::take(&mut state.unsent)
        };
        drop(dropped);
    }

    /// Whether the incarnation is still there; nothing may be written after this turned false.
    pub(super) fn is_open(&self) -> bool {
        self.state().open
    }

    /// Replaces what is unsent by `fresh`: see [`replacement`]. Returns how many requests became how many. Nothing at all
    /// replaces nothing.
    pub(super) fn replace(&self, fresh: Vec<BrokerRequest>, now: Instant) -> (usize, usize) {
        let mut state = self.state();
        let before = state.unsent.len();
        if fresh.is_empty() || !state.open {
            return (before, before);
        }
        let old = std::mem::take(&mut state.unsent);
        state.unsent = replacement(old, fresh, now);
        state.backlog_told = false;
        self.tell_metrics(&state);
        let after = state.unsent.len();
        drop(state);
        self.arrived.notify_one();
        (before, after)
    }

    fn tell_metrics(&self, state: &State) {
        self.metrics.queue_size.set(state.unsent.len());
        let oldest = state
            .unanswered_since
            .or_else(|| state.unsent.front().map(|queued| queued.queued_at));
        self.metrics
            .set_oldest_request(oldest.map(Instant::into_std));
    }
}

/// The queue that says in few requests what `old` said in many, and what became true since. In order:
///
/// 1. the leader −2 entries of `old` in one UpdateMetadata: a broker forgets a deleted topic by nothing else;
/// 2. the StopReplicas of `old`: their answers are waited for;
/// 3. the UpdateMetadata of `fresh`, before
/// 4. its LeaderAndIsr, whose leaders must be known by then. A partition that `old` called new is new in it.
fn replacement(
    old: VecDeque<QueuedRequest>,
    fresh: Vec<BrokerRequest>,
    now: Instant,
) -> VecDeque<QueuedRequest> {
    let mut unborn = BTreeSet::new();
    let mut dying = Dying::default();
    let mut stops = Vec::new();
    for queued in old {
        match queued.request.order() {
            Order::LeaderAndIsr(topics) => {
                for topic in topics {
                    let new = topic.partitions.iter().filter(|it| it.is_new);
                    unborn.extend(new.map(|it| (topic.topic.clone(), it.partition)));
                }
            }
            Order::UpdateMetadata(update) => dying.gather(update.topics()),
            Order::StopReplica(_) => stops.push(queued),
        }
    }

    let mut queue = VecDeque::new();
    let queue_now = |request| QueuedRequest {
        request,
        queued_at: now,
    };
    let dying = fresh.first().and_then(|any| dying.into_request(any));
    queue.extend(dying.map(queue_now));
    queue.extend(stops);
    let (updates, others): (Vec<_>, Vec<_>) = fresh
        .into_iter()
        .partition(|request| matches!(request.order(), Order::UpdateMetadata(_)));
    queue.extend(updates.into_iter().map(queue_now));
    for mut request in others {
        if let Order::LeaderAndIsr(topics) = request.order_mut() {
            for topic in topics {
                for partition in &mut topic.partitions {
                    let key = (topic.topic.clone(), partition.partition);
                    partition.is_new |= unborn.contains(&key);
                }
            }
        }
        queue.push_back(queue_now(request));
    }
    queue
}

/// The partitions that unsent updates announce as being deleted.
#[derive(Default)]
struct Dying {
    topics: BTreeMap<TopicName, (Option<TopicId>, BTreeMap<i32, UpdateMetadataPartition>)>,
}

impl Dying {
    fn gather(&mut self, update: &[ByTopic<UpdateMetadataPartition>]) {
        for topic in update {
            for partition in &topic.partitions {
                if matches!(partition.leadership, AnnouncedLeadership::DuringDelete(_)) {
                    let entry = self.topics.entry(topic.topic.clone());
                    let (id, partitions) = entry.or_default();
                    *id = topic.topic_id;
                    partitions.insert(partition.partition, partition.clone());
                }
            }
        }
    }

    /// One update, with the live brokers of `fresh`: an update replaces a broker's whole list of them.
    fn into_request(self, fresh: &BrokerRequest) -> Option<BrokerRequest> {
        if self.topics.is_empty() {
            return None;
        }
        let topics = self.topics.into_iter();
        let topics = topics.map(|(topic, (topic_id, partitions))| ByTopic {
            topic,
            topic_id,
            partitions: partitions.into_values().collect(),
        });
        // Nobody waits for what was to be forgotten: the update behind it carries the number.
        let update = SharedUpdateMetadata::new(0, topics.collect());
        Some(fresh.with_order(Order::UpdateMetadata(Arc::new(update))))
    }
}

#[cfg(test)]
mod tests;
