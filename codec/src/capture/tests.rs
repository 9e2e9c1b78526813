//! Captures as a user would have them, written by our writer and then damaged: what comes back is what was said.

use super::writer::{Connection, Writer};
use super::*;
use crate::messages::update_metadata_request::UpdateMetadataBroker;
use crate::messages::{
    ApiVersionsRequest, ApiVersionsResponse, ControlledShutdownRequest, ControlledShutdownResponse,
    UpdateMetadataRequest, UpdateMetadataResponse,
};
use crate::request::{decode_request, encode_request};
use crate::response::encode_response;
use pcap_parser::{Block, parse_block_le};

mod properties;

/// A block of a file that [`Writer`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) at: Timestamp,
    /// Raw IP.
    pub(super) data: Vec<u8>,
    pub(super) cut_bytes: u32,
    pub(super) remark: Option<String>,
}

/// A conversation as it is recorded, one millisecond after the other.
pub(super) struct Tape {
    writer: Writer,
    connection: Connection,
    pub(super) now: u64,
    id: i32,
    /// Bytes in a segment, at most.
    segment_bytes: usize,
}

pub(super) const START: u64 = 1_700_000_000_000_000_000;

impl Tape {
    pub(super) fn new() -> Tape {
        Tape::between("10.0.0.9:40000", "10.0.0.1:9092")
    }

    pub(super) fn between(client: &str, server: &str) -> Tape {
        let mut writer = Writer::new("klamm test");
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        let connection = writer.open(client, server, Timestamp(START));
        Tape {
            writer,
            connection,
            now: START,
            id: 0,
            segment_bytes: usize::MAX,
        }
    }

    fn segments_of(mut self, bytes: usize) -> Tape {
        self.segment_bytes = bytes;
        self
    }

    /// Closes the connection, and opens another between the same ends.
    fn again(&mut self) {
        let (client, server) = (self.connection.client(), self.connection.server());
        let at = Timestamp(self.now);
        let connection = self.writer.open(client, server, at);
        let earlier = std::mem::replace(&mut self.connection, connection);
        // The close is written after the opening: only a reader that follows the numbers takes that well.
        self.writer.close(earlier, at);
        self.id = 0;
    }

    pub(super) fn say(&mut self, direction: Direction, bytes: &[u8]) {
        self.now += 1_000_000;
        for segment in bytes.chunks(self.segment_bytes) {
            let at = Timestamp(self.now);
            self.writer
                .say(&mut self.connection, direction, segment, at);
        }
    }

    /// A request with some brokers in it, 20 bytes each; its correlation id.
    pub(super) fn ask(&mut self, brokers: usize) -> i32 {
        self.id += 1;
        self.say(Direction::Request, &update_metadata(self.id, brokers));
        self.id
    }

    pub(super) fn answer(&mut self, id: i32) {
        self.say(Direction::Response, &confirmation(id));
    }

    /// A request and its answer.
    pub(super) fn talk(&mut self, brokers: usize) {
        let id = self.ask(brokers);
        self.answer(id);
    }

    pub(super) fn file(&mut self) -> Vec<u8> {
        self.writer.take()
    }

    pub(super) fn packets(&mut self) -> Vec<Packed> {
        unpack(&self.writer.take())
    }
}

fn update_metadata(id: i32, brokers: usize) -> Vec<u8> {
    let brokers = (0..brokers).map(|broker| {
        UpdateMetadataBroker::default()
            .with_id((broker as i32).into())
            .with_rack(None)
    });
    let request = UpdateMetadataRequest::default().with_live_brokers(brokers.collect());
    let frame = encode_request(5, id, Some("1001"), &request).unwrap();
    frame.to_bytes().to_vec()
}

fn confirmation(id: i32) -> Vec<u8> {
    let response = UpdateMetadataResponse::default();
    let frame = encode_response::<UpdateMetadataRequest>(5, id, &response).unwrap();
    frame.to_bytes().to_vec()
}

/// The packets of a file that [`Writer`] wrote.
fn unpack(mut rest: &[u8]) -> Vec<Packed> {
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        if let Block::EnhancedPacket(packet) = block {
            let comment = packet.options.iter().find(|option| option.code.0 == 1);
            packets.push(Packed {
                at: Timestamp((u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low)),
                data: packet.data[..packet.caplen as usize].to_vec(),
                cut_bytes: 0,
                remark: comment.map(|comment| comment.as_str().unwrap().to_owned()),
            });
        }
        rest = after;
    }
    packets
}

