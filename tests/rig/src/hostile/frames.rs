//! What a hostile client sends: sound requests of every API in every version, damaged ones, and noise, all from one seed.
//!
//! Against genuine brokers two things are held back, for they would harm the cluster as they would without klamm, or make
//! a broker log what is no fault of klamm's:
//! - klamm relays only versions that the broker understands, but a body that is garbage behind a sound header of a relayed
//!   API does reach the broker, which then logs an ERROR and closes the connection. So requests of relayed APIs either
//!   have bodies that brokers take without a word, or versions that nobody knows;
//! - ControlledShutdown up to version 1 needs no more than a broker's id to move all leaders off it, and CreateTopics in
//!   version 0 can't merely ask. So requests that decode and would do something get versions that nobody knows.

use anyhow::Result;
use bytes::Bytes;
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddRaftVoterRequest,
    AllocateProducerIdsRequest, AlterClientQuotasRequest, AlterConfigsRequest,
    AlterPartitionReassignmentsRequest, AlterPartitionRequest, AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest, ApiVersionsRequest, AssignReplicasToDirsRequest,
    BeginQuorumEpochRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest,
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ControlledShutdownRequest,
    ControllerRegistrationRequest, CreateAclsRequest, CreateDelegationTokenRequest,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeAclsRequest, DescribeClientQuotasRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeDelegationTokenRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, EndQuorumEpochRequest, EndTxnRequest,
    EnvelopeRequest, ExpireDelegationTokenRequest, FetchRequest, FetchSnapshotRequest,
    FindCoordinatorRequest, GetTelemetrySubscriptionsRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaderAndIsrRequest,
    LeaveGroupRequest, ListClientMetricsResourcesRequest, ListGroupsRequest, ListOffsetsRequest,
    ListPartitionReassignmentsRequest, ListTransactionsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    ProduceRequest, PushTelemetryRequest, RemoveRaftVoterRequest, RenewDelegationTokenRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest, StopReplicaRequest, SyncGroupRequest,
    TxnOffsetCommitRequest, UnregisterBrokerRequest, UpdateFeaturesRequest, UpdateMetadataRequest,
    UpdateRaftVoterRequest, VoteRequest, WriteTxnMarkersRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};
use klamm_codec::request::{decode_request, parse_header};
use klamm_codec::{ApiKey, Direction};

use crate::fuzz::corpus::{self, Subject};
use crate::random::{Random, mutate};

/// Key, version and correlation id.
const HEADER: usize = 8;
/// Where the version stands.
const VERSION: std::ops::Range<usize> = 2..4;
/// Captured requests beyond so many bytes would make each flood one of the network.
const CAPTURED_BYTES_MAX: usize = 16 * 1024;
/// From here on nobody knows a version.
const UNKNOWN_VERSION: u16 = 0x4000;
/// Ids below this may be a genuine broker's.
const GENUINE_ID_MAX: i32 = 1_000_000;

/// APIs that klamm may relay: see `duty` in its `src/api/handlers.rs`.
const RELAYED: [ApiKey; 17] = [
    ApiKey::METADATA,
    ApiKey::FIND_COORDINATOR,
    ApiKey::INIT_PRODUCER_ID,
    ApiKey::DESCRIBE_ACLS,
    ApiKey::CREATE_ACLS,
    ApiKey::DELETE_ACLS,
    ApiKey::DESCRIBE_CONFIGS,
    ApiKey::ALTER_CONFIGS,
    ApiKey::INCREMENTAL_ALTER_CONFIGS,
    ApiKey::CREATE_DELEGATION_TOKEN,
    ApiKey::RENEW_DELEGATION_TOKEN,
    ApiKey::EXPIRE_DELEGATION_TOKEN,
    ApiKey::DESCRIBE_DELEGATION_TOKEN,
    ApiKey::DESCRIBE_CLIENT_QUOTAS,
    ApiKey::ALTER_CLIENT_QUOTAS,
    ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey::DESCRIBE_CLUSTER,
];

/// Of those, the ones whose shortest body a broker takes without a word and without effect. The others create a topic
/// (FindCoordinator of a group), are refused as malformed (DescribeAcls), or need what the rig's clusters don't have.
const HARMLESS: [ApiKey; 8] = [
    ApiKey::METADATA,
    ApiKey::INIT_PRODUCER_ID,
    ApiKey::DESCRIBE_CONFIGS,
    ApiKey::ALTER_CONFIGS,
    ApiKey::INCREMENTAL_ALTER_CONFIGS,
    ApiKey::DESCRIBE_CLIENT_QUOTAS,
    ApiKey::ALTER_CLIENT_QUOTAS,
    ApiKey::DESCRIBE_CLUSTER,
];

/// Who stands behind klamm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Genuine brokers, which log what they can't read.
    GenuineBrokers,
    /// Something that answers whatever comes.
    Anything,
}

/// Whether a payload is as kafka-protocol or a genuine process made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sound,
    Damaged,
}

