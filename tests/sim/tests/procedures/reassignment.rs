//! Partitions are moved: upstream's `ControllerIntegrationTest`, `ReassignPartitionsIntegrationTest` and
//! `ReassignPartitionsClusterTest`, as far as the controller is what they test, and what those leave out.

use klamm::effect::Answer;
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition};

mod brokers;
mod course;
mod node;
mod plans;

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
            // Broker 1 is named as a replica for as long as it is in sync, unlike there.
            "L{2} t-0 leader 2 isr [1,2] le 2 adding [2] removing [1]",
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
        assert!(
            !has_log(&world, 1, "t-0"),
            "{release}: {}",
            stored(&world, "t-0")
        );
        assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
        assert_moved(&mut world, "t-0", &[4, 5]);
    }
}

/// Upstream: `testReassignment`, and the tools' rule that the same target may be sent again.
#[test]
fn the_same_target_again_is_no_error_and_tells_who_forgot() {
    let mut world = led();
    assert_eq!(alter(&mut world, &[("t-0", Some(&[3, 1]))]), ["t-0 NONE"]);
    assert_eq!(listed(&mut world), ["t-0 [3,1,2] adding [3] removing [2]"]);
    assert_eq!(alter(&mut world, &[("t-0", Some(&[3, 1]))]), ["t-0 NONE"]);
    assert_eq!(listed(&mut world), ["t-0 [3,1,2] adding [3] removing [2]"]);
    world.catch_up();
    assert_moved(&mut world, "t-0", &[3, 1]);
    assert_eq!(listed(&mut world), [""; 0]);
    assert!(
        world.led_by("t-0").starts_with("leader 1 isr [1,3]"),
        "it stays"
    );
}

/// Upstream: `testReassignmentCompletionDuringPartialUpgrade`, `testReassignmentWithAlterPartitionDisabled`.
#[test]
fn below_ibp_2_7_what_leaders_write_completes_a_reassignment() {
    for given in [None, Some("3.9")] {
        let mut world = World::of_brokers(&[], "3.9");
        for id in 1..=4 {
            world.add_broker(id, "3.9", "2.6");
            world.start_broker(id);
        }
        let mut settings = World::settings();
        settings.protocol = given.map(klamm_sim::world::protocol);
        world.start_klamm_with(settings);
        world.create_topic("t", &[&[1, 2]]);
        world.settle();
        ask_by_node(&world, &[("t-0", &[3, 4])]);
        world.settle();
        world.catch_up();
        assert_moved(&mut world, "t-0", &[3, 4]);
    }
}

/// A notice comes seconds after the write, and may never come: the states of what moves are looked at meanwhile.
#[test]
fn below_ibp_2_7_a_write_is_seen_although_its_notice_is_late() {
    let mut world = led_by("2.4");
    ask_by_node(&world, &[("t-0", &[3])]);
    world.settle();
    let seen = world.state("t-0").unwrap();
    let grown = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2,3]}"#;
    let path = "/brokers/topics/t/partitions/0/state";
    world.zookeeper.poke(path, grown);
    world.settle();
    assert!(world.state("t-0").unwrap().partition_epoch > seen.partition_epoch);
    assert_eq!(stored(&world, "t-0"), "[3,1,2] adding [3] removing [1,2]");
    world.advance(1_000);
    assert_moved(&mut world, "t-0", &[3]);
    let before = world.klamm().faults().calls().len();
    world.advance(50_000);
    assert_eq!(world.klamm().faults().calls().len(), before, "it looks on");
}

/// Upstream: `testCancellation`.
#[test]
fn a_cancelled_reassignment_restores_the_replicas() {
    let mut world = led();
    let answers = alter(
        &mut world,
        &[("t-0", Some(&[1, 4])), ("t-1", Some(&[4, 5]))],
    );
    assert_eq!(answers, ["t-0 NONE", "t-1 NONE"]);
    assert!(has_log(&world, 4, "t-0"));
    let answers = alter(&mut world, &[("t-0", None), ("t-1", None)]);
    assert_eq!(answers, ["t-0 NONE", "t-1 NONE"]);
    assert_moved(&mut world, "t-0", &[1, 2]);
    assert_moved(&mut world, "t-1", &[2, 3]);
    let answers = alter(&mut world, &[("t-0", None), ("x-0", None)]);
    assert_eq!(
        answers,
        [
            "t-0 NO_REASSIGNMENT_IN_PROGRESS(85)",
            "x-0 NO_REASSIGNMENT_IN_PROGRESS(85)"
        ]
    );
}

