//! Bytes to Kafka frames and back, on kafka-protocol. In the order that data takes:
//!
//! - [`frame`]: the length prefix; a [`Frame`] is ready to write, a `Bytes` payload is one that was read;
//! - [`request`] and [`response`]: headers and bodies, in both directions;
//! - [`pending`]: which request a response belongs to;
//! - [`guard`]: every length that came over a socket is checked before kafka-protocol sees it. There is no way
//!   round it: the decode functions take only what the guard has passed, and kafka-protocol's own traits are
//!   not exported;
//! - [`version`]: which versions to speak with a broker;
//! - [`control`]: LeaderAndIsr, StopReplica and UpdateMetadata, written straight from borrowed views;
//! - [`tree`]: any message as named values, to be shown; [`error_code`]: the names of Kafka's errors;
//! - [`refusal`]: the answers that send a client to the leader or coordinator that it is looking for;
//! - [`capture`]: frames out of packet captures, and into them.
//!
//! Pure: no sockets, no clocks, and no knowledge of what a controller is.

pub mod api_key;
pub mod capture;
pub mod control;
pub mod error;
pub mod error_code;
pub mod frame;
pub mod guard;
pub mod pending;
pub mod refusal;
pub mod request;
pub mod response;
pub mod tree;
pub mod version;

pub use api_key::ApiKey;
pub use bytes;
pub use error::{CodecError, Direction, Message, Place};
pub use frame::{Frame, FrameCodec};
pub use request::{Api, RequestHeader};
pub use uuid::Uuid;

/// kafka-protocol's message types: plain data; to encode and decode them, see [`request`] and [`response`].
pub use kafka_protocol::messages;
pub use kafka_protocol::protocol::StrBytes;
