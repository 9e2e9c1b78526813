//! What klamm answers itself.

use super::*;
use crate::effect::{
    AlterPartitionAnswer, CreatedTopic, Incarnation, ProducerIdBlock, TopicReference,
};
use crate::event::{NewTopic, QuotaEnforcement, ScramChange};
use crate::model::{ApiError, BrokerId, KafkaError, TopicName, TopicPartition};
use klamm_codec::messages::alter_partition_request::{PartitionData, TopicData};
use klamm_codec::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use klamm_codec::messages::produce_request::{PartitionProduceData, TopicProduceData};
use klamm_codec::messages::*;
use klamm_codec::{ApiKey, StrBytes, messages};

fn topic(name: &'static str) -> messages::TopicName {
    messages::TopicName(StrBytes::from_static_str(name))
}

fn in_sync_wish() -> AlterPartitionRequest {
    let partition = PartitionData::default()
        .with_partition_index(4)
        .with_new_isr(vec![messages::BrokerId(1)]);
    let topic = TopicData::default()
        .with_topic_name(topic("t"))
        .with_partitions(vec![partition]);
    AlterPartitionRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_broker_epoch(7)
        .with_topics(vec![topic])
}

fn ranges_of(response: &ApiVersionsResponse) -> BTreeMap<ApiKey, (i16, i16)> {
    let listed = response.api_keys.iter();
    listed
        .map(|api| (ApiKey(api.api_key), (api.min_version, api.max_version)))
        .collect()
}

#[tokio::test]
async fn api_versions_lists_what_the_brokers_have_in_common_and_what_brokers_ask_a_controller() {
    let node = Node::leading(&[]).await;
    *node.ranges.lock().unwrap() = [
        (ApiKey::PRODUCE, (0, 7)),
        (ApiKey::METADATA, (1, 8)),
        (ApiKey::API_VERSIONS, (0, 2)),
        (ApiKey::CREATE_TOPICS, (0, 5)),
        (ApiKey::CREATE_PARTITIONS, (0, 2)),
    ]
    .into();
    for version in 0..=4 {
        let mut client = node.connect().await;
        let response = client
            .call(version, 1, &ApiVersionsRequest::default())
            .await;
        assert_eq!(response.error_code, 0);
        let expected = [
            (ApiKey::PRODUCE, (0, 7)),
            (ApiKey::METADATA, (1, 8)),
            (ApiKey::CONTROLLED_SHUTDOWN, (0, 3)),
            (ApiKey::API_VERSIONS, (0, 2)),
            (ApiKey::CREATE_TOPICS, (0, 5)),
            (ApiKey::CREATE_PARTITIONS, (0, 2)),
            (ApiKey::ALTER_PARTITION, (0, 3)),
            (ApiKey::ALLOCATE_PRODUCER_IDS, (0, 0)),
        ];
        assert_eq!(ranges_of(&response), expected.into(), "v{version}");
    }
}

#[tokio::test]
async fn a_client_that_asks_in_an_unknown_version_of_api_versions_is_told_which_to_use() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let mut frame = framed(3, 77, &ApiVersionsRequest::default()).to_vec();
    frame[6..8].copy_from_slice(&9_i16.to_be_bytes());
    client.write(&frame).await;
    let payload = client.answer().await.unwrap();
    assert_eq!(correlation_id(&payload), Ok(77));
    let response = decode_response::<ApiVersionsRequest>(0, &payload).unwrap();
    assert_eq!(response.error_code, KafkaError::UNSUPPORTED_VERSION.0);
    assert_eq!(
        ranges_of(&response),
        [(ApiKey::API_VERSIONS, (0, 4))].into()
    );
    assert_eq!(
        client.api_versions().await.error_code,
        0,
        "on the same connection"
    );
}

