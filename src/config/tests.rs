//! Whole configurations: brokers' own files of four releases, and every way to get one wrong.

use super::*;
use crate::model::{BrokerId, SecurityProtocol};

const KLAMM: &[u8] = b"klamm.id=900\nklamm.listeners=PLAINTEXT://klamm1:9192\n";

fn raw(broker: &[u8], klamm: &[u8], overrides: &[&str]) -> RawConfig {
    let mut raw = RawConfig::default();
    raw.add_file("server.properties", broker).unwrap();
    raw.add_file("klamm.properties", klamm).unwrap();
    overrides
        .iter()
        .for_each(|text| raw.add_override(text).unwrap());
    raw
}

fn config(broker: &str, klamm: &str, overrides: &[&str]) -> Config {
    Config::resolve(&raw(broker.as_bytes(), klamm.as_bytes(), overrides)).unwrap()
}

/// The message about a small, right configuration with these lines after it.
fn refusal(lines: &str) -> String {
    let broker = format!("zookeeper.connect=zk1:2181\n{lines}\n");
    Config::resolve(&raw(broker.as_bytes(), KLAMM, &[]))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_brokers_file_of_1_1_is_taken_unchanged() {
    let text = include_str!("testdata/server-1.1.properties");
    let config = config(
        text,
        "klamm.id=900\nklamm.listeners=PLAINTEXT://klamm1.example.org:9192",
        &[],
    );
    assert_eq!(
        (config.klamm_id, config.broker_id, config.num_partitions),
        (BrokerId(900), Some(BrokerId(1)), 3)
    );
    assert_eq!(
        config.zookeeper.connect.to_string(),
        "zk1.example.org:2181,zk2.example.org:2181,zk3.example.org:2181"
    );
    assert_eq!(
        (
            config.zookeeper.session_timeout_ms,
            config.zookeeper.connection_timeout_ms
        ),
        (18_000, 6_000)
    );
    assert_eq!(config.inter_broker_protocol.unwrap().to_string(), "1.1-IV0");
    assert_eq!(config.advertised_listeners, config.listeners);
    let endpoints = config.advertised_endpoints();
    assert_eq!(
        endpoints[0].to_string(),
        "PLAINTEXT://klamm1.example.org:9192"
    );
    assert_eq!(endpoints[0].security_protocol, SecurityProtocol::Plaintext);
    assert_eq!(
        config.summary(),
        "Configuration from server.properties, klamm.properties: 10 keys used, 15 left to the broker they concern, 0 about \
         security that ask for nothing here, 0 unknown"
    );
    assert_eq!(config.notices, Vec::<String>::new());
}

#[test]
fn a_brokers_file_of_2_4_is_taken_unchanged() {
    let text = include_str!("testdata/server-2.4.properties");
    let klamm = "klamm.id=900\nklamm.listeners=EXTERNAL://0.0.0.0:9192,INTERNAL://10.0.0.9:9193\n\
                 klamm.advertised.listeners=INTERNAL://10.0.0.9:9193,EXTERNAL://klamm1.example.org:9192\n\
                 klamm.takeover=Vacant\nklamm.takeover.delay.ms=0\nklamm.http.listen=127.0.0.1:9180\nklamm.log.level=DEBUG\n\
                 klamm.log.dir=/var/log/klamm\nklamm.capture.file=/var/log/klamm/control.pcapng\nklamm.capture.max.bytes=1048576";
    let config = config(text, klamm, &[]);
    assert_eq!(
        config.zookeeper.connect.chroot.as_deref(),
        Some("/kafka/main")
    );
    assert_eq!(
        (
            config.zookeeper.session_timeout_ms,
            config.zookeeper.connection_timeout_ms
        ),
        (6_000, 6_000)
    );
    assert_eq!(config.inter_broker_listener_name, "INTERNAL");
    let advertised: Vec<_> = config
        .advertised_listeners
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        advertised,
        [
            "EXTERNAL://klamm1.example.org:9192",
            "INTERNAL://10.0.0.9:9193"
        ]
    );
    assert_eq!(
        (config.takeover_policy, config.takeover_delay_ms),
        (TakeoverPolicy::Vacant, 0)
    );
    assert_eq!(
        config.http_listen.as_ref().unwrap().to_string(),
        "127.0.0.1:9180"
    );
    assert_eq!(
        config.capture,
        Some(CaptureConfig {
            file: "/var/log/klamm/control.pcapng".to_owned(),
            max_bytes: 1_048_576,
            max_files: 5
        })
    );
    assert_eq!(
        config.log,
        LogConfig {
            directory: Some("/var/log/klamm".to_owned()),
            level: LogLevel::Debug
        }
    );
    assert_eq!(
        (
            config.leader_imbalance_per_broker_percentage,
            config.leader_imbalance_check_interval_seconds
        ),
        (5, 60)
    );
    assert_eq!(
        (
            config.default_replication_factor,
            config.min_insync_replicas
        ),
        (3, 2)
    );
    assert_eq!(config.broker_rack.as_deref(), Some("rack-b"));
    assert_eq!(config.keys.unknown, 1);
    assert!(config.auto_leader_rebalance_enable);
}

