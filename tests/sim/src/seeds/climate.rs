//! The climate of a world: what it is made of, and how rough it is there. Every seed has its own.
//!
//! Must never change while a world lives, but for the good, when faults stop.

use std::collections::BTreeSet;

use super::life::Habits;
use crate::brokers::NetworkWeather;
use crate::chance::{Chance, Rate, Span};
use crate::world::KLAMM;
use crate::zk_port::{TopicWatches, Weather};

/// The releases that a cluster may be made of, each with the protocol of its own.
const RELEASES: [&str; 9] = [
    "1.1", "2.1", "2.2", "2.4", "2.7", "2.8", "3.2", "3.5", "3.9",
];

/// A broker of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerClimate {
    /// Its id.
    pub id: i32,
    /// The release of its binaries.
    pub release: String,
    /// Its `inter.broker.protocol.version`.
    pub protocol: String,
}

/// See the file's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Climate {
    /// The brokers.
    pub brokers: Vec<BrokerClimate>,
    /// The lowest of their protocols.
    pub protocol: String,
    /// How many klamms there are.
    pub klamms: usize,
    /// How klamms watch topics.
    pub watches: TopicWatches,
    /// How long a request to ZooKeeper, or its answer, is under way, in milliseconds.
    pub zookeeper_latency_ms: Span,
    /// How a klamm's line to ZooKeeper fares.
    pub zookeeper: Weather,
    /// How long followers lag, in milliseconds; `None`: klamms talk to the leader.
    pub lag_ms: Option<Span>,
    /// Bytes that ZooKeeper takes in one request.
    pub request_limit_bytes: usize,
    /// How the connections to brokers fare.
    pub network: NetworkWeather,
    /// How long a broker's session outlives it, in milliseconds.
    pub broker_session_timeout_ms: u64,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_max_ms: u64,
    /// How often a broker looks after its replicas, in milliseconds.
    pub broker_tick_ms: Span,
    /// How often a leader's producers write, at each look.
    pub produce: Rate,
    /// How often a follower stops fetching for a while, at each fetch.
    pub stall: Rate,
    /// Whether klamms bring leaders back to preferred replicas by themselves.
    pub balances: bool,
    /// How long faults go on, in milliseconds.
    pub safety_ms: u64,
    /// A broker that stays dead for a while when faults have stopped.
    pub away: Option<i32>,
}

/// Rates that are never, seldom or often, one as likely as the other.
fn rate(chance: &Chance, often: u32) -> Rate {
    match chance.below(3) {
        0 => Rate::NEVER,
        1 => Rate(often / 10),
        _ => Rate(often),
    }
}

fn span(chance: &Chance, mosts: &[u64]) -> Span {
    Span::new(0, *chance.pick(mosts).unwrap_or(&0))
}

