//! ElectLeaders: elections that a request asks for. Upstream: `LeaderElectionCommandTest`,
//! `PlaintextAdminIntegrationTest`.

use klamm::effect::Answer;
use klamm::event::ElectionType::{self, Preferred, Unclean};
use klamm::model::KafkaError;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

/// Brokers 1 to 3: t-0 [1,2,3] is led by 2, t-1 [2,3,1] by 2; alone-0 [3] by 3.
fn moved() -> World {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.create_topic("alone", &[&[3]]);
    world.settle();
    world.bounce(1);
    world.settle();
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3,1] le 1");
    world.told();
    world
}

/// The same where 1, alone in sync for t-0, is dead.
fn leaderless() -> World {
    let mut world = moved();
    world.leader_asks_isr("t-0", &[2]);
    world.kill(2);
    world.settle();
    let state = world.led_by("t-0");
    assert!(state.starts_with("leader -1 isr [2] "), "{state}");
    world
}

/// The answer a line a partition: `t-0 ok`, `t-1 84`.
fn ask(world: &mut World, asked: Option<&[&str]>, election: ElectionType) -> Vec<String> {
    match world.elect_leaders(asked, election) {
        Answer::ElectLeaders(Ok(answers)) => answers
            .into_iter()
            .map(|(partition, result)| match result {
                Ok(()) => format!("{partition} ok"),
                Err(api) => {
                    assert!(!api.message.is_empty(), "{partition}: {}", api.error);
                    format!("{partition} {}", api.error.0)
                }
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn preferred_leaders_are_elected_and_each_partition_has_its_answer() {
    let mut world = moved();
    world.zookeeper.poke("/admin/delete_topics/alone", b"");
    world.pause(3);
    world.settle();
    let asked = ["t-0", "t-1", "t-1", "t-7", "nowhere-0", "alone-0"];
    assert_eq!(
        ask(&mut world, Some(&asked), Preferred),
        ["alone-0 17", "nowhere-0 3", "t-0 ok", "t-1 84", "t-7 3"]
    );
    assert_eq!(world.led_by("t-0"), "leader 1 isr [2,3,1] le 2");
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 84"]);
    assert_eq!(ask(&mut world, Some(&[]), Preferred), [""; 0]);
}

/// Who asks a broker next finds the new leader there.
#[test]
fn an_election_is_done_when_brokers_have_heard_of_it_and_one_that_hangs_holds_it_up_for_a_second() {
    let mut world = moved();
    world.pause(3);
    let slot = world.ask_election(Some(&["t-0", "t-1"]), Preferred);
    world.settle();
    assert_eq!(world.klamm().replies.answer_to(slot), None);
    world.advance(1_000);
    let Answer::ElectLeaders(Ok(answers)) = world.answer_to(slot) else {
        panic!("no elections");
    };
    assert!(answers[0].1.is_ok(), "{answers:?}");
}

#[test]
fn an_election_that_no_broker_has_heard_of_in_time_says_so_and_holds() {
    let mut world = moved();
    for id in [1, 2, 3] {
        world.pause(id);
    }
    let slot = world.ask_election(Some(&["t-0", "t-1"]), Preferred);
    world.advance(30_000);
    let Answer::ElectLeaders(Ok(answers)) = world.answer_to(slot) else {
        panic!("no elections");
    };
    let codes: Vec<i16> = answers
        .iter()
        .map(|(_, result)| result.as_ref().err().map_or(0, |api| api.error.0))
        .collect();
    assert_eq!(codes, [7, 84], "not heard of, and not needed");
    assert_eq!(world.led_by("t-0"), "leader 1 isr [2,3,1] le 2");
}

#[test]
fn asked_about_nothing_in_particular_only_what_needed_an_election_is_named() {
    let mut world = moved();
    assert_eq!(ask(&mut world, None, Preferred), ["t-0 ok"]);
    assert_eq!(ask(&mut world, None, Preferred), [""; 0]);
    assert_eq!(ask(&mut world, None, Unclean), [""; 0]);
    world.assert_converged();
}

/// Java takes all partitions from the metadata cache, which has forgotten such a topic by then.
#[test]
fn asked_about_nothing_in_particular_what_is_being_deleted_is_not_named() {
    let mut world = moved();
    world.kill(3);
    world.settle();
    world.zookeeper.poke("/admin/delete_topics/alone", b"");
    world.settle();
    assert!(world.topic("alone").is_some(), "broker 3 has its log");
    assert_eq!(ask(&mut world, None, Preferred), ["t-0 ok"]);
    assert_eq!(
        ask(&mut world, Some(&["alone-0"]), Preferred),
        ["alone-0 17"]
    );
}

#[test]
fn a_preferred_replica_that_is_away_or_behind_is_not_elected() {
    let mut world = moved();
    world.leader_asks_isr("t-0", &[2, 3]);
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 80"]);
    world.kill(1);
    world.settle();
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 80"]);
    assert!(world.led_by("t-0").starts_with("leader 2 "));
}

/// Upstream: `testElectPreferredLeaders`.
#[test]
fn another_order_of_the_replicas_moves_no_leader_until_somebody_asks() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.create_topic("u", &[&[1, 2, 3]]);
    world.settle();
    let order = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3,1]}]}"#;
    world.zookeeper.poke("/admin/reassign_partitions", order);
    world.settle();
    assert_eq!(world.assigned("t-0"), [2, 3, 1]);
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1,2,3] "));
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 ok"]);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [1,2,3] "));
    assert_eq!(world.led_by("u-0"), "leader 1 isr [1,2,3] le 0");

    world.kill(2);
    world.settle();
    let state = world.led_by("t-0");
    assert!(state.starts_with("leader 3 isr [1,3] "), "{state}");
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 80"]);
    assert_eq!(ask(&mut world, None, Preferred), ["t-0 80"]);
    assert_eq!(world.led_by("t-0"), state, "it stays as it is");
    world.assert_converged();
}

