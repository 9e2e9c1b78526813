//! Who is the controller: taking the role, keeping it, losing it, giving it back.

use klamm::controller::Stop;
use klamm::effect::Answer;
use klamm::event::ControllerEvent;
use klamm::machine::candidacy::{TakeoverPolicy, Unfit};
use klamm::model::{BrokerId, KafkaError, SecurityProtocol, SharedSetting, SharedSettings};
use klamm::port::SurveyOutcome;
use klamm::zk::{paths, znode};
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, endpoint, seize_role};
use klamm_sim::zookeeper::{CreateMode, Op};

/// Who is registered in `/brokers/ids`.
fn registered(world: &World) -> Vec<String> {
    world.zookeeper.look_children("/brokers/ids")
}

/// That a klamm which is not the controller has left nothing of the role behind.
fn assert_out_of_office(world: &mut World) {
    assert!(!world.klamm().is_active());
    assert!(!registered(world).contains(&"9".to_owned()));
    assert_eq!(world.klamm().channels.open(), []);
    assert_eq!(world.klamm().replies.unanswered(), []);
    let snapshot = world.klamm().snapshot();
    let gauges = klamm::state::Gauges {
        unclean_leader_elections: snapshot.gauges.unclean_leader_elections,
        ..Default::default()
    };
    assert_eq!(snapshot.gauges, gauges);
    assert!(!snapshot.is_loaded);
}

#[test]
fn a_vacant_role_is_taken_at_start() {
    let mut world = World::led(&[1, 2], "2.8");
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 1));
    assert_eq!(registered(&world), ["1", "2", "9"]);
    assert_eq!(world.zookeeper.look_children("/klamm/ids"), ["9"]);
    assert!(world.klamm().snapshot().is_loaded);
    let node = world.zookeeper.look(paths::CONTROLLER).unwrap();
    assert!(znode::decode_controller(node.data()).unwrap().is_klamm);
}

#[test]
fn a_standby_is_not_registered_and_tells_nobody_anything() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.java_takes_role(1);
    world.start_klamm_with(klamm::controller::ControllerSettings {
        takeover: TakeoverPolicy::Vacant,
        ..World::settings()
    });
    world.settle();
    world.advance(3_600_000);
    assert_eq!(world.controller(), Some(1));
    assert!(world.standing_by().contains("broker 1"));
    assert_eq!(world.told(), [""; 0]);
    assert_out_of_office(&mut world);
}

#[test]
fn a_role_that_falls_vacant_is_taken() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    let java = world.java_takes_role(1);
    world.start_klamm_with(klamm::controller::ControllerSettings {
        takeover: TakeoverPolicy::Vacant,
        ..World::settings()
    });
    world.settle();
    java.close();
    world.settle();
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 2));
}

#[test]
fn a_held_role_is_taken_from_a_java_broker() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.java_takes_role(1);
    world.start_klamm();
    world.settle();
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 2));
}

#[test]
fn a_role_that_changes_hands_faster_than_it_can_be_read_is_taken_all_the_same() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.start_klamm();
    for round in 0..20 {
        let rival = BrokerId(1 + round % 2);
        let faults = world.klamm().faults().clone();
        faults.at_next(
            Call::TakeRole,
            Fault::meanwhile(move |zookeeper| {
                seize_role(zookeeper, rival);
            }),
        );
    }
    world.settle();
    assert_eq!(world.time.now_ms(), 0, "no time passed");
    assert_eq!(
        (world.controller(), world.controller_epoch()),
        (Some(9), 21)
    );
}

#[test]
fn a_deposed_klamm_leaves_at_once_and_tries_again_later_and_later() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    let mut delay_ms = 5_000;
    for _ in 0..3 {
        world.java_takes_role(1);
        world.settle();
        assert_eq!(world.controller(), Some(1));
        assert_eq!(world.told(), [""; 0]);
        assert_out_of_office(&mut world);
        world.advance(delay_ms - 1);
        assert_eq!(world.controller(), Some(1), "it waits {delay_ms} ms");
        world.advance(1);
        assert_eq!(world.controller(), Some(9), "it waits {delay_ms} ms");
        world.told();
        delay_ms *= 2;
    }
}

