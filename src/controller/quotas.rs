//! Quotas on what clients create and delete: learnt from ZooKeeper, charged where topics come, grow and go.
//!
//! Must never stand in anybody's way because of a node that can't be read: nobody is throttled by it, and it is named.
//! Upstream: `ControllerMutationQuotaManager.scala`, `ClientIdConfigHandler` and `UserConfigHandler` in
//! `ConfigHandler.scala`. Each Java controller begins with full buckets, and so does a klamm.

use std::collections::BTreeSet;

use tracing::info;

use super::{KafkaController, log};
use crate::effect::{Answer, Read, ReplyTo};
use crate::event::Claimant;
use crate::machine::mutation_quota::{self, Charge};
use crate::model::{ApiError, ConfigEntity, KafkaError, TopicName};
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// A request that is charged: each topic once, however often it is tried.
#[derive(Debug)]
pub(super) struct Charged {
    by: Claimant,
    reply_to: ReplyTo,
    topics: BTreeSet<TopicName>,
}

impl Charged {
    pub(super) fn new(by: Claimant, reply_to: ReplyTo) -> Charged {
        Charged {
            by,
            reply_to,
            topics: BTreeSet::new(),
        }
    }
}

/// How long a client is to keep quiet, told when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Throttle {
    ms: u64,
    since_ms: u64,
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Reads all quotas. Where ZooKeeper refuses there are none until it is asked again.
    pub(super) async fn load_quotas(&mut self) -> Result<(), ZkFault> {
        let outcome = self.read_rates(None).await;
        self.are_quotas_known = outcome.is_ok();
        let rates = match outcome {
            Ok(rates) => rates,
            Err(ZkFault::Refused { path, cause }) => {
                self.warn_broken([format!(
                    "ZooKeeper refused {path}: {cause}; clients' quotas on topics (controller_mutation_rate) are not enforced until it can be read"
                )]);
                Vec::new()
            }
            Err(fault) => return Err(fault),
        };
        let set = rates
            .into_iter()
            .filter_map(|(entity, rate)| rate.map(|rate| (entity, rate)));
        self.quotas.replace(set.collect());
        if !self.quotas.is_empty() {
            info!(target: log::CONTROLLER, "{} quotas on what clients create and delete are in force", self.quotas.len());
        }
        Ok(())
    }

    /// These were written, or all may have been.
    pub(super) async fn renew_quotas(
        &mut self,
        written: BTreeSet<ConfigEntity>,
        all: bool,
    ) -> Result<(), ZkFault> {
        if all || !self.are_quotas_known {
            return self.load_quotas().await;
        }
        if written.is_empty() {
            return Ok(());
        }
        let written = written.into_iter().collect();
        for (entity, rate) in self.read_rates(Some(written)).await? {
            if let Some(rate) = rate {
                info!(target: log::CONTROLLER, "/config/{}: clients may create and delete {rate} partitions a second", entity.path());
            }
            self.quotas.set(entity, rate);
        }
        Ok(())
    }

    /// What each says; `None` in the place of the names: all there are.
    async fn read_rates(
        &mut self,
        of: Option<Vec<ConfigEntity>>,
    ) -> Result<Vec<(ConfigEntity, Option<f64>)>, ZkFault> {
        let listed = match of {
            Some(entities) => entities,
            None => self.ports.zk.quota_entities().await?,
        };
        let (entities, complaints) = mutation_quota::readable(listed);
        self.warn_broken(complaints);
        let reads = self.ports.zk.entity_configs(&entities).await?;
        let mut rates = Vec::with_capacity(entities.len());
        for (entity, read) in entities.into_iter().zip(reads) {
            let rate = match read {
                Read::Found((config, _)) => mutation_quota::rate(&config)
                    .map_err(|why| format!("/config/{}: {why}", entity.path())),
                Read::Missing => Ok(None),
                Read::Broken(why) => Err(why),
            };
            let rate = rate.unwrap_or_else(|why| {
                self.warn_broken([why]);
                None
            });
            rates.push((entity, rate));
        }
        Ok(rates)
    }

    /// Charges a request for so many partitions of a topic.
    ///
    /// # Errors
    /// The quota is used up: the topic is to be left as it is.
    pub(super) fn charge(
        &mut self,
        request: &mut Charged,
        topic: &TopicName,
        partitions: usize,
    ) -> Result<(), ApiError> {
        if !request.topics.insert(topic.clone()) {
            return Ok(());
        }
        let now_ms = self.ports.clock.now_ms();
        let (throttle_ms, is_denied) = match self.quotas.charge(&request.by, partitions, now_ms) {
            Charge::Granted => return Ok(()),
            Charge::GrantedAndThrottled { throttle_ms } => (throttle_ms, false),
            Charge::Denied { throttle_ms } => (throttle_ms, true),
        };
        let throttle = Throttle {
            ms: throttle_ms,
            since_ms: now_ms,
        };
        self.throttles.insert(request.reply_to, throttle);
        if !is_denied {
            return Ok(());
        }
        Err(ApiError::new(
            KafkaError::THROTTLING_QUOTA_EXCEEDED,
            format!(
                "the quota of user {}, client id `{}`, on partitions created and deleted (controller_mutation_rate) is used up; try again in {throttle_ms} ms, or have the quota raised",
                request.by.user, request.by.client_id
            ),
        ))
    }

    /// An answer, with what is left of the time for which its client is to keep quiet.
    pub(super) fn throttled(&mut self, to: ReplyTo, answer: Answer) -> Answer {
        let Some(throttle) = self.throttles.remove(&to) else {
            return answer;
        };
        let passed_ms = self.ports.clock.now_ms().saturating_sub(throttle.since_ms);
        match throttle.ms.saturating_sub(passed_ms) {
            0 => answer,
            throttle_time_ms => Answer::Throttled {
                throttle_time_ms,
                answer: Box::new(answer),
            },
        }
    }
}
