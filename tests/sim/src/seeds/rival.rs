//! The rival: a Java broker's controller, which takes `/controller` when it can, writes as it does, and gives it up.
//!
//! A model of what others may do to a cluster between two terms of klamm, not a second controller: straight-line code over
//! a session of its own, one operation at a time, and after each anybody may act. What a term of its kind also does, and
//! what is left alone here: topic deletion, reassignments, controlled shutdowns, failed log directories, AlterPartition,
//! and the ids of topics that have none. Must never be woken by anything but its own session and what the world wants of
//! it. Upstream: `KafkaController.scala`.

mod hands;
mod office;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use klamm::effect::Term;
use klamm::model::{BrokerId, ControllerEpoch, InterBrokerProtocol, TopicName};
use klamm::port::Brokers;
use klamm::zk::{paths, znode};

use crate::brokers::{Cluster, SimChannels};
use crate::clock::{SimQueue, VirtualTime};
use crate::pace::Pace;
use crate::zookeeper::{
    CreateMode, NodeEvent, Op, SessionEvent, WatchedEvent, ZkSession, ZooKeeper,
};

use office::Office;

/// From here on the role is taken in one transaction and every write is fenced by `/controller_epoch` (KAFKA-6082).
const FENCED: InterBrokerProtocol = InterBrokerProtocol::new(2, 1, 0);
/// From here on a broker that restarts before anybody looks is noticed (KAFKA-1120).
const SEES_BOUNCES: InterBrokerProtocol = InterBrokerProtocol::new(2, 2, 0);

/// What it hears: each says "look", never what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    SessionOver,
    Controller,
    Brokers,
    Topics,
    Topic(TopicName),
    TopicDeletions,
    IsrChanges,
    PreferredElection,
    /// The world wants something else of it.
    Wish,
}

/// Why a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The session is over, or its connection was cut.
    Session,
    /// A write was fenced off: somebody else was elected since.
    Moved,
    /// `/controller` names somebody else, or nobody.
    Resigned,
}

type Heard = Rc<RefCell<VecDeque<News>>>;

#[derive(Debug, Default)]
struct Shared {
    wants_role: Cell<bool>,
    term: Cell<Option<Term>>,
    session: RefCell<Option<ZkSession>>,
    /// What the session heard; a new session begins with nothing.
    heard: RefCell<Heard>,
}

/// All that its procedures work with. Clones are handles to the same.
#[derive(Debug, Clone)]
struct Actor {
    id: BrokerId,
    release: InterBrokerProtocol,
    cluster: Cluster,
    zookeeper: ZooKeeper,
    pace: Pace,
    channels: SimChannels,
    shared: Rc<Shared>,
}

/// The controller of one Java broker.
pub struct Rival {
    actor: Actor,
    time: VirtualTime,
    queue: SimQueue,
    /// What it is doing; `None` before the first poll, and while its process is dead.
    life: Option<Pin<Box<dyn Future<Output = ()>>>>,
    is_dead: bool,
}

impl fmt::Debug for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Rival");
        let text = text.field("actor", &self.actor);
        text.field("is_dead", &self.is_dead).finish_non_exhaustive()
    }
}

impl Rival {
    /// The controller of `broker`, whose binaries are of `release`; it doesn't want the role yet.
    pub fn new(
        broker: BrokerId,
        release: InterBrokerProtocol,
        cluster: &Cluster,
        zookeeper: &ZooKeeper,
        time: &VirtualTime,
        pace: Pace,
    ) -> Rival {
        let queue = SimQueue::new(time);
        let actor = Actor {
            id: broker,
            release,
            cluster: cluster.clone(),
            zookeeper: zookeeper.clone(),
            pace,
            channels: SimChannels::new(cluster, &queue),
            shared: Rc::default(),
        };
        Rival {
            actor,
            time: time.clone(),
            queue,
            life: None,
            is_dead: false,
        }
    }

    /// Whether it is to contend for the role. One that crashed and wants it is started again. One that has it and no
    /// longer wants it is shut down once it has done what it is at, or an operator deletes `/controller` under it at once.
    pub fn wants_role(&mut self, wants: bool) {
        if wants && self.is_dead {
            // A restarted broker's old session would time out sooner or later.
            self.expire();
            self.is_dead = false;
        }
        if self.actor.shared.wants_role.replace(wants) == wants {
            return;
        }
        let by_operator = |chance: &crate::chance::Chance| chance.once_in(2);
        if !wants && self.owns_node() && self.actor.pace.chance().is_none_or(by_operator) {
            self.actor.zookeeper.uproot(paths::CONTROLLER);
        }
        self.actor.shared.hear(News::Wish);
    }

