//! Whether to try for the controller role now, later, or not at all.
//!
//! Pure: it is shown the nodes and the time and says what to do; it never does it. Java brokers contend whenever
//! `/controller` is gone and nothing stops them, so losing the role is normal and must not become a fight.
//! Upstream: `elect` and `maybeResign` in `KafkaController.scala`, which know no reason to wait.

use std::collections::BTreeMap;

use crate::effect::Incarnation;
use crate::model::{
    BrokerId, BrokerRegistration, InterBrokerProtocol, SecurityProtocol, SharedSettings,
};
use crate::planted::planted;
use crate::port::{BrokerSurvey, Holder, RoleView, SurveyOutcome};

/// From whom klamm takes the role (`klamm.takeover`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TakeoverPolicy {
    /// From a genuine broker too, never from another klamm.
    #[default]
    Always,
    /// Only when nobody holds it.
    Vacant,
}

/// What to do about the role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// `/controller` is ours and of this term.
    Keep,
    /// Take it now.
    Take,
    /// Look again at this time.
    WaitUntil {
        /// On the port's clock.
        at_ms: u64,
    },
    /// Leave it to whoever holds it.
    StandBy(StandingBy),
}

/// Why klamm doesn't contend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StandingBy {
    /// An operator handed the role back.
    #[error("the role was handed back: /klamm/hold exists; `klamm takeover` lifts it")]
    OnHold,
    /// KRaft is in play.
    #[error(
        "a KRaft migration is under way in this cluster (/migration exists or /controller is KRaft's): klamm keeps out"
    )]
    Kraft,
    /// Another klamm leads.
    #[error("klamm {0} holds the role; this one takes over when it is gone")]
    AnotherKlamm(BrokerId),
    /// A genuine broker leads and the policy leaves it alone.
    #[error("broker {0} holds the role and klamm.takeover=vacant leaves it there")]
    HeldByBroker(BrokerId),
    /// The brokers were not asked yet.
    #[error("waiting for the brokers' answers before trying for the role")]
    SurveyPending,
    /// The survey forbids it.
    #[error("{0}")]
    Unfit(Unfit),
}

/// Why klamm must not lead this cluster as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Half or more of the brokers did not answer.
    #[error(
        "{silent} of {total} registered brokers did not answer within 5 s ({names}): klamm takes no role that it could not fulfil; check that it reaches their inter-broker listener"
    )]
    TooManySilent {
        /// How many were silent.
        silent: usize,
        /// How many are registered.
        total: usize,
        /// Who, and why.
        names: String,
    },
    /// A listener is secured.
    #[error(
        "broker {broker} has the listener {listener} with {protocol}: klamm speaks PLAINTEXT only so far and would announce itself on a listener that it can't serve"
    )]
    SecuredListener {
        /// Whose.
        broker: BrokerId,
        /// Its name.
        listener: String,
        /// How it is secured.
        protocol: &'static str,
    },
    /// A listener name that klamm has no endpoint for.
    #[error(
        "broker {broker} has a listener named {listener} and klamm.listeners has none of that name: brokers and clients on it could not find the controller; add {listener}://HOST:PORT to klamm.listeners"
    )]
    ListenerMissing {
        /// Whose.
        broker: BrokerId,
        /// Its name.
        listener: String,
    },
    /// Brokers authorize.
    #[error(
        "broker {broker} has authorizer.class.name={authorizer}: klamm can't authorize requests so far and must not answer them in that broker's place"
    )]
    Authorizer {
        /// Whose.
        broker: BrokerId,
        /// Which.
        authorizer: String,
    },
    /// A broker speaks no control requests.
    #[error("broker {0} doesn't take the controller's requests: it is no ZooKeeper-mode broker")]
    NotZooKeeperMode(BrokerId),
}

