//! What processes may log in a story.
//!
//! klamm: no WARN and no ERROR but those that the story lists. A genuine broker: no ERROR, FATAL or stack trace but of
//! kinds that the same story gives under its Java controller; these were seen there (`cargo rig baseline` tells the
//! stories so and prints what the brokers logged) and stand in [`UNDER_JAVA`], each with the reason why it is harmless.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A kind of log line that is expected: every fragment stands in it, or in the stack trace below it.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    pub fragments: &'static [&'static str],
    /// Why it is no fault.
    pub reason: &'static str,
}

const fn listed(fragments: &'static [&'static str], reason: &'static str) -> Listed {
    Listed { fragments, reason }
}

/// What genuine brokers log under their Java controller in the same stories.
pub const UNDER_JAVA: &[Listed] = &[
    listed(
        &[
            "Error while creating ephemeral at /controller",
            "node already exists",
        ],
        "1.1 to 2.0: a broker that lost the race for a vacant /controller says so as ERROR, whoever won",
    ),
    listed(
        &["UPDATE_METADATA", "from an old controller"],
        "what a Java controller had still to send when it lost the role is refused, as it must be",
    ),
    listed(
        &["ReplicaFetcher", "Error for partition", "at offset"],
        "up to 2.8 a fetcher that asks a moment before or after a change of leader logs the refusal as ERROR",
    ),
    listed(
        &[
            "Error sending fetch request",
            "FetchSessionHandler",
            "java.io.IOException",
        ],
        "a follower's leader was killed or stopped: its fetcher prints the broken connection",
    ),
    listed(
        &[
            "Error in response for fetch request",
            "ReplicaFetcherThread",
            "java.io.IOException",
        ],
        "the same, told by the fetcher itself",
    ),
    listed(
        &[
            "Error when sending leader epoch request",
            "ReplicaFetcher",
            "java.io.IOException",
        ],
        "the same, where the fetcher was just asking how far to truncate its log",
    ),
    listed(
        &[
            "Error processing append operation",
            "NotEnoughReplicasException",
        ],
        "acks=all while fewer replicas are in sync than min.insync.replicas: refused, and sent again",
    ),
    listed(
        &[
            "Error processing append operation",
            "OutOfOrderSequenceException",
        ],
        "an idempotent producer's next batches, under way when the one before was refused: sent again in order",
    ),
    listed(
        &[
            "RequestSendThread",
            "connection to broker",
            "was unsuccessful",
            "java.io.IOException",
        ],
        "a Java controller cannot reach a broker that was killed",
    ),
    listed(
        &["RequestSendThread", "fails to send", "java.io.IOException"],
        "a Java controller's request was under way when its broker, or the role, went",
    ),
    listed(
        &[
            "RequestSendThread",
            "fails to send",
            "java.lang.InterruptedException",
        ],
        "a Java controller gave up on a broker that is gone, or on the role",
    ),
    listed(
        &[
            "[Controller id=",
            "failed to change state for partition",
            "StateChangeFailedException",
        ],
        "a Java controller meets a partition none of whose replicas is up",
    ),
    listed(
        &[
            "cannot become follower since the new leader -1 is unavailable",
            "state.change.logger",
        ],
        "a Java controller tells the replicas of a partition that has lost its last leader",
    ),
    listed(
        &["org.apache.zookeeper.ClientCnxn", "SessionTimeoutException"],
        "a broker that was paused or starved of processor time comes too late to its ZooKeeper session",
    ),
    listed(
        &["org.apache.zookeeper.ClientCnxn", "SessionExpiredException"],
        "the same, when the session is over by then",
    ),
    listed(
        &["KeeperErrorCode = Session expired"],
        "the same, told by whatever asked ZooKeeper at that moment; it is asked again in the next session",
    ),
];

/// Whose log it is, which decides from which level on a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logger {
    Klamm,
    Broker,
}

/// Something that a process logged: the line, and the exception named below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub line: String,
    pub trace: Option<String>,
}

