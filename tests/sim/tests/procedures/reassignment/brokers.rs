//! Brokers that are away, die, bounce or leave while replicas move.

use super::*;

#[test]
fn a_dead_target_is_waited_for_with_its_reason() {
    let mut world = led();
    world.create_topic("u", &[&[4]]);
    world.settle();
    world.kill(4);
    world.settle();
    ask_by_node(&world, &[("t-0", &[1, 4])]);
    world.settle();
    world.catch_up();
    assert_eq!(stored(&world, "t-0"), "[1,4,2] adding [4] removing [2]");
    assert_eq!(gauges(&mut world), (1, [0, 1, 0, 0, 0, 0]));
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 1");
    world.advance(180_000);
    assert_eq!(
        world.led_by("t-0"),
        "leader 1 isr [1,2] le 1",
        "time costs no epochs"
    );
    assert!(node(&world).is_some());
    world.start_broker(4);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "t-0", &[1, 4]);
}

/// Upstream: `PartitionReassignmentWithOfflineReplicaHaltingProgress`, `…ResumesAfterReplicaComesOnline`: leader epoch 4.
#[test]
fn a_move_to_a_dead_broker_costs_two_announcements_an_election_and_a_shrink() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1]]);
    world.create_topic("known", &[&[2]]);
    world.settle();
    world.kill(2);
    world.settle();
    ask_by_node(&world, &[("t-0", &[2])]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 1");
    assert_eq!(stored(&world, "t-0"), "[2,1] adding [2] removing [1]");
    assert!(node(&world).is_some());
    world.start_broker(2);
    world.settle();
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 4");
    assert_moved(&mut world, "t-0", &[2]);
}

/// Upstream: `PartitionReassignmentToBrokerWithOfflineLogDir`.
#[test]
fn a_new_replica_may_be_made_on_a_broker_that_lost_a_directory() {
    let mut world = led();
    world.create_topic("u", &[&[4]]);
    world.settle();
    world.fail_log_dir(4, &["u-0"]);
    world.settle();
    ask_by_node(&world, &[("t-0", &[4])]);
    world.settle();
    assert!(has_log(&world, 4, "t-0"));
    world.catch_up();
    assert_eq!(stored(&world, "t-0"), "[4] adding [] removing []");
}

#[test]
fn whoever_bounces_in_the_middle_the_partition_arrives() {
    for id in [1, 2, 3, 4] {
        for before_announcement in [true, false] {
            let mut world = led();
            ask_by_node(&world, &[("t-0", &[4, 3])]);
            if !before_announcement {
                world.settle();
                world.leader_asks_isr("t-0", &[1, 2, 3]);
            }
            world.bounce(id);
            world.settle();
            for _ in 0..3 {
                world.catch_up();
            }
            assert_moved(&mut world, "t-0", &[4, 3]);
            assert_eq!(
                world.state("t-0").unwrap().leader_and_isr.isr.len(),
                2,
                "{id}"
            );
        }
    }
}

#[test]
fn whoever_dies_in_the_middle_and_returns_the_partition_arrives() {
    for id in [1, 2, 3, 4] {
        let mut world = led();
        ask_by_node(&world, &[("t-0", &[4, 3])]);
        world.settle();
        world.leader_asks_isr("t-0", &[1, 2, 3]);
        world.kill(id);
        world.settle();
        world.catch_up();
        world.start_broker(id);
        world.settle();
        for _ in 0..3 {
            world.catch_up();
        }
        let stray = [1, 2].contains(&id);
        if stray {
            // It was away when it was told to delete, as under the Java controller.
            world.broker_mut(id, |broker| broker.logs.remove(&partition("t-0")));
        }
        assert_moved(&mut world, "t-0", &[4, 3]);
    }
}

#[test]
fn a_target_that_leaves_gently_is_waited_for() {
    let mut world = led();
    ask_by_node(&world, &[("t-0", &[3])]);
    world.settle();
    world.ask_shutdown(3);
    world.settle();
    assert_eq!(gauges(&mut world), (1, [0, 1, 0, 0, 0, 0]));
    world.bounce(3);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "t-0", &[3]);
}

#[test]
fn a_partition_without_a_leader_says_so_and_moves_once_it_has_one() {
    let mut world = led();
    world.create_topic("u", &[&[5]]);
    world.settle();
    world.kill(5);
    world.settle();
    ask_by_node(&world, &[("u-0", &[4])]);
    world.settle();
    assert_eq!(gauges(&mut world), (1, [0, 0, 0, 1, 0, 0]));
    world.start_broker(5);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "u-0", &[4]);
}

/// Goal: a replica that leaves the in-sync set between the look and the write doesn't make the last good ones delete.
/// Method: the leader of an IBP 2.4 cluster shrinks the set just before klamm hands the leadership over.
#[test]
fn a_target_that_falls_behind_at_the_last_moment_is_waited_for() {
    let mut world = led_by("2.4");
    ask_by_node(&world, &[("t-0", &[3, 4])]);
    world.settle();
    world.leader_writes_isr("t-0", &[1, 2, 3, 4]);
    let shrink = Fault::meanwhile(|zookeeper| {
        let state =
            br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2,3]}"#;
        zookeeper.poke("/brokers/topics/t/partitions/0/state", state);
    });
    world.klamm().faults().at_next(Call::Write, shrink);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(
        stored(&world, "t-0"),
        "[3,4,1,2] adding [3,4] removing [1,2]"
    );
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 1");
    assert_eq!(hosts(&world, "t-0"), [1, 2, 3, 4]);
    assert_eq!(gauges(&mut world), (1, [1, 0, 0, 0, 0, 0]));
}
