//! `klamm decode`: prints what a packet capture holds of Kafka's protocol, for whoever must find out at night what was
//! said about a stuck partition.
//!
//! Shell: reads the file, prints, and counts. How captures are read is in `klamm_codec::capture`; what is shown of them,
//! and how, in the pure files below. Changes nothing, anywhere. Upstream counterpart: none; `kafka.request.logger` shows
//! the same on a broker whose log level was raised in time.

pub mod exchange;
pub mod json;
pub mod selection;
pub mod text;
pub mod words;

#[cfg(test)]
mod sample;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use klamm_codec::ApiKey;
use klamm_codec::bytes::Bytes;
use klamm_codec::capture::{self, Capture, CaptureError, Note, RawFrames, ReadOptions, What};
use thiserror::Error;

use self::exchange::Exchange;
use self::selection::{BrokerEnd, Selection};
use self::text::{Length, Paint, Style};
use self::words::{TopicNames, count};

/// The longest file that is read, in bytes: it is held in memory as a whole.
pub const FILE_LIMIT: u64 = 2 * 1024 * 1024 * 1024;
/// How many lines of a body are shown without `--full`.
const BODY_LINES: usize = 200;
/// As a file's name: what comes through a pipe.
const STANDARD_INPUT: &str = "-";

/// What to show, of which file.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Options {
    /// A capture by tcpdump, Wireshark or `klamm run --capture` (pcap, pcapng), or raw frames with their length
    /// prefixes; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object a line, whole bodies included
    #[arg(long)]
    json: bool,
    /// Only this API, by name or number (LeaderAndIsr, 4); may be given several times
    #[arg(long = "key", value_name = "API", value_parser = parse_key)]
    keys: Vec<ApiKey>,
    /// Only connections with this end: a port, an IP address, or ADDRESS:PORT
    #[arg(long, value_name = "END")]
    broker: Option<BrokerEnd>,
    /// Only what speaks of this topic, and of that only its partitions
    #[arg(long)]
    topic: Option<String>,
    /// Print bodies of any length, not their first 200 lines
    #[arg(long)]
    full: bool,
    /// Raw frames are answers to requests of this API and version (4:7, LeaderAndIsr:7), not requests
    #[arg(long = "raw-answers", value_name = "API:VERSION", value_parser = parse_key_and_version)]
    raw_answers: Option<(ApiKey, i16)>,
}

fn parse_key(text: &str) -> Result<ApiKey, String> {
    match text.parse() {
        Ok(number) => Ok(ApiKey(number)),
        Err(_) => ApiKey::named(text).ok_or_else(|| {
            "no such API; expected a name such as LeaderAndIsr, or a number".to_owned()
        }),
    }
}

fn parse_key_and_version(text: &str) -> Result<(ApiKey, i16), String> {
    let (key, version) = text
        .split_once(':')
        .ok_or("expected an API and its version, such as LeaderAndIsr:7")?;
    let version = version
        .parse()
        .map_err(|_| format!("{version:?} is no version; expected a number"))?;
    Ok((parse_key(key)?, version))
}

/// Why nothing, or not all, was printed.
#[derive(Debug, Error)]
pub enum DecodeError {
    #[error("{file}: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error(
        "{file} has more than {FILE_LIMIT} bytes, which is the most that is read at a time: cut it, for example with \
         editcap -c 1000000 {file} PART, or keep only one broker's packets"
    )]
    TooLong { file: String },
    #[error("{file}: {error}")]
    NotACapture { file: String, error: CaptureError },
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
}

