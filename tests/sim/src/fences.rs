//! Order and fences: what must hold of every write and of every request of a controller, whatever it does.
//!
//! Looks at what was recorded, after each event of each test; design section 5 says why. Must never ask the controller what
//! it meant to do: only which topics it is deleting.
//!
//! | what | rule |
//! |---|---|
//! | a state is created | leader epoch 0, where there was none |
//! | a state is changed | leader epoch one higher; what a leader asked for: the same leader and leader epoch |
//! | any state in a request | ZooKeeper held it, under the partition epoch that the request names |
//! | LeaderAndIsr | goes to a replica; its leader epoch never falls; names whoever is in sync and assigned as a replica |
//! | StopReplica | leader epoch −2 exactly for topics being deleted, never −1, else no lower than what the broker was told |
//! | StopReplica that deletes | −2, or higher than what the broker was told: 2.6.0 to 3.4.0 refuse an equal one |
//! | controller epoch | never falls |

use std::collections::{BTreeMap, BTreeSet};

use klamm::effect::{
    AnnouncedLeadership, ByTopic, Committed, LeaderAndIsrPartition, Read, ReplicaDisposal,
    StateRead, StopReplicaPartition, Term, ZkWrite,
};
use klamm::event::ControllerEvent;
use klamm::model::{
    BrokerId, ControllerEpoch, LeaderAndIsr, LeaderEpoch, TopicName, TopicPartition,
};
use klamm::state::ControllerContext;
use klamm::zk::{paths, znode};

use crate::request::{Body, Request};
use crate::zookeeper::ZooKeeper;

/// StopReplica of a topic that is being deleted: whatever the broker was told before.
const DURING_DELETE: LeaderEpoch = LeaderEpoch(-2);

/// A write that ZooKeeper performed.
#[derive(Debug, Clone)]
pub struct Performed {
    /// What was written.
    pub write: ZkWrite,
    /// Under which term.
    pub term: Term,
    /// The partition's state before, where it is one that was written.
    pub before: Option<StateRead>,
}

/// What one controller's process has done so far, as far as the rules need it.
#[derive(Debug, Default)]
pub struct Fences {
    requests_seen: usize,
    writes_seen: usize,
    controller_epoch: Option<ControllerEpoch>,
    /// The highest leader epoch that a broker was told by LeaderAndIsr, and the life of the state that it belongs to.
    told: BTreeMap<(BrokerId, TopicPartition), (usize, LeaderEpoch)>,
}

impl Fences {
    /// How many requests and writes were looked at.
    pub fn seen(&self) -> (usize, usize) {
        (self.requests_seen, self.writes_seen)
    }

    /// Breaches of the rules in what `event` made the controller write.
    pub fn check_writes(&mut self, event: &ControllerEvent, writes: &[Performed]) -> Vec<String> {
        self.writes_seen += writes.len();
        let by_leader = matches!(event, ControllerEvent::AlterPartitionReceived { .. });
        let broken = writes.iter().filter_map(|performed| {
            let why = breach_of(performed, by_leader)?;
            Some(format!("{why}: {performed:?}"))
        });
        broken.collect()
    }

    /// Breaches of the rules in what the controller sent.
    pub fn check_requests(
        &mut self,
        requests: &[(BrokerId, Request)],
        context: &ControllerContext,
        deleted_before: &BTreeSet<TopicName>,
        zookeeper: &ZooKeeper,
    ) -> Vec<String> {
        self.requests_seen += requests.len();
        let mut broken = Vec::new();
        for (to, request) in requests {
            if self.controller_epoch > Some(request.controller_epoch) {
                broken.push(format!("the controller epoch fell: {request:?}"));
            }
            self.controller_epoch = Some(request.controller_epoch);
            match &request.body {
                Body::LeaderAndIsr(topics) => {
                    for (at, told) in each(topics, |told| told.partition) {
                        broken.extend(self.leader_and_isr(*to, &at, told, zookeeper));
                    }
                }
                Body::UpdateMetadata { topics, .. } => {
                    for (at, told) in each(topics, |told| told.partition) {
                        if let AnnouncedLeadership::Committed(state) = &told.leadership {
                            broken.extend(not_held(zookeeper, &at, state));
                        }
                    }
                }
                Body::StopReplica(topics) => {
                    for (at, stop) in each(topics, |stop| stop.partition) {
                        let was_deleted = deleted_before.contains(&at.topic);
                        let breach =
                            self.stop_replica(*to, &at, stop, context, was_deleted, zookeeper);
                        broken.extend(breach);
                    }
                }
            }
        }
        broken
    }

