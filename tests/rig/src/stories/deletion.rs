//! Topics that go: with a broker that is away, and over and over under the same name.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::{Cluster, assignment};
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::wait::Seen;

const DOOMED: &str = "doomed";
const AGAIN: &str = "again";
const ROUNDS: u32 = 50;

pub const TOPIC_DELETION: Story = Story {
    name: "topic-deletion",
    about: "a deletion waits for a dead broker and says so, its return finishes it; one name comes and goes 50 times",
    pace: Pace::Quick,
    baseline: true,
    // A broker keeps the folder of a deleted log for a minute otherwise.
    plan: |choice| Choice::mixed(choice).with_property("log.segment.delete.delay.ms", "200"),
    tell: topic_deletion,
    klamm_may_log: &[],
    brokers_may_log: &[
        Listed {
            fragments: &["Error when sending leader epoch request", "ReplicaFetcher"],
            reason: "1.1: a fetcher is stopped, with its topic, while it asks its leader something",
        },
        Listed {
            fragments: &["Unexpected error from", "CancelledKeyException"],
            reason: "1.1: the same, told by its connection",
        },
        Listed {
            fragments: &["[Controller id=", "to ReplicaDeletionIneligible failed"],
            reason: "a Java controller is told of a dead replica of a topic to be deleted",
        },
    ],
};

fn topic_deletion(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step("a topic is there to be deleted", || {
        cluster.create_topic(DOOMED, 6, 3)?;
        cluster.wait_topic(DOOMED, 6, PATIENCE)?;
        Ok(Told::after(cluster.wait_isr_full(PATIENCE)?, ""))
    })?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker is killed", || acts::kill_broker(cluster, victim))?;
    teller.step("the topic's deletion waits for it, and says so", || {
        waits(cluster, victim)
    })?;
    teller.step("it does not grow meanwhile", || does_not_grow(cluster))?;
    if cluster.plan.leading == Leading::Klamm {
        teller.step(
            "klamm is killed; a Java broker takes the deletion over",
            || acts::kill_klamm(cluster),
        )?;
        teller.step("klamm takes the role back, and the deletion", || {
            acts::klamm_returns(cluster)
        })?;
    }
    teller.step("it returns, and the topic is gone", || {
        resumes(cluster, victim)
    })?;
    teller.step("one name is created and deleted over and over", || {
        over_and_over(cluster)
    })?;
    teller.step("the name can be used", || {
        cluster.create_topic(AGAIN, 3, 3)?;
        cluster.wait_topic(AGAIN, 3, PATIENCE)?;
        cluster.wait_all_led(PATIENCE)?;
        cluster.traffic()?.add_topic(AGAIN, 3)?;
        acts::flowing(cluster)?;
        Ok(Told::after(cluster.wait_isr_full(PATIENCE)?, ""))
    })
}

/// Everybody but `victim` deletes the topic; its nodes stay, and klamm tells why.
fn waits(cluster: &mut Cluster, victim: i32) -> Result<Told> {
    // Its partitions have no leaders any more, as they should.
    cluster.overlooked = Some(DOOMED);
    mark(cluster, DOOMED)?;
    let took = cluster.wait("the other brokers to delete it", PATIENCE, |cluster| {
        let others = cluster.genuine_ids().into_iter().filter(|id| *id != victim);
        let folders = folders(cluster, DOOMED, others)?;
        Ok(match folders.first() {
            None => Seen::Done(()),
            Some(first) => Seen::Not(format!("{first} and {} more", folders.len() - 1)),
        })
    })?;
    let left = folders(cluster, DOOMED, [victim])?;
    ensure!(left.len() == 6, "broker {victim} is dead and has {left:?}");
    if cluster.plan.leading == Leading::Klamm {
        says_why(cluster, victim)?;
    }
    cluster.hold(
        "the topic's nodes stay",
        Duration::from_secs(2),
        |cluster| {
            let marker = cluster.zk.get(&format!("/admin/delete_topics/{DOOMED}"))?;
            let node = cluster.zk.get(&format!("/brokers/topics/{DOOMED}"))?;
            ensure!(marker.is_some() && node.is_some(), "they are gone");
            Ok(())
        },
    )?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, format!("broker {victim} is down")))
}

