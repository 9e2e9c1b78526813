//! What may be asked for, and what becomes of a reassignment at each look.

use super::*;
use crate::machine::fixture::*;
use crate::model::TopicName;

/// Brokers 1 to 4 live, 5 known and down, 9 a klamm; `t-0` on 1 and 2, led by 1; everybody has a replica of `known`.
fn cluster() -> (ControllerContext, Zk) {
    let mut context = context([1, 2, 3, 4]);
    context.set_klamm_ids(klamm_ids([9]));
    let mut zk = Zk::default();
    assign(&mut context, &t0(), [1, 2]);
    zk.hold(&mut context, &t0(), state(1, [1, 2], 4));
    context.put_partition_state(&t0(), PartitionState::Online);
    for id in [1, 2] {
        context.put_replica_state(&replica(&t0(), id), ReplicaState::Online);
    }
    let known = partition("known", 0);
    assign(&mut context, &known, [5]);
    context.put_partition_state(&known, PartitionState::New);
    (context, zk)
}

fn assignment(replicas: &[i32], adding: &[i32], removing: &[i32]) -> ReplicaAssignment {
    ReplicaAssignment {
        replicas: BrokerIds::from(replicas),
        adding: BrokerIds::from(adding),
        removing: BrokerIds::from(removing),
    }
}

fn target(ids: &[i32]) -> Wish {
    Wish::Target(BrokerIds::from(ids))
}

#[test]
fn what_is_asked_for_is_judged_by_who_asks() {
    use NotReassigned as No;
    let (context, _) = cluster();
    let id = BrokerId;
    let both: [(&[i32], NotReassigned); 6] = [
        (&[], No::NoReplicas),
        (&[3, 1, 3], No::RepeatedBroker(id(3))),
        (&[3, -1], No::NegativeBroker(id(-1))),
        (&[1, 9], No::Klamm(id(9))),
        (&[77, 1], No::NotLive(ids([77]))),
        (&[5, 77], No::NotLive(ids([5, 77]))),
    ];
    for (wanted, why) in both {
        let by_api = judge(&context, &t0(), &target(wanted), Asker::Api);
        assert_eq!(by_api, Err(why.clone()), "{wanted:?}");
        let by_node = judge(&context, &t0(), &target(wanted), Asker::Node);
        let why = match why {
            No::NotLive(_) => No::UnknownBrokers(ids([77])),
            other => other,
        };
        assert_eq!(by_node, Err(why), "{wanted:?}");
    }
    // A node may name a broker that is down for now, and whoever hosts the partition may be down for an API too.
    let moved = judge(&context, &t0(), &target(&[5, 1]), Asker::Node);
    assert_eq!(moved, Ok(assignment(&[5, 1, 2], &[5], &[2])));
    let moved = judge(&context, &t0(), &target(&[2, 1]), Asker::Api);
    assert_eq!(moved, Ok(assignment(&[2, 1], &[], &[])));
}

#[test]
fn more_replicas_than_there_can_be_are_refused_before_they_are_looked_at() {
    let (context, _) = cluster();
    let million: BrokerIds = (0..1_000_000).map(BrokerId).collect();
    let wish = Wish::Target(million);
    for (at, possible) in [(t0(), 6), (partition("nobody", 0), 4)] {
        let refused = judge(&context, &at, &wish, Asker::Api);
        let why = NotReassigned::TooManyReplicas {
            named: 1_000_000,
            possible,
        };
        assert_eq!(refused, Err(why), "{at}");
    }
    let just = judge(&context, &t0(), &target(&[1, 2, 3, 4, 5, 6]), Asker::Api);
    assert_eq!(just, Err(NotReassigned::NotLive(ids([5, 6]))));
    let by_node = judge(&context, &t0(), &wish, Asker::Node);
    let klamm = NotReassigned::Klamm(BrokerId(9));
    assert_eq!(by_node, Err(klamm), "looked at, and in no time");
}

