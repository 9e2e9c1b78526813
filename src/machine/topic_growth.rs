//! Which topics can have more partitions, and where the new ones go.
//!
//! Must never touch a partition that is there. Upstream: `ZkAdminManager.createPartitions`,
//! `AdminZkClient.createNewPartitionsAssignment`.

use super::placement::{self, Spread};
use super::topic_creation::{bad_assignment, check_count, check_replicas, unplaceable, waiting};
use crate::effect::TopicZnode;
use crate::event::MorePartitions;
use crate::model::{ApiError, BrokerId, BrokerIds, KafkaError, ReplicaAssignment, TopicName};
use crate::state::ControllerContext;

/// What needs no look at the topic's node.
///
/// # Errors
/// The topic is being deleted, or no topic can have this name.
pub fn admit(context: &ControllerContext, topic: &TopicName) -> Result<(), ApiError> {
    if !topic.is_legal() {
        return Err(unknown());
    }
    if context.is_queued_for_deletion(topic) {
        let message = format!(
            "it is being deleted{} and can't grow; once that is done, create it again with as many partitions as it is to have",
            waiting(context, topic)
        );
        return Err(ApiError::new(KafkaError::INVALID_TOPIC_EXCEPTION, message));
    }
    Ok(())
}

/// There is no such topic.
pub fn unknown() -> ApiError {
    ApiError::new(
        KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
        "there is no such topic; check the name, or create it",
    )
}

/// The topic's node as it is to be; `current` is what stands there.
///
/// # Errors
/// Why it stays as it is.
pub fn plan(
    context: &ControllerContext,
    asked: &MorePartitions,
    current: &TopicZnode,
) -> Result<TopicZnode, ApiError> {
    let is_moving = |assignment: &ReplicaAssignment| assignment.is_being_reassigned();
    if current.partitions.values().any(is_moving) {
        // A rewrite of the node would race with those of the reassignment.
        return Err(ApiError::new(
            KafkaError::REASSIGNMENT_IN_PROGRESS,
            "partitions of the topic are being reassigned; wait until that is done, or cancel it",
        ));
    }
    let existing = current.partitions.len();
    let Some(first) = current.partitions.get(&0) else {
        return Err(odd_node(&asked.topic, "has no partition 0"));
    };
    let last = current.partitions.keys().next_back();
    if last.and_then(|last| usize::try_from(*last).ok()) != Some(existing - 1) {
        return Err(odd_node(&asked.topic, "numbers its partitions with gaps"));
    }
    let wanted = check_growth(asked.count, existing)?;
    let added = match &asked.assignments {
        Some(lists) => chosen(context, lists, existing, wanted, first.replicas.len())?,
        None => placed(context, existing, wanted, first)?,
    };
    let mut grown = current.clone();
    let indexes = (0_i32..).skip(existing);
    let settled = added.into_iter().map(ReplicaAssignment::settled);
    grown.partitions.extend(indexes.zip(settled));
    Ok(grown)
}

fn odd_node(topic: &TopicName, what: &str) -> ApiError {
    let message = format!("/brokers/topics/{topic} {what}; repair the node first");
    ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, message)
}

fn check_growth(count: i32, existing: usize) -> Result<usize, ApiError> {
    if usize::try_from(count).is_ok_and(|count| count > existing) {
        return check_count(count, existing + 1);
    }
    Err(ApiError::new(
        KafkaError::INVALID_PARTITIONS,
        format!("the topic has {existing} partitions and can only have more; {count} are not more"),
    ))
}

fn chosen(
    context: &ControllerContext,
    lists: &[Vec<BrokerId>],
    existing: usize,
    wanted: usize,
    replication_factor: usize,
) -> Result<Vec<BrokerIds>, ApiError> {
    let added = wanted - existing;
    if lists.len() != added {
        return Err(bad_assignment(format!(
            "{added} partitions are to be added and the brokers of {} are given",
            lists.len()
        )));
    }
    let indexes = (0_i32..).skip(existing);
    let checked = indexes
        .zip(lists)
        .map(|(index, replicas)| check_replicas(context, index, replicas, replication_factor));
    checked.collect()
}

/// As upstream not by chance: the new ones go on from partition 0's preferred replica, so that all of a topic's leaders
/// stay spread.
fn placed(
    context: &ControllerContext,
    existing: usize,
    wanted: usize,
    first: &ReplicaAssignment,
) -> Result<Vec<BrokerIds>, ApiError> {
    let brokers = placement::candidates(context);
    let preferred = first.replicas.first();
    let start = brokers
        .iter()
        .position(|broker| Some(broker.id) >= preferred);
    let start = start
        .and_then(|place| u32::try_from(place).ok())
        .unwrap_or(0);
    let spread = Spread {
        start,
        shift: start,
    };
    let factor = first.replicas.len();
    placement::place(&brokers, wanted - existing, factor, existing, spread)
        .map_err(|why| unplaceable(why, factor))
}

#[cfg(test)]
mod tests;
