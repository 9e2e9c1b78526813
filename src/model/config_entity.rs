//! Whose configuration stands where below `/config`, but for topics: users, clients and the cluster's default.
//!
//! Must never show a value: users' configurations hold credentials. Upstream: `ConfigEntityZNode`, `ConfigType`,
//! `Sanitizer.java`.

use std::fmt;

use super::topic_config::Properties;

/// The name in the place of all users, clients or brokers that have no configuration of their own.
const DEFAULT: &str = "<default>";

/// A user's or client's name as it stands in a path: letters, digits, `.`, `-` and `_` of ASCII as they are, all else
/// percent-encoded. A user that is called `<default>` is so not taken for all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SanitizedName(String);

impl SanitizedName {
    /// Longer ones, in bytes, are left alone: hundreds of paths go to ZooKeeper in one request, which takes a mebibyte.
    pub const LENGTH_MAX: usize = 1_000;

    /// A name for a path.
    pub fn of(name: &str) -> SanitizedName {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let mut sanitized = String::with_capacity(name.len());
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
                sanitized.push(char::from(byte));
            } else {
                sanitized.push('%');
                sanitized.push(char::from(HEX[usize::from(byte >> 4)]));
                sanitized.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
        SanitizedName(sanitized)
    }

    /// A name that stands in a path already.
    pub fn read(in_path: &str) -> SanitizedName {
        SanitizedName(in_path.to_owned())
    }

    /// All that have no configuration of their own.
    pub fn default_entity() -> SanitizedName {
        SanitizedName(DEFAULT.to_owned())
    }

    /// Whether ZooKeeper can be asked for it together with others.
    pub fn is_too_long(&self) -> bool {
        self.0.len() > SanitizedName::LENGTH_MAX
    }

    /// As in the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SanitizedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigEntity {
    /// Of all brokers that say nothing else.
    BrokerDefault,
    /// A user's.
    User(SanitizedName),
    /// A user's clients of one id.
    UserClient(SanitizedName, SanitizedName),
    /// Clients of one id, of whatever user.
    Client(SanitizedName),
}

impl ConfigEntity {
    /// As brokers write it in notices: the path below `/config`.
    pub fn path(&self) -> String {
        match self {
            ConfigEntity::BrokerDefault => format!("brokers/{DEFAULT}"),
            ConfigEntity::User(user) => format!("users/{user}"),
            ConfigEntity::UserClient(user, client) => format!("users/{user}/clients/{client}"),
            ConfigEntity::Client(client) => format!("clients/{client}"),
        }
    }
}

/// A configuration. Shown by its keys alone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EntityConfig(pub Properties);

impl fmt::Debug for EntityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_paths_as_java_writes_them() {
        for (name, expected) in [
            ("alice", "alice"),
            ("a.b-c_D9", "a.b-c_D9"),
            ("CN=a, O=b", "CN%3Da%2C%20O%3Db"),
            ("a+b*c", "a%2Bb%2Ac"),
            ("<default>", "%3Cdefault%3E"),
            ("a/b%", "a%2Fb%25"),
            ("é", "%C3%A9"),
            ("", ""),
        ] {
            assert_eq!(SanitizedName::of(name).as_str(), expected, "{name}");
        }
    }

    #[test]
    fn each_entity_has_the_path_that_brokers_look_at() {
        let (user, client) = (SanitizedName::of("u/"), SanitizedName::default_entity());
        for (entity, expected) in [
            (ConfigEntity::BrokerDefault, "brokers/<default>"),
            (ConfigEntity::User(user.clone()), "users/u%2F"),
            (
                ConfigEntity::UserClient(user, client.clone()),
                "users/u%2F/clients/<default>",
            ),
            (ConfigEntity::Client(client), "clients/<default>"),
        ] {
            assert_eq!(entity.path(), expected);
        }
    }

    #[test]
    fn no_value_is_shown() {
        let config = EntityConfig([("SCRAM-SHA-256".to_owned(), "secret".to_owned())].into());
        assert_eq!(format!("{config:?}"), r#"{"SCRAM-SHA-256"}"#);
    }
}
