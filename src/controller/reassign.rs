//! Replicas move: AlterPartitionReassignments, `/admin/reassign_partitions`, and what brings a reassignment forward: in-sync
//! sets that grow, brokers that return, a new term.
//!
//! All partitions of one cause go through each step together, so that 10,000 of them cost a handful of grouped writes.
//! What can't be done for one costs only that one. Must never take a replica out of a topic's node before it was told to
//! go. Upstream: `processZkPartitionReassignment`, `processApiPartitionReassignment`, `onPartitionReassignment`,
//! `maybeCompleteReassignment`. Differences that are meant:
//! - The node is looked at whenever it changes: what is added to it or changed in it is done. (What is taken out of it
//!   goes on, as upstream; it is cancelled by AlterPartitionReassignments.)
//! - An entry that can't be done is taken out with its reason, and a node that can't be understood is removed.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::isr::is_of_newer_controller;
use super::{KafkaController, log};
use crate::effect::{
    Answer, PartitionErrors, Read, ReassignmentZnode, ReplyTo, TopicZnode, ZkOutcome, ZkWrite,
};
use crate::event::ControllerEvent;
use crate::machine::reassignment::{
    self, Asker, Kind, LeaderChange, Look, NotReassigned, Transition, Waiting, Wish,
};
use crate::machine::replica::OfflineChange;
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::request_length;
use crate::machine::sanitise::{self, Load};
use crate::model::{
    ApiError, BrokerId, BrokerIds, LeaderEpoch, ReplicaAssignment, TopicId, TopicName,
    TopicPartition,
};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// Leaders below IBP 2.7 change in-sync sets by themselves and say so seconds later: how often klamm looks meanwhile,
/// as long as something moves. Java watches each state node.
const LOOK_AT_STATES_MS: u64 = 1_000;

/// A node with more entries than this is not rewritten for each one that is done.
const LARGE_NODE: usize = 100;
/// How often a large node is rewritten.
const REWRITE_NODE_MS: u64 = 1_000;

/// A partition and the assignment that its topic's node is to hold.
type Wanted = (TopicPartition, ReplicaAssignment);

/// What came of writing topics' nodes once, where they were not written.
#[derive(Default)]
struct TopicsTried {
    refused: Vec<(TopicName, String)>,
    changed_meanwhile: Vec<TopicName>,
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Every way out answers.
    pub(super) async fn process_alter_partition_reassignments(
        &mut self,
        targets: BTreeMap<TopicPartition, Option<Vec<BrokerId>>>,
        reply_to: ReplyTo,
    ) -> Result<(), ZkFault> {
        if let Err(error) = request_length::check_partitions(targets.len()) {
            self.answer(reply_to, Answer::AlterPartitionReassignments(Err(error)));
            return Ok(());
        }
        let outcome = self.alter_partition_reassignments(targets).await;
        let answer = match &outcome {
            Ok(results) => Ok(results.clone()),
            Err(fault) => Err(fault.code()),
        };
        self.answer(reply_to, Answer::AlterPartitionReassignments(answer));
        outcome.map(drop)
    }

    async fn alter_partition_reassignments(
        &mut self,
        targets: BTreeMap<TopicPartition, Option<Vec<BrokerId>>>,
    ) -> Result<Vec<(TopicPartition, Result<(), ApiError>)>, ZkFault> {
        let mut results = BTreeMap::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        for (at, target) in targets {
            let wish = target.map_or(Wish::Cancel, |ids| Wish::Target(ids.into_iter().collect()));
            let result = match reassignment::judge(&self.context, &at, &wish, Asker::Api) {
                Ok(next) => {
                    wanted.push((at.clone(), next));
                    Ok(())
                }
                Err(why) => Err(why.to_api_error()),
            };
            results.insert(at, result);
        }
        let partitions = wanted.iter().map(|(at, _)| at.clone()).collect();
        self.take_out_of_node(&partitions).await?;
        for (at, why) in self.begin_reassignments(wanted).await? {
            let why = NotReassigned::NotWritten(why).to_api_error();
            results.insert(at, Err(why));
        }
        Ok(results.into_iter().collect())
    }

