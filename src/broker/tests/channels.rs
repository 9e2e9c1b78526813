//! What a channel does with its queue: order, removal, incarnations, endpoints, metrics.

use super::*;
use crate::effect::PartitionErrors;
use crate::model::{ControllerEpoch, KafkaError};
use crate::port::Brokers;

/// Requests as they came: the mark of an UpdateMetadata.
fn marks(orders: &[Received]) -> Vec<i32> {
    orders.iter().map(mark).collect()
}

#[tokio::test]
async fn requests_reach_a_broker_in_the_order_queued_and_one_at_a_time() {
    let mut broker = FakeBroker::start(V3_9).await;
    broker.will((0..6).map(|_| Reply::ConfirmIfAlone));
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    for mark in 0..6 {
        node.manager.send(marked(&[1], mark));
    }
    let orders = broker.orders(6).await;
    assert_eq!(marks(&orders), [0, 1, 2, 3, 4, 5]);
    assert!(
        orders.iter().all(|order| !order.crowded),
        "a request was sent before an answer"
    );
    assert!(
        orders
            .iter()
            .all(|order| order.connection == orders[0].connection)
    );
}

#[tokio::test]
async fn a_batch_arrives_as_leader_and_isr_then_update_metadata_then_stop_replica() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(2, 50));
    let stopped = of_topic("stock", vec![stop(0, 3, ReplicaDisposal::Delete)]);
    node.manager.send(ControlRequests {
        leader_and_isr: leader_and_isr(2, vec![of_topic("orders", vec![led(0, 1, 5)])])
            .leader_and_isr,
        stop_replica: stop_replica(2, vec![stopped]).stop_replica,
        ..marked(&[2], 5)
    });
    let orders = broker.orders(3).await;
    let keys: Vec<ApiKey> = orders.iter().map(Received::key).collect();
    assert_eq!(
        keys,
        [
            ApiKey::LEADER_AND_ISR,
            ApiKey::UPDATE_METADATA,
            ApiKey::STOP_REPLICA
        ]
    );
    for order in &orders {
        assert_eq!(order.header.client_id.as_deref(), Some("1000"));
    }
    let told: LeaderAndIsrRequest = orders[0].read();
    assert_eq!(
        (
            told.controller_id.0,
            told.controller_epoch,
            told.broker_epoch
        ),
        (1000, 7, 50)
    );
    assert!(!told.is_k_raft_controller);
}

#[tokio::test]
async fn answers_become_events_that_name_the_incarnation() {
    let broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(2, 50));
    node.manager.send(leader_and_isr(
        2,
        vec![of_topic("orders", vec![led(0, 1, 5)])],
    ));
    let from = incarnation(2, 50);
    let response = PartitionErrors {
        error: KafkaError::NONE,
        partitions: vec![],
    };
    assert_eq!(
        node.answer().await,
        ControllerEvent::LeaderAndIsrResponseReceived {
            from,
            response: response.clone()
        }
    );

    node.manager.send(marked(&[2], 5));
    let error = KafkaError::NONE;
    assert_eq!(
        node.answer().await,
        ControllerEvent::UpdateMetadataResponseReceived {
            from,
            number: NUMBER,
            error
        }
    );

    let topic = of_topic(
        "orders",
        vec![
            stop(1, -2, ReplicaDisposal::Delete),
            stop(2, -2, ReplicaDisposal::Delete),
        ],
    );
    node.manager.send(stop_replica(2, vec![topic]));
    let deleted = [1, 2]
        .map(|index| crate::model::TopicPartition::new(&TopicName::new("orders"), index))
        .to_vec();
    assert_eq!(
        node.answer().await,
        ControllerEvent::StopReplicaResponseReceived {
            from,
            controller_epoch: ControllerEpoch(7),
            deleted,
            response
        }
    );
}

#[tokio::test]
async fn a_confirmed_stop_without_deletion_is_no_event_and_a_refused_one_is() {
    let broker = FakeBroker::start(V3_9).await;
    broker.will([Reply::Confirm, Reply::Refuse(11)]);
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(2, 50));
    for _ in 0..2 {
        node.manager.send(stop_replica(
            2,
            vec![of_topic("orders", vec![stop(0, 3, ReplicaDisposal::Keep)])],
        ));
    }
    let response = PartitionErrors {
        error: KafkaError::STALE_CONTROLLER_EPOCH,
        partitions: vec![],
    };
    let refused = ControllerEvent::StopReplicaResponseReceived {
        from: incarnation(2, 50),
        controller_epoch: ControllerEpoch(7),
        deleted: vec![],
        response,
    };
    assert_eq!(node.answer().await, refused);
}

