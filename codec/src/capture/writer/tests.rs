//! Tests of the captures that we write, read back with the libraries' strict parsers.

use super::*;
use core::net::Ipv6Addr;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::{Block, PcapNGOption, parse_block_le};

const AT: Timestamp = Timestamp(1_700_000_000_123_456_789);

fn client() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 9092))
}

/// One packet, as any reader sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    from: u16,
    sequence: u32,
    acknowledged: Option<u32>,
    syn: bool,
    fin: bool,
    payload: Vec<u8>,
    remark: Option<String>,
}

/// Reads a capture that must be whole and right, checksums included.
fn read(mut rest: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut blocks = 0;
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        match (blocks, &block) {
            (0, Block::SectionHeader(_)) => {}
            (1, Block::InterfaceDescription(interface)) => {
                assert_eq!(interface.linktype.0, i32::from(LINK_TYPE));
                assert_eq!(interface.if_tsresol, 9);
            }
            (_, Block::EnhancedPacket(packet)) => {
                assert_eq!(packet.decode_ts(0, 1_000_000_000), AT_PARTS);
                assert_eq!(packet.caplen, packet.origlen);
                let data = &packet.data[..packet.caplen as usize];
                seen.push(see(data, remark(&packet.options)));
            }
            other => panic!("{other:?}"),
        }
        (rest, blocks) = (after, blocks + 1);
    }
    seen
}

const AT_PARTS: (u32, u32) = (1_700_000_000, 123_456_789);

