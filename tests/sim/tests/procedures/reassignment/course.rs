//! Terms that begin in the middle, deletion, growth, klamms among the replicas, and many partitions at once.

use super::*;

/// Upstream: `shouldTriggerReassignmentWithZnodePrecedenceOnControllerStartup`.
#[test]
fn at_a_failover_the_node_wins_over_the_topics_nodes_and_those_go_on() {
    let mut world = World::of_brokers(&[0, 1, 2, 3], "3.9");
    let topic = br#"{"version":2,"partitions":{"0":[0,1,2],"1":[1,2,3],"2":[0,1,2],"3":[0,1,2]},"adding_replicas":{"0":[2],"1":[3],"2":[2],"3":[2]},"removing_replicas":{"0":[0],"1":[1],"2":[0],"3":[0]}}"#;
    world.zookeeper.poke("/brokers/topics/orders", topic);
    for (index, leader, isr) in [(0, 0, "0,1"), (1, 1, "1,2"), (2, 0, "0,1"), (3, 0, "0,1")] {
        let state = format!(
            r#"{{"controller_epoch":0,"leader":{leader},"version":1,"leader_epoch":4,"isr":[{isr}]}}"#
        );
        let path = format!("/brokers/topics/orders/partitions/{index}/state");
        world.zookeeper.poke(&path, state.as_bytes());
    }
    ask_by_node(
        &world,
        &[
            ("orders-0", &[2, 1]),
            ("orders-1", &[1, 2]),
            ("orders-2", &[1, 2]),
            ("customers-0", &[0, 1]),
        ],
    );
    world.start_klamm();
    world.settle();
    for _ in 0..2 {
        world.catch_up();
    }
    for (of, target) in [
        ("orders-0", [2, 1]),
        ("orders-1", [1, 2]),
        ("orders-2", [1, 2]),
        ("orders-3", [1, 2]),
    ] {
        assert_moved(&mut world, of, &target);
    }
    assert!(world.topic("customers").is_none());
}

/// Upstream: `ResumePartitionReassignmentThatWasCompleted`: nobody is there yet to lead.
#[test]
fn a_partition_that_was_never_led_starts_on_its_target() {
    for started_first in [false, true] {
        let mut world = World::led(&[], "3.9");
        for id in [0, 1, 2] {
            world.add_broker(id, "3.9", "3.9");
        }
        world.create_topic("t", &[&[0, 2]]);
        world.create_topic("known", &[&[1]]);
        world.settle();
        if started_first {
            world.start_broker(1);
        }
        ask_by_node(&world, &[("t-0", &[0, 1])]);
        world.settle();
        assert_eq!(stored(&world, "t-0"), "[0,1] adding [] removing []");
        assert_eq!(node(&world), None);
        world.start_broker(0);
        if !started_first {
            world.start_broker(1);
        }
        world.settle();
        world.catch_up();
        assert_moved(&mut world, "t-0", &[0, 1]);
    }
}

#[test]
fn another_klamm_goes_on_wherever_the_one_before_stopped() {
    for steps in 0..40 {
        let mut world = led();
        ask_by_node(&world, &[("t-0", &[4, 5]), ("t-1", &[3, 2])]);
        for step in 0..steps {
            if step == 12 {
                let wanted = world.isr_request("t-0", &[1, 2, 4, 5]);
                world.send_isr_request(wanted);
            }
            world.step();
        }
        // What is on its way to brokers arrives. (What a controller that dies has not sent is lost, as upstream: a log
        // that was to be deleted stays.)
        while world.klamm().channels.deliver_one_each() {}
        next_klamm(&mut world);
        for _ in 0..2 {
            world.catch_up();
        }
        assert_moved(&mut world, "t-0", &[4, 5]);
        assert_moved(&mut world, "t-1", &[3, 2]);
    }
}

/// Upstream: `PartitionReassignmentDuringDeleteTopic`.
#[test]
fn a_topic_that_is_deleted_is_not_reassigned() {
    let mut world = led();
    world.kill(2);
    world.settle();
    world.zookeeper.poke("/admin/delete_topics/t", b"");
    world.settle();
    let answers = alter(&mut world, &[("t-0", Some(&[3, 4]))]);
    assert_eq!(answers, ["t-0 UNKNOWN_TOPIC_OR_PARTITION(3)"]);
    ask_by_node(&world, &[("t-0", &[3, 4])]);
    world.settle();
    assert_eq!(node(&world), None);
    assert_eq!(stored(&world, "t-0"), "[1,2] adding [] removing []");
    world.start_broker(2);
    world.settle();
    assert!(world.topic("t").is_none());
}

