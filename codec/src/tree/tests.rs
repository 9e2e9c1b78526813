//! Two things are held against the wire and against kafka-protocol: that a tree holds all that was said (it can be
//! written back, byte for byte), and that it says it under the names and with the values of kafka-protocol's decoder.

use super::*;
use crate::guard::schema::{self, Record};
use crate::guard::{check, sample, tests::described};
use crate::request::{encode_request, parse_header};
use bytes::BytesMut;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, ControlledShutdownRequest, ControlledShutdownResponse,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Writes a tree back, by the table.
struct Scribe {
    version: i16,
    flexible: bool,
    bytes: Vec<u8>,
}

impl Scribe {
    fn message(message: Message, tree: &Value) -> Vec<u8> {
        let row = schema::find(message.key, message.direction).unwrap();
        let mut scribe = Scribe {
            version: message.version,
            flexible: message.version >= row.flexible,
            bytes: Vec::new(),
        };
        scribe.record(&row.body, tree);
        scribe.bytes
    }

    fn record(&mut self, record: &'static Record, tree: &Value) {
        for field in record.fields {
            if (field.from..=field.to).contains(&self.version) {
                self.value(&field.kind, tree.get(field.name).expect(field.name));
            }
        }
        if !self.flexible {
            return;
        }
        let mut tags = Vec::new();
        for known in record.tags {
            if let Some(value) = tree.get(known.field.name) {
                let before = std::mem::take(&mut self.bytes);
                self.value(&known.field.kind, value);
                tags.push((known.tag, std::mem::replace(&mut self.bytes, before)));
            }
        }
        for unknown in tree.list(UNKNOWN_TAGGED_FIELDS) {
            let Some(Value::Bytes(bytes)) = unknown.get("bytes") else {
                panic!("{unknown:?}")
            };
            tags.push((unknown.int("tag").unwrap() as u32, bytes.to_vec()));
        }
        tags.sort();
        self.varint(tags.len() as u32);
        for (tag, bytes) in tags {
            self.varint(tag);
            self.varint(bytes.len() as u32);
            self.bytes.extend(bytes);
        }
    }

    fn value(&mut self, kind: &'static Kind, tree: &Value) {
        match (kind, tree) {
            (Kind::Bool, Value::Bool(value)) => self.bytes.push(u8::from(*value)),
            (Kind::I8, Value::Int(number)) => self.bytes.push(*number as u8),
            (Kind::I16, Value::Int(number)) => self.bytes.extend((*number as i16).to_be_bytes()),
            (Kind::I32, Value::Int(number)) => self.bytes.extend((*number as i32).to_be_bytes()),
            (Kind::I64, Value::Int(number)) => self.bytes.extend(number.to_be_bytes()),
            (Kind::Uuid, Value::Uuid(id)) => self.bytes.extend(id.as_bytes()),
            (Kind::NullRecord(_), Value::Null) => self.bytes.push(0xff),
            (Kind::NullRecord(record), tree) => {
                self.bytes.push(1);
                self.record(record, tree);
            }
            (Kind::Record(record), tree) => self.record(record, tree),
            (kind, tree) => self.counted(kind, tree),
        }
    }