    fn leader_and_isr(
        &mut self,
        to: BrokerId,
        at: &TopicPartition,
        told: &LeaderAndIsrPartition,
        zookeeper: &ZooKeeper,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        let replicas = &told.assignment.replicas;
        if !replicas.contains(to) {
            broken.push(format!(
                "LeaderAndIsr of {at} to broker {to}, which is none of the replicas {replicas}"
            ));
        }
        broken.extend(unnamed_member(zookeeper, at, told).map(|id| {
            format!("LeaderAndIsr of {at} to broker {to}: broker {id} is in sync, and not among the replicas {replicas}")
        }));
        broken.extend(not_held(zookeeper, at, &told.state));
        let life = zookeeper.lives_of_state(&paths::state(at));
        let epoch = told.state.leader_epoch;
        match self.told.get(&(to, at.clone())) {
            Some((before, highest)) if *before == life && *highest > epoch => {
                broken.push(format!(
                    "LeaderAndIsr of {at} to broker {to} under leader epoch {epoch} after {highest}"
                ));
            }
            _ => _ = self.told.insert((to, at.clone()), (life, epoch)),
        }
        broken
    }

    fn stop_replica(
        &self,
        to: BrokerId,
        at: &TopicPartition,
        stop: &StopReplicaPartition,
        context: &ControllerContext,
        was_deleted: bool,
        zookeeper: &ZooKeeper,
    ) -> Option<String> {
        let epoch = stop.leader_epoch;
        let what = format!("StopReplica of {at} to broker {to} under leader epoch {epoch}");
        // Out of office it knows nothing any more.
        let knows_topic = context.term().is_some() && context.topic(&at.topic).is_some();
        let is_deleted = context.is_queued_for_deletion(&at.topic);
        if epoch == DURING_DELETE {
            return (knows_topic && !is_deleted)
                .then(|| format!("{what}: the topic is not being deleted"));
        }
        if epoch.0 < 0 {
            return Some(what);
        }
        // Not if that was asked for in the midst of the event.
        if knows_topic && is_deleted && was_deleted {
            return Some(format!("{what}: the topic is being deleted"));
        }
        let life = zookeeper.lives_of_state(&paths::state(at));
        let (_, told) = self
            .told
            .get(&(to, at.clone()))
            .filter(|(of_life, _)| *of_life == life)?;
        let obeyed = match stop.disposal {
            ReplicaDisposal::Delete => epoch > *told,
            ReplicaDisposal::Keep => epoch >= *told,
        };
        (!obeyed)
            .then(|| format!("{what} after LeaderAndIsr under {told}: some releases refuse it"))
    }
}

fn breach_of(performed: &Performed, by_leader: bool) -> Option<&'static str> {
    let epoch = performed.term.epoch;
    match &performed.write {
        ZkWrite::CreateState {
            leader_and_isr,
            controller_epoch,
            ..
        } => {
            let is_first = leader_and_isr.leader_epoch == LeaderEpoch::INITIAL
                && performed.before.is_none()
                && *controller_epoch == epoch;
            (!is_first).then_some("a new state does not begin with leader epoch 0")
        }
        ZkWrite::SetState {
            leader_and_isr,
            controller_epoch,
            ..
        } => {
            let Some(before) = &performed.before else {
                return Some("a state was changed that was not there");
            };
            let before = &before.leader_and_isr;
            if *controller_epoch != epoch {
                return Some("a state was written under another controller's epoch");
            }
            let is_next = leader_and_isr.leader_epoch == before.leader_epoch.next();
            let is_the_leaders_wish = by_leader
                && leader_and_isr.leader_epoch == before.leader_epoch
                && leader_and_isr.leader == before.leader;
            (!is_next && !is_the_leaders_wish)
                .then_some("the leader epoch does not follow the one before")
        }
        _ => None,
    }
}

