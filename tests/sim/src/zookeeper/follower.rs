//! Followers that lag behind the leader: each applies the leader's transactions in order, and later.
//!
//! A session reads what its own server has applied; a write of its own is applied there before it is answered, and a
//! session that moves to another server never sees an older state than before. Watches fire when the session's server
//! applies what they wait for. Must never change the order of transactions.

use super::tree::{Change, Tree, Znode};
use super::{Server, SessionId, ZooKeeper};

/// A transaction as followers apply it, and as one sees it who looks on.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Whose it was.
    pub session: SessionId,
    /// The nodes that it touched, as they were afterwards; `None`: gone. One may be named more than once.
    pub nodes: Vec<(String, Option<Znode>)>,
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Follower {
    tree: Tree,
    /// How many of the transactions it has applied.
    applied: usize,
}

/// The followers, and all that the leader did since they are there.
#[derive(Debug, Default)]
pub struct Ensemble {
    followers: Vec<Follower>,
    /// Whether what the leader does is kept.
    is_kept: bool,
    log: Vec<Transaction>,
}

impl ZooKeeper {
    /// From now on what the leader does is kept.
    pub fn keep_log(&self) {
        self.server.borrow_mut().ensemble.is_kept = true;
    }

    /// What the leader did since it is kept, but for the first `known`.
    pub fn transactions_since(&self, known: usize) -> Vec<Transaction> {
        let server = self.server.borrow();
        server.ensemble.log.iter().skip(known).cloned().collect()
    }

    /// Adds a follower that has applied all there is; returns its number.
    pub fn add_follower(&self) -> usize {
        self.keep_log();
        let mut server = self.server.borrow_mut();
        let tree = server.tree.clone();
        let applied = server.ensemble.log.len();
        server.ensemble.followers.push(Follower { tree, applied });
        server.ensemble.followers.len()
    }

    /// Connects a session to a server from now on; the server is as far as the session has seen.
    pub fn connect_to(&self, id: SessionId, to: usize) {
        let mut server = self.server.borrow_mut();
        let Some(from) = server.sessions.get(&id).map(|session| session.server) else {
            return;
        };
        let seen = server.ensemble.applied(from);
        server.apply_up_to(to, seen);
        if let Some(session) = server.sessions.get_mut(&id) {
            session.server = to;
        }
        drop(server);
        self.deliver();
    }

    /// How many transactions a follower has yet to apply.
    pub fn lag_of(&self, follower: usize) -> usize {
        let server = self.server.borrow();
        server.ensemble.log.len() - server.ensemble.applied(follower)
    }

    /// A follower applies so many transactions.
    pub fn follow(&self, follower: usize, count: usize) {
        let mut server = self.server.borrow_mut();
        let up_to = server.ensemble.applied(follower) + count;
        server.apply_up_to(follower, up_to);
        drop(server);
        self.deliver();
    }
}

impl Ensemble {
    /// How many transactions a server has applied; the leader has applied all.
    fn applied(&self, server: usize) -> usize {
        let follower = server.checked_sub(1).and_then(|at| self.followers.get(at));
        follower.map_or(self.log.len(), |follower| follower.applied)
    }
}

impl Server {
    /// A transaction of the leader took hold.
    pub(super) fn commit(&mut self, session: SessionId, changes: Vec<Change>) {
        self.fire(&changes, 0);
        if changes.is_empty() || !self.ensemble.is_kept {
            return;
        }
        let node_of = |change: &Change| {
            let (Change::Created(path)
            | Change::DataChanged(path)
            | Change::Deleted(path)
            | Change::ChildrenChanged(path)) = change;
            (path.clone(), self.tree.get(path).cloned())
        };
        let nodes = changes.iter().map(node_of).collect();
        self.ensemble.log.push(Transaction {
            session,
            nodes,
            changes,
        });
    }

    /// The tree as the server of a session has it.
    pub(super) fn seen_by(&self, id: SessionId) -> &Tree {
        let at = self.sessions.get(&id).map_or(0, |session| session.server);
        let follower = at
            .checked_sub(1)
            .and_then(|at| self.ensemble.followers.get(at));
        follower.map_or(&self.tree, |follower| &follower.tree)
    }

    /// The server of a session applies all that it has done.
    pub(super) fn catch_up_for(&mut self, id: SessionId) {
        if let Some(at) = self.sessions.get(&id).map(|session| session.server) {
            self.apply_up_to(at, self.ensemble.log.len());
        }
    }

    fn apply_up_to(&mut self, at: usize, count: usize) {
        let Some(index) = at.checked_sub(1) else {
            return;
        };
        loop {
            let ensemble = &mut self.ensemble;
            let Some(follower) = ensemble.followers.get_mut(index) else {
                return;
            };
            let next = ensemble.log.get(follower.applied);
            let Some(next) = next.filter(|_| follower.applied < count) else {
                return;
            };
            follower.applied += 1;
            for (path, node) in &next.nodes {
                follower.tree.put(path, node.clone());
            }
            let changes = next.changes.clone();
            self.fire(&changes, at);
        }
    }
}
