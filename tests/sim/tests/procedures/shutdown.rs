//! Brokers leave gently: ControlledShutdown.

use klamm::effect::{Answer, ReplyTo};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerEpoch, BrokerId, KafkaError, TopicPartition};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition};

fn three(release: &str) -> World {
    let mut world = World::led(&[1, 2, 3], release);
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    world.told();
    world
}

fn remaining(world: &mut World, slot: ReplyTo) -> Result<Vec<TopicPartition>, KafkaError> {
    match world.answer_to(slot) {
        Answer::ControlledShutdown(remaining) => remaining,
        other => panic!("{other:?}"),
    }
}

fn leave(world: &mut World, id: i32) -> Result<Vec<TopicPartition>, KafkaError> {
    let slot = world.ask_shutdown(id);
    world.settle();
    remaining(world, slot)
}

#[test]
fn leaders_move_first_then_followers_leave_the_in_sync_sets() {
    let mut world = three("2.8");
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    assert_eq!(
        world.told(),
        [
            "S{1} t-1 le 0 keep",
            "L{1,2,3} t-0 leader 2 isr [2,3] le 1",
            "U{1,2,3} alive [1,2,3,9] t-0 leader 2 isr [2,3] le 1 offline [1]",
            "L{2,3} t-1 leader 2 isr [2,3] le 1",
            "U{1,2,3} alive [1,2,3,9] t-1 leader 2 isr [2,3] le 1 offline [1]",
            // Java says le 0 again, which brokers from 2.6 to 3.4.0 refuse (KAFKA-13972).
            "S{1} t-1 le 1 keep",
        ]
    );
    let fetches = world.broker(1, |broker| broker.replicas[&partition("t-1")].is_fetching);
    assert!(!fetches, "it would rejoin the in-sync set at once");
    world.kill(1);
    world.settle();
    let led = [world.led_by("t-0"), world.led_by("t-1")];
    assert_eq!(led, ["leader 2 isr [2,3] le 1", "leader 2 isr [2,3] le 1"]);
}

#[test]
fn a_leaving_broker_is_let_go_once_it_has_heard_that_it_leads_no_more() {
    let mut world = three("3.9");
    world.pause(1);
    let slot = world.ask_shutdown(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 1");
    assert_eq!(world.klamm().replies.unanswered(), [slot], "it leads on");
    world.resume(1);
    world.settle();
    assert!(world.broker(1, |broker| broker.leads(&partition("t-0")).is_none()));
    assert_eq!(remaining(&mut world, slot), Ok(Vec::new()));
}

#[test]
fn a_leaving_broker_that_answers_nothing_is_let_go_after_a_second() {
    let mut world = three("3.9");
    world.pause(1);
    let slot = world.ask_shutdown(1);
    world.advance(900);
    assert_eq!(world.klamm().replies.unanswered(), [slot]);
    world.advance(200);
    assert_eq!(remaining(&mut world, slot), Ok(Vec::new()));
}

#[test]
fn a_broker_that_waits_to_be_let_go_is_sent_to_the_next_controller_when_the_role_goes() {
    let mut world = three("3.9");
    world.pause(1);
    let slot = world.ask_shutdown(1);
    world.settle();
    world.java_takes_role(2);
    world.settle();
    assert_eq!(
        remaining(&mut world, slot),
        Err(KafkaError::STALE_CONTROLLER_EPOCH)
    );
}

#[test]
fn no_partition_is_leaderless_at_any_moment_of_a_gentle_stop() {
    let mut world = three("3.9");
    leave(&mut world, 2).unwrap();
    world.kill(2);
    world.settle();
    let leaderless: Vec<_> = world
        .told()
        .into_iter()
        .filter(|line| line.contains("leader -1"))
        .collect();
    assert_eq!(leaderless, [""; 0]);
    for of in ["t-0", "t-1"] {
        let leader = world.state(of).unwrap().leader_and_isr.leader;
        assert!(world.broker(leader.0, |broker| broker.leads(&partition(of)).is_some()));
    }
}

#[test]
fn brokers_leave_one_after_the_other_and_the_last_in_sync_replica_stays() {
    let mut world = World::led(&[0, 1, 2], "2.8");
    world.create_topic("t", &[&[0, 1, 2]]);
    world.settle();
    assert_eq!(leave(&mut world, 2), Ok(Vec::new()));
    assert_eq!(world.led_by("t-0"), "leader 0 isr [0,1] le 1");
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    for id in [0, 1, 2] {
        let told = world.cached_at(id, "t-0").unwrap();
        assert!(told.starts_with("leader 0 isr [0] "), "{told}");
    }
    assert_eq!(leave(&mut world, 0), Ok(vec![partition("t-0")]));
    assert!(world.led_by("t-0").starts_with("leader 0 isr [0] "));
}

#[test]
fn two_brokers_that_leave_at_once_get_exact_answers() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 1, 3], &[1, 2]]);
    world.settle();
    let (first, second) = (world.ask_shutdown(1), world.ask_shutdown(2));
    world.settle();
    assert_eq!(remaining(&mut world, first), Ok(Vec::new()));
    assert_eq!(
        remaining(&mut world, second),
        Ok(vec![partition("t-2")]),
        "nobody but 2 can lead t-2 while 1 is leaving"
    );
    assert!(world.led_by("t-0").starts_with("leader 3 isr [3] "));
    assert!(world.led_by("t-1").starts_with("leader 3 isr [3] "));
    assert!(world.led_by("t-2").starts_with("leader 2 isr [2] "));
}

