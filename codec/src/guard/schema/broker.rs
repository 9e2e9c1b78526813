//! What controller and brokers say to each other: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition and AllocateProducerIds.
//! Facts of the wire only, one line a field, held against kafka-protocol by the tests of `guard`; the
//! upstream counterpart is Kafka's message definitions.

use super::Direction::{Request, Response};
use super::Kind::*;
use super::{Field, Kind, Record, Schema, TaggedField};
use kafka_protocol::messages::{
    alter_partition_request, alter_partition_response, controlled_shutdown_response,
    leader_and_isr_request, leader_and_isr_response, stop_replica_request, stop_replica_response,
    update_metadata_request,
};

pub(super) static ALL: &[&Schema] = &[
    &LEADER_AND_ISR_REQUEST,
    &LEADER_AND_ISR_RESPONSE,
    &STOP_REPLICA_REQUEST,
    &STOP_REPLICA_RESPONSE,
    &UPDATE_METADATA_REQUEST,
    &UPDATE_METADATA_RESPONSE,
    &CONTROLLED_SHUTDOWN_REQUEST,
    &CONTROLLED_SHUTDOWN_RESPONSE,
    &ALTER_PARTITION_REQUEST,
    &ALTER_PARTITION_RESPONSE,
    &ALLOCATE_PRODUCER_IDS_REQUEST,
    &ALLOCATE_PRODUCER_IDS_RESPONSE,
];

message!(LEADER_AND_ISR_REQUEST: 4, Request, 0..=7, flexible 4, [
    controller_id 0.. I32,
    is_k_raft_controller 7.. Bool,
    controller_epoch 0.. I32,
    broker_epoch 2.. I64,
    type 5.. I8,
    ungrouped_partition_states 0..=1 array!(leader_and_isr_request::LeaderAndIsrPartitionState, [
        topic_name 0..=1 String,
        partition_index 0.. I32,
        controller_epoch 0.. I32,
        leader 0.. I32,
        leader_epoch 0.. I32,
        isr 0.. Array(&I32),
        partition_epoch 0.. I32,
        replicas 0.. Array(&I32),
        adding_replicas 3.. Array(&I32),
        removing_replicas 3.. Array(&I32),
        is_new 1.. Bool,
        leader_recovery_state 6.. I8,
    ]),
    topic_states 2.. array!(leader_and_isr_request::LeaderAndIsrTopicState, [
        topic_name 2.. String,
        topic_id 5.. Uuid,
        partition_states 2.. array!(leader_and_isr_request::LeaderAndIsrPartitionState, [
            topic_name 0..=1 String,
            partition_index 0.. I32,
            controller_epoch 0.. I32,
            leader 0.. I32,
            leader_epoch 0.. I32,
            isr 0.. Array(&I32),
            partition_epoch 0.. I32,
            replicas 0.. Array(&I32),
            adding_replicas 3.. Array(&I32),
            removing_replicas 3.. Array(&I32),
            is_new 1.. Bool,
            leader_recovery_state 6.. I8,
        ]),
    ]),
    live_leaders 0.. array!(leader_and_isr_request::LeaderAndIsrLiveLeader, [
        broker_id 0.. I32,
        host_name 0.. String,
        port 0.. I32,
    ]),
]);

