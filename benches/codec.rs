//! Our encoder beside kafka-protocol's: LeaderAndIsr and UpdateMetadata of 100,000 partitions, in one run.
//!
//! `cargo bench --bench codec`. Ours starts from what the controller holds; kafka-protocol's starts from its own message,
//! and is timed with that message ready-made, and with a copy of it made first: the least that filling one in can cost.
//! Both must give the same bytes, or nothing is measured. Upstream: none.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

mod cluster;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::BytesCount;
use klamm::effect::{
    AnnouncedLeadership, ByTopic, Committed, ControlRequests, LeaderAndIsrPartition,
    UpdateMetadataPartition,
};
use klamm::machine::request_batch::ControllerBrokerRequestBatch;
use klamm::model::{BrokerId, LeaderAndIsr, LeaderRecoveryState};
use klamm::state::ControllerContext;
use klamm_codec::Frame;
use klamm_codec::control::{
    ControllerView, EndpointView, LiveBrokerView, LiveLeaderView, PartitionView, TopicView,
    UpdateMetadataBody, leader_and_isr,
};
use klamm_codec::messages::{LeaderAndIsrRequest, UpdateMetadataRequest};
use klamm_codec::request::{Api, decode_request, encode_request, parse_header};
use klamm_codec::version::{LeaderAndIsrVersion, UpdateMetadataVersion};

const LEADER_AND_ISR_VERSION: i16 = 7;
const UPDATE_METADATA_VERSION: i16 = 8;
const BROKER_EPOCH: i64 = 77;
const CORRELATION_ID: i32 = 5;
const CLIENT: &str = "1000";
const CONTROLLER: ControllerView = ControllerView {
    controller_id: 1000,
    controller_epoch: 3,
};

/// Ours, kafka-protocol's, and kafka-protocol's with the copy of its message.
type Encoders = [fn() -> Frame; 3];

static CONTEXT: LazyLock<ControllerContext> = LazyLock::new(|| cluster::fill(cluster::reads()));

/// One UpdateMetadata of everything.
static REQUESTS: LazyLock<ControlRequests> = LazyLock::new(|| {
    let mut batch = ControllerBrokerRequestBatch::new();
    let everything = CONTEXT.partitions_with_leadership();
    batch.add_update_metadata(&CONTEXT, &[BrokerId(0)], &everything);
    batch.into_requests(&CONTEXT).unwrap()
});

/// What a broker would be told that hosts everything.
static HOSTED: LazyLock<Vec<ByTopic<LeaderAndIsrPartition>>> = LazyLock::new(|| {
    let topics = CONTEXT.topics().iter();
    topics
        .map(|(name, topic)| ByTopic {
            topic: name.clone(),
            topic_id: topic.id,
            partitions: topic
                .partitions
                .iter()
                .map(|(number, partition)| LeaderAndIsrPartition {
                    partition: *number,
                    state: partition.leadership.clone().unwrap(),
                    assignment: partition.assignment.clone(),
                    is_new: false,
                })
                .collect(),
        })
        .collect()
});

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
        print_ratios();
    }
    divan::main();
}

// ---------------------------------------------------------------------------------------------------------------------
// Ours

fn our_update_metadata() -> Frame {
    let requests = &*REQUESTS;
    let endpoints: Vec<Vec<EndpointView<'_>>> = requests
        .live_brokers
        .iter()
        .map(|broker| broker.endpoints.iter().map(endpoint_view).collect())
        .collect();
    let brokers: Vec<LiveBrokerView<'_>> = requests
        .live_brokers
        .iter()
        .zip(&endpoints)
        .map(|(broker, endpoints)| LiveBrokerView {
            id: broker.id.0,
            endpoints,
            rack: broker.rack.as_deref(),
        })
        .collect();
    let topics = &requests.update_metadata.as_ref().unwrap().topics;
    let views = topics.iter().map(|topic| TopicView {
        name: topic.topic.as_str(),
        id: id_of(topic),
        partitions: topic.partitions.iter().map(update_metadata_view),
    });
    let version = UpdateMetadataVersion::new(UPDATE_METADATA_VERSION).unwrap();
    let body = UpdateMetadataBody::encode(version, CONTROLLER, views, &brokers).unwrap();
    body.request(BROKER_EPOCH)
        .frame(CORRELATION_ID, CLIENT)
        .unwrap()
}

fn our_leader_and_isr() -> Frame {
    let requests = &*REQUESTS;
    let leaders: Vec<LiveLeaderView<'_>> = requests
        .live_brokers
        .iter()
        .map(|broker| LiveLeaderView {
            id: broker.id.0,
            host: &broker.endpoints[0].host,
            port: broker.endpoints[0].port,
        })
        .collect();
    let views = HOSTED.iter().map(|topic| TopicView {
        name: topic.topic.as_str(),
        id: id_of(topic),
        partitions: topic.partitions.iter().map(leader_and_isr_view),
    });
    let version = LeaderAndIsrVersion::new(LEADER_AND_ISR_VERSION).unwrap();
    leader_and_isr(version, CONTROLLER, BROKER_EPOCH, views, &leaders)
        .unwrap()
        .frame(CORRELATION_ID, CLIENT)
        .unwrap()
}

fn endpoint_view(endpoint: &klamm::model::Endpoint) -> EndpointView<'_> {
    EndpointView {
        port: endpoint.port,
        host: &endpoint.host,
        listener: &endpoint.listener,
        security_protocol: endpoint.security_protocol.code(),
    }
}

