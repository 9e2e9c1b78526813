//! Topics go while brokers, controllers or all of them are away.

use super::*;

/// Upstream: `testBasicDeletion`.
#[test]
fn topics_asked_for_together_are_announced_as_gone_in_one_request() {
    let mut world = led();
    mark(&world, "t");
    mark(&world, "u");
    world.settle();
    let told = world.told();
    let announced: Vec<&String> = told
        .iter()
        .filter(|line| line.contains("deleting"))
        .collect();
    assert_eq!(
        announced,
        ["U{1,2,3} alive [1,2,3,9] t-0 deleting, t-1 deleting, u-0 deleting"]
    );
    assert_eq!(traces(&world, "t"), [""; 0]);
    assert_eq!(traces(&world, "u"), [""; 0]);
    assert_eq!(gauges(&mut world), (0, 0, 0, 0));
}

/// Upstream: `testInitialization`: only what is to be deleted is ineligible for it.
#[test]
fn at_a_takeover_only_topics_to_be_deleted_are_said_to_wait_for_a_dead_broker() {
    let mut world = led();
    world.create_topic("kept", &[&[2, 3]]);
    world.settle();
    world.kill(2);
    world.klamm().kill();
    world.klamm().expire_session();
    mark(&world, "t");
    mark(&world, "u");
    world.start_klamm();
    world.settle();
    let is_left = |id| has_log(&world, id, "u-0");
    assert!(world.topic("u").is_none() && !is_left(1) && !is_left(3));
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.starts_with("broker 2 "), "{why}");
    assert_eq!(waits_for(&mut world, "kept"), None);
    assert_eq!(gauges(&mut world), (1, 2, 1, 2));
    assert!(world.led_by("kept-0").starts_with("leader 3 isr [3] "));
    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
    assert_eq!(gauges(&mut world), (0, 0, 0, 0));
}

/// Upstream: `testIncreasePartitionCountDuringDeleteTopic`.
#[test]
fn a_topic_that_grew_while_its_deletion_waited_goes_whole_under_the_next_controller() {
    for is_seen_by_the_first in [true, false] {
        let mut world = led();
        world.kill(2);
        world.settle();
        mark(&world, "t");
        world.settle();
        assert!(!has_log(&world, 1, "t-0") && has_log(&world, 2, "t-0"));
        if is_seen_by_the_first {
            world.add_partition("t", &[1, 2, 3]);
            world.settle();
        }
        world.klamm().kill();
        world.klamm().expire_session();
        if !is_seen_by_the_first {
            world.add_partition("t", &[1, 2, 3]);
        }
        world.start_klamm();
        world.settle();
        assert!(world.topic("t").is_some());
        world.start_broker(2);
        world.settle();
        assert_eq!(traces(&world, "t"), [""; 0], "{is_seen_by_the_first}");
        assert_eq!(gauges(&mut world), (0, 0, 0, 0));
    }
}

/// Upstream: `testDeletingPartiallyDeletedTopic`.
#[test]
fn a_deletion_that_broke_off_before_all_went_down_is_finished_when_all_is_up() {
    for brokers_come_first in [true, false] {
        let mut world = led();
        world.klamm().kill();
        world.klamm().expire_session();
        for id in [1, 2, 3] {
            world.kill(id);
        }
        mark(&world, "t");
        world.zookeeper.uproot("/brokers/topics/t/partitions/0");
        if brokers_come_first {
            for id in [1, 2, 3] {
                world.start_broker(id);
            }
        }
        world.start_klamm();
        world.settle();
        if !brokers_come_first {
            assert!(world.topic("t").is_some(), "its logs are still there");
            for id in [1, 2, 3] {
                world.start_broker(id);
                world.settle();
            }
        }
        assert_eq!(traces(&world, "t"), [""; 0], "{brokers_come_first}");
        world.catch_up();
        assert_eq!(world.state("u-0").unwrap().leader_and_isr.isr.len(), 2);
        world.assert_converged();
    }
}

#[test]
fn a_half_deleted_topic_is_not_led_again_when_its_node_can_be_read_again() {
    let mut world = led();
    world.pause(2);
    mark(&world, "t");
    world.settle();
    assert!(!has_log(&world, 1, "t-0") && has_log(&world, 2, "t-0"));
    let path = "/brokers/topics/t";
    let content = world.zookeeper.look(path).unwrap().data().to_vec();
    world.zookeeper.poke(path, b"{");
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    // Broker 2 doesn't answer the survey.
    world.advance(6_000);
    assert!(world.klamm().is_active());
    world.told();
    world.zookeeper.poke(path, &content);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader -1 "));
    let orders: Vec<String> = world
        .told()
        .into_iter()
        .filter(|line| line.starts_with('L') && line.contains("t-"))
        .collect();
    assert_eq!(orders, [""; 0]);
    assert!(!has_log(&world, 1, "t-0"));
    world.resume(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}
