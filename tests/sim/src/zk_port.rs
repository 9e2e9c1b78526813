//! The `Zk` port over the in-memory ZooKeeper: the transactions, watches and read-backs of the product's own client.
//!
//! It decides nothing. Where the product's client retries, reads back or arms a watch, this does the same, in one step:
//! no call ever waits, and a cut connection is restored by the next call. Counterpart: `klamm::zk`.

mod line;
mod reads;
mod removal;
mod role;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use klamm::effect::{
    ConfigChange, DelegationTokenZnode, ElectionConfig, FeatureZnode, NotificationName,
    PreferredElectionZnode, ProducerIdBlock, Read, ReassignmentZnode, StateRead, Term, TokenId,
    TopicZnode, ZkOutcome, ZkWrite,
};
use klamm::event::QueuedEvent;
use klamm::model::{
    Broker, BrokerId, BrokerRegistration, ConfigEntity, EntityConfig, TopicName, TopicPartition,
};
use klamm::port::{Notification, RoleView, Taking, Zk, ZkFault};
use klamm::zk::{paths, znode};

use crate::clock::{SimQueue, VirtualTime};
use crate::faults::{Call, Fault, Faults};
use crate::fences::Performed;
use crate::pace::Pace;
use crate::zookeeper::{ZkSession, ZooKeeper};

use line::{Broken, Line};
pub use line::{Fate, Outage, Weather};

/// How `/brokers/topics` is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopicWatches {
    /// One persistent recursive watch (ZooKeeper from 3.6 on).
    #[default]
    Recursive,
    /// One-shot watches, armed by each read.
    OneShot,
}

/// Whether a request is sent for the first time, or again because its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    Again,
}

#[derive(Debug, Clone)]
struct Shared {
    zookeeper: ZooKeeper,
    queue: SimQueue,
    topic_watches: TopicWatches,
    fate: Fate,
    /// The session that requests are sent in; `None` before the first.
    session: Rc<RefCell<Option<ZkSession>>>,
    /// Events that an expiry took out of the queue: whoever waits on them must be answered.
    preempted: Rc<RefCell<Vec<QueuedEvent>>>,
}

/// One controller's port. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct SimZk {
    own_id: BrokerId,
    time: VirtualTime,
    shared: Shared,
    faults: Faults,
    /// The writes that were performed since somebody last looked.
    performed: Rc<RefCell<Vec<Performed>>>,
}

impl SimZk {
    /// A port without a session; events of its watches go to `queue`.
    pub fn new(
        zookeeper: &ZooKeeper,
        own_id: BrokerId,
        time: &VirtualTime,
        queue: &SimQueue,
        topic_watches: TopicWatches,
    ) -> SimZk {
        let fate = Fate::at_once(Pace::at_once(time));
        SimZk::of_fate(zookeeper, own_id, time, queue, topic_watches, fate)
    }

    /// The same, with a line that may take its time and be cut.
    pub fn of_fate(
        zookeeper: &ZooKeeper,
        own_id: BrokerId,
        time: &VirtualTime,
        queue: &SimQueue,
        topic_watches: TopicWatches,
        fate: Fate,
    ) -> SimZk {
        SimZk {
            own_id,
            time: time.clone(),
            shared: Shared {
                zookeeper: zookeeper.clone(),
                queue: queue.clone(),
                topic_watches,
                fate,
                session: Rc::default(),
                preempted: Rc::default(),
            },
            faults: Faults::default(),
            performed: Rc::default(),
        }
    }

    /// The writes that were performed since this was last asked, in order.
    pub fn take_performed(&self) -> Vec<Performed> {
        std::mem::take(&mut *self.performed.borrow_mut())
    }

