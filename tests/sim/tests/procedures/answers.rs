//! Brokers' answers: failed log directories, late answers, refusals.

use klamm::effect::{PartitionErrors, TopicReference};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, KafkaError, TopicId, TopicName};
use klamm_sim::world::World;

use crate::heard::Heard;

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

fn leader_and_isr_answer(world: &mut World, id: i32, error: KafkaError) {
    let from = world.incarnation(id);
    let response = PartitionErrors {
        error,
        partitions: Vec::new(),
    };
    let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.klamm().queue.put(event);
}

#[test]
fn a_broker_that_was_registered_again_unnoticed_makes_klamm_look_at_the_brokers() {
    let mut world = three("2.4");
    let before = world.incarnation(3);
    world.bounce(3);
    world.klamm().queue.lose_events();
    let response = PartitionErrors {
        error: KafkaError::STALE_BROKER_EPOCH,
        partitions: Vec::new(),
    };
    let from = before;
    let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.klamm().queue.put(event);
    world.settle();
    assert!(
        world
            .klamm()
            .channels
            .open()
            .contains(&world.incarnation(3))
    );
    world.catch_up();
    world.assert_converged();
}

#[test]
fn an_authorizer_that_refuses_klamm_is_named_with_what_to_do_and_costs_no_term() {
    let mut world = three("2.4");
    let (heard, _guard) = Heard::listen();
    leader_and_isr_answer(&mut world, 2, KafkaError::CLUSTER_AUTHORIZATION_FAILED);
    leader_and_isr_answer(&mut world, 3, KafkaError::UNKNOWN_SERVER_ERROR);
    world.settle();
    heard.assert_says(&[
        "broker 2 refuses LeaderAndIsr",
        "Grant it",
        "klamm handback",
    ]);
    heard.assert_says(&["broker 3 answered LeaderAndIsr", "see its log"]);
    assert!(world.klamm().is_active());
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
}

#[test]
fn a_topic_id_that_nobody_knows_in_an_answer_is_passed_over() {
    let mut world = three("3.9");
    let from = world.incarnation(1);
    let unknown = TopicReference::Id(TopicId::new([7; 16]).unwrap());
    let response = PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![(unknown, 0, KafkaError::KAFKA_STORAGE_ERROR)],
    };
    let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
    world.klamm().queue.put(event);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
    assert_eq!(world.led_by("t-1"), "leader 1 isr [1,3] le 0");
}

/// A broker that was slow catches up with one request of each kind in place of its backlog, and then knows what all others
/// know. What is said of an incarnation that is gone concerns nobody.
#[test]
fn a_broker_that_is_far_behind_is_told_what_is_true_now() {
    let mut world = three("3.9");
    world.pause(3);
    for index in 0..10 {
        world.create_topic(&format!("n{index}"), &[&[1, 2, 3]]);
        world.settle();
    }
    let behind = world.klamm().channels.unsent(BrokerId(3));
    assert!(behind >= 20, "{behind}");
    let gone = klamm::effect::Incarnation {
        epoch: klamm::model::BrokerEpoch(1),
        ..world.incarnation(3)
    };
    world
        .klamm()
        .queue
        .put(ControllerEvent::ChannelBehind(gone));
    world.settle();
    assert_eq!(world.klamm().channels.unsent(BrokerId(3)), behind);

    let of = world.incarnation(3);
    world.klamm().queue.put(ControllerEvent::ChannelBehind(of));
    world.settle();
    let left = world.klamm().channels.unsent(BrokerId(3));
    assert!(left < behind, "{left} of {behind} requests are left");
    world.resume(3);
    world.settle();
    let known = world.cached_at(3, "n9-0");
    assert_eq!(known.as_deref(), Some("leader 1 isr [1,2,3] offline []"));
    world.assert_converged();
}