#[test]
fn a_controller_node_deleted_by_hand_begins_a_new_term_at_once() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.told();
    world.zookeeper.uproot(paths::CONTROLLER);
    world.settle();
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 2));
    assert_eq!(registered(&world), ["1", "2", "9"]);
    assert_eq!(world.told()[0], "U{1,2} alive [1,2,9]");
}

#[test]
fn of_two_klamms_one_leads_and_the_other_takes_over_when_it_dies() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.settle();
    let mut second = World::settings();
    second.own_id = BrokerId(8);
    second.listeners = vec![endpoint(8)];
    world.start_klamm_with(second);
    world.settle();
    world.advance(3_600_000);
    assert_eq!(world.controller(), Some(9));
    let why = world.klamm_with_id(8).snapshot().standing_by.to_string();
    assert!(why.contains("klamm 9"), "{why}");
    assert_eq!(registered(&world), ["1", "2", "3", "9"]);

    world.klamm().kill();
    world.kill(1);
    world.settle();
    assert_eq!(world.controller(), Some(9), "its session still lives");
    world.klamm().expire_session();
    world.settle();
    assert_eq!(world.controller(), Some(8));
    assert_eq!(registered(&world), ["2", "3", "8"]);
    assert!(world.led_by("t-0").starts_with("leader 2 isr [2,3] "));
    assert_eq!(world.alive_at(2), [2, 3, 8]);
}

#[test]
fn a_klamm_never_passes_for_a_broker() {
    let mut world = World::led(&[1, 2], "2.8");
    world.zookeeper.poke("/klamm/ids/8", b"{}");
    let twin = world.zookeeper.connect_deaf();
    let node = world.zookeeper.look("/brokers/ids/9").unwrap();
    twin.create("/brokers/ids/8", node.data(), CreateMode::Ephemeral)
        .unwrap();
    world.settle();
    world.create_topic("t", &[&[8, 9, 1]]);
    world.settle();
    let leader = world.state("t-0").unwrap().leader_and_isr;
    assert!(!leader.isr.contains(BrokerId(8)) && !leader.isr.contains(BrokerId(9)));
    let open: Vec<i32> = world
        .klamm()
        .channels
        .open()
        .iter()
        .map(|i| i.broker.0)
        .collect();
    assert_eq!(open, [1, 2]);
}

#[test]
fn while_the_role_is_handed_back_no_klamm_contends() {
    let mut world = World::led(&[1, 2], "2.8");
    let operator = world.zookeeper.connect_deaf();
    let handback = operator.multi(&[
        Op::delete(paths::CONTROLLER, None),
        Op::create(paths::KLAMM_HOLD, b"{}", CreateMode::Persistent),
    ]);
    assert!(handback.is_ok());
    world.settle();
    assert_out_of_office(&mut world);
    assert!(world.standing_by().contains("klamm takeover"));
    world.advance(3_600_000);
    assert_eq!(world.controller(), None);
    world.zookeeper.uproot(paths::KLAMM_HOLD);
    world.settle();
    assert_eq!(world.controller(), Some(9));
}

#[test]
fn klamm_keeps_out_where_kraft_is_in_play() {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.zookeeper.poke(paths::MIGRATION, b"{}");
    world.start_klamm();
    world.advance(3_600_000);
    assert_eq!(world.controller(), None);
    assert!(world.standing_by().contains("KRaft"));
}

#[test]
fn klamm_gives_way_to_kraft_for_good() {
    let mut world = World::led(&[1, 2], "3.9");
    let kraft = world.zookeeper.connect_deaf();
    let holder = br#"{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":4}"#;
    kraft
        .multi(&[
            Op::set(paths::CONTROLLER_EPOCH, b"2", Some(1)),
            Op::delete(paths::CONTROLLER, None),
            Op::create(paths::CONTROLLER, holder, CreateMode::Persistent),
            Op::create(paths::MIGRATION, b"{}", CreateMode::Persistent),
        ])
        .unwrap();
    world.settle();
    assert_out_of_office(&mut world);
    world.advance(3_600_000);
    assert_eq!(world.controller(), Some(3000));
}

#[test]
fn a_process_replaced_by_a_namesake_ends() {
    let mut world = World::led(&[1, 2], "2.8");
    let twin = world.process(World::settings());
    world.klamms.push(twin);
    world.settle();
    assert_eq!(
        world.klamms[0].stopped(),
        Some(&Stop::Replaced(BrokerId(9)))
    );
    assert!(world.klamms[1].is_active());
    assert_eq!(registered(&world), ["1", "2", "9"], "the twin's stays");
}

