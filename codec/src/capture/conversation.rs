//! Segments to what was said: connections told apart, their client found, and answers put beside their requests.
//!
//! Must never let one connection's damage touch another. Brokers answer a connection's requests in their order, an answer
//! belongs to the oldest request with its correlation id, and all requests before that will have none.

use super::framer::{Framer, Read, looks_like_request};
use super::packet::{Opening, Segment};
use super::stream::{Flow, Kinship, Piece, Place, Stream};
use super::{Captured, Ends, Entry, Fault, ReadOptions, What};
use crate::error::Direction;
use crate::request::parse_header;
use crate::response::correlation_id;
use bytes::Bytes;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Followed at a time, at most.
const CONNECTIONS_MAX: usize = 1 << 20;
/// Where the opening of a connection is not in the capture, so much of it is looked at to find the client.
const UNDECIDED_FLOWS: usize = 64;
const UNDECIDED_BYTES: usize = 1024 * 1024;
/// An answer may be captured, on another interface or processor, so much before its request.
const CLOCK_ERROR_NANOS: u64 = 100_000;

/// One of the two ends: the index of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Low,
    High,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Low => Side::High,
            Side::High => Side::Low,
        }
    }
}

/// Something of each side.
#[derive(Debug, Default)]
struct Both<T> {
    low: T,
    high: T,
}

impl<T> Both<T> {
    fn of(&self, side: Side) -> &T {
        match side {
            Side::Low => &self.low,
            Side::High => &self.high,
        }
    }

    fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Low => &mut self.low,
            Side::High => &mut self.high,
        }
    }
}

/// The lower address first.
type Key = (SocketAddr, SocketAddr);

/// All connections of a capture.
#[derive(Debug)]
pub(super) struct Conversations<'a> {
    options: &'a ReadOptions,
    connections: BTreeMap<Key, Connection>,
    entries: Vec<Entry>,
}

/// A connection is not followed, because too many are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl<'a> Conversations<'a> {
    pub(super) fn new(options: &'a ReadOptions) -> Conversations<'a> {
        Conversations {
            options,
            connections: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// A connection may go on in the next section (a capture in parts, put together), but one that opens there is
    /// another, even if it has the ports and numbers of one before.
    pub(super) fn begin_section(&mut self) {
        for connection in self.connections.values_mut() {
            connection.is_of_earlier_section = true;
        }
    }

    /// Takes in a segment, whose payload `bytes` is.
    pub(super) fn put(
        &mut self,
        segment: &Segment<'_>,
        bytes: Bytes,
        place: Place,
    ) -> Result<(), TooMany> {
        let says_nothing = bytes.is_empty() && segment.cut_bytes == 0;
        if segment.opening.is_none() && says_nothing {
            return Ok(());
        }
        let (key, side) = match segment.from <= segment.to {
            true => ((segment.from, segment.to), Side::Low),
            false => ((segment.to, segment.from), Side::High),
        };
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        if is_full && !self.connections.contains_key(&key) {
            return Err(TooMany);
        }
        let connection = self.connections.entry(key).or_default();
        if connection.kinship(side, segment) == Kinship::Later {
            let mut earlier = std::mem::take(connection);
            earlier.end(key, self.options, &mut self.entries);
        }
        connection.open(side, segment);
        if !says_nothing {
            let first = match segment.opening {
                Some(_) => segment.sequence.wrapping_add(1),
                None => segment.sequence,
            };
            let piece = Piece {
                place,
                bytes,
                is_segment_start: true,
                begins_connection: false,
            };
            connection
                .streams
                .of_mut(side)
                .put(first, piece, segment.cut_bytes);
        }
        connection.run(key, self.options, &mut self.entries);
        Ok(())
    }

    /// Everything that was said, in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        while let Some((key, mut connection)) = self.connections.pop_first() {
            connection.end(key, self.options, &mut self.entries);
        }
        self.entries.sort_by_key(Entry::offset);
        self.entries
    }
}

/// One connection.
#[derive(Debug, Default)]
struct Connection {
    streams: Both<Stream>,
    /// From the opening.
    client: Option<Side>,
    /// What came before the client was known.
    undecided: VecDeque<(Side, Flow)>,
    undecided_bytes: usize,
    dialogue: Option<Dialogue>,
    is_of_earlier_section: bool,
}

