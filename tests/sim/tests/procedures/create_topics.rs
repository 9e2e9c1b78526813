//! CreateTopics: the nodes, the leaders, the answer and when it comes; upstream's `CreateTopicsRequestTest`.

use klamm::controller::ControllerSettings;
use klamm::effect::{Answer, CreatedTopic, ReplyTo};
use klamm::event::{ControllerEvent, CreateTopicsRequest, NewTopic};
use klamm::machine::topic_creation::TopicDefaults;
use klamm::model::topic_config::{BrokerProperties, ConfigSource};
use klamm::model::{BrokerId, KafkaError, TopicName};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, anonymous};

const PATIENCE_MS: i32 = 30_000;

pub(crate) fn topic(name: &str, partitions: i32, factor: i16) -> NewTopic {
    NewTopic {
        name: TopicName::new(name),
        num_partitions: Some(partitions),
        replication_factor: Some(factor),
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn assigned(name: &str, lists: &[&[i32]]) -> NewTopic {
    let list = |ids: &&[i32]| ids.iter().copied().map(BrokerId).collect();
    NewTopic {
        num_partitions: None,
        replication_factor: None,
        assignments: (0..).zip(lists.iter().map(list)).collect(),
        ..topic(name, 1, 1)
    }
}

pub(crate) fn ask(world: &mut World, topics: &[NewTopic], timeout_ms: i32) -> ReplyTo {
    send(world, topics, timeout_ms, false)
}

fn send(world: &mut World, topics: &[NewTopic], timeout_ms: i32, validate_only: bool) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let request = CreateTopicsRequest {
        topics: topics.to_vec(),
        timeout_ms,
        validate_only,
    };
    let event = ControllerEvent::CreateTopics {
        request,
        claimant: anonymous(),
        reply_to,
    };
    world.klamm().queue.put(event);
    reply_to
}

fn create(world: &mut World, topics: &[NewTopic]) -> ReplyTo {
    let slot = ask(world, topics, PATIENCE_MS);
    world.settle();
    slot
}

fn answered(world: &mut World, slot: ReplyTo) -> Result<Vec<CreatedTopic>, KafkaError> {
    match world.answer_to(slot) {
        Answer::CreateTopics(answer) => answer,
        other => panic!("another answer: {other:?}"),
    }
}

/// `t ok 2x3`, `u TOPIC_ALREADY_EXISTS(36)` …
fn said(world: &mut World, slot: ReplyTo) -> Vec<String> {
    let answer = answered(world, slot).unwrap();
    let line = |topic: CreatedTopic| match topic.result {
        Ok(details) => format!(
            "{} ok {}x{}",
            topic.name, details.num_partitions, details.replication_factor
        ),
        Err(refused) => format!("{} {}", topic.name, refused.error),
    };
    answer.into_iter().map(line).collect()
}

fn is_unanswered(world: &mut World, slot: ReplyTo) -> bool {
    world.klamm().replies.answer_to(slot).is_none()
}

fn config_of(world: &World, topic: &str) -> Option<String> {
    let node = world.zookeeper.look(&format!("/config/topics/{topic}"))?;
    Some(String::from_utf8(node.data().to_vec()).unwrap())
}

/// Whether all of a topic is led, every broker knows it, and its replicas are on genuine brokers, no two on one.
fn assert_in_use(world: &mut World, topic: &str, partitions: i32, factor: usize) {
    for index in 0..partitions {
        let at = format!("{topic}-{index}");
        let replicas = world.assigned(&at);
        let state = world.state(&at).unwrap().leader_and_isr;
        assert_eq!(state.leader, BrokerId(replicas[0]), "{at}");
        assert_eq!(state.isr.as_i32s(), replicas, "{at}");
        assert_eq!(replicas.len(), factor, "{at}");
        for id in [1, 2, 3] {
            assert!(world.cached_at(id, &at).is_some(), "{at} at {id}");
        }
    }
    assert_eq!(
        world.topic(topic).unwrap().partitions.len() as i32,
        partitions
    );
    world.assert_converged();
}

#[test]
fn topics_are_created_led_and_known_before_the_client_hears_of_it() {
    for release in ["1.0", "2.4", "2.8", "3.9"] {
        let mut world = World::led(&[1, 2, 3], release);
        let slot = create(
            &mut world,
            &[topic("t", 6, 3), assigned("u", &[&[2, 1], &[3, 1]])],
        );
        assert_eq!(
            said(&mut world, slot),
            ["t ok 6x3", "u ok 2x2"],
            "{release}"
        );
        assert_in_use(&mut world, "t", 6, 3);
        assert_in_use(&mut world, "u", 2, 2);
        assert_eq!(world.assigned("u-1"), [3, 1]);
        let empty = r#"{"version":1,"config":{}}"#;
        assert_eq!(config_of(&world, "t").unwrap(), empty);
    }
}

#[test]
fn a_topic_has_an_id_where_the_protocol_knows_ids_and_the_client_is_told_it() {
    for (release, has_ids) in [("2.7", false), ("2.8", true), ("3.9", true)] {
        let mut world = World::led(&[1, 2], release);
        let slot = create(&mut world, &[topic("t", 1, 1)]);
        let told = answered(&mut world, slot)
            .unwrap()
            .remove(0)
            .result
            .unwrap();
        assert_eq!(told.topic_id, world.topic("t").unwrap().topic_id);
        assert_eq!(told.topic_id.is_some(), has_ids, "{release}");
    }
}

#[test]
fn what_a_client_leaves_open_comes_from_the_configuration() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world.start_klamm_with(ControllerSettings {
        topic_defaults: TopicDefaults {
            num_partitions: 4,
            replication_factor: 2,
            broker: BrokerProperties::of_file(
                [("log.retention.hours".to_owned(), "2".to_owned())].into(),
            ),
        },
        ..World::settings()
    });
    world.settle();
    let open = NewTopic {
        num_partitions: None,
        replication_factor: None,
        configs: vec![("min.insync.replicas".to_owned(), Some("2".to_owned()))],
        ..topic("t", 1, 1)
    };
    let slot = create(&mut world, &[open]);
    assert_eq!(said(&mut world, slot), ["t ok 4x2"]);
    assert_eq!(
        config_of(&world, "t").unwrap(),
        r#"{"version":1,"config":{"min.insync.replicas":"2"}}"#
    );
    let told = answered(&mut world, slot)
        .unwrap()
        .remove(0)
        .result
        .unwrap();
    let of = |name: &str| {
        let found = told.settings.iter().find(|setting| setting.name == name);
        found
            .map(|setting| (setting.value.clone(), setting.source))
            .unwrap()
    };
    assert_eq!(
        of("min.insync.replicas"),
        ("2".to_owned(), ConfigSource::Topic)
    );
    assert_eq!(
        of("retention.ms"),
        ("7200000".to_owned(), ConfigSource::StaticBroker)
    );
}

