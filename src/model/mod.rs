//! Plain values of the cluster: ids, brokers, leadership, assignments, protocol gates, error codes.
//!
//! Nothing here reads a clock, does I/O or knows how a value is written to ZooKeeper or to a wire.
//! Upstream: `org.apache.kafka.common`, `kafka.cluster`, `LeaderAndIsr.scala`, `MetadataVersion`.

mod assignment;
mod broker;
mod civil_date;
mod config_entity;
mod ids;
mod kafka_error;
mod leader_and_isr;
mod protocol;
mod scram;
mod shared_setting;
pub mod topic_config;

pub use assignment::ReplicaAssignment;
pub use broker::{Broker, BrokerRegistration, Endpoint, Features, SecurityProtocol};
pub use civil_date::civil_date;
pub use config_entity::{ConfigEntity, EntityConfig, SanitizedName};
pub use ids::{
    BrokerEpoch, BrokerId, BrokerIds, ControllerEpoch, LeaderEpoch, PartitionEpoch, Replica,
    TopicId, TopicName, TopicPartition,
};
pub use kafka_error::{ApiError, KafkaError};
pub use leader_and_isr::{LeaderAndIsr, LeaderRecoveryState};
pub use protocol::{InterBrokerProtocol, UnknownProtocol};
pub use scram::{ScramCredential, ScramMechanism};
pub use shared_setting::{SharedSetting, SharedSettings};