impl Connection {
    fn kinship(&self, side: Side, segment: &Segment<'_>) -> Kinship {
        let stream = self.streams.of(side);
        match segment.opening {
            None => stream.kinship(segment.sequence),
            Some(_) if self.is_of_earlier_section => Kinship::Later,
            Some(opening) => {
                let client = client_of(opening, side);
                let changed_sides = self.client.is_some_and(|known| known != client);
                match changed_sides {
                    true => Kinship::Later,
                    false => stream.kinship_of_opening(segment.sequence),
                }
            }
        }
    }

    fn open(&mut self, side: Side, segment: &Segment<'_>) {
        if let Some(opening) = segment.opening {
            self.client = Some(client_of(opening, side));
            self.streams.of_mut(side).open(segment.sequence);
        }
    }

    /// Reads on as far as what is there allows.
    fn run(&mut self, key: Key, options: &ReadOptions, entries: &mut Vec<Entry>) {
        for side in [Side::Low, Side::High] {
            while let Some(flow) = self.streams.of_mut(side).pop() {
                match &mut self.dialogue {
                    Some(dialogue) => dialogue.put(side, flow, entries),
                    None => self.hold(side, flow),
                }
            }
        }
        let is_enough = self.client.is_some()
            || self.undecided.len() >= UNDECIDED_FLOWS
            || self.undecided_bytes >= UNDECIDED_BYTES;
        if self.dialogue.is_none() && !self.undecided.is_empty() && is_enough {
            self.decide(key, options, entries);
        }
    }

    fn hold(&mut self, side: Side, flow: Flow) {
        if let Flow::Bytes(piece) = &flow {
            self.undecided_bytes += piece.bytes.len();
        }
        self.undecided.push_back((side, flow));
    }

    fn decide(&mut self, key: Key, options: &ReadOptions, entries: &mut Vec<Entry>) {
        let client = self.client.unwrap_or_else(|| self.guess(key, options));
        let mut dialogue = Dialogue::new(key, client, options.frame_max_bytes);
        for (side, flow) in self.undecided.drain(..) {
            dialogue.put(side, flow, entries);
        }
        self.dialogue = Some(dialogue);
    }

    /// Who the client is where the opening was not seen: by the ports, or by what both say.
    fn guess(&self, key: Key, options: &ReadOptions) -> Side {
        let is_server = |address: &SocketAddr| options.server_ports.contains(&address.port());
        match (is_server(&key.0), is_server(&key.1)) {
            (true, false) => return Side::High,
            (false, true) => return Side::Low,
            _ => {}
        }
        let low = self.likelihood(Side::Low, options);
        let high = self.likelihood(Side::High, options);
        if low != high {
            return if low > high { Side::Low } else { Side::High };
        }
        // Clients dial from ephemeral ports, which are high.
        match key.0.port() > key.1.port() {
            true => Side::Low,
            false => Side::High,
        }
    }

    /// How many segments look like requests if this side is the client, and how many of the other's like answers to them.
    fn likelihood(&self, client: Side, options: &ReadOptions) -> usize {
        let starts = |of: Side| {
            self.undecided
                .iter()
                .filter_map(move |(side, flow)| match flow {
                    Flow::Bytes(piece) if *side == of && piece.is_segment_start => {
                        Some(&piece.bytes)
                    }
                    _ => None,
                })
        };
        let mut ids: Vec<i32> = starts(client)
            .filter_map(|bytes| looks_like_request(bytes, options.frame_max_bytes))
            .collect();
        ids.sort_unstable();
        let answers = starts(client.other()).filter(|bytes| {
            let id = bytes.get(4..).and_then(|bytes| bytes.first_chunk());
            id.is_some_and(|id| ids.binary_search(&i32::from_be_bytes(*id)).is_ok())
        });
        ids.len() + answers.count()
    }

    /// Nothing more will come.
    fn end(&mut self, key: Key, options: &ReadOptions, entries: &mut Vec<Entry>) {
        self.streams.low.end();
        self.streams.high.end();
        self.run(key, options, entries);
        if self.dialogue.is_none() && !self.undecided.is_empty() {
            self.decide(key, options, entries);
        }
        if let Some(dialogue) = self.dialogue.take() {
            dialogue.end(entries);
        }
    }
}

