//! CreatePartitions: the node, the leaders, the answer and when it comes; upstream's `AddPartitionsTest`.

use klamm::effect::{Answer, GrownTopic, ReplyTo};
use klamm::event::{ControllerEvent, CreatePartitionsRequest, MorePartitions};
use klamm::model::{BrokerId, KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, anonymous};

const PATIENCE_MS: i32 = 30_000;

pub(crate) fn to(topic: &str, count: i32) -> MorePartitions {
    MorePartitions {
        topic: TopicName::new(topic),
        count,
        assignments: None,
    }
}

fn chosen(topic: &str, count: i32, lists: &[&[i32]]) -> MorePartitions {
    let list = |ids: &&[i32]| ids.iter().copied().map(BrokerId).collect();
    MorePartitions {
        assignments: Some(lists.iter().map(list).collect()),
        ..to(topic, count)
    }
}

pub(crate) fn send(
    world: &mut World,
    topics: &[MorePartitions],
    timeout_ms: i32,
    validate_only: bool,
) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let request = CreatePartitionsRequest {
        topics: topics.to_vec(),
        timeout_ms,
        validate_only,
    };
    let event = ControllerEvent::CreatePartitions {
        request,
        claimant: anonymous(),
        reply_to,
    };
    world.klamm().queue.put(event);
    reply_to
}

fn grow(world: &mut World, topics: &[MorePartitions]) -> ReplyTo {
    let slot = send(world, topics, PATIENCE_MS, false);
    world.settle();
    slot
}

fn answered(world: &mut World, slot: ReplyTo) -> Result<Vec<GrownTopic>, KafkaError> {
    match world.answer_to(slot) {
        Answer::CreatePartitions(answer) => answer,
        other => panic!("another answer: {other:?}"),
    }
}

/// `t ok`, `u INVALID_PARTITIONS(37)` …
fn said(world: &mut World, slot: ReplyTo) -> Vec<String> {
    let answer = answered(world, slot).unwrap();
    let line = |(topic, result): GrownTopic| match result {
        Ok(()) => format!("{topic} ok"),
        Err(refused) => format!("{topic} {}", refused.error),
    };
    answer.into_iter().map(line).collect()
}

fn led(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[2, 3]]);
    world.create_topic("u", &[&[3, 1], &[1, 2]]);
    world.settle();
    world.told();
    world
}

#[test]
fn topics_grow_and_new_partitions_are_led_and_known_before_the_client_hears_of_it() {
    for release in ["1.0", "2.4", "2.8", "3.9"] {
        let mut world = led(release);
        let before = world.topic("t").unwrap();
        let slot = grow(&mut world, &[to("t", 4), chosen("u", 3, &[&[3, 2]])]);
        assert_eq!(said(&mut world, slot), ["t ok", "u ok"], "{release}");
        let after = world.topic("t").unwrap();
        assert_eq!(after.topic_id, before.topic_id);
        assert_eq!(after.partitions[&0], before.partitions[&0]);
        let leaders: Vec<i32> = (0..4)
            .map(|index| world.assigned(&format!("t-{index}"))[0])
            .collect();
        assert_eq!(leaders, [2, 3, 1, 2], "{release}");
        for at in ["t-1", "t-2", "t-3", "u-2"] {
            let replicas = world.assigned(at);
            assert_eq!(replicas.len(), 2);
            let leader = world.state(at).unwrap().leader_and_isr.leader;
            assert_eq!(leader, BrokerId(replicas[0]));
            assert!(
                [1, 2, 3]
                    .iter()
                    .all(|id| world.cached_at(*id, at).is_some())
            );
        }
        assert_eq!(world.assigned("u-2"), [3, 2]);
        world.assert_converged();
    }
}

#[test]
fn what_is_refused_costs_only_itself() {
    let mut world = led("3.9");
    let slot = grow(
        &mut world,
        &[
            to("t", 1),
            to("nothing", 3),
            to("a/b", 3),
            to("twice", 3),
            to("u", 3),
            to("twice", 4),
        ],
    );
    assert_eq!(
        said(&mut world, slot),
        [
            "t INVALID_PARTITIONS(37)",
            "nothing UNKNOWN_TOPIC_OR_PARTITION(3)",
            "a/b UNKNOWN_TOPIC_OR_PARTITION(3)",
            "twice INVALID_REQUEST(42)",
            "u ok"
        ]
    );
    let slot = grow(
        &mut world,
        &[chosen("t", 2, &[&[1, 9]]), chosen("u", 4, &[&[1]])],
    );
    assert_eq!(
        said(&mut world, slot),
        [
            "t INVALID_REPLICA_ASSIGNMENT(39)",
            "u INVALID_REPLICA_ASSIGNMENT(39)"
        ]
    );
    assert_eq!(world.topic("t").unwrap().partitions.len(), 1);
}

