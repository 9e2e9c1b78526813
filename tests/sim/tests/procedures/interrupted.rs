//! Procedures cut off in the middle: at every call of the ZooKeeper port, in every way.

use std::cell::RefCell;
use std::rc::Rc;

use klamm::event::{ControllerEvent, ElectionType};
use klamm::model::BrokerId;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, partition, seize_role};

use crate::{create_partitions, create_topics, scram};

type Make = fn() -> Fault;

const CUTS: [(&str, Make); 5] = [
    ("cut before", || Fault::LossBefore),
    ("cut after", || Fault::LossAfter),
    ("session lost before", || Fault::SessionLostBefore),
    ("session lost after", || Fault::SessionLostAfter),
    ("refused", || Fault::Refused("for a test")),
];

/// A procedure: the cluster before it, what sets it off, and how the cluster must be in the end.
struct Procedure {
    name: &'static str,
    before: fn() -> World,
    trigger: fn(&mut World),
    after: fn(&mut World),
}

/// Brokers 1 to 3; t-0 [1,2,3], t-1 [2,3,1], u-0 [3,1].
fn led() -> World {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.create_topic("u", &[&[3, 1]]);
    world.settle();
    world
}

/// The same without a klamm: broker 1 died and a topic came meanwhile.
fn orphaned() -> World {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    world.kill(1);
    world.create_topic("new", &[&[2, 9]]);
    world
        .zookeeper
        .poke("/isr_change_notification/isr_change_0000000000", b"{");
    world
}

/// That whoever can lead leads, brokers know it, and no replica is on klamm.
fn assert_led(world: &mut World, expected: &[(&str, &str)]) {
    assert_eq!(world.controller(), Some(9));
    world.assert_converged();
    for (of, leader_and_isr) in expected {
        let state = world.led_by(of);
        assert!(
            state.starts_with(&format!("{leader_and_isr} le ")),
            "{of}: {state}"
        );
        let leader = world.state(of).unwrap().leader_and_isr.leader.0;
        world.broker(leader, |broker| {
            let led = broker.leads(&partition(of));
            assert!(led.is_some(), "{leader} doesn't know that it leads {of}");
        });
        for id in [2, 3] {
            let told = world.cached_at(id, of).unwrap_or_default();
            assert!(told.starts_with(leader_and_isr), "{of} at {id}: {told}");
        }
    }
}

/// That nothing is left of a topic, in ZooKeeper and on the brokers.
fn assert_deleted(world: &World, topic: &str) {
    for path in ["/brokers/topics", "/config/topics", "/admin/delete_topics"] {
        let path = format!("{path}/{topic}");
        assert!(world.zookeeper.look(&path).is_none(), "{path} is there");
    }
    for (id, broker) in world.cluster.borrow().iter() {
        let hosted = broker.logs.keys().chain(broker.cache.keys());
        let left: Vec<_> = hosted.filter(|at| at.topic.as_str() == topic).collect();
        assert!(left.is_empty(), "broker {id} has {left:?}");
    }
}

const REASSIGN: &str = "/admin/reassign_partitions";

/// The same, with u-0 on its way from [3,1] to [2,1], and this entry in the node beside it.
fn reassigning(entry: &str) -> World {
    let mut world = led();
    let asked = format!(
        r#"{{"version":1,"partitions":[{{"topic":"u","partition":0,"replicas":[2,1]}},{entry}]}}"#
    );
    world.zookeeper.poke(REASSIGN, asked.as_bytes());
    world.settle();
    world
}

/// That partitions have come to these replicas once brokers have caught up, and that nothing is left of the request. A
/// log may be left on a broker that was to delete it, where the session ended before it was told, as under Java; it is in
/// no in-sync set.
fn assert_reassigned(world: &mut World, expected: &[(&str, &[i32])]) {
    for _ in 0..3 {
        world.catch_up();
    }
    assert_eq!(world.controller(), Some(9));
    world.assert_converged();
    for (of, replicas) in expected {
        assert_eq!(world.assigned(of), *replicas, "{of}");
        let state = world.state(of).unwrap().leader_and_isr;
        assert!(replicas.contains(&state.leader.0), "{}", world.led_by(of));
        assert_eq!(state.isr.len(), replicas.len(), "{}", world.led_by(of));
        for (id, broker) in world.cluster.borrow().iter() {
            let hosts = broker.logs.contains_key(&partition(of));
            assert!(hosts || !replicas.contains(&id.0), "log of {of} on {id}");
        }
    }
    assert!(world.zookeeper.look(REASSIGN).is_none());
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.partitions_being_reassigned, 0);
}

