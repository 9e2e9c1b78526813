//! ControllerBrokerRequestBatch: what brokers will be told at the end of a step.
//!
//! A batch is a value: one that isn't finished is dropped whole. (The Java controller keeps one batch per state machine;
//! one that failed half-way stays dirty, and every later event of that machine fails on it.)
//! Must never name a leader that isn't `Committed`, nor reach a broker that isn't registered: klamms are among those.
//! Upstream: `ControllerBrokerRequestBatch` in `ControllerChannelManager.scala`.
//!
//! What is told of a partition is what the context says when it is added, not when the batch is sent: a broker that was
//! told of an election stays told of that state even if a later step of the same batch changes it for others.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::effect::{
    AnnouncedLeadership, ByTopic, ControlRequests, LeaderAndIsrPartition, ReplicaDisposal,
    StopReplicaPartition, UpdateMetadata, UpdateMetadataPartition,
};
use crate::model::{BrokerId, BrokerIds, LeaderEpoch};
use crate::state::Partition;

/// What brokers will be told.
#[derive(Debug, Default)]
pub struct ControllerBrokerRequestBatch {
    leader_and_isr: BTreeMap<BrokerId, Grouped<LeaderAndIsrPartition>>,
    update_metadata_to: UpdateMetadataRecipients,
    update_metadata: Grouped<UpdateMetadataPartition>,
    stop_replica: BTreeMap<BrokerId, Grouped<StopReplicaPartition>>,
}

/// Who gets the batch's UpdateMetadata. One request for all of them: each gets every partition in it.
#[derive(Debug)]
enum UpdateMetadataRecipients {
    /// These.
    These(BTreeSet<BrokerId>),
    /// Every registered broker.
    Everyone,
}

impl Default for UpdateMetadataRecipients {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl ControllerBrokerRequestBatch {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// LeaderAndIsr of `partition` to `recipients`, and the same partition in an UpdateMetadata to all registered brokers.
    ///
    /// The last state added for a broker wins; `is_new` sticks. Nothing is added where no leadership is known. Recipients
    /// that don't host the partition are left out: brokers up to 3.0 mark a partition as failed that they are told of
    /// without hosting it, until they restart. So are those that were told to delete it: they would make it anew.
    pub fn add_leader_and_isr(
        &mut self,
        context: &ControllerContext,
        recipients: &[BrokerId],
        partition: &TopicPartition,
        is_new: bool,
    ) {
        let Some(found) = context.partition(partition) else {
            return;
        };
        let Some(state) = &found.leadership else {
            return;
        };
        let hosting = recipients
            .iter()
            .filter(|id| found.assignment.replicas.contains(**id))
            .filter(|id| !deletion::is_told(found.replica_state(**id)));
        for id in hosting {
            let entry = LeaderAndIsrPartition {
                partition: partition.partition,
                state: state.clone(),
                assignment: found.assignment.clone(),
                is_new,
            };
            let requests = self.leader_and_isr.entry(*id).or_default();
            requests.put(&partition.topic, entry, |before, entry| {
                LeaderAndIsrPartition {
                    is_new: entry.is_new || before.is_new,
                    ..entry
                }
            });
        }
        self.update_metadata_to = UpdateMetadataRecipients::Everyone;
        self.snapshot_metadata(context, partition, found, state);
    }

    /// UpdateMetadata of `partitions` (none: only who is alive) to `recipients`. Recipients and partitions of one batch
    /// are joined: every recipient hears of every partition. Partitions without a known leadership are left out; those
    /// of topics queued for deletion are announced as being deleted.
    pub fn add_update_metadata(
        &mut self,
        context: &ControllerContext,
        recipients: &[BrokerId],
        partitions: &[TopicPartition],
    ) {
        if let UpdateMetadataRecipients::These(ids) = &mut self.update_metadata_to {
            ids.extend(recipients);
        }
        for partition in partitions {
            if let Some(found) = context.partition(partition)
                && let Some(state) = &found.leadership
            {
                self.snapshot_metadata(context, partition, found, state);
            }
        }
    }

    /// StopReplica of one replica. `Delete` sticks; the epoch is that of the last call: the one the context holds, −2 for
    /// topics queued for deletion, −1 only where no leadership is known at all.
    pub fn add_stop_replica(
        &mut self,
        context: &ControllerContext,
        replica: &Replica,
        disposal: ReplicaDisposal,
    ) {
        let Replica { partition, broker } = replica;
        let leader_epoch = if context.is_queued_for_deletion(&partition.topic) {
            LeaderEpoch::DURING_DELETE
        } else {
            let leadership = context.leadership(partition);
            leadership.map_or(LeaderEpoch::NONE, |state| state.leader_epoch)
        };
        let entry = StopReplicaPartition {
            partition: partition.partition,
            leader_epoch,
            disposal,
        };
        let requests = self.stop_replica.entry(*broker).or_default();
        requests.put(&partition.topic, entry, |before, entry| {
            StopReplicaPartition {
                disposal: match before.disposal {
                    ReplicaDisposal::Delete => ReplicaDisposal::Delete,
                    ReplicaDisposal::Keep => entry.disposal,
                },
                ..entry
            }
        });
    }

