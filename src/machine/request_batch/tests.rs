//! Upstream: `ControllerChannelManagerTest`, as far as it concerns what a batch holds. The versions that each protocol
//! sends are tested in `model::protocol`, bytes in the codec, answers where they are handled.

use super::super::fixture::*;
use super::*;
use crate::model::{ControllerEpoch, TopicId};

/// Brokers 1, 2, 3; `foo` and `bar` of two partitions on all three; the three partitions of upstream led.
fn cluster() -> ControllerContext {
    let mut context = context([1, 2, 3]);
    for (topic, index) in [("foo", 0), ("foo", 1), ("bar", 0), ("bar", 1)] {
        assign(&mut context, &partition(topic, index), [1, 2, 3]);
    }
    let mut zk = Zk::default();
    zk.hold(&mut context, &foo(0), state(1, [1, 2], 0));
    zk.hold(&mut context, &foo(1), state(2, [2, 3], 0));
    zk.hold(&mut context, &bar(1), state(3, [1, 3], 0));
    context
}

fn foo(index: i32) -> TopicPartition {
    partition("foo", index)
}

fn bar(index: i32) -> TopicPartition {
    partition("bar", index)
}

fn led() -> [TopicPartition; 3] {
    [foo(0), foo(1), bar(1)]
}

/// 2 shuts down, 3 is dead.
fn shrink(context: &mut ControllerContext) {
    context.begin_shutting_down(BrokerId(2));
    context.remove_live_broker(BrokerId(3));
}

fn built(
    context: &ControllerContext,
    add: impl FnOnce(&mut ControllerBrokerRequestBatch),
) -> ControlRequests {
    let mut batch = ControllerBrokerRequestBatch::new();
    add(&mut batch);
    batch.into_requests(context).unwrap()
}

fn live_brokers(requests: &ControlRequests) -> Vec<BrokerId> {
    requests
        .live_brokers
        .iter()
        .map(|broker| broker.id)
        .collect()
}

#[test]
fn leader_and_isr_brings_an_update_metadata_to_everybody() {
    let context = cluster();
    let requests = built(&context, |batch| {
        for at in led() {
            batch.add_leader_and_isr(&context, &brokers([2]), &at, false);
        }
    });
    assert_eq!(requests.controller_epoch, OUR_EPOCH);
    assert_eq!(leader_and_isr_to(&requests), brokers([2]));
    assert_eq!(update_metadata_to(&requests), brokers([1, 2, 3]));
    assert_eq!(requests.stop_replica.len(), 0);
    for (at, leader, isr) in [
        (foo(0), 1, [1, 2]),
        (foo(1), 2, [2, 3]),
        (bar(1), 3, [1, 3]),
    ] {
        let entry = told(&requests, 2, &at).unwrap();
        assert_eq!(entry.state, state(leader, isr, 0).into());
        assert_eq!(entry.assignment.replicas, ids([1, 2, 3]));
        assert!(announced(&requests, &at).is_some());
    }
}

#[test]
fn partitions_come_grouped_by_topic_in_order_with_the_topics_id() {
    let context = cluster();
    let requests = built(&context, |batch| {
        for at in [foo(1), bar(1), foo(0), bar(1)] {
            batch.add_leader_and_isr(&context, &brokers([2]), &at, false);
        }
    });
    let shape: Vec<(&str, Option<TopicId>, Vec<i32>)> = requests.leader_and_isr[&BrokerId(2)]
        .iter()
        .map(|topic| {
            let indexes = topic.partitions.iter().map(|entry| entry.partition);
            (topic.topic.as_str(), topic.topic_id, indexes.collect())
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("bar", Some(topic_id(&TopicName::new("bar"))), vec![1]),
            ("foo", Some(topic_id(&TopicName::new("foo"))), vec![0, 1]),
        ]
    );
}

#[test]
fn a_replica_that_was_new_once_in_a_batch_stays_new() {
    let context = cluster();
    let requests = built(&context, |batch| {
        for is_new in [true, false] {
            batch.add_leader_and_isr(&context, &brokers([2]), &foo(0), is_new);
        }
    });
    let topics = &requests.leader_and_isr[&BrokerId(2)];
    assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1));
    assert!(topics[0].partitions[0].is_new);
}

