//! Leaders change their in-sync sets, below IBP 2.7 through ZooKeeper and from then on through the controller.
//!
//! Must never let a leader count on a change before it knows that it took hold: a member that joins counts at once, one
//! that leaves counts until then. Upstream: `Partition.scala` (`expandIsr`, `shrinkIsr`, `handleAlterPartitionUpdate`,
//! `handleAlterPartitionError`).

use std::collections::BTreeSet;

use klamm::effect::{Answer, Committed};
use klamm::model::{
    BrokerId, BrokerIds, InterBrokerProtocol, KafkaError, LeaderAndIsr, PartitionEpoch,
    TopicPartition,
};

use super::alter_partition::{AfterRefusal, after_refusal, is_same};
use super::leading::{Difference, IsrChange, Wish};
use super::zk_isr::{StateWrite, write_state};
use super::{Life, Surroundings};
use crate::brokers::Cluster;

/// From here on a leader that finds its version stale changes nothing more until it is told to lead anew; before, it
/// tries again, in vain.
const FIRST_TO_GIVE_UP_STALE: InterBrokerProtocol = InterBrokerProtocol::new(2, 8, 0);

impl Life {
    /// A leader begins to change an in-sync set, if nothing is in the way.
    pub(super) fn wish(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        difference: Difference,
        around: &mut impl Surroundings,
    ) {
        let now_ms = around.now_ms();
        let begun = {
            let cluster = cluster.borrow();
            let broker = cluster.get(&id);
            let replica = broker.and_then(|broker| broker.replicas.get(partition));
            let memory = self.memory(id);
            let leading = memory.and_then(|memory| memory.leading(partition));
            let (Some(broker), Some(replica), Some(leading)) = (broker, replica, leading) else {
                return;
            };
            let wish = leading.begin_change(replica, difference);
            (wish, broker.protocol.has_alter_partition())
        };
        match begun {
            (wish, true) => self.submit(cluster, id, partition, wish, now_ms, around),
            (wish, false) => self.write(cluster, id, partition, &wish, around),
        }
    }

    /// Members that have lagged too long leave; looked at twice in the time that they may lag.
    pub(super) fn shrink(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        around: &mut impl Surroundings,
    ) {
        let (now_ms, lag_ms_max) = (around.now_ms(), self.habits.lag_ms_max);
        let Some(memory) = self.memory(id).filter(|m| m.shrinks_at_ms <= now_ms) else {
            return;
        };
        memory.shrinks_at_ms = now_ms + lag_ms_max / 2;
        for partition in self.led_by(id) {
            let lagging = self.lagging(cluster, id, &partition, now_ms);
            if !lagging.is_empty() {
                self.wish(cluster, id, &partition, Difference::Leave(lagging), around);
            }
        }
        self.commit(cluster, id, around);
    }

    fn lagging(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        now_ms: u64,
    ) -> BTreeSet<BrokerId> {
        let lag_ms_max = self.habits.lag_ms_max;
        let cluster = cluster.borrow();
        let broker = cluster.get(&id);
        let replica = broker.and_then(|broker| broker.replicas.get(partition));
        let memory = self.memory(id);
        let leading = memory.and_then(|memory| memory.leading(partition));
        let (Some(broker), Some(replica), Some(leading)) = (broker, replica, leading) else {
            return BTreeSet::new();
        };
        let end = broker.disk.get(partition).map_or(0, |log| log.end());
        leading.lagging(replica, end, now_ms, lag_ms_max)
    }

    // --- by ZooKeeper

    fn write(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        wish: &Wish,
        around: &mut impl Surroundings,
    ) {
        let (controller_epoch, release) = {
            let cluster = cluster.borrow();
            let broker = cluster.get(&id);
            let replica = broker.and_then(|broker| broker.replicas.get(partition));
            let (Some(broker), Some(replica)) = (broker, replica) else {
                return;
            };
            (replica.controller_epoch, broker.release)
        };
        // Watches fire while it is written: nothing is borrowed here.
        let written = match around.session(id) {
            Some(session) => write_state(&session, partition, id, controller_epoch, wish),
            None => StateWrite::NoSession,
        };
        match written {
            StateWrite::Written(epoch) => {
                self.learn(cluster, id, partition, &wish.isr, epoch);
                let now_ms = around.now_ms();
                if let Some(memory) = self.memory(id) {
                    memory.notices.add(partition, now_ms);
                }
            }
            StateWrite::Stale if release >= FIRST_TO_GIVE_UP_STALE => {
                self.set_change(id, partition, IsrChange::Pending(wish.clone()));
            }
            // Without a session the writer hangs, and looks again when it has one.
            StateWrite::Stale => self.set_change(id, partition, IsrChange::Committed),
            StateWrite::NoSession if self.is_unsure(id, partition) => {}
            StateWrite::NoSession => self.set_change(id, partition, IsrChange::Committed),
            StateWrite::Unsure => self.set_change(id, partition, IsrChange::Unsure(wish.clone())),
        }
    }

    /// Writes again what may or may not have been written.
    pub(super) fn settle_writes(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        around: &mut impl Surroundings,
    ) {
        for partition in self.led_by(id) {
            let memory = self.memory(id);
            let leading = memory.and_then(|memory| memory.leading(&partition));
            let unsure = leading.and_then(|leading| match &leading.change {
                IsrChange::Unsure(wish) => Some(wish.clone()),
                IsrChange::Committed | IsrChange::Pending(_) => None,
            });
            if let Some(wish) = unsure {
                self.write(cluster, id, &partition, &wish, around);
            }
        }
    }

