//! Answers of a node that leads nothing and coordinates nothing. A client that asks it for either gets the error that
//! sends it to the right node; a tool that asks every node gets a harmless empty answer, since an error from one node
//! makes such tools call the whole listing failed. Says nothing of who may ask: the caller's codes do. Upstream
//! counterpart: `getErrorResponse` of the request classes, and `KafkaApis` where it differs from those.

use crate::api_key::ApiKey;
use crate::error::CodecError;
use crate::frame::Frame;
use crate::request::{Api, RequestHeader, decode_request};
use crate::response::encode_response;
use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{
    consumer_group_describe_response, describe_groups_response, describe_producers_response,
    describe_transactions_response, *,
};
use kafka_protocol::protocol::StrBytes;

pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub const NOT_LEADER_OR_FOLLOWER: i16 = 6;
pub const REPLICA_NOT_AVAILABLE: i16 = 9;
pub const NOT_COORDINATOR: i16 = 16;
pub const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
pub const UNKNOWN_TOPIC_ID: i16 = 100;

/// The directory that a node without replicas names when asked for its own: Java clients take an empty list for a lack
/// of permission.
pub const NO_LOG_DIR: &str = "none";

/// How a request names a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic<'a> {
    Name(&'a str),
    Id([u8; 16]),
}

/// The error codes to refuse with.
pub struct Refusal<'a> {
    /// For what is bound to a partition's leader: usually [`NOT_LEADER_OR_FOLLOWER`] for a known topic, else
    /// [`UNKNOWN_TOPIC_OR_PARTITION`] or, by id, [`UNKNOWN_TOPIC_ID`].
    pub topic: &'a dyn Fn(Topic<'_>) -> i16,
    /// For what is bound to a group or transaction coordinator: usually [`NOT_COORDINATOR`].
    pub coordinator: i16,
}

impl std::fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusal")
            .field("coordinator", &self.coordinator)
            .finish_non_exhaustive()
    }
}

/// What to do with the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Reply(Frame),
    /// The client expects no answer (Produce with acks=0): closing the connection makes it look for the leader anew.
    Close,
}

/// Whether [`refuse`] knows an answer for this API.
pub fn can_refuse(key: ApiKey) -> bool {
    bound_to(key).is_some()
}

/// Refuses a request, whose payload is decoded for that, since the errors stand beside each partition, group or
/// transaction that was asked for.
pub fn refuse(
    header: &RequestHeader,
    payload: &Bytes,
    refusal: &Refusal<'_>,
) -> Result<Answer, CodecError> {
    let call = Call { header, payload };
    let key = header.key;
    match bound_to(key).ok_or(CodecError::NotRefusable { key })? {
        Bound::Leader => refuse_leader_bound(call, refusal.topic),
        Bound::Coordinator => refuse_coordinator_bound(call, refusal.coordinator),
        Bound::Transaction => refuse_transaction_bound(call, refusal.coordinator),
        Bound::EachNode => answer_empty(call),
    }
}

/// To what kind of node a request is bound.
enum Bound {
    Leader,
    Coordinator,
    Transaction,
    EachNode,
}

fn bound_to(key: ApiKey) -> Option<Bound> {
    match key {
        ApiKey::PRODUCE
        | ApiKey::FETCH
        | ApiKey::LIST_OFFSETS
        | ApiKey::DELETE_RECORDS
        | ApiKey::OFFSET_FOR_LEADER_EPOCH
        | ApiKey::WRITE_TXN_MARKERS
        | ApiKey::DESCRIBE_PRODUCERS => Some(Bound::Leader),
        ApiKey::OFFSET_COMMIT
        | ApiKey::OFFSET_FETCH
        | ApiKey::JOIN_GROUP
        | ApiKey::HEARTBEAT
        | ApiKey::LEAVE_GROUP
        | ApiKey::SYNC_GROUP
        | ApiKey::DESCRIBE_GROUPS
        | ApiKey::DELETE_GROUPS
        | ApiKey::OFFSET_DELETE
        | ApiKey::CONSUMER_GROUP_HEARTBEAT
        | ApiKey::CONSUMER_GROUP_DESCRIBE => Some(Bound::Coordinator),
        ApiKey::INIT_PRODUCER_ID
        | ApiKey::ADD_PARTITIONS_TO_TXN
        | ApiKey::ADD_OFFSETS_TO_TXN
        | ApiKey::END_TXN
        | ApiKey::TXN_OFFSET_COMMIT
        | ApiKey::DESCRIBE_TRANSACTIONS => Some(Bound::Transaction),
        ApiKey::LIST_GROUPS
        | ApiKey::LIST_TRANSACTIONS
        | ApiKey::ALTER_REPLICA_LOG_DIRS
        | ApiKey::DESCRIBE_LOG_DIRS => Some(Bound::EachNode),
        _ => None,
    }
}