#[test]
fn the_last_state_added_for_a_broker_wins_and_others_keep_what_they_were_told() {
    let mut context = cluster();
    let mut batch = ControllerBrokerRequestBatch::new();
    batch.add_leader_and_isr(&context, &brokers([1, 2]), &foo(0), false);
    context.put_leadership(&foo(0), state(2, [2], 1).into());
    batch.add_leader_and_isr(&context, &brokers([2]), &foo(0), false);
    context.put_leadership(&foo(0), state(3, [3], 2).into());
    let requests = batch.into_requests(&context).unwrap();
    let leader = |broker| told(&requests, broker, &foo(0)).unwrap().state.leader;
    assert_eq!((leader(1), leader(2)), (BrokerId(1), BrokerId(2)));
    let announced = &announced(&requests, &foo(0)).unwrap().leadership;
    assert_eq!(
        *announced,
        AnnouncedLeadership::Committed(state(2, [2], 1).into()),
        "as it was when it was added"
    );
}

#[test]
fn requests_go_to_brokers_that_are_registered_shutting_down_or_not() {
    let mut context = cluster();
    shrink(&mut context);
    let requests = built(&context, |batch| {
        batch.add_leader_and_isr(&context, &brokers([1, 2, 3]), &foo(0), false);
        for broker in [2, 3] {
            batch.add_stop_replica(&context, &replica(&bar(1), broker), ReplicaDisposal::Keep);
        }
    });
    assert_eq!(leader_and_isr_to(&requests), brokers([1, 2]));
    assert_eq!(update_metadata_to(&requests), brokers([1, 2]));
    assert_eq!(stop_replica_to(&requests), brokers([2]));
    assert_eq!(live_brokers(&requests), brokers([1, 2]));
    let offline = &announced(&requests, &foo(0)).unwrap().offline_replicas;
    assert_eq!(
        *offline,
        ids([2, 3]),
        "those shutting down count as offline"
    );
}

#[test]
fn a_klamm_is_announced_but_never_addressed() {
    let mut context = cluster();
    context.set_klamm_ids(klamm_ids([2, 9]));
    context.set_own_broker(broker(9));
    let requests = built(&context, |batch| {
        batch.add_leader_and_isr(&context, &brokers([1, 2]), &foo(0), false);
        batch.add_update_metadata(&context, &brokers([2, 9]), &[]);
        batch.add_stop_replica(&context, &replica(&foo(0), 2), ReplicaDisposal::Keep);
    });
    assert_eq!(leader_and_isr_to(&requests), brokers([1]));
    assert_eq!(update_metadata_to(&requests), brokers([1, 3]));
    assert_eq!(stop_replica_to(&requests), []);
    assert_eq!(live_brokers(&requests), brokers([1, 3, 9]));
}

#[test]
fn a_broker_that_does_not_host_a_partition_is_not_told_to_lead_or_follow_it() {
    let mut context = cluster();
    assign(&mut context, &foo(0), [1, 2]);
    let requests = built(&context, |batch| {
        batch.add_leader_and_isr(&context, &brokers([1, 3]), &foo(0), false);
    });
    assert_eq!(leader_and_isr_to(&requests), brokers([1]));
    assert_eq!(update_metadata_to(&requests), brokers([1, 2, 3]));
}

#[test]
fn update_metadata_goes_to_those_asked_for_and_tells_of_the_partitions_asked_for() {
    let context = cluster();
    let requests = built(&context, |batch| {
        batch.add_update_metadata(&context, &brokers([2]), &led());
    });
    assert_eq!(update_metadata_to(&requests), brokers([2]));
    assert_eq!(leader_and_isr_to(&requests), []);
    assert_eq!(live_brokers(&requests), brokers([1, 2, 3]));
    let topics = &requests.update_metadata.as_ref().unwrap().topics;
    let counts: Vec<usize> = topics.iter().map(|topic| topic.partitions.len()).collect();
    assert_eq!(counts, [1, 2], "bar, foo");
    assert!(topics.iter().all(|topic| topic.topic_id.is_some()));
    let entry = announced(&requests, &foo(1)).unwrap();
    let committed = AnnouncedLeadership::Committed(state(2, [2, 3], 0).into());
    assert_eq!(
        (&entry.leadership, &entry.replicas),
        (&committed, &ids([1, 2, 3]))
    );
}

