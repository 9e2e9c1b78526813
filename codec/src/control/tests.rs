//! Our bytes against those of kafka-protocol's encoder, whose messages are built here from the same plain data.

use super::*;
use crate::request::{decode_request, encode_request, parse_header};
use crate::version::{LeaderAndIsrVersion, StopReplicaVersion, UpdateMetadataVersion};
use kafka_protocol::messages::leader_and_isr_request as lisr;
use kafka_protocol::messages::stop_replica_request as sr;
use kafka_protocol::messages::update_metadata_request as umr;
use kafka_protocol::messages::{
    BrokerId, LeaderAndIsrRequest, StopReplicaRequest, TopicName, UpdateMetadataRequest,
};
use kafka_protocol::protocol::StrBytes;
use proptest::collection::vec;
use proptest::prelude::*;
use std::slice;

const CLIENT: &str = "klamm";

#[derive(Debug, Clone)]
struct Partition {
    numbers: [i32; 6],
    lists: [Vec<i32>; 5],
    is_new: bool,
    recovering: bool,
}

#[derive(Debug, Clone)]
struct Topic {
    name: String,
    id: [u8; 16],
    partitions: Vec<Partition>,
}

#[derive(Debug, Clone)]
struct Endpoint {
    port: i32,
    host: String,
    listener: String,
    security_protocol: i16,
}

#[derive(Debug, Clone)]
struct Broker {
    id: i32,
    endpoints: Vec<Endpoint>,
    rack: Option<String>,
}

#[derive(Debug, Clone)]
struct Stop {
    name: String,
    partitions: Vec<StopReplicaView>,
}

type Views<'a> = std::iter::Map<slice::Iter<'a, Partition>, fn(&'a Partition) -> PartitionView<'a>>;

impl Partition {
    fn view(&self) -> PartitionView<'_> {
        let [
            partition,
            controller_epoch,
            leader,
            leader_epoch,
            partition_epoch,
            _,
        ] = self.numbers;
        let [isr, replicas, adding, removing, offline_replicas] = &self.lists;
        PartitionView {
            partition,
            controller_epoch,
            leader,
            leader_epoch,
            isr,
            partition_epoch,
            replicas,
            adding,
            removing,
            is_new: self.is_new,
            recovering: self.recovering,
            offline_replicas,
        }
    }
}

