//! A hostile client of one node: everything at once, from one seed.
//!
//! A crowd is held open for the whole of it: connections that say nothing, that stop in the midst of a request, that
//! announce 100 MiB and send a few bytes, that ask for big answers and never read them. Meanwhile a flood of damaged
//! requests comes, each of which must be answered under its own correlation id or cost its sender the connection, and
//! lengths that no request has. An honest client asks all the while, on a connection that it keeps and on new ones.
//! It knows nothing of klamm but what can be seen from outside.

mod crowd;
mod flood;
pub mod frames;
mod honest;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use crate::wire::Connection;
use crowd::Crowd;
use frames::{Behind, Frames};
use honest::Honest;

/// How long a hostile client waits for an answer or the end of its connection.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Floods run side by side.
const FLOODS: usize = 4;

/// What is done to a node.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `ip:port` of its listener.
    pub address: String,
    pub seed: u64,
    /// Damaged requests, in all.
    pub frames: usize,
    /// Connections that never say anything.
    pub idle: usize,
    /// Connections of each of the other kinds that are held open.
    pub held: usize,
    pub behind: Behind,
    /// What the honest client asks; it fails where the answer is late.
    pub honest: fn(&mut Connection) -> Result<()>,
    /// How long it waits for an answer.
    pub honest_waits: Duration,
    /// The node's process, whose memory is looked at.
    pub process: Option<u32>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Figures {
    pub took: Duration,
    pub frames: usize,
    /// Damaged requests that were answered.
    pub answered: usize,
    /// Those that cost their connection.
    pub closed: usize,
    /// Those that were never sent whole.
    pub cut: usize,
    /// Lengths that no request has.
    pub lengths: usize,
    pub idle: usize,
    pub held: usize,
    /// Bytes of requests whose answers nobody read.
    pub unread_bytes: usize,
    pub honest_answers: usize,
    pub honest_slowest: Duration,
    /// Resident memory of the process in bytes: before, at its most, and at the end. 0 where it was not looked at.
    pub resident_bytes: [u64; 3],
}

impl Figures {
    /// By how many bytes the process grew at most.
    pub fn growth_bytes(&self) -> u64 {
        let [before, most, _] = self.resident_bytes;
        most.saturating_sub(before)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} damaged requests in {:.1} s: {} answered, {} closed, {} cut short; {} lengths that no request has; held open: {} \
             idle, {} of each other kind, {} KiB of requests whose answers nobody read; an honest client got {} answers, the \
             slowest after {} ms",
            self.frames,
            self.took.as_secs_f64(),
            self.answered,
            self.closed,
            self.cut,
            self.lengths,
            self.idle,
            self.held,
            self.unread_bytes / 1024,
            self.honest_answers,
            self.honest_slowest.as_millis(),
        )?;
        let [before, most, after] = self.resident_bytes.map(|bytes| bytes / 1024 / 1024);
        match most {
            0 => Ok(()),
            _ => write!(
                f,
                "; resident {before} MiB before, {most} at most, {after} at the end"
            ),
        }
    }
}

/// Does it all, and takes apart what it held.
///
/// # Errors
/// The first thing that a node must not do: not close on a length that no request has, neither answer nor close, answer
/// under another correlation id, refuse or forget an honest client.
pub fn attack(plan: &Plan) -> Result<Figures> {
    ensure!(plan.frames > 0, "there is nothing to send");
    let frames = Frames::new(plan.behind)?;
    let started = Instant::now();
    let resident_before = resident_bytes(plan.process);
    let is_over = AtomicBool::new(false);
    let mut figures = thread::scope(|scope| -> Result<Figures> {
        let honest = scope.spawn(|| Honest::ask_until(plan, &is_over));
        let done = besiege(plan, &frames);
        is_over.store(true, Ordering::Relaxed);
        let honest = honest
            .join()
            .map_err(|_| anyhow!("the honest client panicked"))?;
        // Who was not served is told before what else went wrong.
        let honest = honest?;
        let mut figures = done?;
        figures.honest_answers = honest.answers;
        figures.honest_slowest = honest.slowest;
        figures.resident_bytes = [
            resident_before,
            honest.resident_most,
            resident_bytes(plan.process),
        ];
        Ok(figures)
    })?;
    figures.took = started.elapsed();
    figures.frames = plan.frames;
    Ok(figures)
}

fn besiege(plan: &Plan, frames: &Frames) -> Result<Figures> {
    let mut crowd = Crowd::gather(plan)?;
    let mut figures = Figures {
        idle: plan.idle,
        held: plan.held,
        unread_bytes: crowd.unread_bytes(),
        lengths: flood::refused_lengths(plan)?,
        ..Figures::default()
    };
    let floods = thread::scope(|scope| {
        let floods: Vec<_> = (0..FLOODS)
            .map(|number| scope.spawn(move || flood::run(plan, frames, number, FLOODS)))
            .collect();
        let joined = floods.into_iter().map(|flood| flood.join());
        joined
            .map(|flood| flood.map_err(|_| anyhow!("a flood panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    for flood in floods {
        figures.answered += flood.answered;
        figures.closed += flood.closed;
        figures.cut += flood.cut;
    }
    crowd.is_still_served()?;
    Ok(figures)
}

/// What a process holds of memory, in bytes; 0 where that can't be told.
fn resident_bytes(process: Option<u32>) -> u64 {
    let status = process.and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
    let line = status.as_deref().and_then(|status| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix("VmRSS:"))
    });
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_none_has_none() {
        assert!(resident_bytes(Some(std::process::id())) > 1024 * 1024);
        assert_eq!(resident_bytes(None), 0);
    }
}
