//! The requests that brokers make of their controller, and ApiVersions, between bytes and the controller's values.
//!
//! A malformed answer to a broker ends its JVM: every encoder here is tested, version by version with random values, by
//! reading it back as a client. Must never answer what the controller didn't say.
//! Upstream: `ControlledShutdownResponse`, `AlterPartitionResponse`, `AllocateProducerIdsResponse`, `ApiVersionsResponse`.

pub(super) mod admin;
pub(super) mod scram;
pub(super) mod topics;

use std::collections::BTreeMap;

use bytes::Bytes;
use klamm_codec::error::Message;
use klamm_codec::messages::alter_partition_request::PartitionData as AskedPartition;
use klamm_codec::messages::alter_partition_response::{PartitionData, TopicData};
use klamm_codec::messages::api_versions_response::ApiVersion;
use klamm_codec::messages::controlled_shutdown_response::RemainingPartition;
use klamm_codec::messages::{
    self, AllocateProducerIdsResponse, AlterPartitionResponse, ApiVersionsRequest,
    ApiVersionsResponse, ControlledShutdownRequest, ControlledShutdownResponse,
};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{ApiKey, CodecError, Frame, RequestHeader, StrBytes, Uuid};

use super::advertise;
use crate::effect::{AlterPartitionAnswer, Incarnation, ProducerIdBlock, TopicReference};
use crate::event::{AlterPartitionItem, AlterPartitionRequest};
use crate::model::{
    BrokerEpoch, BrokerId, BrokerIds, KafkaError, LeaderEpoch, LeaderRecoveryState, PartitionEpoch,
    TopicId, TopicName, TopicPartition,
};

/// AlterPartition names topics by id from this version on.
const ALTER_PARTITION_BY_ID: i16 = 2;
/// AlterPartition carries the broker epoch of each in-sync replica from this version on.
const ALTER_PARTITION_WITH_EPOCHS: i16 = 3;

/// The answer to ApiVersions: no features, and not ready for a migration to KRaft. A version that isn't understood gets
/// the answer of version 0 with UNSUPPORTED_VERSION and the range of ApiVersions itself (KIP-511).
pub(super) fn api_versions(
    header: &RequestHeader,
    payload: &Bytes,
    ranges: BTreeMap<ApiKey, (i16, i16)>,
) -> Result<Frame, CodecError> {
    let (min, max) = advertise::API_VERSIONS;
    let listed = |(key, (min, max)): (ApiKey, (i16, i16))| {
        let api = ApiVersion::default().with_api_key(key.0);
        api.with_min_version(min).with_max_version(max)
    };
    if !(min..=max).contains(&header.version) {
        let own = listed((ApiKey::API_VERSIONS, (min, max)));
        let response = ApiVersionsResponse::default()
            .with_error_code(KafkaError::UNSUPPORTED_VERSION.0)
            .with_api_keys(vec![own]);
        return encode_response::<ApiVersionsRequest>(0, header.correlation_id, &response);
    }
    decode_request::<ApiVersionsRequest>(header, payload)?;
    let response =
        ApiVersionsResponse::default().with_api_keys(ranges.into_iter().map(listed).collect());
    encode_response::<ApiVersionsRequest>(header.version, header.correlation_id, &response)
}

/// Who wants to leave, and under which registration, if it says so.
pub(super) fn controlled_shutdown_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<(BrokerId, Option<BrokerEpoch>), CodecError> {
    let request: ControlledShutdownRequest = decode_request(header, payload)?;
    let epoch = BrokerEpoch(request.broker_epoch);
    let epoch = (epoch != BrokerEpoch::UNKNOWN).then_some(epoch);
    Ok((BrokerId(request.broker_id.0), epoch))
}

pub(super) fn controlled_shutdown_response(
    header: &RequestHeader,
    answer: Result<Vec<TopicPartition>, KafkaError>,
) -> Result<Frame, CodecError> {
    let response = ControlledShutdownResponse::default();
    let response = match answer {
        Err(error) => response.with_error_code(error.0),
        Ok(remaining) => {
            let remaining = remaining.iter().map(|partition| {
                RemainingPartition::default()
                    .with_topic_name(topic_name(&partition.topic))
                    .with_partition_index(partition.partition)
            });
            response.with_remaining_partitions(remaining.collect())
        }
    };
    encode_response::<ControlledShutdownRequest>(header.version, header.correlation_id, &response)
}

