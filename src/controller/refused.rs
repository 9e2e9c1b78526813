//! What ZooKeeper refused of partitions' states: the next sweep tries it again, and says it no second time.
//!
//! Must never decide whether a partition can be led: it knows only whom to ask again. Upstream has no counterpart: there such
//! a partition waits until some broker comes or goes.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::{Refusal, Refused};
use crate::model::TopicPartition;

/// Partitions whose change was refused.
#[derive(Debug, Default)]
pub(super) struct RefusedStates {
    /// To be tried again: what an operator repairs in ZooKeeper, no broker tells of.
    due: BTreeSet<TopicPartition>,
    /// What was said since the last sweep began.
    said: BTreeMap<TopicPartition, Vec<Refusal>>,
    /// What was said before, while a sweep looks whether it is still so.
    said_before: Option<BTreeMap<TopicPartition, Vec<Refusal>>>,
}

impl RefusedStates {
    /// Notes a refusal; whether it is to be said. A sweep says nothing twice, whatever keeps its partition from being led.
    pub(super) fn note(&mut self, refused: &Refused) -> bool {
        let Refused { partition, reason } = refused;
        let is_due = matches!(reason, Refusal::Zk(_) | Refusal::Broken(_));
        if is_due {
            self.due.insert(partition.clone());
        }
        let holds = |said: &BTreeMap<TopicPartition, Vec<Refusal>>| {
            let of_partition = said.get(partition);
            of_partition.is_some_and(|reasons| reasons.contains(reason))
        };
        let was_said_before = self.said_before.as_ref().is_some_and(holds);
        let is_said = holds(&self.said);
        if !is_said {
            let of_partition = self.said.entry(partition.clone()).or_default();
            of_partition.push(reason.clone());
        }
        let is_quiet = is_due || self.said_before.is_some();
        !(is_quiet && (is_said || was_said_before))
    }

    /// A sweep begins.
    pub(super) fn begin_sweep(&mut self) {
        self.said_before = Some(std::mem::take(&mut self.said));
    }

    /// A sweep ended: what it didn't find refused any more is news when it comes again.
    pub(super) fn end_sweep(&mut self) {
        self.said_before = None;
    }

    /// The partitions to try again; those that are refused again are due again.
    pub(super) fn take_due(&mut self) -> BTreeSet<TopicPartition> {
        std::mem::take(&mut self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TopicName;

    fn refused(index: i32, reason: Refusal) -> Refused {
        let partition = TopicPartition::new(&TopicName::new("t"), index);
        Refused { partition, reason }
    }

    #[test]
    fn what_zookeeper_refuses_is_due_until_a_sweep_finds_it_no_more() {
        let mut states = RefusedStates::default();
        let why = refused(0, Refusal::Zk("no permission".to_owned()));
        assert!(states.note(&why));
        assert!(!states.note(&why), "said once");
        for _ in 0..2 {
            states.begin_sweep();
            assert_eq!(states.take_due().len(), 1);
            assert!(!states.note(&why), "nor with each sweep");
            states.end_sweep();
        }
        states.begin_sweep();
        states.take_due();
        states.end_sweep();
        assert!(states.take_due().is_empty());
        assert!(states.note(&why), "it is news");
    }

    #[test]
    fn what_brokers_can_mend_is_said_with_each_event_and_not_with_each_sweep() {
        let mut states = RefusedStates::default();
        let why = refused(0, Refusal::NoEligibleLeader("nobody"));
        assert!(states.note(&why));
        assert!(states.note(&why));
        states.begin_sweep();
        assert!(!states.note(&why));
        assert!(states.note(&refused(1, Refusal::StateMissing)));
        assert!(states.take_due().is_empty());
    }
}