/// Makes payloads: frames without their length prefix, of a header's size at least.
#[derive(Debug, Clone)]
pub struct Frames {
    sound: Vec<Bytes>,
    behind: Behind,
}

impl Frames {
    /// # Errors
    /// When the captures in `fixtures/wire` can't be read.
    pub fn new(behind: Behind) -> Result<Self> {
        let mut sound = shortest();
        sound.extend(full());
        let captured = corpus::captured()?.into_iter();
        let requests = captured.filter(|captured| {
            captured.direction == Direction::Request && captured.payload.len() <= CAPTURED_BYTES_MAX
        });
        sound.extend(requests.map(|captured| captured.payload));
        // One of each size and version is enough: captures repeat themselves.
        sound.sort_by(|one, other| (one.get(..4), one.len()).cmp(&(other.get(..4), other.len())));
        sound.dedup_by(|one, other| one.get(..4) == other.get(..4) && one.len() == other.len());
        Ok(Self { sound, behind })
    }

    /// Every API and version that there is a sound request of.
    pub fn messages(&self) -> usize {
        let mut heads: Vec<_> = self.sound.iter().map(|sound| sound.get(..4)).collect();
        heads.dedup();
        heads.len()
    }

    /// The next payload; the first of all turns go through every API and version.
    pub fn next(&self, random: &mut Random, turn: usize, correlation_id: i32) -> Vec<u8> {
        let sound = self.sound.get(turn % self.sound.len().max(1));
        let mut payload = sound.map_or_else(Vec::new, |sound| sound.to_vec());
        let state = match random.below(8) {
            0 => State::Sound,
            1 => {
                payload = noise(random);
                State::Damaged
            }
            2 => {
                mutate(random, &mut payload, 0);
                State::Damaged
            }
            _ => {
                mutate(random, &mut payload, HEADER);
                State::Damaged
            }
        };
        if payload.len() < HEADER {
            payload.resize(HEADER, 0);
        }
        if let Some(place) = payload.get_mut(4..HEADER) {
            place.copy_from_slice(&correlation_id.to_be_bytes());
        }
        if self.behind == Behind::GenuineBrokers && would_harm(&payload, state) {
            make_unknown(random, &mut payload);
        }
        payload
    }
}

/// A key that may exist, a version that may, and whatever after it.
fn noise(random: &mut Random) -> Vec<u8> {
    let count = HEADER + random.below(300);
    let mut bytes = random.bytes(count);
    if !random.once_in(4) {
        let key = u8::try_from(random.below(90)).unwrap_or(0);
        let version = u8::try_from(random.below(20)).unwrap_or(0);
        bytes.splice(..4, [0, key, 0, version]);
    }
    bytes
}

fn would_harm(payload: &[u8], state: State) -> bool {
    let payload = Bytes::copy_from_slice(payload);
    let Some(key) = payload.first_chunk::<2>() else {
        return false;
    };
    let key = ApiKey(i16::from_be_bytes(*key));
    if RELAYED.contains(&key) {
        return state == State::Damaged || !HARMLESS.contains(&key);
    }
    let Ok(header) = parse_header(&payload) else {
        return false;
    };
    match key {
        ApiKey::CONTROLLED_SHUTDOWN => {
            decode_request::<ControlledShutdownRequest>(&header, &payload)
                .is_ok_and(|asked| (0..GENUINE_ID_MAX).contains(&asked.broker_id.0))
        }
        ApiKey::CREATE_TOPICS => decode_request::<CreateTopicsRequest>(&header, &payload)
            .is_ok_and(|asked| !asked.validate_only),
        _ => false,
    }
}

fn make_unknown(random: &mut Random, payload: &mut [u8]) {
    let version = UNKNOWN_VERSION | u16::from(random.byte());
    if let Some(place) = payload.get_mut(VERSION) {
        place.copy_from_slice(&version.to_be_bytes());
    }
}

