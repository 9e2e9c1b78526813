//! The lives of the brokers: killed, hanging, cut off from ZooKeeper, leaving, back again.
//!
//! What a running broker does with its replicas is in `life`. Must never decide anything for a controller.

use klamm::effect::Answer;
use klamm::event::{AlterPartitionRequest, ControllerEvent};
use klamm::model::{BrokerId, InterBrokerProtocol, KafkaError, TopicPartition};
use klamm::zk::paths;

use super::act::Kind;
use super::letters::Sender;
use super::life::Surroundings;
use super::simulator::{Deed, Simulator};
use crate::broker::{Process, SimBroker};
use crate::chance::{Chance, Span};
use crate::replica_log::Record;
use crate::world::endpoint;
use crate::zookeeper::ZkSession;

/// The first protocol whose brokers tell their epoch when they want to leave.
const KNOWS_ITS_EPOCH: InterBrokerProtocol = InterBrokerProtocol::new(2, 2, 0);

/// `controlled.shutdown.max.retries`.
const LEAVE_TRIES_MAX: u32 = 3;

impl Simulator {
    /// Tries an act that concerns a broker; `None`: this one doesn't.
    pub(super) fn apply_to_brokers(&mut self, kind: Kind, chance: &Chance) -> Option<bool> {
        let is_for_brokers = matches!(
            kind,
            Kind::CrashBroker
                | Kind::KillBroker
                | Kind::BounceBroker
                | Kind::PauseBroker
                | Kind::ExpireBroker
                | Kind::FailLogDir
                | Kind::LeaveAndReturn
                | Kind::MoveEndpoint
        );
        if !is_for_brokers {
            return None;
        }
        let Some(id) = self.some_broker(chance) else {
            return Some(false);
        };
        self.trace
            .line(self.now_ms(), format_args!("  broker {id}"));
        let restart_ms = chance.within(Span::new(50, 15_000));
        let session_timeout_ms = self.climate.broker_session_timeout_ms;
        match kind {
            Kind::CrashBroker => {
                self.world.crash(id);
                self.plan(session_timeout_ms, Deed::ExpireBrokerSession(id));
                // It can't register before its old session is over.
                self.plan(session_timeout_ms + restart_ms, Deed::StartBroker(id));
            }
            Kind::KillBroker => {
                self.world.kill(id);
                self.plan(restart_ms, Deed::StartBroker(id));
            }
            Kind::BounceBroker => {
                self.world.kill(id);
                self.start_broker(id);
            }
            Kind::PauseBroker => {
                self.world.pause(id);
                self.plan(
                    chance.within(Span::new(100, 25_000)),
                    Deed::ResumeBroker(id),
                );
                self.plan(session_timeout_ms, Deed::ExpireBrokerSession(id));
            }
            Kind::ExpireBroker => {
                self.world.expire_broker(id);
                self.plan(
                    chance.within(Span::new(10, 3_000)),
                    Deed::RegisterBroker(id),
                );
            }
            Kind::FailLogDir => {
                let hosted: Vec<TopicPartition> = self
                    .world
                    .broker(id, |broker| broker.logs.keys().cloned().collect());
                if hosted.is_empty() {
                    return Some(false);
                }
                let lost = chance.some_of(&hosted, 1 + chance.below(3) as usize);
                let lost: Vec<String> = lost.iter().map(TopicPartition::to_string).collect();
                let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
                self.trace
                    .line(self.now_ms(), format_args!("  loses {lost:?}"));
                self.world.fail_log_dir(id, &lost);
            }
            Kind::LeaveAndReturn => self.ask_to_leave(id, 1),
            Kind::MoveEndpoint => {
                let mut moved = endpoint(id);
                moved.port = 10_000 + chance.below(1_000) as i32;
                self.world.set_endpoints(id, &[moved]);
            }
            _ => return None,
        }
        Some(true)
    }

