//! The sockets: binds every listener, accepts, and gives each connection a task.
//!
//! Binding is apart from serving, for klamm takes no role before it knows that it can be reached. Must never let one
//! client's connection, or many, end the others'. Upstream: `SocketServer.scala`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use super::connection::{self, ControlCapture, Origin};
use super::handlers::KafkaApis;
use super::{Limits, ServerContext};
use crate::config::Listener;
use crate::observe::CaptureTap;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// A connection without traffic is probed after so long, and then as often: brokers keep one open for days.
const KEEPALIVE: Duration = Duration::from_secs(120);
/// Where nothing can be accepted (no file handle is left, say), it is tried again after so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long requests that are being answered have to end when the listener stops.
const GRACE: Duration = Duration::from_secs(1);

/// A listener that could not be opened.
#[derive(Debug, Error)]
pub enum BindError {
    /// The host of the listener means no address of this machine.
    #[error("klamm.listeners: the host of {listener} means no address: {source}")]
    Unresolved {
        /// The listener as configured.
        listener: Listener,
        /// What the resolver says.
        source: io::Error,
    },
    /// The address is taken, or not ours.
    #[error(
        "klamm.listeners: {listener} can't be opened: {source}; is another process on this port, or the address not of this machine?"
    )]
    NotOpened {
        /// The listener as configured.
        listener: Listener,
        /// Why not.
        source: io::Error,
    },
}

/// Opens every listener; connections wait in the kernel until [`BoundListeners::serve`].
///
/// # Errors
/// The first listener that can't be opened; none stays open then.
pub async fn bind(listeners: &[Listener]) -> Result<BoundListeners, BindError> {
    let mut bound = Vec::with_capacity(listeners.len());
    for listener in listeners {
        bound.push(bind_one(listener).await?);
    }
    Ok(BoundListeners { listeners: bound })
}

async fn bind_one(listener: &Listener) -> Result<Bound, BindError> {
    let unresolved = |source| BindError::Unresolved {
        listener: listener.clone(),
        source,
    };
    let addresses = lookup_host((listener.host.as_str(), listener.port)).await;
    // As in Java, a name is bound by its first address.
    let first = addresses.map_err(unresolved)?.next();
    let address = first.ok_or_else(|| unresolved(io::Error::other("the name has no addresses")))?;
    let opened = open(address).and_then(|socket| Ok((socket.local_addr()?, socket)));
    let (address, socket) = opened.map_err(|source| BindError::NotOpened {
        listener: listener.clone(),
        source,
    })?;
    Ok(Bound {
        name: Arc::from(listener.name.as_str()),
        address,
        socket,
    })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for the connections of the process before.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[derive(Debug)]
struct Bound {
    name: Arc<str>,
    address: SocketAddr,
    socket: TcpListener,
}

/// Listeners that are open and not served yet.
#[derive(Debug)]
pub struct BoundListeners {
    listeners: Vec<Bound>,
}

impl BoundListeners {
    /// The name of each listener and the address that it is bound to.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.listeners
            .iter()
            .map(|bound| (bound.name.as_ref(), bound.address))
    }

    /// Begins to serve, on tasks of the current runtime, until [`ServerHandle::shutdown`] or until the handle is dropped.
    pub fn serve(self, context: ServerContext) -> ServerHandle {
        let (stop, stopped) = watch::channel(());
        let limits = context.limits;
        let capture = context.capture.clone();
        let apis = Arc::new(KafkaApis::new(context));
        let mut acceptors = JoinSet::new();
        for bound in self.listeners {
            info!(
                "listener {} takes connections on {}",
                bound.name, bound.address
            );
            let acceptor = Acceptor {
                apis: Arc::clone(&apis),
                limits,
                capture: capture.clone(),
                stop: stopped.clone(),
            };
            acceptors.spawn(acceptor.run(bound));
        }
        ServerHandle { stop, acceptors }
    }
}

/// Listeners that are served.
#[derive(Debug)]
pub struct ServerHandle {
    stop: watch::Sender<()>,
    acceptors: JoinSet<()>,
}

impl ServerHandle {
    /// Accepts no more, closes idle connections, and gives requests that are being answered a second. Stop the controller
    /// first: it then has answered whatever waited for it.
    pub async fn shutdown(mut self) {
        drop(self.stop);
        while self.acceptors.join_next().await.is_some() {}
    }
}

/// Accepts on one listener.
struct Acceptor {
    apis: Arc<KafkaApis>,
    limits: Limits,
    capture: CaptureTap,
    stop: watch::Receiver<()>,
}

impl Acceptor {
    async fn run(mut self, bound: Bound) {
        let mut connections = JoinSet::new();
        let mut accepted = 0;
        let mut trouble = Trouble::None;
        loop {
            tokio::select! {
                // The sender never sends: this is its end.
                _ = self.stop.changed() => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => report(ended),
                taken = bound.socket.accept() => match taken {
                    Ok((stream, client)) if connections.len() < self.limits.connections_max => {
                        trouble = Trouble::None;
                        let origin = Origin { listener: Arc::clone(&bound.name), client, turn: accepted };
                        accepted = accepted.wrapping_add(1);
                        self.admit(&mut connections, stream, origin);
                    }
                    Ok((_, client)) => trouble.too_many(&bound.name, self.limits.connections_max, client),
                    Err(error) => {
                        trouble.not_accepted(&bound.name, &error);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(bound);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if timeout(GRACE, all_ended).await.is_err() {
            debug!(
                "{} connections are cut in the middle of a request",
                connections.len()
            );
            connections.shutdown().await;
        }
    }

    fn admit(&self, connections: &mut JoinSet<()>, stream: TcpStream, origin: Origin) {
        if let Err(error) = prepare(&stream) {
            debug!(
                "the connection of {} was lost at once: {error}",
                origin.client
            );
            return;
        }
        let (apis, stop) = (Arc::clone(&self.apis), self.stop.clone());
        let capture = ControlCapture::new(&stream, self.capture.clone());
        let served = connection::serve(stream, origin, apis, self.limits, capture, stop);
        connections.spawn(served);
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!("a connection ended by a fault of klamm: {error}");
    }
}

/// What stands in the way of new connections, so that each kind is said once until it is over.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    None,
    TooMany,
    NotAccepted,
}

impl Trouble {
    fn too_many(&mut self, listener: &str, limit: usize, client: SocketAddr) {
        if *self != Trouble::TooMany {
            warn!(
                "listener {listener} has {limit} connections, the most it takes: {client} and others are turned away"
            );
            *self = Trouble::TooMany;
        }
    }

    fn not_accepted(&mut self, listener: &str, error: &io::Error) {
        if *self != Trouble::NotAccepted {
            warn!("listener {listener} can't take connections for now: {error}");
            *self = Trouble::NotAccepted;
        }
    }
}
