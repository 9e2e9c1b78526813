//! TopicDeletionManager: which topics queued for deletion are finished, may be started or tried again, and why the
//! others wait.
//!
//! ```text
//!   queued ─► replicas Offline ─► DeletionStarted ── no error ──► DeletionSuccessful ── all of them ──► nodes removed
//!                  ▲                     │ error, broker gone
//!                  └── cause is gone ─── DeletionIneligible
//! ```
//!
//! Must never leave a topic waiting without a reason, nor call a replica deleted that its broker didn't. Upstream:
//! `TopicDeletionManager.scala`. Differences that are meant:
//! - Why a topic waits is found anew from the context at each look. Upstream keeps a set that is changed by hand, and what
//!   nobody takes out of it waits until the next failover.
//! - At a failover the replicas that can be deleted are, though others of the topic are away. Upstream waits for all.
//! - A refused StopReplica is sent again with the next sweep. Upstream waits for some broker's return.
//! - A replica that was assigned to a klamm is nowhere, so nobody waits for it.

use std::collections::BTreeMap;

use super::*;
use crate::effect::{PartitionErrors, TopicReference};
use crate::model::{BrokerId, KafkaError};
pub use crate::state::Ineligible;
use crate::state::Topic;

use super::partition::LocalPartitionStep;
use super::replica::LocalReplicaStep;

/// What a look at all queued topics comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Review {
    /// All their replicas are deleted: their nodes go.
    pub finish: Vec<TopicName>,
    /// Some of their replicas can be deleted now.
    pub start: Vec<TopicName>,
    /// They wait, and why; some of them may be started in part.
    pub halted: Vec<(TopicName, Ineligible)>,
    /// They waited, and don't any more.
    pub resumed: Vec<TopicName>,
}

/// What to say of a topic that is to be deleted and can't be, because its node can't be understood.
pub fn unreadable(topic: &TopicName) -> String {
    format!(
        "/admin/delete_topics/{topic}: the topic can't be deleted, because its node /brokers/topics/{topic} can't be understood; repair it, or remove both nodes and the topic's folders on the brokers"
    )
}

/// Looks at every topic queued for deletion.
pub fn review(context: &ControllerContext) -> Review {
    let mut review = Review::default();
    for name in context.topics_to_be_deleted() {
        let judged = match context.topic(name) {
            Some(topic) => judge(context, name, topic),
            None => Judged::finished(),
        };
        match judged.step {
            Step::Finish => review.finish.push(name.clone()),
            Step::Start => review.start.push(name.clone()),
            Step::None => {}
        }
        match judged.why {
            Some(why) => review.halted.push((name.clone(), why)),
            None if context.ineligible_for_deletion(name).is_some() => {
                review.resumed.push(name.clone());
            }
            None => {}
        }
    }
    review
}

enum Step {
    Finish,
    Start,
    /// An answer, or somebody's return, is waited for.
    None,
}

struct Judged {
    step: Step,
    why: Option<Ineligible>,
}

impl Judged {
    fn finished() -> Judged {
        Judged {
            step: Step::Finish,
            why: None,
        }
    }
}

fn judge(context: &ControllerContext, name: &TopicName, topic: &Topic) -> Judged {
    let refusal = context
        .ineligible_for_deletion(name)
        .filter(|why| why.is_a_refusal());
    let (mut is_finished, mut is_under_way, mut can_start) = (true, false, false);
    let mut obstacle = None;
    for (at, replica, state) in replicas(context, name, topic) {
        is_finished &= state == ReplicaState::DeletionSuccessful;
        is_under_way |= state == ReplicaState::DeletionStarted;
        if is_told(state) {
            continue;
        }
        if context.is_replica_online(replica, &at) {
            can_start = true;
        } else if obstacle.is_none() {
            obstacle = Some(if context.is_live(replica) {
                Ineligible::LogDirFailed(replica)
            } else {
                Ineligible::BrokerDown(replica)
            });
        }
    }
    if is_finished {
        return Judged {
            step: Step::Finish,
            // Why its nodes could not be removed before, until they are.
            why: refusal
                .filter(|why| matches!(why, Ineligible::ZooKeeperRefused(_)))
                .cloned(),
        };
    }
    let mut partitions = topic.partitions.values();
    if partitions.any(|found| found.assignment.is_being_reassigned()) {
        return Judged {
            step: Step::None,
            why: Some(Ineligible::Reassigning),
        };
    }
    // Also where nobody can delete anything yet: clients are to lose the topic.
    let can_start = can_start || !context.is_deletion_begun(name);
    let step = match refusal {
        None if can_start && !is_under_way => Step::Start,
        _ => Step::None,
    };
    Judged {
        step,
        why: refusal.cloned().or(obstacle),
    }
}

