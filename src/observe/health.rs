//! What `/healthz`, `/readyz` and `/livez` tell, worked out from plain values. Pure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::metrics::Metrics;
use crate::model::BrokerId;
use crate::state::ControllerSnapshot;

/// One event may run this long before the process counts as hung. Above the longest wait for ZooKeeper to come back:
/// killing a klamm that waits for it would help nobody.
const EVENT_RUN_LIMIT: Duration = Duration::from_secs(300);

/// The ZooKeeper session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionState {
    /// There was none yet.
    #[default]
    Connecting,
    /// Up.
    Connected,
    /// The connection is lost; the session may live on.
    Disconnected,
    /// Gone; a new one is on its way.
    Expired,
}

impl SessionState {
    fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Expired => "expired",
        }
    }
}

/// What the pages are made of, besides the metrics; kept behind a watch channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSnapshot {
    pub klamm_id: BrokerId,
    pub session: SessionState,
    pub controller: ControllerSnapshot,
}

impl HealthSnapshot {
    /// As the process starts.
    #[must_use]
    pub fn starting(klamm_id: BrokerId) -> Self {
        Self {
            klamm_id,
            session: SessionState::default(),
            controller: ControllerSnapshot::default(),
        }
    }

    /// Whether klamm does, or could do, its work. A standby is ready.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match self.session {
            SessionState::Connected => {}
            other => {
                return Readiness::NotReady(
                    format!("the ZooKeeper session is {}", other.name()).into(),
                );
            }
        }
        match self.role() {
            Role::Loading => Readiness::NotReady(
                "klamm has the role and is loading the state of the cluster".into(),
            ),
            Role::Starting => Readiness::NotReady("klamm is starting".into()),
            Role::Standby | Role::Active => Readiness::Ready,
        }
    }

    /// What klamm is at the moment.
    #[must_use]
    pub fn role(&self) -> Role {
        match (&self.controller.term, self.controller.is_loaded) {
            (Some(_), true) => Role::Active,
            (Some(_), false) => Role::Loading,
            // A standby says why it is one; before it does, it has not looked yet.
            (None, _) if self.controller.standing_by.is_empty() => Role::Starting,
            (None, _) => Role::Standby,
        }
    }
}

/// klamm's part in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It has not looked yet.
    Starting,
    /// Somebody else is the controller, or nobody may be.
    Standby,
    /// It has the role and reads the cluster.
    Loading,
    /// It is the controller.
    Active,
}

/// The answer of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// With the reason in words.
    NotReady(Arc<str>),
}

/// The answer of `/healthz`, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    pub version: &'static str,
    pub klamm_id: i32,
    pub role: Role,
    /// Why klamm is not the controller.
    pub reason: Option<String>,
    pub controller_epoch: Option<i32>,
    pub controller_state: String,
    /// The state of the ZooKeeper session.
    pub session: &'static str,
    pub event_queue_size: i64,
    /// How long the event at hand has been running.
    pub event_running_ms: Option<u64>,
    pub channels: Vec<ChannelHealth>,
}

/// The channel to a broker in [`Health`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelHealth {
    pub broker_id: i32,
    pub connected: bool,
    pub queue_size: i64,
    pub oldest_request_age_ms: Option<u64>,
}

impl Health {
    /// Puts the page together.
    #[must_use]
    pub fn gather(snapshot: &HealthSnapshot, metrics: &Metrics, now: Instant) -> Self {
        let standing_by = &snapshot.controller.standing_by;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            klamm_id: snapshot.klamm_id.0,
            role: snapshot.role(),
            reason: (!standing_by.is_empty()).then(|| standing_by.to_string()),
            controller_epoch: snapshot.controller.term.map(|term| term.epoch.0),
            controller_state: format!("{:?}", snapshot.controller.state),
            session: snapshot.session.name(),
            event_queue_size: metrics.event_queue_size.get(),
            event_running_ms: metrics.event_running_for_at(now).map(millis),
            channels: metrics
                .channels()
                .into_iter()
                .map(|(broker, channel)| ChannelHealth {
                    broker_id: broker.0,
                    connected: channel.is_connected(),
                    queue_size: channel.queue_size.get(),
                    oldest_request_age_ms: channel.oldest_request_age_at(now).map(millis),
                })
                .collect(),
        }
    }
}

