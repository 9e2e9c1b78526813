//! `klamm check`: what a takeover of this cluster would meet, judged by the rooms that a takeover is decided in.
//!
//! Must never have an opinion of its own: whether klamm may lead is `candidacy`'s word, what a topic's node is worth
//! `membership`'s, what becomes of what operators asked for that of `reassignment`, `preferred` and `deletion`. Here it is
//! only put into words. Upstream has no counterpart.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

use super::candidacy::{self, Candidacy, Intent, StandingBy, Survey, TakeoverPolicy};
use super::features::FeaturePlan;
use super::sanitise::{self, Load};
use super::{
    deletion, features, membership, own_broker, partition, preferred, reassignment, replica,
    shared_settings,
};
use crate::effect::{
    Committed, FeatureZnode, PreferredElectionZnode, Read, ReassignmentZnode, TopicZnode,
};
use crate::event::ElectionType;
use crate::model::{
    BrokerId, BrokerRegistration, Endpoint, InterBrokerProtocol, LeaderAndIsr, SharedSettings,
    TopicName, TopicPartition,
};
use crate::port::{Holder, RoleView, SurveyOutcome};
use crate::state::{ControllerContext, PartitionState};

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// As it should be.
    Fine,
    /// Worth knowing; nothing is to be done.
    Note,
    /// Not as the brokers have it: klamm would decide otherwise than they did.
    Differs,
    /// Can't be understood, done or reached: it costs itself and nothing else.
    Broken,
    /// klamm takes no role while this is so.
    Forbids,
}

impl Standing {
    const ALL: [Standing; 5] = [
        Self::Fine,
        Self::Note,
        Self::Differs,
        Self::Broken,
        Self::Forbids,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Differs => "differs",
            Self::Broken => "broken",
            Self::Forbids => "forbids",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it stands.
    pub standing: Standing,
    /// What is spoken of, in a word or two.
    pub about: &'static str,
    /// The rest.
    pub text: String,
}

impl Finding {
    /// One line.
    pub fn new(standing: Standing, about: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            standing,
            about,
            text: text.into(),
        }
    }
}

/// The whole table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Its lines, in the order in which they are read.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Adds a line.
    pub fn add(&mut self, standing: Standing, about: &'static str, text: impl Into<String>) {
        self.findings.push(Finding::new(standing, about, text));
    }

    /// Whether nothing forbids a takeover.
    pub fn allows_takeover(&self) -> bool {
        self.count(Standing::Forbids) == 0
    }

    fn count(&self, standing: Standing) -> usize {
        let of_it = self.findings.iter().filter(|it| it.standing == standing);
        of_it.count()
    }
}

impl fmt::Display for Report {
    /// Three columns and a line that sums them up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.findings.iter().map(|it| it.about.len()).max();
        let widest = widest.unwrap_or_default();
        for Finding {
            standing,
            about,
            text,
        } in &self.findings
        {
            writeln!(f, "{:<7}  {about:<widest$}  {text}", standing.word())?;
        }
        let verdict = match self.allows_takeover() {
            true => "Nothing forbids a takeover",
            false => "klamm must not take the role",
        };
        let counts = Standing::ALL
            .into_iter()
            .filter(|standing| self.count(*standing) > 0)
            .map(|standing| format!("{} {}", self.count(standing), standing.word()));
        write!(f, "{verdict}: {}", counts.collect::<Vec<_>>().join(", "))
    }
}

/// What stands in ZooKeeper.
#[derive(Debug)]
pub struct Seen {
    /// Who leads, or why that can't be told.
    pub role: Result<RoleView, String>,
    /// Ids that klamms use or used.
    pub klamm_ids: BTreeSet<BrokerId>,
    /// The genuine brokers.
    pub brokers: Vec<BrokerRegistration>,
    /// Every topic whose name is legal.
    pub topics: Vec<(TopicName, Read<TopicZnode>)>,
    /// The states of all their partitions.
    pub states: BTreeMap<TopicPartition, Read<Committed<LeaderAndIsr>>>,
    /// `/admin/delete_topics`.
    pub deletions: Vec<TopicName>,
    /// `/admin/reassign_partitions`.
    pub reassignment: Read<ReassignmentZnode>,
    /// `/admin/preferred_replica_election`.
    pub preferred: Read<PreferredElectionZnode>,
    /// `/feature` and its version.
    pub feature: Read<(FeatureZnode, i32)>,
    /// What else can't be understood or read, each with its node.
    pub broken: Vec<String>,
}

