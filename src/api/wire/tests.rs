//! Tests of the answers to brokers: each decodes, in every version, to what was meant. A malformed one ends a broker's JVM.

use super::*;
use crate::effect::{Committed, StateRead};
use crate::model::{ControllerEpoch, LeaderAndIsr};
use klamm_codec::messages::alter_partition_request::{BrokerState, TopicData as AskedTopic};
use klamm_codec::request::{Api, encode_request, parse_header};
use klamm_codec::response::{correlation_id, decode_api_versions, decode_response};
use proptest::collection::vec;
use proptest::prelude::*;

/// A request as a broker writes it, in the pieces that the listener gets.
fn received<A: Api>(version: i16, correlation: i32, request: &A) -> (RequestHeader, Bytes) {
    let frame = encode_request(version, correlation, Some("1"), request).unwrap();
    let payload = frame.to_bytes().slice(4..);
    (parse_header(&payload).unwrap(), payload)
}

fn header<A: Api + Default>(version: i16, correlation: i32) -> RequestHeader {
    received(version, correlation, &A::default()).0
}

/// An answer as a broker reads it, after its length prefix was seen to be right.
fn read<A: Api>(version: i16, correlation: i32, frame: &Frame) -> A::Response {
    let wire = frame.to_bytes();
    let payload = wire.slice(4..);
    assert_eq!(wire[..4], (payload.len() as i32).to_be_bytes());
    assert_eq!(correlation_id(&payload), Ok(correlation));
    decode_response::<A>(version, &payload).unwrap()
}

fn topic_names() -> impl Strategy<Value = TopicName> {
    "[a-zA-Z0-9._-]{1,249}".prop_map(|name| TopicName::new(&name))
}

fn errors() -> impl Strategy<Value = KafkaError> {
    any::<i16>().prop_map(KafkaError)
}

fn states() -> impl Strategy<Value = Committed<LeaderAndIsr>> {
    let fields = (
        any::<i32>(),
        any::<i32>(),
        vec(any::<i32>(), 0..20),
        any::<bool>(),
        any::<i32>(),
    );
    fields.prop_map(|(leader, leader_epoch, isr, recovering, partition_epoch)| {
        let leader_recovery_state = match recovering {
            true => LeaderRecoveryState::Recovering,
            false => LeaderRecoveryState::Recovered,
        };
        let read = StateRead {
            leader_and_isr: LeaderAndIsr {
                leader: BrokerId(leader),
                leader_epoch: LeaderEpoch(leader_epoch),
                isr: isr.into_iter().map(BrokerId).collect(),
                leader_recovery_state,
            },
            controller_epoch: ControllerEpoch(1),
            partition_epoch: PartitionEpoch(partition_epoch),
        };
        read.into()
    })
}

fn references(version: i16) -> BoxedStrategy<TopicReference> {
    match version {
        ALTER_PARTITION_BY_ID.. => any::<[u8; 16]>()
            .prop_filter_map("reserved", TopicId::new)
            .prop_map(TopicReference::Id)
            .boxed(),
        _ => topic_names().prop_map(TopicReference::Name).boxed(),
    }
}

fn answers(version: i16) -> impl Strategy<Value = Vec<AlterPartitionAnswer>> {
    let result = prop_oneof![states().prop_map(Ok), errors().prop_map(Err)];
    let topic = (references(version), vec((any::<i32>(), result), 1..6));
    vec(topic, 0..6).prop_map(|topics| {
        let flat = topics.into_iter().flat_map(|(topic, partitions)| {
            partitions.into_iter().map(move |(partition, result)| {
                let topic = topic.clone();
                AlterPartitionAnswer {
                    topic,
                    partition,
                    result,
                }
            })
        });
        flat.collect()
    })
}

/// What a broker makes of an AlterPartition answer.
fn as_the_broker_sees_it(version: i16, response: &AlterPartitionResponse) -> Vec<Seen> {
    let topics = response.topics.iter().flat_map(|topic| {
        let name = match version {
            ALTER_PARTITION_BY_ID.. => {
                assert!(topic.topic_name.is_empty());
                TopicReference::Id(TopicId::new(topic.topic_id.into_bytes()).unwrap())
            }
            _ => TopicReference::Name(TopicName::new(&topic.topic_name)),
        };
        topic.partitions.iter().map(move |partition| {
            let said = (partition.error_code == 0).then(|| {
                let isr = partition.isr.iter().map(|id| id.0).collect();
                (
                    partition.leader_id.0,
                    partition.leader_epoch,
                    isr,
                    partition.leader_recovery_state,
                    partition.partition_epoch,
                )
            });
            (
                name.clone(),
                partition.partition_index,
                partition.error_code,
                said,
            )
        })
    });
    topics.collect()
}

