//! What klamm says to a controller that takes it for a broker: a Java one, for the moment in which klamm's registration
//! outlives its role.
//!
//! klamm has no replicas and no metadata cache. LeaderAndIsr gets a storage error for each partition, so that the
//! controller marks the replica offline and elects elsewhere; the other two are agreed to. A closed connection would
//! leave klamm live in that controller's eyes. Must never act on any of it.
//! Upstream: `handleLeaderAndIsrRequest`, `handleUpdateMetadataRequest`, `handleStopReplicaRequest` in `KafkaApis.scala`.

use bytes::Bytes;
use klamm_codec::messages::leader_and_isr_request::{
    LeaderAndIsrPartitionState, LeaderAndIsrTopicState,
};
use klamm_codec::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use klamm_codec::messages::stop_replica_response::StopReplicaPartitionError;
use klamm_codec::messages::{
    LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest, StopReplicaResponse, TopicName,
    UpdateMetadataRequest, UpdateMetadataResponse,
};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{CodecError, Frame, RequestHeader};

use crate::model::KafkaError;

/// From this version on topics are named by id in the answer.
const TOPICS_BY_ID: i16 = 5;
/// From this version on partitions stand below their topics in the request.
const GROUPED_BY_TOPIC: i16 = 2;

pub(super) fn leader_and_isr(header: &RequestHeader, payload: &Bytes) -> Result<Frame, CodecError> {
    let request: LeaderAndIsrRequest = decode_request(header, payload)?;
    let response = match header.version {
        TOPICS_BY_ID.. => LeaderAndIsrResponse::default().with_topics(
            request
                .topic_states
                .into_iter()
                .map(offline_topic)
                .collect(),
        ),
        GROUPED_BY_TOPIC.. => LeaderAndIsrResponse::default().with_partition_errors(
            request
                .topic_states
                .into_iter()
                .flat_map(|topic| {
                    let name = topic.topic_name;
                    let offline = move |state| offline(&state).with_topic_name(name.clone());
                    topic.partition_states.into_iter().map(offline)
                })
                .collect(),
        ),
        _ => LeaderAndIsrResponse::default().with_partition_errors(
            request
                .ungrouped_partition_states
                .into_iter()
                .map(|state| offline(&state).with_topic_name(state.topic_name))
                .collect(),
        ),
    };
    encode_response::<LeaderAndIsrRequest>(header.version, header.correlation_id, &response)
}

fn offline_topic(topic: LeaderAndIsrTopicState) -> LeaderAndIsrTopicError {
    LeaderAndIsrTopicError::default()
        .with_topic_id(topic.topic_id)
        .with_partition_errors(topic.partition_states.iter().map(offline).collect())
}

fn offline(state: &LeaderAndIsrPartitionState) -> LeaderAndIsrPartitionError {
    LeaderAndIsrPartitionError::default()
        .with_partition_index(state.partition_index)
        .with_error_code(KafkaError::KAFKA_STORAGE_ERROR.0)
}

