//! The role's writes: each in a transaction of its own under the check of the term's epoch.

use klamm::effect::{Term, ZkOutcome, ZkWrite};
use klamm::model::ConfigEntity;
use klamm::port::ZkFault;
use klamm::zk::{paths, znode};

use super::line::{Broken, Line, fault};
use super::{Attempt, removal};
use crate::zookeeper::{CreateMode, Op, ZkError};

/// Performs one write. Sent again after a lost answer, what looks like a conflict may be our own first attempt: it is
/// read back and compared. `see` is called at the moment at which the server looks at it.
pub async fn perform(
    line: &Line<'_>,
    term: &Term,
    write: &ZkWrite,
    attempt: Attempt,
    see: impl FnOnce(bool),
) -> Result<ZkOutcome, Broken> {
    let target = match write {
        ZkWrite::DeleteTopic(topic) => {
            return removal::of_topic(line, term, topic, removal::Extent::Everything).await;
        }
        ZkWrite::DeleteTopicRemains(topic) => {
            return removal::of_topic(line, term, topic, removal::Extent::Remains).await;
        }
        other => Target::of(other),
    };
    let mut ops = vec![Op::check(paths::CONTROLLER_EPOCH, fence(line, term))];
    ops.extend(missing_parents(line, write).await?);
    ops.extend(notice(line, write).await?);
    ops.extend(config(line, write).await?);
    ops.push(target.op.clone());
    match line.multi_seen(&ops, see).await {
        Ok(_) => Ok(ZkOutcome::Written {
            version: target.version_after,
        }),
        Err(failed) if failed.index == 0 => Err(match failed.error {
            ZkError::BadVersion | ZkError::NoNode => ZkFault::Fenced.into(),
            error => fault(paths::CONTROLLER_EPOCH, error),
        }),
        Err(failed) => {
            let refused = match failed.error {
                ZkError::BadVersion => ZkOutcome::VersionConflict,
                ZkError::NodeExists => ZkOutcome::AlreadyExists,
                ZkError::NoNode => ZkOutcome::Missing,
                error @ ZkError::NoAuth => {
                    ZkOutcome::Refused(format!("{}: {error}", target.op.path()))
                }
                error => return Err(fault(target.op.path(), error)),
            };
            match attempt {
                Attempt::Again if target.holds(line).await? => Ok(ZkOutcome::Written {
                    version: target.version_after,
                }),
                _ => Ok(refused),
            }
        }
    }
}

/// The version that `/controller_epoch` must have.
fn fence(line: &Line<'_>, term: &Term) -> i32 {
    #[cfg(feature = "planted")]
    if crate::planted::is_unfenced() {
        let node = line.session.zookeeper().look(paths::CONTROLLER_EPOCH);
        return node.map_or(term.epoch_zk_version, |node| node.stat().version);
    }
    let _ = line;
    term.epoch_zk_version
}

/// The operation that a write comes down to, and what the node is like once it took hold.
struct Target {
    op: Op,
    version_after: i32,
}

