//! Upstream: `ReplicaStateMachineTest`, and what klamm does otherwise.

use super::super::fixture::*;
use super::*;
use crate::effect::{ControlRequests, StateRead};
use crate::model::{ControllerEpoch, LeaderEpoch, PartitionEpoch};
use crate::state::ReplicaState::{
    DeletionIneligible, DeletionStarted, DeletionSuccessful, New, NonExistent, Offline, Online,
};

/// `t-0` on these replicas, Online, with replica 5 standing there.
fn cluster<const L: usize, const R: usize>(
    live: [i32; L],
    replicas: [i32; R],
    standing: ReplicaState,
) -> ControllerContext {
    let mut context = context(live);
    assign(&mut context, &t0(), replicas);
    context.put_partition_state(&t0(), PartitionState::Online);
    context.put_replica_state(&replica(&t0(), 5), standing);
    context
}

fn standing(context: &ControllerContext, broker: i32) -> ReplicaState {
    context.replica_state(&replica(&t0(), broker))
}

/// Takes the step for replica 5 of `t-0`.
fn step(
    context: &mut ControllerContext,
    step: LocalReplicaStep,
) -> (Vec<Refused>, Option<ControlRequests>) {
    let mut batch = ControllerBrokerRequestBatch::new();
    let refused = handle_state_changes(context, &[replica(&t0(), 5)], step, &mut batch);
    (refused, batch.into_requests(context))
}

fn offline<const N: usize>(brokers: [i32; N]) -> OfflineChange {
    OfflineChange::new(brokers.iter().map(|id| replica(&t0(), *id)).collect())
}

/// What the state is after `broker`s go: leader, in-sync set, leader epoch.
fn held(zk: &Zk) -> (i32, Vec<i32>, i32) {
    let state = &zk.states[&t0()].leader_and_isr;
    let isr = state.isr.as_i32s().to_vec();
    (state.leader.0, isr, state.leader_epoch.0)
}

fn keep(leader_epoch: i32) -> Option<(i32, ReplicaDisposal)> {
    Some((leader_epoch, ReplicaDisposal::Keep))
}

fn stop_of(requests: &ControlRequests, broker: i32) -> Option<(i32, ReplicaDisposal)> {
    let entry = stopped(requests, broker, &t0())?;
    Some((entry.leader_epoch.0, entry.disposal))
}

#[test]
fn only_the_steps_of_the_table_are_taken() {
    let legal = [
        (NonExistent, New),
        (New, Online),
        (New, Offline),
        (Online, Online),
        (Online, Offline),
        (Offline, Online),
        (Offline, Offline),
        (Offline, DeletionStarted),
        (Offline, DeletionIneligible),
        (DeletionStarted, DeletionIneligible),
        (DeletionStarted, DeletionSuccessful),
        (DeletionIneligible, Online),
        (DeletionIneligible, Offline),
        (DeletionSuccessful, NonExistent),
    ];
    let states = [
        NonExistent,
        New,
        Online,
        Offline,
        DeletionStarted,
        DeletionIneligible,
        DeletionSuccessful,
    ];
    for (from, to) in states.iter().flat_map(|from| states.map(|to| (*from, to))) {
        let mut context = cluster([5], [5], from);
        let local = |local| Some(local);
        let local = match to {
            NonExistent => local(LocalReplicaStep::NonExistent),
            New => local(LocalReplicaStep::New),
            Online => local(LocalReplicaStep::Online),
            DeletionStarted => local(LocalReplicaStep::DeletionStarted),
            DeletionIneligible => local(LocalReplicaStep::DeletionIneligible),
            DeletionSuccessful => local(LocalReplicaStep::DeletionSuccessful),
            Offline => None,
        };
        let (refused, requests) = match local {
            Some(local) => step(&mut context, local),
            None => {
                let driven = Zk::default().drive(&mut context, offline([5]));
                (driven.applied.refused, driven.requests)
            }
        };
        if legal.contains(&(from, to)) {
            assert_eq!(refused, [], "{from:?} → {to:?}");
            assert_eq!(standing(&context, 5), to, "{from:?} → {to:?}");
        } else {
            let reason = Refusal::IllegalReplicaStep {
                replica: replica(&t0(), 5),
                from,
                to,
            };
            let partition = t0();
            assert_eq!(refused, [Refused { partition, reason }]);
            assert_eq!(standing(&context, 5), from, "{from:?} → {to:?}");
            assert_eq!(requests, None, "{from:?} → {to:?}");
        }
    }
}

