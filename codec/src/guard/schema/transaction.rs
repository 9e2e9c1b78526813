//! What is asked of a transaction coordinator: transactions, their markers and their offsets.
//! Facts of the wire only, one line a field, held against kafka-protocol by the tests of `guard`; the
//! upstream counterpart is Kafka's message definitions.

use super::Direction::{Request, Response};
use super::Kind::*;
use super::{Field, Kind, Record, Schema};
use kafka_protocol::messages::{
    add_partitions_to_txn_request, add_partitions_to_txn_response, describe_transactions_response,
    list_transactions_response, txn_offset_commit_request, txn_offset_commit_response,
    write_txn_markers_request, write_txn_markers_response,
};

pub(super) static ALL: &[&Schema] = &[
    &ADD_PARTITIONS_TO_TXN_REQUEST,
    &ADD_PARTITIONS_TO_TXN_RESPONSE,
    &ADD_OFFSETS_TO_TXN_REQUEST,
    &ADD_OFFSETS_TO_TXN_RESPONSE,
    &END_TXN_REQUEST,
    &END_TXN_RESPONSE,
    &WRITE_TXN_MARKERS_REQUEST,
    &WRITE_TXN_MARKERS_RESPONSE,
    &TXN_OFFSET_COMMIT_REQUEST,
    &TXN_OFFSET_COMMIT_RESPONSE,
    &DESCRIBE_TRANSACTIONS_REQUEST,
    &DESCRIBE_TRANSACTIONS_RESPONSE,
    &LIST_TRANSACTIONS_REQUEST,
    &LIST_TRANSACTIONS_RESPONSE,
];

message!(ADD_PARTITIONS_TO_TXN_REQUEST: 24, Request, 0..=5, flexible 3, [
    transactions 4.. array!(add_partitions_to_txn_request::AddPartitionsToTxnTransaction, [
        transactional_id 4.. String,
        producer_id 4.. I64,
        producer_epoch 4.. I16,
        verify_only 4.. Bool,
        topics 4.. array!(add_partitions_to_txn_request::AddPartitionsToTxnTopic, [
            name 0.. String,
            partitions 0.. Array(&I32),
        ]),
    ]),
    v3_and_below_transactional_id 0..=3 String,
    v3_and_below_producer_id 0..=3 I64,
    v3_and_below_producer_epoch 0..=3 I16,
    v3_and_below_topics 0..=3 array!(add_partitions_to_txn_request::AddPartitionsToTxnTopic, [
        name 0.. String,
        partitions 0.. Array(&I32),
    ]),
]);

message!(ADD_PARTITIONS_TO_TXN_RESPONSE: 24, Response, 0..=5, flexible 3, [
    throttle_time_ms 0.. I32,
    error_code 4.. I16,
    results_by_transaction 4.. array!(add_partitions_to_txn_response::AddPartitionsToTxnResult, [
        transactional_id 4.. String,
        topic_results 4.. array!(add_partitions_to_txn_response::AddPartitionsToTxnTopicResult, [
            name 0.. String,
            results_by_partition 0.. array!(add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult, [
                partition_index 0.. I32,
                partition_error_code 0.. I16,
            ]),
        ]),
    ]),
    results_by_topic_v3_and_below 0..=3 array!(add_partitions_to_txn_response::AddPartitionsToTxnTopicResult, [
        name 0.. String,
        results_by_partition 0.. array!(add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult, [
            partition_index 0.. I32,
            partition_error_code 0.. I16,
        ]),
    ]),
]);

message!(ADD_OFFSETS_TO_TXN_REQUEST: 25, Request, 0..=4, flexible 3, [
    transactional_id 0.. String,
    producer_id 0.. I64,
    producer_epoch 0.. I16,
    group_id 0.. String,
]);

message!(ADD_OFFSETS_TO_TXN_RESPONSE: 25, Response, 0..=4, flexible 3, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
]);

