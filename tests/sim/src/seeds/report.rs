//! What a run of many seeds came to, and a failing story as a person reads it.
//!
//! Must never leave out what is needed to play the story again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::act::Kind;
use super::play;
use super::shrink::Failing;
use super::trace::Trace;
use crate::mishap::Mishap;

/// So many of a story's first lines are told, and of its last.
const FIRST_LINES: usize = 60;
const LAST_LINES: usize = 60;

/// What many seeds came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// Seeds that were played.
    pub played: u64,
    /// Those that failed, and how.
    pub failed: BTreeMap<u64, String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Takes in what came of a seed.
    pub fn add(&mut self, seed: u64, failure: Option<String>, trace: &Trace) {
        self.played += 1;
        self.failed.extend(failure.map(|why| (seed, why)));
        for (what, times) in trace.counts() {
            *self.counts.entry(what).or_default() += times;
        }
    }

    /// Takes in what came of other seeds.
    pub fn merge(&mut self, other: Tally) {
        self.played += other.played;
        self.failed.extend(other.failed);
        for (what, times) in other.counts {
            *self.counts.entry(what).or_default() += times;
        }
    }

    /// Kinds of acts and of mishaps that never happened.
    pub fn never(&self) -> Vec<&'static str> {
        let never = |word: &&str| !self.counts.contains_key(word);
        acts().chain(mishaps()).filter(never).collect()
    }

    /// How often what happened: acts first, then mishaps, then what came of them.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let times = |what: &'static str| (self.counts.get(what).copied().unwrap_or(0), what);
        let is_drawn = |what: &&str| acts().chain(mishaps()).any(|drawn| drawn == *what);
        let came = self.counts.keys().copied().filter(|what| !is_drawn(what));
        for (times, what) in acts().chain(mishaps()).chain(came).map(times) {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{times:>12}  {what}");
        }
        text
    }
}

fn acts() -> impl Iterator<Item = &'static str> {
    Kind::ALL.iter().map(|kind| kind.word())
}

fn mishaps() -> impl Iterator<Item = &'static str> {
    Mishap::ALL.into_iter().map(Mishap::words)
}

/// A failing story: what it takes to play it again, and what happens in it up to the failure.
pub fn story(failing: &Failing) -> String {
    let outcome = play(&failing.scenario, Trace::kept());
    let lines = outcome.trace.lines();
    let mut text = String::new();
    // Writing to a string can't fail.
    for line in failing.failure.lines() {
        let _ = writeln!(text, "# {line}");
    }
    let _ = write!(text, "{}", failing.scenario);
    let first = &lines[..lines.len().min(FIRST_LINES)];
    let last = &lines[lines.len().saturating_sub(LAST_LINES).max(first.len())..];
    let left_out = lines.len() - first.len() - last.len();
    text.push_str("#\n");
    for line in first {
        let _ = writeln!(text, "# {line}");
    }
    if left_out > 0 {
        let _ = writeln!(text, "#         … {left_out} lines …");
    }
    for line in last {
        let _ = writeln!(text, "# {line}");
    }
    text
}
