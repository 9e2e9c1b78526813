//! The requests of one connection that have no answer yet. Brokers answer in the order of the requests, so the oldest is
//! the only one that a response can belong to. Upstream counterpart: `InFlightRequests`.

use crate::api_key::ApiKey;
use crate::error::{CodecError, Message};
use crate::response::correlation_id;
use bytes::Bytes;
use std::collections::VecDeque;

/// A request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    pub correlation_id: i32,
    pub key: ApiKey,
    pub version: i16,
}

/// Requests on their way, oldest first, each with whatever its sender wants back with the answer.
#[derive(Debug)]
pub struct Pending<T> {
    next_correlation_id: i32,
    limit: usize,
    requests: VecDeque<(InFlight, T)>,
}

impl<T> Pending<T> {
    /// At most `limit` requests may be unanswered at a time.
    pub fn with_limit(limit: usize) -> Pending<T> {
        Pending {
            next_correlation_id: 0,
            limit,
            requests: VecDeque::new(),
        }
    }

    /// Puts a request last in the queue; it must be written with the correlation id of the result.
    pub fn register(
        &mut self,
        key: ApiKey,
        version: i16,
        sender: T,
    ) -> Result<InFlight, CodecError> {
        if self.requests.len() >= self.limit {
            return Err(CodecError::TooManyInFlight {
                key,
                version,
                limit: self.limit,
            });
        }
        let correlation_id = self.next_correlation_id;
        // Correlation ids are never negative, as in Java's client.
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        let request = InFlight {
            correlation_id,
            key,
            version,
        };
        self.requests.push_back((request, sender));
        Ok(request)
    }

    /// Takes the request that this response payload answers: the oldest. On an error the connection is of no more use.
    pub fn complete(&mut self, payload: &Bytes) -> Result<(InFlight, T), CodecError> {
        let got = correlation_id(payload)?;
        match self.requests.front() {
            None => Err(CodecError::ResponseUnexpected { got }),
            Some((oldest, _)) if oldest.correlation_id != got => {
                Err(CodecError::CorrelationMismatch {
                    message: Message::response(oldest.key, oldest.version),
                    expected: oldest.correlation_id,
                    got,
                })
            }
            Some(_) => self
                .requests
                .pop_front()
                .ok_or(CodecError::ResponseUnexpected { got }),
        }
    }

    /// The request that is due next.
    pub fn oldest(&self) -> Option<(&InFlight, &T)> {
        self.requests
            .front()
            .map(|(request, sender)| (request, sender))
    }

    /// What has no answer, oldest first, for when the connection is lost.
    pub fn drain(&mut self) -> impl Iterator<Item = (InFlight, T)> + '_ {
        self.requests.drain(..)
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(correlation_id: i32) -> Bytes {
        Bytes::copy_from_slice(&correlation_id.to_be_bytes())
    }

    fn three() -> Pending<&'static str> {
        let mut pending = Pending::with_limit(3);
        for (version, sender) in [(4, "first"), (5, "second"), (6, "third")] {
            pending
                .register(ApiKey::LEADER_AND_ISR, version, sender)
                .unwrap();
        }
        pending
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut pending = three();
        for (correlation_id, version, sender) in
            [(0, 4, "first"), (1, 5, "second"), (2, 6, "third")]
        {
            let answered = pending.complete(&response(correlation_id)).unwrap();
            assert_eq!(
                answered,
                (
                    InFlight {
                        correlation_id,
                        key: ApiKey::LEADER_AND_ISR,
                        version
                    },
                    sender
                )
            );
        }
        assert!(pending.is_empty());
    }

    #[test]
    fn an_answer_to_anything_but_the_oldest_is_an_error() {
        let error = three().complete(&response(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a response with correlation id 1 arrived while 0 (LeaderAndIsr response v4) was due"
        );
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_an_error() {
        let error = Pending::<()>::with_limit(1)
            .complete(&response(9))
            .unwrap_err();
        assert_eq!(error, CodecError::ResponseUnexpected { got: 9 });
    }

    #[test]
    fn no_more_requests_than_the_limit_are_taken() {
        let mut pending = three();
        let error = pending
            .register(ApiKey::STOP_REPLICA, 1, "fourth")
            .unwrap_err();
        assert_eq!(
            error,
            CodecError::TooManyInFlight {
                key: ApiKey::STOP_REPLICA,
                version: 1,
                limit: 3
            }
        );
        pending.complete(&response(0)).unwrap();
        assert_eq!(
            pending
                .register(ApiKey::STOP_REPLICA, 1, "fourth")
                .unwrap()
                .correlation_id,
            3
        );
    }

    #[test]
    fn correlation_ids_start_again_before_they_turn_negative() {
        let mut pending = Pending {
            next_correlation_id: i32::MAX,
            limit: 2,
            requests: VecDeque::new(),
        };
        assert_eq!(
            pending
                .register(ApiKey::METADATA, 1, ())
                .unwrap()
                .correlation_id,
            i32::MAX
        );
        assert_eq!(
            pending
                .register(ApiKey::METADATA, 1, ())
                .unwrap()
                .correlation_id,
            0
        );
    }

    #[test]
    fn a_lost_connection_gives_its_requests_back_in_order() {
        let senders: Vec<_> = three().drain().map(|(_, sender)| sender).collect();
        assert_eq!(senders, ["first", "second", "third"]);
    }
}
