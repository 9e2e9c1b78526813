//! Which replicas left their brokers under which controller.
//!
//! A replica that a move leaves behind is stopped after its assignment was written, and nobody waits for that: where the
//! controller is gone by then its log stays, under the Java controller too. A topic that is deleted is different: its nodes
//! go only when every broker has said that the logs are gone. Must never forgive what is left of a deletion.

use std::collections::{BTreeMap, BTreeSet};

use klamm::model::{BrokerId, TopicName, TopicPartition};
use klamm::zk::{paths, znode};

use crate::zookeeper::Znode;

type Hosts = BTreeMap<i32, BTreeSet<BrokerId>>;

/// See the file's comment.
#[derive(Debug, Default)]
pub struct Strays {
    assigned: BTreeMap<TopicName, Hosts>,
    left: BTreeMap<(BrokerId, TopicPartition), i32>,
    /// Topics whose nodes were broken for a while: nobody who came back then could tell what was left there.
    muddled: BTreeSet<TopicName>,
}

impl Strays {
    /// A topic's node was written under this controller epoch, or removed. `is_attended`: the controller has reached this
    /// incarnation of the broker.
    pub fn see(
        &mut self,
        path: &str,
        node: Option<&Znode>,
        epoch: i32,
        is_attended: impl Fn(BrokerId) -> bool,
    ) {
        let name = path.strip_prefix(paths::TOPICS);
        let name = name.and_then(|name| name.strip_prefix('/'));
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) else {
            return;
        };
        let topic = TopicName::new(name);
        let Some(node) = node else {
            self.assigned.remove(&topic);
            // What was left behind under an earlier controller is not among what a deletion looks after.
            self.left
                .retain(|(_, at), left_in| at.topic != topic || *left_in < epoch);
            return;
        };
        let read = znode::decode_topic(path, node.data(), node.stat().version);
        let Some(found) = read.found() else {
            self.muddled.insert(topic);
            return;
        };
        let hosts = |assignment: &klamm::model::ReplicaAssignment| {
            assignment.replicas.iter().collect::<BTreeSet<BrokerId>>()
        };
        let partitions = found.partitions.iter();
        let now: Hosts = partitions
            .map(|(index, assignment)| (*index, hosts(assignment)))
            .collect();
        for (index, before) in self.assigned.get(&topic).into_iter().flatten() {
            let stay = now.get(index).cloned().unwrap_or_default();
            for broker in before.difference(&stay) {
                let at = TopicPartition::new(&topic, *index);
                // One that has just come back is gone still for the controller: nobody tells it.
                let left_in = if is_attended(*broker) {
                    epoch
                } else {
                    epoch - 1
                };
                self.left.insert((*broker, at), left_in);
            }
        }
        for (index, brokers) in &now {
            for broker in brokers {
                let at = TopicPartition::new(&topic, *index);
                self.left.remove(&(*broker, at));
            }
        }
        self.assigned.insert(topic, now);
    }

    /// The replicas that a topic's node named last.
    pub fn assigned(&self, topic: &TopicName) -> impl Iterator<Item = (BrokerId, TopicPartition)> {
        let hosts = self.assigned.get(topic).into_iter().flatten();
        let named = hosts.flat_map(|(index, brokers)| {
            let at = TopicPartition::new(topic, *index);
            brokers.iter().map(move |broker| (*broker, at.clone()))
        });
        named.collect::<Vec<_>>().into_iter()
    }

    /// Whether a topic's node was broken for a while.
    pub fn is_muddled(&self, topic: &TopicName) -> bool {
        self.muddled.contains(topic)
    }

    /// Whether the controller that is in office under `epoch` can't know of a log that a move left behind.
    pub fn is_beyond(&self, broker: BrokerId, at: &TopicPartition, epoch: i32) -> bool {
        let left = self.left.get(&(broker, at.clone()));
        left.is_some_and(|left_in| *left_in < epoch) || self.muddled.contains(&at.topic)
    }
}
