//! Any message that has no words of its own: what is one value on one line, and below it a line for each record of a
//! list. Pure.

use klamm_codec::bytes::Bytes;
use klamm_codec::tree::Value;

use super::Length;
use super::body::Body;
use crate::decode::words::{count, error_name, id, quoted};

/// Longer bytes are told by their size.
const SHORT_BYTES: usize = 16;
/// Longer lists are cut.
const SHORT_LIST: usize = 50;

pub(super) fn message(name: &str, tree: &Value, body: &mut Body<'_>) {
    record(1, name, tree, body);
}

fn record(depth: usize, name: &str, value: &Value, body: &mut Body<'_>) {
    let length = body.view.style.length;
    body.line(depth, || {
        let scalars: Vec<String> = match value {
            Value::Record(fields) => fields
                .iter()
                .filter(|(_, value)| !is_list_of_records(value))
                .map(|(name, value)| format!("{name} {}", inline(name, value, length)))
                .collect(),
            other => vec![inline(name, other, length)],
        };
        if scalars.is_empty() {
            name.to_owned()
        } else {
            format!("{name}: {}", scalars.join(", "))
        }
    });
    for (name, value) in value.fields() {
        if is_list_of_records(value) {
            records(depth + 1, name, value.items(), body);
        }
    }
}

fn records(depth: usize, name: &str, items: &[Value], body: &mut Body<'_>) {
    let are_topics = name.contains("topic") || name == "responses";
    for item in items {
        let topic = body.view.names.of(item);
        if are_topics && topic.is_some_and(|topic| !body.wants(topic)) {
            body.leave_out();
        } else {
            record(depth, name, item, body);
        }
    }
}

fn is_list_of_records(value: &Value) -> bool {
    matches!(value.items().first(), Some(Value::Record(_)))
}

fn inline(name: &str, value: &Value, length: Length) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(code) if name.ends_with("error_code") => error_name(*code),
        Value::Int(number) => number.to_string(),
        Value::Uuid(topic) => id(*topic),
        Value::Text(text) => quoted(text),
        Value::Bytes(bytes) => inline_bytes(bytes),
        Value::List(items) => inline_list(name, items, length),
        Value::Record(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name} {}", inline(name, value, length)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

fn inline_list(name: &str, items: &[Value], length: Length) -> String {
    let shown = match length {
        Length::Full => items.len(),
        Length::AtMost(_) => SHORT_LIST,
    };
    let values = items.iter().take(shown);
    let values: Vec<String> = values.map(|item| inline(name, item, length)).collect();
    match items.len().saturating_sub(shown) {
        0 => format!("[{}]", values.join(",")),
        more => format!("[{},... {more} more]", values.join(",")),
    }
}

fn inline_bytes(bytes: &Bytes) -> String {
    if bytes.len() > SHORT_BYTES {
        return format!("<{}>", count(bytes.len(), "byte"));
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}
