//! The length prefix: four bytes, big-endian, before each request and each response. Knows nothing of what is inside.
//! Upstream counterpart: `NetworkReceive` and `NetworkSend`.

use crate::error::CodecError;
use bytes::buf::Chain;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use thiserror::Error;

/// The default of `socket.request.max.bytes`: 100 MiB.
pub const DEFAULT_LIMIT: usize = 100 * 1024 * 1024;

const PREFIX: usize = 4;
/// How much room is asked for ahead of the bytes of a long frame: a prefix alone must not cost its sender's victim a
/// frame's worth of memory.
const RESERVE: usize = 1024 * 1024;

/// A message ready to write, with its length prefix. The tail may be shared between frames: write the two parts with
/// one vectored write, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    head: Bytes,
    tail: Bytes,
}

impl Frame {
    /// A frame around a payload that was read or encoded elsewhere, without copying it.
    pub fn around(payload: Bytes) -> Result<Frame, CodecError> {
        Frame::build(|_| Ok(()), payload)
    }

    /// A frame whose first part is written by `write` and whose second is `tail`.
    pub(crate) fn build(
        write: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
        tail: Bytes,
    ) -> Result<Frame, CodecError> {
        let mut head = BytesMut::with_capacity(128);
        head.put_i32(0);
        write(&mut head)?;
        let size = head.len() - PREFIX + tail.len();
        let length = i32::try_from(size).map_err(|_| CodecError::FrameTooLarge {
            size,
            limit: i32::MAX as usize,
        })?;
        if let Some(prefix) = head.first_chunk_mut::<PREFIX>() {
            *prefix = length.to_be_bytes();
        }
        Ok(Frame {
            head: head.freeze(),
            tail,
        })
    }

    /// Bytes on the wire, the prefix included.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Never: a frame has its prefix at least.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Both parts, in the order in which they must be written.
    pub fn parts(&self) -> [&Bytes; 2] {
        [&self.head, &self.tail]
    }

    /// To write with `write_all_buf`, which takes both parts at once where the writer can.
    pub fn into_buf(self) -> Chain<Bytes, Bytes> {
        self.head.chain(self.tail)
    }

    /// The whole frame, copied into one piece.
    pub fn to_bytes(&self) -> Bytes {
        if self.tail.is_empty() {
            return self.head.clone();
        }
        [self.head.as_ref(), self.tail.as_ref()].concat().into()
    }
}

/// Splits a stream of bytes into payloads, and writes frames into one.
#[derive(Debug, Clone, Copy)]
pub struct FrameCodec {
    limit: usize,
}

impl Default for FrameCodec {
    fn default() -> Self {
        FrameCodec::with_limit(DEFAULT_LIMIT)
    }
}

impl FrameCodec {
    /// Refuses payloads of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> FrameCodec {
        FrameCodec { limit }
    }

    /// Takes the first payload off `source`, without its prefix, once all of it is there. An error is final: nothing
    /// after it can be told apart.
    pub fn split(&self, source: &mut BytesMut) -> Result<Option<Bytes>, CodecError> {
        let Some(prefix) = source.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*prefix);
        let size =
            usize::try_from(length).map_err(|_| CodecError::FrameLengthNegative { length })?;
        if size > self.limit {
            return Err(CodecError::FrameTooLarge {
                size,
                limit: self.limit,
            });
        }
        let missing = (PREFIX + size).saturating_sub(source.len());
        if missing > 0 {
            source.reserve(missing.min(RESERVE));
            return Ok(None);
        }
        source.advance(PREFIX);
        Ok(Some(source.split_to(size).freeze()))
    }
}

/// Why a framed stream ended. tokio-util demands that a codec's error can carry the socket's.
#[derive(Debug, Error)]
pub enum FramedError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl tokio_util::codec::Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FramedError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FramedError> {
        Ok(self.split(source)?)
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FramedError> {
        match self.split(source)? {
            None if !source.is_empty() => {
                Err(CodecError::FrameCutShort { left: source.len() }.into())
            }
            payload => Ok(payload),
        }
    }
}

impl tokio_util::codec::Encoder<Frame> for FrameCodec {
    type Error = FramedError;

    fn encode(&mut self, frame: Frame, target: &mut BytesMut) -> Result<(), FramedError> {
        target.reserve(frame.len());
        for part in frame.parts() {
            target.put_slice(part);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::codec::{Decoder, Encoder};

    fn stream(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn payloads_come_out_one_by_one_and_a_part_of_one_waits_for_the_rest() {
        let codec = FrameCodec::default();
        let mut source = stream(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 3, 1]);
        assert_eq!(codec.split(&mut source).unwrap().unwrap().as_ref(), [7, 8]);
        assert_eq!(codec.split(&mut source).unwrap().unwrap().as_ref(), []);
        assert_eq!(codec.split(&mut source).unwrap(), None);
        source.put_slice(&[2, 3, 0, 0]);
        assert_eq!(
            codec.split(&mut source).unwrap().unwrap().as_ref(),
            [1, 2, 3]
        );
        assert_eq!(codec.split(&mut source).unwrap(), None);
        assert_eq!(source.as_ref(), [0, 0]);
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_by_its_prefix_alone() {
        let codec = FrameCodec::with_limit(10);
        let refused = codec.split(&mut stream(&[0, 0, 0, 11])).unwrap_err();
        assert_eq!(
            refused,
            CodecError::FrameTooLarge {
                size: 11,
                limit: 10
            }
        );
        assert_eq!(
            refused.to_string(),
            "a frame of 11 bytes is over the limit of 10"
        );
        assert_eq!(codec.split(&mut stream(&[0, 0, 0, 10])), Ok(None));
    }

    #[test]
    fn a_negative_length_is_refused() {
        let refused = FrameCodec::default()
            .split(&mut stream(&[255, 255, 255, 255]))
            .unwrap_err();
        assert_eq!(refused, CodecError::FrameLengthNegative { length: -1 });
    }

    #[test]
    fn a_prefix_alone_does_not_reserve_a_whole_frame() {
        let mut source = stream(&[6, 0, 0, 0]);
        assert_eq!(FrameCodec::default().split(&mut source), Ok(None));
        assert!(
            source.capacity() <= 2 * RESERVE,
            "{} bytes",
            source.capacity()
        );
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_is_an_error_and_at_its_end_is_none() {
        let mut codec = FrameCodec::default();
        assert!(codec.decode_eof(&mut stream(&[])).unwrap().is_none());
        let error = codec.decode_eof(&mut stream(&[0, 0, 0, 9, 1])).unwrap_err();
        assert!(
            matches!(
                error,
                FramedError::Codec(CodecError::FrameCutShort { left: 5 })
            ),
            "{error}"
        );
    }

    #[test]
    fn a_written_frame_is_split_into_its_payload_again() {
        let mut codec = FrameCodec::default();
        let two_parts = Frame::build(
            |head| {
                head.put_slice(b"head ");
                Ok(())
            },
            Bytes::from_static(b"tail"),
        );
        let mut wire = BytesMut::new();
        codec.encode(two_parts.clone().unwrap(), &mut wire).unwrap();
        codec
            .encode(
                Frame::around(Bytes::from_static(b"relayed")).unwrap(),
                &mut wire,
            )
            .unwrap();
        assert_eq!(two_parts.unwrap().to_bytes(), wire[..13]);
        assert_eq!(
            codec.decode(&mut wire).unwrap().unwrap().as_ref(),
            b"head tail"
        );
        assert_eq!(
            codec.decode(&mut wire).unwrap().unwrap().as_ref(),
            b"relayed"
        );
        assert!(wire.is_empty());
    }
}
