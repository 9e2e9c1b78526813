//! The role: looking at who holds it, taking it, giving it back, and our own nodes around it.
//!
//! These are the few writes without the fence of a term (`effect`): they decide who the controller is. Each is one
//! transaction, and a lost answer is resolved by `ephemeralOwner`, never by id: a twin would have the same id.
//! Upstream: `registerControllerAndIncrementControllerEpoch` in `KafkaZkClient.scala`.

use zookeeper_client::{
    Acls, CheckWriteError, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriteResult,
    Stat,
};

use super::client::{Access, ZkClient, now_ms, refused};
use super::link::Wire;
use super::read::armed;
use super::watches::Target;
use super::{paths, znode};
use crate::effect::Term;
use crate::model::{Broker, BrokerId, ControllerEpoch};
use crate::port::{Holder, RoleView, Taking, ZkFault};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// A node, or why there is none.
type Looked = Result<(Vec<u8>, Stat), Error>;

/// What one look at the role's nodes saw.
struct Seen {
    session: i64,
    epoch: Looked,
    controller: Looked,
    registration: Looked,
    on_hold: bool,
    migrating: bool,
}

/// See [`crate::port::Zk::role_view`].
pub(super) async fn view(client: &ZkClient) -> Result<RoleView, ZkFault> {
    let seen = see(client, &mut Access::default(), client.id()).await?;
    Ok(RoleView {
        epoch: epoch(seen.epoch)?,
        holder: holder(seen.controller, seen.session, client.id())?,
        own_registration: match seen.registration {
            Ok((_, stat)) => Some(stat.version),
            Err(Error::NoNode) => None,
            Err(error) => return Err(refused(&paths::broker(client.id()), error)),
        },
        on_hold: seen.on_hold,
        migrating: seen.migrating,
    })
}

/// Arms the watches, then sends the reads at once: ZooKeeper performs the requests of a session in the order in which
/// they were sent, so the epoch is read first.
async fn see(client: &ZkClient, access: &mut Access, id: BrokerId) -> Result<Seen, ZkFault> {
    let own = paths::broker(id);
    let seen = client.until_answered(access, async |wire| {
        watch_existence(client, wire, paths::CONTROLLER, Target::Controller).await?;
        let on_hold = watch_existence(client, wire, paths::KLAMM_HOLD, Target::KlammHold).await?;
        let zk = &wire.client;
        let epoch = zk.get_data(paths::CONTROLLER_EPOCH);
        let controller = zk.get_data(paths::CONTROLLER);
        let registration = zk.get_data(&own);
        let migrating = zk.check_stat(paths::MIGRATION);
        Ok(Seen {
            session: wire.session_id(),
            epoch: answered(wire, epoch.await)?,
            controller: answered(wire, controller.await)?,
            registration: answered(wire, registration.await)?,
            on_hold,
            migrating: migrating.await?.is_some(),
        })
    });
    match seen.await? {
        Ok(seen) => Ok(seen),
        Err(error) => Err(refused(paths::CONTROLLER, error)),
    }
}

/// Lets a lost connection fail the whole look, and any other error stand for its node.
fn answered(wire: &Wire, looked: Looked) -> Result<Looked, Error> {
    match looked {
        Err(error) if wire.is_loss(&error) => Err(error),
        other => Ok(other),
    }
}

/// Whether a node exists; its creation, deletion and change are watched from now on.
pub(super) async fn watch_existence(
    client: &ZkClient,
    wire: &Wire,
    path: &str,
    target: Target,
) -> Result<bool, Error> {
    armed(client, wire, Some(&target), async |arm| match arm {
        true => {
            let (stat, watcher) = wire.client.check_and_watch_stat(path).await?;
            Ok((stat.is_some(), Some(watcher)))
        }
        false => Ok((wire.client.check_stat(path).await?.is_some(), None)),
    })
    .await
}

fn epoch(looked: Looked) -> Result<Option<Term>, ZkFault> {
    match looked {
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(refused(paths::CONTROLLER_EPOCH, error)),
        Ok((data, stat)) => match znode::decode_controller_epoch(&data) {
            Ok(epoch) => Ok(Some(Term {
                epoch,
                epoch_zk_version: stat.version,
            })),
            Err(wrong) => Err(refused(paths::CONTROLLER_EPOCH, wrong)),
        },
    }
}

fn holder(looked: Looked, session: i64, own_id: BrokerId) -> Result<Holder, ZkFault> {
    let (data, stat) = match looked {
        Ok(node) => node,
        Err(Error::NoNode) => return Ok(Holder::Nobody),
        Err(error) => return Err(refused(paths::CONTROLLER, error)),
    };
    if stat.ephemeral_owner == session {
        return Ok(Holder::Ourselves);
    }
    let version = stat.version;
    Ok(match znode::decode_controller(&data) {
        Err(why) => Holder::Unreadable { version, why },
        Ok(znode) if znode.kraft_controller_epoch.is_some_and(|epoch| epoch >= 0) => Holder::Kraft,
        Ok(znode) if znode.is_klamm && znode.broker == own_id => Holder::Namesake { version },
        Ok(znode) if znode.is_klamm => Holder::Klamm {
            id: znode.broker,
            version,
        },
        Ok(znode) => Holder::Broker {
            id: znode.broker,
            version,
        },
    })
}

