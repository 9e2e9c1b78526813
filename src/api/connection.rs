//! One client's connection: requests are taken one by one, as a broker does, so answers leave in the order of the
//! requests whether they are served here or relayed, and a client that pipelines waits in its own socket.
//!
//! Must never panic on what a client sends, and never hold more for it than one request, one piece of an answer and a
//! little that it sent ahead. Upstream: the part of `SocketServer.Processor` that concerns one channel.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use klamm_codec::request::parse_header;
use klamm_codec::{ApiKey, CodecError, Direction, Frame, FrameCodec, RequestHeader};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info};

use super::Limits;
use super::handlers::{self, KafkaApis, Outcome, Unserved};
use super::relay::{self, Pair, PairError};
use super::wire;
use crate::observe::{CaptureTap, TappedConnection};

/// How much is read at a time.
const READ: usize = 4 * 1024;
/// How much of further requests is taken in while one is being answered: reading is how we notice that a client left.
const READ_AHEAD: usize = 64 * 1024;

/// No client is kept waiting longer, whatever it owes: the quota itself keeps it from more.
const MUTE_MAX: Duration = Duration::from_secs(600);

/// Why a connection ended.
#[derive(Debug, Error)]
enum End {
    #[error("the client closed it")]
    ClientGone,
    #[error("nothing moved on it for {} ms", .0.as_millis())]
    Idle(Duration),
    #[error("the listener stops")]
    Stopped,
    #[error(transparent)]
    Broken(#[from] io::Error),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Unserved(#[from] Unserved),
    #[error(transparent)]
    Pair(#[from] PairError),
}

/// Where a connection came from, and what number it has on its listener.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) listener: Arc<str>,
    pub(super) client: SocketAddr,
    pub(super) turn: usize,
}

/// Captures what a broker asks its controller on a connection, and the answers: nothing else that is said there.
#[derive(Debug)]
pub(super) struct ControlCapture {
    tap: CaptureTap,
    /// The client, and this end of the connection.
    ends: Option<(SocketAddr, SocketAddr)>,
    connection: Option<TappedConnection>,
}

impl ControlCapture {
    pub(super) fn new(stream: &TcpStream, tap: CaptureTap) -> ControlCapture {
        ControlCapture {
            ends: stream.peer_addr().ok().zip(stream.local_addr().ok()),
            tap,
            connection: None,
        }
    }

    fn request(&mut self, header: &RequestHeader, payload: &Bytes) {
        if !is_control(header.key) {
            return;
        }
        if self.connection.is_none()
            && let Some((client, server)) = self.ends
        {
            self.connection = self.tap.connection(client, server);
        }
        if let Some(connection) = &mut self.connection {
            connection.said_payload(Direction::Request, payload);
        }
    }

    fn answer(&mut self, header: &RequestHeader, frame: &Frame) {
        if is_control(header.key)
            && let Some(connection) = &mut self.connection
        {
            connection.said(Direction::Response, frame.parts());
        }
    }
}

/// What brokers ask their controller.
fn is_control(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::CONTROLLED_SHUTDOWN | ApiKey::ALTER_PARTITION | ApiKey::ALLOCATE_PRODUCER_IDS
    )
}

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: TcpStream,
    origin: Origin,
    apis: Arc<KafkaApis>,
    limits: Limits,
    capture: ControlCapture,
    mut stop: watch::Receiver<()>,
) {
    let client = Client {
        stream,
        input: BytesMut::new(),
        frames: FrameCodec::with_limit(limits.request_max_bytes),
        idle: limits.connections_max_idle,
    };
    let mut connection = Connection {
        client,
        pair: None,
        promised: BTreeMap::new(),
        origin,
        apis,
        capture,
    };
    let end = loop {
        if let Err(end) = connection.serve_next(&mut stop).await {
            break end;
        }
    };
    let Origin {
        listener, client, ..
    } = &connection.origin;
    match &end {
        End::Codec(error @ CodecError::NotEncodable { .. }) => {
            error!(
                "the connection of {client} to listener {listener} is closed, for its answer can't be written: {error}"
            );
        }
        End::Codec(error) => {
            info!("the connection of {client} to listener {listener} is closed: {error}");
        }
        End::Pair(error @ PairError::NoBroker { .. }) => connection.apis.say_once(format!(
            "clients of listener {listener} get no metadata from here: {error}"
        )),
        _ => debug!("the connection of {client} to listener {listener} is closed: {end}"),
    }
}

struct Connection {
    client: Client,
    pair: Option<Pair>,
    /// Of what may be relayed, the versions that the client was told to use: a pair has to understand them all.
    promised: BTreeMap<ApiKey, (i16, i16)>,
    origin: Origin,
    apis: Arc<KafkaApis>,
    capture: ControlCapture,
}

