//! Where a partition's replicas are, and where they are moving.
//!
//! Must never decide a move. Upstream: `ReplicaAssignment` in `ControllerContext.scala` (KIP-455).

use std::collections::BTreeSet;

use super::BrokerIds;

/// The assigned replicas of a partition, with those being added and removed by a reassignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaAssignment {
    /// All replicas; the first is the preferred one. During a move: the target first, then those to be removed.
    pub replicas: BrokerIds,
    /// Those that a reassignment is adding.
    pub adding: BrokerIds,
    /// Those that a reassignment is removing.
    pub removing: BrokerIds,
}

impl ReplicaAssignment {
    /// An assignment that isn't moving.
    pub fn settled(replicas: BrokerIds) -> ReplicaAssignment {
        ReplicaAssignment {
            replicas,
            adding: BrokerIds::empty(),
            removing: BrokerIds::empty(),
        }
    }

    /// No replicas at all.
    pub fn none() -> ReplicaAssignment {
        ReplicaAssignment::settled(BrokerIds::empty())
    }

    /// Whether a reassignment is running.
    pub fn is_being_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas as they were before the reassignment, as far as they are known.
    pub fn origin(&self) -> BrokerIds {
        self.replicas.beyond(&self.adding)
    }

    /// The replicas as they will be.
    pub fn target(&self) -> BrokerIds {
        self.replicas.beyond(&self.removing)
    }

    /// Replicas that a former target added and that are to go again. They stand among those being added, so that they
    /// don't pass for original ones, and among those being removed.
    pub fn dropping(&self) -> BrokerIds {
        self.adding.among(&self.removing)
    }

    /// Whether nothing is left to do but to drop replicas: the reassignment was cancelled.
    pub fn is_being_cancelled(&self) -> bool {
        let only_drops = |ids: &BrokerIds, others: &BrokerIds| ids.beyond(others).is_empty();
        self.is_being_reassigned()
            && only_drops(&self.adding, &self.removing)
            && only_drops(&self.removing, &self.adding)
    }

    /// As [`Self::reassign_to`], but nobody leaves: what a former target added and this one doesn't want is dropped
    /// later, once somebody else leads and its broker can be told.
    pub fn redirect_to(&self, target: &BrokerIds) -> ReplicaAssignment {
        let next = self.reassign_to(target);
        let dropped = self.replicas.beyond(&next.replicas);
        if dropped.is_empty() {
            return next;
        }
        let and_dropped = |ids: &BrokerIds| ids.iter().chain(dropped.iter()).collect();
        ReplicaAssignment {
            replicas: and_dropped(&next.replicas),
            adding: and_dropped(&next.adding),
            removing: and_dropped(&next.removing),
        }
    }

    /// This assignment without the replicas that are to be dropped.
    pub fn after_drop(&self) -> ReplicaAssignment {
        let dropping = self.dropping();
        let rest = |ids: &BrokerIds| ids.beyond(&dropping);
        ReplicaAssignment {
            replicas: rest(&self.replicas),
            adding: rest(&self.adding),
            removing: rest(&self.removing),
        }
    }

    /// The same with what can't be so left out: what is added or removed without being a replica, and removals that
    /// would leave nobody.
    pub fn made_sound(&self) -> ReplicaAssignment {
        let assigned = |ids: &BrokerIds| ids.among(&self.replicas);
        let sound = ReplicaAssignment {
            replicas: self.replicas.clone(),
            adding: assigned(&self.adding),
            removing: assigned(&self.removing),
        };
        if sound.target().is_empty() {
            return ReplicaAssignment::settled(sound.replicas);
        }
        sound
    }

