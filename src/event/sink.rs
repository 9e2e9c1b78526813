//! Where the shell puts events: the other end is the loop's queue.
//!
//! Must never wait for an event to be handled, but for the one case that upstream waits in too: the session's expiry.

use std::future::Future;
use std::pin::Pin;

use super::ControllerEvent;

/// The queue as watches, replies and timers see it. Cheap to call from any thread.
pub trait EventSink: Send + Sync {
    /// Appends an event.
    fn put(&self, event: ControllerEvent);

    /// Takes every waiting event out, answers whoever waits on one of them, appends `event`; the future resolves once
    /// `event` was processed.
    fn clear_and_put(&self, event: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
