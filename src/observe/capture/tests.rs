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

#[test]
fn a_disk_that_refuses_costs_the_frames_and_the_capture_goes_on_when_it_can() {
    let scratch = Scratch::new("refuses");
    let metrics = Arc::new(Metrics::default());
    let (tap, frames) = tap(QUEUE_MAX_BYTES, Arc::clone(&metrics));
    let mut connection = connect(&tap);
    let mut files = Files::open(&scratch.config(1 << 20, 5)).unwrap();
    // Read-only: every write is refused.
    let working = files.file.replace(File::open(&files.path).unwrap());
    let mut recorder = Recorder::new(files, Arc::clone(&metrics));
    let hear_all = |recorder: &mut Recorder| {
        while let Ok(told) = frames.receiver.try_recv() {
            recorder.hear(told, &frames);
        }
        recorder.flush();
    };
    talk(&mut connection, 1);
    hear_all(&mut recorder);
    assert_eq!(metrics.capture_dropped_frames.get(), 2);
    // It can be written again, and is not tried at once.
    recorder.files.file = working;
    talk(&mut connection, 2);
    hear_all(&mut recorder);
    assert_eq!(metrics.capture_dropped_frames.get(), 4);
    recorder.retry_at = Some(Instant::now());
    talk(&mut connection, 3);
    talk(&mut connection, 4);
    hear_all(&mut recorder);
    assert_eq!(metrics.capture_dropped_frames.get(), 4);
    assert_eq!(metrics.captured_frames.get(), 4);
    let entries = scratch.read("control.pcapng");
    assert_eq!(answered(&entries), [3, 4]);
}

#[test]
fn a_block_written_in_part_is_taken_back() {
    let scratch = Scratch::new("part");
    let mut files = Files::open(&scratch.config(1 << 20, 5)).unwrap();
    files.append(b"whole").unwrap();
    // As a full disk leaves it.
    let mut behind = OpenOptions::new().append(true).open(&files.path).unwrap();
    behind.write_all(b"half").unwrap();
    files.file.as_ref().unwrap().set_len(files.bytes).unwrap();
    files.append(b" again").unwrap();
    assert_eq!(std::fs::read(&files.path).unwrap(), b"whole again");
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
