//! Requests: the header, which can be read whatever the key, and the body, of the APIs in the guard's table. Upstream
//! counterpart: `RequestHeader` and `RequestContext.parseRequest`.

use crate::api_key::ApiKey;
use crate::error::{CodecError, Message, Place};
use crate::frame::Frame;
use crate::guard::{self, Guarded};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader as WireHeader;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use std::fmt::Debug;

/// An API, named by its request type in [`crate::messages`]: `decode_request::<MetadataRequest>(..)`.
pub trait Api: Sized {
    const KEY: ApiKey;
    type Response: Debug + Clone + PartialEq + Default + Send + Sync + 'static;

    #[doc(hidden)]
    fn encode(&self, version: i16, target: &mut BytesMut) -> Result<(), CodecError>;
    #[doc(hidden)]
    fn decode(body: Guarded) -> Result<Self, CodecError>;
    #[doc(hidden)]
    fn encode_response(
        response: &Self::Response,
        version: i16,
        target: &mut BytesMut,
    ) -> Result<(), CodecError>;
    #[doc(hidden)]
    fn decode_response(body: Guarded) -> Result<Self::Response, CodecError>;
    #[doc(hidden)]
    fn request_header_version(version: i16) -> i16;
    #[doc(hidden)]
    fn response_header_version(version: i16) -> i16;
}

impl<R> Api for R
where
    R: Request,
    R::Response: Debug + Clone + PartialEq + Default + Send + Sync + 'static,
{
    const KEY: ApiKey = ApiKey(R::KEY);
    type Response = R::Response;

    fn encode(&self, version: i16, target: &mut BytesMut) -> Result<(), CodecError> {
        let message = Message::request(ApiKey(R::KEY), version);
        Encodable::encode(self, target, version).map_err(|error| not_encodable(message, error))
    }

    fn decode(body: Guarded) -> Result<Self, CodecError> {
        decode_guarded(body)
    }

    fn encode_response(
        response: &R::Response,
        version: i16,
        target: &mut BytesMut,
    ) -> Result<(), CodecError> {
        let message = Message::response(ApiKey(R::KEY), version);
        Encodable::encode(response, target, version).map_err(|error| not_encodable(message, error))
    }

    fn decode_response(body: Guarded) -> Result<R::Response, CodecError> {
        decode_guarded(body)
    }

    fn request_header_version(version: i16) -> i16 {
        R::header_version(version)
    }

    fn response_header_version(version: i16) -> i16 {
        R::Response::header_version(version)
    }
}

/// The only place where kafka-protocol decodes a body.
fn decode_guarded<T: Decodable>(body: Guarded) -> Result<T, CodecError> {
    let (message, mut bytes) = body.into_parts();
    let decoded =
        T::decode(&mut bytes, message.version).map_err(|error| CodecError::Malformed {
            message,
            detail: error.to_string(),
        })?;
    match bytes.len() {
        0 => Ok(decoded),
        left => Err(CodecError::Malformed {
            message,
            detail: format!("{left} bytes were left over"),
        }),
    }
}

pub(crate) fn not_encodable(message: Message, error: impl ToString) -> CodecError {
    CodecError::NotEncodable {
        message,
        detail: error.to_string(),
    }
}

/// What stands at the beginning of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    pub key: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    /// None if the client sent null, or none (ControlledShutdown v0).
    pub client_id: Option<String>,
    /// Where the header's tagged fields begin, or else the body.
    size: usize,
}

impl RequestHeader {
    /// The request that this heads.
    pub fn message(&self) -> Message {
        Message::request(self.key, self.version)
    }
}

/// Reads the header of a payload (a frame without its length prefix). Does not touch the body, so that a request of an
/// unknown key or version can still be named, and answered where there is an answer.
pub fn parse_header(payload: &Bytes) -> Result<RequestHeader, CodecError> {
    let mut reader = HeaderReader {
        payload,
        at: 0,
        message: Message::request(ApiKey(-1), -1),
    };
    let key = ApiKey(i16::from_be_bytes(reader.fixed("api key")?));
    reader.message.key = key;
    let version = i16::from_be_bytes(reader.fixed("api version")?);
    reader.message.version = version;
    let correlation_id = i32::from_be_bytes(reader.fixed("correlation id")?);
    let client_id = match (key, version) {
        // Brokers before 0.9 asked for their shutdown under the oldest of headers.
        (ApiKey::CONTROLLED_SHUTDOWN, 0) => None,
        _ => reader.client_id()?,
    };
    Ok(RequestHeader {
        key,
        version,
        correlation_id,
        client_id,
        size: reader.at,
    })
}

