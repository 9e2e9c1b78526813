//! What `/feature` should say, and which brokers it keeps out.
//!
//! Must never finalize a feature: a broker that lacks a finalized feature ends its process, and so does one that sees the
//! node's version fall, so the node is never deleted either. Upstream: `KafkaController.maybeSetupFeatureVersioning`,
//! `partitionOnFeatureCompatibility`, `BrokerFeatures`, `FeatureZNode` (KIP-584).

use std::collections::BTreeMap;

use crate::effect::{FeatureZnode, Read, ZkWrite};
use crate::model::{Broker, InterBrokerProtocol};

/// The newest `version` of the node's JSON that there is.
const NEWEST_JSON_VERSION: i32 = 2;

/// What to do about `/feature`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeaturePlan {
    /// It says what it should.
    Leave,
    /// Create or set it.
    Write(ZkWrite),
    /// It can't be understood, and why: left as it is, since whoever wrote it may know more than we do. Brokers take it
    /// for absent.
    Unreadable(String),
}

/// What to do about `/feature` when a term begins, at the cluster's protocol.
///
/// From 2.7-IV0 on the node is enabled and keeps the features that it has while it was enabled; a disabled one is enabled
/// without any. Below, it is disabled and empty if it is there, and not created: a cluster of releases that don't know it is
/// left without it (the Java controller of 2.7 and later creates it disabled, which its brokers take for the same). The JSON's version is 2 from 3.3-IV0 on, and 1 below: older brokers can't
/// read 2 (KAFKA-13833).
pub fn desired(protocol: InterBrokerProtocol, current: &Read<(FeatureZnode, i32)>) -> FeaturePlan {
    let enabled = protocol.has_feature_versioning();
    let json_version = if protocol.has_feature_znode_v2() {
        2
    } else {
        1
    };
    match current {
        Read::Missing if !enabled => FeaturePlan::Leave,
        Read::Missing => FeaturePlan::Write(ZkWrite::CreateFeature(FeatureZnode {
            json_version,
            enabled,
            levels: BTreeMap::new(),
        })),
        Read::Broken(why) => FeaturePlan::Unreadable(why.clone()),
        Read::Found((found, _)) if !(1..=NEWEST_JSON_VERSION).contains(&found.json_version) => {
            FeaturePlan::Unreadable(format!(
                "/feature has version {} of its JSON; klamm knows 1 to {NEWEST_JSON_VERSION}",
                found.json_version
            ))
        }
        Read::Found((found, zk_version)) => {
            let levels = if enabled && found.enabled {
                found.levels.clone()
            } else {
                BTreeMap::new()
            };
            let znode = FeatureZnode {
                json_version,
                enabled,
                levels,
            };
            if znode == *found {
                FeaturePlan::Leave
            } else {
                FeaturePlan::Write(ZkWrite::SetFeature {
                    znode,
                    expected: *zk_version,
                })
            }
        }
    }
}

