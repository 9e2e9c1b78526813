//! In-sync sets that leaders wrote and the controller hasn't heard of yet (IBP below 2.7): it must not conclude from what it
//! knows that there is nothing to do.

use klamm::model::BrokerId;
use klamm::zk::znode;
use klamm_sim::world::World;

/// t-0 is on brokers 3 and 2, led by 3, which has just let 2 in and told nobody; the controller knows of 3 alone.
fn let_in_unheard() -> World {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[3, 2]]);
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3] le 1");
    let state = world.state("t-0").unwrap();
    let mut written = state.leader_and_isr;
    written.isr = [3, 2].into_iter().map(BrokerId).collect();
    world.zookeeper.poke(
        "/brokers/topics/t/partitions/0/state",
        &znode::encode_state(&written, state.controller_epoch),
    );
    world
}

#[test]
fn who_was_let_in_leads_when_the_leader_dies() {
    let mut world = let_in_unheard();
    world.kill(3);
    world.settle();
    assert!(
        world.led_by("t-0").starts_with("leader 2 isr [2] "),
        "{}",
        world.led_by("t-0")
    );
}

#[test]
fn who_was_let_in_leads_when_the_leader_leaves_gently() {
    let mut world = let_in_unheard();
    world.ask_shutdown(3);
    world.settle();
    assert!(
        world.led_by("t-0").starts_with("leader 2 isr [2] "),
        "{}",
        world.led_by("t-0")
    );
}

#[test]
fn who_was_let_in_and_dies_leaves_the_in_sync_set_at_once() {
    let mut world = let_in_unheard();
    world.kill(2);
    world.settle();
    assert!(
        world.led_by("t-0").starts_with("leader 3 isr [3] "),
        "{}",
        world.led_by("t-0")
    );
}
