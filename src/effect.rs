//! All that may leave the controller, and the proof of what ZooKeeper holds.
//!
//! Closed enums: what isn't listed here can't be done to a cluster. Nothing in this file performs anything.
//!
//! Every write in [`ZkWrite`] is sent under a check of `/controller_epoch` (KAFKA-6082). The role's own transactions
//! (`port::Zk::take_role`, `release_role`), `/klamm/ids/N` and the creation of the parent paths a first broker would
//! create are the only exceptions: they change who the controller is, or exist before there is one.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::model::topic_config::{Properties, TopicSetting};
use crate::model::{
    ApiError, Broker, BrokerEpoch, BrokerId, BrokerIds, ConfigEntity, ControllerEpoch,
    EntityConfig, InterBrokerProtocol, KafkaError, LeaderAndIsr, LeaderEpoch, PartitionEpoch,
    ReplicaAssignment, SanitizedName, TopicId, TopicName, TopicPartition,
};

/// One term of office: the epoch in every request to a broker, and the fence in every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The number in `/controller_epoch`.
    pub epoch: ControllerEpoch,
    /// The version of `/controller_epoch`: a write under another version is refused by ZooKeeper.
    pub epoch_zk_version: i32,
}

/// A value that ZooKeeper was seen to hold, with the version it holds it under.
///
/// There are two ways to one: a read, and a write that ZooKeeper confirmed. Requests that name a leader are built from
/// these alone, so no broker hears of a leader that ZooKeeper doesn't hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<T> {
    value: T,
    controller_epoch: ControllerEpoch,
    partition_epoch: PartitionEpoch,
}

impl<T> Committed<T> {
    /// The epoch of the controller that wrote it.
    pub fn controller_epoch(&self) -> ControllerEpoch {
        self.controller_epoch
    }

    /// ZooKeeper's version of it.
    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.partition_epoch
    }
}

impl<T> Deref for Committed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A partition's state as read from its znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// The leadership in the node.
    pub leader_and_isr: LeaderAndIsr,
    /// The `controller_epoch` in the node.
    pub controller_epoch: ControllerEpoch,
    /// The node's version.
    pub partition_epoch: PartitionEpoch,
}

impl From<StateRead> for Committed<LeaderAndIsr> {
    fn from(read: StateRead) -> Committed<LeaderAndIsr> {
        Committed {
            value: read.leader_and_isr,
            controller_epoch: read.controller_epoch,
            partition_epoch: read.partition_epoch,
        }
    }
}

/// What became of reading one node. One broken node never costs the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<T> {
    /// The node and what it says.
    Found(T),
    /// There is no such node.
    Missing,
    /// The node is there but can't be understood: its path and what is wrong with it, for the log.
    Broken(String),
}

impl<T> Read<T> {
    /// The content, if it could be read.
    pub fn found(self) -> Option<T> {
        match self {
            Read::Found(value) => Some(value),
            Read::Missing | Read::Broken(_) => None,
        }
    }

    /// The same outcome for another shape of the content.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Read::Found(value) => Read::Found(change(value)),
            Read::Missing => Read::Missing,
            Read::Broken(why) => Read::Broken(why),
        }
    }
}

/// `/brokers/topics/T`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicZnode {
    /// The topic's id, if it has one.
    pub topic_id: Option<TopicId>,
    /// Partition → replicas.
    pub partitions: BTreeMap<i32, ReplicaAssignment>,
    /// The node's version; a rewrite is conditional on it.
    pub version: i32,
}

/// What of `/config/topics/T` (or a broker default) the controller heeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ElectionConfig {
    /// `unclean.leader.election.enable`, if set there.
    pub unclean_leader_election_enable: Option<bool>,
}

/// A notice below `/config/changes`: whose configuration was written, as far as that concerns the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// `/config/topics/T`.
    Topic(TopicName),
    /// `/config/brokers/<default>`.
    BrokerDefault,
    /// That of a user, of clients of one id, or of both: quotas may stand there.
    Quota(ConfigEntity),
    /// A single broker's, an address's.
    Other,
}

