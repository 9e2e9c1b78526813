//! Tests of the queue to one broker: what is kept, dropped and replaced, in which order.

use std::time::Duration;

use super::super::tests::*;
use super::*;
use crate::effect::{ControlRequests, ReplicaDisposal};
use crate::model::BrokerId;

fn requests(batch: ControlRequests) -> Vec<BrokerRequest> {
    let all = super::super::wire::requests_by_broker(batch, BrokerId(1000), &"INTERNAL".into());
    all.into_iter().map(|(_, request)| request).collect()
}

fn request(batch: ControlRequests) -> BrokerRequest {
    requests(batch).remove(0)
}

fn push(queue: &RequestQueue, batch: ControlRequests) {
    queue.push(request(batch), Instant::now());
}

/// A request as the tests below tell it.
fn told(queued: &QueuedRequest) -> String {
    fn list<T>(topics: &[ByTopic<T>], one: impl Fn(&T) -> String) -> String {
        let of = |topic: &ByTopic<T>| {
            let all = topic.partitions.iter();
            all.map(|it| format!(" {}-{}", topic.topic, one(it)))
                .collect::<String>()
        };
        topics.iter().map(of).collect()
    }
    match queued.request.order() {
        Order::LeaderAndIsr(topics) => {
            let one = |it: &crate::effect::LeaderAndIsrPartition| {
                let new = if it.is_new { " new" } else { "" };
                format!("{} epoch {}{new}", it.partition, it.state.leader_epoch)
            };
            format!("LeaderAndIsr{}", list(topics, one))
        }
        Order::UpdateMetadata(update) => {
            let one = |it: &UpdateMetadataPartition| match &it.leadership {
                AnnouncedLeadership::Committed(state) => {
                    format!("{} epoch {}", it.partition, state.leader_epoch)
                }
                AnnouncedLeadership::DuringDelete(_) => format!("{} dying", it.partition),
            };
            format!("UpdateMetadata{}", list(update.topics(), one))
        }
        Order::StopReplica(topics) => {
            format!("StopReplica{}", list(topics, |it| it.partition.to_string()))
        }
    }
}

fn drained(queue: &RequestQueue) -> Vec<String> {
    std::iter::from_fn(|| queue.take(Instant::now()))
        .map(|queued| told(&queued))
        .collect()
}

fn full(leader_epoch: i32) -> Vec<BrokerRequest> {
    let partitions = |epoch| vec![led(0, 1, epoch), led(1, 1, epoch)];
    requests(ControlRequests {
        leader_and_isr: leader_and_isr(1, vec![of_topic("orders", partitions(leader_epoch))])
            .leader_and_isr,
        ..marked(&[1], leader_epoch)
    })
}

#[test]
fn requests_leave_in_the_order_in_which_they_came() {
    let queue = RequestQueue::new(Arc::default());
    for mark in 0..4 {
        push(&queue, marked(&[1], mark));
    }
    let left = drained(&queue);
    let expected: Vec<_> = (0..4)
        .map(|it| format!("UpdateMetadata orders-0 epoch {it}"))
        .collect();
    assert_eq!(left, expected);
}

#[test]
fn a_closed_queue_has_nothing_and_takes_nothing() {
    let queue = RequestQueue::new(Arc::default());
    push(&queue, marked(&[1], 1));
    queue.close();
    push(&queue, marked(&[1], 2));
    queue.put_first(request(marked(&[1], 3)), Instant::now());
    queue.replace(full(4), Instant::now());
    assert!(queue.take(Instant::now()).is_none());
    assert!(!queue.is_open());
}