message!(LEADER_AND_ISR_RESPONSE: 4, Response, 0..=7, flexible 4, [
    error_code 0.. I16,
    partition_errors 0..=4 array!(leader_and_isr_response::LeaderAndIsrPartitionError, [
        topic_name 0..=4 String,
        partition_index 0.. I32,
        error_code 0.. I16,
    ]),
    topics 5.. array!(leader_and_isr_response::LeaderAndIsrTopicError, [
        topic_id 5.. Uuid,
        partition_errors 5.. array!(leader_and_isr_response::LeaderAndIsrPartitionError, [
            topic_name 0..=4 String,
            partition_index 0.. I32,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(STOP_REPLICA_REQUEST: 5, Request, 0..=4, flexible 2, [
    controller_id 0.. I32,
    is_k_raft_controller 4.. Bool,
    controller_epoch 0.. I32,
    broker_epoch 1.. I64,
    delete_partitions 0..=2 Bool,
    ungrouped_partitions 0..=0 array!(stop_replica_request::StopReplicaPartitionV0, [
        topic_name 0..=0 String,
        partition_index 0..=0 I32,
    ]),
    topics 1..=2 array!(stop_replica_request::StopReplicaTopicV1, [
        name 1..=2 String,
        partition_indexes 1..=2 Array(&I32),
    ]),
    topic_states 3.. array!(stop_replica_request::StopReplicaTopicState, [
        topic_name 3.. String,
        partition_states 3.. array!(stop_replica_request::StopReplicaPartitionState, [
            partition_index 3.. I32,
            leader_epoch 3.. I32,
            delete_partition 3.. Bool,
        ]),
    ]),
]);

message!(STOP_REPLICA_RESPONSE: 5, Response, 0..=4, flexible 2, [
    error_code 0.. I16,
    partition_errors 0.. array!(stop_replica_response::StopReplicaPartitionError, [
        topic_name 0.. String,
        partition_index 0.. I32,
        error_code 0.. I16,
    ]),
]);

message!(UPDATE_METADATA_REQUEST: 6, Request, 0..=8, flexible 6, [
    controller_id 0.. I32,
    is_k_raft_controller 8.. Bool,
    controller_epoch 0.. I32,
    broker_epoch 5.. I64,
    ungrouped_partition_states 0..=4 array!(update_metadata_request::UpdateMetadataPartitionState, [
        topic_name 0..=4 String,
        partition_index 0.. I32,
        controller_epoch 0.. I32,
        leader 0.. I32,
        leader_epoch 0.. I32,
        isr 0.. Array(&I32),
        zk_version 0.. I32,
        replicas 0.. Array(&I32),
        offline_replicas 4.. Array(&I32),
    ]),
    topic_states 5.. array!(update_metadata_request::UpdateMetadataTopicState, [
        topic_name 5.. String,
        topic_id 7.. Uuid,
        partition_states 5.. array!(update_metadata_request::UpdateMetadataPartitionState, [
            topic_name 0..=4 String,
            partition_index 0.. I32,
            controller_epoch 0.. I32,
            leader 0.. I32,
            leader_epoch 0.. I32,
            isr 0.. Array(&I32),
            zk_version 0.. I32,
            replicas 0.. Array(&I32),
            offline_replicas 4.. Array(&I32),
        ]),
    ]),
    live_brokers 0.. array!(update_metadata_request::UpdateMetadataBroker, [
        id 0.. I32,
        v0_host 0..=0 String,
        v0_port 0..=0 I32,
        endpoints 1.. array!(update_metadata_request::UpdateMetadataEndpoint, [
            port 1.. I32,
            host 1.. String,
            listener 3.. String,
            security_protocol 1.. I16,
        ]),
        rack 2.. NullString,
    ]),
], tags [
    0: type 8.. I8,
]);

message!(UPDATE_METADATA_RESPONSE: 6, Response, 0..=8, flexible 6, [
    error_code 0.. I16,
]);

message!(CONTROLLED_SHUTDOWN_REQUEST: 7, Request, 0..=3, flexible 3, [
    broker_id 0.. I32,
    broker_epoch 2.. I64,
]);

message!(CONTROLLED_SHUTDOWN_RESPONSE: 7, Response, 0..=3, flexible 3, [
    error_code 0.. I16,
    remaining_partitions 0.. array!(controlled_shutdown_response::RemainingPartition, [
        topic_name 0.. String,
        partition_index 0.. I32,
    ]),
]);

message!(ALTER_PARTITION_REQUEST: 56, Request, 0..=3, flexible 0, [
    broker_id 0.. I32,
    broker_epoch 0.. I64,
    topics 0.. array!(alter_partition_request::TopicData, [
        topic_name 0..=1 String,
        topic_id 2.. Uuid,
        partitions 0.. array!(alter_partition_request::PartitionData, [
            partition_index 0.. I32,
            leader_epoch 0.. I32,
            new_isr 0..=2 Array(&I32),
            new_isr_with_epochs 3.. array!(alter_partition_request::BrokerState, [
                broker_id 3.. I32,
                broker_epoch 3.. I64,
            ]),
            leader_recovery_state 1.. I8,
            partition_epoch 0.. I32,
        ]),
    ]),
]);

message!(ALTER_PARTITION_RESPONSE: 56, Response, 0..=3, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    topics 0.. array!(alter_partition_response::TopicData, [
        topic_name 0..=1 String,
        topic_id 2.. Uuid,
        partitions 0.. array!(alter_partition_response::PartitionData, [
            partition_index 0.. I32,
            error_code 0.. I16,
            leader_id 0.. I32,
            leader_epoch 0.. I32,
            isr 0.. Array(&I32),
            leader_recovery_state 1.. I8,
            partition_epoch 0.. I32,
        ]),
    ]),
]);

message!(ALLOCATE_PRODUCER_IDS_REQUEST: 67, Request, 0..=0, flexible 0, [
    broker_id 0.. I32,
    broker_epoch 0.. I64,
]);

message!(ALLOCATE_PRODUCER_IDS_RESPONSE: 67, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    producer_id_start 0.. I64,
    producer_id_len 0.. I32,
]);
