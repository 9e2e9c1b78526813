//! What stands in ZooKeeper's nodes: JSON to values and back. JSON is known here and nowhere else in klamm.
//!
//! Reads as tolerantly as the Java controller does (unknown fields, text after the value, the last of two equal keys)
//! but takes no broken node for an empty one: content that can't be understood is [`Read::Broken`], naming the path,
//! what is wrong and what to do. Must never panic on content and never judge whether an assignment makes sense.
//! Upstream: `ZkData.scala`, `Broker.scala`, `FeatureZNode`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::effect::{FeatureZnode, ProducerIdBlock, Read, StateRead, TopicZnode};
use crate::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    Features, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    SecurityProtocol, TopicId, TopicName, TopicPartition,
};

mod admin;
mod cluster;
mod config;
#[cfg(test)]
mod tests;
mod token;

pub use admin::{decode_preferred_election, decode_reassignment, encode_reassignment};
pub use cluster::decode_cluster_id;
pub use config::{
    decode_config_change, decode_election_config, decode_entity_config, encode_config_change,
    encode_election_config, encode_topic_config,
};
pub use token::{decode_token, encode_token_change};

/// As Java's decoder of topic ids: URL alphabet, padding optional, spare bits ignored.
const TOPIC_ID_TEXT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why content can't be understood, in words.
type Wrong = String;

/// `/controller`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerZnode {
    /// Who holds the role.
    pub broker: BrokerId,
    /// The epoch of a KRaft controller; absent or −1 in a ZooKeeper-mode cluster (KIP-866).
    pub kraft_controller_epoch: Option<i32>,
    /// The node carries our mark: a klamm wrote it.
    pub is_klamm: bool,
}

// --- the role -------------------------------------------------------------------------------------------------------

#[derive(Serialize, Deserialize)]
struct ControllerJson {
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    brokerid: i32,
    #[serde(skip_deserializing)]
    timestamp: String,
    #[serde(rename = "kraftControllerEpoch")]
    kraft_controller_epoch: Option<i32>,
    #[serde(default, deserialize_with = "is_there")]
    klamm: bool,
}

/// `/controller` as klamm writes it: version 2, as code from 3.4 on does and every older reader takes, and our mark.
pub fn encode_controller(id: BrokerId, timestamp_ms: u64) -> Vec<u8> {
    to_bytes(&ControllerJson {
        version: 2,
        brokerid: id.0,
        timestamp: timestamp_ms.to_string(),
        kraft_controller_epoch: Some(-1),
        klamm: true,
    })
}

/// Reads `/controller`; the error says what is wrong with it.
pub fn decode_controller(data: &[u8]) -> Result<ControllerZnode, String> {
    let json: ControllerJson = parse(data)?;
    Ok(ControllerZnode {
        broker: BrokerId(json.brokerid),
        kraft_controller_epoch: json.kraft_controller_epoch,
        is_klamm: json.klamm,
    })
}

/// `/controller_epoch`: decimal text.
pub fn encode_controller_epoch(epoch: ControllerEpoch) -> Vec<u8> {
    epoch.to_string().into_bytes()
}

/// Reads `/controller_epoch`; the error says what is wrong with it.
pub fn decode_controller_epoch(data: &[u8]) -> Result<ControllerEpoch, String> {
    let text = String::from_utf8_lossy(data);
    match text.trim().parse::<i32>() {
        Ok(epoch) if epoch >= 0 => Ok(ControllerEpoch(epoch)),
        _ => Err(format!(
            "`{}` is no epoch; set it to the highest controller epoch that any broker's state-change log names, never \
             delete it",
            shortened(&text)
        )),
    }
}

/// `/klamm/ids/N`: only the name counts.
pub fn encode_klamm_id(timestamp_ms: u64) -> Vec<u8> {
    to_bytes(&serde_json::json!({ "version": 1, "timestamp": timestamp_ms.to_string() }))
}

/// `/klamm/hold`: only its existence counts; the rest tells an operator who set it.
pub fn encode_hold(id: BrokerId, timestamp_ms: u64) -> Vec<u8> {
    to_bytes(
        &serde_json::json!({ "version": 1, "klamm_id": id.0, "timestamp": timestamp_ms.to_string() }),
    )
}

