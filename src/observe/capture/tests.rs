//! Tests of the capture that klamm writes of itself: rolling over, a slow disk, a disk that refuses.

use klamm_codec::capture::{self, Entry, ReadOptions, What};
use klamm_codec::messages::{UpdateMetadataRequest, UpdateMetadataResponse};
use klamm_codec::request::encode_request;
use klamm_codec::response::encode_response;

use super::*;

/// A directory of its own below the build directory, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tmp");
        let path = root.join(format!("capture-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn config(&self, max_bytes: u64, max_files: u32) -> CaptureConfig {
        CaptureConfig {
            file: self.0.join("control.pcapng").display().to_string(),
            max_bytes,
            max_files,
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> Vec<Entry> {
        let bytes = std::fs::read(self.0.join(name)).unwrap();
        let capture = capture::read(&bytes.into(), &ReadOptions::default()).unwrap();
        assert_eq!(capture.notes, [], "{name}");
        capture.entries
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 9], 40_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 9092);

fn connect(tap: &CaptureTap) -> TappedConnection {
    tap.connection(CLIENT.into(), SERVER.into()).unwrap()
}

/// A request and its answer, told from others by their correlation id.
fn talk(connection: &mut TappedConnection, id: i32) {
    let request = UpdateMetadataRequest::default();
    let request = encode_request(5, id, Some("900"), &request).unwrap();
    connection.said(Direction::Request, request.parts());
    let answer = UpdateMetadataResponse::default();
    let answer = encode_response::<UpdateMetadataRequest>(5, id, &answer).unwrap();
    connection.said_payload(Direction::Response, &answer.to_bytes().slice(4..));
}

/// The correlation ids of requests that were answered.
fn answered(entries: &[Entry]) -> Vec<i32> {
    let answered = entries.iter().map(|entry| match &entry.what {
        What::Request {
            header,
            answer: Some(_),
            ..
        } => header.correlation_id,
        other => panic!("{other:?}"),
    });
    answered.collect()
}

#[tokio::test]
async fn what_was_said_is_in_the_file_when_the_capture_ends() {
    let scratch = Scratch::new("ends");
    let metrics = Arc::new(Metrics::default());
    let capture = Capture::start(&scratch.config(1 << 20, 5), Arc::clone(&metrics)).unwrap();
    let tap = capture.tap();
    let mut connection = connect(&tap);
    let before = now();
    talk(&mut connection, 1);
    let mut six = tap
        .connection(
            "[::1]:40001".parse().unwrap(),
            "[::1]:9092".parse().unwrap(),
        )
        .unwrap();
    talk(&mut six, 2);
    drop(six);
    capture.finish().await;
    let after = now();
    let entries = scratch.read("control.pcapng");
    assert_eq!(answered(&entries), [1, 2]);
    let ends: Vec<_> = entries
        .iter()
        .map(|entry| {
            let ends = entry.ends.unwrap();
            (ends.client.to_string(), ends.server.to_string())
        })
        .collect();
    assert_eq!(ends[0], ("10.0.0.9:40000".into(), "10.0.0.1:9092".into()));
    assert_eq!(ends[1], ("[::1]:40001".into(), "[::1]:9092".into()));
    let at = entries[0].at().unwrap();
    assert!(
        (before..=after).contains(&at),
        "{before:?} {at:?} {after:?}"
    );
    assert_eq!(metrics.captured_frames.get(), 4);
    assert_eq!(metrics.capture_dropped_frames.get(), 0);
    // Whoever still talks is not disturbed.
    talk(&mut connection, 3);
}

#[tokio::test]
async fn a_full_file_is_rolled_over_and_each_can_be_read_alone() {
    let scratch = Scratch::new("rolls");
    let metrics = Arc::new(Metrics::default());
    let capture = Capture::start(&scratch.config(65_536, 3), Arc::clone(&metrics)).unwrap();
    let mut connection = connect(&capture.tap());
    for id in 0..2_000 {
        talk(&mut connection, id);
    }
    capture.finish().await;
    let names = ["control.pcapng", "control.pcapng.1", "control.pcapng.2"];
    assert_eq!(scratch.names(), names);
    let mut ids = Vec::new();
    for name in names.iter().rev() {
        let size = std::fs::metadata(scratch.0.join(name)).unwrap().len();
        assert!(size <= 65_536, "{name} has {size} bytes");
        let entries = scratch.read(name);
        // A request may be the last of one file and its answer the first of the next.
        let requests = entries.iter().filter_map(|entry| match &entry.what {
            What::Request { header, .. } => Some(header.correlation_id),
            _ => None,
        });
        ids.extend(requests);
        assert!(
            !entries
                .iter()
                .any(|entry| matches!(entry.what, What::Gap { .. } | What::Broken { .. })),
            "{name}"
        );
    }
    let first = ids[0];
    assert!(ids.len() > 300, "{} requests", ids.len());
    assert_eq!(ids, (first..2_000).collect::<Vec<_>>());
    assert_eq!(metrics.captured_frames.get(), 4_000);
}

#[tokio::test]
async fn a_capture_that_is_there_already_is_kept() {
    let scratch = Scratch::new("restart");
    for id in [1, 2, 3] {
        let metrics = Arc::default();
        let capture = Capture::start(&scratch.config(1 << 20, 2), metrics).unwrap();
        talk(&mut connect(&capture.tap()), id);
        capture.finish().await;
    }
    assert_eq!(scratch.names(), ["control.pcapng", "control.pcapng.1"]);
    assert_eq!(answered(&scratch.read("control.pcapng")), [3]);
    assert_eq!(answered(&scratch.read("control.pcapng.1")), [2]);
}

#[test]
fn what_a_slow_disk_leaves_no_room_for_is_dropped_counted_and_shown_as_missing() {
    let scratch = Scratch::new("slow");
    let metrics = Arc::new(Metrics::default());
    // Room for two requests with their answers.
    let (tap, frames) = tap(1_300, Arc::clone(&metrics));
    let mut connection = connect(&tap);
    for id in 1..=5 {
        talk(&mut connection, id);
    }
    assert_eq!(metrics.capture_dropped_frames.get(), 6);
    let files = Files::open(&scratch.config(1 << 20, 5)).unwrap();
    let mut recorder = Recorder::new(files, Arc::clone(&metrics));
    // The disk is there again.
    while let Ok(told) = frames.receiver.try_recv() {
        recorder.hear(told, &frames);
    }
    talk(&mut connection, 6);
    drop(connection);
    drop(tap);
    recorder.run(&frames);
    assert_eq!(metrics.capture_dropped_frames.get(), 6);
    let entries = scratch.read("control.pcapng");
    let (gaps, said): (Vec<Entry>, Vec<Entry>) = entries
        .into_iter()
        .partition(|entry| matches!(entry.what, What::Gap { .. }));
    assert_eq!(answered(&said), [1, 2, 6]);
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    let remark = said[2].remark.as_deref().unwrap();
    assert!(
        remark.contains("bytes before this were not captured"),
        "{remark}"
    );
}

/// A disk that is full after so many bytes, until it is told otherwise.
#[derive(Debug)]
struct Full {
    file: File,
    left: Arc<AtomicU64>,
    can_be_cut: bool,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed) as usize;
        let taken = self.file.write(&bytes[..bytes.len().min(left)])?;
        self.left.fetch_sub(taken as u64, Ordering::Relaxed);
        match taken {
            0 => Err(io::ErrorKind::StorageFull.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Disk for Full {
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self.can_be_cut {
            true => self.file.set_len(bytes),
            false => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }
}

/// A capture on a disk that has so many bytes left.
struct OnFullDisk {
    recorder: Recorder,
    frames: Frames,
    connection: TappedConnection,
    left: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl OnFullDisk {
    fn new(scratch: &Scratch, left: u64, can_be_cut: bool) -> OnFullDisk {
        let metrics = Arc::new(Metrics::default());
        let (tap, frames) = tap(QUEUE_MAX_BYTES, Arc::clone(&metrics));
        let mut files = Files::open(&scratch.config(1 << 20, 5)).unwrap();
        let mut options = OpenOptions::new();
        let file = options.append(true).open(&files.path).unwrap();
        let left = Arc::new(AtomicU64::new(left));
        files.file = Some(Box::new(Full {
            file,
            left: Arc::clone(&left),
            can_be_cut,
        }));
        OnFullDisk {
            recorder: Recorder::new(files, Arc::clone(&metrics)),
            frames,
            connection: connect(&tap),
            left,
            metrics,
        }
    }

    fn talk(&mut self, id: i32) {
        talk(&mut self.connection, id);
        while let Ok(told) = self.frames.receiver.try_recv() {
            self.recorder.hear(told, &self.frames);
        }
        self.recorder.flush();
    }

    /// Frames that were written, and that were not.
    fn counts(&self) -> (u64, u64) {
        (
            self.metrics.captured_frames.get(),
            self.metrics.capture_dropped_frames.get(),
        )
    }
}

#[test]
fn a_full_disk_costs_the_frames_and_the_capture_goes_on_when_there_is_room() {
    for left in [0, 10, 300, 900] {
        let scratch = Scratch::new(&format!("full-{left}"));
        let mut node = OnFullDisk::new(&scratch, left, true);
        let mut written = 0;
        for id in 1..=3 {
            node.talk(id);
            written = node.counts().0;
        }
        assert!(written < 6, "{left} bytes took all");
        // There is room again, but the disk is not tried before its time.
        node.left.store(1 << 20, Ordering::Relaxed);
        node.talk(4);
        assert_eq!(node.counts(), (written, 8 - written));
        node.recorder.retry_at = Some(Instant::now());
        node.talk(5);
        node.talk(6);
        assert_eq!(node.counts(), (written + 4, 8 - written));
        let entries = scratch.read("control.pcapng");
        let said = entries
            .into_iter()
            .filter(|entry| matches!(entry.what, What::Request { .. }));
        let mut expected: Vec<i32> = (1..=written as i32 / 2).collect();
        expected.extend([5, 6]);
        assert_eq!(answered(&said.collect::<Vec<_>>()), expected, "{left}");
    }
}

#[test]
fn a_disk_that_takes_nothing_back_ends_the_capture_and_keeps_what_it_has() {
    let scratch = Scratch::new("spoilt");
    let mut node = OnFullDisk::new(&scratch, 900, false);
    for id in 1..=3 {
        node.talk(id);
    }
    let (written, dropped) = node.counts();
    assert!(written > 0 && dropped > 0, "{written} and {dropped}");
    node.left.store(1 << 20, Ordering::Relaxed);
    node.recorder.retry_at = Some(Instant::now());
    node.talk(4);
    assert_eq!(node.counts(), (written, dropped + 2));
    let bytes = std::fs::read(scratch.0.join("control.pcapng")).unwrap();
    let capture = capture::read(&bytes.into(), &ReadOptions::default()).unwrap();
    let first = capture.entries.first().map(std::slice::from_ref).unwrap();
    assert_eq!(answered(first), [1]);
}

#[test]
fn a_file_that_cannot_be_is_named_at_the_start() {
    let config = CaptureConfig {
        file: "/dev/null/control.pcapng".to_owned(),
        max_bytes: 1 << 20,
        max_files: 5,
    };
    let refused = Capture::start(&config, Arc::default()).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.starts_with("klamm.capture.file: /dev/null/control.pcapng can't be opened"),
        "{said}"
    );
}

#[test]
fn a_tap_that_nobody_asked_for_takes_nothing() {
    let tap = CaptureTap::default();
    assert!(tap.connection(CLIENT.into(), SERVER.into()).is_none());
}