type ByTopic<'a> = &'a dyn Fn(Topic<'_>) -> i16;

fn refuse_leader_bound(call: Call<'_>, code: ByTopic<'_>) -> Result<Answer, CodecError> {
    match call.header.key {
        ApiKey::PRODUCE => {
            let request: ProduceRequest = call.request()?;
            match request.acks {
                0 => Ok(Answer::Close),
                _ => call.answer::<ProduceRequest>(&produce(request, code)),
            }
        }
        ApiKey::FETCH => {
            call.reply(|request: FetchRequest| fetch(request, call.header.version, code))
        }
        ApiKey::LIST_OFFSETS => call.reply(|request| list_offsets(request, code)),
        ApiKey::DELETE_RECORDS => call.reply(|request| delete_records(request, code)),
        ApiKey::OFFSET_FOR_LEADER_EPOCH => {
            call.reply(|request| offset_for_leader_epoch(request, code))
        }
        ApiKey::WRITE_TXN_MARKERS => call.reply(|request| write_txn_markers(request, code)),
        _ => call.reply(|request| describe_producers(request, code)),
    }
}

fn refuse_coordinator_bound(call: Call<'_>, code: i16) -> Result<Answer, CodecError> {
    let version = call.header.version;
    match call.header.key {
        ApiKey::OFFSET_COMMIT => call.reply(|request| offset_commit(request, code)),
        ApiKey::OFFSET_FETCH => call.reply(|request| offset_fetch(request, version, code)),
        ApiKey::JOIN_GROUP => call.reply(|_: JoinGroupRequest| join_group(version, code)),
        ApiKey::HEARTBEAT => {
            call.reply(|_: HeartbeatRequest| HeartbeatResponse::default().with_error_code(code))
        }
        ApiKey::LEAVE_GROUP => {
            call.reply(|_: LeaveGroupRequest| LeaveGroupResponse::default().with_error_code(code))
        }
        ApiKey::SYNC_GROUP => {
            call.reply(|_: SyncGroupRequest| SyncGroupResponse::default().with_error_code(code))
        }
        ApiKey::DESCRIBE_GROUPS => call.reply(|request| describe_groups(request, code)),
        ApiKey::DELETE_GROUPS => call.reply(|request| delete_groups(request, code)),
        ApiKey::OFFSET_DELETE => call
            .reply(|_: OffsetDeleteRequest| OffsetDeleteResponse::default().with_error_code(code)),
        ApiKey::CONSUMER_GROUP_HEARTBEAT => call.reply(|_: ConsumerGroupHeartbeatRequest| {
            ConsumerGroupHeartbeatResponse::default().with_error_code(code)
        }),
        _ => call.reply(|request| consumer_group_describe(request, code)),
    }
}

fn refuse_transaction_bound(call: Call<'_>, code: i16) -> Result<Answer, CodecError> {
    let version = call.header.version;
    match call.header.key {
        ApiKey::INIT_PRODUCER_ID => call.reply(|_: InitProducerIdRequest| init_producer_id(code)),
        ApiKey::ADD_PARTITIONS_TO_TXN => {
            call.reply(|request| add_partitions_to_txn(request, version, code))
        }
        ApiKey::ADD_OFFSETS_TO_TXN => call.reply(|_: AddOffsetsToTxnRequest| {
            AddOffsetsToTxnResponse::default().with_error_code(code)
        }),
        ApiKey::END_TXN => {
            call.reply(|_: EndTxnRequest| EndTxnResponse::default().with_error_code(code))
        }
        ApiKey::TXN_OFFSET_COMMIT => call.reply(|request| txn_offset_commit(request, code)),
        _ => call.reply(|request| describe_transactions(request, code)),
    }
}

fn answer_empty(call: Call<'_>) -> Result<Answer, CodecError> {
    match call.header.key {
        ApiKey::LIST_GROUPS => call.reply(|_: ListGroupsRequest| ListGroupsResponse::default()),
        ApiKey::LIST_TRANSACTIONS => {
            call.reply(|_: ListTransactionsRequest| ListTransactionsResponse::default())
        }
        ApiKey::ALTER_REPLICA_LOG_DIRS => call.reply(alter_replica_log_dirs),
        _ => call.reply(|_: DescribeLogDirsRequest| describe_log_dirs()),
    }
}

/// One request to be answered.
#[derive(Clone, Copy)]
struct Call<'a> {
    header: &'a RequestHeader,
    payload: &'a Bytes,
}

