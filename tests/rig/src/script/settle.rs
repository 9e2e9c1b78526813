//! When a cluster has come to rest after a step: ZooKeeper holds what must come of it, every broker tells its clients the
//! same, no operation is under way, and the controller's wire has been quiet for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::observe;
use crate::tap::Tape;
use crate::wait::Seen;
use crate::wire::{self, ClientView};
use crate::zk::{PartitionState, TopicPartition};

/// What a step needs at most, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);
/// So long nothing was said and nothing is due: no controller pauses that long between requests that belong together
/// (they retry after 100 ms, to 1 s in klamm).
const QUIET: Duration = Duration::from_millis(1_500);
/// Waits until `cluster` has come to rest; returns how long that took, without the quiet at its end.
///
/// # Errors
/// When it doesn't, with what was seen last.
pub fn settle(cluster: &mut Cluster, tape: &Tape) -> Result<Duration> {
    let took = cluster.wait("the cluster to come to rest", PATIENCE, |cluster| {
        Ok(match unrest(cluster)? {
            Some(seen) => Seen::Not(seen),
            None => match tape.quiet_for() {
                Some(quiet) if quiet >= QUIET => Seen::Done(()),
                quiet => Seen::Not(format!("the controller was quiet for {quiet:?}")),
            },
        })
    })?;
    Ok(took.saturating_sub(QUIET))
}

/// What is not yet as it must become; `None` when all is.
fn unrest(cluster: &mut Cluster) -> Result<Option<String>> {
    if let Some(seen) = observe::asked(&cluster.zk)? {
        return Ok(Some(seen));
    }
    let answering = cluster.answering_brokers();
    let running: BTreeSet<i32> = answering.iter().map(|(id, _)| *id).collect();
    let registered = cluster.zk.broker_ids()?;
    let genuine: BTreeSet<i32> = registered
        .intersection(&cluster.genuine_ids())
        .copied()
        .collect();
    if genuine != running {
        return Ok(Some(format!(
            "brokers {running:?} run and {genuine:?} are registered"
        )));
    }
    let Some(owner) = cluster.zk.controller()? else {
        return Ok(Some("/controller is vacant".to_owned()));
    };
    let holding: BTreeSet<i32> = running.difference(&cluster.failed_logs).copied().collect();
    let assignments = cluster.zk.assignments()?;
    let states = cluster.zk.states()?;
    for (partition, replicas) in &assignments {
        let Some(state) = states.get(partition) else {
            return Ok(Some(format!("{partition} has no state")));
        };
        if let Some(seen) = not_final(state, replicas, &holding) {
            return Ok(Some(format!("{partition} {seen}")));
        }
    }
    for (id, address) in &answering {
        let view = wire::view(address).with_context(|| format!("broker {id}"))?;
        if view.controller != owner.id {
            return Ok(Some(format!(
                "broker {id} names {} as controller, which is {}",
                view.controller, owner.id
            )));
        }
        if let Some(seen) = not_told(&view, &registered, &states) {
            return Ok(Some(format!("broker {id} tells {seen}")));
        }
    }
    Ok(None)
}

/// A state at rest: led by a live in-sync replica with all live replicas in sync, or by none where none of them lives.
/// `running` are the brokers that run and have their logs.
fn not_final(state: &PartitionState, replicas: &[i32], running: &BTreeSet<i32>) -> Option<String> {
    let live: BTreeSet<i32> = replicas
        .iter()
        .copied()
        .filter(|id| running.contains(id))
        .collect();
    let in_sync_lives = state.isr.iter().any(|id| running.contains(id));
    if !in_sync_lives {
        return (state.leader != -1).then(|| format!("is led by {} of a dead ISR", state.leader));
    }
    if !running.contains(&state.leader) {
        return Some(format!("is led by {}", state.leader));
    }
    (state.isr != live).then(|| format!("has {:?} in sync of {live:?}", state.isr))
}

/// What a broker tells its clients and ZooKeeper does not hold.
fn not_told(
    view: &ClientView,
    registered: &BTreeSet<i32>,
    states: &std::collections::BTreeMap<TopicPartition, PartitionState>,
) -> Option<String> {
    if view.nodes != *registered {
        return Some(format!(
            "of nodes {:?}, registered are {registered:?}",
            view.nodes
        ));
    }
    for (partition, state) in states {
        let leader = view.leaders.get(partition);
        if leader != Some(&state.leader) {
            return Some(format!(
                "leader {leader:?} of {partition}, which is {}",
                state.leader
            ));
        }
        // Of a partition without a leader, old brokers tell the live part of the ISR, new ones all of it.
        let isr = view.isr.get(partition);
        if state.leader != -1 && isr != Some(&state.isr) {
            return Some(format!(
                "ISR {isr:?} of {partition}, which is {:?}",
                state.isr
            ));
        }
    }
    let gone = view.leaders.keys().find(|told| !states.contains_key(told));
    gone.map(|partition| format!("of {partition}, which is gone"))
}
