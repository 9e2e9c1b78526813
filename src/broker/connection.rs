//! One connection to one broker, and one request on it at a time.
//!
//! Must never retry: an error ends the connection, and its owner decides what then. PLAINTEXT only; an endpoint that is
//! secured otherwise is refused, never dialled in the clear. Upstream: `NetworkClient` as `RequestSendThread` uses it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use klamm_codec::error::Message;
use klamm_codec::pending::{InFlight, Pending};
use klamm_codec::version::BrokerVersions;
use klamm_codec::{ApiKey, CodecError, Direction, Frame, FrameCodec};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use super::wire;
use crate::model::{Endpoint, SecurityProtocol};
use crate::observe::{CaptureTap, TappedConnection};

/// A host that vanished without closing its connections is noticed after so long, before the request times out.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle connection is probed after so long, and then as often.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long the socket is still read when a request's time is up. Who was paused (SIGSTOP, a virtual machine that moved)
/// finds its timers run out before it has looked at its sockets, and would blame a broker that answered long ago.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// A registration without the listener that we would dial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its registration has no listener named {listener}; compare inter.broker.listener.name here and on the broker"
)]
pub struct NoListener {
    /// The name that was looked for.
    pub listener: Arc<str>,
}

/// Why a broker could not be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Its registration has no endpoint for us.
    #[error(transparent)]
    NoListener(#[from] NoListener),
    /// Its endpoint wants TLS or SASL.
    #[error("{endpoint} is secured by {protocol}, and only PLAINTEXT can be spoken")]
    NotPlaintext {
        /// The endpoint.
        endpoint: String,
        /// How it is secured.
        protocol: &'static str,
    },
    /// Its host or port means no address.
    #[error("{endpoint} means no address: {cause}")]
    Unresolved {
        /// The endpoint.
        endpoint: String,
        /// What the resolver says.
        cause: String,
    },
    /// No address of the endpoint took a connection.
    #[error("{address} ({endpoint}) takes no connection: {source}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The last address tried.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Connecting took too long.
    #[error("no connection to {endpoint} within {within_ms} ms")]
    SetupTimeout {
        /// The endpoint.
        endpoint: String,
        /// How long was waited, in milliseconds.
        within_ms: u64,
    },
    /// The request or its answer took too long.
    #[error("no answer to the {message} within {within_ms} ms")]
    NoAnswer {
        /// The request.
        message: Message,
        /// How long was waited, in milliseconds.
        within_ms: u64,
    },
    /// The broker closed the connection instead of answering. A Kafka broker does so without a word where it doesn't
    /// know the request's version.
    #[error("the connection was closed before the answer to the {message}")]
    Closed {
        /// The request.
        message: Message,
    },
    /// The socket failed.
    #[error("the connection failed during the {message}: {source}")]
    Broken {
        /// The request.
        message: Message,
        /// The socket's error.
        source: io::Error,
    },
    /// Bytes that are no answer, versions that don't meet, or a request that can't be written.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A connection. Whoever gives up a call on it half-way must drop it: an answer may still come.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    frames: FrameCodec,
    pending: Pending<()>,
    client_id: Arc<str>,
    capture: Option<TappedConnection>,
}

impl Connection {
    /// Connects to the first address of the endpoint that takes a connection, within `setup_timeout` for all of it.
    pub(super) async fn open(
        endpoint: &Endpoint,
        client_id: &Arc<str>,
        setup_timeout: Duration,
        capture: &CaptureTap,
    ) -> Result<Connection, ConnectionError> {
        if endpoint.security_protocol != SecurityProtocol::Plaintext {
            return Err(ConnectionError::NotPlaintext {
                endpoint: endpoint.to_string(),
                protocol: endpoint.security_protocol.name(),
            });
        }
        let connected = timeout(setup_timeout, connect(endpoint)).await;
        let stream = connected.map_err(|_| ConnectionError::SetupTimeout {
            endpoint: endpoint.to_string(),
            within_ms: setup_timeout.as_millis() as u64,
        })??;
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        Ok(Connection {
            capture: ends.and_then(|(client, server)| capture.connection(client, server)),
            stream,
            input: BytesMut::new(),
            frames: FrameCodec::default(),
            pending: Pending::with_limit(1),
            client_id: Arc::clone(client_id),
        })
    }

    /// Sends one request, made by `encode` from a correlation id and the client id, and waits for its answer: the
    /// payload, whose correlation id has been checked.
    pub(super) async fn exchange(
        &mut self,
        key: ApiKey,
        version: i16,
        within: Duration,
        encode: impl FnOnce(i32, &str) -> Result<Frame, CodecError>,
    ) -> Result<Bytes, ConnectionError> {
        let request = self.pending.register(key, version, ())?;
        let frame = encode(request.correlation_id, &self.client_id)?;
        let mut exchanged = pin!(self.write_and_read(request, frame));
        let answered = match timeout(within, &mut exchanged).await {
            Ok(answered) => Ok(answered),
            Err(_) => timeout(LAST_LOOK, &mut exchanged).await,
        };
        answered.map_err(|_| ConnectionError::NoAnswer {
            message: Message::request(key, version),
            within_ms: within.as_millis() as u64,
        })?
    }

    /// Asks the broker what it understands: the first request on every connection.
    pub(super) async fn ask_versions(
        &mut self,
        within: Duration,
    ) -> Result<BrokerVersions, ConnectionError> {
        let version = wire::API_VERSIONS_VERSION;
        let asked = self.exchange(ApiKey::API_VERSIONS, version, within, wire::api_versions);
        Ok(wire::broker_versions(&asked.await?)?)
    }