#[test]
fn after_an_expired_session_everything_begins_anew() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.settle();
    let shutdown = world.ask_shutdown(2);
    let request = world.isr_request("t-0", &[1, 2]);
    let isr = world.send_isr_request(request);
    let (from, ids) = (world.incarnation(3), world.klamm().open_slot());
    world
        .klamm()
        .queue
        .put(ControllerEvent::AllocateProducerIds {
            from,
            reply_to: ids,
        });
    world.kill(1);
    world.klamm().expire_session();
    // Whoever waited hears at once.
    let stale = Err(KafkaError::STALE_CONTROLLER_EPOCH);
    let not_controller = KafkaError::NOT_CONTROLLER;
    assert_eq!(world.answer_to(shutdown), Answer::ControlledShutdown(stale));
    assert_eq!(
        world.answer_to(isr),
        Answer::AlterPartition(Err(not_controller))
    );
    assert_eq!(
        world.answer_to(ids),
        Answer::AllocateProducerIds(Err(not_controller))
    );
    world.settle();
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 2));
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 2");
    world.create_topic("u", &[&[3, 2]]);
    world.settle();
    assert_eq!(
        world.led_by("u-0"),
        "leader 3 isr [3,2] le 0",
        "the watches of the new session work"
    );
}

#[test]
fn a_java_broker_that_won_while_the_session_was_gone_is_asked_to_wait_its_turn() {
    let mut world = World::led(&[1, 2], "2.8");
    world.klamm().expire_session();
    world.java_takes_role(2);
    world.settle();
    assert_eq!(world.controller(), Some(2));
    assert_out_of_office(&mut world);
    world.advance(5_000);
    assert_eq!(world.controller(), Some(9));
}

#[test]
fn told_to_end_it_gives_the_role_back() {
    let mut world = World::led(&[1, 2], "2.8");
    world.klamm().queue.put(ControllerEvent::Shutdown);
    let late = world.ask_shutdown(1);
    world.settle();
    assert_eq!(world.klamm().stopped(), Some(&Stop::Released));
    assert_eq!(world.controller(), None);
    assert_eq!(registered(&world), ["1", "2"]);
    assert_eq!(
        world.answer_to(late),
        Answer::ControlledShutdown(Err(KafkaError::STALE_CONTROLLER_EPOCH))
    );
    assert_eq!(world.controller_epoch(), 1);
}

/// A klamm that stands by, since brokers 3 and 4 of four hang; broker 1 has the role.
fn half_silent() -> World {
    let mut world = World::of_brokers(&[1, 2, 3, 4], "2.8");
    world.java_takes_role(1);
    world.pause(3);
    world.pause(4);
    world.start_klamm();
    world.advance(5_000);
    assert_eq!(world.controller(), Some(1));
    world
}

#[test]
fn with_half_of_the_brokers_silent_the_role_is_not_taken_yet() {
    let mut world = half_silent();
    let why = world.standing_by();
    assert!(why.contains("2 of 4") && why.contains("broker 3"), "{why}");
    world.resume(3);
    world.advance(10_000);
    assert_eq!(world.controller(), Some(9));
}

#[test]
fn silent_brokers_whose_sessions_end_dont_keep_it_from_the_role() {
    let mut world = half_silent();
    world.kill(3);
    world.kill(4);
    world.advance(10_000);
    assert_eq!(world.controller(), Some(9), "{}", world.standing_by());
}

#[test]
fn one_silent_broker_of_three_does_not_keep_it_from_the_role() {
    let mut world = World::of_brokers(&[1, 2, 3], "2.8");
    world.pause(3);
    world.start_klamm();
    world.settle();
    assert_eq!(
        world.controller(),
        None,
        "it waits for the answer, 5 s at most"
    );
    world.advance(5_000);
    assert_eq!(world.controller(), Some(9));
}

