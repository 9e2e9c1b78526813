//! Grouped fenced writes: what becomes of each item, whatever becomes of its neighbours. Must never cut a connection
//! (`faults` does). Upstream: the write cases of `KafkaZkClientTest`.

use std::collections::BTreeMap;

use klamm::effect::{
    FeatureZnode, NotificationName, ProducerIdBlock, Read, Term, TopicZnode, ZkOutcome, ZkWrite,
};
use klamm::model::{
    BrokerId, BrokerIds, ControllerEpoch, ReplicaAssignment, TopicName, TopicPartition,
};
use klamm::port::{Zk, ZkFault};

use crate::harness::*;

const FIRST_VERSION: ZkOutcome = ZkOutcome::Written { version: 0 };
const SECOND_VERSION: ZkOutcome = ZkOutcome::Written { version: 1 };

async fn new_and_grown_topics_get_their_states(server: &'static str, most_requests: u64) {
    let cluster = Fixture::at(server).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(100, 100).await;
    let first_half = partitions_of(&topics, 50);
    cluster.create_states(&term, &first_half).await;

    let all = partitions_of(&topics, 100);
    let writes: Vec<ZkWrite> = all.iter().map(|p| create(p, &term, 1)).collect();
    let before = cluster.events.requests();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    let conflicting = cluster.events.requests() - before;
    for (partition, outcome) in all.iter().zip(outcomes) {
        let expected = match partition.partition < 50 {
            true => ZkOutcome::AlreadyExists,
            false => FIRST_VERSION,
        };
        assert_eq!(outcome, expected, "{partition}");
    }
    assert!(
        conflicting <= most_requests,
        "{conflicting} requests for 5,000 conflicts"
    );
    let leaders = leader(cluster.zk.partition_states(&all).await);
    assert!(
        leaders
            .iter()
            .zip(&all)
            .all(|(l, p)| *l == i32::from(p.partition >= 50))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_new_and_grown_topics_are_created_in_groups() {
    new_and_grown_topics_get_their_states(modern(), 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_are_created_in_groups_on_zookeeper_3_5_too() {
    new_and_grown_topics_get_their_states(old(), 15_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_items_in_a_group_cost_only_themselves() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(10, 100).await;
    let partitions = partitions_of(&topics, 100);
    cluster.create_states(&term, &partitions).await;
    // Leaders of old brokers write states themselves.
    let changed = [3, 4, 399, 400, 999];
    for position in changed {
        let partition = &partitions[position];
        let path = format!(
            "/brokers/topics/{}/partitions/{}/state",
            partition.topic, partition.partition
        );
        cluster.others.set_data(&path, b"{}", None).await.unwrap();
    }
    let gone = "/brokers/topics/topic-00002/partitions/50/state";
    cluster.others.delete(gone, None).await.unwrap();

    let writes: Vec<ZkWrite> = partitions.iter().map(|p| set(p, &term, 2, 0)).collect();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    for (position, outcome) in outcomes.into_iter().enumerate() {
        let expected = match position {
            250 => ZkOutcome::Missing,
            position if changed.contains(&position) => ZkOutcome::VersionConflict,
            _ => SECOND_VERSION,
        };
        assert_eq!(outcome, expected, "{position}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_gone_costs_nothing_but_its_own_states() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let mut topics = cluster.create_topics(3, 50).await;
    topics.insert(1, TopicName::new("gone"));
    topics.push(TopicName::new("not\u{1}legal"));
    let partitions = partitions_of(&topics, 50);
    let writes: Vec<ZkWrite> = partitions.iter().map(|p| create(p, &term, 0)).collect();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    for (partition, outcome) in partitions.iter().zip(outcomes) {
        match partition.topic.as_str() {
            "gone" => assert_eq!(outcome, ZkOutcome::Missing),
            "not\u{1}legal" => assert!(matches!(outcome, ZkOutcome::Refused(_)), "{outcome:?}"),
            _ => assert_eq!(outcome, FIRST_VERSION),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_one_path_keep_their_order() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(1, 1).await;
    let partition = TopicPartition::new(&topics[0], 0);
    let writes = [
        create(&partition, &term, 0),
        set(&partition, &term, 1, 0),
        set(&partition, &term, 2, 1),
        set(&partition, &term, 3, 1),
    ];
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    assert_eq!(
        outcomes,
        [
            FIRST_VERSION,
            SECOND_VERSION,
            ZkOutcome::Written { version: 2 },
            ZkOutcome::VersionConflict
        ]
    );
    assert_eq!(leader(cluster.zk.partition_states(&[partition]).await), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_once_another_controller_was_elected() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(1, 1).await;
    let partition = TopicPartition::new(&topics[0], 0);
    cluster
        .others
        .set_data("/controller_epoch", b"2", None)
        .await
        .unwrap();
    let writes = [create(&partition, &term, 0)];
    let fenced = cluster.zk.write(&term, &writes).await;
    assert_eq!(fenced, Err(ZkFault::Fenced));
    let read = cluster.zk.partition_states(&[partition]).await.unwrap();
    assert_eq!(read, [Read::Missing]);
    let partitions = "/brokers/topics/topic-00000/partitions";
    assert_eq!(cluster.others.check_stat(partitions).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_epoch_fences_too() {
    let cluster = Fixture::at(modern()).await;
    let term = Term {
        epoch: ControllerEpoch(1),
        epoch_zk_version: 1,
    };
    let write = ZkWrite::DeleteIsrChangeNotification(NotificationName("x".to_owned()));
    assert_eq!(
        cluster.zk.write(&term, &[write]).await,
        Err(ZkFault::Fenced)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_write_reaches_its_node() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let others = &cluster.others;
    let create = async |path: &str| others.create(path, &[], &PERSISTENT).await.unwrap();
    create("/isr_change_notification/isr_change_1").await;
    create("/log_dir_event_notification/log_dir_event_1").await;
    create("/latest_producer_id_block").await;
    create("/admin/preferred_replica_election").await;
    create("/admin/reassign_partitions").await;
    let Read::Found(asked) = cluster.zk.partition_reassignment().await.unwrap() else {
        panic!("not read");
    };
    let targets = BTreeMap::from([(
        TopicPartition::new(&TopicName::new("t"), 0),
        BrokerIds::from([2, 1]),
    )]);
    let topics = cluster.create_topics(1, 1).await;
    let name = |name: &str| NotificationName(name.to_owned());
    let feature = FeatureZnode {
        json_version: 1,
        enabled: true,
        levels: BTreeMap::new(),
    };
    let block = ProducerIdBlock {
        broker: BrokerId(1),
        first: 0,
        last: 999,
    };
    let topic = TopicZnode {
        topic_id: None,
        partitions: BTreeMap::from([(0, ReplicaAssignment::settled(BrokerIds::from([7])))]),
        version: 0,
    };
    let writes = [
        ZkWrite::DeleteIsrChangeNotification(name("isr_change_1")),
        ZkWrite::DeleteIsrChangeNotification(name("isr_change_2")),
        ZkWrite::DeleteLogDirEventNotification(name("log_dir_event_1")),
        ZkWrite::DeletePreferredReplicaElection,
        ZkWrite::SetPartitionReassignment {
            targets: targets.clone(),
            expected: asked.version,
        },
        ZkWrite::SetPartitionReassignment {
            targets: targets.clone(),
            expected: asked.version,
        },
        ZkWrite::CreateFeature(feature.clone()),
        ZkWrite::CreateFeature(feature.clone()),
        ZkWrite::SetFeature {
            znode: feature.clone(),
            expected: 0,
        },
        ZkWrite::SetProducerIdBlock { block, expected: 0 },
        ZkWrite::SetTopic {
            topic: topics[0].clone(),
            znode: topic.clone(),
        },
    ];
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    assert_eq!(
        outcomes,
        [
            FIRST_VERSION,
            ZkOutcome::Missing,
            FIRST_VERSION,
            FIRST_VERSION,
            SECOND_VERSION,
            ZkOutcome::VersionConflict,
            FIRST_VERSION,
            ZkOutcome::AlreadyExists,
            SECOND_VERSION,
            SECOND_VERSION,
            SECOND_VERSION
        ]
    );
    let zk = &cluster.zk;
    let Read::Found(rewritten) = zk.partition_reassignment().await.unwrap() else {
        panic!("not read");
    };
    assert_eq!((rewritten.targets, rewritten.version), (targets, 1));
    assert_eq!(rewritten.czxid, asked.czxid);
    let delete = |expected| ZkWrite::DeletePartitionReassignment {
        expected,
        czxid: asked.czxid,
    };
    let deleted = zk.write(&term, &[delete(0)]).await.unwrap();
    assert_eq!(deleted, [ZkOutcome::VersionConflict]);
    let deleted = zk.write(&term, &[delete(1)]).await.unwrap();
    assert_eq!(deleted, [FIRST_VERSION]);
    assert_eq!(zk.partition_reassignment().await.unwrap(), Read::Missing);
    assert_eq!(zk.feature().await.unwrap(), Read::Found((feature, 1)));
    assert_eq!(
        zk.producer_id_block().await.unwrap(),
        Read::Found((Some(block), 1))
    );
    let read = zk.topics(&topics).await.unwrap();
    assert_eq!(
        read,
        [Read::Found(TopicZnode {
            version: 1,
            ..topic
        })]
    );
    assert!(zk.isr_change_notifications().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_too_large_for_zookeeper_is_refused_and_costs_only_itself() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(2, 1).await;
    let znode = |partitions: i32| TopicZnode {
        topic_id: None,
        partitions: (0..partitions)
            .map(|p| (p, ReplicaAssignment::settled(BrokerIds::from([1, 2, 3]))))
            .collect(),
        version: 0,
    };
    let writes = [
        ZkWrite::SetTopic {
            topic: topics[0].clone(),
            znode: znode(100_000),
        },
        // Nearly a megabyte: more than a group, and fine.
        ZkWrite::SetTopic {
            topic: topics[1].clone(),
            znode: znode(60_000),
        },
    ];
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    assert!(
        matches!(&outcomes[0], ZkOutcome::Refused(why) if why.contains("topic-00000") && why.contains("jute.maxbuffer")),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], SECOND_VERSION);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_goes_with_a_notice_and_one_that_was_renewed_stays() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let (zk, others) = (&cluster.zk, &cluster.others);
    assert_eq!(zk.delegation_tokens().await.unwrap(), []);
    let token = br#"{"version":1,"maxTimestamp":2,"expiryTimestamp":1}"#;
    for path in ["/delegation_token", "/delegation_token/tokens"] {
        others.create(path, &[], &PERSISTENT).await.unwrap();
    }
    let create = async |id: &str, text: &[u8]| {
        let path = format!("/delegation_token/tokens/{id}");
        others.create(&path, text, &PERSISTENT).await.unwrap();
    };
    create("a", token).await;
    create("b", token).await;
    create("bad", b"x").await;
    create("silent", token).await;
    let tokens = zk.delegation_tokens().await.unwrap();
    assert_eq!(tokens.len(), 4);
    assert!(matches!(&tokens[2], (id, Read::Broken(_)) if id.0 == "bad"));
    let expire = |index: usize| {
        let (token, read) = &tokens[index];
        let Read::Found(read) = read else {
            panic!("{read:?}");
        };
        ZkWrite::ExpireDelegationToken {
            token: token.clone(),
            read: *read,
        }
    };
    // Where no broker listens there is nothing to tell.
    let outcomes = zk.write(&term, &[expire(3)]).await.unwrap();
    assert_eq!(outcomes, [FIRST_VERSION]);
    let changes = "/delegation_token/token_changes";
    others.create(changes, &[], &PERSISTENT).await.unwrap();
    others
        .set_data("/delegation_token/tokens/b", token, None)
        .await
        .unwrap();
    let outcomes = zk.write(&term, &[expire(0), expire(1), expire(3)]).await;
    assert_eq!(
        outcomes.unwrap(),
        [
            FIRST_VERSION,
            ZkOutcome::VersionConflict,
            ZkOutcome::Missing
        ]
    );
    let mut left = others
        .list_children("/delegation_token/tokens")
        .await
        .unwrap();
    left.sort();
    assert_eq!(left, ["b", "bad"]);
    let notices = others.list_children(changes).await.unwrap();
    assert_eq!(notices.len(), 1);
    let notice = format!("{changes}/{}", notices[0]);
    let (text, _) = others.get_data(&notice).await.unwrap();
    assert_eq!(text, b"a");
}