    /// One that runs and is registered.
    fn some_broker(&self, chance: &Chance) -> Option<i32> {
        let ids = self.climate.brokers.iter().map(|broker| broker.id);
        let up: Vec<i32> = ids.filter(|id| self.is_up(*id)).collect();
        chance.pick(&up).copied()
    }

    fn is_up(&self, id: i32) -> bool {
        let runs = |broker: &SimBroker| broker.process == Process::Running;
        self.world.is_registered(id) && self.world.broker(id, runs)
    }

    /// Starts a broker's process; one whose old session still lives waits for its end.
    pub(super) fn start_broker(&mut self, id: i32) {
        let is_dead = |broker: &SimBroker| broker.process == Process::Dead;
        if !self.world.broker(id, is_dead) || self.is_away(BrokerId(id)) {
            return;
        }
        if self.world.is_registered(id) {
            self.plan(500, Deed::StartBroker(id));
            return;
        }
        // Whoever starts it again has repaired its disks.
        self.world.broker_mut(id, SimBroker::repair_log_dir);
        self.world.start_broker(id);
        self.remove_stray_logs(id);
    }

    /// A replica that left while its broker was away keeps its folder there, under the Java controller too; an operator
    /// removes it. Under another topic id it would keep a new replica out for ever.
    fn remove_stray_logs(&mut self, id: i32) {
        for (at, topic_id) in self.world.broker(id, |broker| broker.logs.clone()) {
            let topic = self.world.readable_topic(at.topic.as_str());
            let Some(topic) = topic else {
                // Nobody can tell what is assigned there.
                let path = paths::topic(&at.topic);
                if self.world.zookeeper.look(&path).is_none() {
                    self.world.broker_mut(id, |broker| broker.forget_log(&at));
                }
                continue;
            };
            let is_same =
                topic_id.is_none() || topic.topic_id.is_none() || topic_id == topic.topic_id;
            let assignment = topic.partitions.get(&at.partition);
            let is_assigned =
                assignment.is_some_and(|assignment| assignment.replicas.contains(BrokerId(id)));
            if !(is_same && is_assigned) {
                self.world.broker_mut(id, |broker| broker.forget_log(&at));
            }
        }
    }

    pub(super) fn resume_broker(&mut self, id: i32) {
        if self
            .world
            .broker(id, |broker| broker.process != Process::Paused)
        {
            return;
        }
        self.forget_deeds(|deed| *deed == Deed::ExpireBrokerSession(id));
        self.world.resume(id);
        if !self.world.is_registered(id) {
            self.plan(50, Deed::RegisterBroker(id));
        }
    }

    pub(super) fn expire_broker_session(&mut self, id: i32) {
        if self
            .world
            .broker(id, |broker| broker.process != Process::Running)
        {
            self.world.expire_broker(id);
        }
    }

    /// A broker that runs without a registration registers again: the same process under a new epoch.
    pub(super) fn register_broker(&mut self, id: i32) {
        let runs = self
            .world
            .broker(id, |broker| broker.process == Process::Running);
        if runs && !self.world.is_registered(id) {
            self.world.register_again(id);
            self.remove_stray_logs(id);
        }
    }

    // --- leaving

    pub(super) fn ask_to_leave(&mut self, id: i32, times: u32) {
        match self.world.broker(id, |broker| broker.process) {
            Process::Dead => return,
            // It goes on leaving when it goes on at all.
            Process::Paused => return self.plan(500, Deed::AskToLeave(id, times)),
            Process::Running => {}
        }
        let broker_epoch = self.world.broker(id, |broker| {
            (broker.protocol >= KNOWS_ITS_EPOCH).then_some(broker.epoch)
        });
        let broker = BrokerId(id);
        let event = Box::new(move |reply_to| ControllerEvent::ControlledShutdown {
            broker,
            broker_epoch,
            reply_to,
        });
        let about = format!("to let broker {id} go, time {times}");
        let asked = self.controller_known_to(broker).is_some_and(|index| {
            let epoch = self.world.broker(id, |broker| broker.epoch);
            let sender = Sender::Leaving(broker, times, epoch);
            self.write_to(index, sender, about.clone(), event)
        });
        if !asked {
            self.hear_leave_answer(broker, times, None, None);
        }
    }

