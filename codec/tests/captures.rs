//! The captures in `fixtures/wire` against the codec: what the genuine controller and brokers said decodes, encodes again
//! to the same bytes, and klamm's own encoder of the control requests makes the same bytes from the decoded view.

#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use klamm_codec::bytes::Bytes;
use klamm_codec::capture::{self, ReadOptions, What};
use klamm_codec::control::{
    ControlRequest, ControllerView, EndpointView, LiveBrokerView, LiveLeaderView, PartitionView,
    StopReplicaTopicView, StopReplicaView, TopicView, UpdateMetadataBody, leader_and_isr,
    stop_replica,
};
use klamm_codec::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use klamm_codec::messages::update_metadata_request::UpdateMetadataPartitionState;
use klamm_codec::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, ApiVersionsRequest, BrokerId,
    ControlledShutdownRequest, LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest,
};
use klamm_codec::request::{Api, decode_request, encode_request};
use klamm_codec::response::{
    correlation_id, decode_api_versions, decode_response, encode_response,
};
use klamm_codec::version::{LeaderAndIsrVersion, StopReplicaVersion, UpdateMetadataVersion};
use klamm_codec::{ApiKey, RequestHeader};

/// One request of a capture, with its answer.
struct Exchange {
    capture: String,
    header: RequestHeader,
    request: Bytes,
    answer: Option<Bytes>,
}

impl Exchange {
    fn name(&self) -> String {
        format!(
            "{} {} v{} #{}",
            self.capture, self.header.key, self.header.version, self.header.correlation_id
        )
    }
}

fn exchanges() -> Vec<Exchange> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/wire");
    let mut found = Vec::new();
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "pcapng") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let read = capture::read(&bytes, &ReadOptions::default()).unwrap();
        for entry in read.entries {
            let What::Request {
                header,
                request,
                answer,
            } = entry.what
            else {
                panic!("{name} holds something else than requests: {entry:?}");
            };
            found.push(Exchange {
                capture: name.clone(),
                header,
                request: request.payload,
                answer: answer.map(|answer| answer.payload),
            });
        }
    }
    found
}

#[test]
fn every_version_that_a_java_controller_sends_is_captured() {
    let mut versions: BTreeMap<ApiKey, BTreeSet<i16>> = BTreeMap::new();
    for exchange in exchanges() {
        let Exchange { header, .. } = &exchange;
        versions
            .entry(header.key)
            .or_default()
            .insert(header.version);
    }
    let expected = [
        (ApiKey::LEADER_AND_ISR, (1..=7).collect::<BTreeSet<i16>>()),
        (ApiKey::STOP_REPLICA, (0..=4).collect()),
        (ApiKey::UPDATE_METADATA, (4..=8).collect()),
    ];
    for (key, expected) in expected {
        assert_eq!(versions.get(&key), Some(&expected), "{key}");
    }
    for key in [
        ApiKey::API_VERSIONS,
        ApiKey::CONTROLLED_SHUTDOWN,
        ApiKey::ALTER_PARTITION,
        ApiKey::ALLOCATE_PRODUCER_IDS,
    ] {
        assert!(versions.contains_key(&key), "no {key} was captured");
    }
}

#[test]
fn every_frame_decodes_and_encodes_again_to_the_same_bytes() {
    for exchange in exchanges() {
        match exchange.header.key {
            ApiKey::LEADER_AND_ISR => same_again::<LeaderAndIsrRequest>(&exchange),
            ApiKey::STOP_REPLICA => same_again::<StopReplicaRequest>(&exchange),
            ApiKey::UPDATE_METADATA => same_again::<UpdateMetadataRequest>(&exchange),
            ApiKey::CONTROLLED_SHUTDOWN => same_again::<ControlledShutdownRequest>(&exchange),
            ApiKey::ALTER_PARTITION => same_again::<AlterPartitionRequest>(&exchange),
            ApiKey::ALLOCATE_PRODUCER_IDS => same_again::<AllocateProducerIdsRequest>(&exchange),
            ApiKey::API_VERSIONS => same_versions_again(&exchange),
            key => panic!(
                "{} is of a key that is not recorded: {key}",
                exchange.name()
            ),
        }
    }
}

fn same_again<A: Api>(exchange: &Exchange) {
    same_request_again::<A>(exchange);
    if let Some(answer) = &exchange.answer {
        let version = exchange.header.version;
        let decoded = decode_response::<A>(version, answer)
            .unwrap_or_else(|error| panic!("{}: {error}", exchange.name()));
        let id = correlation_id(answer).unwrap();
        let again = encode_response::<A>(version, id, &decoded).unwrap();
        assert_eq!(
            again.to_bytes().slice(4..),
            answer,
            "{} answer",
            exchange.name()
        );
    }
}