impl Call<'_> {
    fn request<A: Api>(&self) -> Result<A, CodecError> {
        decode_request(self.header, self.payload)
    }

    fn answer<A: Api>(&self, response: &A::Response) -> Result<Answer, CodecError> {
        let frame =
            encode_response::<A>(self.header.version, self.header.correlation_id, response)?;
        Ok(Answer::Reply(frame))
    }

    fn reply<A: Api>(&self, refuse: impl FnOnce(A) -> A::Response) -> Result<Answer, CodecError> {
        self.answer::<A>(&refuse(self.request()?))
    }
}

fn produce(request: ProduceRequest, code: ByTopic<'_>) -> ProduceResponse {
    let topics = request.topic_data.into_iter().map(|topic| {
        let code = code(Topic::Name(&topic.name));
        let partitions = topic.partition_data.iter().map(|partition| {
            PartitionProduceResponse::default()
                .with_index(partition.index)
                .with_error_code(code)
                .with_base_offset(-1)
        });
        TopicProduceResponse::default()
            .with_partition_responses(partitions.collect())
            .with_name(topic.name)
    });
    ProduceResponse::default().with_responses(topics.collect())
}

fn fetch(request: FetchRequest, version: i16, code: ByTopic<'_>) -> FetchResponse {
    const BY_ID: i16 = 13;
    if request.session_id != 0 {
        // We never gave one out.
        return FetchResponse::default().with_error_code(FETCH_SESSION_ID_NOT_FOUND);
    }
    let topics = request.topics.into_iter().map(|topic| {
        let code = match version {
            BY_ID.. => code(Topic::Id(topic.topic_id.into_bytes())),
            _ => code(Topic::Name(&topic.topic)),
        };
        let partitions = topic.partitions.iter().map(|partition| {
            PartitionData::default()
                .with_partition_index(partition.partition)
                .with_error_code(code)
                .with_high_watermark(-1)
        });
        FetchableTopicResponse::default()
            .with_partitions(partitions.collect())
            .with_topic_id(topic.topic_id)
            .with_topic(topic.topic)
    });
    FetchResponse::default().with_responses(topics.collect())
}