    pub(super) fn hear_leave_answer(
        &mut self,
        id: BrokerId,
        times: u32,
        answer: Option<Answer>,
        by: Option<usize>,
    ) {
        let remaining = match answer {
            Some(Answer::ControlledShutdown(Ok(remaining))) => Some(remaining.len()),
            Some(Answer::ControlledShutdown(Err(KafkaError::STALE_BROKER_EPOCH))) => None,
            _ => None,
        };
        match self.world.broker(id.0, |broker| broker.process) {
            Process::Dead => return,
            Process::Paused => return self.plan(500, Deed::AskToLeave(id.0, times)),
            Process::Running => {}
        }
        if remaining != Some(0) && times < LEAVE_TRIES_MAX {
            self.plan(500, Deed::AskToLeave(id.0, times + 1));
            return;
        }
        if remaining == Some(0) {
            self.trace.count("brokers that left as they should");
            if by.is_some() && self.klamm_in_office() == by {
                self.checks.broker_was_let_go(&self.world, id);
            }
        }
        self.world.kill(id.0);
        let after_ms = self.chance.within(Span::new(100, 8_000));
        self.plan(after_ms, Deed::StartBroker(id.0));
    }

    // --- replicas

    /// A broker does what it has to do by itself.
    pub(super) fn look_after_replicas(&mut self, id: BrokerId) {
        let Some(mut life) = self.life.take() else {
            return;
        };
        let cluster = self.world.cluster.clone();
        life.tick(&cluster, id, &mut Around(self));
        self.life = Some(life);
    }

    pub(super) fn hear_isr_answer(&mut self, id: BrokerId, starts: u64, answer: Option<Answer>) {
        // An answer to a process that has died since goes nowhere.
        if self.world.broker(id.0, |broker| broker.starts) != starts {
            return;
        }
        let Some(mut life) = self.life.take() else {
            return;
        };
        let cluster = self.world.cluster.clone();
        life.isr_answered(&cluster, id, answer, &mut Around(self));
        self.life = Some(life);
    }

    // --- the rival

    /// A broker's own controller wants the role for a while.
    pub(super) fn rival_contends(&mut self, chance: &Chance) -> bool {
        let is_news = !self.rival.contends();
        self.rival.wants_role(true);
        let after_ms = chance.within(Span::new(500, 20_000));
        self.plan(after_ms, Deed::RivalGivesUp);
        // It takes the role only where nobody has it: somebody makes room for it.
        if chance.once_in(2) {
            self.world.zookeeper.uproot(paths::CONTROLLER);
        }
        is_news
    }

    pub(super) fn rival_gives_up(&mut self) {
        self.rival.wants_role(false);
    }
}

/// What a broker finds around it.
struct Around<'a>(&'a mut Simulator);

impl Surroundings for Around<'_> {
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn session(&self, broker: BrokerId) -> Option<ZkSession> {
        let is_registered = self.0.world.is_registered(broker.0);
        is_registered.then(|| self.0.world.session(broker.0).clone())
    }

    fn ask_isr(&mut self, broker: BrokerId, request: AlterPartitionRequest) -> bool {
        let Some(index) = self.0.controller_known_to(broker) else {
            return false;
        };
        let starts = self.0.world.broker(broker.0, |broker| broker.starts);
        let about = format!("for the in-sync sets of broker {broker}");
        let event =
            Box::new(move |reply_to| ControllerEvent::AlterPartitionReceived { request, reply_to });
        self.0.trace.count("in-sync sets that leaders asked for");
        let sender = Sender::IsrChange(broker, starts);
        self.0.write_to(index, sender, about, event)
    }

    fn acknowledged(&mut self, broker: BrokerId, at: &TopicPartition, record: Record) {
        let Simulator { checks, world, .. } = self.0;
        checks.acknowledged(world, broker, at, record);
    }
}
