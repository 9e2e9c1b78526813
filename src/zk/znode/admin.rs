//! What operators and their tools write below `/admin`: JSON to values.
//!
//! One bad entry costs only itself: what can be understood is done, and the rest is named.
//! Upstream: `PreferredReplicaElectionZNode`, `ReassignPartitionsZNode` in `ZkData.scala`, which take the whole node or
//! nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{judged, parse, shortened, to_bytes};
use crate::effect::{PreferredElectionZnode, Read, ReassignmentZnode};
use crate::model::{BrokerIds, TopicName, TopicPartition};

/// What becomes of a broken `/admin/preferred_replica_election`.
const REMEDY: &str =
    "ask for the election again; klamm removes the node, and what else it asks for is done";

#[derive(Deserialize)]
struct PreferredElectionJson {
    partitions: Vec<Value>,
}

#[derive(Deserialize)]
struct PartitionJson {
    topic: String,
    partition: i32,
}

/// Reads `/admin/preferred_replica_election`.
pub fn decode_preferred_election(path: &str, data: &[u8]) -> Read<PreferredElectionZnode> {
    let read = parse(data).map(|json: PreferredElectionJson| {
        let mut znode = PreferredElectionZnode::default();
        for (position, entry) in json.partitions.iter().enumerate() {
            match PartitionJson::deserialize(entry) {
                Ok(entry) if entry.partition >= 0 => {
                    let topic = TopicName::new(&entry.topic);
                    let partition = TopicPartition::new(&topic, entry.partition);
                    znode.partitions.push(partition);
                }
                Ok(_) | Err(_) => znode.broken.push(format!(
                    "{path}: entry {position}, `{}`, names no partition; {REMEDY}",
                    shortened(&entry.to_string())
                )),
            }
        }
        znode
    });
    judged(path, REMEDY, read)
}

/// What becomes of a broken `/admin/reassign_partitions`.
const REASSIGNMENT_REMEDY: &str = "ask for it again as {\"topic\":\"NAME\",\"partition\":0,\"replicas\":[1,2]}; klamm takes it out of the node, and what else it asks for is done";

