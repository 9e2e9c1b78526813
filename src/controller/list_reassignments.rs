//! ListPartitionReassignments: which partitions move, and where to.
//!
//! Must never change anything. Upstream: `listPartitionReassignments` in `KafkaController.scala`.

use std::collections::BTreeSet;

use super::KafkaController;
use crate::effect::{Answer, ReplyTo};
use crate::machine::request_length;
use crate::model::TopicPartition;
use crate::port::{Brokers, Clock, Replies, Zk};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) fn process_list_partition_reassignments(
        &mut self,
        partitions: Option<Vec<TopicPartition>>,
        reply_to: ReplyTo,
    ) {
        let length = partitions.as_ref().map_or(0, Vec::len);
        if let Err(error) = request_length::check_partitions(length) {
            self.answer(reply_to, Answer::ListPartitionReassignments(Err(error)));
            return;
        }
        let moving = self.context.partitions_being_reassigned();
        let asked: BTreeSet<TopicPartition> = match partitions {
            Some(asked) => asked.into_iter().filter(|at| moving.contains(at)).collect(),
            None => moving.clone(),
        };
        let assignment = |at: TopicPartition| {
            let assignment = self.context.partition(&at)?.assignment.clone();
            Some((at, assignment))
        };
        let found = asked.into_iter().filter_map(assignment).collect();
        self.answer(reply_to, Answer::ListPartitionReassignments(Ok(found)));
    }
}
