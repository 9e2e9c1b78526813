//! Followers copy what their leaders have, and leaders commit what all in sync have.

use super::*;

#[test]
fn a_record_is_acknowledged_once_all_in_sync_have_it_and_only_once() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.tick(ALL);
    small.produce(1);
    small.tick(&[2, 2, 1]);
    assert_eq!(small.acknowledged(), [0; 0], "broker 3 has not fetched it");
    small.tick(&[3, 3, 1]);
    assert_eq!(small.acknowledged(), [1]);
    assert_eq!(small.log(1, "t-0").high_watermark, 1);
    small.tick(&[2, 3, 1, 2, 3, 1]);
    assert_eq!(small.acknowledged(), [1]);
    for follower in [2, 3] {
        assert_eq!(small.log(follower, "t-0"), small.log(1, "t-0"));
    }
}

#[test]
fn a_fetch_brings_so_many_records_and_no_more() {
    let habits = Habits {
        fetch_records: 2,
        ..Habits::default()
    };
    let mut small = small_with("2.4", "2.4", habits);
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    for _ in 0..5 {
        small.produce(1);
    }
    for held in [2, 4, 5, 5] {
        small.tick(&[2]);
        assert_eq!(small.log(2, "t-0").end(), held);
    }
}

#[test]
fn a_new_leader_makes_followers_drop_what_it_does_not_have() {
    for release in ["2.4", "3.9"] {
        let mut small = small(release, release);
        small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
        small.produce(1);
        small.tick(ALL);
        small.tick(ALL);
        // Broker 1 alone has records 2 and 3, and broker 2 leads without having seen them.
        small.around.cut = BTreeSet::from([(BrokerId(2), BrokerId(1)), (BrokerId(3), BrokerId(1))]);
        small.produce(1);
        small.produce(1);
        small.elect("t-0", 2, &[1, 2, 3], 1, &[2, 3]);
        small.produce(2);
        small.produce(2);
        assert_eq!(small.ids(1, "t-0"), [1, 2, 3]);
        assert_eq!(small.ids(2, "t-0"), [1, 4, 5]);
        // It does not fetch under the old epoch; once it is told, it keeps what it shares.
        small.tick(&[1]);
        small.tell("t-0", &small.write("t-0", 2, &[1, 2, 3], 1), &[1]);
        small.tick(&[1, 3, 1, 3, 2]);
        for id in ALL {
            assert_eq!(small.ids(*id, "t-0"), [1, 4, 5], "{release}: broker {id}");
        }
        // It had not heard that record 1 was committed, and finds so itself.
        let said = small.around.acknowledged.iter();
        let said: Vec<(i32, u64)> = said.map(|(by, record)| (by.0, record.id)).collect();
        assert_eq!(said, [(1, 1), (2, 1), (2, 4), (2, 5)], "{release}");
    }
}

#[test]
fn a_deposed_leader_that_has_not_heard_of_it_appends_but_acknowledges_nothing() {
    for (release, ibp) in [
        ("2.4", "2.4"),
        ("2.8", "2.4"),
        ("2.8", "2.8"),
        ("3.9", "3.9"),
    ] {
        let mut small = small(release, ibp);
        small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
        small.tick(ALL);
        small.elect("t-0", 2, &[2, 3], 1, &[2, 3]);
        let before = small.state("t-0");
        small.produce(1);
        small.pass(3 * LAG_MS, ALL);
        if let Some(request) = small.around.asked.last().cloned() {
            assert_eq!(request.from.broker, BrokerId(1));
            assert_eq!(request.partitions[0].new_isr, BrokerIds::from([1]));
            small.refuse(1, &[KafkaError::FENCED_LEADER_EPOCH]);
        }
        small.pass(3 * LAG_MS, ALL);
        assert_eq!(small.ids(1, "t-0"), [1], "{release} at {ibp}");
        assert_eq!(small.acknowledged(), [0; 0], "{release} at {ibp}");
        assert_eq!(small.state("t-0"), before, "{release} at {ibp}");
    }
}

#[test]
fn a_leader_that_is_alone_in_sync_acknowledges_at_once() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1], 0, &[1]);
    small.produce(1);
    assert_eq!(small.acknowledged(), [1]);
}

#[test]
fn a_leader_waits_for_a_live_follower_that_is_close_behind_though_not_in_sync() {
    for (release, is_live, waits) in [
        ("2.4", true, true),
        ("2.4", false, true),
        ("3.9", true, true),
        ("3.9", false, false),
    ] {
        let mut small = small(release, "2.4");
        small.elect("t-0", 1, &[1], 0, &[1, 2]);
        // Without a session nobody is let in.
        small.around.sessions.remove(&BrokerId(1));
        small.tick(&[1, 2]);
        if !is_live {
            small.broker(1, |broker| broker.alive.remove(&BrokerId(2)));
        }
        small.produce(1);
        assert_eq!(small.acknowledged().is_empty(), waits, "{release}");
        small.pass(LAG_MS, &[1]);
        assert_eq!(small.acknowledged().is_empty(), waits, "{release}");
        small.pass(100, &[1]);
        assert_eq!(small.acknowledged(), [1], "{release}");
    }
}

#[test]
fn a_follower_that_hangs_or_is_dead_fetches_nothing_and_a_leader_that_hangs_answers_nothing() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.set_process(2, Process::Paused);
    small.set_process(3, Process::Dead);
    small.tick(ALL);
    assert_eq!((small.ids(2, "t-0"), small.ids(3, "t-0")), (vec![], vec![]));
    small.set_process(2, Process::Running);
    small.set_process(1, Process::Paused);
    small.tick(ALL);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    small.set_process(1, Process::Running);
    small.tick(ALL);
    assert_eq!(small.ids(2, "t-0"), [1]);
}

