//! The controller's requests as bytes, and the brokers' answers as plain values.
//!
//! The only file of `broker` that knows Kafka's message types; must never touch a socket or choose a partition's fate.
//! Upstream: the second half of `ControllerBrokerRequestBatch`, `AbstractControlRequest` and its heirs.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use klamm_codec::control::{
    self, ControlRequest, ControllerView, EndpointView, LiveBrokerView, LiveLeaderView,
    PartitionView, StopReplicaTopicView, StopReplicaView, TopicKey, TopicView, UpdateMetadataBody,
};
use klamm_codec::messages::describe_configs_request::DescribeConfigsResource;
use klamm_codec::messages::{ApiVersionsRequest, DescribeConfigsRequest};
use klamm_codec::request::encode_request;
use klamm_codec::response::{decode_api_versions, decode_response};
use klamm_codec::version::{
    BrokerVersions, ControlVersions, LeaderAndIsrVersion, StopReplicaVersion,
    UpdateMetadataVersion, VersionCaps,
};
use klamm_codec::{ApiKey, CodecError, Frame, StrBytes};

use crate::effect::{
    AnnouncedLeadership, ByTopic, ControlRequests, Incarnation, LeaderAndIsrPartition,
    PartitionErrors, ReplicaDisposal, StopReplicaPartition, TopicReference,
    UpdateMetadataPartition,
};
use crate::event::ControllerEvent;
use crate::model::{
    Broker, BrokerEpoch, BrokerId, ControllerEpoch, InterBrokerProtocol, KafkaError,
    LeaderRecoveryState, SharedSetting, SharedSettings, TopicId, TopicName, TopicPartition,
};

/// From this version on LeaderAndIsr names topics by id, and its answers name them by nothing else.
const LEADER_AND_ISR_BY_ID: i16 = 5;
/// From this version on StopReplica has a delete flag for each partition (KIP-570).
const STOP_REPLICA_FLAG_EACH: i16 = 3;

/// What all requests of a batch have in common.
#[derive(Debug)]
pub(super) struct BatchHead {
    controller: ControllerView,
    protocol: InterBrokerProtocol,
    live_brokers: Arc<[Broker]>,
    /// Whose endpoint LeaderAndIsr gives for a leader.
    inter_broker_listener: Arc<str>,
}

/// One request for one broker, not encoded yet: in which version is known when the broker is connected.
#[derive(Debug, Clone)]
pub(super) struct BrokerRequest {
    head: Arc<BatchHead>,
    order: Order,
}

/// What a broker is told to do.
#[derive(Debug, Clone)]
pub(super) enum Order {
    LeaderAndIsr(Vec<ByTopic<LeaderAndIsrPartition>>),
    UpdateMetadata(Arc<SharedUpdateMetadata>),
    StopReplica(Vec<ByTopic<StopReplicaPartition>>),
}

/// An UpdateMetadata for several brokers. Its body is encoded once for each version that one of them takes, by the first
/// send task that needs it.
#[derive(Debug)]
pub(super) struct SharedUpdateMetadata {
    /// Comes back with the answer.
    number: u64,
    topics: Arc<[ByTopic<UpdateMetadataPartition>]>,
    bodies: [OnceLock<Result<UpdateMetadataBody, CodecError>>; UPDATE_METADATA_VERSIONS],
}

/// Versions 4 to 8.
const UPDATE_METADATA_VERSIONS: usize = 5;

impl SharedUpdateMetadata {
    pub(super) fn new(
        number: u64,
        topics: Arc<[ByTopic<UpdateMetadataPartition>]>,
    ) -> SharedUpdateMetadata {
        SharedUpdateMetadata {
            number,
            topics,
            bodies: Default::default(),
        }
    }

    pub(super) fn topics(&self) -> &[ByTopic<UpdateMetadataPartition>] {
        &self.topics
    }