#[test]
fn a_deletion_waits_for_a_running_reassignment_and_for_its_cancel() {
    for is_cancelled in [false, true] {
        let mut world = led();
        ask_by_node(&world, &[("t-0", &[3, 4])]);
        world.settle();
        world.zookeeper.poke("/admin/delete_topics/t", b"");
        world.settle();
        assert!(world.topic("t").is_some());
        if is_cancelled {
            assert_eq!(alter(&mut world, &[("t-0", None)]), ["t-0 NONE"]);
        } else {
            world.catch_up();
        }
        world.settle();
        assert!(world.topic("t").is_none());
        for id in 1..=5 {
            assert!(!has_log(&world, id, "t-0"), "{id}");
        }
        assert_eq!(node(&world), None);
        assert_eq!(gauges(&mut world), (0, [0; 6]));
    }
}

/// Goal: what is to be deleted, but moves first, is led meanwhile, and its leader knows it: a move without a leader to
/// copy from would never end, nor the deletion begin. Method: the leader dies, or leaves gently, after the marker came.
#[test]
fn a_topic_that_is_to_be_deleted_is_led_until_it_has_moved() {
    for leaves_gently in [false, true] {
        let mut world = led();
        ask_by_node(&world, &[("t-0", &[3, 4])]);
        world.settle();
        assert!(world.led_by("t-0").starts_with("leader 1 "));
        world.zookeeper.poke("/admin/delete_topics/t", b"");
        world.settle();
        if leaves_gently {
            let slot = world.ask_shutdown(1);
            world.settle();
            let gone = Answer::ControlledShutdown(Ok(Vec::new()));
            assert_eq!(world.answer_to(slot), gone, "it leads nothing any more");
        }
        world.kill(1);
        world.settle();
        assert!(world.led_by("t-0").starts_with("leader 2 isr [2] "));
        world.catch_up();
        world.start_broker(1);
        world.settle();
        assert!(world.topic("t").is_none());
        // What broker 1 had was no replica any more when it came back.
        for id in 2..=5 {
            assert!(!has_log(&world, id, "t-0"), "{id}");
        }
    }
}

#[test]
fn a_topic_grows_while_its_partitions_move() {
    let mut world = led();
    ask_by_node(&world, &[("t-0", &[3])]);
    world.settle();
    world.add_partition("t", &[5, 4]);
    world.settle();
    assert_eq!(world.led_by("t-2"), "leader 5 isr [5,4] le 0");
    assert_eq!(stored(&world, "t-0"), "[3,1,2] adding [3] removing [1,2]");
    world.catch_up();
    assert_moved(&mut world, "t-0", &[3]);
    assert_eq!(stored(&world, "t-2"), "[5,4] adding [] removing []");
}

/// Goal: a tool that writes the topic's node between klamm's read and its write loses nothing. Method: a partition is
/// added just before the write that begins the reassignment.
#[test]
fn a_concurrent_change_of_the_topics_node_is_kept() {
    let mut world = led();
    ask_by_node(&world, &[("t-0", &[3])]);
    let grow = Fault::meanwhile(|zookeeper| {
        let path = "/brokers/topics/t";
        let node = zookeeper.look(path).unwrap().text();
        let grown = node.replacen(r#""partitions":{"#, r#""partitions":{"2":[5],"#, 1);
        assert_ne!(node, grown);
        zookeeper.poke(path, grown.as_bytes());
    });
    world.klamm().faults().at_next(Call::Write, grow);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "t-0", &[3]);
    assert_eq!(world.led_by("t-2"), "leader 5 isr [5] le 0");
}

