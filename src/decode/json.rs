//! Captures as JSON Lines: one object for each entry, every field in every object, null where it has nothing to say.
//! Field names are promised to users in the README: they are added to, never changed. Pure. Upstream counterpart:
//! `RequestConvertToJson`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klamm_codec::capture::{Captured, Timestamp, What};
use klamm_codec::response::correlation_id;
use klamm_codec::tree::Value;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::exchange::{Exchange, Reading, sender};
use super::words::{self, Precision};

/// One line. The order of the fields is that of the output.
#[derive(Debug, serde::Serialize, Default)]
struct Line<'a> {
    what: &'static str,
    time: Option<String>,
    client: Option<String>,
    server: Option<String>,
    from: Option<&'static str>,
    api: Option<&'static str>,
    key: Option<i16>,
    version: Option<i16>,
    correlation_id: Option<i32>,
    client_id: Option<&'a str>,
    latency_us: Option<i64>,
    request_bytes: Option<usize>,
    request: Option<Tree<'a>>,
    response_bytes: Option<usize>,
    response: Option<Tree<'a>>,
    missing_bytes: Option<u64>,
    offset: u64,
    remark: Option<&'a str>,
    error: Option<String>,
}

/// An entry as one line of JSON, without its line feed.
///
/// # Errors
/// None that can happen: the type is serde_json's.
pub fn line(exchange: &Exchange<'_>) -> serde_json::Result<String> {
    let mut line = Line {
        client: exchange.entry.ends.map(|ends| ends.client.to_string()),
        server: exchange.entry.ends.map(|ends| ends.server.to_string()),
        api: exchange.api.and_then(|(key, _)| key.name()),
        key: exchange.api.map(|(key, _)| key.0),
        version: exchange.api.map(|(_, version)| version),
        latency_us: exchange.latency_ns().map(|nanoseconds| nanoseconds / 1000),
        request: tree(&exchange.request),
        response: tree(&exchange.answer),
        remark: exchange.entry.remark.as_deref(),
        error: error(exchange),
        ..Line::default()
    };
    fill(&mut line, &exchange.entry.what);
    serde_json::to_string(&line)
}

fn fill<'a>(line: &mut Line<'a>, what: &'a What) {
    let size = |captured: &Captured| captured.payload.len();
    match what {
        What::Request {
            header,
            request,
            answer,
        } => {
            line.what = "request";
            line.time = time(request.at);
            line.offset = request.offset;
            line.correlation_id = Some(header.correlation_id);
            line.client_id = header.client_id.as_deref();
            line.request_bytes = Some(size(request));
            line.response_bytes = answer.as_ref().map(size);
        }
        What::Answer { answer } => {
            line.what = "answer";
            line.time = time(answer.at);
            line.offset = answer.offset;
            line.correlation_id = correlation_id(&answer.payload).ok();
            line.response_bytes = Some(size(answer));
        }
        What::Broken {
            at,
            offset,
            direction,
            ..
        } => {
            line.what = "broken";
            line.time = time(*at);
            line.offset = *offset;
            line.from = Some(sender(*direction));
        }
        What::Gap {
            at,
            offset,
            direction,
            missing_bytes,
        } => {
            line.what = "gap";
            line.time = time(*at);
            line.offset = *offset;
            line.from = Some(sender(*direction));
            line.missing_bytes = Some(*missing_bytes);
        }
    }
}

fn time(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| words::time(at, Precision::Nanoseconds))
}

fn error(exchange: &Exchange<'_>) -> Option<String> {
    if let What::Broken { reason, .. } = &exchange.entry.what {
        return Some(reason.to_string());
    }
    let parts = [
        ("request", &exchange.request),
        ("response", &exchange.answer),
    ];
    let errors: Vec<String> = parts
        .into_iter()
        .filter_map(|(name, reading)| Some((name, reading.as_ref()?.as_ref().err()?)))
        .map(|(name, unread)| format!("{name}: {unread}"))
        .collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

fn tree(reading: &Option<Reading>) -> Option<Tree<'_>> {
    reading.as_ref()?.as_ref().ok().map(Tree)
}

#[derive(Debug)]
struct Tree<'a>(&'a Value);

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Uuid(id) => serializer.serialize_str(&words::id(*id)),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            Value::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Tree(item))?;
                }
                list.end()
            }
            Value::Record(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, &Tree(value))?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests;
