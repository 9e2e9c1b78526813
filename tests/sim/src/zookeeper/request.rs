//! What a client may ask of the tree, and how it may fail.

use super::Stat;

/// How a node is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// It stays until it is deleted.
    Persistent,
    /// It goes with the session that made it.
    Ephemeral,
    /// It stays, and the server appends ten digits to its name.
    PersistentSequential,
}

/// One operation; alone or within a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The node has this version.
    Check {
        /// Its path.
        path: String,
        /// The version it must have.
        version: i32,
    },
    /// Make a node; its parent must exist.
    Create {
        /// Its path.
        path: String,
        /// Its data.
        data: Vec<u8>,
        /// How.
        mode: CreateMode,
    },
    /// Set a node's data.
    Set {
        /// Its path.
        path: String,
        /// Its data.
        data: Vec<u8>,
        /// The version it must have; any if `None`.
        expected: Option<i32>,
    },
    /// Delete a node without children.
    Delete {
        /// Its path.
        path: String,
        /// The version it must have; any if `None`.
        expected: Option<i32>,
    },
}

impl Op {
    /// The node has this version.
    pub fn check(path: &str, version: i32) -> Op {
        Op::Check {
            path: path.to_owned(),
            version,
        }
    }

    /// Make a node.
    pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Op {
        Op::Create {
            path: path.to_owned(),
            data: data.to_vec(),
            mode,
        }
    }

    /// Set a node's data.
    pub fn set(path: &str, data: &[u8], expected: Option<i32>) -> Op {
        Op::Set {
            path: path.to_owned(),
            data: data.to_vec(),
            expected,
        }
    }

    /// Delete a node.
    pub fn delete(path: &str, expected: Option<i32>) -> Op {
        Op::Delete {
            path: path.to_owned(),
            expected,
        }
    }

    /// The node that it concerns.
    pub fn path(&self) -> &str {
        match self {
            Op::Check { path, .. }
            | Op::Create { path, .. }
            | Op::Set { path, .. }
            | Op::Delete { path, .. } => path,
        }
    }

    /// What it takes of a request's bytes: header, path, data, version, and the ACL of a create.
    pub fn size_bytes(&self) -> usize {
        const HEADER: usize = 9;
        const LENGTH: usize = 4;
        const VERSION: usize = 4;
        const OPEN_ACL_AND_FLAGS: usize = 31;
        HEADER
            + LENGTH
            + self.path().len()
            + match self {
                Op::Check { .. } | Op::Delete { .. } => VERSION,
                Op::Set { data, .. } => LENGTH + data.len() + VERSION,
                Op::Create { data, .. } => LENGTH + data.len() + OPEN_ACL_AND_FLAGS,
            }
    }
}

/// What one operation answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// The version is as it must be.
    Checked,
    /// The node was made.
    Created {
        /// Its path, with the digits of a sequential one.
        path: String,
        /// Its stat.
        stat: Stat,
    },
    /// The data was set.
    Set(Stat),
    /// The node is gone.
    Deleted,
}

/// Why a request failed, with the meaning of the server's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZkError {
    /// No such node, or no parent to create it under.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// The node has another version.
    BadVersion,
    /// The node has children.
    NotEmpty,
    /// An ephemeral node can't have children.
    NoChildrenForEphemerals,
    /// The node's ACL forbids it; the parent's where a node is made or deleted.
    NoAuth,
    /// The path is none.
    BadArguments,
    /// The connection is cut: it may or may not have happened.
    ConnectionLoss,
    /// The session is over.
    SessionExpired,
    /// More bytes than `jute.maxbuffer`. A server cuts the connection, each time again; here it says why.
    RequestTooLarge {
        /// What the request took.
        size_bytes: usize,
    },
}

impl std::fmt::Display for ZkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The first operation of a transaction that failed; nothing of it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZkMultiError {
    /// Its place in the transaction.
    pub index: usize,
    /// Why.
    pub error: ZkError,
}
