//! The text of every kind of entry, as a user reads it.

use klamm_codec::bytes::Bytes;
use klamm_codec::messages::alter_partition_request as alter;
use klamm_codec::messages::alter_partition_response as altered;
use klamm_codec::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use klamm_codec::messages::controlled_shutdown_response::RemainingPartition;
use klamm_codec::messages::leader_and_isr_request::{
    LeaderAndIsrLiveLeader, LeaderAndIsrPartitionState, LeaderAndIsrTopicState,
};
use klamm_codec::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use klamm_codec::messages::metadata_request::MetadataRequestTopic;
use klamm_codec::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use klamm_codec::messages::produce_request::{PartitionProduceData, TopicProduceData};
use klamm_codec::messages::stop_replica_request::{
    StopReplicaPartitionState, StopReplicaPartitionV0, StopReplicaTopicState, StopReplicaTopicV1,
};
use klamm_codec::messages::stop_replica_response::StopReplicaPartitionError;
use klamm_codec::messages::update_metadata_request::{
    UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
};
use klamm_codec::messages::*;
use klamm_codec::request::{encode_request, parse_header};
use klamm_codec::response::encode_response;
use klamm_codec::{ApiKey, CodecError, StrBytes, Uuid};

use super::*;
use crate::decode::sample::{ASKED, answered, captured, entry as sampled, unanswered};
use klamm_codec::capture::Entry;

const ORDERS: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

fn style() -> Style {
    Style {
        paint: Paint::Plain,
        length: Length::AtMost(200),
        topic: None,
    }
}

