//! The role from another shell, and around a start and an end: hand-back, lifting the hold, seeing somebody take over,
//! and the check of our own id before anything is written.
//!
//! Java brokers that saw the role change hands several times within moments may leave it vacant for good; creating and
//! deleting `/controller` once wakes them.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{Acls, CheckWriteError, CreateMode, CreateOptions, Error};

use super::client::{Access, ZkClient, now_ms, refused};
use super::{paths, role, znode};
use crate::effect::{Read, Term};
use crate::model::{BrokerId, TopicName};
use crate::port::{Holder, ZkFault};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// How long a vacant role is left alone before the candidates are woken.
const VACANT: Duration = Duration::from_secs(2);
/// How long a nudge leaves `/controller` in place: time for candidates to set their watch on it.
const NUDGE: Duration = Duration::from_millis(500);
/// How long a nudge that began at the last moment may take.
const LAST_NUDGE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

/// How a role that was given up found its next holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// Somebody took it.
    Taken {
        /// Who.
        by: BrokerId,
        /// How often the candidates had to be woken.
        nudges: u32,
    },
    /// Nobody took it within the given time.
    Vacant {
        /// How often the candidates were woken.
        nudges: u32,
    },
}

/// Why `klamm.id` can't be ours. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableId {
    /// A broker of this id is registered, and it is no klamm.
    #[error(
        "klamm.id={id}: a broker with this id is registered in /brokers/ids/{id}; give klamm an id that no broker has"
    )]
    Registered {
        /// The id.
        id: BrokerId,
    },
    /// Replicas are assigned to a broker of this id, and no klamm ever had it.
    #[error(
        "klamm.id={id}: partition {partition} of topic {topic} is assigned to broker {id}, which is down perhaps, and \
         /klamm/ids/{id} does not exist; give klamm an id that no broker has"
    )]
    Assigned {
        /// The id.
        id: BrokerId,
        /// A topic that has a replica there.
        topic: TopicName,
        /// One of its partitions.
        partition: i32,
    },
    /// ZooKeeper could not be asked.
    #[error(transparent)]
    Zk(#[from] ZkFault),
}

impl ZkClient {
    /// Makes sure that `klamm.id` is no genuine broker's: neither registered without our mark, nor in any assignment
    /// while `/klamm/ids/N` is missing. To be called before anything is written.
    ///
    /// # Errors
    /// See [`UnusableId`].
    pub async fn vet_own_id(&self) -> Result<(), UnusableId> {
        let id = self.id();
        let access = &mut Access::default();
        if let Some((data, _)) = self.node(access, &paths::broker(id)).await?
            && !znode::is_klamm_registration(&data)
        {
            return Err(UnusableId::Registered { id });
        }
        if self.node(access, &paths::klamm_id(id)).await?.is_some() {
            return Ok(());
        }
        let names = self.list(paths::TOPICS, None).await?.unwrap_or_default();
        let names: Vec<TopicName> = names.iter().map(|name| TopicName::new(name)).collect();
        for slice in names.chunks(1000) {
            let topics = self.unwatched_topics(slice).await?;
            for (topic, read) in slice.iter().zip(topics) {
                let Read::Found(znode) = read else { continue };
                let mut partitions = znode.partitions.iter();
                let assigned = partitions.find(|(_, assignment)| assignment.replicas.contains(id));
                if let Some((partition, _)) = assigned {
                    return Err(UnusableId::Assigned {
                        id,
                        topic: topic.clone(),
                        partition: *partition,
                    });
                }
            }
        }
        Ok(())
    }

    /// Hands the role back from outside: in one transaction no klamm may contend any more, and the klamm that holds the
    /// role loses it together with its registration. Then waits until somebody holds the role, at most `wait_ms`.
    ///
    /// # Errors
    /// When ZooKeeper can't be reached or refuses.
    pub async fn handback(&self, wait_ms: u64) -> Result<Handover, ZkFault> {
        self.create_persistent(&[paths::KLAMM]).await?;
        while !self.hold_and_evict().await? {}
        self.await_successor(wait_ms).await
    }

    /// Lets klamms contend again. `false`: nothing was on hold.
    ///
    /// # Errors
    /// When ZooKeeper can't be reached or refuses.
    pub async fn lift_hold(&self) -> Result<bool, ZkFault> {
        let access = &mut Access::default();
        let was_held = self.node(access, paths::KLAMM_HOLD).await?.is_some();
        let deleted = self.until_answered(access, async |wire| {
            wire.client.delete(paths::KLAMM_HOLD, None).await
        });
        match deleted.await? {
            // After a lost answer the second try finds nothing to delete.
            Ok(()) | Err(Error::NoNode) => Ok(was_held),
            Err(error) => Err(refused(paths::KLAMM_HOLD, error)),
        }
    }

    /// Waits until somebody holds the role, at most `wait_ms` and 2 s. Vacant for 2 s: wakes the candidates, and logs it.
    ///
    /// # Errors
    /// When ZooKeeper can't be reached or refuses.
    pub async fn await_successor(&self, wait_ms: u64) -> Result<Handover, ZkFault> {
        let wait = Duration::from_millis(wait_ms);
        // A look waits for as long as ZooKeeper is away; a process that ends can't.
        match timeout(wait + LAST_NUDGE, self.look_for_successor(wait)).await {
            Ok(seen) => seen,
            Err(_) => Err(refused(
                paths::CONTROLLER,
                format!("no answer within {} s; is it up?", wait.as_secs_f64()),
            )),
        }
    }

