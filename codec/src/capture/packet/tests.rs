//! Tests of the headers below Kafka's bytes, in all the forms that capture tools give.

use super::super::tests::{Packed, Tape, read_file, told};
use super::super::{Capture, Note};
use super::*;

fn conversation() -> Vec<Packed> {
    let mut tape = Tape::new();
    tape.talk(1);
    tape.talk(2);
    tape.packets()
}

fn conversation_in_ipv6() -> Vec<Packed> {
    let mut tape = Tape::between("[2001:db8::9]:40000", "[2001:db8::1]:9092");
    tape.talk(1);
    tape.talk(2);
    tape.packets()
}

/// A pcap file of this link type, each packet with a header before it.
fn capture(link_type: u32, packets: &[Packed], header: impl Fn(&[u8]) -> Vec<u8>) -> Capture {
    let wrapped: Vec<Packed> = packets
        .iter()
        .map(|packet| Packed {
            data: [header(&packet.data), packet.data.clone()].concat(),
            ..packet.clone()
        })
        .collect();
    let mut file = super::super::tests::pack(&wrapped);
    file[20..24].copy_from_slice(&link_type.to_le_bytes());
    read_file(file)
}

fn kind(packet: &[u8]) -> [u8; 2] {
    match packet[0] >> 4 {
        4 => [0x08, 0x00],
        _ => [0x86, 0xdd],
    }
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind(packet)].concat()
}

#[test]
fn every_link_that_kafka_is_captured_on_is_read() {
    type Header = fn(&[u8]) -> Vec<u8>;
    let links: [(&str, u32, Header); 10] = [
        ("Ethernet", 1, ethernet),
        ("Ethernet with checksums", 0x4400_0001, ethernet),
        ("a VLAN", 1, |packet| {
            [&[2; 12][..], &[0x81, 0, 0, 7], &kind(packet)].concat()
        }),
        ("a VLAN in a VLAN", 1, |packet| {
            [
                &[2; 12][..],
                &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8],
                &kind(packet),
            ]
            .concat()
        }),
        ("raw IP", 101, |_| Vec::new()),
        ("raw IP on some BSDs", 12, |_| Vec::new()),
        ("BSD loopback", 0, |_| vec![2, 0, 0, 0]),
        ("OpenBSD loopback", 108, |_| vec![0, 0, 0, 2]),
        ("tcpdump -i any", 113, |packet| {
            [
                &[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0][..],
                &kind(packet),
            ]
            .concat()
        }),
        ("tcpdump -i any of now", 276, |packet| {
            let after = [0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0];
            [&kind(packet)[..], &after].concat()
        }),
    ];
    for packets in [conversation(), conversation_in_ipv6()] {
        let expected = told(&capture(101, &packets, |_| Vec::new()));
        assert_eq!(expected.len(), 2);
        for (name, link_type, header) in links {
            let capture = capture(link_type, &packets, header);
            assert_eq!(told(&capture), expected, "{name}");
            assert_eq!(capture.notes, [], "{name}");
        }
    }
}

#[test]
fn the_padding_of_a_short_packet_is_not_taken_for_bytes_of_it() {
    let packets = conversation();
    let expected = told(&capture(101, &packets, |_| Vec::new()));
    let mut padded = packets;
    for packet in &mut padded {
        packet.data.extend([0; 6]);
    }
    assert_eq!(told(&capture(1, &padded, ethernet)), expected);
}

#[test]
fn a_packet_whose_length_the_network_card_was_to_fill_in_is_read() {
    for (mut packets, place) in [(conversation(), 2), (conversation_in_ipv6(), 4)] {
        let expected = told(&capture(1, &packets, ethernet));
        for packet in &mut packets {
            packet.data[place..place + 2].copy_from_slice(&[0, 0]);
        }
        assert_eq!(told(&capture(1, &packets, ethernet)), expected);
    }
}

#[test]
fn what_is_not_whole_tcp_is_counted_by_its_kind() {
    let mut packets = conversation();
    let expected = told(&capture(101, &packets, |_| Vec::new()));
    let data = packets[3].data.clone();
    let with = |at: usize, byte: u8| {
        let mut data = data.clone();
        data[at] = byte;
        data
    };
    let others = [
        // More fragments follow; a later fragment.
        with(6, 0x20),
        with(7, 1),
        // UDP, and ICMP.
        with(9, 17),
        with(9, 1),
        // A header longer than the packet; a version that there is not; no packet.
        data[..30].to_vec(),
        with(0, 0x75),
        Vec::new(),
    ];
    let at = packets[3].at;
    packets.splice(
        3..3,
        others.map(|data| Packed {
            at,
            data,
            cut_bytes: 0,
            remark: None,
        }),
    );
    let capture = capture(101, &packets, |_| Vec::new());
    assert_eq!(told(&capture), expected);
    let skipped: Vec<(Skip, u64)> = capture
        .notes
        .iter()
        .map(|note| match note {
            Note::Skipped { why, packets, .. } => (*why, *packets),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(
        skipped,
        [
            (Skip::NotIp, 1),
            (Skip::NotTcp, 2),
            (Skip::Fragment, 2),
            (Skip::Malformed, 2),
        ]
    );
}

#[test]
fn a_link_that_cannot_be_read_is_named_by_its_number() {
    let capture = capture(105, &conversation(), |_| vec![0; 24]);
    assert_eq!(capture.entries, []);
    let notes: Vec<String> = capture.notes.iter().map(Note::to_string).collect();
    assert_eq!(
        notes,
        [
            "7 packets were passed over, the first at byte 24: of link type 105; capture Ethernet, raw IP, loopback or Linux's any interface"
        ]
    );
}