#[tokio::test]
async fn a_leaving_broker_hears_which_partitions_remain_in_all_versions() {
    let mut node = Node::leading(&[]).await;
    let mut broker = node.connect().await;
    for version in 0..=3 {
        let asked = ControlledShutdownRequest::default()
            .with_broker_id(messages::BrokerId(2))
            .with_broker_epoch(40);
        broker.ask(version, 5, &asked).await;
        let ControllerEvent::ControlledShutdown {
            broker: leaving,
            broker_epoch,
            reply_to,
        } = node.next_event().await
        else {
            panic!("another event");
        };
        assert_eq!(leaving, BrokerId(2));
        assert_eq!(
            broker_epoch,
            (version >= 2).then_some(BrokerEpoch(40)),
            "v{version}"
        );
        let remaining = vec![TopicPartition::new(&TopicName::new("t"), 3)];
        node.slots
            .answer(reply_to, Answer::ControlledShutdown(Ok(remaining)));
        let payload = broker.answer().await.unwrap();
        let response = decode_response::<ControlledShutdownRequest>(version, &payload).unwrap();
        assert_eq!(response.error_code, 0);
        assert_eq!(response.remaining_partitions.len(), 1);
        assert_eq!(response.remaining_partitions[0].topic_name, topic("t"));
        assert_eq!(response.remaining_partitions[0].partition_index, 3);
    }
}

#[tokio::test]
async fn controlled_shutdown_of_the_oldest_brokers_has_no_client_id() {
    let mut node = Node::leading(&[]).await;
    let mut broker = node.connect().await;
    // Length, key 7, version 0, correlation id 6, broker 2.
    broker
        .write(&[0, 0, 0, 12, 0, 7, 0, 0, 0, 0, 0, 6, 0, 0, 0, 2])
        .await;
    let ControllerEvent::ControlledShutdown {
        broker: leaving,
        broker_epoch,
        reply_to,
    } = node.next_event().await
    else {
        panic!("another event");
    };
    assert_eq!((leaving, broker_epoch), (BrokerId(2), None));
    let error = KafkaError::BROKER_NOT_AVAILABLE;
    node.slots
        .answer(reply_to, Answer::ControlledShutdown(Err(error)));
    // Correlation id 6, error 8, no partitions.
    assert_eq!(
        broker.answer().await.unwrap(),
        [0, 0, 0, 6, 0, 8, 0, 0, 0, 0][..]
    );
}

#[tokio::test]
async fn a_leader_hears_what_became_of_its_in_sync_set() {
    let mut node = Node::leading(&[]).await;
    let mut broker = node.connect().await;
    broker.ask(0, 5, &in_sync_wish()).await;
    let ControllerEvent::AlterPartitionReceived { request, reply_to } = node.next_event().await
    else {
        panic!("another event");
    };
    assert_eq!(
        request.from,
        Incarnation {
            broker: BrokerId(1),
            epoch: BrokerEpoch(7)
        }
    );
    assert_eq!((request.version, request.partitions.len()), (0, 1));
    let answer = AlterPartitionAnswer {
        topic: TopicReference::Name(TopicName::new("t")),
        partition: 4,
        result: Err(KafkaError::FENCED_LEADER_EPOCH),
    };
    node.slots
        .answer(reply_to, Answer::AlterPartition(Ok(vec![answer])));
    let payload = broker.answer().await.unwrap();
    let response = decode_response::<AlterPartitionRequest>(0, &payload).unwrap();
    assert_eq!(response.error_code, 0);
    assert_eq!(response.topics[0].partitions[0].error_code, 74);
}

#[tokio::test]
async fn a_broker_gets_the_producer_ids_that_the_controller_gave_it() {
    let mut node = Node::leading(&[]).await;
    let mut broker = node.connect().await;
    let asked = AllocateProducerIdsRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_broker_epoch(7);
    broker.ask(0, 5, &asked).await;
    let ControllerEvent::AllocateProducerIds { from, reply_to } = node.next_event().await else {
        panic!("another event");
    };
    assert_eq!(
        from,
        Incarnation {
            broker: BrokerId(1),
            epoch: BrokerEpoch(7)
        }
    );
    let block = ProducerIdBlock {
        broker: BrokerId(1),
        first: 4000,
        last: 4999,
    };
    node.slots
        .answer(reply_to, Answer::AllocateProducerIds(Ok(block)));
    let payload = broker.answer().await.unwrap();
    let response = decode_response::<AllocateProducerIdsRequest>(0, &payload).unwrap();
    assert_eq!(
        (response.producer_id_start.0, response.producer_id_len),
        (4000, 1000)
    );
}

