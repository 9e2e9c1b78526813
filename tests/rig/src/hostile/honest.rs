//! An honest client beside the hostile ones: it must be answered in time, on the connection that it has and on new ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Plan, resident_bytes};
use crate::wire::Connection;

/// Between two looks.
const PACE: Duration = Duration::from_millis(50);

/// How it was served.
#[derive(Debug, Default)]
pub(super) struct Honest {
    pub(super) answers: usize,
    pub(super) slowest: Duration,
    pub(super) resident_most: u64,
}

impl Honest {
    /// Asks until told that it is over, and once after that.
    pub(super) fn ask_until(plan: &Plan, is_over: &AtomicBool) -> Result<Honest> {
        let mut honest = Honest::default();
        let open = || Connection::open_within(&plan.address, plan.honest_waits);
        let mut kept = open()?;
        loop {
            let is_last = is_over.load(Ordering::Relaxed);
            honest
                .asks(plan, &mut kept)
                .context("an honest client was not served on the connection that it had")?;
            let mut fresh = open()
                .context("an honest client could not connect while hostile ones were at work")?;
            honest
                .asks(plan, &mut fresh)
                .context("an honest client was not served on a new connection")?;
            honest.resident_most = honest.resident_most.max(resident_bytes(plan.process));
            if is_last {
                return Ok(honest);
            }
            thread::sleep(PACE);
        }
    }

    fn asks(&mut self, plan: &Plan, connection: &mut Connection) -> Result<()> {
        let asked = Instant::now();
        (plan.honest)(connection)?;
        self.answers += 1;
        self.slowest = self.slowest.max(asked.elapsed());
        Ok(())
    }
}
