//! Unclean election is enabled while partitions have no leader: for a topic, for the cluster. Upstream:
//! `UncleanLeaderElectionTest`.

use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

const A_MINUTE_MS: u64 = 60_000;
const DEFAULT: &str = "brokers/<default>";

/// Brokers 1 to 3, 1 dead: t-0 [1,2] and u-0 [1,3] had only 1 in sync and have no leader; v-0 [2,3] is led.
fn leaderless() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.create_topic("u", &[&[1, 3]]);
    world.create_topic("v", &[&[2, 3]]);
    world.settle();
    world.leader_asks_isr("t-0", &[1]);
    world.leader_asks_isr("u-0", &[1]);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    assert_eq!(world.led_by("u-0"), "leader -1 isr [1] le 1");
    world.told();
    world
}

#[test]
fn a_topic_for_which_it_is_enabled_is_led_at_once_and_no_other() {
    let mut world = leaderless();
    world.configure_unclean("topics/t", Some(true));
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 2 recovering");
    assert_eq!(world.led_by("u-0"), "leader -1 isr [1] le 1");
    assert_eq!(
        world.told(),
        [
            "L{2} t-0 leader 2 isr [2] le 2 recovering",
            "U{2,3} alive [2,3,9] t-0 leader 2 isr [2] le 2 offline [1]",
        ]
    );
    assert_eq!(world.klamm().snapshot().gauges.unclean_leader_elections, 1);
}

#[test]
fn enabled_for_the_cluster_it_concerns_every_topic_that_says_nothing_else() {
    let mut world = leaderless();
    world.allow_unclean("u", false);
    world.configure_unclean(DEFAULT, Some(true));
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
    assert_eq!(world.led_by("u-0"), "leader -1 isr [1] le 1");
    // Without its own word the topic is as all others.
    world.configure_unclean("topics/u", None);
    world.settle();
    assert!(world.led_by("u-0").starts_with("leader 3 isr [3] "));
}

#[test]
fn disabling_it_or_setting_something_else_elects_nobody() {
    let mut world = leaderless();
    for (entity, enabled) in [
        ("topics/t", Some(false)),
        ("topics/t", None),
        (DEFAULT, Some(false)),
        (DEFAULT, None),
        ("topics/v", Some(true)),
        ("topics/nowhere", Some(true)),
    ] {
        world.configure_unclean(entity, enabled);
        world.settle();
        assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1", "{entity}");
        assert_eq!(world.led_by("v-0"), "leader 2 isr [2,3] le 0", "{entity}");
    }
    for other in ["users/u", "clients/c", "brokers/2", "ips/127.0.0.1"] {
        let notice = format!(r#"{{"version":2,"entity_path":"{other}"}}"#);
        world.notify_config_change(notice.as_bytes());
    }
    world.settle();
    assert_eq!(world.told(), [""; 0]);
}

#[test]
fn switched_on_and_off_it_leaves_the_last_in_sync_replica_in_its_place() {
    let mut world = leaderless();
    world.configure_unclean("topics/t", Some(true));
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
    world.configure_unclean("topics/t", Some(false));
    world.settle();
    world.kill(2);
    world.settle();
    let last = world.led_by("t-0");
    assert!(last.starts_with("leader -1 isr [2] "), "{last}");
    world.start_broker(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), last, "1 has lost what 2 has");
    world.start_broker(2);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
    world.catch_up();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,1] "));
    world.assert_converged();
}