#[test]
fn at_failover_online_replicas_start_online_and_the_others_go_offline() {
    let mut zk = Zk::default();
    for (live, replicas, expected) in [
        (vec![5], 5, Online),
        (vec![], 5, Offline),
        (vec![5], 100, Offline),
    ] {
        let mut context = context([]);
        for id in &live {
            context.add_live_broker(registration(*id));
        }
        assign(&mut context, &t0(), [replicas]);
        let (online, dead) = startup(&mut context);
        if expected == Online {
            assert_eq!(online, [replica(&t0(), replicas)]);
        } else {
            assert_eq!(dead, [replica(&t0(), replicas)]);
            assert_eq!(standing(&context, replicas), DeletionIneligible);
        }
        let mut batch = ControllerBrokerRequestBatch::new();
        handle_state_changes(&mut context, &online, LocalReplicaStep::Online, &mut batch);
        zk.drive(&mut context, OfflineChange::new(dead));
        assert_eq!(standing(&context, replicas), expected);
    }
}

#[test]
fn a_new_replica_hears_of_the_leader_and_may_create_its_log() {
    let mut context = cluster([5, 6], [6, 5], NonExistent);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6], 3));
    let (refused, requests) = step(&mut context, LocalReplicaStep::New);
    assert_eq!(refused, []);
    assert_eq!(standing(&context, 5), New);
    let requests = requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([5]));
    let entry = told(&requests, 5, &t0()).unwrap();
    assert!(entry.is_new);
    assert_eq!(entry.state.leader_epoch, LeaderEpoch(3));
    assert_eq!(update_metadata_to(&requests), brokers([5, 6]));
}

#[test]
fn a_replica_that_leads_cannot_be_a_new_one() {
    let mut context = cluster([5], [5], NonExistent);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 0));
    let (refused, requests) = step(&mut context, LocalReplicaStep::New);
    let reason = Refusal::ReplicaLeads(replica(&t0(), 5));
    assert_eq!(refused[0].reason, reason);
    assert_eq!(requests, None);
    assert_eq!(standing(&context, 5), NonExistent);
}

#[test]
fn a_new_replica_goes_online_in_silence() {
    let mut context = cluster([5], [5], New);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 0));
    let (refused, requests) = step(&mut context, LocalReplicaStep::Online);
    assert_eq!((refused, requests), (vec![], None));
    assert_eq!(standing(&context, 5), Online);
}

#[test]
fn a_new_replica_that_is_not_assigned_does_not_slip_into_the_assignment() {
    let mut context = cluster([5, 6], [6], New);
    let (refused, requests) = step(&mut context, LocalReplicaStep::Online);
    let reason = Refusal::NotAssigned(replica(&t0(), 5));
    assert_eq!(refused[0].reason, reason);
    assert_eq!(requests, None);
    assert_eq!(context.replicas(&t0()), ids([6]));
}

#[test]
fn a_started_replica_that_goes_online_is_told_the_state_as_it_is() {
    for from in [Online, Offline, DeletionIneligible] {
        let mut context = cluster([5], [5], from);
        let mut zk = Zk::default();
        zk.hold(&mut context, &t0(), state(5, [5], 7));
        let (_, requests) = step(&mut context, LocalReplicaStep::Online);
        let requests = requests.unwrap();
        let entry = told(&requests, 5, &t0()).unwrap();
        assert_eq!(entry.state, state(5, [5], 7).into(), "{from:?}");
        assert!(!entry.is_new);
        assert_eq!(standing(&context, 5), Online);
        assert_sound(&context);
    }
}

#[test]
fn all_replicas_of_a_partition_are_told_in_one_go() {
    let mut context = cluster([5, 6], [5, 6], Online);
    context.put_replica_state(&replica(&t0(), 6), New);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 0));
    let both = context.all_replicas();
    let mut batch = ControllerBrokerRequestBatch::new();
    handle_state_changes(&mut context, &both, LocalReplicaStep::Online, &mut batch);
    let requests = batch.into_requests(&context).unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([5]), "6 was new");
    assert_eq!(standing(&context, 6), Online);
}

