//! Brokers die, return, bounce and change.

use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, endpoint, partition, protocol};

/// Three brokers, t-0 on [1,2,3] and t-1 on [2,3,1], all in sync.
fn three(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    world.told();
    world
}

#[test]
fn a_dead_leader_is_replaced_before_in_sync_sets_shrink() {
    let mut world = three("2.8");
    world.kill(1);
    world.settle();
    assert_eq!(
        world.told(),
        [
            "L{2,3} t-0 leader 2 isr [2,3] le 1",
            "U{2,3} alive [2,3,9] t-0 leader 2 isr [2,3] le 1 offline [1]",
            "L{2,3} t-0 leader 2 isr [2,3] le 1, t-1 leader 2 isr [2,3] le 1",
            "U{2,3} alive [2,3,9] t-0 leader 2 isr [2,3] le 1 offline [1], t-1 leader 2 isr [2,3] le 1 offline [1]",
        ]
    );
    assert!(world.broker(2, |broker| broker.leads(&partition("t-0")).is_some()));
    assert_eq!(world.state("t-0").unwrap().partition_epoch.0, 1);
}

#[test]
fn a_returning_broker_learns_the_leaders_before_it_follows_them() {
    let mut world = three("2.8");
    world.kill(1);
    world.settle();
    world.told();
    world.start_broker(1);
    world.settle();
    assert_eq!(
        world.told(),
        [
            "U{2,3} alive [1,2,3,9]",
            "U{1} alive [1,2,3,9] t-0 leader 2 isr [2,3] le 1, t-1 leader 2 isr [2,3] le 1",
            "L{1} t-0 leader 2 isr [2,3] le 1, t-1 leader 2 isr [2,3] le 1",
            "U{1,2,3} alive [1,2,3,9] t-0 leader 2 isr [2,3] le 1, t-1 leader 2 isr [2,3] le 1",
        ]
    );
}

#[test]
fn every_in_sync_set_is_full_again_once_the_broker_is_back_whatever_its_release() {
    for release in [
        "1.0", "1.1", "2.1", "2.2", "2.4", "2.7", "2.8", "3.0", "3.2", "3.4", "3.9",
    ] {
        let mut world = three(release);
        world.kill(1);
        world.settle();
        assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1", "{release}");
        world.start_broker(1);
        world.catch_up();
        assert_eq!(
            world.led_by("t-0"),
            "leader 2 isr [2,3,1] le 1",
            "{release}"
        );
        assert_eq!(
            world.led_by("t-1"),
            "leader 2 isr [2,3,1] le 1",
            "{release}"
        );
        world.assert_converged();
    }
}

#[test]
fn all_brokers_hear_which_replicas_are_offline_and_that_they_are_back() {
    let mut world = World::led(&[0, 1, 2], "2.8");
    world.create_topic("t", &[&[0, 2], &[0, 1]]);
    world.settle();
    world.kill(2);
    world.settle();
    for id in [0, 1] {
        let told = world.cached_at(id, "t-0");
        assert_eq!(told.as_deref(), Some("leader 0 isr [0] offline [2]"));
        let told = world.cached_at(id, "t-1");
        assert_eq!(told.as_deref(), Some("leader 0 isr [0,1] offline []"));
        assert_eq!(world.alive_at(id), [0, 1, 9]);
    }
    world.start_broker(2);
    world.settle();
    for id in [0, 1, 2] {
        let told = world.cached_at(id, "t-0");
        assert_eq!(told.as_deref(), Some("leader 0 isr [0] offline []"));
        assert_eq!(world.alive_at(id), [0, 1, 2, 9]);
    }
}

#[test]
fn a_broker_that_came_back_within_one_look_is_treated_as_dead_and_new() {
    for release in ["1.0", "2.1", "2.8", "3.9"] {
        let mut world = World::led(&[1, 2], release);
        world.create_topic("t", &[&[2, 1]]);
        world.settle();
        let before = world.incarnation(2);
        world.bounce(2);
        world.settle();
        assert_ne!(world.incarnation(2), before);
        assert!(
            world
                .klamm()
                .channels
                .open()
                .contains(&world.incarnation(2))
        );
        world.broker(2, |broker| {
            assert_eq!(broker.replicas.len(), 1, "{release}");
            assert_eq!(broker.cache.len(), 1, "{release}");
            assert_eq!(broker.alive.len(), 3, "{release}");
        });
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 1", "{release}");
        world.catch_up();
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 1", "{release}");
        world.assert_converged();
    }
}