#[test]
fn a_follower_with_another_topic_id_or_of_what_the_leader_s_clients_do_not_know_is_refused() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1], 0, ALL);
    small.produce(1);
    let at = partition("t-0");
    let known = small.broker(1, |broker| broker.cache.remove(&at));
    small.tick(&[2]);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    small.broker(1, |broker| broker.cache.insert(at.clone(), known.unwrap()));
    small.broker(2, |broker| broker.logs.insert(at, TopicId::new([8; 16])));
    small.tick(&[2, 3]);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    assert_eq!(small.ids(3, "t-0"), [1]);
}

#[test]
fn a_follower_that_stalls_fetches_nothing_for_so_long() {
    let habits = Habits {
        stall: ALWAYS,
        stall_ms: Span::new(500, 500),
        ..Habits::default()
    };
    let mut small = small_with("3.9", "3.9", habits);
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.tick(&[2]);
    small.produce(1);
    small.pass(450, &[2]);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    small.pass(50, &[2]);
    assert_eq!(small.ids(2, "t-0"), [1]);
}

#[test]
fn a_restart_keeps_the_log_and_forgets_how_far_followers_were() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.tick(&[2, 3, 2, 3, 1]);
    assert_eq!(small.acknowledged(), [1]);
    small.restart(1);
    assert_eq!(small.ids(1, "t-0"), [1]);
    small.elect("t-0", 1, &[1, 2, 3], 1, &[1]);
    small.produce(1);
    small.tick(ALL);
    // The others have not heard of the new epoch, so nothing is known of them.
    assert_eq!(small.acknowledged(), [1]);
    let state = small.write("t-0", 1, &[1, 2, 3], 1);
    small.tell("t-0", &state, &[2, 3]);
    small.tick(&[2, 3, 2, 3, 1]);
    assert_eq!(small.acknowledged(), [1, 2]);
}

#[test]
fn what_a_leader_knew_of_followers_before_another_led_counts_no_more() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.produce(1);
    small.tick(&[2, 2, 3]);
    // Broker 1 knows that broker 2 has both; both orders come before it acts again.
    small.elect("t-0", 3, &[1, 2, 3], 1, &[1]);
    small.elect("t-0", 1, &[1, 2], 2, &[1]);
    small.tick(&[1, 1]);
    assert_eq!(small.acknowledged(), [0; 0]);
}

#[test]
fn a_deleted_replica_loses_its_log_and_a_partition_of_the_same_name_begins_empty() {
    let mut small = small("2.4", "2.4");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.tick(ALL);
    small.stop(2, "t-0");
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    assert_eq!(small.ids(1, "t-0"), [1]);
    // A broker without topic ids that missed the deletion leads with the old content.
    small.zookeeper.uproot("/brokers/topics/t");
    small.restart(1);
    small.elect("t-0", 1, &[1], 0, ALL);
    small.tick(&[2]);
    assert_eq!(small.ids(2, "t-0"), [1]);
}

#[test]
fn a_log_in_a_failed_directory_is_hidden_until_a_restart_after_the_repair() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.produce(1);
    small.tick(ALL);
    let at = partition("t-0");
    small.broker(2, |broker| broker.fail_log_dir(std::slice::from_ref(&at)));
    small.tick(ALL);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    // Restarted without repair: the directory is empty.
    small.restart(2);
    assert_eq!(small.broker(2, |broker| broker.logs.len()), 0);
    small.broker(2, SimBroker::repair_log_dir);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
    small.restart(2);
    assert_eq!(small.ids(2, "t-0"), [1]);
    let id = small.broker(2, |broker| broker.logs[&at]);
    assert_eq!(id, small.topic_id);
    // What came into being meanwhile is the newer log, and stays.
    small.broker(2, |broker| broker.fail_log_dir(std::slice::from_ref(&at)));
    small.restart(2);
    small.elect("t-0", 1, &[1], 1, &[1, 2]);
    small.broker(2, SimBroker::repair_log_dir);
    small.restart(2);
    assert_eq!(small.ids(2, "t-0"), [0; 0]);
}

#[test]
fn producers_fall_silent_and_the_rest_goes_on() {
    let mut small = small("3.9", "3.9");
    small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
    small.life.habits.produce = ALWAYS;
    small.pass(500, ALL);
    small.life.quiet();
    let made = small.log(1, "t-0").end();
    assert_eq!(made, 10);
    small.pass(500, ALL);
    assert_eq!(small.log(1, "t-0").end(), made);
    assert_eq!(small.acknowledged().len(), made);
    for id in ALL {
        assert_eq!(small.log(*id, "t-0"), small.log(1, "t-0"));
    }
}

#[test]
fn the_same_chance_gives_the_same_logs() {
    let run = |seed| {
        let habits = Habits {
            stall: Rate(200_000),
            stall_ms: Span::new(0, 1_000),
            ..Habits::default()
        };
        let mut small = small_with("3.9", "3.9", habits);
        small.life.chance = Chance::of(seed, "life");
        small.life.habits.produce = Rate(300_000);
        small.elect("t-0", 1, &[1, 2, 3], 0, ALL);
        small.elect("t-1", 2, &[1, 2, 3], 0, ALL);
        small.pass(3_000, ALL);
        let logs = [1, 2, 3].map(|id| (small.log(id, "t-0"), small.log(id, "t-1")));
        (logs, small.acknowledged())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
