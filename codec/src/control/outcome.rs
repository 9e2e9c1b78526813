//! What a broker says to the three control requests, as plain data. Error codes are Kafka's numbers; what to do about
//! them is the controller's business.

use crate::error::CodecError;
use crate::request::Api;
use crate::response::decode_response;
use crate::version::{LeaderAndIsrVersion, StopReplicaVersion, UpdateMetadataVersion};
use bytes::Bytes;
use kafka_protocol::messages::leader_and_isr_response::LeaderAndIsrPartitionError;
use kafka_protocol::messages::{LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest};
use std::sync::Arc;

/// By what an answer names a topic. A name is a copy: it does not keep the frame that it came in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKey {
    Name(Arc<str>),
    Id([u8; 16]),
}

/// LeaderAndIsr: up to version 4 by name, from 5 on by topic id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAndIsrOutcome {
    pub error_code: i16,
    /// Topic, partition, error code; in the order of the answer, partitions without an error among them.
    pub partitions: Vec<(TopicKey, i32, i16)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReplicaOutcome {
    pub error_code: i16,
    /// Topic, partition, error code; in the order of the answer. May be empty where the request as a whole failed.
    pub partitions: Vec<(Arc<str>, i32, i16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateMetadataOutcome {
    pub error_code: i16,
}

/// Decodes the payload that answers a LeaderAndIsr of this version.
pub fn leader_and_isr_outcome(
    version: LeaderAndIsrVersion,
    payload: &Bytes,
) -> Result<LeaderAndIsrOutcome, CodecError> {
    let response = decode_response::<LeaderAndIsrRequest>(version.get(), payload)?;
    let mut names = Names::default();
    let by_name = response.partition_errors.iter().map(|error| {
        (
            TopicKey::Name(names.shared(&error.topic_name)),
            error.partition_index,
            error.error_code,
        )
    });
    let mut partitions: Vec<_> = by_name.collect();
    for topic in &response.topics {
        let key = TopicKey::Id(topic.topic_id.into_bytes());
        let of_topic = |error: &LeaderAndIsrPartitionError| {
            (key.clone(), error.partition_index, error.error_code)
        };
        partitions.extend(topic.partition_errors.iter().map(of_topic));
    }
    Ok(LeaderAndIsrOutcome {
        error_code: response.error_code,
        partitions,
    })
}

/// Decodes the payload that answers a StopReplica of this version.
pub fn stop_replica_outcome(
    version: StopReplicaVersion,
    payload: &Bytes,
) -> Result<StopReplicaOutcome, CodecError> {
    let response = decode_response::<StopReplicaRequest>(version.get(), payload)?;
    let mut names = Names::default();
    let partitions = response.partition_errors.iter();
    let partitions = partitions.map(|error| {
        (
            names.shared(&error.topic_name),
            error.partition_index,
            error.error_code,
        )
    });
    Ok(StopReplicaOutcome {
        error_code: response.error_code,
        partitions: partitions.collect(),
    })
}

/// Decodes the payload that answers an UpdateMetadata of this version.
pub fn update_metadata_outcome(
    version: UpdateMetadataVersion,
    payload: &Bytes,
) -> Result<UpdateMetadataOutcome, CodecError> {
    type Response = <UpdateMetadataRequest as Api>::Response;
    let Response { error_code, .. } =
        decode_response::<UpdateMetadataRequest>(version.get(), payload)?;
    Ok(UpdateMetadataOutcome { error_code })
}

/// Partitions of a topic follow each other: their names are one allocation.
#[derive(Default)]
struct Names {
    last: Option<Arc<str>>,
}

impl Names {
    fn shared(&mut self, name: &str) -> Arc<str> {
        match &self.last {
            Some(last) if **last == *name => Arc::clone(last),
            _ => Arc::clone(self.last.insert(Arc::from(name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::encode_response;
    use kafka_protocol::messages::leader_and_isr_response::LeaderAndIsrTopicError;
    use kafka_protocol::messages::stop_replica_response::StopReplicaPartitionError;
    use kafka_protocol::messages::{
        LeaderAndIsrResponse, StopReplicaResponse, TopicName, UpdateMetadataResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    fn topic(name: &'static str) -> TopicName {
        StrBytes::from_static_str(name).into()
    }

    fn payload<A: Api>(version: i16, response: &A::Response) -> Bytes {
        encode_response::<A>(version, 1, response)
            .unwrap()
            .to_bytes()
            .slice(4..)
    }

    fn failed(partition: i32, code: i16) -> LeaderAndIsrPartitionError {
        LeaderAndIsrPartitionError::default()
            .with_partition_index(partition)
            .with_error_code(code)
    }

    #[test]
    fn leader_and_isr_answers_by_name_up_to_version_4() {
        let response = LeaderAndIsrResponse::default().with_partition_errors(vec![
            failed(0, 0).with_topic_name(topic("orders")),
            failed(1, 56).with_topic_name(topic("orders")),
            failed(0, 11).with_topic_name(topic("stock")),
        ]);
        let name = |name: &str| TopicKey::Name(Arc::from(name));
        for version in 1..=4 {
            let payload = payload::<LeaderAndIsrRequest>(version, &response);
            let version = LeaderAndIsrVersion::new(version).unwrap();
            let outcome = leader_and_isr_outcome(version, &payload).unwrap();
            let wanted = vec![
                (name("orders"), 0, 0),
                (name("orders"), 1, 56),
                (name("stock"), 0, 11),
            ];
            assert_eq!(
                outcome,
                LeaderAndIsrOutcome {
                    error_code: 0,
                    partitions: wanted
                }
            );
        }
    }

    #[test]
    fn leader_and_isr_answers_by_topic_id_from_version_5_on() {
        let orders = LeaderAndIsrTopicError::default()
            .with_topic_id(uuid::Uuid::from_bytes([7; 16]))
            .with_partition_errors(vec![failed(3, 0), failed(4, 37)]);
        let response = LeaderAndIsrResponse::default().with_topics(vec![orders]);
        for version in 5..=7 {
            let payload = payload::<LeaderAndIsrRequest>(version, &response);
            let version = LeaderAndIsrVersion::new(version).unwrap();
            let outcome = leader_and_isr_outcome(version, &payload).unwrap();
            let id = TopicKey::Id([7; 16]);
            assert_eq!(outcome.partitions, [(id.clone(), 3, 0), (id, 4, 37)]);
        }
    }

    #[test]
    fn a_request_that_failed_as_a_whole_says_so() {
        let response = LeaderAndIsrResponse::default().with_error_code(11);
        let outcome = leader_and_isr_outcome(
            LeaderAndIsrVersion::MAX,
            &payload::<LeaderAndIsrRequest>(7, &response),
        );
        assert_eq!(
            outcome,
            Ok(LeaderAndIsrOutcome {
                error_code: 11,
                partitions: vec![]
            })
        );
        let response = UpdateMetadataResponse::default().with_error_code(77);
        for version in 4..=8 {
            let payload = payload::<UpdateMetadataRequest>(version, &response);
            let outcome =
                update_metadata_outcome(UpdateMetadataVersion::new(version).unwrap(), &payload);
            assert_eq!(outcome, Ok(UpdateMetadataOutcome { error_code: 77 }));
        }
    }

    #[test]
    fn stop_replica_answers_by_name_in_every_version() {
        let stopped = StopReplicaPartitionError::default()
            .with_topic_name(topic("orders"))
            .with_partition_index(2);
        let response =
            StopReplicaResponse::default().with_partition_errors(vec![stopped.with_error_code(75)]);
        for version in 0..=4 {
            let payload = payload::<StopReplicaRequest>(version, &response);
            let outcome =
                stop_replica_outcome(StopReplicaVersion::new(version).unwrap(), &payload).unwrap();
            let wanted = vec![(Arc::from("orders"), 2, 75)];
            assert_eq!(
                outcome,
                StopReplicaOutcome {
                    error_code: 0,
                    partitions: wanted
                }
            );
        }
    }
}
