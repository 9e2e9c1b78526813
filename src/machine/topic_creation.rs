//! Which of the topics that a client wants can be created, and how: names, defaults, replicas, configuration.
//!
//! Must never let a klamm or a broker that nobody knows into an assignment, and never a value into a configuration that a
//! broker can't read. Upstream: `ZkAdminManager.createTopics`, `AdminZkClient.validateTopicCreate`.

use std::collections::{BTreeMap, BTreeSet};

use super::placement::{self, Candidate, Spread, Unplaceable};
use crate::event::NewTopic;
use crate::model::topic_config::{self, BrokerProperties, Properties};
use crate::model::{ApiError, BrokerId, BrokerIds, KafkaError, TopicName};
use crate::state::ControllerContext;

/// The partitions of one topic stand in one node of ZooKeeper, which takes one mebibyte: no more fit with one replica each.
pub const PARTITIONS_MAX: usize = 100_000;
/// Topics that one request may name: an answer says much more of each than the question.
pub const TOPICS_IN_REQUEST_MAX: usize = 20_000;
/// Replicas that one request may ask for. No cluster has so many; more of them would only fill the controller's memory.
pub const REPLICAS_IN_REQUEST_MAX: usize = 1_000_000;

/// A topic of KRaft's alone, which no ZooKeeper-mode cluster may have.
const CLUSTER_METADATA: &str = "__cluster_metadata";

/// What stands in for what a request leaves open: the controller's own configuration, as in Java.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDefaults {
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub replication_factor: i16,
    /// The properties that stand in for what topics' configurations don't say; what the cluster's default says is read for
    /// each request.
    pub broker: BrokerProperties,
}

/// A topic that can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTopic {
    /// Its name.
    pub name: TopicName,
    /// The replicas of each partition, from index 0 on; as many of each.
    pub replicas: Vec<BrokerIds>,
    /// Its configuration.
    pub config: Properties,
}

/// Whether a request names no more topics than one may; for creation and for growth.
///
/// # Errors
/// It does: nothing of it is looked at.
pub fn check_length(topics: usize) -> Result<(), KafkaError> {
    if topics > TOPICS_IN_REQUEST_MAX {
        return Err(KafkaError::INVALID_REQUEST);
    }
    Ok(())
}

/// What becomes of each topic, in the order of the request. `spreads`: one for each, where its replicas begin.
pub fn plan(
    context: &ControllerContext,
    defaults: &TopicDefaults,
    asked: &[NewTopic],
    spreads: &[Spread],
) -> Vec<Result<PlannedTopic, ApiError>> {
    let mut names = Names::of(context, asked);
    let mut planner = Planner {
        context,
        defaults,
        brokers: placement::candidates(context),
        replicas_left: REPLICAS_IN_REQUEST_MAX,
    };
    let spreads = spreads.iter().copied();
    asked
        .iter()
        .zip(spreads)
        .map(|(topic, spread)| {
            names.admit(context, topic)?;
            let planned = planner.plan(&names, topic, spread)?;
            names.take(&topic.name);
            Ok(planned)
        })
        .collect()
}

/// The names that are taken.
struct Names {
    /// Asked for more than once in this request.
    repeated: BTreeSet<TopicName>,
    /// Names in which dots count as underscores → a topic that has it so.
    by_metric: BTreeMap<String, TopicName>,
}

impl Names {
    fn of(context: &ControllerContext, asked: &[NewTopic]) -> Names {
        let mut seen = BTreeSet::new();
        let names = asked.iter().map(|topic| &topic.name);
        let repeated = names.filter(|name| !seen.insert(*name)).cloned().collect();
        let by_metric = if asked.iter().any(|topic| may_collide(&topic.name)) {
            let topics = context.topics().keys();
            let colliding = topics.filter(|name| may_collide(name));
            colliding
                .map(|name| (metric_name(name), name.clone()))
                .collect()
        } else {
            BTreeMap::new()
        };
        Names {
            repeated,
            by_metric,
        }
    }

    /// What is looked at before anything else.
    fn admit(&self, context: &ControllerContext, topic: &NewTopic) -> Result<(), ApiError> {
        let name = &topic.name;
        if name.as_str() == CLUSTER_METADATA {
            let message = "this name belongs to the metadata of KRaft clusters; choose another one";
            return Err(ApiError::new(KafkaError::INVALID_REQUEST, message));
        }
        if self.repeated.contains(name) {
            let message = "the request names this topic more than once; name it once";
            return Err(ApiError::new(KafkaError::INVALID_REQUEST, message));
        }
        if context.is_queued_for_deletion(name) {
            let message = format!(
                "a topic of this name is being deleted{}; create it again once that is done, or choose another name",
                waiting(context, name)
            );
            return Err(ApiError::new(KafkaError::TOPIC_ALREADY_EXISTS, message));
        }
        if context.topic(name).is_some() {
            return Err(already_exists());
        }
        Ok(())
    }

