//! Captures of the genuine Java controller: the script is played under it with taps on all brokers, and what was heard
//! becomes `fixtures/wire/NAME.pcapng`, which Wireshark reads.
//!
//! The frames are kept byte by byte. The packets around them are made up: broker N stands at 127.0.0.N:9092, and each
//! connection has a client port of its own, so that captures of two days differ in little but times and ids. The steps of
//! the script stand in the packets' comments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use klamm_codec::capture::writer::{Connection, Writer};
use klamm_codec::capture::{self, Captured, ReadOptions, Timestamp, What};
use klamm_codec::error::Direction;

use crate::cluster::Cluster;
use crate::parity::differences::told;
use crate::parity::play_step;
use crate::parity::trace::{self, Kind, StepTrace, Told};
use crate::script::{self, BEFORE, BROKERS, LAST, STEPS, Step};
use crate::stories::Leading;
use crate::tap::{Entry, Said, Tape, Way};
use crate::teller;
use crate::version::{Ibp, KafkaVersion};
use crate::workspace;

/// Wireshark takes this port for Kafka's.
const KAFKA_PORT: u16 = 9092;
const FIRST_CLIENT_PORT: u16 = 40_000;
/// The last part of the address of a client that is no broker.
const NO_BROKER: u8 = 254;

/// One capture: who is recorded.
#[derive(Debug, Clone, Copy)]
pub struct Recording {
    /// Names the file.
    pub name: &'static str,
    pub brokers: [&'static str; BROKERS],
    pub ibp: &'static str,
}

const fn same(version: &'static str, ibp: &'static str) -> Recording {
    Recording {
        name: version,
        brokers: [version; BROKERS],
        ibp,
    }
}

/// Every version of the three control requests that a Java controller from 1.1 on sends is in one of these.
pub const RECORDINGS: &[Recording] = &[
    same("1.1.1", "1.1"),
    same("2.2.2", "2.2"),
    // LeaderAndIsr 3 was sent at this protocol alone.
    Recording {
        name: "2.4.1-at-2.4-IV0",
        ..same("2.4.1", "2.4-IV0")
    },
    same("2.4.1", "2.4"),
    // LeaderAndIsr 4 with StopReplica 3, as 2.6 and 2.7 send them.
    Recording {
        name: "2.8.2-at-2.7",
        ..same("2.8.2", "2.7")
    },
    same("2.8.2", "2.8"),
    // LeaderAndIsr 6, as 3.2 and 3.3 send it.
    Recording {
        name: "3.4.1-at-3.3",
        ..same("3.4.1", "3.3")
    },
    same("3.4.1", "3.4"),
    same("3.9.2", "3.9"),
    Recording {
        name: "mixed-at-2.4",
        brokers: ["2.4.1", "2.8.2", "3.9.2"],
        ibp: "2.4",
    },
];

impl Recording {
    /// The recording of that name.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn named(name: &str) -> Result<&'static Self> {
        RECORDINGS
            .iter()
            .find(|recording| recording.name == name)
            .with_context(|| {
                let names: Vec<&str> = RECORDINGS.iter().map(|one| one.name).collect();
                format!(
                    "there is no capture `{name}`; there are {}",
                    names.join(", ")
                )
            })
    }

    /// Where its fixture stands.
    pub fn path(&self) -> PathBuf {
        workspace::root()
            .join("fixtures/wire")
            .join(format!("{}.pcapng", self.name))
    }

    /// Plays the script and returns what was heard.
    ///
    /// # Errors
    /// When the cluster does not come up or to rest.
    pub fn record(&self) -> Result<Vec<Entry>> {
        let brokers: Vec<KafkaVersion> = self
            .brokers
            .iter()
            .map(|version| version.parse())
            .collect::<Result<_>>()?;
        let ibp: Ibp = self.ibp.parse()?;
        let tape = Tape::default();
        let mut cluster = Cluster::start("capture", script::plan(&brokers, ibp, &tape)?)?;
        println!("{}: {}", teller::bold(self.name), cluster.described());
        let logs = cluster.run.logs().display().to_string();
        for step in [BEFORE, STEPS, LAST].into_iter().flatten() {
            let done = play_step(&mut cluster, *step, Leading::Java, &tape)
                .with_context(|| format!("the logs: {logs}"))?;
            let took = teller::dim(&format!("{:>7.2} s", done.took.as_secs_f64()));
            println!("  {took} {step}");
        }
        Ok(tape.entries())
    }