#[test]
fn the_notices_first_form_counts_as_well() {
    let mut world = leaderless();
    world.allow_unclean("t", true);
    world.notify_config_change(br#"{"version":1,"entity_type":"topics","entity_name":"t"}"#);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
}

#[test]
fn what_was_enabled_while_nobody_led_counts_at_the_takeover() {
    for entity in ["topics/t", DEFAULT] {
        let mut world = leaderless();
        world.klamm().kill();
        world.klamm().expire_session();
        world.configure_unclean(entity, Some(true));
        world.start_klamm();
        world.settle();
        assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
    }
}

#[test]
fn a_notice_that_no_watch_told_of_is_found_within_a_minute_and_after_a_cut() {
    let mut world = leaderless();
    world.configure_unclean("topics/t", Some(true));
    world.klamm().queue.lose_events();
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));

    let mut world = leaderless();
    world.klamm().cut_connection();
    world.configure_unclean("topics/t", Some(true));
    world.klamm().restore_connection();
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
}

#[test]
fn notices_are_read_once_and_left_for_brokers_to_remove() {
    let mut world = leaderless();
    world.configure_unclean("topics/v", Some(true));
    world.settle();
    let reads = |world: &mut World| {
        let calls = world.klamm().faults().calls();
        let read = calls.iter().filter(|call| **call == Call::ConfigChanges);
        read.count()
    };
    let before = reads(&mut world);
    world.advance(5 * A_MINUTE_MS);
    assert_eq!(reads(&mut world), before);
    let notices = world.zookeeper.look_children("/config/changes");
    assert_eq!(notices, ["config_change_0000000000"]);
    // A parent that was removed and made again counts from 0 again.
    world.zookeeper.uproot("/config/changes");
    world.settle();
    world.zookeeper.poke("/config/changes", b"");
    world.advance(A_MINUTE_MS);
    world.configure_unclean("topics/t", Some(true));
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
}

#[test]
fn what_zookeeper_refused_is_done_by_the_next_sweep() {
    for call in [
        Call::ConfigChangeNames,
        Call::ConfigChanges,
        Call::TopicConfigs,
        Call::DefaultBrokerConfig,
        Call::Write,
    ] {
        for entity in ["topics/t", DEFAULT] {
            let mut world = leaderless();
            let refused = Fault::Refused("for a test");
            world.klamm().faults().at_next(call, refused);
            world.configure_unclean(entity, Some(true));
            world.settle();
            assert_eq!(world.klamm().faults().outstanding(), 0, "{call:?} {entity}");
            world.advance(A_MINUTE_MS);
            let state = world.led_by("t-0");
            assert!(state.starts_with("leader 2 isr [2] "), "{call:?}: {state}");
        }
    }
}

#[test]
fn broken_notices_and_configurations_cost_only_themselves() {
    let mut world = leaderless();
    for broken in [
        "",
        "null",
        "topics/t",
        r#"{"version":9,"entity_path":"topics/t"}"#,
    ] {
        world.notify_config_change(broken.as_bytes());
    }
    world.zookeeper.poke("/config/changes/strange", b"{}");
    world.zookeeper.poke("/config/topics/t", b"{");
    world.notify_config_change(br#"{"version":2,"entity_path":"topics/t"}"#);
    world.configure_unclean("topics/u", Some(true));
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    assert!(world.led_by("u-0").starts_with("leader 3 isr [3] "));
    // Repaired, it counts.
    world.configure_unclean("topics/t", Some(true));
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
}

#[test]
fn a_topic_whose_configuration_is_gone_goes_by_the_clusters() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.leader_asks_isr("t-0", &[1]);
    world.kill(1);
    world.settle();
    world.notify_config_change(br#"{"version":2,"entity_path":"topics/t"}"#);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader -1 isr [1]"));
    world.configure_unclean("brokers/<default>", Some(true));
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2]"));
}

/// It may forbid what the file allows.
#[test]
fn a_default_that_cant_be_read_allows_nothing_whatever_the_file_says() {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.start_klamm_with(klamm::controller::ControllerSettings {
        unclean_leader_election_enable: true,
        ..World::settings()
    });
    world.settle();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.leader_asks_isr("t-0", &[1]);
    world
        .zookeeper
        .poke("/config/brokers/<default>", b"{nonsense");
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    world.configure_unclean(DEFAULT, None);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2]"));
}