fn remark(options: &[PcapNGOption<'_>]) -> Option<String> {
    let comment = options.iter().find(|option| option.code.0 == 1)?;
    Some(comment.as_str().unwrap().to_owned())
}

fn see(data: &[u8], remark: Option<String>) -> Seen {
    let packet = SlicedPacket::from_ip(data).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else {
        panic!("{packet:?}");
    };
    let checksum = match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let expected = header.to_header().calc_header_checksum();
            assert_eq!(header.header_checksum(), expected);
            tcp.calc_checksum_ipv4(header.source(), header.destination())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            tcp.calc_checksum_ipv6(header.source(), header.destination())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(tcp.checksum(), checksum.unwrap());
    Seen {
        from: tcp.source_port(),
        sequence: tcp.sequence_number(),
        acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        payload: tcp.payload().to_vec(),
        remark,
    }
}

/// Each sender's numbers go on where its last segment ended, and acknowledge all that the other said.
fn follow(seen: &[Seen]) {
    let mut next: [Option<u32>; 2] = [None, None];
    for packet in seen {
        let side = usize::from(packet.from == server().port());
        if let Some(next) = next[side] {
            assert_eq!(packet.sequence, next, "{packet:?}");
        }
        assert_eq!(packet.acknowledged, next[1 - side], "{packet:?}");
        let marks = u32::from(packet.syn) + u32::from(packet.fin);
        let length = packet.payload.len() as u32 + marks;
        next[side] = Some(packet.sequence.wrapping_add(length));
    }
}

#[test]
fn a_conversation_is_a_tcp_connection_from_its_opening_to_its_close() {
    let mut writer = Writer::new("klamm test");
    let mut connection = writer.open(client(), server(), AT);
    writer.remark("the answer is late");
    writer.say(&mut connection, Direction::Request, b"question", AT);
    writer.say(&mut connection, Direction::Response, b"answer", AT);
    writer.close(connection, AT);
    let seen = read(&writer.take());
    follow(&seen);
    let said: Vec<(u16, &[u8])> = seen
        .iter()
        .filter(|packet| !packet.payload.is_empty())
        .map(|packet| (packet.from, packet.payload.as_slice()))
        .collect();
    assert_eq!(said, [(40_000, &b"question"[..]), (9092, b"answer")]);
    let marks: Vec<(bool, bool)> = seen.iter().map(|packet| (packet.syn, packet.fin)).collect();
    let (syn, fin, none) = ((true, false), (false, true), (false, false));
    assert_eq!(marks, [syn, syn, none, none, none, fin, fin, none]);
    let remarks: Vec<&str> = seen
        .iter()
        .filter_map(|packet| packet.remark.as_deref())
        .collect();
    assert_eq!(remarks, ["the answer is late"]);
    assert_eq!(seen[3].remark.as_deref(), Some("the answer is late"));
}

#[test]
fn a_long_frame_spans_segments_and_the_sequence_numbers_wrap_where_they_must() {
    let mut writer = Writer::new("klamm test");
    let mut connection = writer.open(client(), server(), AT);
    connection.client_next = u32::MAX - 100_000;
    writer.take();
    let frame: Vec<u8> = (0..1_000_003u32).map(|number| number as u8).collect();
    writer.say(&mut connection, Direction::Request, &frame, AT);
    writer.say(&mut connection, Direction::Response, b"answer", AT);
    let packets = writer.take();
    let seen = read(&[Writer::new("klamm test").take(), packets].concat());
    let said: Vec<u8> = seen
        .iter()
        .filter(|packet| packet.from == 40_000)
        .flat_map(|packet| packet.payload.clone())
        .collect();
    assert!(said == frame, "{} bytes came back", said.len());
    let mut next = u32::MAX - 100_000;
    for packet in &seen[..seen.len() - 1] {
        assert_eq!(packet.sequence, next);
        assert!(packet.payload.len() <= SEGMENT_MAX_BYTES);
        next = next.wrapping_add(packet.payload.len() as u32);
    }
    assert!(next < 1_000_000, "the numbers did not wrap");
    assert_eq!(seen.last().unwrap().acknowledged, Some(next));
}

#[test]
fn addresses_of_ip_version_6_are_written_as_they_are() {
    let client = SocketAddr::from((Ipv6Addr::LOCALHOST, 40_000));
    let server = SocketAddr::from((Ipv6Addr::LOCALHOST, 9092));
    let mut writer = Writer::new("klamm test");
    let mut connection = writer.open(client, server, AT);
    let frame = vec![7; SEGMENT_MAX_BYTES + 1];
    writer.say(&mut connection, Direction::Request, &frame, AT);
    writer.close(connection, AT);
    let seen = read(&writer.take());
    follow(&seen);
    let bytes: usize = seen.iter().map(|packet| packet.payload.len()).sum();
    assert_eq!(bytes, frame.len());
}

#[test]
fn the_same_calls_write_the_same_bytes_and_taking_in_pieces_changes_nothing() {
    let write = |take_each: bool| {
        let mut written = Vec::new();
        let mut writer = Writer::new("klamm test");
        for _ in 0..2 {
            let mut connection = writer.open(client(), server(), AT);
            for direction in [Direction::Request, Direction::Response] {
                writer.say(&mut connection, direction, b"odd", AT);
                if take_each {
                    written.extend(writer.take());
                }
            }
            writer.close(connection, AT);
        }
        written.extend(writer.take());
        assert!(writer.is_empty());
        written
    };
    assert_eq!(write(false), write(true));
}

#[test]
fn a_connection_on_the_ports_of_an_earlier_one_begins_far_from_where_that_ended() {
    let mut writer = Writer::new("klamm test");
    let first = writer.open(client(), server(), AT);
    let second = writer.open(client(), server(), AT);
    let apart = second.client_next.wrapping_sub(first.client_next);
    assert!(apart.min(apart.wrapping_neg()) > 1 << 30, "{apart}");
}

#[test]
fn bytes_that_were_left_out_are_missing_in_the_numbers() {
    let mut writer = Writer::new("klamm test");
    let mut connection = writer.open(client(), server(), AT);
    writer.say(&mut connection, Direction::Request, b"one", AT);
    writer.skip(&mut connection, Direction::Request, 5);
    writer.say(&mut connection, Direction::Request, b"three", AT);
    let seen = read(&writer.take());
    assert_eq!(seen[4].sequence.wrapping_sub(seen[3].sequence), 3 + 5);
}

#[test]
fn a_comment_too_long_for_an_option_is_cut_between_characters() {
    let mut writer = Writer::new("klamm test");
    writer.remark(&"ü".repeat(40_000));
    writer.open(client(), server(), AT);
    let seen = read(&writer.take());
    assert_eq!(seen[0].remark, Some("ü".repeat(TEXT_MAX_BYTES / 2)));
}