/// Where a created topic's setting comes from, and its value.
fn setting(world: &mut World, name: &str, of: &str) -> (String, ConfigSource) {
    let slot = create(world, &[topic(name, 1, 1)]);
    let details = answered(world, slot).unwrap().remove(0).result.unwrap();
    let found = details.settings.into_iter();
    let found = found.filter(|setting| setting.name == of);
    found.map(|it| (it.value, it.source)).next().unwrap()
}

#[test]
fn a_topics_answer_goes_by_the_clusters_default_as_it_is_now() {
    let mut world = World::led(&[1], "3.9");
    let default = |value: &str, source| (value.to_owned(), source);
    const AT: &str = "/config/brokers/<default>";
    let at_first = default("604800000", ConfigSource::Default);
    assert_eq!(setting(&mut world, "a", "retention.ms"), at_first);
    let dynamic = default("77", ConfigSource::DynamicDefaultBroker);
    world
        .zookeeper
        .poke(AT, br#"{"version":1,"config":{"log.retention.ms":"77"}}"#);
    assert_eq!(setting(&mut world, "b", "retention.ms"), dynamic);
    // What can't be understood, or not be read, counts for nothing and costs nothing.
    for (name, useless) in [("c", "{"), ("d", r#"{"config":{"log.retention.ms":"x"}}"#)] {
        world.zookeeper.poke(AT, useless.as_bytes());
        assert_eq!(setting(&mut world, name, "retention.ms"), at_first);
    }
    world
        .klamm()
        .faults()
        .at_next(Call::EntityConfigs, Fault::Refused("for a test"));
    assert_eq!(setting(&mut world, "e", "retention.ms"), at_first);
}

#[test]
fn every_refusal_names_its_topic_and_what_to_do() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("here", &[&[1]]);
    world.create_topic("going", &[&[1]]);
    world.settle();
    world.pause(1);
    world.zookeeper.poke("/admin/delete_topics/going", b"");
    world.settle();
    let long = "x".repeat(20_000);
    let slot = create(
        &mut world,
        &[
            topic("here", 1, 1),
            topic("going", 1, 1),
            topic("none", 0, 1),
            topic("many", 1, 4),
            topic("odd name", 1, 1),
            topic(&long, 1, 1),
            assigned("odd", &[&[1, 2], &[1]]),
            NewTopic {
                configs: vec![("y".repeat(30_000), None)],
                ..topic("long", 1, 1)
            },
        ],
    );
    let answer = answered(&mut world, slot).unwrap();
    assert_eq!(answer.len(), 8);
    for told in answer {
        let message = told.result.unwrap_err().message;
        let name: String = told.name.as_str().chars().take(249).collect();
        assert!(message.starts_with(&format!("topic {name}")), "{message}");
        assert!(message.len() < 5_000, "{}", message.len());
        if name == "going" {
            assert!(message.contains("being deleted"), "{message}");
            assert!(message.contains("create it again once"), "{message}");
        }
    }
}

#[test]
fn what_is_refused_costs_only_itself() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("here", &[&[1]]);
    world.settle();
    let slot = create(
        &mut world,
        &[
            topic("here", 1, 1),
            topic("none", 0, 1),
            topic("many", 1, 4),
            assigned("odd", &[&[1, 2], &[1]]),
            assigned("on-klamm", &[&[1, 9]]),
            topic("good", 1, 1),
        ],
    );
    assert_eq!(
        said(&mut world, slot),
        [
            "here TOPIC_ALREADY_EXISTS(36)",
            "none INVALID_PARTITIONS(37)",
            "many INVALID_REPLICATION_FACTOR(38)",
            "odd INVALID_REPLICA_ASSIGNMENT(39)",
            "on-klamm INVALID_REPLICA_ASSIGNMENT(39)",
            "good ok 1x1"
        ]
    );
    assert_eq!(
        world.zookeeper.look_children("/brokers/topics"),
        ["good", "here"]
    );
    assert_eq!(world.zookeeper.look_children("/config/topics"), ["good"]);
}

