//! Upstream: `PartitionStateMachineTest`, and what klamm does better.

use super::super::fixture::*;
use super::*;
use crate::effect::{ControlRequests, StateRead};
use crate::model::{ControllerEpoch, InterBrokerProtocol, LeaderRecoveryState, PartitionEpoch};
use crate::state::PartitionState::{New, NonExistent, Offline, Online};

const BY_CONFIG: ElectionStrategy =
    ElectionStrategy::OfflinePartition(UncleanRule::ByConfig { default: false });
const UNCLEAN: ElectionStrategy = ElectionStrategy::OfflinePartition(UncleanRule::Always);

/// `t-0` on these replicas, standing there.
fn cluster<const L: usize, const R: usize>(
    live: [i32; L],
    replicas: [i32; R],
    standing: PartitionState,
) -> ControllerContext {
    let mut context = context(live);
    assign(&mut context, &t0(), replicas);
    context.put_partition_state(&t0(), standing);
    context
}

fn online(strategy: ElectionStrategy) -> OnlineChange {
    OnlineChange::new(vec![t0()], strategy)
}

fn held(zk: &Zk) -> &StateRead {
    &zk.states[&t0()]
}

/// What `broker` is told of `t-0`, in short.
fn told_of(requests: &Option<ControlRequests>, broker: i32) -> Option<(i32, i32, i32, bool)> {
    let entry = told(requests.as_ref()?, broker, &t0())?;
    Some((
        entry.state.leader.0,
        entry.state.leader_epoch.0,
        entry.state.partition_epoch().0,
        entry.is_new,
    ))
}

#[test]
fn only_the_steps_of_the_diagram_are_taken() {
    let legal = [
        (NonExistent, New),
        (New, Online),
        (New, Offline),
        (Online, Online),
        (Online, Offline),
        (Offline, Online),
        (Offline, Offline),
        (Offline, NonExistent),
    ];
    let states = [NonExistent, New, Online, Offline];
    for (from, to) in states.iter().flat_map(|from| states.map(|to| (*from, to))) {
        let mut context = cluster([5], [5], from);
        let mut zk = Zk::default();
        if matches!(from, Online | Offline) {
            zk.hold(&mut context, &t0(), state(5, [5], 0));
        }
        let refused = match to {
            New => handle_state_changes(&mut context, &[t0()], LocalPartitionStep::New),
            Offline => handle_state_changes(&mut context, &[t0()], LocalPartitionStep::Offline),
            NonExistent => {
                handle_state_changes(&mut context, &[t0()], LocalPartitionStep::NonExistent)
            }
            Online => zk.drive(&mut context, online(BY_CONFIG)).applied.refused,
        };
        let reached = context.partition_state(&t0());
        if legal.contains(&(from, to)) {
            assert_eq!((reached, refused), (to, vec![]), "{from:?} → {to:?}");
        } else {
            let reason = Refusal::IllegalPartitionStep { from, to };
            let partition = t0();
            assert_eq!(refused, [Refused { partition, reason }]);
            assert_eq!(reached, from, "{from:?} → {to:?}");
            assert!(zk.writes.is_empty());
        }
    }
}

#[test]
fn an_unknown_partition_counts_as_non_existent() {
    let mut context = context([5]);
    let driven = Zk::default().drive(&mut context, online(BY_CONFIG));
    let (from, to) = (NonExistent, Online);
    assert_eq!(
        driven.refusals(),
        [Refusal::IllegalPartitionStep { from, to }]
    );
    assert_eq!(driven.requests, None);
}

