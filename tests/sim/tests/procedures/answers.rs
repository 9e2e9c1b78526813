//! Brokers' answers: failed log directories, late answers, refusals.

use klamm::effect::{PartitionErrors, TopicReference};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, KafkaError, TopicName};
use klamm_sim::world::World;

/// t-0 on [1,2,3] and t-1 on [1,3], led by 1.
fn three(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[1, 2, 3], &[1, 3]]);
    world.settle();
    world.told();
    world
}

fn storage_error(of: &str, index: i32) -> PartitionErrors {
    let topic = TopicReference::Name(TopicName::new(of));
    PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![(topic, index, KafkaError::KAFKA_STORAGE_ERROR)],
    }
}

#[test]
fn a_failed_log_directory_costs_only_the_replicas_in_it() {
    for release in ["1.1", "2.4", "2.8", "3.9"] {
        let mut world = three(release);
        world.fail_log_dir(1, &["t-0"]);
        world.settle();
        let notices = world.zookeeper.look_children("/log_dir_event_notification");
        assert_eq!(notices, [""; 0], "{release}");
        assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1", "{release}");
        assert_eq!(world.led_by("t-1"), "leader 1 isr [1,3] le 0", "{release}");
        let told = world.cached_at(3, "t-0");
        assert_eq!(told.as_deref(), Some("leader 2 isr [2,3] offline [1]"));
        assert!(world.alive_at(3).contains(&1));

        world.bounce(1);
        world.settle();
        world.catch_up();
        let told = world.cached_at(3, "t-0");
        assert_eq!(
            told.as_deref(),
            Some("leader 2 isr [2,3,1] offline []"),
            "{release}: a restart repairs it"
        );
    }
}

#[test]
fn the_first_request_for_a_new_replica_goes_to_a_good_directory() {
    let mut world = three("3.9");
    world.fail_log_dir(1, &["t-0"]);
    world.settle();
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("u-0"), "leader 1 isr [1,2] le 0");
}

#[test]
fn a_late_answer_of_a_former_incarnation_is_dropped() {
    let mut world = three("2.4");
    let from = world.incarnation(1);
    world.bounce(1);
    world.settle();
    world.catch_up();
    let before = world.led_by("t-0");
    let response = storage_error("t", 0);
    let late = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.klamm().queue.put(late);
    world.settle();
    assert_eq!(world.led_by("t-0"), before);
}

#[test]
fn an_answer_that_comes_after_the_role_was_lost_does_nothing() {
    let mut world = three("2.4");
    world.java_takes_role(2);
    let (from, response) = (world.incarnation(1), storage_error("t", 0));
    let late = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.settle();
    world.klamm().queue.put(late);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
}

#[test]
fn the_same_answer_twice_moves_a_leader_once() {
    let mut world = three("2.4");
    for _ in 0..2 {
        let (from, response) = (world.incarnation(1), storage_error("t", 0));
        let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
        world.klamm().queue.put(event);
    }
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
}

#[test]
fn a_broker_that_follows_a_later_controller_makes_klamm_look() {
    let mut world = three("2.4");
    world.java_takes_role(2);
    world.klamm().queue.lose_events();
    world.broker_mut(3, |broker| broker.controller_epoch.0 = 2);
    world.create_topic("u", &[&[3]]);
    world.klamm().queue.lose_events();
    let from = world.incarnation(3);
    let error = KafkaError::STALE_CONTROLLER_EPOCH;
    world
        .klamm()
        .queue
        .put(ControllerEvent::UpdateMetadataResponseReceived {
            from,
            number: 1,
            error,
        });
    world.settle();
    assert!(!world.klamm().is_active());
}

#[test]
fn an_unknown_broker_topic_or_partition_in_an_answer_is_passed_over() {
    let mut world = three("2.4");
    let mut stranger = world.incarnation(1);
    stranger.broker = BrokerId(77);
    for (from, response) in [
        (stranger, storage_error("t", 0)),
        (world.incarnation(1), storage_error("nobody", 0)),
        (world.incarnation(1), storage_error("t", 99)),
    ] {
        let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
        world.klamm().queue.put(event);
    }
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
}
