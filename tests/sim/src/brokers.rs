//! The channels to simulated brokers: every request is written down in the order of sending, and answered as the broker
//! on the other end would.
//!
//! A channel belongs to one incarnation and is a FIFO, as in the product: what is queued for a paused broker waits, what
//! is queued for a dead one is never answered. Nothing is sent by itself; the world says when brokers get to read.

mod network;

pub use network::NetworkWeather;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use klamm::effect::{ControlRequests, Incarnation};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, BrokerRegistration, ControllerEpoch, SharedSettings};
use klamm::port::{BrokerSurvey, Brokers, SurveyOutcome};

use crate::broker::{Process, Reply, SimBroker};
use crate::clock::SimQueue;
use crate::request::{self, Body, Request};

use network::{Flight, Orphan};

/// How long a broker may take to answer a survey.
const SURVEY_PATIENCE_MS: u64 = 5_000;

/// All brokers of a world, by id; shared by the world and by every controller in it.
pub type Cluster = Rc<RefCell<BTreeMap<BrokerId, SimBroker>>>;

#[derive(Debug)]
struct Channel {
    registration: BrokerRegistration,
    unsent: VecDeque<Request>,
    flight: Option<Flight>,
    /// What was sent last and has no answer yet.
    last: Option<Request>,
    /// The controller was told that the broker is behind.
    behind_told: bool,
}

#[derive(Debug, Default)]
struct Record {
    channels: BTreeMap<BrokerId, Channel>,
    orphans: Vec<Orphan>,
    /// What each batch said, a line a request.
    lines: Vec<String>,
    /// Every request that had a channel, in the order of sending.
    sent: Vec<(BrokerId, Request)>,
    /// What brokers say when they are asked, where it isn't what their configuration says.
    survey_answers: BTreeMap<BrokerId, SurveyOutcome>,
}

/// One controller's channels: the `Brokers` port. Clones are handles to the same ones.
#[derive(Debug, Clone)]
pub struct SimChannels {
    cluster: Cluster,
    queue: SimQueue,
    record: Rc<RefCell<Record>>,
}

impl SimChannels {
    /// No channel yet. Answers become events in `queue`.
    pub fn new(cluster: &Cluster, queue: &SimQueue) -> SimChannels {
        SimChannels {
            cluster: cluster.clone(),
            queue: queue.clone(),
            record: Rc::default(),
        }
    }

    /// The lines of all batches since this was last asked; see [`request::batch_lines`].
    pub fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.record.borrow_mut().lines)
    }

    /// Every request sent to a broker so far, in order.
    pub fn sent_to(&self, id: BrokerId) -> Vec<Request> {
        let record = self.record.borrow();
        let to = record.sent.iter().filter(|(to, _)| *to == id);
        to.map(|(_, request)| request.clone()).collect()
    }

    /// Every request sent so far but for the first `known`, with whom it was sent to.
    pub fn sent_since(&self, known: usize) -> Vec<(BrokerId, Request)> {
        let record = self.record.borrow();
        record.sent.iter().skip(known).cloned().collect()
    }

    /// The incarnations that a channel stands to.
    pub fn open(&self) -> Vec<Incarnation> {
        let record = self.record.borrow();
        record.channels.values().map(Channel::incarnation).collect()
    }

    /// The registration that a broker's channel was opened or moved with.
    pub fn registration(&self, id: BrokerId) -> Option<BrokerRegistration> {
        let record = self.record.borrow();
        record
            .channels
            .get(&id)
            .map(|channel| channel.registration.clone())
    }

    /// How many requests wait for a broker.
    pub fn unsent(&self, id: BrokerId) -> usize {
        let record = self.record.borrow();
        record
            .channels
            .get(&id)
            .map_or(0, |channel| channel.unsent.len())
    }

    /// Sets what a broker says when it is asked.
    pub fn set_survey_answer(&self, id: BrokerId, outcome: SurveyOutcome) {
        let mut record = self.record.borrow_mut();
        record.survey_answers.insert(id, outcome);
    }

    /// Every running broker reads one request and answers it. Whether any did.
    pub fn deliver_one_each(&self) -> bool {
        let ids: Vec<BrokerId> = self.record.borrow().channels.keys().copied().collect();
        let mut any = false;
        for id in ids {
            any |= self.deliver_one(id);
        }
        any
    }

    /// One broker reads one request and answers it. `false`: it has none, or does not run.
    pub fn deliver_one(&self, id: BrokerId) -> bool {
        let mut record = self.record.borrow_mut();
        let mut cluster = self.cluster.borrow_mut();
        let Some(broker) = cluster
            .get_mut(&id)
            .filter(|broker| broker.process == Process::Running)
        else {
            return false;
        };
        let Some(channel) = record.channels.get_mut(&id) else {
            return false;
        };
        let Some(request) = channel.unsent.pop_front() else {
            return false;
        };
        let reply = broker.handle(&request);
        let asked_in = request.controller_epoch;
        self.queue
            .put(event_of(channel.incarnation(), asked_in, reply));
        true
    }

    /// What a broker says to one who asks it: its own configuration, unless a test set something else.
    fn survey_outcome(&self, id: BrokerId) -> SurveyOutcome {
        if let Some(outcome) = self.record.borrow().survey_answers.get(&id) {
            return outcome.clone();
        }
        match self.cluster.borrow().get(&id) {
            Some(broker) if broker.process == Process::Running => SurveyOutcome::Answered {
                protocol: Some(broker.protocol),
                authorizer: None,
                shared: SharedSettings::new(),
            },
            Some(broker) if broker.process == Process::Paused => {
                SurveyOutcome::Silent("no answer within 5 s".to_owned())
            }
            _ => SurveyOutcome::Silent("connection refused".to_owned()),
        }
    }

    fn ask(&self, registration: &BrokerRegistration) {
        let id = registration.broker.id;
        let incarnation = Incarnation {
            broker: id,
            epoch: registration.epoch,
        };
        let outcome = self.survey_outcome(id);
        let delay_ms = match outcome {
            SurveyOutcome::Silent(_) => Some(SURVEY_PATIENCE_MS),
            SurveyOutcome::Answered { .. } | SurveyOutcome::NotZooKeeperMode => None,
        };
        let event = ControllerEvent::BrokerSurveyed(BrokerSurvey {
            incarnation,
            outcome,
        });
        match delay_ms {
            Some(delay_ms) => self.queue.schedule(delay_ms, event),
            None => self.queue.put(event),
        }
    }
}

