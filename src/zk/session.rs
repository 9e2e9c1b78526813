//! The session with ZooKeeper: its start, the keeper that holds it through lost connections, its end.
//!
//! While disconnected the keeper tries a new connection with the same session several times a second, until the *server*
//! says that it expired; klamm never decides that by its own clock. On expiry, in this order: everyone who waits on
//! ZooKeeper fails, the queue is cleared for `Expire` and its handling awaited, a new session is opened, and
//! `RegisterBrokerAndReelect` is put. Upstream: `ZooKeeperClient.scala`, the `StateChangeHandler` in
//! `KafkaController.scala`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, AddWatchMode, Client, Connector, CreateMode, Error, SessionInfo};

use super::client::{Shared, ZkClient};
use super::link::{Link, Wire, connect};
use super::paths;
use super::probe::{self, ServerVersion};
use super::watches::{Armed, Watches};
use crate::config::ZooKeeperConnect;
use crate::event::{ControllerEvent, EventSink, Sweep};
use crate::model::BrokerId;

/// Pause between two rounds over all servers while not connected: short against what is left of a session when an outage
/// of most of it ends.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// A sink for sessions that need no events: those of the command line.
#[derive(Debug, Clone, Copy)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn put(&self, _event: ControllerEvent) {}

    fn clear_and_put(&self, _event: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// What the session does, for metrics (`SessionExpireListener` and `ZooKeeperClientMetrics` in Java).
pub trait Observer: Send + Sync + 'static {
    /// A request was answered or failed.
    fn request_done(&self, took: Duration);
    /// The session's state changed.
    fn session_changed(&self, state: SessionState);
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn request_done(&self, _took: Duration) {}
    fn session_changed(&self, _state: SessionState) {}
}

/// Where the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Connected (Java: SyncConnected).
    Connected,
    /// Not connected; the session may still live.
    Disconnected,
    /// ZooKeeper said that the session is over; a new one is being opened.
    Expired,
    /// ZooKeeper refuses our credentials.
    AuthFailed,
}

/// How to reach ZooKeeper, and as whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `zookeeper.connect`.
    pub connect: ZooKeeperConnect,
    /// `zookeeper.session.timeout.ms`: what is asked for; ZooKeeper grants what its limits allow.
    pub session_timeout_ms: u32,
    /// `zookeeper.connection.timeout.ms`: how long a start waits for the first connection.
    pub connection_timeout_ms: u32,
    /// `klamm.id`.
    pub id: BrokerId,
}

/// Why a session could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Nobody answered in time.
    #[error(
        "no ZooKeeper server of {hosts} took a session within {waited_ms} ms, the last one failed with: {cause}; check \
         zookeeper.connect and that ZooKeeper has a quorum"
    )]
    Unreachable {
        /// Who was tried.
        hosts: String,
        /// For how long.
        waited_ms: u32,
        /// The last failure.
        cause: String,
    },
    /// ZooKeeper 3.4 or older.
    #[error(
        "the ZooKeeper at {host} is of version 3.4 or older: it can't take klamm's transactions; upgrade ZooKeeper to 3.5 \
         or later (brokers from 1.0 on work with it)"
    )]
    TooOld {
        /// The server that was asked.
        host: String,
    },
    /// The chroot does not exist and can't be created.
    #[error("the chroot {chroot} can't be created in ZooKeeper: {cause}")]
    Chroot {
        /// As configured.
        chroot: String,
        /// ZooKeeper's reason.
        cause: String,
    },
}

/// A running session.
#[derive(Debug)]
pub struct Session {
    client: ZkClient,
    version: ServerVersion,
    keeper: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Session {
    /// Finds out what ZooKeeper can do, creates the chroot where it is missing, opens a session and keeps it. Needs a
    /// multi-threaded tokio runtime, on which the session lives until [`Session::close`].
    ///
    /// # Errors
    /// See [`StartError`]: nothing has been written then but, possibly, the chroot.
    pub async fn start(
        settings: Settings,
        sink: Arc<dyn EventSink>,
        observer: Arc<dyn Observer>,
    ) -> Result<Session, StartError> {
        let dialer = Dialer::new(&settings);
        let deadline = dialer.deadline(&settings);
        let version = dialer.probe(deadline, &settings).await?;
        dialer.create_chroot(deadline, &settings).await?;
        let wire = dialer.first_connection(deadline, &settings).await?;
        Ok(Session::keep(
            settings, dialer, version, wire, sink, observer,
        ))
    }

    /// The same for whoever only reads: nothing is written, not even a missing chroot, and nobody hears of watches.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start_to_read(settings: Settings) -> Result<Session, StartError> {
        let dialer = Dialer::new(&settings);
        let deadline = dialer.deadline(&settings);
        let version = dialer.probe(deadline, &settings).await?;
        let wire = dialer.first_connection(deadline, &settings).await?;
        let (sink, observer) = (Arc::new(NoEvents), Arc::new(NoObserver));
        Ok(Session::keep(
            settings, dialer, version, wire, sink, observer,
        ))
    }

