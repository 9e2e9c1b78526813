//! The stories: what is set up, what is done, what must be seen. Each is written once; `cargo test`, `cargo rig story`
//! and `cargo rig demo` are front doors to them.

pub mod acts;
mod brokers;
mod check;
mod clients;
mod deletion;
mod demo;
mod elections;
pub mod hostile;
mod log_dirs;
pub mod matrix;
mod reassignment;
mod refusals;
mod role;
mod takeover;
mod topics;
pub mod up;
mod upgrade;
mod zombie;
mod zookeeper;

pub use clients::CLIENTS;
pub use demo::DEMO;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::{Cluster, ClusterPlan};
use crate::log_rule::{self, Entry, Listed, Logger};
use crate::teller::{Step, Teller, Told, Voice, what_was_seen};
use crate::version::{Ibp, KafkaVersion};

/// Every story, in the order in which they are told.
pub const STORIES: &[Story] = &[
    takeover::TAKEOVER,
    takeover::KLAMM_KILLED,
    takeover::HANDBACK,
    role::CONTROLLER_DELETED,
    role::STANDBY,
    zombie::ZOMBIE,
    brokers::PAUSED_BROKER,
    brokers::CONTROLLED_SHUTDOWN,
    brokers::THOUSAND_LED,
    brokers::IDEMPOTENT_PRODUCER,
    topics::TOPICS_BY_ZOOKEEPER,
    topics::BROKEN_TOPICS,
    deletion::TOPIC_DELETION,
    reassignment::REASSIGNMENT,
    reassignment::BROKEN_REASSIGNMENTS,
    elections::PREFERRED_ELECTION,
    elections::LEADER_BALANCE,
    elections::UNCLEAN_ELECTION,
    log_dirs::FAILED_LOG_DIR,
    upgrade::ROLLING_UPGRADE,
    refusals::ID_OF_A_BROKER,
    refusals::SECURED_CONFIG,
    refusals::SECURED_BROKERS,
    check::CHECK,
    clients::JAVA_CLIENTS,
    zookeeper::ZOOKEEPER_3_5,
    zookeeper::ZOOKEEPER_3_4,
    zookeeper::OUTAGE,
    zookeeper::CONNECTION_CUTS,
    hostile::HOSTILE,
];

/// What klamm logs when its connection to ZooKeeper breaks.
const CONNECTION_LOST: Listed = Listed {
    fragments: &["the connection to ZooKeeper was lost", "connecting again"],
    reason: "the story breaks klamm's connection to ZooKeeper",
};
/// What the ZooKeeper client library logs at each try to connect again.
const CANNOT_CONNECT: Listed = Listed {
    fragments: &["zookeeper_client.session", "due to"],
    reason: "the story keeps klamm from connecting to ZooKeeper for a while",
};
/// What klamm logs when ZooKeeper says that its session is over.
const SESSION_EXPIRED: Listed = Listed {
    fragments: &["ZooKeeper session", "expired"],
    reason: "the story keeps klamm from its ZooKeeper for longer than its session",
};

/// What a Java controller logs from which klamm takes the role, as any other broker would, while it has work at hand.
const JAVA_LOSES_ROLE_AT_WORK: [Listed; 2] = [
    Listed {
        fragments: &["[Controller id=", "written by another controller"],
        reason: "a Java controller that loses the role in the midst of its work says so of each partition",
    },
    Listed {
        fragments: &["ontroller", "Controller moved to another broker when"],
        reason: "the same, of what it was just to write",
    },
];
/// One story.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    pub name: &'static str,
    /// One line for `cargo rig stories`.
    pub about: &'static str,
    pub pace: Pace,
    /// Whether it also makes sense under the Java controller, which shows what brokers log there.
    pub baseline: bool,
    /// What it is set up on.
    pub plan: fn(&Choice) -> ClusterPlan,
    /// What is done, and what must be seen.
    pub tell: fn(&mut Teller, &mut Cluster) -> Result<()>,
    /// What klamm may log in it at WARN or ERROR.
    pub klamm_may_log: &'static [Listed],
    /// What brokers may log in it, beside what they log under Java.
    pub brokers_may_log: &'static [Listed],
}

/// A slow story runs through `cargo rig` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Quick,
    Slow,
}

/// Who is to lead the cluster in the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leading {
    Klamm,
    /// The brokers' own controller: the same stimuli, to see what is normal.
    Java,
}

