//! Any message of the guard's table as a tree of named values, to be shown to a person. Reads along the guard's own
//! walk, so that lengths are checked in one place, and what is refused there is refused here with the same words.
//! Never used to decide anything: whoever acts on a message decodes it. Upstream counterpart: the generated
//! `…JsonConverter` classes, by which Kafka's request log shows messages.

use crate::api_key::ApiKey;
use crate::error::{CodecError, Direction, Message};
use crate::guard::visit::Visitor;
use crate::guard::{self, schema::Kind};
use crate::request::{self, RequestHeader};
use crate::response;
use bytes::Bytes;
use std::str::Utf8Error;
use uuid::Uuid;

/// What one tree may take in memory, in bytes, beside the frame itself.
pub const MEMORY_LIMIT: u64 = 1024 * 1024 * 1024;

/// The name under which a record holds the tagged fields that the table doesn't know: a list of records with `tag` and
/// `bytes`.
pub const UNKNOWN_TAGGED_FIELDS: &str = "unknown_tagged_fields";

/// A value of a message. Field names are those of Kafka's message definitions, in snake case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uuid(Uuid),
    Text(String),
    Bytes(Bytes),
    List(Vec<Value>),
    /// In the order of the wire, tagged fields last.
    Record(Vec<(&'static str, Value)>),
}

impl Value {
    /// A field of a record, if this is one and its version has the field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Record(fields) => fields
                .iter()
                .find(|(field, _)| *field == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The fields of a record; none if it is something else.
    pub fn fields(&self) -> &[(&'static str, Value)] {
        match self {
            Value::Record(fields) => fields,
            _ => &[],
        }
    }

    /// The values of a list; none if it is something else, such as null.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The values of the list in a field of a record.
    pub fn list(&self, name: &str) -> &[Value] {
        self.get(name).map_or(&[], Value::items)
    }

    /// The number in a field of a record.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// The text in a field of a record.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The id in a field of a record.
    pub fn uuid(&self, name: &str) -> Option<Uuid> {
        match self.get(name) {
            Some(Value::Uuid(id)) => Some(*id),
            _ => None,
        }
    }

    /// Whether a field of a record holds true.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
}

/// Whether the messages of a key can be read, in one version at least.
pub fn knows(key: ApiKey) -> bool {
    guard::versions(key, Direction::Request).is_some()
}

/// Reads the body of a request whose header was read with [`request::parse_header`].
///
/// # Errors
/// [`CodecError::NoSchema`] and [`CodecError::UnsupportedVersion`] where the table ends; whatever else the guard says of
/// bytes that are no such message.
pub fn read_request(header: &RequestHeader, payload: &Bytes) -> Result<Value, CodecError> {
    read(header.message(), request::body(header, payload)?)
}

/// Reads the body of an answer (a frame without its length prefix) to a request of this key and version.
///
/// # Errors
/// As [`read_request`].
pub fn read_response(key: ApiKey, version: i16, payload: &Bytes) -> Result<Value, CodecError> {
    let body = |message| read(message, response::tagged_body(message, payload)?);
    match (key, response::error_code_in_front(payload)) {
        // A broker that doesn't know the version of the question answers in version 0, whatever it was.
        (ApiKey::API_VERSIONS, Some(response::UNSUPPORTED_VERSION)) => {
            body(Message::response(key, 0))
        }
        _ => body(Message::response(key, version)),
    }
}

fn read(message: Message, body: Bytes) -> Result<Value, CodecError> {
    let builder = Builder {
        body: body.clone(),
        open: Vec::new(),
        done: Value::Null,
    };
    Ok(guard::visit(message, &body, MEMORY_LIMIT, builder)?.done)
}

/// Builds the tree. `open` is what is begun and not ended, the outermost first; it is never deeper than the table.
struct Builder {
    body: Bytes,
    open: Vec<Open>,
    done: Value,
}

enum Open {
    Record {
        fields: Vec<(&'static str, Value)>,
        name: &'static str,
        unknown: Vec<Value>,
    },
    List(Vec<Value>),
}

impl Builder {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Record { fields, name, .. }) => fields.push((name, value)),
            Some(Open::List(items)) => items.push(value),
            None => self.done = value,
        }
    }
}

impl Visitor for Builder {
    const VALUE_SIZE: u64 = size_of::<Value>() as u64;
    const FIELD_SIZE: u64 = size_of::<(&str, Value)>() as u64;
    /// A record of two fields in a list.
    const TAG_SIZE: u64 = Self::VALUE_SIZE + 2 * Self::FIELD_SIZE;

    fn open_record(&mut self) {
        self.open.push(Open::Record {
            fields: Vec::new(),
            name: "",
            unknown: Vec::new(),
        });
    }

    fn field(&mut self, field: &'static str) {
        if let Some(Open::Record { name, .. }) = self.open.last_mut() {
            *name = field;
        }
    }

    fn unknown_tag(&mut self, tag: u32, bytes: &[u8]) {
        let bytes = self.body.slice_ref(bytes);
        if let Some(Open::Record { unknown, .. }) = self.open.last_mut() {
            unknown.push(Value::Record(vec![
                ("tag", Value::Int(tag.into())),
                ("bytes", Value::Bytes(bytes)),
            ]));
        }
    }

    fn close_record(&mut self) {
        if let Some(Open::Record {
            mut fields,
            unknown,
            ..
        }) = self.open.pop()
        {
            if !unknown.is_empty() {
                fields.push((UNKNOWN_TAGGED_FIELDS, Value::List(unknown)));
            }
            self.put(Value::Record(fields));
        }
    }

    fn open_list(&mut self, count: usize) {
        self.open.push(Open::List(Vec::with_capacity(count)));
    }

    fn close_list(&mut self) {
        if let Some(Open::List(items)) = self.open.pop() {
            self.put(Value::List(items));
        }
    }

    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn fixed(&mut self, kind: &Kind, bytes: &[u8]) {
        self.put(match (kind, bytes) {
            (Kind::Uuid, bytes) => Value::Uuid(Uuid::from_slice(bytes).unwrap_or_default()),
            (Kind::Bool, bytes) => Value::Bool(bytes != [0]),
            (_, bytes) => Value::Int(signed(bytes)),
        });
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Utf8Error> {
        let text = std::str::from_utf8(bytes)?;
        self.put(Value::Text(text.to_owned()));
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let bytes = self.body.slice_ref(bytes);
        self.put(Value::Bytes(bytes));
    }
}

/// One to eight bytes, big-endian, with a sign.
fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|first| *first >= 0x80);
    bytes
        .iter()
        .fold(if negative { -1 } else { 0 }, |number, byte| {
            (number << 8) | i64::from(*byte)
        })
}

#[cfg(test)]
mod tests;