impl Climate {
    /// The climate of a seed.
    pub fn of(chance: &Chance) -> Climate {
        let newest = RELEASES.len() as u64;
        let count = 2 + chance.below(4) as i32;
        let release = |at: u64| RELEASES[at as usize % RELEASES.len()];
        let first = chance.below(newest);
        // Half of the clusters are of one release, the others are in the midst of an upgrade.
        let is_mixed = chance.once_in(2);
        let releases: Vec<u64> = (0..count)
            .map(|_| match is_mixed {
                true => first + chance.below(newest - first),
                false => first,
            })
            .collect();
        let oldest = releases.iter().copied().min().unwrap_or(first);
        // At the end of an upgrade the protocol is raised, one broker at a time.
        let is_raised = chance.once_in(3);
        let brokers = (1..=count).zip(&releases).map(|(id, at)| BrokerClimate {
            id,
            release: release(*at).to_owned(),
            protocol: match is_raised && chance.once_in(2) {
                true => release(*at).to_owned(),
                false => release(oldest).to_owned(),
            },
        });
        let brokers: Vec<BrokerClimate> = brokers.collect();
        let lowest = brokers.iter().map(|broker| &broker.protocol);
        let lowest = lowest.min_by_key(|protocol| crate::world::protocol(protocol));
        let lowest = lowest.cloned().unwrap_or_default();
        let has_followers = chance.once_in(2);
        Climate {
            brokers,
            protocol: lowest,
            klamms: 1 + chance.below(3) as usize,
            watches: match chance.once_in(3) {
                true => TopicWatches::OneShot,
                false => TopicWatches::Recursive,
            },
            zookeeper_latency_ms: span(chance, &[1, 3, 10, 60]),
            zookeeper: Weather {
                loss_before: rate(chance, 10_000),
                loss_after: rate(chance, 10_000),
                outage_ms: span(chance, &[100, 2_000, 12_000]),
                watch_delay_ms: span(chance, &[0, 20, 300]),
                session_timeout_ms: 6_000 + chance.below(12_000),
            },
            lag_ms: has_followers.then(|| Span::new(1, 1 + chance.below(400))),
            request_limit_bytes: match chance.once_in(4) {
                true => 4_000,
                false => crate::zookeeper::DEFAULT_REQUEST_LIMIT_BYTES,
            },
            network: NetworkWeather {
                latency_ms: span(chance, &[1, 10, 100, 800]),
                loss_before: rate(chance, 60_000),
                loss_after: rate(chance, 60_000),
                pause_ms: Span::new(50, 200),
                behind_above: *chance.pick(&[2, 6, 64]).unwrap_or(&64),
            },
            broker_session_timeout_ms: 6_000 + chance.below(12_000),
            replica_lag_max_ms: 1_000 + chance.below(9_000),
            broker_tick_ms: Span::new(20, 20 + chance.below(180)),
            produce: Rate(50_000 + chance.below(400_000) as u32),
            stall: rate(chance, 10_000),
            balances: chance.once_in(3),
            safety_ms: 10_000 + chance.below(50_000),
            // Of two brokers one alone would be left.
            away: (count >= 3 && chance.once_in(3)).then(|| 1 + chance.below(count as u64) as i32),
        }
    }

    /// Whether such a world can be built.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn check(&self) -> Result<(), String> {
        let ids: BTreeSet<i32> = self.brokers.iter().map(|broker| broker.id).collect();
        if ids.is_empty() {
            return Err("there are no brokers".to_owned());
        }
        if ids.len() < self.brokers.len() {
            return Err("two brokers have one id".to_owned());
        }
        if let Some(id) = ids.iter().find(|id| !(0..KLAMM).contains(*id)) {
            return Err(format!("{id} is no id of a broker: 0 to {} are", KLAMM - 1));
        }
        if self.klamms == 0 {
            return Err("there is no klamm".to_owned());
        }
        match self.away.filter(|id| !ids.contains(id)) {
            Some(id) => Err(format!("broker {id} can't be away: there is none")),
            None => Ok(()),
        }
    }

    /// How its brokers live.
    pub fn habits(&self) -> Habits {
        Habits {
            fetch_records: 20,
            lag_ms_max: self.replica_lag_max_ms,
            produce: self.produce,
            isr_retry_ms: 50,
            stall: self.stall,
            stall_ms: Span::new(500, 3 * self.replica_lag_max_ms),
        }
    }

    /// The same, with nothing going wrong any more and everybody quick.
    pub fn calmed(&self) -> Climate {
        Climate {
            zookeeper_latency_ms: Span::new(0, 1),
            zookeeper: Weather {
                session_timeout_ms: self.zookeeper.session_timeout_ms,
                ..Weather::FAIR
            },
            lag_ms: self.lag_ms.map(|_| Span::new(1, 5)),
            network: NetworkWeather {
                latency_ms: Span::new(0, 2),
                loss_before: Rate::NEVER,
                loss_after: Rate::NEVER,
                ..self.network
            },
            ..self.clone()
        }
    }
}
