//! klamm as a child process: its binary, its configuration, its HTTP listener, and its commands from another shell.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{Launch, Process, Talk};
use crate::properties::rewrite;
use crate::run::Run;
use crate::wait::{self, Seen};
use crate::workspace;

/// The id of a run's first klamm; it stays within `reserved.broker.max.id`.
pub const FIRST_ID: i32 = 900;
/// Names a klamm to run instead of the workspace's own.
pub const BINARY_VARIABLE: &str = "KLAMM_BIN";

pub const FIRST_LISTENER_PORT: u16 = 9_192;
const FIRST_HTTP_PORT: u16 = 9_190;
/// A second listener, for whoever has klamm open one.
pub const SECOND_LISTENER_PORT: u16 = 9_194;
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// One klamm of a cluster.
#[derive(Debug)]
pub struct Klamm {
    pub id: i32,
    /// `ip:port` of its Kafka listener.
    pub address: String,
    /// `ip:port` of its HTTP listener.
    pub http: String,
    /// A broker's own server.properties with klamm's keys added.
    pub config: PathBuf,
    pub process: Process,
}

/// What a klamm is started with.
#[derive(Debug, Clone)]
pub struct KlammPlan {
    pub id: i32,
    /// The broker's file that klamm takes over unchanged.
    pub broker_config: PathBuf,
    /// `--override key=value` each.
    pub overrides: Vec<(String, String)>,
    /// Keys of the broker's file that klamm's file lacks.
    pub leaves_out: &'static [&'static str],
}

impl Klamm {
    /// Writes the configuration and starts the process; it is not waited for.
    ///
    /// # Errors
    /// When the binary cannot be built, or the process cannot be started.
    pub fn start(run: &Run, plan: &KlammPlan) -> Result<Self> {
        let id = plan.id;
        let (address, http) = (
            run.address.port(nth_port(FIRST_LISTENER_PORT, id)),
            run.address.port(nth_port(FIRST_HTTP_PORT, id)),
        );
        let config = run.conf(&format!("klamm-{id}.properties"));
        let (its_id, listener) = (id.to_string(), format!("PLAINTEXT://{address}"));
        let keys = [
            ("klamm.id", its_id.as_str()),
            ("klamm.listeners", &listener),
            ("klamm.http.listen", &http),
        ];
        rewrite(&plan.broker_config, &config, &keys, plan.leaves_out)?;
        let process = Process::start(launch(run, id, &config, &plan.overrides)?)?;
        Ok(Self {
            id,
            address,
            http,
            config,
            process,
        })
    }

    /// SIGTERM: klamm releases the role and ends.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.stop(STOP_TIMEOUT)
    }

    /// What `GET path` of the HTTP listener answers: status and body.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        http_get(&self.http, path)
    }

    /// The value of a metric without labels.
    ///
    /// # Errors
    /// When `/metrics` does not answer or does not hold it.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let (status, body) = self.get("/metrics")?;
        ensure!(status == 200, "/metrics answers {status}");
        body.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse()
                    .ok()
            })
            .with_context(|| format!("/metrics holds no `{name}`"))
    }

    /// Waits until `/readyz` says so; returns how long that took.
    ///
    /// # Errors
    /// When klamm ends or is not ready in time.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        let http = self.http.clone();
        let (_, took) = wait::until("klamm to be ready", Duration::from_secs(30), || {
            if let Some(status) = self.process.ended_by_itself() {
                return Ok(Seen::Never(format!(
                    "it ended with {status}; its log: {}",
                    self.process.log().display()
                )));
            }
            let (status, body) = http_get(&http, "/readyz")?;
            Ok(if status == 200 {
                Seen::Done(())
            } else {
                Seen::Not(format!("/readyz answers {status}: {body}"))
            })
        })?;
        Ok(took)
    }

    /// Runs `klamm handback` or `klamm takeover` against this klamm's configuration, as an operator does from another
    /// shell; returns how long it took.
    ///
    /// # Errors
    /// When it does not end with success, with what it printed.
    pub fn command(&self, run: &Run, command: &str) -> Result<Duration> {
        static COMMANDS: AtomicU32 = AtomicU32::new(1);
        let log = run.log(&format!(
            "klamm-{command}-{}.log",
            COMMANDS.fetch_add(1, Ordering::Relaxed)
        ));
        let started = std::time::Instant::now();
        let mut process = Process::start(Launch {
            name: format!("klamm {command}"),
            program: binary()?,
            arguments: vec![
                command.to_owned(),
                "--config".to_owned(),
                self.config.display().to_string(),
            ],
            environment: Vec::new(),
            log: log.clone(),
            talk: Talk::None,
        })?;
        let status = process.wait_end(COMMAND_TIMEOUT)?;
        if !status.success() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("klamm {command} ended with {status}:\n{said}");
        }
        Ok(started.elapsed())
    }
}

