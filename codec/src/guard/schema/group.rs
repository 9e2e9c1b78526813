//! What is asked of a group coordinator: membership, committed offsets, groups.
//! Facts of the wire only, one line a field, held against kafka-protocol by the tests of `guard`; the
//! upstream counterpart is Kafka's message definitions.

use super::Direction::{Request, Response};
use super::Kind::*;
use super::{Field, Kind, NEVER, Record, Schema};
use kafka_protocol::messages::{
    consumer_group_describe_response, consumer_group_heartbeat_request,
    consumer_group_heartbeat_response, delete_groups_response, describe_groups_response,
    join_group_request, join_group_response, leave_group_request, leave_group_response,
    list_groups_response, offset_commit_request, offset_commit_response, offset_delete_request,
    offset_delete_response, offset_fetch_request, offset_fetch_response, sync_group_request,
};

pub(super) static ALL: &[&Schema] = &[
    &OFFSET_COMMIT_REQUEST,
    &OFFSET_COMMIT_RESPONSE,
    &OFFSET_FETCH_REQUEST,
    &OFFSET_FETCH_RESPONSE,
    &JOIN_GROUP_REQUEST,
    &JOIN_GROUP_RESPONSE,
    &HEARTBEAT_REQUEST,
    &HEARTBEAT_RESPONSE,
    &LEAVE_GROUP_REQUEST,
    &LEAVE_GROUP_RESPONSE,
    &SYNC_GROUP_REQUEST,
    &SYNC_GROUP_RESPONSE,
    &DESCRIBE_GROUPS_REQUEST,
    &DESCRIBE_GROUPS_RESPONSE,
    &LIST_GROUPS_REQUEST,
    &LIST_GROUPS_RESPONSE,
    &DELETE_GROUPS_REQUEST,
    &DELETE_GROUPS_RESPONSE,
    &OFFSET_DELETE_REQUEST,
    &OFFSET_DELETE_RESPONSE,
    &CONSUMER_GROUP_HEARTBEAT_REQUEST,
    &CONSUMER_GROUP_HEARTBEAT_RESPONSE,
    &CONSUMER_GROUP_DESCRIBE_REQUEST,
    &CONSUMER_GROUP_DESCRIBE_RESPONSE,
];

message!(OFFSET_COMMIT_REQUEST: 8, Request, 0..=9, flexible 8, [
    group_id 0.. String,
    generation_id_or_member_epoch 1.. I32,
    member_id 1.. String,
    group_instance_id 7.. NullString,
    retention_time_ms 2..=4 I64,
    topics 0.. array!(offset_commit_request::OffsetCommitRequestTopic, [
        name 0.. String,
        partitions 0.. array!(offset_commit_request::OffsetCommitRequestPartition, [
            partition_index 0.. I32,
            committed_offset 0.. I64,
            committed_leader_epoch 6.. I32,
            commit_timestamp 1..=1 I64,
            committed_metadata 0.. NullString,
        ]),
    ]),
]);

