//! DeleteTopics: what a client asks for becomes the same marker that tools write, and takes the same way from there.
//!
//! The client is answered as soon as no client finds the topics any more; their logs and nodes go after that. Must never
//! begin a deletion whose request is not in ZooKeeper: the next controller would not know of it.
//! Upstream: `handleDeleteTopicsRequest` in `KafkaApis.scala`, `DelayedDeleteTopics.scala`.

use std::collections::BTreeMap;

use tracing::warn;

use super::awaited::Patience;
use super::quotas::Charged;
use super::{KafkaController, log};
use crate::effect::{Answer, DeletedTopic, ReplyTo, TopicReference, ZkOutcome, ZkWrite};
use crate::event::Claimant;
use crate::machine::acknowledgement::{Announcement, Heard};
use crate::machine::topic_creation;
use crate::model::{ApiError, KafkaError, TopicName};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// A client that waits until its topics are gone.
#[derive(Debug)]
pub(super) struct AwaitedDeletion {
    topics: Vec<Going>,
    patience: Patience,
    reply_to: ReplyTo,
}

/// One topic of a request.
#[derive(Debug)]
struct Going {
    /// What is to be said of it.
    said: DeletedTopic,
    /// What brokers were told once it was announced as gone.
    announced: Option<Announcement>,
    /// Nothing is left to wait for. It stays so, also where a topic of this name is created anew.
    is_gone: bool,
}

impl Going {
    fn new(said: DeletedTopic) -> Going {
        Going {
            is_gone: said.result.is_err(),
            said,
            announced: None,
        }
    }
}

