//! What the tests of the machines share: a small cluster in a context, and a ZooKeeper of partition states.
//!
//! The ZooKeeper here keeps versions and refuses stale writes as the real one does, so that a test sees what is stored and
//! what brokers are told, not which function was called. Upstream: the fixtures of `PartitionStateMachineTest` and
//! `ReplicaStateMachineTest`: controller epoch 50 at version 0, one partition `t-0`, brokers 5 and up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::request_batch::ControllerBrokerRequestBatch;
use super::{Applied, Fetched, Refusal, StateChange};
use crate::effect::{
    ByTopic, Committed, ControlRequests, ElectionConfig, LeaderAndIsrPartition, Read, StateRead,
    StopReplicaPartition, Term, UpdateMetadataPartition, ZkOutcome, ZkWrite,
};
use crate::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    InterBrokerProtocol, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, Replica,
    ReplicaAssignment, SecurityProtocol, TopicId, TopicName, TopicPartition,
};
use crate::state::{ControllerContext, violations};

pub(crate) const OUR_EPOCH: ControllerEpoch = ControllerEpoch(50);

pub(crate) fn ids<const N: usize>(ids: [i32; N]) -> BrokerIds {
    BrokerIds::from(ids)
}

pub(crate) fn brokers<const N: usize>(ids: [i32; N]) -> Vec<BrokerId> {
    ids.map(BrokerId).to_vec()
}

pub(crate) fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(&TopicName::new(topic), index)
}

pub(crate) fn t0() -> TopicPartition {
    partition("t", 0)
}

pub(crate) fn replica(at: &TopicPartition, broker: i32) -> Replica {
    Replica {
        partition: at.clone(),
        broker: BrokerId(broker),
    }
}

pub(crate) fn broker(id: i32) -> Broker {
    Broker {
        id: BrokerId(id),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9900 + id,
            security_protocol: SecurityProtocol::Plaintext,
        }],
        rack: None,
        features: BTreeMap::new(),
    }
}

pub(crate) fn registration(id: i32) -> BrokerRegistration {
    BrokerRegistration {
        broker: broker(id),
        epoch: BrokerEpoch(1),
        json_version: 5,
    }
}

/// A context in its term at the newest protocol, with these brokers live.
pub(crate) fn context<const N: usize>(live: [i32; N]) -> ControllerContext {
    let mut context = ControllerContext::new();
    context.begin_term(Term {
        epoch: OUR_EPOCH,
        epoch_zk_version: 0,
    });
    context.set_protocol(InterBrokerProtocol::NEWEST);
    for id in live {
        context.add_live_broker(registration(id));
    }
    context
}

/// Assigns a partition; its topic gets an id made of its name.
pub(crate) fn assign<const N: usize>(
    context: &mut ControllerContext,
    at: &TopicPartition,
    replicas: [i32; N],
) {
    context.put_topic(&at.topic, Some(topic_id(&at.topic)), 0);
    context.put_assignment(at, ReplicaAssignment::settled(ids(replicas)));
}

pub(crate) fn topic_id(topic: &TopicName) -> TopicId {
    let mut bytes = [0xff; 16];
    for (byte, of_name) in bytes.iter_mut().zip(topic.as_str().bytes()) {
        *byte = of_name;
    }
    TopicId::new(bytes).unwrap()
}

pub(crate) fn klamm_ids<const N: usize>(ids: [i32; N]) -> BTreeSet<BrokerId> {
    ids.map(BrokerId).into()
}

/// A state as it would be read from ZooKeeper, written under our epoch.
pub(crate) fn state<const N: usize>(leader: i32, isr: [i32; N], leader_epoch: i32) -> StateRead {
    StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            isr: ids(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: OUR_EPOCH,
        partition_epoch: PartitionEpoch(0),
    }
}

/// ZooKeeper, as far as the machines ask it.
#[derive(Debug, Default)]
pub(crate) struct Zk {
    pub(crate) states: BTreeMap<TopicPartition, StateRead>,
    /// States that are there but can't be understood.
    pub(crate) broken: BTreeSet<TopicPartition>,
    pub(crate) configs: BTreeMap<TopicName, Read<ElectionConfig>>,
    /// What was read and written.
    pub(crate) reads: Vec<TopicPartition>,
    pub(crate) config_reads: Vec<TopicName>,
    pub(crate) writes: Vec<ZkWrite>,
    /// Answers given in place of performing the next writes.
    pub(crate) refusals: VecDeque<ZkOutcome>,
}

/// What came of a change.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) applied: Applied,
    pub(crate) requests: Option<ControlRequests>,
}

impl Zk {
    /// Holds a state, and has the context know it.
    pub(crate) fn hold(
        &mut self,
        context: &mut ControllerContext,
        at: &TopicPartition,
        state: StateRead,
    ) {
        self.states.insert(at.clone(), state.clone());
        context.put_leadership(at, state.into());
    }

    pub(crate) fn unclean_allowed(&mut self, topic: &str, allowed: bool) {
        let config = ElectionConfig {
            unclean_leader_election_enable: Some(allowed),
        };
        self.configs
            .insert(TopicName::new(topic), Read::Found(config));
    }

