//! What the rival asks of ZooKeeper: one operation, then a turn of the others.
//!
//! Must never decide anything, and never try again: a lost session or connection ends the term.

use klamm::effect::{Read, Term};
use klamm::zk::paths;

use crate::zookeeper::{Op, OpResult, Stat, ZkError, ZkSession};

use super::{Actor, End, FENCED};

impl Actor {
    /// One operation. What the server refuses is the caller's; what ends the session is not.
    pub(super) async fn ask<T>(
        &self,
        ask: impl FnOnce(&ZkSession) -> Result<T, ZkError>,
    ) -> Result<Result<T, ZkError>, End> {
        let answer = ask(&self.session());
        self.pace.turn().await;
        match answer {
            Err(ZkError::SessionExpired | ZkError::ConnectionLoss) => Err(End::Session),
            other => Ok(other),
        }
    }

    /// What is read; `None`: it isn't there.
    pub(super) async fn read<T>(
        &self,
        ask: impl FnOnce(&ZkSession) -> Result<T, ZkError>,
    ) -> Result<Option<T>, End> {
        Ok(self.ask(ask).await?.ok())
    }

    /// What a node says; `None`: it is missing, or can't be understood.
    pub(super) async fn look<T>(
        &self,
        path: &str,
        decode: impl FnOnce(&[u8], Stat) -> Read<T>,
    ) -> Result<Option<T>, End> {
        let node = self.read(|s| s.get(path)).await?;
        Ok(node.and_then(|(data, stat)| decode(&data, stat).found()))
    }

    /// The same, with a watch on the node.
    pub(super) async fn look_and_watch<T>(
        &self,
        path: &str,
        decode: impl FnOnce(&[u8], Stat) -> Read<T>,
    ) -> Result<Option<T>, End> {
        let node = self.read(|s| s.get_and_watch(path)).await?;
        Ok(node.and_then(|(data, stat)| decode(&data, stat).found()))
    }

    /// A node's children, by name; none if it is missing. The list is watched.
    pub(super) async fn children(&self, path: &str) -> Result<Vec<String>, End> {
        let names = self.read(|s| s.children_and_watch(path)).await?;
        Ok(names.unwrap_or_default())
    }

    /// One write of a term, under the fence if its release knows it. The version of what was set, 0 otherwise.
    pub(super) async fn write(&self, term: Term, op: Op) -> Result<Result<i32, ZkError>, End> {
        let fence = Op::check(paths::CONTROLLER_EPOCH, term.epoch_zk_version);
        let is_fenced = self.release >= FENCED;
        let ops = match is_fenced {
            true => vec![fence, op],
            false => vec![op],
        };
        let mut moved = false;
        let done = self.ask(|session| {
            let done = session.multi(&ops);
            done.map_err(|failed| {
                moved = is_fenced && failed.index == 0;
                failed.error
            })
        });
        let done = done.await?;
        match done {
            Err(_) if moved => Err(End::Moved),
            Err(error) => Ok(Err(error)),
            Ok(results) => Ok(Ok(match results.last() {
                Some(OpResult::Set(stat)) => stat.version,
                _ => 0,
            })),
        }
    }
}
