//! Tables of what a look at the queued topics comes to. Must never drive a procedure (`tests/sim` does). Upstream:
//! `TopicDeletionManagerTest`.

use super::super::fixture::*;
use super::*;
use crate::model::ReplicaAssignment;
use crate::state::ReplicaState::{
    DeletionIneligible, DeletionStarted, DeletionSuccessful, Offline, Online,
};
use crate::state::violations;

fn topic() -> TopicName {
    TopicName::new("t")
}

/// Brokers 1 to 3 live, t-0 on all of them, queued for deletion; 9 is a klamm.
fn queued(states: [ReplicaState; 3]) -> ControllerContext {
    let mut context = context([1, 2, 3]);
    context.set_klamm_ids(klamm_ids([9]));
    assign(&mut context, &t0(), [1, 2, 3]);
    context.queue_for_deletion(&topic());
    for (id, state) in (1..).zip(states) {
        context.put_replica_state(&replica(&t0(), id), state);
    }
    context
}

/// What is done with the topic, and why it waits.
fn looked_at(context: &ControllerContext) -> (&'static str, Option<Ineligible>) {
    let review = review(context);
    let step = match (review.finish.is_empty(), review.start.is_empty()) {
        (true, true) => "wait",
        (false, true) => "finish",
        (true, false) => "start",
        (false, false) => "both",
    };
    let why = review.halted.into_iter().next().map(|(_, why)| why);
    (step, why)
}

fn refusal() -> Ineligible {
    Ineligible::StopReplicaRefused {
        broker: BrokerId(2),
        error: KafkaError::UNKNOWN_SERVER_ERROR,
    }
}

#[test]
fn a_look_at_a_topic_whose_deletion_has_begun() {
    type Change = fn(&mut ControllerContext);
    let nothing: Change = |_| {};
    let two_dies: Change = |context| {
        context.remove_live_broker(BrokerId(2));
    };
    let two_leaves: Change = |context| context.begin_shutting_down(BrokerId(2));
    let two_lost_its_dir: Change = |context| {
        context.set_replica_on_offline_dir(&replica(&t0(), 2), true);
    };
    let two_refused: Change = |context| {
        context.mark_ineligible_for_deletion(&topic(), refusal());
    };
    let moving: Change = |context| {
        let assignment = ReplicaAssignment::settled(ids([1, 2, 3])).reassign_to(&ids([1, 2]));
        context.put_assignment(&t0(), assignment);
    };
    let on_klamm: Change = |context| assign(context, &t0(), [1, 2, 3, 9]);
    let down = Some(Ineligible::BrokerDown(BrokerId(2)));
    let dir = Some(Ineligible::LogDirFailed(BrokerId(2)));
    let table = [
        ([Online; 3], nothing, "start", None),
        ([Offline; 3], nothing, "start", None),
        ([DeletionStarted; 3], nothing, "wait", None),
        ([DeletionSuccessful; 3], nothing, "finish", None),
        ([DeletionSuccessful; 3], two_dies, "finish", None),
        ([DeletionSuccessful; 3], on_klamm, "finish", None),
        (
            [DeletionSuccessful, DeletionStarted, DeletionSuccessful],
            nothing,
            "wait",
            None,
        ),
        (
            [DeletionSuccessful, Online, DeletionSuccessful],
            nothing,
            "start",
            None,
        ),
        (
            [DeletionSuccessful, DeletionIneligible, DeletionSuccessful],
            nothing,
            "start",
            None,
        ),
        (
            [DeletionStarted, DeletionIneligible, DeletionStarted],
            nothing,
            "wait",
            None,
        ),
        ([Online; 3], two_dies, "start", down.clone()),
        (
            [DeletionStarted, DeletionIneligible, DeletionStarted],
            two_dies,
            "wait",
            down.clone(),
        ),
        (
            [DeletionSuccessful, DeletionIneligible, DeletionSuccessful],
            two_dies,
            "wait",
            down.clone(),
        ),
        (
            [DeletionSuccessful, DeletionIneligible, DeletionSuccessful],
            two_leaves,
            "wait",
            down,
        ),
        (
            [DeletionSuccessful, DeletionIneligible, DeletionSuccessful],
            two_lost_its_dir,
            "wait",
            dir,
        ),
        (
            [DeletionSuccessful, DeletionIneligible, DeletionSuccessful],
            two_refused,
            "wait",
            Some(refusal()),
        ),
        (
            [DeletionStarted, DeletionIneligible, DeletionStarted],
            two_refused,
            "wait",
            Some(refusal()),
        ),
        ([Online; 3], moving, "wait", Some(Ineligible::Reassigning)),
    ];
    for (row, (states, change, step, why)) in table.into_iter().enumerate() {
        let mut context = queued(states);
        context.begin_deletion(&topic());
        change(&mut context);
        assert_eq!(looked_at(&context), (step, why), "row {row}: {states:?}");
        let found = review(&context);
        note(&mut context, &found);
        assert_eq!(looked_at(&context).0, step, "row {row}: a second look");
    }
}

