//! Procedures of the controller, event by event, on the simulated ports. The cases are those of upstream's
//! `ControllerIntegrationTest` that concern what klamm does so far, and what those leave out.
//!
//! Each test says what an operator, a broker or ZooKeeper would see; none looks into the controller.
#![allow(clippy::unwrap_used)] // Helpers of tests are outside of `#[test]`.

mod answers;
mod brokers;
mod clients;
mod compare;
mod configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod deletion;
mod elect_leaders;
mod elections;
mod failover;
mod features;
mod heard;
mod interrupted;
mod isr;
mod log;
mod log_dirs;
mod mutation_quotas;
mod preflight;
mod reassignment;
mod refused;
mod restraint;
mod restraint_table;
mod role;
mod sanitise;
mod scram;
mod shutdown;
mod stale;
mod sweep;
mod tokens;
mod topics;
