//! The error codes of Kafka's protocol that a controller says or hears.
//!
//! Must never hold text of its own: what an operator reads is made where the error arises. Upstream: `Errors.java`,
//! `ApiError.java`.

use std::borrow::Cow;

use super::TopicName;

/// An error code on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KafkaError(pub i16);

/// Why something that a client asked for is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The code, by which clients decide.
    pub error: KafkaError,
    /// What is wrong and what to do, for whoever reads the client's log.
    pub message: String,
}

impl ApiError {
    /// An error with its explanation.
    pub fn new(error: KafkaError, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError { error, message }
    }

    /// The same, beginning with the topic that it is about. What clients put into their requests may be long, and an answer
    /// has no room for texts above 32 KiB: name and message are cut.
    #[must_use]
    pub fn about_topic(self, topic: &TopicName) -> ApiError {
        const NAME_MAX: usize = 249;
        const MESSAGE_MAX: usize = 4_000;
        let name = cut(topic.as_str(), NAME_MAX);
        ApiError {
            message: format!("topic {name}: {}", cut(&self.message, MESSAGE_MAX)),
            ..self
        }
    }
}

/// The beginning of a text, in characters, and a sign that there was more.
fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.error, self.message)
    }
}

macro_rules! codes {
    ($($name:ident = $code:literal),+ $(,)?) => {
        #[allow(missing_docs)]
        impl KafkaError {
            $(pub const $name: KafkaError = KafkaError($code);)+

            /// Kafka's name of the code, or its number.
            pub fn name(self) -> Cow<'static, str> {
                match self.0 {
                    $($code => Cow::Borrowed(stringify!($name)),)+
                    other => Cow::Owned(format!("code {other}")),
                }
            }
        }
    };
}

codes! {
    UNKNOWN_SERVER_ERROR = -1,
    NONE = 0,
    UNKNOWN_TOPIC_OR_PARTITION = 3,
    LEADER_NOT_AVAILABLE = 5,
    NOT_LEADER_OR_FOLLOWER = 6,
    REQUEST_TIMED_OUT = 7,
    BROKER_NOT_AVAILABLE = 8,
    STALE_CONTROLLER_EPOCH = 11,
    COORDINATOR_NOT_AVAILABLE = 15,
    NOT_COORDINATOR = 16,
    INVALID_TOPIC_EXCEPTION = 17,
    CLUSTER_AUTHORIZATION_FAILED = 31,
    UNSUPPORTED_SASL_MECHANISM = 33,
    UNSUPPORTED_VERSION = 35,
    TOPIC_ALREADY_EXISTS = 36,
    INVALID_PARTITIONS = 37,
    INVALID_REPLICATION_FACTOR = 38,
    INVALID_REPLICA_ASSIGNMENT = 39,
    INVALID_CONFIG = 40,
    NOT_CONTROLLER = 41,
    INVALID_REQUEST = 42,
    OPERATION_NOT_ATTEMPTED = 55,
    KAFKA_STORAGE_ERROR = 56,
    REASSIGNMENT_IN_PROGRESS = 60,
    TOPIC_DELETION_DISABLED = 73,
    FENCED_LEADER_EPOCH = 74,
    STALE_BROKER_EPOCH = 77,
    PREFERRED_LEADER_NOT_AVAILABLE = 80,
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83,
    ELECTION_NOT_NEEDED = 84,
    NO_REASSIGNMENT_IN_PROGRESS = 85,
    THROTTLING_QUOTA_EXCEEDED = 89,
    RESOURCE_NOT_FOUND = 91,
    DUPLICATE_RESOURCE = 92,
    UNACCEPTABLE_CREDENTIAL = 93,
    INVALID_UPDATE_VERSION = 95,
    FEATURE_UPDATE_FAILED = 96,
    UNKNOWN_TOPIC_ID = 100,
    BROKER_ID_NOT_REGISTERED = 102,
    INCONSISTENT_TOPIC_ID = 103,
    INELIGIBLE_REPLICA = 107,
}

impl KafkaError {
    /// Whether this is "no error".
    pub fn is_none(self) -> bool {
        self == KafkaError::NONE
    }
}

impl std::fmt::Display for KafkaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
