//! The event queue as threads share it: watches, replies and timers put, the one loop takes.
//!
//! Must never process an event. Upstream: the locking half of `ControllerEventManager.scala`.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

use super::replies::ReplySlots;
use crate::controller::preempted_answer;
use crate::event::{ControllerEvent, ControllerEventManager, EventSink, QueuedEvent};

/// A handle on the queue. Clones share it.
#[derive(Debug, Clone)]
pub struct EventQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    events: Mutex<Events>,
    filled: Notify,
    replies: ReplySlots,
}

#[derive(Debug, Default)]
struct Events {
    manager: ControllerEventManager,
    /// Who waits for the event put by `clear_and_put` to be processed.
    waiting_for_processing: Vec<oneshot::Sender<()>>,
    /// Nobody takes events any more.
    is_closed: bool,
}

/// Closes a queue when it goes: however the loop ends.
#[derive(Debug)]
pub(super) struct ClosedInTheEnd(pub(super) EventQueue);

impl Drop for ClosedInTheEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl EventQueue {
    /// An empty queue; requests that are preempted are answered through `replies`.
    pub fn new(replies: ReplySlots) -> EventQueue {
        let shared = Shared {
            began: Instant::now(),
            events: Mutex::default(),
            filled: Notify::new(),
            replies,
        };
        EventQueue {
            shared: Arc::new(shared),
        }
    }

    /// Milliseconds since the queue was made: the clock of `enqueued_at_ms`, and of the controller.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.shared.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The next event, waiting for one.
    pub async fn next(&self) -> QueuedEvent {
        loop {
            if let Some(queued) = self.lock().manager.take() {
                return queued;
            }
            self.shared.filled.notified().await;
        }
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.lock().manager.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The loop has processed the event that `clear_and_put` put last.
    pub fn processed_cleared(&self) {
        for waiting in self.lock().waiting_for_processing.drain(..) {
            // Whoever no longer waits needs no answer.
            let _ = waiting.send(());
        }
    }

    /// The loop has ended: whoever waits is sent to look for the next controller, and so is, at once, whoever comes later.
    pub fn close(&self) {
        let mut events = self.lock();
        events.is_closed = true;
        events.waiting_for_processing.clear();
        let mut left = Vec::new();
        while let Some(queued) = events.manager.take() {
            left.push(queued.event);
        }
        drop(events);
        for event in left {
            self.preempt(&event);
        }
    }

    fn preempt(&self, event: &ControllerEvent) {
        if let Some((reply_to, answer)) = preempted_answer(event) {
            self.shared.replies.answer(reply_to, answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.shared
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for EventQueue {
    fn put(&self, event: ControllerEvent) {
        let now_ms = self.now_ms();
        let mut events = self.lock();
        if events.is_closed {
            drop(events);
            self.preempt(&event);
            return;
        }
        events.manager.put(event, now_ms);
        drop(events);
        self.shared.filled.notify_one();
    }

    fn clear_and_put(&self, event: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let now_ms = self.now_ms();
        let (done, processed) = oneshot::channel();
        let preempted = {
            let mut events = self.lock();
            if events.is_closed {
                return Box::pin(std::future::ready(()));
            }
            events.waiting_for_processing.push(done);
            events.manager.clear_and_put(event, now_ms)
        };
        self.shared.filled.notify_one();
        for queued in preempted {
            self.preempt(&queued.event);
        }
        // An error means that the loop is gone: there is nothing left to wait for.
        Box::pin(async move { processed.await.unwrap_or(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{Answer, Incarnation};
    use crate::model::{BrokerEpoch, BrokerId, KafkaError};

    #[tokio::test]
    async fn clearing_answers_whoever_waits_and_waits_for_the_expiry_to_be_processed() {
        let replies = ReplySlots::default();
        let queue = EventQueue::new(replies.clone());
        let (reply_to, answer) = replies.open();
        let from = Incarnation {
            broker: BrokerId(1),
            epoch: BrokerEpoch(1),
        };
        queue.put(ControllerEvent::TopicChange);
        queue.put(ControllerEvent::AllocateProducerIds { from, reply_to });
        let processed = queue.clear_and_put(ControllerEvent::Expire);
        assert_eq!(
            answer.await,
            Ok(Answer::AllocateProducerIds(Err(KafkaError::NOT_CONTROLLER)))
        );
        assert_eq!(queue.next().await.event, ControllerEvent::Expire);
        assert!(queue.is_empty());
        queue.processed_cleared();
        processed.await;
    }

    #[tokio::test]
    async fn who_waits_when_the_loop_ends_or_comes_later_looks_for_the_next_controller() {
        let replies = ReplySlots::default();
        let queue = EventQueue::new(replies.clone());
        let ask = |answers: &ReplySlots| {
            let (reply_to, answer) = answers.open();
            queue.put(ControllerEvent::ListPartitionReassignments {
                partitions: None,
                reply_to,
            });
            answer
        };
        let refused = Ok(Answer::ListPartitionReassignments(Err(
            KafkaError::NOT_CONTROLLER,
        )));
        let waiting = ask(&replies);
        let told_to_stop = queue.clear_and_put(ControllerEvent::Shutdown);
        assert_eq!(waiting.await, refused);
        assert_eq!(queue.next().await.event, ControllerEvent::Shutdown);
        let while_the_role_is_given_back = ask(&replies);
        let (reply_to, leaving) = replies.open();
        queue.put(ControllerEvent::ControlledShutdown {
            broker: BrokerId(1),
            broker_epoch: None,
            reply_to,
        });
        drop(ClosedInTheEnd(queue.clone()));
        assert_eq!(while_the_role_is_given_back.await, refused);
        let stale = Err(KafkaError::STALE_CONTROLLER_EPOCH);
        assert_eq!(leaving.await, Ok(Answer::ControlledShutdown(stale)));
        told_to_stop.await;
        assert_eq!(ask(&replies).await, refused);
        queue.put(ControllerEvent::TopicChange);
        queue.clear_and_put(ControllerEvent::Expire).await;
        assert!(queue.is_empty() && replies.is_empty());
    }

    #[tokio::test]
    async fn the_loop_wakes_for_an_event_put_by_another_task() {
        let queue = EventQueue::new(ReplySlots::default());
        let other = queue.clone();
        let next = tokio::spawn(async move { other.next().await.event });
        tokio::task::yield_now().await;
        queue.put(ControllerEvent::BrokerChange);
        assert_eq!(next.await.ok(), Some(ControllerEvent::BrokerChange));
    }
}
