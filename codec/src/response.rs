//! Responses: a header with the correlation id, and a body that can be decoded only with the key and version of its
//! request, which [`crate::pending`] keeps. Upstream counterpart: `ResponseHeader` and `AbstractResponse.parseResponse`.

use crate::api_key::ApiKey;
use crate::error::{CodecError, Message};
use crate::frame::Frame;
use crate::guard;
use crate::request::{Api, not_encodable};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader};
use kafka_protocol::protocol::Encodable;

/// Kafka's error code for a version that the broker does not know.
pub(crate) const UNSUPPORTED_VERSION: i16 = 35;

/// The correlation id of a response payload (a frame without its length prefix).
pub fn correlation_id(payload: &Bytes) -> Result<i32, CodecError> {
    let bytes = payload
        .first_chunk::<4>()
        .ok_or(CodecError::NoCorrelationId {
            left: payload.len(),
        })?;
    Ok(i32::from_be_bytes(*bytes))
}

/// Decodes the body of a response payload; `version` is that of its request. Whether it answers the right request is
/// for [`crate::pending::Pending::complete`] to say.
pub fn decode_response<A: Api>(version: i16, payload: &Bytes) -> Result<A::Response, CodecError> {
    let message = Message::response(A::KEY, version);
    A::decode_response(guard::check(message, body::<A>(message, payload)?)?)
}

fn body<A: Api>(message: Message, payload: &Bytes) -> Result<Bytes, CodecError> {
    let has_tags = A::response_header_version(message.version) >= 1;
    after_header(message, payload, has_tags)
}

/// The bytes after the header, of any message in the guard's table.
pub(crate) fn tagged_body(message: Message, payload: &Bytes) -> Result<Bytes, CodecError> {
    // ApiVersions answers under the oldest header, for clients that can't know better yet.
    let has_tags = guard::is_flexible(message)? && message.key != ApiKey::API_VERSIONS;
    after_header(message, payload, has_tags)
}

fn after_header(message: Message, payload: &Bytes, has_tags: bool) -> Result<Bytes, CodecError> {
    correlation_id(payload)?;
    let mut rest = payload.slice(4..);
    if has_tags {
        let tags = guard::header_tags(message, &rest)?;
        rest = rest.split_off(tags);
    }
    Ok(rest)
}

/// The two bytes after the correlation id, where many answers have their error code.
pub(crate) fn error_code_in_front(payload: &Bytes) -> Option<i16> {
    payload
        .get(4..)
        .and_then(|body| body.first_chunk::<2>())
        .map(|code| i16::from_be_bytes(*code))
}

/// Decodes the answer to an ApiVersions request of `version`. A broker that does not know this version answers as to
/// version 0, with error code 35: that comes back as a response whose `error_code` says so, and the request should be
/// made again with version 0 (KIP-511: or with what the response says of ApiVersions itself).
pub fn decode_api_versions(
    version: i16,
    payload: &Bytes,
) -> Result<ApiVersionsResponse, CodecError> {
    let version = if error_code_in_front(payload) == Some(UNSUPPORTED_VERSION) {
        0
    } else {
        version
    };
    decode_response::<ApiVersionsRequest>(version, payload)
}

/// Encodes a response with its header and its length prefix: ready to write.
pub fn encode_response<A: Api>(
    version: i16,
    correlation_id: i32,
    response: &A::Response,
) -> Result<Frame, CodecError> {
    Frame::build(
        |target| {
            put_header::<A>(target, version, correlation_id)?;
            A::encode_response(response, version, target)
        },
        Bytes::new(),
    )
}

fn put_header<A: Api>(
    target: &mut BytesMut,
    version: i16,
    correlation_id: i32,
) -> Result<(), CodecError> {
    ResponseHeader::default()
        .with_correlation_id(correlation_id)
        .encode(target, A::response_header_version(version))
        .map_err(|error| not_encodable(Message::response(A::KEY, version), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::api_versions_response::ApiVersion;
    use kafka_protocol::messages::{
        AllocateProducerIdsRequest, AllocateProducerIdsResponse, ControlledShutdownRequest,
    };
    use kafka_protocol::messages::{ControlledShutdownResponse, LeaderAndIsrRequest};

    fn payload(frame: Frame) -> Bytes {
        frame.to_bytes().slice(4..)
    }

    #[test]
    fn a_response_comes_back_as_it_was_sent() {
        let sent = ControlledShutdownResponse::default().with_error_code(11);
        for version in 0..=3 {
            let payload =
                payload(encode_response::<ControlledShutdownRequest>(version, 77, &sent).unwrap());
            assert_eq!(correlation_id(&payload), Ok(77));
            assert_eq!(
                decode_response::<ControlledShutdownRequest>(version, &payload).unwrap(),
                sent
            );
        }
    }

    #[test]
    fn api_versions_has_the_oldest_header_in_every_version_and_others_follow_the_body() {
        let frame =
            encode_response::<ApiVersionsRequest>(3, 1, &ApiVersionsResponse::default()).unwrap();
        assert_eq!(
            frame.to_bytes()[4..10],
            [0, 0, 0, 1, 0, 0],
            "error code right after the correlation id"
        );
        let answer = AllocateProducerIdsResponse::default().with_error_code(7);
        let frame = encode_response::<AllocateProducerIdsRequest>(0, 1, &answer).unwrap();
        assert_eq!(
            frame.to_bytes()[4..9],
            [0, 0, 0, 1, 0],
            "tagged fields after the correlation id"
        );
    }

    #[test]
    fn an_older_brokers_answer_to_a_newer_api_versions_request_is_understood() {
        let answer = ApiVersionsResponse::default()
            .with_error_code(35)
            .with_api_keys(vec![
                ApiVersion::default().with_api_key(18).with_max_version(2),
            ]);
        let payload = payload(encode_response::<ApiVersionsRequest>(0, 1, &answer).unwrap());
        assert_eq!(decode_api_versions(3, &payload).unwrap(), answer);

        let answer = answer.with_error_code(0);
        let payload = encode_response::<ApiVersionsRequest>(3, 1, &answer)
            .unwrap()
            .to_bytes()
            .slice(4..);
        assert_eq!(decode_api_versions(3, &payload).unwrap(), answer);
    }

    #[test]
    fn a_response_too_short_for_a_correlation_id_is_an_error() {
        let error =
            decode_response::<LeaderAndIsrRequest>(4, &Bytes::from_static(&[0, 0, 1])).unwrap_err();
        assert_eq!(error, CodecError::NoCorrelationId { left: 3 });
    }

    #[test]
    fn bytes_after_the_end_are_an_error() {
        let sent = ControlledShutdownResponse::default();
        let frame = encode_response::<ControlledShutdownRequest>(1, 77, &sent).unwrap();
        let mut longer = payload(frame).to_vec();
        longer.push(0);
        let error =
            decode_response::<ControlledShutdownRequest>(1, &Bytes::from(longer)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ControlledShutdown response v1: 1 bytes follow the end of the message, at byte 6"
        );
    }
}
