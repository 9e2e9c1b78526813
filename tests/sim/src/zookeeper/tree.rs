//! The tree: nodes, their stats, and transactions that happen whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::SessionId;
use super::request::{CreateMode, Op, OpResult, ZkError, ZkMultiError};

/// What the server knows of a node beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The transaction that made it.
    pub czxid: i64,
    /// The transaction that wrote it last.
    pub mzxid: i64,
    /// How often its data was set: 0 when made.
    pub version: i32,
    /// The session it goes with, if it is ephemeral.
    pub owner: Option<SessionId>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Znode {
    data: Vec<u8>,
    stat: Stat,
    children: BTreeSet<String>,
    /// Children ever made: the number of the next sequential one.
    creations: i32,
}

impl Znode {
    fn new(data: &[u8], zxid: i64, owner: Option<SessionId>) -> Znode {
        Znode {
            data: data.to_vec(),
            stat: Stat {
                czxid: zxid,
                mzxid: zxid,
                version: 0,
                owner,
            },
            children: BTreeSet::new(),
            creations: 0,
        }
    }

    /// Its data.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Its data as text, for a look at JSON.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }

    /// Its stat.
    pub fn stat(&self) -> Stat {
        self.stat
    }

    /// Its children's names.
    pub fn children(&self) -> &BTreeSet<String> {
        &self.children
    }
}

/// What a transaction did to a node, for the watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Made.
    Created(String),
    /// Written.
    DataChanged(String),
    /// Gone.
    Deleted(String),
    /// Its children are others.
    ChildrenChanged(String),
}

#[derive(Debug, Clone)]
pub struct Tree {
    nodes: BTreeMap<String, Znode>,
    zxid: i64,
    /// Nodes that nobody may set, nor make or delete children of.
    protected: BTreeSet<String>,
    /// Nodes whose content nobody may read.
    concealed: BTreeSet<String>,
}

/// One step of a transaction, as it must be taken back.
enum Undo {
    /// A node was made: remove it.
    Created(String),
    /// A node was written: its data and stat before.
    Written(String, Vec<u8>, Stat),
    /// A node was removed: the node.
    Removed(String, Znode),
}

fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.len() > 1 && !path.ends_with('/') && !path.contains("//")
}

impl Tree {
    pub fn new() -> Tree {
        Tree {
            nodes: BTreeMap::from([("/".to_owned(), Znode::new(b"", 0, None))]),
            zxid: 0,
            protected: BTreeSet::new(),
            concealed: BTreeSet::new(),
        }
    }

    /// Forbids writes of a node and of its children's names, as an ACL does, or allows them again.
    pub fn protect(&mut self, path: &str, is_protected: bool) {
        match is_protected {
            true => self.protected.insert(path.to_owned()),
            false => self.protected.remove(path),
        };
    }

    /// Forbids reads of a node's content, as an ACL does, or allows them again.
    pub fn conceal(&mut self, path: &str, is_concealed: bool) {
        match is_concealed {
            true => self.concealed.insert(path.to_owned()),
            false => self.concealed.remove(path),
        };
    }

    pub fn is_concealed(&self, path: &str) -> bool {
        self.concealed.contains(path)
    }

    pub fn get(&self, path: &str) -> Option<&Znode> {
        self.nodes.get(path)
    }

    /// Sets one node to what it is elsewhere.
    pub fn put(&mut self, path: &str, node: Option<Znode>) {
        match node {
            Some(node) => self.nodes.insert(path.to_owned(), node),
            None => self.nodes.remove(path),
        };
    }

    /// Performs a transaction under one zxid. On failure the tree is as it was, and only a zxid is spent.
    pub fn apply(
        &mut self,
        session: SessionId,
        ops: &[Op],
    ) -> Result<(Vec<OpResult>, Vec<Change>), ZkMultiError> {
        self.zxid += 1;
        let (mut results, mut changes, mut undo) = (Vec::new(), Vec::new(), Vec::new());
        for (index, op) in ops.iter().enumerate() {
            match self.perform(session, op, &mut changes, &mut undo) {
                Ok(result) => results.push(result),
                Err(error) => {
                    self.put_back(undo);
                    return Err(ZkMultiError { index, error });
                }
            }
        }
        Ok((results, changes))
    }

