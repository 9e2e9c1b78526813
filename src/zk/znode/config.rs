//! Configurations that the controller heeds, and the notices that say whose configuration was written: JSON to values.
//!
//! Must never judge what a configuration is worth, and never take content that can't be understood for a setting.
//! Upstream: `ConfigEntityZNode`, `ConfigEntityChangeNotificationSequenceZNode`, `DynamicConfigManager.scala`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Wrong, judged, parse, shortened, to_bytes};
use crate::effect::{ConfigChange, ElectionConfig, Read};
use crate::model::topic_config::Properties;
use crate::model::{ConfigEntity, EntityConfig, SanitizedName, TopicName};

#[derive(Deserialize)]
struct ConfigJson {
    config: Option<BTreeMap<String, Value>>,
}

const UNCLEAN_LEADER_ELECTION_ENABLE: &str = "unclean.leader.election.enable";

/// Reads `/config/topics/T` or `/config/brokers/<default>`: only what the controller heeds. A node without data sets
/// nothing.
pub fn decode_election_config(path: &str, data: &[u8]) -> Read<ElectionConfig> {
    if data.is_empty() {
        return Read::Found(ElectionConfig::default());
    }
    let read = || {
        let json: ConfigJson = parse(data)?;
        let config = json.config.unwrap_or_default();
        let value = config.get(UNCLEAN_LEADER_ELECTION_ENABLE);
        Ok(ElectionConfig {
            unclean_leader_election_enable: value.map(boolean).transpose()?,
        })
    };
    judged(
        path,
        "set the configuration again with kafka-configs",
        read(),
    )
}

/// Reads all of a user's, a client's or the brokers' default configuration: what is written back must not lose what it doesn't know. A node without data sets nothing.
pub fn decode_entity_config(path: &str, data: &[u8], version: i32) -> Read<(EntityConfig, i32)> {
    let entry = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        _ => Err(format!("{} is not a text", shortened(&key))),
    };
    let read = || {
        if data.is_empty() {
            return Ok((EntityConfig::default(), version));
        }
        // What is wrong is told without the text: users' configurations hold credentials.
        let json: ConfigJson =
            parse(data).map_err(|_| "no JSON object with a `config`".to_owned())?;
        let entries = json.config.unwrap_or_default().into_iter();
        let config: Properties = entries.map(entry).collect::<Result<_, Wrong>>()?;
        Ok((EntityConfig(config), version))
    };
    judged(
        path,
        "set the configuration again with kafka-configs",
        read(),
    )
}

/// `/config/topics/T` with nothing but what the controller heeds, for tests and for simulated brokers.
pub fn encode_election_config(config: &ElectionConfig) -> Vec<u8> {
    let value = config.unclean_leader_election_enable;
    let entries = value.map(|value| (UNCLEAN_LEADER_ELECTION_ENABLE, value.to_string()));
    let entries: BTreeMap<&str, String> = entries.into_iter().collect();
    to_bytes(&serde_json::json!({ "version": 1, "config": entries }))
}

/// `/config/topics/T`, `/config/users/U` and the like, as every release since 0.9 writes it.
pub fn encode_topic_config(config: &Properties) -> Vec<u8> {
    to_bytes(&serde_json::json!({ "version": 1, "config": config }))
}

/// Kafka's booleans are strings, in any case.
fn boolean(value: &Value) -> Result<bool, Wrong> {
    let text = value.as_str().map(str::trim).unwrap_or_default();
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        let shown = shortened(&value.to_string());
        Err(format!(
            "{UNCLEAN_LEADER_ELECTION_ENABLE} is {shown}, not \"true\" or \"false\""
        ))
    }
}

/// The beginning of a topic's path in a notice, and of its type in an old one.
const TOPICS: &str = "topics";
/// Those of clients, and of users.
const CLIENTS: &str = "clients";
const USERS: &str = "users";
/// The cluster-wide broker configuration in a notice.
const BROKER_DEFAULT: &str = "brokers/<default>";

/// Both forms. Which fields are there depends on the version.
#[derive(Deserialize)]
struct ConfigChangeJson {
    version: i32,
    entity_path: Option<String>,
    entity_type: Option<String>,
    entity_name: Option<String>,
}