    /// Goes on with what it is doing, as far as its pace lets it.
    pub fn poll(&mut self) {
        if self.is_dead {
            return;
        }
        // Nothing that brokers answer changes what it does next.
        self.queue.forget();
        let actor = &self.actor;
        let begin = || Box::pin(actor.clone().live()) as Pin<Box<dyn Future<Output = ()>>>;
        let life = self.life.get_or_insert_with(begin);
        let still = life.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(still.is_pending(), "a rival lives until it is killed");
    }

    /// When it is to be polled next; `None`: not before its session hears something or something else is wanted of it.
    pub fn due_ms(&self) -> Option<u64> {
        if self.is_dead {
            return None;
        }
        let has_news = !self.actor.shared.heard.borrow().borrow().is_empty();
        let waits_until = self.actor.pace.due_ms();
        waits_until.or_else(|| has_news.then(|| self.time.now_ms()))
    }

    /// Its session times out on the server.
    pub fn expire(&mut self) {
        if let Some(session) = self.session() {
            self.actor.zookeeper.expire(session.id());
        }
    }

    /// Its process dies: nothing is said, and the session lives until it is expired.
    pub fn crash(&mut self) {
        self.is_dead = true;
        self.life = None;
        self.actor.pace.forget();
        self.actor.shared.wants_role.set(false);
        self.actor.resign();
        self.queue.forget();
    }

    /// Its channels to the brokers.
    pub fn channels(&self) -> &SimChannels {
        &self.actor.channels
    }

    /// The queue that brokers' answers go to.
    pub fn queue(&self) -> &SimQueue {
        &self.queue
    }

    /// Whether it wants the role.
    pub fn contends(&self) -> bool {
        self.actor.shared.wants_role.get()
    }

    /// Whether it is the controller, in its own eyes.
    pub fn holds_role(&self) -> bool {
        self.actor.shared.term.get().is_some()
    }

    /// Its session, the last one if that is over.
    pub fn session(&self) -> Option<ZkSession> {
        self.actor.shared.session.borrow().clone()
    }

    fn owns_node(&self) -> bool {
        let owner = self.actor.zookeeper.look(paths::CONTROLLER);
        let owner = owner.and_then(|node| node.stat().owner);
        owner.is_some() && owner == self.session().map(|session| session.id())
    }
}

impl Shared {
    fn hear(&self, news: News) {
        self.heard.borrow().borrow_mut().push_back(news);
    }
}

impl Actor {
    /// Contends and serves, term after term.
    async fn live(self) {
        loop {
            if !self.shared.wants_role.get() {
                self.news().await;
                continue;
            }
            self.open_session();
            let end = match self.contend().await {
                Ok(Some(term)) => {
                    self.shared.term.set(Some(term));
                    Office::new(&self, term).serve().await
                }
                Ok(None) => {
                    self.news().await;
                    continue;
                }
                Err(end) => end,
            };
            self.resign();
            if end == End::Session {
                self.session().close();
            }
        }
    }

    /// Tries to win the role; `None`: somebody has it, or was faster. The watch on `/controller` tells when to try again.
    async fn contend(&self) -> Result<Option<Term>, End> {
        let holder = self.read(|s| s.exists_and_watch(paths::CONTROLLER));
        if holder.await?.flatten().is_some() {
            return Ok(None);
        }
        match self.release >= FENCED {
            true => self.contend_at_once().await,
            false => self.contend_step_by_step().await,
        }
    }

    async fn contend_at_once(&self) -> Result<Option<Term>, End> {
        let (epoch, version) = self.epoch_or_first().await?;
        let next = next_epoch(epoch);
        let ops = [
            Op::create(paths::CONTROLLER, &self.controller(), CreateMode::Ephemeral),
            Op::set(paths::CONTROLLER_EPOCH, &encoded(next), Some(version)),
        ];
        let done = self.ask(|s| s.multi(&ops).map_err(|failed| failed.error));
        let won = done.await?.is_ok();
        Ok(won.then_some(Term {
            epoch: next,
            epoch_zk_version: version + 1,
        }))
    }

