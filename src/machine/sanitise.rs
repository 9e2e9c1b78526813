//! Takes klamms out of assignments before anybody is elected: a klamm never keeps a replica.
//!
//! For partitions without state only, where an assignment is inert still; one that has state is moved by a reassignment.
//! Must never choose by chance or by the order of a hash: two runs over one cluster choose alike. No upstream counterpart:
//! to a Java broker a klamm looks like an empty broker, which automatic creation and balancers love to fill.

use std::collections::BTreeMap;

use crate::model::{BrokerId, BrokerIds, BrokerRegistration, ReplicaAssignment};
use crate::state::ControllerContext;

/// How many replicas each broker hosts, with those that were just placed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    replicas: BTreeMap<BrokerId, u64>,
}

impl Load {
    /// The load of every assignment that the context holds.
    pub fn of(context: &ControllerContext) -> Load {
        let mut load = Load::default();
        for topic in context.topics().values() {
            for partition in topic.partitions.values() {
                load.add(&partition.assignment.replicas);
            }
        }
        load
    }

    /// Adds the replicas of an assignment that the context doesn't hold yet.
    pub fn add(&mut self, replicas: &BrokerIds) {
        for id in replicas.iter() {
            self.place(id);
        }
    }

    /// Replicas on `broker`.
    pub fn on(&self, broker: BrokerId) -> u64 {
        self.replicas.get(&broker).copied().unwrap_or(0)
    }

    fn place(&mut self, broker: BrokerId) {
        *self.replicas.entry(broker).or_default() += 1;
    }
}

/// Nobody else stands in the assignment and no genuine broker is live: the partition has to wait for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its replicas {replicas} are klamms only and no genuine broker is live to take their place; it is created as soon as one starts"
)]
pub struct NobodyToTakeIt {
    /// The assignment as it stands in ZooKeeper.
    pub replicas: BrokerIds,
}

/// Whether a klamm stands in an assignment.
pub fn names_klamm(context: &ControllerContext, assignment: &ReplicaAssignment) -> bool {
    let klamms = context.klamm_ids();
    let lists = [
        &assignment.replicas,
        &assignment.adding,
        &assignment.removing,
    ];
    lists
        .iter()
        .any(|ids| ids.iter().any(|id| klamms.contains(&id)))
}

/// `assignment` with a genuine live broker in the place of each klamm, or `None` if no klamm stands in it.
///
/// Taken is the broker with the fewest replicas that isn't in the list yet, then the lowest id; a rack not used yet goes
/// before load if every broker has a rack. The order stays, the head too, or auto-created topics would all prefer the
/// brokers that happened to follow. With no broker left to take, the list gets shorter; a klamm that a reassignment is
/// about to remove is removed. `load` is raised for every broker taken.
///
/// # Errors
/// If the list would become empty.
pub fn without_klamm(
    context: &ControllerContext,
    assignment: &ReplicaAssignment,
    load: &mut Load,
) -> Result<Option<ReplicaAssignment>, NobodyToTakeIt> {
    let klamms = context.klamm_ids();
    if !names_klamm(context, assignment) {
        return Ok(None);
    }
    let genuine: Vec<BrokerId> = assignment
        .replicas
        .iter()
        .filter(|id| !klamms.contains(id))
        .collect();
    let is_dropped = |id| !genuine.is_empty() && assignment.removing.contains(id);

    let mut taken = genuine.clone();
    let mut stand_ins: BTreeMap<BrokerId, BrokerId> = BTreeMap::new();
    for id in assignment.replicas.iter().filter(|id| klamms.contains(id)) {
        if is_dropped(id) || stand_ins.contains_key(&id) {
            continue;
        }
        if let Some(stand_in) = least_loaded(context, &taken, load) {
            load.place(stand_in);
            taken.push(stand_in);
            stand_ins.insert(id, stand_in);
        }
    }
    let rewrite = |ids: &BrokerIds| -> BrokerIds {
        ids.iter()
            .filter_map(|id| {
                if klamms.contains(&id) {
                    stand_ins.get(&id).copied()
                } else {
                    Some(id)
                }
            })
            .collect()
    };
    let replicas = rewrite(&assignment.replicas);
    if replicas.is_empty() {
        return Err(NobodyToTakeIt {
            replicas: assignment.replicas.clone(),
        });
    }
    Ok(Some(ReplicaAssignment {
        replicas,
        adding: rewrite(&assignment.adding),
        removing: assignment
            .removing
            .iter()
            .filter(|id| !klamms.contains(id))
            .collect(),
    }))
}

