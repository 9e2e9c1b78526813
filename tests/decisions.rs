//! Runs the decision tables in `fixtures/decisions` through the machines, as the controller's loop does.
//!
//! Must never judge: what is right stands in the tables alone. Upstream: `PartitionStateMachineTest`,
//! `PartitionLeaderElectionAlgorithmsTest`, `ReplicaStateMachineTest`, and AlterPartition in `ControllerIntegrationTest`.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

#[path = "decisions/alter_partition.rs"]
mod alter_partition;
#[path = "decisions/elections.rs"]
mod elections;
#[path = "decisions/given.rs"]
mod given;
#[path = "decisions/replica_offline.rs"]
mod replica_offline;
#[path = "decisions/table.rs"]
mod table;

#[test]
fn elections_choose_whom_the_table_says() {
    table::check(
        "fixtures/decisions/elections.txt",
        include_str!("../fixtures/decisions/elections.txt"),
        elections::run,
    );
}

#[test]
fn leaders_change_their_in_sync_sets_as_the_table_says() {
    table::check(
        "fixtures/decisions/alter_partition.txt",
        include_str!("../fixtures/decisions/alter_partition.txt"),
        alter_partition::run,
    );
}

#[test]
fn replicas_that_go_offline_leave_what_the_table_says() {
    table::check(
        "fixtures/decisions/replica_offline.txt",
        include_str!("../fixtures/decisions/replica_offline.txt"),
        replica_offline::run,
    );
}
