//! Small words for people: times, ids, error names, and text that came over a wire. Whatever a peer named a thing, what
//! leaves here can't drive a terminal. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use klamm_codec::capture::Timestamp;
use klamm_codec::tree::Value;
use klamm_codec::{Uuid, error_code};

use crate::model::civil_date;

/// How fine a time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    Microseconds,
    Nanoseconds,
}

/// `2026-11-30T06:50:14.123456Z`.
pub fn time(at: Timestamp, precision: Precision) -> String {
    let (seconds, nanoseconds) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let fraction = match precision {
        Precision::Microseconds => format!("{:06}", nanoseconds / 1000),
        Precision::Nanoseconds => format!("{nanoseconds:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction}Z")
}

/// A length of time in the unit that suits it.
pub fn duration(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let thousandths = |value: u64| format!("{}.{:03}", value / 1000, value % 1000);
    match size {
        0..1_000_000 => format!("{sign}{} us", size / 1000),
        1_000_000..1_000_000_000 => format!("{sign}{} ms", thousandths(size / 1000)),
        _ => format!("{sign}{} s", thousandths(size / 1_000_000)),
    }
}

/// Kafka's name of an error code, or its number.
pub fn error_name(code: i64) -> String {
    match i16::try_from(code).ok().and_then(error_code::name) {
        Some(name) => name.to_owned(),
        None => format!("error {code}"),
    }
}

/// Topic ids as Kafka's tools write them.
pub fn id(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// `text` with its control characters spelled out.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        // Beside control characters, those that turn the direction of writing.
        if character.is_control()
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// `text` in quotation marks.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text).replace('"', "\\\""))
}

/// `1 partition`, `2 partitions`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// `[1,2,3]`.
pub fn numbers(values: &[Value]) -> String {
    let mut text = String::from("[");
    for (position, value) in values.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        match value {
            Value::Int(number) => drop(write!(text, "{comma}{number}")),
            _ => drop(write!(text, "{comma}?")),
        }
    }
    text + "]"
}

/// The names of topics, by their ids: learned from whatever message has both.
#[derive(Debug, Default)]
pub struct TopicNames {
    names: BTreeMap<Uuid, String>,
}

impl TopicNames {
    /// Learns from every topic in a message that has its name and its id.
    pub fn learn(&mut self, tree: &Value) {
        if let Some(id) = tree.uuid("topic_id").filter(|id| !id.is_nil())
            && let Some(name) = topic_name(tree)
        {
            self.names.insert(id, name.to_owned());
        }
        for (_, value) in tree.fields() {
            if matches!(value, Value::List(_) | Value::Record(_)) {
                self.learn(value);
            }
        }
        for item in tree.items() {
            if matches!(item, Value::Record(_)) {
                self.learn(item);
            }
        }
    }

    /// The name of that topic, if the capture told it before.
    pub fn get(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The topic of a record: its name, or else the name that goes with its id.
    pub fn of<'a>(&'a self, record: &'a Value) -> Option<&'a str> {
        topic_name(record).or_else(|| self.get(record.uuid("topic_id")?))
    }
}

fn topic_name(record: &Value) -> Option<&str> {
    ["topic_name", "topic", "name"]
        .into_iter()
        .find_map(|field| record.text(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_and_as_fine_as_asked() {
        let at = Timestamp(1_795_996_066_595_012_345);
        assert_eq!(
            time(at, Precision::Microseconds),
            "2026-11-29T23:47:46.595012Z"
        );
        assert_eq!(
            time(at, Precision::Nanoseconds),
            "2026-11-29T23:47:46.595012345Z"
        );
        assert_eq!(
            time(Timestamp(0), Precision::Microseconds),
            "1970-01-01T00:00:00.000000Z"
        );
        assert_eq!(
            time(Timestamp(u64::MAX), Precision::Microseconds),
            "2554-07-21T23:34:33.709551Z"
        );
    }

    #[test]
    fn lengths_of_time_have_a_unit_that_suits_them() {
        for (nanoseconds, text) in [
            (0, "0 us"),
            (999_999, "999 us"),
            (3_214_000, "3.214 ms"),
            (12_345_678_901, "12.345 s"),
            (-3_214_000, "-3.214 ms"),
        ] {
            assert_eq!(duration(nanoseconds), text);
        }
        duration(i64::MIN);
    }

    #[test]
    fn what_a_peer_named_a_thing_cannot_drive_the_terminal() {
        assert_eq!(
            shown("a\u{1b}[31m\nb\u{202e}c"),
            "a\\u{1b}[31m\\nb\\u{202e}c"
        );
        assert_eq!(quoted("größe \"1\""), "\"größe \\\"1\\\"\"");
    }

    #[test]
    fn errors_have_kafkas_names_and_unknown_ones_their_number() {
        assert_eq!(error_name(0), "NONE");
        assert_eq!(error_name(77), "STALE_BROKER_EPOCH");
        assert_eq!(error_name(9999), "error 9999");
        assert_eq!(error_name(99_999), "error 99999");
    }

    #[test]
    fn topic_names_are_learned_wherever_an_id_stands_beside_one() {
        let (orders, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let topic = Value::Record(vec![
            ("topic_id", Value::Uuid(orders)),
            ("topic_name", Value::Text("orders".to_owned())),
        ]);
        let mut names = TopicNames::default();
        names.learn(&Value::Record(vec![(
            "topic_states",
            Value::List(vec![topic]),
        )]));
        let by_id = |id| Value::Record(vec![("topic_id", Value::Uuid(id))]);
        assert_eq!(names.of(&by_id(orders)), Some("orders"));
        assert_eq!(names.of(&by_id(other)), None);
        assert_eq!(id(orders), "AAAAAAAAAAAAAAAAAAAABw");
    }
}