    fn body(
        &self,
        version: UpdateMetadataVersion,
        head: &BatchHead,
    ) -> Result<UpdateMetadataBody, CodecError> {
        let encode = || encode_update_metadata(version, head, &self.topics);
        let place = usize::try_from(version.get() - UpdateMetadataVersion::MIN.get())
            .ok()
            .and_then(|index| self.bodies.get(index));
        match place {
            Some(body) => body.get_or_init(encode).clone(),
            None => encode(),
        }
    }
}

/// Takes a batch apart: for each broker its LeaderAndIsr, then UpdateMetadata, then StopReplica.
pub(super) fn requests_by_broker(
    requests: ControlRequests,
    controller_id: BrokerId,
    inter_broker_listener: &Arc<str>,
) -> Vec<(BrokerId, BrokerRequest)> {
    let head = Arc::new(BatchHead {
        controller: ControllerView {
            controller_id: controller_id.0,
            controller_epoch: requests.controller_epoch.0,
        },
        protocol: requests.protocol,
        live_brokers: requests.live_brokers,
        inter_broker_listener: Arc::clone(inter_broker_listener),
    });
    let with = |broker: BrokerId, order: Order| {
        let head = Arc::clone(&head);
        (broker, BrokerRequest { head, order })
    };
    let mut all = Vec::new();
    for (broker, topics) in requests.leader_and_isr {
        all.push(with(broker, Order::LeaderAndIsr(topics)));
    }
    if let Some(update) = requests.update_metadata {
        let shared = Arc::new(SharedUpdateMetadata::new(update.number, update.topics));
        for broker in update.to {
            all.push(with(broker, Order::UpdateMetadata(Arc::clone(&shared))));
        }
    }
    for (broker, topics) in requests.stop_replica {
        all.push(with(broker, Order::StopReplica(topics)));
    }
    all
}

impl BrokerRequest {
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    pub(super) fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// Another order under the same head.
    pub(super) fn with_order(&self, order: Order) -> BrokerRequest {
        BrokerRequest {
            head: Arc::clone(&self.head),
            order,
        }
    }

    /// The upper bound of the versions.
    pub(super) fn protocol(&self) -> InterBrokerProtocol {
        self.head.protocol
    }

