//! What lies between a controller and its brokers: each request takes its time, one in flight a channel, and the connection
//! may be cut before a broker saw it or after it was done. Then the same is sent again, as the product's channels do.
//!
//! Must never skip a request or change their order. Counterpart: `klamm::broker`'s send loop and queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use klamm::effect::{AnnouncedLeadership, ByTopic, UpdateMetadataPartition};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, InterBrokerProtocol, TopicId, TopicName};

use super::{Channel, Cluster, Record, SimChannels, event_of};
use crate::broker::{Process, Reply, SimBroker};
use crate::chance::{Chance, Rate, Span};
use crate::mishap::{Mishap, SLOW_BROKER_MS};
use crate::request::{Body, Request};

/// How the connections to brokers fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkWeather {
    /// How long a request, or an answer, is under way, in milliseconds.
    pub latency_ms: Span,
    /// The connection is cut before the broker sees a request.
    pub loss_before: Rate,
    /// The broker did what it was asked, and the answer is lost.
    pub loss_after: Rate,
    /// How long the pause before the same is sent again is, in milliseconds.
    pub pause_ms: Span,
    /// Above so many unsent requests the controller is told that the broker is behind.
    pub behind_above: usize,
}

/// The one request of a channel that is under way.
#[derive(Debug, Clone)]
pub(super) enum Flight {
    /// To the broker.
    Going { request: Request, at_ms: u64 },
    /// The answer back.
    Coming { answer: ControllerEvent, at_ms: u64 },
    /// The connection was cut: the same goes again.
    Again { request: Request, at_ms: u64 },
}

/// A request whose sender is gone, but which is on its way.
#[derive(Debug, Clone)]
pub(super) struct Orphan {
    to: BrokerId,
    /// The process that it was sent to: a connection ends with its process.
    starts: u64,
    request: Request,
    at_ms: u64,
}

/// The first release whose brokers know their epochs.
const KIP_380: InterBrokerProtocol = InterBrokerProtocol::new(2, 2, 0);

/// How often a request looks whether a hanging broker goes on.
const LOOK_AGAIN_MS: u64 = 20;

impl Flight {
    fn at_ms(&self) -> u64 {
        match self {
            Flight::Going { at_ms, .. }
            | Flight::Coming { at_ms, .. }
            | Flight::Again { at_ms, .. } => *at_ms,
        }
    }
}

impl SimChannels {
    /// Requests and answers get on as far as the time allows. The requests that brokers took.
    pub fn travel(
        &self,
        now_ms: u64,
        weather: &NetworkWeather,
        chance: &Chance,
    ) -> Vec<(BrokerId, Request, Reply)> {
        let mut taken = self.deliver_orphans(now_ms);
        let ids: Vec<BrokerId> = self.record.borrow().channels.keys().copied().collect();
        for id in ids {
            // Each step takes some time, or leaves nothing to be done.
            while let Some(step) = self.step(id, now_ms, weather, chance) {
                if let Step::Taken(request, reply) = step {
                    taken.push((id, *request, *reply));
                }
            }
        }
        taken
    }

    /// When something gets on next.
    pub fn next_due_ms(&self) -> Option<u64> {
        let record = self.record.borrow();
        let flights = record.channels.values().filter_map(|channel| {
            let flight = channel.flight.as_ref().map(Flight::at_ms);
            flight.or_else(|| (!channel.unsent.is_empty()).then_some(0))
        });
        let orphans = record.orphans.iter().map(|orphan| orphan.at_ms);
        flights.chain(orphans).min()
    }

    /// Cuts the connection to a broker: what is under way goes again. `false`: nothing was under way.
    pub fn cut(&self, id: BrokerId, now_ms: u64) -> bool {
        let mut record = self.record.borrow_mut();
        let Some(channel) = record.channels.get_mut(&id) else {
            return false;
        };
        let flight = channel.flight.as_ref();
        let is_under_way = flight.is_some_and(|flight| !matches!(flight, Flight::Again { .. }));
        let at_ms = now_ms + LOOK_AGAIN_MS;
        channel.flight = match channel.flight.take() {
            Some(Flight::Going { request, .. } | Flight::Again { request, .. }) => {
                Some(Flight::Again { request, at_ms })
            }
            Some(Flight::Coming { .. }) => channel
                .last
                .clone()
                .map(|request| Flight::Again { request, at_ms }),
            None => None,
        };
        is_under_way
    }

