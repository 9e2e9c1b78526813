//! Frames with their length prefix, one after the other, without any capture around them: what somebody cut out of a
//! trace or a log.
//!
//! Nothing marks such a file, so its first frame must make sense, or the file is refused. Nothing but the prefixes tells
//! frames apart, so the first broken one ends the reading.

use super::framer::{ANSWER_MIN_BYTES, REQUEST_MIN_BYTES, looks_like_request};
use super::{Capture, CaptureError, Captured, Entry, Fault, RawFrames, ReadOptions, What};
use crate::error::{CodecError, Direction};
use crate::frame::FrameCodec;
use crate::request::parse_header;
use bytes::{Bytes, BytesMut};

pub(super) fn read(file: &Bytes, options: &ReadOptions) -> Result<Capture, CaptureError> {
    let refuse = |detail: &str| CaptureError::NotACapture {
        first_bytes: hex(file),
        detail: detail.to_owned(),
    };
    if file.starts_with(&[0x1f, 0x8b]) {
        return Err(refuse("as of a file packed with gzip: unpack it first"));
    }
    if file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Err(refuse("as of a file packed with zstd: unpack it first"));
    }
    let begins_with_frame = match options.raw_frames {
        RawFrames::Requests => looks_like_request(file, options.frame_max_bytes).is_some(),
        RawFrames::Answers => split(file, options).is_ok(),
    };
    if !begins_with_frame {
        return Err(refuse("and no frame begins with them"));
    }
    Ok(Capture {
        entries: frames(file, options),
        notes: Vec::new(),
    })
}

fn frames(file: &Bytes, options: &ReadOptions) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = file.clone();
    while !rest.is_empty() {
        let offset = (file.len() - rest.len()) as u64;
        let what = match split(&rest, options) {
            Ok((payload, after)) => {
                rest = after;
                frame(payload, offset, options.raw_frames)
            }
            Err(reason) => {
                rest.clear();
                broken(offset, options.raw_frames, reason)
            }
        };
        entries.push(Entry {
            ends: None,
            remark: None,
            what,
        });
    }
    entries
}

/// The first frame's payload, and what stands after it.
fn split(rest: &Bytes, options: &ReadOptions) -> Result<(Bytes, Bytes), Fault> {
    let there = rest.len().saturating_sub(4);
    let Some(prefix) = rest.first_chunk::<4>() else {
        let left = rest.len();
        return Err(Fault::Length(CodecError::FrameCutShort { left }));
    };
    // The prefix alone decides whether it can be one.
    let codec = FrameCodec::with_limit(options.frame_max_bytes);
    codec
        .split(&mut BytesMut::from(prefix.as_slice()))
        .map_err(Fault::Length)?;
    let size = u32::from_be_bytes(*prefix) as usize;
    let min = match options.raw_frames {
        RawFrames::Requests => REQUEST_MIN_BYTES,
        RawFrames::Answers => ANSWER_MIN_BYTES,
    };
    if size < min {
        return Err(Fault::TooShort { size, min });
    }
    if size > there {
        let header = match options.raw_frames {
            RawFrames::Requests => parse_header(&rest.slice(4..)).ok().map(Box::new),
            RawFrames::Answers => None,
        };
        return Err(Fault::CutShort {
            size,
            there,
            header,
        });
    }
    Ok((rest.slice(4..4 + size), rest.slice(4 + size..)))
}

fn frame(payload: Bytes, offset: u64, kind: RawFrames) -> What {
    let size = payload.len();
    let captured = Captured {
        at: None,
        offset,
        payload,
    };
    match kind {
        RawFrames::Requests => super::conversation::request(captured),
        RawFrames::Answers => match crate::response::correlation_id(&captured.payload) {
            Ok(_) => What::Answer { answer: captured },
            Err(cause) => broken(offset, kind, Fault::Header { size, cause }),
        },
    }
}

fn broken(offset: u64, kind: RawFrames, reason: Fault) -> What {
    What::Broken {
        at: None,
        offset,
        direction: match kind {
            RawFrames::Requests => Direction::Request,
            RawFrames::Answers => Direction::Response,
        },
        reason,
    }
}

fn hex(file: &[u8]) -> String {
    let bytes: Vec<String> = file
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    bytes.join(" ")
}

#[cfg(test)]
mod tests;
