//! A broker as it registers itself in `/brokers/ids/N`.
//!
//! Must never choose an endpoint by `host` and `port` of the registration: they mirror one listener at best.
//! Upstream: `Broker.scala`, `EndPoint.scala`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{BrokerEpoch, BrokerId};

/// How a listener is secured, with Kafka's wire numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecurityProtocol {
    /// No security.
    Plaintext = 0,
    /// TLS.
    Ssl = 1,
    /// SASL without encryption.
    SaslPlaintext = 2,
    /// SASL over TLS.
    SaslSsl = 3,
}

impl SecurityProtocol {
    /// Reads Kafka's name, in any case.
    pub fn from_name(name: &str) -> Option<SecurityProtocol> {
        [
            Self::Plaintext,
            Self::Ssl,
            Self::SaslPlaintext,
            Self::SaslSsl,
        ]
        .into_iter()
        .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// The number in UpdateMetadata.
    pub fn code(self) -> i16 {
        self as i16
    }
}

/// One advertised listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name, upper case by convention.
    pub listener: Arc<str>,
    /// Host name or address; never empty once registered.
    pub host: Arc<str>,
    /// Port, 1 to 65535 in practice; kept as registered.
    pub port: i32,
    /// How the listener is secured.
    pub security_protocol: SecurityProtocol,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.listener, self.host, self.port)
    }
}

/// Feature name → (minimum, maximum) level that a broker supports (KIP-584). Empty in every ZooKeeper-mode release.
pub type Features = BTreeMap<Arc<str>, (i16, i16)>;

/// What a broker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its id.
    pub id: BrokerId,
    /// Its listeners in the order registered.
    pub endpoints: Vec<Endpoint>,
    /// Its rack, if it has one.
    pub rack: Option<Arc<str>>,
    /// The features that it supports.
    pub features: Features,
}

impl Broker {
    /// The endpoint of the listener named `listener`.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.listener.as_ref() == listener)
    }
}

/// One registration: the broker, and the epoch that tells this incarnation from the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// The broker.
    pub broker: Broker,
    /// The registration's czxid.
    pub epoch: BrokerEpoch,
    /// The `version` in the JSON: 5 from IBP 2.7 on, 4 below. A lower bound of the broker's protocol when it can't be asked.
    pub json_version: i32,
}