/// Whether the event loop moves.
#[must_use]
pub fn is_alive(metrics: &Metrics, now: Instant) -> bool {
    metrics
        .event_running_for_at(now)
        .is_none_or(|running| running < EVENT_RUN_LIMIT)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Term;
    use crate::event::ControllerState;
    use crate::model::ControllerEpoch;

    fn snapshot(
        session: SessionState,
        is_controller: bool,
        is_loaded: bool,
        standing_by: &str,
    ) -> HealthSnapshot {
        let term = is_controller.then_some(Term {
            epoch: ControllerEpoch(5),
            epoch_zk_version: 4,
        });
        let controller = ControllerSnapshot {
            term,
            is_loaded,
            standing_by: standing_by.into(),
            ..Default::default()
        };
        HealthSnapshot {
            klamm_id: BrokerId(900),
            session,
            controller,
        }
    }

    #[test]
    fn a_loaded_controller_and_a_standby_are_ready_and_nothing_else() {
        let up = SessionState::Connected;
        let held = "broker 1 is the controller";
        assert_eq!(snapshot(up, true, true, "").readiness(), Readiness::Ready);
        assert_eq!(
            snapshot(up, false, false, held).readiness(),
            Readiness::Ready
        );
        for (snapshot, reason) in [
            (snapshot(up, true, false, ""), "loading"),
            (
                HealthSnapshot {
                    session: up,
                    ..HealthSnapshot::starting(BrokerId(1))
                },
                "starting",
            ),
            (
                snapshot(SessionState::Disconnected, true, true, ""),
                "session is disconnected",
            ),
            (
                snapshot(SessionState::Expired, false, false, held),
                "session is expired",
            ),
            (
                HealthSnapshot::starting(BrokerId(1)),
                "session is connecting",
            ),
        ] {
            match snapshot.readiness() {
                Readiness::NotReady(why) => assert!(why.contains(reason), "{why}"),
                Readiness::Ready => panic!("{snapshot:?}"),
            }
        }
    }

    #[test]
    fn health_tells_role_epoch_session_and_channels() {
        let metrics = Metrics::default();
        let now = Instant::now();
        let channel = metrics.open_channel(BrokerId(2));
        channel.queue_size.set(3);
        channel.set_oldest_request(Some(now));
        let snapshot = snapshot(SessionState::Connected, true, true, "");
        let health = Health::gather(&snapshot, &metrics, now + Duration::from_millis(250));
        let json = serde_json::to_string(&health).unwrap();
        assert_eq!(
            json,
            format!(
                "{{\"version\":\"{}\",\"klamm_id\":900,\"role\":\"active\",\"reason\":null,\"controller_epoch\":5,\
                 \"controller_state\":\"Idle\",\"session\":\"connected\",\
                 \"event_queue_size\":0,\"event_running_ms\":null,\"channels\":[{{\"broker_id\":2,\"connected\":false,\
                 \"queue_size\":3,\"oldest_request_age_ms\":250}}]}}",
                env!("CARGO_PKG_VERSION")
            )
        );
    }

    #[test]
    fn an_event_that_runs_for_minutes_is_no_life() {
        let metrics = Metrics::default();
        assert!(is_alive(
            &metrics,
            Instant::now() + Duration::from_secs(9999)
        ));
        metrics.event_begins(ControllerState::TopicChange, Duration::ZERO);
        assert!(is_alive(&metrics, Instant::now()));
        assert!(!is_alive(
            &metrics,
            Instant::now() + Duration::from_secs(301)
        ));
    }
}
