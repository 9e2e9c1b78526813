//! Tests of frames without a capture around them.

use super::super::tests::told;
use super::super::{RawFrames, read};
use super::*;

const METADATA: [u8; 18] = [
    0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 9, 255, 255, 255, 255, 255, 255,
];

fn read_bytes(file: &[u8], raw_frames: RawFrames) -> Result<Capture, CaptureError> {
    let options = ReadOptions {
        raw_frames,
        ..ReadOptions::default()
    };
    read(&Bytes::copy_from_slice(file), &options)
}

#[test]
fn requests_in_a_row_are_read_with_their_places_and_a_cut_is_told() {
    let file = [&METADATA[..], &METADATA, &METADATA[..10]].concat();
    let capture = read_bytes(&file, RawFrames::Requests).unwrap();
    assert_eq!(
        told(&capture),
        [
            "Metadata v1 #9 of 14 bytes, unanswered",
            "Metadata v1 #9 of 14 bytes, unanswered",
            "broken request: the frame ends after 6 of its 14 bytes",
        ]
    );
    let offsets: Vec<u64> = capture.entries.iter().map(Entry::offset).collect();
    assert_eq!(offsets, [0, 18, 36]);
    assert!(capture.entries.iter().all(|entry| entry.ends.is_none()));
}

#[test]
fn answers_in_a_row_are_read_where_the_user_says_that_they_are() {
    let file = [0, 0, 0, 6, 0, 0, 0, 9, 0, 0, 255, 255, 255, 255];
    let capture = read_bytes(&file, RawFrames::Answers).unwrap();
    assert_eq!(
        told(&capture),
        [
            "answer of 6 bytes alone",
            "broken response: no frame begins here: a frame announces a length of -1"
        ]
    );
}

#[test]
fn what_begins_with_no_frame_is_no_capture() {
    for (file, why) in [
        (&b"2024-01-01 12:00:00 INFO"[..], "no frame begins"),
        (&[0x1f, 0x8b, 8, 0], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0], "no frame begins"),
    ] {
        for kind in [RawFrames::Requests, RawFrames::Answers] {
            let refused = read_bytes(file, kind).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}

#[test]
fn zeros_are_no_endless_row_of_empty_frames() {
    let file = [&METADATA[..], &[0; 4000]].concat();
    let capture = read_bytes(&file, RawFrames::Requests).unwrap();
    assert_eq!(capture.entries.len(), 2);
}