/// Told to delete its log, whether it has answered or not.
pub fn is_told(state: ReplicaState) -> bool {
    matches!(
        state,
        ReplicaState::DeletionStarted | ReplicaState::DeletionSuccessful
    )
}

/// The replicas of a topic that somebody may hold, and where each stands.
fn replicas<'a>(
    context: &'a ControllerContext,
    name: &'a TopicName,
    topic: &'a Topic,
) -> impl Iterator<Item = (TopicPartition, BrokerId, ReplicaState)> + 'a {
    topic.partitions.iter().flat_map(move |(index, found)| {
        let at = TopicPartition::new(name, *index);
        let genuine = found.assignment.replicas.iter();
        genuine
            .filter(|id| !context.klamm_ids().contains(id))
            .map(move |id| (at.clone(), id, found.replica_state(id)))
            .collect::<Vec<_>>()
    })
}

/// Notes what a look found; returns the topics whose reason to wait is news.
pub fn note(context: &mut ControllerContext, review: &Review) -> Vec<(TopicName, Ineligible)> {
    for topic in &review.resumed {
        context.mark_eligible_for_deletion(topic);
    }
    let halted = review.halted.iter();
    halted
        .filter(|(topic, why)| context.mark_ineligible_for_deletion(topic, why.clone()))
        .cloned()
        .collect()
}

/// Partitions of topics whose deletion begins, of which nobody knows whether they were led.
pub fn without_leadership(
    context: &ControllerContext,
    topics: &[TopicName],
) -> Vec<TopicPartition> {
    let begins = topics
        .iter()
        .filter(|name| !context.is_deletion_begun(name));
    let unled = begins.flat_map(|name| {
        let partitions = context.topic(name).map(|topic| &topic.partitions);
        let unled = partitions.into_iter().flatten();
        let unled = unled.filter(|(_, partition)| partition.leadership.is_none());
        unled.map(|(index, _)| TopicPartition::new(name, *index))
    });
    unled.collect()
}

/// Begins the deletion of topics, as far as it isn't yet: their partitions are no more. Returns all their partitions.
pub fn begin(
    context: &mut ControllerContext,
    topics: &[TopicName],
) -> (Vec<TopicPartition>, Vec<Refused>) {
    let mut all = Vec::new();
    let mut refused = Vec::new();
    for topic in topics {
        let indexes = context.topic(topic).map(|found| found.partitions.keys());
        let partitions: Vec<TopicPartition> = indexes
            .into_iter()
            .flatten()
            .map(|index| TopicPartition::new(topic, *index))
            .collect();
        if !context.is_deletion_begun(topic) {
            for step in [LocalPartitionStep::Offline, LocalPartitionStep::NonExistent] {
                let unseen = partition::handle_state_changes(context, &partitions, step);
                refused.extend(unseen);
            }
            // Afterwards, so that the count of offline partitions follows.
            context.begin_deletion(topic);
        }
        all.extend(partitions);
    }
    (all, refused)
}

/// The replicas of topics that were not told to delete their logs, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Untold {
    /// They can be told now.
    pub online: Vec<Replica>,
    /// Their broker or log directory is away.
    pub away: Vec<Replica>,
}

/// Who of these topics is to be told to delete its log.
pub fn untold(context: &ControllerContext, topics: &[TopicName]) -> Untold {
    let mut untold = Untold::default();
    for name in topics {
        let Some(topic) = context.topic(name) else {
            continue;
        };
        for (partition, broker, state) in replicas(context, name, topic) {
            if is_told(state) {
                continue;
            }
            let is_online = context.is_replica_online(broker, &partition);
            let replica = Replica { partition, broker };
            match is_online {
                true => untold.online.push(replica),
                false => untold.away.push(replica),
            }
        }
    }
    untold
}

/// Once they are Offline: those that are online are told to delete their logs, the others are given up for now. Topics
/// of replicas that didn't get Offline wait: their states could not be written.
pub fn tell(
    context: &mut ControllerContext,
    untold: &Untold,
    batch: &mut ControllerBrokerRequestBatch,
) -> Vec<(TopicName, Ineligible)> {
    let is_offline = |context: &ControllerContext, replica: &&Replica| {
        context.replica_state(replica) == ReplicaState::Offline
    };
    let (ready, stuck): (Vec<&Replica>, Vec<&Replica>) = untold
        .online
        .iter()
        .partition(|replica| is_offline(context, replica));
    let ready: Vec<Replica> = ready.into_iter().cloned().collect();
    let away = untold.away.iter();
    let away: Vec<Replica> = away
        .filter(|replica| is_offline(context, replica))
        .cloned()
        .collect();
    let stuck: BTreeMap<TopicName, TopicPartition> = stuck
        .into_iter()
        .map(|replica| (replica.partition.topic.clone(), replica.partition.clone()))
        .collect();
    // Each is Offline, from where both steps are legal.
    replica::handle_state_changes(context, &away, LocalReplicaStep::DeletionIneligible, batch);
    replica::handle_state_changes(context, &ready, LocalReplicaStep::DeletionStarted, batch);
    let mut news = Vec::new();
    for (topic, partition) in stuck {
        let why = Ineligible::ZooKeeperRefused(format!(
            "the state of partition {partition} could not be changed"
        ));
        if context.mark_ineligible_for_deletion(&topic, why.clone()) {
            news.push((topic, why));
        }
    }
    news
}

