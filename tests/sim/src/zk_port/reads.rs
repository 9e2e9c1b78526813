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
use klamm::port::{Notification, ZkFault};
use klamm::zk::{paths, znode};

use super::{TopicWatches, fault};
use crate::zookeeper::{Stat, ZkError, ZkSession};

/// Whether reading arms a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Arm,
    Not,
}

fn data<T>(
    session: &ZkSession,
    path: &str,
    watch: Watch,
    decode: impl FnOnce(&[u8], Stat) -> Read<T>,
) -> Result<Read<T>, ZkFault> {
    let read = match watch {
        Watch::Arm => session.get_and_watch(path),
        Watch::Not => session.get(path),
    };
    match read {
        Ok((data, stat)) => Ok(decode(&data, stat)),
        Err(ZkError::NoNode) => Ok(Read::Missing),
        Err(error) => Err(fault(path, error)),
    }
}

/// A missing parent has no children.
fn children(session: &ZkSession, path: &str, watch: Watch) -> Result<Vec<String>, ZkFault> {
    let read = match watch {
        Watch::Arm => session.children_and_watch(path),
        Watch::Not => session.children(path),
    };
    match read {
        Ok(names) => Ok(names),
        Err(ZkError::NoNode) => Ok(Vec::new()),
        Err(error) => Err(fault(path, error)),
    }
}

pub fn klamm_ids(session: &ZkSession) -> Result<BTreeSet<BrokerId>, ZkFault> {
    let names = children(session, paths::KLAMM_IDS, Watch::Arm)?;
    Ok(names.iter().filter_map(|n| paths::id_of_child(n)).collect())
}

pub fn brokers(session: &ZkSession) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault> {
    let names = children(session, paths::BROKER_IDS, Watch::Arm)?;
    let mut ids: Vec<BrokerId> = names.iter().filter_map(|n| paths::id_of_child(n)).collect();
    ids.sort();
    let read = |id| Ok((id, broker(session, id)?));
    ids.into_iter().map(read).collect()
}

pub fn broker(session: &ZkSession, id: BrokerId) -> Result<Read<BrokerRegistration>, ZkFault> {
    let path = paths::broker(id);
    data(session, &path, Watch::Arm, |data, stat| {
        znode::decode_broker(&path, id, data, stat.czxid)
    })
}

pub fn topic_names(session: &ZkSession, watches: TopicWatches) -> Result<Vec<TopicName>, ZkFault> {
    let names = children(session, paths::TOPICS, one_shot(watches))?;
    Ok(names.iter().map(|name| TopicName::new(name)).collect())
}

pub fn topics(
    session: &ZkSession,
    names: &[TopicName],
    watches: TopicWatches,
) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
    let read = |name| {
        let path = paths::topic(name);
        data(session, &path, one_shot(watches), |data, stat| {
            znode::decode_topic(&path, data, stat.version)
        })
    };
    names.iter().map(read).collect()
}

fn one_shot(watches: TopicWatches) -> Watch {
    match watches {
        TopicWatches::OneShot => Watch::Arm,
        TopicWatches::Recursive => Watch::Not,
    }
}

pub fn partition_states(
    session: &ZkSession,
    partitions: &[TopicPartition],
) -> Result<Vec<Read<StateRead>>, ZkFault> {
    let read = |partition| {
        let path = paths::state(partition);
        data(session, &path, Watch::Not, |data, stat| {
            znode::decode_state(&path, data, stat.version)
        })
    };
    partitions.iter().map(read).collect()
}

pub fn topic_configs(
    session: &ZkSession,
    names: &[TopicName],
) -> Result<Vec<Read<ElectionConfig>>, ZkFault> {
    let read = |name| {
        let path = paths::topic_config(name);
        let read = data(session, &path, Watch::Not, |data, _| {
            znode::decode_election_config(&path, data)
        })?;
        Ok(match read {
            Read::Missing => Read::Found(ElectionConfig::default()),
            other => other,
        })
    };
    names.iter().map(read).collect()
}

pub fn default_broker_config(session: &ZkSession) -> Result<Read<ElectionConfig>, ZkFault> {
    let path = paths::DEFAULT_BROKER_CONFIG;
    data(session, path, Watch::Not, |data, _| {
        znode::decode_election_config(path, data)
    })
}

pub fn entity_configs(
    session: &ZkSession,
    entities: &[ConfigEntity],
) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault> {
    let read = |entity| {
        let path = paths::entity_config(entity);
        data(session, &path, Watch::Not, |data, stat| {
            znode::decode_entity_config(&path, data, stat.version)
        })
    };
    entities.iter().map(read).collect()
}