impl Target {
    fn of(write: &ZkWrite) -> Target {
        let create = |path: &str, data: Vec<u8>| Target {
            op: Op::create(path, &data, CreateMode::Persistent),
            version_after: 0,
        };
        let set = |path: &str, data: Vec<u8>, expected: i32| Target {
            op: Op::set(path, &data, Some(expected)),
            version_after: expected + 1,
        };
        let delete = |path: String| Target {
            op: Op::delete(&path, None),
            version_after: 0,
        };
        match write {
            ZkWrite::CreateState {
                partition,
                leader_and_isr,
                controller_epoch,
            } => create(
                &paths::state(partition),
                znode::encode_state(leader_and_isr, *controller_epoch),
            ),
            ZkWrite::SetState {
                partition,
                leader_and_isr,
                controller_epoch,
                expected,
            } => set(
                &paths::state(partition),
                znode::encode_state(leader_and_isr, *controller_epoch),
                expected.0,
            ),
            ZkWrite::SetTopic { topic, znode } => set(
                &paths::topic(topic),
                znode::encode_topic(znode),
                znode.version,
            ),
            ZkWrite::CreateTopic {
                topic,
                topic_id,
                replicas,
                ..
            } => create(
                &paths::topic(topic),
                znode::encode_new_topic(*topic_id, replicas),
            ),
            ZkWrite::CreateTopicDeletion(topic) => {
                create(&paths::topic_deletion(topic), Vec::new())
            }
            ZkWrite::DeleteTopic(topic)
            | ZkWrite::DeleteTopicRemains(topic)
            | ZkWrite::DeleteTopicDeletion(topic) => delete(paths::topic_deletion(topic)),
            ZkWrite::ExpireDelegationToken { token, read } => Target {
                op: Op::delete(&paths::delegation_token(token), Some(read.version)),
                version_after: 0,
            },
            ZkWrite::WriteUserConfig {
                user,
                config,
                expected,
            } => {
                let path = paths::entity_config(&ConfigEntity::User(user.clone()));
                let data = znode::encode_topic_config(&config.0);
                match expected {
                    Some(version) => set(&path, data, *version),
                    None => create(&path, data),
                }
            }
            ZkWrite::DeleteIsrChangeNotification(name) => delete(paths::isr_change(name)),
            ZkWrite::DeleteLogDirEventNotification(name) => delete(paths::log_dir_event(name)),
            ZkWrite::DeletePreferredReplicaElection => {
                delete(paths::PREFERRED_REPLICA_ELECTION.to_owned())
            }
            ZkWrite::SetPartitionReassignment { targets, expected } => set(
                paths::REASSIGN_PARTITIONS,
                znode::encode_reassignment(targets),
                *expected,
            ),
            ZkWrite::DeletePartitionReassignment { expected, .. } => Target {
                op: Op::delete(paths::REASSIGN_PARTITIONS, Some(*expected)),
                version_after: 0,
            },
            ZkWrite::CreateFeature(znode) => create(paths::FEATURE, znode::encode_feature(znode)),
            ZkWrite::SetFeature { znode, expected } => {
                set(paths::FEATURE, znode::encode_feature(znode), *expected)
            }
            ZkWrite::SetProducerIdBlock { block, expected } => set(
                paths::PRODUCER_ID_BLOCK,
                znode::encode_producer_id_block(block),
                *expected,
            ),
        }
    }

    /// Whether the node is as this write would have left it.
    async fn holds(&self, line: &Line<'_>) -> Result<bool, Broken> {
        let path = self.op.path();
        let found = match line.get(path).await {
            Ok((data, stat)) => Some((data, stat.version)),
            Err(ZkError::NoNode) => None,
            Err(error) => return Err(fault(path, error)),
        };
        Ok(match (&self.op, found) {
            (Op::Delete { .. }, None) => true,
            (Op::Create { data, .. } | Op::Set { data, .. }, Some((held, version))) => {
                *data == held && version == self.version_after
            }
            _ => false,
        })
    }
}

/// What tells brokers of a write, where they listen.
async fn notice(line: &Line<'_>, write: &ZkWrite) -> Result<Option<Op>, Broken> {
    let (path, data) = match write {
        ZkWrite::ExpireDelegationToken { token, .. } => {
            (paths::TOKEN_CHANGE, znode::encode_token_change(token))
        }
        ZkWrite::WriteUserConfig { user, .. } => {
            let entity = ConfigEntity::User(user.clone());
            let data = znode::encode_config_change(&entity.path());
            (paths::CONFIG_CHANGE, data)
        }
        _ => return Ok(None),
    };
    let parent = path.rsplit_once('/').map_or(path, |(parent, _)| parent);
    let listens = line
        .exists(parent)
        .await
        .map_err(|error| fault(parent, error))?;
    Ok(listens.map(|_| Op::create(path, &data, CreateMode::PersistentSequential)))
}

/// The configuration of a topic that is created, in place of an older one.
async fn config(line: &Line<'_>, write: &ZkWrite) -> Result<Option<Op>, Broken> {
    let ZkWrite::CreateTopic { topic, config, .. } = write else {
        return Ok(None);
    };
    let path = paths::topic_config(topic);
    let data = znode::encode_topic_config(config);
    let found = line
        .exists(&path)
        .await
        .map_err(|error| fault(&path, error))?;
    Ok(Some(match found {
        Some(_) => Op::set(&path, &data, None),
        None => Op::create(&path, &data, CreateMode::Persistent),
    }))
}

/// `…/partitions` and `…/partitions/P`, as far as they are missing.
async fn missing_parents(line: &Line<'_>, write: &ZkWrite) -> Result<Vec<Op>, Broken> {
    let ZkWrite::CreateState { partition, .. } = write else {
        return Ok(Vec::new());
    };
    let mut ops = Vec::new();
    for path in [
        paths::partitions(&partition.topic),
        paths::partition(partition),
    ] {
        let found = line
            .exists(&path)
            .await
            .map_err(|error| fault(&path, error))?;
        if found.is_none() {
            ops.push(Op::create(&path, b"", CreateMode::Persistent));
        }
    }
    Ok(ops)
}
