//! What a topic can be configured with: names, values that every release takes, and where the value comes from that counts.
//!
//! A bad value in `/config/topics/T` makes brokers fail to open the topic's logs, each time they start: nothing may be
//! written that one of them can't read. So a value must suit all releases that klamm drives, where they differ.
//! Must never know what a broker's own file says: what stands in for it is given.
//! Upstream: `LogConfig.java`, `TopicConfig.java`, `ServerTopicConfigSynonyms.java`.

use std::collections::BTreeMap;

use super::InterBrokerProtocol;

mod keys;

use keys::{KEYS, Key, Kind, Unit};

/// A topic's configuration, or the broker's properties that stand in where it says nothing.
pub type Properties = BTreeMap<String, String>;

/// Where a value comes from, under the numbers of Kafka's `ConfigSource`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum ConfigSource {
    /// The topic's own configuration.
    Topic = 1,
    /// The cluster's default, which can be changed while brokers run (KIP-226).
    DynamicDefaultBroker = 3,
    /// A broker's file.
    StaticBroker = 4,
    /// Nobody said anything else.
    Default = 5,
}

/// One setting that is in force for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSetting {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Who set it.
    pub source: ConfigSource,
}

/// What stands in for what topics don't say, under the names that brokers have for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerProperties {
    /// What is set for all brokers in `/config/brokers/<default>`; it comes before the file. What is set there for a single
    /// broker doesn't count: in Java that of the controller's own would.
    cluster: Properties,
    /// The controller's file.
    file: Properties,
}

impl BrokerProperties {
    /// Those of the file alone.
    pub fn of_file(file: Properties) -> BrokerProperties {
        BrokerProperties {
            cluster: Properties::new(),
            file,
        }
    }

    /// The same with what is set in `/config/brokers/<default>` of what brokers at `protocol` can change while they run; and
    /// what of that is of no use, in words. Brokers go by the next in line there, and so does this.
    pub fn with_cluster_defaults(
        mut self,
        config: &Properties,
        protocol: InterBrokerProtocol,
    ) -> (BrokerProperties, Vec<String>) {
        let mut useless = Vec::new();
        self.cluster.clear();
        for key in KEYS.iter().filter(|key| key.name != MESSAGE_FORMAT) {
            // Of several units of time only the first can be set so.
            let Some((name, Unit::Same)) = key.broker.first() else {
                continue;
            };
            let Some(value) = config.get(*name) else {
                continue;
            };
            match key.check(value, protocol) {
                Ok(()) => _ = self.cluster.insert((*name).to_owned(), value.clone()),
                Err(why) => useless.push(format!("{name}={}: {why}", shortened(value))),
            }
        }
        (self, useless)
    }
}

/// Enough of a value to find it again.
fn shortened(value: &str) -> String {
    const SHOWN: usize = 100;
    match value.char_indices().nth(SHOWN) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// The broker's properties that stand in for what topics don't say, and those that decide what topics may say.
pub fn broker_properties() -> impl Iterator<Item = &'static str> {
    let synonyms = KEYS.iter().flat_map(|key| key.broker.iter());
    synonyms
        .map(|(name, _)| *name)
        .chain([REMOTE_STORAGE_SYSTEM])
}

/// Fixed at a broker's start.
const MESSAGE_FORMAT: &str = "message.format.version";
const REMOTE_STORAGE_SYSTEM: &str = "remote.log.storage.system.enable";

