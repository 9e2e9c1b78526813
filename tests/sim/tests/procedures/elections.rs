//! Leaders elected on request, and to balance.

use klamm::controller::{ControllerSettings, LeaderBalance};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

const NODE: &str = "/admin/preferred_replica_election";

fn asks(world: &World, partitions: &[(&str, i32)]) {
    let named: Vec<String> = partitions
        .iter()
        .map(|(topic, partition)| format!(r#"{{"topic":"{topic}","partition":{partition}}}"#))
        .collect();
    let text = format!(r#"{{"version":1,"partitions":[{}]}}"#, named.join(","));
    world.zookeeper.poke(NODE, text.as_bytes());
}

/// `t-0` to `t-2` prefer brokers 1, 2 and 3; broker 1 was away and leads nothing any more.
fn after_a_death(settings: ControllerSettings) -> World {
    let mut world = World::of_brokers(&[1, 2, 3], "2.8");
    world.start_klamm_with(settings);
    world.settle();
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]);
    world.settle();
    broker_1_dies_and_returns(&mut world);
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3,1] le 1");
    world.told();
    world
}

fn broker_1_dies_and_returns(world: &mut World) {
    world.kill(1);
    world.settle();
    world.start_broker(1);
    world.settle();
    world.catch_up();
}

fn balanced(threshold_percent: u32) -> ControllerSettings {
    ControllerSettings {
        leader_balance: Some(LeaderBalance {
            interval_ms: 300_000,
            threshold_percent,
        }),
        ..World::settings()
    }
}

#[test]
fn the_preferred_leader_is_elected_on_request_and_the_node_is_gone() {
    let mut world = after_a_death(World::settings());
    asks(&world, &[("t", 0), ("t", 1)]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [2,3,1] le 2");
    assert_eq!(
        world.led_by("t-1"),
        "leader 2 isr [2,3,1] le 1",
        "it was led so already"
    );
    assert!(world.zookeeper.look(NODE).is_none());
    assert_eq!(
        world.told(),
        [
            "L{1,2,3} t-0 leader 1 isr [2,3,1] le 2",
            "U{1,2,3} alive [1,2,3,9] t-0 leader 1 isr [2,3,1] le 2",
        ]
    );
    world.assert_converged();
}

/// Upstream: `testBackToBackPreferredReplicaLeaderElections`.
#[test]
fn one_request_after_the_other_is_served() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    for round in 0..3 {
        broker_1_dies_and_returns(&mut world);
        let taken = format!("leader 2 isr [2,1] le {}", 2 * round + 1);
        assert_eq!(world.led_by("t-0"), taken);
        asks(&world, &[("t", 0)]);
        world.settle();
        let given_back = format!("leader 1 isr [2,1] le {}", 2 * round + 2);
        assert_eq!(world.led_by("t-0"), given_back);
        assert!(world.zookeeper.look(NODE).is_none());
    }
}

#[test]
fn what_cannot_be_elected_costs_the_rest_nothing_and_the_node_goes_all_the_same() {
    let mut world = after_a_death(World::settings());
    world.kill(3);
    world.settle();
    let bad = r#"{"version":1,"partitions":[{"topic":"nope","partition":0},{"topic":"t","partition":9},7,{"topic":"t","partition":2},{"topic":"t","partition":0}]}"#;
    world.zookeeper.poke(NODE, bad.as_bytes());
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1 "));
    assert!(
        world.led_by("t-2").starts_with("leader 1 "),
        "3 is dead: {}",
        world.led_by("t-2")
    );
    assert!(world.zookeeper.look(NODE).is_none());
    world.assert_converged();
}

#[test]
fn a_node_that_cannot_be_read_is_removed_and_the_next_request_is_served() {
    let mut world = after_a_death(World::settings());
    for broken in ["", "{", "[]", r#"{"partitions":"t"}"#] {
        world.zookeeper.poke(NODE, broken.as_bytes());
        world.settle();
        assert!(world.zookeeper.look(NODE).is_none(), "`{broken}` stayed");
    }
    asks(&world, &[("t", 0)]);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}

#[test]
fn a_request_from_before_the_takeover_is_served_by_the_next_controller() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.start_klamm();
    world.settle();
    broker_1_dies_and_returns(&mut world);
    assert!(world.led_by("t-0").starts_with("leader 2 "));
    let java = world.java_takes_role(2);
    world.settle();
    asks(&world, &[("t", 0)]);
    java.close();
    world.settle();
    world.advance(60_000);
    assert_eq!(world.controller(), Some(9));
    assert!(world.led_by("t-0").starts_with("leader 1 "));
    assert!(world.zookeeper.look(NODE).is_none());
}

#[test]
fn a_request_whose_handling_zookeeper_refused_is_served_by_the_next_sweep() {
    let mut world = after_a_death(World::settings());
    world
        .klamm()
        .faults()
        .at_next(Call::PreferredReplicaElection, Fault::Refused("for a test"));
    asks(&world, &[("t", 0)]);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 "));
    world.advance(60_000);
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}

#[test]
fn brokers_get_back_what_prefers_them_at_the_interval_and_not_before() {
    let mut world = after_a_death(balanced(10));
    world.advance(10_000);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [2,3,1] le 2");
    world.assert_converged();
    // And again and again, as long as the term lasts.
    for _ in 0..3 {
        broker_1_dies_and_returns(&mut world);
        assert!(world.led_by("t-0").starts_with("leader 2 "));
        world.advance(200_000);
        assert!(world.led_by("t-0").starts_with("leader 2 "), "too early");
        world.advance(100_000);
        assert!(world.led_by("t-0").starts_with("leader 1 "));
    }
}

#[test]
fn an_imbalance_within_the_percentage_is_left_and_so_is_any_where_balancing_is_off() {
    for settings in [balanced(100), World::settings()] {
        let mut world = after_a_death(settings);
        world.advance(700_000);
        assert!(world.led_by("t-0").starts_with("leader 2 "));
    }
}

#[test]
fn the_balance_is_looked_at_soon_after_a_takeover() {
    let mut world = after_a_death(balanced(10));
    let java = world.java_takes_role(2);
    world.settle();
    java.close();
    world.settle();
    assert_eq!(world.controller(), Some(9));
    assert!(world.led_by("t-0").starts_with("leader 2 "));
    world.advance(10_000);
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}