#[test]
fn what_is_not_there_or_going_is_not_reassigned_but_can_be_cancelled() {
    use NotReassigned as No;
    let (mut context, _) = cluster();
    let unknown = partition("t", 7);
    let asked = judge(&context, &unknown, &target(&[3]), Asker::Api);
    assert_eq!(asked, Err(No::UnknownPartition));
    for at in [&unknown, &t0()] {
        let cancelled = judge(&context, at, &Wish::Cancel, Asker::Api);
        assert_eq!(cancelled, Err(No::NothingToCancel));
    }
    context.put_assignment(&t0(), assignment(&[3, 1, 2], &[3], &[1, 2]));
    context.queue_for_deletion(&TopicName::new("t"));
    let asked = judge(&context, &t0(), &target(&[4]), Asker::Api);
    assert_eq!(asked, Err(No::BeingDeleted));
    let cancelled = judge(&context, &t0(), &Wish::Cancel, Asker::Api);
    assert_eq!(cancelled, Ok(assignment(&[1, 2, 3], &[3], &[3])));
    context.put_assignment(&t0(), assignment(&[3, 1], &[3, 1], &[3]));
    let cancelled = judge(&context, &t0(), &Wish::Cancel, Asker::Api);
    assert_eq!(cancelled, Err(No::OriginUnknown));
}

#[test]
fn each_refusal_has_its_code_and_says_what_to_do() {
    use NotReassigned as No;
    let table = [
        (No::NoReplicas, 39),
        (
            No::TooManyReplicas {
                named: 9,
                possible: 6,
            },
            39,
        ),
        (No::RepeatedBroker(BrokerId(1)), 39),
        (No::NegativeBroker(BrokerId(-1)), 39),
        (No::Klamm(BrokerId(9)), 39),
        (No::NotLive(ids([7])), 39),
        (No::UnknownBrokers(ids([7])), 39),
        (No::OriginUnknown, 39),
        (No::UnknownPartition, 3),
        (No::BeingDeleted, 3),
        (No::NothingToCancel, 85),
        (No::NotWritten("/brokers/topics/t is gone".to_owned()), -1),
    ];
    for (why, code) in table {
        let told = why.to_api_error();
        assert_eq!(told.error, KafkaError(code), "{why:?}");
        assert_eq!(told.message, why.to_string());
    }
}

/// What a look makes of `t-0`: the kind, and the assignment that follows.
fn looked_at(
    context: &ControllerContext,
    look: Look,
) -> Option<(Kind, ReplicaAssignment, Vec<BrokerId>)> {
    let planned = transitions(context, &[t0()], look).pop()?;
    let removed = planned.removed().collect();
    Some((planned.kind, planned.to, removed))
}

/// Name, assignment, in sync, online, and what comes next.
type Row = (
    &'static str,
    ReplicaAssignment,
    &'static [i32],
    &'static [i32],
    Option<(Kind, ReplicaAssignment)>,
);

