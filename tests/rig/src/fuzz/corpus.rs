//! What fuzzing begins with: the frames of `fixtures/wire`, and a short and a full value of each message in each version.
//!
//! The values are encoded by kafka-protocol itself, not by klamm's codec: what is under test must not be what tests it.

use std::fs;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest,
    AlterPartitionResponse, ApiVersionsRequest, ApiVersionsResponse, BrokerId,
    ControlledShutdownRequest, ControlledShutdownResponse, CreateTopicsRequest,
    CreateTopicsResponse, ProducerId, RequestHeader, ResponseHeader, TopicName,
    alter_partition_response, api_versions_response, controlled_shutdown_response,
};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use klamm_codec::capture::{self, ReadOptions, What};
use klamm_codec::{ApiKey, Direction, Uuid};

use crate::workspace;

/// A message that is under test, with values to begin with.
pub trait Subject: Request {
    fn full(version: i16) -> Self;
    fn full_response(version: i16) -> Self::Response;
}

/// A payload (a frame without its length prefix) of a capture.
#[derive(Debug, Clone)]
pub struct Captured {
    pub key: ApiKey,
    pub version: i16,
    pub direction: Direction,
    pub payload: Bytes,
}

/// Every request and answer in `fixtures/wire`.
///
/// # Errors
/// When the captures cannot be read.
pub fn captured() -> Result<Vec<Captured>> {
    let folder = workspace::root().join("fixtures/wire");
    let listed =
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = listed
        .map(|file| Ok(file?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "pcapng"));
    // One seed means the same on every machine.
    files.sort();
    let mut found = Vec::new();
    for file in &files {
        let bytes =
            Bytes::from(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        let read = capture::read(&bytes, &ReadOptions::default())
            .with_context(|| format!("{} is no capture", file.display()))?;
        found.extend(
            read.entries
                .into_iter()
                .flat_map(|entry| payloads(entry.what)),
        );
    }
    if found.is_empty() {
        bail!("{} holds no captures", folder.display());
    }
    Ok(found)
}

fn payloads(what: What) -> Vec<Captured> {
    let What::Request {
        header,
        request,
        answer,
    } = what
    else {
        return Vec::new();
    };
    let captured = |direction, payload| Captured {
        key: header.key,
        version: header.version,
        direction,
        payload,
    };
    let answer = answer.map(|answer| captured(Direction::Response, answer.payload));
    [captured(Direction::Request, request.payload)]
        .into_iter()
        .chain(answer)
        .collect()
}

/// A request with its header and without its length prefix; `None` where this version can't say it.
pub fn request_payload<R: Request>(version: i16, request: &R) -> Option<Bytes> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(7)
        .with_client_id(Some(StrBytes::from_static_str("klamm-rig")));
    let mut payload = BytesMut::new();
    header
        .encode(&mut payload, R::header_version(version))
        .ok()?;
    request.encode(&mut payload, version).ok()?;
    Some(payload.freeze())
}

/// An answer with its header and without its length prefix; `None` where this version can't say it.
pub fn response_payload<R: Request>(version: i16, response: &R::Response) -> Option<Bytes> {
    let header = ResponseHeader::default().with_correlation_id(7);
    let mut payload = BytesMut::new();
    header
        .encode(&mut payload, R::Response::header_version(version))
        .ok()?;
    response.encode(&mut payload, version).ok()?;
    Some(payload.freeze())
}

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("fuzzed"))
}

fn ids() -> Vec<BrokerId> {
    vec![BrokerId(1_000_001), BrokerId(1_000_002)]
}

impl Subject for ControlledShutdownRequest {
    /// Of a broker that no cluster has.
    fn full(version: i16) -> Self {
        let request = Self::default().with_broker_id(BrokerId(1_000_001));
        match version {
            2.. => request.with_broker_epoch(77),
            _ => request,
        }
    }

    fn full_response(_: i16) -> ControlledShutdownResponse {
        let left = |index| {
            controlled_shutdown_response::RemainingPartition::default()
                .with_topic_name(topic())
                .with_partition_index(index)
        };
        ControlledShutdownResponse::default().with_remaining_partitions(vec![left(0), left(5)])
    }
}