    /// The request's name, for the log.
    pub(super) fn name(&self) -> &'static str {
        match self.order {
            Order::LeaderAndIsr(_) => "LeaderAndIsr",
            Order::UpdateMetadata(_) => "UpdateMetadata",
            Order::StopReplica(_) => "StopReplica",
        }
    }

    /// How many partitions it names.
    pub(super) fn partition_count(&self) -> usize {
        fn count<T>(topics: &[ByTopic<T>]) -> usize {
            topics.iter().map(|topic| topic.partitions.len()).sum()
        }
        match &self.order {
            Order::LeaderAndIsr(topics) => count(topics),
            Order::UpdateMetadata(shared) => count(&shared.topics),
            Order::StopReplica(topics) => count(topics),
        }
    }

    /// Below version 3 a StopReplica deletes all of its partitions or none: what is to be kept is taken out and
    /// returned, to be sent after what is to be deleted, as the Java controller does.
    pub(super) fn split_off_kept(&mut self, version: StopReplicaVersion) -> Option<BrokerRequest> {
        let Order::StopReplica(topics) = &self.order else {
            return None;
        };
        if version.get() >= STOP_REPLICA_FLAG_EACH {
            return None;
        }
        let deleted = with_disposal(topics, ReplicaDisposal::Delete);
        let kept = with_disposal(topics, ReplicaDisposal::Keep);
        if deleted.is_empty() || kept.is_empty() {
            return None;
        }
        let rest = self.with_order(Order::StopReplica(kept));
        self.order = Order::StopReplica(deleted);
        Some(rest)
    }

    /// The request for one incarnation of a broker, in the version that suits both it and the request.
    pub(super) fn encode(
        &self,
        versions: ControlVersions,
        epoch: BrokerEpoch,
    ) -> Result<ControlRequest, CodecError> {
        match &self.order {
            Order::LeaderAndIsr(topics) => {
                let version = leader_and_isr_version(versions.leader_and_isr, topics)?;
                encode_leader_and_isr(version, &self.head, epoch, topics)
            }
            Order::UpdateMetadata(shared) => {
                let body = shared.body(versions.update_metadata, &self.head)?;
                Ok(body.request(epoch.0))
            }
            Order::StopReplica(topics) => {
                encode_stop_replica(versions.stop_replica, &self.head, epoch, topics)
            }
        }
    }

    /// Reads the answer to this request, which went out in `version`.
    pub(super) fn answer(&self, version: i16, payload: &Bytes) -> Result<BrokerAnswer, CodecError> {
        match &self.order {
            Order::LeaderAndIsr(_) => {
                let version = LeaderAndIsrVersion::new(version)?;
                let outcome = control::leader_and_isr_outcome(version, payload)?;
                Ok(BrokerAnswer::LeaderAndIsr(PartitionErrors {
                    error: KafkaError(outcome.error_code),
                    partitions: leader_and_isr_errors(outcome.partitions),
                }))
            }
            Order::UpdateMetadata(shared) => {
                let version = UpdateMetadataVersion::new(version)?;
                let outcome = control::update_metadata_outcome(version, payload)?;
                Ok(BrokerAnswer::UpdateMetadata {
                    number: shared.number,
                    error: KafkaError(outcome.error_code),
                })
            }
            Order::StopReplica(topics) => {
                let version = StopReplicaVersion::new(version)?;
                let outcome = control::stop_replica_outcome(version, payload)?;
                let by_name = |(topic, partition, code): (Arc<str>, i32, i16)| {
                    let topic = TopicReference::Name(TopicName::from(topic));
                    (topic, partition, KafkaError(code))
                };
                Ok(BrokerAnswer::StopReplica {
                    controller_epoch: ControllerEpoch(self.head.controller.controller_epoch),
                    deleted: deleted_partitions(topics),
                    response: PartitionErrors {
                        error: KafkaError(outcome.error_code),
                        partitions: outcome.partitions.into_iter().map(by_name).collect(),
                    },
                })
            }
        }
    }
}

/// A broker's answer to one of the three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BrokerAnswer {
    LeaderAndIsr(PartitionErrors),
    UpdateMetadata {
        number: u64,
        error: KafkaError,
    },
    StopReplica {
        controller_epoch: ControllerEpoch,
        deleted: Vec<TopicPartition>,
        response: PartitionErrors,
    },
}

impl BrokerAnswer {
    /// The code of the request as a whole.
    pub(super) fn error(&self) -> KafkaError {
        match self {
            BrokerAnswer::LeaderAndIsr(response) | BrokerAnswer::StopReplica { response, .. } => {
                response.error
            }
            BrokerAnswer::UpdateMetadata { error, .. } => *error,
        }
    }

    /// The event that tells the controller of it. None where a broker confirms what nobody waits for: replicas that were
    /// stopped and kept.
    pub(super) fn into_event(self, from: Incarnation) -> Option<ControllerEvent> {
        match self {
            BrokerAnswer::LeaderAndIsr(response) => {
                Some(ControllerEvent::LeaderAndIsrResponseReceived { from, response })
            }
            BrokerAnswer::UpdateMetadata { number, error } => {
                Some(ControllerEvent::UpdateMetadataResponseReceived {
                    from,
                    number,
                    error,
                })
            }
            BrokerAnswer::StopReplica {
                controller_epoch,
                deleted,
                response,
            } => {
                let all_well = response.error.is_none()
                    && response
                        .partitions
                        .iter()
                        .all(|(_, _, error)| error.is_none());
                if deleted.is_empty() && all_well {
                    return None;
                }
                Some(ControllerEvent::StopReplicaResponseReceived {
                    from,
                    controller_epoch,
                    deleted,
                    response,
                })
            }
        }
    }
}

/// The versions of the three requests for a broker, none above what `protocol` allows.
pub(super) fn control_versions(
    broker: &BrokerVersions,
    protocol: InterBrokerProtocol,
) -> Result<ControlVersions, CodecError> {
    broker.control(VersionCaps {
        leader_and_isr: protocol.leader_and_isr_version(),
        stop_replica: protocol.stop_replica_version(),
        update_metadata: protocol.update_metadata_version(),
    })
}