/// The name of a child of `/delegation_token/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId(pub String);

/// `/delegation_token/tokens/ID`: until when it is good, in milliseconds since 1970, and which node that was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationTokenZnode {
    /// It can't be renewed beyond this.
    pub max_timestamp_ms: i64,
    /// Until when it was renewed.
    pub expiry_timestamp_ms: i64,
    /// The node's version: each renewal raises it.
    pub version: i32,
    /// The transaction that made the node.
    pub czxid: i64,
}

/// The name of a sequential child below a notification path, `isr_change_0000000007` for instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotificationName(pub String);

/// `/latest_producer_id_block` as read; both bounds inclusive, block size 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// Who got the block.
    pub broker: BrokerId,
    /// First id.
    pub first: i64,
    /// Last id.
    pub last: i64,
}

/// `/feature` (KIP-584). klamm never writes a non-empty map: a broker that lacks a finalized feature exits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureZnode {
    /// `version` in the JSON: 1, or 2 from IBP 3.3 on.
    pub json_version: i32,
    /// `status`: enabled or disabled.
    pub enabled: bool,
    /// Feature → (minimum, maximum) level.
    pub levels: BTreeMap<String, (i16, i16)>,
}

/// `/admin/preferred_replica_election`: the partitions that an operator wants to see led by their preferred replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreferredElectionZnode {
    /// Those that could be read, as they stand there.
    pub partitions: Vec<TopicPartition>,
    /// What is wrong with the others, each with the path.
    pub broken: Vec<String>,
}

/// `/admin/reassign_partitions`: where an operator wants to see partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassignmentZnode {
    /// Partition → wanted replicas, of the entries that could be read. The last entry of a partition counts, as in Java.
    pub targets: BTreeMap<TopicPartition, BrokerIds>,
    /// What is wrong with the others, or with the node as a whole, each with the path.
    pub broken: Vec<String>,
    /// The node's version; a rewrite is conditional on it.
    pub version: i32,
    /// The transaction that made the node: one that is made anew begins with the same versions again.
    pub czxid: i64,
}