/// A request for other in-sync sets, apart from what no topic can be meant by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AlterPartition {
    /// What the controller is asked.
    pub(super) request: AlterPartitionRequest,
    /// Partitions below ids that no topic has (0 and 1 are reserved).
    pub(super) unknown: Vec<(Uuid, Vec<i32>)>,
}

pub(super) fn alter_partition_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<AlterPartition, CodecError> {
    let asked: messages::AlterPartitionRequest = decode_request(header, payload)?;
    let from = Incarnation {
        broker: BrokerId(asked.broker_id.0),
        epoch: BrokerEpoch(asked.broker_epoch),
    };
    let mut partitions = Vec::new();
    let mut unknown = Vec::new();
    for topic in asked.topics {
        let reference = match header.version {
            ALTER_PARTITION_BY_ID.. => {
                TopicId::new(topic.topic_id.into_bytes()).map(TopicReference::Id)
            }
            _ => Some(TopicReference::Name(TopicName::new(&topic.topic_name))),
        };
        let Some(reference) = reference else {
            let indexes = topic.partitions.iter().map(|asked| asked.partition_index);
            unknown.push((topic.topic_id, indexes.collect()));
            continue;
        };
        for partition in &topic.partitions {
            partitions.push(alter_partition_item(header, &reference, partition)?);
        }
    }
    let version = header.version;
    let request = AlterPartitionRequest {
        version,
        from,
        partitions,
    };
    Ok(AlterPartition { request, unknown })
}

fn alter_partition_item(
    header: &RequestHeader,
    topic: &TopicReference,
    asked: &AskedPartition,
) -> Result<AlterPartitionItem, CodecError> {
    let leader_recovery_state = match asked.leader_recovery_state {
        0 => LeaderRecoveryState::Recovered,
        1 => LeaderRecoveryState::Recovering,
        other => {
            let detail = format!("{other} is no leader recovery state");
            let message = header.message();
            return Err(CodecError::Malformed { message, detail });
        }
    };
    let new_isr: BrokerIds = match header.version {
        ALTER_PARTITION_WITH_EPOCHS.. => {
            let replicas = asked.new_isr_with_epochs.iter();
            replicas
                .map(|replica| BrokerId(replica.broker_id.0))
                .collect()
        }
        _ => asked.new_isr.iter().map(|id| BrokerId(id.0)).collect(),
    };
    Ok(AlterPartitionItem {
        topic: topic.clone(),
        partition: asked.partition_index,
        leader_epoch: LeaderEpoch(asked.leader_epoch),
        new_isr,
        leader_recovery_state,
        partition_epoch: PartitionEpoch(asked.partition_epoch),
    })
}

