//! The event queue: one FIFO, no priorities; the only jump is `clear_and_put`.
//!
//! Pure: it neither waits nor reads a clock (the loop in `runtime` does both) and never handles an event.
//! Upstream: `ControllerEventManager.scala`.

use std::collections::VecDeque;

use super::ControllerEvent;

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
}

impl ControllerEventManager {
    /// An empty queue.
    pub fn new() -> ControllerEventManager {
        ControllerEventManager::default()
    }

    /// Appends `event`. An event that only says "look" isn't queued twice: the one that waits will see it all.
    pub fn put(&mut self, event: ControllerEvent, now_ms: u64) {
        if event.only_says_look() && self.queue.iter().any(|queued| queued.event == event) {
            return;
        }
        self.queue.push_back(QueuedEvent {
            event,
            enqueued_at_ms: now_ms,
        });
    }

    /// Takes everything out, appends `event`, and returns what was taken: whoever waits on one of those must hear of it.
    pub fn clear_and_put(&mut self, event: ControllerEvent, now_ms: u64) -> Vec<QueuedEvent> {
        let preempted = self.queue.drain(..).collect();
        self.queue.push_back(QueuedEvent {
            event,
            enqueued_at_ms: now_ms,
        });
        preempted
    }

    /// The oldest event.
    pub fn take(&mut self) -> Option<QueuedEvent> {
        self.queue.pop_front()
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
