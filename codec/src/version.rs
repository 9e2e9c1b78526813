//! Which version of an API to speak with a broker: the highest that it, we, and the cluster's inter-broker protocol
//! version allow. Upstream differs: the Java controller derives versions from its own inter-broker protocol version and
//! never asks. An unsupported version makes a broker close the connection without a word, so we ask.

use crate::api_key::ApiKey;
use crate::error::CodecError;
use kafka_protocol::messages::ApiVersionsResponse;
use std::collections::BTreeMap;

macro_rules! control_version {
    ($(#[$doc:meta])* $name:ident, $key:expr, $min:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i16);

        impl $name {
            pub const KEY: ApiKey = $key;
            pub const MIN: $name = $name($min);
            pub const MAX: $name = $name($max);

            pub fn new(version: i16) -> Result<$name, CodecError> {
                let (min, max) = ($min, $max);
                if (min..=max).contains(&version) {
                    Ok($name(version))
                } else {
                    Err(CodecError::NotAControlVersion { key: $key, version, min, max })
                }
            }

            pub fn get(self) -> i16 {
                self.0
            }
        }
    };
}

control_version!(
    /// A version of LeaderAndIsr that we write: 1 (Kafka 1.0) to 7 (3.4 and later).
    LeaderAndIsrVersion,
    ApiKey::LEADER_AND_ISR,
    1,
    7
);
control_version!(
    /// A version of StopReplica that we write: 0 (Kafka 1.0) to 4 (3.4 and later).
    StopReplicaVersion,
    ApiKey::STOP_REPLICA,
    0,
    4
);
control_version!(
    /// A version of UpdateMetadata that we write: 4 (Kafka 1.0) to 8 (3.4 and later).
    UpdateMetadataVersion,
    ApiKey::UPDATE_METADATA,
    4,
    8
);

/// The versions in which one broker gets its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlVersions {
    pub leader_and_isr: LeaderAndIsrVersion,
    pub stop_replica: StopReplicaVersion,
    pub update_metadata: UpdateMetadataVersion,
}

/// The highest versions that the inter-broker protocol version allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionCaps {
    pub leader_and_isr: i16,
    pub stop_replica: i16,
    pub update_metadata: i16,
}

impl VersionCaps {
    /// No other bound than what we can write.
    pub const NONE: VersionCaps = VersionCaps {
        leader_and_isr: LeaderAndIsrVersion::MAX.0,
        stop_replica: StopReplicaVersion::MAX.0,
        update_metadata: UpdateMetadataVersion::MAX.0,
    };
}

/// What a broker says that it understands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerVersions {
    ranges: BTreeMap<ApiKey, (i16, i16)>,
}

impl BrokerVersions {
    /// From an answer of any version; one with an error code says nothing.
    pub fn from_response(response: &ApiVersionsResponse) -> Result<BrokerVersions, CodecError> {
        if response.error_code != 0 {
            return Err(CodecError::ApiVersionsRefused {
                error_code: response.error_code,
            });
        }
        let ranges = response.api_keys.iter();
        let ranges = ranges.map(|api| (ApiKey(api.api_key), (api.min_version, api.max_version)));
        Ok(BrokerVersions {
            ranges: ranges.collect(),
        })
    }