struct HeaderReader<'a> {
    payload: &'a Bytes,
    at: usize,
    message: Message,
}

impl HeaderReader<'_> {
    fn place(&self, field: &'static str) -> Place {
        Place {
            message: self.message,
            field,
            offset: self.at,
        }
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CodecError> {
        let left = self.payload.len() - self.at;
        let bytes = self
            .payload
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or(CodecError::Short {
            at: self.place(field),
            needed: N as u64,
            left,
        })?;
        self.at += N;
        Ok(bytes)
    }

    fn client_id(&mut self) -> Result<Option<String>, CodecError> {
        const FIELD: &str = "client id";
        let at = self.place(FIELD);
        let length = i16::from_be_bytes(self.fixed(FIELD)?);
        let length = match usize::try_from(length) {
            Ok(length) => length,
            Err(_) if length == -1 => return Ok(None),
            Err(_) => {
                return Err(CodecError::LengthNegative {
                    at,
                    length: length.into(),
                });
            }
        };
        let left = self.payload.len() - self.at;
        let bytes = self.payload.get(self.at..self.at + length);
        let bytes = bytes.ok_or(CodecError::Short {
            at,
            needed: length as u64,
            left,
        })?;
        let text = std::str::from_utf8(bytes).map_err(|_| CodecError::NotUtf8 { at })?;
        self.at += length;
        Ok(Some(text.to_owned()))
    }
}

/// Decodes the body of a payload whose header was read with [`parse_header`].
pub fn decode_request<A: Api>(header: &RequestHeader, payload: &Bytes) -> Result<A, CodecError> {
    if header.key != A::KEY {
        return Err(CodecError::WrongApi {
            wanted: A::KEY,
            got: header.key,
        });
    }
    A::decode(guard::check(header.message(), body(header, payload)?)?)
}

/// The bytes after the header.
pub(crate) fn body(header: &RequestHeader, payload: &Bytes) -> Result<Bytes, CodecError> {
    let message = header.message();
    let mut rest = payload.clone();
    if header.size > rest.len() {
        let at = Place {
            message,
            field: "header",
            offset: 0,
        };
        return Err(CodecError::Short {
            at,
            needed: header.size as u64,
            left: rest.len(),
        });
    }
    let mut rest = rest.split_off(header.size);
    if guard::is_flexible(message)? {
        let tags = guard::header_tags(message, &rest)?;
        rest = rest.split_off(tags);
    }
    Ok(rest)
}

/// Encodes a request with its header and its length prefix: ready to write.
pub fn encode_request<A: Api>(
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &A,
) -> Result<Frame, CodecError> {
    Frame::build(
        |target| {
            put_header(
                target,
                Message::request(A::KEY, version),
                A::request_header_version(version),
                correlation_id,
                client_id,
            )?;
            request.encode(version, target)
        },
        Bytes::new(),
    )
}

