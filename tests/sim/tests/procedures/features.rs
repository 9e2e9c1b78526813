//! `/feature` and producer ids.

use klamm::effect::{Answer, ProducerIdBlock};
use klamm::event::ControllerEvent;
use klamm::model::KafkaError;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

const ENABLED: &str =
    r#"{"version":1,"status":1,"features":{"f":{"max_version_level":2,"min_version_level":1}}}"#;
const DISABLED: &str = r#"{"version":1,"status":0,"features":{}}"#;

fn with_feature(ibp: &str, content: Option<&str>) -> World {
    let mut world = World::empty();
    world.add_broker(1, "3.9", ibp);
    world.start_broker(1);
    if let Some(content) = content {
        world.zookeeper.poke("/feature", content.as_bytes());
    }
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
    world
}

#[test]
fn the_feature_node_follows_the_clusters_protocol() {
    let empty = "\"features\":{}";
    let cases = [
        ("2.7-IV0", None, "\"status\":1", empty, 0),
        ("2.7-IV0", Some(DISABLED), "\"status\":1", empty, 1),
        (
            "2.7-IV0",
            Some(ENABLED),
            "\"status\":1",
            "max_version_level\":2",
            0,
        ),
        ("2.6", Some(DISABLED), "\"status\":0", empty, 0),
        ("2.6", Some(ENABLED), "\"status\":0", empty, 1),
        ("3.9", None, "\"version\":2", empty, 0),
    ];
    for (ibp, before, status, features, version) in cases {
        let world = with_feature(ibp, before);
        let node = world.zookeeper.look("/feature").unwrap();
        let text = node.text();
        assert!(text.contains(status), "{ibp} {before:?}: {text}");
        assert!(text.contains(features), "{ibp} {before:?}: {text}");
        assert_eq!(node.stat().version, version, "{ibp} {before:?}");
    }
}

#[test]
fn a_cluster_that_does_not_know_the_feature_node_is_left_without_it() {
    let world = with_feature("2.6", None);
    assert!(world.zookeeper.look("/feature").is_none());
}

#[test]
fn a_feature_node_that_cant_be_read_is_left_and_costs_nothing_else() {
    let mut world = with_feature("2.8", Some("{"));
    world.create_topic("t", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
    assert_eq!(world.zookeeper.look("/feature").unwrap().text(), "{");
}

#[test]
fn a_broker_that_lacks_a_finalized_feature_is_kept_out() {
    let mut world = with_feature("2.7", Some(ENABLED));
    assert_eq!(world.klamm().channels.open(), []);
    world.create_topic("t", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
}

/// Asks for a block on behalf of broker 1.
fn ask(world: &mut World) -> Result<ProducerIdBlock, KafkaError> {
    let (from, reply_to) = (world.incarnation(1), world.klamm().open_slot());
    let event = ControllerEvent::AllocateProducerIds { from, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    match world.answer_to(reply_to) {
        Answer::AllocateProducerIds(block) => block,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_block_of_producer_ids_is_handed_out_once() {
    let mut world = World::led(&[1, 2], "3.9");
    assert_eq!(ask(&mut world).unwrap().first, 0);
    world
        .klamm()
        .faults()
        .at_next(Call::Write, Fault::LossAfter);
    assert_eq!(ask(&mut world).unwrap().first, 1000);
    world.klamm().faults().at_next(
        Call::Write,
        Fault::meanwhile(|zookeeper| {
            let theirs = br#"{"version":1,"broker":2,"block_start":"2000","block_end":"2999"}"#;
            zookeeper.poke("/latest_producer_id_block", theirs);
        }),
    );
    let block = ask(&mut world).unwrap();
    assert_eq!((block.first, block.last), (3000, 3999));
    world.klamm().expire_session();
    world.settle();
    assert_eq!(ask(&mut world).unwrap().first, 4000);
}

#[test]
fn a_block_that_cant_be_read_is_never_started_over() {
    let mut world = World::led(&[1], "3.9");
    world.zookeeper.poke("/latest_producer_id_block", b"{");
    assert!(ask(&mut world).is_err());
    let node = world.zookeeper.look("/latest_producer_id_block").unwrap();
    assert_eq!(node.text(), "{");
    world.zookeeper.uproot("/latest_producer_id_block");
    assert!(ask(&mut world).is_err());
    assert!(world.zookeeper.look("/latest_producer_id_block").is_none());
}

#[test]
fn one_who_is_not_the_controller_hands_out_nothing() {
    let mut world = World::led(&[1, 2], "3.9");
    world.java_takes_role(2);
    assert_eq!(ask(&mut world), Err(KafkaError::NOT_CONTROLLER));
    let node = world.zookeeper.look("/latest_producer_id_block").unwrap();
    assert_eq!(node.stat().version, 0);
}
