//! The channels to the brokers: what the controller decided leaves here, and what brokers answer comes in.
//!
//! Knows sockets, queues and versions; must never decide anything about partitions, and never touches the context: an
//! answer becomes an event. In the order that a request takes: [`ControllerChannelManager`] → `queue` → `send_loop`
//! (one task for each incarnation of a broker) → `wire` → `connection`. Beside them, `survey` asks a broker what it is.
//! Upstream: `ControllerChannelManager.scala`.

mod backoff;
mod channel_manager;
mod connection;
mod queue;
mod ranges;
mod send_loop;
mod survey;
mod wire;

pub use channel_manager::ControllerChannelManager;
pub use connection::{ConnectionError, NoListener};
pub use ranges::BrokerRanges;

use std::sync::Arc;

use crate::model::{Broker, BrokerId, Endpoint};
use crate::observe::CaptureTap;

/// How channels are made. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelConfig {
    /// klamm's id: in every request, and the client id.
    pub controller_id: BrokerId,
    /// The listener that brokers talk to each other on.
    pub inter_broker_listener: Arc<str>,
    /// `control.plane.listener.name`: dialled instead, where a broker has it.
    pub control_plane_listener: Option<Arc<str>>,
    /// `controller.socket.timeout.ms`: how long an answer may take.
    pub request_timeout_ms: u64,
    /// `socket.connection.setup.timeout.ms`: how long the first attempt to connect may take; doubles to the next.
    pub connection_setup_timeout_ms: u64,
    /// `socket.connection.setup.timeout.max.ms`.
    pub connection_setup_timeout_max_ms: u64,
    /// How long a broker may take to say what it is, connecting included.
    pub survey_timeout_ms: u64,
    /// What brokers are asked before klamm relies on them.
    pub survey: SurveyQuestions,
    /// Where what is said is captured.
    pub capture: CaptureTap,
}

impl ChannelConfig {
    /// Kafka's defaults.
    pub fn new(controller_id: BrokerId, inter_broker_listener: &str) -> ChannelConfig {
        ChannelConfig {
            controller_id,
            inter_broker_listener: Arc::from(inter_broker_listener),
            control_plane_listener: None,
            request_timeout_ms: 30_000,
            connection_setup_timeout_ms: 10_000,
            connection_setup_timeout_max_ms: 30_000,
            survey_timeout_ms: 5_000,
            survey: SurveyQuestions::VersionsProtocolAndAuthorizer,
            capture: CaptureTap::default(),
        }
    }

    /// Where a broker takes orders: at its control-plane listener if we and it have one, else at its inter-broker
    /// listener.
    fn endpoint_of(&self, broker: &Broker) -> Result<Endpoint, NoListener> {
        let control_plane = self.control_plane_listener.as_deref();
        control_plane
            .and_then(|listener| broker.endpoint(listener))
            .or_else(|| broker.endpoint(&self.inter_broker_listener))
            .cloned()
            .ok_or_else(|| NoListener {
                listener: Arc::clone(&self.inter_broker_listener),
            })
    }
}

/// What a survey asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyQuestions {
    /// ApiVersions, and by DescribeConfigs the inter-broker protocol, the authorizer and the shared settings.
    VersionsProtocolAndAuthorizer,
    /// ApiVersions alone: the operator has told us the inter-broker protocol.
    VersionsOnly,
}

#[cfg(test)]
mod tests;
