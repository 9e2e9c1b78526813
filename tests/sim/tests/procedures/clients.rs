//! What all requests of clients have in common: how long they may be, and what those cost that wait.

use klamm::effect::{Answer, ReplyTo};
use klamm::event::{ControllerEvent, ElectionType, FeatureUpdate, UpgradeType};
use klamm::model::{KafkaError, TopicName, TopicPartition};
use klamm_sim::world::World;

use crate::{create_topics, delete_topics};

const PATIENCE_MS: i32 = 30_000;

fn put(world: &mut World, event: impl FnOnce(ReplyTo) -> ControllerEvent) -> Answer {
    let reply_to = world.klamm().open_slot();
    world.klamm().queue.put(event(reply_to));
    world.settle();
    world.answer_to(reply_to)
}

#[test]
fn a_request_that_names_more_than_any_cluster_has_is_refused_whole() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let refused = KafkaError::INVALID_REQUEST;
    let t = TopicName::new("t");
    let many = || (0..=200_000).map(|index| TopicPartition::new(&t, index));

    let partitions = Some(many().collect());
    let elected = put(&mut world, |reply_to| ControllerEvent::ElectLeaders {
        partitions,
        election: ElectionType::Preferred,
        timeout_ms: 30_000,
        reply_to,
    });
    assert_eq!(elected, Answer::ElectLeaders(Err(refused)));
    let targets = many().map(|at| (at, None)).collect();
    let altered = put(&mut world, |reply_to| {
        ControllerEvent::AlterPartitionReassignments { targets, reply_to }
    });
    assert_eq!(altered, Answer::AlterPartitionReassignments(Err(refused)));
    let partitions = Some(many().collect());
    let listed = put(&mut world, |reply_to| {
        ControllerEvent::ListPartitionReassignments {
            partitions,
            reply_to,
        }
    });
    assert_eq!(listed, Answer::ListPartitionReassignments(Err(refused)));

    let topics = vec![delete_topics::named("t"); 20_001];
    let slot = delete_topics::ask(&mut world, &topics, PATIENCE_MS);
    world.settle();
    let deleted = world.answer_to(slot);
    assert_eq!(deleted, Answer::DeleteTopics(Err(refused)));
    assert!(world.topic("t").is_some());

    let update = FeatureUpdate {
        feature: "f".to_owned(),
        level: 1,
        upgrade_type: UpgradeType::Upgrade,
    };
    let updates = vec![update; 1_001];
    let updated = put(&mut world, |reply_to| ControllerEvent::UpdateFeatures {
        updates,
        reply_to,
    });
    match updated {
        Answer::UpdateFeatures(Err(why)) => assert_eq!(why.error, refused),
        other => panic!("{other:?}"),
    }
}

#[test]
fn partitions_of_the_largest_cluster_can_be_named_at_once() {
    let mut world = World::led(&[1, 2], "3.9");
    let t = TopicName::new("t");
    let many = (0..200_000).map(|index| TopicPartition::new(&t, index));
    let partitions = Some(many.collect());
    let elected = put(&mut world, |reply_to| ControllerEvent::ElectLeaders {
        partitions,
        election: ElectionType::Preferred,
        timeout_ms: 30_000,
        reply_to,
    });
    match elected {
        Answer::ElectLeaders(Ok(each)) => assert_eq!(each.len(), 200_000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_is_answered_at_once_leaves_no_timer_behind() {
    let mut world = World::led(&[1, 2], "3.9");
    let slots = [
        delete_topics::ask(&mut world, &[delete_topics::named("t")], i32::MAX),
        create_topics::ask(&mut world, &[create_topics::topic("t", 1, 9)], i32::MAX),
    ];
    assert!(world.step() && world.step());
    for slot in slots {
        world.answer_to(slot);
    }
    let due = ControllerEvent::AnswerDue;
    assert_eq!(world.klamm().queue.timers_of(&due), 0);
}

#[test]
fn a_request_for_many_topics_that_one_broker_does_not_hear_of_waits_by_a_few_timers() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
    let topics: Vec<_> = names
        .iter()
        .map(|name| create_topics::topic(name, 1, 1))
        .collect();
    let created = create_topics::ask(&mut world, &topics, i32::MAX);
    world.settle();
    let due = ControllerEvent::AnswerDue;
    assert_eq!(world.klamm().replies.answer_to(created), None);
    assert!(world.klamm().queue.timers_of(&due) <= 2);
    world.advance(1_000);
    let said = world.answer_to(created);
    assert!(matches!(said, Answer::CreateTopics(Ok(each)) if each.len() == 50));

    let topics: Vec<_> = names
        .iter()
        .map(|name| delete_topics::named(name))
        .collect();
    let deleted = delete_topics::ask(&mut world, &topics, i32::MAX);
    world.settle();
    assert_eq!(world.klamm().replies.answer_to(deleted), None);
    assert!(world.klamm().queue.timers_of(&due) <= 3);
    world.advance(1_000);
    let said = world.answer_to(deleted);
    assert!(matches!(said, Answer::DeleteTopics(Ok(each)) if each.len() == 50));
    world.advance(120_000);
    assert_eq!(world.klamm().queue.timers_of(&due), 0);
}