    /// `/admin/reassign_partitions` was created, changed or removed, or some of it is done: begins what is new in it,
    /// takes out what is done or can't be, and removes it once nothing is left.
    pub(super) async fn process_partition_reassignment(&mut self) -> Result<(), ZkFault> {
        loop {
            let node = match self.ports.zk.partition_reassignment().await? {
                Read::Found(node) => node,
                Read::Missing => {
                    self.reassignment_node.clear();
                    return Ok(());
                }
                Read::Broken(why) => {
                    self.warn_broken([why]);
                    return Ok(());
                }
            };
            self.warn_broken(node.broken.iter().cloned());
            let is_unknown = |at: &TopicPartition| self.context.partition(at).is_none();
            if node.targets.keys().any(is_unknown) {
                // It may have been made so lately that nobody has said so yet.
                self.process_topic_change().await?;
            }
            // Those that are known from an earlier look and have come to their target are done.
            let is_done = |at: &TopicPartition, target: &BrokerIds| {
                self.reassignment_node.contains(at)
                    && reassignment::rests_at(&self.context, at, target)
            };
            let mut undone = node.targets.clone();
            undone.retain(|at, target| !is_done(at, target));
            self.begin_requested(&undone).await?;
            let is_running = |at: &TopicPartition, target: &BrokerIds| {
                reassignment::runs_towards(&self.context, at, target)
            };
            let mut rest = undone;
            rest.retain(|at, target| is_running(at, target));
            if self.rewrite_node(&node, rest).await? {
                return Ok(());
            }
        }
    }

    async fn begin_requested(
        &mut self,
        targets: &BTreeMap<TopicPartition, BrokerIds>,
    ) -> Result<(), ZkFault> {
        let sorted = reassignment::requested(&self.context, targets);
        let not_written = self.begin_reassignments(sorted.begin).await?;
        let refused = sorted.refused.into_iter();
        let refused = refused.map(|(at, why)| (at, why.to_string()));
        let refused: Vec<String> = refused
            .chain(not_written)
            .map(|(at, why)| reassignment::refused_entry(&at, targets.get(&at), &why))
            .collect();
        self.warn_broken(refused);
        Ok(())
    }

    /// Leaves `rest` in the node, or removes it. `false`: somebody changed it meanwhile.
    async fn rewrite_node(
        &mut self,
        node: &ReassignmentZnode,
        rest: BTreeMap<TopicPartition, BrokerIds>,
    ) -> Result<bool, ZkFault> {
        let partitions: BTreeSet<TopicPartition> = rest.keys().cloned().collect();
        if !rest.is_empty() && rest == node.targets && node.broken.is_empty() {
            self.reassignment_node = partitions;
            return Ok(true);
        }
        planted!(KeepReassignmentNode => {
            self.reassignment_node.extend(node.targets.keys().cloned());
            return Ok(true);
        });
        let expected = node.version;
        let write = if rest.is_empty() {
            let czxid = node.czxid;
            ZkWrite::DeletePartitionReassignment { expected, czxid }
        } else {
            let targets = rest;
            ZkWrite::SetPartitionReassignment { targets, expected }
        };
        match self.ports.zk.write(&self.term()?, &[write]).await?.pop() {
            Some(ZkOutcome::VersionConflict) => return Ok(false),
            Some(ZkOutcome::Refused(why)) => {
                self.warn_broken([format!(
                    "/admin/reassign_partitions: what is done in it can't be taken out, it is tried again with the next sweep: {why}"
                )]);
                // What is done stays known as such.
                self.reassignment_node.extend(node.targets.keys().cloned());
                return Ok(true);
            }
            Some(ZkOutcome::Written { .. } | ZkOutcome::Missing | ZkOutcome::AlreadyExists)
            | None => {}
        }
        self.reassignment_node = partitions;
        Ok(true)
    }