    fn keep(
        settings: Settings,
        dialer: Dialer,
        version: ServerVersion,
        connected: super::link::Connected,
        sink: Arc<dyn EventSink>,
        observer: Arc<dyn Observer>,
    ) -> Session {
        let watches = Watches::new(Arc::clone(&sink));
        let wire = Wire::new(connected, 1, &watches);
        tracing::info!(
            "ZooKeeper session {} established with {}, {} ms, server {version}",
            wire.client.session_id(),
            settings.connect,
            wire.client.session_timeout().as_millis()
        );
        let (links, _) = watch::channel(Link::Up(Arc::clone(&wire)));
        let shared = Shared::new(settings.id, version, links, watches, observer);
        shared.observer.session_changed(SessionState::Connected);
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper {
            shared: Arc::clone(&shared),
            dialer,
            sink,
            generation: 1,
        };
        Session {
            client: ZkClient::new(shared),
            version,
            keeper: tokio::spawn(keeper.keep(wire, stopped)),
            stop,
        }
    }

    /// What the servers could do when the session began.
    pub fn server_version(&self) -> ServerVersion {
        self.version
    }

    /// The client; clones of it go wherever ZooKeeper is needed.
    pub fn client(&self) -> &ZkClient {
        &self.client
    }

    /// Closes the session: what is ephemeral and ours is gone when this returns, if ZooKeeper could be reached.
    pub async fn close(self) {
        self.stop.send(()).ok();
        // The keeper closes the session before it ends; an error here says that it panicked.
        if self.keeper.await.is_err() {
            tracing::error!("the keeper of the ZooKeeper session failed; the session will expire");
        }
    }
}

/// Opens connections.
struct Dialer {
    /// `host:port` each.
    hosts: Vec<String>,
    /// `/a/b`, or empty.
    chroot: String,
    session_timeout: Duration,
    /// How long one server may take: several must have their turn while the session lives.
    attempt: Duration,
}

impl Dialer {
    fn new(settings: &Settings) -> Dialer {
        let session_timeout = Duration::from_millis(settings.session_timeout_ms.into());
        let servers = settings.connect.servers.iter();
        Dialer {
            hosts: servers.map(ToString::to_string).collect(),
            chroot: settings.connect.chroot.clone().unwrap_or_default(),
            session_timeout,
            attempt: (session_timeout / 5).max(Duration::from_secs(1)),
        }
    }

    fn deadline(&self, settings: &Settings) -> Instant {
        Instant::now() + Duration::from_millis(settings.connection_timeout_ms.into())
    }

    /// A connector of our settings, for a session that no dropped handle closes by accident.
    fn connector(&self) -> Connector {
        self.transient_connector().with_detached()
    }

    /// A connector for a session that ends with its client.
    fn transient_connector(&self) -> Connector {
        Client::connector()
            .with_session_timeout(self.session_timeout)
            .with_fail_eagerly()
    }

    /// Tries every server once, in random order.
    async fn round(
        &self,
        chroot: bool,
        connector: impl Fn() -> Connector,
    ) -> Result<(super::link::Connected, String), Error> {
        let mut last = Error::NoHosts;
        for host in self.shuffled() {
            let address = match chroot {
                true => format!("{host}{}", self.chroot),
                false => host.to_owned(),
            };
            match tokio::time::timeout(self.attempt, connect(connector(), &address)).await {
                Ok(Ok(connected)) => return Ok((connected, host.to_owned())),
                Ok(Err(error @ (Error::SessionExpired | Error::AuthFailed))) => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::Timeout,
            }
        }
        Err(last)
    }

    fn shuffled(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        let mut seed = [0; 8];
        // Without entropy the servers are tried in the order configured, which is just as right.
        getrandom::fill(&mut seed).ok();
        let mut seed = u64::from_le_bytes(seed);
        for last in (1..hosts.len()).rev() {
            let pick = seed % (last as u64 + 1);
            seed /= last as u64 + 1;
            hosts.swap(last, pick as usize);
        }
        hosts
    }

