//! CreateTopics: what a client asks for becomes the nodes that tools write, and is led in the same event.
//!
//! No watch is waited for; the event that it brings finds everything done. Must never write what `machine::topic_creation`
//! did not plan, and never call a topic created that ZooKeeper doesn't hold.
//! Upstream: `handleCreateTopicsRequest` in `KafkaApis.scala`, `ZkAdminManager.createTopics`.

use tracing::{info, warn};

use super::awaited::{Answering, Awaited};
use super::quotas::Charged;
use super::topics::list;
use super::{KafkaController, log};
use crate::effect::{Answer, CreatedTopic, Read, ReplyTo, TopicDetails, ZkOutcome, ZkWrite};
use crate::event::{Claimant, CreateTopicsRequest, NewTopic};
use crate::machine::placement::Spread;
use crate::machine::topic_creation::{self, PlannedTopic, TopicDefaults};
use crate::model::topic_config;
use crate::model::{ApiError, ConfigEntity, KafkaError, TopicId, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_create_topics(
        &mut self,
        request: CreateTopicsRequest,
        claimant: Claimant,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = topic_creation::check_length(request.topics.len()) {
            self.answer(reply_to, Answer::CreateTopics(Err(error)));
            return Ok(());
        }
        let charged = Charged::new(claimant, reply_to);
        let outcome = self.create_topics(&request, charged).await;
        let topics = match outcome {
            Ok(topics) => topics,
            Err(fault) => {
                // What was written before is there, as a client that asks again finds out.
                let refused = |error: ApiError| {
                    let each = request.topics.iter();
                    let each = each.map(|asked| created((asked, Err(error.clone()))));
                    each.collect()
                };
                let refusal = fault.to_refusal().map(refused);
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
        self.lead_new_partitions(created, &[]).await
    }

    /// Plans, and writes unless nothing is to be created; one entry a topic, in the order of the request.
    async fn create_topics(
        &mut self,
        request: &CreateTopicsRequest,
        charged: Charged,
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
        let defaults = self.topic_defaults().await?;
        let planned = topic_creation::plan(&self.context, &defaults, asked, &spreads);
        let results = if request.validate_only {
            let details = |planned: PlannedTopic| self.details(&planned, None, &defaults);
            planned
                .into_iter()
                .map(|planned| planned.map(details))
                .collect()
        } else {
            let planned = self.charge_planned(planned, charged);
            self.write_planned(planned, &defaults).await?
        };
        Ok(asked.iter().zip(results).map(created).collect())
    }

    /// What stands in for what is left open, as of now. Where the cluster's default can't be read the file alone counts.
    async fn topic_defaults(&mut self) -> Result<TopicDefaults, ZkFault> {
        let mut defaults = self.settings.topic_defaults.clone();
        let of_cluster = [ConfigEntity::BrokerDefault];
        let read = match self.ports.zk.entity_configs(&of_cluster).await {
            Err(ZkFault::Refused { path, cause }) => Read::Broken(format!("{path}: {cause}")),
            other => other?.pop().unwrap_or(Read::Missing),
        };
        match read {
            Read::Found((config, _)) => {
                let protocol = self.context.protocol();
                let (broker, useless) = defaults.broker.with_cluster_defaults(&config.0, protocol);
                defaults.broker = broker;
                self.warn_broken(useless.into_iter().map(|why| {
                    format!("/config/brokers/<default>: {why}; set it again with kafka-configs")
                }));
            }
            Read::Broken(why) => self.warn_broken([why]),
            Read::Missing => {}
        }
        Ok(defaults)
    }

    fn any_spread(&mut self) -> Spread {
        Spread {
            start: self.ports.clock.random(),
            shift: self.ports.clock.random(),
        }
    }

    /// What the client's quota allows of what was planned, in the order of the request.
    fn charge_planned(
        &mut self,
        planned: Vec<Result<PlannedTopic, ApiError>>,
        mut charged: Charged,
    ) -> Vec<Result<PlannedTopic, ApiError>> {
        let mut charge = |topic: PlannedTopic| {
            self.charge(&mut charged, &topic.name, topic.replicas.len())?;
            Ok(topic)
        };
        let each = planned.into_iter();
        each.map(|topic| topic.and_then(&mut charge)).collect()
    }

    /// Creates the nodes of what was planned.
    async fn write_planned(
        &mut self,
        planned: Vec<Result<PlannedTopic, ApiError>>,
        defaults: &TopicDefaults,
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
            Ok(self.details(&topic, id, defaults))
        });
        Ok(results.collect())
    }

    fn details(
        &self,
        topic: &PlannedTopic,
        topic_id: Option<TopicId>,
        defaults: &TopicDefaults,
    ) -> TopicDetails {
        let broker = &defaults.broker;
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
        result: result.map_err(|refused| refused.about_topic(&asked.name)),
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
