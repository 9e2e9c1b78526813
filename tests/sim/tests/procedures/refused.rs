//! What ZooKeeper forbids klamm, as an operator's ACLs do: it costs that node and nothing else, whoever asked for it is
//! told which node it is, and once the ACL is repaired the next sweep makes up for it.

use klamm::controller::ControllerSettings;
use klamm::effect::{Answer, TopicReference};
use klamm::event::{ControllerEvent, FeatureUpdate, UpgradeType};
use klamm::model::{ApiError, BrokerId, KafkaError, TopicName};
use klamm_sim::clock::WORLD_BEGAN_AT_MS;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, anonymous, partition};

use crate::heard::Heard;
use crate::{create_partitions, create_topics, scram};

mod made_up;
mod reassignments;
mod requests;
mod states;

const A_MINUTE_MS: u64 = 60_000;
const PATIENCE_MS: i32 = 30_000;

/// t-0 [1,2,3], t-1 [2,3,1] and u-0 [3,1] of brokers 1 to 3.
fn led() -> World {
    led_at("3.9")
}

fn led_at(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.create_topic("u", &[&[3, 1]]);
    world.settle();
    world.told();
    world
}

/// `t ok`, or `t 42 /brokers/topics/t: …`.
fn line<T>(name: &str, result: Result<T, ApiError>) -> String {
    match result {
        Ok(_) => format!("{name} ok"),
        Err(why) => format!("{name} {} {}", why.error.0, why.message),
    }
}

