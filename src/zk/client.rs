//! The port [`Zk`] over one session: who sends what, with lost connections waited out.
//!
//! Reads are in `read`, grouped fenced writes in `write`, the role's transactions in `role`. Decides nothing about
//! partitions. Upstream: `KafkaZkClient.scala`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, watch};
use zookeeper_client::Error;

use super::link::{Link, Wire};
use super::probe::ServerVersion;
use super::session::{Observer, SessionState};
use super::watches::{Target, Watches};
use super::znode;
use super::{paths, role};
use crate::effect::{
    ConfigChange, DelegationTokenZnode, ElectionConfig, FeatureZnode, NotificationName,
    PreferredElectionZnode, ProducerIdBlock, Read, ReassignmentZnode, StateRead, Term, TokenId,
    TopicZnode, ZkOutcome, ZkWrite,
};
use crate::model::{
    Broker, BrokerId, BrokerRegistration, ConfigEntity, EntityConfig, TopicName, TopicPartition,
};
use crate::port::{Notification, RoleView, Taking, Zk, ZkFault};

/// How many requests may be unanswered. The crate knows no limit, and ZooKeeper throttles from 1000 on.
const MAX_OUTSTANDING: usize = 500;
/// What a registration says of its version until other registrations were seen: readable by all.
const OLDEST_REGISTRATION: i32 = 4;
const NEWEST_REGISTRATION: i32 = 5;

/// What all clones of a client share with the keeper of the session.
pub(super) struct Shared {
    /// Our id.
    pub id: BrokerId,
    /// The connection, as the keeper leaves it.
    pub links: watch::Sender<Link>,
    /// What is watched on it.
    pub watches: Arc<Watches>,
    /// Who counts requests.
    pub observer: Arc<dyn Observer>,
    is_3_6: AtomicBool,
    registration_version: AtomicI32,
    permits: Semaphore,
}

impl Shared {
    pub fn new(
        id: BrokerId,
        version: ServerVersion,
        links: watch::Sender<Link>,
        watches: Arc<Watches>,
        observer: Arc<dyn Observer>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            id,
            links,
            watches,
            observer,
            is_3_6: AtomicBool::new(version == ServerVersion::V3_6OrLater),
            registration_version: AtomicI32::new(OLDEST_REGISTRATION),
            permits: Semaphore::new(MAX_OUTSTANDING),
        })
    }

    /// A server answered "unimplemented": not all of the ensemble has been upgraded. From here on, the older way.
    pub fn is_older_than_thought(&self) {
        if self.is_3_6.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                "a ZooKeeper server is older than 3.6: reading nodes one by one and watching topics one by one"
            );
        }
    }
}

/// A handle on the session: cheap to clone, for any thread and runtime.
#[derive(Clone)]
pub struct ZkClient(Arc<Shared>);

impl fmt::Debug for ZkClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZkClient({:?})", *self.0.links.borrow())
    }
}

/// One access: it ends with the session that it began under, and never asks a connection twice that failed it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Access {
    session: Option<i64>,
    failed_generation: u64,
}

