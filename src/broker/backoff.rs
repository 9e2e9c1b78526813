//! How long to wait before the next try, and how often to tell the operator that tries fail.
//!
//! Plain numbers: must never read a clock or sleep. Upstream: the fixed 100 ms pause of `RequestSendThread`, and
//! `ClusterConnectionStates` for the time that a connection may take.

use std::time::Duration;

/// A span that doubles with each use, from its first value to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubling {
    first_ms: u64,
    last_ms: u64,
    next_ms: u64,
}

impl Doubling {
    pub(super) fn new(first_ms: u64, last_ms: u64) -> Doubling {
        Doubling {
            first_ms,
            last_ms: last_ms.max(first_ms),
            next_ms: first_ms,
        }
    }

    /// The pause before a request is sent again: 100 ms doubling to 1 s, so that a broker that comes back waits a second
    /// at most, and one that is gone costs a connection attempt a second.
    pub(super) fn between_tries() -> Doubling {
        Doubling::new(100, 1_000)
    }

    /// The span for this use; the next one is twice as long.
    pub(super) fn next(&mut self) -> Duration {
        let now_ms = self.next_ms;
        self.next_ms = now_ms.saturating_mul(2).min(self.last_ms);
        Duration::from_millis(now_ms)
    }

    /// Begins again at the first value.
    pub(super) fn reset(&mut self) {
        self.next_ms = self.first_ms;
    }
}

/// How many more times an answer of −1 is answered by sending again: with the pauses of [`Doubling::between_tries`] that
/// is about 10 s. A broker's own epoch lags by milliseconds; a −1 that stays means something else, which the controller
/// has to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patience {
    tries_left: u32,
}

impl Patience {
    const TRIES: u32 = 13;

    pub(super) fn new() -> Patience {
        Patience {
            tries_left: Patience::TRIES,
        }
    }

    /// Whether to try once more.
    pub(super) fn once_more(&mut self) -> bool {
        let before = self.tries_left;
        self.tries_left = before.saturating_sub(1);
        before > 0
    }
}

/// What the log says of a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The first of an outage: worth a line, and nothing to act on yet. A broker that is stopped looks like this.
    Begins,
    /// The outage has lasted so long that somebody should look.
    Warns,
    /// Said already.
    Silent,
}

/// An outage as the log tells of it: one line when it begins, a warning when it has lasted 10 s, then at intervals that
/// double from 20 s to 10 min.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outage {
    begun: bool,
    warn_at_ms: u64,
    interval: Doubling,
}

impl Outage {
    const FIRST_WARNING_MS: u64 = 10_000;

    pub(super) fn new() -> Outage {
        Outage {
            begun: false,
            warn_at_ms: Outage::FIRST_WARNING_MS,
            interval: Doubling::new(2 * Outage::FIRST_WARNING_MS, 600_000),
        }
    }

    /// A try failed, `lasted_ms` after the outage began.
    pub(super) fn failed(&mut self, lasted_ms: u64) -> Notice {
        let first = !std::mem::replace(&mut self.begun, true);
        if lasted_ms >= self.warn_at_ms {
            let interval_ms = self.interval.next().as_millis() as u64;
            self.warn_at_ms = lasted_ms.saturating_add(interval_ms);
            Notice::Warns
        } else if first {
            Notice::Begins
        } else {
            Notice::Silent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(mut span: Doubling, uses: usize) -> Vec<u64> {
        (0..uses).map(|_| span.next().as_millis() as u64).collect()
    }

    #[test]
    fn tries_pause_100_ms_doubling_to_a_second() {
        let pauses = in_ms(Doubling::between_tries(), 7);
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_reset_pause_is_the_first_again() {
        let mut pause = Doubling::between_tries();
        pause.next();
        pause.next();
        pause.reset();
        assert_eq!(in_ms(pause, 2), [100, 200]);
    }

    #[test]
    fn a_connection_gets_10_s_growing_to_30() {
        assert_eq!(
            in_ms(Doubling::new(10_000, 30_000), 4),
            [10_000, 20_000, 30_000, 30_000]
        );
    }

    #[test]
    fn a_last_value_below_the_first_does_not_shrink_it() {
        assert_eq!(in_ms(Doubling::new(500, 100), 3), [500, 500, 500]);
    }

    #[test]
    fn patience_with_a_lagging_broker_epoch_ends_after_ten_seconds() {
        let (mut patience, mut pause) = (Patience::new(), Doubling::between_tries());
        let mut waited_ms = 0;
        while patience.once_more() {
            waited_ms += pause.next().as_millis();
        }
        assert!((10_000..12_000).contains(&waited_ms), "{waited_ms}");
        assert!(!patience.once_more());
    }

    #[test]
    fn an_outage_warns_once_it_matters_and_then_ever_more_rarely() {
        let mut outage = Outage::new();
        let told: Vec<(u64, Notice)> = (0..=200)
            .map(|second| (second, outage.failed(second * 1_000)))
            .filter(|(_, notice)| *notice != Notice::Silent)
            .collect();
        assert_eq!(
            told,
            [
                (0, Notice::Begins),
                (10, Notice::Warns),
                (30, Notice::Warns),
                (70, Notice::Warns),
                (150, Notice::Warns),
            ]
        );
    }

    #[test]
    fn an_outage_that_begins_with_a_long_silence_warns_at_once() {
        assert_eq!(Outage::new().failed(30_000), Notice::Warns);
    }
}
