//! A broker that stays dead for a while after faults have stopped, and what may wait for it.
//!
//! All else must come to rest without it. Must never excuse what other brokers could do alone.

use std::collections::BTreeSet;

use klamm::effect::StateRead;
use klamm::model::{BrokerId, BrokerIds, InterBrokerProtocol, ReplicaAssignment, TopicPartition};
use klamm::zk::{paths, znode};

use super::simulator::Simulator;
use crate::world::{KLAMM, protocol};

/// The first release whose leaders understand that a member is refused because it is not live.
const ASKS_WHO_IS_LIVE: InterBrokerProtocol = InterBrokerProtocol::new(3, 2, 0);

impl Simulator {
    /// The broker of the climate that is to stay away dies.
    pub(super) fn leave_one_away(&mut self) {
        self.away = self.climate.away.map(BrokerId);
        if let Some(away) = self.away {
            self.trace
                .line(self.now_ms(), format_args!("broker {away} stays away"));
            self.trace
                .count("worlds that came to rest without a broker");
            self.world.kill(away.0);
        }
    }

    /// It comes back, if one was away. Who it was.
    pub(super) fn bring_back_who_was_away(&mut self) -> Option<BrokerId> {
        let away = self.away.take()?;
        self.trace
            .line(self.now_ms(), format_args!("broker {away} comes back"));
        self.start_broker(away.0);
        Some(away)
    }

    /// Whether a broker stays dead for now.
    pub(super) fn is_away(&self, id: BrokerId) -> bool {
        self.away == Some(id)
    }

    /// Whether a partition has a replica on the broker that is away: moves of it may wait.
    pub(super) fn needs_who_is_away(&self, assignment: &ReplicaAssignment) -> bool {
        self.away.is_some_and(|id| assignment.replicas.contains(id))
    }

    /// Of these replicas, those that can't be in sync yet: the one that is away, and the klamms whose place is free only once
    /// that one takes part in the move.
    pub(super) fn out_of_reach(&self, replicas: &BrokerIds) -> BTreeSet<BrokerId> {
        let waits = self.away.is_some_and(|id| replicas.contains(id));
        let is_out = |id: &BrokerId| waits && (self.is_away(*id) || id.0 >= KLAMM);
        replicas.iter().filter(is_out).collect()
    }

    /// Whether a topic is to be deleted and has a log on the broker that is away: it is half gone until that is back.
    pub(super) fn deletion_waits(&self, topic: &str) -> bool {
        let marker = format!("{}/{topic}", paths::DELETE_TOPICS);
        let is_marked = || self.world.zookeeper.look(&marker).is_some();
        let node = self.away.and_then(|_| self.world.readable_topic(topic));
        let needs = |assignment: &ReplicaAssignment| self.needs_who_is_away(assignment);
        node.is_some_and(|topic| topic.partitions.values().any(needs)) && is_marked()
    }

    /// Whether nothing of a request to move partitions can be done without the broker that is away.
    pub(super) fn moves_wait(&self) -> bool {
        let path = paths::REASSIGN_PARTITIONS;
        let (Some(away), Some(node)) = (self.away, self.world.zookeeper.look(path)) else {
            return false;
        };
        let stat = node.stat();
        let asked = znode::decode_reassignment(path, node.data(), stat.version, stat.czxid);
        let waits = |at: &TopicPartition| {
            let topic = self.world.readable_topic(at.topic.as_str());
            let assignment = topic.and_then(|topic| topic.partitions.get(&at.partition).cloned());
            assignment.is_some_and(|assignment| self.needs_who_is_away(&assignment))
        };
        let mut targets = asked.targets.iter();
        asked.broken.is_empty() && targets.all(|(at, target)| target.contains(away) || waits(at))
    }

    /// Whether a partition's state is what it should be: led by a replica, all in sync but for who is away. Where that one
    /// alone is in sync, nobody leads.
    pub(super) fn state_fault(
        &self,
        state: Option<&StateRead>,
        assignment: &ReplicaAssignment,
    ) -> Option<&'static str> {
        let out = self.out_of_reach(&assignment.replicas);
        let replicas = assignment.replicas.iter();
        let here: BTreeSet<BrokerId> = replicas.filter(|id| !out.contains(id)).collect();
        let Some(state) = state else {
            return (!here.is_empty()).then_some("has no state");
        };
        let state = &state.leader_and_isr;
        let isr: BTreeSet<BrokerId> = state.isr.iter().collect();
        let waits = here.is_empty() || self.away.is_some_and(|away| isr == BTreeSet::from([away]));
        if waits && state.leader().is_none() {
            return None;
        }
        match state.leader() {
            Some(leader) if here.contains(&leader) => {
                let may_be_more = self.away.filter(|_| self.may_let_the_dead_in());
                let others = isr.difference(&here).copied();
                let is_whole =
                    isr.is_superset(&here) && others.eq(may_be_more.filter(|id| isr.contains(id)));
                (!is_whole).then_some("is not in sync everywhere")
            }
            _ => Some("is not led by a replica"),
        }
    }

    /// Up to 3.1 nobody asks whether a member that a leader wants is live, and a leader without producers keeps it: nothing
    /// is there that it lags behind (KIP-841).
    fn may_let_the_dead_in(&self) -> bool {
        let mut brokers = self.climate.brokers.iter();
        brokers.any(|broker| protocol(&broker.release) < ASKS_WHO_IS_LIVE)
    }
}