    fn counted(&mut self, kind: &'static Kind, tree: &Value) {
        let length = match tree {
            Value::Null => None,
            Value::Text(text) => Some(text.len()),
            Value::Bytes(bytes) => Some(bytes.len()),
            Value::List(items) => Some(items.len()),
            other => panic!("{kind:?}: {other:?}"),
        };
        let on_wire = length.map_or(-1, |length| length as i32);
        match kind {
            _ if self.flexible => self.varint((on_wire + 1) as u32),
            Kind::String | Kind::NullString => self.bytes.extend((on_wire as i16).to_be_bytes()),
            _ => self.bytes.extend(on_wire.to_be_bytes()),
        }
        match (kind, tree) {
            (_, Value::Text(text)) => self.bytes.extend(text.as_bytes()),
            (_, Value::Bytes(bytes)) => self.bytes.extend(bytes),
            (Kind::Array(element) | Kind::NullArray(element), Value::List(items)) => {
                items.iter().for_each(|item| self.value(element, item));
            }
            _ => {}
        }
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[test]
fn a_tree_holds_every_byte_of_every_message() {
    for message in sample::messages() {
        for seed in 0..20 {
            let body = sample::body(message, seed);
            let tree = read(message, Bytes::from(body.clone())).unwrap();
            assert_eq!(Scribe::message(message, &tree), body, "{message}: {tree:?}");
        }
    }
}

/// kafka-protocol's words for a number or a text in a field, wrapped in a type of its own or not.
fn is_said(description: &str, name: &str, value: &Value) -> bool {
    let said = match value {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Bool(value) => value.to_string(),
        Value::Uuid(id) => id.to_string(),
        _ => String::new(),
    };
    let field = format!("{name}: ");
    description.match_indices(&field).any(|(at, _)| {
        let rest = &description[at + field.len()..];
        let rest = rest.strip_prefix("Some(").unwrap_or(rest);
        let inner = rest.split_once('(').filter(|(wrapper, _)| {
            wrapper.chars().all(char::is_alphanumeric) && !wrapper.is_empty()
        });
        rest.starts_with(&said) || inner.is_some_and(|(_, inner)| inner.starts_with(&said))
    })
}

fn assert_said(message: Message, description: &str, tree: &Value) {
    for (name, value) in tree.fields() {
        if *name != UNKNOWN_TAGGED_FIELDS {
            let is_said = is_said(description, name, value);
            assert!(is_said, "{message}: {name} {value:?}\n{description}");
            assert_said(message, description, value);
        }
    }
    for item in tree.items() {
        assert_said(message, description, item);
    }
}

#[test]
fn a_tree_has_the_names_and_values_of_kafka_protocols_decoder() {
    for message in sample::messages() {
        for seed in 0..4 {
            let body = Bytes::from(sample::body(message, seed));
            let description = described(message, body.clone());
            assert_said(message, &description, &read(message, body).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_the_guard_refuses_is_refused_alike_and_what_it_passes_is_shown(
        message in proptest::sample::select(sample::messages()), seed: u64,
        at: prop::sample::Index, bytes in vec(any::<u8>(), 0..6)
    ) {
        let mut body = sample::body(message, seed);
        let at = at.index(body.len() + 1);
        let end = body.len().min(at + bytes.len());
        body.splice(at..end, bytes);
        let body = Bytes::from(body);
        match (check(message, body.clone()), read(message, body)) {
            (Err(guard), Err(tree)) if guard == tree => {}
            // Whether text is text, the guard leaves to kafka-protocol.
            (_, Err(CodecError::NotUtf8 { .. })) => {}
            (Ok(_), Ok(_)) => {}
            (guard, tree) => panic!("{message}: {guard:?}, {tree:?}"),
        }
    }
}

#[test]
fn a_request_is_read_behind_whatever_header_it_has() {
    let sent = ControlledShutdownRequest::default()
        .with_broker_id(7.into())
        .with_broker_epoch(99);
    for (version, epoch) in [(0, None), (1, None), (2, Some(99)), (3, Some(99))] {
        let frame = encode_request(version, 5, Some("broker-7"), &sent).unwrap();
        let payload = frame.to_bytes().slice(4..);
        let tree = read_request(&parse_header(&payload).unwrap(), &payload).unwrap();
        assert_eq!(
            (tree.int("broker_id"), tree.int("broker_epoch")),
            (Some(7), epoch)
        );
    }
}

#[test]
fn an_answer_is_read_behind_whatever_header_it_has() {
    let sent = ControlledShutdownResponse::default().with_error_code(11);
    for version in 0..=3 {
        let frame = response::encode_response::<ControlledShutdownRequest>(version, 5, &sent);
        let payload = frame.unwrap().to_bytes().slice(4..);
        let tree = read_response(ApiKey::CONTROLLED_SHUTDOWN, version, &payload).unwrap();
        assert_eq!(tree.int("error_code"), Some(11), "v{version}");
    }
}

#[test]
fn an_older_brokers_answer_to_a_newer_api_versions_request_is_shown() {
    let keys = vec![ApiVersion::default().with_api_key(18).with_max_version(2)];
    let answer = ApiVersionsResponse::default()
        .with_error_code(35)
        .with_api_keys(keys);
    let frame = response::encode_response::<ApiVersionsRequest>(0, 1, &answer).unwrap();
    let payload = frame.to_bytes().slice(4..);
    let tree = read_response(ApiKey::API_VERSIONS, 4, &payload).unwrap();
    assert_eq!(tree.int("error_code"), Some(35));
    assert_eq!(tree.list("api_keys")[0].int("max_version"), Some(2));
    assert_eq!(tree.get("throttle_time_ms"), None);
}

#[test]
fn tagged_fields_that_the_table_lacks_are_shown_by_number_and_bytes() {
    let message = Message::request(ApiKey::CONTROLLED_SHUTDOWN, 3);
    let body = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 1, 5, 2, 0xaa, 0xbb];
    let tree = read(message, Bytes::copy_from_slice(&body)).unwrap();
    let unknown = &tree.list(UNKNOWN_TAGGED_FIELDS)[0];
    assert_eq!(unknown.int("tag"), Some(5));
    assert_eq!(
        unknown.get("bytes"),
        Some(&Value::Bytes(Bytes::from_static(&[0xaa, 0xbb])))
    );
}

#[test]
fn keys_and_versions_beyond_the_table_say_so() {
    let header = |bytes: &'static [u8]| {
        let payload = Bytes::from_static(bytes);
        read_request(&parse_header(&payload).unwrap(), &payload).unwrap_err()
    };
    assert_eq!(
        header(&[0, 52, 0, 0, 0, 0, 0, 1, 255, 255]).to_string(),
        "Vote requests cannot be decoded here"
    );
    assert_eq!(
        header(&[0, 4, 0, 9, 0, 0, 0, 1, 255, 255]).to_string(),
        "LeaderAndIsr request v9: only versions 0 to 7 can be decoded here"
    );
    assert!(knows(ApiKey::LEADER_AND_ISR) && !knows(ApiKey::VOTE));
}

#[test]
fn numbers_keep_their_sign_in_every_width() {
    for (bytes, number) in [
        (&[0xff][..], -1),
        (&[0x7f], 127),
        (&[0xff, 0xfe], -2),
        (&[0x80, 0, 0, 0], i64::from(i32::MIN)),
        (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], i64::MAX),
        (&[0x80, 0, 0, 0, 0, 0, 0, 0], i64::MIN),
    ] {
        assert_eq!(signed(bytes), number);
    }
}

#[test]
fn a_tree_takes_no_more_memory_than_it_may() {
    // 25 million numbers in 100 MB: the tree of that would take a gigabyte.
    let mut body = BytesMut::new();
    body.extend_from_slice(&[0; 17]);
    body.extend_from_slice(&[0, 0, 0, 1, 0, 1, b't']);
    let count = MEMORY_LIMIT / size_of::<Value>() as u64;
    body.extend_from_slice(&(count as u32).to_be_bytes());
    body.resize(body.len() + 4 * count as usize, 0);
    let refused = read(Message::request(ApiKey::STOP_REPLICA, 1), body.freeze()).unwrap_err();
    assert!(
        matches!(refused, CodecError::TooManyElements { .. }),
        "{refused}"
    );
}
