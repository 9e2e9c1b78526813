//! Parity: the script is played under the Java controller and under klamm, on fresh clusters of the same releases, and
//! whatever can be seen from outside is compared after each step: znodes, what clients are told, what brokers were told.
//!
//! A difference is a fault unless the reviewed list says why it is better. Times are printed, not compared.

pub mod differences;
pub mod snapshot;
pub mod trace;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::script::settle::settle;
use crate::script::{self, BEFORE, DUTIES, LAST, SINCE_2_4, SINCE_IBP_2_7, STEPS, Step};
use crate::stories::Leading;
use crate::tap::Tape;
use crate::teller;
use crate::version::{Ibp, KafkaVersion};
use crate::workspace;

use differences::{Difference, OnPurpose};
use snapshot::{Origin, Snapshot};
use trace::StepTrace;

/// The script, played once.
#[derive(Debug, Clone)]
pub struct Playing {
    pub steps: Vec<PlayedStep>,
}

/// One step, and what could be seen when all was at rest again.
#[derive(Debug, Clone)]
pub struct PlayedStep {
    pub took: Duration,
    pub trace: StepTrace,
    pub seen: Snapshot,
}

/// What two playings came to.
#[derive(Debug)]
pub struct Comparison {
    pub java: Playing,
    pub klamm: Playing,
    /// Differences that the list does not have.
    pub unlisted: Vec<Difference>,
    /// Blocks of the list, each with how often it applied.
    pub on_purpose: Vec<(OnPurpose, usize)>,
}

/// Plays the script under both controllers and compares.
///
/// # Errors
/// When a cluster does not come up or to rest, or the list cannot be read.
pub fn run(brokers: &[KafkaVersion], ibp: Ibp) -> Result<Comparison> {
    let list = differences::read_list(&list_path())?;
    let java = play(brokers, ibp, Leading::Java)?;
    let klamm = play(brokers, ibp, Leading::Klamm)?;
    compare(java, klamm, list)
}

fn compare(java: Playing, klamm: Playing, list: Vec<OnPurpose>) -> Result<Comparison> {
    let found = differences::between(&java, &klamm)?;
    let on_purpose = list
        .iter()
        .map(|block| {
            let times = found.iter().filter(|found| block.covers(found)).count();
            (block.clone(), times)
        })
        .collect();
    let unlisted = found
        .into_iter()
        .filter(|found| !list.iter().any(|block| block.covers(found)))
        .collect();
    Ok(Comparison {
        java,
        klamm,
        unlisted,
        on_purpose,
    })
}

/// Where the reviewed list of differences on purpose stands.
pub fn list_path() -> PathBuf {
    workspace::root().join("fixtures/traces/differences.txt")
}

fn play(brokers: &[KafkaVersion], ibp: Ibp, leading: Leading) -> Result<Playing> {
    let (label, who) = match leading {
        Leading::Java => ("parity-java", "the Java controller"),
        Leading::Klamm => ("parity-klamm", "klamm"),
    };
    let tape = Tape::default();
    let plan = script::plan(brokers, ibp, &tape)?
        // There may be delegation tokens, and whose time is up is looked for every second.
        .with_property("delegation.token.master.key", "parity")
        .with_property("delegation.token.expiry.check.interval.ms", "1000");
    let mut cluster = Cluster::start(label, plan)?;
    println!("{}: {}", teller::bold(who), cluster.described());
    let logs = cluster.run.logs().display().to_string();
    play_on(&mut cluster, leading, &tape).with_context(|| format!("under {who}; the logs: {logs}"))
}

fn play_on(cluster: &mut Cluster, leading: Leading, tape: &Tape) -> Result<Playing> {
    for step in BEFORE {
        play_step(cluster, *step, Leading::Java, tape)?;
    }
    let mut rests = Vec::new();
    let since_ibp_2_7 = match cluster.plan.ibp >= Ibp::new(2, 7) {
        true => SINCE_IBP_2_7,
        false => &[],
    };
    let steps = [STEPS, SINCE_2_4, DUTIES, since_ibp_2_7, LAST];
    for step in steps.into_iter().flatten() {
        let origin = Origin::of(cluster)?;
        let Done { took, answer } = play_step(cluster, *step, leading, tape)?;
        println!(
            "  {} {step}",
            teller::dim(&format!("{:>7.2} s", took.as_secs_f64()))
        );
        let mut seen = snapshot::snapshot(cluster, &origin)?;
        seen.extend(answer.map(|said| ("the controller's answer".to_owned(), said)));
        rests.push((took, seen));
    }
    let traces = trace::trace(&tape.entries())?;
    let steps = traces.into_iter().skip(BEFORE.len()).zip(rests);
    Ok(Playing {
        steps: steps
            .map(|(trace, (took, seen))| PlayedStep { took, trace, seen })
            .collect(),
    })
}

/// What came of a step.
#[derive(Debug)]
pub struct Done {
    /// Until the cluster was at rest.
    pub took: Duration,
    /// What the controller answered where it was asked.
    pub answer: Option<String>,
}

/// Plays one step and waits until the cluster is at rest.
///
/// # Errors
/// When it cannot be done or does not come to rest.
pub fn play_step(cluster: &mut Cluster, step: Step, leading: Leading, tape: &Tape) -> Result<Done> {
    let started = Instant::now();
    let answer =
        script::play::play(cluster, step, leading, tape).with_context(|| step.to_string())?;
    let done = started.elapsed();
    let rest = settle(cluster, tape).with_context(|| step.to_string())?;
    Ok(Done {
        took: done + rest,
        answer,
    })
}

impl Comparison {
    /// Whether all that differs does so on purpose.
    pub fn passed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Times side by side, differences, and how many of them are on purpose.
    pub fn report(&self) -> String {
        let mut lines = vec![format!("  {:>9} {:>9}  step", "java", "klamm")];
        for (java, klamm) in self.java.steps.iter().zip(&self.klamm.steps) {
            lines.push(format!(
                "  {:>7.2} s {:>7.2} s  {}",
                java.took.as_secs_f64(),
                klamm.took.as_secs_f64(),
                java.trace.step
            ));
        }
        let steps = || self.java.steps.iter().chain(&self.klamm.steps);
        lines.push(format!(
            "\n  compared: {} znodes and answers to clients, {} sequences of what a broker was told of a partition",
            steps().map(|step| step.seen.len()).sum::<usize>(),
            steps().map(|step| step.trace.told.len()).sum::<usize>()
        ));
        for (block, times) in self.on_purpose.iter().filter(|(_, times)| *times > 0) {
            lines.push(format!(
                "{times:>4} × on purpose, {}: {}",
                block.place(),
                block.reason
            ));
        }
        for difference in &self.unlisted {
            lines.push(format!("{} {difference}", teller::red("DIFFERS")));
        }
        lines.join("\n")
    }
}
