//! Quotas on what clients create and delete (KIP-599): where they are learnt, whom they stop, and for how long; upstream's
//! `ControllerMutationQuotaTest`.

use klamm::effect::{Answer, GrownTopic, ReplyTo, TopicReference};
use klamm::event::{
    Claimant, ControllerEvent, CreatePartitionsRequest, CreateTopicsRequest, MorePartitions,
    QuotaEnforcement,
};
use klamm::model::TopicName;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;
use klamm_sim::zookeeper::ZooKeeper;

use crate::create_topics::topic;

const PATIENCE_MS: i32 = 30_000;
/// One partition a second: the default window saves up 11.
const ONE_A_SECOND: &str = r#"{"version":1,"config":{"controller_mutation_rate":"1"}}"#;
const NO_QUOTA: &str = r#"{"version":1,"config":{}}"#;

fn client(id: &str, enforcement: QuotaEnforcement) -> Claimant {
    Claimant {
        user: "ANONYMOUS".to_owned(),
        client_id: id.to_owned(),
        enforcement,
    }
}

fn strict() -> Claimant {
    client("c", QuotaEnforcement::Strict)
}

/// A client `c` that may have one partition a second, since before klamm led.
fn limited() -> World {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world
        .zookeeper
        .poke("/config/clients/c", ONE_A_SECOND.as_bytes());
    world.start_klamm();
    world.settle();
    world
}

fn create_as(world: &mut World, claimant: Claimant, topics: &[(&str, i32)]) -> ReplyTo {
    send_creation(world, claimant, topics, false)
}

fn send_creation(
    world: &mut World,
    claimant: Claimant,
    topics: &[(&str, i32)],
    validate_only: bool,
) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let topics = topics.iter();
    let request = CreateTopicsRequest {
        topics: topics
            .map(|(name, partitions)| topic(name, *partitions, 1))
            .collect(),
        timeout_ms: PATIENCE_MS,
        validate_only,
    };
    world.klamm().queue.put(ControllerEvent::CreateTopics {
        request,
        claimant,
        reply_to,
    });
    world.settle();
    reply_to
}

fn grow_as(world: &mut World, claimant: Claimant, topics: &[(&str, i32)]) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let more = |(name, count): &(&str, i32)| MorePartitions {
        topic: TopicName::new(name),
        count: *count,
        assignments: None,
    };
    let request = CreatePartitionsRequest {
        topics: topics.iter().map(more).collect(),
        timeout_ms: PATIENCE_MS,
        validate_only: false,
    };
    world.klamm().queue.put(ControllerEvent::CreatePartitions {
        request,
        claimant,
        reply_to,
    });
    world.settle();
    reply_to
}

fn delete_as(world: &mut World, claimant: Claimant, topics: &[&str]) -> ReplyTo {
    let reply_to = world.klamm().open_slot();
    let named = |name: &&str| TopicReference::Name(TopicName::new(name));
    world.klamm().queue.put(ControllerEvent::DeleteTopics {
        topics: topics.iter().map(named).collect(),
        timeout_ms: PATIENCE_MS,
        claimant,
        reply_to,
    });
    world.settle();
    reply_to
}

/// `t ok`, `u THROTTLING_QUOTA_EXCEEDED(89)` …, and for how long the client is throttled.
fn said(world: &mut World, slot: ReplyTo) -> (Vec<String>, u64) {
    let (answer, throttle_time_ms) = match world.answer_to(slot) {
        Answer::Throttled {
            throttle_time_ms,
            answer,
        } => (*answer, throttle_time_ms),
        other => (other, 0),
    };
    let lines: Vec<GrownTopic> = match answer {
        Answer::CreateTopics(Ok(topics)) => topics
            .into_iter()
            .map(|topic| (topic.name, topic.result.map(drop)))
            .collect(),
        Answer::CreatePartitions(Ok(topics)) => topics,
        Answer::DeleteTopics(Ok(topics)) => topics
            .into_iter()
            .map(|topic| (topic.name.unwrap(), topic.result))
            .collect(),
        other => panic!("another answer: {other:?}"),
    };
    let line = |(name, result): GrownTopic| match result {
        Ok(()) => format!("{name} ok"),
        Err(refused) => {
            assert!(
                refused.message.starts_with(&format!("topic {name}: ")),
                "{refused}"
            );
            format!("{name} {}", refused.error)
        }
    };
    (lines.into_iter().map(line).collect(), throttle_time_ms)
}

/// One line for a request about one topic.
fn said_one(world: &mut World, slot: ReplyTo) -> (String, u64) {
    let (mut lines, throttle_time_ms) = said(world, slot);
    assert_eq!(lines.len(), 1);
    (lines.remove(0), throttle_time_ms)
}

fn ok(name: &str) -> (String, u64) {
    (format!("{name} ok"), 0)
}

fn denied(name: &str, throttle_time_ms: u64) -> (String, u64) {
    let line = format!("{name} THROTTLING_QUOTA_EXCEEDED(89)");
    (line, throttle_time_ms)
}

