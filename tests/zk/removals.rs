//! A topic's nodes go: in groups, from the leaves up, the last three in one transaction. Upstream: the topic-deletion cases
//! of `KafkaZkClientTest`.

use klamm::effect::{ZkOutcome, ZkWrite};
use klamm::model::{BrokerId, TopicName};
use klamm::port::{Zk, ZkFault};

use crate::harness::*;
use crate::proxy::Proxy;

/// How far into a removal its connection is cut.
const CUT_PACE: std::time::Duration = std::time::Duration::from_millis(5);
const GONE: ZkOutcome = ZkOutcome::Written { version: 0 };

/// Configurations and requests for these topics.
async fn configure_and_mark(cluster: &Fixture, topics: &[TopicName]) {
    for topic in topics {
        for parent in ["/config/topics", "/admin/delete_topics"] {
            let path = format!("{parent}/{topic}");
            cluster
                .others
                .create(&path, b"", &PERSISTENT)
                .await
                .unwrap();
        }
    }
}

/// What is left of a topic.
async fn traces(cluster: &Fixture, topic: &TopicName) -> Vec<String> {
    let mut found = Vec::new();
    for parent in ["/brokers/topics", "/config/topics", "/admin/delete_topics"] {
        let path = format!("{parent}/{topic}");
        if cluster.others.check_stat(&path).await.unwrap().is_some() {
            found.push(path);
        }
    }
    found
}

async fn large_topics_are_removed(server: &'static str, most_requests: u64) {
    let cluster = Fixture::at(server).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(4, 1_000).await;
    let partitions = partitions_of(&topics, 1_000);
    cluster.create_states(&term, &partitions).await;
    configure_and_mark(&cluster, &topics[..3]).await;
    // Somebody else's nodes, a partition without a state, and a topic without a configuration.
    let create = async |path: &str| cluster.others.create(path, b"x", &PERSISTENT).await;
    create("/brokers/topics/topic-00000/strange").await.unwrap();
    create("/brokers/topics/topic-00000/strange/deeper")
        .await
        .unwrap();
    create("/brokers/topics/topic-00001/partitions/x")
        .await
        .unwrap();
    let delete = async |path: &str| cluster.others.delete(path, None).await;
    delete("/brokers/topics/topic-00001/partitions/7/state")
        .await
        .unwrap();
    delete("/config/topics/topic-00002").await.unwrap();

    let mut writes: Vec<ZkWrite> = topics[..3]
        .iter()
        .cloned()
        .map(ZkWrite::DeleteTopic)
        .collect();
    writes.push(ZkWrite::DeleteTopic(TopicName::new("unknown")));
    let before = cluster.events.requests();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    let requests = cluster.events.requests() - before;
    assert_eq!(outcomes, [GONE, GONE, GONE, ZkOutcome::Missing]);
    assert!(requests <= most_requests, "{requests} requests");
    for topic in &topics[..3] {
        assert_eq!(traces(&cluster, topic).await, [""; 0]);
    }
    let kept = partitions_of(&topics[3..], 1_000);
    assert_eq!(
        leader(cluster.zk.partition_states(&kept).await).len(),
        1_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_of_a_thousand_partitions_are_removed_in_groups() {
    large_topics_are_removed(modern(), 250).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_of_a_thousand_partitions_are_removed_on_zookeeper_3_5_too() {
    large_topics_are_removed(old(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markers_and_remains_go_alone() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(2, 1).await;
    configure_and_mark(&cluster, &topics).await;
    let [first, second] = [topics[0].clone(), topics[1].clone()];
    let unknown = TopicName::new("unknown");
    let writes = [
        ZkWrite::DeleteTopicDeletion(first.clone()),
        ZkWrite::DeleteTopicRemains(second.clone()),
        ZkWrite::DeleteTopicDeletion(unknown.clone()),
        ZkWrite::DeleteTopicRemains(unknown),
    ];
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    let missing = ZkOutcome::Missing;
    assert_eq!(outcomes, [GONE, GONE, missing.clone(), missing]);
    assert_eq!(
        traces(&cluster, &first).await,
        ["/brokers/topics/topic-00000", "/config/topics/topic-00000"]
    );
    assert_eq!(
        traces(&cluster, &second).await,
        ["/brokers/topics/topic-00001"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_controller_removes_nothing() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(1, 3).await;
    let partitions = partitions_of(&topics, 3);
    cluster.create_states(&term, &partitions).await;
    configure_and_mark(&cluster, &topics).await;
    let rival = cluster.another(BrokerId(901)).await;
    let view = rival.client().role_view().await.unwrap();
    let me = klamm(BrokerId(901));
    rival.client().take_role(&view, &me).await.unwrap();
    for write in [
        ZkWrite::DeleteTopic(topics[0].clone()),
        ZkWrite::DeleteTopicRemains(topics[0].clone()),
        ZkWrite::DeleteTopicDeletion(topics[0].clone()),
    ] {
        let fenced = cluster.zk.write(&term, &[write]).await;
        assert_eq!(fenced, Err(ZkFault::Fenced));
    }
    assert_eq!(traces(&cluster, &topics[0]).await.len(), 3);
    assert_eq!(
        leader(cluster.zk.partition_states(&partitions).await).len(),
        3
    );
    rival.close().await;
}

/// Answers are swallowed and connections cut in the midst of removals, and each ends as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_goes_through_cuts() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(40, 100).await;
    let partitions = partitions_of(&topics, 100);
    cluster.create_states(&term, &partitions).await;
    configure_and_mark(&cluster, &topics).await;
    for pair in topics.chunks(4) {
        let writes: Vec<ZkWrite> = pair.iter().cloned().map(ZkWrite::DeleteTopic).collect();
        proxy.swallow_next_answer();
        let cutting = async {
            tokio::time::sleep(CUT_PACE).await;
            proxy.cut();
        };
        let (outcomes, ()) = tokio::join!(cluster.zk.write(&term, &writes), cutting);
        assert_eq!(outcomes.unwrap(), [GONE, GONE, GONE, GONE]);
        for topic in pair {
            assert_eq!(traces(&cluster, topic).await, [""; 0]);
        }
    }
    assert!(proxy.swallowed() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_deletion_becomes_an_event_each_time() {
    use klamm::event::ControllerEvent;
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    for round in 0..3 {
        assert!(cluster.zk.topic_deletions().await.unwrap().is_empty());
        cluster.events.forget();
        configure_and_mark(&cluster, &[TopicName::new(&format!("t{round}"))]).await;
        cluster
            .events
            .wait_for(&ControllerEvent::TopicDeletion)
            .await;
        let marked = cluster.zk.topic_deletions().await.unwrap();
        assert_eq!(marked.len(), 1);
        let markers: Vec<ZkWrite> = marked
            .into_iter()
            .map(ZkWrite::DeleteTopicDeletion)
            .collect();
        // The removal fires the watch as well: what is still under way then would be taken for the next round's.
        cluster.events.forget();
        cluster.zk.write(&term, &markers).await.unwrap();
        cluster
            .events
            .wait_for(&ControllerEvent::TopicDeletion)
            .await;
    }
}
