//! The node's own listener: what brokers ask their controller, and what clients ask any node.
//!
//! Clients find klamm in the metadata like every other node, so whatever they send gets what helps them: what only the
//! controller can say is answered through the event queue, what any node may say is relayed to a genuine broker, what
//! is bound to a leader or coordinator is refused with the error that sends the client there, and what can't be served
//! closes the connection, after which clients try elsewhere. Must never decide anything about partitions, never relay
//! over a connection of klamm's own, and never trust a length that came in. PLAINTEXT only.
//!
//! In the order that a request takes: [`BoundListeners`] (`server`) → `connection` → `handlers`, which answer by `wire`,
//! `admin`, `own_configs`, `from_controller` and `advertise`, or hand over to `relay`.
//! Upstream: `SocketServer.scala`, `KafkaApis.scala`.

mod admin;
mod advertise;
mod connection;
mod from_controller;
mod handlers;
mod own_configs;
mod relay;
mod server;
mod wire;

pub use server::{BindError, BoundListeners, ServerHandle, bind};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use klamm_codec::ApiKey;
use tokio::sync::{oneshot, watch};

use crate::effect::{Answer, ReplyTo};
use crate::event::EventSink;
use crate::model::BrokerId;
use crate::observe::CaptureTap;
use crate::state::ControllerSnapshot;

/// Opens a slot for the controller's answer: its name for the event, and where the answer arrives. An error there means
/// that the controller ended.
pub type OpenSlot = Arc<dyn Fn() -> (ReplyTo, oneshot::Receiver<Answer>) + Send + Sync>;

/// The APIs that every live genuine broker offers, each with the lowest and highest version that all of them
/// understand; empty while none is known.
pub type CommonRanges = Arc<dyn Fn() -> BTreeMap<ApiKey, (i16, i16)> + Send + Sync>;

/// What clients may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `socket.request.max.bytes`: the longest request, in bytes, without its length prefix.
    pub request_max_bytes: usize,
    /// `connections.max.idle.ms`: a connection on which nothing moves for so long is closed; `None`: never.
    pub connections_max_idle: Option<Duration>,
    /// How many connections one listener holds at a time. Each listener counts for itself, so that a flood of clients
    /// keeps no broker from its controller where brokers have a listener of their own.
    pub connections_max: usize,
}

impl Limits {
    /// Connections of one listener at most, however many files may be open.
    pub const CONNECTIONS_MAX: usize = 10_000;
}

impl Default for Limits {
    /// Kafka's defaults.
    fn default() -> Limits {
        Limits {
            request_max_bytes: klamm_codec::frame::DEFAULT_LIMIT,
            connections_max_idle: Some(Duration::from_secs(600)),
            connections_max: Limits::CONNECTIONS_MAX,
        }
    }
}

/// What the listener needs of the rest of the node.
#[derive(Clone)]
pub struct ServerContext {
    /// klamm's broker id.
    pub own_id: BrokerId,
    /// Where questions to the controller go.
    pub events: Arc<dyn EventSink>,
    /// Where its answers come from.
    pub open_slot: OpenSlot,
    /// Whether we are the controller, and the genuine brokers that are live.
    pub snapshot: watch::Receiver<ControllerSnapshot>,
    /// What the brokers understand.
    pub common_ranges: CommonRanges,
    /// What clients may cost.
    pub limits: Limits,
    /// Where what brokers ask their controller is captured.
    pub capture: CaptureTap,
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerContext")
            .field("own_id", &self.own_id)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