/// The answer to AlterPartition; `unknown` is what [`alter_partition_request`] set aside.
pub(super) fn alter_partition_response(
    header: &RequestHeader,
    answer: Result<Vec<AlterPartitionAnswer>, KafkaError>,
    unknown: Vec<(Uuid, Vec<i32>)>,
) -> Result<Frame, CodecError> {
    let response = AlterPartitionResponse::default();
    let response = match answer {
        Err(error) => response.with_error_code(error.0),
        Ok(answers) => {
            let mut topics = by_topic(header, &answers)?;
            topics.extend(unknown.into_iter().map(unknown_topic));
            response.with_topics(topics)
        }
    };
    encode_response::<messages::AlterPartitionRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

/// Answers in a row about the same topic stand below one entry.
fn by_topic(
    header: &RequestHeader,
    answers: &[AlterPartitionAnswer],
) -> Result<Vec<TopicData>, CodecError> {
    let same_topic =
        |one: &AlterPartitionAnswer, next: &AlterPartitionAnswer| one.topic == next.topic;
    let mut topics = Vec::new();
    for group in answers.chunk_by(same_topic) {
        let Some(first) = group.first() else { continue };
        let topic = match (&first.topic, header.version >= ALTER_PARTITION_BY_ID) {
            (TopicReference::Id(id), true) => {
                TopicData::default().with_topic_id(Uuid::from_bytes(*id.as_bytes()))
            }
            (TopicReference::Name(name), false) => {
                TopicData::default().with_topic_name(topic_name(name))
            }
            (other, _) => {
                // A broker would take such an entry for a topic that it never asked about.
                let message = Message::response(header.key, header.version);
                let detail = format!("the version can't name a topic by {other:?}");
                return Err(CodecError::NotEncodable { message, detail });
            }
        };
        let partitions = group.iter().map(|answer| partition(header.version, answer));
        topics.push(topic.with_partitions(partitions.collect()));
    }
    Ok(topics)
}

fn partition(version: i16, answer: &AlterPartitionAnswer) -> PartitionData {
    let said = PartitionData::default().with_partition_index(answer.partition);
    let state = match &answer.result {
        Err(error) => return said.with_error_code(error.0),
        Ok(state) => state,
    };
    let recovering = state.leader_recovery_state == LeaderRecoveryState::Recovering;
    said.with_leader_id(messages::BrokerId(state.leader.0))
        .with_leader_epoch(state.leader_epoch.0)
        .with_isr(
            state
                .isr
                .iter()
                .map(|id| messages::BrokerId(id.0))
                .collect(),
        )
        // Version 0 can't say it.
        .with_leader_recovery_state((recovering && version > 0).into())
        .with_partition_epoch(state.partition_epoch().0)
}

fn unknown_topic((id, partitions): (Uuid, Vec<i32>)) -> TopicData {
    let unknown = |partition| {
        PartitionData::default()
            .with_partition_index(partition)
            .with_error_code(KafkaError::UNKNOWN_TOPIC_ID.0)
    };
    TopicData::default()
        .with_topic_id(id)
        .with_partitions(partitions.into_iter().map(unknown).collect())
}

/// Which incarnation of a broker wants producer ids.
pub(super) fn allocate_producer_ids_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Incarnation, CodecError> {
    let request: messages::AllocateProducerIdsRequest = decode_request(header, payload)?;
    Ok(Incarnation {
        broker: BrokerId(request.broker_id.0),
        epoch: BrokerEpoch(request.broker_epoch),
    })
}

pub(super) fn allocate_producer_ids_response(
    header: &RequestHeader,
    answer: Result<ProducerIdBlock, KafkaError>,
) -> Result<Frame, CodecError> {
    let response = AllocateProducerIdsResponse::default();
    let response = match answer {
        Err(error) => response.with_error_code(error.0),
        Ok(block) => response
            .with_producer_id_start(block.first.into())
            .with_producer_id_len(block_length(header, block)?),
    };
    encode_response::<messages::AllocateProducerIdsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

fn block_length(header: &RequestHeader, block: ProducerIdBlock) -> Result<i32, CodecError> {
    let length = block.last.checked_sub(block.first);
    let length = length.and_then(|length| length.checked_add(1));
    let length = length.and_then(|length| i32::try_from(length).ok());
    length
        .filter(|length| *length > 0)
        .ok_or_else(|| CodecError::NotEncodable {
            message: Message::response(header.key, header.version),
            detail: format!("{} to {} is no block of ids", block.first, block.last),
        })
}

/// Whether InitProducerId is for a transaction: that is its coordinator's to answer, the rest is any broker's.
pub(super) fn is_transactional(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<bool, CodecError> {
    let request: messages::InitProducerIdRequest = decode_request(header, payload)?;
    Ok(request.transactional_id.is_some())
}

/// What an answer holds at most of an explanation, in bytes. A string of the older versions ends at 32,767, and the names
/// and values of a request that an explanation repeats may be as long by themselves.
const EXPLANATION_MAX: usize = 4096;

/// An explanation that any version can carry. Upstream: none; Java's answer fails there, and closes the connection.
fn explanation(mut message: String) -> StrBytes {
    if message.len() > EXPLANATION_MAX {
        let mut ends = (0..=EXPLANATION_MAX).rev();
        let end = ends.find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
    StrBytes::from_string(message)
}

fn topic_name(name: &TopicName) -> messages::TopicName {
    messages::TopicName(StrBytes::from_string(name.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
