//! What `/admin/reassign_partitions` asks for, adds, changes and gets wrong.

use super::*;

/// Upstream: `ReassigningNonExistingPartition`, `shouldPerformMultipleReassignmentOperationsOverVariousTopics`.
#[test]
fn what_is_added_to_a_running_node_is_done_and_what_is_taken_out_goes_on() {
    let mut world = led();
    world.create_topic("u", &[&[1]]);
    world.settle();
    ask_by_node(&world, &[("t-0", &[3])]);
    world.settle();
    ask_by_node(&world, &[("t-0", &[3]), ("t-1", &[4]), ("x-0", &[1])]);
    world.settle();
    assert_eq!(listed(&mut world).len(), 2);
    assert!(
        !node(&world).unwrap().contains("x"),
        "what can't be done stays"
    );
    // Another target for t-1, and t-0 is not mentioned any more.
    ask_by_node(&world, &[("t-1", &[5]), ("u-0", &[2])]);
    world.settle();
    assert_eq!(
        listed(&mut world),
        [
            "t-0 [3,1,2] adding [3] removing [1,2]",
            "t-1 [5,2,3] adding [5] removing [2,3]",
            "u-0 [2,1] adding [2] removing [1]",
        ]
    );
    world.catch_up();
    for (of, target) in [("t-0", 3), ("t-1", 5), ("u-0", 2)] {
        assert_moved(&mut world, of, &[target]);
    }
    assert!(!has_log(&world, 4, "t-1"));
}

#[test]
fn a_node_written_the_moment_the_one_before_vanishes_is_seen() {
    let mut world = led();
    for round in 0..4 {
        let (one, other): (&[i32], &[i32]) = match round % 2 {
            0 => (&[3], &[4, 5]),
            _ => (&[1, 2], &[2, 3]),
        };
        ask_by_node(&world, &[("t-0", one)]);
        while node(&world).is_some() {
            world.catch_up();
        }
        ask_by_node(&world, &[("t-1", other)]);
        world.settle();
        world.catch_up();
        assert_moved(&mut world, "t-0", one);
        assert_moved(&mut world, "t-1", other);
    }
}

/// Goal: nothing that is written into the node between klamm's read and its rewrite is lost. Method: an entry is added
/// just before the write that removes the finished node.
#[test]
fn an_entry_that_comes_while_the_node_is_removed_is_done() {
    let mut world = led();
    ask_by_node(&world, &[("t-0", &[2, 1])]);
    let calls = world.klamm().faults().clone();
    // Order changes alone: leader, topic, node.
    let added = Fault::meanwhile(|zookeeper| {
        let node = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]},{"topic":"t","partition":1,"replicas":[4]}]}"#;
        zookeeper.poke(NODE, node);
    });
    calls.at_next(Call::Write, Fault::meanwhile(|_| {}));
    calls.at_next(Call::Write, Fault::meanwhile(|_| {}));
    calls.at_next(Call::Write, added);
    world.settle();
    assert_eq!(calls.outstanding(), 0);
    assert_eq!(
        listed(&mut world),
        ["t-1 [4,2,3] adding [4] removing [2,3]"]
    );
    world.catch_up();
    assert_moved(&mut world, "t-1", &[4]);
    assert_moved(&mut world, "t-0", &[2, 1]);
}

/// Each row is written beside a good entry or alone; the good one is done, and the node ends empty.
#[test]
fn a_broken_node_costs_only_what_is_broken_in_it() {
    let entries = [
        r#"{"topic":"t","partition":0}"#,
        r#"{"topic":"t","partition":"0","replicas":[3]}"#,
        r#"{"topic":"t","partition":0,"replicas":[3,3]}"#,
        r#"{"topic":"t","partition":0,"replicas":[]}"#,
        r#"{"topic":"t","partition":0,"replicas":[-3]}"#,
        r#"{"topic":"t","partition":0,"replicas":[1,9]}"#,
        r#"{"topic":"t","partition":0,"replicas":[77]}"#,
        r#"{"topic":"t","partition":7,"replicas":[3]}"#,
        r#"{"topic":"nothing","partition":0,"replicas":[3]}"#,
        r#"{"topic":"../t","partition":0,"replicas":[3]}"#,
        "null",
        "17",
    ];
    for bad in entries {
        for under_next in [false, true] {
            let mut world = led();
            if under_next {
                world.klamm().kill();
                world.klamm().expire_session();
            }
            let good = r#"{"topic":"t","partition":1,"replicas":[4]}"#;
            let text = format!(r#"{{"version":1,"partitions":[{bad},{good}]}}"#);
            world.zookeeper.poke(NODE, text.as_bytes());
            if under_next {
                world.start_klamm();
            }
            world.settle();
            let left = node(&world).unwrap();
            assert!(
                left.contains(r#""replicas":[4]"#) && left.len() < text.len(),
                "{left}"
            );
            world.catch_up();
            assert_moved(&mut world, "t-1", &[4]);
            assert_moved(&mut world, "t-0", &[1, 2]);
            assert_eq!(world.controller_epoch(), 1 + i32::from(under_next));
        }
    }
    let nodes = [
        "",
        "null",
        "x",
        "[]",
        "{}",
        r#"{"partitions":3}"#,
        r#"{"version":1,"partitions":[]}"#,
    ];
    for bad in nodes {
        let mut world = led();
        world.zookeeper.poke(NODE, bad.as_bytes());
        world.settle();
        assert_eq!(node(&world), None, "`{bad}`");
        ask_by_node(&world, &[("t-1", &[4])]);
        world.settle();
        world.catch_up();
        assert_moved(&mut world, "t-1", &[4]);
    }
}

#[test]
fn a_node_for_a_topic_that_was_made_just_now_is_done() {
    let mut world = led();
    world.create_topic("new", &[&[1]]);
    ask_by_node(&world, &[("new-0", &[2])]);
    world
        .klamm()
        .queue
        .put(ControllerEvent::PartitionReassignment);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "new-0", &[2]);
}
