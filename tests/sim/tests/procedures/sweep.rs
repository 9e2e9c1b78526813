//! No lost watch outlives a minute.

use klamm::zk::paths;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, endpoint, partition};

const A_MINUTE_MS: u64 = 60_000;

fn three() -> World {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.settle();
    world
}

/// What the watches would say about `act` is lost.
fn unseen(world: &mut World, act: impl FnOnce(&mut World)) {
    act(world);
    world.klamm().queue.lose_events();
}

#[test]
fn whatever_a_watch_did_not_say_is_found_within_a_minute() {
    let mut world = three();
    unseen(&mut world, |world| world.create_topic("new", &[&[2, 1]]));
    unseen(&mut world, |world| world.add_partition("t", &[3, 1]));
    unseen(&mut world, |world| {
        assert!(world.leader_writes_isr("t-0", &[1, 2]));
    });
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("new-0"), "leader 2 isr [2,1] le 0");
    assert_eq!(world.led_by("t-1"), "leader 3 isr [3,1] le 0");
    let told = world.cached_at(3, "t-0");
    assert_eq!(told.as_deref(), Some("leader 1 isr [1,2] offline []"));

    unseen(&mut world, |world| world.kill(1));
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 1");

    unseen(&mut world, |world| world.start_broker(1));
    world.advance(A_MINUTE_MS);
    assert!(world.broker(1, |broker| broker.replicas.contains_key(&partition("t-0"))));

    unseen(&mut world, |world| world.bounce(3));
    world.advance(A_MINUTE_MS);
    assert!(
        world.broker(3, |broker| broker.leads(&partition("t-1")).is_some()
            || broker.replicas.contains_key(&partition("t-1")))
    );

    let mut moved = endpoint(2);
    moved.port = 1234;
    unseen(&mut world, |world| {
        world.set_endpoints(2, std::slice::from_ref(&moved));
    });
    world.advance(A_MINUTE_MS);
    let port = world.broker(1, |broker| {
        broker.alive[&klamm::model::BrokerId(2)].endpoints[0].port
    });
    assert_eq!(port, 1234);

    unseen(&mut world, |world| world.remove_topic("new"));
    world.advance(A_MINUTE_MS);
    assert_eq!(world.klamm().snapshot().gauges.topics, 1);
    world.assert_converged();
}

#[test]
fn a_lost_log_directory_is_found_within_a_minute() {
    let mut world = three();
    unseen(&mut world, |world| world.fail_log_dir(1, &["t-0"]));
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3] "));
}

#[test]
fn the_loss_of_the_role_is_found_within_a_minute() {
    let mut world = three();
    unseen(&mut world, |world| {
        world.java_takes_role(1);
    });
    world.create_topic("u", &[&[1]]);
    world.advance(A_MINUTE_MS);
    assert_eq!(world.controller(), Some(9));
    assert_eq!(world.controller_epoch(), 3, "it resigned and came back");
    assert_eq!(world.led_by("u-0"), "leader 1 isr [1] le 0");
}

#[test]
fn sweeps_go_on_after_the_role_was_lost_and_taken_again() {
    let mut world = three();
    world.zookeeper.poke(paths::KLAMM_HOLD, b"{}");
    world.zookeeper.uproot(paths::CONTROLLER);
    world.advance(3 * A_MINUTE_MS);
    assert_eq!(world.controller(), None);
    world.zookeeper.uproot(paths::KLAMM_HOLD);
    world.settle();
    assert_eq!(world.controller(), Some(9));
    unseen(&mut world, |world| world.create_topic("new", &[&[2, 1]]));
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("new-0"), "leader 2 isr [2,1] le 0");
}

#[test]
fn sweeps_go_on_after_one_that_failed() {
    for call in [Call::Brokers, Call::TopicNames, Call::Topics] {
        let mut world = three();
        let refused = Fault::Refused("for a test");
        world.klamm().faults().at_next(call, refused);
        world.advance(A_MINUTE_MS);
        assert_eq!(world.klamm().faults().outstanding(), 0, "{call:?}");
        unseen(&mut world, |world| world.create_topic("new", &[&[2, 1]]));
        world.advance(A_MINUTE_MS);
        assert_eq!(world.led_by("new-0"), "leader 2 isr [2,1] le 0", "{call:?}");
    }
}

