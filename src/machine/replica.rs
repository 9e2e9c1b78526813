//! ReplicaStateMachine (signatures).
use super::*;

/// Steps that need no ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalReplicaStep {
    /// New
    New,
    /// Online
    Online,
    /// Started
    DeletionStarted,
    /// Ineligible
    DeletionIneligible,
    /// Successful
    DeletionSuccessful,
    /// gone
    NonExistent,
}

/// To Offline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineChange {}
impl OfflineChange {
    /// Take `replicas` offline.
    pub fn new(_replicas: Vec<Replica>) -> Self {
        todo!()
    }
}
impl StateChange for OfflineChange {
    fn needs(&self, _context: &ControllerContext) -> Needs {
        todo!()
    }
    fn decide(&self, _context: &ControllerContext, _fetched: &Fetched) -> Decision {
        todo!()
    }
    fn apply(
        &self,
        _context: &mut ControllerContext,
        _decision: Decision,
        _outcomes: &[ZkOutcome],
        _batch: &mut ControllerBrokerRequestBatch,
    ) -> Applied {
        todo!()
    }
    fn again(&self, _retry: Vec<TopicPartition>) -> Self {
        todo!()
    }
}
/// Initial states at failover: online replicas Online, others DeletionIneligible. Returns (online, offline), for the two transitions that follow.
pub fn startup(_context: &mut ControllerContext) -> (Vec<Replica>, Vec<Replica>) {
    todo!()
}
/// Steps that need no ZooKeeper.
pub fn handle_state_changes(
    _context: &mut ControllerContext,
    _replicas: &[Replica],
    _step: LocalReplicaStep,
    _batch: &mut ControllerBrokerRequestBatch,
) -> Vec<Refused> {
    todo!()
}