    /// Returns when an idle connection is of no more use: closed by the broker (which does so after ten minutes, and
    /// which is no alarm), broken, or talking unasked.
    pub(super) async fn end(&self) {
        let mut byte = [0];
        loop {
            if self.stream.readable().await.is_err() {
                return;
            }
            match self.stream.try_read(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    async fn write_and_read(
        &mut self,
        request: InFlight,
        frame: Frame,
    ) -> Result<Bytes, ConnectionError> {
        let message = Message::request(request.key, request.version);
        let broken = |source| ConnectionError::Broken { message, source };
        if let Some(capture) = &mut self.capture {
            capture.said(Direction::Request, frame.parts());
        }
        let written = self.stream.write_all_buf(&mut frame.into_buf()).await;
        written.map_err(broken)?;
        let payload = loop {
            if let Some(payload) = self.frames.split(&mut self.input)? {
                break payload;
            }
            if self
                .stream
                .read_buf(&mut self.input)
                .await
                .map_err(broken)?
                == 0
            {
                return Err(ConnectionError::Closed { message });
            }
        };
        if let Some(capture) = &mut self.capture {
            capture.said_payload(Direction::Response, &payload);
        }
        self.pending.complete(&payload)?;
        Ok(payload)
    }
}

/// Resolves an endpoint and tries its addresses in turn.
async fn connect(endpoint: &Endpoint) -> Result<TcpStream, ConnectionError> {
    let unresolved = |cause: String| ConnectionError::Unresolved {
        endpoint: endpoint.to_string(),
        cause,
    };
    let port = u16::try_from(endpoint.port).map_err(|_| unresolved("no such port".to_owned()))?;
    let addresses = lookup_host((endpoint.host.as_ref(), port)).await;
    let addresses = addresses.map_err(|error| unresolved(error.to_string()))?;
    first_that_connects(addresses, dial)
        .await
        .map_err(|last| match last {
            Some((address, source)) => ConnectionError::Refused {
                endpoint: endpoint.to_string(),
                address,
                source,
            },
            None => unresolved("the name has no addresses".to_owned()),
        })
}

/// The first success, or the last failure.
async fn first_that_connects<T, F: Future<Output = io::Result<T>>>(
    addresses: impl Iterator<Item = SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, Option<(SocketAddr, io::Error)>> {
    let mut last = None;
    for address in addresses {
        match dial(address).await {
            Ok(connected) => return Ok(connected),
            Err(error) => last = Some((address, error)),
        }
    }
    Err(last)
}

async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    TcpSocket::from_std_stream(socket.into())
        .connect(address)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 9092))
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_takes_no_connection() {
        let dialled = first_that_connects(
            [address(1), address(2), address(3)].into_iter(),
            |to| async move {
                if to == address(1) {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                }
                Ok(to)
            },
        );
        assert_eq!(dialled.await.unwrap(), address(2));
    }

    #[tokio::test]
    async fn an_endpoint_that_is_not_plaintext_is_never_dialled() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            listener: "SECURE".into(),
            host: "127.0.0.1".into(),
            port: listener.local_addr().unwrap().port().into(),
            security_protocol: SecurityProtocol::SaslSsl,
        };
        let refused = Connection::open(
            &endpoint,
            &"7".into(),
            Duration::from_secs(1),
            &CaptureTap::default(),
        )
        .await;
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains("SASL_SSL") && said.contains("SECURE://127.0.0.1"),
            "{said}"
        );
        let nobody = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(nobody.is_err(), "a connection was made in the clear");
    }

    #[tokio::test]
    async fn an_answer_that_is_there_when_time_is_up_counts() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            listener: "INTERNAL".into(),
            host: "127.0.0.1".into(),
            port: listener.local_addr().unwrap().port().into(),
            security_protocol: SecurityProtocol::Plaintext,
        };
        let broker = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let length = stream.read_i32().await.unwrap();
            let mut request = vec![0; length as usize];
            stream.read_exact(&mut request).await.unwrap();
            // Key and version go before the correlation id; an answer is that id and no more.
            let answer = [&4i32.to_be_bytes()[..], &request[4..8]].concat();
            stream.write_all(&answer).await.unwrap();
            stream
        });
        let setup_timeout = Duration::from_secs(5);
        let mut connection = Connection::open(
            &endpoint,
            &"7".into(),
            setup_timeout,
            &CaptureTap::default(),
        )
        .await
        .unwrap();
        let up_at_once = Duration::ZERO;
        let (key, version) = (ApiKey::API_VERSIONS, wire::API_VERSIONS_VERSION);
        let exchanged = connection.exchange(key, version, up_at_once, wire::api_versions);
        exchanged.await.unwrap();
        broker.await.unwrap();
    }

    #[tokio::test]
    async fn a_port_or_host_that_means_nothing_is_named_in_the_error() {
        let mut endpoint = Endpoint {
            listener: "INTERNAL".into(),
            host: "127.0.0.1".into(),
            port: 70_000,
            security_protocol: SecurityProtocol::Plaintext,
        };
        for (host, port) in [
            ("127.0.0.1", 70_000),
            ("127.0.0.1", -1),
            ("no such host.invalid", 1),
        ] {
            (endpoint.host, endpoint.port) = (host.into(), port);
            let refused = Connection::open(
                &endpoint,
                &"7".into(),
                Duration::from_secs(5),
                &CaptureTap::default(),
            )
            .await;
            let said = refused.unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("INTERNAL://{host}:{port} means no address")),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn sockets_notice_dead_peers_and_send_small_requests_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = dial(listener.local_addr().unwrap()).await.unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(TCP_USER_TIMEOUT));
    }
}
