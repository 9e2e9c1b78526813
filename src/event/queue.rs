//! The event queue: one FIFO, no priorities; the only jump is `clear_and_put`.
//!
//! Pure: it neither waits nor reads a clock (the loop in `runtime` does both) and never handles an event.
//! Upstream: `ControllerEventManager.scala`.

use std::collections::{BTreeSet, VecDeque};

use super::ControllerEvent;
use crate::model::TopicName;

/// An event and when it was queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedEvent {
    /// What happened.
    pub event: ControllerEvent,
    /// When it was put, on the clock of whoever put it.
    pub enqueued_at_ms: u64,
}

/// The queue.
#[derive(Debug, Default)]
pub struct ControllerEventManager {
    queue: VecDeque<QueuedEvent>,
    /// The topics that a waiting event says to look at: there can be as many as a reassignment writes.
    topics: BTreeSet<TopicName>,
}

impl ControllerEventManager {
    /// An empty queue.
    pub fn new() -> ControllerEventManager {
        ControllerEventManager::default()
    }

    /// Appends `event`. An event that only says "look" isn't queued twice: the one that waits will see it all.
    pub fn put(&mut self, event: ControllerEvent, now_ms: u64) {
        if self.waits(&event) {
            return;
        }
        self.queue.push_back(QueuedEvent {
            event,
            enqueued_at_ms: now_ms,
        });
    }

    /// Whether an event that only says "look" waits already; notes it if it doesn't.
    fn waits(&mut self, event: &ControllerEvent) -> bool {
        if let ControllerEvent::PartitionModifications(topic) = event {
            return !self.topics.insert(topic.clone());
        }
        event.only_says_look() && self.queue.iter().any(|queued| queued.event == *event)
    }

    /// Takes everything out, appends `event`, and returns what was taken: whoever waits on one of those must hear of it.
    pub fn clear_and_put(&mut self, event: ControllerEvent, now_ms: u64) -> Vec<QueuedEvent> {
        let preempted = self.queue.drain(..).collect();
        self.topics.clear();
        self.queue.push_back(QueuedEvent {
            event,
            enqueued_at_ms: now_ms,
        });
        preempted
    }

    /// The oldest event.
    pub fn take(&mut self) -> Option<QueuedEvent> {
        let oldest = self.queue.pop_front();
        if let Some(ControllerEvent::PartitionModifications(topic)) =
            oldest.as_ref().map(|queued| &queued.event)
        {
            self.topics.remove(topic);
        }
        oldest
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Incarnation;
    use crate::event::ControllerState;
    use crate::model::{BrokerEpoch, BrokerId, KafkaError, TopicName};

    fn shutdown_of(broker: i32) -> ControllerEvent {
        ControllerEvent::ControlledShutdown {
            broker: BrokerId(broker),
            broker_epoch: None,
            reply_to: crate::effect::ReplyTo(7),
        }
    }

    fn drain(queue: &mut ControllerEventManager) -> Vec<(ControllerEvent, u64)> {
        let mut taken = Vec::new();
        while let Some(queued) = queue.take() {
            taken.push((queued.event, queued.enqueued_at_ms));
        }
        taken
    }

    #[test]
    fn events_are_taken_in_the_order_they_were_put_with_the_time_they_were_put() {
        let mut queue = ControllerEventManager::new();
        queue.put(ControllerEvent::TopicChange, 0);
        queue.put(shutdown_of(1), 500);
        queue.put(ControllerEvent::BrokerChange, 500);
        assert_eq!(queue.len(), 3);
        assert_eq!(
            drain(&mut queue),
            [
                (ControllerEvent::TopicChange, 0),
                (shutdown_of(1), 500),
                (ControllerEvent::BrokerChange, 500),
            ]
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn an_event_that_only_says_look_waits_once_for_each_thing_to_look_at() {
        let change_of = |topic| ControllerEvent::PartitionModifications(TopicName::new(topic));
        let mut queue = ControllerEventManager::new();
        for now_ms in [1, 2] {
            queue.put(change_of("a"), now_ms);
            queue.put(change_of("b"), now_ms);
            queue.put(ControllerEvent::BrokerChange, now_ms);
            queue.put(ControllerEvent::AnswerDue, now_ms);
        }
        let waiting = [
            (change_of("a"), 1),
            (change_of("b"), 1),
            (ControllerEvent::BrokerChange, 1),
            (ControllerEvent::AnswerDue, 1),
        ];
        assert_eq!(drain(&mut queue), waiting);
        queue.put(ControllerEvent::BrokerChange, 3);
        queue.put(change_of("a"), 3);
        assert_eq!(
            queue.len(),
            2,
            "what was taken doesn't see what comes later"
        );
        let cleared = queue.clear_and_put(ControllerEvent::Expire, 4);
        assert_eq!(cleared.len(), 2);
        queue.put(change_of("a"), 5);
        assert_eq!(queue.len(), 2, "nor does what was thrown away");
    }

    #[test]
    fn a_request_that_waits_for_its_answer_is_never_folded_into_another() {
        let mut queue = ControllerEventManager::new();
        queue.put(shutdown_of(1), 0);
        queue.put(shutdown_of(1), 0);
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn clearing_hands_back_what_waited_in_order_and_leaves_only_the_new_event() {
        let mut queue = ControllerEventManager::new();
        queue.put(shutdown_of(1), 0);
        queue.put(ControllerEvent::TopicChange, 1);
        let preempted = queue.clear_and_put(ControllerEvent::Expire, 2);
        let preempted: Vec<ControllerEvent> =
            preempted.into_iter().map(|queued| queued.event).collect();
        assert_eq!(preempted, [shutdown_of(1), ControllerEvent::TopicChange]);
        assert_eq!(drain(&mut queue), [(ControllerEvent::Expire, 2)]);
        assert_eq!(queue.clear_and_put(ControllerEvent::Expire, 3), []);
    }

    #[test]
    fn an_event_puts_the_controller_into_the_state_whose_timer_java_dashboards_know() {
        let answered = ControllerEvent::UpdateMetadataResponseReceived {
            from: Incarnation {
                broker: BrokerId(1),
                epoch: BrokerEpoch(1),
            },
            number: 1,
            error: KafkaError::NONE,
        };
        for (event, state, timer) in [
            (
                ControllerEvent::BrokerChange,
                ControllerState::BrokerChange,
                Some("LeaderElectionRateAndTimeMs"),
            ),
            (
                ControllerEvent::TopicChange,
                ControllerState::TopicChange,
                Some("TopicChangeRateAndTimeMs"),
            ),
            (
                answered,
                ControllerState::UpdateMetadataResponseReceived,
                None,
            ),
        ] {
            assert_eq!((event.state(), state.timer_name()), (state, timer));
        }
        assert_eq!(
            ControllerState::AutoLeaderBalance.timer_name(),
            Some("AutoLeaderBalanceRateAndTimeMs")
        );
    }
}
