//! Contexts for the tables: one topic `t`, one partition `t-0`, our term 3.
//!
//! Must never hold a rule of the machines. Upstream: the fixtures of `PartitionStateMachineTest`.

use klamm::effect::{Committed, StateRead, Term};
use klamm::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    Features, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    SecurityProtocol, TopicName, TopicPartition,
};
use klamm::state::ControllerContext;

/// The epoch of our term.
pub const OUR_EPOCH: ControllerEpoch = ControllerEpoch(3);

/// The partition that every table is about.
pub fn partition() -> TopicPartition {
    TopicPartition::new(&TopicName::new("t"), 0)
}

/// A broker's registration, under epoch 100 + its id.
pub fn registration(id: i32) -> BrokerRegistration {
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

/// Our term, these brokers, and the partition's assignment.
pub fn context(brokers: &[i32], assignment: ReplicaAssignment) -> ControllerContext {
    let mut context = ControllerContext::new();
    context.begin_term(Term {
        epoch: OUR_EPOCH,
        epoch_zk_version: 3,
    });
    for id in brokers {
        context.add_live_broker(registration(*id));
    }
    context.put_topic(&partition().topic, None, 0);
    context.put_assignment(&partition(), assignment);
    context
}

/// A state at leader epoch 5 and partition epoch 7, as read from ZooKeeper.
pub fn state(leader: i32, isr: &[i32], writer: ControllerEpoch) -> Committed<LeaderAndIsr> {
    Committed::from(StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(5),
            isr: BrokerIds::from(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: writer,
        partition_epoch: PartitionEpoch(7),
    })
}

/// Fails if the context contradicts itself.
#[track_caller]
pub fn assert_sound(context: &ControllerContext) {
    let violations = klamm::state::violations(context);
    assert!(violations.is_empty(), "{violations:#?}");
}