/// See [`crate::port::Zk::take_role`].
pub(super) async fn take(
    client: &ZkClient,
    view: &RoleView,
    me: &Broker,
) -> Result<Taking, ZkFault> {
    if view.holder == Holder::Kraft || view.migrating {
        return Err(refused(
            paths::CONTROLLER,
            "the cluster is migrating to KRaft; klamm never takes the role there",
        ));
    }
    let access = &mut Access::default();
    if view.own_registration.is_some() {
        refuse_a_genuine_namesake(client, access).await?;
    }
    let Some(before) = epoch_to_raise(client, access, view).await? else {
        return Ok(Taking::Raced);
    };
    let wire = client.wire(access).await?;
    let next = ControllerEpoch(before.epoch.0.saturating_add(1));
    let own = paths::broker(client.id());
    let registration = znode::encode_broker(me, client.registration_version(), now_ms());
    let taking = async {
        let mut writer = wire.client.new_multi_writer();
        if let Some(version) = to_delete(&view.holder) {
            writer.add_delete(paths::CONTROLLER, version)?;
        }
        let controller = znode::encode_controller(client.id(), now_ms());
        writer.add_create(paths::CONTROLLER, &controller, &EPHEMERAL)?;
        let epoch = znode::encode_controller_epoch(next);
        let expected = Some(before.epoch_zk_version);
        writer.add_set_data(paths::CONTROLLER_EPOCH, &epoch, expected)?;
        if let Some(version) = view.own_registration {
            writer.add_delete(&own, Some(version))?;
        }
        writer.add_create(&own, &registration, &EPHEMERAL)?;
        writer.commit().await
    };
    match client.timed(taking).await {
        Ok(results) => match results.into_iter().find_map(version_set) {
            Some(epoch_zk_version) => Ok(Taking::Won(Term {
                epoch: next,
                epoch_zk_version,
            })),
            None => Err(refused(
                paths::CONTROLLER_EPOCH,
                "ZooKeeper answered in part",
            )),
        },
        Err(MultiWriteError::OperationFailed { source, .. }) => match source {
            Error::BadVersion | Error::NodeExists | Error::NoNode => {
                raced(client, access, &own).await
            }
            other => Err(refused(paths::CONTROLLER, other)),
        },
        Err(MultiWriteError::RequestFailed { source }) if wire.is_loss(&source) => {
            client.lost(access, &wire);
            whether_taken(client, access, next).await
        }
        Err(MultiWriteError::RequestFailed { source }) => Err(refused(paths::CONTROLLER, source)),
    }
}

/// Our own leftover is replaced; a genuine broker that came up with our id is not.
async fn refuse_a_genuine_namesake(client: &ZkClient, access: &mut Access) -> Result<(), ZkFault> {
    let own = paths::broker(client.id());
    match client.node(access, &own).await? {
        Some((data, _)) if !znode::is_klamm_registration(&data) => Err(refused(
            &own,
            "a broker with klamm's id has registered; give klamm an id that no broker has",
        )),
        _ => Ok(()),
    }
}

/// Which version of `/controller` the taking deletes, if any. Our own is deleted whatever its version is: we never
/// change it, and the epoch that was read before it is checked in the same transaction.
fn to_delete(holder: &Holder) -> Option<Option<i32>> {
    match holder {
        Holder::Nobody | Holder::Kraft => None,
        Holder::Ourselves => Some(None),
        Holder::Namesake { version }
        | Holder::Klamm { version, .. }
        | Holder::Broker { version, .. }
        | Holder::Unreadable { version, .. } => Some(Some(*version)),
    }
}

fn version_set(result: MultiWriteResult) -> Option<i32> {
    match result {
        MultiWriteResult::SetData { stat } => Some(stat.version),
        _ => None,
    }
}

/// The epoch as it stands; where no controller was ever elected it begins with 0, as in Java from 2.1 on. `None`: it
/// was created by somebody else meanwhile.
async fn epoch_to_raise(
    client: &ZkClient,
    access: &mut Access,
    view: &RoleView,
) -> Result<Option<Term>, ZkFault> {
    if view.epoch.is_some() {
        return Ok(view.epoch);
    }
    let zero = znode::encode_controller_epoch(ControllerEpoch(0));
    let created = client.until_answered(access, async |wire| {
        wire.client
            .create(paths::CONTROLLER_EPOCH, &zero, &PERSISTENT)
            .await
    });
    match created.await? {
        Ok(_) => Ok(Some(Term {
            epoch: ControllerEpoch(0),
            epoch_zk_version: 0,
        })),
        Err(Error::NodeExists) => Ok(None),
        Err(error) => Err(refused(paths::CONTROLLER_EPOCH, error)),
    }
}

