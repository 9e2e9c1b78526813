//! Checks every length in a message body against the bytes that are there, before kafka-protocol sees it.
//!
//! kafka-protocol asks for as much memory as an array's length on the wire tells it to, and a length that nobody
//! meant aborts the process. Here each body is walked along its row in the table of `schema`: array and string
//! lengths, varints and tagged fields, in the same order and by the same rules as the decoder, without building
//! anything. The memory that decoding will take is added up on the way and bounded. The depth of the walk is that of
//! the table, never of the input. What has passed is a [`Guarded`], and nothing else can be decoded.
//!
//! Upstream counterpart: the length checks of Kafka's `ByteBufferAccessor` and generated message classes.

mod answered;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod schema;
pub(crate) mod visit;

use crate::error::{CodecError, Direction, Message, Place};
use bytes::Bytes;
use schema::{Field, Kind, Record, Schema};
use visit::{Unheard, Visitor};

/// What decoding one request, and answering each thing that it names, may take in memory, in bytes, beside the frame itself.
pub const REQUEST_MEMORY_LIMIT: u64 = 256 * 1024 * 1024;
/// What decoding one response may take in memory, in bytes, beside the frame itself. Responses come from brokers that
/// we dialled; those about every partition of a big cluster are long.
pub const RESPONSE_MEMORY_LIMIT: u64 = 1024 * 1024 * 1024;

/// A map of unknown tagged fields allocates a node for eleven entries with its first.
const TAG_MAP_SIZE: u64 = 512;
/// One more entry, with its share of a half-full node.
const TAG_ENTRY_SIZE: u64 = 96;

/// A body whose every length has been checked. Only [`check`] makes one.
#[derive(Debug)]
pub struct Guarded {
    message: Message,
    body: Bytes,
}

impl Guarded {
    pub(crate) fn into_parts(self) -> (Message, Bytes) {
        (self.message, self.body)
    }
}

/// Passes a body (without its header) that is exactly one well-formed message. Errors name the field and the byte.
pub fn check(message: Message, body: Bytes) -> Result<Guarded, CodecError> {
    let memory_limit = match message.direction {
        Direction::Request => REQUEST_MEMORY_LIMIT,
        Direction::Response => RESPONSE_MEMORY_LIMIT,
    };
    visit(message, &body, memory_limit, Unheard)?;
    Ok(Guarded { message, body })
}

/// Walks a body that must be exactly one well-formed message, and tells the visitor of all that stands in it.
pub(crate) fn visit<V: Visitor>(
    message: Message,
    body: &[u8],
    memory_limit: u64,
    visitor: V,
) -> Result<V, CodecError> {
    let schema = row(message)?;
    let flexible = message.version >= schema.flexible;
    let mut walk = Walk::new(message, body, flexible, memory_limit, visitor);
    walk.record(&schema.body)?;
    if walk.left() > 0 {
        return Err(CodecError::TrailingBytes {
            message,
            offset: walk.at,
            left: walk.left(),
        });
    }
    Ok(walk.visitor)
}

/// The lowest and highest version of a message that can be decoded, and so be served.
pub fn versions(key: crate::ApiKey, direction: Direction) -> Option<(i16, i16)> {
    schema::find(key, direction).map(|schema| (schema.min, schema.max))
}

/// Whether this version has compact lengths and tagged fields, in its header too.
pub(crate) fn is_flexible(message: Message) -> Result<bool, CodecError> {
    Ok(message.version >= row(message)?.flexible)
}

/// How many bytes the tagged fields at the end of a flexible header take.
pub(crate) fn header_tags(message: Message, bytes: &[u8]) -> Result<usize, CodecError> {
    let mut walk = Walk::new(message, bytes, true, REQUEST_MEMORY_LIMIT, Unheard);
    walk.tags(&Record {
        size: 0,
        fields: &[],
        tags: &[],
    })?;
    Ok(walk.at)
}

fn row(message: Message) -> Result<&'static Schema, CodecError> {
    let Message {
        key,
        direction,
        version,
    } = message;
    let schema = schema::find(key, direction).ok_or(CodecError::NoSchema { key, direction })?;
    if (schema.min..=schema.max).contains(&version) {
        Ok(schema)
    } else {
        Err(CodecError::UnsupportedVersion {
            message,
            min: schema.min,
            max: schema.max,
        })
    }
}

