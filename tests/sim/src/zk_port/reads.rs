//! Reads: what stands in the nodes, and the watches that reading arms.

use std::collections::BTreeSet;

use klamm::effect::{
    ConfigChange, DelegationTokenZnode, ElectionConfig, FeatureZnode, NotificationName,
    PreferredElectionZnode, ProducerIdBlock, Read, ReassignmentZnode, StateRead, TokenId,
    TopicZnode,
};
use klamm::model::{
    BrokerId, BrokerRegistration, ConfigEntity, EntityConfig, SanitizedName, TopicName,
    TopicPartition,
};
use klamm::port::Notification;
use klamm::zk::{paths, znode};

use super::TopicWatches;
use super::line::{Broken, Line, fault};
use crate::zookeeper::{Stat, ZkError};

/// Whether reading arms a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Arm,
    Not,
}

async fn data<T>(
    line: &Line<'_>,
    path: &str,
    watch: Watch,
    decode: impl FnOnce(&[u8], Stat) -> Read<T>,
) -> Result<Read<T>, Broken> {
    let read = match watch {
        Watch::Arm => line.get_and_watch(path).await,
        Watch::Not => line.get(path).await,
    };
    match read {
        Ok((data, stat)) => Ok(decode(&data, stat)),
        Err(ZkError::NoNode) => Ok(Read::Missing),
        Err(error @ ZkError::NoAuth) => Ok(not_shown(path, error)),
        Err(error) => Err(fault(path, error)),
    }
}

fn not_shown<T>(path: &str, error: ZkError) -> Read<T> {
    Read::Broken(format!("{path}: ZooKeeper does not show it: {error}"))
}

/// Several nodes, read in one request.
async fn each<T>(
    line: &Line<'_>,
    paths: Vec<String>,
    watch: Watch,
    decode: impl Fn(usize, &str, &[u8], Stat) -> Read<T>,
) -> Result<Vec<Read<T>>, Broken> {
    let Some(first) = paths.first() else {
        return Ok(Vec::new());
    };
    let reads = line.get_each(&paths, watch == Watch::Arm).await;
    let reads = reads.map_err(|error| fault(first, error))?;
    let each = reads.into_iter().zip(&paths).enumerate();
    each.map(|(index, (read, path))| match read {
        Ok((data, stat)) => Ok(decode(index, path, &data, stat)),
        Err(ZkError::NoNode) => Ok(Read::Missing),
        Err(error @ ZkError::NoAuth) => Ok(not_shown(path, error)),
        Err(error) => Err(fault(path, error)),
    })
    .collect()
}

/// A missing parent has no children.
async fn children(line: &Line<'_>, path: &str, watch: Watch) -> Result<Vec<String>, Broken> {
    let read = match watch {
        Watch::Arm => line.children_and_watch(path).await,
        Watch::Not => line.children(path).await,
    };
    match read {
        Ok(names) => Ok(names),
        Err(ZkError::NoNode) => Ok(Vec::new()),
        Err(error) => Err(fault(path, error)),
    }
}

pub async fn klamm_ids(line: &Line<'_>) -> Result<BTreeSet<BrokerId>, Broken> {
    let names = children(line, paths::KLAMM_IDS, Watch::Arm).await?;
    Ok(names.iter().filter_map(|n| paths::id_of_child(n)).collect())
}

pub async fn brokers(line: &Line<'_>) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, Broken> {
    let names = children(line, paths::BROKER_IDS, Watch::Arm).await?;
    let mut ids: Vec<BrokerId> = names.iter().filter_map(|n| paths::id_of_child(n)).collect();
    ids.sort();
    let nodes = ids.iter().map(|id| paths::broker(*id)).collect();
    let reads = each(line, nodes, Watch::Arm, |index, path, data, stat| {
        znode::decode_broker(path, ids[index], data, stat.czxid)
    });
    let reads = reads.await?;
    Ok(ids.into_iter().zip(reads).collect())
}

