//! What this configuration says of the settings that every controller of the cluster should share.
//!
//! Must never compare: the brokers' values are not known here (`machine::shared_settings` compares).

use super::resolved::{Config, CreateTopicPolicy};
use crate::model::{SharedSetting, SharedSettings};

impl Config {
    /// Their values, to be compared with the brokers'. Left out are a protocol that is not given, because brokers are
    /// asked for it then, and a policy that klamm is to ignore.
    #[must_use]
    pub fn shared_settings(&self) -> SharedSettings {
        SharedSetting::ALL
            .into_iter()
            .filter_map(|setting| Some((setting, self.shared_setting(setting)?)))
            .collect()
    }

    fn shared_setting(&self, setting: SharedSetting) -> Option<String> {
        Some(match setting {
            SharedSetting::InterBrokerProtocolVersion => self.inter_broker_protocol?.to_string(),
            SharedSetting::UncleanLeaderElectionEnable => {
                self.unclean_leader_election_enable.to_string()
            }
            SharedSetting::DeleteTopicEnable => self.delete_topic_enable.to_string(),
            SharedSetting::NumPartitions => self.num_partitions.to_string(),
            SharedSetting::DefaultReplicationFactor => self.default_replication_factor.to_string(),
            SharedSetting::MinInsyncReplicas => self.min_insync_replicas.to_string(),
            SharedSetting::AutoLeaderRebalanceEnable => {
                self.auto_leader_rebalance_enable.to_string()
            }
            SharedSetting::LeaderImbalancePerBrokerPercentage => {
                self.leader_imbalance_per_broker_percentage.to_string()
            }
            SharedSetting::LeaderImbalanceCheckIntervalSeconds => {
                self.leader_imbalance_check_interval_seconds.to_string()
            }
            SharedSetting::CreateTopicPolicyClassName => match self.create_topic_policy {
                CreateTopicPolicy::None => String::new(),
                CreateTopicPolicy::Ignored => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::RawConfig;
    use super::*;

    fn shared(more: &str) -> SharedSettings {
        let mut raw = RawConfig::default();
        let least =
            "zookeeper.connect=zk1\nklamm.id=900\nklamm.listeners=PLAINTEXT://klamm1:9192\n";
        raw.add_file("s", format!("{least}{more}").as_bytes())
            .unwrap();
        Config::resolve(&raw).unwrap().shared_settings()
    }

    #[test]
    fn what_the_file_does_not_say_has_kafkas_default() {
        let shared = shared("");
        let expected = [
            ("unclean.leader.election.enable", "false"),
            ("delete.topic.enable", "true"),
            ("num.partitions", "1"),
            ("default.replication.factor", "1"),
            ("min.insync.replicas", "1"),
            ("auto.leader.rebalance.enable", "true"),
            ("leader.imbalance.per.broker.percentage", "10"),
            ("leader.imbalance.check.interval.seconds", "300"),
            ("create.topic.policy.class.name", ""),
        ];
        let found: Vec<(&str, &str)> = shared
            .iter()
            .map(|(setting, value)| (setting.key(), value.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_protocol_that_is_given_is_compared_and_an_ignored_policy_is_not() {
        let shared = shared(
            "inter.broker.protocol.version=2.8\nklamm.ignore.create.topic.policy=true\nnum.partitions=7",
        );
        let value = |setting| shared.get(&setting).map(String::as_str);
        assert_eq!(
            value(SharedSetting::InterBrokerProtocolVersion),
            Some("2.8-IV1")
        );
        assert_eq!(value(SharedSetting::NumPartitions), Some("7"));
        assert_eq!(value(SharedSetting::CreateTopicPolicyClassName), None);
    }
}