// --- brokers --------------------------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct BrokerJson {
    version: i32,
    host: Option<String>,
    port: Option<i32>,
    endpoints: Option<Vec<String>>,
    listener_security_protocol_map: Option<BTreeMap<String, String>>,
    rack: Option<String>,
    features: Option<BTreeMap<String, BTreeMap<String, i32>>>,
}

#[derive(Serialize)]
struct OwnBrokerJson<'a> {
    version: i32,
    host: Option<&'a str>,
    port: i32,
    jmx_port: i32,
    timestamp: String,
    endpoints: Vec<String>,
    listener_security_protocol_map: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rack: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<BTreeMap<&'a str, BTreeMap<&'static str, i16>>>,
    klamm: bool,
}

/// `/brokers/ids/N` as klamm writes it for itself, with our mark. `json_version` is 5 where the brokers write 5 (IBP 2.7
/// and up), else 4; readers from 1.0 on take both.
pub fn encode_broker(broker: &Broker, json_version: i32, timestamp_ms: u64) -> Vec<u8> {
    let plaintext = broker
        .endpoints
        .iter()
        .find(|endpoint| endpoint.security_protocol == SecurityProtocol::Plaintext);
    let features = || {
        let levels = |(min, max): &(i16, i16)| {
            BTreeMap::from([("min_version", *min), ("max_version", *max)])
        };
        let all = broker.features.iter();
        all.map(|(name, range)| (name.as_ref(), levels(range)))
            .collect()
    };
    to_bytes(&OwnBrokerJson {
        version: json_version,
        host: plaintext.map(|endpoint| endpoint.host.as_ref()),
        port: plaintext.map_or(-1, |endpoint| endpoint.port),
        jmx_port: -1,
        timestamp: timestamp_ms.to_string(),
        endpoints: broker.endpoints.iter().map(connection_string).collect(),
        listener_security_protocol_map: broker
            .endpoints
            .iter()
            .map(|endpoint| {
                (
                    endpoint.listener.as_ref(),
                    endpoint.security_protocol.name(),
                )
            })
            .collect(),
        rack: broker.rack.as_deref(),
        features: (json_version >= 5).then(features),
        klamm: true,
    })
}

/// `NAME://host:port`, an IPv6 address in brackets.
fn connection_string(endpoint: &Endpoint) -> String {
    match endpoint.host.contains(':') {
        true => format!(
            "{}://[{}]:{}",
            endpoint.listener, endpoint.host, endpoint.port
        ),
        false => endpoint.to_string(),
    }
}

/// Reads `/brokers/ids/N`. `host` and `port` count in version 1 only: later they mirror one listener at best.
pub fn decode_broker(
    path: &str,
    id: BrokerId,
    data: &[u8],
    czxid: i64,
) -> Read<BrokerRegistration> {
    let read = || {
        let json: BrokerJson = parse(data)?;
        Ok(BrokerRegistration {
            broker: Broker {
                id,
                endpoints: endpoints(&json)?,
                rack: json.rack.as_deref().map(Arc::from),
                features: supported_features(json.features.unwrap_or_default())?,
            },
            epoch: BrokerEpoch(czxid),
            json_version: json.version,
        })
    };
    judged(path, "restart the broker, it writes the node anew", read())
}

/// Whether the registration carries our mark; broken content carries none.
pub fn is_klamm_registration(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Mark {
        #[serde(default, deserialize_with = "is_there")]
        klamm: bool,
    }
    parse::<Mark>(data).is_ok_and(|mark| mark.klamm)
}

