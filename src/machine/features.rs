//! What `/feature` should say, and which brokers it keeps out.
//!
//! Must never finalize a feature, also not on request: a broker that lacks a finalized feature ends its process, and so does one that sees the
//! node's version fall, so the node is never deleted either. To take a feature out again harms nobody.
//! Upstream: `KafkaController.maybeSetupFeatureVersioning`, `processFeatureUpdates`, `partitionOnFeatureCompatibility`,
//! `BrokerFeatures`, `FeatureZNode` (KIP-584).

use std::collections::BTreeMap;

use crate::effect::{FeatureZnode, Read, ZkWrite};
use crate::event::{FeatureUpdate, UpgradeType};
use crate::model::{ApiError, Broker, InterBrokerProtocol, KafkaError};

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

/// What a request to change finalized features comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdatePlan {
    /// What to write, if anything changes.
    pub write: Option<ZkWrite>,
    /// What becomes of each update, in the request's order, once that is written.
    pub results: Vec<(String, Result<(), ApiError>)>,
}

/// Judges updates as a Java controller does that supports no feature, as all of ZooKeeper-mode clusters: nothing can be
/// finalized, what is finalized can be taken out.
///
/// # Errors
/// `INVALID_REQUEST` below IBP 2.7, where `/feature` is not in use.
pub fn update(
    protocol: InterBrokerProtocol,
    current: &Read<(FeatureZnode, i32)>,
    updates: &[FeatureUpdate],
) -> Result<FeatureUpdatePlan, ApiError> {
    if !protocol.has_feature_versioning() {
        return Err(invalid(format!(
            "features can't be updated at inter.broker.protocol.version {protocol}: finalized features are in use from 2.7 on"
        )));
    }
    let held = match current {
        Read::Found((znode, zk_version)) if znode.enabled => Some((znode, *zk_version)),
        // Brokers take a node that they can't read for one without features, and so does this.
        _ => None,
    };
    let existing = held.map_or_else(BTreeMap::new, |(znode, _)| znode.levels.clone());
    let mut target = existing.clone();
    let mut results = Vec::with_capacity(updates.len());
    for update in updates {
        let judged = judge_update(update, existing.get(&update.feature).map(|(_, max)| *max));
        if judged.is_ok() {
            target.remove(&update.feature);
        }
        results.push((update.feature.clone(), judged));
    }
    let write = held.filter(|_| target != existing);
    let write = write.map(|(znode, expected)| ZkWrite::SetFeature {
        znode: FeatureZnode {
            levels: target,
            ..znode.clone()
        },
        expected,
    });
    Ok(FeatureUpdatePlan { write, results })
}

/// `Ok`: the feature is to be taken out. The order of the checks is upstream's.
fn judge_update(update: &FeatureUpdate, existing: Option<i16>) -> Result<(), ApiError> {
    let FeatureUpdate {
        feature,
        level,
        upgrade_type,
    } = update;
    let refusal = match (existing, *upgrade_type) {
        _ if feature.is_empty() => "a feature has a name".to_owned(),
        (_, UpgradeType::Unknown) => "the type of the upgrade is unknown".to_owned(),
        (Some(_), UpgradeType::SafeDowngrade | UpgradeType::UnsafeDowngrade) if *level < 1 => {
            return Ok(());
        }
        (None, UpgradeType::SafeDowngrade | UpgradeType::UnsafeDowngrade) if *level < 1 => {
            "the feature is not finalized, so it can't be taken out".to_owned()
        }
        (_, UpgradeType::Upgrade) if *level < 1 => {
            format!("level {level} takes a feature out, which is a downgrade: ask for a safe one")
        }
        (Some(held), _) if *level == held => format!("the feature is finalized at level {held} already"),
        (Some(held), other) if *level < held && other != UpgradeType::SafeDowngrade => {
            format!("the feature is finalized at level {held}: to lower it ask for a safe downgrade")
        }
        (Some(held), other) if *level > held && other != UpgradeType::Upgrade => {
            format!("the feature is finalized at level {held}: level {level} is no downgrade")
        }
        _ => "no broker of a ZooKeeper-mode cluster supports a feature: one that is finalized ends their processes"
            .to_owned(),
    };
    Err(invalid(refusal))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(KafkaError::INVALID_REQUEST, message)
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

    fn asked(feature: &str, level: i16, upgrade_type: UpgradeType) -> FeatureUpdate {
        FeatureUpdate {
            feature: feature.to_owned(),
            level,
            upgrade_type,
        }
    }

    #[test]
    fn nothing_is_finalized_and_what_is_can_only_be_taken_out() {
        use UpgradeType::{SafeDowngrade, Unknown, UnsafeDowngrade, Upgrade};
        let held = Read::Found((znode(2, true, &[("f", 1, 3), ("g", 1, 1)]), 7));
        let table = [
            ("", 1, Upgrade, "has a name"),
            ("f", 4, Unknown, "type of the upgrade"),
            ("f", 0, Upgrade, "ask for a safe one"),
            ("f", 3, Upgrade, "at level 3 already"),
            ("f", 2, Upgrade, "to lower it"),
            ("f", 2, UnsafeDowngrade, "to lower it"),
            ("f", 4, SafeDowngrade, "is no downgrade"),
            ("f", 4, Upgrade, "supports a feature"),
            ("f", 2, SafeDowngrade, "supports a feature"),
            ("new", 1, Upgrade, "supports a feature"),
            ("new", 0, SafeDowngrade, "not finalized"),
            ("metadata.version", 1, Upgrade, "supports a feature"),
        ];
        for (feature, level, upgrade_type, words) in table {
            let updates = [asked(feature, level, upgrade_type)];
            let plan = update(protocol("3.9"), &held, &updates).unwrap();
            assert_eq!(plan.write, None, "{feature} {level}");
            let (_, Err(refusal)) = &plan.results[0] else {
                panic!("{feature} at {level} was taken");
            };
            assert_eq!(refusal.error, KafkaError::INVALID_REQUEST);
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
        let updates = [asked("f", 0, SafeDowngrade), asked("new", 1, Upgrade)];
        let plan = update(protocol("3.9"), &held, &updates).unwrap();
        let written = ZkWrite::SetFeature {
            znode: znode(2, true, &[("g", 1, 1)]),
            expected: 7,
        };
        assert_eq!(plan.write, Some(written));
        assert_eq!(plan.results[0], ("f".to_owned(), Ok(())));
        assert!(plan.results[1].1.is_err());
    }

    #[test]
    fn below_2_7_and_where_nothing_can_be_read_nothing_is_written() {
        let updates = [asked("f", 0, UpgradeType::SafeDowngrade)];
        let held = Read::Found((znode(1, true, &[("f", 1, 3)]), 7));
        let refused = update(protocol("2.6"), &held, &updates).unwrap_err();
        assert_eq!(refused.error, KafkaError::INVALID_REQUEST);
        let disabled = Read::Found((znode(1, false, &[("f", 1, 3)]), 7));
        for current in [Read::Missing, Read::Broken("bad".to_owned()), disabled] {
            let plan = update(protocol("2.7"), &current, &updates).unwrap();
            assert_eq!(plan.write, None);
            assert!(plan.results[0].1.is_err());
        }
    }
}
