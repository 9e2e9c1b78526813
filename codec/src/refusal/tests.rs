//! Every refusal in every version, read back as the client would read it.

use super::*;
use crate::error::{Direction, Message};
use crate::guard::sample;
use crate::request::{encode_request, parse_header};
use crate::response::{correlation_id, decode_response};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTransaction;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};

const KNOWN_ID: [u8; 16] = [1; 16];

fn code_of(topic: Topic<'_>) -> i16 {
    match topic {
        Topic::Name("known") => NOT_LEADER_OR_FOLLOWER,
        Topic::Name(_) => UNKNOWN_TOPIC_OR_PARTITION,
        Topic::Id(KNOWN_ID) => NOT_LEADER_OR_FOLLOWER,
        Topic::Id(_) => UNKNOWN_TOPIC_ID,
    }
}

fn refuse_payload(payload: &Bytes) -> Answer {
    let refusal = Refusal {
        topic: &code_of,
        coordinator: NOT_COORDINATOR,
    };
    refuse(&parse_header(payload).unwrap(), payload, &refusal).unwrap()
}

fn refuse_request<A: Api>(version: i16, request: &A) -> Answer {
    refuse_payload(
        &encode_request(version, 42, Some("c"), request)
            .unwrap()
            .to_bytes()
            .slice(4..),
    )
}

fn response<A: Api>(version: i16, request: &A) -> A::Response {
    match refuse_request(version, request) {
        Answer::Reply(frame) => {
            let payload = frame.to_bytes().slice(4..);
            assert_eq!(correlation_id(&payload), Ok(42));
            decode_response::<A>(version, &payload).unwrap()
        }
        Answer::Close => panic!("closed"),
    }
}

fn name(text: &'static str) -> TopicName {
    StrBytes::from_static_str(text).into()
}

fn group(text: &'static str) -> GroupId {
    StrBytes::from_static_str(text).into()
}

/// Whatever a client may send of these APIs gets an answer that its version can carry.
#[test]
fn every_request_of_every_version_can_be_refused() {
    let requests = sample::messages().into_iter();
    let requests = requests.filter(|m| m.direction == Direction::Request && can_refuse(m.key));
    let mut apis = std::collections::BTreeSet::new();
    for message in requests {
        apis.insert(message.key);
        for seed in 0..20 {
            let mut payload = header(message);
            payload.extend(sample::body(message, seed));
            let payload = Bytes::from(payload);
            if let Answer::Reply(frame) = refuse_payload(&payload) {
                let bytes = frame.to_bytes().slice(4..);
                assert_eq!(correlation_id(&bytes), Ok(42), "{message}");
            }
        }
    }
    assert_eq!(apis.len(), 28);
}

/// By hand, since the sample has a body only.
fn header(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(message.key.0.to_be_bytes());
    bytes.extend(message.version.to_be_bytes());
    bytes.extend(42i32.to_be_bytes());
    bytes.extend([0, 1, b'c']);
    if crate::guard::is_flexible(message).unwrap() {
        bytes.push(0);
    }
    bytes
}

