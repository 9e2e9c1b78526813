//! Tests of both file formats, in all the forms that capture tools write.

use super::super::tests::{Packed, START, Tape, pack, read_file, told};
use super::super::{Capture, CaptureError, Note, ReadOptions, Skip, Timestamp, What, read};
use super::super::{tests, writer};
use bytes::Bytes;

#[derive(Debug, Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u32(self, word: u32) -> [u8; 4] {
        match self {
            Order::Little => word.to_le_bytes(),
            Order::Big => word.to_be_bytes(),
        }
    }

    fn u16(self, word: u16) -> [u8; 2] {
        match self {
            Order::Little => word.to_le_bytes(),
            Order::Big => word.to_be_bytes(),
        }
    }
}

fn conversation() -> Vec<Packed> {
    let mut tape = Tape::new();
    tape.talk(1);
    tape.talk(2);
    tape.packets()
}

fn expected() -> Vec<String> {
    told(&read_file(pack(&conversation())))
}

fn first_request_at(capture: &Capture) -> Option<Timestamp> {
    match &capture.entries[0].what {
        What::Request { request, .. } => request.at,
        other => panic!("{other:?}"),
    }
}

fn pcap(order: Order, magic: u32, unit: u64) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order.u32(magic));
    file.extend([order.u16(2), order.u16(4)].concat());
    for word in [0, 0, 0x4_0000, 101] {
        file.extend(order.u32(word));
    }
    for packet in conversation() {
        let size = packet.data.len() as u32;
        let seconds = (packet.at.0 / 1_000_000_000) as u32;
        let fraction = (packet.at.0 % 1_000_000_000 / unit) as u32;
        for word in [seconds, fraction, size, size] {
            file.extend(order.u32(word));
        }
        file.extend(&packet.data);
    }
    file
}

fn block(order: Order, kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let length = order.u32(body.len() as u32 + 12);
    [&order.u32(kind), &length[..], &body, &length].concat()
}

fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend([order.u16(1), order.u16(0)].concat());
    body.extend([255; 8]);
    block(order, 0x0a0d_0d0a, body)
}

fn interface(order: Order, link_type: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [order.u16(link_type), order.u16(0)].concat();
    body.extend(order.u32(0));
    if let Some(resolution) = resolution {
        body.extend([order.u16(9), order.u16(1)].concat());
        body.extend([resolution, 0, 0, 0, 0, 0, 0, 0]);
    }
    block(order, 1, body)
}

fn enhanced(order: Order, interface: u32, ticks: u64, packet: &Packed) -> Vec<u8> {
    let size = packet.data.len() as u32;
    let mut body = Vec::new();
    for word in [interface, (ticks >> 32) as u32, ticks as u32, size, size] {
        body.extend(order.u32(word));
    }
    body.extend(&packet.data);
    block(order, 6, body)
}

#[test]
fn pcap_of_either_byte_order_and_precision_is_read() {
    for order in [Order::Little, Order::Big] {
        for (magic, unit) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let capture = read_file(pcap(order, magic, unit));
            assert_eq!(told(&capture), expected(), "{order:?} {magic:x}");
            let at = Some(Timestamp(START + 1_000_000));
            assert_eq!(first_request_at(&capture), at, "{order:?} {magic:x}");
        }
    }
}

#[test]
fn pcapng_of_either_byte_order_and_any_time_resolution_is_read() {
    const NANOS: u64 = 1_000_000_000;
    type Ticks = fn(u64) -> u64;
    let ticks: [(Option<u8>, Ticks); 4] = [
        (None, |at| at / 1_000),
        (Some(9), |at| at),
        (Some(3), |at| at / 1_000_000),
        // 2 to the 20th units in a second.
        (Some(0x94), |at| {
            ((u128::from(at) << 20) / u128::from(NANOS)) as u64
        }),
    ];
    for order in [Order::Little, Order::Big] {
        for (resolution, ticks) in ticks {
            let mut file = [section(order), interface(order, 101, resolution)].concat();
            for packet in conversation() {
                file.extend(enhanced(order, 0, ticks(packet.at.0), &packet));
            }
            let capture = read_file(file);
            assert_eq!(told(&capture), expected(), "{order:?} {resolution:?}");
            let at = first_request_at(&capture).unwrap().0;
            let apart = at.abs_diff(START + 1_000_000);
            assert!(apart <= 1_000, "{order:?} {resolution:?}: {apart} ns apart");
        }
    }
}

