//! What the process of one broker keeps in memory of the partitions that it leads and follows.
//!
//! It is forgotten with the process, and partition by partition with each order to lead or follow. Must never outlive
//! either: a leader that remembers followers from before commits what they no longer have.

use std::collections::BTreeMap;

use klamm::effect::Answer;
use klamm::model::{InterBrokerProtocol, TopicPartition};

use super::alter_partition::Asker;
use super::leading::Leading;
use super::zk_isr::Notices;
use crate::broker::SimBroker;

/// Before it, leaders forget an unanswered wish when they are told to lead or follow anew; from it on they refuse
/// themselves another one until it is answered.
pub(super) const FIRST_WITH_STEADY_WISHES: InterBrokerProtocol = InterBrokerProtocol::new(3, 0, 0);

/// The memory of one process.
#[derive(Debug)]
pub(super) struct Memory {
    starts: u64,
    pub(super) partitions: BTreeMap<TopicPartition, Known>,
    pub(super) asker: Asker,
    pub(super) notices: Notices,
    /// When it looks for members that lag.
    pub(super) shrinks_at_ms: u64,
    /// An answer that came while the process hung.
    pub(super) unread: Option<Option<Answer>>,
}

/// A partition, and the order that all of this is known under.
#[derive(Debug)]
pub(super) struct Known {
    turn: u64,
    pub(super) role: Role,
}

/// What the broker does with a partition.
#[derive(Debug)]
pub(super) enum Role {
    Leads(Leading),
    Follows(Fetching),
}

/// How far a follower has come with its leader.
#[derive(Debug)]
pub(super) enum Fetching {
    /// It has yet to drop what its leader doesn't have.
    Truncates,
    /// It copies, from this time on.
    Copies { from_ms: u64 },
}

impl Memory {
    fn new(starts: u64, now_ms: u64) -> Memory {
        Memory {
            starts,
            partitions: BTreeMap::new(),
            asker: Asker::default(),
            notices: Notices::new(now_ms),
            shrinks_at_ms: now_ms,
            unread: None,
        }
    }

    /// The memory of a broker's process as it is now: another process knows nothing, another order begins anew.
    pub(super) fn of<'a>(
        memory: &'a mut Option<Memory>,
        broker: &SimBroker,
        now_ms: u64,
    ) -> &'a mut Memory {
        let current = memory
            .take()
            .filter(|memory| memory.starts == broker.starts)
            .unwrap_or_else(|| Memory::new(broker.starts, now_ms));
        let memory = memory.insert(current);
        memory.hear_orders(broker, now_ms);
        memory
    }

    fn hear_orders(&mut self, broker: &SimBroker, now_ms: u64) {
        self.partitions
            .retain(|partition, _| broker.replicas.contains_key(partition));
        for (partition, replica) in &broker.replicas {
            let known = self.partitions.get(partition);
            if known.is_some_and(|known| known.turn == replica.turn) {
                continue;
            }
            if broker.release < FIRST_WITH_STEADY_WISHES {
                self.asker.forget(partition);
            }
            let role = if replica.leader == broker.id {
                let end = broker.disk.get(partition).map_or(0, |log| log.end());
                Role::Leads(Leading::begin(replica, end, now_ms))
            } else {
                Role::Follows(Fetching::Truncates)
            };
            let known = Known {
                turn: replica.turn,
                role,
            };
            self.partitions.insert(partition.clone(), known);
        }
    }

    /// What it knows of a partition that it leads.
    pub(super) fn leading(&mut self, partition: &TopicPartition) -> Option<&mut Leading> {
        match &mut self.partitions.get_mut(partition)?.role {
            Role::Leads(leading) => Some(leading),
            Role::Follows(_) => None,
        }
    }
}