#[test]
fn a_mere_question_changes_nothing() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let before = world.zookeeper.dump();
    let asked = [topic("t", 2, 3), topic("u", 1, 9)];
    let slot = send(&mut world, &asked, 0, true);
    world.settle();
    assert_eq!(
        said(&mut world, slot),
        ["t ok 2x3", "u INVALID_REPLICATION_FACTOR(38)"]
    );
    let told = answered(&mut world, slot)
        .unwrap()
        .remove(0)
        .result
        .unwrap();
    assert_eq!(told.topic_id, None);
    assert_eq!(world.zookeeper.dump(), before);
    assert_eq!(world.told(), [""; 0]);
}

#[test]
fn a_broker_that_hangs_holds_a_creation_up_for_one_second() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let slot = create(&mut world, &[assigned("t", &[&[1, 2, 3]])]);
    assert!(is_unanswered(&mut world, slot));
    world.advance(999);
    assert!(is_unanswered(&mut world, slot));
    world.advance(1);
    assert_eq!(said(&mut world, slot), ["t ok 1x3"]);
    world.resume(3);
    world.settle();
    assert_in_use(&mut world, "t", 1, 3);
}

#[test]
fn a_broker_that_dies_meanwhile_is_not_waited_for() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let slot = create(&mut world, &[topic("t", 3, 1)]);
    assert!(is_unanswered(&mut world, slot));
    world.kill(3);
    world.settle();
    assert_eq!(said(&mut world, slot), ["t ok 3x1"]);
}

