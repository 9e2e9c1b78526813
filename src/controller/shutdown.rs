//! ControlledShutdown: a broker leaves gently, in one event; what it led is led by others before it is let go.
//!
//! Upstream: `doControlledShutdown`. Unlike there the answer waits, for a moment, until the leaving broker itself has heard
//! that it leads no more: one that goes on leading while others do already may acknowledge records (acks=1) that nobody
//! will ever read.

use tracing::info;

use super::{KafkaController, Stop, log};
use crate::effect::{Answer, Incarnation, PartitionErrors, ReplicaDisposal, ReplyTo};
use crate::event::ControllerEvent;
use crate::machine::election::ElectionStrategy;
use crate::machine::partition::OnlineChange;
use crate::machine::replica::OfflineChange;
use crate::machine::request_batch::ControllerBrokerRequestBatch;
use crate::machine::shutdown::{self, ShutdownPlan};
use crate::model::{BrokerEpoch, BrokerId, KafkaError, Replica, TopicPartition};
use crate::planted::planted;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

/// How long a leaving broker may take to hear that it leads no more: one that answers nothing is let go all the same.
const DEPARTURE_PATIENCE_MS: u64 = 1_000;

/// A broker that is to be let go as soon as it has heard that it leads no more.
#[derive(Debug)]
pub(super) struct Departure {
    broker: Incarnation,
    /// One of the partitions that it gave up: all of them are told to it in one request.
    given_up: TopicPartition,
    /// What it still leads.
    remaining: Vec<TopicPartition>,
    reply_to: ReplyTo,
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    pub(super) async fn process_controlled_shutdown(
        &mut self,
        broker: BrokerId,
        broker_epoch: Option<BrokerEpoch>,
        reply_to: ReplyTo,
    ) -> Result<Option<Stop>, ZkFault> {
        if self.is_known_by_an_earlier_life(broker, broker_epoch) {
            // It registered anew so lately that nobody has said so yet: what it is told now must hold for that life of it.
            // Whatever comes of the look, the broker asks again where it fails.
            let looked = self.process_broker_change().await;
            if !matches!(looked, Ok(None)) {
                let refusal = Err(KafkaError::STALE_CONTROLLER_EPOCH);
                self.answer(reply_to, Answer::ControlledShutdown(refusal));
                return looked;
            }
        }
        if self.is_known_by_an_earlier_life(broker, broker_epoch) {
            // The server that klamm asked lags behind.
            let refusal = Err(KafkaError::STALE_BROKER_EPOCH);
            self.answer(reply_to, Answer::ControlledShutdown(refusal));
            return Ok(None);
        }
        if let Err(error) = shutdown::admit(&self.context, broker, broker_epoch) {
            info!(target: log::CONTROLLER, "broker {broker} asked to shut down and was refused: {error}");
            self.answer(reply_to, Answer::ControlledShutdown(Err(error)));
            return Ok(None);
        }
        info!(target: log::CONTROLLER, "Shutting down broker {broker}");
        // Before anything else, so that nothing new is given to it.
        self.context.begin_shutting_down(broker);
        let plan = shutdown::plan(&self.context, broker);
        let led = plan.led.clone();
        match self.move_away_from(broker, plan).await {
            Ok(remaining) => {
                let moving = self.moving();
                self.review_reassignments(&moving);
                self.let_go(broker, &led, remaining, reply_to);
            }
            Err(fault) => {
                let refusal = Err(KafkaError::STALE_CONTROLLER_EPOCH);
                self.answer(reply_to, Answer::ControlledShutdown(refusal));
                return Err(fault);
            }
        }
        Ok(None)
    }

    fn is_known_by_an_earlier_life(&self, broker: BrokerId, asks: Option<BrokerEpoch>) -> bool {
        let known = self.context.registration(broker).map(|known| known.epoch);
        known.zip(asks).is_some_and(|(known, asks)| known < asks)
    }

