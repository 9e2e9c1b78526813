//! Where klamm's own settings differ from the brokers', and what that means for the cluster.
//!
//! A controller goes by its own file: brokers that led before would have decided otherwise, and will again. Must never
//! forbid anything: an operator may mean the difference. What was not said is not compared. Upstream has no counterpart:
//! whichever broker leads decides, and nobody compares.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::{BrokerId, BrokerIds, InterBrokerProtocol, SharedSetting, SharedSettings};

/// One setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which.
    pub setting: SharedSetting,
    /// What klamm has.
    pub own: String,
    /// What brokers have instead, and which: at least one. Those that have what klamm has are left out.
    pub theirs: BTreeMap<String, BrokerIds>,
    /// No broker has what klamm has, as far as they said.
    pub is_alone: bool,
}

/// Compares; in the order of the settings. What `own` leaves out is not compared.
pub fn differences<'a>(
    own: &SharedSettings,
    brokers: impl Iterator<Item = (BrokerId, &'a SharedSettings)> + Clone,
) -> Vec<Difference> {
    let compared = own.iter().filter_map(|(setting, own)| {
        let said = brokers
            .clone()
            .filter_map(|(id, said)| Some((id, said.get(setting)?)));
        let mut theirs: BTreeMap<String, Vec<BrokerId>> = BTreeMap::new();
        let mut is_alone = true;
        for (id, value) in said {
            if is_same(*setting, own, value) {
                is_alone = false;
            } else {
                theirs.entry(value.clone()).or_default().push(id);
            }
        }
        let theirs: BTreeMap<String, BrokerIds> = theirs
            .into_iter()
            .map(|(value, ids)| (value, ids.into_iter().collect()))
            .collect();
        (!theirs.is_empty()).then(|| Difference {
            setting: *setting,
            own: own.clone(),
            theirs,
            is_alone,
        })
    });
    compared.collect()
}

/// Whether two ways to write it are one value.
fn is_same(setting: SharedSetting, own: &str, theirs: &str) -> bool {
    let protocol = |text: &str| text.parse::<InterBrokerProtocol>().ok();
    match setting {
        SharedSetting::InterBrokerProtocolVersion => {
            own == theirs || (protocol(own).is_some() && protocol(own) == protocol(theirs))
        }
        _ => own.trim().eq_ignore_ascii_case(theirs.trim()),
    }
}

impl Difference {
    /// What it means while klamm leads.
    fn meaning(&self) -> &'static str {
        match self.setting {
            SharedSetting::InterBrokerProtocolVersion => {
                "klamm's decides which requests the brokers get, and whether there are topic ids and /feature"
            }
            SharedSetting::UncleanLeaderElectionEnable => {
                "klamm's decides whether a partition may lose records to get a leader, where neither its topic nor the cluster's default (kafka-configs) says so"
            }
            SharedSetting::DeleteTopicEnable if self.own == "true" => {
                "klamm deletes topics, which those brokers would not"
            }
            SharedSetting::DeleteTopicEnable => {
                "klamm deletes no topics and removes requests to do so, which those brokers would follow"
            }
            SharedSetting::NumPartitions => {
                "a topic that is created without saying how many partitions it has gets klamm's"
            }
            SharedSetting::DefaultReplicationFactor => {
                "a topic that is created without saying how many replicas it has gets klamm's"
            }
            SharedSetting::MinInsyncReplicas => {
                "each leader goes by its own; klamm tells its own to whoever creates a topic"
            }
            SharedSetting::AutoLeaderRebalanceEnable if self.own == "true" => {
                "klamm gives partitions back to their preferred leaders by itself, which those brokers would not"
            }
            SharedSetting::AutoLeaderRebalanceEnable => {
                "klamm gives no partition back to its preferred leader by itself, which those brokers would"
            }
            SharedSetting::LeaderImbalancePerBrokerPercentage => {
                "klamm's decides how much of what prefers a broker may be led by others"
            }
            SharedSetting::LeaderImbalanceCheckIntervalSeconds => {
                "klamm's decides how often the balance of leaders is looked at"
            }
            SharedSetting::CreateTopicPolicyClassName => {
                "klamm can't run it: topics that those brokers would refuse are created"
            }
        }
    }

    fn remedy(&self) -> String {
        let key = self.setting.key();
        let theirs: Vec<&String> = self.theirs.keys().collect();
        match (self.setting, theirs.as_slice(), self.is_alone) {
            (SharedSetting::CreateTopicPolicyClassName, ..) => {
                "klamm.ignore.create.topic.policy=true says that this is meant".to_owned()
            }
            (SharedSetting::InterBrokerProtocolVersion, [_, _, ..], _)
            | (SharedSetting::InterBrokerProtocolVersion, _, false) => format!(
                "while brokers are being upgraded take {key} out of klamm's configuration, so that it asks them"
            ),
            (_, [theirs], true) => format!("give klamm {key}={theirs}"),
            _ => format!("give every broker and klamm the same {key}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &'_ str| match value {
            "" => "none".to_owned(),
            value => value.to_owned(),
        };
        let of_brokers = self.theirs.iter().map(|(value, ids)| {
            let which = match ids.len() {
                1 => "broker",
                _ => "brokers",
            };
            format!("{} on {which} {}", shown(value), listed(ids))
        });
        write!(
            f,
            "{} is {} here, but {}: {}; {}",
            self.setting.key(),
            shown(&self.own),
            of_brokers.collect::<Vec<_>>().join(" and "),
            self.meaning(),
            self.remedy()
        )
    }
}

