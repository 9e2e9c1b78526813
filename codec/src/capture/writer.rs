//! Writes conversations as pcapng that Wireshark reads: every frame in TCP segments with checksums and sequence numbers
//! that are right, on one interface of link type raw IP, times in nanoseconds.
//!
//! Deterministic: the same calls give the same bytes. Holds only what [`Writer::take`] has not taken yet, so that the
//! caller decides where bytes go and when.

use super::Timestamp;
use crate::error::Direction;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use etherparse::{IpHeaders, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader};
use etherparse::{TcpOptionElement, ip_number};

/// A segment's longest payload, which leaves room for headers in what an IPv4 packet can hold.
const SEGMENT_MAX_BYTES: usize = 60 * 1024;
/// Raw IP, of either version.
const LINK_TYPE: u16 = 101;
const HOPS: u8 = 64;
/// Windows in the segments count in units of 2 to this power: they never seem full.
const WINDOW_SCALE: u8 = 14;
/// Longer texts are cut: they are for people, and an option's length has 16 bits.
const TEXT_MAX_BYTES: usize = 4096;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const OPTION_COMMENT: u16 = 1;
const OPTION_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// Writes one capture.
#[derive(Debug, Clone)]
pub struct Writer {
    output: Vec<u8>,
    remark: Option<String>,
    /// Connections opened so far: each begins at sequence numbers of its own.
    opened: u32,
}

/// A connection that was opened and not yet closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    /// The sequence number of the next byte from the client.
    client_next: u32,
    /// The sequence number of the next byte from the server.
    server_next: u32,
}

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Open,
    OpenAnswer,
    Acknowledge,
    /// Some bytes of a frame, and perhaps its last ones.
    Data {
        is_last: bool,
    },
    Close,
}

impl Writer {
    /// Begins a capture that says that it was made by `application`.
    pub fn new(application: &str) -> Writer {
        let mut writer = Writer {
            output: Vec::new(),
            remark: None,
            opened: 0,
        };
        let mut section = Vec::new();
        section.extend(BYTE_ORDER.to_le_bytes());
        section.extend(1u16.to_le_bytes());
        section.extend(0u16.to_le_bytes());
        // The section's length is not known ahead.
        section.extend((-1i64).to_le_bytes());
        put_option(&mut section, OPTION_APPLICATION, cut(application));
        put_options_end(&mut section);
        writer.block(SECTION_HEADER, &section);

        let mut interface = Vec::new();
        interface.extend(LINK_TYPE.to_le_bytes());
        interface.extend([0; 2]);
        // No limit on a packet's size.
        interface.extend(0u32.to_le_bytes());
        put_option(&mut interface, OPTION_TIME_RESOLUTION, &[9]);
        put_options_end(&mut interface);
        writer.block(INTERFACE, &interface);
        writer
    }

    /// Opens a connection, with the three packets that this takes. Addresses of different families are written in IPv6.
    pub fn open(&mut self, client: SocketAddr, server: SocketAddr, at: Timestamp) -> Connection {
        // Far apart, so that no segment of one connection is taken for one of the connection before it on these ports, and
        // by the time too: captures of the same ends may be put together.
        let time = (at.0 >> 10) as u32;
        let start = self.opened.wrapping_mul(0x9e37_79b1).wrapping_add(time);
        self.opened = self.opened.wrapping_add(1);
        let mut connection = Connection {
            client,
            server,
            client_next: start,
            server_next: !start,
        };
        use Direction::{Request, Response};
        self.packet(&mut connection, Request, Segment::Open, &[], at);
        self.packet(&mut connection, Response, Segment::OpenAnswer, &[], at);
        self.packet(&mut connection, Request, Segment::Acknowledge, &[], at);
        connection
    }

