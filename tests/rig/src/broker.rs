//! A genuine broker: its configuration, its process, and when it counts as up.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::jars::Jars;
use crate::process::{Launch, Process, Talk};
use crate::properties::rewrite;
use crate::run::Run;
use crate::version::{Ibp, KafkaVersion};
use crate::wait::{self, Seen};
use crate::wire::Connection;
use crate::zk::Zk;

/// The session timeout that brokers ask ZooKeeper for: what a broker's sudden death costs at least.
pub const SESSION_TIMEOUT_MS: u64 = 6_000;

const FIRST_PORT: u16 = 9_091;
/// A JVM on a machine with two busy cores takes its time.
const START_TIMEOUT: Duration = Duration::from_secs(240);
const STOP_TIMEOUT: Duration = Duration::from_secs(90);

/// What all brokers of a cluster share.
#[derive(Debug, Clone)]
pub struct BrokerPlan {
    pub id: i32,
    pub ibp: Ibp,
    /// `zookeeper.connect`.
    pub zookeeper: String,
    /// Brokers in the cluster: bounds the replication factors.
    pub brokers: usize,
    /// `ip:port` that it tells everybody to dial, where that is not its listener.
    pub advertised: Option<String>,
    /// Further properties; a key given here replaces the rig's, `{ip}` stands for the run's address, and `{data}` for the
    /// broker's folder.
    pub properties: Vec<(String, String)>,
}

/// One broker of a cluster.
#[derive(Debug)]
pub struct Broker {
    pub id: i32,
    pub version: KafkaVersion,
    /// `ip:port` of its one listener.
    pub address: String,
    /// Its server.properties.
    pub config: PathBuf,
    pub process: Process,
}

impl Broker {
    /// Writes the configuration and starts the process; see [`Broker::wait_up`].
    ///
    /// # Errors
    /// When either cannot be done.
    pub fn start(run: &Run, jars: &Jars, plan: &BrokerPlan) -> Result<Self> {
        let id = plan.id;
        let address = run.address.port(port(id));
        let config = run.conf(&format!("broker-{id}.properties"));
        let text = properties(run, &address, plan);
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        let launch = Launch {
            name: format!("broker {id} ({})", jars.version),
            program: "java".into(),
            arguments: vec![
                "-Xms96m".to_owned(),
                "-Xmx288m".to_owned(),
                "-XX:+UseSerialGC".to_owned(),
                "-XX:TieredStopAtLevel=1".to_owned(),
                log4j_flag(run)?,
                "-cp".to_owned(),
                jars.class_path(),
                "kafka.Kafka".to_owned(),
                config.display().to_string(),
            ],
            environment: Vec::new(),
            log: run.log(&format!("broker-{id}.log")),
            talk: Talk::None,
        };
        let process = Process::start(launch)?;
        Ok(Self {
            id,
            version: jars.version,
            address,
            config,
            process,
        })
    }

    /// Waits until the broker is registered in ZooKeeper and answers on its port; returns how long that took.
    ///
    /// # Errors
    /// When it ends or is not up within four minutes.
    pub fn wait_up(&mut self, zk: &Zk) -> Result<Duration> {
        let (id, address) = (self.id, self.address.clone());
        let what = format!("{} to be registered and to answer", self.process.name());
        let (_, took) = wait::until(&what, START_TIMEOUT, || {
            if let Some(status) = self.process.ended_by_itself() {
                return Ok(Seen::Never(format!(
                    "it ended with {status}; its log: {}",
                    self.process.log().display()
                )));
            }
            if zk.registration(id)?.is_none() {
                return Ok(Seen::Not(format!(
                    "no /brokers/ids/{id}; its log: {}",
                    self.process.log().display()
                )));
            }
            Connection::open(&address)?.api_versions()?;
            Ok(Seen::Done(()))
        })?;
        Ok(took)
    }

    /// Starts the broker again once ZooKeeper has dropped its former registration, as a supervisor's retries would: a
    /// broker that finds itself registered by an unexpired session may refuse to start (KAFKA-6584 and kin).
    ///
    /// # Errors
    /// When the old registration stays or the broker does not come up.
    pub fn restart(&mut self, zk: &Zk) -> Result<()> {
        self.wait_unregistered(zk)?;
        self.process.restart()
    }

