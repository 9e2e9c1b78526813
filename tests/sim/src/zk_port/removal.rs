//! A topic's nodes go: each below the topic's node in a transaction of its own, the last three in one.
//!
//! Counterpart: `klamm::zk`'s removal, which groups the former.

use klamm::effect::{Term, ZkOutcome};
use klamm::model::TopicName;
use klamm::port::ZkFault;
use klamm::zk::paths;

use super::fault;
use crate::zookeeper::{Op, ZkError, ZkSession};

/// What of a topic is to go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Everything,
    /// Its configuration and the request to delete it.
    Remains,
}

/// Removes a topic's nodes as far as they are there.
pub fn of_topic(
    session: &ZkSession,
    term: &Term,
    topic: &TopicName,
    extent: Extent,
) -> Result<ZkOutcome, ZkFault> {
    let root = paths::topic(topic);
    let mut last = vec![paths::topic_config(topic), paths::topic_deletion(topic)];
    if extent == Extent::Everything {
        for path in below(session, &root)? {
            delete_together(session, term, &[path])?;
        }
        last.push(root);
    }
    let mut there = Vec::new();
    for path in last {
        let found = session.exists(&path).map_err(|error| fault(&path, error))?;
        there.extend(found.map(|_| path));
    }
    if there.is_empty() {
        return Ok(ZkOutcome::Missing);
    }
    delete_together(session, term, &there)?;
    Ok(ZkOutcome::Written { version: 0 })
}

/// Everything below a node, children before parents.
fn below(session: &ZkSession, path: &str) -> Result<Vec<String>, ZkFault> {
    let children = match session.children(path) {
        Ok(children) => children,
        Err(ZkError::NoNode) => return Ok(Vec::new()),
        Err(error) => return Err(fault(path, error)),
    };
    let mut all = Vec::new();
    for child in children {
        let child = format!("{path}/{child}");
        all.extend(below(session, &child)?);
        all.push(child);
    }
    Ok(all)
}

fn delete_together(session: &ZkSession, term: &Term, nodes: &[String]) -> Result<(), ZkFault> {
    let mut ops = vec![Op::check(paths::CONTROLLER_EPOCH, term.epoch_zk_version)];
    ops.extend(nodes.iter().map(|path| Op::delete(path, None)));
    match session.multi(&ops) {
        Ok(_) => Ok(()),
        Err(failed) if failed.index == 0 => Err(match failed.error {
            ZkError::BadVersion | ZkError::NoNode => ZkFault::Fenced,
            error => fault(paths::CONTROLLER_EPOCH, error),
        }),
        Err(failed) => Err(fault(&nodes[failed.index - 1], failed.error)),
    }
}
