//! What the controller knows is compared with ZooKeeper: what differs is told, and nothing is changed.

use klamm::effect::{Answer, Compared};
use klamm::event::ControllerEvent;
use klamm_sim::world::World;

fn compared(world: &mut World) -> Compared {
    let slot = world.klamm().open_slot();
    world.klamm().queue.put(ControllerEvent::Compare(slot));
    while world.klamm().replies.answer_to(slot).is_none() {
        assert!(world.step());
    }
    match world.answer_to(slot) {
        Answer::Compare(Ok(compared)) => compared,
        other => panic!("another answer: {other:?}"),
    }
}

#[test]
fn a_settled_cluster_is_known_as_it_is() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.kill(2);
    world.settle();
    let expected = Compared {
        topics: 1,
        partitions: 2,
        differences: Vec::new(),
    };
    assert_eq!(compared(&mut world), expected);
    world.start_broker(2);
    world.settle();
    assert_eq!(compared(&mut world), expected);
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}

#[test]
fn what_a_tool_wrote_and_the_controller_ignores_is_told() {
    let mut world = World::led(&[1, 2, 3], "2.4");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.write_topic("t", None, &[&[1, 3]]);
    world.settle();
    let found = compared(&mut world).differences;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("/brokers/topics/t: partition 0 is known as"),
        "{found:?}"
    );
    assert!(world.led_by("t-0").starts_with("leader 1 "));
}