impl Topic {
    fn view(&self) -> TopicView<'_, Views<'_>> {
        TopicView {
            name: &self.name,
            id: self.id,
            partitions: self.partitions.iter().map(Partition::view),
        }
    }
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

fn topic_name(value: &str) -> TopicName {
    text(value).into()
}

fn ids(list: &[i32]) -> Vec<BrokerId> {
    list.iter().copied().map(BrokerId).collect()
}

fn name() -> impl Strategy<Value = String> {
    // Lengths on both sides of a varint's first byte, and more bytes than letters.
    prop_oneof![4 => "[a-z.]{0,12}", 1 => "[a-zß-ü]{120,140}"]
}

fn partition() -> impl Strategy<Value = Partition> {
    let list = || prop_oneof![4 => vec(any::<i32>(), 0..5), 1 => vec(any::<i32>(), 0..140)];
    (
        any::<[i32; 6]>(),
        [list(), list(), list(), list(), list()],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(numbers, lists, is_new, recovering)| Partition {
            numbers,
            lists,
            is_new,
            recovering,
        })
}

fn topics() -> impl Strategy<Value = Vec<Topic>> {
    let topic = (
        name(),
        any::<[u8; 16]>(),
        any::<bool>(),
        vec(partition(), 0..4),
    );
    let topic = topic.prop_map(|(name, id, has_id, partitions)| Topic {
        name,
        id: if has_id { id } else { [0; 16] },
        partitions,
    });
    vec(topic, 0..4)
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    (any::<i32>(), name(), name(), any::<i16>()).prop_map(
        |(port, host, listener, security_protocol)| Endpoint {
            port,
            host,
            listener,
            security_protocol,
        },
    )
}

fn broker() -> impl Strategy<Value = Broker> {
    (
        any::<i32>(),
        vec(endpoint(), 0..3),
        proptest::option::of(name()),
    )
        .prop_map(|(id, endpoints, rack)| Broker {
            id,
            endpoints,
            rack,
        })
}

fn controller() -> impl Strategy<Value = ControllerView> {
    (any::<i32>(), any::<i32>()).prop_map(|(controller_id, controller_epoch)| ControllerView {
        controller_id,
        controller_epoch,
    })
}

fn lisr_partition(
    version: i16,
    topic: &Topic,
    view: &PartitionView<'_>,
) -> lisr::LeaderAndIsrPartitionState {
    let state = lisr::LeaderAndIsrPartitionState::default()
        .with_partition_index(view.partition)
        .with_controller_epoch(view.controller_epoch)
        .with_leader(view.leader.into())
        .with_leader_epoch(view.leader_epoch)
        .with_isr(ids(view.isr))
        .with_partition_epoch(view.partition_epoch)
        .with_replicas(ids(view.replicas))
        .with_adding_replicas(ids(view.adding))
        .with_removing_replicas(ids(view.removing))
        .with_is_new(view.is_new);
    let state = if version < 2 {
        state.with_topic_name(topic_name(&topic.name))
    } else {
        state
    };
    if version >= 6 {
        state.with_leader_recovery_state(view.recovering.into())
    } else {
        state
    }
}

fn wire_lisr(
    version: i16,
    controller: ControllerView,
    broker_epoch: i64,
    topics: &[Topic],
    leaders: &[LiveLeaderView<'_>],
) -> LeaderAndIsrRequest {
    let states = |topic: &Topic| -> Vec<_> {
        topic
            .partitions
            .iter()
            .map(|partition| lisr_partition(version, topic, &partition.view()))
            .collect()
    };
    let leaders = leaders.iter().map(|leader| {
        lisr::LeaderAndIsrLiveLeader::default()
            .with_broker_id(leader.id.into())
            .with_host_name(text(leader.host))
            .with_port(leader.port)
    });
    let request = LeaderAndIsrRequest::default()
        .with_controller_id(controller.controller_id.into())
        .with_controller_epoch(controller.controller_epoch)
        .with_broker_epoch(broker_epoch)
        .with_live_leaders(leaders.collect());
    if version < 2 {
        return request.with_ungrouped_partition_states(topics.iter().flat_map(states).collect());
    }
    let topics = topics.iter().map(|topic| {
        lisr::LeaderAndIsrTopicState::default()
            .with_topic_name(topic_name(&topic.name))
            .with_topic_id(uuid::Uuid::from_bytes(topic.id))
            .with_partition_states(states(topic))
    });
    request.with_topic_states(topics.collect())
}

fn umr_partition(
    version: i16,
    topic: &Topic,
    view: &PartitionView<'_>,
) -> umr::UpdateMetadataPartitionState {
    let state = umr::UpdateMetadataPartitionState::default()
        .with_partition_index(view.partition)
        .with_controller_epoch(view.controller_epoch)
        .with_leader(view.leader.into())
        .with_leader_epoch(view.leader_epoch)
        .with_isr(ids(view.isr))
        .with_zk_version(view.partition_epoch)
        .with_replicas(ids(view.replicas))
        .with_offline_replicas(ids(view.offline_replicas));
    if version < 5 {
        state.with_topic_name(topic_name(&topic.name))
    } else {
        state
    }
}

fn wire_umr(
    version: i16,
    controller: ControllerView,
    broker_epoch: i64,
    topics: &[Topic],
    brokers: &[Broker],
) -> UpdateMetadataRequest {
    let states = |topic: &Topic| -> Vec<_> {
        topic
            .partitions
            .iter()
            .map(|partition| umr_partition(version, topic, &partition.view()))
            .collect()
    };
    let brokers = brokers.iter().map(|broker| {
        let endpoints = broker.endpoints.iter().map(|endpoint| {
            umr::UpdateMetadataEndpoint::default()
                .with_port(endpoint.port)
                .with_host(text(&endpoint.host))
                .with_listener(text(&endpoint.listener))
                .with_security_protocol(endpoint.security_protocol)
        });
        umr::UpdateMetadataBroker::default()
            .with_id(broker.id.into())
            .with_endpoints(endpoints.collect())
            .with_rack(broker.rack.as_deref().map(text))
    });
    let request = UpdateMetadataRequest::default()
        .with_controller_id(controller.controller_id.into())
        .with_controller_epoch(controller.controller_epoch)
        .with_broker_epoch(broker_epoch)
        .with_live_brokers(brokers.collect());
    if version < 5 {
        return request.with_ungrouped_partition_states(topics.iter().flat_map(states).collect());
    }
    let topics = topics.iter().map(|topic| {
        umr::UpdateMetadataTopicState::default()
            .with_topic_name(topic_name(&topic.name))
            .with_topic_id(uuid::Uuid::from_bytes(topic.id))
            .with_partition_states(states(topic))
    });
    request.with_topic_states(topics.collect())
}

fn wire_sr(
    version: i16,
    controller: ControllerView,
    broker_epoch: i64,
    topics: &[Stop],
    delete: bool,
) -> StopReplicaRequest {
    let request = StopReplicaRequest::default()
        .with_controller_id(controller.controller_id.into())
        .with_controller_epoch(controller.controller_epoch)
        .with_broker_epoch(broker_epoch);
    match version {
        0 => {
            let flat = topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|view| {
                    sr::StopReplicaPartitionV0::default()
                        .with_topic_name(topic_name(&topic.name))
                        .with_partition_index(view.partition)
                })
            });
            request
                .with_delete_partitions(delete)
                .with_ungrouped_partitions(flat.collect())
        }
        1..=2 => {
            let topics = topics.iter().map(|topic| {
                sr::StopReplicaTopicV1::default()
                    .with_name(topic_name(&topic.name))
                    .with_partition_indexes(
                        topic.partitions.iter().map(|view| view.partition).collect(),
                    )
            });
            request
                .with_delete_partitions(delete)
                .with_topics(topics.collect())
        }
        _ => {
            let topics = topics.iter().map(|topic| {
                let states = topic.partitions.iter().map(|view| {
                    sr::StopReplicaPartitionState::default()
                        .with_partition_index(view.partition)
                        .with_leader_epoch(view.leader_epoch)
                        .with_delete_partition(view.delete)
                });
                sr::StopReplicaTopicState::default()
                    .with_topic_name(topic_name(&topic.name))
                    .with_partition_states(states.collect())
            });
            request.with_topic_states(topics.collect())
        }
    }
}

