//! Proof that the seeded worlds see: each planted fault is found within two thousand of them, and told by what a user would
//! suffer from.
//!
//! A fault that no world finds is a hole in the worlds or in the checkers; it is never a reason to take the fault out.

use std::sync::atomic::{AtomicUsize, Ordering};

use klamm::planted::{Fault, plant};
use klamm_sim_planted::planted::plant_unfenced;
use klamm_sim_planted::seeds::play;
use klamm_sim_planted::seeds::scenario::Scenario;
use klamm_sim_planted::seeds::trace::Trace;

/// Within so many seeds each must be found.
const SEEDS_MAX: u64 = 2_000;

/// What is planted: a fault of the controller, or that its port forgets to check the epoch.
#[derive(Debug, Clone, Copy)]
enum Planted {
    Controller(Fault),
    DropEpochCheck,
}

impl Planted {
    fn all() -> Vec<Planted> {
        let of_controller = Fault::ALL.iter().copied().map(Planted::Controller);
        of_controller.chain([Planted::DropEpochCheck]).collect()
    }

    fn plant(self) {
        match self {
            Planted::Controller(fault) => plant(Some(fault)),
            Planted::DropEpochCheck => plant_unfenced(true),
        }
    }

    fn about(self) -> &'static str {
        match self {
            Planted::Controller(fault) => fault.about(),
            Planted::DropEpochCheck => "A deposed controller's writes take hold.",
        }
    }
}

fn take_out() {
    plant(None);
    plant_unfenced(false);
}

/// The first seed in which a fault is found, and how. A world that fails without it finds nothing.
fn found(fault: Planted) -> Option<(u64, String)> {
    (1..=SEEDS_MAX).find_map(|seed| {
        let fails = || play(&Scenario::of(seed), Trace::default()).failure;
        fault.plant();
        let failure = fails();
        take_out();
        let failure = failure?;
        fails().is_none().then_some((seed, failure))
    })
}

#[test]
fn every_planted_fault_is_found_within_two_thousand_seeds() {
    std::panic::set_hook(Box::new(|_| {}));
    let all = Planted::all();
    let next = AtomicUsize::new(0);
    let find_some = || {
        let mut lines = Vec::new();
        let mut missed = Vec::new();
        while let Some(fault) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            match found(*fault) {
                Some((seed, how)) => {
                    let words: Vec<&str> = how.lines().take(2).collect();
                    let words: String = words.join(" ").chars().take(150).collect();
                    lines.push(format!("{fault:?}: seed {seed}: {words}"));
                }
                None => missed.push(format!("{fault:?}: {}", fault.about())),
            }
        }
        (lines, missed)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut lines, mut missed) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let finders: Vec<_> = (0..threads).map(|_| scope.spawn(find_some)).collect();
        for finder in finders {
            let (found, not_found) = finder.join().expect("a finder catches what a world throws");
            lines.extend(found);
            missed.extend(not_found);
        }
    });
    lines.sort();
    println!("{}", lines.join("\n"));
    assert_eq!(lines.len() + missed.len(), all.len());
    assert!(all.len() >= 20);
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