#[test]
fn each_section_and_interface_of_a_pcapng_file_has_its_own_ways() {
    let packets = conversation();
    let order = Order::Little;
    let mut file = [
        section(order),
        interface(order, 1, None),
        interface(order, 101, Some(9)),
    ]
    .concat();
    for packet in &packets[..5] {
        file.extend(enhanced(order, 1, packet.at.0, packet));
    }
    // A block that nobody knows, and one of packets that were never seen.
    file.extend(block(order, 0x7777, vec![1, 2, 3]));
    let order = Order::Big;
    file.extend([section(order), interface(order, 101, None)].concat());
    for packet in &packets[5..] {
        file.extend(enhanced(order, 0, packet.at.0 / 1000, packet));
    }
    file.extend(enhanced(order, 9, 0, &packets[3]));
    let capture = read_file(file);
    assert_eq!(told(&capture), expected());
    assert!(
        matches!(
            capture.notes[..],
            [Note::Skipped {
                why: Skip::NoInterface,
                packets: 1,
                ..
            }]
        ),
        "{:?}",
        capture.notes
    );
}

#[test]
fn simple_packets_are_read_without_a_time() {
    let order = Order::Little;
    let mut file = [section(order), interface(order, 101, None)].concat();
    for packet in conversation() {
        let mut body = order.u32(packet.data.len() as u32).to_vec();
        body.extend(&packet.data);
        file.extend(block(order, 3, body));
    }
    let capture = read_file(file);
    assert_eq!(told(&capture), expected());
    assert_eq!(first_request_at(&capture), None);
}

#[test]
fn a_block_that_makes_no_sense_costs_itself_and_a_length_that_makes_none_the_rest() {
    let order = Order::Little;
    let packets = conversation();
    let mut file = [section(order), interface(order, 101, Some(9))].concat();
    for packet in &packets[..5] {
        file.extend(enhanced(order, 0, packet.at.0, packet));
    }
    // Its packet would be longer than the block.
    let mut bad = enhanced(order, 0, 0, &packets[5]);
    bad[20..24].copy_from_slice(&[255, 255, 0, 0]);
    file.extend(bad);
    let good = file.len();
    for packet in &packets[5..] {
        file.extend(enhanced(order, 0, packet.at.0, packet));
    }
    let capture = read_file(file.clone());
    assert_eq!(told(&capture), expected());
    let Note::Skipped {
        why, packets: 1, ..
    } = capture.notes[0]
    else {
        panic!("{:?}", capture.notes);
    };
    assert_eq!(why, Skip::Malformed);

    file[good + 4] = 7;
    let capture = read_file(file);
    assert_eq!(told(&capture), expected()[..1]);
    let offset = good as u64;
    assert!(
        matches!(&capture.notes[1], Note::Damaged { offset: at, .. } if *at == offset),
        "{:?}",
        capture.notes
    );
}

#[test]
fn a_pcap_packet_of_absurd_length_is_damage_and_all_before_it_is_read() {
    let mut file = pack(&conversation());
    let place = file.len();
    for word in [0, 0, u32::MAX, u32::MAX] {
        file.extend(word.to_le_bytes());
    }
    let capture = read_file(file);
    assert_eq!(told(&capture), expected());
    assert_eq!(
        capture.notes,
        [Note::Damaged {
            offset: place as u64,
            detail: "a packet of 4294967295 bytes".to_owned()
        }]
    );
}

#[test]
fn a_file_without_a_whole_header_is_refused_by_its_format() {
    let options = ReadOptions::default();
    let refused = |file: &[u8]| read(&Bytes::copy_from_slice(file), &options).unwrap_err();
    assert_eq!(refused(&[]), CaptureError::Empty);
    let short = refused(&pack(&[])[..20]).to_string();
    assert!(short.starts_with("pcap with a header"), "{short}");
    let short = refused(&section(Order::Little)[..20]).to_string();
    assert!(short.starts_with("pcapng with a header"), "{short}");
    // Headers alone are an empty capture.
    assert_eq!(read_file(pack(&[])).entries, []);
    let file = writer::Writer::new("klamm test").take();
    assert_eq!(tests::read_file(file).entries, []);
}
