//! Answers to requests that waited for the controller, written down by their slot.
//!
//! A slot that is answered twice stops the test: a genuine client would be told two things.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use klamm::effect::{Answer, ReplyTo};
use klamm::port::Replies;
use klamm::state::ControllerSnapshot;

#[derive(Debug, Default)]
struct Record {
    opened: u64,
    answers: BTreeMap<ReplyTo, Answer>,
    snapshot: ControllerSnapshot,
}

/// The `Replies` port. Clones are handles to the same record.
#[derive(Debug, Clone, Default)]
pub struct SimReplies(Rc<RefCell<Record>>);

impl SimReplies {
    /// A fresh slot.
    pub fn open(&self) -> ReplyTo {
        let mut record = self.0.borrow_mut();
        record.opened += 1;
        ReplyTo(record.opened)
    }

    /// What a slot was answered, if it was.
    pub fn answer_to(&self, slot: ReplyTo) -> Option<Answer> {
        self.0.borrow().answers.get(&slot).cloned()
    }

    /// The slots that still wait.
    pub fn unanswered(&self) -> Vec<ReplyTo> {
        let record = self.0.borrow();
        (1..=record.opened)
            .map(ReplyTo)
            .filter(|slot| !record.answers.contains_key(slot))
            .collect()
    }

    /// What the controller published last.
    pub fn snapshot(&self) -> ControllerSnapshot {
        self.0.borrow().snapshot.clone()
    }
}

impl Replies for SimReplies {
    fn answer(&mut self, to: ReplyTo, answer: Answer) {
        let mut record = self.0.borrow_mut();
        assert!(
            to.0 >= 1 && to.0 <= record.opened,
            "nobody asked under {to:?}: {answer:?}"
        );
        if let Some(first) = record.answers.insert(to, answer.clone()) {
            panic!("{to:?} was answered twice: {first:?}, then {answer:?}");
        }
    }

    fn publish(&mut self, snapshot: ControllerSnapshot) {
        self.0.borrow_mut().snapshot = snapshot;
    }
}