pub async fn broker(line: &Line<'_>, id: BrokerId) -> Result<Read<BrokerRegistration>, Broken> {
    let path = paths::broker(id);
    data(line, &path, Watch::Arm, |data, stat| {
        znode::decode_broker(&path, id, data, stat.czxid)
    })
    .await
}

pub async fn topic_names(line: &Line<'_>, watches: TopicWatches) -> Result<Vec<TopicName>, Broken> {
    let names = children(line, paths::TOPICS, one_shot(watches)).await?;
    Ok(names.iter().map(|name| TopicName::new(name)).collect())
}

pub async fn topics(
    line: &Line<'_>,
    names: &[TopicName],
    watches: TopicWatches,
) -> Result<Vec<Read<TopicZnode>>, Broken> {
    let nodes = names.iter().map(paths::topic).collect();
    each(line, nodes, one_shot(watches), |_, path, data, stat| {
        znode::decode_topic(path, data, stat.version)
    })
    .await
}

fn one_shot(watches: TopicWatches) -> Watch {
    match watches {
        TopicWatches::OneShot => Watch::Arm,
        TopicWatches::Recursive => Watch::Not,
    }
}

pub async fn partition_states(
    line: &Line<'_>,
    partitions: &[TopicPartition],
) -> Result<Vec<Read<StateRead>>, Broken> {
    let nodes = partitions.iter().map(paths::state).collect();
    each(line, nodes, Watch::Not, |_, path, data, stat| {
        znode::decode_state(path, data, stat.version)
    })
    .await
}

pub async fn topic_configs(
    line: &Line<'_>,
    names: &[TopicName],
) -> Result<Vec<Read<ElectionConfig>>, Broken> {
    let nodes = names.iter().map(paths::topic_config).collect();
    let reads = each(line, nodes, Watch::Not, |_, path, data, _| {
        znode::decode_election_config(path, data)
    });
    let or_empty = |read| match read {
        Read::Missing => Read::Found(ElectionConfig::default()),
        other => other,
    };
    Ok(reads.await?.into_iter().map(or_empty).collect())
}

pub async fn default_broker_config(line: &Line<'_>) -> Result<Read<ElectionConfig>, Broken> {
    let path = paths::DEFAULT_BROKER_CONFIG;
    data(line, path, Watch::Not, |data, _| {
        znode::decode_election_config(path, data)
    })
    .await
}

pub async fn entity_configs(
    line: &Line<'_>,
    entities: &[ConfigEntity],
) -> Result<Vec<Read<(EntityConfig, i32)>>, Broken> {
    let nodes = entities.iter().map(paths::entity_config).collect();
    each(line, nodes, Watch::Not, |_, path, data, stat| {
        znode::decode_entity_config(path, data, stat.version)
    })
    .await
}

pub async fn quota_entities(line: &Line<'_>) -> Result<Vec<ConfigEntity>, Broken> {
    let clients = entity_names(line, paths::CLIENTS).await?;
    let mut entities: Vec<ConfigEntity> = clients.into_iter().map(ConfigEntity::Client).collect();
    for user in entity_names(line, paths::USERS).await? {
        let clients = entity_names(line, &paths::clients_of_user(&user)).await?;
        let of_user = |client| ConfigEntity::UserClient(user.clone(), client);
        entities.extend(clients.into_iter().map(of_user));
        entities.push(ConfigEntity::User(user));
    }
    Ok(entities)
}

async fn entity_names(line: &Line<'_>, path: &str) -> Result<Vec<SanitizedName>, Broken> {
    let names = children(line, path, Watch::Not).await?;
    Ok(names.iter().map(|name| SanitizedName::read(name)).collect())
}

pub async fn topic_deletions(line: &Line<'_>) -> Result<Vec<TopicName>, Broken> {
    let names = children(line, paths::DELETE_TOPICS, Watch::Arm).await?;
    Ok(names.iter().map(|name| TopicName::new(name)).collect())
}

