//! The rig: genuine ZooKeeper and Kafka processes, klamm beside them, and the stories that are told with them.
//!
//! From the ground up: [`version`] and [`jars`] (what is run), [`address`], [`run`] and [`process`] (where and how),
//! [`zookeeper`], [`broker`], [`klamm`], [`client`] and [`ecosystem`] (the processes), [`zk`] and [`wire`] (what can be seen from
//! outside), [`cluster`] and [`observe`] (all of it together). Beside them: [`hostile`], a client that does its worst, and
//! [`fuzz`], which tries out klamm's codec.
//!
//! A story judges from outside alone: by what ZooKeeper holds, what brokers tell their clients, what became of every
//! record, and what the processes logged. Nothing here may call into klamm; `fuzz` calls into its codec, which it tests.

pub mod address;
pub mod broker;
pub mod capture;
pub mod classes;
pub mod client;
pub mod cluster;
pub mod ecosystem;
pub mod fuzz;
pub mod history;
pub mod hostile;
pub mod interrupt;
pub mod jars;
pub mod klamm;
pub mod log_rule;
pub mod observe;
pub mod parity;
pub mod process;
pub mod properties;
pub mod proxy;
pub mod random;
pub mod run;
pub mod script;
pub mod stories;
pub mod tap;
pub mod teller;
pub mod tools;
pub mod version;
pub mod wait;
pub mod wire;
pub mod workspace;
pub mod zk;
pub mod zookeeper;
