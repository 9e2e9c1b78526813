//! Traffic through the genuine Java client, and what became of every record of it.
//!
//! The Java part (`java/Traffic.java`) produces, reads and reports; what its reports mean is judged in [`verify`].

pub mod verify;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::classes;
use crate::jars::Jars;
use crate::process::{Launch, Process, Talk};
use crate::run::Run;
use crate::wait::{self, Seen};
use crate::zk::TopicPartition;
use verify::{Duplicates, Records, Verdict};

const SOURCE: &str = include_str!("../../java/Traffic.java");

/// How the traffic is to be.
#[derive(Debug, Clone)]
pub struct TrafficPlan {
    /// `bootstrap.servers`.
    pub bootstrap: String,
    pub idempotent: bool,
    pub records_per_second: u32,
    /// Name of a consumer group that reads too, with committed offsets.
    pub group: Option<String>,
}

/// What the Java client has reported so far.
#[derive(Debug, Default)]
struct Ledger {
    partitions: BTreeMap<TopicPartition, Records>,
    /// Partitions found for each topic at its last look-up.
    topics: BTreeMap<String, usize>,
    read_by_group: u64,
    stopped: bool,
    logged: bool,
    errors: Vec<String>,
}

/// A running client.
#[derive(Debug)]
pub struct Traffic {
    pub process: Process,
    plan: TrafficPlan,
    input: ChildStdin,
    ledger: Arc<Mutex<Ledger>>,
}

