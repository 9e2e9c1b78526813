//! The jars of any Kafka release from 1.1.1 to 3.9.x, fetched once through Maven into the cache.
//!
//! Each release has a folder of its own, filled elsewhere and renamed when complete: a folder that exists is whole.
//! Several processes may ask at once; a file lock lets one fetch while the others wait.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use nix::fcntl::{Flock, FlockArg};

use crate::version::KafkaVersion;
use crate::workspace;

/// One logging backend for every release: the drop-in successor of the log4j that Kafka's own scripts come with, so
/// that a broker's log looks as its operators know it.
const SLF4J_VERSION: &str = "1.7.36";

/// What a folder of jars was filled from, kept in it.
const POM: &str = "pom.xml";

/// Kafka 2.0 to 2.3 come with a ZooKeeper client (3.4.13, 3.4.14) that cannot resolve any host on Java 14 and later
/// (ZOOKEEPER-3779); this is the last before that fault.
const ZOOKEEPER_FOR_2_0_TO_2_3: &str = "3.4.12";

/// The jars of one release, complete.
#[derive(Debug, Clone)]
pub struct Jars {
    pub version: KafkaVersion,
    directory: PathBuf,
}

impl Jars {
    /// Returns the jars of `version`, fetching them on first use.
    ///
    /// # Errors
    /// When a needed program is missing (the message says what to install), or Maven cannot fetch.
    pub fn of(version: KafkaVersion) -> Result<Self> {
        require_java_tools()?;
        let directory = fetched(&version.to_string(), &pom(version))?;
        Ok(Self { version, directory })
    }

    /// As `java -cp` takes it.
    pub fn class_path(&self) -> String {
        format!("{}/*", self.directory.display())
    }

    /// [`Jars::class_path`], with the tools that brokers do without.
    ///
    /// # Errors
    /// As [`Jars::of`].
    pub fn class_path_with_tools(&self) -> Result<String> {
        let version = self.version;
        if has_tools(version) {
            return Ok(self.class_path());
        }
        let directory = fetched(&format!("{version}-tools"), &tools_pom(version))?;
        Ok(format!("{}:{}/*", self.class_path(), directory.display()))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The folder `name` of the cache, filled with what `pom` asks for.
fn fetched(name: &str, pom: &str) -> Result<PathBuf> {
    let home = workspace::cache_dir()?.join("jars");
    let directory = home.join(name);
    if !is_current(pom, &directory) {
        fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
        let _lock = lock(&home.join(format!("{name}.lock")))?;
        // Whoever held the lock before may have fetched them.
        if !is_current(pom, &directory) {
            fetch(name, pom, &home, &directory)?;
        }
    }
    Ok(directory)
}

/// Takes an exclusive lock on `path`, waiting for another process to let it go.
pub(crate) fn lock(path: &Path) -> Result<Flock<File>> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| anyhow::anyhow!("cannot lock {}: {errno}", path.display()))
}

/// Whether the folder was filled from what we would ask for today.
fn is_current(pom: &str, directory: &Path) -> bool {
    fs::read_to_string(directory.join(POM)).is_ok_and(|asked_for| asked_for == pom)
}

