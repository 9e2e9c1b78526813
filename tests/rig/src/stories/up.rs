//! A cluster with klamm for somebody to play with.

use std::fmt::Write;

use anyhow::Result;

use super::Choice;
use super::acts;
use crate::cluster::{Cluster, ClusterPlan};
use crate::jars::Jars;
use crate::klamm::{self, FIRST_ID};
use crate::tools;
use crate::version::KafkaVersion;

/// Three brokers of the last release, unless chosen otherwise.
pub fn plan(choice: &Choice) -> ClusterPlan {
    choice.plan_or(&[
        KafkaVersion::V3_9_2,
        KafkaVersion::V3_9_2,
        KafkaVersion::V3_9_2,
    ])
}

/// Lets klamm lead, and says where everything is and what can be tried.
///
/// # Errors
/// When klamm does not get the role.
pub fn started(cluster: &mut Cluster) -> Result<String> {
    let told = acts::takeover(cluster)?;
    let klamm = cluster.klamm(FIRST_ID)?;
    let (address, http) = (klamm.address.clone(), klamm.http.clone());
    let zookeeper = format!("{}{}", cluster.zookeeper.connect, cluster.plan.chroot);

    let mut text = format!("{}\nklamm leads: {}\n\n", cluster.described(), told.detail);
    let mut line = |name: &str, value: &str| writeln!(text, "  {name:<12} {value}");
    line("ZooKeeper", &zookeeper)?;
    for broker in cluster.brokers.values() {
        line(
            &format!("broker {}", broker.id),
            &format!("{}  Kafka {}", broker.address, broker.version),
        )?;
    }
    line(
        &format!("klamm {FIRST_ID}"),
        &format!("{address}  http://{http}/metrics  http://{http}/readyz"),
    )?;
    line("logs", &cluster.run.logs().display().to_string())?;

    text.push_str(&examples(cluster)?);
    Ok(text)
}

/// Commands that can be pasted into another shell.
fn examples(cluster: &mut Cluster) -> Result<String> {
    let log4j = tools::log4j_flag(&cluster.run)?;
    let java = |version| -> Result<String> {
        Ok(format!(
            "java {log4j} -cp '{}' \"$@\"",
            Jars::of(version)?.class_path()
        ))
    };
    let (kafka, kafka_2_8) = (java(KafkaVersion::V3_9_2)?, java(KafkaVersion::V2_8_2)?);
    let bootstrap = cluster.bootstrap();
    let zookeeper = format!("{}{}", cluster.zookeeper.connect, cluster.plan.chroot);
    let replication = cluster.brokers.len().min(3);
    let pid = cluster
        .brokers
        .values()
        .next()
        .map_or(0, |broker| broker.process.pid());
    let binary = klamm::binary()?;
    let klamm = cluster.klamm(FIRST_ID)?;
    let config = klamm.config.display();
    Ok(format!(
        "
In another shell, first:

  kafka() {{ {kafka}; }}
  kafka28() {{ {kafka_2_8}; }}

then a topic, through ZooKeeper, and who leads it:

  kafka28 kafka.admin.TopicCommand --zookeeper {zookeeper} --create --topic demo --partitions 6 --replication-factor {replication}
  kafka org.apache.kafka.tools.TopicCommand --bootstrap-server {bootstrap} --describe --topic demo

records, in and out:

  seq 1000 | kafka kafka.tools.ConsoleProducer --bootstrap-server {bootstrap} --topic demo
  kafka org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server {bootstrap} --topic demo --from-beginning --max-messages 1000

the first broker's death, and who leads now (ask as above):

  kill -9 {pid}

klamm's metrics, and the role back to the Java brokers and to klamm again:

  curl -s http://{http}/metrics | grep activecontrollercount
  {binary} handback --config {config}
  {binary} takeover --config {config}

Ctrl-C ends all.",
        http = klamm.http,
        binary = binary.display(),
    ))
}
