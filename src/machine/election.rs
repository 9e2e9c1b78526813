//! Elections: who leads a partition next, decided on lists and one question, "is this replica online?".
//!
//! Pure functions of what they are given: no context, no ZooKeeper, no counting. Whoever calls them writes the result
//! and says why. Must never choose a replica that isn't in the in-sync set but by an unclean election.
//! Upstream: `Election.scala` and `PartitionLeaderElectionAlgorithms` in `PartitionStateMachine.scala`.

use std::collections::BTreeSet;

use crate::model::{BrokerId, BrokerIds};
use crate::planted::planted;

/// Whether an unclean election may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncleanRule {
    /// The topic's configuration decides; this where it says nothing.
    ByConfig {
        /// The cluster's default.
        default: bool,
    },
    /// Asked for by an operator, whatever the configuration says.
    Always,
}

/// How to find a leader. Upstream: `PartitionLeaderElectionStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionStrategy {
    /// The leader is gone.
    OfflinePartition(UncleanRule),
    /// A reassignment needs a leader among its target.
    Reassign,
    /// The preferred replica.
    PreferredReplica,
    /// The leader is leaving.
    ControlledShutdown,
}

/// Whether a replica that isn't in sync may be chosen, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncleanElection {
    /// It may: records that only the lost replicas had are given up.
    Allowed,
    /// It may not.
    Forbidden,
}

/// Whom an election chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elected {
    /// The new leader.
    pub leader: BrokerId,
    /// The in-sync set to write with it.
    pub isr: BrokerIds,
    /// Who hears of it by LeaderAndIsr.
    pub recipients: Vec<BrokerId>,
    /// Whether the leader was in sync.
    pub cleanness: Cleanness,
}

/// Whether an elected leader was in the in-sync set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleanness {
    /// It was.
    Clean,
    /// It was not: records may be lost.
    Unclean,
}

/// Why an election chose nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// No assigned replica is online.
    NoReplicaOnline,
    /// No in-sync replica is online, and an unclean election is forbidden.
    NoInSyncReplicaOnline,
    /// The only in-sync replicas that are online aren't assigned.
    InSyncReplicasNotAssigned,
    /// No replica of the reassignment's target is online and in sync.
    NoTargetReplicaInSync,
    /// The preferred replica isn't online or isn't in sync.
    PreferredReplicaNotInSync,
    /// Every in-sync replica that is online is shutting down.
    AllInSyncReplicasShuttingDown,
}

/// Those of an in-sync set who may be taken for in sync: klamms are left out.
///
/// A Java controller takes a klamm's node for a broker while it is registered, and may have put it into the first in-sync
/// set of a partition, even alone. A leader commits nothing before all of the set have fetched it, and a klamm never
/// fetches: where nobody else is left in the set, nothing was ever committed, or an unclean election that was allowed has
/// given it up, and any assigned replica is as good. A set that nobody is in, as Java controllers of 1.0 could leave behind,
/// says nothing of the kind: records may have been committed.
pub fn in_sync(isr: &BrokerIds, assignment: &BrokerIds, klamms: &BTreeSet<BrokerId>) -> BrokerIds {
    let genuine = |ids: &BrokerIds| retained(ids, |id| !klamms.contains(&id));
    match genuine(isr) {
        nobody if nobody.is_empty() && !isr.is_empty() => genuine(assignment),
        members => members,
    }
}

