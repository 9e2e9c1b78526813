//! Two things are held against kafka-protocol: that the guard and its decoder read the same layout, byte for byte, and
//! that nothing which passes the guard can hurt it. A hostile length that got through would abort the test process.

use super::*;
use crate::api_key::ApiKey;
use crate::request::Api;
use bytes::BytesMut;
use kafka_protocol::messages::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Decodes a body behind the guard and encodes it again.
fn transcode<A: Api>(message: Message, body: Bytes) -> Result<Bytes, CodecError> {
    transcode_guarded::<A>(check(message, body)?)
}

fn transcode_guarded<A: Api>(guarded: Guarded) -> Result<Bytes, CodecError> {
    let message = guarded.message;
    let mut target = BytesMut::new();
    match message.direction {
        Direction::Request => A::decode(guarded)?.encode(message.version, &mut target)?,
        Direction::Response => {
            A::encode_response(&A::decode_response(guarded)?, message.version, &mut target)?;
        }
    }
    Ok(target.freeze())
}

macro_rules! transcoders {
    ($($request:ident)*) => {
        /// [`transcode_guarded`] for any API.
        fn transcode_any_guarded(guarded: Guarded) -> Result<Bytes, CodecError> {
            let message = guarded.message;
            $(if message.key == <$request as Api>::KEY {
                return transcode_guarded::<$request>(guarded);
            })*
            panic!("{message} stands in the table and not here");
        }

        /// What kafka-protocol makes of a body, in its own words, which name every field.
        pub(crate) fn described(message: Message, body: Bytes) -> String {
            let guarded = check(message, body).unwrap();
            $(if message.key == <$request as Api>::KEY {
                return match message.direction {
                    Direction::Request => format!("{:?}", <$request as Api>::decode(guarded).unwrap()),
                    Direction::Response => format!("{:?}", <$request as Api>::decode_response(guarded).unwrap()),
                };
            })*
            panic!("{message} stands in the table and not here");
        }
    };
}

transcoders! {
    ProduceRequest FetchRequest ListOffsetsRequest MetadataRequest LeaderAndIsrRequest StopReplicaRequest
    UpdateMetadataRequest ControlledShutdownRequest OffsetCommitRequest OffsetFetchRequest
    FindCoordinatorRequest JoinGroupRequest HeartbeatRequest LeaveGroupRequest SyncGroupRequest
    DescribeGroupsRequest ListGroupsRequest SaslHandshakeRequest ApiVersionsRequest CreateTopicsRequest
    DeleteTopicsRequest DeleteRecordsRequest InitProducerIdRequest OffsetForLeaderEpochRequest
    AddPartitionsToTxnRequest AddOffsetsToTxnRequest EndTxnRequest WriteTxnMarkersRequest
    TxnOffsetCommitRequest DescribeConfigsRequest AlterConfigsRequest AlterReplicaLogDirsRequest
    DescribeLogDirsRequest SaslAuthenticateRequest CreatePartitionsRequest DeleteGroupsRequest
    ElectLeadersRequest IncrementalAlterConfigsRequest AlterPartitionReassignmentsRequest
    ListPartitionReassignmentsRequest OffsetDeleteRequest AlterUserScramCredentialsRequest
    AlterPartitionRequest UpdateFeaturesRequest DescribeClusterRequest DescribeProducersRequest
    DescribeTransactionsRequest ListTransactionsRequest AllocateProducerIdsRequest
    ConsumerGroupHeartbeatRequest ConsumerGroupDescribeRequest
}

/// [`transcode`] for any API.
fn transcode_any(message: Message, body: Bytes) -> Result<Bytes, CodecError> {
    transcode_any_guarded(check(message, body)?)
}

#[test]
fn every_valid_message_passes_and_comes_back_from_kafka_protocol_byte_for_byte() {
    for message in sample::messages() {
        for seed in 0..40 {
            let body = Bytes::from(sample::body(message, seed));
            let again = transcode_any(message, body.clone());
            assert_eq!(again, Ok(body), "{message}, seed {seed}");
        }
    }
}

/// Else the guard would refuse a message that its sender had every right to send.
#[test]
fn where_the_table_allows_no_null_kafka_protocol_allows_none_either() {
    for message in sample::messages() {
        for seed in 0..10 {
            for nth in 0.. {
                let Some(body) = sample::body_with_null(message, seed, nth) else {
                    break;
                };
                let body = Bytes::from(body);
                assert!(
                    matches!(check(message, body.clone()), Err(CodecError::Null { .. })),
                    "{message}"
                );
                let unguarded = transcode_any_guarded(Guarded { message, body });
                assert!(unguarded.is_err(), "{message}, seed {seed}, null {nth}");
            }
        }
    }
}