/// How klamm is configured, as far as a takeover depends on it.
#[derive(Debug, Clone)]
pub struct Terms {
    /// `klamm.id`; nobody's where that is a broker's.
    pub own_id: BrokerId,
    /// `klamm.listeners`, as advertised.
    pub listeners: Vec<Endpoint>,
    /// `klamm.takeover`.
    pub takeover: TakeoverPolicy,
    /// `inter.broker.protocol.version`, where it is given.
    pub protocol: Option<InterBrokerProtocol>,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// The settings that every controller of the cluster should share.
    pub shared: SharedSettings,
}

/// What a takeover would meet. `survey` is complete.
pub fn assess(terms: &Terms, seen: &Seen, survey: &Survey, report: &mut Report) {
    report_role(terms, seen, survey, report);
    report_brokers(survey, report);
    report_settings(terms, survey, report);
    let mut cluster = Loaded::new(terms, seen, survey);
    cluster.report_topics(report);
    cluster.report_klamms(report);
    cluster.report_operations(terms, seen, report);
    cluster.report_broken(seen, report);
}

fn report_role(terms: &Terms, seen: &Seen, survey: &Survey, report: &mut Report) {
    let view = match &seen.role {
        Ok(view) => view,
        Err(why) => return report.add(Standing::Forbids, "role", why),
    };
    let epoch = match view.epoch {
        Some(term) => format!("controller epoch {}", term.epoch),
        None => "no controller was ever elected".to_owned(),
    };
    let holder = format!("{}, {epoch}", candidacy::describe(&view.holder));
    if let Holder::Namesake { .. } = view.holder {
        let text = format!(
            "{holder}: this klamm runs already, or another process has its klamm.id; one that is started replaces it"
        );
        return report.add(Standing::Note, "role", text);
    }
    // A process that begins remembers nothing of lost roles.
    let intent = Candidacy::new(terms.takeover, 0).intent(view, survey, false, 0);
    let (standing, would) = match intent {
        Intent::Keep | Intent::Take | Intent::WaitUntil { .. } => {
            (Standing::Fine, "klamm takes it".to_owned())
        }
        // Told below, with everything else that forbids it.
        Intent::StandBy(StandingBy::Unfit(_)) => {
            (Standing::Note, "klamm leaves it there".to_owned())
        }
        Intent::StandBy(StandingBy::Kraft) => (Standing::Forbids, StandingBy::Kraft.to_string()),
        Intent::StandBy(why) => (Standing::Note, why.to_string()),
    };
    report.add(standing, "role", format!("{holder}: {would}"));
}

fn report_brokers(survey: &Survey, report: &mut Report) {
    if survey.registered().is_empty() {
        report.add(
            Standing::Note,
            "brokers",
            "none is registered: nothing can be led before one starts",
        );
    }
    for registration in survey.registered() {
        let broker = &registration.broker;
        let endpoints: Vec<String> = broker.endpoints.iter().map(ToString::to_string).collect();
        let rack = broker.rack.as_ref();
        let rack = rack.map(|rack| format!(", rack {rack}"));
        let place = format!("{}{}", endpoints.join(","), rack.unwrap_or_default());
        let (standing, said) = match survey.outcome(broker.id) {
            Some(SurveyOutcome::Answered { protocol, .. }) => match protocol {
                Some(protocol) => (Standing::Fine, format!("inter-broker protocol {protocol}")),
                None => (
                    Standing::Note,
                    format!(
                        "doesn't say which inter-broker protocol it runs; taken for {}",
                        InterBrokerProtocol::assumed_from_registration(registration.json_version)
                    ),
                ),
            },
            Some(SurveyOutcome::NotZooKeeperMode) => {
                (Standing::Broken, "no ZooKeeper-mode broker".to_owned())
            }
            Some(SurveyOutcome::Silent(why)) => {
                (Standing::Broken, format!("doesn't answer: {why}"))
            }
            None => (Standing::Broken, "was not asked".to_owned()),
        };
        let text = format!("{} at {place}: {said}", broker.id);
        report.add(standing, "broker", text);
    }
    for obstacle in survey.obstacles() {
        report.add(Standing::Forbids, "brokers", obstacle.to_string());
    }
}

fn report_settings(terms: &Terms, survey: &Survey, report: &mut Report) {
    let said = survey.shared_settings();
    let differing = shared_settings::differences(&terms.shared, said.clone());
    for difference in &differing {
        report.add(Standing::Differs, "setting", difference.to_string());
    }
    let answering = said.filter(|(_, said)| !said.is_empty()).count();
    if answering == 0 {
        report.add(
            Standing::Note,
            "settings",
            "no broker says what it has of the settings that controllers should share",
        );
        return;
    }
    let differs = |key: &&str| !differing.iter().any(|it| it.setting.key() == *key);
    let same: Vec<&str> = terms.shared.keys().map(|it| it.key()).collect();
    let same: Vec<&str> = same.into_iter().filter(differs).collect();
    if !same.is_empty() {
        let text = format!("as on {answering} brokers: {}", same.join(", "));
        report.add(Standing::Fine, "settings", text);
    }
}

