//! Topics that come up in ZooKeeper: from the old tools, with replicas on klamm, and broken.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::wait::Seen;
use crate::zk::TopicPartition;

pub const TOPICS_BY_ZOOKEEPER: Story = Story {
    name: "topics-by-zookeeper",
    about: "kafka-topics 2.8.2 --zookeeper creates and expands; replicas given to klamm end on genuine brokers",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: topics_by_zookeeper,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn topics_by_zookeeper(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("a topic is created by producing to it", || {
        acts::auto_create(cluster, "by-producing")
    })?;
    teller.step("a topic is created and expanded by the tool", || {
        acts::create_and_expand(cluster, "by-tool")
    })?;
    if cluster.plan.leading == Leading::Klamm {
        teller.step(
            "replicas that were given to klamm end on genuine brokers",
            || sanitised(cluster),
        )?;
    }
    teller.step("every ISR is full", || {
        Ok(Told::after(cluster.wait_isr_full(PATIENCE)?, ""))
    })
}

/// As a tool or balancer writes them that knows klamm only as one more broker.
fn sanitised(cluster: &mut Cluster) -> Result<Told> {
    let genuine: Vec<i32> = cluster.genuine_ids().into_iter().collect();
    let (first, second) = (
        genuine.first().copied().context("no broker")?,
        genuine.get(1).copied().context("only one broker")?,
    );
    let topic = "on-klamm";
    let path = format!("/brokers/topics/{topic}");
    let created = serde_json::json!({"version": 1, "partitions": {
        "0": [FIRST_ID, first], "1": [first, FIRST_ID, second], "2": [FIRST_ID],
    }});
    cluster.zk.create(&path, created.to_string().as_bytes())?;
    cluster.wait_topic(topic, 3, PATIENCE)?;
    let mut replicas: Vec<usize> = replica_counts(cluster, topic)?;
    ensure!(
        replicas == [2, 3, 1],
        "the replication factors became {replicas:?}, they were 2, 3 and 1"
    );

    // An expansion from an old read of the node brings klamm back to the partitions that were cleaned.
    let expanded = serde_json::json!({"version": 1, "partitions": {
        "0": [FIRST_ID, first], "1": [first, FIRST_ID, second], "2": [FIRST_ID], "3": [second, FIRST_ID],
    }});
    cluster.zk.set(&path, expanded.to_string().as_bytes())?;
    cluster.wait(
        "partition 3 to be led without a replica on klamm",
        PATIENCE,
        |cluster| led_on_genuine(cluster, topic, 3),
    )?;
    replicas = replica_counts(cluster, topic)?;
    ensure!(
        replicas.len() == 4,
        "the topic has {} partitions",
        replicas.len()
    );
    Ok("4 partitions, all led, new ones on genuine brokers only".into())
}

/// Done when one partition is led and none of its replicas is on klamm.
fn led_on_genuine(cluster: &mut Cluster, topic: &str, partition: i32) -> Result<Seen<()>> {
    let key = TopicPartition::new(topic, partition);
    let Some(replicas) = cluster.zk.assignments()?.remove(&key) else {
        return Ok(Seen::Not(format!("{key} has no assignment")));
    };
    let genuine = cluster.genuine_ids();
    let state = cluster.zk.states_of([key.clone()])?.remove(&key);
    let led = state
        .as_ref()
        .is_some_and(|state| genuine.contains(&state.leader));
    Ok(if led && replicas.iter().all(|id| genuine.contains(id)) {
        Seen::Done(())
    } else {
        Seen::Not(format!(
            "{key} is assigned to {replicas:?} with state {state:?}"
        ))
    })
}

fn replica_counts(cluster: &Cluster, topic: &str) -> Result<Vec<usize>> {
    let assignments = cluster.zk.assignments()?;
    Ok(assignments
        .iter()
        .filter(|(key, _)| key.topic == topic)
        .map(|(_, replicas)| replicas.len())
        .collect())
}

/// Names and contents that no tool writes, but that ZooKeeper takes from anybody.
const BROKEN: [(&str, &str); 9] = [
    ("broken-empty", ""),
    ("broken-no-json", "{nope"),
    ("broken-no-partitions", r#"{"version":1}"#),
    (
        "broken-partitions-list",
        r#"{"version":1,"partitions":[1]}"#,
    ),
    (
        "broken-replicas-words",
        r#"{"version":1,"partitions":{"0":["one"]}}"#,
    ),
    (
        "broken-no-replicas",
        r#"{"version":1,"partitions":{"0":[]}}"#,
    ),
    (
        "broken-partition-name",
        r#"{"version":1,"partitions":{"zero":[1]}}"#,
    ),
    (
        "broken name with spaces",
        r#"{"version":1,"partitions":{"0":[1]}}"#,
    ),
    ("broken-ñämé", r#"{"version":1,"partitions":{"0":[1]}}"#),
];

pub const BROKEN_TOPICS: Story = Story {
    name: "broken-topics",
    about: "broken, empty and strangely named topic nodes cost only themselves, also when klamm starts over them",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: broken_topics,
    klamm_may_log: &[Listed {
        fragments: &["broken"],
        reason: "klamm names each broken node once",
    }],
    brokers_may_log: &[
        Listed {
            fragments: &["[Controller id="],
            reason: "a Java controller cannot start over a broken node: it wins and drops the role",
        },
        Listed {
            fragments: &["ControllerEventThread"],
            reason: "the same, told by its event thread",
        },
    ],
};

fn broken_topics(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("sound topics are served beside broken ones", || {
        beside_broken(cluster)
    })?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))?;
    teller.step(
        "klamm dies and starts over them, taking the role from brokers that cannot keep it",
        || starts_over(cluster),
    )?;
    teller.step("the broken nodes are removed by hand", || {
        for (name, _) in BROKEN {
            remove(cluster, name)?;
        }
        cluster.wait_all_led(PATIENCE)?;
        Ok("")
    })
}

fn beside_broken(cluster: &mut Cluster) -> Result<Told> {
    // Whether these are led is their own affair.
    cluster.overlooked = Some("broken");
    let mut slowest = Duration::ZERO;
    for (number, (name, content)) in BROKEN.iter().enumerate() {
        cluster
            .zk
            .create(&format!("/brokers/topics/{name}"), content.as_bytes())?;
        let sound = format!("sound-{number}");
        cluster.create_topic(&sound, 2, 3)?;
        slowest = slowest.max(cluster.wait_topic(&sound, 2, PATIENCE)?);
    }
    acts::flowing(cluster)?;
    Ok(Told::after(
        slowest,
        format!(
            "{} broken nodes; the slowest sound topic is timed",
            BROKEN.len()
        ),
    ))
}

fn starts_over(cluster: &mut Cluster) -> Result<Told> {
    let started = std::time::Instant::now();
    let before = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    cluster.klamm(FIRST_ID)?.process.kill()?;
    cluster.wait("a Java broker to try", PATIENCE, |cluster| {
        super::role::epoch_moved(cluster, before.epoch)
    })?;
    cluster.klamm(FIRST_ID)?.process.restart()?;
    cluster.wait_controller(FIRST_ID, PATIENCE)?;
    let term = cluster.zk.controller()?.context("the role is vacant")?;
    let took = started.elapsed();
    cluster.create_topic("sound-in-the-end", 2, 3)?;
    cluster.wait_topic("sound-in-the-end", 2, PATIENCE)?;
    acts::flowing(cluster)?;
    let now = cluster.zk.controller()?.context("the role is vacant")?;
    ensure!(
        now == term,
        "klamm did not keep the role: {term:?} became {now:?}"
    );
    Ok(Told::after(took, "and keeps it"))
}

/// Removes a topic's node with what klamm may have put below it.
fn remove(cluster: &Cluster, topic: &str) -> Result<()> {
    let node = format!("/brokers/topics/{topic}");
    let partitions = format!("{node}/partitions");
    for partition in cluster.zk.children(&partitions)? {
        cluster
            .zk
            .delete(&format!("{partitions}/{partition}/state"))?;
        cluster.zk.delete(&format!("{partitions}/{partition}"))?;
    }
    cluster.zk.delete(&partitions)?;
    cluster.zk.delete(&node)
}