fn said(world: &mut World, slot: klamm::effect::ReplyTo) -> Vec<String> {
    match world.answer_to(slot) {
        Answer::CreateTopics(Ok(topics)) => topics
            .into_iter()
            .map(|topic| line(topic.name.as_str(), topic.result))
            .collect(),
        Answer::CreatePartitions(Ok(topics)) => topics
            .into_iter()
            .map(|(name, result)| line(name.as_str(), result))
            .collect(),
        Answer::DeleteTopics(Ok(topics)) => topics
            .into_iter()
            .map(|topic| line(&topic.name.unwrap().to_string(), topic.result))
            .collect(),
        Answer::AlterUserScramCredentials(Ok(users)) => users
            .into_iter()
            .map(|(user, result)| line(&user, result))
            .collect(),
        Answer::UpdateFeatures(Ok(features)) => features
            .into_iter()
            .map(|(feature, result)| line(&feature, result))
            .collect(),
        Answer::AlterPartitionReassignments(Ok(partitions)) => partitions
            .into_iter()
            .map(|(at, result)| line(&at.to_string(), result))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_begins(said: &[String], expected: &[&str]) {
    let fits = said.len() == expected.len()
        && said.iter().zip(expected).all(|(is, be)| is.starts_with(be));
    assert!(fits, "{said:#?} should begin as {expected:#?}");
}

fn create(world: &mut World, topics: &[&str]) -> Vec<String> {
    let asked: Vec<_> = topics
        .iter()
        .map(|name| create_topics::topic(name, 1, 2))
        .collect();
    let slot = create_topics::ask(world, &asked, PATIENCE_MS);
    world.settle();
    said(world, slot)
}

fn grow(world: &mut World, topics: &[(&str, i32)]) -> Vec<String> {
    let asked: Vec<_> = topics
        .iter()
        .map(|(name, count)| create_partitions::to(name, *count))
        .collect();
    let slot = create_partitions::send(world, &asked, PATIENCE_MS, false);
    world.settle();
    said(world, slot)
}

fn delete(world: &mut World, topics: &[&str], timeout_ms: i32) -> Vec<String> {
    let named = |name: &&str| TopicReference::Name(TopicName::new(name));
    let reply_to = world.klamm().open_slot();
    world.klamm().queue.put(ControllerEvent::DeleteTopics {
        topics: topics.iter().map(named).collect(),
        timeout_ms,
        claimant: anonymous(),
        reply_to,
    });
    world.settle();
    said(world, reply_to)
}

// --- topics

#[test]
fn a_topic_that_may_not_be_created_is_not_created_and_the_client_is_told_the_node() {
    let mut world = led();
    world.zookeeper.protect("/brokers/topics");
    let said = create(&mut world, &["new"]);
    assert_begins(&said, &["new -1 topic new: /brokers/topics/new: "]);
    assert!(world.topic("new").is_none());
    assert!(world.zookeeper.look("/config/topics/new").is_none());
    world.zookeeper.unprotect("/brokers/topics");
    assert_eq!(create(&mut world, &["new"]), ["new ok"]);
    assert!(world.led_by("new-0").ends_with("le 0"));
}

#[test]
fn where_a_parent_node_is_missing_the_client_is_told_which_to_create() {
    let mut world = led();
    world.zookeeper.uproot("/config/topics");
    let said = create(&mut world, &["new"]);
    assert_begins(
        &said,
        &["new -1 topic new: /brokers/topics or /config/topics is missing"],
    );
    assert!(world.topic("new").is_none());

    world.zookeeper.uproot("/admin/delete_topics");
    let said = delete(&mut world, &["u"], PATIENCE_MS);
    assert_begins(&said, &["u -1 /admin/delete_topics is missing"]);
    assert!(world.led_by("u-0").starts_with("leader 3"));
    assert!(world.klamm().is_active());
}

#[test]
fn a_topic_whose_node_may_not_be_written_does_not_grow_and_others_do() {
    let mut world = led();
    world.zookeeper.protect("/brokers/topics/t");
    let said = grow(&mut world, &[("t", 3), ("u", 2)]);
    assert_begins(&said, &["t -1 topic t: /brokers/topics/t: ", "u ok"]);
    assert_eq!(world.topic("t").unwrap().partitions.len(), 2);
    assert!(world.led_by("u-1").ends_with("le 0"));
}

#[test]
fn a_topic_whose_node_may_not_be_read_does_not_grow_and_others_do() {
    let mut world = led();
    world.zookeeper.conceal("/brokers/topics/t");
    let said = grow(&mut world, &[("t", 3), ("u", 2)]);
    assert_begins(&said, &["t -1 topic t: /brokers/topics/t: ", "u ok"]);
    assert!(world.led_by("u-1").ends_with("le 0"));
    world.zookeeper.reveal("/brokers/topics/t");
    assert_eq!(grow(&mut world, &[("t", 3)]), ["t ok"]);
}

#[test]
fn a_topic_that_goes_while_it_is_to_grow_is_unknown() {
    let mut world = led();
    let gone = Fault::meanwhile(|zookeeper| zookeeper.uproot("/brokers/topics/t"));
    world.klamm().faults().at_next(Call::Write, gone);
    let said = grow(&mut world, &[("t", 3), ("u", 2)]);
    assert_begins(&said, &["t 3 ", "u ok"]);
    assert!(world.topic("t").is_none());
}

#[test]
fn a_topic_that_others_write_all_the_time_is_given_up_and_others_grow() {
    let mut world = led();
    for _ in 0..5 {
        let others = Fault::meanwhile(|zookeeper| {
            let node = zookeeper.look("/brokers/topics/t").unwrap();
            zookeeper.poke("/brokers/topics/t", node.data());
        });
        world.klamm().faults().at_next(Call::Write, others);
    }
    let said = grow(&mut world, &[("t", 3), ("u", 2)]);
    let expected = "t -1 topic t: /brokers/topics/t is written by others all the time; try again";
    assert_begins(&said, &[expected, "u ok"]);
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(grow(&mut world, &[("t", 3)]), ["t ok"]);
}

/// A new topic that names klamm, or lacks an id, is not led before its node could be rewritten.
#[test]
fn a_new_topic_that_names_a_klamm_is_led_once_its_node_can_be_rewritten() {
    let mut world = led();
    world.zookeeper.protect("/brokers/topics/new");
    let hand = world.zookeeper.connect_deaf();
    let content = br#"{"version":1,"partitions":{"0":[1,9]}}"#;
    let mode = klamm_sim::zookeeper::CreateMode::Persistent;
    hand.create("/brokers/topics/new", content, mode).unwrap();
    hand.close();
    world.create_topic("healthy", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("new-0"), "none");
    assert_eq!(world.led_by("healthy-0"), "leader 1 isr [1,2] le 0");
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("new-0"), "none");
    world.zookeeper.unprotect("/brokers/topics/new");
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("new-0").starts_with("leader 1 isr [1,"));
    assert!(!world.assigned("new-0").contains(&9));
    world.assert_converged();
}