type Seen = (
    TopicReference,
    i32,
    i16,
    Option<(i32, i32, Vec<i32>, i8, i32)>,
);

fn as_the_controller_meant_it(version: i16, answer: &AlterPartitionAnswer) -> Seen {
    let (code, said) = match &answer.result {
        Ok(state) => {
            let recovering = state.leader_recovery_state == LeaderRecoveryState::Recovering;
            let recovering = i8::from(recovering && version > 0);
            let isr = state.isr.as_i32s().to_vec();
            let epoch = state.partition_epoch().0;
            (
                0,
                Some((state.leader.0, state.leader_epoch.0, isr, recovering, epoch)),
            )
        }
        // An error with code 0 would be a success without a state; no caller makes one.
        Err(error) => (error.0, None),
    };
    (answer.topic.clone(), answer.partition, code, said)
}

proptest! {
    #[test]
    fn a_broker_reads_what_remains_of_its_controlled_shutdown(
        version in 0_i16..=3,
        correlation in any::<i32>(),
        remaining in vec((topic_names(), any::<i32>()), 0..40),
    ) {
        let remaining: Vec<TopicPartition> = remaining
            .iter()
            .map(|(topic, partition)| TopicPartition::new(topic, *partition))
            .collect();
        let header = header::<ControlledShutdownRequest>(version, correlation);
        let frame = controlled_shutdown_response(&header, Ok(remaining.clone())).unwrap();
        let response = read::<ControlledShutdownRequest>(version, correlation, &frame);
        prop_assert_eq!(response.error_code, 0);
        let seen: Vec<TopicPartition> = response
            .remaining_partitions
            .iter()
            .map(|left| TopicPartition::new(&TopicName::new(&left.topic_name), left.partition_index))
            .collect();
        prop_assert_eq!(seen, remaining);
    }

    #[test]
    fn a_broker_reads_why_its_request_was_refused(
        version in 0_i16..=3,
        correlation in any::<i32>(),
        error in errors(),
    ) {
        let asked = header::<ControlledShutdownRequest>(version, correlation);
        let frame = controlled_shutdown_response(&asked, Err(error)).unwrap();
        let response = read::<ControlledShutdownRequest>(version, correlation, &frame);
        prop_assert_eq!(response, ControlledShutdownResponse::default().with_error_code(error.0));

        let asked = header::<messages::AlterPartitionRequest>(version, correlation);
        let frame = alter_partition_response(&asked, Err(error), Vec::new()).unwrap();
        let response = read::<messages::AlterPartitionRequest>(version, correlation, &frame);
        prop_assert_eq!(response, AlterPartitionResponse::default().with_error_code(error.0));

        let asked = header::<messages::AllocateProducerIdsRequest>(0, correlation);
        let frame = allocate_producer_ids_response(&asked, Err(error)).unwrap();
        let response = read::<messages::AllocateProducerIdsRequest>(0, correlation, &frame);
        prop_assert_eq!(response, AllocateProducerIdsResponse::default().with_error_code(error.0));
    }

    #[test]
    fn a_leader_reads_what_became_of_each_in_sync_set(
        (version, answers) in (0_i16..=3).prop_flat_map(|version| (Just(version), answers(version))),
        correlation in any::<i32>(),
    ) {
        let header = header::<messages::AlterPartitionRequest>(version, correlation);
        let answers: Vec<_> = answers
            .into_iter()
            .filter(|answer| answer.result != Err(KafkaError::NONE))
            .collect();
        let frame = alter_partition_response(&header, Ok(answers.clone()), Vec::new()).unwrap();
        let response = read::<messages::AlterPartitionRequest>(version, correlation, &frame);
        prop_assert_eq!((response.error_code, response.throttle_time_ms), (0, 0));
        let meant: Vec<Seen> = answers
            .iter()
            .map(|answer| as_the_controller_meant_it(version, answer))
            .collect();
        prop_assert_eq!(as_the_broker_sees_it(version, &response), meant);
    }

    #[test]
    fn a_broker_reads_the_block_of_producer_ids_that_it_got(
        correlation in any::<i32>(),
        first in 0..i64::MAX - 100_000,
        length in 1_i32..100_000,
    ) {
        let header = header::<messages::AllocateProducerIdsRequest>(0, correlation);
        let last = first + i64::from(length) - 1;
        let block = ProducerIdBlock { broker: BrokerId(1), first, last };
        let frame = allocate_producer_ids_response(&header, Ok(block)).unwrap();
        let response = read::<messages::AllocateProducerIdsRequest>(0, correlation, &frame);
        prop_assert_eq!((response.error_code, response.throttle_time_ms), (0, 0));
        prop_assert_eq!((response.producer_id_start.0, response.producer_id_len), (first, length));
    }

    #[test]
    fn a_client_reads_the_ranges_in_every_version_it_may_ask_in(
        version in any::<i16>(),
        near in -1_i16..=6,
        correlation in any::<i32>(),
        ranges in proptest::collection::btree_map(
            any::<i16>().prop_map(ApiKey), (any::<i16>(), any::<i16>()), 0..80),
    ) {
        for version in [version, near] {
            let asked = ApiVersionsRequest::default();
            let (mut header, payload) = received(version.clamp(0, 4), correlation, &asked);
            header.version = version;
            let frame = api_versions(&header, &payload, ranges.clone()).unwrap();
            let payload = frame.to_bytes().slice(4..);
            prop_assert_eq!(correlation_id(&payload), Ok(correlation));
            let response = decode_api_versions(version, &payload).unwrap();
            let listed: BTreeMap<ApiKey, (i16, i16)> = response
                .api_keys
                .iter()
                .map(|api| (ApiKey(api.api_key), (api.min_version, api.max_version)))
                .collect();
            if (0..=4).contains(&version) {
                prop_assert_eq!(listed, ranges.clone());
                prop_assert_eq!(response.error_code, 0);
            } else {
                prop_assert_eq!(listed, [(ApiKey::API_VERSIONS, (0, 4))].into());
                prop_assert_eq!(response.error_code, KafkaError::UNSUPPORTED_VERSION.0);
            }
            prop_assert!(!response.zk_migration_ready);
            prop_assert!(response.supported_features.is_empty());
            prop_assert!(response.finalized_features.is_empty());
            prop_assert_eq!(response.finalized_features_epoch, -1);
        }
    }
}

