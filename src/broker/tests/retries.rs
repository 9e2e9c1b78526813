//! What is sent again, after what, and how it looks.

use super::*;
use crate::model::KafkaError;
use crate::port::Brokers;

fn confirmed(id: i32, epoch: i64) -> ControllerEvent {
    ControllerEvent::UpdateMetadataResponseReceived {
        from: incarnation(id, epoch),
        number: NUMBER,
        error: KafkaError::NONE,
    }
}

/// Sends one request that meets `reply` first, and checks that the same comes again on another connection and is answered.
async fn is_sent_again_after(reply: Reply, config: ChannelConfig) {
    let said = format!("{reply:?}");
    let mut broker = FakeBroker::start(V3_9).await;
    broker.will([reply]);
    let mut node = Node::with(config);
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    node.manager.send(marked(&[1], 2));
    let (first, again) = (broker.order().await, broker.order().await);
    assert_eq!(first.content(), again.content(), "{said}");
    assert_ne!(first.connection, again.connection, "{said}");
    assert_eq!(mark(&broker.order().await), 2, "{said}");
    assert_eq!(node.answer().await, confirmed(1, 50), "{said}");
    assert_eq!(node.answer().await, confirmed(1, 50), "{said}");
}

#[tokio::test]
async fn a_request_whose_connection_closes_before_or_within_the_answer_is_sent_again() {
    is_sent_again_after(Reply::Close, config()).await;
    is_sent_again_after(Reply::Write(vec![0, 0, 0, 10, 0, 0]), config()).await;
}

#[tokio::test]
async fn an_answer_that_is_garbage_costs_the_connection_and_the_request_is_sent_again() {
    // Correlation id 1 is that of the first request after ApiVersions.
    let wrong_id = vec![0, 0, 0, 7, 0, 0, 0, 99, 0, 0, 0];
    let trailing = vec![0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4];
    let cut_short = vec![0, 0, 0, 5, 0, 0, 0, 1, 0];
    let oversize = vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1];
    let negative = vec![0xff, 0xff, 0xff, 0xff];
    for bytes in [wrong_id, trailing, cut_short, oversize, negative] {
        is_sent_again_after(Reply::Write(bytes), config()).await;
    }
}

#[tokio::test]
async fn a_request_that_is_not_answered_in_time_is_sent_again() {
    is_sent_again_after(
        Reply::Silence,
        ChannelConfig {
            request_timeout_ms: 200,
            ..config()
        },
    )
    .await;
}

#[tokio::test]
async fn a_request_waits_for_a_broker_that_can_not_be_reached_yet() {
    // Bound, so that nobody else gets the port, and not listening yet.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut node = Node::new();
    let endpoint = Endpoint {
        listener: "INTERNAL".into(),
        host: "127.0.0.1".into(),
        port: deaf.local_addr().unwrap().port().into(),
        security_protocol: SecurityProtocol::Plaintext,
    };
    node.manager
        .add_broker(&registration(1, 50, vec![endpoint]));
    node.manager.send(marked(&[1], 1));
    // The survey has failed, so connections are refused.
    assert!(matches!(
        node.event().await,
        ControllerEvent::BrokerSurveyed(_)
    ));
    let mut broker = FakeBroker::serve(deaf.listen(16).unwrap(), V3_9);
    assert_eq!(mark(&broker.order().await), 1);
    assert_eq!(node.answer().await, confirmed(1, 50));
}

#[tokio::test]
async fn a_broker_that_lists_no_control_request_gets_none_until_it_does() {
    let mut broker = FakeBroker::start(Character {
        api_versions: Some(ApiVersionsResponse::default()),
        describe_configs: None,
    })
    .await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    node.manager.send(marked(&[1], 1));
    for _ in 0..3 {
        broker.question().await;
    }
    assert!(!broker.has_order());
    broker.becomes(V3_9);
    assert_eq!(mark(&broker.order().await), 1);
}

#[tokio::test]
async fn an_unknown_error_of_a_broker_that_may_not_know_its_own_epoch_is_answered_by_sending_again()
{
    for release in [V2_2, V2_4] {
        let mut broker = FakeBroker::start(release).await;
        broker.will([Reply::Refuse(-1), Reply::Refuse(-1)]);
        let mut node = Node::new();
        node.manager.add_broker(&broker.registration(1, 50));
        node.manager.send(marked(&[1], 1));
        node.manager.send(marked(&[1], 2));
        let orders = broker.orders(4).await;
        assert_eq!(orders.iter().map(mark).collect::<Vec<_>>(), [1, 1, 1, 2]);
        assert!(
            orders
                .iter()
                .all(|order| order.connection == orders[0].connection)
        );
        assert_eq!(node.answer().await, confirmed(1, 50));
    }
}

#[tokio::test]
async fn an_unknown_error_of_any_other_broker_is_an_event() {
    for release in [V1_0, V2_6, V3_9] {
        let broker = FakeBroker::start(release).await;
        broker.will([Reply::Refuse(-1)]);
        let mut node = Node::new();
        node.manager.add_broker(&broker.registration(1, 50));
        node.manager.send(marked(&[1], 1));
        let error = KafkaError::UNKNOWN_SERVER_ERROR;
        let from = incarnation(1, 50);
        assert_eq!(
            node.answer().await,
            ControllerEvent::UpdateMetadataResponseReceived {
                from,
                number: NUMBER,
                error
            }
        );
    }
}

#[tokio::test]
async fn a_request_that_can_not_be_written_costs_only_itself() {
    let mut broker = FakeBroker::start(V2_2).await;
    let mut node = Node::new();
    node.manager.add_broker(&broker.registration(1, 50));
    let unwritable = "x".repeat(40_000);
    node.manager.send(update_metadata(
        &[1],
        vec![of_topic(&unwritable, vec![announced(0, 1, 1)])],
    ));
    node.manager.send(marked(&[1], 2));
    assert_eq!(mark(&broker.order().await), 2);
}
