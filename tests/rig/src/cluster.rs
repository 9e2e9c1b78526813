//! A cluster of genuine processes: ZooKeeper, brokers, klamms and traffic, and what a story does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::broker::{Broker, BrokerPlan, port, tap_port};
use crate::client::{Traffic, TrafficPlan};
use crate::jars::Jars;
use crate::klamm::{Klamm, KlammPlan};
use crate::proxy::Proxy;
use crate::run::Run;
use crate::stories::Leading;
use crate::tap::{Tap, Tape};
use crate::tools::Tool;
use crate::version::{Ibp, KafkaVersion};
use crate::zk::{TopicPartition, Zk};
use crate::zookeeper::ZooKeeper;

/// What a story's cluster is made of.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// One broker each, ids from 1 on.
    pub brokers: Vec<KafkaVersion>,
    pub ibp: Ibp,
    /// The release whose jars bring ZooKeeper.
    pub zookeeper: KafkaVersion,
    /// Appended to `zookeeper.connect`: empty, or `/path`.
    pub chroot: String,
    /// Further properties of every broker.
    pub properties: Vec<(String, String)>,
    /// Keys that klamm's file lacks and the brokers' files have.
    pub klamm_leaves_out: &'static [&'static str],
    /// Whether klamm is to lead, or the brokers' own controller.
    pub leading: Leading,
    /// Where taps on the brokers' listeners keep what they hear; without it there are none.
    pub tape: Option<Tape>,
    pub start: Start,
}

/// How the brokers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Together,
    /// Each when the one before is up: what they do at their start comes in the same order each time, and the first is the
    /// Java controller.
    OneByOne,
}

impl ClusterPlan {
    /// A cluster of `brokers` at `ibp`, on the ZooKeeper of 3.9.
    pub fn new(brokers: &[KafkaVersion], ibp: Ibp) -> Self {
        Self {
            brokers: brokers.to_vec(),
            ibp,
            zookeeper: KafkaVersion::V3_9_2,
            chroot: String::new(),
            properties: Vec::new(),
            klamm_leaves_out: &[],
            leading: Leading::Klamm,
            tape: None,
            start: Start::Together,
        }
    }

    pub fn with_zookeeper(mut self, version: KafkaVersion) -> Self {
        self.zookeeper = version;
        self
    }

    pub fn with_property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A running cluster; everything ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub traffic: Option<Traffic>,
    /// Stands between klamm and ZooKeeper in stories that cut connections.
    pub proxy: Option<Proxy>,
    /// Stand between the brokers' listeners and whoever dials them; one a broker where the plan has a tape.
    taps: Vec<Tap>,
    /// Topics whose names begin so are broken on purpose; nobody waits for them.
    pub overlooked: Option<&'static str>,
    /// Brokers that run without any of their replicas, because the directory of their logs fails.
    pub failed_logs: BTreeSet<i32>,
    pub klamms: BTreeMap<i32, Klamm>,
    pub brokers: BTreeMap<i32, Broker>,
    pub zookeeper: ZooKeeper,
    pub zk: Zk,
    pub plan: ClusterPlan,
    // Last: the processes above must be gone before the data goes.
    pub run: Run,
}

