//! One world and all who act in it, moved from one moment to the next at which somebody has something to do.
//!
//! Who acts first at a moment is drawn. Must never decide anything for a controller, and must never look at anything but
//! the story: the same one gives the same run.

use std::collections::BTreeMap;

use klamm::controller::ControllerSettings;
use klamm::effect::Answer;
use klamm::model::{BrokerId, ControllerEpoch, TopicPartition};

use super::act::{Act, Kind};
use super::checks::Checks;
use super::climate::{BrokerClimate, Climate};
use super::letters::{Letter, MakeEvent, Place, Sender, says_made};
use super::life::Life;
use super::rival::Rival;
use super::scenario::Scenario;
use super::trace::Trace;
use crate::broker::Process;
use crate::chance::{Chance, Span};
use crate::klamm::Progress;
use crate::mishap::Mishaps;
use crate::pace::Pace;
use crate::world::{World, protocol};
use crate::zookeeper::SessionId;

/// Steps at one moment after which a world is taken for one in which time stands still.
const STEPS_AT_ONCE_MAX: u32 = 100_000;

/// What was begun and goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// A klamm's process goes on.
    ResumeKlamm(usize),
    /// A session that nobody keeps alive times out.
    EndSession(SessionId),
    /// A klamm that hung gets through again, and hears that its session is over if it is.
    HearOfEnd(SessionId),
    /// A klamm's process starts.
    StartKlamm(usize),
    /// A broker's process goes on.
    ResumeBroker(i32),
    /// A broker's process starts.
    StartBroker(i32),
    /// The session of a broker that hangs or is gone times out.
    ExpireBrokerSession(i32),
    /// A broker whose session ended registers again.
    RegisterBroker(i32),
    /// A broker asks once more to be let go.
    AskToLeave(i32, u32),
    /// The hold on all klamms is taken away.
    LiftHold,
    /// A topic's node is mended.
    MendTopic(String, Vec<u8>),
    /// The rival doesn't want the role any more.
    RivalGivesUp,
}

/// See the file's comment.
pub struct Simulator {
    pub(super) world: World,
    pub(super) climate: Climate,
    pub(super) seed: u64,
    /// Draws for what belongs to nobody else.
    pub(super) chance: Chance,
    pub(super) network: Chance,
    acts: Vec<Act>,
    next_act: usize,
    deeds: BTreeMap<(u64, u64), Deed>,
    deeds_planned: u64,
    pub(super) letters: Vec<Letter>,
    /// Per klamm: how many processes it had, and whether it hangs.
    pub(super) processes: Vec<u64>,
    pub(super) hanging: Vec<bool>,
    ticks: BTreeMap<BrokerId, u64>,
    follow_at_ms: Vec<u64>,
    /// The brokers' life; nobody's while it is being lived.
    pub(super) life: Option<Life>,
    pub(super) rival: Rival,
    pub(super) checks: Checks,
    pub(super) trace: Trace,
    /// What chance did to them.
    pub(super) mishaps: Mishaps,
    /// Faults stopped.
    pub(super) is_calm: bool,
    /// Who stays dead although they did.
    pub(super) away: Option<BrokerId>,
    /// What came back to whoever asked a world at rest; `Some(None)`: the connection ended.
    pub(super) heard_afresh: Option<Option<Answer>>,
}

impl Simulator {
    /// The world of a story, before anything happened.
    pub fn new(scenario: &Scenario, trace: Trace) -> Simulator {
        let climate = scenario.climate.clone();
        let mut world = World::empty().watching(climate.watches);
        world.zookeeper.keep_log();
        world
            .zookeeper
            .set_request_limit_bytes(climate.request_limit_bytes);
        for broker in &climate.brokers {
            world.add_broker(broker.id, &broker.release, &broker.protocol);
            world.start_broker(broker.id);
        }
        let followers = climate.lag_ms.map_or(0, |_| 2);
        for _ in 0..followers {
            world.zookeeper.add_follower();
        }
        let ids = climate.brokers.iter().map(|broker| BrokerId(broker.id));
        let mishaps = Mishaps::default();
        let actor = |name| Chance::of(scenario.seed, name).counting(&mishaps);
        let mut simulator = Simulator {
            ticks: ids.map(|id| (id, 0)).collect(),
            follow_at_ms: vec![0; followers],
            chance: actor("world"),
            network: actor("network"),
            acts: scenario.acts.clone(),
            next_act: 0,
            deeds: BTreeMap::new(),
            deeds_planned: 0,
            letters: Vec::new(),
            processes: vec![0; climate.klamms],
            hanging: vec![false; climate.klamms],
            life: Some(Life::new(climate.habits(), actor("brokers"))),
            rival: a_rival(&world, &climate, actor("rival")),
            checks: Checks::default(),
            trace,
            mishaps: mishaps.clone(),
            is_calm: false,
            away: None,
            heard_afresh: None,
            seed: scenario.seed,
            world,
            climate,
        };
        for index in 0..simulator.climate.klamms {
            simulator.start_klamm(index);
        }
        simulator
    }

