//! Below IBP 2.7 leaders write in-sync sets themselves, and leave a notice later.

use super::*;

fn notices(small: &Small) -> Vec<Vec<u8>> {
    let parent = paths::ISR_CHANGE_NOTIFICATION;
    let names = small.zookeeper.look_children(parent);
    let data = |name: String| {
        let node = small.zookeeper.look(&format!("{parent}/{name}")).unwrap();
        node.data().to_vec()
    };
    names.into_iter().map(data).collect()
}

/// Brokers 1 to 3 hold one record, 2 and 3 are in sync with 1, and 3 hangs.
fn with_a_laggard(release: &str, ibp: &str) -> Small {
    let mut small = small(release, ibp);
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.tick(ALL);
    small.tick(ALL);
    small.set_process(3, Process::Paused);
    small.produce(1);
    small
}

#[test]
fn a_member_that_lags_too_long_leaves_and_only_then_is_the_record_acknowledged() {
    for (release, ibp) in [
        ("1.0", "1.0"),
        ("2.4", "2.4"),
        ("2.8", "2.4"),
        ("3.9", "2.6"),
    ] {
        let mut small = with_a_laggard(release, ibp);
        small.pass(LAG_MS - 100, ALL);
        assert_eq!(small.state("t-0"), (0, vec![1, 2, 3], 0), "{release}");
        assert_eq!(small.acknowledged(), [1], "{release}");
        small.pass(LAG_MS, ALL);
        assert_eq!(small.state("t-0"), (0, vec![1, 2], 1), "{release}");
        assert_eq!(small.acknowledged(), [1, 2], "{release}");
        assert_eq!(small.around.asked, [], "{release}");
        small.pass(60_000, ALL);
        assert_eq!(small.state("t-0"), (0, vec![1, 2], 1), "once: {release}");
    }
}

#[test]
fn a_member_that_is_idle_because_there_is_nothing_to_fetch_stays() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.tick(ALL);
    small.tick(ALL);
    small.set_process(3, Process::Paused);
    small.pass(4 * LAG_MS, ALL);
    assert_eq!(small.state("t-0"), (0, vec![1, 2, 3], 0));
}

#[test]
fn a_follower_comes_back_once_it_has_all_that_is_committed() {
    let mut small = with_a_laggard("2.4", "2.4");
    small.pass(2 * LAG_MS, ALL);
    assert_eq!(small.state("t-0").1, [1, 2]);
    small.set_process(3, Process::Running);
    small.tick(&[3]);
    assert_eq!(
        small.state("t-0").1,
        [1, 2],
        "its first fetch shows an old end"
    );
    small.tick(&[3]);
    assert_eq!(small.state("t-0"), (0, vec![1, 2, 3], 2));
}

#[test]
fn a_follower_joins_only_with_all_that_its_leader_began_with() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2], 0, &[1, 2]);
    small.produce(1);
    small.tick(&[2]);
    // Broker 2 has it and leads alone; nobody told it that anything is committed.
    small.elect("t-0", 2, &[1, 2], 1, &[2, 3]);
    assert_eq!(small.log(2, "t-0").high_watermark, 0);
    small.tick(&[3]);
    assert_eq!(small.state("t-0").1, [1, 2]);
    small.tick(&[3]);
    assert_eq!(small.state("t-0").1, [1, 2, 3]);
}

#[test]
fn a_notice_of_all_changes_is_left_when_no_other_came_for_five_seconds() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2], 0, ALL);
    small.elect("t-1", 1, &[1, 2], 0, ALL);
    small.tick(&[1]);
    small.tick(&[3]);
    assert_eq!(small.state("t-0").1, [1, 2, 3]);
    assert!(!small.life.is_at_rest(BrokerId(1)));
    small.pass(5_000, ALL);
    assert_eq!(notices(&small), [[0; 0]; 0]);
    small.pass(2_500, ALL);
    let both = [partition("t-0"), partition("t-1")];
    assert_eq!(notices(&small), [znode::encode_isr_change(&both)]);
    assert!(small.life.is_at_rest(BrokerId(1)));
    small.pass(60_000, ALL);
    assert_eq!(notices(&small).len(), 1);
}

#[test]
fn changes_that_never_pause_are_told_of_after_a_minute() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1], 0, ALL);
    small.tick(&[1]);
    // Broker 3 is told anew all the time that it isn't in sync, and joins again.
    for epoch in 1..=15 {
        small.elect("t-0", 1, &[1], epoch, ALL);
        small.pass(4_000, ALL);
        assert_eq!(small.state("t-0").1.len(), 3);
    }
    assert_eq!(notices(&small), [[0; 0]; 0]);
    small.elect("t-0", 1, &[1], 16, ALL);
    small.pass(2_600, ALL);
    assert_eq!(notices(&small).len(), 1);
}

