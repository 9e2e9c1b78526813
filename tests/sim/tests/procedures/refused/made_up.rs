//! What a refusal left undone is made up for, once and in full.

use super::*;
use klamm::event::ControllerEvent;

const REFUSED: Fault = Fault::Refused("NoAuth");

/// However many events fail, the role is looked at once for all of them.
#[test]
fn many_refusals_book_one_look_at_the_role() {
    let mut world = led();
    for _ in 0..5 {
        world.klamm().faults().at_next(Call::TopicNames, REFUSED);
        world.klamm().queue.put(ControllerEvent::TopicChange);
        world.settle();
        world.advance(100);
    }
    assert_eq!(world.klamm().faults().outstanding(), 0);
    let looks = |world: &mut World| {
        let calls = world.klamm().faults().calls();
        calls
            .into_iter()
            .filter(|call| *call == Call::RoleView)
            .count()
    };
    let before = looks(&mut world);
    world.advance(20_000);
    assert_eq!(looks(&mut world), before + 1);
    assert!(world.klamm().is_active());
}

/// Its creation was refused half way, so that its replicas have never been told anything. In sync a replica may hold
/// records: it is never told to begin a log anew, which it would do beside a directory that failed.
#[test]
fn a_replica_in_sync_is_never_told_that_it_is_new() {
    let mut world = led();
    world
        .klamm()
        .faults()
        .at_next(Call::DefaultBrokerConfig, REFUSED);
    world.create_topic("late", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(world.led_by("late-0"), "none");
    world.bounce(3);
    world.settle();
    assert_eq!(world.led_by("late-0"), "leader 1 isr [1,2] le 0");
    world.told();
    world.kill(2);
    world.klamm().faults().at_next(Call::Write, REFUSED);
    world.settle();
    world.start_broker(2);
    world.settle();
    let told = world.told();
    let anew: Vec<&String> = told
        .iter()
        .filter(|line| line.starts_with("L{2}") && line.contains("late-0"))
        .collect();
    assert!(!anew.is_empty(), "{told:#?}");
    assert!(anew.iter().all(|line| !line.contains(" new")), "{anew:#?}");
    world.catch_up();
    world.assert_converged();
}

/// A replica that was never told anything, and whose broker died amid a refusal, is not kept in sync.
#[test]
fn a_new_replica_whose_broker_died_amid_a_refusal_leaves_the_set_with_the_next_sweep() {
    let mut world = led();
    world
        .klamm()
        .faults()
        .at_next(Call::DefaultBrokerConfig, REFUSED);
    world.create_topic("late", &[&[1, 2]]);
    world.settle();
    world.bounce(3);
    world.settle();
    assert_eq!(world.led_by("late-0"), "leader 1 isr [1,2] le 0");
    world.kill(2);
    world.klamm().faults().at_next(Call::Write, REFUSED);
    world.settle();
    world.advance(2 * A_MINUTE_MS);
    assert!(
        world.led_by("late-0").starts_with("leader 1 isr [1] "),
        "{}",
        world.led_by("late-0")
    );
}

/// Nobody was there whom klamm could have given its partition to, and when somebody is ZooKeeper refuses a part.
#[test]
fn a_topic_without_a_place_survives_a_refusal() {
    let mut world = World::led(&[], "2.4");
    // Of partition 0 the topic is known, so that no sweep takes it for a new one.
    world.write_topic("t", None, &[&[2], &[9]]);
    world.add_broker(1, "2.4", "2.4");
    world.settle();
    assert_eq!(world.led_by("t-1"), "none");
    world.klamm().faults().at_next(Call::Topics, REFUSED);
    world.start_broker(1);
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    world.advance(2 * A_MINUTE_MS);
    assert_eq!(world.assigned("t-1"), [1]);
    assert!(
        world.led_by("t-1").starts_with("leader 1 isr [1] "),
        "{}",
        world.led_by("t-1")
    );
}

/// A topic that was led before, could not be read at the takeover, and is to be deleted: brokers know it, and are told that
/// it is gone although ZooKeeper refuses to say at first whether it was led.
#[test]
fn brokers_forget_a_doomed_topic_whose_states_could_not_be_read_at_first() {
    let mut world = led();
    let node = world.zookeeper.look("/brokers/topics/t").unwrap();
    world.klamm().kill();
    world.klamm().expire_session();
    world.zookeeper.poke("/brokers/topics/t", b"{nonsense");
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.start_klamm();
    world.settle();
    assert!(world.cached_at(1, "t-0").is_some());
    world
        .klamm()
        .faults()
        .at_next(Call::PartitionStates, REFUSED);
    world.zookeeper.poke("/brokers/topics/t", node.data());
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    world.advance(2 * A_MINUTE_MS);
    assert!(world.topic("t").is_none());
    for id in [1, 2, 3] {
        assert_eq!(world.cached_at(id, "t-0"), None, "broker {id}");
    }
    world.assert_converged();
}

/// One of two new topics is written by somebody else meanwhile, and can't be read again: the other is led all the same.
#[test]
fn a_topic_is_led_although_another_could_not_be_read_again() {
    let mut world = led();
    let faults = world.klamm().faults().clone();
    let others = Fault::meanwhile(|zookeeper| {
        let grown = br#"{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}"#;
        zookeeper.poke("/brokers/topics/two", grown);
    });
    faults.at_next(Call::Write, others);
    faults.at_next(Call::Topics, Fault::meanwhile(|_| ()));
    faults.at_next(Call::Topics, REFUSED);
    world.create_topic("one", &[&[1, 2]]);
    world.create_topic("two", &[&[1, 2]]);
    world.settle();
    assert_eq!(faults.outstanding(), 0);
    assert_eq!(world.led_by("one-0"), "leader 1 isr [1,2] le 0");
    world.advance(A_MINUTE_MS);
    for at in ["one-0", "two-0"] {
        assert_eq!(world.led_by(at), "leader 1 isr [1,2] le 0", "{at}");
    }
    assert_eq!(world.led_by("two-1"), "leader 2 isr [2,1] le 0");
    world.assert_converged();
}

/// t-0 [1,2] of brokers at 2.6, which rise to the last release one by one. With the second's halt nobody is left at 2.6, and
/// what follows from that is refused.
fn risen(refuse: impl FnOnce(&mut World)) -> World {
    let mut world = World::empty();
    for id in [1, 2] {
        world.add_broker(id, "3.9", "2.6");
        world.start_broker(id);
    }
    let disabled = br#"{"version":1,"status":0,"features":{}}"#;
    world.zookeeper.poke("/feature", disabled);
    world.start_klamm();
    world.settle();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.kill(1);
    world.settle();
    rise(&mut world, 1);
    world.catch_up();
    refuse(&mut world);
    world.kill(2);
    world.settle();
    world
}

fn rise(world: &mut World, id: i32) {
    world.broker_mut(id, |broker| broker.protocol = "3.9".parse().unwrap());
    world.start_broker(id);
    world.settle();
}

/// All that comes with a protocol is there: `/feature`, the topic's id, and the id beside the log. The second comes back.
#[track_caller]
fn assert_risen(world: &mut World) {
    let feature = world.zookeeper.look("/feature").unwrap();
    assert!(
        feature.text().contains("\"status\":1"),
        "{}",
        feature.text()
    );
    let id = world.topic("t").unwrap().topic_id;
    assert!(id.is_some());
    let beside_log = world.broker(1, |broker| broker.logs[&partition("t-0")]);
    assert_eq!(beside_log, id);
    rise(world, 2);
    world.catch_up();
    world.assert_converged();
}

#[test]
fn what_comes_with_a_protocol_is_made_up_for_where_a_call_was_refused() {
    for call in [Call::Topics, Call::Feature] {
        let mut world = risen(|world| world.klamm().faults().at_next(call, REFUSED));
        assert_eq!(world.klamm().faults().outstanding(), 0, "{call:?}");
        assert!(world.topic("t").unwrap().topic_id.is_none(), "{call:?}");
        world.advance(A_MINUTE_MS);
        assert_risen(&mut world);
    }
}

#[test]
fn a_feature_node_is_set_up_once_it_may_be_written() {
    let mut world = risen(|world| world.zookeeper.protect("/feature"));
    let (heard, _guard) = Heard::listen();
    assert!(world.topic("t").unwrap().topic_id.is_some());
    world.told();
    world.advance(3 * A_MINUTE_MS);
    assert_eq!(heard.lines(), [""; 0], "it was said already");
    assert_eq!(world.told(), [""; 0]);
    world.zookeeper.unprotect("/feature");
    world.advance(A_MINUTE_MS);
    assert_risen(&mut world);
}

/// The same at the takeover, and where it could not be understood.
#[test]
fn a_feature_node_that_was_no_use_at_the_takeover_is_set_up_once_it_is_repaired() {
    let disabled = br#"{"version":1,"status":0,"features":{}}"#;
    for (content, is_protected) in [(&disabled[..], true), (b"{", false)] {
        let mut world = World::of_brokers(&[1, 2], "3.9");
        world.zookeeper.poke("/feature", content);
        if is_protected {
            world.zookeeper.protect("/feature");
        }
        world.start_klamm();
        world.settle();
        world.advance(A_MINUTE_MS);
        assert_eq!(world.zookeeper.look("/feature").unwrap().data(), content);
        world.zookeeper.unprotect("/feature");
        world.zookeeper.poke("/feature", disabled);
        world.advance(A_MINUTE_MS);
        let feature = world.zookeeper.look("/feature").unwrap();
        assert!(feature.text().contains("\"status\":1"));
    }
}