    /// Goes round as `controller` does, until nothing lost a race; then checks the whole state.
    pub(crate) fn drive<C: StateChange>(
        &mut self,
        context: &mut ControllerContext,
        change: C,
    ) -> Driven {
        let mut batch = ControllerBrokerRequestBatch::new();
        let mut total = Applied::default();
        let mut change = change;
        for _ in 0..10 {
            let needs = change.needs(context);
            let mut fetched = Fetched::default();
            for at in needs.states {
                fetched.states.insert(at.clone(), self.read(&at));
            }
            for topic in needs.topic_configs {
                let config = self.configs.get(&topic).cloned().unwrap_or(Read::Missing);
                fetched.topic_configs.insert(topic.clone(), config);
                self.config_reads.push(topic);
            }
            let decision = change.decide(context, &fetched);
            let writes = decision.writes();
            let outcomes: Vec<ZkOutcome> = writes.iter().map(|write| self.write(write)).collect();
            let applied = change.apply(context, decision, &outcomes, &mut batch);
            total.done.extend(applied.done);
            total.changes.extend(applied.changes);
            total.refused.extend(applied.refused);
            if applied.retry.is_empty() {
                return Driven {
                    applied: total,
                    requests: batch.into_requests(context),
                };
            }
            change = change.again(applied.retry);
        }
        panic!("a change that goes round for ever");
    }

    fn read(&mut self, at: &TopicPartition) -> Read<Committed<LeaderAndIsr>> {
        self.reads.push(at.clone());
        if self.broken.contains(at) {
            return Read::Broken(format!("{at}: no JSON"));
        }
        match self.states.get(at) {
            Some(state) => Read::Found(state.clone().into()),
            None => Read::Missing,
        }
    }

    fn write(&mut self, write: &ZkWrite) -> ZkOutcome {
        self.writes.push(write.clone());
        if let Some(refusal) = self.refusals.pop_front() {
            return refusal;
        }
        match write {
            ZkWrite::CreateState {
                partition,
                leader_and_isr,
                controller_epoch,
            } => {
                if self.states.contains_key(partition) || self.broken.contains(partition) {
                    return ZkOutcome::AlreadyExists;
                }
                let created = StateRead {
                    leader_and_isr: leader_and_isr.clone(),
                    controller_epoch: *controller_epoch,
                    partition_epoch: PartitionEpoch(0),
                };
                self.states.insert(partition.clone(), created);
                ZkOutcome::Written { version: 0 }
            }
            ZkWrite::SetState {
                partition,
                leader_and_isr,
                controller_epoch,
                expected,
            } => match self.states.get_mut(partition) {
                None => ZkOutcome::Missing,
                Some(held) if held.partition_epoch != *expected => ZkOutcome::VersionConflict,
                Some(held) => {
                    let version = expected.0 + 1;
                    *held = StateRead {
                        leader_and_isr: leader_and_isr.clone(),
                        controller_epoch: *controller_epoch,
                        partition_epoch: PartitionEpoch(version),
                    };
                    ZkOutcome::Written { version }
                }
            },
            other => panic!("a machine of partitions writes no {other:?}"),
        }
    }
}

impl Driven {
    /// The refusals, without whose.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        let refused = self.applied.refused.iter();
        refused.map(|refused| refused.reason.clone()).collect()
    }
}

/// No rule of the whole-state check is broken.
pub(crate) fn assert_sound(context: &ControllerContext) {
    assert_eq!(violations(context), Vec::<String>::new());
}

/// Who gets a LeaderAndIsr.
pub(crate) fn leader_and_isr_to(requests: &ControlRequests) -> Vec<BrokerId> {
    requests.leader_and_isr.keys().copied().collect()
}

/// Who gets the UpdateMetadata.
pub(crate) fn update_metadata_to(requests: &ControlRequests) -> Vec<BrokerId> {
    let update = requests.update_metadata.as_ref();
    update.map_or_else(Vec::new, |update| update.to.clone())
}

/// Who gets a StopReplica.
pub(crate) fn stop_replica_to(requests: &ControlRequests) -> Vec<BrokerId> {
    requests.stop_replica.keys().copied().collect()
}

/// What a broker is told of a partition by LeaderAndIsr.
pub(crate) fn told<'a>(
    requests: &'a ControlRequests,
    broker: i32,
    at: &TopicPartition,
) -> Option<&'a LeaderAndIsrPartition> {
    let topics = requests.leader_and_isr.get(&BrokerId(broker))?;
    entry(topics, at, |entry| entry.partition)
}

/// What everybody is told of a partition by UpdateMetadata.
pub(crate) fn announced<'a>(
    requests: &'a ControlRequests,
    at: &TopicPartition,
) -> Option<&'a UpdateMetadataPartition> {
    let update = requests.update_metadata.as_ref()?;
    entry(&update.topics, at, |entry| entry.partition)
}

/// What a broker is told of a partition by StopReplica.
pub(crate) fn stopped<'a>(
    requests: &'a ControlRequests,
    broker: i32,
    at: &TopicPartition,
) -> Option<&'a StopReplicaPartition> {
    let topics = requests.stop_replica.get(&BrokerId(broker))?;
    entry(topics, at, |entry| entry.partition)
}

fn entry<'a, T>(
    topics: &'a [ByTopic<T>],
    at: &TopicPartition,
    index: impl Fn(&T) -> i32,
) -> Option<&'a T> {
    let topic = topics.iter().find(|topic| topic.topic == at.topic)?;
    let mut partitions = topic.partitions.iter();
    partitions.find(|entry| index(entry) == at.partition)
}
