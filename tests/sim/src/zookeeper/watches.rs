//! The watches of one session, and what makes them fire.

use std::collections::BTreeSet;

use super::tree::Change;

/// What a session hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedEvent {
    /// Of itself.
    Session(SessionEvent),
    /// Of a node that it watches.
    Node(NodeEvent),
}

/// What happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent {
    /// The connection was cut.
    Disconnected,
    /// The connection stands again, in the same session.
    SyncConnected,
    /// The session is over.
    Expired,
}

/// What happened to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// It was made.
    Created(String),
    /// It was written.
    DataChanged(String),
    /// It is gone.
    Deleted(String),
    /// Its children are others.
    ChildrenChanged(String),
}

#[derive(Debug, Default)]
pub struct Watches {
    data: BTreeSet<String>,
    children: BTreeSet<String>,
    recursive: BTreeSet<String>,
}

impl Watches {
    pub fn arm_data(&mut self, path: &str) {
        self.data.insert(path.to_owned());
    }

    pub fn arm_children(&mut self, path: &str) {
        self.children.insert(path.to_owned());
    }

    pub fn arm_recursive(&mut self, path: &str) {
        self.recursive.insert(path.to_owned());
    }

    pub fn lose_recursive(&mut self) {
        self.recursive.clear();
    }

    /// What the session hears of a change: one event at most. One-shot watches that it touches are spent.
    pub fn fire(&mut self, change: &Change) -> Option<NodeEvent> {
        match change {
            Change::Created(path) => {
                let hit = self.data.remove(path) | self.covers(path);
                hit.then(|| NodeEvent::Created(path.clone()))
            }
            Change::DataChanged(path) => {
                let hit = self.data.remove(path) | self.covers(path);
                hit.then(|| NodeEvent::DataChanged(path.clone()))
            }
            Change::Deleted(path) => {
                let hit = self.data.remove(path) | self.children.remove(path) | self.covers(path);
                hit.then(|| NodeEvent::Deleted(path.clone()))
            }
            Change::ChildrenChanged(path) => {
                let hit = self.children.remove(path);
                hit.then(|| NodeEvent::ChildrenChanged(path.clone()))
            }
        }
    }

    /// Whether a recursive watch lies on the node or above it. Such a watch never hears of child lists: the children
    /// themselves are under it.
    fn covers(&self, path: &str) -> bool {
        self.recursive.iter().any(|root| {
            path.strip_prefix(root.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || root == "/")
        })
    }
}