    /// Records, and writes the fixture.
    ///
    /// # Errors
    /// As [`Recording::record`], or when the file cannot be written or Wireshark cannot read it.
    pub fn make(&self) -> Result<()> {
        let bytes = write(self.name, &self.record()?);
        let path = self.path();
        std::fs::write(&path, &bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!(
            "  {} bytes in {}; {}",
            bytes.len(),
            path.display(),
            ask_wireshark(&path)?
        );
        Ok(())
    }

    /// Records again, and tells in what this differs from the fixture: nothing but times, ports and ids should.
    ///
    /// # Errors
    /// As [`Recording::record`], or when the fixture cannot be read.
    pub fn differences(&self) -> Result<Vec<String>> {
        let path = self.path();
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let kept = read(bytes).with_context(|| path.display().to_string())?;
        differing(&kept, &self.record()?)
    }
}

/// What was heard, as a capture file.
fn write(name: &str, entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::new(&format!("cargo rig capture {name}"));
    let mut open: BTreeMap<u32, Connection> = BTreeMap::new();
    let mut last = Timestamp(0);
    let mut remark = None;
    for entry in entries {
        match entry {
            Entry::Step(step) => remark = Some(step),
            Entry::Forgets(_) => {}
            Entry::Said(said) => {
                last = timestamp(said.at);
                let connections = open.len();
                let connection = open
                    .entry(said.connection)
                    .or_insert_with(|| writer.open(client(said, connections), server(said), last));
                if let Some(step) = remark.take() {
                    writer.remark(step);
                }
                let length = i32::try_from(said.payload.len()).unwrap_or(i32::MAX);
                let frame = [&length.to_be_bytes()[..], &said.payload].concat();
                writer.say(connection, direction(said.way), &frame, last);
            }
        }
    }
    for connection in open.into_values() {
        writer.close(connection, last);
    }
    writer.take()
}

fn direction(way: Way) -> Direction {
    match way {
        Way::ToBroker => Direction::Request,
        Way::FromBroker => Direction::Response,
    }
}

fn timestamp(at: SystemTime) -> Timestamp {
    let nanos = at
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    Timestamp(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn server(said: &Said) -> SocketAddr {
    at(said.broker, KAFKA_PORT)
}

/// Brokers, the controller among them, give their id for a client id.
fn client(said: &Said, connections: usize) -> SocketAddr {
    let header = klamm_codec::request::parse_header(&said.payload).ok();
    let id = header
        .and_then(|header| header.client_id)
        .and_then(|id| id.parse::<i32>().ok());
    let port = FIRST_CLIENT_PORT + u16::try_from(connections % 20_000).unwrap_or(0);
    at(id.unwrap_or(NO_BROKER.into()), port)
}

fn at(broker: i32, port: u16) -> SocketAddr {
    let last = u8::try_from(broker).unwrap_or(NO_BROKER);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), port)
}

/// What a capture holds, as it was heard.
///
/// # Errors
/// When anything in it is not a whole frame.
pub fn read(bytes: Vec<u8>) -> Result<Vec<Entry>> {
    let capture = capture::read(&bytes.into(), &ReadOptions::default())?;
    let mut heard = Vec::new();
    for (number, entry) in capture.entries.iter().enumerate() {
        if let Some(step) = &entry.remark {
            let started = (1..=BROKERS as i32).find(|id| Step::Start(*id).to_string() == *step);
            heard.push(Entry::Step(step.clone()));
            heard.extend(started.map(Entry::Forgets));
        }
        let What::Request {
            header,
            request,
            answer,
        } = &entry.what
        else {
            bail!(
                "entry {number} is no request with its answer: {:?}",
                entry.what
            );
        };
        let ends = entry.ends.context("a frame without addresses")?;
        let IpAddr::V4(server) = ends.server.ip() else {
            bail!("a broker at {}", ends.server);
        };
        let said = |way: Way, captured: &Captured| {
            Entry::Said(Said {
                at: UNIX_EPOCH + std::time::Duration::from_nanos(captured.at.map_or(0, |at| at.0)),
                broker: server.octets()[3].into(),
                connection: ends.client.port().into(),
                way,
                key: header.key.0,
                version: header.version,
                payload: captured.payload.clone(),
            })
        };
        heard.push(said(Way::ToBroker, request));
        heard.extend(answer.as_ref().map(|answer| said(Way::FromBroker, answer)));
    }
    Ok(heard)
}

/// Where two recordings of one script differ: in what brokers were told, step by step, or in the versions spoken.
fn differing(kept: &[Entry], new: &[Entry]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let (before, after) = (spoken(kept), spoken(new));
    if before != after {
        found.push(format!("keys and versions {before:?} became {after:?}"));
    }
    let (before, after) = (steps(kept)?, steps(new)?);
    let names = |steps: &[StepTrace]| -> Vec<String> {
        steps.iter().map(|step| step.step.clone()).collect()
    };
    if names(&before) != names(&after) {
        found.push(format!(
            "steps {:?} became {:?}",
            names(&before),
            names(&after)
        ));
        return Ok(found);
    }
    for (before, after) in before.iter().zip(&after) {
        let (then, now) = (settled(before), settled(after));
        let subjects: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        for subject in subjects {
            let (then, now) = (then.get(subject), now.get(subject));
            if then != now {
                found.push(format!(
                    "{}: {subject}: {then:?} became {now:?}",
                    before.step
                ));
            }
        }
    }
    Ok(found)
}

/// What was told in a step, but for what the Java controller itself tells otherwise from one time to the next: how far
/// leader epochs rise (it takes a leaving broker out of an ISR once more where that came back meanwhile), and, for it does
/// not wait for a leaving broker, whether that still hears to stop and what it is to tell its clients.
fn settled(step: &StepTrace) -> BTreeMap<String, String> {
    let leaving = (1..=BROKERS as i32).find(|id| Step::Stop(*id).to_string() == step.step);
    let mut step = step.clone();
    step.told.retain(|subject, told| {
        if Some(subject.broker) != leaving {
            return true;
        }
        told.retain(|told| !matches!(told, Told::Stop { .. }));
        subject.kind == Kind::Orders && !told.is_empty()
    });
    told(&step)
        .into_iter()
        .map(|(subject, told)| {
            let words = told.split(' ').filter(|word| !word.starts_with('+'));
            (subject, words.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// The steps in which brokers were told something new; of the others no packet may speak.
fn steps(entries: &[Entry]) -> Result<Vec<StepTrace>> {
    let mut steps = trace::trace(entries)?;
    steps.retain(|step| !step.told.is_empty());
    Ok(steps)
}

/// Keys and versions of all frames.
fn spoken(entries: &[Entry]) -> BTreeSet<(i16, i16)> {
    let said = entries.iter().filter_map(|entry| match entry {
        Entry::Said(said) => Some((said.key, said.version)),
        _ => None,
    });
    said.collect()
}

/// Whether Wireshark's Kafka dissector reads the file; says so where there is no tshark to ask.
fn ask_wireshark(path: &Path) -> Result<String> {
    let asked = Command::new("tshark")
        .arg("-r")
        .arg(path)
        .args([
            "-T",
            "fields",
            "-e",
            "frame.protocols",
            "-e",
            "kafka.api_key",
        ])
        .args(["-e", "_ws.malformed", "-Y", "tcp.len > 0"])
        .output();
    let Ok(output) = asked else {
        return Ok("tshark is not installed: not checked with Wireshark".to_owned());
    };
    ensure!(
        output.status.success(),
        "tshark cannot read {}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut frames, mut beyond) = (0, 0);
    for line in text.lines() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (protocols, key, malformed) = (field(), field(), field());
        frames += 1;
        ensure!(
            protocols.ends_with(":kafka"),
            "tshark takes packet {frames} of {} for {protocols}",
            path.display()
        );
        // Of a version that this Wireshark does not know, it reads the request's header, and no answer.
        beyond += usize::from(key.is_empty() || !malformed.is_empty());
    }
    Ok(format!(
        "tshark takes all {frames} frames for Kafka's; {beyond} are of versions that it does not know"
    ))
}