fn says_why(cluster: &mut Cluster, victim: i32) -> Result<()> {
    let klamm = cluster.klamm(FIRST_ID)?;
    for (name, expected) in [
        (
            r#"klamm_topic_deletions_waiting{reason="broker_down"}"#,
            1.0,
        ),
        ("kafka_controller_kafkacontroller_topicstodeletecount", 1.0),
        (
            "kafka_controller_kafkacontroller_replicastodeletecount",
            6.0,
        ),
        (
            "kafka_controller_kafkacontroller_topicsineligibletodeletecount",
            1.0,
        ),
        (
            "kafka_controller_kafkacontroller_replicasineligibletodeletecount",
            6.0,
        ),
    ] {
        let value = klamm.metric(name)?;
        ensure!(value == expected, "{name} is {value}, not {expected}");
    }
    let log = klamm.process.log();
    let text = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let said = format!("Deletion of topics {DOOMED} waits: broker {victim} ");
    let times = text.matches(&said).count();
    ensure!(
        times == 1,
        "`{said}` stands {times} times in {}",
        log.display()
    );
    Ok(())
}

/// A partition that a tool adds is taken out of the topic's node again: nobody would ever delete it.
fn does_not_grow(cluster: &mut Cluster) -> Result<Told> {
    let ids: Vec<i32> = cluster.brokers.keys().copied().collect();
    let grown = assignment(&ids, 7, 3);
    cluster
        .zk
        .set(&format!("/brokers/topics/{DOOMED}"), &grown)?;
    let took = cluster.wait("the seventh partition to go", PATIENCE, |cluster| {
        let assigned = cluster.zk.assignments_of(&[DOOMED.to_owned()])?.len();
        Ok(match assigned {
            6 => Seen::Done(()),
            more => Seen::Not(format!("{more} partitions are assigned")),
        })
    })?;
    let made = cluster
        .zk
        .children(&format!("/brokers/topics/{DOOMED}/partitions"))?;
    ensure!(made.len() == 6, "{made:?} have nodes");
    Ok(Told::after(took, ""))
}

fn resumes(cluster: &mut Cluster, victim: i32) -> Result<Told> {
    let started = Instant::now();
    let zk = cluster.zk.clone();
    let broker = cluster.broker(victim)?;
    broker.restart(&zk)?;
    let up = broker.wait_up(&zk)?;
    let gone = wait_gone(cluster, DOOMED)?;
    let everybody = cluster.genuine_ids();
    cluster.wait("the folders to go", PATIENCE, |cluster| {
        let folders = folders(cluster, DOOMED, everybody.clone())?;
        Ok(match folders.first() {
            None => Seen::Done(()),
            Some(first) => Seen::Not(format!("{first} and {} more", folders.len() - 1)),
        })
    })?;
    cluster.overlooked = None;
    cluster.wait_all_led(PATIENCE)?;
    cluster.wait_isr_full(PATIENCE)?;
    Ok(Told::after(
        started.elapsed(),
        format!("up after {}, gone {} later", seconds(up), seconds(gone)),
    ))
}

fn over_and_over(cluster: &mut Cluster) -> Result<Told> {
    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    for round in 0..ROUNDS {
        let told = || format!("round {round} of {ROUNDS}");
        cluster.create_topic(AGAIN, 3, 3).with_context(told)?;
        cluster.wait_topic(AGAIN, 3, PATIENCE).with_context(told)?;
        mark(cluster, AGAIN)?;
        slowest = slowest.max(wait_gone(cluster, AGAIN).with_context(told)?);
    }
    acts::flowing(cluster)?;
    Ok(Told::after(
        started.elapsed(),
        format!(
            "{ROUNDS} times; the slowest deletion took {}",
            seconds(slowest)
        ),
    ))
}

/// As the tools do that speak to ZooKeeper.
fn mark(cluster: &Cluster, topic: &str) -> Result<()> {
    cluster
        .zk
        .create(&format!("/admin/delete_topics/{topic}"), b"")
}

/// Waits until nothing in ZooKeeper tells of the topic.
pub fn wait_gone(cluster: &mut Cluster, topic: &str) -> Result<Duration> {
    cluster.wait(&format!("{topic} to be gone"), PATIENCE, |cluster| {
        for parent in ["/brokers/topics", "/config/topics", "/admin/delete_topics"] {
            let path = format!("{parent}/{topic}");
            if cluster.zk.get(&path)?.is_some() {
                return Ok(Seen::Not(format!("{path} is there")));
            }
        }
        Ok(Seen::Done(()))
    })
}

/// The folders of a topic's partitions on the disks of these brokers, those on their way to be deleted included.
fn folders(
    cluster: &Cluster,
    topic: &str,
    ids: impl IntoIterator<Item = i32>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for id in ids {
        let data = cluster.run.data(&format!("broker-{id}"));
        let listed =
            fs::read_dir(&data).with_context(|| format!("cannot list {}", data.display()))?;
        for entry in listed {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(&format!("{topic}-")) {
                found.push(format!("broker {id} has {name}"));
            }
        }
    }
    Ok(found)
}
