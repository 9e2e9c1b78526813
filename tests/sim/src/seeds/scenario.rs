//! One whole story: a seed, the climate that follows from it, and the acts. It is all that a run follows from.
//!
//! A story that failed is kept as text: the seed, which the draws follow from, the climate, and the acts that are left. Must
//! never depend on anything but the text.

use std::fmt;
use std::str::FromStr;

use super::act::{Act, Kind};
use super::climate::Climate;
use crate::chance::{Chance, Rate, Span};

/// What can be taken away from a climate to make a story simpler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ease {
    /// ZooKeeper cuts no connection by itself.
    NoZooKeeperLosses,
    /// ZooKeeper is quick, and watches are heard at once.
    QuickZooKeeper,
    /// klamms talk to ZooKeeper's leader.
    NoLag,
    /// No connection to a broker is cut by itself.
    NoNetworkLosses,
    /// Brokers answer at once.
    QuickNetwork,
    /// One klamm.
    OneKlamm,
    /// No producer writes.
    NoProducers,
    /// No broker stays dead.
    NobodyAway,
}

impl Ease {
    /// All of them, the one that explains most first.
    pub const ALL: [Ease; 8] = [
        Ease::NoZooKeeperLosses,
        Ease::NoNetworkLosses,
        Ease::NoLag,
        Ease::QuickZooKeeper,
        Ease::QuickNetwork,
        Ease::OneKlamm,
        Ease::NoProducers,
        Ease::NobodyAway,
    ];

    /// Takes it away.
    pub fn apply(self, climate: &mut Climate) {
        match self {
            Ease::NoZooKeeperLosses => {
                climate.zookeeper.loss_before = Rate::NEVER;
                climate.zookeeper.loss_after = Rate::NEVER;
            }
            Ease::QuickZooKeeper => {
                climate.zookeeper_latency_ms = Span::new(0, 1);
                climate.zookeeper.watch_delay_ms = Span::NONE;
            }
            Ease::NoLag => climate.lag_ms = None,
            Ease::NoNetworkLosses => {
                climate.network.loss_before = Rate::NEVER;
                climate.network.loss_after = Rate::NEVER;
            }
            Ease::QuickNetwork => climate.network.latency_ms = Span::new(0, 1),
            Ease::OneKlamm => climate.klamms = 1,
            Ease::NoProducers => climate.produce = Rate::NEVER,
            Ease::NobodyAway => climate.away = None,
        }
    }
}

/// See the file's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// What its world is made of, and how rough it is there.
    pub climate: Climate,
    /// What befalls it, in the order of time.
    pub acts: Vec<Act>,
}

impl Scenario {
    /// The story of a seed.
    pub fn of(seed: u64) -> Scenario {
        let climate = Climate::of(&Chance::of(seed, "climate"));
        let chance = Chance::of(seed, "acts");
        // Each story leaves some kinds out and has others often, so that the stories differ in more than their order.
        let weights: Vec<(Kind, u64)> = Kind::ALL
            .iter()
            .map(|kind| {
                (
                    *kind,
                    kind.weight() * [0, 1, 1, 4][chance.below(4) as usize],
                )
            })
            .collect();
        let mut acts = vec![];
        // Something to lead comes first.
        for at_ms in [10, 20, 30] {
            let kinds = [
                Kind::CreateTopicByNode,
                Kind::CreateTopicByApi,
                Kind::AutoCreateTopic,
            ];
            let kind = *chance.pick(&kinds).unwrap_or(&Kind::CreateTopicByNode);
            let draw = chance.bits();
            acts.push(Act { at_ms, kind, draw });
        }
        let count = 5 + chance.below(56);
        acts.extend((0..count).filter_map(|_| {
            Some(Act {
                at_ms: chance.below(climate.safety_ms),
                kind: weighted(&chance, &weights)?,
                draw: chance.bits(),
            })
        }));
        acts.sort_by_key(|act| act.at_ms);
        Scenario {
            seed,
            climate,
            acts,
        }
    }
}

fn weighted(chance: &Chance, weights: &[(Kind, u64)]) -> Option<Kind> {
    let mut drawn = chance.below(weights.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in weights {
        if drawn < *weight {
            return Some(*kind);
        }
        drawn -= weight;
    }
    None
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (name, value) in self.climate.fields() {
            writeln!(f, "climate {name} {value}")?;
        }
        for act in &self.acts {
            writeln!(f, "act {act}")?;
        }
        Ok(())
    }
}

impl FromStr for Scenario {
    type Err = String;

    /// Lines that begin with `#` and empty ones are left out.
    fn from_str(text: &str) -> Result<Scenario, String> {
        // Every field is set below, or the text is refused.
        let mut climate = Climate::of(&Chance::of(0, "climate"));
        let mut unset: Vec<&str> = climate.fields().into_iter().map(|(name, _)| name).collect();
        let (mut seed, mut acts) = (None, Vec::new());
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("seed", number)) => {
                    let number = number.trim().parse();
                    seed = Some(number.map_err(|why| format!("`{line}`: {why}"))?);
                }
                Some(("climate", field)) => {
                    let (name, value) = field.split_once(' ').unwrap_or((field, ""));
                    let is_known = climate.set(name, value.trim());
                    if !is_known.map_err(|why| format!("`{line}`: {why}"))? {
                        return Err(format!("`{line}`: no such field"));
                    }
                    unset.retain(|missing| *missing != name);
                }
                Some(("act", act)) => acts.push(act.parse()?),
                _ => return Err(format!("`{line}` is neither a seed, a climate nor an act")),
            }
        }
        if !unset.is_empty() {
            return Err(format!("its climate lacks {}", unset.join(", ")));
        }
        climate.check()?;
        Ok(Scenario {
            seed: seed.ok_or("the story has no seed")?,
            climate,
            acts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_read_as_it_is_written() {
        for seed in 1..20 {
            let mut scenario = Scenario::of(seed);
            for ease in &Ease::ALL[..seed as usize % 9] {
                ease.apply(&mut scenario.climate);
            }
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        let text = Scenario::of(1).to_string();
        for (there, instead) in [
            ("seed 1", ""),
            ("climate klamms", "# climate klamms"),
            ("climate klamms", "climate clams"),
            ("climate klamms", "climate klamms many"),
            ("climate klamms", "climate klamms 0\n#"),
            ("climate brokers", "climate brokers\n#"),
            ("climate brokers 1:", "climate brokers 9:"),
            ("climate brokers 1:", "climate brokers 2:"),
            ("climate away", "climate away 8\n#"),
            ("act 10", "act ten"),
        ] {
            let broken = text.replace(there, instead);
            assert_ne!(broken, text, "{there}");
            assert!(broken.parse::<Scenario>().is_err(), "{instead}");
        }
    }

    #[test]
    fn the_same_seed_tells_the_same_story_and_another_one_another() {
        assert_eq!(Scenario::of(1), Scenario::of(1));
        assert_ne!(Scenario::of(1), Scenario::of(2));
    }

    #[test]
    fn every_kind_of_act_is_in_some_story() {
        let mut seen: Vec<Kind> = (0..200)
            .flat_map(|seed| Scenario::of(seed).acts)
            .map(|act| act.kind)
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, Kind::ALL);
    }
}