/// One write of the role. Each is sent under the epoch check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZkWrite {
    /// Create `…/partitions`, `…/partitions/P` where missing, and `…/P/state`, which must be missing.
    CreateState {
        /// Whose state.
        partition: TopicPartition,
        /// What to write.
        leader_and_isr: LeaderAndIsr,
        /// Our epoch.
        controller_epoch: ControllerEpoch,
    },
    /// Set `…/P/state`, if it still has the expected version.
    SetState {
        /// Whose state.
        partition: TopicPartition,
        /// What to write.
        leader_and_isr: LeaderAndIsr,
        /// Our epoch.
        controller_epoch: ControllerEpoch,
        /// The version it was decided on.
        expected: PartitionEpoch,
    },
    /// Create `/brokers/topics/T`, which must be missing, and `/config/topics/T`, in place of one that a deletion left
    /// behind. In one transaction, unlike Java, which overwrites the configuration of a topic that somebody else created a
    /// moment ago, and leaves one without a topic where it fails in between.
    CreateTopic {
        /// The topic.
        topic: TopicName,
        /// Its id, if the cluster's protocol knows ids.
        topic_id: Option<TopicId>,
        /// The replicas of each partition, from index 0 on.
        replicas: Vec<BrokerIds>,
        /// Its configuration.
        config: Properties,
    },
    /// Rewrite `/brokers/topics/T`, if it still has the version in `znode`. Java writes it unconditionally and so can
    /// undo a tool's concurrent change.
    SetTopic {
        /// The topic.
        topic: TopicName,
        /// Its new content, and the version that it was read under.
        znode: TopicZnode,
    },
    /// Delete all of `/brokers/topics/T`, `/config/topics/T` and `/admin/delete_topics/T`. What is below the topic's node
    /// goes first; the three themselves go in one transaction, so that nobody sees one without the others. Cut off
    /// anywhere, the topic's node and the request to delete it are there for the next try. `Missing`: none of it was there.
    DeleteTopic(TopicName),
    /// Delete `/config/topics/T` and `/admin/delete_topics/T`, in one transaction: all that a Java controller left of a
    /// deletion that was cut off.
    DeleteTopicRemains(TopicName),
    /// Create `/admin/delete_topics/T`: the request that outlives the controller that took it.
    CreateTopicDeletion(TopicName),
    /// Delete `/admin/delete_topics/T`: the request alone.
    DeleteTopicDeletion(TopicName),
    /// Delete `/isr_change_notification/NAME`.
    DeleteIsrChangeNotification(NotificationName),
    /// Delete `/log_dir_event_notification/NAME`.
    DeleteLogDirEventNotification(NotificationName),
    /// Delete `/admin/preferred_replica_election`: what was asked for has been looked at.
    DeletePreferredReplicaElection,
    /// Rewrite `/admin/reassign_partitions`, if it still has the expected version.
    SetPartitionReassignment {
        /// What is still to be done.
        targets: BTreeMap<TopicPartition, BrokerIds>,
        /// The version it was decided on.
        expected: i32,
    },
    /// Delete `/admin/reassign_partitions`, if it still has the expected version: all of it is done.
    DeletePartitionReassignment {
        /// The version it was decided on.
        expected: i32,
        /// The transaction that made the node.
        czxid: i64,
    },
    /// Create `/feature`.
    CreateFeature(FeatureZnode),
    /// Set `/feature`, if it still has the expected version. It is never deleted: brokers exit when its version falls.
    SetFeature {
        /// New content.
        znode: FeatureZnode,
        /// The version it was decided on.
        expected: i32,
    },
    /// Delete `/delegation_token/tokens/ID`, if it is the node that was read, not renewed since, and leave a notice below
    /// `/delegation_token/token_changes` in the same transaction: brokers forget the token then.
    ExpireDelegationToken {
        /// Which.
        token: TokenId,
        /// The node that was read.
        read: DelegationTokenZnode,
    },
    /// Create `/config/users/U`, or set it if it still has the expected version, and leave a notice below `/config/changes`
    /// in the same transaction: brokers read the configuration then. Java writes whatever stands there, and so can undo
    /// what somebody else changed a moment ago.
    WriteUserConfig {
        /// The user.
        user: SanitizedName,
        /// All of the configuration.
        config: EntityConfig,
        /// The version it was decided on; `None`: there was no node.
        expected: Option<i32>,
    },
    /// Set `/latest_producer_id_block`, if it still has the expected version.
    SetProducerIdBlock {
        /// The block handed out.
        block: ProducerIdBlock,
        /// The version it was decided on.
        expected: i32,
    },
}

/// What became of one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZkOutcome {
    /// ZooKeeper holds it, under this version (0 for a deletion).
    Written {
        /// The node's version after the write.
        version: i32,
    },
    /// Somebody else wrote the node first: read again, decide again.
    VersionConflict,
    /// The node to be created exists already.
    AlreadyExists,
    /// The node to be changed is gone.
    Missing,
    /// Refused for another reason: path and cause, for the log.
    Refused(String),
}

impl ZkWrite {
    /// The committed state that this write made, if it wrote a partition's state and ZooKeeper confirmed it.
    pub fn committed(&self, outcome: &ZkOutcome) -> Option<Committed<LeaderAndIsr>> {
        let ZkOutcome::Written { version } = outcome else {
            return None;
        };
        match self {
            ZkWrite::CreateState {
                leader_and_isr,
                controller_epoch,
                ..
            }
            | ZkWrite::SetState {
                leader_and_isr,
                controller_epoch,
                ..
            } => Some(Committed {
                value: leader_and_isr.clone(),
                controller_epoch: *controller_epoch,
                partition_epoch: PartitionEpoch(*version),
            }),
            _ => None,
        }
    }
}