#[test]
fn without_any_acknowledgement_the_client_hears_so_when_its_patience_is_over() {
    let mut world = World::led(&[1, 2], "3.9");
    world.pause(1);
    world.pause(2);
    let slot = ask(&mut world, &[topic("t", 1, 2), topic("u", 0, 1)], 5_000);
    world.advance(4_900);
    assert!(is_unanswered(&mut world, slot));
    world.advance(200);
    assert_eq!(
        said(&mut world, slot),
        ["t REQUEST_TIMED_OUT(7)", "u INVALID_PARTITIONS(37)"]
    );
    world.resume(1);
    world.resume(2);
    world.settle();
    assert!(
        world.cached_at(1, "t-0").is_some(),
        "it is created all the same"
    );
}

#[test]
fn a_client_without_patience_is_told_at_once_and_the_topic_is_there() {
    for timeout_ms in [0, -1, i32::MIN] {
        let mut world = World::led(&[1, 2, 3], "3.9");
        let slot = ask(&mut world, &[topic("t", 2, 3)], timeout_ms);
        // Nobody has read anything yet.
        assert!(world.klamm().step());
        assert_eq!(said(&mut world, slot), ["t REQUEST_TIMED_OUT(7)"]);
        world.settle();
        assert_in_use(&mut world, "t", 2, 3);
    }
}

#[test]
fn who_gives_up_while_some_brokers_know_the_topic_hears_that_it_is_there() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let slot = ask(&mut world, &[topic("t", 1, 1)], 500);
    world.advance(500);
    assert_eq!(said(&mut world, slot), ["t ok 1x1"]);
}

#[test]
fn a_topic_that_nobody_can_lead_is_waited_for_until_somebody_can() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.kill(3);
    world.settle();
    let slot = ask(&mut world, &[assigned("t", &[&[3], &[1]])], PATIENCE_MS);
    world.advance(10_000);
    assert!(is_unanswered(&mut world, slot));
    world.start_broker(3);
    world.settle();
    assert_eq!(said(&mut world, slot), ["t ok 2x1"]);
    world.kill(3);
    world.settle();
    let slot = ask(&mut world, &[assigned("u", &[&[3]])], 2_000);
    world.advance(2_000);
    assert_eq!(said(&mut world, slot), ["u REQUEST_TIMED_OUT(7)"]);
}

#[test]
fn what_a_tool_creates_in_the_same_moment_stays_the_tools() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let theirs = Fault::meanwhile(|zookeeper| {
        zookeeper.poke(
            "/config/topics/t",
            br#"{"version":1,"config":{"retention.ms":"5"}}"#,
        );
        zookeeper.poke(
            "/brokers/topics/t",
            br#"{"version":1,"partitions":{"0":[2]}}"#,
        );
    });
    world.klamm().faults().at_next(Call::Write, theirs);
    let slot = create(&mut world, &[topic("t", 3, 3), topic("u", 1, 1)]);
    assert_eq!(
        said(&mut world, slot),
        ["t TOPIC_ALREADY_EXISTS(36)", "u ok 1x1"]
    );
    assert_eq!(world.assigned("t-0"), [2]);
    assert!(config_of(&world, "t").unwrap().contains("retention.ms"));
    assert!(world.led_by("t-0").starts_with("leader 2 "));
}

#[test]
fn a_name_that_differs_by_a_dot_from_one_made_a_moment_ago_is_refused() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("a.b", &[&[1]]);
    let slot = ask(&mut world, &[topic("a_b", 1, 1)], PATIENCE_MS);
    world.settle();
    assert_eq!(said(&mut world, slot), ["a_b INVALID_TOPIC_EXCEPTION(17)"]);
    assert!(world.topic("a_b").is_none());
}

#[test]
fn a_configuration_that_a_deletion_left_behind_does_not_come_to_life_again() {
    let mut world = World::led(&[1, 2], "3.9");
    let left = br#"{"version":1,"config":{"cleanup.policy":"compact"}}"#;
    world.zookeeper.poke("/config/topics/t", left);
    let slot = create(&mut world, &[topic("t", 1, 1)]);
    assert_eq!(said(&mut world, slot), ["t ok 1x1"]);
    assert!(!config_of(&world, "t").unwrap().contains("compact"));
}

