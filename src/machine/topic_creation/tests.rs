//! What a client hears of each topic that it asks for; upstream's `CreateTopicsRequestTest` and `AdminZkClientTest`.

use super::*;
use crate::machine::fixture::{assign, broker, context, klamm_ids, partition};
use crate::model::{BrokerEpoch, BrokerRegistration, InterBrokerProtocol};

fn defaults() -> TopicDefaults {
    TopicDefaults {
        num_partitions: 3,
        replication_factor: 2,
        broker: BrokerProperties::default(),
    }
}

fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: TopicName::new(name),
        num_partitions: None,
        replication_factor: None,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn sized(name: &str, partitions: i32, factor: i16) -> NewTopic {
    NewTopic {
        num_partitions: Some(partitions),
        replication_factor: Some(factor),
        ..topic(name)
    }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> NewTopic {
    let list = |(index, ids): &(i32, &[i32])| (*index, ids.iter().copied().map(BrokerId).collect());
    NewTopic {
        assignments: assignments.iter().map(list).collect(),
        ..topic(name)
    }
}

fn configured(name: &str, configs: &[(&str, Option<&str>)]) -> NewTopic {
    let entry = |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(str::to_owned));
    NewTopic {
        configs: configs.iter().map(entry).collect(),
        ..topic(name)
    }
}

fn three_brokers() -> ControllerContext {
    let mut context = context([1, 2, 3]);
    context.set_klamm_ids(klamm_ids([9]));
    context
}

fn planned(context: &ControllerContext, asked: &[NewTopic]) -> Vec<Result<PlannedTopic, ApiError>> {
    let spreads = vec![Spread { start: 0, shift: 0 }; asked.len()];
    plan(context, &defaults(), asked, &spreads)
}

/// `ok [1,2] [2,3]`, or the code and the message.
fn said(context: &ControllerContext, asked: &[NewTopic]) -> Vec<String> {
    let line = |planned: Result<PlannedTopic, ApiError>| match planned {
        Ok(planned) => {
            let replicas: Vec<_> = planned.replicas.iter().map(ToString::to_string).collect();
            format!("ok {}", replicas.join(" "))
        }
        Err(refused) => refused.to_string(),
    };
    planned(context, asked).into_iter().map(line).collect()
}

/// Whether each is refused with this code, in words that hold these.
fn assert_refused(context: &ControllerContext, rows: &[(NewTopic, KafkaError, &str)]) {
    for (asked, error, words) in rows {
        let refused = planned(context, std::slice::from_ref(asked))
            .remove(0)
            .unwrap_err();
        assert_eq!(refused.error, *error, "{asked:?}: {refused}");
        assert!(refused.message.contains(words), "{asked:?}: {refused}");
    }
}

#[test]
fn what_a_request_leaves_open_is_filled_from_the_controllers_configuration() {
    let context = three_brokers();
    let four = NewTopic {
        num_partitions: Some(4),
        ..topic("a")
    };
    let single = NewTopic {
        replication_factor: Some(1),
        ..topic("b")
    };
    assert_eq!(
        said(&context, &[topic("c"), four, single]),
        [
            "ok [1,2] [2,3] [3,1]",
            "ok [1,2] [2,3] [3,1] [1,3]",
            "ok [1] [2] [3]"
        ]
    );
}

#[test]
fn no_klamm_hosts_anything() {
    let mut context = three_brokers();
    context.add_live_broker(BrokerRegistration {
        broker: broker(9),
        epoch: BrokerEpoch(1),
        json_version: 5,
    });
    for planned in planned(&context, &[sized("t", 12, 3)]) {
        let replicas = planned.unwrap().replicas;
        assert!(replicas.iter().all(|ids| !ids.contains(BrokerId(9))));
    }
    let rows = [(
        sized("t", 1, 4),
        KafkaError::INVALID_REPLICATION_FACTOR,
        "3 are registered",
    )];
    assert_refused(&context, &rows);
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let context = three_brokers();
    let rows = [
        (
            sized("t", 0, 1),
            KafkaError::INVALID_PARTITIONS,
            "0 partitions",
        ),
        (
            sized("t", -2, 1),
            KafkaError::INVALID_PARTITIONS,
            "-2 partitions",
        ),
        (
            sized("t", i32::MAX, 3),
            KafkaError::INVALID_PARTITIONS,
            "one node",
        ),
        (
            sized("t", 1, 0),
            KafkaError::INVALID_REPLICATION_FACTOR,
            "at least 1",
        ),
        (
            sized("t", 1, -2),
            KafkaError::INVALID_REPLICATION_FACTOR,
            "at least 1",
        ),
        (
            sized("t", 1, 4),
            KafkaError::INVALID_REPLICATION_FACTOR,
            "3 are registered",
        ),
        // The number of partitions is looked at first, as upstream.
        (
            sized("t", 0, 9),
            KafkaError::INVALID_PARTITIONS,
            "0 partitions",
        ),
    ];
    assert_refused(&context, &rows);
}

