//! A connection to a genuine broker, paired with one client's: what any node may answer goes through it, byte by byte.
//!
//! The pair dials the listener of the same name as the client's, because answers name the addresses of the listener that
//! they were asked on, and it is the client's own: never shared, never klamm's connection to the broker. It is asked
//! first what it understands, for the broker may be of an older release than all that were known when the client was
//! told which versions to use. One request is on it at a time, as a broker takes no more from a connection either. An
//! answer is passed on as it comes, so that a long one (the metadata of a big cluster) costs no memory here, and a slow
//! client slows the broker's sending, not us.
//! Must never decode what it carries, and never outlive its client or be replaced under it.
//! Upstream: none; a genuine broker answers such requests itself.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use klamm_codec::messages::ApiVersionsRequest;
use klamm_codec::request::encode_request;
use klamm_codec::response::decode_api_versions;
use klamm_codec::version::BrokerVersions;
use klamm_codec::{ApiKey, CodecError, Frame, FrameCodec, RequestHeader};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::model::{BrokerId, Endpoint, SecurityProtocol};
use crate::state::ControllerSnapshot;

/// How long one broker may take to accept and to say what it understands before the next is tried: all of them within a client's patience of 30 s.
const SETUP_TIMEOUT: Duration = Duration::from_secs(3);
/// A host that vanished without closing its connections is noticed after so long.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle pair is probed after so long, and then as often.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How much of an answer is held at a time.
const CHUNK: usize = 64 * 1024;
/// ApiVersions in the version that every broker takes.
const VERSIONS_VERSION: i16 = 0;
/// Under what name the broker is asked for its versions; all else comes under the client's own.
const CLIENT_ID: &str = "klamm";
/// The length prefix and the correlation id.
const HEAD: usize = 8;
const PREFIX: usize = 4;

/// Why there is no pair, or no longer.
#[derive(Debug, thiserror::Error)]
pub(super) enum PairError {
    #[error("no live broker has a listener named {listener}")]
    NoBroker { listener: Arc<str> },
    #[error("none of {tried} brokers could be reached, the last at {endpoint}: {source}")]
    Unreachable {
        tried: usize,
        endpoint: Endpoint,
        source: io::Error,
    },
    #[error(
        "the client was told that it may use versions of {key} which broker {broker} doesn't understand, nor do the others \
         that could be reached"
    )]
    NotAsPromised { broker: BrokerId, key: ApiKey },
    #[error("broker {broker} doesn't understand version {version} of {key}")]
    NotUnderstood {
        broker: BrokerId,
        key: ApiKey,
        version: i16,
    },
    #[error("broker {broker} closed the connection")]
    Closed { broker: BrokerId },
    #[error("the connection to broker {broker} failed: {source}")]
    Broken { broker: BrokerId, source: io::Error },
    #[error("broker {broker} sent bytes that nobody had asked for")]
    Unasked { broker: BrokerId },
    #[error(
        "broker {broker} answered with length {length} and correlation id {got} to the request {expected}"
    )]
    NotTheAnswer {
        broker: BrokerId,
        length: i32,
        got: i32,
        expected: i32,
    },
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Who may be paired with a client of this listener: genuine live brokers, beginning with another one each `turn`.
pub(super) fn candidates(
    snapshot: &ControllerSnapshot,
    own_id: BrokerId,
    listener: &str,
    turn: usize,
) -> Vec<(BrokerId, Endpoint)> {
    let genuine = snapshot
        .brokers
        .iter()
        .map(|registration| &registration.broker);
    let reachable = genuine
        .filter(|broker| broker.id != own_id)
        .filter_map(|broker| {
            let endpoint = broker.endpoint(listener)?;
            let plain = endpoint.security_protocol == SecurityProtocol::Plaintext;
            plain.then(|| (broker.id, endpoint.clone()))
        });
    let mut candidates: Vec<_> = reachable.collect();
    if let Some(first) = turn.checked_rem(candidates.len()) {
        candidates.rotate_left(first);
    }
    candidates
}