    /// Performs one write, and keeps it at the moment at which it took hold.
    async fn perform(
        &self,
        line: &Line<'_>,
        term: &Term,
        write: &ZkWrite,
        attempt: Attempt,
    ) -> Result<ZkOutcome, Broken> {
        let is_state = matches!(
            write,
            ZkWrite::CreateState { .. } | ZkWrite::SetState { .. }
        );
        let path = is_state.then(|| state_path(write)).flatten();
        let keep = |took_hold: bool| {
            let Some(path) = path.as_ref().filter(|_| took_hold) else {
                return;
            };
            let before = self.shared.zookeeper.held_before(path);
            let before = before
                .and_then(|(version, data)| znode::decode_state(path, &data, version).found());
            self.performed.borrow_mut().push(Performed {
                write: write.clone(),
                term: *term,
                before,
            });
        };
        write::perform(line, term, write, attempt, keep).await
    }

    /// Opens a session, in place of one that ended.
    pub fn open_session(&self) {
        watch::open_session(&self.shared);
    }

    /// The session, if one was opened.
    pub fn session(&self) -> Option<ZkSession> {
        self.shared.session.borrow().clone()
    }

    /// The server behind it.
    pub fn zookeeper(&self) -> &ZooKeeper {
        &self.shared.zookeeper
    }

    /// What is to go wrong, and what was called.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Events that an expiry took out of the queue since this was last asked.
    pub fn take_preempted(&self) -> Vec<QueuedEvent> {
        std::mem::take(&mut *self.shared.preempted.borrow_mut())
    }

    /// The line's fate: its pace and its weather.
    pub fn fate(&self) -> &Fate {
        &self.shared.fate
    }

    /// Cuts the connection: for a while, or for a moment where nothing takes time.
    pub fn cut(&self) {
        if let Some(session) = self.session() {
            self.shared.fate.cut(&session, self.time.now_ms());
        }
    }

    /// When an outage ends, or the session that is cut off by it; `None` unless the line is cut.
    pub fn outage_ends_ms(&self) -> Option<u64> {
        let outage = self.shared.fate.outage.get()?;
        let timeout_ms = self.shared.fate.weather.get().session_timeout_ms;
        let session = self.session()?;
        Some(match session.zookeeper().is_alive(session.id()) {
            true => outage.until_ms.min(outage.since_ms + timeout_ms),
            false => outage.until_ms,
        })
    }

    /// Ends an outage whose time has come. A session that is over by then is so for the server alone, until its client gets
    /// through again.
    pub fn end_outage(&self) {
        let fate = &self.shared.fate;
        let (Some(outage), Some(session)) = (fate.outage.get(), self.session()) else {
            return;
        };
        let (now_ms, id) = (self.time.now_ms(), session.id());
        let zookeeper = session.zookeeper();
        if now_ms >= outage.since_ms + fate.weather.get().session_timeout_ms {
            zookeeper.expire_unheard(id);
        }
        if now_ms >= outage.until_ms {
            fate.outage.set(None);
            zookeeper.reconnect(id);
            zookeeper.tell_unaware(id);
        }
    }

