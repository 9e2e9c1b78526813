//! The clients of every ecosystem, with klamm's node among their addresses and as their only one, each held against
//! what the same client saw under the Java controller.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::acts::{self, PATIENCE};
use super::deletion::wait_gone;
use super::{Choice, Pace, Story};
use crate::cluster::Cluster;
use crate::ecosystem::{self, Client, Ready};
use crate::teller::{Teller, Told};

/// Not one of [`super::STORIES`]: it alone needs Python, Go and Node.js, and has a front door of its own.
pub const CLIENTS: Story = Story {
    name: "clients",
    about: "clients of six other ecosystems and of Java do all that clients do, with klamm's node as their only address too",
    pace: Pace::Slow,
    baseline: false,
    plan: Choice::mixed,
    tell: |teller, cluster| {
        let all = [&ecosystem::OTHERS[..], &ecosystem::JAVA].concat();
        clients(teller, cluster, &all)
    },
    klamm_may_log: &[],
    brokers_may_log: &[],
};

pub const JAVA_CLIENTS: Story = Story {
    name: "java-clients",
    about: "Java clients 1.1.1 and 3.9.2 create, grow, produce, read and delete with klamm's node as their only address",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: |teller, cluster| clients(teller, cluster, &ecosystem::JAVA),
    klamm_may_log: &[],
    brokers_may_log: &[],
};

/// What a client said of its steps.
type Said = Vec<String>;

fn clients(teller: &mut Teller, cluster: &mut Cluster, clients: &[Client]) -> Result<()> {
    let mut ready = Vec::new();
    teller.step("the clients' libraries are there", || {
        ecosystem::require(clients)?;
        for client in clients {
            ready.push(client.prepare()?);
        }
        Ok(format!("{} clients", ready.len()))
    })?;
    teller.step("a topic is there", || {
        cluster.create_topic("orders", 4, 3)?;
        cluster.wait_topic("orders", 4, PATIENCE)?;
        Ok(Told::after(cluster.wait_isr_full(PATIENCE)?, ""))
    })?;
    let genuine = cluster.bootstrap();
    let mut under_java = BTreeMap::new();
    for client in &ready {
        let name = client.client.name;
        go_on(
            teller,
            &format!("{name}, under the Java controller"),
            || {
                let said = client.steps(&cluster.run, &genuine, &topic(client, "java"))?;
                let told = format!("{} steps", said.len());
                under_java.insert(name, said);
                // Clients see a topic as gone before the controller is done with it.
                wait_gone(cluster, &topic(client, "java"))?;
                Ok(told)
            },
        );
    }
    teller.step("klamm takes over", || acts::takeover(cluster))?;
    let klamm = cluster.klamm(crate::klamm::FIRST_ID)?.address.clone();
    let ways = [
        (
            "klamm among its addresses",
            "all",
            format!("{klamm},{genuine}"),
        ),
        ("klamm its only address", "alone", klamm.clone()),
    ];
    for client in &ready {
        let name = client.client.name;
        for (way, label, bootstrap) in &ways {
            go_on(teller, &format!("{name}, {way}"), || {
                let said = client.steps(&cluster.run, bootstrap, &topic(client, label))?;
                as_under_java(under_java.get(name), &said)
            });
        }
    }
    Ok(())
}

/// A client's failure is told, and the next one has its turn.
fn go_on(teller: &mut Teller, text: &str, act: impl FnOnce() -> Result<String>) {
    teller.step(text, act).ok();
}

fn as_under_java(expected: Option<&Said>, said: &Said) -> Result<String> {
    let Some(expected) = expected else {
        anyhow::bail!("there is nothing to hold it against: it failed under the Java controller");
    };
    ensure!(
        said == expected,
        "it says: {}; under the Java controller it said: {}",
        said.join("; "),
        expected.join("; ")
    );
    Ok(format!(
        "{} steps, as under the Java controller",
        said.len()
    ))
}

/// The name of the topic that a client makes, and the beginning of its group's: no two alike.
fn topic(client: &Ready, label: &str) -> String {
    let plain = |sign: char| {
        if sign.is_ascii_alphanumeric() {
            sign
        } else {
            '-'
        }
    };
    let name: String = client.client.name.chars().map(plain).collect();
    format!("{name}-{label}")
}