fn produce_to(topics: &[&'static str], acks: i16) -> ProduceRequest {
    let topics = topics.iter().map(|topic| {
        TopicProduceData::default()
            .with_name(name(topic))
            .with_partition_data(vec![PartitionProduceData::default().with_index(4)])
    });
    ProduceRequest::default()
        .with_acks(acks)
        .with_topic_data(topics.collect())
}

#[test]
fn a_producer_is_sent_to_the_leader_or_told_that_there_is_no_such_topic() {
    for version in 0..=11 {
        let response = response(version, &produce_to(&["known", "unknown"], -1));
        let codes: Vec<_> = response
            .responses
            .iter()
            .flat_map(|t| {
                t.partition_responses
                    .iter()
                    .map(|p| (t.name.as_str(), p.index, p.error_code, p.base_offset))
            })
            .collect();
        assert_eq!(
            codes,
            [("known", 4, 6, -1), ("unknown", 4, 3, -1)],
            "v{version}"
        );
    }
}

#[test]
fn a_producer_that_waits_for_no_answer_is_disconnected() {
    assert_eq!(refuse_request(9, &produce_to(&["known"], 0)), Answer::Close);
}

fn fetch_of(topics: Vec<FetchTopic>) -> FetchRequest {
    FetchRequest::default().with_topics(topics)
}

#[test]
fn a_consumer_is_sent_to_the_leader_by_name_or_by_topic_id() {
    let topic = |text, id| {
        FetchTopic::default()
            .with_topic(name(text))
            .with_topic_id(uuid::Uuid::from_bytes(id))
            .with_partitions(vec![FetchPartition::default().with_partition(2)])
    };
    let request = fetch_of(vec![topic("known", KNOWN_ID), topic("unknown", [2; 16])]);
    for version in 0..=17 {
        let response = response(version, &request);
        let codes: Vec<_> = response
            .responses
            .iter()
            .map(|t| t.partitions[0].error_code)
            .collect();
        assert_eq!(
            codes,
            if version < 13 { [6, 3] } else { [6, 100] },
            "v{version}"
        );
        assert_eq!(
            (
                response.session_id,
                response.responses[0].partitions[0].high_watermark
            ),
            (0, -1)
        );
    }
}

#[test]
fn a_fetch_session_that_we_never_gave_out_is_unknown() {
    let request = fetch_of(vec![]).with_session_id(7).with_session_epoch(1);
    for version in 7..=17 {
        assert_eq!(
            response(version, &request).error_code,
            FETCH_SESSION_ID_NOT_FOUND
        );
    }
}

#[test]
fn offsets_of_a_group_are_refused_where_each_version_looks_for_the_error() {
    let topic = OffsetFetchRequestTopic::default()
        .with_name(name("t"))
        .with_partition_indexes(vec![1]);
    for version in 0..=7 {
        let request = OffsetFetchRequest::default()
            .with_group_id(group("g"))
            .with_topics(Some(vec![topic.clone()]));
        let response = response(version, &request);
        match version {
            0 | 1 => assert_eq!(response.topics[0].partitions[0].error_code, 16),
            _ => assert_eq!(response.error_code, 16),
        }
    }
    let groups = ["a", "b"].map(|id| OffsetFetchRequestGroup::default().with_group_id(group(id)));
    for version in 8..=9 {
        // The crate's default for `topics` is an empty list, which only versions before 8 have.
        let request = OffsetFetchRequest::default().with_groups(groups.to_vec());
        let refused = response(version, &request).groups;
        let refused: Vec<_> = refused
            .iter()
            .map(|g| (g.group_id.as_str(), g.error_code))
            .collect();
        assert_eq!(refused, [("a", 16), ("b", 16)]);
    }
}

#[test]
fn a_member_that_joins_is_sent_to_the_coordinator() {
    for version in 0..=9 {
        let response = response(
            version,
            &JoinGroupRequest::default().with_group_id(group("g")),
        );
        assert_eq!((response.error_code, response.generation_id), (16, -1));
        assert_eq!(
            response.protocol_name.is_none(),
            version >= 7,
            "null from version 7 on, as in Java"
        );
    }
}

#[test]
fn each_described_group_has_its_error() {
    let request = DescribeGroupsRequest::default().with_groups(vec![group("a"), group("b")]);
    for version in 0..=5 {
        let groups = response(version, &request).groups;
        let groups: Vec<_> = groups
            .iter()
            .map(|g| (g.group_id.as_str(), g.error_code))
            .collect();
        assert_eq!(groups, [("a", 16), ("b", 16)]);
    }
}

#[test]
fn a_transaction_is_refused_by_partition_in_the_old_form_and_in_the_batched_one() {
    let topic = AddPartitionsToTxnTopic::default()
        .with_name(name("t"))
        .with_partitions(vec![1, 2]);
    let old = AddPartitionsToTxnRequest::default().with_v3_and_below_topics(vec![topic.clone()]);
    for version in 0..=3 {
        let response = response(version, &old);
        let results = &response.results_by_topic_v3_and_below[0].results_by_partition;
        assert!(results.iter().all(|r| r.partition_error_code == 16) && results.len() == 2);
    }
    let transaction = AddPartitionsToTxnTransaction::default().with_topics(vec![topic]);
    let batched = AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
    for version in 4..=5 {
        let response = response(version, &batched);
        let results = &response.results_by_transaction[0].topic_results[0].results_by_partition;
        assert!(results.iter().all(|r| r.partition_error_code == 16) && results.len() == 2);
    }
}

#[test]
fn what_is_asked_of_every_node_gets_an_empty_answer_without_an_error() {
    let groups = response(4, &ListGroupsRequest::default());
    assert_eq!((groups.error_code, groups.groups.len()), (0, 0));
    let transactions = response(0, &ListTransactionsRequest::default());
    assert_eq!(
        (
            transactions.error_code,
            transactions.transaction_states.len()
        ),
        (0, 0)
    );
    for version in 0..=4 {
        let dirs = response(version, &DescribeLogDirsRequest::default()).results;
        assert_eq!(
            (dirs.len(), dirs[0].error_code, dirs[0].topics.len()),
            (1, 0, 0)
        );
        assert!(!dirs[0].log_dir.is_empty());
    }
}

#[test]
fn what_has_no_refusal_says_so() {
    let payload = encode_request(1, 1, None, &MetadataRequest::default())
        .unwrap()
        .to_bytes()
        .slice(4..);
    let refusal = Refusal {
        topic: &code_of,
        coordinator: NOT_COORDINATOR,
    };
    let error = refuse(&parse_header(&payload).unwrap(), &payload, &refusal).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Metadata is not refused: it is answered, or the connection closed"
    );
}
