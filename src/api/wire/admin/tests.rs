//! Tests of the answers to clients: each decodes, in every version, to what was meant.

use super::*;
use klamm_codec::messages::delete_topics_request::DeleteTopicState;
use klamm_codec::messages::elect_leaders_request::TopicPartitions;
use klamm_codec::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use klamm_codec::messages::update_features_request::FeatureUpdateKey;
use klamm_codec::messages::{
    alter_partition_reassignments_request as alter, elect_leaders_response,
};
use klamm_codec::request::{Api, encode_request, parse_header};
use klamm_codec::response::decode_response;
use proptest::collection::vec;
use proptest::prelude::*;

fn received<A: Api>(version: i16, request: &A) -> (RequestHeader, Bytes) {
    let frame = encode_request(version, 3, Some("client"), request).unwrap();
    let payload = frame.to_bytes().slice(4..);
    (parse_header(&payload).unwrap(), payload)
}

fn read<A: Api>(version: i16, frame: &Frame) -> A::Response {
    decode_response::<A>(version, &frame.to_bytes().slice(4..)).unwrap()
}

fn wire_name(name: &str) -> messages::TopicName {
    topic_name(&TopicName::new(name))
}

fn id(byte: u8) -> TopicId {
    TopicId::new([byte; 16]).unwrap()
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(&TopicName::new(topic), index)
}

fn names() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9._-]{1,40}"
}

fn results() -> impl Strategy<Value = Result<(), ApiError>> {
    let refused = (1_i16..120, ".{0,40}");
    prop_oneof![
        Just(Ok(())),
        refused.prop_map(|(code, message)| Err(ApiError::new(KafkaError(code), message))),
    ]
}

fn partition_results() -> impl Strategy<Value = Vec<(TopicPartition, Result<(), ApiError>)>> {
    let topics = proptest::collection::btree_map(
        names(),
        proptest::collection::btree_map(0..1000, results(), 1..5),
        0..5,
    );
    topics.prop_map(|topics| {
        let flat = topics.into_iter().flat_map(|(topic, partitions)| {
            partitions
                .into_iter()
                .map(move |(index, result)| (partition(&topic, index), result))
        });
        flat.collect()
    })
}

fn code_and_message(result: &Result<(), ApiError>) -> (i16, Option<String>) {
    match result {
        Ok(()) => (0, None),
        Err(refused) => (refused.error.0, Some(refused.message.clone())),
    }
}

