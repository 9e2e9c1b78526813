//! Everything is read again and compared with what the controller knows; nothing is changed.
//!
//! Upstream has no counterpart.

use super::KafkaController;
use crate::effect::{Answer, Compared, ReplyTo};
use crate::machine::comparison::{self, Fresh};
use crate::machine::own_broker;
use crate::model::KafkaError;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_compare(&mut self, reply_to: ReplyTo) -> Result<(), ZkFault> {
        match self.read_anew().await {
            Ok(fresh) => {
                let compared = Compared {
                    topics: fresh.topics.len(),
                    partitions: fresh.states.len(),
                    differences: comparison::differences(&self.context, &fresh),
                };
                self.answer(reply_to, Answer::Compare(Ok(compared)));
                Ok(())
            }
            Err(fault) => {
                self.answer(reply_to, Answer::Compare(Err(KafkaError::NOT_CONTROLLER)));
                Err(fault)
            }
        }
    }

    async fn read_anew(&mut self) -> Result<Fresh, ZkFault> {
        let listed = self.ports.zk.brokers().await?;
        let (brokers, _) =
            own_broker::genuine(listed, self.context.klamm_ids(), self.settings.own_id);
        let names = self.list_topics().await?;
        let reads = self.ports.zk.topics(&names).await?;
        let topics: Vec<_> = names.into_iter().zip(reads).collect();
        let partitions = comparison::partitions(&topics);
        let states = self.ports.zk.partition_states(&partitions).await?;
        let states = states.into_iter().map(|read| read.map(Into::into));
        Ok(Fresh {
            brokers,
            topics,
            states: partitions.into_iter().zip(states).collect(),
            deletions: self.ports.zk.topic_deletions().await?,
        })
    }
}
