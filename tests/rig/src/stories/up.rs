//! A cluster with klamm for somebody to play with.

use std::fmt::Write;

use anyhow::Result;

use super::Choice;
use super::acts;
use crate::cluster::{Cluster, ClusterPlan};
use crate::jars::Jars;
use crate::klamm::{self, FIRST_ID};
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
    let (address, http, config) = (
        klamm.address.clone(),
        klamm.http.clone(),
        klamm.config.clone(),
    );
    let tools = Jars::of(KafkaVersion::V3_9_2)?;
    let old_tools = Jars::of(KafkaVersion::V2_8_2)?;
    let bootstrap = cluster.bootstrap();
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

    let binary = klamm::binary()?;
    write!(
        text,
        "\nTry, from another shell:\n\
         \n  # a topic, and who leads it\n  \
         java -cp '{new}' org.apache.kafka.tools.TopicCommand --bootstrap-server {bootstrap} --create --topic demo --partitions 6 --replication-factor 3\n  \
         java -cp '{new}' org.apache.kafka.tools.TopicCommand --bootstrap-server {bootstrap} --describe --topic demo\n  \
         java -cp '{old}' kafka.admin.TopicCommand --zookeeper {zookeeper} --create --topic by-zookeeper --partitions 3 --replication-factor 3\n\
         \n  # records\n  \
         java -cp '{new}' org.apache.kafka.tools.ConsoleProducer --bootstrap-server {bootstrap} --topic demo\n  \
         java -cp '{new}' org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server {bootstrap} --topic demo --from-beginning\n\
         \n  # kill a broker, and see who leads now\n  \
         kill -9 {pid}\n\
         \n  # who is the controller, by its metrics\n  \
         curl -s http://{http}/metrics | grep activecontrollercount\n\
         \n  # hand the role back to the Java brokers, and take it again\n  \
         {klamm} handback --config {config}\n  \
         {klamm} takeover --config {config}\n\
         \nCtrl-C ends all.",
        new = tools.class_path(),
        old = old_tools.class_path(),
        pid = cluster
            .brokers
            .values()
            .next()
            .map_or(0, |broker| broker.process.pid()),
        klamm = binary.display(),
        config = config.display(),
    )?;
    Ok(text)
}
