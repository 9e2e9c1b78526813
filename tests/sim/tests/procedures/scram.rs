//! AlterUserScramCredentials: what stands in the users' configurations, who hears of it, and what a client is answered.

use klamm::effect::{Answer, ReplyTo};
use klamm::event::{ControllerEvent, ScramAlteration, ScramChange};
use klamm::model::{KafkaError, ScramCredential};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

const ALICE: &str = "/config/users/alice";
const CHANGES: &str = "/config/changes";

fn delete(user: &str, mechanism: i8) -> ScramAlteration {
    ScramAlteration {
        user: user.to_owned(),
        mechanism,
        change: ScramChange::Delete,
    }
}

pub(crate) fn upsert(user: &str, mechanism: i8) -> ScramAlteration {
    let text = format!("credential {mechanism}");
    ScramAlteration {
        change: ScramChange::Upsert {
            iterations: 4096,
            credential: Some(ScramCredential::new(text)),
        },
        ..delete(user, mechanism)
    }
}

pub(crate) fn send(world: &mut World, alterations: &[ScramAlteration]) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let alterations = alterations.to_vec();
    let event = ControllerEvent::AlterUserScramCredentials {
        alterations,
        reply_to,
    };
    world.klamm().queue.put(event);
    reply_to
}

fn ask(world: &mut World, alterations: &[ScramAlteration]) -> ReplyTo {
    let reply_to = send(world, alterations);
    world.settle();
    reply_to
}

/// `alice ok`, `bob RESOURCE_NOT_FOUND(91)`; or the error of the whole.
fn said(world: &mut World, slot: ReplyTo) -> Vec<String> {
    let results = match world.answer_to(slot) {
        Answer::AlterUserScramCredentials(Ok(results)) => results,
        Answer::AlterUserScramCredentials(Err(error)) => return vec![error.to_string()],
        other => panic!("another answer: {other:?}"),
    };
    let line = |(user, result): (String, Result<(), klamm::model::ApiError>)| match result {
        Ok(()) => format!("{user} ok"),
        Err(refused) => format!("{user} {}", refused.error),
    };
    results.into_iter().map(line).collect()
}

fn altered(world: &mut World, alterations: &[ScramAlteration]) -> Vec<String> {
    let slot = ask(world, alterations);
    said(world, slot)
}

fn text_of(world: &World, path: &str) -> String {
    world.zookeeper.look(path).unwrap().text()
}

/// The notices, in the order in which they were written.
pub(crate) fn notices(world: &World) -> Vec<String> {
    let mut names = world.zookeeper.look_children(CHANGES);
    names.sort();
    let names = names.iter();
    names
        .map(|name| text_of(world, &format!("{CHANGES}/{name}")))
        .collect()
}

#[test]
fn credentials_are_written_beside_what_stands_there_and_brokers_are_told_where_to_look() {
    let mut world = World::led(&[1, 2], "3.9");
    let quota = br#"{"version":1,"config":{"producer_byte_rate":"5"}}"#;
    world.zookeeper.poke(ALICE, quota);
    let answer = altered(
        &mut world,
        &[upsert("alice", 1), upsert("alice", 2), upsert("b c", 1)],
    );
    assert_eq!(answer, ["alice ok", "b c ok"]);
    assert_eq!(
        text_of(&world, ALICE),
        r#"{"version":1,"config":{"SCRAM-SHA-256":"credential 1","SCRAM-SHA-512":"credential 2","producer_byte_rate":"5"}}"#
    );
    assert_eq!(
        text_of(&world, "/config/users/b%20c"),
        r#"{"version":1,"config":{"SCRAM-SHA-256":"credential 1"}}"#
    );
    assert_eq!(
        notices(&world),
        [
            r#"{"version":2,"entity_path":"users/alice"}"#,
            r#"{"version":2,"entity_path":"users/b%20c"}"#,
        ]
    );

    let answer = altered(&mut world, &[delete("alice", 1), delete("alice", 2)]);
    assert_eq!(answer, ["alice ok"]);
    assert_eq!(text_of(&world, ALICE).as_bytes(), quota);
    assert_eq!(notices(&world).len(), 3);
}

#[test]
fn who_is_refused_costs_nobody_else_and_nothing_is_written_for_him() {
    let mut world = World::led(&[1], "2.8");
    world.zookeeper.poke("/config/users/broken", b"{");
    world
        .zookeeper
        .poke("/config/users/odd", br#"{"config":{"x":5}}"#);
    let answer = altered(
        &mut world,
        &[
            delete("nobody", 1),
            upsert("nobody", 2),
            upsert("broken", 1),
            upsert("odd", 1),
            upsert("twice", 1),
            upsert("twice", 1),
            upsert("other", 7),
            upsert("alice", 1),
        ],
    );
    assert_eq!(
        answer,
        [
            "nobody RESOURCE_NOT_FOUND(91)",
            "broken UNKNOWN_SERVER_ERROR(-1)",
            "odd UNKNOWN_SERVER_ERROR(-1)",
            "twice DUPLICATE_RESOURCE(92)",
            "other UNSUPPORTED_SASL_MECHANISM(33)",
            "alice ok",
        ]
    );
    let mut users = world.zookeeper.look_children("/config/users");
    users.sort();
    assert_eq!(users, ["alice", "broken", "odd"]);
    assert_eq!(text_of(&world, "/config/users/broken"), "{");
    assert_eq!(notices(&world).len(), 1);
}

#[test]
fn what_others_write_meanwhile_is_kept() {
    let quota = br#"{"version":1,"config":{"consumer_byte_rate":"7"}}"#;
    for stood_there in [true, false] {
        let mut world = World::led(&[1], "3.9");
        if stood_there {
            world.zookeeper.poke(ALICE, br#"{"version":1,"config":{}}"#);
        }
        let write = Fault::meanwhile(move |zookeeper| zookeeper.poke(ALICE, quota));
        world.klamm().faults().at_next(Call::Write, write);
        assert_eq!(altered(&mut world, &[upsert("alice", 1)]), ["alice ok"]);
        assert_eq!(
            text_of(&world, ALICE),
            r#"{"version":1,"config":{"SCRAM-SHA-256":"credential 1","consumer_byte_rate":"7"}}"#,
            "stood there: {stood_there}"
        );
        assert_eq!(notices(&world).len(), 1);
    }
}

#[test]
fn a_lost_answer_of_zookeeper_costs_nothing_and_one_notice_is_left() {
    for fault in [Fault::LossBefore, Fault::LossAfter] {
        let mut world = World::led(&[1], "3.9");
        world.klamm().faults().at_next(Call::Write, fault);
        assert_eq!(altered(&mut world, &[upsert("alice", 1)]), ["alice ok"]);
        assert_eq!(notices(&world).len(), 1);
    }
}

#[test]
fn a_klamm_that_is_deposed_sends_the_client_to_the_next_controller_and_writes_nothing() {
    let mut world = World::led(&[1, 2], "3.9");
    world.java_takes_role(2);
    world.klamm().queue.lose_events();
    let slot = ask(&mut world, &[upsert("alice", 1)]);
    let not_controller = KafkaError::NOT_CONTROLLER.to_string();
    assert_eq!(said(&mut world, slot), [not_controller.as_str()]);
    assert!(world.zookeeper.look(ALICE).is_none());
    assert!(!world.klamm().is_active());
    // Also once it knows.
    let slot = ask(&mut world, &[upsert("alice", 1)]);
    assert_eq!(said(&mut world, slot), [not_controller.as_str()]);
}
