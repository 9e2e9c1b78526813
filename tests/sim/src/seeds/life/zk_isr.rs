//! How leaders below IBP 2.7 change an in-sync set: they write the state themselves, and tell the controller later.
//!
//! Must never write under a version that the leader wasn't told. Upstream: `ReplicationUtils.scala`,
//! `KafkaZkClient.conditionalUpdatePath`, `ZkIsrManager.scala` (`ReplicaManager.maybePropagateIsrChanges` up to 2.7).

use std::collections::BTreeSet;

use klamm::effect::Read;
use klamm::model::{
    BrokerId, ControllerEpoch, LeaderAndIsr, LeaderRecoveryState, PartitionEpoch, TopicPartition,
};
use klamm::zk::{paths, znode};

use super::leading::Wish;
use crate::zookeeper::{CreateMode, ZkError, ZkSession};

const NOTICE_CHECK_MS: u64 = 2_500;
const NOTICE_LINGER_MS: u64 = 5_000;
const NOTICE_DELAY_MS_MAX: u64 = 60_000;

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateWrite {
    /// It is there, under this version.
    Written(PartitionEpoch),
    /// The leader's version is none that ZooKeeper has.
    Stale,
    /// The connection was lost: nobody knows.
    Unsure,
    /// There is no session, so nothing was written.
    NoSession,
}

/// Writes an in-sync set under the version that the leader knows. A write that finds itself done already is done.
pub(super) fn write_state(
    session: &ZkSession,
    partition: &TopicPartition,
    leader: BrokerId,
    controller_epoch: ControllerEpoch,
    wish: &Wish,
) -> StateWrite {
    let path = paths::state(partition);
    let state = LeaderAndIsr {
        leader,
        leader_epoch: wish.leader_epoch,
        isr: wish.isr.clone(),
        leader_recovery_state: LeaderRecoveryState::Recovered,
    };
    let data = znode::encode_state(&state, controller_epoch);
    match session.set(&path, &data, Some(wish.partition_epoch.0)) {
        Ok(stat) => StateWrite::Written(PartitionEpoch(stat.version)),
        Err(ZkError::ConnectionLoss) => StateWrite::Unsure,
        Err(ZkError::SessionExpired) => StateWrite::NoSession,
        Err(ZkError::BadVersion) => found_done(session, &path, &state, controller_epoch),
        Err(_) => StateWrite::Stale,
    }
}

/// An earlier attempt whose answer was lost looks like a conflict.
fn found_done(
    session: &ZkSession,
    path: &str,
    state: &LeaderAndIsr,
    controller_epoch: ControllerEpoch,
) -> StateWrite {
    let (data, stat) = match session.get(path) {
        Ok(found) => found,
        Err(ZkError::ConnectionLoss) => return StateWrite::Unsure,
        Err(_) => return StateWrite::Stale,
    };
    match znode::decode_state(path, &data, stat.version) {
        Read::Found(held)
            if held.leader_and_isr == *state && held.controller_epoch == controller_epoch =>
        {
            StateWrite::Written(held.partition_epoch)
        }
        _ => StateWrite::Stale,
    }
}

/// The partitions that the controller has yet to hear of.
#[derive(Debug)]
pub(super) struct Notices {
    changed: BTreeSet<TopicPartition>,
    last_change_ms: u64,
    last_notice_ms: u64,
    check_at_ms: u64,
}

impl Notices {
    pub(super) fn new(now_ms: u64) -> Notices {
        Notices {
            changed: BTreeSet::new(),
            last_change_ms: now_ms,
            last_notice_ms: now_ms,
            check_at_ms: now_ms,
        }
    }

    pub(super) fn add(&mut self, partition: &TopicPartition, now_ms: u64) {
        self.changed.insert(partition.clone());
        self.last_change_ms = now_ms;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Whether it is time: no change for a while, or no notice for a long while. Looked at once in 2.5 s.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        if now_ms < self.check_at_ms {
            return false;
        }
        self.check_at_ms = now_ms + NOTICE_CHECK_MS;
        !self.changed.is_empty()
            && (self.last_change_ms + NOTICE_LINGER_MS < now_ms
                || self.last_notice_ms + NOTICE_DELAY_MS_MAX < now_ms)
    }

    /// Leaves a notice of all changes; one that can't be left is left at the next look.
    pub(super) fn leave(&mut self, session: &ZkSession, now_ms: u64) {
        let changed: Vec<TopicPartition> = self.changed.iter().cloned().collect();
        let parent = format!("{}/isr_change_", paths::ISR_CHANGE_NOTIFICATION);
        let notice = znode::encode_isr_change(&changed);
        if session
            .create(&parent, &notice, CreateMode::PersistentSequential)
            .is_ok()
        {
            self.changed.clear();
            self.last_notice_ms = now_ms;
        }
    }
}
