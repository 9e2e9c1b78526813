//! The ports: every place where a procedure may wait or touch the world.
//!
//! Implemented by the shell (`zk`, `broker`, `api`) and by the simulator (`tests/sim`). A port never decides anything
//! about partitions. Between two awaits the world may move: no fact crosses one but in the context or as `Committed`.
//! The loop runs one procedure at a time on one thread, so futures need not be `Send`.
#![allow(async_fn_in_trait)]

use std::collections::BTreeSet;

use crate::effect::{
    Answer, ConfigChange, ControlRequests, DelegationTokenZnode, ElectionConfig, FeatureZnode,
    Incarnation, NotificationName, PreferredElectionZnode, ProducerIdBlock, Read,
    ReassignmentZnode, ReplyTo, StateRead, Term, TokenId, TopicZnode, ZkOutcome, ZkWrite,
};
use crate::event::ControllerEvent;
use crate::model::{
    ApiError, Broker, BrokerId, BrokerRegistration, ConfigEntity, EntityConfig, KafkaError,
    SharedSettings, TopicId, TopicName, TopicPartition,
};
use crate::state::ControllerSnapshot;

/// Why an access to ZooKeeper as a whole did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZkFault {
    /// `/controller_epoch` has another version than our term's: another controller was elected.
    #[error(
        "another controller was elected: /controller_epoch no longer has the version of our term"
    )]
    Fenced,
    /// The session ended; what was asked may or may not have happened.
    #[error("the ZooKeeper session ended")]
    SessionLost,
    /// ZooKeeper refused, for a reason that concerns this access alone.
    #[error("ZooKeeper refused {path}: {cause}")]
    Refused {
        /// The node.
        path: String,
        /// ZooKeeper's reason.
        cause: String,
    },
}

impl ZkFault {
    /// What a client is told of a request that this ended: to look for the next controller where the term is over, and
    /// what was refused where only that failed and asking again elsewhere would help nobody.
    ///
    /// # Errors
    /// The term is over.
    pub fn to_refusal(&self) -> Result<ApiError, KafkaError> {
        match self {
            ZkFault::Fenced | ZkFault::SessionLost => Err(KafkaError::NOT_CONTROLLER),
            ZkFault::Refused { .. } => {
                let error = KafkaError::UNKNOWN_SERVER_ERROR;
                Ok(ApiError::new(error, self.to_string()))
            }
        }
    }

    /// The same, where an answer has no room for words.
    pub fn code(&self) -> KafkaError {
        self.to_refusal()
            .map_or_else(|code| code, |told| told.error)
    }
}

/// Who holds `/controller`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The node is missing.
    Nobody,
    /// We do: the node's ephemeral owner is our session.
    Ourselves,
    /// A process with our id but another session: what is left of a former life, or a twin.
    Namesake {
        /// The node's version.
        version: i32,
    },
    /// Another klamm (the node carries our mark).
    Klamm {
        /// Its id.
        id: BrokerId,
        /// The node's version.
        version: i32,
    },
    /// A genuine broker.
    Broker {
        /// Its id.
        id: BrokerId,
        /// The node's version.
        version: i32,
    },
    /// A KRaft controller: the cluster is migrating, hands off.
    Kraft,
    /// The node can't be understood.
    Unreadable {
        /// The node's version.
        version: i32,
        /// What is wrong with it.
        why: String,
    },
}

/// The nodes that decide who may lead, read in the order that makes a takeover safe: the epoch first, then
/// `/controller`, then our registration. `/controller` starts at version 0 each time it is created, so reading the epoch
/// last could delete a newer owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleView {
    /// `/controller_epoch`: number and version; `None` where no controller was ever elected.
    pub epoch: Option<Term>,
    /// `/controller`.
    pub holder: Holder,
    /// Version of `/brokers/ids/N` for our N, if the node exists.
    pub own_registration: Option<i32>,
    /// `/klamm/hold` exists: no klamm contends.
    pub on_hold: bool,
    /// `/migration` exists: KRaft is in play.
    pub migrating: bool,
}

/// How an attempt to take the role ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taking {
    /// We are the controller.
    Won(Term),
    /// Somebody was faster: look again.
    Raced,
}

