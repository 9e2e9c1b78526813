//! Users' and clients' configurations: listed and read from servers that can and can't read in groups, and written together
//! with the notice that brokers wait for. Upstream: `AdminZkClientTest`.

use klamm::effect::{Read, ZkOutcome, ZkWrite};
use klamm::model::{ConfigEntity, EntityConfig, SanitizedName};
use klamm::port::Zk;

use crate::harness::*;

const CHANGES: &str = "/config/changes";

fn config(entries: &[(&str, &str)]) -> EntityConfig {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    EntityConfig(entries.iter().map(owned).collect())
}

fn user(name: &str) -> ConfigEntity {
    ConfigEntity::User(SanitizedName::of(name))
}

async fn put(cluster: &Fixture, path: &str, data: &str) {
    let made = cluster.others.create(path, data.as_bytes(), &PERSISTENT);
    made.await.unwrap();
}

/// What stands in the notices, in the order in which they were left.
async fn notices(cluster: &Fixture) -> Vec<String> {
    let mut names = cluster.others.list_children(CHANGES).await.unwrap();
    names.sort();
    let mut notices = Vec::new();
    for name in names {
        let (data, _) = cluster
            .others
            .get_data(&format!("{CHANGES}/{name}"))
            .await
            .unwrap();
        notices.push(String::from_utf8(data).unwrap());
    }
    notices
}

async fn all_that_may_hold_quotas_is_listed_and_read(server: &'static str) {
    let cluster = Fixture::at(server).await;
    assert_eq!(cluster.zk.quota_entities().await.unwrap(), []);
    let text = r#"{"version":1,"config":{"x":"y"}}"#;
    for (path, data) in [
        ("/config/users/u%20v", text),
        ("/config/users/bad", "no json"),
        ("/config/users/<default>", ""),
        ("/config/users/<default>/clients", ""),
        ("/config/users/<default>/clients/c", text),
        ("/config/clients/c", text),
        ("/config/brokers/<default>", text),
    ] {
        put(&cluster, path, data).await;
    }
    let all = SanitizedName::default_entity;
    let client = || SanitizedName::of("c");
    let mut listed = cluster.zk.quota_entities().await.unwrap();
    listed.sort();
    let mut expected = [
        user("u v"),
        user("bad"),
        ConfigEntity::User(all()),
        ConfigEntity::UserClient(all(), client()),
        ConfigEntity::Client(client()),
    ];
    expected.sort();
    assert_eq!(listed, expected);

    let asked = [
        user("u v"),
        user("nobody"),
        user("bad"),
        ConfigEntity::User(all()),
        ConfigEntity::UserClient(all(), client()),
        ConfigEntity::BrokerDefault,
    ];
    let reads = cluster.zk.entity_configs(&asked).await.unwrap();
    let found = || Read::Found((config(&[("x", "y")]), 0));
    assert_eq!(reads[0], found());
    assert_eq!(reads[1], Read::Missing);
    assert!(matches!(&reads[2], Read::Broken(why) if why.starts_with("/config/users/bad")));
    assert_eq!(reads[3], Read::Found((EntityConfig::default(), 0)));
    assert_eq!(reads[4], found());
    assert_eq!(reads[5], found());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_shows_all_that_may_hold_quotas() {
    all_that_may_hold_quotas_is_listed_and_read(modern()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_one_by_one_shows_all_that_may_hold_quotas() {
    all_that_may_hold_quotas_is_listed_and_read(old()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_configuration_is_written_with_a_notice_unless_somebody_was_faster() {
    let cluster = Fixture::at(modern()).await;
    let term = cluster.lead().await;
    put(&cluster, "/config/users/there", "{}").await;
    let write = |name: &str, value: &str, expected: Option<i32>| ZkWrite::WriteUserConfig {
        user: SanitizedName::of(name),
        config: config(&[("SCRAM-SHA-256", value)]),
        expected,
    };
    let writes = [
        write("new one", "1", None),
        write("there", "2", None),
        write("gone", "3", Some(4)),
        write("there", "4", Some(0)),
        write("there", "5", Some(0)),
    ];
    let outcomes = cluster.zk.write(&term, &writes).await.unwrap();
    let written = |version| ZkOutcome::Written { version };
    assert_eq!(
        outcomes,
        [
            written(0),
            ZkOutcome::AlreadyExists,
            ZkOutcome::Missing,
            written(1),
            ZkOutcome::VersionConflict,
        ]
    );
    let reads = cluster
        .zk
        .entity_configs(&[user("new one"), user("there"), user("gone")])
        .await
        .unwrap();
    assert_eq!(
        reads[0],
        Read::Found((config(&[("SCRAM-SHA-256", "1")]), 0))
    );
    assert_eq!(
        reads[1],
        Read::Found((config(&[("SCRAM-SHA-256", "4")]), 1))
    );
    assert_eq!(reads[2], Read::Missing);
    assert_eq!(
        notices(&cluster).await,
        [
            r#"{"version":2,"entity_path":"users/new%20one"}"#,
            r#"{"version":2,"entity_path":"users/there"}"#,
        ]
    );
}
