//! Waiting by observing: a probe is asked again until it is content, or the time is up and the error says what it saw last.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Pace of the loops. A probe is a read or two on loopback.
const PACE: Duration = Duration::from_millis(20);

/// What a probe found.
#[derive(Debug)]
pub enum Seen<T> {
    /// What was waited for.
    Done(T),
    /// Not yet; the text says what is there instead.
    Not(String),
    /// It can no longer come; the text says why.
    Never(String),
}

/// Asks `probe` until it is done, and returns what it found with the time that passed. A probe's error counts as "not
/// yet": what is waited for is often what makes the probe work.
///
/// # Errors
/// After `timeout`, with `what` was waited for and what was seen last.
pub fn until<T>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<Seen<T>>,
) -> Result<(T, Duration)> {
    let started = Instant::now();
    loop {
        let seen = match probe() {
            Ok(Seen::Done(value)) => return Ok((value, started.elapsed())),
            Ok(Seen::Not(seen)) => seen,
            Ok(Seen::Never(reason)) => bail!("waited for {what}, but {reason}"),
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > timeout {
            bail!(
                "waited {:.1} s for {what}; seen last: {seen}",
                timeout.as_secs_f64()
            );
        }
        std::thread::sleep(PACE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_fails_says_what_was_seen_last() {
        let error = until::<()>("a miracle", Duration::from_millis(1), || {
            Ok(Seen::Not("nothing".to_owned()))
        });
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("a miracle") && text.contains("nothing"),
            "{text}"
        );
    }
}