fn endpoints(json: &BrokerJson) -> Result<Vec<Endpoint>, Wrong> {
    match json.version {
        ..1 => Err(format!("version {} is unknown", json.version)),
        1 => {
            let host = json.host.as_deref().filter(|host| !host.is_empty());
            let (Some(host), Some(port)) = (host, json.port) else {
                return Err("version 1 without host or port".to_owned());
            };
            Ok(vec![Endpoint {
                listener: Arc::from("PLAINTEXT"),
                host: Arc::from(host),
                port,
                security_protocol: SecurityProtocol::Plaintext,
            }])
        }
        _ => {
            let texts = json.endpoints.as_deref().ok_or("no endpoints")?;
            let protocols = json.listener_security_protocol_map.as_ref();
            texts.iter().map(|text| endpoint(text, protocols)).collect()
        }
    }
}

fn endpoint(text: &str, protocols: Option<&BTreeMap<String, String>>) -> Result<Endpoint, Wrong> {
    let malformed = || {
        format!(
            "endpoint `{}` is not NAME://host:port",
            shortened(text.trim())
        )
    };
    let (listener, address) = text.trim().split_once("://").ok_or_else(malformed)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let port: i32 = port.parse().map_err(|_| malformed())?;
    if host.is_empty() || listener.is_empty() {
        return Err(malformed());
    }
    let listener = listener.to_uppercase();
    let protocol = match protocols {
        None => Some(listener.as_str()),
        Some(map) => {
            let found = map.iter().find(|(name, _)| name.to_uppercase() == listener);
            found.map(|(_, protocol)| protocol.as_str())
        }
    };
    let protocol = protocol.ok_or_else(|| {
        format!("listener {listener} is missing in listener_security_protocol_map")
    })?;
    let security_protocol = SecurityProtocol::from_name(protocol)
        .ok_or_else(|| format!("security protocol `{}` is unknown", shortened(protocol)))?;
    Ok(Endpoint {
        listener: Arc::from(listener),
        host: Arc::from(host),
        port,
        security_protocol,
    })
}

fn supported_features(json: BTreeMap<String, BTreeMap<String, i32>>) -> Result<Features, Wrong> {
    let level = |name: &str, levels: &BTreeMap<String, i32>, key: &str| {
        let level = levels.get(key).copied();
        level
            .and_then(|level| i16::try_from(level).ok())
            .ok_or_else(|| format!("feature `{}` has no valid {key}", shortened(name)))
    };
    json.iter()
        .map(|(name, levels)| {
            let range = (
                level(name, levels, "min_version")?,
                level(name, levels, "max_version")?,
            );
            Ok((Arc::from(name.as_str()), range))
        })
        .collect()
}

// --- topics and partitions ------------------------------------------------------------------------------------------

#[derive(Serialize, Deserialize)]
struct TopicJson {
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
    partitions: BTreeMap<i32, Vec<i32>>,
    adding_replicas: Option<BTreeMap<i32, Vec<i32>>>,
    removing_replicas: Option<BTreeMap<i32, Vec<i32>>>,
}

/// `/brokers/topics/T`: version 3 with a topic id, else 2. The adding and removing maps always stand there: code from
/// 2.4 on writes them, and older code ignores them.
pub fn encode_topic(znode: &TopicZnode) -> Vec<u8> {
    let moving = |of: fn(&ReplicaAssignment) -> &BrokerIds| {
        let some = znode
            .partitions
            .iter()
            .filter(|(_, assignment)| !of(assignment).is_empty());
        let ids = some.map(|(partition, assignment)| (*partition, of(assignment)));
        Some(ids.map(|(p, ids)| (p, ids.as_i32s().to_vec())).collect())
    };
    to_bytes(&TopicJson {
        version: if znode.topic_id.is_some() { 3 } else { 2 },
        topic_id: znode.topic_id.map(topic_id_text),
        partitions: znode
            .partitions
            .iter()
            .map(|(p, assignment)| (*p, assignment.replicas.as_i32s().to_vec()))
            .collect(),
        adding_replicas: moving(|assignment| &assignment.adding),
        removing_replicas: moving(|assignment| &assignment.removing),
    })
}

/// A new `/brokers/topics/T`: the replicas of each partition, from index 0 on.
pub fn encode_new_topic(topic_id: Option<TopicId>, replicas: &[BrokerIds]) -> Vec<u8> {
    let settled = replicas.iter().cloned().map(ReplicaAssignment::settled);
    encode_topic(&TopicZnode {
        topic_id,
        partitions: (0..).zip(settled).collect(),
        version: 0,
    })
}

