//! ZooKeeper: the port over zookeeper-client, the session, the watches, and what stands in the nodes.
//!
//! Decides nothing about partitions. Upstream: `KafkaZkClient.scala`, `ZooKeeperClient.scala`, `ZkData.scala`.

pub mod paths;
pub mod znode;
