//! The role's own nodes: reading who holds it, and the transactions that take it and give it back.

use klamm::effect::Term;
use klamm::model::{Broker, BrokerId, ControllerEpoch};
use klamm::port::{Holder, RoleView, Taking, ZkFault};
use klamm::zk::{paths, znode};

use super::Attempt;
use super::line::{Broken, Line, fault};
use crate::zookeeper::{CreateMode, Op, Stat, ZkError, ZkSession};

/// The `version` in our registration's JSON.
const REGISTRATION_VERSION: i32 = 5;

/// Reads the epoch first, then `/controller`, then our registration, and arms `/controller`.
pub async fn view(line: &Line<'_>, own_id: BrokerId) -> Result<RoleView, Broken> {
    let epoch = epoch(line).await?;
    exists_and_watch(line, paths::CONTROLLER).await?;
    let on_hold = exists_and_watch(line, paths::KLAMM_HOLD).await?;
    let holder = match get(line, paths::CONTROLLER).await? {
        None => Holder::Nobody,
        Some((data, stat)) => holder(line.session, own_id, &data, stat),
    };
    let own_registration = get(line, &paths::broker(own_id)).await?;
    Ok(RoleView {
        epoch,
        holder,
        own_registration: own_registration.map(|(_, stat)| stat.version),
        on_hold,
        migrating: get(line, paths::MIGRATION).await?.is_some(),
    })
}

async fn epoch(line: &Line<'_>) -> Result<Option<Term>, Broken> {
    let Some((data, stat)) = get(line, paths::CONTROLLER_EPOCH).await? else {
        return Ok(None);
    };
    let epoch = znode::decode_controller_epoch(&data).map_err(|why| ZkFault::Refused {
        path: paths::CONTROLLER_EPOCH.to_owned(),
        cause: why,
    })?;
    Ok(Some(Term {
        epoch,
        epoch_zk_version: stat.version,
    }))
}

fn holder(session: &ZkSession, own_id: BrokerId, data: &[u8], stat: Stat) -> Holder {
    let version = stat.version;
    if stat.owner == Some(session.id()) {
        return Holder::Ourselves;
    }
    match znode::decode_controller(data) {
        Err(why) => Holder::Unreadable { version, why },
        Ok(node) if node.kraft_controller_epoch.is_some_and(|epoch| epoch >= 0) => Holder::Kraft,
        Ok(node) if node.is_klamm && node.broker == own_id => Holder::Namesake { version },
        Ok(node) if node.is_klamm => Holder::Klamm {
            id: node.broker,
            version,
        },
        Ok(node) => Holder::Broker {
            id: node.broker,
            version,
        },
    }
}

/// One transaction: the old holder's node goes first, so that it hears of its loss before anything else.
pub async fn take(
    line: &Line<'_>,
    view: &RoleView,
    me: &Broker,
    now_ms: u64,
    attempt: Attempt,
) -> Result<Taking, Broken> {
    if attempt == Attempt::Again {
        return read_back_taking(line, view).await;
    }
    if view.holder == Holder::Kraft || view.migrating {
        let why = "the cluster is migrating to KRaft";
        return Err(refused(paths::CONTROLLER, why).into());
    }
    let path = paths::broker(me.id);
    let registered = get(line, &path).await?;
    if registered.is_some_and(|(data, _)| !znode::is_klamm_registration(&data)) {
        return Err(refused(&path, "a broker with klamm's id has registered").into());
    }
    let Some(before) = epoch_to_raise(line, view).await? else {
        return Ok(Taking::Raced);
    };
    let won = Term {
        epoch: ControllerEpoch(before.epoch.0 + 1),
        epoch_zk_version: before.epoch_zk_version + 1,
    };
    match line.multi(&taking(view, me, now_ms, won)).await {
        Ok(_) => Ok(Taking::Won(won)),
        Err(failed) => match failed.error {
            ZkError::BadVersion | ZkError::NoNode | ZkError::NodeExists => Ok(Taking::Raced),
            error => Err(fault(paths::CONTROLLER, error)),
        },
    }
}

fn refused(path: &str, cause: &str) -> ZkFault {
    ZkFault::Refused {
        path: path.to_owned(),
        cause: cause.to_owned(),
    }
}

/// The epoch as it stands; where no controller was ever elected it begins with 0. `None`: somebody else began it.
async fn epoch_to_raise(line: &Line<'_>, view: &RoleView) -> Result<Option<Term>, Broken> {
    if view.epoch.is_some() {
        return Ok(view.epoch);
    }
    let zero = Term {
        epoch: ControllerEpoch(0),
        epoch_zk_version: 0,
    };
    let data = znode::encode_controller_epoch(zero.epoch);
    match line
        .create(paths::CONTROLLER_EPOCH, &data, CreateMode::Persistent)
        .await
    {
        Ok(_) => Ok(Some(zero)),
        Err(ZkError::NodeExists) => Ok(None),
        Err(error) => Err(fault(paths::CONTROLLER_EPOCH, error)),
    }
}