#[tokio::test]
async fn a_controller_that_ends_leaves_nobody_waiting() {
    let mut node = Node::leading(&[]).await;
    let mut broker = node.connect().await;
    broker.ask(0, 5, &in_sync_wish()).await;
    node.next_event().await;
    node.slots.drop_all();
    let payload = broker.answer().await.unwrap();
    let response = decode_response::<AlterPartitionRequest>(0, &payload).unwrap();
    assert_eq!(response.error_code, KafkaError::NOT_CONTROLLER.0);
}

#[tokio::test]
async fn a_standby_sends_brokers_to_the_controller_and_clients_away() {
    let broker = EchoBroker::start().await;
    let standby = snapshot(false, &[broker.registered(1)]);
    let node = Node::start(Limits::default(), &["CLIENTS"], standby).await;
    let mut asking = node.connect().await;
    assert_eq!(asking.api_versions().await.error_code, 0);
    for version in 0..=3 {
        let leaving = ControlledShutdownRequest::default();
        let response = asking.call(version, 2, &leaving).await;
        assert_eq!(response.error_code, KafkaError::STALE_CONTROLLER_EPOCH.0);
        let response = asking
            .call(version, 3, &AlterPartitionRequest::default())
            .await;
        assert_eq!(response.error_code, KafkaError::NOT_CONTROLLER.0);
    }
    let response = asking
        .call(0, 4, &AllocateProducerIdsRequest::default())
        .await;
    assert_eq!(response.error_code, KafkaError::NOT_CONTROLLER.0);
    asking.is_closed_on(1, &MetadataRequest::default()).await;
    node.connect()
        .await
        .is_closed_on(0, &ListGroupsRequest::default())
        .await;

    node.snapshot
        .send_replace(snapshot(true, &[broker.registered(1)]));
    let mut client = node.connect().await;
    client.ask(1, 9, &MetadataRequest::default()).await;
    assert!(
        client.answer().await.is_some(),
        "once it leads, clients are served"
    );
}

#[tokio::test]
async fn a_java_controller_that_takes_klamm_for_a_broker_hears_that_nothing_can_live_there() {
    let node = Node::start(Limits::default(), &["CLIENTS"], snapshot(false, &[])).await;
    let mut controller = node.connect().await;
    let state = LeaderAndIsrPartitionState::default().with_topic_name(topic("t"));
    let request = LeaderAndIsrRequest::default().with_ungrouped_partition_states(vec![state]);
    let response = controller.call(1, 1, &request).await;
    assert_eq!(
        response.partition_errors[0].error_code,
        KafkaError::KAFKA_STORAGE_ERROR.0
    );
    let response = controller
        .call(5, 2, &UpdateMetadataRequest::default())
        .await;
    assert_eq!(response.error_code, 0);
    let response = controller.call(1, 3, &StopReplicaRequest::default()).await;
    assert_eq!(response.error_code, 0);
}

#[tokio::test]
async fn what_is_bound_to_another_node_gets_the_error_that_leads_there() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let partition = PartitionProduceData::default().with_index(2);
    let data = TopicProduceData::default()
        .with_name(topic("t"))
        .with_partition_data(vec![partition]);
    let produce = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(vec![data]);
    let response = client.call(7, 1, &produce).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, 6);
    let response = client.call(4, 2, &HeartbeatRequest::default()).await;
    assert_eq!(response.error_code, KafkaError::NOT_COORDINATOR.0);
    let id = messages::TransactionalId(StrBytes::from_static_str("tx"));
    let begin = InitProducerIdRequest::default().with_transactional_id(Some(id));
    let response = client.call(1, 3, &begin).await;
    assert_eq!(response.error_code, KafkaError::NOT_COORDINATOR.0);
    client.is_closed_on(7, &produce.with_acks(0)).await;
}

