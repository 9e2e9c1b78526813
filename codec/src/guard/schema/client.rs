//! What producers, consumers and any client ask: data, offsets by leader, metadata, SASL and producer ids.
//! Facts of the wire only, one line a field, held against kafka-protocol by the tests of `guard`; the
//! upstream counterpart is Kafka's message definitions.

use super::Direction::{Request, Response};
use super::Kind::*;
use super::{Field, Kind, NEVER, Record, Schema, TaggedField};
use kafka_protocol::messages::{
    api_versions_response, delete_records_request, delete_records_response,
    describe_cluster_response, describe_producers_request, describe_producers_response,
    fetch_request, fetch_response, find_coordinator_response, list_offsets_request,
    list_offsets_response, metadata_request, metadata_response, offset_for_leader_epoch_request,
    offset_for_leader_epoch_response, produce_request, produce_response,
};

pub(super) static ALL: &[&Schema] = &[
    &PRODUCE_REQUEST,
    &PRODUCE_RESPONSE,
    &FETCH_REQUEST,
    &FETCH_RESPONSE,
    &LIST_OFFSETS_REQUEST,
    &LIST_OFFSETS_RESPONSE,
    &METADATA_REQUEST,
    &METADATA_RESPONSE,
    &FIND_COORDINATOR_REQUEST,
    &FIND_COORDINATOR_RESPONSE,
    &SASL_HANDSHAKE_REQUEST,
    &SASL_HANDSHAKE_RESPONSE,
    &API_VERSIONS_REQUEST,
    &API_VERSIONS_RESPONSE,
    &DELETE_RECORDS_REQUEST,
    &DELETE_RECORDS_RESPONSE,
    &INIT_PRODUCER_ID_REQUEST,
    &INIT_PRODUCER_ID_RESPONSE,
    &OFFSET_FOR_LEADER_EPOCH_REQUEST,
    &OFFSET_FOR_LEADER_EPOCH_RESPONSE,
    &SASL_AUTHENTICATE_REQUEST,
    &SASL_AUTHENTICATE_RESPONSE,
    &DESCRIBE_CLUSTER_REQUEST,
    &DESCRIBE_CLUSTER_RESPONSE,
    &DESCRIBE_PRODUCERS_REQUEST,
    &DESCRIBE_PRODUCERS_RESPONSE,
];

message!(PRODUCE_REQUEST: 0, Request, 0..=11, flexible 9, [
    transactional_id 3.. NullString,
    acks 0.. I16,
    timeout_ms 0.. I32,
    topic_data 0.. array!(produce_request::TopicProduceData, [
        name 0.. String,
        partition_data 0.. array!(produce_request::PartitionProduceData, [
            index 0.. I32,
            records 0.. NullBytes,
        ]),
    ]),
]);

message!(PRODUCE_RESPONSE: 0, Response, 0..=11, flexible 9, [
    responses 0.. array!(produce_response::TopicProduceResponse, [
        name 0.. String,
        partition_responses 0.. array!(produce_response::PartitionProduceResponse, [
            index 0.. I32,
            error_code 0.. I16,
            base_offset 0.. I64,
            log_append_time_ms 2.. I64,
            log_start_offset 5.. I64,
            record_errors 8.. array!(produce_response::BatchIndexAndErrorMessage, [
                batch_index 8.. I32,
                batch_index_error_message 8.. NullString,
            ]),
            error_message 8.. NullString,
        ], tags [
            0: current_leader 10.. nested!(produce_response::LeaderIdAndEpoch, [
                leader_id 10.. I32,
                leader_epoch 10.. I32,
            ]),
        ]),
    ]),
    throttle_time_ms 1.. I32,
], tags [
    0: node_endpoints 10.. array!(produce_response::NodeEndpoint, [
        node_id 10.. I32,
        host 10.. String,
        port 10.. I32,
        rack 10.. NullString,
    ]),
]);