    fn is_unsure(&mut self, id: BrokerId, partition: &TopicPartition) -> bool {
        let leading = self.memory(id).and_then(|m| m.leading(partition));
        leading.is_some_and(|leading| matches!(leading.change, IsrChange::Unsure(_)))
    }

    /// Tells the controller what was written, when it is time.
    pub(super) fn notify(&mut self, id: BrokerId, around: &mut impl Surroundings) {
        let now_ms = around.now_ms();
        let Some(memory) = self.memory(id).filter(|m| !m.notices.is_empty()) else {
            return;
        };
        if memory.notices.is_due(now_ms)
            && let Some(session) = around.session(id)
        {
            memory.notices.leave(&session, now_ms);
        }
    }

    // --- by the controller

    fn submit(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        wish: Wish,
        now_ms: u64,
        around: &mut impl Surroundings,
    ) {
        let Some(memory) = self.memory(id) else {
            return;
        };
        if memory.asker.submit(partition, wish, now_ms) {
            self.ask(cluster, id, around);
        } else {
            self.set_change(id, partition, IsrChange::Committed);
        }
    }

    /// Sends what is to be sent to the controller, if nothing is under way.
    pub(super) fn ask(&mut self, cluster: &Cluster, id: BrokerId, around: &mut impl Surroundings) {
        let now_ms = around.now_ms();
        let request = {
            let cluster = cluster.borrow();
            let (Some(broker), Some(memory)) = (cluster.get(&id), self.memory(id)) else {
                return;
            };
            memory.asker.next(broker, now_ms)
        };
        let Some(request) = request else {
            return;
        };
        if !around.ask_isr(id, request) {
            let until_ms = now_ms + self.habits.isr_retry_ms;
            if let Some(memory) = self.memory(id) {
                memory.asker.hold(until_ms);
            }
        }
    }

    /// A broker reads the answer to the request that is out.
    pub(super) fn hear_answer(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        answer: Option<Answer>,
        around: &mut impl Surroundings,
    ) {
        let again_ms = around.now_ms() + self.habits.isr_retry_ms;
        let Some(memory) = self.memory(id).filter(|memory| memory.asker.waits()) else {
            return;
        };
        let result = match answer {
            None => return memory.asker.hold(again_ms),
            Some(Answer::AlterPartition(result)) => result,
            Some(other) => panic!("broker {id} asked for an in-sync set and was told {other:?}"),
        };
        // One such code anywhere, and the connection looks for another controller and sends the whole again.
        let not_controller = Err(KafkaError::NOT_CONTROLLER);
        match result {
            Err(KafkaError::NOT_CONTROLLER) => memory.asker.hold(again_ms),
            Ok(answers) if answers.iter().any(|one| one.result == not_controller) => {
                memory.asker.hold(again_ms);
            }
            Err(_) => memory.asker.refused(again_ms),
            Ok(answers) => {
                let answered = memory.asker.answered(answers);
                for (partition, wish, result) in answered {
                    if self.hear(cluster, id, &partition, wish, result) == Reading::Ends {
                        return;
                    }
                }
                let now_ms = around.now_ms();
                if let Some(memory) = self.memory(id) {
                    memory.asker.look_at(now_ms);
                }
                self.ask(cluster, id, around);
            }
        }
    }

    /// What a leader makes of the answer to one wish.
    fn hear(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        wish: Wish,
        result: Result<Committed<LeaderAndIsr>, KafkaError>,
    ) -> Reading {
        let Some(memory) = self.memory(id) else {
            return Reading::Ends;
        };
        // Up to 3.0 this drops whatever is wished for by now, asked or not.
        memory.asker.forget(partition);
        let (release, leader_epoch, partition_epoch) = {
            let cluster = cluster.borrow();
            let broker = cluster.get(&id);
            let replica = broker.and_then(|broker| broker.replicas.get(partition));
            let (Some(broker), Some(replica)) = (broker, replica) else {
                return Reading::GoesOn;
            };
            (
                broker.release,
                replica.leader_epoch,
                replica.partition_epoch,
            )
        };
        let change = memory.leading(partition).map(|leading| &leading.change);
        let wished = change.and_then(IsrChange::wish);
        if !wished.is_some_and(|wished| is_same(release, wished, &wish)) {
            return Reading::GoesOn;
        }
        match result {
            Ok(state) => {
                let epoch = state.partition_epoch();
                if state.leader_epoch == leader_epoch && epoch >= partition_epoch {
                    self.learn(cluster, id, partition, &state.isr, epoch);
                }
            }
            Err(error) => match after_refusal(release, error) {
                AfterRefusal::Reset => self.set_change(id, partition, IsrChange::Committed),
                AfterRefusal::GiveUp => {}
                AfterRefusal::AskAgain => {
                    // It is looked at when the rest of the answer has been read.
                    memory.asker.submit(partition, wish, 0);
                }
                AfterRefusal::Trip => return Reading::Ends,
            },
        }
        Reading::GoesOn
    }

    // --- both

    /// A change took hold.
    fn learn(
        &mut self,
        cluster: &Cluster,
        id: BrokerId,
        partition: &TopicPartition,
        isr: &BrokerIds,
        epoch: PartitionEpoch,
    ) {
        if let Some(broker) = cluster.borrow_mut().get_mut(&id)
            && let Some(replica) = broker.replicas.get_mut(partition)
        {
            replica.isr = isr.clone();
            replica.partition_epoch = epoch;
        }
        self.set_change(id, partition, IsrChange::Committed);
    }

    fn set_change(&mut self, id: BrokerId, partition: &TopicPartition, change: IsrChange) {
        let memory = self.memory(id);
        if let Some(leading) = memory.and_then(|memory| memory.leading(partition)) {
            leading.change = change;
        }
    }
}

/// Whether the rest of an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    GoesOn,
    Ends,
}