#[test]
fn a_look_finds_the_next_step() {
    let to_34 = assignment(&[3, 4, 1, 2], &[3, 4], &[1, 2]);
    let cancel_34 = assignment(&[1, 2, 3, 4], &[3, 4], &[3, 4]);
    let over_34 = assignment(&[4, 1, 2, 3], &[4, 3], &[1, 2, 3]);
    let over_left = assignment(&[4, 1, 2], &[4], &[1, 2]);
    let settled = |ids: &[i32]| assignment(ids, &[], &[]);
    let table: Vec<Row> = vec![
        ("nobody caught up", to_34.clone(), &[1, 2], &[], None),
        ("one caught up", to_34.clone(), &[1, 2, 3], &[], None),
        (
            "all caught up",
            to_34.clone(),
            &[1, 2, 3, 4],
            &[],
            Some((Kind::Complete, settled(&[3, 4]))),
        ),
        (
            "one of them is down",
            to_34.clone(),
            &[1, 2, 3, 4],
            &[3],
            Some((Kind::Complete, settled(&[3, 4]))),
        ),
        ("all of them are down", to_34, &[1, 2, 3, 4], &[3, 4], None),
        (
            "cancelled",
            cancel_34.clone(),
            &[1, 3],
            &[2],
            Some((Kind::Complete, settled(&[1, 2]))),
        ),
        (
            "cancelled, nobody left",
            cancel_34.clone(),
            &[3],
            &[1, 2],
            None,
        ),
        (
            "cancelled, all behind",
            cancel_34.clone(),
            &[3, 4],
            &[],
            None,
        ),
        (
            "cancelled, nobody ever in sync",
            cancel_34,
            &[1],
            &[1],
            Some((Kind::Complete, settled(&[1, 2]))),
        ),
        (
            "replaced",
            over_34.clone(),
            &[1, 3],
            &[2],
            Some((Kind::Drop, over_left.clone())),
        ),
        (
            "replaced, not in sync",
            over_34.clone(),
            &[1],
            &[1],
            Some((Kind::Drop, over_left)),
        ),
        (
            "replaced, nobody left",
            over_34.clone(),
            &[3],
            &[1, 2],
            None,
        ),
        (
            "replaced and in sync",
            over_34,
            &[3, 4],
            &[],
            Some((Kind::Complete, settled(&[4]))),
        ),
    ];
    for (what, moving, isr, down, next) in table {
        let (mut context, _) = cluster();
        context.put_assignment(&t0(), moving.clone());
        let mut read = state(1, [1], 4);
        read.leader_and_isr.isr = BrokerIds::from(isr);
        context.put_leadership(&t0(), read.into());
        for id in down {
            context.remove_live_broker(BrokerId(*id));
        }
        let found = looked_at(&context, Look::Check).map(|(kind, to, _)| (kind, to));
        assert_eq!(found, next, "{what}");
        let announced = looked_at(&context, Look::Announce).map(|(kind, to, _)| (kind, to));
        let otherwise = next.or(Some((Kind::Announce, moving)));
        assert_eq!(announced, otherwise, "{what}");
    }
}

#[test]
fn a_target_that_is_reached_already_is_done_when_it_is_asked_for_and_left_alone_otherwise() {
    let (context, _) = cluster();
    assert_eq!(looked_at(&context, Look::Check), None);
    let settled = assignment(&[1, 2], &[], &[]);
    let done = Some((Kind::Complete, settled, Vec::new()));
    assert_eq!(looked_at(&context, Look::Announce), done);
}

/// Begins what a look finds, and has the leadership written.
fn carried_out(context: &mut ControllerContext, zk: &mut Zk, look: Look) -> (Transition, Driven) {
    let planned = transitions(context, &[t0()], look);
    begin(context, &planned);
    let driven = zk.drive(context, LeaderChange::new(&planned));
    (planned[0].clone(), driven)
}

#[test]
fn an_announcement_keeps_the_leader_and_lets_the_added_make_their_logs() {
    let (mut context, mut zk) = cluster();
    context.put_assignment(&t0(), assignment(&[3, 1, 2], &[3], &[1, 2]));
    let (transition, driven) = carried_out(&mut context, &mut zk, Look::Announce);
    let held = &zk.states[&t0()].leader_and_isr;
    assert_eq!((held.leader, held.leader_epoch.0), (BrokerId(1), 5));
    let requests = driven.requests.unwrap();
    for (id, is_new) in [(1, false), (2, false), (3, true)] {
        let entry = told(&requests, id, &t0()).unwrap();
        assert_eq!(entry.is_new, is_new, "{id}");
        assert_eq!(entry.assignment.adding, ids([3]));
    }
    let mut batch = ControllerBrokerRequestBatch::new();
    assert_eq!(start_added(&mut context, &[&transition], &mut batch), []);
    let started = replica(&t0(), 3);
    assert_eq!(context.replica_state(&started), ReplicaState::New);
    // Announced again, it isn't started again.
    let mut batch = ControllerBrokerRequestBatch::new();
    assert_eq!(start_added(&mut context, &[&transition], &mut batch), []);
    assert!(batch.into_requests(&context).is_none());
}

