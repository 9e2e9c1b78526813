//! From IBP 2.7 on leaders ask the controller for their in-sync sets.

use super::*;

const RELEASES: [&str; 6] = ["2.7", "2.8", "3.0", "3.1", "3.2", "3.9"];

/// t-0 led by broker 1 with 1 and 2 in sync, and a wish for 3, which was asked for.
fn wishing(release: &str) -> Small {
    let mut small = small(release, release);
    small.elect("t-0", 1, &[1, 2], 0, ALL);
    small.tick(&[1, 2, 3]);
    small.tick(&[1, 2]);
    assert_eq!(small.sets_asked(), [[1, 2, 3]], "{release}");
    small
}

#[test]
fn a_leader_asks_as_its_release_does() {
    let table = [
        ("2.7", "2.7", 0, false),
        ("2.8", "2.8", 0, false),
        ("3.2", "3.2", 1, false),
        ("3.3", "3.3", 2, true),
        ("3.9", "3.9", 3, true),
        ("3.9", "2.7", 1, false),
    ];
    for (release, ibp, version, by_id) in table {
        let mut small = small(release, ibp);
        small.elect("t-0", 1, &[1, 2], 4, ALL);
        small.tick(ALL);
        let request = small.last_asked();
        let topic = match small.topic_id.filter(|_| by_id) {
            Some(id) => TopicReference::Id(id),
            None => TopicReference::Name(partition("t-0").topic),
        };
        let item = AlterPartitionItem {
            topic,
            partition: 0,
            leader_epoch: LeaderEpoch(4),
            new_isr: BrokerIds::from([1, 2, 3]),
            leader_recovery_state: LeaderRecoveryState::Recovered,
            partition_epoch: PartitionEpoch(0),
        };
        assert_eq!(request.version, version, "{release} at {ibp}");
        assert_eq!(request.partitions, [item], "{release} at {ibp}");
        assert_eq!(request.from.epoch, BrokerEpoch(1), "{release} at {ibp}");
    }
}

#[test]
fn a_member_that_joins_counts_at_once_and_stays_when_it_is_granted() {
    for release in RELEASES {
        let mut small = wishing(release);
        small.set_process(3, Process::Paused);
        small.produce(1);
        // Long after it was close behind: the wish alone makes it count.
        small.pass(3 * LAG_MS, &[1, 2]);
        assert_eq!(small.acknowledged(), [0; 0], "{release}");
        assert_eq!(small.sets_asked().len(), 1, "one at a time: {release}");
        small.grant(1);
        let isr = small.broker(1, |b| b.replicas[&partition("t-0")].isr.clone());
        assert_eq!(isr, BrokerIds::from([1, 2, 3]), "{release}");
        assert!(small.life.is_at_rest(BrokerId(1)), "{release}");
        // Now it lags, and leaves.
        small.pass(2 * LAG_MS, &[1, 2]);
        assert_eq!(small.sets_asked()[1..], [[1, 2]], "{release}");
        assert_eq!(small.acknowledged(), [0; 0], "{release}");
        small.grant(1);
        small.tick(&[1]);
        assert_eq!(small.acknowledged(), [1], "{release}");
        assert_eq!(small.state("t-0"), (0, vec![1, 2], 2), "{release}");
    }
}

#[test]
fn a_broker_that_clients_are_not_sent_to_is_not_asked_for_from_3_3_on() {
    for (release, asked) in [("3.2", 1), ("3.3", 0), ("3.9", 0)] {
        let mut small = small(release, release);
        small.elect("t-0", 1, &[1, 2], 0, ALL);
        small.broker(1, |broker| broker.alive.remove(&BrokerId(3)));
        small.pass(1_000, ALL);
        assert_eq!(small.around.asked.len(), asked, "{release}");
    }
}

#[test]
fn each_refusal_has_the_effect_that_it_has_on_a_leader_of_each_release() {
    // What becomes of the wish: A asked for again at once, R given up and wished for again with the next fetch, - neither
    // until the leader is told anew.
    let table = [
        (KafkaError::UNKNOWN_TOPIC_OR_PARTITION, "------"),
        (KafkaError::FENCED_LEADER_EPOCH, "------"),
        (KafkaError::INVALID_UPDATE_VERSION, "------"),
        (KafkaError::INVALID_REQUEST, "---A--"),
        (KafkaError::UNKNOWN_TOPIC_ID, "---AA-"),
        (KafkaError::INELIGIBLE_REPLICA, "---AAR"),
        (KafkaError::OPERATION_NOT_ATTEMPTED, "---RRR"),
        (KafkaError::UNKNOWN_SERVER_ERROR, "---AAA"),
        (KafkaError::REQUEST_TIMED_OUT, "---AAA"),
    ];
    for (error, effects) in table {
        for (release, effect) in RELEASES.iter().zip(effects.chars()) {
            let mut small = wishing(release);
            small.refuse(1, &[error]);
            let at_once = small.around.asked.len() == 2;
            assert_eq!(at_once, effect == 'A', "{release}: {error}");
            small.pass(1_000, ALL);
            let again = small.around.asked.len() == 2;
            assert_eq!(again, effect != '-', "{release}: {error}");
            if effect == '-' {
                small.elect("t-0", 1, &[1, 2], 1, ALL);
                small.pass(100, ALL);
                assert_eq!(small.around.asked.len(), 2, "{release}: {error}");
            }
            small.grant(1);
            let grown = small.state("t-0").1;
            assert_eq!(grown, [1, 2, 3], "{release}: {error}");
        }
    }
}