#[test]
fn a_new_partition_gets_its_first_online_replica_as_leader_and_all_online_ones_in_sync() {
    let mut context = cluster([5, 6], [7, 6, 5], New);
    let mut zk = Zk::default();
    let driven = zk.drive(&mut context, online(BY_CONFIG));

    assert_eq!(*held(&zk), state(6, [6, 5], 0));
    assert_eq!(zk.writes.len(), 1);
    assert_eq!(context.partition_state(&t0()), Online);
    assert_eq!(driven.applied.changes, [(t0(), Reason::Created)]);
    let requests = driven.requests.unwrap();
    assert_eq!(requests.controller_epoch, OUR_EPOCH);
    assert_eq!(leader_and_isr_to(&requests), brokers([5, 6]));
    let entry = told(&requests, 5, &t0()).unwrap();
    assert!(entry.is_new);
    assert_eq!(entry.assignment.replicas, ids([7, 6, 5]));
    assert_eq!(
        announced(&requests, &t0()).unwrap().offline_replicas,
        ids([7])
    );
    assert_sound(&context);
}

#[test]
fn a_klamm_in_the_assignment_never_leads_and_is_never_in_sync() {
    let mut context = cluster([5, 6], [9, 5, 6], New);
    context.set_klamm_ids(klamm_ids([9]));
    context.add_live_broker(registration(9));
    let mut zk = Zk::default();
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(*held(&zk), state(5, [5, 6], 0));
    let requests = driven.requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([5, 6]));
    assert_eq!(update_metadata_to(&requests), brokers([5, 6]));

    context.put_partition_state(&t0(), Offline);
    let preferred = zk.drive(&mut context, online(ElectionStrategy::PreferredReplica));
    assert_eq!(preferred.applied.done, []);
}

#[test]
fn a_new_partition_without_an_online_replica_stays_new_until_one_comes() {
    let mut context = cluster([6], [5], New);
    let mut zk = Zk::default();
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(driven.refusals(), [Refusal::NoReplicaOnline(ids([5]))]);
    assert_eq!((driven.requests, zk.writes.len()), (None, 0));
    assert_eq!(online_candidates(&context), [t0()]);

    context.add_live_broker(registration(5));
    zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(*held(&zk), state(5, [5], 0));
}

#[test]
fn a_creation_that_zookeeper_refuses_leaves_the_partition_new_and_tells_nobody() {
    for (outcome, refusal) in [
        (
            ZkOutcome::Refused("/x: no auth".to_owned()),
            Refusal::Zk("/x: no auth".to_owned()),
        ),
        (ZkOutcome::Missing, Refusal::StateMissing),
    ] {
        let mut context = cluster([5], [5], New);
        let mut zk = Zk {
            refusals: [outcome].into(),
            ..Zk::default()
        };
        let driven = zk.drive(&mut context, online(BY_CONFIG));
        assert_eq!(driven.refusals(), [refusal]);
        assert_eq!(driven.requests, None);
        assert_eq!(context.partition_state(&t0()), New);
    }
}

#[test]
fn our_own_creation_whose_answer_was_lost_is_adopted_as_if_it_had_been_answered() {
    let mut context = cluster([5, 6], [5, 6], New);
    let mut zk = Zk::default();
    zk.states.insert(t0(), state(5, [5, 6], 0));
    let driven = zk.drive(&mut context, online(BY_CONFIG));

    assert_eq!(zk.writes.len(), 1, "the creation that met it");
    assert_eq!(context.partition_state(&t0()), Online);
    assert_eq!(driven.applied.done, [t0()]);
    assert_eq!(driven.applied.changes, [(t0(), Reason::Created)]);
    assert_eq!(told_of(&driven.requests, 5), Some((5, 0, 0, true)));
    assert_eq!(told_of(&driven.requests, 6), Some((5, 0, 0, true)));
    assert_sound(&context);
}

#[test]
fn a_state_that_another_controller_created_is_adopted_but_its_logs_are_not_new() {
    let mut context = cluster([5, 6], [5, 6], New);
    let mut zk = Zk::default();
    let theirs = StateRead {
        controller_epoch: ControllerEpoch(49),
        partition_epoch: PartitionEpoch(3),
        ..state(6, [6], 2)
    };
    zk.states.insert(t0(), theirs.clone());
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(*held(&zk), theirs);
    assert_eq!(driven.applied.changes, []);
    assert_eq!(told_of(&driven.requests, 5), Some((6, 2, 3, false)));
    assert_eq!(context.partition_state(&t0()), Online);
    assert_sound(&context);
}

