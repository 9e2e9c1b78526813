//! CreatePartitions: the topic's node grows, and the new partitions are led in the same event.
//!
//! Must never rewrite a node from an older read: the write is conditional on its version, unlike Java's, which can undo
//! what somebody else wrote. Upstream: `handleCreatePartitionsRequest` in `KafkaApis.scala`,
//! `ZkAdminManager.createPartitions`.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::awaited::{Answering, Awaited};
use super::quotas::Charged;
use super::{KafkaController, log};
use crate::effect::{Answer, Read, ReplyTo, TopicZnode, ZkOutcome, ZkWrite};
use crate::event::{Claimant, CreatePartitionsRequest, MorePartitions};
use crate::machine::{topic_creation, topic_growth};
use crate::model::{ApiError, KafkaError, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// How often a node that somebody else keeps writing is read again.
const TRIES: usize = 5;

/// What became of one topic: the partitions that it has more, or why none.
type Growth = Result<Vec<TopicPartition>, ApiError>;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_create_partitions(
        &mut self,
        request: CreatePartitionsRequest,
        claimant: Claimant,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = topic_creation::check_length(request.topics.len()) {
            self.answer(reply_to, Answer::CreatePartitions(Err(error)));
            return Ok(());
        }
        let charged = Charged::new(claimant, reply_to);
        let grown = match self.create_partitions(&request, charged).await {
            Ok(grown) => grown,
            Err(fault) => {
                // What was written before is there, as a client that asks again finds out.
                let refused = |error: ApiError| {
                    let each = names(&request.topics).0.into_iter();
                    let each = each.map(|topic| {
                        let error = error.clone().about_topic(&topic);
                        (topic, Err(error))
                    });
                    each.collect()
                };
                let refusal = fault.to_refusal().map(refused);
                self.answer(reply_to, Answer::CreatePartitions(refusal));
                return Err(fault);
            }
        };
        let said = |(topic, growth): &(TopicName, Growth)| {
            let refused = |refused: &ApiError| refused.clone().about_topic(topic);
            let result = growth.as_ref().map(|_| ()).map_err(refused);
            (topic.clone(), result)
        };
        let answer = grown.iter().map(said).collect();
        if request.validate_only {
            self.answer(reply_to, Answer::CreatePartitions(Ok(answer)));
            return Ok(());
        }
        let changed: Vec<TopicName> = grown
            .iter()
            .filter(|(_, growth)| growth.is_ok())
            .map(|(topic, _)| topic.clone())
            .collect();
        let awaited = grown.into_iter();
        let awaited =
            awaited.map(|(topic, growth)| Awaited::new(topic, growth.unwrap_or_default()));
        let answering = Answering::CreatePartitions(answer);
        self.await_leaders(awaited.collect(), answering, request.timeout_ms, reply_to);
        if changed.is_empty() {
            return Ok(());
        }
        self.process_partition_modifications(&changed).await
    }

    /// What became of each topic, in the order of the request.
    async fn create_partitions(
        &mut self,
        request: &CreatePartitionsRequest,
        mut charged: Charged,
    ) -> Result<Vec<(TopicName, Growth)>, ZkFault> {
        let (order, repeated) = names(&request.topics);
        let mut results: BTreeMap<TopicName, Growth> = BTreeMap::new();
        let mut pending: Vec<&MorePartitions> = Vec::new();
        for asked in &request.topics {
            let admitted = if repeated.contains(&asked.topic) {
                let message = "the request names this topic more than once; name it once";
                Err(ApiError::new(KafkaError::INVALID_REQUEST, message))
            } else {
                topic_growth::admit(&self.context, &asked.topic)
            };
            match admitted {
                Ok(()) => pending.push(asked),
                Err(refused) => {
                    results.insert(asked.topic.clone(), Err(refused));
                }
            }
        }
        for _ in 0..TRIES {
            if pending.is_empty() {
                break;
            }
            pending = self
                .grow(pending, request.validate_only, &mut charged, &mut results)
                .await?;
        }
        for asked in pending {
            let why = format!(
                "/brokers/topics/{} is written by others all the time; try again",
                asked.topic
            );
            let refused = ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why);
            results.insert(asked.topic.clone(), Err(refused));
        }
        let all = order.into_iter();
        let all = all.filter_map(|topic| results.remove(&topic).map(|growth| (topic, growth)));
        Ok(all.collect())
    }

    /// One round: reads the nodes and writes those that can grow. Returns the topics whose node was changed meanwhile.
    async fn grow<'a>(
        &mut self,
        pending: Vec<&'a MorePartitions>,
        validate_only: bool,
        charged: &mut Charged,
        results: &mut BTreeMap<TopicName, Growth>,
    ) -> Result<Vec<&'a MorePartitions>, ZkFault> {
        let names: Vec<TopicName> = pending.iter().map(|asked| asked.topic.clone()).collect();
        let reads = self.ports.zk.topics(&names).await?;
        let mut planned = Vec::new();
        let mut replicas_left = topic_creation::REPLICAS_IN_REQUEST_MAX;
        for (asked, read) in pending.into_iter().zip(reads) {
            match self.plan_growth(asked, read, &mut replicas_left) {
                Ok(plan) => planned.push(plan),
                Err(refused) => {
                    results.insert(asked.topic.clone(), Err(refused));
                }
            }
        }
        if validate_only {
            let fine = planned.into_iter();
            results.extend(fine.map(|plan| (plan.asked.topic.clone(), Ok(plan.added))));
            return Ok(Vec::new());
        }
        planned.retain(|plan| {
            let topic = &plan.asked.topic;
            match self.charge(charged, topic, plan.added.len()) {
                Ok(()) => true,
                Err(denied) => {
                    results.insert(topic.clone(), Err(denied));
                    false
                }
            }
        });
        self.write_growth(planned, results).await
    }

    fn plan_growth<'a>(
        &self,
        asked: &'a MorePartitions,
        read: Read<TopicZnode>,
        replicas_left: &mut usize,
    ) -> Result<Planned<'a>, ApiError> {
        let current = match read {
            Read::Found(current) => current,
            Read::Missing => return Err(topic_growth::unknown()),
            Read::Broken(why) => {
                return Err(ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why));
            }
        };
        let next = topic_growth::plan(&self.context, asked, &current)?;
        let added = added(&asked.topic, &current, &next);
        let factor = current
            .partitions
            .get(&0)
            .map_or(0, |first| first.replicas.len());
        let replicas = added.len().saturating_mul(factor);
        *replicas_left = replicas_left
            .checked_sub(replicas)
            .ok_or_else(topic_creation::too_much)?;
        Ok(Planned { asked, added, next })
    }

    async fn write_growth<'a>(
        &mut self,
        planned: Vec<Planned<'a>>,
        results: &mut BTreeMap<TopicName, Growth>,
    ) -> Result<Vec<&'a MorePartitions>, ZkFault> {
        let writes: Vec<ZkWrite> = planned.iter().map(Planned::write).collect();
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        let mut again = Vec::new();
        for (plan, outcome) in planned.into_iter().zip(outcomes) {
            let topic = &plan.asked.topic;
            let growth = match outcome {
                ZkOutcome::Written { .. } => Ok(plan.added),
                ZkOutcome::VersionConflict => {
                    again.push(plan.asked);
                    continue;
                }
                ZkOutcome::Missing | ZkOutcome::AlreadyExists => Err(topic_growth::unknown()),
                ZkOutcome::Refused(why) => {
                    warn!(target: log::CONTROLLER, "topic {topic} does not grow, as a client asked for: {why}");
                    Err(ApiError::new(KafkaError::UNKNOWN_SERVER_ERROR, why))
                }
            };
            results.insert(topic.clone(), growth);
        }
        Ok(again)
    }
}

/// A topic that can grow.
struct Planned<'a> {
    asked: &'a MorePartitions,
    added: Vec<TopicPartition>,
    /// Its node as it is to be.
    next: TopicZnode,
}

impl Planned<'_> {
    fn write(&self) -> ZkWrite {
        ZkWrite::SetTopic {
            topic: self.asked.topic.clone(),
            znode: self.next.clone(),
        }
    }
}

/// Each name once, in order, and those that stand there more than once.
fn names(asked: &[MorePartitions]) -> (Vec<TopicName>, BTreeSet<TopicName>) {
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    let mut repeated = BTreeSet::new();
    for MorePartitions { topic, .. } in asked {
        if seen.insert(topic.clone()) {
            order.push(topic.clone());
        } else {
            repeated.insert(topic.clone());
        }
    }
    (order, repeated)
}

/// The partitions that stand in `next` alone.
fn added(topic: &TopicName, current: &TopicZnode, next: &TopicZnode) -> Vec<TopicPartition> {
    let indexes = next.partitions.keys();
    let new = indexes.filter(|index| !current.partitions.contains_key(index));
    new.map(|index| TopicPartition::new(topic, *index))
        .collect()
}