/// Reads `/brokers/topics/T`. Java takes text that isn't JSON for a topic without partitions and goes on in silence;
/// here it is broken, so that somebody hears of it. Which replicas stand there isn't judged.
pub fn decode_topic(path: &str, data: &[u8], version: i32) -> Read<TopicZnode> {
    let read = || {
        let json: TopicJson = parse(data)?;
        if let Some(negative) = json.partitions.keys().find(|partition| **partition < 0) {
            return Err(format!("partition {negative} is negative"));
        }
        let topic_id = json.topic_id.as_deref().map(parse_topic_id).transpose()?;
        let adding = json.adding_replicas.unwrap_or_default();
        let removing = json.removing_replicas.unwrap_or_default();
        let of = |map: &BTreeMap<i32, Vec<i32>>, partition: &i32| {
            map.get(partition)
                .map_or_else(BrokerIds::empty, |replicas| ids(replicas))
        };
        Ok(TopicZnode {
            topic_id: topic_id.flatten(),
            partitions: json
                .partitions
                .iter()
                .map(|(partition, replicas)| {
                    let assignment = ReplicaAssignment {
                        replicas: ids(replicas),
                        adding: of(&adding, partition),
                        removing: of(&removing, partition),
                    };
                    (*partition, assignment)
                })
                .collect(),
            version,
        })
    };
    judged(
        path,
        "rewrite the node with the topic's partitions and replicas, or delete it if the topic is to go",
        read(),
    )
}

/// A topic id as Kafka writes it: 22 letters of base64 in its URL alphabet.
pub fn topic_id_text(id: TopicId) -> String {
    TOPIC_ID_TEXT.encode(id.as_bytes())
}

/// `None`: one of the reserved ids, which Java takes for no id.
fn parse_topic_id(text: &str) -> Result<Option<TopicId>, Wrong> {
    let bytes = TOPIC_ID_TEXT.decode(text).ok();
    let bytes: Option<[u8; 16]> = bytes.and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some(bytes) => Ok(TopicId::new(bytes)),
        None => Err(format!("`{}` is no topic id", shortened(text))),
    }
}

#[derive(Serialize, Deserialize)]
struct StateJson {
    controller_epoch: i32,
    leader: i32,
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    leader_epoch: i32,
    isr: Vec<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_recovery_state: Option<i32>,
}

/// `…/state`. The recovery state stands there only while recovering, as Java writes it (KIP-704): brokers before 3.2
/// never see the field.
pub fn encode_state(leader_and_isr: &LeaderAndIsr, controller_epoch: ControllerEpoch) -> Vec<u8> {
    to_bytes(&StateJson {
        controller_epoch: controller_epoch.0,
        leader: leader_and_isr.leader.0,
        version: 1,
        leader_epoch: leader_and_isr.leader_epoch.0,
        isr: leader_and_isr.isr.as_i32s().to_vec(),
        leader_recovery_state: match leader_and_isr.leader_recovery_state {
            LeaderRecoveryState::Recovered => None,
            LeaderRecoveryState::Recovering => Some(1),
        },
    })
}

/// Reads `…/state`.
pub fn decode_state(path: &str, data: &[u8], version: i32) -> Read<StateRead> {
    let read = || {
        let json: StateJson = parse(data)?;
        let leader_recovery_state = match json.leader_recovery_state {
            None | Some(0) => LeaderRecoveryState::Recovered,
            Some(1) => LeaderRecoveryState::Recovering,
            Some(other) => return Err(format!("leader_recovery_state {other} is unknown")),
        };
        Ok(StateRead {
            leader_and_isr: LeaderAndIsr {
                leader: BrokerId(json.leader),
                leader_epoch: LeaderEpoch(json.leader_epoch),
                isr: ids(&json.isr),
                leader_recovery_state,
            },
            controller_epoch: ControllerEpoch(json.controller_epoch),
            partition_epoch: PartitionEpoch(version),
        })
    };
    judged(
        path,
        "rewrite the node from the leader and in-sync set in the brokers' state-change logs",
        read(),
    )
}