/// The longest wait after the role was lost again and again: 15 minutes.
pub const TAKEOVER_DELAY_MS_MAX: u64 = 15 * 60 * 1000;
/// A role lost within this time of being taken doubles the wait: 10 minutes.
pub const CONTESTED_WITHIN_MS: u64 = 10 * 60 * 1000;

/// Who holds the role, in words.
pub fn describe(holder: &Holder) -> String {
    let named = |who: &str, id: &BrokerId| format!("{who} {id} holds it");
    match holder {
        Holder::Nobody => "nobody holds it".to_owned(),
        Holder::Ourselves => "our session holds it".to_owned(),
        Holder::Namesake { .. } => "another session with our id holds it".to_owned(),
        Holder::Klamm { id, .. } => named("klamm", id),
        Holder::Broker { id, .. } => named("broker", id),
        Holder::Kraft => "a KRaft controller holds it".to_owned(),
        Holder::Unreadable { why, .. } => format!("/controller can't be read: {why}"),
    }
}

/// What is remembered about contending.
#[derive(Debug)]
pub struct Candidacy {
    policy: TakeoverPolicy,
    base_delay_ms: u64,
    delay_ms: u64,
    taken_at_ms: Option<u64>,
    /// A held role isn't taken before this time.
    not_before_ms: u64,
}

impl Candidacy {
    /// `base_delay_ms` is `klamm.takeover.delay.ms`.
    pub fn new(policy: TakeoverPolicy, base_delay_ms: u64) -> Candidacy {
        Candidacy {
            policy,
            base_delay_ms,
            delay_ms: base_delay_ms,
            taken_at_ms: None,
            not_before_ms: 0,
        }
    }

    /// Notes that the role was taken.
    pub fn role_taken(&mut self, now_ms: u64) {
        self.taken_at_ms = Some(now_ms);
    }

    /// Notes that the role was lost to somebody: the next takeover of a held role waits, longer each time that it was
    /// lost soon after it had been taken.
    pub fn role_lost(&mut self, now_ms: u64) {
        let Some(taken_at_ms) = self.taken_at_ms.take() else {
            return;
        };
        if now_ms.saturating_sub(taken_at_ms) > CONTESTED_WITHIN_MS {
            self.delay_ms = self.base_delay_ms;
        }
        self.not_before_ms = now_ms.saturating_add(self.delay_ms);
        self.delay_ms = self
            .delay_ms
            .saturating_mul(2)
            .clamp(self.base_delay_ms, TAKEOVER_DELAY_MS_MAX);
    }

    /// What to do, seeing `view` at `now_ms`. `is_active`: this process acts under the epoch in `view` right now.
    pub fn intent(&self, view: &RoleView, survey: &Survey, is_active: bool, now_ms: u64) -> Intent {
        if view.migrating || view.holder == Holder::Kraft {
            return Intent::StandBy(StandingBy::Kraft);
        }
        if is_active && view.holder == Holder::Ourselves {
            return Intent::Keep;
        }
        if view.on_hold && !planted!(LoseHold) {
            return Intent::StandBy(StandingBy::OnHold);
        }
        let waits = match &view.holder {
            // Ours without a term that we act under, or what is left of a former life: replaced at once.
            Holder::Ourselves | Holder::Namesake { .. } | Holder::Nobody | Holder::Kraft => false,
            Holder::Klamm { id, .. } => return Intent::StandBy(StandingBy::AnotherKlamm(*id)),
            Holder::Broker { id, .. } if self.policy == TakeoverPolicy::Vacant => {
                return Intent::StandBy(StandingBy::HeldByBroker(*id));
            }
            Holder::Broker { .. } | Holder::Unreadable { .. } => true,
        };
        if waits && now_ms < self.not_before_ms {
            return Intent::WaitUntil {
                at_ms: self.not_before_ms,
            };
        }
        match survey.verdict() {
            Verdict::Pending => Intent::StandBy(StandingBy::SurveyPending),
            Verdict::Unfit(unfit) => Intent::StandBy(StandingBy::Unfit(unfit)),
            Verdict::Fit => Intent::Take,
        }
    }
}

