//! One session's line to the server: each request takes its time on the way there and back, and the connection may be cut
//! before the server saw it or after it was done.
//!
//! At the pace `at_once` nothing takes time and nothing is cut: faults come from the test's plan alone. Must never know
//! what a request means.

use std::cell::Cell;
use std::rc::Rc;

use klamm::port::ZkFault;

use crate::chance::{Chance, Rate, Span};
use crate::mishap::Mishap;
use crate::pace::Pace;
use crate::zookeeper::{CreateMode, Op, OpResult, Stat, ZkError, ZkMultiError, ZkSession};

/// How a line fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// The connection is cut before the server sees a request.
    pub loss_before: Rate,
    /// The server did what it was asked, and the answer is lost.
    pub loss_after: Rate,
    /// How long a cut connection stays cut, in milliseconds.
    pub outage_ms: Span,
    /// How late a watch is heard, in milliseconds.
    pub watch_delay_ms: Span,
    /// How long a session outlives its connection, in milliseconds.
    pub session_timeout_ms: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub const FAIR: Weather = Weather {
        loss_before: Rate::NEVER,
        loss_after: Rate::NEVER,
        outage_ms: Span::NONE,
        watch_delay_ms: Span::NONE,
        session_timeout_ms: 18_000,
    };
}

/// Since when and until when a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When it was cut.
    pub since_ms: u64,
    /// When the client gets through again.
    pub until_ms: u64,
}

/// What becomes of a line, shared by all that use it.
#[derive(Debug, Clone)]
pub struct Fate {
    /// Who uses it, and how fast.
    pub pace: Pace,
    /// How it fares.
    pub weather: Rc<Cell<Weather>>,
    /// Whether it is cut.
    pub outage: Rc<Cell<Option<Outage>>>,
}

impl Fate {
    /// Of one who never waits.
    pub fn at_once(pace: Pace) -> Fate {
        Fate {
            pace,
            weather: Rc::new(Cell::new(Weather::FAIR)),
            outage: Rc::default(),
        }
    }

    /// Cuts the connection for a while.
    pub fn cut(&self, session: &ZkSession, now_ms: u64) {
        session.zookeeper().disconnect(session.id());
        let Some(chance) = self.pace.chance() else {
            session.zookeeper().reconnect(session.id());
            return;
        };
        if self.outage.get().is_none() {
            let until_ms = now_ms + chance.within(self.weather.get().outage_ms);
            let since_ms = now_ms;
            self.outage.set(Some(Outage { since_ms, until_ms }));
        }
    }

    /// How late a watch is heard this time.
    pub fn watch_delay_ms(&self) -> u64 {
        let chance = self.pace.chance();
        let late = |chance: &Chance| {
            chance.within_or(self.weather.get().watch_delay_ms, 1, Mishap::WatchLate)
        };
        chance.map_or(0, late)
    }

    fn befalls(&self, mishap: Mishap, rate: impl Fn(Weather) -> Rate) -> bool {
        let chance = self.pace.chance();
        chance.is_some_and(|chance| chance.befalls(mishap, rate(self.weather.get())))
    }
}

/// Why a call has no outcome yet, or never will.
#[derive(Debug)]
pub enum Broken {
    /// The connection was cut: what was asked may or may not have happened.
    Cut,
    /// It failed.
    Failed(ZkFault),
}

impl From<ZkFault> for Broken {
    fn from(fault: ZkFault) -> Broken {
        Broken::Failed(fault)
    }
}

/// What an error means to a caller that knows no better.
pub fn fault(path: &str, error: ZkError) -> Broken {
    match error {
        ZkError::SessionExpired => Broken::Failed(ZkFault::SessionLost),
        ZkError::ConnectionLoss => Broken::Cut,
        ZkError::RequestTooLarge { size_bytes } => {
            panic!("{path}: a request of {size_bytes} bytes, which a server never answers")
        }
        other => Broken::Failed(ZkFault::Refused {
            path: path.to_owned(),
            cause: other.to_string(),
        }),
    }
}

/// See the file's comment.
pub struct Line<'a> {
    pub session: &'a ZkSession,
    pub fate: &'a Fate,
    pub now_ms: &'a dyn Fn() -> u64,
}

