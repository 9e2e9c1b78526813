//! Sets up logging: every event becomes a line of the Java controller's form, on standard output or in two files.
//!
//! Upstream counterpart: `log4j.properties`. A line that can't be written is lost; nothing waits, nothing panics.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::instruments::lock;
use super::log_file::LogFile;
use super::log_format::{self, CivilTime, LogEvent};
use super::state_change_log::{CONTROLLER_FILE, STATE_CHANGE_FILE, Stream};
use crate::config::{LogConfig, LogLevel};
use crate::model::BrokerId;

/// The environment variable that beats `klamm.log.level`. Besides a level it takes levels by target, such as
/// `info,klamm::zk=debug`.
pub const LOG_VARIABLE: &str = "KLAMM_LOG";

/// Why logging could not be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    #[error("klamm.log.dir: {0}")]
    Directory(#[from] io::Error),
    #[error(
        "{LOG_VARIABLE}={text}: {source}; expected a level, or levels by target such as info,klamm::zk=debug"
    )]
    Variable { text: String, source: ParseError },
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the whole process, once. `variable` is the text of the environment variable KLAMM_LOG, which
/// beats the level of the configuration.
///
/// # Errors
/// A directory that can't be written, a variable that can't be read, or a second call.
pub fn init(
    config: &LogConfig,
    variable: Option<&str>,
    klamm_id: BrokerId,
) -> Result<(), TelemetryError> {
    let filter = filter(config.level, variable)?;
    let sink = match &config.directory {
        Some(directory) => Sink::files(Path::new(directory))?,
        None => Sink::StandardOutput,
    };
    let layer = LogLayer { klamm_id, sink }.with_filter(filter);
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(())
}

fn filter(level: LogLevel, variable: Option<&str>) -> Result<Targets, TelemetryError> {
    let text = variable.map(str::trim).filter(|text| !text.is_empty());
    let Some(text) = text else {
        return Ok(Targets::new().with_default(level_filter(level)));
    };
    text.parse().map_err(|source| TelemetryError::Variable {
        text: text.to_owned(),
        source,
    })
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Where lines go.
#[derive(Debug)]
enum Sink {
    StandardOutput,
    Files {
        controller: Mutex<LogFile>,
        state_change: Mutex<LogFile>,
    },
}

impl Sink {
    fn files(directory: &Path) -> io::Result<Self> {
        let now = CivilTime::of(SystemTime::now());
        let open = |name| LogFile::open(directory, name, now).map(Mutex::new);
        Ok(Self::Files {
            controller: open(CONTROLLER_FILE)?,
            state_change: open(STATE_CHANGE_FILE)?,
        })
    }

    fn write(&self, stream: Stream, line: &str, now: CivilTime) {
        let written = match (self, stream) {
            (Self::StandardOutput, _) => io::stdout().lock().write_all(line.as_bytes()),
            (Self::Files { controller, .. }, Stream::Controller) => {
                lock(controller).write_line(line, now)
            }
            (Self::Files { state_change, .. }, Stream::StateChange) => {
                lock(state_change).write_line(line, now)
            }
        };
        // There is nobody left to tell.
        drop(written);
    }
}

/// Turns events into lines. Spans are not printed.
#[derive(Debug)]
struct LogLayer {
    klamm_id: BrokerId,
    sink: Sink,
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.message.push_str(&fields.others);
        let time = CivilTime::of(SystemTime::now());
        let metadata = event.metadata();
        let event = LogEvent {
            time,
            level: *metadata.level(),
            target: metadata.target(),
            controller_epoch: fields.controller_epoch,
            text: &fields.message,
        };
        self.sink.write(
            Stream::of(metadata.target()),
            &log_format::line(&event, self.klamm_id),
            time,
        );
    }
}

/// The fields of an event: the message, the epoch that goes into the prefix, and the rest as ` name=value`.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: String,
    controller_epoch: Option<i64>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to a String fails only if a value's own Debug or Display does; what came before it stays.
        let _ = match field.name() {
            "message" => self.message.write_fmt(value),
            name => write!(self.others, " {name}={value}"),
        };
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "controller_epoch" {
            self.controller_epoch = Some(value);
        } else {
            self.add(field, format_args!("{value}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::state_change_log::STATE_CHANGE;
    use std::path::PathBuf;

    #[test]
    fn events_land_in_their_files_with_fields_and_prefixes() {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("target/tmp/telemetry-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        let sink = Sink::files(&directory).unwrap();
        let filter = filter(LogLevel::Info, None).unwrap();
        let subscriber = tracing_subscriber::registry().with(
            LogLayer {
                klamm_id: BrokerId(9),
                sink,
            }
            .with_filter(filter),
        );
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "klamm::controller", broker = 3, path = %"/brokers/ids/3", name = "x", "Resigned");
            tracing::debug!(target: "klamm::controller", "too fine");
            let error = io::Error::other("broken\npipe");
            tracing::warn!(target: "klamm::broker", error = &error as &dyn std::error::Error, "Connection lost");
            tracing::info!(target: STATE_CHANGE, controller_epoch = 4, "Changed partition t-0 from X to Y");
        });
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        let (controller, state_change) = (read("controller.log"), read("state-change.log"));
        std::fs::remove_dir_all(&directory).unwrap();
        let endings: Vec<_> = controller
            .lines()
            .map(|line| line.split_once("] ").unwrap().1)
            .collect();
        assert_eq!(
            endings,
            [
                "INFO [Controller id=9] Resigned broker=3 path=/brokers/ids/3 name=x (kafka.controller.KafkaController)",
                "WARN [RequestSendThread controllerId=9] Connection lost error=broken\\npipe (kafka.controller.RequestSendThread)",
            ]
        );
        assert!(
            state_change.ends_with("] INFO [Controller id=9 epoch=4] Changed partition t-0 from X to Y (state.change.logger)\n"),
            "{state_change}"
        );
    }

    #[test]
    fn the_variable_beats_the_key_and_a_wrong_one_is_told() {
        let enabled =
            |filter: &Targets, target: &str| filter.would_enable(target, &tracing::Level::DEBUG);
        let from_key = filter(LogLevel::Debug, Some(" ")).unwrap();
        assert!(enabled(&from_key, "klamm::zk"));
        let from_variable = filter(LogLevel::Debug, Some("INFO,klamm::zk=debug")).unwrap();
        assert!(
            enabled(&from_variable, "klamm::zk::session") && !enabled(&from_variable, "klamm::api")
        );
        let error = filter(LogLevel::Info, Some("klamm=loud"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("KLAMM_LOG=klamm=loud: "), "{error}");
    }
}