/// Whether a state that brokers are told was never in ZooKeeper like this.
fn not_held(
    zookeeper: &ZooKeeper,
    at: &TopicPartition,
    told: &Committed<LeaderAndIsr>,
) -> Option<String> {
    let path = paths::state(at);
    let held = zookeeper.held_states(&path);
    let is_held = held.iter().any(|(version, data)| {
        let Read::Found(state) = znode::decode_state(&path, data, *version) else {
            return false;
        };
        state.partition_epoch == told.partition_epoch()
            && state.controller_epoch == told.controller_epoch()
            && state.leader_and_isr == **told
    });
    (!is_held).then(|| format!("a broker was told of {at} what ZooKeeper never held: {told:?}"))
}

/// Who is in sync and not named as a replica: a leader acknowledges records without waiting for it, and it may be elected.
/// A tool may have taken a member out of the topic's node by hand; then nobody can name it.
fn unnamed_member(
    zookeeper: &ZooKeeper,
    at: &TopicPartition,
    told: &LeaderAndIsrPartition,
) -> Option<BrokerId> {
    let named = &told.assignment.replicas;
    let mut unnamed = told.state.isr.iter().filter(|id| !named.contains(*id));
    let path = paths::topic(&at.topic);
    unnamed.find(|id| {
        let Some(node) = zookeeper.look(&path) else {
            return false;
        };
        let Read::Found(topic) = znode::decode_topic(&path, node.data(), node.stat().version)
        else {
            return false;
        };
        let assigned = topic.partitions.get(&at.partition);
        assigned.is_some_and(|assigned| assigned.replicas.contains(*id))
    })
}

