//! What a genuine broker answers through klamm.

use super::*;
use crate::model::KafkaError;
use klamm_codec::messages::*;
use klamm_codec::{ApiKey, StrBytes, messages};

fn metadata(correlation: i32) -> Bytes {
    framed(9, correlation, &MetadataRequest::default())
}

#[tokio::test]
async fn answers_leave_in_the_order_of_the_requests_whether_served_or_relayed() {
    let broker = EchoBroker::start().await;
    let mut node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    let coordinator = FindCoordinatorRequest::default();
    let cluster = DescribeClusterRequest::default();
    let pipelined = [
        framed(0, 1, &ApiVersionsRequest::default()),
        metadata(2),
        framed(3, 3, &coordinator),
        framed(4, 4, &ListGroupsRequest::default()),
        framed(2, 5, &AlterPartitionRequest::default()),
        framed(0, 6, &cluster),
        framed(0, 7, &AllocateProducerIdsRequest::default()),
        metadata(8),
        framed(0, 9, &ApiVersionsRequest::default()),
    ];
    client.write(&pipelined.concat()).await;
    for (correlation, frame) in (1..).zip(&pipelined) {
        let error = Err(KafkaError::STALE_BROKER_EPOCH);
        match correlation {
            5 => match node.next_event().await {
                ControllerEvent::AlterPartitionReceived { reply_to, .. } => {
                    node.slots.answer(reply_to, Answer::AlterPartition(error));
                }
                other => panic!("{other:?}"),
            },
            7 => match node.next_event().await {
                ControllerEvent::AllocateProducerIds { reply_to, .. } => node.slots.answer(
                    reply_to,
                    Answer::AllocateProducerIds(Err(KafkaError::STALE_BROKER_EPOCH)),
                ),
                other => panic!("{other:?}"),
            },
            _ => {}
        }
        let answer = client.answer().await.unwrap();
        assert_eq!(correlation_id(&answer), Ok(correlation));
        if [2, 3, 6, 8].contains(&correlation) {
            assert_eq!(
                answer,
                echoed(frame),
                "the broker's own answer to request {correlation}"
            );
        }
    }
}

#[tokio::test]
async fn all_that_any_broker_may_answer_reaches_one_unchanged() {
    let broker = EchoBroker::start().await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    let idempotent = InitProducerIdRequest::default().with_transactional_id(None);
    let resource = describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(StrBytes::from_static_str("t"));
    let configs = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let frames = [
        metadata(1),
        framed(4, 2, &FindCoordinatorRequest::default()),
        framed(1, 3, &DescribeClusterRequest::default()),
        framed(4, 4, &idempotent),
        framed(4, 5, &configs),
        // CreateAcls, the body of which nobody here can read.
        Bytes::from_static(&[0, 0, 0, 12, 0, 30, 0, 1, 0, 0, 0, 6, 255, 255, 9, 9]),
    ];
    for frame in frames {
        client.write(&frame).await;
        assert_eq!(client.answer().await.unwrap(), echoed(&frame));
    }
}

#[tokio::test]
async fn klamms_own_configuration_is_not_asked_of_a_broker() {
    let node = Node::leading(&[]).await;
    let resource = incremental_alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(StrBytes::from_static_str("100"));
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let response = node.connect().await.call(1, 1, &request).await;
    assert_eq!(response.responses[0].error_code, 0);
}

#[tokio::test]
async fn a_client_whose_broker_is_lost_is_cut_off_and_the_others_are_not() {
    let mut broker = EchoBroker::start().await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    client.answer().await.unwrap();
    let paired = broker.paired().await;
    let mut other = node.connect().await;
    other.write(&metadata(1)).await;
    other.answer().await.unwrap();

    paired.cut();
    assert_eq!(client.answer().await, None);
    other.write(&metadata(2)).await;
    assert!(other.answer().await.is_some());
}

