//! ControllerBrokerRequestBatch (signatures): a batch is a value.
use super::*;
use crate::effect::{ControlRequests, ReplicaDisposal};
use crate::model::BrokerId;

/// What brokers will be told.
#[derive(Debug, Default)]
pub struct ControllerBrokerRequestBatch {}
impl ControllerBrokerRequestBatch {
    /// Empty.
    pub fn new() -> Self {
        todo!()
    }
    /// LeaderAndIsr of `partition` to `recipients`, and the same partition in an UpdateMetadata to all.
    pub fn add_leader_and_isr(
        &mut self,
        _context: &ControllerContext,
        _recipients: &[BrokerId],
        _partition: &TopicPartition,
        _is_new: bool,
    ) {
        todo!()
    }
    /// UpdateMetadata of `partitions` (none: only who is alive) to `recipients`.
    pub fn add_update_metadata(
        &mut self,
        _context: &ControllerContext,
        _recipients: &[BrokerId],
        _partitions: &[TopicPartition],
    ) {
        todo!()
    }
    /// StopReplica.
    pub fn add_stop_replica(
        &mut self,
        _context: &ControllerContext,
        _replica: &Replica,
        _disposal: ReplicaDisposal,
    ) {
        todo!()
    }
    /// The requests; `None` if the batch is empty or there is no term.
    pub fn into_requests(self, _context: &ControllerContext) -> Option<ControlRequests> {
        todo!()
    }
}
