//! In which version each broker is told, and what becomes of a request in it.

use super::*;
use crate::port::Brokers;

async fn told(release: Release, requests: ControlRequests) -> Vec<Received> {
    let mut broker = FakeBroker::start(release).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let last = ControlRequests {
        protocol: requests.protocol,
        ..marked(&[1], -99)
    };
    node.manager.send(requests);
    node.manager.send(last);
    let mut orders = Vec::new();
    loop {
        let order = broker.order().await;
        if order.key() == ApiKey::UPDATE_METADATA && mark(&order) == -99 {
            return orders;
        }
        orders.push(order);
    }
}

fn one_of_each(protocol: InterBrokerProtocol) -> ControlRequests {
    let lisr = leader_and_isr(1, vec![of_topic("orders", vec![led(0, 1, 5)])]);
    let stops = stop_replica(
        1,
        vec![of_topic("stock", vec![stop(0, 3, ReplicaDisposal::Keep)])],
    );
    ControlRequests {
        protocol,
        leader_and_isr: lisr.leader_and_isr,
        stop_replica: stops.stop_replica,
        ..marked(&[1], 5)
    }
}

fn versions(orders: &[Received]) -> Vec<i16> {
    orders.iter().map(Received::version).collect()
}

#[tokio::test]
async fn each_release_is_told_in_the_newest_versions_that_it_takes() {
    let table = [
        (V1_0, [1, 4, 0]),
        (V2_2, [2, 5, 1]),
        (V2_4, [4, 6, 2]),
        (V2_6, [4, 6, 3]),
        (V2_8, [5, 7, 3]),
        (V3_2, [6, 7, 3]),
        (V3_9, [7, 8, 4]),
    ];
    for (release, expected) in table {
        let orders = told(release, one_of_each(InterBrokerProtocol::NEWEST)).await;
        assert_eq!(versions(&orders), expected, "{release:?}");
    }
}

#[tokio::test]
async fn the_inter_broker_protocol_is_the_upper_bound() {
    let table = [
        ("1.0", [1, 4, 0]),
        ("2.1", [1, 4, 0]),
        ("2.2-IV0", [2, 5, 1]),
        ("2.4-IV0", [3, 5, 1]),
        ("2.4", [4, 6, 2]),
        ("2.6", [4, 6, 3]),
        ("2.8-IV0", [4, 6, 3]),
        ("2.8", [5, 7, 3]),
        ("3.2", [6, 7, 3]),
        ("3.4", [7, 8, 4]),
    ];
    for (protocol, expected) in table {
        let orders = told(V3_9, one_of_each(protocol.parse().unwrap())).await;
        assert_eq!(versions(&orders), expected, "{protocol}");
    }
}

#[tokio::test]
async fn leader_and_isr_names_no_topic_by_id_unless_all_have_one() {
    let nameless = ByTopic {
        topic_id: None,
        ..of_topic("old", vec![led(0, 1, 5)])
    };
    let both = vec![nameless, of_topic("orders", vec![led(0, 1, 5)])];
    let orders = told(V3_9, leader_and_isr(1, both)).await;
    assert_eq!(orders[0].version(), 4);
    assert_eq!(
        orders[0].read::<LeaderAndIsrRequest>().topic_states.len(),
        2
    );
}

