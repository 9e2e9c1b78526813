//! Faults that the seeded simulator must find: each is one deviation at the place where the real bug would be.
//!
//! Without the feature `planted`, which the package `klamm` doesn't have, every use of the macro is the constant `false`,
//! nothing at all, or what is right, and nothing of this file is left. `tests/sim/planted/klamm` compiles the same sources
//! with it. Must never be used outside of `machine`, `state` and `controller`, nor hold up what right code does beside it.
//! Upstream: none.

/// Whether a fault is planted, for a condition; `planted!(Fault => { … })` for what a faulty controller does besides;
/// `planted!(Fault, faulty, right)` for what it takes instead.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($fault:ident) => {
        $crate::planted::is_planted($crate::planted::Fault::$fault)
    };
    ($fault:ident => $deviation:block) => {
        if $crate::planted::is_planted($crate::planted::Fault::$fault) $deviation
    };
    ($fault:ident, $faulty:expr, $right:expr) => {
        if $crate::planted::is_planted($crate::planted::Fault::$fault) {
            $faulty
        } else {
            $right
        }
    };
}

/// No fault is ever planted here. Debug information names the place of use alone.
#[cfg(not(feature = "planted"))]
#[collapse_debuginfo(yes)]
macro_rules! planted {
    ($fault:ident) => {
        false
    };
    ($fault:ident => $deviation:block) => {};
    ($fault:ident, $faulty:expr, $right:expr) => {
        $right
    };
}

pub(crate) use planted;

#[cfg(feature = "planted")]
mod switch {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    use crate::effect::{ZkOutcome, ZkWrite};
    use crate::model::ControllerEpoch;

    /// The closed list of faults, so that none can be left out of `ALL`.
    macro_rules! faults {
        ($($(#[doc = $line:literal])+ $name:ident,)+) => {
            /// What can be planted: what is wrong, and what a user suffers by it.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Fault {
                $($(#[doc = $line])+ $name,)+
            }

            impl Fault {
                /// All of them, in the order of their names.
                pub const ALL: &'static [Fault] = &[$(Fault::$name,)+];

                /// What is wrong, and what a user suffers by it.
                pub fn about(self) -> &'static str {
                    match self {
                        $(Fault::$name => concat!($($line),+).trim_ascii(),)+
                    }
                }
            }
        };
    }

    faults! {
        /// What a deposed leader wants of its in-sync set is written over its successor's: acknowledged records get lost.
        AcceptStaleLeader,
        /// A leader's AlterPartition is answered twice: the second answer is taken for that of its next request.
        AnswerTwice,
        /// Topics that a tool grew stay as they were until the next sweep: new partitions are not led for a minute.
        DeafToGrowth,
        /// A reassignment has the replicas that go delete their logs before others lead: acknowledged records get lost.
        DeleteBeforeHandover,
        /// Notices of changed in-sync sets are removed unread: brokers and controller go on with old in-sync sets.
        DropIsrNotices,
        /// A change that lost a version race is given up: a partition stays without a leader though one could lead.
        DropLostRace,
        /// An election takes the first replica that lives, in sync or not: acknowledged records get lost.
        ElectOutOfSync,
        /// The last member that dies empties the in-sync set: nobody can ever lead the partition again.
        EmptyInSyncSet,
        /// Brokers aren't told that a topic is being deleted: clients go on to find it.
        ForgetDuringDelete,
        /// After the first request for a deletion in a term none is heard until the next sweep: topics stay for a minute.
        ForgetRearm,
        /// Replicas on failed log directories count as online: partitions are led where nobody can write.
        IgnoreFailedDirs,
        /// A former term's knowledge survives into the next one: brokers are told what has long been otherwise.
        KeepContext,
        /// The request for preferred leaders stays in ZooKeeper: no tool can ask again.
        KeepPreferredNode,
        /// The request for a reassignment stays in ZooKeeper once it is done: no tool can ask again.
        KeepReassignmentNode,
        /// A klamm that lost the role stays registered as a broker: clients are sent to it, replicas are placed on it.
        KeepRegistration,
        /// An AlterPartition whose term was lost is left open: its leader can't change the in-sync set any more.
        LeaveUnanswered,
        /// A broker that wants to leave is told that it leads nothing, and still leads: its clients run into errors.
        LetGoTooEarly,
        /// The hold of a hand-back is overlooked: the role that an operator gave back is taken again.
        LoseHold,
        /// Partitions of topics that go stay in the counts: dashboards show partitions that there aren't.
        MiscountRemoved,
        /// An election keeps the leader epoch: two brokers lead under the same one, and records diverge.
        ReuseLeaderEpoch,
        /// Brokers are told of a state before ZooKeeper took it: where it is refused, they follow a leader that there isn't.
        SendBeforeCommit,
        /// A broker that was registered anew within one look is taken for the same: it is never told what it hosts.
        SkipBounce,
        /// A broker that came back isn't told of the partitions of others: its clients don't find them.
        SkipMetadataOfReturned,
        /// A broker that came back isn't told what it hosts: its replicas never catch up, and what it is to lead stands still.
        SkipProbe,
        /// Replicas that stood on a klamm before its term stay there: partitions have fewer replicas than they say.
        SkipSanitising,
        /// A broker whose registration vanished is taken for live: what it led stays without a leader.
        TakeDeadForLive,
        /// A refusal to delete a log is taken for its deletion: the topic is gone and its records lie on disk, for a successor
        /// of its name to be mixed up with.
        TakeRefusalForDeleted,
        /// Where somebody leaves the in-sync set the leader alone hears of the new epoch: its followers can't fetch any more.
        TellLeaderAlone,
        /// A write that lost a version race is taken for done: brokers follow a leader that ZooKeeper doesn't hold.
        TreatConflictAsWritten,
        /// One topic's permission of unclean elections holds for others as well: acknowledged records get lost.
        UncleanForAll,
        /// Unclean elections are held where they are forbidden: acknowledged records get lost.
        UncleanThoughForbidden,
    }

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
        static HEARD: RefCell<BTreeSet<ControllerEpoch>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Plants a fault in all controllers on this thread, in place of one that was planted before; `None`: all is right again.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
        HEARD.take();
    }

    /// Whether this was asked before in a term, since something was planted last.
    pub(crate) fn was_heard_before(term: ControllerEpoch) -> bool {
        HEARD.with_borrow_mut(|heard| !heard.insert(term))
    }

    /// Whether this fault is planted on this thread.
    pub(crate) fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// The outcomes of writes of states as whoever doesn't wait for them imagines them.
    pub(crate) fn imagined(writes: &[ZkWrite]) -> Vec<ZkOutcome> {
        let version = |write: &ZkWrite| match write {
            ZkWrite::SetState { expected, .. } => expected.0 + 1,
            _ => 0,
        };
        let written = |write| ZkOutcome::Written {
            version: version(write),
        };
        writes.iter().map(written).collect()
    }
}

#[cfg(feature = "planted")]
pub use switch::{Fault, plant};
#[cfg(feature = "planted")]
pub(crate) use switch::{imagined, is_planted, was_heard_before};
