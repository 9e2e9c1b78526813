//! The one loop, on a thread of its own: take an event, process it, take the next.
//!
//! Must never do two things at once. Upstream: `ControllerEventThread` in `ControllerEventManager.scala`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::queue::{ClosedInTheEnd, EventQueue};
use crate::controller::{KafkaController, Stop};
use crate::event::ControllerEvent;
use crate::observe::{HealthSnapshot, Metrics};
use crate::port::{Brokers, Clock, Replies, Zk};
use crate::state::ControllerSnapshot;

/// Who is told what the loop does.
#[derive(Debug)]
pub struct Watched {
    /// Timers and gauges.
    pub metrics: Arc<Metrics>,
    /// The health pages.
    pub health: Arc<watch::Sender<HealthSnapshot>>,
    /// What the controller published last.
    pub snapshot: watch::Receiver<ControllerSnapshot>,
}

/// The running loop.
#[derive(Debug)]
pub struct EventThread {
    stopped: oneshot::Receiver<Stop>,
    was_active: Arc<AtomicBool>,
}

impl EventThread {
    /// Starts the thread; the controller is made on it and never leaves it.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start<Z: Zk, B: Brokers, R: Replies, C: Clock>(
        queue: EventQueue,
        watched: Watched,
        make: impl FnOnce() -> KafkaController<Z, B, R, C> + Send + 'static,
    ) -> io::Result<EventThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let was_active = Arc::new(AtomicBool::new(false));
        let active = Arc::clone(&was_active);
        std::thread::Builder::new()
            .name("controller-event-thread".to_owned())
            .spawn(move || {
                // Whoever asks from then on would wait for an answer that nobody gives.
                let _closed = ClosedInTheEnd(queue.clone());
                let why = runtime.block_on(process_events(make(), &queue, watched, &active));
                // Nobody listens any more if the process gave up waiting.
                let _ = stop.send(why);
            })?;
        Ok(EventThread {
            stopped,
            was_active,
        })
    }

    /// Why the loop ended; `None` if its thread failed.
    pub async fn ended(&mut self) -> Option<Stop> {
        (&mut self.stopped).await.ok()
    }

    /// Whether the controller had the role when it was last seen to have it or not, before it ended.
    pub fn was_active(&self) -> bool {
        self.was_active.load(Ordering::Relaxed)
    }
}

async fn process_events<Z: Zk, B: Brokers, R: Replies, C: Clock>(
    mut controller: KafkaController<Z, B, R, C>,
    queue: &EventQueue,
    mut watched: Watched,
    was_active: &AtomicBool,
) -> Stop {
    loop {
        let queued = queue.next().await;
        let waited_ms = queue.now_ms().saturating_sub(queued.enqueued_at_ms);
        watched.metrics.event_queue_size.set(queue.len());
        watched
            .metrics
            .event_begins(queued.event.state(), Duration::from_millis(waited_ms));
        let ends_all = matches!(
            queued.event,
            ControllerEvent::Expire | ControllerEvent::Shutdown
        );
        let stop = controller.process(queued.event).await;
        if ends_all {
            queue.processed_cleared();
        }
        watched.metrics.event_ends();
        watched.tell();
        if let Some(stop) = stop {
            return stop;
        }
        was_active.store(controller.context().term().is_some(), Ordering::Relaxed);
    }
}

impl Watched {
    fn tell(&mut self) {
        if !self.snapshot.has_changed().unwrap_or(false) {
            return;
        }
        let snapshot = self.snapshot.borrow_and_update().clone();
        self.metrics.publish(&snapshot);
        self.health
            .send_modify(|health| health.controller = snapshot);
    }
}
