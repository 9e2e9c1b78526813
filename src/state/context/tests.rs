//! Upstream: `ControllerContextTest`, and what klamm's indexes add to it.

use super::*;
use crate::machine::fixture::*;
use crate::state::violations;

/// Brokers 1, 2, 3; A-0 [1,2,3], A-1 [2,3,1], B-0 [3,1,2].
fn cluster() -> ControllerContext {
    let mut context = context([1, 2, 3]);
    assign(&mut context, &partition("A", 0), [1, 2, 3]);
    assign(&mut context, &partition("A", 1), [2, 3, 1]);
    assign(&mut context, &partition("B", 0), [3, 1, 2]);
    for at in [partition("A", 0), partition("A", 1), partition("B", 0)] {
        context.put_partition_state(&at, PartitionState::New);
    }
    context
}

fn assignment<const R: usize, const A: usize, const M: usize>(
    replicas: [i32; R],
    adding: [i32; A],
    removing: [i32; M],
) -> ReplicaAssignment {
    ReplicaAssignment {
        replicas: ids(replicas),
        adding: ids(adding),
        removing: ids(removing),
    }
}

fn lead(context: &mut ControllerContext, at: &TopicPartition, leader: i32) {
    context.put_leadership(at, state(leader, [1, 2, 3], 0).into());
}

fn imbalance(context: &ControllerContext) -> u64 {
    context.gauges().preferred_replica_imbalance
}

#[test]
fn an_assignment_replaces_the_one_before_in_all_its_lists_as_given() {
    let mut context = cluster();
    let at = partition("A", 0);
    for wanted in [
        assignment([4], [], []),
        assignment([3, 4], [3], [4]),
        assignment([3, 1, 2], [3, 2], [1, 2]),
    ] {
        context.put_assignment(&at, wanted.clone());
        assert_eq!(context.partition(&at).unwrap().assignment, wanted);
        assert_sound(&context);
    }
}

#[test]
fn an_unknown_topic_or_partition_has_no_replicas() {
    let context = cluster();
    for at in [partition("NONEXISTENT", 0), partition("A", 100)] {
        assert_eq!(context.replicas(&at), ids([]));
        assert!(context.partition(&at).is_none());
    }
    assert!(context.topic(&TopicName::new("NONEXISTENT")).is_none());
}

#[test]
fn a_topic_has_its_own_partitions_and_no_others() {
    let context = cluster();
    let topic = context.topic(&TopicName::new("A")).unwrap();
    let found: Vec<(i32, BrokerIds)> = topic
        .partitions
        .iter()
        .map(|(index, found)| (*index, found.assignment.replicas.clone()))
        .collect();
    assert_eq!(found, [(0, ids([1, 2, 3])), (1, ids([2, 3, 1]))]);
}

#[test]
fn a_reassignment_has_a_target_and_an_order_alone_is_none() {
    for (given, is_moving, target) in [
        (
            assignment([1, 2, 3, 4, 5, 6], [2, 3, 4], [1, 5, 6]),
            true,
            ids([2, 3, 4]),
        ),
        (assignment([1, 2, 3, 4], [], [1, 4]), true, ids([2, 3])),
        (assignment([1, 2, 3, 4], [4], [2]), true, ids([1, 3, 4])),
        (
            assignment([1, 2, 3, 4, 5, 6], [], []),
            false,
            ids([1, 2, 3, 4, 5, 6]),
        ),
    ] {
        assert_eq!(given.is_being_reassigned(), is_moving, "{given:?}");
        assert_eq!(given.target(), target, "{given:?}");
    }
    let settled = |replicas: &[i32]| ReplicaAssignment::settled(BrokerIds::from(replicas));
    for (from, to, expected) in [
        (
            settled(&[1, 2, 3, 4]),
            ids([4, 2, 5, 3]),
            assignment([4, 2, 5, 3, 1], [5], [1]),
        ),
        (
            settled(&[1, 2, 3]),
            ids([4, 5, 6]),
            assignment([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3]),
        ),
        (
            settled(&[1, 2, 3]),
            ids([3, 1, 2]),
            assignment([3, 1, 2], [], []),
        ),
    ] {
        assert_eq!(from.reassign_to(&to), expected);
    }
}

