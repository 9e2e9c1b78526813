//! Elections that are asked for: which partitions go back to their first assigned replica, because an operator asked or
//! because a broker leads too little of what it should, and which an operator wants led whatever is lost.
//!
//! Elects nobody itself: the flow puts what is chosen here through the partition machine. Must never choose a partition
//! of a topic that is to be deleted. Upstream: `KafkaController.processReplicaLeaderElection` and
//! `checkAndTriggerAutoLeaderRebalance`.

use std::collections::BTreeMap;
use std::fmt;

use super::election;
use crate::event::ElectionType;
use crate::model::{ApiError, BrokerId, KafkaError, TopicPartition};
use crate::state::ControllerContext;

/// What becomes of the partitions that an operator asked about. Each list is in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requested {
    /// To be elected.
    pub elect: Vec<TopicPartition>,
    /// They are led as they should be already.
    pub led: Vec<TopicPartition>,
    /// Not to be elected, and why.
    pub refused: Vec<(TopicPartition, NotElected)>,
}

/// Why a partition is not put to an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotElected {
    /// There is no such partition.
    Unknown,
    /// Its topic is to be deleted.
    BeingDeleted,
}

impl fmt::Display for NotElected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "there is no such partition",
            Self::BeingDeleted => "its topic is being deleted",
        })
    }
}

impl NotElected {
    /// As the request's answer says it.
    pub fn answer(self) -> ApiError {
        ApiError {
            error: match self {
                Self::Unknown => KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
                Self::BeingDeleted => KafkaError::INVALID_TOPIC_EXCEPTION,
            },
            message: self.to_string(),
        }
    }
}

/// Sorts out what was asked for.
pub fn requested(
    context: &ControllerContext,
    mut asked: Vec<TopicPartition>,
    election: ElectionType,
) -> Requested {
    asked.sort_unstable();
    asked.dedup();
    let mut sorted = Requested::default();
    for partition in asked {
        if context.partition(&partition).is_none() {
            sorted.refused.push((partition, NotElected::Unknown));
        } else if context.is_queued_for_deletion(&partition.topic) {
            sorted.refused.push((partition, NotElected::BeingDeleted));
        } else if is_served(context, &partition, election) {
            sorted.led.push(partition);
        } else {
            sorted.elect.push(partition);
        }
    }
    sorted
}

/// What to say of a partition that the node asks for and that is not elected.
pub fn refused_entry(at: &TopicPartition, why: NotElected) -> String {
    format!(
        "the preferred leader of {at} is not elected (/admin/preferred_replica_election): {why}"
    )
}

/// Every partition that brokers know, in order. They have forgotten those whose deletion has begun, which upstream takes
/// from the metadata cache, too.
pub fn all_partitions(context: &ControllerContext) -> Vec<TopicPartition> {
    let topics = context.topics().iter();
    let topics = topics.filter(|(name, _)| !context.is_deletion_begun(name));
    let partitions = topics.flat_map(|(name, topic)| {
        let indexes = topic.partitions.keys();
        indexes.map(|index| TopicPartition::new(name, *index))
    });
    partitions.collect()
}

/// Whether such an election has nothing to do for a partition: its preferred replica leads, or, where an unclean one is
/// asked for, anybody does.
pub fn is_served(
    context: &ControllerContext,
    partition: &TopicPartition,
    election: ElectionType,
) -> bool {
    match election {
        ElectionType::Preferred => is_led_by_preferred(context, partition),
        ElectionType::Unclean => context
            .leadership(partition)
            .is_some_and(|held| context.is_replica_online(held.leader, partition)),
    }
}

/// What to answer where nothing is to be done.
pub fn not_needed() -> ApiError {
    ApiError {
        error: KafkaError::ELECTION_NOT_NEEDED,
        message: "the partition is led as it should be".to_owned(),
    }
}

