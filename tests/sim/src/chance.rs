//! Chance from a seed: the same draws for the same seed, on every machine.
//!
//! Each actor has a stream of its own, so that taking one away changes nothing of what the others draw. Must never be
//! drawn from for anything that a procedure decides.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock::SplitMix64;
use crate::mishap::{Mishap, Mishaps};

/// From the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Span {
    /// Nothing at all.
    pub const NONE: Span = Span::new(0, 0);

    /// From `least` to `most`.
    pub const fn new(least: u64, most: u64) -> Span {
        Span { least, most }
    }
}

/// A share in a million: 0 is never, 1,000,000 is always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(pub u32);

impl Rate {
    /// Never.
    pub const NEVER: Rate = Rate(0);
}

/// One stream of draws. Clones draw from the same one.
#[derive(Debug, Clone)]
pub struct Chance {
    state: Rc<Cell<u64>>,
    mishaps: Mishaps,
}

impl Chance {
    /// The stream of an actor: a seed, and what the actor is called.
    pub fn of(seed: u64, actor: &str) -> Chance {
        // FNV-1a: the names are few and short, and two of them must not share a stream.
        let mut state = 0xCBF2_9CE4_8422_2325_u64 ^ seed.rotate_left(17);
        for byte in actor.bytes().chain(seed.to_be_bytes()) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        let chance = Chance {
            state: Rc::new(Cell::new(state)),
            mishaps: Mishaps::default(),
        };
        chance.bits();
        chance
    }

    /// The same stream, which counts what befalls its actor there.
    pub fn counting(self, mishaps: &Mishaps) -> Chance {
        Chance {
            mishaps: mishaps.clone(),
            ..self
        }
    }

    /// The next 64 bits.
    pub fn bits(&self) -> u64 {
        let mut random = SplitMix64(self.state.get());
        let bits = random.next_bits();
        self.state.set(random.0);
        bits
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of a remainder is beyond notice for the small bounds of a world.
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    /// A number of a span.
    pub fn within(&self, span: Span) -> u64 {
        span.least + self.below(span.most.saturating_sub(span.least) + 1)
    }

    /// Whether what happens at this rate happens now.
    pub fn strikes(&self, rate: Rate) -> bool {
        // Without a draw where it never does: streams stay the same when a rate is taken away.
        rate != Rate::NEVER && self.below(1_000_000) < u64::from(rate.0)
    }

    /// Whether this befalls the actor now.
    pub fn befalls(&self, mishap: Mishap, rate: Rate) -> bool {
        let befalls = self.strikes(rate);
        if befalls {
            self.mishaps.count(mishap);
        }
        befalls
    }

    /// A number of a span; from `from` on it is this mishap.
    pub fn within_or(&self, span: Span, from: u64, mishap: Mishap) -> u64 {
        let drawn = self.within(span);
        if drawn >= from {
            self.mishaps.count(mishap);
        }
        drawn
    }

    /// This befell the actor.
    pub fn note(&self, mishap: Mishap) {
        self.mishaps.count(mishap);
    }

    /// Whether what happens once in `times` happens now.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several; `None` of none.
    pub fn pick<'a, T>(&self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len() as u64) as usize)
    }

    /// So many of several, each once, in an order of chance.
    pub fn some_of<T: Clone>(&self, among: &[T], count: usize) -> Vec<T> {
        let mut rest = among.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < count && !rest.is_empty() {
            chosen.push(rest.remove(self.below(rest.len() as u64) as usize));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_follows_from_its_seed_and_its_name_alone() {
        let draws = |seed, name| {
            let chance = Chance::of(seed, name);
            [chance.bits(), chance.bits(), chance.below(10)]
        };
        assert_eq!(draws(1, "klamm 9"), draws(1, "klamm 9"));
        assert_ne!(draws(1, "klamm 9"), draws(2, "klamm 9"));
        assert_ne!(draws(1, "klamm 9"), draws(1, "klamm 8"));
    }

    #[test]
    fn what_never_happens_draws_nothing() {
        let (with, without) = (Chance::of(7, "a"), Chance::of(7, "a"));
        assert!(!with.strikes(Rate::NEVER));
        assert_eq!(with.bits(), without.bits());
        assert!(Chance::of(7, "a").strikes(Rate(1_000_000)));
    }

    #[test]
    fn what_befalls_an_actor_is_counted_and_draws_no_more_than_without() {
        let mishaps = Mishaps::default();
        let counting = Chance::of(7, "a").counting(&mishaps);
        let plain = Chance::of(7, "a");
        let lost = Mishap::BrokerRequestLost;
        assert_eq!(
            counting.befalls(lost, Rate(500_000)),
            plain.strikes(Rate(500_000))
        );
        assert!(counting.befalls(lost, Rate(1_000_000)) && plain.strikes(Rate(1_000_000)));
        let span = Span::new(2, 9);
        let drawn = counting.within_or(span, 2, Mishap::BrokerSlow);
        assert_eq!(drawn, plain.within(span));
        counting.within_or(span, 10, Mishap::WatchLate);
        let counts: std::collections::BTreeMap<&str, u64> = mishaps
            .counts()
            .map(|(mishap, times)| (mishap.words(), times))
            .collect();
        assert!(counts[lost.words()] >= 1);
        assert_eq!(counts[Mishap::BrokerSlow.words()], 1);
        assert_eq!(counts[Mishap::WatchLate.words()], 0);
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_both_ends() {
        let chance = Chance::of(3, "span");
        let drawn: std::collections::BTreeSet<u64> =
            (0..200).map(|_| chance.within(Span::new(2, 5))).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
        assert_eq!(chance.some_of(&[1, 2, 3], 5).len(), 3);
    }
}
