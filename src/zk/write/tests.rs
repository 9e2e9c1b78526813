//! Groups, waves and outcomes of single operations; nothing is sent.

use super::*;
use crate::model::{EntityConfig, SanitizedName};

fn item(index: usize, operation: Operation) -> Item {
    Item::new(index, operation)
}

fn delete(index: usize, path: &str) -> Item {
    item(index, Operation::Delete(path.to_owned()))
}

fn under(index: usize, topic: &str) -> Item {
    let partition = format!("/brokers/topics/{topic}/partitions/{index}");
    Item {
        index,
        operation: Operation::Create(format!("{partition}/state"), Vec::new()),
        along: Vec::new(),
        parent: Some(Operation::CreateParent(partition)),
    }
}

fn indexes(items: &[Item]) -> Vec<usize> {
    items.iter().map(|item| item.index).collect()
}

#[test]
fn writes_of_one_path_go_in_waves() {
    let items = [
        delete(0, "/a"),
        delete(1, "/b"),
        delete(2, "/a"),
        delete(3, "/a"),
    ];
    let waves = waves(items.into());
    let waves: Vec<_> = waves.iter().map(|wave| indexes(wave)).collect();
    assert_eq!(waves, [vec![0, 1], vec![2], vec![3]]);
}

#[test]
fn a_group_is_bounded_by_operations_and_by_bytes() {
    let many: Vec<Item> = (0..1_000).map(|index| under(index, "t")).collect();
    let sizes: Vec<usize> = groups(many).iter().map(Vec::len).collect();
    assert_eq!(sizes, [200, 200, 200, 200, 200]);

    let large = |index| {
        item(
            index,
            Operation::Set(format!("/{index}"), vec![0; 300_000], 0),
        )
    };
    let sizes: Vec<usize> = groups((0..5).map(large).collect())
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
    let huge = item(0, Operation::Set("/huge".to_owned(), vec![0; 900_000], 0));
    assert_eq!(groups(vec![huge, delete(1, "/a")]).len(), 2);
    assert!(groups(Vec::new()).is_empty());
}

#[test]
fn only_large_groups_shrink_when_connections_are_lost_over_them() {
    let small: Vec<Item> = (0..100).map(|index| delete(index, "/a")).collect();
    assert_eq!(a_part_if_suspect(&small, 50), 100);
    let large = |index| {
        item(
            index,
            Operation::Set(format!("/{index}"), vec![0; 9_000], 0),
        )
    };
    let large: Vec<Item> = (0..64).map(large).collect();
    let parts: Vec<usize> = (0..10)
        .map(|losses| a_part_if_suspect(&large, losses))
        .collect();
    assert_eq!(parts, [64, 64, 32, 16, 8, 4, 2, 1, 1, 1]);
}

#[test]
fn a_parent_that_exists_costs_nothing_and_one_without_place_costs_its_topic() {
    let mut items: Vec<Item> = vec![under(0, "t"), under(1, "t"), under(2, "u"), under(3, "t")];
    let mut outcomes = Outcomes::new();
    set_aside(
        &mut items,
        1,
        Part::Parent,
        &Error::NodeExists,
        &mut outcomes,
    );
    assert!(outcomes.is_empty());
    assert!(items[1].parent.is_none());
    set_aside(&mut items, 0, Part::Parent, &Error::NoNode, &mut outcomes);
    assert_eq!(indexes(&items), [1, 2]);
    assert_eq!(outcomes, [(0, ZkOutcome::Missing), (3, ZkOutcome::Missing)]);
}

#[test]
fn the_outcome_of_a_failed_write_is_its_kind_of_failure() {
    let table = [
        (Error::BadVersion, ZkOutcome::VersionConflict),
        (Error::NodeExists, ZkOutcome::AlreadyExists),
        (Error::NoNode, ZkOutcome::Missing),
        (
            Error::NoAuth,
            ZkOutcome::Refused("/a: not authorized".to_owned()),
        ),
    ];
    for (error, expected) in table {
        let mut items = vec![delete(7, "/a"), delete(8, "/b")];
        let mut outcomes = Outcomes::new();
        set_aside(&mut items, 0, Part::Itself, &error, &mut outcomes);
        assert_eq!(outcomes, [(7, expected)]);
        assert_eq!(indexes(&items), [8]);
    }
}

#[test]
fn a_topics_configuration_is_written_with_it_whatever_stood_there() {
    let creating = || {
        let config = Operation::Create("/config/topics/t".to_owned(), b"c".to_vec());
        Item {
            along: vec![config],
            ..item(
                0,
                Operation::Create("/brokers/topics/t".to_owned(), Vec::new()),
            )
        }
    };
    let parts = |items: &[Item]| -> Vec<String> {
        let parts = items[0].parts();
        parts
            .map(|(_, operation)| format!("{operation:?}"))
            .collect()
    };
    let created = parts(&[creating()]);
    let mut items = vec![creating()];
    let mut outcomes = Outcomes::new();
    let first = Part::Along(0);
    set_aside(&mut items, 0, first, &Error::NodeExists, &mut outcomes);
    assert!(parts(&items)[0].starts_with("Overwrite(\"/config/topics/t\""));
    // Somebody removed it meanwhile.
    set_aside(&mut items, 0, first, &Error::NoNode, &mut outcomes);
    assert_eq!(parts(&items), created);
    // There is no place for it: the topic is not created without it.
    set_aside(&mut items, 0, first, &Error::NoNode, &mut outcomes);
    assert!(items.is_empty());
    assert_eq!(outcomes, [(0, ZkOutcome::Missing)]);
}

#[test]
fn what_goes_along_counts_where_it_is_asked_whether_a_write_fits() {
    let write = |value: String| ZkWrite::CreateTopic {
        topic: TopicName::new("t"),
        topic_id: None,
        replicas: Vec::new(),
        config: [("retention.ms".to_owned(), value)].into(),
    };
    let refusal = |value: String| match asked(&write(value)) {
        Asked::Two(along, operation) => [along, operation].iter().find_map(too_large),
        _ => panic!("not two operations"),
    };
    assert_eq!(refusal("1".to_owned()), None);
    let Some(ZkOutcome::Refused(why)) = refusal("1".repeat(MAX_NODE_BYTES)) else {
        panic!("taken");
    };
    assert!(why.starts_with("/config/topics/t: "), "{why}");
}

#[test]
fn a_users_configuration_and_the_notice_of_it_are_one_transaction() {
    let write = |expected| ZkWrite::WriteUserConfig {
        user: SanitizedName::of("a b"),
        config: EntityConfig([("x".to_owned(), "y".to_owned())].into()),
        expected,
    };
    for expected in [None, Some(4)] {
        let Asked::Two(notice, operation) = asked(&write(expected)) else {
            panic!("not two operations");
        };
        let Operation::CreateNumbered(path, data) = notice else {
            panic!("{notice:?}");
        };
        assert_eq!(path, "/config/changes/config_change_");
        assert_eq!(data, br#"{"version":2,"entity_path":"users/a%20b"}"#);
        let (path, data, version) = match operation {
            Operation::Create(path, data) => (path, data, None),
            Operation::Set(path, data, version) => (path, data, Some(version)),
            other => panic!("{other:?}"),
        };
        assert_eq!((path.as_str(), version), ("/config/users/a%20b", expected));
        assert_eq!(data, br#"{"version":1,"config":{"x":"y"}}"#);
    }
}
