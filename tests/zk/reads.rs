//! What `klamm::zk` reads, from servers that can and can't read in groups: order, broken nodes, big listings, and the
//! event that each change becomes. Must never judge how a znode is written (the unit tests of `znode` do).
//! Upstream: `KafkaZkClientTest`.

use std::time::Instant;

use klamm::effect::{ConfigChange, ElectionConfig, NotificationName, Read};
use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, TopicName, TopicPartition};
use klamm::port::{Notification, Zk};
use klamm::zk::{StartError, znode};

use crate::harness::*;

async fn states_are_read_in_order_whatever_single_ones_hold(server: &'static str) {
    let cluster = Fixture::at(server).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(20, 100).await;
    let partitions = partitions_of(&topics, 100);
    cluster.create_states(&term, &partitions).await;
    let broken = "/brokers/topics/topic-00003/partitions/7/state";
    cluster
        .others
        .set_data(broken, b"no json", None)
        .await
        .unwrap();
    let fifth = "/brokers/topics/topic-00005/partitions/0/state";
    let data = znode::encode_state(&led_by(5), FIRST);
    cluster.others.set_data(fifth, &data, None).await.unwrap();

    let mut asked = partitions.clone();
    asked.insert(0, TopicPartition::new(&TopicName::new("nowhere"), 0));
    asked.push(TopicPartition::new(&TopicName::new("not\u{1}legal"), 0));
    let reads = cluster.zk.partition_states(&asked).await.unwrap();
    assert_eq!(reads.len(), asked.len());
    assert_eq!(reads[0], Read::Missing);
    assert!(matches!(reads.last(), Some(Read::Broken(_))));
    for (partition, read) in asked.iter().zip(&reads).skip(1).take(partitions.len()) {
        let name = partition.to_string();
        match read {
            Read::Broken(why) => {
                assert_eq!(name, "topic-00003-7");
                assert!(why.contains(broken), "{why}");
            }
            Read::Found(state) if name == "topic-00005-0" => {
                assert_eq!(state.leader_and_isr.leader, BrokerId(5));
                assert_eq!(state.partition_epoch.0, 1);
            }
            Read::Found(state) => assert_eq!(state.leader_and_isr, led_by(0), "{name}"),
            Read::Missing => panic!("{name} is missing"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_is_read_in_groups_and_one_bad_node_costs_only_itself() {
    states_are_read_in_order_whatever_single_ones_hold(modern()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_3_5_is_read_one_by_one_with_the_same_outcome() {
    states_are_read_in_order_whatever_single_ones_hold(old()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_3_4_is_refused_with_what_to_do() {
    let events = std::sync::Arc::default();
    let refusal = start(ancient(), "/kafka", 6_000, &events, KLAMM).await;
    let refusal = refusal.unwrap_err();
    assert_eq!(
        refusal,
        StartError::TooOld {
            host: ancient().to_owned()
        }
    );
    assert!(
        refusal.to_string().contains("upgrade ZooKeeper to 3.5"),
        "{refusal}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named() {
    let (host, _) = modern().rsplit_once(':').unwrap();
    let nobody = format!("{host}:1");
    let events = std::sync::Arc::default();
    let began = Instant::now();
    let refusal = start(&nobody, "", 6_000, &events, KLAMM).await.unwrap_err();
    assert!(refusal.to_string().contains(&nobody), "{refusal}");
    assert!(began.elapsed().as_secs() < 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_states_are_created_and_read_in_few_requests() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(100, 100).await;
    let partitions = partitions_of(&topics, 100);
    let before = cluster.events.requests();
    let began = Instant::now();
    cluster.create_states(&term, &partitions).await;
    let created = began.elapsed();
    let creating = cluster.events.requests() - before;
    let began = Instant::now();
    let reads = cluster.zk.partition_states(&partitions).await.unwrap();
    let read = began.elapsed();
    let reading = cluster.events.requests() - before - creating;
    eprintln!(
        "10,000 states: created in {created:?} ({creating} requests), read in {read:?} ({reading} requests)"
    );
    assert!(reads.iter().all(|read| matches!(read, Read::Found(_))));
    assert!(creating < 60, "{creating}");
    assert_eq!(reading, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_list_above_1_mib_is_read() {
    let cluster = Fixture::at(modern()).await;
    let stem = "x".repeat(230);
    for slice in 0..60 {
        let mut writer = cluster.others.new_multi_writer();
        for number in 0..100 {
            let path = format!("/brokers/topics/{stem}-{slice:03}-{number:03}");
            writer.add_create(&path, &[], &PERSISTENT).unwrap();
        }
        writer.commit().await.unwrap();
    }
    let names = cluster.zk.topic_names().await.unwrap();
    assert_eq!(names.len(), 6_000);
    assert!(names.iter().map(|name| name.as_str().len()).sum::<usize>() > 1024 * 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_configurations_and_notifications_are_read() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    let registration = znode::encode_broker(&klamm(BrokerId(2)), 5, 0);
    for (path, data) in [
        ("/brokers/ids/2", registration.as_slice()),
        ("/brokers/ids/10", b"broken"),
        ("/brokers/ids/strange", b""),
        (
            "/config/topics/t",
            br#"{"version":1,"config":{"unclean.leader.election.enable":"true"}}"#,
        ),
        (
            "/isr_change_notification/isr_change_0000000002",
            br#"{"version":1,"partitions":[{"topic":"t","partition":1}]}"#,
        ),
        ("/isr_change_notification/isr_change_0000000001", b"broken"),
        ("/admin/delete_topics/t", b""),
    ] {
        others.create(path, data, &PERSISTENT).await.unwrap();
    }
    let brokers = cluster.zk.brokers().await.unwrap();
    let ids: Vec<i32> = brokers.iter().map(|(id, _)| id.0).collect();
    assert_eq!(ids, [2, 10]);
    let stat = others.check_stat("/brokers/ids/2").await.unwrap().unwrap();
    assert!(matches!(&brokers[0].1, Read::Found(found) if found.epoch.0 == stat.czxid));
    assert!(matches!(&brokers[1].1, Read::Broken(_)));

    let named = [TopicName::new("t"), TopicName::new("without")];
    let configs = cluster.zk.topic_configs(&named).await.unwrap();
    let enabled = ElectionConfig {
        unclean_leader_election_enable: Some(true),
    };
    assert_eq!(
        configs,
        [Read::Found(enabled), Read::Found(ElectionConfig::default())]
    );

    let changes = cluster.zk.isr_change_notifications().await.unwrap();
    let partition = TopicPartition::new(&TopicName::new("t"), 1);
    assert!(matches!(&changes[0].content, Read::Broken(_)));
    assert_eq!(
        changes[1],
        Notification {
            name: NotificationName("isr_change_0000000002".to_owned()),
            content: Read::Found(vec![partition])
        }
    );
    assert_eq!(
        cluster.zk.topic_deletions().await.unwrap(),
        [TopicName::new("t")]
    );
    let notice = "/config/changes/config_change_0000000003";
    let text = br#"{"version":2,"entity_path":"topics/t"}"#;
    others.create(notice, text, &PERSISTENT).await.unwrap();
    let named = cluster.zk.config_change_names().await.unwrap();
    assert_eq!(
        named,
        [NotificationName("config_change_0000000003".to_owned())]
    );
    let gone = NotificationName("config_change_0000000004".to_owned());
    let asked = [gone, named[0].clone()];
    assert_eq!(
        cluster.zk.config_changes(&asked).await.unwrap(),
        [
            Read::Missing,
            Read::Found(ConfigChange::Topic(TopicName::new("t")))
        ]
    );
    let named = [TopicName::new("t"), TopicName::new("without")];
    let asked = cluster.zk.preferred_replica_election().await.unwrap();
    assert_eq!(asked, Read::Missing);
    let text = br#"{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t"}]}"#;
    others
        .create("/admin/preferred_replica_election", text, &PERSISTENT)
        .await
        .unwrap();
    let asked = cluster.zk.preferred_replica_election().await.unwrap();
    let Read::Found(asked) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.partitions, [TopicPartition::new(&named[0], 1)]);
    assert_eq!(asked.broken.len(), 1);
    assert_eq!(cluster.zk.feature().await.unwrap(), Read::Missing);
    assert_eq!(cluster.zk.producer_id_block().await.unwrap(), Read::Missing);
}

async fn changes_become_events(server: &'static str) {
    use ControllerEvent as E;
    let cluster = Fixture::at(server).await;
    let (zk, others, events) = (&cluster.zk, &cluster.others, &cluster.events);
    let term = cluster.lead().await;
    let topics = cluster.create_topics(2, 1).await;
    let first = TopicPartition::new(&topics[0], 0);
    let registration = znode::encode_broker(&klamm(BrokerId(2)), 5, 0);
    others
        .create("/brokers/ids/2", &registration, &PERSISTENT)
        .await
        .unwrap();
    zk.record_klamm_id().await.unwrap();
    zk.klamm_ids().await.unwrap();
    zk.role_view().await.unwrap();
    zk.brokers().await.unwrap();
    zk.topic_names().await.unwrap();
    zk.topics(&topics).await.unwrap();
    zk.isr_change_notifications().await.unwrap();
    zk.log_dir_event_notifications().await.unwrap();
    zk.preferred_replica_election().await.unwrap();
    zk.config_change_names().await.unwrap();
    events.forget();

    cluster
        .create_states(&term, std::slice::from_ref(&first))
        .await;
    let topic = "/brokers/topics/topic-00000";
    let create = async |path: &str| others.create(path, b"{}", &PERSISTENT).await.unwrap();
    others.set_data(topic, b"{}", None).await.unwrap();
    events
        .wait_for(&E::PartitionModifications(topics[0].clone()))
        .await;
    create("/brokers/topics/another").await;
    events.wait_for(&E::TopicChange).await;
    others
        .set_data("/brokers/ids/2", b"{}", None)
        .await
        .unwrap();
    events.wait_for(&E::BrokerModifications(BrokerId(2))).await;
    others.delete("/brokers/ids/2", None).await.unwrap();
    events.wait_for(&E::BrokerChange).await;
    create("/isr_change_notification/isr_change_0").await;
    events.wait_for(&E::IsrChangeNotification).await;
    create("/log_dir_event_notification/log_dir_event_0").await;
    events.wait_for(&E::LogDirEventNotification).await;
    create("/admin/preferred_replica_election").await;
    events.wait_for(&E::PreferredReplicaElection).await;
    create("/config/changes/config_change_0").await;
    events.wait_for(&E::ConfigChange).await;
    create("/klamm/hold").await;
    events.wait_for(&E::KlammNodesChange).await;
    others.delete("/controller", None).await.unwrap();
    events.wait_for(&E::Reelect).await;
    zk.role_view().await.unwrap();
    create("/controller").await;
    events.wait_for(&E::ControllerChange).await;

    let of_topics = |event: &&E| matches!(event, E::TopicChange | E::PartitionModifications(_));
    let seen = events.seen();
    assert_eq!(
        seen.iter().filter(of_topics).count(),
        2,
        "states and partitions raise no event: {seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_become_events_through_a_recursive_watch() {
    changes_become_events(modern()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_become_events_through_one_shot_watches_on_zookeeper_3_5() {
    changes_become_events(old()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reassignment_node_is_watched_when_it_comes_changes_and_goes() {
    let cluster = Fixture::at(modern()).await;
    let (zk, others, events) = (&cluster.zk, &cluster.others, &cluster.events);
    let path = "/admin/reassign_partitions";
    let look = ControllerEvent::PartitionReassignment;
    assert_eq!(zk.partition_reassignment().await.unwrap(), Read::Missing);
    events.forget();
    let text =
        br#"{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2]},{"topic":"t"}]}"#;
    others.create(path, text, &PERSISTENT).await.unwrap();
    events.wait_for(&look).await;
    let read = zk.partition_reassignment().await.unwrap();
    let Read::Found(asked) = read else {
        panic!("{read:?}");
    };
    assert_eq!(
        (asked.targets.len(), asked.broken.len(), asked.version),
        (1, 1, 0)
    );
    events.forget();
    others.set_data(path, b"{}", None).await.unwrap();
    events.wait_for(&look).await;
    let read = zk.partition_reassignment().await.unwrap();
    assert!(
        matches!(read, Read::Found(changed) if changed.version == 1 && changed.czxid == asked.czxid)
    );
    events.forget();
    others.delete(path, None).await.unwrap();
    events.wait_for(&look).await;
    assert_eq!(zk.partition_reassignment().await.unwrap(), Read::Missing);
}
