//! One genuine broker, as far as a controller can tell: what it makes of control requests and what it remembers.
//!
//! It follows `ReplicaManager`, `Partition` and the metadata cache of the release it is told to be, with their quirks. It
//! never reads what ZooKeeper holds to decide what it was told: only requests count. Upstream: `ReplicaManager.scala`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use klamm::effect::{
    AnnouncedLeadership, ByTopic, Committed, LeaderAndIsrPartition, PartitionErrors,
    ReplicaDisposal, StopReplicaPartition, TopicReference,
};
use klamm::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, ControllerEpoch, InterBrokerProtocol, KafkaError,
    LeaderAndIsr, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition,
};

use crate::replica_log::ReplicaLog;
use crate::request::{Body, Request};

/// Whether a broker's process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// It answers.
    Running,
    /// It hangs: it keeps its session for as long as the world lets it, and answers nothing.
    Paused,
    /// It is gone.
    Dead,
}

/// What a running broker does with a partition that it hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalReplica {
    /// The leader it was told, itself or another.
    pub leader: BrokerId,
    /// The epoch it leads or follows under; −1 while it has ignored all that it was told.
    pub leader_epoch: LeaderEpoch,
    /// ZooKeeper's version of the state, as it knows it.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync set, as it knows it.
    pub isr: BrokerIds,
    /// The replicas.
    pub replicas: BrokerIds,
    /// Whether it fetches from the leader.
    pub is_fetching: bool,
    /// The epoch of the controller that made the state.
    pub controller_epoch: ControllerEpoch,
    /// Which order to lead or follow it obeys, counted through the process's life: another one, and all that it knew of
    /// followers or leader is forgotten.
    pub turn: u64,
}

/// What a broker's metadata cache says of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedPartition {
    /// What clients are told.
    pub leadership: Committed<LeaderAndIsr>,
    /// The replicas.
    pub replicas: BrokerIds,
    /// Those that are not online.
    pub offline_replicas: BrokerIds,
}

/// What a broker answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To LeaderAndIsr.
    LeaderAndIsr(PartitionErrors),
    /// To UpdateMetadata.
    UpdateMetadata {
        /// The number of what it answers.
        number: u64,
        /// What it says.
        error: KafkaError,
    },
    /// To StopReplica, with the partitions that were to be deleted.
    StopReplica(Vec<TopicPartition>, PartitionErrors),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, partitions) = match self {
            Reply::LeaderAndIsr(said) | Reply::StopReplica(_, said) => {
                (said.error, said.partitions.as_slice())
            }
            Reply::UpdateMetadata { error, .. } => (*error, &[][..]),
        };
        write!(f, "{error}")?;
        let failed = partitions
            .iter()
            .filter(|(_, _, error)| *error != KafkaError::NONE);
        for (_, partition, error) in failed {
            write!(f, " [{partition}: {error}]")?;
        }
        Ok(())
    }
}

/// A broker. What a restart forgets is in `memory`.
#[derive(Debug, Clone)]
pub struct SimBroker {
    /// Its id.
    pub id: BrokerId,
    /// The release of its binaries, named by the last protocol of that release.
    pub release: InterBrokerProtocol,
    /// `inter.broker.protocol.version`.
    pub protocol: InterBrokerProtocol,
    /// Whether it runs.
    pub process: Process,
    /// The epoch of its own registration, as it knows it.
    pub epoch: BrokerEpoch,
    /// The logs on its disks, with the topic id written beside each.
    pub logs: BTreeMap<TopicPartition, Option<TopicId>>,
    /// What those logs hold; one that never held anything may be missing.
    pub disk: BTreeMap<TopicPartition, ReplicaLog>,
    /// The logs in directories that failed.
    lost: BTreeMap<TopicPartition, LostLog>,
    /// Those that the next start brings back.
    repaired: BTreeMap<TopicPartition, LostLog>,
    /// The partitions whose log directory failed, until a restart.
    pub offline: BTreeSet<TopicPartition>,
    /// One of its log directories failed: no log is created that might have been there.
    pub has_failed_dir: bool,
    /// The replicas that its process knows.
    pub replicas: BTreeMap<TopicPartition, LocalReplica>,
    /// The brokers that its metadata cache lists.
    pub alive: BTreeMap<BrokerId, Broker>,
    /// The partitions in its metadata cache.
    pub cache: BTreeMap<TopicPartition, CachedPartition>,
    /// The highest controller epoch that it has seen.
    pub controller_epoch: ControllerEpoch,
    /// How often its process was started.
    pub starts: u64,
    /// Orders to lead or follow that this process has obeyed.
    turns: u64,
}

/// A log that can't be reached: its topic id, and what it holds.
type LostLog = (Option<TopicId>, ReplicaLog);

