//! Each rule fires when its promise is broken, and a sound cluster breaks none.

use super::*;
use crate::machine::fixture::*;
use crate::model::{BrokerId, ReplicaAssignment, TopicName};

/// `t-0` on 1 and 2, Online under 1.
fn sound() -> ControllerContext {
    let mut context = context([1, 2]);
    assign(&mut context, &t0(), [1, 2]);
    context.put_leadership(&t0(), state(1, [1, 2], 0).into());
    context.put_partition_state(&t0(), PartitionState::Online);
    for broker in [1, 2] {
        context.put_replica_state(&replica(&t0(), broker), ReplicaState::Online);
    }
    context
}

/// What the check says after `spoil`.
fn after(spoil: impl FnOnce(&mut ControllerContext)) -> Vec<String> {
    let mut context = sound();
    spoil(&mut context);
    violations(&context)
}

#[test]
fn a_sound_cluster_breaks_no_rule() {
    assert_sound(&sound());
    assert_sound(&ControllerContext::new());
}

#[test]
fn counts_and_indexes_that_drifted_are_found() {
    let said = after(|context| context.tally.offline_partitions += 1);
    assert!(said[0].contains("a recount says"), "{said:?}");
    let said = after(|context| {
        context.indexes.hosted.clear();
        context.indexes.led.clear();
        context.indexes.leaderless.insert(t0());
        context.indexes.topic_names.clear();
    });
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(
        said.iter()
            .all(|rule| rule.contains("differs from the topics"))
    );
}

#[test]
fn marks_without_a_registration_and_klamms_among_brokers_are_found() {
    let said = after(|context| {
        context.shutting_down.insert(BrokerId(7));
        context.set_replica_on_offline_dir(&replica(&t0(), 8), true);
        context.set_klamm_ids(klamm_ids([9]));
        context.brokers.insert(BrokerId(9), registration(1));
    });
    assert_eq!(
        said,
        [
            "klamm 9 is taken for a live broker",
            "broker 9 carries the registration of broker 1",
            "broker 7 is shutting down but not registered",
            "broker 8 has failed log directories but is not registered",
        ]
    );
}

#[test]
fn a_deletion_that_was_never_queued_is_found() {
    let said = after(|context| {
        context.deletion.begun.insert(TopicName::new("x"));
        context
            .deletion
            .set_ineligible(&TopicName::new("y"), Some(Ineligible::Reassigning));
    });
    assert_eq!(
        said,
        [
            "the deletion of x has begun but isn't queued",
            "the deletion of y waits but isn't queued",
        ]
    );
}

#[test]
fn a_state_of_a_replica_that_is_not_assigned_is_found() {
    let said = after(|context| {
        context.put_replica_state(&replica(&t0(), 3), ReplicaState::Offline);
    });
    assert_eq!(
        said,
        ["t-0: the replica on broker 3 is Offline but not assigned ([1,2])"]
    );
}

#[test]
fn an_online_partition_whose_leader_is_missing_or_gone_is_found() {
    let gone = ["t-0: it is Online but its leader 1 is gone"];
    assert_eq!(
        after(|context| {
            context.remove_live_broker(BrokerId(1));
        }),
        gone
    );
    let failed = after(|context| {
        context.set_replica_on_offline_dir(&replica(&t0(), 1), true);
    });
    assert_eq!(failed, gone);
    let leaderless = after(|context| context.put_leadership(&t0(), state(-1, [2], 1).into()));
    assert_eq!(leaderless, ["t-0: it is Online but its leader -1 is gone"]);
    let unled = after(|context| {
        assign(context, &partition("t", 1), [1]);
        context.put_partition_state(&partition("t", 1), PartitionState::Online);
    });
    assert_eq!(unled, ["t-1: it is Online without a leadership"]);
}