#[test]
fn a_reassignment_that_is_overridden_keeps_its_origin() {
    let origin = ReplicaAssignment::settled(ids([1, 2, 3]));
    let first = origin.reassign_to(&ids([4, 5, 6]));
    let second = assignment([7, 8, 9, 1, 2, 3], [7, 8, 9], [1, 2, 3]);
    assert_eq!(first.reassign_to(&ids([7, 8, 9])), second);
    assert_eq!(origin.reassign_to(&ids([7, 8, 9])), second);
    assert_eq!(first.reassign_to(&ids([1, 2, 3])), origin);
}

#[test]
fn a_reassignment_to_its_own_target_changes_nothing() {
    for given in [
        assignment([1, 2, 3], [], []),
        assignment([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3]),
        assignment([4, 2, 3, 1], [4], [1]),
    ] {
        assert_eq!(given.reassign_to(&given.target()), given);
    }
}

#[test]
fn imbalance_follows_leaders_assignments_and_deletions() {
    let mut context = cluster();
    let (a0, a1, b0) = (partition("A", 0), partition("A", 1), partition("B", 0));
    for at in [&a0, &a1, &b0] {
        assign(&mut context, at, [1, 2, 3]);
    }
    assert_eq!(imbalance(&context), 0);
    for (at, leader, expected) in [(&a0, 1, 0), (&a1, 2, 1), (&b0, 3, 2)] {
        lead(&mut context, at, leader);
        assert_eq!(imbalance(&context), expected);
    }
    assign(&mut context, &a0, [2, 3, 1]);
    assign(&mut context, &a1, [2, 3, 1]);
    assert_eq!(imbalance(&context), 2, "A-0 lost balance, A-1 found it");
    context.queue_for_deletion(&b0.topic);
    assert_eq!(imbalance(&context), 1);
    lead(&mut context, &b0, 1);
    assert_eq!(imbalance(&context), 1);
    for topic in ["A", "A", "B"] {
        context.remove_topic(&TopicName::new(topic));
    }
    assert_eq!(
        context.gauges(),
        Gauges {
            active_brokers: 3,
            ..Gauges::default()
        }
    );
    assert_sound(&context);
}

#[test]
fn a_topic_queued_twice_is_taken_out_of_the_imbalance_once() {
    let mut context = cluster();
    let (a, b) = (TopicName::new("A"), TopicName::new("B"));
    lead(&mut context, &partition("A", 1), 2);
    lead(&mut context, &partition("B", 0), 1);
    context.queue_for_deletion(&a);
    lead(&mut context, &partition("A", 0), -1);
    assert_eq!(imbalance(&context), 1, "B-0");
    context.queue_for_deletion(&a);
    context.queue_for_deletion(&b);
    assert_eq!(imbalance(&context), 0);
    assert_sound(&context);
}

#[test]
fn a_preferred_replica_that_is_being_added_counts_once_it_is_in_sync() {
    let mut context = cluster();
    let at = partition("A", 0);
    context.put_leadership(&at, state(1, [1, 2], 0).into());
    context.put_assignment(&at, assignment([4, 1, 2], [4], [1]));
    assert_eq!(imbalance(&context), 0);
    context.put_leadership(&at, state(1, [1, 2, 4], 0).into());
    assert_eq!(imbalance(&context), 1);
}

#[test]
fn replicas_to_delete_are_counted_until_each_is_deleted() {
    let mut context = cluster();
    let a = TopicName::new("A");
    context.queue_for_deletion(&a);
    context.mark_ineligible_for_deletion(&a, Ineligible::Reassigning);
    context.mark_ineligible_for_deletion(&TopicName::new("B"), Ineligible::Reassigning);
    let mut counted = vec![];
    let at = partition("A", 0);
    for state in [
        ReplicaState::DeletionStarted,
        ReplicaState::DeletionIneligible,
        ReplicaState::DeletionSuccessful,
    ] {
        context.put_replica_state(&replica(&at, 1), state);
        let gauges = context.gauges();
        counted.push((
            gauges.replicas_to_delete,
            gauges.replicas_ineligible_to_delete,
        ));
        assert_sound(&context);
    }
    assert_eq!(counted, [(6, 0), (6, 1), (5, 0)]);
    let gauges = context.gauges();
    assert_eq!(
        (gauges.topics_to_delete, gauges.topics_ineligible_to_delete),
        (1, 1)
    );
    assert!(!context.is_eligible_for_deletion(&a), "it waits");
    context.mark_eligible_for_deletion(&a);
    assert!(context.is_eligible_for_deletion(&a));
    context.remove_topic(&a);
    assert_eq!(context.gauges().replicas_to_delete, 0);
    assert!(!context.is_queued_for_deletion(&a));
}

