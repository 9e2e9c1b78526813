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