/// What to answer where an election found nobody.
pub fn nobody(
    context: &ControllerContext,
    partition: &TopicPartition,
    election: ElectionType,
) -> ApiError {
    let replicas = context.replicas(partition);
    let is_online = |id: BrokerId| context.is_replica_online(id, partition);
    let isr = context.leadership(partition).map(|held| held.isr.clone());
    let (error, message) = match (election, replicas.first(), isr) {
        (ElectionType::Preferred, Some(preferred), _) if !is_online(preferred) => (
            KafkaError::PREFERRED_LEADER_NOT_AVAILABLE,
            format!("the preferred replica, on broker {preferred}, is not online"),
        ),
        (ElectionType::Preferred, Some(preferred), Some(isr)) => (
            KafkaError::PREFERRED_LEADER_NOT_AVAILABLE,
            format!(
                "the preferred replica, on broker {preferred}, is not in the in-sync set {isr}"
            ),
        ),
        (ElectionType::Preferred, ..) => (
            KafkaError::PREFERRED_LEADER_NOT_AVAILABLE,
            "the preferred replica can't lead".to_owned(),
        ),
        (ElectionType::Unclean, ..) => (
            KafkaError::ELIGIBLE_LEADERS_NOT_AVAILABLE,
            format!("none of the replicas {replicas} can lead: start one of their brokers"),
        ),
    };
    ApiError { error, message }
}

/// The partitions to take back of every live broker that leads less than it should: more than `threshold_percent` of the
/// partitions that prefer it have another leader. Only those that can be: their preferred replica is in sync and online.
/// In order.
pub fn imbalanced(context: &ControllerContext, threshold_percent: u32) -> Vec<TopicPartition> {
    let mut preferring: BTreeMap<BrokerId, Preferring> = BTreeMap::new();
    for partition in context.partitions_with_leadership() {
        let Some(preferred) = context.replicas(&partition).first() else {
            continue;
        };
        if context.is_queued_for_deletion(&partition.topic) {
            continue;
        }
        let of_broker = preferring.entry(preferred).or_default();
        of_broker.all += 1;
        if !is_led_by_preferred(context, &partition) {
            of_broker.led_by_others.push(partition);
        }
    }
    let mut chosen: Vec<TopicPartition> = preferring
        .into_iter()
        .filter(|(broker, of_broker)| {
            context.is_live(*broker) && of_broker.is_above(threshold_percent)
        })
        .flat_map(|(_, of_broker)| of_broker.led_by_others)
        .filter(|partition| can_be_taken_back(context, partition))
        .collect();
    chosen.sort_unstable();
    chosen
}

/// The partitions that prefer one broker.
#[derive(Default)]
struct Preferring {
    all: usize,
    led_by_others: Vec<TopicPartition>,
}

impl Preferring {
    fn is_above(&self, threshold_percent: u32) -> bool {
        self.led_by_others.len() * 100 > self.all * threshold_percent as usize
    }
}

fn is_led_by_preferred(context: &ControllerContext, partition: &TopicPartition) -> bool {
    let preferred = context.replicas(partition).first();
    context
        .leadership(partition)
        .is_some_and(|held| Some(held.leader) == preferred)
}

