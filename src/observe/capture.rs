//! klamm's own control traffic as pcapng files, for `klamm decode` and Wireshark: what brokers were told, as it was sent.
//!
//! Must never slow a connection or end klamm: frames go to a thread of their own through a bounded queue, and where the
//! disk can't follow or refuses them they are dropped, counted, and shown as missing in the capture. Every file can be
//! read alone: connections are opened again in it. No upstream counterpart.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use klamm_codec::Direction;
use klamm_codec::capture::Timestamp;
use klamm_codec::capture::writer::{Connection, Writer};
use tracing::{info, warn};

use super::Metrics;
use crate::config::CaptureConfig;

/// What may wait for the disk, in bytes of frames. Bodies are shared with what is sent, so it costs less than this.
const QUEUE_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// What a frame costs in the queue beside its bytes.
const QUEUED_FRAME_BYTES: u64 = 256;
/// So much is written at a time.
const BATCH_BYTES: usize = 1024 * 1024;
/// The headers around so much of a frame, at most, and how much they take.
const SEGMENT_BYTES: u64 = 60 * 1024;
const SEGMENT_HEADER_BYTES: u64 = 128;
/// What opening a connection takes, comments included.
const OPENING_BYTES: u64 = 1024;
/// After a failure the disk is tried again when so much time has passed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long the last frames may take when klamm stops.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// The capture can't begin.
#[derive(Debug, thiserror::Error)]
#[error(
    "klamm.capture.file: {path} can't be opened: {source}; give a file in a directory that klamm may write to"
)]
pub struct CaptureStartError {
    path: String,
    source: io::Error,
}

/// A capture that is being written.
#[derive(Debug)]
pub struct Capture {
    tap: CaptureTap,
    thread: JoinHandle<()>,
}

impl Capture {
    /// Opens the file and starts the thread that writes to it. A file that is there already is rolled over.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn start(
        config: &CaptureConfig,
        metrics: Arc<Metrics>,
    ) -> Result<Capture, CaptureStartError> {
        let failed = |source| CaptureStartError {
            path: config.file.clone(),
            source,
        };
        let (tap, frames) = tap(QUEUE_MAX_BYTES, Arc::clone(&metrics));
        let files = Files::open(config).map_err(failed)?;
        let recorder = Recorder::new(files, metrics);
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || recorder.run(&frames))
            .map_err(failed)?;
        info!(
            "klamm's control traffic is captured in {}, up to {} bytes in each of {} files",
            config.file, config.max_bytes, config.max_files
        );
        Ok(Capture { tap, thread })
    }

    /// Where connections tell what they say.
    pub fn tap(&self) -> CaptureTap {
        self.tap.clone()
    }

    /// Writes what waits and ends the capture; what is said later is not in it. Gives up on a disk that hangs.
    pub async fn finish(self) {
        if let Some(shared) = &self.tap.0 {
            // The thread is gone already if this fails.
            let _ = shared.sender.send(Told::End);
        }
        let ended = tokio::task::spawn_blocking(move || self.thread.join());
        match tokio::time::timeout(FLUSH_PATIENCE, ended).await {
            Ok(Ok(Ok(()))) => {}
            Ok(_) => warn!("the capture ended before klamm did, by a fault of klamm"),
            Err(_) => warn!("the last frames of the capture could not be written in time"),
        }
    }
}

/// Where connections tell what they say. The default is none, which costs nothing.
#[derive(Debug, Clone, Default)]
pub struct CaptureTap(Option<Arc<Shared>>);

