//! `klamm::zk` against genuine ZooKeeper servers, 3.8, 3.5 and 3.4, with connections that are cut for real.

#![allow(clippy::unwrap_used)]

mod harness;
mod proxy;

mod check;
mod configs;
mod creations;
mod ends;
mod faults;
mod handover;
mod reads;
mod removals;
mod restraint;
#[path = "../sim/tests/procedures/restraint_table.rs"]
mod restraint_table;
mod role;
mod writes;
