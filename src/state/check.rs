//! The whole-state check: what must hold after every event, whatever happened. Run by tests and by the simulator.
//!
//! Walks everything, so it has no place in a running node. Must never demand what upstream leaves open between events:
//! each rule below says why it may be relied on. Upstream: none.

use super::index::Indexes;
use super::topic::{Partition, PartitionState, ReplicaState};
use super::{ControllerContext, Gauges, Ineligible, Waiting};
use crate::model::{BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition};

/// Every invariant that does not hold, in words; empty is good.
pub fn violations(context: &ControllerContext) -> Vec<String> {
    let mut found = Vec::new();
    check_brokers(context, &mut found);
    check_bookkeeping(context, &mut found);
    check_deletion(context, &mut found);
    check_reassignments(context, &mut found);
    for (name, topic) in context.topics() {
        for (index, partition) in &topic.partitions {
            let at = TopicPartition::new(name, *index);
            check_assignment(&at, partition, &mut found);
            check_replicas(&at, partition, &mut found);
            check_leadership(context, &at, partition, &mut found);
            check_state(context, &at, partition, &mut found);
        }
    }
    found
}

/// Marks are of registered brokers alone, and no klamm passes for a broker.
fn check_brokers(context: &ControllerContext, found: &mut Vec<String>) {
    for id in context.klamm_ids() {
        if context.brokers.contains_key(id) {
            found.push(format!("klamm {id} is taken for a live broker"));
        }
    }
    for (id, registration) in &context.brokers {
        if registration.broker.id != *id {
            let other = registration.broker.id;
            found.push(format!(
                "broker {id} carries the registration of broker {other}"
            ));
        }
    }
    for id in &context.shutting_down {
        if !context.brokers.contains_key(id) {
            found.push(format!("broker {id} is shutting down but not registered"));
        }
    }
    for id in context.offline_dirs.keys() {
        if !context.brokers.contains_key(id) {
            found.push(format!(
                "broker {id} has failed log directories but is not registered"
            ));
        }
    }
}

/// Counts and indexes are what a recount and a rebuild say.
fn check_bookkeeping(context: &ControllerContext, found: &mut Vec<String>) {
    let recount = context.recount();
    if context.tally != recount {
        let tally = &context.tally;
        found.push(format!(
            "the gauges say {tally:?}, a recount says {recount:?}"
        ));
    }
    if context.term().is_none() && !context.topics.is_empty() {
        let Gauges {
            topics, partitions, ..
        } = context.gauges();
        found.push(format!(
            "without a term the context holds {topics} topics and {partitions} partitions"
        ));
    }
    let rebuilt = Indexes::rebuilt(&context.topics);
    let kept = &context.indexes;
    for (name, differs) in [
        ("broker → hosted partitions", kept.hosted != rebuilt.hosted),
        ("leader → partitions", kept.led != rebuilt.led),
        (
            "leaderless partitions",
            kept.leaderless != rebuilt.leaderless,
        ),
        ("moving partitions", kept.moving != rebuilt.moving),
        ("topic id → name", kept.topic_names != rebuilt.topic_names),
    ] {
        if differs {
            found.push(format!("the index of {name} differs from the topics"));
        }
    }
}

/// A deletion is queued before it begins or waits.
fn check_deletion(context: &ControllerContext, found: &mut Vec<String>) {
    let deletion = &context.deletion;
    for topic in deletion.begun.difference(&deletion.queued) {
        found.push(format!(
            "the deletion of {topic} has begun but isn't queued"
        ));
    }
    let waiting = deletion.ineligible().keys();
    for topic in waiting.filter(|topic| !deletion.queued.contains(*topic)) {
        found.push(format!("the deletion of {topic} waits but isn't queued"));
    }
    let mut recount = [0; Ineligible::LABELS.len()];
    for why in deletion.ineligible().values() {
        recount[why.position()] += 1;
    }
    if deletion.waiting() != recount {
        found.push("the deletions that wait are counted wrong".to_owned());
    }
}

/// Only what moves waits.
fn check_reassignments(context: &ControllerContext, found: &mut Vec<String>) {
    let waiting = context.reassignments.waiting();
    let mut recount = [0; Waiting::LABELS.len()];
    for (at, why) in waiting {
        recount[why.position()] += 1;
        if !context.indexes.moving.contains(at) {
            found.push(format!("{at}: its reassignment waits but there is none"));
        }
    }
    if context.reassignments.counts() != recount {
        found.push("the reassignments that wait are counted wrong".to_owned());
    }
}

