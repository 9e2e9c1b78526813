//! Which partitions a broker that wants to leave gives up, and which it still leads.
//!
//! Elects nobody and shrinks nothing itself: the flow puts `led` through the partition machine and `followed` through
//! the replica machine. Upstream: `KafkaController.doControlledShutdown`.

use crate::model::{BrokerEpoch, BrokerId, KafkaError, TopicPartition};
use crate::state::ControllerContext;

/// Whether a broker's wish to leave is heard.
///
/// # Errors
/// `STALE_CONTROLLER_EPOCH` while we are not the controller, `BROKER_NOT_AVAILABLE` for a broker that isn't registered,
/// `STALE_BROKER_EPOCH` for one that wrote before it registered anew.
///
/// Only an older epoch is refused here: of a newer one, from a broker whose new registration wasn't seen yet, the flow
/// finds out first. Java answers `UNKNOWN_SERVER_ERROR` to an unknown broker that names its epoch, by accident of a
/// failed look-up; the broker asks again either way.
pub fn admit(
    context: &ControllerContext,
    broker: BrokerId,
    broker_epoch: Option<BrokerEpoch>,
) -> Result<(), KafkaError> {
    if context.term().is_none() {
        return Err(KafkaError::STALE_CONTROLLER_EPOCH);
    }
    let Some(known) = context.registration(broker) else {
        return Err(KafkaError::BROKER_NOT_AVAILABLE);
    };
    match broker_epoch {
        Some(claimed) if claimed != BrokerEpoch::UNKNOWN && claimed < known.epoch => {
            Err(KafkaError::STALE_BROKER_EPOCH)
        }
        Some(_) | None => Ok(()),
    }
}

/// What a leaving broker gives up. Both lists are in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShutdownPlan {
    /// It leads them: others are to be elected.
    pub led: Vec<TopicPartition>,
    /// It follows in them: it leaves their in-sync sets.
    pub followed: Vec<TopicPartition>,
}

/// What `broker` gives up: its partitions that have other replicas and a known leadership. A partition that lives on it
/// alone has nowhere to go, and one of a topic queued for deletion is left to the deletion, as in Kafka from
/// 2.1 on.
pub fn plan(context: &ControllerContext, broker: BrokerId) -> ShutdownPlan {
    let (led, followed) =
        movable(context, broker).partition(|partition| leads(context, broker, partition));
    ShutdownPlan { led, followed }
}

/// The partitions that `broker` still leads although others could: while there are any, it asks again.
pub fn remaining(context: &ControllerContext, broker: BrokerId) -> Vec<TopicPartition> {
    movable(context, broker)
        .filter(|partition| leads(context, broker, partition))
        .collect()
}

/// The partitions on `broker` that a controlled shutdown is about, in order.
fn movable(
    context: &ControllerContext,
    broker: BrokerId,
) -> impl Iterator<Item = TopicPartition> + '_ {
    context
        .replicas_on(broker)
        .into_iter()
        .map(|replica| replica.partition)
        .filter(|partition| {
            context.replicas(partition).len() > 1
                && context.leadership(partition).is_some()
                && !context.is_to_be_forgotten(&partition.topic)
        })
}

/// Whether `broker` leads `partition`.
fn leads(context: &ControllerContext, broker: BrokerId, partition: &TopicPartition) -> bool {
    context
        .leadership(partition)
        .is_some_and(|held| held.leader == broker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster::{self, put_led_partition, put_partition, topic};

    const LEAVING: BrokerId = BrokerId(1);

    #[test]
    fn a_broker_is_heard_unless_its_registration_is_older_than_the_one_we_know() {
        let context = small_cluster::of_brokers(&[1, 2]);
        let table = [
            (None, Ok(())),
            (Some(-1), Ok(())),
            (Some(100), Err(KafkaError::STALE_BROKER_EPOCH)),
            (Some(0), Err(KafkaError::STALE_BROKER_EPOCH)),
            (Some(101), Ok(())),
            (Some(102), Ok(())),
        ];
        for (epoch, expected) in table {
            let answer = admit(&context, LEAVING, epoch.map(BrokerEpoch));
            assert_eq!(answer, expected, "epoch {epoch:?}, registered under 101");
        }
    }

    #[test]
    fn a_broker_that_asks_again_while_it_is_leaving_is_heard() {
        let mut context = small_cluster::of_brokers(&[1, 2]);
        context.begin_shutting_down(LEAVING);
        assert_eq!(admit(&context, LEAVING, Some(BrokerEpoch(101))), Ok(()));
    }

    #[test]
    fn an_unregistered_broker_is_told_so_with_and_without_an_epoch() {
        let context = small_cluster::of_brokers(&[2]);
        for epoch in [None, Some(BrokerEpoch(-1)), Some(BrokerEpoch(101))] {
            assert_eq!(
                admit(&context, LEAVING, epoch),
                Err(KafkaError::BROKER_NOT_AVAILABLE)
            );
        }
    }

    #[test]
    fn who_is_not_the_controller_says_so_first() {
        assert_eq!(
            admit(&ControllerContext::new(), LEAVING, Some(BrokerEpoch(1))),
            Err(KafkaError::STALE_CONTROLLER_EPOCH)
        );
    }

    #[test]
    fn a_leaving_broker_gives_up_what_others_can_take() {
        let mut context = small_cluster::of_brokers(&[1, 2, 3]);
        let led = put_led_partition(&mut context, "t", 0, &[1, 2], 1);
        let followed = put_led_partition(&mut context, "t", 1, &[2, 1], 2);
        let leaderless = put_led_partition(&mut context, "t", 2, &[3, 1], -1);
        put_led_partition(&mut context, "alone", 0, &[1], 1);
        put_led_partition(&mut context, "elsewhere", 0, &[2, 3], 2);
        put_led_partition(&mut context, "going", 0, &[1, 2], 1);
        context.queue_for_deletion(&topic("going"));
        put_partition(&mut context, "young", 0, &[1, 2]);

        let plan = plan(&context, LEAVING);
        assert_eq!(plan.led, [led]);
        assert_eq!(plan.followed, [followed, leaderless]);
    }

    #[test]
    fn what_it_still_leads_alone_of_its_kind_remains_and_the_rest_does_not() {
        let mut context = small_cluster::of_brokers(&[1, 2, 3]);
        let stuck = put_led_partition(&mut context, "t", 0, &[1, 2], 1);
        put_led_partition(&mut context, "t", 1, &[1, 2], 2);
        put_led_partition(&mut context, "alone", 0, &[1], 1);
        put_led_partition(&mut context, "going", 0, &[1, 2], 1);
        context.queue_for_deletion(&topic("going"));
        assert_eq!(remaining(&context, LEAVING), [stuck]);
        assert_eq!(remaining(&context, BrokerId(3)), []);
    }

    #[test]
    fn a_broker_that_hosts_nothing_gives_up_nothing() {
        let context = small_cluster::of_brokers(&[1, 2]);
        assert_eq!(plan(&context, LEAVING), ShutdownPlan::default());
        assert_eq!(remaining(&context, LEAVING), []);
    }
}