    /// How long faults go on.
    pub fn safety_ms(&self) -> u64 {
        self.climate.safety_ms
    }

    /// What happened.
    pub fn into_trace(mut self) -> Trace {
        for (mishap, times) in self.mishaps.counts().filter(|(_, times)| *times > 0) {
            self.trace.count_by(mishap.words(), times);
        }
        self.trace
    }

    /// The time.
    pub fn now_ms(&self) -> u64 {
        self.world.time.now_ms()
    }

    /// Lets everything happen that is due until then.
    pub fn run_until(&mut self, until_ms: u64) {
        let mut steps_at_once = 0;
        while let Some(due_ms) = self.next_due_ms().filter(|due_ms| *due_ms <= until_ms) {
            steps_at_once = match due_ms > self.now_ms() {
                true => 0,
                false => steps_at_once + 1,
            };
            if steps_at_once > STEPS_AT_ONCE_MAX {
                let (who, now_ms) = (self.who_is_due(), self.now_ms());
                panic!("nothing but {who} happens at {now_ms} ms");
            }
            self.world.time.move_to(due_ms);
            self.run_what_is_due();
        }
        self.world.time.move_to(until_ms);
    }

    /// Whose turn it is at this moment, in words.
    fn who_is_due(&self) -> String {
        let is_due = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= self.now_ms());
        let mut who = Vec::new();
        for (index, klamm) in self.world.klamms.iter().enumerate() {
            if is_due(self.klamm_due_ms(index)) {
                let event = klamm.busy_with().map(|event| format!("{event:?}"));
                let event = event.unwrap_or_else(|| format!("{} events", klamm.queue.len()));
                who.push(format!("klamm {} with {event}", klamm.id));
            }
            if !self.hanging[index] && is_due(klamm.channels.next_due_ms()) {
                who.push(format!("the channels of klamm {}", klamm.id));
            }
        }
        if is_due(self.rival.due_ms()) || is_due(self.rival.channels().next_due_ms()) {
            who.push("the rival".to_owned());
        }
        if is_due(self.deeds.keys().next().map(|(at_ms, _)| *at_ms)) {
            who.push("what was begun".to_owned());
        }
        if self.letters.iter().any(|letter| is_due(letter.due_ms)) {
            who.push("letters".to_owned());
        }
        who.join(", ")
    }

    /// Plans what goes on by itself after a while.
    pub(super) fn plan(&mut self, after_ms: u64, deed: Deed) {
        self.deeds_planned += 1;
        let key = (self.now_ms() + after_ms, self.deeds_planned);
        self.deeds.insert(key, deed);
    }

    /// Forgets what was planned.
    pub(super) fn forget_deeds(&mut self, which: impl Fn(&Deed) -> bool) {
        self.deeds.retain(|_, deed| !which(deed));
    }

    /// What was planned, at once.
    pub(super) fn hasten_deeds(&mut self) {
        let now_ms = self.now_ms();
        for ((_, number), deed) in std::mem::take(&mut self.deeds) {
            self.deeds.insert((now_ms, number), deed);
        }
    }

    /// No more acts.
    pub(super) fn end_acts(&mut self) {
        self.next_act = self.acts.len();
    }

    fn next_due_ms(&self) -> Option<u64> {
        let act = self.acts.get(self.next_act).map(|act| act.at_ms);
        let deed = self.deeds.keys().next().map(|(at_ms, _)| *at_ms);
        let letters = self.letters.iter().filter_map(|letter| letter.due_ms);
        let klamms = (0..self.climate.klamms).filter_map(|index| self.klamm_due_ms(index));
        let klamms_here = self.world.klamms.iter().zip(&self.hanging);
        let channels = klamms_here
            .filter(|(_, hangs)| !**hangs)
            .filter_map(|(klamm, _)| klamm.channels.next_due_ms());
        let rival = self.rival.due_ms();
        let rivals_channels = self.rival.channels().next_due_ms();
        let ticks = self.ticks.values().copied();
        let follow = self.follow_at_ms.iter().enumerate();
        let follow = follow.filter(|(index, _)| self.world.zookeeper.lag_of(index + 1) > 0);
        let follow = follow.map(|(_, at_ms)| *at_ms);
        let all = letters
            .chain(klamms)
            .chain(channels)
            .chain(ticks)
            .chain(follow);
        all.chain(act)
            .chain(deed)
            .chain(rival)
            .chain(rivals_channels)
            .min()
    }

    /// When a klamm has something to do.
    fn klamm_due_ms(&self, index: usize) -> Option<u64> {
        let klamm = self.world.klamms.get(index)?;
        if !klamm.runs() || self.hanging[index] {
            return None;
        }
        let works = match klamm.is_busy() {
            true => klamm.zk().fate().pace.due_ms(),
            false if klamm.queue.is_empty() => klamm.queue.next_due_ms(),
            false => Some(0),
        };
        works.into_iter().chain(klamm.zk().outage_ends_ms()).min()
    }

    /// Everybody who has something to do at this moment does it, in an order of chance.
    fn run_what_is_due(&mut self) {
        let now_ms = self.now_ms();
        let mut turns: Vec<Turn> = vec![
            Turn::Acts,
            Turn::Letters,
            Turn::Channels,
            Turn::Followers,
            Turn::Rival,
        ];
        turns.extend((0..self.climate.klamms).map(Turn::Klamm));
        turns.extend(self.ticks.keys().copied().map(Turn::Broker));
        let turns = self.chance.some_of(&turns, turns.len());
        for turn in turns {
            match turn {
                Turn::Acts => self.run_acts(now_ms),
                Turn::Letters => self.deliver_letters(now_ms),
                Turn::Channels => self.travel(now_ms),
                Turn::Followers => self.follow(now_ms),
                Turn::Rival => self.drive_rival(now_ms),
                Turn::Klamm(index) => self.drive_klamm(index),
                Turn::Broker(id) => self.tick_broker(id, now_ms),
            }
            self.check();
        }
    }

    fn run_acts(&mut self, now_ms: u64) {
        while let Some(act) = self.acts.get(self.next_act).copied() {
            if act.at_ms > now_ms {
                break;
            }
            self.next_act += 1;
            self.trace.line(now_ms, format_args!("act {}", act.kind));
            let chance = Chance::of(act.draw, act.kind.word());
            if self.apply(act.kind, &chance) {
                self.trace.count(act.kind.word());
            } else {
                self.trace
                    .line(now_ms, format_args!("  nothing to do it to"));
            }
            self.check();
        }
        while let Some(entry) = self.deeds.first_entry() {
            if entry.key().0 > now_ms {
                break;
            }
            let deed = entry.remove();
            self.trace.line(now_ms, format_args!("then {deed:?}"));
            self.do_deed(deed);
            self.check();
        }
    }

    /// Tries an act. `false`: there was nobody to whom it could be done.
    fn apply(&mut self, kind: Kind, chance: &Chance) -> bool {
        self.apply_to_klamms(kind, chance)
            .or_else(|| self.apply_to_brokers(kind, chance))
            .unwrap_or_else(|| self.apply_as_operator(kind, chance))
    }

    fn do_deed(&mut self, deed: Deed) {
        match deed {
            Deed::ResumeKlamm(index) => self.resume_klamm(index),
            Deed::EndSession(id) => self.world.zookeeper.expire_unheard(id),
            Deed::HearOfEnd(id) => self.world.zookeeper.tell_unaware(id),
            Deed::StartKlamm(index) => self.start_klamm(index),
            Deed::ResumeBroker(id) => self.resume_broker(id),
            Deed::StartBroker(id) => self.start_broker(id),
            Deed::ExpireBrokerSession(id) => self.expire_broker_session(id),
            Deed::RegisterBroker(id) => self.register_broker(id),
            Deed::AskToLeave(id, times) => self.ask_to_leave(id, times),
            Deed::LiftHold => self.world.zookeeper.uproot(klamm::zk::paths::KLAMM_HOLD),
            Deed::MendTopic(name, data) => self.mend_topic(&name, &data),
            Deed::RivalGivesUp => self.rival_gives_up(),
        }
    }

    fn drive_rival(&mut self, now_ms: u64) {
        if self.rival.due_ms().is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        let held = self.rival.holds_role();
        self.rival.poll();
        if self.rival.holds_role() != held {
            let now = if held {
                "is out of office"
            } else {
                "is in office"
            };
            self.trace.line(now_ms, format_args!("the rival {now}"));
            self.trace.count(if held {
                "terms of the rival that ended"
            } else {
                "terms of the rival"
            });
        }
    }

    fn travel(&mut self, now_ms: u64) {
        let Simulator {
            world,
            rival,
            climate,
            network,
            trace,
            checks,
            hanging,
            ..
        } = self;
        // A process that hangs sends nothing, and what it had yet to send goes out when it is back.
        let klamms = world.klamms.iter().zip(hanging.iter());
        let klamms = klamms.filter(|(_, hangs)| !**hangs);
        let senders = klamms.map(|(klamm, _)| ("requests that brokers took", &klamm.channels));
        let rival = ("requests of the rival that brokers took", rival.channels());
        for (what, channels) in senders.chain([rival]) {
            for (id, request, reply) in channels.travel(now_ms, &climate.network, network) {
                trace.count(what);
                checks.took(id, &request);
                if trace.is_kept() {
                    let (letter, said) = (request.body.letter(), request.body.summary());
                    let epoch = request.controller_epoch;
                    trace.line(
                        now_ms,
                        format_args!("broker {id} took {letter} of term {epoch}: {said}: {reply}"),
                    );
                }
            }
        }
    }

    fn follow(&mut self, now_ms: u64) {
        let Some(lag_ms) = self.climate.lag_ms else {
            return;
        };
        for index in 0..self.follow_at_ms.len() {
            if self.follow_at_ms[index] > now_ms {
                continue;
            }
            let behind = self.world.zookeeper.lag_of(index + 1);
            if behind > 0 {
                self.world.zookeeper.follow(index + 1, behind);
                self.follow_at_ms[index] = now_ms + self.chance.within(lag_ms).max(1);
                self.trace
                    .count_by("transactions that followers applied late", behind as u64);
            }
        }
    }

    fn drive_klamm(&mut self, index: usize) {
        let Some(klamm) = self.world.klamms.get_mut(index) else {
            return;
        };
        if self.hanging[index] || !klamm.runs() {
            return;
        }
        let (id, now_ms) = (klamm.id, self.world.time.now_ms());
        if klamm.zk().outage_ends_ms().is_some_and(|at| at <= now_ms) {
            klamm.zk().end_outage();
            self.trace
                .line(now_ms, format_args!("klamm {id} gets through again"));
        }
        let is_due = !klamm.is_busy()
            || klamm
                .zk()
                .fate()
                .pace
                .due_ms()
                .is_some_and(|at| at <= now_ms);
        if !is_due {
            return;
        }
        let was_busy = klamm.is_busy();
        let progress = klamm.drive();
        let stopped = klamm.stopped().cloned();
        if !was_busy && progress == Progress::Waits && self.trace.is_kept() {
            let event = klamm.busy_with().map(|event| format!("{event:?}"));
            let event = event.unwrap_or_default();
            self.trace.line(now_ms, format_args!("klamm {id}: {event}"));
        }
        if progress == Progress::Done {
            self.trace.count("events that klamms processed");
        }
        self.collect_answers(index);
        if let Some(stopped) = stopped {
            self.trace
                .line(now_ms, format_args!("klamm {id} ends: {stopped}"));
            self.trace.count("klamms that ended by themselves");
            let after_ms = self.chance.within(Span::new(200, 4_000));
            self.plan(after_ms, Deed::StartKlamm(index));
        }
    }

    fn tick_broker(&mut self, id: BrokerId, now_ms: u64) {
        if self.ticks.get(&id).is_none_or(|at_ms| *at_ms > now_ms) {
            return;
        }
        let next_ms = now_ms + self.chance.within(self.climate.broker_tick_ms).max(1);
        self.ticks.insert(id, next_ms);
        let runs = |broker: &crate::broker::SimBroker| broker.process == Process::Running;
        if self.world.broker(id.0, runs) {
            self.look_after_replicas(id);
        }
    }

    /// What happened since this was last called is looked at from outside.
    fn check(&mut self) {
        self.checks.see(&self.world, &mut self.trace);
    }

    // --- letters

    /// Somebody writes to a klamm. `false`: its process doesn't run.
    pub(super) fn write_to(
        &mut self,
        index: usize,
        sender: Sender,
        about: String,
        event: MakeEvent,
    ) -> bool {
        let runs = self
            .world
            .klamms
            .get(index)
            .is_some_and(|klamm| klamm.runs());
        if !runs {
            return false;
        }
        let now_ms = self.now_ms();
        self.trace.line(
            now_ms,
            format_args!("  asks klamm {}: {about}", self.world.klamms[index].id),
        );
        self.letters.push(Letter {
            about,
            sender,
            to: (index, self.processes[index]),
            place: Place::Going(event),
            due_ms: Some(now_ms + self.network.within(self.climate.network.latency_ms)),
        });
        true
    }

    fn deliver_letters(&mut self, now_ms: u64) {
        let letters = std::mem::take(&mut self.letters);
        let (due, waiting): (Vec<_>, Vec<_>) = letters
            .into_iter()
            .partition(|letter| letter.due_ms.is_some_and(|at_ms| at_ms <= now_ms));
        self.letters = waiting;
        for letter in due {
            self.deliver(letter);
        }
    }

    fn deliver(&mut self, mut letter: Letter) {
        let (index, process) = letter.to;
        let is_same = self.processes[index] == process;
        match letter.place {
            Place::Going(event) => {
                let klamm = &self.world.klamms[index];
                if is_same && klamm.runs() {
                    let slot = klamm.open_slot();
                    klamm.queue.put(event(slot));
                    letter.place = Place::Waiting(slot);
                    letter.due_ms = None;
                } else {
                    letter.place = Place::Coming(None);
                }
                self.letters.push(letter);
            }
            Place::Waiting(_) => self.letters.push(letter),
            Place::Coming(answer) => {
                self.hear_answer(letter.sender, &letter.about, answer, index);
            }
        }
    }

    /// What a klamm has answered goes on its way back; what it never will answer, too.
    pub(super) fn collect_answers(&mut self, index: usize) {
        let now_ms = self.now_ms();
        let latency_ms = self.climate.network.latency_ms;
        let klamm = &self.world.klamms[index];
        let (replies, runs) = (klamm.replies.clone(), klamm.runs());
        for letter in &mut self.letters {
            let (to, process) = letter.to;
            let Place::Waiting(slot) = letter.place else {
                continue;
            };
            if to != index {
                continue;
            }
            let is_same = self.processes[index] == process;
            let answer = is_same.then(|| replies.answer_to(slot)).flatten();
            if answer.is_some() || !is_same || !runs {
                letter.place = Place::Coming(answer);
                letter.due_ms = Some(now_ms + self.network.within(latency_ms));
            }
        }
    }

    fn hear_answer(&mut self, sender: Sender, about: &str, answer: Option<Answer>, index: usize) {
        let now_ms = self.now_ms();
        match &answer {
            Some(answer) => {
                self.trace.count("requests that were answered");
                self.trace
                    .line(now_ms, format_args!("answered {about}: {answer:?}"));
            }
            None => {
                self.trace.count("requests whose connection ended");
                self.trace
                    .line(now_ms, format_args!("no answer to {about}"));
            }
        }
        if let Some(Answer::AllocateProducerIds(Ok(block))) = &answer {
            self.checks.producer_ids_were_given(block);
        }
        match sender {
            Sender::Client => {}
            Sender::Afresh => self.heard_afresh = Some(answer),
            Sender::IsrChange(broker, starts) => self.hear_isr_answer(broker, starts, answer),
            Sender::Leaving(broker, times, epoch) => {
                let is_same = self.world.broker(broker.0, |broker| broker.epoch) == epoch;
                let by = is_same.then_some(index);
                self.hear_leave_answer(broker, times, answer, by);
            }
            Sender::Making {
                topic,
                count,
                times_gone,
            } => {
                if answer.as_ref().is_some_and(says_made) {
                    let Simulator { checks, world, .. } = self;
                    checks.topic_was_said_to_be_there(world, &topic, count, times_gone);
                }
            }
            Sender::Deleting(topic, made_at) => {
                let is_done = match &answer {
                    Some(Answer::DeleteTopics(Ok(said))) => {
                        said.iter().all(|topic| topic.result.is_ok())
                    }
                    _ => false,
                };
                // A later controller tells brokers anew, in its own time.
                if is_done && self.klamm_in_office() == Some(index) {
                    self.checks
                        .topic_was_said_to_be_gone(&self.world, &topic, made_at);
                }
            }
        }
    }

    // --- who is who

    /// The klamm that a broker takes for the controller.
    pub(super) fn controller_known_to(&self, id: BrokerId) -> Option<usize> {
        let epoch = self.world.broker(id.0, |broker| broker.controller_epoch);
        let controller = self.checks.controller_of(ControllerEpoch(epoch.0))?;
        self.klamm_index(controller)
    }

    /// The place of a klamm among the others.
    pub(super) fn klamm_index(&self, id: BrokerId) -> Option<usize> {
        self.world.klamms.iter().position(|klamm| klamm.id == id)
    }

    /// The klamm that holds `/controller`, if one does.
    pub(super) fn klamm_in_office(&self) -> Option<usize> {
        let id = self.world.controller()?;
        self.klamm_index(BrokerId(id))
    }

    /// All partitions that topics' nodes name.
    pub(super) fn partitions(&self) -> Vec<TopicPartition> {
        let names = self.world.zookeeper.look_children(klamm::zk::paths::TOPICS);
        let of_topic = |name: String| {
            let topic = self.world.readable_topic(&name);
            let indexes = topic
                .into_iter()
                .flat_map(|topic| topic.partitions.into_keys());
            let name = klamm::model::TopicName::new(&name);
            indexes
                .map(move |index| TopicPartition::new(&name, index))
                .collect::<Vec<_>>()
        };
        names.into_iter().flat_map(of_topic).collect()
    }

    pub(super) fn settings(&self, index: usize) -> ControllerSettings {
        super::klamms::settings(&self.climate, index)
    }
}

