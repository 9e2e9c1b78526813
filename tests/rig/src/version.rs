//! Versions of genuine Kafka, and of the protocol that its brokers speak among themselves.
//!
//! Only what the rig has to know to fetch a release and to configure its brokers: nothing here may be asked what a
//! release can do on the wire.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

/// A Kafka release, `1.1.1` to `3.9.x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KafkaVersion {
    major: u8,
    minor: u8,
    patch: u8,
}

impl KafkaVersion {
    pub const V1_1_1: Self = Self::new(1, 1, 1);
    pub const V2_2_2: Self = Self::new(2, 2, 2);
    pub const V2_4_1: Self = Self::new(2, 4, 1);
    pub const V2_8_2: Self = Self::new(2, 8, 2);
    pub const V3_9_2: Self = Self::new(3, 9, 2);

    const fn new(major: u8, minor: u8, patch: u8) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether this is release `major.minor` or a later one.
    pub const fn at_least(self, major: u8, minor: u8) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }

    /// The Scala that the release's jars were built for: 2.13 exists from 2.4 on.
    pub const fn scala(self) -> &'static str {
        if self.at_least(2, 4) { "2.13" } else { "2.12" }
    }
}

impl fmt::Display for KafkaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for KafkaVersion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let numbers: Vec<u8> = text
            .split('.')
            .map(|part| {
                part.parse::<u8>()
                    .with_context(|| format!("`{text}` is not a Kafka version like 2.8.2"))
            })
            .collect::<anyhow::Result<_>>()?;
        let [major, minor, patch] = numbers[..] else {
            bail!("`{text}` is not a Kafka version like 2.8.2")
        };
        let version = Self::new(major, minor, patch);
        ensure!(
            version.at_least(1, 1) && !version.at_least(3, 10),
            "Kafka {text} is outside what the rig runs: 1.1.1 to 3.9.x, the releases with a ZooKeeper-mode controller"
        );
        Ok(version)
    }
}

/// The inter-broker protocol version (IBP) of a cluster, `major.minor`: the last one of that release; or one of those on
/// the way to it, `major.minor-IVn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ibp {
    major: u8,
    minor: u8,
    interim: Option<u8>,
}

impl Ibp {
    /// The highest that every one of `versions` speaks.
    pub fn lowest_of(versions: &[KafkaVersion]) -> Self {
        let lowest = versions
            .iter()
            .min()
            .copied()
            .unwrap_or(KafkaVersion::V2_4_1);
        Self {
            major: lowest.major,
            minor: lowest.minor,
            interim: None,
        }
    }

    /// `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self {
            major,
            minor,
            interim: None,
        }
    }

    /// From 3.0 on brokers take producer ids from the controller.
    pub const fn producer_ids_from_controller(self) -> bool {
        self.major >= 3
    }
}

impl fmt::Display for Ibp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.interim {
            Some(interim) => write!(f, "-IV{interim}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Ibp {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let wrong =
            || format!("`{text}` is not an inter-broker protocol version like 2.4 or 2.4-IV0");
        let (release, interim) = match text.split_once("-IV") {
            Some((release, interim)) => (release, Some(interim.parse().with_context(wrong)?)),
            None => (text, None),
        };
        let (major, minor) = release.split_once('.').with_context(wrong)?;
        Ok(Self {
            major: major.parse().with_context(wrong)?,
            minor: minor.parse().with_context(wrong)?,
            interim,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_outside_the_zookeeper_era_is_refused() {
        assert!("4.0.0".parse::<KafkaVersion>().is_err());
        assert!("0.11.0".parse::<KafkaVersion>().is_err());
        assert!("2.8".parse::<KafkaVersion>().is_err());
        assert_eq!(
            "3.9.2".parse::<KafkaVersion>().unwrap(),
            KafkaVersion::V3_9_2
        );
    }

    #[test]
    fn scala_2_13_is_asked_for_only_where_it_was_published() {
        assert_eq!(KafkaVersion::V2_2_2.scala(), "2.12");
        assert_eq!(KafkaVersion::V2_4_1.scala(), "2.13");
    }

    #[test]
    fn a_protocol_reads_back_as_it_was_written() {
        for text in ["1.1", "2.4", "2.4-IV0", "3.9"] {
            assert_eq!(text.parse::<Ibp>().unwrap().to_string(), text);
        }
        for text in ["2", "2.4.1", "2.4-IVx", "two.four"] {
            assert!(text.parse::<Ibp>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mixed_cluster_speaks_what_its_oldest_broker_speaks() {
        let versions = [
            KafkaVersion::V3_9_2,
            KafkaVersion::V2_4_1,
            KafkaVersion::V2_8_2,
        ];
        assert_eq!(Ibp::lowest_of(&versions).to_string(), "2.4");
    }
}
