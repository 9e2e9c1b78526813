//! Replicas that move: under traffic, through deaths, cancelled, added to, and asked for in broken nodes.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::tools::Tool;
use crate::version::KafkaVersion;
use crate::wait::Seen;
use crate::zk::TopicPartition;

const NODE: &str = "/admin/reassign_partitions";
/// The topic whose partitions move, each of two replicas.
const MOVED: &str = "moved";
const PARTITIONS: i32 = 100;
/// A topic that is deleted while it moves.
const LEAVING: &str = "leaving";
/// The broker that the replicas of broker 2 move to.
const TARGET: i32 = 3;
/// The broker that they come back to. Broker 1 is a Java cluster's controller as a rule, and nothing here is about its
/// death.
const BACK_TARGET: i32 = 2;

pub const REASSIGNMENT: Story = Story {
    name: "reassignment",
    about: "100 partitions move under traffic while klamm and a target die; more are added, half are cancelled, one topic is deleted",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: reassignment,
    klamm_may_log: &[],
    brokers_may_log: &[
        Listed {
            fragments: &[
                "[Controller id=",
                "to NewReplica failed",
                "NonExistentReplica",
            ],
            reason: "a Java controller that takes over in the midst of a reassignment knows the new replicas as old ones",
        },
        Listed {
            fragments: &["isr-expiration", "ReplicaNotAvailableException"],
            reason: "up to 2.4 a leader looks for laggards among replicas that it has just been told to forget",
        },
        Listed {
            fragments: &[
                "isr-expiration",
                "NotLeaderOrFollowerException: Replica with id",
            ],
            reason: "the same, as 2.5 to 2.8 put it",
        },
    ],
};

fn reassignment(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step(
        "traffic flows, on 100 partitions that will move too",
        || {
            let told = acts::start_traffic(cluster)?;
            create(cluster, MOVED, PARTITIONS, &[1, 2])?;
            create(cluster, LEAVING, 4, &[1, 2])?;
            cluster
                .traffic()?
                .add_topic(MOVED, usize::try_from(PARTITIONS)?)?;
            acts::flowing(cluster)?;
            Ok(told)
        },
    )?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("the target of what is to come is killed", || {
        acts::kill_broker(cluster, TARGET)
    })?;
    teller.step("100 partitions are to move to it, and wait for it", || {
        let all: Vec<_> = (0..PARTITIONS).map(onto_target).collect();
        ask(cluster, &all)?;
        wait_moving(cluster, MOVED, PARTITIONS)
    })?;
    if cluster.plan.leading == Leading::Klamm {
        teller.step("klamm is killed and a Java broker takes over", || {
            acts::kill_klamm(cluster)
        })?;
        teller.step("klamm takes the role back", || acts::klamm_returns(cluster))?;
    }
    teller.step("the target returns, and all have moved", || {
        let watch = cluster.watch_leaders();
        let started = start(cluster, TARGET)?;
        let all: Vec<_> = (0..PARTITIONS).map(onto_target).collect();
        let moved = wait_moved(cluster, &all)?;
        let leaders = watch.expect_nothing_leaderless()?;
        acts::flowing(cluster)?;
        Ok(Told::after(
            moved,
            format!("after it was up in {}; {leaders}", seconds(started)),
        ))
    })?;
    teller.step("the target of a way back is killed", || {
        acts::kill_broker(cluster, BACK_TARGET)
    })?;
    teller.step(
        "half are to move back, then the other half is added",
        || added_while_it_runs(cluster),
    )?;
    teller.step("a topic that moves is to be deleted, and waits", || {
        deleted_while_it_moves(cluster)
    })?;
    teller.step("half are cancelled with the genuine tool", || {
        cancel_half(cluster)
    })?;
    teller.step(
        "the target returns: the others have moved, the topic is gone",
        || the_rest_moves(cluster),
    )
}

/// Where a partition on brokers 1 and 2 goes: broker 2 gives way.
fn onto_target(partition: i32) -> (TopicPartition, Vec<i32>) {
    (TopicPartition::new(MOVED, partition), vec![TARGET, 1])
}

fn back(partition: i32) -> (TopicPartition, Vec<i32>) {
    (TopicPartition::new(MOVED, partition), vec![BACK_TARGET, 1])
}

/// As a tool does it, with every partition on the same brokers, which lead in turn.
fn create(cluster: &mut Cluster, topic: &str, partitions: i32, replicas: &[i32]) -> Result<()> {
    let of = |partition: i32| {
        let mut replicas = replicas.to_vec();
        let by = usize::try_from(partition).unwrap_or(0) % replicas.len().max(1);
        replicas.rotate_left(by);
        (partition.to_string(), json!(replicas))
    };
    let partitions_json: serde_json::Map<String, Value> = (0..partitions).map(of).collect();
    cluster.zk.create(
        &format!("/config/topics/{topic}"),
        br#"{"version":1,"config":{}}"#,
    )?;
    cluster.zk.create(
        &format!("/brokers/topics/{topic}"),
        json!({"version": 1, "partitions": partitions_json})
            .to_string()
            .as_bytes(),
    )?;
    cluster
        .wait_topic(topic, usize::try_from(partitions)?, PATIENCE)
        .map(drop)
}

