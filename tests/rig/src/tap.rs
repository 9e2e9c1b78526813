//! A tap on a broker's wire: a proxy that the broker advertises in its own place, and that keeps what controller and
//! brokers say to each other.
//!
//! It hands on every byte as it came, a frame at a time, and never answers or holds back by itself. What it keeps goes on
//! a [`Tape`] that all taps of a cluster share, in the order in which it was heard.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;

/// Pace at which the listener looks for new connections.
const POLL: Duration = Duration::from_millis(5);
/// The default of `socket.request.max.bytes`: no broker takes more.
const FRAME_MAX: usize = 100 << 20;
/// LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, AllocateProducerIds.
const CONTROL_KEYS: [i16; 6] = [4, 5, 6, 7, 56, 67];
const API_VERSIONS_KEY: i16 = 18;

/// What was heard on all taps of a cluster. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    heard: Arc<Mutex<Heard>>,
    connections: Arc<AtomicU32>,
}

#[derive(Debug, Default)]
struct Heard {
    entries: Vec<Entry>,
    /// Control requests that have no answer yet, by connection.
    unanswered: BTreeMap<u32, u32>,
    last: Option<Instant>,
}

/// One thing on the tape.
#[derive(Debug, Clone)]
pub enum Entry {
    /// What the script did next.
    Step(String),
    /// A broker was started again: it knows nothing any more.
    Forgets(i32),
    Said(Said),
}

/// A frame that was said to a broker, or by it in answer.
#[derive(Debug, Clone)]
pub struct Said {
    pub at: SystemTime,
    /// Whose tap.
    pub broker: i32,
    /// Tells one connection from another.
    pub connection: u32,
    pub way: Way,
    pub key: i16,
    pub version: i16,
    /// Without the length prefix.
    pub payload: Bytes,
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToBroker,
    FromBroker,
}

impl Tape {
    /// Notes that the script goes on to `step`.
    pub fn step(&self, step: &str) {
        self.heard().entries.push(Entry::Step(step.to_owned()));
    }

    /// Notes that `broker` starts again.
    pub fn forgets(&self, broker: i32) {
        self.heard().entries.push(Entry::Forgets(broker));
    }

    /// All that was heard so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.heard().entries.clone()
    }

    /// How long nothing was said by or to a controller, every request answered; `None` while an answer is due.
    pub fn quiet_for(&self) -> Option<Duration> {
        let heard = self.heard();
        if !heard.unanswered.is_empty() {
            return None;
        }
        Some(heard.last.map_or(Duration::MAX, |last| last.elapsed()))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, said: Said) {
        let mut heard = self.heard();
        if CONTROL_KEYS.contains(&said.key) {
            heard.last = Some(Instant::now());
            let due = heard.unanswered.entry(said.connection).or_default();
            match said.way {
                Way::ToBroker => *due += 1,
                Way::FromBroker => *due = due.saturating_sub(1),
            }
            if *due == 0 {
                heard.unanswered.remove(&said.connection);
            }
        }
        heard.entries.push(Entry::Said(said));
    }

    /// Nobody waits on a connection that ended.
    fn ended(&self, connection: u32) {
        self.heard().unanswered.remove(&connection);
    }
}

/// A running tap; its connections end with it.
#[derive(Debug)]
pub struct Tap {
    /// `ip:port` that the broker advertises.
    pub address: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    broker: i32,
    tape: Tape,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// One connection through a tap, as both of its directions see it.
struct Line {
    shared: Arc<Shared>,
    connection: u32,
    /// Requests that are kept and not answered yet: correlation id to key and version.
    asked: Mutex<BTreeMap<i32, (i16, i16)>>,
}

impl Tap {
    /// Listens on `address` and hands every connection on to `target`, the listener of `broker`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn start(address: String, target: String, broker: i32, tape: &Tape) -> Result<Self> {
        let listener =
            TcpListener::bind(&address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            broker,
            tape: tape.clone(),
            ended: AtomicBool::new(false),
            open: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            while !theirs.ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A broker that is down looks like a connection that ends at once.
                    Ok((client, _)) => drop(join(client, &target, &theirs)),
                    Err(_) => thread::sleep(POLL),
                }
            }
        });
        Ok(Self { address, shared })
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for stream in self.shared.open().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn join(client: TcpStream, target: &str, shared: &Arc<Shared>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared
        .open()
        .extend([client.try_clone()?, server.try_clone()?]);
    let line = Arc::new(Line {
        shared: Arc::clone(shared),
        connection: shared.tape.connections.fetch_add(1, Ordering::Relaxed),
        asked: Mutex::new(BTreeMap::new()),
    });
    pump(
        client.try_clone()?,
        server.try_clone()?,
        Arc::clone(&line),
        Way::ToBroker,
    );
    pump(server, client, line, Way::FromBroker);
    Ok(())
}