fn topics(world: &World) -> Vec<String> {
    world.zookeeper.look_children("/brokers/topics")
}

#[test]
fn what_is_above_the_quota_is_denied_topic_by_topic_until_it_is_worked_off() {
    let mut world = limited();
    // The bucket holds 11: the second topic empties it, the others have to wait.
    let slot = create_as(
        &mut world,
        strict(),
        &[("a", 6), ("b", 8), ("c", 1), ("d", 1)],
    );
    let (lines, throttle_time_ms) = said(&mut world, slot);
    let expected = [
        "a ok",
        "b ok",
        "c THROTTLING_QUOTA_EXCEEDED(89)",
        "d THROTTLING_QUOTA_EXCEEDED(89)",
    ];
    assert_eq!(lines, expected);
    assert_eq!(throttle_time_ms, 3_000);
    assert_eq!(topics(&world), ["a", "b"]);
    assert_eq!(world.zookeeper.look_children("/config/topics"), ["a", "b"]);

    world.advance(2_000);
    let slot = create_as(&mut world, strict(), &[("c", 1)]);
    assert_eq!(said_one(&mut world, slot), denied("c", 1_000));
    world.advance(1_000);
    let slot = create_as(&mut world, strict(), &[("c", 1)]);
    assert_eq!(said_one(&mut world, slot), ok("c"));
}

#[test]
fn growth_and_deletion_draw_from_the_same_bucket() {
    let mut world = limited();
    let slot = create_as(&mut world, strict(), &[("a", 5), ("b", 1)]);
    assert_eq!(said(&mut world, slot).1, 0);
    let slot = grow_as(&mut world, strict(), &[("a", 9)]);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    // 5 + 1 + 4 of 11 are gone; all nine of `a` count.
    let slot = delete_as(&mut world, strict(), &["a"]);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    let slot = delete_as(&mut world, strict(), &["b"]);
    assert_eq!(said_one(&mut world, slot), denied("b", 8_000));
    let slot = grow_as(&mut world, strict(), &[("b", 2)]);
    assert_eq!(said_one(&mut world, slot), denied("b", 8_000));
    assert_eq!(topics(&world), ["b"]);
    assert_eq!(world.topic("b").unwrap().partitions.len(), 1);
    let marked = world.zookeeper.look_children("/admin/delete_topics");
    assert_eq!(marked, [""; 0]);
}

#[test]
fn older_clients_get_what_they_want_and_are_kept_waiting() {
    let mut world = limited();
    let permissive = || client("c", QuotaEnforcement::Permissive);
    let slot = create_as(&mut world, permissive(), &[("a", 11)]);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    let slot = create_as(&mut world, permissive(), &[("b", 2)]);
    assert_eq!(said_one(&mut world, slot), ("b ok".to_owned(), 2_000));
    let slot = grow_as(&mut world, permissive(), &[("b", 3)]);
    assert_eq!(said_one(&mut world, slot), ("b ok".to_owned(), 3_000));
    let slot = delete_as(&mut world, permissive(), &["b"]);
    assert_eq!(said_one(&mut world, slot), ("b ok".to_owned(), 6_000));
}

#[test]
fn a_mere_question_and_a_refused_topic_cost_nothing() {
    let mut world = limited();
    let slot = send_creation(&mut world, strict(), &[("a", 1_000)], true);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    let slot = create_as(&mut world, strict(), &[("a", 0), ("b", 12)]);
    assert_eq!(
        said(&mut world, slot).0,
        ["a INVALID_PARTITIONS(37)", "b ok"]
    );
    let slot = create_as(&mut world, strict(), &[("c", 1)]);
    assert_eq!(said_one(&mut world, slot), denied("c", 1_000));
}

#[test]
fn growth_that_is_tried_again_is_charged_once() {
    let mut world = limited();
    world.create_topic("a", &[&[1]]);
    world.settle();
    let rewrite = |zookeeper: &ZooKeeper| {
        let node = zookeeper.look("/brokers/topics/a").unwrap();
        zookeeper.poke("/brokers/topics/a", node.data());
    };
    world
        .klamm()
        .faults()
        .at_next(Call::Write, Fault::meanwhile(rewrite));
    let slot = grow_as(&mut world, strict(), &[("a", 12)]);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    let slot = create_as(&mut world, strict(), &[("b", 1)]);
    assert_eq!(said_one(&mut world, slot), ok("b"), "11 of 11 were charged");
}

#[test]
fn the_time_that_a_client_has_waited_for_its_answer_counts() {
    let mut world = limited();
    let permissive = client("c", QuotaEnforcement::Permissive);
    for id in [1, 2, 3] {
        world.pause(id);
    }
    let slot = create_as(&mut world, permissive, &[("a", 21)]);
    world.advance(4_000);
    for id in [1, 2, 3] {
        world.resume(id);
    }
    world.settle();
    let (line, throttle_time_ms) = said_one(&mut world, slot);
    assert_eq!((line.as_str(), throttle_time_ms), ("a ok", 6_000));
}

