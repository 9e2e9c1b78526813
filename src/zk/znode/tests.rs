//! Every node in the forms that the releases write, and in broken ones.

use super::*;

const PATH: &str = "/some/node";

/// Content that no node of ours may hold, whichever it is.
const GARBAGE: &[&str] = &[
    "",
    " \n",
    "\0",
    "x",
    "{",
    "[]",
    "null",
    "1",
    "\"text\"",
    "{}",
    "{\"a\":\u{0}}",
];

fn found<T: std::fmt::Debug>(read: Read<T>) -> T {
    match read {
        Read::Found(value) => value,
        other => panic!("not found: {other:?}"),
    }
}

/// The complaint, which must name the node and end in advice.
fn complaint<T: std::fmt::Debug>(read: Read<T>) -> String {
    match read {
        Read::Broken(why) => {
            assert!(why.starts_with(PATH), "{why}");
            assert!(why.contains("; "), "{why}");
            why
        }
        other => panic!("not broken: {other:?}"),
    }
}

fn plain(listener: &str, host: &str, port: i32) -> Endpoint {
    Endpoint {
        listener: Arc::from(listener),
        host: Arc::from(host),
        port,
        security_protocol: SecurityProtocol::Plaintext,
    }
}

fn topic_id(last: u8) -> TopicId {
    let mut bytes = [0x5a; 16];
    bytes[15] = last;
    TopicId::new(bytes).unwrap()
}

#[test]
fn content_that_is_no_such_node_is_broken_and_never_a_panic() {
    for text in GARBAGE {
        let data = text.as_bytes();
        complaint(decode_topic(PATH, data, 0));
        complaint(decode_state(PATH, data, 0));
        complaint(decode_broker(PATH, BrokerId(1), data, 0));
        complaint(decode_isr_change(PATH, data));
        complaint(decode_log_dir_event(PATH, data));
        complaint(decode_feature(PATH, data, 0));
        decode_controller(data).unwrap_err();
        if *text != "1" {
            decode_controller_epoch(data).unwrap_err();
        }
        if !data.is_empty() {
            complaint(decode_producer_id_block(PATH, data, 0));
        }
    }
    complaint(decode_topic(PATH, b"\xff\xfe{\"partitions\":{}}", 0));
    complaint(decode_state(PATH, b"[1,1,1,0,[1],0]", 0));
    let deep = "{\"partitions\":".repeat(100_000);
    complaint(decode_topic(PATH, deep.as_bytes(), 0));
}

#[test]
fn a_long_broken_node_is_cut_in_the_message() {
    let why = complaint(decode_state(PATH, "x".repeat(1_000_000).as_bytes(), 0));
    assert!(why.len() < 400, "{}", why.len());
}

#[test]
fn controller_is_written_as_java_does_with_our_mark() {
    let text = String::from_utf8(encode_controller(BrokerId(900), 1_700_000_000_123)).unwrap();
    assert_eq!(
        text,
        r#"{"version":2,"brokerid":900,"timestamp":"1700000000123","kraftControllerEpoch":-1,"klamm":true}"#
    );
    assert_eq!(
        decode_controller(text.as_bytes()),
        Ok(ControllerZnode {
            broker: BrokerId(900),
            kraft_controller_epoch: Some(-1),
            is_klamm: true,
        })
    );
}

#[test]
fn controller_of_every_java_version_is_read() {
    let old = br#"{"version":1,"brokerid":3,"timestamp":"1500000000000"}"#;
    let read = decode_controller(old).unwrap();
    assert_eq!(
        (read.broker, read.kraft_controller_epoch, read.is_klamm),
        (BrokerId(3), None, false)
    );
    let kraft = br#"{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}"#;
    assert_eq!(
        decode_controller(kraft).unwrap().kraft_controller_epoch,
        Some(7)
    );
    for wrong in [
        r#"{"brokerid":"3"}"#,
        r#"{"brokerid":3.5}"#,
        r#"{"brokerid":null}"#,
        r#"{"brokerid":99999999999}"#,
    ] {
        decode_controller(wrong.as_bytes()).unwrap_err();
    }
}

#[test]
fn controller_epoch_is_decimal_text() {
    assert_eq!(encode_controller_epoch(ControllerEpoch(17)), b"17");
    assert_eq!(decode_controller_epoch(b"17"), Ok(ControllerEpoch(17)));
    assert_eq!(decode_controller_epoch(b" 0\n"), Ok(ControllerEpoch(0)));
    for wrong in [
        &b""[..],
        b"-1",
        b"x",
        b"1.0",
        b"2147483648",
        b"{\"epoch\":1}",
    ] {
        decode_controller_epoch(wrong).unwrap_err();
    }
}