    /// Rounds until one succeeds or the deadline passes.
    async fn until(
        &self,
        deadline: Instant,
        settings: &Settings,
        chroot: bool,
        connector: impl Fn() -> Connector,
    ) -> Result<(super::link::Connected, String), StartError> {
        loop {
            let cause = match self.round(chroot, &connector).await {
                Ok(connected) => return Ok(connected),
                Err(error) => error,
            };
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(self.unreachable(settings, &cause));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    fn unreachable(&self, settings: &Settings, cause: &Error) -> StartError {
        StartError::Unreachable {
            hosts: self.hosts.join(","),
            waited_ms: settings.connection_timeout_ms,
            cause: cause.to_string(),
        }
    }

    /// Asks on throw-away sessions what the server can do: some servers cut the connection on what they don't know.
    async fn probe(
        &self,
        deadline: Instant,
        settings: &Settings,
    ) -> Result<ServerVersion, StartError> {
        loop {
            let transient = || self.transient_connector();
            let (connected, host) = self.until(deadline, settings, false, transient).await?;
            match probe::creates_in_transactions(&connected.client).await {
                probe::Answer::Yes => break,
                probe::Answer::No => return Err(StartError::TooOld { host }),
                probe::Answer::Unclear(cause) if Instant::now() >= deadline => {
                    return Err(self.unreachable(settings, &cause));
                }
                probe::Answer::Unclear(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
        let transient = || self.transient_connector();
        let (connected, _) = self.until(deadline, settings, false, transient).await?;
        // In doubt the older way is right: it works everywhere.
        Ok(match probe::reads_in_groups(&connected.client).await {
            probe::Answer::Yes => ServerVersion::V3_6OrLater,
            probe::Answer::No | probe::Answer::Unclear(_) => ServerVersion::V3_5,
        })
    }

    /// As Java does: whoever comes first creates it.
    async fn create_chroot(
        &self,
        deadline: Instant,
        settings: &Settings,
    ) -> Result<(), StartError> {
        if self.chroot.is_empty() {
            return Ok(());
        }
        let transient = || self.transient_connector();
        loop {
            let (connected, _) = self.until(deadline, settings, false, transient).await?;
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let made = connected.client.mkdir(&self.chroot, &options);
            match made.await {
                Ok(()) => return Ok(()),
                Err(Error::ConnectionLoss) if Instant::now() < deadline => {}
                Err(error) => {
                    return Err(StartError::Chroot {
                        chroot: self.chroot.clone(),
                        cause: error.to_string(),
                    });
                }
            }
        }
    }

    async fn first_connection(
        &self,
        deadline: Instant,
        settings: &Settings,
    ) -> Result<super::link::Connected, StartError> {
        let connector = || self.connector();
        let connected = self.until(deadline, settings, true, connector).await?;
        Ok(connected.0)
    }
}

/// Holds the session.
struct Keeper {
    shared: Arc<Shared>,
    dialer: Dialer,
    sink: Arc<dyn EventSink>,
    generation: u64,
}

/// How the attempt to go on with a session ended.
enum Resumed {
    Up(Arc<Wire>),
    Expired,
}

impl Keeper {
    /// Runs until told to stop, then closes the session.
    async fn keep(mut self, first: Arc<Wire>, mut stopped: oneshot::Receiver<()>) {
        let mut session = first.session();
        tokio::select! {
            () = self.hold(first, &mut session) => {}
            () = told(&mut stopped) => {}
        }
        if let Link::Up(wire) = self.shared.links.send_replace(Link::Ended) {
            wire.end().await;
        }
        self.close(session).await;
    }

    /// Never returns.
    async fn hold(&mut self, first: Arc<Wire>, session: &mut SessionInfo) {
        let mut wire = first;
        loop {
            wire.until_lost().await;
            tracing::warn!(
                "the connection to ZooKeeper was lost (session {}); connecting again",
                session.id()
            );
            self.change(Link::Down, SessionState::Disconnected);
            wire.end().await;
            wire = match self.resume(session).await {
                Resumed::Up(wire) => {
                    self.change(Link::Up(Arc::clone(&wire)), SessionState::Connected);
                    self.look_everywhere();
                    wire
                }
                Resumed::Expired => {
                    tracing::warn!("ZooKeeper session {} expired", session.id());
                    self.change(Link::Ended, SessionState::Expired);
                    self.sink.clear_and_put(ControllerEvent::Expire).await;
                    let wire = self.renew().await;
                    self.change(Link::Up(Arc::clone(&wire)), SessionState::Connected);
                    self.sink.put(ControllerEvent::RegisterBrokerAndReelect);
                    wire
                }
            };
            *session = wire.session();
        }
    }

    fn change(&self, link: Link, state: SessionState) {
        self.shared.links.send_replace(link);
        self.shared.observer.session_changed(state);
    }

    /// No watch outlived the connection, and a lost watch is no excuse: everything is looked at, which arms all of them.
    fn look_everywhere(&self) {
        for event in [
            ControllerEvent::ControllerChange,
            ControllerEvent::KlammNodesChange,
            ControllerEvent::BrokerChange,
            ControllerEvent::TopicChange,
            ControllerEvent::IsrChangeNotification,
            ControllerEvent::LogDirEventNotification,
            ControllerEvent::PreferredReplicaElection,
            ControllerEvent::PartitionReassignment,
            ControllerEvent::TopicDeletion,
            ControllerEvent::ConfigChange,
            ControllerEvent::AntiEntropy(Sweep::Begin),
        ] {
            self.sink.put(event);
        }
    }

    /// Goes on with the session on a new connection.
    async fn resume(&mut self, session: &SessionInfo) -> Resumed {
        loop {
            let connector = || self.dialer.connector().with_session(session.clone());
            match self.dialer.round(true, connector).await {
                Ok((connected, host)) => {
                    tracing::info!(
                        "connected to ZooKeeper {host} again, session {}",
                        session.id()
                    );
                    match self.ready(connected).await {
                        Ok(wire) => return Resumed::Up(wire),
                        Err(error) => tracing::warn!("ZooKeeper {host}: {error}"),
                    }
                }
                Err(Error::SessionExpired) => return Resumed::Expired,
                Err(error) => self.report(&error),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Opens a new session, however long it takes.
    async fn renew(&mut self) -> Arc<Wire> {
        loop {
            match self.dialer.round(true, || self.dialer.connector()).await {
                Ok((connected, host)) => {
                    let id = connected.client.session_id();
                    tracing::info!("new ZooKeeper session {id} established with {host}");
                    match self.ready(connected).await {
                        Ok(wire) => return wire,
                        Err(error) => tracing::warn!("ZooKeeper {host}: {error}"),
                    }
                }
                Err(error) => self.report(&error),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    fn report(&self, error: &Error) {
        if *error == Error::AuthFailed {
            tracing::error!("ZooKeeper refuses klamm's credentials; trying again");
            let observer = &self.shared.observer;
            observer.session_changed(SessionState::AuthFailed);
        } else {
            tracing::debug!("no connection to ZooKeeper: {error}");
        }
    }

    /// Brings a server up to date with what the last one had confirmed, and adds the recursive watch again.
    async fn ready(&mut self, connected: super::link::Connected) -> Result<Arc<Wire>, Error> {
        self.generation += 1;
        let wire = Wire::new(connected, self.generation, &self.shared.watches);
        match self.settle(&wire).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                wire.end().await;
                Err(error)
            }
        }
    }

    async fn settle(&self, wire: &Wire) -> Result<(), Error> {
        within(self.dialer.attempt, wire.client.sync("/")).await?;
        if self.shared.watches.wants_recursive(wire.generation) {
            let watching = wire
                .client
                .watch(paths::TOPICS, AddWatchMode::PersistentRecursive);
            match within(self.dialer.attempt, watching).await {
                Ok(watcher) => {
                    wire.listen(Armed::Topics(watcher));
                    self.shared.watches.recursive_is_armed(wire.generation);
                }
                Err(Error::Unimplemented) => self.shared.is_older_than_thought(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes the session on a connection of its own: a session ends with a client that isn't detached.
    async fn close(&self, session: SessionInfo) {
        let id = session.id();
        let connector = || {
            self.dialer
                .transient_connector()
                .with_session(session.clone())
        };
        match self.dialer.round(true, connector).await {
            Ok((connected, _)) => {
                drop(connected.client);
                let closed = tokio::time::timeout(self.dialer.attempt, connected.task).await;
                match closed {
                    Ok(_) => tracing::info!("ZooKeeper session {id} closed"),
                    Err(_) => tracing::warn!("ZooKeeper did not confirm the end of session {id}"),
                }
            }
            Err(Error::SessionExpired) => {}
            Err(error) => {
                tracing::warn!("ZooKeeper session {id} is left to expire: {error}");
            }
        }
    }
}

/// Waits for the word to stop. A [`Session`] that was merely dropped said none: the session is closed on purpose or not
/// at all.
async fn told(stopped: &mut oneshot::Receiver<()>) {
    if stopped.await.is_err() {
        std::future::pending().await
    }
}

async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, request).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Timeout),
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper(connection {})", self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_turn_in_a_round() {
        let settings = Settings {
            connect: ZooKeeperConnect::parse("a,b,c/kafka").unwrap(),
            session_timeout_ms: 18_000,
            connection_timeout_ms: 18_000,
            id: BrokerId(900),
        };
        let dialer = Dialer::new(&settings);
        let mut hosts = dialer.shuffled();
        hosts.sort_unstable();
        assert_eq!(hosts, ["a:2181", "b:2181", "c:2181"]);
        assert_eq!(dialer.chroot, "/kafka");
    }
}