message!(FETCH_REQUEST: 1, Request, 0..=17, flexible 12, [
    replica_id 0..=14 I32,
    max_wait_ms 0.. I32,
    min_bytes 0.. I32,
    max_bytes 3.. I32,
    isolation_level 4.. I8,
    session_id 7.. I32,
    session_epoch 7.. I32,
    topics 0.. array!(fetch_request::FetchTopic, [
        topic 0..=12 String,
        topic_id 13.. Uuid,
        partitions 0.. array!(fetch_request::FetchPartition, [
            partition 0.. I32,
            current_leader_epoch 9.. I32,
            fetch_offset 0.. I64,
            last_fetched_epoch 12.. I32,
            log_start_offset 5.. I64,
            partition_max_bytes 0.. I32,
        ], tags [
            0: replica_directory_id 17.. Uuid,
        ]),
    ]),
    forgotten_topics_data 7.. array!(fetch_request::ForgottenTopic, [
        topic 7..=12 String,
        topic_id 13.. Uuid,
        partitions 7.. Array(&I32),
    ]),
    rack_id 11.. String,
], tags [
    0: cluster_id 12.. NullString,
    1: replica_state 15.. nested!(fetch_request::ReplicaState, [
        replica_id 15.. I32,
        replica_epoch 15.. I64,
    ]),
]);

message!(FETCH_RESPONSE: 1, Response, 0..=17, flexible 12, [
    throttle_time_ms 1.. I32,
    error_code 7.. I16,
    session_id 7.. I32,
    responses 0.. array!(fetch_response::FetchableTopicResponse, [
        topic 0..=12 String,
        topic_id 13.. Uuid,
        partitions 0.. array!(fetch_response::PartitionData, [
            partition_index 0.. I32,
            error_code 0.. I16,
            high_watermark 0.. I64,
            last_stable_offset 4.. I64,
            log_start_offset 5.. I64,
            aborted_transactions 4.. null_array!(fetch_response::AbortedTransaction, [
                producer_id 4.. I64,
                first_offset 4.. I64,
            ]),
            preferred_read_replica 11.. I32,
            records 0.. NullBytes,
        ], tags [
            0: diverging_epoch 12.. nested!(fetch_response::EpochEndOffset, [
                epoch 12.. I32,
                end_offset 12.. I64,
            ]),
            1: current_leader 12.. nested!(fetch_response::LeaderIdAndEpoch, [
                leader_id 12.. I32,
                leader_epoch 12.. I32,
            ]),
            2: snapshot_id 12.. nested!(fetch_response::SnapshotId, [
                end_offset 0.. I64,
                epoch 0.. I32,
            ]),
        ]),
    ]),
], tags [
    0: node_endpoints 16.. array!(fetch_response::NodeEndpoint, [
        node_id 16.. I32,
        host 16.. String,
        port 16.. I32,
        rack 16.. NullString,
    ]),
]);

message!(LIST_OFFSETS_REQUEST: 2, Request, 0..=9, flexible 6, [
    replica_id 0.. I32,
    isolation_level 2.. I8,
    topics 0.. array!(list_offsets_request::ListOffsetsTopic, [
        name 0.. String,
        partitions 0.. array!(list_offsets_request::ListOffsetsPartition, [
            partition_index 0.. I32,
            current_leader_epoch 4.. I32,
            timestamp 0.. I64,
            max_num_offsets 0..=0 I32,
        ]),
    ]),
]);

message!(LIST_OFFSETS_RESPONSE: 2, Response, 0..=9, flexible 6, [
    throttle_time_ms 2.. I32,
    topics 0.. array!(list_offsets_response::ListOffsetsTopicResponse, [
        name 0.. String,
        partitions 0.. array!(list_offsets_response::ListOffsetsPartitionResponse, [
            partition_index 0.. I32,
            error_code 0.. I16,
            old_style_offsets 0..=0 Array(&I64),
            timestamp 1.. I64,
            offset 1.. I64,
            leader_epoch 4.. I32,
        ]),
    ]),
]);