pub(super) fn update_metadata(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Frame, CodecError> {
    decode_request::<UpdateMetadataRequest>(header, payload)?;
    let response = UpdateMetadataResponse::default();
    encode_response::<UpdateMetadataRequest>(header.version, header.correlation_id, &response)
}

pub(super) fn stop_replica(header: &RequestHeader, payload: &Bytes) -> Result<Frame, CodecError> {
    let request: StopReplicaRequest = decode_request(header, payload)?;
    // Of the three shapes a version has one; the others are empty.
    let version_0 = request.ungrouped_partitions.into_iter();
    let version_0 = version_0.map(|stopped| (stopped.topic_name, stopped.partition_index));
    let versions_1_2 = request
        .topics
        .into_iter()
        .flat_map(|topic| named(topic.name, topic.partition_indexes));
    let versions_3_on = request.topic_states.into_iter().flat_map(|topic| {
        let states = topic.partition_states.iter();
        let partitions = states.map(|state| state.partition_index).collect();
        named(topic.topic_name, partitions)
    });
    let stopped = version_0.chain(versions_1_2).chain(versions_3_on);
    let agreed = stopped.map(|(topic, partition)| {
        StopReplicaPartitionError::default()
            .with_topic_name(topic)
            .with_partition_index(partition)
            .with_error_code(KafkaError::NONE.0)
    });
    let response = StopReplicaResponse::default().with_partition_errors(agreed.collect());
    encode_response::<StopReplicaRequest>(header.version, header.correlation_id, &response)
}

fn named(topic: TopicName, partitions: Vec<i32>) -> impl Iterator<Item = (TopicName, i32)> {
    partitions
        .into_iter()
        .map(move |partition| (topic.clone(), partition))
}

#[cfg(test)]
mod tests {
    use super::*;
    use klamm_codec::messages::stop_replica_request::{
        StopReplicaPartitionState, StopReplicaPartitionV0, StopReplicaTopicState,
        StopReplicaTopicV1,
    };
    use klamm_codec::request::{Api, encode_request, parse_header};
    use klamm_codec::response::{correlation_id, decode_response};
    use klamm_codec::{StrBytes, Uuid};

    fn topic(name: &'static str) -> TopicName {
        TopicName(StrBytes::from_static_str(name))
    }

    /// Asks in one version and returns the decoded answer.
    fn ask<A: Api>(
        version: i16,
        request: &A,
        answer: fn(&RequestHeader, &Bytes) -> Result<Frame, CodecError>,
    ) -> A::Response {
        let payload = encode_request(version, 7, Some("1"), request).unwrap();
        let payload = payload.to_bytes().slice(4..);
        let header = parse_header(&payload).unwrap();
        let answered = answer(&header, &payload).unwrap().to_bytes().slice(4..);
        assert_eq!(correlation_id(&answered), Ok(7));
        decode_response::<A>(version, &answered).unwrap()
    }

    fn state(partition: i32) -> LeaderAndIsrPartitionState {
        LeaderAndIsrPartitionState::default().with_partition_index(partition)
    }

    #[test]
    fn every_replica_that_a_controller_wants_on_klamm_is_offline_in_all_versions() {
        for version in 0..=7 {
            let id = Uuid::from_u128(99);
            let request = match version {
                0..=1 => LeaderAndIsrRequest::default().with_ungrouped_partition_states(vec![
                    state(0).with_topic_name(topic("a")),
                    state(1).with_topic_name(topic("a")),
                ]),
                _ => LeaderAndIsrRequest::default().with_topic_states(vec![
                    LeaderAndIsrTopicState::default()
                        .with_topic_name(topic("a"))
                        .with_topic_id(if version >= 5 { id } else { Uuid::nil() })
                        .with_partition_states(vec![state(0), state(1)]),
                ]),
            };
            let said = ask(version, &request, leader_and_isr);
            assert_eq!(
                said.error_code, 0,
                "v{version}: the request itself is in order"
            );
            let errors = match version {
                TOPICS_BY_ID.. => {
                    assert_eq!(said.topics.len(), 1);
                    assert_eq!(said.topics[0].topic_id, id, "v{version}");
                    said.topics[0].partition_errors.clone()
                }
                _ => {
                    for error in &said.partition_errors {
                        assert_eq!(error.topic_name, topic("a"), "v{version}");
                    }
                    said.partition_errors.clone()
                }
            };
            let errors: Vec<_> = errors
                .iter()
                .map(|error| (error.partition_index, error.error_code))
                .collect();
            assert_eq!(errors, [(0, 56), (1, 56)], "v{version}");
        }
    }

    #[test]
    fn stopping_replicas_that_klamm_never_had_is_agreed_to_in_all_versions() {
        for version in 0..=4 {
            let request = StopReplicaRequest::default();
            let request = match version {
                0 => request.with_ungrouped_partitions(vec![
                    StopReplicaPartitionV0::default()
                        .with_topic_name(topic("a"))
                        .with_partition_index(3),
                ]),
                1..=2 => request.with_topics(vec![
                    StopReplicaTopicV1::default()
                        .with_name(topic("a"))
                        .with_partition_indexes(vec![3]),
                ]),
                _ => request.with_topic_states(vec![
                    StopReplicaTopicState::default()
                        .with_topic_name(topic("a"))
                        .with_partition_states(vec![
                            StopReplicaPartitionState::default().with_partition_index(3),
                        ]),
                ]),
            };
            let said = ask(version, &request, stop_replica);
            assert_eq!(said.error_code, 0, "v{version}");
            let agreed = StopReplicaPartitionError::default()
                .with_topic_name(topic("a"))
                .with_partition_index(3);
            assert_eq!(said.partition_errors, [agreed], "v{version}");
        }
    }

    #[test]
    fn metadata_from_a_controller_is_agreed_to_in_all_versions() {
        for version in 0..=8 {
            let said = ask(version, &UpdateMetadataRequest::default(), update_metadata);
            assert_eq!(said.error_code, 0, "v{version}");
        }
    }
}
