//! Tests of the way from a batch to frames: versions, splits, shared bodies, and answers read back.

use std::collections::BTreeMap;

use klamm_codec::messages::api_versions_response::ApiVersion;
use klamm_codec::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use klamm_codec::messages::{
    ApiVersionsResponse, LeaderAndIsrRequest, LeaderAndIsrResponse, UpdateMetadataRequest,
};
use klamm_codec::request::{Api, decode_request, parse_header};
use klamm_codec::response::encode_response;

use super::super::tests::*;
use super::*;
use crate::effect::StateRead;
use crate::model::{ControllerEpoch, LeaderAndIsr, LeaderEpoch, PartitionEpoch, ReplicaAssignment};

fn requests(batch: ControlRequests) -> Vec<BrokerRequest> {
    let all = requests_by_broker(batch, BrokerId(1000), &"INTERNAL".into());
    all.into_iter().map(|(_, request)| request).collect()
}

fn versions(leader_and_isr: i16, update_metadata: i16) -> ControlVersions {
    ControlVersions {
        leader_and_isr: LeaderAndIsrVersion::new(leader_and_isr).unwrap(),
        stop_replica: StopReplicaVersion::MAX,
        update_metadata: UpdateMetadataVersion::new(update_metadata).unwrap(),
    }
}

fn read_back<A: Api>(request: &BrokerRequest, versions: ControlVersions) -> A {
    let encoded = request.encode(versions, BrokerEpoch(50)).unwrap();
    let payload = encoded.frame(1, "1000").unwrap().to_bytes().slice(4..);
    decode_request(&parse_header(&payload).unwrap(), &payload).unwrap()
}

#[test]
fn an_update_for_all_brokers_is_encoded_once_for_each_version() {
    let all = requests(marked(&[1, 2, 3], 5));
    let tail_of = |request: &BrokerRequest, version, epoch| {
        let encoded = request
            .encode(versions(7, version), BrokerEpoch(epoch))
            .unwrap();
        let frame = encoded.frame(epoch as i32, "1000").unwrap();
        let [_, tail] = frame.parts();
        (tail.as_ptr(), tail.len())
    };
    for version in 4..=8 {
        let first = tail_of(&all[0], version, 50);
        assert!(first.1 > 0);
        assert_eq!(tail_of(&all[1], version, 51), first);
        assert_eq!(tail_of(&all[2], version, 52), first);
    }
    assert_ne!(tail_of(&all[0], 7, 50).0, tail_of(&all[0], 8, 50).0);
}

#[test]
fn every_version_of_update_metadata_has_its_place() {
    let span = UpdateMetadataVersion::MAX.get() - UpdateMetadataVersion::MIN.get() + 1;
    assert_eq!(span as usize, UPDATE_METADATA_VERSIONS);
}

#[test]
fn an_update_says_what_zookeeper_holds_and_who_is_alive() {
    let topics = vec![of_topic("orders", vec![announced(3, 2, 9)])];
    let update: UpdateMetadataRequest =
        read_back(&requests(update_metadata(&[1], topics))[0], versions(7, 8));
    assert_eq!(
        (
            update.controller_id.0,
            update.controller_epoch,
            update.broker_epoch
        ),
        (1000, 7, 50)
    );
    let [topic] = update.topic_states.as_slice() else {
        panic!()
    };
    assert_eq!(topic.topic_id.as_bytes(), topic_id("orders").as_bytes());
    let [it] = topic.partition_states.as_slice() else {
        panic!()
    };
    assert_eq!(
        (it.partition_index, it.leader.0, it.leader_epoch),
        (3, 2, 9)
    );
    assert_eq!((it.controller_epoch, it.zk_version), (4, 19));
    let ids =
        |ids: &[klamm_codec::messages::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(ids(&it.isr), [1, 2]);
    assert_eq!(
        (ids(&it.replicas), ids(&it.offline_replicas)),
        (vec![1, 2, 3], vec![3])
    );
    let [one, two] = update.live_brokers.as_slice() else {
        panic!()
    };
    assert_eq!((one.id.0, two.id.0), (1, 2));
    let [endpoint] = one.endpoints.as_slice() else {
        panic!()
    };
    assert_eq!((endpoint.host.as_str(), endpoint.port), ("one", 9092));
    assert_eq!(
        (endpoint.listener.as_str(), endpoint.security_protocol),
        ("INTERNAL", 0)
    );
}

#[test]
fn a_topic_being_deleted_is_announced_with_leader_minus_two_and_its_isr() {
    let topics = vec![of_topic("gone", vec![dying(0)])];
    let update: UpdateMetadataRequest =
        read_back(&requests(update_metadata(&[1], topics))[0], versions(7, 8));
    let it = &update.topic_states[0].partition_states[0];
    assert_eq!(
        (
            it.leader.0,
            it.leader_epoch,
            it.zk_version,
            it.controller_epoch
        ),
        (-2, 0, 0, 4)
    );
    assert_eq!(it.isr.len(), 2);
}

#[test]
fn an_update_without_partitions_tells_who_is_alive_all_the_same() {
    let update: UpdateMetadataRequest =
        read_back(&requests(update_metadata(&[1], vec![]))[0], versions(7, 5));
    assert!(update.topic_states.is_empty());
    assert_eq!(update.live_brokers.len(), 2);
}

#[test]
fn leader_and_isr_says_what_moves_and_what_is_new_and_who_recovers() {
    let recovering = StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(6),
            isr: [1].into(),
            leader_recovery_state: LeaderRecoveryState::Recovering,
        },
        controller_epoch: ControllerEpoch(3),
        partition_epoch: PartitionEpoch(12),
    };
    let partition = LeaderAndIsrPartition {
        partition: 0,
        state: recovering.into(),
        assignment: ReplicaAssignment::settled([1, 2].into()).reassign_to(&[1, 4].into()),
        is_new: true,
    };
    let request = &requests(leader_and_isr(1, vec![of_topic("orders", vec![partition])]))[0];
    for (version, recovery) in [(7, 1), (6, 1), (5, 0), (4, 0), (3, 0)] {
        let told: LeaderAndIsrRequest = read_back(request, versions(version, 8));
        let it = &told.topic_states[0].partition_states[0];
        assert_eq!(it.leader_recovery_state, recovery, "v{version}");
        assert_eq!(
            (it.leader_epoch, it.partition_epoch, it.controller_epoch),
            (6, 12, 3)
        );
        let ids =
            |ids: &[klamm_codec::messages::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(ids(&it.replicas), [1, 4, 2]);
        assert_eq!(
            (ids(&it.adding_replicas), ids(&it.removing_replicas)),
            (vec![4], vec![2])
        );
        assert!(it.is_new);
    }
}

