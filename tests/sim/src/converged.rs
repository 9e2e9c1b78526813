//! Whether the cluster is at rest: every broker does and says what ZooKeeper holds.
//!
//! Looks from outside, at brokers and at the tree; never at a controller.

use std::collections::BTreeSet;

use klamm::effect::StateRead;
use klamm::model::{BrokerId, BrokerIds, TopicPartition};
use klamm::zk::{paths, znode};

use crate::broker::{Process, SimBroker};
use crate::world::World;

impl World {
    /// Everything in which a running broker differs from ZooKeeper, in words. Brokers that are leaving follow nobody, and
    /// those whose directory failed host less than they are assigned: leave them out.
    pub fn differences(&self, left_out: &[i32]) -> Vec<String> {
        self.differences_but(left_out, &|_| false)
    }

    /// The same but for what concerns some partitions alone.
    pub fn differences_but(
        &self,
        left_out: &[i32],
        is_exempt: &dyn Fn(&TopicPartition) -> bool,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let registered: BTreeSet<String> = self
            .zookeeper
            .look_children("/brokers/ids")
            .into_iter()
            .collect();
        let cluster = self.cluster.borrow();
        let running = |broker: &&SimBroker| broker.process == Process::Running;
        for broker in cluster.values().filter(running) {
            let alive: BTreeSet<String> = broker.alive.keys().map(BrokerId::to_string).collect();
            if alive != registered {
                found.push(format!(
                    "broker {} takes {alive:?} for alive, registered are {registered:?}",
                    broker.id
                ));
            }
            found.extend(self.address_differences(broker));
            let assignments = self.assignments().into_iter();
            for (of, replicas) in assignments.filter(|(of, _)| !is_exempt(of)) {
                let Some(state) = self.state(&of.to_string()) else {
                    continue;
                };
                found.extend(cache_difference(broker, &of, &state, &replicas));
                found.extend(offline_difference(broker, &of, &registered));
                let is_left_out = left_out.contains(&broker.id.0);
                if replicas.contains(broker.id) && !is_left_out {
                    found.extend(replica_difference(broker, &of, &state, &replicas));
                }
            }
        }
        found
    }

    /// Stops the test unless every running broker does and says what ZooKeeper holds.
    #[track_caller]
    pub fn assert_converged(&self) {
        let found = self.differences(&[]);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// Where a broker takes the others to be, against where they say they are.
    fn address_differences(&self, broker: &SimBroker) -> Vec<String> {
        let differs = broker.alive.values().filter_map(|told| {
            let path = paths::broker(told.id);
            let node = self.zookeeper.look(&path)?;
            let read = znode::decode_broker(&path, told.id, node.data(), node.stat().czxid);
            let registered = read.found()?.broker;
            (*told != registered).then(|| {
                format!(
                    "broker {} was told of {told:?}; registered is {registered:?}",
                    broker.id
                )
            })
        });
        differs.collect()
    }

    fn assignments(&self) -> Vec<(TopicPartition, BrokerIds)> {
        let names = self.zookeeper.look_children("/brokers/topics");
        let mut all = Vec::new();
        for name in names {
            let Some(topic) = self.topic(&name) else {
                continue;
            };
            for (index, assignment) in topic.partitions {
                let topic = klamm::model::TopicName::new(&name);
                all.push((TopicPartition::new(&topic, index), assignment.replicas));
            }
        }
        all
    }
}

/// What a broker tells clients against what is so.
fn cache_difference(
    broker: &SimBroker,
    of: &TopicPartition,
    state: &StateRead,
    replicas: &BrokerIds,
) -> Option<String> {
    let id = broker.id;
    let Some(cached) = broker.cache.get(of) else {
        return Some(format!("broker {id} was told nothing of {of}"));
    };
    let told = &cached.leadership;
    let is_same = **told == state.leader_and_isr && told.partition_epoch() == state.partition_epoch;
    if is_same && cached.replicas != *replicas {
        let told = &cached.replicas;
        return Some(format!(
            "broker {id} tells clients of {of} on {told}; ZooKeeper holds {replicas}"
        ));
    }
    (!is_same).then(|| {
        format!(
            "broker {id} tells clients of {of}: {:?}; ZooKeeper holds {state:?}",
            **told
        )
    })
}

/// Which replicas a broker takes for offline: those of brokers that are gone, and of the others only what is in a directory
/// that failed.
fn offline_difference(
    broker: &SimBroker,
    of: &TopicPartition,
    registered: &BTreeSet<String>,
) -> Option<String> {
    let cached = broker.cache.get(of)?;
    let is_gone = |id: &BrokerId| !registered.contains(&id.to_string());
    let gone = cached.replicas.iter().filter(is_gone);
    let unmarked: Vec<BrokerId> = gone
        .filter(|id| !cached.offline_replicas.contains(*id))
        .collect();
    (!unmarked.is_empty()).then(|| {
        format!(
            "broker {} takes {of} for online on {unmarked:?}, which are gone",
            broker.id
        )
    })
}

/// What a broker does with a replica against what it should do.
fn replica_difference(
    broker: &SimBroker,
    of: &TopicPartition,
    state: &StateRead,
    replicas: &BrokerIds,
) -> Option<String> {
    let (id, wanted) = (broker.id, &state.leader_and_isr);
    let leader = wanted.leader()?;
    let Some(replica) = broker.replicas.get(of) else {
        return Some(format!("broker {id} does not host {of}"));
    };
    let follows = replica.leader == leader && replica.leader_epoch == wanted.leader_epoch;
    let acts = if leader == id {
        replica.isr == wanted.isr
            && replica.partition_epoch == state.partition_epoch
            && replica.replicas == *replicas
    } else {
        replica.is_fetching
    };
    (!(follows && acts))
        .then(|| format!("broker {id} does with {of}: {replica:?}; ZooKeeper holds {wanted:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::partition;

    #[test]
    fn a_broker_that_says_or_does_something_else_is_found() {
        let mut world = World::led(&[1, 2], "3.9");
        world.create_topic("t", &[&[1, 2]]);
        world.settle();
        assert_eq!(world.differences(&[]), [""; 0]);

        type Spoil = fn(&mut SimBroker);
        let spoils: [(&str, Spoil); 5] = [
            ("was told nothing", |broker| broker.cache.clear()),
            ("tells clients", |broker| {
                let cached = broker.cache.clone().into_values().next().unwrap();
                let older = crate::broker::CachedPartition {
                    leadership: klamm::effect::StateRead {
                        leader_and_isr: (*cached.leadership).clone(),
                        controller_epoch: cached.leadership.controller_epoch(),
                        partition_epoch: klamm::model::PartitionEpoch(-1),
                    }
                    .into(),
                    ..cached
                };
                broker.cache.insert(partition("t-0"), older);
            }),
            ("does not host", |broker| broker.replicas.clear()),
            ("does with", |broker| {
                let replica = broker.replicas.get_mut(&partition("t-0")).unwrap();
                replica.is_fetching = false;
            }),
            ("for alive", |broker| broker.alive.clear()),
        ];
        for (complaint, spoil) in spoils {
            let before = world.broker(2, SimBroker::clone);
            world.broker_mut(2, spoil);
            let found = world.differences(&[]);
            assert_eq!(found.len(), 1, "{complaint}: {found:?}");
            assert!(found[0].contains(complaint), "{found:?}");
            world.broker_mut(2, |broker| *broker = before);
        }
    }
}
