//! A topic's nodes go: each below the topic's node in a transaction of its own, the last three in one.
//!
//! A topic that somebody changes meanwhile is looked at again. Counterpart: `klamm::zk`'s removal, which groups the former.

use klamm::effect::{Term, ZkOutcome};
use klamm::model::TopicName;
use klamm::port::ZkFault;
use klamm::zk::paths;

use super::line::{Broken, Line, fault};
use crate::zookeeper::{Op, ZkError};

/// How often a topic is looked at again that somebody changes meanwhile.
const TRIES_MAX: u32 = 5;

/// What of a topic is to go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Everything,
    /// Its configuration and the request to delete it.
    Remains,
}

/// What became of deleting some nodes together.
enum Deleted {
    /// They are gone.
    All,
    /// One was not there, or not under its version.
    Missing,
    /// One has got children.
    NotEmpty,
    /// One may not be deleted.
    Refused(String),
}

/// Removes a topic's nodes as far as they are there.
pub async fn of_topic(
    line: &Line<'_>,
    term: &Term,
    topic: &TopicName,
    extent: Extent,
) -> Result<ZkOutcome, Broken> {
    for _ in 0..TRIES_MAX {
        let outcome = try_removal(line, term, topic, extent).await?;
        if outcome != ZkOutcome::VersionConflict {
            return Ok(outcome);
        }
    }
    Ok(ZkOutcome::VersionConflict)
}

async fn try_removal(
    line: &Line<'_>,
    term: &Term,
    topic: &TopicName,
    extent: Extent,
) -> Result<ZkOutcome, Broken> {
    let root = paths::topic(topic);
    let mut last = Vec::new();
    for path in [paths::topic_config(topic), paths::topic_deletion(topic)] {
        let found = line.exists(&path).await;
        let found = found.map_err(|error| fault(&path, error))?;
        last.extend(found.map(|_| Op::delete(&path, None)));
    }
    if extent == Extent::Everything {
        let found = line.exists(&root).await;
        let found = found.map_err(|error| fault(&root, error))?;
        last.extend(found.map(|stat| Op::delete(&root, Some(stat.version))));
        for path in below(line, &root).await? {
            // One that is gone already is as good. One that has got a child meanwhile is looked at again.
            match delete_together(line, term, &[Op::delete(&path, None)]).await? {
                Deleted::NotEmpty => return Ok(ZkOutcome::VersionConflict),
                Deleted::Refused(why) => return Ok(ZkOutcome::Refused(why)),
                Deleted::All | Deleted::Missing => {}
            }
        }
    }
    if last.is_empty() {
        return Ok(ZkOutcome::Missing);
    }
    Ok(match delete_together(line, term, &last).await? {
        Deleted::All => ZkOutcome::Written { version: 0 },
        Deleted::Missing | Deleted::NotEmpty => ZkOutcome::VersionConflict,
        Deleted::Refused(why) => ZkOutcome::Refused(why),
    })
}

/// Everything below a node, children before parents.
async fn below(line: &Line<'_>, path: &str) -> Result<Vec<String>, Broken> {
    let mut unseen = vec![path.to_owned()];
    let mut found = Vec::new();
    while let Some(parent) = unseen.pop() {
        let children = match line.children(&parent).await {
            Ok(children) => children,
            Err(ZkError::NoNode) => continue,
            Err(error) => return Err(fault(&parent, error)),
        };
        for child in children {
            let child = format!("{parent}/{child}");
            unseen.push(child.clone());
            found.push(child);
        }
    }
    found.reverse();
    Ok(found)
}

async fn delete_together(
    line: &Line<'_>,
    term: &Term,
    deletions: &[Op],
) -> Result<Deleted, Broken> {
    let mut ops = vec![Op::check(paths::CONTROLLER_EPOCH, term.epoch_zk_version)];
    ops.extend(deletions.iter().cloned());
    let Err(failed) = line.multi(&ops).await else {
        return Ok(Deleted::All);
    };
    match failed.error {
        ZkError::BadVersion | ZkError::NoNode if failed.index == 0 => Err(ZkFault::Fenced.into()),
        ZkError::BadVersion | ZkError::NoNode => Ok(Deleted::Missing),
        ZkError::NotEmpty => Ok(Deleted::NotEmpty),
        error @ ZkError::NoAuth => {
            let path = ops[failed.index].path();
            Ok(Deleted::Refused(format!("{path}: {error}")))
        }
        error => Err(fault(ops[failed.index].path(), error)),
    }
}
