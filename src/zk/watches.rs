//! Watches: what is armed, and which event each becomes. A watch says "look", never what changed.
//!
//! From ZooKeeper 3.6 on one persistent recursive watch covers all topics; the rest are one-shot watches, armed by the
//! reads that are done while an event is handled. All of them end with their connection: after the next one is up the
//! keeper (`session`) has everything looked at again. No watch is ever sent again for a lost connection, so the 128 KiB
//! of watched paths over which the client library never reconnects are no limit: below 3.6 each topic has its own watch. Upstream: the `ZNodeChangeHandler`s in `KafkaController.scala`.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use zookeeper_client::{EventType, OneshotWatcher, PersistentWatcher, WatchedEvent};

use super::paths::{self, TopicPath};
use crate::event::{ControllerEvent, EventSink};
use crate::model::{BrokerId, TopicName};

/// What a one-shot watch is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// `/controller`: its existence and content.
    Controller,
    /// `/klamm/hold`: its existence.
    KlammHold,
    /// `/klamm/ids`: its children.
    KlammIds,
    /// `/brokers/ids`: its children.
    BrokerIds,
    /// `/brokers/ids/N`: its content.
    Broker(BrokerId),
    /// `/isr_change_notification`: its children.
    IsrChanges,
    /// `/log_dir_event_notification`: its children.
    LogDirEvents,
    /// `/admin/preferred_replica_election`: its existence and content.
    PreferredElection,
    /// `/config/changes`: its children.
    ConfigChanges,
    /// `/admin/reassign_partitions`: its existence and content.
    Reassignment,
    /// `/admin/delete_topics`: its children.
    TopicDeletions,
    /// `/brokers/topics`: its children.
    TopicNames,
    /// `/brokers/topics/T`: its content.
    Topic(TopicName),
}

/// A watch that ZooKeeper has confirmed.
pub(super) enum Armed {
    /// Fires once.
    OneShot(Target, OneshotWatcher),
    /// The recursive watch on `/brokers/topics`.
    Topics(PersistentWatcher),
}

/// What is armed on the present connection.
pub(super) struct Watches {
    sink: Arc<dyn EventSink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    generation: u64,
    armed: BTreeSet<Target>,
    recursive: Recursive,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Recursive {
    #[default]
    NotWanted,
    Wanted,
    Armed,
}

impl Watches {
    pub fn new(sink: Arc<dyn EventSink>) -> Arc<Watches> {
        Arc::new(Watches {
            sink,
            state: Mutex::default(),
        })
    }

    fn state(&self, generation: u64) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.generation < generation {
            let recursive = match state.recursive {
                Recursive::NotWanted => Recursive::NotWanted,
                Recursive::Wanted | Recursive::Armed => Recursive::Wanted,
            };
            *state = State {
                generation,
                recursive,
                ..State::default()
            };
        }
        state
    }

    /// Whether a read of `target` on connection `generation` has to arm the watch; if so it counts as armed from now on.
    pub fn must_arm(&self, generation: u64, target: &Target) -> bool {
        let mut state = self.state(generation);
        if state.generation != generation || state.armed.contains(target) {
            return false;
        }
        state.armed.insert(target.clone())
    }

    /// The watch fired, or was never set.
    pub fn disarm(&self, generation: u64, target: &Target) {
        let mut state = self.state(generation);
        if state.generation == generation {
            state.armed.remove(target);
        }
    }

    /// Whether the recursive watch has to be added on this connection before topics are read.
    pub fn must_arm_recursive(&self, generation: u64) -> bool {
        let state = self.state(generation);
        state.generation == generation && state.recursive != Recursive::Armed
    }

    /// Whether topics were watched recursively on an earlier connection of this process.
    pub fn wants_recursive(&self, generation: u64) -> bool {
        self.state(generation).recursive == Recursive::Wanted
    }

    /// The recursive watch stands on this connection.
    pub fn recursive_is_armed(&self, generation: u64) {
        let mut state = self.state(generation);
        if state.generation == generation {
            state.recursive = Recursive::Armed;
        }
    }