/// The same where it was made while nobody led.
#[test]
fn a_takeover_leads_no_partition_that_names_a_klamm_before_its_node_can_be_rewritten() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    world.create_topic("new", &[&[1, 9], &[9]]);
    world.zookeeper.protect("/brokers/topics/new");
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
    for at in ["new-0", "new-1"] {
        assert_eq!(world.led_by(at), "none", "{at}");
    }
    assert!(world.led_by("t-0").starts_with("leader 1"));
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("new-0"), "none");
    world.zookeeper.unprotect("/brokers/topics/new");
    world.advance(A_MINUTE_MS);
    for at in ["new-0", "new-1"] {
        assert!(world.led_by(at).starts_with("leader "), "{at}");
        assert!(!world.assigned(at).contains(&9), "{at}");
    }
    world.assert_converged();
}

/// What was led before is led on: an id that can't be written costs nothing but itself.
#[test]
fn a_takeover_leads_what_was_led_although_its_topic_can_be_given_no_id() {
    let mut world = World::led(&[1, 2], "2.4");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.klamm().kill();
    world.klamm().expire_session();
    world.kill(2);
    for id in [1, 2] {
        world.broker_mut(id, |broker| {
            broker.protocol = klamm_sim::world::protocol("2.8")
        });
    }
    world.kill(1);
    world.zookeeper.protect("/brokers/topics/t");
    world.start_broker(1);
    world.start_broker(2);
    world.start_klamm();
    world.settle();
    assert!(world.topic("t").unwrap().topic_id.is_none());
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1,2]"));
    world.kill(1);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2]"));
    world.zookeeper.unprotect("/brokers/topics/t");
    world.advance(A_MINUTE_MS);
    world.assert_converged();
}