/// The leader takes the one that goes out of the set itself, between the hand-over and klamm's own write: it has heard of
/// all replicas under that leader epoch, and is told of those that stay under the next.
#[test]
fn a_leader_that_drops_the_removed_by_itself_hears_of_those_that_stay() {
    let mut world = led();
    world.create_topic("u", &[&[1, 2]]);
    world.settle();
    let path = "/brokers/topics/u/partitions/0/state";
    let dropped = std::rc::Rc::new(std::cell::Cell::new(0));
    for _ in 0..8 {
        let dropped = dropped.clone();
        let drop_removed = Fault::meanwhile(move |zookeeper| {
            let state = zookeeper.look(path).unwrap().text();
            let shrunk = state.replace(r#""isr":[1,2,3]"#, r#""isr":[2,3]"#);
            if state.contains(r#""leader":2"#) && shrunk != state {
                dropped.set(dropped.get() + 1);
                zookeeper.poke(path, shrunk.as_bytes());
            }
        });
        world.klamm().faults().at_next(Call::Write, drop_removed);
    }
    assert_eq!(alter(&mut world, &[("u-0", Some(&[2, 3]))]), ["u-0 NONE"]);
    for _ in 0..2 {
        world.catch_up();
    }
    world.klamm().faults().clear();
    assert_eq!(dropped.get(), 1);
    assert_moved(&mut world, "u-0", &[2, 3]);
    let known = world.broker(2, |broker| {
        broker.replicas[&partition("u-0")].replicas.clone()
    });
    assert_eq!(known, klamm::model::BrokerIds::from([2, 3]));
    world.assert_converged();
}

/// The topic's node could not be read when klamm took over: its leaders know the replicas that it names, so that a klamm
/// among them goes by a reassignment.
#[test]
fn a_led_partition_on_a_klamm_whose_node_is_mended_is_moved_under_a_new_leader_epoch() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world.zookeeper.poke("/klamm/ids/9", b"{}");
    world.zookeeper.poke("/brokers/topics/t", b"{nonsense");
    let state = br#"{"controller_epoch":0,"leader":1,"version":1,"leader_epoch":6,"isr":[1]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", state);
    world.start_klamm();
    world.settle();
    let node =
        br#"{"version":2,"partitions":{"0":[9,1]},"adding_replicas":{},"removing_replicas":{}}"#;
    world.zookeeper.poke("/brokers/topics/t", node);
    world.settle();
    for _ in 0..2 {
        world.catch_up();
    }
    let state = world.state("t-0").unwrap().leader_and_isr;
    assert!(state.leader_epoch.0 > 6, "{state:?}");
    assert_eq!(state.isr.len(), 2, "{state:?}");
    assert!(
        !world.assigned("t-0").contains(&9),
        "{:?}",
        world.assigned("t-0")
    );
    world.assert_converged();
}

#[test]
fn a_partition_that_was_led_is_moved_off_a_klamm() {
    for is_alone in [false, true] {
        let mut world = World::of_brokers(&[1, 2, 3], "3.9");
        let replicas = if is_alone { "[1,9]" } else { "[9,1]" };
        let topic = format!(
            r#"{{"version":2,"partitions":{{"0":{replicas}}},"adding_replicas":{{}},"removing_replicas":{{}}}}"#
        );
        world.zookeeper.poke("/brokers/topics/t", topic.as_bytes());
        let state = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":6,"isr":[1]}"#;
        world
            .zookeeper
            .poke("/brokers/topics/t/partitions/0/state", state);
        world.zookeeper.poke("/klamm/ids/9", b"{}");
        if is_alone {
            for id in [2, 3] {
                world.kill(id);
            }
        }
        world.start_klamm();
        world.settle();
        if is_alone {
            // There is nobody to take the place: the list gets shorter.
            assert_moved(&mut world, "t-0", &[1]);
            continue;
        }
        world.catch_up();
        assert_moved(&mut world, "t-0", &[2, 1]);
        let gauges = world.klamm().snapshot().gauges;
        assert_eq!(gauges.assignments_naming_klamm, 0);
    }
}

/// 100 partitions and 1,000 of them cost the same number of calls, give or take the steps of the brokers.
#[test]
fn many_partitions_move_in_a_handful_of_grouped_rounds() {
    let mut calls = Vec::new();
    for count in [100, 1_000] {
        let mut world = World::led(&[1, 2, 3, 4], "2.4");
        let lists: Vec<&[i32]> = (0..count).map(|_| &[1, 2][..]).collect();
        world.create_topic("t", &lists);
        world.settle();
        world.told();
        let names: Vec<String> = (0..count).map(|index| format!("t-{index}")).collect();
        let targets: Vec<(&str, &[i32])> = names
            .iter()
            .map(|name| (name.as_str(), &[3, 4][..]))
            .collect();
        let before = world.klamm().faults().calls().len();
        ask_by_node(&world, &targets);
        world.settle();
        let begun = world.klamm().faults().calls().len();
        for name in &names {
            world.leader_writes_isr(name, &[1, 2, 3, 4]);
        }
        world.settle();
        let ended = world.klamm().faults().calls().len();
        calls.push((begun - before, ended - begun));
        assert_moved(&mut world, "t-0", &[3, 4]);
        assert_moved(&mut world, &names[count - 1], &[3, 4]);
        let context = world.klamm().context();
        assert!(context.topic(&TopicName::new("t")).is_some());
    }
    let (begin, end) = calls[0];
    assert!(begin <= 12 && end <= 20, "{calls:?}");
    assert_eq!(calls[0], calls[1]);
}