#[test]
fn a_stale_version_changes_nothing_until_the_leader_is_told_anew() {
    for (release, ibp) in [("2.4", "2.4"), ("2.7", "2.6"), ("2.8", "2.4")] {
        let mut small = with_a_laggard(release, ibp);
        // The same state under a later version and another controller's epoch, which the leader was not told.
        let state = LeaderAndIsr::initial(BrokerId(1), BrokerIds::from([1, 2, 3]));
        let data = znode::encode_state(&state, ControllerEpoch(2));
        small
            .zookeeper
            .poke(&paths::state(&partition("t-0")), &data);
        small.pass(4 * LAG_MS, ALL);
        assert_eq!(small.state("t-0"), (0, vec![1, 2, 3], 1), "{release}");
        assert_eq!(small.acknowledged(), [1], "{release}");
        small.elect("t-0", 1, &[1, 2, 3], 1, &[1, 2]);
        small.pass(2 * LAG_MS, ALL);
        assert_eq!(small.state("t-0"), (1, vec![1, 2], 3), "{release}");
        assert_eq!(small.acknowledged(), [1, 2], "{release}");
    }
}

#[test]
fn the_state_is_written_with_the_epoch_of_the_controller_that_made_it() {
    let mut small = with_a_laggard("2.4", "2.4");
    small.broker(1, |broker| broker.controller_epoch = ControllerEpoch(5));
    small.pass(2 * LAG_MS, ALL);
    let path = paths::state(&partition("t-0"));
    let node = small.zookeeper.look(&path).unwrap();
    let read = znode::decode_state(&path, node.data(), 1).found().unwrap();
    assert_eq!(read.controller_epoch, ControllerEpoch(1));
    assert_eq!(read.leader_and_isr.isr, BrokerIds::from([1, 2]));
}

#[test]
fn a_leader_without_a_connection_counts_on_nothing_and_writes_when_it_is_back() {
    let mut small = with_a_laggard("2.4", "2.4");
    let session = small.around.sessions[&BrokerId(1)].clone();
    small.zookeeper.disconnect(session.id());
    small.pass(2 * LAG_MS, ALL);
    assert_eq!(small.acknowledged(), [1]);
    assert!(!small.life.is_at_rest(BrokerId(1)));
    small.zookeeper.reconnect(session.id());
    small.tick(&[1]);
    assert_eq!(small.state("t-0"), (0, vec![1, 2], 1));
    small.tick(&[1]);
    assert_eq!(small.acknowledged(), [1, 2]);
}

#[test]
fn a_write_whose_answer_was_lost_is_found_done() {
    let mut small = with_a_laggard("2.4", "2.4");
    let session = small.around.sessions[&BrokerId(1)].clone();
    small.zookeeper.disconnect(session.id());
    small.pass(2 * LAG_MS, ALL);
    small.write("t-0", 1, &[1, 2], 0);
    small.zookeeper.reconnect(session.id());
    small.pass(100, &[1]);
    assert_eq!(small.state("t-0"), (0, vec![1, 2], 1));
    assert_eq!(small.acknowledged(), [1, 2]);
    let known = small.broker(1, |b| b.replicas[&partition("t-0")].partition_epoch);
    assert_eq!(known, PartitionEpoch(1));
}

#[test]
fn a_leader_without_a_session_begins_no_change() {
    let mut small = with_a_laggard("2.4", "2.4");
    let session = small.around.sessions.remove(&BrokerId(1));
    small.pass(4 * LAG_MS, ALL);
    assert_eq!(small.state("t-0"), (0, vec![1, 2, 3], 0));
    assert_eq!(small.acknowledged(), [1]);
    small.around.sessions.insert(BrokerId(1), session.unwrap());
    small.pass(LAG_MS, ALL);
    assert_eq!(small.state("t-0"), (0, vec![1, 2], 1));
}

#[test]
fn a_leader_that_hung_for_long_finds_its_followers_lagging() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.tick(ALL);
    small.set_process(1, Process::Paused);
    small.pass(3 * LAG_MS, ALL);
    small.set_process(1, Process::Running);
    small.produce(1);
    assert_eq!(small.state("t-0"), (0, vec![1], 1));
    assert_eq!(small.acknowledged(), [1]);
}