    /// The lowest and highest version of an API, if the broker offers it.
    pub fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        self.ranges.get(&key).copied()
    }

    /// Whether the broker takes this version of an API.
    pub fn understands(&self, key: ApiKey, version: i16) -> bool {
        self.range(key)
            .is_some_and(|(min, max)| (min..=max).contains(&version))
    }

    /// All that the broker offers, in the order of the keys.
    pub fn ranges(&self) -> impl Iterator<Item = (ApiKey, i16, i16)> + '_ {
        self.ranges
            .iter()
            .map(|(key, (min, max))| (*key, *min, *max))
    }

    /// The highest version of an API from `ours_min` to `ours_max` that the broker understands.
    pub fn choose(&self, key: ApiKey, ours_min: i16, ours_max: i16) -> Result<i16, CodecError> {
        let (theirs_min, theirs_max) = self.range(key).ok_or(CodecError::ApiNotOffered { key })?;
        let highest = theirs_max.min(ours_max);
        if highest >= theirs_min.max(ours_min) {
            Ok(highest)
        } else {
            Err(CodecError::NoCommonVersion {
                key,
                theirs_min,
                theirs_max,
                ours_min,
                ours_max,
            })
        }
    }

    /// The versions for the three control requests, none above its cap.
    pub fn control(&self, caps: VersionCaps) -> Result<ControlVersions, CodecError> {
        Ok(ControlVersions {
            leader_and_isr: LeaderAndIsrVersion::new(self.choose_control(
                LeaderAndIsrVersion::KEY,
                LeaderAndIsrVersion::MIN.0,
                LeaderAndIsrVersion::MAX.0.min(caps.leader_and_isr),
            )?)?,
            stop_replica: StopReplicaVersion::new(self.choose_control(
                StopReplicaVersion::KEY,
                StopReplicaVersion::MIN.0,
                StopReplicaVersion::MAX.0.min(caps.stop_replica),
            )?)?,
            update_metadata: UpdateMetadataVersion::new(self.choose_control(
                UpdateMetadataVersion::KEY,
                UpdateMetadataVersion::MIN.0,
                UpdateMetadataVersion::MAX.0.min(caps.update_metadata),
            )?)?,
        })
    }

    /// Every ZooKeeper-mode broker offers the control requests, on every listener; a KRaft broker offers none.
    fn choose_control(&self, key: ApiKey, ours_min: i16, ours_max: i16) -> Result<i16, CodecError> {
        self.choose(key, ours_min, ours_max)
            .map_err(|error| match error {
                CodecError::ApiNotOffered { key } => CodecError::KRaftBroker { missing: key },
                other => other,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::api_versions_response::ApiVersion;

    fn broker(ranges: &[(i16, i16, i16)]) -> BrokerVersions {
        let keys = ranges.iter().map(|(key, min, max)| {
            ApiVersion::default()
                .with_api_key(*key)
                .with_min_version(*min)
                .with_max_version(*max)
        });
        BrokerVersions::from_response(&ApiVersionsResponse::default().with_api_keys(keys.collect()))
            .unwrap()
    }

    fn chosen(versions: ControlVersions) -> (i16, i16, i16) {
        (
            versions.leader_and_isr.get(),
            versions.stop_replica.get(),
            versions.update_metadata.get(),
        )
    }

    #[test]
    fn each_release_gets_the_highest_versions_that_it_accepts() {
        for (release, lisr, sr, umr) in [
            ("1.0", 1, 0, 4),
            ("2.2", 2, 1, 5),
            ("2.4", 4, 2, 6),
            ("2.8", 5, 3, 7),
            ("3.9", 7, 4, 8),
        ] {
            let broker = broker(&[(4, 0, lisr), (5, 0, sr), (6, 0, umr)]);
            assert_eq!(
                chosen(broker.control(VersionCaps::NONE).unwrap()),
                (lisr, sr, umr),
                "{release}"
            );
        }
    }

    #[test]
    fn a_broker_newer_than_us_gets_what_we_can_write() {
        let broker = broker(&[(4, 0, 9), (5, 0, 9), (6, 0, 9)]);
        assert_eq!(
            chosen(broker.control(VersionCaps::NONE).unwrap()),
            (7, 4, 8)
        );
    }

    #[test]
    fn the_inter_broker_protocol_version_caps_the_choice() {
        let broker = broker(&[(4, 0, 7), (5, 0, 4), (6, 0, 8)]);
        let caps = VersionCaps {
            leader_and_isr: 4,
            stop_replica: 2,
            update_metadata: 6,
        };
        assert_eq!(chosen(broker.control(caps).unwrap()), (4, 2, 6));
    }

    #[test]
    fn no_overlap_is_an_error_with_both_ranges() {
        let caps = VersionCaps {
            leader_and_isr: 4,
            ..VersionCaps::NONE
        };
        let error = broker(&[(4, 5, 7), (5, 0, 4), (6, 0, 8)])
            .control(caps)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "no common version of LeaderAndIsr: the broker has 5 to 7, we may use 1 to 4"
        );
        let error = broker(&[(4, 0, 7), (5, 0, 4), (6, 0, 3)])
            .control(VersionCaps::NONE)
            .unwrap_err();
        assert_eq!(
            error,
            CodecError::NoCommonVersion {
                key: ApiKey::UPDATE_METADATA,
                theirs_min: 0,
                theirs_max: 3,
                ours_min: 4,
                ours_max: 8
            }
        );
    }

    #[test]
    fn a_broker_without_the_control_requests_is_a_kraft_broker() {
        let broker = broker(&[(3, 0, 12), (18, 0, 3)]);
        let error = broker.control(VersionCaps::NONE).unwrap_err();
        assert_eq!(
            error,
            CodecError::KRaftBroker {
                missing: ApiKey::LEADER_AND_ISR
            }
        );
        assert_eq!(broker.choose(ApiKey::METADATA, 0, 9), Ok(9));
        assert_eq!(
            broker.choose(ApiKey::DESCRIBE_CONFIGS, 0, 4),
            Err(CodecError::ApiNotOffered {
                key: ApiKey::DESCRIBE_CONFIGS
            })
        );
    }

    #[test]
    fn a_refusal_is_not_taken_for_an_empty_offer() {
        let refused = ApiVersionsResponse::default().with_error_code(35);
        assert_eq!(
            BrokerVersions::from_response(&refused),
            Err(CodecError::ApiVersionsRefused { error_code: 35 })
        );
    }

    #[test]
    fn a_version_that_we_do_not_write_cannot_be_made() {
        assert_eq!(
            LeaderAndIsrVersion::new(0).unwrap_err().to_string(),
            "LeaderAndIsr v0 does not exist here: versions 1 to 7 do"
        );
        assert!(StopReplicaVersion::new(5).is_err());
        assert_eq!(
            UpdateMetadataVersion::new(4),
            Ok(UpdateMetadataVersion::MIN)
        );
    }
}
