//! The controller's log tells the course of events in the Java controller's words, where it has any: what operators grep for.

use klamm::controller::{ControllerSettings, LeaderBalance};
use klamm::effect::{PartitionErrors, TopicReference};
use klamm::event::{ControllerEvent, ElectionType};
use klamm::model::{KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::heard::Heard;

const A_MINUTE_MS: u64 = 60_000;

fn listen() -> (Heard, DefaultGuard) {
    Heard::listen_from(Level::INFO)
}

fn led() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    world
}

#[test]
fn a_takeover_names_its_epochs_and_how_long_it_took() {
    let (heard, _guard) = listen();
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.start_klamm();
    world.settle();
    heard.assert_says(&[
        "9 successfully elected as the controller",
        "Epoch incremented to 1",
    ]);
    heard.assert_says(&[
        "Ready to serve as the new controller with epoch 1: 2 brokers",
        "protocol 3.9",
    ]);
    world.klamm().queue.put(ControllerEvent::Shutdown);
    world.settle();
    heard.assert_says(&["Resigned"]);
}

#[test]
fn brokers_that_come_go_and_bounce_are_named() {
    let mut world = led();
    world.add_broker(4, "3.9", "3.9");
    let (heard, _guard) = listen();
    world.start_broker(4);
    world.settle();
    let ids = [
        "Newly added brokers: 4",
        "deleted brokers: ,",
        "bounced brokers: ,",
    ];
    heard.assert_says(&ids);
    world.bounce(1);
    world.settle();
    heard.assert_says(&["bounced brokers: 1", "all live brokers: 1,2,3,4"]);
    world.kill(2);
    world.settle();
    heard.assert_says(&["deleted brokers: 2,"]);
    heard.assert_says(&["Broker failure callback for 2"]);
}

#[test]
fn every_change_of_a_state_is_in_the_state_change_log_with_its_reason() {
    let mut world = led();
    let (heard, _guard) = listen();
    world.create_topic("u", &[&[2, 3]]);
    world.settle();
    heard.assert_says(&[
        "state_change",
        "partition u-0: leader 2, isr [2,3], leader epoch 0",
    ]);
    world.kill(2);
    world.settle();
    heard.assert_says(&[
        "state_change",
        "partition u-0: leader 3, isr [3], leader epoch 1",
    ]);
    world.kill(3);
    world.settle();
    heard.assert_says(&["partition u-0: leader -1, isr [3], leader epoch 2"]);
}

#[test]
fn elections_are_counted_whoever_asked_for_them() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world.start_klamm_with(ControllerSettings {
        leader_balance: Some(LeaderBalance {
            interval_ms: 300_000,
            threshold_percent: 10,
        }),
        ..World::settings()
    });
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    let shift = |world: &mut World| {
        world.bounce(1);
        world.settle();
        world.catch_up();
        assert!(world.led_by("t-0").starts_with("leader 2"));
    };
    let (heard, _guard) = listen();
    shift(&mut world);
    world.elect_leaders(Some(&["t-0", "t-1"]), ElectionType::Preferred);
    let counts = [
        "1 partitions to elect",
        "1 are led so already",
        "0 can't be",
    ];
    heard.assert_says(&counts);
    shift(&mut world);
    let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
    world
        .zookeeper
        .poke("/admin/preferred_replica_election", asked);
    world.settle();
    heard.assert_says(&["preferred leaders asked for: 1 partitions to elect"]);
    shift(&mut world);
    world.advance(600_000);
    heard.assert_says(&["1 partitions go back to their preferred leaders, t-0 first"]);
    assert!(world.led_by("t-0").starts_with("leader 1"));
}