fn same_request_again<A: Api>(exchange: &Exchange) {
    let Exchange {
        header, request, ..
    } = exchange;
    let decoded: A = decode_request(header, request)
        .unwrap_or_else(|error| panic!("{}: {error}", exchange.name()));
    let again = encode_request(
        header.version,
        header.correlation_id,
        header.client_id.as_deref(),
        &decoded,
    )
    .unwrap();
    assert_eq!(again.to_bytes().slice(4..), request, "{}", exchange.name());
}

/// The answer to a version that a broker doesn't know is one of version 0.
fn same_versions_again(exchange: &Exchange) {
    const UNSUPPORTED_VERSION: i16 = 35;
    same_request_again::<ApiVersionsRequest>(exchange);
    if let Some(answer) = &exchange.answer {
        let asked = exchange.header.version;
        let decoded = decode_api_versions(asked, answer).unwrap();
        let version = if decoded.error_code == UNSUPPORTED_VERSION {
            0
        } else {
            asked
        };
        let id = correlation_id(answer).unwrap();
        let again = encode_response::<ApiVersionsRequest>(version, id, &decoded).unwrap();
        assert_eq!(
            again.to_bytes().slice(4..),
            answer,
            "{} answer",
            exchange.name()
        );
    }
}

#[test]
fn klamms_own_encoder_makes_the_control_requests_that_java_made() {
    let mut compared = BTreeMap::new();
    for exchange in exchanges() {
        let Exchange {
            header, request, ..
        } = &exchange;
        let ours = match header.key {
            ApiKey::LEADER_AND_ISR => our_leader_and_isr(header, request),
            ApiKey::STOP_REPLICA => our_stop_replica(header, request),
            ApiKey::UPDATE_METADATA => our_update_metadata(header, request),
            _ => continue,
        };
        let client = header.client_id.as_deref().unwrap();
        let frame = ours.frame(header.correlation_id, client).unwrap();
        assert_eq!(frame.to_bytes().slice(4..), request, "{}", exchange.name());
        *compared.entry(header.key).or_insert(0) += 1;
    }
    assert_eq!(compared.len(), 3, "{compared:?}");
}

fn our_leader_and_isr(header: &RequestHeader, request: &Bytes) -> ControlRequest {
    let decoded: LeaderAndIsrRequest = decode_request(header, request).unwrap();
    let mut topics: Vec<Topic> = Vec::new();
    for state in &decoded.ungrouped_partition_states {
        in_order(&mut topics, &state.topic_name).push(Partition::ordered(state));
    }
    for topic in &decoded.topic_states {
        topics.push(Topic {
            name: topic.topic_name.to_string(),
            id: topic.topic_id.into_bytes(),
            partitions: topic
                .partition_states
                .iter()
                .map(Partition::ordered)
                .collect(),
        });
    }
    let live_leaders: Vec<LiveLeaderView<'_>> = decoded
        .live_leaders
        .iter()
        .map(|leader| LiveLeaderView {
            id: leader.broker_id.0,
            host: &leader.host_name,
            port: leader.port,
        })
        .collect();
    leader_and_isr(
        LeaderAndIsrVersion::new(header.version).unwrap(),
        controller(decoded.controller_id, decoded.controller_epoch),
        decoded.broker_epoch,
        views(&topics),
        &live_leaders,
    )
    .unwrap()
}

fn our_update_metadata(header: &RequestHeader, request: &Bytes) -> ControlRequest {
    let decoded: UpdateMetadataRequest = decode_request(header, request).unwrap();
    let mut topics: Vec<Topic> = Vec::new();
    for state in &decoded.ungrouped_partition_states {
        in_order(&mut topics, &state.topic_name).push(Partition::shown(state));
    }
    for topic in &decoded.topic_states {
        topics.push(Topic {
            name: topic.topic_name.to_string(),
            id: topic.topic_id.into_bytes(),
            partitions: topic
                .partition_states
                .iter()
                .map(Partition::shown)
                .collect(),
        });
    }
    let endpoints: Vec<Vec<EndpointView<'_>>> = decoded
        .live_brokers
        .iter()
        .map(|broker| {
            let endpoints = broker.endpoints.iter().map(|endpoint| EndpointView {
                port: endpoint.port,
                host: &endpoint.host,
                listener: &endpoint.listener,
                security_protocol: endpoint.security_protocol,
            });
            endpoints.collect()
        })
        .collect();
    let live_brokers: Vec<LiveBrokerView<'_>> = decoded
        .live_brokers
        .iter()
        .zip(&endpoints)
        .map(|(broker, endpoints)| LiveBrokerView {
            id: broker.id.0,
            endpoints,
            rack: broker.rack.as_deref(),
        })
        .collect();
    UpdateMetadataBody::encode(
        UpdateMetadataVersion::new(header.version).unwrap(),
        controller(decoded.controller_id, decoded.controller_epoch),
        views(&topics),
        &live_brokers,
    )
    .unwrap()
    .request(decoded.broker_epoch)
}