// --- notifications --------------------------------------------------------------------------------------------------

#[derive(Serialize, Deserialize)]
struct IsrChangeJson {
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    partitions: Vec<PartitionJson>,
}

#[derive(Serialize, Deserialize)]
struct PartitionJson {
    topic: String,
    partition: i32,
}

const NOTIFICATION_REMEDY: &str = "nothing to do, the notification is removed";

/// `/isr_change_notification/isr_change_*`, as a leader writes it.
pub fn encode_isr_change(partitions: &[TopicPartition]) -> Vec<u8> {
    let each = partitions.iter().map(|partition| PartitionJson {
        topic: partition.topic.as_str().to_owned(),
        partition: partition.partition,
    });
    to_bytes(&IsrChangeJson {
        version: 1,
        partitions: each.collect(),
    })
}

/// Reads `/isr_change_notification/isr_change_*`.
pub fn decode_isr_change(path: &str, data: &[u8]) -> Read<Vec<TopicPartition>> {
    let partitions = |json: IsrChangeJson| {
        let each = json.partitions.into_iter();
        each.map(|one| TopicPartition::new(&TopicName::new(&one.topic), one.partition))
            .collect()
    };
    judged(path, NOTIFICATION_REMEDY, parse(data).map(partitions))
}

#[derive(Serialize, Deserialize)]
struct LogDirEventJson {
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    broker: i32,
    #[serde(default, deserialize_with = "ignored")]
    event: i32,
}

/// `/log_dir_event_notification/log_dir_event_*`, as the broker that lost a directory writes it.
pub fn encode_log_dir_event(broker: BrokerId) -> Vec<u8> {
    to_bytes(&LogDirEventJson {
        version: 1,
        broker: broker.0,
        event: 1,
    })
}

/// Reads `/log_dir_event_notification/log_dir_event_*`.
pub fn decode_log_dir_event(path: &str, data: &[u8]) -> Read<BrokerId> {
    let broker = |json: LogDirEventJson| BrokerId(json.broker);
    judged(path, NOTIFICATION_REMEDY, parse(data).map(broker))
}

// --- features, producer ids -----------------------------------------------------------------------------------------

#[derive(Serialize, Deserialize)]
struct FeatureJson {
    version: i32,
    status: i32,
    features: BTreeMap<String, BTreeMap<String, i32>>,
}

const MIN_LEVEL: &str = "min_version_level";
const MAX_LEVEL: &str = "max_version_level";

/// `/feature`, in the version that the value names: 2 (from IBP 3.3 on, KAFKA-13833) has no minimum levels.
pub fn encode_feature(znode: &FeatureZnode) -> Vec<u8> {
    let levels = |(min, max): &(i16, i16)| {
        let mut levels = BTreeMap::from([(MAX_LEVEL.to_owned(), i32::from(*max))]);
        if znode.json_version < 2 {
            levels.insert(MIN_LEVEL.to_owned(), i32::from(*min));
        }
        levels
    };
    let features = znode.levels.iter();
    to_bytes(&FeatureJson {
        version: znode.json_version,
        status: i32::from(znode.enabled),
        features: features
            .map(|(name, range)| (name.clone(), levels(range)))
            .collect(),
    })
}

/// Reads `/feature`.
pub fn decode_feature(path: &str, data: &[u8], version: i32) -> Read<(FeatureZnode, i32)> {
    let read = || {
        let json: FeatureJson = parse(data)?;
        if !matches!(json.version, 1 | 2) {
            return Err(format!("version {} is unknown", json.version));
        }
        let enabled = match json.status {
            0 => false,
            1 => true,
            other => return Err(format!("status {other} is unknown")),
        };
        let levels = json.features.iter();
        let levels: Result<_, Wrong> = levels
            .map(|(name, levels)| Ok((name.clone(), finalized(name, levels, json.version)?)))
            .collect();
        let znode = FeatureZnode {
            json_version: json.version,
            enabled,
            levels: levels?,
        };
        Ok((znode, version))
    };
    judged(
        path,
        "rewrite the node, and never delete it: brokers exit when its version falls",
        read(),
    )
}

