//! How far the deletions of topics have come, and why those that wait do so.
//!
//! Kept apart from the topics: one may be queued before its topic is known. A deletion that waits has a reason, always:
//! there is no way to mark one without. Upstream: `topicsToBeDeleted`, `topicsWithDeletionStarted` and
//! `topicsIneligibleForDeletion` in `ControllerContext.scala`, which keep no reasons.

use std::collections::{BTreeMap, BTreeSet};

use super::gauges::TopicStanding;
use crate::model::{BrokerId, KafkaError, TopicName};

/// Why the deletion of a topic waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// A replica's broker is not registered, or is shutting down.
    #[error(
        "broker {0} hosts a replica and is down or shutting down; it goes on when the broker is back"
    )]
    BrokerDown(BrokerId),
    /// A replica is on a log directory that failed.
    #[error(
        "a log directory of broker {0} failed and holds a replica; repair it and restart the broker"
    )]
    LogDirFailed(BrokerId),
    /// A partition moves.
    #[error(
        "a partition is being reassigned; it goes on when the reassignment is done or cancelled"
    )]
    Reassigning,
    /// A broker would not delete a replica.
    #[error(
        "broker {broker} answered StopReplica with {error}; see its log. It is asked again with the next sweep"
    )]
    StopReplicaRefused {
        /// Who.
        broker: BrokerId,
        /// What it said.
        error: KafkaError,
    },
    /// A state could not be written, or the topic's nodes could not be removed.
    #[error("ZooKeeper: {0}. It is tried again with the next sweep")]
    ZooKeeperRefused(String),
}

impl Ineligible {
    /// The reasons as labels of a metric, in the order of [`Ineligible::position`].
    pub const LABELS: [&'static str; 5] = [
        "broker_down",
        "log_dir_failed",
        "reassigning",
        "stop_replica_refused",
        "zookeeper_refused",
    ];

    /// The reason's place in [`Ineligible::LABELS`].
    pub fn position(&self) -> usize {
        match self {
            Self::BrokerDown(_) => 0,
            Self::LogDirFailed(_) => 1,
            Self::Reassigning => 2,
            Self::StopReplicaRefused { .. } => 3,
            Self::ZooKeeperRefused(_) => 4,
        }
    }

    /// Whether nothing in the cluster will say that it is over: it stays until the deletion is tried again.
    pub fn is_a_refusal(&self) -> bool {
        match self {
            Self::StopReplicaRefused { .. } | Self::ZooKeeperRefused(_) => true,
            Self::BrokerDown(_) | Self::LogDirFailed(_) | Self::Reassigning => false,
        }
    }
}

/// The topics queued for deletion.
#[derive(Debug, Default)]
pub(super) struct Deletion {
    pub(super) queued: BTreeSet<TopicName>,
    pub(super) begun: BTreeSet<TopicName>,
    ineligible: BTreeMap<TopicName, Ineligible>,
    /// How many wait for each reason.
    waiting: [u64; Ineligible::LABELS.len()],
}

impl Deletion {
    pub(super) fn standing(&self, topic: &TopicName) -> TopicStanding {
        if self.queued.is_empty() && self.begun.is_empty() {
            TopicStanding::Kept
        } else if self.begun.contains(topic) {
            TopicStanding::DeletionBegun
        } else if self.queued.contains(topic) {
            TopicStanding::Queued
        } else {
            TopicStanding::Kept
        }
    }

    /// Sets or clears why a topic waits; whether that is news.
    pub(super) fn set_ineligible(&mut self, topic: &TopicName, why: Option<Ineligible>) -> bool {
        if self.ineligible.get(topic) == why.as_ref() {
            return false;
        }
        if let Some(before) = self.ineligible.remove(topic) {
            self.waiting[before.position()] -= 1;
        }
        if let Some(why) = why {
            self.waiting[why.position()] += 1;
            self.ineligible.insert(topic.clone(), why);
        }
        true
    }

    pub(super) fn ineligible(&self) -> &BTreeMap<TopicName, Ineligible> {
        &self.ineligible
    }

    pub(super) fn waiting(&self) -> [u64; Ineligible::LABELS.len()] {
        self.waiting
    }

    pub(super) fn forget(&mut self, topic: &TopicName) {
        self.queued.remove(topic);
        self.begun.remove(topic);
        self.set_ineligible(topic, None);
    }
}