/// The cluster as klamm would know it after a takeover.
struct Loaded {
    context: ControllerContext,
    broken: Vec<String>,
}

impl Loaded {
    /// The steps of `onControllerFailover` that change nothing outside.
    fn new(terms: &Terms, seen: &Seen, survey: &Survey) -> Loaded {
        let mut context = ControllerContext::new();
        let mut broken = seen.broken.clone();
        let me = own_broker::own_broker(terms.own_id, &terms.listeners, &seen.brokers);
        context.set_own_broker(me);
        let mut klamm_ids = seen.klamm_ids.clone();
        klamm_ids.insert(terms.own_id);
        context.set_klamm_ids(klamm_ids);
        let lowest = InterBrokerProtocol::assumed_from_registration(4);
        let protocol = survey.cluster_protocol(terms.protocol).unwrap_or(lowest);
        context.set_protocol(protocol);
        if let FeaturePlan::Unreadable(why) = features::desired(protocol, &seen.feature) {
            broken.push(why);
        }
        for registration in &seen.brokers {
            let kept_out = match &seen.feature {
                Read::Found((znode, _)) => features::incompatible(znode, &registration.broker),
                Read::Missing | Read::Broken(_) => None,
            };
            let id = registration.broker.id;
            match kept_out {
                None => context.add_live_broker(registration.clone()),
                Some(why) => broken.push(format!("broker {id} is kept out of the cluster: {why}")),
            }
        }
        let mut loaded = Loaded { context, broken };
        loaded.take_in_topics(seen);
        for topic in &seen.deletions {
            if loaded.context.topic(topic).is_some() && terms.delete_topic_enable {
                loaded.context.queue_for_deletion(topic);
            }
        }
        replica::startup(&mut loaded.context);
        partition::startup(&mut loaded.context);
        loaded
    }

    fn take_in_topics(&mut self, seen: &Seen) {
        for (name, read) in &seen.topics {
            let znode = match read {
                Read::Found(znode) => znode,
                Read::Missing => continue,
                Read::Broken(why) => {
                    self.broken.push(why.clone());
                    continue;
                }
            };
            let found = membership::new_partitions(&self.context, name, znode);
            self.broken.extend(found.complaints(name));
            self.context.put_topic(name, znode.topic_id, znode.version);
            for (at, assignment) in found.accepted {
                self.context.put_assignment(&at, assignment);
                match seen.states.get(&at) {
                    Some(Read::Found(state)) => self.context.put_leadership(&at, state.clone()),
                    Some(Read::Broken(why)) => self.broken.push(why.clone()),
                    Some(Read::Missing) | None => {}
                }
            }
        }
    }

    fn report_topics(&self, report: &mut Report) {
        let gauges = self.context.gauges();
        let partitions = preferred::all_partitions(&self.context).len();
        let topics = usize::try_from(gauges.topics).unwrap_or(usize::MAX);
        let text = format!(
            "{}, {}",
            counted(topics, "topic"),
            counted(partitions, "partition")
        );
        report.add(Standing::Fine, "topics", text);
        let offline = self.context.partitions_in(&[PartitionState::Offline]);
        if !offline.is_empty() {
            let text = format!(
                "{} without a leader that is up; klamm elects one where an in-sync replica is up, or where unclean election is allowed: {}",
                counted(offline.len(), "partition"),
                listed(&offline)
            );
            report.add(Standing::Note, "offline", text);
        }
        let new = self.context.partitions_in(&[PartitionState::New]);
        if !new.is_empty() {
            let text = format!(
                "{} without any leader so far; klamm elects the first: {}",
                counted(new.len(), "partition"),
                listed(&new)
            );
            report.add(Standing::Note, "new", text);
        }
    }

    /// Replicas on klamms: no partition keeps one.
    fn report_klamms(&mut self, report: &mut Report) {
        let leaving = reassignment::to_move_off_klamms(&self.context);
        if !leaving.is_empty() {
            let text = format!(
                "{} with a replica on a klamm, which keeps none: klamm moves it to a broker: {}",
                counted(leaving.len(), "partition"),
                listed(&leaving)
            );
            report.add(Standing::Note, "klamms", text);
        }
        let mut load = Load::of(&self.context);
        let mut replaced = Vec::new();
        for at in self.context.partitions_in(&[PartitionState::New]) {
            let Some(found) = self.context.partition(&at) else {
                continue;
            };
            match sanitise::without_klamm(&self.context, &found.assignment, &mut load) {
                Ok(None) => {}
                Ok(Some(_)) => replaced.push(at),
                Err(nobody) => self.broken.push(format!("partition {at}: {nobody}")),
            }
        }
        if !replaced.is_empty() {
            let text = format!(
                "{} without a leader so far and with a klamm among the replicas: a broker takes its place: {}",
                counted(replaced.len(), "partition"),
                listed(&replaced)
            );
            report.add(Standing::Note, "klamms", text);
        }
    }