#[test]
fn a_partition_with_one_replica_is_neither_moved_nor_counted() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("single", &[&[1]]);
    world.settle();
    world.told();
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    assert_eq!(world.led_by("single-0"), "leader 1 isr [1] le 0");
}

#[test]
fn a_repeated_request_is_answered_the_same_and_moves_nothing() {
    let mut world = three("2.8");
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    let led = [world.led_by("t-0"), world.led_by("t-1")];
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    assert_eq!([world.led_by("t-0"), world.led_by("t-1")], led);
}

#[test]
fn a_request_of_a_former_incarnation_or_a_stranger_is_refused() {
    let mut world = three("2.8");
    let epoch = world.incarnation(1).epoch;
    let mut ask = |id: i32, broker_epoch| {
        let reply_to = world.klamm().open_slot();
        world
            .klamm()
            .queue
            .put(ControllerEvent::ControlledShutdown {
                broker: BrokerId(id),
                broker_epoch,
                reply_to,
            });
        world.settle();
        remaining(&mut world, reply_to)
    };
    let stale = Some(BrokerEpoch(epoch.0 - 1));
    assert_eq!(ask(1, stale), Err(KafkaError::STALE_BROKER_EPOCH));
    assert_eq!(ask(7, None), Err(KafkaError::BROKER_NOT_AVAILABLE));
    assert_eq!(ask(1, None), Ok(Vec::new()), "old brokers send no epoch");
}

#[test]
fn one_who_is_not_the_controller_says_so() {
    let mut world = three("2.8");
    world.java_takes_role(2);
    world.settle();
    assert_eq!(
        leave(&mut world, 1),
        Err(KafkaError::STALE_CONTROLLER_EPOCH)
    );
}

#[test]
fn a_leaving_broker_gets_no_new_leadership_until_it_has_bounced() {
    let mut world = World::led(&[1, 2], "2.8");
    leave(&mut world, 1).unwrap();
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 0");
    world.bounce(1);
    world.settle();
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.led_by("u-0"), "leader 1 isr [1,2] le 0");
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
}