#[tokio::test]
async fn a_broker_lost_in_the_middle_of_an_answer_costs_the_client_its_connection() {
    fn half(request: &Bytes) -> Vec<u8> {
        let mut answer = echo(request);
        answer[..4].copy_from_slice(&1_000_000_i32.to_be_bytes());
        answer
    }
    let mut broker = EchoBroker::answering(half).await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    let paired = broker.paired().await;
    let mut begun = [0; 8];
    soon(client.stream.read_exact(&mut begun)).await.unwrap();
    assert_eq!(
        begun,
        [0, 15, 66, 64, 0, 0, 0, 1],
        "what has arrived is passed on at once"
    );
    paired.cut();
    assert_eq!(client.answer().await, None);
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_pair_along_even_while_it_waits() {
    fn never(_: &Bytes) -> Vec<u8> {
        Vec::new()
    }
    let mut broker = EchoBroker::answering(never).await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    let paired = broker.paired().await;
    drop(client);
    paired.ended().await;
}

#[tokio::test]
async fn an_answer_to_another_request_is_not_passed_on() {
    fn wrong(request: &Bytes) -> Vec<u8> {
        let mut answer = echo(request);
        answer[7] ^= 1;
        answer
    }
    let broker = EchoBroker::answering(wrong).await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    assert_eq!(client.answer().await, None);
}

#[tokio::test]
async fn an_answer_of_many_megabytes_passes_through_to_a_client_that_reads_late() {
    const LONG: usize = 16 * 1024 * 1024;
    const PATTERN: &[u8] = b"more than any socket holds, ";
    fn body() -> Vec<u8> {
        let mut body = PATTERN.repeat(LONG / PATTERN.len());
        body.resize(LONG - 4, 0);
        body
    }
    fn long(request: &Bytes) -> Vec<u8> {
        let length = (LONG as i32).to_be_bytes();
        [&length[..], &request[4..8], &body()].concat()
    }
    let broker = EchoBroker::answering(long).await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let mut late = node.connect().await;
    late.write(&[metadata(1), metadata(2)].concat()).await;
    // While the first waits for its reader, others get theirs.
    for correlation in [1, 2] {
        let mut client = node.connect().await;
        client.write(&metadata(correlation)).await;
        assert_eq!(client.answer().await.unwrap().len(), LONG);
    }
    for correlation in [1, 2] {
        let answer = late.answer().await.unwrap();
        assert_eq!(correlation_id(&answer), Ok(correlation));
        assert!(answer[4..] == body(), "not a byte is lost or changed");
    }
}

#[tokio::test]
async fn a_client_is_paired_on_the_listener_that_it_came_by() {
    let mut inside = EchoBroker::start().await;
    let mut outside = EchoBroker::start().await;
    let registered = registration(
        1,
        &[("INSIDE", inside.address), ("OUTSIDE", outside.address)],
    );
    let listeners = ["INSIDE", "OUTSIDE", "NOBODYS"];
    let node = Node::start(Limits::default(), &listeners, snapshot(true, &[registered])).await;
    let mut client = node.connect_to("OUTSIDE").await;
    client.write(&metadata(1)).await;
    assert!(client.answer().await.is_some());
    outside.paired().await;
    assert!(
        inside.connections.try_recv().is_err(),
        "nobody came to the other listener"
    );
    node.connect_to("NOBODYS")
        .await
        .is_closed_on(1, &MetadataRequest::default())
        .await;
}

#[tokio::test]
async fn clients_are_spread_over_the_brokers_and_a_dead_broker_is_passed_over() {
    let mut first = EchoBroker::start().await;
    let mut second = EchoBroker::start().await;
    let dead = TcpListener::bind((APART, 0)).await.unwrap();
    let gone = dead.local_addr().unwrap();
    drop(dead);
    let brokers = [
        first.registered(1),
        registration(2, &[("CLIENTS", gone)]),
        second.registered(3),
    ];
    let node = Node::leading(&brokers).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = node.connect().await;
        client.write(&metadata(1)).await;
        assert!(client.answer().await.is_some());
        clients.push(client);
    }
    first.paired().await;
    second.paired().await;
    second.paired().await;
}

