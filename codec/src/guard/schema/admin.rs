//! What operators ask: topics, configs, log dirs, elections, reassignments, credentials and features.
//! Facts of the wire only, one line a field, held against kafka-protocol by the tests of `guard`; the
//! upstream counterpart is Kafka's message definitions.

use super::Direction::{Request, Response};
use super::Kind::*;
use super::{Field, Kind, Record, Schema, TaggedField};
use kafka_protocol::messages::{
    alter_configs_request, alter_configs_response, alter_partition_reassignments_request,
    alter_partition_reassignments_response, alter_replica_log_dirs_request,
    alter_replica_log_dirs_response, alter_user_scram_credentials_request,
    alter_user_scram_credentials_response, create_partitions_request, create_partitions_response,
    create_topics_request, create_topics_response, delete_topics_request, delete_topics_response,
    describe_configs_request, describe_configs_response, describe_log_dirs_request,
    describe_log_dirs_response, elect_leaders_request, elect_leaders_response,
    incremental_alter_configs_request, incremental_alter_configs_response,
    list_partition_reassignments_request, list_partition_reassignments_response,
    update_features_request, update_features_response,
};

pub(super) static ALL: &[&Schema] = &[
    &CREATE_TOPICS_REQUEST,
    &CREATE_TOPICS_RESPONSE,
    &DELETE_TOPICS_REQUEST,
    &DELETE_TOPICS_RESPONSE,
    &DESCRIBE_CONFIGS_REQUEST,
    &DESCRIBE_CONFIGS_RESPONSE,
    &ALTER_CONFIGS_REQUEST,
    &ALTER_CONFIGS_RESPONSE,
    &ALTER_REPLICA_LOG_DIRS_REQUEST,
    &ALTER_REPLICA_LOG_DIRS_RESPONSE,
    &DESCRIBE_LOG_DIRS_REQUEST,
    &DESCRIBE_LOG_DIRS_RESPONSE,
    &CREATE_PARTITIONS_REQUEST,
    &CREATE_PARTITIONS_RESPONSE,
    &ELECT_LEADERS_REQUEST,
    &ELECT_LEADERS_RESPONSE,
    &INCREMENTAL_ALTER_CONFIGS_REQUEST,
    &INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    &ALTER_PARTITION_REASSIGNMENTS_REQUEST,
    &ALTER_PARTITION_REASSIGNMENTS_RESPONSE,
    &LIST_PARTITION_REASSIGNMENTS_REQUEST,
    &LIST_PARTITION_REASSIGNMENTS_RESPONSE,
    &ALTER_USER_SCRAM_CREDENTIALS_REQUEST,
    &ALTER_USER_SCRAM_CREDENTIALS_RESPONSE,
    &UPDATE_FEATURES_REQUEST,
    &UPDATE_FEATURES_RESPONSE,
];

message!(CREATE_TOPICS_REQUEST: 19, Request, 0..=7, flexible 5, [
    topics 0.. array!(create_topics_request::CreatableTopic, [
        name 0.. String,
        num_partitions 0.. I32,
        replication_factor 0.. I16,
        assignments 0.. array!(create_topics_request::CreatableReplicaAssignment, [
            partition_index 0.. I32,
            broker_ids 0.. Array(&I32),
        ]),
        configs 0.. array!(create_topics_request::CreatableTopicConfig, [
            name 0.. String,
            value 0.. NullString,
        ]),
    ]),
    timeout_ms 0.. I32,
    validate_only 1.. Bool,
]);

message!(CREATE_TOPICS_RESPONSE: 19, Response, 0..=7, flexible 5, [
    throttle_time_ms 2.. I32,
    topics 0.. array!(create_topics_response::CreatableTopicResult, [
        name 0.. String,
        topic_id 7.. Uuid,
        error_code 0.. I16,
        error_message 1.. NullString,
        num_partitions 5.. I32,
        replication_factor 5.. I16,
        configs 5.. null_array!(create_topics_response::CreatableTopicConfigs, [
            name 5.. String,
            value 5.. NullString,
            read_only 5.. Bool,
            config_source 5.. I8,
            is_sensitive 5.. Bool,
        ]),
    ], tags [
        0: topic_config_error_code 5.. I16,
    ]),
]);

message!(DELETE_TOPICS_REQUEST: 20, Request, 0..=6, flexible 4, [
    topics 6.. array!(delete_topics_request::DeleteTopicState, [
        name 6.. NullString,
        topic_id 6.. Uuid,
    ]),
    topic_names 0..=5 Array(&String),
    timeout_ms 0.. I32,
]);

message!(DELETE_TOPICS_RESPONSE: 20, Response, 0..=6, flexible 4, [
    throttle_time_ms 1.. I32,
    responses 0.. array!(delete_topics_response::DeletableTopicResult, [
        name 0.. NullString,
        topic_id 6.. Uuid,
        error_code 0.. I16,
        error_message 5.. NullString,
    ]),
]);