/// Reads the file and prints what was asked for; what could not be read is among it. A closed pipe ends it quietly.
///
/// # Errors
/// A file that can't be read, is too long or no capture at all, and output that fails.
pub fn run(options: &Options) -> Result<(), DecodeError> {
    let file = if options.file == Path::new(STANDARD_INPUT) {
        "standard input".to_owned()
    } else {
        options.file.display().to_string()
    };
    let bytes = read_file(&options.file, &file)?;
    let capture =
        capture::read(&bytes, &options.reading()).map_err(|error| DecodeError::NotACapture {
            file: file.clone(),
            error,
        })?;
    drop(bytes);
    let stdout = io::stdout();
    let paint = match std::env::var_os("NO_COLOR") {
        None if stdout.is_terminal() => Paint::Ansi,
        _ => Paint::Plain,
    };
    let mut out = BufWriter::new(stdout.lock());
    let printed = print(options, &capture, paint, &mut out).and_then(|tally| {
        out.flush()?;
        Ok(tally)
    });
    match printed {
        Ok(tally) => {
            for note in &capture.notes {
                eprintln!("{file}: {note}");
            }
            eprintln!("{}", tally.summary(&capture, &options.selection()));
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(DecodeError::Output(error)),
    }
}

fn read_file(path: &Path, name: &str) -> Result<Bytes, DecodeError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if path == Path::new(STANDARD_INPUT) {
            io::stdin()
                .lock()
                .take(FILE_LIMIT + 1)
                .read_to_end(&mut bytes)?;
        } else {
            let file = File::open(path)?;
            if file.metadata()?.len() <= FILE_LIMIT {
                file.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
            } else {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(bytes)
    };
    let file = name.to_owned();
    match read() {
        Ok(bytes) if bytes.len() as u64 <= FILE_LIMIT => Ok(bytes.into()),
        Ok(_) => Err(DecodeError::TooLong { file }),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(DecodeError::TooLong { file })
        }
        Err(error) => Err(DecodeError::Unreadable { file, error }),
    }
}

fn print(
    options: &Options,
    capture: &Capture,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<Tally> {
    let (selection, style) = (options.selection(), options.style(paint));
    let mut names = TopicNames::default();
    let mut tally = Tally::default();
    for entry in &capture.entries {
        let is_raw = entry.ends.is_none();
        let exchange = Exchange::read(entry, options.raw_answers.filter(|_| is_raw));
        exchange.trees().for_each(|tree| names.learn(tree));
        tally.add(&exchange);
        if !selection.wants(&exchange, &names) {
            continue;
        }
        tally.shown += 1;
        if options.json {
            writeln!(out, "{}", json::line(&exchange)?)?;
        } else {
            out.write_all(text::entry(&exchange, &names, &style).as_bytes())?;
        }
    }
    Ok(tally)
}

impl Options {
    fn selection(&self) -> Selection {
        Selection {
            keys: self.keys.clone(),
            broker: self.broker,
            topic: self.topic.clone(),
        }
    }

    fn style(&self, paint: Paint) -> Style {
        Style {
            paint,
            length: if self.full {
                Length::Full
            } else {
                Length::AtMost(BODY_LINES)
            },
            topic: self.topic.clone(),
        }
    }

    fn reading(&self) -> ReadOptions {
        ReadOptions {
            server_ports: self.broker.and_then(BrokerEnd::port).into_iter().collect(),
            raw_frames: match self.raw_answers {
                Some(_) => RawFrames::Answers,
                None => RawFrames::Requests,
            },
            ..ReadOptions::default()
        }
    }
}

/// What was seen, for the last line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tally {
    frames: usize,
    broken: usize,
    gaps: usize,
    stray_bytes: u64,
    shown: usize,
}

impl Tally {
    fn add(&mut self, exchange: &Exchange<'_>) {
        self.frames += exchange.frames();
        self.broken += exchange.broken_parts();
        self.stray_bytes += exchange.stray_bytes();
        self.gaps += usize::from(matches!(exchange.entry.what, What::Gap { .. }));
    }

    fn summary(&self, capture: &Capture, selection: &Selection) -> String {
        let passed_over: u64 = capture
            .notes
            .iter()
            .map(|note| match note {
                Note::Skipped { packets, .. } => *packets,
                _ => 0,
            })
            .sum();
        let mut text = format!(
            "{}, {} broken, {}, {} stray bytes, {passed_over} packets passed over",
            count(self.frames, "frame"),
            self.broken,
            count(self.gaps, "gap"),
            self.stray_bytes
        );
        if !selection.is_everything() {
            text += &format!(
                "; {} of {} entries shown",
                self.shown,
                capture.entries.len()
            );
        }
        if self.frames == 0 {
            text += "; nothing here reads as Kafka's protocol: another port, or TLS?";
        }
        text
    }
}