proptest! {
    #[test]
    fn a_client_reads_what_became_of_each_topic_that_it_wanted_deleted(
        version in 0_i16..=6,
        topics in vec((names(), proptest::option::of(1_u8..250), results()), 0..6),
        throttle_ms in 0..i32::MAX,
    ) {
        let request = match version {
            ..DELETION_BY_ID => DeleteTopicsRequest::default()
                .with_topic_names(topics.iter().map(|(name, ..)| wire_name(name)).collect()),
            _ => DeleteTopicsRequest::default().with_topics(
                topics
                    .iter()
                    .map(|(name, ..)| DeleteTopicState::default().with_name(Some(wire_name(name))))
                    .collect(),
            ),
        };
        let (header, payload) = received(version, &request.with_timeout_ms(7));
        let asked = delete_topics_request(&header, &payload).unwrap();
        prop_assert_eq!((asked.timeout_ms, asked.is_ambiguous), (7, false));
        let references: Vec<_> = topics
            .iter()
            .map(|(name, ..)| TopicReference::Name(TopicName::new(name)))
            .collect();
        prop_assert_eq!(asked.references(), references);
        let answer = topics.iter().map(|(name, byte, result)| DeletedTopic {
            name: Some(TopicName::new(name)),
            topic_id: byte.map(id),
            result: result.clone(),
        });
        let frame = delete_topics_response(&header, &asked, Ok(answer.collect()), throttle_ms).unwrap();
        let response = read::<DeleteTopicsRequest>(version, &frame);
        // Version 0 has no room for it.
        prop_assert_eq!(response.throttle_time_ms, if version >= 1 { throttle_ms } else { 0 });
        prop_assert_eq!(response.responses.len(), topics.len());
        for (seen, (name, byte, result)) in response.responses.iter().zip(&topics) {
            prop_assert_eq!(&seen.name, &Some(wire_name(name)));
            let known = byte.filter(|_| version >= DELETION_BY_ID).map(id);
            prop_assert_eq!(TopicId::new(seen.topic_id.into_bytes()), known);
            let (code, message) = code_and_message(result);
            let expected = match (KafkaError(code), version) {
                (KafkaError::TOPIC_DELETION_DISABLED, ..DELETION_DISABLED_IS_KNOWN) => {
                    KafkaError::INVALID_REQUEST.0
                }
                (other, _) => other.0,
            };
            prop_assert_eq!(seen.error_code, expected);
            let told = message.filter(|_| version >= DELETION_IS_EXPLAINED);
            prop_assert_eq!(seen.error_message.as_ref().map(ToString::to_string), told);
        }
    }

    #[test]
    fn a_client_reads_what_became_of_each_election(
        version in 0_i16..=2,
        results in partition_results(),
    ) {
        let (header, payload) = received(version, &ElectLeadersRequest::default().with_topic_partitions(None));
        let asked = elect_leaders_request(&header, &payload).unwrap();
        prop_assert_eq!(&asked.partitions, &None);
        let frame = elect_leaders_response(&header, &asked, Ok(results.clone())).unwrap();
        let response = read::<ElectLeadersRequest>(version, &frame);
        prop_assert_eq!(response.error_code, 0);
        let seen: Vec<_> = response
            .replica_election_results
            .iter()
            .flat_map(|topic| topic.partition_result.iter().map(|said| {
                let message = said.error_message.as_ref().map(ToString::to_string);
                (partition(&topic.topic, said.partition_id), (said.error_code, message))
            }))
            .collect();
        let meant: Vec<_> = results
            .iter()
            .map(|(at, result)| (at.clone(), code_and_message(result)))
            .collect();
        prop_assert_eq!(seen, meant);
    }

    #[test]
    fn a_client_reads_what_became_of_each_reassignment(results in partition_results()) {
        let (header, _) = received(0, &AlterPartitionReassignmentsRequest::default());
        let frame = alter_partition_reassignments_response(&header, Ok(results.clone())).unwrap();
        let response = read::<AlterPartitionReassignmentsRequest>(0, &frame);
        prop_assert_eq!((response.error_code, response.error_message), (0, None));
        let seen: Vec<_> = response
            .responses
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|said| {
                let message = said.error_message.as_ref().map(ToString::to_string);
                (partition(&topic.name, said.partition_index), (said.error_code, message))
            }))
            .collect();
        let meant: Vec<_> = results
            .iter()
            .map(|(at, result)| (at.clone(), code_and_message(result)))
            .collect();
        prop_assert_eq!(seen, meant);
    }

    #[test]
    fn a_client_reads_which_reassignments_run(
        topics in proptest::collection::btree_map(
            names(),
            (vec(any::<i32>(), 0..5), vec(any::<i32>(), 0..3), vec(any::<i32>(), 0..3)),
            0..5,
        ),
    ) {
        let ids = |ids: &Vec<i32>| ids.iter().copied().map(BrokerId).collect::<BrokerIds>();
        let running: Vec<_> = topics
            .iter()
            .map(|(topic, (replicas, adding, removing))| {
                let assignment = ReplicaAssignment {
                    replicas: ids(replicas),
                    adding: ids(adding),
                    removing: ids(removing),
                };
                (partition(topic, 4), assignment)
            })
            .collect();
        let (header, _) = received(0, &ListPartitionReassignmentsRequest::default());
        let frame = list_partition_reassignments_response(&header, Ok(running.clone())).unwrap();
        let response = read::<ListPartitionReassignmentsRequest>(0, &frame);
        let seen: Vec<_> = response
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|said| {
                let back = |ids: &Vec<messages::BrokerId>| ids.iter().map(|id| BrokerId(id.0)).collect();
                let assignment = ReplicaAssignment {
                    replicas: back(&said.replicas),
                    adding: back(&said.adding_replicas),
                    removing: back(&said.removing_replicas),
                };
                (partition(&topic.name, said.partition_index), assignment)
            }))
            .collect();
        prop_assert_eq!(seen, running);
    }
}