#[test]
fn a_topic_may_be_queued_for_deletion_before_it_is_known() {
    let mut context = context([1, 2, 3]);
    let at = partition("A", 0);
    context.queue_for_deletion(&at.topic);
    assign(&mut context, &at, [1, 2, 3]);
    context.put_partition_state(&at, PartitionState::New);
    lead(&mut context, &at, 2);
    assert_eq!(imbalance(&context), 0);
    assert_eq!(context.gauges().replicas_to_delete, 3);
    assert_sound(&context);
}

#[test]
fn partitions_are_counted_once_they_are_led() {
    let mut context = cluster();
    assert_eq!(context.gauges().partitions, 0);
    lead(&mut context, &partition("A", 0), 1);
    lead(&mut context, &partition("B", 0), -1);
    let gauges = context.gauges();
    assert_eq!((gauges.topics, gauges.partitions), (2, 2));
    assert_eq!(
        context.partitions_with_leadership(),
        [partition("A", 0), partition("B", 0)]
    );
}

#[test]
fn a_partition_with_a_state_that_names_a_klamm_is_counted() {
    let mut context = cluster();
    let at = partition("A", 0);
    context.set_klamm_ids(klamm_ids([9]));
    assign(&mut context, &at, [9, 1, 2]);
    assert_eq!(
        context.gauges().assignments_naming_klamm,
        0,
        "it can still be rewritten"
    );
    lead(&mut context, &at, 1);
    assert_eq!(context.gauges().assignments_naming_klamm, 1);
    context.set_klamm_ids(klamm_ids([9, 3]));
    assert_eq!(
        context.gauges().assignments_naming_klamm,
        1,
        "the others aren't led"
    );
    assign(&mut context, &at, [1, 2]);
    assert_eq!(context.gauges().assignments_naming_klamm, 0);
}

#[test]
fn a_broker_hosts_what_is_assigned_to_it_now() {
    let mut context = cluster();
    let hosted = |context: &ControllerContext, id| {
        let replicas = context.replicas_on(BrokerId(id)).into_iter();
        replicas
            .map(|replica| replica.partition)
            .collect::<Vec<_>>()
    };
    assign(&mut context, &partition("A", 0), [4, 2]);
    assert_eq!(hosted(&context, 1), [partition("A", 1), partition("B", 0)]);
    assert_eq!(hosted(&context, 4), [partition("A", 0)]);
    context.remove_topic(&TopicName::new("A"));
    assert_eq!(hosted(&context, 4), []);
    assert_eq!(hosted(&context, 2), [partition("B", 0)]);
    let all = context
        .all_replicas()
        .into_iter()
        .map(|replica| replica.broker);
    assert_eq!(all.collect::<Vec<_>>(), brokers([1, 2, 3]));
}

#[test]
fn partitions_whose_leader_is_gone_are_found_however_it_went() {
    let mut context = cluster();
    let (a0, a1, b0) = (partition("A", 0), partition("A", 1), partition("B", 0));
    let c0 = partition("C", 0);
    assign(&mut context, &c0, [1]);
    for (at, leader) in [(&a0, 1), (&a1, 2), (&b0, 3), (&c0, 1)] {
        lead(&mut context, at, leader);
    }
    let offline = |context: &ControllerContext| context.partitions_with_offline_leader();
    assert_eq!(offline(&context), []);
    context.begin_shutting_down(BrokerId(2));
    assert_eq!(offline(&context), std::slice::from_ref(&a1));
    assert!(context.set_replica_on_offline_dir(&replica(&a0, 1), true));
    assert!(!context.set_replica_on_offline_dir(&replica(&a0, 1), true));
    assert_eq!(offline(&context), [a0.clone(), a1.clone()]);
    assert!(context.set_replica_on_offline_dir(&replica(&a0, 1), false));
    assert!(!context.set_replica_on_offline_dir(&replica(&a0, 1), false));
    context.remove_live_broker(BrokerId(3));
    assert_eq!(offline(&context), [a1.clone(), b0.clone()]);
    lead(&mut context, &b0, -1);
    assert_eq!(offline(&context), [a1.clone(), b0.clone()]);
    context.queue_for_deletion(&b0.topic);
    assert_eq!(offline(&context), [a1]);
}