fn finalized(
    name: &str,
    levels: &BTreeMap<String, i32>,
    json_version: i32,
) -> Result<(i16, i16), Wrong> {
    let level = |key: &str| {
        let level = levels.get(key).and_then(|level| i16::try_from(*level).ok());
        level
            .filter(|level| *level >= 1)
            .ok_or_else(|| format!("feature `{}` has no valid {key}", shortened(name)))
    };
    let max = level(MAX_LEVEL)?;
    let min = match json_version {
        1 => level(MIN_LEVEL)?,
        _ => 1,
    };
    match min <= max {
        true => Ok((min, max)),
        false => Err(format!(
            "feature `{}` has {MIN_LEVEL} above {MAX_LEVEL}",
            shortened(name)
        )),
    }
}

#[derive(Serialize, Deserialize)]
struct ProducerIdBlockJson {
    #[serde(default, deserialize_with = "ignored")]
    version: i32,
    broker: i32,
    block_start: String,
    block_end: String,
}

/// `/latest_producer_id_block`.
pub fn encode_producer_id_block(block: &ProducerIdBlock) -> Vec<u8> {
    to_bytes(&ProducerIdBlockJson {
        version: 1,
        broker: block.broker.0,
        block_start: block.first.to_string(),
        block_end: block.last.to_string(),
    })
}

/// Reads `/latest_producer_id_block`; a node without data holds no block yet.
pub fn decode_producer_id_block(
    path: &str,
    data: &[u8],
    version: i32,
) -> Read<(Option<ProducerIdBlock>, i32)> {
    if data.is_empty() {
        return Read::Found((None, version));
    }
    let read = || {
        let json: ProducerIdBlockJson = parse(data)?;
        let bound = |text: &str| {
            let bound = text.parse::<i64>().ok().filter(|bound| *bound >= 0);
            bound.ok_or_else(|| format!("`{}` is no producer id", shortened(text)))
        };
        let block = ProducerIdBlock {
            broker: BrokerId(json.broker),
            first: bound(&json.block_start)?,
            last: bound(&json.block_end)?,
        };
        match block.first <= block.last {
            true => Ok((Some(block), version)),
            false => Err("block_start is above block_end".to_owned()),
        }
    };
    judged(
        path,
        "rewrite the node with a block above every producer id in use",
        read(),
    )
}

// --- shared ---------------------------------------------------------------------------------------------------------

fn ids(ids: &[i32]) -> BrokerIds {
    ids.iter().map(|id| BrokerId(*id)).collect()
}

fn judged<T>(path: &str, remedy: &str, read: Result<T, Wrong>) -> Read<T> {
    match read {
        Ok(value) => Read::Found(value),
        Err(wrong) => Read::Broken(format!("{path}: {wrong}; {remedy}")),
    }
}

/// Parses the first JSON value, which must be an object. The fast way fails on what Java tolerates, two equal keys and
/// text after the value, so a failure is looked at a second time the slow way.
fn parse<T: DeserializeOwned>(data: &[u8]) -> Result<T, Wrong> {
    let not_json = |why: &str| {
        let text = shortened(&String::from_utf8_lossy(data));
        Err(format!("`{text}` is {why}"))
    };
    match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err("the node is empty".to_owned()),
        Some(b'{') => {}
        Some(_) => return not_json("no JSON object"),
    }
    if let Ok(value) = serde_json::from_slice(data) {
        return Ok(value);
    }
    let mut values = serde_json::Deserializer::from_slice(data).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(value)) => serde_json::from_value(value).map_err(|error| error.to_string()),
        Some(Err(error)) => not_json(&format!("not JSON ({error})")),
        None => Err("the node is empty".to_owned()),
    }
}

/// Serialising these plain values can't fail: their keys are text or numbers, and a `Vec` takes every byte.
fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The presence of a field is what counts, not what it holds.
fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Java doesn't look at this field, whatever it holds.
fn ignored<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| 0)
}

/// Content for a log line: at most 80 characters, without control characters.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(MOST).map(printable).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}
