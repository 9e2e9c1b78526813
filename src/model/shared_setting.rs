//! The settings that decide about the whole cluster and that a controller takes from its own file all the same.
//!
//! Must never hold a secret, nor a key that only concerns the broker whose file it stands in. Upstream: what
//! `KafkaController.scala` and `ZkAdminManager.scala` ask of their own `KafkaConfig`.

use std::collections::BTreeMap;

/// One of them. In the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedSetting {
    /// `inter.broker.protocol.version`.
    InterBrokerProtocolVersion,
    /// `unclean.leader.election.enable`.
    UncleanLeaderElectionEnable,
    /// `delete.topic.enable`.
    DeleteTopicEnable,
    /// `num.partitions`.
    NumPartitions,
    /// `default.replication.factor`.
    DefaultReplicationFactor,
    /// `min.insync.replicas`.
    MinInsyncReplicas,
    /// `auto.leader.rebalance.enable`.
    AutoLeaderRebalanceEnable,
    /// `leader.imbalance.per.broker.percentage`.
    LeaderImbalancePerBrokerPercentage,
    /// `leader.imbalance.check.interval.seconds`.
    LeaderImbalanceCheckIntervalSeconds,
    /// `create.topic.policy.class.name`.
    CreateTopicPolicyClassName,
}

impl SharedSetting {
    /// All of them.
    pub const ALL: [SharedSetting; 10] = [
        Self::InterBrokerProtocolVersion,
        Self::UncleanLeaderElectionEnable,
        Self::DeleteTopicEnable,
        Self::NumPartitions,
        Self::DefaultReplicationFactor,
        Self::MinInsyncReplicas,
        Self::AutoLeaderRebalanceEnable,
        Self::LeaderImbalancePerBrokerPercentage,
        Self::LeaderImbalanceCheckIntervalSeconds,
        Self::CreateTopicPolicyClassName,
    ];

    /// Its name in a broker's file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::InterBrokerProtocolVersion => "inter.broker.protocol.version",
            Self::UncleanLeaderElectionEnable => "unclean.leader.election.enable",
            Self::DeleteTopicEnable => "delete.topic.enable",
            Self::NumPartitions => "num.partitions",
            Self::DefaultReplicationFactor => "default.replication.factor",
            Self::MinInsyncReplicas => "min.insync.replicas",
            Self::AutoLeaderRebalanceEnable => "auto.leader.rebalance.enable",
            Self::LeaderImbalancePerBrokerPercentage => "leader.imbalance.per.broker.percentage",
            Self::LeaderImbalanceCheckIntervalSeconds => "leader.imbalance.check.interval.seconds",
            Self::CreateTopicPolicyClassName => "create.topic.policy.class.name",
        }
    }

    /// The setting of this name.
    pub fn named(key: &str) -> Option<SharedSetting> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }
}

/// Their values, as they are written; one that isn't there is not known, an empty one is not set.
pub type SharedSettings = BTreeMap<SharedSetting, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_by_its_name_and_told_in_order() {
        for setting in SharedSetting::ALL {
            assert_eq!(SharedSetting::named(setting.key()), Some(setting));
        }
        assert!(SharedSetting::ALL.is_sorted());
        assert_eq!(SharedSetting::named("log.dirs"), None);
    }
}
