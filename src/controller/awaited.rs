//! Clients that wait until new partitions are led and brokers know it.
//!
//! Java answers as soon as the metadata cache of the controller's own broker knows the leaders; clients ask any broker next,
//! and find the topic unknown there. A klamm answers when all registered brokers have acknowledged the UpdateMetadata, or a
//! second after the first did, so that one that hangs holds nobody up. Must never leave a client without an answer.
//! Upstream: `DelayedCreatePartitions.scala`.

use super::KafkaController;
use crate::effect::{Answer, CreatedTopic, GrownTopic, Incarnation, ReplyTo};
use crate::event::ControllerEvent;
use crate::machine::acknowledgement::{Announcement, Heard, STRAGGLERS_MS};
use crate::model::{ApiError, KafkaError, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk};

/// A request whose answer is known but for whether it comes in time.
#[derive(Debug)]
pub(super) struct AwaitedCreation {
    topics: Vec<Awaited>,
    answering: Answering,
    due_at_ms: u64,
    reply_to: ReplyTo,
}

/// What is to be answered.
#[derive(Debug)]
pub(super) enum Answering {
    CreateTopics(Vec<CreatedTopic>),
    CreatePartitions(Vec<GrownTopic>),
}

/// One topic of a request.
#[derive(Debug)]
pub(super) struct Awaited {
    topic: TopicName,
    /// Those that nobody knew before; none: there is nothing to wait for.
    partitions: Vec<TopicPartition>,
    /// What was said of them once all were led.
    announced: Option<Announcement>,
}

/// Where one topic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Clients find it.
    Done,
    /// Some brokers know it, others may.
    KnownToSome,
    /// No broker has acknowledged it yet.
    Unknown,
    /// Not all of it is led.
    Leaderless,
}

impl Awaited {
    pub(super) fn new(topic: TopicName, partitions: Vec<TopicPartition>) -> Awaited {
        Awaited {
            topic,
            partitions,
            announced: None,
        }
    }
}

impl Answering {
    /// Puts an error in the place of a topic's success.
    fn fail(&mut self, place: usize, error: ApiError) {
        match self {
            Answering::CreateTopics(topics) => {
                if let Some(topic) = topics.get_mut(place) {
                    topic.result = Err(error.about_topic(&topic.name));
                }
            }
            Answering::CreatePartitions(topics) => {
                if let Some((topic, result)) = topics.get_mut(place) {
                    *result = Err(error.about_topic(topic));
                }
            }
        }
    }

    fn answer(self) -> Answer {
        match self {
            Answering::CreateTopics(topics) => Answer::CreateTopics(Ok(topics)),
            Answering::CreatePartitions(topics) => Answer::CreatePartitions(Ok(topics)),
        }
    }

    fn refusal(&self, error: KafkaError) -> Answer {
        match self {
            Answering::CreateTopics(_) => Answer::CreateTopics(Err(error)),
            Answering::CreatePartitions(_) => Answer::CreatePartitions(Err(error)),
        }
    }
}

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Lets a client wait. `awaited` is in the order of `answering`.
    pub(super) fn await_leaders(
        &mut self,
        awaited: Vec<Awaited>,
        answering: Answering,
        timeout_ms: i32,
        reply_to: ReplyTo,
    ) {
        let patience_ms = u64::try_from(timeout_ms).unwrap_or(0);
        self.awaited_creations.push(AwaitedCreation {
            topics: awaited,
            answering,
            due_at_ms: self.ports.clock.now_ms().saturating_add(patience_ms),
            reply_to,
        });
        let due = ControllerEvent::AnswerDue;
        self.ports.clock.schedule(patience_ms, due);
    }

    /// Answers whoever's partitions are known, and whoever does not want to wait any longer.
    pub(super) fn answer_awaited_creations(&mut self) {
        if self.awaited_creations.is_empty() {
            return;
        }
        self.forget_gone_incarnations();
        let now_ms = self.ports.clock.now_ms();
        for mut awaited in std::mem::take(&mut self.awaited_creations) {
            let topics = awaited.topics.iter_mut();
            let standings: Vec<Standing> =
                topics.map(|topic| self.standing(topic, now_ms)).collect();
            let is_due = awaited.due_at_ms <= now_ms;
            if standings.iter().any(|standing| *standing != Standing::Done) && !is_due {
                self.awaited_creations.push(awaited);
                continue;
            }
            for (place, standing) in standings.into_iter().enumerate() {
                if let Some(why) = too_late(standing) {
                    let error = ApiError::new(KafkaError::REQUEST_TIMED_OUT, why);
                    awaited.answering.fail(place, error);
                }
            }
            self.answer(awaited.reply_to, awaited.answering.answer());
        }
    }

    /// Who is gone need not acknowledge anything.
    pub(super) fn forget_gone_incarnations(&mut self) {
        let context = &self.context;
        let is_registered = |of: Incarnation| {
            let registration = context.registration(of.broker);
            registration.is_some_and(|registration| registration.epoch == of.epoch)
        };
        self.acknowledgements.retain(is_registered);
    }

    fn standing(&mut self, awaited: &mut Awaited, now_ms: u64) -> Standing {
        let context = &self.context;
        let is_going = context.topic(&awaited.topic).is_some()
            && context.is_queued_for_deletion(&awaited.topic);
        if awaited.partitions.is_empty() || is_going {
            return Standing::Done;
        }
        let is_led = |partition: &TopicPartition| {
            let state = context.leadership(partition);
            state.is_some_and(|state| state.leader.0 >= 0)
        };
        if awaited.announced.is_none() && !awaited.partitions.iter().all(is_led) {
            return Standing::Leaderless;
        }
        match self.who_has_heard(&mut awaited.announced, now_ms) {
            Heard::Enough => Standing::Done,
            Heard::ByNobody => Standing::Unknown,
            Heard::BySome | Heard::ByTheFirst => Standing::KnownToSome,
        }
    }

    /// Who has heard of what had been sent when this was first asked; it is looked at again when stragglers had their time.
    pub(super) fn who_has_heard(
        &mut self,
        announced: &mut Option<Announcement>,
        now_ms: u64,
    ) -> Heard {
        let acknowledgements = &self.acknowledgements;
        let announced = announced.get_or_insert_with(|| acknowledgements.announcement());
        let heard = announced.heard(acknowledgements, now_ms);
        if heard == Heard::ByTheFirst {
            let due = ControllerEvent::AnswerDue;
            self.ports.clock.schedule(STRAGGLERS_MS, due);
        }
        heard
    }

    /// The role is gone: whoever waits asks the next controller, which finds the topics.
    pub(super) fn refuse_awaited_creations(&mut self) {
        for awaited in std::mem::take(&mut self.awaited_creations) {
            let refusal = awaited.answering.refusal(KafkaError::NOT_CONTROLLER);
            self.answer(awaited.reply_to, refusal);
        }
    }
}

/// Why a client that waits no longer can't be told that all is well. Where some brokers know the topic it is: Java asks for
/// one only.
fn too_late(standing: Standing) -> Option<&'static str> {
    match standing {
        Standing::Done | Standing::KnownToSome => None,
        Standing::Unknown => Some("it is written, and no broker has acknowledged it yet"),
        Standing::Leaderless => Some(
            "it is written, and some of its partitions have no leader yet; none of their brokers may be live",
        ),
    }
}