impl Cluster {
    /// Starts ZooKeeper and all brokers and waits until they are up, under their Java controller.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start(label: &str, plan: ClusterPlan) -> Result<Self> {
        let run = Run::start(label)?;
        let zookeeper = ZooKeeper::start(&run, Jars::of(plan.zookeeper)?)?;
        let connect = format!("{}{}", zookeeper.connect, plan.chroot);
        if !plan.chroot.is_empty() {
            Zk::new(&zookeeper.connect).create(&plan.chroot, b"")?;
        }
        let zk = Zk::new(&connect);
        let mut cluster = Self {
            traffic: None,
            proxy: None,
            taps: Vec::new(),
            overlooked: None,
            failed_logs: BTreeSet::new(),
            klamms: BTreeMap::new(),
            brokers: BTreeMap::new(),
            zookeeper,
            zk,
            plan,
            run,
        };
        let logs = cluster.run.logs().display().to_string();
        cluster
            .start_brokers(&connect)
            .with_context(|| format!("the cluster does not come up; its logs: {logs}"))?;
        Ok(cluster)
    }

    fn start_brokers(&mut self, connect: &str) -> Result<()> {
        for (id, version) in (1..).zip(self.plan.brokers.clone()) {
            let tap = self.plan.tape.as_ref().map(|tape| {
                let address = &self.run.address;
                Tap::start(address.port(tap_port(id)), address.port(port(id)), id, tape)
            });
            let tap = tap.transpose()?;
            let plan = BrokerPlan {
                id,
                ibp: self.plan.ibp,
                zookeeper: connect.to_owned(),
                brokers: self.plan.brokers.len(),
                advertised: tap.as_ref().map(|tap| tap.address.clone()),
                properties: self.plan.properties.clone(),
            };
            self.taps.extend(tap);
            let mut broker = Broker::start(&self.run, &Jars::of(version)?, &plan)?;
            if self.plan.start == Start::OneByOne {
                broker.wait_up(&self.zk)?;
            }
            self.brokers.insert(id, broker);
        }
        for broker in self.brokers.values_mut() {
            broker.wait_up(&self.zk)?;
        }
        Ok(())
    }

    /// Brokers, protocol and ZooKeeper in a few words.
    pub fn described(&self) -> String {
        let brokers: Vec<String> = self
            .brokers
            .values()
            .map(|broker| format!("{} ({})", broker.id, broker.version))
            .collect();
        format!(
            "brokers {} at IBP {}, ZooKeeper of {}, on {}",
            brokers.join(", "),
            self.plan.ibp,
            self.plan.zookeeper,
            self.run.address
        )
    }

    /// `bootstrap.servers` naming the genuine brokers.
    pub fn bootstrap(&self) -> String {
        self.brokers
            .values()
            .map(|broker| broker.address.clone())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The ids of the genuine brokers, up or not.
    pub fn genuine_ids(&self) -> BTreeSet<i32> {
        self.brokers.keys().copied().collect()
    }

    /// Whether a partition must be led and in sync for the cluster to be at rest.
    pub fn counts(&self, partition: &TopicPartition) -> bool {
        self.overlooked
            .is_none_or(|prefix| !partition.topic.starts_with(prefix))
    }

    pub fn broker(&mut self, id: i32) -> Result<&mut Broker> {
        self.brokers
            .get_mut(&id)
            .with_context(|| format!("the cluster has no broker {id}"))
    }

    pub fn klamm(&mut self, id: i32) -> Result<&mut Klamm> {
        self.klamms
            .get_mut(&id)
            .with_context(|| format!("no klamm {id} was started"))
    }

    /// The klamm of this cluster that holds the role, if one does.
    pub fn leading_klamm(&mut self) -> Option<i32> {
        let owner = self.zk.controller().ok().flatten()?;
        let klamm = self.klamms.get_mut(&owner.id)?;
        klamm.process.is_running().then_some(owner.id)
    }

    pub fn traffic(&mut self) -> Result<&mut Traffic> {
        self.traffic.as_mut().context("no traffic was started")
    }

    /// The addresses of the brokers that run and are not paused.
    pub fn answering_brokers(&mut self) -> Vec<(i32, String)> {
        self.brokers
            .iter_mut()
            .filter_map(|(id, broker)| {
                broker
                    .process
                    .is_running()
                    .then(|| (*id, broker.address.clone()))
            })
            .collect()
    }

    /// Starts a klamm with the file of the first broker.
    ///
    /// # Errors
    /// When it cannot be started. Whether it takes the role is seen with [`Cluster::wait_controller`].
    pub fn start_klamm(&mut self, id: i32, overrides: &[(&str, &str)]) -> Result<()> {
        let plan = KlammPlan {
            id,
            broker_config: self.first_config()?,
            overrides: overrides
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            leaves_out: self.plan.klamm_leaves_out,
        };
        let klamm = Klamm::start(&self.run, &plan)?;
        self.klamms.insert(id, klamm);
        Ok(())
    }

    /// The server.properties of the first broker.
    pub fn first_config(&self) -> Result<PathBuf> {
        let first = self
            .brokers
            .values()
            .next()
            .context("the cluster has no broker")?;
        Ok(first.config.clone())
    }

    /// Starts the Java client, producing to `topics` (which must exist, with so many partitions each).
    ///
    /// # Errors
    /// When it does not start, or does not see the topics.
    pub fn start_traffic(
        &mut self,
        topics: &[(&str, usize)],
        records_per_second: u32,
    ) -> Result<()> {
        let plan = TrafficPlan {
            bootstrap: self.bootstrap(),
            idempotent: true,
            records_per_second,
            group: Some("readers".to_owned()),
        };
        self.start_traffic_as(plan, topics)
    }

    /// As [`Cluster::start_traffic`], with every choice given.
    ///
    /// # Errors
    /// As [`Cluster::start_traffic`].
    pub fn start_traffic_as(&mut self, plan: TrafficPlan, topics: &[(&str, usize)]) -> Result<()> {
        let jars = Jars::of(KafkaVersion::V3_9_2)?;
        let mut traffic = Traffic::start(&self.run, &jars, plan)?;
        for (topic, partitions) in topics {
            traffic.add_topic(topic, *partitions)?;
        }
        traffic.wait_flowing(Duration::from_secs(60))?;
        self.traffic = Some(traffic);
        Ok(())
    }

    /// Stops the traffic and judges it: the error tells every kind of fault, the text the counts.
    ///
    /// # Errors
    /// When a record is lost, duplicated, out of order or taken back, or the client fails.
    pub fn finish_traffic(&mut self) -> Result<String> {
        let verdict = self.traffic()?.finish()?;
        if verdict.faults.is_empty() {
            return Ok(verdict.to_string());
        }
        let first: Vec<String> = verdict
            .faults
            .iter()
            .take(10)
            .map(|(partition, fault)| format!("{partition}: {fault}"))
            .collect();
        bail!("{verdict}:\n  {}", first.join("\n  "))
    }

    /// Runs kafka-topics of 2.8.2, the last with `--zookeeper`.
    ///
    /// # Errors
    /// As [`Tool::run`].
    pub fn topics_by_zookeeper(&self, arguments: &[&str]) -> Result<String> {
        let connect = format!("{}{}", self.zookeeper.connect, self.plan.chroot);
        let mut all = vec!["--zookeeper", connect.as_str()];
        all.extend_from_slice(arguments);
        Tool::Topics.run(&self.run, KafkaVersion::V2_8_2, &all)
    }

    /// Creates a topic through ZooKeeper, which works under any controller and costs no JVM: replicas are placed round
    /// robin on the genuine brokers.
    ///
    /// # Errors
    /// When the node cannot be created.
    pub fn create_topic(&self, topic: &str, partitions: usize, replication: usize) -> Result<()> {
        let ids: Vec<i32> = self.brokers.keys().copied().collect();
        self.zk.create(
            &format!("/config/topics/{topic}"),
            br#"{"version":1,"config":{}}"#,
        )?;
        self.zk.create(
            &format!("/brokers/topics/{topic}"),
            &assignment(&ids, partitions, replication),
        )
    }
}

/// A topic node as the tools write it: partition p on the brokers from the p-th on.
pub fn assignment(ids: &[i32], partitions: usize, replication: usize) -> Vec<u8> {
    let partitions: serde_json::Map<String, serde_json::Value> = (0..partitions)
        .map(|partition| {
            let replicas: Vec<i32> = ids
                .iter()
                .cycle()
                .skip(partition % ids.len().max(1))
                .take(replication.min(ids.len()))
                .copied()
                .collect();
            (partition.to_string(), serde_json::json!(replicas))
        })
        .collect();
    serde_json::json!({"version": 1, "partitions": partitions})
        .to_string()
        .into_bytes()
}