pub(crate) fn put_header(
    target: &mut BytesMut,
    message: Message,
    header_version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<(), CodecError> {
    WireHeader::default()
        .with_request_api_key(message.key.0)
        .with_request_api_version(message.version)
        .with_correlation_id(correlation_id)
        .with_client_id(client_id.map(|id| StrBytes::from_string(id.to_owned())))
        .encode(target, header_version)
        .map_err(|error| not_encodable(message, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use kafka_protocol::messages::{
        ApiVersionsRequest, ControlledShutdownRequest, MetadataRequest,
    };

    fn payload(frame: Frame) -> Bytes {
        frame.to_bytes().slice(4..)
    }

    #[test]
    fn a_request_comes_back_as_it_was_sent() {
        let sent = ControlledShutdownRequest::default()
            .with_broker_id(7.into())
            .with_broker_epoch(99);
        for (version, epoch) in [(0, -1), (1, -1), (2, 99), (3, 99)] {
            let payload = payload(encode_request(version, 5, Some("broker-7"), &sent).unwrap());
            let header = parse_header(&payload).unwrap();
            assert_eq!(
                (header.key, header.version, header.correlation_id),
                (ApiKey::CONTROLLED_SHUTDOWN, version, 5)
            );
            assert_eq!(
                header.client_id.as_deref(),
                (version > 0).then_some("broker-7")
            );
            let got: ControlledShutdownRequest = decode_request(&header, &payload).unwrap();
            assert_eq!((got.broker_id.0, got.broker_epoch), (7, epoch));
        }
    }

    #[test]
    fn the_length_prefix_counts_what_follows_it() {
        let frame = encode_request(2, 1, None, &ApiVersionsRequest::default()).unwrap();
        assert_eq!(
            frame.to_bytes().as_ref(),
            [0, 0, 0, 10, 0, 18, 0, 2, 0, 0, 0, 1, 255, 255]
        );
    }

    #[test]
    fn the_header_of_an_unknown_key_or_version_can_be_read() {
        let mut bytes = BytesMut::new();
        bytes.put_slice(&[3, 231, 0, 42, 0, 0, 0, 9, 0, 2, b'm', b'e', 250, 250]);
        let payload = bytes.freeze();
        let header = parse_header(&payload).unwrap();
        assert_eq!(
            (header.key, header.version, header.correlation_id),
            (ApiKey(999), 42, 9)
        );
        assert_eq!(header.client_id.as_deref(), Some("me"));

        let mut payload = payload.to_vec();
        payload[..2].copy_from_slice(&[0, 18]);
        let payload = Bytes::from(payload);
        let header = parse_header(&payload).unwrap();
        let refused = decode_request::<ApiVersionsRequest>(&header, &payload).unwrap_err();
        assert_eq!(
            refused,
            CodecError::UnsupportedVersion {
                message: Message::request(ApiKey::API_VERSIONS, 42),
                min: 0,
                max: 4
            }
        );
    }

    #[test]
    fn tagged_fields_of_a_header_are_skipped() {
        let payload =
            payload(encode_request(3, 1, Some("c"), &ApiVersionsRequest::default()).unwrap());
        let header = parse_header(&payload).unwrap();
        let mut tagged = payload[..11].to_vec();
        tagged.extend_from_slice(&[1, 5, 2, 0xaa, 0xbb]);
        tagged.extend_from_slice(&payload[12..]);
        assert_eq!(payload[11], 0, "no tagged fields, as encoded");
        decode_request::<ApiVersionsRequest>(&header, &Bytes::from(tagged.clone())).unwrap();

        tagged[13] = 200;
        let refused =
            decode_request::<ApiVersionsRequest>(&header, &Bytes::from(tagged)).unwrap_err();
        assert!(matches!(refused, CodecError::Short { .. }), "{refused}");
    }

    #[test]
    fn a_header_cut_short_names_what_is_missing() {
        let error = parse_header(&Bytes::from_static(&[0, 3, 0, 9, 0, 0])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Metadata request v9, correlation id at byte 4: 4 bytes are needed and 2 are left"
        );
        let error =
            parse_header(&Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 1, 0, 5, b'x'])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Metadata request v9, client id at byte 8: 5 bytes are needed and 1 are left"
        );
    }

    #[test]
    fn a_client_id_must_be_text_of_a_real_length() {
        let error =
            parse_header(&Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 1, 255, 254])).unwrap_err();
        assert!(
            matches!(error, CodecError::LengthNegative { length: -2, .. }),
            "{error}"
        );
        let error =
            parse_header(&Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 1, 0, 1, 0xff])).unwrap_err();
        assert!(matches!(error, CodecError::NotUtf8 { .. }), "{error}");
    }

    #[test]
    fn a_request_is_not_decoded_as_another() {
        let payload = payload(encode_request(1, 1, None, &ApiVersionsRequest::default()).unwrap());
        let error = decode_request::<MetadataRequest>(&parse_header(&payload).unwrap(), &payload)
            .unwrap_err();
        assert_eq!(
            error,
            CodecError::WrongApi {
                wanted: ApiKey::METADATA,
                got: ApiKey::API_VERSIONS
            }
        );
    }

    #[test]
    fn a_request_that_its_version_cannot_carry_is_not_encoded() {
        let metadata = MetadataRequest::default().with_include_topic_authorized_operations(true);
        let error = encode_request(1, 1, None, &metadata).unwrap_err();
        assert!(matches!(error, CodecError::NotEncodable { .. }), "{error}");
        assert!(
            error
                .to_string()
                .starts_with("Metadata request v1: cannot be encoded: "),
            "{error}"
        );
    }

    #[test]
    fn a_header_of_another_payload_does_not_reach_past_the_end() {
        let payload = payload(
            encode_request(
                1,
                1,
                Some("a long client id"),
                &ApiVersionsRequest::default(),
            )
            .unwrap(),
        );
        let header = parse_header(&payload).unwrap();
        let error = decode_request::<ApiVersionsRequest>(&header, &payload.slice(..9)).unwrap_err();
        assert!(matches!(error, CodecError::Short { .. }), "{error}");
    }
}
