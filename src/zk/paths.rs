//! Where everything stands in ZooKeeper, below the chroot.
//!
//! Must never know what a node holds (`znode` does). Upstream: the `path` functions of `ZkData.scala`.

use crate::effect::{NotificationName, TokenId};
use crate::model::{BrokerId, ConfigEntity, SanitizedName, TopicName, TopicPartition};

/// Who is the controller.
pub const CONTROLLER: &str = "/controller";
/// The number of the last election; its version is the fence. Never deleted: a fresh one begins at version 0 again, and
/// a stale fence could match.
pub const CONTROLLER_EPOCH: &str = "/controller_epoch";
/// What the cluster is called; its first broker invented it.
pub const CLUSTER_ID: &str = "/cluster/id";
/// Parent of the brokers' registrations.
pub const BROKER_IDS: &str = "/brokers/ids";
/// Parent of the topics.
pub const TOPICS: &str = "/brokers/topics";
/// Parent of the requests to delete a topic.
pub const DELETE_TOPICS: &str = "/admin/delete_topics";
/// Parent of the in-sync set changes that leaders wrote (IBP below 2.7).
pub const ISR_CHANGE_NOTIFICATION: &str = "/isr_change_notification";
/// Parent of the log directories that failed.
pub const LOG_DIR_EVENT_NOTIFICATION: &str = "/log_dir_event_notification";
/// The partitions that an operator wants to see led by their preferred replicas.
pub const PREFERRED_REPLICA_ELECTION: &str = "/admin/preferred_replica_election";
/// The partitions that an operator wants to see on other replicas.
pub const REASSIGN_PARTITIONS: &str = "/admin/reassign_partitions";
/// Finalized features (KIP-584). Never deleted: brokers exit when its version falls.
pub const FEATURE: &str = "/feature";
/// The last block of producer ids handed out.
pub const PRODUCER_ID_BLOCK: &str = "/latest_producer_id_block";
/// Parent of the notices that a configuration was written.
pub const CONFIG_CHANGES: &str = "/config/changes";
/// How notices of written configurations begin.
pub const CONFIG_CHANGE: &str = "/config/changes/config_change_";
/// Parent of the users' configurations.
pub const USERS: &str = "/config/users";
/// Parent of the configurations of clients of whatever user.
pub const CLIENTS: &str = "/config/clients";
/// Parent of the delegation tokens. Brokers that have a secret key create it.
pub const DELEGATION_TOKENS: &str = "/delegation_token/tokens";
/// How notices of changed delegation tokens begin.
pub const TOKEN_CHANGE: &str = "/delegation_token/token_changes/token_change_";
/// The cluster-wide broker configuration.
pub const DEFAULT_BROKER_CONFIG: &str = "/config/brokers/<default>";
/// Exists once a migration to KRaft began.
pub const MIGRATION: &str = "/migration";
/// klamm's own root.
pub const KLAMM: &str = "/klamm";
/// Parent of the ids that klamms use or used.
pub const KLAMM_IDS: &str = "/klamm/ids";
/// While it exists no klamm contends for the role.
pub const KLAMM_HOLD: &str = "/klamm/hold";

/// The persistent paths that a first broker creates, parents before children. All but two: `/latest_producer_id_block`,
/// which brokers create without data, which the client library can't, and fail on an empty text there; and `/config/ips`,
/// which only releases from 2.7 on know, and create at every start: a cluster of older ones is left without it.
/// Upstream: `ZkData.PersistentZkPaths`.
pub const BASE_PATHS: &[&str] = &[
    "/consumers",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/config",
    CONFIG_CHANGES,
    "/config/topics",
    CLIENTS,
    USERS,
    "/config/brokers",
    "/admin",
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
];

/// `/brokers/ids/N`.
pub fn broker(id: BrokerId) -> String {
    format!("{BROKER_IDS}/{id}")
}

/// `/klamm/ids/N`.
pub fn klamm_id(id: BrokerId) -> String {
    format!("{KLAMM_IDS}/{id}")
}

/// `/brokers/topics/T`.
pub fn topic(name: &TopicName) -> String {
    format!("{TOPICS}/{name}")
}

/// `/brokers/topics/T/partitions`.
pub fn partitions(name: &TopicName) -> String {
    format!("{TOPICS}/{name}/partitions")
}

/// `/brokers/topics/T/partitions/P`.
pub fn partition(partition: &TopicPartition) -> String {
    format!(
        "{TOPICS}/{}/partitions/{}",
        partition.topic, partition.partition
    )
}

/// `/brokers/topics/T/partitions/P/state`.
pub fn state(partition: &TopicPartition) -> String {
    format!(
        "{TOPICS}/{}/partitions/{}/state",
        partition.topic, partition.partition
    )
}

/// `/config/topics/T`.
pub fn topic_config(name: &TopicName) -> String {
    format!("/config/topics/{name}")
}

/// `/config/users/U/clients`.
pub fn clients_of_user(user: &SanitizedName) -> String {
    format!("{USERS}/{user}/clients")
}

