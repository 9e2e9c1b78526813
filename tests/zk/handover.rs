//! Hand-back from another shell, candidates that sleep, and ids that are not klamm's to use. Must never need a genuine
//! broker: a plain client plays the candidate. Upstream has no counterpart.

use klamm::event::ControllerEvent;
use klamm::model::{BrokerId, TopicName};
use klamm::port::{Holder, Zk};
use klamm::zk::{Handover, UnusableId, znode};

use crate::harness::*;

const JAVA: &[u8] = br#"{"version":1,"brokerid":1,"timestamp":"1"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn hand_back_takes_the_role_from_klamm_and_keeps_it_from_contending() {
    let cluster = Fixture::at(modern()).await;
    cluster.lead().await;
    cluster.zk.role_view().await.unwrap();
    let shell = cluster.another(KLAMM).await;
    // A candidate that watches as a Java broker does.
    let candidate = cluster.others.clone();
    let (_, gone) = candidate.check_and_watch_stat("/controller").await.unwrap();
    let electing = tokio::spawn(async move {
        gone.changed().await;
        candidate.create("/controller", JAVA, &EPHEMERAL).await
    });
    let handed = shell.client().handback(20_000).await.unwrap();
    electing.await.unwrap().unwrap();
    assert_eq!(
        handed,
        Handover::Taken {
            by: BrokerId(1),
            nudges: 0
        }
    );
    cluster
        .events
        .wait_for(&ControllerEvent::KlammNodesChange)
        .await;
    let view = cluster.zk.role_view().await.unwrap();
    assert!(view.on_hold);
    assert_eq!(view.own_registration, None);
    assert!(matches!(view.holder, Holder::Broker { .. }));

    assert!(shell.client().lift_hold().await.unwrap());
    assert!(!shell.client().lift_hold().await.unwrap());
    assert!(!cluster.zk.role_view().await.unwrap().on_hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_back_leaves_a_broker_in_the_role() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    let handed = cluster.zk.handback(20_000).await.unwrap();
    assert_eq!(
        handed,
        Handover::Taken {
            by: BrokerId(1),
            nudges: 0
        }
    );
    assert!(cluster.zk.role_view().await.unwrap().on_hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_sleep_are_woken() {
    let cluster = Fixture::at(modern()).await;
    cluster.lead().await;
    let shell = cluster.another(KLAMM).await;
    // This one missed the deletion, and wakes at the next creation only.
    let sleeper = &cluster.others;
    let electing = async {
        until("the role to be vacant", async || {
            sleeper.check_stat("/controller").await.unwrap().is_none()
        })
        .await;
        let (_, created) = sleeper.check_and_watch_stat("/controller").await.unwrap();
        created.changed().await;
        let (_, gone) = sleeper.check_and_watch_stat("/controller").await.unwrap();
        gone.changed().await;
        sleeper.create("/controller", JAVA, &EPHEMERAL).await
    };
    let (handed, elected) = tokio::join!(shell.client().handback(20_000), electing);
    elected.unwrap();
    assert_eq!(
        handed.unwrap(),
        Handover::Taken {
            by: BrokerId(1),
            nudges: 1
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_nobody_wants_is_reported_as_vacant() {
    let cluster = Fixture::at(modern()).await;
    let waited = cluster.zk.await_successor(200).await.unwrap();
    assert_eq!(waited, Handover::Vacant { nudges: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_broker_has_is_refused_with_nothing_written() {
    let cluster = Fixture::at(modern()).await;
    let (zk, others) = (&cluster.zk, &cluster.others);
    assert_eq!(zk.vet_own_id().await, Ok(()));

    let genuine = br#"{"version":4,"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1}"#;
    others
        .create("/brokers/ids/900", genuine, &PERSISTENT)
        .await
        .unwrap();
    assert_eq!(
        zk.vet_own_id().await,
        Err(UnusableId::Registered { id: KLAMM })
    );
    let ours = znode::encode_broker(&klamm(KLAMM), 4, 0);
    others
        .set_data("/brokers/ids/900", &ours, None)
        .await
        .unwrap();
    assert_eq!(zk.vet_own_id().await, Ok(()));

    others
        .create("/brokers/topics/broken", b"?", &PERSISTENT)
        .await
        .unwrap();
    let assigned = br#"{"version":1,"partitions":{"0":[1,2],"7":[2,900]}}"#;
    others
        .create("/brokers/topics/t", assigned, &PERSISTENT)
        .await
        .unwrap();
    let refusal = UnusableId::Assigned {
        id: KLAMM,
        topic: TopicName::new("t"),
        partition: 7,
    };
    assert_eq!(zk.vet_own_id().await, Err(refusal));
    assert_eq!(others.check_stat("/klamm").await.unwrap(), None);

    zk.record_klamm_id().await.unwrap();
    assert_eq!(zk.vet_own_id().await, Ok(()), "a klamm had this id before");
    assert_eq!(zk.klamm_ids().await.unwrap(), [KLAMM].into());
}