fn id_of<T>(topic: &ByTopic<T>) -> [u8; 16] {
    topic.topic_id.map_or([0; 16], |id| *id.as_bytes())
}

/// What both requests say of a partition; the lists that only one has are empty.
fn view(number: i32, state: &Committed<LeaderAndIsr>) -> PartitionView<'_> {
    PartitionView {
        partition: number,
        controller_epoch: state.controller_epoch().0,
        leader: state.leader.0,
        leader_epoch: state.leader_epoch.0,
        isr: state.isr.as_i32s(),
        partition_epoch: state.partition_epoch().0,
        replicas: &[],
        adding: &[],
        removing: &[],
        is_new: false,
        recovering: state.leader_recovery_state == LeaderRecoveryState::Recovering,
        offline_replicas: &[],
    }
}

fn update_metadata_view(partition: &UpdateMetadataPartition) -> PartitionView<'_> {
    let (AnnouncedLeadership::Committed(state) | AnnouncedLeadership::DuringDelete(state)) =
        &partition.leadership;
    PartitionView {
        replicas: partition.replicas.as_i32s(),
        offline_replicas: partition.offline_replicas.as_i32s(),
        ..view(partition.partition, state)
    }
}

fn leader_and_isr_view(partition: &LeaderAndIsrPartition) -> PartitionView<'_> {
    PartitionView {
        replicas: partition.assignment.replicas.as_i32s(),
        adding: partition.assignment.adding.as_i32s(),
        removing: partition.assignment.removing.as_i32s(),
        is_new: partition.is_new,
        ..view(partition.partition, &partition.state)
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// kafka-protocol's

/// The messages behind our bytes.
static UPDATE_METADATA: LazyLock<UpdateMetadataRequest> = LazyLock::new(|| {
    let payload = our_update_metadata().to_bytes().split_off(4);
    decode_request(&parse_header(&payload).unwrap(), &payload).unwrap()
});
static LEADER_AND_ISR: LazyLock<LeaderAndIsrRequest> = LazyLock::new(|| {
    let payload = our_leader_and_isr().to_bytes().split_off(4);
    decode_request(&parse_header(&payload).unwrap(), &payload).unwrap()
});

fn their_update_metadata() -> Frame {
    theirs(UPDATE_METADATA_VERSION, &*UPDATE_METADATA)
}

fn their_update_metadata_copied() -> Frame {
    theirs(UPDATE_METADATA_VERSION, &UPDATE_METADATA.clone())
}

fn their_leader_and_isr() -> Frame {
    theirs(LEADER_AND_ISR_VERSION, &*LEADER_AND_ISR)
}

fn their_leader_and_isr_copied() -> Frame {
    theirs(LEADER_AND_ISR_VERSION, &LEADER_AND_ISR.clone())
}

fn theirs(version: i16, message: &impl Api) -> Frame {
    encode_request(version, CORRELATION_ID, Some(CLIENT), message).unwrap()
}

// ---------------------------------------------------------------------------------------------------------------------
// Side by side

/// The best of several runs in turn, so that a noisy machine slows all.
fn print_ratios() {
    let messages: [(&str, Encoders); 2] = [
        (
            "UpdateMetadata",
            [
                our_update_metadata,
                their_update_metadata,
                their_update_metadata_copied,
            ],
        ),
        (
            "LeaderAndIsr",
            [
                our_leader_and_isr,
                their_leader_and_isr,
                their_leader_and_isr_copied,
            ],
        ),
    ];
    for (name, encoders) in messages {
        let [bytes, others, _] = encoders.map(|encode| encode().to_bytes());
        assert!(bytes == others, "{name}: other bytes");
        let mut best = [Duration::MAX; 3];
        for _ in 0..10 {
            for (best, encode) in best.iter_mut().zip(encoders) {
                *best = (*best).min(time(encode));
            }
        }
        let [ours, ready_made, with_message] = best;
        println!(
            "{name}, {} partitions, {} bytes: klamm {ours:.1?}; kafka-protocol {ready_made:.1?} (ratio {:.2}), with the making of its message {with_message:.1?} (ratio {:.2})",
            cluster::PARTITIONS,
            bytes.len(),
            ours.as_secs_f64() / ready_made.as_secs_f64(),
            ours.as_secs_f64() / with_message.as_secs_f64(),
        );
    }
}

fn time(encode: fn() -> Frame) -> Duration {
    let began = Instant::now();
    divan::black_box(encode());
    began.elapsed()
}

fn measure(bencher: Bencher<'_, '_>, encode: fn() -> Frame) {
    let bytes = encode().len();
    bencher.counter(BytesCount::new(bytes)).bench(encode);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn update_metadata_klamm(bencher: Bencher<'_, '_>) {
    measure(bencher, our_update_metadata);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn update_metadata_kafka_protocol(bencher: Bencher<'_, '_>) {
    measure(bencher, their_update_metadata);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn update_metadata_kafka_protocol_with_message(bencher: Bencher<'_, '_>) {
    measure(bencher, their_update_metadata_copied);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn leader_and_isr_klamm(bencher: Bencher<'_, '_>) {
    measure(bencher, our_leader_and_isr);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn leader_and_isr_kafka_protocol(bencher: Bencher<'_, '_>) {
    measure(bencher, their_leader_and_isr);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn leader_and_isr_kafka_protocol_with_message(bencher: Bencher<'_, '_>) {
    measure(bencher, their_leader_and_isr_copied);
}
