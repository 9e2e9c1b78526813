//! AlterPartition by hand-made requests: what isn't one row of `fixtures/decisions/alter_partition.txt`.

use super::*;
use crate::machine::small_cluster::{
    self, committed, put_led_partition, put_partition, registration, topic,
};
use crate::model::{BrokerEpoch, TopicId, TopicName};

const LEADER: BrokerId = BrokerId(1);

/// Brokers 1 to 4 live; t-0 on 1, 2, 3, led by 1 under leader epoch 5, all in sync at partition epoch 7.
fn cluster() -> (ControllerContext, TopicPartition) {
    let mut context = small_cluster::of_brokers(&[1, 2, 3, 4]);
    let partition = put_led_partition(&mut context, "t", 0, &[1, 2, 3], 1);
    (context, partition)
}

fn leader(broker: i32) -> Incarnation {
    Incarnation {
        broker: BrokerId(broker),
        epoch: registration(broker).epoch,
    }
}

fn item(name: &TopicName, number: i32, isr: &[i32]) -> AlterPartitionItem {
    AlterPartitionItem {
        topic: TopicReference::Name(name.clone()),
        partition: number,
        leader_epoch: LeaderEpoch(5),
        new_isr: BrokerIds::from(isr),
        leader_recovery_state: LeaderRecoveryState::Recovered,
        partition_epoch: PartitionEpoch(7),
    }
}

fn request(version: i16, partitions: Vec<AlterPartitionItem>) -> AlterPartitionRequest {
    AlterPartitionRequest {
        version,
        from: leader(1),
        partitions,
    }
}

/// Decides and applies with these outcomes.
fn run(
    context: &mut ControllerContext,
    request: &AlterPartitionRequest,
    outcomes: &[ZkOutcome],
) -> AlterPartitionApplied {
    let decision = decide(context, request);
    assert_eq!(decision.writes.len(), outcomes.len(), "{decision:?}");
    apply(context, request, decision, outcomes)
}

fn codes(applied: &AlterPartitionApplied) -> Vec<Option<KafkaError>> {
    applied
        .answers
        .iter()
        .map(|answer| answer.result.as_ref().err().copied())
        .collect()
}

#[test]
fn only_a_broker_registered_under_its_exact_epoch_is_heard() {
    let (context, _) = cluster();
    let table = [
        (1, 101, Ok(())),
        (1, 100, Err(KafkaError::STALE_BROKER_EPOCH)),
        (1, 102, Err(KafkaError::STALE_BROKER_EPOCH)),
        (1, -1, Err(KafkaError::STALE_BROKER_EPOCH)),
        (99, 199, Err(KafkaError::STALE_BROKER_EPOCH)),
    ];
    for (broker, epoch, expected) in table {
        let from = Incarnation {
            broker: BrokerId(broker),
            epoch: BrokerEpoch(epoch),
        };
        assert_eq!(admit(&context, from), expected, "{from:?}");
        assert_eq!(
            admit(&ControllerContext::new(), from),
            Err(KafkaError::NOT_CONTROLLER)
        );
    }
}

#[test]
fn a_shrink_is_written_under_the_same_leader_epoch_and_our_controller_epoch() {
    let (mut context, partition) = cluster();
    let asked = request(1, vec![item(&partition.topic, 0, &[1, 3])]);
    let decision = decide(&context, &asked);
    let wanted = LeaderAndIsr {
        leader: LEADER,
        leader_epoch: LeaderEpoch(5),
        isr: BrokerIds::from([1, 3]),
        leader_recovery_state: LeaderRecoveryState::Recovered,
    };
    assert_eq!(
        decision.writes,
        [ZkWrite::SetState {
            partition: partition.clone(),
            leader_and_isr: wanted.clone(),
            controller_epoch: ControllerEpoch(3),
            expected: PartitionEpoch(7),
        }]
    );

    let applied = apply(
        &mut context,
        &asked,
        decision,
        &[ZkOutcome::Written { version: 8 }],
    );
    let answer = applied.answers[0].result.clone().unwrap();
    assert_eq!(*answer, wanted);
    assert_eq!(answer.partition_epoch(), PartitionEpoch(8));
    assert_eq!(answer.controller_epoch(), ControllerEpoch(3));
    assert_eq!(context.leadership(&partition), Some(&answer));
    assert_eq!(applied.changed, std::slice::from_ref(&partition));
    assert_eq!(applied.announce, [partition]);
    assert!(applied.reread.is_empty() && applied.refused.is_empty());
}

