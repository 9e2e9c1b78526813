//! Packet captures of Kafka's wire: what was said on a connection, out of pcap and pcapng files and into them.
//!
//! Pure: bytes in, bytes out. A capture is evidence that somebody else made, perhaps cut short, perhaps damaged: nothing
//! in it may cost more than itself, and whatever could not be read is reported with its place in the file.
//! In the order that data takes: `file` (pcap and pcapng to packets), `packet` (link, IP and TCP headers), `stream`
//! (segments to bytes in order), `framer` (bytes to frames), `conversation` (answers beside their requests). Files
//! without a capture's magic are `raw` frames. The way back is [`writer`].

mod conversation;
mod file;
mod framer;
mod packet;
mod raw;
mod stream;
pub mod writer;

use crate::error::{CodecError, Direction};
use crate::frame::DEFAULT_LIMIT;
use crate::request::RequestHeader;
use bytes::Bytes;
use conversation::Conversations;
use core::net::SocketAddr;
use file::{Format, Packet, Record};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use stream::Place;
use thiserror::Error;

/// Nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// Both ends of a connection; the client is the one that sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// A frame without its length prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// When the packet was seen that holds the frame's first byte. None in raw frames, and in packets without a time.
    pub at: Option<Timestamp>,
    /// Where in the file that packet begins (in raw frames: the frame).
    pub offset: u64,
    pub payload: Bytes,
}

/// One thing that was said, or that should have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// None in raw frames.
    pub ends: Option<Ends>,
    /// The comment on the packet in which it begins (pcapng's opt_comment).
    pub remark: Option<String>,
    pub what: What,
}

impl Entry {
    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        match &self.what {
            What::Request { request, .. } => request.offset,
            What::Answer { answer } => answer.offset,
            What::Broken { offset, .. } | What::Gap { offset, .. } => *offset,
        }
    }

    /// When it was seen.
    pub fn at(&self) -> Option<Timestamp> {
        match &self.what {
            What::Request { request, .. } => request.at,
            What::Answer { answer } => answer.at,
            What::Broken { at, .. } | What::Gap { at, .. } => *at,
        }
    }
}

/// What an entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A request, with its answer if that is in the capture.
    Request {
        header: RequestHeader,
        request: Captured,
        answer: Option<Captured>,
    },
    /// An answer whose request is not in the capture, which began later or lost it.
    Answer { answer: Captured },
    /// Bytes that are no frame, or a frame that is no request or answer, and why. What follows is read on where a frame
    /// seems to begin again.
    Broken {
        at: Option<Timestamp>,
        offset: u64,
        direction: Direction,
        reason: Fault,
    },
    /// Bytes that the capture lacks: lost packets, or packets cut short by the capture's snap length.
    Gap {
        at: Option<Timestamp>,
        /// Where the packet begins after which bytes are missing, or that comes after them.
        offset: u64,
        direction: Direction,
        missing_bytes: u64,
    },
}

/// Why bytes could not be read as a frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// A length prefix that is negative or over the limit: what follows can't be told apart.
    #[error("no frame begins here: {0}")]
    Length(CodecError),
    /// A whole frame without a header that can be read.
    #[error("a frame of {size} bytes without a readable header: {cause}")]
    Header { size: usize, cause: CodecError },
    /// A length prefix that leaves no room for a header.
    #[error("no frame begins here: it would have {size} bytes, and the shortest has {min}")]
    TooShort { size: usize, min: usize },
    /// A record of TLS.
    #[error("the connection is encrypted (TLS), and can't be read without its keys")]
    Encrypted,
    /// A whole frame with a header that no request has.
    #[error(
        "a frame of {size} bytes that is no request: its key would be {key}, its version {version}"
    )]
    NoRequest { size: usize, key: i16, version: i16 },
    /// The connection, or the capture of it, ends within a frame, or bytes of it are missing.
    #[error("{} ends after {there} of its {size} bytes", named(.header))]
    CutShort {
        size: usize,
        there: usize,
        /// A request's header, if that much of it is there.
        header: Option<Box<RequestHeader>>,
    },
    /// Bytes that were passed over until a frame seemed to begin again.
    #[error("{bytes} bytes belong to no frame that begins in the capture")]
    OutOfStep { bytes: u64 },
}

fn named(header: &Option<Box<RequestHeader>>) -> String {
    match header {
        Some(header) => format!(
            "the {} with correlation id {}",
            header.message(),
            header.correlation_id
        ),
        None => "the frame".to_owned(),
    }
}

/// What a file without the marks of a capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RawFrames {
    /// Requests, one after the other, each with its length prefix.
    #[default]
    Requests,
    /// Answers, which nothing in themselves tells apart.
    Answers,
}

/// How to read a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Ports on which brokers listen: they tell which end is the client where a connection's opening is not in the
    /// capture. What is said on it tells too, but may be too little.
    pub server_ports: Vec<u16>,
    /// What raw frames are.
    pub raw_frames: RawFrames,
    /// Frames beyond so many bytes are taken for broken ones.
    pub frame_max_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            server_ports: Vec::new(),
            raw_frames: RawFrames::default(),
            frame_max_bytes: DEFAULT_LIMIT,
        }
    }
}