    /// Writes `bytes` as they are on the wire, length prefix included, in as many segments as they need.
    pub fn say(
        &mut self,
        connection: &mut Connection,
        direction: Direction,
        bytes: &[u8],
        at: Timestamp,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (segment, after) = rest.split_at(rest.len().min(SEGMENT_MAX_BYTES));
            let is_last = after.is_empty();
            let what = Segment::Data { is_last };
            self.packet(connection, direction, what, segment, at);
            rest = after;
        }
    }

    /// Leaves out bytes that were said and are not at hand: readers see that they are missing.
    pub fn skip(&mut self, connection: &mut Connection, direction: Direction, bytes: u64) {
        let next = match direction {
            Direction::Request => &mut connection.client_next,
            Direction::Response => &mut connection.server_next,
        };
        *next = next.wrapping_add(bytes as u32);
    }

    /// Closes a connection from both ends.
    pub fn close(&mut self, mut connection: Connection, at: Timestamp) {
        use Direction::{Request, Response};
        self.packet(&mut connection, Request, Segment::Close, &[], at);
        self.packet(&mut connection, Response, Segment::Close, &[], at);
        self.packet(&mut connection, Request, Segment::Acknowledge, &[], at);
    }

    /// Comments the next packet; Wireshark shows it there. At most 4096 bytes are kept.
    pub fn remark(&mut self, text: &str) {
        self.remark = Some(text.to_owned());
    }

    /// Takes what was written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes wait to be taken.
    pub fn len(&self) -> usize {
        self.output.len()
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    fn packet(
        &mut self,
        connection: &mut Connection,
        direction: Direction,
        what: Segment,
        payload: &[u8],
        at: Timestamp,
    ) {
        let tcp = connection.advance(direction, what, payload.len());
        let (from, to) = match direction {
            Direction::Request => (connection.client, connection.server),
            Direction::Response => (connection.server, connection.client),
        };
        let builder = PacketBuilder::ip(ip_header(from.ip(), to.ip())).tcp_header(tcp);
        let size = builder.size(payload.len());
        let mut packet = Vec::with_capacity(size);
        // Fails for payloads beyond 64 KiB alone, and segments are shorter.
        if builder.write_to_vec(&mut packet, payload).is_err() {
            return;
        }
        let remark = self.remark.take();
        self.enhanced_packet(&packet, remark.as_deref(), at);
    }

    fn enhanced_packet(&mut self, packet: &[u8], remark: Option<&str>, at: Timestamp) {
        let size = packet.len() as u32;
        let mut body = Vec::with_capacity(packet.len() + 32);
        // The one interface there is.
        body.extend(0u32.to_le_bytes());
        body.extend(((at.0 >> 32) as u32).to_le_bytes());
        body.extend((at.0 as u32).to_le_bytes());
        body.extend(size.to_le_bytes());
        body.extend(size.to_le_bytes());
        body.extend(packet);
        pad(&mut body);
        if let Some(remark) = remark {
            put_option(&mut body, OPTION_COMMENT, cut(remark));
            put_options_end(&mut body);
        }
        self.block(ENHANCED_PACKET, &body);
    }

    /// A block's length stands before its body and after it. The body's length is a multiple of four.
    fn block(&mut self, kind: u32, body: &[u8]) {
        let length = body.len() as u32 + 12;
        self.output.extend(kind.to_le_bytes());
        self.output.extend(length.to_le_bytes());
        self.output.extend(body);
        self.output.extend(length.to_le_bytes());
    }
}

impl Connection {
    /// The end that sends requests.
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// The end that answers.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The TCP header of the next segment; after it the sender's sequence number stands behind it.
    fn advance(&mut self, direction: Direction, what: Segment, payload_bytes: usize) -> TcpHeader {
        let (from, to, next, acknowledged) = match direction {
            Direction::Request => (
                self.client,
                self.server,
                &mut self.client_next,
                self.server_next,
            ),
            Direction::Response => (
                self.server,
                self.client,
                &mut self.server_next,
                self.client_next,
            ),
        };
        let mut tcp = TcpHeader::new(from.port(), to.port(), *next, u16::MAX);
        tcp.ack = what != Segment::Open;
        tcp.syn = matches!(what, Segment::Open | Segment::OpenAnswer);
        tcp.fin = what == Segment::Close;
        tcp.psh = what == Segment::Data { is_last: true };
        if tcp.ack {
            tcp.acknowledgment_number = acknowledged;
        }
        if tcp.syn {
            let options = [
                TcpOptionElement::MaximumSegmentSize(SEGMENT_MAX_BYTES as u16),
                TcpOptionElement::Noop,
                TcpOptionElement::WindowScale(WINDOW_SCALE),
            ];
            // They take 8 of the 40 bytes that there are.
            let _ = tcp.set_options(&options);
        }
        let marks = u32::from(tcp.syn) + u32::from(tcp.fin);
        *next = next.wrapping_add(payload_bytes as u32).wrapping_add(marks);
        tcp
    }
}

/// The builder fills in lengths and checksums.
fn ip_header(from: IpAddr, to: IpAddr) -> IpHeaders {
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        let header = Ipv4Header {
            dont_fragment: true,
            time_to_live: HOPS,
            protocol: ip_number::TCP,
            source: from.octets(),
            destination: to.octets(),
            ..Ipv4Header::default()
        };
        return IpHeaders::Ipv4(header, Default::default());
    }
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address).octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: 0,
        next_header: ip_number::TCP,
        hop_limit: HOPS,
        source: octets(from),
        destination: octets(to),
    };
    IpHeaders::Ipv6(header, Default::default())
}

fn put_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn put_options_end(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

/// What fits into an option, cut between characters.
fn cut(text: &str) -> &[u8] {
    let mut end = text.len().min(TEXT_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().as_bytes()
}

#[cfg(test)]
mod tests;
