//! The command line: `klamm run`, `klamm check`, `klamm handback`, `klamm takeover`, `klamm decode`.
//!
//! Shell: parses arguments and reads the files they name. What the keys mean is decided in `config`; what a command
//! does, elsewhere. Upstream counterpart: `Kafka.scala` and `kafka-server-start`, whose shape `klamm run` keeps.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, ConfigError, ConfigErrors, RawConfig, ZooKeeperConfig};
use crate::decode;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or stopped on request with the controller role released
  1  failed while running; starting again may help
  2  wrong command line
  3  wrong configuration, or one that asks for what klamm can't do; nothing was touched
  4  replaced by another klamm process with the same klamm.id; starting again would only replace that one
  5  refused by the cluster: KRaft is in play, the id belongs to a broker, or something that klamm needs is missing

`klamm check` ends with 0 if nothing forbids a takeover, whatever differs or is broken, and else with what `klamm run`
would end with: 1 if ZooKeeper can't be reached, 3 or 5.";

/// What the process ends with, for service managers: 2 to 5 don't get better by starting again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Done, or stopped on request with the role released.
    Done = 0,
    /// Failed while running; starting again may help.
    Failed = 1,
    /// Wrong command line.
    Usage = 2,
    /// Wrong configuration, or one that asks for what klamm can't do; nothing was touched.
    Configuration = 3,
    /// Another process with the same `klamm.id` took this one's place.
    Replaced = 4,
    /// The cluster is not one that klamm may lead.
    Refused = 5,
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}

/// klamm: a controller for ZooKeeper-mode Kafka clusters
#[derive(Debug, Parser)]
#[command(name = "klamm", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run as a node of the cluster and take the controller role by klamm.takeover
    Run(RunArguments),
    /// Look at all that a takeover would meet, write nothing, and print what is fine, differs, is broken or forbids it
    Check(Sources),
    /// Give the role back to the brokers, and let no klamm contend until `klamm takeover`
    Handback(Sources),
    /// Lift the hold of `klamm handback`: klamms contend for the role again
    Takeover(Sources),
    /// Print what was said in a packet capture: control requests, their answers, and what is missing or broken
    Decode(decode::Options),
}

/// What `klamm run` takes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArguments {
    #[command(flatten)]
    sources: Sources,
    /// Write the control traffic with the brokers to this pcapng file, for `klamm decode` and Wireshark; beats
    /// klamm.capture.file
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Sources {
    /// A broker's own server.properties, as for kafka-server-start
    #[arg(value_name = "FILE", required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The same, or one more file whose keys beat those of the files before it, such as one with the klamm.* keys
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// A key that beats all files; an empty value unsets it
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

impl Command {
    /// Parses a command line whose first item is the program's name.
    ///
    /// # Errors
    /// What clap says of it, help and version included: print it with its own `exit` or `print`.
    pub fn parse_from(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        CommandLine::try_parse_from(arguments).map(|line| line.command)
    }
}

impl RunArguments {
    /// The whole configuration.
    ///
    /// # Errors
    /// A file that can't be read, or all faults of the configuration at once, each with file and line.
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        let mut sources = self.sources.clone();
        if let Some(file) = &self.capture {
            let text = format!("klamm.capture.file={}", file.display());
            sources.overrides.push(text);
        }
        sources.load()
    }
}

