//! PartitionStateMachine (signatures).
use super::election::ElectionStrategy;
use super::*;

/// Steps that need no ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPartitionStep {
    /// to New
    New,
    /// to Offline
    Offline,
    /// to NonExistent
    NonExistent,
}

/// To Online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlineChange {}
impl OnlineChange {
    /// Bring `partitions` online.
    pub fn new(_partitions: Vec<TopicPartition>, _strategy: ElectionStrategy) -> Self {
        todo!()
    }
}
impl StateChange for OnlineChange {
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
/// Initial states at failover.
pub fn startup(_context: &mut ControllerContext) {
    todo!()
}
/// triggerOnlinePartitionStateChange: New or Offline, not queued for deletion.
pub fn online_candidates(_context: &ControllerContext) -> Vec<TopicPartition> {
    todo!()
}
/// Steps that need no ZooKeeper.
pub fn handle_state_changes(
    _context: &mut ControllerContext,
    _partitions: &[TopicPartition],
    _step: LocalPartitionStep,
) -> Vec<Refused> {
    todo!()
}