/// One that has caught up has a log, which it must not make anew where its directory has failed.
#[test]
fn an_announcement_calls_nobody_new_who_is_in_sync() {
    let (mut context, mut zk) = cluster();
    context.put_assignment(&t0(), assignment(&[3, 4, 1, 2], &[3, 4], &[1, 2]));
    zk.hold(&mut context, &t0(), state(1, [1, 2, 3], 7));
    let (_, driven) = carried_out(&mut context, &mut zk, Look::Announce);
    let requests = driven.requests.unwrap();
    for (id, is_new) in [(1, false), (3, false), (4, true)] {
        let entry = told(&requests, id, &t0()).unwrap();
        assert_eq!(entry.is_new, is_new, "{id}");
    }
}

#[test]
fn a_leader_outside_of_the_target_hands_over_and_one_inside_stays() {
    for (leader, expected) in [(1, 3), (4, 4), (2, 3)] {
        let (mut context, mut zk) = cluster();
        context.put_assignment(&t0(), assignment(&[3, 4, 1, 2], &[3, 4], &[1, 2]));
        zk.hold(&mut context, &t0(), state(leader, [1, 2, 3, 4], 7));
        let (transition, driven) = carried_out(&mut context, &mut zk, Look::Check);
        assert_eq!(transition.kind, Kind::Complete);
        let held = &zk.states[&t0()].leader_and_isr;
        assert_eq!((held.leader, held.leader_epoch.0), (BrokerId(expected), 8));
        assert_eq!(held.isr, ids([1, 2, 3, 4]), "it is shrunk by the next step");
        let requests = driven.requests.unwrap();
        assert_eq!(leader_and_isr_to(&requests), brokers([3, 4]));
        assert!(!told(&requests, 3, &t0()).unwrap().is_new);
    }
}

/// Goal: the leadership is handed over on what ZooKeeper holds at that moment. Method: the set shrinks before the write.
#[test]
fn a_target_that_left_the_set_meanwhile_stops_the_hand_over() {
    let (mut context, mut zk) = cluster();
    let moving = assignment(&[3, 1, 2], &[3], &[1, 2]);
    context.put_assignment(&t0(), moving.clone());
    zk.hold(&mut context, &t0(), state(1, [1, 2, 3], 7));
    let mut shrunk = state(1, [1, 2], 7);
    shrunk.partition_epoch = crate::model::PartitionEpoch(1);
    zk.states.insert(t0(), shrunk.clone());
    let planned = transitions(&context, &[t0()], Look::Check);
    begin(&mut context, &planned);
    let mut batch = ControllerBrokerRequestBatch::new();
    let change = LeaderChange::new(&planned);
    let decision = change.decide(&context, &Fetched::default());
    let outcomes = [ZkOutcome::VersionConflict];
    let applied = change.apply(&mut context, decision, &outcomes, &mut batch);
    assert_eq!(applied.retry, [t0()]);
    let again = change.again(applied.retry);
    assert_eq!(again.needs(&context).states, [t0()]);
    let fetched = Fetched {
        states: [(t0(), Read::Found(shrunk.into()))].into(),
        ..Fetched::default()
    };
    let decision = again.decide(&context, &fetched);
    assert_eq!(decision.planned, []);
    assert_eq!(decision.refused.len(), 1);
    restore(&mut context, &[&planned[0]]);
    assert_eq!(context.partition(&t0()).unwrap().assignment, moving);
    assert_sound(&context);
}

