//! Reassignments under an operator's ACLs.

use super::*;

fn alter(world: &mut World, targets: &[(&str, &[i32])]) -> Vec<String> {
    let reply_to = world.klamm().open_slot();
    let targets = targets.iter().map(|(of, ids)| {
        let ids = ids.iter().copied().map(BrokerId).collect();
        (partition(of), Some(ids))
    });
    let targets = targets.collect();
    let event = ControllerEvent::AlterPartitionReassignments { targets, reply_to };
    world.klamm().queue.put(event);
    world.settle();
    said(world, reply_to)
}

fn assignment(world: &World, of: &str) -> String {
    let at = partition(of);
    let topic = world.topic(at.topic.as_str()).unwrap();
    let found = &topic.partitions[&at.partition];
    format!(
        "{} adding {} removing {}",
        found.replicas, found.adding, found.removing
    )
}

#[test]
fn a_reassignment_whose_topic_may_not_be_written_is_refused_and_others_begin() {
    let mut world = led();
    world.zookeeper.protect("/brokers/topics/t");
    let said = alter(&mut world, &[("t-0", &[2, 3]), ("u-0", &[2, 1])]);
    assert_begins(&said, &["t-0 -1 ", "u-0 ok"]);
    assert!(said[0].contains("/brokers/topics/t: "), "{said:?}");
    world.catch_up();
    assert_eq!(assignment(&world, "t-0"), "[1,2,3] adding [] removing []");
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    world.assert_converged();
}

#[test]
fn a_reassignment_whose_topic_goes_or_may_not_be_read_is_refused() {
    let mut world = led();
    world.zookeeper.conceal("/brokers/topics/t");
    let said = alter(&mut world, &[("t-0", &[2, 3])]);
    assert_begins(&said, &["t-0 -1 "]);
    world.zookeeper.reveal("/brokers/topics/t");

    let gone = Fault::meanwhile(|zookeeper| zookeeper.uproot("/brokers/topics/t"));
    world.klamm().faults().at_next(Call::Write, gone);
    let said = alter(&mut world, &[("t-0", &[2, 3])]);
    assert_begins(&said, &["t-0 -1 "]);
    assert!(said[0].contains("/brokers/topics/t is gone"), "{said:?}");

    let gone = Fault::meanwhile(|zookeeper| zookeeper.uproot("/brokers/topics/u"));
    world.klamm().faults().at_next(Call::Topics, gone);
    let said = alter(&mut world, &[("u-0", &[2, 3])]);
    assert_begins(&said, &["u-0 -1 "]);
    assert!(said[0].contains("/brokers/topics/u is gone"), "{said:?}");
    assert!(world.klamm().is_active());
}

#[test]
fn a_reassignment_that_may_not_be_ended_waits_with_its_reason_and_is_ended_later() {
    let mut world = led();
    let (heard, _guard) = Heard::listen();
    assert_begins(&alter(&mut world, &[("u-0", &[2, 1])]), &["u-0 ok"]);
    world.zookeeper.protect("/brokers/topics/u");
    world.catch_up();
    assert_eq!(assignment(&world, "u-0"), "[2,1,3] adding [2] removing [3]");
    heard.assert_says(&["Reassignment of partition u-0 waits", "/brokers/topics/u: "]);
    let gauges = world.klamm().snapshot().gauges;
    assert_eq!(gauges.partitions_being_reassigned, 1);
    assert_eq!(gauges.reassignments_waiting.iter().sum::<u64>(), 1);
    world.zookeeper.unprotect("/brokers/topics/u");
    world.advance(A_MINUTE_MS);
    world.catch_up();
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    world.assert_converged();
}

#[test]
fn a_request_in_the_node_that_may_not_be_removed_is_done_once_and_removed_later() {
    let mut world = led();
    let (heard, _guard) = Heard::listen();
    let path = "/admin/reassign_partitions";
    let asked = br#"{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[2,1]}]}"#;
    world.zookeeper.poke(path, asked);
    world.settle();
    world.zookeeper.protect("/admin");
    world.catch_up();
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    assert!(world.zookeeper.look(path).is_some());
    heard.assert_says(&[path, "tried again with the next sweep"]);
    // It is done: what is asked for by other means meanwhile is not undone.
    assert_begins(&alter(&mut world, &[("t-0", &[2, 3])]), &["t-0 ok"]);
    world.zookeeper.unprotect("/admin");
    world.advance(A_MINUTE_MS);
    world.catch_up();
    assert!(world.zookeeper.look(path).is_none());
    assert_eq!(assignment(&world, "t-0"), "[2,3] adding [] removing []");
    world.assert_converged();
}

#[test]
fn a_node_of_reassignments_that_may_not_be_read_is_named_and_done_later() {
    let mut world = led();
    let (heard, _guard) = Heard::listen();
    let path = "/admin/reassign_partitions";
    world.zookeeper.conceal(path);
    let asked = br#"{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[2,1]}]}"#;
    world.zookeeper.poke(path, asked);
    world.settle();
    heard.assert_says(&[path]);
    assert_eq!(assignment(&world, "u-0"), "[3,1] adding [] removing []");
    // Asked by API it is done all the same.
    assert_begins(&alter(&mut world, &[("t-0", &[2, 3])]), &["t-0 ok"]);
    world.zookeeper.reveal(path);
    world.advance(A_MINUTE_MS);
    world.catch_up();
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    assert!(world.zookeeper.look(path).is_none());
}

