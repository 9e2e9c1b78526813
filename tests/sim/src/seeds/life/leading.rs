//! What a leader knows of its followers, and which in-sync set it wishes for.
//!
//! Must never write or ask anything: it says what the leader wants and how far its records are committed. Upstream:
//! `Partition.scala`, `Replica.scala`.

use std::collections::{BTreeMap, BTreeSet};

use klamm::model::{BrokerId, BrokerIds, LeaderEpoch, PartitionEpoch};

use crate::broker::LocalReplica;

/// One partition that a broker leads, under one order to lead it.
#[derive(Debug, Clone)]
pub(super) struct Leading {
    /// Its own end when it began: who has not reached it has not proven to share its log.
    epoch_start: usize,
    followers: BTreeMap<BrokerId, Progress>,
    /// What it wishes for, and how far that has come.
    pub(super) change: IsrChange,
}

/// What a leader knows of a follower.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Where it fetched from last; `None`: not yet under this leader.
    end: Option<usize>,
    /// When it last had all that there was; `None`: never.
    caught_up_at_ms: Option<u64>,
    /// The leader's end and the time at its last fetch.
    last_fetch: (usize, u64),
}

/// A change of the in-sync set, by one leader under one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) difference: Difference,
    /// The set as it was.
    before: BrokerIds,
    /// The set that is wanted.
    pub(super) isr: BrokerIds,
    pub(super) leader_epoch: LeaderEpoch,
    /// The version of the state that it would replace.
    pub(super) partition_epoch: PartitionEpoch,
}

/// Who comes or goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    Joins(BrokerId),
    Leave(BTreeSet<BrokerId>),
}

/// How far a wish has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IsrChange {
    /// There is none: the set is what the state says.
    Committed,
    /// It was asked for or refused for good: it stays until an answer or another order to lead.
    Pending(Wish),
    /// It was written to ZooKeeper, and the connection was lost before the answer.
    Unsure(Wish),
}

impl IsrChange {
    pub(super) fn wish(&self) -> Option<&Wish> {
        match self {
            IsrChange::Committed => None,
            IsrChange::Pending(wish) | IsrChange::Unsure(wish) => Some(wish),
        }
    }
}

impl Wish {
    /// Whether two wishes are one in the eyes of releases that compare nothing but the sets (2.7 to 3.0).
    pub(super) fn is_alike(&self, other: &Wish) -> bool {
        self.difference == other.difference && self.before == other.before
    }
}

impl Leading {
    /// Begins to lead: members of the in-sync set count as caught up now, and of nobody is it known where he is.
    pub(super) fn begin(replica: &LocalReplica, end: usize, now_ms: u64) -> Leading {
        let followers = replica.replicas.iter().filter(|id| *id != replica.leader);
        let progress = |id| Progress {
            end: None,
            caught_up_at_ms: replica.isr.contains(id).then_some(now_ms),
            last_fetch: (end, now_ms),
        };
        Leading {
            epoch_start: end,
            followers: followers.map(|id| (id, progress(id))).collect(),
            change: IsrChange::Committed,
        }
    }

    /// A follower fetches from an offset while the leader ends there.
    pub(super) fn fetched(&mut self, by: BrokerId, from: usize, leader_end: usize, now_ms: u64) {
        let Some(progress) = self.followers.get_mut(&by) else {
            return;
        };
        let (end_then, then_ms) = progress.last_fetch;
        if from >= leader_end {
            progress.caught_up_at_ms = progress.caught_up_at_ms.max(Some(now_ms));
        } else if from >= end_then {
            progress.caught_up_at_ms = progress.caught_up_at_ms.max(Some(then_ms));
        }
        progress.end = Some(from);
        progress.last_fetch = (leader_end, now_ms);
    }

    /// Whether a follower has all that is committed and all that the leader began with, and no other change is under way.
    /// Releases before 1.1 don't ask for the latter, and lose records by it (KAFKA-6361); here they do.
    pub(super) fn may_join(
        &self,
        replica: &LocalReplica,
        id: BrokerId,
        high_watermark: usize,
    ) -> bool {
        let end = self.followers.get(&id).and_then(|follower| follower.end);
        self.change == IsrChange::Committed
            && !replica.isr.contains(id)
            && end.is_some_and(|end| end >= high_watermark && end >= self.epoch_start)
    }

    /// The members that have lagged for too long; none while another change is under way.
    pub(super) fn lagging(
        &self,
        replica: &LocalReplica,
        end: usize,
        now_ms: u64,
        lag_ms_max: u64,
    ) -> BTreeSet<BrokerId> {
        if self.change != IsrChange::Committed {
            return BTreeSet::new();
        }
        let lags = |id: &BrokerId| {
            let Some(follower) = self.followers.get(id) else {
                return true;
            };
            follower.end != Some(end) && !follower.is_caught_up(now_ms, lag_ms_max)
        };
        let members = replica.isr.iter().filter(|id| *id != replica.leader);
        members.filter(lags).collect()
    }

    /// How far all have come that are in sync, or may be by a change under way, or are close behind (`counts` says of whom
    /// that matters). `None`: of one of them nothing is known.
    pub(super) fn committable(
        &self,
        replica: &LocalReplica,
        end: usize,
        now_ms: u64,
        lag_ms_max: u64,
        counts: impl Fn(BrokerId) -> bool,
    ) -> Option<usize> {
        let joins = |id| match self.change.wish().map(|wish| &wish.difference) {
            Some(Difference::Joins(joining)) => *joining == id,
            Some(Difference::Leave(_)) | None => false,
        };
        let must_have = self.followers.iter().filter(|(id, follower)| {
            replica.isr.contains(**id)
                || joins(**id)
                || (follower.is_caught_up(now_ms, lag_ms_max) && counts(**id))
        });
        must_have
            .map(|(_, follower)| follower.end)
            .fold(Some(end), Option::min)
    }

    /// Begins a change.
    pub(super) fn begin_change(&mut self, replica: &LocalReplica, difference: Difference) -> Wish {
        let isr = match &difference {
            Difference::Joins(id) => replica.isr.iter().chain([*id]).collect(),
            Difference::Leave(ids) => replica.isr.iter().filter(|id| !ids.contains(id)).collect(),
        };
        let wish = Wish {
            difference,
            before: replica.isr.clone(),
            isr,
            leader_epoch: replica.leader_epoch,
            partition_epoch: replica.partition_epoch,
        };
        self.change = IsrChange::Pending(wish.clone());
        wish
    }
}

impl Progress {
    fn is_caught_up(&self, now_ms: u64, lag_ms_max: u64) -> bool {
        self.caught_up_at_ms
            .is_some_and(|at_ms| now_ms.saturating_sub(at_ms) <= lag_ms_max)
    }
}