    /// The requests; `None` if nobody has to be told anything, or there is no term. Who isn't registered is dropped.
    pub fn into_requests(self, context: &ControllerContext) -> Option<ControlRequests> {
        let controller_epoch = context.term()?.epoch;
        let to = self.update_metadata_to.registered(context);
        let requests = ControlRequests {
            controller_epoch,
            protocol: context.protocol(),
            live_brokers: context.announced_brokers(),
            leader_and_isr: by_registered_broker(context, self.leader_and_isr),
            update_metadata: (!to.is_empty()).then(|| UpdateMetadata {
                to,
                number: 0,
                topics: self.update_metadata.into_topics(context).into(),
            }),
            stop_replica: by_registered_broker(context, self.stop_replica),
        };
        let says_nothing = requests.leader_and_isr.is_empty()
            && requests.update_metadata.is_none()
            && requests.stop_replica.is_empty();
        (!says_nothing).then_some(requests)
    }

    fn snapshot_metadata(
        &mut self,
        context: &ControllerContext,
        partition: &TopicPartition,
        found: &Partition,
        state: &Committed<LeaderAndIsr>,
    ) {
        let is_going = context.is_to_be_forgotten(&partition.topic);
        let leadership = if is_going && !planted!(ForgetDuringDelete) {
            AnnouncedLeadership::DuringDelete(state.clone())
        } else {
            AnnouncedLeadership::Committed(state.clone())
        };
        let replicas = found.assignment.replicas.clone();
        let entry = UpdateMetadataPartition {
            partition: partition.partition,
            leadership,
            offline_replicas: offline_replicas(context, partition, &replicas),
            replicas,
        };
        self.update_metadata
            .put(&partition.topic, entry, |_, entry| entry);
    }
}

impl UpdateMetadataRecipients {
    fn registered(self, context: &ControllerContext) -> Vec<BrokerId> {
        match self {
            Self::Everyone => context
                .live_or_shutting_down_brokers()
                .map(|registration| registration.broker.id)
                .collect(),
            Self::These(ids) => ids
                .into_iter()
                .filter(|id| context.is_live_or_shutting_down(*id))
                .collect(),
        }
    }
}

/// Assigned replicas that aren't online; those on brokers that are shutting down are among them.
fn offline_replicas(
    context: &ControllerContext,
    partition: &TopicPartition,
    replicas: &BrokerIds,
) -> BrokerIds {
    let offline = |id: &BrokerId| !context.is_replica_online(*id, partition);
    if replicas.iter().any(|id| offline(&id)) {
        replicas.iter().filter(offline).collect()
    } else {
        BrokerIds::empty()
    }
}

fn by_registered_broker<T: Indexed>(
    context: &ControllerContext,
    requests: BTreeMap<BrokerId, Grouped<T>>,
) -> BTreeMap<BrokerId, Vec<ByTopic<T>>> {
    requests
        .into_iter()
        .filter(|(id, _)| context.is_live_or_shutting_down(*id))
        .map(|(id, grouped)| (id, grouped.into_topics(context)))
        .collect()
}

/// What has the index of a partition.
trait Indexed {
    fn index(&self) -> i32;
}

impl Indexed for LeaderAndIsrPartition {
    fn index(&self) -> i32 {
        self.partition
    }
}

impl Indexed for UpdateMetadataPartition {
    fn index(&self) -> i32 {
        self.partition
    }
}

impl Indexed for StopReplicaPartition {
    fn index(&self) -> i32 {
        self.partition
    }
}

/// Entries by topic and in the order of their indexes, in the shape that the request wants them: nothing is copied at
/// the end. Steps go through partitions in order, so that nearly every entry is appended to the topic at hand.
#[derive(Debug)]
struct Grouped<T> {
    /// The topic that the last entry was of; not in `topics` meanwhile.
    at_hand: Option<(TopicName, Vec<T>)>,
    topics: BTreeMap<TopicName, Vec<T>>,
}

impl<T> Default for Grouped<T> {
    fn default() -> Self {
        Grouped {
            at_hand: None,
            topics: BTreeMap::new(),
        }
    }
}

impl<T: Indexed> Grouped<T> {
    /// Adds an entry; where there is one for the partition, `merge` (what was there, what comes) makes the new one.
    fn put(&mut self, topic: &TopicName, entry: T, merge: impl FnOnce(&T, T) -> T) {
        let mut entries = self.take(topic);
        let index = entry.index();
        if entries.len() == entries.capacity() {
            // By halves, not doubled from four on: most topics have few partitions, and there may be very many topics.
            entries.reserve_exact(1 + entries.len() / 2);
        }
        if entries.last().is_none_or(|last| last.index() < index) {
            entries.push(entry);
        } else {
            match entries.binary_search_by_key(&index, Indexed::index) {
                Ok(slot) => entries[slot] = merge(&entries[slot], entry),
                Err(slot) => entries.insert(slot, entry),
            }
        }
        self.at_hand = Some((topic.clone(), entries));
    }

    /// Takes the entries of a topic out, and puts those of another topic that was at hand away.
    fn take(&mut self, topic: &TopicName) -> Vec<T> {
        match self.at_hand.take() {
            Some((at_hand, entries)) if at_hand == *topic => entries,
            Some((other, entries)) => {
                self.topics.insert(other, entries);
                self.topics.remove(topic).unwrap_or_default()
            }
            None => self.topics.remove(topic).unwrap_or_default(),
        }
    }

    fn into_topics(mut self, context: &ControllerContext) -> Vec<ByTopic<T>> {
        self.topics.extend(self.at_hand.take());
        self.topics
            .into_iter()
            .map(|(topic, partitions)| ByTopic {
                topic_id: context.topic(&topic).and_then(|found| found.id),
                topic,
                partitions,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