/// Whether a client is under a quota: it asks for more than a bucket of one a second holds, and then once more.
fn is_limited(world: &mut World, id: &str, run: usize) -> bool {
    let claimant = || client(id, QuotaEnforcement::Strict);
    let (first, second) = (format!("{id}{run}-x"), format!("{id}{run}-y"));
    create_as(world, claimant(), &[(&first, 20)]);
    let slot = create_as(world, claimant(), &[(&second, 1)]);
    let (line, _) = said_one(world, slot);
    let is_limited = line != format!("{second} ok");
    world.advance(60_000);
    is_limited
}

#[test]
fn a_quota_counts_as_soon_as_it_is_written_and_no_longer_than_it_stands_there() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    assert!(!is_limited(&mut world, "c", 0));
    for (run, entity) in [
        "clients/c",
        "clients/<default>",
        "users/ANONYMOUS",
        "users/<default>",
        "users/ANONYMOUS/clients/c",
        "users/ANONYMOUS/clients/<default>",
        "users/<default>/clients/c",
        "users/<default>/clients/<default>",
    ]
    .into_iter()
    .enumerate()
    {
        world.configure(entity, ONE_A_SECOND);
        world.settle();
        assert!(is_limited(&mut world, "c", 2 * run + 1), "{entity}");
        let is_for_others = !entity.ends_with("/c");
        assert_eq!(is_limited(&mut world, "d", run), is_for_others, "{entity}");
        world.configure(entity, NO_QUOTA);
        world.settle();
        assert!(!is_limited(&mut world, "c", 2 * run + 2), "{entity}");
    }
}

#[test]
fn the_closest_quota_counts() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let unlimited = r#"{"version":1,"config":{"controller_mutation_rate":"1000000"}}"#;
    world.configure("users/<default>", ONE_A_SECOND);
    world.configure("users/ANONYMOUS/clients/c", unlimited);
    world.settle();
    assert!(!is_limited(&mut world, "c", 0));
    assert!(is_limited(&mut world, "d", 0));
}

#[test]
fn every_quota_is_read_by_the_next_controller() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    for (entity, content) in [
        ("users/ANONYMOUS/clients/c", ONE_A_SECOND),
        ("users/ANONYMOUS", NO_QUOTA),
        ("users/broken", "{"),
        (
            "users/odd",
            r#"{"config":{"controller_mutation_rate":"much"}}"#,
        ),
        ("clients/d", ONE_A_SECOND),
    ] {
        let path = format!("/config/{entity}");
        world.zookeeper.poke(&path, content.as_bytes());
    }
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
    assert!(is_limited(&mut world, "c", 0));
    assert!(is_limited(&mut world, "d", 0));
    assert!(!is_limited(&mut world, "e", 0));
}

#[test]
fn quotas_that_zookeeper_does_not_show_stop_nobody_and_are_read_at_the_next_occasion() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world
        .zookeeper
        .poke("/config/clients/c", ONE_A_SECOND.as_bytes());
    world.start_klamm();
    let refused = Fault::Refused("for a test");
    world.klamm().faults().at_next(Call::QuotaEntities, refused);
    world.settle();
    assert!(world.klamm().is_active());
    let slot = create_as(&mut world, strict(), &[("a", 20)]);
    assert_eq!(said_one(&mut world, slot), ok("a"));
    let slot = create_as(&mut world, strict(), &[("b", 1)]);
    assert_eq!(said_one(&mut world, slot), ok("b"));
    // Any notice will do, and so does the sweep.
    world.advance(60_000);
    assert!(is_limited(&mut world, "c", 0));
}

#[test]
fn a_notice_that_went_before_it_could_be_read_may_have_been_about_a_quota() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    let remove = |zookeeper: &ZooKeeper| {
        for name in zookeeper.look_children("/config/changes") {
            zookeeper.uproot(&format!("/config/changes/{name}"));
        }
    };
    world
        .klamm()
        .faults()
        .at_next(Call::ConfigChanges, Fault::meanwhile(remove));
    world.configure("clients/c", ONE_A_SECOND);
    world.settle();
    assert!(is_limited(&mut world, "c", 0));
}

#[test]
fn a_klamm_that_leads_again_reads_the_quotas_anew_and_begins_with_full_buckets() {
    let mut world = limited();
    create_as(&mut world, strict(), &[("a", 100)]);
    let slot = create_as(&mut world, strict(), &[("b", 1)]);
    assert_eq!(said_one(&mut world, slot), denied("b", 89_000));
    world
        .zookeeper
        .poke("/config/clients/d", ONE_A_SECOND.as_bytes());
    let rival = world.java_takes_role(2);
    world.settle();
    assert!(!world.klamm().is_active());
    rival.close();
    world.advance(10_000);
    assert!(world.klamm().is_active());
    let slot = create_as(&mut world, strict(), &[("b", 11)]);
    assert_eq!(said_one(&mut world, slot), ok("b"));
    assert!(is_limited(&mut world, "c", 0));
    assert!(is_limited(&mut world, "d", 0));
}