impl Traffic {
    /// Compiles the client if need be and starts it; it produces to no topic until told of one.
    ///
    /// # Errors
    /// When javac or the client cannot be started.
    pub fn start(run: &Run, jars: &Jars, plan: TrafficPlan) -> Result<Self> {
        let classes = classes::compile(jars, "Traffic", SOURCE)?;
        let launch = Launch {
            name: "the Java client".to_owned(),
            program: "java".into(),
            arguments: vec![
                "-Xmx160m".to_owned(),
                "-XX:+UseSerialGC".to_owned(),
                "-XX:TieredStopAtLevel=1".to_owned(),
                client_log4j_flag(run)?,
                "-cp".to_owned(),
                format!("{}:{}", classes.display(), jars.class_path()),
                "Traffic".to_owned(),
                plan.bootstrap.clone(),
                plan.idempotent.to_string(),
                plan.records_per_second.to_string(),
                plan.group.clone().unwrap_or_else(|| "-".to_owned()),
            ],
            environment: Vec::new(),
            log: run.log("client.log"),
            talk: Talk::Piped,
        };
        let mut process = Process::start(launch)?;
        let (input, output) = process
            .take_pipes()
            .context("the Java client was started without pipes")?;
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let written = Arc::clone(&ledger);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                note(&mut locked(&written), &line);
            }
        });
        Ok(Self {
            process,
            plan,
            input,
            ledger,
        })
    }

    /// Produces to all partitions of `topic` from now on, or to its new ones as well; waits until the client sees at
    /// least `partitions` of them. The look-up creates the topic where brokers create topics by themselves.
    ///
    /// # Errors
    /// When the client does not see them in time.
    pub fn add_topic(&mut self, topic: &str, partitions: usize) -> Result<()> {
        // The client answers from its cached metadata, at most 5 s old: it is asked again until it knows them all.
        let mut asked_at: Option<Instant> = None;
        let ledger = Arc::clone(&self.ledger);
        let what = format!("the client to see {partitions} partitions of {topic}");
        let timeout = Duration::from_secs(60);
        wait::until(&what, timeout, || {
            if asked_at.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
                self.command(&format!("topic {topic}"))?;
                asked_at = Some(Instant::now());
            }
            let seen = locked(&ledger).topics.get(topic).copied().unwrap_or(0);
            Ok(if seen >= partitions {
                Seen::Done(())
            } else {
                Seen::Not(format!("{seen}"))
            })
        })
        .map(|_| ())
    }

    /// Waits until each partition has had a record acknowledged that was acknowledged after this call; returns how
    /// long that took.
    ///
    /// # Errors
    /// When one has none within `timeout`.
    pub fn wait_flowing(&mut self, timeout: Duration) -> Result<Duration> {
        let before = self.acknowledged_by_partition();
        let ledger = Arc::clone(&self.ledger);
        self.wait("every partition to take records", timeout, || {
            let silent: Vec<String> = locked(&ledger)
                .partitions
                .iter()
                .filter(|(partition, records)| {
                    records.acknowledged.len() <= before.get(partition).copied().unwrap_or(0)
                })
                .map(|(partition, _)| partition.to_string())
                .collect();
            Ok(if silent.is_empty() {
                Seen::Done(())
            } else {
                Seen::Not(format!(
                    "nothing new on {} of {}: {}",
                    silent.len(),
                    before.len(),
                    listed(&silent)
                ))
            })
        })
    }

    /// Records acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        locked(&self.ledger)
            .partitions
            .values()
            .map(|records| records.acknowledged.len())
            .sum()
    }

    /// Records that the consumer group has read so far, repeats counted.
    pub fn read_by_group(&self) -> u64 {
        locked(&self.ledger).read_by_group
    }

    /// Stops producing, reads everything again, and judges.
    ///
    /// # Errors
    /// When the client fails; what is wrong with the records stands in the verdict.
    pub fn finish(&mut self) -> Result<Verdict> {
        self.command("stop")?;
        self.wait_said("the client to have every record answered", |ledger| {
            ledger.stopped
        })?;
        self.command("log")?;
        self.wait_said("the client to read everything again", |ledger| {
            ledger.logged
        })?;
        self.wait_reader_caught_up()?;
        let duplicates = if self.plan.idempotent {
            Duplicates::Never
        } else {
            Duplicates::OfRetries
        };
        let ledger = locked(&self.ledger);
        ensure!(
            ledger.errors.is_empty(),
            "the Java client reports: {}",
            ledger.errors.join("; ")
        );
        let verdict = verify::verify(&ledger.partitions, duplicates);
        ensure!(
            verdict.acknowledged > 0,
            "no record was ever acknowledged, so nothing was checked"
        );
        Ok(verdict)
    }

    /// The continuous reader must have come to the end too: one that stood still would have checked nothing.
    fn wait_reader_caught_up(&mut self) -> Result<()> {
        let ledger = Arc::clone(&self.ledger);
        self.wait(
            "the continuous reader to reach the end",
            Duration::from_secs(60),
            || {
                let behind: Vec<String> = locked(&ledger)
                    .partitions
                    .iter()
                    .filter(|(_, records)| {
                        records.read.last_key_value().map(|(k, _)| k)
                            < records.log.last_key_value().map(|(k, _)| k)
                    })
                    .map(|(partition, _)| partition.to_string())
                    .collect();
                Ok(if behind.is_empty() {
                    Seen::Done(())
                } else {
                    Seen::Not(format!("behind on {}", listed(&behind)))
                })
            },
        )
        .map(|_| ())
    }

    fn wait_said(&mut self, what: &str, said: impl Fn(&Ledger) -> bool) -> Result<()> {
        let ledger = Arc::clone(&self.ledger);
        self.wait(what, Duration::from_secs(180), || {
            Ok(if said(&locked(&ledger)) {
                Seen::Done(())
            } else {
                Seen::Not("no word of it".to_owned())
            })
        })
        .map(|_| ())
    }

    /// Asks `probe` until it is done, as long as the client lives and complains of nothing.
    fn wait(
        &mut self,
        what: &str,
        timeout: Duration,
        mut probe: impl FnMut() -> Result<Seen<()>>,
    ) -> Result<Duration> {
        let (_, took) = wait::until(what, timeout, || match self.check_alive() {
            Ok(()) => probe(),
            Err(error) => Ok(Seen::Never(format!("{error:#}"))),
        })?;
        Ok(took)
    }

    fn check_alive(&mut self) -> Result<()> {
        let errors = locked(&self.ledger).errors.join("; ");
        if let Some(status) = self.process.ended_by_itself() {
            bail!(
                "the Java client ended with {status} {errors}; its log: {}",
                self.process.log().display()
            );
        }
        ensure!(errors.is_empty(), "the Java client reports: {errors}");
        Ok(())
    }

    fn acknowledged_by_partition(&self) -> BTreeMap<TopicPartition, usize> {
        let ledger = locked(&self.ledger);
        ledger
            .partitions
            .iter()
            .map(|(key, records)| (key.clone(), records.acknowledged.len()))
            .collect()
    }

    fn command(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .context("the Java client takes no commands")
    }
}

