//! An in-memory ZooKeeper: one tree, its sessions and their watches, on one thread and without a clock.
//!
//! It keeps what the server promises and klamm relies on: czxid and versions, ephemeral owners, sequential names,
//! transactions that happen whole or not at all and name the first operation that failed, one-shot watches that fire
//! once, and recursive ones that stay until the connection is cut. It must never decide what a client makes of any of
//! this. Time does not pass here: whoever owns the world expires sessions.

mod follower;
mod request;
mod tree;
mod watches;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

pub use follower::Transaction;
pub use request::{CreateMode, Op, OpResult, ZkError, ZkMultiError};
pub use tree::{Stat, Znode};
pub use watches::{NodeEvent, SessionEvent, WatchedEvent};

use follower::Ensemble;
use tree::Tree;
use watches::Watches;

/// A session as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub i64);

/// Bytes that a server takes in one request unless told otherwise (`jute.maxbuffer`).
pub const DEFAULT_REQUEST_LIMIT_BYTES: usize = 1_048_575;

type Sink = Rc<dyn Fn(WatchedEvent)>;

struct Session {
    connected: bool,
    /// Which server it is connected to: 0 is the leader.
    server: usize,
    watches: Watches,
    sink: Sink,
}

/// What one partition's state held.
#[derive(Debug, Clone, Default)]
struct States {
    /// Version and data.
    held: Vec<(i32, Vec<u8>)>,
    /// How often it was created.
    lives: usize,
}

struct Server {
    tree: Tree,
    sessions: BTreeMap<SessionId, Session>,
    /// Those that are over, whose clients have yet to hear of it.
    unaware: BTreeMap<SessionId, Sink>,
    next_session: i64,
    request_limit_bytes: usize,
    /// What partitions' states held so far, by path.
    states: BTreeMap<String, States>,
    /// What fired and was not delivered yet, in the order of the transactions.
    fired: Vec<(SessionId, WatchedEvent)>,
    ensemble: Ensemble,
}

/// The server. Clones are handles to the same one.
#[derive(Clone)]
pub struct ZooKeeper {
    server: Rc<RefCell<Server>>,
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.borrow();
        f.debug_struct("ZooKeeper")
            .field("tree", &server.tree)
            .field("sessions", &server.sessions.keys())
            .finish()
    }
}

impl Default for ZooKeeper {
    fn default() -> ZooKeeper {
        ZooKeeper::new()
    }
}

impl ZooKeeper {
    /// A server that holds nothing but the root.
    pub fn new() -> ZooKeeper {
        ZooKeeper {
            server: Rc::new(RefCell::new(Server {
                tree: Tree::new(),
                sessions: BTreeMap::new(),
                unaware: BTreeMap::new(),
                next_session: 1,
                request_limit_bytes: DEFAULT_REQUEST_LIMIT_BYTES,
                states: BTreeMap::new(),
                fired: Vec::new(),
                ensemble: Ensemble::default(),
            })),
        }
    }

    /// Opens a session. `sink` hears its watches; it is called after the transaction that fired them is done, and may
    /// itself talk to the server.
    pub fn connect(&self, sink: impl Fn(WatchedEvent) + 'static) -> ZkSession {
        let mut server = self.server.borrow_mut();
        let id = SessionId(server.next_session);
        server.next_session += 1;
        server.sessions.insert(
            id,
            Session {
                connected: true,
                server: 0,
                watches: Watches::default(),
                sink: Rc::new(sink),
            },
        );
        ZkSession {
            zookeeper: self.clone(),
            id,
        }
    }

    /// Opens a session that listens to nothing: a tool's, or a test's own.
    pub fn connect_deaf(&self) -> ZkSession {
        self.connect(|_| {})
    }

    /// Sets how many bytes one request may have; beyond it the request is refused.
    pub fn set_request_limit_bytes(&self, limit_bytes: usize) {
        self.server.borrow_mut().request_limit_bytes = limit_bytes;
    }

    /// Ends a session as its timeout would: its ephemeral nodes go in one transaction, and it hears of its end.
    /// Ending a session that is gone already does nothing.
    pub fn expire(&self, id: SessionId) {
        self.end_session(id, true);
    }

    /// The same, but its client doesn't hear of it before it gets through again: see [`ZooKeeper::tell_unaware`].
    pub fn expire_unheard(&self, id: SessionId) {
        let sink = {
            let server = self.server.borrow();
            server.sessions.get(&id).map(|session| session.sink.clone())
        };
        if let Some(sink) = sink {
            self.end_session(id, false);
            self.server.borrow_mut().unaware.insert(id, sink);
        }
    }

