//! klamm's simulator: the product's own controller code over in-memory ports, on one thread, under a virtual clock.
//!
//! Here live an in-memory ZooKeeper, brokers that record what they are told and answer as genuine ones do, a clock that
//! moves only when told to, and the cluster built of them. Nothing here decides anything for the controller: where a
//! genuine server, broker or client would do something, it is done here, and the rest is `klamm`'s.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A harness stops at the first surprise.

pub mod broker;
pub mod brokers;
pub mod chance;
pub mod clock;
pub mod converged;
pub mod drive;
pub mod faults;
pub mod fences;
pub mod klamm;
pub mod leaders;
pub mod mishap;
pub mod pace;
#[cfg(feature = "planted")]
pub mod planted;
pub mod replica_log;
pub mod replies;
pub mod request;
pub mod seeds;
pub mod world;
pub mod zk_port;
pub mod zookeeper;