/// Where the walk stands.
struct Walk<'a, V> {
    message: Message,
    bytes: &'a [u8],
    at: usize,
    flexible: bool,
    field: &'static str,
    memory: u64,
    memory_limit: u64,
    visitor: V,
}

impl<'a, V: Visitor> Walk<'a, V> {
    fn new(
        message: Message,
        bytes: &'a [u8],
        flexible: bool,
        memory_limit: u64,
        visitor: V,
    ) -> Walk<'a, V> {
        Walk {
            message,
            bytes,
            at: 0,
            flexible,
            field: "tagged fields",
            memory: 0,
            memory_limit,
            visitor,
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn place(&self) -> Place {
        Place {
            message: self.message,
            field: self.field,
            offset: self.at,
        }
    }

    fn record(&mut self, record: &'static Record) -> Result<(), CodecError> {
        self.visitor.open_record();
        let version = self.message.version;
        for field in record
            .fields
            .iter()
            .filter(|field| (field.from..=field.to).contains(&version))
        {
            self.field(field)?;
        }
        if self.flexible {
            self.field = "tagged fields";
            self.tags(record)?;
        }
        self.visitor.close_record();
        Ok(())
    }

    fn field(&mut self, field: &'static Field) -> Result<(), CodecError> {
        self.field = field.name;
        self.charge(V::FIELD_SIZE)?;
        self.visitor.field(field.name);
        self.value(&field.kind)
    }

    fn value(&mut self, kind: &'static Kind) -> Result<(), CodecError> {
        match kind {
            Kind::String | Kind::Bytes => self.text(kind, false),
            Kind::NullString | Kind::NullBytes => self.text(kind, true),
            Kind::Array(element) => self.array(element, false),
            Kind::NullArray(element) => self.array(element, true),
            Kind::Record(record) => self.record(record),
            Kind::NullRecord(record) => match self.take(1)? {
                // kafka-protocol takes whatever is not 1 for null.
                [1] => self.record(record),
                _ => {
                    self.visitor.null();
                    Ok(())
                }
            },
            Kind::Bool | Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::Uuid => {
                let taken = self.take(wire_size(kind))?;
                self.visitor.fixed(kind, taken);
                Ok(())
            }
        }
    }

    fn text(&mut self, kind: &Kind, nullable: bool) -> Result<(), CodecError> {
        let at = self.place();
        let length = match kind {
            Kind::String | Kind::NullString if !self.flexible => self.short_length(nullable)?,
            _ => self.length(nullable)?,
        };
        let Some(length) = length else {
            self.visitor.null();
            return Ok(());
        };
        let taken = self.take(length)?;
        match kind {
            Kind::String | Kind::NullString => self
                .visitor
                .text(taken)
                .map_err(|_| CodecError::NotUtf8 { at }),
            _ => {
                self.visitor.bytes(taken);
                Ok(())
            }
        }
    }

    fn array(&mut self, element: &'static Kind, nullable: bool) -> Result<(), CodecError> {
        let Some(count) = self.length(nullable)? else {
            self.visitor.null();
            return Ok(());
        };
        // An element takes a byte at least, or its whole size where that is fixed.
        let needed = count as u64 * wire_size(element).max(1) as u64;
        if needed > self.left() as u64 {
            return Err(CodecError::Short {
                at: self.place(),
                needed,
                left: self.left(),
            });
        }
        let answer = answered::entry_size(self.message, self.field);
        let each = memory_size(element) as u64 + V::VALUE_SIZE + answer;
        self.charge((count as u64).saturating_mul(each))?;
        self.visitor.open_list(count);
        if wire_size(element) > 0 {
            for taken in self.take(needed as usize)?.chunks_exact(wire_size(element)) {
                self.visitor.fixed(element, taken);
            }
        } else {
            let name = self.field;
            for _ in 0..count {
                self.field = name;
                self.value(element)?;
            }
        }
        self.visitor.close_list();
        Ok(())
    }

    fn tags(&mut self, record: &'static Record) -> Result<(), CodecError> {
        let count = self.varint()?;
        let mut previous = None;
        let mut unknown = 0;
        for _ in 0..count {
            let at = self.place();
            let tag = self.varint()?;
            if let Some(previous) = previous.filter(|previous| *previous >= tag) {
                return Err(CodecError::TagOrder { at, tag, previous });
            }
            // kafka-protocol keeps a greater one as a negative number, and then writes fewer fields than it announces.
            if i32::try_from(tag).is_err() {
                return Err(CodecError::TagBeyond { at, tag });
            }
            previous = Some(tag);
            let announced = self.varint()?;
            let known = record.tags.iter().find(|known| known.tag == tag);
            match known.filter(|known| known.field.from <= self.message.version) {
                Some(known) => self.known_tag(at, known, announced)?,
                None => {
                    self.charge(if unknown == 0 {
                        TAG_MAP_SIZE
                    } else {
                        TAG_ENTRY_SIZE
                    })?;
                    unknown += 1;
                    self.charge(V::TAG_SIZE)?;
                    let taken = self.take(announced as usize)?;
                    self.visitor.unknown_tag(tag, taken);
                }
            }
            self.field = "tagged fields";
        }
        Ok(())
    }

    /// kafka-protocol decodes a known tagged field without looking at its length: the two must agree.
    fn known_tag(
        &mut self,
        at: Place,
        known: &'static schema::TaggedField,
        announced: u32,
    ) -> Result<(), CodecError> {
        let start = self.at;
        self.field(&known.field)?;
        let taken = self.at - start;
        if taken == announced as usize {
            Ok(())
        } else {
            Err(CodecError::TagSize {
                at,
                tag: known.tag,
                announced,
                taken,
            })
        }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), CodecError> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > self.memory_limit {
            let (needed, limit) = (self.memory, self.memory_limit);
            return Err(CodecError::TooManyElements {
                at: self.place(),
                needed,
                limit,
            });
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let end = self.at.checked_add(count);
        match end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) {
            Some((end, taken)) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(CodecError::Short {
                at: self.place(),
                needed: count as u64,
                left: self.left(),
            }),
        }
    }