/// Elects a leader for a partition whose leader is gone: the first assigned replica that is online and in sync, with
/// the in-sync set cut down to who is online; else, where allowed, the first assigned replica that is online, alone.
///
/// Where some in-sync replica is online, the unclean rule isn't asked, even if that replica isn't assigned and so can't
/// be chosen: the records are there, somebody has to assign it.
pub fn offline_partition(
    assignment: &BrokerIds,
    isr: &BrokerIds,
    unclean: UncleanElection,
    is_online: impl Fn(BrokerId) -> bool,
) -> Result<Elected, Undecided> {
    let online: Vec<BrokerId> = assignment.iter().filter(|id| is_online(*id)).collect();
    let is_fit = |id: &BrokerId| isr.contains(*id) || planted!(ElectOutOfSync);
    if let Some(leader) = online.iter().copied().find(is_fit) {
        return Ok(Elected {
            leader,
            isr: retained(isr, is_online),
            recipients: online,
            cleanness: Cleanness::Clean,
        });
    }
    if isr.iter().any(&is_online) {
        return Err(Undecided::InSyncReplicasNotAssigned);
    }
    match (online.first().copied(), unclean) {
        (None, _) => Err(Undecided::NoReplicaOnline),
        (Some(_), UncleanElection::Forbidden) if !planted!(UncleanThoughForbidden) => {
            Err(Undecided::NoInSyncReplicaOnline)
        }
        (Some(leader), _) => Ok(Elected {
            leader,
            isr: BrokerIds::from([leader.0]),
            recipients: online,
            cleanness: Cleanness::Unclean,
        }),
    }
}

/// Elects a leader among the target of a reassignment: the first that is online and in sync. The in-sync set stays.
pub fn reassign(
    target: &BrokerIds,
    isr: &BrokerIds,
    is_online: impl Fn(BrokerId) -> bool,
) -> Result<Elected, Undecided> {
    let leader = target
        .iter()
        .find(|id| is_online(*id) && isr.contains(*id))
        .ok_or(Undecided::NoTargetReplicaInSync)?;
    Ok(Elected {
        leader,
        isr: isr.clone(),
        recipients: target.iter().collect(),
        cleanness: Cleanness::Clean,
    })
}

/// Elects the preferred replica, if it is online and in sync; nobody else will do. The in-sync set stays. A preferred
/// replica that leads already is elected again: callers choose whom they ask about.
pub fn preferred_replica(
    assignment: &BrokerIds,
    isr: &BrokerIds,
    is_online: impl Fn(BrokerId) -> bool,
) -> Result<Elected, Undecided> {
    let leader = assignment
        .first()
        .filter(|id| is_online(*id) && isr.contains(*id))
        .ok_or(Undecided::PreferredReplicaNotInSync)?;
    Ok(Elected {
        leader,
        isr: isr.clone(),
        recipients: assignment.iter().collect(),
        cleanness: Cleanness::Clean,
    })
}

/// Elects a leader in place of one that is leaving: the first assigned replica that is online, in sync and not leaving
/// itself. All that are leaving go from the in-sync set. The leaving brokers hear of it too: they have to stop leading
/// (KAFKA-7482).
///
/// `is_online_or_leaving` is true for replicas on registered brokers, shutting down or not, and healthy directories.
pub fn controlled_shutdown(
    assignment: &BrokerIds,
    isr: &BrokerIds,
    shutting_down: &BTreeSet<BrokerId>,
    is_online_or_leaving: impl Fn(BrokerId) -> bool,
) -> Result<Elected, Undecided> {
    let recipients: Vec<BrokerId> = assignment
        .iter()
        .filter(|id| is_online_or_leaving(*id))
        .collect();
    let leader = recipients
        .iter()
        .copied()
        .find(|id| isr.contains(*id) && !shutting_down.contains(id))
        .ok_or(Undecided::AllInSyncReplicasShuttingDown)?;
    Ok(Elected {
        leader,
        isr: retained(isr, |id| !shutting_down.contains(&id)),
        recipients,
        cleanness: Cleanness::Clean,
    })
}

/// Those of `ids` to keep, in order; the same list, shared, where all are.
pub(super) fn retained(ids: &BrokerIds, keep: impl Fn(BrokerId) -> bool) -> BrokerIds {
    if ids.iter().all(&keep) {
        ids.clone()
    } else {
        ids.iter().filter(|id| keep(*id)).collect()
    }
}

#[cfg(test)]
mod tests;