    /// What operators asked for and is not done yet.
    fn report_operations(&mut self, terms: &Terms, seen: &Seen, report: &mut Report) {
        self.report_deletions(terms, seen, report);
        let moving = self.context.partitions_being_reassigned();
        if !moving.is_empty() {
            let moving: Vec<TopicPartition> = moving.iter().cloned().collect();
            let text = format!(
                "{} on the way to other replicas; klamm goes on with it: {}",
                counted(moving.len(), "partition"),
                listed(&moving)
            );
            report.add(Standing::Note, "reassignment", text);
        }
        self.report_wanted_reassignments(seen, report);
        match &seen.preferred {
            Read::Missing => {}
            Read::Broken(why) => self.broken.push(why.clone()),
            Read::Found(asked) => self.report_wanted_elections(asked, report),
        }
    }

    fn report_deletions(&mut self, terms: &Terms, seen: &Seen, report: &mut Report) {
        if seen.deletions.is_empty() {
            return;
        }
        let asked = listed(&seen.deletions);
        if !terms.delete_topic_enable {
            let text = format!(
                "delete.topic.enable=false: the requests to delete {asked} are removed and the topics stay"
            );
            return report.add(Standing::Note, "deletion", text);
        }
        let text = format!(
            "{} to be deleted; klamm goes on with it: {asked}",
            counted(seen.deletions.len(), "topic")
        );
        report.add(Standing::Note, "deletion", text);
        for (topic, why) in deletion::review(&self.context).halted {
            report.add(Standing::Note, "deletion", format!("{topic} waits: {why}"));
        }
        let unreadable = seen.topics.iter().filter(|(name, read)| {
            matches!(read, Read::Broken(_)) && seen.deletions.contains(name)
        });
        let told = unreadable.map(|(topic, _)| deletion::unreadable(topic));
        self.broken.extend(told);
    }

    fn report_wanted_reassignments(&mut self, seen: &Seen, report: &mut Report) {
        let node = match &seen.reassignment {
            Read::Missing => return,
            Read::Broken(why) => return self.broken.push(why.clone()),
            Read::Found(node) => node,
        };
        self.broken.extend(node.broken.iter().cloned());
        let sorted = reassignment::requested(&self.context, &node.targets);
        if !sorted.begin.is_empty() {
            let begin: Vec<TopicPartition> = sorted.begin.into_iter().map(|(at, _)| at).collect();
            let text = format!(
                "/admin/reassign_partitions asks for {} more: {}",
                counted(begin.len(), "partition"),
                listed(&begin)
            );
            report.add(Standing::Note, "reassignment", text);
        }
        let refused = sorted.refused.iter().map(|(at, why)| {
            let wanted = node.targets.get(at);
            reassignment::refused_entry(at, wanted, &why.to_string())
        });
        self.broken.extend(refused);
    }

    fn report_wanted_elections(&mut self, asked: &PreferredElectionZnode, report: &mut Report) {
        self.broken.extend(asked.broken.iter().cloned());
        let wanted = asked.partitions.clone();
        let sorted = preferred::requested(&self.context, wanted, ElectionType::Preferred);
        if !sorted.elect.is_empty() {
            let text = format!(
                "/admin/preferred_replica_election asks for {}: {}",
                counted(sorted.elect.len(), "partition"),
                listed(&sorted.elect)
            );
            report.add(Standing::Note, "elections", text);
        }
        let refused = sorted.refused.iter();
        let refused = refused.map(|(at, why)| preferred::refused_entry(at, *why));
        self.broken.extend(refused);
    }

    fn report_broken(&self, seen: &Seen, report: &mut Report) {
        for why in &self.broken {
            report.add(Standing::Broken, "node", why.clone());
        }
        if self.broken.is_empty() && seen.role.is_ok() {
            let text = "every node that a controller reads can be understood";
            report.add(Standing::Fine, "nodes", text);
        }
    }
}

fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The first names and how many more: a line must stay readable at ten thousand topics.
fn listed<T: fmt::Display>(all: &[T]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = all.iter().take(SHOWN).map(ToString::to_string).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
