//! Valid messages made from the table, for tests: whatever the table says can stand on the wire, seeded, so that
//! kafka-protocol can be asked whether it agrees.

use super::schema::{self, Kind, Record};
use crate::error::Message;

/// Every message that can be decoded, in every version.
pub(crate) fn messages() -> Vec<Message> {
    let versions = |row: &'static schema::Schema| {
        (row.min..=row.max).map(|version| Message {
            key: row.key,
            direction: row.direction,
            version,
        })
    };
    schema::all().flat_map(versions).collect()
}

/// The body of a valid message. Equal seeds make equal bodies.
pub(crate) fn body(message: Message, seed: u64) -> Vec<u8> {
    sample(message, seed, None).bytes
}

/// The body of a message that is valid but for one null: at the `nth` place where null may not stand. None if there
/// are not so many.
pub(crate) fn body_with_null(message: Message, seed: u64, nth: usize) -> Option<Vec<u8>> {
    let sampler = sample(message, seed, Some(nth));
    (sampler.places > nth).then_some(sampler.bytes)
}

fn sample(message: Message, seed: u64, null_at: Option<usize>) -> Sampler {
    let row = schema::find(message.key, message.direction).unwrap();
    let mut sampler = Sampler {
        state: seed,
        version: message.version,
        flexible: message.version >= row.flexible,
        telling: false,
        null_at,
        places: 0,
        bytes: Vec::new(),
    };
    sampler.record(&row.body);
    sampler
}

struct Sampler {
    state: u64,
    version: i16,
    flexible: bool,
    /// Within a known tagged field nothing may have its default, or the encoder leaves the field out.
    telling: bool,
    /// At which of the places where null may not stand it shall.
    null_at: Option<usize>,
    places: usize,
    bytes: Vec<u8>,
}

impl Sampler {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn record(&mut self, record: &'static Record) {
        let version = self.version;
        for field in record
            .fields
            .iter()
            .filter(|f| f.from <= version && version <= f.to)
        {
            self.value(&field.kind);
        }
        if self.flexible {
            self.tags(record);
        }
    }

    fn tags(&mut self, record: &'static Record) {
        let version = self.version;
        let known: Vec<_> = record
            .tags
            .iter()
            .filter(|known| known.field.from <= version)
            .collect();
        let known: Vec<_> = known.into_iter().filter(|_| self.below(2) == 0).collect();
        let unknown = self.below(8).saturating_sub(5);
        self.varint(known.len() as u64 + unknown);
        for field in known {
            let (before, telling) = (std::mem::take(&mut self.bytes), self.telling);
            self.telling = true;
            self.value(&field.field.kind);
            self.telling = telling;
            let value = std::mem::replace(&mut self.bytes, before);
            self.varint(field.tag.into());
            self.varint(value.len() as u64);
            self.bytes.extend(value);
        }
        for tag in 0..unknown {
            self.varint(1000 + tag);
            let length = self.below(4);
            self.varint(length);
            self.fill(length);
        }
    }

    fn value(&mut self, kind: &'static Kind) {
        if matches!(kind, Kind::String | Kind::Bytes | Kind::Array(_)) {
            self.places += 1;
            if self.null_at == Some(self.places - 1) {
                return self.null(kind);
            }
        }
        match kind {
            Kind::Bool => {
                let value = if self.telling { 1 } else { self.below(2) as u8 };
                self.bytes.push(value);
            }
            Kind::I8 => self.integer(1),
            Kind::I16 => self.integer(2),
            Kind::I32 => self.integer(4),
            Kind::I64 => self.integer(8),
            Kind::Uuid => self.integer(16),
            Kind::String => self.string(),
            Kind::Bytes => self.blob(),
            Kind::NullString | Kind::NullBytes | Kind::NullArray(_) if self.is_null() => {
                self.null(kind)
            }
            Kind::NullRecord(_) if self.is_null() => self.bytes.push(0xff),
            Kind::NullString => self.string(),
            Kind::NullBytes => self.blob(),
            Kind::Array(element) | Kind::NullArray(element) => self.array(element),
            Kind::NullRecord(record) => {
                self.bytes.push(1);
                self.record(record);
            }
            Kind::Record(record) => self.record(record),
        }
    }

    fn null(&mut self, kind: &Kind) {
        match kind {
            _ if self.flexible => self.bytes.push(0),
            Kind::String | Kind::NullString => self.bytes.extend([0xff; 2]),
            _ => self.bytes.extend([0xff; 4]),
        }
    }

    fn is_null(&mut self) -> bool {
        !self.telling && self.below(4) == 0
    }

    /// Neither 0 nor -1, which are the defaults.
    fn integer(&mut self, size: u64) {
        let first = 1 + self.below(100) as u8;
        self.bytes.push(first);
        self.fill(size - 1);
    }

    fn fill(&mut self, count: u64) {
        for _ in 0..count {
            let byte = self.next() as u8;
            self.bytes.push(byte);
        }
    }

    fn string(&mut self) {
        let length = u64::from(self.telling) + self.below(6);
        match self.flexible {
            true => self.varint(length + 1),
            false => self.bytes.extend((length as u16).to_be_bytes()),
        }
        for _ in 0..length {
            let letter = b'a' + self.below(26) as u8;
            self.bytes.push(letter);
        }
    }

    fn blob(&mut self) {
        let length = self.below(300);
        self.long_length(length);
        self.fill(length);
    }

    fn array(&mut self, element: &'static Kind) {
        let length = u64::from(self.telling) + self.below(4);
        self.long_length(length);
        for _ in 0..length {
            self.value(element);
        }
    }

    fn long_length(&mut self, length: u64) {
        match self.flexible {
            true => self.varint(length + 1),
            false => self.bytes.extend((length as u32).to_be_bytes()),
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}