/// Upstream: `testCancellationWithAddingReplicaInIsr` (KAFKA-13972): brokers up to 3.4.0 refuse an epoch that they know.
#[test]
fn replicas_that_were_added_in_vain_delete_their_logs_in_sync_or_not() {
    for release in ["2.4", "2.6", "2.8", "3.4", "3.9"] {
        let mut world = led_by(release);
        assert_eq!(
            alter(&mut world, &[("t-0", Some(&[1, 3, 4]))]),
            ["t-0 NONE"]
        );
        let isr = [1, 2, 3];
        if world.broker(1, |broker| broker.protocol.has_alter_partition()) {
            world.leader_asks_isr("t-0", &isr);
        } else {
            world.leader_writes_isr("t-0", &isr);
        }
        world.settle();
        assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 3", "{release}");
        assert_moved(&mut world, "t-0", &[1, 2]);
    }
}

#[test]
fn a_cancel_hands_the_leadership_back_before_the_added_replica_goes() {
    let mut world = led();
    alter(&mut world, &[("t-0", Some(&[4, 5]))]);
    world.leader_asks_isr("t-0", &[1, 2, 4]);
    // Both original replicas stumble, one returns.
    world.kill(1);
    world.kill(2);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 4 isr [4]"));
    world.start_broker(2);
    world.settle();
    world.leader_asks_isr("t-0", &[4, 2]);
    world.told();
    assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2]"));
    let told = world.told();
    let led = told.iter().position(|line| line.contains("t-0 leader 2"));
    let stopped = told.iter().position(|line| line.starts_with("S{4"));
    assert!(led.is_some() && led < stopped, "{told:#?}");
    assert!(
        !told.iter().any(|line| line.contains("leader -1")),
        "{told:#?}"
    );
    world.start_broker(1);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "t-0", &[1, 2]);
}

/// t-0 on its way from [1,2] to [4,5], led by 4, which alone is in sync: 1 and 2 are gone.
fn led_by_an_added_replica() -> World {
    let mut world = led();
    alter(&mut world, &[("t-0", Some(&[4, 5]))]);
    world.leader_asks_isr("t-0", &[1, 2, 4]);
    world.kill(1);
    world.kill(2);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 4 isr [4]"));
    world
}

/// Beyond Java, which takes the last in-sync replica out of the assignment and leaves the partition without a leader.
#[test]
fn a_cancel_that_would_leave_nobody_to_lead_waits_for_an_original_replica() {
    type Meanwhile = fn(&mut World);
    let meanwhile: [(&str, Meanwhile); 4] = [
        ("nothing", |_| {}),
        ("another term", next_klamm),
        ("asked again", |world| {
            assert_eq!(alter(world, &[("t-0", None)]), ["t-0 NONE"]);
        }),
        ("a minute", |world| world.advance(61_000)),
    ];
    for (what, happens) in meanwhile {
        let mut world = led_by_an_added_replica();
        assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
        happens(&mut world);
        assert!(
            world.led_by("t-0").starts_with("leader 4 isr [4]"),
            "{what}"
        );
        assert_eq!(gauges(&mut world), (1, [0, 0, 0, 0, 1, 0]), "{what}");
        assert_eq!(
            listed(&mut world),
            ["t-0 [1,2,4,5] adding [4,5] removing [4,5]"]
        );
        world.start_broker(1);
        world.settle();
        world.catch_up();
        assert_eq!(
            stored(&world, "t-0"),
            "[1,2] adding [] removing []",
            "{what}"
        );
        assert!(
            world.led_by("t-0").starts_with("leader 1 isr [1]"),
            "{what}"
        );
        assert_eq!(hosts(&world, "t-0"), [1, 2], "{what}");
        assert_eq!(gauges(&mut world), (0, [0; 6]), "{what}");
        world.assert_converged();
    }
}

