//! Where the replicas of new partitions go: the algorithm of all Java controllers, so that klamm spreads as they do.
//!
//! Must never draw a random number: where to start and how far to shift come from outside. Must never see a klamm: who
//! may host replicas is given. Upstream: `AdminUtils.assignReplicasToBrokers` (KIP-36).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{BrokerId, BrokerIds};
use crate::state::ControllerContext;

/// A broker that may host replicas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The broker.
    pub id: BrokerId,
    /// Where it stands, if that is known.
    pub rack: Option<String>,
}

/// Where the spreading begins. Any numbers do: they count modulo the number of brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The place in the list of brokers of partition 0's first replica.
    pub start: u32,
    /// How far from the first replica the second one is, less one.
    pub shift: u32,
}

/// What cannot be placed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unplaceable {
    /// Less than one replica each.
    NoReplicas,
    /// More replicas each than there are brokers.
    TooFewBrokers {
        /// How many there are.
        available: usize,
    },
}

/// The genuine brokers that are registered, in the order of their ids. As upstream those that are shutting down are among
/// them: their replicas come back with them.
pub fn candidates(context: &ControllerContext) -> Vec<Candidate> {
    let registered = context.live_or_shutting_down_brokers();
    let candidate = |broker: &crate::model::Broker| Candidate {
        id: broker.id,
        rack: broker.rack.as_deref().map(str::to_owned),
    };
    registered
        .map(|registration| candidate(&registration.broker))
        .collect()
}

/// The replicas of `partitions` partitions, the first of which has the index `first_partition`.
///
/// Racks count only if every broker has one; Java refuses a cluster in which some have none, which helps nobody.
///
/// # Errors
/// More or less replicas each than the brokers can take.
pub fn place(
    brokers: &[Candidate],
    partitions: usize,
    replication_factor: usize,
    first_partition: usize,
    spread: Spread,
) -> Result<Vec<BrokerIds>, Unplaceable> {
    let available = brokers.len();
    if replication_factor == 0 {
        return Err(Unplaceable::NoReplicas);
    }
    if replication_factor > available {
        return Err(Unplaceable::TooFewBrokers { available });
    }
    let ring = Ring::of(brokers);
    let start = to_usize(spread.start) % available;
    let mut shift = to_usize(spread.shift) % available;
    let indexes = first_partition..first_partition.saturating_add(partitions);
    let placed = indexes.map(|index| {
        if index > 0 && index % available == 0 {
            shift += 1;
        }
        ring.replicas((index + start) % available, shift, replication_factor)
    });
    Ok(placed.collect())
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The brokers in the order in which replicas go round.
struct Ring<'a> {
    brokers: Vec<(BrokerId, Option<&'a str>)>,
    /// How many racks there are; 0 where they don't count.
    racks: usize,
}

impl<'a> Ring<'a> {
    fn of(brokers: &'a [Candidate]) -> Ring<'a> {
        let mut by_rack: BTreeMap<&str, Vec<BrokerId>> = BTreeMap::new();
        for broker in brokers {
            let Some(rack) = broker.rack.as_deref() else {
                let unaware = brokers.iter().map(|broker| (broker.id, None));
                return Ring {
                    brokers: unaware.collect(),
                    racks: 0,
                };
            };
            by_rack.entry(rack).or_default().push(broker.id);
        }
        by_rack.values_mut().for_each(|ids| ids.sort_unstable());
        Ring {
            racks: by_rack.len(),
            brokers: alternating(&by_rack),
        }
    }

    /// The replicas of one partition: `first` is its place in the ring.
    fn replicas(&self, first: usize, shift: usize, replication_factor: usize) -> BrokerIds {
        let count = self.brokers.len();
        let others = count.saturating_sub(1).max(1);
        let mut chosen = vec![self.brokers[first].0];
        let mut used_racks = BTreeSet::from([self.brokers[first].1]);
        // Without racks every step of the walk is taken; with them it begins as many steps further as there are racks.
        let begin = shift * self.racks.max(1);
        // The walk passes every other broker once in `others` steps, and each pass takes one at least.
        for step in 0.. {
            if chosen.len() == replication_factor {
                break;
            }
            let (id, rack) = self.brokers[(first + 1 + (begin + step) % others) % count];
            let rack_is_free =
                self.racks == 0 || !used_racks.contains(&rack) || used_racks.len() == self.racks;
            if rack_is_free && !chosen.contains(&id) {
                chosen.push(id);
                used_racks.insert(rack);
            }
        }
        chosen.into_iter().collect()
    }
}

/// One broker of each rack in turn.
fn alternating<'a>(by_rack: &BTreeMap<&'a str, Vec<BrokerId>>) -> Vec<(BrokerId, Option<&'a str>)> {
    let longest = by_rack.values().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| {
        by_rack
            .iter()
            .filter_map(move |(rack, ids)| ids.get(turn).map(|id| (*id, Some(*rack))))
    });
    turns.collect()
}

#[cfg(test)]
mod tests;
