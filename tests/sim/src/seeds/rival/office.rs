//! One term of the rival: failover, and then whatever its watches say.
//!
//! Nothing is known but what this term read. A write that loses a race is read and decided again; one that the fence stops
//! ends the term. Upstream: `onControllerFailover`, the two state machines, `Election.scala`.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use klamm::effect::{
    AnnouncedLeadership, ByTopic, Committed, ControlRequests, LeaderAndIsrPartition, StateRead,
    Term, TopicZnode, UpdateMetadata, UpdateMetadataPartition,
};
use klamm::model::{
    BrokerId, BrokerIds, BrokerRegistration, InterBrokerProtocol, LeaderAndIsr,
    LeaderRecoveryState, PartitionEpoch, ReplicaAssignment, TopicName, TopicPartition,
};
use klamm::port::Brokers;
use klamm::zk::{paths, znode};

use crate::zookeeper::{CreateMode, Op, Stat, ZkError};

use super::{Actor, End, News, SEES_BOUNCES};

/// Why a partition's state is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Nobody leads it.
    Leaderless,
    /// An operator wants the preferred replica to lead.
    Preferred,
    /// This broker is gone.
    Gone(BrokerId),
}

/// What is to become of a partition's state.
enum Decision {
    Write(LeaderAndIsr),
    /// It will do as it is, and the brokers are told.
    Announce,
    /// Nothing can be done, or it isn't ours to change.
    Leave,
}

/// What one batch says.
#[derive(Default)]
struct Batch {
    /// Lead or follow these.
    roles: BTreeMap<BrokerId, BTreeSet<TopicPartition>>,
    are_new: bool,
    metadata_to: Vec<BrokerId>,
    metadata_of: BTreeSet<TopicPartition>,
}

/// A term and all that it knows.
#[derive(Debug)]
pub(super) struct Office<'a> {
    actor: &'a Actor,
    term: Term,
    protocol: InterBrokerProtocol,
    live: BTreeMap<BrokerId, BrokerRegistration>,
    topics: BTreeMap<TopicName, TopicZnode>,
    states: BTreeMap<TopicPartition, StateRead>,
    /// Somebody else's business.
    being_deleted: BTreeSet<TopicName>,
}