fn sr_views(
    topics: &[Stop],
) -> Vec<StopReplicaTopicView<'_, std::iter::Copied<slice::Iter<'_, StopReplicaView>>>> {
    topics
        .iter()
        .map(|topic| StopReplicaTopicView {
            name: &topic.name,
            partitions: topic.partitions.iter().copied(),
        })
        .collect()
}

fn stops() -> impl Strategy<Value = Vec<Stop>> {
    let replica = (any::<i32>(), any::<i32>(), any::<bool>()).prop_map(
        |(partition, leader_epoch, delete)| StopReplicaView {
            partition,
            leader_epoch,
            delete,
        },
    );
    vec(
        (name(), vec(replica, 0..4)).prop_map(|(name, partitions)| Stop { name, partitions }),
        0..4,
    )
}

/// Every byte, from the length prefix on.
fn same_bytes<A: crate::Api>(
    request: &ControlRequest,
    correlation_id: i32,
    theirs: &A,
) -> Result<(), TestCaseError> {
    let ours = request.frame(correlation_id, CLIENT).unwrap().to_bytes();
    let theirs = encode_request(request.version(), correlation_id, Some(CLIENT), theirs)
        .unwrap()
        .to_bytes();
    prop_assert_eq!(ours, theirs, "version {}", request.version());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn leader_and_isr_is_what_kafka_protocol_writes(
        controller in controller(), broker_epoch: i64, correlation_id: i32,
        topics in topics(), leaders in vec((any::<i32>(), name(), any::<i32>()), 0..4)
    ) {
        let leaders: Vec<_> =
            leaders.iter().map(|(id, host, port)| LiveLeaderView { id: *id, host, port: *port }).collect();
        for version in 1..=7 {
            let request = leader_and_isr(
                LeaderAndIsrVersion::new(version).unwrap(),
                controller,
                broker_epoch,
                topics.iter().map(Topic::view),
                &leaders,
            );
            let theirs = wire_lisr(version, controller, broker_epoch, &topics, &leaders);
            same_bytes(&request.unwrap(), correlation_id, &theirs)?;
        }
    }

    #[test]
    fn update_metadata_is_what_kafka_protocol_writes_for_each_broker(
        controller in controller(), broker_epochs: [i64; 2], correlation_id: i32,
        topics in topics(), brokers in vec(broker(), 0..4)
    ) {
        let endpoints: Vec<Vec<_>> = brokers.iter().map(|broker| {
            broker.endpoints.iter().map(|endpoint| EndpointView {
                port: endpoint.port,
                host: &endpoint.host,
                listener: &endpoint.listener,
                security_protocol: endpoint.security_protocol,
            }).collect()
        }).collect();
        let live: Vec<_> = brokers.iter().zip(&endpoints).map(|(broker, endpoints)| {
            LiveBrokerView { id: broker.id, endpoints, rack: broker.rack.as_deref() }
        }).collect();
        for version in 4..=8 {
            let body = UpdateMetadataBody::encode(
                UpdateMetadataVersion::new(version).unwrap(),
                controller,
                topics.iter().map(Topic::view),
                &live,
            ).unwrap();
            for broker_epoch in broker_epochs {
                let theirs = wire_umr(version, controller, broker_epoch, &topics, &brokers);
                same_bytes(&body.request(broker_epoch), correlation_id, &theirs)?;
            }
        }
    }

    #[test]
    fn stop_replica_is_what_kafka_protocol_writes(
        controller in controller(), broker_epoch: i64, correlation_id: i32, topics in stops(), delete: bool
    ) {
        for version in 0..=4 {
            let mut topics = topics.clone();
            if version < 3 {
                topics.iter_mut().flat_map(|topic| &mut topic.partitions).for_each(|view| view.delete = delete);
            }
            let any = topics.iter().any(|topic| !topic.partitions.is_empty());
            let request = stop_replica(
                StopReplicaVersion::new(version).unwrap(), controller, broker_epoch, sr_views(&topics),
            );
            let theirs = wire_sr(version, controller, broker_epoch, &topics, delete && any);
            same_bytes(&request.unwrap(), correlation_id, &theirs)?;
        }
    }
}

