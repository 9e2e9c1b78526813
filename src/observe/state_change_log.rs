//! The state-change log: what the controller decided for each partition and replica, apart from its own log.
//!
//! Upstream counterpart: `StateChangeLogger.scala`. Emitters name the target and the epoch:
//! `tracing::info!(target: STATE_CHANGE, controller_epoch = 5, "Changed partition t-0 from X to Y with state ..")`.
//! One line for one partition, never one for all of them: Kafka took such lines out for their cost.

/// The target of such events.
pub const STATE_CHANGE: &str = "state_change";

/// The file in `klamm.log.dir`; Kafka's name.
pub(super) const STATE_CHANGE_FILE: &str = "state-change.log";

/// The file in `klamm.log.dir` for everything else; Kafka's name.
pub(super) const CONTROLLER_FILE: &str = "controller.log";

/// The two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Controller,
    StateChange,
}

impl Stream {
    /// Where an event with this target goes.
    pub(super) fn of(target: &str) -> Self {
        if target == STATE_CHANGE || target.starts_with("state.change") {
            Self::StateChange
        } else {
            Self::Controller
        }
    }
}