message!(OFFSET_COMMIT_RESPONSE: 8, Response, 0..=9, flexible 8, [
    throttle_time_ms 3.. I32,
    topics 0.. array!(offset_commit_response::OffsetCommitResponseTopic, [
        name 0.. String,
        partitions 0.. array!(offset_commit_response::OffsetCommitResponsePartition, [
            partition_index 0.. I32,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(OFFSET_FETCH_REQUEST: 9, Request, 0..=9, flexible 6, [
    group_id 0..=7 String,
    topics 0..=7 null_array!(offset_fetch_request::OffsetFetchRequestTopic, [
        name 0..=7 String,
        partition_indexes 0..=7 Array(&I32),
    ]),
    groups 8.. array!(offset_fetch_request::OffsetFetchRequestGroup, [
        group_id 8.. String,
        member_id 9.. NullString,
        member_epoch 9.. I32,
        topics 8.. null_array!(offset_fetch_request::OffsetFetchRequestTopics, [
            name 8.. String,
            partition_indexes 8.. Array(&I32),
        ]),
    ]),
    require_stable 7.. Bool,
]);

message!(OFFSET_FETCH_RESPONSE: 9, Response, 0..=9, flexible 6, [
    throttle_time_ms 3.. I32,
    topics 0..=7 array!(offset_fetch_response::OffsetFetchResponseTopic, [
        name 0..=7 String,
        partitions 0..=7 array!(offset_fetch_response::OffsetFetchResponsePartition, [
            partition_index 0..=7 I32,
            committed_offset 0..=7 I64,
            committed_leader_epoch 5..=7 I32,
            metadata 0..=7 NullString,
            error_code 0..=7 I16,
        ]),
    ]),
    error_code 2..=7 I16,
    groups 8.. array!(offset_fetch_response::OffsetFetchResponseGroup, [
        group_id 8.. String,
        topics 8.. array!(offset_fetch_response::OffsetFetchResponseTopics, [
            name 8.. String,
            partitions 8.. array!(offset_fetch_response::OffsetFetchResponsePartitions, [
                partition_index 8.. I32,
                committed_offset 8.. I64,
                committed_leader_epoch 8.. I32,
                metadata 8.. NullString,
                error_code 8.. I16,
            ]),
        ]),
        error_code 8.. I16,
    ]),
]);

message!(JOIN_GROUP_REQUEST: 11, Request, 0..=9, flexible 6, [
    group_id 0.. String,
    session_timeout_ms 0.. I32,
    rebalance_timeout_ms 1.. I32,
    member_id 0.. String,
    group_instance_id 5.. NullString,
    protocol_type 0.. String,
    protocols 0.. array!(join_group_request::JoinGroupRequestProtocol, [
        name 0.. String,
        metadata 0.. Bytes,
    ]),
    reason 8.. NullString,
]);

message!(JOIN_GROUP_RESPONSE: 11, Response, 0..=9, flexible 6, [
    throttle_time_ms 2.. I32,
    error_code 0.. I16,
    generation_id 0.. I32,
    protocol_type 7.. NullString,
    protocol_name 0.. NullString,
    leader 0.. String,
    skip_assignment 9.. Bool,
    member_id 0.. String,
    members 0.. array!(join_group_response::JoinGroupResponseMember, [
        member_id 0.. String,
        group_instance_id 5.. NullString,
        metadata 0.. Bytes,
    ]),
]);

message!(HEARTBEAT_REQUEST: 12, Request, 0..=4, flexible 4, [
    group_id 0.. String,
    generation_id 0.. I32,
    member_id 0.. String,
    group_instance_id 3.. NullString,
]);

message!(HEARTBEAT_RESPONSE: 12, Response, 0..=4, flexible 4, [
    throttle_time_ms 1.. I32,
    error_code 0.. I16,
]);

message!(LEAVE_GROUP_REQUEST: 13, Request, 0..=5, flexible 4, [
    group_id 0.. String,
    member_id 0..=2 String,
    members 3.. array!(leave_group_request::MemberIdentity, [
        member_id 3.. String,
        group_instance_id 3.. NullString,
        reason 5.. NullString,
    ]),
]);

message!(LEAVE_GROUP_RESPONSE: 13, Response, 0..=5, flexible 4, [
    throttle_time_ms 1.. I32,
    error_code 0.. I16,
    members 3.. array!(leave_group_response::MemberResponse, [
        member_id 3.. String,
        group_instance_id 3.. NullString,
        error_code 3.. I16,
    ]),
]);

message!(SYNC_GROUP_REQUEST: 14, Request, 0..=5, flexible 4, [
    group_id 0.. String,
    generation_id 0.. I32,
    member_id 0.. String,
    group_instance_id 3.. NullString,
    protocol_type 5.. NullString,
    protocol_name 5.. NullString,
    assignments 0.. array!(sync_group_request::SyncGroupRequestAssignment, [
        member_id 0.. String,
        assignment 0.. Bytes,
    ]),
]);

message!(SYNC_GROUP_RESPONSE: 14, Response, 0..=5, flexible 4, [
    throttle_time_ms 1.. I32,
    error_code 0.. I16,
    protocol_type 5.. NullString,
    protocol_name 5.. NullString,
    assignment 0.. Bytes,
]);

message!(DESCRIBE_GROUPS_REQUEST: 15, Request, 0..=5, flexible 5, [
    groups 0.. Array(&String),
    include_authorized_operations 3.. Bool,
]);

message!(DESCRIBE_GROUPS_RESPONSE: 15, Response, 0..=5, flexible 5, [
    throttle_time_ms 1.. I32,
    groups 0.. array!(describe_groups_response::DescribedGroup, [
        error_code 0.. I16,
        group_id 0.. String,
        group_state 0.. String,
        protocol_type 0.. String,
        protocol_data 0.. String,
        members 0.. array!(describe_groups_response::DescribedGroupMember, [
            member_id 0.. String,
            group_instance_id 4.. NullString,
            client_id 0.. String,
            client_host 0.. String,
            member_metadata 0.. Bytes,
            member_assignment 0.. Bytes,
        ]),
        authorized_operations 3.. I32,
    ]),
]);

message!(LIST_GROUPS_REQUEST: 16, Request, 0..=5, flexible 3, [
    states_filter 4.. Array(&String),
    types_filter 5.. Array(&String),
]);

message!(LIST_GROUPS_RESPONSE: 16, Response, 0..=5, flexible 3, [
    throttle_time_ms 1.. I32,
    error_code 0.. I16,
    groups 0.. array!(list_groups_response::ListedGroup, [
        group_id 0.. String,
        protocol_type 0.. String,
        group_state 4.. String,
        group_type 5.. String,
    ]),
]);

message!(DELETE_GROUPS_REQUEST: 42, Request, 0..=2, flexible 2, [
    groups_names 0.. Array(&String),
]);

message!(DELETE_GROUPS_RESPONSE: 42, Response, 0..=2, flexible 2, [
    throttle_time_ms 0.. I32,
    results 0.. array!(delete_groups_response::DeletableGroupResult, [
        group_id 0.. String,
        error_code 0.. I16,
    ]),
]);

message!(OFFSET_DELETE_REQUEST: 47, Request, 0..=0, flexible NEVER, [
    group_id 0.. String,
    topics 0.. array!(offset_delete_request::OffsetDeleteRequestTopic, [
        name 0.. String,
        partitions 0.. array!(offset_delete_request::OffsetDeleteRequestPartition, [
            partition_index 0.. I32,
        ]),
    ]),
]);

message!(OFFSET_DELETE_RESPONSE: 47, Response, 0..=0, flexible NEVER, [
    error_code 0.. I16,
    throttle_time_ms 0.. I32,
    topics 0.. array!(offset_delete_response::OffsetDeleteResponseTopic, [
        name 0.. String,
        partitions 0.. array!(offset_delete_response::OffsetDeleteResponsePartition, [
            partition_index 0.. I32,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(CONSUMER_GROUP_HEARTBEAT_REQUEST: 68, Request, 0..=0, flexible 0, [
    group_id 0.. String,
    member_id 0.. String,
    member_epoch 0.. I32,
    instance_id 0.. NullString,
    rack_id 0.. NullString,
    rebalance_timeout_ms 0.. I32,
    subscribed_topic_names 0.. NullArray(&String),
    server_assignor 0.. NullString,
    topic_partitions 0.. null_array!(consumer_group_heartbeat_request::TopicPartitions, [
        topic_id 0.. Uuid,
        partitions 0.. Array(&I32),
    ]),
]);

message!(CONSUMER_GROUP_HEARTBEAT_RESPONSE: 68, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    error_message 0.. NullString,
    member_id 0.. NullString,
    member_epoch 0.. I32,
    heartbeat_interval_ms 0.. I32,
    assignment 0.. null_nested!(consumer_group_heartbeat_response::Assignment, [
        topic_partitions 0.. array!(consumer_group_heartbeat_response::TopicPartitions, [
            topic_id 0.. Uuid,
            partitions 0.. Array(&I32),
        ]),
    ]),
]);

message!(CONSUMER_GROUP_DESCRIBE_REQUEST: 69, Request, 0..=0, flexible 0, [
    group_ids 0.. Array(&String),
    include_authorized_operations 0.. Bool,
]);

message!(CONSUMER_GROUP_DESCRIBE_RESPONSE: 69, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    groups 0.. array!(consumer_group_describe_response::DescribedGroup, [
        error_code 0.. I16,
        error_message 0.. NullString,
        group_id 0.. String,
        group_state 0.. String,
        group_epoch 0.. I32,
        assignment_epoch 0.. I32,
        assignor_name 0.. String,
        members 0.. array!(consumer_group_describe_response::Member, [
            member_id 0.. String,
            instance_id 0.. NullString,
            rack_id 0.. NullString,
            member_epoch 0.. I32,
            client_id 0.. String,
            client_host 0.. String,
            subscribed_topic_names 0.. Array(&String),
            subscribed_topic_regex 0.. NullString,
            assignment 0.. nested!(consumer_group_describe_response::Assignment, [
                topic_partitions 0.. array!(consumer_group_describe_response::TopicPartitions, [
                    topic_id 0.. Uuid,
                    topic_name 0.. String,
                    partitions 0.. Array(&I32),
                ]),
            ]),
            target_assignment 0.. nested!(consumer_group_describe_response::Assignment, [
                topic_partitions 0.. array!(consumer_group_describe_response::TopicPartitions, [
                    topic_id 0.. Uuid,
                    topic_name 0.. String,
                    partitions 0.. Array(&I32),
                ]),
            ]),
        ]),
        authorized_operations 0.. I32,
    ]),
]);