#[test]
fn a_repeated_request_succeeds_with_the_state_that_it_made_and_writes_nothing() {
    let (mut context, partition) = cluster();
    let asked = request(2, vec![item(&partition.topic, 0, &[1])]);
    run(&mut context, &asked, &[ZkOutcome::Written { version: 8 }]);
    for repeated_at in [7, 8] {
        let mut again = asked.clone();
        again.partitions[0].partition_epoch = PartitionEpoch(repeated_at);
        let applied = run(&mut context, &again, &[]);
        let answer = applied.answers[0].result.clone().unwrap();
        assert_eq!(answer.partition_epoch(), PartitionEpoch(8));
        assert_eq!(applied.announce, std::slice::from_ref(&partition));
        assert!(applied.changed.is_empty());
    }
}

#[test]
fn a_lost_race_leaves_the_context_as_it_was_and_asks_for_a_reread() {
    for version in 0..=3 {
        let (mut context, partition) = cluster();
        let before = context.leadership(&partition).cloned();
        let asked = request(version, vec![item(&partition.topic, 0, &[1])]);
        let applied = run(&mut context, &asked, &[ZkOutcome::VersionConflict]);
        assert_eq!(codes(&applied), [Some(KafkaError::INVALID_UPDATE_VERSION)]);
        assert_eq!(applied.reread, std::slice::from_ref(&partition));
        assert!(applied.changed.is_empty());
        assert_eq!(context.leadership(&partition).cloned(), before);
    }
}