#[test]
fn a_topic_of_dead_brokers_alone_is_begun_once_so_that_clients_lose_it() {
    let mut context = queued([Offline; 3]);
    for id in [1, 2, 3] {
        context.remove_live_broker(BrokerId(id));
    }
    let down = Some(Ineligible::BrokerDown(BrokerId(1)));
    assert_eq!(looked_at(&context), ("start", down.clone()));
    begin(&mut context, &[topic()]);
    assert_eq!(looked_at(&context), ("wait", down));
}

#[test]
fn a_topic_without_replicas_is_finished_at_once() {
    let mut context = context([1]);
    context.put_topic(&topic(), None, 0);
    context.queue_for_deletion(&topic());
    context.queue_for_deletion(&TopicName::new("unknown"));
    assert_eq!(
        review(&context).finish,
        [topic(), TopicName::new("unknown")]
    );
}

#[test]
fn a_reason_is_news_once_and_goes_with_its_cause() {
    let mut context = queued([Online; 3]);
    begin(&mut context, &[topic()]);
    context.remove_live_broker(BrokerId(2));
    let found = review(&context);
    let down = (topic(), Ineligible::BrokerDown(BrokerId(2)));
    assert_eq!(note(&mut context, &found), [down]);
    let found = review(&context);
    assert_eq!(note(&mut context, &found), []);
    assert!(!context.is_eligible_for_deletion(&topic()));
    context.add_live_broker(registration(2));
    let found = review(&context);
    assert_eq!(found.resumed, [topic()]);
    assert_eq!(note(&mut context, &found), []);
    assert!(context.is_eligible_for_deletion(&topic()));
    assert_eq!(violations(&context), [""; 0]);
}

#[test]
fn those_that_are_there_are_told_and_the_others_are_given_up() {
    let mut context = queued([Offline; 3]);
    begin(&mut context, &[topic()]);
    context.remove_live_broker(BrokerId(2));
    let untold = untold(&context, &[topic()]);
    assert_eq!(untold.away, [replica(&t0(), 2)]);
    let mut batch = ControllerBrokerRequestBatch::new();
    assert_eq!(tell(&mut context, &untold, &mut batch), []);
    let told = batch.into_requests(&context).unwrap().stop_replica;
    assert_eq!(told.into_keys().collect::<Vec<_>>(), brokers([1, 3]));
    let stands = |id| context.replica_state(&replica(&t0(), id));
    assert_eq!(stands(2), DeletionIneligible);
    assert_eq!((stands(1), stands(3)), (DeletionStarted, DeletionStarted));
}

#[test]
fn a_replica_whose_state_could_not_be_written_halts_its_topic() {
    let mut context = queued([Offline, Online, Offline]);
    begin(&mut context, &[topic()]);
    let untold = untold(&context, &[topic()]);
    let mut batch = ControllerBrokerRequestBatch::new();
    let news = tell(&mut context, &untold, &mut batch);
    assert!(matches!(&news[..], [(_, Ineligible::ZooKeeperRefused(_))]));
    forget_refusals(&mut context, None);
    assert!(context.is_eligible_for_deletion(&topic()));
}

