//! The disposition table: what each fault costs.
//!
//! One place decides whether a fault costs the role, the event, or nothing. Nothing else may.
//! Upstream: `KafkaController.process` and `triggerControllerMove`; the table itself is KRaft's idea
//! (`EventHandlerExceptionInfo.java`). Where Java gives the role up for one bad znode, klamm doesn't.

use crate::port::ZkFault;

/// What a fault costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Another controller was elected: resign, then look who.
    Resign,
    /// The session is gone: leave everything as it is, the expiry is in the queue or on its way.
    AwaitExpiry,
    /// This event did not do its work; the next sweep looks again.
    FailEvent,
}

/// The table.
pub fn disposition(fault: &ZkFault) -> Disposition {
    match fault {
        ZkFault::Fenced => Disposition::Resign,
        ZkFault::SessionLost => Disposition::AwaitExpiry,
        ZkFault::Refused { .. } => Disposition::FailEvent,
    }
}