/// Hands on one direction until either end is gone, then ends both.
fn pump(mut from: TcpStream, mut to: TcpStream, line: Arc<Line>, way: Way) {
    thread::spawn(move || {
        while let Ok(frame) = read_frame(&mut from) {
            // Kept before it is handed on: a request is on the tape ahead of its answer.
            line.hear(way, &frame);
            if to.write_all(&frame).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
        line.shared.tape.ended(line.connection);
    });
}

/// The next frame, its length prefix included.
fn read_frame(from: &mut TcpStream) -> io::Result<Bytes> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix)?;
    let length = usize::try_from(i32::from_be_bytes(prefix))
        .ok()
        .filter(|length| *length <= FRAME_MAX)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut frame = vec![0; prefix.len() + length];
    frame[..prefix.len()].copy_from_slice(&prefix);
    from.read_exact(&mut frame[prefix.len()..])?;
    Ok(frame.into())
}

impl Line {
    fn hear(&self, way: Way, frame: &Bytes) {
        let payload = frame.slice(4..);
        let kept = match way {
            Way::ToBroker => self.asked_now(&payload),
            Way::FromBroker => int32(&payload, 0).and_then(|id| self.asked().remove(&id)),
        };
        if let Some((key, version)) = kept {
            self.shared.tape.keep(Said {
                at: SystemTime::now(),
                broker: self.shared.broker,
                connection: self.connection,
                way,
                key,
                version,
                payload,
            });
        }
    }

    /// Key and version of a request that is kept.
    fn asked_now(&self, payload: &Bytes) -> Option<(i16, i16)> {
        let (key, version) = (int16(payload, 0)?, int16(payload, 2)?);
        if key != API_VERSIONS_KEY && !CONTROL_KEYS.contains(&key) {
            return None;
        }
        self.asked().insert(int32(payload, 4)?, (key, version));
        Some((key, version))
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<i32, (i16, i16)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn int16(bytes: &Bytes, at: usize) -> Option<i16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(i16::from_be_bytes(bytes.try_into().ok()?))
}

fn int32(bytes: &Bytes, at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    /// A request of `key`, version 1, correlation id `id`, with a body of two bytes.
    fn request(key: i16, id: i32) -> Vec<u8> {
        let payload = [
            &key.to_be_bytes()[..],
            &1i16.to_be_bytes(),
            &id.to_be_bytes(),
            &[7, 7],
        ]
        .concat();
        [&10i32.to_be_bytes()[..], &payload].concat()
    }

    fn answer(id: i32) -> Vec<u8> {
        [&4i32.to_be_bytes()[..], &id.to_be_bytes()].concat()
    }

    #[test]
    fn control_frames_are_kept_with_their_answers_and_all_frames_are_handed_on() {
        let address = Address::reserve().unwrap();
        let broker = TcpListener::bind(address.port(3000)).unwrap();
        let tape = Tape::default();
        let tap = Tap::start(address.port(3001), address.port(3000), 7, &tape).unwrap();
        let mut client = TcpStream::connect(&tap.address).unwrap();
        let (mut served, _) = broker.accept().unwrap();
        let (fetch, stop) = (request(1, 1), request(5, 2));
        client
            .write_all(&[fetch.clone(), stop.clone()].concat())
            .unwrap();
        let mut got = vec![0; fetch.len() + stop.len()];
        served.read_exact(&mut got).unwrap();
        assert_eq!(got, [fetch, stop].concat());
        assert_eq!(tape.quiet_for(), None, "the answer to StopReplica is due");
        served.write_all(&[answer(1), answer(2)].concat()).unwrap();
        let mut got = vec![0; 16];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, [answer(1), answer(2)].concat());
        let said: Vec<(i32, Way, i16, i16, usize)> = tape
            .entries()
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Said(said) => Some((
                    said.broker,
                    said.way,
                    said.key,
                    said.version,
                    said.payload.len(),
                )),
                _ => None,
            })
            .collect();
        assert_eq!(
            said,
            [(7, Way::ToBroker, 5, 1, 10), (7, Way::FromBroker, 5, 1, 4)]
        );
        assert!(tape.quiet_for().is_some());
    }
}
