//! Configurations that were written: ConfigChange, and unclean election enabled at run time, for the cluster or a topic.
//!
//! Must never elect by what a notice says: the configuration is read when it counts. Upstream: `ConfigHandler.scala`,
//! `DynamicBrokerConfig.scala`, `processUncleanLeaderElectionEnable`, `processTopicUncleanLeaderElectionEnable`. What is
//! set for a single broker doesn't count here: upstream lets the controller's own broker overrule the default.

use tracing::info;

use super::{KafkaController, log};
use crate::effect::{NotificationName, Read};
use crate::event::ControllerEvent;
use crate::machine::config_changes::{self, SeenConfigChanges};
use crate::machine::election::{ElectionStrategy, UncleanRule};
use crate::machine::partition::{self, OnlineChange};
use crate::model::TopicName;
use crate::port::{Brokers, Clock, Replies, Zk, ZkFault};

impl<Z: Zk, B: Brokers, R: Replies, C: Clock> KafkaController<Z, B, R, C> {
    /// What was written before the elections of the failover is read by them.
    pub(super) async fn note_config_changes(&mut self) -> Result<(), ZkFault> {
        let listed = self.list_config_changes().await?;
        self.seen_config_changes = SeenConfigChanges::all(listed);
        Ok(())
    }

    /// `/config/changes` has other children, or may have. They are brokers' to remove.
    pub(super) async fn process_config_change(&mut self) -> Result<(), ZkFault> {
        let listed = self.list_config_changes().await?;
        let news = self.seen_config_changes.news(&listed);
        if !news.is_empty() {
            let notices = self.ports.zk.config_changes(&news).await?;
            let changed = config_changes::changed(notices);
            self.warn_broken(changed.broken);
            if changed.default {
                let event = ControllerEvent::UncleanLeaderElectionEnable;
                self.ports.clock.schedule(0, event);
            }
            for topic in changed.topics {
                let event = ControllerEvent::TopicUncleanLeaderElectionEnable(topic);
                self.ports.clock.schedule(0, event);
            }
            self.renew_quotas(changed.quotas, changed.all_quotas)
                .await?;
        } else if !self.are_quotas_known {
            self.load_quotas().await?;
        }
        self.seen_config_changes = SeenConfigChanges::all(listed);
        Ok(())
    }

    async fn list_config_changes(&mut self) -> Result<Vec<NotificationName>, ZkFault> {
        let listed = self.ports.zk.config_change_names().await?;
        let strange = SeenConfigChanges::strange(&listed);
        self.warn_broken(strange.iter().map(|NotificationName(name)| {
            format!("/config/changes/{name}: no notice of a configuration is named like this; ignored. Remove the node if nothing needs it")
        }));
        Ok(listed)
    }

    /// The cluster's default was written. What topics say themselves is read by the elections.
    pub(super) async fn process_unclean_leader_election_enable(&mut self) -> Result<(), ZkFault> {
        let default = self.unclean_by_default().await?;
        if default {
            info!(target: log::CONTROLLER, "Unclean leader election is enabled by default: electing leaders where there are none");
            self.trigger_online_partition_state_change().await?;
        }
        Ok(())
    }

    /// A topic's configuration was written.
    pub(super) async fn process_topic_unclean_leader_election_enable(
        &mut self,
        topic: TopicName,
    ) -> Result<(), ZkFault> {
        let mut leaderless = partition::online_candidates(&self.context);
        leaderless.retain(|at| at.topic == topic);
        if leaderless.is_empty() {
            return Ok(());
        }
        let configs = self
            .ports
            .zk
            .topic_configs(std::slice::from_ref(&topic))
            .await?;
        let own = match configs.into_iter().next() {
            Some(Read::Found(config)) => config.unclean_leader_election_enable,
            Some(Read::Broken(why)) => {
                self.warn_broken([why]);
                return Ok(());
            }
            Some(Read::Missing) | None => None,
        };
        let default = self.unclean_by_default().await?;
        if own.unwrap_or(default) {
            info!(target: log::CONTROLLER, "Unclean leader election is enabled for topic {topic}: electing leaders where there are none");
            let rule = UncleanRule::ByConfig { default };
            let strategy = ElectionStrategy::OfflinePartition(rule);
            let ask = OnlineChange::new(leaderless, strategy);
            self.change_and_send(ask).await?;
        }
        Ok(())
    }

    /// Whether the cluster's default allows unclean elections. What stands in ZooKeeper wins over what stands in the file
    /// (KAFKA-6526), and is read when it counts, as the topics' own are. One that can't be read allows nothing: it may say
    /// otherwise than the file.
    pub(super) async fn unclean_by_default(&mut self) -> Result<bool, ZkFault> {
        let dynamic = match self.ports.zk.default_broker_config().await? {
            Read::Found(config) => config.unclean_leader_election_enable,
            Read::Missing => None,
            Read::Broken(why) => {
                self.warn_broken([why]);
                Some(false)
            }
        };
        Ok(dynamic.unwrap_or(self.settings.unclean_leader_election_enable))
    }

    /// How a partition whose leader is gone finds the next one.
    pub(super) async fn offline_election(&mut self) -> Result<ElectionStrategy, ZkFault> {
        let default = self.unclean_by_default().await?;
        Ok(ElectionStrategy::OfflinePartition(UncleanRule::ByConfig {
            default,
        }))
    }
}