#[test]
fn recipients_and_partitions_of_one_batch_are_joined() {
    let context = cluster();
    let requests = built(&context, |batch| {
        batch.add_update_metadata(&context, &brokers([1]), &[foo(0)]);
        batch.add_update_metadata(&context, &brokers([3]), &[bar(1)]);
    });
    assert_eq!(update_metadata_to(&requests), brokers([1, 3]));
    assert!(announced(&requests, &foo(0)).is_some() && announced(&requests, &bar(1)).is_some());
}

#[test]
fn partitions_without_a_leadership_are_left_out_but_the_update_still_says_who_is_alive() {
    let context = cluster();
    let requests = built(&context, |batch| {
        batch.add_update_metadata(&context, &brokers([1, 2]), &[bar(0)]);
        batch.add_leader_and_isr(&context, &brokers([1, 2]), &bar(0), true);
    });
    assert_eq!(leader_and_isr_to(&requests), []);
    assert_eq!(requests.update_metadata.as_ref().unwrap().topics.len(), 0);
    assert_eq!(live_brokers(&requests), brokers([1, 2, 3]));
}

#[test]
fn an_update_without_partitions_reaches_those_shutting_down_and_names_them() {
    let mut context = cluster();
    shrink(&mut context);
    let requests = built(&context, |batch| {
        batch.add_update_metadata(&context, &brokers([1, 2, 3]), &[]);
    });
    assert_eq!(update_metadata_to(&requests), brokers([1, 2]));
    assert_eq!(requests.update_metadata.as_ref().unwrap().topics.len(), 0);
    assert_eq!(live_brokers(&requests), brokers([1, 2]));
}

#[test]
fn partitions_of_topics_queued_for_deletion_are_announced_as_going() {
    let mut context = cluster();
    context.queue_for_deletion(&TopicName::new("foo"));
    let requests = built(&context, |batch| {
        batch.add_update_metadata(&context, &brokers([2]), &led());
    });
    let leadership = |at| &announced(&requests, &at).unwrap().leadership;
    let going = AnnouncedLeadership::DuringDelete(state(1, [1, 2], 0).into());
    assert_eq!(*leadership(foo(0)), going);
    let staying = AnnouncedLeadership::Committed(state(3, [1, 3], 0).into());
    assert_eq!(*leadership(bar(1)), staying);
}

#[test]
fn stop_replica_goes_to_its_broker_alone_and_brings_no_update_metadata() {
    let context = cluster();
    let requests = built(&context, |batch| {
        for (at, broker) in led().iter().flat_map(|at| [(at, 2), (at, 3)]) {
            batch.add_stop_replica(&context, &replica(at, broker), ReplicaDisposal::Keep);
        }
    });
    assert_eq!(stop_replica_to(&requests), brokers([2, 3]));
    assert_eq!(requests.update_metadata, None);
    for (at, broker) in led().iter().flat_map(|at| [(at, 2), (at, 3)]) {
        let entry = stopped(&requests, broker, at).unwrap();
        assert_eq!(entry.leader_epoch, LeaderEpoch(0));
        assert_eq!(entry.disposal, ReplicaDisposal::Keep);
    }
}

#[test]
fn a_deletion_sticks_and_the_epoch_is_that_of_the_last_word() {
    let mut context = cluster();
    let mut batch = ControllerBrokerRequestBatch::new();
    batch.add_stop_replica(&context, &replica(&foo(0), 2), ReplicaDisposal::Delete);
    context.put_leadership(&foo(0), state(1, [1], 1).into());
    batch.add_stop_replica(&context, &replica(&foo(0), 2), ReplicaDisposal::Keep);
    let requests = batch.into_requests(&context).unwrap();
    let entry = stopped(&requests, 2, &foo(0)).unwrap();
    assert_eq!(entry.disposal, ReplicaDisposal::Delete);
    assert_eq!(entry.leader_epoch, LeaderEpoch(1));
}

