//! Who leads a partition and which replicas are in sync with the leader.
//!
//! Must never carry ZooKeeper's version or a controller epoch: those belong to what is committed
//! (`effect::Committed`), not to what is planned. Upstream: `LeaderAndIsr.scala`.

use super::{BrokerId, BrokerIds, LeaderEpoch};

/// Whether the leader still has to recover from an unclean election (KIP-704, written from IBP 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaderRecoveryState {
    /// The normal state; absent in ZooKeeper's JSON.
    #[default]
    Recovered,
    /// Elected uncleanly; the leader clears it through AlterPartition.
    Recovering,
}

/// Leadership of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAndIsr {
    /// The leader, or [`BrokerId::NO_LEADER`].
    pub leader: BrokerId,
    /// Rises with every controller write.
    pub leader_epoch: LeaderEpoch,
    /// The in-sync replicas in the order in which they were written. Never empty in ZooKeeper.
    pub isr: BrokerIds,
    /// See [`LeaderRecoveryState`].
    pub leader_recovery_state: LeaderRecoveryState,
}

impl LeaderAndIsr {
    /// The state of a partition at its creation.
    pub fn initial(leader: BrokerId, isr: BrokerIds) -> LeaderAndIsr {
        LeaderAndIsr {
            leader,
            leader_epoch: LeaderEpoch::INITIAL,
            isr,
            leader_recovery_state: LeaderRecoveryState::Recovered,
        }
    }

    /// The leader, if there is one.
    pub fn leader(&self) -> Option<BrokerId> {
        (self.leader.0 >= 0).then_some(self.leader)
    }

    /// The next controller write: this leader and in-sync set, the leader epoch one higher.
    pub fn next(&self, leader: BrokerId, isr: BrokerIds) -> LeaderAndIsr {
        LeaderAndIsr {
            leader,
            leader_epoch: self.leader_epoch.next(),
            isr,
            leader_recovery_state: self.leader_recovery_state,
        }
    }
}
