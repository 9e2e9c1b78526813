//! The shape of a table row: which fields a message has, in which versions, and how each stands on the wire. The rows
//! themselves are in the files below, by who speaks to whom. Nothing here reads bytes.

use crate::api_key::ApiKey;
use crate::error::Direction;

/// As the last version of a field: "and every later version of the message".
const LAST: i16 = i16::MAX;
/// As the first flexible version: the message has none.
const NEVER: i16 = i16::MAX;

/// One message: a request or a response of one API, in all versions.
#[derive(Debug)]
pub(crate) struct Schema {
    pub key: ApiKey,
    pub direction: Direction,
    pub min: i16,
    pub max: i16,
    /// From this version on, lengths are varints and each record ends with tagged fields.
    pub flexible: i16,
    pub body: Record,
}

/// A struct on the wire.
#[derive(Debug)]
pub(crate) struct Record {
    /// The bytes that one decoded value takes, without what its arrays hold.
    pub size: usize,
    pub fields: &'static [Field],
    pub tags: &'static [TaggedField],
}

/// A field and the versions that have it.
#[derive(Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    pub from: i16,
    pub to: i16,
    pub kind: Kind,
}

/// A tagged field that the decoder knows; others are skipped by their length.
#[derive(Debug)]
pub(crate) struct TaggedField {
    pub tag: u32,
    pub field: Field,
}

/// How a value stands on the wire.
#[derive(Debug)]
pub(crate) enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Uuid,
    String,
    NullString,
    Bytes,
    NullBytes,
    Array(&'static Kind),
    NullArray(&'static Kind),
    Record(&'static Record),
    NullRecord(&'static Record),
}

/// The table row of a message, or none if it cannot be decoded.
pub(crate) fn find(key: ApiKey, direction: Direction) -> Option<&'static Schema> {
    all().find(|schema| schema.key == key && schema.direction == direction)
}

/// Every row of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Schema> {
    [
        client::ALL,
        broker::ALL,
        group::ALL,
        transaction::ALL,
        admin::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// One row: `message!(NAME: key, Request, min..=max, flexible F, [fields], tags [fields])`, a field being
/// `name from.. Kind` or `name from..=to Kind`.
macro_rules! message {
    ($name:ident: $key:literal, $direction:ident, $min:literal..=$max:literal, flexible $flexible:expr,
     [$($fields:tt)*] $(, tags [$($tags:tt)*])?) => {
        static $name: Schema = Schema {
            key: crate::api_key::ApiKey($key),
            direction: $direction,
            min: $min,
            max: $max,
            flexible: $flexible,
            body: record!(0, [$($fields)*] $(, tags [$($tags)*])?),
        };
    };
}

macro_rules! record {
    ($size:expr, [$($fields:tt)*] $(, tags [$($tag:literal: $name:ident $from:literal.. $kind:expr,)*])?) => {
        Record {
            size: $size,
            fields: fields!([] $($fields)*),
            tags: &[$($(TaggedField {
                tag: $tag,
                field: Field { name: stringify!($name), from: $from, to: super::LAST, kind: $kind },
            }),*)?],
        }
    };
}

macro_rules! fields {
    ([$($done:tt)*]) => { &[$($done)*] };
    ([$($done:tt)*] $name:ident $from:literal.. $kind:expr, $($rest:tt)*) => {
        fields!([$($done)* Field { name: stringify!($name), from: $from, to: super::LAST, kind: $kind },] $($rest)*)
    };
    ([$($done:tt)*] $name:ident $from:literal..=$to:literal $kind:expr, $($rest:tt)*) => {
        fields!([$($done)* Field { name: stringify!($name), from: $from, to: $to, kind: $kind },] $($rest)*)
    };
}

macro_rules! array {
    ($type:ty, $($record:tt)*) => { Kind::Array(&Kind::Record(&record!(size_of::<$type>(), $($record)*))) };
}

macro_rules! null_array {
    ($type:ty, $($record:tt)*) => { Kind::NullArray(&Kind::Record(&record!(size_of::<$type>(), $($record)*))) };
}

macro_rules! nested {
    ($type:ty, $($record:tt)*) => { Kind::Record(&record!(size_of::<$type>(), $($record)*)) };
}

macro_rules! null_nested {
    ($type:ty, $($record:tt)*) => { Kind::NullRecord(&record!(size_of::<$type>(), $($record)*)) };
}

// After the macros, which they use.
mod admin;
mod broker;
mod client;
mod group;
mod transaction;