#[tokio::test]
async fn stop_replica_is_split_where_one_flag_holds_for_all_and_deletion_goes_first() {
    use ReplicaDisposal::{Delete, Keep};
    let mixed = || {
        let orders = of_topic("orders", vec![stop(0, 3, Keep), stop(1, -2, Delete)]);
        let stock = of_topic("stock", vec![stop(7, 4, Keep)]);
        stop_replica(1, vec![orders, stock])
    };
    for release in [V1_0, V2_2, V2_4] {
        let orders = told(release, mixed()).await;
        let said: Vec<(bool, Vec<i32>)> = orders
            .iter()
            .map(|order| {
                let request: StopReplicaRequest = order.read();
                let grouped = request
                    .topics
                    .iter()
                    .flat_map(|topic| &topic.partition_indexes);
                let flat = request
                    .ungrouped_partitions
                    .iter()
                    .map(|it| &it.partition_index);
                (
                    request.delete_partitions,
                    grouped.chain(flat).copied().collect(),
                )
            })
            .collect();
        assert_eq!(said, [(true, vec![1]), (false, vec![0, 7])], "{release:?}");
    }
    for release in [V2_6, V3_9] {
        let orders = told(release, mixed()).await;
        assert_eq!(orders.len(), 1, "{release:?}");
        let request: StopReplicaRequest = orders[0].read();
        let said: Vec<(i32, i32, bool)> = request
            .topic_states
            .iter()
            .flat_map(|topic| &topic.partition_states)
            .map(|it| (it.partition_index, it.leader_epoch, it.delete_partition))
            .collect();
        assert_eq!(
            said,
            [(0, 3, false), (1, -2, true), (7, 4, false)],
            "{release:?}"
        );
    }
}

#[tokio::test]
async fn both_halves_of_a_split_stop_replica_come_again_after_a_lost_connection() {
    use ReplicaDisposal::{Delete, Keep};
    let mut broker = FakeBroker::start(V2_4).await;
    broker.will([Reply::Close, Reply::Confirm, Reply::Close]);
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let mixed = of_topic("orders", vec![stop(0, 3, Keep), stop(1, -2, Delete)]);
    node.manager.send(stop_replica(1, vec![mixed]));
    let orders = broker.orders(4).await;
    let flags: Vec<bool> = orders
        .iter()
        .map(|order| order.read::<StopReplicaRequest>().delete_partitions)
        .collect();
    assert_eq!(flags, [true, true, false, false]);
}

#[tokio::test]
async fn the_versions_change_with_the_protocol_on_a_new_connection_only() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let under = |protocol: &str, mark| ControlRequests {
        protocol: protocol.parse().unwrap(),
        ..marked(&[1], mark)
    };
    for (protocol, mark) in [("2.6", 1), ("2.6", 2), ("3.4", 3), ("3.4", 4)] {
        node.manager.send(under(protocol, mark));
    }
    let orders = broker.orders(4).await;
    assert_eq!(versions(&orders), [6, 6, 8, 8]);
    assert_eq!(orders[0].connection, orders[1].connection);
    assert_ne!(orders[1].connection, orders[2].connection);
    assert_eq!(orders[2].connection, orders[3].connection);
}

#[tokio::test]
async fn a_broker_is_asked_for_its_versions_after_every_connect() {
    let mut broker = FakeBroker::start(V2_4).await;
    let mut node = Node::with(ChannelConfig {
        survey: super::super::SurveyQuestions::VersionsOnly,
        ..config()
    });
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    node.answer().await;
    let first = broker.order().await;
    broker.becomes(V3_9);
    broker.hang_up();
    while broker.end().await != first.connection {}
    node.manager.send(marked(&[1], 2));
    assert_eq!((first.version(), broker.order().await.version()), (6, 8));
}

#[tokio::test]
async fn what_brokers_understand_is_kept_for_the_node() {
    let (old, new) = (FakeBroker::start(V2_4).await, FakeBroker::start(V3_9).await);
    let mut node = Node::new();
    let ranges = node.manager.ranges();
    node.manager.add_broker(&old.registration(1, 50));
    node.manager.add_broker(&new.registration(2, 51));
    node.manager.send(marked(&[1, 2], 1));
    node.answer().await;
    node.answer().await;
    let of = |id| {
        ranges
            .of(BrokerId(id))
            .and_then(|said| said.range(ApiKey::UPDATE_METADATA))
    };
    assert_eq!((of(1), of(2)), (Some((0, 6)), Some((0, 8))));
    assert_eq!(ranges.common().get(&ApiKey::UPDATE_METADATA), Some(&(0, 6)));
    node.manager.remove_broker(BrokerId(1));
    assert_eq!(ranges.common().get(&ApiKey::UPDATE_METADATA), Some(&(0, 8)));
}