/// Partitions of one topic, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTopic<T> {
    /// The topic.
    pub topic: TopicName,
    /// Its id, if it has one.
    pub topic_id: Option<TopicId>,
    /// What is said of its partitions, in the order of their indexes.
    pub partitions: Vec<T>,
}

/// One partition in a LeaderAndIsr request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAndIsrPartition {
    /// Index within the topic.
    pub partition: i32,
    /// What ZooKeeper holds.
    pub state: Committed<LeaderAndIsr>,
    /// All replicas, and those that are moving.
    pub assignment: ReplicaAssignment,
    /// The broker may create the log even where one of its directories is offline.
    pub is_new: bool,
}

/// One partition in an UpdateMetadata request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMetadataPartition {
    /// Index within the topic.
    pub partition: i32,
    /// What brokers and clients are told.
    pub leadership: AnnouncedLeadership,
    /// All replicas.
    pub replicas: BrokerIds,
    /// Those that are not online, shutting-down brokers included.
    pub offline_replicas: BrokerIds,
}

/// What UpdateMetadata says of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnouncedLeadership {
    /// What ZooKeeper holds.
    Committed(Committed<LeaderAndIsr>),
    /// Leader −2, leader epoch 0: forget the topic, it is being deleted. The rest is filled from the committed state.
    DuringDelete(Committed<LeaderAndIsr>),
}

/// One partition in a StopReplica request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReplicaPartition {
    /// Index within the topic.
    pub partition: i32,
    /// The epoch the broker compares its own with, from version 3 on.
    pub leader_epoch: LeaderEpoch,
    /// Delete the log, or only stop fetching.
    pub disposal: ReplicaDisposal,
}

/// What a broker does with a replica that it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaDisposal {
    /// Stop fetching, keep the log.
    Keep,
    /// Delete the log and forget the partition.
    Delete,
}

/// The requests of one batch. Each broker gets its LeaderAndIsr, then UpdateMetadata, then StopReplica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlRequests {
    /// The epoch in every one of them.
    pub controller_epoch: ControllerEpoch,
    /// The cluster's protocol: an upper bound of the versions.
    pub protocol: InterBrokerProtocol,
    /// Every broker that is live or shutting down, ourselves included.
    pub live_brokers: Arc<[Broker]>,
    /// LeaderAndIsr, per broker.
    pub leader_and_isr: BTreeMap<BrokerId, Vec<ByTopic<LeaderAndIsrPartition>>>,
    /// UpdateMetadata, the same for all that get it.
    pub update_metadata: Option<UpdateMetadata>,
    /// StopReplica, per broker.
    pub stop_replica: BTreeMap<BrokerId, Vec<ByTopic<StopReplicaPartition>>>,
}

/// One UpdateMetadata for several brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMetadata {
    /// Who gets it.
    pub to: Vec<BrokerId>,
    /// Rises with each that is sent in a term; comes back with the answers. 0: nobody waits for them.
    pub number: u64,
    /// The partitions; none at all is the update that only says who is alive.
    pub topics: Arc<[ByTopic<UpdateMetadataPartition>]>,
}

/// A topic in an answer: LeaderAndIsr names it by id from version 5 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicReference {
    /// By name.
    Name(TopicName),
    /// By id.
    Id(TopicId),
}

/// A broker's answer to LeaderAndIsr or StopReplica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionErrors {
    /// The code of the request as a whole.
    pub error: KafkaError,
    /// The code of each partition that the broker named.
    pub partitions: Vec<(TopicReference, i32, KafkaError)>,
}