/// Whether brokers at `protocol` can live with a topic that is so configured; `broker` stands in where it says nothing.
///
/// # Errors
/// What is wrong, with the key and what would do.
pub fn check(
    topic: &Properties,
    protocol: InterBrokerProtocol,
    broker: &BrokerProperties,
) -> Result<(), String> {
    for (name, value) in topic {
        let Some(key) = find(name) else {
            return Err(format!(
                "`{name}` is nothing that a topic can be configured with"
            ));
        };
        key.check(value, protocol)
            .map_err(|why| format!("{name}={value}: {why}"))?;
    }
    check_together(topic, protocol, broker)
}

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What no value shows by itself.
fn check_together(
    topic: &Properties,
    protocol: InterBrokerProtocol,
    broker: &BrokerProperties,
) -> Result<(), String> {
    let value = |name: &str| {
        let key = find(name);
        key.map_or_else(String::new, |key| {
            key.in_force(topic, broker, protocol).value
        })
    };
    let number = |name: &str| value(name).trim().parse::<i64>().unwrap_or_default();
    let is_true = |name: &str| value(name).trim().eq_ignore_ascii_case("true");
    let (min_lag, max_lag) = (
        number("min.compaction.lag.ms"),
        number("max.compaction.lag.ms"),
    );
    if min_lag > max_lag {
        return Err(format!(
            "min.compaction.lag.ms ({min_lag}) is more than max.compaction.lag.ms ({max_lag})"
        ));
    }
    for name in ["remote.log.copy.disable", "remote.log.delete.on.disable"] {
        if is_true(name) {
            return Err(format!("{name} can be set in KRaft clusters only"));
        }
    }
    if !is_true("remote.storage.enable") {
        return Ok(());
    }
    let has_remote_storage = broker
        .file
        .get(REMOTE_STORAGE_SYSTEM)
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    if !has_remote_storage {
        return Err(format!(
            "remote.storage.enable needs {REMOTE_STORAGE_SYSTEM}=true in the configuration of all brokers, and in the controller's"
        ));
    }
    if value("cleanup.policy")
        .to_ascii_lowercase()
        .contains("compact")
    {
        return Err("a compacted topic can't have remote.storage.enable".to_owned());
    }
    for (local, whole) in [
        ("local.retention.bytes", "retention.bytes"),
        ("local.retention.ms", "retention.ms"),
    ] {
        const LIKE_WHOLE: i64 = -2;
        let (part, all) = (number(local), number(whole));
        if all > -1 && part != LIKE_WHOLE && (part == -1 || part > all) {
            return Err(format!("{local} ({part}) is more than {whole} ({all})"));
        }
    }
    Ok(())
}

/// Everything that is in force for a topic so configured, in the order of the names, as far as brokers at `protocol` know
/// it. `broker` stands in for what it doesn't say.
pub fn in_force(
    topic: &Properties,
    protocol: InterBrokerProtocol,
    broker: &BrokerProperties,
) -> Vec<TopicSetting> {
    let known = KEYS.iter();
    known
        .filter(|key| key.since <= protocol || topic.contains_key(key.name))
        .map(|key| key.in_force(topic, broker, protocol))
        .collect()
}

impl Key {
    fn in_force(
        &self,
        topic: &Properties,
        broker: &BrokerProperties,
        protocol: InterBrokerProtocol,
    ) -> TopicSetting {
        let setting = |value, source| TopicSetting {
            name: self.name,
            value,
            source,
        };
        if let Some(value) = topic.get(self.name) {
            return setting(value.trim().to_owned(), ConfigSource::Topic);
        }
        let of_cluster = self.broker.first();
        let of_cluster = of_cluster.and_then(|(name, _)| broker.cluster.get(*name));
        if let Some(value) = of_cluster {
            return setting(value.trim().to_owned(), ConfigSource::DynamicDefaultBroker);
        }
        let of_file = self.broker.iter().find_map(|(name, unit)| {
            let value = broker.file.get(*name)?;
            unit.convert(value)
        });
        match of_file {
            Some(value) => setting(value, ConfigSource::StaticBroker),
            None => setting(self.default_at(protocol), ConfigSource::Default),
        }
    }

    /// Two defaults moved with the releases.
    fn default_at(&self, protocol: InterBrokerProtocol) -> String {
        const RELEASE_2_5: InterBrokerProtocol = InterBrokerProtocol::new(2, 5, 0);
        const RELEASE_3_0: InterBrokerProtocol = InterBrokerProtocol::new(3, 0, 0);
        match self.name {
            // KAFKA-4203.
            "max.message.bytes" if protocol < RELEASE_2_5 => "1000012".to_owned(),
            // KIP-724.
            "message.format.version" if protocol < RELEASE_3_0 => protocol.to_string(),
            _ => self.default.to_owned(),
        }
    }

