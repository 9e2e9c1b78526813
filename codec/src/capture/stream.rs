//! Segments to bytes in order: one direction of one connection.
//!
//! Segments come in any order, more than once, overlapping, and some never. What is in order goes out at once; what is
//! ahead of a hole waits, in bounded memory: a hole that outlasts [`WAITING_MAX_BYTES`] or [`WAITING_MAX_SEGMENTS`], or
//! the capture, is given up and told as a gap. Where segments disagree about a byte, the first one seen holds.

use super::Timestamp;
use bytes::{Buf, Bytes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Waiting behind a hole, at most.
const WAITING_MAX_BYTES: u64 = 4 * 1024 * 1024;
const WAITING_MAX_SEGMENTS: usize = 4096;
/// A capture that begins in mid-connection: the lowest of so many segments (or bytes) is taken for the beginning, since
/// the first ones may be out of order too.
const START_SEGMENTS: usize = 32;
const START_BYTES: u64 = 256 * 1024;
/// A segment farther away is no part of this connection, but of a later one between the same ports.
const REACH_BYTES: u64 = 64 * 1024 * 1024;
/// The position that the first segment's sequence number stands for: positions don't wrap.
const ORIGIN: u64 = 1 << 33;

/// Bytes of one segment, or what of them was new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) place: Place,
    pub(super) bytes: Bytes,
    /// Whether the segment begins with the first of these bytes.
    pub(super) is_segment_start: bool,
    /// Whether the first of these bytes is known to be the first of its direction.
    pub(super) begins_connection: bool,
}

/// The packet that bytes come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) at: Option<Timestamp>,
    pub(super) offset: u64,
    pub(super) remark: Option<Arc<str>>,
}

/// What comes next in a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    Bytes(Piece),
    Gap { place: Place, missing_bytes: u64 },
}

/// A segment that waits for its turn.
#[derive(Debug)]
struct Waiting {
    piece: Piece,
    /// Bytes after those of the piece that were not captured.
    cut_bytes: u64,
}

impl Waiting {
    fn len(&self) -> u64 {
        self.piece.bytes.len() as u64 + self.cut_bytes
    }

    /// Takes off the first bytes, which are known already.
    fn advance(&mut self, bytes: u64) {
        let there = (self.piece.bytes.len() as u64).min(bytes);
        self.piece.bytes.advance(there as usize);
        self.cut_bytes = self.cut_bytes.saturating_sub(bytes - there);
        self.piece.is_segment_start &= bytes == 0;
    }
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The sequence number of the SYN, once seen.
    initial: Option<u32>,
    /// The position of the first byte that was handed out, or will be.
    start: Option<u64>,
    /// The position of the next byte to hand out.
    next: Option<u64>,
    /// A position near which others are, and the sequence number there.
    reference: Option<(u64, u32)>,
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: u64,
    /// A gap that is due after the piece that was handed out last.
    due: Option<Flow>,
    has_ended: bool,
}

/// What a segment is to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    Same,
    /// It belongs to a later connection between the same ports.
    Later,
}

impl Stream {
    /// Whether a SYN with this number belongs to what was seen so far.
    pub(super) fn kinship_of_opening(&self, initial: u32) -> Kinship {
        let first = self.position(initial.wrapping_add(1));
        let belongs = match (self.initial, self.start, self.waiting.first_key_value()) {
            (Some(known), _, _) => known == initial,
            (None, Some(start), _) => first == start,
            // It was overtaken by the segments after it.
            (None, None, Some((lowest, _))) => (first..first + WAITING_MAX_BYTES).contains(lowest),
            (None, None, None) => true,
        };
        match belongs {
            true => Kinship::Same,
            false => Kinship::Later,
        }
    }

    /// Whether a segment without a SYN is near enough to what was seen so far.
    pub(super) fn kinship(&self, sequence: u32) -> Kinship {
        let position = self.position(sequence);
        match self.reference {
            Some((near, _)) if near.abs_diff(position) > REACH_BYTES => Kinship::Later,
            _ => Kinship::Same,
        }
    }