impl PartialEq for CaptureTap {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for CaptureTap {}

#[derive(Debug)]
struct Shared {
    sender: Sender<Told>,
    queue_max_bytes: u64,
    queued_bytes: Arc<AtomicU64>,
    connections: AtomicU64,
    is_dropping: AtomicBool,
    metrics: Arc<Metrics>,
}

/// What the thread hears.
#[derive(Debug)]
enum Told {
    Said {
        connection: u64,
        ends: Ends,
        said: Said,
    },
    Closed {
        connection: u64,
        at: Timestamp,
    },
    End,
}

/// The client, and the server.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Said {
    direction: Direction,
    at: Timestamp,
    /// The frame, prefix included.
    parts: [Bytes; 2],
    /// Bytes that were said before it, in its direction, and are not told.
    lost_bytes: u64,
}

impl Said {
    fn bytes(&self) -> u64 {
        length(&self.parts)
    }
}

fn length(parts: &[Bytes; 2]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// A tap, and where what it takes comes out.
fn tap(queue_max_bytes: u64, metrics: Arc<Metrics>) -> (CaptureTap, Frames) {
    let (sender, receiver) = channel();
    let queued_bytes = Arc::new(AtomicU64::new(0));
    let shared = Shared {
        sender,
        queue_max_bytes,
        queued_bytes: Arc::clone(&queued_bytes),
        connections: AtomicU64::new(0),
        is_dropping: AtomicBool::new(false),
        metrics,
    };
    let frames = Frames {
        receiver,
        queued_bytes,
    };
    (CaptureTap(Some(Arc::new(shared))), frames)
}

impl CaptureTap {
    /// A connection that was made; none if nothing is captured.
    pub fn connection(&self, client: SocketAddr, server: SocketAddr) -> Option<TappedConnection> {
        self.0.as_ref().map(|shared| TappedConnection {
            number: shared.connections.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(shared),
            ends: (client, server),
            has_spoken: false,
            lost_bytes: [0; 2],
        })
    }
}

/// A connection whose frames are captured. Dropping it tells that it is closed.
#[derive(Debug)]
pub struct TappedConnection {
    shared: Arc<Shared>,
    number: u64,
    ends: Ends,
    has_spoken: bool,
    /// Of requests, and of answers.
    lost_bytes: [u64; 2],
}

impl TappedConnection {
    /// A frame of which the parts, in order, are its bytes on the wire.
    pub fn said(&mut self, direction: Direction, parts: [&Bytes; 2]) {
        let parts = parts.map(Bytes::clone);
        let bytes = length(&parts);
        let [requests, answers] = &mut self.lost_bytes;
        let lost = match direction {
            Direction::Request => requests,
            Direction::Response => answers,
        };
        if !self.shared.admit(bytes) {
            *lost += bytes;
            return;
        }
        let said = Said {
            direction,
            at: now(),
            parts,
            lost_bytes: std::mem::take(lost),
        };
        self.has_spoken = true;
        // Nobody hears it after the capture's end.
        let _ = self.shared.sender.send(Told::Said {
            connection: self.number,
            ends: self.ends,
            said,
        });
    }

    /// A frame that was read: its payload, without the prefix.
    pub fn said_payload(&mut self, direction: Direction, payload: &Bytes) {
        let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let prefix = Bytes::copy_from_slice(&size.to_be_bytes());
        self.said(direction, [&prefix, payload]);
    }
}

impl Drop for TappedConnection {
    fn drop(&mut self) {
        if self.has_spoken {
            let at = now();
            let connection = self.number;
            let _ = self.shared.sender.send(Told::Closed { connection, at });
        }
    }
}

impl Shared {
    /// Whether there is room for a frame.
    fn admit(&self, bytes: u64) -> bool {
        let cost = bytes + QUEUED_FRAME_BYTES;
        let queued = self.queued_bytes.fetch_add(cost, Ordering::Relaxed);
        if queued + cost <= self.queue_max_bytes {
            if queued == 0 {
                self.is_dropping.store(false, Ordering::Relaxed);
            }
            return true;
        }
        self.queued_bytes.fetch_sub(cost, Ordering::Relaxed);
        self.metrics.capture_dropped_frames.increment();
        if !self.is_dropping.swap(true, Ordering::Relaxed) {
            warn!(
                "the capture can't follow: its disk is too slow, and frames are left out until it has caught up; \
                 klamm_capture_dropped_frames_total counts them"
            );
        }
        false
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    Timestamp(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Where the queue comes out.
#[derive(Debug)]
struct Frames {
    receiver: Receiver<Told>,
    queued_bytes: Arc<AtomicU64>,
}

/// Turns frames into packets and packets into files.
#[derive(Debug)]
struct Recorder {
    files: Files,
    writer: Writer,
    connections: BTreeMap<u64, Connection>,
    metrics: Arc<Metrics>,
    /// Frames in the writer, which are not written yet.
    pending_frames: u64,
    /// Frames that were given up since the disk last took one.
    refused_frames: u64,
    /// When the disk may be tried again.
    retry_at: Option<Instant>,
}

impl Recorder {
    fn new(files: Files, metrics: Arc<Metrics>) -> Recorder {
        Recorder {
            files,
            writer: Writer::new(application()),
            connections: BTreeMap::new(),
            metrics,
            pending_frames: 0,
            refused_frames: 0,
            retry_at: None,
        }
    }

    /// Until the end is told, or nobody is left to tell it.
    fn run(mut self, frames: &Frames) {
        while let Ok(told) = frames.receiver.recv() {
            let mut is_going_on = self.hear(told, frames);
            while is_going_on && self.writer.len() < BATCH_BYTES {
                match frames.receiver.try_recv() {
                    Ok(told) => is_going_on = self.hear(told, frames),
                    Err(_) => break,
                }
            }
            if !is_going_on {
                self.close_all();
            }
            self.flush();
            if !is_going_on {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn hear(&mut self, told: Told, frames: &Frames) -> bool {
        match told {
            Told::Said {
                connection,
                ends,
                said,
            } => {
                self.record(connection, ends, &said);
                let cost = said.bytes() + QUEUED_FRAME_BYTES;
                frames.queued_bytes.fetch_sub(cost, Ordering::Relaxed);
                true
            }
            Told::Closed { connection, at } => {
                if let Some(connection) = self.connections.remove(&connection) {
                    self.writer.close(connection, at);
                }
                true
            }
            Told::End => false,
        }
    }

    fn record(&mut self, number: u64, ends: Ends, said: &Said) {
        self.make_room(said.bytes());
        let Recorder {
            writer,
            connections,
            ..
        } = self;
        let connection = connections
            .entry(number)
            .or_insert_with(|| writer.open(ends.0, ends.1, said.at));
        if said.lost_bytes > 0 {
            writer.remark(&format!(
                "{} bytes before this were not captured: the disk was too slow",
                said.lost_bytes
            ));
            writer.skip(connection, said.direction, said.lost_bytes);
        }
        // One run of bytes, so that a frame begins where a segment does.
        writer.say(connection, said.direction, &said.parts.concat(), said.at);
        self.pending_frames += 1;
    }

    /// Goes on in a new file, if this one would grow too long.
    fn make_room(&mut self, frame_bytes: u64) {
        let segments = frame_bytes / SEGMENT_BYTES + 1;
        let needed = frame_bytes + segments * SEGMENT_HEADER_BYTES + OPENING_BYTES;
        let there = self.files.bytes + self.writer.len() as u64;
        if there + needed <= self.files.max_bytes || there <= OPENING_BYTES {
            return;
        }
        self.flush();
        if self.retry_at.is_some() {
            return;
        }
        match self.files.roll() {
            Ok(()) => {
                self.writer = Writer::new(application());
                self.connections.clear();
            }
            Err(error) => self.fail(&error),
        }
    }

    fn close_all(&mut self) {
        let at = now();
        while let Some((_, connection)) = self.connections.pop_first() {
            self.writer.close(connection, at);
        }
    }

    /// Writes what the writer holds, or drops it.
    fn flush(&mut self) {
        let bytes = self.writer.take();
        if bytes.is_empty() {
            return;
        }
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            self.give_up_pending();
            return;
        }
        match self.files.append(&bytes) {
            Ok(()) => {
                self.retry_at = None;
                let written = std::mem::take(&mut self.pending_frames);
                self.metrics.captured_frames.add(written);
                let refused = std::mem::take(&mut self.refused_frames);
                if refused > 0 {
                    info!("the capture goes on; {refused} frames are not in it");
                }
            }
            Err(error) => {
                self.fail(&error);
                self.give_up_pending();
            }
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if self.retry_at.is_none() {
            warn!(
                "the capture can't be written to {}: {error}; frames are left out until it can, and \
                 klamm_capture_dropped_frames_total counts them",
                self.files.path.display()
            );
        }
        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
    }

    /// Later frames of the same connections tell by their sequence numbers that these are missing.
    fn give_up_pending(&mut self) {
        let given_up = std::mem::take(&mut self.pending_frames);
        self.refused_frames += given_up;
        self.metrics.capture_dropped_frames.add(given_up);
    }
}

fn application() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("klamm {}", env!("CARGO_PKG_VERSION")))
}

/// What blocks are written to: a file, but in tests.
trait Disk: Write + fmt::Debug + Send {
    /// Takes back all after the first `bytes`.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl Disk for File {
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// The file at hand, and those before it.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    max_bytes: u64,
    max_files: u32,
    /// None once it was given up.
    file: Option<Box<dyn Disk>>,
    /// Whole blocks in the file, in bytes.
    bytes: u64,
    /// Whether the file is empty because the blocks that begin a capture were refused with what followed them.
    lacks_beginning: bool,
}

impl Files {
    fn open(config: &CaptureConfig) -> io::Result<Files> {
        let path = PathBuf::from(&config.file);
        if std::fs::metadata(&path).is_ok_and(|there| there.is_file() && there.len() > 0) {
            shift(&path, config.max_files)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Files {
            file: Some(Box::new(file)),
            path,
            max_bytes: config.max_bytes,
            max_files: config.max_files,
            bytes: 0,
            lacks_beginning: false,
        })
    }

    /// Adds whole blocks, or nothing.
    fn append(&mut self, blocks: &[u8]) -> io::Result<()> {
        let appended = if self.lacks_beginning {
            let beginning = Writer::new(application()).take();
            self.append_all(&[&beginning, blocks].concat())
        } else {
            self.append_all(blocks)
        };
        // The beginning of a file comes with its first blocks.
        self.lacks_beginning = appended.is_err() && self.bytes == 0;
        appended
    }

    fn append_all(&mut self, blocks: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("it was given up"));
        };
        let Err(error) = file.write_all(blocks) else {
            self.bytes += blocks.len() as u64;
            return Ok(());
        };
        // A block of which a part was written would hide all after it.
        let Err(cause) = file.cut(self.bytes) else {
            return Err(error);
        };
        self.file = None;
        Err(io::Error::other(format!(
            "{error}, and the capture is given up until klamm starts again, for what was written can't be taken back: {cause}"
        )))
    }

    /// Moves every file on by one and begins a new one. No capture is ever written over.
    fn roll(&mut self) -> io::Result<()> {
        shift(&self.path, self.max_files)?;
        let mut options = OpenOptions::new();
        let file = options.create_new(true).append(true).open(&self.path)?;
        self.file = Some(Box::new(file));
        self.bytes = 0;
        self.lacks_beginning = false;
        Ok(())
    }
}

/// `FILE` to `FILE.1`, that to `FILE.2` and so on; the oldest goes.
fn shift(path: &Path, max_files: u32) -> io::Result<()> {
    if max_files <= 1 {
        return std::fs::remove_file(path);
    }
    for number in (1..max_files - 1).rev() {
        match std::fs::rename(numbered(path, number), numbered(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    std::fs::rename(path, numbered(path, 1))
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
