//! Topics appear and grow: TopicChange, PartitionModifications.
//!
//! Upstream: `processTopicChange`, `processPartitionModifications`, `onNewPartitionCreation`. Unlike there, a rewrite of
//! `/brokers/topics/T` is conditional on its version, so that a tool's concurrent change isn't undone.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::isr::is_of_newer_controller;
use super::{KafkaController, log};
use crate::effect::{Read, StateRead, TopicZnode, ZkOutcome, ZkWrite};
use crate::machine::membership;
use crate::machine::partition::{self, LocalPartitionStep, OnlineChange};
use crate::machine::replica::{self, LocalReplicaStep};
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::sanitise::{self, Load};
use crate::model::{Replica, ReplicaAssignment, TopicName, TopicPartition};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};
use crate::state::ControllerContext;

/// The version of a topic's node that no node has: the sweep looks at it again.
const NEVER_WRITTEN: i32 = -1;

/// What partitions that the context doesn't know may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown<'a> {
    /// Led before this term: their states are read.
    MayHaveState,
    /// Created while we lead: nobody else makes states. Of topics whose nodes could not be read before, these are to be
    /// deleted, whoever led them.
    AreNew { doomed: &'a [TopicName] },
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_topic_change(&mut self) -> Result<(), ZkFault> {
        let names = self.list_topics().await?;
        let diff = membership::diff_topics(&self.context, &names);
        if diff.new.is_empty() && diff.gone.is_empty() {
            return Ok(());
        }
        info!(target: log::CONTROLLER, "New topics: [{}], deleted topics: [{}]", list(&diff.new), list(&diff.gone));
        for topic in &diff.gone {
            self.context.remove_topic(topic);
        }
        self.lead_new_partitions(diff.new.clone(), &diff.new)
            .await?;
        self.move_off_klamms().await
    }

    /// The nodes of these topics changed, or may have: new partitions are led, other changes are ignored as upstream.
    pub(super) async fn process_partition_modifications(
        &mut self,
        topics: &[TopicName],
    ) -> Result<(), ZkFault> {
        // One that isn't known yet could not be read before, or its appearance is still in the queue.
        let legal = topics.iter().filter(|topic| topic.is_legal());
        let unknown: Vec<TopicName> = legal
            .clone()
            .filter(|topic| self.context.topic(topic).is_none())
            .cloned()
            .collect();
        self.lead_new_partitions(legal.cloned().collect(), &unknown)
            .await?;
        self.move_off_klamms().await
    }

    /// Takes in what topics' nodes assign, and leads what is new. Of the topics that were unknown until now, those that are
    /// to be deleted are deleted instead: one whose node could not be read has waited for that.
    pub(super) async fn lead_new_partitions(
        &mut self,
        topics: Vec<TopicName>,
        unknown: &[TopicName],
    ) -> Result<(), ZkFault> {
        // Read first: what fails then has changed nothing yet.
        let marked = self.marked_among(unknown).await?;
        let mut new = Vec::new();
        let unknown = Unknown::AreNew { doomed: &marked };
        let taken_in = self.take_in_topics(topics, unknown, &mut new).await;
        if let Err(ZkFault::Fenced | ZkFault::SessionLost) = taken_in {
            return taken_in;
        }
        // Where a later round was refused, what the earlier ones took in is led all the same: nobody else would.
        if let Some(first) = new.first() {
            info!(target: log::CONTROLLER, "New partitions: {} (first {first})", new.len());
        }
        let is_doomed = self.queue_taken_in(&marked);
        self.on_new_partition_creation(new.clone()).await?;
        self.take_in_leaderless(new).await?;
        if is_doomed {
            self.resume_deletions().await?;
        }
        taken_in
    }

    /// Partitions of topics whose nodes could not be read before may have states under which nobody can lead them now: they
    /// are known and announced all the same.
    async fn take_in_leaderless(&mut self, new: Vec<TopicPartition>) -> Result<(), ZkFault> {
        let is_unled = |context: &ControllerContext, at: &TopicPartition| {
            let partition = context.partition(at);
            partition.is_some_and(|partition| partition.leadership.is_none())
        };
        let mut unled = new;
        unled.retain(|at| {
            is_unled(&self.context, at) && !self.context.is_to_be_forgotten(&at.topic)
        });
        if unled.is_empty() {
            return Ok(());
        }
        self.take_in_leaderships(&unled).await?;
        unled.retain(|at| !is_unled(&self.context, at));
        if unled.is_empty() {
            return Ok(());
        }
        let gone = self.left_behind(self.replicas_of(&unled));
        self.on_replicas_become_offline(gone).await?;
        let brokers = self.registered_ids();
        self.send_update_metadata(&brokers, &unled);
        Ok(())
    }

    /// The topics' names, strange ones left out.
    pub(super) async fn list_topics(&mut self) -> Result<Vec<TopicName>, ZkFault> {
        let listed = self.ports.zk.topic_names().await?;
        self.warn_broken(membership::illegal_names(&listed));
        Ok(listed.into_iter().filter(TopicName::is_legal).collect())
    }

    /// Reads topic nodes and takes in what they assign; `stateless` gets the partitions that have no state yet, also those
    /// that were taken in before a later round was refused. Assignments that name a klamm are rewritten before anybody can be
    /// elected on them.
    pub(super) async fn take_in_topics(
        &mut self,
        names: Vec<TopicName>,
        unknown: Unknown<'_>,
        stateless: &mut Vec<TopicPartition>,
    ) -> Result<(), ZkFault> {
        let mut pending = names;
        let mut load = None;
        while !pending.is_empty() {
            let reads = self.ports.zk.topics(&pending).await?;
            let mut found = Vec::with_capacity(reads.len());
            for (name, read) in pending.drain(..).zip(reads) {
                match read {
                    Read::Found(znode) => found.push((name, znode)),
                    Read::Missing => {}
                    Read::Broken(why) => self.warn_broken([why]),
                }
            }
            let intakes: Vec<Intake> = found
                .into_iter()
                .map(|(name, znode)| self.vet(name, znode))
                .collect();
            let led = match unknown {
                Unknown::MayHaveState => {
                    self.take_in_states(&intakes).await?;
                    BTreeSet::new()
                }
                Unknown::AreNew { doomed } => self.led_on_klamms(&intakes, doomed).await?,
            };
            let intakes = self.amend(intakes, &led, &mut load);
            let writes: Vec<ZkWrite> = intakes.iter().filter_map(Intake::rewrite).collect();
            let outcomes = if writes.is_empty() {
                Vec::new()
            } else {
                self.ports.zk.write(&self.term()?, &writes).await?
            };
            pending = self.settle(intakes, outcomes, stateless);
        }
        Ok(())
    }

    /// Which partitions of a topic node are new and sound.
    fn vet(&mut self, topic: TopicName, znode: TopicZnode) -> Intake {
        let found = membership::new_partitions(&self.context, &topic, &znode);
        self.warn_broken(found.complaints(&topic));
        Intake {
            topic,
            znode,
            new: found.accepted,
            amended: false,
        }
    }

    /// The states of partitions that an earlier controller led. One that has none, and names a klamm, is not known before
    /// its assignment was rewritten: it would be led as it stands.
    async fn take_in_states(&mut self, intakes: &[Intake]) -> Result<(), ZkFault> {
        for intake in intakes {
            self.context
                .put_topic(&intake.topic, intake.znode.topic_id, intake.znode.version);
        }
        let assigned: Vec<&(TopicPartition, ReplicaAssignment)> =
            intakes.iter().flat_map(|intake| &intake.new).collect();
        let partitions: Vec<TopicPartition> = assigned.iter().map(|(at, _)| at.clone()).collect();
        let mut states = self.states_of(&partitions).await?;
        for (partition, assignment) in assigned {
            let state = states.remove(partition);
            if state.is_some() || !self.names_klamm(assignment) {
                self.context.put_assignment(partition, assignment.clone());
            }
            if let Some(state) = state {
                self.context.put_leadership(partition, state.into());
            }
        }
        Ok(())
    }

    /// Of new partitions that name a klamm, those that somebody led before: their node could not be read until now. Their
    /// leaders know the replicas of their leader epoch, so that these are changed by a reassignment and not at a stroke.
    async fn led_on_klamms(
        &mut self,
        intakes: &[Intake],
        doomed: &[TopicName],
    ) -> Result<BTreeSet<TopicPartition>, ZkFault> {
        let new = intakes.iter().flat_map(|intake| &intake.new);
        let on_klamms = new
            .filter(|(at, assignment)| self.names_klamm(assignment) && !doomed.contains(&at.topic));
        let on_klamms: Vec<TopicPartition> = on_klamms.map(|(at, _)| at.clone()).collect();
        if on_klamms.is_empty() {
            return Ok(BTreeSet::new());
        }
        Ok(self.states_of(&on_klamms).await?.into_keys().collect())
    }

    /// What the states of partitions hold, where they have one.
    pub(super) async fn take_in_leaderships(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), ZkFault> {
        for (partition, state) in self.states_of(partitions).await? {
            self.context.put_leadership(&partition, state.into());
        }
        Ok(())
    }

    /// The states that can be read, but for those that a newer controller wrote: the next write of ours finds out about it.
    async fn states_of(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, StateRead>, ZkFault> {
        let term = self.term()?;
        let reads = self.ports.zk.partition_states(partitions).await?;
        let mut found = BTreeMap::new();
        for (partition, read) in partitions.iter().zip(reads) {
            match read {
                Read::Found(state) if is_of_newer_controller(&state, term) => {}
                Read::Found(state) => _ = found.insert(partition.clone(), state),
                Read::Missing => {}
                Read::Broken(why) => self.warn_broken([why]),
            }
        }
        Ok(found)
    }

    fn names_klamm(&self, assignment: &ReplicaAssignment) -> bool {
        let klamm_ids = self.context.klamm_ids();
        klamm_ids.iter().any(|id| assignment.replicas.contains(*id))
    }

    /// Gives ids and replaces klamms where that is due.
    fn amend(
        &mut self,
        mut intakes: Vec<Intake>,
        led: &BTreeSet<TopicPartition>,
        load: &mut Option<Load>,
    ) -> Vec<Intake> {
        for intake in &mut intakes {
            self.amend_topic_id(intake);
            self.undo_growth_of_deleted(intake);
            let new = std::mem::take(&mut intake.new);
            for (partition, assignment) in new {
                let has_state =
                    led.contains(&partition) || self.context.leadership(&partition).is_some();
                let stays = has_state || (planted!(SkipSanitising) && !self.is_loaded);
                let sanitised = if !stays && sanitise::names_klamm(&self.context, &assignment) {
                    // Counted where it is asked for: every write of a topic's node comes by here.
                    let load = load.get_or_insert_with(|| Load::of(&self.context));
                    sanitise::without_klamm(&self.context, &assignment, load)
                } else {
                    Ok(None)
                };
                match sanitised {
                    Ok(None) => intake.new.push((partition, assignment)),
                    Ok(Some(replaced)) => {
                        info!(
                            target: log::STATE_CHANGE,
                            "partition {partition}: replicas {} name a klamm, which keeps none: {} instead",
                            assignment.replicas, replaced.replicas
                        );
                        intake.replace(&partition, replaced.clone());
                        intake.new.push((partition, replaced));
                    }
                    Err(nobody) => {
                        self.unplaced_topics.insert(intake.topic.clone());
                        self.warn_broken([format!("partition {partition}: {nobody}")]);
                    }
                }
            }
            self.restore_known(intake);
        }
        intakes
    }

    /// A topic gets an id from IBP 2.8 on, and keeps the one it had when an old tool wiped it (KAFKA-14190) or somebody wrote
    /// another: brokers refuse every request for its logs under another id. Upstream doesn't look at it again either, and
    /// leaves what is in the node to the next controller.
    fn amend_topic_id(&mut self, intake: &mut Intake) {
        let known = self.context.topic(&intake.topic).and_then(|topic| topic.id);
        let wanted = match (known, intake.znode.topic_id) {
            (Some(known), Some(other)) if known != other => {
                info!(
                    target: log::CONTROLLER,
                    "/brokers/topics/{} names another topic id than the one under which brokers have its logs, which is written again",
                    intake.topic
                );
                known
            }
            (_, Some(_)) => return,
            (Some(known), None) => known,
            (None, None) if self.context.protocol().has_topic_ids() => self.ports.clock.topic_id(),
            (None, None) => return,
        };
        intake.znode.topic_id = Some(wanted);
        intake.amended = true;
    }

    /// A topic that is being deleted doesn't grow: nobody would be told to delete what was added (KAFKA-6612).
    fn undo_growth_of_deleted(&self, intake: &mut Intake) {
        let topic = &intake.topic;
        if intake.new.is_empty() || !self.context.is_queued_for_deletion(topic) {
            return;
        }
        info!(
            target: log::CONTROLLER,
            "{} new partitions of topic {topic}, which is being deleted, are not created, and taken out of /brokers/topics/{topic} again",
            intake.new.len()
        );
        for (added, _) in std::mem::take(&mut intake.new) {
            intake.znode.partitions.remove(&added.partition);
        }
        intake.amended = true;
    }

    /// Tools rewrite the whole node from an older read and can bring klamm back where it was replaced.
    fn restore_known(&self, intake: &mut Intake) {
        let back: Vec<(TopicPartition, ReplicaAssignment)> = intake
            .znode
            .partitions
            .iter()
            .filter(|(_, assignment)| self.names_klamm(assignment))
            .filter_map(|(index, _)| {
                let partition = TopicPartition::new(&intake.topic, *index);
                let known = self.context.partition(&partition)?;
                let is_kept = !self.names_klamm(&known.assignment);
                is_kept.then(|| (partition, known.assignment.clone()))
            })
            .collect();
        for (partition, assignment) in back {
            intake.replace(&partition, assignment);
        }
    }

    /// Notes what stands in ZooKeeper now; returns the topics whose node was changed by somebody else meanwhile.
    fn settle(
        &mut self,
        intakes: Vec<Intake>,
        outcomes: Vec<ZkOutcome>,
        stateless: &mut Vec<TopicPartition>,
    ) -> Vec<TopicName> {
        let mut outcomes = outcomes.into_iter();
        let mut again = Vec::new();
        for intake in intakes {
            let version = match intake.amended.then(|| outcomes.next()).flatten() {
                None => intake.znode.version,
                Some(ZkOutcome::Written { version }) => version,
                Some(ZkOutcome::VersionConflict) => {
                    again.push(intake.topic);
                    continue;
                }
                Some(ZkOutcome::Missing) => {
                    self.context.remove_topic(&intake.topic);
                    continue;
                }
                Some(ZkOutcome::AlreadyExists) => continue,
                Some(ZkOutcome::Refused(why)) => {
                    warn!(
                        target: log::CONTROLLER,
                        "/brokers/topics/{} could not be rewritten, its new partitions wait for the next sweep: {why}",
                        intake.topic
                    );
                    if let Some(known) = self.context.topic(&intake.topic) {
                        let id = known.id;
                        self.context.put_topic(&intake.topic, id, NEVER_WRITTEN);
                    }
                    continue;
                }
            };
            self.context
                .put_topic(&intake.topic, intake.znode.topic_id, version);
            for (partition, assignment) in intake.new {
                self.context.put_assignment(&partition, assignment);
                if self.context.leadership(&partition).is_none() {
                    stateless.push(partition);
                }
            }
        }
        again
    }

    /// New → led: partitions and replicas go through the same four steps as upstream. Those of a topic that is to be deleted
    /// stay new: some of their logs may be gone already.
    pub(super) async fn on_new_partition_creation(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> Result<(), ZkFault> {
        if partitions.is_empty() {
            return Ok(());
        }
        let mut batch = ControllerBrokerRequestBatch::new();
        let refused = partition::handle_state_changes(
            &mut self.context,
            &partitions,
            LocalPartitionStep::New,
        );
        self.log_refused(&refused);
        let replicas = self.replicas_of(&partitions);
        let refused = replica::handle_state_changes(
            &mut self.context,
            &replicas,
            LocalReplicaStep::New,
            &mut batch,
        );
        self.log_refused(&refused);
        let mut partitions = partitions;
        partitions.retain(|partition| !self.context.is_queued_for_deletion(&partition.topic));
        if partitions.is_empty() {
            return Ok(());
        }
        let replicas = self.replicas_of(&partitions);
        // A refusal here leaves them new, and the next trigger leads them.
        let strategy = self.offline_election().await?;
        let ask = OnlineChange::new(partitions, strategy);
        let outcome = self.change(ask, &mut batch).await;
        let refused = replica::handle_state_changes(
            &mut self.context,
            &replicas,
            LocalReplicaStep::Online,
            &mut batch,
        );
        self.log_refused(&refused);
        self.send_unless_deposed(batch, &outcome);
        outcome.map(|_| ())
    }

    pub(super) fn replicas_of(&self, partitions: &[TopicPartition]) -> Vec<Replica> {
        let replicas = partitions.iter().flat_map(|partition| {
            let brokers = self.context.replicas(partition);
            brokers
                .iter()
                .map(|broker| Replica {
                    partition: partition.clone(),
                    broker,
                })
                .collect::<Vec<_>>()
        });
        replicas.collect()
    }
}

/// One topic node on its way into the context.
struct Intake {
    topic: TopicName,
    znode: TopicZnode,
    new: Vec<(TopicPartition, ReplicaAssignment)>,
    amended: bool,
}

impl Intake {
    fn replace(&mut self, partition: &TopicPartition, assignment: ReplicaAssignment) {
        self.znode
            .partitions
            .insert(partition.partition, assignment);
        self.amended = true;
    }

    fn rewrite(&self) -> Option<ZkWrite> {
        self.amended.then(|| ZkWrite::SetTopic {
            topic: self.topic.clone(),
            znode: self.znode.clone(),
        })
    }
}

/// The first names and how many more: a line must stay readable at ten thousand topics.
pub(super) fn list(topics: &[TopicName]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<&str> = topics.iter().take(SHOWN).map(TopicName::as_str).collect();
    match topics.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