fn fetch(name: &str, pom: &str, home: &Path, directory: &Path) -> Result<()> {
    let partial = home.join(format!(".{name}.partial"));
    if partial.exists() {
        // Left by a process that died while fetching; the lock says that nobody works on it.
        fs::remove_dir_all(&partial)
            .with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let pom_file = partial.join(POM);
    fs::write(&pom_file, pom).with_context(|| format!("cannot write {}", pom_file.display()))?;

    let progress = progress(name);
    let outcome = run_maven(&pom_file, &partial, |file| {
        progress.inc(1);
        progress.set_message(file.to_owned());
    });
    progress.finish_and_clear();
    outcome.with_context(|| format!("Maven could not fetch the jars of Kafka {name}"))?;
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::rename(&partial, directory)
        .with_context(|| format!("cannot put {} in place", directory.display()))
}

fn progress(name: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        eprintln!("fetching the jars of Kafka {name} through Maven");
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner().with_prefix(format!("Kafka {name}"));
    if let Ok(style) = ProgressStyle::with_template(
        "{spinner} fetching {prefix}: {pos} files in {elapsed}  {msg:.dim}",
    ) {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

/// Runs Maven; `on_file` hears the name of each file that came over the network.
fn run_maven(pom: &Path, jar_dir: &Path, mut on_file: impl FnMut(&str)) -> Result<()> {
    let mut maven = Command::new("mvn")
        .args(["--batch-mode", "--file"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jar_dir.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start mvn")?;
    let mut said = Vec::new();
    if let Some(output) = maven.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read what mvn prints")?;
            if let Some(url) = line.split("Downloaded from ").nth(1) {
                let name = url.split_whitespace().nth(1).unwrap_or(url);
                on_file(name.rsplit('/').next().unwrap_or(name));
            } else if line.contains("ERROR") || line.contains("WARN") {
                said.push(line);
            }
        }
    }
    let status = maven.wait().context("cannot wait for mvn")?;
    if !status.success() {
        bail!("mvn ended with {status}:\n{}", said.join("\n"));
    }
    Ok(())
}

fn pom(version: KafkaVersion) -> String {
    let mut dependencies = vec![
        dependency(
            "org.apache.kafka",
            &format!("kafka_{}", version.scala()),
            &version.to_string(),
        ),
        dependency("org.slf4j", "slf4j-api", SLF4J_VERSION),
        dependency("org.slf4j", "slf4j-reload4j", SLF4J_VERSION),
    ];
    if has_tools(version) {
        dependencies.push(dependency(
            "org.apache.kafka",
            "kafka-tools",
            &version.to_string(),
        ));
    }
    let managed = if version.at_least(2, 0) && !version.at_least(2, 4) {
        let zookeeper = dependency(
            "org.apache.zookeeper",
            "zookeeper",
            ZOOKEEPER_FOR_2_0_TO_2_3,
        );
        format!(
            "  <dependencyManagement><dependencies>\n{zookeeper}  </dependencies></dependencyManagement>\n"
        )
    } else {
        String::new()
    };
    project(&managed, &dependencies.concat())
}

/// The command line tools moved out of the core jar release by release; from 3.5 on most live in one of their own, which
/// comes with every release then.
fn has_tools(version: KafkaVersion) -> bool {
    version.at_least(3, 5)
}

/// The jar of the tools that never lived in the core jar, with the one of its libraries that brokers of old lack; the rest
/// of them are there already.
fn tools_pom(version: KafkaVersion) -> String {
    let alone = |group: &str, artifact: &str, version: &str| {
        let exclusions = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>";
        dependency(group, artifact, version).replace("</dependency>", exclusions)
    };
    let tools = alone("org.apache.kafka", "kafka-tools", &version.to_string());
    let arguments = alone("net.sourceforge.argparse4j", "argparse4j", "0.7.0");
    project("", &format!("{tools}{arguments}"))
}

fn project(managed: &str, dependencies: &str) -> String {
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>klamm</groupId>
  <artifactId>rig-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
{managed}  <dependencies>
{dependencies}  </dependencies>
</project>
"#
    )
}

fn dependency(group: &str, artifact: &str, version: &str) -> String {
    format!(
        "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n"
    )
}

/// Checks once per process that the programs the rig runs are there.
///
/// # Errors
/// Names every one that is missing, and what to install.
pub fn require_java_tools() -> Result<()> {
    static MISSING: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let missing = MISSING.get_or_init(missing_tools);
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "the rig runs genuine Kafka and needs a JDK 17, Maven and util-linux; missing here:\n  {}\n\
         On Debian or Ubuntu: apt install openjdk-17-jdk-headless maven util-linux",
        missing.join("\n  ")
    )
}

fn missing_tools() -> Vec<String> {
    let mut missing = Vec::new();
    match Command::new("java").arg("-version").output() {
        Err(_) => missing.push("java (a JDK 17)".to_owned()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match java_release(&said) {
                Some(release) if release >= 17 => {}
                Some(release) => missing.push(format!("java 17 or later (this one is {release})")),
                None => missing.push("a java that says its version (a JDK 17)".to_owned()),
            }
        }
    }
    for (program, argument, what) in [
        (
            "javac",
            "-version",
            "javac (a JDK 17, not only its runtime)",
        ),
        ("mvn", "--version", "mvn (Maven)"),
        ("setpriv", "--version", "setpriv (util-linux)"),
    ] {
        if Command::new(program).arg(argument).output().is_err() {
            missing.push(what.to_owned());
        }
    }
    missing
}

/// The feature release in what `java -version` prints: 17 in `openjdk version "17.0.15"`, 8 in `"1.8.0_392"`.
fn java_release(said: &str) -> Option<u32> {
    let quoted = said.split('"').nth(1)?;
    let mut numbers = quoted.split(['.', '-', '_', '+']).map(str::parse::<u32>);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        release => Some(release),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_java_is_read_in_its_old_and_its_new_form() {
        assert_eq!(
            java_release("openjdk version \"17.0.15\" 2025-04-15"),
            Some(17)
        );
        assert_eq!(java_release("java version \"1.8.0_392\""), Some(8));
        assert_eq!(
            java_release("openjdk version \"21-ea\" 2023-09-19"),
            Some(21)
        );
        assert_eq!(java_release("command not found"), None);
    }

    #[test]
    fn tools_are_fetched_apart_only_where_they_left_the_core_jar() {
        assert!(pom(KafkaVersion::V3_9_2).contains("kafka-tools"));
        assert!(!pom(KafkaVersion::V2_8_2).contains("kafka-tools"));
        assert!(pom(KafkaVersion::V1_1_1).contains("kafka_2.12"));
    }
}
