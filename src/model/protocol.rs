//! The inter-broker protocol version (IBP) and what each one switches on.
//!
//! Must never be taken for a broker's release: a 3.9 broker may run at IBP 2.4. Upstream: `ApiVersion.scala`, `MetadataVersion.java`.

use std::fmt;
use std::str::FromStr;

/// An inter-broker protocol version: release and internal step, `2.7-IV2` for instance. Ordered as Kafka orders them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterBrokerProtocol {
    major: u8,
    minor: u8,
    step: u8,
}

/// The last internal step of each release; a bare `2.7` means `2.7-IV2`. From Kafka's own tables.
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

/// Text that names no protocol version of Kafka 1.0 to 3.9.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no inter-broker protocol version of Kafka 1.0 to 3.9; use the value the brokers run with, such as 2.8 or 2.8-IV1"
)]
pub struct UnknownProtocol(pub String);

impl InterBrokerProtocol {
    /// The oldest that klamm serves.
    pub const OLDEST: InterBrokerProtocol = Self::new(1, 0, 0);
    /// The newest that a ZooKeeper-mode broker can run.
    pub const NEWEST: InterBrokerProtocol = Self::new(3, 9, 0);

    /// `major.minor-IVstep`.
    pub const fn new(major: u8, minor: u8, step: u8) -> InterBrokerProtocol {
        InterBrokerProtocol { major, minor, step }
    }

    /// What to assume of a broker that can't be asked: the last protocol without anything that would hurt an older one.
    /// Registration JSON 5 is written from IBP 2.7-IV0 on.
    pub fn assumed_from_registration(json_version: i32) -> InterBrokerProtocol {
        if json_version >= 5 {
            Self::new(2, 7, 0)
        } else {
            Self::new(2, 6, 0)
        }
    }

    /// Topics get ids (KIP-516).
    pub fn has_topic_ids(self) -> bool {
        self >= Self::new(2, 8, 0)
    }

    /// Leaders change their in-sync set by AlterPartition instead of writing ZooKeeper (KIP-497).
    pub fn has_alter_partition(self) -> bool {
        self >= Self::new(2, 7, 2)
    }

    /// `/feature` is in use (KIP-584).
    pub fn has_feature_versioning(self) -> bool {
        self >= Self::new(2, 7, 0)
    }

    /// `/feature` is written in its version 2 (KAFKA-13833).
    pub fn has_feature_znode_v2(self) -> bool {
        self >= Self::new(3, 3, 0)
    }

    /// Unclean elections are marked RECOVERING (KIP-704).
    pub fn has_leader_recovery(self) -> bool {
        self >= Self::new(3, 2, 0)
    }

    /// The highest LeaderAndIsr version to send.
    pub fn leader_and_isr_version(self) -> i16 {
        match self {
            p if p >= Self::new(3, 4, 0) => 7,
            p if p >= Self::new(3, 2, 0) => 6,
            p if p >= Self::new(2, 8, 1) => 5,
            p if p >= Self::new(2, 4, 1) => 4,
            p if p >= Self::new(2, 4, 0) => 3,
            p if p >= Self::new(2, 2, 0) => 2,
            _ => 1,
        }
    }

    /// The highest StopReplica version to send.
    pub fn stop_replica_version(self) -> i16 {
        match self {
            p if p >= Self::new(3, 4, 0) => 4,
            p if p >= Self::new(2, 6, 0) => 3,
            p if p >= Self::new(2, 4, 1) => 2,
            p if p >= Self::new(2, 2, 0) => 1,
            _ => 0,
        }
    }

    /// The highest UpdateMetadata version to send.
    pub fn update_metadata_version(self) -> i16 {
        match self {
            p if p >= Self::new(3, 4, 0) => 8,
            p if p >= Self::new(2, 8, 1) => 7,
            p if p >= Self::new(2, 4, 1) => 6,
            p if p >= Self::new(2, 2, 0) => 5,
            _ => 4,
        }
    }
}

impl fmt::Display for InterBrokerProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}-IV{}", self.major, self.minor, self.step)
    }
}

impl FromStr for InterBrokerProtocol {
    type Err = UnknownProtocol;