#[test]
fn the_last_in_sync_replica_that_bounces_leads_again() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[2]]);
    world.settle();
    world.bounce(2);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
    assert!(world.broker(2, |broker| broker.leads(&partition("t-0")).is_some()));
}

#[test]
fn new_dead_and_bounced_brokers_seen_in_one_look_are_all_handled() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]);
    world.settle();
    world.add_broker(4, "2.8", "2.8");
    world.kill(1);
    world.bounce(2);
    world.start_broker(4);
    world.settle();
    for of in ["t-0", "t-1", "t-2"] {
        assert!(world.led_by(of).starts_with("leader 3 isr [3] "), "{of}");
    }
    for id in [2, 3, 4] {
        assert_eq!(world.alive_at(id), [2, 3, 4, 9]);
    }
    world.catch_up();
    assert!(world.led_by("t-1").contains("isr [3,2]"));
    world.assert_converged();
}

#[test]
fn the_death_of_a_broker_without_replicas_is_announced() {
    for release in ["2.8", "3.9"] {
        let mut world = World::led(&[1, 2, 3], release);
        world.create_topic("t", &[&[1]]);
        world.settle();
        world.kill(1);
        world.settle();
        world.told();
        world.kill(3);
        world.settle();
        assert_eq!(world.alive_at(2), [2, 9]);
        assert_eq!(world.told(), ["U{2} alive [2,9]"], "{release}");
    }
}

#[test]
fn the_last_in_sync_replica_stays_listed_when_it_dies() {
    let mut world = World::led(&[1, 2], "2.8");
    world.allow_unclean("u", true);
    world.create_topic("t", &[&[1]]);
    world.create_topic("u", &[&[1]]);
    world.settle();
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    assert_eq!(world.led_by("u-0"), "leader -1 isr [1] le 1");
    world.start_broker(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 2");
}

#[test]
fn an_out_of_sync_replica_leads_only_where_that_is_allowed() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.allow_unclean("u", true);
    world.allow_unclean("k", false);
    for name in ["t", "u", "k"] {
        world.create_topic(name, &[&[1, 2]]);
    }
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 2");
    assert_eq!(world.led_by("k-0"), "leader -1 isr [1] le 2");
    assert_eq!(world.led_by("u-0"), "leader 2 isr [2] le 2 recovering");
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.unclean_leader_elections, 1);
    assert_eq!(gauges.offline_partitions, 2);
}

#[test]
fn below_ibp_3_2_an_unclean_leader_is_not_marked_as_recovering() {
    let mut world = World::led(&[1, 2], "3.1");
    world.allow_unclean("u", true);
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("u-0"), "leader 2 isr [2] le 2");
}

#[test]
fn the_clusters_default_in_zookeeper_allows_an_unclean_election_and_a_topics_own_word_beats_it() {
    let mut world = World::led(&[1, 2], "3.9");
    let default = br#"{"version":1,"config":{"unclean.leader.election.enable":"true"}}"#;
    world.zookeeper.poke("/config/brokers/<default>", default);
    world.create_topic("u", &[&[1, 2]]);
    world.create_topic("k", &[&[1, 2]]);
    world.allow_unclean("k", false);
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.kill(1);
    world.settle();
    assert!(
        world.led_by("u-0").starts_with("leader 2 isr [2]"),
        "{}",
        world.led_by("u-0")
    );
    assert!(
        world.led_by("k-0").starts_with("leader -1 isr [1]"),
        "{}",
        world.led_by("k-0")
    );
}

#[test]
fn a_leader_that_shrinks_its_set_in_the_same_moment_is_not_overruled() {
    let mut world = three("2.4");
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let shrunk =
                br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,3]}"#;
            zookeeper.poke("/brokers/topics/t/partitions/0/state", shrunk);
        }),
    );
    world.kill(1);
    world.settle();
    assert_eq!(
        world.led_by("t-0"),
        "leader 3 isr [3] le 1",
        "2 had left the in-sync set: to elect it would lose records"
    );
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3] le 1");
}

#[test]
fn a_paused_broker_delays_nobody() {
    let mut world = three("2.8");
    world.pause(3);
    world.kill(1);
    world.settle();
    assert!(world.broker(2, |broker| broker.leads(&partition("t-0")).is_some()));
    let waits = world.klamm().channels.unsent(BROKER_3);
    assert_eq!(waits, 4);
    world.resume(3);
    world.settle();
    assert_eq!(world.klamm().channels.unsent(BROKER_3), 0);
    world.assert_converged();
}