#[test]
fn tokens_expire_where_a_secret_key_says_that_there_are_any() {
    let interval = |broker: &str| {
        let text = format!("zookeeper.connect=z:2181\nlisteners=PLAINTEXT://:9092\n{broker}");
        let klamm = "klamm.id=900\nklamm.listeners=PLAINTEXT://k:9092\n";
        config(&text, klamm, &[]).delegation_token_expiry_check_interval_ms
    };
    assert_eq!(interval(""), None);
    assert_eq!(interval("delegation.token.secret.key="), None);
    assert_eq!(
        interval("delegation.token.expiry.check.interval.ms=5"),
        None
    );
    let key = "delegation.token.secret.key=hunter2";
    assert_eq!(interval(key), Some(3_600_000));
    let older = "delegation.token.master.key=hunter2";
    let both = format!("{older}\ndelegation.token.expiry.check.interval.ms=5");
    assert_eq!(interval(&both), Some(5));
}

#[test]
fn a_brokers_file_of_2_8_is_taken_unchanged() {
    let text = include_str!("testdata/server-2.8.properties");
    let config = config(
        text,
        "klamm.id=900\nklamm.listeners=PLAINTEXT://klamm1:9192,CONTROL://klamm1:9194",
        &[],
    );
    assert_eq!(
        config.control_plane_listener_name.as_deref(),
        Some("CONTROL")
    );
    assert_eq!(config.inter_broker_protocol.unwrap().to_string(), "2.7-IV2");
    assert_eq!(config.connections_max_idle_ms, None);
    assert_eq!(config.socket_connection_setup_timeout_ms, 5_000);
    assert_eq!(config.keys.security, 1);
}

#[test]
fn a_brokers_file_of_3_9_is_taken_unchanged_and_keys_without_effect_are_named() {
    let text = include_str!("testdata/server-3.9.properties");
    let config = config(
        text,
        "klamm.id=900\nklamm.listeners=PLAINTEXT://klamm1:9192",
        &[],
    );
    assert_eq!(config.inter_broker_protocol.unwrap().to_string(), "3.9-IV0");
    assert_eq!(
        (
            config.controller_socket_timeout_ms,
            config.request_timeout_ms
        ),
        (15_000, 20_000)
    );
    assert_eq!(config.notices.len(), 1);
    assert!(
        config.notices[0].ends_with(": password.encoder.secret (server.properties line 17)"),
        "{:?}",
        config.notices
    );
    assert!(!format!("{config:?}").contains("only-the-broker-needs-this"));
}

