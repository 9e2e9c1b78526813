//! ControlledShutdown: a broker leaves gently, in one event.
//!
//! Upstream: `doControlledShutdown`.

use tracing::info;

use super::{KafkaController, log};
use crate::effect::{Answer, ReplicaDisposal, ReplyTo};
use crate::machine::election::ElectionStrategy;
use crate::machine::partition::OnlineChange;
use crate::machine::replica::OfflineChange;
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::shutdown;
use crate::model::{BrokerEpoch, BrokerId, KafkaError, Replica, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_controlled_shutdown(
        &mut self,
        broker: BrokerId,
        broker_epoch: Option<BrokerEpoch>,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if self.context.term().is_none() || !self.is_loaded {
            self.answer(
                reply_to,
                Answer::ControlledShutdown(Err(KafkaError::STALE_CONTROLLER_EPOCH)),
            );
            return Ok(());
        }
        if let Err(error) = shutdown::admit(&self.context, broker, broker_epoch) {
            info!(target: log::CONTROLLER, "broker {broker} asked to shut down and was refused: {error}");
            self.answer(reply_to, Answer::ControlledShutdown(Err(error)));
            return Ok(());
        }
        let outcome = self.move_away_from(broker).await;
        let answer = outcome.clone();
        self.answer(
            reply_to,
            Answer::ControlledShutdown(answer.map_err(|_| KafkaError::STALE_CONTROLLER_EPOCH)),
        );
        outcome.map(|_| ())
    }

    /// Marks the broker as leaving before anything else, so that nothing new is given to it; returns what it still leads.
    async fn move_away_from(&mut self, broker: BrokerId) -> Result<Vec<TopicPartition>, ZkFault> {
        info!(target: log::CONTROLLER, "Shutting down broker {broker}");
        self.context.begin_shutting_down(broker);
        let plan = shutdown::plan(&self.context, broker);

        let followed: Vec<Replica> = plan
            .followed
            .into_iter()
            .map(|partition| Replica { partition, broker })
            .collect();
        // It stops fetching before the others hear that it left their in-sync sets, or it would rejoin at once.
        let mut batch = ControllerBrokerRequestBatch::new();
        for replica in &followed {
            batch.add_stop_replica(&self.context, replica, ReplicaDisposal::Keep);
        }
        self.send(batch);
        // Both kinds in one round of writes: the leaving broker waits for the answer, and each round costs it a flush of
        // ZooKeeper's disk. No partition is in both, so neither decision depends on the other.
        let led = OnlineChange::new(plan.led, ElectionStrategy::ControlledShutdown);
        self.change_both_and_send(led, OfflineChange::new(followed))
            .await?;
        let remaining = shutdown::remaining(&self.context, broker);
        if !remaining.is_empty() {
            info!(
                target: log::CONTROLLER,
                "broker {broker} still leads {} partitions that nobody else can lead, {} first: no other in-sync replica is online",
                remaining.len(), remaining[0]
            );
        }
        Ok(remaining)
    }
}