#[test]
fn a_state_that_exists_with_a_dead_leader_is_elected_from() {
    let mut context = cluster([6], [5, 6], New);
    let mut zk = Zk::default();
    zk.states.insert(t0(), state(5, [5, 6], 4));
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(held(&zk).leader_and_isr, state(6, [6], 5).leader_and_isr);
    assert_eq!(driven.applied.changes, [(t0(), Reason::LeaderOffline)]);
    assert_eq!(told_of(&driven.requests, 6), Some((6, 5, 1, false)));

    // In its in-sync set nobody is online: nothing is created over it.
    let mut context = cluster([6], [5, 6], New);
    zk.states.insert(t0(), state(5, [5], 4));
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(
        driven.refusals(),
        [Refusal::NoInSyncReplicaOnline(ids([5]))]
    );
    assert_eq!(*held(&zk), state(5, [5], 4));
    assert_eq!(context.partition_state(&t0()), New);
}

#[test]
fn a_state_that_exists_but_cannot_be_relied_on_is_neither_adopted_nor_overwritten() {
    let mut context = cluster([5], [5], New);
    let mut zk = Zk::default();
    zk.broken.insert(t0());
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(
        driven.refusals(),
        [Refusal::Broken("t-0: no JSON".to_owned())]
    );
    assert_eq!(context.partition_state(&t0()), New);

    let mut zk = Zk::default();
    let later = StateRead {
        controller_epoch: ControllerEpoch(51),
        ..state(5, [5], 0)
    };
    zk.states.insert(t0(), later);
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(
        driven.refusals(),
        [Refusal::LaterController(ControllerEpoch(51))]
    );
    assert_eq!(context.partition_state(&t0()), New);
}

#[test]
fn a_state_that_existed_and_is_gone_when_read_is_created_after_all() {
    let mut context = cluster([5], [5], New);
    let mut zk = Zk {
        refusals: [ZkOutcome::AlreadyExists].into(),
        ..Zk::default()
    };
    zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(*held(&zk), state(5, [5], 0));
    assert_eq!(context.partition_state(&t0()), Online);
}

#[test]
fn a_preferred_replica_that_leads_already_is_elected_again_and_told_of_zookeepers_version() {
    let mut context = cluster([5], [5], Online);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 0));
    let change = online(ElectionStrategy::PreferredReplica);
    let decision = change.decide(&context, &Fetched::default());
    let mut batch = ControllerBrokerRequestBatch::new();
    let outcome = ZkOutcome::Written { version: 2 };
    change.apply(&mut context, decision, &[outcome], &mut batch);
    let requests = batch.into_requests(&context);
    assert_eq!(told_of(&requests, 5), Some((5, 1, 2, false)));
}

#[test]
fn a_partition_leaves_the_brokers_that_shut_down_and_they_hear_of_it() {
    let mut context = cluster([5, 6], [5, 6], Online);
    context.begin_shutting_down(BrokerId(5));
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6], 0));
    let driven = zk.drive(&mut context, online(ElectionStrategy::ControlledShutdown));
    assert_eq!(held(&zk).leader_and_isr, state(6, [6], 1).leader_and_isr);
    assert_eq!(driven.applied.changes, [(t0(), Reason::ControlledShutdown)]);
    let requests = driven.requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([5, 6]));
    assert_eq!(
        announced(&requests, &t0()).unwrap().offline_replicas,
        ids([5])
    );
}

#[test]
fn the_last_in_sync_replica_keeps_its_partition_while_it_shuts_down() {
    let mut context = cluster([5, 6], [5, 6], Online);
    context.begin_shutting_down(BrokerId(5));
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5], 0));
    let driven = zk.drive(&mut context, online(ElectionStrategy::ControlledShutdown));
    assert_eq!(*held(&zk), state(5, [5], 0));
    assert!(matches!(
        driven.refusals()[..],
        [Refusal::NoEligibleLeader(_)]
    ));
    assert_eq!(context.partition_state(&t0()), Online);
    assert_sound(&context);
}