/// Brokers 2.2.0 to 2.5.0 answer −1 to a broker epoch that is ahead of their own, which is so for a moment after they
/// registered (KAFKA-9839). StopReplica 1 came with 2.2 and 2 with 2.4; 2.6 brought 3.
pub(super) fn may_lag_behind_its_own_epoch(broker: &BrokerVersions) -> bool {
    let newest = broker.range(ApiKey::STOP_REPLICA).map(|(_, max)| max);
    matches!(newest, Some(1 | 2))
}

/// Several topics without an id would be one entry in an answer by id: such a request stays at version 4.
fn leader_and_isr_version(
    chosen: LeaderAndIsrVersion,
    topics: &[ByTopic<LeaderAndIsrPartition>],
) -> Result<LeaderAndIsrVersion, CodecError> {
    if topics.iter().all(|topic| topic.topic_id.is_some()) {
        Ok(chosen)
    } else {
        LeaderAndIsrVersion::new(chosen.get().min(LEADER_AND_ISR_BY_ID - 1))
    }
}

fn encode_leader_and_isr(
    version: LeaderAndIsrVersion,
    head: &BatchHead,
    epoch: BrokerEpoch,
    topics: &[ByTopic<LeaderAndIsrPartition>],
) -> Result<ControlRequest, CodecError> {
    let leaders = live_leaders(head, topics);
    let views = topics
        .iter()
        .map(|topic| topic_view(topic, leader_and_isr_view));
    control::leader_and_isr(version, head.controller, epoch.0, views, &leaders)
}

fn encode_update_metadata(
    version: UpdateMetadataVersion,
    head: &BatchHead,
    topics: &[ByTopic<UpdateMetadataPartition>],
) -> Result<UpdateMetadataBody, CodecError> {
    let endpoints: Vec<Vec<EndpointView<'_>>> =
        head.live_brokers.iter().map(endpoint_views).collect();
    let live_brokers: Vec<LiveBrokerView<'_>> = head
        .live_brokers
        .iter()
        .zip(&endpoints)
        .map(|(broker, endpoints)| LiveBrokerView {
            id: broker.id.0,
            endpoints,
            rack: broker.rack.as_deref(),
        })
        .collect();
    let views = topics
        .iter()
        .map(|topic| topic_view(topic, update_metadata_view));
    UpdateMetadataBody::encode(version, head.controller, views, &live_brokers)
}

fn encode_stop_replica(
    version: StopReplicaVersion,
    head: &BatchHead,
    epoch: BrokerEpoch,
    topics: &[ByTopic<StopReplicaPartition>],
) -> Result<ControlRequest, CodecError> {
    let views = topics.iter().map(|topic| StopReplicaTopicView {
        name: topic.topic.as_str(),
        partitions: topic.partitions.iter().map(|partition| StopReplicaView {
            partition: partition.partition,
            leader_epoch: partition.leader_epoch.0,
            delete: partition.disposal == ReplicaDisposal::Delete,
        }),
    });
    control::stop_replica(version, head.controller, epoch.0, views)
}

fn topic_view<'a, T>(
    topic: &'a ByTopic<T>,
    view: fn(&'a T) -> PartitionView<'a>,
) -> TopicView<'a, impl IntoIterator<Item = PartitionView<'a>, IntoIter: ExactSizeIterator>> {
    TopicView {
        name: topic.topic.as_str(),
        id: topic.topic_id.map_or([0; 16], |id| *id.as_bytes()),
        partitions: topic.partitions.iter().map(view),
    }
}

