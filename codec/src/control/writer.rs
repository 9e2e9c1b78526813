//! Kafka's primitive types, appended to one buffer. Knows of a version only whether it is flexible: then lengths are
//! varints of one more, and each struct ends with its (here always empty) tagged fields.

use super::Since;
use crate::error::{CodecError, Message};
use crate::request::not_encodable;
use bytes::Bytes;

pub(super) struct Writer {
    pub message: Message,
    flexible: bool,
    buffer: Vec<u8>,
}

impl Writer {
    /// `capacity`: about how many bytes will come.
    pub fn new(message: Message, capacity: usize) -> Writer {
        let flexible = message.version >= Since::of(message.key).flexible;
        Writer {
            message,
            flexible,
            buffer: Vec::with_capacity(capacity),
        }
    }

    pub fn finish(self) -> Bytes {
        self.buffer.into()
    }

    /// Integers that are already big-endian, or anything else of a fixed form.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub fn bool(&mut self, value: bool) {
        self.buffer.push(value.into());
    }

    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// Four integers at once.
    pub fn four(&mut self, values: [i32; 4]) {
        self.raw(values.map(i32::to_be_bytes).as_flattened());
    }

    /// The number of elements of an array that follow.
    pub fn count(&mut self, count: usize) -> Result<(), CodecError> {
        match i32::try_from(count) {
            Ok(count) if !self.flexible => self.i32(count),
            Ok(count) => self.varint(count as u32 + 1),
            Err(_) => {
                return Err(not_encodable(
                    self.message,
                    format!("an array of {count} elements"),
                ));
            }
        }
        Ok(())
    }

    /// Room for a count that [`Writer::fill_count`] will put there. Only versions that are not flexible have counts of
    /// a fixed size.
    pub fn leave_count(&mut self) -> usize {
        let at = self.buffer.len();
        self.i32(0);
        at
    }

    pub fn fill_count(&mut self, at: usize, count: usize) -> Result<(), CodecError> {
        let count = i32::try_from(count)
            .map_err(|_| not_encodable(self.message, format!("an array of {count} elements")))?;
        if let Some(room) = self.buffer.get_mut(at..at + 4) {
            room.copy_from_slice(&count.to_be_bytes());
        }
        Ok(())
    }

    /// Room for a byte that [`Writer::fill_byte`] will put there.
    pub fn leave_byte(&mut self) -> usize {
        self.buffer.push(0);
        self.buffer.len() - 1
    }

    pub fn fill_byte(&mut self, at: usize, value: u8) {
        if let Some(room) = self.buffer.get_mut(at) {
            *room = value;
        }
    }

    pub fn i32s(&mut self, values: &[i32]) -> Result<(), CodecError> {
        self.count(values.len())?;
        for value in values {
            self.raw(&value.to_be_bytes());
        }
        Ok(())
    }

    pub fn string(&mut self, value: &str) -> Result<(), CodecError> {
        if self.flexible {
            self.count(value.len())?;
        } else {
            let length = i16::try_from(value.len()).map_err(|_| {
                not_encodable(self.message, format!("a string of {} bytes", value.len()))
            })?;
            self.i16(length);
        }
        self.raw(value.as_bytes());
        Ok(())
    }

    pub fn nullable_string(&mut self, value: Option<&str>) -> Result<(), CodecError> {
        match value {
            Some(value) => self.string(value)?,
            None if self.flexible => self.buffer.push(0),
            None => self.i16(-1),
        }
        Ok(())
    }

    /// The end of a struct.
    pub fn end(&mut self) {
        if self.flexible {
            self.buffer.push(0);
        }
    }

    /// What was announced must have come, or all that follows would be read askew.
    pub fn counted(
        &self,
        field: &'static str,
        announced: usize,
        given: usize,
    ) -> Result<(), CodecError> {
        if announced == given {
            Ok(())
        } else {
            Err(CodecError::Miscounted {
                message: self.message,
                field,
                announced,
                given,
            })
        }
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.push(value as u8);
    }
}
