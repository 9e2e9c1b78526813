//! `/feature`, producer ids and UpdateFeatures.

use klamm::effect::{Answer, ProducerIdBlock};
use klamm::event::{ControllerEvent, FeatureUpdate, UpgradeType};
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

/// Asks for changes of features; what was answered.
fn update(world: &mut World, updates: &[(&str, i16, UpgradeType)]) -> Answer {
    let updates = updates
        .iter()
        .map(|(feature, level, upgrade_type)| FeatureUpdate {
            feature: (*feature).to_owned(),
            level: *level,
            upgrade_type: *upgrade_type,
        });
    let (updates, reply_to) = (updates.collect(), world.klamm().open_slot());
    let event = ControllerEvent::UpdateFeatures { updates, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    world.answer_to(reply_to)
}

/// A line a feature: `f ok`, `g 42`; or the code of the whole.
fn answers(answer: Answer) -> Vec<String> {
    match answer {
        Answer::UpdateFeatures(Ok(results)) => results
            .into_iter()
            .map(|(feature, result)| match result {
                Ok(()) => format!("{feature} ok"),
                Err(why) => format!("{feature} {}", why.error.0),
            })
            .collect(),
        Answer::UpdateFeatures(Err(why)) => vec![why.error.0.to_string()],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_finalized_feature_can_be_taken_out_and_brokers_that_lacked_it_come_in() {
    let mut world = with_feature("2.7", Some(ENABLED));
    world.create_topic("t", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
    let asked = [
        ("new", 1, UpgradeType::Upgrade),
        ("f", 0, UpgradeType::SafeDowngrade),
    ];
    let answer = update(&mut world, &asked);
    assert_eq!(answers(answer), ["new 42", "f ok"]);
    let node = world.zookeeper.look("/feature").unwrap();
    assert_eq!(node.text(), r#"{"version":1,"status":1,"features":{}}"#);
    assert_eq!(node.stat().version, 1, "it is never deleted");
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
}

#[test]
fn no_feature_is_ever_finalized() {
    let mut world = World::led(&[1, 2], "3.9");
    let before = world.zookeeper.look("/feature").unwrap().text();
    for upgrade_type in [
        UpgradeType::Upgrade,
        UpgradeType::SafeDowngrade,
        UpgradeType::UnsafeDowngrade,
        UpgradeType::Unknown,
    ] {
        let asked = [
            ("metadata.version", 1, upgrade_type),
            ("x", 0, upgrade_type),
        ];
        let answer = update(&mut world, &asked);
        assert_eq!(answers(answer), ["metadata.version 42", "x 42"]);
    }
    assert_eq!(world.zookeeper.look("/feature").unwrap().text(), before);
    let mut older = World::led(&[1, 2], "2.6");
    let answer = update(&mut older, &[("f", 1, UpgradeType::Upgrade)]);
    assert_eq!(answers(answer), ["42"]);
    assert!(older.zookeeper.look("/feature").is_none());
}

#[test]
fn an_update_of_features_is_answered_whatever_becomes_of_it() {
    let asked = [("f", 0, UpgradeType::SafeDowngrade)];
    // Refused.
    let mut world = with_feature("2.7", Some(ENABLED));
    let refused = Fault::Refused("for a test");
    world.klamm().faults().at_next(Call::Write, refused);
    assert_eq!(answers(update(&mut world, &asked)), ["96"]);
    // Changed by somebody in the same moment.
    let meanwhile = Fault::meanwhile(|zookeeper| zookeeper.poke("/feature", ENABLED.as_bytes()));
    world.klamm().faults().at_next(Call::Write, meanwhile);
    assert_eq!(answers(update(&mut world, &asked)), ["f ok"]);
    // The role is lost.
    let mut world = with_feature("2.7", Some(ENABLED));
    let seized = Fault::meanwhile(|zookeeper| {
        klamm_sim::world::seize_role(zookeeper, klamm::model::BrokerId(1));
    });
    world.klamm().faults().at_next(Call::Write, seized);
    assert_eq!(answers(update(&mut world, &asked)), ["41"]);
    assert_eq!(answers(update(&mut world, &asked)), ["41"]);
    let node = world.zookeeper.look("/feature").unwrap();
    assert_eq!(node.text(), ENABLED);
    // The queue is cleared.
    let (updates, reply_to) = (Vec::new(), world.klamm().open_slot());
    let event = ControllerEvent::UpdateFeatures { updates, reply_to };
    world.klamm().queue.put(event);
    world.klamm().expire_session();
    assert_eq!(answers(world.answer_to(reply_to)), ["41"]);
}