/// `/config/users/U` and the like.
pub fn entity_config(entity: &ConfigEntity) -> String {
    format!("/config/{}", entity.path())
}

/// `/admin/delete_topics/T`.
pub fn topic_deletion(name: &TopicName) -> String {
    format!("{DELETE_TOPICS}/{name}")
}

/// `/isr_change_notification/NAME`.
pub fn isr_change(name: &NotificationName) -> String {
    format!("{ISR_CHANGE_NOTIFICATION}/{}", name.0)
}

/// `/log_dir_event_notification/NAME`.
pub fn log_dir_event(name: &NotificationName) -> String {
    format!("{LOG_DIR_EVENT_NOTIFICATION}/{}", name.0)
}

/// `/delegation_token/tokens/ID`.
pub fn delegation_token(token: &TokenId) -> String {
    format!("{DELEGATION_TOKENS}/{}", token.0)
}

/// `/config/changes/NAME`.
pub fn config_change(name: &NotificationName) -> String {
    format!("{CONFIG_CHANGES}/{}", name.0)
}

/// The id that a child of `/brokers/ids` or `/klamm/ids` is named after. Only the plain decimal text of a number from 0
/// on names one: Java writes nothing else, and two spellings of one id would be two nodes for one broker.
pub fn id_of_child(name: &str) -> Option<BrokerId> {
    let id: i32 = name.parse().ok()?;
    (id >= 0 && id.to_string() == name).then_some(BrokerId(id))
}

/// What a path below `/brokers/topics` belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicPath {
    /// `/brokers/topics` itself.
    Root,
    /// `/brokers/topics/T`.
    Topic(TopicName),
    /// Something below a topic: partitions and their states.
    BelowTopic,
}

/// Sorts a path that a watch on `/brokers/topics` named; `None`: it isn't there.
pub fn topic_path(path: &str) -> Option<TopicPath> {
    let rest = path.strip_prefix(TOPICS)?;
    if rest.is_empty() {
        return Some(TopicPath::Root);
    }
    let name = rest.strip_prefix('/')?;
    Some(match name.contains('/') {
        true => TopicPath::BelowTopic,
        false => TopicPath::Topic(TopicName::new(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_java_controller() {
        let name = TopicName::new("a.b-c_1");
        let third = TopicPartition::new(&name, 3);
        assert_eq!(broker(BrokerId(7)), "/brokers/ids/7");
        assert_eq!(topic(&name), "/brokers/topics/a.b-c_1");
        assert_eq!(partitions(&name), "/brokers/topics/a.b-c_1/partitions");
        assert_eq!(partition(&third), "/brokers/topics/a.b-c_1/partitions/3");
        assert_eq!(state(&third), "/brokers/topics/a.b-c_1/partitions/3/state");
        assert_eq!(topic_config(&name), "/config/topics/a.b-c_1");
        assert_eq!(topic_deletion(&name), "/admin/delete_topics/a.b-c_1");
        assert_eq!(
            isr_change(&NotificationName("isr_change_0000000007".to_owned())),
            "/isr_change_notification/isr_change_0000000007"
        );
    }

    #[test]
    fn only_plain_numbers_from_zero_on_name_a_broker() {
        assert_eq!(id_of_child("0"), Some(BrokerId(0)));
        assert_eq!(id_of_child("1001"), Some(BrokerId(1001)));
        for name in ["", "-1", "+1", "01", " 1", "1 ", "x", "1.0", "99999999999"] {
            assert_eq!(id_of_child(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_base_path_is_one_that_the_oldest_brokers_create_too() {
        // Of 1.1, parents included.
        let theirs = [
            "/admin",
            "/admin/delete_topics",
            "/brokers",
            "/brokers/ids",
            "/brokers/seqid",
            "/brokers/topics",
            "/config",
            "/config/brokers",
            "/config/changes",
            "/config/clients",
            "/config/topics",
            "/config/users",
            "/consumers",
            "/isr_change_notification",
            "/log_dir_event_notification",
        ];
        let mut ours = BASE_PATHS.to_vec();
        ours.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_base_path_comes_after_its_parent() {
        for (position, path) in BASE_PATHS.iter().enumerate() {
            let parent = path.rsplit_once('/').unwrap().0;
            assert!(
                parent.is_empty() || BASE_PATHS[..position].contains(&parent),
                "{path}"
            );
        }
    }

    #[test]
    fn paths_below_topics_are_told_apart() {
        let name = TopicName::new("t");
        assert_eq!(topic_path("/brokers/topics"), Some(TopicPath::Root));
        assert_eq!(
            topic_path("/brokers/topics/t"),
            Some(TopicPath::Topic(name))
        );
        assert_eq!(
            topic_path("/brokers/topics/t/partitions/0/state"),
            Some(TopicPath::BelowTopic)
        );
        assert_eq!(topic_path("/brokers/topicsx/t"), None);
        assert_eq!(topic_path("/brokers"), None);
    }
}
