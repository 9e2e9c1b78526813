//! Time and chance for the controller.
//!
//! Must never decide when something is due: it is told. Upstream: `KafkaScheduler`, `Time`, `Uuid.randomUuid`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;

use super::queue::EventQueue;
use crate::event::{ControllerEvent, EventSink};
use crate::model::TopicId;
use crate::port::Clock;

/// The queue's clock, timers on the given runtime, the system's randomness.
#[derive(Debug)]
pub struct SystemClock {
    queue: EventQueue,
    timers: Handle,
}

impl SystemClock {
    /// Timers run on `timers` and put their events into `queue`.
    pub fn new(queue: EventQueue, timers: Handle) -> SystemClock {
        SystemClock { queue, timers }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        self.queue.now_ms()
    }

    fn unix_time_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // A clock before 1970 expires nothing.
        since.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }

    fn schedule(&mut self, delay_ms: u64, event: ControllerEvent) {
        if delay_ms == 0 {
            self.queue.put(event);
            return;
        }
        let queue = self.queue.clone();
        self.timers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            queue.put(event);
        });
    }

    fn topic_id(&mut self) -> TopicId {
        loop {
            let mut bytes = [0; 16];
            // Without randomness no id is safe to hand out: two topics with one id would be one to their brokers.
            #[allow(clippy::expect_used)]
            getrandom::fill(&mut bytes)
                .expect("the operating system's random numbers are needed for topic ids");
            // The text form must not begin with '-', which tools take for an option (KAFKA-14835).
            let begins_with_dash = bytes[0] >> 2 == 62;
            if let (Some(id), false) = (TopicId::new(bytes), begins_with_dash) {
                return id;
            }
        }
    }

    fn random(&mut self) -> u32 {
        // Without randomness replicas begin where the clock says: no worse than any other place.
        getrandom::u32().unwrap_or_else(|_| (self.queue.now_ms() & u64::from(u32::MAX)) as u32)
    }
}
