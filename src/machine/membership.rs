//! What changed among brokers, topics and partitions between the context and ZooKeeper.
//!
//! Only compares: it changes nothing, and one node that can't be understood never hides or kills another.
//! Upstream: the set arithmetic in `KafkaController.processBrokerChange`, `processBrokerModification`,
//! `processTopicChange` and `processPartitionModifications`.

use std::collections::BTreeSet;

use crate::effect::{Read, TopicZnode};
use crate::model::{
    BrokerId, BrokerIds, BrokerRegistration, ReplicaAssignment, TopicName, TopicPartition,
};
use crate::planted::planted;
use crate::state::ControllerContext;

/// How `/brokers/ids` differs from the context. Every list is in the order of the ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerDiff {
    /// Registered, not known.
    pub new: Vec<BrokerRegistration>,
    /// Known, no longer registered.
    pub dead: Vec<BrokerId>,
    /// Known, registered anew since: it failed and started, whatever it looks like now.
    pub bounced: Vec<BrokerRegistration>,
    /// Known, the same registration, rewritten in place.
    pub changed: Vec<BrokerRegistration>,
    /// Registered by a node that can't be understood, and what is wrong with it. A known broker stays as it is known,
    /// an unknown one stays unknown.
    pub broken: Vec<(BrokerId, String)>,
}

impl BrokerDiff {
    /// Whether nothing is to be done about brokers; broken registrations may still want a line in the log.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty()
            && self.dead.is_empty()
            && self.bounced.is_empty()
            && self.changed.is_empty()
    }
}

/// Compares the registrations with the brokers of the context. klamms are no brokers here, whatever they register.
///
/// A broker has bounced when its registration has *another* czxid. Java asks for a larger one; after a restore of
/// ZooKeeper from a copy it is smaller, and the incarnation is another all the same. Brokers before 2.2 don't know their
/// epoch, but their registrations have one, so their bounces are seen too (KAFKA-7235 does so from 2.2 on only).
///
/// A rewritten rack is a change as well: Java doesn't compare it and announces the old one until the broker restarts.
pub fn diff_brokers(
    context: &ControllerContext,
    listed: Vec<(BrokerId, Read<BrokerRegistration>)>,
) -> BrokerDiff {
    let mut diff = BrokerDiff::default();
    let mut registered = BTreeSet::new();
    for (id, read) in listed {
        // `Missing`: it went between the listing and the read.
        if is_klamm(context, id) || read == Read::Missing || !registered.insert(id) {
            continue;
        }
        match (read, context.registration(id)) {
            (Read::Missing, _) => {}
            (Read::Broken(why), _) => diff.broken.push((id, why)),
            (Read::Found(found), None) => diff.new.push(found),
            (Read::Found(found), Some(known))
                if found.epoch != known.epoch && !planted!(SkipBounce) =>
            {
                diff.bounced.push(found);
            }
            (Read::Found(found), Some(known)) if found.broker != known.broker => {
                diff.changed.push(found);
            }
            (Read::Found(_), Some(_)) => {}
        }
    }
    diff.dead = context
        .live_or_shutting_down_brokers()
        .map(|known| known.broker.id)
        .filter(|id| !registered.contains(id) && !planted!(TakeDeadForLive))
        .collect();
    diff.dead.sort_unstable();
    for list in [&mut diff.new, &mut diff.bounced, &mut diff.changed] {
        list.sort_by_key(|registration| registration.broker.id);
    }
    diff.broken.sort();
    diff
}

/// Whether `id` is a klamm's, ours included.
fn is_klamm(context: &ControllerContext, id: BrokerId) -> bool {
    context.klamm_ids().contains(&id) || context.own_broker().is_some_and(|own| own.id == id)
}

/// How `/brokers/topics` differs from the context. Both lists are in the order of the names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicDiff {
    /// There, not known.
    pub new: Vec<TopicName>,
    /// Known, no longer there.
    pub gone: Vec<TopicName>,
}

