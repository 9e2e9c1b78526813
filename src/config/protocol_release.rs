//! The value of `inter.broker.protocol.version`, read as the brokers read it.
//!
//! Upstream counterpart: `ApiVersion.apply`, later `MetadataVersion.fromVersionString`. It must never accept a value
//! that no broker of 1.0 to 3.9 accepts.

use std::fmt;

/// A step of the inter-broker protocol: `2.4-IV1` is major 2, minor 4, iv 1. Ordered as the releases are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolRelease {
    pub major: u8,
    pub minor: u8,
    /// The internal version within the release, from 0.
    pub iv: u8,
}

/// Each release with its last internal version.
const RELEASES: &[(u8, u8, u8)] = &[
    (1, 0, 0),
    (1, 1, 0),
    (2, 0, 1),
    (2, 1, 2),
    (2, 2, 1),
    (2, 3, 1),
    (2, 4, 1),
    (2, 5, 0),
    (2, 6, 0),
    (2, 7, 2),
    (2, 8, 1),
    (3, 0, 1),
    (3, 1, 0),
    (3, 2, 0),
    (3, 3, 3),
    (3, 4, 0),
    (3, 5, 2),
    (3, 6, 2),
    (3, 7, 4),
    (3, 8, 0),
    (3, 9, 0),
];

impl ProtocolRelease {
    /// Reads `2.4`, `2.4-IV1` or `2.4.1`: without an internal version the last of its release, and what follows a
    /// second dot is not looked at.
    ///
    /// # Errors
    /// The reason in words, for a value that names no release from 1.0 to 3.9.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("0.") {
            return Err(
                "klamm speaks the protocol of Kafka 1.0 and later; raise it on the brokers first"
                    .to_owned(),
            );
        }
        let unknown =
            || "no release of Kafka from 1.0 to 3.9; examples are 2.4, 2.4-IV1 and 3.9".to_owned();
        let (major, rest) = text.split_once('.').ok_or_else(unknown)?;
        let rest = rest.split('.').next().unwrap_or(rest);
        let (minor, iv) = match rest.split_once("-IV") {
            Some((minor, iv)) => (minor, Some(iv)),
            None => (rest, None),
        };
        let major = plain_number(major).ok_or_else(unknown)?;
        let minor = plain_number(minor).ok_or_else(unknown)?;
        let release = RELEASES
            .iter()
            .find(|release| (release.0, release.1) == (major, minor));
        let last = release.ok_or_else(unknown)?.2;
        let iv = match iv {
            Some(iv) => plain_number(iv)
                .filter(|iv| *iv <= last)
                .ok_or_else(unknown)?,
            None => last,
        };
        Ok(Self { major, minor, iv })
    }
}

/// Digits without sign or leading zero.
fn plain_number(text: &str) -> Option<u8> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

impl fmt::Display for ProtocolRelease {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}-IV{}", self.major, self.minor, self.iv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_normalised_as_the_brokers_do() {
        for (text, normal) in [
            ("2.4", "2.4-IV1"),
            ("2.4-IV0", "2.4-IV0"),
            ("2.4.1", "2.4-IV1"),
            ("1.0", "1.0-IV0"),
            ("3.9", "3.9-IV0"),
            ("3.9-IV0", "3.9-IV0"),
            ("3.7-IV2", "3.7-IV2"),
            ("2.8.x", "2.8-IV1"),
        ] {
            assert_eq!(ProtocolRelease::parse(text).unwrap().to_string(), normal);
        }
        assert!(
            ProtocolRelease::parse("2.8").unwrap() > ProtocolRelease::parse("2.7-IV2").unwrap()
        );
    }

    #[test]
    fn values_that_no_broker_takes_are_refused() {
        for text in [
            "",
            "2",
            "2.",
            "2.9",
            "4.0",
            "2.4-IV2",
            "2.4-iv1",
            "2.4-IV",
            "2.04",
            "+2.4",
            "3.10",
            "latest",
            "2.4-IV1-1",
        ] {
            assert!(ProtocolRelease::parse(text).is_err(), "{text}");
        }
        assert!(
            ProtocolRelease::parse("0.11.0")
                .unwrap_err()
                .contains("raise it on the brokers")
        );
    }
}