impl Channel {
    fn incarnation(&self) -> Incarnation {
        Incarnation {
            broker: self.registration.broker.id,
            epoch: self.registration.epoch,
        }
    }
}

fn event_of(from: Incarnation, asked_in: ControllerEpoch, reply: Reply) -> ControllerEvent {
    match reply {
        Reply::LeaderAndIsr(response) => {
            ControllerEvent::LeaderAndIsrResponseReceived { from, response }
        }
        Reply::UpdateMetadata { number, error } => {
            ControllerEvent::UpdateMetadataResponseReceived {
                from,
                number,
                error,
            }
        }
        Reply::StopReplica(deleted, response) => ControllerEvent::StopReplicaResponseReceived {
            from,
            controller_epoch: asked_in,
            deleted,
            response,
        },
    }
}

impl Brokers for SimChannels {
    fn add_broker(&mut self, registration: &BrokerRegistration) {
        let channel = Channel {
            registration: registration.clone(),
            unsent: VecDeque::new(),
            flight: None,
            last: None,
            behind_told: false,
        };
        let id = registration.broker.id;
        let mut record = self.record.borrow_mut();
        record.close(id, &self.cluster);
        record.channels.insert(id, channel);
        drop(record);
        self.ask(registration);
    }

    fn remove_broker(&mut self, id: BrokerId) {
        self.record.borrow_mut().close(id, &self.cluster);
    }

    fn move_broker(&mut self, registration: &BrokerRegistration) {
        let mut record = self.record.borrow_mut();
        if let Some(channel) = record.channels.get_mut(&registration.broker.id) {
            channel.registration = registration.clone();
        }
    }

    fn send(&mut self, requests: ControlRequests) {
        let mut record = self.record.borrow_mut();
        let ids: Vec<BrokerId> = record.channels.keys().copied().collect();
        record.lines.extend(request::batch_lines(&requests, &ids));
        for id in ids {
            for body in request::bodies_for(id, &requests) {
                record.queue_request(id, &requests, body);
            }
        }
    }

    fn survey(&mut self, registrations: &[BrokerRegistration]) {
        for registration in registrations {
            self.ask(registration);
        }
    }

    fn replace_queue(&mut self, of: Incarnation, requests: ControlRequests) {
        let mut record = self.record.borrow_mut();
        let bodies = request::bodies_for(of.broker, &requests);
        let fresh = |body| Request {
            controller_epoch: requests.controller_epoch,
            broker_epoch: of.epoch,
            protocol: requests.protocol,
            body,
        };
        let fresh: Vec<Request> = bodies.into_iter().map(fresh).collect();
        let channel = record.channels.get_mut(&of.broker);
        let Some(channel) = channel.filter(|channel| channel.incarnation() == of) else {
            return;
        };
        if !fresh.is_empty() {
            // What was kept of the old queue was written down when it was sent.
            let asked: Vec<_> = fresh.iter().map(|one| (of.broker, one.clone())).collect();
            let old = std::mem::take(&mut channel.unsent);
            channel.unsent = network::replacement(old, fresh);
            channel.behind_told = false;
            record.sent.extend(asked);
        }
    }

    fn shut_down(&mut self) {
        let mut record = self.record.borrow_mut();
        let ids: Vec<BrokerId> = record.channels.keys().copied().collect();
        for id in ids {
            record.close(id, &self.cluster);
        }
    }
}

impl Record {
    fn queue_request(&mut self, id: BrokerId, requests: &ControlRequests, body: Body) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let request = Request {
            controller_epoch: requests.controller_epoch,
            broker_epoch: channel.registration.epoch,
            protocol: requests.protocol,
            body,
        };
        channel.unsent.push_back(request.clone());
        self.sent.push((id, request));
    }
}