    /// The latest request wins: what is asked by API is asked by the node no more.
    async fn take_out_of_node(
        &mut self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<(), ZkFault> {
        while !partitions.is_empty() {
            let Read::Found(node) = self.ports.zk.partition_reassignment().await? else {
                break;
            };
            if !node.targets.keys().any(|at| partitions.contains(at)) {
                break;
            }
            self.warn_broken(node.broken.iter().cloned());
            let mut rest = node.targets.clone();
            rest.retain(|at, _| !partitions.contains(at));
            if self.rewrite_node(&node, rest).await? {
                break;
            }
        }
        Ok(())
    }

    /// Writes where these are going, and sets them going. Returns those whose topic's node could not be written.
    async fn begin_reassignments(
        &mut self,
        wanted: Vec<Wanted>,
    ) -> Result<BTreeMap<TopicPartition, String>, ZkFault> {
        let current = |at: &TopicPartition| {
            let found = self.context.partition(at);
            found.map(|found| found.assignment.clone())
        };
        let differs = |(at, next): &&Wanted| current(at).as_ref() != Some(next);
        let changes: Vec<Wanted> = wanted.iter().filter(differs).cloned().collect();
        let failed = self.write_assignments(&changes).await?;
        for (at, next) in changes {
            if failed.contains_key(&at) {
                continue;
            }
            info!(
                target: log::CONTROLLER,
                "Reassignment of partition {at} {}: replicas {}, adding {}, removing {}",
                if next.is_being_cancelled() { "is being cancelled" } else { "started" },
                next.replicas, next.adding, next.removing
            );
            self.context.put_assignment(&at, next);
        }
        let begun = wanted.into_iter().map(|(at, _)| at);
        let begun = begun.filter(|at| !failed.contains_key(at)).collect();
        self.advance(begun, Look::Announce).await?;
        self.look_at_states_soon();
        Ok(failed)
    }

    /// Brings reassignments forward and takes what is done out of `/admin/reassign_partitions`.
    pub(super) async fn resume_reassignments(
        &mut self,
        partitions: Vec<TopicPartition>,
        look: Look,
    ) -> Result<(), ZkFault> {
        let completed = self.advance(partitions, look).await?;
        let listed = &self.reassignment_node;
        if !completed.iter().any(|at| listed.contains(at)) {
            return Ok(());
        }
        let moving = self.context.partitions_being_reassigned();
        let some_are_left = listed.iter().any(|at| moving.contains(at));
        if some_are_left && listed.len() > LARGE_NODE {
            self.rewrite_node_soon();
            return Ok(());
        }
        self.process_partition_reassignment().await
    }

    /// Thousands of entries that are done one by one would have the node written anew thousands of times.
    fn rewrite_node_soon(&mut self) {
        let now_ms = self.ports.clock.now_ms();
        if self.node_due_at_ms.is_none_or(|due_ms| due_ms <= now_ms) {
            self.node_due_at_ms = Some(now_ms.saturating_add(REWRITE_NODE_MS));
            let look = ControllerEvent::PartitionReassignment;
            self.ports.clock.schedule(REWRITE_NODE_MS, look);
        }
    }

    /// Takes each of these as far as it gets now; returns those that are done.
    async fn advance(
        &mut self,
        partitions: Vec<TopicPartition>,
        look: Look,
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut completed = self.replace_unled(&partitions).await?;
        let transitions = reassignment::transitions(&self.context, &partitions, look);
        reassignment::begin(&mut self.context, &transitions);
        let mut finished = BTreeSet::new();
        let mut stuck = BTreeMap::new();
        let outcome = self.carry_out(&transitions, &mut finished, &mut stuck);
        let outcome = outcome.await;
        let (done, undone): (Vec<&Transition>, Vec<&Transition>) = transitions
            .iter()
            .partition(|transition| finished.contains(&transition.partition));
        reassignment::restore(&mut self.context, &undone);
        if let Err(fault) = outcome {
            self.note_refused(&undone, &fault.to_string());
            return Err(fault);
        }
        for (at, why) in stuck {
            self.note_waiting(&at, Waiting::ZooKeeperRefused(why));
        }
        self.look_again_at(&undone).await?;
        let done = done.into_iter();
        let done = done.filter(|transition| transition.kind == Kind::Complete);
        completed.extend(done.map(|transition| transition.partition.clone()));
        self.announce_completed(&completed);
        self.review_reassignments(&partitions);
        if completed
            .iter()
            .any(|at| self.context.is_queued_for_deletion(&at.topic))
        {
            self.resume_deletions().await?;
        }
        Ok(completed)
    }

    /// The steps of all transitions together: leaders, in-sync sets, deletions, topics' nodes. `finished`: those that
    /// went through all of them; `stuck`: those whose state or topic's node could not be written, and why.
    async fn carry_out(
        &mut self,
        transitions: &[Transition],
        finished: &mut BTreeSet<TopicPartition>,
        stuck: &mut BTreeMap<TopicPartition, String>,
    ) -> Result<(), ZkFault> {
        if transitions.is_empty() {
            return Ok(());
        }
        planted!(DeleteBeforeHandover => {
            let mut early = ControllerBrokerRequestBatch::new();
            let delete = crate::effect::ReplicaDisposal::Delete;
            for replica in transitions.iter().flat_map(Transition::removed_replicas) {
                early.add_stop_replica(&self.context, &replica, delete);
            }
            self.send(early);
        });
        let led = self.change_and_send(LeaderChange::new(transitions)).await?;
        let led: BTreeSet<TopicPartition> = led.into_iter().collect();
        // The rest is tried again when it is checked; what nobody has heard of would be waited for in vain.
        let unheard = transitions.iter().filter(|transition| {
            transition.kind == Kind::Announce && !led.contains(&transition.partition)
        });
        for transition in unheard {
            let why = "its state could not be written, see the state-change log";
            stuck.insert(transition.partition.clone(), why.to_owned());
        }
        let led: Vec<&Transition> = transitions
            .iter()
            .filter(|transition| led.contains(&transition.partition))
            .collect();
        let leaving = led
            .iter()
            .flat_map(|transition| transition.removed_replicas());
        let leaving: Vec<_> = leaving.collect();
        let told_of_all = reassignment::told_of_all(&self.context, &led);
        if !leaving.is_empty() {
            self.change_and_send(OfflineChange::new(leaving)).await?;
        }
        let unaware = self.tell_unaware_leaders(&told_of_all, &led).await?;
        let left: Vec<&Transition> = led
            .into_iter()
            .filter(|transition| {
                !reassignment::is_still_in_sync(&self.context, transition)
                    && !unaware.contains(&transition.partition)
            })
            .collect();
        self.log_absent(&left);
        let mut batch = ControllerBrokerRequestBatch::new();
        let refused = reassignment::tell_removed(&mut self.context, &left, &mut batch);
        self.log_refused(&refused);
        self.send(batch);
        let differs = |transition: &&&Transition| transition.from != transition.to;
        let changes = left.iter().filter(differs);
        let changes: Vec<Wanted> = changes
            .map(|transition| (transition.partition.clone(), transition.to.clone()))
            .collect();
        stuck.extend(self.write_assignments(&changes).await?);
        let through = left
            .into_iter()
            .filter(|transition| !stuck.contains_key(&transition.partition));
        let through: Vec<&Transition> = through.collect();
        let mut batch = ControllerBrokerRequestBatch::new();
        let refused = reassignment::start_added(&mut self.context, &through, &mut batch);
        self.log_refused(&refused);
        self.send(batch);
        finished.extend(
            through
                .into_iter()
                .map(|transition| transition.partition.clone()),
        );
        Ok(())
    }

    /// Where the leader took those that go out of the in-sync set by itself, it has heard of all replicas, and would wait for
    /// more than there are under an epoch that nobody raises any more: it is told anew. Those where that failed.
    async fn tell_unaware_leaders(
        &mut self,
        told_of_all: &BTreeMap<TopicPartition, LeaderEpoch>,
        led: &[&Transition],
    ) -> Result<BTreeSet<TopicPartition>, ZkFault> {
        let unaware = reassignment::unaware(&self.context, told_of_all, led);
        if unaware.is_empty() {
            return Ok(BTreeSet::new());
        }
        let told = self.change_and_send(LeaderChange::new(&unaware)).await?;
        let partitions = unaware.into_iter().map(|transition| transition.partition);
        Ok(partitions.filter(|at| !told.contains(at)).collect())
    }

    /// Who is away when it is to delete its log keeps it, as upstream: nobody would tell it later.
    fn log_absent(&self, transitions: &[&Transition]) {
        for transition in transitions {
            let klamms = self.context.klamm_ids();
            let absent = transition
                .removed()
                .filter(|id| !klamms.contains(id) && !self.context.is_live_or_shutting_down(*id));
            for id in absent {
                info!(
                    target: log::CONTROLLER,
                    "broker {id} is down and keeps its log of partition {}, which it hosts no more; remove the folder by hand if it is in the way",
                    transition.partition
                );
            }
        }
    }

    /// Brokers' answers to being told to delete what was reassigned away: nothing depends on them, but an operator
    /// should hear of logs that stay.
    pub(super) fn log_refused_removals(
        &mut self,
        broker: BrokerId,
        deleted: &[TopicPartition],
        response: &PartitionErrors,
    ) {
        let refused = reassignment::refused_removals(&self.context, broker, deleted, response);
        for (at, error) in refused {
            warn!(
                target: log::CONTROLLER,
                "broker {broker} answered StopReplica of partition {at}, which it hosts no more, with {error}: see its log; the partition's folder may be left there, remove it by hand if so"
            );
        }
    }

    /// Partitions that were never led: nobody has anything to copy, so their assignments are replaced. Returns those
    /// whose were.
    async fn replace_unled(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        let unknown = reassignment::without_leadership(&self.context, partitions);
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let term = self.term()?;
        let reads = self.ports.zk.partition_states(&unknown).await?;
        let mut unled: Vec<Wanted> = Vec::new();
        for (at, read) in unknown.into_iter().zip(reads) {
            match read {
                Read::Found(state) if is_of_newer_controller(&state, term) => {}
                Read::Found(state) => self.context.put_leadership(&at, state.into()),
                Read::Broken(why) => self.note_waiting(&at, Waiting::ZooKeeperRefused(why)),
                Read::Missing => {
                    let target = self
                        .context
                        .partition(&at)
                        .map(|found| found.assignment.target());
                    let to = ReplicaAssignment::settled(target.unwrap_or_else(BrokerIds::empty));
                    unled.push((at, to));
                }
            }
        }
        let failed = self.write_assignments(&unled).await?;
        let mut replaced = Vec::new();
        for (at, to) in unled {
            match failed.get(&at) {
                Some(why) => self.note_waiting(&at, Waiting::ZooKeeperRefused(why.clone())),
                None => {
                    reassignment::replace_unled(&mut self.context, &at, &to);
                    replaced.push(at);
                }
            }
        }
        self.trigger_online_partition_state_change().await?;
        Ok(replaced)
    }

    /// Writes assignments into the topics' nodes, one write a topic, each conditional on the version that was read:
    /// Java writes what it has in memory over whatever a tool wrote meanwhile. Returns those that could not be written.
    async fn write_assignments(
        &mut self,
        wanted: &[Wanted],
    ) -> Result<BTreeMap<TopicPartition, String>, ZkFault> {
        let mut by_topic: BTreeMap<TopicName, Vec<&Wanted>> = BTreeMap::new();
        for one in wanted {
            by_topic.entry(one.0.topic.clone()).or_default().push(one);
        }
        let mut failed = BTreeMap::new();
        let mut pending: Vec<TopicName> = by_topic.keys().cloned().collect();
        while !pending.is_empty() {
            let tried = self.write_topics(&by_topic, &pending).await?;
            for (topic, why) in tried.refused {
                let changes = by_topic.get(&topic).map(Vec::as_slice).unwrap_or_default();
                failed.extend(changes.iter().map(|(at, _)| (at.clone(), why.clone())));
            }
            pending = tried.changed_meanwhile;
        }
        Ok(failed)
    }

    async fn write_topics(
        &mut self,
        by_topic: &BTreeMap<TopicName, Vec<&Wanted>>,
        topics: &[TopicName],
    ) -> Result<TopicsTried, ZkFault> {
        let reads = self.ports.zk.topics(topics).await?;
        let mut tried = TopicsTried::default();
        let (mut writes, mut written) = (Vec::new(), Vec::new());
        for (topic, read) in topics.iter().zip(reads) {
            let changes = by_topic.get(topic).map(Vec::as_slice).unwrap_or_default();
            let known_id = self.context.topic(topic).and_then(|found| found.id);
            match with_assignments(topic, read, changes, known_id) {
                Ok(Some(znode)) => {
                    written.push((topic.clone(), znode.version, znode.topic_id));
                    let topic = topic.clone();
                    writes.push(ZkWrite::SetTopic { topic, znode });
                }
                Ok(None) => {}
                Err(why) => tried.refused.push((topic.clone(), why)),
            }
        }
        if writes.is_empty() {
            return Ok(tried);
        }
        let outcomes = self.ports.zk.write(&self.term()?, &writes).await?;
        for ((topic, read_version, id), outcome) in written.into_iter().zip(outcomes) {
            match outcome {
                ZkOutcome::Written { version } => {
                    // Otherwise there is something else in the node that nobody has looked at.
                    let known = self.context.topic(&topic).map(|found| found.znode_version);
                    if known == Some(read_version) {
                        self.context.put_topic(&topic, id, version);
                    }
                }
                ZkOutcome::VersionConflict => tried.changed_meanwhile.push(topic),
                ZkOutcome::Missing => {
                    let why = is_gone(&topic);
                    tried.refused.push((topic, why));
                }
                ZkOutcome::Refused(why) => tried.refused.push((topic, why)),
                ZkOutcome::AlreadyExists => {
                    let why = format!("/brokers/topics/{topic} exists already");
                    tried.refused.push((topic, why));
                }
            }
        }
        Ok(tried)
    }

    fn announce_completed(&mut self, completed: &[TopicPartition]) {
        if completed.is_empty() {
            return;
        }
        for at in completed {
            info!(
                target: log::CONTROLLER,
                "Reassignment of partition {at} completed: replicas {}",
                self.context.replicas(at)
            );
        }
        let brokers = self.registered_ids();
        self.send_update_metadata(&brokers, completed);
    }

    /// What was not carried out may stand on what is no longer so.
    async fn look_again_at(&mut self, undone: &[&Transition]) -> Result<(), ZkFault> {
        let partitions = undone.iter().map(|transition| transition.partition.clone());
        self.refresh(partitions.collect()).await.map(drop)
    }

    fn note_refused(&mut self, undone: &[&Transition], why: &str) {
        for transition in undone {
            let why = Waiting::ZooKeeperRefused(why.to_owned());
            self.note_waiting(&transition.partition, why);
        }
    }

    fn note_waiting(&mut self, at: &TopicPartition, why: Waiting) {
        if self.context.set_reassignment_waiting(at, why.clone()) {
            warn!(target: log::CONTROLLER, "Reassignment of partition {at} waits: {why}");
        }
    }

    /// Notes what these wait for, and says what is new, a line for each reason.
    pub(super) fn review_reassignments(&mut self, partitions: &[TopicPartition]) {
        let mut reasons: Vec<(Waiting, Vec<TopicPartition>)> = Vec::new();
        for (at, why) in reassignment::review(&mut self.context, partitions) {
            match reasons.iter_mut().find(|(other, _)| *other == why) {
                Some((_, partitions)) => partitions.push(at),
                None => reasons.push((why, vec![at])),
            }
        }
        for (why, partitions) in reasons {
            info!(target: log::CONTROLLER, "Reassignment of partitions {} waits: {why}", list(&partitions));
        }
    }

    pub(super) fn moving(&self) -> Vec<TopicPartition> {
        let moving = self.context.partitions_being_reassigned();
        moving.iter().cloned().collect()
    }

    /// In-sync sets changed: reassignments may be complete.
    pub(super) async fn on_in_sync_sets_changed(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), ZkFault> {
        let moving = self.context.partitions_being_reassigned();
        let moving = partitions.iter().filter(|at| moving.contains(at)).cloned();
        self.resume_reassignments(moving.collect(), Look::Check)
            .await
    }

    /// Brokers started: those that are to get replicas are told so, as they have forgotten it. Others may be what
    /// something waited for.
    pub(super) async fn resume_reassignments_on(
        &mut self,
        ids: &[BrokerId],
    ) -> Result<(), ZkFault> {
        let (theirs, others): (Vec<_>, Vec<_>) = self.moving().into_iter().partition(|at| {
            let found = self.context.partition(at);
            found.is_some_and(|found| {
                let target = found.assignment.target();
                ids.iter().any(|id| target.contains(*id))
            })
        });
        self.resume_reassignments(theirs, Look::Announce).await?;
        self.resume_reassignments(others, Look::Check).await?;
        self.move_off_klamms().await
    }

    /// A new term: first what the node asks for, then what the topics' nodes say that a former controller began.
    pub(super) async fn initialize_partition_reassignments(&mut self) -> Result<(), ZkFault> {
        let before = self.moving();
        self.process_partition_reassignment().await?;
        let moving = self.context.partitions_being_reassigned();
        // Those that the node redirected were announced just now.
        let unannounced = before.into_iter().filter(|at| {
            moving.contains(at) && !self.context.reassignments_waiting().contains_key(at)
        });
        let unannounced: Vec<TopicPartition> = unannounced.collect();
        if let Some(first) = unannounced.first() {
            info!(
                target: log::CONTROLLER,
                "Resuming the reassignment of {} partitions, {first} first", unannounced.len()
            );
        }
        self.resume_reassignments(unannounced, Look::Announce)
            .await?;
        self.move_off_klamms().await?;
        self.look_at_states_soon();
        Ok(())
    }

    /// A klamm keeps no replica: where one has got into a partition that was led, a broker takes its place.
    pub(super) async fn move_off_klamms(&mut self) -> Result<(), ZkFault> {
        let partitions = reassignment::to_move_off_klamms(&self.context);
        if partitions.is_empty() || planted!(SkipSanitising) {
            return Ok(());
        }
        let mut load = Load::of(&self.context);
        let mut wanted: Vec<Wanted> = Vec::new();
        for at in partitions {
            let Some(found) = self.context.partition(&at) else {
                continue;
            };
            let current = found.assignment.clone();
            let target = ReplicaAssignment::settled(current.target());
            match sanitise::without_klamm(&self.context, &target, &mut load) {
                Ok(Some(genuine)) => {
                    info!(
                        target: log::CONTROLLER,
                        "partition {at}: replicas {} name a klamm, which keeps none: reassigned to {}",
                        current.replicas, genuine.replicas
                    );
                    wanted.push((at, current.redirect_to(&genuine.replicas)));
                }
                Ok(None) => {}
                Err(nobody) => self.warn_broken([format!("partition {at}: {nobody}")]),
            }
        }
        let failed = self.begin_reassignments(wanted).await?;
        self.warn_broken(failed.into_iter().map(|(at, why)| {
            format!("partition {at} could not be moved off a klamm, it is tried again with the next sweep: {why}")
        }));
        Ok(())
    }

    /// The sweep: what no watch told of, what was refused before, and in-sync sets that changed without a word.
    pub(super) async fn sweep_reassignments(&mut self) -> Result<(), ZkFault> {
        self.process_partition_reassignment().await?;
        let moving = self.refresh(self.moving()).await?;
        let is_refused = |at: &TopicPartition| {
            let why = self.context.reassignments_waiting().get(at);
            matches!(why, None | Some(Waiting::ZooKeeperRefused(_)))
        };
        let (again, others): (Vec<_>, Vec<_>) = moving.into_iter().partition(is_refused);
        for at in &again {
            self.context.forget_reassignment_waiting(at);
        }
        self.resume_reassignments(again, Look::Announce).await?;
        self.resume_reassignments(others, Look::Check).await?;
        self.move_off_klamms().await
    }

    /// Sets the timer of the next look at states, where leaders write them without asking.
    fn look_at_states_soon(&mut self) {
        let is_needed = !self.context.protocol().has_alter_partition()
            && !self.context.partitions_being_reassigned().is_empty();
        let now_ms = self.ports.clock.now_ms();
        let is_set = self.states_due_at_ms.is_some_and(|due_ms| due_ms > now_ms);
        if is_needed && !is_set {
            self.states_due_at_ms = Some(now_ms.saturating_add(LOOK_AT_STATES_MS));
            let look = ControllerEvent::PartitionReassignmentIsrChange;
            self.ports.clock.schedule(LOOK_AT_STATES_MS, look);
        }
    }

    pub(super) async fn process_partition_reassignment_isr_change(
        &mut self,
    ) -> Result<(), ZkFault> {
        let now_ms = self.ports.clock.now_ms();
        // A timer of an earlier term: the one that was set last counts.
        if self.states_due_at_ms.is_none_or(|due_ms| now_ms < due_ms) {
            return Ok(());
        }
        self.states_due_at_ms = None;
        // Before anything that may fail.
        self.look_at_states_soon();
        let moving = self.refresh(self.moving()).await?;
        self.on_in_sync_sets_changed(&moving).await
    }
}

fn is_gone(topic: &TopicName) -> String {
    format!("/brokers/topics/{topic} is gone")
}

/// The node as it was read, with these assignments in it; `None` where it holds them already, and why not where it can't.
fn with_assignments(
    topic: &TopicName,
    read: Read<TopicZnode>,
    changes: &[&Wanted],
    known_id: Option<TopicId>,
) -> Result<Option<TopicZnode>, String> {
    let mut znode = match read {
        Read::Found(znode) => znode,
        Read::Missing => return Err(is_gone(topic)),
        Read::Broken(why) => return Err(why),
    };
    let before = (znode.partitions.clone(), znode.topic_id);
    for (at, assignment) in changes {
        znode.partitions.insert(at.partition, assignment.clone());
    }
    // An old tool may have wiped it (KAFKA-14190), or somebody written another.
    znode.topic_id = known_id.or(znode.topic_id);
    let differs = (&znode.partitions, znode.topic_id) != (&before.0, before.1);
    Ok(differs.then_some(znode))
}

/// The first names and how many more: a line must stay readable at ten thousand partitions.
fn list(partitions: &[TopicPartition]) -> String {
    const SHOWN: usize = 20;
    let shown = partitions.iter().take(SHOWN).map(ToString::to_string);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match partitions.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