fn client_of(opening: Opening, from: Side) -> Side {
    match opening {
        Opening::Asked => from,
        Opening::Granted => from.other(),
    }
}

/// A connection whose client is known.
#[derive(Debug)]
struct Dialogue {
    ends: Ends,
    client: Side,
    requests: Framer,
    answers: Framer,
    ledger: Ledger,
}

impl Dialogue {
    fn new(key: Key, client: Side, frame_max_bytes: usize) -> Dialogue {
        let (client_address, server_address) = match client {
            Side::Low => key,
            Side::High => (key.1, key.0),
        };
        Dialogue {
            ends: Ends {
                client: client_address,
                server: server_address,
            },
            client,
            requests: Framer::new(Direction::Request, frame_max_bytes),
            answers: Framer::new(Direction::Response, frame_max_bytes),
            ledger: Ledger::default(),
        }
    }

    fn put(&mut self, from: Side, flow: Flow, entries: &mut Vec<Entry>) {
        if from == self.client {
            self.requests.put(flow, |_| false);
        } else {
            let ledger = &self.ledger;
            self.answers.put(flow, |id| ledger.awaits(id));
        }
        self.record(entries);
    }

    fn record(&mut self, entries: &mut Vec<Entry>) {
        while let Some(read) = self.requests.pop() {
            match read {
                Read::Frame { frame, remark } => self.request(frame, remark, entries),
                other => entries.push(self.mishap(Direction::Request, other)),
            }
        }
        while let Some(read) = self.answers.pop() {
            match read {
                Read::Frame { frame, remark } => self.answer(frame, remark, entries),
                other => entries.push(self.mishap(Direction::Response, other)),
            }
        }
    }

    fn request(&mut self, frame: Captured, remark: Option<Arc<str>>, entries: &mut Vec<Entry>) {
        let ends = Some(self.ends);
        let mut entry = Entry {
            ends,
            remark: remark.as_deref().map(str::to_owned),
            what: request(frame),
        };
        if let What::Request {
            header,
            request,
            answer,
        } = &mut entry.what
        {
            let index = entries.len();
            if let Some(early) = self.ledger.request(header.correlation_id, request, index) {
                add_remark(&mut entry.remark, early.remark);
                *answer = Some(early.frame);
            }
        }
        entries.push(entry);
    }

    fn answer(&mut self, frame: Captured, remark: Option<Arc<str>>, entries: &mut Vec<Entry>) {
        let id = match correlation_id(&frame.payload) {
            Ok(id) => id,
            Err(cause) => {
                let size = frame.payload.len();
                let reason = Fault::Header { size, cause };
                let place = Place {
                    at: frame.at,
                    offset: frame.offset,
                    remark,
                };
                entries.push(self.mishap(Direction::Response, Read::Broken { place, reason }));
                return;
            }
        };
        if let Some((index, answered)) = self.ledger.answer(id, frame, remark)
            && let Some(entry) = entries.get_mut(index)
        {
            add_remark(&mut entry.remark, answered.remark);
            if let What::Request { answer, .. } = &mut entry.what {
                *answer = Some(answered.frame);
            }
        }
    }

    fn mishap(&self, direction: Direction, read: Read) -> Entry {
        let (place, what) = match read {
            Read::Frame { frame, remark } => (
                Place {
                    at: frame.at,
                    offset: frame.offset,
                    remark,
                },
                What::Answer { answer: frame },
            ),
            Read::Broken { place, reason } => {
                let (at, offset) = (place.at, place.offset);
                let what = What::Broken {
                    at,
                    offset,
                    direction,
                    reason,
                };
                (place, what)
            }
            Read::Gap {
                place,
                missing_bytes,
            } => {
                let (at, offset) = (place.at, place.offset);
                let what = What::Gap {
                    at,
                    offset,
                    direction,
                    missing_bytes,
                };
                (place, what)
            }
        };
        Entry {
            ends: Some(self.ends),
            remark: place.remark.as_deref().map(str::to_owned),
            what,
        }
    }

