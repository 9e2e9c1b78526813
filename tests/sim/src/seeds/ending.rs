//! How a world ends: faults stop, everybody comes back, one perhaps later, and then all must come to rest.
//!
//! What is demanded is demanded of ZooKeeper, of the brokers and of the clients' answers, not of what a controller says of
//! itself. Must never wait for ever: what has not come to rest by then never will.

use klamm::effect::{Committed, Read};
use klamm::machine::comparison::{self, Fresh};
use klamm::model::{BrokerId, LeaderAndIsr, ReplicaAssignment, TopicName, TopicPartition};
use klamm::zk::{paths, znode};

use super::simulator::{Deed, Simulator};
use crate::broker::Process;
use crate::klamm::Klamm;

/// How long a calm world may take to come to rest: several sweeps of the whole state.
const PATIENCE_MS: u64 = 400_000;

/// How long an old broker may wait for an answer before somebody restarts it.
const WEDGED_MS: u64 = 60_000;

/// How often it is looked at.
const LOOK_MS: u64 = 2_000;

impl Simulator {
    /// Faults stop; who is gone comes back, and what was put in the way is taken away.
    pub(super) fn calm_down(&mut self) {
        self.is_calm = true;
        self.end_acts();
        self.trace.line(self.now_ms(), format_args!("faults stop"));
        self.climate = self.climate.calmed();
        self.forget_deeds(|deed| matches!(deed, Deed::StartBroker(_)));
        self.hasten_deeds();
        for klamm in &self.world.klamms {
            let fate = klamm.zk().fate();
            fate.weather.set(self.climate.zookeeper);
            fate.pace.set_span(self.climate.zookeeper_latency_ms);
            klamm.faults().clear();
        }
        self.rival_gives_up();
        if let Some(life) = &mut self.life {
            life.calm_down();
        }
        self.run_until(self.now_ms() + 1);
        self.leave_one_away();
        for broker in self.climate.brokers.clone() {
            if !self.is_away(BrokerId(broker.id)) {
                self.bring_back(broker.id);
            }
        }
        for index in 0..self.climate.klamms {
            self.resume_klamm(index);
            self.start_klamm(index);
        }
    }

    /// A broker that is not quite there is started anew, with its disks repaired.
    fn bring_back(&mut self, id: i32) {
        let is_well = self.world.broker(id, |broker| {
            broker.process == Process::Running
                && !broker.has_failed_dir
                && broker.offline.is_empty()
        });
        if is_well && self.world.is_registered(id) {
            return;
        }
        self.world.kill(id);
        self.plan(1_000, Deed::StartBroker(id));
    }

    /// Waits until all is at rest. What isn't, after all the patience there is.
    pub(super) fn come_to_rest(&mut self) -> Vec<String> {
        let until_ms = self.now_ms() + PATIENCE_MS;
        let mut quiet_looks = 0;
        loop {
            self.run_until(self.now_ms() + LOOK_MS);
            if self.now_ms() + PATIENCE_MS > until_ms + WEDGED_MS {
                self.restart_wedged_brokers();
            }
            let mut unrest = self.unrest();
            if unrest.is_empty() {
                let Simulator { checks, world, .. } = self;
                unrest = checks.leaders_have_all(world);
            }
            quiet_looks = if unrest.is_empty() {
                quiet_looks + 1
            } else {
                0
            };
            if quiet_looks == 3 || self.now_ms() >= until_ms {
                return unrest;
            }
        }
    }

    /// Old brokers may wait for ever for an answer that they have had; an operator finds that out, and restarts them.
    pub(super) fn restart_wedged_brokers(&mut self) {
        for broker in self.climate.brokers.clone() {
            if self.is_away(BrokerId(broker.id)) {
                continue;
            }
            let life = self.life.as_ref();
            let is_wedged =
                life.is_some_and(|l| l.is_wedged(&self.world.cluster, BrokerId(broker.id)));
            if is_wedged || self.lives_in_the_past(broker.id) {
                self.trace.count("old brokers that waited for ever");
                self.world.kill(broker.id);
                self.start_broker(broker.id);
            }
        }
    }

