//! How leaders from IBP 2.7 on get an in-sync set changed: they ask the controller, one request at a time.
//!
//! Must never drop a wish because an answer was lost: the same request goes out again until it is answered. Upstream:
//! `AlterPartitionManager.scala` (`AlterIsrManager.scala` up to 3.1), `NodeToControllerChannelManager.scala`.

use std::collections::BTreeMap;

use klamm::effect::{AlterPartitionAnswer, Committed, Incarnation, TopicReference};
use klamm::event::{AlterPartitionItem, AlterPartitionRequest};
use klamm::model::{
    InterBrokerProtocol, KafkaError, LeaderAndIsr, LeaderRecoveryState, TopicPartition,
};

use super::leading::Wish;
use crate::broker::SimBroker;
use crate::leaders::alter_partition_version;

const RELEASE_2_8: InterBrokerProtocol = InterBrokerProtocol::new(2, 8, 0);
const RELEASE_3_1: InterBrokerProtocol = InterBrokerProtocol::new(3, 1, 0);
const RELEASE_3_2: InterBrokerProtocol = InterBrokerProtocol::new(3, 2, 0);
const RELEASE_3_3: InterBrokerProtocol = InterBrokerProtocol::new(3, 3, 0);

/// The wishes of one broker on their way.
#[derive(Debug, Default)]
pub(super) struct Asker {
    /// Those without an answer; the ones in flight are among them.
    unsent: BTreeMap<TopicPartition, Wish>,
    flight: Option<Flight>,
    /// When it looks for something to send although no wish came.
    looks_at_ms: Option<u64>,
}

/// A request that is not answered.
#[derive(Debug)]
struct Flight {
    request: AlterPartitionRequest,
    wishes: Vec<(TopicPartition, TopicReference, Wish)>,
    leg: Leg,
}

/// Where a request is.
#[derive(Debug, PartialEq, Eq)]
enum Leg {
    /// With the controller, for all that the broker knows.
    Out,
    /// Back, or never gone: it goes out at this time.
    Held { until_ms: u64 },
}

/// A wish with its answer.
pub(super) type Answered = (
    TopicPartition,
    Wish,
    Result<Committed<LeaderAndIsr>, KafkaError>,
);

impl Asker {
    /// Takes a wish on. `false`: an older one of the partition has no answer yet.
    pub(super) fn submit(&mut self, partition: &TopicPartition, wish: Wish, now_ms: u64) -> bool {
        if self.unsent.contains_key(partition) {
            return false;
        }
        self.unsent.insert(partition.clone(), wish);
        self.looks_at_ms = Some(now_ms);
        true
    }

    /// Drops the wish of a partition, even if it is in flight.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.unsent.remove(partition);
    }

    /// Whether a wish of a partition waits for an answer.
    pub(super) fn has(&self, partition: &TopicPartition) -> bool {
        let flight = self.flight.iter().flat_map(|flight| &flight.wishes);
        self.unsent.contains_key(partition) || flight.into_iter().any(|(of, ..)| of == partition)
    }

    /// Whether nothing waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.flight.is_none()
    }

    /// The request that goes out now, if any.
    pub(super) fn next(
        &mut self,
        broker: &SimBroker,
        now_ms: u64,
    ) -> Option<AlterPartitionRequest> {
        if let Some(flight) = &mut self.flight {
            let Leg::Held { until_ms } = flight.leg else {
                return None;
            };
            if now_ms < until_ms {
                return None;
            }
            flight.leg = Leg::Out;
            return Some(flight.request.clone());
        }
        // 2.7 looks every 50 ms; later ones when a wish comes, and after an answer.
        let looks = broker.release < RELEASE_2_8
            || self
                .looks_at_ms
                .is_some_and(|looks_at_ms| looks_at_ms <= now_ms);
        if self.unsent.is_empty() || !looks {
            return None;
        }
        self.looks_at_ms = None;
        let flight = Flight::of(&self.unsent, broker);
        let request = flight.request.clone();
        self.flight = Some(flight);
        Some(request)
    }

    /// The request didn't reach the one who decides: the same one goes out again.
    pub(super) fn hold(&mut self, until_ms: u64) {
        if let Some(flight) = &mut self.flight {
            flight.leg = Leg::Held { until_ms };
        }
    }

    /// Whether a request is out.
    pub(super) fn waits(&self) -> bool {
        let flight = self.flight.as_ref();
        flight.is_some_and(|flight| flight.leg == Leg::Out)
    }

    /// The request was refused as a whole: another one is made of what is still wished for.
    pub(super) fn refused(&mut self, looks_at_ms: u64) {
        self.flight = None;
        self.looks_at_ms = Some(looks_at_ms);
    }

    /// The request was answered: its wishes, each with what it was told. Those that were not named stay.
    pub(super) fn answered(&mut self, answers: Vec<AlterPartitionAnswer>) -> Vec<Answered> {
        let Some(flight) = self.flight.take() else {
            return Vec::new();
        };
        let of = |topic: &TopicReference, partition: i32| {
            let mut named = answers.iter().rev();
            let found = named.find(|one| one.topic == *topic && one.partition == partition)?;
            Some(found.result.clone())
        };
        let wishes = flight.wishes.into_iter();
        wishes
            .filter_map(|(partition, topic, wish)| {
                let result = of(&topic, partition.partition)?;
                Some((partition, wish, result))
            })
            .collect()
    }

    /// Looks for more to send.
    pub(super) fn look_at(&mut self, now_ms: u64) {
        self.looks_at_ms = Some(now_ms);
    }
}