/// What whoever tells a story may choose.
#[derive(Debug, Clone)]
pub struct Choice {
    pub brokers: Option<Vec<KafkaVersion>>,
    pub ibp: Option<Ibp>,
    pub leading: Leading,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            brokers: None,
            ibp: None,
            leading: Leading::Klamm,
        }
    }
}

impl Choice {
    /// A plan with the chosen brokers, or `brokers`.
    pub fn plan_or(&self, brokers: &[KafkaVersion]) -> ClusterPlan {
        let brokers = self.brokers.as_deref().unwrap_or(brokers);
        let ibp = self.ibp.unwrap_or_else(|| Ibp::lowest_of(brokers));
        ClusterPlan {
            leading: self.leading,
            ..ClusterPlan::new(brokers, ibp)
        }
    }

    /// A plan with one broker, the newest of those chosen, or `version`.
    pub fn plan_of_one(&self, version: KafkaVersion) -> ClusterPlan {
        let chosen = self.brokers.iter().flatten().max();
        let one = Self {
            brokers: None,
            ..self.clone()
        };
        one.plan_or(&[chosen.copied().unwrap_or(version)])
    }

    /// One broker of each era in one cluster, unless chosen otherwise.
    pub fn mixed(&self) -> ClusterPlan {
        self.plan_or(&[
            KafkaVersion::V2_4_1,
            KafkaVersion::V2_8_2,
            KafkaVersion::V3_9_2,
        ])
    }
}

/// How a story went.
#[derive(Debug)]
pub struct Report {
    pub took: Duration,
    pub steps: Vec<Step>,
    /// Everything that is not as it must be; empty when the story passed.
    pub faults: Vec<String>,
    /// What the brokers logged at ERROR and above or with a stack trace.
    pub broker_entries: Vec<Entry>,
    pub logs: Option<PathBuf>,
}

impl Report {
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// What failed, and where to look.
    pub fn failure(&self) -> String {
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|step| match &step.outcome {
                Ok(detail) => format!(
                    "  ok   {:>6.2} s {}: {detail}",
                    step.took.as_secs_f64(),
                    step.text
                ),
                Err(seen) => format!(
                    "  FAIL {:>6.2} s {}: {seen}",
                    step.took.as_secs_f64(),
                    step.text
                ),
            })
            .collect();
        let untold = self.faults.iter().filter(|fault| {
            let told = |step: &Step| step.outcome.as_ref().err() == Some(*fault);
            !self.steps.iter().any(told)
        });
        let untold: Vec<String> = untold
            .map(|fault| format!("  FAIL between steps: {fault}"))
            .collect();
        let logs = self
            .logs
            .as_ref()
            .map_or("none".to_owned(), |logs| logs.display().to_string());
        [steps, untold, vec![format!("  logs: {logs}")]]
            .concat()
            .join("\n")
    }
}

impl Story {
    pub fn is_slow(&self) -> bool {
        self.pace == Pace::Slow
    }

