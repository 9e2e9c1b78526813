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