fn node(wanted: &[(TopicPartition, Vec<i32>)]) -> Vec<u8> {
    let partitions: Vec<Value> = wanted
        .iter()
        .map(|(at, replicas)| {
            json!({"topic": at.topic, "partition": at.partition, "replicas": replicas})
        })
        .collect();
    json!({"version": 1, "partitions": partitions})
        .to_string()
        .into_bytes()
}

fn ask(cluster: &Cluster, wanted: &[(TopicPartition, Vec<i32>)]) -> Result<()> {
    cluster.zk.create(NODE, &node(wanted))
}

/// Replicas, and those that are being added.
type Assigned = (Vec<i32>, Vec<i32>);

/// What the topic's node says of each partition.
fn assignments(cluster: &Cluster, topic: &str) -> Result<BTreeMap<TopicPartition, Assigned>> {
    let path = format!("/brokers/topics/{topic}");
    let (data, _) = cluster
        .zk
        .get(&path)?
        .with_context(|| format!("{path} is gone"))?;
    let json: Value = serde_json::from_slice(&data).with_context(|| path.clone())?;
    let ids = |value: &Value| -> Vec<i32> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(|id| i32::try_from(id.as_i64()?).ok())
            .collect()
    };
    let partitions = json["partitions"]
        .as_object()
        .with_context(|| format!("{path} has no partitions"))?;
    partitions
        .iter()
        .map(|(index, replicas)| {
            let at = TopicPartition::new(topic, index.parse()?);
            let adding = ids(&json["adding_replicas"][index]);
            Ok((at, (ids(replicas), adding)))
        })
        .collect()
}

/// Waits until `expected` partitions of the topic have replicas on their way.
fn wait_moving(cluster: &mut Cluster, topic: &str, expected: i32) -> Result<Told> {
    let took = cluster.wait("the reassignments to begin", PATIENCE, |cluster| {
        let moving = assignments(cluster, topic)?
            .values()
            .filter(|(_, adding)| !adding.is_empty())
            .count();
        Ok(if i32::try_from(moving)? == expected {
            Seen::Done(())
        } else {
            Seen::Not(format!("{moving} of {expected} are under way"))
        })
    })?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, format!("{expected} under way")))
}

/// Waits until the partitions are where they were to go, all in sync, and nothing moves any more.
fn wait_moved(cluster: &mut Cluster, wanted: &[(TopicPartition, Vec<i32>)]) -> Result<Duration> {
    cluster.wait("the replicas to have moved", 2 * PATIENCE, |cluster| {
        let now = assignments(cluster, MOVED)?;
        for (at, replicas) in wanted {
            let found = now.get(at);
            if found != Some(&(replicas.clone(), Vec::new())) {
                return Ok(Seen::Not(format!("{at} is assigned as {found:?}")));
            }
        }
        let states = cluster.zk.states()?;
        for (at, replicas) in wanted {
            let isr = states.get(at).map(|state| state.isr.clone());
            if isr != Some(replicas.iter().copied().collect()) {
                return Ok(Seen::Not(format!(
                    "{at} has {isr:?} in sync of {replicas:?}"
                )));
            }
        }
        Ok(Seen::Done(()))
    })
}

fn start(cluster: &mut Cluster, id: i32) -> Result<Duration> {
    let started = Instant::now();
    let zk = cluster.zk.clone();
    let broker = cluster.broker(id)?;
    broker.restart(&zk)?;
    broker.wait_up(&zk)?;
    Ok(started.elapsed())
}

/// Java takes no notice of what is added to its node: there all of it is asked for at once.
fn added_while_it_runs(cluster: &mut Cluster) -> Result<Told> {
    let leaving = (0..4).map(|p| (TopicPartition::new(LEAVING, p), vec![BACK_TARGET, TARGET]));
    let all: Vec<_> = (0..PARTITIONS).map(back).chain(leaving).collect();
    if cluster.plan.leading == Leading::Klamm {
        let half = usize::try_from(PARTITIONS / 2)?;
        ask(cluster, &all[..half])?;
        wait_moving(cluster, MOVED, PARTITIONS / 2)?;
        cluster.zk.set(NODE, &node(&all))?;
    } else {
        ask(cluster, &all)?;
    }
    wait_moving(cluster, LEAVING, 4)?;
    wait_moving(cluster, MOVED, PARTITIONS)
}

fn deleted_while_it_moves(cluster: &mut Cluster) -> Result<Told> {
    // Its partitions lose their leaders as soon as they have moved, as they should.
    cluster.overlooked = Some(LEAVING);
    let path = format!("/admin/delete_topics/{LEAVING}");
    cluster.zk.create(&path, b"")?;
    if cluster.plan.leading == Leading::Java {
        return Ok("".into());
    }
    let name = r#"klamm_topic_deletions_waiting{reason="reassigning"}"#;
    let took = cluster.wait("klamm to say why the deletion waits", PATIENCE, |cluster| {
        let waiting = cluster.klamm(FIRST_ID)?.metric(name)?;
        Ok(if (waiting - 1.0).abs() < 0.5 {
            Seen::Done(())
        } else {
            Seen::Not(format!("{name} is {waiting}"))
        })
    })?;
    Ok(Told::after(took, name))
}

