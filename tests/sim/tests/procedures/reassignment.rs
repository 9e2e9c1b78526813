//! Partitions are moved: upstream's `ControllerIntegrationTest`, `ReassignPartitionsIntegrationTest` and
//! `ReassignPartitionsClusterTest`, as far as the controller is what they test, and what those leave out.

use klamm::effect::Answer;
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, KafkaError, TopicName};
use klamm_sim::world::{World, partition};

const NODE: &str = "/admin/reassign_partitions";

/// Writes the node as the tools do.
fn ask_by_node(world: &World, targets: &[(&str, &[i32])]) {
    let entries: Vec<String> = targets
        .iter()
        .map(|(of, replicas)| {
            let of = partition(of);
            format!(
                r#"{{"topic":"{}","partition":{},"replicas":{replicas:?}}}"#,
                of.topic, of.partition
            )
        })
        .collect();
    let node = format!(r#"{{"version":1,"partitions":[{}]}}"#, entries.join(","));
    world.zookeeper.poke(NODE, node.as_bytes());
}

fn node(world: &World) -> Option<String> {
    let node = world.zookeeper.look(NODE)?;
    Some(String::from_utf8_lossy(node.data()).into_owned())
}

type Asked<'a> = (&'a str, Option<&'a [i32]>);

/// Asks by API; what became of each, in words.
fn alter(world: &mut World, targets: &[Asked]) -> Vec<String> {
    let reply_to = world.klamm().open_slot();
    let targets = targets.iter().map(|(of, replicas)| {
        let ids = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
        (partition(of), ids)
    });
    let targets = targets.collect();
    let event = ControllerEvent::AlterPartitionReassignments { targets, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    match world.answer_to(reply_to) {
        Answer::AlterPartitionReassignments(Ok(results)) => results
            .into_iter()
            .map(|(at, result)| match result {
                Ok(()) => format!("{at} NONE"),
                Err(why) => format!("{at} {}", why.error),
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// What is moving, by API: `t-0 [2,1] adding [2] removing [1]`.
fn listed(world: &mut World) -> Vec<String> {
    let reply_to = world.klamm().open_slot();
    let event = ControllerEvent::ListPartitionReassignments {
        partitions: None,
        reply_to,
    };
    world.klamm().queue.put(event);
    world.settle();
    match world.answer_to(reply_to) {
        Answer::ListPartitionReassignments(Ok(moving)) => moving
            .into_iter()
            .map(|(at, assignment)| {
                format!(
                    "{at} {} adding {} removing {}",
                    assignment.replicas, assignment.adding, assignment.removing
                )
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// What the topic's node says: `[2,1] adding [2] removing [1]`.
fn stored(world: &World, of: &str) -> String {
    let at = partition(of);
    let topic = world.topic(at.topic.as_str()).unwrap();
    let assignment = &topic.partitions[&at.partition];
    format!(
        "{} adding {} removing {}",
        assignment.replicas, assignment.adding, assignment.removing
    )
}

fn has_log(world: &World, id: i32, of: &str) -> bool {
    world.broker(id, |broker| broker.logs.contains_key(&partition(of)))
}

fn hosts(world: &World, of: &str) -> Vec<i32> {
    let cluster = world.cluster.borrow();
    let holding = cluster
        .values()
        .filter(|broker| broker.logs.contains_key(&partition(of)));
    holding.map(|broker| broker.id.0).collect()
}

/// Moving partitions, and how many wait for each reason.
fn gauges(world: &mut World) -> (u64, [u64; 6]) {
    let gauges = world.klamm().snapshot().gauges;
    (
        gauges.partitions_being_reassigned,
        gauges.reassignments_waiting,
    )
}

fn next_klamm(world: &mut World) {
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    world.settle();
}

/// That it has come to its target, nobody else keeps a log, and nothing is left of the request.
#[track_caller]
fn assert_moved(world: &mut World, of: &str, target: &[i32]) {
    let ids: Vec<String> = target.iter().map(i32::to_string).collect();
    assert_eq!(
        stored(world, of),
        format!("[{}] adding [] removing []", ids.join(","))
    );
    let mut sorted = target.to_vec();
    sorted.sort_unstable();
    assert_eq!(hosts(world, of), sorted, "the logs of {of}");
    let state = world.state(of).unwrap().leader_and_isr;
    assert!(
        state.isr.iter().all(|id| target.contains(&id.0)),
        "{of} has in sync {}",
        state.isr
    );
    assert!(target.contains(&state.leader.0), "{}", world.led_by(of));
    assert_eq!(node(world), None);
    assert_eq!(gauges(world), (0, [0; 6]));
    world.assert_converged();
}

/// Brokers 1 to 5; t-0 [1,2], t-1 [2,3].
fn led() -> World {
    led_by("3.9")
}

fn led_by(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3, 4, 5], release);
    world.create_topic("t", &[&[1, 2], &[2, 3]]);
    world.settle();
    world.told();
    world
}

/// Upstream: `testPartitionReassignment`: leader epoch 3 after announcement, election and shrink.
#[test]
fn a_partition_moves_in_the_steps_of_the_java_controller() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1]]);
    world.settle();
    world.told();
    ask_by_node(&world, &[("t-0", &[2])]);
    world.settle();
    assert_eq!(stored(&world, "t-0"), "[2,1] adding [2] removing [1]");
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 1");
    assert_eq!(gauges(&mut world), (1, [1, 0, 0, 0, 0, 0]));
    assert!(node(&world).is_some());
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 3");
    assert_moved(&mut world, "t-0", &[2]);
    assert_eq!(
        world.told(),
        [
            "L{1} t-0 leader 1 isr [1] le 1 adding [2] removing [1]",
            "L{2} t-0 leader 1 isr [1] le 1 adding [2] removing [1] new",
            "U{1,2} alive [1,2,9] t-0 leader 1 isr [1] le 1",
            "L{2} t-0 leader 1 isr [1] le 1 adding [2] removing [1] new",
            "U{1,2} alive [1,2,9] t-0 leader 1 isr [1] le 1",
            "U{1,2} alive [1,2,9] t-0 leader 1 isr [1,2] le 1",
            "L{2} t-0 leader 2 isr [1,2] le 2",
            "U{1,2} alive [1,2,9] t-0 leader 2 isr [1,2] le 2",
            "L{2} t-0 leader 2 isr [2] le 3",
            "U{1,2} alive [1,2,9] t-0 leader 2 isr [2] le 3",
            "S{1} t-0 le 3 keep",
            "S{1} t-0 le 3 delete",
            "U{1,2} alive [1,2,9] t-0 leader 2 isr [2] le 3",
        ]
    );
}

#[test]
fn every_release_of_broker_moves_and_deletes() {
    for release in ["1.0", "2.2", "2.4", "2.6", "2.8", "3.4", "3.9"] {
        let mut world = led_by(release);
        ask_by_node(&world, &[("t-0", &[4, 5]), ("t-1", &[3, 2, 1])]);
        world.settle();
        world.catch_up();
        assert_moved(&mut world, "t-0", &[4, 5]);
        assert_moved(&mut world, "t-1", &[3, 2, 1]);
        let answers = alter(&mut world, &[("t-0", Some(&[1, 4])), ("t-1", Some(&[2]))]);
        assert_eq!(answers, ["t-0 NONE", "t-1 NONE"], "{release}");
        assert_eq!(
            alter(&mut world, &[("t-0", Some(&[2, 4]))]),
            ["t-0 NONE"],
            "{release}"
        );
        assert!(!has_log(&world, 1, "t-0"), "{release}: {}", stored(&world, "t-0"));
        assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
        assert_moved(&mut world, "t-0", &[4, 5]);
    }
}
