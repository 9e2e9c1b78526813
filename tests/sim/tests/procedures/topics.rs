//! Topics appear, grow and go.

use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition};
use klamm_sim::zk_port::TopicWatches;

#[test]
fn a_new_topic_is_led_by_its_first_replicas_and_everybody_hears_of_it() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
    let state = world.state("t-1").unwrap();
    assert_eq!((state.controller_epoch.0, state.partition_epoch.0), (1, 0));
    assert_eq!(
        world.told(),
        [
            "L{1,2,3} t-0 leader 1 isr [1,2,3] le 0 new, t-1 leader 2 isr [2,3,1] le 0 new",
            "U{1,2,3} alive [1,2,3,9] t-0 leader 1 isr [1,2,3] le 0, t-1 leader 2 isr [2,3,1] le 0",
        ]
    );
    world.assert_converged();
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!((gauges.topics, gauges.partitions), (1, 2));
    assert_eq!(gauges.offline_partitions, 0);
}

#[test]
fn a_new_topic_with_a_dead_replica_is_led_by_the_next_and_the_dead_one_joins_when_it_starts() {
    let mut world = World::led(&[1, 2], "2.8");
    world.kill(1);
    world.settle();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 0");
    world.told();
    world.start_broker(1);
    world.settle();
    assert!(
        world
            .told()
            .contains(&"L{1} t-0 leader 2 isr [2] le 0".to_owned())
    );
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
}