/// What became of the replicas that a broker was told to delete.
///
/// An answer that leaves a partition out, or that is an error as a whole, has deleted nothing: upstream takes no notice
/// of the former and the deletion hangs. One that names a failed log directory is remembered as such. Returns the topics whose reason to wait is news.
pub fn take_answer(
    context: &mut ControllerContext,
    broker: BrokerId,
    deleted: &[TopicPartition],
    response: &PartitionErrors,
) -> Vec<(TopicName, Ineligible)> {
    let mut codes: BTreeMap<TopicPartition, KafkaError> = BTreeMap::new();
    for (topic, index, error) in &response.partitions {
        let name = match topic {
            TopicReference::Name(name) => Some(name),
            TopicReference::Id(id) => context.topic_name(*id),
        };
        if let Some(name) = name {
            codes.insert(TopicPartition::new(name, *index), *error);
        }
    }
    let mut news = Vec::new();
    for partition in deleted {
        let replica = Replica {
            partition: partition.clone(),
            broker,
        };
        let is_awaited = context.is_deletion_begun(&partition.topic)
            && context.replica_state(&replica) == ReplicaState::DeletionStarted;
        if !is_awaited {
            continue;
        }
        let error = if response.error.is_none() {
            let named = codes.get(partition).copied();
            named.unwrap_or(KafkaError::UNKNOWN_SERVER_ERROR)
        } else {
            response.error
        };
        if error.is_none() || planted!(TakeRefusalForDeleted) {
            context.put_replica_state(&replica, ReplicaState::DeletionSuccessful);
            continue;
        }
        context.put_replica_state(&replica, ReplicaState::DeletionIneligible);
        if error == KafkaError::KAFKA_STORAGE_ERROR {
            // The broker says the same of it in its answers to LeaderAndIsr, and so it says when that is over.
            context.set_replica_on_offline_dir(&replica, true);
            continue;
        }
        let why = Ineligible::StopReplicaRefused { broker, error };
        if context.mark_ineligible_for_deletion(&partition.topic, why.clone()) {
            news.push((partition.topic.clone(), why));
        }
    }
    news
}

/// Replicas of queued topics went away, and have left their in-sync sets: none of them can be deleted for now. What was
/// told to delete its log can't answer any more; what answered stays deleted.
pub fn fail_replicas(context: &mut ControllerContext, replicas: &[Replica]) {
    for replica in replicas {
        let state = context.replica_state(replica);
        if matches!(state, ReplicaState::Offline | ReplicaState::DeletionStarted) {
            context.put_replica_state(replica, ReplicaState::DeletionIneligible);
        }
    }
}

/// A broker starts: what an earlier life of it was told to delete and has not answered is told again. It was taken note of
/// when that life ended, unless ZooKeeper refused something then.
pub fn forget_orders(context: &mut ControllerContext, broker: BrokerId) {
    for replica in context.replicas_on(broker) {
        if context.replica_state(&replica) == ReplicaState::DeletionStarted {
            context.put_replica_state(&replica, ReplicaState::DeletionIneligible);
        }
    }
}

/// Whether a replica of a queued topic still takes part in its partition, so that it can leave it.
pub fn takes_part(context: &ControllerContext, replica: &Replica) -> bool {
    matches!(
        context.replica_state(replica),
        ReplicaState::New | ReplicaState::Online
    )
}

/// What was refused before may be tried again: everywhere, or for the topics that have a replica on these brokers.
pub fn forget_refusals(context: &mut ControllerContext, on: Option<&[BrokerId]>) {
    let refused = context.topics_ineligible_for_deletion().iter();
    let again: Vec<TopicName> = refused
        .filter(|(_, why)| why.is_a_refusal())
        .map(|(name, _)| name)
        .filter(|name| match (on, context.topic(name)) {
            (Some(ids), Some(topic)) => {
                let mut partitions = topic.partitions.values();
                partitions.any(|found| ids.iter().any(|id| found.assignment.replicas.contains(*id)))
            }
            (None, _) | (_, None) => true,
        })
        .cloned()
        .collect();
    for topic in &again {
        context.mark_eligible_for_deletion(topic);
    }
}

#[cfg(test)]
mod tests;
