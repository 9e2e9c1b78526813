//! Each request is read as it was meant and each answer as it was said, in every version.

use super::*;
use crate::effect::TopicDetails;
use crate::model::topic_config::ConfigSource;
use crate::model::{ApiError, TopicId};
use klamm_codec::messages::create_partitions_request::CreatePartitionsAssignment;
use klamm_codec::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopicConfig,
};
use klamm_codec::request::{Api, encode_request, parse_header};
use klamm_codec::response::decode_response;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// CreateTopics has room for the time from this version on.
const THROTTLE_IS_TOLD: i16 = 2;

fn received<A: Api>(version: i16, request: &A) -> (RequestHeader, Bytes) {
    let frame = encode_request(version, 3, Some("client"), request).unwrap();
    let payload = frame.to_bytes().slice(4..);
    (parse_header(&payload).unwrap(), payload)
}

fn read<A: Api>(version: i16, frame: &Frame) -> A::Response {
    decode_response::<A>(version, &frame.to_bytes().slice(4..)).unwrap()
}

fn wire_ids(ids: &[i32]) -> Vec<messages::BrokerId> {
    ids.iter().copied().map(messages::BrokerId).collect()
}

fn meant_ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn names() -> impl Strategy<Value = TopicName> {
    "[a-zA-Z0-9._-]{1,40}".prop_map(|name| TopicName::new(&name))
}

fn new_topics() -> impl Strategy<Value = NewTopic> {
    let assignments = vec((any::<i32>(), vec(any::<i32>(), 0..4)), 0..4);
    let configs = vec(("[a-z.]{1,20}", option::of(".{0,10}")), 0..4);
    let counts = (option::of(0..i32::MAX), option::of(0..i16::MAX));
    let parts = (names(), counts, assignments, configs);
    parts.prop_map(
        |(name, (partitions, factor), assignments, configs)| NewTopic {
            name,
            num_partitions: partitions,
            replication_factor: factor,
            assignments: assignments
                .into_iter()
                .map(|(index, ids)| (index, meant_ids(&ids)))
                .collect(),
            configs,
        },
    )
}

fn as_sent(topic: &NewTopic) -> CreatableTopic {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| messages::BrokerId(id.0)).collect();
    let assigned = |(index, replicas): &(i32, Vec<BrokerId>)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*index)
            .with_broker_ids(ids(replicas))
    };
    let config = |(name, value): &(String, Option<String>)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(name.clone()))
            .with_value(value.clone().map(StrBytes::from_string))
    };
    CreatableTopic::default()
        .with_name(topic_name(&topic.name))
        .with_num_partitions(topic.num_partitions.unwrap_or(-1))
        .with_replication_factor(topic.replication_factor.unwrap_or(-1))
        .with_assignments(topic.assignments.iter().map(assigned).collect())
        .with_configs(topic.configs.iter().map(config).collect())
}

fn refusals() -> impl Strategy<Value = ApiError> {
    (1_i16..120, ".{0,40}").prop_map(|(code, message)| ApiError::new(KafkaError(code), message))
}

fn created_topics() -> impl Strategy<Value = CreatedTopic> {
    let sources = prop_oneof![
        Just(ConfigSource::Topic),
        Just(ConfigSource::StaticBroker),
        Just(ConfigSource::Default)
    ];
    let settings = vec((".{0,10}", sources), 0..3).prop_map(|settings| {
        let setting = |(value, source)| TopicSetting {
            name: "retention.ms",
            value,
            source,
        };
        settings.into_iter().map(setting).collect()
    });
    let details = (option::of(2_u8..), 1_usize..1000, 1_usize..5, settings);
    let details =
        details.prop_map(
            |(id, num_partitions, replication_factor, settings)| TopicDetails {
                topic_id: id.and_then(|byte| TopicId::new([byte; 16])),
                num_partitions,
                replication_factor,
                settings,
            },
        );
    let results = prop_oneof![details.prop_map(Ok), refusals().prop_map(Err)];
    (names(), results).prop_map(|(name, result)| CreatedTopic { name, result })
}

/// What a client of this version can see of a result.
fn check_created(version: i16, seen: &CreatableTopicResult, meant: &CreatedTopic) {
    assert_eq!(seen.name, topic_name(&meant.name));
    let configs = seen.configs.clone().unwrap_or_default();
    match &meant.result {
        Err(refused) => {
            assert_eq!(seen.error_code, refused.error.0);
            // Version 0 has no place for it.
            let message = seen.error_message.as_ref().filter(|_| version >= 1);
            let message = message.map(ToString::to_string);
            assert_eq!(message, (version >= 1).then(|| refused.message.clone()));
            assert_eq!((seen.num_partitions, seen.replication_factor), (-1, -1));
            assert!(configs.is_empty() && seen.topic_id.is_nil());
        }
        Ok(details) => {
            let message = seen.error_message.as_ref().filter(|_| version >= 1);
            assert_eq!((seen.error_code, message), (0, None));
            let id = details.topic_id.filter(|_| version >= ID_IS_TOLD);
            assert_eq!(TopicId::new(seen.topic_id.into_bytes()), id);
            assert_eq!(seen.topic_config_error_code, 0);
            if version < DETAILS_ARE_TOLD {
                assert_eq!((seen.num_partitions, configs.len()), (-1, 0));
                return;
            }
            assert_eq!(seen.num_partitions as usize, details.num_partitions);
            assert_eq!(seen.replication_factor as usize, details.replication_factor);
            let told = configs.iter().map(|config| {
                assert!(!config.read_only && !config.is_sensitive);
                (
                    config.value.as_ref().map(ToString::to_string),
                    config.config_source,
                )
            });
            let settings = details.settings.iter();
            let settings = settings.map(|it| (Some(it.value.clone()), it.source as i8));
            assert_eq!(told.collect::<Vec<_>>(), settings.collect::<Vec<_>>());
        }
    }
}