#[test]
fn a_topic_without_a_live_replica_waits_for_one() {
    let mut world = World::led(&[1, 2], "2.8");
    world.kill(1);
    world.create_topic("t", &[&[1]]);
    world.create_topic("other", &[&[2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
    assert_eq!(world.led_by("other-0"), "leader 2 isr [2] le 0");
    world.start_broker(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
    assert!(world.broker(1, |broker| broker.leads(&partition("t-0")).is_some()));
}

#[test]
fn a_topic_grows() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    world.add_partition("t", &[2, 1]);
    world.settle();
    assert_eq!(
        world.told(),
        [
            "L{1,2} t-1 leader 2 isr [2,1] le 0 new",
            "U{1,2} alive [1,2,9] t-1 leader 2 isr [2,1] le 0",
        ]
    );
    world.kill(1);
    world.settle();
    world.add_partition("t", &[1, 2]);
    world.settle();
    assert_eq!(world.led_by("t-2"), "leader 2 isr [2] le 0");
}

#[test]
fn one_shot_watches_are_armed_again_by_what_they_cause() {
    let mut world = World::of_brokers(&[1, 2], "2.8").watching(TopicWatches::OneShot);
    world.start_klamm();
    world.settle();
    for name in ["a", "b", "c"] {
        world.create_topic(name, &[&[1, 2]]);
        world.settle();
        world.add_partition(name, &[2, 1]);
        world.settle();
        world.add_partition(name, &[1]);
        world.settle();
        for index in 0..3 {
            assert_ne!(world.led_by(&format!("{name}-{index}")), "none", "{name}");
        }
    }
    world.add_partition("a", &[2]);
    world.settle();
    assert_eq!(world.led_by("a-3"), "leader 2 isr [2] le 0");
}

#[test]
fn replicas_changed_by_hand_in_the_topic_node_are_not_followed() {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    world.write_topic("t", None, &[&[2, 3], &[3, 1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
    assert_eq!(world.led_by("t-1"), "leader 3 isr [3,1] le 0");
}

#[test]
fn a_topic_that_is_gone_is_forgotten_and_its_name_may_be_used_again() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    world.remove_topic("t");
    world.settle();
    assert_eq!(world.told(), [""; 0], "no broker is told to stop");
    assert_eq!(world.klamm().snapshot().gauges.topics, 0);
    world.create_topic("t", &[&[2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 0");
}

#[test]
fn of_many_new_topics_a_broken_one_costs_only_itself() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("a", &[&[1, 2]]);
    world
        .zookeeper
        .poke("/brokers/topics/b", b"{\"partitions\":");
    world.zookeeper.poke("/brokers/topics/c", b"");
    world.create_topic("d", &[&[2, 1]]);
    world.settle();
    assert_eq!(world.led_by("a-0"), "leader 1 isr [1,2] le 0");
    assert_eq!(world.led_by("d-0"), "leader 2 isr [2,1] le 0");
    world.create_topic("b", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("b-0"), "leader 1 isr [1] le 0");
}

#[test]
fn a_state_that_exists_already_is_taken_up_and_not_overwritten() {
    let mut world = World::led(&[1, 2], "2.8");
    let theirs = br#"{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":4,"isr":[2]}"#;
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            zookeeper.poke("/brokers/topics/t/partitions/0/state", theirs);
        }),
    );
    world.create_topic("t", &[&[1, 2]]);
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    assert!(world.led_by("t-0").contains("isr [2]"));
    assert!(world.state("t-0").unwrap().leader_and_isr.leader_epoch.0 >= 4);
    assert_eq!(world.led_by("u-0"), "leader 1 isr [1,2] le 0");
}

#[test]
fn topics_get_ids_from_ibp_2_8_on_and_keep_them() {
    for (ibp, has_ids) in [("2.7", false), ("2.8-IV0", true), ("3.9", true)] {
        let mut world = World::empty();
        world.add_broker(1, "3.9", ibp);
        world.start_broker(1);
        world.start_klamm();
        world.settle();
        world.create_topic("t", &[&[1]]);
        world.create_topic("u", &[&[1]]);
        world.settle();
        let (t, u) = (world.topic("t").unwrap(), world.topic("u").unwrap());
        assert_eq!(t.topic_id.is_some(), has_ids, "{ibp}");
        assert!(!has_ids || t.topic_id != u.topic_id);

        world.add_partition("t", &[1]);
        world.settle();
        world.klamm().expire_session();
        world.settle();
        assert!(world.klamm().is_active());
        assert_eq!(world.topic("t").unwrap().topic_id, t.topic_id, "{ibp}");
        let known_at_broker = world.broker(1, |broker| broker.logs[&partition("t-0")]);
        let sends_ids = world.broker(1, |broker| broker.protocol.leader_and_isr_version() >= 5);
        assert_eq!(known_at_broker.is_some(), sends_ids, "{ibp}");
    }
}

#[test]
fn an_id_that_an_old_tool_wiped_is_written_again() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let id = world.topic("t").unwrap().topic_id;
    assert!(id.is_some());
    world.write_topic("t", None, &[&[1, 2], &[2, 1]]);
    world.settle();
    assert_eq!(world.topic("t").unwrap().topic_id, id);
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,1] le 0");
}

#[test]
fn ids_come_with_the_rise_of_the_last_brokers_protocol() {
    let mut world = World::empty();
    for id in [1, 2] {
        world.add_broker(id, "3.9", "2.7");
        world.start_broker(id);
    }
    world.start_klamm();
    world.settle();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    for id in [1, 2] {
        assert_eq!(world.topic("t").unwrap().topic_id, None);
        world.kill(id);
        world.settle();
        world.broker_mut(id, |broker| broker.protocol = "3.9".parse().unwrap());
        world.start_broker(id);
        world.settle();
        world.catch_up();
    }
    let topic_id = world.topic("t").unwrap().topic_id;
    assert!(topic_id.is_some());
    world.add_partition("t", &[2, 1]);
    world.settle();
    for id in [1, 2] {
        for of in ["t-0", "t-1"] {
            let at_broker = world.broker(id, |broker| broker.logs[&partition(of)]);
            assert_eq!(at_broker, topic_id, "{of} at {id}");
        }
    }
    world.assert_converged();
}

#[test]
fn a_tools_change_between_read_and_rewrite_is_not_undone() {
    let mut world = World::led(&[1, 2], "3.9");
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let grown = br#"{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}"#;
            zookeeper.poke("/brokers/topics/t", grown);
        }),
    );
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.assigned("t-1"), [2, 1]);
    assert!(world.topic("t").unwrap().topic_id.is_some());
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,1] le 0");
}

/// Goal: a topic that came before ids gets one at the takeover, and an id that a tool of 2.4 wiped is written back below
/// IBP 2.8 too, where no id is made: brokers of a rolling downgrade have it beside their logs.
#[test]
fn old_topics_get_ids_at_the_takeover_and_ids_are_kept_below_ibp_2_8() {
    for (ibp, has_ids) in [("2.7", false), ("2.8", true), ("3.9", true)] {
        let mut world = World::empty();
        world.add_broker(1, "3.9", ibp);
        world.start_broker(1);
        world.create_topic("old", &[&[1]]);
        let id = klamm::model::TopicId::new([7; 16]).unwrap();
        world.create_topic_with_id("known", id, &[&[1]]);
        world.start_klamm();
        world.settle();
        let old = world.topic("old").unwrap().topic_id;
        assert_eq!(old.is_some(), has_ids, "{ibp}");
        assert_eq!(world.topic("known").unwrap().topic_id, Some(id), "{ibp}");

        world.write_topic("known", None, &[&[1], &[1]]);
        world.settle();
        assert_eq!(world.topic("known").unwrap().topic_id, Some(id), "{ibp}");
        assert_eq!(world.led_by("known-1"), "leader 1 isr [1] le 0");
        // Also where no watch told of it.
        world.write_topic("known", None, &[&[1], &[1]]);
        world.klamm().queue.lose_events();
        world.advance(60_000);
        assert_eq!(world.topic("known").unwrap().topic_id, Some(id), "{ibp}");
    }
}

