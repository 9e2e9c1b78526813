//! Clients that wait until new partitions are led, or others have other leaders, and brokers know it.
//!
//! Java answers as soon as the metadata cache of the controller's own broker knows the leaders; clients ask any broker next,
//! and find the topic unknown or the old leader there. A klamm answers when all registered brokers have acknowledged the UpdateMetadata, or a
//! second after the first did, so that one that hangs holds nobody up. Must never leave a client without an answer.
//! Upstream: `DelayedCreatePartitions.scala`, `DelayedElectLeader.scala`.

use super::KafkaController;
use crate::effect::{Answer, CreatedTopic, ElectionResult, GrownTopic, Incarnation, ReplyTo};
use crate::event::ControllerEvent;
use crate::machine::acknowledgement::{Announcement, Heard};
use crate::model::{ApiError, KafkaError, TopicName, TopicPartition};
use crate::port::{Brokers, Clock, Replies, Zk};

/// No timer is set for longer than this, whatever a client's timeout is: most are answered long before, and the timer stays.
const NEXT_LOOK_MS: u64 = 60_000;

/// A request whose answer is known but for whether it comes in time.
#[derive(Debug)]
pub(super) struct AwaitedLeaders {
    topics: Vec<Awaited>,
    answering: Answering,
    patience: Patience,
    reply_to: ReplyTo,
}

/// For how long somebody waits, and the timer that ends it. A client that is answered at the first look needs none.
#[derive(Debug)]
pub(super) struct Patience {
    due_at_ms: u64,
    /// When the timer that was set last rings.
    rings_at_ms: Option<u64>,
}

impl Patience {
    pub(super) fn new(timeout_ms: i32, now_ms: u64) -> Patience {
        let patience_ms = u64::try_from(timeout_ms).unwrap_or(0);
        Patience {
            due_at_ms: now_ms.saturating_add(patience_ms),
            rings_at_ms: None,
        }
    }

    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.due_at_ms <= now_ms
    }

    /// How long it is until the next look, unless a timer brings one by then; `announced`: what it may end before for.
    fn timer<'a>(
        &mut self,
        announced: impl Iterator<Item = &'a Announcement>,
        now_ms: u64,
    ) -> Option<u64> {
        let stragglers = announced.filter_map(Announcement::stragglers_due_at_ms);
        let at_the_latest = self.due_at_ms.min(now_ms.saturating_add(NEXT_LOOK_MS));
        let look_at_ms = stragglers.fold(at_the_latest, u64::min);
        let is_set = |rings_ms: u64| rings_ms > now_ms && rings_ms <= look_at_ms;
        if self.rings_at_ms.is_some_and(is_set) {
            return None;
        }
        self.rings_at_ms = Some(look_at_ms);
        Some(look_at_ms.saturating_sub(now_ms))
    }
}

/// What is to be answered.
#[derive(Debug)]
pub(super) enum Answering {
    CreateTopics(Vec<CreatedTopic>),
    CreatePartitions(Vec<GrownTopic>),
    /// Those that succeeded are waited for together.
    ElectLeaders(Vec<ElectionResult>),
}

/// One topic of a request, or all that was elected.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Once it is to be deleted nobody waits for it.
    topic: Option<TopicName>,
    /// Those that nobody knew before, or that have other leaders; none: there is nothing to wait for, or no more.
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
            topic: Some(topic),
            partitions,
            announced: None,
        }
    }

    /// Leaders that were just elected.
    pub(super) fn elected(results: &[ElectionResult]) -> Awaited {
        let elected = results.iter().filter(|(_, result)| result.is_ok());
        Awaited {
            topic: None,
            partitions: elected.map(|(partition, _)| partition.clone()).collect(),
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
            Answering::ElectLeaders(partitions) => {
                let elected = partitions.iter_mut().filter(|(_, result)| result.is_ok());
                elected.for_each(|(_, result)| *result = Err(error.clone()));
            }
        }
    }

    fn answer(self) -> Answer {
        match self {
            Answering::CreateTopics(topics) => Answer::CreateTopics(Ok(topics)),
            Answering::CreatePartitions(topics) => Answer::CreatePartitions(Ok(topics)),
            Answering::ElectLeaders(partitions) => Answer::ElectLeaders(Ok(partitions)),
        }
    }

    fn refusal(&self, error: KafkaError) -> Answer {
        match self {
            Answering::CreateTopics(_) => Answer::CreateTopics(Err(error)),
            Answering::CreatePartitions(_) => Answer::CreatePartitions(Err(error)),
            Answering::ElectLeaders(_) => Answer::ElectLeaders(Err(error)),
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
        self.awaited_leaders.push(AwaitedLeaders {
            topics: awaited,
            answering,
            patience: Patience::new(timeout_ms, self.ports.clock.now_ms()),
            reply_to,
        });
    }

    /// Sees to it that whoever goes on waiting is looked at in time.
    pub(super) fn look_again<'a>(
        &mut self,
        patience: &mut Patience,
        announced: impl Iterator<Item = &'a Announcement>,
        now_ms: u64,
    ) {
        if let Some(delay_ms) = patience.timer(announced, now_ms) {
            let due = ControllerEvent::AnswerDue;
            self.ports.clock.schedule(delay_ms, due);
        }
    }

    /// Answers whoever's partitions are known, and whoever does not want to wait any longer.
    pub(super) fn answer_awaited_leaders(&mut self) {
        if self.awaited_leaders.is_empty() {
            return;
        }
        self.forget_gone_incarnations();
        let now_ms = self.ports.clock.now_ms();
        for mut awaited in std::mem::take(&mut self.awaited_leaders) {
            let topics = awaited.topics.iter_mut();
            let standings: Vec<Standing> =
                topics.map(|topic| self.standing(topic, now_ms)).collect();
            let is_due = awaited.patience.is_over(now_ms);
            if standings.iter().any(|standing| *standing != Standing::Done) && !is_due {
                let topics = awaited.topics.iter();
                let announced = topics.filter_map(|topic| topic.announced.as_ref());
                self.look_again(&mut awaited.patience, announced, now_ms);
                self.awaited_leaders.push(awaited);
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

    /// What is done once stays so, and is not looked at again.
    fn standing(&self, awaited: &mut Awaited, now_ms: u64) -> Standing {
        let standing = self.look_at_standing(awaited, now_ms);
        if standing == Standing::Done {
            awaited.partitions = Vec::new();
            awaited.announced = None;
        }
        standing
    }

    fn look_at_standing(&self, awaited: &mut Awaited, now_ms: u64) -> Standing {
        if awaited.partitions.is_empty() {
            return Standing::Done;
        }
        let context = &self.context;
        let is_going = |topic: &TopicName| {
            context.topic(topic).is_some() && context.is_queued_for_deletion(topic)
        };
        if awaited.topic.as_ref().is_some_and(is_going) {
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
            Heard::BySome => Standing::KnownToSome,
        }
    }

    /// Who has heard of what had been sent when this was first asked.
    pub(super) fn who_has_heard(&self, announced: &mut Option<Announcement>, now_ms: u64) -> Heard {
        let acknowledgements = &self.acknowledgements;
        let announced = announced.get_or_insert_with(|| acknowledgements.announcement());
        announced.heard(acknowledgements, now_ms)
    }

    /// The role is gone: whoever waits asks the next controller, which finds the topics.
    pub(super) fn refuse_awaited_leaders(&mut self) {
        for awaited in std::mem::take(&mut self.awaited_leaders) {
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