    /// A broker that kept a replica of a topic that is gone (see `strays`) takes nothing of a new topic of that name, where
    /// topics have no ids: its leader epochs begin anew.
    fn lives_in_the_past(&self, id: i32) -> bool {
        self.world.broker(id, |broker| {
            let mut replicas = broker.replicas.iter();
            replicas.any(|(at, replica)| {
                let state = self.world.state(&at.to_string());
                state.is_some_and(|state| state.leader_and_isr.leader_epoch < replica.leader_epoch)
            })
        })
    }

    /// Everything that is not as it should be in a world at rest.
    pub(super) fn unrest(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.check_role(&mut found);
        self.check_admin_nodes(&mut found);
        self.check_topics(&mut found);
        let waits = |at: &TopicPartition| self.deletion_waits(at.topic.as_str());
        found.extend(self.world.differences_but(&[], &waits));
        self.check_logs(&mut found);
        self.check_caches(&mut found);
        self.check_klamms(&mut found);
        found
    }

    /// One klamm is in office, and nobody else says so.
    fn check_role(&self, found: &mut Vec<String>) {
        let active: Vec<BrokerId> = self
            .world
            .klamms
            .iter()
            .filter(|klamm| klamm.is_active())
            .map(|klamm| klamm.id)
            .collect();
        let holder = self.world.controller().map(BrokerId);
        if active.len() != 1 || holder != active.first().copied() {
            found.push(format!(
                "/controller names {holder:?}, in office are {active:?}"
            ));
        }
        if active.is_empty() {
            let why = |klamm: &Klamm| klamm.snapshot().standing_by.to_string();
            let klamms = self.world.klamms.iter();
            found.extend(klamms.map(|k| format!("klamm {} stands by: {}", k.id, why(k))));
        }
        for klamm in &self.world.klamms {
            let registered = self
                .world
                .zookeeper
                .look(&paths::broker(klamm.id))
                .is_some();
            if registered != active.contains(&klamm.id) {
                let is_not = if registered { "" } else { "not " };
                found.push(format!("klamm {} is {is_not}registered", klamm.id));
            }
        }
    }

    fn check_admin_nodes(&self, found: &mut Vec<String>) {
        for node in [
            paths::REASSIGN_PARTITIONS,
            paths::PREFERRED_REPLICA_ELECTION,
        ] {
            let left = self.world.zookeeper.look(node);
            let waits = node == paths::REASSIGN_PARTITIONS && self.moves_wait();
            if let Some(left) = left.filter(|_| !waits) {
                found.push(format!("{node} is still there: {}", left.text()));
            }
        }
        for parent in [
            paths::DELETE_TOPICS,
            paths::ISR_CHANGE_NOTIFICATION,
            paths::LOG_DIR_EVENT_NOTIFICATION,
        ] {
            for child in self.world.zookeeper.look_children(parent) {
                if parent == paths::DELETE_TOPICS && self.deletion_waits(&child) {
                    continue;
                }
                found.push(format!("{parent}/{child} is still there"));
            }
        }
    }

    /// Every partition is led by one of its replicas, none is moving, and none is on a klamm, but for what waits for a broker.
    fn check_topics(&self, found: &mut Vec<String>) {
        for at in self.partitions() {
            let Some(topic) = self.world.readable_topic(at.topic.as_str()) else {
                continue;
            };
            let Some(assignment) = topic.partitions.get(&at.partition) else {
                continue;
            };
            if self.deletion_waits(at.topic.as_str()) {
                continue;
            }
            if !self.needs_who_is_away(assignment) {
                found.extend(self.unsettled(&at, assignment));
            }
            let state = self.world.state(&at.to_string());
            if let Some(fault) = self.state_fault(state.as_ref(), assignment) {
                found.push(format!("{at} {fault}: {state:?}"));
            }
        }
    }

    /// What of a partition's assignment has yet to be changed.
    fn unsettled(&self, at: &TopicPartition, assignment: &ReplicaAssignment) -> Vec<String> {
        let mut found = Vec::new();
        if assignment.is_being_reassigned() {
            found.push(format!("{at} is still moving: {assignment:?}"));
        }
        let klamms = self.world.klamms.iter();
        let hosts = klamms.filter(|klamm| assignment.replicas.contains(klamm.id));
        found.extend(hosts.map(|klamm| format!("{at} has a replica on klamm {}", klamm.id)));
        found
    }

