//! The role is won: the cluster is read, decided on and told.

use klamm_sim::world::{World, partition};

/// A klamm in the place of the first, which died together with its session.
fn next_klamm(world: &mut World) {
    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm();
    world.settle();
}

#[test]
fn an_empty_cluster_is_told_in_one_request_a_broker() {
    let mut world = World::of_brokers(&[1], "3.9");
    world.start_klamm();
    world.settle();
    assert_eq!(world.told(), ["U{1} alive [1,9]"]);
    assert_eq!((world.controller(), world.controller_epoch()), (Some(9), 1));
}

#[test]
fn brokers_learn_first_who_is_alive_and_then_what_they_host() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    let before = world.zookeeper.look("/brokers/topics/t/partitions/0/state");
    next_klamm(&mut world);
    assert_eq!(
        world.told(),
        [
            "U{1,2,3} alive [1,2,3,9]",
            "L{1,2,3} t-0 leader 1 isr [1,2,3] le 0, t-1 leader 2 isr [2,3,1] le 0",
            "U{1,2,3} alive [1,2,3,9] t-0 leader 1 isr [1,2,3] le 0, t-1 leader 2 isr [2,3,1] le 0",
        ]
    );
    assert_eq!(world.controller_epoch(), 2);
    let after = world.zookeeper.look("/brokers/topics/t/partitions/0/state");
    assert_eq!(
        after.map(|node| node.stat()),
        before.map(|node| node.stat()),
        "what is as it should be is not written"
    );
}

#[test]
fn what_died_while_nobody_led_is_replaced() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1]]);
    world.settle();
    world.kill(1);
    next_klamm(&mut world);
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,3] le 2");
    assert_eq!(world.led_by("t-1"), "leader 2 isr [2,3] le 1");
    assert_eq!(
        world.cached_at(3, "t-0").as_deref(),
        Some("leader 2 isr [2,3] offline [1]")
    );
    world.assert_converged();
}

#[test]
fn partitions_whose_replicas_are_all_dead_are_announced_as_leaderless() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1]]);
    world.settle();
    world.kill(1);
    next_klamm(&mut world);
    assert_eq!(
        world.cached_at(2, "t-0").as_deref(),
        Some("leader -1 isr [1] offline [1]")
    );
    assert_eq!(world.klamm().snapshot().gauges.offline_partitions, 1);
    world.start_broker(1);
    world.settle();
    assert_eq!(world.klamm().snapshot().gauges.offline_partitions, 0);
    let told = world.cached_at(2, "t-0");
    assert_eq!(told.as_deref(), Some("leader 1 isr [1] offline []"));
}

/// Upstream: `testMetadataPropagationForOfflineReplicas`: whoever starts later hears of them, too.
#[test]
fn a_broker_that_starts_later_hears_of_partitions_without_a_leader() {
    let mut world = World::led(&[1, 2, 3], "2.8");
    world.create_topic("t", &[&[1]]);
    world.settle();
    world.kill(3);
    world.kill(1);
    next_klamm(&mut world);
    world.start_broker(3);
    world.settle();
    for id in [2, 3] {
        let told = world.cached_at(id, "t-0");
        assert_eq!(told.as_deref(), Some("leader -1 isr [1] offline [1]"));
        let replicas = world.broker(id, |broker| {
            broker.cache[&partition("t-0")].replicas.clone()
        });
        assert_eq!(replicas.as_i32s(), [1]);
        assert_eq!(world.alive_at(id), [2, 3, 9]);
    }
}

#[test]
fn a_partition_that_nobody_got_to_lead_is_led() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    world.create_topic("t", &[&[2, 1]]);
    world.start_klamm();
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2,1] le 0");
    assert!(world.broker(2, |broker| broker.leads(&partition("t-0")).is_some()));
}

#[test]
fn notices_of_former_times_are_removed_and_what_they_said_is_known() {
    let mut world = World::led(&[1, 2], "2.4");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    world.klamm().kill();
    world.klamm().expire_session();
    assert!(world.leader_writes_isr("t-0", &[1]));
    for broken in ["isr_change_0000000007", "isr_change_strange"] {
        let path = format!("/isr_change_notification/{broken}");
        world.zookeeper.poke(&path, b"{");
    }
    world
        .zookeeper
        .poke("/log_dir_event_notification/log_dir_event_0000000000", b"");
    world.start_klamm();
    world.settle();
    let left = |parent| world.zookeeper.look_children(parent);
    assert_eq!(left("/isr_change_notification"), [""; 0]);
    assert_eq!(left("/log_dir_event_notification"), [""; 0]);
    let told = world.cached_at(2, "t-0");
    assert_eq!(told.as_deref(), Some("leader 1 isr [1] offline []"));
}

#[test]
fn broken_znodes_cost_only_themselves() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("good", &[&[1, 2], &[2, 1], &[1, 2]]);
    world.settle();
    world.klamm().kill();
    world.klamm().expire_session();
    let poke = |path: &str, data: &str| world.zookeeper.poke(path, data.as_bytes());
    poke("/brokers/topics/not-json", "{");
    poke("/brokers/topics/empty", "");
    poke(
        "/brokers/topics/strange name",
        r#"{"partitions":{"0":[1]}}"#,
    );
    poke(
        "/brokers/topics/no-partitions",
        r#"{"version":1,"partitions":{}}"#,
    );
    poke(
        "/brokers/topics/twice",
        r#"{"version":1,"partitions":{"0":[1,1],"1":[2],"2":[]}}"#,
    );
    poke("/brokers/topics/good/partitions/1/state", "nonsense");
    poke(
        "/brokers/topics/good/partitions/7/state",
        r#"{"of":"nobody"}"#,
    );
    poke("/brokers/ids/4", "{}");
    poke("/brokers/ids/five", "{}");
    world.start_klamm();
    world.settle();
    assert_eq!(world.standing_by(), "");
    assert_eq!(world.alive_at(1), [1, 2, 9]);
    for led in ["good-0", "good-2"] {
        let told = world.cached_at(2, led);
        assert_eq!(
            told.as_deref(),
            Some("leader 1 isr [1,2] offline []"),
            "{led}"
        );
    }
    assert_eq!(world.led_by("twice-1"), "leader 2 isr [2] le 0");
    let broken = world
        .zookeeper
        .look("/brokers/topics/good/partitions/1/state");
    assert_eq!(broken.map(|node| node.text()).as_deref(), Some("nonsense"));
    world.create_topic("after", &[&[1]]);
    world.settle();
    assert_eq!(world.led_by("after-0"), "leader 1 isr [1] le 0");
}

