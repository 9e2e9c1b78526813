//! How klamm ends where ZooKeeper is away: its process, and what it waits for. Upstream: `ServerShutdownTest`.

use klamm::port::ZkFault;
use klamm::zk::SessionState;
use klamm_rig::klamm::Klamm;
use klamm_rig::process::{Launch, Process, Talk};
use klamm_rig::run::Run;
use zookeeper_client::Client;

use crate::harness::*;
use crate::proxy::Proxy;

/// Upstream: `testCleanShutdownWithZkUnavailable`.
#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_while_zookeeper_is_away_it_ends_all_the_same() {
    let proxy = Proxy::before(modern()).await;
    let run = Run::start("ends").unwrap();
    let chroot = fresh_chroot();
    let mut klamm = started(&run, &format!("{}{chroot}", proxy.address()));
    tokio::task::block_in_place(|| klamm.wait_ready()).unwrap();
    let others = Client::connect(modern()).await.unwrap();
    let role = format!("{chroot}/controller");
    assert!(others.check_stat(&role).await.unwrap().is_some());
    proxy.go_down();
    let status = tokio::task::block_in_place(|| klamm.stop()).unwrap();
    let log = klamm.process.log().display();
    assert!(status.success(), "{status}; see {log}");
    until("the role to lapse with the session", async || {
        others.check_stat(&role).await.unwrap().is_none()
    })
    .await;
}

/// A klamm of its own process, with a session of 2 s.
fn started(run: &Run, connect: &str) -> Klamm {
    let (address, http) = (run.address.port(9_192), run.address.port(9_190));
    let config = run.conf("klamm.properties");
    let keys = [
        format!("zookeeper.connect={connect}"),
        "zookeeper.session.timeout.ms=2000".to_owned(),
        format!("klamm.id={KLAMM}"),
        format!("klamm.listeners=PLAINTEXT://{address}"),
        format!("klamm.http.listen={http}"),
    ];
    std::fs::write(&config, keys.join("\n")).unwrap();
    let process = Process::start(Launch {
        name: format!("klamm {KLAMM}"),
        program: env!("CARGO_BIN_EXE_klamm").into(),
        arguments: ["run", "--config", &config.display().to_string()]
            .map(str::to_owned)
            .to_vec(),
        environment: Vec::new(),
        log: run.log("klamm.log"),
        talk: Talk::None,
    });
    Klamm {
        id: KLAMM.0,
        address,
        http,
        config,
        process: process.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_successor_without_zookeeper_is_told_in_time() {
    let proxy = Proxy::before(modern()).await;
    let cluster = Fixture::through(modern(), proxy.address(), 10_000).await;
    cluster.lead().await;
    proxy.go_down();
    until("the outage to be seen", async || {
        cluster.zk.session_state() == SessionState::Disconnected
    })
    .await;
    let waited = tokio::time::timeout(PATIENCE, cluster.zk.await_successor(500)).await;
    let waited = waited.expect("it waits for ZooKeeper to return");
    assert!(
        matches!(&waited, Err(ZkFault::Refused { path, .. }) if path == "/controller"),
        "{waited:?}"
    );
    let closing = tokio::time::timeout(PATIENCE, cluster.session.close());
    closing.await.expect("its end waits for ZooKeeper");
}