    fn end(mut self, entries: &mut Vec<Entry>) {
        self.requests.end();
        self.answers.end();
        self.record(entries);
        for answered in std::mem::take(&mut self.ledger).orphans() {
            let Answered { frame, remark } = answered;
            entries.push(self.mishap(Direction::Response, Read::Frame { frame, remark }));
        }
    }
}

fn add_remark(remark: &mut Option<String>, more: Option<Arc<str>>) {
    let Some(more) = more else { return };
    match remark {
        Some(remark) if remark.as_str() == &*more => {}
        Some(remark) => {
            remark.push('\n');
            remark.push_str(&more);
        }
        None => *remark = Some(more.as_ref().to_owned()),
    }
}

/// A whole frame from the client's side.
pub(super) fn request(frame: Captured) -> What {
    let size = frame.payload.len();
    let reason = match parse_header(&frame.payload) {
        Ok(header) if header.key.0 >= 0 && header.version >= 0 => {
            return What::Request {
                header,
                request: frame,
                answer: None,
            };
        }
        Ok(header) => Fault::NoRequest {
            size,
            key: header.key.0,
            version: header.version,
        },
        Err(cause) => Fault::Header { size, cause },
    };
    What::Broken {
        at: frame.at,
        offset: frame.offset,
        direction: Direction::Request,
        reason,
    }
}

/// An answer, and the comment on its packet.
#[derive(Debug)]
struct Answered {
    frame: Captured,
    remark: Option<Arc<str>>,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Asked {
    /// How many requests were before it.
    ordinal: u64,
    /// Its entry.
    index: usize,
    at: Option<super::Timestamp>,
    offset: u64,
}

/// Which requests and answers of a connection wait for each other, by correlation id.
#[derive(Debug, Default)]
struct Ledger {
    asked: BTreeMap<i32, VecDeque<Asked>>,
    /// Answers that were read before their requests, or that have none.
    early: BTreeMap<i32, VecDeque<Answered>>,
    /// Answers to requests of before the capture, or that it lost.
    alone: Vec<Answered>,
    requests: u64,
    /// All requests before this one have had their answers, or will have none.
    due: u64,
}

impl Ledger {
    fn awaits(&self, id: i32) -> bool {
        self.asked.contains_key(&id)
    }

    /// Enters a request; its answer, if that is there already.
    fn request(&mut self, id: i32, request: &Captured, index: usize) -> Option<Answered> {
        let asked = Asked {
            ordinal: self.requests,
            index,
            at: request.at,
            offset: request.offset,
        };
        self.requests += 1;
        while let Some(early) = take_first(&mut self.early, id) {
            if may_answer(&asked, &early.frame) {
                self.due = self.requests;
                return Some(early);
            }
            // Nor does it answer any later request.
            self.alone.push(early);
        }
        self.asked.entry(id).or_default().push_back(asked);
        None
    }

    /// Enters an answer; with its request's entry, if that is there already.
    fn answer(
        &mut self,
        id: i32,
        frame: Captured,
        remark: Option<Arc<str>>,
    ) -> Option<(usize, Answered)> {
        let answered = Answered { frame, remark };
        while let Some(first) = self.asked.get(&id).and_then(VecDeque::front) {
            if first.ordinal >= self.due {
                if !may_answer(first, &answered.frame) {
                    break;
                }
                self.due = first.ordinal + 1;
                let asked = take_first(&mut self.asked, id)?;
                return Some((asked.index, answered));
            }
            take_first(&mut self.asked, id);
        }
        self.early.entry(id).or_default().push_back(answered);
        None
    }

    fn orphans(self) -> impl Iterator<Item = Answered> {
        self.alone
            .into_iter()
            .chain(self.early.into_values().flatten())
    }
}

/// Whether the answer was not captured before its request.
fn may_answer(asked: &Asked, answer: &Captured) -> bool {
    let is_in_time = match (asked.at, answer.at) {
        (Some(asked), Some(answered)) => asked.0 <= answered.0.saturating_add(CLOCK_ERROR_NANOS),
        _ => false,
    };
    is_in_time || asked.offset <= answer.offset
}

fn take_first<T>(waiting: &mut BTreeMap<i32, VecDeque<T>>, id: i32) -> Option<T> {
    let queue = waiting.get_mut(&id)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        waiting.remove(&id);
    }
    first
}
