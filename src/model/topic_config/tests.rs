//! Values, what goes together, and what is in force.

use super::*;

const NEWEST: InterBrokerProtocol = InterBrokerProtocol::NEWEST;

fn properties(entries: &[(&str, &str)]) -> Properties {
    let owned = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn file(entries: &[(&str, &str)]) -> BrokerProperties {
    BrokerProperties::of_file(properties(entries))
}

fn check_one(key: &str, value: &str) -> Result<(), String> {
    check(
        &properties(&[(key, value)]),
        NEWEST,
        &BrokerProperties::default(),
    )
}

#[test]
fn values_are_taken_that_every_release_takes_and_no_others() {
    let table: [(&str, &[&str], &[&str]); 14] = [
        (
            "cleanup.policy",
            &["delete", "compact", "compact, delete", ""],
            &["Delete", "purge", "delete,"],
        ),
        (
            "compression.type",
            &["producer", "uncompressed", "zstd"],
            &["none", "ZSTD", ""],
        ),
        (
            "compression.gzip.level",
            &["-1", "1", "9"],
            &["0", "-2", "10"],
        ),
        (
            "retention.ms",
            &["-1", "0", " 604800000 ", "9223372036854775807"],
            &["-2", "1.5", "", "9223372036854775808"],
        ),
        ("retention.bytes", &["-1", "-2", "1"], &["x"]),
        // 1.0 takes 0 for these three, later releases don't.
        ("segment.ms", &["1"], &["0"]),
        ("segment.index.bytes", &["4"], &["0", "3"]),
        ("flush.messages", &["1"], &["0"]),
        (
            "segment.bytes",
            &["14", "2147483647"],
            &["13", "2147483648"],
        ),
        ("min.insync.replicas", &["1", "3"], &["0"]),
        (
            "min.cleanable.dirty.ratio",
            &["0", "0.5", "1.0"],
            &["1.1", "-0.1", "NaN", "half"],
        ),
        ("preallocate", &["true", "FALSE"], &["yes", ""]),
        (
            "message.format.version",
            &["0.10.0-IV1", "0.11.0", "0.9.0.1", "2.8", "3.0-IV1"],
            &["invalid-value", "0.10.0-IV2", "4.0", "0.8"],
        ),
        (
            "leader.replication.throttled.replicas",
            &["", "*", "0:1", "0:1,1:2"],
            &["0", "0:", "a:b", "*,0:1"],
        ),
    ];
    for (key, good, bad) in table {
        for value in good {
            assert_eq!(check_one(key, value), Ok(()), "{key}={value}");
        }
        for value in bad {
            let why = check_one(key, value).expect_err(&format!("{key}={value}"));
            assert!(why.starts_with(key), "{why}");
        }
    }
}

#[test]
fn every_default_is_a_value_that_may_be_set() {
    for protocol in [InterBrokerProtocol::OLDEST, NEWEST] {
        for setting in in_force(&Properties::new(), protocol, &BrokerProperties::default()) {
            let same = properties(&[(setting.name, &setting.value)]);
            assert_eq!(check(&same, protocol, &BrokerProperties::default()), Ok(()));
        }
    }
}

#[test]
fn names_stand_once_and_in_order() {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
}

#[test]
fn a_key_that_is_no_topics_is_refused() {
    for key in ["not.a.property", "log.retention.ms", "num.partitions", ""] {
        let why = check_one(key, "1").unwrap_err();
        assert!(
            why.contains("nothing that a topic can be configured with"),
            "{why}"
        );
    }
}

#[test]
fn what_older_brokers_cannot_read_waits_for_the_cluster() {
    let old = InterBrokerProtocol::new(2, 0, 1);
    for (key, value, words) in [
        ("compression.type", "zstd", "2.1"),
        ("message.format.version", "2.4", "above the cluster's"),
    ] {
        let asked = properties(&[(key, value)]);
        assert_eq!(check(&asked, NEWEST, &BrokerProperties::default()), Ok(()));
        let why = check(&asked, old, &BrokerProperties::default()).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn values_that_exclude_each_other_are_refused_also_against_what_the_file_says() {
    let lag = properties(&[("min.compaction.lag.ms", "20")]);
    assert_eq!(check(&lag, NEWEST, &BrokerProperties::default()), Ok(()));
    let file = file(&[("log.cleaner.max.compaction.lag.ms", "10")]);
    assert!(
        check(&lag, NEWEST, &file)
            .unwrap_err()
            .contains("(20) is more than")
    );
    assert!(
        check_one("remote.log.copy.disable", "true")
            .unwrap_err()
            .contains("KRaft")
    );
    assert_eq!(check_one("remote.log.copy.disable", "false"), Ok(()));
}

#[test]
fn remote_storage_needs_a_cluster_that_has_it() {
    let remote = [("remote.storage.enable", "true")];
    let why = check(&properties(&remote), NEWEST, &BrokerProperties::default()).unwrap_err();
    assert!(why.contains("remote.log.storage.system.enable"), "{why}");
    let file = file(&[("remote.log.storage.system.enable", "true")]);
    let with = |more: &[(&str, &str)]| check(&properties(&[&remote, more].concat()), NEWEST, &file);
    assert_eq!(with(&[]), Ok(()));
    assert!(
        with(&[("cleanup.policy", "compact")])
            .unwrap_err()
            .contains("compacted")
    );
    let longer = [("local.retention.ms", "20"), ("retention.ms", "10")];
    assert!(
        with(&longer)
            .unwrap_err()
            .contains("local.retention.ms (20)")
    );
    let shorter = [("local.retention.ms", "5"), ("retention.ms", "10")];
    assert_eq!(with(&shorter), Ok(()));
}

#[test]
fn what_is_in_force_is_the_topics_then_the_files_then_the_default() {
    let topic = properties(&[("min.insync.replicas", " 2 ")]);
    let file = file(&[
        ("min.insync.replicas", "3"),
        ("log.retention.hours", "1"),
        ("log.roll.ms", "5"),
        ("log.roll.hours", "1"),
        ("log.flush.interval.messages", "7"),
    ]);
    let all = in_force(&topic, NEWEST, &file);
    let of = |name: &str| {
        let setting = all.iter().find(|setting| setting.name == name).unwrap();
        (setting.value.as_str(), setting.source)
    };
    assert_eq!(of("min.insync.replicas"), ("2", ConfigSource::Topic));
    assert_eq!(of("retention.ms"), ("3600000", ConfigSource::StaticBroker));
    assert_eq!(of("segment.ms"), ("5", ConfigSource::StaticBroker));
    assert_eq!(of("flush.messages"), ("7", ConfigSource::StaticBroker));
    assert_eq!(of("cleanup.policy"), ("delete", ConfigSource::Default));
    assert_eq!(all.len(), KEYS.len());
}

#[test]
fn the_clusters_default_comes_after_the_topic_and_before_the_file() {
    let topic = properties(&[("min.insync.replicas", "2")]);
    let broker = file(&[
        ("min.insync.replicas", "3"),
        ("log.retention.hours", "1"),
        ("log.segment.bytes", "20"),
        ("message.max.bytes", "30"),
    ]);
    let config = properties(&[
        ("min.insync.replicas", "4"),
        ("log.retention.ms", " 5 "),
        ("log.segment.bytes", "6 MiB"),
        // Fixed at the start of a broker, as are the coarser units of time, or nothing to topics.
        ("log.message.format.version", "2.0"),
        ("log.roll.hours", "7"),
        ("num.io.threads", "8"),
    ]);
    let (broker, useless) = broker.with_cluster_defaults(&config, NEWEST);
    assert_eq!(useless.len(), 1, "{useless:?}");
    assert!(useless[0].starts_with("log.segment.bytes=6 MiB: must be"));
    let all = in_force(&topic, NEWEST, &broker);
    let of = |name: &str| {
        let setting = all.iter().find(|setting| setting.name == name).unwrap();
        (setting.value.as_str(), setting.source)
    };
    assert_eq!(of("min.insync.replicas"), ("2", ConfigSource::Topic));
    assert_eq!(
        of("retention.ms"),
        ("5", ConfigSource::DynamicDefaultBroker)
    );
    assert_eq!(of("segment.bytes"), ("20", ConfigSource::StaticBroker));
    assert_eq!(of("max.message.bytes"), ("30", ConfigSource::StaticBroker));
    assert_eq!(of("message.format.version").1, ConfigSource::Default);
    assert_eq!(of("segment.ms").1, ConfigSource::Default);
    // What is read anew takes the place of what was read before.
    let (broker, useless) = broker.with_cluster_defaults(&Properties::new(), NEWEST);
    assert!(useless.is_empty());
    let all = in_force(&topic, NEWEST, &broker);
    let retention = all.iter().find(|setting| setting.name == "retention.ms");
    assert_eq!(retention.unwrap().value, "3600000");
}

#[test]
fn a_topic_is_checked_against_the_clusters_default() {
    let lag = properties(&[("min.compaction.lag.ms", "20")]);
    let config = properties(&[("log.cleaner.max.compaction.lag.ms", "10")]);
    let (broker, _) = BrokerProperties::default().with_cluster_defaults(&config, NEWEST);
    let why = check(&lag, NEWEST, &broker).unwrap_err();
    assert!(why.contains("(20) is more than"), "{why}");
}

#[test]
fn for_ever_stays_for_ever_in_every_unit() {
    let file = file(&[("log.retention.hours", "-1")]);
    let all = in_force(&Properties::new(), NEWEST, &file);
    let retention = all
        .iter()
        .find(|setting| setting.name == "retention.ms")
        .unwrap();
    assert_eq!(retention.value, "-1");
}

#[test]
fn only_what_the_clusters_release_knows_is_told() {
    let at = |protocol| in_force(&Properties::new(), protocol, &BrokerProperties::default());
    let old = at(InterBrokerProtocol::new(2, 4, 1));
    let value = |name: &str| {
        let setting = old.iter().find(|setting| setting.name == name);
        setting.map(|setting| setting.value.clone())
    };
    assert_eq!(value("remote.storage.enable"), None);
    assert_eq!(value("max.message.bytes").unwrap(), "1000012");
    assert_eq!(value("message.format.version").unwrap(), "2.4-IV1");
}
