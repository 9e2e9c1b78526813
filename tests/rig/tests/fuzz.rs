//! A short run of `cargo rig fuzz`, always from the same seed. It has a process of its own: every allocation is counted.

#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

use klamm_rig::fuzz::meter::CountingAllocator;
use klamm_rig::fuzz::{self, Until};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

const SEED: u64 = 20_260_101;
const INPUTS: u64 = 4096;

#[test]
fn whatever_bytes_come_they_cost_little_and_what_is_understood_is_said_again_the_same() {
    let figures =
        fuzz::run(SEED, Until::Inputs(INPUTS)).unwrap_or_else(|fault| panic!("{fault:#}"));
    assert_eq!(
        figures.inputs,
        INPUTS * u64::try_from(figures.targets).unwrap()
    );
    // Else it would all be noise.
    for (message, understood) in &figures.understood {
        assert!(
            *understood >= INPUTS / 50,
            "{message}: only {understood} inputs were understood"
        );
    }
    assert_eq!(
        figures.understood.len(),
        figures.targets,
        "{:?}",
        figures.understood
    );
}