#[tokio::test]
async fn what_is_asked_of_every_node_gets_a_harmless_answer() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let groups = client.call(4, 1, &ListGroupsRequest::default()).await;
    assert_eq!((groups.error_code, groups.groups.len()), (0, 0));
    let transactions = client.call(0, 2, &ListTransactionsRequest::default()).await;
    assert_eq!(
        (
            transactions.error_code,
            transactions.transaction_states.len()
        ),
        (0, 0)
    );
    let dirs = client.call(4, 3, &DescribeLogDirsRequest::default()).await;
    assert_eq!((dirs.error_code, dirs.results.len()), (0, 1));
    assert_eq!(
        (dirs.results[0].error_code, dirs.results[0].topics.len()),
        (0, 0)
    );
}

#[tokio::test]
async fn a_client_that_wants_topics_is_answered_by_the_controller_or_sent_to_the_next_one() {
    let mut node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let wanted = create_topics_request::CreatableTopic::default()
        .with_name(topic("t"))
        .with_num_partitions(-1)
        .with_replication_factor(2);
    let asked = CreateTopicsRequest::default()
        .with_topics(vec![wanted])
        .with_timeout_ms(9);
    for version in 0..=7 {
        client.ask(version, 5, &asked).await;
        let ControllerEvent::CreateTopics {
            request,
            claimant,
            reply_to,
        } = node.next_event().await
        else {
            panic!("another event");
        };
        let meant = NewTopic {
            name: TopicName::new("t"),
            num_partitions: None,
            replication_factor: Some(2),
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        assert_eq!((request.topics, request.timeout_ms), (vec![meant], 9));
        let is_strict = claimant.enforcement == QuotaEnforcement::Strict;
        assert_eq!(is_strict, version >= 6, "v{version}");
        assert_eq!(claimant.user, "ANONYMOUS");
        let refused = ApiError::new(KafkaError::INVALID_REPLICATION_FACTOR, "too many");
        let said = CreatedTopic {
            name: TopicName::new("t"),
            result: Err(refused),
        };
        let (answer, code) = match version % 2 {
            0 => (Ok(vec![said]), KafkaError::INVALID_REPLICATION_FACTOR),
            _ => (Err(KafkaError::NOT_CONTROLLER), KafkaError::NOT_CONTROLLER),
        };
        node.slots.answer(reply_to, Answer::CreateTopics(answer));
        let payload = client.answer().await.unwrap();
        let response = decode_response::<CreateTopicsRequest>(version, &payload).unwrap();
        let seen: Vec<_> = response
            .topics
            .iter()
            .map(|seen| (seen.name.clone(), seen.error_code))
            .collect();
        assert_eq!(seen, [(topic("t"), code.0)], "v{version}");
    }
}

#[tokio::test]
async fn credentials_are_the_controllers_to_change_and_no_password_reaches_it() {
    let mut node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let upsertion = alter_user_scram_credentials_request::ScramCredentialUpsertion::default()
        .with_name(StrBytes::from_static_str("u"))
        .with_mechanism(1)
        .with_iterations(5000)
        .with_salt(Bytes::from_static(b"salt"))
        .with_salted_password(Bytes::from_static(b"password"));
    let asked = AlterUserScramCredentialsRequest::default().with_upsertions(vec![upsertion]);
    for is_controller in [true, false] {
        client.ask(0, 5, &asked).await;
        let event = node.next_event().await;
        let ControllerEvent::AlterUserScramCredentials {
            alterations,
            reply_to,
        } = event
        else {
            panic!("another event");
        };
        assert_eq!(alterations[0].user, "u");
        let ScramChange::Upsert { credential, .. } = &alterations[0].change else {
            panic!("{alterations:?}");
        };
        let written = credential.as_ref().unwrap().as_str();
        assert!(
            written.starts_with("salt=c2FsdA==,stored_key="),
            "{written}"
        );
        assert!(!written.contains("cGFzc3dvcmQ="), "{written}");
        assert!(!format!("{alterations:?}").contains("c2FsdA=="));
        let answer = match is_controller {
            true => Ok(vec![("u".to_owned(), Ok(()))]),
            false => Err(KafkaError::NOT_CONTROLLER),
        };
        node.slots
            .answer(reply_to, Answer::AlterUserScramCredentials(answer));
        let payload = client.answer().await.unwrap();
        let response = decode_response::<AlterUserScramCredentialsRequest>(0, &payload).unwrap();
        let expected = if is_controller { 0 } else { 41 };
        assert_eq!(response.results.len(), 1);
        assert_eq!(response.results[0].error_code, expected);
    }
}

/// A client that asked for a topic and is told to keep quiet.
async fn throttled_client(node: &mut Node, throttle_time_ms: u64) -> Client {
    let mut client = node.connect().await;
    client.ask(7, 5, &CreateTopicsRequest::default()).await;
    let ControllerEvent::CreateTopics { reply_to, .. } = node.next_event().await else {
        panic!("another event");
    };
    let answer = Box::new(Answer::CreateTopics(Ok(Vec::new())));
    let throttled = Answer::Throttled {
        throttle_time_ms,
        answer,
    };
    node.slots.answer(reply_to, throttled);
    let payload = client.answer().await.unwrap();
    let response = decode_response::<CreateTopicsRequest>(7, &payload).unwrap();
    assert_eq!(response.throttle_time_ms as u64, throttle_time_ms);
    client
}

#[tokio::test]
async fn a_client_above_its_quota_is_answered_at_once_and_read_from_later() {
    const THROTTLE_MS: u64 = 400;
    let mut node = Node::leading(&[]).await;
    let began = std::time::Instant::now();
    let mut client = throttled_client(&mut node, THROTTLE_MS).await;
    client.ask(7, 6, &CreateTopicsRequest::default()).await;
    // Others are served meanwhile.
    let mut other = node.connect().await;
    other.ask(7, 8, &CreateTopicsRequest::default()).await;
    for _ in 0..2 {
        let ControllerEvent::CreateTopics { reply_to, .. } = node.next_event().await else {
            panic!("another event");
        };
        node.slots
            .answer(reply_to, Answer::CreateTopics(Ok(Vec::new())));
    }
    assert!(other.answer().await.is_some());
    assert!(client.answer().await.is_some());
    assert!(began.elapsed().as_millis() >= u128::from(THROTTLE_MS));
}

#[tokio::test]
async fn a_client_that_is_kept_waiting_holds_up_no_shutdown() {
    let mut node = Node::leading(&[]).await;
    let mut client = throttled_client(&mut node, 500_000).await;
    soon(node.handle.shutdown()).await;
    assert_eq!(client.answer().await, None);
}

#[tokio::test]
async fn what_is_never_served_closes_the_connection() {
    let node = Node::leading(&[]).await;
    node.connect()
        .await
        .is_closed_on(1, &SaslHandshakeRequest::default())
        .await;
    let mut client = node.connect().await;
    // Key 999 with a sound header.
    client
        .write(&[0, 0, 0, 10, 3, 231, 0, 0, 0, 0, 0, 1, 255, 255])
        .await;
    assert_eq!(client.answer().await, None);
}

#[tokio::test]
async fn a_shutdown_closes_idle_connections_and_lets_answers_out() {
    let listener = Listener {
        host: APART.to_owned(),
        ..any_port("CLIENTS")
    };
    let mut node = Node::start_on(Limits::default(), &[listener], snapshot(true, &[])).await;
    let address = node.addresses["CLIENTS"];
    let mut idle = node.connect().await;
    idle.api_versions().await;
    let mut waiting = node.connect().await;
    waiting.ask(0, 5, &in_sync_wish()).await;
    let ControllerEvent::AlterPartitionReceived { reply_to, .. } = node.next_event().await else {
        panic!("another event");
    };
    let stopping = tokio::spawn(node.handle.shutdown());
    assert_eq!(idle.answer().await, None);
    let error = KafkaError::NOT_CONTROLLER;
    node.slots
        .answer(reply_to, Answer::AlterPartition(Err(error)));
    assert!(waiting.answer().await.is_some());
    assert_eq!(waiting.answer().await, None);
    soon(stopping).await.unwrap();
    let refused = TcpStream::connect(address).await;
    assert!(refused.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_answers_that_never_come() {
    let mut node = Node::leading(&[]).await;
    let mut waiting = node.connect().await;
    waiting.ask(0, 5, &in_sync_wish()).await;
    node.next_event().await;
    soon(node.handle.shutdown()).await;
    assert_eq!(waiting.answer().await, None);
}

#[tokio::test]
async fn a_listener_that_cannot_be_opened_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = Listener {
        port: taken.local_addr().unwrap().port(),
        ..any_port("INTERNAL")
    };
    let error = bind(&[any_port("A"), listener.clone()]).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("{listener} can't be opened")),
        "{error}"
    );
}