/// Upstream: `testStopReplicaRequestsWhileTopicDeletionStarted`, in two requests and in one.
#[tokio::test]
async fn the_answer_to_stops_and_deletions_names_the_deletions_alone() {
    use ReplicaDisposal::{Delete, Keep};
    for release in [V2_4, V3_9] {
        let broker = FakeBroker::start(release).await;
        let mut node = Node::new();
        node.manager.add_broker(&broker.registration(2, 50));
        let staying = of_topic("bar", vec![stop(1, 0, Keep)]);
        let going = of_topic("foo", vec![stop(0, -2, Delete), stop(1, -2, Delete)]);
        node.manager.send(stop_replica(2, vec![staying, going]));
        node.manager.send(marked(&[2], 5));
        let deleted = [0, 1]
            .map(|index| crate::model::TopicPartition::new(&TopicName::new("foo"), index))
            .to_vec();
        let from = incarnation(2, 50);
        let response = PartitionErrors {
            error: KafkaError::NONE,
            partitions: vec![],
        };
        let confirmed = ControllerEvent::StopReplicaResponseReceived {
            from,
            controller_epoch: ControllerEpoch(7),
            deleted,
            response,
        };
        assert_eq!(node.answer().await, confirmed, "{release:?}");
        let next = ControllerEvent::UpdateMetadataResponseReceived {
            from,
            number: NUMBER,
            error: KafkaError::NONE,
        };
        assert_eq!(node.answer().await, next, "{release:?}");
    }
}

#[tokio::test]
async fn errors_of_a_request_as_a_whole_are_events() {
    let broker = FakeBroker::start(V3_9).await;
    broker.will([Reply::Refuse(77), Reply::Refuse(-1), Reply::Refuse(31)]);
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(2, 50));
    for (mark, code) in [(1, 77), (2, -1), (3, 31)] {
        node.manager.send(marked(&[2], mark));
        let told = ControllerEvent::UpdateMetadataResponseReceived {
            from: incarnation(2, 50),
            number: NUMBER,
            error: KafkaError(code),
        };
        assert_eq!(node.answer().await, told);
    }
}

#[tokio::test]
async fn a_broker_that_does_not_answer_delays_nobody_else() {
    let (slow, mut quick) = (FakeBroker::start(V3_9).await, FakeBroker::start(V3_9).await);
    slow.will([Reply::Silence]);
    let mut node = Node::new();
    node.manager.add_broker(&slow.registration(1, 50));
    node.manager.add_broker(&quick.registration(2, 51));
    for mark in 0..20 {
        node.manager.send(marked(&[1, 2], mark));
    }
    assert_eq!(marks(&quick.orders(20).await), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn removal_drops_what_is_unsent_and_closes_the_connection() {
    let mut broker = FakeBroker::start(V3_9).await;
    let _never = broker.will_wait();
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    for mark in 0..5 {
        node.manager.send(marked(&[1], mark));
    }
    let first = broker.order().await;
    node.manager.remove_broker(BrokerId(1));
    while broker.end().await != first.connection {}

    node.manager.add_broker(&broker.registration(1, 60));
    node.manager.send(marked(&[1], 99));
    let next = broker.order().await;
    assert_eq!(
        mark(&next),
        99,
        "a request of the former incarnation was sent to the next"
    );
    assert_eq!(next.read::<UpdateMetadataRequest>().broker_epoch, 60);
}

#[tokio::test]
async fn a_broker_that_is_added_again_gets_only_what_is_queued_for_its_new_incarnation() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    let before = node.answer().await;
    let _never = broker.will_wait();
    node.manager.send(marked(&[1], 2));
    node.manager.send(marked(&[1], 3));
    broker.orders(2).await;

    node.manager.add_broker(&broker.registration(1, 60));
    node.manager.send(marked(&[1], 4));
    let after = node.answer().await;
    let told = |epoch| ControllerEvent::UpdateMetadataResponseReceived {
        from: incarnation(1, epoch),
        number: NUMBER,
        error: KafkaError::NONE,
    };
    assert_eq!((before, after), (told(50), told(60)));
    assert_eq!(mark(&broker.order().await), 4);
}

#[tokio::test]
async fn requests_for_a_broker_without_a_channel_cost_the_others_nothing() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(2, 50));
    node.manager.send(marked(&[1, 2, 3], 8));
    assert_eq!(mark(&broker.order().await), 8);
}