impl Subject for ApiVersionsRequest {
    fn full(version: i16) -> Self {
        match version {
            3.. => Self::default()
                .with_client_software_name(StrBytes::from_static_str("klamm-rig"))
                .with_client_software_version(StrBytes::from_static_str("1")),
            _ => Self::default(),
        }
    }

    fn full_response(version: i16) -> ApiVersionsResponse {
        use api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
        let keys = (0..80).map(|key| ApiVersion::default().with_api_key(key).with_max_version(9));
        let response = ApiVersionsResponse::default().with_api_keys(keys.collect());
        if version < 3 {
            return response;
        }
        let name = || StrBytes::from_static_str("metadata.version");
        let supported = SupportedFeatureKey::default()
            .with_name(name())
            .with_min_version(1)
            .with_max_version(3);
        let finalized = FinalizedFeatureKey::default()
            .with_name(name())
            .with_max_version_level(3);
        response
            .with_supported_features(vec![supported])
            .with_finalized_features(vec![finalized])
            .with_finalized_features_epoch(5)
            .with_zk_migration_ready(true)
    }
}

impl Subject for CreateTopicsRequest {
    /// Creates nothing where the version can ask so.
    fn full(version: i16) -> Self {
        let assigned = CreatableReplicaAssignment::default().with_broker_ids(ids());
        let set = CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str("retention.ms"))
            .with_value(Some(StrBytes::from_static_str("1000")));
        let asked = CreatableTopic::default()
            .with_name(topic())
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(vec![assigned])
            .with_configs(vec![set]);
        Self::default()
            .with_topics(vec![asked])
            .with_timeout_ms(1)
            .with_validate_only(version >= 1)
    }

    fn full_response(version: i16) -> CreateTopicsResponse {
        let result = CreatableTopicResult::default()
            .with_name(topic())
            .with_error_code(38);
        let message = (version >= 1).then(|| StrBytes::from_static_str("too many"));
        let result = result.with_error_message(message);
        let result = match version {
            5.. => result
                .with_num_partitions(3)
                .with_replication_factor(2)
                .with_topic_config_error_code(29)
                .with_configs(Some(vec![
                    CreatableTopicConfigs::default()
                        .with_name(StrBytes::from_static_str("retention.ms"))
                        .with_value(Some(StrBytes::from_static_str("1000"))),
                ])),
            _ => result,
        };
        CreateTopicsResponse::default().with_topics(vec![result])
    }
}

impl Subject for AlterPartitionRequest {
    fn full(version: i16) -> Self {
        let asked = PartitionData::default()
            .with_partition_index(1)
            .with_leader_epoch(2);
        let asked = match version {
            3.. => asked.with_new_isr_with_epochs(
                ids()
                    .into_iter()
                    .map(|id| {
                        BrokerState::default()
                            .with_broker_id(id)
                            .with_broker_epoch(9)
                    })
                    .collect(),
            ),
            _ => asked.with_new_isr(ids()),
        };
        let about = TopicData::default().with_partitions(vec![asked]);
        let about = match version {
            2.. => about.with_topic_id(Uuid::from_u128(99)),
            _ => about.with_topic_name(topic()),
        };
        Self::default()
            .with_broker_id(BrokerId(1_000_001))
            .with_broker_epoch(77)
            .with_topics(vec![about])
    }

    fn full_response(version: i16) -> AlterPartitionResponse {
        let said = alter_partition_response::PartitionData::default()
            .with_leader_id(BrokerId(1))
            .with_isr(ids())
            .with_leader_recovery_state(i8::from(version >= 1));
        let about = alter_partition_response::TopicData::default().with_partitions(vec![said]);
        let about = match version {
            2.. => about.with_topic_id(Uuid::from_u128(99)),
            _ => about.with_topic_name(topic()),
        };
        AlterPartitionResponse::default().with_topics(vec![about])
    }
}

impl Subject for AllocateProducerIdsRequest {
    fn full(_: i16) -> Self {
        Self::default()
            .with_broker_id(BrokerId(1_000_001))
            .with_broker_epoch(77)
    }

    fn full_response(_: i16) -> AllocateProducerIdsResponse {
        AllocateProducerIdsResponse::default()
            .with_producer_id_start(ProducerId(5000))
            .with_producer_id_len(1000)
    }
}
