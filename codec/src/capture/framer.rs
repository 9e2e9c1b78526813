//! Bytes in order to frames: one direction of one connection whose client is known.
//!
//! In step, the length prefixes say where frames begin. Out of step (the capture begins in the middle, or bytes are
//! missing or no frame) a frame is looked for where a segment begins: senders begin frames there, mostly. Must never
//! hold more than one frame, and says of every byte that came in which frame it belongs to, or that it belongs to none.

use super::stream::{Flow, Piece, Place};
use super::{Captured, Fault};
use crate::api_key::ApiKey;
use crate::error::{CodecError, Direction};
use crate::request::{RequestHeader, parse_header};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::sync::Arc;

const PREFIX: usize = 4;
/// Key, version, correlation id: no request is shorter.
pub(super) const REQUEST_MIN_BYTES: usize = 8;
/// A correlation id: no answer is shorter.
pub(super) const ANSWER_MIN_BYTES: usize = 4;
/// The longest header: its client id has 32,767 bytes.
const HEADER_BYTES: usize = 10 + i16::MAX as usize;
/// How far a request is read to see whether it is one: the prefix, the fixed part of the header, and a client id.
const LOOK_BYTES: usize = 14 + CLIENT_ID_MAX_BYTES;
/// A longer client id in a request is not believed out of step.
const CLIENT_ID_MAX_BYTES: usize = 256;
/// A higher version is not believed out of step: Kafka is at 17.
const VERSION_MAX: i16 = 30;

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    Frame {
        frame: Captured,
        remark: Option<Arc<str>>,
    },
    Broken {
        place: Place,
        reason: Fault,
    },
    Gap {
        place: Place,
        missing_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The next byte begins a frame.
    In,
    /// No telling where the next frame begins.
    Out,
    /// So many bytes of a frame are still to come, of which others are missing.
    Within(u64),
}

/// Whether bytes look like the beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Frame,
    Other,
    /// Too few bytes are there yet.
    TooFew,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Framer {
    direction: Direction,
    frame_max_bytes: usize,
    step: Step,
    pieces: VecDeque<Piece>,
    /// In the pieces.
    there: usize,
    /// Bytes that belong to no frame, and where they began.
    stray: Option<(Place, u64)>,
    ready: VecDeque<Read>,
}

impl Framer {
    pub(super) fn new(direction: Direction, frame_max_bytes: usize) -> Framer {
        Framer {
            direction,
            frame_max_bytes,
            step: Step::Out,
            pieces: VecDeque::new(),
            there: 0,
            stray: None,
            ready: VecDeque::new(),
        }
    }

    /// Takes in what came next; `is_awaited` tells whether an answer with this correlation id is due.
    pub(super) fn put(&mut self, flow: Flow, is_awaited: impl Fn(i32) -> bool) {
        match flow {
            Flow::Bytes(piece) => {
                if piece.begins_connection {
                    self.step = Step::In;
                }
                self.there += piece.bytes.len();
                self.pieces.push_back(piece);
                self.run(is_awaited);
            }
            Flow::Gap {
                place,
                missing_bytes,
            } => self.gap(place, missing_bytes),
        }
    }

    /// Nothing more will come.
    pub(super) fn end(&mut self) {
        self.break_off();
        self.end_stray();
    }

    /// What was read, in order.
    pub(super) fn pop(&mut self) -> Option<Read> {
        self.ready.pop_front()
    }

    fn run(&mut self, is_awaited: impl Fn(i32) -> bool) {
        loop {
            let moved = match self.step {
                Step::In => self.take_frame(),
                Step::Out => self.look_for_frame(&is_awaited),
                Step::Within(left) => self.pass_over(left),
            };
            if !moved {
                return;
            }
        }
    }

    /// Whether there was one, or bytes that are none.
    fn take_frame(&mut self) -> bool {
        let Some(size) = self.size() else {
            return false;
        };
        let size = match size {
            Ok(size) if self.there < PREFIX + size => return false,
            Ok(size) => size,
            Err(reason) => {
                let place = self.place();
                self.ready.push_back(Read::Broken { place, reason });
                self.step = Step::Out;
                self.stray_piece();
                return true;
            }
        };
        let place = self.place();
        self.take(PREFIX);
        let frame = Captured {
            at: place.at,
            offset: place.offset,
            payload: self.take(size),
        };
        let remark = place.remark;
        self.ready.push_back(Read::Frame { frame, remark });
        true
    }