#[tokio::test]
async fn nothing_is_sent_after_the_role_is_gone() {
    let mut broker = FakeBroker::start(V3_9).await;
    let go_on = broker.will_wait();
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    node.manager.send(marked(&[1], 2));
    let first = broker.order().await;
    node.manager.shut_down();
    let _ = go_on.send(());
    while broker.end().await != first.connection {}
    assert!(!broker.has_order());
    assert!(node.metrics.channels().is_empty());
    node.manager.send(marked(&[1], 3));
    assert!(!broker.has_order());
}

/// Upstream: `testControllerShutdownDuringSend`. An answer may take 30 s, longer than a test here waits for anything.
#[tokio::test]
async fn the_end_of_the_role_does_not_wait_for_a_broker_that_never_answers() {
    let mut broker = FakeBroker::start(V3_9).await;
    broker.will([Reply::Silence]);
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let topics = vec![of_topic("orders", vec![led(0, 1, 5)])];
    node.manager.send(leader_and_isr(1, topics));
    let unanswered = broker.order().await;
    node.manager.shut_down();
    while broker.end().await != unanswered.connection {}
}

#[tokio::test]
async fn the_connection_follows_a_changed_endpoint_and_the_queue_stays() {
    let (mut old, mut new) = (FakeBroker::start(V3_9).await, FakeBroker::start(V3_9).await);
    old.will([Reply::Confirm, Reply::Silence]);
    let mut node = Node::new();
    node.manager.add_broker(&old.registration(1, 50));
    for mark in 0..4 {
        node.manager.send(marked(&[1], mark));
    }
    assert_eq!(marks(&old.orders(2).await), [0, 1]);
    node.manager.move_broker(&new.registration(1, 50));
    assert_eq!(marks(&new.orders(3).await), [1, 2, 3]);
}

#[tokio::test]
async fn an_idle_channel_follows_a_changed_endpoint_too() {
    let (mut old, mut new) = (FakeBroker::start(V3_9).await, FakeBroker::start(V3_9).await);
    let mut node = Node::new();
    node.manager.add_broker(&old.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    let first = old.order().await;
    node.answer().await;
    node.manager.move_broker(&new.registration(1, 50));
    while old.end().await != first.connection {}
    node.manager.send(marked(&[1], 2));
    assert_eq!(mark(&new.order().await), 2);
    assert!(!old.has_order());
}

#[tokio::test]
async fn an_unchanged_endpoint_keeps_the_connection() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    let first = broker.order().await;
    node.manager.move_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 2));
    assert_eq!(broker.order().await.connection, first.connection);
}

#[tokio::test]
async fn a_broker_without_our_listener_is_told_as_soon_as_it_has_it() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager
        .add_broker(&registration(1, 50, vec![broker.endpoint("EXTERNAL")]));
    node.manager.send(marked(&[1], 1));
    node.manager.move_broker(&broker.registration(1, 50));
    assert_eq!(mark(&broker.order().await), 1);
}

#[tokio::test]
async fn orders_go_to_the_control_plane_listener_where_there_is_one() {
    let (mut data, mut control) = (FakeBroker::start(V3_9).await, FakeBroker::start(V3_9).await);
    let listener = Some(Arc::from("CONTROLLER"));
    let mut node = Node::with(ChannelConfig {
        control_plane_listener: listener,
        ..config()
    });
    let both = vec![data.endpoint("INTERNAL"), control.endpoint("CONTROLLER")];
    node.manager.add_broker(&registration(1, 50, both));
    node.manager
        .add_broker(&registration(2, 51, vec![data.endpoint("INTERNAL")]));
    node.manager.send(marked(&[1], 1));
    assert_eq!(mark(&control.order().await), 1);
    node.manager.send(marked(&[2], 2));
    assert_eq!(mark(&data.order().await), 2);
}

#[tokio::test]
async fn a_connection_that_the_broker_closed_while_idle_is_made_again_without_losing_a_request() {
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    let first = broker.order().await;
    node.answer().await;
    broker.hang_up();
    while broker.end().await != first.connection {}
    node.manager.send(marked(&[1], 2));
    let second = broker.order().await;
    assert_eq!(mark(&second), 2);
    assert_ne!(second.connection, first.connection);
}