#[test]
fn releases_that_trip_over_a_refusal_leave_the_rest_of_the_answer_unread() {
    for (release, read) in [("2.8", false), ("3.0", false), ("3.1", true), ("3.9", true)] {
        let mut small = small(release, release);
        small.elect("t-0", 1, &[1, 2], 0, ALL);
        small.elect("t-1", 1, &[1, 2], 0, ALL);
        small.around.knows_controller = false;
        small.tick(ALL);
        small.around.knows_controller = true;
        // The first request has t-0 alone; the next has both.
        small.pass(50, &[1]);
        small.answer(
            1,
            Some(Answer::AlterPartition(Err(KafkaError::STALE_BROKER_EPOCH))),
        );
        small.pass(50, &[1]);
        assert_eq!(small.last_asked().partitions.len(), 2, "{release}");
        let mut answers = small.last_asked().partitions.clone().into_iter();
        let refused = answers.next().unwrap();
        let refused = AlterPartitionAnswer {
            topic: refused.topic,
            partition: refused.partition,
            result: Err(KafkaError::UNKNOWN_SERVER_ERROR),
        };
        let granted = small.granted(1, answers.next().unwrap());
        let answers = Answer::AlterPartition(Ok(vec![refused, granted]));
        small.answer(1, Some(answers));
        let isr = small.broker(1, |b| b.replicas[&partition("t-1")].isr.len());
        assert_eq!(isr == 3, read, "{release}");
    }
}

#[test]
fn a_lost_answer_or_another_controller_means_the_same_request_again() {
    let by_partition = |small: &mut Small| small.refuse(1, &[KafkaError::NOT_CONTROLLER]);
    let whole = |small: &mut Small| {
        small.answer(
            1,
            Some(Answer::AlterPartition(Err(KafkaError::NOT_CONTROLLER))),
        );
    };
    let lost = |small: &mut Small| small.answer(1, None);
    let ways: [&dyn Fn(&mut Small); 3] = [&by_partition, &whole, &lost];
    for release in RELEASES {
        for way in ways {
            let mut small = wishing(release);
            // Registered anew meanwhile: the same request still names the old epoch.
            small.broker(1, |broker| broker.epoch = BrokerEpoch(50));
            way(&mut small);
            assert_eq!(small.around.asked.len(), 1, "{release}");
            small.pass(50, &[1]);
            assert_eq!(small.around.asked.len(), 2, "{release}");
            assert_eq!(small.around.asked[0], small.around.asked[1], "{release}");
            small.grant(1);
            assert_eq!(small.state("t-0").1, [1, 2, 3], "{release}");
            small.pass(1_000, ALL);
            assert_eq!(small.around.asked.len(), 2, "{release}");
        }
    }
}

#[test]
fn a_grant_whose_answer_was_lost_is_granted_again() {
    for release in RELEASES {
        let mut small = wishing(release);
        let state = small.write("t-0", 1, &[1, 2, 3], 0);
        small.answer(1, None);
        small.pass(50, &[1]);
        let item = small.last_asked().partitions[0].clone();
        let answer = AlterPartitionAnswer {
            topic: item.topic,
            partition: 0,
            result: Ok(state),
        };
        small.answer(1, Some(Answer::AlterPartition(Ok(vec![answer]))));
        let known = small.broker(1, |b| b.replicas[&partition("t-0")].clone());
        assert_eq!(known.isr, BrokerIds::from([1, 2, 3]), "{release}");
        assert_eq!(known.partition_epoch, PartitionEpoch(1), "{release}");
    }
}

#[test]
fn a_request_that_is_refused_as_a_whole_is_made_anew_after_a_while() {
    for release in RELEASES {
        let mut small = wishing(release);
        small.broker(1, |broker| broker.epoch = BrokerEpoch(50));
        let stale = Answer::AlterPartition(Err(KafkaError::STALE_BROKER_EPOCH));
        small.answer(1, Some(stale));
        // 2.7 looks every 50 ms, and the others wait so long.
        assert_eq!(small.around.asked.len(), 1, "{release}");
        small.pass(50, &[1]);
        assert_eq!(small.around.asked.len(), 2, "{release}");
        assert_eq!(small.last_asked().from.epoch, BrokerEpoch(50), "{release}");
    }
}

#[test]
fn a_wish_waits_until_a_controller_is_known() {
    let mut small = small("3.9", "3.9");
    small.around.knows_controller = false;
    small.elect("t-0", 1, &[1, 2], 0, ALL);
    small.pass(1_000, ALL);
    assert!(!small.life.is_at_rest(BrokerId(1)));
    small.around.knows_controller = true;
    small.pass(50, &[1]);
    assert_eq!(small.sets_asked(), [[1, 2, 3]]);
}