#[test]
fn a_replica_of_a_partition_without_leadership_goes_offline_and_brokers_hear_who_is_alive() {
    let mut context = cluster([5], [5], New);
    context.put_partition_state(&t0(), PartitionState::New);
    let driven = Zk::default().drive(&mut context, offline([5]));
    let requests = driven.requests.unwrap();
    assert_eq!(stop_of(&requests, 5), keep(-1), "no epoch is known");
    assert_eq!(leader_and_isr_to(&requests), []);
    let update = requests.update_metadata.unwrap();
    assert_eq!((update.to, update.topics.len()), (brokers([5]), 0));
    assert_eq!(standing(&context, 5), Offline);
    assert_eq!(driven.applied.done, [t0()]);
}

#[test]
fn a_leader_that_goes_offline_leaves_the_in_sync_set_and_no_leader() {
    let mut context = cluster([5, 6], [5, 6], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6], 0));
    let driven = zk.drive(&mut context, offline([5]));

    assert_eq!(held(&zk), (-1, vec![6], 1));
    assert_eq!(standing(&context, 5), Offline);
    assert_eq!(
        context.leadership(&t0()),
        Some(&zk.states[&t0()].clone().into())
    );
    let left = Reason::ReplicaOffline(BrokerId(5));
    assert_eq!(driven.applied.changes, [(t0(), left)]);
    let requests = driven.requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([6]));
    let entry = told(&requests, 6, &t0()).unwrap();
    assert_eq!(entry.state, zk.states[&t0()].clone().into());
    assert_eq!(entry.state.partition_epoch(), PartitionEpoch(1));
    assert_eq!(entry.assignment.replicas, ids([5, 6]));
    assert!(!entry.is_new);
    assert_eq!(update_metadata_to(&requests), brokers([5, 6]));
    assert!(zk.reads.is_empty());
}

#[test]
fn stop_replica_carries_the_epoch_that_the_shrink_made_so_that_every_broker_obeys() {
    let mut context = cluster([5, 6], [6, 5], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6, 5], 4));
    let requests = zk.drive(&mut context, offline([5])).requests.unwrap();
    assert_eq!(held(&zk), (6, vec![6], 5));
    assert_eq!(stop_of(&requests, 5), keep(5));
}

#[test]
fn a_replica_that_is_not_in_sync_goes_without_a_write_but_the_others_are_told_again() {
    let mut context = cluster([5, 6], [6, 5], Online);
    let mut zk = Zk::default();
    let older = StateRead {
        controller_epoch: ControllerEpoch(49),
        ..state(6, [6], 4)
    };
    zk.hold(&mut context, &t0(), older.clone());
    let driven = zk.drive(&mut context, offline([5]));
    assert!(zk.writes.is_empty());
    assert_eq!(standing(&context, 5), Offline);
    assert_eq!(
        (driven.applied.done, driven.applied.changes),
        (vec![t0()], vec![])
    );
    let requests = driven.requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([6]));
    let entry = told(&requests, 6, &t0()).unwrap();
    assert_eq!(entry.state, older.into(), "as ZooKeeper holds it");
    assert_eq!(stop_of(&requests, 5), keep(4));
}

#[test]
fn the_last_in_sync_replica_stays_in_the_set_when_it_goes() {
    let mut context = cluster([6], [5, 6], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 2));
    context.put_partition_state(&t0(), PartitionState::Offline);
    zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (-1, vec![5], 3));
    // Once more, as at the next failover: the epoch rises, the set stays.
    zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (-1, vec![5], 4));
    assert_sound(&context);
}

/// A klamm never fetches: left alone in the set it would make anybody's election look clean.
#[test]
fn the_last_genuine_replica_stays_in_the_set_although_a_klamm_is_in_it_too() {
    let mut context = cluster([6], [5, 6], Online);
    context.set_klamm_ids(klamm_ids([9]));
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 9], 2));
    zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (-1, vec![5], 3));
}

/// Where others stay it goes with whoever goes.
#[test]
fn a_klamm_leaves_the_set_with_the_next_who_goes() {
    let mut context = cluster([6], [5, 6], Online);
    context.set_klamm_ids(klamm_ids([9]));
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6, 9], 2));
    zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (-1, vec![6], 3));
}