fn leader_and_isr_view(partition: &LeaderAndIsrPartition) -> PartitionView<'_> {
    let state = &partition.state;
    PartitionView {
        partition: partition.partition,
        controller_epoch: state.controller_epoch().0,
        leader: state.leader.0,
        leader_epoch: state.leader_epoch.0,
        isr: state.isr.as_i32s(),
        partition_epoch: state.partition_epoch().0,
        replicas: partition.assignment.replicas.as_i32s(),
        adding: partition.assignment.adding.as_i32s(),
        removing: partition.assignment.removing.as_i32s(),
        is_new: partition.is_new,
        recovering: state.leader_recovery_state == LeaderRecoveryState::Recovering,
        offline_replicas: &[],
    }
}

fn update_metadata_view(partition: &UpdateMetadataPartition) -> PartitionView<'_> {
    let (state, leader, leader_epoch, partition_epoch) = match &partition.leadership {
        AnnouncedLeadership::Committed(state) => (
            state,
            state.leader,
            state.leader_epoch.0,
            state.partition_epoch().0,
        ),
        AnnouncedLeadership::DuringDelete(state) => (state, BrokerId::LEADER_DURING_DELETE, 0, 0),
    };
    PartitionView {
        partition: partition.partition,
        controller_epoch: state.controller_epoch().0,
        leader: leader.0,
        leader_epoch,
        isr: state.isr.as_i32s(),
        partition_epoch,
        replicas: partition.replicas.as_i32s(),
        adding: NOBODY,
        removing: NOBODY,
        is_new: false,
        recovering: false,
        offline_replicas: partition.offline_replicas.as_i32s(),
    }
}

const NOBODY: &[i32] = &[];

fn endpoint_views(broker: &Broker) -> Vec<EndpointView<'_>> {
    broker
        .endpoints
        .iter()
        .map(|endpoint| EndpointView {
            port: endpoint.port,
            host: &endpoint.host,
            listener: &endpoint.listener,
            security_protocol: endpoint.security_protocol.code(),
        })
        .collect()
}

/// The endpoints of the leaders in a request. Nobody from 1.0 on reads them, so a leader that lacks the listener is left
/// out, where the Java controller gives up the whole batch.
fn live_leaders<'a>(
    head: &'a BatchHead,
    topics: &[ByTopic<LeaderAndIsrPartition>],
) -> Vec<LiveLeaderView<'a>> {
    let leaders: BTreeSet<BrokerId> = topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.state.leader)
        .collect();
    let live = head.live_brokers.iter();
    live.filter(|broker| leaders.contains(&broker.id))
        .filter_map(|broker| {
            let endpoint = broker.endpoint(&head.inter_broker_listener)?;
            Some(LiveLeaderView {
                id: broker.id.0,
                host: &endpoint.host,
                port: endpoint.port,
            })
        })
        .collect()
}

fn with_disposal(
    topics: &[ByTopic<StopReplicaPartition>],
    disposal: ReplicaDisposal,
) -> Vec<ByTopic<StopReplicaPartition>> {
    let of_topic = |topic: &ByTopic<StopReplicaPartition>| ByTopic {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .filter(|partition| partition.disposal == disposal)
            .cloned()
            .collect(),
    };
    let mut chosen: Vec<_> = topics.iter().map(of_topic).collect();
    chosen.retain(|topic| !topic.partitions.is_empty());
    chosen
}

fn deleted_partitions(topics: &[ByTopic<StopReplicaPartition>]) -> Vec<TopicPartition> {
    let mut deleted = Vec::new();
    for topic in topics {
        let of_topic = topic.partitions.iter();
        let of_topic = of_topic.filter(|partition| partition.disposal == ReplicaDisposal::Delete);
        deleted.extend(of_topic.map(|it| TopicPartition::new(&topic.topic, it.partition)));
    }
    deleted
}

/// A zero id names no topic; no request of ours by id contains one, so an answer with it answers nothing of ours.
fn leader_and_isr_errors(
    partitions: Vec<(TopicKey, i32, i16)>,
) -> Vec<(TopicReference, i32, KafkaError)> {
    let known = |(topic, partition, code)| {
        let topic = match topic {
            TopicKey::Name(name) => TopicReference::Name(TopicName::from(name)),
            TopicKey::Id(id) => TopicReference::Id(TopicId::new(id)?),
        };
        Some((topic, partition, KafkaError(code)))
    };
    partitions.into_iter().filter_map(known).collect()
}