#[test]
fn a_waiting_cancel_gives_way_to_another_target() {
    let mut world = led_by_an_added_replica();
    alter(&mut world, &[("t-0", None)]);
    assert_eq!(alter(&mut world, &[("t-0", Some(&[3]))]), ["t-0 NONE"]);
    assert!(world.led_by("t-0").starts_with("leader 4 isr [4]"));
    world.catch_up();
    assert_eq!(stored(&world, "t-0"), "[3] adding [] removing []");
    assert!(world.led_by("t-0").starts_with("leader 3 isr [3]"));
    assert!(!has_log(&world, 4, "t-0") && !has_log(&world, 5, "t-0"));
}

/// Upstream: `znodeReassignmentShouldOverrideApiTriggeredReassignment`, and the other way round.
#[test]
fn the_latest_target_wins_whoever_asks() {
    let mut world = led();
    assert_eq!(alter(&mut world, &[("t-0", Some(&[3]))]), ["t-0 NONE"]);
    ask_by_node(&world, &[("t-0", &[4]), ("t-1", &[4, 5])]);
    world.settle();
    assert_eq!(
        listed(&mut world),
        [
            "t-0 [4,1,2] adding [4] removing [1,2]",
            "t-1 [4,5,2,3] adding [4,5] removing [2,3]"
        ]
    );
    assert!(!has_log(&world, 3, "t-0"));
    assert_eq!(alter(&mut world, &[("t-0", Some(&[5, 1]))]), ["t-0 NONE"]);
    assert_eq!(stored(&world, "t-0"), "[5,1,2] adding [5] removing [2]");
    assert!(!has_log(&world, 4, "t-0"));
    let rest = node(&world).unwrap();
    assert!(
        !rest.contains(r#""partition":0"#) && rest.contains(r#""partition":1"#),
        "{rest}"
    );
    assert_eq!(alter(&mut world, &[("t-1", None)]), ["t-1 NONE"]);
    assert_eq!(node(&world), None);
    world.catch_up();
    assert_moved(&mut world, "t-0", &[5, 1]);
    assert_moved(&mut world, "t-1", &[2, 3]);
}

/// Upstream: `shouldUseLatestOrderingIfTwoConsecutiveReassignmentsHaveSameSetButDifferentOrdering`.
#[test]
fn the_latest_order_counts() {
    let mut world = led();
    alter(&mut world, &[("t-0", Some(&[1, 2, 3]))]);
    alter(&mut world, &[("t-0", Some(&[3, 2, 1]))]);
    world.catch_up();
    assert_moved(&mut world, "t-0", &[3, 2, 1]);
    assert_eq!(
        alter(&mut world, &[("t-0", Some(&[1, 2, 3]))]),
        ["t-0 NONE"]
    );
    assert_moved(&mut world, "t-0", &[1, 2, 3]);
}

/// Upstream: `testReassignmentMatchesCurrentAssignment`, `testTopicIdUpgradeAfterReassigningPartitions`.
#[test]
fn a_target_that_is_reached_already_costs_a_leader_epoch_and_no_more() {
    let mut world = led();
    let before = world.topic("t").unwrap();
    ask_by_node(&world, &[("t-0", &[1, 2])]);
    world.settle();
    assert_moved(&mut world, "t-0", &[1, 2]);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 1");
    assert_eq!(alter(&mut world, &[("t-0", Some(&[1, 2]))]), ["t-0 NONE"]);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 2");
    assert_eq!(world.topic("t").unwrap(), before, "version and all");
}

/// Upstream: `testInvalidAlterPartitionReassignments`, and klamm's own id.
#[test]
fn each_fault_of_an_api_request_costs_only_its_partition() {
    let mut world = led();
    world.create_topic("going", &[&[1, 2]]);
    world.settle();
    world.pause(2);
    world.zookeeper.poke("/admin/delete_topics/going", b"");
    world.settle();
    world.kill(5);
    world.settle();
    let answers = alter(
        &mut world,
        &[
            ("going-0", Some(&[3])),
            ("t-0", Some(&[3])),
            ("t-1", Some(&[])),
            ("t-2", Some(&[3])),
            ("x-0", Some(&[3])),
        ],
    );
    assert_eq!(
        answers,
        [
            "going-0 UNKNOWN_TOPIC_OR_PARTITION(3)",
            "t-0 NONE",
            "t-1 INVALID_REPLICA_ASSIGNMENT(39)",
            "t-2 UNKNOWN_TOPIC_OR_PARTITION(3)",
            "x-0 UNKNOWN_TOPIC_OR_PARTITION(3)",
        ]
    );
    for bad in [&[3, 3][..], &[-1], &[3, -7], &[77], &[5], &[9], &[2, 9]] {
        let answers = alter(&mut world, &[("t-1", Some(bad))]);
        assert_eq!(answers, ["t-1 INVALID_REPLICA_ASSIGNMENT(39)"], "{bad:?}");
    }
    assert_eq!(stored(&world, "t-1"), "[2,3] adding [] removing []");
    assert_eq!(listed(&mut world).len(), 1);
}

#[test]
fn requests_to_a_klamm_that_does_not_lead_are_answered() {
    let mut world = World::of_brokers(&[1], "3.9");
    world.java_takes_role(1);
    let mut settings = World::settings();
    settings.takeover = klamm::machine::candidacy::TakeoverPolicy::Vacant;
    world.start_klamm_with(settings);
    world.settle();
    let alter = world.klamm().open_slot();
    let list = world.klamm().open_slot();
    let queue = &world.klamm().queue;
    queue.put(ControllerEvent::AlterPartitionReassignments {
        targets: [(partition("t-0"), None)].into(),
        reply_to: alter,
    });
    queue.put(ControllerEvent::ListPartitionReassignments {
        partitions: None,
        reply_to: list,
    });
    world.settle();
    assert_eq!(
        world.answer_to(alter),
        Answer::AlterPartitionReassignments(Err(KafkaError::NOT_CONTROLLER))
    );
    assert_eq!(
        world.answer_to(list),
        Answer::ListPartitionReassignments(Err(KafkaError::NOT_CONTROLLER))
    );
}

/// Upstream: `PreemptionWithCallbacks`.
#[test]
fn requests_that_wait_when_the_session_ends_are_answered() {
    let mut world = led();
    let alter = world.klamm().open_slot();
    let list = world.klamm().open_slot();
    let queue = &world.klamm().queue;
    queue.put(ControllerEvent::AlterPartitionReassignments {
        targets: [(partition("t-0"), Some(vec![BrokerId(3)]))].into(),
        reply_to: alter,
    });
    queue.put(ControllerEvent::ListPartitionReassignments {
        partitions: Some(vec![partition("t-0")]),
        reply_to: list,
    });
    world.klamm().expire_session();
    assert_eq!(
        world.answer_to(alter),
        Answer::AlterPartitionReassignments(Err(KafkaError::NOT_CONTROLLER))
    );
    assert_eq!(
        world.answer_to(list),
        Answer::ListPartitionReassignments(Err(KafkaError::NOT_CONTROLLER))
    );
    world.settle();
    assert_eq!(stored(&world, "t-0"), "[1,2] adding [] removing []");
}

/// Upstream: `testListReassignmentsDoesNotShowNonReassigningPartitions`, `…DeletedPartitions`.
#[test]
fn only_what_moves_is_listed() {
    let mut world = led();
    ask_by_node(&world, &[("t-1", &[4])]);
    world.settle();
    let reply_to = world.klamm().open_slot();
    let partitions = Some(["t-0", "t-1", "x-0"].map(partition).to_vec());
    let event = ControllerEvent::ListPartitionReassignments {
        partitions,
        reply_to,
    };
    world.klamm().queue.put(event);
    world.settle();
    let Answer::ListPartitionReassignments(Ok(moving)) = world.answer_to(reply_to) else {
        panic!("not answered");
    };
    assert_eq!(moving.len(), 1);
    assert_eq!(moving[0].0, partition("t-1"));
    assert_eq!(moving[0].1.target().as_i32s(), [4]);
}