#[test]
fn the_removed_are_told_to_delete_under_the_new_epoch_and_forgotten() {
    let (mut context, mut zk) = cluster();
    context.put_assignment(&t0(), assignment(&[2, 1], &[], &[1]));
    let (transition, _) = carried_out(&mut context, &mut zk, Look::Check);
    let leaving = replica::OfflineChange::new(transition.removed_replicas());
    assert!(is_still_in_sync(&context, &transition));
    zk.drive(&mut context, leaving);
    assert!(!is_still_in_sync(&context, &transition));
    let mut batch = ControllerBrokerRequestBatch::new();
    assert_eq!(tell_removed(&mut context, &[&transition], &mut batch), []);
    let requests = batch.into_requests(&context).unwrap();
    assert_eq!(stop_replica_to(&requests), brokers([1]));
    let entry = stopped(&requests, 1, &t0()).unwrap();
    assert_eq!(entry.leader_epoch.0, 6, "4, handed over, shrunk");
    let gone = replica(&t0(), 1);
    assert_eq!(context.replica_state(&gone), ReplicaState::NonExistent);
    assert_eq!(context.replicas(&t0()), ids([2]));
    assert_sound(&context);
    // Where the topic's node could not be written, it is as before, and can be done again.
    restore(&mut context, &[&transition]);
    assert_eq!(context.replica_state(&gone), ReplicaState::Offline);
    assert_sound(&context);
    let (transition, driven) = carried_out(&mut context, &mut zk, Look::Check);
    assert_eq!(driven.refusals(), []);
    zk.drive(
        &mut context,
        replica::OfflineChange::new(transition.removed_replicas()),
    );
    let mut batch = ControllerBrokerRequestBatch::new();
    assert_eq!(tell_removed(&mut context, &[&transition], &mut batch), []);
    assert_sound(&context);
}

#[test]
fn every_reassignment_that_does_not_end_has_its_reason() {
    let to_34 = assignment(&[3, 4, 1, 2], &[3, 4], &[1, 2]);
    let cancel = assignment(&[1, 2, 3], &[3], &[3]);
    type Spoil = fn(&mut ControllerContext);
    let nothing: Spoil = |_| {};
    let table: Vec<(ReplicaAssignment, &[i32], Spoil, Waiting)> = vec![
        (
            to_34.clone(),
            &[1, 2, 3],
            nothing,
            Waiting::CatchingUp(ids([4])),
        ),
        (
            to_34.clone(),
            &[1, 2],
            |context| drop(context.remove_live_broker(BrokerId(4))),
            Waiting::BrokerDown(BrokerId(4)),
        ),
        (
            to_34.clone(),
            &[1, 2],
            |context| context.begin_shutting_down(BrokerId(3)),
            Waiting::BrokerDown(BrokerId(3)),
        ),
        (
            to_34.clone(),
            &[1, 2],
            |context| {
                context.set_replica_on_offline_dir(&replica(&t0(), 3), true);
            },
            Waiting::LogDirFailed(BrokerId(3)),
        ),
        (
            to_34,
            &[1],
            |context| drop(context.remove_live_broker(BrokerId(1))),
            Waiting::NoLeader(ids([1])),
        ),
        (cancel, &[3], nothing, Waiting::NobodyLeft(ids([1, 2]))),
    ];
    for (moving, isr, spoil, why) in table {
        let (mut context, _) = cluster();
        context.put_assignment(&t0(), moving);
        let mut read = state(isr[0], [1], 4);
        read.leader_and_isr.isr = BrokerIds::from(isr);
        context.put_leadership(&t0(), read.into());
        spoil(&mut context);
        let news = review(&mut context, &[t0()]);
        assert_eq!(context.reassignments_waiting()[&t0()], why);
        assert_eq!(news.len(), usize::from(why.is_worth_a_word()), "{why:?}");
        assert_eq!(review(&mut context, &[t0()]), [], "said once");
        let gauges = context.gauges();
        assert_eq!(gauges.partitions_being_reassigned, 1);
        assert_eq!(gauges.reassignments_waiting[why.position()], 1);
        context.put_assignment(&t0(), assignment(&[1, 2], &[], &[]));
        assert_eq!(context.gauges().reassignments_waiting, [0; 6]);
    }
}