/// What the brokers said when they were asked, per incarnation: the proof that klamm can do the job.
#[derive(Debug, Default)]
pub struct Survey {
    registered: Vec<BrokerRegistration>,
    answers: BTreeMap<BrokerId, BrokerSurvey>,
    last_protocols: BTreeMap<BrokerId, InterBrokerProtocol>,
    own_listeners: Vec<String>,
    begun: bool,
}

/// What a survey allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Some answers are still out.
    Pending,
    /// klamm may lead.
    Fit,
    /// It must not.
    Unfit(Unfit),
}

impl Survey {
    /// `own_listeners`: the names in `klamm.listeners`.
    pub fn new(own_listeners: Vec<String>) -> Survey {
        Survey {
            own_listeners,
            ..Survey::default()
        }
    }

    /// Begins, or goes on, with the brokers registered now; returns those that have to be asked.
    pub fn register(&mut self, registered: Vec<BrokerRegistration>) -> Vec<BrokerRegistration> {
        self.begun = true;
        let asked_before = |registration: &BrokerRegistration| {
            self.registered.iter().any(|known| {
                known.broker.id == registration.broker.id
                    && known.epoch == registration.epoch
                    && !self.was_silent(known.broker.id)
            })
        };
        let unasked: Vec<_> = registered
            .iter()
            .filter(|r| !asked_before(r))
            .cloned()
            .collect();
        for registration in &unasked {
            self.answers.remove(&registration.broker.id);
        }
        // Whoever is gone counts neither as silent nor as somebody who has answered.
        self.answers.retain(|_, survey| {
            let Incarnation { broker, epoch } = survey.incarnation;
            let mut registered = registered.iter();
            registered.any(|known| known.broker.id == broker && known.epoch == epoch)
        });
        self.registered = registered;
        unasked
    }

    /// Forgets whom it asked: answers may have been lost. What brokers said of their protocol stays known.
    pub fn forget(&mut self) {
        self.begun = false;
        self.registered.clear();
        self.answers.clear();
    }

    /// The genuine brokers that were registered when they were last listed.
    pub fn registered(&self) -> &[BrokerRegistration] {
        &self.registered
    }

    /// Notes an answer. One of an older incarnation is dropped.
    pub fn answered(&mut self, survey: BrokerSurvey) {
        let Incarnation { broker, epoch } = survey.incarnation;
        if self
            .registered
            .iter()
            .any(|known| known.broker.id == broker && known.epoch == epoch)
        {
            if let SurveyOutcome::Answered {
                protocol: Some(protocol),
                ..
            } = &survey.outcome
            {
                self.last_protocols.insert(broker, *protocol);
            }
            self.answers.insert(broker, survey);
        }
    }

    /// The brokers that did not answer, and why.
    pub fn silent(&self) -> Vec<(BrokerId, &str)> {
        let answers = self.answers.iter();
        let silent = answers.filter_map(|(id, survey)| match &survey.outcome {
            SurveyOutcome::Silent(why) => Some((*id, why.as_str())),
            SurveyOutcome::Answered { .. } | SurveyOutcome::NotZooKeeperMode => None,
        });
        silent.collect()
    }

    /// The least protocol of the brokers: what each said last, else what its registration implies. A broker that was
    /// restarted keeps what it said until it says otherwise, and a new one counts once it was asked: neither a restart nor
    /// a new broker lowers anything for a moment. `None`: no broker counts yet.
    pub fn least_protocol(&self) -> Option<InterBrokerProtocol> {
        let of_each = self.registered.iter().filter_map(|registration| {
            let id = registration.broker.id;
            let last_said = self.last_protocols.get(&id).copied();
            let implied =
                || InterBrokerProtocol::assumed_from_registration(registration.json_version);
            last_said.or_else(|| self.answers.contains_key(&id).then(implied))
        });
        of_each.min()
    }