/// As pcap with nanoseconds, little-endian, of raw IP.
pub(super) fn pack(packets: &[Packed]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 0x4_0000, 101u32] {
        file.extend(word.to_le_bytes());
    }
    for packet in packets {
        let at = packet.at.0;
        let captured = packet.data.len() as u32;
        let seconds = (at / 1_000_000_000) as u32;
        let nanos = (at % 1_000_000_000) as u32;
        for word in [seconds, nanos, captured, captured + packet.cut_bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&packet.data);
    }
    file
}

pub(super) fn read_file(file: Vec<u8>) -> Capture {
    read(&Bytes::from(file), &ReadOptions::default()).unwrap()
}

/// Every entry in a line.
pub(super) fn told(capture: &Capture) -> Vec<String> {
    capture.entries.iter().map(line).collect()
}

fn line(entry: &Entry) -> String {
    match &entry.what {
        What::Request {
            header,
            request,
            answer,
        } => {
            let answer = match answer {
                Some(answer) => format!("answered in {} bytes", answer.payload.len()),
                None => "unanswered".to_owned(),
            };
            let bytes = request.payload.len();
            format!(
                "{} v{} #{} of {bytes} bytes, {answer}",
                header.key, header.version, header.correlation_id
            )
        }
        What::Answer { answer } => format!("answer of {} bytes alone", answer.payload.len()),
        What::Broken {
            direction, reason, ..
        } => format!("broken {direction}: {reason}"),
        What::Gap {
            direction,
            missing_bytes,
            ..
        } => format!("{missing_bytes} {direction} bytes missing"),
    }
}

fn of_packets(packets: &[Packed]) -> Vec<String> {
    let capture = read_file(pack(packets));
    assert_eq!(capture.notes, []);
    told(&capture)
}

/// What [`Tape::talk`] leaves, with this many brokers.
fn talked(id: i32, brokers: usize) -> String {
    let bytes = update_metadata(id, brokers).len() - 4;
    format!("UpdateMetadata v5 #{id} of {bytes} bytes, answered in 6 bytes")
}

/// Where the data of a conversation's packets begins: after the three that open it.
const FIRST: usize = 3;

#[test]
fn a_conversation_is_told_with_its_ends_times_and_places() {
    let mut tape = Tape::new();
    let id = tape.ask(1);
    tape.answer(id);
    let file = tape.file();
    let capture = read_file(file.clone());
    assert_eq!(told(&capture), [talked(1, 1)]);
    assert_eq!(capture.notes, []);
    let [entry] = &capture.entries[..] else {
        panic!("{capture:?}");
    };
    let ends = entry.ends.unwrap();
    assert_eq!(ends.client.to_string(), "10.0.0.9:40000");
    assert_eq!(ends.server.to_string(), "10.0.0.1:9092");
    let What::Request {
        header,
        request,
        answer: Some(answer),
    } = &entry.what
    else {
        panic!("{entry:?}");
    };
    assert_eq!(request.at, Some(Timestamp(START + 1_000_000)));
    assert_eq!(answer.at, Some(Timestamp(START + 2_000_000)));
    assert_eq!(header.client_id.as_deref(), Some("1001"));
    let decoded: UpdateMetadataRequest = decode_request(header, &request.payload).unwrap();
    assert_eq!(decoded.live_brokers.len(), 1);
    for (captured, bytes) in [(request, update_metadata(1, 1)), (answer, confirmation(1))] {
        let block = &file[captured.offset as usize..];
        let (_, Block::EnhancedPacket(packet)) = parse_block_le(block).unwrap() else {
            panic!("no packet at {}", captured.offset);
        };
        assert!(packet.data.windows(bytes.len()).any(|part| part == bytes));
    }
}

#[test]
fn frames_that_share_a_packet_or_span_many_are_told_apart() {
    let mut tape = Tape::new();
    let both = [update_metadata(1, 0), update_metadata(2, 9)].concat();
    tape.say(Direction::Request, &both);
    tape.say(Direction::Request, &update_metadata(3, 10_000));
    for id in 1..=3 {
        tape.answer(id);
    }
    let expected = [talked(1, 0), talked(2, 9), talked(3, 10_000)];
    assert_eq!(of_packets(&tape.packets()), expected);

    let mut tape = Tape::new().segments_of(1);
    tape.talk(0);
    tape.talk(2);
    assert_eq!(of_packets(&tape.packets()), [talked(1, 0), talked(2, 2)]);
}

