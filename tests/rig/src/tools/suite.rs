//! The suite: the same commands of genuine tools under the Java controller and under klamm, each on a fresh cluster, and
//! what they said compared. A difference is a fault unless the reviewed list says why it is better.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::case::{Case, Clusters, Ends, Form, Leaves, Places, Way, ways};
use super::cases;
use super::facts::{Facts, Lens, facts};
use super::host::{Ran, ToolHost};
use crate::cluster::{Cluster, ClusterPlan, Start, assignment};
use crate::klamm::FIRST_ID;
use crate::log_rule::{self, Listed, Logger};
use crate::parity::differences::{self, Difference, OnPurpose};
use crate::stories::{Leading, acts};
use crate::teller;
use crate::version::{Ibp, KafkaVersion};
use crate::wait::{self, Seen};
use crate::workspace;

/// The releases whose tools are tried.
pub const RELEASES: [KafkaVersion; 4] = [
    KafkaVersion::V1_1_1,
    KafkaVersion::V2_4_1,
    KafkaVersion::V2_8_2,
    KafkaVersion::V3_9_2,
];

/// What takes time by nature: moves of replicas, configurations on their way to a broker.
const PATIENCE: Duration = Duration::from_secs(90);

/// What klamm may log at WARN or ERROR.
const KLAMM_MAY_LOG: &[Listed] = &[Listed {
    fragments: &["/admin/reassign_partitions", "900"],
    reason: "a tool asks by ZooKeeper for a replica on klamm's node, and nobody but the log can be told of the refusal",
}];

/// What is played.
#[derive(Debug, Clone)]
pub struct Plan {
    pub brokers: Vec<KafkaVersion>,
    pub ibp: Ibp,
    /// The releases of the tools.
    pub tools: Vec<KafkaVersion>,
    pub ways: Vec<Way>,
    pub cases: Vec<Case>,
}

impl Plan {
    /// Everything, on a cluster of these brokers.
    pub fn on(cluster: &ClusterPlan) -> Self {
        Self {
            brokers: cluster.brokers.clone(),
            ibp: cluster.ibp,
            tools: RELEASES.to_vec(),
            ways: Way::ALL.to_vec(),
            cases: cases::all(),
        }
    }

    /// A handful of cases of the newest tools, which know klamm's node alone.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn quick(cluster: &ClusterPlan) -> Result<Self> {
        Ok(Self {
            tools: vec![KafkaVersion::V3_9_2],
            ways: vec![Way::Controller],
            cases: cases::named(&cases::QUICK.map(str::to_owned))?,
            ..Self::on(cluster)
        })
    }
}

/// One command of one playing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    version: KafkaVersion,
    way: Way,
    case: Case,
}

/// What came of it; an error tells why there is no answer to compare.
#[derive(Debug, Clone)]
struct Outcome {
    took: Duration,
    facts: std::result::Result<Facts, String>,
}

/// One case, judged.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub name: String,
    pub java: Duration,
    pub klamm: Duration,
    /// Empty where it passed.
    pub faults: Vec<String>,
    /// The reasons of the differences on purpose.
    pub on_purpose: Vec<String>,
}

/// All cases, judged.
#[derive(Debug, Clone)]
pub struct Report {
    pub verdicts: Vec<Verdict>,
}

impl Report {
    pub fn failed(&self) -> usize {
        let failed = |verdict: &&Verdict| !verdict.faults.is_empty();
        self.verdicts.iter().filter(failed).count()
    }

    pub fn passed(&self) -> usize {
        self.verdicts.len() - self.failed()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.faults.is_empty() {
            teller::green("ok  ")
        } else {
            teller::red("FAIL")
        };
        write!(
            f,
            "{word} {:>6.2} s {:>6.2} s  {}",
            self.java.as_secs_f64(),
            self.klamm.as_secs_f64(),
            self.name
        )?;
        for reason in &self.on_purpose {
            write!(f, "\n       differs on purpose: {reason}")?;
        }
        for fault in &self.faults {
            write!(f, "\n       {fault}")?;
        }
        Ok(())
    }
}