    /// As up to 2.0: the epoch is read after `/controller` was made, so that two may go on with one epoch after the other.
    async fn contend_step_by_step(&self) -> Result<Option<Term>, End> {
        let data = self.controller();
        let made = self.ask(|s| s.create(paths::CONTROLLER, &data, CreateMode::Ephemeral));
        if made.await?.is_err() {
            return Ok(None);
        }
        let (epoch, version) = self.epoch_or_first().await?;
        let next = next_epoch(epoch);
        let data = encoded(next);
        let set = self.ask(|s| s.set(paths::CONTROLLER_EPOCH, &data, Some(version)));
        if let Ok(stat) = set.await? {
            return Ok(Some(Term {
                epoch: next,
                epoch_zk_version: stat.version,
            }));
        }
        // It deletes whatever stands there now, another's node as well.
        let gone = self.ask(|s| s.delete(paths::CONTROLLER, None));
        gone.await?.ok();
        Ok(None)
    }

    /// The epoch and its version; the first broker of a cluster makes the node.
    async fn epoch_or_first(&self) -> Result<(ControllerEpoch, i32), End> {
        loop {
            if let Some((data, stat)) = self.read(|s| s.get(paths::CONTROLLER_EPOCH)).await? {
                match znode::decode_controller_epoch(&data) {
                    Ok(epoch) => return Ok((epoch, stat.version)),
                    Err(why) => panic!("{}: {why}", paths::CONTROLLER_EPOCH),
                }
            }
            let first = encoded(ControllerEpoch(0));
            let made =
                self.ask(|s| s.create(paths::CONTROLLER_EPOCH, &first, CreateMode::Persistent));
            made.await?.ok();
        }
    }

    /// Whether `/controller` names it still. It looks at the id alone.
    async fn is_named(&self) -> Result<bool, End> {
        self.read(|s| s.exists_and_watch(paths::CONTROLLER)).await?;
        let found = self.read(|s| s.get(paths::CONTROLLER)).await?;
        let named = found.and_then(|(data, _)| znode::decode_controller(&data).ok());
        Ok(named.is_some_and(|named| named.broker == self.id))
    }

    fn controller(&self) -> Vec<u8> {
        format!(r#"{{"version":1,"brokerid":{},"timestamp":"0"}}"#, self.id).into_bytes()
    }

    fn resign(&self) {
        self.shared.term.set(None);
        self.channels.clone().shut_down();
    }

    fn session(&self) -> ZkSession {
        match &*self.shared.session.borrow() {
            Some(session) => session.clone(),
            None => panic!("rival {} acts before its first session", self.id),
        }
    }

    /// Opens a session unless it has one.
    fn open_session(&self) {
        let session = self.shared.session.borrow().clone();
        if session.is_some_and(|session| self.zookeeper.is_alive(session.id())) {
            return;
        }
        let heard = Heard::default();
        self.shared.heard.replace(heard.clone());
        let opened = self.zookeeper.connect(move |event| {
            let news = news_of(&event);
            let mut heard = heard.borrow_mut();
            if news == Some(News::SessionOver) {
                heard.clear();
            }
            heard.extend(news);
        });
        self.shared.session.replace(Some(opened));
    }

    /// The oldest news; waits for some.
    async fn news(&self) -> News {
        let take = || self.shared.heard.borrow().borrow_mut().pop_front();
        poll_fn(|_| take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

fn next_epoch(epoch: ControllerEpoch) -> ControllerEpoch {
    ControllerEpoch(epoch.0 + 1)
}

fn encoded(epoch: ControllerEpoch) -> Vec<u8> {
    znode::encode_controller_epoch(epoch)
}

fn news_of(event: &WatchedEvent) -> Option<News> {
    let path = match event {
        WatchedEvent::Session(SessionEvent::Expired) => return Some(News::SessionOver),
        WatchedEvent::Session(SessionEvent::Disconnected | SessionEvent::SyncConnected) => {
            return None;
        }
        WatchedEvent::Node(
            NodeEvent::Created(path)
            | NodeEvent::DataChanged(path)
            | NodeEvent::Deleted(path)
            | NodeEvent::ChildrenChanged(path),
        ) => path.as_str(),
    };
    match (path, paths::topic_path(path)) {
        (paths::CONTROLLER, _) => Some(News::Controller),
        (paths::TOPICS, _) => Some(News::Topics),
        (paths::DELETE_TOPICS, _) => Some(News::TopicDeletions),
        (paths::ISR_CHANGE_NOTIFICATION, _) => Some(News::IsrChanges),
        (paths::PREFERRED_REPLICA_ELECTION, _) => Some(News::PreferredElection),
        (_, Some(paths::TopicPath::Topic(name))) => Some(News::Topic(name)),
        (path, None) if path.starts_with(paths::BROKER_IDS) => Some(News::Brokers),
        _ => None,
    }
}