#[test]
fn the_table_has_the_versions_of_kafka_protocol() {
    for row in schema::all() {
        let key = kafka_protocol::messages::ApiKey::try_from(row.key.0).unwrap();
        let theirs = key.valid_versions();
        assert_eq!((row.min, row.max), (theirs.min, theirs.max), "{}", row.key);
        for version in row.min..=row.max {
            let flexible = version >= row.flexible;
            match row.direction {
                Direction::Request => {
                    assert_eq!(
                        flexible,
                        key.request_header_version(version) == 2,
                        "{} v{version}",
                        row.key
                    );
                }
                // ApiVersions answers under the oldest header whatever the body.
                Direction::Response if row.key == ApiKey::API_VERSIONS => {}
                Direction::Response => {
                    assert_eq!(
                        flexible,
                        key.response_header_version(version) == 1,
                        "{} v{version}",
                        row.key
                    );
                }
            }
        }
    }
}

/// What the array check relies on: each element of an array takes at least one byte.
#[test]
fn no_record_in_the_table_can_be_empty() {
    fn walk(record: &Record, range: std::ops::RangeInclusive<i16>, flexible: i16, name: &str) {
        for version in range.clone() {
            let present = record
                .fields
                .iter()
                .any(|f| (f.from..=f.to).contains(&version));
            // An array of such records is itself absent, so the range is that of the array's field.
            assert!(present || version >= flexible, "{name} v{version}");
        }
        let tags = record.tags.iter().map(|known| &known.field);
        for field in record.fields.iter().chain(tags) {
            let mut kind = &field.kind;
            while let Kind::Array(inner) | Kind::NullArray(inner) = kind {
                kind = inner;
            }
            if let Kind::Record(inner) | Kind::NullRecord(inner) = kind {
                let from = *range.start().max(&field.from);
                walk(
                    inner,
                    from..=*range.end().min(&field.to),
                    flexible,
                    field.name,
                );
            }
        }
    }
    for row in schema::all() {
        for field in row.body.fields {
            if let Kind::Array(Kind::Record(inner)) | Kind::NullArray(Kind::Record(inner)) =
                &field.kind
            {
                walk(
                    inner,
                    row.min.max(field.from)..=row.max.min(field.to),
                    row.flexible,
                    field.name,
                );
            }
        }
    }
}

/// Whatever passes the guard is decoded, but for text that is not UTF-8 and a tag before its time: those cost nothing.
fn decodes_or_errs(message: Message, body: Vec<u8>) -> Result<(), TestCaseError> {
    // A value that is decoded and cannot be encoded again is still decoded.
    if let Err(CodecError::Malformed { detail, .. }) = transcode_any(message, Bytes::from(body)) {
        prop_assert!(
            detail.contains("utf-8") || detail.contains("is not valid for version"),
            "{message}: {detail}"
        );
    }
    Ok(())
}

fn any_message() -> impl Strategy<Value = Message> {
    proptest::sample::select(sample::messages())
}

/// Bytes that make lengths: huge, negative, null, zero, and continued varints.
fn nasty() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![0x7f, 0xff, 0xff, 0xff]),
        Just(vec![0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x7f]),
        Just(vec![0x80, 0x80, 0x80, 0x80, 0x08]),
        Just(vec![0x00, 0x00, 0x00, 0x00]),
        Just(vec![0x00, 0x10, 0x00, 0x00]),
        vec(any::<u8>(), 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_decode_or_err(message in any_message(), body in vec(any::<u8>(), 0..120)) {
        decodes_or_errs(message, body)?;
    }

    #[test]
    fn overwritten_messages_decode_or_err(
        message in any_message(), seed: u64, spots in vec((any::<prop::sample::Index>(), nasty()), 1..4)
    ) {
        let mut body = sample::body(message, seed);
        for (at, bytes) in spots {
            let at = at.index(body.len() + 1);
            let end = body.len().min(at + bytes.len());
            body.splice(at..end, bytes);
        }
        decodes_or_errs(message, body)?;
    }

    #[test]
    fn lengthened_messages_decode_or_err(
        message in any_message(), seed: u64, at: prop::sample::Index, bytes in nasty()
    ) {
        let mut body = sample::body(message, seed);
        let at = at.index(body.len() + 1);
        body.splice(at..at, bytes);
        decodes_or_errs(message, body)?;
    }

    #[test]
    fn messages_cut_short_are_refused(message in any_message(), seed: u64, at: prop::sample::Index) {
        let body = sample::body(message, seed);
        prop_assume!(!body.is_empty());
        let cut = Bytes::copy_from_slice(&body[..at.index(body.len())]);
        prop_assert!(check(message, cut).is_err());
    }
}