message!(METADATA_REQUEST: 3, Request, 0..=12, flexible 9, [
    topics 0.. null_array!(metadata_request::MetadataRequestTopic, [
        topic_id 10.. Uuid,
        name 0.. NullString,
    ]),
    allow_auto_topic_creation 4.. Bool,
    include_cluster_authorized_operations 8..=10 Bool,
    include_topic_authorized_operations 8.. Bool,
]);

message!(METADATA_RESPONSE: 3, Response, 0..=12, flexible 9, [
    throttle_time_ms 3.. I32,
    brokers 0.. array!(metadata_response::MetadataResponseBroker, [
        node_id 0.. I32,
        host 0.. String,
        port 0.. I32,
        rack 1.. NullString,
    ]),
    cluster_id 2.. NullString,
    controller_id 1.. I32,
    topics 0.. array!(metadata_response::MetadataResponseTopic, [
        error_code 0.. I16,
        name 0.. NullString,
        topic_id 10.. Uuid,
        is_internal 1.. Bool,
        partitions 0.. array!(metadata_response::MetadataResponsePartition, [
            error_code 0.. I16,
            partition_index 0.. I32,
            leader_id 0.. I32,
            leader_epoch 7.. I32,
            replica_nodes 0.. Array(&I32),
            isr_nodes 0.. Array(&I32),
            offline_replicas 5.. Array(&I32),
        ]),
        topic_authorized_operations 8.. I32,
    ]),
    cluster_authorized_operations 8..=10 I32,
]);

message!(FIND_COORDINATOR_REQUEST: 10, Request, 0..=6, flexible 3, [
    key 0..=3 String,
    key_type 1.. I8,
    coordinator_keys 4.. Array(&String),
]);

message!(FIND_COORDINATOR_RESPONSE: 10, Response, 0..=6, flexible 3, [
    throttle_time_ms 1.. I32,
    error_code 0..=3 I16,
    error_message 1..=3 NullString,
    node_id 0..=3 I32,
    host 0..=3 String,
    port 0..=3 I32,
    coordinators 4.. array!(find_coordinator_response::Coordinator, [
        key 4.. String,
        node_id 4.. I32,
        host 4.. String,
        port 4.. I32,
        error_code 4.. I16,
        error_message 4.. NullString,
    ]),
]);

message!(SASL_HANDSHAKE_REQUEST: 17, Request, 0..=1, flexible NEVER, [
    mechanism 0.. String,
]);

message!(SASL_HANDSHAKE_RESPONSE: 17, Response, 0..=1, flexible NEVER, [
    error_code 0.. I16,
    mechanisms 0.. Array(&String),
]);

message!(API_VERSIONS_REQUEST: 18, Request, 0..=4, flexible 3, [
    client_software_name 3.. String,
    client_software_version 3.. String,
]);

message!(API_VERSIONS_RESPONSE: 18, Response, 0..=4, flexible 3, [
    error_code 0.. I16,
    api_keys 0.. array!(api_versions_response::ApiVersion, [
        api_key 0.. I16,
        min_version 0.. I16,
        max_version 0.. I16,
    ]),
    throttle_time_ms 1.. I32,
], tags [
    0: supported_features 3.. array!(api_versions_response::SupportedFeatureKey, [
        name 3.. String,
        min_version 3.. I16,
        max_version 3.. I16,
    ]),
    1: finalized_features_epoch 3.. I64,
    2: finalized_features 3.. array!(api_versions_response::FinalizedFeatureKey, [
        name 3.. String,
        max_version_level 3.. I16,
        min_version_level 3.. I16,
    ]),
    3: zk_migration_ready 3.. Bool,
]);

message!(DELETE_RECORDS_REQUEST: 21, Request, 0..=2, flexible 2, [
    topics 0.. array!(delete_records_request::DeleteRecordsTopic, [
        name 0.. String,
        partitions 0.. array!(delete_records_request::DeleteRecordsPartition, [
            partition_index 0.. I32,
            offset 0.. I64,
        ]),
    ]),
    timeout_ms 0.. I32,
]);

