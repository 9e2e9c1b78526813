//! Log targets under the names that operators grep for, and a memory of what was complained about.
//!
//! Must never decide anything: forgetting it all costs a repeated line.

use std::collections::BTreeSet;

/// The Java controller's logger.
pub(super) const CONTROLLER: &str = "kafka.controller.KafkaController";
/// The state-change log.
pub(super) const STATE_CHANGE: &str = "state_change";

/// How many complaints are remembered; beyond it the memory starts afresh.
const REMEMBERED_MAX: usize = 10_000;

/// A broken znode is looked at every minute and complained about once a term.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: BTreeSet<String>,
}

impl Complaints {
    /// Whether this complaint is new.
    pub(super) fn is_new(&mut self, complaint: &str) -> bool {
        if self.said.contains(complaint) {
            return false;
        }
        if self.said.len() >= REMEMBERED_MAX {
            self.said.clear();
        }
        self.said.insert(complaint.to_owned())
    }

    /// A new term says everything again.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_said_once_until_too_many_are_remembered_or_a_term_ends() {
        let mut complaints = Complaints::default();
        assert!(complaints.is_new("first"));
        assert!(!complaints.is_new("first"));
        complaints.forget();
        assert!(complaints.is_new("first"), "a new term says it again");
        for number in 1..REMEMBERED_MAX {
            assert!(complaints.is_new(&number.to_string()));
        }
        assert!(!complaints.is_new("9999"), "as many are remembered");
        assert!(complaints.is_new("one more"));
        assert!(complaints.is_new("first"), "the memory starts afresh");
        assert!(!complaints.is_new("first"));
    }
}