#[test]
fn a_topic_is_named_by_its_id_or_its_name_and_not_by_both() {
    let by_id = |byte: u8| {
        DeleteTopicState::default()
            .with_name(None)
            .with_topic_id(Uuid::from_bytes([byte; 16]))
    };
    let named = DeleteTopicState::default().with_name(Some(wire_name("t")));
    let request =
        DeleteTopicsRequest::default().with_topics(vec![by_id(0), by_id(9), named.clone()]);
    let (header, payload) = received(6, &request);
    let asked = delete_topics_request(&header, &payload).unwrap();
    assert!(!asked.is_ambiguous);
    assert_eq!(
        asked.references(),
        [
            TopicReference::Id(id(9)),
            TopicReference::Name(TopicName::new("t"))
        ]
    );
    let done = |name: &str, byte| DeletedTopic {
        name: Some(TopicName::new(name)),
        topic_id: Some(id(byte)),
        result: Ok(()),
    };
    let answer = vec![done("found", 9), done("t", 8)];
    let frame = delete_topics_response(&header, &asked, Ok(answer), 0).unwrap();
    let response = read::<DeleteTopicsRequest>(6, &frame);
    let seen: Vec<_> = response
        .responses
        .iter()
        .map(|said| {
            let name = said.name.as_ref().map(|name| name.to_string());
            (name, said.topic_id.into_bytes()[0], said.error_code)
        })
        .collect();
    let unknown = KafkaError::UNKNOWN_TOPIC_ID.0;
    assert_eq!(
        seen,
        [
            (None, 0, unknown),
            (Some("found".to_owned()), 9, 0),
            (Some("t".to_owned()), 8, 0)
        ]
    );

    let both = named.with_topic_id(Uuid::from_bytes([9; 16]));
    let (header, payload) = received(6, &DeleteTopicsRequest::default().with_topics(vec![both]));
    assert!(
        delete_topics_request(&header, &payload)
            .unwrap()
            .is_ambiguous
    );
}

#[test]
fn who_is_not_the_controller_says_so_of_each_topic() {
    for version in 0..=6 {
        let request = match version {
            ..DELETION_BY_ID => {
                DeleteTopicsRequest::default().with_topic_names(vec![wire_name("t")])
            }
            _ => DeleteTopicsRequest::default().with_topics(vec![
                DeleteTopicState::default().with_name(Some(wire_name("t"))),
            ]),
        };
        let (header, payload) = received(version, &request);
        let asked = delete_topics_request(&header, &payload).unwrap();
        let refusal = Err(KafkaError::NOT_CONTROLLER);
        let frame = delete_topics_response(&header, &asked, refusal, 0).unwrap();
        let response = read::<DeleteTopicsRequest>(version, &frame);
        assert_eq!(response.responses.len(), 1);
        assert_eq!(response.responses[0].error_code, 41, "v{version}");
        assert_eq!(response.responses[0].name, Some(wire_name("t")));
    }
}

#[test]
fn an_election_has_a_kind_from_version_1_on() {
    for version in 0..=2 {
        for (kind, expected) in [
            (0, Some(ElectionType::Preferred)),
            (1, Some(ElectionType::Unclean)),
            (2, None),
        ] {
            let topic = TopicPartitions::default()
                .with_topic(wire_name("t"))
                .with_partitions(vec![3, 1]);
            let mut request = ElectLeadersRequest::default()
                .with_topic_partitions(Some(vec![topic]))
                .with_timeout_ms(7);
            if version >= ELECTION_HAS_A_TYPE {
                request.election_type = kind;
            }
            let (header, payload) = received(version, &request);
            let asked = elect_leaders_request(&header, &payload).unwrap();
            let expected = match version {
                0 => Some(ElectionType::Preferred),
                _ => expected,
            };
            assert_eq!(
                (asked.election, asked.timeout_ms),
                (expected, 7),
                "v{version}"
            );
            let partitions = vec![partition("t", 3), partition("t", 1)];
            assert_eq!(asked.partitions, Some(partitions));
            let refused = ApiError::new(KafkaError::INVALID_REQUEST, "no such kind");
            let frame = elect_leaders_response(&header, &asked, Err(refused)).unwrap();
            let response = read::<ElectLeadersRequest>(version, &frame);
            let whole = if version >= ELECTION_HAS_A_TYPE {
                42
            } else {
                0
            };
            assert_eq!(response.error_code, whole, "v{version}");
            let each = |topic: &elect_leaders_response::ReplicaElectionResult| {
                let codes = topic.partition_result.iter().map(|said| said.error_code);
                codes.collect::<Vec<_>>()
            };
            let codes: Vec<_> = response.replica_election_results.iter().map(each).collect();
            assert_eq!(codes, [[42, 42]], "v{version}");
        }
    }
}

#[test]
fn a_reassignment_without_replicas_is_a_cancellation() {
    let target = |index, replicas: Option<&[i32]>| {
        alter::ReassignablePartition::default()
            .with_partition_index(index)
            .with_replicas(
                replicas.map(|ids| ids.iter().map(|id| messages::BrokerId(*id)).collect()),
            )
    };
    let topic = alter::ReassignableTopic::default()
        .with_name(wire_name("t"))
        .with_partitions(vec![
            target(0, Some(&[1])),
            target(1, None),
            target(2, Some(&[])),
            target(0, Some(&[3, -2])),
        ]);
    let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
    let (header, payload) = received(0, &request);
    let targets = alter_partition_reassignments_request(&header, &payload).unwrap();
    assert_eq!(
        targets,
        [
            (partition("t", 0), Some(vec![BrokerId(3), BrokerId(-2)])),
            (partition("t", 1), None),
            (partition("t", 2), Some(vec![])),
        ]
        .into()
    );
    let frame =
        alter_partition_reassignments_response(&header, Err(KafkaError::NOT_CONTROLLER)).unwrap();
    let response = read::<AlterPartitionReassignmentsRequest>(0, &frame);
    assert_eq!(response.error_code, 41);
}