proptest! {
    #[test]
    fn a_request_for_topics_is_read_as_it_was_meant(
        version in 0_i16..=7,
        topics in vec(new_topics(), 0..4),
        timeout_ms in any::<i32>(),
        validate_only in any::<bool>(),
    ) {
        // Version 0 can't ask without wanting.
        let validate_only = validate_only && version >= 1;
        let request = messages::CreateTopicsRequest::default()
            .with_topics(topics.iter().map(as_sent).collect())
            .with_timeout_ms(timeout_ms)
            .with_validate_only(validate_only);
        let (header, payload) = received(version, &request);
        let meant = CreateTopicsRequest { topics, timeout_ms, validate_only };
        prop_assert_eq!(create_topics_request(&header, &payload).unwrap(), meant);
    }

    #[test]
    fn a_client_reads_what_became_of_each_topic_that_it_wanted(
        version in 0_i16..=7,
        topics in vec(created_topics(), 0..6),
        throttle_ms in 0..i32::MAX,
    ) {
        let (header, _) = received(version, &messages::CreateTopicsRequest::default());
        let asked: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
        let frame = create_topics_response(&header, &asked, Ok(topics.clone()), throttle_ms).unwrap();
        let response = read::<messages::CreateTopicsRequest>(version, &frame);
        let told = if version >= THROTTLE_IS_TOLD { throttle_ms } else { 0 };
        prop_assert_eq!(response.throttle_time_ms, told);
        prop_assert_eq!(response.topics.len(), topics.len());
        for (seen, meant) in response.topics.iter().zip(&topics) {
            check_created(version, seen, meant);
        }
        let frame = create_topics_response(&header, &asked, Err(KafkaError::NOT_CONTROLLER), 0).unwrap();
        let response = read::<messages::CreateTopicsRequest>(version, &frame);
        let seen: Vec<_> = response.topics.iter().map(|seen| (&seen.name.0, seen.error_code)).collect();
        let names: Vec<_> = asked.iter().map(topic_name).collect();
        let meant: Vec<_> = names.iter().map(|name| (&name.0, 41)).collect();
        prop_assert_eq!(seen, meant);
    }

    #[test]
    fn a_request_for_partitions_is_read_as_it_was_meant(
        version in 0_i16..=3,
        topics in vec((names(), any::<i32>(), option::of(vec(vec(any::<i32>(), 0..4), 0..4))), 0..4),
        timeout_ms in any::<i32>(),
        validate_only in any::<bool>(),
    ) {
        let sent = topics.iter().map(|(name, count, lists)| {
            let list = |ids: &Vec<i32>| {
                CreatePartitionsAssignment::default().with_broker_ids(wire_ids(ids))
            };
            CreatePartitionsTopic::default()
                .with_name(topic_name(name))
                .with_count(*count)
                .with_assignments(lists.as_ref().map(|lists| lists.iter().map(list).collect()))
        });
        let request = messages::CreatePartitionsRequest::default()
            .with_topics(sent.collect())
            .with_timeout_ms(timeout_ms)
            .with_validate_only(validate_only);
        let (header, payload) = received(version, &request);
        let meant = topics.iter().map(|(name, count, lists)| MorePartitions {
            topic: name.clone(),
            count: *count,
            assignments: lists.as_ref().map(|lists| lists.iter().map(|ids| meant_ids(ids)).collect()),
        });
        let meant = CreatePartitionsRequest { topics: meant.collect(), timeout_ms, validate_only };
        prop_assert_eq!(create_partitions_request(&header, &payload).unwrap(), meant);
    }

    #[test]
    fn a_client_reads_what_became_of_each_topic_that_was_to_grow(
        version in 0_i16..=3,
        grown in vec((names(), prop_oneof![Just(Ok(())), refusals().prop_map(Err)]), 0..6),
        throttle_ms in 0..i32::MAX,
    ) {
        let (header, _) = received(version, &messages::CreatePartitionsRequest::default());
        let asked: Vec<TopicName> = grown.iter().map(|(name, _)| name.clone()).collect();
        let seen = |answer| {
            let frame = create_partitions_response(&header, &asked, answer, throttle_ms).unwrap();
            let response = read::<messages::CreatePartitionsRequest>(version, &frame);
            assert_eq!(response.throttle_time_ms, throttle_ms);
            let results = response.results.into_iter();
            let results = results.map(|seen| {
                let message = seen.error_message.map(|message| message.to_string());
                (TopicName::new(&seen.name), seen.error_code, message)
            });
            results.collect::<Vec<_>>()
        };
        let meant = |(name, result): &GrownTopic| match result {
            Ok(()) => (name.clone(), 0, None),
            Err(refused) => (name.clone(), refused.error.0, Some(refused.message.clone())),
        };
        prop_assert_eq!(seen(Ok(grown.clone())), grown.iter().map(meant).collect::<Vec<_>>());
        let refused: Vec<_> = asked.iter().map(|name| (name.clone(), 41, None)).collect();
        prop_assert_eq!(seen(Err(KafkaError::NOT_CONTROLLER)), refused);
    }
}
