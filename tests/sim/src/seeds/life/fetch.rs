//! Followers copy from their leaders, and leaders note how far each has come.
//!
//! A fetch is heard by a leader that runs and leads under the follower's own leader epoch. From IBP 2.1 on requests carry
//! that epoch (KIP-320); older followers are held to it too, or logs would part in ways that no controller can help. Must
//! never copy anything onto a log that was not cut to what it has in common with the leader's.

use std::collections::BTreeSet;

use klamm::model::{BrokerId, LeaderEpoch, TopicPartition};

use super::leading::Difference;
use super::memory::{Fetching, Role};
use super::{Life, RELEASE_3_3, Surroundings};
use crate::broker::SimBroker;
use crate::brokers::Cluster;
use crate::mishap::Mishap;

/// One partition that is to be fetched.
struct Plan {
    partition: TopicPartition,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
}

impl Life {
    /// A follower fetches each of its partitions once.
    pub(super) fn fetch(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        around: &mut impl Surroundings,
    ) {
        let now_ms = around.now_ms();
        let plans = self.plans(cluster, id, now_ms);
        let named: BTreeSet<BrokerId> = plans.iter().map(|plan| plan.leader).collect();
        let mut heard_by = named;
        heard_by.retain(|leader| {
            around.reaches(id, *leader) && self.looks_around(cluster, *leader, now_ms)
        });
        for plan in plans {
            if !heard_by.contains(&plan.leader) {
                continue;
            }
            if self.fetch_one(cluster, id, &plan, now_ms) == Heard::MayJoin {
                let joins = Difference::Joins(id);
                self.wish(cluster, plan.leader, &plan.partition, joins, around);
            }
        }
    }

    /// What a follower fetches now.
    fn plans(&mut self, cluster: &Cluster, id: BrokerId, now_ms: u64) -> Vec<Plan> {
        let cluster = cluster.borrow();
        let (Some(broker), Some(memory)) = (cluster.get(&id), self.memory(id)) else {
            return Vec::new();
        };
        let fetching = broker.replicas.iter().filter(|(_, r)| r.is_fetching);
        let awake = fetching.filter(|(partition, _)| {
            let known = memory.partitions.get(*partition).map(|known| &known.role);
            match known {
                Some(Role::Follows(Fetching::Truncates)) => true,
                Some(Role::Follows(Fetching::Copies { from_ms })) => *from_ms <= now_ms,
                Some(Role::Leads(_)) | None => false,
            }
        });
        awake
            .map(|(partition, replica)| Plan {
                partition: partition.clone(),
                leader: replica.leader,
                leader_epoch: replica.leader_epoch,
            })
            .collect()
    }

    fn fetch_one(&mut self, cluster: &Cluster, id: BrokerId, plan: &Plan, now_ms: u64) -> Heard {
        let partition = &plan.partition;
        let mut cluster = cluster.borrow_mut();
        let Some(leader) = cluster.get(&plan.leader) else {
            return Heard::Nothing;
        };
        let follower_id = cluster
            .get(&id)
            .and_then(|b| b.logs.get(partition).copied());
        if !answers(leader, plan, id) || !is_same_topic(leader, partition, follower_id.flatten()) {
            return Heard::Nothing;
        }
        // Both logs are needed at once; the follower's is back before anybody looks.
        let follower_log = cluster.get_mut(&id).map(|b| b.disk.remove(partition));
        let mut log = follower_log.flatten().unwrap_or_default();
        let mut heard = Heard::Fetch;
        if let Some(leader) = cluster.get_mut(&plan.leader) {
            let its = leader.disk.entry(partition.clone()).or_default();
            if self.must_truncate(id, partition) || log.end() > its.end() {
                log.truncate(log.common_end(its));
            }
            let (from, end, high_watermark) = (log.end(), its.end(), its.high_watermark);
            // What is fetched is what there was before the leader heard how far the follower is.
            log.follow(its.read(from, self.habits.fetch_records), high_watermark);
            let is_live = leader.release < RELEASE_3_3 || leader.alive.contains_key(&id);
            let replica = leader.replicas.get(partition);
            let memory = self.memory(plan.leader);
            let leading = memory.and_then(|memory| memory.leading(partition));
            if let (Some(replica), Some(leading)) = (replica, leading) {
                leading.fetched(id, from, end, now_ms);
                if is_live && leading.may_join(replica, id, high_watermark) {
                    heard = Heard::MayJoin;
                }
            }
        }
        if let Some(follower) = cluster.get_mut(&id) {
            follower.disk.insert(partition.clone(), log);
        }
        self.has_fetched(id, partition, now_ms);
        heard
    }

    fn must_truncate(&mut self, id: BrokerId, partition: &TopicPartition) -> bool {
        let known = self
            .memory(id)
            .and_then(|memory| memory.partitions.get(partition));
        known.is_some_and(|known| matches!(known.role, Role::Follows(Fetching::Truncates)))
    }

    /// It goes on with the next tick, unless it stalls.
    fn has_fetched(&mut self, id: BrokerId, partition: &TopicPartition, now_ms: u64) {
        let stalls = self
            .chance
            .befalls(Mishap::FollowerStalled, self.habits.stall);
        let pause_ms = if stalls {
            self.chance.within(self.habits.stall_ms)
        } else {
            0
        };
        let memory = self.memory(id);
        if let Some(known) = memory.and_then(|memory| memory.partitions.get_mut(partition)) {
            known.role = Role::Follows(Fetching::Copies {
                from_ms: now_ms + pause_ms,
            });
        }
    }
}

/// What a fetch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// The leader refused it, or there is none.
    Nothing,
    /// It was answered.
    Fetch,
    /// It was answered, and the leader finds that the follower may join the in-sync set.
    MayJoin,
}

/// Whether a leader answers a fetch: it leads under the follower's epoch, knows it for a replica, and doesn't tell it that
/// the partition doesn't exist, as it does while its clients don't know it.
fn answers(leader: &SimBroker, plan: &Plan, follower: BrokerId) -> bool {
    leader
        .leads(&plan.partition)
        .is_some_and(|led| led.leader_epoch == plan.leader_epoch && led.replicas.contains(follower))
        && leader.cache.contains_key(&plan.partition)
}

/// Two that know topic ids know the same one.
fn is_same_topic(
    leader: &SimBroker,
    partition: &TopicPartition,
    follower_id: Option<klamm::model::TopicId>,
) -> bool {
    let leader_id = leader.logs.get(partition).copied().flatten();
    match (leader_id, follower_id) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}
