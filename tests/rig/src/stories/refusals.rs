//! Starts that klamm must refuse with a clear message, having written nothing.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use super::acts::PATIENCE;
use super::{Pace, Story};
use crate::cluster::Cluster;
use crate::klamm;
use crate::properties;
use crate::teller::{Teller, Told};
use crate::version::KafkaVersion;
use crate::wait::Seen;

pub const ID_OF_A_BROKER: Story = Story {
    name: "id-of-a-broker",
    about: "klamm.id equal to a genuine broker's, up or down, is refused and nothing is written",
    pace: Pace::Quick,
    baseline: false,
    plan: |choice| choice.plan_or(&[KafkaVersion::V2_8_2, KafkaVersion::V2_8_2]),
    tell: id_of_a_broker,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn id_of_a_broker(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("a topic is there", || {
        cluster.create_topic("orders", 4, 2)?;
        cluster.wait_topic("orders", 4, PATIENCE)?;
        cluster.wait_all_led(PATIENCE)?;
        Ok("")
    })?;
    teller.step(
        "the id of the broker whose file klamm got is refused",
        || {
            refused(
                cluster,
                "id-of-the-file",
                &[("klamm.id", "1")],
                &["klamm.id=1", "broker.id=1"],
            )
        },
    )?;
    teller.step("the id of another broker that is up is refused", || {
        refused(
            cluster,
            "id-of-a-live-broker",
            &[("klamm.id", "2")],
            &["klamm.id=2"],
        )
    })?;
    teller.step("that broker goes down", || {
        let zk = cluster.zk.clone();
        let broker = cluster.broker(2)?;
        broker.stop()?;
        broker.wait_unregistered(&zk)?;
        cluster.wait_all_led(PATIENCE)?;
        Ok("")
    })?;
    teller.step("its id is refused all the same", || {
        refused(
            cluster,
            "id-of-a-broker-that-is-down",
            &[("klamm.id", "2")],
            &["klamm.id=2"],
        )
    })
}

pub const SECURED_CONFIG: Story = Story {
    name: "secured-config",
    about: "a configuration that asks for TLS, SASL or an authorizer is refused at start and nothing is written",
    pace: Pace::Quick,
    baseline: false,
    plan: |choice| choice.plan_or(&[KafkaVersion::V3_9_2]),
    tell: secured_config,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn secured_config(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    let address = &cluster.run.address;
    let tls_listener = format!(
        "PLAINTEXT://{},SSL://{}",
        address.port(9_192),
        address.port(9_182)
    );
    let asked: [(&str, &str, &str); 5] = [
        (
            "security.inter.broker.protocol",
            "SSL",
            "tls-between-brokers",
        ),
        (
            "security.inter.broker.protocol",
            "SASL_PLAINTEXT",
            "sasl-between-brokers",
        ),
        ("klamm.listeners", &tls_listener, "tls-listener"),
        ("zookeeper.ssl.client.enable", "true", "tls-to-zookeeper"),
        (
            "authorizer.class.name",
            "kafka.security.authorizer.AclAuthorizer",
            "authorizer",
        ),
    ];
    for (key, value, name) in asked {
        teller.step(&format!("{key}={value} is refused"), || {
            refused(cluster, name, &[(key, value)], &[key])
        })?;
    }
    Ok(())
}

pub const SECURED_BROKERS: Story = Story {
    name: "secured-brokers",
    about: "brokers with a listener that is not PLAINTEXT, and an authorizer, are refused before any takeover",
    pace: Pace::Quick,
    baseline: false,
    plan: |choice| {
        choice
            .plan_of_one(KafkaVersion::V3_9_2)
            .with_property("listeners", "PLAINTEXT://{ip}:9092,SASL_PLAINTEXT://{ip}:9082")
            .with_property("sasl.enabled.mechanisms", "PLAIN")
            .with_property(
                "listener.name.sasl_plaintext.plain.sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required user_reader=\"secret\";",
            )
            .with_property("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer")
            .with_property("allow.everyone.if.no.acl.found", "true")
    },
    tell: secured_brokers,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

/// What the first broker's file holds beyond a plain one, in the order of the plan above.
const SECURED_KEYS: [&str; 4] = [
    "sasl.enabled.mechanisms",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config",
    "authorizer.class.name",
    "allow.everyone.if.no.acl.found",
];

/// The file that klamm gets speaks of none of it: only the live brokers do.
fn secured_brokers(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    let plain_listener = format!("PLAINTEXT://{}", cluster.broker(1)?.address);
    let lines = [("listeners", plain_listener.as_str())];
    let of_the_brokers = |name, needles| Refusal {
        name,
        lines: &lines,
        without: &SECURED_KEYS,
        needles,
        written: Written::ItsMark,
    };
    teller.step("a broker's SASL listener is refused", || {
        of_the_brokers("sasl-listener-of-a-broker", &["SASL_PLAINTEXT"]).seen(cluster)
    })?;
    teller.step(
        "the broker drops that listener and keeps its authorizer",
        || {
            let zk = cluster.zk.clone();
            let config = cluster.first_config()?;
            properties::rewrite(&config, &config, &lines, &[])?;
            let broker = cluster.broker(1)?;
            broker.stop()?;
            broker.restart(&zk)?;
            broker.wait_up(&zk)?;
            cluster.wait_java_controller(PATIENCE)?;
            Ok("")
        },
    )?;
    teller.step("a broker's authorizer is refused", || {
        of_the_brokers("authorizer-of-a-broker", &["authorizer.class.name"]).seen(cluster)
    })
}

/// What klamm may have written by the time it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Nothing,
    /// The brokers are looked at after klamm has marked its id as its own; the role is not touched.
    ItsMark,
}

/// A start that must be refused.
#[derive(Debug, Clone, Copy)]
struct Refusal<'a> {
    /// Names klamm's configuration and log.
    name: &'a str,
    /// Keys that are put into the first broker's file.
    lines: &'a [(&'a str, &'a str)],
    /// Keys that are taken out of it.
    without: &'a [&'a str],
    /// What the one line must hold that tells the operator.
    needles: &'a [&'a str],
    written: Written,
}

