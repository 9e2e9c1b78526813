//! Kafka's `server.properties`, taken unchanged: as typed ([`raw`]), then checked and typed ([`resolved`]).
//!
//! Pure: whoever calls reads the files. Nothing about security is ever ignored ([`security`]), no value of a secret is
//! ever shown, and all faults are told at once ([`error`]). Upstream counterpart: `KafkaConfig`.

pub mod endpoints;
pub mod error;
pub mod keys;
pub mod properties;
pub mod raw;
pub mod resolved;
pub mod security;
mod shared;
pub mod zookeeper_connect;

pub use endpoints::{HostPort, Listener, ProtocolMap};
pub use error::{ConfigError, ConfigErrors};
pub use raw::RawConfig;
pub use resolved::{
    CaptureConfig, Config, CreateTopicPolicy, KeyCounts, LogConfig, LogLevel, TakeoverPolicy,
    ZooKeeperConfig,
};
pub use zookeeper_connect::ZooKeeperConnect;

#[cfg(test)]
mod tests;