#[test]
fn a_new_topic_that_goes_while_it_is_given_an_id_is_forgotten() {
    let mut world = led();
    let gone = Fault::meanwhile(|zookeeper| zookeeper.uproot("/brokers/topics/new"));
    world.klamm().faults().at_next(Call::Write, gone);
    world.create_topic("new", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    let gone = Fault::meanwhile(|zookeeper| zookeeper.uproot("/brokers/topics/late"));
    world.klamm().faults().at_next(Call::Topics, gone);
    world.create_topic("late", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    world.assert_converged();
    assert_eq!(world.klamm().snapshot().gauges.topics, 2);
}

// --- deletions

#[test]
fn a_deletion_that_may_not_be_asked_for_is_refused_and_the_topic_stays() {
    let mut world = led();
    world.zookeeper.protect("/admin/delete_topics");
    let said = delete(&mut world, &["t"], PATIENCE_MS);
    assert_begins(&said, &["t -1 /admin/delete_topics/t: "]);
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 1"));
    world.assert_converged();
}

#[test]
fn a_request_for_a_deletion_that_may_not_be_removed_is_named_and_removed_later() {
    let mut world = led();
    let (heard, _guard) = Heard::listen();
    world.zookeeper.poke("/admin/delete_topics/nobody", b"");
    world.zookeeper.protect("/admin/delete_topics");
    world.settle();
    heard.assert_says(&["could not be removed", "/admin/delete_topics/nobody"]);
    world.advance(A_MINUTE_MS);
    let said = heard.lines().len();
    assert_eq!(said, 1, "it is said once: {:?}", heard.lines());
    world.zookeeper.unprotect("/admin/delete_topics");
    world.advance(A_MINUTE_MS);
    assert!(
        world
            .zookeeper
            .look("/admin/delete_topics/nobody")
            .is_none()
    );
}

#[test]
fn a_topic_whose_nodes_may_not_be_deleted_waits_and_others_are_deleted() {
    // Below the topic's node, and the node itself.
    for node in ["/brokers/topics/t", "/brokers/topics"] {
        let mut world = led();
        let (heard, _guard) = Heard::listen();
        world.zookeeper.protect(node);
        world.zookeeper.poke("/admin/delete_topics/t", b"");
        world.settle();
        assert!(world.topic("t").is_some());
        assert!(
            world.cached_at(1, "t-0").is_none(),
            "brokers have forgotten it"
        );
        heard.assert_says(&["Deletion of topics t waits", "/brokers/topics/t"]);
        let waiting = world.klamm().snapshot().gauges.topics_ineligible_to_delete;
        assert_eq!(waiting, 1, "{node}");
        if node == "/brokers/topics/t" {
            assert_begins(&delete(&mut world, &["u"], PATIENCE_MS), &["u ok"]);
            assert!(world.topic("u").is_none());
        }
        world.zookeeper.unprotect(node);
        world.advance(A_MINUTE_MS);
        assert!(world.topic("t").is_none());
        assert!(world.zookeeper.look("/admin/delete_topics/t").is_none());
        world.assert_converged();
    }
}

// --- other duties

#[test]
fn a_token_that_may_not_be_removed_is_named_and_tried_again() {
    let mut world = World::of_brokers(&[1], "3.9");
    let path = "/delegation_token/tokens/short";
    let text = format!(
        r#"{{"version":3,"owner":"User%3Aa","tokenRequester":"User%3Aa","renewers":[],"issueTimestamp":{WORLD_BEGAN_AT_MS},"maxTimestamp":{WORLD_BEGAN_AT_MS},"expiryTimestamp":{WORLD_BEGAN_AT_MS},"tokenId":"short"}}"#
    );
    world.zookeeper.poke(path, text.as_bytes());
    world.zookeeper.protect("/delegation_token/tokens");
    let (heard, _guard) = Heard::listen();
    world.start_klamm_with(ControllerSettings {
        token_expiry_check_interval_ms: Some(A_MINUTE_MS),
        ..World::settings()
    });
    world.advance(A_MINUTE_MS);
    assert!(world.zookeeper.look(path).is_some());
    heard.assert_says(&[path, "can't be removed"]);
    world.zookeeper.unprotect("/delegation_token/tokens");
    world.advance(A_MINUTE_MS);
    assert!(world.zookeeper.look(path).is_none());
}

#[test]
fn credentials_that_may_not_be_written_are_refused_and_others_are_written() {
    let mut world = led();
    let none = br#"{"version":1,"config":{}}"#;
    world.zookeeper.poke("/config/users/alice", none);
    world.zookeeper.poke("/config/users/bob", none);
    world.zookeeper.protect("/config/users/alice");
    let asked = [scram::upsert("alice", 1), scram::upsert("bob", 1)];
    let slot = scram::send(&mut world, &asked);
    world.settle();
    let answer = said(&mut world, slot);
    assert_begins(&answer, &["alice -1 /config/users/alice: ", "bob ok"]);
    assert_eq!(
        world.zookeeper.look("/config/users/alice").unwrap().data(),
        none
    );
    assert_eq!(scram::notices(&world).len(), 1);
}

#[test]
fn credentials_that_find_no_place_or_no_rest_are_given_up_with_a_reason() {
    let mut world = led();
    world.zookeeper.uproot("/config/users");
    let slot = scram::send(&mut world, &[scram::upsert("alice", 1)]);
    world.settle();
    let answer = said(&mut world, slot);
    assert_begins(
        &answer,
        &["alice -1 /config/users/alice is written or deleted by others"],
    );
    assert!(answer[0].contains("/config/users is missing"), "{answer:?}");

    world.zookeeper.poke("/config/users", b"");
    for _ in 0..5 {
        let others = Fault::meanwhile(|zookeeper| {
            let none = br#"{"version":1,"config":{}}"#;
            zookeeper.poke("/config/users/alice", none);
        });
        world.klamm().faults().at_next(Call::Write, others);
    }
    let slot = scram::send(&mut world, &[scram::upsert("alice", 1)]);
    world.settle();
    let answer = said(&mut world, slot);
    assert_begins(
        &answer,
        &["alice -1 /config/users/alice is written or deleted by others"],
    );
    assert_eq!(world.klamm().faults().outstanding(), 0);
}

#[test]
fn too_many_in_one_request_are_refused_as_a_whole() {
    let mut world = led();
    let topics: Vec<_> = (0..20_001)
        .map(|index| create_topics::topic(&format!("n{index}"), 1, 1))
        .collect();
    let growth: Vec<_> = (0..20_001)
        .map(|index| create_partitions::to(&format!("n{index}"), 2))
        .collect();
    let users: Vec<_> = (0..20_001)
        .map(|index| scram::upsert(&format!("u{index}"), 1))
        .collect();
    let before = world.zookeeper.dump();
    let slots = [
        create_topics::ask(&mut world, &topics, PATIENCE_MS),
        create_partitions::send(&mut world, &growth, PATIENCE_MS, false),
        scram::send(&mut world, &users),
    ];
    world.settle();
    let refused = Err(KafkaError::INVALID_REQUEST);
    assert_eq!(
        world.answer_to(slots[0]),
        Answer::CreateTopics(refused.map(|()| vec![]))
    );
    assert_eq!(
        world.answer_to(slots[1]),
        Answer::CreatePartitions(refused.map(|()| vec![]))
    );
    assert_eq!(
        world.answer_to(slots[2]),
        Answer::AlterUserScramCredentials(refused.map(|()| vec![]))
    );
    assert_eq!(world.zookeeper.dump(), before);
}

#[test]
fn features_that_may_not_be_written_stay_as_they_are() {
    let enabled = r#"{"version":1,"status":1,"features":{"f":{"max_version_level":2,"min_version_level":1}}}"#;
    let mut world = World::of_brokers(&[1, 2], "2.7");
    world.zookeeper.poke("/feature", enabled.as_bytes());
    world.start_klamm();
    world.settle();
    world.zookeeper.protect("/feature");
    let update = |feature: &str, level, upgrade_type| FeatureUpdate {
        feature: feature.to_owned(),
        level,
        upgrade_type,
    };
    let reply_to = world.klamm().open_slot();
    let updates = vec![
        update("f", 0, UpgradeType::SafeDowngrade),
        update("new", 1, UpgradeType::Upgrade),
    ];
    let event = ControllerEvent::UpdateFeatures { updates, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    assert_begins(&said(&mut world, reply_to), &["f 96 ", "new 42 "]);
    assert_eq!(world.zookeeper.look("/feature").unwrap().text(), enabled);
    assert!(world.klamm().is_active());
}

#[test]
fn a_feature_node_that_may_not_be_set_up_costs_nothing_else() {
    let disabled = br#"{"version":1,"status":0,"features":{}}"#;
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.zookeeper.poke("/feature", disabled);
    world.zookeeper.protect("/feature");
    let (heard, _guard) = Heard::listen();
    world.start_klamm();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
    heard.assert_says(&["/feature could not be set up", "/feature: "]);
    assert_eq!(world.zookeeper.look("/feature").unwrap().data(), disabled);
}

fn ask_producer_ids(world: &mut World) -> Answer {
    let (from, reply_to) = (world.incarnation(1), world.klamm().open_slot());
    let event = ControllerEvent::AllocateProducerIds { from, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    world.answer_to(reply_to)
}

#[test]
fn producer_ids_that_may_not_be_noted_or_are_used_up_are_not_handed_out() {
    let failed = Answer::AllocateProducerIds(Err(KafkaError::UNKNOWN_SERVER_ERROR));
    let mut world = led();
    let path = "/latest_producer_id_block";
    world.zookeeper.protect(path);
    assert_eq!(ask_producer_ids(&mut world), failed);
    world.zookeeper.unprotect(path);

    let last = format!(
        r#"{{"version":1,"broker":1,"block_start":"{}","block_end":"{}"}}"#,
        i64::MAX - 999,
        i64::MAX
    );
    world.zookeeper.poke(path, last.as_bytes());
    assert_eq!(ask_producer_ids(&mut world), failed);
    assert_eq!(world.zookeeper.look(path).unwrap().text(), last);
}

#[test]
fn producer_ids_asked_of_one_whose_session_ends_are_asked_of_the_next_controller() {
    let mut world = led();
    let lost = Fault::SessionLostBefore;
    world.klamm().faults().at_next(Call::ProducerIdBlock, lost);
    let answer = ask_producer_ids(&mut world);
    let sent_on = Answer::AllocateProducerIds(Err(KafkaError::NOT_CONTROLLER));
    assert_eq!(answer, sent_on);
}

#[test]
fn an_election_whose_request_may_not_be_removed_is_held_and_the_node_is_named() {
    let mut world = led();
    world.bounce(1);
    world.settle();
    world.catch_up();
    assert!(world.led_by("t-0").starts_with("leader 2"));
    let (heard, _guard) = Heard::listen();
    let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
    let path = "/admin/preferred_replica_election";
    world.zookeeper.poke(path, asked);
    world.zookeeper.protect("/admin");
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1"));
    heard.assert_says(&[path, "remove it by hand"]);
}

#[test]
fn notices_that_may_not_be_deleted_are_heeded_and_named() {
    let mut world = led_at("2.4");
    let parent = "/isr_change_notification";
    let hand = world.zookeeper.connect_deaf();
    let (heard, _guard) = Heard::listen();
    let notice = br#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
    let mode = klamm_sim::zookeeper::CreateMode::PersistentSequential;
    let state = world
        .zookeeper
        .look("/brokers/topics/t/partitions/0/state")
        .unwrap();
    let shrunk = state.text().replace("[1,2,3]", "[1,2]");
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", shrunk.as_bytes());
    hand.create(&format!("{parent}/isr_change_"), notice, mode)
        .unwrap();
    world.zookeeper.protect(parent);
    world.settle();
    let told = world.cached_at(3, "t-0");
    assert_eq!(told.as_deref(), Some("leader 1 isr [1,2] offline []"));
    assert_eq!(world.zookeeper.look_children(parent).len(), 1);
    heard.assert_says(&["a notification could not be deleted", parent]);
}

/// A state that is gone or can't be read costs its partition alone.
#[test]
fn in_sync_sets_that_cant_be_read_again_are_passed_over() {
    let mut world = led_at("2.4");
    world
        .zookeeper
        .uproot("/brokers/topics/t/partitions/0/state");
    world
        .zookeeper
        .conceal("/brokers/topics/t/partitions/1/state");
    let state = world
        .zookeeper
        .look("/brokers/topics/u/partitions/0/state")
        .unwrap();
    let shrunk = state.text().replace("[3,1]", "[3]");
    world
        .zookeeper
        .poke("/brokers/topics/u/partitions/0/state", shrunk.as_bytes());
    let (heard, _guard) = Heard::listen();
    let notice = br#"{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1},{"topic":"u","partition":0}]}"#;
    world
        .zookeeper
        .poke("/isr_change_notification/isr_change_0000000001", notice);
    world.settle();
    let told = world.cached_at(2, "u-0");
    assert_eq!(told.as_deref(), Some("leader 3 isr [3] offline []"));
    assert_eq!(
        world.zookeeper.look_children("/isr_change_notification"),
        [""; 0]
    );
    heard.assert_says(&["/brokers/topics/t/partitions/1/state"]);
}

#[test]
fn a_registration_that_may_not_be_read_is_named_and_the_broker_stays() {
    let mut world = led();
    let (heard, _guard) = Heard::listen();
    world.zookeeper.conceal("/brokers/ids/2");
    world
        .klamm()
        .queue
        .put(ControllerEvent::BrokerModifications(BrokerId(2)));
    world.settle();
    heard.assert_says(&["/brokers/ids/2"]);
    assert!(world.alive_at(1).contains(&2));
    assert!(world.led_by("t-1").starts_with("leader 2"));
}

#[test]
fn what_is_compared_with_a_zookeeper_that_refuses_is_answered() {
    let mut world = led();
    let refused = Fault::Refused("for a test");
    world
        .klamm()
        .faults()
        .at_next(Call::TopicDeletions, refused);
    let slot = world.klamm().open_slot();
    world.klamm().queue.put(ControllerEvent::Compare(slot));
    world.settle();
    assert!(matches!(world.answer_to(slot), Answer::Compare(Err(_))));
    assert!(world.klamm().is_active());
}

/// What stands against the deletion of a topic when its broker dies in the midst of it, and ZooKeeper refuses what follows.
#[test]
fn a_broker_that_died_in_the_midst_of_a_deletion_is_told_again_whatever_was_refused() {
    for refused in [
        Call::PartitionStates,
        Call::Write,
        Call::TopicConfigs,
        Call::Feature,
    ] {
        for returns_first in [true, false] {
            let mut world = led();
            world.pause(3);
            world.zookeeper.poke("/admin/delete_topics/t", b"");
            world.settle();
            assert!(world.topic("t").is_some());
            let faults = world.klamm().faults().clone();
            faults.at_next(refused, Fault::Refused("not now"));
            world.kill(3);
            world.settle();
            if !returns_first {
                world.advance(A_MINUTE_MS);
            }
            world.start_broker(3);
            world.settle();
            faults.clear();
            world.advance(2 * A_MINUTE_MS);
            assert!(world.topic("t").is_none(), "{refused:?} {returns_first}");
            world.assert_converged();
        }
    }
}