    async fn look_for_successor(&self, wait: Duration) -> Result<Handover, ZkFault> {
        let deadline = Instant::now() + wait;
        let mut nudges = 0;
        let mut vacant_since = Instant::now();
        loop {
            if let Some(by) = self.role_holder().await? {
                return Ok(Handover::Taken { by, nudges });
            }
            if Instant::now() >= deadline {
                return Ok(Handover::Vacant { nudges });
            }
            if vacant_since.elapsed() >= VACANT {
                tracing::warn!(
                    "nobody took the controller role for {} s: waking the candidates by creating and deleting {}",
                    VACANT.as_secs(),
                    paths::CONTROLLER
                );
                self.nudge().await?;
                nudges += 1;
                vacant_since = Instant::now();
            }
            sleep(LOOK).await;
        }
    }

    /// Who holds the role, whatever the session. A node that can't be understood counts as held by broker −1.
    async fn role_holder(&self) -> Result<Option<BrokerId>, ZkFault> {
        let node = self.node(&mut Access::default(), paths::CONTROLLER).await?;
        let holder = |(data, _): (Vec<u8>, _)| match znode::decode_controller(&data) {
            Ok(znode) => znode.broker,
            Err(_) => BrokerId(-1),
        };
        Ok(node.map(holder))
    }

    /// Creates `/controller` and deletes it again, unless somebody else created it. Broker −1 is nobody to all who read
    /// it meanwhile.
    async fn nudge(&self) -> Result<(), ZkFault> {
        let access = &mut Access::default();
        let data = znode::encode_controller(BrokerId(-1), now_ms());
        let created = self.until_answered(access, async |wire| {
            wire.client
                .create(paths::CONTROLLER, &data, &EPHEMERAL)
                .await
        });
        match created.await? {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(refused(paths::CONTROLLER, error)),
        }
        sleep(NUDGE).await;
        let deleted = self.until_answered(access, async |wire| {
            match wire.client.check_stat(paths::CONTROLLER).await? {
                Some(stat) if stat.ephemeral_owner == wire.session_id() => {
                    wire.client
                        .delete(paths::CONTROLLER, Some(stat.version))
                        .await
                }
                _ => Ok(()),
            }
        });
        match deleted.await? {
            Ok(()) | Err(Error::NoNode | Error::BadVersion) => Ok(()),
            Err(error) => Err(refused(paths::CONTROLLER, error)),
        }
    }

    /// `true`: the hold stands and no klamm holds the role. `false`: something changed meanwhile.
    async fn hold_and_evict(&self) -> Result<bool, ZkFault> {
        let access = &mut Access::default();
        let view = role::view(self).await?;
        let evicted = match view.holder {
            Holder::Namesake { version } => Some((self.id(), version)),
            Holder::Klamm { id, version } => Some((id, version)),
            _ => None,
        };
        if view.on_hold && evicted.is_none() {
            return Ok(true);
        }
        let eviction = match evicted {
            None => None,
            Some((id, version)) => {
                let registration = self.node(access, &paths::broker(id)).await?;
                let registered =
                    registration.is_some_and(|(data, _)| znode::is_klamm_registration(&data));
                Some(Eviction {
                    id,
                    version,
                    registered,
                    term: view.epoch,
                })
            }
        };
        let wire = self.wire(access).await?;
        let hold = znode::encode_hold(self.id(), now_ms());
        let writing = async {
            let mut writer = wire.client.new_multi_writer();
            if let Some(Eviction {
                term: Some(term), ..
            }) = &eviction
            {
                writer.add_check_version(paths::CONTROLLER_EPOCH, term.epoch_zk_version)?;
            }
            if !view.on_hold {
                writer.add_create(paths::KLAMM_HOLD, &hold, &PERSISTENT)?;
            }
            if let Some(eviction) = &eviction {
                if eviction.registered {
                    writer.add_delete(&paths::broker(eviction.id), None)?;
                }
                writer.add_delete(paths::CONTROLLER, Some(eviction.version))?;
            }
            writer.commit().await.map_err(CheckWriteError::from)
        };
        match self.timed(writing).await {
            Ok(_) => Ok(true),
            Err(CheckWriteError::RequestFailed { source }) if wire.is_loss(&source) => {
                self.lost(access, &wire);
                Ok(false)
            }
            Err(CheckWriteError::RequestFailed { source }) => {
                Err(refused(paths::KLAMM_HOLD, source))
            }
            // Looked at again: a hold or a holder that came, went or changed.
            Err(
                CheckWriteError::CheckFailed {
                    source: Error::BadVersion | Error::NoNode | Error::NodeExists,
                }
                | CheckWriteError::OperationFailed {
                    source: Error::BadVersion | Error::NoNode | Error::NodeExists,
                    ..
                },
            ) => Ok(false),
            Err(error) => Err(refused(paths::KLAMM_HOLD, error)),
        }
    }
}

/// A klamm that loses the role by hand-back.
struct Eviction {
    id: BrokerId,
    version: i32,
    registered: bool,
    term: Option<Term>,
}