fn each<T>(
    topics: &[ByTopic<T>],
    index: impl Fn(&T) -> i32,
) -> impl Iterator<Item = (TopicPartition, &T)> {
    topics.iter().flat_map(move |topic| {
        let index = &index;
        let partitions = topic.partitions.iter();
        let named = partitions.map(|told| (TopicPartition::new(&topic.topic, index(told)), told));
        named.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, partition};
    use klamm::model::{BrokerIds, PartitionEpoch};

    const ONE: BrokerId = BrokerId(1);

    /// t-0 on brokers 1 and 2 under leader epoch 1, and what broker 1 was sent so far.
    fn led() -> (World, Fences, Vec<(BrokerId, Request)>) {
        let mut world = World::led(&[1, 2], "3.9");
        world.create_topic("t", &[&[1, 2]]);
        world.settle();
        world.bounce(1);
        world.settle();
        let sent = world.klamm().channels.sent_to(ONE);
        let sent = sent.into_iter().map(|request| (ONE, request)).collect();
        (world, Fences::default(), sent)
    }

    /// The last LeaderAndIsr among them, with another state of its partition.
    fn changed(
        sent: &[(BrokerId, Request)],
        change: impl Fn(&mut LeaderAndIsrPartition),
    ) -> (BrokerId, Request) {
        let orders = sent.iter().rev();
        let mut orders = orders.filter(|(_, r)| matches!(r.body, Body::LeaderAndIsr(_)));
        let mut order = orders.next().unwrap().clone();
        let Body::LeaderAndIsr(topics) = &mut order.1.body else {
            unreachable!("chosen so");
        };
        change(&mut topics[0].partitions[0]);
        order
    }

    fn with_epochs(
        told: &LeaderAndIsrPartition,
        partition_epoch: i32,
        leader_epoch: i32,
    ) -> Committed<LeaderAndIsr> {
        StateRead {
            leader_and_isr: LeaderAndIsr {
                leader_epoch: LeaderEpoch(leader_epoch),
                ..(*told.state).clone()
            },
            controller_epoch: told.state.controller_epoch(),
            partition_epoch: PartitionEpoch(partition_epoch),
        }
        .into()
    }

    fn stop(sent: &[(BrokerId, Request)], epoch: i32, disposal: ReplicaDisposal) -> Request {
        let mut request = sent.last().unwrap().1.clone();
        request.body = Body::StopReplica(vec![ByTopic {
            topic: partition("t-0").topic,
            topic_id: None,
            partitions: vec![StopReplicaPartition {
                partition: 0,
                leader_epoch: LeaderEpoch(epoch),
                disposal,
            }],
        }]);
        request
    }

    #[test]
    fn every_breach_in_a_request_is_found_and_nothing_else() {
        let (mut world, mut fences, sent) = led();
        let zookeeper = world.zookeeper.clone();
        let context = &*world.klamm().context();
        let none = BTreeSet::new();
        assert_eq!(
            fences.check_requests(&sent, context, &none, &zookeeper),
            [""; 0]
        );
        assert!(fences.seen().0 > 0);
        let halved = |told: &mut LeaderAndIsrPartition| {
            told.assignment.replicas = BrokerIds::from([1]);
        };
        let unheard = |told: &mut LeaderAndIsrPartition| told.state = with_epochs(told, 7, 1);
        let fallen = |told: &mut LeaderAndIsrPartition| {
            told.state = StateRead {
                leader_and_isr: LeaderAndIsr::initial(ONE, BrokerIds::from([1, 2])),
                controller_epoch: told.state.controller_epoch(),
                partition_epoch: PartitionEpoch(0),
            }
            .into();
        };
        let mut older = sent.last().unwrap().1.clone();
        older.controller_epoch = ControllerEpoch(0);
        let keep = ReplicaDisposal::Keep;
        let cases = [
            (
                (BrokerId(3), changed(&sent, |_| ()).1),
                "none of the replicas",
            ),
            (changed(&sent, halved), "broker 2 is in sync, and not among"),
            (changed(&sent, unheard), "never held"),
            (changed(&sent, fallen), "under leader epoch 0 after 1"),
            ((ONE, stop(&sent, -2, keep)), "not being deleted"),
            ((ONE, stop(&sent, -1, keep)), "leader epoch -1"),
            ((ONE, stop(&sent, 0, keep)), "some releases refuse it"),
            (
                (ONE, stop(&sent, 1, ReplicaDisposal::Delete)),
                "some releases refuse it",
            ),
            ((ONE, older), "controller epoch fell"),
        ];
        for (request, words) in cases {
            let found = fences.check_requests(&[request], context, &none, &zookeeper);
            assert_eq!(found.len(), 1, "{words}: {found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
        let obeyed = [
            (ONE, stop(&sent, 1, keep)),
            (ONE, stop(&sent, 2, ReplicaDisposal::Delete)),
        ];
        fences.controller_epoch = None;
        assert_eq!(
            fences.check_requests(&obeyed, context, &none, &zookeeper),
            [""; 0]
        );
    }

    #[test]
    fn every_breach_in_a_write_is_found_and_nothing_else() {
        let term = Term {
            epoch: ControllerEpoch(3),
            epoch_zk_version: 3,
        };
        let state = |leader: i32, epoch: i32| LeaderAndIsr {
            leader_epoch: LeaderEpoch(epoch),
            ..LeaderAndIsr::initial(BrokerId(leader), BrokerIds::from([1, 2]))
        };
        let set = |leader, epoch, controller_epoch| ZkWrite::SetState {
            partition: partition("t-0"),
            leader_and_isr: state(leader, epoch),
            controller_epoch: ControllerEpoch(controller_epoch),
            expected: PartitionEpoch(4),
        };
        let create = |epoch| ZkWrite::CreateState {
            partition: partition("t-0"),
            leader_and_isr: state(1, epoch),
            controller_epoch: term.epoch,
        };
        let before = StateRead {
            leader_and_isr: state(1, 5),
            controller_epoch: ControllerEpoch(2),
            partition_epoch: PartitionEpoch(4),
        };
        let there = Some(before);
        let table = [
            (set(2, 6, 3), &there, false, true),
            (set(1, 6, 3), &there, false, true),
            (set(1, 5, 3), &there, false, false),
            (set(2, 7, 3), &there, false, false),
            (set(2, 6, 2), &there, false, false),
            (set(2, 6, 3), &None, false, false),
            (set(1, 5, 3), &there, true, true),
            (set(2, 5, 3), &there, true, false),
            // What the wish brought to its end: a reassignment.
            (set(1, 6, 3), &there, true, true),
            (create(0), &None, false, true),
            (create(1), &None, false, false),
            (create(0), &there, false, false),
        ];
        for (write, before, by_leader, holds) in table {
            let performed = Performed {
                write,
                term,
                before: before.clone(),
            };
            let found = breach_of(&performed, by_leader);
            assert_eq!(found.is_none(), holds, "{performed:?}: {found:?}");
        }
    }
}