/// The request by API takes the partition out of the node; a tool writes the node in the same moment.
#[test]
fn a_tool_that_writes_the_node_while_a_request_takes_a_partition_out_of_it_loses_nothing() {
    let mut world = led();
    world.add_broker(4, "3.9", "3.9");
    world.start_broker(4);
    world.settle();
    world.pause(4);
    let path = "/admin/reassign_partitions";
    let asked = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,1]},{"topic":"u","partition":0,"replicas":[4,3]}]}"#;
    world.zookeeper.poke(path, asked);
    world.settle();
    let meanwhile = Fault::meanwhile(|zookeeper| {
        let more = br#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,1]},{"topic":"u","partition":0,"replicas":[4,3]},{"topic":"t","partition":1,"replicas":[4,2]}]}"#;
        zookeeper.poke("/admin/reassign_partitions", more);
    });
    world.klamm().faults().at_next(Call::Write, meanwhile);
    assert_begins(&alter(&mut world, &[("t-0", &[3, 1])]), &["t-0 ok"]);
    assert_eq!(world.klamm().faults().outstanding(), 0);
    let left = world.zookeeper.look(path).unwrap().text();
    assert!(!left.contains(r#""topic":"t","partition":0"#), "{left}");
    world.resume(4);
    for _ in 0..2 {
        world.catch_up();
    }
    assert_eq!(assignment(&world, "t-0"), "[3,1] adding [] removing []");
    assert_eq!(assignment(&world, "t-1"), "[4,2] adding [] removing []");
    assert_eq!(assignment(&world, "u-0"), "[4,3] adding [] removing []");
    assert!(world.zookeeper.look(path).is_none());
    world.assert_converged();
}

/// A partition that was never led has nothing to copy: its assignment is replaced, if its node can be written.
#[test]
fn a_partition_that_was_never_led_waits_for_a_node_that_may_not_be_written() {
    let mut world = led();
    world.kill(2);
    world.settle();
    world.create_topic("dark", &[&[2]]);
    world.settle();
    assert_eq!(world.led_by("dark-0"), "none");
    world.zookeeper.protect("/brokers/topics/dark");
    let (heard, _guard) = Heard::listen();
    let path = "/admin/reassign_partitions";
    let asked = br#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[1]}]}"#;
    world.zookeeper.poke(path, asked);
    world.settle();
    assert_eq!(world.led_by("dark-0"), "none");
    heard.assert_says(&["dark-0", "/brokers/topics/dark"]);
    world.zookeeper.unprotect("/brokers/topics/dark");
    world.zookeeper.poke(path, asked);
    world.settle();
    world.advance(A_MINUTE_MS);
    assert!(world.led_by("dark-0").starts_with("leader 1 isr [1]"));
    assert_eq!(world.assigned("dark-0"), [1]);
}

/// A replica on klamm that was led before is moved off, once the topic's node can be written.
#[test]
fn a_replica_on_a_klamm_is_moved_off_once_the_node_can_be_written() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    let before = world.state("u-0").unwrap();
    world.write_topic("u", None, &[&[3, 9]]);
    assert_eq!(before.leader_and_isr.leader, BrokerId(3));
    world.zookeeper.protect("/brokers/topics/u");
    let (heard, _guard) = Heard::listen();
    world.start_klamm();
    world.settle();
    assert!(world.klamm().is_active());
    heard.assert_says(&["u-0", "could not be moved off a klamm"]);
    world.zookeeper.unprotect("/brokers/topics/u");
    world.advance(A_MINUTE_MS);
    for _ in 0..2 {
        world.catch_up();
    }
    assert!(
        !world.assigned("u-0").contains(&9),
        "{:?}",
        world.assigned("u-0")
    );
}

#[test]
fn a_state_that_may_not_be_written_keeps_its_partition_where_it_is() {
    let mut world = led();
    let node = "/brokers/topics/u/partitions/0/state";
    world.zookeeper.protect(node);
    assert_begins(
        &alter(&mut world, &[("u-0", &[2, 1]), ("t-0", &[2, 3])]),
        &["t-0 ok", "u-0 ok"],
    );
    world.catch_up();
    assert!(world.led_by("u-0").starts_with("leader 3 isr [3,1] le 0"));
    assert_eq!(assignment(&world, "t-0"), "[2,3] adding [] removing []");
    world.zookeeper.unprotect(node);
    for _ in 0..2 {
        world.advance(A_MINUTE_MS);
        world.catch_up();
    }
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    world.assert_converged();
}

/// A takeover could not read a partition's state: nothing is moved on a guess, and all of it once the state can be read.
#[test]
fn a_partition_whose_state_may_not_be_read_is_moved_once_it_can_be() {
    let mut world = led();
    world.klamm().kill();
    world.klamm().expire_session();
    let node = "/brokers/topics/u/partitions/0/state";
    world.zookeeper.conceal(node);
    world.start_klamm();
    world.settle();
    let before = world.led_by("u-0");
    let (heard, _guard) = Heard::listen();
    assert_begins(&alter(&mut world, &[("u-0", &[2, 1])]), &["u-0 ok"]);
    world.catch_up();
    heard.assert_says(&["Reassignment of partition u-0 waits", node]);
    assert_eq!(world.led_by("u-0"), before);
    world.zookeeper.reveal(node);
    for _ in 0..3 {
        world.advance(A_MINUTE_MS);
        world.catch_up();
    }
    assert_eq!(assignment(&world, "u-0"), "[2,1] adding [] removing []");
    world.assert_converged();
}
