//! ControllerContext: all that the controller knows of the cluster.
//!
//! Every method that changes a partition keeps the indexes and the counts in step in the same call, and none walks all
//! partitions to answer for a few. Must never be changed by anything but the `apply` functions in `machine` and the load
//! at failover. Upstream: `ControllerContext.scala`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::deletion::{Deletion, Ineligible};
use super::gauges::{Tally, TopicStanding};
use super::index::{Indexes, is_leaderless, leader_of};
use super::reassignment::{Reassignments, Waiting};
use super::{Gauges, Partition, PartitionState, Partitions, ReplicaState, Topic};
use crate::effect::{Committed, Term};
use crate::model::{
    Broker, BrokerId, BrokerIds, BrokerRegistration, InterBrokerProtocol, LeaderAndIsr, Replica,
    ReplicaAssignment, TopicId, TopicName, TopicPartition,
};
use crate::planted::planted;

/// The controller's whole memory.
#[derive(Debug)]
pub struct ControllerContext {
    term: Option<Term>,
    protocol: InterBrokerProtocol,
    klamm_ids: BTreeSet<BrokerId>,
    own_broker: Option<Broker>,
    pub(super) brokers: BTreeMap<BrokerId, BrokerRegistration>,
    pub(super) shutting_down: BTreeSet<BrokerId>,
    pub(super) offline_dirs: BTreeMap<BrokerId, BTreeSet<TopicPartition>>,
    pub(super) topics: BTreeMap<TopicName, Topic>,
    pub(super) deletion: Deletion,
    pub(super) reassignments: Reassignments,
    /// Brokers that were registered in this term.
    seen: BTreeSet<BrokerId>,
    pub(super) indexes: Indexes,
    pub(super) tally: Tally,
    unclean_leader_elections: u64,
}

impl Default for ControllerContext {
    fn default() -> ControllerContext {
        ControllerContext::new()
    }
}

impl ControllerContext {
    /// Empty, at the oldest protocol: nothing newer is switched on before somebody says so.
    pub fn new() -> ControllerContext {
        ControllerContext {
            term: None,
            protocol: InterBrokerProtocol::OLDEST,
            klamm_ids: BTreeSet::new(),
            own_broker: None,
            brokers: BTreeMap::new(),
            shutting_down: BTreeSet::new(),
            offline_dirs: BTreeMap::new(),
            topics: BTreeMap::new(),
            deletion: Deletion::default(),
            reassignments: Reassignments::default(),
            seen: BTreeSet::new(),
            indexes: Indexes::default(),
            tally: Tally::default(),
            unclean_leader_elections: 0,
        }
    }

    /// Forgets the term and all that was read in it: the role is gone, or a new term begins. What is known of this
    /// process and of its kind stays: our own entry, the klamms' ids, the last known protocol, the count of unclean
    /// elections.
    pub fn reset(&mut self) {
        planted!(KeepContext => {
            self.term = None;
            return;
        });
        *self = ControllerContext {
            protocol: self.protocol,
            klamm_ids: std::mem::take(&mut self.klamm_ids),
            own_broker: self.own_broker.take(),
            unclean_leader_elections: self.unclean_leader_elections,
            ..ControllerContext::new()
        };
    }

    // --- term, protocol, klamm's own

    /// Our term.
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// Begins a term.
    pub fn begin_term(&mut self, term: Term) {
        self.term = Some(term);
    }

    /// The cluster's protocol: the minimum over its brokers.
    pub fn protocol(&self) -> InterBrokerProtocol {
        self.protocol
    }

    /// Sets it.
    pub fn set_protocol(&mut self, protocol: InterBrokerProtocol) {
        self.protocol = protocol;
    }

    /// Ids that klamms use or used: never live brokers, never leaders, never in an in-sync set.
    pub fn klamm_ids(&self) -> &BTreeSet<BrokerId> {
        &self.klamm_ids
    }

