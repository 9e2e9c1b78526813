//! What an answer says of each thing that a request names, in memory: some bytes of a question make many times as many of
//! an answer, which is built whole before it is sent.
//!
//! Counts only; what is answered is decided elsewhere (`refusal`, and the caller). Where a request's own record is about as
//! large as the answer's, as for Fetch or OffsetCommit, the record's size is charge enough. Upstream: none.

use crate::api_key::ApiKey;
use crate::error::{Direction, Message};
use kafka_protocol::messages::{
    add_partitions_to_txn_response as add_partitions_to_txn,
    alter_partition_reassignments_response as alter_reassignments,
    alter_replica_log_dirs_response as alter_replica_log_dirs,
    consumer_group_describe_response as consumer_group_describe,
    delete_groups_response as delete_groups, delete_topics_response as delete_topics,
    describe_groups_response as describe_groups, describe_producers_response as describe_producers,
    describe_transactions_response as describe_transactions,
    elect_leaders_response as elect_leaders,
    list_partition_reassignments_response as list_reassignments,
    offset_fetch_response as offset_fetch, update_features_response as update_features,
    write_txn_markers_response as write_txn_markers,
};

/// OffsetFetch is answered for each partition below this version.
const OFFSETS_REFUSED_AT_ONCE: i16 = 2;

/// The bytes of the answer's entry for each element of an array of this name.
pub(super) fn entry_size(message: Message, array: &str) -> u64 {
    let Message {
        key,
        direction: Direction::Request,
        version,
    } = message
    else {
        return 0;
    };
    let size = match (key, array) {
        (ApiKey::OFFSET_FETCH, "partition_indexes") if version < OFFSETS_REFUSED_AT_ONCE => {
            size_of::<offset_fetch::OffsetFetchResponsePartition>()
        }
        (ApiKey::DESCRIBE_GROUPS, "groups") => size_of::<describe_groups::DescribedGroup>(),
        (ApiKey::DELETE_TOPICS, "topics" | "topic_names") => {
            size_of::<delete_topics::DeletableTopicResult>()
        }
        (ApiKey::ADD_PARTITIONS_TO_TXN, "partitions") => {
            size_of::<add_partitions_to_txn::AddPartitionsToTxnPartitionResult>()
        }
        (ApiKey::WRITE_TXN_MARKERS, "partition_indexes") => {
            size_of::<write_txn_markers::WritableTxnMarkerPartitionResult>()
        }
        (ApiKey::ALTER_REPLICA_LOG_DIRS, "partitions") => {
            size_of::<alter_replica_log_dirs::AlterReplicaLogDirPartitionResult>()
        }
        (ApiKey::DELETE_GROUPS, "groups_names") => size_of::<delete_groups::DeletableGroupResult>(),
        (ApiKey::ELECT_LEADERS, "partitions") => size_of::<elect_leaders::PartitionResult>(),
        (ApiKey::ALTER_PARTITION_REASSIGNMENTS, "partitions") => {
            size_of::<alter_reassignments::ReassignablePartitionResponse>()
        }
        (ApiKey::LIST_PARTITION_REASSIGNMENTS, "partition_indexes") => {
            size_of::<list_reassignments::OngoingPartitionReassignment>()
        }
        (ApiKey::UPDATE_FEATURES, "feature_updates") => {
            size_of::<update_features::UpdatableFeatureResult>()
        }
        (ApiKey::DESCRIBE_PRODUCERS, "partition_indexes") => {
            size_of::<describe_producers::PartitionResponse>()
        }
        (ApiKey::DESCRIBE_TRANSACTIONS, "transactional_ids") => {
            size_of::<describe_transactions::TransactionState>()
        }
        (ApiKey::CONSUMER_GROUP_DESCRIBE, "group_ids") => {
            size_of::<consumer_group_describe::DescribedGroup>()
        }
        _ => 0,
    };
    size as u64
}