/// What was read of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capture {
    /// In the order of their first bytes in the file.
    pub entries: Vec<Entry>,
    /// What of the file is not in the entries, and why.
    pub notes: Vec<Note>,
}

/// Something about the file that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Note {
    /// The file ends within a packet.
    #[error(
        "the file ends within the packet at byte {offset}: it was cut short, and all before it was read"
    )]
    CutShort { offset: u64 },
    /// The file makes no sense from here on.
    #[error("damaged at byte {offset} ({detail}): all before it was read")]
    Damaged { offset: u64, detail: String },
    /// Packets that hold nothing to read here.
    #[error("{packets} packets were passed over, the first at byte {first_offset}: {why}")]
    Skipped {
        why: Skip,
        packets: u64,
        first_offset: u64,
    },
}

/// Why a packet was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// A link type that can't be read here, by its number in the registry of the tcpdump project.
    LinkType(u16),
    /// Not IP (ARP and the like).
    NotIp,
    /// IP, and not TCP.
    NotTcp,
    /// A piece of an IP packet.
    Fragment,
    /// Headers that can't be read.
    Malformed,
    /// A packet of an interface that the file does not describe.
    NoInterface,
    /// More connections at a time than are followed.
    TooManyConnections,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skip::LinkType(number) => write!(
                f,
                "of link type {number}; capture Ethernet, raw IP, loopback or Linux's any interface"
            ),
            Skip::NotIp => f.write_str("not IP"),
            Skip::NotTcp => f.write_str("not TCP"),
            Skip::Fragment => f.write_str("fragments of IP packets, which are not put together"),
            Skip::Malformed => f.write_str("their headers can't be read"),
            Skip::NoInterface => f.write_str("the file does not describe their interface"),
            Skip::TooManyConnections => f.write_str("too many connections at a time"),
        }
    }
}

/// Why a file could not be read at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CaptureError {
    #[error("the file is empty")]
    Empty,
    #[error(
        "neither pcap nor pcapng, nor frames with their length prefix: the first bytes are {first_bytes}, {detail}"
    )]
    NotACapture { first_bytes: String, detail: String },
    #[error("{format} with a header that can't be read: {detail}")]
    Header {
        format: &'static str,
        detail: String,
    },
}

/// Reads a capture: pcap, pcapng, or frames with their length prefix one after the other. Takes about as much memory as
/// the file has bytes of frames that span packets, and a few hundred bytes for each frame; other frames' bytes stay
/// where they are in `file`.
///
/// # Errors
/// Only if nothing can be read: the file is empty or no capture, or its header is not whole.
pub fn read(file: &Bytes, options: &ReadOptions) -> Result<Capture, CaptureError> {
    if file.is_empty() {
        return Err(CaptureError::Empty);
    }
    let mut reader = Reader {
        file,
        conversations: Conversations::new(options),
        skipped: BTreeMap::new(),
    };
    let note = match file::format(file) {
        Format::Pcap => file::read_pcap(file, |record| reader.put(record))?,
        Format::PcapNg => file::read_pcapng(file, |record| reader.put(record))?,
        Format::Neither => return raw::read(file, options),
    };
    let skipped = reader.skipped.into_iter();
    let skipped = skipped.map(|(why, (packets, first_offset))| Note::Skipped {
        why,
        packets,
        first_offset,
    });
    Ok(Capture {
        notes: skipped.chain(note).collect(),
        entries: reader.conversations.finish(),
    })
}

struct Reader<'a> {
    file: &'a Bytes,
    conversations: Conversations<'a>,
    /// How many packets were passed over for each reason, and where the first of them is.
    skipped: BTreeMap<Skip, (u64, u64)>,
}

impl Reader<'_> {
    fn put(&mut self, record: Record<'_>) {
        let (offset, put) = match record {
            Record::Section => return self.conversations.begin_section(),
            Record::Packet(packet) => (packet.offset, self.put_packet(&packet)),
            Record::Malformed(offset) => (offset, Err(Skip::Malformed)),
            Record::NoInterface(offset) => (offset, Err(Skip::NoInterface)),
        };
        if let Err(why) = put {
            let (packets, _) = self.skipped.entry(why).or_insert((0, offset));
            *packets += 1;
        }
    }

    fn put_packet(&mut self, packet: &Packet<'_>) -> Result<(), Skip> {
        let segment = packet::segment(packet.link_type, packet.data, packet.cut_bytes)?;
        let bytes = self.file.slice_ref(segment.payload);
        let place = Place {
            at: packet.at,
            offset: packet.offset,
            remark: packet.remark.map(Arc::from),
        };
        let put = self.conversations.put(&segment, bytes, place);
        put.map_err(|_| Skip::TooManyConnections)
    }
}

#[cfg(test)]
mod tests;
