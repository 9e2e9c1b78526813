//! Replicas that move, and leaders that return.

use crate::tools::Tool;
use crate::tools::case::{Case, Chosen, Releases, case};

const fn reassign(name: &'static str, arguments: &'static str, file: &'static str) -> Case {
    case(name, Tool::ReassignPartitions, arguments).file(file)
}

const EXECUTE: &str = "{server} --reassignment-json-file {file} --execute";
const VERIFY: &str = "{server} --reassignment-json-file {file} --verify";
/// Stands in what every release says of a partition that has moved, and of no other.
const DONE: &str = " complete";

const SWAP: &str =
    r#"{"version":1,"partitions":[{"topic":"{t}-given","partition":0,"replicas":[2,1]}]}"#;
const MOVE: &str =
    r#"{"version":1,"partitions":[{"topic":"{t}-data","partition":0,"replicas":[1,3]}]}"#;
const MOVE_BIG: &str =
    r#"{"version":1,"partitions":[{"topic":"{t}-big","partition":0,"replicas":[2]}]}"#;

/// Listing and cancelling came with the tool's way by the brokers.
const LISTS: Releases = Releases::since(2, 6);

const fn of_brokers_way(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Configs, arguments)
        .on(LISTS)
        .by_zookeeper(Releases::NONE)
}

pub const MOVES: &[Case] = &[
    reassign(
        "reassign-generate",
        "{server} --topics-to-move-json-file {file} --broker-list 1,2,3 --generate",
        r#"{"version":1,"topics":[{"topic":"{t}-given"}]}"#,
    )
    .looks()
    .chosen(Chosen::Replicas),
    reassign(
        "reassign-to-unknown",
        EXECUTE,
        r#"{"version":1,"partitions":[{"topic":"{t}-given","partition":0,"replicas":[1,77]}]}"#,
    )
    .refused(),
    reassign(
        "reassign-to-klamm",
        EXECUTE,
        r#"{"version":1,"partitions":[{"topic":"{t}-given","partition":0,"replicas":[1,{klamm}]}]}"#,
    )
    .refused(),
    reassign(
        "reassign-missing-topic",
        EXECUTE,
        r#"{"version":1,"partitions":[{"topic":"{t}-missing","partition":0,"replicas":[1,2]}]}"#,
    )
    .refused(),
    reassign(
        "reassign-missing-partition",
        EXECUTE,
        r#"{"version":1,"partitions":[{"topic":"{t}-given","partition":17,"replicas":[1,2]}]}"#,
    )
    .refused(),
    reassign(
        "reassign-twice-on-one",
        EXECUTE,
        r#"{"version":1,"partitions":[{"topic":"{t}-given","partition":0,"replicas":[1,1]}]}"#,
    )
    .refused(),
    reassign("reassign-verify-before", VERIFY, MOVE).ends_either_way(),
    reassign(
        "reassign-throttled",
        "{server} --reassignment-json-file {file} --execute --throttle 10000000",
        MOVE,
    )
    .leaves_under_way(),
    reassign("reassign-throttled-verify", VERIFY, MOVE).until(DONE),
    case(
        "reassign-moved-describe",
        Tool::Topics,
        "{server} --describe --topic {t}-data",
    )
    .looks(),
    // A throttle takes a moment to reach the brokers, and a move may be over by then: this one is there before. Brokers hear
    // of configurations in their order, so that whoever tells of the last has heard of the others. The mark waits for the
    // throttle: up to 2.8 the tool writes anew what the broker tells of, and would take out what that has yet to hear of.
    of_brokers_way(
        "throttle-topic",
        "{server} --alter --entity-type topics --entity-name {t}-big \
         --add-config follower.replication.throttled.replicas=0:2",
    ),
    of_brokers_way(
        "throttle-broker",
        "{server} --alter --entity-type brokers --entity-name 2 --add-config follower.replication.throttled.rate=1000",
    ),
    of_brokers_way(
        "throttle-broker-heard",
        "{server} --describe --entity-type brokers --entity-name 2",
    )
    .looks()
    .until("follower.replication.throttled.rate=1000"),
    of_brokers_way(
        "throttle-mark",
        "{server} --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2",
    ),
    of_brokers_way(
        "throttle-heard",
        "{server} --describe --entity-type brokers --entity-name 2",
    )
    .looks()
    .until("log.cleaner.threads=2"),
    of_brokers_way(
        "throttle-unmark",
        "{server} --alter --entity-type brokers --entity-name 2 --delete-config log.cleaner.threads",
    ),
    reassign(
        "reassign-slowly",
        "{server} --reassignment-json-file {file} --execute --throttle 1000",
        MOVE_BIG,
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE)
    .leaves_under_way(),
    case(
        "reassign-list",
        Tool::ReassignPartitions,
        "{server} --list",
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE)
    .looks(),
    case(
        "reassign-describe-under-way",
        Tool::Topics,
        "{server} --describe --topic {t}-big",
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE)
    .looks()
    .until("Replicas: 2,1"),
    reassign("reassign-verify-under-way", VERIFY, MOVE_BIG)
        .on(LISTS)
        .by_zookeeper(Releases::NONE)
        .looks(),
    reassign("reassign-while-under-way", EXECUTE, MOVE)
        .on(LISTS)
        .by_zookeeper(Releases::NONE)
        .refused()
        .leaves_under_way(),
    reassign(
        "reassign-cancel",
        "{server} --reassignment-json-file {file} --cancel",
        MOVE_BIG,
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE),
    reassign(
        "reassign-cancel-again",
        "{server} --reassignment-json-file {file} --cancel",
        MOVE_BIG,
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE)
    .ends_either_way(),
    case(
        "reassign-list-none",
        Tool::ReassignPartitions,
        "{server} --list",
    )
    .on(LISTS)
    .by_zookeeper(Releases::NONE)
    .looks(),
    reassign(
        "reassign-fast",
        "{server} --reassignment-json-file {file} --execute --throttle 50000000",
        MOVE_BIG,
    )
    .leaves_under_way(),
    reassign("reassign-fast-verify", VERIFY, MOVE_BIG).until(DONE),
];

