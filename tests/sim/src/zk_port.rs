//! The `Zk` port over the in-memory ZooKeeper: the transactions, watches and read-backs of the product's own client.
//!
//! It decides nothing. Where the product's client retries, reads back or arms a watch, this does the same, in one step:
//! no call ever waits, and a cut connection is restored by the next call. Counterpart: `klamm::zk`.

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
use crate::zookeeper::{ZkError, ZkSession, ZooKeeper};

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
        SimZk {
            own_id,
            time: time.clone(),
            shared: Shared {
                zookeeper: zookeeper.clone(),
                queue: queue.clone(),
                topic_watches,
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

    /// Performs one write and keeps it, if it was performed by this attempt.
    fn perform(
        &self,
        session: &ZkSession,
        term: &Term,
        write: &ZkWrite,
        attempt: Attempt,
    ) -> Result<ZkOutcome, ZkFault> {
        let before = self.state_written_by(write);
        let outcome = write::perform(session, term, write, attempt)?;
        let is_written = matches!(outcome, ZkOutcome::Written { .. });
        let version = |state: &Option<StateRead>| state.as_ref().map(|state| state.partition_epoch);
        let is_state = matches!(
            write,
            ZkWrite::CreateState { .. } | ZkWrite::SetState { .. }
        );
        if is_written && is_state && version(&self.state_written_by(write)) != version(&before) {
            self.performed.borrow_mut().push(Performed {
                write: write.clone(),
                term: *term,
                before,
            });
        }
        Ok(outcome)
    }

    /// What stands where a partition's state is to be written.
    fn state_written_by(&self, write: &ZkWrite) -> Option<StateRead> {
        let (ZkWrite::CreateState { partition, .. } | ZkWrite::SetState { partition, .. }) = write
        else {
            return None;
        };
        let path = paths::state(partition);
        let node = self.shared.zookeeper.look(&path)?;
        znode::decode_state(&path, node.data(), node.stat().version).found()
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

    /// One call: strikes it with what is planned, and performs it.
    fn call<T>(
        &self,
        call: Call,
        mut perform: impl FnMut(&ZkSession, Attempt) -> Result<T, ZkFault>,
    ) -> Result<T, ZkFault> {
        let Some(session) = self.session() else {
            panic!("{call:?} before the first session");
        };
        let zookeeper = &self.shared.zookeeper;
        zookeeper.reconnect(session.id());
        let cut = || {
            zookeeper.disconnect(session.id());
            zookeeper.reconnect(session.id());
        };
        match self.faults.strike(call) {
            None => perform(&session, Attempt::First),
            Some(Fault::LossBefore) => {
                cut();
                perform(&session, Attempt::First)
            }
            Some(Fault::LossAfter) => {
                let lost = perform(&session, Attempt::First);
                cut();
                drop(lost);
                perform(&session, Attempt::Again)
            }
            Some(Fault::SessionLostBefore) => {
                zookeeper.expire(session.id());
                Err(ZkFault::SessionLost)
            }
            Some(Fault::SessionLostAfter) => {
                drop(perform(&session, Attempt::First));
                zookeeper.expire(session.id());
                Err(ZkFault::SessionLost)
            }
            Some(Fault::Meanwhile(act)) => {
                act(zookeeper);
                perform(&session, Attempt::First)
            }
            Some(Fault::Refused(cause)) => Err(ZkFault::Refused {
                path: format!("({call:?})"),
                cause: cause.to_owned(),
            }),
        }
    }
}

/// What an error means to a caller that knows no better.
fn fault(path: &str, error: ZkError) -> ZkFault {
    match error {
        ZkError::SessionExpired => ZkFault::SessionLost,
        ZkError::ConnectionLoss => panic!("{path}: the connection is cut in the midst of a call"),
        ZkError::RequestTooLarge { size_bytes } => {
            panic!("{path}: a request of {size_bytes} bytes, which a server never answers")
        }
        other => ZkFault::Refused {
            path: path.to_owned(),
            cause: other.to_string(),
        },
    }
}

impl Zk for SimZk {
    async fn role_view(&self) -> Result<RoleView, ZkFault> {
        self.call(Call::RoleView, |session, _| {
            role::view(session, self.own_id)
        })
    }

    async fn take_role(&self, view: &RoleView, me: &Broker) -> Result<Taking, ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::TakeRole, |session, attempt| {
            role::take(session, view, me, now_ms, attempt)
        })
    }

    async fn release_role(&self, term: &Term) -> Result<(), ZkFault> {
        self.call(Call::ReleaseRole, |session, attempt| {
            role::release(session, self.own_id, term, attempt)
        })
    }

    async fn drop_registration(&self) -> Result<(), ZkFault> {
        self.call(Call::DropRegistration, |session, _| {
            role::drop_registration(session, self.own_id)
        })
    }

    async fn update_registration(&self, me: &Broker) -> Result<(), ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::UpdateRegistration, |session, _| {
            role::update_registration(session, me, now_ms)
        })
    }

    async fn create_base_paths(&self) -> Result<(), ZkFault> {
        self.call(Call::CreateBasePaths, |session, _| {
            role::create_base_paths(session)
        })
    }

    async fn klamm_ids(&self) -> Result<BTreeSet<BrokerId>, ZkFault> {
        self.call(Call::KlammIds, |session, _| reads::klamm_ids(session))
    }

    async fn record_klamm_id(&self) -> Result<(), ZkFault> {
        let now_ms = self.time.now_ms();
        self.call(Call::RecordKlammId, |session, _| {
            role::record_klamm_id(session, self.own_id, now_ms)
        })
    }

    async fn brokers(&self) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault> {
        self.call(Call::Brokers, |session, _| reads::brokers(session))
    }

    async fn broker(&self, id: BrokerId) -> Result<Read<BrokerRegistration>, ZkFault> {
        self.call(Call::Broker, |session, _| reads::broker(session, id))
    }

    async fn topic_names(&self) -> Result<Vec<TopicName>, ZkFault> {
        self.call(Call::TopicNames, |session, _| {
            reads::topic_names(session, self.shared.topic_watches)
        })
    }

    async fn topics(&self, names: &[TopicName]) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
        self.call(Call::Topics, |session, _| {
            reads::topics(session, names, self.shared.topic_watches)
        })
    }

    async fn partition_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Read<StateRead>>, ZkFault> {
        self.call(Call::PartitionStates, |session, _| {
            reads::partition_states(session, partitions)
        })
    }

    async fn topic_configs(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<ElectionConfig>>, ZkFault> {
        self.call(Call::TopicConfigs, |session, _| {
            reads::topic_configs(session, names)
        })
    }

    async fn default_broker_config(&self) -> Result<Read<ElectionConfig>, ZkFault> {
        self.call(Call::DefaultBrokerConfig, |session, _| {
            reads::default_broker_config(session)
        })
    }

    async fn entity_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault> {
        self.call(Call::EntityConfigs, |session, _| {
            reads::entity_configs(session, entities)
        })
    }

    async fn quota_entities(&self) -> Result<Vec<ConfigEntity>, ZkFault> {
        self.call(Call::QuotaEntities, |session, _| {
            reads::quota_entities(session)
        })
    }

    async fn delegation_tokens(
        &self,
    ) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault> {
        self.call(Call::DelegationTokens, |session, _| {
            reads::delegation_tokens(session)
        })
    }

    async fn config_change_names(&self) -> Result<Vec<NotificationName>, ZkFault> {
        self.call(Call::ConfigChangeNames, |session, _| {
            reads::config_change_names(session)
        })
    }

    async fn config_changes(
        &self,
        names: &[NotificationName],
    ) -> Result<Vec<Read<ConfigChange>>, ZkFault> {
        self.call(Call::ConfigChanges, |session, _| {
            reads::config_changes(session, names)
        })
    }

    async fn topic_deletions(&self) -> Result<Vec<TopicName>, ZkFault> {
        self.call(Call::TopicDeletions, |session, _| {
            reads::topic_deletions(session)
        })
    }

    async fn isr_change_notifications(
        &self,
    ) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault> {
        self.call(Call::IsrChangeNotifications, |session, _| {
            reads::isr_change_notifications(session)
        })
    }

    async fn log_dir_event_notifications(&self) -> Result<Vec<Notification<BrokerId>>, ZkFault> {
        self.call(Call::LogDirEventNotifications, |session, _| {
            reads::log_dir_event_notifications(session)
        })
    }

    async fn preferred_replica_election(&self) -> Result<Read<PreferredElectionZnode>, ZkFault> {
        self.call(Call::PreferredReplicaElection, |session, _| {
            reads::preferred_replica_election(session)
        })
    }

    async fn partition_reassignment(&self) -> Result<Read<ReassignmentZnode>, ZkFault> {
        self.call(Call::PartitionReassignment, |session, _| {
            reads::partition_reassignment(session)
        })
    }

    async fn feature(&self) -> Result<Read<(FeatureZnode, i32)>, ZkFault> {
        self.call(Call::Feature, |session, _| reads::feature(session))
    }

    async fn producer_id_block(&self) -> Result<Read<(Option<ProducerIdBlock>, i32)>, ZkFault> {
        self.call(Call::ProducerIdBlock, |session, _| {
            reads::producer_id_block(session)
        })
    }

    async fn write(&self, term: &Term, writes: &[ZkWrite]) -> Result<Vec<ZkOutcome>, ZkFault> {
        self.call(Call::Write, |session, attempt| {
            writes
                .iter()
                .map(|one| self.perform(session, term, one, attempt))
                .collect()
        })
    }
}
