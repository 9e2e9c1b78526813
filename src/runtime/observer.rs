//! The session as metrics and health pages see it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::observe::{self, HealthSnapshot, Metrics, SessionEvent};
use crate::zk::{Observer, SessionState};

/// Counts what happens to the session.
#[derive(Debug)]
pub struct SessionObserver {
    metrics: Arc<Metrics>,
    health: Arc<watch::Sender<HealthSnapshot>>,
}

impl SessionObserver {
    /// Counts into `metrics`, shows in `health`.
    pub fn new(
        metrics: Arc<Metrics>,
        health: Arc<watch::Sender<HealthSnapshot>>,
    ) -> SessionObserver {
        SessionObserver { metrics, health }
    }
}

impl Observer for SessionObserver {
    fn request_done(&self, took: Duration) {
        self.metrics.zookeeper_request_latency.record(took);
    }

    fn session_changed(&self, state: SessionState) {
        let (event, shown) = match state {
            SessionState::Connected => (
                SessionEvent::SyncConnected,
                observe::SessionState::Connected,
            ),
            SessionState::Disconnected => (
                SessionEvent::Disconnected,
                observe::SessionState::Disconnected,
            ),
            SessionState::Expired => (SessionEvent::Expired, observe::SessionState::Expired),
            SessionState::AuthFailed => (
                SessionEvent::AuthFailed,
                observe::SessionState::Disconnected,
            ),
        };
        self.metrics.session_event(event);
        self.health.send_modify(|health| health.session = shown);
    }
}
