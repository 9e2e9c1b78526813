//! One entry of a capture with its bodies read. What must not reach a screen or a ticket is taken out here, before
//! anything is rendered. Pure. Upstream counterpart: `RequestChannel.Request` as `RequestConvertToJson` sees it.

use std::collections::BTreeMap;

use klamm_codec::bytes::Bytes;
use klamm_codec::capture::{Captured, Entry, Fault, What};
use klamm_codec::tree::{self, Value};
use klamm_codec::{ApiKey, CodecError, Direction};

/// Why a body is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// Of a key or version that klamm has no layout of; nothing is wrong with it.
    Beyond(CodecError),
    /// Not a well-formed message of its key and version.
    Broken(CodecError),
    /// An answer alone doesn't say what it answers.
    Unasked,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unread::Beyond(error) | Unread::Broken(error) => error.fmt(f),
            Unread::Unasked => {
                f.write_str("its request, which tells how to read it, is not in the capture")
            }
        }
    }
}

/// A body, or why there is none.
pub type Reading = Result<Value, Unread>;

/// An entry, its bodies read.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub entry: &'a Entry,
    /// Which API this is about, and in which version, if that is known.
    pub api: Option<(ApiKey, i16)>,
    pub request: Option<Reading>,
    pub answer: Option<Reading>,
}