/// Where one topic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No client finds it any more, or there is nothing to wait for.
    Gone,
    /// Some brokers have forgotten it, others may.
    GoneForSome,
    /// Brokers were told, and none has acknowledged it yet.
    Unheard,
    /// Its deletion has yet to begin.
    NotAnnounced,
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_delete_topics(
        &mut self,
        topics: Vec<TopicReference>,
        timeout_ms: i32,
        claimant: Claimant,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = topic_creation::check_length(topics.len()) {
            self.answer(reply_to, Answer::DeleteTopics(Err(error)));
            return Ok(());
        }
        let charged = Charged::new(claimant, reply_to);
        let outcome = self.ask_for_deletion(&topics, charged).await;
        let said = match outcome {
            Ok(said) => said,
            Err(fault) => {
                // What has a marker is deleted all the same, as a client that asks again finds out.
                let refused = |error: ApiError| {
                    let each = topics.iter();
                    let each = each.map(|topic| self.deleted(topic, Err(error.clone())));
                    each.collect()
                };
                let refusal = fault.to_refusal().map(refused);
                self.answer(reply_to, Answer::DeleteTopics(refusal));
                return Err(fault);
            }
        };
        self.awaited_deletions.push(AwaitedDeletion {
            topics: said.into_iter().map(Going::new).collect(),
            patience: Patience::new(timeout_ms, self.ports.clock.now_ms()),
            reply_to,
        });
        self.resume_deletions().await
    }

    /// Writes the requests, and queues what they are about.
    async fn ask_for_deletion(
        &mut self,
        asked: &[TopicReference],
        charged: Charged,
    ) -> Result<Vec<DeletedTopic>, ZkFault> {
        if !self.settings.delete_topic_enable {
            let disabled = || {
                Err(ApiError::new(
                    KafkaError::TOPIC_DELETION_DISABLED,
                    "delete.topic.enable=false in the controller's configuration",
                ))
            };
            return Ok(asked
                .iter()
                .map(|topic| self.deleted(topic, disabled()))
                .collect());
        }
        if asked.iter().any(|topic| self.find(topic).is_none()) {
            // It may have been made so lately that nobody has said so yet.
            self.process_topic_change().await?;
        }
        let found: Vec<Option<TopicName>> = asked.iter().map(|topic| self.find(topic)).collect();
        let denied = self.charge_deletions(found.iter().flatten(), charged);
        let mut new: Vec<TopicName> = found
            .iter()
            .flatten()
            .filter(|topic| !self.context.is_queued_for_deletion(topic))
            .filter(|topic| !denied.contains_key(*topic))
            .cloned()
            .collect();
        new.sort();
        new.dedup();
        let refused = self.write_deletion_requests(new).await?;
        let said = asked.iter().zip(found).map(|(topic, name)| {
            let result = match name {
                None => Err(unknown(topic)),
                Some(name) => match (denied.get(&name), refused.get(&name)) {
                    (Some(denied), _) => Err(denied.clone()),
                    (None, Some(why)) => Err(ApiError::new(
                        KafkaError::UNKNOWN_SERVER_ERROR,
                        why.as_str(),
                    )),
                    (None, None) => Ok(()),
                },
            };
            self.deleted(topic, result)
        });
        Ok(said.collect())
    }

    /// The topics for which the client's quota doesn't suffice. As in Java also those count that are being deleted already.
    fn charge_deletions<'a>(
        &mut self,
        topics: impl Iterator<Item = &'a TopicName>,
        mut charged: Charged,
    ) -> BTreeMap<TopicName, ApiError> {
        let mut denied = BTreeMap::new();
        for name in topics {
            let topic = self.context.topic(name);
            let partitions = topic.map_or(0, |topic| topic.partitions.len());
            if let Err(why) = self.charge(&mut charged, name, partitions) {
                denied.insert(name.clone(), why.about_topic(name));
            }
        }
        denied
    }

    /// Returns those that ZooKeeper did not take.
    async fn write_deletion_requests(
        &mut self,
        topics: Vec<TopicName>,
    ) -> Result<BTreeMap<TopicName, String>, ZkFault> {
        if topics.is_empty() {
            return Ok(BTreeMap::new());
        }
        let writes: Vec<ZkWrite> = topics
            .iter()
            .cloned()
            .map(ZkWrite::CreateTopicDeletion)
            .collect();
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        let mut refused = BTreeMap::new();
        for (topic, outcome) in topics.into_iter().zip(outcomes) {
            match outcome {
                ZkOutcome::Written { .. } | ZkOutcome::AlreadyExists => {
                    self.context.queue_for_deletion(&topic);
                }
                ZkOutcome::Refused(why) => {
                    warn!(target: log::CONTROLLER, "topic {topic} is not deleted, as a client asked for: {why}");
                    refused.insert(topic, why);
                }
                ZkOutcome::Missing | ZkOutcome::VersionConflict => {
                    let why = "/admin/delete_topics is missing; create it, or restart a broker, which does".to_owned();
                    warn!(target: log::CONTROLLER, "topic {topic} is not deleted, as a client asked for: {why}");
                    refused.insert(topic, why);
                }
            }
        }
        Ok(refused)
    }

    fn find(&self, topic: &TopicReference) -> Option<TopicName> {
        let name = self.resolve(topic);
        name.filter(|name| self.context.topic(name).is_some())
    }

    /// A topic under all the names that are known of it.
    fn deleted(&self, asked: &TopicReference, result: Result<(), ApiError>) -> DeletedTopic {
        let (name, topic_id) = match asked {
            TopicReference::Name(name) => {
                let topic = self.context.topic(name);
                (Some(name.clone()), topic.and_then(|topic| topic.id))
            }
            TopicReference::Id(id) => (self.resolve(asked), Some(*id)),
        };
        DeletedTopic {
            name,
            topic_id,
            result,
        }
    }

    /// Answers whoever's topics are gone, and whoever does not want to wait any longer.
    pub(super) fn answer_awaited_deletions(&mut self) {
        if self.awaited_deletions.is_empty() {
            return;
        }
        self.forget_gone_incarnations();
        let now_ms = self.ports.clock.now_ms();
        for mut awaited in std::mem::take(&mut self.awaited_deletions) {
            let topics = awaited.topics.iter_mut();
            let standings: Vec<Standing> = topics
                .map(|topic| self.deletion_standing(topic, now_ms))
                .collect();
            let is_due = awaited.patience.is_over(now_ms);
            if standings.iter().any(|standing| *standing != Standing::Gone) && !is_due {
                let topics = awaited.topics.iter();
                let announced = topics.filter_map(|topic| topic.announced.as_ref());
                self.look_again(&mut awaited.patience, announced, now_ms);
                self.awaited_deletions.push(awaited);
                continue;
            }
            let mut said = Vec::with_capacity(standings.len());
            for (
                Going {
                    said: mut topic, ..
                },
                standing,
            ) in awaited.topics.into_iter().zip(standings)
            {
                if let Some(why) = self.too_late(standing, &topic) {
                    topic.result = Err(ApiError::new(KafkaError::REQUEST_TIMED_OUT, why));
                }
                said.push(topic);
            }
            self.answer(awaited.reply_to, Answer::DeleteTopics(Ok(said)));
        }
    }

    /// Java waits for the metadata cache of the controller's own broker; a klamm has none, and a client may ask any broker
    /// next: as for topics that are created, all brokers are waited for, or a second once the first has heard of it.
    fn deletion_standing(&self, topic: &mut Going, now_ms: u64) -> Standing {
        if topic.is_gone {
            return Standing::Gone;
        }
        if topic.announced.is_none() && self.is_told(&topic.said) {
            return Standing::NotAnnounced;
        }
        match self.who_has_heard(&mut topic.announced, now_ms) {
            Heard::Enough => {
                topic.is_gone = true;
                topic.announced = None;
                Standing::Gone
            }
            Heard::ByNobody => Standing::Unheard,
            Heard::BySome => Standing::GoneForSome,
        }
    }

    /// Why a client that waits no longer can't be told that a topic is gone.
    fn too_late(&self, standing: Standing, topic: &DeletedTopic) -> Option<String> {
        match standing {
            Standing::Gone | Standing::GoneForSome => None,
            Standing::NotAnnounced => Some(self.what_is_waited_for(topic)),
            Standing::Unheard => {
                Some("the deletion is under way, and no broker has acknowledged it yet".to_owned())
            }
        }
    }

    /// Whether brokers still tell clients of a topic.
    fn is_told(&self, topic: &DeletedTopic) -> bool {
        let name = topic.name.as_ref();
        name.is_some_and(|name| {
            self.context.topic(name).is_some() && !self.context.is_deletion_begun(name)
        })
    }

    /// The deletion goes on; what it waits for is what the client wants to know.
    fn what_is_waited_for(&self, topic: &DeletedTopic) -> String {
        let name = topic.name.as_ref();
        let why = name.and_then(|name| self.context.ineligible_for_deletion(name));
        match why {
            Some(why) => format!("the deletion goes on later: {why}"),
            None => "the deletion is under way".to_owned(),
        }
    }

    /// The role is gone: whoever waits asks the next controller, which finds the markers.
    pub(super) fn refuse_awaited_deletions(&mut self) {
        for awaited in std::mem::take(&mut self.awaited_deletions) {
            let refusal = Err(KafkaError::NOT_CONTROLLER);
            self.answer(awaited.reply_to, Answer::DeleteTopics(refusal));
        }
    }
}

fn unknown(topic: &TopicReference) -> ApiError {
    match topic {
        TopicReference::Name(_) => ApiError::new(
            KafkaError::UNKNOWN_TOPIC_OR_PARTITION,
            "there is no such topic",
        ),
        TopicReference::Id(_) => {
            ApiError::new(KafkaError::UNKNOWN_TOPIC_ID, "no topic has this id")
        }
    }
}