#[tokio::test]
async fn the_metrics_tell_queue_size_requests_taken_connection_and_the_age_of_the_oldest() {
    let mut broker = FakeBroker::start(V3_9).await;
    let go_on = broker.will_wait();
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(4, 50));
    let channels = node.metrics.channels();
    let [(id, channel)] = channels.as_slice() else {
        panic!("{channels:?}")
    };
    let age = || channel.oldest_request_age_at(std::time::Instant::now());
    assert_eq!(
        (*id, channel.is_connected(), age()),
        (BrokerId(4), false, None)
    );
    for mark in 0..3 {
        node.manager.send(marked(&[4], mark));
    }
    broker.order().await;
    assert_eq!(
        (
            channel.queue_size.get(),
            channel.request_rate_and_queue_time.count()
        ),
        (2, 1)
    );
    assert!(channel.is_connected());
    assert!(age().is_some());

    go_on.send(()).unwrap();
    for _ in 0..3 {
        node.answer().await;
    }
    assert_eq!(
        (
            channel.queue_size.get(),
            channel.request_rate_and_queue_time.count()
        ),
        (0, 3)
    );
    assert_eq!(age(), None);
    node.manager.remove_broker(BrokerId(4));
    assert!(node.metrics.channels().is_empty());
}

#[tokio::test]
async fn a_broker_far_behind_that_answers_again_gets_what_is_true_now() {
    let mut broker = FakeBroker::start(V3_9).await;
    let go_on = broker.will_wait();
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 0));
    broker.order().await;
    // The next is taken from the queue before the loop can replace it: it goes out as it is.
    let hold_on = broker.will_wait();
    for mark in 1..70 {
        node.manager.send(marked(&[1], mark));
    }
    let stopped = of_topic("stock", vec![stop(0, -2, ReplicaDisposal::Delete)]);
    node.manager.send(ControlRequests {
        stop_replica: stop_replica(1, vec![stopped]).stop_replica,
        ..update_metadata(&[1], vec![of_topic("stock", vec![dying(0)])])
    });
    go_on.send(()).unwrap();
    loop {
        match node.answer().await {
            ControllerEvent::ChannelBehind(of) => break assert_eq!(of, incarnation(1, 50)),
            ControllerEvent::UpdateMetadataResponseReceived { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(mark(&broker.order().await), 1);
    let full = ControlRequests {
        leader_and_isr: leader_and_isr(1, vec![of_topic("orders", vec![led(0, 2, 70)])])
            .leader_and_isr,
        ..update_metadata(&[1, 2], vec![of_topic("orders", vec![announced(0, 2, 70)])])
    };
    node.manager.replace_queue(incarnation(1, 49), batch());
    node.manager.replace_queue(incarnation(1, 50), full);
    hold_on.send(()).unwrap();

    let rest = broker.orders(4).await;
    let gone: UpdateMetadataRequest = rest[0].read();
    assert_eq!(gone.topic_states[0].partition_states[0].leader.0, -2);
    assert_eq!(gone.live_brokers.len(), 2);
    assert_eq!(rest[1].key(), ApiKey::STOP_REPLICA);
    assert_eq!(mark(&rest[2]), 70);
    assert_eq!(rest[3].key(), ApiKey::LEADER_AND_ISR);
    node.manager.send(marked(&[1], 71));
    assert_eq!(mark(&broker.order().await), 71);
}

#[tokio::test]
async fn what_is_said_with_a_broker_can_be_read_in_the_capture() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("target/tmp/channel-{}.pcapng", std::process::id()));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::remove_file(&file).ok();
    let asked = crate::config::CaptureConfig {
        file: file.display().to_string(),
        max_bytes: 1 << 20,
        max_files: 1,
    };
    let capture = crate::observe::Capture::start(&asked, Arc::default()).unwrap();
    let mut broker = FakeBroker::start(V3_9).await;
    let mut node = Node::with(ChannelConfig {
        capture: capture.tap(),
        ..config()
    });
    node.manager.add_broker(&broker.registration(2, 50));
    // Longer than what goes into one packet.
    let topics = (0..3_000).map(|partition| announced(partition, 1, 5));
    node.manager.send(update_metadata(
        &[2],
        vec![of_topic("orders", topics.collect())],
    ));
    let order = broker.order().await;
    node.answer().await;
    capture.finish().await;

    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let options = klamm_codec::capture::ReadOptions::default();
    let read = klamm_codec::capture::read(&bytes.into(), &options).unwrap();
    assert_eq!(read.notes, []);
    let mut update = None;
    let mut keys = Vec::new();
    for entry in read.entries {
        assert_eq!(entry.ends.unwrap().server, broker.address);
        match entry.what {
            klamm_codec::capture::What::Request {
                header,
                request,
                answer,
            } => {
                if header.key == ApiKey::UPDATE_METADATA {
                    update = answer.map(|_| request.payload);
                }
                keys.push(header.key);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(update, Some(order.payload));
    assert!(keys.contains(&ApiKey::API_VERSIONS), "{keys:?}");
}
