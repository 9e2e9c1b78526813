//! What every write of a partition's state must keep to, whoever wrote it.
//!
//! | what | rule |
//! |---|---|
//! | leader epoch | never falls; a new leader has a higher one; one epoch has one leader |
//! | leader | is in the in-sync set; was in it before, unless unclean election was allowed |
//! | in-sync set | is never empty |
//! | controller epoch | a klamm writes under the newest epoch, and only under one that it won |

use std::collections::{BTreeMap, BTreeSet};

use klamm::effect::{Read, StateRead};
use klamm::model::{BrokerId, LeaderEpoch, TopicPartition};
use klamm::zk::paths::{self, TopicPath};
use klamm::zk::znode;

use crate::world::KLAMM;
use crate::zookeeper::Znode;

/// Who wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// A klamm.
    Klamm(BrokerId),
    /// A broker that leads.
    Broker(BrokerId),
    /// A Java controller.
    Rival,
    /// A tool.
    Operator,
}

/// What partitions' states held last, and who led under which epoch of their present life.
#[derive(Debug, Default)]
pub struct States {
    last: BTreeMap<TopicPartition, StateRead>,
    /// Who came into the in-sync set of the partition that was seen last.
    joined: Vec<BrokerId>,
    leaders: BTreeMap<TopicPartition, BTreeMap<i32, BrokerId>>,
    /// Under which epochs of their present life partitions got leaders that were not in sync.
    unclean: BTreeMap<TopicPartition, BTreeSet<LeaderEpoch>>,
}

/// The partition whose state a path is.
pub fn partition_of(path: &str) -> Option<TopicPartition> {
    let rest = path.strip_prefix(paths::TOPICS)?.strip_prefix('/')?;
    let mut parts = rest.split('/');
    let (topic, fixed, index, last) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if fixed != "partitions" || last != "state" || parts.next().is_some() {
        return None;
    }
    let topic = klamm::model::TopicName::new(topic);
    debug_assert!(matches!(
        paths::topic_path(path),
        Some(TopicPath::BelowTopic)
    ));
    Some(TopicPartition::new(&topic, index.parse().ok()?))
}

impl States {
    /// Looks at one write. What is wrong with it, if something is.
    pub fn see(
        &mut self,
        at: &TopicPartition,
        node: Option<&Znode>,
        author: Author,
        epoch: i32,
        may_be_unclean: bool,
    ) -> Option<String> {
        let Some(node) = node else {
            self.last.remove(at);
            self.leaders.remove(at);
            self.unclean.remove(at);
            return None;
        };
        let path = paths::state(at);
        let Read::Found(state) = znode::decode_state(&path, node.data(), node.stat().version)
        else {
            return Some(format!(
                "{author:?} wrote what can't be read: {}",
                node.text()
            ));
        };
        let before = self.last.insert(at.clone(), state.clone());
        if before.as_ref() == Some(&state) {
            // The same transaction is seen once for each node that it names.
            return None;
        }
        let before = before.filter(|before| before.partition_epoch < state.partition_epoch);
        if let Some(before) = &before {
            let was = &before.leader_and_isr.isr;
            let now = state.leader_and_isr.isr.iter();
            self.joined = now.filter(|id| !was.contains(*id)).collect();
        }
        let breach = self.breach(at, before.as_ref(), &state, author, epoch, may_be_unclean)?;
        Some(format!(
            "{author:?}: {breach}: from {before:?} to {state:?}"
        ))
    }

    /// Whom a klamm has just let into an in-sync set.
    pub fn joined(&mut self, author: Author) -> Vec<BrokerId> {
        let joined = std::mem::take(&mut self.joined);
        match author {
            Author::Klamm(_) => joined,
            Author::Broker(_) | Author::Rival | Author::Operator => Vec::new(),
        }
    }

    /// The partitions that a broker leads, as their states say.
    pub fn led_by(&self, id: BrokerId) -> Vec<(TopicPartition, StateRead)> {
        let all = self.last.iter();
        let led = all.filter(|(_, state)| state.leader_and_isr.leader == id);
        led.map(|(at, state)| (at.clone(), state.clone())).collect()
    }

    /// Whether somebody was elected under this epoch or a later one up to it who was not in sync, since a leader was last
    /// asked about. Whoever leads from then on follows from that election.
    pub fn was_elected_uncleanly(&mut self, at: &TopicPartition, epoch: LeaderEpoch) -> bool {
        let Some(unclean) = self.unclean.get_mut(at) else {
            return false;
        };
        let later = unclean.split_off(&epoch.next());
        let was_any = !unclean.is_empty();
        *unclean = later;
        was_any
    }

    fn breach(
        &mut self,
        at: &TopicPartition,
        before: Option<&StateRead>,
        state: &StateRead,
        author: Author,
        epoch: i32,
        may_be_unclean: bool,
    ) -> Option<&'static str> {
        let now = &state.leader_and_isr;
        let led = self.leaders.entry(at.clone()).or_default();
        if before.is_none() {
            led.clear();
        }
        let leader = *led.entry(now.leader_epoch.0).or_insert(now.leader);
        if leader != now.leader {
            return Some("two leaders under one leader epoch");
        }
        if now.isr.is_empty() {
            return Some("an empty in-sync set");
        }
        if let Some(leader) = now.leader()
            && !now.isr.contains(leader)
        {
            return Some("the leader is not in the in-sync set");
        }
        if matches!(author, Author::Klamm(_)) && state.controller_epoch.0 != epoch {
            return Some("a write under an epoch that is not the newest");
        }
        let was = &before?.leader_and_isr;
        if now.leader_epoch < was.leader_epoch {
            return Some("the leader epoch fell");
        }
        if now.leader != was.leader && now.leader_epoch == was.leader_epoch {
            return Some("another leader under the same leader epoch");
        }
        let is_elected = now.leader != was.leader && now.leader().is_some();
        // A klamm never fetches: where klamms alone were in sync, nothing was ever committed.
        let was_anybody = was.isr.iter().any(|id| id.0 < KLAMM);
        if is_elected && was_anybody && !was.isr.contains(now.leader) {
            let unclean = self.unclean.entry(at.clone()).or_default();
            unclean.insert(now.leader_epoch);
            if !may_be_unclean {
                return Some("a leader that was not in sync");
            }
        }
        None
    }
}