pub fn quota_entities(session: &ZkSession) -> Result<Vec<ConfigEntity>, ZkFault> {
    let names = |path: &str| -> Result<Vec<SanitizedName>, ZkFault> {
        let names = children(session, path, Watch::Not)?;
        Ok(names.iter().map(|name| SanitizedName::read(name)).collect())
    };
    let clients = names(paths::CLIENTS)?;
    let mut entities: Vec<ConfigEntity> = clients.into_iter().map(ConfigEntity::Client).collect();
    for user in names(paths::USERS)? {
        let clients = names(&paths::clients_of_user(&user))?.into_iter();
        entities.extend(clients.map(|client| ConfigEntity::UserClient(user.clone(), client)));
        entities.push(ConfigEntity::User(user));
    }
    Ok(entities)
}

pub fn topic_deletions(session: &ZkSession) -> Result<Vec<TopicName>, ZkFault> {
    let names = children(session, paths::DELETE_TOPICS, Watch::Arm)?;
    Ok(names.iter().map(|name| TopicName::new(name)).collect())
}

pub fn delegation_tokens(
    session: &ZkSession,
) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault> {
    let read = |name| {
        let token = TokenId(name);
        let path = paths::delegation_token(&token);
        let read = data(session, &path, Watch::Not, |data, stat| {
            znode::decode_token(&path, data, stat.version, stat.czxid)
        })?;
        Ok((token, read))
    };
    let names = children(session, paths::DELEGATION_TOKENS, Watch::Not)?;
    names.into_iter().map(read).collect()
}

pub fn config_change_names(session: &ZkSession) -> Result<Vec<NotificationName>, ZkFault> {
    let names = children(session, paths::CONFIG_CHANGES, Watch::Arm)?;
    Ok(names.into_iter().map(NotificationName).collect())
}

pub fn config_changes(
    session: &ZkSession,
    names: &[NotificationName],
) -> Result<Vec<Read<ConfigChange>>, ZkFault> {
    let read = |name| {
        let path = paths::config_change(name);
        data(session, &path, Watch::Not, |data, _| {
            znode::decode_config_change(&path, data)
        })
    };
    names.iter().map(read).collect()
}

pub fn isr_change_notifications(
    session: &ZkSession,
) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault> {
    let parent = paths::ISR_CHANGE_NOTIFICATION;
    notifications(session, parent, paths::isr_change, znode::decode_isr_change)
}

pub fn log_dir_event_notifications(
    session: &ZkSession,
) -> Result<Vec<Notification<BrokerId>>, ZkFault> {
    let parent = paths::LOG_DIR_EVENT_NOTIFICATION;
    let path = paths::log_dir_event;
    notifications(session, parent, path, znode::decode_log_dir_event)
}

fn notifications<T>(
    session: &ZkSession,
    parent: &str,
    path: impl Fn(&NotificationName) -> String,
    decode: impl Fn(&str, &[u8]) -> Read<T>,
) -> Result<Vec<Notification<T>>, ZkFault> {
    let read = |name| {
        let name = NotificationName(name);
        let path = path(&name);
        let content = data(session, &path, Watch::Not, |data, _| decode(&path, data))?;
        Ok(Notification { name, content })
    };
    let names = children(session, parent, Watch::Arm)?;
    names.into_iter().map(read).collect()
}

pub fn preferred_replica_election(
    session: &ZkSession,
) -> Result<Read<PreferredElectionZnode>, ZkFault> {
    let path = paths::PREFERRED_REPLICA_ELECTION;
    let exists = session.exists_and_watch(path);
    if exists.map_err(|error| fault(path, error))?.is_none() {
        return Ok(Read::Missing);
    }
    data(session, path, Watch::Not, |data, _| {
        znode::decode_preferred_election(path, data)
    })
}

pub fn partition_reassignment(session: &ZkSession) -> Result<Read<ReassignmentZnode>, ZkFault> {
    let path = paths::REASSIGN_PARTITIONS;
    let exists = session.exists_and_watch(path);
    if exists.map_err(|error| fault(path, error))?.is_none() {
        return Ok(Read::Missing);
    }
    data(session, path, Watch::Not, |data, stat| {
        let (version, czxid) = (stat.version, stat.czxid);
        Read::Found(znode::decode_reassignment(path, data, version, czxid))
    })
}

pub fn feature(session: &ZkSession) -> Result<Read<(FeatureZnode, i32)>, ZkFault> {
    data(session, paths::FEATURE, Watch::Not, |data, stat| {
        znode::decode_feature(paths::FEATURE, data, stat.version)
    })
}

pub fn producer_id_block(
    session: &ZkSession,
) -> Result<Read<(Option<ProducerIdBlock>, i32)>, ZkFault> {
    let path = paths::PRODUCER_ID_BLOCK;
    data(session, path, Watch::Not, |data, stat| {
        znode::decode_producer_id_block(path, data, stat.version)
    })
}
