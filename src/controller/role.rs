//! Who is the controller: Startup, ControllerChange, Reelect, TakeoverDue, Expire, BrokerSurveyed, Shutdown.
//!
//! Losing the role at any moment is normal. Whatever the way out, no request leaves under the old epoch afterwards and
//! `/brokers/ids/N` goes. Upstream: `elect`, `maybeResign`, `triggerControllerMove`, `onControllerResignation`.

use tracing::{info, warn};

use super::{KafkaController, Stop, log};
use crate::machine::candidacy::{Intent, StandingBy, Unfit, Verdict, describe};
use crate::machine::own_broker;
use crate::planted::planted;
use crate::port::{BrokerSurvey, Brokers, Clock, Holder, Replies, RoleView, Taking, Zk, ZkFault};
use crate::state::FailoverTimes;

/// A takeover that lost the race is tried again at once, with fresh versions: one broken znode can make Java brokers
/// win and drop the role some 17 times a second, and waiting for a quiet moment would wait for ever. After this many
/// tries in a row other events get their turn.
const TAKEOVER_TRIES_IN_A_ROW: usize = 50;
/// How long until silent brokers are asked again.
const SURVEY_RETRY_MS: u64 = 5_000;

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// Startup, and RegisterBrokerAndReelect: a session stands, nothing is known.
    pub(super) async fn process_startup(&mut self) -> Result<Option<Stop>, ZkFault> {
        self.ports.zk.create_base_paths().await?;
        self.ports.zk.record_klamm_id().await?;
        self.begin_survey().await?;
        self.look_at_role().await
    }

    pub(super) async fn process_takeover_due(&mut self) -> Result<Option<Stop>, ZkFault> {
        let now_ms = self.ports.clock.now_ms();
        match self.takeover_due_at_ms {
            Some(due_at_ms) if due_at_ms <= now_ms => {
                self.takeover_due_at_ms = None;
                if self.context.term().is_none() {
                    self.begin_survey().await?;
                }
                self.look_at_role().await
            }
            _ => Ok(None),
        }
    }

    /// Looks who holds the role, resigns if it is no longer ours, and takes it if it is to be taken.
    pub(super) async fn look_at_role(&mut self) -> Result<Option<Stop>, ZkFault> {
        for _ in 0..TAKEOVER_TRIES_IN_A_ROW {
            let view = self.ports.zk.role_view().await?;
            if let Some(stop) = self.maybe_resign(&view).await? {
                return Ok(Some(stop));
            }
            let is_active = self.context.term().is_some();
            let now_ms = self.ports.clock.now_ms();
            match self
                .candidacy
                .intent(&view, &self.survey, is_active, now_ms)
            {
                Intent::Keep => return Ok(None),
                Intent::WaitUntil { at_ms } => {
                    self.leave_no_registration(&view).await?;
                    self.stand_by(&format!(
                        "the role was lost; trying for it again in {} ms",
                        at_ms - now_ms
                    ));
                    self.schedule_takeover(at_ms - now_ms);
                    return Ok(None);
                }
                Intent::StandBy(why) => {
                    self.leave_no_empty_office(&view, &why).await?;
                    self.leave_no_registration(&view).await?;
                    return Ok(self.stand_by_for(why));
                }
                Intent::Take if now_ms < self.hold_off_until_ms => {
                    self.stand_by("ZooKeeper refused what klamm needs to lead; see the log");
                    return Ok(None);
                }
                Intent::Take if self.take_role(&view).await? == Taken::Won => return Ok(None),
                Intent::Take => {}
            }
        }
        self.stand_by("the role changes hands faster than it can be taken; still trying");
        self.schedule_takeover(0);
        Ok(None)
    }

    /// The hold was set or lifted, or a klamm has a new id: no replica may stand on it.
    pub(super) async fn process_klamm_nodes_change(&mut self) -> Result<Option<Stop>, ZkFault> {
        let stop = self.look_at_role().await?;
        if self.context.term().is_some() {
            let ids = self.ports.zk.klamm_ids().await?;
            self.context.set_klamm_ids(ids);
        }
        Ok(stop)
    }

    /// Resigns if `view` says that the role, or the epoch, is no longer ours.
    async fn maybe_resign(&mut self, view: &RoleView) -> Result<Option<Stop>, ZkFault> {
        let Some(term) = self.context.term() else {
            return Ok(None);
        };
        let same_epoch = view
            .epoch
            .is_some_and(|epoch| epoch.epoch_zk_version == term.epoch_zk_version);
        if view.holder == Holder::Ourselves && same_epoch && !view.migrating {
            return Ok(None);
        }
        info!(target: log::CONTROLLER, "the controller role is no longer ours ({})", describe(&view.holder));
        self.on_controller_resignation();
        if let Holder::Namesake { .. } = view.holder {
            return Ok(Some(Stop::Replaced(self.settings.own_id)));
        }
        if view.holder == Holder::Ourselves {
            return Ok(None);
        }
        if !planted!(KeepRegistration) {
            self.ports.zk.drop_registration().await?;
        }
        Ok(None)
    }

    /// `/controller` may be ours still although klamm no longer acts and must not begin again: KRaft is coming, or the
    /// epoch was moved under a hold. Nobody would lead then, so it is given back. The brokers' answers are waited for.
    async fn leave_no_empty_office(
        &mut self,
        view: &RoleView,
        why: &StandingBy,
    ) -> Result<(), ZkFault> {
        match view.epoch {
            Some(epoch)
                if view.holder == Holder::Ourselves && *why != StandingBy::SurveyPending =>
            {
                info!(target: log::CONTROLLER, "giving the role back: {why}");
                self.ports.zk.release_role(&epoch).await
            }
            _ => Ok(()),
        }
    }

    /// `/brokers/ids/N` went with the role, unless ZooKeeper refused that: a node that nobody serves looks like a broker to
    /// all others.
    async fn leave_no_registration(&mut self, view: &RoleView) -> Result<(), ZkFault> {
        match view.own_registration {
            Some(_) if self.context.term().is_none() && !planted!(KeepRegistration) => {
                self.ports.zk.drop_registration().await
            }
            _ => Ok(()),
        }
    }

    /// One try, decided on `view`.
    async fn take_role(&mut self, view: &RoleView) -> Result<Taken, ZkFault> {
        let me = own_broker::own_broker(
            self.settings.own_id,
            &self.settings.listeners,
            self.survey.registered(),
        );
        let began_at_ms = self.ports.clock.now_ms();
        let Taking::Won(term) = self.ports.zk.take_role(view, &me).await? else {
            return Ok(Taken::Raced);
        };
        let won_at_ms = self.ports.clock.now_ms();
        self.candidacy.role_taken(won_at_ms);
        self.history.failovers += 1;
        self.history.last_failover = FailoverTimes {
            claim_ms: won_at_ms - began_at_ms,
            ..FailoverTimes::default()
        };
        info!(
            target: log::CONTROLLER,
            "{} successfully elected as the controller. Epoch incremented to {} and epoch zk version is now {} (before: {})",
            self.settings.own_id, term.epoch, term.epoch_zk_version, describe(&view.holder)
        );
        self.on_controller_failover(term, me).await?;
        Ok(Taken::Won)
    }

    fn stand_by_for(&mut self, why: StandingBy) -> Option<Stop> {
        self.stand_by(&why.to_string());
        match why {
            StandingBy::Unfit(Unfit::TooManySilent { .. }) => {
                self.schedule_takeover(SURVEY_RETRY_MS);
                None
            }
            StandingBy::Unfit(unfit) => Some(Stop::Unfit(unfit)),
            _ => None,
        }
    }

    fn schedule_takeover(&mut self, delay_ms: u64) {
        let due_at_ms = self.ports.clock.now_ms().saturating_add(delay_ms);
        self.takeover_due_at_ms = Some(due_at_ms);
        self.ports
            .clock
            .schedule(delay_ms, crate::event::ControllerEvent::TakeoverDue);
    }

    /// Asks the brokers that are registered now and were not asked yet.
    pub(super) async fn begin_survey(&mut self) -> Result<(), ZkFault> {
        let klamm_ids = self.ports.zk.klamm_ids().await?;
        let listed = self.ports.zk.brokers().await?;
        let (registered, broken) = own_broker::genuine(listed, &klamm_ids, self.settings.own_id);
        self.warn_broken(broken);
        let unasked = self.survey.register(registered);
        if !unasked.is_empty() {
            self.ports.brokers.survey(&unasked);
        }
        Ok(())
    }

    pub(super) async fn process_broker_surveyed(
        &mut self,
        survey: BrokerSurvey,
    ) -> Result<Option<Stop>, ZkFault> {
        self.survey.answered(survey);
        self.report_differing_settings();
        if self.context.term().is_some() {
            if let Verdict::Unfit(unfit) = self.survey.verdict()
                && !matches!(unfit, Unfit::TooManySilent { .. })
            {
                return self.give_up_unfit(unfit).await.map(Some);
            }
            self.adopt_protocol().await?;
            return Ok(None);
        }
        if self.survey.verdict() == Verdict::Pending {
            return Ok(None);
        }
        for (broker, why) in self.survey.silent() {
            info!(target: log::CONTROLLER, "broker {broker} did not answer within 5 s ({why})");
        }
        self.look_at_role().await
    }

    /// A broker turned up that klamm must not lead: the role goes back.
    pub(super) async fn give_up_unfit(&mut self, unfit: Unfit) -> Result<Stop, ZkFault> {
        warn!(target: log::CONTROLLER, "giving the role back: {unfit}");
        self.release().await?;
        Ok(Stop::Unfit(unfit))
    }

    pub(super) async fn process_shutdown(&mut self) -> Result<Stop, ZkFault> {
        // A session that is gone gave the role back by itself.
        if let Err(fault) = self.release().await {
            info!(target: log::CONTROLLER, "the role was gone before it could be given back: {fault}");
        }
        Ok(Stop::Released)
    }

    pub(super) async fn release(&mut self) -> Result<(), ZkFault> {
        let Some(term) = self.context.term() else {
            return Ok(());
        };
        self.on_controller_resignation();
        self.ports.zk.release_role(&term).await
    }

    /// The session expired: the role went with it, and so did every watch.
    pub(super) fn process_expire(&mut self) -> Option<Stop> {
        self.on_controller_resignation();
        // Answers that waited in the queue were cleared with it.
        self.survey.forget();
        self.stand_by("the ZooKeeper session expired; starting again with a new one");
        None
    }

    /// All local, so that it can't fail: channels first, so that nothing more is sent under the old epoch.
    pub(super) fn on_controller_resignation(&mut self) {
        if self.context.term().is_none() {
            return;
        }
        self.ports.brokers.shut_down();
        self.refuse_departures();
        self.refuse_awaited_deletions();
        self.refuse_awaited_leaders();
        self.acknowledgements.forget();
        self.context.reset();
        self.is_loaded = false;
        self.has_unfinished_work = false;
        self.refused_states = super::refused::RefusedStates::default();
        self.adopting_from = None;
        self.unplaced_topics.clear();
        self.reassignment_node.clear();
        self.node_due_at_ms = None;
        self.states_due_at_ms = None;
        self.complaints.forget();
        let now_ms = self.ports.clock.now_ms();
        self.candidacy.role_lost(now_ms);
        self.history.resignations += 1;
        info!(target: log::CONTROLLER, "Resigned");
    }
}

/// How one try for the role ended.
#[derive(PartialEq, Eq)]
enum Taken {
    Won,
    Raced,
}
