//! What goes wrong at a call of the ZooKeeper port: chosen by the test, at one call, once.
//!
//! Must never pretend: a fault does to the server, or to the connection, what it is named after, and the port then sees
//! what a genuine client would see.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use crate::zookeeper::ZooKeeper;

/// The calls of the ZooKeeper port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // Each is the method of the same name.
pub enum Call {
    RoleView,
    TakeRole,
    ReleaseRole,
    DropRegistration,
    UpdateRegistration,
    CreateBasePaths,
    KlammIds,
    RecordKlammId,
    Brokers,
    Broker,
    TopicNames,
    Topics,
    PartitionStates,
    TopicConfigs,
    DefaultBrokerConfig,
    EntityConfigs,
    QuotaEntities,
    ConfigChangeNames,
    DelegationTokens,
    ConfigChanges,
    TopicDeletions,
    IsrChangeNotifications,
    LogDirEventNotifications,
    PreferredReplicaElection,
    PartitionReassignment,
    Feature,
    ProducerIdBlock,
    Write,
}

/// What goes wrong.
pub enum Fault {
    /// The connection is cut before the server saw the request; the client asks again.
    LossBefore,
    /// The server did it and the answer is lost; the client finds out what became of it.
    LossAfter,
    /// The session ends before the server saw the request.
    SessionLostBefore,
    /// The server did it, then the session ends.
    SessionLostAfter,
    /// Somebody else acts just before the server sees the request.
    Meanwhile(Box<dyn FnOnce(&ZooKeeper)>),
    /// The server refuses, for this cause.
    Refused(&'static str),
}

impl Fault {
    /// Somebody else acts just before.
    pub fn meanwhile(act: impl FnOnce(&ZooKeeper) + 'static) -> Fault {
        Fault::Meanwhile(Box::new(act))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::LossBefore => "LossBefore",
            Fault::LossAfter => "LossAfter",
            Fault::SessionLostBefore => "SessionLostBefore",
            Fault::SessionLostAfter => "SessionLostAfter",
            Fault::Meanwhile(_) => "Meanwhile",
            Fault::Refused(_) => "Refused",
        })
    }
}

#[derive(Debug)]
enum When {
    /// The next call of this kind.
    Next(Call),
    /// The call with this number.
    Numbered(usize),
}

#[derive(Debug, Default)]
struct Plan {
    made: Vec<Call>,
    planned: VecDeque<(When, Fault)>,
    has_refused: bool,
}

/// What is to go wrong at one controller's port, and every call made so far. Clones are handles to the same plan.
#[derive(Debug, Clone, Default)]
pub struct Faults(Rc<RefCell<Plan>>);

impl Faults {
    /// The next call of this kind goes wrong. Several faults planned for one kind hit one call each, in order.
    pub fn at_next(&self, call: Call, fault: Fault) {
        let mut plan = self.0.borrow_mut();
        plan.planned.push_back((When::Next(call), fault));
    }

    /// The call with this number, counted from now (0 is the next), goes wrong, whatever it is.
    pub fn at_call(&self, from_now: usize, fault: Fault) {
        let mut plan = self.0.borrow_mut();
        let number = plan.made.len() + from_now;
        plan.planned.push_back((When::Numbered(number), fault));
    }

    /// Every call made so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.0.borrow().made.clone()
    }

    /// Faults that were planned and have not struck.
    pub fn outstanding(&self) -> usize {
        self.0.borrow().planned.len()
    }

    /// Whether the server has ever refused a call.
    pub fn has_refused(&self) -> bool {
        self.0.borrow().has_refused
    }

    /// Forgets the faults that have not struck.
    pub fn clear(&self) {
        self.0.borrow_mut().planned.clear();
    }

    /// Notes a call, and what is to go wrong with it.
    pub(crate) fn strike(&self, call: Call) -> Option<Fault> {
        let mut plan = self.0.borrow_mut();
        let number = plan.made.len();
        plan.made.push(call);
        let hit = plan.planned.iter().position(|(when, _)| match when {
            When::Next(kind) => *kind == call,
            When::Numbered(planned) => *planned == number,
        })?;
        let (_, fault) = plan.planned.remove(hit)?;
        plan.has_refused |= matches!(fault, Fault::Refused(_));
        Some(fault)
    }
}