    /// A client gets through, and hears that its session is over if it is.
    pub fn tell_unaware(&self, id: SessionId) {
        let sink = self.server.borrow_mut().unaware.remove(&id);
        if let Some(sink) = sink {
            sink(WatchedEvent::Session(SessionEvent::Expired));
        }
    }

    /// Cuts the connection of a session: its requests fail, what fires waits, and its recursive watches are gone.
    pub fn disconnect(&self, id: SessionId) {
        let mut server = self.server.borrow_mut();
        let Some(session) = server.sessions.get_mut(&id) else {
            return;
        };
        if session.connected {
            session.connected = false;
            session.watches.lose_recursive();
            let sink = session.sink.clone();
            drop(server);
            sink(WatchedEvent::Session(SessionEvent::Disconnected));
        }
    }

    /// Restores the connection of a session; the one-shot watches that fired meanwhile are delivered now, each once.
    pub fn reconnect(&self, id: SessionId) {
        let mut server = self.server.borrow_mut();
        let Some(session) = server.sessions.get_mut(&id) else {
            return;
        };
        if session.connected {
            return;
        }
        session.connected = true;
        let sink = session.sink.clone();
        drop(server);
        sink(WatchedEvent::Session(SessionEvent::SyncConnected));
        self.deliver();
    }

    /// Whether the session lives (connected or not).
    pub fn is_alive(&self, id: SessionId) -> bool {
        self.server.borrow().sessions.contains_key(&id)
    }

    /// A node as it stands, seen from outside: no session, no watch.
    pub fn look(&self, path: &str) -> Option<Znode> {
        self.server.borrow().tree.get(path).cloned()
    }

