//! What klamm makes of each key of a broker's file, for all releases from 1.0 to 3.9.
//!
//! The lists hold names only; meaning and ranges stand in `resolved`, refusals in `security`. A security key must never
//! land in [`KeyClass::BrokerOnly`]. Upstream counterpart: `KafkaConfig.configDef` of the releases, taken together.

/// The keys of klamm's own, in the order of their documentation.
pub const KLAMM: &[&str] = &[
    "klamm.id",
    "klamm.listeners",
    "klamm.advertised.listeners",
    "klamm.takeover",
    "klamm.takeover.delay.ms",
    "klamm.http.listen",
    "klamm.capture.file",
    "klamm.capture.max.bytes",
    "klamm.capture.max.files",
    "klamm.log.dir",
    "klamm.log.level",
    "klamm.ignore.create.topic.policy",
];

/// Kafka's keys that shape what klamm does.
const USED: &[&str] = &[
    "advertised.listeners",
    "auto.leader.rebalance.enable",
    "broker.id",
    "broker.rack",
    "connections.max.idle.ms",
    "control.plane.listener.name",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "controller.socket.timeout.ms",
    "default.replication.factor",
    "delegation.token.expiry.check.interval.ms",
    "delegation.token.master.key",
    "delegation.token.secret.key",
    "delete.topic.enable",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
    "listener.security.protocol.map",
    "listeners",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "request.timeout.ms",
    "reserved.broker.max.id",
    "security.inter.broker.protocol",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "socket.request.max.bytes",
    "unclean.leader.election.enable",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
];

/// Kafka's keys about protection, whatever they are set to; `security` tells which values ask for what klamm lacks.
const SECURITY: &[&str] = &[
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "config.providers",
    "connections.max.reauth.ms",
    "controller.listener.names",
    "create.topic.policy.class.name",
    "delegation.token.expiry.time.ms",
    "delegation.token.max.lifetime.ms",
    "early.start.listeners",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "principal.builder.class",
    "process.roles",
    "security.providers",
    "super.users",
    "zookeeper.clientCnxnSocket",
    "zookeeper.metadata.migration.enable",
    "zookeeper.set.acl",
];

/// Beginnings of names that belong to protection.
const SECURITY_PREFIXES: &[&str] = &["ssl.", "sasl.", "zookeeper.ssl.", "config.providers."];

/// Kafka's keys about a broker's own data, threads, groups, transactions and quotas, or about KRaft: nothing for klamm.
const BROKER_ONLY: &[&str] = &[
    "advertised.host.name",
    "advertised.port",
    "alter.config.policy.class.name",
    "alter.config.policy.kraft.compatibility.enable",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "auto.create.topics.enable",
    "auto.include.jmx.reporter",
    "background.threads",
    "broker.heartbeat.interval.ms",
    "broker.id.generation.enable",
    "broker.session.timeout.ms",
    "client.quota.callback.class",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "connection.failed.authentication.delay.ms",
    "controlled.shutdown.enable",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "delete.records.purgatory.purge.interval.requests",
    "eligible.leader.replicas.enable",
    "fetch.max.bytes",
    "fetch.purgatory.purge.interval.requests",
    "follower.replication.throttled.rate",
    "follower.replication.throttled.replicas",
    "host.name",
    "initial.broker.registration.timeout.ms",
    "kafka.metrics.polling.interval.secs",
    "kafka.metrics.reporters",
    "leader.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "log.dir",
    "log.dir.failure.timeout.ms",
    "log.dirs",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "message.max.bytes",
    "metric.reporters",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.alter.log.dirs.threads",
    "num.replica.fetchers",
    "offset.metadata.max.bytes",
    "port",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "producer.purgatory.purge.interval.requests",
    "queued.max.request.bytes",
    "queued.max.requests",
    "quota.consumer.default",
    "quota.producer.default",
    "quota.window.num",
    "quota.window.size.seconds",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "replica.selector.class",
    "replica.socket.receive.buffer.bytes",
    "replica.socket.timeout.ms",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "server.max.startup.time.ms",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "telemetry.max.bytes",
    "transactional.id.expiration.ms",
    "unstable.api.versions.enable",
    "zookeeper.max.in.flight.requests",
    "zookeeper.sync.time.ms",
];

/// Beginnings of names that belong to a broker's own work, where the whole family does.
const BROKER_ONLY_PREFIXES: &[&str] = &[
    "controller.quorum.",
    "group.",
    "log.cleaner.",
    "log.cleanup.",
    "log.flush.",
    "log.index.",
    "log.local.",
    "log.max.",
    "log.message.",
    "log.preallocate",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "metadata.",
    "metrics.",
    "offsets.",
    "remote.log.",
    "remote.fetch.",
    "replica.fetch.",
    "rlmm.config.",
    "rsm.config.",
    "transaction.",
];

/// Kafka's PASSWORD-typed keys, without the listener and mechanism that may stand before them.
const PASSWORDS: &[&str] = &[
    "delegation.token.master.key",
    "delegation.token.secret.key",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "sasl.jaas.config",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
];

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyClass {
    /// A key of klamm's own.
    Klamm,
    /// `klamm.*`, but no key of klamm's.
    UnknownKlamm,
    /// Shapes what klamm does.
    Used,
    /// About protection: refused, or named in the log where it has no effect.
    Security,
    /// Concerns only the broker whose file it is.
    BrokerOnly,
    /// Not Kafka's: a plug-in's, a vendor's, or a slip of the pen.
    Unknown,
}

