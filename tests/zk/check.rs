//! `klamm check` on genuine servers: that it sees what is there, and that it writes nothing.

use std::collections::BTreeMap;
use std::net::TcpListener;

use klamm::cli::ExitStatus;
use klamm::config::{Config, RawConfig};
use klamm::effect::TopicZnode;
use klamm::machine::preflight::{Report, Standing};
use klamm::model::{BrokerId, BrokerIds, ReplicaAssignment};
use klamm::runtime::check;
use klamm::zk::znode;
use zookeeper_client::{Client, Stat};

use crate::harness::*;

fn config(connect: &str, id: BrokerId) -> Config {
    let mut raw = RawConfig::default();
    let text = format!(
        "zookeeper.connect={connect}\nzookeeper.session.timeout.ms=6000\nzookeeper.connection.timeout.ms=6000\n\
         klamm.id={id}\nklamm.listeners=PLAINTEXT://127.0.0.1:9092\n"
    );
    raw.add_file("klamm.properties", text.as_bytes()).unwrap();
    Config::resolve(&raw).unwrap()
}

async fn checked(config: Config) -> (Report, ExitStatus) {
    // It brings a runtime of its own, as in a process of its own.
    let checking = tokio::task::spawn_blocking(move || check::check(&config).unwrap());
    checking.await.unwrap()
}

/// Every node below a client's root with all that a write anywhere would change, its own root included.
async fn dump(client: &Client) -> BTreeMap<String, (Vec<u8>, Stat)> {
    let mut nodes = BTreeMap::new();
    let mut waiting = vec!["/".to_owned()];
    while let Some(path) = waiting.pop() {
        let (children, _) = client.get_children(&path).await.unwrap();
        let below = path.trim_end_matches('/');
        waiting.extend(children.iter().map(|child| format!("{below}/{child}")));
        nodes.insert(path.clone(), client.get_data(&path).await.unwrap());
    }
    nodes
}

/// An address where nobody listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn topic_on(replicas: &[i32]) -> Vec<u8> {
    let replicas: BrokerIds = replicas.iter().map(|id| BrokerId(*id)).collect();
    znode::encode_topic(&TopicZnode {
        topic_id: None,
        partitions: [(0, ReplicaAssignment::settled(replicas))].into(),
        version: 0,
    })
}

/// A cluster in the midst of its work, with a broker that doesn't answer and nodes that can't be understood.
async fn a_lot_to_tell(cluster: &Fixture) {
    let port = closed_port();
    let broker = format!(
        r#"{{"version":4,"host":"127.0.0.1","port":{port},"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://127.0.0.1:{port}"],"listener_security_protocol_map":{{"PLAINTEXT":"PLAINTEXT"}},"rack":null}}"#
    );
    let led = znode::encode_state(&led_by(2), FIRST);
    let nodes: [(&str, Vec<u8>); 18] = [
        ("/klamm", Vec::new()),
        ("/klamm/ids", Vec::new()),
        ("/klamm/ids/900", Vec::new()),
        ("/cluster", Vec::new()),
        (
            "/cluster/id",
            br#"{"version":"1","id":"rT9Kg2uNQq"}"#.to_vec(),
        ),
        ("/controller_epoch", b"7".to_vec()),
        (
            "/controller",
            br#"{"version":1,"brokerid":1,"timestamp":"1"}"#.to_vec(),
        ),
        ("/brokers/ids/1", broker.into_bytes()),
        ("/brokers/topics/good", topic_on(&[1, 2])),
        ("/brokers/topics/good/partitions", Vec::new()),
        ("/brokers/topics/good/partitions/0", Vec::new()),
        ("/brokers/topics/good/partitions/0/state", led),
        ("/brokers/topics/new", topic_on(&[900])),
        ("/brokers/topics/bad", b"no json".to_vec()),
        (
            "/config/topics/good",
            br#"{"config":{"unclean.leader.election.enable":"maybe"}}"#.to_vec(),
        ),
        ("/admin/delete_topics/bad", Vec::new()),
        (
            "/admin/reassign_partitions",
            br#"{"version":1,"partitions":[{"topic":"nowhere","partition":0,"replicas":[1]}]}"#
                .to_vec(),
        ),
        (
            "/isr_change_notification/isr_change_0000000001",
            b"no json".to_vec(),
        ),
    ];
    for (path, data) in nodes {
        cluster
            .others
            .create(path, &data, &PERSISTENT)
            .await
            .unwrap();
    }
}