#[test]
fn own_registration_is_read_back_equal_in_both_versions() {
    let broker = Broker {
        id: BrokerId(900),
        endpoints: vec![
            Endpoint {
                security_protocol: SecurityProtocol::SaslSsl,
                ..plain("CLIENTS", "klamm.example.org", 9093)
            },
            plain("PLAINTEXT", "::1", 9092),
        ],
        rack: Some(Arc::from("dc1")),
        features: Features::new(),
    };
    for json_version in [4, 5] {
        let data = encode_broker(&broker, json_version, 5);
        let read = found(decode_broker(PATH, BrokerId(900), &data, 77));
        assert_eq!(read.broker, broker);
        assert_eq!(
            (read.epoch, read.json_version),
            (BrokerEpoch(77), json_version)
        );
        assert!(is_klamm_registration(&data));
        let json: serde_json::Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(json["host"], "::1");
        assert_eq!(json["port"], 9092);
        assert_eq!(json["jmx_port"], -1);
        assert_eq!(json["timestamp"], "5");
        assert_eq!(json["endpoints"][1], "PLAINTEXT://[::1]:9092");
        assert_eq!(json.get("features").is_some(), json_version == 5);
    }
}

#[test]
fn a_registration_without_plaintext_mirrors_no_listener() {
    let broker = Broker {
        id: BrokerId(900),
        endpoints: vec![Endpoint {
            security_protocol: SecurityProtocol::Ssl,
            ..plain("SSL", "h", 9093)
        }],
        rack: None,
        features: Features::new(),
    };
    let json: serde_json::Value = serde_json::from_slice(&encode_broker(&broker, 5, 0)).unwrap();
    assert!(json["host"].is_null());
    assert_eq!(json["port"], -1);
    assert!(
        json.get("rack").is_none(),
        "an old reader takes a null rack for a rack"
    );
}

#[test]
fn registrations_of_every_java_version_are_read() {
    let v1 = br#"{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}"#;
    let read = found(decode_broker(PATH, BrokerId(1), v1, 1));
    assert_eq!(read.broker.endpoints, [plain("PLAINTEXT", "h", 9092)]);

    let v2 = br#"{"version":2,"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"],"timestamp":"1"}"#;
    let read = found(decode_broker(PATH, BrokerId(1), v2, 1));
    assert_eq!(
        read.broker.endpoints[1].security_protocol,
        SecurityProtocol::Ssl
    );

    let v5 = br#"{"features":{"f":{"min_version":1,"first_active_version":2,"max_version":3}},"listener_security_protocol_map":{"internal":"sasl_plaintext"},"endpoints":["internal://127.0.0.1:9092"],"rack":null,"jmx_port":9999,"port":-1,"host":null,"version":5,"timestamp":"1","tags":{}}"#;
    let read = found(decode_broker(PATH, BrokerId(1), v5, 1));
    assert_eq!(read.broker.endpoints[0].listener.as_ref(), "INTERNAL");
    assert_eq!(
        read.broker.endpoints[0].security_protocol,
        SecurityProtocol::SaslPlaintext
    );
    assert_eq!(read.broker.rack, None);
    assert_eq!(
        read.broker.features,
        Features::from([(Arc::from("f"), (1, 3))])
    );
    assert!(!is_klamm_registration(v5));
}