    /// Whether there can be a topic of this name beside the others.
    fn check(&self, name: &TopicName) -> Result<(), ApiError> {
        if !name.is_legal() {
            return Err(ApiError::new(
                KafkaError::INVALID_TOPIC_EXCEPTION,
                "not a topic's name: 1 to 249 of the ASCII letters, digits, `.`, `_` and `-` make one, but not `.` or `..`",
            ));
        }
        match self.by_metric.get(&metric_name(name)) {
            Some(other) if may_collide(name) => Err(ApiError::new(
                KafkaError::INVALID_TOPIC_EXCEPTION,
                format!(
                    "topic {other} has the same name but for `.` and `_`, which metrics can't tell apart; choose another one"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// What comes later in the request must not collide with it.
    fn take(&mut self, name: &TopicName) {
        if may_collide(name) {
            self.by_metric.insert(metric_name(name), name.clone());
        }
    }
}

/// The topic is there.
pub fn already_exists() -> ApiError {
    let message = "it exists already; choose another name, or delete it first";
    ApiError::new(KafkaError::TOPIC_ALREADY_EXISTS, message)
}

/// What a deletion waits for, as the middle of a sentence.
pub fn waiting(context: &ControllerContext, topic: &TopicName) -> String {
    match context.ineligible_for_deletion(topic) {
        Some(why) => format!(", which waits: {why}"),
        None => String::new(),
    }
}

/// Whether another legal name may stand for the same metrics. Upstream: `Topic.hasCollisionChars`.
pub fn may_collide(name: &TopicName) -> bool {
    name.as_str().contains(['.', '_'])
}

fn metric_name(name: &TopicName) -> String {
    name.as_str().replace('.', "_")
}

struct Planner<'a> {
    context: &'a ControllerContext,
    defaults: &'a TopicDefaults,
    brokers: Vec<Candidate>,
    replicas_left: usize,
}

impl Planner<'_> {
    /// In upstream's order: of several faults the same one is told.
    fn plan(
        &mut self,
        names: &Names,
        topic: &NewTopic,
        spread: Spread,
    ) -> Result<PlannedTopic, ApiError> {
        let config = self.config(topic)?;
        let has_counts = topic.num_partitions.is_some() || topic.replication_factor.is_some();
        let is_placed_here = topic.assignments.is_empty();
        if has_counts && !is_placed_here {
            let message = "give either the brokers of each partition, or numbers of partitions and replicas (-1 otherwise), but not both";
            return Err(ApiError::new(KafkaError::INVALID_REQUEST, message));
        }
        let placed = is_placed_here
            .then(|| self.place(topic, spread))
            .transpose()?;
        names.check(&topic.name)?;
        let replicas = match placed {
            Some(placed) => placed,
            None => check_assignments(self.context, &topic.assignments)?,
        };
        let count: usize = replicas.iter().map(BrokerIds::len).sum();
        self.spend(count)?;
        topic_config::check(&config, self.context.protocol(), &self.defaults.broker)
            .map_err(|why| ApiError::new(KafkaError::INVALID_CONFIG, why))?;
        Ok(PlannedTopic {
            name: topic.name.clone(),
            replicas,
            config,
        })
    }

    fn config(&self, topic: &NewTopic) -> Result<Properties, ApiError> {
        let mut config = Properties::new();
        for (name, value) in &topic.configs {
            let Some(value) = value else {
                return Err(ApiError::new(
                    KafkaError::INVALID_CONFIG,
                    format!("{name} has no value; leave it out to get the default"),
                ));
            };
            config.insert(name.clone(), value.clone());
        }
        Ok(config)
    }

    fn place(&self, topic: &NewTopic, spread: Spread) -> Result<Vec<BrokerIds>, ApiError> {
        let partitions = topic.num_partitions.unwrap_or(self.defaults.num_partitions);
        let factor = topic
            .replication_factor
            .unwrap_or(self.defaults.replication_factor);
        let partitions = check_count(partitions, 1)?;
        let factor = usize::try_from(factor).unwrap_or(0);
        let within = partitions.saturating_mul(factor.min(self.brokers.len()));
        if within > self.replicas_left {
            return Err(too_much());
        }
        placement::place(&self.brokers, partitions, factor, 0, spread)
            .map_err(|why| unplaceable(why, factor))
    }

    fn spend(&mut self, replicas: usize) -> Result<(), ApiError> {
        self.replicas_left = self
            .replicas_left
            .checked_sub(replicas)
            .ok_or_else(too_much)?;
        Ok(())
    }
}

/// A request asks for more than it may.
pub fn too_much() -> ApiError {
    ApiError::new(
        KafkaError::INVALID_PARTITIONS,
        format!(
            "the request asks for more than {REPLICAS_IN_REQUEST_MAX} replicas in all; ask for less at a time"
        ),
    )
}

/// A number of partitions that a topic may have, at least `least`.
///
/// # Errors
/// Fewer, or more than a node of ZooKeeper can hold.
pub fn check_count(partitions: i32, least: usize) -> Result<usize, ApiError> {
    let refused = |message: String| ApiError::new(KafkaError::INVALID_PARTITIONS, message);
    match usize::try_from(partitions) {
        Ok(count) if count > PARTITIONS_MAX => Err(refused(format!(
            "{count} partitions are more than one node of ZooKeeper can hold ({PARTITIONS_MAX})"
        ))),
        Ok(count) if count >= least => Ok(count),
        _ => Err(refused(format!(
            "{partitions} partitions are too few: at least {least} are needed"
        ))),
    }
}

/// Why so many replicas can't be had.
pub fn unplaceable(why: Unplaceable, replication_factor: usize) -> ApiError {
    let message = match why {
        Unplaceable::NoReplicas => "a partition needs at least 1 replica".to_owned(),
        Unplaceable::TooFewBrokers { available } => format!(
            "{replication_factor} replicas need as many brokers, and {available} are registered (the controller hosts none); ask for fewer, or start more brokers"
        ),
    };
    ApiError::new(KafkaError::INVALID_REPLICATION_FACTOR, message)
}

/// The client's own choice, from partition 0 on.
fn check_assignments(
    context: &ControllerContext,
    assignments: &[(i32, Vec<BrokerId>)],
) -> Result<Vec<BrokerIds>, ApiError> {
    let mut by_index = BTreeMap::new();
    for (index, replicas) in assignments {
        if by_index.insert(*index, replicas).is_some() {
            return Err(bad_assignment(format!(
                "partition {index} stands there twice"
            )));
        }
    }
    let expected = 0..;
    if let Some((missing, _)) = expected
        .zip(by_index.keys())
        .find(|(at, index)| at != *index)
    {
        return Err(bad_assignment(format!(
            "partitions are numbered from 0 on without gaps, and {missing} is missing"
        )));
    }
    let factor = by_index.values().next().map_or(0, |first| first.len());
    let lists = by_index.into_iter();
    lists
        .map(|(index, replicas)| check_replicas(context, index, replicas, factor))
        .collect()
}

/// The replicas that a client wants for one partition.
///
/// Where topics are created Java lets brokers pass that nobody ever saw, and that a partition would wait for without end.
/// Brokers that are known and down pass.
///
/// # Errors
/// None, twice the same, another number than the other partitions have, a klamm, or a broker that isn't known.
pub fn check_replicas(
    context: &ControllerContext,
    index: i32,
    replicas: &[BrokerId],
    replication_factor: usize,
) -> Result<BrokerIds, ApiError> {
    if replicas.is_empty() {
        return Err(bad_assignment(format!("partition {index} has no replica")));
    }
    let ids: BrokerIds = replicas.iter().copied().collect();
    let mut seen = BTreeSet::new();
    if let Some(twice) = ids.iter().find(|id| !seen.insert(*id)) {
        // The list may be as long as a frame: it isn't repeated in the answer.
        return Err(bad_assignment(format!(
            "partition {index}: broker {twice} stands there twice"
        )));
    }
    if ids.len() != replication_factor {
        return Err(bad_assignment(format!(
            "partition {index} has {} replicas and others have {replication_factor}; all need as many",
            ids.len()
        )));
    }
    for id in ids.iter() {
        if context.klamm_ids().contains(&id) {
            return Err(bad_assignment(format!(
                "partition {index}: {id} is a controller that hosts no replicas; name a broker"
            )));
        }
        if !context.is_known_broker(id) {
            return Err(bad_assignment(format!(
                "partition {index}: there is no broker {id}"
            )));
        }
    }
    Ok(ids)
}

/// An assignment that can't be.
pub fn bad_assignment(message: String) -> ApiError {
    ApiError::new(KafkaError::INVALID_REPLICA_ASSIGNMENT, message)
}

#[cfg(test)]
mod tests;