#[test]
fn a_topic_that_is_being_deleted_is_not_created_and_one_that_is_deleted_is() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 3]]);
    world.settle();
    world.kill(3);
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    let slot = create(&mut world, &[topic("t", 1, 1)]);
    assert_eq!(said(&mut world, slot), ["t TOPIC_ALREADY_EXISTS(36)"]);
    world.start_broker(3);
    world.settle();
    let slot = create(&mut world, &[topic("t", 2, 2)]);
    assert_eq!(said(&mut world, slot), ["t ok 2x2"]);
    assert_in_use(&mut world, "t", 2, 2);
}

#[test]
fn one_that_is_deleted_while_its_creator_waits_is_waited_for_no_longer() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let slot = create(&mut world, &[topic("t", 1, 1)]);
    assert!(is_unanswered(&mut world, slot));
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    assert_eq!(said(&mut world, slot), ["t ok 1x1"]);
}

#[test]
fn a_klamm_out_of_office_sends_clients_to_the_controller() {
    let mut world = World::led(&[1, 2], "3.9");
    world.klamm().expire_session();
    let slot = ask(&mut world, &[topic("t", 1, 1)], PATIENCE_MS);
    // The expiry, and what was asked behind it.
    assert!(world.step() && world.step());
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    world.settle();
    assert!(world.topic("t").is_none());
}

#[test]
fn who_waits_when_the_role_is_lost_is_sent_to_the_next_controller_which_leads_the_topic() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.pause(3);
    let slot = create(&mut world, &[topic("t", 3, 3)]);
    assert!(is_unanswered(&mut world, slot));
    world.klamm().expire_session();
    world.settle();
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    world.resume(3);
    world.advance(10_000);
    assert_in_use(&mut world, "t", 3, 3);
    let slot = create(&mut world, &[topic("t", 3, 3)]);
    assert_eq!(said(&mut world, slot), ["t TOPIC_ALREADY_EXISTS(36)"]);
}

#[test]
fn a_session_that_ends_amid_the_writing_leaves_all_of_the_topic_or_nothing() {
    for (fault, is_there) in [
        (Fault::SessionLostBefore, false),
        (Fault::SessionLostAfter, true),
    ] {
        let mut world = World::led(&[1, 2, 3], "3.9");
        world.klamm().faults().at_next(Call::Write, fault);
        let slot = ask(&mut world, &[topic("t", 3, 3)], PATIENCE_MS);
        assert!(world.step());
        assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
        world.advance(10_000);
        assert_eq!(world.topic("t").is_some(), is_there);
        assert_eq!(config_of(&world, "t").is_some(), is_there);
        if is_there {
            assert_in_use(&mut world, "t", 3, 3);
        }
    }
}

#[test]
fn a_request_that_is_fenced_creates_nothing() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let another_term = Fault::meanwhile(|zookeeper| {
        zookeeper.poke("/controller_epoch", b"77");
    });
    world.klamm().faults().at_next(Call::Write, another_term);
    let slot = create(&mut world, &[topic("t", 1, 1)]);
    assert_eq!(answered(&mut world, slot), Err(KafkaError::NOT_CONTROLLER));
    assert!(world.topic("t").is_none() && config_of(&world, "t").is_none());
}

#[test]
fn a_lost_answer_of_zookeeper_costs_nothing() {
    for fault in [Fault::LossBefore, Fault::LossAfter] {
        let mut world = World::led(&[1, 2, 3], "3.9");
        world.klamm().faults().at_next(Call::Write, fault);
        let slot = create(&mut world, &[topic("t", 2, 2)]);
        assert_eq!(said(&mut world, slot), ["t ok 2x2"]);
        assert_in_use(&mut world, "t", 2, 2);
    }
}

#[test]
fn what_could_not_be_led_at_once_is_led_later_and_the_client_waits_for_it() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world
        .klamm()
        .faults()
        .at_next(Call::Topics, Fault::Refused("NoAuth"));
    let slot = ask(&mut world, &[topic("t", 1, 1)], 120_000);
    world.klamm().step();
    assert!(is_unanswered(&mut world, slot));
    world.advance(61_000);
    assert_eq!(said(&mut world, slot), ["t ok 1x1"]);
    assert_in_use(&mut world, "t", 1, 1);
}
