//! CreateTopics and CreatePartitions, between bytes and the controller's values.
//!
//! Must never answer what the controller didn't say. Upstream: `CreateTopicsResponse`, `CreatePartitionsResponse`.

use bytes::Bytes;
use klamm_codec::messages::create_partitions_request::CreatePartitionsTopic;
use klamm_codec::messages::create_partitions_response::CreatePartitionsTopicResult;
use klamm_codec::messages::create_topics_request::CreatableTopic;
use klamm_codec::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use klamm_codec::messages::{self, CreatePartitionsResponse, CreateTopicsResponse};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{CodecError, Frame, RequestHeader, StrBytes, Uuid};

use super::{explanation, topic_name};
use crate::effect::{CreatedTopic, GrownTopic, TopicDetails};
use crate::event::{CreatePartitionsRequest, CreateTopicsRequest, MorePartitions, NewTopic};
use crate::model::topic_config::TopicSetting;
use crate::model::{BrokerId, KafkaError, TopicName};

/// "As the controller's configuration says." Clients may say so from version 4 on (KIP-464); brokers since 2.4 understand
/// it in every version, and so does this.
const UNSAID: i32 = -1;
/// CreateTopics tells what a topic is like from this version on (KIP-525).
const DETAILS_ARE_TOLD: i16 = 5;
/// CreateTopics tells a topic's id from this version on (KIP-516).
const ID_IS_TOLD: i16 = 7;

pub(in crate::api) fn create_topics_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<CreateTopicsRequest, CodecError> {
    let asked: messages::CreateTopicsRequest = decode_request(header, payload)?;
    Ok(CreateTopicsRequest {
        topics: asked.topics.iter().map(new_topic).collect(),
        timeout_ms: asked.timeout_ms,
        validate_only: asked.validate_only,
    })
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    let factor = topic.replication_factor;
    NewTopic {
        name: TopicName::new(&topic.name),
        num_partitions: (topic.num_partitions != UNSAID).then_some(topic.num_partitions),
        replication_factor: (i32::from(factor) != UNSAID).then_some(factor),
        assignments: assignments
            .map(|assigned| (assigned.partition_index, broker_ids(&assigned.broker_ids)))
            .collect(),
        configs: configs
            .map(|config| {
                let value = config.value.as_ref().map(ToString::to_string);
                (config.name.to_string(), value)
            })
            .collect(),
    }
}

fn broker_ids(ids: &[messages::BrokerId]) -> Vec<BrokerId> {
    ids.iter().map(|id| BrokerId(id.0)).collect()
}

/// The answer to CreateTopics; `asked` as in the request. An error of the whole stands with each topic.
pub(in crate::api) fn create_topics_response(
    header: &RequestHeader,
    asked: &[TopicName],
    answer: Result<Vec<CreatedTopic>, KafkaError>,
    throttle_time_ms: i32,
) -> Result<Frame, CodecError> {
    let topics = match answer {
        Ok(topics) => topics
            .into_iter()
            .map(|topic| created_topic(header.version, topic))
            .collect(),
        Err(error) => asked.iter().map(|name| failed_topic(name, error)).collect(),
    };
    let response = CreateTopicsResponse::default()
        .with_throttle_time_ms(throttle_time_ms)
        .with_topics(topics);
    encode_response::<messages::CreateTopicsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

fn failed_topic(name: &TopicName, error: KafkaError) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic_name(name))
        .with_error_code(error.0)
        .with_error_message(None)
}

fn created_topic(version: i16, topic: CreatedTopic) -> CreatableTopicResult {
    let details = match topic.result {
        Ok(details) => details,
        Err(refused) => {
            return failed_topic(&topic.name, refused.error)
                .with_error_message(Some(explanation(refused.message)));
        }
    };
    let mut result = failed_topic(&topic.name, KafkaError::NONE);
    if version >= DETAILS_ARE_TOLD {
        tell_details(&mut result, &details);
    }
    if version >= ID_IS_TOLD {
        let id = details.topic_id.map(|id| Uuid::from_bytes(*id.as_bytes()));
        result.topic_id = id.unwrap_or_default();
    }
    result
}

fn tell_details(result: &mut CreatableTopicResult, details: &TopicDetails) {
    result.num_partitions = i32::try_from(details.num_partitions).unwrap_or(i32::MAX);
    result.replication_factor = i16::try_from(details.replication_factor).unwrap_or(i16::MAX);
    let config = |setting: &TopicSetting| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(setting.name))
            .with_value(Some(StrBytes::from_string(setting.value.clone())))
            .with_read_only(false)
            .with_config_source(setting.source as i8)
            .with_is_sensitive(false)
    };
    result.configs = Some(details.settings.iter().map(config).collect());
}

pub(in crate::api) fn create_partitions_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<CreatePartitionsRequest, CodecError> {
    let asked: messages::CreatePartitionsRequest = decode_request(header, payload)?;
    let more = |topic: &CreatePartitionsTopic| MorePartitions {
        topic: TopicName::new(&topic.name),
        count: topic.count,
        assignments: topic.assignments.as_ref().map(|lists| {
            let lists = lists.iter();
            lists
                .map(|assigned| broker_ids(&assigned.broker_ids))
                .collect()
        }),
    };
    Ok(CreatePartitionsRequest {
        topics: asked.topics.iter().map(more).collect(),
        timeout_ms: asked.timeout_ms,
        validate_only: asked.validate_only,
    })
}

/// The answer to CreatePartitions; `asked` as in the request. An error of the whole stands with each topic.
pub(in crate::api) fn create_partitions_response(
    header: &RequestHeader,
    asked: &[TopicName],
    answer: Result<Vec<GrownTopic>, KafkaError>,
    throttle_time_ms: i32,
) -> Result<Frame, CodecError> {
    let said = |name: &TopicName, error: KafkaError, message: Option<String>| {
        CreatePartitionsTopicResult::default()
            .with_name(topic_name(name))
            .with_error_code(error.0)
            .with_error_message(message.map(explanation))
    };
    let results = match answer {
        Ok(grown) => grown
            .into_iter()
            .map(|(name, result)| match result {
                Ok(()) => said(&name, KafkaError::NONE, None),
                Err(refused) => said(&name, refused.error, Some(refused.message)),
            })
            .collect(),
        Err(error) => asked.iter().map(|name| said(name, error, None)).collect(),
    };
    let response = CreatePartitionsResponse::default()
        .with_throttle_time_ms(throttle_time_ms)
        .with_results(results);
    encode_response::<messages::CreatePartitionsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

#[cfg(test)]
mod tests;