    fn check(&self, value: &str, protocol: InterBrokerProtocol) -> Result<(), String> {
        let value = value.trim();
        match self.kind {
            Kind::Boolean => {
                let known = ["true", "false"];
                let is_known = known.iter().any(|word| value.eq_ignore_ascii_case(word));
                is_known
                    .then_some(())
                    .ok_or_else(|| "must be true or false".to_owned())
            }
            Kind::Int(min, max) => whole_number(value, i64::from(min), i64::from(max)),
            Kind::Long(min) => whole_number(value, min, i64::MAX),
            Kind::GzipLevel if value == "0" => Err("must be -1, or from 1 to 9".to_owned()),
            Kind::GzipLevel => whole_number(value, -1, 9),
            Kind::Ratio => match value.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(()),
                _ => Err("must be a number from 0 to 1".to_owned()),
            },
            Kind::OneOf(words) => one_of(value, words),
            Kind::Compression => {
                const RELEASE_2_1: InterBrokerProtocol = InterBrokerProtocol::new(2, 1, 0);
                if value == "zstd" && protocol < RELEASE_2_1 {
                    return Err(format!(
                        "brokers know zstd from inter-broker protocol 2.1 on, and the cluster is at {protocol}"
                    ));
                }
                one_of(
                    value,
                    &["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"],
                )
            }
            Kind::ListOf(words) => items(value).try_for_each(|item| one_of(item, words)),
            Kind::FormatVersion => format_version(value, protocol),
            Kind::ThrottledReplicas => throttled_replicas(value),
        }
    }
}

fn whole_number(value: &str, min: i64, max: i64) -> Result<(), String> {
    match value.parse::<i64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(()),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

fn one_of(value: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&value) {
        return Ok(());
    }
    Err(format!("must be one of {}", words.join(", ")))
}

/// Kafka's lists: nothing at all is an empty one.
fn items(value: &str) -> impl Iterator<Item = &str> {
    let all = if value.is_empty() {
        None
    } else {
        Some(value.split(','))
    };
    all.into_iter().flatten().map(str::trim)
}

/// Versions of the message format have the names of inter-broker protocols, and those before 1.0 as well. A later one
/// than the cluster's is ignored by newer brokers and unknown to older ones.
fn format_version(value: &str, protocol: InterBrokerProtocol) -> Result<(), String> {
    // With the number of internal steps of each.
    const BEFORE_1_0: [(&str, u8); 8] = [
        ("0.8.0", 0),
        ("0.8.1", 0),
        ("0.8.2", 0),
        ("0.9.0", 0),
        ("0.10.0", 2),
        ("0.10.1", 3),
        ("0.10.2", 1),
        ("0.11.0", 3),
    ];
    let is_old = |(release, steps): &(&str, u8)| {
        let rest = value.strip_prefix(release);
        rest.is_some_and(|rest| match rest.strip_prefix("-IV") {
            Some(step) => step.parse::<u8>().is_ok_and(|step| step < *steps),
            None => rest.is_empty() || rest.starts_with('.'),
        })
    };
    if BEFORE_1_0.iter().any(is_old) {
        return Ok(());
    }
    match value.parse::<InterBrokerProtocol>() {
        Ok(version) if version <= protocol => Ok(()),
        Ok(_) => Err(format!(
            "is above the cluster's inter-broker protocol {protocol}"
        )),
        Err(_) => Err("must be the version of a Kafka release, such as 2.8".to_owned()),
    }
}

fn throttled_replicas(value: &str) -> Result<(), String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_replica = |item: &str| {
        let parts = item.split_once(':');
        parts.is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
    };
    if value == "*" || items(value).all(is_replica) {
        return Ok(());
    }
    Err("must be * or a list such as 0:101,1:102 (partition:broker)".to_owned())
}

impl Unit {
    /// A broker's value in the topic's unit; `None`: it is none.
    fn convert(self, value: &str) -> Option<String> {
        let factor = match self {
            Unit::Same => return Some(value.trim().to_owned()),
            Unit::Minutes => 60_000,
            Unit::Hours => 3_600_000,
        };
        let number: i64 = value.trim().parse().ok()?;
        // Less than nothing is for ever, as in Kafka.
        let ms = if number < 0 {
            -1
        } else {
            number.checked_mul(factor)?
        };
        Some(ms.to_string())
    }
}

#[cfg(test)]
mod tests;