message!(DESCRIBE_CONFIGS_REQUEST: 32, Request, 0..=4, flexible 4, [
    resources 0.. array!(describe_configs_request::DescribeConfigsResource, [
        resource_type 0.. I8,
        resource_name 0.. String,
        configuration_keys 0.. NullArray(&String),
    ]),
    include_synonyms 1.. Bool,
    include_documentation 3.. Bool,
]);

message!(DESCRIBE_CONFIGS_RESPONSE: 32, Response, 0..=4, flexible 4, [
    throttle_time_ms 0.. I32,
    results 0.. array!(describe_configs_response::DescribeConfigsResult, [
        error_code 0.. I16,
        error_message 0.. NullString,
        resource_type 0.. I8,
        resource_name 0.. String,
        configs 0.. array!(describe_configs_response::DescribeConfigsResourceResult, [
            name 0.. String,
            value 0.. NullString,
            read_only 0.. Bool,
            is_default 0..=0 Bool,
            config_source 1.. I8,
            is_sensitive 0.. Bool,
            synonyms 1.. array!(describe_configs_response::DescribeConfigsSynonym, [
                name 1.. String,
                value 1.. NullString,
                source 1.. I8,
            ]),
            config_type 3.. I8,
            documentation 3.. NullString,
        ]),
    ]),
]);

message!(ALTER_CONFIGS_REQUEST: 33, Request, 0..=2, flexible 2, [
    resources 0.. array!(alter_configs_request::AlterConfigsResource, [
        resource_type 0.. I8,
        resource_name 0.. String,
        configs 0.. array!(alter_configs_request::AlterableConfig, [
            name 0.. String,
            value 0.. NullString,
        ]),
    ]),
    validate_only 0.. Bool,
]);

message!(ALTER_CONFIGS_RESPONSE: 33, Response, 0..=2, flexible 2, [
    throttle_time_ms 0.. I32,
    responses 0.. array!(alter_configs_response::AlterConfigsResourceResponse, [
        error_code 0.. I16,
        error_message 0.. NullString,
        resource_type 0.. I8,
        resource_name 0.. String,
    ]),
]);

message!(ALTER_REPLICA_LOG_DIRS_REQUEST: 34, Request, 0..=2, flexible 2, [
    dirs 0.. array!(alter_replica_log_dirs_request::AlterReplicaLogDir, [
        path 0.. String,
        topics 0.. array!(alter_replica_log_dirs_request::AlterReplicaLogDirTopic, [
            name 0.. String,
            partitions 0.. Array(&I32),
        ]),
    ]),
]);

message!(ALTER_REPLICA_LOG_DIRS_RESPONSE: 34, Response, 0..=2, flexible 2, [
    throttle_time_ms 0.. I32,
    results 0.. array!(alter_replica_log_dirs_response::AlterReplicaLogDirTopicResult, [
        topic_name 0.. String,
        partitions 0.. array!(alter_replica_log_dirs_response::AlterReplicaLogDirPartitionResult, [
            partition_index 0.. I32,
            error_code 0.. I16,
        ]),
    ]),
]);

message!(DESCRIBE_LOG_DIRS_REQUEST: 35, Request, 0..=4, flexible 2, [
    topics 0.. null_array!(describe_log_dirs_request::DescribableLogDirTopic, [
        topic 0.. String,
        partitions 0.. Array(&I32),
    ]),
]);

message!(DESCRIBE_LOG_DIRS_RESPONSE: 35, Response, 0..=4, flexible 2, [
    throttle_time_ms 0.. I32,
    error_code 3.. I16,
    results 0.. array!(describe_log_dirs_response::DescribeLogDirsResult, [
        error_code 0.. I16,
        log_dir 0.. String,
        topics 0.. array!(describe_log_dirs_response::DescribeLogDirsTopic, [
            name 0.. String,
            partitions 0.. array!(describe_log_dirs_response::DescribeLogDirsPartition, [
                partition_index 0.. I32,
                partition_size 0.. I64,
                offset_lag 0.. I64,
                is_future_key 0.. Bool,
            ]),
        ]),
        total_bytes 4.. I64,
        usable_bytes 4.. I64,
    ]),
]);

message!(CREATE_PARTITIONS_REQUEST: 37, Request, 0..=3, flexible 2, [
    topics 0.. array!(create_partitions_request::CreatePartitionsTopic, [
        name 0.. String,
        count 0.. I32,
        assignments 0.. null_array!(create_partitions_request::CreatePartitionsAssignment, [
            broker_ids 0.. Array(&I32),
        ]),
    ]),
    timeout_ms 0.. I32,
    validate_only 0.. Bool,
]);

message!(CREATE_PARTITIONS_RESPONSE: 37, Response, 0..=3, flexible 2, [
    throttle_time_ms 0.. I32,
    results 0.. array!(create_partitions_response::CreatePartitionsTopicResult, [
        name 0.. String,
        error_code 0.. I16,
        error_message 0.. NullString,
    ]),
]);

message!(ELECT_LEADERS_REQUEST: 43, Request, 0..=2, flexible 2, [
    election_type 1.. I8,
    topic_partitions 0.. null_array!(elect_leaders_request::TopicPartitions, [
        topic 0.. String,
        partitions 0.. Array(&I32),
    ]),
    timeout_ms 0.. I32,
]);

