//! What clients ask of the controller, between bytes and the controller's values: deletion, elections, reassignments,
//! features.
//!
//! Must never answer what the controller didn't say. Upstream: `DeleteTopicsResponse`, `ElectLeadersResponse`,
//! `AlterPartitionReassignmentsResponse`, `ListPartitionReassignmentsResponse`, `UpdateFeaturesResponse`.

use std::collections::BTreeMap;

use bytes::Bytes;
use klamm_codec::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use klamm_codec::messages::delete_topics_response::DeletableTopicResult;
use klamm_codec::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use klamm_codec::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use klamm_codec::messages::update_features_response::UpdatableFeatureResult;
use klamm_codec::messages::{
    self, AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, ElectLeadersRequest, ElectLeadersResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse,
};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{CodecError, Frame, RequestHeader, StrBytes, Uuid};

use super::{explanation, topic_name};
use crate::effect::{
    DeletedTopic, ElectionResult, FeatureResult, ReassignmentResult, TopicReference,
};
use crate::event::{ElectionType, FeatureUpdate, UpgradeType};
use crate::model::{
    ApiError, BrokerId, BrokerIds, KafkaError, ReplicaAssignment, TopicId, TopicName,
    TopicPartition,
};

/// DeleteTopics can say that deletion is disabled from this version on (KIP-322).
const DELETION_DISABLED_IS_KNOWN: i16 = 3;
/// DeleteTopics explains its errors from this version on.
const DELETION_IS_EXPLAINED: i16 = 5;
/// DeleteTopics names topics by name or id from this version on (KIP-516).
const DELETION_BY_ID: i16 = 6;
/// ElectLeaders knows other elections than that of preferred leaders from this version on (KIP-460).
const ELECTION_HAS_A_TYPE: i16 = 1;

/// UpdateFeatures tells kinds of upgrades apart from this version on (KIP-778).
const UPGRADE_HAS_A_TYPE: i16 = 1;

/// A request for deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::api) struct DeleteTopics {
    /// In the request's order.
    pub(in crate::api) topics: Vec<AskedTopic>,
    pub(in crate::api) timeout_ms: i32,
    /// A topic is named by name and by id: the whole request is refused.
    pub(in crate::api) is_ambiguous: bool,
}

/// A topic as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::api) enum AskedTopic {
    /// What a topic can be meant by.
    Reference(TopicReference),
    /// An id that no topic has (0 and 1 are reserved).
    Nobody(Uuid),
}

impl DeleteTopics {
    /// What the controller is asked.
    pub(in crate::api) fn references(&self) -> Vec<TopicReference> {
        let references = self.topics.iter().filter_map(|asked| match asked {
            AskedTopic::Reference(reference) => Some(reference.clone()),
            AskedTopic::Nobody(_) => None,
        });
        references.collect()
    }
}

pub(in crate::api) fn delete_topics_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<DeleteTopics, CodecError> {
    let asked: DeleteTopicsRequest = decode_request(header, payload)?;
    let named = |name: &messages::TopicName| {
        AskedTopic::Reference(TopicReference::Name(TopicName::new(name)))
    };
    let by_id = |id: Uuid| match TopicId::new(id.into_bytes()) {
        Some(id) => AskedTopic::Reference(TopicReference::Id(id)),
        None => AskedTopic::Nobody(id),
    };
    let mut is_ambiguous = false;
    let topics = if header.version < DELETION_BY_ID {
        asked.topic_names.iter().map(named).collect()
    } else {
        let topics = asked.topics.iter();
        topics
            .map(|topic| match &topic.name {
                Some(name) => {
                    is_ambiguous |= topic.topic_id != Uuid::nil();
                    named(name)
                }
                None => by_id(topic.topic_id),
            })
            .collect()
    };
    Ok(DeleteTopics {
        topics,
        timeout_ms: asked.timeout_ms,
        is_ambiguous,
    })
}

/// The answer to DeleteTopics, in the order of the request.
pub(in crate::api) fn delete_topics_response(
    header: &RequestHeader,
    asked: &DeleteTopics,
    answer: Result<Vec<DeletedTopic>, KafkaError>,
    throttle_time_ms: i32,
) -> Result<Frame, CodecError> {
    let mut said = answer.map(Vec::into_iter);
    let results = asked.topics.iter().map(|topic| match topic {
        AskedTopic::Nobody(id) => DeletableTopicResult::default()
            .with_name(None)
            .with_topic_id(*id)
            .with_error_code(KafkaError::UNKNOWN_TOPIC_ID.0),
        AskedTopic::Reference(reference) => match &mut said {
            Ok(said) => match said.next() {
                Some(deleted) => deleted_topic(header.version, deleted),
                None => refused_topic(reference, KafkaError::UNKNOWN_SERVER_ERROR),
            },
            Err(error) => refused_topic(reference, *error),
        },
    });
    let response = DeleteTopicsResponse::default()
        .with_throttle_time_ms(throttle_time_ms)
        .with_responses(results.collect());
    encode_response::<DeleteTopicsRequest>(header.version, header.correlation_id, &response)
}