    /// The stream begins after this number.
    pub(super) fn open(&mut self, initial: u32) {
        if self.initial.is_some() {
            return;
        }
        self.initial = Some(initial);
        let first = self.position(initial.wrapping_add(1));
        if self.start.is_none() {
            self.start = Some(first);
            self.advance_to(first);
        }
    }

    /// Takes in the bytes of a segment.
    pub(super) fn put(&mut self, sequence: u32, piece: Piece, cut_bytes: u32) {
        let position = self.position(sequence);
        if self.reference.is_none() {
            self.reference = Some((position, sequence));
        }
        let cut_bytes = u64::from(cut_bytes);
        let new = Waiting { piece, cut_bytes };
        let size = |waiting: &Waiting| (waiting.piece.bytes.len(), waiting.cut_bytes);
        match self.waiting.get(&position) {
            Some(known) if size(known) >= size(&new) => return,
            Some(known) => self.waiting_bytes -= known.len(),
            None => {}
        }
        self.waiting_bytes += new.len();
        self.waiting.insert(position, new);
    }

    /// Nothing more will come: what waits is due.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// What comes next, if that is known.
    pub(super) fn pop(&mut self) -> Option<Flow> {
        if let Some(due) = self.due.take() {
            return Some(due);
        }
        let mut next = self.next.or_else(|| self.begin())?;
        loop {
            let is_given_up = self.has_ended || self.is_full();
            let entry = self.waiting.first_entry()?;
            let position = *entry.key();
            if position > next {
                if !is_given_up {
                    return None;
                }
                let place = entry.get().piece.place.clone();
                self.advance_to(position);
                return Some(Flow::Gap {
                    place,
                    missing_bytes: position - next,
                });
            }
            let mut waiting = entry.remove();
            self.waiting_bytes -= waiting.len();
            waiting.advance(next - position);
            waiting.piece.begins_connection = self.initial.is_some() && self.start == Some(next);
            next += waiting.len();
            self.advance_to(next);
            if let Some(flow) = self.hand_out(waiting) {
                return Some(flow);
            }
        }
    }

    fn hand_out(&mut self, waiting: Waiting) -> Option<Flow> {
        let Waiting { piece, cut_bytes } = waiting;
        let gap = (cut_bytes > 0).then(|| Flow::Gap {
            place: piece.place.clone(),
            missing_bytes: cut_bytes,
        });
        if piece.bytes.is_empty() {
            return gap;
        }
        self.due = gap;
        Some(Flow::Bytes(piece))
    }

    /// Where a stream begins whose SYN was not seen.
    fn begin(&mut self) -> Option<u64> {
        let is_known = self.has_ended
            || self.waiting.len() >= START_SEGMENTS
            || self.waiting_bytes >= START_BYTES;
        let (lowest, _) = self.waiting.first_key_value().filter(|_| is_known)?;
        let lowest = *lowest;
        self.start = Some(lowest);
        self.advance_to(lowest);
        Some(lowest)
    }

    fn is_full(&self) -> bool {
        self.waiting_bytes > WAITING_MAX_BYTES || self.waiting.len() > WAITING_MAX_SEGMENTS
    }

    fn advance_to(&mut self, next: u64) {
        self.next = Some(next);
        // Positions and sequence numbers differ by a constant, but for the wrap.
        let sequence = match self.reference {
            Some((position, sequence)) => sequence.wrapping_add(next.wrapping_sub(position) as u32),
            None => self.initial.unwrap_or(0).wrapping_add(1),
        };
        self.reference = Some((next, sequence));
    }

    fn position(&self, sequence: u32) -> u64 {
        match self.reference {
            Some((position, known)) => {
                let apart = sequence.wrapping_sub(known) as i32;
                position.saturating_add_signed(i64::from(apart))
            }
            None => ORIGIN,
        }
    }
}
