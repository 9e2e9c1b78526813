//! Upstream: `PartitionLeaderElectionAlgorithmsTest`; here the in-sync set and the recipients are checked too.

use super::*;

fn ids<const N: usize>(ids: [i32; N]) -> BrokerIds {
    BrokerIds::from(ids)
}

fn among<const N: usize>(ids: [i32; N]) -> impl Fn(BrokerId) -> bool {
    move |id| ids.contains(&id.0)
}

fn elected<const I: usize, const R: usize>(
    leader: i32,
    isr: [i32; I],
    recipients: [i32; R],
    cleanness: Cleanness,
) -> Result<Elected, Undecided> {
    Ok(Elected {
        leader: BrokerId(leader),
        isr: ids(isr),
        recipients: recipients.map(BrokerId).to_vec(),
        cleanness,
    })
}

#[test]
fn klamms_are_never_in_sync_and_where_only_they_are_every_assigned_replica_is() {
    let klamms = [BrokerId(8), BrokerId(9)].into();
    let cases = [
        (ids([1, 2]), ids([1, 2])),
        (ids([2, 9]), ids([2])),
        (ids([9]), ids([3, 1, 2])),
        (ids([8, 9]), ids([3, 1, 2])),
        // Nobody at all is in sync: that is no klamm's doing.
        (ids([]), ids([])),
    ];
    for (isr, expected) in cases {
        assert_eq!(
            in_sync(&isr, &ids([3, 9, 1, 2]), &klamms),
            expected,
            "{isr}"
        );
    }
}

#[test]
fn an_offline_partition_is_led_by_the_first_assigned_replica_that_is_online_and_in_sync() {
    let forbidden = UncleanElection::Forbidden;
    let clean = Cleanness::Clean;
    assert_eq!(
        offline_partition(&ids([2, 4]), &ids([2, 4]), forbidden, among([4])),
        elected(4, [4], [4], clean)
    );
    // Assignment order chooses the leader; the in-sync set keeps its own order.
    assert_eq!(
        offline_partition(&ids([2, 4, 6]), &ids([6, 4]), forbidden, among([2, 4, 6])),
        elected(4, [6, 4], [2, 4, 6], clean)
    );
}

#[test]
fn with_the_last_in_sync_replica_gone_only_an_unclean_election_finds_a_leader() {
    let (assignment, isr) = (ids([2, 4]), ids([2]));
    assert_eq!(
        offline_partition(&assignment, &isr, UncleanElection::Forbidden, among([4])),
        Err(Undecided::NoInSyncReplicaOnline)
    );
    assert_eq!(
        offline_partition(&assignment, &isr, UncleanElection::Allowed, among([4])),
        elected(4, [4], [4], Cleanness::Unclean)
    );
    assert_eq!(
        offline_partition(&assignment, &isr, UncleanElection::Allowed, among([])),
        Err(Undecided::NoReplicaOnline)
    );
}

#[test]
fn an_unclean_election_is_not_held_while_an_in_sync_replica_is_online_even_if_it_is_not_assigned() {
    assert_eq!(
        offline_partition(
            &ids([2, 4]),
            &ids([9]),
            UncleanElection::Allowed,
            among([4, 9])
        ),
        Err(Undecided::InSyncReplicasNotAssigned)
    );
}

#[test]
fn a_reassignment_is_led_by_the_first_target_that_is_online_and_in_sync() {
    let target = ids([2, 4]);
    assert_eq!(
        reassign(&target, &ids([2, 4]), among([4])),
        elected(4, [2, 4], [2, 4], Cleanness::Clean)
    );
    let nobody = Err(Undecided::NoTargetReplicaInSync);
    assert_eq!(reassign(&target, &ids([2]), among([])), nobody);
    assert_eq!(reassign(&target, &ids([]), among([2])), nobody);
}

#[test]
fn only_the_preferred_replica_wins_a_preferred_election_and_only_if_online_and_in_sync() {
    let assignment = ids([2, 4]);
    assert_eq!(
        preferred_replica(&assignment, &ids([4, 2]), among([2, 4])),
        elected(2, [4, 2], [2, 4], Cleanness::Clean)
    );
    let nobody = Err(Undecided::PreferredReplicaNotInSync);
    for (isr, online) in [
        (ids([2]), vec![]),
        (ids([4]), vec![2, 4]),
        (ids([]), vec![]),
        (ids([2, 4]), vec![4]),
    ] {
        let result = preferred_replica(&assignment, &isr, |id| online.contains(&id.0));
        assert_eq!(result, nobody, "in sync {isr}, online {online:?}");
    }
    assert_eq!(
        preferred_replica(&ids([]), &ids([2]), among([2])),
        nobody,
        "no replicas"
    );
}

#[test]
fn a_leaving_leader_hands_over_to_an_in_sync_replica_that_stays() {
    let assignment = ids([2, 4]);
    let leaving =
        |ids: &[i32]| -> BTreeSet<BrokerId> { ids.iter().map(|id| BrokerId(*id)).collect() };
    assert_eq!(
        controlled_shutdown(&assignment, &ids([2, 4]), &leaving(&[2]), among([2, 4])),
        elected(4, [4], [2, 4], Cleanness::Clean),
        "the leaving broker hears of it too"
    );
    let nobody = Err(Undecided::AllInSyncReplicasShuttingDown);
    assert_eq!(
        controlled_shutdown(&assignment, &ids([2]), &leaving(&[2]), among([2, 4])),
        nobody
    );
    assert_eq!(
        controlled_shutdown(&assignment, &ids([2, 4]), &leaving(&[2, 4]), among([2, 4])),
        nobody
    );
}

#[test]
fn all_that_are_leaving_go_from_the_in_sync_set_at_once() {
    let leaving = [BrokerId(2), BrokerId(4)].into();
    assert_eq!(
        controlled_shutdown(&ids([2, 4, 6]), &ids([2, 4, 6]), &leaving, among([2, 4, 6])),
        elected(6, [6], [2, 4, 6], Cleanness::Clean)
    );
}
