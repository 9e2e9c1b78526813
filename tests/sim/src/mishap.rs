//! What befalls lines, watches and copies by chance, and how often each of it did in one world.
//!
//! Must never decide whether it happens: rates are a climate's, draws are `Chance`'s.

use std::cell::Cell;
use std::rc::Rc;

/// So long a way to ZooKeeper or back is a slow one, in milliseconds.
pub const SLOW_ZOOKEEPER_MS: u64 = 20;

/// So long a way to a broker or back is a slow one, in milliseconds.
pub const SLOW_BROKER_MS: u64 = 100;

/// What may befall somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// A connection to ZooKeeper was cut before the server saw a request.
    ZooKeeperRequestLost,
    /// ZooKeeper did what it was asked, and the connection was cut before its answer arrived.
    ZooKeeperAnswerLost,
    /// A request to ZooKeeper, or its answer, was under way for long.
    ZooKeeperSlow,
    /// A watch was heard later than it fired.
    WatchLate,
    /// A connection stands again, and no watch outlived it.
    WatchesLost,
    /// A connection to a broker was cut before it saw a request.
    BrokerRequestLost,
    /// A broker did what it was asked, and the connection was cut before its answer arrived.
    BrokerAnswerLost,
    /// A request to a broker, or its answer, was under way for long.
    BrokerSlow,
    /// A follower stopped fetching for a while.
    FollowerStalled,
}

impl Mishap {
    /// All of them.
    pub const ALL: [Mishap; 9] = [
        Mishap::ZooKeeperRequestLost,
        Mishap::ZooKeeperAnswerLost,
        Mishap::ZooKeeperSlow,
        Mishap::WatchLate,
        Mishap::WatchesLost,
        Mishap::BrokerRequestLost,
        Mishap::BrokerAnswerLost,
        Mishap::BrokerSlow,
        Mishap::FollowerStalled,
    ];

    /// Its line in a table.
    pub fn words(self) -> &'static str {
        match self {
            Mishap::ZooKeeperRequestLost => "requests that ZooKeeper never saw",
            Mishap::ZooKeeperAnswerLost => "answers of ZooKeeper that were lost",
            Mishap::ZooKeeperSlow => "slow ways to ZooKeeper or back (20 ms or more)",
            Mishap::WatchLate => "watches that were heard late",
            Mishap::WatchesLost => "connections that took all watches with them",
            Mishap::BrokerRequestLost => "requests that a broker never saw",
            Mishap::BrokerAnswerLost => "answers of brokers that were lost",
            Mishap::BrokerSlow => "slow ways to a broker or back (100 ms or more)",
            Mishap::FollowerStalled => "followers that stopped fetching for a while",
        }
    }
}

/// How often each befell somebody. Clones count into the same.
#[derive(Debug, Clone, Default)]
pub struct Mishaps(Rc<[Cell<u64>; Mishap::ALL.len()]>);

impl Mishaps {
    /// It happened once more.
    pub fn count(&self, mishap: Mishap) {
        let times = &self.0[mishap as usize];
        times.set(times.get() + 1);
    }

    /// How often each happened, in the order of [`Mishap::ALL`].
    pub fn counts(&self) -> impl Iterator<Item = (Mishap, u64)> + '_ {
        Mishap::ALL
            .into_iter()
            .map(|mishap| (mishap, self.0[mishap as usize].get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_for_itself_and_clones_count_into_the_same() {
        let mishaps = Mishaps::default();
        for (times, mishap) in Mishap::ALL.into_iter().enumerate() {
            for _ in 0..times {
                mishaps.clone().count(mishap);
            }
        }
        let counts: Vec<u64> = mishaps.counts().map(|(_, times)| times).collect();
        assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