/// Each request of which kafka-protocol knows anything, at its shortest, in each version.
fn shortest() -> Vec<Bytes> {
    let mut all = Vec::new();
    macro_rules! each {
        ($($request:ident)*) => { $(push_versions(&mut all, |_| $request::default());)* };
    }
    each! {
        ProduceRequest FetchRequest ListOffsetsRequest MetadataRequest LeaderAndIsrRequest StopReplicaRequest
        UpdateMetadataRequest ControlledShutdownRequest OffsetCommitRequest OffsetFetchRequest FindCoordinatorRequest
        JoinGroupRequest HeartbeatRequest LeaveGroupRequest SyncGroupRequest DescribeGroupsRequest ListGroupsRequest
        SaslHandshakeRequest ApiVersionsRequest CreateTopicsRequest DeleteTopicsRequest DeleteRecordsRequest
        OffsetForLeaderEpochRequest AddPartitionsToTxnRequest AddOffsetsToTxnRequest EndTxnRequest
        WriteTxnMarkersRequest TxnOffsetCommitRequest DescribeAclsRequest CreateAclsRequest DeleteAclsRequest
        DescribeConfigsRequest AlterConfigsRequest AlterReplicaLogDirsRequest DescribeLogDirsRequest
        SaslAuthenticateRequest CreatePartitionsRequest CreateDelegationTokenRequest RenewDelegationTokenRequest
        ExpireDelegationTokenRequest DescribeDelegationTokenRequest DeleteGroupsRequest ElectLeadersRequest
        IncrementalAlterConfigsRequest AlterPartitionReassignmentsRequest ListPartitionReassignmentsRequest
        OffsetDeleteRequest DescribeClientQuotasRequest AlterClientQuotasRequest DescribeUserScramCredentialsRequest
        AlterUserScramCredentialsRequest VoteRequest BeginQuorumEpochRequest EndQuorumEpochRequest
        DescribeQuorumRequest AlterPartitionRequest UpdateFeaturesRequest EnvelopeRequest FetchSnapshotRequest
        DescribeClusterRequest DescribeProducersRequest BrokerRegistrationRequest BrokerHeartbeatRequest
        UnregisterBrokerRequest DescribeTransactionsRequest ListTransactionsRequest AllocateProducerIdsRequest
        ConsumerGroupHeartbeatRequest ConsumerGroupDescribeRequest ControllerRegistrationRequest
        GetTelemetrySubscriptionsRequest PushTelemetryRequest AssignReplicasToDirsRequest
        ListClientMetricsResourcesRequest DescribeTopicPartitionsRequest AddRaftVoterRequest RemoveRaftVoterRequest
        UpdateRaftVoterRequest
    }
    // Of a producer without transactions: any node may answer it.
    push_versions(&mut all, |_| {
        InitProducerIdRequest::default().with_transactional_id(None)
    });
    all
}

/// What no broker leads here: a batch that is none.
fn produce() -> ProduceRequest {
    let batch = PartitionProduceData::default().with_records(Some(Bytes::from_static(&[0; 64])));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_static_str("fuzzed")))
        .with_partition_data(vec![batch]);
    ProduceRequest::default()
        .with_acks(1)
        .with_topic_data(vec![topic])
}

/// The requests that brokers make of their controller, and one for a leader, with everything in them.
fn full() -> Vec<Bytes> {
    let mut all = Vec::new();
    push_versions(&mut all, ControlledShutdownRequest::full);
    push_versions(&mut all, ApiVersionsRequest::full);
    push_versions(&mut all, CreateTopicsRequest::full);
    push_versions(&mut all, AlterPartitionRequest::full);
    push_versions(&mut all, AllocateProducerIdsRequest::full);
    push_versions(&mut all, |_| produce());
    all
}

fn push_versions<R: Request>(all: &mut Vec<Bytes>, request: impl Fn(i16) -> R) {
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        all.extend(corpus::request_payload(version, &request(version)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn header(payload: &[u8]) -> (i16, u16) {
        (
            i16::from_be_bytes([payload[0], payload[1]]),
            u16::from_be_bytes([payload[2], payload[3]]),
        )
    }

    #[test]
    fn every_api_of_kafka_3_9_is_among_the_requests() {
        let frames = Frames::new(Behind::Anything).unwrap();
        let keys: BTreeSet<i16> = frames.sound.iter().map(|sound| header(sound).0).collect();
        let missing: Vec<i16> = (0..=75).filter(|key| !keys.contains(key)).collect();
        assert_eq!(missing, [] as [i16; 0]);
        assert!(frames.messages() > 250, "{}", frames.messages());
    }

    #[test]
    fn genuine_brokers_get_nothing_damaged_and_nobody_is_shut_down_or_created() {
        let frames = Frames::new(Behind::GenuineBrokers).unwrap();
        let sound: BTreeSet<Vec<u8>> = frames
            .sound
            .iter()
            .map(|sound| [&sound[..4], &sound[8..]].concat())
            .collect();
        let mut random = Random::new(1);
        let (mut relayed, mut unknown) = (0, 0);
        for turn in 0..20_000 {
            let payload = frames.next(&mut random, turn, 9);
            let (key, version) = header(&payload);
            if version >= UNKNOWN_VERSION {
                unknown += 1;
                continue;
            }
            let all = Bytes::from(payload.clone());
            let header = parse_header(&all);
            if RELAYED.contains(&ApiKey(key)) {
                relayed += 1;
                assert!(
                    sound.contains(&[&payload[..4], &payload[8..]].concat()),
                    "{key} v{version}"
                );
            } else if let Ok(header) = header {
                let leaving = decode_request::<ControlledShutdownRequest>(&header, &all);
                assert!(leaving.is_err() || !(0..1000).contains(&leaving.unwrap().broker_id.0));
                let created = decode_request::<CreateTopicsRequest>(&header, &all);
                assert!(created.is_err() || created.unwrap().validate_only);
            }
        }
        assert!(
            relayed > 50 && unknown > 1000,
            "{relayed} relayed, {unknown} unknown"
        );
    }
}