/// Why `broker` can't be part of a cluster with these finalized features, if it can't. Such a broker is on its way to end
/// its own process, and is kept out of the live brokers until it registers with other features.
///
/// In version 2 of the JSON a feature has one level; only the upper number counts then.
pub fn incompatible(finalized: &FeatureZnode, broker: &Broker) -> Option<String> {
    if !finalized.enabled {
        return None;
    }
    finalized.levels.iter().find_map(|(feature, (min, max))| {
        let lowest_needed = if finalized.json_version >= 2 { max } else { min };
        match broker.features.get(feature.as_str()) {
            None => Some(format!(
                "feature {feature} is finalized at level {max} in /feature, and broker {} doesn't support it at all",
                broker.id
            )),
            Some((lowest, highest)) if lowest_needed < lowest || max > highest => Some(format!(
                "feature {feature} is finalized at level {max} in /feature, and broker {} supports levels {lowest} to {highest}",
                broker.id
            )),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster::registration;

    fn protocol(text: &str) -> InterBrokerProtocol {
        text.parse().unwrap()
    }

    fn znode(json_version: i32, enabled: bool, levels: &[(&str, i16, i16)]) -> FeatureZnode {
        FeatureZnode {
            json_version,
            enabled,
            levels: levels
                .iter()
                .map(|(name, min, max)| ((*name).to_owned(), (*min, *max)))
                .collect(),
        }
    }

    /// What the node says afterwards; `None`: it is left alone.
    fn after(ibp: &str, before: Option<FeatureZnode>) -> Option<FeatureZnode> {
        let current = before.map_or(Read::Missing, |found| Read::Found((found, 6)));
        match desired(protocol(ibp), &current) {
            FeaturePlan::Leave => None,
            FeaturePlan::Write(ZkWrite::CreateFeature(created)) => {
                assert_eq!(current, Read::Missing, "created what is there");
                Some(created)
            }
            FeaturePlan::Write(ZkWrite::SetFeature { znode, expected }) => {
                assert_eq!(expected, 6, "set under another version than was read");
                Some(znode)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_absent_node_is_created_empty_from_2_7_on_and_left_absent_below() {
        let table = [
            ("1.0", None),
            ("2.6", None),
            ("2.7-IV0", Some(znode(1, true, &[]))),
            ("3.2", Some(znode(1, true, &[]))),
            ("3.3-IV0", Some(znode(2, true, &[]))),
            ("3.9", Some(znode(2, true, &[]))),
        ];
        for (ibp, expected) in table {
            assert_eq!(after(ibp, None), expected, "{ibp}");
        }
    }

    #[test]
    fn a_disabled_node_is_enabled_without_features_from_2_7_on_and_left_below() {
        let stale = znode(1, false, &[("some", 1, 2)]);
        assert_eq!(after("2.7-IV0", Some(stale)), Some(znode(1, true, &[])));
        assert_eq!(
            after("2.8", Some(znode(1, false, &[]))),
            Some(znode(1, true, &[]))
        );
        assert_eq!(after("2.6", Some(znode(1, false, &[]))), None);
    }

    #[test]
    fn an_enabled_node_keeps_its_features_from_2_7_on_and_is_disabled_below() {
        let held = znode(1, true, &[("some", 1, 2)]);
        assert_eq!(after("2.7-IV0", Some(held.clone())), None);
        assert_eq!(after("2.6", Some(held)), Some(znode(1, false, &[])));
    }

    #[test]
    fn the_schema_follows_the_protocol_and_the_features_stay() {
        let held = |version| znode(version, true, &[("some", 1, 2)]);
        assert_eq!(after("3.3", Some(held(1))), Some(held(2)));
        assert_eq!(after("3.3", Some(held(2))), None);
        assert_eq!(after("3.2", Some(held(2))), Some(held(1)));
    }

    #[test]
    fn what_cannot_be_understood_is_left_alone() {
        let broken = Read::Broken("/feature holds no JSON".to_owned());
        assert_eq!(
            desired(protocol("3.9"), &broken),
            FeaturePlan::Unreadable("/feature holds no JSON".to_owned())
        );
        for version in [0, 3, -1] {
            let strange = Read::Found((znode(version, true, &[]), 0));
            let plan = desired(protocol("3.9"), &strange);
            assert!(matches!(plan, FeaturePlan::Unreadable(_)), "{plan:?}");
        }
    }

    #[test]
    fn a_broker_must_support_every_finalized_feature_at_its_level() {
        let mut broker = registration(7).broker;
        broker.features.insert("some".into(), (2, 4));
        let table = [
            (znode(1, true, &[]), None),
            (znode(1, true, &[("some", 2, 4)]), None),
            (znode(1, true, &[("some", 1, 4)]), Some("levels 2 to 4")),
            (znode(1, true, &[("some", 2, 5)]), Some("levels 2 to 4")),
            (znode(1, true, &[("other", 1, 1)]), Some("at all")),
            (znode(1, false, &[("other", 1, 1)]), None),
            (znode(2, true, &[("some", 1, 4)]), None),
            (znode(2, true, &[("some", 1, 1)]), Some("levels 2 to 4")),
            (znode(2, true, &[("some", 1, 5)]), Some("levels 2 to 4")),
        ];
        for (finalized, expected) in table {
            let answer = incompatible(&finalized, &broker);
            match expected {
                None => assert_eq!(answer, None, "{finalized:?}"),
                Some(words) => {
                    let answer = answer.unwrap_or_else(|| panic!("admitted at {finalized:?}"));
                    assert!(
                        answer.contains(words) && answer.contains("broker 7"),
                        "{answer}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_broker_without_features_as_all_in_zookeeper_mode_fits_an_empty_node() {
        assert_eq!(
            incompatible(&znode(2, true, &[]), &registration(1).broker),
            None
        );
    }
}