impl Flight {
    fn of(unsent: &BTreeMap<TopicPartition, Wish>, broker: &SimBroker) -> Flight {
        let id_of = |partition: &TopicPartition| broker.logs.get(partition).copied().flatten();
        let highest = alter_partition_version(broker.release);
        let by_id = highest >= 2
            && broker.protocol.has_topic_ids()
            && unsent.keys().all(|partition| id_of(partition).is_some());
        let reference = |partition: &TopicPartition| match id_of(partition) {
            Some(id) if by_id => TopicReference::Id(id),
            _ => TopicReference::Name(partition.topic.clone()),
        };
        let wishes: Vec<_> = unsent
            .iter()
            .map(|(partition, wish)| (partition.clone(), reference(partition), wish.clone()))
            .collect();
        let item = |(partition, topic, wish): &(TopicPartition, TopicReference, Wish)| {
            AlterPartitionItem {
                topic: topic.clone(),
                partition: partition.partition,
                leader_epoch: wish.leader_epoch,
                new_isr: wish.isr.clone(),
                leader_recovery_state: LeaderRecoveryState::Recovered,
                partition_epoch: wish.partition_epoch,
            }
        };
        let request = AlterPartitionRequest {
            version: if by_id { highest } else { highest.min(1) },
            from: Incarnation {
                broker: broker.id,
                epoch: broker.epoch,
            },
            partitions: wishes.iter().map(item).collect(),
        };
        Flight {
            request,
            wishes,
            leg: Leg::Out,
        }
    }
}

/// What a leader makes of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRefusal {
    /// The state is as it was.
    Reset,
    /// The state may be anything: it changes nothing more until it is told to lead anew.
    GiveUp,
    /// It asks again at once.
    AskAgain,
    /// It means to ask again and trips over its own unanswered wish: it never does, and the rest of the answer is not
    /// looked at (2.7 to 3.0).
    Trip,
}

/// Whether two wishes are the same in the eyes of a leader: up to 3.0 it compares the sets alone.
pub(super) fn is_same(release: InterBrokerProtocol, one: &Wish, other: &Wish) -> bool {
    if release < RELEASE_3_1 {
        one.is_alike(other)
    } else {
        one == other
    }
}

/// What a leader of this release makes of a code.
pub(super) fn after_refusal(release: InterBrokerProtocol, error: KafkaError) -> AfterRefusal {
    match error {
        KafkaError::UNKNOWN_TOPIC_OR_PARTITION
        | KafkaError::FENCED_LEADER_EPOCH
        | KafkaError::INVALID_UPDATE_VERSION => AfterRefusal::GiveUp,
        KafkaError::INVALID_REQUEST if release >= RELEASE_3_2 => AfterRefusal::GiveUp,
        KafkaError::UNKNOWN_TOPIC_ID if release >= RELEASE_3_3 => AfterRefusal::GiveUp,
        KafkaError::INELIGIBLE_REPLICA if release >= RELEASE_3_3 => AfterRefusal::Reset,
        KafkaError::OPERATION_NOT_ATTEMPTED if release >= RELEASE_3_1 => AfterRefusal::Reset,
        _ if release >= RELEASE_3_1 => AfterRefusal::AskAgain,
        _ => AfterRefusal::Trip,
    }
}
