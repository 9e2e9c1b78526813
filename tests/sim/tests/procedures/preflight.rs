//! `klamm check` reads all that a takeover would read, and writes nothing; what ZooKeeper won't show costs itself.

use std::collections::BTreeMap;

use klamm::controller::preflight;
use klamm::machine::candidacy::{Survey, TakeoverPolicy};
use klamm::machine::preflight::{Report, Seen, Standing, Terms, assess};
use klamm::model::{BrokerId, SharedSettings};
use klamm::port::{BrokerSurvey, SurveyOutcome, ZkFault};
use klamm_sim::clock::SimQueue;
use klamm_sim::drive;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::{World, endpoint, protocol};
use klamm_sim::zk_port::{SimZk, TopicWatches};

const CHECKER: BrokerId = BrokerId(9);

/// Brokers 1 and 2 under broker 1's controller; t-0 and t-1, as a klamm that is gone by now has led them.
fn cluster() -> World {
    let mut world = World::led(&[1, 2], "3.9");
    world.create_topic("t", &[&[1, 2], &[2, 1]]);
    world.settle();
    world.klamm().kill();
    world.klamm().expire_session();
    world.java_takes_role(1);
    world
}

/// A port of one who only looks.
fn port(world: &World) -> SimZk {
    let queue = SimQueue::new(&world.time);
    let watches = TopicWatches::Recursive;
    let zk = SimZk::new(&world.zookeeper, CHECKER, &world.time, &queue, watches);
    zk.open_session();
    zk
}

fn read(zk: &SimZk) -> Result<Seen, ZkFault> {
    drive::now(preflight::read(zk, CHECKER))
}

/// The report that an operator is shown; every broker has answered.
fn report(seen: &Seen) -> Report {
    let mut survey = Survey::new(vec!["PLAINTEXT".to_owned()]);
    for registration in survey.register(seen.brokers.clone()) {
        survey.answered(BrokerSurvey {
            incarnation: klamm::effect::Incarnation {
                broker: registration.broker.id,
                epoch: registration.epoch,
            },
            outcome: SurveyOutcome::Answered {
                protocol: Some(protocol("3.9")),
                authorizer: None,
                shared: SharedSettings::new(),
            },
        });
    }
    let terms = Terms {
        own_id: CHECKER,
        listeners: vec![endpoint(CHECKER.0)],
        takeover: TakeoverPolicy::Always,
        protocol: None,
        delete_topic_enable: true,
        shared: SharedSettings::new(),
    };
    let mut report = Report::default();
    assess(&terms, seen, &survey, &mut report);
    report
}

fn broken(seen: &Seen) -> Vec<String> {
    let report = report(seen).findings.into_iter();
    let broken = report.filter(|finding| finding.standing == Standing::Broken);
    broken.map(|finding| finding.text).collect()
}

#[test]
fn a_healthy_cluster_is_read_whole_and_nothing_forbids_a_takeover() {
    let world = cluster();
    let zk = port(&world);
    let before = world.zookeeper.dump();
    let seen = read(&zk).unwrap();
    assert_eq!(world.zookeeper.dump(), before, "nothing is written");
    assert_eq!(seen.brokers.len(), 2);
    assert_eq!(seen.topics.len(), 1);
    let states: BTreeMap<String, String> = seen
        .states
        .iter()
        .map(|(at, read)| {
            (
                at.to_string(),
                read.clone().found().unwrap().leader.to_string(),
            )
        })
        .collect();
    let leaders = [("t-0", "1"), ("t-1", "2")];
    let leaders = leaders.map(|(at, leader)| (at.to_owned(), leader.to_owned()));
    assert_eq!(states, BTreeMap::from(leaders));
    let report = report(&seen);
    assert!(report.allows_takeover(), "{report}");
    assert_eq!(broken(&seen), [""; 0]);
}

#[test]
fn what_is_broken_or_not_shown_is_named_and_costs_itself() {
    let world = cluster();
    let nodes = [
        "/brokers/ids/2",
        "/brokers/topics/u",
        "/brokers/topics/t/partitions/1/state",
        "/config/topics/t",
        "/config/brokers/<default>",
        "/latest_producer_id_block",
        "/isr_change_notification/isr_change_0000000001",
        "/log_dir_event_notification/log_dir_event_0000000001",
        "/config/changes/config_change_0000000001",
        "/delegation_token/tokens/x",
        "/feature",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ];
    for path in nodes {
        world.zookeeper.poke(path, b"{");
        let seen = read(&port(&world)).unwrap();
        let found = broken(&seen);
        assert!(
            found.iter().any(|line| line.contains(path)),
            "{path}: {found:#?}"
        );
        world.zookeeper.conceal(path);
        let found = broken(&read(&port(&world)).unwrap());
        assert!(
            found.iter().any(|line| line.contains(path)),
            "{path} concealed: {found:#?}"
        );
    }
    let seen = read(&port(&world)).unwrap();
    assert_eq!(seen.brokers.len(), 1);
    assert_eq!(seen.states.len(), 2, "what can be read is read");
}

const CALLS: [Call; 16] = [
    Call::KlammIds,
    Call::Brokers,
    Call::TopicNames,
    Call::Topics,
    Call::TopicConfigs,
    Call::PartitionStates,
    Call::DefaultBrokerConfig,
    Call::ProducerIdBlock,
    Call::IsrChangeNotifications,
    Call::LogDirEventNotifications,
    Call::ConfigChangeNames,
    Call::DelegationTokens,
    Call::TopicDeletions,
    Call::PartitionReassignment,
    Call::PreferredReplicaElection,
    Call::Feature,
];

#[test]
fn a_read_that_zookeeper_refuses_is_named_and_the_others_are_made() {
    for call in CALLS {
        let world = cluster();
        let zk = port(&world);
        zk.faults().at_next(call, Fault::Refused("for a test"));
        let seen = read(&zk).unwrap();
        let made = zk.faults().calls();
        assert!(made.contains(&Call::Feature), "{call:?}: it ended early");
        let named = format!("({call:?}): for a test");
        let found = broken(&seen);
        assert!(
            found.iter().any(|line| line.contains(&named)),
            "{call:?}: {found:#?}"
        );
    }
}

#[test]
fn a_role_that_cant_be_read_forbids_a_takeover() {
    let world = cluster();
    let zk = port(&world);
    zk.faults()
        .at_next(Call::RoleView, Fault::Refused("for a test"));
    let seen = read(&zk).unwrap();
    let report = report(&seen);
    assert!(!report.allows_takeover(), "{report}");
    assert!(report.to_string().contains("klamm must not take the role"));
}

#[test]
fn a_session_that_ends_ends_the_check() {
    for call in CALLS.into_iter().chain([Call::RoleView]) {
        let world = cluster();
        let zk = port(&world);
        zk.faults().at_next(call, Fault::SessionLostBefore);
        assert_eq!(read(&zk).unwrap_err(), ZkFault::SessionLost, "{call:?}");
    }
}