    /// Listens for the watches of one connection until it is aborted.
    pub async fn listen(
        self: Arc<Self>,
        mut armed: mpsc::UnboundedReceiver<Armed>,
        generation: u64,
    ) {
        let mut one_shots: FuturesUnordered<Pin<Box<dyn Future<Output = Fired> + Send>>> =
            FuturesUnordered::new();
        let mut topics: Option<PersistentWatcher> = None;
        loop {
            tokio::select! {
                Some(armed) = armed.recv() => match armed {
                    Armed::OneShot(target, watcher) => one_shots.push(Box::pin(async move {
                        Fired { target, event: watcher.changed().await }
                    })),
                    Armed::Topics(watcher) => topics = Some(watcher),
                },
                Some(fired) = one_shots.next(), if !one_shots.is_empty() => {
                    self.disarm(generation, &fired.target);
                    self.put(event_of(&fired.target, fired.event.event_type));
                }
                event = next(&mut topics) => {
                    if event.event_type == EventType::Session && is_final(&event) {
                        topics = None;
                    }
                    self.put(topic_event(&event));
                }
            }
        }
    }

    fn put(&self, event: Option<ControllerEvent>) {
        if let Some(event) = event {
            self.sink.put(event);
        }
    }
}

struct Fired {
    target: Target,
    event: WatchedEvent,
}

