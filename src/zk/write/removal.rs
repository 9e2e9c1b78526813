//! A topic's nodes go: level by level from the leaves up, and the last three in one transaction.
//!
//! Whatever is below the topic's node is found by looking, as somebody else may have put it there or taken it away. Must
//! never remove the topic's node before what tells of its deletion, or after it: a crash in between would leave a request
//! without a topic, and a creator up to 3.0 could slip in. Upstream: `deleteTopicZNode`, `deleteTopicConfigs` and
//! `deleteTopicDeletions` in `KafkaZkClient.scala`, one node a transaction.

use std::collections::BTreeMap;

use super::{Item, OPERATIONS_A_GROUP, Operation, Outcomes};
use crate::effect::{Term, ZkOutcome};
use crate::model::TopicName;
use crate::port::ZkFault;
use crate::zk::client::{Access, ZkClient};
use crate::zk::paths;
use crate::zk::read::Node;

/// How often a topic is looked at again that somebody changes meanwhile.
const TRIES_MAX: u32 = 5;

/// What of a topic is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Everything,
    /// Its configuration and the request to delete it.
    Remains,
}

/// A topic that is to go.
#[derive(Debug, Clone)]
pub(super) struct Removal {
    pub topic: TopicName,
    pub extent: Extent,
}

impl ZkClient {
    /// Removes topics; one outcome each.
    pub(super) async fn remove_topics(
        &self,
        access: Access,
        term: &Term,
        mut removals: Vec<(usize, Removal)>,
    ) -> Result<Outcomes, ZkFault> {
        let mut outcomes = Outcomes::new();
        for _ in 0..TRIES_MAX {
            if removals.is_empty() {
                return Ok(outcomes);
            }
            let of_index: BTreeMap<usize, Removal> = removals.iter().cloned().collect();
            let tried = self.try_removals(access, term, removals).await?;
            removals = Vec::new();
            for (index, outcome) in tried {
                match (outcome, of_index.get(&index)) {
                    (ZkOutcome::VersionConflict, Some(removal)) => {
                        removals.push((index, removal.clone()));
                    }
                    (outcome, _) => outcomes.push((index, outcome)),
                }
            }
        }
        let given_up = removals.into_iter();
        outcomes.extend(given_up.map(|(index, _)| (index, ZkOutcome::VersionConflict)));
        Ok(outcomes)
    }

    /// One round. A topic that changed since it was looked at is answered `VersionConflict`.
    async fn try_removals(
        &self,
        access: Access,
        term: &Term,
        removals: Vec<(usize, Removal)>,
    ) -> Result<Outcomes, ZkFault> {
        let mut last = self.last_items(access, &removals).await?;
        let mut levels = self.levels_below(access, &removals).await?;
        let mut outcomes = Outcomes::new();
        while let Some(level) = levels.pop() {
            let items = level.into_iter().enumerate();
            let owners: Vec<usize> = items.clone().map(|(_, (owner, _))| owner).collect();
            let items = items.map(|(place, (_, path))| Item::new(place, Operation::Delete(path)));
            for (place, outcome) in self.write_groups(access, term, items.collect()).await? {
                // One that is gone already is as good. One that has got a child meanwhile is looked at again.
                let ZkOutcome::Refused(why) = outcome else {
                    continue;
                };
                let owner = owners[place];
                last.retain(|item| item.index != owner);
                for level in &mut levels {
                    level.retain(|(other, _)| *other != owner);
                }
                if outcomes.iter().all(|(index, _)| *index != owner) {
                    outcomes.push((owner, refused_or_changed(why)));
                }
            }
        }
        let there: Vec<usize> = last.iter().map(|item| item.index).collect();
        for (index, outcome) in self.write_groups(access, term, last).await? {
            let outcome = match outcome {
                ZkOutcome::Refused(why) => refused_or_changed(why),
                // It was there a moment ago: what went along with it may still be.
                ZkOutcome::Missing => ZkOutcome::VersionConflict,
                other => other,
            };
            outcomes.push((index, outcome));
        }
        let of_none = |index: &usize| {
            !there.contains(index) && outcomes.iter().all(|(other, _)| other != index)
        };
        let absent: Vec<usize> = removals.iter().map(|(index, _)| *index).collect();
        let absent: Vec<usize> = absent.into_iter().filter(of_none).collect();
        outcomes.extend(absent.into_iter().map(|index| (index, ZkOutcome::Missing)));
        Ok(outcomes)
    }

