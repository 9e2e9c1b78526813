//! Captures as text for a person: one line for what was said, to whom and how it was answered, and below it what a
//! controller's operator looks for. Pure. Upstream counterpart: the request log (`kafka.request.logger`).

mod body;
mod control;
mod generic;

use klamm_codec::capture::{Captured, Ends, Fault, Timestamp, What};
use klamm_codec::response::correlation_id;
use klamm_codec::{ApiKey, Direction, RequestHeader};

use self::body::Body;
use super::exchange::{Exchange, Reading, Unread, error_codes};
use super::words::{self, Precision, TopicNames, count, quoted, shown};

/// How text is to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    pub paint: Paint,
    pub length: Length,
    /// Of messages about many topics only this one's partitions are told, the others counted.
    pub topic: Option<String>,
}

/// How much of a long body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Its first lines, and how many there are.
    AtMost(usize),
    Full,
}

/// Colour, where there is a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Ansi,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    fn name(self, text: &str) -> String {
        self.with("1", text)
    }

    fn aside(self, text: &str) -> String {
        self.with("2", text)
    }

    fn wrong(self, text: &str) -> String {
        self.with("31", text)
    }

    fn missing(self, text: &str) -> String {
        self.with("33", text)
    }
}

/// An entry as lines, each with its line feed.
pub fn entry(exchange: &Exchange<'_>, names: &TopicNames, style: &Style) -> String {
    let mut text = head(exchange, style.paint);
    text.push('\n');
    if let Some(remark) = &exchange.entry.remark {
        text.push_str("  ");
        text.push_str(&style.paint.aside(&format!("remark: {}", shown(remark))));
        text.push('\n');
    }
    for (direction, reading) in [
        (Direction::Request, &exchange.request),
        (Direction::Response, &exchange.answer),
    ] {
        if let Some(reading) = reading {
            let mut body = Body::new(style, names);
            tell(exchange, direction, reading, &mut body);
            body.finish(&mut text);
        }
    }
    text
}

// ---------------------------------------------------------------------------------------------------------------------
// The line above

fn head(exchange: &Exchange<'_>, paint: Paint) -> String {
    let ends = exchange.entry.ends;
    match &exchange.entry.what {
        What::Request {
            header, request, ..
        } => format!(
            "{}{} {}",
            place(request.at, request.offset, ends, Direction::Request),
            request_name(header, paint),
            outcome(exchange, paint)
        ),
        What::Answer { answer } => format!(
            "{}{}",
            place(answer.at, answer.offset, ends, Direction::Response),
            lone_answer(exchange, answer, paint)
        ),
        What::Broken {
            at,
            offset,
            direction,
            reason,
        } => format!(
            "{}{}",
            place(*at, *offset, ends, *direction),
            unframed(*direction, *offset, reason, paint)
        ),
        What::Gap {
            at,
            offset,
            direction,
            missing_bytes,
        } => format!(
            "{}{}",
            place(*at, *offset, ends, *direction),
            paint.missing(&format!(
                "GAP: {missing_bytes} bytes of {direction}s are not in the capture, at file offset {offset}"
            ))
        ),
    }
}

fn unframed(direction: Direction, offset: u64, reason: &Fault, paint: Paint) -> String {
    match reason {
        Fault::OutOfStep { .. } => paint.missing(&format!(
            "STRAY {direction} bytes at file offset {offset}: {reason}"
        )),
        _ => paint.wrong(&format!(
            "BROKEN {direction} at file offset {offset}: {reason}"
        )),
    }
}

/// When and between whom; in raw frames, which know neither, where.
fn place(at: Option<Timestamp>, offset: u64, ends: Option<Ends>, direction: Direction) -> String {
    let mut text = match at {
        Some(at) => format!("{} ", words::time(at, Precision::Microseconds)),
        None => format!("@{offset} "),
    };
    if let Some(Ends { client, server }) = ends {
        text.push_str(&match direction {
            Direction::Request => format!("{client} → {server} "),
            Direction::Response => format!("{server} → {client} "),
        });
    }
    text
}

fn api_name(key: ApiKey, version: i16, paint: Paint) -> String {
    paint.name(&format!("{key} v{version}"))
}

fn request_name(header: &RequestHeader, paint: Paint) -> String {
    let client = match &header.client_id {
        Some(client_id) => format!(" client {}", quoted(client_id)),
        None => String::new(),
    };
    let name = api_name(header.key, header.version, paint);
    format!("{name} #{}{client}:", header.correlation_id)
}