/// Reads `log` and returns the entries that count and that none of `allowed` explains.
///
/// # Errors
/// When the log cannot be read.
pub fn unlisted(log: &Path, logger: Logger, allowed: &[Listed]) -> Result<Vec<Entry>> {
    // Bytes that are no UTF-8 come from strange names, and must not hide the rest.
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(entries(&text, logger)
        .into_iter()
        .filter(|entry| !explained(entry, allowed))
        .collect())
}

/// The entries of `text` that count for `logger`.
fn entries(text: &str, logger: Logger) -> Vec<Entry> {
    let lines: Vec<String> = text.lines().map(without_colour).collect();
    let mut entries: Vec<Entry> = Vec::new();
    let mut head: Option<&str> = None;
    for (index, line) in lines.iter().enumerate() {
        if is_head(line) {
            head = Some(line);
        }
        if counts(line, logger) {
            entries.push(Entry {
                line: line.clone(),
                trace: None,
            });
        } else if names_exception(line) {
            match entries.last_mut() {
                // What an entry says that counts already, with or without a trace.
                Some(last) if head.is_none_or(|head| head == last.line) && last.trace.is_none() => {
                    last.trace = Some(line.clone());
                }
                _ if begins_trace(lines.get(index + 1)) => {
                    entries.push(Entry {
                        line: head.unwrap_or(line).to_owned(),
                        trace: Some(line.clone()),
                    });
                }
                _ => {}
            }
        }
    }
    entries
}

/// Whether a line carries a level, that is, begins an entry rather than going on with one.
fn is_head(line: &str) -> bool {
    level(line).is_some()
}

fn counts(line: &str, logger: Logger) -> bool {
    match (logger, level(line)) {
        (_, Some("ERROR" | "FATAL")) => true,
        (Logger::Klamm, Some("WARN")) => true,
        // A program that gives up says so without a level, and so does one that panics.
        (Logger::Klamm, None) => line.starts_with("klamm: ") || line.contains("panicked at"),
        _ => false,
    }
}

/// The level of a log line: a word of its own near the line's beginning, after the time.
fn level(line: &str) -> Option<&str> {
    const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
    line.split_whitespace()
        .take(4)
        .find(|word| LEVELS.contains(word))
}

/// Whether `line` is the name of a Java exception, alone or before its message.
fn names_exception(line: &str) -> bool {
    let class = line.split(':').next().unwrap_or("");
    (class.ends_with("Exception") || class.ends_with("Error")) && !class.contains(' ')
}

fn begins_trace(next: Option<&String>) -> bool {
    next.is_some_and(|next| next.starts_with("\tat "))
}

