//! klamm, a Kafka controller for ZooKeeper-mode clusters.
//!
//! Modules stand in the order in which data takes its way:
//! watch, API request, reply or timer → [`event`] → [`controller`] → [`machine`] on [`state`] → [`effect`] → [`port`],
//! and behind the ports the shell: [`zk`], [`broker`], `api`, `observe`. Apart from all that stands [`decode`], which shows
//! packet captures.

pub mod api;
pub mod broker;
pub mod cli;
pub mod config;
pub mod controller;
pub mod decode;
pub mod effect;
pub mod error;
pub mod event;
pub mod machine;
pub mod model;
pub mod observe;
#[cfg(not(feature = "planted"))]
mod planted;
#[cfg(feature = "planted")]
pub mod planted;
pub mod port;
pub mod runtime;
pub mod state;
pub mod zk;