    /// Changes a line of its configuration, which it reads at its next start.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn set_property(&self, key: &str, value: &str) -> Result<()> {
        rewrite(&self.config, &self.config, &[(key, value)], &[])
    }

    /// Waits until ZooKeeper has dropped the broker's registration; returns how long that took.
    pub fn wait_unregistered(&self, zk: &Zk) -> Result<Duration> {
        let id = self.id;
        let what = format!("/brokers/ids/{id} to go");
        let (_, took) = wait::until(&what, Duration::from_secs(30), || {
            Ok(match zk.registration(id)? {
                None => Seen::Done(()),
                Some(registration) => {
                    Seen::Not(format!("session {:#x} holds it", registration.session))
                }
            })
        })?;
        Ok(took)
    }

    /// SIGTERM: a controlled shutdown.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop(STOP_TIMEOUT).map(|_| ())
    }
}

/// The port of broker `id`: 9092 for the first.
pub fn port(id: i32) -> u16 {
    FIRST_PORT + u16::try_from(id).unwrap_or(0)
}

/// The port of the tap on broker `id`.
pub fn tap_port(id: i32) -> u16 {
    port(id) + 500
}

/// The port of a listener that broker `id` opens while it runs.
pub fn opened_port(id: i32) -> u16 {
    port(id) + 700
}

fn properties(run: &Run, address: &str, plan: &BrokerPlan) -> String {
    let replication = plan.brokers.min(3);
    let in_sync = if replication > 2 { 2 } else { 1 };
    let defaults = [
        ("broker.id", plan.id.to_string()),
        ("listeners", format!("PLAINTEXT://{address}")),
        (
            "log.dirs",
            run.data(&format!("broker-{}", plan.id))
                .display()
                .to_string(),
        ),
        ("zookeeper.connect", plan.zookeeper.clone()),
        (
            "zookeeper.session.timeout.ms",
            SESSION_TIMEOUT_MS.to_string(),
        ),
        ("zookeeper.connection.timeout.ms", "30000".to_owned()),
        ("inter.broker.protocol.version", plan.ibp.to_string()),
        ("controlled.shutdown.enable", "true".to_owned()),
        ("controlled.shutdown.max.retries", "3".to_owned()),
        ("controlled.shutdown.retry.backoff.ms", "1000".to_owned()),
        ("auto.create.topics.enable", "true".to_owned()),
        ("unclean.leader.election.enable", "false".to_owned()),
        ("num.partitions", "4".to_owned()),
        ("default.replication.factor", replication.to_string()),
        ("min.insync.replicas", in_sync.to_string()),
        ("offsets.topic.replication.factor", replication.to_string()),
        ("offsets.topic.num.partitions", "5".to_owned()),
        (
            "transaction.state.log.replication.factor",
            replication.to_string(),
        ),
        ("transaction.state.log.min.isr", in_sync.to_string()),
        ("transaction.state.log.num.partitions", "5".to_owned()),
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
        // One figure for all releases: the default rose in 2.5.
        ("replica.lag.time.max.ms", "10000".to_owned()),
        // Small, for many brokers on a small machine.
        ("num.network.threads", "2".to_owned()),
        ("num.io.threads", "4".to_owned()),
        ("background.threads", "2".to_owned()),
        ("log.cleaner.dedupe.buffer.size", "4194304".to_owned()),
        ("log.index.size.max.bytes", "262144".to_owned()),
    ];
    let mut text = String::new();
    for (key, value) in defaults {
        if !plan.properties.iter().any(|(given, _)| given == key) {
            text.push_str(&format!("{key}={value}\n"));
        }
    }
    if let Some(advertised) = &plan.advertised {
        text.push_str(&format!("advertised.listeners=PLAINTEXT://{advertised}\n"));
    }
    let data = run.data(&format!("broker-{}", plan.id));
    for (key, value) in &plan.properties {
        let value = value
            .replace("{ip}", &run.address.to_string())
            .replace("{data}", &data.display().to_string());
        text.push_str(&format!("{key}={value}\n"));
    }
    text
}

/// The logging configuration of every JVM of a run: Kafka's own line format, on standard output, and controller and
/// state changes at INFO in every release (the state-change log stood at TRACE up to 2.5).
///
/// # Errors
/// When it cannot be written.
pub fn log4j_flag(run: &Run) -> Result<String> {
    let path = run.conf("log4j.properties");
    if !path.exists() {
        let text = "log4j.rootLogger=INFO, stdout\n\
                    log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n\
                    log4j.appender.stdout.layout=org.apache.log4j.PatternLayout\n\
                    log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n\n\
                    log4j.logger.kafka.controller=INFO\n\
                    log4j.logger.state.change.logger=INFO\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(format!("-Dlog4j.configuration=file:{}", path.display()))
}