    /// One call: strikes it with what is planned, and performs it.
    async fn call<T>(
        &self,
        call: Call,
        mut perform: impl AsyncFnMut(&Line<'_>, Attempt) -> Result<T, Broken>,
    ) -> Result<T, ZkFault> {
        let Some(session) = self.session() else {
            panic!("{call:?} before the first session");
        };
        let zookeeper = &self.shared.zookeeper;
        if self.shared.fate.pace.is_at_once() {
            zookeeper.reconnect(session.id());
        }
        let cut = || {
            zookeeper.disconnect(session.id());
            zookeeper.reconnect(session.id());
        };
        let mut attempt = Attempt::First;
        match self.faults.strike(call) {
            None => {}
            Some(Fault::LossBefore) => cut(),
            Some(Fault::LossAfter) => {
                drop(self.answered(&session, Attempt::First, &mut perform).await);
                cut();
                attempt = Attempt::Again;
            }
            Some(Fault::SessionLostBefore) => {
                zookeeper.expire(session.id());
                return Err(ZkFault::SessionLost);
            }
            Some(Fault::SessionLostAfter) => {
                drop(self.answered(&session, Attempt::First, &mut perform).await);
                zookeeper.expire(session.id());
                return Err(ZkFault::SessionLost);
            }
            Some(Fault::Meanwhile(act)) => act(zookeeper),
            Some(Fault::Refused(cause)) => {
                return Err(ZkFault::Refused {
                    path: format!("({call:?})"),
                    cause: cause.to_owned(),
                });
            }
        }
        self.answered(&session, attempt, &mut perform).await
    }

    /// Performs, and again after each cut, until there is an outcome.
    async fn answered<T>(
        &self,
        session: &ZkSession,
        first: Attempt,
        perform: &mut impl AsyncFnMut(&Line<'_>, Attempt) -> Result<T, Broken>,
    ) -> Result<T, ZkFault> {
        let now_ms = || self.time.now_ms();
        let line = Line {
            session,
            fate: &self.shared.fate,
            now_ms: &now_ms,
        };
        let mut attempt = first;
        loop {
            match perform(&line, attempt).await {
                Ok(done) => return Ok(done),
                Err(Broken::Failed(fault)) => return Err(fault),
                Err(Broken::Cut) => {
                    self.reconnected(session).await?;
                    attempt = Attempt::Again;
                }
            }
        }
    }

    /// Waits for the end of an outage.
    async fn reconnected(&self, session: &ZkSession) -> Result<(), ZkFault> {
        let pace = &self.shared.fate.pace;
        assert!(
            !pace.is_at_once(),
            "the connection is cut in the midst of a call"
        );
        while !session.is_connected() {
            let is_cut = self.shared.fate.outage.get().is_some();
            if !is_cut && !session.zookeeper().is_alive(session.id()) {
                return Err(ZkFault::SessionLost);
            }
            pace.rest(LOOK_AGAIN_MS).await;
        }
        Ok(())
    }
}

/// How often one who waits for a connection looks whether it stands.
const LOOK_AGAIN_MS: u64 = 10;

/// The node of the state that a write writes.
fn state_path(write: &ZkWrite) -> Option<String> {
    match write {
        ZkWrite::CreateState { partition, .. } | ZkWrite::SetState { partition, .. } => {
            Some(paths::state(partition))
        }
        _ => None,
    }
}

impl Zk for SimZk {
    async fn role_view(&self) -> Result<RoleView, ZkFault> {
        self.call(Call::RoleView, async |line, _| {
            role::view(line, self.own_id).await
        })
        .await
    }

    async fn take_role(&self, view: &RoleView, me: &Broker) -> Result<Taking, ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::TakeRole, async |line, attempt| {
            role::take(line, view, me, now_ms, attempt).await
        })
        .await
    }

    async fn release_role(&self, term: &Term) -> Result<(), ZkFault> {
        self.call(Call::ReleaseRole, async |line, attempt| {
            role::release(line, self.own_id, term, attempt).await
        })
        .await
    }

    async fn drop_registration(&self) -> Result<(), ZkFault> {
        self.call(Call::DropRegistration, async |line, _| {
            role::drop_registration(line, self.own_id).await
        })
        .await
    }

