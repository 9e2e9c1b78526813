//! Topics go: TopicDeletion, and what resumes a deletion that waited.
//!
//! Must never remove a topic's nodes before every replica's broker said that its log is gone. Upstream:
//! `processTopicDeletion`, `TopicDeletionManager.scala`.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::topics::list;
use super::{KafkaController, log};
use crate::effect::{PartitionErrors, Read, ZkOutcome, ZkWrite};
use crate::machine::deletion::{self, Ineligible};
use crate::machine::replica::OfflineChange;
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::model::{BrokerId, Replica, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// `/admin/delete_topics` has other children, or may have.
    pub(super) async fn process_topic_deletion(&mut self) -> Result<(), ZkFault> {
        let marked = self.ports.zk.topic_deletions().await?;
        if !self.settings.delete_topic_enable {
            return self.refuse_deletions(marked).await;
        }
        let is_unknown = |topic: &TopicName| self.context.topic(topic).is_none();
        if marked.iter().any(is_unknown) {
            // It may have been made so lately that nobody has said so yet.
            self.process_topic_change().await?;
        }
        let (known, unknown): (Vec<_>, Vec<_>) = marked
            .into_iter()
            .partition(|topic| self.context.topic(topic).is_some());
        self.drop_unknown_markers(unknown).await?;
        let new: Vec<TopicName> = known
            .into_iter()
            .filter(|topic| !self.context.is_queued_for_deletion(topic))
            .collect();
        if !new.is_empty() {
            info!(target: log::CONTROLLER, "Starting topic deletion for topics {}", list(&new));
        }
        for topic in &new {
            self.context.queue_for_deletion(topic);
        }
        self.resume_deletions().await
    }

    /// Those of `topics` that somebody has asked to delete.
    pub(super) async fn marked_among(
        &mut self,
        topics: &[TopicName],
    ) -> Result<Vec<TopicName>, ZkFault> {
        if topics.is_empty() || !self.settings.delete_topic_enable {
            return Ok(Vec::new());
        }
        let marked = self.ports.zk.topic_deletions().await?;
        let topics: BTreeSet<&TopicName> = topics.iter().collect();
        let is_among = |topic: &TopicName| topics.contains(topic);
        Ok(marked.into_iter().filter(is_among).collect())
    }

    /// Queues topics that have just become known: some of their logs may be gone, so that nobody leads them any more, unless
    /// a reassignment has yet to end. Whether any has.
    pub(super) fn queue_taken_in(&mut self, marked: &[TopicName]) -> bool {
        let known: Vec<&TopicName> = marked
            .iter()
            .filter(|topic| self.context.topic(topic).is_some())
            .collect();
        for topic in &known {
            self.context.queue_for_deletion(topic);
        }
        !known.is_empty()
    }

    /// What `/admin/delete_topics` asked of former controllers. No topic in it gets a leader from now on; the deletions
    /// themselves begin once the state machines have started.
    pub(super) async fn queue_pending_deletions(&mut self) -> Result<(), ZkFault> {
        let marked = self.ports.zk.topic_deletions().await?;
        if !self.settings.delete_topic_enable {
            return self.refuse_deletions(marked).await;
        }
        let (known, unknown): (Vec<_>, Vec<_>) = marked
            .into_iter()
            .partition(|topic| self.context.topic(topic).is_some());
        for topic in &known {
            self.context.queue_for_deletion(topic);
        }
        if !known.is_empty() {
            info!(target: log::CONTROLLER, "Topics to be deleted: {}", list(&known));
        }
        let there = self.topics_that_exist(&unknown).await?;
        let (_, gone): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|topic| there.contains(topic));
        if !gone.is_empty() {
            info!(target: log::CONTROLLER, "Topics that a former controller deleted all but for their configuration: {}", list(&gone));
        }
        let remains = gone.into_iter().map(ZkWrite::DeleteTopicRemains).collect();
        self.write_markers(remains).await
    }

    /// Topics are not deleted here: who asked for it is told so by the request's end.
    async fn refuse_deletions(&mut self, marked: Vec<TopicName>) -> Result<(), ZkFault> {
        if !marked.is_empty() {
            warn!(
                target: log::CONTROLLER,
                "delete.topic.enable=false: the topics {} are not deleted, and the requests to do so (/admin/delete_topics) are removed",
                list(&marked)
            );
        }
        let markers = marked.into_iter().map(ZkWrite::DeleteTopicDeletion);
        self.write_markers(markers.collect()).await
    }

    async fn drop_unknown_markers(&mut self, unknown: Vec<TopicName>) -> Result<(), ZkFault> {
        let there = self.topics_that_exist(&unknown).await?;
        let (unreadable, gone): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|topic| there.contains(topic));
        self.warn_broken(unreadable.iter().map(deletion::unreadable));
        if !gone.is_empty() {
            info!(target: log::CONTROLLER, "Ignoring the deletion of topics that don't exist: {}", list(&gone));
        }
        let markers = gone.into_iter().map(ZkWrite::DeleteTopicDeletion);
        self.write_markers(markers.collect()).await
    }

    /// Those of `topics` that have a node, understood or not. What is no legal name has none.
    async fn topics_that_exist(
        &mut self,
        topics: &[TopicName],
    ) -> Result<BTreeSet<TopicName>, ZkFault> {
        let legal: Vec<TopicName> = topics.iter().filter(|t| t.is_legal()).cloned().collect();
        if legal.is_empty() {
            return Ok(BTreeSet::new());
        }
        let reads = self.ports.zk.topics(&legal).await?;
        let found = legal.into_iter().zip(reads);
        Ok(found
            .filter(|(_, read)| !matches!(read, Read::Missing))
            .map(|(topic, _)| topic)
            .collect())
    }

    /// Removes requests for deletion; one that is gone already is as good.
    async fn write_markers(&mut self, writes: Vec<ZkWrite>) -> Result<(), ZkFault> {
        if writes.is_empty() {
            return Ok(());
        }
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        for (write, outcome) in writes.iter().zip(outcomes) {
            if let ZkOutcome::Refused(why) = outcome {
                self.warn_broken([format!(
                    "a request for a topic's deletion could not be removed ({write:?}): {why}"
                )]);
            }
        }
        Ok(())
    }

    /// Looks at every queued topic: finishes what is deleted, begins what can be, and says why the rest waits.
    pub(super) async fn resume_deletions(&mut self) -> Result<(), ZkFault> {
        if self.context.topics_to_be_deleted().is_empty() {
            return Ok(());
        }
        let review = deletion::review(&self.context);
        let news = deletion::note(&mut self.context, &review);
        self.log_halted(news);
        self.complete_deletions(review.finish).await?;
        self.on_topic_deletion(review.start).await
    }

    /// Brokers are told that a partition is deleted only where it was ever led. Of a topic that could not be read when this
    /// term began, or of whose creation ZooKeeper refused a part, only the states know.
    async fn take_in_last_states(&mut self, topics: &[TopicName]) -> Result<(), ZkFault> {
        let unled = deletion::without_leadership(&self.context, topics);
        match unled.is_empty() {
            true => Ok(()),
            false => self.take_in_leaderships(&unled).await,
        }
    }

    /// The topics' partitions are no more, brokers forget them, and whoever can delete its logs is told to.
    async fn on_topic_deletion(&mut self, topics: Vec<TopicName>) -> Result<(), ZkFault> {
        if topics.is_empty() {
            return Ok(());
        }
        self.take_in_last_states(&topics).await?;
        info!(target: log::CONTROLLER, "Deletion of topics {} (re)started", list(&topics));
        let (partitions, refused) = deletion::begin(&mut self.context, &topics);
        self.log_refused(&refused);
        // Clients lose the topic before its logs go.
        let brokers = self.registered_ids();
        self.send_update_metadata(&brokers, &partitions);
        let untold = deletion::untold(&self.context, &topics);
        let takes_part = |replica: &&Replica| deletion::takes_part(&self.context, replica);
        let away = untold.away.iter().filter(takes_part);
        let leaving: Vec<Replica> = untold.online.iter().chain(away).cloned().collect();
        // Followers stop to fetch before leaders stop to be there.
        self.change_and_send(OfflineChange::new(leaving)).await?;
        let mut batch = ControllerBrokerRequestBatch::new();
        let news = deletion::tell(&mut self.context, &untold, &mut batch);
        self.send(batch);
        self.log_halted(news);
        Ok(())
    }

    /// All replicas are deleted: the topics' nodes go, and with them all that is known of the topics.
    async fn complete_deletions(&mut self, topics: Vec<TopicName>) -> Result<(), ZkFault> {
        if topics.is_empty() {
            return Ok(());
        }
        let writes: Vec<ZkWrite> = topics.iter().cloned().map(ZkWrite::DeleteTopic).collect();
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        let (mut gone, mut news) = (Vec::new(), Vec::new());
        for (topic, outcome) in topics.into_iter().zip(outcomes) {
            let why = match outcome {
                ZkOutcome::Written { .. } | ZkOutcome::Missing => {
                    self.context.remove_topic(&topic);
                    self.unplaced_topics.remove(&topic);
                    gone.push(topic);
                    continue;
                }
                ZkOutcome::Refused(why) => why,
                ZkOutcome::VersionConflict | ZkOutcome::AlreadyExists => {
                    format!("/brokers/topics/{topic} changes all the time")
                }
            };
            let why = Ineligible::ZooKeeperRefused(why);
            if self
                .context
                .mark_ineligible_for_deletion(&topic, why.clone())
            {
                news.push((topic, why));
            }
        }
        if !gone.is_empty() {
            info!(target: log::CONTROLLER, "Deletion of topics {} successfully completed", list(&gone));
        }
        self.log_halted(news);
        Ok(())
    }

    /// A broker said what became of the logs that it was told to delete.
    pub(super) async fn on_replicas_deleted(
        &mut self,
        broker: BrokerId,
        deleted: &[TopicPartition],
        response: &PartitionErrors,
    ) -> Result<(), ZkFault> {
        if deleted.is_empty() {
            return Ok(());
        }
        let news = deletion::take_answer(&mut self.context, broker, deleted, response);
        self.log_halted(news);
        self.resume_deletions().await
    }

    /// Replicas of queued topics went away.
    pub(super) async fn fail_deletions(&mut self, replicas: Vec<Replica>) -> Result<(), ZkFault> {
        if replicas.is_empty() {
            return Ok(());
        }
        let takes_part = |replica: &&Replica| deletion::takes_part(&self.context, replica);
        let leaving: Vec<Replica> = replicas.iter().filter(takes_part).cloned().collect();
        if !leaving.is_empty() {
            self.change_and_send(OfflineChange::new(leaving)).await?;
        }
        deletion::fail_replicas(&mut self.context, &replicas);
        self.resume_deletions().await
    }

    /// Brokers returned: what they, or others, refused before is tried again for the topics that they host.
    pub(super) async fn resume_deletions_on(&mut self, ids: &[BrokerId]) -> Result<(), ZkFault> {
        deletion::forget_refusals(&mut self.context, Some(ids));
        self.resume_deletions().await
    }

    /// The sweep: requests that no watch told of, and what was refused before.
    pub(super) async fn sweep_deletions(&mut self) -> Result<(), ZkFault> {
        deletion::forget_refusals(&mut self.context, None);
        self.process_topic_deletion().await
    }

    /// A line for each reason, not for each topic. A refusal comes back with each try, and is said once.
    fn log_halted(&mut self, mut news: Vec<(TopicName, Ineligible)>) {
        news.retain(|(topic, why)| {
            !why.is_a_refusal()
                || self
                    .complaints
                    .is_new(&format!("deletion of {topic}: {why}"))
        });
        let mut reasons: Vec<(Ineligible, Vec<TopicName>)> = Vec::new();
        for (topic, why) in news {
            match reasons.iter_mut().find(|(other, _)| *other == why) {
                Some((_, topics)) => topics.push(topic),
                None => reasons.push((why, vec![topic])),
            }
        }
        for (why, topics) in reasons {
            let topics = list(&topics);
            if why.is_a_refusal() {
                warn!(target: log::CONTROLLER, "Deletion of topics {topics} waits: {why}");
            } else {
                info!(target: log::CONTROLLER, "Deletion of topics {topics} waits: {why}");
            }
        }
    }
}
