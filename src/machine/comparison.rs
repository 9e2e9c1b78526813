//! Whether what the controller knows is what ZooKeeper holds: a fresh read of everything, compared; nothing is changed.
//!
//! For whoever doubts the controller, or wonders why a partition is stuck. While leaders write in-sync sets themselves
//! (below IBP 2.7) or tools write topics, what they wrote a moment ago may differ for a moment.
//! Upstream has no counterpart.

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::{Committed, Read, TopicZnode};
use crate::model::{BrokerRegistration, LeaderAndIsr, TopicName, TopicPartition};
use crate::state::{ControllerContext, violations};

/// What ZooKeeper holds.
#[derive(Debug, Default)]
pub struct Fresh {
    /// The genuine brokers.
    pub brokers: Vec<BrokerRegistration>,
    /// Every topic.
    pub topics: Vec<(TopicName, Read<TopicZnode>)>,
    /// The states of all partitions of those topics.
    pub states: BTreeMap<TopicPartition, Read<Committed<LeaderAndIsr>>>,
    /// The topics that are to be deleted.
    pub deletions: Vec<TopicName>,
}

/// The partitions whose states are to be read for the comparison.
pub fn partitions(topics: &[(TopicName, Read<TopicZnode>)]) -> Vec<TopicPartition> {
    let found = topics.iter().filter_map(|(name, read)| match read {
        Read::Found(znode) => Some((name, znode)),
        Read::Missing | Read::Broken(_) => None,
    });
    let of_topic = |(name, znode): (&TopicName, &TopicZnode)| {
        let indexes = znode.partitions.keys();
        indexes
            .map(|index| TopicPartition::new(name, *index))
            .collect::<Vec<_>>()
    };
    found.flat_map(of_topic).collect()
}

/// Every difference, in words, and every invariant of the context that does not hold; empty is good.
pub fn differences(context: &ControllerContext, fresh: &Fresh) -> Vec<String> {
    let mut found = violations(context);
    compare_brokers(context, fresh, &mut found);
    compare_topics(context, fresh, &mut found);
    compare_states(context, fresh, &mut found);
    compare_deletions(context, fresh, &mut found);
    found
}

fn compare_brokers(context: &ControllerContext, fresh: &Fresh, found: &mut Vec<String>) {
    for registration in &fresh.brokers {
        let id = registration.broker.id;
        match context.registration(id) {
            None => found.push(format!("/brokers/ids/{id}: the broker is not taken in")),
            Some(known) if known != registration => found.push(format!(
                "/brokers/ids/{id}: known as {known:?}, registered as {registration:?}"
            )),
            Some(_) => {}
        }
    }
    let registered: BTreeSet<_> = fresh.brokers.iter().map(|found| found.broker.id).collect();
    for known in context.live_or_shutting_down_brokers() {
        let id = known.broker.id;
        if !registered.contains(&id) {
            found.push(format!("/brokers/ids/{id}: gone, and still taken for live"));
        }
    }
}

fn compare_topics(context: &ControllerContext, fresh: &Fresh, found: &mut Vec<String>) {
    for (name, read) in &fresh.topics {
        let znode = match read {
            Read::Found(znode) => znode,
            Read::Missing => continue,
            Read::Broken(why) => {
                found.push(why.clone());
                continue;
            }
        };
        let Some(known) = context.topic(name) else {
            found.push(format!("/brokers/topics/{name}: the topic is not taken in"));
            continue;
        };
        if known.id != znode.topic_id {
            found.push(format!(
                "/brokers/topics/{name}: known by the id {:?}, which is {:?}",
                known.id, znode.topic_id
            ));
        }
        for (index, assignment) in &znode.partitions {
            match known.partitions.get(index) {
                None => found.push(format!(
                    "/brokers/topics/{name}: partition {index} is not taken in"
                )),
                Some(partition) if partition.assignment != *assignment => found.push(format!(
                    "/brokers/topics/{name}: partition {index} is known as {:?}, assigned as {assignment:?}",
                    partition.assignment
                )),
                Some(_) => {}
            }
        }
        for index in known.partitions.keys() {
            if !znode.partitions.contains_key(index) {
                found.push(format!(
                    "/brokers/topics/{name}: partition {index} is known and not assigned"
                ));
            }
        }
    }
    let there: BTreeSet<&TopicName> = fresh
        .topics
        .iter()
        .filter(|(_, read)| !matches!(read, Read::Missing))
        .map(|(name, _)| name)
        .collect();
    for name in context.topics().keys() {
        if !there.contains(name) {
            found.push(format!("/brokers/topics/{name}: gone, and still known"));
        }
    }
}