/// Writes `klamm-NAME.properties`: a broker's file with the keys of a run's first klamm, `lines` in the place of those of
/// the same key, and without the keys `without`.
///
/// # Errors
/// As [`rewrite`].
pub fn config_of(
    run: &Run,
    broker_config: &Path,
    name: &str,
    lines: &[(&str, &str)],
    without: &[&str],
) -> Result<PathBuf> {
    let id = FIRST_ID.to_string();
    let listener = format!("PLAINTEXT://{}", run.address.port(FIRST_LISTENER_PORT));
    let mut all = vec![
        ("klamm.id", id.as_str()),
        ("klamm.listeners", listener.as_str()),
    ];
    all.extend_from_slice(lines);
    let config = run.conf(&format!("klamm-{name}.properties"));
    rewrite(broker_config, &config, &all, without)?;
    Ok(config)
}

/// Runs a command of klamm's (`run`, `check`) with `config` to its end, which a story expects to come soon; returns how it
/// ended and what it said.
///
/// # Errors
/// When it still runs after half a minute.
pub fn run_to_end(
    run: &Run,
    command: &str,
    name: &str,
    config: &Path,
) -> Result<(ExitStatus, String)> {
    let log = run.log(&format!("klamm-{name}.log"));
    let mut process = Process::start(Launch {
        name: format!("klamm ({name})"),
        program: binary()?,
        arguments: vec![
            command.to_owned(),
            "--config".to_owned(),
            config.display().to_string(),
        ],
        environment: Vec::new(),
        log: log.clone(),
        talk: Talk::None,
    })?;
    let status = process.wait_end(Duration::from_secs(30));
    let said = fs::read_to_string(&log).unwrap_or_default();
    Ok((
        status.with_context(|| format!("klamm {command} should have ended; it said:\n{said}"))?,
        said,
    ))
}

fn launch(run: &Run, id: i32, config: &Path, overrides: &[(String, String)]) -> Result<Launch> {
    let mut arguments = vec![
        "run".to_owned(),
        "--config".to_owned(),
        config.display().to_string(),
    ];
    for (key, value) in overrides {
        arguments.push("--override".to_owned());
        arguments.push(format!("{key}={value}"));
    }
    Ok(Launch {
        name: format!("klamm {id}"),
        program: binary()?,
        arguments,
        environment: Vec::new(),
        log: run.log(&format!("klamm-{id}.log")),
        talk: Talk::None,
    })
}

/// Ports of several klamms of one run stay 10 apart.
fn nth_port(first: u16, id: i32) -> u16 {
    let index = u16::try_from((id - FIRST_ID).max(0)).unwrap_or(0);
    first + index * 10
}

/// klamm's executable: what [`BINARY_VARIABLE`] names, or the workspace's own of the rig's build profile, brought up to
/// date once per process (cargo builds the rig without klamm's binary, so one that lies there may be of yesterday).
///
/// # Errors
/// When it cannot be built.
pub fn binary() -> Result<PathBuf> {
    static BINARY: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut known = BINARY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = known.as_ref() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os(BINARY_VARIABLE) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => build()?,
    };
    ensure!(path.exists(), "there is no klamm at {}", path.display());
    Ok(known.insert(path).clone())
}

fn build() -> Result<PathBuf> {
    let profile = workspace::profile_dir()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace::root()).args([
        "build",
        "--quiet",
        "--package",
        "klamm",
        "--bin",
        "klamm",
    ]);
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            command.args(["--profile", name]);
        }
    }
    command.arg("--target-dir").arg(workspace::target_dir()?);
    let output = command
        .output()
        .context("cannot start cargo to build klamm")?;
    ensure!(
        output.status.success(),
        "klamm cannot be built:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(profile.join("klamm"))
}

/// One HTTP/1.1 request, answered to the end of the connection.
fn http_get(address: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)
        .with_context(|| format!("nobody listens on http://{address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .with_context(|| format!("http://{address}{path} does not answer"))?;
    let status = answer
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok())
        .with_context(|| format!("http://{address}{path} answers no HTTP: {answer}"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}