    fn deliver_orphans(&self, now_ms: u64) -> Vec<(BrokerId, Request, Reply)> {
        let mut record = self.record.borrow_mut();
        let (due, rest) = std::mem::take(&mut record.orphans)
            .into_iter()
            .partition::<Vec<Orphan>, _>(|orphan| orphan.at_ms <= now_ms);
        record.orphans = rest;
        let mut cluster = self.cluster.borrow_mut();
        let mut taken = Vec::new();
        for orphan in due {
            let Orphan {
                to,
                starts,
                request,
                ..
            } = orphan;
            let broker = cluster.get_mut(&to);
            let is_there = |broker: &&mut SimBroker| {
                broker.process == Process::Running && broker.starts == starts
            };
            if let Some(broker) = broker.filter(is_there) {
                let reply = broker.handle(&request);
                taken.push((to, request, reply));
            }
        }
        taken
    }

    fn step(
        &self,
        id: BrokerId,
        now_ms: u64,
        weather: &NetworkWeather,
        chance: &Chance,
    ) -> Option<Step> {
        let mut record = self.record.borrow_mut();
        let channel = record.channels.get_mut(&id)?;
        let Some(flight) = channel.flight.take() else {
            let request = channel.unsent.pop_front()?;
            channel.last = Some(request.clone());
            let at_ms = now_ms + way_ms(weather, chance);
            channel.flight = Some(Flight::Going { request, at_ms });
            return Some(Step::Other);
        };
        if flight.at_ms() > now_ms {
            channel.flight = Some(flight);
            return None;
        }
        match flight {
            Flight::Again { request, .. } => {
                let at_ms = now_ms + way_ms(weather, chance);
                channel.flight = Some(Flight::Going { request, at_ms });
                Some(Step::Other)
            }
            Flight::Going { request, .. } => {
                let (flight, step) = self.arrive(channel, request, now_ms, weather, chance);
                channel.flight = Some(flight);
                Some(step)
            }
            Flight::Coming { answer, .. } => {
                channel.last = None;
                let incarnation = channel.incarnation();
                let is_behind = channel.unsent.len() > weather.behind_above;
                let was_told = std::mem::replace(&mut channel.behind_told, is_behind);
                self.queue.put(answer);
                if is_behind && !was_told {
                    self.queue.put(ControllerEvent::ChannelBehind(incarnation));
                }
                Some(Step::Other)
            }
        }
    }

    /// A request gets to where its broker should be.
    fn arrive(
        &self,
        channel: &Channel,
        request: Request,
        now_ms: u64,
        weather: &NetworkWeather,
        chance: &Chance,
    ) -> (Flight, Step) {
        let again = |request| {
            let at_ms = now_ms + chance.within(weather.pause_ms);
            Flight::Again { request, at_ms }
        };
        if chance.befalls(Mishap::BrokerRequestLost, weather.loss_before) {
            return (again(request), Step::Other);
        }
        let mut cluster = self.cluster.borrow_mut();
        let broker = cluster.get_mut(&channel.registration.broker.id);
        let Some(broker) = broker.filter(|broker| broker.process != Process::Dead) else {
            return (again(request), Step::Other);
        };
        if broker.process == Process::Paused {
            let at_ms = now_ms + LOOK_AGAIN_MS;
            return (Flight::Going { request, at_ms }, Step::Other);
        }
        // What was meant for an earlier life reaches only those who can tell: see `Record::close`.
        let knows_its_epoch = broker.release >= KIP_380 && request.protocol >= KIP_380;
        if broker.epoch != channel.registration.epoch && !knows_its_epoch {
            return (again(request), Step::Other);
        }
        let reply = broker.handle(&request);
        let taken = Step::Taken(Box::new(request.clone()), Box::new(reply.clone()));
        if chance.befalls(Mishap::BrokerAnswerLost, weather.loss_after) {
            return (again(request), taken);
        }
        let answer = event_of(channel.incarnation(), request.controller_epoch, reply);
        let at_ms = now_ms + way_ms(weather, chance);
        (Flight::Coming { answer, at_ms }, taken)
    }
}