fn can_be_taken_back(context: &ControllerContext, partition: &TopicPartition) -> bool {
    let is_online = |id: BrokerId| context.is_replica_online(id, partition);
    context.leadership(partition).is_some_and(|held| {
        election::preferred_replica(&context.replicas(partition), &held.isr, is_online).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster::{self, committed, put_led_partition, put_partition, topic};

    fn names(partitions: &[TopicPartition]) -> Vec<String> {
        partitions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_was_asked_for_is_sorted_by_what_can_become_of_it() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let led = put_led_partition(&mut context, "t", 0, &[1, 2], 1);
        let elsewhere = put_led_partition(&mut context, "t", 1, &[1, 2], 2);
        let going = put_led_partition(&mut context, "gone", 0, &[1, 2], 2);
        context.queue_for_deletion(&topic("gone"));
        let unknown = TopicPartition::new(&topic("t"), 9);
        let asked = [&elsewhere, &led, &elsewhere, &going, &unknown];
        let asked = asked.map(TopicPartition::clone).to_vec();
        let sorted = requested(&context, asked, ElectionType::Preferred);
        assert_eq!(
            sorted,
            Requested {
                elect: vec![elsewhere],
                led: vec![led],
                refused: vec![
                    (going, NotElected::BeingDeleted),
                    (unknown, NotElected::Unknown),
                ],
            }
        );
    }

    #[test]
    fn who_finds_nobody_is_told_what_the_preferred_replica_lacks() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let dead = put_led_partition(&mut context, "dead", 0, &[3, 2], 2);
        let behind = put_led_partition(&mut context, "behind", 0, &[1, 2], 2);
        context.put_leadership(&behind, committed(2, 5, &[2], 7));
        let unled = put_partition(&mut context, "unled", 0, &[1, 2]);
        for (partition, lacks) in [
            (dead, "on broker 3, is not online"),
            (behind, "on broker 1, is not in the in-sync set [2]"),
            (unled, "the preferred replica can't lead"),
        ] {
            let answer = nobody(&context, &partition, ElectionType::Preferred);
            assert_eq!(answer.error, KafkaError::PREFERRED_LEADER_NOT_AVAILABLE);
            assert!(answer.message.contains(lacks), "{partition}: {answer:?}");
        }
    }

    #[test]
    fn a_partition_without_replicas_prefers_nobody() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let emptied = put_led_partition(&mut context, "t", 0, &[1, 2], 2);
        assert_eq!(names(&imbalanced(&context, 0)), ["t-0"]);
        context.put_assignment(&emptied, crate::model::ReplicaAssignment::none());
        assert_eq!(names(&imbalanced(&context, 0)), [""; 0]);
        assert_eq!(context.gauges().preferred_replica_imbalance, 0);
    }

    #[test]
    fn a_broker_is_given_back_its_partitions_above_the_threshold_only() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        for number in 0..9 {
            put_led_partition(&mut context, "t", number, &[1, 2], 1);
        }
        put_led_partition(&mut context, "t", 9, &[1, 2], 2);
        assert_eq!(names(&imbalanced(&context, 10)), [""; 0], "1 of 10");
        put_led_partition(&mut context, "u", 0, &[1, 2], 2);
        assert_eq!(names(&imbalanced(&context, 10)), ["t-9", "u-0"], "2 of 11");
        assert_eq!(names(&imbalanced(&context, 50)), [""; 0]);
    }

    #[test]
    fn only_what_a_live_preferred_replica_can_lead_is_taken_back() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let behind = put_led_partition(&mut context, "behind", 0, &[1, 2], 2);
        context.put_leadership(&behind, committed(2, 5, &[2], 7));
        put_led_partition(&mut context, "dead", 0, &[3, 2], 2);
        put_led_partition(&mut context, "going", 0, &[1, 2], 2);
        put_led_partition(&mut context, "good", 0, &[1, 2], 2);
        put_partition(&mut context, "unled", 0, &[1, 2]);
        context.queue_for_deletion(&topic("going"));
        assert_eq!(names(&imbalanced(&context, 0)), ["good-0"]);
        context.begin_shutting_down(BrokerId(1));
        assert_eq!(names(&imbalanced(&context, 0)), [""; 0]);
    }

    #[test]
    fn an_unclean_election_is_for_partitions_that_nobody_leads() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let led = put_led_partition(&mut context, "t", 0, &[3, 2], 2);
        let dead = put_led_partition(&mut context, "t", 1, &[3, 2], 3);
        let leaderless = put_led_partition(&mut context, "t", 2, &[3, 2], 3);
        context.put_leadership(&leaderless, committed(-1, 5, &[3], 7));
        let never = put_partition(&mut context, "t", 3, &[3, 2]);
        let asked = all_partitions(&context);
        assert_eq!(names(&asked), ["t-0", "t-1", "t-2", "t-3"]);
        let sorted = requested(&context, asked, ElectionType::Unclean);
        assert_eq!(sorted.elect, [dead, leaderless, never]);
        assert_eq!(sorted.led, [led]);
    }

    #[test]
    fn whoever_asks_hears_why_nobody_was_elected() {
        use ElectionType::{Preferred, Unclean};
        let mut context = small_cluster::of_brokers(&[1, 2]);
        let dead = put_led_partition(&mut context, "t", 0, &[3, 2], 2);
        let behind = put_led_partition(&mut context, "t", 1, &[1, 2], 2);
        context.put_leadership(&behind, committed(2, 5, &[2], 7));
        let gone = put_led_partition(&mut context, "t", 2, &[3, 4], 3);
        let table = [
            (&dead, Preferred, 80, "on broker 3, is not online"),
            (
                &behind,
                Preferred,
                80,
                "on broker 1, is not in the in-sync set [2]",
            ),
            (&gone, Unclean, 83, "none of the replicas [3,4] can lead"),
        ];
        for (partition, election, code, words) in table {
            let answer = nobody(&context, partition, election);
            assert_eq!(answer.error, KafkaError(code), "{partition}");
            assert!(answer.message.contains(words), "{}", answer.message);
        }
    }
}
