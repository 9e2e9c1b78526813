//! In-sync sets change: written by leaders below IBP 2.7, asked for by AlterPartition from it on.

use klamm::effect::{Answer, TopicReference};
use klamm::event::{AlterPartitionItem, AlterPartitionRequest};
use klamm::model::{
    BrokerEpoch, BrokerId, BrokerIds, KafkaError, LeaderEpoch, LeaderRecoveryState, PartitionEpoch,
    TopicId, TopicName,
};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

/// t-0 on [1,2], led by 1, both in sync.
fn two(release: &str) -> World {
    let mut world = World::led(&[1, 2], release);
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    world
}

/// What the one partition of an answer was told: leader, leader epoch, isr and partition epoch, or the code.
fn told(answer: Answer) -> Result<String, KafkaError> {
    let Answer::AlterPartition(Ok(mut answers)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(answers.len(), 1);
    answers.remove(0).result.map(|state| {
        format!(
            "leader {} le {} isr {} pe {}",
            state.leader,
            state.leader_epoch,
            state.isr,
            state.partition_epoch()
        )
    })
}

fn refused_whole(answer: Answer) -> KafkaError {
    match answer {
        Answer::AlterPartition(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Sends a request as it is and returns its answer.
fn ask(world: &mut World, request: AlterPartitionRequest) -> Answer {
    let slot = world.send_isr_request(request);
    world.settle();
    world.answer_to(slot)
}

#[test]
fn a_leader_below_2_7_writes_its_set_itself_and_everybody_hears_of_it() {
    let mut world = two("2.4");
    assert!(world.leader_writes_isr("t-0", &[1]));
    world.settle();
    assert_eq!(
        world.told(),
        ["U{1,2} alive [1,2,9] t-0 leader 1 isr [1] le 0"],
        "no leader epoch rose, so nobody is told to lead or follow"
    );
    let left = world.zookeeper.look_children("/isr_change_notification");
    assert_eq!(left, [""; 0]);
    assert!(world.leader_writes_isr("t-0", &[1, 2]));
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
    world.kill(1);
    world.settle();
    assert_eq!(
        world.led_by("t-0"),
        "leader 2 isr [2] le 1",
        "the set that the leader wrote is the one that is elected from"
    );
}

/// An unfenced controller of 2.0 and below may write after klamm has read, and brokers refuse what it sends then.
#[test]
fn a_leader_epoch_that_nobody_told_of_is_told_when_it_is_found() {
    let mut world = two("2.0");
    let late = br#"{"controller_epoch":0,"leader":2,"version":1,"leader_epoch":1,"isr":[2,1]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", late);
    let notice = br#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
    world
        .zookeeper
        .poke("/isr_change_notification/isr_change_0000000050", notice);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 1");
    world.assert_converged();
}

#[test]
fn several_notices_are_read_in_one_go_and_a_broken_one_costs_only_itself() {
    let mut world = two("2.4");
    world.create_topic("u", &[&[2, 1]]);
    world.settle();
    world.told();
    assert!(world.leader_writes_isr("t-0", &[1]));
    assert!(world.leader_writes_isr("u-0", &[2]));
    let poke = |name: &str, data: &[u8]| {
        let path = format!("/isr_change_notification/{name}");
        world.zookeeper.poke(&path, data);
    };
    poke("isr_change_0000000050", b"{");
    let unknown = br#"{"version":1,"partitions":[{"topic":"nobody","partition":3}]}"#;
    poke("isr_change_0000000051", unknown);
    world.settle();
    assert_eq!(
        world.told(),
        ["U{1,2} alive [1,2,9] t-0 leader 1 isr [1] le 0, u-0 leader 2 isr [2] le 0"]
    );
    let left = world.zookeeper.look_children("/isr_change_notification");
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_leader_from_2_7_on_gets_its_set_from_the_controller() {
    for release in ["2.7", "2.8", "3.0", "3.2", "3.4", "3.9"] {
        let mut world = two(release);
        let answer = world.leader_asks_isr("t-0", &[1]);
        assert_eq!(
            told(answer),
            Ok("leader 1 le 0 isr [1] pe 1".to_owned()),
            "{release}"
        );
        assert_eq!(world.led_by("t-0"), "leader 1 isr [1] le 0");
        assert_eq!(world.state("t-0").unwrap().controller_epoch.0, 1);
        assert_eq!(
            world.told(),
            ["U{1,2} alive [1,2,9] t-0 leader 1 isr [1] le 0"]
        );
        let answer = world.leader_asks_isr("t-0", &[1, 2]);
        assert_eq!(told(answer), Ok("leader 1 le 0 isr [1,2] pe 2".to_owned()));
    }
}

#[test]
fn an_answer_names_the_topic_as_the_request_did() {
    for (release, by_id) in [("2.8", false), ("3.2", false), ("3.4", true), ("3.9", true)] {
        let mut world = two(release);
        let request = world.isr_request("t-0", &[1]);
        let asked = request.partitions[0].topic.clone();
        assert_eq!(matches!(asked, TopicReference::Id(_)), by_id, "{release}");
        let Answer::AlterPartition(Ok(answers)) = ask(&mut world, request) else {
            panic!("{release}: refused");
        };
        assert_eq!(answers[0].topic, asked);
    }
}

#[test]
fn a_repeated_request_is_a_success_and_writes_nothing() {
    let mut world = two("3.9");
    let request = world.isr_request("t-0", &[1]);
    for _ in 0..2 {
        let answer = ask(&mut world, request.clone());
        assert_eq!(told(answer), Ok("leader 1 le 0 isr [1] pe 1".to_owned()));
    }
    let mut later = request;
    later.partitions[0].partition_epoch = PartitionEpoch(1);
    let answer = ask(&mut world, later);
    assert_eq!(told(answer), Ok("leader 1 le 0 isr [1] pe 1".to_owned()));
    assert_eq!(world.state("t-0").unwrap().partition_epoch.0, 1);
}

#[test]
fn a_stranger_or_a_former_incarnation_is_refused_as_a_whole() {
    let mut world = two("3.9");
    let request = world.isr_request("t-0", &[1]);
    let mut unknown_epoch = request.clone();
    unknown_epoch.from.epoch = BrokerEpoch(-1);
    let mut stranger = request;
    stranger.from.broker = BrokerId(99);
    for refused in [unknown_epoch, stranger] {
        let error = refused_whole(ask(&mut world, refused));
        assert_eq!(error, KafkaError::STALE_BROKER_EPOCH);
    }
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
}

#[test]
fn each_wrong_field_has_its_code() {
    type Wrong = fn(&mut AlterPartitionItem);
    let recovering: Wrong = |item| item.leader_recovery_state = LeaderRecoveryState::Recovering;
    let cases: [(&str, Wrong, KafkaError); 9] = [
        (
            "unknown topic id",
            |item| item.topic = TopicReference::Id(TopicId::new([7; 16]).unwrap()),
            KafkaError::UNKNOWN_TOPIC_ID,
        ),
        (
            "unknown partition",
            |item| item.partition = 5,
            KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            "older partition epoch",
            |item| item.partition_epoch = PartitionEpoch(0),
            KafkaError::INVALID_UPDATE_VERSION,
        ),
        (
            "later partition epoch",
            |item| item.partition_epoch = PartitionEpoch(9),
            KafkaError::NOT_CONTROLLER,
        ),
        (
            "older leader epoch",
            |item| item.leader_epoch = LeaderEpoch(0),
            KafkaError::FENCED_LEADER_EPOCH,
        ),
        (
            "later leader epoch",
            |item| item.leader_epoch = LeaderEpoch(9),
            KafkaError::NOT_CONTROLLER,
        ),
        ("recovery begun", recovering, KafkaError::INVALID_REQUEST),
        (
            "nobody in sync",
            |item| item.new_isr = BrokerIds::empty(),
            KafkaError::INVALID_REQUEST,
        ),
        (
            "a replica that isn't assigned",
            |item| item.new_isr = BrokerIds::from([1, 3]),
            KafkaError::FENCED_LEADER_EPOCH,
        ),
    ];
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[2, 1]]);
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 1");
    for (what, wrong, code) in cases {
        let before = world.state("t-0");
        let mut request = world.isr_request("t-0", &[1]);
        wrong(&mut request.partitions[0]);
        assert_eq!(told(ask(&mut world, request)), Err(code), "{what}");
        assert_eq!(world.state("t-0"), before, "{what}");
    }
    let mut both = world.isr_request("t-0", &[1, 2]);
    recovering(&mut both.partitions[0]);
    both.partitions[0].leader_epoch = LeaderEpoch(0);
    let error = told(ask(&mut world, both));
    assert_eq!(
        error,
        Err(KafkaError::FENCED_LEADER_EPOCH),
        "the epoch is judged before the recovery state"
    );
}

#[test]
fn leaders_of_kafka_2_7_to_3_0_hear_only_codes_that_they_know() {
    let known = [
        KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError::FENCED_LEADER_EPOCH,
        KafkaError::INVALID_UPDATE_VERSION,
    ];
    let mut world = two("2.8");
    let wrongs: [fn(&mut AlterPartitionItem); 5] = [
        |item| item.topic = TopicReference::Name(TopicName::new("nobody")),
        |item| item.leader_epoch = LeaderEpoch(9),
        |item| item.partition_epoch = PartitionEpoch(9),
        |item| item.new_isr = BrokerIds::empty(),
        |item| item.new_isr = BrokerIds::from([2]),
    ];
    for wrong in wrongs {
        let mut request = world.isr_request("t-0", &[1]);
        assert_eq!(request.version, 0);
        wrong(&mut request.partitions[0]);
        let error = told(ask(&mut world, request)).unwrap_err();
        assert!(known.contains(&error), "{error}");
    }
}

#[test]
fn a_dead_or_leaving_broker_is_not_let_into_a_set() {
    for (release, code) in [
        ("3.2", KafkaError::OPERATION_NOT_ATTEMPTED),
        ("3.9", KafkaError::INELIGIBLE_REPLICA),
    ] {
        let mut world = two(release);
        world.leader_asks_isr("t-0", &[1]);
        world.ask_shutdown(2);
        world.settle();
        let answer = world.leader_asks_isr("t-0", &[1, 2]);
        assert_eq!(told(answer), Err(code), "{release}");
        world.kill(2);
        world.settle();
        let answer = world.leader_asks_isr("t-0", &[1, 2]);
        assert_eq!(told(answer), Err(code), "{release}");
        assert!(world.led_by("t-0").contains("isr [1]"));
        world.start_broker(2);
        world.catch_up();
        assert!(world.led_by("t-0").contains("isr [1,2]"), "{release}");
    }
}

#[test]
fn a_recovering_leader_leaves_recovery_by_asking() {
    let mut world = World::led(&[1, 2], "3.9");
    world.allow_unclean("u", true);
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    world.kill(2);
    world.settle();
    world.start_broker(2);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("u-0"), "leader 2 isr [2] le 2 recovering");
    let mut still = world.isr_request("u-0", &[2, 1]);
    still.partitions[0].leader_recovery_state = LeaderRecoveryState::Recovering;
    assert_eq!(
        told(ask(&mut world, still)),
        Err(KafkaError::INVALID_REQUEST),
        "nobody else is in sync with a leader that recovers"
    );
    assert!(told(world.leader_asks_isr("u-0", &[2])).is_ok());
    assert_eq!(world.led_by("u-0"), "leader 2 isr [2] le 2");
    world.start_broker(1);
    world.catch_up();
    assert_eq!(world.led_by("u-0"), "leader 2 isr [2,1] le 2");
}

/// Upstream: `testAlterPartitionErrorsAfterUncleanElection`.
#[test]
fn a_recovering_leader_hears_of_a_wrong_epoch_before_anything_of_its_recovery() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.allow_unclean("u", true);
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    world.kill(1);
    world.settle();
    world.kill(2);
    world.settle();
    assert!(world.led_by("u-0").starts_with("leader -1 isr [2] "));
    world.start_broker(1);
    world.settle();
    let state = world.state("u-0").unwrap();
    let led = world.led_by("u-0");
    assert!(led.starts_with("leader 1 isr [1] ") && led.ends_with(" recovering"));
    type Wrong = fn(&mut AlterPartitionRequest);
    let cases: [(&str, Wrong, Result<KafkaError, KafkaError>); 7] = [
        (
            "broker epoch",
            |asked| asked.from.epoch = BrokerEpoch(-1),
            Err(KafkaError::STALE_BROKER_EPOCH),
        ),
        (
            "broker",
            |asked| asked.from.broker = BrokerId(99),
            Err(KafkaError::STALE_BROKER_EPOCH),
        ),
        (
            "older partition epoch",
            |asked| asked.partitions[0].partition_epoch.0 -= 1,
            Ok(KafkaError::INVALID_UPDATE_VERSION),
        ),
        (
            "later partition epoch",
            |asked| asked.partitions[0].partition_epoch.0 += 1,
            Ok(KafkaError::NOT_CONTROLLER),
        ),
        (
            "older leader epoch",
            |asked| asked.partitions[0].leader_epoch.0 -= 1,
            Ok(KafkaError::FENCED_LEADER_EPOCH),
        ),
        (
            "later leader epoch",
            |asked| asked.partitions[0].leader_epoch.0 += 1,
            Ok(KafkaError::NOT_CONTROLLER),
        ),
        (
            "recovery with somebody else in sync",
            |_| {},
            Ok(KafkaError::INVALID_REQUEST),
        ),
    ];
    for (what, wrong, code) in cases {
        for recovery in [
            LeaderRecoveryState::Recovering,
            LeaderRecoveryState::Recovered,
        ] {
            let mut request = world.isr_request("u-0", &[1, 2]);
            wrong(&mut request);
            if code == Ok(KafkaError::INVALID_REQUEST)
                || recovery == LeaderRecoveryState::Recovering
            {
                request.partitions[0].leader_recovery_state = LeaderRecoveryState::Recovering;
            }
            let answer = ask(&mut world, request);
            match code {
                Ok(code) => assert_eq!(told(answer), Err(code), "{what}"),
                Err(code) => assert_eq!(refused_whole(answer), code, "{what}"),
            }
            assert_eq!(world.state("u-0"), Some(state.clone()), "{what}");
        }
    }
}

#[test]
fn both_ways_work_side_by_side_in_a_rolling_upgrade() {
    let mut world = World::empty();
    for (id, ibp) in [(1, "2.6"), (2, "3.9")] {
        world.add_broker(id, "3.9", ibp);
        world.start_broker(id);
    }
    world.start_klamm();
    world.settle();
    world.create_topic("t", &[&[1, 2], &[2, 1]]);
    world.settle();
    assert!(world.leader_writes_isr("t-0", &[1]));
    assert!(told(world.leader_asks_isr("t-1", &[2])).is_ok());
    world.settle();
    for id in [1, 2] {
        let at = |of: &str| world.cached_at(id, of).unwrap();
        assert_eq!(at("t-0"), "leader 1 isr [1] offline []");
        assert_eq!(at("t-1"), "leader 2 isr [2] offline []");
    }
    world.catch_up();
    assert!(world.led_by("t-0").contains("isr [1,2]"));
    assert!(world.led_by("t-1").contains("isr [2,1]"));
    world.assert_converged();
}

#[test]
fn a_state_written_by_somebody_else_meanwhile_is_read_again() {
    let mut world = two("3.9");
    let theirs = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", theirs);
    let answer = world.leader_asks_isr("t-0", &[1]);
    assert_eq!(told(answer), Err(KafkaError::INVALID_UPDATE_VERSION));
    let mut request = world.isr_request("t-0", &[1]);
    request.partitions[0].partition_epoch = PartitionEpoch(1);
    let answer = ask(&mut world, request);
    assert_eq!(told(answer), Ok("leader 1 le 0 isr [1] pe 2".to_owned()));
}

#[test]
fn a_write_whose_answer_was_lost_is_answered_as_written() {
    for fault in [Fault::LossBefore, Fault::LossAfter] {
        let mut world = two("3.9");
        world.klamm().faults().at_next(Call::Write, fault);
        let answer = world.leader_asks_isr("t-0", &[1]);
        assert_eq!(told(answer), Ok("leader 1 le 0 isr [1] pe 1".to_owned()));
    }
}

#[test]
fn of_several_partitions_each_has_its_own_answer() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2], &[1, 2], &[1, 2]]);
    world.settle();
    world.told();
    let mut request = world.isr_request("t-0", &[1]);
    for index in [1, 2] {
        let mut more = world.isr_request(&format!("t-{index}"), &[1]);
        request.partitions.append(&mut more.partitions);
    }
    request.partitions[1].leader_epoch = LeaderEpoch(-1);
    let Answer::AlterPartition(Ok(answers)) = ask(&mut world, request) else {
        panic!("refused as a whole");
    };
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| (answer.partition, answer.result.as_ref().err().copied()))
        .collect();
    let fenced = Some(KafkaError::FENCED_LEADER_EPOCH);
    assert_eq!(codes, [(0, None), (1, fenced), (2, None)]);
    assert!(world.led_by("t-0").contains("isr [1]"));
    assert!(world.led_by("t-1").contains("isr [1,2]"));
    assert!(world.led_by("t-2").contains("isr [1]"));
}

#[test]
fn ids_stay_known_where_the_protocol_fell_below_2_8() {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let request = world.isr_request("t-0", &[1]);
    assert!(request.version >= 2);
    world.klamm().kill();
    world.klamm().expire_session();
    let mut settings = World::settings();
    settings.protocol = Some("2.7".parse().unwrap());
    world.start_klamm_with(settings);
    world.settle();
    assert!(told(ask(&mut world, request)).is_ok());
}
