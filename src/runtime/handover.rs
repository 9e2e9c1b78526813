//! `klamm handback` and `klamm takeover`: the role is given back, or contended for again, from another shell.
//!
//! Upstream has no counterpart but deleting `/controller` by hand.

use std::sync::Arc;

use super::{NOBODY, RunError, SUCCESSOR_WAIT_MS, saturating};
use crate::config::ZooKeeperConfig;
use crate::zk::{Handover, NoEvents, NoObserver, Session, Settings, ZkClient};

/// Gives the role back and holds every klamm off until [`takeover`].
///
/// # Errors
/// No session, ZooKeeper refused, or nobody took the role.
pub fn handback(zookeeper: &ZooKeeperConfig) -> Result<(), RunError> {
    with_session(zookeeper, async |client| {
        match client.handback(SUCCESSOR_WAIT_MS).await? {
            Handover::Taken { by, nudges } => {
                let woken = if nudges == 0 {
                    String::new()
                } else {
                    format!(" (woken {nudges} times)")
                };
                println!(
                    "broker {by} is the controller now{woken}; no klamm contends until `klamm takeover`"
                );
                Ok(())
            }
            Handover::Vacant { .. } => Err(RunError::NoSuccessor(SUCCESSOR_WAIT_MS / 1000)),
        }
    })
}

/// Lifts the hold: klamms contend again, by their `klamm.takeover`.
///
/// # Errors
/// No session, or ZooKeeper refused.
pub fn takeover(zookeeper: &ZooKeeperConfig) -> Result<(), RunError> {
    with_session(zookeeper, async |client| {
        if client.lift_hold().await? {
            println!("the hold is lifted: a running klamm takes the role by its klamm.takeover");
        } else {
            println!("there was no hold: klamms contend already");
        }
        Ok(())
    })
}

fn with_session(
    zookeeper: &ZooKeeperConfig,
    act: impl AsyncFnOnce(&ZkClient) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let settings = Settings {
            connect: zookeeper.connect.clone(),
            session_timeout_ms: saturating(zookeeper.session_timeout_ms),
            connection_timeout_ms: saturating(zookeeper.connection_timeout_ms),
            id: NOBODY,
        };
        let session = Session::start(settings, Arc::new(NoEvents), Arc::new(NoObserver)).await?;
        let outcome = act(session.client()).await;
        session.close().await;
        outcome
    })
}