fn listed(ids: &BrokerIds) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use SharedSetting::*;

    fn settings<const N: usize>(values: [(SharedSetting, &str); N]) -> SharedSettings {
        values
            .into_iter()
            .map(|(setting, value)| (setting, value.to_owned()))
            .collect()
    }

    fn lines(own: &SharedSettings, brokers: &[(i32, SharedSettings)]) -> Vec<String> {
        let brokers = brokers.iter().map(|(id, said)| (BrokerId(*id), said));
        let found = differences(own, brokers);
        found.iter().map(Difference::to_string).collect()
    }

    #[test]
    fn each_way_to_write_a_value_is_the_same_value() {
        let table = [
            (InterBrokerProtocolVersion, "2.4", "2.4-IV1", true),
            (InterBrokerProtocolVersion, "2.4", "2.4-IV0", false),
            (InterBrokerProtocolVersion, "4.7", "4.7", true),
            (InterBrokerProtocolVersion, "4.7", "4.8", false),
            (DeleteTopicEnable, "true", "TRUE", true),
            (DeleteTopicEnable, "true", "false", false),
            (NumPartitions, "12", "12", true),
            (NumPartitions, "12", "1", false),
            (CreateTopicPolicyClassName, "", "", true),
            (CreateTopicPolicyClassName, "", "com.example.P", false),
        ];
        for (setting, own, theirs, same) in table {
            let found = lines(
                &settings([(setting, own)]),
                &[(1, settings([(setting, theirs)]))],
            );
            assert_eq!(
                found.is_empty(),
                same,
                "{setting:?} {own} {theirs}: {found:?}"
            );
        }
    }

    #[test]
    fn a_line_names_both_values_the_brokers_what_it_means_and_what_to_do() {
        let own = settings([(NumPartitions, "1"), (DeleteTopicEnable, "true")]);
        let theirs = settings([(NumPartitions, "12"), (DeleteTopicEnable, "true")]);
        assert_eq!(
            lines(&own, &[(3, theirs.clone()), (5, theirs)]),
            [
                "num.partitions is 1 here, but 12 on brokers 3, 5: a topic that is created without saying how many partitions it has gets klamm's; give klamm num.partitions=12"
            ]
        );
    }

    #[test]
    fn brokers_that_differ_among_themselves_are_told_apart_and_no_value_is_recommended() {
        let own = settings([(DeleteTopicEnable, "false")]);
        let said = |value| settings([(DeleteTopicEnable, value)]);
        let found = lines(
            &own,
            &[(1, said("true")), (2, said("false")), (3, said("true"))],
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("is false here, but true on brokers 1, 3: klamm deletes no topics"),
            "{found:?}"
        );
        assert!(
            found[0].ends_with("give every broker and klamm the same delete.topic.enable"),
            "{found:?}"
        );
        let own = settings([(NumPartitions, "1")]);
        let said = |value| settings([(NumPartitions, value)]);
        let found = lines(&own, &[(1, said("2")), (2, said("3"))]);
        assert!(
            found[0].contains("2 on broker 1 and 3 on broker 2"),
            "{found:?}"
        );
    }

    #[test]
    fn what_was_not_said_is_not_compared() {
        let own = settings([(NumPartitions, "1"), (DeleteTopicEnable, "true")]);
        let said = settings([(DeleteTopicEnable, "true")]);
        assert_eq!(
            lines(&own, &[(1, said), (2, SharedSettings::new())]),
            [""; 0]
        );
        let said = settings([(InterBrokerProtocolVersion, "2.4"), (NumPartitions, "1")]);
        assert_eq!(lines(&own, &[(1, said)]), [""; 0]);
        assert_eq!(lines(&own, &[]), [""; 0]);
    }

    #[test]
    fn a_protocol_given_during_an_upgrade_is_better_left_out() {
        let own = settings([(InterBrokerProtocolVersion, "2.4")]);
        let said = |value| settings([(InterBrokerProtocolVersion, value)]);
        let mixed = lines(&own, &[(1, said("2.4-IV1")), (2, said("3.9-IV0"))]);
        assert!(
            mixed[0].contains("take inter.broker.protocol.version out of klamm's"),
            "{mixed:?}"
        );
        let all = lines(&own, &[(1, said("3.9-IV0")), (2, said("3.9-IV0"))]);
        assert!(
            all[0].ends_with("give klamm inter.broker.protocol.version=3.9-IV0"),
            "{all:?}"
        );
    }

    #[test]
    fn what_a_balance_of_leaders_means_depends_on_who_keeps_it() {
        for (own, theirs, means) in [
            ("true", "false", "klamm gives partitions back"),
            ("false", "true", "klamm gives no partition back"),
        ] {
            let own = settings([(AutoLeaderRebalanceEnable, own)]);
            let theirs = settings([(AutoLeaderRebalanceEnable, theirs)]);
            let found = lines(&own, &[(1, theirs)]);
            assert!(found[0].contains(means), "{found:?}");
        }
    }

    #[test]
    fn every_setting_has_a_meaning_of_its_own() {
        let own = SharedSetting::ALL.map(|setting| (setting, "true"));
        let theirs = SharedSetting::ALL.map(|setting| (setting, "false"));
        let found = lines(&settings(own), &[(1, settings(theirs))]);
        assert_eq!(found.len(), SharedSetting::ALL.len());
        for (line, setting) in found.iter().zip(SharedSetting::ALL) {
            assert!(
                line.starts_with(&format!(
                    "{} is true here, but false on broker 1: ",
                    setting.key()
                )),
                "{line}"
            );
        }
    }
}