const BROKER_3: klamm::model::BrokerId = klamm::model::BrokerId(3);

#[test]
fn a_broker_that_changes_its_address_is_followed_there_and_announced() {
    let mut world = three("2.8");
    world.klamm().channels.take_lines();
    let mut moved = endpoint(3);
    moved.port = 9999;
    world.set_endpoints(3, std::slice::from_ref(&moved));
    world.settle();
    let registration = world.klamm().channels.registration(BROKER_3).unwrap();
    assert_eq!(registration.broker.endpoints[0].port, 9999);
    assert_eq!(world.told(), ["U{1,2,3} alive [1,2,3,9]"]);
    for id in [1, 2, 3] {
        let port = world.broker(id, |broker| broker.alive[&BROKER_3].endpoints[0].port);
        assert_eq!(port, 9999);
    }
}

#[test]
fn a_registration_that_is_written_again_as_it_was_is_no_news() {
    let mut world = three("2.8");
    world.told();
    world.set_endpoints(3, &[endpoint(3)]);
    world.settle();
    assert_eq!(world.told(), [""; 0]);
}

#[test]
fn features_that_change_in_place_are_announced_and_let_a_broker_in_that_lacked_one() {
    const FINALIZED: &[u8] = br#"{"version":1,"status":1,"features":{"f":{"max_version_level":2,"min_version_level":1}}}"#;
    let mut world = World::of_brokers(&[1], "2.8");
    world.zookeeper.poke("/feature", FINALIZED);
    world.start_klamm();
    world.settle();
    assert_eq!(world.klamm().channels.open(), []);
    world.create_topic("t", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
    let path = "/brokers/ids/1";
    let text = world.zookeeper.look(path).unwrap().text();
    let supports = text.replace(
        r#""features":{}"#,
        r#""features":{"f":{"min_version":1,"max_version":3}}"#,
    );
    assert_ne!(text, supports);
    world.zookeeper.poke(path, supports.as_bytes());
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
    world.told();
    world.zookeeper.poke(
        path,
        supports
            .replace(r#"max_version":3"#, r#"max_version":4"#)
            .as_bytes(),
    );
    world.settle();
    assert_eq!(world.told(), ["U{1} alive [1,9]"]);
}

#[test]
fn a_listener_that_klamm_must_not_announce_itself_on_costs_it_the_role_also_when_it_comes_later() {
    let mut world = three("2.8");
    let secured = klamm::model::Endpoint {
        listener: "SECURE".into(),
        security_protocol: klamm::model::SecurityProtocol::SaslSsl,
        ..endpoint(3)
    };
    world.set_endpoints(3, &[endpoint(3), secured]);
    world.settle();
    let stopped = world.klamm().stopped().map(ToString::to_string);
    let why = stopped.unwrap_or_default();
    assert!(why.contains("broker 3") && why.contains("SECURE"), "{why}");
    assert_eq!(world.controller(), None);
}

#[test]
fn a_registration_that_cant_be_read_costs_nobody_else() {
    let mut world = three("2.8");
    world.zookeeper.poke("/brokers/ids/4", b"not json");
    world.add_broker(5, "2.8", "2.8");
    world.start_broker(5);
    world.settle();
    assert_eq!(world.alive_at(1), [1, 2, 3, 5, 9]);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
}

#[test]
fn a_new_empty_broker_is_announced_and_gets_nothing_to_host() {
    let mut world = three("2.8");
    world.add_broker(4, "2.8", "2.8");
    world.start_broker(4);
    world.settle();
    let told = world.told();
    assert_eq!(told[0], "U{1,2,3} alive [1,2,3,4,9]");
    assert!(told.iter().all(|line| !line.starts_with('L')), "{told:?}");
    assert_eq!(world.alive_at(4), [1, 2, 3, 4, 9]);
    assert!(world.broker(4, |broker| broker.replicas.is_empty()));
    let told = world.cached_at(4, "t-1");
    assert_eq!(told.as_deref(), Some("leader 2 isr [2,3,1] offline []"));
}

/// Upstream: `MetadataRequestTest.testRack`, `testAliveBrokersWithNoTopics`.
#[test]
fn everybody_hears_the_rack_of_a_broker_though_there_is_no_topic() {
    let mut world = World::led(&[1, 2], "3.9");
    world.kill(2);
    world.settle();
    assert_eq!(world.alive_at(1), [1, 9]);
    world.start_broker_with(2, Some("north"));
    world.settle();
    for id in [1, 2] {
        assert_eq!(world.alive_at(id), [1, 2, 9]);
        let racks = world.broker(id, |broker| {
            let listed = broker.alive.values();
            listed.map(|broker| broker.rack.clone()).collect::<Vec<_>>()
        });
        assert_eq!(racks[1].as_deref(), Some("north"), "at {id}");
        assert_eq!(racks[0], None, "at {id}");
    }
}

#[test]
fn requests_carry_the_incarnation_that_they_are_meant_for() {
    let mut world = three("2.8");
    world.bounce(2);
    world.settle();
    let epoch = world.incarnation(2).epoch;
    let sent = world.klamm().channels.sent_to(klamm::model::BrokerId(2));
    let last = sent.last().unwrap();
    assert_eq!(last.broker_epoch, epoch);
    assert!(sent.iter().any(|request| request.broker_epoch < epoch));
}

#[test]
fn the_clusters_protocol_is_the_least_of_its_brokers() {
    let mut world = World::empty();
    for (id, ibp) in [(1, "2.8"), (2, "2.4"), (3, "3.9")] {
        world.add_broker(id, "3.9", ibp);
        world.start_broker(id);
    }
    world.start_klamm();
    world.settle();
    let sent = world.klamm().channels.sent_to(BROKER_3);
    assert!(!sent.is_empty());
    assert!(
        sent.iter()
            .all(|request| request.protocol == protocol("2.4"))
    );
}

#[test]
fn a_race_lost_again_and_again_is_run_until_it_is_won() {
    let mut world = three("2.4");
    for round in 0..5 {
        let faults = world.klamm().faults().clone();
        faults.at_next(
            Call::Write,
            Fault::meanwhile(move |zookeeper| {
                let isr = if round % 2 == 0 { "1,3" } else { "1,2,3" };
                let state = format!(
                    r#"{{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[{isr}]}}"#
                );
                let path = "/brokers/topics/t/partitions/0/state";
                zookeeper.poke(path, state.as_bytes());
            }),
        );
    }
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3] le 1");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3] le 1");
}