/// A broker of an older release comes (back) where clients were told what the newer ones understand.
#[tokio::test]
async fn a_client_is_not_paired_with_a_broker_that_understands_less_than_it_was_told() {
    let older = EchoBroker::understanding(&[(ApiKey::METADATA, (0, 9))]).await;
    let newer = EchoBroker::understanding(&[(ApiKey::METADATA, (0, 11))]).await;
    let node = Node::leading(&[older.registered(1), newer.registered(2)]).await;
    node.list(&[(ApiKey::METADATA, (0, 11))]);
    for told in [11, 11, 5] {
        let mut client = node.connect().await;
        client.api_versions().await;
        let frame = framed(told, 2, &MetadataRequest::default());
        client.write(&frame).await;
        assert_eq!(client.answer().await, Some(echoed(&frame)));
    }
    // Only the older one is left: the client comes again, and hears what the cluster understands now.
    let node = Node::leading(&[older.registered(1)]).await;
    node.list(&[(ApiKey::METADATA, (0, 11))]);
    let mut client = node.connect().await;
    client.api_versions().await;
    let request = MetadataRequest::default();
    client.is_closed_on(11, &request).await;
}

#[tokio::test]
async fn a_paired_client_is_told_no_more_than_its_broker_understands() {
    let older = EchoBroker::understanding(&[(ApiKey::METADATA, (0, 9))]).await;
    let node = Node::leading(&[older.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    assert!(client.answer().await.is_some());
    // The broker leaves ZooKeeper and still answers.
    node.list(&[(ApiKey::METADATA, (1, 12)), (ApiKey::CREATE_ACLS, (0, 3))]);
    let listed = client.api_versions().await.api_keys;
    let range = |key: ApiKey| {
        let api = listed.iter().find(|api| api.api_key == key.0)?;
        Some((api.min_version, api.max_version))
    };
    assert_eq!(range(ApiKey::METADATA), Some((1, 9)));
    assert_eq!(range(ApiKey::CREATE_ACLS), None);
    assert_eq!(range(ApiKey::ALTER_PARTITION), Some((0, 3)));
}

#[tokio::test]
async fn what_its_broker_does_not_understand_closes_the_connection_of_a_client_that_never_asked() {
    let older = EchoBroker::understanding(&[(ApiKey::METADATA, (0, 9))]).await;
    let node = Node::leading(&[older.registered(1)]).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    assert_eq!(client.answer().await, Some(echoed(&metadata(1))));
    // The broker would answer: it echoes whatever reaches it.
    client.is_closed_on(10, &MetadataRequest::default()).await;
}

#[tokio::test]
async fn a_broker_that_accepts_and_says_nothing_is_passed_over() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute_at = mute.local_addr().unwrap();
    let broker = EchoBroker::start().await;
    let brokers = [
        registration(1, &[("CLIENTS", mute_at)]),
        broker.registered(2),
    ];
    let node = Node::leading(&brokers).await;
    let mut client = node.connect().await;
    client.write(&metadata(1)).await;
    assert_eq!(client.answer().await, Some(echoed(&metadata(1))));
}

#[tokio::test]
async fn klamm_never_relays_to_itself() {
    let broker = EchoBroker::start().await;
    let node = Node::leading(&[broker.registered(KLAMM.0)]).await;
    node.connect()
        .await
        .is_closed_on(1, &MetadataRequest::default())
        .await;
}

#[tokio::test]
async fn a_request_that_names_klamm_and_a_topic_is_nobodys_to_answer() {
    let broker = EchoBroker::start().await;
    let node = Node::leading(&[broker.registered(1)]).await;
    let named = |kind, name| {
        describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(StrBytes::from_static_str(name))
    };
    let mixed = messages::DescribeConfigsRequest::default()
        .with_resources(vec![named(4, "100"), named(2, "t")]);
    node.connect().await.is_closed_on(1, &mixed).await;
}