fn name(name: &'static str) -> TopicName {
    TopicName(text(name))
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn told_by(entry: &Entry, style: &Style) -> String {
    let exchange = Exchange::read(entry, None);
    let mut names = TopicNames::default();
    exchange.trees().for_each(|tree| names.learn(tree));
    super::entry(&exchange, &names, style)
}

/// Against what a user is to read, its margin taken off.
#[track_caller]
fn tells(entry: &Entry, expected: &str) {
    assert_text(&told_by(entry, &style()), expected);
}

#[track_caller]
fn assert_text(told: &str, expected: &str) {
    let expected: String = expected
        .lines()
        .skip(1)
        .map(|line| line.strip_prefix("        ").unwrap_or(line.trim_start()))
        .map(|line| format!("{line}\n"))
        .collect();
    let expected = expected.trim_end_matches('\n');
    assert_eq!(told.trim_end_matches('\n'), expected, "\n{told}");
}

fn lisr_partition(partition: i32, leader: i32) -> LeaderAndIsrPartitionState {
    LeaderAndIsrPartitionState::default()
        .with_topic_name(name("orders"))
        .with_partition_index(partition)
        .with_controller_epoch(12)
        .with_leader(BrokerId(leader))
        .with_leader_epoch(7)
        .with_isr(ids(&[2, 3]))
        .with_replicas(ids(&[1, 2, 3]))
        .with_partition_epoch(4)
}

fn lisr(version: i16, partitions: Vec<LeaderAndIsrPartitionState>) -> LeaderAndIsrRequest {
    let leader = LeaderAndIsrLiveLeader::default()
        .with_broker_id(BrokerId(2))
        .with_host_name(text("broker-2"))
        .with_port(9092);
    let request = LeaderAndIsrRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_live_leaders(vec![leader]);
    if version < 2 {
        return request.with_ungrouped_partition_states(partitions);
    }
    let mut topic = LeaderAndIsrTopicState::default().with_topic_name(name("orders"));
    let mut request = request.with_broker_epoch(4_294_967_338);
    if version >= 5 {
        topic = topic.with_topic_id(ORDERS);
        request = request.with_type(2);
    }
    request.with_topic_states(vec![topic.with_partition_states(partitions)])
}

#[test]
fn an_old_leader_and_isr_and_its_answer() {
    let partitions = vec![
        lisr_partition(3, 2).with_is_new(true),
        lisr_partition(4, -1).with_controller_epoch(11),
        lisr_partition(5, -2),
    ];
    let error = |partition, code| {
        LeaderAndIsrPartitionError::default()
            .with_topic_name(name("orders"))
            .with_partition_index(partition)
            .with_error_code(code)
    };
    let answer = LeaderAndIsrResponse::default().with_partition_errors(vec![
        error(3, 0),
        error(4, 56),
        error(5, 0),
    ]);
    tells(
        &answered(1, &lisr(1, partitions), &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v1 #17 client "900": answered after 3.214 ms, KAFKA_STORAGE_ERROR
          controller 900 epoch 12; 3 partitions, 1 live leader
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4 new
            orders-4 leader none epoch 7 isr [2,3] replicas [1,2,3] zk version 4 controller epoch 11
            orders-5 leader -2 (topic being deleted) epoch 7 isr [2,3] replicas [1,2,3] zk version 4
            live leader 2 broker-2:9092
          answer: 2 of 3 partitions without error
            orders-4 KAFKA_STORAGE_ERROR
        "#,
    );
}

#[test]
fn a_new_leader_and_isr_has_topic_ids_and_its_answer_is_told_by_name() {
    let partitions = vec![
        lisr_partition(3, 2)
            .with_adding_replicas(ids(&[4]))
            .with_removing_replicas(ids(&[1]))
            .with_leader_recovery_state(1),
    ];
    let partitions: Vec<_> = partitions
        .into_iter()
        .map(|partition| partition.with_topic_name(name("")))
        .collect();
    let error = LeaderAndIsrPartitionError::default()
        .with_partition_index(3)
        .with_error_code(103);
    let topic = LeaderAndIsrTopicError::default()
        .with_topic_id(ORDERS)
        .with_partition_errors(vec![error]);
    let answer = LeaderAndIsrResponse::default().with_topics(vec![topic]);
    tells(
        &answered(7, &lisr(7, partitions), &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v7 #17 client "900": answered after 3.214 ms, INCONSISTENT_TOPIC_ID
          controller 900 epoch 12, broker epoch 4294967338, type full; 1 partition, 1 live leader
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4 topic id ASNFZ4mrze8BI0VniavN7w adding [4] removing [1] recovering
            live leader 2 broker-2:9092
          answer: 0 of 1 partition without error
            orders-3 INCONSISTENT_TOPIC_ID
        "#,
    );
}

#[test]
fn a_request_that_is_refused_as_a_whole_says_so_on_its_line() {
    let answer = LeaderAndIsrResponse::default().with_error_code(11);
    tells(
        &answered(
            4,
            &lisr(4, vec![lisr_partition(3, 2).with_topic_name(name(""))]),
            &answer,
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v4 #17 client "900": answered after 3.214 ms, STALE_CONTROLLER_EPOCH
          controller 900 epoch 12, broker epoch 4294967338; 1 partition, 1 live leader
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4
            live leader 2 broker-2:9092
        "#,
    );
}

#[test]
fn stop_replica_in_its_three_shapes() {
    let request = || {
        StopReplicaRequest::default()
            .with_controller_id(BrokerId(900))
            .with_controller_epoch(12)
    };
    let oldest = request()
        .with_delete_partitions(true)
        .with_ungrouped_partitions(vec![
            StopReplicaPartitionV0::default()
                .with_topic_name(name("orders"))
                .with_partition_index(3),
        ]);
    let error = StopReplicaPartitionError::default()
        .with_topic_name(name("orders"))
        .with_partition_index(3)
        .with_error_code(3);
    let answer = StopReplicaResponse::default().with_partition_errors(vec![error]);
    tells(
        &answered(0, &oldest, &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 StopReplica v0 #17 client "900": answered after 3.214 ms, UNKNOWN_TOPIC_OR_PARTITION
          controller 900 epoch 12; 1 partition
            orders-3 delete
          answer: 0 of 1 partition without error
            orders-3 UNKNOWN_TOPIC_OR_PARTITION
        "#,
    );
    let grouped = request().with_broker_epoch(5).with_topics(vec![
        StopReplicaTopicV1::default()
            .with_name(name("orders"))
            .with_partition_indexes(vec![3, 4]),
    ]);
    tells(
        &answered(2, &grouped, &StopReplicaResponse::default()),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 StopReplica v2 #17 client "900": answered after 3.214 ms, NONE
          controller 900 epoch 12, broker epoch 5; 2 partitions
            orders-3 stop
            orders-4 stop
        "#,
    );
    let partition = |partition, epoch, delete| {
        StopReplicaPartitionState::default()
            .with_partition_index(partition)
            .with_leader_epoch(epoch)
            .with_delete_partition(delete)
    };
    let newest = request().with_broker_epoch(5).with_topic_states(vec![
        StopReplicaTopicState::default()
            .with_topic_name(name("orders"))
            .with_partition_states(vec![partition(3, 7, false), partition(4, -2, true)]),
    ]);
    tells(
        &unanswered(4, &newest),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 StopReplica v4 #17 client "900": NO ANSWER in the capture
          controller 900 epoch 12, broker epoch 5; 2 partitions
            orders-3 stop epoch 7
            orders-4 delete epoch -2 (topic being deleted)
        "#,
    );
}

fn umr_partition() -> UpdateMetadataPartitionState {
    UpdateMetadataPartitionState::default()
        .with_topic_name(name("orders"))
        .with_partition_index(3)
        .with_controller_epoch(12)
        .with_leader(BrokerId(2))
        .with_leader_epoch(7)
        .with_isr(ids(&[2, 3]))
        .with_zk_version(4)
        .with_replicas(ids(&[1, 2, 3]))
        .with_offline_replicas(ids(&[1]))
}

#[test]
fn an_old_update_metadata() {
    let endpoint = |listener, protocol, port| {
        UpdateMetadataEndpoint::default()
            .with_host(text("broker-2"))
            .with_port(port)
            .with_listener(text(listener))
            .with_security_protocol(protocol)
    };
    let broker = UpdateMetadataBroker::default()
        .with_id(BrokerId(2))
        .with_endpoints(vec![
            endpoint("PLAINTEXT", 0, 9092),
            endpoint("CLIENTS", 3, 9093),
        ])
        .with_rack(Some(text("eu-1a")));
    let request = UpdateMetadataRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_ungrouped_partition_states(vec![umr_partition()])
        .with_live_brokers(vec![broker]);
    tells(
        &answered(4, &request, &UpdateMetadataResponse::default()),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 UpdateMetadata v4 #17 client "900": answered after 3.214 ms, NONE
          controller 900 epoch 12; 1 partition, 1 broker
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4 offline [1]
            broker 2 PLAINTEXT://broker-2:9092 CLIENTS://broker-2:9093 (SASL_SSL) rack "eu-1a"
        "#,
    );
}

#[test]
fn the_oldest_and_the_newest_update_metadata() {
    let broker = UpdateMetadataBroker::default()
        .with_id(BrokerId(2))
        .with_v0_host(text("fd00::1"))
        .with_v0_port(9092);
    let request = UpdateMetadataRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_ungrouped_partition_states(vec![umr_partition().with_offline_replicas(vec![])])
        .with_live_brokers(vec![broker]);
    tells(
        &answered(0, &request, &UpdateMetadataResponse::default()),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 UpdateMetadata v0 #17 client "900": answered after 3.214 ms, NONE
          controller 900 epoch 12; 1 partition, 1 broker
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4
            broker 2 [fd00::1]:9092
        "#,
    );
    let topic = UpdateMetadataTopicState::default()
        .with_topic_name(name("orders"))
        .with_topic_id(ORDERS)
        .with_partition_states(vec![umr_partition().with_topic_name(name(""))]);
    let request = UpdateMetadataRequest::default()
        .with_controller_id(BrokerId(900))
        .with_is_k_raft_controller(true)
        .with_controller_epoch(12)
        .with_broker_epoch(5)
        .with_type(1)
        .with_topic_states(vec![topic]);
    tells(
        &answered(
            8,
            &request,
            &UpdateMetadataResponse::default().with_error_code(77),
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 UpdateMetadata v8 #17 client "900": answered after 3.214 ms, STALE_BROKER_EPOCH
          KRaft controller 900 epoch 12, broker epoch 5, type incremental; 1 partition, 0 brokers
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4 topic id ASNFZ4mrze8BI0VniavN7w offline [1]
        "#,
    );
}

#[test]
fn in_sync_sets_by_name_and_by_id() {
    let partition = alter::PartitionData::default()
        .with_partition_index(3)
        .with_leader_epoch(7)
        .with_partition_epoch(4);
    let request = |topic: alter::TopicData, partition| {
        AlterPartitionRequest::default()
            .with_broker_id(BrokerId(2))
            .with_broker_epoch(33)
            .with_topics(vec![topic.with_partitions(vec![partition])])
    };
    let done = altered::PartitionData::default()
        .with_partition_index(3)
        .with_leader_id(BrokerId(2))
        .with_leader_epoch(7)
        .with_isr(ids(&[2, 3]))
        .with_partition_epoch(5);
    let answer = |topic: altered::TopicData, partitions| {
        AlterPartitionResponse::default().with_topics(vec![topic.with_partitions(partitions)])
    };
    let by_name = alter::TopicData::default().with_topic_name(name("orders"));
    let refused = altered::PartitionData::default()
        .with_partition_index(4)
        .with_error_code(95);
    tells(
        &answered(
            0,
            &request(by_name, partition.clone().with_new_isr(ids(&[2, 3]))),
            &answer(
                altered::TopicData::default().with_topic_name(name("orders")),
                vec![done.clone(), refused],
            ),
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 AlterPartition v0 #17 client "900": answered after 3.214 ms, INVALID_UPDATE_VERSION
          broker 2 broker epoch 33
            orders-3 leader epoch 7 new isr [2,3] partition epoch 4
          answer:
            orders-3 leader 2 epoch 7 isr [2,3] partition epoch 5
            orders-4 INVALID_UPDATE_VERSION
        "#,
    );
    let member = |id, epoch| {
        alter::BrokerState::default()
            .with_broker_id(BrokerId(id))
            .with_broker_epoch(epoch)
    };
    let by_id = alter::TopicData::default().with_topic_id(ORDERS);
    let partition = partition
        .with_leader_recovery_state(1)
        .with_new_isr_with_epochs(vec![member(2, 33), member(3, -1)]);
    tells(
        &answered(
            3,
            &request(by_id, partition),
            &answer(
                altered::TopicData::default().with_topic_id(ORDERS),
                vec![done],
            ),
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 AlterPartition v3 #17 client "900": answered after 3.214 ms, NONE
          broker 2 broker epoch 33
            ASNFZ4mrze8BI0VniavN7w-3 leader epoch 7 new isr [2@33,3] partition epoch 4 recovering
          answer:
            ASNFZ4mrze8BI0VniavN7w-3 leader 2 epoch 7 isr [2,3] partition epoch 5
        "#,
    );
}

#[test]
fn a_gentle_shutdown_and_a_block_of_producer_ids() {
    let request = ControlledShutdownRequest::default()
        .with_broker_id(BrokerId(3))
        .with_broker_epoch(99);
    let remaining = RemainingPartition::default()
        .with_topic_name(name("orders"))
        .with_partition_index(3);
    let answer = ControlledShutdownResponse::default().with_remaining_partitions(vec![remaining]);
    tells(
        &answered(3, &request, &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 ControlledShutdown v3 #17 client "900": answered after 3.214 ms, NONE
          broker 3 broker epoch 99
          answer: still leads 1 partition
            orders-3
        "#,
    );
    tells(
        &answered(
            0,
            &request.with_broker_epoch(-1),
            &ControlledShutdownResponse::default(),
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 ControlledShutdown v0 #17: answered after 3.214 ms, NONE
          broker 3
          answer: leads no partition any more
        "#,
    );
    let request = AllocateProducerIdsRequest::default()
        .with_broker_id(BrokerId(3))
        .with_broker_epoch(99);
    let answer = AllocateProducerIdsResponse::default()
        .with_producer_id_start(1000.into())
        .with_producer_id_len(1000);
    tells(
        &answered(0, &request, &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 AllocateProducerIds v0 #17 client "900": answered after 3.214 ms, NONE
          broker 3 broker epoch 99
          answer: producer ids 1000 to 1999
        "#,
    );
}

#[test]
fn api_versions_by_name() {
    let api = |key, max| {
        ApiVersion::default()
            .with_api_key(key)
            .with_max_version(max)
    };
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("apache-kafka-java"))
        .with_client_software_version(text("3.9.1"));
    let answer = ApiVersionsResponse::default()
        .with_api_keys(
            (0..7)
                .map(|key| api(key, key + 3))
                .chain([api(999, 1)])
                .collect(),
        )
        .with_finalized_features_epoch(3)
        .with_finalized_features(vec![
            FinalizedFeatureKey::default()
                .with_name(text("metadata.version"))
                .with_max_version_level(21),
        ]);
    tells(
        &answered(3, &request, &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 ApiVersions v3 #17 client "900": answered after 3.214 ms, NONE
          request: client_software_name "apache-kafka-java", client_software_version "3.9.1"
          answer: error_code NONE, throttle_time_ms 0, finalized_features_epoch 3
            finalized_features: name "metadata.version", max_version_level 21, min_version_level 0
            Produce 0-3, Fetch 0-4, ListOffsets 0-5, Metadata 0-6, LeaderAndIsr 0-7, StopReplica 0-8
            UpdateMetadata 0-9, API key 999 0-1
        "#,
    );
}

#[test]
fn any_other_message_is_told_as_it_stands() {
    let request = MetadataRequest::default().with_topics(Some(vec![
        MetadataRequestTopic::default().with_name(Some(name("orders"))),
    ]));
    let partition = MetadataResponsePartition::default()
        .with_error_code(5)
        .with_partition_index(3)
        .with_leader_id(BrokerId(-1))
        .with_replica_nodes(ids(&[1, 2]));
    let topic = MetadataResponseTopic::default()
        .with_name(Some(name("orders")))
        .with_partitions(vec![partition]);
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(1))
        .with_host(text("broker-1"))
        .with_port(9092);
    let answer = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_topics(vec![topic]);
    tells(
        &answered(5, &request, &answer),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 Metadata v5 #17 client "900": answered after 3.214 ms, LEADER_NOT_AVAILABLE
          request: allow_auto_topic_creation true
            topics: name "orders"
          answer: throttle_time_ms 0, cluster_id null, controller_id -1
            brokers: node_id 1, host "broker-1", port 9092, rack null
            topics: error_code NONE, name "orders", is_internal false
              partitions: error_code LEADER_NOT_AVAILABLE, partition_index 3, leader_id -1, replica_nodes [1,2], isr_nodes [], offline_replicas []
        "#,
    );
}

#[test]
fn a_producer_that_wants_no_answer_is_not_called_unanswered() {
    let partition = PartitionProduceData::default()
        .with_index(3)
        .with_records(Some(Bytes::from_static(&[7; 40])));
    let topic = TopicProduceData::default()
        .with_name(name("orders"))
        .with_partition_data(vec![partition]);
    let request = ProduceRequest::default()
        .with_acks(0)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic]);
    tells(
        &unanswered(3, &request),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 Produce v3 #17 client "900": wants no answer (acks 0)
          request: transactional_id null, acks 0, timeout_ms 30000
            topic_data: name "orders"
              partition_data: index 3, records <40 bytes>
        "#,
    );
}

#[test]
fn of_a_topic_that_was_asked_for_only_its_partitions_are_told() {
    let other = LeaderAndIsrTopicState::default()
        .with_topic_name(name("payments"))
        .with_partition_states(vec![lisr_partition(0, 1).with_topic_name(name("")); 3]);
    let mut request = lisr(4, vec![lisr_partition(3, 2).with_topic_name(name(""))]);
    request.topic_states.push(other);
    let style = Style {
        topic: Some("orders".to_owned()),
        ..style()
    };
    assert_text(
        &told_by(&unanswered(4, &request), &style),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v4 #17 client "900": NO ANSWER in the capture
          controller 900 epoch 12, broker epoch 4294967338; 4 partitions, 1 live leader
            orders-3 leader 2 epoch 7 isr [2,3] replicas [1,2,3] zk version 4
            live leader 2 broker-2:9092
            (3 more, of other topics)
        "#,
    );
}

#[test]
fn a_long_body_is_cut_and_says_so_unless_asked_for_in_full() {
    let partitions = (0..300)
        .map(|partition| lisr_partition(partition, 2))
        .collect();
    let request = unanswered(1, &lisr(1, partitions));
    let told = told_by(&request, &style());
    assert_eq!(
        told.lines().count(),
        202,
        "a head, 200 lines, and the count"
    );
    assert!(
        told.ends_with("\n    ... and 102 more lines, shown with --full\n"),
        "{told}"
    );
    let style = Style {
        length: Length::Full,
        ..style()
    };
    assert_eq!(told_by(&request, &style).lines().count(), 303);
}

/// A request as it might come from a newer Kafka, or from something else.
fn strange(key: i16, version: i16, rest: &[u8]) -> Entry {
    let payload = [
        &key.to_be_bytes()[..],
        &version.to_be_bytes(),
        &[0, 0, 0, 9, 255, 255],
        rest,
    ];
    let payload = Bytes::from(payload.concat());
    sampled(What::Request {
        header: parse_header(&payload).unwrap(),
        request: Captured {
            at: Some(Timestamp(ASKED)),
            offset: 512,
            payload,
        },
        answer: None,
    })
}

#[test]
fn what_klamm_has_no_layout_of_is_named_with_its_size_and_the_reason() {
    tells(
        &strange(999, 1, &[0; 30]),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 API key 999 v1 #9: NO ANSWER in the capture
          request of 40 bytes, not read: API key 999 requests cannot be decoded here
        "#,
    );
    tells(
        &strange(4, 9, &[0; 30]),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v9 #9: NO ANSWER in the capture
          request of 40 bytes, not read: LeaderAndIsr request v9: only versions 0 to 7 can be decoded here
        "#,
    );
}

#[test]
fn a_body_that_is_no_such_message_is_broken_with_its_offset() {
    tells(
        &strange(7, 1, &[0, 0]),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 ControlledShutdown v1 #9: NO ANSWER in the capture
          BROKEN request of 12 bytes at file offset 512: ControlledShutdown request v1, broker_id at byte 0: 4 bytes are needed and 2 are left
        "#,
    );
}

#[test]
fn broken_bytes_gaps_and_answers_without_a_request() {
    let broken = |direction, reason| {
        sampled(What::Broken {
            at: Some(Timestamp(ASKED)),
            offset: 4711,
            direction,
            reason,
        })
    };
    tells(
        &broken(
            Direction::Response,
            Fault::Length(CodecError::FrameLengthNegative { length: -5 }),
        ),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.1:9092 → 10.0.0.9:41022 BROKEN response at file offset 4711: no frame begins here: a frame announces a length of -5
        "#,
    );
    tells(
        &broken(Direction::Request, Fault::OutOfStep { bytes: 40 }),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 STRAY request bytes at file offset 4711: 40 bytes belong to no frame that begins in the capture
        "#,
    );
    let gap = What::Gap {
        at: Some(Timestamp(ASKED)),
        offset: 4711,
        direction: Direction::Request,
        missing_bytes: 1448,
    };
    tells(
        &sampled(gap),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.9:41022 → 10.0.0.1:9092 GAP: 1448 bytes of requests are not in the capture, at file offset 4711
        "#,
    );
    let frame = encode_response::<LeaderAndIsrRequest>(4, 17, &LeaderAndIsrResponse::default());
    let answer = captured(frame.unwrap(), ASKED, 640);
    tells(
        &sampled(What::Answer { answer }),
        r#"
        2026-11-29T23:47:46.595012Z 10.0.0.1:9092 → 10.0.0.9:41022 answer #17
          response of 9 bytes, not read: its request, which tells how to read it, is not in the capture
        "#,
    );
}

#[test]
fn raw_frames_are_placed_by_their_offset_and_answers_read_as_told() {
    let frame = encode_request(0, 17, None, &ControlledShutdownRequest::default()).unwrap();
    let mut request = captured(frame, 0, 4711);
    request.at = None;
    let entry = Entry {
        ends: None,
        remark: Some("a broker's\u{7} last".to_owned()),
        what: What::Request {
            header: parse_header(&request.payload).unwrap(),
            request,
            answer: None,
        },
    };
    tells(
        &entry,
        r#"
        @4711 ControlledShutdown v0 #17: NO ANSWER in the capture
          remark: a broker's\u{7} last
          broker 0
        "#,
    );
    let answer = StopReplicaResponse::default().with_error_code(11);
    let frame = encode_response::<StopReplicaRequest>(1, 17, &answer).unwrap();
    let mut answer = captured(frame, 0, 4711);
    answer.at = None;
    let entry = Entry {
        ends: None,
        remark: None,
        what: What::Answer { answer },
    };
    let exchange = Exchange::read(&entry, Some((ApiKey::STOP_REPLICA, 1)));
    assert_text(
        &super::entry(&exchange, &TopicNames::default(), &style()),
        r#"
        @4711 StopReplica v1 answer #17: STALE_CONTROLLER_EPOCH
        "#,
    );
}

#[test]
fn colour_only_marks_what_plain_text_says_too() {
    let answer = LeaderAndIsrResponse::default().with_error_code(11);
    let entry = answered(1, &lisr(1, vec![lisr_partition(3, 2)]), &answer);
    let painted = told_by(
        &entry,
        &Style {
            paint: Paint::Ansi,
            ..style()
        },
    );
    assert!(
        painted.contains("\u{1b}[31mSTALE_CONTROLLER_EPOCH\u{1b}[0m"),
        "{painted}"
    );
    let mut bare = painted;
    for code in [
        "\u{1b}[0m",
        "\u{1b}[1m",
        "\u{1b}[2m",
        "\u{1b}[31m",
        "\u{1b}[33m",
    ] {
        bare = bare.replace(code, "");
    }
    assert_eq!(bare, told_by(&entry, &style()));
}
