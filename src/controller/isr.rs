//! In-sync sets change: AlterPartition from IBP 2.7 on, IsrChangeNotification below. Both at once in a rolling upgrade.
//!
//! Upstream: `processAlterPartition`, `processIsrChangeNotification`.

use tracing::{debug, info};

use super::{KafkaController, log};
use crate::effect::{Answer, Read, ReplyTo, StateRead, Term, ZkWrite};
use crate::event::AlterPartitionRequest;
use crate::machine::isr;
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::model::{BrokerId, TopicPartition};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Every way out answers: a leader whose request stays open can't change its in-sync set any more.
    pub(super) async fn process_alter_partition(
        &mut self,
        request: AlterPartitionRequest,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = isr::admit(&self.context, request.from) {
            self.answer(reply_to, Answer::AlterPartition(Err(error)));
            return Ok(());
        }
        let decision = isr::decide(&self.context, &request);
        let written = match self.term() {
            Ok(_) if decision.writes.is_empty() => Ok(Vec::new()),
            Ok(term) => self.ports.zk.write(&term, &decision.writes).await,
            Err(fault) => Err(fault),
        };
        let outcomes = match written {
            Ok(outcomes) => outcomes,
            Err(fault) => {
                let refusal = Err(fault.code());
                if !planted!(LeaveUnanswered) {
                    self.answer(reply_to, Answer::AlterPartition(refusal));
                }
                return Err(fault);
            }
        };
        let applied = isr::apply(&mut self.context, &request, decision, &outcomes);
        for refused in &applied.refused {
            info!(
                target: log::STATE_CHANGE,
                "broker {}: in-sync set of {:?}-{} not changed ({}): {}",
                request.from.broker, refused.topic, refused.partition, refused.code, refused.reason
            );
        }
        let reread = self.refresh(applied.reread).await;
        let mut announce = applied.announce;
        announce.extend(
            reread
                .as_ref()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .cloned(),
        );
        let brokers = self.registered_ids();
        if !announce.is_empty() {
            self.send_update_metadata(&brokers, &announce);
        }
        planted!(AnswerTwice => {
            self.answer(reply_to, Answer::AlterPartition(Ok(applied.answers.clone())));
        });
        self.answer(reply_to, Answer::AlterPartition(Ok(applied.answers)));
        let mut changed = applied.changed;
        changed.extend(reread?);
        self.on_in_sync_sets_changed(&changed).await
    }

    pub(super) async fn process_isr_change_notification(&mut self) -> Result<(), ZkFault> {
        let notices = self.ports.zk.isr_change_notifications().await?;
        if notices.is_empty() {
            return Ok(());
        }
        let mut partitions: Vec<TopicPartition> = Vec::new();
        for notice in &notices {
            match &notice.content {
                Read::Found(named) => partitions.extend(named.iter().cloned()),
                Read::Missing => {}
                Read::Broken(why) => self.warn_broken([why.clone()]),
            }
        }
        partitions.sort();
        partitions.dedup();
        partitions.retain(|partition| self.context.partition(partition).is_some());
        debug!(target: log::CONTROLLER, "{} partitions changed their in-sync sets", partitions.len());
        let changed = planted!(DropIsrNotices, Vec::new(), self.refresh(partitions).await?);
        let brokers = self.registered_ids();
        if !changed.is_empty() {
            self.send_update_metadata(&brokers, &changed);
        }
        self.on_in_sync_sets_changed(&changed).await?;
        // Listed ones are deleted even where they could not be read: nobody would ever do it otherwise.
        let writes: Vec<ZkWrite> = notices
            .into_iter()
            .map(|notice| ZkWrite::DeleteIsrChangeNotification(notice.name))
            .collect();
        self.delete_notifications(&writes).await
    }

    /// Reads states again and takes them in; returns those that could be read. Where another leader epoch has begun than the
    /// one that was known, by a late write of a former controller or one of ours whose answer was lost, nobody has told the
    /// replicas: they are.
    pub(super) async fn refresh(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        if partitions.is_empty() {
            return Ok(partitions);
        }
        let term = self.term()?;
        let reads = self.ports.zk.partition_states(&partitions).await?;
        let mut found = Vec::with_capacity(partitions.len());
        let mut untold = Vec::new();
        for (partition, read) in partitions.into_iter().zip(reads) {
            match read {
                Read::Found(state) if is_of_newer_controller(&state, term) => {}
                Read::Found(state) => {
                    let known = self.context.leadership(&partition);
                    let known = known.map(|known| known.leader_epoch);
                    if known.is_some_and(|epoch| epoch != state.leader_and_isr.leader_epoch) {
                        untold.push(partition.clone());
                    }
                    self.context.put_leadership(&partition, state.into());
                    found.push(partition);
                }
                Read::Missing => {}
                Read::Broken(why) => self.warn_broken([why]),
            }
        }
        untold.retain(|at| !self.context.is_deletion_begun(&at.topic));
        self.tell_replicas(&untold);
        Ok(found)
    }

    /// Tells all replicas of partitions who leads them, and under which leader epoch.
    pub(super) fn tell_replicas(&mut self, partitions: &[TopicPartition]) {
        let mut batch = ControllerBrokerRequestBatch::new();
        for partition in partitions {
            let replicas: Vec<BrokerId> = self.context.replicas(partition).iter().collect();
            batch.add_leader_and_isr(&self.context, &replicas, partition, false);
        }
        self.send(batch);
    }
}

/// Another controller was elected, and klamm has yet to hear of it: its view isn't ours to act on.
pub(super) fn is_of_newer_controller(state: &StateRead, term: Term) -> bool {
    state.controller_epoch > term.epoch
}
