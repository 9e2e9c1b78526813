//! Gauges, counters and timers that any thread may update.
//!
//! Upstream counterpart: Yammer's metrics. A [`Timer`]'s count lives as long as the process; its quantiles are of the
//! last five to ten minutes, as those of Yammer's decaying sample are in effect. None of them can panic or block long.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// The quantiles that dashboards read, with the text of their label.
pub const QUANTILES: [(f64, &str); 6] = [
    (0.5, "0.50"),
    (0.75, "0.75"),
    (0.95, "0.95"),
    (0.98, "0.98"),
    (0.99, "0.99"),
    (0.999, "0.999"),
];

/// Quantiles are of the running window and the one before it.
const WINDOW: Duration = Duration::from_secs(300);
/// Longer times are counted as this long.
const LONGEST: Duration = Duration::from_secs(3600);

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Sets it; a value beyond 2^63 - 1 counts as that.
    pub fn set(&self, value: impl TryInto<i64>) {
        self.0
            .store(value.try_into().unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// The last value set.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that only grows while the process lives.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Some more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// For what is counted elsewhere: grows to `total`, never falls.
    pub fn raise_to(&self, total: u64) {
        self.0.fetch_max(total, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often something happened and how long it took.
#[derive(Debug, Default)]
pub struct Timer {
    count: Counter,
    windows: Mutex<Windows>,
}

/// Times in microseconds, kept to two digits. A histogram comes into being with its first value.
#[derive(Debug, Default)]
struct Windows {
    started: Option<Instant>,
    current: Option<Histogram<u32>>,
    previous: Option<Histogram<u32>>,
}

impl Timer {
    /// Counts one that took `time`.
    pub fn record(&self, time: Duration) {
        self.record_at(Instant::now(), time);
    }

    /// The same at a given moment.
    pub fn record_at(&self, now: Instant, time: Duration) {
        self.count.increment();
        let micros = u64::try_from(time.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
        let mut windows = lock(&self.windows);
        windows.turn(now);
        if windows.current.is_none() {
            windows.current = Histogram::new(2).ok();
        }
        if let Some(histogram) = &mut windows.current {
            // Fails only where the machine has no room for an hour's worth of buckets: the count still stands.
            histogram.record(micros).ok();
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The times at [`QUANTILES`], in milliseconds; zeros where nothing happened lately.
    pub fn quantiles_ms_at(&self, now: Instant) -> [f64; QUANTILES.len()] {
        let mut windows = lock(&self.windows);
        windows.turn(now);
        let merged = match (&windows.current, &windows.previous) {
            (Some(current), Some(previous)) => {
                let mut merged = current.clone();
                merged.add(previous).ok();
                Some(merged)
            }
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        };
        drop(windows);
        QUANTILES.map(|(quantile, _)| {
            let micros = merged
                .as_ref()
                .map_or(0, |histogram| histogram.value_at_quantile(quantile));
            micros as f64 / 1000.0
        })
    }
}

impl Windows {
    fn turn(&mut self, now: Instant) {
        let started = *self.started.get_or_insert(now);
        let age = now.saturating_duration_since(started);
        if age >= WINDOW {
            self.previous = if age < WINDOW * 2 {
                self.current.take()
            } else {
                None
            };
            self.current = None;
            self.started = Some(now);
        }
    }
}

/// A lock whose holder panicked still holds whole values here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_two_digits() {
        let timer = Timer::default();
        let now = Instant::now();
        for millis in 1..=1000 {
            timer.record_at(now, Duration::from_millis(millis));
        }
        let quantiles = timer.quantiles_ms_at(now);
        for (found, wanted) in quantiles
            .into_iter()
            .zip([500.0, 750.0, 950.0, 980.0, 990.0, 999.0])
        {
            assert!((found - wanted).abs() <= wanted * 0.01, "{found} {wanted}");
        }
        assert_eq!(timer.count(), 1000);
    }

    #[test]
    fn old_times_leave_the_quantiles_but_not_the_count() {
        let timer = Timer::default();
        let start = Instant::now();
        timer.record_at(start, Duration::from_secs(9));
        let later = start + Duration::from_secs(301);
        assert!(timer.quantiles_ms_at(later)[0] > 8_900.0);
        timer.record_at(later, Duration::from_millis(1));
        assert!(timer.quantiles_ms_at(later)[5] > 8_900.0);
        let much_later = later + Duration::from_secs(301);
        assert!(timer.quantiles_ms_at(much_later)[5] < 1.1);
        let idle = much_later + Duration::from_secs(3600);
        assert_eq!(timer.quantiles_ms_at(idle), [0.0; 6]);
        assert_eq!(timer.count(), 2);
    }

    #[test]
    fn absurd_times_are_cut_to_an_hour() {
        let timer = Timer::default();
        timer.record(Duration::MAX);
        assert!(timer.quantiles_ms_at(Instant::now())[0] >= 3_600_000.0);
    }

    #[test]
    fn a_counter_raised_never_falls() {
        let counter = Counter::default();
        counter.raise_to(5);
        counter.raise_to(3);
        counter.add(2);
        assert_eq!(counter.get(), 7);
    }
}