#[test]
fn several_replicas_of_one_partition_go_in_one_write() {
    let mut context = cluster([7], [5, 6, 7], Online);
    context.put_replica_state(&replica(&t0(), 6), Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [7, 6, 5], 0));
    context.put_partition_state(&t0(), PartitionState::Offline);
    let driven = zk.drive(&mut context, offline([6, 5, 6]));
    assert_eq!(zk.writes.len(), 1);
    assert_eq!(held(&zk), (-1, vec![7], 1));
    assert_eq!(
        (standing(&context, 5), standing(&context, 6)),
        (Offline, Offline)
    );
    assert_eq!(
        driven.applied.changes,
        [5, 6].map(|id| (t0(), Reason::ReplicaOffline(BrokerId(id))))
    );
    assert_eq!(leader_and_isr_to(&driven.requests.unwrap()), brokers([7]));
    assert_sound(&context);
}

#[test]
fn where_all_in_sync_replicas_go_at_once_any_of_them_may_lead_again() {
    let mut context = cluster([], [5, 6], Online);
    context.put_replica_state(&replica(&t0(), 6), Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6], 0));
    context.put_partition_state(&t0(), PartitionState::Offline);
    zk.drive(&mut context, offline([5, 6]));
    assert_eq!(held(&zk), (-1, vec![5, 6], 1));
    assert_eq!(
        (standing(&context, 5), standing(&context, 6)),
        (Offline, Offline)
    );
    // Later, one by one, it shrinks as ever.
    zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (-1, vec![6], 2));
}

#[test]
fn a_lost_version_race_shrinks_what_the_leader_wrote() {
    let mut context = cluster([5, 6, 7], [6, 5, 7], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6, 5, 7], 4));
    let shrunk = StateRead {
        partition_epoch: PartitionEpoch(1),
        ..state(6, [6, 5], 4)
    };
    zk.states.insert(t0(), shrunk);
    let driven = zk.drive(&mut context, offline([5]));
    assert_eq!(held(&zk), (6, vec![6], 5));
    assert_eq!(zk.reads, [t0()]);
    assert_eq!(stop_of(&driven.requests.unwrap(), 5), keep(5));
    assert_eq!(standing(&context, 5), Offline);
}

#[test]
fn a_replica_whose_shrink_fails_keeps_its_state_but_is_stopped() {
    let later = StateRead {
        controller_epoch: ControllerEpoch(51),
        ..state(6, [6, 5], 4)
    };
    let held = state(6, [6, 5], 4);
    let refused = ZkOutcome::Refused("/s: no auth".to_owned());
    for (held, outcome, refusal) in [
        (
            held.clone(),
            Some(refused),
            Refusal::Zk("/s: no auth".to_owned()),
        ),
        (held, Some(ZkOutcome::Missing), Refusal::StateMissing),
        (later, None, Refusal::LaterController(ControllerEpoch(51))),
    ] {
        let mut context = cluster([5, 6], [6, 5], Online);
        let mut zk = Zk::default();
        zk.hold(&mut context, &t0(), held);
        zk.refusals.extend(outcome);
        let driven = zk.drive(&mut context, offline([5]));
        assert_eq!(driven.refusals(), [refusal]);
        assert_eq!(standing(&context, 5), Online);
        let requests = driven.requests.unwrap();
        assert_eq!(stop_of(&requests, 5), keep(4));
        assert_eq!(leader_and_isr_to(&requests), []);
    }
}

#[test]
fn replicas_of_a_topic_being_deleted_shrink_without_a_word_to_the_others() {
    let mut context = cluster([5, 6], [5, 6], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6], 0));
    context.queue_for_deletion(&t0().topic);
    let requests = zk.drive(&mut context, offline([5])).requests.unwrap();
    assert_eq!(held(&zk), (-1, vec![6], 1));
    assert_eq!(leader_and_isr_to(&requests), []);
    assert_eq!(update_metadata_to(&requests), []);
    assert_eq!(stop_of(&requests, 5), keep(-2));

    // A state that is gone already is nothing to complain of, and nothing to wait for.
    zk.states.clear();
    context.put_replica_state(&replica(&t0(), 6), Online);
    let driven = zk.drive(&mut context, offline([6]));
    assert_eq!(driven.refusals(), []);
    assert_eq!(standing(&context, 6), Offline);
}

