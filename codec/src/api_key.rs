//! Kafka's API keys and their names. Holds every key that a 3.9 release knows, not only those that we can decode,
//! so that whatever a client sends can be named. Upstream counterpart: `ApiKeys`.

use std::fmt;

/// An API key as it stands in a request header, known or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// The name that Kafka gives this key, if it is one of Kafka's.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .binary_search_by_key(&self.0, |(key, _)| *key)
            .ok()
            .and_then(|at| NAMES.get(at))
            .map(|(_, name)| *name)
    }

    /// The key of that name, in any case, if it is one of Kafka's.
    pub fn named(name: &str) -> Option<ApiKey> {
        NAMES
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map(|(key, _)| ApiKey(*key))
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "API key {}", self.0),
        }
    }
}

macro_rules! api_keys {
    ($($constant:ident = $key:literal, $name:literal;)*) => {
        #[allow(missing_docs)]
        impl ApiKey {
            $(pub const $constant: ApiKey = ApiKey($key);)*
        }

        /// In the order of the keys.
        static NAMES: &[(i16, &str)] = &[$(($key, $name)),*];
    };
}

api_keys! {
    PRODUCE = 0, "Produce";
    FETCH = 1, "Fetch";
    LIST_OFFSETS = 2, "ListOffsets";
    METADATA = 3, "Metadata";
    LEADER_AND_ISR = 4, "LeaderAndIsr";
    STOP_REPLICA = 5, "StopReplica";
    UPDATE_METADATA = 6, "UpdateMetadata";
    CONTROLLED_SHUTDOWN = 7, "ControlledShutdown";
    OFFSET_COMMIT = 8, "OffsetCommit";
    OFFSET_FETCH = 9, "OffsetFetch";
    FIND_COORDINATOR = 10, "FindCoordinator";
    JOIN_GROUP = 11, "JoinGroup";
    HEARTBEAT = 12, "Heartbeat";
    LEAVE_GROUP = 13, "LeaveGroup";
    SYNC_GROUP = 14, "SyncGroup";
    DESCRIBE_GROUPS = 15, "DescribeGroups";
    LIST_GROUPS = 16, "ListGroups";
    SASL_HANDSHAKE = 17, "SaslHandshake";
    API_VERSIONS = 18, "ApiVersions";
    CREATE_TOPICS = 19, "CreateTopics";
    DELETE_TOPICS = 20, "DeleteTopics";
    DELETE_RECORDS = 21, "DeleteRecords";
    INIT_PRODUCER_ID = 22, "InitProducerId";
    OFFSET_FOR_LEADER_EPOCH = 23, "OffsetForLeaderEpoch";
    ADD_PARTITIONS_TO_TXN = 24, "AddPartitionsToTxn";
    ADD_OFFSETS_TO_TXN = 25, "AddOffsetsToTxn";
    END_TXN = 26, "EndTxn";
    WRITE_TXN_MARKERS = 27, "WriteTxnMarkers";
    TXN_OFFSET_COMMIT = 28, "TxnOffsetCommit";
    DESCRIBE_ACLS = 29, "DescribeAcls";
    CREATE_ACLS = 30, "CreateAcls";
    DELETE_ACLS = 31, "DeleteAcls";
    DESCRIBE_CONFIGS = 32, "DescribeConfigs";
    ALTER_CONFIGS = 33, "AlterConfigs";
    ALTER_REPLICA_LOG_DIRS = 34, "AlterReplicaLogDirs";
    DESCRIBE_LOG_DIRS = 35, "DescribeLogDirs";
    SASL_AUTHENTICATE = 36, "SaslAuthenticate";
    CREATE_PARTITIONS = 37, "CreatePartitions";
    CREATE_DELEGATION_TOKEN = 38, "CreateDelegationToken";
    RENEW_DELEGATION_TOKEN = 39, "RenewDelegationToken";
    EXPIRE_DELEGATION_TOKEN = 40, "ExpireDelegationToken";
    DESCRIBE_DELEGATION_TOKEN = 41, "DescribeDelegationToken";
    DELETE_GROUPS = 42, "DeleteGroups";
    ELECT_LEADERS = 43, "ElectLeaders";
    INCREMENTAL_ALTER_CONFIGS = 44, "IncrementalAlterConfigs";
    ALTER_PARTITION_REASSIGNMENTS = 45, "AlterPartitionReassignments";
    LIST_PARTITION_REASSIGNMENTS = 46, "ListPartitionReassignments";
    OFFSET_DELETE = 47, "OffsetDelete";
    DESCRIBE_CLIENT_QUOTAS = 48, "DescribeClientQuotas";
    ALTER_CLIENT_QUOTAS = 49, "AlterClientQuotas";
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "DescribeUserScramCredentials";
    ALTER_USER_SCRAM_CREDENTIALS = 51, "AlterUserScramCredentials";
    VOTE = 52, "Vote";
    BEGIN_QUORUM_EPOCH = 53, "BeginQuorumEpoch";
    END_QUORUM_EPOCH = 54, "EndQuorumEpoch";
    DESCRIBE_QUORUM = 55, "DescribeQuorum";
    ALTER_PARTITION = 56, "AlterPartition";
    UPDATE_FEATURES = 57, "UpdateFeatures";
    ENVELOPE = 58, "Envelope";
    FETCH_SNAPSHOT = 59, "FetchSnapshot";
    DESCRIBE_CLUSTER = 60, "DescribeCluster";
    DESCRIBE_PRODUCERS = 61, "DescribeProducers";
    BROKER_REGISTRATION = 62, "BrokerRegistration";
    BROKER_HEARTBEAT = 63, "BrokerHeartbeat";
    UNREGISTER_BROKER = 64, "UnregisterBroker";
    DESCRIBE_TRANSACTIONS = 65, "DescribeTransactions";
    LIST_TRANSACTIONS = 66, "ListTransactions";
    ALLOCATE_PRODUCER_IDS = 67, "AllocateProducerIds";
    CONSUMER_GROUP_HEARTBEAT = 68, "ConsumerGroupHeartbeat";
    CONSUMER_GROUP_DESCRIBE = 69, "ConsumerGroupDescribe";
    CONTROLLER_REGISTRATION = 70, "ControllerRegistration";
    GET_TELEMETRY_SUBSCRIPTIONS = 71, "GetTelemetrySubscriptions";
    PUSH_TELEMETRY = 72, "PushTelemetry";
    ASSIGN_REPLICAS_TO_DIRS = 73, "AssignReplicasToDirs";
    LIST_CLIENT_METRICS_RESOURCES = 74, "ListClientMetricsResources";
    DESCRIBE_TOPIC_PARTITIONS = 75, "DescribeTopicPartitions";
    SHARE_GROUP_HEARTBEAT = 76, "ShareGroupHeartbeat";
    SHARE_GROUP_DESCRIBE = 77, "ShareGroupDescribe";
    SHARE_FETCH = 78, "ShareFetch";
    SHARE_ACKNOWLEDGE = 79, "ShareAcknowledge";
    ADD_RAFT_VOTER = 80, "AddRaftVoter";
    REMOVE_RAFT_VOTER = 81, "RemoveRaftVoter";
    UPDATE_RAFT_VOTER = 82, "UpdateRaftVoter";
    INITIALIZE_SHARE_GROUP_STATE = 83, "InitializeShareGroupState";
    READ_SHARE_GROUP_STATE = 84, "ReadShareGroupState";
    WRITE_SHARE_GROUP_STATE = 85, "WriteShareGroupState";
    DELETE_SHARE_GROUP_STATE = 86, "DeleteShareGroupState";
    READ_SHARE_GROUP_STATE_SUMMARY = 87, "ReadShareGroupStateSummary";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_key_has_kafkas_name_and_an_unknown_one_its_number() {
        assert_eq!(ApiKey(4).to_string(), "LeaderAndIsr");
        assert_eq!(ApiKey::ALTER_PARTITION.to_string(), "AlterPartition");
        assert_eq!(ApiKey(999).to_string(), "API key 999");
        assert_eq!(ApiKey(-1).name(), None);
        assert_eq!(ApiKey::named("Whatever"), None);
    }

    #[test]
    fn the_names_are_in_order_so_that_each_is_found() {
        for pair in NAMES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
        for (key, name) in NAMES {
            assert_eq!(ApiKey(*key).name(), Some(*name));
            assert_eq!(ApiKey::named(&name.to_lowercase()), Some(ApiKey(*key)));
        }
    }
}
