//! What an operator sees: metrics under the Java controller's names, health pages, and logs in its format.
//!
//! Shell. It watches and never decides; no scrape and no log line may panic, block the event loop, or cost it more than
//! an atomic or a short lock. Upstream counterparts: `ControllerStats`, the gauges of `KafkaController`, log4j.

pub mod capture;
pub mod exposition;
pub mod health;
pub mod http;
pub mod instruments;
pub mod log_file;
pub mod log_format;
pub mod metrics;
pub mod state_change_log;
pub mod telemetry;

pub use capture::{Capture, CaptureTap, TappedConnection};
pub use health::{Health, HealthSnapshot, Readiness, Role, SessionState};
pub use metrics::{ChannelMetrics, FailoverPhase, Metrics, SessionEvent};
pub use state_change_log::STATE_CHANGE;