#[test]
fn an_illegal_replica_costs_its_partition_mates_nothing() {
    let mut context = cluster([5, 6, 7], [5, 6, 7], DeletionStarted);
    context.put_replica_state(&replica(&t0(), 6), Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(7, [7, 6], 0));
    let driven = zk.drive(&mut context, offline([5, 6]));
    assert_eq!(driven.applied.refused.len(), 1);
    assert_eq!(
        (standing(&context, 5), standing(&context, 6)),
        (DeletionStarted, Offline)
    );
    let requests = driven.requests.unwrap();
    assert_eq!(stop_replica_to(&requests), brokers([6]));
    assert_eq!(held(&zk), (7, vec![7], 1));
}

#[test]
fn a_replica_whose_deletion_starts_is_told_to_delete_its_log() {
    let mut context = cluster([5], [5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(-1, [5], 6));
    let (_, requests) = step(&mut context, LocalReplicaStep::DeletionStarted);
    let requests = requests.unwrap();
    assert_eq!(stop_of(&requests, 5), Some((6, ReplicaDisposal::Delete)));
    assert_eq!(update_metadata_to(&requests), []);
    assert_eq!(standing(&context, 5), DeletionStarted);

    context.put_replica_state(&replica(&t0(), 5), Offline);
    context.queue_for_deletion(&t0().topic);
    let (_, requests) = step(&mut context, LocalReplicaStep::DeletionStarted);
    let disposal = ReplicaDisposal::Delete;
    assert_eq!(stop_of(&requests.unwrap(), 5), Some((-2, disposal)));
}

#[test]
fn a_deleted_replica_leaves_the_assignment_and_no_trace() {
    let mut context = cluster([5], [5], DeletionSuccessful);
    let (refused, requests) = step(&mut context, LocalReplicaStep::NonExistent);
    assert_eq!((refused, requests), (vec![], None));
    let found = context.partition(&t0()).unwrap();
    assert_eq!(found.assignment.replicas, ids([]));
    assert_eq!(found.replica_states().count(), 0);
    assert_eq!(context.replicas_on(BrokerId(5)), []);
}

#[test]
fn a_replica_on_a_dead_broker_goes_online_with_the_others_and_is_sent_nothing() {
    let mut context = cluster([6], [5, 6], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6], 0));
    let (_, requests) = step(&mut context, LocalReplicaStep::Online);
    assert_eq!(standing(&context, 5), Online);
    let requests = requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), []);
    assert_eq!(update_metadata_to(&requests), brokers([6]));
}

#[test]
fn a_state_that_goes_while_its_replica_leaves_is_named_unless_its_topic_is_to_go() {
    for is_to_go in [false, true] {
        let mut context = cluster([5, 6], [5, 6], Online);
        let mut zk = Zk::default();
        zk.hold(&mut context, &t0(), state(6, [6, 5], 0));
        if is_to_go {
            context.queue_for_deletion(&t0().topic);
        }
        // The race is lost to whoever removes it.
        zk.states.clear();
        zk.refusals.push_back(ZkOutcome::VersionConflict);
        let driven = zk.drive(&mut context, offline([5]));
        assert_eq!(zk.reads, [t0()]);
        assert!(zk.states.is_empty(), "it is not created anew");
        let refusals = driven.refusals();
        if is_to_go {
            assert_eq!(refusals, []);
            assert_eq!(standing(&context, 5), Offline);
        } else {
            assert_eq!(refusals, [Refusal::StateMissing]);
            assert_eq!(standing(&context, 5), Online);
        }
        assert!(stop_of(&driven.requests.unwrap(), 5).is_some());
    }
}

#[test]
fn of_an_unknown_partition_nobody_leaves() {
    let mut context = context([5]);
    let mut zk = Zk::default();
    let driven = zk.drive(&mut context, offline([5]));
    assert!(matches!(
        driven.refusals()[..],
        [Refusal::IllegalReplicaStep { .. }]
    ));
    assert_eq!(zk.writes, []);
    assert_eq!(driven.requests, None);
}
