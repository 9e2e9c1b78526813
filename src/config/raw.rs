//! The configuration as typed: Kafka's property names with the place where each value was given.
//!
//! Later beats earlier: a later line, a later file, then `--override key=value`, as in `kafka-server-start`. It must
//! never show the value of a key that may hold a secret, not even through `Debug`. Upstream counterpart:
//! `Kafka.getPropsFromArgs`.

use std::collections::BTreeMap;
use std::fmt;

use super::error::ConfigError;
use super::keys;
use super::properties::{self, Property};

/// What stands for a secret wherever a configuration is shown; Kafka's own text.
pub const HIDDEN: &str = "[hidden]";

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, counted from 1; the name as the operator gave it.
    File { name: String, line: usize },
    /// `--override` on the command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(out, "{name} line {line}"),
            Self::CommandLine => out.write_str("--override"),
        }
    }
}

/// One value as typed.
#[derive(Clone, PartialEq, Eq)]
pub struct RawValue {
    text: String,
    origin: Origin,
}

impl RawValue {
    /// The value without the white space and control characters around it, as Kafka's `ConfigDef` trims.
    #[must_use]
    pub fn trimmed(&self) -> &str {
        self.text.trim_matches(|character| character <= ' ')
    }

    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// The text may be a secret, and is left out.
impl fmt::Debug for RawValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RawValue")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// All keys of a configuration, each with the value that won.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawConfig {
    entries: BTreeMap<String, RawValue>,
    sources: Vec<String>,
}

impl RawConfig {
    /// Reads the text of a file over what is already there.
    ///
    /// # Errors
    /// [`ConfigError::Malformed`] names the line that Java would refuse as well; nothing of the file is taken then.
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), ConfigError> {
        let properties = properties::parse(bytes).map_err(|malformed| ConfigError::Malformed {
            origin: Origin::File {
                name: name.to_owned(),
                line: malformed.line,
            },
            reason: malformed.to_string(),
        })?;
        for Property { line, key, value } in properties {
            let origin = Origin::File {
                name: name.to_owned(),
                line,
            };
            self.entries.insert(
                key,
                RawValue {
                    text: value,
                    origin,
                },
            );
        }
        self.sources.push(name.to_owned());
        Ok(())
    }

    /// Takes `key=value` from the command line. A blank value unsets the key.
    ///
    /// # Errors
    /// [`ConfigError::MalformedOverride`] where there is no key or no `=`.
    pub fn add_override(&mut self, text: &str) -> Result<(), ConfigError> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let key = key.trim();
        if key.is_empty() || !text.contains('=') {
            return Err(ConfigError::MalformedOverride {
                key: key.to_owned(),
            });
        }
        self.entries.insert(
            key.to_owned(),
            RawValue {
                text: value.to_owned(),
                origin: Origin::CommandLine,
            },
        );
        Ok(())
    }

    /// The value of a key; a blank one counts as not given.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.entries
            .get(key)
            .filter(|value| !value.trimmed().is_empty())
    }

    /// All keys that were given a value, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.entries
            .iter()
            .filter(|(_, value)| !value.trimmed().is_empty())
            .map(|(key, value)| (key.as_str(), value))
    }

    /// The files that were read, in order.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }
}

impl fmt::Debug for RawConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = out.debug_map();
        for (key, value) in &self.entries {
            let shown = if keys::may_hold_secret(key) {
                HIDDEN
            } else {
                value.text.as_str()
            };
            map.entry(key, &format_args!("{shown} ({})", value.origin));
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(raw: &RawConfig, key: &str) -> Option<String> {
        raw.get(key)
            .map(|value| format!("{} from {}", value.trimmed(), value.origin()))
    }

    #[test]
    fn the_last_line_file_and_override_win_and_are_named() {
        let mut raw = RawConfig::default();
        raw.add_file(
            "server.properties",
            b"broker.id=1\nbroker.id = 2 \nbroker.rack=a\nnum.partitions=1",
        )
        .unwrap();
        raw.add_file("klamm.properties", b"klamm.id=9\nnum.partitions=2")
            .unwrap();
        raw.add_override("broker.rack=b=c").unwrap();
        raw.add_override("klamm.id=").unwrap();
        assert_eq!(
            text_of(&raw, "broker.id").unwrap(),
            "2 from server.properties line 2"
        );
        assert_eq!(
            text_of(&raw, "num.partitions").unwrap(),
            "2 from klamm.properties line 2"
        );
        assert_eq!(text_of(&raw, "broker.rack").unwrap(), "b=c from --override");
        assert_eq!(text_of(&raw, "klamm.id"), None);
        assert_eq!(raw.sources(), ["server.properties", "klamm.properties"]);
    }

    #[test]
    fn an_override_without_equals_sign_is_refused() {
        let mut raw = RawConfig::default();
        let error = raw.add_override("klamm.id").unwrap_err();
        assert_eq!(error.to_string(), "--override klamm.id: expected key=value");
        assert!(raw.add_override("=1").is_err());
    }

    #[test]
    fn a_malformed_line_is_named() {
        let error = RawConfig::default()
            .add_file("server.properties", b"a=1\n\nlog.dir=C:\\users")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "server.properties line 3: a \\u escape needs four hexadecimal digits; write a literal backslash as two"
        );
    }

    #[test]
    fn debug_hides_passwords_and_the_values_of_keys_nobody_knows() {
        let mut raw = RawConfig::default();
        raw.add_file(
            "s",
            b"ssl.key.password=hunter1\nlistener.name.a.plain.sasl.jaas.config=hunter2\nmy.plugin.token=hunter3\nbroker.id=7",
        )
        .unwrap();
        raw.add_override("delegation.token.master.key=hunter4")
            .unwrap();
        let shown = format!("{raw:?}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("\"broker.id\": 7 (s line 4)"), "{shown}");
    }
}