message!(ELECT_LEADERS_RESPONSE: 43, Response, 0..=2, flexible 2, [
    throttle_time_ms 0.. I32,
    error_code 1.. I16,
    replica_election_results 0.. array!(elect_leaders_response::ReplicaElectionResult, [
        topic 0.. String,
        partition_result 0.. array!(elect_leaders_response::PartitionResult, [
            partition_id 0.. I32,
            error_code 0.. I16,
            error_message 0.. NullString,
        ]),
    ]),
]);

message!(INCREMENTAL_ALTER_CONFIGS_REQUEST: 44, Request, 0..=1, flexible 1, [
    resources 0.. array!(incremental_alter_configs_request::AlterConfigsResource, [
        resource_type 0.. I8,
        resource_name 0.. String,
        configs 0.. array!(incremental_alter_configs_request::AlterableConfig, [
            name 0.. String,
            config_operation 0.. I8,
            value 0.. NullString,
        ]),
    ]),
    validate_only 0.. Bool,
]);

message!(INCREMENTAL_ALTER_CONFIGS_RESPONSE: 44, Response, 0..=1, flexible 1, [
    throttle_time_ms 0.. I32,
    responses 0.. array!(incremental_alter_configs_response::AlterConfigsResourceResponse, [
        error_code 0.. I16,
        error_message 0.. NullString,
        resource_type 0.. I8,
        resource_name 0.. String,
    ]),
]);

message!(ALTER_PARTITION_REASSIGNMENTS_REQUEST: 45, Request, 0..=0, flexible 0, [
    timeout_ms 0.. I32,
    topics 0.. array!(alter_partition_reassignments_request::ReassignableTopic, [
        name 0.. String,
        partitions 0.. array!(alter_partition_reassignments_request::ReassignablePartition, [
            partition_index 0.. I32,
            replicas 0.. NullArray(&I32),
        ]),
    ]),
]);

message!(ALTER_PARTITION_REASSIGNMENTS_RESPONSE: 45, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    error_message 0.. NullString,
    responses 0.. array!(alter_partition_reassignments_response::ReassignableTopicResponse, [
        name 0.. String,
        partitions 0.. array!(alter_partition_reassignments_response::ReassignablePartitionResponse, [
            partition_index 0.. I32,
            error_code 0.. I16,
            error_message 0.. NullString,
        ]),
    ]),
]);

message!(LIST_PARTITION_REASSIGNMENTS_REQUEST: 46, Request, 0..=0, flexible 0, [
    timeout_ms 0.. I32,
    topics 0.. null_array!(list_partition_reassignments_request::ListPartitionReassignmentsTopics, [
        name 0.. String,
        partition_indexes 0.. Array(&I32),
    ]),
]);

message!(LIST_PARTITION_REASSIGNMENTS_RESPONSE: 46, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    error_message 0.. NullString,
    topics 0.. array!(list_partition_reassignments_response::OngoingTopicReassignment, [
        name 0.. String,
        partitions 0.. array!(list_partition_reassignments_response::OngoingPartitionReassignment, [
            partition_index 0.. I32,
            replicas 0.. Array(&I32),
            adding_replicas 0.. Array(&I32),
            removing_replicas 0.. Array(&I32),
        ]),
    ]),
]);

message!(ALTER_USER_SCRAM_CREDENTIALS_REQUEST: 51, Request, 0..=0, flexible 0, [
    deletions 0.. array!(alter_user_scram_credentials_request::ScramCredentialDeletion, [
        name 0.. String,
        mechanism 0.. I8,
    ]),
    upsertions 0.. array!(alter_user_scram_credentials_request::ScramCredentialUpsertion, [
        name 0.. String,
        mechanism 0.. I8,
        iterations 0.. I32,
        salt 0.. Bytes,
        salted_password 0.. Bytes,
    ]),
]);

message!(ALTER_USER_SCRAM_CREDENTIALS_RESPONSE: 51, Response, 0..=0, flexible 0, [
    throttle_time_ms 0.. I32,
    results 0.. array!(alter_user_scram_credentials_response::AlterUserScramCredentialsResult, [
        user 0.. String,
        error_code 0.. I16,
        error_message 0.. NullString,
    ]),
]);

message!(UPDATE_FEATURES_REQUEST: 57, Request, 0..=1, flexible 0, [
    timeout_ms 0.. I32,
    feature_updates 0.. array!(update_features_request::FeatureUpdateKey, [
        feature 0.. String,
        max_version_level 0.. I16,
        allow_downgrade 0..=0 Bool,
        upgrade_type 1.. I8,
    ]),
    validate_only 1.. Bool,
]);

message!(UPDATE_FEATURES_RESPONSE: 57, Response, 0..=1, flexible 0, [
    throttle_time_ms 0.. I32,
    error_code 0.. I16,
    error_message 0.. NullString,
    results 0.. array!(update_features_response::UpdatableFeatureResult, [
        feature 0.. String,
        error_code 0.. I16,
        error_message 0.. NullString,
    ]),
]);
