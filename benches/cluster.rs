//! A cluster as it is read from ZooKeeper: 20 brokers, topics of 100 partitions, 3 replicas each, all in sync.
//!
//! Must never measure anything itself. Upstream: none.

use std::collections::BTreeMap;

use klamm::effect::{Committed, StateRead, Term, TopicZnode};
use klamm::machine::{membership, partition, replica};
use klamm::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    Features, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    SecurityProtocol, TopicId, TopicName, TopicPartition,
};
use klamm::state::ControllerContext;

/// What every figure is about.
pub const PARTITIONS: i32 = 100_000;
const BROKERS: i32 = 20;
const PARTITIONS_PER_TOPIC: i32 = 100;
const REPLICATION_FACTOR: i32 = 3;

/// All that a failover reads of brokers and topics.
#[derive(Clone)]
pub struct Reads {
    pub brokers: Vec<BrokerRegistration>,
    pub topics: Vec<(TopicName, TopicZnode)>,
    pub states: Vec<(TopicPartition, StateRead)>,
}

fn registration(id: i32) -> BrokerRegistration {
    BrokerRegistration {
        broker: Broker {
            id: BrokerId(id),
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".into(),
                host: format!("broker-{id}.example.org").into(),
                port: 9092,
                security_protocol: SecurityProtocol::Plaintext,
            }],
            rack: None,
            features: Features::new(),
        },
        epoch: BrokerEpoch(i64::from(id)),
        json_version: 5,
    }
}

fn state(leader: BrokerId, isr: &BrokerIds) -> StateRead {
    StateRead {
        leader_and_isr: LeaderAndIsr {
            leader,
            leader_epoch: LeaderEpoch(5),
            isr: isr.clone(),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: ControllerEpoch(2),
        partition_epoch: PartitionEpoch(7),
    }
}

/// The reads. The leader of each partition is its first replica; brokers lead and host equally many.
pub fn reads() -> Reads {
    let mut topics = Vec::new();
    let mut states = Vec::new();
    for topic in 0..PARTITIONS / PARTITIONS_PER_TOPIC {
        let name = TopicName::new(&format!("topic-with-a-usual-name-{topic:05}"));
        let mut partitions = BTreeMap::new();
        for number in 0..PARTITIONS_PER_TOPIC {
            let first = topic + number;
            let replicas: BrokerIds = (first..first + REPLICATION_FACTOR)
                .map(|id| BrokerId(id % BROKERS))
                .collect();
            let leader = BrokerId(first % BROKERS);
            states.push((TopicPartition::new(&name, number), state(leader, &replicas)));
            partitions.insert(number, ReplicaAssignment::settled(replicas));
        }
        let znode = TopicZnode {
            topic_id: TopicId::new(u128::to_be_bytes(topic as u128 + 2)),
            partitions,
            version: 0,
        };
        topics.push((name, znode));
    }
    Reads {
        brokers: (0..BROKERS).map(registration).collect(),
        topics,
        states,
    }
}

/// Fills an empty context, as a failover does.
pub fn fill(reads: Reads) -> ControllerContext {
    let mut context = ControllerContext::new();
    context.begin_term(Term {
        epoch: ControllerEpoch(3),
        epoch_zk_version: 3,
    });
    context.set_protocol("3.9".parse().unwrap());
    for broker in reads.brokers {
        context.add_live_broker(broker);
    }
    for (topic, znode) in reads.topics {
        let found = membership::new_partitions(&context, &topic, &znode);
        context.put_topic(&topic, znode.topic_id, znode.version);
        for (partition, assignment) in found.accepted {
            context.put_assignment(&partition, assignment);
        }
    }
    for (partition, read) in reads.states {
        context.put_leadership(&partition, Committed::from(read));
    }
    replica::startup(&mut context);
    partition::startup(&mut context);
    context
}