#[test]
fn sequence_numbers_that_wrap_are_followed() {
    let mut tape = Tape::new();
    // The server's numbers begin a thousand below the wrap.
    for _ in 0..200 {
        tape.talk(0);
    }
    let expected: Vec<String> = (1..=200).map(|id| talked(id, 0)).collect();
    assert_eq!(of_packets(&tape.packets()), expected);
}

fn backwards(lines: &[String]) -> Vec<String> {
    lines.iter().rev().cloned().collect()
}

#[test]
fn repeated_overtaken_and_overlapping_segments_change_nothing() {
    let mut tape = Tape::new().segments_of(100);
    tape.talk(50);
    tape.talk(50);
    let mut packets = tape.packets();
    let expected = [talked(1, 50), talked(2, 50)];

    let mut twice: Vec<Packed> = packets
        .iter()
        .flat_map(|p| [p.clone(), p.clone()])
        .collect();
    assert_eq!(of_packets(&twice), expected);
    twice.swap(FIRST * 2 + 1, FIRST * 2 + 8);
    assert_eq!(of_packets(&twice), expected);

    packets[FIRST..].reverse();
    assert_eq!(of_packets(&packets), backwards(&expected));
    packets.rotate_left(FIRST);
    assert_eq!(of_packets(&packets), backwards(&expected));
    packets.truncate(packets.len() - FIRST);
    assert_eq!(of_packets(&packets), backwards(&expected));

    let mut tape = Tape::new().segments_of(100);
    tape.ask(50);
    let short = tape.packets();
    let mut tape = Tape::new().segments_of(130);
    tape.ask(50);
    let long = tape.packets();
    let overlapping = [&short[..6], &long[4..], &short[5..]].concat();
    let unanswered = talked(1, 50).replace("answered in 6 bytes", "unanswered");
    assert_eq!(of_packets(&overlapping), [unanswered]);
}

#[test]
fn a_capture_cut_short_within_a_packet_gives_all_before_it() {
    let mut tape = Tape::new();
    tape.talk(1);
    tape.ask(1);
    let whole = tape.file();
    let begin = unpack(&whole).len();
    let short = read_file(whole[..whole.len() - 5].to_vec());
    assert_eq!(told(&short), [talked(1, 1)]);
    assert!(
        matches!(short.notes[..], [Note::CutShort { .. }]),
        "{:?}",
        short.notes
    );
    assert_eq!(begin, 6);

    let mut tape = Tape::new();
    tape.talk(1);
    let packets = tape.packets();
    let mut pcap = pack(&packets);
    pcap.truncate(pcap.len() - 1);
    let offset = pcap.len() as u64 + 1 - 16 - packets[4].data.len() as u64;
    let short = read_file(pcap);
    assert_eq!(short.notes, [Note::CutShort { offset }]);
    assert_eq!(
        told(&short),
        [talked(1, 1).replace("answered in 6 bytes", "unanswered")]
    );
}

#[test]
fn an_opening_that_was_overtaken_is_taken_into_account() {
    let mut tape = Tape::new().segments_of(5);
    tape.talk(3);
    tape.talk(3);
    let mut packets = tape.packets();
    let grant = packets.remove(1);
    packets.insert(packets.len() - 3, grant);
    assert_eq!(of_packets(&packets), [talked(1, 3), talked(2, 3)]);
}

#[test]
fn a_frame_that_the_capture_ends_in_is_told_as_cut_short() {
    let mut tape = Tape::new().segments_of(100);
    tape.talk(0);
    tape.ask(50);
    let packets = tape.packets();
    let size = update_metadata(2, 50).len() - 4;
    let cut = format!(
        "broken request: the UpdateMetadata request v5 with correlation id 2 ends after 96 of its {size} bytes"
    );
    assert_eq!(of_packets(&packets[..FIRST + 3]), [talked(1, 0), cut]);
}