impl<'a> Exchange<'a> {
    /// Reads the bodies of an entry. `answers_are`: what answers without a request are, if the user knows.
    pub fn read(entry: &'a Entry, answers_are: Option<(ApiKey, i16)>) -> Exchange<'a> {
        let (api, request, answer) = match &entry.what {
            What::Request {
                header,
                request,
                answer,
            } => (
                Some((header.key, header.version)),
                Some(told(tree::read_request(header, &request.payload))),
                answer
                    .as_ref()
                    .map(|answer| read_answer(header.key, header.version, &answer.payload)),
            ),
            What::Answer { answer } => {
                let reading = match answers_are {
                    Some((key, version)) => read_answer(key, version, &answer.payload),
                    None => Err(Unread::Unasked),
                };
                (answers_are, None, Some(reading))
            }
            What::Broken { .. } | What::Gap { .. } => (None, None, None),
        };
        Exchange {
            entry,
            api,
            request,
            answer,
        }
    }

    /// The bodies that could be read.
    pub fn trees(&self) -> impl Iterator<Item = &Value> {
        [&self.request, &self.answer]
            .into_iter()
            .filter_map(|reading| reading.as_ref()?.as_ref().ok())
    }

    /// How many parts of it are not what they should be.
    pub fn broken_parts(&self) -> usize {
        let bodies = [&self.request, &self.answer]
            .into_iter()
            .filter(|reading| matches!(reading, Some(Err(Unread::Broken(_)))))
            .count();
        let is_broken = match &self.entry.what {
            What::Broken { reason, .. } => !matches!(reason, Fault::OutOfStep { .. }),
            What::Request { .. } | What::Answer { .. } | What::Gap { .. } => false,
        };
        bodies + usize::from(is_broken)
    }

    /// How many bytes of it belong to no frame: the rest of one that broke, or that began before the capture did.
    pub fn stray_bytes(&self) -> u64 {
        match &self.entry.what {
            What::Broken {
                reason: Fault::OutOfStep { bytes },
                ..
            } => *bytes,
            _ => 0,
        }
    }

    /// How many frames it is made of.
    pub fn frames(&self) -> usize {
        match &self.entry.what {
            What::Request { answer, .. } => 1 + usize::from(answer.is_some()),
            What::Answer { .. } => 1,
            What::Broken { .. } | What::Gap { .. } => 0,
        }
    }

    /// From a request to its answer, in nanoseconds; negative if the capture has them in the wrong order.
    pub fn latency_ns(&self) -> Option<i64> {
        let What::Request {
            request,
            answer: Some(answer),
            ..
        } = &self.entry.what
        else {
            return None;
        };
        let nanoseconds = |captured: &Captured| Some(i128::from(captured.at?.0));
        i64::try_from(nanoseconds(answer)? - nanoseconds(request)?).ok()
    }

    /// Whether the client wants no answer at all: a producer with `acks=0`.
    pub fn wants_no_answer(&self) -> bool {
        let acks = self.trees().next().and_then(|tree| tree.int("acks"));
        matches!(self.api, Some((ApiKey::PRODUCE, _))) && acks == Some(0)
    }
}

fn read_answer(key: ApiKey, version: i16, payload: &Bytes) -> Reading {
    told(tree::read_response(key, version, payload))
}

fn told(read: Result<Value, CodecError>) -> Reading {
    match read {
        Ok(mut tree) => {
            withhold(&mut tree);
            Ok(tree)
        }
        Err(error @ (CodecError::NoSchema { .. } | CodecError::UnsupportedVersion { .. })) => {
            Err(Unread::Beyond(error))
        }
        Err(error) => Err(Unread::Broken(error)),
    }
}

/// Fields that hold credentials.
const SECRET_FIELDS: &[&str] = &["auth_bytes", "salt", "salted_password"];
/// What the name of a config holds whose value is one.
const SECRET_CONFIGS: &[&str] = &["password", "secret", "jaas", "keystore.key"];

/// Takes credentials out: captures are passed around.
fn withhold(tree: &mut Value) {
    match tree {
        Value::Record(fields) => {
            let is_secret = |field: &str, value: &Value| {
                let word = match value {
                    Value::Text(text) => text.to_ascii_lowercase(),
                    _ => String::new(),
                };
                ["name", "config_name"].contains(&field)
                    && SECRET_CONFIGS.iter().any(|secret| word.contains(secret))
            };
            let hides_value = fields.iter().any(|(name, value)| is_secret(name, value));
            for (name, value) in fields {
                let is_value = hides_value && ["value", "config_value"].contains(name);
                if SECRET_FIELDS.contains(name) || is_value {
                    hide(value);
                } else {
                    withhold(value);
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(withhold),
        _ => {}
    }
}

fn hide(value: &mut Value) {
    let size = match value {
        Value::Bytes(bytes) => bytes.len(),
        Value::Text(text) => text.len(),
        _ => return,
    };
    *value = Value::Text(format!("withheld, {size} bytes"));
}

/// How often each error code stands in an answer, "no error" included.
pub fn error_codes(tree: &Value) -> BTreeMap<i64, usize> {
    let mut codes = BTreeMap::new();
    count_error_codes(tree, &mut codes);
    codes
}

fn count_error_codes(tree: &Value, codes: &mut BTreeMap<i64, usize>) {
    for (name, value) in tree.fields() {
        match value {
            Value::Int(code) if name.ends_with("error_code") => {
                *codes.entry(*code).or_default() += 1
            }
            nested => count_error_codes(nested, codes),
        }
    }
    for item in tree.items() {
        count_error_codes(item, codes);
    }
}

/// Who sent what a direction names.
pub fn sender(direction: Direction) -> &'static str {
    match direction {
        Direction::Request => "client",
        Direction::Response => "server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: Vec<(&'static str, Value)>) -> Value {
        Value::Record(fields)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn credentials_are_withheld_and_nothing_else() {
        let secret = Bytes::from_static(b"\0alice\0wonder");
        let config = |name: &str| record(vec![("name", text(name)), ("value", text("hunter2"))]);
        let mut tree = record(vec![
            ("auth_bytes", Value::Bytes(secret.clone())),
            ("records", Value::Bytes(secret)),
            (
                "configs",
                Value::List(vec![
                    config("listener.name.external.ssl.keystore.Password"),
                    config("retention.ms"),
                ]),
            ),
        ]);
        withhold(&mut tree);
        assert_eq!(tree.text("auth_bytes"), Some("withheld, 13 bytes"));
        assert!(matches!(tree.get("records"), Some(Value::Bytes(_))));
        let values: Vec<_> = tree
            .list("configs")
            .iter()
            .map(|c| c.text("value"))
            .collect();
        assert_eq!(values, [Some("withheld, 7 bytes"), Some("hunter2")]);
    }

    #[test]
    fn error_codes_are_counted_at_every_depth() {
        let partition = |code| record(vec![("partition_error_code", Value::Int(code))]);
        let tree = record(vec![
            ("error_code", Value::Int(0)),
            (
                "topics",
                Value::List(vec![partition(56), partition(0), partition(56)]),
            ),
        ]);
        assert_eq!(
            error_codes(&tree).into_iter().collect::<Vec<_>>(),
            [(0, 2), (56, 2)]
        );
    }
}