const CONTROLLER: ControllerView = ControllerView {
    controller_id: 9,
    controller_epoch: 3,
};

fn one_topic() -> Topic {
    let lists = [vec![1, 2], vec![1, 2, 3], vec![], vec![], vec![3]];
    let partition = Partition {
        numbers: [0, 3, 1, 5, 7, 0],
        lists,
        is_new: true,
        recovering: true,
    };
    Topic {
        name: "orders".into(),
        id: [7; 16],
        partitions: vec![partition],
    }
}

#[test]
fn one_update_metadata_body_is_shared_by_the_requests_of_all_brokers() {
    let topic = one_topic();
    let body =
        UpdateMetadataBody::encode(UpdateMetadataVersion::MAX, CONTROLLER, [topic.view()], &[])
            .unwrap();
    let (first, second) = (
        body.request(1).frame(0, CLIENT).unwrap(),
        body.request(2).frame(9, CLIENT).unwrap(),
    );
    assert_eq!(
        first.parts()[1].as_ptr(),
        second.parts()[1].as_ptr(),
        "not a copy"
    );
    assert!(
        first.parts()[0].len() < 64,
        "{} bytes of its own",
        first.parts()[0].len()
    );
    assert_eq!(first.len(), first.to_bytes().len());
}

#[test]
fn what_we_write_can_be_read_again() {
    let topic = one_topic();
    let request = leader_and_isr(
        LeaderAndIsrVersion::MAX,
        CONTROLLER,
        11,
        [topic.view()],
        &[],
    )
    .unwrap();
    let payload = request.frame(5, CLIENT).unwrap().to_bytes().slice(4..);
    let header = parse_header(&payload).unwrap();
    assert_eq!(
        (header.key, header.version, header.correlation_id),
        (ApiKey::LEADER_AND_ISR, 7, 5)
    );
    let read: LeaderAndIsrRequest = decode_request(&header, &payload).unwrap();
    let state = &read.topic_states[0].partition_states[0];
    assert_eq!(
        (
            read.broker_epoch,
            state.leader.0,
            state.leader_recovery_state
        ),
        (11, 1, 1)
    );
}

