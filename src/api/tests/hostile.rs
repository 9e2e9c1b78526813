//! What no client should send. Whatever it is, it costs its sender the connection at most.

use super::*;
use crate::effect::Answer;
use crate::model::KafkaError;
use klamm_codec::messages::*;
use klamm_codec::{StrBytes, Uuid, messages::BrokerId};

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    for byte in framed(0, 3, &ApiVersionsRequest::default()) {
        client.write(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(correlation_id(&client.answer().await.unwrap()), Ok(3));
}

#[tokio::test]
async fn half_a_request_keeps_nobody_else_waiting() {
    let node = Node::leading(&[]).await;
    let frame = framed(0, 3, &ApiVersionsRequest::default());
    let mut halves = Vec::new();
    for length in 1..frame.len() {
        let mut client = node.connect().await;
        client.write(&frame[..length]).await;
        halves.push(client);
    }
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
    for (length, mut client) in (1..frame.len()).zip(halves) {
        client.write(&frame[length..]).await;
        assert!(
            client.answer().await.is_some(),
            "the rest of it is still welcome"
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_also_within_a_request() {
    let limits = Limits {
        connections_max_idle: Some(Duration::from_millis(200)),
        ..Limits::default()
    };
    let node = Node::start(limits, &["CLIENTS"], snapshot(true, &[])).await;
    let mut silent = node.connect().await;
    let mut dribbling = node.connect().await;
    dribbling.write(&[0, 0, 0, 50, 0]).await;
    assert_eq!(silent.answer().await, None);
    assert_eq!(dribbling.answer().await, None);
}

#[tokio::test]
async fn a_length_that_no_request_has_closes_the_connection_at_once() {
    let limits = Limits {
        request_max_bytes: 1000,
        ..Limits::default()
    };
    let node = Node::start(limits, &["CLIENTS"], snapshot(true, &[])).await;
    for prefix in [i32::MAX, i32::MIN, -1, 1001, 0, 3] {
        let mut client = node.connect().await;
        client
            .write(&[&prefix.to_be_bytes()[..], &[0; 3]].concat())
            .await;
        assert_eq!(client.answer().await, None, "{prefix}");
    }
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}

#[tokio::test]
async fn a_body_that_announces_billions_of_elements_closes_the_connection() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    // StopReplica v0: the number of partitions stands in the last four bytes.
    let mut frame = framed(0, 1, &StopReplicaRequest::default()).to_vec();
    let at = frame.len() - 4;
    frame[at..].copy_from_slice(&i32::MAX.to_be_bytes());
    client.write(&frame).await;
    assert_eq!(client.answer().await, None);
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}

#[tokio::test]
async fn more_connections_than_the_limit_are_turned_away_until_one_ends() {
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    let listeners = ["CLIENTS", "BROKERS"];
    let node = Node::start(limits, &listeners, snapshot(true, &[])).await;
    let mut first = node.connect().await;
    let mut second = node.connect().await;
    first.api_versions().await;
    second.api_versions().await;
    assert_eq!(node.connect().await.answer().await, None);
    let mut broker = node.connect_to("BROKERS").await;
    assert_eq!(
        broker.api_versions().await.error_code,
        0,
        "brokers have a listener of their own"
    );
    drop(first);
    soon(async {
        loop {
            let mut next = node.connect().await;
            // It may be turned away before it has asked.
            let asked = framed(0, 1, &ApiVersionsRequest::default());
            let _ = next.stream.write_all(&asked).await;
            if next.answer().await.is_some() {
                break;
            }
        }
    })
    .await;
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

macro_rules! default_frames {
    ($($request:ident: $($version:literal),+;)+) => {
        vec![$($(framed($version, 1, &$request::default())),+),+]
    };
}

fn sound_frames() -> Vec<Bytes> {
    let mut frames = empty_frames();
    frames.extend(full_frames());
    frames
}

/// Requests about one partition of one topic.
fn full_frames() -> [Bytes; 6] {
    use klamm_codec::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
    use klamm_codec::messages::leader_and_isr_request::*;
    use klamm_codec::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use klamm_codec::messages::stop_replica_request::*;
    let topic = || TopicName(StrBytes::from_static_str("topic"));
    let id = Uuid::from_u128(99);
    let replicas = || vec![BrokerId(1), BrokerId(2)];

    let asked = PartitionData::default().with_partition_index(1);
    let by_name = TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![asked.clone().with_new_isr(replicas())]);
    let epochs = replicas()
        .into_iter()
        .map(|id| BrokerState::default().with_broker_id(id));
    let by_id = TopicData::default()
        .with_topic_id(id)
        .with_partitions(vec![asked.with_new_isr_with_epochs(epochs.collect())]);
    let state = LeaderAndIsrPartitionState::default()
        .with_isr(replicas())
        .with_replicas(replicas());
    let leader =
        LeaderAndIsrLiveLeader::default().with_host_name(StrBytes::from_static_str("host"));
    let states = LeaderAndIsrTopicState::default()
        .with_topic_name(topic())
        .with_topic_id(id)
        .with_partition_states(vec![state.clone()]);
    let stopped = StopReplicaTopicState::default()
        .with_topic_name(topic())
        .with_partition_states(vec![StopReplicaPartitionState::default()]);
    let batch = PartitionProduceData::default().with_records(Some(Bytes::from_static(&[0; 64])));
    let produced = TopicProduceData::default()
        .with_name(topic())
        .with_partition_data(vec![batch]);
    let alter = |topic| AlterPartitionRequest::default().with_topics(vec![topic]);
    let lead = LeaderAndIsrRequest::default().with_live_leaders(vec![leader]);
    [
        framed(0, 1, &alter(by_name)),
        framed(3, 1, &alter(by_id)),
        framed(
            1,
            1,
            &lead
                .clone()
                .with_ungrouped_partition_states(vec![state.with_topic_name(topic())]),
        ),
        framed(7, 1, &lead.with_topic_states(vec![states])),
        framed(
            3,
            1,
            &StopReplicaRequest::default().with_topic_states(vec![stopped]),
        ),
        framed(
            8,
            1,
            &ProduceRequest::default()
                .with_acks(1)
                .with_topic_data(vec![produced]),
        ),
    ]
}

fn empty_frames() -> Vec<Bytes> {
    default_frames! {
        ProduceRequest: 3, 9; FetchRequest: 4, 13; ListOffsetsRequest: 1, 7; MetadataRequest: 1, 12;
        LeaderAndIsrRequest: 1, 4, 7; StopReplicaRequest: 0, 1, 4; UpdateMetadataRequest: 4, 5, 8;
        ControlledShutdownRequest: 0, 1, 3; OffsetCommitRequest: 2, 8; OffsetFetchRequest: 1, 7;
        FindCoordinatorRequest: 0, 3; JoinGroupRequest: 0, 7; LeaveGroupRequest: 0, 4;
        SyncGroupRequest: 0, 5; DescribeGroupsRequest: 0, 5; ListGroupsRequest: 0, 4;
        ApiVersionsRequest: 0, 3; CreateTopicsRequest: 2, 4, 7; CreatePartitionsRequest: 0, 3; DeleteRecordsRequest: 0, 2;
        InitProducerIdRequest: 0, 4; OffsetForLeaderEpochRequest: 3, 4;
        AddPartitionsToTxnRequest: 0, 3; WriteTxnMarkersRequest: 0, 1; TxnOffsetCommitRequest: 0, 3;
        DescribeConfigsRequest: 1, 4; AlterConfigsRequest: 0, 2; IncrementalAlterConfigsRequest: 0, 1;
        AlterReplicaLogDirsRequest: 0, 2; DescribeLogDirsRequest: 0, 4; DeleteGroupsRequest: 0, 2;
        OffsetDeleteRequest: 0; AlterPartitionRequest: 0, 2, 3; AllocateProducerIdsRequest: 0;
        DescribeClusterRequest: 0; DescribeProducersRequest: 0; DescribeTransactionsRequest: 0;
        ConsumerGroupDescribeRequest: 0;
    }
}

/// A controller that refuses everything.
fn refusing(node: &mut Node) -> JoinHandle<()> {
    let (_, none) = mpsc::unbounded_channel();
    let mut events = std::mem::replace(&mut node.events, none);
    let slots = node.slots.clone();
    tokio::spawn(async move {
        let error = KafkaError::STALE_BROKER_EPOCH;
        while let Some(event) = events.recv().await {
            match event {
                ControllerEvent::ControlledShutdown { reply_to, .. } => {
                    slots.answer(reply_to, Answer::ControlledShutdown(Err(error)));
                }
                ControllerEvent::AlterPartitionReceived { reply_to, .. } => {
                    slots.answer(reply_to, Answer::AlterPartition(Err(error)));
                }
                ControllerEvent::AllocateProducerIds { reply_to, .. } => {
                    slots.answer(reply_to, Answer::AllocateProducerIds(Err(error)));
                }
                ControllerEvent::CreateTopics { reply_to, .. } => {
                    slots.answer(reply_to, Answer::CreateTopics(Err(error)));
                }
                ControllerEvent::CreatePartitions { reply_to, .. } => {
                    slots.answer(reply_to, Answer::CreatePartitions(Err(error)));
                }
                other => panic!("{other:?}"),
            }
        }
    })
}

/// Changes, adds or removes a few bytes after the length prefix, which stays right; mostly in the body.
fn mutate(random: &mut Random, frame: &Bytes) -> Vec<u8> {
    const TELLING: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    const HEADER: usize = 8;
    let mut payload = frame[4..].to_vec();
    for _ in 0..=random.below(2) {
        let from = if payload.len() > HEADER && random.below(8) > 0 {
            HEADER
        } else {
            0
        };
        let at = from + random.below(payload.len() + 1 - from);
        let byte = match random.below(2) {
            0 => TELLING[random.below(TELLING.len())],
            _ => random.next() as u8,
        };
        match random.below(8) {
            0 => payload.insert(at, byte),
            1 if at < payload.len() => drop(payload.remove(at)),
            2 => payload.truncate(at.max(1)),
            _ if at < payload.len() => payload[at] = byte,
            _ => payload.push(byte),
        }
    }
    [&(payload.len() as i32).to_be_bytes()[..], &payload].concat()
}

#[tokio::test]
async fn thousands_of_damaged_requests_leave_the_listener_and_everybody_else_alone() {
    let broker = EchoBroker::start().await;
    let mut node = Node::leading(&[broker.registered(1)]).await;
    let controller = refusing(&mut node);
    let frames = sound_frames();
    let mut random = Random(20_260_101);
    let mut healthy = node.connect().await;
    let mut client = node.connect().await;
    let (mut answered, mut closed) = (0, 0);
    for turn in 0..4000 {
        let damaged = mutate(&mut random, &frames[turn % frames.len()]);
        client.write(&damaged).await;
        match client.answer().await {
            Some(_) => answered += 1,
            None => {
                closed += 1;
                client = node.connect().await;
            }
        }
        if turn % 100 == 0 {
            assert_eq!(healthy.api_versions().await.error_code, 0, "turn {turn}");
        }
    }
    assert!(
        answered > 500 && closed > 500,
        "{answered} answered, {closed} closed"
    );
    assert!(
        !controller.is_finished(),
        "only sound questions reach the controller"
    );
}

#[tokio::test]
async fn noise_leaves_the_listener_and_everybody_else_alone() {
    let node = Node::leading(&[]).await;
    let mut random = Random(7);
    let mut healthy = node.connect().await;
    for turn in 0..1000 {
        let mut noisy = node.connect().await;
        let mut noise: Vec<u8> = (0..1 + random.below(300))
            .map(|_| random.next() as u8)
            .collect();
        if turn % 2 == 0 && noise.len() >= 4 {
            // A length that is believed, so that more of it is looked at.
            let length = random.below(noise.len()) as i32;
            noise[..4].copy_from_slice(&length.to_be_bytes());
        }
        // The listener may have closed already.
        let _ = noisy.stream.write_all(&noise).await;
        if turn % 100 == 0 {
            assert_eq!(healthy.api_versions().await.error_code, 0, "turn {turn}");
        }
    }
    assert_eq!(healthy.api_versions().await.error_code, 0);
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}