/// A notification as listed: its name is needed to delete it even when its content is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification<T> {
    /// The child's name.
    pub name: NotificationName,
    /// Its content.
    pub content: Read<T>,
}

/// ZooKeeper as the controller uses it.
///
/// Listings and reads of watched nodes arm their watches; watches enqueue events and never do more. Lost connections
/// are retried inside; a retried write is read back and compared before it is called failed. Reads and writes are
/// grouped, and one bad item never costs the others.
pub trait Zk {
    /// Reads the nodes that decide who may lead, and arms the watch on `/controller`.
    async fn role_view(&self) -> Result<RoleView, ZkFault>;
    /// Takes the role in one transaction, decided on `view`; registers `/brokers/ids/N` as `me` in the same.
    async fn take_role(&self, view: &RoleView, me: &Broker) -> Result<Taking, ZkFault>;
    /// Gives the role and `/brokers/ids/N` back in one fenced transaction.
    async fn release_role(&self, term: &Term) -> Result<(), ZkFault>;
    /// Deletes `/brokers/ids/N` where it is ours: the first act after losing the role. Missing is fine.
    async fn drop_registration(&self) -> Result<(), ZkFault>;
    /// Rewrites `/brokers/ids/N` in place (rack or listeners changed).
    async fn update_registration(&self, me: &Broker) -> Result<(), ZkFault>;
    /// Creates the paths that a first broker would create.
    async fn create_base_paths(&self) -> Result<(), ZkFault>;
    /// All ids that klamms use or used.
    async fn klamm_ids(&self) -> Result<BTreeSet<BrokerId>, ZkFault>;
    /// Notes our id in `/klamm/ids`, for good.
    async fn record_klamm_id(&self) -> Result<(), ZkFault>;

