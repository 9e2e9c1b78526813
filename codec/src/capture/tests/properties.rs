//! Whatever happens to a capture on its way, what comes back was said; and whatever a file holds, it is read or refused.

use super::*;
use proptest::prelude::*;
use std::ops::Range;

/// A conversation, how to cut it into segments, and which packets to repeat.
#[derive(Debug, Clone)]
struct Damage {
    brokers: Vec<usize>,
    segment_bytes: usize,
    repeats: Vec<prop::sample::Index>,
    swaps: Vec<(prop::sample::Index, usize)>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let swaps = prop::collection::vec((any::<prop::sample::Index>(), 1usize..12), 0..60);
    (
        prop::collection::vec(0usize..60, 1..20),
        prop_oneof![Just(1), 2usize..20, 20usize..2000],
        prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        swaps,
    )
        .prop_map(|(brokers, segment_bytes, repeats, swaps)| Damage {
            brokers,
            segment_bytes,
            repeats,
            swaps,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_order_repetition_or_segmentation_changes_what_was_said(damage in damage()) {
        let mut tape = Tape::new().segments_of(damage.segment_bytes);
        let mut expected = Vec::new();
        for brokers in &damage.brokers {
            tape.talk(*brokers);
            expected.push(talked(tape.id, *brokers));
        }
        let mut packets = tape.packets();
        for repeat in &damage.repeats {
            let at = repeat.index(packets.len());
            packets.insert(at, packets[at].clone());
        }
        for (at, distance) in &damage.swaps {
            let at = at.index(packets.len());
            let other = (at + distance).min(packets.len() - 1);
            packets.swap(at, other);
        }
        let capture = read_file(pack(&packets));
        let mut told = told(&capture);
        // Entries come in the order of the file, which was changed.
        told.sort();
        expected.sort();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn any_loss_leaves_what_was_said_in_order_or_says_what_is_missing(
        brokers in prop::collection::vec(0usize..40, 1..12),
        segment_bytes in 50usize..500,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut tape = Tape::new().segments_of(segment_bytes);
        let mut said: Vec<String> = Vec::new();
        for brokers in &brokers {
            tape.talk(*brokers);
            said.push(talked(tape.id, *brokers));
        }
        let mut packets = tape.packets();
        for lost in &lost {
            let at = lost.index(packets.len());
            packets.remove(at);
            if packets.is_empty() { break; }
        }
        let capture = read_file(pack(&packets));
        let told = told(&capture);
        let has_fault = capture
            .entries
            .iter()
            .any(|entry| !matches!(&entry.what, What::Request { answer: Some(_), .. }));
        // What is lost at either end of a capture was never in it.
        prop_assert!(has_fault || is_contiguous(&said, &told), "{told:?}");
        for line in &told {
            let is_frame = line.starts_with("UpdateMetadata");
            let is_true = said.iter().any(|said| line == said || *line == said.replace("answered in 6 bytes", "unanswered"));
            prop_assert!(!is_frame || is_true, "{line} was never said: {told:?}");
        }
    }

    #[test]
    fn any_bytes_read_to_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..2000), magic in 0usize..6) {
        const MAGICS: [&[u8]; 6] = [
            &[],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
            &[0xd4, 0xc3, 0xb2, 0xa1],
            &[0xa1, 0xb2, 0x3c, 0x4d],
            &[0x34, 0xcd, 0xb2, 0xa1],
            &[0, 0, 0, 40, 0, 3, 0, 1],
        ];
        let file = Bytes::from([MAGICS[magic], &bytes].concat());
        let _ = read(&file, &ReadOptions::default());
    }

    #[test]
    fn any_damage_to_a_capture_reads_to_a_value_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        is_pcapng: bool,
    ) {
        let mut tape = Tape::new().segments_of(200);
        tape.talk(30);
        tape.talk(3);
        let mut file = match is_pcapng {
            true => tape.file(),
            false => pack(&tape.packets()),
        };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let size = file.len();
        if let Ok(capture) = read(&Bytes::from(file), &ReadOptions::default()) {
            let bytes: usize = capture.entries.iter().map(|entry| match &entry.what {
                What::Request { request, answer, .. } => {
                    request.payload.len() + answer.as_ref().map_or(0, |answer| answer.payload.len())
                }
                What::Answer { answer } => answer.payload.len(),
                _ => 0,
            }).sum();
            prop_assert!(bytes <= size, "{bytes} bytes were read out of {size}");
        }
    }
}

fn is_contiguous(whole: &[String], part: &[String]) -> bool {
    let ranges = (0..whole.len()).map(|from| from..(from + part.len()).min(whole.len()));
    ranges
        .into_iter()
        .any(|range: Range<usize>| whole.get(range) == Some(part))
}