#[test]
fn a_request_cannot_fill_the_memory() {
    assert_eq!(check_length(TOPICS_IN_REQUEST_MAX), Ok(()));
    let refused = Err(KafkaError::INVALID_REQUEST);
    assert_eq!(check_length(TOPICS_IN_REQUEST_MAX + 1), refused);
    let context = three_brokers();
    let many: Vec<NewTopic> = (0..5)
        .map(|at| sized(&format!("t{at}"), 100_000, 3))
        .collect();
    let planned = planned(&context, &many);
    let fit = planned.iter().filter(|planned| planned.is_ok()).count();
    assert_eq!(fit, 3);
    let refused = planned[3].as_ref().unwrap_err();
    assert_eq!(refused.error, KafkaError::INVALID_PARTITIONS);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let mut context = three_brokers();
    assign(&mut context, &partition("here", 0), [1]);
    assign(&mut context, &partition("a.b_c", 0), [1]);
    assign(&mut context, &partition("going", 0), [1]);
    context.queue_for_deletion(&TopicName::new("going"));
    let long = "x".repeat(250);
    let rows = [
        (
            topic(""),
            KafkaError::INVALID_TOPIC_EXCEPTION,
            "not a topic's name",
        ),
        (
            topic("."),
            KafkaError::INVALID_TOPIC_EXCEPTION,
            "not a topic's name",
        ),
        (
            topic("a/b"),
            KafkaError::INVALID_TOPIC_EXCEPTION,
            "not a topic's name",
        ),
        (
            topic("ü"),
            KafkaError::INVALID_TOPIC_EXCEPTION,
            "not a topic's name",
        ),
        (
            topic(&long),
            KafkaError::INVALID_TOPIC_EXCEPTION,
            "1 to 249",
        ),
        (topic("here"), KafkaError::TOPIC_ALREADY_EXISTS, "exists"),
        (
            topic("going"),
            KafkaError::TOPIC_ALREADY_EXISTS,
            "being deleted",
        ),
        (topic("a_b.c"), KafkaError::INVALID_TOPIC_EXCEPTION, "a.b_c"),
        (topic("a_b_c"), KafkaError::INVALID_TOPIC_EXCEPTION, "a.b_c"),
        (
            topic("__cluster_metadata"),
            KafkaError::INVALID_REQUEST,
            "KRaft",
        ),
    ];
    assert_refused(&context, &rows);
    let fine = [
        topic(&long[..249]),
        topic("a-b-c"),
        topic("__consumer_offsets"),
    ];
    assert!(planned(&context, &fine).iter().all(Result::is_ok));
}

#[test]
fn names_collide_also_within_a_request_and_only_with_what_is_created() {
    let context = three_brokers();
    let said = said(
        &context,
        &[
            sized("twice", 1, 1),
            sized("a.b", 0, 1),
            sized("a_b", 1, 1),
            sized("a.b.", 1, 1),
            sized("a_b_", 1, 1),
            sized("twice", 1, 1),
        ],
    );
    let codes: Vec<&str> = said
        .iter()
        .filter_map(|line| line.split([':', ' ']).next())
        .collect();
    assert_eq!(
        codes,
        [
            "INVALID_REQUEST(42)",
            "INVALID_PARTITIONS(37)",
            "ok",
            "ok",
            "INVALID_TOPIC_EXCEPTION(17)",
            "INVALID_REQUEST(42)"
        ]
    );
}

#[test]
fn the_clients_own_assignment_is_taken_as_it_is() {
    let mut context = three_brokers();
    // Broker 4 is down, and was seen.
    assign(&mut context, &partition("here", 0), [4, 1]);
    assert_eq!(
        said(&context, &[assigned("t", &[(1, &[3, 1]), (0, &[2, 4])])]),
        ["ok [2,4] [3,1]"]
    );
}

#[test]
fn assignments_that_cannot_be_are_refused() {
    let context = three_brokers();
    let bad = KafkaError::INVALID_REPLICA_ASSIGNMENT;
    let both = NewTopic {
        num_partitions: Some(1),
        ..assigned("t", &[(0, &[1])])
    };
    let rows = [
        (assigned("t", &[(0, &[1, 1])]), bad, "twice"),
        (
            assigned("t", &[(0, &[1, 2]), (1, &[1])]),
            bad,
            "1 replicas and others have 2",
        ),
        (assigned("t", &[(1, &[1]), (2, &[2])]), bad, "0 is missing"),
        (assigned("t", &[(0, &[1]), (2, &[2])]), bad, "1 is missing"),
        (assigned("t", &[(-1, &[1]), (0, &[2])]), bad, "0 is missing"),
        (
            assigned("t", &[(0, &[1]), (0, &[2])]),
            bad,
            "stands there twice",
        ),
        (assigned("t", &[(0, &[])]), bad, "no replica"),
        (assigned("t", &[(0, &[1, 9])]), bad, "hosts no replicas"),
        (assigned("t", &[(0, &[1, 7])]), bad, "no broker 7"),
        (both, KafkaError::INVALID_REQUEST, "not both"),
    ];
    assert_refused(&context, &rows);
}

#[test]
fn configurations_that_a_broker_could_not_read_are_refused() {
    let context = three_brokers();
    let bad = KafkaError::INVALID_CONFIG;
    let rows = [
        (
            configured("t", &[("not.a.property", Some("x"))]),
            bad,
            "not.a.property",
        ),
        (configured("t", &[("retention.ms", None)]), bad, "no value"),
        (
            configured("t", &[("retention.ms", Some("soon"))]),
            bad,
            "whole number",
        ),
    ];
    assert_refused(&context, &rows);
    let fine = configured(
        "t",
        &[("retention.ms", Some("1")), ("retention.ms", Some(" 7 "))],
    );
    let planned = planned(&context, &[fine]).remove(0).unwrap();
    assert_eq!(planned.config["retention.ms"], " 7 ");
}

#[test]
fn what_counts_is_the_clusters_protocol() {
    let mut context = three_brokers();
    let zstd = configured("t", &[("compression.type", Some("zstd"))]);
    assert!(planned(&context, std::slice::from_ref(&zstd))[0].is_ok());
    context.set_protocol(InterBrokerProtocol::new(2, 0, 1));
    let rows = [(zstd, KafkaError::INVALID_CONFIG, "2.1")];
    assert_refused(&context, &rows);
}
