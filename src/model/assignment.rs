//! Where a partition's replicas are, and where they are moving.
//!
//! Must never decide a move. Upstream: `ReplicaAssignment` in `ControllerContext.scala` (KIP-455).

use super::{BrokerId, BrokerIds};

/// The assigned replicas of a partition, with those being added and removed by a reassignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaAssignment {
    /// All replicas; the first is the preferred one. During a move: the target first, then those to be removed.
    pub replicas: BrokerIds,
    /// Those that a reassignment is adding.
    pub adding: BrokerIds,
    /// Those that a reassignment is removing.
    pub removing: BrokerIds,
}

impl ReplicaAssignment {
    /// An assignment that isn't moving.
    pub fn settled(replicas: BrokerIds) -> ReplicaAssignment {
        ReplicaAssignment {
            replicas,
            adding: BrokerIds::empty(),
            removing: BrokerIds::empty(),
        }
    }

    /// Whether a reassignment is running.
    pub fn is_being_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas as they were before the reassignment, as far as they are known.
    pub fn origin(&self) -> BrokerIds {
        self.replicas
            .iter()
            .filter(|id| !self.adding.contains(*id))
            .collect()
    }

    /// The replicas as they will be.
    pub fn target(&self) -> BrokerIds {
        self.replicas
            .iter()
            .filter(|id| !self.removing.contains(*id))
            .collect()
    }

    /// The assignment that moves this one to `target`; its origin stays what it was (KIP-455).
    pub fn reassign_to(&self, target: &BrokerIds) -> ReplicaAssignment {
        let origin = self.origin();
        let mut replicas: Vec<BrokerId> = Vec::with_capacity(target.len() + origin.len());
        for id in target.iter().chain(origin.iter()) {
            if !replicas.contains(&id) {
                replicas.push(id);
            }
        }
        ReplicaAssignment {
            adding: replicas
                .iter()
                .copied()
                .filter(|id| !origin.contains(*id))
                .collect(),
            removing: replicas
                .iter()
                .copied()
                .filter(|id| !target.contains(*id))
                .collect(),
            replicas: replicas.into_iter().collect(),
        }
    }
}