#[test]
fn a_mere_question_changes_nothing() {
    let mut world = led("3.9");
    let before = world.zookeeper.dump();
    let slot = send(&mut world, &[to("t", 3), to("u", 2)], 0, true);
    world.settle();
    assert_eq!(said(&mut world, slot), ["t ok", "u INVALID_PARTITIONS(37)"]);
    assert_eq!(world.zookeeper.dump(), before);
}

#[test]
fn a_topic_that_is_deleted_or_moves_does_not_grow() {
    let mut world = led("3.9");
    world.kill(3);
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.zookeeper.poke(
        "/admin/reassign_partitions",
        br#"{"version":1,"partitions":[{"topic":"u","partition":1,"replicas":[1,3]}]}"#,
    );
    world.settle();
    let slot = grow(&mut world, &[to("t", 3), to("u", 3)]);
    let moving = world.klamm().context().partitions_being_reassigned().len();
    assert_eq!(moving, 1, "broker 3 is down and can't catch up");
    assert_eq!(
        said(&mut world, slot),
        [
            "t INVALID_TOPIC_EXCEPTION(17)",
            "u REASSIGNMENT_IN_PROGRESS(60)"
        ]
    );
}

#[test]
fn a_topic_made_a_moment_ago_grows_as_well() {
    let mut world = led("3.9");
    world.create_topic("new", &[&[1, 2]]);
    let slot = send(&mut world, &[to("new", 2)], PATIENCE_MS, false);
    world.settle();
    assert_eq!(said(&mut world, slot), ["new ok"]);
    assert!(world.led_by("new-0").starts_with("leader 1 "));
    assert_ne!(world.led_by("new-1"), "none");
}

#[test]
fn what_a_tool_writes_in_the_same_moment_is_not_undone() {
    let mut world = led("3.9");
    let theirs = Fault::meanwhile(|zookeeper| {
        let node = zookeeper.look("/brokers/topics/u").unwrap();
        let text = String::from_utf8(node.data().to_vec()).unwrap();
        let grown = text.replace(r#""1":[1,2]"#, r#""1":[1,2],"2":[2,3]"#);
        assert_ne!(grown, text);
        zookeeper.poke("/brokers/topics/u", grown.as_bytes());
    });
    world.klamm().faults().at_next(Call::Write, theirs);
    let slot = grow(&mut world, &[to("u", 4)]);
    assert_eq!(said(&mut world, slot), ["u ok"]);
    assert_eq!(world.assigned("u-2"), [2, 3]);
    assert_eq!(world.topic("u").unwrap().partitions.len(), 4);
    world.assert_converged();
}

#[test]
fn a_broker_that_hangs_holds_growth_up_for_one_second() {
    let mut world = led("3.9");
    world.pause(1);
    let slot = grow(&mut world, &[to("t", 2)]);
    assert_eq!(world.klamm().replies.answer_to(slot), None);
    world.advance(1_000);
    assert_eq!(said(&mut world, slot), ["t ok"]);
}

#[test]
fn a_partition_that_was_leaderless_before_holds_nobody_up() {
    let mut world = led("3.9");
    world.create_topic("half", &[&[3], &[1]]);
    world.settle();
    world.kill(3);
    world.settle();
    let slot = grow(&mut world, &[chosen("half", 3, &[&[2]])]);
    assert_eq!(said(&mut world, slot), ["half ok"]);
}

#[test]
fn a_client_without_patience_is_told_at_once_and_the_partitions_are_there() {
    let mut world = led("3.9");
    let slot = send(&mut world, &[to("t", 3)], 0, false);
    assert!(world.klamm().step());
    assert_eq!(said(&mut world, slot), ["t REQUEST_TIMED_OUT(7)"]);
    world.settle();
    assert_ne!(world.led_by("t-2"), "none");
    world.assert_converged();
}

#[test]
fn who_waits_when_the_role_is_lost_is_sent_to_the_next_controller() {
    let mut world = led("3.9");
    world.pause(1);
    let slot = grow(&mut world, &[to("t", 2)]);
    world.klamm().expire_session();
    world.settle();
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
}

#[test]
fn a_request_that_is_fenced_changes_nothing() {
    let mut world = led("3.9");
    let another_term = Fault::meanwhile(|zookeeper| {
        zookeeper.poke("/controller_epoch", b"77");
    });
    world.klamm().faults().at_next(Call::Write, another_term);
    let slot = grow(&mut world, &[to("t", 2)]);
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    assert_eq!(world.topic("t").unwrap().partitions.len(), 1);
}
