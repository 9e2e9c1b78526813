//! Other people's clients: a small program for each, fetched with its library from its ecosystem's registry, that does
//! the same steps and says what it saw, a line a step.
//!
//! The programs stand in `clients/`; what they say is compared, never judged, here. They run in the cache, from copies:
//! no tool may leave anything beside their sources.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::classes;
use crate::client::client_log4j_flag;
use crate::jars::{self, Jars};
use crate::process::{Launch, Process, Talk};
use crate::run::Run;
use crate::version::KafkaVersion;
use crate::workspace;

/// How long one program may take for all of its steps: each step has a patience of its own.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How a program tells that a step of it failed.
const FAILED: &str = ": FAILED";
const JAVA_SOURCE: &str = include_str!("../clients/java/Client.java");

/// A client library and what its program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The library, as its users call it.
    pub name: &'static str,
    kit: Kit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kit {
    Java(KafkaVersion),
    /// A file in `clients/python`.
    Python(&'static str),
    /// A package in `clients/go`.
    Go(&'static str),
    /// The file in `clients/kafkajs`.
    Node(&'static str),
}

/// The Java clients of the first and the last release that klamm is tried with; they need no more than the brokers do.
pub const JAVA: [Client; 2] = [
    Client {
        name: "the Java client 1.1.1",
        kit: Kit::Java(KafkaVersion::V1_1_1),
    },
    Client {
        name: "the Java client 3.9.2",
        kit: Kit::Java(KafkaVersion::V3_9_2),
    },
];

/// Those of other ecosystems.
pub const OTHERS: [Client; 6] = [
    Client {
        name: "kafka-python",
        kit: Kit::Python("kafka_python.py"),
    },
    Client {
        name: "confluent-kafka (librdkafka)",
        kit: Kit::Python("confluent.py"),
    },
    Client {
        name: "aiokafka",
        kit: Kit::Python("aio.py"),
    },
    Client {
        name: "kafkajs",
        kit: Kit::Node("client.js"),
    },
    Client {
        name: "franz-go",
        kit: Kit::Go("franz"),
    },
    Client {
        name: "sarama",
        kit: Kit::Go("sarama"),
    },
];

/// A program that is ready to run.
#[derive(Debug, Clone)]
pub struct Ready {
    pub client: Client,
    program: PathBuf,
    arguments: Vec<String>,
}

/// Checks that what the clients run on is there.
///
/// # Errors
/// Names every program that is missing, and what to install.
pub fn require(clients: &[Client]) -> Result<()> {
    let mut needed = BTreeSet::new();
    for client in clients {
        let of_kit: &[(&str, &str, &str)] = match client.kit {
            Kit::Java(_) => &[],
            Kit::Python(_) => &[("python3", "--version", "Python 3.10 or later, with venv")],
            Kit::Go(_) => &[("go", "version", "Go 1.24 or later")],
            Kit::Node(_) => &[
                ("node", "--version", "Node.js 18 or later"),
                ("npm", "--version", "npm, which comes with Node.js"),
            ],
        };
        needed.extend(of_kit.iter().copied());
    }
    let missing: Vec<String> = needed
        .into_iter()
        .filter(|(program, argument, _)| Command::new(program).arg(argument).output().is_err())
        .map(|(program, _, what)| format!("{program} ({what})"))
        .collect();
    ensure!(
        missing.is_empty(),
        "the clients of other ecosystems need what is missing here:\n  {}",
        missing.join("\n  ")
    );
    jars::require_java_tools()
}

impl Client {
    /// Fetches the library and makes the program, where that has not been done yet.
    ///
    /// # Errors
    /// With what the ecosystem's own tool says.
    pub fn prepare(self) -> Result<Ready> {
        let ready = |program: PathBuf, arguments: Vec<String>| Ready {
            client: self,
            program,
            arguments,
        };
        let text = |path: PathBuf| path.display().to_string();
        Ok(match self.kit {
            Kit::Java(version) => {
                let jars = Jars::of(version)?;
                let classes = classes::compile(&jars, "Client", JAVA_SOURCE)?;
                let class_path = format!("{}:{}", classes.display(), jars.class_path());
                let arguments = [
                    "-Xmx160m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                ];
                let arguments = arguments.into_iter().map(str::to_owned);
                ready(
                    "java".into(),
                    arguments.chain([class_path, "Client".to_owned()]).collect(),
                )
            }
            Kit::Python(file) => {
                let home = made("python", |home| {
                    run("python3", &["-m", "venv", "venv"], home)?;
                    run(
                        "venv/bin/pip",
                        &["install", "--quiet", "-r", "requirements.txt"],
                        home,
                    )
                })?;
                ready(home.join("venv/bin/python"), vec![text(home.join(file))])
            }
            Kit::Go(package) => {
                let home = made("go", |home| {
                    run("go", &["build", "-o", "bin/", "./..."], home)
                })?;
                ready(home.join("bin").join(package), Vec::new())
            }
            Kit::Node(file) => {
                let install = ["ci", "--no-audit", "--no-fund"];
                let home = made("kafkajs", |home| run("npm", &install, home))?;
                ready("node".into(), vec![text(home.join(file))])
            }
        })
    }
}

impl Ready {
    /// Does all steps with `bootstrap` as the only addresses told, on a topic and with a group of this name; returns
    /// what the program said of each.
    ///
    /// # Errors
    /// When a step failed, or the program did not come to its end.
    pub fn steps(&self, run: &Run, bootstrap: &str, name: &str) -> Result<Vec<String>> {
        let log = run.log(&format!("client-{name}.log"));
        let mut arguments = Vec::new();
        if let Kit::Java(_) = self.client.kit {
            arguments.push(client_log4j_flag(run)?);
        }
        arguments.extend(self.arguments.iter().cloned());
        arguments.extend([
            bootstrap.to_owned(),
            name.to_owned(),
            format!("{name}-group"),
        ]);
        let mut process = Process::start(Launch {
            name: self.client.name.to_owned(),
            program: self.program.clone(),
            arguments,
            environment: Vec::new(),
            log: log.clone(),
            talk: Talk::Piped,
        })?;
        let (_, mut output) = process
            .take_pipes()
            .context("the client was started without pipes")?;
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            output.read_to_string(&mut said).map(|_| said)
        });
        let status = process.wait_end(TIMEOUT);
        drop(process);
        let said = reader
            .join()
            .map_err(|_| anyhow::anyhow!("the client's reader ended"))??;
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        let status = status.with_context(|| format!("it had said: {}", said.join("; ")))?;
        if let Some(step) = said.iter().find(|line| line.contains(FAILED)) {
            bail!("{step}; its log: {}", log.display());
        }
        ensure!(
            status.success(),
            "it ended with {status}; its log: {}",
            log.display()
        );
        Ok(said)
    }
}

/// The folder in the cache in which the programs of `clients/<kit>` are made, by `make`, once per state of their
/// sources. It keeps its name from the beginning, for some tools write it into what they make: the last file says that
/// all is there.
fn made(kit: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let sources = sources(
        &workspace::root().join("tests/rig/clients").join(kit),
        Path::new(""),
    )?;
    let state = sources
        .iter()
        .map(|(path, text)| format!("{}\n{text}\n", path.display()));
    let state = classes::fingerprint(&state.collect::<String>());
    let homes = workspace::cache_dir()?.join("clients");
    fs::create_dir_all(&homes).with_context(|| format!("cannot create {}", homes.display()))?;
    let home = homes.join(format!("{kit}-{state:016x}"));
    let complete = home.join(".complete");
    let _lock = jars::lock(&homes.join(format!("{kit}.lock")))?;
    if complete.exists() {
        return Ok(home);
    }
    eprintln!("fetching the libraries of {kit} and making its clients");
    fs::remove_dir_all(&home).ok();
    for (path, text) in sources {
        let path = home.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    make(&home)?;
    fs::write(&complete, "").with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(home)
}

/// All files below a folder, with their paths from `within` on.
fn sources(folder: &Path, within: &Path) -> Result<Vec<(PathBuf, String)>> {
    let read = || format!("cannot read {}", folder.display());
    let mut entries: Vec<_> = fs::read_dir(folder)
        .with_context(read)?
        .collect::<Result<_, _>>()
        .with_context(read)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let (path, name) = (entry.path(), within.join(entry.file_name()));
        if path.is_dir() {
            found.extend(sources(&path, &name)?);
        } else {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            found.push((name, text));
        }
    }
    Ok(found)
}

fn run(program: &str, arguments: &[&str], home: &Path) -> Result<()> {
    let path = home.join(program);
    let program = if path.exists() { path } else { program.into() };
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(home)
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    ensure!(
        output.status.success(),
        "{shown} ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