#[test]
fn settings_that_differ_neither_forbid_nor_delay_a_takeover() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.java_takes_role(1);
    let shared =
        |value: &str| SharedSettings::from([(SharedSetting::NumPartitions, value.to_owned())]);
    world.start_klamm_with(klamm::controller::ControllerSettings {
        shared: shared("1"),
        ..World::settings()
    });
    let differing = SurveyOutcome::Answered {
        protocol: Some("2.8".parse().unwrap()),
        authorizer: None,
        shared: shared("12"),
    };
    world
        .klamm()
        .channels
        .set_survey_answer(BrokerId(2), differing);
    world.settle();
    assert_eq!(world.controller(), Some(9));
}

#[test]
fn what_klamm_cant_serve_it_does_not_take() {
    type Make = fn(&mut World);
    let secured: Make = |world| {
        let mut secured = endpoint(2);
        secured.security_protocol = SecurityProtocol::Ssl;
        world.set_endpoints(2, &[secured]);
    };
    let another_listener: Make = |world| {
        let mut other = endpoint(2);
        other.listener = "CONTROL".into();
        other.port = 9093;
        world.set_endpoints(2, &[endpoint(2), other]);
    };
    let authorizer: Make = |world| {
        let outcome = SurveyOutcome::Answered {
            protocol: Some("2.8".parse().unwrap()),
            authorizer: Some("kafka.security.authorizer.AclAuthorizer".to_owned()),
            shared: SharedSettings::new(),
        };
        world
            .klamm()
            .channels
            .set_survey_answer(BrokerId(2), outcome);
    };
    let kraft: Make = |world| {
        let outcome = SurveyOutcome::NotZooKeeperMode;
        world
            .klamm()
            .channels
            .set_survey_answer(BrokerId(2), outcome);
    };
    for make in [secured, another_listener, authorizer, kraft] {
        let mut world = World::of_brokers(&[1, 2], "2.8");
        world.start_klamm();
        make(&mut world);
        world.settle();
        let stopped = world.klamm().stopped().cloned();
        assert!(matches!(stopped, Some(Stop::Unfit(_))), "{stopped:?}");
        assert_eq!(world.controller(), None);
        assert_eq!(world.controller_epoch(), 0);
        assert_eq!(registered(&world), ["1", "2"]);
    }
}

#[test]
fn a_broker_that_klamm_must_not_lead_makes_it_give_the_role_back() {
    let mut world = World::led(&[1, 2], "2.8");
    world.add_broker(3, "2.8", "2.8");
    let outcome = SurveyOutcome::Answered {
        protocol: Some("2.8".parse().unwrap()),
        authorizer: Some("kafka.security.authorizer.AclAuthorizer".to_owned()),
        shared: SharedSettings::new(),
    };
    world
        .klamm()
        .channels
        .set_survey_answer(BrokerId(3), outcome);
    world.start_broker(3);
    world.settle();
    let stopped = world.klamm().stopped().cloned();
    let Some(Stop::Unfit(Unfit::Authorizer { broker, .. })) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!(broker, BrokerId(3));
    assert_eq!(world.controller(), None);
    assert_eq!(registered(&world), ["1", "2", "3"]);
}

#[test]
fn its_rack_is_set_exactly_while_the_brokers_racks_are() {
    let mut world = World::empty();
    for id in [1, 2] {
        world.add_broker(id, "2.8", "2.8");
    }
    world.start_broker_with(1, Some("a"));
    world.start_klamm();
    world.settle();
    let rack = |world: &World| {
        world.broker(1, |broker| {
            broker.alive[&BrokerId(9)]
                .rack
                .as_deref()
                .map(str::to_owned)
        })
    };
    assert_eq!(rack(&world).as_deref(), Some("a"));
    world.start_broker_with(2, Some("b"));
    world.settle();
    assert_eq!(rack(&world).as_deref(), Some("a"));
    world.kill(1);
    world.settle();
    world.start_broker_with(1, None);
    world.kill(2);
    world.settle();
    assert_eq!(rack(&world), None);
    let node = world.zookeeper.look("/brokers/ids/9").unwrap();
    assert!(!node.text().contains("rack"), "{}", node.text());
}

