//! What differs between two playings of the script, and the reviewed list of what may.
//!
//! The list is a text file of blocks, one difference on purpose each:
//!
//! ```text
//! where: broker 3 dies / znode /some/path
//! java: what is seen under the Java controller
//! klamm: what is seen under klamm
//! reason: why that is better for the user (KAFKA-1234)
//! ```
//!
//! `*` in the first three stands for any text; where `java` and `klamm` have equally many, each stands for the same text
//! in both. What is not there at all is `absent`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::Playing;
use super::snapshot::Snapshot;
use super::trace::StepTrace;

const ABSENT: &str = "absent";

/// One thing that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub step: String,
    pub about: String,
    pub java: String,
    pub klamm: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} / {}\n    java:  {}\n    klamm: {}",
            self.step, self.about, self.java, self.klamm
        )
    }
}

/// One block of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnPurpose {
    place: String,
    java: String,
    klamm: String,
    pub reason: String,
}

impl OnPurpose {
    /// Whether this block is about `difference`.
    pub fn covers(&self, difference: &Difference) -> bool {
        let place = format!("{} / {}", difference.step, difference.about);
        let java = stars(&self.java, &difference.java);
        let klamm = stars(&self.klamm, &difference.klamm);
        match (stars(&self.place, &place), java, klamm) {
            (Some(_), Some(java), Some(klamm)) => java.len() != klamm.len() || java == klamm,
            _ => false,
        }
    }

    /// Where it applies, as the list says.
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Everything that is not the same in both playings.
///
/// # Errors
/// When they are not of the same script.
pub fn between(java: &Playing, klamm: &Playing) -> Result<Vec<Difference>> {
    ensure!(
        java.steps.len() == klamm.steps.len(),
        "one playing has {} steps, the other {}",
        java.steps.len(),
        klamm.steps.len()
    );
    let mut found = Vec::new();
    for (left, right) in java.steps.iter().zip(&klamm.steps) {
        ensure!(
            left.trace.step == right.trace.step,
            "`{}` stands beside `{}`",
            left.trace.step,
            right.trace.step
        );
        let step = &left.trace.step;
        found.extend(differing(step, &left.seen, &right.seen));
        found.extend(differing(step, &told(&left.trace), &told(&right.trace)));
    }
    Ok(found)
}

fn differing(step: &str, java: &Snapshot, klamm: &Snapshot) -> Vec<Difference> {
    let about: BTreeSet<&String> = java.keys().chain(klamm.keys()).collect();
    let text = |seen: &Snapshot, about: &str| {
        seen.get(about)
            .cloned()
            .unwrap_or_else(|| ABSENT.to_owned())
    };
    about
        .into_iter()
        .map(|about| Difference {
            step: step.to_owned(),
            about: about.clone(),
            java: text(java, about),
            klamm: text(klamm, about),
        })
        .filter(|difference| difference.java != difference.klamm)
        .collect()
}

/// What was told in a step, as text.
pub fn told(trace: &StepTrace) -> Snapshot {
    let line = |told: &[super::trace::Told]| {
        let words: Vec<String> = told.iter().map(ToString::to_string).collect();
        words.join(" → ")
    };
    trace
        .told
        .iter()
        .map(|(subject, told)| (subject.to_string(), line(told)))
        .collect()
}

/// Reads the list.
///
/// # Errors
/// When it cannot be read or a block lacks a line.
pub fn read_list(path: &Path) -> Result<Vec<OnPurpose>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_list(&text).with_context(|| path.display().to_string())
}

fn parse_list(text: &str) -> Result<Vec<OnPurpose>> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .collect();
    lines
        .split(|line| line.is_empty())
        .filter(|block| !block.is_empty())
        .map(parse_block)
        .collect()
}

fn parse_block(block: &[&str]) -> Result<OnPurpose> {
    let value = |key: &str| {
        block
            .iter()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
            .map(|value| value.trim().to_owned())
            .with_context(|| format!("a block without `{key}: `:\n{}", block.join("\n")))
    };
    let read = OnPurpose {
        place: value("where")?,
        java: value("java")?,
        klamm: value("klamm")?,
        reason: value("reason")?,
    };
    if block.len() != 4 {
        bail!("a block of {} lines:\n{}", block.len(), block.join("\n"));
    }
    Ok(read)
}

/// What each `*` of `pattern` stands for in `text`, the shortest that fits; `None` where the pattern does not fit.
fn stars<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut parts = pattern.split('*');
    let mut rest = text.strip_prefix(parts.next().unwrap_or_default())?;
    let mut stars = Vec::new();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let at = if last {
            rest.ends_with(part).then(|| rest.len() - part.len())?
        } else {
            rest.find(part)?
        };
        let (star, behind) = rest.split_at(at);
        stars.push(star);
        rest = behind.strip_prefix(part)?;
    }
    rest.is_empty().then_some(stars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_does() {
        let fits = |pattern, text| stars(pattern, text).is_some();
        assert!(fits("znode /a", "znode /a"));
        assert!(!fits("znode /a", "znode /ab"));
        assert!(fits(
            "* / znode /klamm*",
            "broker 3 dies / znode /klamm/ids/900"
        ));
        assert!(!fits("* / znode /klamm*", "broker 3 dies / znode /x"));
        assert_eq!(stars("a*c*e", "abcde"), Some(vec!["b", "d"]));
        assert!(!fits("a*c*e", "abcd"));
        assert!(!fits("stop*", ""));
    }

    #[test]
    fn what_the_stars_stand_for_must_be_the_same_on_both_sides() {
        let list =
            parse_list("where: *\njava: {*}\nklamm: {*, 900}\nreason: it is a node\n").unwrap();
        let difference = |java: &str, klamm: &str| Difference {
            step: "s".into(),
            about: "x".into(),
            java: java.into(),
            klamm: klamm.into(),
        };
        assert!(list[0].covers(&difference("{1, 2}", "{1, 2, 900}")));
        assert!(!list[0].covers(&difference("{1, 2}", "{1, 900}")));
    }

    #[test]
    fn the_list_is_read_and_a_block_without_a_reason_is_not() {
        let good = "# comment\n\nwhere: * / x\njava: absent\nklamm: *\nreason: because\n\n";
        let list = parse_list(good).unwrap();
        assert_eq!(list.len(), 1);
        let difference = Difference {
            step: "s".into(),
            about: "x".into(),
            java: "absent".into(),
            klamm: "y".into(),
        };
        assert!(list[0].covers(&difference));
        let other = Difference {
            java: "z".into(),
            ..difference
        };
        assert!(!list[0].covers(&other));
        let bad = parse_list("where: *\njava: a\nklamm: b\n").unwrap_err();
        assert!(format!("{bad:#}").contains("reason"), "{bad:#}");
    }
}
