//! Entries as a capture would hold them, for tests of what is made of them.

use klamm_codec::capture::{Captured, Ends, Entry, Timestamp, What};
use klamm_codec::request::{encode_request, parse_header};
use klamm_codec::response::encode_response;
use klamm_codec::{Api, Frame};

/// 2026-11-29T23:47:46.595012345Z.
pub const ASKED: u64 = 1_795_996_066_595_012_345;
/// From a request to its answer, in nanoseconds.
pub const LATENCY: u64 = 3_214_000;

pub fn captured(frame: Frame, at: u64, offset: u64) -> Captured {
    Captured {
        at: Some(Timestamp(at)),
        offset,
        payload: frame.to_bytes().slice(4..),
    }
}

pub fn entry(what: What) -> Entry {
    Entry {
        ends: Some(Ends {
            client: "10.0.0.9:41022".parse().unwrap(),
            server: "10.0.0.1:9092".parse().unwrap(),
        }),
        remark: None,
        what,
    }
}

/// A request with its answer.
pub fn answered<A: Api>(version: i16, request: &A, response: &A::Response) -> Entry {
    let answer = encode_response::<A>(version, 17, response).unwrap();
    asked(
        version,
        request,
        Some(captured(answer, ASKED + LATENCY, 640)),
    )
}

/// A request without an answer.
pub fn unanswered<A: Api>(version: i16, request: &A) -> Entry {
    asked(version, request, None)
}

fn asked<A: Api>(version: i16, request: &A, answer: Option<Captured>) -> Entry {
    let frame = encode_request(version, 17, Some("900"), request).unwrap();
    let request = captured(frame, ASKED, 512);
    entry(What::Request {
        header: parse_header(&request.payload).unwrap(),
        request,
        answer,
    })
}
