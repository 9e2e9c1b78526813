//! ZooKeeper: the port over zookeeper-client, the session, the watches, and what stands in the nodes.
//!
//! From the ground up: [`paths`] and [`znode`] (pure), `link` (one connection), `watches`, [`session`] (its keeper),
//! `client` (the port) with `read`, `write` and `role`, and [`handover`] (hand-back, and what must hold before a start).
//! Decides nothing about partitions. Upstream: `KafkaZkClient.scala`, `ZooKeeperClient.scala`, `ZkData.scala`.

mod client;
mod handover;
mod link;
pub mod paths;
mod preflight;
mod probe;
mod read;
mod role;
pub mod session;
mod watches;
mod write;
pub mod znode;

pub use client::ZkClient;
pub use handover::{Handover, UnusableId};
pub use probe::ServerVersion;
pub use session::{NoEvents, NoObserver, Observer, Session, SessionState, Settings, StartError};