/// kafka-reassign-partitions knows `--cancel` since 2.6.
fn cancel_half(cluster: &mut Cluster) -> Result<Told> {
    let started = Instant::now();
    let half: Vec<_> = (0..PARTITIONS / 2).map(back).collect();
    let file = cluster.run.conf("cancel.json");
    fs::write(&file, node(&half)).with_context(|| format!("cannot write {}", file.display()))?;
    let said = Tool::ReassignPartitions.run(
        &cluster.run,
        KafkaVersion::V2_8_2,
        &[
            "--bootstrap-server",
            &cluster.bootstrap(),
            "--reassignment-json-file",
            &file.display().to_string(),
            "--cancel",
            // Of a broker that is down the tool would clear them in vain, and fail.
            "--preserve-throttles",
        ],
    )?;
    ensure!(
        said.contains("Successfully cancelled partition reassignments"),
        "the tool says: {said}"
    );
    // On the brokers where they were. Which of them came first is not known any more, under Java neither.
    let as_before: Vec<_> = (0..PARTITIONS / 2)
        .map(|partition| (TopicPartition::new(MOVED, partition), vec![1, TARGET]))
        .collect();
    let took = wait_moved(cluster, &as_before)?;
    acts::flowing(cluster)?;
    Ok(Told::after(
        started.elapsed(),
        format!("as they were {} after the tool ended", seconds(took)),
    ))
}

fn the_rest_moves(cluster: &mut Cluster) -> Result<Told> {
    let watch = cluster.watch_leaders();
    let up = start(cluster, BACK_TARGET)?;
    let rest: Vec<_> = (PARTITIONS / 2..PARTITIONS).map(back).collect();
    let moved = wait_moved(cluster, &rest)?;
    let gone = super::deletion::wait_gone(cluster, LEAVING)?;
    cluster.overlooked = None;
    let leaders = watch.expect_nothing_leaderless()?;
    acts::flowing(cluster)?;
    Ok(Told::after(
        moved + gone,
        format!("after it was up in {}; {leaders}", seconds(up)),
    ))
}

/// What operators and scripts have written there by mistake; each with what is understood of it.
const BROKEN: [(&str, bool); 3] = [
    ("{\"version\":1,\"partitions\":[", false),
    (
        r#"{"version":1,"partitions":{"topic":"orders","partition":0,"replicas":[1,2,3]}}"#,
        false,
    ),
    (
        r#"{"version":1,"partitions":[
            {"topic":"orders","partition":0,"replicas":[1,1]},
            {"topic":"orders","partition":1,"replicas":[]},
            {"topic":"orders","partition":2,"replicas":[1,77]},
            {"topic":"orders","partition":99,"replicas":[1,2]},
            {"topic":"nothing","partition":0,"replicas":[1,2]},
            {"topic":"orders","partition":"three","replicas":[1,2]},
            {"topic":"orders","partition":4,"replicas":[1,900]},
            {"partition":4,"replicas":[1,2]},
            {"topic":"orders","partition":5,"replicas":[2,1]}
        ]}"#,
        true,
    ),
];

pub const BROKEN_REASSIGNMENTS: Story = Story {
    name: "broken-reassignments",
    about: "three broken /admin/reassign_partitions: each costs only itself, what is sound in one is done, and the node goes",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: broken_reassignments,
    klamm_may_log: &[Listed {
        fragments: &[NODE],
        reason: "klamm names what is wrong in the node",
    }],
    brokers_may_log: &[],
};

fn broken_reassignments(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    for (content, is_understood) in BROKEN {
        let first = content.lines().next().unwrap_or(content);
        teller.step(&format!("{NODE} holds `{first}`"), || {
            broken(cluster, content, is_understood)
        })?;
    }
    Ok(())
}

fn broken(cluster: &mut Cluster, content: &str, is_understood: bool) -> Result<Told> {
    let term = cluster.zk.controller()?;
    let before = cluster.zk.assignments()?;
    cluster.zk.create(NODE, content.as_bytes())?;
    let took = cluster.wait_nothing_asked(PATIENCE)?;
    let moved = TopicPartition::new("orders", 5);
    cluster.wait("what is sound in it to be done", PATIENCE, |cluster| {
        let now = cluster.zk.assignments()?;
        let differing: Vec<&TopicPartition> = now
            .iter()
            .filter(|(at, replicas)| before.get(at) != Some(replicas))
            .map(|(at, _)| at)
            .collect();
        Ok(match (is_understood, &differing[..]) {
            (true, [only]) if **only == moved && now[&moved] == [2, 1] => Seen::Done(()),
            (false, []) => Seen::Done(()),
            (_, differing) => Seen::Not(format!("{differing:?} are assigned otherwise")),
        })
    })?;
    ensure!(
        cluster.zk.controller()? == term,
        "the role changed hands over a broken node"
    );
    acts::flowing(cluster)?;
    Ok(Told::after(took, ""))
}
