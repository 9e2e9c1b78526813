//! Topics and their configurations are created together or not at all, in groups. Upstream: `createTopicWithAssignment` in
//! `AdminZkClientTest`, which writes them one after the other.

use klamm::effect::{Read, ZkOutcome, ZkWrite};
use klamm::model::{BrokerIds, TopicId, TopicName};
use klamm::port::{Zk, ZkFault};

use crate::harness::*;
use crate::proxy::Proxy;

const CREATED: ZkOutcome = ZkOutcome::Written { version: 0 };
const OURS: &str = r#"{"version":1,"config":{"retention.ms":"7"}}"#;
const THEIRS: &str = r#"{"version":1,"config":{"cleanup.policy":"compact"}}"#;

fn names(count: usize) -> Vec<TopicName> {
    let name = |index| TopicName::new(&format!("new-{index:03}"));
    (0..count).map(name).collect()
}

fn creation(topic: &TopicName) -> ZkWrite {
    ZkWrite::CreateTopic {
        topic: topic.clone(),
        topic_id: TopicId::new([7; 16]),
        replicas: vec![BrokerIds::from([1, 2]), BrokerIds::from([2, 1])],
        config: [("retention.ms".to_owned(), "7".to_owned())].into(),
    }
}

async fn put(cluster: &Fixture, path: String, data: &str) {
    let made = cluster.others.create(&path, data.as_bytes(), &PERSISTENT);
    made.await.unwrap();
}

async fn config_of(cluster: &Fixture, topic: &TopicName) -> Option<String> {
    let path = format!("/config/topics/{topic}");
    let (data, _) = cluster.others.get_data(&path).await.ok()?;
    Some(String::from_utf8(data).unwrap())
}

async fn topics_are_created(server: &'static str, requests_at_most: u64) {
    let cluster = Fixture::at(server).await;
    let term = cluster.lead().await;
    let topics = names(300);
    let is_there = |index: usize| index % 50 == 3;
    let left_its_config = |index: usize| index % 60 == 5;
    for (index, topic) in topics.iter().enumerate() {
        if is_there(index) {
            put(
                &cluster,
                format!("/brokers/topics/{topic}"),
                r#"{"version":1,"partitions":{}}"#,
            )
            .await;
        }
        if is_there(index) || left_its_config(index) {
            put(&cluster, format!("/config/topics/{topic}"), THEIRS).await;
        }
    }
    let writes: Vec<ZkWrite> = topics.iter().map(creation).collect();
    let before = cluster.events.requests();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    let requests = cluster.events.requests() - before;
    assert!(
        requests < requests_at_most,
        "{requests} requests for 300 topics"
    );
    let reads = cluster.zk.topics(&topics).await.unwrap();
    for (index, (topic, read)) in topics.iter().zip(reads).enumerate() {
        let (outcome, config, partitions) = match is_there(index) {
            true => (ZkOutcome::AlreadyExists, THEIRS, 0),
            false => (CREATED, OURS, 2),
        };
        assert_eq!(outcomes[index], outcome, "{topic}");
        assert_eq!(
            config_of(&cluster, topic).await.as_deref(),
            Some(config),
            "{topic}"
        );
        let Read::Found(znode) = read else {
            panic!("{topic}: {read:?}");
        };
        assert_eq!(znode.partitions.len(), partitions, "{topic}");
        assert_eq!(znode.topic_id.is_some(), partitions > 0, "{topic}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_created_with_their_configurations_in_groups() {
    topics_are_created(modern(), 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_created_with_their_configurations_on_zookeeper_3_5_too() {
    // It reads what is there one node a request; the writes are grouped all the same.
    topics_are_created(old(), 5 * 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_was_lost_counts_as_done() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = names(20);
    let writes: Vec<ZkWrite> = topics.iter().map(creation).collect();
    proxy.swallow_next_answer();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    assert_eq!(proxy.swallowed(), 1);
    assert!(
        outcomes.iter().all(|outcome| *outcome == CREATED),
        "{outcomes:?}"
    );
    for topic in &topics {
        assert_eq!(config_of(&cluster, topic).await.as_deref(), Some(OURS));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_lost_term_neither_node_is_written() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let epoch = "/controller_epoch";
    cluster.others.set_data(epoch, b"9", None).await.unwrap();
    let topic = TopicName::new("t");
    let refused = cluster.zk.write(&term, &[creation(&topic)]).await;
    assert_eq!(refused, Err(ZkFault::Fenced));
    assert_eq!(config_of(&cluster, &topic).await, None);
    let there = cluster
        .others
        .check_stat("/brokers/topics/t")
        .await
        .unwrap();
    assert!(there.is_none());
}