#[test]
fn a_replaced_queue_keeps_deletions_and_stops_and_tells_of_live_brokers_before_leaders() {
    let queue = RequestQueue::new(Arc::default());
    push(&queue, marked(&[1], 1));
    push(
        &queue,
        update_metadata(&[1], vec![of_topic("gone", vec![dying(0), dying(1)])]),
    );
    push(
        &queue,
        stop_replica(
            1,
            vec![of_topic("gone", vec![stop(0, -2, ReplicaDisposal::Keep)])],
        ),
    );
    push(
        &queue,
        leader_and_isr(1, vec![of_topic("orders", vec![led(1, 1, 3)])]),
    );
    push(
        &queue,
        stop_replica(
            1,
            vec![of_topic("gone", vec![stop(0, -2, ReplicaDisposal::Delete)])],
        ),
    );
    push(
        &queue,
        update_metadata(
            &[1],
            vec![
                of_topic("away", vec![dying(0)]),
                of_topic("orders", vec![announced(1, 2, 4)]),
            ],
        ),
    );
    assert_eq!(queue.replace(full(9), Instant::now()), (6, 5));
    assert_eq!(
        drained(&queue),
        [
            "UpdateMetadata away-0 dying gone-0 dying gone-1 dying",
            "StopReplica gone-0",
            "StopReplica gone-0",
            "UpdateMetadata orders-0 epoch 9",
            "LeaderAndIsr orders-0 epoch 9 orders-1 epoch 9",
        ]
    );
}

#[test]
fn a_partition_that_was_new_when_it_was_queued_is_new_in_what_replaces_it() {
    let queue = RequestQueue::new(Arc::default());
    let mut unborn = led(1, 1, 0);
    unborn.is_new = true;
    push(
        &queue,
        leader_and_isr(1, vec![of_topic("orders", vec![unborn])]),
    );
    push(
        &queue,
        leader_and_isr(
            1,
            vec![of_topic("orders", vec![led(0, 1, 1), led(1, 1, 1)])],
        ),
    );
    queue.replace(full(2), Instant::now());
    let queued = drained(&queue);
    assert_eq!(
        queued.last().unwrap(),
        "LeaderAndIsr orders-0 epoch 2 orders-1 epoch 2 new"
    );
}

#[test]
fn nothing_replaces_nothing() {
    let queue = RequestQueue::new(Arc::default());
    push(
        &queue,
        update_metadata(&[1], vec![of_topic("gone", vec![dying(0)])]),
    );
    assert_eq!(queue.replace(vec![], Instant::now()), (1, 1));
    assert_eq!(drained(&queue), ["UpdateMetadata gone-0 dying"]);
}

#[test]
fn a_backlog_is_told_once_until_it_is_bearable_again_or_replaced() {
    let queue = RequestQueue::new(Arc::default());
    let fill = |count| (0..count).for_each(|mark| push(&queue, marked(&[1], mark)));
    fill(BEHIND_ABOVE as i32);
    assert_eq!(queue.answered(), Backlog::Bearable);
    fill(1);
    assert_eq!(queue.answered(), Backlog::TooLong);
    fill(5);
    assert_eq!(queue.answered(), Backlog::Bearable, "told already");
    while queue.take(Instant::now()).is_some() {}
    assert_eq!(queue.answered(), Backlog::Bearable);
    fill(65);
    assert_eq!(queue.answered(), Backlog::TooLong);
    queue.replace(full(1), Instant::now());
    fill(65);
    assert_eq!(queue.answered(), Backlog::TooLong);
}

#[test]
fn the_age_of_the_oldest_counts_from_when_it_was_queued_until_it_is_answered() {
    let metrics = Arc::<ChannelMetrics>::default();
    let queue = RequestQueue::new(Arc::clone(&metrics));
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let age_ms = |ms| {
        let age = metrics.oldest_request_age_at(at(ms).into_std());
        age.map(|age| age.as_millis())
    };
    queue.push(request(marked(&[1], 1)), at(0));
    queue.push(request(marked(&[1], 2)), at(40));
    assert_eq!(age_ms(40), Some(40));
    queue.take(at(41)).unwrap();
    assert_eq!(age_ms(50), Some(50));
    queue.answered();
    assert_eq!(age_ms(50), Some(10));
    assert_eq!(
        (
            metrics.queue_size.get(),
            metrics.request_rate_and_queue_time.count()
        ),
        (1, 1)
    );
}