#[test]
fn a_reassignment_is_told_from_its_beginning_to_its_end() {
    let mut world = led();
    world.add_broker(4, "3.9", "3.9");
    world.start_broker(4);
    world.settle();
    let (heard, _guard) = listen();
    let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,2]}]}"#;
    world.zookeeper.poke("/admin/reassign_partitions", asked);
    world.settle();
    heard.assert_says(&[
        "Reassignment of partition t-0 started",
        "adding [4], removing [1,3]",
    ]);
    // The next controller goes on.
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    world.settle();
    world.kill(3);
    world.settle();
    world.catch_up();
    heard.assert_says(&["Reassignment of partition t-0 completed: replicas [4,2]"]);
    heard.assert_says(&["broker 3 is down and keeps its log of partition t-0"]);
}

#[test]
fn a_former_controllers_reassignments_are_counted_when_they_go_on() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    let moving = br#"{"version":2,"partitions":{"0":[2,3,1],"1":[2,3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}"#;
    world.zookeeper.poke("/brokers/topics/t", moving);
    let (heard, _guard) = listen();
    world.start_klamm();
    world.settle();
    heard.assert_says(&["Resuming the reassignment of 1 partitions, t-0 first"]);
    world.catch_up();
    assert_eq!(world.assigned("t-0"), [2, 3]);
}

#[test]
fn failed_and_repaired_log_directories_are_told_by_broker() {
    let mut world = led();
    let (heard, _guard) = listen();
    let answer = |world: &mut World, error| {
        let topic = TopicReference::Name(TopicName::new("t"));
        let response = PartitionErrors {
            error: KafkaError::NONE,
            partitions: vec![(topic, 0, error)],
        };
        let from = world.incarnation(1);
        let event = ControllerEvent::LeaderAndIsrResponseReceived { from, response };
        world.klamm().queue.put(event);
        world.settle();
    };
    answer(&mut world, KafkaError::KAFKA_STORAGE_ERROR);
    heard.assert_says(&["broker 1: 1 replicas are on a failed log directory, t-0 first"]);
    answer(&mut world, KafkaError::NONE);
    heard.assert_says(&["broker 1: 1 replicas are back from a failed log directory, t-0 first"]);
}

#[test]
fn a_controlled_shutdown_that_leaves_partitions_behind_names_the_first() {
    let mut world = led();
    world.create_topic("single", &[&[1, 2]]);
    world.settle();
    world.leader_asks_isr("single-0", &[1]);
    let (heard, _guard) = listen();
    world.ask_shutdown(1);
    world.settle();
    heard.assert_says(&["Shutting down broker 1"]);
    heard.assert_says(&["1 partitions", "single-0"]);
}

#[test]
fn topics_that_come_and_go_are_named_and_many_are_counted() {
    let mut world = led();
    let (heard, _guard) = listen();
    let names: Vec<String> = (10..40).map(|index| format!("n{index}")).collect();
    for name in &names {
        world.create_topic(name, &[&[1, 2]]);
    }
    world.settle();
    heard.assert_says(&["New topics: [n10, n11, ", " and 10 more]"]);
    for name in &names {
        world
            .zookeeper
            .poke(&format!("/admin/delete_topics/{name}"), b"");
    }
    world.pause(2);
    world.settle();
    heard.assert_says(&[
        "Starting topic deletion for topics n10, n11, ",
        " and 10 more",
    ]);
    world.resume(2);
    world.settle();
    heard.assert_says(&["Deletion of topics ", "successfully completed"]);
    world.assert_converged();
}

#[test]
fn where_topics_may_not_be_deleted_the_setting_and_the_topics_are_named() {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.start_klamm_with(ControllerSettings {
        delete_topic_enable: false,
        ..World::settings()
    });
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let (heard, _guard) = listen();
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    heard.assert_says(&["delete.topic.enable=false", "the topics t are not deleted"]);
    assert!(world.led_by("t-0").starts_with("leader 1"));
}

#[test]
fn partitions_added_to_a_topic_that_is_being_deleted_are_counted_and_taken_out() {
    let mut world = led();
    world.kill(3);
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    let (heard, _guard) = listen();
    world.add_partition("t", &[1, 2]);
    world.settle();
    heard.assert_says(&["1 new partitions of topic t, which is being deleted"]);
    assert_eq!(world.topic("t").unwrap().partitions.len(), 2);
}