async fn next(topics: &mut Option<PersistentWatcher>) -> WatchedEvent {
    match topics {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}

/// After one of these the crate's watcher must not be asked again.
fn is_final(event: &WatchedEvent) -> bool {
    use zookeeper_client::SessionState::{AuthFailed, Closed, Expired};
    matches!(event.session_state, AuthFailed | Closed | Expired)
}

/// The controller's event for a one-shot watch that fired.
fn event_of(target: &Target, event: EventType) -> Option<ControllerEvent> {
    let gone = event == EventType::NodeDeleted;
    if event == EventType::Session {
        return None;
    }
    match target {
        Target::Controller if gone => Some(ControllerEvent::Reelect),
        Target::Controller => Some(ControllerEvent::ControllerChange),
        Target::KlammHold | Target::KlammIds => Some(ControllerEvent::KlammNodesChange),
        Target::BrokerIds => Some(ControllerEvent::BrokerChange),
        Target::IsrChanges => Some(ControllerEvent::IsrChangeNotification),
        Target::LogDirEvents => Some(ControllerEvent::LogDirEventNotification),
        Target::ConfigChanges => Some(ControllerEvent::ConfigChange),
        Target::TopicDeletions => Some(ControllerEvent::TopicDeletion),
        Target::TopicNames => Some(ControllerEvent::TopicChange),
        // Also when it goes, by our own hand: the look arms the watch for the next one.
        Target::PreferredElection => Some(ControllerEvent::PreferredReplicaElection),
        Target::Reassignment => Some(ControllerEvent::PartitionReassignment),
        // That it is gone is said by the watch on its parent.
        Target::Broker(_) | Target::Topic(_) if gone => None,
        Target::Broker(id) => Some(ControllerEvent::BrokerModifications(*id)),
        Target::Topic(name) => Some(ControllerEvent::PartitionModifications(name.clone())),
    }
}

/// The controller's event for what the recursive watch saw. Partitions and their states change all the time, by our own
/// hand mostly: that is dropped.
fn topic_event(event: &WatchedEvent) -> Option<ControllerEvent> {
    if event.event_type == EventType::Session {
        return None;
    }
    match paths::topic_path(&event.path)? {
        TopicPath::Root => Some(ControllerEvent::TopicChange),
        TopicPath::BelowTopic => None,
        TopicPath::Topic(name) => match event.event_type {
            EventType::NodeDataChanged => Some(ControllerEvent::PartitionModifications(name)),
            _ => Some(ControllerEvent::TopicChange),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zk::session::NoEvents;

    #[test]
    fn a_watch_is_armed_once_until_it_fires() {
        let watches = Watches::new(Arc::new(NoEvents));
        assert!(watches.must_arm(1, &Target::BrokerIds));
        assert!(!watches.must_arm(1, &Target::BrokerIds));
        watches.disarm(1, &Target::BrokerIds);
        assert!(watches.must_arm(1, &Target::BrokerIds));
    }

    #[test]
    fn a_new_connection_has_no_watches_and_an_old_one_arms_none() {
        let watches = Watches::new(Arc::new(NoEvents));
        assert!(watches.must_arm(1, &Target::BrokerIds));
        assert!(watches.must_arm(2, &Target::BrokerIds));
        watches.disarm(1, &Target::BrokerIds);
        assert!(
            !watches.must_arm(2, &Target::BrokerIds),
            "a late event disarmed it"
        );
        assert!(!watches.must_arm(1, &Target::Controller));
    }

    #[test]
    fn a_recursive_watch_is_wanted_again_on_the_next_connection() {
        let watches = Watches::new(Arc::new(NoEvents));
        assert!(!watches.wants_recursive(1));
        assert!(watches.must_arm_recursive(1));
        watches.recursive_is_armed(1);
        assert!(!watches.must_arm_recursive(1));
        assert!(watches.wants_recursive(2));
        assert!(watches.must_arm_recursive(2));
    }

    #[test]
    fn each_watch_becomes_its_event() {
        use ControllerEvent as E;
        use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted, Session};
        let name = TopicName::new("t");
        let table = [
            (Target::Controller, NodeCreated, Some(E::ControllerChange)),
            (
                Target::Controller,
                NodeDataChanged,
                Some(E::ControllerChange),
            ),
            (Target::Controller, NodeDeleted, Some(E::Reelect)),
            (Target::Controller, Session, None),
            (Target::KlammHold, NodeCreated, Some(E::KlammNodesChange)),
            (
                Target::KlammIds,
                NodeChildrenChanged,
                Some(E::KlammNodesChange),
            ),
            (
                Target::BrokerIds,
                NodeChildrenChanged,
                Some(E::BrokerChange),
            ),
            (
                Target::Broker(BrokerId(1)),
                NodeDataChanged,
                Some(E::BrokerModifications(BrokerId(1))),
            ),
            (Target::Broker(BrokerId(1)), NodeDeleted, None),
            (
                Target::TopicDeletions,
                NodeChildrenChanged,
                Some(E::TopicDeletion),
            ),
            (
                Target::Topic(name.clone()),
                NodeDataChanged,
                Some(E::PartitionModifications(name.clone())),
            ),
            (
                Target::PreferredElection,
                NodeCreated,
                Some(E::PreferredReplicaElection),
            ),
            (
                Target::PreferredElection,
                NodeDeleted,
                Some(E::PreferredReplicaElection),
            ),
            (
                Target::Reassignment,
                NodeDataChanged,
                Some(E::PartitionReassignment),
            ),
            (
                Target::Reassignment,
                NodeDeleted,
                Some(E::PartitionReassignment),
            ),
            (
                Target::TopicNames,
                NodeChildrenChanged,
                Some(E::TopicChange),
            ),
        ];
        for (target, event, expected) in table {
            assert_eq!(event_of(&target, event), expected, "{target:?} {event}");
        }
    }

    #[test]
    fn the_recursive_watch_tells_topics_from_what_is_below_them() {
        use ControllerEvent as E;
        use EventType::{NodeCreated, NodeDataChanged, NodeDeleted};
        let name = TopicName::new("t");
        let table = [
            (NodeCreated, "/brokers/topics/t", Some(E::TopicChange)),
            (NodeDeleted, "/brokers/topics/t", Some(E::TopicChange)),
            (
                NodeDataChanged,
                "/brokers/topics/t",
                Some(E::PartitionModifications(name)),
            ),
            (NodeCreated, "/brokers/topics/t/partitions", None),
            (
                NodeDataChanged,
                "/brokers/topics/t/partitions/0/state",
                None,
            ),
        ];
        for (event, path, expected) in table {
            assert_eq!(
                topic_event(&WatchedEvent::new(event, path)),
                expected,
                "{path} {event}"
            );
        }
    }
}
