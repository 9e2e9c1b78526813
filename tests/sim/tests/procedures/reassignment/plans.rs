//! Plans as operators make them: clusters that grow and shrink, several requests side by side, one that asks for
//! different things, and what was asked for while everything was down.

use super::*;

/// t and u, three partitions each, on brokers 1 and 2; broker 3 is empty, and known by an own topic.
fn two_of_three() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2], &[2, 1], &[1, 2]]);
    world.create_topic("u", &[&[1], &[2], &[2, 1]]);
    world.create_topic("own", &[&[3]]);
    world.settle();
    world.told();
    world
}

/// Upstream: `shouldExpandCluster`, `shouldShrinkCluster`, `shouldMoveSubsetOfPartitions`,
/// `shouldPerformThrottledReassignmentOverVariousTopics` as far as the controller takes part.
#[test]
fn what_a_plan_names_is_done_to_the_letter_and_all_else_stays_as_it_was() {
    type Plan<'a> = &'a [(&'a str, &'a [i32])];
    let plans: [(&str, Plan); 4] = [
        (
            "expand",
            &[("t-0", &[1, 3]), ("t-2", &[3, 1]), ("u-1", &[3])],
        ),
        (
            "shrink",
            &[
                ("t-0", &[1, 3]),
                ("t-1", &[3, 1]),
                ("t-2", &[3, 1]),
                ("u-1", &[3]),
                ("u-2", &[3, 1]),
            ],
        ),
        (
            "some of them",
            &[("t-0", &[3, 2]), ("t-1", &[3, 1]), ("u-0", &[2])],
        ),
        (
            "more replicas, and one that is there already",
            &[("u-0", &[1, 2]), ("u-1", &[2, 3]), ("t-1", &[2, 1])],
        ),
    ];
    let all = ["t-0", "t-1", "t-2", "u-0", "u-1", "u-2", "own-0"];
    for (what, plan) in plans {
        for by_node in [true, false] {
            let mut world = two_of_three();
            let rest = all.map(|of| (of, stored(&world, of), world.state(of)));
            if by_node {
                ask_by_node(&world, plan);
                world.settle();
            } else {
                let asked: Vec<Asked> = plan.iter().map(|(of, ids)| (*of, Some(*ids))).collect();
                let answers = alter(&mut world, &asked);
                assert!(answers.iter().all(|said| said.ends_with(" NONE")), "{what}");
            }
            world.catch_up();
            for (of, target) in plan {
                assert_moved(&mut world, of, target);
            }
            assert_eq!(listed(&mut world), [""; 0], "{what}");
            for (of, assignment, state) in rest {
                if plan.iter().all(|(named, _)| *named != of) {
                    assert_eq!(stored(&world, of), assignment, "{what}: {of}");
                    assert_eq!(world.state(of), state, "{what}: {of}, epochs and all");
                }
            }
        }
    }
}

/// Upstream: `testCancelAndSetSomeReassignments`.
#[test]
fn one_request_may_cancel_redirect_and_begin_and_what_it_cannot_costs_only_itself() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1], &[1], &[1], &[1]]);
    world.settle();
    let answers = alter(&mut world, &[("t-0", Some(&[2])), ("t-1", Some(&[2]))]);
    assert_eq!(answers, ["t-0 NONE", "t-1 NONE"]);
    let answers = alter(
        &mut world,
        &[
            ("t-0", None),
            ("t-1", Some(&[3])),
            ("t-2", Some(&[2])),
            ("t-3", None),
        ],
    );
    assert_eq!(
        answers,
        [
            "t-0 NONE",
            "t-1 NONE",
            "t-2 NONE",
            "t-3 NO_REASSIGNMENT_IN_PROGRESS(85)"
        ]
    );
    assert_eq!(
        listed(&mut world),
        [
            "t-1 [3,1] adding [3] removing [1]",
            "t-2 [2,1] adding [2] removing [1]"
        ]
    );
    world.catch_up();
    for (of, target) in [("t-0", 1), ("t-1", 3), ("t-2", 2), ("t-3", 1)] {
        assert_moved(&mut world, of, &[target]);
    }
    assert_eq!(world.led_by("t-3"), "leader 1 isr [1] le 0");
}

/// Upstream: `shouldBeAbleToIncrementallyStackDifferentReassignments`.
#[test]
fn what_is_asked_for_one_after_the_other_moves_side_by_side() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1], &[1]]);
    world.create_topic("u", &[&[2]]);
    world.settle();
    for (count, (of, target)) in [("t-0", 2), ("t-1", 3), ("u-0", 1)].into_iter().enumerate() {
        let answer = alter(&mut world, &[(of, Some(&[target]))]);
        assert_eq!(answer, [format!("{of} NONE")]);
        assert_eq!(listed(&mut world).len(), count + 1);
    }
    world.catch_up();
    for (of, target) in [("t-0", 2), ("t-1", 3), ("u-0", 1)] {
        assert_moved(&mut world, of, &[target]);
    }
}

/// Upstream: `shouldTriggerReassignmentOnControllerStartup`.
#[test]
fn a_plan_that_was_left_while_all_was_down_is_carried_out_whoever_comes_up_first() {
    for brokers_come_first in [true, false] {
        let mut world = World::led(&[0, 1, 2], "3.9");
        world.create_topic("orders", &[&[0, 1], &[1, 2]]);
        world.settle();
        world.klamm().kill();
        world.klamm().expire_session();
        for id in [0, 1, 2] {
            world.kill(id);
        }
        ask_by_node(
            &world,
            &[
                ("orders-0", &[2, 1]),
                ("orders-1", &[1, 2]),
                ("customers-0", &[0, 1]),
            ],
        );
        if brokers_come_first {
            for id in [0, 1, 2] {
                world.start_broker(id);
            }
        }
        world.start_klamm();
        world.settle();
        if !brokers_come_first {
            for id in [0, 1, 2] {
                world.start_broker(id);
                world.settle();
            }
        }
        for _ in 0..2 {
            world.catch_up();
        }
        assert_moved(&mut world, "orders-0", &[2, 1]);
        assert_moved(&mut world, "orders-1", &[1, 2]);
        assert!(world.topic("customers").is_none());
    }
}

/// Upstream: `testAutoPreferredReplicaLeaderElectionWithSamePartitionBeingReassigned` (3.4; before, nothing was balanced
/// while anything moved).
#[test]
fn a_partition_that_is_stuck_on_its_way_is_balanced_all_the_same() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    let mut settings = World::settings();
    settings.leader_balance = Some(klamm::controller::LeaderBalance {
        interval_ms: 10_000,
        threshold_percent: 10,
    });
    world.start_klamm_with(settings);
    world.create_topic("t", &[&[2, 1]]);
    world.create_topic("known", &[&[3]]);
    world.settle();
    world.kill(3);
    world.settle();
    ask_by_node(&world, &[("t-0", &[1, 2, 3])]);
    world.settle();
    assert_eq!(stored(&world, "t-0"), "[1,2,3] adding [3] removing []");
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 1");
    world.advance(20_000);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [2,1] le 2");
    assert_eq!(gauges(&mut world).0, 1, "it is still stuck");
    world.start_broker(3);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "t-0", &[1, 2, 3]);
    assert!(world.led_by("t-0").starts_with("leader 1 isr [2,1,3] "));
}