/// Reads `/config/changes/config_change_*`, in the form of version 2, or in that of version 1, which knew topics and
/// clients only. A notice about a single broker or an address is nothing to the controller.
pub fn decode_config_change(path: &str, data: &[u8]) -> Read<ConfigChange> {
    let read = || {
        let json: ConfigChangeJson = parse(data)?;
        match json.version {
            1 => first_version(json.entity_type.as_deref(), json.entity_name.as_deref()),
            2 => second_version(json.entity_path.as_deref()),
            other => Err(format!("version {other} is unknown")),
        }
    };
    judged(
        path,
        "the change is not heeded before the next one; write the configuration again with kafka-configs",
        read(),
    )
}

fn first_version(entity: Option<&str>, name: Option<&str>) -> Result<ConfigChange, Wrong> {
    match (entity, name) {
        (Some(TOPICS), Some(name)) => Ok(ConfigChange::Topic(TopicName::new(name))),
        (Some(CLIENTS), Some(name)) => {
            let client = ConfigEntity::Client(SanitizedName::read(name));
            Ok(ConfigChange::Quota(client))
        }
        (Some(other), Some(_)) => Err(format!("entity_type `{}` is unknown", shortened(other))),
        _ => Err("no entity_type and entity_name".to_owned()),
    }
}

fn second_version(path: Option<&str>) -> Result<ConfigChange, Wrong> {
    let path = path.ok_or("no entity_path")?;
    match path.split_once('/') {
        Some((TOPICS, name)) => Ok(ConfigChange::Topic(TopicName::new(name))),
        Some((CLIENTS, name)) => Ok(ConfigChange::Quota(ConfigEntity::Client(
            SanitizedName::read(name),
        ))),
        Some((USERS, rest)) => Ok(ConfigChange::Quota(user_or_client(rest)?)),
        Some(_) if path == BROKER_DEFAULT => Ok(ConfigChange::BrokerDefault),
        Some(_) => Ok(ConfigChange::Other),
        None => Err(format!("entity_path `{}` names nothing", shortened(path))),
    }
}

/// `u` or `u/clients/c`.
fn user_or_client(path: &str) -> Result<ConfigEntity, Wrong> {
    match path.split('/').collect::<Vec<_>>()[..] {
        [user] => Ok(ConfigEntity::User(SanitizedName::read(user))),
        [user, CLIENTS, client] => Ok(ConfigEntity::UserClient(
            SanitizedName::read(user),
            SanitizedName::read(client),
        )),
        _ => Err(format!(
            "entity_path `users/{}` is neither a user nor a user's client",
            shortened(path)
        )),
    }
}