/// A request that reached the node's listener and waits for the controller: the slot that its answer goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// The answer to a request that waited for the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An answer to a client that has used up a quota: so long it is to ask for nothing more.
    Throttled {
        /// How long; more than 0.
        throttle_time_ms: u64,
        /// What it is answered.
        answer: Box<Answer>,
    },
    /// The partitions still led by the leaving broker.
    ControlledShutdown(Result<Vec<TopicPartition>, KafkaError>),
    /// One entry a partition asked about.
    AlterPartition(Result<Vec<AlterPartitionAnswer>, KafkaError>),
    /// The block handed out.
    AllocateProducerIds(Result<ProducerIdBlock, KafkaError>),
    /// One entry a feature, in the request's order; or why none was looked at.
    UpdateFeatures(Result<Vec<FeatureResult>, ApiError>),
    /// One entry a user, in the order in which the request names them.
    AlterUserScramCredentials(Result<Vec<ScramResult>, KafkaError>),
    /// One entry a partition that was asked about, or that needed an election.
    ElectLeaders(Result<Vec<ElectionResult>, KafkaError>),
    /// Whether what the controller knows is what ZooKeeper holds.
    Compare(Result<Compared, KafkaError>),
    /// One entry a topic asked about, in the request's order.
    DeleteTopics(Result<Vec<DeletedTopic>, KafkaError>),
    /// One entry a topic asked about, in the request's order.
    CreateTopics(Result<Vec<CreatedTopic>, KafkaError>),
    /// One entry a topic asked about, in the request's order; one that stands there twice has one.
    CreatePartitions(Result<Vec<GrownTopic>, KafkaError>),
    /// One entry a partition asked about: begun (or done already), or why not.
    AlterPartitionReassignments(Result<Vec<ReassignmentResult>, KafkaError>),
    /// Those asked about that are being reassigned.
    ListPartitionReassignments(Result<Vec<(TopicPartition, ReplicaAssignment)>, KafkaError>),
}

/// What a comparison of the controller's knowledge with ZooKeeper found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// How many topics were read.
    pub topics: usize,
    /// How many partitions.
    pub partitions: usize,
    /// Each difference with its node; empty is good.
    pub differences: Vec<String>,
}

/// What a client hears of one topic that it wanted deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// The name, as asked for or as found by the id.
    pub name: Option<TopicName>,
    /// The id, as asked for or as found by the name.
    pub topic_id: Option<TopicId>,
    /// `Ok`: no client finds it any more; its logs and nodes go as soon as they can.
    pub result: Result<(), ApiError>,
}

/// What a client hears of one topic that it wanted created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The name, as asked for.
    pub name: TopicName,
    /// `Ok`: clients find it, or would if this had not been a mere question.
    pub result: Result<TopicDetails, ApiError>,
}

/// What a client hears of a topic that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDetails {
    /// Its id; `None`: nothing was created, or topics have none.
    pub topic_id: Option<TopicId>,
    /// How many partitions it has.
    pub num_partitions: usize,
    /// How many replicas each has.
    pub replication_factor: usize,
    /// Everything that is in force for it.
    pub settings: Vec<TopicSetting>,
}

/// What became of one topic that was to have more partitions.
pub type GrownTopic = (TopicName, Result<(), ApiError>);

/// What became of a user whose credentials were to be changed.
pub type ScramResult = (String, Result<(), ApiError>);

/// What became of one feature that was to be changed.
pub type FeatureResult = (String, Result<(), ApiError>);

/// What became of one partition that was to be reassigned.
pub type ReassignmentResult = (TopicPartition, Result<(), ApiError>);

/// What became of one partition that an election was asked for.
pub type ElectionResult = (TopicPartition, Result<(), ApiError>);

/// What a leader hears of one partition whose in-sync set it wanted to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterPartitionAnswer {
    /// The topic as the request named it.
    pub topic: TopicReference,
    /// Index within the topic.
    pub partition: i32,
    /// What ZooKeeper holds now, or why not.
    pub result: Result<Committed<LeaderAndIsr>, KafkaError>,
}

/// Which incarnation of a broker a reply came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation {
    /// The broker.
    pub broker: BrokerId,
    /// Its registration.
    pub epoch: BrokerEpoch,
}
