//! CreateTopics: what a client asks for becomes the nodes that tools write, and is led in the same event.
//!
//! No watch is waited for; the event that it brings finds everything done. Must never write what `machine::topic_creation`
//! did not plan, and never call a topic created that ZooKeeper doesn't hold.
//! Upstream: `handleCreateTopicsRequest` in `KafkaApis.scala`, `ZkAdminManager.createTopics`.

use tracing::{info, warn};

use super::awaited::{Answering, Awaited};
use super::topics::{Unknown, list};
use super::{KafkaController, log};
use crate::effect::{Answer, CreatedTopic, ReplyTo, TopicDetails, ZkOutcome, ZkWrite};
use crate::event::{CreateTopicsRequest, NewTopic};
use crate::machine::placement::Spread;
use crate::machine::topic_creation::{self, PlannedTopic};
use crate::model::topic_config;
use crate::model::{ApiError, KafkaError, TopicId, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_create_topics(
        &mut self,
        request: CreateTopicsRequest,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = topic_creation::check_length(request.topics.len()) {
            self.answer(reply_to, Answer::CreateTopics(Err(error)));
            return Ok(());
        }
        let outcome = self.create_topics(&request).await;
        let topics = match outcome {
            Ok(topics) => topics,
            Err(fault) => {
                // What was written before is there, as a client that asks again finds out.
                let refusal = Err(KafkaError::NOT_CONTROLLER);
                self.answer(reply_to, Answer::CreateTopics(refusal));
                return Err(fault);
            }
        };
        if request.validate_only {
            self.answer(reply_to, Answer::CreateTopics(Ok(topics)));
            return Ok(());
        }
        let created: Vec<TopicName> = topics
            .iter()
            .filter(|topic| topic.result.is_ok())
            .map(|topic| topic.name.clone())
            .collect();
        let awaited = topics.iter().map(awaited).collect();
        let answering = Answering::CreateTopics(topics);
        self.await_leaders(awaited, answering, request.timeout_ms, reply_to);
        if created.is_empty() {
            return Ok(());
        }
        info!(target: log::CONTROLLER, "New topics, which a client asked for: [{}]", list(&created));
        let new = self.take_in_topics(created, Unknown::AreNew).await?;
        self.on_new_partition_creation(new).await
    }

    /// Plans, and writes unless nothing is to be created; one entry a topic, in the order of the request.
    async fn create_topics(
        &mut self,
        request: &CreateTopicsRequest,
    ) -> Result<Vec<CreatedTopic>, ZkFault> {
        let asked = &request.topics;
        if asked
            .iter()
            .any(|topic| topic_creation::may_collide(&topic.name))
        {
            // A name may have been taken so lately that nobody has said so yet. Of the name itself the write finds out.
            self.process_topic_change().await?;
        }
        let spreads: Vec<Spread> = asked.iter().map(|_| self.any_spread()).collect();
        let defaults = &self.settings.topic_defaults;
        let planned = topic_creation::plan(&self.context, defaults, asked, &spreads);
        let results = if request.validate_only {
            let details = |planned: PlannedTopic| self.details(&planned, None);
            planned
                .into_iter()
                .map(|planned| planned.map(details))
                .collect()
        } else {
            self.write_planned(planned).await?
        };
        Ok(asked.iter().zip(results).map(created).collect())
    }

    fn any_spread(&mut self) -> Spread {
        Spread {
            start: self.ports.clock.random(),
            shift: self.ports.clock.random(),
        }
    }

    /// Creates the nodes of what was planned.
    async fn write_planned(
        &mut self,
        planned: Vec<Result<PlannedTopic, ApiError>>,
    ) -> Result<Vec<Result<TopicDetails, ApiError>>, ZkFault> {
        let has_ids = self.context.protocol().has_topic_ids();
        let mut with_id = |planned: PlannedTopic| {
            let id = has_ids.then(|| self.ports.clock.topic_id());
            (planned, id)
        };
        let planned: Vec<Result<(PlannedTopic, Option<TopicId>), ApiError>> = planned
            .into_iter()
            .map(|planned| planned.map(&mut with_id))
            .collect();
        let writes: Vec<ZkWrite> = planned.iter().flatten().map(write_of).collect();
        let outcomes = if writes.is_empty() {
            Vec::new()
        } else {
            self.ports.zk.write(&self.term()?, &writes).await?
        };
        let mut outcomes = outcomes.into_iter();
        let results = planned.into_iter().map(|planned| {
            let (topic, id) = planned?;
            judge(&topic.name, outcomes.next())?;
            Ok(self.details(&topic, id))
        });
        Ok(results.collect())
    }

    fn details(&self, topic: &PlannedTopic, topic_id: Option<TopicId>) -> TopicDetails {
        let broker = &self.settings.topic_defaults.broker;
        TopicDetails {
            topic_id,
            num_partitions: topic.replicas.len(),
            replication_factor: topic.replicas.first().map_or(0, |replicas| replicas.len()),
            settings: topic_config::in_force(&topic.config, self.context.protocol(), broker),
        }
    }
}

fn created((asked, result): (&NewTopic, Result<TopicDetails, ApiError>)) -> CreatedTopic {
    CreatedTopic {
        name: asked.name.clone(),
        result,
    }
}

fn write_of((planned, topic_id): &(PlannedTopic, Option<TopicId>)) -> ZkWrite {
    ZkWrite::CreateTopic {
        topic: planned.name.clone(),
        topic_id: *topic_id,
        replicas: planned.replicas.clone(),
        config: planned.config.clone(),
    }
}

/// Whether the topic's nodes are there now.
fn judge(topic: &TopicName, outcome: Option<ZkOutcome>) -> Result<(), ApiError> {
    let why = match outcome {
        Some(ZkOutcome::Written { .. }) => return Ok(()),
        Some(ZkOutcome::AlreadyExists) => return Err(topic_creation::already_exists()),
        Some(ZkOutcome::Refused(why)) => why,
        Some(ZkOutcome::Missing | ZkOutcome::VersionConflict) | None => {
            "/brokers/topics or /config/topics is missing; create it, or restart a broker, which does".to_owned()
        }
    };
    warn!(target: log::CONTROLLER, "topic {topic} is not created, as a client asked for: {why}");
    Err(ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why))
}

/// The partitions that must be led and known before the client hears of the topic.
fn awaited(topic: &CreatedTopic) -> Awaited {
    let indexes = match &topic.result {
        Ok(details) => (0..).take(details.num_partitions),
        Err(_) => (0..).take(0),
    };
    let partition = |index| TopicPartition::new(&topic.name, index);
    Awaited::new(topic.name.clone(), indexes.map(partition).collect())
}
