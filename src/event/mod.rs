//! All that can happen to the controller: one closed enum, and the state that each event puts it in.
//!
//! An event says "look", never what changed. Nothing here handles one (`controller` does).
//! Upstream: `ControllerEvent`s at the end of `KafkaController.scala`, `ControllerState.scala`.

mod queue;
mod sink;

pub use queue::{ControllerEventManager, QueuedEvent};
pub use sink::EventSink;

use std::collections::BTreeMap;

use crate::effect::{Incarnation, PartitionErrors, ReplyTo, TopicReference};
use crate::model::{
    BrokerEpoch, BrokerId, BrokerIds, ControllerEpoch, KafkaError, LeaderEpoch,
    LeaderRecoveryState, PartitionEpoch, ScramCredential, TopicName, TopicPartition,
};
use crate::port::BrokerSurvey;

/// Something that the controller has to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerEvent {
    /// The process is up and has a session.
    Startup,
    /// `/controller` was created or changed.
    ControllerChange,
    /// `/controller` was deleted.
    Reelect,
    /// The session expired: everything is void. Put by `clear_and_put`.
    Expire,
    /// A new session stands after an expiry.
    RegisterBrokerAndReelect,
    /// `/klamm/hold` or `/klamm/ids` changed.
    KlammNodesChange,
    /// It is time to try for the role.
    TakeoverDue,
    /// A broker answered the survey, or was silent.
    BrokerSurveyed(BrokerSurvey),
    /// The process is told to end: give the role back.
    Shutdown,

    /// `/brokers/ids` has other children.
    BrokerChange,
    /// `/brokers/ids/N` changed.
    BrokerModifications(BrokerId),
    /// `/brokers/topics` has other children.
    TopicChange,
    /// `/brokers/topics/T` changed.
    PartitionModifications(TopicName),
    /// `/admin/delete_topics` has other children.
    TopicDeletion,
    /// `/isr_change_notification` has children.
    IsrChangeNotification,
    /// `/log_dir_event_notification` has children.
    LogDirEventNotification,
    /// `/admin/preferred_replica_election` was created, changed or deleted: an operator may want leaders elected.
    PreferredReplicaElection,
    /// `/admin/reassign_partitions` was created, changed or deleted: an operator may want partitions moved.
    PartitionReassignment,
    /// Partitions move, and their leaders may write in-sync sets without asking (IBP below 2.7): read them.
    PartitionReassignmentIsrChange,
    /// It is time to look whether brokers lead what they should.
    AutoPreferredReplicaLeaderElection,
    /// `/config/changes` has other children.
    ConfigChange,
    /// The cluster's default configuration was written: unclean election may be enabled now.
    UncleanLeaderElectionEnable,
    /// A topic's configuration was written: unclean election may be enabled for it now.
    TopicUncleanLeaderElectionEnable(TopicName),

    /// A broker answered LeaderAndIsr.
    LeaderAndIsrResponseReceived {
        /// Who answered.
        from: Incarnation,
        /// What it said.
        response: PartitionErrors,
    },
    /// A broker answered UpdateMetadata.
    UpdateMetadataResponseReceived {
        /// Who answered.
        from: Incarnation,
        /// The number of what it answered.
        number: u64,
        /// What it said.
        error: KafkaError,
    },
    /// A broker answered StopReplica.
    StopReplicaResponseReceived {
        /// Who answered.
        from: Incarnation,
        /// The term in which it was asked. An answer to an earlier one says nothing of what was sent since.
        controller_epoch: ControllerEpoch,
        /// The partitions that were to be deleted.
        deleted: Vec<TopicPartition>,
        /// What it said.
        response: PartitionErrors,
    },

    /// A broker answers again and has more unsent requests than are worth sending one by one: replace its queue by
    /// what is true now (`port::Brokers::replace_queue`).
    ChannelBehind(Incarnation),

    /// A broker wants to leave.
    ControlledShutdown {
        /// Who.
        broker: BrokerId,
        /// Its registration, if its request carries one (version 2 on).
        broker_epoch: Option<BrokerEpoch>,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// A leaving broker has had time enough to hear that it leads no more.
    DepartureDue(Incarnation),
    /// A leader wants to change in-sync sets.
    AlterPartitionReceived {
        /// What it asks.
        request: AlterPartitionRequest,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// A broker wants a block of producer ids.
    AllocateProducerIds {
        /// Who asks.
        from: Incarnation,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },

    /// A client wants topics deleted.
    DeleteTopics {
        /// Which.
        topics: Vec<TopicReference>,
        /// How long the client waits until they are gone for clients; 0 or less: not at all.
        timeout_ms: i32,
        /// Whose quota is charged.
        claimant: Claimant,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// A client wants topics created.
    CreateTopics {
        /// Which, and how.
        request: CreateTopicsRequest,
        /// Whose quota is charged.
        claimant: Claimant,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// A client wants topics to have more partitions.
    CreatePartitions {
        /// Which, and how many.
        request: CreatePartitionsRequest,
        /// Whose quota is charged.
        claimant: Claimant,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// Somebody wants to know whether the controller knows what ZooKeeper holds.
    Compare(ReplyTo),
    /// A client has waited as long as it wanted to.
    AnswerDue,
    /// An operator wants leaders elected.
    ElectLeaders {
        /// Whose; `None`: of all partitions that need it.
        partitions: Option<Vec<TopicPartition>>,
        /// How.
        election: ElectionType,
        /// How long the client waits for brokers to hear of it, in milliseconds; 0 or less: not at all.
        timeout_ms: i32,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// Partitions are to be moved, or not to be moved any more.
    AlterPartitionReassignments {
        /// Where each is to be; `None`: its reassignment is cancelled.
        targets: BTreeMap<TopicPartition, Option<Vec<BrokerId>>>,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// Which partitions are being reassigned?
    ListPartitionReassignments {
        /// The ones asked about; `None`: all.
        partitions: Option<Vec<TopicPartition>>,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },

    /// An operator wants finalized features changed.
    UpdateFeatures {
        /// How.
        updates: Vec<FeatureUpdate>,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// An operator wants SCRAM credentials of users changed.
    AlterUserScramCredentials {
        /// How, in the request's order.
        alterations: Vec<ScramAlteration>,
        /// Where the answer goes.
        reply_to: ReplyTo,
    },
    /// It is time to look for delegation tokens that have expired.
    ExpireDelegationTokens,

    /// Compare a slice of what ZooKeeper holds with the context: no lost watch outlives a minute.
    AntiEntropy(Sweep),
    /// Read every state again: brokers up to 2.0 fence none of their controller's writes, so one that was deposed may
    /// still have written after we had read.
    RereadStates,
}

/// Whose quota on partitions created and deleted is charged, and how (KIP-599).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The user's name.
    pub user: String,
    /// What the client calls itself; empty if it doesn't.
    pub client_id: String,
    /// What becomes of a request above the quota.
    pub enforcement: QuotaEnforcement,
}

/// What becomes of a request above a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaEnforcement {
    /// It is denied: the client understands that.
    Strict,
    /// It is done, and the client kept waiting afterwards.
    Permissive,
}

/// Topics that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTopicsRequest {
    /// In the request's order; a name may stand there twice.
    pub topics: Vec<NewTopic>,
    /// How long the client waits until brokers know them; 0 or less: not at all.
    pub timeout_ms: i32,
    /// Nothing is to be created: the client wants to know what would become of it.
    pub validate_only: bool,
}

/// One topic that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Any text.
    pub name: TopicName,
    /// `None`: as many as the controller's configuration says.
    pub num_partitions: Option<i32>,
    /// `None`: as the controller's configuration says.
    pub replication_factor: Option<i16>,
    /// The client's own choice of brokers for each index; none at all: the controller chooses.
    pub assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Names and values. Kafka has no meaning for one without a value.
    pub configs: Vec<(String, Option<String>)>,
}

/// Topics that are to have more partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePartitionsRequest {
    /// In the request's order; a name may stand there twice.
    pub topics: Vec<MorePartitions>,
    /// How long the client waits until brokers know the partitions; 0 or less: not at all.
    pub timeout_ms: i32,
    /// Nothing is to be changed: the client wants to know what would become of it.
    pub validate_only: bool,
}

/// One topic that is to have more partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MorePartitions {
    /// Any text.
    pub topic: TopicName,
    /// How many it is to have in all.
    pub count: i32,
    /// The client's own choice of brokers, one list for each new partition; `None`: the controller chooses.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// One credential in an AlterUserScramCredentials request (KIP-554).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScramAlteration {
    /// Whose; any text.
    pub user: String,
    /// The number of its mechanism.
    pub mechanism: i8,
    /// What is to become of it.
    pub change: ScramChange,
}

/// What is to become of a SCRAM credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScramChange {
    /// It goes.
    Delete,
    /// It is made, or replaced.
    Upsert {
        /// Its iterations, as asked for.
        iterations: i32,
        /// As it is to be written; `None`: what was sent makes none.
        credential: Option<ScramCredential>,
    },
}

