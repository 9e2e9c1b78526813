//! Numbers that look random and follow from a seed: what a seed did once it does again, on every machine.

/// SplitMix64. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Begins with any number; neighbouring seeds have nothing in common.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.any() % bound).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn byte(&mut self) -> u8 {
        self.any().to_be_bytes()[0]
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// One of these; `None` where there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

/// Bytes that make lengths: huge, negative, null, zero, and varints that go on; and two tagged fields, in order, twice the
/// same, and beyond all numbers.
const NASTY: [&[u8]; 13] = [
    &[2, 5, 0, 6, 0],
    &[2, 5, 0, 5, 0],
    &[2, 5, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x00, 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0x80, 0x80, 0x80, 0x80, 0x08],
    &[0x00, 0x00, 0x00, 0x00],
    &[0x00, 0x10, 0x00, 0x00],
    &[0x7f, 0xff],
    &[0xff, 0xff],
];
/// Single bytes that often mean something.
const TELLING: [u8; 8] = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff];
/// A message does not grow beyond so many bytes.
const GROWN_MAX: usize = 256 * 1024;

/// Damages `bytes` from `from` on, once to four times.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, from: usize) {
    for _ in 0..=random.below(4) {
        mutate_once(random, bytes, from.min(bytes.len()));
    }
}

fn mutate_once(random: &mut Random, bytes: &mut Vec<u8>, from: usize) {
    let length = bytes.len();
    let at = from + random.below(length - from + 1);
    let end = at + random.below((length - at).min(64) + 1);
    match random.below(10) {
        0 => bytes.insert(at, telling(random)),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.truncate(at.max(1)),
        3 | 4 => {
            let nasty = nasty(random);
            let end = length.min(at + nasty.len());
            bytes.splice(at..end, nasty);
        }
        5 => drop(bytes.splice(at..at, nasty(random))),
        6 => {
            // The same once more, or thousands of times: long arrays, if the count before it is damaged too.
            let piece: Vec<u8> = bytes.get(at..end).unwrap_or_default().to_vec();
            let times = [1, 2, 16, 4096][random.below(4)].min(GROWN_MAX / piece.len().max(1));
            bytes.splice(at..at, piece.repeat(times));
        }
        7 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        _ => {
            let telling = telling(random);
            match bytes.get_mut(at) {
                Some(byte) => *byte = telling,
                None => bytes.push(telling),
            }
        }
    }
}

fn telling(random: &mut Random) -> u8 {
    match random.once_in(3) {
        true => random.byte(),
        false => *random.one_of(&TELLING).unwrap_or(&0),
    }
}

fn nasty(random: &mut Random) -> Vec<u8> {
    match random.once_in(4) {
        true => {
            let count = 1 + random.below(6);
            random.bytes(count)
        }
        false => random
            .one_of(&NASTY)
            .map_or_else(Vec::new, |nasty| nasty.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(seed: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..100).collect();
        mutate(&mut Random::new(seed), &mut bytes, 10);
        bytes
    }

    #[test]
    fn equal_seeds_do_the_same_damage_and_others_other_damage() {
        assert_eq!(damaged(1), damaged(1));
        let different: std::collections::BTreeSet<Vec<u8>> = (0..100).map(damaged).collect();
        assert!(different.len() > 90, "{}", different.len());
    }

    #[test]
    fn damage_begins_where_it_may() {
        let head: Vec<u8> = (0..10).collect();
        for seed in 0..1000 {
            assert!(damaged(seed).starts_with(&head), "seed {seed}");
        }
    }

    #[test]
    fn the_shortest_messages_can_be_damaged_too() {
        for seed in 0..1000 {
            mutate(&mut Random::new(seed), &mut Vec::new(), 8);
            mutate(&mut Random::new(seed), &mut vec![1], 8);
        }
    }
}
