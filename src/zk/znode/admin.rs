//! What operators and their tools write below `/admin`: JSON to values.
//!
//! One bad entry costs only itself: what can be understood is done, and the rest is named.
//! Upstream: `PreferredReplicaElectionZNode` in `ZkData.scala`, which takes the whole node or nothing.

use serde::Deserialize;
use serde_json::Value;

use super::{judged, parse, shortened};
use crate::effect::{PreferredElectionZnode, Read};
use crate::model::{TopicName, TopicPartition};

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
}
