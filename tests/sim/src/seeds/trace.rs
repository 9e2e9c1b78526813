//! The trace of a run: a line a happening, the same for the same story, byte by byte. And how often what happened.
//!
//! Must never be asked what to do next.

use std::collections::BTreeMap;
use std::fmt::Arguments;

/// See the file's comment.
#[derive(Debug, Default)]
pub struct Trace {
    /// `None`: nobody wants to read it.
    lines: Option<Vec<String>>,
    counts: BTreeMap<&'static str, u64>,
}

impl Trace {
    /// One that is written down.
    pub fn kept() -> Trace {
        Trace {
            lines: Some(Vec::new()),
            counts: BTreeMap::new(),
        }
    }

    /// Notes a happening.
    pub fn line(&mut self, now_ms: u64, what: Arguments<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now_ms:>7} {what}"));
        }
    }

    /// Whether lines are written down: what costs much to tell is told only then.
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Counts a happening.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Counts several.
    pub fn count_by(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    /// The lines so far.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// How often what happened.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}
