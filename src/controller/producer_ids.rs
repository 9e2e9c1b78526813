//! AllocateProducerIds: without it, idempotent producers of an IBP 3.0 cluster stay dead.
//!
//! Upstream: `processAllocateProducerIds`, `ZkProducerIdManager`.

use tracing::warn;

use super::{KafkaController, log};
use crate::effect::{Answer, Incarnation, ProducerIdBlock, Read, ReplyTo, ZkOutcome, ZkWrite};
use crate::machine::producer_ids;
use crate::model::KafkaError;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_allocate_producer_ids(
        &mut self,
        from: Incarnation,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = producer_ids::admit(&self.context, from) {
            self.answer(reply_to, Answer::AllocateProducerIds(Err(error)));
            return Ok(());
        }
        let outcome = self.allocate_producer_ids(from).await;
        let answer = match &outcome {
            Ok(allocated) => *allocated,
            Err(fault) => Err(fault.code()),
        };
        self.answer(reply_to, Answer::AllocateProducerIds(answer));
        outcome.map(|_| ())
    }

    async fn allocate_producer_ids(
        &mut self,
        from: Incarnation,
    ) -> Result<Result<ProducerIdBlock, KafkaError>, ZkFault> {
        loop {
            let (current, version) = match self.ports.zk.producer_id_block().await? {
                Read::Found(found) => found,
                // Every broker creates it at its start, so it was deleted: to begin anew would hand out ids twice.
                Read::Missing => {
                    self.warn_broken(["/latest_producer_id_block is missing: no producer ids are handed out; create it with block_end at the highest id ever handed out".to_owned()]);
                    return Ok(Err(KafkaError::UNKNOWN_SERVER_ERROR));
                }
                Read::Broken(why) => {
                    self.warn_broken([why]);
                    return Ok(Err(KafkaError::UNKNOWN_SERVER_ERROR));
                }
            };
            let block = match producer_ids::next_block(current, from.broker) {
                Ok(block) => block,
                Err(why) => {
                    warn!(target: log::CONTROLLER, "no producer ids for broker {}: {why}", from.broker);
                    return Ok(Err(KafkaError::UNKNOWN_SERVER_ERROR));
                }
            };
            let write = ZkWrite::SetProducerIdBlock {
                block,
                expected: version,
            };
            match self.ports.zk.write(&self.term()?, &[write]).await?.pop() {
                Some(ZkOutcome::Written { .. }) => return Ok(Ok(block)),
                Some(ZkOutcome::VersionConflict | ZkOutcome::Missing) => {}
                other => {
                    warn!(target: log::CONTROLLER, "/latest_producer_id_block could not be written: {other:?}");
                    return Ok(Err(KafkaError::UNKNOWN_SERVER_ERROR));
                }
            }
        }
    }
}