    /// The size that the prefix tells, or why it can't be one. None if the prefix is not whole yet.
    fn size(&self) -> Option<Result<usize, Fault>> {
        let head = self.peek(PREFIX);
        let prefix = head.first_chunk::<PREFIX>()?;
        let length = i32::from_be_bytes(*prefix);
        let min = self.min_bytes();
        Some(match usize::try_from(length) {
            _ if is_tls(prefix) => Err(Fault::Encrypted),
            Err(_) => Err(Fault::Length(CodecError::FrameLengthNegative { length })),
            Ok(size) if size > self.frame_max_bytes => {
                let limit = self.frame_max_bytes;
                Err(Fault::Length(CodecError::FrameTooLarge { size, limit }))
            }
            Ok(size) if size < min => Err(Fault::TooShort { size, min }),
            Ok(size) => Ok(size),
        })
    }

    fn min_bytes(&self) -> usize {
        match self.direction {
            Direction::Request => REQUEST_MIN_BYTES,
            Direction::Response => ANSWER_MIN_BYTES,
        }
    }

    /// Whether the search went on.
    fn look_for_frame(&mut self, is_awaited: impl Fn(i32) -> bool) -> bool {
        let look = match self.pieces.front() {
            None => return false,
            Some(piece) if !piece.is_segment_start => Look::Other,
            Some(piece) => self.look(piece, is_awaited),
        };
        match look {
            Look::TooFew => return false,
            Look::Other => self.stray_piece(),
            Look::Frame => {
                self.end_stray();
                self.step = Step::In;
            }
        }
        true
    }

    fn look(&self, first: &Piece, is_awaited: impl Fn(i32) -> bool) -> Look {
        let size = match self.size() {
            None => return Look::TooFew,
            Some(Err(_)) => return Look::Other,
            Some(Ok(size)) => size,
        };
        match self.direction {
            Direction::Request => look_at_request(&self.peek(LOOK_BYTES.min(PREFIX + size)), size),
            Direction::Response => {
                let head = self.peek(PREFIX + ANSWER_MIN_BYTES);
                let Some(id) = head.get(PREFIX..).and_then(|id| id.first_chunk()) else {
                    return Look::TooFew;
                };
                // Without its request in the capture, only one that fills its segment is believed.
                let fills_segment = first.bytes.len() == PREFIX + size;
                match fills_segment || is_awaited(i32::from_be_bytes(*id)) {
                    true => Look::Frame,
                    false => Look::Other,
                }
            }
        }
    }

    /// Whether the frame's end was reached.
    fn pass_over(&mut self, left: u64) -> bool {
        let passed = (self.there as u64).min(left);
        self.drop_bytes(passed as usize);
        self.step = match left - passed {
            0 => Step::In,
            left => Step::Within(left),
        };
        self.step == Step::In
    }

    fn gap(&mut self, place: Place, missing_bytes: u64) {
        let left = match self.step {
            Step::In => self.break_off(),
            Step::Out => {
                self.break_off();
                None
            }
            Step::Within(left) => Some(left),
        };
        self.end_stray();
        // If the frame's end is not missing, the next frame begins right after it.
        self.step = match left.and_then(|left| left.checked_sub(missing_bytes)) {
            Some(0) => Step::In,
            Some(left) => Step::Within(left),
            None => Step::Out,
        };
        self.ready.push_back(Read::Gap {
            place,
            missing_bytes,
        });
    }

    /// Gives up the frame that is not whole, if there is one: how much of it is still to come, if that is known.
    fn break_off(&mut self) -> Option<u64> {
        if self.step == Step::Out {
            while !self.pieces.is_empty() {
                self.stray_piece();
            }
        }
        if self.pieces.is_empty() {
            return None;
        }
        let place = self.place();
        let left = match self.size() {
            Some(Ok(size)) => {
                let there = self.there - PREFIX;
                let header = self.header().map(Box::new);
                let reason = Fault::CutShort {
                    size,
                    there,
                    header,
                };
                self.ready.push_back(Read::Broken { place, reason });
                Some((size - there) as u64)
            }
            _ => {
                let left = self.there;
                let reason = Fault::Length(CodecError::FrameCutShort { left });
                self.ready.push_back(Read::Broken { place, reason });
                None
            }
        };
        self.pieces.clear();
        self.there = 0;
        left
    }