/// Sorts a key.
#[must_use]
pub fn classify(key: &str) -> KeyClass {
    let base = base_name(key);
    if key.starts_with("klamm.") {
        return if KLAMM.contains(&key) {
            KeyClass::Klamm
        } else {
            KeyClass::UnknownKlamm
        };
    }
    if SECURITY.contains(&base) || starts_with_any(base, SECURITY_PREFIXES) {
        KeyClass::Security
    } else if USED.contains(&key) {
        KeyClass::Used
    } else if BROKER_ONLY.contains(&base) || starts_with_any(base, BROKER_ONLY_PREFIXES) {
        KeyClass::BrokerOnly
    } else if base != key && USED.contains(&base) {
        // `listener.name.x.connections.max.idle.ms`: another listener's own limits.
        KeyClass::BrokerOnly
    } else {
        KeyClass::Unknown
    }
}

fn starts_with_any(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// The key without `listener.name.<listener>.` and without the SASL mechanism after it. A listener's name holds no dot
/// here: Kafka allows one, but then the rest is not one of the names above and the key counts as unknown or as security.
#[must_use]
pub fn base_name(key: &str) -> &str {
    let Some((_, rest)) = key
        .strip_prefix("listener.name.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return key;
    };
    // A mechanism, or the rest of a listener's name with a dot, may stand before the security key.
    for family in [
        "sasl.",
        "ssl.",
        "principal.builder.class",
        "connections.max.reauth.ms",
    ] {
        let inner = rest
            .match_indices(family)
            .find(|(at, _)| *at == 0 || rest[..*at].ends_with('.'));
        if let Some((at, _)) = inner {
            return &rest[at..];
        }
    }
    rest
}

/// Whether the value must never be shown: Kafka's passwords, and, as in Kafka, any key of unknown type.
#[must_use]
pub fn may_hold_secret(key: &str) -> bool {
    let base = base_name(key);
    base.ends_with(".password")
        || starts_with_any(base, &["config.providers.", "rlmm.config.", "rsm.config."])
        || PASSWORDS.contains(&base)
        || matches!(classify(key), KeyClass::Unknown | KeyClass::UnknownKlamm)
}

/// The key of klamm's that was most likely meant, none where all are far off.
#[must_use]
pub fn nearest_klamm_key(typed: &str) -> Option<&'static str> {
    KLAMM
        .iter()
        .map(|key| (edit_distance(typed, key), *key))
        .min()
        .filter(|(distance, _)| *distance <= typed.len() / 3)
        .map(|(_, key)| key)
}

/// Insertions, deletions and replacements between two texts.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut next = vec![line + 1];
        let mut beside = line + 1;
        for (pair, to) in row.windows(2).zip(&right) {
            let &[diagonal, above] = pair else { continue };
            beside = (diagonal + usize::from(from != *to))
                .min(above + 1)
                .min(beside + 1);
            next.push(beside);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_also_behind_listener_and_mechanism() {
        for (key, class) in [
            ("klamm.id", KeyClass::Klamm),
            ("klamm.idd", KeyClass::UnknownKlamm),
            ("zookeeper.connect", KeyClass::Used),
            ("log.retention.hours", KeyClass::BrokerOnly),
            ("log.dirs", KeyClass::BrokerOnly),
            ("ssl.keystore.location", KeyClass::Security),
            (
                "listener.name.internal.ssl.keystore.location",
                KeyClass::Security,
            ),
            (
                "listener.name.internal.scram-sha-256.sasl.jaas.config",
                KeyClass::Security,
            ),
            (
                "listener.name.in.ternal.ssl.key.password",
                KeyClass::Security,
            ),
            (
                "listener.name.internal.max.connections",
                KeyClass::BrokerOnly,
            ),
            (
                "listener.name.internal.connections.max.idle.ms",
                KeyClass::BrokerOnly,
            ),
            ("confluent.support.metrics.enable", KeyClass::Unknown),
        ] {
            assert_eq!(classify(key), class, "{key}");
        }
    }

    #[test]
    fn no_key_stands_in_two_lists() {
        let mut keys = [USED, SECURITY, BROKER_ONLY].concat();
        let listed = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), listed);
    }

    #[test]
    fn passwords_are_known_by_their_names() {
        for key in [
            "ssl.key.password",
            "zookeeper.ssl.keystore.password",
            "listener.name.a.plain.sasl.jaas.config",
            "x.y",
        ] {
            assert!(may_hold_secret(key), "{key}");
        }
        for key in [
            "broker.id",
            "listeners",
            "klamm.id",
            "ssl.keystore.location",
        ] {
            assert!(!may_hold_secret(key), "{key}");
        }
    }

    #[test]
    fn the_nearest_key_is_suggested_only_when_it_is_near() {
        assert_eq!(nearest_klamm_key("klamm.listener"), Some("klamm.listeners"));
        assert_eq!(nearest_klamm_key("klamm.take.over"), Some("klamm.takeover"));
        assert_eq!(
            nearest_klamm_key("klamm.take.over.delay"),
            Some("klamm.takeover.delay.ms")
        );
        assert_eq!(
            nearest_klamm_key("klamm.wholly.unrelated.thing.altogether"),
            None
        );
        assert_eq!(edit_distance("abc", "abd"), 1);
        assert_eq!(edit_distance("", "ab"), 2);
    }
}
