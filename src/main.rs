//! The process: command line, telemetry, runtime, exit code. What happens in between is in `runtime`.

use std::process::ExitCode;

use klamm::cli::{Command, ExitStatus};
use klamm::decode;
use klamm::observe::telemetry;
use klamm::runtime;

fn main() -> ExitCode {
    let command = match Command::parse_from(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    let outcome = match command {
        Command::Run(sources) => match sources.load() {
            Ok(config) => {
                let level = std::env::var(telemetry::LOG_VARIABLE).ok();
                match telemetry::init(&config.log, level.as_deref(), config.klamm_id) {
                    Ok(()) => runtime::run(&config),
                    Err(error) => Err(runtime::RunError::Telemetry(error)),
                }
            }
            Err(errors) => return wrong_configuration(&errors),
        },
        Command::Check(sources) => {
            let checked = match sources.load() {
                Ok(config) => runtime::check::check(&config),
                Err(errors) => Ok((runtime::check::refused(&errors), ExitStatus::Configuration)),
            };
            match checked {
                Ok((report, status)) => {
                    println!("{report}");
                    return status.into();
                }
                Err(error) => Err(error),
            }
        }
        Command::Handback(sources) => match sources.load_zookeeper() {
            Ok(zookeeper) => runtime::handback(&zookeeper),
            Err(errors) => return wrong_configuration(&errors),
        },
        Command::Takeover(sources) => match sources.load_zookeeper() {
            Ok(zookeeper) => runtime::takeover(&zookeeper),
            Err(errors) => return wrong_configuration(&errors),
        },
        Command::Decode(options) => {
            return match decode::run(&options) {
                Ok(()) => ExitStatus::Done.into(),
                Err(error) => {
                    eprintln!("klamm: {error}");
                    ExitStatus::Failed.into()
                }
            };
        }
    };
    match outcome {
        Ok(()) => ExitStatus::Done.into(),
        Err(error) => {
            eprintln!("klamm: {error}");
            error.exit_status().into()
        }
    }
}

fn wrong_configuration(errors: &klamm::config::ConfigErrors) -> ExitCode {
    eprintln!("klamm: {errors}");
    ExitStatus::Configuration.into()
}