/// What leaders an operator wants. Upstream: `ElectionType` (KIP-460).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionType {
    /// The preferred replicas.
    Preferred,
    /// Whoever lives, in sync or not, where nobody leads.
    Unclean,
}

/// One feature in an UpdateFeatures request (KIP-584).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// Its name.
    pub feature: String,
    /// The level to finalize; below 1, and no upgrade: take it out.
    pub level: i16,
    /// What kind of change this may be.
    pub upgrade_type: UpgradeType,
}

/// What kind of change a feature's update may be. Version 0 of the request knows the second and the third.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeType {
    /// A code that isn't known.
    Unknown,
    /// To a higher level only.
    Upgrade,
    /// To a lower level that loses nothing.
    SafeDowngrade,
    /// To a lower level, whatever is lost.
    UnsafeDowngrade,
}

/// Where an anti-entropy sweep stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sweep {
    /// Child lists, brokers and admin nodes.
    Begin,
    /// Topic nodes, the slice after this name (`None`: the first slice).
    Topics {
        /// The last name of the slice before.
        after: Option<TopicName>,
    },
}

/// What a leader asks by AlterPartition (AlterIsr in version 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterPartitionRequest {
    /// The request's version, 0 to 3: which error codes the sender knows depends on it.
    pub version: i16,
    /// Who asks.
    pub from: Incarnation,
    /// What it asks for.
    pub partitions: Vec<AlterPartitionItem>,
}

