//! The JSON of every kind of entry, as a program reads it.

use klamm_codec::bytes::Bytes;
use klamm_codec::capture::{Entry, Fault};
use klamm_codec::messages::leader_and_isr_request::{
    LeaderAndIsrPartitionState, LeaderAndIsrTopicState,
};
use klamm_codec::messages::{
    BrokerId, ControlledShutdownRequest, LeaderAndIsrRequest, LeaderAndIsrResponse,
    SaslAuthenticateRequest, StopReplicaRequest, StopReplicaResponse, TopicName,
};
use klamm_codec::request::parse_header;
use klamm_codec::response::encode_response;
use klamm_codec::{ApiKey, CodecError, Direction, StrBytes, Uuid};
use serde_json::Value as Json;

use super::*;
use crate::decode::sample::{ASKED, answered, captured, entry, unanswered};

fn line_of(entry: &Entry) -> String {
    line(&Exchange::read(entry, None)).unwrap()
}

fn read(entry: &Entry) -> Json {
    serde_json::from_str(&line_of(entry)).unwrap()
}

fn stop_replica() -> StopReplicaRequest {
    StopReplicaRequest::default()
        .with_controller_id(BrokerId(900))
        .with_controller_epoch(12)
        .with_delete_partitions(true)
}

#[test]
fn a_request_stands_beside_its_answer_with_every_field_in_its_place() {
    let answer = StopReplicaResponse::default().with_error_code(11);
    let expected = concat!(
        r#"{"what":"request","time":"2026-11-29T23:47:46.595012345Z","client":"10.0.0.9:41022","server":"10.0.0.1:9092","#,
        r#""from":null,"api":"StopReplica","key":5,"version":0,"correlation_id":17,"client_id":"900","latency_us":3214,"#,
        r#""request_bytes":26,"request":{"controller_id":900,"controller_epoch":12,"delete_partitions":true,"#,
        r#""ungrouped_partitions":[]},"response_bytes":10,"response":{"error_code":11,"partition_errors":[]},"#,
        r#""missing_bytes":null,"offset":512,"remark":null,"error":null}"#,
    );
    assert_eq!(line_of(&answered(0, &stop_replica(), &answer)), expected);
}

#[test]
fn a_request_without_its_answer_has_null_there() {
    let mut entry = unanswered(0, &stop_replica());
    entry.remark = Some("step 3".to_owned());
    let json = read(&entry);
    assert_eq!(json["what"], "request");
    assert_eq!(json["remark"], "step 3");
    for field in ["response", "response_bytes", "latency_us", "error"] {
        assert_eq!(json[field], Json::Null, "{field}");
    }
}

#[test]
fn partitions_and_topic_ids_are_nested_as_kafka_nests_them() {
    let partition = LeaderAndIsrPartitionState::default()
        .with_partition_index(3)
        .with_leader(BrokerId(2))
        .with_isr(vec![BrokerId(2), BrokerId(3)])
        .with_is_new(true);
    let topic = LeaderAndIsrTopicState::default()
        .with_topic_name(TopicName(StrBytes::from_static_str("orders")))
        .with_topic_id(Uuid::from_u128(7))
        .with_partition_states(vec![partition]);
    let request = LeaderAndIsrRequest::default().with_topic_states(vec![topic]);
    let json = read(&answered(7, &request, &LeaderAndIsrResponse::default()));
    let topic = &json["request"]["topic_states"][0];
    assert_eq!(topic["topic_id"], "AAAAAAAAAAAAAAAAAAAABw");
    assert_eq!(topic["topic_name"], "orders");
    let partition = &topic["partition_states"][0];
    assert_eq!(partition["isr"], serde_json::json!([2, 3]));
    assert_eq!(partition["is_new"], true);
    assert_eq!(partition["adding_replicas"], serde_json::json!([]));
}

#[test]
fn passwords_are_not_in_it() {
    let request =
        SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"\0alice\0wonder"));
    let json = read(&unanswered(1, &request));
    assert_eq!(json["request"]["auth_bytes"], "withheld, 13 bytes");
}

#[test]
fn what_is_broken_or_missing_says_what_is_wrong_and_where() {
    let broken = entry(What::Broken {
        at: Some(Timestamp(ASKED)),
        offset: 4711,
        direction: Direction::Response,
        reason: Fault::Length(CodecError::FrameLengthNegative { length: -5 }),
    });
    let json = read(&broken);
    assert_eq!(json["what"], "broken");
    assert_eq!(json["from"], "server");
    assert_eq!(json["offset"], 4711);
    assert_eq!(
        json["error"],
        "no frame begins here: a frame announces a length of -5"
    );
    let gap = entry(What::Gap {
        at: None,
        offset: 4711,
        direction: Direction::Request,
        missing_bytes: 1448,
    });
    let json = read(&gap);
    assert_eq!(
        (&json["what"], &json["from"]),
        (&"gap".into(), &"client".into())
    );
    assert_eq!(
        (&json["missing_bytes"], &json["time"]),
        (&1448.into(), &Json::Null)
    );
}

#[test]
fn a_body_that_cannot_be_read_costs_only_itself() {
    let mut answer = unanswered(1, &ControlledShutdownRequest::default());
    if let What::Request { answer, .. } = &mut answer.what {
        *answer = Some(captured(
            klamm_codec::Frame::around(Bytes::from_static(&[0, 0, 0, 17, 0])).unwrap(),
            ASKED,
            640,
        ));
    }
    let json = read(&answer);
    assert_eq!(json["request"]["broker_id"], 0);
    assert_eq!(json["response"], Json::Null);
    assert_eq!(
        json["error"],
        "response: ControlledShutdown response v1, error_code at byte 0: 2 bytes are needed and 1 are left"
    );
}

#[test]
fn unknown_keys_have_their_number_and_no_name() {
    let payload = Bytes::from_static(&[3, 231, 0, 1, 0, 0, 0, 9, 255, 255]);
    let header = parse_header(&payload).unwrap();
    let request = Captured {
        at: None,
        offset: 0,
        payload,
    };
    let json = read(&entry(What::Request {
        header,
        request,
        answer: None,
    }));
    assert_eq!((&json["api"], &json["key"]), (&Json::Null, &999.into()));
    assert_eq!(
        json["error"],
        "request: API key 999 requests cannot be decoded here"
    );
}

#[test]
fn an_answer_alone_is_read_if_the_user_knows_what_it_is() {
    let answer = StopReplicaResponse::default().with_error_code(11);
    let frame = encode_response::<StopReplicaRequest>(1, 17, &answer).unwrap();
    let answer = entry(What::Answer {
        answer: captured(frame, ASKED, 640),
    });
    let json = read(&answer);
    assert_eq!(
        (&json["what"], &json["correlation_id"]),
        (&"answer".into(), &17.into())
    );
    assert_eq!(
        (&json["api"], &json["response"]),
        (&Json::Null, &Json::Null)
    );
    let known = line(&Exchange::read(&answer, Some((ApiKey::STOP_REPLICA, 1)))).unwrap();
    let json: Json = serde_json::from_str(&known).unwrap();
    assert_eq!(json["api"], "StopReplica");
    assert_eq!(json["response"]["error_code"], 11);
}
