//! The slots in which requests wait for the controller's answer, and what the rest of the node may know of it.
//!
//! Must never make an answer up. Upstream: the callbacks in `ControllerEvent`s.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::effect::{Answer, ReplyTo};
use crate::port::Replies;
use crate::state::ControllerSnapshot;

/// Open slots. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ReplySlots {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    waiting: BTreeMap<ReplyTo, oneshot::Sender<Answer>>,
}

impl ReplySlots {
    /// A new slot: put its name into an event, await the answer on the receiver. An error there means that the
    /// controller ended.
    pub fn open(&self) -> (ReplyTo, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let name = ReplyTo(open.next);
        open.next += 1;
        open.waiting.insert(name, sender);
        (name, receiver)
    }

    /// Answers and closes a slot. A requester that left costs nothing.
    pub fn answer(&self, to: ReplyTo, answer: Answer) {
        let waiting = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .waiting
            .remove(&to);
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .waiting
            .len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The controller's end of the slots.
#[derive(Debug)]
pub struct Published {
    slots: ReplySlots,
    snapshot: watch::Sender<ControllerSnapshot>,
}

impl Published {
    /// Answers go to `slots`; the receiver always has the latest snapshot.
    pub fn new(slots: ReplySlots) -> (Published, watch::Receiver<ControllerSnapshot>) {
        let (snapshot, latest) = watch::channel(ControllerSnapshot::default());
        (Published { slots, snapshot }, latest)
    }
}

impl Replies for Published {
    fn answer(&mut self, to: ReplyTo, answer: Answer) {
        self.slots.answer(to, answer);
    }

    fn publish(&mut self, snapshot: ControllerSnapshot) {
        self.snapshot.send_if_modified(|latest| {
            let changed = *latest != snapshot;
            *latest = snapshot;
            changed
        });
    }
}