fn list_offsets(request: ListOffsetsRequest, code: ByTopic<'_>) -> ListOffsetsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let code = code(Topic::Name(&topic.name));
        let partitions = topic.partitions.iter().map(|partition| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        ListOffsetsTopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn delete_records(request: DeleteRecordsRequest, code: ByTopic<'_>) -> DeleteRecordsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let code = code(Topic::Name(&topic.name));
        let partitions = topic.partitions.iter().map(|partition| {
            DeleteRecordsPartitionResult::default()
                .with_partition_index(partition.partition_index)
                .with_low_watermark(-1)
                .with_error_code(code)
        });
        DeleteRecordsTopicResult::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

fn offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest,
    code: ByTopic<'_>,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let code = code(Topic::Name(&topic.topic));
        let partitions = topic.partitions.iter().map(|partition| {
            EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_error_code(code)
        });
        OffsetForLeaderTopicResult::default()
            .with_partitions(partitions.collect())
            .with_topic(topic.topic)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

fn write_txn_markers(
    request: WriteTxnMarkersRequest,
    code: ByTopic<'_>,
) -> WriteTxnMarkersResponse {
    let markers = request.markers.into_iter().map(|marker| {
        let topics = marker.topics.into_iter().map(|topic| {
            let code = code(Topic::Name(&topic.name));
            let partitions = topic.partition_indexes.iter().map(|partition| {
                WritableTxnMarkerPartitionResult::default()
                    .with_partition_index(*partition)
                    .with_error_code(code)
            });
            WritableTxnMarkerTopicResult::default()
                .with_partitions(partitions.collect())
                .with_name(topic.name)
        });
        WritableTxnMarkerResult::default()
            .with_topics(topics.collect())
            .with_producer_id(marker.producer_id)
    });
    WriteTxnMarkersResponse::default().with_markers(markers.collect())
}

fn describe_producers(
    request: DescribeProducersRequest,
    code: ByTopic<'_>,
) -> DescribeProducersResponse {
    use describe_producers_response::{PartitionResponse, TopicResponse};
    let topics = request.topics.into_iter().map(|topic| {
        let code = code(Topic::Name(&topic.name));
        let partitions = topic.partition_indexes.iter().map(|partition| {
            PartitionResponse::default()
                .with_partition_index(*partition)
                .with_error_code(code)
        });
        TopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}

fn offset_commit(request: OffsetCommitRequest, code: i16) -> OffsetCommitResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        OffsetCommitResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

/// The error stands beside each partition below version 2, for all up to 7, and beside each group from 8 on.
fn offset_fetch(request: OffsetFetchRequest, version: i16, code: i16) -> OffsetFetchResponse {
    let response = OffsetFetchResponse::default();
    if version >= 8 {
        let groups = request.groups.into_iter().map(|group| {
            OffsetFetchResponseGroup::default()
                .with_group_id(group.group_id)
                .with_error_code(code)
        });
        return response.with_groups(groups.collect());
    }
    if version >= 2 {
        return response.with_error_code(code);
    }
    let topics = request.topics.unwrap_or_default().into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|partition| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(-1)
                .with_error_code(code)
        });
        OffsetFetchResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    response.with_topics(topics.collect())
}

fn join_group(version: i16, code: i16) -> JoinGroupResponse {
    let protocol_name = (version < 7).then(StrBytes::default);
    JoinGroupResponse::default()
        .with_error_code(code)
        .with_protocol_name(protocol_name)
}

fn describe_groups(request: DescribeGroupsRequest, code: i16) -> DescribeGroupsResponse {
    let refused = describe_groups_response::DescribedGroup::default().with_error_code(code);
    let groups = request
        .groups
        .into_iter()
        .map(|group| refused.clone().with_group_id(group));
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn delete_groups(request: DeleteGroupsRequest, code: i16) -> DeleteGroupsResponse {
    let refused = DeletableGroupResult::default().with_error_code(code);
    let groups = request
        .groups_names
        .into_iter()
        .map(|group| refused.clone().with_group_id(group));
    DeleteGroupsResponse::default().with_results(groups.collect())
}

fn consumer_group_describe(
    request: ConsumerGroupDescribeRequest,
    code: i16,
) -> ConsumerGroupDescribeResponse {
    let refused = consumer_group_describe_response::DescribedGroup::default().with_error_code(code);
    let groups = request
        .group_ids
        .into_iter()
        .map(|group| refused.clone().with_group_id(group));
    ConsumerGroupDescribeResponse::default().with_groups(groups.collect())
}

fn init_producer_id(code: i16) -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_error_code(code)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

fn add_partitions_to_txn(
    request: AddPartitionsToTxnRequest,
    version: i16,
    code: i16,
) -> AddPartitionsToTxnResponse {
    let refuse_topic = |topic: AddPartitionsToTxnTopic| {
        let partitions = topic.partitions.iter().map(|partition| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*partition)
                .with_partition_error_code(code)
        });
        AddPartitionsToTxnTopicResult::default()
            .with_results_by_partition(partitions.collect())
            .with_name(topic.name)
    };
    let response = AddPartitionsToTxnResponse::default();
    if version < 4 {
        let topics = request.v3_and_below_topics.into_iter().map(refuse_topic);
        return response.with_results_by_topic_v3_and_below(topics.collect());
    }
    let transactions = request.transactions.into_iter().map(|transaction| {
        AddPartitionsToTxnResult::default()
            .with_topic_results(transaction.topics.into_iter().map(refuse_topic).collect())
            .with_transactional_id(transaction.transactional_id)
    });
    response.with_results_by_transaction(transactions.collect())
}

fn txn_offset_commit(request: TxnOffsetCommitRequest, code: i16) -> TxnOffsetCommitResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        TxnOffsetCommitResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

fn describe_transactions(
    request: DescribeTransactionsRequest,
    code: i16,
) -> DescribeTransactionsResponse {
    let refused = describe_transactions_response::TransactionState::default().with_error_code(code);
    let states = request
        .transactional_ids
        .into_iter()
        .map(|id| refused.clone().with_transactional_id(id));
    DescribeTransactionsResponse::default().with_transaction_states(states.collect())
}

fn alter_replica_log_dirs(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse {
    let topics = request
        .dirs
        .into_iter()
        .flat_map(|dir| dir.topics)
        .map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                AlterReplicaLogDirPartitionResult::default()
                    .with_partition_index(*partition)
                    .with_error_code(REPLICA_NOT_AVAILABLE)
            });
            AlterReplicaLogDirTopicResult::default()
                .with_partitions(partitions.collect())
                .with_topic_name(topic.name)
        });
    AlterReplicaLogDirsResponse::default().with_results(topics.collect())
}

fn describe_log_dirs() -> DescribeLogDirsResponse {
    let dir = DescribeLogDirsResult::default().with_log_dir(StrBytes::from_static_str(NO_LOG_DIR));
    DescribeLogDirsResponse::default().with_results(vec![dir])
}

#[cfg(test)]
mod tests;