#[test]
fn a_role_that_is_gone_before_it_could_be_given_back_is_no_obstacle_to_a_shutdown() {
    let mut world = led();
    let (heard, _guard) = listen();
    let lost = Fault::SessionLostBefore;
    world.klamm().faults().at_next(Call::ReleaseRole, lost);
    world.klamm().queue.put(ControllerEvent::Shutdown);
    world.settle();
    heard.assert_says(&["the role was gone before it could be given back"]);
    assert!(!world.klamm().runs());
    assert_eq!(world.controller(), None);
}

#[test]
fn a_takeover_that_fails_and_can_give_nothing_back_says_both_and_is_tried_again() {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    let (heard, _guard) = listen();
    world.start_klamm();
    let faults = world.klamm().faults();
    faults.at_next(Call::TopicNames, Fault::Refused("for a test"));
    faults.at_next(Call::ReleaseRole, Fault::Refused("for a test as well"));
    world.settle();
    heard.assert_says(&["(TopicNames): for a test", "tried again in 5000 ms"]);
    heard.assert_says(&[
        "the role was gone before it could be given back",
        "for a test as well",
    ]);
    world.advance(A_MINUTE_MS);
    assert!(world.klamm().is_active());
}

#[test]
fn quotas_are_counted_when_a_term_begins() {
    let mut world = World::of_brokers(&[1], "3.9");
    let quota = br#"{"version":1,"config":{"controller_mutation_rate":"1"}}"#;
    for client in ["a", "b"] {
        world
            .zookeeper
            .poke(&format!("/config/clients/{client}"), quota);
    }
    let (heard, _guard) = listen();
    world.start_klamm();
    world.settle();
    heard.assert_says(&["2 quotas on what clients create and delete are in force"]);
}

#[test]
fn reassignments_that_wait_are_told_a_line_for_each_reason() {
    let mut world = led();
    world.add_broker(4, "3.9", "3.9");
    world.start_broker(4);
    world.settle();
    world.pause(4);
    let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,4]},{"topic":"t","partition":1,"replicas":[2,4]}]}"#;
    world.zookeeper.poke("/admin/reassign_partitions", asked);
    world.settle();
    let (heard, _guard) = listen();
    world.kill(4);
    world.settle();
    heard.assert_says(&["Reassignment of partitions t-0, t-1 waits", "4"]);
}

#[test]
fn deletions_that_wait_are_told_a_line_for_each_reason() {
    let mut world = led();
    world.create_topic("u", &[&[3, 1]]);
    world.settle();
    world.kill(3);
    world.settle();
    let (heard, _guard) = listen();
    for topic in ["t", "u"] {
        let marker = format!("/admin/delete_topics/{topic}");
        world.zookeeper.poke(&marker, b"");
    }
    world.klamm().queue.lose_events();
    world.klamm().queue.put(ControllerEvent::TopicDeletion);
    world.settle();
    heard.assert_says(&["Deletion of topics t, u waits", "3"]);
}

#[test]
fn many_reassignments_that_wait_are_counted() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let replicas: &[i32] = &[1, 2];
    world.create_topic("many", &[replicas; 25]);
    world.settle();
    world.pause(3);
    let entry = |index: i32| format!(r#"{{"topic":"many","partition":{index},"replicas":[1,3]}}"#);
    let entries: Vec<String> = (0..25).map(entry).collect();
    let asked = format!(r#"{{"version":1,"partitions":[{}]}}"#, entries.join(","));
    world
        .zookeeper
        .poke("/admin/reassign_partitions", asked.as_bytes());
    world.settle();
    let (heard, _guard) = listen();
    world.kill(3);
    world.settle();
    heard.assert_says(&[
        "Reassignment of partitions many-0, many-1, ",
        " and 5 more waits",
    ]);
}