    /// The story of that name.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn named(name: &str) -> Result<&'static Self> {
        STORIES
            .iter()
            .chain([&DEMO, &CLIENTS])
            .find(|story| story.name == name)
            .with_context(|| {
                let names: Vec<&str> = STORIES.iter().map(|story| story.name).collect();
                format!("there is no story `{name}`; there are {}", names.join(", "))
            })
    }

    /// Sets the story up, tells it, and judges what the processes did and logged.
    pub fn run(&self, choice: &Choice, voice: Voice) -> Report {
        let started = Instant::now();
        crate::interrupt::arm();
        let mut teller = Teller::new(voice);
        let mut cluster = None;
        let set_up = teller.step("the cluster comes up under its Java controller", || {
            let started = Cluster::start(self.name, (self.plan)(choice))?;
            let told = started.described();
            cluster = Some(started);
            Ok(told)
        });
        let mut fault = set_up.err();
        if let Some(cluster) = &mut cluster {
            if fault.is_none() {
                fault = (self.tell)(&mut teller, cluster).err();
            }
            if fault.is_none() {
                rests(&mut teller, cluster);
            }
            self.end(&mut teller, cluster);
        }
        let steps = teller.steps().to_vec();
        let mut faults: Vec<String> = steps
            .iter()
            .filter_map(|step| step.outcome.clone().err())
            .collect();
        // What went wrong between two steps has not been told yet.
        faults.extend(
            fault
                .map(|fault| what_was_seen(&fault))
                .filter(|fault| !faults.contains(fault)),
        );
        Report {
            took: started.elapsed(),
            steps,
            faults,
            broker_entries: cluster.as_ref().map(broker_entries).unwrap_or_default(),
            logs: cluster.as_ref().map(|cluster| cluster.run.logs()),
        }
    }

    /// What ends every story, however far it came.
    fn end(&self, teller: &mut Teller, cluster: &mut Cluster) {
        if cluster.traffic.is_some() {
            teller
                .step("every acknowledged record is there, once, in order", || {
                    cluster.finish_traffic()
                })
                .ok();
        }
        teller
            .step(
                "no process ended by itself, and klamm ends in order",
                || end_in_order(cluster),
            )
            .ok();
        teller
            .step("the logs hold nothing that they must not", || {
                self.judge_logs(cluster)
            })
            .ok();
    }

    /// The log rule.
    fn judge_logs(&self, cluster: &Cluster) -> Result<Told> {
        let mut found = Vec::new();
        let allowed: Vec<Listed> = log_rule::UNDER_JAVA
            .iter()
            .chain(&JAVA_LOSES_ROLE_AT_WORK)
            .chain(self.brokers_may_log)
            .copied()
            .collect();
        for broker in cluster.brokers.values() {
            let log = broker.process.log();
            let kinds = log_rule::kinds(&log_rule::unlisted(log, Logger::Broker, &allowed)?);
            found.extend(
                kinds
                    .into_iter()
                    .map(|(kind, times)| logged(broker.process.name(), times, &kind, log)),
            );
        }
        for klamm in cluster.klamms.values() {
            let log = klamm.process.log();
            let kinds =
                log_rule::kinds(&log_rule::unlisted(log, Logger::Klamm, self.klamm_may_log)?);
            found.extend(
                kinds
                    .into_iter()
                    .map(|(kind, times)| logged(klamm.process.name(), times, &kind, log)),
            );
        }
        if !found.is_empty() {
            bail!("{}", found.join("\n       "));
        }
        Ok("".into())
    }
}

/// What must hold at the end of every story that klamm leads: nothing that was asked for is left, every ISR is full, and
/// klamm knows what ZooKeeper holds.
fn rests(teller: &mut Teller, cluster: &mut Cluster) {
    let Some(klamm) = cluster.leading_klamm() else {
        return;
    };
    let everybody_runs = cluster.answering_brokers().len() == cluster.brokers.len();
    teller
        .step(
            "the cluster is at rest, and klamm knows it as it is",
            || {
                let mut took = cluster.wait_nothing_asked(acts::PATIENCE)?;
                if everybody_runs {
                    took += cluster.wait_isr_full(acts::PATIENCE)?;
                }
                let (known, said) = cluster.wait_known(klamm, acts::PATIENCE)?;
                Ok(Told::after(took + known, said))
            },
        )
        .ok();
}

/// Waits until no other test tells a story, in this process or another; the stage is free again when this is dropped.
///
/// # Errors
/// When the lock cannot be taken.
pub fn wait_for_the_stage() -> Result<impl Drop + use<>> {
    let runs = crate::workspace::runs_dir()?;
    std::fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    crate::jars::lock(&runs.join("stage.lock"))
}

fn logged(name: &str, times: usize, kind: &str, log: &Path) -> String {
    format!("{name} logged {times} times `{kind}` in {}", log.display())
}

/// All that the brokers logged at ERROR and above or with a stack trace, listed or not.
fn broker_entries(cluster: &Cluster) -> Vec<Entry> {
    let logs = cluster.brokers.values().map(|broker| broker.process.log());
    logs.filter_map(|log| log_rule::unlisted(log, Logger::Broker, &[]).ok())
        .flatten()
        .collect()
}

fn end_in_order(cluster: &mut Cluster) -> Result<Told> {
    cluster.check_all_alive()?;
    for klamm in cluster.klamms.values_mut() {
        if klamm.process.is_running() {
            let status = klamm.stop()?;
            let log = klamm.process.log();
            ensure!(
                status.success(),
                "{} ended with {status}; its log: {}",
                klamm.process.name(),
                log.display()
            );
        }
    }
    Ok("".into())
}
