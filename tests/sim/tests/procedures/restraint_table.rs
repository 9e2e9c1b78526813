//! Broken contents × every node that the controller reads, with the right outcome of each: data only, for the simulated
//! ZooKeeper (`restraint`) and for genuine ones (`tests/zk/restraint.rs`).
//!
//! `/controller_epoch` is not here: whoever writes it deposes the controller, whatever he writes.

use std::borrow::Cow;

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A message names the node, which stays as it is.
    Named,
    /// A message names the node, which is removed.
    Removed,
    /// The node is removed, and there is nothing to say.
    Served,
    /// The content is understood, or doesn't matter.
    Taken,
}

use Outcome::{Named, Removed, Served, Taken};

/// When a node is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As it comes, and at a takeover.
    Always,
    /// At a takeover only.
    Takeover,
}

/// A kind of node.
pub struct Node {
    /// Its path; `#` stands for the row's number, three digits.
    pub path: &'static str,
    /// When it is read.
    pub when: When,
    /// What becomes of contents that make sense nowhere.
    pub nonsense: Outcome,
    /// Those of them, by name, that make sense here.
    pub taken: &'static [&'static str],
    /// Contents of its own.
    pub own: &'static [(&'static str, &'static str, Outcome)],
}

/// One row.
pub struct Row {
    pub node: &'static Node,
    pub number: usize,
    pub path: String,
    pub what: &'static str,
    pub content: Cow<'static, [u8]>,
    pub outcome: Outcome,
}

/// Just under what ZooKeeper takes (`jute.maxbuffer`).
const HUGE: usize = 1_000_000;