    /// The header of the first frame, if it is a request's and so much of it is there.
    fn header(&self) -> Option<RequestHeader> {
        let head = Bytes::from(self.peek(PREFIX + HEADER_BYTES));
        match self.direction {
            Direction::Request => parse_header(&head.slice(PREFIX.min(head.len())..)).ok(),
            Direction::Response => None,
        }
    }

    /// Counts the first piece among the bytes that belong to no frame.
    fn stray_piece(&mut self) {
        if let Some(piece) = self.pieces.pop_front() {
            self.there -= piece.bytes.len();
            let (_, bytes) = self.stray.get_or_insert((piece.place, 0));
            *bytes += piece.bytes.len() as u64;
        }
    }

    fn end_stray(&mut self) {
        if let Some((place, bytes)) = self.stray.take() {
            let reason = Fault::OutOfStep { bytes };
            self.ready.push_back(Read::Broken { place, reason });
        }
    }

    fn place(&self) -> Place {
        let first = self.pieces.front();
        first.map(|piece| piece.place.clone()).unwrap_or_default()
    }

    /// A copy of the first bytes: as many as are there, `count` at most.
    fn peek(&self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count.min(self.there));
        for piece in &self.pieces {
            let wanted = piece.bytes.len().min(count - bytes.len());
            bytes.extend_from_slice(piece.bytes.get(..wanted).unwrap_or_default());
            if bytes.len() == count {
                break;
            }
        }
        bytes
    }

    /// The first bytes, of which there are enough; without a copy where they lie in one packet.
    fn take(&mut self, count: usize) -> Bytes {
        let first = self.pieces.front_mut();
        if let Some(piece) = first.filter(|piece| piece.bytes.len() > count) {
            self.there -= count;
            piece.is_segment_start = false;
            return piece.bytes.split_to(count);
        }
        if self.pieces.front().map(|piece| piece.bytes.len()) == Some(count) {
            self.there -= count;
            return self
                .pieces
                .pop_front()
                .map(|piece| piece.bytes)
                .unwrap_or_default();
        }
        let bytes = self.peek(count);
        self.drop_bytes(count);
        bytes.into()
    }

    fn drop_bytes(&mut self, count: usize) {
        let mut left = count.min(self.there);
        self.there -= left;
        while let Some(piece) = self.pieces.front_mut().filter(|_| left > 0) {
            let dropped = piece.bytes.len().min(left);
            left -= dropped;
            piece.bytes.advance(dropped);
            piece.is_segment_start = false;
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
    }
}

/// Whether bytes begin a record of TLS.
fn is_tls(prefix: &[u8; PREFIX]) -> bool {
    matches!(prefix, [0x14..=0x17, 3, 0..=4, _])
}

/// Whether segment starts look like requests; for deciding who of two is the client.
pub(super) fn looks_like_request(bytes: &[u8], frame_max_bytes: usize) -> Option<i32> {
    let length = i32::from_be_bytes(*bytes.first_chunk::<PREFIX>()?);
    let size = usize::try_from(length).ok()?;
    if !(REQUEST_MIN_BYTES..=frame_max_bytes).contains(&size) {
        return None;
    }
    let head = bytes.get(..LOOK_BYTES.min(PREFIX + size)).unwrap_or(bytes);
    if look_at_request(head, size) != Look::Frame {
        return None;
    }
    let id = bytes.get(8..)?.first_chunk()?;
    Some(i32::from_be_bytes(*id))
}

/// `head`: the prefix, and as much of what follows as is there of [`LOOK_BYTES`] and of the frame.
fn look_at_request(head: &[u8], size: usize) -> Look {
    let wanted = LOOK_BYTES.min(PREFIX + size);
    let payload = Bytes::copy_from_slice(head.get(PREFIX..).unwrap_or_default());
    match parse_header(&payload) {
        Err(CodecError::Short { .. }) if head.len() < wanted => Look::TooFew,
        Err(_) => Look::Other,
        Ok(header) => {
            let is_known = header.key.name().is_some();
            let is_oldest_shutdown = header.key == ApiKey::CONTROLLED_SHUTDOWN
                && header.version == 0
                && size != REQUEST_MIN_BYTES + 4;
            let client_id = header.client_id.unwrap_or_default();
            let is_believable = is_known
                && !is_oldest_shutdown
                && (0..=VERSION_MAX).contains(&header.version)
                && client_id.len() <= CLIENT_ID_MAX_BYTES
                && !client_id.chars().any(char::is_control);
            match is_believable {
                true => Look::Frame,
                false => Look::Other,
            }
        }
    }
}
