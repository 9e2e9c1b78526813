//! Connections cut for real: what zookeeper-client 0.11.2 does wrong by itself must not be seen. Must never pass because
//! no cut took place: each test sees it happen. Upstream: `ZooKeeperClientTest`.

use std::time::{Duration, Instant};

use klamm::effect::ZkOutcome;
use klamm::event::{ControllerEvent, Sweep};
use klamm::model::{BrokerId, TopicName, TopicPartition};
use klamm::port::{Zk, ZkFault};
use klamm::zk::SessionState;
use klamm_rig::version::KafkaVersion;

use crate::harness::*;
use crate::proxy::Proxy;

/// Between two cuts under load.
const CUT_PACE: Duration = Duration::from_millis(100);

/// Cuts, and waits until everything was asked to be looked at again.
async fn cut(proxy: &Proxy, cluster: &Fixture) -> Duration {
    cluster.events.forget();
    let began = Instant::now();
    proxy.cut();
    let sweep = ControllerEvent::AntiEntropy(Sweep::Begin);
    cluster.events.wait_for(&sweep).await;
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_watched_topics_survive_twenty_cuts() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    cluster.lead().await;
    let owner = cluster.ephemeral_owner("/controller").await;
    let topics = cluster.create_topics(5_000, 1).await;
    cluster.zk.topic_names().await.unwrap();
    assert_eq!(cluster.zk.topics(&topics).await.unwrap().len(), 5_000);
    for number in 0..20 {
        let took = cut(&proxy, &cluster).await;
        assert!(took < Duration::from_secs(8), "cut {number}: {took:?}");
        let name = TopicName::new(&format!("topic-{:05}", number * 200));
        let path = format!("/brokers/topics/{name}");
        cluster.others.set_data(&path, b"{}", None).await.unwrap();
        let change = ControllerEvent::PartitionModifications(name);
        cluster.events.wait_for(&change).await;
    }
    assert_eq!(cluster.ephemeral_owner("/controller").await, owner);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_topics_watched_one_by_one_survive_cuts_on_zookeeper_3_5() {
    let proxy = Proxy::before(old()).await;
    let cluster = Fixture::through(old(), proxy.address(), 10_000).await;
    cluster.lead().await;
    let owner = cluster.ephemeral_owner("/controller").await;
    // 180,000 bytes of watched paths: over 128 KiB the client library by itself loses the session at the first cut.
    let topics = cluster.create_topics(5_000, 1).await;
    let paths = topics
        .iter()
        .map(|name| "/brokers/topics/".len() + name.as_str().len());
    assert!(cluster.chroot.len() * 5_000 + paths.sum::<usize>() > 128 * 1024);
    for number in [0, 2_500, 4_999] {
        cluster.zk.topics(&topics).await.unwrap();
        let path = format!("/brokers/topics/{}", topics[number]);
        cluster.others.set_data(&path, b"{}", None).await.unwrap();
        let change = ControllerEvent::PartitionModifications(topics[number].clone());
        cluster.events.wait_for(&change).await;
        let took = cut(&proxy, &cluster).await;
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
    assert_eq!(cluster.ephemeral_owner("/controller").await, owner);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_during_a_cut_is_looked_at_afterwards() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    cluster.zk.topic_names().await.unwrap();
    cluster.events.forget();
    proxy.go_down();
    until("the cut to be seen", async || {
        cluster.zk.session_state() == SessionState::Disconnected
    })
    .await;
    cluster.create_topics(1, 1).await;
    proxy.come_up();
    for event in [
        ControllerEvent::ControllerChange,
        ControllerEvent::KlammNodesChange,
        ControllerEvent::BrokerChange,
        ControllerEvent::TopicChange,
        ControllerEvent::IsrChangeNotification,
        ControllerEvent::LogDirEventNotification,
        ControllerEvent::PreferredReplicaElection,
        ControllerEvent::TopicDeletion,
        ControllerEvent::ConfigChange,
        ControllerEvent::AntiEntropy(Sweep::Begin),
    ] {
        cluster.events.wait_for(&event).await;
    }
    assert_eq!(cluster.zk.topic_names().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_survives_an_outage_of_nine_of_its_ten_seconds() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let owner = cluster.ephemeral_owner("/controller").await;
    let topics = cluster.create_topics(1, 1).await;
    // The server counts from the last it heard.
    cluster.zk.role_view().await.unwrap();
    proxy.go_down();
    let down = Instant::now();
    let partition = TopicPartition::new(&topics[0], 0);
    let writes = [create(&partition, &term, 0)];
    let (written, ()) = tokio::join!(cluster.zk.write(&term, &writes), async {
        until("nine seconds to pass", async || {
            down.elapsed() >= Duration::from_secs(9)
        })
        .await;
        proxy.come_up();
    });
    assert_eq!(written.unwrap(), [ZkOutcome::Written { version: 0 }]);
    assert_eq!(cluster.ephemeral_owner("/controller").await, owner);
    assert!(!cluster.events.seen().contains(&ControllerEvent::Expire));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_zookeeper_finds_the_session_kept() {
    let server = tokio::task::spawn_blocking(|| Server::start(KafkaVersion::V3_9_2));
    // Leaked: the fixture wants an address that lives as long as the program.
    let server: &'static mut Server = Box::leak(Box::new(server.await.unwrap()));
    let address: &'static str = Box::leak(server.zookeeper.connect.clone().into_boxed_str());
    let cluster = Fixture::through(address, address, 6_000).await;
    cluster.lead().await;
    let owner = cluster.ephemeral_owner("/controller").await;
    cluster.events.forget();
    tokio::task::block_in_place(|| {
        server.zookeeper.process.kill().unwrap();
        server.zookeeper.restart().unwrap();
    });
    let sweep = ControllerEvent::AntiEntropy(Sweep::Begin);
    cluster.events.wait_for(&sweep).await;
    let connect = format!("{address}{}", cluster.chroot);
    let again = zookeeper_client::Client::connect(&connect).await.unwrap();
    let stat = again.check_stat("/controller").await.unwrap();
    assert_eq!(stat.map(|stat| stat.ephemeral_owner), owner);
    tokio::task::block_in_place(|| server.zookeeper.process.kill().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_fails_who_waits_and_its_handling_comes_before_the_new_session() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 2_000).await;
    let term = cluster.lead().await;
    let own_creation = ControllerEvent::ControllerChange;
    cluster.events.wait_for(&own_creation).await;
    cluster.events.forget();
    proxy.go_down();
    let write = [create(
        &TopicPartition::new(&TopicName::new("t"), 0),
        &term,
        0,
    )];
    let others = &cluster.others;
    let (written, ()) = tokio::join!(cluster.zk.write(&term, &write), async {
        until("the server to expire the session", async || {
            others.check_stat("/controller").await.unwrap().is_none()
        })
        .await;
        assert_eq!(cluster.zk.session_state(), SessionState::Disconnected);
        assert!(
            cluster.events.seen().is_empty(),
            "only the server may say it"
        );
        proxy.come_up();
    });
    assert_eq!(written, Err(ZkFault::SessionLost));
    cluster.events.wait_for(&ControllerEvent::Expire).await;
    assert_eq!(cluster.zk.session_state(), SessionState::Expired);
    assert_eq!(cluster.zk.role_view().await, Err(ZkFault::SessionLost));
    assert_eq!(cluster.events.seen(), [ControllerEvent::Expire]);

    cluster.events.expiry_is_handled();
    let again = ControllerEvent::RegisterBrokerAndReelect;
    cluster.events.wait_for(&again).await;
    assert_eq!(cluster.events.seen(), [ControllerEvent::Expire, again]);
    let term = cluster.lead().await;
    assert_eq!(term.epoch.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_not_done_twice() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(3, 100).await;
    let partitions = partitions_of(&topics, 100);
    cluster.create_states(&term, &partitions).await;
    let conflict = "/brokers/topics/topic-00001/partitions/5/state";
    cluster
        .others
        .set_data(conflict, b"{}", None)
        .await
        .unwrap();

    // The first answer names the conflict, the second confirms the rest.
    for lost in 1..=2 {
        let writes: Vec<_> = partitions
            .iter()
            .map(|p| set(p, &term, 9, lost - 1))
            .collect();
        proxy.swallow_next_answer();
        let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
        assert_eq!(proxy.swallowed(), lost as u64);
        for (partition, outcome) in partitions.iter().zip(outcomes) {
            let expected = match partition.to_string().as_str() {
                "topic-00001-5" if lost == 1 => ZkOutcome::VersionConflict,
                _ => ZkOutcome::Written { version: lost },
            };
            assert_eq!(outcome, expected, "{partition}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn creations_and_deletions_whose_answers_were_lost_count_as_done() {
    use klamm::effect::{NotificationName, ZkWrite};
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(1, 1).await;
    let first = TopicPartition::new(&topics[0], 0);
    cluster.create_states(&term, &[first]).await;
    let notice = "/isr_change_notification/isr_change_1";
    cluster
        .others
        .create(notice, b"", &PERSISTENT)
        .await
        .unwrap();
    let deletion =
        ZkWrite::DeleteIsrChangeNotification(NotificationName("isr_change_1".to_owned()));
    proxy.swallow_next_answer();
    let outcomes = cluster.zk.write(&term, &[deletion]).await.unwrap();
    assert_eq!(outcomes, [ZkOutcome::Written { version: 0 }]);
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(cluster.others.check_stat(notice).await.unwrap(), None);

    for lost in 2..6 {
        let partition = TopicPartition::new(&topics[0], lost);
        proxy.swallow_next_answer();
        cluster.create_states(&term, &[partition]).await;
        assert_eq!(proxy.swallowed(), lost as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_writes_go_through_cuts_each_exactly_once() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(50, 100).await;
    let partitions = partitions_of(&topics, 100);
    cluster.create_states(&term, &partitions).await;
    let cutting = {
        let proxy = proxy.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(CUT_PACE).await;
                proxy.cut();
            }
        })
    };
    let mut round = 0;
    while cluster.events.connections() < 10 {
        let writes: Vec<_> = partitions
            .iter()
            .map(|p| set(p, &term, round, round))
            .collect();
        let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
        let version = round + 1;
        for outcome in outcomes {
            assert_eq!(outcome, ZkOutcome::Written { version });
        }
        let leaders = leader(cluster.zk.partition_states(&partitions).await);
        assert!(leaders.iter().all(|leader| *leader == round));
        round += 1;
    }
    cutting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chroot_is_created_and_nothing_else_is_touched() {
    let cluster = Fixture::at(modern()).await;
    let events = std::sync::Arc::default();
    let deeper = format!("{}/a/b", cluster.chroot);
    let session = start(modern(), &deeper, 6_000, &events, BrokerId(901))
        .await
        .unwrap();
    let children = cluster.others.list_children("/a/b").await.unwrap();
    assert!(children.is_empty(), "{children:?}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_only_small_requests_gets_small_ones_and_what_is_too_large_is_refused()
{
    use klamm::effect::{TopicZnode, ZkWrite};
    use klamm::model::{BrokerIds, ReplicaAssignment};
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    let term = cluster.lead().await;
    let topics = cluster.create_topics(12, 1).await;
    proxy.refuse_requests_above(100 * 1024);
    let znode = |partitions: i32| TopicZnode {
        topic_id: None,
        partitions: (0..partitions)
            .map(|p| (p, ReplicaAssignment::settled(BrokerIds::from([1, 2, 3]))))
            .collect(),
        version: 0,
    };
    // Eleven of some 35 KB each, and one of 150 KB.
    let write = |(number, topic): (usize, &TopicName)| ZkWrite::SetTopic {
        topic: topic.clone(),
        znode: znode(if number == 5 { 10_000 } else { 2_500 }),
    };
    let writes: Vec<ZkWrite> = topics.iter().enumerate().map(write).collect();
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match number {
            5 => assert!(
                matches!(&outcome, ZkOutcome::Refused(why) if why.contains("jute.maxbuffer")),
                "{outcome:?}"
            ),
            _ => assert_eq!(outcome, ZkOutcome::Written { version: 1 }, "{number}"),
        }
    }
}
