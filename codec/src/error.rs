//! What can be wrong with bytes, with a choice of versions, or with what we were asked to encode. Each variant says
//! what is wrong and where; none says what to do with the connection, which the owner of the socket decides.

use crate::api_key::ApiKey;
use std::fmt;
use thiserror::Error;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Request => "request",
            Direction::Response => "response",
        })
    }
}

/// Names one layout on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    pub key: ApiKey,
    pub direction: Direction,
    pub version: i16,
}

impl Message {
    pub fn request(key: ApiKey, version: i16) -> Message {
        Message {
            key,
            direction: Direction::Request,
            version,
        }
    }

    pub fn response(key: ApiKey, version: i16) -> Message {
        Message {
            key,
            direction: Direction::Response,
            version,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} v{}", self.key, self.direction, self.version)
    }
}

/// A field of a message, and the byte of the body (or header) at which it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub message: Message,
    pub field: &'static str,
    pub offset: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} at byte {}",
            self.message, self.field, self.offset
        )
    }
}

/// All that can go wrong in this crate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodecError {
    #[error("a frame of {size} bytes is over the limit of {limit}")]
    FrameTooLarge { size: usize, limit: usize },

    #[error("a frame announces a length of {length}")]
    FrameLengthNegative { length: i32 },

    #[error("the stream ended within a frame, {left} bytes after its start")]
    FrameCutShort { left: usize },

    #[error("{at}: {needed} bytes are needed and {left} are left")]
    Short { at: Place, needed: u64, left: usize },

    #[error("{at}: a length of {length}")]
    LengthNegative { at: Place, length: i64 },

    #[error("{at}: null, where a value must stand")]
    Null { at: Place },

    #[error("{at}: a length or tag does not fit 32 bits")]
    Varint { at: Place },

    #[error("{at}: tagged field {tag} comes after tag {previous}; tags must rise")]
    TagOrder { at: Place, tag: u32, previous: u32 },

    #[error("{at}: no tagged field has the number {tag}: they end at {max}", max = i32::MAX)]
    TagBeyond { at: Place, tag: u32 },

    #[error("{at}: tagged field {tag} announces {announced} bytes and takes {taken}")]
    TagSize {
        at: Place,
        tag: u32,
        announced: u32,
        taken: usize,
    },

    #[error("{at}: decoding would take {needed} bytes of memory, over the limit of {limit}")]
    TooManyElements { at: Place, needed: u64, limit: u64 },

    #[error("{at}: not UTF-8")]
    NotUtf8 { at: Place },

    #[error("{message}: {left} bytes follow the end of the message, at byte {offset}")]
    TrailingBytes {
        message: Message,
        offset: usize,
        left: usize,
    },

    #[error("{key} {direction}s cannot be decoded here")]
    NoSchema { key: ApiKey, direction: Direction },

    #[error("{message}: only versions {min} to {max} can be decoded here")]
    UnsupportedVersion {
        message: Message,
        min: i16,
        max: i16,
    },

    #[error("{message}: malformed: {detail}")]
    Malformed { message: Message, detail: String },

    #[error("{message}: cannot be encoded: {detail}")]
    NotEncodable { message: Message, detail: String },

    #[error("a {got} message was to be decoded as {wanted}")]
    WrongApi { wanted: ApiKey, got: ApiKey },

    #[error("{key} is not refused: it is answered, or the connection closed")]
    NotRefusable { key: ApiKey },

    #[error("a response of {left} bytes has no correlation id")]
    NoCorrelationId { left: usize },

    #[error("a response with correlation id {got} arrived while {expected} ({message}) was due")]
    CorrelationMismatch {
        message: Message,
        expected: i32,
        got: i32,
    },

    #[error("a response with correlation id {got} arrived while none was due")]
    ResponseUnexpected { got: i32 },

    #[error("{limit} requests are unanswered already; {key} v{version} must wait")]
    TooManyInFlight {
        key: ApiKey,
        version: i16,
        limit: usize,
    },

    #[error("the broker answered ApiVersions with error code {error_code}")]
    ApiVersionsRefused { error_code: i16 },

    #[error(
        "no common version of {key}: the broker has {theirs_min} to {theirs_max}, we may use {ours_min} to {ours_max}"
    )]
    NoCommonVersion {
        key: ApiKey,
        theirs_min: i16,
        theirs_max: i16,
        ours_min: i16,
        ours_max: i16,
    },

    #[error("the broker does not offer {key}")]
    ApiNotOffered { key: ApiKey },

    #[error(
        "the broker does not offer {missing}: it runs in KRaft mode and takes no orders from a ZooKeeper-mode controller"
    )]
    KRaftBroker { missing: ApiKey },

    #[error("{key} v{version} does not exist here: versions {min} to {max} do")]
    NotAControlVersion {
        key: ApiKey,
        version: i16,
        min: i16,
        max: i16,
    },

    #[error(
        "StopReplica v{version} has one delete flag for all partitions, and {topic}-{partition} differs from those before it"
    )]
    StopReplicaMixed {
        version: i16,
        topic: String,
        partition: i32,
    },

    #[error("{message}: {announced} {field} were announced and {given} given")]
    Miscounted {
        message: Message,
        field: &'static str,
        announced: usize,
        given: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(error: CodecError, text: &str) {
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn an_error_names_the_message_the_field_and_the_byte() {
        let message = Message::request(ApiKey::METADATA, 9);
        let at = Place {
            message,
            field: "topics",
            offset: 12,
        };
        says(
            CodecError::Short {
                at,
                needed: 4_000_000_000,
                left: 3,
            },
            "Metadata request v9, topics at byte 12: 4000000000 bytes are needed and 3 are left",
        );
        says(
            CodecError::LengthNegative { at, length: -2 },
            "Metadata request v9, topics at byte 12: a length of -2",
        );
        says(
            CodecError::NotUtf8 { at },
            "Metadata request v9, topics at byte 12: not UTF-8",
        );
    }

    #[test]
    fn an_unknown_api_is_named_by_its_number() {
        says(
            CodecError::NoSchema {
                key: ApiKey(999),
                direction: Direction::Response,
            },
            "API key 999 responses cannot be decoded here",
        );
    }

    #[test]
    fn a_version_error_names_the_api_and_both_ranges() {
        says(
            CodecError::NoCommonVersion {
                key: ApiKey::LEADER_AND_ISR,
                theirs_min: 0,
                theirs_max: 0,
                ours_min: 1,
                ours_max: 7,
            },
            "no common version of LeaderAndIsr: the broker has 0 to 0, we may use 1 to 7",
        );
    }
}