#[test]
fn the_registration_of_a_leaving_broker_is_known_from_version_2_on_unless_it_says_unknown() {
    let asked = ControlledShutdownRequest::default()
        .with_broker_id(messages::BrokerId(3))
        .with_broker_epoch(77);
    for version in 0..=3 {
        let (header, payload) = received(version, 1, &asked);
        let expected = (version >= 2).then_some(BrokerEpoch(77));
        let read = controlled_shutdown_request(&header, &payload).unwrap();
        assert_eq!(read, (BrokerId(3), expected), "v{version}");
    }
    let (header, payload) = received(3, 1, &asked.with_broker_epoch(-1));
    let read = controlled_shutdown_request(&header, &payload).unwrap();
    assert_eq!(read, (BrokerId(3), None));
}

fn asked_partition(version: i16) -> AskedPartition {
    let asked = AskedPartition::default()
        .with_partition_index(5)
        .with_leader_epoch(6)
        .with_partition_epoch(7)
        .with_leader_recovery_state(i8::from(version >= 1));
    match version {
        0..=2 => asked.with_new_isr(vec![messages::BrokerId(2), messages::BrokerId(1)]),
        _ => asked.with_new_isr_with_epochs(
            [2, 1]
                .map(|id| BrokerState::default().with_broker_id(messages::BrokerId(id)))
                .into(),
        ),
    }
}

fn asked_topic(version: i16, id: u128) -> AskedTopic {
    let topic = AskedTopic::default().with_partitions(vec![asked_partition(version)]);
    match version {
        0..=1 => topic.with_topic_name(topic_name(&TopicName::new("t"))),
        _ => topic.with_topic_id(Uuid::from_u128(id)),
    }
}

fn asked(topics: Vec<AskedTopic>) -> messages::AlterPartitionRequest {
    messages::AlterPartitionRequest::default()
        .with_broker_id(messages::BrokerId(2))
        .with_broker_epoch(9)
        .with_topics(topics)
}

#[test]
fn a_wish_for_another_in_sync_set_is_read_alike_in_all_versions() {
    for version in 0..=3 {
        let (header, payload) = received(version, 1, &asked(vec![asked_topic(version, 99)]));
        let read = alter_partition_request(&header, &payload).unwrap();
        let (topic, leader_recovery_state) = match version {
            0 => (
                TopicReference::Name(TopicName::new("t")),
                LeaderRecoveryState::Recovered,
            ),
            1 => (
                TopicReference::Name(TopicName::new("t")),
                LeaderRecoveryState::Recovering,
            ),
            _ => (
                TopicReference::Id(TopicId::new(99_u128.to_be_bytes()).unwrap()),
                LeaderRecoveryState::Recovering,
            ),
        };
        let item = AlterPartitionItem {
            topic,
            partition: 5,
            leader_epoch: LeaderEpoch(6),
            new_isr: BrokerIds::from([2, 1]),
            leader_recovery_state,
            partition_epoch: PartitionEpoch(7),
        };
        let from = Incarnation {
            broker: BrokerId(2),
            epoch: BrokerEpoch(9),
        };
        let partitions = vec![item];
        assert_eq!(
            read.request,
            AlterPartitionRequest {
                version,
                from,
                partitions
            }
        );
        assert!(read.unknown.is_empty());
    }
}