/// That whoever asked was answered, and that a topic has so many partitions, all led and known, or none at all and no
/// configuration. Asked for again it is there.
fn assert_whole_or_absent(world: &mut World, topic: &str, partitions: &[usize]) {
    assert_eq!(world.klamm().replies.unanswered(), []);
    assert_eq!(world.controller(), Some(9));
    world.assert_converged();
    let assigned = world.topic(topic).map(|node| node.partitions);
    let config = format!("/config/topics/{topic}");
    if assigned.is_none() {
        assert!(world.zookeeper.look(&config).is_none());
    }
    let assigned = assigned.unwrap_or_default();
    assert!(partitions.contains(&assigned.len()), "{assigned:?}");
    for (index, assignment) in assigned {
        let of = format!("{topic}-{index}");
        let state = world.state(&of).unwrap().leader_and_isr;
        assert_eq!(Some(state.leader), assignment.replicas.first());
        for id in [1, 2, 3] {
            assert!(world.cached_at(id, &of).is_some(), "{of} at {id}");
        }
    }
}

const PROCEDURES: [Procedure; 19] = [
    Procedure {
        name: "topics created by API",
        before: led,
        trigger: |world| {
            create_topics::ask(world, &[create_topics::topic("fresh.one", 2, 3)], 30_000);
        },
        after: |world| {
            assert_whole_or_absent(world, "fresh.one", &[0, 2]);
            create_topics::ask(world, &[create_topics::topic("fresh.one", 2, 3)], 30_000);
            world.settle();
            assert_whole_or_absent(world, "fresh.one", &[2]);
        },
    },
    Procedure {
        name: "partitions created by API",
        before: led,
        trigger: |world| {
            create_partitions::send(world, &[create_partitions::to("t", 4)], 30_000, false);
        },
        after: |world| {
            assert_whole_or_absent(world, "t", &[2, 4]);
            create_partitions::send(world, &[create_partitions::to("t", 4)], 30_000, false);
            world.settle();
            assert_whole_or_absent(world, "t", &[4]);
        },
    },
    Procedure {
        name: "credentials changed by API",
        before: led,
        trigger: |world| {
            scram::send(world, &[scram::upsert("alice", 1)]);
        },
        after: |world| {
            assert_eq!(world.klamm().replies.unanswered(), []);
            assert_eq!(world.controller(), Some(9));
            let is_written = world.zookeeper.look("/config/users/alice").is_some();
            assert_eq!(scram::notices(world).len(), usize::from(is_written));
            scram::send(
                world,
                &[scram::upsert("alice", 1), scram::upsert("alice", 2)],
            );
            world.settle();
            let text = world.zookeeper.look("/config/users/alice").unwrap().text();
            assert!(text.contains("credential 1") && text.contains("credential 2"));
        },
    },
    Procedure {
        name: "failover",
        before: orphaned,
        trigger: |world| {
            world.start_klamm();
        },
        after: |world| {
            assert_led(
                world,
                &[
                    ("t-0", "leader 2 isr [2,3]"),
                    ("t-1", "leader 2 isr [2,3]"),
                    ("u-0", "leader 3 isr [3]"),
                    ("new-0", "leader 2 isr [2,3]"),
                ],
            );
            let notices = world.zookeeper.look_children("/isr_change_notification");
            assert_eq!(notices, [""; 0]);
        },
    },
    Procedure {
        name: "broker failure",
        before: led,
        trigger: |world| world.kill(1),
        after: |world| {
            assert_led(
                world,
                &[
                    ("t-0", "leader 2 isr [2,3]"),
                    ("t-1", "leader 2 isr [2,3]"),
                    ("u-0", "leader 3 isr [3]"),
                ],
            );
        },
    },
    Procedure {
        name: "broker return",
        before: || {
            let mut world = led();
            world.create_topic("single", &[&[1]]);
            world.settle();
            world.kill(1);
            world.settle();
            world
        },
        trigger: |world| world.start_broker(1),
        after: |world| {
            world.catch_up();
            assert_led(
                world,
                &[
                    ("t-0", "leader 2 isr [2,3,1]"),
                    ("single-0", "leader 1 isr [1]"),
                ],
            );
        },
    },
    Procedure {
        name: "topic creation and expansion",
        before: led,
        trigger: |world| {
            world.create_topic("new", &[&[1, 9], &[2, 3]]);
            world.add_partition("t", &[3, 2, 1]);
        },
        after: |world| {
            assert!(world.topic("new").unwrap().topic_id.is_some());
            assert_led(
                world,
                &[
                    ("new-1", "leader 2 isr [2,3]"),
                    ("t-2", "leader 3 isr [3,2,1]"),
                ],
            );
            let of_klamm = world.assigned("new-0");
            assert!(!of_klamm.contains(&9), "{of_klamm:?}");
            assert!(world.led_by("new-0").starts_with("leader 1 isr [1,"));
        },
    },
    Procedure {
        name: "bounce",
        before: led,
        trigger: |world| world.bounce(1),
        after: |world| {
            world.catch_up();
            for of in ["t-0", "t-1", "u-0"] {
                let isr = world.state(of).unwrap().leader_and_isr.isr;
                assert_eq!(isr.len(), world.assigned(of).len(), "{of}: {isr}");
            }
            assert_led(world, &[]);
        },
    },
    Procedure {
        name: "preferred election",
        before: || {
            let mut world = led();
            world.bounce(1);
            world.settle();
            world.catch_up();
            world
        },
        trigger: |world| {
            let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"x","partition":0}]}"#;
            world
                .zookeeper
                .poke("/admin/preferred_replica_election", asked);
        },
        after: |world| {
            assert_led(world, &[("t-0", "leader 1 isr [2,3,1]")]);
            let node = world.zookeeper.look("/admin/preferred_replica_election");
            assert!(node.is_none());
        },
    },
    Procedure {
        name: "elections by request",
        before: || {
            let mut world = led();
            world.bounce(1);
            world.settle();
            world.catch_up();
            world
        },
        trigger: |world| {
            world.ask_election(Some(&["t-0", "u-0"]), ElectionType::Preferred);
        },
        after: |world| {
            assert_eq!(world.klamm().replies.unanswered(), []);
            // One that was refused is asked for again.
            world.elect_leaders(Some(&["t-0", "u-0"]), ElectionType::Preferred);
            assert_led(
                world,
                &[
                    ("t-0", "leader 1 isr [2,3,1]"),
                    ("u-0", "leader 3 isr [3,1]"),
                ],
            );
        },
    },
    Procedure {
        name: "unclean election enabled",
        before: || {
            let mut world = led();
            world.leader_asks_isr("u-0", &[3]);
            world.create_topic("v", &[&[1, 2]]);
            world.settle();
            world.leader_asks_isr("v-0", &[1]);
            world.kill(1);
            world.settle();
            world
        },
        trigger: |world| world.configure_unclean("topics/v", Some(true)),
        after: |world| {
            assert_led(
                world,
                &[("v-0", "leader 2 isr [2]"), ("u-0", "leader 3 isr [3]")],
            );
        },
    },
    Procedure {
        name: "failed log directory",
        before: led,
        trigger: |world| world.fail_log_dir(1, &["t-0"]),
        after: |world| {
            let state = world.led_by("t-0");
            assert!(state.starts_with("leader 2 isr [2,3] "), "{state}");
            assert_eq!(world.differences(&[1]), [""; 0]);
            let notices = world.zookeeper.look_children("/log_dir_event_notification");
            assert_eq!(notices, [""; 0]);
        },
    },
    Procedure {
        name: "topic deletion",
        before: || {
            let mut world = led();
            world.allow_unclean("t", true);
            world
        },
        trigger: |world| world.zookeeper.poke("/admin/delete_topics/t", b""),
        after: |world| {
            assert_deleted(world, "t");
            assert_led(world, &[("u-0", "leader 3 isr [3,1]")]);
        },
    },
    Procedure {
        name: "the end of a topic deletion",
        before: || {
            let mut world = led();
            world.kill(2);
            world.zookeeper.poke("/admin/delete_topics/t", b"");
            world.settle();
            world
        },
        trigger: |world| world.start_broker(2),
        after: |world| {
            assert_deleted(world, "t");
            assert_led(world, &[("u-0", "leader 3 isr [3,1]")]);
        },
    },
    Procedure {
        name: "the beginning of reassignments",
        before: led,
        trigger: |world| {
            let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]},{"topic":"u","partition":0,"replicas":[2,1]},{"topic":"x","partition":0,"replicas":[2]}]}"#;
            world.zookeeper.poke(REASSIGN, asked);
        },
        after: |world| {
            assert_reassigned(
                world,
                &[("t-0", &[3]), ("t-1", &[2, 3, 1]), ("u-0", &[2, 1])],
            );
        },
    },
    Procedure {
        name: "the end of reassignments",
        before: || reassigning(r#"{"topic":"t","partition":0,"replicas":[3]}"#),
        trigger: |world| {
            let wanted = world.isr_request("u-0", &[3, 1, 2]);
            world.send_isr_request(wanted);
        },
        after: |world| {
            assert_reassigned(world, &[("t-0", &[3]), ("u-0", &[2, 1])]);
        },
    },
    Procedure {
        name: "a change of target",
        before: || reassigning(r#"{"topic":"t","partition":1,"replicas":[2,1]}"#),
        trigger: |world| {
            let asked =
                br#"{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[1]}]}"#;
            world.zookeeper.poke(REASSIGN, asked);
        },
        after: |world| assert_reassigned(world, &[("u-0", &[1])]),
    },
    Procedure {
        name: "the cancel of a reassignment with a new replica in sync",
        before: || {
            let mut world = led();
            world.create_topic("v", &[&[1]]);
            world.settle();
            let asked =
                br#"{"version":1,"partitions":[{"topic":"v","partition":0,"replicas":[2,3]}]}"#;
            world.zookeeper.poke(REASSIGN, asked);
            world.settle();
            world.leader_asks_isr("v-0", &[1, 2]);
            world
        },
        trigger: |world| {
            let reply_to = world.klamm().open_slot();
            let targets = [(partition("v-0"), None)].into();
            let event = ControllerEvent::AlterPartitionReassignments { targets, reply_to };
            world.klamm().queue.put(event);
        },
        after: |world| {
            assert_eq!(world.klamm().replies.unanswered(), []);
            // Cut off before the request was taken from the node, it goes on under the next.
            for _ in 0..3 {
                world.catch_up();
            }
            let replicas = world.assigned("v-0");
            assert!(replicas == [1] || replicas == [2, 3], "{replicas:?}");
            assert_reassigned(world, &[("v-0", &replicas)]);
        },
    },
    Procedure {
        name: "controlled shutdown",
        before: led,
        trigger: |world| {
            world.ask_shutdown(1);
        },
        after: |world| {
            assert_eq!(world.klamm().replies.unanswered(), []);
            // A broker that was refused asks again.
            let again = world.ask_shutdown(1);
            world.settle();
            let answer = world.answer_to(again);
            let klamm::effect::Answer::ControlledShutdown(Ok(remaining)) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(remaining, []);
            // It is asked to stop, so it ends.
            world.kill(1);
            world.settle();
            assert_led(
                world,
                &[
                    ("t-0", "leader 2 isr [2,3]"),
                    ("t-1", "leader 2 isr [2,3]"),
                    ("u-0", "leader 3 isr [3]"),
                ],
            );
        },
    },
];

#[test]
fn a_procedure_cut_off_at_any_call_still_ends_as_it_should() {
    for procedure in &PROCEDURES {
        for (how, cut) in CUTS {
            for number in 0.. {
                let mut world = (procedure.before)();
                let was_there = world.klamm().runs();
                if was_there {
                    world.klamm().faults().at_call(number, cut());
                }
                (procedure.trigger)(&mut world);
                if !was_there {
                    world.klamm().faults().at_call(number, cut());
                }
                world.settle();
                if world.klamm().faults().outstanding() > 0 {
                    assert!(
                        number > 0,
                        "{}: {how} struck {number} times",
                        procedure.name
                    );
                    break;
                }
                let call = world.klamm().faults().calls();
                println!(
                    "{}: {how} at call {number} of {}",
                    procedure.name,
                    call.len()
                );
                world.advance(61_000);
                (procedure.after)(&mut world);
            }
        }
    }
}

/// The tree without what a deposed klamm takes away: its own registration.
fn tree(zookeeper: &klamm_sim::zookeeper::ZooKeeper) -> Vec<String> {
    let dump = zookeeper.dump();
    let lines = dump
        .lines()
        .filter(|line| !line.starts_with("/brokers/ids/9 "));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_procedure_fenced_at_any_call_writes_nothing_more_and_answers_whoever_waits() {
    for procedure in &PROCEDURES {
        for number in 0.. {
            let mut world = (procedure.before)();
            let tree_at_loss = Rc::new(RefCell::new(None));
            let noted = tree_at_loss.clone();
            let deposed = Fault::meanwhile(move |zookeeper| {
                seize_role(zookeeper, BrokerId(2));
                *noted.borrow_mut() = Some(tree(zookeeper));
            });
            let was_in_office = world.klamm().runs();
            if !was_in_office {
                (procedure.trigger)(&mut world);
            }
            let before = world.klamm().faults().calls().len();
            world.klamm().faults().at_call(number, deposed);
            if was_in_office {
                (procedure.trigger)(&mut world);
            }
            world.settle();
            if world.klamm().faults().outstanding() > 0 {
                break;
            }
            let calls = world.klamm().faults().calls();
            println!(
                "{}: deposed at call {number}, {:?}",
                procedure.name,
                calls[before + number]
            );
            let (earlier, later) = calls[before..].split_at(number);
            let in_office = was_in_office || earlier.contains(&Call::TakeRole);
            if !in_office || later.contains(&Call::TakeRole) {
                // Before its takeover it may take the role from the rival: that is what it is for.
                assert!(world.klamm().is_active());
                continue;
            }
            assert!(!world.klamm().is_active());
            assert_eq!(Some(tree(&world.zookeeper)), *tree_at_loss.borrow());
            let registered = world.zookeeper.look_children("/brokers/ids");
            assert!(!registered.contains(&"9".to_owned()));
            assert_eq!(world.klamm().channels.open(), []);
            assert_eq!(world.klamm().replies.unanswered(), []);
            world.advance(10_000);
            (procedure.after)(&mut world);
        }
    }
}

/// Goal: what one round of an election committed is announced although ZooKeeper refuses the next round. Method: broker
/// 1 dies; a leader changes v-0's state first, so that v-0 alone goes round again, and that round's read is refused.
#[test]
fn what_was_committed_is_announced_although_the_next_round_is_refused() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2, 3]]);
    world.create_topic("v", &[&[1, 3, 2]]);
    world.settle();
    let somebody_writes_first = Fault::meanwhile(|zookeeper| {
        let state =
            br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,3]}"#;
        zookeeper.poke("/brokers/topics/v/partitions/0/state", state);
    });
    let faults = world.klamm().faults();
    faults.at_next(Call::Write, somebody_writes_first);
    faults.at_next(Call::PartitionStates, Fault::Refused("for a test"));
    world.kill(1);
    world.settle();

    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert!(world.led_by("t-0").starts_with("leader 2"));
    let knows = world.broker(2, |broker| broker.leads(&partition("t-0")).is_some());
    assert!(knows, "broker 2 was elected and not told");
    assert!(
        world
            .cached_at(3, "t-0")
            .unwrap_or_default()
            .starts_with("leader 2")
    );

    world.advance(120_000);
    assert!(world.led_by("v-0").starts_with("leader 3"));
    world.assert_converged();
}