/// Upstream: `testElectUncleanLeadersForUnknownPartitions`, `…Noop`, `…AndNoop`.
#[test]
fn an_unclean_election_of_what_is_unknown_or_led_says_so_and_costs_the_others_nothing() {
    let mut world = leaderless();
    let asked = ["nowhere-0", "t-0", "t-1", "t-7"];
    assert_eq!(
        ask(&mut world, Some(&asked), Unclean),
        ["nowhere-0 3", "t-0 ok", "t-1 84", "t-7 3"]
    );
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1] "));
    let led = world.led_by("t-1");
    assert_eq!(
        ask(&mut world, Some(&["t-0", "t-1"]), Unclean),
        ["t-0 84", "t-1 84"]
    );
    assert_eq!(world.led_by("t-1"), led);
}

#[test]
fn an_unclean_election_by_request_asks_no_configuration() {
    let mut world = leaderless();
    world.allow_unclean("t", false);
    assert_eq!(
        ask(&mut world, Some(&["t-0", "t-1", "alone-0"]), Unclean),
        ["alone-0 84", "t-0 ok", "t-1 84"]
    );
    let state = world.led_by("t-0");
    assert!(state.starts_with("leader 1 isr [1] "), "{state}");
    assert_eq!(world.klamm().snapshot().gauges.unclean_leader_elections, 1);
    world.start_broker(2);
    world.settle();
    world.catch_up();
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1,"));
    world.assert_converged();
}

#[test]
fn without_any_live_replica_nobody_is_elected() {
    let mut world = leaderless();
    world.kill(3);
    world.settle();
    assert_eq!(ask(&mut world, Some(&["alone-0"]), Unclean), ["alone-0 83"]);
    assert_eq!(ask(&mut world, None, Unclean), ["alone-0 83", "t-0 ok"]);
    assert!(world.led_by("alone-0").starts_with("leader -1 isr [3] "));
}

#[test]
fn one_who_is_not_the_controller_or_no_more_says_so() {
    let refused = Answer::ElectLeaders(Err(KafkaError::NOT_CONTROLLER));
    let mut world = moved();
    // Lost while it is at it.
    let seized = Fault::meanwhile(|zookeeper| {
        klamm_sim::world::seize_role(zookeeper, klamm::model::BrokerId(2));
    });
    world.klamm().faults().at_next(Call::Write, seized);
    assert_eq!(world.elect_leaders(Some(&["t-0"]), Preferred), refused);
    // Out of office.
    assert_eq!(world.elect_leaders(None, Unclean), refused);
    // The queue that it waits in is cleared.
    let waiting = world.ask_election(None, Preferred);
    world.klamm().expire_session();
    assert_eq!(world.answer_to(waiting), refused);
}

#[test]
fn what_zookeeper_refuses_is_answered_with_its_reason() {
    let mut world = moved();
    let refused = Fault::Refused("for a test");
    world.klamm().faults().at_next(Call::Write, refused);
    assert_eq!(
        ask(&mut world, Some(&["t-0", "t-1"]), Preferred),
        ["t-0 -1", "t-1 84"]
    );
    assert_eq!(ask(&mut world, Some(&["t-0"]), Preferred), ["t-0 ok"]);
}
