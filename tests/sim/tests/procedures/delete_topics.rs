//! DeleteTopics: the marker, the answer and when it comes; upstream's `DeleteTopicsRequestTest`.

use klamm::controller::ControllerSettings;
use klamm::effect::{Answer, DeletedTopic, ReplyTo, TopicReference};
use klamm::event::ControllerEvent;
use klamm::model::{ControllerEpoch, KafkaError, TopicId, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, anonymous};

const PATIENCE_MS: i32 = 30_000;

pub(crate) fn named(topic: &str) -> TopicReference {
    TopicReference::Name(TopicName::new(topic))
}

pub(crate) fn ask(world: &mut World, topics: &[TopicReference], timeout_ms: i32) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    world.klamm().queue.put(ControllerEvent::DeleteTopics {
        topics: topics.to_vec(),
        timeout_ms,
        claimant: anonymous(),
        reply_to,
    });
    reply_to
}

fn delete(world: &mut World, topics: &[TopicReference], timeout_ms: i32) -> ReplyTo {
    let slot = ask(world, topics, timeout_ms);
    world.settle();
    slot
}

fn answered(world: &mut World, slot: ReplyTo) -> Result<Vec<DeletedTopic>, KafkaError> {
    match world.answer_to(slot) {
        Answer::DeleteTopics(answer) => answer,
        other => panic!("another answer: {other:?}"),
    }
}

/// `t ok`, `u UNKNOWN_TOPIC_OR_PARTITION(3)` …
fn said(world: &mut World, slot: ReplyTo) -> Vec<String> {
    let answer = answered(world, slot).unwrap();
    let line = |topic: DeletedTopic| {
        let name = topic.name.map(|name| name.to_string());
        let result = match topic.result {
            Ok(()) => "ok".to_owned(),
            Err(refused) => refused.error.to_string(),
        };
        format!("{} {result}", name.as_deref().unwrap_or("?"))
    };
    answer.into_iter().map(line).collect()
}

fn led(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.create_topic("u", &[&[3, 1]]);
    world.settle();
    world.told();
    world
}

fn markers(world: &World) -> Vec<String> {
    world.zookeeper.look_children("/admin/delete_topics")
}

#[test]
fn topics_are_deleted_by_name_and_the_client_hears_of_each() {
    let mut world = led("2.4");
    let slot = delete(
        &mut world,
        &[named("t"), named("nothing"), named("u")],
        PATIENCE_MS,
    );
    assert_eq!(
        said(&mut world, slot),
        ["t ok", "nothing UNKNOWN_TOPIC_OR_PARTITION(3)", "u ok"]
    );
    assert!(world.topic("t").is_none() && world.topic("u").is_none());
    assert_eq!(markers(&world), [""; 0]);
    world.assert_converged();
}

#[test]
fn topics_are_deleted_by_id() {
    let mut world = led("3.9");
    let id = world
        .klamm()
        .context()
        .topic(&TopicName::new("t"))
        .and_then(|topic| topic.id)
        .unwrap();
    let stranger = TopicId::new([7; 16]).unwrap();
    let asked = [TopicReference::Id(id), TopicReference::Id(stranger)];
    let slot = delete(&mut world, &asked, PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["t ok", "? UNKNOWN_TOPIC_ID(100)"]);
    let ids = answered(&mut world, slot).unwrap();
    assert_eq!(
        ids.iter().map(|topic| topic.topic_id).collect::<Vec<_>>(),
        [Some(id), Some(stranger)]
    );
    assert!(world.topic("t").is_none());
}

#[test]
fn a_topic_made_a_moment_ago_is_known() {
    let mut world = led("3.9");
    world.create_topic("new", &[&[1, 2]]);
    let slot = ask(&mut world, &[named("new")], PATIENCE_MS);
    world.settle();
    assert_eq!(said(&mut world, slot), ["new ok"]);
    assert!(world.topic("new").is_none());
}

