//! Runs a row of `elections.txt`: one partition, one question to the partition machine, and ZooKeeper that agrees.
//!
//! Must never say who should win. Upstream: `PartitionStateMachineTest`.

use klamm::effect::{ElectionConfig, Read, ZkOutcome, ZkWrite};
use klamm::machine::election::{ElectionStrategy, UncleanRule};
use klamm::machine::partition::OnlineChange;
use klamm::machine::request_batch::ControllerBrokerRequestBatch;
use klamm::machine::{Decision, Fetched, Needs, Planned, StateChange};
use klamm::model::{
    BrokerId, BrokerIds, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch, Replica,
    ReplicaAssignment,
};
use klamm::state::{ControllerContext, PartitionState};

use crate::given::{self, OUR_EPOCH, partition};
use crate::table::{Given, Outcome, list, variant};

/// Asks, decides, writes and applies.
pub fn run(given: &Given<'_>) -> Outcome {
    let mut context = context(given);
    let unsound_before = klamm::state::violations(&context);
    let change = OnlineChange::new(vec![partition()], strategy(given));
    let needs = change.needs(&context);
    let fetched = fetch(given, &context, &needs);
    let decision = change.decide(&context, &fetched);
    let outcome = outcome(given, &decision);

    let version = 8;
    let outcomes: Vec<ZkOutcome> = decision
        .planned
        .iter()
        .map(|_| ZkOutcome::Written { version })
        .collect();
    let was_decided = !decision.planned.is_empty();
    let mut batch = ControllerBrokerRequestBatch::new();
    let applied = change.apply(&mut context, decision, &outcomes, &mut batch);
    assert_eq!(applied.done.is_empty(), !was_decided, "{applied:?}");
    if was_decided {
        let held = context.leadership(&partition()).unwrap();
        assert_eq!(list([held.leader.0]), outcome["elected"]);
        assert_eq!(held.partition_epoch(), PartitionEpoch(version));
        let state = context.partition_state(&partition());
        assert_eq!(state, PartitionState::Online);
    }
    let unsound = klamm::state::violations(&context);
    assert!(
        unsound.iter().all(|one| unsound_before.contains(one)),
        "{unsound:#?}"
    );
    outcome
}

fn context(given: &Given<'_>) -> ControllerContext {
    let up: Vec<i32> = given
        .words("up")
        .map(|word| id(given, "up", word))
        .collect();
    let mut context = given::context(&up, assignment(given));
    context.set_protocol(given.text("ibp").parse().unwrap());
    for (word, id) in given.words("up").zip(up) {
        if word.ends_with('~') {
            context.begin_shutting_down(BrokerId(id));
        } else if word.ends_with('!') {
            let replica = Replica {
                partition: partition(),
                broker: BrokerId(id),
            };
            context.set_replica_on_offline_dir(&replica, true);
        }
    }
    let state = match given.text("strategy") {
        "create" => PartitionState::New,
        strategy => {
            let leader = given.number("leader");
            let read = given::state(leader, &given.numbers("isr"), OUR_EPOCH);
            context.put_leadership(&partition(), read);
            let leads_on = context.is_live(BrokerId(leader)) || strategy == "shutdown";
            match leads_on {
                true if strategy != "offline" => PartitionState::Online,
                _ => PartitionState::Offline,
            }
        }
    };
    context.put_partition_state(&partition(), state);
    context
}

/// The number in `+4`, `-3`, `2!` or `1~`.
fn id(given: &Given<'_>, column: &str, word: &str) -> i32 {
    word.trim_start_matches(['+', '-'])
        .trim_end_matches(['!', '~'])
        .parse()
        .unwrap_or_else(|_| given.senseless(column))
}

fn assignment(given: &Given<'_>) -> ReplicaAssignment {
    let marked = |mark: &str| -> BrokerIds {
        given
            .words("replicas")
            .filter(|word| word.starts_with(mark))
            .map(|word| BrokerId(id(given, "replicas", word)))
            .collect()
    };
    ReplicaAssignment {
        replicas: marked(""),
        adding: marked("+"),
        removing: marked("-"),
    }
}

fn strategy(given: &Given<'_>) -> ElectionStrategy {
    match given.text("strategy") {
        "create" | "offline" => ElectionStrategy::OfflinePartition(match given.text("unclean") {
            "forced" => UncleanRule::Always,
            "default-on" => UncleanRule::ByConfig { default: true },
            _ => UncleanRule::ByConfig { default: false },
        }),
        "reassign" => ElectionStrategy::Reassign,
        "preferred" => ElectionStrategy::PreferredReplica,
        "shutdown" => ElectionStrategy::ControlledShutdown,
        _ => given.senseless("strategy"),
    }
}

/// The topic's configuration and state, if they are asked for. The context holds the state as it is, and asks for it only
/// to be sure that nobody can be elected.
fn fetch(given: &Given<'_>, context: &ControllerContext, needs: &Needs) -> Fetched {
    let set = |value| {
        Read::Found(ElectionConfig {
            unclean_leader_election_enable: value,
        })
    };
    let config = match given.text("unclean") {
        "on" => set(Some(true)),
        "off" => set(Some(false)),
        "default-on" | "forced" => set(None),
        "broken" => Read::Broken("/config/topics/t holds no JSON".to_owned()),
        _ => given.senseless("unclean"),
    };
    let mut fetched = Fetched::default();
    for topic in &needs.topic_configs {
        fetched.topic_configs.insert(topic.clone(), config.clone());
    }
    for at in &needs.states {
        let held = context.leadership(at).cloned();
        let read = held.map_or(Read::Missing, Read::Found);
        fetched.states.insert(at.clone(), read);
    }
    fetched
}

fn outcome(given: &Given<'_>, decision: &Decision) -> Outcome {
    match (decision.planned.as_slice(), decision.refused.as_slice()) {
        ([planned], []) => elected(given, planned),
        ([], [refused]) => Outcome::from([
            ("elected", "none".to_owned()),
            ("why", variant(&refused.reason)),
        ]),
        other => panic!("one partition, one answer: {other:?}"),
    }
}

fn elected(given: &Given<'_>, planned: &Planned) -> Outcome {
    let (written, leader_epoch) = match &planned.write {
        ZkWrite::CreateState {
            leader_and_isr,
            controller_epoch: OUR_EPOCH,
            ..
        } if given.text("strategy") == "create" => (leader_and_isr, LeaderEpoch(0)),
        ZkWrite::SetState {
            leader_and_isr,
            controller_epoch: OUR_EPOCH,
            expected: PartitionEpoch(7),
            ..
        } => (leader_and_isr, LeaderEpoch(6)),
        other => panic!("not the write of an election: {other:?}"),
    };
    assert_eq!(written.leader_epoch, leader_epoch);
    let LeaderAndIsr {
        leader,
        isr,
        leader_recovery_state,
        ..
    } = written;
    let state = match leader_recovery_state {
        LeaderRecoveryState::Recovered => "recovered",
        LeaderRecoveryState::Recovering => "recovering",
    };
    Outcome::from([
        ("elected", leader.to_string()),
        ("new isr", list(isr.iter().map(|id| id.0))),
        ("state", state.to_owned()),
        ("told", list(planned.recipients.iter().map(|id| id.0))),
        ("why", variant(&planned.reason)),
    ])
}