#[test]
fn live_leaders_are_the_leaders_in_the_request_and_one_without_the_listener_is_left_out() {
    let mut batch = leader_and_isr(
        1,
        vec![of_topic(
            "orders",
            vec![led(0, 2, 1), led(1, 9, 1), led(2, -1, 1), led(3, 2, 1)],
        )],
    );
    let mut elsewhere = batch.live_brokers[0].clone();
    elsewhere.id = BrokerId(9);
    elsewhere.endpoints[0].listener = "EXTERNAL".into();
    batch.live_brokers = batch
        .live_brokers
        .iter()
        .cloned()
        .chain([elsewhere])
        .collect();
    let told: LeaderAndIsrRequest = read_back(&requests(batch)[0], versions(7, 8));
    let leaders: Vec<_> = told
        .live_leaders
        .iter()
        .map(|it| (it.broker_id.0, it.host_name.as_str(), it.port))
        .collect();
    assert_eq!(leaders, [(2, "two", 9092)]);
}

#[test]
fn answers_name_partitions_by_name_or_id_as_the_version_does() {
    let request = &requests(leader_and_isr(
        1,
        vec![of_topic("orders", vec![led(0, 1, 1)])],
    ))[0];
    let failed = LeaderAndIsrPartitionError::default()
        .with_partition_index(3)
        .with_error_code(56);
    let name = klamm_codec::messages::TopicName::from(StrBytes::from_static_str("orders"));
    let by_name = LeaderAndIsrResponse::default()
        .with_partition_errors(vec![failed.clone().with_topic_name(name)]);
    let zero = LeaderAndIsrTopicError::default().with_partition_errors(vec![failed.clone()]);
    let known = zero.clone().with_topic_id(klamm_codec::Uuid::from_bytes(
        *topic_id("orders").as_bytes(),
    ));
    let by_id = LeaderAndIsrResponse::default().with_topics(vec![zero, known]);
    let heard = |version, said: &LeaderAndIsrResponse| {
        let frame = encode_response::<LeaderAndIsrRequest>(version, 1, said).unwrap();
        match request
            .answer(version, &frame.to_bytes().slice(4..))
            .unwrap()
        {
            BrokerAnswer::LeaderAndIsr(response) => response.partitions,
            other => panic!("{other:?}"),
        }
    };
    let storage = KafkaError::KAFKA_STORAGE_ERROR;
    let orders = TopicReference::Name(TopicName::new("orders"));
    assert_eq!(heard(4, &by_name), [(orders, 3, storage)]);
    let orders = TopicReference::Id(topic_id("orders"));
    assert_eq!(heard(7, &by_id), [(orders, 3, storage)]);
}

#[test]
fn only_releases_2_2_to_2_5_may_not_know_their_own_epoch() {
    let newest = |stop_replica| {
        let api = ApiVersion::default()
            .with_api_key(5)
            .with_max_version(stop_replica);
        let said = ApiVersionsResponse::default().with_api_keys(vec![api]);
        may_lag_behind_its_own_epoch(&BrokerVersions::from_response(&said).unwrap())
    };
    let lagging: BTreeMap<i16, bool> = (0..=4).map(|max| (max, newest(max))).collect();
    assert_eq!(
        lagging,
        [(0, false), (1, true), (2, true), (3, false), (4, false)].into()
    );
}
