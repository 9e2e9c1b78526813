//! How fast an actor of a world gets on: at once, or with pauses in which the others act.
//!
//! A procedure that waits here gives way to all that happens meanwhile; that is the only way in which anything waits in a
//! world. Must never decide what happens: only when.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::chance::{Chance, Span};
use crate::clock::VirtualTime;
use crate::mishap::{Mishap, SLOW_ZOOKEEPER_MS};

/// The pace of one actor. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Pace(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    time: VirtualTime,
    /// `None`: at once.
    chance: Option<Chance>,
    span_ms: Cell<Span>,
    /// When the actor goes on, while it waits.
    due_ms: Cell<Option<u64>>,
}

impl Pace {
    /// Nothing ever waits: an actor does all that it has to do before anybody else acts.
    pub fn at_once(time: &VirtualTime) -> Pace {
        Pace::new(time, None, Span::NONE)
    }

    /// Each step takes some time of `span_ms`.
    pub fn drawn(time: &VirtualTime, chance: Chance, span_ms: Span) -> Pace {
        Pace::new(time, Some(chance), span_ms)
    }

    fn new(time: &VirtualTime, chance: Option<Chance>, span_ms: Span) -> Pace {
        Pace(Rc::new(Inner {
            time: time.clone(),
            chance,
            span_ms: Cell::new(span_ms),
            due_ms: Cell::new(None),
        }))
    }

    /// From now on each step takes some time of this.
    pub fn set_span(&self, span_ms: Span) {
        self.0.span_ms.set(span_ms);
    }

    /// Whether an actor of this pace may be made to wait.
    pub fn is_at_once(&self) -> bool {
        self.0.chance.is_none()
    }

    /// What happens by chance to this actor; `None` where nothing does.
    pub fn chance(&self) -> Option<&Chance> {
        self.0.chance.as_ref()
    }

    /// Lets the others act for as long as one step takes.
    pub async fn turn(&self) {
        let Some(chance) = &self.0.chance else {
            return;
        };
        let span_ms = self.0.span_ms.get();
        let for_ms = chance.within_or(span_ms, SLOW_ZOOKEEPER_MS, Mishap::ZooKeeperSlow);
        self.rest(for_ms).await;
    }

    /// Lets the others act for so long.
    pub async fn rest(&self, for_ms: u64) {
        let until_ms = self.0.time.now_ms() + for_ms;
        self.0.due_ms.set(Some(until_ms));
        Until(self, until_ms).await;
    }

    /// When the actor goes on; `None` unless it waits.
    pub fn due_ms(&self) -> Option<u64> {
        self.0.due_ms.get()
    }

    /// The actor is gone, or starts anew: it waits for nothing.
    pub fn forget(&self) {
        self.0.due_ms.set(None);
    }
}

struct Until<'a>(&'a Pace, u64);

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let inner = &self.0.0;
        if inner.due_ms.get().is_some() && inner.time.now_ms() < self.1 {
            return Poll::Pending;
        }
        inner.due_ms.set(None);
        Poll::Ready(())
    }
}
