//! The counts that dashboards show. Upstream: the gauges in `KafkaController.scala` and the counters in
//! `ControllerContext.scala`.
//!
//! Must never be counted by walking all partitions on an event: the context takes out what a partition contributed
//! before a change and puts in what it contributes after it, in the same call. `check` compares with a recount.

use std::collections::BTreeSet;

use super::deletion::Ineligible;
use super::reassignment::Waiting;
use super::topic::{Partition, PartitionState, ReplicaState};
use crate::effect::Committed;
use crate::model::{BrokerId, LeaderAndIsr, ReplicaAssignment};

/// Counts kept by the context as it changes; all zero while not the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Partitions in the state Offline, of topics whose deletion hasn't begun.
    pub offline_partitions: u64,
    /// Partitions led by another than the preferred replica, of topics that are not queued for deletion. While a
    /// reassignment adds the preferred replica, what counts is whether it is in sync yet.
    pub preferred_replica_imbalance: u64,
    /// Topics.
    pub topics: u64,
    /// Partitions that have a leadership, as upstream counts them.
    pub partitions: u64,
    /// Genuine brokers that are registered, those shutting down included.
    pub active_brokers: u64,
    /// Topics queued for deletion.
    pub topics_to_delete: u64,
    /// Replicas of topics queued for deletion that aren't deleted yet.
    pub replicas_to_delete: u64,
    /// Topics whose deletion waits.
    pub topics_ineligible_to_delete: u64,
    /// The same by reason, in the order of [`Ineligible::LABELS`].
    pub deletions_waiting: [u64; Ineligible::LABELS.len()],
    /// Replicas whose deletion waits.
    pub replicas_ineligible_to_delete: u64,
    /// Partitions whose assignment names a klamm although they have a state.
    pub assignments_naming_klamm: u64,
    /// Replicas on log directories that their brokers reported as failed.
    pub replicas_on_failed_log_dirs: u64,
    /// Partitions that are being reassigned.
    pub partitions_being_reassigned: u64,
    /// The same by what they wait for, in the order of [`Waiting::LABELS`].
    pub reassignments_waiting: [u64; Waiting::LABELS.len()],
    /// Unclean leader elections since the process started.
    pub unclean_leader_elections: u64,
}

/// How far the deletion of a topic has come, as far as the counts heed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicStanding {
    /// It stays.
    Kept,
    /// Queued for deletion: it leaves the count of imbalance.
    Queued,
    /// Its deletion has begun: it leaves the count of offline partitions too.
    DeletionBegun,
}

/// What partitions contribute to the gauges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) offline_partitions: u64,
    pub(super) preferred_replica_imbalance: u64,
    pub(super) partitions: u64,
    pub(super) replicas_to_delete: u64,
    pub(super) replicas_ineligible_to_delete: u64,
    pub(super) assignments_naming_klamm: u64,
}

impl Tally {
    /// What one partition contributes.
    pub(super) fn of(
        partition: &Partition,
        standing: TopicStanding,
        klamm_ids: &BTreeSet<BrokerId>,
    ) -> Tally {
        let mut tally = Tally::default();
        if partition.state == PartitionState::Offline && standing != TopicStanding::DeletionBegun {
            tally.offline_partitions = 1;
        }
        let replicas = &partition.assignment.replicas;
        if let Some(leadership) = &partition.leadership {
            tally.partitions = 1;
            if standing == TopicStanding::Kept
                && !has_preferred_leader(&partition.assignment, leadership)
            {
                tally.preferred_replica_imbalance = 1;
            }
            if !klamm_ids.is_empty() && replicas.iter().any(|id| klamm_ids.contains(&id)) {
                tally.assignments_naming_klamm = 1;
            }
        }
        if standing != TopicStanding::Kept {
            for id in replicas.iter() {
                let state = partition.replica_state(id);
                tally.replicas_to_delete += u64::from(state != ReplicaState::DeletionSuccessful);
                tally.replicas_ineligible_to_delete +=
                    u64::from(state == ReplicaState::DeletionIneligible);
            }
        }
        tally
    }

    /// Puts a contribution in.
    pub(super) fn add(&mut self, other: Tally) {
        self.combine(other, u64::saturating_add);
    }

    /// Takes a contribution out.
    pub(super) fn subtract(&mut self, other: Tally) {
        self.combine(other, u64::saturating_sub);
    }

    fn combine(&mut self, other: Tally, with: impl Fn(u64, u64) -> u64) {
        self.offline_partitions = with(self.offline_partitions, other.offline_partitions);
        self.preferred_replica_imbalance = with(
            self.preferred_replica_imbalance,
            other.preferred_replica_imbalance,
        );
        self.partitions = with(self.partitions, other.partitions);
        self.replicas_to_delete = with(self.replicas_to_delete, other.replicas_to_delete);
        self.replicas_ineligible_to_delete = with(
            self.replicas_ineligible_to_delete,
            other.replicas_ineligible_to_delete,
        );
        self.assignments_naming_klamm = with(
            self.assignments_naming_klamm,
            other.assignments_naming_klamm,
        );
    }
}

/// Whether the leader is the one that the assignment prefers. A partition that lost all replicas (it is being deleted)
/// has nobody to prefer.
fn has_preferred_leader(
    assignment: &ReplicaAssignment,
    leadership: &Committed<LeaderAndIsr>,
) -> bool {
    match assignment.replicas.first() {
        None => true,
        Some(preferred) if assignment.adding.contains(preferred) => {
            !leadership.isr.contains(preferred)
        }
        Some(preferred) => leadership.leader == preferred,
    }
}