/// Upstream: `shouldDeleteReassignmentZnodeAfterApiReassignmentForPartitionCompletes`.
#[test]
fn the_node_goes_when_its_own_entries_are_done_though_others_move_on() {
    let mut world = led();
    world.create_topic("u", &[&[1]]);
    world.settle();
    ask_by_node(&world, &[("t-0", &[4]), ("t-1", &[4])]);
    world.settle();
    alter(&mut world, &[("t-1", Some(&[5])), ("u-0", Some(&[5]))]);
    world.leader_asks_isr("t-0", &[1, 2, 4]);
    assert_eq!(node(&world), None);
    assert_eq!(listed(&mut world).len(), 2);
    world.catch_up();
    for (of, target) in [("t-0", 4), ("t-1", 5), ("u-0", 5)] {
        assert_moved(&mut world, of, &[target]);
    }
}

/// Upstream: `testAutoPreferredReplicaLeaderElectionWithOtherReassigningPartitions`, and the gauge: what is being added
/// and prefers to lead is no imbalance yet.
#[test]
fn a_stuck_reassignment_does_not_stop_the_balancing_of_others() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    let mut settings = World::settings();
    settings.leader_balance = Some(klamm::controller::LeaderBalance {
        interval_ms: 10_000,
        threshold_percent: 10,
    });
    world.start_klamm_with(settings);
    world.create_topic("t", &[&[1, 2]]);
    world.create_topic("r", &[&[2]]);
    world.create_topic("known", &[&[1, 3]]);
    world.settle();
    world.kill(3);
    world.settle();
    ask_by_node(&world, &[("r-0", &[3])]);
    world.bounce(1);
    world.settle();
    world.catch_up();
    assert!(world.led_by("t-0").starts_with("leader 2"));
    world.advance(20_000);
    assert!(
        world.led_by("t-0").starts_with("leader 1"),
        "{}",
        world.led_by("t-0")
    );
    assert_eq!(gauges(&mut world).0, 1);
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.preferred_replica_imbalance, 0);
    world.start_broker(3);
    world.settle();
    world.catch_up();
    assert_moved(&mut world, "r-0", &[3]);
}

/// Goal: thousands of entries that are done one by one don't have the node written thousands of times. Method: all but
/// one of a large node are done in events of their own.
#[test]
fn a_large_node_is_not_rewritten_for_each_entry_that_is_done() {
    let mut world = World::led(&[1, 2], "3.9");
    let count = 120;
    let lists: Vec<&[i32]> = (0..count).map(|_| &[1][..]).collect();
    world.create_topic("t", &lists);
    world.settle();
    let names: Vec<String> = (0..count).map(|index| format!("t-{index}")).collect();
    let targets: Vec<(&str, &[i32])> = names.iter().map(|name| (name.as_str(), &[2][..])).collect();
    ask_by_node(&world, &targets);
    world.settle();
    let before = world.zookeeper.look(NODE).unwrap().stat().version;
    for name in &names[1..] {
        world.leader_asks_isr(name, &[1, 2]);
    }
    assert_eq!(world.zookeeper.look(NODE).unwrap().stat().version, before);
    assert_eq!(listed(&mut world), ["t-0 [2,1] adding [2] removing [1]"]);
    world.advance(1_000);
    let rest = node(&world).unwrap();
    assert_eq!(rest.matches("topic").count(), 1, "{rest}");
    world.leader_asks_isr("t-0", &[1, 2]);
    assert_moved(&mut world, "t-0", &[2]);
    assert_moved(&mut world, "t-119", &[2]);
}

/// What a broker keeps although it was told to delete it is no obstacle; the partition is reassigned all the same.
#[test]
fn a_removed_replica_that_cannot_be_deleted_does_not_hold_the_partition_up() {
    let mut world = led();
    ask_by_node(&world, &[("t-0", &[3])]);
    world.settle();
    world.broker_mut(2, |broker| {
        broker.offline.insert(partition("t-0"));
    });
    world.catch_up();
    assert_eq!(stored(&world, "t-0"), "[3] adding [] removing []");
    assert_eq!(hosts(&world, "t-0"), [2, 3]);
    assert_eq!(gauges(&mut world), (0, [0; 6]));
}

/// Whoever has yet to hear that it was deposed acts on nothing that its successor wrote.
#[test]
fn the_state_that_a_newer_controller_gave_an_unled_partition_is_not_taken_in() {
    let mut world = World::led(&[], "2.4");
    world.add_broker(1, "2.4", "2.4");
    world.create_topic("t", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("t-0"), "none");
    let newer = br#"{"controller_epoch":7,"leader":9,"version":1,"leader_epoch":0,"isr":[9]}"#;
    let path = "/brokers/topics/t/partitions/0/state";
    world.zookeeper.poke(path, newer);
    ask_by_node(&world, &[("t-0", &[1])]);
    world.settle();
    assert_eq!(world.zookeeper.look(path).unwrap().data(), newer);
}
