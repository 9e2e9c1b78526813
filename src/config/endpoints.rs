//! Listeners, security protocols and host:port pairs in Kafka's notation.
//!
//! Upstream counterparts: `EndPoint.createEndPoint`, `CoreUtils.listenerListToEndPoints`, `ListenerName.normalised`.
//! Listener names are upper case throughout, as the brokers register them.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::SecurityProtocol;

/// Where klamm, or a broker, listens under a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Upper case.
    pub name: String,
    /// Without brackets; empty only in a broker's own `listeners`, where it means all interfaces.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Listener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}://{}",
            self.name,
            HostPort {
                host: self.host.clone(),
                port: self.port
            }
        )
    }
}

/// A host with its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

const PROTOCOLS: [SecurityProtocol; 4] = [
    SecurityProtocol::Plaintext,
    SecurityProtocol::Ssl,
    SecurityProtocol::SaslPlaintext,
    SecurityProtocol::SaslSsl,
];

/// Reads Kafka's name of a protocol, in any case.
///
/// # Errors
/// The reason in words.
pub fn parse_protocol(text: &str) -> Result<SecurityProtocol, String> {
    SecurityProtocol::from_name(text).ok_or_else(|| {
        let names = PROTOCOLS.map(SecurityProtocol::name).join(", ");
        format!("no security protocol is called {text}; Kafka's are {names}")
    })
}

/// Which protocol stands behind each listener name.
pub type ProtocolMap = BTreeMap<String, SecurityProtocol>;

/// Each protocol under its own name, Kafka's default for `listener.security.protocol.map`.
#[must_use]
pub fn default_protocol_map() -> ProtocolMap {
    PROTOCOLS
        .into_iter()
        .map(|protocol| (protocol.name().to_owned(), protocol))
        .collect()
}

/// Reads `NAME:PROTOCOL,NAME:PROTOCOL`.
///
/// # Errors
/// The reason in words.
pub fn parse_protocol_map(text: &str) -> Result<ProtocolMap, String> {
    comma_separated(text)
        .map(|pair| {
            let (name, protocol) = pair.rsplit_once(':').ok_or_else(|| {
                format!("{pair} is not LISTENER:PROTOCOL, for example INTERNAL:PLAINTEXT")
            })?;
            Ok((normalised(name), parse_protocol(protocol.trim())?))
        })
        .collect()
}

/// Reads `NAME://host:port,NAME://[ipv6]:port`. The host may be missing, as in a broker's `listeners`.
///
/// # Errors
/// The reason in words: not in this form, a name given twice, nothing at all.
pub fn parse_listeners(text: &str) -> Result<Vec<Listener>, String> {
    let mut listeners: Vec<Listener> = Vec::new();
    for item in comma_separated(text) {
        let wrong = || {
            format!(
                "{item} is not NAME://host:port, for example PLAINTEXT://klamm1.example.org:9192"
            )
        };
        let (name, address) = item.rsplit_once("://").ok_or_else(wrong)?;
        let (host, port) = split_port(address).ok_or_else(wrong)?;
        let name = normalised(name);
        if name.is_empty() {
            return Err(wrong());
        }
        if listeners.iter().any(|known| known.name == name) {
            return Err(format!("the listener name {name} stands there twice"));
        }
        listeners.push(Listener {
            name,
            host: host.to_owned(),
            port,
        });
    }
    if listeners.is_empty() {
        return Err("no listener is given".to_owned());
    }
    Ok(listeners)
}

/// Reads `host:port`, `[ipv6]:port` or `:port`, the last meaning all IPv4 interfaces.
///
/// # Errors
/// The reason in words.
pub fn parse_listen_address(text: &str) -> Result<HostPort, String> {
    let wrong = || format!("{text} is not host:port, for example 127.0.0.1:9180");
    let (host, port) = split_port(text).ok_or_else(wrong)?;
    if port == 0 {
        return Err("port 0 is no fixed address".to_owned());
    }
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    Ok(HostPort {
        host: host.to_owned(),
        port,
    })
}

/// A host without brackets, perhaps empty, with its port.
pub(super) fn split_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| port.parse().ok())
        .flatten()?;
    let bare = match host.strip_prefix('[') {
        Some(inner) => inner
            .strip_suffix(']')
            .filter(|inner| inner.contains(':'))?,
        None if host.contains([']', ':']) => return None,
        None => host,
    };
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || "-%._:".contains(character);
    bare.chars().all(allowed).then_some((bare, port))
}