fn deleted_topic(version: i16, deleted: DeletedTopic) -> DeletableTopicResult {
    let mut result = DeletableTopicResult::default()
        .with_name(deleted.name.as_ref().map(topic_name))
        .with_error_message(None);
    if version >= DELETION_BY_ID {
        let id = deleted.topic_id.map(|id| Uuid::from_bytes(*id.as_bytes()));
        result.topic_id = id.unwrap_or_default();
    }
    let Err(refused) = deleted.result else {
        return result;
    };
    let error = match refused.error {
        KafkaError::TOPIC_DELETION_DISABLED if version < DELETION_DISABLED_IS_KNOWN => {
            KafkaError::INVALID_REQUEST
        }
        other => other,
    };
    if version >= DELETION_IS_EXPLAINED {
        result.error_message = Some(explanation(refused.message));
    }
    result.with_error_code(error.0)
}

fn refused_topic(topic: &TopicReference, error: KafkaError) -> DeletableTopicResult {
    let result = DeletableTopicResult::default()
        .with_error_code(error.0)
        .with_error_message(None);
    match topic {
        TopicReference::Name(name) => result.with_name(Some(topic_name(name))),
        TopicReference::Id(id) => result
            .with_name(None)
            .with_topic_id(Uuid::from_bytes(*id.as_bytes())),
    }
}

/// A request for elections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::api) struct ElectLeaders {
    /// `None`: whichever there are.
    pub(in crate::api) partitions: Option<Vec<TopicPartition>>,
    /// `None`: a kind of election that isn't known here.
    pub(in crate::api) election: Option<ElectionType>,
    /// How long the client waits, in milliseconds.
    pub(in crate::api) timeout_ms: i32,
}

pub(in crate::api) fn elect_leaders_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<ElectLeaders, CodecError> {
    let asked: ElectLeadersRequest = decode_request(header, payload)?;
    let partitions = asked.topic_partitions.map(|topics| {
        let all = topics.iter().flat_map(|topic| {
            let name = TopicName::new(&topic.topic);
            let partition = move |index: &i32| TopicPartition::new(&name, *index);
            topic.partitions.iter().map(partition).collect::<Vec<_>>()
        });
        all.collect()
    });
    let election = match asked.election_type {
        _ if header.version < ELECTION_HAS_A_TYPE => Some(ElectionType::Preferred),
        0 => Some(ElectionType::Preferred),
        1 => Some(ElectionType::Unclean),
        _ => None,
    };
    Ok(ElectLeaders {
        partitions,
        election,
        timeout_ms: asked.timeout_ms,
    })
}

/// The answer to ElectLeaders. An error of the whole stands with each partition that was asked for: version 0 can't say it
/// otherwise.
pub(in crate::api) fn elect_leaders_response(
    header: &RequestHeader,
    asked: &ElectLeaders,
    answer: Result<Vec<ElectionResult>, ApiError>,
) -> Result<Frame, CodecError> {
    let mut response = ElectLeadersResponse::default();
    let results = match answer {
        Ok(results) => results,
        Err(refused) => {
            if header.version >= ELECTION_HAS_A_TYPE {
                response.error_code = refused.error.0;
            }
            let partitions = asked.partitions.iter().flatten().cloned();
            partitions
                .map(|partition| (partition, Err(refused.clone())))
                .collect()
        }
    };
    let topics = by_topic(results).into_iter();
    response.replica_election_results = topics
        .map(|(topic, results)| {
            let results = results.into_iter().map(|(partition, result)| {
                let (error, message) = outcome(result);
                PartitionResult::default()
                    .with_partition_id(partition)
                    .with_error_code(error)
                    .with_error_message(message)
            });
            ReplicaElectionResult::default()
                .with_topic(topic_name(&topic))
                .with_partition_result(results.collect())
        })
        .collect();
    encode_response::<ElectLeadersRequest>(header.version, header.correlation_id, &response)
}

/// What partitions are to move to; `None`: what runs is to be cancelled. Of two wishes for one partition the last counts.
pub(in crate::api) fn alter_partition_reassignments_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<BTreeMap<TopicPartition, Option<Vec<BrokerId>>>, CodecError> {
    let asked: AlterPartitionReassignmentsRequest = decode_request(header, payload)?;
    let mut targets = BTreeMap::new();
    for topic in &asked.topics {
        let name = TopicName::new(&topic.name);
        for partition in &topic.partitions {
            let replicas = partition.replicas.as_ref();
            let target = replicas.map(|ids| ids.iter().map(|id| BrokerId(id.0)).collect());
            targets.insert(
                TopicPartition::new(&name, partition.partition_index),
                target,
            );
        }
    }
    Ok(targets)
}

