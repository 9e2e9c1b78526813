//! Contexts for the tests of this folder: a few brokers, a few partitions, in our first term.
//!
//! Test code only; it must never decide what a test asserts.

use crate::effect::{Committed, StateRead, Term};
use crate::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    Features, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    SecurityProtocol, TopicName, TopicPartition,
};
use crate::state::{ControllerContext, PartitionState};

/// A topic's name.
pub(super) fn topic(name: &str) -> TopicName {
    TopicName::new(name)
}

/// Broker `id` as registered under epoch 100 + `id`, without a rack.
pub(super) fn registration(id: i32) -> BrokerRegistration {
    BrokerRegistration {
        broker: Broker {
            id: BrokerId(id),
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".into(),
                host: format!("host-{id}").into(),
                port: 9092,
                security_protocol: SecurityProtocol::Plaintext,
            }],
            rack: None,
            features: Features::new(),
        },
        epoch: BrokerEpoch(100 + i64::from(id)),
        json_version: 5,
    }
}

/// A context in term 3 with these live brokers.
pub(super) fn of_brokers(ids: &[i32]) -> ControllerContext {
    let mut context = ControllerContext::new();
    context.begin_term(Term {
        epoch: ControllerEpoch(3),
        epoch_zk_version: 3,
    });
    for id in ids {
        context.add_live_broker(registration(*id));
    }
    context
}

/// Adds a partition that was never led; the topic too, if it is new.
pub(super) fn put_partition(
    context: &mut ControllerContext,
    name: &str,
    number: i32,
    replicas: &[i32],
) -> TopicPartition {
    let name = topic(name);
    if context.topic(&name).is_none() {
        context.put_topic(&name, None, 0);
    }
    let partition = TopicPartition::new(&name, number);
    context.put_assignment(
        &partition,
        ReplicaAssignment::settled(BrokerIds::from(replicas)),
    );
    context.put_partition_state(&partition, PartitionState::New);
    partition
}

/// A leadership as read from ZooKeeper, written in term 2.
pub(super) fn committed(
    leader: i32,
    leader_epoch: i32,
    isr: &[i32],
    partition_epoch: i32,
) -> Committed<LeaderAndIsr> {
    Committed::from(StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            isr: BrokerIds::from(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: ControllerEpoch(2),
        partition_epoch: PartitionEpoch(partition_epoch),
    })
}

/// Adds a partition that is led by `leader` with the whole assignment in sync.
pub(super) fn put_led_partition(
    context: &mut ControllerContext,
    name: &str,
    number: i32,
    replicas: &[i32],
    leader: i32,
) -> TopicPartition {
    let partition = put_partition(context, name, number, replicas);
    context.put_leadership(&partition, committed(leader, 5, replicas, 7));
    context.put_partition_state(&partition, PartitionState::Online);
    partition
}