#[test]
fn what_upstream_allows_is_no_violation() {
    let allowed: [fn(&mut ControllerContext); 4] = [
        // A leader that is shutting down leads on; Offline says nothing of the leadership.
        |context| context.begin_shutting_down(BrokerId(1)),
        |context| {
            context.put_partition_state(&t0(), PartitionState::Offline);
            context.put_leadership(&t0(), state(-1, [2], 1).into());
        },
        // A topic being deleted keeps its states while its brokers and replicas go.
        |context| {
            context.queue_for_deletion(&t0().topic);
            context.remove_live_broker(BrokerId(1));
        },
        |context| {
            context.begin_deletion(&t0().topic);
            context.put_partition_state(&t0(), PartitionState::NonExistent);
            for broker in [1, 2] {
                context.put_replica_state(&replica(&t0(), broker), ReplicaState::NonExistent);
            }
            context.put_assignment(&t0(), ReplicaAssignment::settled(ids([])));
        },
    ];
    for (position, change) in allowed.into_iter().enumerate() {
        assert_eq!(after(change), Vec::<String>::new(), "case {position}");
    }
}

#[test]
fn a_leadership_that_makes_no_sense_is_found() {
    for (leader, isr, said) in [
        (
            1,
            vec![2],
            "t-0: its leader 1 is not in its in-sync set [2]",
        ),
        (-1, vec![], "t-0: its in-sync set is empty"),
        (-2, vec![1], "t-0: its leader is -2, which means nothing"),
    ] {
        let found = after(|context| {
            let mut broken = state(leader, [], 0);
            broken.leader_and_isr.isr = isr.as_slice().into();
            context.put_partition_state(&t0(), PartitionState::Offline);
            context.put_leadership(&t0(), broken.into());
        });
        assert_eq!(found, [said]);
    }
    let found = after(|context| {
        context.add_live_broker(registration(3));
        context.put_leadership(&t0(), state(3, [3], 0).into());
    });
    assert_eq!(found, ["t-0: its leader 3 is none of its replicas [1,2]"]);
    let found = after(|context| {
        context.set_klamm_ids(klamm_ids([9]));
        context.put_leadership(&t0(), state(1, [1, 9], 0).into());
    });
    assert_eq!(found, ["t-0: klamm 9 is in its in-sync set [1,9]"]);
}

#[test]
fn an_assigned_partition_that_stands_nowhere_is_found() {
    let found = after(|context| assign(context, &partition("t", 1), [1]));
    assert_eq!(found, ["t-1: it is assigned but has no state"]);
}

#[test]
fn topics_without_a_term_are_found() {
    let mut context = ControllerContext::new();
    context.put_topic(&TopicName::new("t"), None, 0);
    assert_eq!(
        violations(&context),
        ["without a term the context holds 1 topics and 0 partitions"]
    );
}

#[test]
fn assignments_that_cannot_be_are_found() {
    let with = |replicas: &[i32], adding: &[i32], removing: &[i32]| {
        let assignment = ReplicaAssignment {
            replicas: crate::model::BrokerIds::from(replicas),
            adding: crate::model::BrokerIds::from(adding),
            removing: crate::model::BrokerIds::from(removing),
        };
        after(|context| context.put_assignment(&t0(), assignment))
    };
    assert_eq!(with(&[1, 2], &[2], &[1]), [""; 0]);
    for (said, rule) in [
        (with(&[1, 2], &[3], &[]), "broker 3 is being added"),
        (with(&[1, 2], &[], &[3]), "broker 3 is being removed"),
        (with(&[1, 2, 1], &[], &[]), "stands twice"),
        (with(&[1, 2], &[], &[2, 1]), "without replicas"),
    ] {
        assert!(
            said.iter().any(|said| said.contains(rule)),
            "{rule}: {said:?}"
        );
    }
}

#[test]
fn reassignments_that_wait_without_moving_are_found() {
    let said = after(|context| {
        let why = crate::state::Waiting::BrokerDown(BrokerId(7));
        context.reassignments.set(&t0(), Some(why));
    });
    assert_eq!(said, ["t-0: its reassignment waits but there is none"]);
    let said = after(|context| {
        context.indexes.moving.insert(t0());
    });
    assert_eq!(said.len(), 1, "{said:?}");
}