fn our_stop_replica(header: &RequestHeader, request: &Bytes) -> ControlRequest {
    let decoded: StopReplicaRequest = decode_request(header, request).unwrap();
    let delete = decoded.delete_partitions;
    let unversioned = |partition: i32| StopReplicaView {
        partition,
        leader_epoch: -1,
        delete,
    };
    let mut topics: Vec<(String, Vec<StopReplicaView>)> = Vec::new();
    for partition in &decoded.ungrouped_partitions {
        let name = partition.topic_name.to_string();
        let stop = unversioned(partition.partition_index);
        match topics.last_mut() {
            Some((last, stops)) if *last == name => stops.push(stop),
            _ => topics.push((name, vec![stop])),
        }
    }
    for topic in &decoded.topics {
        let stops = topic.partition_indexes.iter().copied().map(unversioned);
        topics.push((topic.name.to_string(), stops.collect()));
    }
    for topic in &decoded.topic_states {
        let stops = topic.partition_states.iter().map(|state| StopReplicaView {
            partition: state.partition_index,
            leader_epoch: state.leader_epoch,
            delete: state.delete_partition,
        });
        topics.push((topic.topic_name.to_string(), stops.collect()));
    }
    stop_replica(
        StopReplicaVersion::new(header.version).unwrap(),
        controller(decoded.controller_id, decoded.controller_epoch),
        decoded.broker_epoch,
        topics.iter().map(|(name, stops)| StopReplicaTopicView {
            name,
            partitions: stops.iter().copied(),
        }),
    )
    .unwrap()
}

struct Topic {
    name: String,
    id: [u8; 16],
    partitions: Vec<Partition>,
}

#[derive(Default)]
struct Partition {
    partition: i32,
    controller_epoch: i32,
    leader: i32,
    leader_epoch: i32,
    isr: Vec<i32>,
    partition_epoch: i32,
    replicas: Vec<i32>,
    adding: Vec<i32>,
    removing: Vec<i32>,
    is_new: bool,
    recovering: bool,
    offline_replicas: Vec<i32>,
}

impl Partition {
    fn ordered(state: &LeaderAndIsrPartitionState) -> Partition {
        Partition {
            partition: state.partition_index,
            controller_epoch: state.controller_epoch,
            leader: state.leader.0,
            leader_epoch: state.leader_epoch,
            isr: ids(&state.isr),
            partition_epoch: state.partition_epoch,
            replicas: ids(&state.replicas),
            adding: ids(&state.adding_replicas),
            removing: ids(&state.removing_replicas),
            is_new: state.is_new,
            recovering: state.leader_recovery_state != 0,
            ..Partition::default()
        }
    }

    fn shown(state: &UpdateMetadataPartitionState) -> Partition {
        Partition {
            partition: state.partition_index,
            controller_epoch: state.controller_epoch,
            leader: state.leader.0,
            leader_epoch: state.leader_epoch,
            isr: ids(&state.isr),
            partition_epoch: state.zk_version,
            replicas: ids(&state.replicas),
            offline_replicas: ids(&state.offline_replicas),
            ..Partition::default()
        }
    }

    fn view(&self) -> PartitionView<'_> {
        PartitionView {
            partition: self.partition,
            controller_epoch: self.controller_epoch,
            leader: self.leader,
            leader_epoch: self.leader_epoch,
            isr: &self.isr,
            partition_epoch: self.partition_epoch,
            replicas: &self.replicas,
            adding: &self.adding,
            removing: &self.removing,
            is_new: self.is_new,
            recovering: self.recovering,
            offline_replicas: &self.offline_replicas,
        }
    }
}

/// In the flat layout, neighbours of the same topic are one view; a topic that comes back later is another.
fn in_order<'a>(topics: &'a mut Vec<Topic>, name: &str) -> &'a mut Vec<Partition> {
    if topics.last().is_none_or(|last| last.name != name) {
        topics.push(Topic {
            name: name.to_owned(),
            id: [0; 16],
            partitions: Vec::new(),
        });
    }
    &mut topics.last_mut().unwrap().partitions
}

fn views(
    topics: &[Topic],
) -> impl ExactSizeIterator<
    Item = TopicView<'_, impl IntoIterator<Item = PartitionView<'_>, IntoIter: ExactSizeIterator>>,
> {
    topics.iter().map(|topic| TopicView {
        name: &topic.name,
        id: topic.id,
        partitions: topic.partitions.iter().map(Partition::view),
    })
}

fn ids(list: &[BrokerId]) -> Vec<i32> {
    list.iter().map(|id| id.0).collect()
}

fn controller(id: BrokerId, epoch: i32) -> ControllerView {
    ControllerView {
        controller_id: id.0,
        controller_epoch: epoch,
    }
}
