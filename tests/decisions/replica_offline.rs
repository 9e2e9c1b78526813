//! Runs a row of `replica_offline.txt`: replicas of one partition go offline, and ZooKeeper agrees.
//!
//! Must never say what should be left. Upstream: `ReplicaStateMachineTest`.

use klamm::effect::{ReplicaDisposal, ZkOutcome};
use klamm::machine::replica::OfflineChange;
use klamm::machine::request_batch::ControllerBrokerRequestBatch;
use klamm::machine::{Decision, Fetched, StateChange};
use klamm::model::{BrokerId, BrokerIds, ControllerEpoch, Replica, ReplicaAssignment};
use klamm::state::{ControllerContext, PartitionState, ReplicaState};

use crate::given::{self, OUR_EPOCH, partition};
use crate::table::{Given, Outcome, list, variant};

/// Decides, writes and applies.
pub fn run(given: &Given<'_>) -> Outcome {
    let mut context = context(given);
    let gone: Vec<Replica> = given.numbers("gone").into_iter().map(replica).collect();
    let change = OfflineChange::new(gone.clone());
    let decision = change.decide(&context, &Fetched::default());
    let why = why(&decision);
    let outcomes: Vec<ZkOutcome> = decision
        .planned
        .iter()
        .map(|_| ZkOutcome::Written { version: 8 })
        .collect();
    let mut batch = ControllerBrokerRequestBatch::new();
    let applied = change.apply(&mut context, decision, &outcomes, &mut batch);

    let is_offline = |replica: &Replica| context.replica_state(replica) == ReplicaState::Offline;
    assert_eq!(gone.iter().all(is_offline), applied.refused.is_empty());
    given::assert_sound(&context);
    let mut outcome = Outcome::from([
        (
            "wrote",
            if outcomes.is_empty() { "no" } else { "yes" }.to_owned(),
        ),
        ("why", why),
    ]);
    if let Some(held) = context.leadership(&partition()) {
        outcome.insert("new leader", held.leader.to_string());
        outcome.insert("new isr", list(held.isr.iter().map(|id| id.0)));
        outcome.insert("epoch", held.leader_epoch.to_string());
    }
    outcome.extend(requests(&context, batch));
    outcome
}

fn replica(id: i32) -> Replica {
    Replica {
        partition: partition(),
        broker: BrokerId(id),
    }
}

fn context(given: &Given<'_>) -> ControllerContext {
    let replicas = given.numbers("replicas");
    let assignment = ReplicaAssignment::settled(BrokerIds::from(replicas.as_slice()));
    let mut context = given::context(&replicas, assignment);
    let state = match given.text("leader") {
        "unknown" => PartitionState::New,
        _ => {
            let writer = match given.text("writer") {
                "ours" => OUR_EPOCH,
                "later" => ControllerEpoch(OUR_EPOCH.0 + 1),
                _ => given.senseless("writer"),
            };
            let read = given::state(given.number("leader"), &given.numbers("isr"), writer);
            context.put_leadership(&partition(), read);
            // The partition machine is asked first: it has seen that the leader goes.
            let leader = given.number("leader");
            if leader < 0 || given.numbers("gone").contains(&leader) {
                PartitionState::Offline
            } else {
                PartitionState::Online
            }
        }
    };
    context.put_partition_state(&partition(), state);
    for id in replicas {
        context.put_replica_state(&replica(id), ReplicaState::Online);
    }
    match given.text("topic") {
        "kept" => {}
        "going" => context.queue_for_deletion(&partition().topic),
        _ => given.senseless("topic"),
    }
    context
}

/// The reason of the write, or of the refusal; empty where neither was needed.
fn why(decision: &Decision) -> String {
    match (decision.planned.as_slice(), decision.refused.as_slice()) {
        ([planned], []) => variant(&planned.reason),
        ([], [refused, ..]) => variant(&refused.reason),
        ([], []) => String::new(),
        other => panic!("one partition, one answer: {other:?}"),
    }
}

/// Who hears of the state, and who is told to stop.
fn requests(context: &ControllerContext, batch: ControllerBrokerRequestBatch) -> Outcome {
    let Some(requests) = batch.into_requests(context) else {
        return Outcome::new();
    };
    for stopped in requests.stop_replica.values().flatten() {
        for partition in &stopped.partitions {
            assert_eq!(partition.disposal, ReplicaDisposal::Keep);
        }
    }
    Outcome::from([
        ("told", list(requests.leader_and_isr.keys().map(|id| id.0))),
        ("stopped", list(requests.stop_replica.keys().map(|id| id.0))),
    ])
}
