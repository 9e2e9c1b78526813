//! One klamm process over the simulated ports: the product's controller, its queue, and what its runtime does around it.
//!
//! Must never decide anything: it takes one event at a time, as the runtime's loop does, and checks the whole state after
//! each. Counterpart: `klamm::runtime`.

use klamm::controller::{ControllerSettings, KafkaController, Stop, preempted_answer};
use klamm::effect::ReplyTo;
use klamm::event::ControllerEvent;
use klamm::model::BrokerId;
use klamm::port::{Ports, Replies};
use klamm::state::{ControllerContext, ControllerSnapshot, violations};

use crate::brokers::{Cluster, SimChannels};
use crate::clock::{SimClock, SimQueue, VirtualTime};
use crate::drive;
use crate::faults::Faults;
use crate::fences::Fences;
use crate::replies::SimReplies;
use crate::zk_port::{SimZk, TopicWatches};
use crate::zookeeper::ZooKeeper;

type Controller = KafkaController<SimZk, SimChannels, SimReplies, SimClock>;

/// A klamm process.
#[derive(Debug)]
pub struct Klamm {
    /// `klamm.id`.
    pub id: BrokerId,
    /// Its event queue.
    pub queue: SimQueue,
    /// Its channels to the brokers.
    pub channels: SimChannels,
    /// Its answers.
    pub replies: SimReplies,
    zk: SimZk,
    controller: Controller,
    fences: Fences,
    stopped: Option<Stop>,
    is_killed: bool,
}

impl Klamm {
    /// Starts a process: it has a session and its first event. Its topic ids follow from `seed`.
    pub fn start(
        settings: ControllerSettings,
        zookeeper: &ZooKeeper,
        cluster: &Cluster,
        time: &VirtualTime,
        watches: TopicWatches,
        seed: u64,
    ) -> Klamm {
        let id = settings.own_id;
        let queue = SimQueue::new(time);
        let zk = SimZk::new(zookeeper, id, time, &queue, watches);
        let channels = SimChannels::new(cluster, &queue);
        let replies = SimReplies::default();
        let ports = Ports {
            zk: zk.clone(),
            brokers: channels.clone(),
            replies: replies.clone(),
            clock: SimClock::new(time, &queue, seed),
        };
        zk.open_session();
        queue.put(ControllerEvent::Startup);
        Klamm {
            id,
            queue,
            channels,
            replies,
            zk,
            controller: KafkaController::new(settings, ports),
            fences: Fences::default(),
            stopped: None,
            is_killed: false,
        }
    }

    /// What is to go wrong at its ZooKeeper port.
    pub fn faults(&self) -> &Faults {
        self.zk.faults()
    }

    /// What it knows.
    pub fn context(&self) -> &ControllerContext {
        self.controller.context()
    }

    /// What it published last.
    pub fn snapshot(&self) -> ControllerSnapshot {
        self.replies.snapshot()
    }

    /// Whether it acts as the controller, in its own eyes.
    pub fn is_active(&self) -> bool {
        self.runs() && self.context().term().is_some()
    }

    /// Why it ended, if it did.
    pub fn stopped(&self) -> Option<&Stop> {
        self.stopped.as_ref()
    }

    /// Whether its process runs.
    pub fn runs(&self) -> bool {
        self.stopped.is_none() && !self.is_killed
    }

    /// A slot for a request that waits for it.
    pub fn open_slot(&self) -> ReplyTo {
        self.replies.open()
    }

    /// Ends the process as SIGKILL does: nothing is said, and the session lives until it times out.
    pub fn kill(&mut self) {
        self.is_killed = true;
        self.queue.forget();
        klamm::port::Brokers::shut_down(&mut self.channels);
    }

    /// Ends its ZooKeeper session on the server.
    pub fn expire_session(&mut self) {
        if let Some(session) = self.zk.session() {
            session.zookeeper().expire(session.id());
        }
        self.answer_preempted();
    }

    /// Cuts its connection to ZooKeeper for a moment: its next call finds it restored.
    pub fn cut_connection(&mut self) {
        if let Some(session) = self.zk.session() {
            session.zookeeper().disconnect(session.id());
        }
    }

    /// Restores its connection to ZooKeeper.
    pub fn restore_connection(&mut self) {
        if let Some(session) = self.zk.session() {
            session.zookeeper().reconnect(session.id());
        }
    }

    /// Processes the oldest event, if there is one, and checks the whole state.
    pub fn step(&mut self) -> bool {
        if !self.runs() {
            return false;
        }
        self.queue.ring();
        let Some(event) = self.queue.take() else {
            return false;
        };
        let stop = drive::now(self.controller.process(event.clone()));
        self.answer_preempted();
        self.check_fences(&event);
        self.check_after(&event);
        if event == ControllerEvent::Expire {
            self.zk.open_session();
            self.queue.put(ControllerEvent::RegisterBrokerAndReelect);
        }
        if let Some(stop) = stop {
            self.end(stop);
        }
        true
    }

    /// Checks all that the event made it write and send.
    fn check_fences(&mut self, event: &ControllerEvent) {
        let mut broken = self.fences.check_writes(event, &self.zk.take_performed());
        let (known, _) = self.fences.seen();
        let sent = self.channels.sent_since(known);
        let (context, zookeeper) = (self.controller.context(), self.zk.zookeeper());
        broken.extend(self.fences.check_requests(&sent, context, zookeeper));
        assert!(
            broken.is_empty(),
            "{event:?} broke the order of things:\n{}",
            broken.join("\n")
        );
    }

    /// Checks the whole state. A failover that was cut off leaves it half read, and a procedure whose session ended leaves
    /// it half changed; both are thrown away before anything else is done with it.
    fn check_after(&self, event: &ControllerEvent) {
        let session = self.zk.session();
        let lives = session.is_some_and(|session| session.zookeeper().is_alive(session.id()));
        if !lives || !self.snapshot().is_loaded {
            return;
        }
        let broken = violations(self.context());
        assert!(
            broken.is_empty(),
            "after {event:?} the state is broken:\n{}",
            broken.join("\n")
        );
    }

    /// The process ends by itself: whoever waits is answered, and the session is closed.
    fn end(&mut self, stop: Stop) {
        while let Some(event) = self.queue.take() {
            self.answer_unprocessed(&event);
        }
        self.queue.forget();
        klamm::port::Brokers::shut_down(&mut self.channels);
        if let Some(session) = self.zk.session() {
            session.close();
        }
        self.stopped = Some(stop);
    }

    fn answer_preempted(&mut self) {
        for queued in self.zk.take_preempted() {
            self.answer_unprocessed(&queued.event);
        }
    }

    fn answer_unprocessed(&mut self, event: &ControllerEvent) {
        if let Some((reply_to, answer)) = preempted_answer(event) {
            self.replies.answer(reply_to, answer);
        }
    }
}