impl Line<'_> {
    /// One request and its answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(&ZkSession) -> Result<T, ZkError>,
    ) -> Result<T, ZkError> {
        let fate = self.fate;
        fate.pace.turn().await;
        if fate.outage.get().is_some() {
            return Err(self.why_there_is_no_answer());
        }
        if fate.befalls(Mishap::ZooKeeperRequestLost, |weather| weather.loss_before) {
            fate.cut(self.session, (self.now_ms)());
            return Err(self.why_there_is_no_answer());
        }
        let answer = request(self.session);
        if fate.befalls(Mishap::ZooKeeperAnswerLost, |weather| weather.loss_after) {
            fate.cut(self.session, (self.now_ms)());
            return Err(self.why_there_is_no_answer());
        }
        if !fate.pace.is_at_once() {
            fate.pace.turn().await;
            if fate.outage.get().is_some() || !self.session.is_connected() {
                return Err(self.why_there_is_no_answer());
            }
        }
        answer
    }

    fn why_there_is_no_answer(&self) -> ZkError {
        // Only the server can tell that a session is over.
        let is_cut = self.fate.outage.get().is_some();
        match is_cut || self.session.zookeeper().is_alive(self.session.id()) {
            true => ZkError::ConnectionLoss,
            false => ZkError::SessionExpired,
        }
    }

    /// See [`ZkSession::multi`].
    pub async fn multi(&self, ops: &[Op]) -> Result<Vec<OpResult>, ZkMultiError> {
        self.multi_seen(ops, |_| {}).await
    }

    /// The same; `see` is called at the moment at which all of it took hold, whether the answer arrives or not.
    pub async fn multi_seen(
        &self,
        ops: &[Op],
        see: impl FnOnce(bool),
    ) -> Result<Vec<OpResult>, ZkMultiError> {
        let whole = |error| ZkMultiError { index: 0, error };
        let answer = self.ask(|session| {
            let answer = session.multi(ops);
            see(answer.is_ok());
            Ok(answer)
        });
        answer.await.map_err(whole)?
    }

    /// See [`ZkSession::create`].
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<(String, Stat), ZkError> {
        self.ask(|session| session.create(path, data, mode)).await
    }

    /// See [`ZkSession::set`].
    pub async fn set(
        &self,
        path: &str,
        data: &[u8],
        expected: Option<i32>,
    ) -> Result<Stat, ZkError> {
        self.ask(|session| session.set(path, data, expected)).await
    }

    /// See [`ZkSession::delete`].
    pub async fn delete(&self, path: &str, expected: Option<i32>) -> Result<(), ZkError> {
        self.ask(|session| session.delete(path, expected)).await
    }

    /// See [`ZkSession::get`].
    pub async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), ZkError> {
        self.ask(|session| session.get(path)).await
    }

    /// See [`ZkSession::get_and_watch`].
    pub async fn get_and_watch(&self, path: &str) -> Result<(Vec<u8>, Stat), ZkError> {
        self.ask(|session| session.get_and_watch(path)).await
    }

    /// Reads several nodes in one request, each for itself; see [`ZkSession::get`] and [`ZkSession::get_and_watch`].
    pub async fn get_each(
        &self,
        paths: &[String],
        arm: bool,
    ) -> Result<Vec<Result<(Vec<u8>, Stat), ZkError>>, ZkError> {
        self.ask(|session| {
            let read = |path: &String| match arm {
                true => session.get_and_watch(path),
                false => session.get(path),
            };
            // A session that can't ask at all fails as a whole.
            let whole = |read: &Result<_, ZkError>| match read {
                Err(error @ (ZkError::ConnectionLoss | ZkError::SessionExpired)) => Some(*error),
                _ => None,
            };
            let reads: Vec<_> = paths.iter().map(read).collect();
            match reads.iter().find_map(whole) {
                Some(error) => Err(error),
                None => Ok(reads),
            }
        })
        .await
    }

    /// See [`ZkSession::exists`].
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, ZkError> {
        self.ask(|session| session.exists(path)).await
    }

    /// See [`ZkSession::exists_and_watch`].
    pub async fn exists_and_watch(&self, path: &str) -> Result<Option<Stat>, ZkError> {
        self.ask(|session| session.exists_and_watch(path)).await
    }

    /// See [`ZkSession::children`].
    pub async fn children(&self, path: &str) -> Result<Vec<String>, ZkError> {
        self.ask(|session| session.children(path)).await
    }

    /// See [`ZkSession::children_and_watch`].
    pub async fn children_and_watch(&self, path: &str) -> Result<Vec<String>, ZkError> {
        self.ask(|session| session.children_and_watch(path)).await
    }
}