/// The genuine live broker outside `taken` that is to host one more replica.
fn least_loaded(context: &ControllerContext, taken: &[BrokerId], load: &Load) -> Option<BrokerId> {
    let every_broker_has_a_rack = genuine(context).all(|known| known.broker.rack.is_some());
    let rack_is_used = |candidate: &BrokerRegistration| {
        every_broker_has_a_rack
            && taken.iter().any(|id| {
                context
                    .registration(*id)
                    .is_some_and(|known| known.broker.rack == candidate.broker.rack)
            })
    };
    genuine(context)
        .filter(|known| context.is_live(known.broker.id) && !taken.contains(&known.broker.id))
        .min_by_key(|known| {
            (
                rack_is_used(known),
                load.on(known.broker.id),
                known.broker.id,
            )
        })
        .map(|known| known.broker.id)
}

/// Every registered broker that is no klamm.
fn genuine(context: &ControllerContext) -> impl Iterator<Item = &BrokerRegistration> {
    context
        .live_or_shutting_down_brokers()
        .filter(|known| !context.klamm_ids().contains(&known.broker.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::small_cluster::{self, put_partition, registration};

    /// Brokers 1 to 4 live, 9 and 8 klamms; 1 hosts 3 replicas, 2 hosts 2, 3 hosts 1, 4 none.
    fn cluster() -> ControllerContext {
        let mut context = small_cluster::of_brokers(&[1, 2, 3, 4]);
        context.set_klamm_ids([BrokerId(8), BrokerId(9)].into());
        put_partition(&mut context, "t", 0, &[1, 2, 3]);
        put_partition(&mut context, "t", 1, &[1, 2]);
        put_partition(&mut context, "t", 2, &[1]);
        context
    }

    fn assignment(replicas: &[i32], adding: &[i32], removing: &[i32]) -> ReplicaAssignment {
        ReplicaAssignment {
            replicas: BrokerIds::from(replicas),
            adding: BrokerIds::from(adding),
            removing: BrokerIds::from(removing),
        }
    }

    /// The replicas afterwards.
    fn sanitised(context: &ControllerContext, load: &mut Load, replicas: &[i32]) -> Vec<i32> {
        let rewritten = without_klamm(context, &assignment(replicas, &[], &[]), load).unwrap();
        rewritten.unwrap().replicas.as_i32s().to_vec()
    }

    #[test]
    fn an_assignment_without_klamm_is_left_alone_and_costs_no_load() {
        let context = cluster();
        let mut load = Load::of(&context);
        let before = load.clone();
        for replicas in [&[1, 2][..], &[7], &[]] {
            assert_eq!(
                without_klamm(&context, &assignment(replicas, &[], &[]), &mut load),
                Ok(None)
            );
        }
        assert_eq!(load, before);
    }

    #[test]
    fn load_counts_every_replica_of_the_context() {
        let load = Load::of(&cluster());
        let counted = [1, 2, 3, 4, 9].map(|id| load.on(BrokerId(id)));
        assert_eq!(counted, [3, 2, 1, 0, 0]);
    }

    #[test]
    fn the_least_loaded_broker_takes_the_place_at_the_same_position() {
        let context = cluster();
        let table: [(&[i32], &[i32]); 5] = [
            (&[9], &[4]),
            (&[9, 1, 2], &[4, 1, 2]),
            (&[1, 9, 2], &[1, 4, 2]),
            (&[4, 9], &[4, 3]),
            (&[9, 1, 8], &[4, 1, 3]),
        ];
        for (before, after) in table {
            let mut load = Load::of(&context);
            assert_eq!(sanitised(&context, &mut load, before), after, "{before:?}");
        }
    }

    #[test]
    fn one_placement_after_the_other_spreads_over_the_brokers() {
        let context = cluster();
        let mut load = Load::of(&context);
        let heads: Vec<i32> = (0..6)
            .map(|_| sanitised(&context, &mut load, &[9])[0])
            .collect();
        assert_eq!(heads, [4, 3, 4, 2, 3, 4]);
    }

    #[test]
    fn brokers_that_are_dead_or_leaving_take_nothing() {
        let mut context = cluster();
        context.begin_shutting_down(BrokerId(4));
        context.remove_live_broker(BrokerId(3));
        let mut load = Load::of(&context);
        assert_eq!(sanitised(&context, &mut load, &[9, 1]), [2, 1]);
    }

    #[test]
    fn a_dead_genuine_replica_keeps_its_place() {
        let context = cluster();
        let mut load = Load::of(&context);
        assert_eq!(sanitised(&context, &mut load, &[9, 77]), [4, 77]);
    }

    #[test]
    fn with_no_broker_left_the_list_gets_shorter() {
        let context = cluster();
        let mut load = Load::of(&context);
        assert_eq!(
            sanitised(&context, &mut load, &[9, 1, 2, 3, 8, 4]),
            [1, 2, 3, 4]
        );
        assert_eq!(
            sanitised(&context, &mut load, &[9, 1, 2, 3, 8]),
            [4, 1, 2, 3]
        );
    }

    #[test]
    fn an_assignment_of_klamms_alone_waits_where_nobody_is_live() {
        let mut context = ControllerContext::new();
        context.set_klamm_ids([BrokerId(8), BrokerId(9)].into());
        let outcome = without_klamm(
            &context,
            &assignment(&[9, 8], &[], &[]),
            &mut Load::default(),
        );
        assert_eq!(
            outcome,
            Err(NobodyToTakeIt {
                replicas: BrokerIds::from([9, 8])
            })
        );
    }

    fn with_racks(racks: &[(i32, Option<&str>)]) -> ControllerContext {
        let mut context = small_cluster::of_brokers(&[]);
        context.set_klamm_ids([BrokerId(9)].into());
        for (id, rack) in racks {
            let mut racked = registration(*id);
            racked.broker.rack = rack.map(Into::into);
            context.add_live_broker(racked);
        }
        context
    }

    #[test]
    fn an_unused_rack_goes_before_load_if_every_broker_has_a_rack() {
        let mut context = with_racks(&[(1, Some("a")), (2, Some("a")), (3, Some("b"))]);
        put_partition(&mut context, "t", 0, &[3]);
        let mut load = Load::of(&context);
        assert_eq!(sanitised(&context, &mut load, &[1, 9]), [1, 3]);
        assert_eq!(sanitised(&context, &mut load, &[9, 3, 1]), [2, 3, 1]);
    }

    #[test]
    fn racks_count_for_nothing_while_one_broker_has_none() {
        let mut context = with_racks(&[(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, None)]);
        put_partition(&mut context, "t", 0, &[3, 4]);
        let mut load = Load::of(&context);
        assert_eq!(sanitised(&context, &mut load, &[1, 9]), [1, 2]);
    }

    #[test]
    fn a_klamm_that_is_being_added_is_replaced_there_too_and_one_being_removed_goes() {
        let context = cluster();
        let table = [
            (
                assignment(&[9, 1], &[9], &[]),
                assignment(&[4, 1], &[4], &[]),
            ),
            (assignment(&[1, 9], &[], &[9]), assignment(&[1], &[], &[])),
            (assignment(&[9], &[], &[9]), assignment(&[4], &[], &[])),
            (
                assignment(&[1, 2], &[9], &[9]),
                assignment(&[1, 2], &[], &[]),
            ),
        ];
        for (before, after) in table {
            let mut load = Load::of(&context);
            let rewritten = without_klamm(&context, &before, &mut load);
            assert_eq!(rewritten, Ok(Some(after)), "{before:?}");
        }
    }

    #[test]
    fn a_klamm_that_stands_in_the_live_brokers_by_mistake_takes_nothing() {
        let mut context = small_cluster::of_brokers(&[8, 1]);
        context.set_klamm_ids([BrokerId(8), BrokerId(9)].into());
        put_partition(&mut context, "t", 0, &[1]);
        let mut load = Load::of(&context);
        assert_eq!(sanitised(&context, &mut load, &[9]), [1]);
    }
}