/// Leaders that change their in-sync sets in the same moment cost a round, and nothing else.
#[test]
fn a_broker_leaves_although_its_partitions_are_written_by_their_leaders_meanwhile() {
    let mut world = three("2.4");
    let meanwhile = Fault::meanwhile(|zookeeper| {
        for at in [0, 1] {
            let path = format!("/brokers/topics/t/partitions/{at}/state");
            let state = zookeeper.look(&path).unwrap();
            zookeeper.poke(&path, state.data());
        }
    });
    world.klamm().faults().at_next(Call::Write, meanwhile);
    assert_eq!(leave(&mut world, 1), Ok(Vec::new()));
    assert_eq!(world.klamm().faults().outstanding(), 0);
    let led = [world.led_by("t-0"), world.led_by("t-1")];
    assert_eq!(led, ["leader 2 isr [2,3] le 1", "leader 2 isr [2,3] le 1"]);
    world.kill(1);
    world.settle();
    world.assert_converged();
}

#[test]
fn a_broker_that_registered_a_moment_ago_is_taken_in_before_it_is_let_go() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.settle();
    world.expire_broker(1);
    world.register_again(1);
    // Its request is faster than the watch.
    world.klamm().queue.lose_events();
    let slot = world.ask_shutdown(1);
    world.settle();
    world.advance(5_000);
    assert_eq!(
        world.answer_to(slot),
        klamm::effect::Answer::ControlledShutdown(Ok(Vec::new()))
    );
    // What the watch tells of now makes it nothing but what it was let go as: the leader of nothing.
    world
        .klamm()
        .queue
        .put(klamm::event::ControllerEvent::BrokerChange);
    world.settle();
    let epoch = world.broker(1, |broker| broker.epoch);
    let known = world
        .klamm()
        .context()
        .registration(klamm::model::BrokerId(1))
        .map(|known| known.epoch);
    assert_eq!(known, Some(epoch));
    assert!(
        world
            .klamm()
            .context()
            .shutting_down()
            .contains(&klamm::model::BrokerId(1))
    );
    assert!(!world.led_by("t-0").starts_with("leader 1 "));
}

/// Of a life that klamm could not look at nothing is promised: the broker asks again, and nobody moved meanwhile.
#[test]
fn a_broker_that_registered_a_moment_ago_is_refused_while_zookeeper_refuses_the_look() {
    let mut world = three("3.9");
    world.expire_broker(1);
    world.register_again(1);
    world.klamm().queue.lose_events();
    let refused = Fault::Refused("NoAuth");
    world.klamm().faults().at_next(Call::Brokers, refused);
    assert_eq!(
        leave(&mut world, 1),
        Err(KafkaError::STALE_CONTROLLER_EPOCH)
    );
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2,3] le 0");
    assert!(world.klamm().context().shutting_down().is_empty());
    let slot = world.ask_shutdown(1);
    world.settle();
    world.advance(5_000);
    assert_eq!(remaining(&mut world, slot), Ok(Vec::new()));
    assert!(!world.led_by("t-0").starts_with("leader 1 "));
}

/// The server that klamm asks has not heard of the new registration: a bounce is yet to come, and would make what was
/// promised void.
#[test]
fn a_broker_whose_registration_a_lagging_server_does_not_know_is_asked_to_come_again() {
    let mut world = three("3.9");
    let follower = world.zookeeper.add_follower();
    let session = world.klamm().zk().session().unwrap();
    world.zookeeper.connect_to(session.id(), follower);
    world.expire_broker(1);
    world.register_again(1);
    assert_eq!(leave(&mut world, 1), Err(KafkaError::STALE_BROKER_EPOCH));
    assert!(world.klamm().context().shutting_down().is_empty());
    let lag = world.zookeeper.lag_of(follower);
    world.zookeeper.follow(follower, lag);
    world.settle();
    let slot = world.ask_shutdown(1);
    world.settle();
    world.advance(5_000);
    assert_eq!(remaining(&mut world, slot), Ok(Vec::new()));
    assert!(!world.led_by("t-0").starts_with("leader 1 "));
}