/// `/config/changes/config_change_*` in the form that brokers of every release from 1.0 on write and read.
pub fn encode_config_change(entity_path: &str) -> Vec<u8> {
    to_bytes(&serde_json::json!({ "version": 2, "entity_path": entity_path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/config/changes/config_change_0000000007";

    fn read(text: &str) -> Read<ConfigChange> {
        decode_config_change(PATH, text.as_bytes())
    }

    #[test]
    fn both_forms_of_a_notice_say_whose_configuration_was_written() {
        let topic = |name: &str| ConfigChange::Topic(TopicName::new(name));
        let name = SanitizedName::of;
        let table = [
            (r#"{"version":2,"entity_path":"topics/t"}"#, topic("t")),
            (
                r#"{"version":1,"entity_type":"topics","entity_name":"t"}"#,
                topic("t"),
            ),
            (
                r#"{"version":2,"entity_path":"brokers/<default>"}"#,
                ConfigChange::BrokerDefault,
            ),
            (
                r#"{"version":2,"entity_path":"brokers/7"}"#,
                ConfigChange::Other,
            ),
            (
                r#"{"version":2,"entity_path":"users/u/clients/c"}"#,
                ConfigChange::Quota(ConfigEntity::UserClient(name("u"), name("c"))),
            ),
            (
                r#"{"version":2,"entity_path":"users/<default>"}"#,
                ConfigChange::Quota(ConfigEntity::User(SanitizedName::default_entity())),
            ),
            (
                r#"{"version":2,"entity_path":"clients/a%20b"}"#,
                ConfigChange::Quota(ConfigEntity::Client(name("a b"))),
            ),
            (
                r#"{"version":2,"entity_path":"ips/127.0.0.1","new":null}"#,
                ConfigChange::Other,
            ),
            (
                r#"{"version":1,"entity_type":"clients","entity_name":"c"}"#,
                ConfigChange::Quota(ConfigEntity::Client(name("c"))),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), Read::Found(expected), "{text}");
        }
        let written = encode_config_change("topics/a.b");
        assert_eq!(
            decode_config_change(PATH, &written),
            Read::Found(topic("a.b"))
        );
    }

    #[test]
    fn a_notice_that_cannot_be_understood_is_broken_and_names_the_path() {
        for bad in [
            "",
            "null",
            "topics/t",
            "[]",
            "{}",
            r#"{"version":3,"entity_path":"topics/t"}"#,
            r#"{"version":"2","entity_path":"topics/t"}"#,
            r#"{"version":2}"#,
            r#"{"version":2,"entity_path":"topics"}"#,
            r#"{"version":2,"entity_path":["topics/t"]}"#,
            r#"{"version":2,"entity_path":"users/u/clients"}"#,
            r#"{"version":2,"entity_path":"users/u/x/c"}"#,
            r#"{"version":2,"entity_path":"users/u/clients/c/d"}"#,
            r#"{"version":1,"entity_type":"brokers","entity_name":"1"}"#,
            r#"{"version":1,"entity_type":"topics"}"#,
        ] {
            let Read::Broken(why) = read(bad) else {
                panic!("`{bad}` was read");
            };
            assert!(why.starts_with(PATH), "{why}");
        }
    }

    fn found<T: std::fmt::Debug>(read: Read<T>) -> T {
        match read {
            Read::Found(value) => value,
            other => panic!("not found: {other:?}"),
        }
    }

    fn complaint(read: Read<ElectionConfig>) -> String {
        match read {
            Read::Broken(why) => why,
            other => panic!("not broken: {other:?}"),
        }
    }

    #[test]
    fn a_whole_configuration_is_read_and_written_without_a_loss() {
        let path = "/config/users/u";
        let read = |text: &str| decode_entity_config(path, text.as_bytes(), 4);
        let text = r#"{"version":1,"config":{"SCRAM-SHA-256":"salt=YQ==,iterations=4096","x":""}}"#;
        let (config, version) = found(read(text));
        assert_eq!((config.0.len(), version), (2, 4));
        assert_eq!(encode_topic_config(&config.0), text.as_bytes());
        for nothing in [
            "",
            "{}",
            r#"{"config":{}}"#,
            r#"{"version":1,"config":null}"#,
        ] {
            assert_eq!(found(read(nothing)).0, EntityConfig::default(), "{nothing}");
        }
        for bad in [
            "x",
            "[]",
            r#"{"config":5}"#,
            r#"{"config":{"x":5}}"#,
            r#"{"config":{"x":null}}"#,
        ] {
            let Read::Broken(why) = read(bad) else {
                panic!("`{bad}` was read");
            };
            assert!(why.starts_with(path), "{why}");
        }
    }

    #[test]
    fn unclean_leader_election_is_read_in_any_case_and_other_text_is_broken() {
        let read = |value: &str| {
            let text = format!(
                r#"{{"version":1,"config":{{"retention.ms":"1","unclean.leader.election.enable":{value}}}}}"#
            );
            decode_election_config(PATH, text.as_bytes())
        };
        for (value, expected) in [
            (r#""true""#, true),
            (r#""TRUE""#, true),
            (r#"" False ""#, false),
        ] {
            assert_eq!(
                found(read(value)).unclean_leader_election_enable,
                Some(expected)
            );
        }
        for value in ["true", "1", "null", r#""""#, r#""yes""#, "{}"] {
            assert!(complaint(read(value)).contains(UNCLEAN_LEADER_ELECTION_ENABLE));
        }
        for nothing in [
            "",
            r#"{"version":1}"#,
            r#"{"config":{}}"#,
            r#"{"config":{"retention.ms":5}}"#,
        ] {
            let read = found(decode_election_config(PATH, nothing.as_bytes()));
            assert_eq!(read, ElectionConfig::default(), "{nothing}");
        }
        complaint(decode_election_config(PATH, b"unclean=true"));
        for value in [None, Some(true), Some(false)] {
            let config = ElectionConfig {
                unclean_leader_election_enable: value,
            };
            let data = encode_election_config(&config);
            assert_eq!(found(decode_election_config(PATH, &data)), config);
        }
    }
}