/// One partition in an AlterPartition request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterPartitionItem {
    /// By name up to version 1, by id from version 2 on.
    pub topic: TopicReference,
    /// Index within the topic.
    pub partition: i32,
    /// The epoch that the sender leads under.
    pub leader_epoch: LeaderEpoch,
    /// The in-sync set that it wants.
    pub new_isr: BrokerIds,
    /// The recovery state that it wants.
    pub leader_recovery_state: LeaderRecoveryState,
    /// The version that its wish is based on.
    pub partition_epoch: PartitionEpoch,
}

/// What the controller is doing, under the Java controller's names and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum ControllerState {
    /// Nothing, or something without a state of its own.
    #[default]
    Idle = 0,
    /// Election and life cycle.
    ControllerChange = 1,
    /// Brokers came, went or changed.
    BrokerChange = 2,
    /// Topics came or grew.
    TopicChange = 3,
    /// Topics go.
    TopicDeletion = 4,
    /// Replicas move.
    AlterPartitionReassignment = 5,
    /// Leaders return to the preferred replicas by themselves.
    AutoLeaderBalance = 6,
    /// Leaders are elected on request.
    ManualLeaderBalance = 7,
    /// A broker leaves gently.
    ControlledShutdown = 8,
    /// In-sync sets change.
    IsrChange = 9,
    /// An answer to LeaderAndIsr.
    LeaderAndIsrResponseReceived = 10,
    /// A log directory failed.
    LogDirChange = 11,
    /// The process ends.
    ControllerShutdown = 12,
    /// Unclean election was enabled for the cluster.
    UncleanLeaderElectionEnable = 13,
    /// Unclean election was enabled for a topic.
    TopicUncleanLeaderElectionEnable = 14,
    /// Running reassignments are listed.
    ListPartitionReassignment = 15,
    /// An answer to UpdateMetadata.
    UpdateMetadataResponseReceived = 16,
    /// Features are updated.
    UpdateFeatures = 17,
}

impl ControllerState {
    /// Every state, in the order of its number.
    pub const ALL: [ControllerState; 18] = [
        Self::Idle,
        Self::ControllerChange,
        Self::BrokerChange,
        Self::TopicChange,
        Self::TopicDeletion,
        Self::AlterPartitionReassignment,
        Self::AutoLeaderBalance,
        Self::ManualLeaderBalance,
        Self::ControlledShutdown,
        Self::IsrChange,
        Self::LeaderAndIsrResponseReceived,
        Self::LogDirChange,
        Self::ControllerShutdown,
        Self::UncleanLeaderElectionEnable,
        Self::TopicUncleanLeaderElectionEnable,
        Self::ListPartitionReassignment,
        Self::UpdateMetadataResponseReceived,
        Self::UpdateFeatures,
    ];