    /// Answers, at once if the broker led nothing that others lead now, else as soon as it has heard of it.
    fn let_go(
        &mut self,
        broker: BrokerId,
        led: &[TopicPartition],
        remaining: Vec<TopicPartition>,
        reply_to: ReplyTo,
    ) {
        let given_up = led
            .iter()
            .find(|partition| remaining.binary_search(partition).is_err());
        let registration = self.context.registration(broker);
        let (Some(given_up), Some(registration)) = (given_up, registration) else {
            let answer = Answer::ControlledShutdown(Ok(remaining));
            return self.answer(reply_to, answer);
        };
        let incarnation = Incarnation {
            broker,
            epoch: registration.epoch,
        };
        self.departures.push(Departure {
            broker: incarnation,
            given_up: given_up.clone(),
            remaining,
            reply_to,
        });
        let due = ControllerEvent::DepartureDue(incarnation);
        self.ports.clock.schedule(DEPARTURE_PATIENCE_MS, due);
    }

    /// A broker answered LeaderAndIsr: if that told it to stop leading, it may go.
    pub(super) fn let_go_if_told(&mut self, from: Incarnation, response: &PartitionErrors) {
        let told: Vec<TopicPartition> = self
            .departures
            .iter()
            .filter(|departure| departure.broker == from)
            .map(|departure| departure.given_up.clone())
            .filter(|given_up| {
                !response.error.is_none()
                    || response.partitions.iter().any(|(topic, partition, _)| {
                        *partition == given_up.partition
                            && self.resolve(topic).as_ref() == Some(&given_up.topic)
                    })
            })
            .collect();
        self.answer_departures(|departure| {
            departure.broker == from && told.contains(&departure.given_up)
        });
    }

    /// The broker had time enough to hear of it.
    pub(super) fn process_departure_due(&mut self, of: Incarnation) {
        self.answer_departures(|departure| departure.broker == of);
    }

    fn answer_departures(&mut self, may_go: impl Fn(&Departure) -> bool) {
        let all = std::mem::take(&mut self.departures);
        let (going, staying) = all.into_iter().partition(may_go);
        self.departures = staying;
        let going: Vec<Departure> = going;
        for departure in going {
            let answer = Answer::ControlledShutdown(Ok(departure.remaining));
            self.answer(departure.reply_to, answer);
        }
    }

    /// The role is gone: whoever waits asks the next controller.
    pub(super) fn refuse_departures(&mut self) {
        for departure in std::mem::take(&mut self.departures) {
            let refusal = Err(KafkaError::STALE_CONTROLLER_EPOCH);
            self.answer(departure.reply_to, Answer::ControlledShutdown(refusal));
        }
    }

    /// Carries out the plan; returns what the broker still leads.
    async fn move_away_from(
        &mut self,
        broker: BrokerId,
        plan: ShutdownPlan,
    ) -> Result<Vec<TopicPartition>, ZkFault> {
        let followed: Vec<Replica> = plan
            .followed
            .into_iter()
            .map(|partition| Replica { partition, broker })
            .collect();
        // It stops fetching before the others hear that it left their in-sync sets, or it would rejoin at once.
        let mut batch = ControllerBrokerRequestBatch::new();
        for replica in &followed {
            batch.add_stop_replica(&self.context, replica, ReplicaDisposal::Keep);
        }
        self.send(batch);
        // Both kinds in one round of writes: the leaving broker waits for the answer, and each round costs it a flush of
        // ZooKeeper's disk. No partition is in both, so neither decision depends on the other.
        let led = OnlineChange::new(plan.led, ElectionStrategy::ControlledShutdown);
        self.change_both_and_send(led, OfflineChange::new(followed))
            .await?;
        let remaining = planted!(
            LetGoTooEarly,
            Vec::new(),
            shutdown::remaining(&self.context, broker)
        );
        if !remaining.is_empty() {
            info!(
                target: log::CONTROLLER,
                "broker {broker} still leads {} partitions that nobody else can lead, {} first: no other in-sync replica is online",
                remaining.len(), remaining[0]
            );
        }
        Ok(remaining)
    }
}
