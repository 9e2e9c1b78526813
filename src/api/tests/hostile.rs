//! What no client should send. Whatever it is, it costs its sender the connection at most.

use super::*;
use crate::effect::Answer;
use crate::model::{ApiError, KafkaError};
use klamm_codec::StrBytes;
use klamm_codec::messages::*;
use klamm_rig::hostile::frames::Behind;
use klamm_rig::hostile::{Plan, attack};
use klamm_rig::random::Random;

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    for byte in framed(0, 3, &ApiVersionsRequest::default()) {
        client.write(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(correlation_id(&client.answer().await.unwrap()), Ok(3));
}

#[tokio::test]
async fn half_a_request_keeps_nobody_else_waiting() {
    let node = Node::leading(&[]).await;
    let frame = framed(0, 3, &ApiVersionsRequest::default());
    let mut halves = Vec::new();
    for length in 1..frame.len() {
        let mut client = node.connect().await;
        client.write(&frame[..length]).await;
        halves.push(client);
    }
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
    for (length, mut client) in (1..frame.len()).zip(halves) {
        client.write(&frame[length..]).await;
        assert!(
            client.answer().await.is_some(),
            "the rest of it is still welcome"
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_also_within_a_request() {
    let limits = Limits {
        connections_max_idle: Some(Duration::from_millis(200)),
        ..Limits::default()
    };
    let node = Node::start(limits, &["CLIENTS"], snapshot(true, &[])).await;
    let mut silent = node.connect().await;
    let mut dribbling = node.connect().await;
    dribbling.write(&[0, 0, 0, 50, 0]).await;
    assert_eq!(silent.answer().await, None);
    assert_eq!(dribbling.answer().await, None);
}

#[tokio::test]
async fn a_length_that_no_request_has_closes_the_connection_at_once() {
    let limits = Limits {
        request_max_bytes: 1000,
        ..Limits::default()
    };
    let node = Node::start(limits, &["CLIENTS"], snapshot(true, &[])).await;
    for prefix in [i32::MAX, i32::MIN, -1, 1001, 0, 3] {
        let mut client = node.connect().await;
        client
            .write(&[&prefix.to_be_bytes()[..], &[0; 3]].concat())
            .await;
        assert_eq!(client.answer().await, None, "{prefix}");
    }
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}

#[tokio::test]
async fn a_body_that_announces_billions_of_elements_closes_the_connection() {
    let node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    // StopReplica v0: the number of partitions stands in the last four bytes.
    let mut frame = framed(0, 1, &StopReplicaRequest::default()).to_vec();
    let at = frame.len() - 4;
    frame[at..].copy_from_slice(&i32::MAX.to_be_bytes());
    client.write(&frame).await;
    assert_eq!(client.answer().await, None);
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}

#[tokio::test]
async fn more_connections_than_the_limit_are_turned_away_until_one_ends() {
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    let listeners = ["CLIENTS", "BROKERS"];
    let node = Node::start(limits, &listeners, snapshot(true, &[])).await;
    let mut first = node.connect().await;
    let mut second = node.connect().await;
    first.api_versions().await;
    second.api_versions().await;
    assert_eq!(node.connect().await.answer().await, None);
    let mut broker = node.connect_to("BROKERS").await;
    assert_eq!(
        broker.api_versions().await.error_code,
        0,
        "brokers have a listener of their own"
    );
    drop(first);
    soon(async {
        loop {
            let mut next = node.connect().await;
            // It may be turned away before it has asked.
            let asked = framed(0, 1, &ApiVersionsRequest::default());
            let _ = next.stream.write_all(&asked).await;
            if next.answer().await.is_some() {
                break;
            }
        }
    })
    .await;
}

/// A controller that refuses everything.
fn refusing(node: &mut Node) -> JoinHandle<()> {
    let (_, none) = mpsc::unbounded_channel();
    let mut events = std::mem::replace(&mut node.events, none);
    let slots = node.slots.clone();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let (reply_to, answer) = refusal(event);
            slots.answer(reply_to, answer);
        }
    })
}

fn refusal(event: ControllerEvent) -> (ReplyTo, Answer) {
    let error = KafkaError::STALE_BROKER_EPOCH;
    match event {
        ControllerEvent::ControlledShutdown { reply_to, .. } => {
            (reply_to, Answer::ControlledShutdown(Err(error)))
        }
        ControllerEvent::AlterPartitionReceived { reply_to, .. } => {
            (reply_to, Answer::AlterPartition(Err(error)))
        }
        ControllerEvent::AllocateProducerIds { reply_to, .. } => {
            (reply_to, Answer::AllocateProducerIds(Err(error)))
        }
        ControllerEvent::CreateTopics { reply_to, .. } => {
            (reply_to, Answer::CreateTopics(Err(error)))
        }
        ControllerEvent::CreatePartitions { reply_to, .. } => {
            (reply_to, Answer::CreatePartitions(Err(error)))
        }
        ControllerEvent::DeleteTopics { reply_to, .. } => {
            (reply_to, Answer::DeleteTopics(Err(error)))
        }
        ControllerEvent::ElectLeaders { reply_to, .. } => {
            (reply_to, Answer::ElectLeaders(Ok(Vec::new())))
        }
        ControllerEvent::AlterPartitionReassignments { reply_to, .. } => {
            (reply_to, Answer::AlterPartitionReassignments(Err(error)))
        }
        ControllerEvent::ListPartitionReassignments { reply_to, .. } => {
            (reply_to, Answer::ListPartitionReassignments(Err(error)))
        }
        ControllerEvent::AlterUserScramCredentials { reply_to, .. } => {
            (reply_to, Answer::AlterUserScramCredentials(Err(error)))
        }
        ControllerEvent::UpdateFeatures { reply_to, .. } => {
            let refused = ApiError::new(error, "refused");
            (reply_to, Answer::UpdateFeatures(Err(refused)))
        }
        other => panic!("{other:?}"),
    }
}

/// What is logged at WARN and ERROR on this thread, on which the whole listener runs, while the guard lives.
fn overheard() -> (Arc<Mutex<Vec<u8>>>, tracing::subscriber::DefaultGuard) {
    struct Ear(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Ear {
        fn write(&mut self, said: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(said);
            Ok(said.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let ear = Arc::clone(&heard);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || Ear(Arc::clone(&ear)))
        .finish();
    (heard, tracing::subscriber::set_default(subscriber))
}

/// The same attack that `cargo rig hostile` makes on a klamm between genuine brokers, with damage to the relayed requests
/// too, which such brokers are spared.
#[tokio::test]
async fn an_attack_leaves_the_listener_and_everybody_else_alone() {
    fn long(request: &Bytes) -> Vec<u8> {
        let body = vec![0; 64 * 1024];
        let length = (body.len() as i32 + 4).to_be_bytes();
        [&length[..], &request[4..8], &body].concat()
    }
    let (heard, _guard) = overheard();
    let broker = EchoBroker::answering(long).await;
    let mut node = Node::leading(&[broker.registered(1)]).await;
    let controller = refusing(&mut node);
    let plan = Plan {
        address: node.addresses["CLIENTS"].to_string(),
        seed: 20_260_101,
        frames: 3000,
        idle: 300,
        held: 20,
        behind: Behind::Anything,
        honest: |connection| connection.api_versions().map(drop),
        honest_waits: Duration::from_secs(20),
        process: None,
    };
    let attack = tokio::task::spawn_blocking(move || attack(&plan));
    let figures = attack.await.unwrap();
    let figures = figures.unwrap_or_else(|fault| panic!("{fault:#}"));
    println!("{figures}");
    assert!(figures.answered > 300 && figures.closed > 300, "{figures}");
    assert!(
        !controller.is_finished(),
        "only sound questions reach the controller"
    );
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert_eq!(heard, "", "nothing of it is worth an operator's attention");
}

#[tokio::test]
async fn noise_leaves_the_listener_and_everybody_else_alone() {
    let node = Node::leading(&[]).await;
    let mut random = Random::new(7);
    let mut healthy = node.connect().await;
    for turn in 0..1000 {
        let mut noisy = node.connect().await;
        let count = 1 + random.below(300);
        let mut noise = random.bytes(count);
        if turn % 2 == 0 && noise.len() >= 4 {
            // A length that is believed, so that more of it is looked at.
            let length = random.below(noise.len()) as i32;
            noise[..4].copy_from_slice(&length.to_be_bytes());
        }
        // The listener may have closed already.
        let _ = noisy.stream.write_all(&noise).await;
        if turn % 100 == 0 {
            assert_eq!(healthy.api_versions().await.error_code, 0, "turn {turn}");
        }
    }
    assert_eq!(healthy.api_versions().await.error_code, 0);
    assert_eq!(node.connect().await.api_versions().await.error_code, 0);
}

/// As the controller explains a configuration entry with a name of 32,000 bytes, which it repeats.
#[tokio::test]
async fn an_explanation_that_repeats_a_long_request_reaches_its_client() {
    let (heard, _guard) = overheard();
    let mut node = Node::leading(&[]).await;
    let mut client = node.connect().await;
    let name = || TopicName(StrBytes::from_static_str("topic"));
    let topic = create_topics_request::CreatableTopic::default().with_name(name());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    client.ask(4, 5, &request).await;
    let ControllerEvent::CreateTopics {
        reply_to, request, ..
    } = node.next_event().await
    else {
        panic!("another question");
    };
    let repeated = "long.".repeat(6_600);
    let refused = ApiError::new(
        KafkaError::INVALID_CONFIG,
        format!("{repeated} has no value"),
    );
    let created = crate::effect::CreatedTopic {
        name: request.topics[0].name.clone(),
        result: Err(refused),
    };
    node.slots
        .answer(reply_to, Answer::CreateTopics(Ok(vec![created])));
    let payload = client.answer().await.expect("an answer");
    let response = decode_response::<CreateTopicsRequest>(4, &payload).unwrap();
    assert_eq!(response.topics[0].error_code, KafkaError::INVALID_CONFIG.0);
    let message = response.topics[0].error_message.as_ref().unwrap();
    assert!(message.starts_with("long.long.") && message.ends_with('…'));
    assert_eq!(heard.lock().unwrap().as_slice(), b"");
}