impl Connection {
    async fn serve_next(&mut self, stop: &mut watch::Receiver<()>) -> Result<(), End> {
        let Connection {
            client,
            pair,
            apis,
            capture,
            ..
        } = self;
        let payload = tokio::select! {
            biased;
            () = stopped(stop) => return Err(End::Stopped),
            lost = lost(pair.as_ref()) => return Err(lost.into()),
            payload = client.next_request() => payload?,
        };
        let header = parse_header(&payload)?;
        capture.request(&header, &payload);
        let outcome = tokio::select! {
            outcome = apis.handle(&header, &payload) => outcome?,
            end = client.gone() => return Err(end),
        };
        match outcome {
            Outcome::Reply(frame) => {
                capture.answer(&header, &frame);
                client.send(frame).await
            }
            Outcome::ReplyAndMute(frame, pause) => {
                capture.answer(&header, &frame);
                client.send(frame).await?;
                client.mute(pause, stop).await
            }
            Outcome::ListVersions => self.list_versions(&header, &payload).await,
            Outcome::Relay => self.relay(&header, payload).await,
            Outcome::Close(unserved) => Err(unserved.into()),
        }
    }

    async fn list_versions(&mut self, header: &RequestHeader, payload: &Bytes) -> Result<(), End> {
        let ranges = self.apis.advertised(self.pair.as_ref().map(Pair::versions));
        let relayed = ranges
            .iter()
            .filter(|(key, _)| handlers::may_be_relayed(**key));
        self.promised = relayed.map(|(key, range)| (*key, *range)).collect();
        self.client
            .send(wire::api_versions(header, payload, ranges)?)
            .await
    }

    async fn relay(&mut self, header: &RequestHeader, payload: Bytes) -> Result<(), End> {
        let Connection {
            client,
            pair,
            promised,
            origin,
            apis,
            ..
        } = self;
        let pair = match pair {
            Some(pair) => pair,
            none => {
                let Origin { listener, turn, .. } = origin;
                let candidates =
                    relay::candidates(&apis.snapshot(), apis.own_id(), listener, *turn);
                let opened = Pair::open(listener, candidates, promised);
                none.insert(client.or_gone(opened).await??)
            }
        };
        let mut answer = client.or_gone(pair.ask(header, payload)).await??;
        while let Some(chunk) = client.or_gone(pair.next_chunk(&mut answer)).await?? {
            client.write(chunk.freeze()).await?;
        }
        Ok(())
    }
}

async fn lost(pair: Option<&Pair>) -> PairError {
    match pair {
        Some(pair) => pair.lost().await,
        None => pending().await,
    }
}

/// Returns when the listener stops: its end of the channel is dropped.
async fn stopped(stop: &mut watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

/// The client's side. Every future here may be dropped half-way without losing bytes, but those that write.
struct Client {
    stream: TcpStream,
    input: BytesMut,
    frames: FrameCodec,
    idle: Option<Duration>,
}

impl Client {
    async fn next_request(&mut self) -> Result<Bytes, End> {
        loop {
            if let Some(payload) = self.frames.split(&mut self.input)? {
                if self.input.is_empty() {
                    // The payload is then the only owner of what may be a big buffer.
                    self.input = BytesMut::new();
                }
                return Ok(payload);
            }
            if self.input.capacity() == self.input.len() {
                self.input.reserve(READ);
            }
            let read = moving(self.idle, self.stream.read_buf(&mut self.input)).await?;
            if read == 0 {
                return Err(match self.input.len() {
                    0 => End::ClientGone,
                    left => CodecError::FrameCutShort { left }.into(),
                });
            }
        }
    }

    /// Returns when the client closes the connection; takes in a little of what it sends meanwhile.
    async fn gone(&mut self) -> End {
        while self.input.len() < READ_AHEAD {
            self.input.reserve(READ);
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return End::ClientGone,
                Ok(_) => {}
                Err(error) => return End::Broken(error),
            }
        }
        pending().await
    }

    /// Waits for `work`, but not longer than the client does.
    async fn or_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            done = work => Ok(done),
            end = self.gone() => Err(end),
        }
    }

    /// Takes no further request for a while, but not longer than an idle connection would be kept. A broker does the same
    /// with a client that has used up a quota, without a limit (KIP-219).
    async fn mute(&mut self, pause: Duration, stop: &mut watch::Receiver<()>) -> Result<(), End> {
        let pause = pause.min(self.idle.unwrap_or(MUTE_MAX)).min(MUTE_MAX);
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = stopped(stop) => Err(End::Stopped),
            end = self.gone() => Err(end),
        }
    }

    async fn send(&mut self, frame: Frame) -> Result<(), End> {
        let mut frame = frame.into_buf();
        moving(self.idle, self.stream.write_all_buf(&mut frame)).await
    }

    async fn write(&mut self, mut bytes: Bytes) -> Result<(), End> {
        moving(self.idle, self.stream.write_all_buf(&mut bytes)).await
    }
}

/// Ends what doesn't move within the idle time.
async fn moving<T>(
    idle: Option<Duration>,
    io: impl Future<Output = io::Result<T>>,
) -> Result<T, End> {
    match idle {
        None => Ok(io.await?),
        Some(idle) => Ok(timeout(idle, io).await.map_err(|_| End::Idle(idle))??),
    }
}
