//! Runs a row of `alter_partition.txt`: one request for one partition, and what ZooKeeper makes of it.
//!
//! Must never say which answer is right. Upstream: `ControllerIntegrationTest.testAlterPartition*`.

use klamm::effect::{Incarnation, TopicReference, ZkOutcome, ZkWrite};
use klamm::event::{AlterPartitionItem, AlterPartitionRequest};
use klamm::machine::isr::{self, AlterPartitionApplied};
use klamm::model::{
    BrokerId, BrokerIds, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, ReplicaAssignment,
    TopicId, TopicName,
};
use klamm::state::{ControllerContext, PartitionState};

use crate::given::{self, OUR_EPOCH, partition, registration};
use crate::table::{Given, Outcome, list};

/// Decides, writes as ZooKeeper would, and applies.
pub fn run(given: &Given<'_>) -> Outcome {
    let mut context = context();
    let before = context.leadership(&partition()).cloned();
    let request = request(given);
    let admitted = isr::admit(&context, request.from);
    assert_eq!(admitted, Ok(()), "every row is about a registered broker");
    let decision = isr::decide(&context, &request);
    let wrote = decision.writes.first().map(shown);
    let outcomes: Vec<ZkOutcome> = decision
        .writes
        .iter()
        .map(|write| zookeeper(given, write))
        .collect();
    if outcomes.is_empty() && !given.text("zookeeper").is_empty() {
        given.senseless("zookeeper");
    }
    let applied = isr::apply(&mut context, &request, decision, &outcomes);

    let is_known = given.text("topic") == "known";
    let announced = if is_known {
        vec![partition()]
    } else {
        Vec::new()
    };
    assert_eq!(applied.announce, announced);
    let was_written = matches!(outcomes.as_slice(), [ZkOutcome::Written { .. }]);
    let after = context.leadership(&partition()).cloned();
    assert_eq!(before != after, was_written);
    given::assert_sound(&context);
    Outcome::from([
        ("answer", answer(&applied)),
        ("wrote", wrote.unwrap_or_default()),
        ("reread", yes_no(!applied.reread.is_empty())),
    ])
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn topic_id() -> TopicId {
    TopicId::new([7; 16]).unwrap()
}

/// The cluster at the top of the table.
fn context() -> ControllerContext {
    let replicas = BrokerIds::from([1, 2, 3, 4]);
    let mut context = given::context(&[1, 2, 3, 4, 5], ReplicaAssignment::settled(replicas));
    context.put_topic(&partition().topic, Some(topic_id()), 0);
    context.begin_shutting_down(BrokerId(4));
    context.put_leadership(&partition(), given::state(1, &[1, 2, 3], OUR_EPOCH));
    context.put_partition_state(&partition(), PartitionState::Online);
    context
}

fn request(given: &Given<'_>) -> AlterPartitionRequest {
    let version = i16::try_from(given.number("version")).unwrap();
    let topic = match (given.text("topic"), version) {
        ("known", 0..=1) => TopicReference::Name(partition().topic),
        ("known", _) => TopicReference::Id(topic_id()),
        ("unknown", 0..=1) => TopicReference::Name(TopicName::new("nowhere")),
        ("unknown", _) => TopicReference::Id(TopicId::new([8; 16]).unwrap()),
        _ => given.senseless("topic"),
    };
    let from = given.number("from");
    AlterPartitionRequest {
        version,
        from: Incarnation {
            broker: BrokerId(from),
            epoch: registration(from).epoch,
        },
        partitions: vec![AlterPartitionItem {
            topic,
            partition: 0,
            leader_epoch: LeaderEpoch(given.number("leader epoch")),
            new_isr: BrokerIds::from(given.numbers("isr").as_slice()),
            leader_recovery_state: match given.text("recovery") {
                "recovered" => LeaderRecoveryState::Recovered,
                "recovering" => LeaderRecoveryState::Recovering,
                _ => given.senseless("recovery"),
            },
            partition_epoch: PartitionEpoch(given.number("partition epoch")),
        }],
    }
}

/// The write, which never touches who leads under which epoch.
fn shown(write: &ZkWrite) -> String {
    let ZkWrite::SetState {
        leader_and_isr,
        controller_epoch,
        expected,
        ..
    } = write
    else {
        panic!("not the write of a state: {write:?}");
    };
    assert_eq!(leader_and_isr.leader, BrokerId(1));
    assert_eq!(leader_and_isr.leader_epoch, LeaderEpoch(5));
    assert_eq!(*controller_epoch, OUR_EPOCH);
    format!(
        "{} at {expected}",
        list(leader_and_isr.isr.iter().map(|id| id.0))
    )
}

fn zookeeper(given: &Given<'_>, write: &ZkWrite) -> ZkOutcome {
    let ZkWrite::SetState { expected, .. } = write else {
        panic!("not the write of a state: {write:?}");
    };
    match given.text("zookeeper") {
        "written" => ZkOutcome::Written {
            version: expected.0 + 1,
        },
        "conflict" => ZkOutcome::VersionConflict,
        "missing" => ZkOutcome::Missing,
        "refused" => ZkOutcome::Refused("no permission".to_owned()),
        _ => given.senseless("zookeeper"),
    }
}

fn answer(applied: &AlterPartitionApplied) -> String {
    let [answer] = applied.answers.as_slice() else {
        panic!("one partition, one answer: {applied:?}");
    };
    match &answer.result {
        Err(code) => code.name().into_owned(),
        Ok(state) => format!(
            "{} at {}",
            list(state.isr.iter().map(|id| id.0)),
            state.partition_epoch()
        ),
    }
}