/// ApiVersions in version 0, which every broker from 1.0 to 3.9 takes: a newer one may be answered by a refusal first.
pub(super) fn api_versions(correlation_id: i32, client_id: &str) -> Result<Frame, CodecError> {
    let request = ApiVersionsRequest::default();
    encode_request(
        API_VERSIONS_VERSION,
        correlation_id,
        Some(client_id),
        &request,
    )
}

/// The version in which ApiVersions is asked.
pub(super) const API_VERSIONS_VERSION: i16 = 0;

/// What a broker says that it understands.
pub(super) fn broker_versions(payload: &Bytes) -> Result<BrokerVersions, CodecError> {
    BrokerVersions::from_response(&decode_api_versions(API_VERSIONS_VERSION, payload)?)
}

/// The settings of a broker that klamm has to know before it leads it, or wants to compare with its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BrokerSettings {
    /// `inter.broker.protocol.version`, as the broker writes it.
    pub(super) protocol: Option<String>,
    /// `authorizer.class.name`; never empty.
    pub(super) authorizer: Option<String>,
    /// What it said of the others, and of its protocol once more.
    pub(super) shared: SharedSettings,
}

/// The version in which to ask for settings, if the broker can be asked.
pub(super) fn describe_configs_version(broker: &BrokerVersions) -> Result<i16, CodecError> {
    broker.choose(ApiKey::DESCRIBE_CONFIGS, 0, 4)
}

const RESOURCE_BROKER: i8 = 4;
const AUTHORIZER_KEY: &str = "authorizer.class.name";
/// A value of the cluster-wide default, from version 1 on.
const SOURCE_DYNAMIC_DEFAULT: i8 = 3;

/// DescribeConfigs of those settings of broker `id`.
pub(super) fn describe_configs(
    version: i16,
    correlation_id: i32,
    client_id: &str,
    id: BrokerId,
) -> Result<Frame, CodecError> {
    let keys = SharedSetting::ALL.map(SharedSetting::key).into_iter();
    let keys = keys.chain([AUTHORIZER_KEY]);
    let keys: Vec<StrBytes> = keys.map(StrBytes::from_static_str).collect();
    let broker = DescribeConfigsResource::default()
        .with_resource_type(RESOURCE_BROKER)
        .with_resource_name(StrBytes::from_string(id.to_string()))
        .with_configuration_keys(Some(keys));
    let request = DescribeConfigsRequest::default().with_resources(vec![broker]);
    encode_request(version, correlation_id, Some(client_id), &request)
}

/// What a broker said of its settings, or the code it refused with.
pub(super) fn broker_settings(
    version: i16,
    payload: &Bytes,
) -> Result<Result<BrokerSettings, KafkaError>, CodecError> {
    let response = decode_response::<DescribeConfigsRequest>(version, payload)?;
    let mut settings = BrokerSettings::default();
    for result in &response.results {
        let error = KafkaError(result.error_code);
        if !error.is_none() {
            return Ok(Err(error));
        }
        for config in &result.configs {
            let value = config.value.as_ref().map(|value| value.to_string());
            let value = value.filter(|value| !value.is_empty());
            if config.name.as_str() == AUTHORIZER_KEY {
                settings.authorizer = value;
                continue;
            }
            let Some(setting) = SharedSetting::named(&config.name) else {
                continue;
            };
            if setting == SharedSetting::InterBrokerProtocolVersion {
                settings.protocol = value.clone();
            }
            if config.config_source != SOURCE_DYNAMIC_DEFAULT {
                // Only a policy may be unset.
                let may_be_unset = setting == SharedSetting::CreateTopicPolicyClassName;
                let known = value.or_else(|| may_be_unset.then(String::new));
                settings.shared.extend(known.map(|value| (setting, value)));
            }
        }
    }
    Ok(Ok(settings))
}

#[cfg(test)]
mod tests;
