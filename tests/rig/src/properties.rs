//! Files of properties, as brokers and klamm read them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes the properties of `from` to `to`, with `lines` in the place of lines of the same key, and without those of
/// the keys `without`.
///
/// # Errors
/// When one cannot be read or the other written.
pub fn rewrite(from: &Path, to: &Path, lines: &[(&str, &str)], without: &[&str]) -> Result<()> {
    let text =
        fs::read_to_string(from).with_context(|| format!("cannot read {}", from.display()))?;
    let goes = |line: &str| {
        let key = line.split('=').next().unwrap_or(line);
        without.contains(&key) || lines.iter().any(|(new, _)| *new == key)
    };
    let mut kept: Vec<String> = text
        .lines()
        .filter(|line| !goes(line))
        .map(str::to_owned)
        .collect();
    // The last of several lines for one key is the one that was meant.
    for (index, (key, value)) in lines.iter().enumerate() {
        if !lines.iter().skip(index + 1).any(|(later, _)| later == key) {
            kept.push(format!("{key}={value}"));
        }
    }
    kept.push(String::new());
    fs::write(to, kept.join("\n")).with_context(|| format!("cannot write {}", to.display()))
}