#[test]
fn an_offline_partition_is_led_again_once_an_in_sync_replica_is_online() {
    let mut context = cluster([5], [5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(-1, [5], 0));
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(held(&zk).leader_and_isr, state(5, [5], 1).leader_and_isr);
    assert_eq!(driven.applied.changes, [(t0(), Reason::LeaderOffline)]);
    assert_eq!(told_of(&driven.requests, 5), Some((5, 1, 1, false)));
    assert_eq!(context.partition_state(&t0()), Online);
    assert!(zk.config_reads.is_empty(), "nobody's configuration decides");
    assert!(
        zk.reads.is_empty(),
        "what the context holds isn't read again"
    );
}

#[test]
fn an_unclean_election_marks_the_leader_as_recovering_from_protocol_3_2_on() {
    for (protocol, expected) in [
        ("3.2", LeaderRecoveryState::Recovering),
        ("3.1", LeaderRecoveryState::Recovered),
    ] {
        let mut context = cluster([5], [6, 5], Offline);
        context.set_protocol(protocol.parse::<InterBrokerProtocol>().unwrap());
        let mut zk = Zk::default();
        zk.hold(&mut context, &t0(), state(6, [6], 0));
        let driven = zk.drive(&mut context, online(UNCLEAN));
        let mut wanted = state(5, [5], 1).leader_and_isr;
        wanted.leader_recovery_state = expected;
        assert_eq!(held(&zk).leader_and_isr, wanted, "{protocol}");
        assert_eq!(driven.applied.changes, [(t0(), Reason::UncleanElection)]);
        assert_eq!(context.gauges().unclean_leader_elections, 1);
        assert!(zk.config_reads.is_empty(), "the operator's word is enough");
        let requests = driven.requests.unwrap();
        assert_eq!(leader_and_isr_to(&requests), brokers([5]));
        let entry = told(&requests, 5, &t0()).unwrap();
        assert_eq!(entry.assignment.replicas, ids([6, 5]));
    }
}

#[test]
fn a_clean_election_keeps_the_recovery_state() {
    let mut context = cluster([5, 6], [6, 5], Offline);
    let mut zk = Zk::default();
    let mut recovering = state(7, [5], 3);
    recovering.leader_and_isr.leader_recovery_state = LeaderRecoveryState::Recovering;
    zk.hold(&mut context, &t0(), recovering);
    zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(held(&zk).leader_and_isr.leader, BrokerId(5));
    assert_eq!(
        held(&zk).leader_and_isr.leader_recovery_state,
        LeaderRecoveryState::Recovering
    );
}

#[test]
fn whether_an_unclean_election_is_held_is_for_the_topic_then_for_the_cluster_to_say() {
    for (topic, default, elected) in [
        (Some(true), false, true),
        (Some(false), true, false),
        (None, true, true),
        (None, false, false),
    ] {
        let mut context = cluster([5], [6, 5], Offline);
        let mut zk = Zk::default();
        zk.hold(&mut context, &t0(), state(6, [6], 0));
        if let Some(allowed) = topic {
            zk.unclean_allowed("t", allowed);
        }
        let rule = UncleanRule::ByConfig { default };
        let driven = zk.drive(
            &mut context,
            online(ElectionStrategy::OfflinePartition(rule)),
        );
        assert_eq!(zk.config_reads, [t0().topic]);
        let is_led = context.partition_state(&t0()) == Online;
        assert_eq!(is_led, elected, "topic {topic:?}, cluster {default}");
        if !elected {
            assert_eq!(
                driven.refusals(),
                [Refusal::NoInSyncReplicaOnline(ids([6]))]
            );
            assert_eq!(context.gauges().unclean_leader_elections, 0);
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_read_costs_its_own_partitions_alone() {
    let (good, bad) = (partition("good", 0), partition("bad", 0));
    let mut context = context([5]);
    let mut zk = Zk::default();
    for at in [&good, &bad] {
        assign(&mut context, at, [6, 5]);
        context.put_partition_state(at, Offline);
        zk.hold(&mut context, at, state(6, [6], 0));
    }
    zk.unclean_allowed("good", true);
    let broken = Read::Broken("/config/topics/bad: no JSON".to_owned());
    zk.configs.insert(bad.topic.clone(), broken);
    let both = OnlineChange::new(vec![good.clone(), bad.clone()], BY_CONFIG);
    let driven = zk.drive(&mut context, both);
    assert_eq!(driven.applied.done, [good]);
    assert_eq!(
        driven.applied.refused,
        [Refused {
            partition: bad,
            reason: Refusal::Broken("/config/topics/bad: no JSON".to_owned())
        }]
    );
}

#[test]
fn no_configuration_is_read_where_no_replica_is_online_at_all() {
    let mut context = cluster([], [6, 5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6], 0));
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(driven.refusals(), [Refusal::NoReplicaOnline(ids([6, 5]))]);
    assert!(zk.config_reads.is_empty());
}

#[test]
fn a_partition_whose_state_is_unknown_is_read_and_stays_offline_if_it_cannot_be() {
    for (broken, refusal) in [
        (false, Refusal::StateMissing),
        (true, Refusal::Broken("t-0: no JSON".to_owned())),
    ] {
        let mut context = cluster([5], [5], Offline);
        let mut zk = Zk::default();
        if broken {
            zk.broken.insert(t0());
        }
        let driven = zk.drive(&mut context, online(BY_CONFIG));
        assert_eq!(zk.reads, [t0()]);
        assert_eq!(driven.refusals(), [refusal]);
        assert_eq!((driven.requests, zk.writes.len()), (None, 0));
        assert_eq!(context.partition_state(&t0()), Offline);
    }
}

#[test]
fn a_state_node_that_vanished_is_not_created_anew() {
    let mut context = cluster([5], [5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(-1, [5], 0));
    zk.states.clear();
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(driven.refusals(), [Refusal::StateMissing]);
    assert!(zk.states.is_empty());
    assert_eq!(context.partition_state(&t0()), Offline);
}

#[test]
fn a_lost_version_race_is_decided_again_on_what_the_winner_wrote() {
    let mut context = cluster([6, 7], [5, 6, 7], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6, 7], 3));
    // The leader shrank its in-sync set before it died; the notification hasn't been read yet.
    let shrunk = StateRead {
        partition_epoch: PartitionEpoch(1),
        ..state(5, [5, 7], 3)
    };
    zk.states.insert(t0(), shrunk);
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(held(&zk).leader_and_isr, state(7, [7], 4).leader_and_isr);
    assert_eq!(zk.reads, [t0()]);
    assert_eq!(zk.writes.len(), 2);
    assert_eq!(told_of(&driven.requests, 6), Some((7, 4, 2, false)));
    assert_eq!(driven.applied.done, [t0()]);
}

#[test]
fn a_race_lost_to_a_leader_that_left_nobody_in_sync_still_heeds_the_topics_configuration() {
    let mut context = cluster([6], [5, 6], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(5, [5, 6], 3));
    let shrunk = StateRead {
        partition_epoch: PartitionEpoch(1),
        ..state(5, [5], 3)
    };
    zk.states.insert(t0(), shrunk.clone());
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(
        driven.refusals(),
        [Refusal::NoInSyncReplicaOnline(ids([5]))]
    );
    assert_eq!(*held(&zk), shrunk);

    zk.unclean_allowed("t", true);
    zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(held(&zk).leader_and_isr.leader, BrokerId(6));
}

#[test]
fn a_state_of_a_later_controller_is_left_alone() {
    let mut context = cluster([5], [5], Offline);
    let mut zk = Zk::default();
    let later = StateRead {
        controller_epoch: ControllerEpoch(51),
        partition_epoch: PartitionEpoch(1),
        ..state(-1, [5], 0)
    };
    zk.hold(&mut context, &t0(), state(-1, [5], 0));
    zk.states.insert(t0(), later.clone());
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    assert_eq!(
        driven.refusals(),
        [Refusal::LaterController(ControllerEpoch(51))]
    );
    assert_eq!(*held(&zk), later);
    assert_eq!(driven.requests, None);
}

#[test]
fn one_partition_that_fails_costs_the_others_nothing() {
    let mut context = context([5]);
    let mut zk = Zk::default();
    let all: Vec<TopicPartition> = (0..3).map(|index| partition("t", index)).collect();
    for at in &all {
        assign(&mut context, at, [5]);
        context.put_partition_state(at, Offline);
        zk.hold(&mut context, at, state(-1, [5], 0));
    }
    zk.refusals = [ZkOutcome::Refused("/b: too large".to_owned())].into();
    let driven = zk.drive(&mut context, OnlineChange::new(all.clone(), BY_CONFIG));
    assert_eq!(driven.applied.done, all[1..]);
    assert_eq!(driven.refusals(), [Refusal::Zk("/b: too large".to_owned())]);
    let requests = driven.requests.unwrap();
    assert!(told(&requests, 5, &all[0]).is_none());
    assert!(told(&requests, 5, &all[2]).is_some());
}

#[test]
fn without_a_term_nothing_is_decided() {
    let mut context = cluster([5], [5], New);
    context.reset();
    assign(&mut context, &t0(), [5]);
    context.add_live_broker(registration(5));
    context.put_partition_state(&t0(), New);
    let decision = online(BY_CONFIG).decide(&context, &Fetched::default());
    assert_eq!(decision.writes(), []);
    assert_eq!(decision.refused[0].reason, Refusal::NotController);
}

#[test]
fn a_reassignment_is_led_by_its_target() {
    let mut context = cluster([1, 4], [1, 2], Online);
    let moving = context
        .partition(&t0())
        .unwrap()
        .assignment
        .reassign_to(&ids([4, 2]));
    context.put_assignment(&t0(), moving);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(1, [1, 4], 0));
    let driven = zk.drive(&mut context, online(ElectionStrategy::Reassign));
    assert_eq!(held(&zk).leader_and_isr, state(4, [1, 4], 1).leader_and_isr);
    assert_eq!(driven.applied.changes, [(t0(), Reason::Reassigned)]);
    let requests = driven.requests.unwrap();
    assert_eq!(leader_and_isr_to(&requests), brokers([4]), "2 is dead");
}

#[test]
fn at_failover_partitions_start_as_their_leaderships_say() {
    let mut context = context([5]);
    let mut zk = Zk::default();
    let cases = [
        ("a", None, New),
        ("b", Some(state(5, [5], 0)), Online),
        ("c", Some(state(6, [6, 5], 0)), Offline),
        ("d", Some(state(-1, [6], 0)), Offline),
    ];
    for (topic, held, _) in &cases {
        assign(&mut context, &partition(topic, 0), [5, 6]);
        if let Some(held) = held {
            zk.hold(&mut context, &partition(topic, 0), held.clone());
        }
    }
    startup(&mut context);
    for (topic, _, expected) in &cases {
        assert_eq!(context.partition_state(&partition(topic, 0)), *expected);
    }
    assert_sound(&context);
    context.queue_for_deletion(&TopicName::new("c"));
    assert_eq!(
        online_candidates(&context),
        [partition("a", 0), partition("d", 0)]
    );
}

#[test]
fn offline_partitions_are_counted_as_they_go_and_come() {
    let mut context = context([5]);
    let mut zk = Zk::default();
    let all: Vec<TopicPartition> = (0..4).map(|index| partition("test", index)).collect();
    for at in &all {
        assign(&mut context, at, [5]);
        zk.hold(&mut context, at, state(5, [5], 0));
    }
    let refused = handle_state_changes(&mut context, &all, LocalPartitionStep::New);
    assert_eq!(refused, []);
    handle_state_changes(&mut context, &all, LocalPartitionStep::Offline);
    assert_eq!(context.gauges().offline_partitions, 4);
    handle_state_changes(&mut context, &all, LocalPartitionStep::Offline);
    assert_eq!(context.gauges().offline_partitions, 4);
    zk.drive(&mut context, OnlineChange::new(all, BY_CONFIG));
    assert_eq!(context.gauges().offline_partitions, 0);
    assert_sound(&context);
}

#[test]
fn partitions_of_topics_whose_deletion_has_begun_are_not_counted_as_offline() {
    let mut context = context([5]);
    let all: Vec<TopicPartition> = (0..4).map(|index| partition("test", index)).collect();
    for at in &all {
        assign(&mut context, at, [5]);
    }
    let topic = TopicName::new("test");
    context.queue_for_deletion(&topic);
    context.begin_deletion(&topic);
    handle_state_changes(&mut context, &all, LocalPartitionStep::New);
    handle_state_changes(&mut context, &all, LocalPartitionStep::Offline);
    assert_eq!(context.gauges().offline_partitions, 0);
    assert_sound(&context);
}

#[test]
fn offline_partitions_of_a_topic_count_until_its_deletion_takes_them_away() {
    let mut context = context([5]);
    let all: Vec<TopicPartition> = (0..4).map(|index| partition("test", index)).collect();
    for at in &all {
        assign(&mut context, at, [5]);
    }
    handle_state_changes(&mut context, &all, LocalPartitionStep::New);
    handle_state_changes(&mut context, &all, LocalPartitionStep::Offline);
    assert_eq!(context.gauges().offline_partitions, 4);
    let topic = TopicName::new("test");
    context.queue_for_deletion(&topic);
    assert_eq!(context.gauges().offline_partitions, 4);
    handle_state_changes(&mut context, &all, LocalPartitionStep::NonExistent);
    assert_eq!(context.gauges().offline_partitions, 0);
    context.begin_deletion(&topic);
    assert_eq!(context.gauges().offline_partitions, 0);
    assert_sound(&context);
}

#[test]
fn a_configuration_that_was_never_read_elects_nobody_unclean() {
    let mut context = cluster([5], [6, 5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(6, [6], 0));
    let decision = online(BY_CONFIG).decide(&context, &Fetched::default());
    assert_eq!(decision.planned, []);
    let [Refused { reason, .. }] = &decision.refused[..] else {
        panic!("{decision:?}");
    };
    let said = reason.to_string();
    assert_eq!(said, "the configuration of topic t was not read");
}

#[test]
fn in_sync_replicas_that_are_not_assigned_lead_nothing_and_are_named() {
    let mut context = cluster([5, 7], [6, 5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(-1, [7], 0));
    let driven = zk.drive(&mut context, online(BY_CONFIG));
    let refusals = driven.refusals();
    assert_eq!(zk.writes, []);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let said = refusals[0].to_string();
    assert!(said.contains("not in the assignment"), "{said}");
}

#[test]
fn a_write_without_an_answer_changes_nothing() {
    let mut context = cluster([5, 6], [6, 5], Offline);
    let mut zk = Zk::default();
    zk.hold(&mut context, &t0(), state(-1, [5], 0));
    let ask = online(BY_CONFIG);
    let decision = ask.decide(&context, &Fetched::default());
    assert_eq!(decision.planned.len(), 1);
    let mut batch = ControllerBrokerRequestBatch::new();
    let applied = ask.apply(&mut context, decision, &[], &mut batch);
    let unanswered = Refusal::Zk("the write was not answered".to_owned());
    let refused: Vec<Refusal> = applied.refused.into_iter().map(|it| it.reason).collect();
    assert_eq!(refused, [unanswered]);
    assert_eq!(context.partition_state(&t0()), Offline);
    assert!(batch.into_requests(&context).is_none(), "nobody is told");
}