    /// Deletes what goes with a session, as one transaction.
    pub fn remove_ephemerals_of(&mut self, session: SessionId) -> Vec<Change> {
        self.zxid += 1;
        let owned: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.stat.owner == Some(session))
            .map(|(path, _)| path.clone())
            .collect();
        let mut changes = Vec::new();
        for path in owned {
            self.remove(&path, &mut changes, &mut Vec::new());
        }
        changes
    }

    pub fn dump(&self) -> String {
        let mut text = String::new();
        for (path, node) in &self.nodes {
            let owner = node.stat.owner.map_or(0, |session| session.0);
            let (version, data) = (node.stat.version, node.text());
            // Writing to a string can't fail.
            let _ = writeln!(text, "{path} v{version} owner {owner} {data}");
        }
        text
    }

    fn perform(
        &mut self,
        session: SessionId,
        op: &Op,
        changes: &mut Vec<Change>,
        undo: &mut Vec<Undo>,
    ) -> Result<OpResult, ZkError> {
        if !is_path(op.path()) {
            return Err(ZkError::BadArguments);
        }
        if self.is_forbidden(op) {
            return Err(ZkError::NoAuth);
        }
        match op {
            Op::Check { path, version } => {
                self.at_version(path, Some(*version))?;
                Ok(OpResult::Checked)
            }
            Op::Set {
                path,
                data,
                expected,
            } => {
                self.at_version(path, *expected)?;
                let stat = self.write(path, data, undo);
                changes.push(Change::DataChanged(path.clone()));
                Ok(OpResult::Set(stat))
            }
            Op::Delete { path, expected } => {
                if !self.at_version(path, *expected)?.children.is_empty() {
                    return Err(ZkError::NotEmpty);
                }
                self.remove(path, changes, undo);
                Ok(OpResult::Deleted)
            }
            Op::Create { path, data, mode } => {
                self.insert(session, path, data, *mode, changes, undo)
            }
        }
    }

    fn is_forbidden(&self, op: &Op) -> bool {
        match op {
            Op::Check { .. } => false,
            Op::Set { path, .. } => self.protected.contains(path),
            Op::Create { path, .. } | Op::Delete { path, .. } => {
                self.protected.contains(parent_of(path))
            }
        }
    }

    fn at_version(&self, path: &str, expected: Option<i32>) -> Result<&Znode, ZkError> {
        let node = self.nodes.get(path).ok_or(ZkError::NoNode)?;
        match expected {
            Some(version) if version != node.stat.version => Err(ZkError::BadVersion),
            _ => Ok(node),
        }
    }

    fn write(&mut self, path: &str, data: &[u8], undo: &mut Vec<Undo>) -> Stat {
        let zxid = self.zxid;
        let node = self.node_mut(path);
        let before = std::mem::replace(&mut node.data, data.to_vec());
        undo.push(Undo::Written(path.to_owned(), before, node.stat));
        node.stat.mzxid = zxid;
        node.stat.version += 1;
        node.stat
    }

    fn insert(
        &mut self,
        session: SessionId,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        changes: &mut Vec<Change>,
        undo: &mut Vec<Undo>,
    ) -> Result<OpResult, ZkError> {
        let parent_path = parent_of(path).to_owned();
        let parent = self.nodes.get(&parent_path).ok_or(ZkError::NoNode)?;
        if parent.stat.owner.is_some() {
            return Err(ZkError::NoChildrenForEphemerals);
        }
        let (path, owner) = match mode {
            CreateMode::Persistent => (path.to_owned(), None),
            CreateMode::Ephemeral => (path.to_owned(), Some(session)),
            CreateMode::PersistentSequential => (format!("{path}{:010}", parent.creations), None),
        };
        if self.nodes.contains_key(&path) {
            return Err(ZkError::NodeExists);
        }
        undo.push(Undo::Created(path.clone()));
        let node = Znode::new(data, self.zxid, owner);
        let stat = node.stat;
        self.nodes.insert(path.clone(), node);
        let parent = self.node_mut(&parent_path);
        parent.children.insert(name_of(&path).to_owned());
        parent.creations += 1;
        changes.push(Change::Created(path.clone()));
        changes.push(Change::ChildrenChanged(parent_path));
        Ok(OpResult::Created { path, stat })
    }

    fn remove(&mut self, path: &str, changes: &mut Vec<Change>, undo: &mut Vec<Undo>) {
        let parent_path = parent_of(path).to_owned();
        if let Some(node) = self.nodes.remove(path) {
            undo.push(Undo::Removed(path.to_owned(), node));
        }
        self.node_mut(&parent_path).children.remove(name_of(path));
        changes.push(Change::Deleted(path.to_owned()));
        changes.push(Change::ChildrenChanged(parent_path));
    }

    fn put_back(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            match step {
                Undo::Created(path) => {
                    self.nodes.remove(&path);
                    let parent = self.node_mut(parent_of(&path));
                    parent.children.remove(name_of(&path));
                    parent.creations -= 1;
                }
                Undo::Written(path, data, stat) => {
                    let node = self.node_mut(&path);
                    node.data = data;
                    node.stat = stat;
                }
                Undo::Removed(path, node) => {
                    let parent = self.node_mut(parent_of(&path));
                    parent.children.insert(name_of(&path).to_owned());
                    self.nodes.insert(path, node);
                }
            }
        }
    }

    /// A node that the caller has just seen.
    fn node_mut(&mut self, path: &str) -> &mut Znode {
        match self.nodes.get_mut(path) {
            Some(node) => node,
            None => unreachable!("{path} was there a moment ago"),
        }
    }
}
