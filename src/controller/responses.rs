//! Brokers' answers: LeaderAndIsr, UpdateMetadata, StopReplica.
//!
//! An answer of an older incarnation is dropped. Java drops top-level errors altogether; here they make klamm look again.
//! Upstream: `processLeaderAndIsrResponseReceived` and its siblings.

use tracing::{error, info};

use super::{KafkaController, Stop, log};
use crate::effect::{Incarnation, PartitionErrors, TopicReference};
use crate::machine::deletion;
use crate::machine::replica::{self, LocalReplicaStep};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::model::{ControllerEpoch, KafkaError, Replica, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_leader_and_isr_response(
        &mut self,
        from: Incarnation,
        response: PartitionErrors,
    ) -> Result<Option<Stop>, ZkFault> {
        if !self.is_current(from) {
            return Ok(None);
        }
        self.let_go_if_told(from, &response);
        if !response.error.is_none() {
            return self
                .look_again_after(from, "LeaderAndIsr", response.error)
                .await;
        }
        let mut newly_offline = Vec::new();
        let mut returned = Vec::new();
        for (topic, partition, error) in response.partitions {
            let Some(topic) = self.resolve(&topic) else {
                continue;
            };
            let replica = Replica {
                partition: TopicPartition { topic, partition },
                broker: from.broker,
            };
            match error {
                KafkaError::KAFKA_STORAGE_ERROR => {
                    let is_new = self.context.set_replica_on_offline_dir(&replica, true);
                    newly_offline.extend(is_new.then_some(replica));
                }
                KafkaError::NONE => {
                    let came_back = self.context.set_replica_on_offline_dir(&replica, false);
                    returned.extend(came_back.then_some(replica));
                }
                // An equal or older epoch (the normal answer to a repeat), or a replica that the broker doesn't host.
                _ => {}
            }
        }
        if !newly_offline.is_empty() {
            info!(
                target: log::CONTROLLER,
                "broker {}: {} replicas are on a failed log directory, {} first",
                from.broker, newly_offline.len(), newly_offline[0].partition
            );
            self.on_replicas_become_offline(newly_offline).await?;
        }
        if !returned.is_empty() {
            self.on_replicas_returned(&returned).await?;
            let moving = self.moving();
            self.review_reassignments(&moving);
        }
        Ok(None)
    }

    /// A broker hosts again what it had called lost: it can lead, and delete. Java waits for the broker's restart.
    async fn on_replicas_returned(&mut self, returned: &[Replica]) -> Result<(), ZkFault> {
        info!(
            target: log::CONTROLLER,
            "broker {}: {} replicas are back from a failed log directory, {} first",
            returned[0].broker, returned.len(), returned[0].partition
        );
        let told = |replica: &&Replica| !deletion::is_told(self.context.replica_state(replica));
        let replicas: Vec<Replica> = returned.iter().filter(told).cloned().collect();
        let mut batch = ControllerBrokerRequestBatch::new();
        let step = LocalReplicaStep::Online;
        let refused = replica::handle_state_changes(&mut self.context, &replicas, step, &mut batch);
        self.log_refused(&refused);
        self.send(batch);
        self.trigger_online_partition_state_change().await?;
        self.resume_deletions().await
    }

    pub(super) async fn process_update_metadata_response(
        &mut self,
        from: Incarnation,
        number: u64,
        error: KafkaError,
    ) -> Result<Option<Stop>, ZkFault> {
        if !self.is_current(from) {
            return Ok(None);
        }
        if error.is_none() {
            self.acknowledgements.acknowledge(from, number);
            return Ok(None);
        }
        self.look_again_after(from, "UpdateMetadata", error).await
    }

    pub(super) async fn process_stop_replica_response(
        &mut self,
        from: Incarnation,
        controller_epoch: ControllerEpoch,
        deleted: &[TopicPartition],
        response: &PartitionErrors,
    ) -> Result<Option<Stop>, ZkFault> {
        if !self.is_current(from) || self.term()?.epoch != controller_epoch {
            return Ok(None);
        }
        self.log_refused_removals(from.broker, deleted, response);
        self.on_replicas_deleted(from.broker, deleted, response)
            .await?;
        if response.error.is_none() {
            return Ok(None);
        }
        self.look_again_after(from, "StopReplica", response.error)
            .await
    }

    /// A broker answers again and is far behind: what it was not told yet becomes what is true now, all leaders in one
    /// UpdateMetadata and all that it hosts in one LeaderAndIsr. Java sends the whole backlog, one by one.
    pub(super) fn process_channel_behind(&mut self, of: Incarnation) {
        if !self.is_current(of) {
            return;
        }
        let context = &self.context;
        let mut batch = ControllerBrokerRequestBatch::new();
        batch.add_update_metadata(context, &[of.broker], &context.partitions_with_leadership());
        for replica in context.replicas_on(of.broker) {
            batch.add_leader_and_isr(context, &[of.broker], &replica.partition, false);
        }
        if let Some(requests) = self.numbered(batch) {
            self.ports.brokers.replace_queue(of, requests);
        }
    }

    /// 11: the broker follows a later controller. 77: it was registered again, its next incarnation is in ZooKeeper.
    async fn look_again_after(
        &mut self,
        from: Incarnation,
        request: &str,
        error: KafkaError,
    ) -> Result<Option<Stop>, ZkFault> {
        match error {
            KafkaError::STALE_CONTROLLER_EPOCH => self.look_at_role().await,
            KafkaError::STALE_BROKER_EPOCH => self.process_broker_change().await,
            KafkaError::CLUSTER_AUTHORIZATION_FAILED => {
                error!(
                    target: log::CONTROLLER,
                    "broker {} refuses {request}: {error}; it has an authorizer that doesn't grant ClusterAction on the cluster to klamm's principal. Grant it, or hand the role back (`klamm handback`)",
                    from.broker
                );
                Ok(None)
            }
            other => {
                error!(target: log::CONTROLLER, "broker {} answered {request} with {other}; see its log", from.broker);
                Ok(None)
            }
        }
    }

    fn is_current(&self, from: Incarnation) -> bool {
        self.context
            .registration(from.broker)
            .is_some_and(|registration| registration.epoch == from.epoch)
    }

    pub(super) fn resolve(&self, topic: &TopicReference) -> Option<TopicName> {
        match topic {
            TopicReference::Name(name) => Some(name.clone()),
            TopicReference::Id(id) => self.context.topic_name(*id).cloned(),
        }
    }
}