#[test]
fn the_client_is_answered_when_no_client_finds_the_topic_not_when_its_logs_are_gone() {
    let mut world = led("3.9");
    world.kill(2);
    world.settle();
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["t ok"]);
    assert!(world.topic("t").is_some(), "broker 2 still has its logs");
    // Whoever asks again meanwhile is answered as well.
    let again = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(said(&mut world, again), ["t ok"]);
    world.start_broker(2);
    world.settle();
    assert!(world.topic("t").is_none());
}

/// Upstream: `testTopicDeletionClusterHasOfflinePartitions`.
#[test]
fn a_topic_whose_only_broker_is_dead_is_gone_for_every_client_at_once() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("dead", &[&[1]]);
    world.create_topic("alive", &[&[2]]);
    world.settle();
    world.kill(1);
    world.settle();
    assert!(world.led_by("dead-0").starts_with("leader -1 "));
    let slot = delete(&mut world, &[named("dead"), named("alive")], PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["dead ok", "alive ok"]);
    let known_at = |world: &World, id| {
        let known = ["dead-0", "alive-0"].map(|of| world.cached_at(id, of).is_some());
        known.contains(&true)
    };
    assert!(!known_at(&world, 2) && !known_at(&world, 3));
    assert!(world.topic("dead").is_some() && world.topic("alive").is_none());
    world.start_broker(1);
    world.settle();
    assert!(world.topic("dead").is_none());
    assert!(!known_at(&world, 1) && !known_at(&world, 2) && !known_at(&world, 3));
    assert!(world.broker(1, |broker| broker.logs.is_empty()));
    assert_eq!(markers(&world), [""; 0]);
}

#[test]
fn a_client_without_patience_is_told_at_once_and_the_deletion_goes_on() {
    let mut world = led("3.9");
    let why = "a partition is being reassigned";
    let name = TopicName::new("t");
    halt_by_reassignment(&mut world);
    for timeout_ms in [0, -1] {
        let slot = delete(&mut world, &[named("t"), named("nothing")], timeout_ms);
        let answer = answered(&mut world, slot).unwrap();
        let refused = answer[0].result.clone().unwrap_err();
        assert_eq!(refused.error, KafkaError::REQUEST_TIMED_OUT);
        assert!(refused.message.contains(why), "{}", refused.message);
        let unknown = answer[1].result.clone().unwrap_err();
        assert_eq!(unknown.error, KafkaError::UNKNOWN_TOPIC_OR_PARTITION);
    }
    assert!(world.klamm().context().is_queued_for_deletion(&name));
}

#[test]
fn a_client_is_told_when_its_patience_is_over() {
    let mut world = led("3.9");
    halt_by_reassignment(&mut world);
    let slot = delete(&mut world, &[named("t"), named("u")], 5_000);
    world.advance(4_900);
    assert_eq!(world.klamm().replies.answer_to(slot), None);
    world.advance(200);
    assert_eq!(
        said(&mut world, slot),
        ["t REQUEST_TIMED_OUT(7)", "u ok"],
        "one that is done is not said to wait"
    );
}

/// What was announced is not taken for acknowledged because another topic of the request still waits.
#[test]
fn each_topic_of_a_request_is_answered_for_itself() {
    let mut world = led("3.9");
    halt_by_reassignment(&mut world);
    for id in [1, 2, 3] {
        world.pause(id);
    }
    let slot = delete(&mut world, &[named("t"), named("u")], 5_000);
    world.advance(5_100);
    assert_eq!(
        said(&mut world, slot),
        ["t REQUEST_TIMED_OUT(7)", "u REQUEST_TIMED_OUT(7)"]
    );
    for id in [1, 2, 3] {
        world.resume(id);
    }
    world.settle();
    assert!(world.topic("u").is_none());
}

/// A reassignment of t-0 to a broker that is away: a deletion of the topic waits for it.
fn halt_by_reassignment(world: &mut World) {
    world.zookeeper.poke(
        "/brokers/topics/t",
        br#"{"version":3,"partitions":{"0":[1,2,3,4],"1":[2,3,1]},"adding_replicas":{"0":[4]},"removing_replicas":{}}"#,
    );
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    world.settle();
    world.told();
}