#[test]
fn reassignments_are_listed_for_some_partitions_or_for_all() {
    let all = ListPartitionReassignmentsRequest::default().with_topics(None);
    let (header, payload) = received(0, &all);
    assert_eq!(
        list_partition_reassignments_request(&header, &payload),
        Ok(None)
    );
    let topic = ListPartitionReassignmentsTopics::default()
        .with_name(wire_name("t"))
        .with_partition_indexes(vec![4, 2]);
    let some = ListPartitionReassignmentsRequest::default().with_topics(Some(vec![topic]));
    let (header, payload) = received(0, &some);
    assert_eq!(
        list_partition_reassignments_request(&header, &payload),
        Ok(Some(vec![partition("t", 4), partition("t", 2)]))
    );
    let frame =
        list_partition_reassignments_response(&header, Err(KafkaError::NOT_CONTROLLER)).unwrap();
    let response = read::<ListPartitionReassignmentsRequest>(0, &frame);
    assert_eq!(response.error_code, 41);
}

#[test]
fn an_update_of_a_feature_is_read_and_answered_alike_in_both_versions() {
    let update = |allow_downgrade, upgrade_type| {
        FeatureUpdateKey::default()
            .with_feature(StrBytes::from_static_str("f"))
            .with_max_version_level(3)
            .with_allow_downgrade(allow_downgrade)
            .with_upgrade_type(upgrade_type)
    };
    let cases = [
        (0, update(false, 1), UpgradeType::Upgrade),
        (0, update(true, 1), UpgradeType::SafeDowngrade),
        (1, update(false, 1), UpgradeType::Upgrade),
        (1, update(false, 2), UpgradeType::SafeDowngrade),
        (1, update(false, 3), UpgradeType::UnsafeDowngrade),
        (1, update(false, 0), UpgradeType::Unknown),
        (1, update(false, 9), UpgradeType::Unknown),
    ];
    for (version, update, upgrade_type) in cases {
        let request = UpdateFeaturesRequest::default().with_feature_updates(vec![update]);
        let (header, payload) = received(version, &request);
        let expected = FeatureUpdate {
            feature: "f".to_owned(),
            level: 3,
            upgrade_type,
        };
        let read_back = update_features_request(&header, &payload).unwrap();
        assert_eq!(read_back.updates, [expected], "v{version}");
        assert!(!read_back.validate_only);
        let refused = || ApiError::new(KafkaError::FEATURE_UPDATE_FAILED, "not supported");
        let results = vec![("f".to_owned(), Err(refused())), ("g".to_owned(), Ok(()))];
        let frame = update_features_response(&header, Ok(results)).unwrap();
        let response = read::<UpdateFeaturesRequest>(version, &frame);
        let seen = response.results.iter().map(|said| {
            let message = said.error_message.as_ref().map(ToString::to_string);
            (said.feature.to_string(), said.error_code, message)
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                ("f".to_owned(), 96, Some("not supported".to_owned())),
                ("g".to_owned(), 0, None)
            ]
        );
        let frame = update_features_response(&header, Err(refused())).unwrap();
        let response = read::<UpdateFeaturesRequest>(version, &frame);
        assert_eq!((response.error_code, response.results.len()), (96, 0));
    }
}

/// Whatever the controller explains, each version can carry it.
#[test]
fn a_client_gets_its_answer_however_long_the_explanation_is() {
    let refused = || Err(ApiError::new(KafkaError(40), "long ".repeat(10_000)));
    let about = || partition("topic", 1);
    for version in 0..=2 {
        let asked = ElectLeaders {
            partitions: None,
            election: Some(ElectionType::Preferred),
            timeout_ms: 60_000,
        };
        let (header, _) = received(version, &ElectLeadersRequest::default());
        let frame = elect_leaders_response(&header, &asked, Ok(vec![(about(), refused())]));
        let response = read::<ElectLeadersRequest>(version, &frame.unwrap());
        let result = &response.replica_election_results[0].partition_result[0];
        assert_eq!(result.error_code, 40, "v{version}");
        let message = result.error_message.as_ref().unwrap();
        assert!(message.starts_with("long long "), "v{version}");
    }
}