const RELEASE_2_2: InterBrokerProtocol = InterBrokerProtocol::new(2, 2, 0);
const RELEASE_2_6: InterBrokerProtocol = InterBrokerProtocol::new(2, 6, 0);
const RELEASE_3_0: InterBrokerProtocol = InterBrokerProtocol::new(3, 0, 0);
const RELEASE_3_1: InterBrokerProtocol = InterBrokerProtocol::new(3, 1, 0);
const RELEASE_3_3: InterBrokerProtocol = InterBrokerProtocol::new(3, 3, 0);
const RELEASE_3_5: InterBrokerProtocol = InterBrokerProtocol::new(3, 5, 0);

impl SimBroker {
    /// A broker that was never started.
    pub fn new(id: BrokerId, release: InterBrokerProtocol, protocol: InterBrokerProtocol) -> Self {
        SimBroker {
            id,
            release,
            protocol,
            process: Process::Dead,
            epoch: BrokerEpoch::UNKNOWN,
            logs: BTreeMap::new(),
            disk: BTreeMap::new(),
            lost: BTreeMap::new(),
            repaired: BTreeMap::new(),
            offline: BTreeSet::new(),
            has_failed_dir: false,
            replicas: BTreeMap::new(),
            alive: BTreeMap::new(),
            cache: BTreeMap::new(),
            controller_epoch: ControllerEpoch(0),
            starts: 0,
            turns: 0,
        }
    }

    /// Starts its process under a new registration: its logs are there, all else is forgotten. A directory that failed is
    /// empty now, unless it was repaired.
    pub fn start(&mut self, epoch: BrokerEpoch) {
        let fresh = SimBroker::new(self.id, self.release, self.protocol);
        let mut logs = std::mem::take(&mut self.logs);
        let mut disk = std::mem::take(&mut self.disk);
        for (partition, (topic_id, log)) in std::mem::take(&mut self.repaired) {
            // A broker does not start with two logs of one partition: the operator has kept the newer one.
            if !logs.contains_key(&partition) {
                logs.insert(partition.clone(), topic_id);
                disk.insert(partition, log);
            }
        }
        *self = SimBroker {
            logs,
            disk,
            lost: std::mem::take(&mut self.lost),
            epoch,
            process: Process::Running,
            starts: self.starts + 1,
            ..fresh
        };
    }

    /// Whether it leads a partition under an epoch that it was told.
    pub fn leads(&self, partition: &TopicPartition) -> Option<&LocalReplica> {
        let replica = self.replicas.get(partition)?;
        (replica.leader == self.id).then_some(replica)
    }

    /// A log directory fails: the partitions in it are offline until a restart.
    pub fn fail_log_dir(&mut self, partitions: &[TopicPartition]) {
        self.has_failed_dir = true;
        for partition in partitions {
            if let Some(topic_id) = self.logs.remove(partition) {
                let log = self.disk.remove(partition).unwrap_or_default();
                self.lost.insert(partition.clone(), (topic_id, log));
            }
            self.replicas.remove(partition);
            self.offline.insert(partition.clone());
        }
    }

    /// The failed directories can be read again: the next start finds in them what they held.
    pub fn repair_log_dir(&mut self) {
        self.repaired.append(&mut self.lost);
    }

    /// A replica's folder is removed by hand.
    pub fn forget_log(&mut self, partition: &TopicPartition) {
        self.logs.remove(partition);
        self.disk.remove(partition);
        self.replicas.remove(partition);
    }

    /// Whether a log of this partition is on one of its disks, on a failed one too.
    pub fn keeps_log(&self, partition: &TopicPartition) -> bool {
        self.logs.contains_key(partition)
            || self.lost.contains_key(partition)
            || self.repaired.contains_key(partition)
    }

    /// Does what a request says, and answers it.
    pub fn handle(&mut self, request: &Request) -> Reply {
        let gate = self.gate(request);
        match (&request.body, gate) {
            (Body::LeaderAndIsr(topics), Some(error)) => {
                let by_id = names_topics_by_id(self.leader_and_isr_version(request, topics));
                Reply::LeaderAndIsr(all_fail(topics, by_id, error))
            }
            (Body::LeaderAndIsr(topics), None) => {
                let version = self.leader_and_isr_version(request, topics);
                Reply::LeaderAndIsr(self.become_leader_or_follower(topics, version))
            }
            (Body::UpdateMetadata { number, .. }, gate) => {
                if gate.is_none() {
                    self.update_metadata_cache(&request.body);
                }
                Reply::UpdateMetadata {
                    number: *number,
                    error: gate.unwrap_or(KafkaError::NONE),
                }
            }
            (Body::StopReplica(topics), gate) => self.answer_stop_replica(request, topics, gate),
        }
    }