    /// No broker tells clients of a topic that there isn't, nor of offline replicas on brokers that are back.
    fn check_caches(&self, found: &mut Vec<String>) {
        let names = self.world.zookeeper.look_children(paths::TOPICS);
        let cluster = self.world.cluster.borrow();
        for broker in cluster.values().filter(|b| !self.is_away(b.id)) {
            let strange = broker.cache.keys().filter(|at| {
                let is_there = names.iter().any(|name| name == at.topic.as_str());
                !is_there && self.checks.should_have_forgotten(broker, &at.topic)
            });
            found.extend(strange.map(|at| format!("broker {} tells clients of {at}", broker.id)));
            let is_there = |at: &TopicPartition| {
                let topic = at.topic.as_str();
                names.iter().any(|name| name == topic) && !self.deletion_waits(topic)
            };
            let cached = broker.cache.iter().filter(|(at, _)| is_there(at));
            let offline = cached.filter(|(_, told)| {
                let out = self.out_of_reach(&told.replicas);
                told.offline_replicas.iter().any(|id| !out.contains(&id))
            });
            found.extend(offline.map(|(at, cached)| {
                let (id, of) = (broker.id, &cached.offline_replicas);
                format!("broker {id} takes the replicas of {at} on {of} for offline")
            }));
        }
    }

    /// No broker keeps the log of a replica that it isn't assigned.
    fn check_logs(&self, found: &mut Vec<String>) {
        let brokers = self.climate.brokers.iter();
        for broker in brokers.filter(|broker| !self.is_away(BrokerId(broker.id))) {
            for at in self
                .world
                .broker(broker.id, |broker| broker.logs.clone())
                .keys()
            {
                let topic = self.world.readable_topic(at.topic.as_str());
                let assignment =
                    topic.and_then(|topic| topic.partitions.get(&at.partition).cloned());
                let is_assigned = assignment
                    .is_some_and(|assignment| assignment.replicas.contains(BrokerId(broker.id)));
                if !is_assigned && !self.checks.is_beyond(BrokerId(broker.id), at) {
                    found.push(format!("broker {} keeps the log of {at}", broker.id));
                }
            }
        }
    }

    /// Nobody waits for an answer, and whoever is in office knows what ZooKeeper holds.
    fn check_klamms(&self, found: &mut Vec<String>) {
        for klamm in &self.world.klamms {
            if klamm.is_busy() || !klamm.queue.is_empty() {
                found.push(format!(
                    "klamm {} is busy with {:?}",
                    klamm.id,
                    klamm.busy_with()
                ));
                continue;
            }
            for slot in klamm.replies.unanswered() {
                found.push(format!("klamm {} has not answered {slot:?}", klamm.id));
            }
            if klamm.is_active() {
                let fresh = self.fresh();
                found.extend(comparison::differences(&klamm.context(), &fresh));
            }
        }
    }

    /// What ZooKeeper holds.
    fn fresh(&self) -> Fresh {
        let zookeeper = &self.world.zookeeper;
        let mut fresh = Fresh::default();
        for broker in &self.climate.brokers {
            let (id, path) = (BrokerId(broker.id), paths::broker(BrokerId(broker.id)));
            let Some(node) = zookeeper.look(&path) else {
                continue;
            };
            let read = znode::decode_broker(&path, id, node.data(), node.stat().czxid);
            fresh.brokers.extend(read.found());
        }
        for name in zookeeper.look_children(paths::TOPICS) {
            let name = TopicName::new(&name);
            let path = paths::topic(&name);
            if let Some(node) = zookeeper.look(&path) {
                let read = znode::decode_topic(&path, node.data(), node.stat().version);
                fresh.topics.push((name, read));
            }
        }
        for at in comparison::partitions(&fresh.topics) {
            let path = paths::state(&at);
            let read = match zookeeper.look(&path) {
                Some(node) => znode::decode_state(&path, node.data(), node.stat().version),
                None => Read::Missing,
            };
            fresh
                .states
                .insert(at, read.map(Committed::<LeaderAndIsr>::from));
        }
        let marked = zookeeper.look_children(paths::DELETE_TOPICS);
        fresh.deletions = marked.iter().map(|name| TopicName::new(name)).collect();
        fresh
    }
}
