//! One connection to ZooKeeper: a client of zookeeper-client that is never left to reconnect by itself.
//!
//! The crate's own reconnect gives up too early, waits too long between tries, forgets persistent watches and chokes on
//! more than 128 KiB of watched paths. So a client lives for one connection: when that is lost the client is ended for
//! good, its task included, and the keeper (`session`) opens the next one with the same session. Two clients never
//! share a session: they would fight over it until it is lost.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use zookeeper_client::{Client, Connector, Error, SessionInfo, SessionState, StateWatcher};

use super::watches::{Armed, Watches};

/// Where the session stands, for everyone who wants to send something.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// Connected.
    Up(Arc<Wire>),
    /// Not connected; the session may still live.
    Down,
    /// The session ended.
    Ended,
}

/// One connection.
pub(super) struct Wire {
    /// The crate's client.
    pub client: Client,
    /// Counts connections: no two have the same.
    pub generation: u64,
    lost: Notify,
    states: tokio::sync::Mutex<StateWatcher>,
    armed: mpsc::UnboundedSender<Armed>,
    tasks: Mutex<Option<Tasks>>,
}

struct Tasks {
    session: JoinHandle<()>,
    watches: JoinHandle<()>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = self.client.session_id();
        write!(f, "Wire({session}, connection {})", self.generation)
    }
}

impl Drop for Wire {
    /// Where nobody called [`Wire::end`]: the crate's task ends by itself with the last handle on its client.
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks.take() {
            tasks.watches.abort();
        }
    }
}

/// A client just connected, and the task that serves it.
pub(super) struct Connected {
    /// The crate's client.
    pub client: Client,
    /// Ends when the connection and the client have ended.
    pub task: JoinHandle<()>,
}

/// Connects to one server. Dropping the future gives up without a trace.
pub(super) async fn connect(connector: Connector, host: &str) -> Result<Connected, Error> {
    let spawner = Spawner::default();
    let mut connecting = pin!(connector.connect(host));
    let client = poll_fn(|context| {
        let _scope = spawns_core::enter(&spawner);
        connecting.as_mut().poll(context)
    })
    .await?;
    let task = spawner
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match task {
        Some(task) => Ok(Connected { client, task }),
        None => Err(Error::UnexpectedError(
            "zookeeper-client connected without a task".to_owned(),
        )),
    }
}

/// Keeps hold of the task that the crate spawns for a connection, so that it can be ended.
#[derive(Default)]
struct Spawner(Mutex<Option<JoinHandle<()>>>);

impl spawns_core::Spawn for Spawner {
    fn spawn(&self, task: spawns_core::Task) {
        let handle = tokio::spawn(Box::into_pin(task.future));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }
}

impl Wire {
    /// Takes a connection into service; its watches report to `watches`.
    pub fn new(connected: Connected, generation: u64, watches: &Arc<Watches>) -> Arc<Wire> {
        let (armed, incoming) = mpsc::unbounded_channel();
        let listening = Arc::clone(watches).listen(incoming, generation);
        Arc::new(Wire {
            states: tokio::sync::Mutex::new(connected.client.state_watcher()),
            client: connected.client,
            generation,
            lost: Notify::new(),
            armed,
            tasks: Mutex::new(Some(Tasks {
                session: connected.task,
                watches: tokio::spawn(listening),
            })),
        })
    }

    /// The session, to be taken along to the next connection.
    pub fn session(&self) -> SessionInfo {
        self.client.session().clone()
    }

    /// The session's id, as it stands in `ephemeralOwner`.
    pub fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// Hands a watcher to the task that listens for it.
    pub fn listen(&self, armed: Armed) {
        // Nobody listens any more once the connection has ended, and then no watch of it counts.
        self.armed.send(armed).ok();
    }

    /// Says that a request failed because of the connection.
    pub fn report_lost(&self) {
        self.lost.notify_one();
    }

    /// Waits until the connection is lost, by whatever sign comes first.
    pub async fn until_lost(&self) {
        let mut states = self.states.lock().await;
        if self.client.state() != SessionState::SyncConnected {
            return;
        }
        let ended = async {
            // A task that panicked sends no state any more.
            while !self.has_ended() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            _ = states.changed() => {}
            () = self.lost.notified() => {}
            () = ended => {}
        }
    }

    fn has_ended(&self) -> bool {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks
            .as_ref()
            .is_none_or(|tasks| tasks.session.is_finished())
    }

    /// Ends the connection, not the session. Requests in flight fail; what becomes of them is unknown.
    pub async fn end(&self) {
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(tasks) = tasks else { return };
        // The watches first: a watcher that outlives the session's task panics.
        for task in [tasks.watches, tasks.session] {
            task.abort();
            // An error here says that it was aborted, which is what is wanted.
            task.await.ok();
        }
    }

    /// Whether `error` is the connection's fault rather than an answer of ZooKeeper to the request.
    pub fn is_loss(&self, error: &Error) -> bool {
        match error {
            Error::ConnectionLoss
            | Error::ClientClosed
            | Error::SessionExpired
            | Error::SessionMoved
            | Error::AuthFailed
            | Error::Timeout
            | Error::NoHosts
            | Error::Custom(_) => true,
            // The crate says these of a connection it gave up, and of one answer it could not read.
            Error::UnexpectedError(_) | Error::UnmarshalError { .. } => {
                self.has_ended() || self.client.state() != SessionState::SyncConnected
            }
            _ => false,
        }
    }
}