    /// The checks that come before any partition is looked at. A controller epoch that passes is remembered.
    fn gate(&mut self, request: &Request) -> Option<KafkaError> {
        let is_for_older = request.broker_epoch < self.epoch;
        let checks_broker_epoch = self.release >= RELEASE_2_2 && request.protocol >= RELEASE_2_2;
        if checks_broker_epoch && request.broker_epoch != BrokerEpoch::UNKNOWN && is_for_older {
            return Some(KafkaError::STALE_BROKER_EPOCH);
        }
        if request.controller_epoch < self.controller_epoch {
            return Some(KafkaError::STALE_CONTROLLER_EPOCH);
        }
        self.controller_epoch = request.controller_epoch;
        None
    }

    /// The version that a request to this broker has; 5 and above only if every topic in it has an id.
    fn leader_and_isr_version<T>(&self, request: &Request, topics: &[ByTopic<T>]) -> i16 {
        let highest = self
            .release
            .leader_and_isr_version()
            .min(request.protocol.leader_and_isr_version());
        if topics.iter().all(|topic| topic.topic_id.is_some()) {
            highest
        } else {
            highest.min(4)
        }
    }

    fn become_leader_or_follower(
        &mut self,
        topics: &[ByTopic<LeaderAndIsrPartition>],
        version: i16,
    ) -> PartitionErrors {
        let by_id = names_topics_by_id(version);
        let mut partitions = Vec::new();
        for topic in topics {
            let id = topic.topic_id.filter(|_| by_id);
            for wanted in &topic.partitions {
                let partition = TopicPartition::new(&topic.topic, wanted.partition);
                let error = self.apply_leader_and_isr(&partition, id, wanted);
                partitions.push((reference(topic, by_id), wanted.partition, error));
            }
        }
        if self.release < RELEASE_3_1 {
            self.poison_those_without_a_log(topics);
        }
        PartitionErrors {
            error: KafkaError::NONE,
            partitions,
        }
    }

    fn apply_leader_and_isr(
        &mut self,
        partition: &TopicPartition,
        topic_id: Option<TopicId>,
        wanted: &LeaderAndIsrPartition,
    ) -> KafkaError {
        if self.offline.contains(partition) {
            return KafkaError::KAFKA_STORAGE_ERROR;
        }
        let known_id = self.logs.get(partition).copied().flatten();
        if topic_id.is_some() && known_id.is_some() && topic_id != known_id {
            return KafkaError::INCONSISTENT_TOPIC_ID;
        }
        let current = self.replicas.get(partition).map(|r| r.leader_epoch);
        match current.unwrap_or(LeaderEpoch::NONE) {
            epoch if wanted.state.leader_epoch > epoch => {}
            epoch if wanted.state.leader_epoch == epoch && self.release >= RELEASE_3_0 => {
                let adds_id = known_id.is_none() && topic_id.is_some();
                if adds_id {
                    self.logs.insert(partition.clone(), topic_id);
                    return KafkaError::NONE;
                }
                return KafkaError::STALE_CONTROLLER_EPOCH;
            }
            _ => return KafkaError::STALE_CONTROLLER_EPOCH,
        }
        if !wanted.assignment.replicas.contains(self.id) {
            return KafkaError::UNKNOWN_TOPIC_OR_PARTITION;
        }
        if !self.logs.contains_key(partition) && self.has_failed_dir && !wanted.is_new {
            self.offline.insert(partition.clone());
            return KafkaError::KAFKA_STORAGE_ERROR;
        }
        let log_id = known_id.or(topic_id);
        self.logs.insert(partition.clone(), log_id);
        self.take_part(partition, wanted);
        KafkaError::NONE
    }

    /// Leads, or follows a leader that it knows. One that it doesn't know is ignored, and the answer is 0 all the same.
    fn take_part(&mut self, partition: &TopicPartition, wanted: &LeaderAndIsrPartition) {
        let state = &wanted.state;
        let leads = state.leader == self.id;
        self.turns += 1;
        let known_epoch = self.replicas.get(partition).map(|r| r.partition_epoch);
        let is_older = known_epoch.is_some_and(|known| state.partition_epoch() < known);
        if leads && is_older && self.release >= RELEASE_3_3 {
            return;
        }
        let replica = self
            .replicas
            .entry(partition.clone())
            .or_insert_with(|| LocalReplica {
                leader: BrokerId::NO_LEADER,
                leader_epoch: LeaderEpoch::NONE,
                partition_epoch: PartitionEpoch(-1),
                isr: BrokerIds::empty(),
                replicas: BrokerIds::empty(),
                is_fetching: false,
                controller_epoch: ControllerEpoch(0),
                turn: self.turns,
            });
        if !leads && !self.alive.contains_key(&state.leader) {
            replica.is_fetching = false;
            return;
        }
        *replica = LocalReplica {
            leader: state.leader,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch(),
            isr: state.isr.clone(),
            replicas: wanted.assignment.replicas.clone(),
            is_fetching: !leads,
            controller_epoch: state.controller_epoch(),
            turn: self.turns,
        };
    }