/// A conflict means that somebody was faster, unless a parent is missing: that would never pass by itself.
async fn raced(client: &ZkClient, access: &mut Access, own: &str) -> Result<Taking, ZkFault> {
    match client.node(access, paths::BROKER_IDS).await? {
        Some(_) => Ok(Taking::Raced),
        None => Err(refused(
            own,
            "its parent is missing; start a broker, or create it",
        )),
    }
}

/// Our transaction's answer was lost: it was performed if `/controller` is our session's and the epoch is the one that
/// we would have set.
async fn whether_taken(
    client: &ZkClient,
    access: &mut Access,
    next: ControllerEpoch,
) -> Result<Taking, ZkFault> {
    let seen = see(client, access, client.id()).await?;
    let ours = matches!(&seen.controller, Ok((_, stat)) if stat.ephemeral_owner == seen.session);
    Ok(match epoch(seen.epoch)? {
        Some(term) if ours && term.epoch == next => Taking::Won(term),
        _ => Taking::Raced,
    })
}

/// See [`crate::port::Zk::release_role`].
pub(super) async fn release(client: &ZkClient, term: &Term) -> Result<(), ZkFault> {
    let access = &mut Access::default();
    let own = paths::broker(client.id());
    loop {
        let seen = see(client, access, client.id()).await?;
        let version_if_ours = |looked: &Looked| match looked {
            Ok((_, stat)) if stat.ephemeral_owner == seen.session => Some(stat.version),
            _ => None,
        };
        let registration = version_if_ours(&seen.registration);
        let controller = version_if_ours(&seen.controller);
        if registration.is_none() && controller.is_none() {
            return Ok(());
        }
        let wire = client.wire(access).await?;
        let releasing = async {
            let fence = Some(term.epoch_zk_version);
            let mut writer = wire
                .client
                .new_check_writer(paths::CONTROLLER_EPOCH, fence)?;
            if let Some(version) = registration {
                writer.add_delete(&own, Some(version))?;
            }
            if let Some(version) = controller {
                writer.add_delete(paths::CONTROLLER, Some(version))?;
            }
            writer.commit().await
        };
        match client.timed(releasing).await {
            Ok(_) => return Ok(()),
            Err(CheckWriteError::CheckFailed {
                source: Error::BadVersion | Error::NoNode,
            }) => {
                return Err(ZkFault::Fenced);
            }
            // One of the two was changed or deleted meanwhile: look again.
            Err(CheckWriteError::OperationFailed {
                source: Error::BadVersion | Error::NoNode,
                ..
            }) => {}
            Err(CheckWriteError::RequestFailed { source }) if wire.is_loss(&source) => {
                client.lost(access, &wire);
            }
            Err(error) => return Err(refused(paths::CONTROLLER, error)),
        }
    }
}

/// See [`crate::port::Zk::drop_registration`].
pub(super) async fn drop_registration(client: &ZkClient) -> Result<(), ZkFault> {
    let access = &mut Access::default();
    let own = paths::broker(client.id());
    loop {
        let Some(version) = own_version(client, access, &own).await? else {
            return Ok(());
        };
        let deleted = client.until_answered(access, async |wire| {
            wire.client.delete(&own, Some(version)).await
        });
        match deleted.await? {
            Ok(()) | Err(Error::NoNode) => return Ok(()),
            Err(Error::BadVersion) => {}
            Err(error) => return Err(refused(&own, error)),
        }
    }
}

/// See [`crate::port::Zk::update_registration`].
pub(super) async fn update_registration(client: &ZkClient, me: &Broker) -> Result<(), ZkFault> {
    let access = &mut Access::default();
    let own = paths::broker(client.id());
    let data = znode::encode_broker(me, client.registration_version(), now_ms());
    loop {
        let Some(version) = own_version(client, access, &own).await? else {
            return Err(refused(&own, "it is not ours any more"));
        };
        let set = client.until_answered(access, async |wire| {
            wire.client.set_data(&own, &data, Some(version)).await
        });
        match set.await? {
            Ok(_) => return Ok(()),
            // After a lost answer this is our own write; the next look finds out, and writing twice does no harm.
            Err(Error::BadVersion | Error::NoNode) => {}
            Err(error) => return Err(refused(&own, error)),
        }
    }
}

/// The version of our registration, if it is our session's.
async fn own_version(
    client: &ZkClient,
    access: &mut Access,
    own: &str,
) -> Result<Option<i32>, ZkFault> {
    let read = client.until_answered(access, async |wire| {
        match wire.client.check_stat(own).await? {
            Some(stat) if stat.ephemeral_owner == wire.session_id() => Ok(Some(stat.version)),
            _ => Ok(None),
        }
    });
    read.await?.map_err(|error| refused(own, error))
}

/// See [`crate::port::Zk::record_klamm_id`].
pub(super) async fn record_klamm_id(client: &ZkClient) -> Result<(), ZkFault> {
    client
        .create_persistent(&[paths::KLAMM, paths::KLAMM_IDS])
        .await?;
    let own = paths::klamm_id(client.id());
    let data = znode::encode_klamm_id(now_ms());
    client.create_one(&mut Access::default(), &own, &data).await
}