#[test]
fn partitions_are_listed_by_state_in_order() {
    let mut context = cluster();
    let (a0, a1, b0) = (partition("A", 0), partition("A", 1), partition("B", 0));
    lead(&mut context, &a1, 2);
    context.put_partition_state(&a1, PartitionState::Online);
    context.put_partition_state(&b0, PartitionState::Offline);
    use PartitionState::{New, Offline, Online};
    assert_eq!(
        context.partitions_in(&[New, Offline]),
        [a0.clone(), b0.clone()]
    );
    assert_eq!(context.partitions_in(&[Offline]), std::slice::from_ref(&b0));
    assert_eq!(context.partitions_in(&[Online, Offline]), [a1, b0]);
    assert_eq!(context.gauges().offline_partitions, 1);
}

#[test]
fn a_shutting_down_mark_goes_with_the_incarnation_it_was_set_on() {
    let mut context = context([1, 2]);
    context.begin_shutting_down(BrokerId(1));
    context.begin_shutting_down(BrokerId(7));
    assert_eq!(
        *context.shutting_down(),
        klamm_ids([1]),
        "7 isn't registered"
    );
    let at = t0();
    assert!(!context.is_live(BrokerId(1)) && context.is_live_or_shutting_down(BrokerId(1)));
    assert!(!context.is_replica_online(BrokerId(1), &at));
    assert!(context.is_replica_online_or_shutting_down(BrokerId(1), &at));

    context.add_live_broker(registration(1));
    assert!(
        !context.is_live(BrokerId(1)),
        "the same incarnation, new endpoints"
    );
    let bounced = BrokerRegistration {
        epoch: crate::model::BrokerEpoch(2),
        ..registration(1)
    };
    context.add_live_broker(bounced);
    assert!(context.is_live(BrokerId(1)));

    context.begin_shutting_down(BrokerId(2));
    context.remove_live_broker(BrokerId(2));
    context.add_live_broker(registration(2));
    assert!(context.is_live(BrokerId(2)));
}

#[test]
fn a_klamm_is_never_a_live_broker() {
    let mut context = context([1, 9]);
    context.set_klamm_ids(klamm_ids([9, 8]));
    context.add_live_broker(registration(8));
    context.set_own_broker(broker(8));
    assert!(!context.is_live_or_shutting_down(BrokerId(9)));
    assert!(!context.is_live_or_shutting_down(BrokerId(8)));
    let announced: Vec<BrokerId> = context.announced_brokers().iter().map(|b| b.id).collect();
    assert_eq!(
        announced,
        brokers([1, 8]),
        "we are announced, other klamms are not"
    );
    assert_eq!(context.gauges().active_brokers, 1);
    assert_sound(&context);
}

#[test]
fn failed_directories_are_forgotten_with_the_broker_and_with_the_topic() {
    let mut context = cluster();
    let (a0, b0) = (partition("A", 0), partition("B", 0));
    for at in [&a0, &b0] {
        context.set_replica_on_offline_dir(&replica(at, 1), true);
        assert!(!context.is_replica_online(BrokerId(1), at));
        assert!(!context.is_replica_online_or_shutting_down(BrokerId(1), at));
    }
    context.remove_topic(&a0.topic);
    assert!(context.is_replica_online(BrokerId(1), &a0));
    assert!(!context.is_replica_online(BrokerId(1), &b0));
    context.clear_offline_dirs(BrokerId(1));
    assert!(context.is_replica_online(BrokerId(1), &b0));
}