    /// The name of the state's timer, as in `kafka.controller:type=ControllerStats`; `None` where Java has none.
    pub fn timer_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Idle | Self::UpdateMetadataResponseReceived => return None,
            Self::ControllerChange => "ControllerChangeRateAndTimeMs",
            Self::BrokerChange => "LeaderElectionRateAndTimeMs",
            Self::TopicChange => "TopicChangeRateAndTimeMs",
            Self::TopicDeletion => "TopicDeletionRateAndTimeMs",
            Self::AlterPartitionReassignment => "PartitionReassignmentRateAndTimeMs",
            Self::AutoLeaderBalance => "AutoLeaderBalanceRateAndTimeMs",
            Self::ManualLeaderBalance => "ManualLeaderBalanceRateAndTimeMs",
            Self::ControlledShutdown => "ControlledShutdownRateAndTimeMs",
            Self::IsrChange => "IsrChangeRateAndTimeMs",
            Self::LeaderAndIsrResponseReceived => "LeaderAndIsrResponseReceivedRateAndTimeMs",
            Self::LogDirChange => "LogDirChangeRateAndTimeMs",
            Self::ControllerShutdown => "ControllerShutdownRateAndTimeMs",
            Self::UncleanLeaderElectionEnable => "UncleanLeaderElectionEnableRateAndTimeMs",
            Self::TopicUncleanLeaderElectionEnable => {
                "TopicUncleanLeaderElectionEnableRateAndTimeMs"
            }
            Self::ListPartitionReassignment => "ListPartitionReassignmentRateAndTimeMs",
            Self::UpdateFeatures => "UpdateFeaturesRateAndTimeMs",
        })
    }
}

impl ControllerEvent {
    /// Whether the event says no more than "look there": two of them in the queue see no more than one.
    pub fn only_says_look(&self) -> bool {
        matches!(
            self,
            Self::ControllerChange
                | Self::Reelect
                | Self::KlammNodesChange
                | Self::BrokerChange
                | Self::BrokerModifications(_)
                | Self::TopicChange
                | Self::PartitionModifications(_)
                | Self::TopicDeletion
                | Self::IsrChangeNotification
                | Self::LogDirEventNotification
                | Self::PreferredReplicaElection
                | Self::ConfigChange
                | Self::UncleanLeaderElectionEnable
                | Self::TopicUncleanLeaderElectionEnable(_)
                | Self::PartitionReassignment
                | Self::ChannelBehind(_)
                | Self::AntiEntropy(_)
                | Self::AnswerDue
        )
    }

    /// The state that the controller is in while it handles this.
    pub fn state(&self) -> ControllerState {
        match self {
            Self::Startup
            | Self::ControllerChange
            | Self::Reelect
            | Self::Expire
            | Self::RegisterBrokerAndReelect
            | Self::KlammNodesChange
            | Self::TakeoverDue => ControllerState::ControllerChange,
            Self::Shutdown => ControllerState::ControllerShutdown,
            Self::BrokerSurveyed(_) | Self::BrokerChange | Self::BrokerModifications(_) => {
                ControllerState::BrokerChange
            }
            Self::TopicChange
            | Self::PartitionModifications(_)
            | Self::CreateTopics { .. }
            | Self::CreatePartitions { .. } => ControllerState::TopicChange,
            Self::TopicDeletion
            | Self::DeleteTopics { .. }
            | Self::StopReplicaResponseReceived { .. } => ControllerState::TopicDeletion,
            Self::IsrChangeNotification | Self::AlterPartitionReceived { .. } => {
                ControllerState::IsrChange
            }
            Self::LogDirEventNotification => ControllerState::LogDirChange,
            Self::PreferredReplicaElection | Self::ElectLeaders { .. } => {
                ControllerState::ManualLeaderBalance
            }
            Self::UncleanLeaderElectionEnable => ControllerState::UncleanLeaderElectionEnable,
            Self::TopicUncleanLeaderElectionEnable(_) => {
                ControllerState::TopicUncleanLeaderElectionEnable
            }
            Self::PartitionReassignment
            | Self::PartitionReassignmentIsrChange
            | Self::AlterPartitionReassignments { .. } => {
                ControllerState::AlterPartitionReassignment
            }
            Self::ListPartitionReassignments { .. } => ControllerState::ListPartitionReassignment,
            Self::AutoPreferredReplicaLeaderElection => ControllerState::AutoLeaderBalance,
            Self::LeaderAndIsrResponseReceived { .. } => {
                ControllerState::LeaderAndIsrResponseReceived
            }
            Self::UpdateMetadataResponseReceived { .. } => {
                ControllerState::UpdateMetadataResponseReceived
            }
            Self::UpdateFeatures { .. } => ControllerState::UpdateFeatures,
            Self::ControlledShutdown { .. } | Self::DepartureDue(_) => {
                ControllerState::ControlledShutdown
            }
            Self::AnswerDue
            | Self::Compare(_)
            | Self::ChannelBehind(_)
            | Self::ConfigChange
            | Self::ExpireDelegationTokens
            | Self::AlterUserScramCredentials { .. }
            | Self::AllocateProducerIds { .. }
            | Self::AntiEntropy(_)
            | Self::RereadStates => ControllerState::Idle,
        }
    }
}
