//! The genuine command line tools of any release, by their main classes; and the suite that plays them under the Java
//! controller and under klamm and compares what they say.

pub mod case;
pub mod cases;
pub mod facts;
pub mod host;
pub mod suite;

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::jars::Jars;
use crate::process::{Launch, Process, Talk};
use crate::run::Run;
use crate::version::KafkaVersion;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A tool, named as its shell script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Topics,
    Configs,
    ReassignPartitions,
    /// From 2.4 on.
    LeaderElection,
    /// Up to 2.8.
    PreferredReplicaElection,
    Acls,
    ConsumerGroups,
    LogDirs,
    DeleteRecords,
    BrokerApiVersions,
    /// From 2.7 on.
    Features,
    /// From 3.0 on.
    Transactions,
    ProducerPerfTest,
    StreamsApplicationReset,
}

impl Tool {
    pub const fn script(self) -> &'static str {
        match self {
            Self::Topics => "kafka-topics",
            Self::Configs => "kafka-configs",
            Self::ReassignPartitions => "kafka-reassign-partitions",
            Self::LeaderElection => "kafka-leader-election",
            Self::PreferredReplicaElection => "kafka-preferred-replica-election",
            Self::Acls => "kafka-acls",
            Self::ConsumerGroups => "kafka-consumer-groups",
            Self::LogDirs => "kafka-log-dirs",
            Self::DeleteRecords => "kafka-delete-records",
            Self::BrokerApiVersions => "kafka-broker-api-versions",
            Self::Features => "kafka-features",
            Self::Transactions => "kafka-transactions",
            Self::ProducerPerfTest => "kafka-producer-perf-test",
            Self::StreamsApplicationReset => "kafka-streams-application-reset",
        }
    }

    /// The class that the script of `version` starts.
    pub const fn main_class(self, version: KafkaVersion) -> &'static str {
        match self {
            Self::Topics if version.at_least(3, 7) => "org.apache.kafka.tools.TopicCommand",
            Self::Topics => "kafka.admin.TopicCommand",
            Self::Configs => "kafka.admin.ConfigCommand",
            Self::ReassignPartitions if version.at_least(3, 7) => {
                "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
            }
            Self::ReassignPartitions => "kafka.admin.ReassignPartitionsCommand",
            Self::LeaderElection if version.at_least(3, 7) => {
                "org.apache.kafka.tools.LeaderElectionCommand"
            }
            Self::LeaderElection => "kafka.admin.LeaderElectionCommand",
            Self::PreferredReplicaElection => "kafka.admin.PreferredReplicaLeaderElectionCommand",
            Self::Acls => "kafka.admin.AclCommand",
            Self::ConsumerGroups if version.at_least(3, 8) => {
                "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
            }
            Self::ConsumerGroups => "kafka.admin.ConsumerGroupCommand",
            Self::LogDirs if version.at_least(3, 6) => "org.apache.kafka.tools.LogDirsCommand",
            Self::LogDirs => "kafka.admin.LogDirsCommand",
            Self::DeleteRecords if version.at_least(3, 6) => {
                "org.apache.kafka.tools.DeleteRecordsCommand"
            }
            Self::DeleteRecords => "kafka.admin.DeleteRecordsCommand",
            Self::BrokerApiVersions => "kafka.admin.BrokerApiVersionsCommand",
            Self::Features if version.at_least(3, 6) => "org.apache.kafka.tools.FeatureCommand",
            Self::Features => "kafka.admin.FeatureCommand",
            Self::Transactions => "org.apache.kafka.tools.TransactionsCommand",
            Self::ProducerPerfTest => "org.apache.kafka.tools.ProducerPerformance",
            Self::StreamsApplicationReset if version.at_least(3, 5) => {
                "org.apache.kafka.tools.StreamsResetter"
            }
            Self::StreamsApplicationReset => "kafka.tools.StreamsResetter",
        }
    }

    /// Runs the tool of `version` in a JVM of its own and returns what it printed.
    ///
    /// # Errors
    /// When it ends with anything but success, with what it printed; tools of Kafka ≤ 2.8 print an error and still end
    /// with success now and then, so look at the outcome too.
    pub fn run(self, run: &Run, version: KafkaVersion, arguments: &[&str]) -> Result<String> {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let jars = Jars::of(version)?;
        let log = run.log(&format!(
            "{}-{version}-{}.log",
            self.script(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        ));
        let mut command = vec![
            "-Xmx128m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            log4j_flag(run)?,
            "-cp".to_owned(),
            jars.class_path(),
            self.main_class(version).to_owned(),
        ];
        command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let mut process = Process::start(Launch {
            name: format!("{} {version}", self.script()),
            program: "java".into(),
            arguments: command,
            environment: Vec::new(),
            log: log.clone(),
            talk: Talk::None,
        })?;
        let status = process.wait_end(TIMEOUT)?;
        let said =
            fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
        if !status.success() {
            bail!(
                "{} {version} {} ended with {status}:\n{said}",
                self.script(),
                arguments.join(" ")
            );
        }
        Ok(said)
    }
}

/// The logging of command line tools: warnings only, on standard error.
///
/// # Errors
/// When its configuration cannot be written.
pub fn log4j_flag(run: &Run) -> Result<String> {
    log4j_flag_from(run, "WARN")
}

/// [`log4j_flag`], from another level on.
fn log4j_flag_from(run: &Run, level: &str) -> Result<String> {
    let path = run.conf(&format!("tools-{level}-log4j.properties"));
    let text = format!(
        "log4j.rootLogger={level}, stderr\n\
         log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n\
         log4j.appender.stderr.target=System.err\n\
         log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n\
         log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    );
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("-Dlog4j.configuration=file:{}", path.display()))
}