/// Contents that make sense in next to no node.
const NONSENSE: &[(&str, &[u8])] = &[
    ("empty", b""),
    ("blank", b" \n"),
    ("half a JSON", b"{"),
    ("text", b"hello"),
    ("null", b"null"),
    ("a list", b"[]"),
    ("a number", b"7"),
    ("a string", b"\"text\""),
    ("bytes", b"\xff\xfe\x00{}"),
    ("no fields", b"{}"),
    ("null fields", br#"{"version":null,"partitions":null,"leader":null,"config":null,"features":null,"broker":null,"endpoints":null}"#),
];

pub const NODES: &[Node] = &[
    Node {
        path: "/controller",
        when: When::Always,
        nonsense: Taken,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":2,"brokerid":"1","timestamp":"0"}"#,
                Taken,
            ),
            (
                "unknown version",
                r#"{"version":99,"brokerid":1,"timestamp":"0"}"#,
                Taken,
            ),
            (
                "an id that doesn't exist",
                r#"{"version":2,"brokerid":77,"timestamp":"0"}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/brokers/ids/10#",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":4,"endpoints":"PLAINTEXT://h:1"}"#,
                Named,
            ),
            (
                "missing field",
                r#"{"version":4,"host":"h","port":1}"#,
                Named,
            ),
            (
                "unknown version",
                r#"{"version":0,"host":"h","port":1}"#,
                Named,
            ),
            (
                "a bad endpoint",
                r#"{"version":4,"endpoints":["h:1"]}"#,
                Named,
            ),
            (
                "a protocol that doesn't exist",
                r#"{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"B"}}"#,
                Named,
            ),
        ],
    },
    Node {
        path: "/brokers/ids/not-a-number-#",
        when: When::Always,
        nonsense: Taken,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/brokers/topics/broken-#",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":1,"partitions":{"0":"1,2"}}"#,
                Named,
            ),
            (
                "wrong type within",
                r#"{"version":1,"partitions":{"0":["1"]}}"#,
                Named,
            ),
            ("missing field", r#"{"version":1,"topic":"t"}"#, Named),
            (
                "unknown version",
                r#"{"version":99,"partitions":{}}"#,
                Taken,
            ),
            (
                "unknown field",
                r#"{"version":3,"partitions":{},"x":{"y":[1]}}"#,
                Taken,
            ),
            (
                "a partition that is no number",
                r#"{"version":1,"partitions":{"one":[1]}}"#,
                Named,
            ),
            (
                "a negative partition",
                r#"{"version":1,"partitions":{"-1":[1]}}"#,
                Named,
            ),
            (
                "duplicate replicas",
                r#"{"version":1,"partitions":{"0":[1,1]}}"#,
                Named,
            ),
            (
                "a negative replica",
                r#"{"version":1,"partitions":{"0":[-1]}}"#,
                Named,
            ),
            (
                "no replicas",
                r#"{"version":1,"partitions":{"0":[]}}"#,
                Named,
            ),
            (
                "brokers that don't exist",
                r#"{"version":1,"partitions":{"0":[77,78]}}"#,
                Taken,
            ),
            (
                "a topic id that is none",
                r#"{"version":3,"topic_id":"x","partitions":{"0":[1]}}"#,
                Named,
            ),
        ],
    },
    Node {
        path: "/brokers/topics/not a name #",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/brokers/topics/state-#/partitions/0/state",
        when: When::Takeover,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"controller_epoch":1,"leader":"1","version":1,"leader_epoch":0,"isr":[1]}"#,
                Named,
            ),
            (
                "missing field",
                r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0}"#,
                Named,
            ),
            (
                "unknown version",
                r#"{"controller_epoch":1,"leader":1,"version":99,"leader_epoch":0,"isr":[1,2]}"#,
                Taken,
            ),
            (
                "unknown field",
                r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2],"x":1}"#,
                Taken,
            ),
            (
                "an unknown recovery state",
                r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2],"leader_recovery_state":9}"#,
                Named,
            ),
            (
                "brokers that don't exist",
                r#"{"controller_epoch":1,"leader":77,"version":1,"leader_epoch":0,"isr":[77]}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/admin/preferred_replica_election",
        when: When::Always,
        nonsense: Removed,
        taken: &[],
        own: &[
            ("wrong type", r#"{"version":1,"partitions":"t-0"}"#, Removed),
            (
                "wrong type within",
                r#"{"version":1,"partitions":[7,{"topic":1,"partition":0}]}"#,
                Removed,
            ),
            (
                "missing field",
                r#"{"version":1,"partitions":[{"topic":"dark"}]}"#,
                Removed,
            ),
            (
                "a negative partition",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":-1}]}"#,
                Removed,
            ),
            (
                "unknown version",
                r#"{"version":99,"partitions":[]}"#,
                Served,
            ),
            (
                "unknown field",
                r#"{"version":1,"partitions":[],"x":1}"#,
                Served,
            ),
            (
                "duplicates",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0},{"topic":"dark","partition":0}]}"#,
                Served,
            ),
            (
                "topics that don't exist",
                r#"{"version":1,"partitions":[{"topic":"nowhere","partition":0},{"topic":"dark","partition":9}]}"#,
                Removed,
            ),
        ],
    },
    Node {
        path: "/admin/reassign_partitions",
        when: When::Always,
        nonsense: Removed,
        taken: &[],
        own: &[
            ("wrong type", r#"{"version":1,"partitions":"t-0"}"#, Removed),
            (
                "wrong type within",
                r#"{"version":1,"partitions":[7,{"topic":"dark","partition":"0","replicas":[1]}]}"#,
                Removed,
            ),
            (
                "missing field",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0}]}"#,
                Removed,
            ),
            (
                "duplicate replicas",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[1,1]}]}"#,
                Removed,
            ),
            (
                "no replicas",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[]}]}"#,
                Removed,
            ),
            (
                "a negative replica",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[-1]}]}"#,
                Removed,
            ),
            (
                "a broker that nothing knows",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[66]}]}"#,
                Removed,
            ),
            (
                "a klamm",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0,"replicas":[1,9]}]}"#,
                Removed,
            ),
            (
                "topics that don't exist",
                r#"{"version":1,"partitions":[{"topic":"nowhere","partition":0,"replicas":[1]},{"topic":"dark","partition":9,"replicas":[1]}]}"#,
                Removed,
            ),
            (
                "unknown version",
                r#"{"version":99,"partitions":[]}"#,
                Served,
            ),
            (
                "unknown field",
                r#"{"version":1,"partitions":[],"x":1}"#,
                Served,
            ),
        ],
    },
    Node {
        path: "/admin/delete_topics/nowhere-#",
        when: When::Always,
        nonsense: Served,
        taken: &[],
        own: &[("something", r#"{"version":1}"#, Served)],
    },
    Node {
        path: "/config/topics/dark",
        when: When::Always,
        nonsense: Named,
        taken: &["empty", "no fields", "null fields"],
        own: &[
            ("wrong type", r#"{"version":1,"config":[]}"#, Named),
            (
                "wrong type within",
                r#"{"version":1,"config":{"unclean.leader.election.enable":1}}"#,
                Named,
            ),
            (
                "another word",
                r#"{"version":1,"config":{"unclean.leader.election.enable":"yes"}}"#,
                Named,
            ),
            (
                "unknown version",
                r#"{"version":99,"config":{"unclean.leader.election.enable":"false"}}"#,
                Taken,
            ),
            (
                "unknown field",
                r#"{"version":1,"config":{"x":"y"},"x":1}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/config/brokers/<default>",
        when: When::Always,
        nonsense: Named,
        taken: &["empty", "no fields", "null fields"],
        own: &[
            ("wrong type", r#"{"version":1,"config":7}"#, Named),
            (
                "another word",
                r#"{"version":1,"config":{"unclean.leader.election.enable":"maybe"}}"#,
                Named,
            ),
            (
                "unknown version",
                r#"{"version":99,"config":{"unclean.leader.election.enable":"false"}}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/config/users/quota-#",
        when: When::Takeover,
        nonsense: Named,
        taken: &["empty", "no fields", "null fields"],
        own: &[
            ("wrong type", r#"{"version":1,"config":[]}"#, Named),
            (
                "wrong type within",
                r#"{"version":1,"config":{"controller_mutation_rate":1}}"#,
                Named,
            ),
            (
                "no number",
                r#"{"version":1,"config":{"controller_mutation_rate":"much"}}"#,
                Named,
            ),
            (
                "a negative number",
                r#"{"version":1,"config":{"controller_mutation_rate":"-1"}}"#,
                Named,
            ),
            (
                "other quotas",
                r#"{"version":1,"config":{"producer_byte_rate":"5"}}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/config/clients/quota-#",
        when: When::Takeover,
        nonsense: Named,
        taken: &["empty", "no fields", "null fields"],
        own: &[],
    },
    Node {
        path: "/config/changes/config_change_9000000#",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":"2","entity_path":"topics/dark"}"#,
                Named,
            ),
            ("missing field", r#"{"version":2}"#, Named),
            (
                "unknown version",
                r#"{"version":99,"entity_path":"topics/dark"}"#,
                Named,
            ),
            (
                "a path of nothing",
                r#"{"version":2,"entity_path":"topics"}"#,
                Named,
            ),
            (
                "unknown field",
                r#"{"version":2,"entity_path":"topics/dark","x":1}"#,
                Taken,
            ),
            (
                "a topic that doesn't exist",
                r#"{"version":2,"entity_path":"topics/nowhere"}"#,
                Taken,
            ),
            (
                "an entity that doesn't exist",
                r#"{"version":2,"entity_path":"planets/earth"}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/config/changes/not-a-number-#",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/isr_change_notification/isr_change_0000000#",
        when: When::Always,
        nonsense: Removed,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":1,"partitions":"dark-0"}"#,
                Removed,
            ),
            (
                "missing field",
                r#"{"version":1,"partitions":[{"topic":"dark"}]}"#,
                Removed,
            ),
            (
                "unknown version",
                r#"{"version":99,"partitions":[]}"#,
                Served,
            ),
            (
                "unknown field",
                r#"{"version":1,"partitions":[],"x":1}"#,
                Served,
            ),
            (
                "duplicates",
                r#"{"version":1,"partitions":[{"topic":"dark","partition":0},{"topic":"dark","partition":0}]}"#,
                Served,
            ),
            (
                "topics that don't exist",
                r#"{"version":1,"partitions":[{"topic":"nowhere","partition":0},{"topic":"dark","partition":-9}]}"#,
                Served,
            ),
        ],
    },
    Node {
        path: "/isr_change_notification/not-a-number-#",
        when: When::Always,
        nonsense: Removed,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/log_dir_event_notification/log_dir_event_0000000#",
        when: When::Always,
        nonsense: Removed,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":1,"broker":"1","event":1}"#,
                Removed,
            ),
            ("missing field", r#"{"version":1,"event":1}"#, Removed),
            (
                "unknown version",
                r#"{"version":99,"broker":1,"event":1}"#,
                Served,
            ),
            (
                "unknown event",
                r#"{"version":1,"broker":1,"event":99}"#,
                Served,
            ),
            (
                "a broker that doesn't exist",
                r#"{"version":1,"broker":77,"event":1}"#,
                Served,
            ),
            (
                "a negative broker",
                r#"{"version":1,"broker":-1,"event":1}"#,
                Served,
            ),
        ],
    },
    Node {
        path: "/feature",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":2,"status":1,"features":[]}"#,
                Named,
            ),
            ("missing field", r#"{"version":2,"features":{}}"#, Named),
            (
                "unknown version",
                r#"{"version":99,"status":1,"features":{}}"#,
                Named,
            ),
            (
                "unknown status",
                r#"{"version":2,"status":9,"features":{}}"#,
                Named,
            ),
            (
                "a level of nothing",
                r#"{"version":2,"status":1,"features":{"f":{}}}"#,
                Named,
            ),
            (
                "unknown field",
                r#"{"version":2,"status":1,"features":{},"x":1}"#,
                Taken,
            ),
        ],
    },
    Node {
        path: "/latest_producer_id_block",
        when: When::Always,
        nonsense: Named,
        taken: &["empty"],
        own: &[
            (
                "wrong type",
                r#"{"version":1,"broker":1,"block_start":0,"block_end":999}"#,
                Named,
            ),
            (
                "missing field",
                r#"{"version":1,"broker":1,"block_start":"0"}"#,
                Named,
            ),
            (
                "no numbers",
                r#"{"version":1,"broker":1,"block_start":"a","block_end":"b"}"#,
                Named,
            ),
            (
                "the wrong way round",
                r#"{"version":1,"broker":1,"block_start":"999","block_end":"0"}"#,
                Named,
            ),
            (
                "negative",
                r#"{"version":1,"broker":1,"block_start":"-1","block_end":"999"}"#,
                Named,
            ),
        ],
    },
    Node {
        path: "/klamm/ids/not-a-number-#",
        when: When::Always,
        nonsense: Taken,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/klamm/ids/8#",
        when: When::Always,
        nonsense: Taken,
        taken: &[],
        own: &[],
    },
    Node {
        path: "/delegation_token/tokens/broken-#",
        when: When::Always,
        nonsense: Named,
        taken: &[],
        own: &[
            (
                "wrong type",
                r#"{"version":1,"maxTimestamp":"1","expiryTimestamp":1}"#,
                Named,
            ),
            ("missing field", r#"{"version":1,"maxTimestamp":1}"#, Named),
            (
                "unknown version",
                r#"{"version":99,"maxTimestamp":1,"expiryTimestamp":1}"#,
                Named,
            ),
            (
                "unknown field",
                r#"{"version":3,"maxTimestamp":1,"expiryTimestamp":1,"x":1}"#,
                Served,
            ),
        ],
    },
];

/// Every row, numbered through.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for node in NODES {
        let mut add = |what, content: Cow<'static, [u8]>, outcome| {
            let number = rows.len();
            rows.push(Row {
                node,
                number,
                path: node.path.replace('#', &format!("{number:03}")),
                what,
                content,
                outcome,
            });
        };
        for (what, content) in NONSENSE {
            let outcome = match node.taken.contains(what) {
                true => Taken,
                false => node.nonsense,
            };
            add(*what, Cow::Borrowed(*content), outcome);
        }
        add("huge", vec![b'x'; HUGE].into(), node.nonsense);
        for (what, content, outcome) in node.own {
            add(*what, content.as_bytes().into(), *outcome);
        }
    }
    rows
}