/// One paired connection.
#[derive(Debug)]
pub(super) struct Pair {
    broker: BrokerId,
    versions: BrokerVersions,
    stream: TcpStream,
}

impl Pair {
    /// Connects to the first candidate that accepts and understands all that was `promised`.
    pub(super) async fn open(
        listener: &Arc<str>,
        candidates: Vec<(BrokerId, Endpoint)>,
        promised: &BTreeMap<ApiKey, (i16, i16)>,
    ) -> Result<Pair, PairError> {
        let tried = candidates.len();
        let mut failure = PairError::NoBroker {
            listener: Arc::clone(listener),
        };
        for (broker, endpoint) in candidates {
            let dialled = match timeout(SETUP_TIMEOUT, dial(&endpoint)).await {
                Ok(dialled) => dialled,
                Err(late) => Err(late.into()),
            };
            match dialled {
                Ok((stream, versions)) => match not_understood(&versions, promised) {
                    None => {
                        return Ok(Pair {
                            broker,
                            versions,
                            stream,
                        });
                    }
                    Some(key) => failure = PairError::NotAsPromised { broker, key },
                },
                Err(source) => {
                    failure = PairError::Unreachable {
                        tried,
                        endpoint,
                        source,
                    }
                }
            }
        }
        Err(failure)
    }

    /// What the broker at the other end understands.
    pub(super) fn versions(&self) -> &BrokerVersions {
        &self.versions
    }

    /// Passes a request on and waits for the beginning of its answer.
    pub(super) async fn ask(
        &mut self,
        header: &RequestHeader,
        request: Bytes,
    ) -> Result<RelayedAnswer, PairError> {
        let (broker, correlation_id) = (self.broker, header.correlation_id);
        if !self.versions.understands(header.key, header.version) {
            return Err(PairError::NotUnderstood {
                broker,
                key: header.key,
                version: header.version,
            });
        }
        let broken = |source| PairError::Broken { broker, source };
        let mut request = Frame::around(request)?.into_buf();
        self.stream
            .write_all_buf(&mut request)
            .await
            .map_err(broken)?;
        drop(request);
        let mut arrived = BytesMut::with_capacity(CHUNK);
        while arrived.len() < HEAD {
            if self.stream.read_buf(&mut arrived).await.map_err(broken)? == 0 {
                return Err(PairError::Closed { broker });
            }
        }
        let mut head = arrived.as_ref();
        let (length, got) = (head.get_i32(), head.get_i32());
        let all = usize::try_from(length)
            .ok()
            .filter(|length| *length >= HEAD - PREFIX);
        match all {
            Some(length) if got == correlation_id => Ok(RelayedAnswer {
                arrived,
                missing: PREFIX + length,
            }),
            _ => Err(PairError::NotTheAnswer {
                broker,
                length,
                got,
                expected: correlation_id,
            }),
        }
    }

    /// The next piece of an answer, its length prefix included; `None` after the last.
    pub(super) async fn next_chunk(
        &mut self,
        answer: &mut RelayedAnswer,
    ) -> Result<Option<BytesMut>, PairError> {
        let broker = self.broker;
        if answer.missing == 0 {
            return match answer.arrived.is_empty() {
                true => Ok(None),
                false => Err(PairError::Unasked { broker }),
            };
        }
        if answer.arrived.is_empty() {
            answer.arrived.reserve(CHUNK);
            let read = self.stream.read_buf(&mut answer.arrived).await;
            if read.map_err(|source| PairError::Broken { broker, source })? == 0 {
                return Err(PairError::Closed { broker });
            }
        }
        let chunk = answer
            .arrived
            .split_to(answer.arrived.len().min(answer.missing));
        answer.missing -= chunk.len();
        Ok(Some(chunk))
    }

    /// Returns once the idle pair is of no more use. A broker closes idle connections after ten minutes, which is no
    /// alarm.
    pub(super) async fn lost(&self) -> PairError {
        let broker = self.broker;
        loop {
            if let Err(source) = self.stream.readable().await {
                return PairError::Broken { broker, source };
            }
            match self.stream.try_read(&mut [0]) {
                Ok(0) => return PairError::Closed { broker },
                Ok(_) => return PairError::Unasked { broker },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(source) => return PairError::Broken { broker, source },
            }
        }
    }
}