fn locked(ledger: &Mutex<Ledger>) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first few of many names.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        format!("{shown} …")
    } else {
        shown
    }
}

/// Enters one line of the client's report.
fn note(ledger: &mut Ledger, line: &str) {
    if enter(ledger, line).is_none() {
        ledger.errors.push(line.to_owned());
    }
}

/// `None` when the line is an error, or nothing that the client is known to say.
fn enter(ledger: &mut Ledger, line: &str) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["ACK", topic, partition, offset, value] => {
            let records = records(ledger, topic, partition)?;
            records
                .acknowledged
                .push((offset.parse().ok()?, value.parse().ok()?));
        }
        ["READ", topic, partition, offset, value] => {
            let records = records(ledger, topic, partition)?;
            records
                .read
                .entry(offset.parse().ok()?)
                .or_default()
                .insert(value.parse().ok()?);
        }
        ["LOG", topic, partition, offset, value] => {
            let records = records(ledger, topic, partition)?;
            records
                .log
                .insert(offset.parse().ok()?, value.parse().ok()?);
        }
        ["GROUP", ..] => ledger.read_by_group += 1,
        ["FAILED", topic, partition, value, ..] => {
            let records = records(ledger, topic, partition)?;
            records.failed.insert(value.parse().ok()?);
        }
        ["TOPIC", topic, partitions] => {
            let partitions: usize = partitions.parse().ok()?;
            for partition in 0..partitions {
                records(ledger, topic, &partition.to_string())?;
            }
            ledger.topics.insert(topic.to_owned(), partitions);
        }
        ["STOPPED"] => ledger.stopped = true,
        ["LOGGED"] => ledger.logged = true,
        _ => return None,
    }
    Some(())
}

fn records<'a>(ledger: &'a mut Ledger, topic: &str, partition: &str) -> Option<&'a mut Records> {
    let key = TopicPartition::new(topic, partition.parse().ok()?);
    Some(ledger.partitions.entry(key).or_default())
}

/// The client's own log goes to standard error: its standard output is the report.
pub(crate) fn client_log4j_flag(run: &Run) -> Result<String> {
    let path = run.conf("client-log4j.properties");
    let text = "log4j.rootLogger=WARN, stderr\n\
                log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n\
                log4j.appender.stderr.target=System.err\n\
                log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n\
                log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n\n";
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("-Dlog4j.configuration=file:{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_the_rig_does_not_know_is_an_error_and_not_overheard() {
        let mut ledger = Ledger::default();
        for line in ["ACK t 0 5 7", "READ t 0 5 7", "LOG t 0 5 7", "TOPIC t 1"] {
            note(&mut ledger, line);
        }
        assert!(ledger.errors.is_empty());
        for line in ["ACK t 0 five 7", "ERROR the reader ended", "ACK t 0 5", ""] {
            note(&mut ledger, line);
        }
        assert_eq!(ledger.errors.len(), 4);
        let records = &ledger.partitions[&TopicPartition::new("t", 0)];
        assert_eq!(records.acknowledged, [(5, 7)]);
    }
}
