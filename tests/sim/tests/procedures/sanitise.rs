//! klamm keeps no replica: assignments that name one are rewritten before anybody is elected on them.

use klamm::model::BrokerId;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

#[test]
fn a_new_topic_that_names_klamm_gets_a_genuine_broker_in_its_place() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[9, 1], &[2, 9, 3]]);
    world.settle();
    assert_eq!(world.assigned("t-0"), [2, 1]);
    assert_eq!(world.assigned("t-1"), [2, 1, 3]);
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,1,3] le 0");
    let told = world.told().join("\n");
    assert!(
        !told.contains("isr [9") && !told.contains(",9] le"),
        "{told}"
    );
}

#[test]
fn the_same_holds_for_partitions_added_later() {
    let mut world = World::led(&[1, 2], "2.4");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.add_partition("t", &[9, 2]);
    world.settle();
    assert_eq!(world.assigned("t-1"), [1, 2]);
    assert_eq!(world.led_by("t-1"), "leader 1 isr [1,2] le 0");
    assert_eq!(world.assigned("t-0"), [1, 2]);
}

#[test]
fn and_for_what_a_failover_finds_without_state() {
    let mut world = World::of_brokers(&[1, 2], "2.4");
    world.zookeeper.poke("/klamm/ids/8", b"{}");
    world.create_topic("t", &[&[9, 1], &[8]]);
    world.start_klamm();
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
    assert!(world.assigned("t-1") != [8] && world.assigned("t-1").len() == 1);
    assert_ne!(world.led_by("t-1"), "none");
}

#[test]
fn with_nobody_free_the_list_gets_shorter() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2, 9]]);
    world.settle();
    assert_eq!(world.assigned("t-0"), [1, 2]);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
}

#[test]
fn with_no_broker_at_all_the_partition_waits_for_one() {
    let mut world = World::led(&[1], "2.8");
    world.kill(1);
    world.settle();
    world.create_topic("t", &[&[9]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
    world.start_broker(1);
    world.settle();
    assert_eq!(world.assigned("t-0"), [1]);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
}

#[test]
fn a_tool_that_brings_klamm_back_is_corrected() {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[9, 1]]);
    world.settle();
    assert_eq!(world.assigned("t-0"), [2, 1]);
    world.write_topic("t", None, &[&[9, 1], &[3, 9]]);
    world.settle();
    assert_eq!(world.assigned("t-0"), [2, 1]);
    assert!(!world.assigned("t-1").contains(&9));
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
    assert!(world.led_by("t-1").starts_with("leader 3 "));
}

#[test]
fn a_tool_that_writes_meanwhile_is_read_again() {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let other = br#"{"version":1,"partitions":{"0":[9,3],"1":[9]}}"#;
            zookeeper.poke("/brokers/topics/t", other);
        }),
    );
    world.create_topic("t", &[&[9, 1]]);
    world.settle();
    assert_eq!(world.assigned("t-0")[1], 3);
    for of in ["t-0", "t-1"] {
        assert!(!world.assigned(of).contains(&9), "{of}");
        assert_ne!(world.led_by(of), "none", "{of}");
    }
}

#[test]
fn partitions_that_have_state_on_klamm_are_counted_and_moved() {
    let mut world = World::of_brokers(&[1, 2], "2.4");
    world.create_topic("t", &[&[1, 9]]);
    let state = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", state);
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
    assert_eq!(world.assigned("t-0"), [1, 2, 9]);
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1] "));
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.assignments_naming_klamm, 1);
    let state = world.state("t-0").unwrap().leader_and_isr;
    assert!(!state.isr.contains(BrokerId(9)));
    world.catch_up();
    assert_eq!(world.assigned("t-0"), [1, 2]);
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.assignments_naming_klamm, 0);
}

/// A Java controller takes the node of a klamm that is gone for a broker until its session times out.
#[test]
fn a_partition_that_a_java_controller_let_klamm_lead_gets_a_genuine_leader() {
    // Alone, with its replica; with a genuine member that is gone, too; and where the other replica comes back later.
    let cases = [
        ("[9]", 9, "leader 1 isr [1] "),
        ("[9,1]", 9, "leader 1 isr [1] "),
        ("[9,3]", 9, "leader -1 isr [3] "),
    ];
    for (isr, leader, led) in cases {
        let mut world = World::of_brokers(&[1, 2], "2.4");
        world.create_topic("t", &[&[9, 1, 3]]);
        let state = format!(
            r#"{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":3,"isr":{isr}}}"#
        );
        let path = "/brokers/topics/t/partitions/0/state";
        world.zookeeper.poke(path, state.as_bytes());
        world.start_klamm();
        world.settle();
        let now = world.led_by("t-0");
        assert!(now.starts_with(led), "{isr}: {now}");
    }
}

#[test]
fn a_partition_that_klamm_alone_was_to_lead_is_led_as_soon_as_a_replica_is_there() {
    let mut world = World::of_brokers(&[2], "2.4");
    world.create_topic("t", &[&[1, 9]]);
    let state = br#"{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":3,"isr":[9]}"#;
    let path = "/brokers/topics/t/partitions/0/state";
    world.zookeeper.poke(path, state);
    world.start_klamm();
    world.settle();
    world.add_broker(1, "2.4", "2.4");
    world.start_broker(1);
    world.settle();
    let led = world.led_by("t-0");
    assert!(
        led.contains("leader 2 isr [2]") || led.contains("leader 1 isr [1"),
        "{led}"
    );
    world.catch_up();
    world.settle();
    assert_eq!(world.assigned("t-0"), [1, 2]);
    world.assert_converged();
}

#[test]
fn a_rack_not_used_yet_goes_before_load() {
    let mut world = World::empty();
    for (id, rack) in [(1, "a"), (2, "a"), (3, "b")] {
        world.add_broker(id, "2.4", "2.4");
        world.start_broker_with(id, Some(rack));
    }
    world.start_klamm();
    world.settle();
    world.create_topic("load", &[&[3], &[3], &[3]]);
    world.settle();
    world.create_topic("t", &[&[1, 9]]);
    world.settle();
    assert_eq!(world.assigned("t-0"), [1, 3]);
}

#[test]
fn a_failover_with_no_broker_at_all_lets_the_partition_wait_for_one() {
    let mut world = World::of_brokers(&[1], "2.8");
    world.kill(1);
    world.create_topic("t", &[&[9], &[1, 9]]);
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active(), "{}", world.standing_by());
    assert_eq!(world.led_by("t-0"), "none");
    world.start_broker(1);
    world.settle();
    for of in ["t-0", "t-1"] {
        assert_eq!(world.assigned(of), [1], "{of}");
        assert_eq!(world.led_by(of), "leader 1 isr [1] le 0", "{of}");
    }
    world.assert_converged();
}

#[test]
fn a_tool_that_writes_while_a_failover_rewrites_is_read_again() {
    let mut world = World::of_brokers(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[9, 1]]);
    world.start_klamm();
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let other = br#"{"version":1,"partitions":{"0":[9,3],"1":[9]}}"#;
            zookeeper.poke("/brokers/topics/t", other);
        }),
    );
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(world.assigned("t-0")[1], 3);
    for of in ["t-0", "t-1"] {
        assert!(!world.assigned(of).contains(&9), "{of}");
        assert_ne!(world.led_by(of), "none", "{of}");
    }
    world.assert_converged();
}