fn explained(entry: &Entry, allowed: &[Listed]) -> bool {
    let trace = entry.trace.as_deref().unwrap_or("");
    allowed.iter().any(|listed| {
        listed
            .fragments
            .iter()
            .all(|fragment| entry.line.contains(fragment) || trace.contains(fragment))
    })
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A colour is ESC [ … m.
            for skipped in characters.by_ref() {
                if skipped == 'm' {
                    break;
                }
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Entries of one kind counted together: numbers and what stands in braces tell entries of one kind apart.
pub fn kinds(entries: &[Entry]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in entries {
        let message = entry
            .line
            .split_once("] ")
            .map_or(entry.line.as_str(), |(_, message)| message);
        let mut kind = kind_of(message);
        if let Some(trace) = &entry.trace {
            kind.push_str(" | ");
            kind.push_str(&kind_of(trace));
        }
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// `text` with numbers as `#`, what stands in braces as `…`, and a long rest cut off; the logger at its end stays.
fn kind_of(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut kind = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '{' => {
                if depth == 0 {
                    kind.push('…');
                }
                depth += 1;
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if character.is_ascii_digit() => {
                if !kind.ends_with('#') {
                    kind.push('#');
                }
            }
            _ => kind.push(character),
        }
    }
    if kind.chars().count() > LONGEST {
        let logger = kind
            .rfind(" (")
            .map(|at| kind.split_off(at))
            .unwrap_or_default();
        kind = format!(
            "{}…{logger}",
            kind.chars().take(LONGEST).collect::<String>()
        );
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKER_LOG: &str = "\
[2026-11-30 02:34:06,475] INFO started (kafka.server.KafkaServer)
[2026-11-30 02:34:06,476] WARN Session 0x0, closing socket (org.apache.zookeeper.ClientCnxn)
java.nio.channels.UnresolvedAddressException
\tat java.base/sun.nio.ch.Net.checkAddress(Net.java:149)
[2026-11-30 02:34:07,000] ERROR [ReplicaFetcher replicaId=1] Error for partition t-0 at offset 5 (kafka.server.X)
org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such partition.
[2026-11-30 02:34:08,000] ERROR Something else (kafka.server.Y)
java.lang.IllegalStateException: no
\tat kafka.server.Y.f(Y.scala:1)
[2026-11-30 02:34:09,000] WARN harmless (kafka.server.Z)
";

    #[test]
    fn a_broker_may_warn_but_neither_err_nor_throw() {
        let found = entries(BROKER_LOG, Logger::Broker);
        let lines: Vec<(&str, bool)> = found
            .iter()
            .map(|entry| {
                (
                    entry.line.split_once("] ").unwrap().1,
                    entry.trace.is_some(),
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                (
                    "WARN Session 0x0, closing socket (org.apache.zookeeper.ClientCnxn)",
                    true
                ),
                (
                    "ERROR [ReplicaFetcher replicaId=1] Error for partition t-0 at offset 5 (kafka.server.X)",
                    true
                ),
                ("ERROR Something else (kafka.server.Y)", true),
            ]
        );
    }

    #[test]
    fn only_a_listed_kind_is_explained() {
        let found = entries(BROKER_LOG, Logger::Broker);
        let explained: Vec<bool> = found
            .iter()
            .map(|entry| explained(entry, UNDER_JAVA))
            .collect();
        assert_eq!(explained, [false, true, false]);
        let by_trace = [listed(
            &["Something else", "IllegalStateException"],
            "a test",
        )];
        assert!(super::explained(&found[2], &by_trace));
    }

    #[test]
    fn klamm_may_not_even_warn_nor_end_with_an_error_or_panic() {
        let log = "\
2026-11-30T02:34:06Z  INFO fine
\u{1b}[2m2026-11-30T02:34:06Z\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m coloured
[2026-11-30 02:34:07,000] ERROR as Kafka writes it (klamm)
klamm: klamm.id=1 is the id of a registered broker
thread 'main' panicked at src/main.rs:1:1:
an INFO line that speaks of a WARN is none";
        let found = entries(log, Logger::Klamm);
        assert_eq!(found.len(), 4, "{found:#?}");
    }

    #[test]
    fn a_kind_names_the_logger_however_long_the_message() {
        let line = format!(
            "[t] WARN fetch {{orders-1=1, {{2}}}} {} (kafka.server.X)",
            "x".repeat(500)
        );
        let kinds = kinds(&[Entry {
            line,
            trace: Some("java.io.IOException: to 7 failed".to_owned()),
        }]);
        let kind = kinds.keys().next().unwrap();
        assert!(kind.starts_with("WARN fetch … xxx"), "{kind}");
        assert!(
            kind.ends_with("… (kafka.server.X) | java.io.IOException: to # failed"),
            "{kind}"
        );
    }

    #[test]
    fn entries_that_differ_in_numbers_are_of_one_kind() {
        let found = [
            Entry {
                line: "[t] ERROR partition t-1 at 77".to_owned(),
                trace: None,
            },
            Entry {
                line: "[t] ERROR partition t-12 at 5".to_owned(),
                trace: None,
            },
        ];
        assert_eq!(
            kinds(&found),
            BTreeMap::from([("ERROR partition t-# at #".to_owned(), 2)])
        );
    }
}