/// A klamm in the place of the one before, told which protocol to take for the cluster's.
fn next_klamm(world: &mut World, ibp: Option<&str>) {
    if world.klamms.first().is_some_and(|klamm| klamm.runs()) {
        world.klamm().kill();
        world.klamm().expire_session();
    }
    let mut settings = World::settings();
    settings.protocol = ibp.map(klamm_sim::world::protocol);
    world.start_klamm_with(settings);
    world.settle();
    assert!(world.klamm().is_active());
}

/// Upstream: `testTopicIdCreatedOnUpgradeMultiBrokerScenario`.
#[test]
fn brokers_take_the_id_of_an_old_topic_without_another_leader_epoch() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    next_klamm(&mut world, Some("2.7"));
    world.create_topic("t", &[&[1, 2, 3]]);
    world.settle();
    assert_eq!(world.topic("t").unwrap().topic_id, None);
    next_klamm(&mut world, None);
    let id = world.topic("t").unwrap().topic_id;
    assert!(id.is_some());
    for broker in [1, 2, 3] {
        let beside_log = world.broker(broker, |broker| broker.logs[&partition("t-0")]);
        assert_eq!(beside_log, id, "broker {broker}");
    }
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    assert!(world.topic("t").is_none());
    for broker in [1, 2, 3] {
        assert!(world.broker(broker, |broker| broker.logs.is_empty()));
    }
}

/// Upstream: `testTopicIdUpgradeAfterReassigningPartitions`.
#[test]
fn an_id_outlives_a_downgrade_with_a_reassignment_and_another_upgrade() {
    let mut world = World::of_brokers(&[1], "3.9");
    next_klamm(&mut world, Some("2.7"));
    world.create_topic("t", &[&[1]]);
    world.settle();
    next_klamm(&mut world, None);
    let id = world.topic("t").unwrap().topic_id;
    assert!(id.is_some());
    next_klamm(&mut world, Some("2.7"));
    let same = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}"#;
    world.zookeeper.poke("/admin/reassign_partitions", same);
    world.settle();
    assert!(world.zookeeper.look("/admin/reassign_partitions").is_none());
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 1");
    assert_eq!(world.topic("t").unwrap().topic_id, id);
    next_klamm(&mut world, None);
    assert_eq!(world.topic("t").unwrap().topic_id, id);
    let beside_log = world.broker(1, |broker| broker.logs[&partition("t-0")]);
    assert_eq!(beside_log, id);

    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    assert!(world.topic("t").is_none());
    world.create_topic("t", &[&[1]]);
    world.settle();
    let of_next = world.topic("t").unwrap().topic_id;
    assert!(of_next.is_some() && of_next != id, "it is another topic");
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
}

/// Upstream: `testTopicPartitionExpansion`, whose helper writes another id by accident. A running topic keeps its id:
/// brokers refuse every request for its logs under another one.
#[test]
fn a_topic_that_grows_under_another_id_is_served_on_under_its_own() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let id = world.topic("t").unwrap().topic_id;
    let other = klamm::model::TopicId::new([7; 16]);
    world.write_topic("t", other, &[&[1, 2], &[3, 1]]);
    world.settle();
    assert_eq!(world.led_by("t-1"), "leader 3 isr [3,1] le 0");
    for broker in [1, 2, 3] {
        let told = world.cached_at(broker, "t-1");
        assert_eq!(told.as_deref(), Some("leader 3 isr [3,1] offline []"));
    }
    world.kill(1);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 "));
    assert!(
        world.broker(2, |broker| broker.leads(&partition("t-0")).is_some()),
        "broker 2 refuses to lead under another id"
    );
    assert_eq!(world.topic("t").unwrap().topic_id, id);
    world.start_broker(1);
    world.settle();
    world.catch_up();
    world.assert_converged();
}