    /// The assignment that moves this one to `target`; its origin stays what it was (KIP-455).
    pub fn reassign_to(&self, target: &BrokerIds) -> ReplicaAssignment {
        let origin = self.origin();
        let mut seen = BTreeSet::new();
        let all = target.iter().chain(origin.iter());
        let replicas: BrokerIds = all.filter(|id| seen.insert(*id)).collect();
        ReplicaAssignment {
            adding: replicas.beyond(&origin),
            removing: replicas.beyond(target),
            replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BrokerId;

    fn assignment(replicas: &[i32], adding: &[i32], removing: &[i32]) -> ReplicaAssignment {
        ReplicaAssignment {
            replicas: BrokerIds::from(replicas),
            adding: BrokerIds::from(adding),
            removing: BrokerIds::from(removing),
        }
    }

    fn settled(replicas: &[i32]) -> ReplicaAssignment {
        ReplicaAssignment::settled(BrokerIds::from(replicas))
    }

    #[test]
    fn a_reassignment_puts_the_target_first_and_keeps_the_origin() {
        type Row = (
            &'static [i32],
            &'static [i32],
            &'static [i32],
            &'static [i32],
            &'static [i32],
        );
        let table: [Row; 3] = [
            (&[1, 2, 3, 4], &[4, 2, 5, 3], &[4, 2, 5, 3, 1], &[5], &[1]),
            (
                &[1, 2, 3],
                &[4, 5, 6],
                &[4, 5, 6, 1, 2, 3],
                &[4, 5, 6],
                &[1, 2, 3],
            ),
            (&[1, 2, 3], &[3, 1, 2], &[3, 1, 2], &[], &[]),
        ];
        for (before, target, replicas, adding, removing) in table {
            let moved = settled(before).reassign_to(&BrokerIds::from(target));
            assert_eq!(moved, assignment(replicas, adding, removing));
            assert_eq!(moved.target(), BrokerIds::from(target));
            let same = moved.reassign_to(&BrokerIds::from(target));
            assert_eq!(same, moved, "the same target again changes nothing");
        }
        let first = settled(&[1, 2, 3]).reassign_to(&BrokerIds::from([4, 5, 6]));
        let from_scratch = settled(&[1, 2, 3]).reassign_to(&BrokerIds::from([7, 8, 9]));
        assert_eq!(first.reassign_to(&BrokerIds::from([7, 8, 9])), from_scratch);
        assert_eq!(
            first.reassign_to(&BrokerIds::from([1, 2, 3])),
            settled(&[1, 2, 3])
        );
    }

    #[test]
    fn a_redirected_reassignment_keeps_what_it_drops_until_it_is_dropped() {
        let running = settled(&[1, 2]).redirect_to(&BrokerIds::from([4, 5]));
        assert_eq!(running, assignment(&[4, 5, 1, 2], &[4, 5], &[1, 2]));
        let elsewhere = running.redirect_to(&BrokerIds::from([5, 6]));
        assert_eq!(
            elsewhere,
            assignment(&[5, 6, 1, 2, 4], &[5, 6, 4], &[1, 2, 4])
        );
        assert_eq!(elsewhere.origin(), BrokerIds::from([1, 2]));
        assert_eq!(elsewhere.target(), BrokerIds::from([5, 6]));
        assert_eq!(elsewhere.dropping(), BrokerIds::from([4]));
        assert!(!elsewhere.is_being_cancelled());
        assert_eq!(
            elsewhere.after_drop(),
            assignment(&[5, 6, 1, 2], &[5, 6], &[1, 2])
        );

        let cancelled = running.redirect_to(&running.origin());
        assert_eq!(cancelled, assignment(&[1, 2, 4, 5], &[4, 5], &[4, 5]));
        assert!(cancelled.is_being_cancelled());
        assert_eq!(cancelled.redirect_to(&cancelled.origin()), cancelled);
        assert_eq!(cancelled.after_drop(), settled(&[1, 2]));
    }

    /// Each against each, this takes an hour.
    #[test]
    fn long_lists_cost_no_more_than_their_length_many_times() {
        let count = 300_000;
        let ids = |range: std::ops::Range<i32>| -> BrokerIds { range.map(BrokerId).collect() };
        let (few, target) = (ids(0..count), ids(count..2 * count));
        let moved = ReplicaAssignment::settled(few.clone()).redirect_to(&target);
        assert_eq!((moved.origin(), moved.target()), (few, target));
        let cancelled = moved.redirect_to(&moved.origin());
        assert!(cancelled.is_being_cancelled());
        assert_eq!(cancelled.made_sound(), cancelled);
        assert!(!cancelled.after_drop().is_being_reassigned());
    }

    #[test]
    fn an_assignment_that_cannot_be_is_made_sound() {
        let table = [
            (assignment(&[1, 2], &[3], &[4]), settled(&[1, 2])),
            (assignment(&[1, 2], &[2], &[1, 2]), settled(&[1, 2])),
            (
                assignment(&[1, 2], &[2, 3], &[1]),
                assignment(&[1, 2], &[2], &[1]),
            ),
        ];
        for (odd, sound) in table {
            assert_eq!(odd.made_sound(), sound, "{odd:?}");
        }
    }
}
