//! Watches and the session's life as events. A watch says "look", never what changed.

use klamm::event::{ControllerEvent, Sweep};
use klamm::zk::paths::{self, TopicPath};

use super::{Shared, TopicWatches};
use crate::mishap::Mishap;
use crate::zookeeper::{NodeEvent, SessionEvent, WatchedEvent, ZkSession};

pub fn open_session(shared: &Shared) {
    let ears = shared.clone();
    let session = shared.zookeeper.connect(move |event| hear(&ears, event));
    arm_standing_watches(shared, &session);
    *shared.session.borrow_mut() = Some(session);
}

/// What stays armed while the connection stands. All other watches are armed by reads.
fn arm_standing_watches(shared: &Shared, session: &ZkSession) {
    if shared.topic_watches == TopicWatches::OneShot {
        return;
    }
    if let Err(error) = session.watch_recursively(paths::TOPICS) {
        panic!("can't watch {}: {error}", paths::TOPICS);
    }
}

/// No watch outlives its connection: everything is looked at, which arms all of them.
const LOOK_EVERYWHERE: [ControllerEvent; 11] = [
    ControllerEvent::ControllerChange,
    ControllerEvent::KlammNodesChange,
    ControllerEvent::BrokerChange,
    ControllerEvent::TopicChange,
    ControllerEvent::IsrChangeNotification,
    ControllerEvent::LogDirEventNotification,
    ControllerEvent::PreferredReplicaElection,
    ControllerEvent::PartitionReassignment,
    ControllerEvent::TopicDeletion,
    ControllerEvent::ConfigChange,
    ControllerEvent::AntiEntropy(Sweep::Begin),
];

fn hear(shared: &Shared, event: WatchedEvent) {
    match event {
        WatchedEvent::Session(SessionEvent::Disconnected) => {}
        WatchedEvent::Session(SessionEvent::SyncConnected) => {
            let session = shared.session.borrow().clone();
            if let Some(session) = session {
                session.forget_watches();
                if let Some(chance) = shared.fate.pace.chance() {
                    chance.note(Mishap::WatchesLost);
                }
                arm_standing_watches(shared, &session);
            }
            for event in LOOK_EVERYWHERE {
                shared.queue.put(event);
            }
        }
        WatchedEvent::Session(SessionEvent::Expired) => {
            let preempted = shared.queue.clear_and_put(ControllerEvent::Expire);
            shared.preempted.borrow_mut().extend(preempted);
        }
        WatchedEvent::Node(event) => {
            if let Some(event) = meaning(&event) {
                // A watch is heard late, and late by chance: it says "look", and when.
                shared.queue.schedule(shared.fate.watch_delay_ms(), event);
            }
        }
    }
}

/// What the controller should look at when it hears of a node.
fn meaning(event: &NodeEvent) -> Option<ControllerEvent> {
    let (NodeEvent::Created(path)
    | NodeEvent::DataChanged(path)
    | NodeEvent::Deleted(path)
    | NodeEvent::ChildrenChanged(path)) = event;
    if path == paths::CONTROLLER {
        return Some(match event {
            NodeEvent::Deleted(_) => ControllerEvent::Reelect,
            _ => ControllerEvent::ControllerChange,
        });
    }
    if path.starts_with(paths::KLAMM) {
        return Some(ControllerEvent::KlammNodesChange);
    }
    if path == paths::BROKER_IDS {
        return Some(ControllerEvent::BrokerChange);
    }
    if let Some(id) = path.strip_prefix(paths::BROKER_IDS) {
        let id = paths::id_of_child(id.strip_prefix('/')?)?;
        let is_change = matches!(event, NodeEvent::DataChanged(_));
        return is_change.then_some(ControllerEvent::BrokerModifications(id));
    }
    if path == paths::ISR_CHANGE_NOTIFICATION {
        return Some(ControllerEvent::IsrChangeNotification);
    }
    if path == paths::LOG_DIR_EVENT_NOTIFICATION {
        return Some(ControllerEvent::LogDirEventNotification);
    }
    if path == paths::PREFERRED_REPLICA_ELECTION {
        return Some(ControllerEvent::PreferredReplicaElection);
    }
    if path == paths::CONFIG_CHANGES {
        return Some(ControllerEvent::ConfigChange);
    }
    if path == paths::REASSIGN_PARTITIONS {
        return Some(ControllerEvent::PartitionReassignment);
    }
    if path == paths::DELETE_TOPICS {
        return Some(ControllerEvent::TopicDeletion);
    }
    match (paths::topic_path(path)?, event) {
        (TopicPath::Topic(topic), NodeEvent::DataChanged(_)) => {
            Some(ControllerEvent::PartitionModifications(topic))
        }
        (TopicPath::Root | TopicPath::Topic(_), _) => Some(ControllerEvent::TopicChange),
        (TopicPath::BelowTopic, _) => None,
    }
}