/// klamm with the first broker's file and `lines` must end with an error that holds every one of `needles`, and must
/// have written nothing.
pub fn refused(
    cluster: &mut Cluster,
    name: &str,
    lines: &[(&str, &str)],
    needles: &[&str],
) -> Result<Told> {
    Refusal {
        name,
        lines,
        without: &[],
        needles,
        written: Written::Nothing,
    }
    .seen(cluster)
}

impl Refusal<'_> {
    fn seen(self, cluster: &mut Cluster) -> Result<Told> {
        let Self {
            name,
            lines,
            without,
            needles,
            written,
        } = self;
        let broker_config = cluster.first_config()?;
        let config = klamm::config_of(&cluster.run, &broker_config, name, lines, without)?;
        let counts = |path: &str| written == Written::Nothing || !path.starts_with("/klamm");
        let before = tree_at_rest(cluster)?;
        let (status, said) = klamm::run_to_end(&cluster.run, "run", name, &config)?;
        let after = cluster.zk.tree()?;
        ensure!(
            !status.success(),
            "klamm ended as if all were well; it said:\n{said}"
        );
        let message = said
            .lines()
            .find(|line| needles.iter().all(|needle| line.contains(needle)));
        let Some(message) = message else {
            bail!("no line of what klamm said names {needles:?}:\n{said}")
        };
        if let Some(path) = changed(&before, &after).find(|path| counts(path)) {
            bail!("klamm refused to start, but {path} was written meanwhile");
        }
        Ok(message.trim().to_owned().into())
    }
}

/// The tree, once two looks in a row found the same: brokers that have just come up still write.
pub(super) fn tree_at_rest(cluster: &mut Cluster) -> Result<BTreeMap<String, i64>> {
    let mut last = cluster.zk.tree()?;
    let mut unchanged_looks = 0;
    cluster.wait("ZooKeeper to come to rest", PATIENCE, |cluster| {
        let now = cluster.zk.tree()?;
        unchanged_looks = if now == last { unchanged_looks + 1 } else { 0 };
        let path = changed(&last, &now).next().cloned();
        last = now;
        // At the pace of the loop this is a second or two.
        Ok(if unchanged_looks >= 50 {
            Seen::Done(())
        } else {
            Seen::Not(format!("{path:?} changes"))
        })
    })?;
    Ok(last)
}

/// The paths of nodes that are in one tree only, or were written in between.
pub(super) fn changed<'a>(
    before: &'a BTreeMap<String, i64>,
    after: &'a BTreeMap<String, i64>,
) -> impl Iterator<Item = &'a String> {
    before
        .keys()
        .chain(after.keys())
        .filter(|path| before.get(*path) != after.get(*path))
}
