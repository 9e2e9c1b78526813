//! `cargo sim`: plays seeded worlds, tells what failed, and makes the first failing story short.
//!
//! Must never print what differs from one run of the same seeds to the next, but for how long it took.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use klamm_sim::seeds::play;
use klamm_sim::seeds::report::{Tally, story};
use klamm_sim::seeds::scenario::Scenario;
use klamm_sim::seeds::shrink::{Failing, shrink};
use klamm_sim::seeds::trace::Trace;

/// Play seeded worlds: klamms, a Java-like rival, ZooKeeper, brokers and operators on one thread, with all that goes wrong
#[derive(Debug, Parser)]
#[command(name = "cargo sim", bin_name = "cargo sim")]
struct Arguments {
    /// Seeds from A to B, both included
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "story"], required_unless_present_any = ["seed", "story"], value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// One seed
    #[arg(long, value_name = "N", conflicts_with = "story")]
    seed: Option<u64>,
    /// A story that was kept, as in fixtures/seeds
    #[arg(long, value_name = "FILE")]
    story: Option<PathBuf>,
    /// Print all that happens
    #[arg(long, conflicts_with = "seeds")]
    trace: bool,
    /// Write the failing story to a file as well, to be played again
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Tell a failing story as it is, without making it short
    #[arg(long)]
    long: bool,
    /// How many seeds are played at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").and_then(|(first, last)| {
        let last = last.strip_prefix('=').unwrap_or(last);
        Some((first.parse().ok()?, last.parse().ok()?))
    });
    match parsed {
        Some((first, last)) if first <= last => Ok((first, last)),
        _ => Err("a first and a last seed are expected, as in 1..20000".to_owned()),
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // What a world panics with is told with its story.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some((first, last)) = arguments.seeds {
        return Ok(play_seeds(first, last, &arguments));
    }
    let scenario = match (&arguments.story, arguments.seed) {
        (Some(file), _) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("can't read the story {}", file.display()))?;
            let story = text.parse::<Scenario>().map_err(anyhow::Error::msg);
            story.with_context(|| format!("{} is no story", file.display()))?
        }
        (None, seed) => Scenario::of(seed.unwrap_or_default()),
    };
    Ok(play_one(scenario, &arguments))
}

fn play_one(scenario: Scenario, arguments: &Arguments) -> ExitCode {
    let trace = match arguments.trace {
        true => Trace::kept(),
        false => Trace::default(),
    };
    let outcome = play(&scenario, trace);
    for line in outcome.trace.lines() {
        println!("{line}");
    }
    let mut tally = Tally::default();
    let seed = scenario.seed;
    tally.add(seed, outcome.failure.clone(), &outcome.trace);
    if let Some(failure) = outcome.failure {
        tell(Failing { scenario, failure }, arguments);
    }
    finish(&tally)
}

fn play_seeds(first: u64, last: u64, arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = arguments.threads.map_or_else(cores, NonZero::get);
    let next = AtomicU64::new(first);
    let play_some = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > last {
                return tally;
            }
            let outcome = play(&Scenario::of(seed), Trace::default());
            tally.add(seed, outcome.failure, &outcome.trace);
        }
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads).map(|_| scope.spawn(play_some)).collect();
        for player in players {
            match player.join() {
                Ok(played) => tally.merge(played),
                // A world's panic is caught in the world: one that gets here is the simulator's own.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let took_s = began.elapsed().as_secs_f64();
    for (seed, why) in &tally.failed {
        println!("seed {seed} failed: {}", first_words(why));
    }
    if let Some((seed, failure)) = tally.failed.first_key_value() {
        let scenario = Scenario::of(*seed);
        let failure = failure.clone();
        tell(Failing { scenario, failure }, arguments);
    }
    println!("{}", tally.table());
    println!("{:.1} seeds/s", tally.played as f64 / took_s);
    finish(&tally)
}

fn first_words(why: &str) -> String {
    let lines: Vec<&str> = why.lines().take(3).collect();
    lines.join(" | ").chars().take(500).collect()
}

fn tell(failing: Failing, arguments: &Arguments) {
    let failing = match arguments.long {
        true => failing,
        false => shrink(failing),
    };
    let story = story(&failing);
    println!("{story}");
    if let Some(file) = &arguments.keep
        && let Err(why) = std::fs::write(file, story)
    {
        println!("the story can't be written to {}: {why}", file.display());
    }
}

/// The closing line, and the exit code that goes with it.
fn finish(tally: &Tally) -> ExitCode {
    let failed = tally.failed.len() as u64;
    println!("seeds: {} passed, {failed} failed", tally.played - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
