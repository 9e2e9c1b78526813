//! What the guard's walk tells whoever wants to see the values that it passes. The walk alone checks lengths; a visitor
//! never reads past what it is handed. Upstream counterpart: none, Kafka's generated classes read into themselves.

use super::schema::Kind;
use std::str::Utf8Error;

/// Hears of each value of a message, in the order of the wire.
pub(crate) trait Visitor {
    /// The memory that the visitor takes for an element of a list, beside what kafka-protocol would, in bytes.
    const VALUE_SIZE: u64;
    /// The same for a field of a record.
    const FIELD_SIZE: u64;
    /// The same for a tagged field that the table doesn't know.
    const TAG_SIZE: u64;

    fn open_record(&mut self);
    /// The value that comes next belongs to this field of the open record.
    fn field(&mut self, name: &'static str);
    fn unknown_tag(&mut self, tag: u32, bytes: &[u8]);
    fn close_record(&mut self);
    /// `count` values follow.
    fn open_list(&mut self, count: usize);
    fn close_list(&mut self);
    fn null(&mut self);
    /// A value of one of the kinds of fixed size, in as many bytes.
    fn fixed(&mut self, kind: &Kind, bytes: &[u8]);
    fn text(&mut self, bytes: &[u8]) -> Result<(), Utf8Error>;
    fn bytes(&mut self, bytes: &[u8]);
}

/// Nobody listens: the walk only checks. Whether text is text, kafka-protocol will say.
#[derive(Debug)]
pub(crate) struct Unheard;

impl Visitor for Unheard {
    const VALUE_SIZE: u64 = 0;
    const FIELD_SIZE: u64 = 0;
    const TAG_SIZE: u64 = 0;

    fn open_record(&mut self) {}
    fn field(&mut self, _: &'static str) {}
    fn unknown_tag(&mut self, _: u32, _: &[u8]) {}
    fn close_record(&mut self) {}
    fn open_list(&mut self, _: usize) {}
    fn close_list(&mut self) {}
    fn null(&mut self) {}
    fn fixed(&mut self, _: &Kind, _: &[u8]) {}
    fn text(&mut self, _: &[u8]) -> Result<(), Utf8Error> {
        Ok(())
    }
    fn bytes(&mut self, _: &[u8]) {}
}