    /// The names of a node's children, in order; none if it is missing.
    pub fn look_children(&self, path: &str) -> Vec<String> {
        let server = self.server.borrow();
        server
            .tree
            .get(path)
            .map(|node| node.children().iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Writes a node from outside, whatever its version: a test's hand in the tree. Missing parents are created.
    pub fn poke(&self, path: &str, data: &[u8]) {
        let hand = self.connect_deaf();
        let written = match hand.set(path, data, None) {
            Err(ZkError::NoNode) => {
                hand.create_parents(path);
                hand.create(path, data, CreateMode::Persistent).map(|_| ())
            }
            other => other.map(|_| ()),
        };
        if let Err(error) = written {
            panic!("can't put {path} into the tree: {error}");
        }
        hand.close();
    }

    /// Removes a node and all below it from outside. Missing is fine.
    pub fn uproot(&self, path: &str) {
        for child in self.look_children(path) {
            self.uproot(&format!("{path}/{child}"));
        }
        let hand = self.connect_deaf();
        match hand.delete(path, None) {
            Ok(()) | Err(ZkError::NoNode) => {}
            Err(error) => panic!("can't remove {path} from the tree: {error}"),
        }
        hand.close();
    }

    /// An operator's ACL: nobody may set this node, nor make or delete a child of it.
    pub fn protect(&self, path: &str) {
        self.server.borrow_mut().tree.protect(path, true);
    }

    /// Takes such an ACL back.
    pub fn unprotect(&self, path: &str) {
        self.server.borrow_mut().tree.protect(path, false);
    }

    /// An operator's ACL: nobody may read this node's content.
    pub fn conceal(&self, path: &str) {
        self.server.borrow_mut().tree.conceal(path, true);
    }

    /// Takes such an ACL back.
    pub fn reveal(&self, path: &str) {
        self.server.borrow_mut().tree.conceal(path, false);
    }

    /// All that a partition's state has held, with its versions, in the order of writing.
    pub fn held_states(&self, path: &str) -> Vec<(i32, Vec<u8>)> {
        let server = self.server.borrow();
        let states = server.states.get(path);
        states.map(|states| states.held.clone()).unwrap_or_default()
    }

    /// The same without the first `known`.
    pub fn held_states_from(&self, path: &str, known: usize) -> Vec<(i32, Vec<u8>)> {
        let server = self.server.borrow();
        let held = server.states.get(path).map(|states| &states.held[..]);
        held.and_then(|held| held.get(known..))
            .unwrap_or_default()
            .to_vec()
    }

    /// What a partition's state held before it was written last, with its version; `None` if it was made then.
    pub fn held_before(&self, path: &str) -> Option<(i32, Vec<u8>)> {
        let server = self.server.borrow();
        let held = &server.states.get(path)?.held;
        match held.as_slice() {
            [.., before, (version, _)] if *version > 0 => Some(before.clone()),
            _ => None,
        }
    }

    /// How often a partition's state was created.
    pub fn lives_of_state(&self, path: &str) -> usize {
        let server = self.server.borrow();
        server.states.get(path).map_or(0, |states| states.lives)
    }

    /// The whole tree as text, a line a node: path, version, owner and data. Two equal worlds print equal trees.
    pub fn dump(&self) -> String {
        self.server.borrow().tree.dump()
    }

    fn end_session(&self, id: SessionId, tell: bool) {
        let mut server = self.server.borrow_mut();
        let Some(session) = server.sessions.remove(&id) else {
            return;
        };
        let changes = server.tree.remove_ephemerals_of(id);
        server.commit(id, changes);
        drop(server);
        if tell {
            (session.sink)(WatchedEvent::Session(SessionEvent::Expired));
        }
        self.deliver();
    }

    /// Hands what fired to the sinks of the sessions that are connected.
    fn deliver(&self) {
        loop {
            let mut server = self.server.borrow_mut();
            let next = server
                .fired
                .iter()
                .position(|(id, _)| server.sessions.get(id).is_none_or(|s| s.connected));
            let Some(position) = next else {
                return;
            };
            let (id, event) = server.fired.remove(position);
            let sink = server.sessions.get(&id).map(|session| session.sink.clone());
            drop(server);
            if let Some(sink) = sink {
                sink(event);
            }
        }
    }
}

impl Server {
    /// Keeps what was written to partitions' states.
    fn note_states(&mut self, changes: &[tree::Change]) {
        for change in changes {
            let (path, is_new) = match change {
                tree::Change::Created(path) => (path, true),
                tree::Change::DataChanged(path) => (path, false),
                tree::Change::Deleted(_) | tree::Change::ChildrenChanged(_) => continue,
            };
            if !(path.starts_with("/brokers/topics/") && path.ends_with("/state")) {
                continue;
            }
            // Gone again in the same transaction: nobody saw it.
            let Some(node) = self.tree.get(path) else {
                continue;
            };
            let (version, data) = (node.stat().version, node.data().to_vec());
            let states = self.states.entry(path.clone()).or_default();
            states.held.push((version, data));
            states.lives += usize::from(is_new);
        }
    }

    /// Tells those who are connected to one server of what it has just applied.
    fn fire(&mut self, changes: &[tree::Change], at: usize) {
        for change in changes {
            let connected_there = |(_, session): &(&SessionId, &mut Session)| session.server == at;
            for (id, session) in self.sessions.iter_mut().filter(connected_there) {
                if let Some(event) = session.watches.fire(change) {
                    self.fired.push((*id, WatchedEvent::Node(event)));
                }
            }
        }
    }

    /// The session, if it may ask something now.
    fn session(&mut self, id: SessionId) -> Result<&mut Session, ZkError> {
        match self.sessions.get_mut(&id) {
            None => Err(ZkError::SessionExpired),
            Some(session) if !session.connected => Err(ZkError::ConnectionLoss),
            Some(session) => Ok(session),
        }
    }
}

/// A client's session. Dropping the handle does not end it.
#[derive(Debug, Clone)]
pub struct ZkSession {
    zookeeper: ZooKeeper,
    id: SessionId,
}

impl ZkSession {
    /// The id that ephemeral nodes carry as their owner.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The server behind it.
    pub fn zookeeper(&self) -> &ZooKeeper {
        &self.zookeeper
    }

    /// Whether its connection stands.
    pub fn is_connected(&self) -> bool {
        let server = self.zookeeper.server.borrow();
        let session = server.sessions.get(&self.id);
        session.is_some_and(|session| session.connected)
    }

    /// Ends the session; its ephemeral nodes go.
    pub fn close(&self) {
        self.zookeeper.end_session(self.id, false);
    }

    /// Performs the operations whole or not at all; the error names the first that failed.
    pub fn multi(&self, ops: &[Op]) -> Result<Vec<OpResult>, ZkMultiError> {
        let mut server = self.zookeeper.server.borrow_mut();
        let whole = |error| ZkMultiError { index: 0, error };
        server.session(self.id).map_err(whole)?;
        let size_bytes: usize = ops.iter().map(Op::size_bytes).sum();
        if size_bytes > server.request_limit_bytes {
            return Err(whole(ZkError::RequestTooLarge { size_bytes }));
        }
        let applied = server.tree.apply(self.id, ops);
        // A failure is a transaction as well: it is answered when all before it was applied there.
        server.catch_up_for(self.id);
        let (results, changes) = match applied {
            Ok(applied) => applied,
            Err(failed) => {
                drop(server);
                self.zookeeper.deliver();
                return Err(failed);
            }
        };
        server.note_states(&changes);
        server.commit(self.id, changes);
        server.catch_up_for(self.id);
        drop(server);
        self.zookeeper.deliver();
        Ok(results)
    }

    /// Creates a node; returns the path made (sequential nodes get ten digits) and its stat.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<(String, Stat), ZkError> {
        match self.one(Op::create(path, data, mode))? {
            OpResult::Created { path, stat } => Ok((path, stat)),
            other => unreachable!("a create is answered by {other:?}"),
        }
    }

    /// Sets a node's data, under any version if none is expected; returns its new stat.
    pub fn set(&self, path: &str, data: &[u8], expected: Option<i32>) -> Result<Stat, ZkError> {
        match self.one(Op::set(path, data, expected))? {
            OpResult::Set(stat) => Ok(stat),
            other => unreachable!("a set is answered by {other:?}"),
        }
    }

    /// Deletes a node that has no children, under any version if none is expected.
    pub fn delete(&self, path: &str, expected: Option<i32>) -> Result<(), ZkError> {
        self.one(Op::delete(path, expected)).map(|_| ())
    }

    fn one(&self, op: Op) -> Result<OpResult, ZkError> {
        match self.multi(std::slice::from_ref(&op)) {
            Ok(mut results) => Ok(results.remove(0)),
            Err(failed) => Err(failed.error),
        }
    }

    /// Reads a node's data. Arms nothing.
    pub fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), ZkError> {
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?;
        let node = server.seen_by(self.id).get(path).ok_or(ZkError::NoNode)?;
        if server.tree.is_concealed(path) {
            return Err(ZkError::NoAuth);
        }
        Ok((node.data().to_vec(), node.stat()))
    }