    /// All registrations, ours and other klamms' included; arms `/brokers/ids` and each broker's node.
    async fn brokers(&self) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault>;
    /// One registration; arms it.
    async fn broker(&self, id: BrokerId) -> Result<Read<BrokerRegistration>, ZkFault>;
    /// The names below `/brokers/topics`, strange ones included; arms it.
    async fn topic_names(&self) -> Result<Vec<TopicName>, ZkFault>;
    /// Topic nodes; arms each. The order is that asked for.
    async fn topics(&self, names: &[TopicName]) -> Result<Vec<Read<TopicZnode>>, ZkFault>;
    /// Partition states. The order is that asked for.
    async fn partition_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Read<StateRead>>, ZkFault>;
    /// Topic configurations; a missing node is an empty one. The order is that asked for.
    async fn topic_configs(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<ElectionConfig>>, ZkFault>;
    /// `/config/brokers/<default>`.
    async fn default_broker_config(&self) -> Result<Read<ElectionConfig>, ZkFault>;
    /// Whole configurations, each with its version. The order is that asked for.
    async fn entity_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault>;
    /// Whose configurations may hold quotas: all users and clients that have one.
    async fn quota_entities(&self) -> Result<Vec<ConfigEntity>, ZkFault>;
    /// The names below `/config/changes`, strange ones included; arms it.
    async fn config_change_names(&self) -> Result<Vec<NotificationName>, ZkFault>;
    /// Notices below `/config/changes`. The order is that asked for.
    async fn config_changes(
        &self,
        names: &[NotificationName],
    ) -> Result<Vec<Read<ConfigChange>>, ZkFault>;
    /// Names below `/admin/delete_topics`; arms it.
    async fn topic_deletions(&self) -> Result<Vec<TopicName>, ZkFault>;
    /// `/isr_change_notification`; arms it.
    async fn isr_change_notifications(
        &self,
    ) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault>;
    /// `/log_dir_event_notification`; arms it.
    async fn log_dir_event_notifications(&self) -> Result<Vec<Notification<BrokerId>>, ZkFault>;
    /// `/admin/preferred_replica_election`; arms it.
    async fn preferred_replica_election(&self) -> Result<Read<PreferredElectionZnode>, ZkFault>;
    /// `/admin/reassign_partitions`; arms it, also where it is missing.
    async fn partition_reassignment(&self) -> Result<Read<ReassignmentZnode>, ZkFault>;
    /// `/feature` and its version.
    async fn feature(&self) -> Result<Read<(FeatureZnode, i32)>, ZkFault>;
    /// Every delegation token.
    async fn delegation_tokens(
        &self,
    ) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault>;
    /// `/latest_producer_id_block` (`None`: the node holds no block yet) and its version.
    async fn producer_id_block(&self) -> Result<Read<(Option<ProducerIdBlock>, i32)>, ZkFault>;

    /// Performs the writes under the term's epoch check, in order for each path. One outcome a write, in order.
    async fn write(&self, term: &Term, writes: &[ZkWrite]) -> Result<Vec<ZkOutcome>, ZkFault>;
}

/// The channels to the brokers. Nothing here waits: requests are queued, answers become events.
pub trait Brokers {
    /// Opens a channel to an incarnation of a broker, in place of an older one, and surveys it if it was not surveyed yet.
    fn add_broker(&mut self, registration: &BrokerRegistration);
    /// Closes the channel; what was not sent is dropped.
    fn remove_broker(&mut self, id: BrokerId);
    /// The broker's endpoints changed in place: the connection follows, the queue stays.
    fn move_broker(&mut self, registration: &BrokerRegistration);
    /// Queues the requests of one batch.
    fn send(&mut self, requests: ControlRequests);
    /// Replaces what is unsent for an incarnation of a broker, once `ChannelBehind` said that it is much and that the
    /// broker answers again. `requests` is one full UpdateMetadata and one LeaderAndIsr of all that the broker hosts;
    /// what it names for other brokers is ignored. Kept from the old queue: the leader −2 entries, in one
    /// UpdateMetadata, then the StopReplicas in order; `is_new` of every unsent LeaderAndIsr carries over. An incarnation
    /// that is gone is ignored. Leaving the queue as it is, as by default, is only slower.
    fn replace_queue(&mut self, _of: Incarnation, _requests: ControlRequests) {}
    /// Asks each broker for its ApiVersions, protocol, authorizer and shared settings; each answer is a `BrokerSurveyed` event, also
    /// that none came within 5 s.
    fn survey(&mut self, registrations: &[BrokerRegistration]);
    /// Closes every channel: the role is gone.
    fn shut_down(&mut self);
}

/// Answers to requests that wait for the controller.
pub trait Replies {
    /// Answers one. A slot is answered once; a client that left costs nothing.
    fn answer(&mut self, to: ReplyTo, answer: Answer);
    /// What the rest of the node may know now: role, brokers, gauges.
    fn publish(&mut self, snapshot: ControllerSnapshot);
}

/// Time and chance.
pub trait Clock {
    /// Milliseconds of a clock that never goes back.
    fn now_ms(&self) -> u64;
    /// Milliseconds since 1970, as the system's clock says: only for what others date so.
    fn unix_time_ms(&self) -> i64;
    /// Puts `event` into the queue after `delay_ms`.
    fn schedule(&mut self, delay_ms: u64, event: ControllerEvent);
    /// A fresh random topic id.
    fn topic_id(&mut self) -> TopicId;
    /// Any number, each as likely as the others: for what is to be spread, not for secrets.
    fn random(&mut self) -> u32;
}

/// The four ports as one value.
#[derive(Debug)]
pub struct Ports<Z, B, R, C> {
    /// ZooKeeper.
    pub zk: Z,
    /// Channels to brokers.
    pub brokers: B,
    /// Answers.
    pub replies: R,
    /// Time and chance.
    pub clock: C,
}

/// A broker answered, or did not answer, what klamm asks before it relies on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSurvey {
    /// Who was asked.
    pub incarnation: Incarnation,
    /// What came of it.
    pub outcome: SurveyOutcome,
}

/// What a broker said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurveyOutcome {
    /// It answered.
    Answered {
        /// Its inter-broker protocol, if it could be asked.
        protocol: Option<crate::model::InterBrokerProtocol>,
        /// `authorizer.class.name`, if it has one: klamm can't authorize yet, so it must not lead such a cluster.
        authorizer: Option<String>,
        /// What it has of the settings that every controller of the cluster should share, as far as it said so. Left
        /// out is what stands in `/config/brokers/<default>`: that holds for every controller.
        shared: SharedSettings,
    },
    /// It is no ZooKeeper-mode broker: it doesn't list the control requests.
    NotZooKeeperMode,
    /// It did not answer within 5 s; why, for the log.
    Silent(String),
}