impl Office<'_> {
    pub(super) fn new(actor: &Actor, term: Term) -> Office<'_> {
        let brokers = actor.cluster.borrow();
        let protocol = brokers.get(&actor.id).map(|broker| broker.protocol);
        Office {
            actor,
            term,
            protocol: protocol.unwrap_or(actor.release),
            live: BTreeMap::new(),
            topics: BTreeMap::new(),
            states: BTreeMap::new(),
            being_deleted: BTreeSet::new(),
        }
    }

    /// Serves until the term ends.
    pub(super) async fn serve(mut self) -> End {
        match self.serve_on().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn serve_on(&mut self) -> Result<Infallible, End> {
        self.fail_over().await?;
        loop {
            if !self.actor.shared.wants_role.get() {
                return Err(End::Session);
            }
            match self.actor.news().await {
                News::SessionOver => return Err(End::Session),
                News::Controller if self.actor.is_named().await? => {}
                News::Controller => return Err(End::Resigned),
                News::Wish => {}
                News::Brokers => self.look_at_brokers().await?,
                News::Topics => self.look_at_topics().await?,
                News::Topic(name) => self.look_at_topic(&name).await?,
                News::TopicDeletions => self.look_at_deletions().await?,
                News::IsrChanges => self.look_at_isr_changes().await?,
                News::PreferredElection => self.elect_preferred().await?,
            }
        }
    }

    async fn fail_over(&mut self) -> Result<(), End> {
        let notices = [
            paths::LOG_DIR_EVENT_NOTIFICATION,
            paths::ISR_CHANGE_NOTIFICATION,
        ];
        for parent in notices {
            for name in self.actor.children(parent).await? {
                self.delete(&format!("{parent}/{name}")).await?;
            }
        }
        self.look_at_deletions().await?;
        self.live = self.read_brokers().await?;
        for name in self.actor.children(paths::TOPICS).await? {
            self.read_topic(&TopicName::new(&name)).await?;
        }
        let states = self.fetch_states(self.partitions()).await?;
        self.states = states.into_iter().collect();
        for registration in self.live.values() {
            self.actor.channels.clone().add_broker(registration);
        }
        self.tell_who_lives(self.live_ids());
        self.bring_replicas_online(&self.live_ids());
        self.take_out_of_isrs(&self.dead_replicas()).await?;
        self.bring_partitions_online().await?;
        self.elect_preferred().await
    }

    // --- what it hears of

    /// The new ones, then those that bounced, as dead and then as new, then the dead ones, which pass for alive till then.
    async fn look_at_brokers(&mut self) -> Result<(), End> {
        let now = self.read_brokers().await?;
        let (mut new, mut bounced, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for (id, found) in &now {
            match self.live.get(id) {
                None => new.push(*id),
                Some(known) if known == found => {}
                Some(known) if known.epoch == found.epoch => moved.push(*id),
                Some(_) if self.actor.release >= SEES_BOUNCES => bounced.push(*id),
                Some(_) => {}
            }
        }
        let is_dead = |id: &&BrokerId| !now.contains_key(*id);
        let dead: Vec<BrokerId> = self.live.keys().filter(is_dead).copied().collect();
        let mut channels = self.actor.channels.clone();
        for id in new.iter().chain(&bounced) {
            channels.add_broker(&now[id]);
        }
        for id in &dead {
            channels.remove_broker(*id);
        }
        let arrive = |live: &mut BTreeMap<_, _>, ids: &[BrokerId]| {
            live.extend(ids.iter().map(|id| (*id, now[id].clone())));
        };
        arrive(&mut self.live, &moved);
        if !moved.is_empty() {
            self.tell_who_lives(self.live_ids());
        }
        if !new.is_empty() {
            arrive(&mut self.live, &new);
            self.on_startup(&new).await?;
        }
        if !bounced.is_empty() {
            self.on_failure(&bounced).await?;
            arrive(&mut self.live, &bounced);
            self.on_startup(&bounced).await?;
        }
        if !dead.is_empty() {
            self.on_failure(&dead).await?;
        }
        Ok(())
    }

    async fn on_startup(&mut self, new: &[BrokerId]) -> Result<(), End> {
        let others = self.live_ids().into_iter().filter(|id| !new.contains(id));
        self.tell_who_lives(others.collect());
        self.tell(Batch {
            metadata_to: new.to_vec(),
            metadata_of: self.partitions().into_iter().collect(),
            ..Batch::default()
        });
        self.bring_replicas_online(new);
        self.bring_partitions_online().await
    }

    async fn on_failure(&mut self, dead: &[BrokerId]) -> Result<(), End> {
        self.live.retain(|id, _| !dead.contains(id));
        let leads_nobody = self.leaderless().is_empty();
        self.bring_partitions_online().await?;
        self.take_out_of_isrs(dead).await?;
        if leads_nobody {
            self.tell_who_lives(self.live_ids());
        }
        Ok(())
    }

    async fn look_at_topics(&mut self) -> Result<(), End> {
        let names = self.actor.children(paths::TOPICS).await?;
        let names: BTreeSet<_> = names.iter().map(|name| TopicName::new(name)).collect();
        self.topics.retain(|name, _| names.contains(name));
        self.states.retain(|of, _| names.contains(&of.topic));
        let known: BTreeSet<_> = self.topics.keys().cloned().collect();
        for name in names.difference(&known) {
            self.read_topic(name).await?;
        }
        let is_new = |of: &TopicPartition| !known.contains(&of.topic);
        self.create_states(self.partitions().into_iter().filter(is_new).collect())
            .await
    }

    /// Partitions that were added get a state; whatever else the node says now is for the next term.
    async fn look_at_topic(&mut self, name: &TopicName) -> Result<(), End> {
        let Some(known) = self.topics.get(name).cloned() else {
            return Ok(());
        };
        self.read_topic(name).await?;
        if let Some(found) = self.topics.get_mut(name) {
            let older = known.partitions.iter();
            found
                .partitions
                .extend(older.map(|(index, replicas)| (*index, replicas.clone())));
        }
        let is_new = |of: &TopicPartition| {
            of.topic == *name && !known.partitions.contains_key(&of.partition)
        };
        self.create_states(self.partitions().into_iter().filter(is_new).collect())
            .await
    }

    async fn look_at_deletions(&mut self) -> Result<(), End> {
        let names = self.actor.children(paths::DELETE_TOPICS).await?;
        self.being_deleted = names.iter().map(|name| TopicName::new(name)).collect();
        Ok(())
    }

    async fn look_at_isr_changes(&mut self) -> Result<(), End> {
        let parent = paths::ISR_CHANGE_NOTIFICATION;
        let names = self.actor.children(parent).await?;
        let nodes: Vec<_> = names
            .iter()
            .map(|name| format!("{parent}/{name}"))
            .collect();
        let mut changed = BTreeSet::new();
        for path in &nodes {
            let decode = |data: &[u8], _: Stat| znode::decode_isr_change(path, data);
            let read = self.actor.look(path, decode).await?;
            changed.extend(read.into_iter().flatten());
        }
        let found = self.fetch_states(changed.iter().cloned().collect()).await?;
        self.states.extend(found);
        if !changed.is_empty() {
            self.tell(Batch {
                metadata_to: self.live_ids(),
                metadata_of: changed,
                ..Batch::default()
            });
        }
        for path in &nodes {
            self.delete(path).await?;
        }
        Ok(())
    }

    /// Looks for a request to elect preferred replicas. That it deletes the node itself makes it look, and watch, again.
    async fn elect_preferred(&mut self) -> Result<(), End> {
        let path = paths::PREFERRED_REPLICA_ELECTION;
        let stands = self.actor.read(|s| s.exists_and_watch(path)).await?;
        if stands.flatten().is_none() {
            return Ok(());
        }
        let decode = |data: &[u8], _: Stat| znode::decode_preferred_election(path, data);
        let read = self.actor.look(path, decode).await?;
        let asked = read.map(|node| node.partitions).unwrap_or_default();
        let is_led_otherwise = |of: &TopicPartition| {
            let leader = self.states.get(of).map(|state| state.leader_and_isr.leader);
            leader.is_some() && leader != self.replicas(of).first()
        };
        let asked = asked.into_iter().filter(is_led_otherwise).collect();
        self.change(asked, Cause::Preferred).await?;
        self.delete(path).await
    }

    // --- the state machines

    fn bring_replicas_online(&self, of: &[BrokerId]) {
        let mut batch = Batch::to_all(self);
        for at in self.partitions() {
            for id in self.replicas(&at).iter().filter(|id| of.contains(id)) {
                batch.assign(id, &at);
            }
        }
        self.tell_changes(batch);
    }

    async fn take_out_of_isrs(&mut self, gone: &[BrokerId]) -> Result<(), End> {
        for id in gone {
            let has_it = |of: &TopicPartition| {
                self.states.contains_key(of) && self.replicas(of).contains(*id)
            };
            let theirs = self.partitions().into_iter().filter(has_it).collect();
            self.change(theirs, Cause::Gone(*id)).await?;
        }
        Ok(())
    }

    async fn bring_partitions_online(&mut self) -> Result<(), End> {
        let has_no_state = |of: &TopicPartition| !self.states.contains_key(of);
        let new = self.partitions().into_iter().filter(has_no_state);
        let (new, leaderless) = (new.collect(), self.leaderless());
        self.create_states(new).await?;
        self.change(leaderless, Cause::Leaderless).await
    }

    /// First states. Where one exists already it is left for the next term, as upstream does.
    async fn create_states(&mut self, new: Vec<TopicPartition>) -> Result<(), End> {
        let mut batch = Batch::to_all(self);
        batch.are_new = true;
        for of in new {
            let isr = self.live_replicas(&of);
            let Some(leader) = isr.first() else {
                continue;
            };
            for parent in [paths::partitions(&of.topic), paths::partition(&of)] {
                let parent = Op::create(&parent, b"", CreateMode::Persistent);
                self.actor.write(self.term, parent).await?.ok();
            }
            let first = LeaderAndIsr::initial(leader, isr);
            let data = znode::encode_state(&first, self.term.epoch);
            let create = Op::create(&paths::state(&of), &data, CreateMode::Persistent);
            if let Ok(version) = self.actor.write(self.term, create).await? {
                first.isr.iter().for_each(|id| batch.assign(id, &of));
                self.learn(of, first, version);
            }
        }
        self.tell_changes(batch);
        Ok(())
    }

    /// Reads states, decides, writes, and tells the replicas; what lost a race goes round again.
    async fn change(&mut self, mut of: Vec<TopicPartition>, cause: Cause) -> Result<(), End> {
        let mut batch = Batch::to_all(self);
        while !of.is_empty() {
            for (at, state) in self.fetch_states(std::mem::take(&mut of)).await? {
                let (next, version) = match self.decide(&at, &state, cause).await? {
                    Decision::Leave => continue,
                    Decision::Announce => {
                        self.states.insert(at.clone(), state);
                        self.assign(&mut batch, &at, cause);
                        continue;
                    }
                    Decision::Write(next) => (next, state.partition_epoch.0),
                };
                let data = znode::encode_state(&next, self.term.epoch);
                let set = Op::set(&paths::state(&at), &data, Some(version));
                match self.actor.write(self.term, set).await? {
                    Ok(version) => {
                        self.assign(&mut batch, &at, cause);
                        self.learn(at, next, version);
                    }
                    Err(ZkError::BadVersion) => of.push(at),
                    Err(_) => {}
                }
            }
        }
        self.tell_changes(batch);
        Ok(())
    }

    async fn decide(
        &self,
        of: &TopicPartition,
        state: &StateRead,
        cause: Cause,
    ) -> Result<Decision, End> {
        let Some(assignment) = self.assignment(of) else {
            return Ok(Decision::Leave);
        };
        // Without the fence this is all that stops an older controller.
        if state.controller_epoch > self.term.epoch {
            return Ok(Decision::Leave);
        }
        let (now, isr) = (&state.leader_and_isr, &state.leader_and_isr.isr);
        let in_sync = |id: &BrokerId| isr.contains(*id) && self.is_live(id);
        let next = match cause {
            Cause::Gone(id) if !isr.contains(id) => return Ok(Decision::Announce),
            Cause::Gone(id) => {
                let leader = match now.leader == id {
                    true => BrokerId::NO_LEADER,
                    false => now.leader,
                };
                let others = Some(isr.without(id)).filter(|others| !others.is_empty());
                let rest = others.unwrap_or_else(|| isr.clone());
                Some(now.next(leader, rest))
            }
            Cause::Preferred => {
                let preferred = assignment.replicas.first().filter(in_sync);
                preferred.map(|leader| now.next(leader, isr.clone()))
            }
            Cause::Leaderless => match assignment.replicas.iter().find(in_sync) {
                Some(leader) => Some(now.next(leader, isr.iter().filter(in_sync).collect())),
                None if self.allows_unclean(&of.topic).await? => {
                    let leader = self.live_replicas(of).first();
                    leader.map(|leader| self.unclean(now, leader))
                }
                None => None,
            },
        };
        Ok(next.map_or(Decision::Leave, Decision::Write))
    }

    fn unclean(&self, now: &LeaderAndIsr, leader: BrokerId) -> LeaderAndIsr {
        let mut next = now.next(leader, BrokerIds::from([leader.0]));
        if self.protocol.has_leader_recovery() {
            next.leader_recovery_state = LeaderRecoveryState::Recovering;
        }
        next
    }

    // --- what it reads and writes

    async fn read_brokers(&self) -> Result<BTreeMap<BrokerId, BrokerRegistration>, End> {
        let names = self.actor.children(paths::BROKER_IDS).await?;
        let mut found = BTreeMap::new();
        for id in names.iter().filter_map(|name| paths::id_of_child(name)) {
            let path = paths::broker(id);
            let decode =
                |data: &[u8], stat: Stat| znode::decode_broker(&path, id, data, stat.czxid);
            let read = self.actor.look_and_watch(&path, decode).await?;
            found.extend(read.map(|registration| (id, registration)));
        }
        Ok(found)
    }

    async fn read_topic(&mut self, name: &TopicName) -> Result<(), End> {
        let path = paths::topic(name);
        let decode = |data: &[u8], stat: Stat| znode::decode_topic(&path, data, stat.version);
        let read = self.actor.look_and_watch(&path, decode).await?;
        self.topics.extend(read.map(|topic| (name.clone(), topic)));
        Ok(())
    }

    async fn fetch_states(
        &self,
        of: Vec<TopicPartition>,
    ) -> Result<Vec<(TopicPartition, StateRead)>, End> {
        let mut found = Vec::new();
        for at in of {
            let path = paths::state(&at);
            let decode = |data: &[u8], stat: Stat| znode::decode_state(&path, data, stat.version);
            let read = self.actor.look(&path, decode).await?;
            found.extend(read.map(|state| (at, state)));
        }
        Ok(found)
    }

    async fn allows_unclean(&self, topic: &TopicName) -> Result<bool, End> {
        let path = paths::topic_config(topic);
        let decode = |data: &[u8], _: Stat| znode::decode_election_config(&path, data);
        let read = self.actor.look(&path, decode).await?;
        Ok(read.and_then(|config| config.unclean_leader_election_enable) == Some(true))
    }

    async fn delete(&self, path: &str) -> Result<(), End> {
        // Whether or not it was still there.
        let gone = self.actor.write(self.term, Op::delete(path, None)).await?;
        gone.ok();
        Ok(())
    }

    fn learn(&mut self, of: TopicPartition, written: LeaderAndIsr, version: i32) {
        let state = StateRead {
            leader_and_isr: written,
            controller_epoch: self.term.epoch,
            partition_epoch: PartitionEpoch(version),
        };
        self.states.insert(of, state);
    }

    // --- what it knows

    fn live_ids(&self) -> Vec<BrokerId> {
        self.live.keys().copied().collect()
    }

    fn assignment(&self, of: &TopicPartition) -> Option<&ReplicaAssignment> {
        let topic = self.topics.get(&of.topic);
        let topic = topic.filter(|_| !self.being_deleted.contains(&of.topic));
        topic?.partitions.get(&of.partition)
    }

    /// None of a partition that isn't known.
    fn replicas(&self, of: &TopicPartition) -> BrokerIds {
        let assignment = self.assignment(of);
        assignment.map_or_else(BrokerIds::empty, |found| found.replicas.clone())
    }

    fn live_replicas(&self, of: &TopicPartition) -> BrokerIds {
        self.replicas(of)
            .iter()
            .filter(|id| self.is_live(id))
            .collect()
    }

    fn is_live(&self, id: &BrokerId) -> bool {
        self.live.contains_key(id)
    }

    /// All partitions but those of topics that are being deleted.
    fn partitions(&self) -> Vec<TopicPartition> {
        let topics = self.topics.iter();
        let topics = topics.filter(|(name, _)| !self.being_deleted.contains(*name));
        let each = topics.flat_map(|(name, topic)| {
            topic
                .partitions
                .keys()
                .map(|index| TopicPartition::new(name, *index))
        });
        each.collect()
    }

    fn dead_replicas(&self) -> Vec<BrokerId> {
        let mut dead = BTreeSet::new();
        for of in self.partitions() {
            dead.extend(self.replicas(&of).iter().filter(|id| !self.is_live(id)));
        }
        dead.into_iter().collect()
    }

    fn leaderless(&self) -> Vec<TopicPartition> {
        let is_leaderless = |of: &TopicPartition| {
            let state = self.states.get(of);
            state.is_some_and(|state| !self.is_live(&state.leader_and_isr.leader))
        };
        self.partitions()
            .into_iter()
            .filter(is_leaderless)
            .collect()
    }

    // --- what it tells brokers

    /// Whoever a change of this cause is told to.
    fn assign(&self, batch: &mut Batch, of: &TopicPartition, cause: Cause) {
        batch.metadata_of.insert(of.clone());
        for id in self.replicas(of).iter() {
            if cause != Cause::Gone(id) {
                batch.assign(id, of);
            }
        }
    }

    /// Says nothing at all where there is nothing to say.
    fn tell_changes(&self, batch: Batch) {
        if !batch.metadata_of.is_empty() {
            self.tell(batch);
        }
    }

    fn tell_who_lives(&self, to: Vec<BrokerId>) {
        self.tell(Batch {
            metadata_to: to,
            ..Batch::default()
        });
    }

    /// Sends a batch to those of its recipients that are live. Only what ZooKeeper was seen to hold is said.
    fn tell(&self, batch: Batch) {
        let roles = batch.roles.iter().filter(|(id, _)| self.is_live(id));
        let role = |of: &TopicPartition, state: &StateRead, assignment: &ReplicaAssignment| {
            LeaderAndIsrPartition {
                partition: of.partition,
                state: Committed::from(state.clone()),
                assignment: assignment.clone(),
                is_new: batch.are_new,
            }
        };
        let metadata = |of: &TopicPartition, state: &StateRead, assignment: &ReplicaAssignment| {
            let offline = assignment.replicas.iter();
            UpdateMetadataPartition {
                partition: of.partition,
                leadership: AnnouncedLeadership::Committed(Committed::from(state.clone())),
                replicas: assignment.replicas.clone(),
                offline_replicas: offline.filter(|id| !self.is_live(id)).collect(),
            }
        };
        let leader_and_isr = roles
            .map(|(id, of)| (*id, self.by_topic(of, role)))
            .collect();
        let requests = ControlRequests {
            controller_epoch: self.term.epoch,
            protocol: self.protocol,
            live_brokers: self
                .live
                .values()
                .map(|found| found.broker.clone())
                .collect(),
            leader_and_isr,
            update_metadata: Some(UpdateMetadata {
                to: batch.metadata_to,
                number: 0,
                topics: self.by_topic(&batch.metadata_of, metadata).into(),
            }),
            stop_replica: BTreeMap::new(),
        };
        self.actor.channels.clone().send(requests);
    }

    fn by_topic<T>(
        &self,
        of: &BTreeSet<TopicPartition>,
        say: impl Fn(&TopicPartition, &StateRead, &ReplicaAssignment) -> T,
    ) -> Vec<ByTopic<T>> {
        let mut topics: Vec<ByTopic<T>> = Vec::new();
        for at in of {
            let Some((state, assignment)) = self.states.get(at).zip(self.assignment(at)) else {
                continue;
            };
            let said = say(at, state, assignment);
            match topics.last_mut().filter(|last| last.topic == at.topic) {
                Some(last) => last.partitions.push(said),
                None => topics.push(ByTopic {
                    topic: at.topic.clone(),
                    topic_id: self.topics[&at.topic]
                        .topic_id
                        .filter(|_| self.protocol.has_topic_ids()),
                    partitions: vec![said],
                }),
            }
        }
        topics
    }
}

impl Batch {
    /// Nothing yet; the metadata of what it will say goes to all.
    fn to_all(office: &Office<'_>) -> Batch {
        Batch {
            metadata_to: office.live_ids(),
            ..Batch::default()
        }
    }

    fn assign(&mut self, id: BrokerId, of: &TopicPartition) {
        self.roles.entry(id).or_default().insert(of.clone());
        self.metadata_of.insert(of.clone());
    }
}