/// Compares the listed names with the topics of the context. Illegal names are left out: they cost only themselves.
pub fn diff_topics(context: &ControllerContext, listed: &[TopicName]) -> TopicDiff {
    let listed: BTreeSet<&TopicName> = listed.iter().filter(|name| name.is_legal()).collect();
    TopicDiff {
        new: listed
            .iter()
            .filter(|name| context.topic(name).is_none())
            .map(|name| (*name).clone())
            .collect(),
        gone: context
            .topics()
            .keys()
            .filter(|name| !listed.contains(name))
            .cloned()
            .collect(),
    }
}

/// The listed names that no broker accepts, in order: for the log.
pub fn illegal(listed: &[TopicName]) -> Vec<TopicName> {
    let illegal: BTreeSet<&TopicName> = listed.iter().filter(|name| !name.is_legal()).collect();
    illegal.into_iter().cloned().collect()
}

/// What to say of them.
pub fn illegal_names(listed: &[TopicName]) -> Vec<String> {
    let illegal = illegal(listed).into_iter();
    illegal
        .map(|name| {
            format!("/brokers/topics/{name}: no legal topic name; ignored. Remove the node if nothing needs it")
        })
        .collect()
}

/// The partitions of a topic node that the context doesn't hold yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewPartitions {
    /// To be created, in order.
    pub accepted: Vec<(TopicPartition, ReplicaAssignment)>,
    /// Not to be created, and why, in order.
    pub refused: Vec<(TopicPartition, AssignmentRefusal)>,
}

impl NewPartitions {
    /// What to say of those that can't be created.
    pub fn complaints(&self, topic: &TopicName) -> Vec<String> {
        let refused = self.refused.iter();
        refused
            .map(|(partition, why)| {
                format!("/brokers/topics/{topic}: partition {partition} is ignored: {why}")
            })
            .collect()
    }
}

/// Why a partition of a topic node can't be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentRefusal {
    /// Partition numbers start at 0.
    #[error("its number is negative; take it out of the topic's node")]
    NegativePartition,
    /// Nobody is to host it.
    #[error("its replica list is empty; name at least one broker")]
    NoReplicas,
    /// A broker hosts a partition once.
    #[error("broker {0} stands twice in its replica list; name each broker once")]
    RepeatedBroker(BrokerId),
    /// Broker ids start at 0.
    #[error("{0} in its replica list is no broker id; ids are 0 or more")]
    NegativeBroker(BrokerId),
}

/// What is new in a topic's node. A partition is new while the context knows no replicas of it; what the node says of the
/// others is ignored: a known assignment changes by reassignment only.
///
/// Java takes over whatever the node says; an empty list there breaks the request batch, and a repeated broker is
/// counted as two replicas.
pub fn new_partitions(
    context: &ControllerContext,
    topic: &TopicName,
    znode: &TopicZnode,
) -> NewPartitions {
    let mut found = NewPartitions::default();
    for (number, assignment) in &znode.partitions {
        let partition = TopicPartition::new(topic, *number);
        if !context.replicas(&partition).is_empty() {
            continue;
        }
        match fault_of(*number, &assignment.replicas) {
            None => found.accepted.push((partition, assignment.made_sound())),
            Some(fault) => found.refused.push((partition, fault)),
        }
    }
    found
}

