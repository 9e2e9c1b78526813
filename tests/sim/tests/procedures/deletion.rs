//! Topics are deleted: upstream's `TopicDeletionManagerTest` and `DeleteTopicTest`, and what those leave out: crashes at
//! every step, refusals, answers that say nothing.

use klamm::controller::ControllerSettings;
use klamm::effect::{PartitionErrors, TopicReference};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, ControllerEpoch, KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition};

mod away;

fn mark(world: &World, topic: &str) {
    let marker = format!("/admin/delete_topics/{topic}");
    world.zookeeper.poke(&marker, b"");
}

/// Brokers 1 to 3; t-0 [1,2,3], t-1 [2,3,1] with a configuration, and u-0 [3,1].
fn led() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.allow_unclean("t", false);
    world.create_topic("u", &[&[3, 1]]);
    world.settle();
    world.told();
    world
}

/// Everything that is left of a topic, in ZooKeeper and on the brokers.
fn traces(world: &World, topic: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in [
        format!("/brokers/topics/{topic}"),
        format!("/config/topics/{topic}"),
        format!("/admin/delete_topics/{topic}"),
    ] {
        if world.zookeeper.look(&path).is_some() {
            found.push(path);
        }
    }
    let name = TopicName::new(topic);
    for (id, broker) in world.cluster.borrow().iter() {
        let hosted = broker.logs.keys().chain(broker.replicas.keys());
        let known = hosted.chain(broker.cache.keys());
        if known.into_iter().any(|at| at.topic == name) {
            found.push(format!("broker {id}"));
        }
    }
    found
}

fn has_log(world: &World, id: i32, of: &str) -> bool {
    world.broker(id, |broker| broker.logs.contains_key(&partition(of)))
}

fn waits_for(world: &mut World, topic: &str) -> Option<String> {
    let context = world.klamm().context();
    let why = context.ineligible_for_deletion(&TopicName::new(topic));
    why.map(ToString::to_string)
}

/// Topics to delete, replicas to delete, topics and replicas that wait.
fn gauges(world: &mut World) -> (u64, u64, u64, u64) {
    let gauges = world.klamm().snapshot().gauges;
    (
        gauges.topics_to_delete,
        gauges.replicas_to_delete,
        gauges.topics_ineligible_to_delete,
        gauges.replicas_ineligible_to_delete,
    )
}

fn next_klamm(world: &mut World) {
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    world.settle();
}

#[test]
fn a_topic_is_announced_as_gone_then_stopped_then_deleted_and_leaves_no_trace() {
    let mut world = led();
    mark(&world, "t");
    world.settle();
    assert_eq!(
        world.told(),
        [
            "U{1,2,3} alive [1,2,3,9] t-0 deleting, t-1 deleting",
            "S{1,2,3} t-0 le -2 keep, t-1 le -2 keep",
            "S{1,2,3} t-0 le -2 delete, t-1 le -2 delete",
        ]
    );
    assert_eq!(traces(&world, "t"), [""; 0]);
    assert_eq!(world.led_by("u-0"), "leader 3 isr [3,1] le 0");
    world.assert_converged();
    assert_eq!(gauges(&mut world), (0, 0, 0, 0));
    assert_eq!(world.klamm().snapshot().gauges.topics, 1);
}

#[test]
fn every_release_of_broker_deletes() {
    for release in ["1.0", "2.2", "2.4", "2.6", "2.8", "3.4", "3.9"] {
        let mut world = World::led(&[1, 2], release);
        world.create_topic("t", &[&[1, 2]]);
        world.settle();
        mark(&world, "t");
        world.settle();
        assert_eq!(traces(&world, "t"), [""; 0], "{release}");
    }
}

#[test]
fn a_dead_broker_halts_a_deletion_and_its_return_finishes_it() {
    let mut world = led();
    world.kill(2);
    world.settle();
    mark(&world, "t");
    world.settle();
    assert!(!has_log(&world, 1, "t-0") && !has_log(&world, 3, "t-1"));
    assert!(has_log(&world, 2, "t-0") && has_log(&world, 2, "t-1"));
    assert!(world.topic("t").is_some());
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.starts_with("broker 2 "), "{why}");
    assert_eq!(gauges(&mut world), (1, 2, 1, 2));
    assert_eq!(
        world.klamm().snapshot().gauges.deletions_waiting,
        [1, 0, 0, 0, 0]
    );
    // Neither time nor others' comings and goings change that.
    world.advance(180_000);
    world.bounce(3);
    world.settle();
    assert!(world.topic("t").is_some());
    assert!(!has_log(&world, 3, "t-0"), "a deleted log came back");

    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
    assert_eq!(gauges(&mut world), (0, 0, 0, 0));
}