#[test]
fn every_key_of_every_release_is_known() {
    let keys = include_str!("testdata/kafka-keys.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let unknown: Vec<_> = keys
        .filter(|key| keys::classify(key) == keys::KeyClass::Unknown)
        .collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

#[test]
fn defaults_are_those_of_kafka() {
    let config = config(
        "zookeeper.connect=zk1",
        "",
        &["klamm.id=0", "klamm.listeners=PLAINTEXT://klamm1:9192"],
    );
    assert_eq!(
        (config.takeover_policy, config.takeover_delay_ms),
        (TakeoverPolicy::Always, 5_000)
    );
    assert_eq!(
        (config.http_listen.as_ref(), config.inter_broker_protocol),
        (None, None)
    );
    assert_eq!(
        config.log,
        LogConfig {
            directory: None,
            level: LogLevel::Info
        }
    );
    assert_eq!(
        (
            config.zookeeper.session_timeout_ms,
            config.zookeeper.connection_timeout_ms
        ),
        (18_000, 18_000)
    );
    assert_eq!(config.inter_broker_listener_name, "PLAINTEXT");
    assert_eq!(config.control_plane_listener_name, None);
    assert_eq!(
        (
            config.controller_socket_timeout_ms,
            config.request_timeout_ms
        ),
        (30_000, 30_000)
    );
    assert_eq!(config.socket_connection_setup_timeout_ms, 10_000);
    assert_eq!(config.socket_connection_setup_timeout_max_ms, 30_000);
    assert_eq!(config.socket_request_max_bytes, 104_857_600);
    assert_eq!(config.connections_max_idle_ms, Some(600_000));
    assert!(
        config.auto_leader_rebalance_enable
            && config.delete_topic_enable
            && !config.unclean_leader_election_enable
    );
    assert_eq!(
        (
            config.leader_imbalance_per_broker_percentage,
            config.leader_imbalance_check_interval_seconds
        ),
        (10, 300)
    );
    assert_eq!(
        (
            config.default_replication_factor,
            config.num_partitions,
            config.min_insync_replicas
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (
            config.reserved_broker_max_id,
            config.broker_id,
            config.broker_rack
        ),
        (1000, None, None)
    );
}

#[test]
fn what_stands_in_for_topics_configurations_is_kept_as_it_is_written() {
    let broker = "zookeeper.connect=zk1\nlog.retention.hours= 5 \nlog.dirs=/x\nmin.insync.replicas=2\nlog.roll.ms=";
    let config = config(broker, std::str::from_utf8(KLAMM).unwrap(), &[]);
    let kept = config.topic_defaults.iter();
    let kept: Vec<_> = kept.map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(kept, ["log.retention.hours=5", "min.insync.replicas=2"]);
}

#[test]
fn an_override_beats_the_files_and_an_empty_one_unsets() {
    let broker = "zookeeper.connect=zk1\nauthorizer.class.name=x.Y\nnum.partitions=1";
    let klamm = std::str::from_utf8(KLAMM).unwrap();
    let config = config(
        broker,
        klamm,
        &[
            "num.partitions=5",
            "num.partitions=7",
            "authorizer.class.name=",
        ],
    );
    assert_eq!(config.num_partitions, 7);
}

#[test]
fn a_missing_id_listener_and_ensemble_are_told_at_once_with_examples() {
    let broker =
        b"listeners=INTERNAL://:9092,CLIENT://:9093\ninter.broker.listener.name=internal\n\
                   listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT";
    let message = Config::resolve(&raw(broker, b"", &[]))
        .unwrap_err()
        .to_string();
    for part in [
        "zookeeper.connect is missing: it names the ensemble of the cluster, for example zk1:2181,",
        "klamm.id is missing: ",
        "different from the broker.id of every broker",
        "klamm.listeners is missing: ",
        "for example klamm.listeners=CLIENT://klamm1.example.org:9192,INTERNAL://klamm1.example.org:9193",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    assert_eq!(message.lines().count(), 4, "{message}");
}

#[test]
fn klamms_id_may_not_be_the_brokers() {
    for key in ["broker.id", "node.id"] {
        let message = refusal(&format!("{key}=900"));
        assert!(
            message.contains(
                "klamm.properties line 1: klamm.id=900: the same as broker.id=900 of this file"
            ),
            "{message}"
        );
    }
}

#[test]
fn what_cannot_be_honoured_is_one_message_with_every_key_its_line_why_and_what_to_do() {
    let message = refusal(
        "listeners=PLAINTEXT://a:1,CLIENT://a:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENT:SASL_SSL\n\
         ssl.keystore.location=/k\nssl.keystore.password=hunter2\nauthorizer.class.name=x.Y\nzookeeper.set.acl=true",
    );
    assert!(
        message.contains("The configuration asks for what klamm can't do and will not ignore:\n"),
        "{message}"
    );
    for part in [
        "  - server.properties line 2: listeners: asks for a protected listener, CLIENT (SASL_SSL), and klamm speaks PLAINTEXT \
         only so far; klamm needs a cluster whose listeners are all PLAINTEXT",
        "  - server.properties line 4: ssl.keystore.location: asks for TLS, which klamm does not speak yet; ",
        "  - server.properties line 5: ssl.keystore.password: asks for TLS",
        "  - server.properties line 6: authorizer.class.name: asks for an authorizer, and klamm checks no ACLs yet; ",
        "  - server.properties line 7: zookeeper.set.acl: asks for ACLs on the znodes",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    assert!(!message.contains("hunter2"));
}

#[test]
fn a_protected_listener_is_refused_wherever_it_is_named() {
    for lines in [
        "security.inter.broker.protocol=SSL",
        "inter.broker.listener.name=SASL_PLAINTEXT",
        "control.plane.listener.name=SSL",
        "advertised.listeners=SSL://a:1",
        "klamm.listeners=PLAINTEXT://k:1,SSL://k:2",
    ] {
        let lines = lines.replace("klamm.listeners", "x=1\nklamm.listeners");
        let mut raw = raw(b"zookeeper.connect=zk1", KLAMM, &[]);
        raw.add_file("more", lines.as_bytes()).unwrap();
        let message = Config::resolve(&raw).unwrap_err().to_string();
        assert!(
            message.contains("asks for a protected listener"),
            "{lines}\n{message}"
        );
    }
}

#[test]
fn wrong_values_are_told_with_place_value_and_range() {
    for (line, told) in [
        (
            "num.partitions=0",
            "num.partitions=0: expected a whole number from 1 to 2147483647",
        ),
        (
            "num.partitions=1.5",
            "num.partitions=1.5: expected a whole number from 1 to 2147483647",
        ),
        (
            "default.replication.factor=40000",
            "expected a whole number from 1 to 32767",
        ),
        (
            "min.insync.replicas=-1",
            "expected a whole number from 1 to 2147483647",
        ),
        (
            "zookeeper.session.timeout.ms=0",
            "expected a whole number from 1 to 2147483647",
        ),
        (
            "controller.socket.timeout.ms=3000000000",
            "expected a whole number from 1 to 2147483647",
        ),
        (
            "leader.imbalance.check.interval.seconds=0",
            "expected a whole number from 1 to 9223372036854775807",
        ),
        (
            "delete.topic.enable=yes",
            "delete.topic.enable=yes: expected true or false",
        ),
        (
            "inter.broker.protocol.version=4.0",
            "`4.0` is no inter-broker protocol version of Kafka 1.0 to 3.9",
        ),
        (
            "inter.broker.protocol.version=0.11.0",
            "raise it on the brokers first",
        ),
        (
            "klamm.takeover=never",
            "klamm.takeover=never: expected always or vacant",
        ),
        (
            "klamm.takeover.delay.ms=900001",
            "expected a whole number from 0 to 900000",
        ),
        ("klamm.http.listen=9180", "9180 is not host:port"),
        (
            "klamm.log.level=loud",
            "expected error, warn, info, debug or trace",
        ),
        (
            "klamm.capture.max.bytes=1000",
            "expected a whole number from 65536 to",
        ),
        (
            "klamm.capture.max.files=0",
            "expected a whole number from 1 to 1000",
        ),
        (
            "klamm.ignore.create.topic.policy=perhaps",
            "expected true or false",
        ),
        ("listeners=nonsense", "nonsense is not NAME://host:port"),
        (
            "listeners=UNMAPPED://a:1",
            "gives no protocol for the listener UNMAPPED",
        ),
        (
            "listener.security.protocol.map=A",
            "A is not LISTENER:PROTOCOL",
        ),
        (
            "security.inter.broker.protocol=TLS",
            "no security protocol is called TLS",
        ),
        (
            "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
            "only one of it and security.inter",
        ),
        (
            "control.plane.listener.name=plaintext",
            "must differ from the inter-broker listener",
        ),
        ("zookeeper.connect=zk1/", ""),
        ("zookeeper.connect=zk1/kafka/", "a slash at its end"),
    ] {
        let mut raw = raw(b"zookeeper.connect=zk1", KLAMM, &[]);
        raw.add_file("more", line.as_bytes()).unwrap();
        let result = Config::resolve(&raw);
        if told.is_empty() {
            assert!(result.is_ok(), "{line}");
            continue;
        }
        let message = result.unwrap_err().to_string();
        assert!(
            message.contains("  - more line 1: ") && message.contains(told),
            "{line}\n{message}"
        );
    }
}

#[test]
fn klamms_own_listeners_must_fit_the_brokers() {
    for (listeners, told) in [
        ("PLAINTEXT://k:0", "has port 0"),
        ("OTHER://k:1", "missing: PLAINTEXT"),
        (
            "PLAINTEXT://k:1,B://k:1",
            "PLAINTEXT and B share an address",
        ),
        (
            "PLAINTEXT://0.0.0.0:1",
            "klamm.advertised.listeners is missing: klamm listens on every address",
        ),
        (
            "PLAINTEXT://:1",
            "for example klamm.advertised.listeners=PLAINTEXT://klamm1.example.org:1",
        ),
    ] {
        let klamm = format!("klamm.id=900\nklamm.listeners={listeners}");
        let raw = raw(b"zookeeper.connect=zk1", klamm.as_bytes(), &[]);
        let message = Config::resolve(&raw).unwrap_err().to_string();
        assert!(message.contains(told), "{listeners}\n{message}");
    }
    for advertised in [
        "PLAINTEXT://0.0.0.0:1",
        "OTHER://k:1",
        "PLAINTEXT://k:1,OTHER://k:2",
        "PLAINTEXT://k:0",
        "k:1",
    ] {
        let text = format!("klamm.advertised.listeners={advertised}");
        let raw = raw(b"zookeeper.connect=zk1", KLAMM, &[&text]);
        assert!(Config::resolve(&raw).is_err(), "{advertised}");
    }
}

#[test]
fn an_unknown_key_of_klamms_is_refused_with_the_nearest_and_a_foreign_one_is_counted() {
    let message = refusal("klamm.listener=PLAINTEXT://a:1\nconfluent.license=secret");
    assert!(message.contains("server.properties line 2: klamm.listener is no key of klamm's; did you mean klamm.listeners?"));
    assert!(
        !message.contains("confluent") && !message.contains("secret"),
        "{message}"
    );
    assert!(
        refusal("klamm.quite.something.else.here=1")
            .contains("its keys are klamm.id, klamm.listeners, ")
    );
}

#[test]
fn an_id_above_the_reserved_range_is_remarked_on() {
    let config = config(
        "zookeeper.connect=zk1",
        "klamm.listeners=PLAINTEXT://k:1\nklamm.id=1001",
        &[],
    );
    assert!(config.notices[0].starts_with("klamm.id=1001 is above reserved.broker.max.id=1000"));
}

#[test]
fn a_hold_needs_only_the_way_to_zookeeper() {
    let raw = raw(
        b"zookeeper.connect=zk1:2181/a\nauthorizer.class.name=x.Y",
        b"",
        &[],
    );
    let zookeeper = ZooKeeperConfig::resolve(&raw).unwrap();
    assert_eq!(zookeeper.connect.to_string(), "zk1:2181/a");
    let mut secured = raw.clone();
    secured
        .add_override("zookeeper.ssl.client.enable=true")
        .unwrap();
    assert!(ZooKeeperConfig::resolve(&secured).is_err());
    assert!(
        ZooKeeperConfig::resolve(&RawConfig::default())
            .unwrap_err()
            .to_string()
            .contains("zookeeper.connect is missing")
    );
}