#[derive(Deserialize)]
struct ReassignmentJson {
    partitions: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
struct TargetJson {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

impl TargetJson {
    /// What is wrong with the entry, whatever the cluster is like.
    fn fault(&self) -> Option<String> {
        if self.partition < 0 {
            return Some("its partition is negative".to_owned());
        }
        if self.replicas.is_empty() {
            return Some("its replica list is empty".to_owned());
        }
        let mut seen = std::collections::BTreeSet::new();
        self.replicas
            .iter()
            .find_map(|id| match (*id, seen.insert(id)) {
                (id, _) if id < 0 => Some(format!("{id} is no broker id")),
                (id, false) => Some(format!("broker {id} stands twice in its replica list")),
                _ => None,
            })
    }
}

/// Reads `/admin/reassign_partitions`, with the version and the making of the node. A node of which nothing can be
/// understood asks for nothing: Java leaves such a node for ever, and with it no tool can ask for anything more.
pub fn decode_reassignment(path: &str, data: &[u8], version: i32, czxid: i64) -> ReassignmentZnode {
    let mut znode = ReassignmentZnode {
        targets: BTreeMap::new(),
        broken: Vec::new(),
        version,
        czxid,
    };
    let json: ReassignmentJson = match parse(data) {
        Ok(json) => json,
        Err(wrong) => {
            znode.broken.push(format!(
                "{path}: {wrong}; nothing is reassigned and klamm removes the node. Write it as {{\"version\":1,\"partitions\":[{{\"topic\":\"NAME\",\"partition\":0,\"replicas\":[1,2]}}]}}"
            ));
            return znode;
        }
    };
    for (position, value) in json.partitions.iter().enumerate() {
        let named = || {
            let text = shortened(&value.to_string());
            format!("{path}: entry {position}, `{text}`,")
        };
        let entry = match TargetJson::deserialize(value) {
            Ok(entry) => entry,
            Err(wrong) => {
                znode.broken.push(format!(
                    "{} is no assignment ({wrong}); {REASSIGNMENT_REMEDY}",
                    named()
                ));
                continue;
            }
        };
        if let Some(fault) = entry.fault() {
            znode.broken.push(format!(
                "{} is ignored: {fault}; {REASSIGNMENT_REMEDY}",
                named()
            ));
            continue;
        }
        let partition = TopicPartition::new(&TopicName::new(&entry.topic), entry.partition);
        let replicas = BrokerIds::from(&entry.replicas[..]);
        if let Some(earlier) = znode.targets.insert(partition.clone(), replicas) {
            znode.broken.push(format!(
                "{} is the second for partition {partition} and the one that counts; the one before it, {earlier}, is ignored. Name each partition once",
                named()
            ));
        }
    }
    znode
}

/// `/admin/reassign_partitions` with what is still to be done.
pub fn encode_reassignment(targets: &BTreeMap<TopicPartition, BrokerIds>) -> Vec<u8> {
    let partitions: Vec<TargetJson> = targets
        .iter()
        .map(|(at, replicas)| TargetJson {
            topic: at.topic.as_str().to_owned(),
            partition: at.partition,
            replicas: replicas.as_i32s().to_vec(),
        })
        .collect();
    to_bytes(&serde_json::json!({ "version": 1, "partitions": partitions }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/admin/preferred_replica_election";

    fn read(text: &str) -> Read<PreferredElectionZnode> {
        decode_preferred_election(PATH, text.as_bytes())
    }

    #[test]
    fn the_tools_form_is_read() {
        let text = r#"{"version":1,"partitions":[{"topic":"t","partition":0},{"partition":3,"topic":"u"}]}"#;
        let Read::Found(znode) = read(text) else {
            panic!("not read");
        };
        let named: Vec<String> = znode.partitions.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["t-0", "u-3"]);
        assert_eq!(znode.broken, [""; 0]);
    }

    #[test]
    fn a_bad_entry_costs_itself_and_is_named() {
        for bad in [
            r#"{"topic":"t"}"#,
            r#"{"topic":1,"partition":0}"#,
            r#"{"topic":"t","partition":-1}"#,
            r#"{"topic":"t","partition":"0"}"#,
            "null",
            "7",
        ] {
            let text = format!(r#"{{"partitions":[{bad},{{"topic":"t","partition":1}}]}}"#);
            let Read::Found(znode) = read(&text) else {
                panic!("{bad} cost the whole node");
            };
            assert_eq!(znode.partitions.len(), 1, "{bad}");
            let [broken] = &znode.broken[..] else {
                panic!("{bad}: {:?}", znode.broken);
            };
            assert!(
                broken.starts_with(PATH) && broken.contains("entry 0"),
                "{broken}"
            );
        }
    }

    #[test]
    fn content_that_is_no_such_node_is_broken_and_names_the_path() {
        for bad in [
            "",
            "[]",
            "x",
            "{}",
            r#"{"partitions":3}"#,
            r#"{"partitions":null}"#,
        ] {
            let Read::Broken(why) = read(bad) else {
                panic!("`{bad}` was read");
            };
            assert!(why.starts_with(PATH), "{why}");
        }
    }

    const REASSIGN: &str = "/admin/reassign_partitions";

    fn targets(text: &str) -> (Vec<String>, Vec<String>) {
        let znode = decode_reassignment(REASSIGN, text.as_bytes(), 3, 7);
        let targets = znode.targets.iter();
        let targets = targets.map(|(at, replicas)| format!("{at} {replicas}"));
        (targets.collect(), znode.broken)
    }

    #[test]
    fn a_reassignment_is_read_and_written_as_the_tools_do() {
        let text = r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["any","any"]},{"replicas":[3],"partition":3,"topic":"u"}]}"#;
        let (read, broken) = targets(text);
        assert_eq!(read, ["t-0 [2,1]", "u-3 [3]"]);
        assert_eq!(broken, [""; 0]);
        let znode = decode_reassignment(REASSIGN, text.as_bytes(), 3, 7);
        assert_eq!((znode.version, znode.czxid), (3, 7));
        let again = encode_reassignment(&znode.targets);
        assert_eq!(
            String::from_utf8(again).unwrap(),
            r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]},{"topic":"u","partition":3,"replicas":[3]}]}"#
        );
    }

    #[test]
    fn a_bad_entry_of_a_reassignment_costs_itself_and_is_named() {
        for bad in [
            r#"{"topic":"t","partition":0}"#,
            r#"{"topic":"t","replicas":[1]}"#,
            r#"{"partition":0,"replicas":[1]}"#,
            r#"{"topic":1,"partition":0,"replicas":[1]}"#,
            r#"{"topic":"t","partition":"0","replicas":[1]}"#,
            r#"{"topic":"t","partition":0,"replicas":"1"}"#,
            r#"{"topic":"t","partition":0,"replicas":["1"]}"#,
            r#"{"topic":"t","partition":0,"replicas":[99999999999]}"#,
            r#"{"topic":"t","partition":0,"replicas":null}"#,
            r#"{"topic":"t","partition":0,"replicas":[]}"#,
            r#"{"topic":"t","partition":0,"replicas":[1,2,1]}"#,
            r#"{"topic":"t","partition":0,"replicas":[1,-1]}"#,
            r#"{"topic":"t","partition":-1,"replicas":[1]}"#,
            "null",
            "[]",
        ] {
            let text = format!(
                r#"{{"version":77,"partitions":[{bad},{{"topic":"t","partition":1,"replicas":[1]}}]}}"#
            );
            let (read, broken) = targets(&text);
            assert_eq!(read, ["t-1 [1]"], "{bad}");
            assert_eq!(broken.len(), 1, "{bad}: {broken:?}");
            assert!(
                broken[0].starts_with("/admin/reassign_partitions: entry 0, `"),
                "{broken:?}"
            );
            assert!(broken[0].contains("ask for it again as"), "{broken:?}");
        }
    }

    #[test]
    fn of_two_entries_for_a_partition_the_last_counts_and_that_is_said() {
        let text = r#"{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}"#;
        let (read, broken) = targets(text);
        assert_eq!(read, ["t-0 [2]"]);
        assert!(broken[0].contains("entry 1") && broken[0].contains("[1], is ignored"));
    }

    #[test]
    fn content_that_is_no_reassignment_asks_for_nothing_and_says_so() {
        for bad in [
            "",
            "null",
            "[]",
            "x",
            "{}",
            r#"{"partitions":3}"#,
            r#"{"partitions":null}"#,
        ] {
            let (read, broken) = targets(bad);
            assert_eq!(read, [""; 0], "`{bad}`");
            assert_eq!(broken.len(), 1, "`{bad}`");
            assert!(broken[0].starts_with(REASSIGN), "{broken:?}");
        }
    }
}