    /// The last transaction of each topic: its node, its configuration and the request, as far as they are there.
    async fn last_items(
        &self,
        access: Access,
        removals: &[(usize, Removal)],
    ) -> Result<Vec<Item>, ZkFault> {
        let of_topic = |topic: &TopicName| {
            [
                paths::topic_config(topic),
                paths::topic_deletion(topic),
                paths::topic(topic),
            ]
        };
        let paths: Vec<String> = removals
            .iter()
            .flat_map(|(_, removal)| of_topic(&removal.topic))
            .collect();
        let nodes = self.nodes(access, &paths, OPERATIONS_A_GROUP).await?;
        let mut found = paths.into_iter().zip(nodes);
        let mut items = Vec::with_capacity(removals.len());
        for (index, removal) in removals {
            let mut operations: Vec<Operation> = Vec::with_capacity(3);
            for (path, node) in found.by_ref().take(3) {
                let is_topic = path == paths::topic(&removal.topic);
                match node {
                    Node::Found(_, stat) if is_topic => {
                        if removal.extent == Extent::Everything {
                            operations.push(Operation::DeleteRead(path, stat.version, stat.czxid));
                        }
                    }
                    Node::Found(..) => operations.push(Operation::Delete(path)),
                    Node::Missing | Node::Refused(_) => {}
                }
            }
            if let Some(operation) = operations.pop() {
                items.push(Item {
                    along: operations,
                    ..Item::new(*index, operation)
                });
            }
        }
        Ok(items)
    }

    /// What is below the topics' nodes, the level next to them first; each path with its topic's index.
    async fn levels_below(
        &self,
        access: Access,
        removals: &[(usize, Removal)],
    ) -> Result<Vec<Vec<(usize, String)>>, ZkFault> {
        let whole = removals
            .iter()
            .filter(|(_, removal)| removal.extent == Extent::Everything);
        let mut level: Vec<(usize, String)> = whole
            .map(|(index, removal)| (*index, paths::topic(&removal.topic)))
            .collect();
        let mut levels = Vec::new();
        while !level.is_empty() {
            let parents: Vec<String> = level.iter().map(|(_, path)| path.clone()).collect();
            let children = self.children_of(access, &parents).await?;
            let mut next = Vec::new();
            for ((index, parent), children) in level.into_iter().zip(children) {
                for child in children.into_iter().flatten() {
                    next.push((index, format!("{parent}/{child}")));
                }
            }
            level = next.clone();
            if !next.is_empty() {
                levels.push(next);
            }
        }
        Ok(levels)
    }
}

/// A node that has got children since they were listed says so; anything else is a refusal.
fn refused_or_changed(why: String) -> ZkOutcome {
    if why.ends_with(&zookeeper_client::Error::NotEmpty.to_string()) {
        ZkOutcome::VersionConflict
    } else {
        ZkOutcome::Refused(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zk::write::{doomed, performed};
    use zookeeper_client::Stat;

    fn node(version: i32, czxid: i64) -> Node {
        let stat = Stat {
            czxid,
            mzxid: czxid,
            pzxid: czxid,
            ctime: 0,
            mtime: 0,
            version,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
        };
        Node::Found(Vec::new(), stat)
    }

    #[test]
    fn a_topic_made_anew_while_the_answer_was_lost_is_not_deleted_again() {
        let deletion = Operation::DeleteRead("/brokers/topics/t".to_owned(), 1, 7);
        let done = Some(ZkOutcome::Written { version: 0 });
        assert_eq!(performed(&deletion, &Node::Missing), done);
        assert_eq!(performed(&deletion, &node(0, 8)), done, "made anew");
        assert_eq!(performed(&deletion, &node(1, 8)), done, "made anew");
        assert_eq!(performed(&deletion, &node(1, 7)), None, "still to be done");
        let changed = Some(ZkOutcome::VersionConflict);
        assert_eq!(performed(&deletion, &node(2, 7)), changed);
        assert_eq!(doomed(&deletion, &node(2, 7)), changed);
        assert_eq!(doomed(&deletion, &Node::Missing), Some(ZkOutcome::Missing));
    }
}