/// The controller of one of the brokers.
fn a_rival(world: &World, climate: &Climate, chance: Chance) -> Rival {
    let lives_in = chance.pick(&climate.brokers);
    let lives_in = lives_in.cloned().unwrap_or_else(|| BrokerClimate {
        id: 1,
        release: climate.protocol.clone(),
        protocol: climate.protocol.clone(),
    });
    let pace = Pace::drawn(&world.time, chance, climate.zookeeper_latency_ms);
    Rival::new(
        BrokerId(lives_in.id),
        protocol(&lives_in.release),
        &world.cluster,
        &world.zookeeper,
        &world.time,
        pace,
    )
}

/// Who may have something to do at a moment.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Acts,
    Letters,
    Channels,
    Followers,
    Rival,
    Klamm(usize),
    Broker(BrokerId),
}

#[cfg(test)]
mod tests {
    use klamm::effect::ReplyTo;

    use super::*;

    #[test]
    #[should_panic(expected = "nothing but letters happens at 0 ms")]
    fn a_world_in_which_time_stands_still_says_who_holds_it_up() {
        let mut simulator = Simulator::new(&Scenario::of(1), Trace::default());
        // Whoever waits for an answer has nothing to do before it comes.
        simulator.letters.push(Letter {
            about: String::new(),
            sender: Sender::Client,
            to: (0, simulator.processes[0]),
            place: Place::Waiting(ReplyTo(1)),
            due_ms: Some(0),
        });
        simulator.run_until(1);
    }
}
