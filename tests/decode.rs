//! `klamm decode` through its front door: files and pipes in, lines and exit codes out.
//!
//! Must never look inside: what a user can't see is tested beside the code. Upstream: none, Kafka has no such tool.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use klamm_codec::capture::Timestamp;
use klamm_codec::capture::writer::{Connection, Writer};
use klamm_codec::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use klamm_codec::messages::leader_and_isr_response::LeaderAndIsrPartitionError;
use klamm_codec::messages::stop_replica_request::StopReplicaPartitionV0;
use klamm_codec::messages::{
    BrokerId, ControlledShutdownRequest, LeaderAndIsrRequest, LeaderAndIsrResponse,
    StopReplicaRequest, StopReplicaResponse, TopicName,
};
use klamm_codec::request::encode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{Api, Direction};

/// 2026-11-29T23:47:46Z, in nanoseconds.
const START: u64 = 1_795_996_066_000_000_000;

/// A file below the build directory, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = directory.join(format!("decode-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
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

fn klamm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_klamm"));
    command.arg("decode").args(arguments).stdin(Stdio::null());
    command
}

fn decode(arguments: &[&str]) -> Output {
    klamm(arguments).output().unwrap()
}

/// Standard output of a run that must go well.
fn text(arguments: &[&str]) -> String {
    let output = decode(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Writes what a controller and a broker say, a millisecond between any two frames.
struct Story {
    writer: Writer,
    connection: Connection,
    milliseconds: u64,
}

impl Story {
    fn begin() -> Story {
        let mut writer = Writer::new("tests");
        let ends = ["10.0.0.9:41022", "10.0.0.1:9092"].map(|end| end.parse().unwrap());
        let connection = writer.open(ends[0], ends[1], Timestamp(START));
        Story {
            writer,
            connection,
            milliseconds: 0,
        }
    }

    fn say(&mut self, direction: Direction, bytes: &[u8]) {
        self.milliseconds += 1;
        let at = Timestamp(START + self.milliseconds * 1_000_000);
        self.writer.say(&mut self.connection, direction, bytes, at);
    }

    fn ask<A: Api>(&mut self, version: i16, number: i32, request: &A) {
        let frame = encode_request(version, number, Some("900"), request).unwrap();
        self.say(Direction::Request, &frame.to_bytes());
    }

    fn answer<A: Api>(&mut self, version: i16, number: i32, response: &A::Response) {
        let frame = encode_response::<A>(version, number, response).unwrap();
        self.say(Direction::Response, &frame.to_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        let at = Timestamp(START + 1_000_000_000);
        self.writer.close(self.connection, at);
        self.writer.take()
    }
}

fn leader_and_isr(topic: &'static str, partition: i32) -> LeaderAndIsrRequest {
    let partition = LeaderAndIsrPartitionState::default()
        .with_topic_name(TopicName(topic.to_owned().into()))
        .with_partition_index(partition)
        .with_controller_epoch(12)
        .with_leader(BrokerId(2))
        .with_leader_epoch(7)
        .with_isr(vec![BrokerId(2)])
        .with_replicas(vec![BrokerId(1), BrokerId(2)]);
    LeaderAndIsrRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_ungrouped_partition_states(vec![partition])
}

fn stop_replica(topic: &'static str, partition: i32) -> StopReplicaRequest {
    let partition = StopReplicaPartitionV0::default()
        .with_topic_name(TopicName(topic.to_owned().into()))
        .with_partition_index(partition);
    StopReplicaRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_delete_partitions(true)
        .with_ungrouped_partitions(vec![partition])
}

/// orders-3 in trouble, a StopReplica that nobody answers, and bytes that are no frame.
fn trouble() -> Vec<u8> {
    let mut story = Story::begin();
    story.ask(1, 1, &leader_and_isr("orders", 3));
    let error = LeaderAndIsrPartitionError::default()
        .with_topic_name(TopicName("orders".to_owned().into()))
        .with_partition_index(3)
        .with_error_code(56);
    let answer = LeaderAndIsrResponse::default().with_partition_errors(vec![error]);
    story.answer::<LeaderAndIsrRequest>(1, 1, &answer);
    story.ask(1, 2, &leader_and_isr("payments", 0));
    story.answer::<LeaderAndIsrRequest>(1, 2, &LeaderAndIsrResponse::default());
    story.ask(0, 3, &stop_replica("orders", 2));
    story.say(Direction::Response, &[0xff; 40]);
    story.end()
}

#[test]
fn a_capture_reads_as_a_line_for_each_request_and_what_was_said_below_it() {
    let file = Scratch::new("trouble", &trouble());
    let told = text(&[file.path(), "--topic", "orders"]);
    let (requests, broken) = told.split_at(told.rfind("    orders-2 delete\n").unwrap() + 20);
    assert_eq!(
        requests,
        "\
2026-11-29T23:47:46.001000Z 10.0.0.9:41022 → 10.0.0.1:9092 LeaderAndIsr v1 #1 client \"900\": answered after 1.000 ms, KAFKA_STORAGE_ERROR
  controller 900 epoch 12; 1 partition, 0 live leaders
    orders-3 leader 2 epoch 7 isr [2] replicas [1,2] zk version 0
  answer: 0 of 1 partition without error
    orders-3 KAFKA_STORAGE_ERROR
2026-11-29T23:47:46.005000Z 10.0.0.9:41022 → 10.0.0.1:9092 StopReplica v0 #3 client \"900\": NO ANSWER in the capture
  controller 900 epoch 12; 1 partition
    orders-2 delete
"
    );
    assert!(broken.contains("BROKEN response at file offset "), "{told}");
    assert!(!told.contains('\u{1b}'), "no colour outside a terminal");
}

/// Numbers differ each time that the fixture is recorded.
#[test]
fn what_the_readme_shows_is_what_is_printed_of_the_capture_that_it_names() {
    let numberless = |text: &str| -> String {
        let mut numbers = text.chars().peekable();
        let mut shown = String::new();
        while let Some(c) = numbers.next() {
            if c.is_ascii_digit() {
                while numbers.next_if(char::is_ascii_digit).is_some() {}
                shown.push('#');
            } else {
                shown.push(c);
            }
        }
        shown
    };
    let readme = include_str!("../README.md");
    let shown = readme.split("```\n").find(|block| block.contains("lone-0"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/wire/2.4.1.pcapng");
    let told = text(&[file, "--topic", "lone", "--key", "LeaderAndIsr"]);
    assert!(
        numberless(&told).contains(&numberless(shown.unwrap())),
        "{told}"
    );
}

/// Whatever a Java controller and its brokers were recorded saying.
#[test]
fn every_capture_of_the_java_controller_is_read_to_its_last_frame() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/wire");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let captures: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "pcapng"))
        .collect();
    assert!(!captures.is_empty(), "no captures in {folder}");
    for path in captures {
        let path = path.to_str().unwrap();
        let output = decode(&[path, "--full"]);
        let summary = stderr(&output);
        assert!(
            summary.ends_with(" frames, 0 broken, 0 gaps, 0 stray bytes, 0 packets passed over\n"),
            "{path}: {summary}"
        );
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!told.contains("not read"), "{path}: {told}");
        for line in text(&[path, "--json"]).lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                line["request"].is_object() && line["error"].is_null(),
                "{path}: {line}"
            );
        }
    }
}

#[test]
fn the_last_line_counts_what_was_seen() {
    let file = Scratch::new("counts", &trouble());
    let output = decode(&[file.path(), "--key", "stopreplica"]);
    let last = stderr(&output);
    let last = last.lines().last().unwrap();
    assert_eq!(
        last,
        "5 frames, 1 broken, 0 gaps, 40 stray bytes, 0 packets passed over; 3 of 5 entries shown"
    );
}

#[test]
fn json_is_one_object_a_line() {
    let file = Scratch::new("json", &trouble());
    let told = text(&[file.path(), "--json"]);
    let lines: Vec<serde_json::Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let whats: Vec<&str> = lines
        .iter()
        .map(|line| line["what"].as_str().unwrap())
        .collect();
    assert_eq!(whats, ["request", "request", "request", "broken", "broken"]);
    assert_eq!(
        lines[0]["response"]["partition_errors"][0]["error_code"],
        56
    );
    assert_eq!(lines[0]["latency_us"], 1000);
}

#[test]
fn a_topic_or_a_connection_can_be_picked_out() {
    let file = Scratch::new("picked", &trouble());
    let told = text(&[file.path(), "--topic", "payments"]);
    assert!(
        told.contains("payments-0") && !told.contains("orders"),
        "{told}"
    );
    let told = text(&[file.path(), "--broker", "10.0.0.1:9092", "--key", "4"]);
    assert!(
        told.contains("payments-0") && told.contains("orders-3"),
        "{told}"
    );
    assert_eq!(text(&[file.path(), "--broker", "10.0.0.7"]), "");
}

#[test]
fn standard_input_and_raw_frames_are_read_too() {
    let request = encode_request(0, 5, None, &ControlledShutdownRequest::default()).unwrap();
    let mut child = klamm(&["-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&request.to_bytes())
        .unwrap();
    let mut told = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        told,
        "@0 ControlledShutdown v0 #5: NO ANSWER in the capture\n  broker 0\n"
    );
    let answer = StopReplicaResponse::default().with_error_code(11);
    let answer = encode_response::<StopReplicaRequest>(1, 5, &answer).unwrap();
    let file = Scratch::new("answers", &answer.to_bytes());
    assert_eq!(
        text(&[file.path(), "--raw-answers", "StopReplica:1"]),
        "@0 StopReplica v1 answer #5: STALE_CONTROLLER_EPOCH\n"
    );
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_the_reason() {
    let file = Scratch::new(
        "prose",
        b"Dear operator, this is a letter and not a capture.",
    );
    let output = decode(&[file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(
        error.contains(file.path()) && error.contains("neither pcap nor pcapng"),
        "{error}"
    );
    let output = decode(&["no-such-file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no-such-file"), "{output:?}");
}

#[test]
fn a_file_beyond_the_limit_is_refused_before_it_is_read() {
    let file = Scratch::new("endless", b"");
    let length = klamm::decode::FILE_LIMIT + 1;
    let handle = std::fs::OpenOptions::new()
        .write(true)
        .open(&file.0)
        .unwrap();
    handle.set_len(length).unwrap();
    let output = decode(&[file.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2147483648 bytes"), "{output:?}");
}

#[test]
fn a_wrong_command_line_is_told_what_was_expected() {
    for (arguments, expected) in [
        (["x", "--broker", "broker-1:9092"], "host names"),
        (["x", "--key", "LeaderAndEyes"], "no such API"),
        (["x", "--raw-answers", "4"], "its version"),
    ] {
        let output = decode(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{output:?}");
    }
}

/// As behind `| head -1`: far more output than a pipe holds, and nobody who reads it.
#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let mut story = Story::begin();
    for number in 0..5000 {
        story.ask(1, number, &leader_and_isr("orders", number));
    }
    let file = Scratch::new("long", &story.end());
    let mut child = klamm(&[file.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(&first, b"2026-11-29");
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
}