#[test]
fn a_capture_that_begins_in_mid_connection_finds_the_frames_and_the_client() {
    let mut tape = Tape::new().segments_of(1000);
    tape.talk(400);
    for _ in 0..3 {
        tape.talk(1);
    }
    let packets = tape.packets();
    let told = of_packets(&packets[FIRST + 2..]);
    let stray = update_metadata(1, 400).len() - 2000;
    assert_eq!(
        told,
        [
            format!("broken request: {stray} bytes belong to no frame that begins in the capture"),
            "answer of 6 bytes alone".to_owned(),
            talked(2, 1),
            talked(3, 1),
            talked(4, 1),
        ]
    );
    // Whoever has the lower address.
    let mut tape = Tape::between("10.0.0.1:40000", "10.0.0.9:9092");
    tape.talk(1);
    tape.talk(1);
    assert_eq!(
        of_packets(&tape.packets()[FIRST + 1..]),
        ["answer of 6 bytes alone".to_owned(), talked(2, 1)]
    );
}

#[test]
fn a_port_named_as_a_brokers_tells_the_client_where_the_bytes_do_not() {
    let mut tape = Tape::between("10.0.0.1:9092", "10.0.0.9:40000");
    tape.answer(7);
    let file = Bytes::from(pack(&tape.packets()[FIRST..]));
    let told = |server_ports| {
        let options = ReadOptions {
            server_ports,
            ..ReadOptions::default()
        };
        let ends = read(&file, &options).unwrap().entries[0].ends.unwrap();
        ends.server.port()
    };
    assert_eq!(told(vec![]), 9092);
    assert_eq!(told(vec![40_000]), 40_000);
}

#[test]
fn a_segment_lost_within_a_frame_costs_that_frame_alone() {
    let mut tape = Tape::new().segments_of(100);
    tape.talk(0);
    tape.talk(50);
    tape.talk(2);
    let mut packets = tape.packets();
    packets.remove(FIRST + 4);
    let size = update_metadata(2, 50).len() - 4;
    assert_eq!(
        of_packets(&packets),
        [
            talked(1, 0),
            format!(
                "broken request: the UpdateMetadata request v5 with correlation id 2 ends after 196 of its {size} bytes"
            ),
            "100 request bytes missing".to_owned(),
            "answer of 6 bytes alone".to_owned(),
            talked(3, 2),
        ]
    );
}

#[test]
fn after_a_lost_frame_the_next_segment_that_begins_one_is_found() {
    let mut tape = Tape::new().segments_of(100);
    tape.talk(0);
    tape.talk(50);
    tape.talk(2);
    let mut packets = tape.packets();
    // The segment that says how long the frame is, and the answer to another.
    let lost = [packets.remove(FIRST + 2), packets.remove(FIRST)];
    assert!(lost.iter().all(|packet| packet.data.len() > 40));
    let stray = update_metadata(2, 50).len() - 100;
    assert_eq!(
        of_packets(&packets),
        [
            "answer of 6 bytes alone".to_owned(),
            format!(
                "{} request bytes missing",
                update_metadata(1, 0).len() + 100
            ),
            format!("broken request: {stray} bytes belong to no frame that begins in the capture"),
            "answer of 6 bytes alone".to_owned(),
            talked(3, 2),
        ]
    );
}

#[test]
fn an_answer_lost_leaves_its_request_unanswered_and_the_others_paired() {
    let mut tape = Tape::new();
    for _ in 0..4 {
        tape.talk(0);
    }
    let mut packets = tape.packets();
    packets.remove(FIRST + 3);
    assert_eq!(
        of_packets(&packets),
        [
            talked(1, 0),
            talked(2, 0).replace("answered in 6 bytes", "unanswered"),
            talked(3, 0),
            // Seen only when the next answer came.
            "10 response bytes missing".to_owned(),
            talked(4, 0),
        ]
    );
}

#[test]
fn packets_cut_by_the_snap_length_are_gaps_and_their_neighbours_are_read() {
    let mut tape = Tape::new();
    tape.talk(0);
    tape.talk(200);
    tape.talk(1);
    let mut packets = tape.packets();
    let long = &mut packets[FIRST + 2];
    long.cut_bytes = (long.data.len() - 240) as u32;
    long.data.truncate(240);
    let missing = long.cut_bytes;
    let size = update_metadata(2, 200).len() - 4;
    assert_eq!(
        of_packets(&packets),
        [
            talked(1, 0),
            format!(
                "broken request: the UpdateMetadata request v5 with correlation id 2 ends after 196 of its {size} bytes"
            ),
            format!("{missing} request bytes missing"),
            "answer of 6 bytes alone".to_owned(),
            talked(3, 1),
        ]
    );
}