fn lone_answer(exchange: &Exchange<'_>, answer: &Captured, paint: Paint) -> String {
    let name = match exchange.api {
        Some((key, version)) => format!("{} ", api_name(key, version, paint)),
        None => String::new(),
    };
    let number = match correlation_id(&answer.payload) {
        Ok(correlation_id) => format!("#{correlation_id}"),
        Err(_) => "without a correlation id".to_owned(),
    };
    let errors = errors(exchange, paint).map_or(String::new(), |errors| format!(": {errors}"));
    format!("{name}answer {number}{errors}")
}

fn outcome(exchange: &Exchange<'_>, paint: Paint) -> String {
    if exchange.answer.is_none() {
        return if exchange.wants_no_answer() {
            "wants no answer (acks 0)".to_owned()
        } else {
            paint.missing("NO ANSWER in the capture")
        };
    }
    let after = match exchange.latency_ns() {
        Some(nanoseconds) => format!("answered after {}", words::duration(nanoseconds)),
        None => "answered".to_owned(),
    };
    match errors(exchange, paint) {
        Some(errors) => format!("{after}, {errors}"),
        None => after,
    }
}

/// The errors of an answer by name, if it has a place for any.
fn errors(exchange: &Exchange<'_>, paint: Paint) -> Option<String> {
    let codes = error_codes(exchange.answer.as_ref()?.as_ref().ok()?);
    if codes.is_empty() {
        return None;
    }
    let errors: Vec<String> = codes
        .iter()
        .filter(|(code, _)| **code != 0)
        .map(|(code, times)| match times {
            1 => words::error_name(*code),
            _ => format!("{} x{times}", words::error_name(*code)),
        })
        .collect();
    Some(if errors.is_empty() {
        words::error_name(0)
    } else {
        paint.wrong(&errors.join(" "))
    })
}

// ---------------------------------------------------------------------------------------------------------------------
// The lines below

fn tell(exchange: &Exchange<'_>, direction: Direction, reading: &Reading, body: &mut Body<'_>) {
    let paint = body.view.style.paint;
    let tree = match reading {
        Ok(tree) => tree,
        Err(unread) => {
            return body.line(1, || unread_line(exchange, direction, unread, paint));
        }
    };
    let key = exchange.api.map(|(key, _)| key);
    match (key, direction) {
        (Some(ApiKey::LEADER_AND_ISR), Direction::Request) => control::leader_and_isr(tree, body),
        (Some(ApiKey::STOP_REPLICA), Direction::Request) => control::stop_replica(tree, body),
        (Some(ApiKey::UPDATE_METADATA), Direction::Request) => control::update_metadata(tree, body),
        (
            Some(ApiKey::LEADER_AND_ISR | ApiKey::STOP_REPLICA | ApiKey::UPDATE_METADATA),
            Direction::Response,
        ) => control::partition_errors(tree, body),
        (Some(ApiKey::ALTER_PARTITION), Direction::Request) => control::alter_partition(tree, body),
        (Some(ApiKey::ALTER_PARTITION), Direction::Response) => control::altered(tree, body),
        (Some(ApiKey::CONTROLLED_SHUTDOWN), Direction::Response) => control::remaining(tree, body),
        (Some(ApiKey::ALLOCATE_PRODUCER_IDS), Direction::Response) => {
            control::producer_ids(tree, body)
        }
        (Some(ApiKey::CONTROLLED_SHUTDOWN | ApiKey::ALLOCATE_PRODUCER_IDS), Direction::Request) => {
            control::from_broker(tree, body)
        }
        (Some(ApiKey::API_VERSIONS), Direction::Response) => control::api_versions(tree, body),
        (_, Direction::Request) => generic::message("request", tree, body),
        (_, Direction::Response) => generic::message("answer", tree, body),
    }
}

fn unread_line(
    exchange: &Exchange<'_>,
    direction: Direction,
    unread: &Unread,
    paint: Paint,
) -> String {
    let captured = match (&exchange.entry.what, direction) {
        (What::Request { request, .. }, Direction::Request) => Some(request),
        (What::Request { answer, .. }, Direction::Response) => answer.as_ref(),
        (What::Answer { answer }, _) => Some(answer),
        _ => None,
    };
    let (size, offset) =
        captured.map_or((0, 0), |captured| (captured.payload.len(), captured.offset));
    match unread {
        Unread::Beyond(_) | Unread::Unasked => {
            format!("{direction} of {}, not read: {unread}", count(size, "byte"))
        }
        Unread::Broken(_) => paint.wrong(&format!(
            "BROKEN {direction} of {} at file offset {offset}: {unread}",
            count(size, "byte")
        )),
    }
}

#[cfg(test)]
mod tests;