/// An answer on its way through.
#[derive(Debug)]
pub(super) struct RelayedAnswer {
    /// What was read and not passed on.
    arrived: BytesMut,
    /// What was not passed on, `arrived` included.
    missing: usize,
}

/// The first of the promised APIs of which the broker doesn't understand every promised version.
fn not_understood(
    versions: &BrokerVersions,
    promised: &BTreeMap<ApiKey, (i16, i16)>,
) -> Option<ApiKey> {
    let understood = |key: ApiKey, (min, max): (i16, i16)| {
        versions.understands(key, min) && versions.understands(key, max)
    };
    let mut broken = promised
        .iter()
        .filter(|(key, range)| !understood(**key, **range));
    broken.next().map(|(key, _)| *key)
}

/// A connection to a broker, and what it understands.
async fn dial(endpoint: &Endpoint) -> io::Result<(TcpStream, BrokerVersions)> {
    let port = u16::try_from(endpoint.port)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no such port"))?;
    let mut stream = TcpStream::connect((endpoint.host.as_ref(), port)).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    let versions = ask_versions(&mut stream).await?;
    Ok((stream, versions))
}

async fn ask_versions(stream: &mut TcpStream) -> io::Result<BrokerVersions> {
    let request = ApiVersionsRequest::default();
    let asked = encode_request(VERSIONS_VERSION, 0, Some(CLIENT_ID), &request);
    let mut asked = asked.map_err(io::Error::other)?.into_buf();
    stream.write_all_buf(&mut asked).await?;
    let (frames, mut arrived) = (FrameCodec::default(), BytesMut::new());
    let answer = loop {
        if let Some(answer) = frames.split(&mut arrived).map_err(invalid)? {
            break answer;
        }
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    if !arrived.is_empty() {
        return Err(invalid("bytes that nobody had asked for"));
    }
    let answer = decode_api_versions(VERSIONS_VERSION, &answer).map_err(invalid)?;
    BrokerVersions::from_response(&answer).map_err(invalid)
}

fn invalid(what: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Broker, BrokerEpoch, BrokerRegistration};

    fn broker(id: i32, listeners: &[(&str, SecurityProtocol)]) -> BrokerRegistration {
        let endpoints = listeners
            .iter()
            .map(|(listener, security_protocol)| Endpoint {
                listener: Arc::from(*listener),
                host: Arc::from("127.0.0.1"),
                port: 9092 + id,
                security_protocol: *security_protocol,
            });
        let endpoints = endpoints.collect();
        let broker = Broker {
            id: BrokerId(id),
            endpoints,
            rack: None,
            features: Default::default(),
        };
        BrokerRegistration {
            broker,
            epoch: BrokerEpoch(1),
            json_version: 5,
        }
    }

    #[test]
    fn clients_are_spread_over_the_genuine_brokers_that_have_their_listener() {
        use SecurityProtocol::{Plaintext, Ssl};
        let snapshot = ControllerSnapshot {
            brokers: Arc::from([
                broker(1, &[("A", Plaintext), ("B", Plaintext)]),
                broker(2, &[("A", Plaintext)]),
                broker(3, &[("A", Ssl), ("B", Plaintext)]),
                broker(100, &[("A", Plaintext), ("B", Plaintext)]),
            ]),
            ..ControllerSnapshot::default()
        };
        let ids = |listener, turn| -> Vec<i32> {
            let candidates = candidates(&snapshot, BrokerId(100), listener, turn);
            candidates.iter().map(|(broker, _)| broker.0).collect()
        };
        assert_eq!(ids("A", 0), [1, 2]);
        assert_eq!(ids("A", 1), [2, 1]);
        assert_eq!(ids("A", 2), [1, 2]);
        assert_eq!(ids("B", 1), [3, 1]);
        assert!(ids("C", 7).is_empty());
    }
}