fn refused(message: Message, body: &[u8]) -> CodecError {
    check(message, Bytes::copy_from_slice(body)).unwrap_err()
}

fn at(message: Message, field: &'static str, offset: usize) -> Place {
    Place {
        message,
        field,
        offset,
    }
}

#[test]
fn an_array_longer_than_the_bytes_is_refused_before_anything_is_allocated() {
    let message = Message::request(ApiKey::METADATA, 1);
    assert_eq!(
        refused(message, &[0x7f, 0xff, 0xff, 0xff, 0, 0]),
        CodecError::Short {
            at: at(message, "topics", 4),
            needed: 0x7fff_ffff,
            left: 2
        }
    );
    let message = Message::request(ApiKey::METADATA, 9);
    assert_eq!(
        refused(message, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        CodecError::Short {
            at: at(message, "topics", 5),
            needed: 0xffff_fffe,
            left: 1
        }
    );
}

#[test]
fn an_array_of_integers_is_measured_in_bytes() {
    let message = Message::request(ApiKey::STOP_REPLICA, 1);
    let mut body = vec![0; 17];
    body.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    let place = at(message, "partition_indexes", 28);
    assert_eq!(
        refused(message, &body),
        CodecError::Short {
            at: place,
            needed: 8,
            left: 7
        }
    );
}

#[test]
fn null_stands_only_where_it_may_and_other_negative_lengths_nowhere() {
    let message = Message::request(ApiKey::METADATA, 1);
    assert!(check(message, Bytes::from_static(&[0xff; 4])).is_ok());
    let place = at(message, "topics", 0);
    assert_eq!(
        refused(message, &[0xff, 0xff, 0xff, 0xfe]),
        CodecError::LengthNegative {
            at: place,
            length: -2
        }
    );
    let message = Message::request(ApiKey::DELETE_TOPICS, 1);
    let place = at(message, "topic_names", 0);
    assert_eq!(
        refused(message, &[0xff, 0xff, 0xff, 0xff]),
        CodecError::Null { at: place }
    );
}

#[test]
fn a_varint_of_more_than_32_bits_is_refused() {
    let message = Message::request(ApiKey::METADATA, 9);
    let place = at(message, "topics", 0);
    assert_eq!(
        refused(message, &[0xff, 0xff, 0xff, 0xff, 0x1f]),
        CodecError::Varint { at: place }
    );
}

#[test]
fn tagged_fields_must_rise_and_known_ones_be_as_long_as_they_say() {
    let message = Message::response(ApiKey::API_VERSIONS, 3);
    let body = |tags: &[u8]| [&[0, 0, 1, 0, 0, 0, 0], tags].concat();
    assert!(
        check(message, body(&[1, 3, 1, 1]).into()).is_ok(),
        "zk_migration_ready"
    );
    let place = at(message, "tagged fields", 12);
    assert_eq!(
        refused(message, &body(&[2, 9, 2, 0, 0, 3, 1, 1])),
        CodecError::TagOrder {
            at: place,
            tag: 3,
            previous: 9
        }
    );
    let place = at(message, "tagged fields", 8);
    assert_eq!(
        refused(message, &body(&[1, 3, 2, 1, 1])),
        CodecError::TagSize {
            at: place,
            tag: 3,
            announced: 2,
            taken: 1
        }
    );
}

/// kafka-protocol would take it, and encode it again as a message that ends too early.
#[test]
fn a_tag_that_is_no_positive_number_of_32_bits_is_refused() {
    let message = Message::request(ApiKey::ALLOCATE_PRODUCER_IDS, 0);
    let body = |tag: [u8; 5]| Bytes::from([&[0; 12], &[1][..], &tag, &[0]].concat());
    let greatest = body([0xff, 0xff, 0xff, 0xff, 0x07]);
    assert_eq!(
        transcode::<AllocateProducerIdsRequest>(message, greatest.clone()),
        Ok(greatest)
    );
    let beyond = body([0x80, 0x80, 0x80, 0x80, 0x08]);
    assert_eq!(
        check(message, beyond.clone()).unwrap_err(),
        CodecError::TagBeyond {
            at: at(message, "tagged fields", 13),
            tag: 1 << 31
        }
    );
    let body = beyond.clone();
    let unguarded = transcode_guarded::<AllocateProducerIdsRequest>(Guarded { message, body });
    assert_ne!(unguarded, Ok(beyond), "else there is nothing to refuse");
}

#[test]
fn bytes_after_the_end_are_refused() {
    let message = Message::request(ApiKey::API_VERSIONS, 0);
    assert_eq!(
        refused(message, &[1]),
        CodecError::TrailingBytes {
            message,
            offset: 0,
            left: 1
        }
    );
}

#[test]
fn text_that_is_not_utf8_is_refused_by_kafka_protocol() {
    let message = Message::request(ApiKey::SASL_HANDSHAKE, 0);
    let error =
        transcode::<SaslHandshakeRequest>(message, Bytes::from_static(&[0, 1, 0xff])).unwrap_err();
    assert!(matches!(error, CodecError::Malformed { .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("SaslHandshake request v0: malformed: "),
        "{error}"
    );
}

#[test]
fn what_is_not_in_the_table_cannot_be_decoded() {
    let message = Message::request(ApiKey::VOTE, 0);
    let error = CodecError::NoSchema {
        key: ApiKey::VOTE,
        direction: Direction::Request,
    };
    assert_eq!(refused(message, &[]), error);
    let message = Message::request(ApiKey::METADATA, 13);
    assert_eq!(
        refused(message, &[]),
        CodecError::UnsupportedVersion {
            message,
            min: 0,
            max: 12
        }
    );
    assert_eq!(
        versions(ApiKey::METADATA, Direction::Request),
        Some((0, 12))
    );
    assert_eq!(versions(ApiKey::VOTE, Direction::Request), None);
}

#[test]
fn memory_is_bounded_by_what_the_decoded_values_take() {
    let message = Message::request(ApiKey::METADATA, 9);
    let topic = size_of::<metadata_request::MetadataRequestTopic>() as u64;
    let body = [4, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    let walk = |limit| {
        let row = schema::find(ApiKey::METADATA, Direction::Request).unwrap();
        Walk::new(message, &body, true, limit, Unheard).record(&row.body)
    };
    assert_eq!(walk(3 * topic), Ok(()));
    let over = CodecError::TooManyElements {
        at: at(message, "topics", 1),
        needed: 3 * topic,
        limit: 3 * topic - 1,
    };
    assert_eq!(walk(3 * topic - 1), Err(over));
}

/// A frame of the size that the listener takes, all of it partitions of one topic.
#[test]
fn what_an_answer_says_of_each_thing_that_is_named_counts_as_memory() {
    let count = 12_000_000_i32;
    let names_only = |before: &[&[u8]]| {
        let mut body = before.concat();
        body.extend(count.to_be_bytes());
        body.resize(body.len() + 4 * count as usize, 0);
        body
    };
    let one = [0, 0, 0, 1];
    let topic = [&one[..], &[0, 1, b't']].concat();
    let marker = [&one[..], &[0; 8 + 2 + 1], &topic].concat();
    let table = [
        (ApiKey::ELECT_LEADERS, 0, names_only(&[&topic])),
        (
            ApiKey::OFFSET_FETCH,
            1,
            names_only(&[&[0, 1, b'g'], &topic]),
        ),
        (
            ApiKey::ADD_PARTITIONS_TO_TXN,
            0,
            names_only(&[&[0; 2 + 8 + 2], &topic]),
        ),
        (ApiKey::WRITE_TXN_MARKERS, 0, names_only(&[&marker])),
    ];
    for (key, version, body) in table {
        let refused = check(Message::request(key, version), Bytes::from(body)).map(drop);
        let is_too_much = matches!(refused, Err(CodecError::TooManyElements { .. }));
        assert!(is_too_much, "{key}: {refused:?}");
    }
    // All that a tool may mean at once passes.
    let mut body = topic.clone();
    body.extend(200_000_i32.to_be_bytes());
    body.resize(body.len() + 4 * 200_000 + 4, 0);
    let elections = Message::request(ApiKey::ELECT_LEADERS, 0);
    assert!(check(elections, Bytes::from(body)).is_ok());
    // Version 2 of OffsetFetch is answered with one code.
    let group = names_only(&[&[0, 1, b'g'], &topic]);
    assert!(
        check(
            Message::request(ApiKey::OFFSET_FETCH, 2),
            Bytes::from(group)
        )
        .is_ok()
    );
}

#[test]
fn unknown_tagged_fields_count_as_memory() {
    let tags = [2, 5, 0, 6, 0];
    let message = Message::request(ApiKey::METADATA, 9);
    let walk = |limit| {
        Walk::new(message, &tags, true, limit, Unheard).tags(&Record {
            size: 0,
            fields: &[],
            tags: &[],
        })
    };
    assert_eq!(walk(TAG_MAP_SIZE + TAG_ENTRY_SIZE), Ok(()));
    assert!(matches!(
        walk(TAG_MAP_SIZE),
        Err(CodecError::TooManyElements { .. })
    ));
}