#[tokio::test]
async fn what_brokers_ask_their_controller_is_captured_and_what_clients_ask_is_not() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("target/tmp/listener-{}.pcapng", std::process::id()));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::remove_file(&file).ok();
    let asked = crate::config::CaptureConfig {
        file: file.display().to_string(),
        max_bytes: 1 << 20,
        max_files: 1,
    };
    let capture = crate::observe::Capture::start(&asked, Arc::default()).unwrap();
    let listeners = [any_port("CLIENTS")];
    let leading = snapshot(true, &[]);
    let mut node =
        Node::start_captured(Limits::default(), &listeners, leading, capture.tap()).await;
    let mut client = node.connect().await;
    client.api_versions().await;
    let leaving = ControlledShutdownRequest::default().with_broker_id(messages::BrokerId(1));
    client.ask(3, 44, &leaving).await;
    let ControllerEvent::ControlledShutdown { reply_to, .. } = node.next_event().await else {
        panic!("another event");
    };
    node.slots
        .answer(reply_to, Answer::ControlledShutdown(Ok(Default::default())));
    let answer = client.answer().await.unwrap();
    client.api_versions().await;
    capture.finish().await;

    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let options = klamm_codec::capture::ReadOptions::default();
    let mut read = klamm_codec::capture::read(&bytes.into(), &options).unwrap();
    assert_eq!((read.entries.len(), read.notes), (1, vec![]));
    let entry = read.entries.remove(0);
    let ends = entry.ends.unwrap();
    assert_eq!(ends.client, client.stream.local_addr().unwrap());
    assert_eq!(ends.server, node.addresses["CLIENTS"]);
    let klamm_codec::capture::What::Request {
        header,
        request,
        answer: Some(captured),
    } = entry.what
    else {
        panic!("{:?}", entry.what);
    };
    assert_eq!(header.correlation_id, 44);
    assert_eq!(request.payload, framed(3, 44, &leaving).slice(4..));
    assert_eq!(captured.payload, answer);
}

#[tokio::test]
async fn a_client_hears_that_its_request_for_elections_is_too_long() {
    let mut node = Node::leading(&[]).await;
    for version in 0..=2 {
        let mut client = node.connect().await;
        let asked = elect_leaders_request::TopicPartitions::default()
            .with_topic(topic("t"))
            .with_partitions(vec![0]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![asked]));
        client.ask(version, 5, &request).await;
        let ControllerEvent::ElectLeaders { reply_to, .. } = node.next_event().await else {
            panic!("another event");
        };
        let too_long = Err(KafkaError::INVALID_REQUEST);
        node.slots.answer(reply_to, Answer::ElectLeaders(too_long));
        let payload = client.answer().await.expect("an answer");
        let said = decode_response::<ElectLeadersRequest>(version, &payload).unwrap();
        let each = &said.replica_election_results[0].partition_result;
        assert_eq!(each[0].error_code, 42, "v{version}");
        assert_eq!(said.error_code, if version >= 1 { 42 } else { 0 });
    }
}