/// Where the reviewed list of differences on purpose stands.
pub fn list_path() -> PathBuf {
    workspace::root().join("fixtures/tools/differences.txt")
}

/// Plays the cases under both controllers and judges them; `hear` is told of each as it is done under klamm.
///
/// # Errors
/// When a cluster does not come up, or the list cannot be read.
pub fn run(plan: &Plan, mut hear: impl FnMut(&Verdict)) -> Result<Report> {
    ensure!(
        plan.brokers.len() == 3,
        "the cases name the brokers 1, 2 and 3"
    );
    let list = differences::read_list(&list_path())?;
    let mut java = Vec::new();
    play(plan, Leading::Java, |_, outcome| java.push(outcome))?;
    let mut java = java.into_iter();
    let mut verdicts = Vec::new();
    let mut cluster = play(plan, Leading::Klamm, |key, klamm| {
        if let Some(java) = java.next() {
            let verdict = judge(key, &java, &klamm, &list);
            hear(&verdict);
            verdicts.push(verdict);
        }
    })?;
    for verdict in [knows_all(&mut cluster), logged_well(&cluster)] {
        hear(&verdict);
        verdicts.push(verdict);
    }
    Ok(Report { verdicts })
}

/// What is asked once, when all is done under klamm.
fn in_the_end(name: &str, took: Duration, fault: Option<String>) -> Verdict {
    Verdict {
        name: name.to_owned(),
        java: Duration::ZERO,
        klamm: took,
        faults: fault.into_iter().collect(),
        on_purpose: Vec::new(),
    }
}

fn knows_all(cluster: &mut Cluster) -> Verdict {
    let known = cluster.wait_known(FIRST_ID, PATIENCE);
    let took = known.as_ref().map_or(PATIENCE, |(took, _)| *took);
    let fault = known.err().map(|error| format!("{error:#}"));
    in_the_end("klamm knows the cluster as it is", took, fault)
}

fn logged_well(cluster: &Cluster) -> Verdict {
    let found = cluster.klamms.values().map(|klamm| {
        let log = klamm.process.log();
        let entries = log_rule::unlisted(log, Logger::Klamm, KLAMM_MAY_LOG)?;
        let kinds = log_rule::kinds(&entries);
        let lines = kinds
            .iter()
            .map(|(kind, times)| format!("{times} times `{kind}` in {}", log.display()));
        Ok(lines.collect::<Vec<_>>())
    });
    let fault = match found.collect::<Result<Vec<_>>>() {
        Ok(lines) if lines.iter().flatten().next().is_none() => None,
        Ok(lines) => Some(lines.concat().join("\n       ")),
        Err(error) => Some(format!("{error:#}")),
    };
    in_the_end(
        "klamm's log holds nothing that it must not",
        Duration::ZERO,
        fault,
    )
}

/// Plays all cases on a fresh cluster.
fn play(plan: &Plan, leading: Leading, mut heard: impl FnMut(&Key, Outcome)) -> Result<Cluster> {
    let label = match leading {
        Leading::Java => "tools-java",
        Leading::Klamm => "tools-klamm",
    };
    let mut cluster = Cluster::start(label, cluster_plan(plan, leading))?;
    let logs = cluster.run.logs().display().to_string();
    set_up(&mut cluster).with_context(|| format!("the cluster is not set up; its logs: {logs}"))?;
    let term = cluster.zk.controller_epoch()?;
    for version in &plan.tools {
        let mut host = ToolHost::start(&cluster.run, *version)?;
        for way in ways(*version) {
            if !plan.ways.contains(&way) {
                continue;
            }
            let stage = Stage::of(&mut cluster, *version, way)?;
            for key in keys(plan, *version, way) {
                let outcome = stage.play(&mut cluster, &mut host, &key);
                // A tool that hangs takes its JVM with it.
                if outcome.facts.is_err() {
                    host = ToolHost::start(&cluster.run, *version)?;
                }
                heard(&key, outcome);
            }
        }
    }
    cluster.check_all_alive()?;
    ensure!(
        cluster.zk.controller_epoch()? == term,
        "the role changed hands while the tools were run: what was compared is not what was meant; is the machine too \
         busy? The logs: {logs}"
    );
    Ok(cluster)
}

