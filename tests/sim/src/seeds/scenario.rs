//! One whole story: a seed, the climate that follows from it, and the acts. It is all that a run follows from.
//!
//! A story that failed is kept as text: the seed, what of its climate was taken away, and the acts that are left. Must
//! never depend on anything but the seed and the text.

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
}

impl Ease {
    /// All of them, the one that explains most first.
    pub const ALL: [Ease; 7] = [
        Ease::NoZooKeeperLosses,
        Ease::NoNetworkLosses,
        Ease::NoLag,
        Ease::QuickZooKeeper,
        Ease::QuickNetwork,
        Ease::OneKlamm,
        Ease::NoProducers,
    ];

    fn word(self) -> &'static str {
        match self {
            Ease::NoZooKeeperLosses => "no-zookeeper-losses",
            Ease::QuickZooKeeper => "quick-zookeeper",
            Ease::NoLag => "no-lag",
            Ease::NoNetworkLosses => "no-network-losses",
            Ease::QuickNetwork => "quick-network",
            Ease::OneKlamm => "one-klamm",
            Ease::NoProducers => "no-producers",
        }
    }

    fn apply(self, climate: &mut Climate) {
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
        }
    }
}

/// See the file's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// What was taken away from its climate.
    pub eased: Vec<Ease>,
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
        acts.extend((0..climate.acts).filter_map(|_| {
            Some(Act {
                at_ms: chance.below(climate.safety_ms),
                kind: weighted(&chance, &weights)?,
                draw: chance.bits(),
            })
        }));
        acts.sort_by_key(|act| act.at_ms);
        Scenario {
            seed,
            eased: Vec::new(),
            acts,
        }
    }

    /// Its climate.
    pub fn climate(&self) -> Climate {
        let mut climate = Climate::of(&Chance::of(self.seed, "climate"));
        for ease in &self.eased {
            ease.apply(&mut climate);
        }
        climate
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
        for ease in &self.eased {
            writeln!(f, "ease {}", ease.word())?;
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
        let (mut seed, mut eased, mut acts) = (None, Vec::new(), Vec::new());
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("seed", number)) => {
                    let number = number.trim().parse();
                    seed = Some(number.map_err(|why| format!("`{line}`: {why}"))?);
                }
                Some(("ease", word)) => {
                    let ease = Ease::ALL
                        .into_iter()
                        .find(|ease| ease.word() == word.trim());
                    eased.push(ease.ok_or_else(|| format!("`{line}`: no such ease"))?);
                }
                Some(("act", act)) => acts.push(act.parse()?),
                _ => return Err(format!("`{line}` is neither a seed, an ease nor an act")),
            }
        }
        Ok(Scenario {
            seed: seed.ok_or("the story has no seed")?,
            eased,
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
            scenario.eased = Ease::ALL[..seed as usize % 7].to_vec();
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        assert!("act 1 kill-klamm 0".parse::<Scenario>().is_err());
    }

    #[test]
    fn the_same_seed_tells_the_same_story_and_another_one_another() {
        assert_eq!(Scenario::of(1), Scenario::of(1));
        assert_eq!(Scenario::of(1).climate(), Scenario::of(1).climate());
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