fn answer(error: i16, partitions: &[(i32, i16)]) -> PartitionErrors {
    let named = partitions.iter().map(|(index, code)| {
        let name = TopicReference::Name(topic());
        (name, *index, KafkaError(*code))
    });
    PartitionErrors {
        error: KafkaError(error),
        partitions: named.collect(),
    }
}

#[test]
fn only_an_answer_that_names_a_partition_without_error_has_deleted_it() {
    let table = [
        (answer(0, &[(0, 0)]), DeletionSuccessful, None),
        (answer(0, &[(0, 3)]), DeletionIneligible, Some(3)),
        (answer(0, &[(0, 56)]), DeletionIneligible, None),
        (answer(0, &[]), DeletionIneligible, Some(-1)),
        (answer(0, &[(1, 0)]), DeletionIneligible, Some(-1)),
        (answer(11, &[]), DeletionIneligible, Some(11)),
        (answer(77, &[(0, 0)]), DeletionIneligible, Some(77)),
    ];
    for (response, state, code) in table {
        let mut context = queued([DeletionStarted; 3]);
        context.begin_deletion(&topic());
        let news = take_answer(&mut context, BrokerId(2), &[t0()], &response);
        assert_eq!(
            context.replica_state(&replica(&t0(), 2)),
            state,
            "{response:?}"
        );
        let expected = code.map(|code| Ineligible::StopReplicaRefused {
            broker: BrokerId(2),
            error: KafkaError(code),
        });
        assert_eq!(news.into_iter().next().map(|(_, why)| why), expected);
        assert_eq!(context.replica_state(&replica(&t0(), 1)), DeletionStarted);
        let is_on_failed_dir = !context.is_replica_online(BrokerId(2), &t0());
        assert_eq!(is_on_failed_dir, response == answer(0, &[(0, 56)]));
    }
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    for state in [Online, Offline, DeletionIneligible, DeletionSuccessful] {
        let mut context = queued([state; 3]);
        context.begin_deletion(&topic());
        for response in [answer(0, &[(0, 0)]), answer(0, &[(0, 56)])] {
            take_answer(&mut context, BrokerId(2), &[t0()], &response);
            assert_eq!(context.replica_state(&replica(&t0(), 2)), state);
        }
    }
    let mut context = queued([DeletionStarted; 3]);
    let response = answer(0, &[(0, 0)]);
    take_answer(&mut context, BrokerId(2), &[t0()], &response);
    let kept = context.replica_state(&replica(&t0(), 2));
    assert_eq!(kept, DeletionStarted, "a deletion that hasn't begun");
    take_answer(
        &mut context,
        BrokerId(2),
        &[partition("gone", 0)],
        &response,
    );
}

#[test]
fn replicas_that_went_away_can_not_answer_and_those_that_answered_stay_deleted() {
    let mut context = queued([DeletionStarted, DeletionSuccessful, Offline]);
    let all = [1, 2, 3].map(|id| replica(&t0(), id));
    fail_replicas(&mut context, &all);
    let stand = all.map(|replica| context.replica_state(&replica));
    assert_eq!(
        stand,
        [DeletionIneligible, DeletionSuccessful, DeletionIneligible]
    );
}

#[test]
fn a_refusal_is_forgotten_when_a_broker_of_the_topic_returns() {
    for (returned, is_forgotten) in [(3, true), (4, false)] {
        let mut context = queued([DeletionIneligible; 3]);
        context.mark_ineligible_for_deletion(&topic(), refusal());
        forget_refusals(&mut context, Some(&brokers([returned])));
        assert_eq!(context.is_eligible_for_deletion(&topic()), is_forgotten);
    }
}

#[test]
fn a_broker_that_was_told_to_delete_a_replica_is_never_told_to_host_it() {
    let mut context = queued([Online, DeletionStarted, DeletionSuccessful]);
    context.put_leadership(&t0(), state(1, [1, 2, 3], 0).into());
    let mut batch = ControllerBrokerRequestBatch::new();
    batch.add_leader_and_isr(&context, &brokers([1, 2, 3]), &t0(), false);
    let told = batch.into_requests(&context).unwrap().leader_and_isr;
    assert_eq!(told.into_keys().collect::<Vec<_>>(), brokers([1]));
}
