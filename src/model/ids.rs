//! Ids and epochs, each a type of its own so that one can't be passed for another.
//!
//! Must never carry behaviour beyond comparing, printing and listing.

use std::fmt;
use std::sync::Arc;

/// A broker id. Genuine ids are 0 or more; the sentinels below stand in leader fields only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub i32);

impl BrokerId {
    /// "This partition has no leader": stands in ZooKeeper and on the wire.
    pub const NO_LEADER: BrokerId = BrokerId(-1);
    /// "This topic is being deleted": stands in UpdateMetadata only, never in ZooKeeper.
    pub const LEADER_DURING_DELETE: BrokerId = BrokerId(-2);
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The czxid of `/brokers/ids/N`: it names one registration of a broker, so a restart is seen by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerEpoch(pub i64);

impl BrokerEpoch {
    /// On the wire: "unknown, don't check".
    pub const UNKNOWN: BrokerEpoch = BrokerEpoch(-1);
}

impl fmt::Display for BrokerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number stored in `/controller_epoch`. The fence is that node's version, which is another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerEpoch(pub i32);

impl fmt::Display for ControllerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rises by one with every controller write of a partition's state; 0 at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// The epoch of a state that was just created.
    pub const INITIAL: LeaderEpoch = LeaderEpoch(0);
    /// StopReplica: no epoch known, the broker doesn't check.
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
    /// StopReplica: the topic is being deleted; overrides the real epoch.
    pub const DURING_DELETE: LeaderEpoch = LeaderEpoch(-2);

    /// The epoch of the next controller write.
    pub fn next(self) -> LeaderEpoch {
        LeaderEpoch(self.0.saturating_add(1))
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ZooKeeper version of a partition's state node: `zk_version` or `partition_epoch` on the wire.
/// Only ZooKeeper makes these; a leader that is told a wrong one can't write its in-sync set any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionEpoch(pub i32);

impl fmt::Display for PartitionEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An ordered list of broker ids (replicas, isr), cheap to clone and shared between requests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerIds(Arc<[i32]>);

impl BrokerIds {
    /// The empty list. All empty lists share one allocation: every settled assignment holds two of them.
    pub fn empty() -> BrokerIds {
        BrokerIds(Arc::default())
    }

    /// The ids as the wire wants them.
    pub fn as_i32s(&self) -> &[i32] {
        &self.0
    }

    /// The ids in order.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = BrokerId> + ExactSizeIterator + Clone + '_ {
        self.0.iter().map(|id| BrokerId(*id))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `id` is among them.
    pub fn contains(&self, id: BrokerId) -> bool {
        self.0.contains(&id.0)
    }

    /// The first: for an assignment, the preferred replica.
    pub fn first(&self) -> Option<BrokerId> {
        self.0.first().map(|id| BrokerId(*id))
    }

    /// The same list, in the same order, without those that aren't among `others`. What a client or a node lists may be
    /// long: this isn't quadratic.
    pub fn among(&self, others: &BrokerIds) -> BrokerIds {
        let others = Lookup::of(others);
        self.iter().filter(|id| others.holds(*id)).collect()
    }

    /// The same list, in the same order, without those that are among `others`; not quadratic either.
    pub fn beyond(&self, others: &BrokerIds) -> BrokerIds {
        let others = Lookup::of(others);
        self.iter().filter(|id| !others.holds(*id)).collect()
    }

    /// The same list, in the same order, without `id`.
    pub fn without(&self, id: BrokerId) -> BrokerIds {
        self.iter().filter(|other| *other != id).collect()
    }
}

/// As many ids as any sensible partition has are found fastest by going through them.
const FEW: usize = 16;

/// Which ids are in a list.
enum Lookup<'a> {
    /// As they stand.
    Few(&'a [i32]),
    /// Sorted.
    Many(Vec<i32>),
}

impl Lookup<'_> {
    fn of(ids: &BrokerIds) -> Lookup<'_> {
        if ids.len() <= FEW {
            return Lookup::Few(&ids.0);
        }
        let mut sorted = ids.0.to_vec();
        sorted.sort_unstable();
        Lookup::Many(sorted)
    }

    fn holds(&self, id: BrokerId) -> bool {
        match self {
            Lookup::Few(ids) => ids.contains(&id.0),
            Lookup::Many(ids) => ids.binary_search(&id.0).is_ok(),
        }
    }
}

impl FromIterator<BrokerId> for BrokerIds {
    fn from_iter<I: IntoIterator<Item = BrokerId>>(ids: I) -> BrokerIds {
        BrokerIds(ids.into_iter().map(|id| id.0).collect())
    }
}

impl From<&[i32]> for BrokerIds {
    fn from(ids: &[i32]) -> BrokerIds {
        BrokerIds(Arc::from(ids))
    }
}

impl<const N: usize> From<[i32; N]> for BrokerIds {
    fn from(ids: [i32; N]) -> BrokerIds {
        BrokerIds(Arc::from(ids))
    }
}

impl fmt::Debug for BrokerIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BrokerIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (position, id) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{id}")?;
        }
        f.write_str("]")
    }
}

/// A topic's name, shared: a hundred thousand partitions point at the same few thousand names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// Takes any text: names found in ZooKeeper are judged where they are read.
    pub fn new(name: &str) -> TopicName {
        TopicName(Arc::from(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether Kafka accepts this as a topic's name: 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..`.
    pub fn is_legal(&self) -> bool {
        let name = self.as_str();
        let legal_byte =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !name.is_empty()
            && name.len() <= 249
            && name != "."
            && name != ".."
            && name.bytes().all(legal_byte)
    }
}

impl From<Arc<str>> for TopicName {
    fn from(name: Arc<str>) -> TopicName {
        TopicName(name)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A topic's 128-bit id (KIP-516). Never zero: a topic without an id is `None`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// `None` for the two reserved ids, 0 and 1.
    pub fn new(bytes: [u8; 16]) -> Option<TopicId> {
        (u128::from_be_bytes(bytes) > 1).then_some(TopicId(bytes))
    }

    /// Big-endian, as on the wire.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// One partition of one topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's index, 0 or more.
    pub partition: i32,
}

impl TopicPartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: &TopicName, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: topic.clone(),
            partition,
        }
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// One replica: a partition on a broker. Upstream: `PartitionAndReplica`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The partition.
    pub partition: TopicPartition,
    /// The broker that hosts it.
    pub broker: BrokerId,
}
