//! One klamm process over the simulated ports: the product's controller, its queue, and what its runtime does around it.
//!
//! Must never decide anything: it takes one event at a time, as the runtime's loop does, and checks the whole state after
//! each. An event may take its time: others act in between, and the process may end in its midst. Counterpart:
//! `klamm::runtime`.

use std::cell::{Ref, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use klamm::controller::{ControllerSettings, KafkaController, Stop, preempted_answer};
use klamm::effect::ReplyTo;
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, TopicName};
use klamm::port::{Ports, Replies};
use klamm::state::{ControllerContext, ControllerSnapshot, violations};

use crate::brokers::{Cluster, SimChannels};
use crate::clock::{SimClock, SimQueue, VirtualTime};
use crate::faults::Faults;
use crate::fences::Fences;
use crate::replies::SimReplies;
use crate::zk_port::{Fate, SimZk, TopicWatches};
use crate::zookeeper::ZooKeeper;

type Controller = KafkaController<SimZk, SimChannels, SimReplies, SimClock>;

/// An event that is being processed.
struct UnderWay {
    event: ControllerEvent,
    outcome: Pin<Box<dyn Future<Output = Option<Stop>>>>,
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.event.fmt(f)
    }
}

/// Nobody else looks at the controller before the event is done.
#[allow(clippy::await_holding_refcell_ref)]
async fn process(controller: Rc<RefCell<Controller>>, event: ControllerEvent) -> Option<Stop> {
    controller.borrow_mut().process(event).await
}

/// What a process got done when it was last driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: there was nothing to do.
    Idle,
    /// It waits in the midst of an event.
    Waits,
    /// It is done with an event.
    Done,
}

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
    controller: Rc<RefCell<Controller>>,
    under_way: Option<UnderWay>,
    fences: Fences,
    was_active: bool,
    /// The topics that were being deleted when the event began.
    deleted_before: BTreeSet<TopicName>,
    stopped: Option<Stop>,
    is_killed: bool,
}

impl Klamm {
    /// Starts a process: it has a session and its first event. Its topic ids follow from `seed`; what becomes of its line to
    /// ZooKeeper, from `fate`.
    pub fn start(
        settings: ControllerSettings,
        zookeeper: &ZooKeeper,
        cluster: &Cluster,
        time: &VirtualTime,
        watches: TopicWatches,
        seed: u64,
        fate: Fate,
    ) -> Klamm {
        let id = settings.own_id;
        let queue = SimQueue::new(time);
        let zk = SimZk::of_fate(zookeeper, id, time, &queue, watches, fate);
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
            controller: Rc::new(RefCell::new(KafkaController::new(settings, ports))),
            under_way: None,
            fences: Fences::default(),
            was_active: false,
            deleted_before: BTreeSet::new(),
            stopped: None,
            is_killed: false,
        }
    }

    /// What is to go wrong at its ZooKeeper port.
    pub fn faults(&self) -> &Faults {
        self.zk.faults()
    }

    /// Its ZooKeeper port.
    pub fn zk(&self) -> &SimZk {
        &self.zk
    }

    /// What it knows, between two events.
    pub fn context(&self) -> Ref<'_, ControllerContext> {
        Ref::map(self.controller.borrow(), Controller::context)
    }

    /// Whether it is in the midst of an event.
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// The event in whose midst it is.
    pub fn busy_with(&self) -> Option<&ControllerEvent> {
        self.under_way.as_ref().map(|under_way| &under_way.event)
    }

    /// What it published last.
    pub fn snapshot(&self) -> ControllerSnapshot {
        self.replies.snapshot()
    }

    /// Whether it acts as the controller, in its own eyes; in the midst of an event, when it began.
    pub fn is_active(&self) -> bool {
        self.runs() && self.was_active_or(|context| context.term().is_some())
    }

    fn was_active_or(&self, look: impl Fn(&ControllerContext) -> bool) -> bool {
        match self.is_busy() {
            true => self.was_active,
            false => look(&self.context()),
        }
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
        self.under_way = None;
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

    /// Processes the oldest event, if there is one, and checks the whole state. At a pace that takes time it may come back
    /// in the midst of it, and goes on the next time.
    pub fn step(&mut self) -> bool {
        self.drive() == Progress::Done
    }

    /// The same, telling how far it came.
    pub fn drive(&mut self) -> Progress {
        if !self.runs() {
            return Progress::Idle;
        }
        self.queue.ring();
        let Some(mut under_way) = self.under_way.take().or_else(|| self.next_event()) else {
            return Progress::Idle;
        };
        let mut waker = Context::from_waker(Waker::noop());
        match under_way.outcome.as_mut().poll(&mut waker) {
            Poll::Pending => {
                self.answer_preempted();
                self.under_way = Some(under_way);
                Progress::Waits
            }
            Poll::Ready(stop) => {
                self.finish(&under_way.event, stop);
                Progress::Done
            }
        }
    }

    fn next_event(&mut self) -> Option<UnderWay> {
        self.was_active = self.is_active();
        let deleted = self.context().topics_to_be_deleted().clone();
        self.deleted_before = deleted;
        let event = self.queue.take()?;
        let (controller, processed) = (self.controller.clone(), event.clone());
        let outcome = process(controller, processed);
        Some(UnderWay {
            event,
            outcome: Box::pin(outcome),
        })
    }

    fn finish(&mut self, event: &ControllerEvent, stop: Option<Stop>) {
        self.answer_preempted();
        self.check_fences(event);
        self.check_after(event);
        if *event == ControllerEvent::Expire {
            self.zk.open_session();
            self.queue.put(ControllerEvent::RegisterBrokerAndReelect);
        }
        if let Some(stop) = stop {
            self.end(stop);
        }
    }

    /// Checks all that the event made it write and send.
    fn check_fences(&mut self, event: &ControllerEvent) {
        let mut broken = self.fences.check_writes(event, &self.zk.take_performed());
        let (known, _) = self.fences.seen();
        let sent = self.channels.sent_since(known);
        let zookeeper = self.zk.zookeeper();
        let controller = self.controller.borrow();
        let context = controller.context();
        let deleted = &self.deleted_before;
        broken.extend(
            self.fences
                .check_requests(&sent, context, deleted, zookeeper),
        );
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
        let broken = violations(&self.context());
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