const fn elect(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::LeaderElection, arguments)
}

const fn elect_by_old_tool(name: &'static str, file: &'static str) -> Case {
    case(
        name,
        Tool::PreferredReplicaElection,
        "{server} --path-to-json-file {file}",
    )
    .file(file)
}

pub const ELECTIONS: &[Case] = &[
    reassign("reassign-swap", EXECUTE, SWAP).leaves_under_way(),
    reassign("reassign-swap-verify", VERIFY, SWAP).until(DONE),
    case(
        "elect-describe-before",
        Tool::Topics,
        "{server} --describe --topic {t}-given",
    )
    .looks(),
    elect(
        "elect-preferred",
        "{server} --election-type preferred --topic {t}-given --partition 0",
    ),
    elect(
        "elect-preferred-again",
        "{server} --election-type preferred --topic {t}-given --partition 0",
    ),
    elect_by_old_tool(
        "elect-by-old-tool",
        r#"{"partitions":[{"topic":"{t}-given","partition":0},{"topic":"{t}-given","partition":1}]}"#,
    ),
    case(
        "elect-describe-after",
        Tool::Topics,
        "{server} --describe --topic {t}-given",
    )
    .looks()
    .until("Leader: 2\tReplicas: 2,1"),
    elect(
        "elect-all",
        "{server} --election-type preferred --all-topic-partitions",
    ),
    elect(
        "elect-unclean",
        "{server} --election-type unclean --topic {t}-given --partition 1",
    ),
    elect(
        "elect-missing-topic",
        "{server} --election-type preferred --topic {t}-missing --partition 0",
    )
    .refused(),
    elect(
        "elect-missing-partition",
        "{server} --election-type preferred --topic {t}-given --partition 17",
    )
    .refused(),
    case(
        "elect-of-file",
        Tool::LeaderElection,
        "{server} --election-type preferred --path-to-json-file {file}",
    )
    .file(r#"{"partitions":[{"topic":"{t}-given","partition":1},{"topic":"{t}-missing","partition":0}]}"#)
    .refused(),
    elect_by_old_tool(
        "elect-missing-by-old-tool",
        r#"{"partitions":[{"topic":"{t}-missing","partition":0}]}"#,
    )
    .ends_either_way(),
];