/// What is added and removed is among the replicas, each once, and something is left in the end: the intake of topic
/// nodes sees to it, and so does each change. A topic being deleted loses its replicas one by one.
fn check_assignment(at: &TopicPartition, partition: &Partition, found: &mut Vec<String>) {
    let ReplicaAssignment {
        replicas,
        adding,
        removing,
    } = &partition.assignment;
    for (what, ids) in [("added", adding), ("removed", removing)] {
        for id in ids.iter().filter(|id| !replicas.contains(*id)) {
            found.push(format!(
                "{at}: the replica on broker {id} is being {what} but is none of its replicas {replicas}"
            ));
        }
    }
    let mut sorted: Vec<i32> = replicas.as_i32s().to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        found.push(format!(
            "{at}: a broker stands twice in its replicas {replicas}"
        ));
    }
    if !replicas.is_empty() && partition.assignment.target().is_empty() {
        found.push(format!(
            "{at}: its reassignment would leave it without replicas"
        ));
    }
}

/// Replica states are of assigned replicas: a reassignment that drops a replica takes its state to NonExistent in the
/// same event.
fn check_replicas(at: &TopicPartition, partition: &Partition, found: &mut Vec<String>) {
    let replicas = &partition.assignment.replicas;
    for (broker, state) in partition.replica_states() {
        if !replicas.contains(broker) {
            found.push(format!(
                "{at}: the replica on broker {broker} is {state:?} but not assigned ({replicas})"
            ));
        }
        if state == ReplicaState::NonExistent {
            found.push(format!(
                "{at}: the replica on broker {broker} has an entry though it is NonExistent"
            ));
        }
    }
}

/// What any leadership in ZooKeeper keeps to, whoever wrote it. A topic being deleted loses its replicas one by one.
fn check_leadership(
    context: &ControllerContext,
    at: &TopicPartition,
    partition: &Partition,
    found: &mut Vec<String>,
) {
    let Some(leadership) = &partition.leadership else {
        return;
    };
    let LeaderAndIsr { leader, isr, .. } = &**leadership;
    if isr.is_empty() {
        found.push(format!("{at}: its in-sync set is empty"));
    }
    // Alone it may stay there until somebody can be elected: a Java controller put it there.
    let is_klamm = |id: &BrokerId| context.klamm_ids().contains(id);
    let is_led_by_nobody = leadership.leader().is_none();
    if !(is_led_by_nobody && isr.iter().all(|id| is_klamm(&id))) {
        for id in isr.iter().filter(is_klamm) {
            found.push(format!("{at}: klamm {id} is in its in-sync set {isr}"));
        }
    }
    let Some(leader) = leadership.leader() else {
        if leader.0 != -1 {
            found.push(format!("{at}: its leader is {leader}, which means nothing"));
        }
        return;
    };
    if !isr.contains(leader) {
        found.push(format!(
            "{at}: its leader {leader} is not in its in-sync set {isr}"
        ));
    }
    let replicas = &partition.assignment.replicas;
    if !context.is_queued_for_deletion(&at.topic) && !replicas.contains(leader) {
        found.push(format!(
            "{at}: its leader {leader} is none of its replicas {replicas}"
        ));
    }
}

/// A partition that is called Online is led by a broker that is there: what is gone was taken Offline in the event that
/// told of it. Partitions of topics being deleted stay as they were. Offline says nothing of the
/// leadership: it may name a leader that is shutting down, the last one that died, −1, or be missing.
fn check_state(
    context: &ControllerContext,
    at: &TopicPartition,
    partition: &Partition,
    found: &mut Vec<String>,
) {
    match (partition.state, &partition.leadership) {
        (PartitionState::NonExistent, _) if !context.is_deletion_begun(&at.topic) => {
            found.push(format!("{at}: it is assigned but has no state"));
        }
        (PartitionState::Online, None) => {
            found.push(format!("{at}: it is Online without a leadership"));
        }
        (PartitionState::Online, Some(leadership))
            if !context.is_to_be_forgotten(&at.topic)
                && !context.is_replica_online_or_shutting_down(leadership.leader, at) =>
        {
            found.push(format!(
                "{at}: it is Online but its leader {} is gone",
                leadership.leader
            ));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