/// What a second process with klamm's own id does to the first.
fn twin_takes_role(zookeeper: &klamm_sim::zookeeper::ZooKeeper) {
    let twin = zookeeper.connect_deaf();
    let (epoch, stat) = twin.get(paths::CONTROLLER_EPOCH).unwrap();
    let epoch = znode::decode_controller_epoch(&epoch).unwrap();
    let next = (epoch.0 + 1).to_string();
    let controller = znode::encode_controller(BrokerId(9), 0);
    let registration = zookeeper.look("/brokers/ids/9").unwrap();
    twin.multi(&[
        Op::delete(paths::CONTROLLER, None),
        Op::create(paths::CONTROLLER, &controller, CreateMode::Ephemeral),
        Op::set(paths::CONTROLLER_EPOCH, next.as_bytes(), Some(stat.version)),
        Op::delete("/brokers/ids/9", None),
        Op::create("/brokers/ids/9", registration.data(), CreateMode::Ephemeral),
    ])
    .unwrap();
}

#[test]
fn a_twin_that_shows_by_a_refused_write_is_not_fought() {
    let mut world = World::led(&[1, 2], "2.8");
    let faults = world.klamm().faults().clone();
    faults.at_next(Call::Write, Fault::meanwhile(twin_takes_role));
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    assert_eq!(world.klamm().stopped(), Some(&Stop::Replaced(BrokerId(9))));
    assert_eq!(world.controller_epoch(), 2);
    assert_eq!(registered(&world), ["1", "2", "9"], "the twin's stays");
}

#[test]
fn a_cluster_that_cant_be_read_is_left_to_others_and_tried_again() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.start_klamm();
    for _ in 0..3 {
        let faults = world.klamm().faults().clone();
        faults.at_next(Call::TopicNames, Fault::Refused("for a test"));
    }
    world.settle();
    assert_eq!(world.controller(), None, "somebody else may lead meanwhile");
    assert_out_of_office(&mut world);
    world.advance(10_000);
    assert_eq!(world.controller(), None);
    world.advance(5_000);
    assert_eq!(world.controller(), Some(9));
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
}

#[test]
fn a_genuine_broker_with_klamms_id_is_not_pushed_aside() {
    let mut world = World::of_brokers(&[1, 2, 9], "2.8");
    let before = world.zookeeper.look("/brokers/ids/9").unwrap();
    world.start_klamm();
    world.advance(60_000);
    assert_eq!(world.controller(), None);
    assert!(!world.klamm().is_active());
    let after = world.zookeeper.look("/brokers/ids/9").unwrap();
    assert_eq!(after.stat(), before.stat());
}

#[test]
fn a_klamm_in_office_gives_the_role_back_when_kraft_comes_into_play() {
    let mut world = World::led(&[1, 2], "3.9");
    world.zookeeper.poke("/migration", b"{}");
    world.zookeeper.poke("/klamm/ids/77", b"");
    world.settle();
    assert_eq!(
        world.controller(),
        None,
        "the role must not stay with a klamm that no longer acts"
    );
    assert!(!world.klamm().is_active());
    assert!(
        world.standing_by().contains("KRaft"),
        "{}",
        world.standing_by()
    );
    let registered = world.zookeeper.look_children("/brokers/ids");
    assert!(!registered.contains(&"9".to_owned()));
}

/// A broken znode makes Java brokers win and drop the role many times a second. Whoever tries for it lets other events have
/// their turn, and goes on.
#[test]
fn a_role_that_changes_hands_all_the_time_is_taken_in_the_end() {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.start_klamm();
    for _ in 0..60 {
        let rival = Fault::meanwhile(|zookeeper| {
            seize_role(zookeeper, BrokerId(1));
        });
        world.klamm().faults().at_next(Call::TakeRole, rival);
    }
    while world.klamm().faults().outstanding() > 10 {
        assert!(world.step());
    }
    assert!(!world.klamm().is_active());
    assert!(
        world.standing_by().contains("changes hands faster"),
        "{}",
        world.standing_by()
    );
    world.settle();
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert!(world.klamm().is_active());
}

#[test]
fn whoever_waits_when_the_session_ends_is_sent_on() {
    let mut world = World::led(&[1, 2], "3.9");
    let compare = world.klamm().open_slot();
    world.klamm().queue.put(ControllerEvent::Compare(compare));
    let grow = crate::create_partitions::send(
        &mut world,
        &[crate::create_partitions::to("t", 2)],
        30_000,
        false,
    );
    world.klamm().expire_session();
    let error = KafkaError::NOT_CONTROLLER;
    assert_eq!(world.answer_to(compare), Answer::Compare(Err(error)));
    assert_eq!(world.answer_to(grow), Answer::CreatePartitions(Err(error)));
}