#[test]
fn a_reserved_topic_id_is_unknown_and_costs_the_other_topics_nothing() {
    let (header, payload) = received(2, 1, &asked(vec![asked_topic(2, 0), asked_topic(2, 99)]));
    let read = alter_partition_request(&header, &payload).unwrap();
    assert_eq!(read.request.partitions.len(), 1);
    let answer = AlterPartitionAnswer {
        topic: read.request.partitions[0].topic.clone(),
        partition: 5,
        result: Err(KafkaError::FENCED_LEADER_EPOCH),
    };
    let frame = alter_partition_response(&header, Ok(vec![answer]), read.unknown).unwrap();
    let response = self::read::<messages::AlterPartitionRequest>(2, 1, &frame);
    let codes: Vec<_> = response
        .topics
        .iter()
        .map(|topic| (topic.topic_id.as_u128(), topic.partitions[0].error_code))
        .collect();
    assert_eq!(codes, [(99, 74), (0, 100)]);
}

#[test]
fn a_recovery_state_that_nobody_knows_is_malformed() {
    let mut topic = asked_topic(1, 0);
    topic.partitions[0].leader_recovery_state = 2;
    let (header, payload) = received(1, 1, &asked(vec![topic]));
    let error = alter_partition_request(&header, &payload).unwrap_err();
    assert_eq!(
        error.to_string(),
        "AlterPartition request v1: malformed: 2 is no leader recovery state"
    );
}

#[test]
fn an_answer_that_the_version_cannot_carry_is_not_sent() {
    let answer = AlterPartitionAnswer {
        topic: TopicReference::Name(TopicName::new("t")),
        partition: 0,
        result: Err(KafkaError::NOT_CONTROLLER),
    };
    let header = header::<messages::AlterPartitionRequest>(2, 1);
    let error = alter_partition_response(&header, Ok(vec![answer]), Vec::new()).unwrap_err();
    assert!(matches!(error, CodecError::NotEncodable { .. }), "{error}");
    let header = self::header::<messages::AllocateProducerIdsRequest>(0, 1);
    let empty = ProducerIdBlock {
        broker: BrokerId(1),
        first: 1000,
        last: 999,
    };
    let error = allocate_producer_ids_response(&header, Ok(empty)).unwrap_err();
    assert!(matches!(error, CodecError::NotEncodable { .. }), "{error}");
}

#[test]
fn a_producer_without_a_transaction_may_ask_any_broker() {
    for version in 0..=5 {
        let idempotent = messages::InitProducerIdRequest::default().with_transactional_id(None);
        let (header, payload) = received(version, 1, &idempotent);
        assert_eq!(is_transactional(&header, &payload), Ok(false));
        let id = messages::TransactionalId(StrBytes::from_static_str("tx"));
        let (header, payload) = received(version, 1, &idempotent.with_transactional_id(Some(id)));
        assert_eq!(is_transactional(&header, &payload), Ok(true));
    }
}

#[test]
fn producer_ids_are_asked_for_by_an_incarnation() {
    let asked = messages::AllocateProducerIdsRequest::default()
        .with_broker_id(messages::BrokerId(4))
        .with_broker_epoch(8);
    let (header, payload) = received(0, 1, &asked);
    let from = allocate_producer_ids_request(&header, &payload).unwrap();
    assert_eq!((from.broker, from.epoch), (BrokerId(4), BrokerEpoch(8)));
}

#[test]
fn a_long_explanation_is_cut_between_two_characters() {
    let short = "why: é".to_owned();
    assert_eq!(explanation(short.clone()).as_str(), short);
    let just = "x".repeat(EXPLANATION_MAX);
    assert_eq!(explanation(just.clone()).as_str(), just);
    // Two bytes each, and the odd one in front: the limit falls within one.
    let long = format!("x{}", "é".repeat(40_000));
    let cut = explanation(long.clone());
    let kept = cut.strip_suffix('…').unwrap();
    assert!(long.starts_with(kept) && kept.len() == EXPLANATION_MAX - 1);
}