#[test]
fn partitions_whose_target_names_a_klamm_are_to_be_moved() {
    let (mut context, mut zk) = cluster();
    for (index, moving) in [
        (1, assignment(&[1, 9], &[], &[])),
        (2, assignment(&[1, 9], &[], &[9])),
        (3, assignment(&[9, 1], &[9], &[])),
    ] {
        let at = partition("t", index);
        assign(&mut context, &at, [1]);
        zk.hold(&mut context, &at, state(1, [1], 0));
        context.put_partition_state(&at, PartitionState::Online);
        context.put_assignment(&at, moving);
    }
    let unled = partition("t", 4);
    assign(&mut context, &unled, [1, 9]);
    let found = to_move_off_klamms(&context);
    assert_eq!(found, [partition("t", 1), partition("t", 3)]);
}

#[test]
fn a_removed_replica_whose_broker_refuses_to_delete_is_named() {
    let (context, _) = cluster();
    let answer = |error| PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![(TopicReference::Name(TopicName::new("t")), 0, error)],
    };
    let failed = answer(KafkaError::KAFKA_STORAGE_ERROR);
    let named = |broker, deleted: &[TopicPartition], response: &PartitionErrors| {
        refused_removals(&context, BrokerId(broker), deleted, response)
    };
    assert_eq!(
        named(3, &[t0()], &failed),
        [(t0(), KafkaError::KAFKA_STORAGE_ERROR)]
    );
    let deleted = answer(KafkaError::NONE);
    assert_eq!(named(3, &[t0()], &deleted), []);
    assert_eq!(named(3, &[], &failed), [], "it was only to stop");
    let strange = PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![(
            TopicReference::Id(topic_id(&TopicName::new("strange"))),
            0,
            KafkaError::KAFKA_STORAGE_ERROR,
        )],
    };
    assert_eq!(named(3, &[t0()], &strange), [], "nobody knows the topic");
    assert_eq!(
        named(1, &[t0()], &failed),
        [],
        "it hosts the partition again"
    );
}

#[test]
fn what_is_not_known_is_neither_moved_nor_waited_for() {
    let (mut context, _) = cluster();
    let unknown = partition("unknown", 0);
    let asked = [unknown.clone()];
    assert!(transitions(&context, &asked, Look::Announce).is_empty());
    assert_eq!(review(&mut context, &asked), []);
    assert_eq!(context.reassignments_waiting().len(), 0);
}

#[test]
fn what_zookeeper_refused_stays_the_reason_until_it_is_tried_again() {
    let (mut context, _) = cluster();
    context.put_assignment(&t0(), assignment(&[3, 1, 2], &[3], &[2]));
    let refused = Waiting::ZooKeeperRefused("/brokers/topics/t: not authorized".to_owned());
    assert!(context.set_reassignment_waiting(&t0(), refused.clone()));
    assert_eq!(review(&mut context, &[t0()]), []);
    assert_eq!(context.reassignments_waiting()[&t0()], refused);
    context.forget_reassignment_waiting(&t0());
    review(&mut context, &[t0()]);
    let why = &context.reassignments_waiting()[&t0()];
    assert_eq!(*why, Waiting::CatchingUp(ids([3])));
}

#[test]
fn a_state_that_may_not_be_written_stops_the_move_and_keeps_everything_as_it_is() {
    let (mut context, mut zk) = cluster();
    context.put_assignment(&t0(), assignment(&[3, 1, 2], &[3], &[2]));
    zk.refusals
        .push_back(ZkOutcome::Refused("not authorized".to_owned()));
    let before = context.leadership(&t0()).cloned();
    let transitions = transitions(&context, &[t0()], Look::Announce);
    let driven = zk.drive(&mut context, LeaderChange::new(&transitions));
    assert_eq!(
        driven.refusals(),
        [Refusal::Zk("not authorized".to_owned())]
    );
    assert_eq!(driven.applied.done, []);
    assert_eq!(context.leadership(&t0()).cloned(), before);
    assert_eq!(driven.requests, None, "nobody is told");
}