    fn varint(&mut self) -> Result<u32, CodecError> {
        let at = self.place();
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.take(1)?.first().copied().unwrap_or(0);
            if shift == 28 && byte > 0x0f {
                return Err(CodecError::Varint { at });
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// The length of an array or of bytes: 32 bits, or a varint that is one more.
    fn length(&mut self, nullable: bool) -> Result<Option<usize>, CodecError> {
        let at = self.place();
        let length = if self.flexible {
            i64::from(self.varint()?) - 1
        } else {
            let mut wide = [0; 4];
            wide.copy_from_slice(self.take(4)?);
            i64::from(i32::from_be_bytes(wide))
        };
        non_negative(at, length, nullable)
    }

    /// The length of a string before the flexible versions: 16 bits.
    fn short_length(&mut self, nullable: bool) -> Result<Option<usize>, CodecError> {
        let at = self.place();
        let mut wide = [0; 2];
        wide.copy_from_slice(self.take(2)?);
        non_negative(at, i64::from(i16::from_be_bytes(wide)), nullable)
    }
}

fn non_negative(at: Place, length: i64, nullable: bool) -> Result<Option<usize>, CodecError> {
    match usize::try_from(length) {
        Ok(length) => Ok(Some(length)),
        Err(_) if length == -1 && nullable => Ok(None),
        Err(_) if length == -1 => Err(CodecError::Null { at }),
        Err(_) => Err(CodecError::LengthNegative { at, length }),
    }
}

/// The bytes that a value takes on the wire, or 0 if that depends on the value.
fn wire_size(kind: &Kind) -> usize {
    match kind {
        Kind::Bool | Kind::I8 => 1,
        Kind::I16 => 2,
        Kind::I32 => 4,
        Kind::I64 => 8,
        Kind::Uuid => 16,
        Kind::String | Kind::NullString | Kind::Bytes | Kind::NullBytes => 0,
        Kind::Array(_) | Kind::NullArray(_) | Kind::Record(_) | Kind::NullRecord(_) => 0,
    }
}

/// The bytes that a decoded value takes as an element of an array.
fn memory_size(kind: &Kind) -> usize {
    match kind {
        Kind::String | Kind::NullString | Kind::Bytes | Kind::NullBytes => size_of::<Bytes>(),
        Kind::Array(_) | Kind::NullArray(_) => size_of::<Vec<u8>>(),
        Kind::Record(record) | Kind::NullRecord(record) => record.size,
        fixed => wire_size(fixed),
    }
}

#[cfg(test)]
pub(crate) mod tests;