#[test]
fn a_stop_replica_with_one_flag_for_all_does_not_take_two() {
    let views = [true, true, false].into_iter().zip(0..);
    let partitions = views
        .map(|(delete, partition)| StopReplicaView {
            partition,
            leader_epoch: -1,
            delete,
        })
        .collect();
    let topics = [Stop {
        name: "orders".into(),
        partitions,
    }];
    for version in 0..=4 {
        let request = stop_replica(
            StopReplicaVersion::new(version).unwrap(),
            CONTROLLER,
            1,
            sr_views(&topics),
        );
        if version >= 3 {
            request.unwrap();
            continue;
        }
        assert_eq!(
            request.unwrap_err().to_string(),
            format!(
                "StopReplica v{version} has one delete flag for all partitions, and orders-2 differs from \
                 those before it"
            )
        );
    }
}

#[test]
fn filtered_views_split_a_stop_replica_by_its_flag() {
    let replica = |partition| StopReplicaView {
        partition,
        leader_epoch: 4,
        delete: partition % 2 == 1,
    };
    let topics = [("orders", [0, 1, 2]), ("stock", [4, 6, 8])];
    let half = |delete: bool| {
        let of_topic = move |partitions: [i32; 3]| {
            partitions
                .into_iter()
                .map(replica)
                .filter(move |view| view.delete == delete)
        };
        let views = topics
            .into_iter()
            .filter(move |(_, p)| of_topic(*p).next().is_some());
        let views = views.map(move |(name, p)| StopReplicaTopicView {
            name,
            partitions: of_topic(p),
        });
        let request =
            stop_replica(StopReplicaVersion::new(2).unwrap(), CONTROLLER, 1, views).unwrap();
        let payload = request.frame(0, CLIENT).unwrap().to_bytes().slice(4..);
        let read: StopReplicaRequest =
            decode_request(&parse_header(&payload).unwrap(), &payload).unwrap();
        let topics = read
            .topics
            .iter()
            .map(|t| (t.name.to_string(), t.partition_indexes.clone()));
        (read.delete_partitions, topics.collect::<Vec<_>>())
    };
    assert_eq!(half(true), (true, vec![("orders".into(), vec![1])]));
    assert_eq!(
        half(false),
        (
            false,
            vec![
                ("orders".into(), vec![0, 2]),
                ("stock".into(), vec![4, 6, 8])
            ]
        )
    );
}

#[test]
fn a_name_that_an_old_version_cannot_carry_is_an_error() {
    let name = "x".repeat(40_000);
    let leaders = [LiveLeaderView {
        id: 1,
        host: &name,
        port: 1,
    }];
    let encode = |version| {
        let none: [TopicView<'_, Views<'_>>; 0] = [];
        leader_and_isr(
            LeaderAndIsrVersion::new(version).unwrap(),
            CONTROLLER,
            1,
            none,
            &leaders,
        )
    };
    assert_eq!(
        encode(3).unwrap_err().to_string(),
        "LeaderAndIsr request v3: cannot be encoded: a string of 40000 bytes"
    );
    encode(4).unwrap();
}

/// Says that there is one more than there is.
struct Boasting<'a>(Views<'a>);

impl<'a> Iterator for Boasting<'a> {
    type Item = PartitionView<'a>;

    fn next(&mut self) -> Option<PartitionView<'a>> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let more = self.0.len() + 1;
        (more, Some(more))
    }
}

impl ExactSizeIterator for Boasting<'_> {}

#[test]
fn a_wrong_count_is_an_error_and_not_a_request_that_a_broker_reads_askew() {
    let topic = one_topic();
    let view = topic.view();
    let boasting = TopicView {
        name: view.name,
        id: view.id,
        partitions: Boasting(view.partitions),
    };
    let error = UpdateMetadataBody::encode(UpdateMetadataVersion::MAX, CONTROLLER, [boasting], &[])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "UpdateMetadata request v8: 2 partitions were announced and 1 given"
    );
}
