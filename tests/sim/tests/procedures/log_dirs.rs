//! Log directories fail: notices, answers with a storage error, recovery. Upstream: `LogDirFailureTest`,
//! `ControllerIntegrationTest.testTopicCreationWithOfflineReplica` and what they leave out.

use klamm::effect::{PartitionErrors, TopicReference};
use klamm::event::ControllerEvent;
use klamm::model::{KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition};

const NOTICES: &str = "/log_dir_event_notification";
const A_MINUTE_MS: u64 = 60_000;

/// t-0 [1,2,3], t-1 [2,3,1] and single-0 [1].
fn led() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.create_topic("single", &[&[1]]);
    world.settle();
    world.told();
    world
}

fn failed_replicas(world: &mut World) -> u64 {
    let gauges = world.klamm().snapshot().gauges;
    gauges.replicas_on_failed_log_dirs
}

fn notify(world: &World, broker: i32) {
    let notice = format!(r#"{{"version":1,"broker":{broker},"event":1}}"#);
    let path = format!("{NOTICES}/log_dir_event_0000000077");
    world.zookeeper.poke(&path, notice.as_bytes());
}

#[test]
fn the_broker_is_asked_about_all_that_it_hosts_and_the_healthy_rest_stays() {
    let mut world = led();
    world.fail_log_dir(1, &["t-0"]);
    world.settle();
    let told = world.told();
    assert!(
        told[0].starts_with("L{1} ")
            && ["t-0 ", "t-1 ", "single-0 "]
                .iter()
                .all(|of| told[0].contains(of)),
        "{told:?}"
    );
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3,1] le 0");
    assert_eq!(world.led_by("single-0"), "leader 1 isr [1] le 0");
    assert_eq!(world.zookeeper.look_children(NOTICES), [""; 0]);
    assert_eq!(failed_replicas(&mut world), 1);
    // A second look finds nothing new.
    notify(&world, 1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    let differences = world.differences(&[1]);
    assert_eq!(differences, [""; 0]);
}

#[test]
fn the_restart_of_the_broker_clears_it() {
    let mut world = led();
    world.fail_log_dir(1, &["t-0", "single-0"]);
    world.settle();
    assert_eq!(world.led_by("single-0"), "leader -1 isr [1] le 1");
    assert_eq!(failed_replicas(&mut world), 2);
    world.bounce(1);
    world.settle();
    world.catch_up();
    assert_eq!(failed_replicas(&mut world), 0);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3,1] "));
    assert!(world.led_by("single-0").starts_with("leader 1 isr [1] "));
    world.assert_converged();
}

#[test]
fn a_broker_that_died_over_it_is_dead_and_its_notice_goes() {
    let mut world = led();
    world.kill(1);
    world.settle();
    world.told();
    notify(&world, 1);
    notify(&world, 77);
    world.settle();
    assert_eq!(world.zookeeper.look_children(NOTICES), [""; 0]);
    assert_eq!(world.told(), [""; 0]);
    world.start_broker(1);
    world.settle();
    world.catch_up();
    world.assert_converged();
}

/// The notices of former terms are removed unread: every broker is asked about all that it hosts anyway.
#[test]
fn what_failed_while_nobody_led_is_found_at_the_takeover() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    world.fail_log_dir(2, &["t-1"]);
    world.start_klamm();
    world.settle();
    assert_eq!(world.zookeeper.look_children(NOTICES), [""; 0]);
    assert_eq!(world.led_by("t-1"), "leader 3 isr [3,1] le 1");
    assert_eq!(failed_replicas(&mut world), 1);
}

#[test]
fn a_replica_that_is_on_a_failed_directory_is_not_elected() {
    let mut world = led();
    world.fail_log_dir(2, &["t-0"]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,3] le 1");
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3] le 2");
    world.kill(3);
    world.settle();
    world.allow_unclean("t", true);
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("t-0"), "leader -1 isr [3] le 3");
}

#[test]
fn what_zookeeper_refused_is_done_by_the_next_sweep() {
    for call in [
        Call::LogDirEventNotifications,
        Call::DefaultBrokerConfig,
        Call::Write,
    ] {
        let mut world = led();
        let refused = Fault::Refused("for a test");
        world.klamm().faults().at_next(call, refused);
        world.fail_log_dir(1, &["t-0", "t-1"]);
        world.settle();
        assert_eq!(world.klamm().faults().outstanding(), 0, "{call:?}");
        world.advance(2 * A_MINUTE_MS);
        assert!(
            world.led_by("t-0").starts_with("leader 2 isr [2,3] "),
            "{call:?}: {}",
            world.led_by("t-0")
        );
        assert!(
            world.led_by("t-1").starts_with("leader 2 isr [2,3] "),
            "{call:?}: {}",
            world.led_by("t-1")
        );
        assert_eq!(world.differences(&[1]), [""; 0], "{call:?}");
    }
}

/// No release does so, but the protocol allows it: a broker answers 0 for what it had called lost.
#[test]
fn a_replica_that_its_broker_hosts_again_can_lead_again() {
    let mut world = led();
    world.fail_log_dir(1, &["single-0"]);
    world.settle();
    assert_eq!(world.led_by("single-0"), "leader -1 isr [1] le 1");
    world.broker_mut(1, |broker| {
        broker.offline.clear();
        broker.has_failed_dir = false;
        broker.logs.insert(partition("single-0"), None);
    });
    let from = world.incarnation(1);
    let topic = TopicReference::Name(TopicName::new("single"));
    let response = PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![(topic, 0, KafkaError::NONE)],
    };
    let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.klamm().queue.put(event);
    world.settle();
    assert_eq!(world.led_by("single-0"), "leader 1 isr [1] le 2");
    assert_eq!(failed_replicas(&mut world), 0);
    world.assert_converged();
}

#[test]
fn broken_notices_go_and_cost_the_others_nothing() {
    let mut world = led();
    for (number, broken) in ["", "{", "null", "[1]", r#"{"broker":"1"}"#]
        .iter()
        .enumerate()
    {
        let path = format!("{NOTICES}/log_dir_event_000000000{number}");
        world.zookeeper.poke(&path, broken.as_bytes());
    }
    world.fail_log_dir(1, &["t-0"]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    assert_eq!(world.zookeeper.look_children(NOTICES), [""; 0]);
}
