//! A JVM in which the tools of one release run one after the other (`java/ToolHost.java`).

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Tool, log4j_flag_from};
use crate::classes;
use crate::jars::Jars;
use crate::process::{Launch, Process, Talk};
use crate::run::Run;
use crate::version::KafkaVersion;

/// Longer than any tool waits for an answer (a minute), and some of them wait twice.
const PATIENCE: Duration = Duration::from_secs(150);

const SOURCE: &str = include_str!("../../java/ToolHost.java");
/// The class in it.
const PROGRAM: &str = "ToolHost";

/// What a tool did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub exit: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

/// The tools of one release.
#[derive(Debug)]
pub struct ToolHost {
    pub version: KafkaVersion,
    process: Process,
    input: ChildStdin,
    answers: Receiver<Result<Ran>>,
}

impl ToolHost {
    /// Starts the JVM.
    ///
    /// # Errors
    /// When jars cannot be fetched, or javac or java not be started.
    pub fn start(run: &Run, version: KafkaVersion) -> Result<Self> {
        let jars = Jars::of(version)?;
        // It uses nothing of Kafka that ever changed: one set of classes serves all releases.
        let classes = classes::compile(&Jars::of(KafkaVersion::V3_9_2)?, PROGRAM, SOURCE)?;
        let mut process = Process::start(Launch {
            name: format!("the tools of {version}"),
            program: "java".into(),
            arguments: vec![
                "-Xmx192m".to_owned(),
                "-XX:+UseSerialGC".to_owned(),
                "-XX:TieredStopAtLevel=1".to_owned(),
                log4j_flag_from(run, "ERROR")?,
                "-cp".to_owned(),
                format!("{}:{}", classes.display(), jars.class_path_with_tools()?),
                PROGRAM.to_owned(),
            ],
            environment: Vec::new(),
            log: run.log(&format!("tools-{version}.log")),
            talk: Talk::Piped,
        })?;
        let (input, output) = process
            .take_pipes()
            .context("the tools were started without pipes")?;
        let (heard, answers) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            // Ends with the process, or when nobody listens.
            while let Some(answer) = read_answer(&mut output).transpose() {
                if heard.send(answer).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            version,
            process,
            input,
            answers,
        })
    }

    /// Runs a tool.
    ///
    /// # Errors
    /// When it does not end, or the JVM does. This host is of no use then.
    pub fn run(&mut self, tool: Tool, arguments: &[String]) -> Result<Ran> {
        let started = Instant::now();
        let mut line = tool.main_class(self.version).to_owned();
        for argument in arguments {
            ensure!(
                !argument.contains(['\t', '\n', '\r']),
                "an argument with a tab or an end of line: {argument:?}"
            );
            line.push('\t');
            line.push_str(argument);
        }
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .with_context(|| format!("{} take no commands", self.process.name()))?;
        match self.answers.recv_timeout(PATIENCE) {
            Ok(ran) => Ok(Ran {
                took: started.elapsed(),
                ..ran?
            }),
            Err(RecvTimeoutError::Timeout) => bail!(
                "{} {} had not ended after {} s",
                tool.script(),
                arguments.join(" "),
                PATIENCE.as_secs()
            ),
            Err(RecvTimeoutError::Disconnected) => bail!(
                "{} ended by themselves; their log: {}",
                self.process.name(),
                self.process.log().display()
            ),
        }
    }
}

/// One answer; `None` at the end.
fn read_answer(output: &mut BufReader<ChildStdout>) -> Result<Option<Ran>> {
    let mut head = String::new();
    if output.read_line(&mut head)? == 0 {
        return Ok(None);
    }
    let numbers: Vec<i64> = head
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()
        .with_context(|| format!("no answer of a tool begins with {head:?}"))?;
    let [exit, out, err] = numbers[..] else {
        bail!("no answer of a tool begins with {head:?}")
    };
    let mut text = |length: i64| -> Result<String> {
        let mut bytes = vec![0; usize::try_from(length)?];
        output.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Some(Ran {
        exit: i32::try_from(exit)?,
        out: text(out)?,
        err: text(err)?,
        took: Duration::ZERO,
    }))
}
