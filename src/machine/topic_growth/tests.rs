//! Facts of upstream's `AddPartitionsTest`.

use super::*;
use crate::machine::fixture::{assign, context, ids, klamm_ids, partition};
use crate::model::TopicId;
use std::collections::BTreeMap;

fn node(partitions: &[(i32, &[i32])]) -> TopicZnode {
    let settled = |(index, replicas): &(i32, &[i32])| {
        let assignment = ReplicaAssignment::settled(BrokerIds::from(*replicas));
        (*index, assignment)
    };
    TopicZnode {
        topic_id: TopicId::new([7; 16]),
        partitions: partitions.iter().map(settled).collect(),
        version: 3,
    }
}

fn to(count: i32) -> MorePartitions {
    MorePartitions {
        topic: TopicName::new("t"),
        count,
        assignments: None,
    }
}

fn chosen_to(count: i32, lists: &[&[i32]]) -> MorePartitions {
    let list = |list: &&[i32]| list.iter().copied().map(BrokerId).collect();
    MorePartitions {
        assignments: Some(lists.iter().map(list).collect()),
        ..to(count)
    }
}

fn four_brokers() -> ControllerContext {
    let mut context = context([0, 1, 2, 3]);
    context.set_klamm_ids(klamm_ids([9]));
    context
}

fn lists(znode: &TopicZnode) -> Vec<Vec<i32>> {
    let all = znode.partitions.values();
    all.map(|assignment| assignment.replicas.as_i32s().to_vec())
        .collect()
}

#[test]
fn new_partitions_go_on_from_the_first_ones_preferred_replica() {
    let context = four_brokers();
    let current = node(&[(0, &[2, 3, 0, 1])]);
    let grown = plan(&context, &to(7), &current).unwrap();
    let leaders: Vec<i32> = lists(&grown).iter().map(|replicas| replicas[0]).collect();
    assert_eq!(leaders, [2, 3, 0, 1, 2, 3, 0]);
    assert!(lists(&grown).iter().all(|replicas| replicas.len() == 4));
    assert_eq!((grown.version, grown.topic_id), (3, current.topic_id));
}

#[test]
fn partitions_that_are_there_stay_as_they_are_and_new_ones_have_as_many_replicas() {
    let context = four_brokers();
    let current = node(&[(0, &[3, 1]), (1, &[2, 0])]);
    let grown = plan(&context, &to(4), &current).unwrap();
    assert_eq!(lists(&grown)[..2], lists(&current));
    assert!(lists(&grown).iter().all(|replicas| replicas.len() == 2));
    // Once more, it is the same: nothing is left to chance.
    assert_eq!(plan(&context, &to(4), &current).unwrap(), grown);
}

#[test]
fn the_clients_own_assignment_is_taken_as_it_is() {
    let context = four_brokers();
    let current = node(&[(0, &[1, 2])]);
    let grown = plan(&context, &chosen_to(3, &[&[0, 1], &[2, 3]]), &current).unwrap();
    assert_eq!(lists(&grown), [[1, 2], [0, 1], [2, 3]]);
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let context = four_brokers();
    let current = node(&[(0, &[0, 1]), (1, &[1, 2])]);
    let assignment = KafkaError::INVALID_REPLICA_ASSIGNMENT;
    let rows = [
        (to(2), KafkaError::INVALID_PARTITIONS, "has 2 partitions"),
        (to(1), KafkaError::INVALID_PARTITIONS, "1 are not more"),
        (to(0), KafkaError::INVALID_PARTITIONS, "0 are not more"),
        (to(-1), KafkaError::INVALID_PARTITIONS, "-1 are not more"),
        (to(i32::MAX), KafkaError::INVALID_PARTITIONS, "one node"),
        (
            chosen_to(4, &[&[0, 1]]),
            assignment,
            "2 partitions are to be added",
        ),
        (
            chosen_to(3, &[]),
            assignment,
            "1 partitions are to be added",
        ),
        (chosen_to(3, &[&[0, 1, 2]]), assignment, "others have 2"),
        (chosen_to(3, &[&[]]), assignment, "no replica"),
        (chosen_to(3, &[&[1, 1]]), assignment, "twice"),
        (chosen_to(3, &[&[1, 9]]), assignment, "hosts no replicas"),
        (chosen_to(3, &[&[1, 8]]), assignment, "no broker 8"),
    ];
    for (asked, error, words) in rows {
        let refused = plan(&context, &asked, &current).unwrap_err();
        assert_eq!(refused.error, error, "{asked:?}: {refused}");
        assert!(refused.message.contains(words), "{asked:?}: {refused}");
    }
}

#[test]
fn a_topic_with_more_replicas_than_brokers_are_left_does_not_grow() {
    let refused = plan(&context([1, 2]), &to(2), &node(&[(0, &[1, 2, 3])])).unwrap_err();
    assert_eq!(refused.error, KafkaError::INVALID_REPLICATION_FACTOR);
}

#[test]
fn a_topic_that_moves_does_not_grow() {
    let mut current = node(&[(0, &[0, 1]), (1, &[1, 2])]);
    let moving = ReplicaAssignment::settled(ids([1, 2])).reassign_to(&ids([2, 3]));
    current.partitions.insert(1, moving);
    let refused = plan(&four_brokers(), &to(3), &current).unwrap_err();
    assert_eq!(refused.error, KafkaError::REASSIGNMENT_IN_PROGRESS);
}

#[test]
fn an_odd_node_is_not_made_odder() {
    for (partitions, what) in [
        (BTreeMap::new(), "no partition 0"),
        (node(&[(1, &[1]), (2, &[1])]).partitions, "no partition 0"),
        (node(&[(0, &[1]), (2, &[1])]).partitions, "gaps"),
    ] {
        let current = TopicZnode {
            partitions,
            ..node(&[])
        };
        let refused = plan(&four_brokers(), &to(5), &current).unwrap_err();
        assert_eq!(refused.error, KafkaError::UNKNOWN_SERVER_ERROR);
        assert!(refused.message.contains(what), "{refused}");
    }
}

#[test]
fn a_topic_that_is_deleted_or_cannot_be_is_not_even_read() {
    let mut context = four_brokers();
    assign(&mut context, &partition("t", 0), [1]);
    assert_eq!(admit(&context, &TopicName::new("t")), Ok(()));
    context.queue_for_deletion(&TopicName::new("t"));
    let code = |name: &str| admit(&context, &TopicName::new(name)).unwrap_err().error;
    assert_eq!(code("t"), KafkaError::INVALID_TOPIC_EXCEPTION);
    assert_eq!(code("a/b"), KafkaError::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(code(""), KafkaError::UNKNOWN_TOPIC_OR_PARTITION);
}
