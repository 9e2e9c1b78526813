//! Notices that a configuration was written: which of them are news, and what they make the controller look at.
//!
//! No request tells a controller of a configuration; a Java controller hears of it because it is a broker. Must never take
//! a notice for the configuration itself: it says where to look. Upstream: `ZkNodeChangeNotificationListener`,
//! `DynamicConfigManager`. Those keep the highest number that they have seen, and are deaf where the counter begins anew;
//! here the names are kept.

use std::collections::BTreeSet;

use crate::effect::{ConfigChange, NotificationName, Read};
use crate::model::{ConfigEntity, TopicName};

/// How every notice is named; ten digits follow.
const PREFIX: &str = "config_change_";

/// The notices that were seen: brokers leave each for 15 minutes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenConfigChanges(BTreeSet<NotificationName>);

impl SeenConfigChanges {
    /// All that is there now.
    pub fn all(listed: Vec<NotificationName>) -> SeenConfigChanges {
        SeenConfigChanges(listed.into_iter().collect())
    }

    /// Those of `listed` that are news, in the order in which they were written. Children with other names are none.
    pub fn news(&self, listed: &[NotificationName]) -> Vec<NotificationName> {
        let news = listed.iter().filter(|name| !self.0.contains(name));
        let mut news: Vec<NotificationName> =
            news.filter(|name| is_notice(name)).cloned().collect();
        news.sort_unstable();
        news
    }

    /// Children of `listed` that are no notices, by their names, in order.
    pub fn strange(listed: &[NotificationName]) -> Vec<NotificationName> {
        let strange = listed.iter().filter(|name| !is_notice(name));
        let mut strange: Vec<NotificationName> = strange.cloned().collect();
        strange.sort_unstable();
        strange
    }
}

fn is_notice(name: &NotificationName) -> bool {
    let number = name.0.strip_prefix(PREFIX);
    number.is_some_and(|number| {
        number.len() == 10 && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// The cluster's default.
    pub default: bool,
    /// The configurations of these topics.
    pub topics: BTreeSet<TopicName>,
    /// The configurations of these users and clients.
    pub quotas: BTreeSet<ConfigEntity>,
    /// The configurations of all users and clients.
    pub all_quotas: bool,
    /// What could not be understood, each with its path.
    pub broken: Vec<String>,
}

/// What notices come to. One that was removed before it could be read may have said anything: the look at the default
/// covers every topic.
pub fn changed(notices: Vec<Read<ConfigChange>>) -> Changed {
    let mut changed = Changed::default();
    for notice in notices {
        match notice {
            Read::Found(ConfigChange::Topic(topic)) => _ = changed.topics.insert(topic),
            Read::Found(ConfigChange::Quota(entity)) => _ = changed.quotas.insert(entity),
            Read::Found(ConfigChange::BrokerDefault) => changed.default = true,
            Read::Missing => (changed.default, changed.all_quotas) = (true, true),
            Read::Found(ConfigChange::Other) => {}
            Read::Broken(why) => changed.broken.push(why),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SanitizedName;

    fn names(names: &[&str]) -> Vec<NotificationName> {
        let names = names.iter();
        names
            .map(|name| NotificationName((*name).to_owned()))
            .collect()
    }

    #[test]
    fn what_was_seen_is_no_news_and_a_counter_that_begins_anew_is() {
        let listed = names(&["config_change_0000000008", "config_change_0000000007"]);
        let nothing = SeenConfigChanges::default();
        assert_eq!(
            nothing.news(&listed),
            names(&["config_change_0000000007", "config_change_0000000008"])
        );
        let seen = SeenConfigChanges::all(listed.clone());
        assert_eq!(seen.news(&listed), []);
        let anew = names(&["config_change_0000000000"]);
        assert_eq!(seen.news(&anew), anew);
    }

    #[test]
    fn other_children_are_no_notices() {
        let strange = [
            "",
            "config_change_",
            "config_change_7",
            "config_change_000000000x",
            "config_change_-000000001",
            "change_0000000001",
        ];
        let mut listed = names(&strange);
        assert_eq!(SeenConfigChanges::default().news(&listed), []);
        listed.sort_unstable();
        assert_eq!(SeenConfigChanges::strange(&listed), listed);
    }

    #[test]
    fn notices_say_where_to_look() {
        let topic = |name: &str| Read::Found(ConfigChange::Topic(TopicName::new(name)));
        let user = ConfigEntity::User(SanitizedName::of("u"));
        let notices = vec![
            topic("t"),
            Read::Found(ConfigChange::Other),
            topic("t"),
            Read::Found(ConfigChange::Quota(user.clone())),
            Read::Broken("/config/changes/x: bad".to_owned()),
            topic("a"),
        ];
        let found = changed(notices);
        assert!(!found.default && !found.all_quotas);
        assert_eq!(found.quotas, [user].into());
        assert_eq!(
            found.topics,
            [TopicName::new("a"), TopicName::new("t")].into()
        );
        assert_eq!(found.broken, ["/config/changes/x: bad"]);
        assert!(changed(vec![Read::Found(ConfigChange::BrokerDefault)]).default);
        let anything = changed(vec![Read::Missing]);
        assert!(anything.default && anything.all_quotas);
    }
}