    /// Sets them. One that was taken for a live broker is none any more.
    pub fn set_klamm_ids(&mut self, ids: BTreeSet<BrokerId>) {
        if ids == self.klamm_ids {
            return;
        }
        for id in &ids {
            self.remove_live_broker(*id);
        }
        self.klamm_ids = ids;
        self.tally = self.recount();
    }

    /// Sets our own entry in live_brokers of UpdateMetadata.
    pub fn set_own_broker(&mut self, own: Broker) {
        self.own_broker = Some(own);
    }

    /// Our own entry.
    pub fn own_broker(&self) -> Option<&Broker> {
        self.own_broker.as_ref()
    }

    // --- brokers (genuine ones only)

    /// Adds or replaces a live broker. One of ours is no broker: it is left out. A new incarnation isn't shutting down,
    /// whatever the one before it was doing.
    pub fn add_live_broker(&mut self, registration: BrokerRegistration) {
        let id = registration.broker.id;
        if self.klamm_ids.contains(&id) {
            return;
        }
        let epoch = registration.epoch;
        self.seen.insert(id);
        let before = self.brokers.insert(id, registration);
        if before.is_some_and(|before| before.epoch != epoch) {
            self.shutting_down.remove(&id);
        }
    }

    /// Removes one, with its shutting-down mark.
    pub fn remove_live_broker(&mut self, id: BrokerId) -> Option<BrokerRegistration> {
        self.shutting_down.remove(&id);
        self.brokers.remove(&id)
    }

    /// Registered (live or shutting down).
    pub fn registration(&self, id: BrokerId) -> Option<&BrokerRegistration> {
        self.brokers.get(&id)
    }

    /// All registered, by id.
    pub fn live_or_shutting_down_brokers(&self) -> impl Iterator<Item = &BrokerRegistration> {
        self.brokers.values()
    }

    /// Registered and not shutting down.
    pub fn is_live(&self, id: BrokerId) -> bool {
        self.brokers.contains_key(&id) && !self.shutting_down.contains(&id)
    }

    /// Registered.
    pub fn is_live_or_shutting_down(&self, id: BrokerId) -> bool {
        self.brokers.contains_key(&id)
    }

    /// Marks a registered broker as leaving. The mark goes with the registration.
    pub fn begin_shutting_down(&mut self, id: BrokerId) {
        if self.brokers.contains_key(&id) {
            self.shutting_down.insert(id);
        }
    }

    /// Those leaving.
    pub fn shutting_down(&self) -> &BTreeSet<BrokerId> {
        &self.shutting_down
    }

    /// live_brokers of a request: all registered and ourselves, by id.
    pub fn announced_brokers(&self) -> Arc<[Broker]> {
        let genuine = self.brokers.values().map(|registered| &registered.broker);
        let mut announced: Vec<&Broker> = genuine.chain(&self.own_broker).collect();
        announced.sort_by_key(|broker| broker.id);
        announced.into_iter().cloned().collect()
    }

    /// Whether this id is a genuine broker's as far as anybody can tell: it was registered in this term, or a replica is
    /// assigned to it.
    pub fn is_known_broker(&self, id: BrokerId) -> bool {
        !self.klamm_ids.contains(&id)
            && (self.seen.contains(&id) || self.indexes.hosted.contains_key(&id))
    }

    // --- offline log directories

    /// Marks or clears a replica as on a failed log directory; true if that changed anything.
    pub fn set_replica_on_offline_dir(&mut self, replica: &Replica, offline: bool) -> bool {
        if offline {
            let marked = self.offline_dirs.entry(replica.broker).or_default();
            return marked.insert(replica.partition.clone());
        }
        let Some(marked) = self.offline_dirs.get_mut(&replica.broker) else {
            return false;
        };
        let was_marked = marked.remove(&replica.partition);
        if marked.is_empty() {
            self.offline_dirs.remove(&replica.broker);
        }
        was_marked
    }