#[test]
fn a_registration_that_names_no_usable_listener_is_broken() {
    for (wrong, says) in [
        (r#"{"version":0}"#, "version 0"),
        (r#"{"version":4}"#, "no endpoints"),
        (r#"{"version":1,"host":null,"port":9092}"#, "without host"),
        (
            r#"{"version":4,"endpoints":["PLAINTEXT:h:9092"]}"#,
            "NAME://host:port",
        ),
        (
            r#"{"version":4,"endpoints":["PLAINTEXT://h:x"]}"#,
            "NAME://host:port",
        ),
        (
            r#"{"version":4,"endpoints":["PLAINTEXT://:9092"]}"#,
            "NAME://host:port",
        ),
        (r#"{"version":4,"endpoints":["FOO://h:1"]}"#, "`FOO`"),
        (
            r#"{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"B":"SSL"}}"#,
            "listener A is missing",
        ),
        (r#"{"version":"4","endpoints":[]}"#, "expected i32"),
        (r#"{"version":4,"endpoints":[1]}"#, "expected a string"),
        (
            r#"{"version":5,"endpoints":[],"features":{"f":{"min_version":1}}}"#,
            "max_version",
        ),
    ] {
        let why = complaint(decode_broker(PATH, BrokerId(1), wrong.as_bytes(), 1));
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_topic_is_read_back_equal() {
    let moving = ReplicaAssignment {
        replicas: BrokerIds::from([3, 1, 2]),
        adding: BrokerIds::from([3]),
        removing: BrokerIds::from([1]),
    };
    let settled = ReplicaAssignment::settled(BrokerIds::from([2, 1]));
    let znode = TopicZnode {
        topic_id: Some(topic_id(9)),
        partitions: BTreeMap::from([(0, settled), (10, moving)]),
        version: 4,
    };
    let data = encode_topic(&znode);
    assert_eq!(found(decode_topic(PATH, &data, 4)), znode);
    let json: serde_json::Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(json["version"], 3);
    assert_eq!(json["topic_id"].as_str().unwrap().len(), 22);
    assert_eq!(json["adding_replicas"].as_object().unwrap().len(), 1);
}

#[test]
fn a_topic_without_an_id_is_written_as_version_2_with_both_maps() {
    let settled = ReplicaAssignment::settled(BrokerIds::from([1]));
    let znode = TopicZnode {
        topic_id: None,
        partitions: BTreeMap::from([(0, settled)]),
        version: 0,
    };
    let text = String::from_utf8(encode_topic(&znode)).unwrap();
    assert_eq!(
        text,
        r#"{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}"#
    );
}

#[test]
fn topics_of_every_java_version_are_read() {
    let v1 = br#"{"version":1,"partitions":{"1":[1,2],"0":[2,1]}}"#;
    let read = found(decode_topic(PATH, v1, 0));
    assert_eq!(read.topic_id, None);
    assert_eq!(read.partitions.keys().copied().collect::<Vec<_>>(), [0, 1]);

    let v3 = br#"{"removing_replicas":null,"partitions":{"0":[0]},"topic_id":"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{},"version":3}"#;
    let read = found(decode_topic(PATH, v3, 0));
    assert_eq!(
        read.topic_id.unwrap().as_bytes(),
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    );
}

#[test]
fn what_java_tolerates_in_a_topic_is_tolerated() {
    for tolerated in [
        r#"{"partitions":{"0":[1]}} and more"#,
        r#"{"partitions":{"7":[9]},"partitions":{"0":[1]}}"#,
        r#"{"version":"three","partitions":{"0":[1]},"other":{"x":[null]}}"#,
        r#"{"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1]}}"#,
        r#"{"topic_id":null,"partitions":{"0":[1]},"adding_replicas":{"5":[1]}}"#,
    ] {
        let read = found(decode_topic(PATH, tolerated.as_bytes(), 0));
        let settled = ReplicaAssignment::settled(BrokerIds::from([1]));
        assert_eq!(
            read.partitions,
            BTreeMap::from([(0, settled)]),
            "{tolerated}"
        );
        assert_eq!(read.topic_id, None, "{tolerated}");
    }
}

#[test]
fn strange_replicas_are_read_as_they_stand() {
    let read = found(decode_topic(
        PATH,
        br#"{"partitions":{"0":[-1,1,1],"1":[]}}"#,
        0,
    ));
    assert_eq!(read.partitions[&0].replicas, BrokerIds::from([-1, 1, 1]));
    assert!(read.partitions[&1].replicas.is_empty());
}

#[test]
fn wrong_types_in_a_topic_make_it_broken() {
    for wrong in [
        r#"{"partitions":null}"#,
        r#"{"partitions":[[1]]}"#,
        r#"{"partitions":{"x":[1]}}"#,
        r#"{"partitions":{"-1":[1]}}"#,
        r#"{"partitions":{"0":1}}"#,
        r#"{"partitions":{"0":["1"]}}"#,
        r#"{"partitions":{"0":[1.5]}}"#,
        r#"{"partitions":{"0":[null]}}"#,
        r#"{"partitions":{"0":[99999999999999999999999]}}"#,
        r#"{"partitions":{"2147483648":[1]}}"#,
        r#"{"partitions":{"0":[1]},"adding_replicas":[]}"#,
        r#"{"partitions":{"0":[1]},"topic_id":"short"}"#,
        r#"{"partitions":{"0":[1]},"topic_id":7}"#,
    ] {
        complaint(decode_topic(PATH, wrong.as_bytes(), 0));
    }
}

#[test]
fn a_state_is_read_back_equal_and_marks_only_a_recovering_leader() {
    let mut leader_and_isr = LeaderAndIsr {
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(7),
        isr: BrokerIds::from([1, 3, 2]),
        leader_recovery_state: LeaderRecoveryState::Recovered,
    };
    let data = encode_state(&leader_and_isr, ControllerEpoch(4));
    assert_eq!(
        String::from_utf8_lossy(&data),
        r#"{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":7,"isr":[1,3,2]}"#
    );
    let read = found(decode_state(PATH, &data, 12));
    assert_eq!(read.leader_and_isr, leader_and_isr);
    assert_eq!(
        (read.controller_epoch, read.partition_epoch),
        (ControllerEpoch(4), PartitionEpoch(12))
    );

    leader_and_isr.leader_recovery_state = LeaderRecoveryState::Recovering;
    let data = encode_state(&leader_and_isr, ControllerEpoch(4));
    assert!(String::from_utf8_lossy(&data).ends_with(r#""leader_recovery_state":1}"#));
    assert_eq!(
        found(decode_state(PATH, &data, 12)).leader_and_isr,
        leader_and_isr
    );
}

#[test]
fn broken_states_are_broken() {
    for wrong in [
        r#"{"leader":1,"leader_epoch":0,"controller_epoch":1}"#,
        r#"{"leader":1,"leader_epoch":0,"isr":[1]}"#,
        r#"{"leader":"1","leader_epoch":0,"controller_epoch":1,"isr":[1]}"#,
        r#"{"leader":null,"leader_epoch":0,"controller_epoch":1,"isr":[1]}"#,
        r#"{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":"1"}"#,
        r#"{"leader":1,"leader_epoch":4294967296,"controller_epoch":1,"isr":[1]}"#,
        r#"{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"leader_recovery_state":2}"#,
    ] {
        complaint(decode_state(PATH, wrong.as_bytes(), 0));
    }
    let later = br#"{"leader":-1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"from_later":{},"leader_recovery_state":0}"#;
    assert_eq!(
        found(decode_state(PATH, later, 0)).leader_and_isr.leader,
        BrokerId::NO_LEADER
    );
}

#[test]
fn notifications_are_read_back_equal() {
    let partitions = vec![
        TopicPartition::new(&TopicName::new("a"), 0),
        TopicPartition::new(&TopicName::new("b"), 5),
    ];
    assert_eq!(
        found(decode_isr_change(PATH, &encode_isr_change(&partitions))),
        partitions
    );
    let event = encode_log_dir_event(BrokerId(2));
    assert_eq!(found(decode_log_dir_event(PATH, &event)), BrokerId(2));
    complaint(decode_isr_change(
        PATH,
        br#"{"partitions":[{"topic":"a"}]}"#,
    ));
    complaint(decode_log_dir_event(PATH, br#"{"broker":"2","event":1}"#));
}

#[test]
fn features_are_read_back_equal_in_both_versions() {
    for (json_version, range) in [(1, (2, 3)), (2, (1, 3))] {
        let znode = FeatureZnode {
            json_version,
            enabled: true,
            levels: BTreeMap::from([("f".to_owned(), range)]),
        };
        assert_eq!(
            found(decode_feature(PATH, &encode_feature(&znode), 6)),
            (znode, 6)
        );
    }
    let empty = FeatureZnode {
        json_version: 1,
        enabled: true,
        levels: BTreeMap::new(),
    };
    assert_eq!(
        String::from_utf8_lossy(&encode_feature(&empty)),
        r#"{"version":1,"status":1,"features":{}}"#
    );
}

#[test]
fn features_that_java_would_not_take_are_broken() {
    for wrong in [
        r#"{"version":3,"status":1,"features":{}}"#,
        r#"{"version":1,"status":2,"features":{}}"#,
        r#"{"version":1,"features":{}}"#,
        r#"{"version":1,"status":1}"#,
        r#"{"version":1,"status":1,"features":{"f":{"max_version_level":1}}}"#,
        r#"{"version":2,"status":1,"features":{"f":{}}}"#,
        r#"{"version":2,"status":1,"features":{"f":{"max_version_level":99999}}}"#,
        r#"{"version":1,"status":1,"features":{"f":{"min_version_level":3,"max_version_level":2}}}"#,
    ] {
        complaint(decode_feature(PATH, wrong.as_bytes(), 0));
    }
}

#[test]
fn producer_id_blocks_are_read_back_equal_and_an_empty_node_holds_none() {
    let block = ProducerIdBlock {
        broker: BrokerId(-1),
        first: 9_000_000_000,
        last: 9_000_000_999,
    };
    let data = encode_producer_id_block(&block);
    assert!(String::from_utf8_lossy(&data).contains(r#""block_start":"9000000000""#));
    assert_eq!(
        found(decode_producer_id_block(PATH, &data, 3)),
        (Some(block), 3)
    );
    assert_eq!(found(decode_producer_id_block(PATH, b"", 0)), (None, 0));
    for wrong in [
        r#"{"broker":1,"block_start":0,"block_end":999}"#,
        r#"{"broker":1,"block_start":"x","block_end":"999"}"#,
        r#"{"broker":1,"block_start":"-5","block_end":"999"}"#,
        r#"{"broker":1,"block_start":"1000","block_end":"999"}"#,
        r#"{"broker":1,"block_start":"0","block_end":"9223372036854775808"}"#,
    ] {
        complaint(decode_producer_id_block(PATH, wrong.as_bytes(), 0));
    }
}
