//! Everything that a takeover would read, read by whoever must not write.
//!
//! A node that ZooKeeper won't show costs itself, as after a takeover. Upstream has no counterpart.

use std::collections::BTreeSet;

use crate::effect::Read;
use crate::machine::preflight::Seen;
use crate::machine::{comparison, membership, own_broker};
use crate::model::{BrokerId, TopicName};
use crate::port::{Notification, Zk, ZkFault};

/// Reads it all. `own_id` is `klamm.id`.
///
/// # Errors
/// When the session ended.
pub async fn read<Z: Zk>(zk: &Z, own_id: BrokerId) -> Result<Seen, ZkFault> {
    let mut broken = Vec::new();
    let role = match zk.role_view().await {
        Ok(view) => Ok(view),
        Err(refused @ ZkFault::Refused { .. }) => Err(refused.to_string()),
        Err(fault) => return Err(fault),
    };
    let klamm_ids = kept(zk.klamm_ids().await, &mut broken)?;
    let klamm_ids: BTreeSet<BrokerId> = klamm_ids.unwrap_or_default();
    let listed = kept(zk.brokers().await, &mut broken)?.unwrap_or_default();
    let (brokers, unreadable) = own_broker::genuine(listed, &klamm_ids, own_id);
    broken.extend(unreadable);

    let names = kept(zk.topic_names().await, &mut broken)?.unwrap_or_default();
    broken.extend(membership::illegal_names(&names));
    let names: Vec<TopicName> = names.into_iter().filter(TopicName::is_legal).collect();
    let reads = kept(zk.topics(&names).await, &mut broken)?.unwrap_or_default();
    let configs = kept(zk.topic_configs(&names).await, &mut broken)?;
    broken.extend(configs.into_iter().flatten().filter_map(why_broken));
    let topics: Vec<_> = names.into_iter().zip(reads).collect();
    let partitions = comparison::partitions(&topics);
    let states = kept(zk.partition_states(&partitions).await, &mut broken)?;
    let states = states.unwrap_or_default().into_iter();
    let states = states.map(|read| read.map(Into::into));
    let states = partitions.into_iter().zip(states).collect();

    read_small_nodes(zk, &mut broken).await?;
    Ok(Seen {
        role,
        klamm_ids,
        brokers,
        topics,
        states,
        deletions: kept(zk.topic_deletions().await, &mut broken)?.unwrap_or_default(),
        reassignment: one(zk.partition_reassignment().await, &mut broken)?,
        preferred: one(zk.preferred_replica_election().await, &mut broken)?,
        feature: one(zk.feature().await, &mut broken)?,
        broken,
    })
}

/// Those that matter here only if they can't be understood.
async fn read_small_nodes<Z: Zk>(zk: &Z, broken: &mut Vec<String>) -> Result<(), ZkFault> {
    let default = one(zk.default_broker_config().await, broken)?;
    broken.extend(why_broken(default));
    let block = one(zk.producer_id_block().await, broken)?;
    broken.extend(why_broken(block));
    let notices = kept(zk.isr_change_notifications().await, broken)?;
    broken.extend(broken_notices(notices.unwrap_or_default()));
    let notices = kept(zk.log_dir_event_notifications().await, broken)?;
    broken.extend(broken_notices(notices.unwrap_or_default()));
    let names = kept(zk.config_change_names().await, broken)?.unwrap_or_default();
    let changes = kept(zk.config_changes(&names).await, broken)?;
    broken.extend(changes.into_iter().flatten().filter_map(why_broken));
    let tokens = kept(zk.delegation_tokens().await, broken)?.unwrap_or_default();
    broken.extend(tokens.into_iter().filter_map(|(_, read)| why_broken(read)));
    Ok(())
}

/// A refusal concerns one node.
fn kept<T>(outcome: Result<T, ZkFault>, broken: &mut Vec<String>) -> Result<Option<T>, ZkFault> {
    match outcome {
        Ok(read) => Ok(Some(read)),
        Err(refused @ ZkFault::Refused { .. }) => {
            broken.push(refused.to_string());
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

fn one<T>(outcome: Result<Read<T>, ZkFault>, broken: &mut Vec<String>) -> Result<Read<T>, ZkFault> {
    Ok(kept(outcome, broken)?.unwrap_or(Read::Missing))
}

fn why_broken<T>(read: Read<T>) -> Option<String> {
    match read {
        Read::Broken(why) => Some(why),
        Read::Found(_) | Read::Missing => None,
    }
}

fn broken_notices<T>(notices: Vec<Notification<T>>) -> impl Iterator<Item = String> {
    let contents = notices.into_iter().map(|notice| notice.content);
    contents.filter_map(why_broken)
}