#[test]
fn replicas_of_topics_queued_for_deletion_are_stopped_whatever_their_epoch() {
    let mut context = cluster();
    let topic = TopicName::new("foo");
    for begun in [false, true] {
        context.queue_for_deletion(&topic);
        if begun {
            context.begin_deletion(&topic);
        }
        for disposal in [ReplicaDisposal::Delete, ReplicaDisposal::Keep] {
            let requests = built(&context, |batch| {
                for at in led() {
                    batch.add_stop_replica(&context, &replica(&at, 2), disposal);
                }
            });
            let epoch = |at| stopped(&requests, 2, &at).unwrap().leader_epoch;
            assert_eq!(epoch(foo(0)), LeaderEpoch::DURING_DELETE);
            assert_eq!(epoch(foo(1)), LeaderEpoch::DURING_DELETE);
            assert_eq!(epoch(bar(1)), LeaderEpoch(0));
        }
    }
}

#[test]
fn one_batch_holds_replicas_to_delete_and_replicas_to_keep() {
    let context = cluster();
    let cases = [
        (foo(0), ReplicaDisposal::Delete),
        (foo(1), ReplicaDisposal::Delete),
        (bar(0), ReplicaDisposal::Keep),
        (bar(1), ReplicaDisposal::Keep),
    ];
    let requests = built(&context, |batch| {
        for (at, disposal) in &cases {
            batch.add_stop_replica(&context, &replica(at, 2), *disposal);
        }
    });
    for (at, disposal) in &cases {
        assert_eq!(stopped(&requests, 2, at).unwrap().disposal, *disposal);
    }
    let unknown = stopped(&requests, 2, &bar(0)).unwrap();
    assert_eq!(
        unknown.leader_epoch,
        LeaderEpoch::NONE,
        "no leadership is known"
    );
}

#[test]
fn a_batch_with_nobody_to_tell_is_no_requests() {
    let mut context = cluster();
    let empty = ControllerBrokerRequestBatch::new();
    assert_eq!(empty.into_requests(&context), None);

    let mut gone = ControllerBrokerRequestBatch::new();
    context.remove_live_broker(BrokerId(3));
    gone.add_update_metadata(&context, &brokers([3, -1]), &led());
    gone.add_stop_replica(&context, &replica(&foo(0), 3), ReplicaDisposal::Keep);
    assert_eq!(gone.into_requests(&context), None);
}

#[test]
fn without_a_term_nothing_is_sent() {
    let mut context = cluster();
    let mut batch = ControllerBrokerRequestBatch::new();
    batch.add_update_metadata(&context, &brokers([1]), &led());
    context.reset();
    context.add_live_broker(registration(1));
    assert_eq!(batch.into_requests(&context), None);
}

#[test]
fn what_is_announced_keeps_the_epoch_of_the_controller_that_decided_it() {
    let mut context = cluster();
    let mut older = state(1, [1, 2], 0);
    older.controller_epoch = ControllerEpoch(49);
    context.put_leadership(&foo(0), older.into());
    let requests = built(&context, |batch| {
        batch.add_leader_and_isr(&context, &brokers([2]), &foo(0), false);
    });
    assert_eq!(requests.controller_epoch, OUR_EPOCH);
    let entry = told(&requests, 2, &foo(0)).unwrap();
    assert_eq!(entry.state.controller_epoch(), ControllerEpoch(49));
}

#[test]
fn who_is_told_to_keep_and_to_delete_a_log_is_told_to_delete_it_whatever_came_first() {
    use ReplicaDisposal::{Delete, Keep};
    let context = cluster();
    for (told, disposal) in [
        (vec![Keep, Keep], Keep),
        (vec![Keep, Delete], Delete),
        (vec![Delete, Keep], Delete),
    ] {
        let requests = built(&context, |batch| {
            for disposal in &told {
                batch.add_stop_replica(&context, &replica(&foo(0), 2), *disposal);
            }
        });
        let entry = stopped(&requests, 2, &foo(0)).unwrap();
        assert_eq!(entry.disposal, disposal, "{told:?}");
    }
}

#[test]
fn of_an_unknown_partition_nobody_is_told() {
    let context = cluster();
    let mut batch = ControllerBrokerRequestBatch::new();
    let everybody = brokers([1, 2, 3]);
    batch.add_leader_and_isr(&context, &everybody, &partition("unknown", 0), false);
    assert_eq!(batch.into_requests(&context), None);
}
