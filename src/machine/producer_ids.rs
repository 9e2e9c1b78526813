//! Blocks of producer ids: the next one, and who may have it.
//!
//! Must never hand out an id twice: a block that can't be trusted stops allocation rather than starting over.
//! Upstream: `ZkProducerIdManager.getNewProducerIdBlock`, `KafkaController.processAllocateProducerIds`.

use crate::effect::{Incarnation, ProducerIdBlock};
use crate::model::{BrokerId, KafkaError};
use crate::state::ControllerContext;

/// Ids in a block, as in every release.
pub const BLOCK_SIZE: i64 = 1000;

/// Why there is no next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoProducerIds {
    /// The ids are used up.
    #[error(
        "/latest_producer_id_block ends at {last}, too near the largest 64-bit number for another block: this cluster has no producer ids left"
    )]
    Exhausted {
        /// Last id of the last block.
        last: i64,
    },
    /// The node's numbers can't be a block.
    #[error(
        "/latest_producer_id_block says {first} to {last}, which is no block of producer ids; correct the node so that block_end is the highest id ever handed out"
    )]
    Senseless {
        /// What the node calls the first id.
        first: i64,
        /// What the node calls the last id.
        last: i64,
    },
}

/// The block after `current` for `from`, who is named in the node as its owner. The first block starts at 0. The block
/// before may be of any size: brokers below IBP 3.0 write the node themselves.
///
/// # Errors
/// See [`NoProducerIds`].
pub fn next_block(
    current: Option<ProducerIdBlock>,
    from: BrokerId,
) -> Result<ProducerIdBlock, NoProducerIds> {
    let first = match current {
        None => 0,
        Some(ProducerIdBlock { first, last, .. }) if first < 0 || last < first => {
            return Err(NoProducerIds::Senseless { first, last });
        }
        Some(ProducerIdBlock { last, .. }) if last > i64::MAX - BLOCK_SIZE => {
            return Err(NoProducerIds::Exhausted { last });
        }
        Some(ProducerIdBlock { last, .. }) => last + 1,
    };
    Ok(ProducerIdBlock {
        broker: from,
        first,
        last: first + (BLOCK_SIZE - 1),
    })
}

/// Whether a broker's wish for a block is heard.
///
/// # Errors
/// `NOT_CONTROLLER` while we are not the controller, `BROKER_ID_NOT_REGISTERED` for an unknown broker, and
/// `STALE_BROKER_EPOCH` unless the epoch is exactly the one we know.
pub fn admit(context: &ControllerContext, from: Incarnation) -> Result<(), KafkaError> {
    if context.term().is_none() {
        return Err(KafkaError::NOT_CONTROLLER);
    }
    match context.registration(from.broker) {
        None => Err(KafkaError::BROKER_ID_NOT_REGISTERED),
        Some(known) if known.epoch != from.epoch => Err(KafkaError::STALE_BROKER_EPOCH),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster;
    use crate::model::BrokerEpoch;

    fn block(first: i64, last: i64) -> ProducerIdBlock {
        ProducerIdBlock {
            broker: BrokerId(1),
            first,
            last,
        }
    }

    #[test]
    fn blocks_of_1000_follow_one_another_whoever_asks() {
        let first = next_block(None, BrokerId(4)).unwrap();
        assert_eq!(
            (first.first, first.last, first.broker),
            (0, 999, BrokerId(4))
        );
        let second = next_block(Some(first), BrokerId(5)).unwrap();
        assert_eq!(
            (second.first, second.last, second.broker),
            (1000, 1999, BrokerId(5))
        );
        let after_an_odd_one = next_block(Some(block(5, 5)), BrokerId(1)).unwrap();
        assert_eq!((after_an_odd_one.first, after_an_odd_one.last), (6, 1005));
    }

    #[test]
    fn the_last_block_ends_at_the_largest_number_and_none_follows() {
        let last = next_block(Some(block(0, i64::MAX - 1000)), BrokerId(1)).unwrap();
        assert_eq!((last.first, last.last), (i64::MAX - 999, i64::MAX));
        for end in [i64::MAX - 999, i64::MAX] {
            assert_eq!(
                next_block(Some(block(0, end)), BrokerId(1)),
                Err(NoProducerIds::Exhausted { last: end })
            );
        }
    }

    #[test]
    fn a_senseless_block_stops_allocation_instead_of_starting_over() {
        for (first, last) in [(-1, 999), (0, -1), (1000, 999), (i64::MIN, i64::MIN)] {
            assert_eq!(
                next_block(Some(block(first, last)), BrokerId(1)),
                Err(NoProducerIds::Senseless { first, last })
            );
        }
    }

    #[test]
    fn only_a_registered_broker_under_its_exact_epoch_gets_a_block() {
        let context = small_cluster::of_brokers(&[1]);
        let table = [
            (1, 101, Ok(())),
            (1, 100, Err(KafkaError::STALE_BROKER_EPOCH)),
            (1, 102, Err(KafkaError::STALE_BROKER_EPOCH)),
            (1, -1, Err(KafkaError::STALE_BROKER_EPOCH)),
            (2, 102, Err(KafkaError::BROKER_ID_NOT_REGISTERED)),
        ];
        for (broker, epoch, expected) in table {
            let from = Incarnation {
                broker: BrokerId(broker),
                epoch: BrokerEpoch(epoch),
            };
            assert_eq!(admit(&context, from), expected, "{from:?}");
            assert_eq!(
                admit(&ControllerContext::new(), from),
                Err(KafkaError::NOT_CONTROLLER)
            );
        }
    }
}
