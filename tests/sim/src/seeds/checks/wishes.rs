//! Whether what happened was asked for, and whether what was asked for happened.
//!
//! | what | rule |
//! |---|---|
//! | a klamm removes a topic | its deletion was asked for while this topic was there, or before it was made |
//! | a klamm removes a request for a deletion | the topic is gone, or was made after that request |
//! | a client hears that its topic was made or has grown | it is so, or the topic has gone since |
//!
//! Must never take a wish for granted that concerned an earlier topic of the same name.

use std::collections::{BTreeMap, BTreeSet};

use klamm::model::TopicName;
use klamm::zk::paths::{self, TopicPath};

use super::states::Author;
use super::strays::Strays;
use crate::world::World;
use crate::zookeeper::Znode;

/// See the file's comment.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The topics that there are, by the transaction that made each.
    there: BTreeMap<TopicName, i64>,
    /// The requests for deletions that there are, likewise.
    marked: BTreeMap<TopicName, i64>,
    /// Whose deletion was asked for while they were there.
    unwanted: BTreeSet<TopicName>,
    /// How often topics of a name have gone.
    gone: BTreeMap<TopicName, usize>,
}

impl Wishes {
    /// Looks at what one transaction did to topics and to requests for deletions. What is wrong with it.
    pub fn see(
        &mut self,
        nodes: &[(String, Option<Znode>)],
        author: Author,
        strays: &Strays,
    ) -> Vec<String> {
        let is_klamm = matches!(author, Author::Klamm(_));
        let mut breaches = Vec::new();
        let mut answered = Vec::new();
        for (path, node) in nodes {
            let made_at = node.as_ref().map(|node| node.stat().czxid);
            if let Some(topic) = asked_by(path) {
                match made_at {
                    Some(made_at) => {
                        self.marked.insert(topic.clone(), made_at);
                        self.unwanted.insert(topic);
                    }
                    None => answered.extend(self.marked.remove(&topic).map(|at| (topic, at))),
                }
            } else if let Some(TopicPath::Topic(topic)) = paths::topic_path(path) {
                match made_at {
                    Some(made_at) => self.is_there(topic, made_at),
                    None if self.there.remove(&topic).is_some() => {
                        *self.gone.entry(topic.clone()).or_default() += 1;
                        if is_klamm && !self.unwanted.contains(&topic) {
                            let breach = "and nobody had asked for it";
                            breaches.push(format!("{author:?} removed topic {topic}, {breach}"));
                        }
                        self.unwanted.remove(&topic);
                    }
                    None => {}
                }
            }
        }
        let swallowed = answered.into_iter().filter(|(topic, asked_at)| {
            let made_at = self.there.get(topic);
            made_at.is_some_and(|made_at| made_at < asked_at) && !strays.is_muddled(topic)
        });
        if is_klamm {
            breaches.extend(swallowed.map(|(topic, _)| {
                format!("{author:?} removed the request to delete {topic}, which is there")
            }));
        }
        breaches
    }

    fn is_there(&mut self, topic: TopicName, made_at: i64) {
        if self.there.insert(topic.clone(), made_at) == Some(made_at) {
            return;
        }
        match self.marked.contains_key(&topic) {
            true => _ = self.unwanted.insert(topic),
            false => _ = self.unwanted.remove(&topic),
        }
    }

    /// How often topics of this name have gone.
    pub fn times_gone(&self, topic: &TopicName) -> usize {
        self.gone.get(topic).copied().unwrap_or_default()
    }

    /// A client was told that its topic has at least so many partitions, none having gone since it asked.
    pub fn was_made(&self, world: &World, topic: &TopicName, count: usize) -> Option<String> {
        let znode = world.readable_topic(topic.as_str());
        let has = znode.map(|znode| znode.partitions.len());
        let is_unreadable = has.is_none() && self.there.contains_key(topic);
        (!is_unreadable && has.is_none_or(|has| has < count)).then(|| {
            format!("a client was told that {topic} has {count} partitions, and there are {has:?}")
        })
    }
}

fn asked_by(path: &str) -> Option<TopicName> {
    let name = path.strip_prefix(paths::DELETE_TOPICS)?.strip_prefix('/')?;
    Some(TopicName::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zookeeper::ZooKeeper;
    use klamm::model::BrokerId;

    const KLAMM: Author = Author::Klamm(BrokerId(9));

    /// A tree whose every change is shown to the wishes, as a klamm's.
    #[derive(Default)]
    struct Told {
        zookeeper: ZooKeeper,
        wishes: Wishes,
    }

    impl Told {
        fn made(&mut self, path: &str) -> Vec<String> {
            self.zookeeper.poke(path, b"");
            self.seen(path)
        }

        fn gone(&mut self, path: &str) -> Vec<String> {
            self.zookeeper.uproot(path);
            self.seen(path)
        }

        fn seen(&mut self, path: &str) -> Vec<String> {
            let nodes = [(path.to_owned(), self.zookeeper.look(path))];
            self.wishes.see(&nodes, KLAMM, &Strays::default())
        }
    }

    const TOPIC: &str = "/brokers/topics/t";
    const MARK: &str = "/admin/delete_topics/t";

    #[test]
    fn a_topic_that_nobody_wanted_gone_must_stay() {
        let mut told = Told::default();
        told.made(TOPIC);
        assert_eq!(told.gone(TOPIC).len(), 1);
    }

    #[test]
    fn a_wish_holds_for_the_topic_that_was_there() {
        let mut told = Told::default();
        told.made(TOPIC);
        told.made(MARK);
        assert_eq!(told.gone(TOPIC), [""; 0]);
        assert_eq!(told.gone(MARK), [""; 0]);
        assert_eq!(told.wishes.times_gone(&TopicName::new("t")), 1);
        told.made(TOPIC);
        assert_eq!(told.gone(TOPIC).len(), 1);
    }

    #[test]
    fn a_request_that_stands_concerns_who_is_made_under_it() {
        let mut told = Told::default();
        told.made(MARK);
        told.made(TOPIC);
        assert_eq!(told.gone(TOPIC), [""; 0]);
    }

    #[test]
    fn a_request_goes_with_its_topic_and_not_before() {
        let mut told = Told::default();
        told.made(TOPIC);
        told.made(MARK);
        assert_eq!(told.gone(MARK).len(), 1);
    }
}
