//! A partition's state that ZooKeeper refuses, or that nobody can understand, costs its partition alone, and no longer than
//! until the sweep after its repair. As long as it lasts it is named once, not with each try.

use super::*;
use tracing::Level;

const T0: &str = "/brokers/topics/t/partitions/0/state";
const BROKEN: &[u8] = b"{nonsense";

/// How often the state-change log says of a partition that it was not changed.
fn complaints(heard: &Heard, of: &str) -> usize {
    let named = format!("partition {of}: not changed: ");
    let lines = heard.lines();
    lines.iter().filter(|line| line.contains(&named)).count()
}

/// klamm goes, `act` happens, klamm returns.
fn while_nobody_leads(world: &mut World, act: impl FnOnce(&mut World)) {
    world.klamm().kill();
    world.klamm().expire_session();
    act(world);
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
}

#[test]
fn an_election_whose_outcome_may_not_be_written_is_held_once_it_may() {
    let mut world = led();
    let (heard, _guard) = Heard::listen_from(Level::INFO);
    world.zookeeper.protect(T0);
    world.kill(1);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1"));
    let said = complaints(&heard, "t-0");
    world.told();
    world.advance(5 * A_MINUTE_MS);
    assert_eq!((said, complaints(&heard, "t-0")), (1, 1));
    assert_eq!(world.told(), [""; 0], "nobody is told what did not happen");
    world.zookeeper.unprotect(T0);
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3]"));
    let told = world.cached_at(3, "t-0").unwrap();
    assert!(told.starts_with("leader 2 isr [2,3]"), "{told}");
    world.assert_converged();

    // Another time it is said again.
    world.zookeeper.protect(T0);
    world.kill(2);
    world.settle();
    world.advance(A_MINUTE_MS);
    assert_eq!(complaints(&heard, "t-0"), 2, "{:#?}", heard.lines());
}

#[test]
fn an_election_on_a_broken_state_is_held_once_it_is_repaired() {
    let mut world = led();
    let sound = world.zookeeper.look(T0).unwrap();
    world.zookeeper.poke(T0, BROKEN);
    world.kill(1);
    world.settle();
    world.advance(2 * A_MINUTE_MS);
    assert_eq!(world.zookeeper.look(T0).unwrap().data(), BROKEN);
    world.zookeeper.poke(T0, sound.data());
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3]"));
    world.assert_converged();
}

/// With the topic's configuration an operator allows an unclean election, and it can't be understood at first.
#[test]
fn an_election_that_waits_for_a_broken_configuration_is_held_once_it_is_repaired() {
    let mut world = led();
    world.allow_unclean("u", true);
    world.settle();
    let config = world.zookeeper.look("/config/topics/u").unwrap();
    world.zookeeper.poke("/config/topics/u", BROKEN);
    world.kill(1);
    world.settle();
    world.kill(3);
    world.settle();
    world.start_broker(1);
    world.settle();
    world.advance(A_MINUTE_MS);
    assert!(!world.led_by("u-0").starts_with("leader 1"));
    world.zookeeper.poke("/config/topics/u", config.data());
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("u-0").starts_with("leader 1 isr [1]"));
}

#[test]
fn a_replica_leaves_the_in_sync_set_once_that_may_be_written() {
    let mut world = led();
    world.zookeeper.protect(T0);
    world.kill(3);
    world.settle();
    world.advance(2 * A_MINUTE_MS);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
    world.zookeeper.unprotect(T0);
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 1");
    world.assert_converged();
}

#[test]
fn a_partition_whose_first_state_may_not_be_written_is_led_once_it_may() {
    let mut world = led_at("2.4");
    let (heard, _guard) = Heard::listen_from(Level::INFO);
    world.create_topic("late", &[&[1, 2]]);
    world.zookeeper.protect("/brokers/topics/late");
    world.settle();
    world.advance(3 * A_MINUTE_MS);
    assert_eq!(world.led_by("late-0"), "none");
    assert_eq!(complaints(&heard, "late-0"), 1, "{:#?}", heard.lines());
    world.zookeeper.unprotect("/brokers/topics/late");
    world.advance(A_MINUTE_MS);
    assert_eq!(world.led_by("late-0"), "leader 1 isr [1,2] le 0");
    world.assert_converged();
}

#[test]
fn a_state_that_was_broken_at_the_takeover_is_taken_in_once_it_is_repaired() {
    for leads_on in [true, false] {
        let mut world = led();
        let sound = world.zookeeper.look(T0).unwrap();
        while_nobody_leads(&mut world, |world| {
            world.zookeeper.poke(T0, BROKEN);
            if !leads_on {
                world.kill(1);
            }
        });
        world.advance(2 * A_MINUTE_MS);
        assert_eq!(world.zookeeper.look(T0).unwrap().data(), BROKEN);
        world.zookeeper.poke(T0, sound.data());
        world.advance(A_MINUTE_MS);
        if leads_on {
            assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
            world.kill(1);
            world.settle();
        }
        let led_by = world.led_by("t-0");
        assert!(led_by.starts_with("leader 2 isr [2,3]"), "{led_by}");
        world.assert_converged();
    }
}

#[test]
fn a_state_that_may_not_be_read_at_the_takeover_is_taken_in_once_it_may() {
    let mut world = led();
    while_nobody_leads(&mut world, |world| {
        world.zookeeper.conceal(T0);
        world.kill(1);
    });
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 1"));
    world.zookeeper.reveal(T0);
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3]"));
    world.assert_converged();
}

#[test]
fn a_state_that_may_not_be_written_at_the_takeover_is_written_once_it_may() {
    for (away, expected) in [(1, "leader 2 isr [2,3] "), (3, "leader 1 isr [1,2] ")] {
        let mut world = led();
        while_nobody_leads(&mut world, |world| {
            world.zookeeper.protect(T0);
            world.kill(away);
        });
        world.advance(A_MINUTE_MS);
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
        world.zookeeper.unprotect(T0);
        world.advance(A_MINUTE_MS);
        let led_by = world.led_by("t-0");
        assert!(led_by.starts_with(expected), "{led_by}");
        world.assert_converged();
    }
}

/// An event failed as a whole, and one state is refused beside it: neither hides the other.
#[test]
fn a_refused_state_is_not_forgotten_over_an_event_that_failed() {
    let mut world = led();
    let faults = world.klamm().faults().clone();
    world.zookeeper.protect(T0);
    world.kill(1);
    world.settle();
    for _ in 0..3 {
        faults.at_next(Call::TopicNames, Fault::Refused("not now"));
        world.advance(A_MINUTE_MS);
    }
    assert_eq!(faults.outstanding(), 0);
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 1"));
    world.zookeeper.unprotect(T0);
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3]"));
    world.assert_converged();
}