/// The answer was lost: the role is ours if the node's owner is our session, whatever its id says, and the epoch is the
/// one that we would have set.
async fn read_back_taking(line: &Line<'_>, view: &RoleView) -> Result<Taking, Broken> {
    let owner = get(line, paths::CONTROLLER)
        .await?
        .and_then(|(_, stat)| stat.owner);
    let next = view.epoch.map_or(0, |term| term.epoch.0) + 1;
    Ok(match epoch(line).await? {
        Some(term) if owner == Some(line.session.id()) && term.epoch.0 == next => Taking::Won(term),
        _ => Taking::Raced,
    })
}

fn taking(view: &RoleView, me: &Broker, now_ms: u64, won: Term) -> Vec<Op> {
    let mut ops = Vec::new();
    match &view.holder {
        Holder::Nobody | Holder::Kraft => {}
        Holder::Ourselves => ops.push(Op::delete(paths::CONTROLLER, None)),
        Holder::Namesake { version }
        | Holder::Klamm { version, .. }
        | Holder::Broker { version, .. }
        | Holder::Unreadable { version, .. } => {
            ops.push(Op::delete(paths::CONTROLLER, Some(*version)));
        }
    }
    let controller = znode::encode_controller(me.id, now_ms);
    let ephemeral = CreateMode::Ephemeral;
    ops.push(Op::create(paths::CONTROLLER, &controller, ephemeral));
    let number = znode::encode_controller_epoch(won.epoch);
    let expected = Some(won.epoch_zk_version - 1);
    ops.push(Op::set(paths::CONTROLLER_EPOCH, &number, expected));
    let path = paths::broker(me.id);
    if let Some(version) = view.own_registration {
        ops.push(Op::delete(&path, Some(version)));
    }
    let registration = znode::encode_broker(me, REGISTRATION_VERSION, now_ms);
    ops.push(Op::create(&path, &registration, ephemeral));
    ops
}

/// Both nodes in one fenced transaction.
pub async fn release(
    line: &Line<'_>,
    own_id: BrokerId,
    term: &Term,
    attempt: Attempt,
) -> Result<(), Broken> {
    let mut ops = vec![Op::check(paths::CONTROLLER_EPOCH, term.epoch_zk_version)];
    for path in [paths::CONTROLLER.to_owned(), paths::broker(own_id)] {
        let owner = get(line, &path).await?.and_then(|(_, stat)| stat.owner);
        if owner == Some(line.session.id()) {
            ops.push(Op::delete(&path, None));
        }
    }
    match line.multi(&ops).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.error == ZkError::BadVersion && attempt == Attempt::First => {
            Err(ZkFault::Fenced.into())
        }
        // The first attempt released it, and somebody took the role since.
        Err(failed) if failed.error == ZkError::BadVersion && ops.len() == 1 => Ok(()),
        Err(failed) if failed.error == ZkError::BadVersion => Err(ZkFault::Fenced.into()),
        Err(failed) => Err(fault(paths::CONTROLLER, failed.error)),
    }
}

pub async fn drop_registration(line: &Line<'_>, own_id: BrokerId) -> Result<(), Broken> {
    let path = paths::broker(own_id);
    match get(line, &path).await? {
        Some((_, stat)) if stat.owner == Some(line.session.id()) => line
            .delete(&path, Some(stat.version))
            .await
            .map_err(|error| fault(&path, error)),
        _ => Ok(()),
    }
}

pub async fn update_registration(line: &Line<'_>, me: &Broker, now_ms: u64) -> Result<(), Broken> {
    let path = paths::broker(me.id);
    let data = znode::encode_broker(me, REGISTRATION_VERSION, now_ms);
    let written = line.set(&path, &data, None).await;
    written.map(|_| ()).map_err(|error| fault(&path, error))
}

pub async fn create_base_paths(line: &Line<'_>) -> Result<(), Broken> {
    for path in paths::BASE_PATHS {
        create_if_missing(line, path, b"").await?;
    }
    Ok(())
}

pub async fn record_klamm_id(line: &Line<'_>, own_id: BrokerId, now_ms: u64) -> Result<(), Broken> {
    create_if_missing(line, paths::KLAMM, b"").await?;
    create_if_missing(line, paths::KLAMM_IDS, b"").await?;
    let data = znode::encode_klamm_id(now_ms);
    create_if_missing(line, &paths::klamm_id(own_id), &data).await
}

async fn create_if_missing(line: &Line<'_>, path: &str, data: &[u8]) -> Result<(), Broken> {
    match line.create(path, data, CreateMode::Persistent).await {
        Ok(_) | Err(ZkError::NodeExists) => Ok(()),
        Err(error) => Err(fault(path, error)),
    }
}

async fn get(line: &Line<'_>, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Broken> {
    match line.get(path).await {
        Ok(found) => Ok(Some(found)),
        Err(ZkError::NoNode) => Ok(None),
        Err(error) => Err(fault(path, error)),
    }
}

async fn exists_and_watch(line: &Line<'_>, path: &str) -> Result<bool, Broken> {
    let stat = line.exists_and_watch(path).await;
    stat.map(|stat| stat.is_some())
        .map_err(|error| fault(path, error))
}
