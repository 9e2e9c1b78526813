//! `cargo sim`: plays seeded worlds, tells what failed, and makes failing stories short.
//!
//! Must never print what differs from one run of the same seeds to the next, but for how long it took.

use std::process::ExitCode;

use klamm_sim::seeds::play;
use klamm_sim::seeds::scenario::Scenario;
use klamm_sim::seeds::trace::Trace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    std::panic::set_hook(Box::new(|_| {}));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--seeds", range] => {
            let (first, last) = range.split_once("..").unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            let began = std::time::Instant::now();
            let mut failed = 0;
            let mut counts = std::collections::BTreeMap::new();
            for seed in first..=last {
                let outcome = play(&Scenario::of(seed), Trace::default());
                for (what, times) in outcome.trace.counts() {
                    *counts.entry(*what).or_insert(0) += times;
                }
                if let Some(why) = outcome.failure {
                    failed += 1;
                    println!(
                        "seed {seed}: {}",
                        why.lines()
                            .take(4)
                            .collect::<Vec<_>>()
                            .join(" | ")
                            .chars()
                            .take(700)
                            .collect::<String>()
                    );
                }
            }
            for (what, times) in counts {
                println!("{times:>10} {what}");
            }
            let all = last - first + 1;
            println!("{:.1} seeds/s", all as f64 / began.elapsed().as_secs_f64());
            println!("seeds: {} passed, {failed} failed", all - failed);
        }
        ["--seed", seed, "--trace"] => {
            let outcome = play(&Scenario::of(seed.parse().unwrap()), Trace::kept());
            for line in outcome.trace.lines() {
                println!("{line}");
            }
            println!("{:?}", outcome.failure);
        }
        _ => println!("usage"),
    }
    ExitCode::SUCCESS
}
