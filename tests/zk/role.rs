//! The role's transactions: taken, lost in a race, given back, with answers lost on the way. Must never decide whether
//! the role should be taken (`machine::candidacy` does). Upstream: `testControllerEpochMethods` in `KafkaZkClientTest`.

use klamm::effect::{Read, Term};
use klamm::model::{BrokerId, ControllerEpoch};
use klamm::port::{Holder, Taking, Zk, ZkFault};
use klamm::zk::znode;

use crate::harness::*;
use crate::proxy::Proxy;

const JAVA: &[u8] = br#"{"version":1,"brokerid":1,"timestamp":"1"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_vacant_role_is_taken_where_no_controller_ever_was() {
    let cluster = Fixture::at(modern()).await;
    let view = cluster.zk.role_view().await.unwrap();
    assert_eq!((view.epoch, &view.holder), (None, &Holder::Nobody));
    let term = Term {
        epoch: ControllerEpoch(1),
        epoch_zk_version: 1,
    };
    let taking = cluster.zk.take_role(&view, &klamm(KLAMM)).await;
    assert_eq!(taking, Ok(Taking::Won(term)));

    let view = cluster.zk.role_view().await.unwrap();
    assert_eq!((view.epoch, view.holder), (Some(term), Holder::Ourselves));
    assert_eq!(view.own_registration, Some(0));
    let (data, _) = cluster.others.get_data("/controller").await.unwrap();
    let znode = znode::decode_controller(&data).unwrap();
    assert_eq!((znode.broker, znode.is_klamm), (KLAMM, true));
    let own = cluster.zk.broker(KLAMM).await.unwrap();
    assert!(matches!(own, Read::Found(own) if own.broker == klamm(KLAMM)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_is_taken_from_a_broker_in_one_step() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    others
        .create("/controller_epoch", b"41", &PERSISTENT)
        .await
        .unwrap();
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    let by_broker = Holder::Broker {
        id: BrokerId(1),
        version: 0,
    };
    assert_eq!(view.holder, by_broker);
    let term = cluster.lead().await;
    assert_eq!(term.epoch, ControllerEpoch(42));
    let (data, _) = others.get_data("/controller_epoch").await.unwrap();
    assert_eq!(data, b"42");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_faster_keeps_the_role() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    others
        .create("/controller_epoch", b"1", &PERSISTENT)
        .await
        .unwrap();
    let vacant = cluster.zk.role_view().await.unwrap();
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    let me = klamm(KLAMM);
    assert_eq!(cluster.zk.take_role(&vacant, &me).await, Ok(Taking::Raced));

    // The node starts at version 0 each time: only the epoch tells a newer owner from the one that was seen.
    let held = cluster.zk.role_view().await.unwrap();
    others.delete("/controller", None).await.unwrap();
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    others
        .set_data("/controller_epoch", b"2", None)
        .await
        .unwrap();
    assert_eq!(cluster.zk.take_role(&held, &me).await, Ok(Taking::Raced));
    assert_eq!(others.get_data("/controller").await.unwrap().0, JAVA);
    assert_eq!(others.check_stat("/brokers/ids/900").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_life_left_is_replaced_at_once() {
    let cluster = Fixture::at(modern()).await;
    let former = cluster.another(KLAMM).await;
    let view = former.client().role_view().await.unwrap();
    let taken = former
        .client()
        .take_role(&view, &klamm(KLAMM))
        .await
        .unwrap();
    assert!(matches!(taken, Taking::Won(_)));

    let view = cluster.zk.role_view().await.unwrap();
    assert_eq!(view.holder, Holder::Namesake { version: 0 });
    assert_eq!(view.own_registration, Some(0));
    let term = cluster.lead().await;
    assert_eq!(term.epoch, ControllerEpoch(2));
    let view = former.client().role_view().await.unwrap();
    assert_eq!(view.holder, Holder::Namesake { version: 0 });
    // The former one's farewell must not touch what is not its own.
    former.client().drop_registration().await.unwrap();
    former.close().await;
    assert!(cluster.ephemeral_owner("/brokers/ids/900").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_term_begins_while_the_role_is_ours() {
    let cluster = Fixture::at(modern()).await;
    let first = cluster.lead().await;
    let second = cluster.lead().await;
    assert_eq!(second.epoch.0, first.epoch.0 + 1);
    let own = cluster.zk.drop_registration().await;
    assert_eq!(own, Ok(()));
    assert_eq!(cluster.ephemeral_owner("/brokers/ids/900").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_whose_answer_was_lost_counts() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 6_000).await;
    let others = &cluster.others;
    others
        .create("/controller_epoch", b"7", &PERSISTENT)
        .await
        .unwrap();
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    proxy.swallow_next_answer();
    let taking = cluster.zk.take_role(&view, &klamm(KLAMM)).await.unwrap();
    assert_eq!(proxy.swallowed(), 1);
    let term = Term {
        epoch: ControllerEpoch(8),
        epoch_zk_version: 1,
    };
    assert_eq!(taking, Taking::Won(term));
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_the_role_back_removes_both_nodes_even_if_the_answer_is_lost() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 6_000).await;
    let term = cluster.lead().await;
    proxy.swallow_next_answer();
    cluster.zk.release_role(&term).await.unwrap();
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(cluster.ephemeral_owner("/controller").await, None);
    assert_eq!(cluster.ephemeral_owner("/brokers/ids/900").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_controller_gives_nothing_back() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    let others = &cluster.others;
    others
        .set_data("/controller_epoch", b"9", None)
        .await
        .unwrap();
    let released = cluster.zk.release_role(&term).await;
    assert_eq!(released, Err(ZkFault::Fenced));

    others.delete("/controller", None).await.unwrap();
    others
        .create("/controller", JAVA, &EPHEMERAL)
        .await
        .unwrap();
    cluster.zk.drop_registration().await.unwrap();
    assert_eq!(cluster.zk.release_role(&term).await, Ok(()));
    assert_eq!(others.get_data("/controller").await.unwrap().0, JAVA);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_genuine_broker_that_came_up_with_our_id_is_not_replaced() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    let registration = br#"{"version":4,"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1}"#;
    others
        .create("/brokers/ids/900", registration, &EPHEMERAL)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    let taking = cluster.zk.take_role(&view, &klamm(KLAMM)).await;
    assert!(matches!(taking, Err(ZkFault::Refused { path, .. }) if path == "/brokers/ids/900"));
    let left = others.get_data("/brokers/ids/900").await.unwrap().0;
    assert_eq!(left, registration);
    assert_eq!(cluster.ephemeral_owner("/controller").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn kraft_is_recognised_and_never_deposed() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    let kraft = br#"{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":0}"#;
    others
        .create("/controller", kraft, &PERSISTENT)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    assert_eq!((&view.holder, view.migrating), (&Holder::Kraft, false));
    let taking = cluster.zk.take_role(&view, &klamm(KLAMM)).await;
    assert!(matches!(taking, Err(ZkFault::Refused { .. })));
    others.delete("/controller", None).await.unwrap();
    others
        .create("/migration", b"{}", &PERSISTENT)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    assert!(view.migrating);
    let taking = cluster.zk.take_role(&view, &klamm(KLAMM)).await;
    assert!(matches!(taking, Err(ZkFault::Refused { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_holder_is_replaced_and_an_unreadable_epoch_is_named() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    others
        .create("/controller", b"?", &EPHEMERAL)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap();
    assert!(matches!(view.holder, Holder::Unreadable { version: 0, .. }));
    cluster.lead().await;
    others
        .set_data("/controller_epoch", b"seven", None)
        .await
        .unwrap();
    let view = cluster.zk.role_view().await.unwrap_err();
    assert!(view.to_string().contains("/controller_epoch"), "{view}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registration_looks_like_those_of_the_brokers_and_changes_in_place() {
    let cluster = Fixture::at(modern()).await;
    let others = &cluster.others;
    let json_version = async || match cluster.zk.broker(KLAMM).await.unwrap() {
        Read::Found(own) => own.json_version,
        other => panic!("{other:?}"),
    };
    cluster.lead().await;
    assert_eq!(json_version().await, 4);
    for (id, version) in [(1, 5), (2, 5)] {
        let data = znode::encode_broker(&klamm(BrokerId(id)), version, 0);
        let path = format!("/brokers/ids/{id}");
        others.create(&path, &data, &PERSISTENT).await.unwrap();
    }
    cluster.zk.brokers().await.unwrap();
    let mut me = klamm(KLAMM);
    me.rack = Some("dc1".into());
    cluster.zk.update_registration(&me).await.unwrap();
    assert_eq!(json_version().await, 5);
    let own = cluster.zk.broker(KLAMM).await.unwrap();
    assert!(matches!(own, Read::Found(own) if own.broker == me));
    cluster.zk.drop_registration().await.unwrap();
    let gone = cluster.zk.update_registration(&me).await.unwrap_err();
    assert!(gone.to_string().contains("/brokers/ids/900"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_session_removes_what_is_ephemeral_at_once() {
    let cluster = Fixture::at(modern()).await;
    cluster.lead().await;
    cluster.session.close().await;
    let left = cluster.others.check_stat("/controller").await.unwrap();
    assert_eq!(left, None);
    assert_eq!(
        cluster.zk.role_view().await,
        Err(ZkFault::SessionLost),
        "a closed session answers nobody"
    );
}