/// What nobody can lead has a state all the same, which clients and brokers that come back are told.
#[test]
fn a_leaderless_partition_whose_topic_could_not_be_read_is_known_once_it_is_mended() {
    let mut world = World::led(&[1, 2, 3], "3.9");
    world.create_topic("t", &[&[1, 2], &[2, 3]]);
    world.settle();
    world.leader_asks_isr("t-0", &[1]);
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader -1 isr [1] le 1");
    world.klamm().kill();
    world.klamm().expire_session();
    let node = world.zookeeper.look("/brokers/topics/t").unwrap();
    world.zookeeper.poke("/brokers/topics/t", b"{nonsense");
    world.bounce(3);
    world.start_klamm();
    world.settle();
    assert_eq!(world.cached_at(3, "t-0"), None);
    world.zookeeper.poke("/brokers/topics/t", node.data());
    world.settle();
    let told = world.cached_at(3, "t-0");
    assert_eq!(told.as_deref(), Some("leader -1 isr [1] offline [1]"));
    world.assert_converged();
    world.start_broker(1);
    world.settle();
    assert!(world.led_by("t-0").starts_with("leader 1 isr [1]"));
}

#[test]
fn topics_that_wait_for_deletion_get_no_new_leaders() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("doomed", &[&[1, 2]]);
    world.create_topic("kept", &[&[1, 2]]);
    world.settle();
    world.kill(1);
    world.zookeeper.poke("/admin/delete_topics/doomed", b"");
    next_klamm(&mut world);
    assert!(world.led_by("kept-0").starts_with("leader 2 "));
    assert!(!world.led_by("doomed-0").starts_with("leader 2 "));
    world.start_broker(1);
    world.settle();
    assert!(!world.led_by("doomed-0").starts_with("leader 1 "));
}

#[test]
fn a_state_written_by_a_later_controller_is_left_alone() {
    let mut world = World::led(&[1, 2], "2.8");
    world.create_topic("t", &[&[1, 2]]);
    world.settle();
    let later = br#"{"controller_epoch":99,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", later);
    world.kill(1);
    next_klamm(&mut world);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 5");
}

#[test]
fn brokers_up_to_2_0_get_a_second_look_because_they_fence_none_of_their_writes() {
    for (release, is_seen) in [("2.0", true), ("2.1", false)] {
        let mut world = World::of_brokers(&[1, 2], release);
        world.create_topic("t", &[&[1, 2]]);
        world.start_klamm();
        world.settle();
        world.told();
        let late = br#"{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[2,1]}"#;
        world
            .zookeeper
            .poke("/brokers/topics/t/partitions/0/state", late);
        world.advance(10_000);
        let seen = "L{1,2} t-0 leader 2 isr [2,1] le 3".to_owned();
        assert_eq!(world.told().contains(&seen), is_seen, "{release}");
    }
}

#[test]
fn topics_that_share_an_id_by_mistake_are_led_both() {
    let mut world = World::of_brokers(&[1, 2], "2.8");
    let id = klamm::model::TopicId::new([7; 16]).unwrap();
    world.create_topic_with_id("a", id, &[&[1, 2]]);
    world.create_topic_with_id("b", id, &[&[2, 1]]);
    world.start_klamm();
    world.settle();
    assert_eq!(world.led_by("a-0"), "leader 1 isr [1,2] le 0");
    assert_eq!(world.led_by("b-0"), "leader 2 isr [2,1] le 0");
}

#[test]
fn a_reassignment_that_a_former_controller_began_goes_on() {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    let moving = br#"{"version":2,"partitions":{"0":[3,1,2],"1":[1,9]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1,2]}}"#;
    world.zookeeper.poke("/brokers/topics/t", moving);
    let state = br#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":6,"isr":[1,2]}"#;
    world
        .zookeeper
        .poke("/brokers/topics/t/partitions/0/state", state);
    world.start_klamm();
    world.settle();
    let told = world.told();
    let line = "t-0 leader 1 isr [1,2] le 6 adding [3] removing [1,2]";
    assert!(told.iter().any(|told| told.contains(line)), "{told:?}");
    let node = world.zookeeper.look("/brokers/topics/t").unwrap().text();
    assert!(node.contains(r#""adding_replicas":{"0":[3]}"#), "{node}");
    assert!(
        node.contains(r#""removing_replicas":{"0":[1,2]}"#),
        "{node}"
    );
    assert!(!world.assigned("t-1").contains(&9));
    world.kill(1);
    world.settle();
    assert_eq!(world.led_by("t-0"), "leader 2 isr [2] le 8");
    world.catch_up();
    assert_eq!(world.led_by("t-0"), "leader 3 isr [3] le 10");
    assert_eq!(world.assigned("t-0"), [3]);
}
