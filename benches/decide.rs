//! How long the controller decides in a cluster of 100,000 partitions: elections, a broker's death, its requests.
//!
//! `cargo bench --bench decide`. Must never count ZooKeeper: every write is taken for written at once. Upstream:
//! `PartitionStateMachine`, `ReplicaStateMachine`, `ControllerBrokerRequestBatch`.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

mod cluster;

use divan::Bencher;
use divan::counter::ItemsCount;
use klamm::effect::{ControlRequests, ZkOutcome};
use klamm::machine::election::{ElectionStrategy, UncleanRule};
use klamm::machine::partition::{self, OnlineChange};
use klamm::machine::replica::OfflineChange;
use klamm::machine::request_batch::ControllerBrokerRequestBatch;
use klamm::machine::{Fetched, StateChange};
use klamm::model::{BrokerId, TopicPartition};
use klamm::state::{ControllerContext, PartitionState};

fn main() {
    divan::main();
}

const OFFLINE: ElectionStrategy =
    ElectionStrategy::OfflinePartition(UncleanRule::ByConfig { default: false });

fn full_cluster() -> ControllerContext {
    cluster::fill(cluster::reads())
}

/// Decides, takes every write for written, and applies; how many were written.
fn carry_out(
    context: &mut ControllerContext,
    change: &impl StateChange,
    batch: &mut ControllerBrokerRequestBatch,
) -> usize {
    let needs = change.needs(context);
    assert!(needs.is_empty(), "nothing is to be read first");
    let decision = change.decide(context, &Fetched::default());
    let written = decision.writes().len();
    let outcomes = vec![ZkOutcome::Written { version: 8 }; written];
    let applied = change.apply(context, decision, &outcomes, batch);
    assert!(applied.refused.is_empty() && applied.retry.is_empty());
    written
}

/// Every partition lost its leader: elect, note and build all requests.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn elect_every_partition(bencher: Bencher<'_, '_>) {
    let everything = full_cluster().partitions_with_leadership();
    bencher
        .counter(ItemsCount::new(everything.len()))
        .with_inputs(full_cluster)
        .bench_local_values(|mut context| {
            let mut batch = ControllerBrokerRequestBatch::new();
            let change = OnlineChange::new(everything.clone(), OFFLINE);
            let written = carry_out(&mut context, &change, &mut batch);
            assert_eq!(written, everything.len());
            batch.into_requests(&context).unwrap()
        });
}

/// The decision alone, without noting it.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn decide_on_every_partition(bencher: Bencher<'_, '_>) {
    let context = full_cluster();
    let change = OnlineChange::new(context.partitions_with_leadership(), OFFLINE);
    bencher
        .counter(ItemsCount::new(cluster::PARTITIONS as u64))
        .bench_local(|| change.decide(&context, &Fetched::default()));
}

/// One of 20 brokers dies: 5,000 elections, 15,000 in-sync sets, and what everybody hears.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn a_broker_dies(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(full_cluster)
        .bench_local_values(|mut context| broker_death(&mut context, BrokerId(7)));
}

fn broker_death(context: &mut ControllerContext, dead: BrokerId) -> Vec<ControlRequests> {
    context.remove_live_broker(dead);
    let leaderless: Vec<TopicPartition> = context.partitions_with_offline_leader();
    for at in &leaderless {
        context.put_partition_state(at, PartitionState::Offline);
    }
    let mut elections = ControllerBrokerRequestBatch::new();
    let candidates = partition::online_candidates(context);
    let written = carry_out(
        context,
        &OnlineChange::new(candidates, OFFLINE),
        &mut elections,
    );
    assert_eq!(written, leaderless.len());
    let elections = elections.into_requests(context);

    let mut shrinks = ControllerBrokerRequestBatch::new();
    let change = OfflineChange::new(context.replicas_on(dead));
    carry_out(context, &change, &mut shrinks);
    let shrinks = shrinks.into_requests(context);
    elections.into_iter().chain(shrinks).collect()
}

/// What a failover sends: every partition to its replicas and to all caches.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn batch_every_partition(bencher: Bencher<'_, '_>) {
    let context = full_cluster();
    let everything = context.partitions_with_leadership();
    bencher
        .counter(ItemsCount::new(everything.len()))
        .bench_local(|| {
            let mut batch = ControllerBrokerRequestBatch::new();
            for partition in &everything {
                let replicas: Vec<BrokerId> = context.replicas(partition).iter().collect();
                batch.add_leader_and_isr(&context, &replicas, partition, false);
            }
            batch.into_requests(&context).unwrap()
        });
}
