//! Wiring.
pub mod clock;
pub mod queue;
pub mod replies;