message!(DELETE_RECORDS_RESPONSE: 21, Response, 0..=2, flexible 2, [
    throttle_time_ms 0.. I32,
    topics 0.. array!(delete_records_response::DeleteRecordsTopicResult, [
        name 0.. String,
        partitions 0.. array!(delete_records_response::DeleteRecordsPartitionResult, [
            partition_index 0.. I32,
            low_watermark 0.. I64,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(INIT_PRODUCER_ID_REQUEST: 22, Request, 0..=5, flexible 2, [
    transactional_id 0.. NullString,
    transaction_timeout_ms 0.. I32,
    producer_id 3.. I64,
    producer_epoch 3.. I16,
]);

message!(INIT_PRODUCER_ID_RESPONSE: 22, Response, 0..=5, flexible 2, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    producer_id 0.. I64,
    producer_epoch 0.. I16,
]);

message!(OFFSET_FOR_LEADER_EPOCH_REQUEST: 23, Request, 0..=4, flexible 4, [
    replica_id 3.. I32,
    topics 0.. array!(offset_for_leader_epoch_request::OffsetForLeaderTopic, [
        topic 0.. String,
        partitions 0.. array!(offset_for_leader_epoch_request::OffsetForLeaderPartition, [
            partition 0.. I32,
            current_leader_epoch 2.. I32,
            leader_epoch 0.. I32,
        ]),
    ]),
]);

message!(OFFSET_FOR_LEADER_EPOCH_RESPONSE: 23, Response, 0..=4, flexible 4, [
    throttle_time_ms 2.. I32,
    topics 0.. array!(offset_for_leader_epoch_response::OffsetForLeaderTopicResult, [
        topic 0.. String,
        partitions 0.. array!(offset_for_leader_epoch_response::EpochEndOffset, [
            error_code 0.. I16,
            partition 0.. I32,
            leader_epoch 1.. I32,
            end_offset 0.. I64,
        ]),
    ]),
]);

message!(SASL_AUTHENTICATE_REQUEST: 36, Request, 0..=2, flexible 2, [
    auth_bytes 0.. Bytes,
]);

message!(SASL_AUTHENTICATE_RESPONSE: 36, Response, 0..=2, flexible 2, [
    error_code 0.. I16,
    error_message 0.. NullString,
    auth_bytes 0.. Bytes,
    session_lifetime_ms 1.. I64,
]);

message!(DESCRIBE_CLUSTER_REQUEST: 60, Request, 0..=1, flexible 0, [
    include_cluster_authorized_operations 0.. Bool,
    endpoint_type 1.. I8,
]);

message!(DESCRIBE_CLUSTER_RESPONSE: 60, Response, 0..=1, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    error_message 0.. NullString,
    endpoint_type 1.. I8,
    cluster_id 0.. String,
    controller_id 0.. I32,
    brokers 0.. array!(describe_cluster_response::DescribeClusterBroker, [
        broker_id 0.. I32,
        host 0.. String,
        port 0.. I32,
        rack 0.. NullString,
    ]),
    cluster_authorized_operations 0.. I32,
]);

message!(DESCRIBE_PRODUCERS_REQUEST: 61, Request, 0..=0, flexible 0, [
    topics 0.. array!(describe_producers_request::TopicRequest, [
        name 0.. String,
        partition_indexes 0.. Array(&I32),
    ]),
]);

message!(DESCRIBE_PRODUCERS_RESPONSE: 61, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    topics 0.. array!(describe_producers_response::TopicResponse, [
        name 0.. String,
        partitions 0.. array!(describe_producers_response::PartitionResponse, [
            partition_index 0.. I32,
            error_code 0.. I16,
            error_message 0.. NullString,
            active_producers 0.. array!(describe_producers_response::ProducerState, [
                producer_id 0.. I64,
                producer_epoch 0.. I32,
                last_sequence 0.. I32,
                last_timestamp 0.. I64,
                coordinator_epoch 0.. I32,
                current_txn_start_offset 0.. I64,
            ]),
        ]),
    ]),
]);