fn compare_states(context: &ControllerContext, fresh: &Fresh, found: &mut Vec<String>) {
    for (partition, read) in &fresh.states {
        let known = context.leadership(partition);
        let TopicPartition {
            topic,
            partition: index,
        } = partition;
        let path = format!("/brokers/topics/{topic}/partitions/{index}/state");
        match (known, read) {
            (_, Read::Broken(why)) => found.push(why.clone()),
            (Some(known), Read::Found(state)) if known != state => {
                found.push(format!("{path}: known as {known:?}, which is {state:?}"))
            }
            (Some(known), Read::Missing) => {
                found.push(format!("{path}: gone, and known as {known:?}"));
            }
            (None, Read::Found(state)) => found.push(format!("{path}: not known, holds {state:?}")),
            (Some(_), Read::Found(_)) | (None, Read::Missing) => {}
        }
    }
}

fn compare_deletions(context: &ControllerContext, fresh: &Fresh, found: &mut Vec<String>) {
    for topic in &fresh.deletions {
        if !context.is_queued_for_deletion(topic) {
            found.push(format!("/admin/delete_topics/{topic}: not heard"));
        }
    }
    for topic in context.topics_to_be_deleted() {
        if !fresh.deletions.contains(topic) {
            found.push(format!(
                "/admin/delete_topics/{topic}: gone, and the topic is still to be deleted"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::StateRead;
    use crate::machine::fixture::{self, OUR_EPOCH, ids, t0};
    use crate::model::{
        BrokerId, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    };

    fn state(leader_epoch: i32, version: i32) -> Committed<LeaderAndIsr> {
        StateRead {
            leader_and_isr: LeaderAndIsr {
                leader: BrokerId(5),
                leader_epoch: LeaderEpoch(leader_epoch),
                isr: ids([5, 6]),
                leader_recovery_state: LeaderRecoveryState::Recovered,
            },
            controller_epoch: OUR_EPOCH,
            partition_epoch: PartitionEpoch(version),
        }
        .into()
    }

    /// What a context knows after a failover, and ZooKeeper as it was read in it.
    fn in_step() -> (ControllerContext, Fresh) {
        let mut context = fixture::context([5, 6]);
        context.put_topic(&t0().topic, None, 3);
        context.put_assignment(&t0(), ReplicaAssignment::settled(ids([5, 6])));
        context.put_leadership(&t0(), state(1, 2));
        crate::machine::replica::startup(&mut context);
        crate::machine::partition::startup(&mut context);
        let znode = TopicZnode {
            topic_id: None,
            partitions: [(0, ReplicaAssignment::settled(ids([5, 6])))].into(),
            version: 3,
        };
        let fresh = Fresh {
            brokers: context.live_or_shutting_down_brokers().cloned().collect(),
            topics: vec![(t0().topic, Read::Found(znode))],
            states: [(t0(), Read::Found(state(1, 2)))].into(),
            deletions: Vec::new(),
        };
        (context, fresh)
    }

    #[test]
    fn what_was_just_read_does_not_differ() {
        let (context, fresh) = in_step();
        assert_eq!(differences(&context, &fresh), [""; 0]);
        assert_eq!(partitions(&fresh.topics), [t0()]);
        let unread = [Read::Missing, Read::Broken("no JSON".to_owned())];
        let unread = unread.map(|read| (t0().topic, read));
        assert_eq!(partitions(&unread), [], "nobody knows their partitions");
    }

    #[test]
    fn every_kind_of_difference_is_told_with_its_node() {
        type Change = fn(&mut Fresh);
        let changes: [(Change, &str); 16] = [
            (|fresh| drop(fresh.brokers.pop()), "/brokers/ids/6: gone"),
            (
                |fresh| fresh.brokers[0].broker.id = BrokerId(8),
                "/brokers/ids/8: the broker is not taken in",
            ),
            (
                |fresh| fresh.brokers[0].epoch.0 += 1,
                "/brokers/ids/5: known as",
            ),
            (|fresh| fresh.topics.clear(), "/brokers/topics/t: gone"),
            (
                |fresh| fresh.topics[0].0 = TopicName::new("u"),
                "/brokers/topics/u: the topic is not taken in",
            ),
            (
                |fresh| fresh.topics[0].1 = Read::Broken("/brokers/topics/t: broken".into()),
                "/brokers/topics/t: broken",
            ),
            (
                |fresh| {
                    if let Read::Found(znode) = &mut fresh.topics[0].1 {
                        znode
                            .partitions
                            .insert(1, ReplicaAssignment::settled(ids([6])));
                    }
                },
                "/brokers/topics/t: partition 1 is not taken in",
            ),
            (
                |fresh| {
                    if let Read::Found(znode) = &mut fresh.topics[0].1 {
                        znode
                            .partitions
                            .insert(0, ReplicaAssignment::settled(ids([6])));
                    }
                },
                "/brokers/topics/t: partition 0 is known as",
            ),
            (
                |fresh| {
                    if let Read::Found(znode) = &mut fresh.topics[0].1 {
                        znode.partitions.clear();
                    }
                },
                "/brokers/topics/t: partition 0 is known and not assigned",
            ),
            (
                |fresh| drop(fresh.states.insert(t0(), Read::Found(state(1, 3)))),
                "/brokers/topics/t/partitions/0/state: known as",
            ),
            (
                |fresh| drop(fresh.states.insert(t0(), Read::Missing)),
                "/brokers/topics/t/partitions/0/state: gone",
            ),
            (
                |fresh| fresh.topics[0].1 = Read::Missing,
                "/brokers/topics/t: gone",
            ),
            (
                |fresh| {
                    if let Read::Found(znode) = &mut fresh.topics[0].1 {
                        znode.topic_id = Some(fixture::topic_id(&t0().topic));
                    }
                },
                "/brokers/topics/t: known by the id None",
            ),
            (
                |fresh| {
                    let broken = "/brokers/topics/t/partitions/0/state: broken".to_owned();
                    fresh.states.insert(t0(), Read::Broken(broken));
                },
                "/brokers/topics/t/partitions/0/state: broken",
            ),
            (
                |fresh| {
                    let unknown = fixture::partition("t", 1);
                    fresh.states.insert(unknown, Read::Found(state(1, 2)));
                },
                "/brokers/topics/t/partitions/1/state: not known",
            ),
            (
                |fresh| fresh.deletions.push(t0().topic),
                "/admin/delete_topics/t: not heard",
            ),
        ];
        for (change, expected) in changes {
            let (context, mut fresh) = in_step();
            change(&mut fresh);
            let found = differences(&context, &fresh);
            assert!(
                found.iter().any(|line| line.starts_with(expected)),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn a_deletion_whose_request_is_gone_is_told() {
        let (mut context, fresh) = in_step();
        context.queue_for_deletion(&t0().topic);
        let found = differences(&context, &fresh);
        assert_eq!(
            found,
            ["/admin/delete_topics/t: gone, and the topic is still to be deleted"]
        );
    }
}