#[test]
fn a_vanished_state_and_a_refused_write_are_told_in_codes_the_sender_knows() {
    let refused = ZkOutcome::Refused("no permission".to_owned());
    let table = [
        (
            0,
            &ZkOutcome::Missing,
            KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            3,
            &ZkOutcome::Missing,
            KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (0, &refused, KafkaError::INVALID_UPDATE_VERSION),
        (1, &refused, KafkaError::UNKNOWN_SERVER_ERROR),
        (3, &refused, KafkaError::UNKNOWN_SERVER_ERROR),
    ];
    for (version, outcome, expected) in table {
        let (mut context, partition) = cluster();
        let asked = request(version, vec![item(&partition.topic, 0, &[1])]);
        let applied = run(&mut context, &asked, std::slice::from_ref(outcome));
        assert_eq!(codes(&applied), [Some(expected)], "version {version}");
        assert_eq!(applied.reread.is_empty(), *outcome == refused);
        assert_eq!(applied.refused[0].code, expected);
    }
}

#[test]
fn a_write_of_which_nothing_was_heard_is_no_success() {
    let (mut context, partition) = cluster();
    let asked = request(1, vec![item(&partition.topic, 0, &[1])]);
    let decision = decide(&context, &asked);
    let applied = apply(&mut context, &asked, decision, &[]);
    assert_eq!(codes(&applied), [Some(KafkaError::UNKNOWN_SERVER_ERROR)]);
    assert_eq!(context.leadership(&partition).unwrap().isr.len(), 3);
}

#[test]
fn each_partition_gets_its_own_answer_in_the_order_asked() {
    let (mut context, first) = cluster();
    let second = put_led_partition(&mut context, "t", 1, &[1, 2], 1);
    let foreign = put_led_partition(&mut context, "u", 0, &[2, 1], 2);
    put_partition(&mut context, "young", 0, &[1, 2]);
    let asked = request(
        1,
        vec![
            item(&second.topic, 1, &[1]),
            item(&topic("nowhere"), 0, &[1]),
            item(&foreign.topic, 0, &[1]),
            item(&topic("young"), 0, &[1]),
            item(&first.topic, 0, &[1, 2]),
        ],
    );
    let outcomes = [
        ZkOutcome::VersionConflict,
        ZkOutcome::Written { version: 8 },
    ];
    let applied = run(&mut context, &asked, &outcomes);
    assert_eq!(
        codes(&applied),
        [
            Some(KafkaError::INVALID_UPDATE_VERSION),
            Some(KafkaError::UNKNOWN_TOPIC_OR_PARTITION),
            Some(KafkaError::FENCED_LEADER_EPOCH),
            Some(KafkaError::UNKNOWN_TOPIC_OR_PARTITION),
            None,
        ]
    );
    assert_eq!(applied.changed, std::slice::from_ref(&first));
    assert_eq!(applied.reread, std::slice::from_ref(&second));
    assert_eq!(applied.announce, [first, second, foreign]);
    assert_eq!(applied.refused.len(), 4);
}

#[test]
fn a_partition_named_twice_counts_as_named_last_and_is_answered_once() {
    let (mut context, partition) = cluster();
    let asked = request(
        1,
        vec![
            item(&partition.topic, 0, &[1]),
            item(&partition.topic, 0, &[1, 2]),
        ],
    );
    let applied = run(&mut context, &asked, &[ZkOutcome::Written { version: 8 }]);
    assert_eq!(codes(&applied), [None]);
    let held = context.leadership(&partition).unwrap();
    assert_eq!(held.isr, BrokerIds::from([1, 2]));
}

#[test]
fn topics_are_found_by_id_and_an_unknown_id_is_told_in_a_code_of_its_version() {
    let (mut context, partition) = cluster();
    let id = TopicId::new([7; 16]).unwrap();
    context.put_topic(&partition.topic, Some(id), 1);
    let by_id = |id| AlterPartitionItem {
        topic: TopicReference::Id(id),
        ..item(&partition.topic, 0, &[1, 2, 3])
    };
    let unknown = TopicId::new([8; 16]).unwrap();
    for version in [2, 3] {
        let asked = request(version, vec![by_id(id), by_id(unknown)]);
        let applied = run(&mut context, &asked, &[]);
        assert_eq!(codes(&applied), [None, Some(KafkaError::UNKNOWN_TOPIC_ID)]);
        assert_eq!(applied.answers[0].topic, TopicReference::Id(id));
        assert_eq!(applied.announce, std::slice::from_ref(&partition));
    }
    let applied = run(&mut context, &request(1, vec![by_id(unknown)]), &[]);
    assert_eq!(
        codes(&applied),
        [Some(KafkaError::UNKNOWN_TOPIC_OR_PARTITION)]
    );
}

#[test]
fn the_recovering_leader_of_an_unclean_election_ends_its_recovery_alone() {
    let (mut context, partition) = cluster();
    let mut recovering = (*committed(1, 5, &[1], 7)).clone();
    recovering.leader_recovery_state = LeaderRecoveryState::Recovering;
    let read = crate::effect::StateRead {
        leader_and_isr: recovering,
        controller_epoch: ControllerEpoch(3),
        partition_epoch: PartitionEpoch(7),
    };
    context.put_leadership(&partition, read.into());

    let mut still = item(&partition.topic, 0, &[1, 2]);
    still.leader_recovery_state = LeaderRecoveryState::Recovering;
    let applied = run(&mut context, &request(1, vec![still]), &[]);
    assert_eq!(codes(&applied), [Some(KafkaError::INVALID_REQUEST)]);

    let done = request(1, vec![item(&partition.topic, 0, &[1])]);
    run(&mut context, &done, &[ZkOutcome::Written { version: 8 }]);
    let held = context.leadership(&partition).unwrap();
    assert_eq!(held.leader_recovery_state, LeaderRecoveryState::Recovered);
}

#[test]
fn a_later_state_of_the_same_leader_is_left_for_zookeeper_to_judge_in_version_0() {
    let (mut context, partition) = cluster();
    let mut later = item(&partition.topic, 0, &[1, 2, 3]);
    later.partition_epoch = PartitionEpoch(9);
    let asked = request(0, vec![later]);
    assert!(matches!(
        decide(&context, &asked).writes.as_slice(),
        [ZkWrite::SetState {
            expected: PartitionEpoch(9),
            ..
        }]
    ));
    let applied = run(&mut context, &asked, &[ZkOutcome::Written { version: 10 }]);
    assert_eq!(codes(&applied), [None]);
    let held = context.leadership(&partition).unwrap();
    assert_eq!(held.partition_epoch(), PartitionEpoch(10));
}

#[test]
fn version_0_never_hears_a_code_that_it_does_not_know() {
    let known = [
        KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError::FENCED_LEADER_EPOCH,
        KafkaError::INVALID_UPDATE_VERSION,
    ];
    let every_reason = [
        IsrRefusal::UnknownTopicId,
        IsrRefusal::UnknownPartition,
        IsrRefusal::AheadOfUs {
            leader_epoch: LeaderEpoch(6),
            partition_epoch: PartitionEpoch(9),
        },
        IsrRefusal::StaleLeaderEpoch(LeaderEpoch(1)),
        IsrRefusal::NotTheLeader(BrokerId(2)),
        IsrRefusal::StalePartitionEpoch(PartitionEpoch(1)),
        IsrRefusal::NotAssigned(BrokerIds::from([4])),
        IsrRefusal::EmptyIsr,
        IsrRefusal::LeaderLeftOut,
        IsrRefusal::RepeatedMember(BrokerId(1)),
        IsrRefusal::RecoveringWithFollowers,
        IsrRefusal::RecoveryCannotBegin,
        IsrRefusal::NotLive(BrokerIds::from([3])),
        IsrRefusal::Conflict,
        IsrRefusal::StateMissing,
        IsrRefusal::Zk("why".to_owned()),
    ];
    for reason in every_reason {
        assert!(known.contains(&reason.code(0)), "{reason}");
    }
}

#[test]
fn without_a_term_nothing_is_decided() {
    let (mut context, partition) = cluster();
    context.reset();
    let asked = request(1, vec![item(&partition.topic, 0, &[1])]);
    assert_eq!(decide(&context, &asked), AlterPartitionDecision::default());
}

#[test]
fn a_set_that_names_a_member_twice_is_refused_and_nothing_is_written() {
    let (context, partition) = cluster();
    let asked = request(1, vec![item(&partition.topic, 0, &[1, 2, 2])]);
    let decision = decide(&context, &asked);
    assert_eq!(decision.writes, []);
    let mut context = context;
    let applied = apply(&mut context, &asked, decision, &[]);
    assert_eq!(codes(&applied), [Some(KafkaError::INVALID_REQUEST)]);
    assert_eq!(
        applied.refused[0].reason,
        IsrRefusal::RepeatedMember(BrokerId(2))
    );
}

#[test]
fn an_answer_of_zookeeper_that_makes_no_sense_changes_nothing() {
    let (mut context, partition) = cluster();
    let before = context.leadership(&partition).cloned();
    let asked = request(1, vec![item(&partition.topic, 0, &[1, 2])]);
    let applied = run(&mut context, &asked, &[ZkOutcome::AlreadyExists]);
    assert!(codes(&applied)[0].is_some(), "the leader asks again");
    assert_eq!(context.leadership(&partition).cloned(), before);
    let decision = decide(&context, &asked);
    let applied = apply(&mut context, &asked, decision, &[]);
    assert!(codes(&applied)[0].is_some());
    assert_eq!(context.leadership(&partition).cloned(), before);
}