    /// Reads a node's data and arms a one-shot watch on it, if it exists.
    pub fn get_and_watch(&self, path: &str) -> Result<(Vec<u8>, Stat), ZkError> {
        let found = self.get(path)?;
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?.watches.arm_data(path);
        Ok(found)
    }

    /// Whether a node exists. Arms nothing.
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, ZkError> {
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?;
        Ok(server.seen_by(self.id).get(path).map(Znode::stat))
    }

    /// Whether a node exists, and a one-shot watch on it, also where it does not.
    pub fn exists_and_watch(&self, path: &str) -> Result<Option<Stat>, ZkError> {
        let stat = self.exists(path)?;
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?.watches.arm_data(path);
        Ok(stat)
    }

    /// The names of a node's children, in order. Arms nothing.
    pub fn children(&self, path: &str) -> Result<Vec<String>, ZkError> {
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?;
        let node = server.seen_by(self.id).get(path).ok_or(ZkError::NoNode)?;
        Ok(node.children().iter().cloned().collect())
    }

    /// The names of a node's children, and a one-shot watch on the list, if the node exists.
    pub fn children_and_watch(&self, path: &str) -> Result<Vec<String>, ZkError> {
        let names = self.children(path)?;
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?.watches.arm_children(path);
        Ok(names)
    }

    /// Forgets every watch of the session, as a client does that does not arm them again after a reconnect.
    pub fn forget_watches(&self) {
        let mut server = self.zookeeper.server.borrow_mut();
        if let Some(session) = server.sessions.get_mut(&self.id) {
            session.watches = Watches::default();
        }
        let id = self.id;
        server.fired.retain(|(of, _)| *of != id);
    }

    /// Watches a node and all below it until the connection is cut. The node need not exist.
    pub fn watch_recursively(&self, path: &str) -> Result<(), ZkError> {
        let mut server = self.zookeeper.server.borrow_mut();
        server.session(self.id)?.watches.arm_recursive(path);
        Ok(())
    }

    /// Creates every missing ancestor of `path`, without data.
    pub fn create_parents(&self, path: &str) {
        let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        for parent in parents.filter(|parent| !parent.is_empty()) {
            match self.create(parent, b"", CreateMode::Persistent) {
                Ok(_) | Err(ZkError::NodeExists) => {}
                Err(error) => panic!("can't create {parent}: {error}"),
            }
        }
    }
}
