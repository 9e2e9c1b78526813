//! How long it takes to fill an empty context with 100,000 partitions as read from ZooKeeper, and to check it whole.
//!
//! `cargo bench --bench load`. Must never count the making of the reads. Upstream: `initializeControllerContext`.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

mod cluster;

use divan::Bencher;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn fill_the_context(bencher: Bencher<'_, '_>) {
    let reads = cluster::reads();
    bencher
        .counter(divan::counter::ItemsCount::new(cluster::PARTITIONS as u64))
        .with_inputs(|| reads.clone())
        .bench_values(cluster::fill);
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn check_every_invariant(bencher: Bencher<'_, '_>) {
    let context = cluster::fill(cluster::reads());
    bencher
        .counter(divan::counter::ItemsCount::new(cluster::PARTITIONS as u64))
        .bench_local(|| {
            let violations = klamm::state::violations(&context);
            assert!(violations.is_empty(), "{violations:?}");
        });
}
