//! Why reassignments of partitions are not done yet, as far as the context has to remember it.
//!
//! Which partitions move stands in their assignments alone (and in an index of them). Must never decide anything
//! (`machine::reassignment` does). Upstream: `partitionsBeingReassigned` in `ControllerContext.scala`, which knows no
//! reasons.

use std::collections::BTreeMap;

use crate::model::{BrokerId, BrokerIds, TopicPartition};

/// What the reassignment of a partition waits for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Waiting {
    /// The normal case: replicas copy the log.
    #[error("the replicas {0} are not in sync yet")]
    CatchingUp(BrokerIds),
    /// A target replica can't get in sync, because its broker is not registered or is shutting down.
    #[error(
        "broker {0} of the target is down or shutting down; it goes on when the broker is back. Start the broker, cancel, or reassign to others"
    )]
    BrokerDown(BrokerId),
    /// A target replica can't get in sync, because it is on a log directory that failed.
    #[error(
        "a log directory of broker {0} of the target failed; repair it and restart the broker, cancel, or reassign to others"
    )]
    LogDirFailed(BrokerId),
    /// Nobody can copy from a partition that isn't led.
    #[error(
        "the partition has no leader to copy from; it goes on when one of its in-sync replicas {0} is back"
    )]
    NoLeader(BrokerIds),
    /// It is to be given up, and nobody else could lead.
    #[error(
        "it is cancelled or replaced, but none of the replicas {0} that would be left is online and in sync; the others are kept meanwhile, so that the partition stays led"
    )]
    NobodyLeft(BrokerIds),
    /// Something could not be written.
    #[error("ZooKeeper: {0}. It is tried again with the next sweep")]
    ZooKeeperRefused(String),
}

impl Waiting {
    /// The reasons as labels of a metric, in the order of [`Waiting::position`].
    pub const LABELS: [&'static str; 6] = [
        "catching_up",
        "broker_down",
        "log_dir_failed",
        "no_leader",
        "nobody_left",
        "zookeeper_refused",
    ];

    /// The reason's place in [`Waiting::LABELS`].
    pub fn position(&self) -> usize {
        match self {
            Self::CatchingUp(_) => 0,
            Self::BrokerDown(_) => 1,
            Self::LogDirFailed(_) => 2,
            Self::NoLeader(_) => 3,
            Self::NobodyLeft(_) => 4,
            Self::ZooKeeperRefused(_) => 5,
        }
    }

    /// Whether an operator should hear of it: time alone doesn't end it.
    pub fn is_worth_a_word(&self) -> bool {
        !matches!(self, Self::CatchingUp(_))
    }
}

/// The reasons, and how many wait for each.
#[derive(Debug, Default)]
pub(super) struct Reassignments {
    waiting: BTreeMap<TopicPartition, Waiting>,
    counts: [u64; Waiting::LABELS.len()],
}

impl Reassignments {
    /// Sets or clears why a partition waits; whether that is news.
    pub(super) fn set(&mut self, at: &TopicPartition, why: Option<Waiting>) -> bool {
        if self.waiting.get(at) == why.as_ref() {
            return false;
        }
        if let Some(before) = self.waiting.remove(at) {
            self.counts[before.position()] -= 1;
        }
        if let Some(why) = why {
            self.counts[why.position()] += 1;
            self.waiting.insert(at.clone(), why);
        }
        true
    }

    pub(super) fn waiting(&self) -> &BTreeMap<TopicPartition, Waiting> {
        &self.waiting
    }

    pub(super) fn counts(&self) -> [u64; Waiting::LABELS.len()] {
        self.counts
    }
}