#[test]
fn one_request_is_out_at_a_time_and_the_next_has_all_that_came_meanwhile() {
    for release in RELEASES {
        let mut small = small(release, release);
        for of in ["t-0", "t-1", "t-2"] {
            small.elect(of, 1, &[1, 2], 0, ALL);
        }
        small.pass(200, ALL);
        assert_eq!(small.around.asked.len(), 1, "{release}");
        assert_eq!(small.last_asked().partitions.len(), 1, "{release}");
        small.grant(1);
        small.tick(&[1]);
        assert_eq!(small.around.asked.len(), 2, "{release}");
        let second: Vec<i32> = small
            .last_asked()
            .partitions
            .iter()
            .map(|item| item.partition)
            .collect();
        assert_eq!(second, [1, 2], "{release}");
        small.grant(1);
        assert!(small.life.is_at_rest(BrokerId(1)), "{release}");
    }
}

#[test]
fn a_late_answer_is_no_news_to_a_leader_that_was_told_anew() {
    for release in RELEASES {
        let mut small = wishing(release);
        let late = small.last_asked().partitions[0].clone();
        let late = small.granted(1, late);
        small.set_process(3, Process::Paused);
        small.elect("t-0", 1, &[1, 2], 1, &[1, 2]);
        let late = Answer::AlterPartition(Ok(vec![late]));
        small.answer(1, Some(late));
        let known = small.broker(1, |b| b.replicas[&partition("t-0")].clone());
        assert_eq!(known.isr, BrokerIds::from([1, 2]), "{release}");
        assert_eq!(known.partition_epoch, PartitionEpoch(2), "{release}");
    }
}

#[test]
fn a_late_grant_to_a_leader_that_wishes_for_the_same_again_is_no_news() {
    for release in ["2.7", "2.8"] {
        let mut small = wishing(release);
        let late = small.last_asked().partitions[0].clone();
        let late = small.granted(1, late);
        small.elect("t-0", 1, &[1, 2], 1, ALL);
        small.tick(ALL);
        small.answer(1, Some(Answer::AlterPartition(Ok(vec![late]))));
        let known = small.broker(1, |b| b.replicas[&partition("t-0")].clone());
        assert_eq!(known.isr, BrokerIds::from([1, 2]), "{release}");
        assert_eq!(known.partition_epoch, PartitionEpoch(2), "{release}");
    }
}

#[test]
fn a_wish_made_while_an_older_one_is_out_is_lost_refused_or_made_again() {
    // 2.7 and 2.8 forget the older wish when they are told anew; its answer then takes the new one with it. Later ones
    // refuse themselves the new one and wish again.
    for (release, ends_in_sync) in [("2.7", false), ("2.8", false), ("3.1", true), ("3.9", true)] {
        let mut small = wishing(release);
        let late = small.last_asked().partitions[0].clone();
        small.elect("t-0", 1, &[1, 2], 1, ALL);
        small.pass(200, ALL);
        assert_eq!(small.around.asked.len(), 1, "{release}");
        let late = AlterPartitionAnswer {
            topic: late.topic,
            partition: 0,
            result: Err(KafkaError::FENCED_LEADER_EPOCH),
        };
        small.answer(1, Some(Answer::AlterPartition(Ok(vec![late]))));
        small.pass(200, ALL);
        assert_eq!(small.around.asked.len() == 2, ends_in_sync, "{release}");
    }
}

#[test]
fn a_restart_forgets_what_was_asked() {
    for release in RELEASES {
        let mut small = wishing(release);
        small.restart(1);
        assert!(!small.life.is_at_rest(BrokerId(1)), "nobody looked yet");
        small.tick(&[1]);
        assert!(small.life.is_at_rest(BrokerId(1)), "{release}");
        small.elect("t-0", 1, &[1, 2], 1, ALL);
        small.pass(100, ALL);
        assert_eq!(small.around.asked.len(), 2, "{release}");
        assert_eq!(small.last_asked().from.epoch, BrokerEpoch(11), "{release}");
        assert_eq!(small.last_asked().partitions[0].leader_epoch.0, 1);
    }
}

#[test]
fn an_answer_to_a_broker_that_hangs_is_read_when_it_goes_on() {
    let mut small = wishing("3.9");
    small.set_process(1, Process::Paused);
    small.grant(1);
    let isr_of_1 =
        |small: &Small| small.broker(1, |b| b.replicas[&partition("t-0")].isr.as_i32s().to_vec());
    assert_eq!(isr_of_1(&small), [1, 2]);
    small.set_process(1, Process::Running);
    small.tick(&[1]);
    assert_eq!(isr_of_1(&small), [1, 2, 3]);
    assert!(small.life.is_at_rest(BrokerId(1)));
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut small = wishing("3.9");
    small.grant(1);
    let state = small.state("t-0");
    small.answer(1, None);
    small.refuse(1, &[KafkaError::UNKNOWN_SERVER_ERROR]);
    small.pass(1_000, ALL);
    assert_eq!(small.around.asked.len(), 1);
    assert_eq!(small.state("t-0"), state);
}
