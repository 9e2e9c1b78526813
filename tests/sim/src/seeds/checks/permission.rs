//! Whether an unclean election is allowed: by configuration as it stood lately, or because somebody has just asked for it.
//!
//! What was withdrawn, or forbidden for one topic, is forgiven no longer than a controller that hung or was cut off may have
//! overlooked it. Must never forgive for the whole cluster what was asked for one partition.

use std::collections::BTreeMap;

use klamm::model::{TopicName, TopicPartition};
use klamm::zk::{paths, znode};

use crate::zookeeper::Znode;

/// A controller may decide by a configuration that was read so long ago.
const OVERLOOKED_MS: u64 = 30_000;

/// A request may lie about for so long before it is served: its controller hangs first, and is cut off then.
const ASKED_MS: u64 = 60_000;

/// What `unclean.leader.election.enable` said, and since when.
type History = Vec<(u64, Option<bool>)>;

/// See the file's comment.
#[derive(Debug, Default)]
pub struct Permissions {
    by_topic: BTreeMap<TopicName, History>,
    by_default: History,
    /// When unclean leaders of single partitions were last asked for, and of all.
    asked_at_ms: BTreeMap<TopicPartition, u64>,
    asked_for_all_at_ms: Option<u64>,
}

impl Permissions {
    /// A configuration may have been written.
    pub fn see(&mut self, path: &str, node: Option<&Znode>, now_ms: u64) {
        let history = match path.strip_prefix("/config/topics/") {
            Some(name) => self.by_topic.entry(TopicName::new(name)).or_default(),
            None if path == paths::DEFAULT_BROKER_CONFIG => &mut self.by_default,
            None => return,
        };
        let read = node.map(|node| znode::decode_election_config(path, node.data()));
        let config = read.and_then(|read| read.found());
        history.push((
            now_ms,
            config.and_then(|config| config.unclean_leader_election_enable),
        ));
    }

    /// A client asks for leaders of these partitions, in sync or not; `None`: of all.
    pub fn were_asked(&mut self, partitions: Option<&[TopicPartition]>, now_ms: u64) {
        match partitions {
            Some(asked) => self
                .asked_at_ms
                .extend(asked.iter().map(|at| (at.clone(), now_ms))),
            None => self.asked_for_all_at_ms = Some(now_ms),
        }
    }

    /// Whether somebody who is not in sync may be elected.
    pub fn allow(&self, at: &TopicPartition, now_ms: u64) -> bool {
        let asked = self.asked_at_ms.get(at).copied();
        let is_asked = asked.max(self.asked_for_all_at_ms);
        is_asked.is_some_and(|at_ms| at_ms + ASKED_MS >= now_ms)
            || self.configuration_allows(&at.topic, now_ms)
    }

    fn configuration_allows(&self, topic: &TopicName, now_ms: u64) -> bool {
        let none = History::new();
        let own = self.by_topic.get(topic).unwrap_or(&none);
        let begins_ms = now_ms.saturating_sub(OVERLOOKED_MS);
        let changes = own.iter().chain(&self.by_default).map(|(at_ms, _)| *at_ms);
        let changes = changes.filter(|at_ms| *at_ms >= begins_ms);
        changes.chain([begins_ms]).any(|at_ms| {
            let own = said_at(own, at_ms);
            own.or_else(|| said_at(&self.by_default, at_ms)) == Some(true)
        })
    }
}

fn said_at(history: &History, at_ms: u64) -> Option<bool> {
    let before = history.iter().rev().find(|(since, _)| *since <= at_ms);
    before.and_then(|(_, said)| *said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::partition;

    fn said(permissions: &mut Permissions, path: &str, value: Option<bool>, now_ms: u64) {
        let config = klamm::effect::ElectionConfig {
            unclean_leader_election_enable: value,
        };
        let zookeeper = crate::zookeeper::ZooKeeper::new();
        zookeeper.poke(path, &znode::encode_election_config(&config));
        permissions.see(path, zookeeper.look(path).as_ref(), now_ms);
    }

    #[test]
    fn what_was_withdrawn_is_forgiven_for_a_while_alone() {
        let mut permissions = Permissions::default();
        let (t, u) = (partition("t-0"), partition("u-0"));
        assert!(!permissions.allow(&t, 5));
        said(&mut permissions, "/config/topics/t", Some(true), 10);
        assert!(permissions.allow(&t, 10));
        assert!(!permissions.allow(&u, 10));
        said(&mut permissions, "/config/topics/t", None, 100_000);
        assert!(permissions.allow(&t, 100_000 + OVERLOOKED_MS - 1));
        assert!(!permissions.allow(&t, 100_001 + OVERLOOKED_MS));
    }

    #[test]
    fn a_topic_that_forbids_it_is_not_excused_by_the_default() {
        let mut permissions = Permissions::default();
        let (t, u) = (partition("t-0"), partition("u-0"));
        said(&mut permissions, "/config/topics/t", Some(false), 10);
        said(
            &mut permissions,
            paths::DEFAULT_BROKER_CONFIG,
            Some(true),
            20,
        );
        assert!(permissions.allow(&u, 50_000));
        assert!(!permissions.allow(&t, 50_000));
        // The topic is gone, and its configuration with it.
        permissions.see("/config/topics/t", None, 60_000);
        assert!(permissions.allow(&t, 60_000));
    }

    #[test]
    fn who_asks_for_a_partition_asks_for_no_other_and_not_for_ever() {
        let mut permissions = Permissions::default();
        let (t0, t1) = (partition("t-0"), partition("t-1"));
        permissions.were_asked(Some(std::slice::from_ref(&t0)), 10);
        assert!(permissions.allow(&t0, 10 + ASKED_MS));
        assert!(!permissions.allow(&t0, 11 + ASKED_MS));
        assert!(!permissions.allow(&t1, 10));
        permissions.were_asked(None, 20);
        assert!(permissions.allow(&t1, 20));
    }
}