/// What ZooKeeper keeps refusing to list costs the sweep that list and nothing else.
#[test]
fn a_listing_that_stays_refused_stops_no_other_part_of_a_sweep() {
    let state = "/brokers/topics/t/partitions/0/state";
    for call in [
        Call::Brokers,
        Call::TopicNames,
        Call::PartitionReassignment,
        Call::TopicDeletions,
        Call::IsrChangeNotifications,
        Call::LogDirEventNotifications,
        Call::ConfigChangeNames,
        Call::PreferredReplicaElection,
    ] {
        let mut world = three();
        world.zookeeper.protect(state);
        world.kill(1);
        world.settle();
        assert!(world.led_by("t-0").starts_with("leader 1"));
        world.zookeeper.unprotect(state);
        for _ in 0..10 {
            let refused = Fault::Refused("for a test");
            world.klamm().faults().at_next(call, refused);
        }
        unseen(&mut world, |world| world.add_partition("t", &[3, 2]));
        world.advance(A_MINUTE_MS);
        assert!(world.klamm().faults().outstanding() < 10, "{call:?}");
        assert!(
            world.led_by("t-0").starts_with("leader 2 isr [2,3]"),
            "{call:?}"
        );
        assert_eq!(world.led_by("t-1"), "leader 3 isr [3,2] le 0", "{call:?}");
    }
}

/// Nothing more is looked at in a term that is over.
#[test]
fn a_sweep_ends_with_the_session() {
    let mut world = three();
    let lost = Fault::SessionLostBefore;
    world.klamm().faults().at_next(Call::TopicNames, lost);
    let before = world.klamm().faults().calls().len();
    world.advance(A_MINUTE_MS);
    let calls = world.klamm().faults().calls();
    let at = calls[before..]
        .iter()
        .position(|call| *call == Call::TopicNames);
    let next = calls.get(before + at.unwrap() + 1);
    assert_ne!(next, Some(&Call::PartitionReassignment), "{calls:?}");
    assert_eq!(world.controller_epoch(), 2, "a term of its own follows");
    world.assert_converged();
}

#[test]
fn a_quiet_cluster_hears_nothing_from_a_sweep() {
    let mut world = three();
    world.told();
    let before = world.zookeeper.dump();
    world.advance(10 * A_MINUTE_MS);
    assert_eq!(world.told(), [""; 0]);
    assert_eq!(world.zookeeper.dump(), before);
}

#[test]
fn a_cut_connection_loses_no_change() {
    let mut world = three();
    world.klamm().cut_connection();
    world.create_topic("new", &[&[2, 1]]);
    world.add_partition("t", &[3, 1]);
    world.kill(1);
    world.klamm().restore_connection();
    world.settle();
    assert!(world.led_by("new-0").starts_with("leader 2 isr [2] "));
    assert!(world.led_by("t-1").starts_with("leader 3 isr [3] "));
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    assert_eq!(world.controller_epoch(), 1, "the term goes on");
    world.assert_converged();
}

#[test]
fn however_often_the_connection_is_cut_there_is_one_sweep_a_minute() {
    let mut world = three();
    for _ in 0..20 {
        world.klamm().cut_connection();
        world.klamm().restore_connection();
        world.advance(100);
    }
    world.advance(2 * A_MINUTE_MS);
    let sweeps = |world: &mut World| {
        let calls = world.klamm().faults().calls();
        calls
            .iter()
            .filter(|call| **call == Call::TopicNames)
            .count()
    };
    let before = sweeps(&mut world);
    world.advance(10 * A_MINUTE_MS);
    assert_eq!(sweeps(&mut world) - before, 10);
}

/// More topics than one slice of the sweep looks at.
#[test]
fn a_change_that_no_watch_told_of_is_found_in_the_last_of_many_topics() {
    let mut world = World::led(&[1, 2], "2.4");
    for index in 0..501 {
        world.create_topic(&format!("t{index:03}"), &[&[1]]);
    }
    world.settle();
    unseen(&mut world, |world| world.add_partition("t500", &[2]));
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("t500-1"), "leader 2 isr [2] le 0");
}

#[test]
fn where_no_former_controller_wrote_after_a_takeover_nobody_is_told_anything() {
    let mut world = World::led(&[1, 2], "1.1");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    let reads = |world: &mut World| {
        let calls = world.klamm().faults().calls();
        let reads = calls.iter().filter(|call| **call == Call::PartitionStates);
        reads.count()
    };
    let before = reads(&mut world);
    world.advance(11_000);
    assert_eq!(reads(&mut world), before + 1, "they were read again");
    assert_eq!(world.told(), [""; 0]);
}