#[test]
fn a_later_connection_between_the_same_ports_is_another() {
    let mut tape = Tape::new();
    tape.talk(1);
    tape.again();
    tape.talk(2);
    let packets = tape.packets();
    assert_eq!(of_packets(&packets), [talked(1, 1), talked(1, 2)]);
    // The capture lacks the later one's opening.
    let without: Vec<Packed> = packets[..FIRST + 2]
        .iter()
        .chain(&packets[FIRST + 2 + FIRST..])
        .cloned()
        .collect();
    assert_eq!(of_packets(&without), [talked(1, 1), talked(1, 2)]);
}

#[test]
fn captures_put_one_behind_the_other_lose_nothing() {
    let one = |brokers: usize| {
        let mut tape = Tape::new();
        tape.talk(brokers);
        tape.talk(brokers);
        tape.file()
    };
    // The same ends, and in the first two the same numbers and times.
    let file = [one(1), one(1), one(2)].concat();
    let read = read(&file.into(), &ReadOptions::default()).unwrap();
    let lines: Vec<String> = read.entries.iter().map(line).collect();
    let talked = |id, brokers| talked(id, brokers);
    assert_eq!(
        lines,
        [
            talked(1, 1),
            talked(2, 1),
            talked(1, 1),
            talked(2, 1),
            talked(1, 2),
            talked(2, 2)
        ]
    );
    assert_eq!(read.notes, []);
}

#[test]
fn a_broken_length_is_told_with_its_place_and_the_next_segment_goes_on() {
    let mut tape = Tape::new();
    tape.talk(0);
    let mut broken = update_metadata(2, 3);
    broken[..4].copy_from_slice(&(-7i32).to_be_bytes());
    tape.say(Direction::Request, &broken);
    tape.ask(1);
    tape.say(Direction::Request, &[0x7f, 0xff, 0xff, 0xff, 0, 3]);
    tape.ask(1);
    let packets = tape.packets();
    let capture = read_file(pack(&packets));
    let unanswered = |id| talked(id, 1).replace("answered in 6 bytes", "unanswered");
    let stray = |bytes| {
        format!("broken request: {bytes} bytes belong to no frame that begins in the capture")
    };
    assert_eq!(
        told(&capture),
        [
            talked(1, 0),
            "broken request: no frame begins here: a frame announces a length of -7".to_owned(),
            stray(broken.len()),
            unanswered(2),
            "broken request: no frame begins here: a frame of 2147483647 bytes is over the limit of 104857600"
                .to_owned(),
            stray(6),
            unanswered(3),
        ]
    );
    let place: usize = packets[..FIRST + 2].iter().map(|p| p.data.len() + 16).sum();
    assert_eq!(capture.entries[1].offset(), 24 + place as u64);
}

#[test]
fn a_frame_without_a_header_costs_itself_alone() {
    let mut tape = Tape::new();
    tape.say(
        Direction::Request,
        &[0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 9, 0, 5],
    );
    tape.say(
        Direction::Request,
        &[0, 0, 0, 10, 255, 254, 0, 1, 0, 0, 0, 9, 255, 255],
    );
    tape.say(
        Direction::Request,
        &[0, 0, 0, 10, 3, 231, 0, 9, 0, 0, 0, 9, 255, 255],
    );
    assert_eq!(
        of_packets(&tape.packets()),
        [
            "broken request: a frame of 10 bytes without a readable header: Metadata request v1, client id at byte 8: 5 bytes are needed and 0 are left",
            "broken request: a frame of 10 bytes that is no request: its key would be -2, its version 1",
            "API key 999 v9 #9 of 10 bytes, unanswered",
        ]
    );
}

#[test]
fn the_oldest_of_headers_is_read() {
    let mut tape = Tape::new();
    let request = ControlledShutdownRequest::default().with_broker_id(2.into());
    let request = encode_request(0, 7, None, &request).unwrap();
    tape.say(Direction::Request, &request.to_bytes());
    let response = ControlledShutdownResponse::default();
    let response = encode_response::<ControlledShutdownRequest>(0, 7, &response).unwrap();
    tape.say(Direction::Response, &response.to_bytes());
    let packets = tape.packets();
    let expected = ["ControlledShutdown v0 #7 of 12 bytes, answered in 10 bytes"];
    assert_eq!(of_packets(&packets), expected);
    assert_eq!(of_packets(&packets[FIRST..]), expected);
}

