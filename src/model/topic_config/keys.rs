//! The keys, in the order of their names. Ranges are the narrowest of the releases 1.0 to 3.9; defaults those of 3.9.
//!
//! Must never hold a key that is no topic's: whatever stands here is accepted.

use crate::model::InterBrokerProtocol;

pub(super) struct Key {
    pub(super) name: &'static str,
    /// The first protocol whose release knows it; older brokers ignore it.
    pub(super) since: InterBrokerProtocol,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    /// The broker's properties that stand in for it; the first that is set counts.
    pub(super) broker: &'static [(&'static str, Unit)],
}

pub(super) enum Kind {
    Boolean,
    /// From, to.
    Int(i32, i32),
    /// From.
    Long(i64),
    /// 0 to 1.
    Ratio,
    OneOf(&'static [&'static str]),
    ListOf(&'static [&'static str]),
    Compression,
    /// −1, or 1 to 9.
    GzipLevel,
    FormatVersion,
    ThrottledReplicas,
}

/// What a broker's property counts in.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Same,
    Minutes,
    Hours,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    broker: &'static [(&'static str, Unit)],
) -> Key {
    Key {
        name,
        since: InterBrokerProtocol::OLDEST,
        kind,
        default,
        broker,
    }
}

impl Key {
    const fn since(self, major: u8, minor: u8) -> Key {
        Key {
            since: InterBrokerProtocol::new(major, minor, 0),
            ..self
        }
    }
}

const NEVER: &str = "9223372036854775807";
use Kind::{Boolean, Int, ListOf, Long, OneOf, Ratio};
use Unit::{Hours, Minutes, Same};

pub(super) const KEYS: &[Key] = &[
    key(
        "cleanup.policy",
        ListOf(&["compact", "delete"]),
        "delete",
        &[("log.cleanup.policy", Same)],
    ),
    key(
        "compression.gzip.level",
        Kind::GzipLevel,
        "-1",
        &[("compression.gzip.level", Same)],
    )
    .since(3, 8),
    key(
        "compression.lz4.level",
        Int(1, 17),
        "9",
        &[("compression.lz4.level", Same)],
    )
    .since(3, 8),
    key(
        "compression.type",
        Kind::Compression,
        "producer",
        &[("compression.type", Same)],
    ),
    key(
        "compression.zstd.level",
        Int(-131_072, 22),
        "3",
        &[("compression.zstd.level", Same)],
    )
    .since(3, 8),
    key(
        "delete.retention.ms",
        Long(0),
        "86400000",
        &[("log.cleaner.delete.retention.ms", Same)],
    ),
    key(
        "file.delete.delay.ms",
        Long(0),
        "60000",
        &[("log.segment.delete.delay.ms", Same)],
    ),
    key(
        "flush.messages",
        Long(1),
        NEVER,
        &[("log.flush.interval.messages", Same)],
    ),
    key(
        "flush.ms",
        Long(0),
        NEVER,
        &[
            ("log.flush.interval.ms", Same),
            ("log.flush.scheduler.interval.ms", Same),
        ],
    ),
    key(
        "follower.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        &[],
    ),
    key(
        "index.interval.bytes",
        Int(0, i32::MAX),
        "4096",
        &[("log.index.interval.bytes", Same)],
    ),
    key(
        "leader.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        &[],
    ),
    key(
        "local.retention.bytes",
        Long(-2),
        "-2",
        &[("log.local.retention.bytes", Same)],
    )
    .since(3, 6),
    key(
        "local.retention.ms",
        Long(-2),
        "-2",
        &[("log.local.retention.ms", Same)],
    )
    .since(3, 6),
    key(
        "max.compaction.lag.ms",
        Long(1),
        NEVER,
        &[("log.cleaner.max.compaction.lag.ms", Same)],
    )
    .since(2, 3),
    key(
        "max.message.bytes",
        Int(0, i32::MAX),
        "1048588",
        &[("message.max.bytes", Same)],
    ),
    key(
        "message.downconversion.enable",
        Boolean,
        "true",
        &[("log.message.downconversion.enable", Same)],
    )
    .since(2, 0),
    key(
        "message.format.version",
        Kind::FormatVersion,
        "3.0-IV1",
        &[("log.message.format.version", Same)],
    ),
    key(
        "message.timestamp.after.max.ms",
        Long(0),
        NEVER,
        &[("log.message.timestamp.after.max.ms", Same)],
    )
    .since(3, 6),
    key(
        "message.timestamp.before.max.ms",
        Long(0),
        NEVER,
        &[("log.message.timestamp.before.max.ms", Same)],
    )
    .since(3, 6),
    key(
        "message.timestamp.difference.max.ms",
        Long(0),
        NEVER,
        &[("log.message.timestamp.difference.max.ms", Same)],
    ),
    key(
        "message.timestamp.type",
        OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        &[("log.message.timestamp.type", Same)],
    ),
    key(
        "min.cleanable.dirty.ratio",
        Ratio,
        "0.5",
        &[("log.cleaner.min.cleanable.ratio", Same)],
    ),
    key(
        "min.compaction.lag.ms",
        Long(0),
        "0",
        &[("log.cleaner.min.compaction.lag.ms", Same)],
    ),
    key(
        "min.insync.replicas",
        Int(1, i32::MAX),
        "1",
        &[("min.insync.replicas", Same)],
    ),
    key(
        "preallocate",
        Boolean,
        "false",
        &[("log.preallocate", Same)],
    ),
    key("remote.log.copy.disable", Boolean, "false", &[]).since(3, 9),
    key("remote.log.delete.on.disable", Boolean, "false", &[]).since(3, 9),
    key("remote.storage.enable", Boolean, "false", &[]).since(3, 6),
    key(
        "retention.bytes",
        Long(i64::MIN),
        "-1",
        &[("log.retention.bytes", Same)],
    ),
    key(
        "retention.ms",
        Long(-1),
        "604800000",
        &[
            ("log.retention.ms", Same),
            ("log.retention.minutes", Minutes),
            ("log.retention.hours", Hours),
        ],
    ),
    key(
        "segment.bytes",
        Int(14, i32::MAX),
        "1073741824",
        &[("log.segment.bytes", Same)],
    ),
    key(
        "segment.index.bytes",
        Int(4, i32::MAX),
        "10485760",
        &[("log.index.size.max.bytes", Same)],
    ),
    key(
        "segment.jitter.ms",
        Long(0),
        "0",
        &[
            ("log.roll.jitter.ms", Same),
            ("log.roll.jitter.hours", Hours),
        ],
    ),
    key(
        "segment.ms",
        Long(1),
        "604800000",
        &[("log.roll.ms", Same), ("log.roll.hours", Hours)],
    ),
    key(
        "unclean.leader.election.enable",
        Boolean,
        "false",
        &[("unclean.leader.election.enable", Same)],
    ),
];
