//! Seeded worlds: one seed is one whole world on one thread, in which much goes wrong.
//!
//! First a safety phase, in which nothing may ever be broken; then faults stop and all must come to rest; perhaps without
//! one broker first; then fresh things are asked. Must never depend on anything but the story. Model: TigerBeetle's simulator.

pub mod act;
mod afresh;
mod away;
mod brokers;
pub mod checks;
pub mod climate;
mod climate_text;
mod ending;
mod klamms;
mod letters;
pub mod life;
mod operators;
pub mod report;
pub mod rival;
pub mod scenario;
pub mod shrink;
mod simulator;
pub mod trace;

use std::panic::{AssertUnwindSafe, catch_unwind};

use scenario::Scenario;
use simulator::Simulator;
use trace::Trace;

/// What stands before all that is not at rest.
const NOT_AT_REST: &str = "it does not come to rest";

/// What came of a story.
#[derive(Debug)]
pub struct Outcome {
    /// What was broken, or did not come to rest; `None`: all is well.
    pub failure: Option<String>,
    /// What happened.
    pub trace: Trace,
}

/// Plays a story to its end, or to the first breach.
pub fn play(scenario: &Scenario, trace: Trace) -> Outcome {
    // A world that can't even be built is a failure like any other, not the end of all seeds.
    let built = catch_unwind(AssertUnwindSafe(|| Simulator::new(scenario, trace)));
    let mut simulator = match built {
        Ok(simulator) => simulator,
        Err(panic) => {
            let why = message(panic.as_ref());
            return Outcome {
                failure: Some(format!("this world can't be built: {why}")),
                trace: Trace::default(),
            };
        }
    };
    let played = catch_unwind(AssertUnwindSafe(|| play_all(&mut simulator)));
    let failure = match played {
        Ok(ended) => ended.err(),
        Err(panic) => Some(message(panic.as_ref())),
    };
    Outcome {
        failure,
        trace: simulator.into_trace(),
    }
}

fn play_all(simulator: &mut Simulator) -> Result<(), String> {
    simulator.run_until(simulator.safety_ms());
    simulator.calm_down();
    rest(simulator)?;
    if let Some(away) = simulator.bring_back_who_was_away() {
        rest(simulator).map_err(|why| format!("once broker {away} is back {why}"))?;
    }
    simulator.ask_afresh()
}

fn rest(simulator: &mut Simulator) -> Result<(), String> {
    let unrest = simulator.come_to_rest();
    match unrest.is_empty() {
        true => Ok(()),
        false => Err(format!("{NOT_AT_REST}:\n{}", unrest.join("\n"))),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_that_cannot_be_built_is_told_as_a_failure() {
        let mut scenario = Scenario::of(1);
        let twice = scenario.climate.brokers[0].clone();
        scenario.climate.brokers.push(twice);
        let failure = play(&scenario, Trace::default()).failure.unwrap();
        assert!(failure.contains("can't be built"), "{failure}");
    }
}