message!(END_TXN_REQUEST: 26, Request, 0..=4, flexible 3, [
    transactional_id 0.. String,
    producer_id 0.. I64,
    producer_epoch 0.. I16,
    committed 0.. Bool,
]);

message!(END_TXN_RESPONSE: 26, Response, 0..=4, flexible 3, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
]);

message!(WRITE_TXN_MARKERS_REQUEST: 27, Request, 0..=1, flexible 1, [
    markers 0.. array!(write_txn_markers_request::WritableTxnMarker, [
        producer_id 0.. I64,
        producer_epoch 0.. I16,
        transaction_result 0.. Bool,
        topics 0.. array!(write_txn_markers_request::WritableTxnMarkerTopic, [
            name 0.. String,
            partition_indexes 0.. Array(&I32),
        ]),
        coordinator_epoch 0.. I32,
    ]),
]);

message!(WRITE_TXN_MARKERS_RESPONSE: 27, Response, 0..=1, flexible 1, [
    markers 0.. array!(write_txn_markers_response::WritableTxnMarkerResult, [
        producer_id 0.. I64,
        topics 0.. array!(write_txn_markers_response::WritableTxnMarkerTopicResult, [
            name 0.. String,
            partitions 0.. array!(write_txn_markers_response::WritableTxnMarkerPartitionResult, [
                partition_index 0.. I32,
                error_code 0.. I16,
            ]),
        ]),
    ]),
]);

message!(TXN_OFFSET_COMMIT_REQUEST: 28, Request, 0..=4, flexible 3, [
    transactional_id 0.. String,
    group_id 0.. String,
    producer_id 0.. I64,
    producer_epoch 0.. I16,
    generation_id 3.. I32,
    member_id 3.. String,
    group_instance_id 3.. NullString,
    topics 0.. array!(txn_offset_commit_request::TxnOffsetCommitRequestTopic, [
        name 0.. String,
        partitions 0.. array!(txn_offset_commit_request::TxnOffsetCommitRequestPartition, [
            partition_index 0.. I32,
            committed_offset 0.. I64,
            committed_leader_epoch 2.. I32,
            committed_metadata 0.. NullString,
        ]),
    ]),
]);

message!(TXN_OFFSET_COMMIT_RESPONSE: 28, Response, 0..=4, flexible 3, [
    throttle_time_ms 0.. I32,
    topics 0.. array!(txn_offset_commit_response::TxnOffsetCommitResponseTopic, [
        name 0.. String,
        partitions 0.. array!(txn_offset_commit_response::TxnOffsetCommitResponsePartition, [
            partition_index 0.. I32,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(DESCRIBE_TRANSACTIONS_REQUEST: 65, Request, 0..=0, flexible 0, [
    transactional_ids 0.. Array(&String),
]);

message!(DESCRIBE_TRANSACTIONS_RESPONSE: 65, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    transaction_states 0.. array!(describe_transactions_response::TransactionState, [
        error_code 0.. I16,
        transactional_id 0.. String,
        transaction_state 0.. String,
        transaction_timeout_ms 0.. I32,
        transaction_start_time_ms 0.. I64,
        producer_id 0.. I64,
        producer_epoch 0.. I16,
        topics 0.. array!(describe_transactions_response::TopicData, [
            topic 0.. String,
            partitions 0.. Array(&I32),
        ]),
    ]),
]);

message!(LIST_TRANSACTIONS_REQUEST: 66, Request, 0..=1, flexible 0, [
    state_filters 0.. Array(&String),
    producer_id_filters 0.. Array(&I64),
    duration_filter 1.. I64,
]);

message!(LIST_TRANSACTIONS_RESPONSE: 66, Response, 0..=1, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    unknown_state_filters 0.. Array(&String),
    transaction_states 0.. array!(list_transactions_response::TransactionState, [
        transactional_id 0.. String,
        producer_id 0.. I64,
        transaction_state 0.. String,
    ]),
]);