fn keys(plan: &Plan, version: KafkaVersion, way: Way) -> Vec<Key> {
    let one_release = plan
        .brokers
        .iter()
        .all(|broker| plan.brokers.first() == Some(broker));
    plan.cases
        .iter()
        .filter(|case| case.form(version, way).is_some())
        .filter(|case| one_release || case.clusters == Clusters::Any)
        .map(|case| Key {
            version,
            way,
            case: *case,
        })
        .collect()
}

fn cluster_plan(plan: &Plan, leading: Leading) -> ClusterPlan {
    ClusterPlan {
        leading,
        // The oldest broker is to be the Java controller: klamm offers what all of the brokers have.
        start: Start::OneByOne,
        ..ClusterPlan::new(&plan.brokers, plan.ibp)
    }
    // Elections that nobody asked for would come in between at a time of their own.
    .with_property("auto.leader.rebalance.enable", "false")
    // Nobody dies here, and whoever is starved of processor time on a busy machine is to keep what it leads.
    .with_property("zookeeper.session.timeout.ms", "30000")
    // What a throttle holds up is more than one fetch brings.
    .with_property("replica.fetch.max.bytes", "20000")
}

/// Internal topics get the same replicas in every playing: which broker coordinates a group can be seen.
fn set_up(cluster: &mut Cluster) -> Result<()> {
    let ids: Vec<i32> = cluster.genuine_ids().into_iter().collect();
    for topic in ["__consumer_offsets", "__transaction_state"] {
        let config =
            br#"{"version":1,"config":{"cleanup.policy":"compact","segment.bytes":"1048576"}}"#;
        make_node(cluster, &format!("/config/topics/{topic}"), config)?;
        let replicas = assignment(&ids, 5, 3);
        make_node(cluster, &format!("/brokers/topics/{topic}"), &replicas)?;
    }
    acts::takeover(cluster)?;
    rest(cluster)
}

/// A ZooKeeper that has just started beside three brokers may be slow to answer, and have done what it did not answer.
fn make_node(cluster: &Cluster, path: &str, data: &[u8]) -> Result<()> {
    wait::until(&format!("{path} to be created"), PATIENCE, || {
        if cluster.zk.get(path)?.is_none() {
            cluster.zk.create(path, data)?;
        }
        Ok(Seen::Done(()))
    })
    .map(|_| ())
}

