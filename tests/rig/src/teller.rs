//! Tells a story step by step: what happens, how it went, how long it took. In colour where somebody watches.

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// What a step that went well has to say.
#[derive(Debug, Clone)]
pub struct Told {
    /// The time that matters, where it is not that of the whole step.
    pub took: Option<Duration>,
    pub detail: String,
}

impl Told {
    /// A step whose measured time is `took`.
    pub fn after(took: Duration, detail: impl Into<String>) -> Self {
        Self {
            took: Some(took),
            detail: detail.into(),
        }
    }
}

impl From<String> for Told {
    fn from(detail: String) -> Self {
        Self { took: None, detail }
    }
}

impl From<&str> for Told {
    fn from(detail: &str) -> Self {
        Self {
            took: None,
            detail: detail.to_owned(),
        }
    }
}

/// One step, told.
#[derive(Debug, Clone)]
pub struct Step {
    pub text: String,
    pub took: Duration,
    /// What it had to say, or what was seen where something else was expected.
    pub outcome: std::result::Result<String, String>,
}

/// Whether steps are printed as they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    Live,
    /// Keeps them for a report.
    Quiet,
}

/// The teller of one story.
#[derive(Debug)]
pub struct Teller {
    voice: Voice,
    steps: Vec<Step>,
}

impl Teller {
    pub fn new(voice: Voice) -> Self {
        Self {
            voice,
            steps: Vec::new(),
        }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Tells one step.
    ///
    /// # Errors
    /// Those of `act`, which are told and kept as well: a story may go on to steps that do not need this one.
    pub fn step<T: Into<Told>>(
        &mut self,
        text: &str,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<()> {
        let started = Instant::now();
        let waiting = self.waiting(text);
        let outcome = act().map(Into::into);
        waiting.finish_and_clear();
        let took = outcome
            .as_ref()
            .ok()
            .and_then(|told| told.took)
            .unwrap_or_else(|| started.elapsed());
        let (said, result) = match outcome {
            Ok(told) => (Ok(told.detail), Ok(())),
            Err(error) => (Err(what_was_seen(&error)), Err(error)),
        };
        let step = Step {
            text: text.to_owned(),
            took,
            outcome: said,
        };
        if self.voice == Voice::Live {
            println!("{}", line(&step));
        }
        self.steps.push(step);
        result
    }

    /// A moving sign on a terminal while a step is under way.
    fn waiting(&self, text: &str) -> ProgressBar {
        if self.voice == Voice::Quiet || !stdout().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner().with_message(text.to_owned());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg}  {elapsed:.dim}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// The whole chain of an error on one line, without the backtrace that its debug form carries.
pub fn what_was_seen(error: &Error) -> String {
    format!("{error:#}")
}

fn line(step: &Step) -> String {
    let seconds = format!("{:>7.2} s", step.took.as_secs_f64());
    match &step.outcome {
        Ok(detail) => {
            let detail = if detail.is_empty() {
                String::new()
            } else {
                format!(": {detail}")
            };
            format!(
                "  {} {} {}{}",
                green("ok  "),
                dim(&seconds),
                step.text,
                dim(&detail)
            )
        }
        Err(seen) => format!(
            "  {} {} {}: {}",
            red("FAIL"),
            dim(&seconds),
            step.text,
            seen
        ),
    }
}

/// A table of all steps: result, time, what happened.
pub fn table(steps: &[Step]) -> String {
    let widest = steps
        .iter()
        .map(|step| step.text.chars().count())
        .max()
        .unwrap_or(0);
    let mut rows = vec![format!("  {:<widest$}  {:>9}  result", "step", "time")];
    for step in steps {
        let result = if step.outcome.is_ok() {
            green("ok")
        } else {
            red("FAIL")
        };
        rows.push(format!(
            "  {:<widest$}  {:>7.2} s  {result}",
            step.text,
            step.took.as_secs_f64()
        ));
    }
    rows.join("\n")
}

pub fn green(text: &str) -> String {
    painted("32", text)
}

pub fn red(text: &str) -> String {
    painted("1;31", text)
}

pub fn bold(text: &str) -> String {
    painted("1", text)
}

pub fn dim(text: &str) -> String {
    painted("2", text)
}

/// Colours only where somebody watches, and not where they asked for none.
fn painted(code: &str, text: &str) -> String {
    if text.is_empty() || !stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        return text.to_owned();
    }
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_kept_and_its_error_handed_on() {
        let mut teller = Teller::new(Voice::Quiet);
        assert!(teller.step("goes well", || Ok("as expected")).is_ok());
        assert!(
            teller
                .step("goes wrong", || -> Result<Told> {
                    Err(anyhow::anyhow!("saw 3, expected 4"))
                })
                .is_err()
        );
        let outcomes: Vec<bool> = teller
            .steps()
            .iter()
            .map(|step| step.outcome.is_ok())
            .collect();
        assert_eq!(outcomes, [true, false]);
        assert!(table(teller.steps()).contains("FAIL"));
    }
}