    /// Forgets a broker's failed directories (it restarted, or died).
    pub fn clear_offline_dirs(&mut self, id: BrokerId) {
        self.offline_dirs.remove(&id);
    }

    /// Live, not shutting down, and not on a failed directory.
    pub fn is_replica_online(&self, id: BrokerId, partition: &TopicPartition) -> bool {
        self.is_live(id) && !self.is_on_offline_dir(id, partition)
    }

    /// Registered (also shutting down), and not on a failed directory.
    pub fn is_replica_online_or_shutting_down(
        &self,
        id: BrokerId,
        partition: &TopicPartition,
    ) -> bool {
        self.is_live_or_shutting_down(id) && !self.is_on_offline_dir(id, partition)
    }

    fn is_on_offline_dir(&self, id: BrokerId, partition: &TopicPartition) -> bool {
        let marked = self.offline_dirs.get(&id);
        marked.is_some_and(|marked| marked.contains(partition)) && !planted!(IgnoreFailedDirs)
    }

    // --- topics

    /// All topics by name.
    pub fn topics(&self) -> &BTreeMap<TopicName, Topic> {
        &self.topics
    }

    /// One topic.
    pub fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// The name of a topic id.
    pub fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.indexes.topic_names.get(&id)
    }

    /// Adds the topic if new; sets id and znode version.
    pub fn put_topic(&mut self, name: &TopicName, id: Option<TopicId>, znode_version: i32) {
        let before = match self.topics.get_mut(name) {
            Some(topic) => {
                topic.znode_version = znode_version;
                std::mem::replace(&mut topic.id, id)
            }
            None => {
                let topic = Topic {
                    id,
                    znode_version,
                    partitions: Partitions::default(),
                };
                self.topics.insert(name.clone(), topic);
                None
            }
        };
        if before != id {
            self.forget_topic_id(name, before);
            if let Some(id) = id {
                self.indexes.topic_names.insert(id, name.clone());
            }
        }
    }

    /// Forgets a topic and all that hangs on it.
    pub fn remove_topic(&mut self, name: &TopicName) {
        let standing = self.deletion.standing(name);
        if let Some(topic) = self.topics.remove(name) {
            self.forget_topic_id(name, topic.id);
            for (index, partition) in topic.partitions.iter() {
                let tally = Tally::of(partition, standing, &self.klamm_ids);
                if !planted!(MiscountRemoved) {
                    self.tally.subtract(tally);
                }
                let at = TopicPartition::new(name, *index);
                self.indexes.remove(&at, partition);
                self.reassignments.set(&at, None);
            }
        }
        self.deletion.forget(name);
        // Left behind, the mark of a failed directory would hold against a later topic of the same name.
        self.offline_dirs.retain(|_, marked| {
            marked.retain(|partition| partition.topic != *name);
            !marked.is_empty()
        });
    }

    fn forget_topic_id(&mut self, name: &TopicName, id: Option<TopicId>) {
        if let Some(id) = id
            && self.indexes.topic_names.get(&id) == Some(name)
        {
            self.indexes.topic_names.remove(&id);
        }
    }

    /// One partition.
    pub fn partition(&self, partition: &TopicPartition) -> Option<&Partition> {
        let topic = self.topics.get(&partition.topic)?;
        topic.partitions.get(&partition.partition)
    }

    /// Sets a partition's assignment, adding the partition if it is new. Without its topic it is ignored.
    pub fn put_assignment(&mut self, partition: &TopicPartition, assignment: ReplicaAssignment) {
        let Some(topic) = self.topics.get_mut(&partition.topic) else {
            return;
        };
        topic.partitions.insert_new(partition.partition, || {
            Partition::new(ReplicaAssignment::none())
        });
        self.change(partition, |found, indexes| {
            let before = std::mem::replace(&mut found.assignment, assignment);
            indexes.reassigned(partition, &before, &found.assignment);
        });
        if !self.indexes.moving.contains(partition) {
            self.reassignments.set(partition, None);
        }
    }

    /// Assigned replicas; empty if unknown.
    pub fn replicas(&self, partition: &TopicPartition) -> BrokerIds {
        match self.partition(partition) {
            Some(found) => found.assignment.replicas.clone(),
            None => BrokerIds::empty(),
        }
    }

    /// What ZooKeeper holds.
    pub fn leadership(&self, partition: &TopicPartition) -> Option<&Committed<LeaderAndIsr>> {
        self.partition(partition)?.leadership.as_ref()
    }

    /// Notes what ZooKeeper holds. A partition that isn't assigned is ignored.
    pub fn put_leadership(&mut self, partition: &TopicPartition, state: Committed<LeaderAndIsr>) {
        self.change(partition, |found, indexes| {
            indexes.led_by(partition, leader_of(found), Some(state.leader));
            found.leadership = Some(state);
        });
    }

    /// Every partition with a known leadership (leader −1 included), in order.
    pub fn partitions_with_leadership(&self) -> Vec<TopicPartition> {
        self.select(|partition| partition.leadership.is_some())
    }

    /// Every replica on a broker, in order.
    pub fn replicas_on(&self, id: BrokerId) -> Vec<Replica> {
        let hosted = self.indexes.hosted.get(&id).into_iter().flatten();
        hosted
            .map(|partition| Replica {
                partition: partition.clone(),
                broker: id,
            })
            .collect()
    }

    /// Every replica there is, by partition and then by broker.
    pub fn all_replicas(&self) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for (name, topic) in &self.topics {
            for (index, partition) in &topic.partitions {
                let at = TopicPartition::new(name, *index);
                let first = replicas.len();
                replicas.extend(partition.assignment.replicas.iter().map(|broker| Replica {
                    partition: at.clone(),
                    broker,
                }));
                replicas[first..].sort_unstable_by_key(|replica| replica.broker);
            }
        }
        replicas
    }

    /// Partitions with a leadership whose leader replica is not online, in order; topics being deleted left out, but not
    /// those that move first.
    pub fn partitions_with_offline_leader(&self) -> Vec<TopicPartition> {
        let mut offline: Vec<TopicPartition> = Vec::new();
        for (leader, led) in &self.indexes.led {
            if !self.is_live(*leader) {
                offline.extend(led.iter().cloned());
            } else if let Some(marked) = self.offline_dirs.get(leader) {
                offline.extend(led.intersection(marked).cloned());
            }
        }
        if !self.deletion.queued.is_empty() {
            offline.retain(|partition| !self.is_to_be_forgotten(&partition.topic));
        }
        offline.sort_unstable();
        offline
    }

    /// Partitions in one of these states, in order.
    pub fn partitions_in(&self, states: &[PartitionState]) -> Vec<TopicPartition> {
        if !states.iter().all(|state| is_leaderless(*state)) {
            return self.select(|partition| states.contains(&partition.state));
        }
        let leaderless = self.indexes.leaderless.iter();
        leaderless
            .filter(|partition| states.contains(&self.partition_state(partition)))
            .cloned()
            .collect()
    }

    /// Where a partition stands; NonExistent if unknown.
    pub fn partition_state(&self, partition: &TopicPartition) -> PartitionState {
        self.partition(partition)
            .map_or(PartitionState::NonExistent, |found| found.state)
    }

    /// Sets it. A partition that isn't assigned is ignored.
    pub fn put_partition_state(&mut self, partition: &TopicPartition, state: PartitionState) {
        self.change(partition, |found, indexes| {
            indexes.moved(partition, found.state, state);
            found.state = state;
        });
    }

    /// Where a replica stands; NonExistent if unknown.
    pub fn replica_state(&self, replica: &Replica) -> ReplicaState {
        self.partition(&replica.partition)
            .map_or(ReplicaState::NonExistent, |found| {
                found.replica_state(replica.broker)
            })
    }

    /// Sets it (NonExistent drops the entry). A replica of a partition that isn't there is ignored.
    pub fn put_replica_state(&mut self, replica: &Replica, state: ReplicaState) {
        self.change(&replica.partition, |found, _| {
            found.set_replica_state(replica.broker, state);
        });
    }

    // --- deletion

    /// Queued for deletion.
    pub fn is_queued_for_deletion(&self, topic: &TopicName) -> bool {
        !self.deletion.queued.is_empty() && self.deletion.queued.contains(topic)
    }

    /// Whether brokers are to forget the topic. One that is to be deleted, but moves, stays known until it has moved: to a
    /// follower that fetches what its leader's metadata don't know, the leader answers that it doesn't exist, so the
    /// replica that the deletion waits for would never catch up. It is led, too, as long. Java hides it at once, and leaves
    /// it without a leader when that dies.
    pub fn is_to_be_forgotten(&self, topic: &TopicName) -> bool {
        let moves = |found: &Topic| {
            let mut partitions = found.partitions.values();
            partitions.any(|partition| partition.assignment.is_being_reassigned())
        };
        self.is_queued_for_deletion(topic)
            && (self.is_deletion_begun(topic) || !self.topic(topic).is_some_and(moves))
    }

    /// Marks a topic's deletion as begun; the gauges follow. Queuing it again changes nothing.
    pub fn queue_for_deletion(&mut self, topic: &TopicName) {
        self.change_standing(topic, |deletion| {
            deletion.queued.insert(topic.clone());
        });
    }

    /// Marks a topic's deletion as begun, and queued if it wasn't.
    pub fn begin_deletion(&mut self, topic: &TopicName) {
        self.change_standing(topic, |deletion| {
            deletion.queued.insert(topic.clone());
            deletion.begun.insert(topic.clone());
        });
    }

    /// Deletion begun.
    pub fn is_deletion_begun(&self, topic: &TopicName) -> bool {
        self.deletion.begun.contains(topic)
    }

    /// The topics queued for deletion.
    pub fn topics_to_be_deleted(&self) -> &BTreeSet<TopicName> {
        &self.deletion.queued
    }

    /// Halts the deletion of a queued topic; whether the reason is news. One that isn't queued is ignored.
    pub fn mark_ineligible_for_deletion(&mut self, topic: &TopicName, why: Ineligible) -> bool {
        self.is_queued_for_deletion(topic) && self.deletion.set_ineligible(topic, Some(why))
    }

    /// Lets the deletion of a topic go on.
    pub fn mark_eligible_for_deletion(&mut self, topic: &TopicName) {
        self.deletion.set_ineligible(topic, None);
    }

    /// Why the deletion of a topic waits, if it does.
    pub fn ineligible_for_deletion(&self, topic: &TopicName) -> Option<&Ineligible> {
        self.deletion.ineligible().get(topic)
    }

    /// Every topic whose deletion waits, and why.
    pub fn topics_ineligible_for_deletion(&self) -> &BTreeMap<TopicName, Ineligible> {
        self.deletion.ineligible()
    }

    /// Queued for deletion, and nothing halts it.
    pub fn is_eligible_for_deletion(&self, topic: &TopicName) -> bool {
        self.is_queued_for_deletion(topic) && self.ineligible_for_deletion(topic).is_none()
    }

    // --- reassignment

    /// Partitions that are being reassigned.
    pub fn partitions_being_reassigned(&self) -> &BTreeSet<TopicPartition> {
        &self.indexes.moving
    }

    /// Notes what the reassignment of a partition waits for; whether that is news. One that isn't being reassigned is
    /// ignored.
    pub fn set_reassignment_waiting(&mut self, at: &TopicPartition, why: Waiting) -> bool {
        self.indexes.moving.contains(at) && self.reassignments.set(at, Some(why))
    }

    /// Forgets what the reassignment of a partition waits for: it is tried again.
    pub fn forget_reassignment_waiting(&mut self, at: &TopicPartition) {
        self.reassignments.set(at, None);
    }

    /// What the reassignments wait for that were looked at.
    pub fn reassignments_waiting(&self) -> &BTreeMap<TopicPartition, Waiting> {
        self.reassignments.waiting()
    }

    // --- counts

    /// The counts.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            offline_partitions: self.tally.offline_partitions,
            preferred_replica_imbalance: self.tally.preferred_replica_imbalance,
            topics: self.topics.len() as u64,
            partitions: self.tally.partitions,
            active_brokers: self.brokers.len() as u64,
            topics_to_delete: self.deletion.queued.len() as u64,
            replicas_to_delete: self.tally.replicas_to_delete,
            topics_ineligible_to_delete: self.deletion.ineligible().len() as u64,
            deletions_waiting: self.deletion.waiting(),
            replicas_ineligible_to_delete: self.tally.replicas_ineligible_to_delete,
            assignments_naming_klamm: self.tally.assignments_naming_klamm,
            replicas_on_failed_log_dirs: self.replicas_on_failed_log_dirs(),
            partitions_being_reassigned: self.indexes.moving.len() as u64,
            reassignments_waiting: self.reassignments.counts(),
            unclean_leader_elections: self.unclean_leader_elections,
        }
    }

    fn replicas_on_failed_log_dirs(&self) -> u64 {
        let marked = self.offline_dirs.values();
        marked.map(|marked| marked.len() as u64).sum()
    }

    /// One more unclean election.
    pub fn count_unclean_election(&mut self) {
        self.unclean_leader_elections += 1;
    }

    /// What the gauges should say, counted anew.
    pub(super) fn recount(&self) -> Tally {
        let mut tally = Tally::default();
        for (name, topic) in &self.topics {
            tally.add(self.tally_of_topic(topic, self.deletion.standing(name)));
        }
        tally
    }

    fn tally_of_topic(&self, topic: &Topic, standing: TopicStanding) -> Tally {
        let mut tally = Tally::default();
        for partition in topic.partitions.values() {
            tally.add(Tally::of(partition, standing, &self.klamm_ids));
        }
        tally
    }

    /// The one way to change a partition: what it contributed to the counts is taken out, what it contributes is put in.
    fn change(&mut self, at: &TopicPartition, how: impl FnOnce(&mut Partition, &mut Indexes)) {
        let standing = self.deletion.standing(&at.topic);
        let found = self.topics.get_mut(&at.topic);
        let Some(found) = found.and_then(|topic| topic.partitions.get_mut(at.partition)) else {
            return;
        };
        let before = Tally::of(found, standing, &self.klamm_ids);
        how(found, &mut self.indexes);
        let after = Tally::of(found, standing, &self.klamm_ids);
        if before != after {
            self.tally.subtract(before);
            self.tally.add(after);
        }
    }

    /// The one way to change how far a topic's deletion has come.
    fn change_standing(&mut self, topic: &TopicName, how: impl FnOnce(&mut Deletion)) {
        let before = self.deletion.standing(topic);
        how(&mut self.deletion);
        let after = self.deletion.standing(topic);
        if let Some(topic) = self.topics.get(topic).filter(|_| before != after) {
            let (before, after) = (
                self.tally_of_topic(topic, before),
                self.tally_of_topic(topic, after),
            );
            self.tally.subtract(before);
            self.tally.add(after);
        }
    }

    fn select(&self, wanted: impl Fn(&Partition) -> bool) -> Vec<TopicPartition> {
        let mut selected = Vec::new();
        for (name, topic) in &self.topics {
            let chosen = topic.partitions.iter().filter(|(_, found)| wanted(found));
            selected.extend(chosen.map(|(index, _)| TopicPartition::new(name, *index)));
        }
        selected
    }
}

#[cfg(test)]
mod tests;