impl ZkClient {
    pub(super) fn new(shared: Arc<Shared>) -> ZkClient {
        ZkClient(shared)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Our id.
    pub fn id(&self) -> BrokerId {
        self.0.id
    }

    /// Where the session stands at this moment.
    pub fn session_state(&self) -> SessionState {
        match *self.0.links.borrow() {
            Link::Up(_) => SessionState::Connected,
            Link::Down => SessionState::Disconnected,
            Link::Ended => SessionState::Expired,
        }
    }

    /// Whether nodes are read in groups.
    pub(super) fn reads_in_groups(&self) -> bool {
        self.0.is_3_6.load(Ordering::Relaxed)
    }

    /// The `version` that our registration gets: that of the brokers' registrations when they were last read.
    pub(super) fn registration_version(&self) -> i32 {
        self.0.registration_version.load(Ordering::Relaxed)
    }

    /// Registrations were read: ours is to look like theirs.
    pub(super) fn note_registrations(&self, seen: &[(BrokerId, Read<BrokerRegistration>)]) {
        let of_brokers = seen.iter().filter(|(id, _)| *id != self.0.id);
        let versions = of_brokers.filter_map(|(_, read)| match read {
            Read::Found(registration) => Some(registration.json_version),
            Read::Missing | Read::Broken(_) => None,
        });
        if let Some(lowest) = versions.min() {
            let version = lowest.clamp(OLDEST_REGISTRATION, NEWEST_REGISTRATION);
            self.0
                .registration_version
                .store(version, Ordering::Relaxed);
        }
    }

    /// The connection to use now; waits through a disconnection.
    pub(super) async fn wire(&self, access: &mut Access) -> Result<Arc<Wire>, ZkFault> {
        let mut links = self.0.links.subscribe();
        let usable = |link: &Link| match link {
            Link::Up(wire) => wire.generation > access.failed_generation,
            Link::Down => false,
            Link::Ended => true,
        };
        let link = links.wait_for(usable).await;
        let wire = match link.as_deref() {
            Ok(Link::Up(wire)) => Arc::clone(wire),
            _ => return Err(ZkFault::SessionLost),
        };
        let session = wire.session_id();
        if *access.session.get_or_insert(session) != session {
            return Err(ZkFault::SessionLost);
        }
        Ok(wire)
    }

    /// Notes that the connection failed this access.
    pub(super) fn lost(&self, access: &mut Access, wire: &Wire) {
        access.failed_generation = wire.generation;
        wire.report_lost();
    }

    /// Sends one request within the limit on unanswered ones. The request must not be sent before it is first polled.
    pub(super) async fn timed<T>(&self, request: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.0.permits.acquire().await;
        let sent = Instant::now();
        let outcome = request.await;
        self.0.observer.request_done(sent.elapsed());
        outcome
    }

    /// Sends a request that does no harm when it is performed twice, until ZooKeeper answers it.
    pub(super) async fn until_answered<T>(
        &self,
        access: &mut Access,
        request: impl AsyncFn(&Wire) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, ZkFault> {
        loop {
            let wire = self.wire(access).await?;
            match self.timed(request(&wire)).await {
                Err(error) if wire.is_loss(&error) => self.lost(access, &wire),
                outcome => return Ok(outcome),
            }
        }
    }
}

/// A refusal that concerns one access.
pub(super) fn refused(path: &str, cause: impl fmt::Display) -> ZkFault {
    ZkFault::Refused {
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

/// Milliseconds since 1970, for the timestamps in what we write.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

impl Zk for ZkClient {
    async fn role_view(&self) -> Result<RoleView, ZkFault> {
        role::view(self).await
    }

    async fn take_role(&self, view: &RoleView, me: &Broker) -> Result<Taking, ZkFault> {
        role::take(self, view, me).await
    }

    async fn release_role(&self, term: &Term) -> Result<(), ZkFault> {
        role::release(self, term).await
    }

    async fn drop_registration(&self) -> Result<(), ZkFault> {
        role::drop_registration(self).await
    }

    async fn update_registration(&self, me: &Broker) -> Result<(), ZkFault> {
        role::update_registration(self, me).await
    }

    async fn create_base_paths(&self) -> Result<(), ZkFault> {
        self.create_persistent(paths::BASE_PATHS).await
    }

    async fn klamm_ids(&self) -> Result<BTreeSet<BrokerId>, ZkFault> {
        self.read_klamm_ids().await
    }

    async fn record_klamm_id(&self) -> Result<(), ZkFault> {
        role::record_klamm_id(self).await
    }

    async fn brokers(&self) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault> {
        self.read_brokers().await
    }

    async fn broker(&self, id: BrokerId) -> Result<Read<BrokerRegistration>, ZkFault> {
        self.read_broker(id).await
    }

    async fn topic_names(&self) -> Result<Vec<TopicName>, ZkFault> {
        self.read_topic_names().await
    }

    async fn topics(&self, names: &[TopicName]) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
        self.read_topics(names).await
    }

    async fn partition_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Read<StateRead>>, ZkFault> {
        self.read_states(partitions).await
    }

    async fn topic_configs(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<ElectionConfig>>, ZkFault> {
        self.read_topic_configs(names).await
    }

    async fn default_broker_config(&self) -> Result<Read<ElectionConfig>, ZkFault> {
        self.read_one(paths::DEFAULT_BROKER_CONFIG, |data, _| {
            znode::decode_election_config(paths::DEFAULT_BROKER_CONFIG, data)
        })
        .await
    }

    async fn topic_deletions(&self) -> Result<Vec<TopicName>, ZkFault> {
        let children = self
            .list(paths::DELETE_TOPICS, Some(Target::TopicDeletions))
            .await?;
        let names = children.unwrap_or_default();
        Ok(names.iter().map(|name| TopicName::new(name)).collect())
    }

    async fn isr_change_notifications(
        &self,
    ) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault> {
        self.read_isr_changes().await
    }

    async fn log_dir_event_notifications(&self) -> Result<Vec<Notification<BrokerId>>, ZkFault> {
        self.read_log_dir_events().await
    }

    async fn delegation_tokens(
        &self,
    ) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault> {
        self.read_delegation_tokens().await
    }

    async fn entity_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault> {
        self.read_entity_configs(entities).await
    }

    async fn quota_entities(&self) -> Result<Vec<ConfigEntity>, ZkFault> {
        self.read_quota_entities().await
    }

    async fn config_change_names(&self) -> Result<Vec<NotificationName>, ZkFault> {
        self.read_config_change_names().await
    }

    async fn config_changes(
        &self,
        names: &[NotificationName],
    ) -> Result<Vec<Read<ConfigChange>>, ZkFault> {
        self.read_config_changes(names).await
    }

    async fn preferred_replica_election(&self) -> Result<Read<PreferredElectionZnode>, ZkFault> {
        self.read_preferred_election().await
    }

    async fn partition_reassignment(&self) -> Result<Read<ReassignmentZnode>, ZkFault> {
        self.read_partition_reassignment().await
    }

    async fn feature(&self) -> Result<Read<(FeatureZnode, i32)>, ZkFault> {
        self.read_one(paths::FEATURE, |data, version| {
            znode::decode_feature(paths::FEATURE, data, version)
        })
        .await
    }

    async fn producer_id_block(&self) -> Result<Read<(Option<ProducerIdBlock>, i32)>, ZkFault> {
        self.read_one(paths::PRODUCER_ID_BLOCK, |data, version| {
            znode::decode_producer_id_block(paths::PRODUCER_ID_BLOCK, data, version)
        })
        .await
    }

    async fn write(&self, term: &Term, writes: &[ZkWrite]) -> Result<Vec<ZkOutcome>, ZkFault> {
        self.write_fenced(term, writes).await
    }
}