async fn a_check_sees_all_and_writes_nothing(server: &'static str, version: &str) {
    let cluster = Fixture::at(server).await;
    a_lot_to_tell(&cluster).await;
    let before = dump(&cluster.others).await;
    assert!(before.len() > 20, "{before:?}");
    let connect = format!("{server}{}", cluster.chroot);
    let (report, status) = checked(config(&connect, KLAMM)).await;
    assert_eq!(dump(&cluster.others).await, before, "it wrote");

    let expected = [
        (Standing::Fine, "ZooKeeper", version),
        (Standing::Fine, "cluster", "id rT9Kg2uNQq"),
        (Standing::Fine, "klamm.id", "900 is no broker's"),
        (
            Standing::Note,
            "role",
            "broker 1 holds it, controller epoch 7",
        ),
        (Standing::Broken, "broker", "1 at PLAINTEXT://127.0.0.1:"),
        (
            Standing::Forbids,
            "brokers",
            "1 of 1 registered brokers did not answer",
        ),
        (Standing::Note, "offline", "good-0"),
        (Standing::Note, "klamms", "new-0"),
        (Standing::Note, "deletion", "bad"),
        (Standing::Broken, "node", "/brokers/topics/bad: "),
        (Standing::Broken, "node", "/config/topics/good: "),
        (
            Standing::Broken,
            "node",
            "/isr_change_notification/isr_change_0000000001: ",
        ),
        (
            Standing::Broken,
            "node",
            "partition nowhere-0 is not reassigned to [1]",
        ),
    ];
    for (standing, about, part) in expected {
        assert!(
            report
                .findings
                .iter()
                .any(|it| it.standing == standing && it.about == about && it.text.contains(part)),
            "{standing:?} {about} {part}:\n{report}"
        );
    }
    assert_eq!(status, ExitStatus::Refused, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_sees_all_and_writes_nothing_on_a_modern_server() {
    a_check_sees_all_and_writes_nothing(modern(), "3.6 or later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_sees_all_and_writes_nothing_on_zookeeper_3_5() {
    a_check_sees_all_and_writes_nothing(old(), "version 3.5").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_a_chroot_that_is_missing_says_so_and_leaves_it_missing() {
    let chroot = fresh_chroot();
    let connect = format!("{}{chroot}", modern());
    let (report, status) = checked(config(&connect, KLAMM)).await;
    let text = report.to_string();
    assert!(
        text.contains(&format!("{chroot} doesn't exist in ZooKeeper")),
        "{text}"
    );
    assert_eq!(status, ExitStatus::Done, "{text}");
    let others = Client::connect(modern()).await.unwrap();
    assert_eq!(others.check_stat(&chroot).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_ends_with_what_a_start_would_end_with() {
    let cluster = Fixture::at(modern()).await;
    cluster
        .others
        .create("/brokers/topics/t", &topic_on(&[7]), &PERSISTENT)
        .await
        .unwrap();
    let connect = format!("{}{}", modern(), cluster.chroot);
    let nobody = format!("127.0.0.1:{}", closed_port());
    let table: [(&str, BrokerId, ExitStatus, &str); 4] = [
        (
            connect.as_str(),
            KLAMM,
            ExitStatus::Done,
            "Nothing forbids a takeover",
        ),
        (
            connect.as_str(),
            BrokerId(7),
            ExitStatus::Refused,
            "klamm.id=7: partition 0 of topic t",
        ),
        (
            ancient(),
            KLAMM,
            ExitStatus::Refused,
            "upgrade ZooKeeper to 3.5",
        ),
        (
            nobody.as_str(),
            KLAMM,
            ExitStatus::Failed,
            "no ZooKeeper server of",
        ),
    ];
    for (connect, id, expected, part) in table {
        let (report, status) = checked(config(connect, id)).await;
        assert_eq!(status, expected, "{part}:\n{report}");
        assert!(report.to_string().contains(part), "{part}:\n{report}");
        // An id that is a broker's is no klamm's: its replicas stay where they are.
        let moved = report.findings.iter().find(|it| it.about == "klamms");
        assert_eq!(moved, None, "{report}");
    }
}
