//! The lives of the klamms: started, killed, hanging, cut off, held back.
//!
//! Must never look into a controller to choose when: whom it hits follows from the draw.

use klamm::controller::{ControllerSettings, LeaderBalance};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, TopicName};
use klamm::zk::paths;

use super::act::Kind;
use super::climate::Climate;
use super::simulator::{Deed, Simulator};
use crate::chance::{Chance, Span};
use crate::faults::Fault;
use crate::pace::Pace;
use crate::world::{KLAMM, World, endpoint};
use crate::zk_port::Fate;

/// What a klamm is configured with.
pub(super) fn settings(climate: &Climate, index: usize) -> ControllerSettings {
    let id = KLAMM + index as i32;
    let balance = LeaderBalance {
        interval_ms: 10_000,
        threshold_percent: 10,
    };
    ControllerSettings {
        own_id: BrokerId(id),
        listeners: vec![endpoint(id)],
        takeover_delay_ms: 2_000,
        leader_balance: climate.balances.then_some(balance),
        token_expiry_check_interval_ms: Some(30_000),
        ..World::settings()
    }
}

impl Simulator {
    /// Starts a klamm's process, in place of one that is gone.
    pub(super) fn start_klamm(&mut self, index: usize) {
        let is_there = self
            .world
            .klamms
            .get(index)
            .is_some_and(|klamm| klamm.runs());
        if is_there {
            return;
        }
        self.processes[index] += 1;
        self.hanging[index] = false;
        let settings = self.settings(index);
        let name = format!(
            "klamm {} process {}",
            settings.own_id, self.processes[index]
        );
        let chance = Chance::of(self.seed, &name).counting(&self.mishaps);
        let pace = Pace::drawn(&self.world.time, chance, self.climate.zookeeper_latency_ms);
        let fate = Fate::at_once(pace);
        fate.weather.set(self.climate.zookeeper);
        self.world.start_klamm_of(settings, fate);
        if self.climate.lag_ms.is_some() {
            let server = self.chance.below(3) as usize;
            self.move_to_server(index, server);
        }
    }

    /// Tries an act that concerns a klamm; `None`: this one doesn't.
    pub(super) fn apply_to_klamms(&mut self, kind: Kind, chance: &Chance) -> Option<bool> {
        let is_for_klamms = matches!(
            kind,
            Kind::KillKlamm
                | Kind::PauseKlamm
                | Kind::ExpireKlamm
                | Kind::CutKlamm
                | Kind::MoveKlamm
                | Kind::RefuseKlamm
                | Kind::StopKlamm
                | Kind::CutBroker
        );
        if !is_for_klamms {
            return None;
        }
        let Some(index) = self.some_klamm(chance) else {
            return Some(false);
        };
        let klamm = &mut self.world.klamms[index];
        match kind {
            Kind::KillKlamm => {
                klamm.kill();
                self.collect_answers(index);
                self.let_session_time_out(index);
                // Whoever starts it again may be faster than that.
                let timeout_ms = self.climate.zookeeper.session_timeout_ms;
                let after_ms = chance.within(Span::new(100, 2 * timeout_ms));
                self.plan(after_ms, Deed::StartKlamm(index));
            }
            Kind::PauseKlamm => {
                self.hanging[index] = true;
                self.plan(
                    chance.within(Span::new(200, 25_000)),
                    Deed::ResumeKlamm(index),
                );
                self.let_session_time_out(index);
            }
            Kind::ExpireKlamm => klamm.expire_session(),
            Kind::CutKlamm => klamm.zk().cut(),
            Kind::MoveKlamm => {
                if self.climate.lag_ms.is_none() {
                    return Some(false);
                }
                // A client changes servers only when its connection is gone, and all its watches with it.
                self.move_to_server(index, chance.below(3) as usize);
                self.world.klamms[index].zk().cut();
            }
            Kind::RefuseKlamm => {
                let from_now = chance.below(6) as usize;
                klamm
                    .faults()
                    .at_call(from_now, Fault::Refused("a refusal"));
            }
            Kind::StopKlamm => klamm.queue.put(ControllerEvent::Shutdown),
            Kind::CutBroker => {
                let now_ms = self.world.time.now_ms();
                let broker = chance.pick(&self.climate.brokers).map(|broker| broker.id);
                let broker = BrokerId(broker.unwrap_or(1));
                return Some(klamm.channels.cut(broker, now_ms));
            }
            _ => return None,
        }
        Some(true)
    }

    /// One that runs; the one in office more often than the others.
    fn some_klamm(&self, chance: &Chance) -> Option<usize> {
        let runs = |index: &usize| self.world.klamms[*index].runs() && !self.hanging[*index];
        let in_office = self.klamm_in_office().filter(runs);
        let all: Vec<usize> = (0..self.world.klamms.len()).filter(runs).collect();
        match in_office {
            Some(index) if chance.once_in(2) => Some(index),
            _ => chance.pick(&all).copied(),
        }
    }

    /// The session of a process that says nothing lives on until it times out.
    fn let_session_time_out(&mut self, index: usize) {
        if let Some(session) = self.world.klamms[index].zk().session() {
            let timeout_ms = self.climate.zookeeper.session_timeout_ms;
            self.plan(timeout_ms, Deed::EndSession(session.id()));
        }
    }

    pub(super) fn resume_klamm(&mut self, index: usize) {
        self.hanging[index] = false;
        let session = self.world.klamms[index].zk().session();
        let id = session.map(|session| session.id());
        self.forget_deeds(|deed| id.is_some_and(|id| *deed == Deed::EndSession(id)));
        if let Some(id) = id {
            let latency_ms = self.climate.zookeeper_latency_ms;
            let after_ms = self.chance.within(latency_ms);
            self.plan(after_ms, Deed::HearOfEnd(id));
        }
    }

    fn move_to_server(&mut self, index: usize, server: usize) {
        if let Some(session) = self.world.klamms[index].zk().session() {
            session.zookeeper().connect_to(session.id(), server);
        }
    }

    /// A topic's node says again what it said before it was broken.
    pub(super) fn mend_topic(&mut self, name: &str, data: &[u8]) {
        let path = paths::topic(&TopicName::new(name));
        if self.world.zookeeper.look(&path).is_some() {
            self.world.zookeeper.poke(&path, data);
        }
    }
}
