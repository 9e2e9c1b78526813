//! Seeded worlds in every run of the tests: a fixed few hundred, and every story that once failed.
//!
//! More of them: `cargo sim --seeds 1..20000`.

use std::path::Path;

use klamm_sim::seeds::play;
use klamm_sim::seeds::report::Tally;
use klamm_sim::seeds::scenario::Scenario;
use klamm_sim::seeds::trace::Trace;

/// The seeds that every run plays.
const FIRST: u64 = 1;
const LAST: u64 = 300;

#[test]
fn the_first_few_hundred_worlds_are_safe_and_come_to_rest() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let play_some = |first: u64| {
            let mut tally = Tally::default();
            for seed in (FIRST + first..=LAST).step_by(threads as usize) {
                let outcome = play(&Scenario::of(seed), Trace::default());
                tally.add(seed, outcome.failure, &outcome.trace);
            }
            tally
        };
        let players: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || play_some(first)))
            .collect();
        for player in players {
            tally.merge(player.join().unwrap());
        }
    });
    println!("{}", tally.table());
    assert_eq!(tally.played, LAST - FIRST + 1);
    assert_eq!(
        tally.never(),
        [""; 0],
        "acts and mishaps that happened in no world"
    );
    assert!(
        tally.failed.is_empty(),
        "play them with `cargo sim --seed N`: {:#?}",
        tally.failed
    );
}

#[test]
fn every_kept_story_ends_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/seeds");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "story")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let story: Scenario = text.parse().unwrap();
        let outcome = play(&story, Trace::default());
        let name = path.file_name().unwrap().to_string_lossy();
        assert_eq!(
            outcome.failure, None,
            "cargo sim --story fixtures/seeds/{name}"
        );
        played += 1;
    }
    assert!(played > 0, "fixtures/seeds holds no story");
}

#[test]
fn the_same_seed_gives_the_same_trace_twice() {
    for seed in [1, 2, 3, 5, 8, 13, 21, 34] {
        let trace = || play(&Scenario::of(seed), Trace::kept()).trace;
        let (once, twice) = (trace(), trace());
        assert!(once.lines().len() > 50, "seed {seed}");
        assert_eq!(once.lines(), twice.lines(), "seed {seed}");
    }
}