/// What is wrong with a new partition, if anything.
fn fault_of(number: i32, replicas: &BrokerIds) -> Option<AssignmentRefusal> {
    if number < 0 {
        return Some(AssignmentRefusal::NegativePartition);
    }
    if replicas.is_empty() {
        return Some(AssignmentRefusal::NoReplicas);
    }
    let mut seen = BTreeSet::new();
    replicas.iter().find_map(|id| {
        if id.0 < 0 {
            Some(AssignmentRefusal::NegativeBroker(id))
        } else if !seen.insert(id) {
            Some(AssignmentRefusal::RepeatedBroker(id))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster::{self, registration, topic};
    use crate::model::{BrokerEpoch, Endpoint, SecurityProtocol};

    /// Brokers 1, 2 and 3 live under epochs 101, 102, 103; 9 is a klamm.
    fn three_brokers() -> ControllerContext {
        let mut context = small_cluster::of_brokers(&[1, 2, 3]);
        context.set_klamm_ids([BrokerId(9)].into());
        context
    }

    fn listed(ids: &[i32]) -> Vec<(BrokerId, Read<BrokerRegistration>)> {
        ids.iter()
            .map(|id| (BrokerId(*id), Read::Found(registration(*id))))
            .collect()
    }

    fn ids(registrations: &[BrokerRegistration]) -> Vec<i32> {
        registrations
            .iter()
            .map(|registration| registration.broker.id.0)
            .collect()
    }

    #[test]
    fn an_unchanged_listing_changes_nothing_in_whatever_order() {
        let diff = diff_brokers(&three_brokers(), listed(&[3, 1, 2]));
        assert!(diff.is_empty() && diff.broken.is_empty(), "{diff:?}");
    }

    #[test]
    fn unknown_brokers_are_new_and_vanished_ones_dead_in_order_of_ids() {
        let diff = diff_brokers(&three_brokers(), listed(&[7, 5, 2]));
        assert_eq!(ids(&diff.new), [5, 7]);
        assert_eq!(diff.dead, [BrokerId(1), BrokerId(3)]);
        assert!(diff.bounced.is_empty() && diff.changed.is_empty());
    }

    #[test]
    fn an_empty_listing_means_that_all_are_dead() {
        let diff = diff_brokers(&three_brokers(), Vec::new());
        assert_eq!(diff.dead, [BrokerId(1), BrokerId(2), BrokerId(3)]);
    }

    #[test]
    fn a_broker_with_another_czxid_has_bounced_even_with_a_smaller_one() {
        for epoch in [100, 102, 1] {
            let mut again = registration(1);
            again.epoch = BrokerEpoch(epoch);
            let mut read = listed(&[2, 3]);
            read.push((BrokerId(1), Read::Found(again.clone())));
            let diff = diff_brokers(&three_brokers(), read);
            assert_eq!(diff.bounced, [again], "czxid {epoch}");
            assert!(diff.new.is_empty() && diff.dead.is_empty() && diff.changed.is_empty());
        }
    }

    #[test]
    fn a_bounce_with_other_endpoints_is_a_bounce_alone() {
        let mut again = registration(1);
        again.epoch = BrokerEpoch(500);
        again.broker.endpoints.clear();
        let mut read = listed(&[2, 3]);
        read.push((BrokerId(1), Read::Found(again)));
        let diff = diff_brokers(&three_brokers(), read);
        assert_eq!((diff.bounced.len(), diff.changed.len()), (1, 0));
    }

    #[test]
    fn other_endpoints_features_or_rack_under_the_same_czxid_are_a_change() {
        let changes: [fn(&mut BrokerRegistration); 3] = [
            |changed| {
                changed.broker.endpoints = vec![Endpoint {
                    listener: "OTHER".into(),
                    host: "elsewhere".into(),
                    port: 1,
                    security_protocol: SecurityProtocol::Plaintext,
                }];
            },
            |changed| {
                changed.broker.features.insert("some".into(), (1, 2));
            },
            |changed| changed.broker.rack = Some("b".into()),
        ];
        for change in changes {
            let mut rewritten = registration(2);
            change(&mut rewritten);
            let mut read = listed(&[1, 3]);
            read.push((BrokerId(2), Read::Found(rewritten.clone())));
            let diff = diff_brokers(&three_brokers(), read);
            assert_eq!(diff.changed, [rewritten]);
            assert!(diff.new.is_empty() && diff.dead.is_empty() && diff.bounced.is_empty());
        }
    }

    #[test]
    fn a_broken_registration_keeps_a_known_broker_and_adds_no_unknown_one() {
        let mut read = listed(&[1, 3]);
        read.push((BrokerId(8), Read::Broken("no JSON".to_owned())));
        read.push((BrokerId(2), Read::Broken("no endpoints".to_owned())));
        let diff = diff_brokers(&three_brokers(), read);
        assert!(diff.is_empty(), "{diff:?}");
        assert_eq!(
            diff.broken,
            [
                (BrokerId(2), "no endpoints".to_owned()),
                (BrokerId(8), "no JSON".to_owned())
            ]
        );
    }

    #[test]
    fn a_broker_that_went_between_listing_and_read_is_not_there() {
        let mut read = listed(&[1, 3]);
        read.push((BrokerId(2), Read::Missing));
        read.push((BrokerId(4), Read::Missing));
        let diff = diff_brokers(&three_brokers(), read);
        assert_eq!(diff.dead, [BrokerId(2)]);
        assert!(diff.new.is_empty());
    }

    #[test]
    fn klamms_are_never_brokers_registered_broken_or_our_own() {
        let mut context = three_brokers();
        context.set_own_broker(registration(10).broker);
        let mut read = listed(&[1, 2, 3, 9, 10]);
        read.push((BrokerId(9), Read::Broken("twice".to_owned())));
        let diff = diff_brokers(&context, read);
        assert!(diff.is_empty() && diff.broken.is_empty(), "{diff:?}");
    }

    #[test]
    fn topics_come_and_go_and_strange_names_cost_only_themselves() {
        let mut context = three_brokers();
        for known in ["kept", "lost"] {
            context.put_topic(&topic(known), None, 0);
        }
        let names = ["zeta", "kept", "alpha", "..", "", "sp ace", "alpha"].map(topic);
        let diff = diff_topics(&context, &names);
        assert_eq!(diff.new, [topic("alpha"), topic("zeta")]);
        assert_eq!(diff.gone, [topic("lost")]);
        assert_eq!(illegal(&names), ["", "..", "sp ace"].map(topic));
    }

    #[test]
    fn a_name_of_249_characters_is_a_topic_and_one_of_250_is_not() {
        let names = [topic(&"a".repeat(249)), topic(&"a".repeat(250))];
        assert_eq!(
            diff_topics(&three_brokers(), &names).new,
            [names[0].clone()]
        );
        assert_eq!(illegal(&names), [names[1].clone()]);
    }

    fn znode(partitions: &[(i32, &[i32])]) -> TopicZnode {
        TopicZnode {
            topic_id: None,
            partitions: partitions
                .iter()
                .map(|(number, replicas)| {
                    (
                        *number,
                        ReplicaAssignment::settled(BrokerIds::from(*replicas)),
                    )
                })
                .collect(),
            version: 1,
        }
    }

    #[test]
    fn only_partitions_without_known_replicas_are_new() {
        let mut context = three_brokers();
        small_cluster::put_partition(&mut context, "t", 0, &[1, 2]);
        let read = znode(&[(0, &[3]), (1, &[2, 1]), (2, &[4, 5])]);
        let found = new_partitions(&context, &topic("t"), &read);
        assert!(found.refused.is_empty());
        let accepted: Vec<(i32, BrokerIds)> = found
            .accepted
            .into_iter()
            .map(|(partition, assignment)| (partition.partition, assignment.replicas))
            .collect();
        assert_eq!(
            accepted,
            [(1, BrokerIds::from([2, 1])), (2, BrokerIds::from([4, 5]))]
        );
    }

    #[test]
    fn each_senseless_partition_is_refused_with_its_reason_and_the_others_are_created() {
        let read = znode(&[
            (-1, &[1]),
            (0, &[]),
            (1, &[1, 2, 1]),
            (2, &[1, -1]),
            (3, &[1, 2]),
        ]);
        let found = new_partitions(&three_brokers(), &topic("t"), &read);
        let refused: Vec<(i32, AssignmentRefusal)> = found
            .refused
            .iter()
            .map(|(partition, reason)| (partition.partition, *reason))
            .collect();
        assert_eq!(
            refused,
            [
                (-1, AssignmentRefusal::NegativePartition),
                (0, AssignmentRefusal::NoReplicas),
                (1, AssignmentRefusal::RepeatedBroker(BrokerId(1))),
                (2, AssignmentRefusal::NegativeBroker(BrokerId(-1))),
            ]
        );
        assert_eq!(found.accepted.len(), 1);
        assert_eq!(found.accepted[0].0.partition, 3);
    }
}