pub async fn delegation_tokens(
    line: &Line<'_>,
) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, Broken> {
    let names = children(line, paths::DELEGATION_TOKENS, Watch::Not).await?;
    let tokens: Vec<TokenId> = names.into_iter().map(TokenId).collect();
    let nodes = tokens.iter().map(paths::delegation_token).collect();
    let reads = each(line, nodes, Watch::Not, |_, path, data, stat| {
        znode::decode_token(path, data, stat.version, stat.czxid)
    });
    let reads = reads.await?;
    Ok(tokens.into_iter().zip(reads).collect())
}

pub async fn config_change_names(line: &Line<'_>) -> Result<Vec<NotificationName>, Broken> {
    let names = children(line, paths::CONFIG_CHANGES, Watch::Arm).await?;
    Ok(names.into_iter().map(NotificationName).collect())
}

pub async fn config_changes(
    line: &Line<'_>,
    names: &[NotificationName],
) -> Result<Vec<Read<ConfigChange>>, Broken> {
    let nodes = names.iter().map(paths::config_change).collect();
    each(line, nodes, Watch::Not, |_, path, data, _| {
        znode::decode_config_change(path, data)
    })
    .await
}

pub async fn isr_change_notifications(
    line: &Line<'_>,
) -> Result<Vec<Notification<Vec<TopicPartition>>>, Broken> {
    let parent = paths::ISR_CHANGE_NOTIFICATION;
    notifications(line, parent, paths::isr_change, znode::decode_isr_change).await
}

pub async fn log_dir_event_notifications(
    line: &Line<'_>,
) -> Result<Vec<Notification<BrokerId>>, Broken> {
    let parent = paths::LOG_DIR_EVENT_NOTIFICATION;
    let path = paths::log_dir_event;
    notifications(line, parent, path, znode::decode_log_dir_event).await
}

async fn notifications<T>(
    line: &Line<'_>,
    parent: &str,
    path: impl Fn(&NotificationName) -> String,
    decode: impl Fn(&str, &[u8]) -> Read<T>,
) -> Result<Vec<Notification<T>>, Broken> {
    let names = children(line, parent, Watch::Arm).await?;
    let names: Vec<NotificationName> = names.into_iter().map(NotificationName).collect();
    let nodes = names.iter().map(path).collect();
    let reads = each(line, nodes, Watch::Not, |_, path, data, _| {
        decode(path, data)
    })
    .await?;
    let with_name = |(name, content)| Notification { name, content };
    Ok(names.into_iter().zip(reads).map(with_name).collect())
}

pub async fn preferred_replica_election(
    line: &Line<'_>,
) -> Result<Read<PreferredElectionZnode>, Broken> {
    let path = paths::PREFERRED_REPLICA_ELECTION;
    if !is_there(line, path).await? {
        return Ok(Read::Missing);
    }
    data(line, path, Watch::Not, |data, _| {
        znode::decode_preferred_election(path, data)
    })
    .await
}

pub async fn partition_reassignment(line: &Line<'_>) -> Result<Read<ReassignmentZnode>, Broken> {
    let path = paths::REASSIGN_PARTITIONS;
    if !is_there(line, path).await? {
        return Ok(Read::Missing);
    }
    data(line, path, Watch::Not, |data, stat| {
        let (version, czxid) = (stat.version, stat.czxid);
        Read::Found(znode::decode_reassignment(path, data, version, czxid))
    })
    .await
}

/// Whether a node is there, and a watch on it either way.
async fn is_there(line: &Line<'_>, path: &str) -> Result<bool, Broken> {
    let stat = line.exists_and_watch(path).await;
    stat.map(|stat| stat.is_some())
        .map_err(|error| fault(path, error))
}

pub async fn feature(line: &Line<'_>) -> Result<Read<(FeatureZnode, i32)>, Broken> {
    data(line, paths::FEATURE, Watch::Not, |data, stat| {
        znode::decode_feature(paths::FEATURE, data, stat.version)
    })
    .await
}

pub async fn producer_id_block(
    line: &Line<'_>,
) -> Result<Read<(Option<ProducerIdBlock>, i32)>, Broken> {
    let path = paths::PRODUCER_ID_BLOCK;
    data(line, path, Watch::Not, |data, stat| {
        znode::decode_producer_id_block(path, data, stat.version)
    })
    .await
}