/// Waits until nothing is under way any more.
fn rest(cluster: &mut Cluster) -> Result<()> {
    cluster.wait_nothing_asked(PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    cluster.wait_isr_full(PATIENCE)?;
    Ok(())
}

/// One pass: names of its own, and what is taken out of its answers.
struct Stage {
    places: Places,
    lens: Lens,
}

impl Stage {
    fn of(cluster: &mut Cluster, version: KafkaVersion, way: Way) -> Result<Self> {
        let (controller, _) = wait::until("the role to be held", PATIENCE, || {
            Ok(match cluster.zk.controller()? {
                Some(owner) => Seen::Done(owner.id),
                None => Seen::Not("the role is vacant".to_owned()),
            })
        })?;
        let bootstrap = match (way, cluster.klamms.get(&controller)) {
            (Way::Brokers | Way::ZooKeeper, _) => cluster.bootstrap(),
            (Way::Controller, Some(klamm)) => klamm.address.clone(),
            (Way::Controller, None) => cluster.broker(controller)?.address.clone(),
        };
        let prefix = format!("p{}{}", version.to_string().replace('.', ""), way.letter());
        let names = vec![
            (cluster.run.directory().display().to_string(), "<run>"),
            (cluster.run.address.to_string(), "<ip>"),
            (prefix.clone(), "{t}"),
        ];
        Ok(Self {
            places: Places {
                bootstrap,
                zookeeper: cluster.zookeeper.connect.clone(),
                prefix,
                klamm: FIRST_ID,
            },
            lens: Lens {
                names,
                klamm: FIRST_ID,
            },
        })
    }

    fn play(&self, cluster: &mut Cluster, host: &mut ToolHost, key: &Key) -> Outcome {
        let mut took = Duration::ZERO;
        let facts = self
            .answer(cluster, host, key, &mut took)
            .and_then(|facts| {
                if key.case.leaves == Leaves::AtRest {
                    rest(cluster)?;
                }
                Ok(facts)
            })
            .map_err(|error| format!("{error:#}"));
        Outcome { took, facts }
    }

    fn answer(
        &self,
        cluster: &Cluster,
        host: &mut ToolHost,
        key: &Key,
        took: &mut Duration,
    ) -> Result<Facts> {
        let case = &key.case;
        let form = case
            .form(key.version, key.way)
            .context("this release does not have it")?;
        let arguments = self.arguments(cluster, key, form)?;
        let mut ran = None;
        let mut once = || -> Result<Seen<()>> {
            let done = match host.run(case.tool, &arguments) {
                Ok(done) => done,
                Err(error) => return Ok(Seen::Never(format!("{error:#}"))),
            };
            *took = done.took;
            let told = case.until.is_none_or(|text| done.out.contains(text));
            let seen = match told {
                true => Seen::Done(()),
                false => Seen::Not(done.out.clone()),
            };
            ran = Some(done);
            Ok(seen)
        };
        let what = match case.until {
            Some(text) => format!("the tool to tell `{text}`"),
            None => "the tool to end".to_owned(),
        };
        let waited = wait::until(&what, PATIENCE, &mut once);
        if let Some(ran) = &ran {
            keep(cluster, key, &arguments, ran)?;
        }
        waited?;
        let ran = ran.context("the tool was not run")?;
        Ok(facts(&ran, case.tool, case.chosen, &self.lens))
    }

    fn arguments(&self, cluster: &Cluster, key: &Key, form: Form) -> Result<Vec<String>> {
        let path = cluster.run.conf(&format!("{}.json", file_name(key)));
        if let Some(content) = key.case.file {
            fs::write(&path, self.places.fill(content, form, ""))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let filled = self
            .places
            .fill(key.case.arguments, form, &path.display().to_string());
        Ok(filled.split_whitespace().map(str::to_owned).collect())
    }
}

/// Keeps the whole answer beside the logs, for whoever looks into a difference.
fn keep(cluster: &Cluster, key: &Key, arguments: &[String], ran: &Ran) -> Result<()> {
    let path = cluster.run.log(&format!("{}.txt", file_name(key)));
    let text = format!(
        "{} {}\nexit {}\n--- standard output\n{}--- standard error\n{}",
        key.case.tool.script(),
        arguments.join(" "),
        ran.exit,
        ran.out,
        ran.err
    );
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn file_name(key: &Key) -> String {
    format!("{}{}-{}", key.version, key.way.letter(), key.case.name)
}

/// Compares what one command came to under both controllers.
fn judge(key: &Key, java: &Outcome, klamm: &Outcome, list: &[OnPurpose]) -> Verdict {
    let mut faults = Vec::new();
    let mut on_purpose = Vec::new();
    match (&java.facts, &klamm.facts) {
        (Ok(before), Ok(after)) => {
            faults.extend(ended_wrongly(key.case.ends, before));
            for difference in between(key, before, after) {
                match list.iter().find(|block| block.covers(&difference)) {
                    Some(block) => on_purpose.push(block.reason.clone()),
                    None => faults.push(difference.to_string()),
                }
            }
        }
        (before, after) => {
            let said = |who: &str, facts: &std::result::Result<Facts, String>| {
                let error = facts.as_ref().err()?;
                Some(format!("under {who}: {error}"))
            };
            faults.extend(said("the Java controller", before));
            faults.extend(said("klamm", after));
        }
    }
    on_purpose.dedup();
    Verdict {
        name: format!(
            "{} {} {} {}",
            key.version,
            key.way,
            key.case.tool.script(),
            key.case.name
        ),
        java: java.took,
        klamm: klamm.took,
        faults,
        on_purpose,
    }
}

/// A case that ends otherwise under the Java controller than it says would compare nothing of worth.
fn ended_wrongly(ends: Ends, java: &Facts) -> Option<String> {
    let well = java.exit == 0 && java.errors.is_empty();
    let as_said = match ends {
        Ends::Well => well,
        Ends::Refused => !well,
        Ends::Either => true,
    };
    (!as_said).then(|| {
        format!(
            "the case is wrong: under the Java controller it ends with {} {:?}",
            java.exit, java.errors
        )
    })
}

fn between(key: &Key, java: &Facts, klamm: &Facts) -> Vec<Difference> {
    let difference = |about: &str, java: String, klamm: String| {
        (java != klamm).then(|| Difference {
            step: key.case.name.to_owned(),
            about: format!("{} {} / {about}", key.version, key.way),
            java,
            klamm,
        })
    };
    let errors = |facts: &Facts| {
        let names: Vec<&str> = facts.errors.iter().map(String::as_str).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    };
    let (only_java, only_klamm) = only(&java.printed, &klamm.printed);
    [
        difference("exit", java.exit.to_string(), klamm.exit.to_string()),
        difference("errors", errors(java), errors(klamm)),
        difference("printed", only_java, only_klamm),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The lines that only one of the two has, `absent` where there is none.
fn only(left: &[String], right: &[String]) -> (String, String) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in left {
        *counts.entry(line).or_default() += 1;
    }
    for line in right {
        *counts.entry(line).or_default() -= 1;
    }
    let listed = |wanted: fn(i64) -> bool| {
        let lines: Vec<&str> = counts
            .iter()
            .filter(|(_, count)| wanted(**count))
            .map(|(line, _)| *line)
            .collect();
        match lines.is_empty() {
            true => "absent".to_owned(),
            false => lines.join(" | "),
        }
    };
    (listed(|count| count > 0), listed(|count| count < 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tool;
    use crate::tools::case::case;

    fn key() -> Key {
        Key {
            version: KafkaVersion::V3_9_2,
            way: Way::Brokers,
            case: case("x", Tool::Topics, "{server} --list"),
        }
    }

    fn outcome(exit: i32, errors: &[&str], printed: &[&str]) -> Outcome {
        Outcome {
            took: Duration::ZERO,
            facts: Ok(Facts {
                exit,
                errors: errors.iter().map(|text| (*text).to_owned()).collect(),
                printed: printed.iter().map(|text| (*text).to_owned()).collect(),
            }),
        }
    }

    #[test]
    fn each_kind_of_difference_fails_a_case() {
        let java = outcome(0, &[], &["a", "b", "b"]);
        let faults = |klamm: &Outcome| judge(&key(), &java, klamm, &[]).faults.len();
        assert_eq!(faults(&java), 0);
        assert_eq!(faults(&outcome(1, &[], &["a", "b", "b"])), 1);
        assert_eq!(faults(&outcome(0, &["X"], &["a", "b", "b"])), 1);
        assert_eq!(faults(&outcome(0, &[], &["a", "b"])), 1);
        let hung = Outcome {
            took: Duration::ZERO,
            facts: Err("it hung".to_owned()),
        };
        assert_eq!(faults(&hung), 1);
    }

    #[test]
    fn a_case_that_ends_otherwise_than_it_says_fails_although_both_do_the_same() {
        let refused = outcome(1, &["X"], &[]);
        assert_eq!(judge(&key(), &refused, &refused, &[]).faults.len(), 1);
        assert!(ended_wrongly(Ends::Refused, &refused.facts.clone().unwrap()).is_none());
        let well = outcome(0, &[], &[]);
        assert!(ended_wrongly(Ends::Refused, &well.facts.unwrap()).is_some());
    }

    #[test]
    fn only_the_lines_that_differ_are_told() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            only(&lines("a b c"), &lines("a c")),
            ("b".to_owned(), "absent".to_owned())
        );
    }
}