impl Sources {
    /// The whole configuration.
    ///
    /// # Errors
    /// As [`RunArguments::load`].
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        Config::resolve(&self.read()?)
    }

    /// Only the way to ZooKeeper, for `klamm handback` and `klamm takeover`.
    ///
    /// # Errors
    /// As [`RunArguments::load`].
    pub fn load_zookeeper(&self) -> Result<ZooKeeperConfig, ConfigErrors> {
        ZooKeeperConfig::resolve(&self.read()?)
    }

    fn read(&self) -> Result<RawConfig, ConfigErrors> {
        let mut raw = RawConfig::default();
        let mut faults = Vec::new();
        for path in self.file.iter().chain(&self.config) {
            let name = path.display().to_string();
            let added = match std::fs::read(path) {
                Ok(bytes) => raw.add_file(&name, &bytes),
                Err(error) => Err(ConfigError::Unreadable {
                    file: name,
                    reason: error.to_string(),
                }),
            };
            faults.extend(added.err());
        }
        for text in &self.overrides {
            faults.extend(raw.add_override(text).err());
        }
        match ConfigErrors::from_faults(faults) {
            Some(errors) => Err(errors),
            None => Ok(raw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(arguments: &[&str]) -> RunArguments {
        match Command::parse_from([&["klamm", "run"], arguments].concat()).unwrap() {
            Command::Run(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    /// A file of its own below the build directory, gone when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, text: &str) -> Self {
            let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tmp");
            std::fs::create_dir_all(&directory).unwrap();
            let path = directory.join(format!("cli-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn path(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    #[test]
    fn the_command_line_definition_is_sound() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn files_and_overrides_are_read_in_order_in_both_shapes() {
        let broker = Scratch::new(
            "order-broker",
            "zookeeper.connect=zk1\nnum.partitions=1\nbroker.id=1",
        );
        let klamm = Scratch::new(
            "order-klamm",
            "klamm.id=900\nklamm.listeners=PLAINTEXT://k:1\nnum.partitions=2",
        );
        let overrides = ["--override", "klamm.id=901", "--override", "klamm.id=902"];
        for files in [
            vec![broker.path(), "--config", klamm.path()],
            vec!["--config", broker.path(), "--config", klamm.path()],
        ] {
            let config = sources(&[files.as_slice(), &overrides].concat())
                .load()
                .unwrap();
            assert_eq!((config.klamm_id.0, config.num_partitions), (902, 2));
        }
    }

    #[test]
    fn a_capture_asked_for_on_the_line_beats_the_files() {
        let broker = Scratch::new(
            "capture",
            "zookeeper.connect=zk1\nklamm.id=9\nklamm.listeners=PLAINTEXT://k:1\nklamm.capture.file=a.pcapng\n\
             klamm.capture.max.files=2",
        );
        let from_file = sources(&[broker.path()]).load().unwrap().capture.unwrap();
        assert_eq!(
            (from_file.file.as_str(), from_file.max_bytes),
            ("a.pcapng", 104_857_600)
        );
        let arguments = [broker.path(), "--capture", "b=c.pcapng"];
        let from_line = sources(&arguments).load().unwrap().capture.unwrap();
        assert_eq!(
            (from_line.file.as_str(), from_line.max_files),
            ("b=c.pcapng", 2)
        );
    }

    #[test]
    fn faults_name_file_and_line() {
        let broker = Scratch::new("faults", "zookeeper.connect=zk1\nnum.partitions=none");
        let message = sources(&[broker.path()]).load().unwrap_err().to_string();
        assert!(
            message.contains(&format!("{} line 2: num.partitions=none", broker.path())),
            "{message}"
        );
        let message = sources(&["target/no-such-file", "--override", "x"])
            .load()
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("target/no-such-file: ")
                && message.contains("--override x: expected key=value"),
            "{message}"
        );
    }

    #[test]
    fn handback_and_takeover_need_only_the_way_to_zookeeper() {
        let broker = Scratch::new("hold", "zookeeper.connect=zk1:2181/kafka");
        for (command, name) in [("handback", "handback"), ("takeover", "takeover")] {
            let parsed =
                Command::parse_from(["klamm", command, "--config", broker.path()]).unwrap();
            let (Command::Handback(sources) | Command::Takeover(sources)) = parsed else {
                panic!("{name}")
            };
            assert_eq!(
                sources.load_zookeeper().unwrap().connect.to_string(),
                "zk1:2181/kafka"
            );
        }
    }

    #[test]
    fn check_takes_what_run_takes_and_refuses_the_same() {
        let broker = Scratch::new(
            "check",
            "zookeeper.connect=zk1\nklamm.listeners=PLAINTEXT://k:1\ncreate.topic.policy.class.name=x.Y",
        );
        let checked = |overrides: &[&str]| {
            let line = [&["klamm", "check", "--config", broker.path()], overrides].concat();
            match Command::parse_from(line).unwrap() {
                Command::Check(sources) => sources.load(),
                other => panic!("{other:?}"),
            }
        };
        let id = ["--override", "klamm.id=9"];
        let refusal = checked(&id).unwrap_err().to_string();
        assert!(
            refusal.contains("create.topic.policy.class.name: names a Java class")
                && refusal.contains("klamm.ignore.create.topic.policy=true"),
            "{refusal}"
        );
        let ignored = ["--override", "klamm.ignore.create.topic.policy=true"];
        let config = checked(&[id, ignored].concat()).unwrap();
        assert_eq!(config.klamm_id.0, 9);
        assert!(
            config.notices[0].contains("create.topic.policy.class.name"),
            "{:?}",
            config.notices
        );
    }

    #[test]
    fn wrong_lines_are_told_and_version_and_exit_codes_shown() {
        for line in [
            &["klamm", "run"][..],
            &["klamm", "fly"],
            &["klamm", "run", "a", "b"],
            &["klamm", "run", "a", "--override"],
        ] {
            assert_eq!(
                Command::parse_from(line).unwrap_err().exit_code(),
                i32::from(ExitStatus::Usage as u8),
                "{line:?}"
            );
        }
        let version = Command::parse_from(["klamm", "--version"]).unwrap_err();
        assert_eq!(
            version.to_string(),
            format!("klamm {}\n", env!("CARGO_PKG_VERSION"))
        );
        assert_eq!(version.exit_code(), 0);
        let help = Command::parse_from(["klamm", "--help"])
            .unwrap_err()
            .to_string();
        assert!(
            help.contains("Exit codes:") && help.contains("handback"),
            "{help}"
        );
    }
}