/// The returning broker is told of its leader as it is, as by the Java controller, before it is told to delete.
#[test]
fn a_returning_broker_hears_of_the_topic_before_it_deletes_it() {
    let mut world = led();
    world.kill(2);
    world.settle();
    mark(&world, "t");
    world.settle();
    world.told();
    world.start_broker(2);
    world.settle();
    let told = world.told();
    let first = |what: &str| told.iter().position(|line| line.contains(what));
    let probe = told.iter().position(|line| line.starts_with("L{2} "));
    assert!(probe.is_some() && probe < first("S{2} t-0 le -2 keep"));
    assert!(first("S{2} t-0 le -2 keep") < first("S{2} t-0 le -2 delete"));
    let others = told
        .iter()
        .filter(|line| line.starts_with("S{1") || line.starts_with("S{3"));
    assert_eq!(
        others.count(),
        0,
        "who has deleted is asked again: {told:?}"
    );
}

#[test]
fn a_broker_that_dies_while_it_deletes_halts_the_deletion_and_its_return_resumes_it() {
    let mut world = led();
    world.pause(2);
    mark(&world, "t");
    world.settle();
    assert_eq!(waits_for(&mut world, "t"), None, "its answer is awaited");
    assert_eq!(gauges(&mut world), (1, 2, 0, 0));
    world.kill(2);
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.starts_with("broker 2 "), "{why}");
    assert_eq!(gauges(&mut world), (1, 2, 1, 2));
    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_broker_that_returns_while_others_still_delete_is_told_when_they_have() {
    let mut world = led();
    world.pause(1);
    world.pause(2);
    mark(&world, "t");
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.settle();
    assert!(has_log(&world, 2, "t-0"));
    assert!(world.topic("t").is_some());
    world.resume(1);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_broker_that_bounces_while_it_deletes_is_told_again() {
    let mut world = led();
    world.pause(2);
    mark(&world, "t");
    world.settle();
    world.bounce(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_broker_that_leaves_gently_halts_a_deletion_too() {
    let mut world = led();
    world.ask_shutdown(2);
    world.settle();
    mark(&world, "t");
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.starts_with("broker 2 "), "{why}");
    world.bounce(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_deletion_goes_on_under_the_next_controller() {
    let mut world = led();
    world.kill(2);
    mark(&world, "t");
    world.settle();
    next_klamm(&mut world);
    assert!(world.topic("t").is_some());
    assert_eq!(world.klamm().snapshot().gauges.topics_to_delete, 1);
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.starts_with("broker 2 "), "{why}");
    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_request_made_while_nobody_leads_is_found() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    mark(&world, "t");
    mark(&world, "nothing");
    world.start_klamm();
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
    assert_eq!(traces(&world, "nothing"), [""; 0]);
}

/// A Java controller that died removed the nodes one by one, leaves first; whatever it left, the rest goes too.
#[test]
fn what_a_java_controller_left_of_a_deletion_is_finished() {
    let removed = [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/1/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ];
    for count in 0..=removed.len() {
        for while_led in [false, true] {
            let mut world = led();
            if !while_led {
                world.klamm().kill();
                world.klamm().expire_session();
            }
            // It had told the brokers, but for the last.
            for id in [1, 2] {
                world.broker_mut(id, |broker| {
                    broker.logs.retain(|at, _| at.topic.as_str() != "t");
                    broker.replicas.retain(|at, _| at.topic.as_str() != "t");
                });
            }
            for id in [1, 2, 3] {
                world.broker_mut(id, |broker| broker.cache.clear());
            }
            mark(&world, "t");
            for path in &removed[..count] {
                world.zookeeper.uproot(path);
            }
            if while_led {
                world.settle();
            } else {
                world.start_klamm();
                world.settle();
            }
            world.advance(61_000);
            let mut left = traces(&world, "t");
            if count >= 6 {
                // Without the topic's node nobody can tell who hosts it: Java leaves such a log too.
                left.retain(|trace| trace != "broker 3");
            }
            if while_led && count >= 6 {
                // Told of an unknown topic, the controller removes the request alone, as Java's does.
                left.retain(|trace| trace != "/config/topics/t");
            }
            assert_eq!(left, [""; 0], "{count} removed, led {while_led}");
            assert!(world.led_by("u-0").starts_with("leader 3 "));
        }
    }
}

#[test]
fn the_same_name_can_come_again_at_once() {
    let mut world = led();
    for round in 0..50 {
        mark(&world, "t");
        world.settle();
        assert_eq!(traces(&world, "t"), [""; 0], "round {round}");
        world.create_topic("t", &[&[1, 2, 3]]);
        world.settle();
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0", "{round}");
        assert!(has_log(&world, 3, "t-0"));
        world.assert_converged();
    }
}

/// Goal: a topic that is made again before klamm hears that the old one is gone is led as a new one. Method: the new
/// node is written right after the transaction that removed the old.
#[test]
fn a_name_that_comes_again_in_the_same_moment_is_a_new_topic() {
    let mut world = led();
    mark(&world, "t");
    while world.topic("t").is_some() {
        assert!(world.step());
    }
    world.create_topic("t", &[&[3, 2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3,2] le 0");
    world.advance(61_000);
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3,2] le 0");
    world.assert_converged();
}

#[test]
fn a_request_for_a_topic_made_a_moment_ago_is_obeyed() {
    let mut world = led();
    // In this order in the queue, as two watches may be heard.
    mark(&world, "new");
    world.create_topic("new", &[&[1, 2]]);
    world.klamm().queue.put(ControllerEvent::TopicDeletion);
    world.settle();
    assert_eq!(traces(&world, "new"), [""; 0]);
}

#[test]
fn requests_for_topics_that_do_not_exist_are_removed() {
    let mut world = led();
    mark(&world, "nothing");
    mark(&world, "sp ace");
    world.settle();
    assert_eq!(
        world.zookeeper.look_children("/admin/delete_topics"),
        [""; 0]
    );
    assert_eq!(world.told(), [""; 0]);
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}

#[test]
fn a_topic_whose_node_is_broken_is_not_taken_for_one_that_does_not_exist() {
    let mut world = led();
    world.zookeeper.poke("/brokers/topics/broken", b"{");
    world.settle();
    mark(&world, "broken");
    mark(&world, "u");
    world.settle();
    assert!(world.zookeeper.look("/brokers/topics/broken").is_some());
    assert_eq!(
        world.zookeeper.look_children("/admin/delete_topics"),
        ["broken"]
    );
    assert_eq!(traces(&world, "u"), [""; 0]);
    world.create_topic("broken", &[&[1]]);
    world.settle();
    world.advance(61_000);
    assert_eq!(traces(&world, "broken"), [""; 0]);
}

#[test]
fn where_deletion_is_disabled_requests_are_removed_and_topics_stay() {
    let settings = || ControllerSettings {
        delete_topic_enable: false,
        ..World::settings()
    };
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    mark(&world, "t");
    world.start_klamm_with(settings());
    world.settle();
    let markers = |world: &World| world.zookeeper.look_children("/admin/delete_topics");
    assert_eq!(markers(&world), [""; 0], "at the takeover");
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
    mark(&world, "t");
    mark(&world, "nothing");
    world.settle();
    assert_eq!(markers(&world), [""; 0], "in office");
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 1");
    assert!(has_log(&world, 2, "t-0"));
}

#[test]
fn an_answer_without_partitions_counts_as_a_refusal_and_is_tried_again() {
    let mut world = led();
    world.pause(2);
    mark(&world, "t");
    world.settle();
    let from = world.incarnation(2);
    let queue = world.klamm().queue.clone();
    queue.put(ControllerEvent::StopReplicaResponseReceived {
        from,
        controller_epoch: ControllerEpoch(1),
        deleted: vec![partition("t-0"), partition("t-1")],
        response: PartitionErrors {
            error: KafkaError::NONE,
            partitions: Vec::new(),
        },
    });
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(
        why.contains("broker 2") && why.contains("UNKNOWN_SERVER_ERROR"),
        "{why}"
    );
    assert!(world.topic("t").is_some());
    world.resume(2);
    world.advance(61_000);
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_refused_stop_replica_is_sent_again_with_the_next_sweep() {
    for (top_level, of_partition) in [
        (KafkaError::NONE, KafkaError::FENCED_LEADER_EPOCH),
        (KafkaError::UNKNOWN_SERVER_ERROR, KafkaError::NONE),
    ] {
        let mut world = led();
        world.pause(2);
        mark(&world, "t");
        world.settle();
        let from = world.incarnation(2);
        let answered = |of: &str| {
            let at = partition(of);
            (TopicReference::Name(at.topic), at.partition, of_partition)
        };
        let refused = ControllerEvent::StopReplicaResponseReceived {
            from,
            controller_epoch: ControllerEpoch(1),
            deleted: vec![partition("t-0"), partition("t-1")],
            response: PartitionErrors {
                error: top_level,
                partitions: vec![answered("t-0"), answered("t-1")],
            },
        };
        world.klamm().queue.put(refused);
        world.settle();
        let sent = |world: &mut World| world.klamm().channels.sent_to(BrokerId(2)).len();
        let before = sent(&mut world);
        assert_eq!(gauges(&mut world), (1, 2, 1, 2));
        assert_eq!(
            world.klamm().snapshot().gauges.deletions_waiting,
            [0, 0, 0, 1, 0]
        );
        world.advance(1_000);
        assert_eq!(sent(&mut world), before, "asked again at once");
        world.resume(2);
        world.advance(60_000);
        assert_eq!(traces(&world, "t"), [""; 0]);
    }
}

#[test]
fn an_answer_of_an_older_incarnation_deletes_nothing() {
    let mut world = led();
    world.kill(2);
    world.settle();
    let old = world.incarnation(2);
    mark(&world, "t");
    world.settle();
    world.start_broker(2);
    world.pause(2);
    world.settle();
    let at = partition("t-0");
    let late = ControllerEvent::StopReplicaResponseReceived {
        from: old,
        controller_epoch: ControllerEpoch(1),
        deleted: vec![at.clone(), partition("t-1")],
        response: PartitionErrors {
            error: KafkaError::NONE,
            partitions: vec![
                (TopicReference::Name(at.topic.clone()), 0, KafkaError::NONE),
                (TopicReference::Name(at.topic), 1, KafkaError::NONE),
            ],
        },
    };
    world.klamm().queue.put(late);
    world.settle();
    assert!(world.topic("t").is_some());
    world.resume(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

/// Goal: what a broker deleted in a term that is over doesn't count in the next, in which it was told of the topic again.
#[test]
fn an_answer_to_an_earlier_term_deletes_nothing() {
    let mut world = led();
    world.pause(2);
    mark(&world, "t");
    world.settle();
    world.klamm().expire_session();
    // The paused broker is silent to the survey, too.
    world.advance(30_000);
    assert!(world.klamm().is_active());
    assert_eq!(world.controller_epoch(), 2);
    let at = partition("t-0");
    let of_term = |controller_epoch, incarnation| ControllerEvent::StopReplicaResponseReceived {
        from: incarnation,
        controller_epoch: ControllerEpoch(controller_epoch),
        deleted: vec![at.clone(), partition("t-1")],
        response: PartitionErrors {
            error: KafkaError::NONE,
            partitions: vec![
                (TopicReference::Name(at.topic.clone()), 0, KafkaError::NONE),
                (TopicReference::Name(at.topic.clone()), 1, KafkaError::NONE),
            ],
        },
    };
    let incarnation = world.incarnation(2);
    world.klamm().queue.put(of_term(1, incarnation));
    world.settle();
    assert!(world.topic("t").is_some());
    world.klamm().queue.put(of_term(2, incarnation));
    world.settle();
    assert!(world.topic("t").is_none());
}

#[test]
fn a_failed_log_directory_halts_a_deletion_until_its_broker_restarts() {
    let mut world = led();
    world.broker_mut(2, |broker| broker.fail_log_dir(&[partition("t-0")]));
    let notice = br#"{"version":1,"broker":2,"event":1}"#;
    world.zookeeper.poke(
        "/log_dir_event_notification/log_dir_event_0000000000",
        notice,
    );
    world.settle();
    mark(&world, "t");
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.contains("log directory of broker 2"), "{why}");
    assert_eq!(
        world.klamm().snapshot().gauges.deletions_waiting,
        [0, 1, 0, 0, 0]
    );
    assert!(
        !has_log(&world, 2, "t-1"),
        "the healthy directory's replica"
    );
    world.advance(120_000);
    assert!(world.topic("t").is_some());
    world.bounce(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

/// The directory fails while the deletion runs, and nobody noticed before the broker was asked.
#[test]
fn a_broker_that_answers_with_a_storage_error_is_asked_again_after_its_restart() {
    let mut world = led();
    world.broker_mut(2, |broker| broker.fail_log_dir(&[partition("t-0")]));
    mark(&world, "t");
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.contains("log directory of broker 2"), "{why}");
    world.told();
    world.advance(180_000);
    let told = world.told();
    assert!(!told.iter().any(|line| line.contains("delet")), "{told:?}");
    world.bounce(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_topic_that_is_being_reassigned_waits_and_serves_on() {
    let mut world = World::of_brokers(&[1, 2, 3], "2.8");
    let node = br#"{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"removing_replicas":{}}"#;
    world.zookeeper.poke("/brokers/topics/t", node);
    let state = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", state);
    world.start_klamm();
    world.settle();
    mark(&world, "t");
    world.settle();
    let why = waits_for(&mut world, "t").unwrap();
    assert!(why.contains("being reassigned"), "{why}");
    assert_eq!(
        world.klamm().snapshot().gauges.deletions_waiting,
        [0, 0, 1, 0, 0]
    );
    assert!(has_log(&world, 1, "t-0"));
    assert!(world.broker(1, |broker| broker.leads(&partition("t-0")).is_some()));
    world.catch_up();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn a_topic_does_not_grow_while_it_is_deleted() {
    let mut world = led();
    world.kill(2);
    world.settle();
    mark(&world, "t");
    world.settle();
    world.add_partition("t", &[1, 3]);
    world.settle();
    assert_eq!(world.topic("t").unwrap().partitions.len(), 2);
    assert_eq!(world.led_by("t-2"), "none");
    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn partitions_added_just_before_or_just_after_the_request_go_with_the_topic() {
    for added_first in [true, false] {
        for under_next in [true, false] {
            let mut world = led();
            world.kill(2);
            world.settle();
            if under_next {
                world.klamm().kill();
                world.klamm().expire_session();
            }
            if added_first {
                world.add_partition("t", &[1, 2, 3]);
                mark(&world, "t");
            } else {
                mark(&world, "t");
                world.add_partition("t", &[1, 2, 3]);
            }
            if under_next {
                world.start_klamm();
            }
            world.settle();
            world.start_broker(2);
            world.settle();
            assert_eq!(traces(&world, "t"), [""; 0], "{added_first} {under_next}");
        }
    }
}

#[test]
fn a_topic_without_partitions_or_with_one_that_nobody_led_is_deleted() {
    let mut world = led();
    world
        .zookeeper
        .poke("/brokers/topics/empty", br#"{"version":1,"partitions":{}}"#);
    world.settle();
    mark(&world, "empty");
    world.settle();
    assert_eq!(traces(&world, "empty"), [""; 0]);

    world.kill(2);
    world.create_topic("unled", &[&[2]]);
    world.settle();
    mark(&world, "unled");
    world.settle();
    assert!(world.topic("unled").is_some());
    assert_eq!(gauges(&mut world), (1, 1, 1, 1));
    world.start_broker(2);
    world.settle();
    assert_eq!(traces(&world, "unled"), [""; 0]);
}

#[test]
fn a_replica_that_was_assigned_to_klamm_is_not_waited_for() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    let node = br#"{"version":1,"partitions":{"0":[1,9]}}"#;
    world.zookeeper.poke("/brokers/topics/ours", node);
    let state = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/ours/partitions/0/state", state);
    // Before anybody leads: later it would be moved to a broker first.
    mark(&world, "ours");
    world.start_klamm();
    world.settle();
    assert_eq!(traces(&world, "ours"), [""; 0]);
}

#[test]
fn a_clean_up_that_zookeeper_refuses_is_said_and_tried_again() {
    let mut world = led();
    world.pause(3);
    mark(&world, "u");
    world.settle();
    let faults = world.klamm().faults();
    faults.at_next(Call::Write, Fault::Refused("for a test"));
    world.resume(3);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert!(world.topic("u").is_some());
    world.advance(61_000);
    assert_eq!(traces(&world, "u"), [""; 0]);
}

#[test]
fn a_request_that_no_watch_told_of_is_found_by_the_sweep() {
    let mut world = led();
    mark(&world, "t");
    world.klamm().queue.forget();
    world.settle();
    assert!(world.topic("t").is_some());
    world
        .klamm()
        .queue
        .put(ControllerEvent::AntiEntropy(klamm::event::Sweep::Begin));
    world.settle();
    assert_eq!(traces(&world, "t"), [""; 0]);
}

#[test]
fn many_topics_are_deleted_in_one_go() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let names: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    for name in &names {
        world.create_topic(name, &[&[1, 2], &[2, 3]]);
    }
    world.settle();
    world.told();
    for name in &names {
        mark(&world, name);
    }
    world.settle();
    for name in &names {
        assert_eq!(traces(&world, name), [""; 0]);
    }
    let told = world.told().len();
    assert!(told <= 12, "{told} kinds of requests for one wave");
}
