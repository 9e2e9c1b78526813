//! Facts of upstream's `AdminRackAwareTest`: the same lists for the same start, and the same evenness.

use super::*;

/// Brokers, each with its rack.
type Racks<'a> = &'a [(i32, &'a str)];

fn brokers(racks: &[(i32, Option<&str>)]) -> Vec<Candidate> {
    let candidate = |(id, rack): &(i32, Option<&str>)| Candidate {
        id: BrokerId(*id),
        rack: rack.map(str::to_owned),
    };
    racks.iter().map(candidate).collect()
}

fn without_racks(ids: std::ops::Range<i32>) -> Vec<Candidate> {
    brokers(&ids.map(|id| (id, None)).collect::<Vec<_>>())
}

fn in_racks(racks: Racks) -> Vec<Candidate> {
    let known: Vec<_> = racks.iter().map(|(id, rack)| (*id, Some(*rack))).collect();
    brokers(&known)
}

fn at(start: u32, shift: u32) -> Spread {
    Spread { start, shift }
}

fn placed(
    brokers: &[Candidate],
    partitions: usize,
    replication_factor: usize,
    first_partition: usize,
    spread: Spread,
) -> Vec<Vec<i32>> {
    let placed = place(
        brokers,
        partitions,
        replication_factor,
        first_partition,
        spread,
    )
    .unwrap();
    placed.iter().map(|ids| ids.as_i32s().to_vec()).collect()
}

const TWO_IN_EACH_OF_THREE: [(i32, &str); 6] = [
    (0, "rack1"),
    (1, "rack2"),
    (2, "rack2"),
    (3, "rack3"),
    (4, "rack3"),
    (5, "rack1"),
];

#[test]
fn without_racks_followers_shift_by_one_each_time_round() {
    assert_eq!(
        placed(&without_racks(0..5), 10, 3, 0, at(0, 0)),
        [
            [0, 1, 2],
            [1, 2, 3],
            [2, 3, 4],
            [3, 4, 0],
            [4, 0, 1],
            [0, 2, 3],
            [1, 3, 4],
            [2, 4, 0],
            [3, 0, 1],
            [4, 1, 2]
        ]
    );
}

#[test]
fn with_racks_one_broker_of_each_rack_comes_in_turn() {
    let racks = [
        (0, "rack1"),
        (1, "rack3"),
        (2, "rack3"),
        (3, "rack2"),
        (4, "rack2"),
        (5, "rack1"),
    ];
    let ring = |brokers: &[Candidate]| -> Vec<i32> {
        Ring::of(brokers)
            .brokers
            .iter()
            .map(|(id, _)| id.0)
            .collect()
    };
    assert_eq!(ring(&in_racks(&racks)), [0, 3, 1, 5, 4, 2]);
    assert_eq!(ring(&in_racks(&racks[..5])), [0, 3, 1, 4, 2]);
    assert_eq!(
        placed(&in_racks(&racks), 7, 3, 0, at(0, 0)),
        [
            [0, 3, 1],
            [3, 1, 5],
            [1, 5, 4],
            [5, 4, 2],
            [4, 2, 0],
            [2, 0, 3],
            [0, 4, 2]
        ]
    );
}

#[test]
fn where_brokers_and_racks_are_even_so_are_leaders_replicas_and_racks() {
    let twelve = [
        (0, "rack1"),
        (1, "rack2"),
        (2, "rack2"),
        (3, "rack3"),
        (4, "rack3"),
        (5, "rack1"),
        (6, "rack1"),
        (7, "rack2"),
        (8, "rack2"),
        (9, "rack3"),
        (10, "rack1"),
        (11, "rack3"),
    ];
    let expanded = TWO_IN_EACH_OF_THREE.map(|(id, rack)| (id + 6, rack));
    let one_each = [(0, "rack1"), (1, "rack2"), (4, "rack3")];
    let table: [(Racks, usize, usize, usize); 6] = [
        (&TWO_IN_EACH_OF_THREE, 6, 3, 0),
        (&TWO_IN_EACH_OF_THREE, 12, 2, 0),
        (&TWO_IN_EACH_OF_THREE, 6, 2, 0),
        (&expanded, 12, 2, 12),
        (&one_each, 3, 2, 0),
        (&twelve, 96, 3, 0),
    ];
    for (racks, partitions, factor, first) in table {
        for start in 0..12 {
            for shift in 0..12 {
                let what = format!("{racks:?} {partitions}x{factor} from {start} by {shift}");
                let all = placed(
                    &in_racks(racks),
                    partitions,
                    factor,
                    first,
                    at(start, shift),
                );
                assert_eq!(all.len(), partitions, "{what}");
                check_even(&all, racks, partitions, factor, &what);
            }
        }
    }
}

fn check_even(all: &[Vec<i32>], racks: Racks, partitions: usize, factor: usize, what: &str) {
    let rack_of: BTreeMap<i32, &str> = racks.iter().copied().collect();
    for replicas in all {
        let used: BTreeSet<&str> = replicas.iter().map(|id| rack_of[id]).collect();
        assert_eq!(used.len(), factor, "{what}: {replicas:?} share a rack");
    }
    for (id, _) in racks {
        let leads = all.iter().filter(|replicas| replicas[0] == *id).count();
        let hosts = all.iter().filter(|replicas| replicas.contains(id)).count();
        assert_eq!(leads, partitions / racks.len(), "{what}: leaders of {id}");
        assert_eq!(
            hosts,
            partitions * factor / racks.len(),
            "{what}: replicas on {id}"
        );
    }
}

#[test]
fn uneven_racks_still_get_a_replica_each_and_no_broker_two() {
    let tables: [(Racks, usize, usize); 4] = [
        // More replicas than racks, fewer, one rack for all, and one rack that holds most.
        (
            &[(0, "a"), (1, "b"), (2, "b"), (3, "c"), (4, "c"), (5, "b")],
            5,
            3,
        ),
        (
            &[(0, "a"), (1, "b"), (2, "b"), (3, "c"), (4, "c"), (5, "b")],
            2,
            2,
        ),
        (&[(0, "a"), (1, "a"), (2, "a"), (3, "a")], 3, 1),
        (&[(0, "a"), (1, "b"), (2, "c"), (3, "a"), (4, "a")], 4, 3),
    ];
    for (racks, factor, racks_each) in tables {
        let rack_of: BTreeMap<i32, &str> = racks.iter().copied().collect();
        for start in 0..6 {
            for replicas in placed(&in_racks(racks), 13, factor, 0, at(start, 2)) {
                let brokers: BTreeSet<i32> = replicas.iter().copied().collect();
                assert_eq!(brokers.len(), factor, "{replicas:?}");
                let used: BTreeSet<&str> = replicas.iter().map(|id| rack_of[id]).collect();
                assert_eq!(used.len(), racks_each, "{replicas:?}");
            }
        }
    }
}

#[test]
fn where_a_broker_has_no_rack_racks_do_not_count() {
    let mixed = brokers(&[(0, Some("a")), (1, Some("a")), (2, None)]);
    assert_eq!(
        placed(&mixed, 3, 2, 0, at(0, 0)),
        placed(&without_racks(0..3), 3, 2, 0, at(0, 0))
    );
}

#[test]
fn new_partitions_of_a_topic_go_on_where_the_old_ones_end() {
    let brokers = without_racks(0..5);
    let all = placed(&brokers, 12, 3, 0, at(3, 3));
    // Upstream counts the shifts anew, from the first index that comes.
    assert_eq!(placed(&brokers, 4, 3, 1, at(3, 3)), all[1..5]);
}

#[test]
fn one_broker_takes_one_replica_of_everything() {
    assert_eq!(
        placed(&without_racks(7..8), 3, 1, 0, at(u32::MAX, u32::MAX)),
        [[7], [7], [7]]
    );
}

#[test]
fn too_many_replicas_or_none_at_all_are_not_placed() {
    let refusal = |brokers: &[Candidate], factor| place(brokers, 10, factor, 0, at(0, 0));
    assert_eq!(
        refusal(&without_racks(0..5), 0),
        Err(Unplaceable::NoReplicas)
    );
    let too_few = |available| Err(Unplaceable::TooFewBrokers { available });
    assert_eq!(refusal(&without_racks(0..5), 6), too_few(5));
    assert_eq!(refusal(&[], 1), too_few(0));
}