#[test]
fn topic_ids_lead_to_names_and_follow_what_the_topic_says() {
    let mut context = context([1]);
    let name = TopicName::new("A");
    let id = |byte: u8| TopicId::new([byte; 16]);
    context.put_topic(&name, None, 3);
    context.put_topic(&name, id(1), 4);
    assert_eq!(context.topic_name(id(1).unwrap()), Some(&name));
    assert_eq!(context.topic(&name).unwrap().znode_version, 4);
    context.put_topic(&name, id(2), 5);
    assert_eq!(context.topic_name(id(1).unwrap()), None);
    assert_eq!(context.topic_name(id(2).unwrap()), Some(&name));
    context.remove_topic(&name);
    assert_eq!(context.topic_name(id(2).unwrap()), None);
}

#[test]
fn what_is_said_of_partitions_that_are_not_there_is_ignored() {
    let mut context = cluster();
    let unknown = partition("C", 0);
    context.put_assignment(&unknown, assignment([1], [], []));
    lead(&mut context, &unknown, 1);
    context.put_partition_state(&unknown, PartitionState::Offline);
    context.put_replica_state(&replica(&unknown, 1), ReplicaState::Online);
    assert!(context.partition(&unknown).is_none());
    assert_eq!(context.gauges().offline_partitions, 0);
    assert_sound(&context);
}

#[test]
fn a_lost_role_leaves_nothing_of_the_cluster_behind() {
    let mut context = cluster();
    context.set_klamm_ids(klamm_ids([9]));
    context.set_own_broker(broker(9));
    context.begin_shutting_down(BrokerId(1));
    context.queue_for_deletion(&TopicName::new("A"));
    lead(&mut context, &partition("B", 0), 1);
    context.count_unclean_election();
    context.reset();
    assert_eq!(context.term(), None);
    let expected = Gauges {
        unclean_leader_elections: 1,
        ..Gauges::default()
    };
    assert_eq!(context.gauges(), expected);
    assert_eq!(context.live_or_shutting_down_brokers().count(), 0);
    assert!(context.shutting_down().is_empty());
    assert_eq!(context.replicas_on(BrokerId(1)), []);
    assert!(context.own_broker().is_some(), "who we are stays");
    assert_eq!(*context.klamm_ids(), klamm_ids([9]));
    assert_sound(&context);
}

/// Any order of changes leaves counts and indexes as a recount and a rebuild have them.
#[test]
fn counts_and_indexes_never_drift() {
    // A small generator of our own: the same changes each run.
    let mut seed: u32 = 7;
    let mut pick = |limit: i32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i32::try_from(seed >> 8).unwrap() % limit
    };
    let mut context = context([0, 1, 2, 3]);
    for round in 0..4_000 {
        let topics = ["a", "b", "c"];
        let topic = TopicName::new(topics[usize::try_from(pick(3)).unwrap()]);
        let at = TopicPartition::new(&topic, pick(3));
        let first = pick(5);
        let replicas = [first, (first + 1) % 5, (first + 2) % 5];
        match pick(11) {
            0 | 1 => assign(&mut context, &at, replicas),
            2 => {
                let moving = context.partition(&at).map(|found| found.assignment.clone());
                if let Some(moving) = moving {
                    context.put_assignment(&at, moving.reassign_to(&ids(replicas)));
                }
            }
            3 | 4 => context.put_leadership(&at, state(pick(6) - 1, [1, 2], 0).into()),
            5 => {
                use PartitionState::{New, NonExistent, Offline, Online};
                let next = [NonExistent, New, Online, Offline];
                context.put_partition_state(&at, next[usize::try_from(pick(4)).unwrap()]);
            }
            6 => {
                use ReplicaState::{DeletionIneligible, DeletionSuccessful, NonExistent, Online};
                let next = [NonExistent, Online, DeletionSuccessful, DeletionIneligible];
                let replica = replica(&at, pick(5));
                context.put_replica_state(&replica, next[usize::try_from(pick(4)).unwrap()]);
            }
            7 => context.queue_for_deletion(&topic),
            8 => context.begin_deletion(&topic),
            9 => context.remove_topic(&topic),
            _ => context.set_klamm_ids(klamm_ids([4 + pick(2)])),
        }
        let drifted: Vec<String> = violations(&context)
            .into_iter()
            .filter(|rule| rule.contains("recount") || rule.contains("index"))
            .collect();
        assert_eq!(drifted, Vec::<String>::new(), "after change {round}");
    }
}