    /// Reads `2.7`, `2.7.1` (the release's last step, as Kafka does) or `2.7-IV1`.
    fn from_str(text: &str) -> Result<InterBrokerProtocol, UnknownProtocol> {
        let unknown = || UnknownProtocol(text.to_owned());
        let (release, step) = match text.split_once("-IV") {
            Some((release, step)) => (release, Some(step.parse::<u8>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        let mut numbers = release.split('.').map(|number| number.parse::<u8>());
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(unknown());
        };
        let rest_is_numeric = numbers.all(|number| number.is_ok());
        let known = RELEASES.iter().find(|(m, n, _)| (*m, *n) == (major, minor));
        match known {
            Some((_, _, last)) if rest_is_numeric && step.is_none_or(|step| step <= *last) => {
                Ok(Self::new(major, minor, step.unwrap_or(*last)))
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(text: &str) -> InterBrokerProtocol {
        text.parse().unwrap()
    }

    /// Upstream: `test…InterBrokerProtocolVersion` for the three requests, over every protocol that there is.
    #[test]
    fn every_step_between_two_thresholds_sends_what_the_lower_one_says() {
        let leader_and_isr = [
            ("1.0-IV0", 1),
            ("2.2-IV0", 2),
            ("2.4-IV0", 3),
            ("2.4-IV1", 4),
            ("2.8-IV1", 5),
            ("3.2-IV0", 6),
            ("3.4-IV0", 7),
        ];
        let stop_replica = [
            ("1.0-IV0", 0),
            ("2.2-IV0", 1),
            ("2.4-IV1", 2),
            ("2.6-IV0", 3),
            ("3.4-IV0", 4),
        ];
        let update_metadata = [
            ("1.0-IV0", 4),
            ("2.2-IV0", 5),
            ("2.4-IV1", 6),
            ("2.8-IV1", 7),
            ("3.4-IV0", 8),
        ];
        let at = |thresholds: &[(&str, i16)], ibp| {
            let mut reached = thresholds.iter().filter(|(from, _)| protocol(from) <= ibp);
            reached.next_back().map(|(_, version)| *version)
        };
        for (major, minor, last) in RELEASES {
            for step in 0..=*last {
                let ibp = InterBrokerProtocol::new(*major, *minor, step);
                let sent = [
                    ibp.leader_and_isr_version(),
                    ibp.stop_replica_version(),
                    ibp.update_metadata_version(),
                ];
                let expected = [&leader_and_isr[..], &stop_replica, &update_metadata]
                    .map(|thresholds| at(thresholds, ibp));
                assert_eq!(sent.map(Some), expected, "{ibp}");
            }
        }
    }

    #[test]
    fn a_bare_release_means_its_last_step() {
        assert_eq!(protocol("2.7"), protocol("2.7-IV2"));
        assert_eq!(protocol("2.4.1"), protocol("2.4-IV1"));
        assert!(protocol("2.7-IV0") < protocol("2.7"));
        assert!(protocol("2.10".replace("10", "8").as_str()) < protocol("3.0"));
    }

    #[test]
    fn text_that_names_no_protocol_is_refused() {
        for text in ["", "2", "4.0", "0.11", "2.7-IV3", "2.x", "2.7-IVx", "2.7.x"] {
            assert_eq!(
                text.parse::<InterBrokerProtocol>(),
                Err(UnknownProtocol(text.to_owned()))
            );
        }
    }

    #[test]
    fn request_versions_are_those_the_java_controller_sends_at_each_release() {
        let table = [
            ("1.0", 1, 0, 4),
            ("2.1", 1, 0, 4),
            ("2.2", 2, 1, 5),
            ("2.4-IV0", 3, 1, 5),
            ("2.4", 4, 2, 6),
            ("2.6", 4, 3, 6),
            ("2.8-IV0", 4, 3, 6),
            ("2.8", 5, 3, 7),
            ("3.1", 5, 3, 7),
            ("3.2", 6, 3, 7),
            ("3.4", 7, 4, 8),
            ("3.9", 7, 4, 8),
        ];
        for (text, leader_and_isr, stop_replica, update_metadata) in table {
            let ibp = protocol(text);
            assert_eq!(ibp.leader_and_isr_version(), leader_and_isr, "{text}");
            assert_eq!(ibp.stop_replica_version(), stop_replica, "{text}");
            assert_eq!(ibp.update_metadata_version(), update_metadata, "{text}");
        }
    }
}