    /// The operator's word, else the least that any broker said, else what its registration implies.
    pub fn cluster_protocol(
        &self,
        given: Option<InterBrokerProtocol>,
    ) -> Option<InterBrokerProtocol> {
        given.or_else(|| self.least_protocol())
    }

    /// What a broker answered, if it did yet.
    pub fn outcome(&self, id: BrokerId) -> Option<&SurveyOutcome> {
        self.answers.get(&id).map(|survey| &survey.outcome)
    }

    /// What the answers so far allow.
    pub fn verdict(&self) -> Verdict {
        if let Some(unfit) = self.unfit_brokers().next() {
            return Verdict::Unfit(unfit);
        }
        if !self.is_complete() {
            return Verdict::Pending;
        }
        match self.too_many_silent() {
            Some(unfit) => Verdict::Unfit(unfit),
            None => Verdict::Fit,
        }
    }

    /// Everything that forbids to lead these brokers, not just the first of it, as far as they have answered.
    pub fn obstacles(&self) -> Vec<Unfit> {
        let silence = self.too_many_silent().filter(|_| self.is_complete());
        self.unfit_brokers().chain(silence).collect()
    }

    /// What each broker said of the settings that controllers should share.
    pub fn shared_settings(&self) -> impl Iterator<Item = (BrokerId, &SharedSettings)> + Clone {
        let answers = self.answers.iter();
        answers.filter_map(|(id, survey)| match &survey.outcome {
            SurveyOutcome::Answered { shared, .. } => Some((*id, shared)),
            SurveyOutcome::NotZooKeeperMode | SurveyOutcome::Silent(_) => None,
        })
    }

    /// Whether everybody who was asked has answered, or let the time go by.
    pub fn is_complete(&self) -> bool {
        self.begun && self.answers.len() >= self.registered.len()
    }

    fn too_many_silent(&self) -> Option<Unfit> {
        let (total, silent) = (self.registered.len(), self.silent());
        if total == 0 || silent.len() * 2 < total {
            return None;
        }
        let names: Vec<_> = silent
            .iter()
            .map(|(id, why)| format!("broker {id}: {why}"))
            .collect();
        Some(Unfit::TooManySilent {
            silent: silent.len(),
            total,
            names: names.join("; "),
        })
    }

    fn unfit_brokers(&self) -> impl Iterator<Item = Unfit> {
        self.unfit_registrations().chain(self.unfit_answers())
    }

    fn was_silent(&self, id: BrokerId) -> bool {
        self.answers
            .get(&id)
            .is_some_and(|survey| matches!(survey.outcome, SurveyOutcome::Silent(_)))
    }

    fn unfit_registrations(&self) -> impl Iterator<Item = Unfit> {
        let endpoints = self
            .registered
            .iter()
            .flat_map(|r| r.broker.endpoints.iter().map(|e| (r.broker.id, e)));
        endpoints.filter_map(|(broker, endpoint)| {
            let listener = endpoint.listener.to_string();
            if endpoint.security_protocol != SecurityProtocol::Plaintext {
                let protocol = endpoint.security_protocol.name();
                return Some(Unfit::SecuredListener {
                    broker,
                    listener,
                    protocol,
                });
            }
            let has_it = self.own_listeners.contains(&listener);
            (!has_it).then_some(Unfit::ListenerMissing { broker, listener })
        })
    }

    fn unfit_answers(&self) -> impl Iterator<Item = Unfit> {
        self.answers
            .iter()
            .filter_map(|(id, survey)| match &survey.outcome {
                SurveyOutcome::NotZooKeeperMode => Some(Unfit::NotZooKeeperMode(*id)),
                SurveyOutcome::Answered {
                    authorizer: Some(authorizer),
                    ..
                } => Some(Unfit::Authorizer {
                    broker: *id,
                    authorizer: authorizer.clone(),
                }),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests;