#[test]
fn where_deletion_is_disabled_clients_are_told_so() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.start_klamm_with(ControllerSettings {
        delete_topic_enable: false,
        ..World::settings()
    });
    world.settle();
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["t TOPIC_DELETION_DISABLED(73)"]);
    assert_eq!(markers(&world), [""; 0]);
    assert!(world.topic("t").is_some());
}

#[test]
fn a_klamm_out_of_office_sends_clients_to_the_controller() {
    let mut world = led("3.9");
    world.klamm().expire_session();
    let slot = ask(&mut world, &[named("t")], PATIENCE_MS);
    // The expiry, and what was asked behind it.
    assert!(world.step() && world.step());
    assert_eq!(
        answered(&mut world, slot),
        Err(KafkaError::NOT_CONTROLLER),
        "while the session is lost"
    );
    world.settle();
    assert!(world.topic("t").is_some());
}

#[test]
fn who_waits_when_the_role_is_lost_is_sent_to_the_next_controller() {
    let mut world = led("3.9");
    halt_by_reassignment(&mut world);
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(world.klamm().replies.answer_to(slot), None);
    world.klamm().expire_session();
    world.settle();
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    assert_eq!(markers(&world), ["t"], "the request outlives the term");
}

#[test]
fn a_request_that_is_fenced_begins_no_deletion() {
    let mut world = led("3.9");
    let another_term = Fault::meanwhile(|zookeeper| {
        zookeeper.poke("/controller_epoch", b"77");
    });
    world.klamm().faults().at_next(Call::Write, another_term);
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    let epoch = world.klamm().context().term().map(|term| term.epoch);
    assert_ne!(epoch, Some(ControllerEpoch(1)));
    assert_eq!(markers(&world), [""; 0]);
    assert!(world.topic("t").is_some());
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}

#[test]
fn a_lost_answer_of_zookeeper_costs_nothing() {
    for fault in [Fault::LossBefore, Fault::LossAfter] {
        let mut world = led("3.9");
        world.klamm().faults().at_next(Call::Write, fault);
        let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
        assert_eq!(said(&mut world, slot), ["t ok"]);
        assert!(world.topic("t").is_none());
        world.assert_converged();
    }
}

#[test]
fn what_zookeeper_refuses_is_told_and_costs_only_itself() {
    let mut world = led("3.9");
    world
        .klamm()
        .faults()
        .at_next(Call::Write, Fault::Refused("NoAuth"));
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["t UNKNOWN_SERVER_ERROR(-1)"]);
    let slot = delete(&mut world, &[named("t")], PATIENCE_MS);
    assert_eq!(said(&mut world, slot), ["t ok"]);
}

/// As for topics that are created: a client asks any broker next.
#[test]
fn a_client_hears_that_a_topic_is_gone_when_brokers_have_forgotten_it() {
    let mut world = led("3.9");
    world.pause(2);
    let slot = delete(&mut world, &[named("u")], PATIENCE_MS);
    // Brokers 1 and 3 have forgotten it; broker 2 hangs, and gets a second.
    assert!(world.klamm().replies.answer_to(slot).is_none());
    world.advance(900);
    assert!(world.klamm().replies.answer_to(slot).is_none());
    world.advance(200);
    assert_eq!(said(&mut world, slot), ["u ok"]);

    for id in [1, 3] {
        world.pause(id);
    }
    let slot = delete(&mut world, &[named("t")], 5_000);
    world.advance(4_900);
    assert!(world.klamm().replies.answer_to(slot).is_none());
    world.advance(200);
    assert_eq!(said(&mut world, slot), ["t REQUEST_TIMED_OUT(7)"]);
    for id in [1, 2, 3] {
        world.resume(id);
    }
    world.settle();
    assert!(world.topic("t").is_none());
    world.assert_converged();
}