    async fn update_registration(&self, me: &Broker) -> Result<(), ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::UpdateRegistration, async |line, _| {
            role::update_registration(line, me, now_ms).await
        })
        .await
    }

    async fn create_base_paths(&self) -> Result<(), ZkFault> {
        self.call(Call::CreateBasePaths, async |line, _| {
            role::create_base_paths(line).await
        })
        .await
    }

    async fn klamm_ids(&self) -> Result<BTreeSet<BrokerId>, ZkFault> {
        self.call(Call::KlammIds, async |line, _| reads::klamm_ids(line).await)
            .await
    }

    async fn record_klamm_id(&self) -> Result<(), ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::RecordKlammId, async |line, _| {
            role::record_klamm_id(line, self.own_id, now_ms).await
        })
        .await
    }

    async fn brokers(&self) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault> {
        self.call(Call::Brokers, async |line, _| reads::brokers(line).await)
            .await
    }

    async fn broker(&self, id: BrokerId) -> Result<Read<BrokerRegistration>, ZkFault> {
        self.call(Call::Broker, async |line, _| reads::broker(line, id).await)
            .await
    }

    async fn topic_names(&self) -> Result<Vec<TopicName>, ZkFault> {
        self.call(Call::TopicNames, async |line, _| {
            reads::topic_names(line, self.shared.topic_watches).await
        })
        .await
    }

    async fn topics(&self, names: &[TopicName]) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
        self.call(Call::Topics, async |line, _| {
            reads::topics(line, names, self.shared.topic_watches).await
        })
        .await
    }

    async fn partition_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Read<StateRead>>, ZkFault> {
        self.call(Call::PartitionStates, async |line, _| {
            reads::partition_states(line, partitions).await
        })
        .await
    }

    async fn topic_configs(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<ElectionConfig>>, ZkFault> {
        self.call(Call::TopicConfigs, async |line, _| {
            reads::topic_configs(line, names).await
        })
        .await
    }

    async fn default_broker_config(&self) -> Result<Read<ElectionConfig>, ZkFault> {
        self.call(Call::DefaultBrokerConfig, async |line, _| {
            reads::default_broker_config(line).await
        })
        .await
    }

    async fn entity_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault> {
        self.call(Call::EntityConfigs, async |line, _| {
            reads::entity_configs(line, entities).await
        })
        .await
    }

    async fn quota_entities(&self) -> Result<Vec<ConfigEntity>, ZkFault> {
        self.call(Call::QuotaEntities, async |line, _| {
            reads::quota_entities(line).await
        })
        .await
    }

    async fn delegation_tokens(
        &self,
    ) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault> {
        self.call(Call::DelegationTokens, async |line, _| {
            reads::delegation_tokens(line).await
        })
        .await
    }

    async fn config_change_names(&self) -> Result<Vec<NotificationName>, ZkFault> {
        self.call(Call::ConfigChangeNames, async |line, _| {
            reads::config_change_names(line).await
        })
        .await
    }

    async fn config_changes(
        &self,
        names: &[NotificationName],
    ) -> Result<Vec<Read<ConfigChange>>, ZkFault> {
        self.call(Call::ConfigChanges, async |line, _| {
            reads::config_changes(line, names).await
        })
        .await
    }

    async fn topic_deletions(&self) -> Result<Vec<TopicName>, ZkFault> {
        self.call(Call::TopicDeletions, async |line, _| {
            reads::topic_deletions(line).await
        })
        .await
    }

    async fn isr_change_notifications(
        &self,
    ) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault> {
        self.call(Call::IsrChangeNotifications, async |line, _| {
            reads::isr_change_notifications(line).await
        })
        .await
    }

    async fn log_dir_event_notifications(&self) -> Result<Vec<Notification<BrokerId>>, ZkFault> {
        self.call(Call::LogDirEventNotifications, async |line, _| {
            reads::log_dir_event_notifications(line).await
        })
        .await
    }

    async fn preferred_replica_election(&self) -> Result<Read<PreferredElectionZnode>, ZkFault> {
        self.call(Call::PreferredReplicaElection, async |line, _| {
            reads::preferred_replica_election(line).await
        })
        .await
    }

    async fn partition_reassignment(&self) -> Result<Read<ReassignmentZnode>, ZkFault> {
        self.call(Call::PartitionReassignment, async |line, _| {
            reads::partition_reassignment(line).await
        })
        .await
    }

    async fn feature(&self) -> Result<Read<(FeatureZnode, i32)>, ZkFault> {
        self.call(Call::Feature, async |line, _| reads::feature(line).await)
            .await
    }

    async fn producer_id_block(&self) -> Result<Read<(Option<ProducerIdBlock>, i32)>, ZkFault> {
        self.call(Call::ProducerIdBlock, async |line, _| {
            reads::producer_id_block(line).await
        })
        .await
    }

    async fn write(&self, term: &Term, writes: &[ZkWrite]) -> Result<Vec<ZkOutcome>, ZkFault> {
        self.call(Call::Write, async |line, attempt| {
            let mut outcomes = Vec::with_capacity(writes.len());
            for one in writes {
                // Each is sent again for itself.
                let mut perform =
                    async |line: &Line<'_>, attempt| self.perform(line, term, one, attempt).await;
                outcomes.push(self.answered(line.session, attempt, &mut perform).await?);
            }
            Ok(outcomes)
        })
        .await
    }
}