/// How long this request, or this answer, is under way.
fn way_ms(weather: &NetworkWeather, chance: &Chance) -> u64 {
    chance.within_or(weather.latency_ms, SLOW_BROKER_MS, Mishap::BrokerSlow)
}

/// What one step of a channel came to.
enum Step {
    /// A broker took a request, and what it said.
    Taken(Box<Request>, Box<Reply>),
    /// Anything else.
    Other,
}

impl Record {
    /// A channel closes: what is unsent is dropped, what is on its way may arrive all the same.
    pub(super) fn close(&mut self, id: BrokerId, cluster: &Cluster) {
        let Some(channel) = self.channels.remove(&id) else {
            return;
        };
        // Before broker epochs nothing fences what comes late from an older connection (KAFKA-7235), under no controller.
        let is_fenced = |request: &Request| {
            let cluster = cluster.borrow();
            let broker = cluster.get(&id);
            broker.is_some_and(|broker| broker.release >= KIP_380 && request.protocol >= KIP_380)
        };
        if let Some(Flight::Going { request, at_ms }) = channel.flight
            && is_fenced(&request)
        {
            let cluster = cluster.borrow();
            self.orphans.push(Orphan {
                to: id,
                starts: cluster.get(&id).map_or(0, |broker| broker.starts),
                request,
                at_ms,
            });
        }
    }
}

/// What says in few requests what `old` said in many, and what became true since: the leader −2 entries of `old`, its
/// StopReplicas, then `fresh`. A partition that `old` called new is new in it.
pub(super) fn replacement(old: VecDeque<Request>, fresh: Vec<Request>) -> VecDeque<Request> {
    let mut unborn = BTreeSet::new();
    let mut dying: BTreeMap<TopicName, Dying> = BTreeMap::new();
    let mut stops = Vec::new();
    for request in old {
        match &request.body {
            Body::LeaderAndIsr(topics) => {
                for topic in topics {
                    let new = topic.partitions.iter().filter(|told| told.is_new);
                    unborn.extend(new.map(|told| (topic.topic.clone(), told.partition)));
                }
            }
            Body::UpdateMetadata { topics, .. } => gather(&mut dying, topics),
            Body::StopReplica(_) => stops.push(request),
        }
    }
    let mut queue = VecDeque::new();
    queue.extend(announcement(dying, &fresh));
    queue.extend(stops);
    let is_update = |request: &Request| matches!(request.body, Body::UpdateMetadata { .. });
    let (updates, others): (Vec<_>, Vec<_>) = fresh.into_iter().partition(is_update);
    queue.extend(updates);
    for mut request in others {
        if let Body::LeaderAndIsr(topics) = &mut request.body {
            for topic in topics {
                for told in &mut topic.partitions {
                    told.is_new |= unborn.contains(&(topic.topic.clone(), told.partition));
                }
            }
        }
        queue.push_back(request);
    }
    queue
}

type Dying = (Option<TopicId>, BTreeMap<i32, UpdateMetadataPartition>);

fn gather(dying: &mut BTreeMap<TopicName, Dying>, update: &[ByTopic<UpdateMetadataPartition>]) {
    for topic in update {
        for told in &topic.partitions {
            if matches!(told.leadership, AnnouncedLeadership::DuringDelete(_)) {
                let entry = dying.entry(topic.topic.clone()).or_default();
                entry.0 = topic.topic_id;
                entry.1.insert(told.partition, told.clone());
            }
        }
    }
}

fn announcement(dying: BTreeMap<TopicName, Dying>, fresh: &[Request]) -> Option<Request> {
    let like = fresh.iter().find_map(|request| match &request.body {
        Body::UpdateMetadata { live_brokers, .. } => Some((request, live_brokers)),
        _ => None,
    });
    let (like, live_brokers) = like.filter(|_| !dying.is_empty())?;
    let topics = dying
        .into_iter()
        .map(|(topic, (topic_id, partitions))| ByTopic {
            topic,
            topic_id,
            partitions: partitions.into_values().collect(),
        });
    Some(Request {
        body: Body::UpdateMetadata {
            live_brokers: live_brokers.clone(),
            number: 0,
            topics: topics.collect(),
        },
        ..like.clone()
    })
}