#[test]
fn an_encrypted_connection_is_named_as_one() {
    let mut tape = Tape::new();
    tape.say(Direction::Request, b"\x16\x03\x01\x02\x00\x01\x00");
    let told = of_packets(&tape.packets());
    assert!(told[0].contains("encrypted (TLS)"), "{told:?}");
}

#[test]
fn an_answer_captured_before_its_request_is_put_beside_it() {
    let mut tape = Tape::new();
    tape.talk(0);
    tape.talk(1);
    let mut packets = tape.packets();
    packets.swap(FIRST, FIRST + 1);
    packets.swap(FIRST + 2, FIRST + 3);
    assert_eq!(of_packets(&packets), [talked(1, 0), talked(2, 1)]);
}

#[test]
fn an_answer_of_before_the_capture_is_not_taken_for_one_to_a_later_request() {
    let mut tape = Tape::new();
    tape.talk(0);
    tape.say(Direction::Request, &update_metadata(1, 1));
    tape.say(Direction::Response, &confirmation(1));
    assert_eq!(
        of_packets(&tape.packets()[FIRST + 1..]),
        ["answer of 6 bytes alone".to_owned(), talked(1, 1)]
    );
}

#[test]
fn a_request_that_wants_no_answer_does_not_take_the_next_ones() {
    let mut tape = Tape::new();
    tape.ask(1);
    tape.ask(2);
    tape.answer(2);
    tape.say(Direction::Request, &update_metadata(1, 3));
    tape.answer(1);
    assert_eq!(
        of_packets(&tape.packets()),
        [
            talked(1, 1).replace("answered in 6 bytes", "unanswered"),
            talked(2, 2),
            talked(1, 3),
        ]
    );
}

#[test]
fn comments_on_packets_come_with_what_begins_there() {
    let mut tape = Tape::new();
    tape.writer.remark("the request");
    tape.ask(1);
    tape.writer.remark("the answer");
    tape.answer(1);
    tape.talk(1);
    let capture = read_file(tape.file());
    let remarks: Vec<Option<&str>> = capture
        .entries
        .iter()
        .map(|entry| entry.remark.as_deref())
        .collect();
    assert_eq!(remarks, [Some("the request\nthe answer"), None]);
}

#[test]
fn connections_do_not_disturb_each_other_and_come_in_the_order_of_the_file() {
    let mut one = Tape::new();
    let mut other = Tape::between("[2001:db8::1]:50000", "[2001:db8::2]:9093");
    one.talk(1);
    other.talk(2);
    one.say(Direction::Request, &[255; 20]);
    other.talk(3);
    let (one, other) = (one.packets(), other.packets());
    let longest = one.len().max(other.len());
    let woven: Vec<Packed> = (0..longest)
        .flat_map(|at| [one.get(at), other.get(at)])
        .flatten()
        .cloned()
        .collect();
    let capture = read_file(pack(&woven));
    let told = told(&capture);
    assert_eq!(told[..2], [talked(1, 1), talked(1, 2)]);
    assert_eq!(told.last(), Some(&talked(2, 3)));
    assert_eq!(told.len(), 5);
    let ends = capture.entries[1].ends.unwrap();
    assert_eq!(ends.client.to_string(), "[2001:db8::1]:50000");
}

#[test]
fn a_hole_that_is_never_filled_is_given_up_in_bounded_memory() {
    let mut tape = Tape::new();
    for _ in 0..5000 {
        tape.ask(0);
    }
    let mut packets = tape.packets();
    packets.remove(FIRST + 10);
    let file = Bytes::from(pack(&packets));
    let options = ReadOptions::default();
    let capture = read(&file, &options).unwrap();
    assert_eq!(capture.entries.len(), 5000);
    let told = told(&capture);
    assert!(told[10].ends_with("request bytes missing"), "{}", told[10]);
}

#[test]
fn versions_asked_for_are_read_whatever_the_answers_form() {
    let mut tape = Tape::new();
    let request = encode_request(3, 0, Some("me"), &ApiVersionsRequest::default()).unwrap();
    tape.say(Direction::Request, &request.to_bytes());
    let response = ApiVersionsResponse::default();
    let response = encode_response::<ApiVersionsRequest>(3, 0, &response).unwrap();
    tape.say(Direction::Response, &response.to_bytes());
    let told = of_packets(&tape.packets());
    assert!(
        told[0].starts_with("ApiVersions v3 #0 of ") && told[0].contains("answered"),
        "{told:?}"
    );
}