/// A listener name as the brokers keep it.
#[must_use]
pub fn normalised(name: &str) -> String {
    name.trim().to_uppercase()
}

/// The parts of a comma-separated list, trimmed, the empty ones left out, as Kafka's `Csv`.
pub(super) fn comma_separated(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// Addresses that a listener can bind, but nobody can dial.
pub(super) fn dials_nowhere(host: &str) -> bool {
    matches!(host, "" | "0.0.0.0" | "::")
}

pub(super) fn check_own_listeners(listeners: &[Listener], needed: &[String]) -> Result<(), String> {
    for (index, listener) in listeners.iter().enumerate() {
        if listener.port == 0 {
            return Err(format!(
                "{listener} has port 0; brokers and clients need a fixed one"
            ));
        }
        let same = |other: &&Listener| other.host == listener.host && other.port == listener.port;
        if let Some(other) = listeners.iter().take(index).find(same) {
            return Err(format!(
                "{} and {} share an address",
                other.name, listener.name
            ));
        }
    }
    let lacks = |name: &&String| !listeners.iter().any(|listener| listener.name == **name);
    let missing: Vec<_> = needed.iter().filter(lacks).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "klamm must listen on every listener name that the brokers have; missing: {}",
        missing.join(", ")
    ))
}

pub(super) fn in_order_of(listeners: &[Listener], text: &str) -> Result<Vec<Listener>, String> {
    let advertised = parse_listeners(text)?;
    if let Some(listener) = advertised
        .iter()
        .find(|listener| dials_nowhere(&listener.host) || listener.port == 0)
    {
        return Err(format!("{listener} is no address that others can dial"));
    }
    let ordered: Vec<_> = listeners
        .iter()
        .filter_map(|own| {
            advertised
                .iter()
                .find(|listener| listener.name == own.name)
                .cloned()
        })
        .collect();
    if ordered.len() == listeners.len() && ordered.len() == advertised.len() {
        Ok(ordered)
    } else {
        Err("must name the same listeners as klamm.listeners".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_in_kafkas_notation() {
        let listeners = parse_listeners(
            " PLAINTEXT://:9092 , internal://[::1]:9093,EXT://a-b.example.org:19094",
        )
        .unwrap();
        let shown: Vec<_> = listeners.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "PLAINTEXT://:9092",
                "INTERNAL://[::1]:9093",
                "EXT://a-b.example.org:19094"
            ]
        );
    }

    #[test]
    fn wrong_listeners_are_refused_with_an_example() {
        for text in [
            "host:9092",
            "A://host",
            "A://host:",
            "A://host:99999",
            "A://host:-1",
            "://host:1",
            "A://ho st:1",
            "A://::1:9092",
            "A://[host]:1",
        ] {
            assert!(
                parse_listeners(text).unwrap_err().contains("for example"),
                "{text}"
            );
        }
        assert!(
            parse_listeners("A://a:1,a://b:2")
                .unwrap_err()
                .contains("A stands there twice")
        );
        assert!(parse_listeners(" , ").is_err());
    }

    #[test]
    fn protocols_and_their_map_are_read_in_any_case() {
        let map = parse_protocol_map("internal:plaintext,CLIENT : SASL_SSL").unwrap();
        assert_eq!(map.get("INTERNAL"), Some(&SecurityProtocol::Plaintext));
        assert_eq!(map.get("CLIENT"), Some(&SecurityProtocol::SaslSsl));
        assert!(parse_protocol_map("INTERNAL").is_err());
        assert!(
            parse_protocol_map("INTERNAL:TLS")
                .unwrap_err()
                .contains("no security protocol is called TLS")
        );
        assert_eq!(default_protocol_map().len(), 4);
    }

    #[test]
    fn listen_addresses_take_a_bare_port() {
        assert_eq!(
            parse_listen_address(":9180").unwrap().to_string(),
            "0.0.0.0:9180"
        );
        assert_eq!(
            parse_listen_address("[::1]:9180").unwrap().to_string(),
            "[::1]:9180"
        );
        for text in ["9180", "host:0", "host:x", ""] {
            assert!(parse_listen_address(text).is_err(), "{text}");
        }
    }
}