    /// Up to 3.0 a partition of the request that has no log afterwards counts as offline until a restart.
    fn poison_those_without_a_log(&mut self, topics: &[ByTopic<LeaderAndIsrPartition>]) {
        for topic in topics {
            for wanted in &topic.partitions {
                let partition = TopicPartition::new(&topic.topic, wanted.partition);
                if !self.logs.contains_key(&partition) {
                    self.offline.insert(partition);
                }
            }
        }
    }

    fn update_metadata_cache(&mut self, body: &Body) {
        let Body::UpdateMetadata {
            live_brokers,
            topics,
            ..
        } = body
        else {
            return;
        };
        self.alive = live_brokers.iter().map(|b| (b.id, b.clone())).collect();
        for topic in topics.iter() {
            for told in &topic.partitions {
                let partition = TopicPartition::new(&topic.topic, told.partition);
                match &told.leadership {
                    AnnouncedLeadership::DuringDelete(_) => {
                        self.cache.remove(&partition);
                    }
                    AnnouncedLeadership::Committed(state) => {
                        let cached = CachedPartition {
                            leadership: state.clone(),
                            replicas: told.replicas.clone(),
                            offline_replicas: told.offline_replicas.clone(),
                        };
                        self.cache.insert(partition, cached);
                    }
                }
            }
        }
    }

    fn answer_stop_replica(
        &mut self,
        request: &Request,
        topics: &[ByTopic<StopReplicaPartition>],
        gate: Option<KafkaError>,
    ) -> Reply {
        let (mut deleted, mut partitions) = (Vec::new(), Vec::new());
        let has_epochs = self
            .release
            .stop_replica_version()
            .min(request.protocol.stop_replica_version())
            >= 3;
        for topic in topics {
            for stop in &topic.partitions {
                let partition = TopicPartition::new(&topic.topic, stop.partition);
                if gate.is_none() {
                    let error = self.stop_replica(&partition, stop, has_epochs);
                    partitions.push((reference(topic, false), stop.partition, error));
                }
                if stop.disposal == ReplicaDisposal::Delete {
                    deleted.push(partition);
                }
            }
        }
        // Refused as a whole, it names no partition.
        let error = gate.unwrap_or(KafkaError::NONE);
        Reply::StopReplica(deleted, PartitionErrors { error, partitions })
    }

    fn stop_replica(
        &mut self,
        partition: &TopicPartition,
        stop: &StopReplicaPartition,
        has_epochs: bool,
    ) -> KafkaError {
        let deletes = stop.disposal == ReplicaDisposal::Delete;
        if self.offline.contains(partition) && (deletes || self.release >= RELEASE_2_6) {
            return KafkaError::KAFKA_STORAGE_ERROR;
        }
        let current = self.replicas.get(partition).map(|r| r.leader_epoch);
        if let Some(current) = current.filter(|_| has_epochs && stop.leader_epoch.0 >= 0) {
            // 3.4.0 still refuses an equal epoch and 3.4.1 doesn't (KAFKA-13972); 3.4 stands for the former here.
            let refuses_equal = self.release < RELEASE_3_5;
            if stop.leader_epoch < current || (stop.leader_epoch == current && refuses_equal) {
                return KafkaError::FENCED_LEADER_EPOCH;
            }
        }
        if deletes {
            self.replicas.remove(partition);
            self.logs.remove(partition);
            self.disk.remove(partition);
        } else if let Some(replica) = self.replicas.get_mut(partition) {
            replica.is_fetching = false;
        }
        KafkaError::NONE
    }
}

fn names_topics_by_id(leader_and_isr_version: i16) -> bool {
    leader_and_isr_version >= 5
}

fn reference<T>(topic: &ByTopic<T>, by_id: bool) -> TopicReference {
    match topic.topic_id.filter(|_| by_id) {
        Some(id) => TopicReference::Id(id),
        None => TopicReference::Name(topic.topic.clone()),
    }
}

fn all_fail(
    topics: &[ByTopic<LeaderAndIsrPartition>],
    by_id: bool,
    error: KafkaError,
) -> PartitionErrors {
    let mut partitions = Vec::new();
    for topic in topics {
        for wanted in &topic.partitions {
            partitions.push((reference(topic, by_id), wanted.partition, error));
        }
    }
    PartitionErrors { error, partitions }
}