pub(in crate::api) fn alter_partition_reassignments_response(
    header: &RequestHeader,
    answer: Result<Vec<ReassignmentResult>, KafkaError>,
) -> Result<Frame, CodecError> {
    let response = AlterPartitionReassignmentsResponse::default().with_error_message(None);
    let response = match answer {
        Err(error) => response.with_error_code(error.0),
        Ok(results) => {
            let topics = by_topic(results).into_iter().map(|(topic, results)| {
                let partitions = results.into_iter().map(|(partition, result)| {
                    let (error, message) = outcome(result);
                    ReassignablePartitionResponse::default()
                        .with_partition_index(partition)
                        .with_error_code(error)
                        .with_error_message(message)
                });
                ReassignableTopicResponse::default()
                    .with_name(topic_name(&topic))
                    .with_partitions(partitions.collect())
            });
            response.with_responses(topics.collect())
        }
    };
    encode_response::<AlterPartitionReassignmentsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

/// Whose reassignments are to be listed; `None`: all.
pub(in crate::api) fn list_partition_reassignments_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Option<Vec<TopicPartition>>, CodecError> {
    let asked: ListPartitionReassignmentsRequest = decode_request(header, payload)?;
    Ok(asked.topics.map(|topics| {
        let all = topics.iter().flat_map(|topic| {
            let name = TopicName::new(&topic.name);
            let partition = move |index: &i32| TopicPartition::new(&name, *index);
            topic
                .partition_indexes
                .iter()
                .map(partition)
                .collect::<Vec<_>>()
        });
        all.collect()
    }))
}

pub(in crate::api) fn list_partition_reassignments_response(
    header: &RequestHeader,
    answer: Result<Vec<(TopicPartition, ReplicaAssignment)>, KafkaError>,
) -> Result<Frame, CodecError> {
    let response = ListPartitionReassignmentsResponse::default().with_error_message(None);
    let response = match answer {
        Err(error) => response.with_error_code(error.0),
        Ok(running) => {
            let topics = by_topic(running).into_iter().map(|(topic, running)| {
                let partitions = running.into_iter().map(|(partition, assignment)| {
                    OngoingPartitionReassignment::default()
                        .with_partition_index(partition)
                        .with_replicas(broker_ids(&assignment.replicas))
                        .with_adding_replicas(broker_ids(&assignment.adding))
                        .with_removing_replicas(broker_ids(&assignment.removing))
                });
                OngoingTopicReassignment::default()
                    .with_name(topic_name(&topic))
                    .with_partitions(partitions.collect())
            });
            response.with_topics(topics.collect())
        }
    };
    encode_response::<ListPartitionReassignmentsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

/// A request for other finalized features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::api) struct UpdateFeatures {
    /// In the request's order.
    pub(in crate::api) updates: Vec<FeatureUpdate>,
    /// Nothing is to be changed.
    pub(in crate::api) validate_only: bool,
}

pub(in crate::api) fn update_features_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<UpdateFeatures, CodecError> {
    let asked: UpdateFeaturesRequest = decode_request(header, payload)?;
    let has_types = header.version >= UPGRADE_HAS_A_TYPE;
    let updates = asked.feature_updates.iter().map(|update| FeatureUpdate {
        feature: update.feature.to_string(),
        level: update.max_version_level,
        upgrade_type: match (has_types, update.upgrade_type) {
            (false, _) if update.allow_downgrade => UpgradeType::SafeDowngrade,
            (false, _) | (true, 1) => UpgradeType::Upgrade,
            (true, 2) => UpgradeType::SafeDowngrade,
            (true, 3) => UpgradeType::UnsafeDowngrade,
            (true, _) => UpgradeType::Unknown,
        },
    });
    Ok(UpdateFeatures {
        updates: updates.collect(),
        validate_only: asked.validate_only,
    })
}

pub(in crate::api) fn update_features_response(
    header: &RequestHeader,
    answer: Result<Vec<FeatureResult>, ApiError>,
) -> Result<Frame, CodecError> {
    let response = UpdateFeaturesResponse::default().with_error_message(None);
    let response = match answer {
        Err(refused) => response
            .with_error_code(refused.error.0)
            .with_error_message(Some(explanation(refused.message))),
        Ok(results) => {
            let results = results.into_iter().map(|(feature, result)| {
                let (error, message) = outcome(result);
                UpdatableFeatureResult::default()
                    .with_feature(StrBytes::from_string(feature))
                    .with_error_code(error)
                    .with_error_message(message)
            });
            response.with_results(results.collect())
        }
    };
    encode_response::<UpdateFeaturesRequest>(header.version, header.correlation_id, &response)
}

/// Clients make a map of the topics: each must stand there once.
fn by_topic<T>(all: Vec<(TopicPartition, T)>) -> BTreeMap<TopicName, Vec<(i32, T)>> {
    let mut topics: BTreeMap<TopicName, Vec<(i32, T)>> = BTreeMap::new();
    for (partition, value) in all {
        let topic = topics.entry(partition.topic).or_default();
        topic.push((partition.partition, value));
    }
    topics
}

fn outcome(result: Result<(), ApiError>) -> (i16, Option<StrBytes>) {
    match result {
        Ok(()) => (KafkaError::NONE.0, None),
        Err(refused) => (refused.error.0, Some(explanation(refused.message))),
    }
}

fn broker_ids(ids: &BrokerIds) -> Vec<messages::BrokerId> {
    ids.iter().map(|id| messages::BrokerId(id.0)).collect()
}

#[cfg(test)]
mod tests;