#[test]
fn a_race_may_end_without_a_candidate() {
    let mut world = three("2.4");
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let alone =
                br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#;
            zookeeper.poke("/brokers/topics/t/partitions/0/state", alone);
        }),
    );
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3] le 1");
    world.start_broker(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 2");
}

#[test]
fn a_state_node_that_vanished_costs_only_its_partition() {
    let mut world = three("2.4");
    world
        .zookeeper
        .uproot("/brokers/topics/t/partitions/0/state");
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3] le 1");
}

#[test]
fn of_many_partitions_each_fares_by_itself() {
    let mut world = World::led(&[1, 2, 3], "2.4");
    let all: [&[i32]; 6] = [&[1, 2, 3]; 6];
    world.create_topic("t", &all);
    world.settle();
    world.told();
    let put = |index: i32, state: &str| {
        let path = format!("/brokers/topics/t/partitions/{index}/state");
        world.zookeeper.poke(&path, state.as_bytes());
    };
    put(
        1,
        r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,3]}"#,
    );
    put(
        2,
        r#"{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}"#,
    );
    put(3, "broken");
    put(
        4,
        r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#,
    );
    world.zookeeper.uproot("/brokers/topics/t/partitions/5");
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    assert_eq!(world.led_by("t-1"), "leader 3 isr [3] le 1");
    assert_eq!(world.led_by("t-2"), "leader 1 isr [1,2] le 4");
    assert_eq!(world.led_by("t-4"), "leader -1 isr [1] le 1");
    let broken = world.zookeeper.look("/brokers/topics/t/partitions/3/state");
    assert_eq!(broken.map(|node| node.text()).as_deref(), Some("broken"));
    assert_eq!(
        world.told()[0],
        "L{2,3} t-0 leader 2 isr [2,3] le 1, t-1 leader 3 isr [3] le 1",
        "those that succeeded are sent together, in order"
    );
}

#[test]
fn what_was_queued_for_an_incarnation_dies_with_it() {
    let mut world = three("2.1");
    world.pause(3);
    world.kill(1);
    world.settle();
    let queued_for = world.incarnation(3);
    assert!(world.klamm().channels.unsent(BROKER_3) > 0);
    world.bounce(3);
    world.settle();
    assert!(!world.klamm().channels.open().contains(&queued_for));
    assert_eq!(world.klamm().channels.unsent(BROKER_3), 0);
    world.catch_up();
    world.assert_converged();
}
