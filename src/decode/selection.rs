//! Which entries of a capture the user wants to see. Broken bytes and gaps have neither key nor topic: they are shown
//! whenever their connection is, because what is missing may be what was looked for. Pure.

use core::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use klamm_codec::ApiKey;
use klamm_codec::capture::{Ends, What};
use klamm_codec::tree::Value;

use super::exchange::Exchange;
use super::words::TopicNames;

/// All must hold of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Any of these; none means all.
    pub keys: Vec<ApiKey>,
    pub broker: Option<BrokerEnd>,
    pub topic: Option<String>,
}

/// One end of a connection, as far as the user knows it. It may be either end: a controller dials brokers, and brokers
/// dial the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerEnd {
    Port(u16),
    Host(IpAddr),
    Socket(SocketAddr),
}

impl BrokerEnd {
    fn is_end_of(self, ends: Ends) -> bool {
        [ends.client, ends.server]
            .into_iter()
            .any(|end| match self {
                BrokerEnd::Port(port) => end.port() == port,
                BrokerEnd::Host(host) => end.ip().to_canonical() == host,
                BrokerEnd::Socket(socket) => {
                    end.ip().to_canonical() == socket.ip() && end.port() == socket.port()
                }
            })
    }

    /// The port, where one is given.
    pub fn port(self) -> Option<u16> {
        match self {
            BrokerEnd::Port(port) => Some(port),
            BrokerEnd::Host(_) => None,
            BrokerEnd::Socket(socket) => Some(socket.port()),
        }
    }
}

impl FromStr for BrokerEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(BrokerEnd::Port(port));
        }
        if let Ok(host) = text.parse::<IpAddr>() {
            return Ok(BrokerEnd::Host(host.to_canonical()));
        }
        text.parse::<SocketAddr>()
            .map(|end| BrokerEnd::Socket(SocketAddr::new(end.ip().to_canonical(), end.port())))
            .map_err(|_| {
                "expected a port, an IP address, or both (10.0.0.1:9092, [fd00::1]:9092); a capture knows no host names"
                    .to_owned()
            })
    }
}

impl Selection {
    /// Whether anything is left out at all.
    pub fn is_everything(&self) -> bool {
        *self == Selection::default()
    }

    /// Whether the user wants to see this.
    pub fn wants(&self, exchange: &Exchange<'_>, names: &TopicNames) -> bool {
        let is_connection = match (self.broker, exchange.entry.ends) {
            (None, _) => true,
            (Some(broker), Some(ends)) => broker.is_end_of(ends),
            (Some(_), None) => false,
        };
        is_connection && (is_of_anything(&exchange.entry.what) || self.wants_said(exchange, names))
    }

    fn wants_said(&self, exchange: &Exchange<'_>, names: &TopicNames) -> bool {
        let is_key = self.keys.is_empty()
            || exchange
                .api
                .is_some_and(|(key, _)| self.keys.contains(&key));
        let is_topic = match &self.topic {
            None => true,
            Some(topic) => {
                exchange.broken_parts() > 0
                    || exchange.trees().any(|tree| mentions(tree, topic, names))
            }
        };
        is_key && is_topic
    }
}

fn is_of_anything(what: &What) -> bool {
    match what {
        What::Broken { .. } | What::Gap { .. } => true,
        What::Request { .. } | What::Answer { .. } => false,
    }
}

fn mentions(tree: &Value, topic: &str, names: &TopicNames) -> bool {
    match tree {
        Value::Text(text) => text == topic,
        Value::Uuid(id) => names.get(*id) == Some(topic),
        Value::List(items) => items.iter().any(|item| mentions(item, topic, names)),
        Value::Record(fields) => fields
            .iter()
            .any(|(_, value)| mentions(value, topic, names)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Bytes(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use klamm_codec::Direction;
    use klamm_codec::capture::Entry;
    use klamm_codec::messages::stop_replica_request::StopReplicaTopicV1;
    use klamm_codec::messages::{StopReplicaRequest, TopicName};

    use super::*;
    use crate::decode::sample::{entry, unanswered};

    /// 10.0.0.9:41022 to 10.0.0.1:9092, about topic orders.
    fn request() -> Entry {
        let topic = StopReplicaTopicV1::default().with_name(TopicName("orders".to_owned().into()));
        unanswered(1, &StopReplicaRequest::default().with_topics(vec![topic]))
    }

    fn gap() -> Entry {
        entry(What::Gap {
            at: None,
            offset: 0,
            direction: Direction::Request,
            missing_bytes: 1,
        })
    }

    fn shows(selection: &Selection, entry: &Entry) -> bool {
        selection.wants(&Exchange::read(entry, None), &TopicNames::default())
    }

    #[test]
    fn a_broker_is_either_end_by_port_address_or_both() {
        for (end, is_shown) in [
            ("9092", true),
            ("41022", true),
            ("9093", false),
            ("10.0.0.1", true),
            ("::ffff:10.0.0.9", true),
            ("10.0.0.2", false),
            ("10.0.0.1:9092", true),
            ("10.0.0.9:9092", false),
        ] {
            let selection = Selection {
                broker: Some(end.parse().unwrap()),
                ..Selection::default()
            };
            assert_eq!(shows(&selection, &request()), is_shown, "{end}");
            assert_eq!(shows(&selection, &gap()), is_shown, "{end}");
        }
        let error = "broker-1:9092".parse::<BrokerEnd>().unwrap_err();
        assert!(error.contains("no host names"), "{error}");
    }

    #[test]
    fn keys_and_topics_leave_out_what_is_about_others_but_never_what_is_missing() {
        let of_key = |key| Selection {
            keys: vec![ApiKey::FETCH, key],
            ..Selection::default()
        };
        let of_topic = |topic: &str| Selection {
            topic: Some(topic.to_owned()),
            ..Selection::default()
        };
        for (selection, is_shown) in [
            (of_key(ApiKey::STOP_REPLICA), true),
            (of_key(ApiKey::PRODUCE), false),
            (of_topic("orders"), true),
            (of_topic("order"), false),
        ] {
            assert_eq!(shows(&selection, &request()), is_shown, "{selection:?}");
            assert!(shows(&selection, &gap()), "{selection:?}");
        }
    }
}
