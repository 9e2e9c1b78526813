//! What a report says of clusters that may be taken over, that differ, and that forbid it.

use super::*;
use crate::effect::{Incarnation, StateRead, Term};
use crate::machine::fixture::ids;
use crate::model::{
    Broker, BrokerEpoch, BrokerIds, ControllerEpoch, Features, LeaderEpoch, LeaderRecoveryState,
    PartitionEpoch, ReplicaAssignment, SecurityProtocol, SharedSetting,
};
use crate::port::BrokerSurvey;

const KLAMM: BrokerId = BrokerId(900);

fn registration(id: i32) -> BrokerRegistration {
    let endpoint = Endpoint {
        listener: "PLAINTEXT".into(),
        host: "h".into(),
        port: 9_090 + id,
        security_protocol: SecurityProtocol::Plaintext,
    };
    BrokerRegistration {
        broker: Broker {
            id: BrokerId(id),
            endpoints: vec![endpoint],
            rack: None,
            features: Features::new(),
        },
        epoch: BrokerEpoch(100 + i64::from(id)),
        json_version: 5,
    }
}

fn settings(partitions: &str) -> SharedSettings {
    let values = [
        (SharedSetting::NumPartitions, partitions),
        (SharedSetting::DeleteTopicEnable, "true"),
    ];
    let values = values.into_iter();
    values.map(|(key, value)| (key, value.to_owned())).collect()
}

fn answered(authorizer: Option<&str>) -> SurveyOutcome {
    SurveyOutcome::Answered {
        protocol: "2.8".parse().ok(),
        authorizer: authorizer.map(str::to_owned),
        shared: settings("4"),
    }
}

fn state(leader: i32) -> Read<Committed<LeaderAndIsr>> {
    let read = StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(3),
            isr: ids([1, 2]),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: ControllerEpoch(7),
        partition_epoch: PartitionEpoch(4),
    };
    Read::Found(read.into())
}

/// All that a check is given.
struct Given {
    terms: Terms,
    seen: Seen,
    outcomes: BTreeMap<BrokerId, SurveyOutcome>,
}

impl Given {
    /// Two brokers, led by broker 1; the topic `t` with one partition, led by broker 1 too.
    fn healthy() -> Given {
        let view = RoleView {
            epoch: Some(Term {
                epoch: ControllerEpoch(7),
                epoch_zk_version: 8,
            }),
            holder: Holder::Broker {
                id: BrokerId(1),
                version: 0,
            },
            own_registration: None,
            on_hold: false,
            migrating: false,
        };
        let mut given = Given {
            terms: Terms {
                own_id: KLAMM,
                listeners: registration(900).broker.endpoints,
                takeover: TakeoverPolicy::Always,
                protocol: None,
                delete_topic_enable: true,
                shared: settings("4"),
            },
            seen: Seen {
                role: Ok(view),
                klamm_ids: BTreeSet::new(),
                brokers: vec![registration(1), registration(2)],
                topics: Vec::new(),
                states: BTreeMap::new(),
                deletions: Vec::new(),
                reassignment: Read::Missing,
                preferred: Read::Missing,
                feature: Read::Missing,
                broken: Vec::new(),
            },
            outcomes: BTreeMap::new(),
        };
        for id in [1, 2] {
            given.outcomes.insert(BrokerId(id), answered(None));
        }
        given.topic("t", ReplicaAssignment::settled(ids([1, 2])), state(1));
        given
    }

    fn topic(
        &mut self,
        name: &str,
        assignment: ReplicaAssignment,
        state: Read<Committed<LeaderAndIsr>>,
    ) {
        let name = TopicName::new(name);
        let znode = TopicZnode {
            topic_id: None,
            partitions: [(0, assignment)].into(),
            version: 1,
        };
        self.seen.topics.push((name.clone(), Read::Found(znode)));
        self.seen
            .states
            .insert(TopicPartition::new(&name, 0), state);
    }

    fn view(&mut self) -> &mut RoleView {
        self.seen.role.as_mut().unwrap()
    }

    fn report(&self) -> Report {
        let names = self.terms.listeners.iter();
        let mut survey = Survey::new(names.map(|it| it.listener.to_string()).collect());
        survey.register(self.seen.brokers.clone());
        for registration in &self.seen.brokers {
            let broker = registration.broker.id;
            survey.answered(BrokerSurvey {
                incarnation: Incarnation {
                    broker,
                    epoch: registration.epoch,
                },
                outcome: self.outcomes[&broker].clone(),
            });
        }
        let mut report = Report::default();
        assess(&self.terms, &self.seen, &survey, &mut report);
        report
    }
}

#[test]
fn a_healthy_cluster_is_fine_line_by_line() {
    assert_eq!(
        Given::healthy().report().to_string(),
        "\
fine     role      broker 1 holds it, controller epoch 7: klamm takes it
fine     broker    1 at PLAINTEXT://h:9091: inter-broker protocol 2.8-IV1
fine     broker    2 at PLAINTEXT://h:9092: inter-broker protocol 2.8-IV1
fine     settings  as on 2 brokers: delete.topic.enable, num.partitions
fine     topics    1 topic, 1 partition
fine     nodes     every node that a controller reads can be understood
Nothing forbids a takeover: 6 fine"
    );
}

type Change = fn(&mut Given);

/// What is changed, and the standing, subject and beginning or part of the line that must come of it.
fn expect(changes: &[(Change, Standing, &str, &str)]) {
    for (change, standing, about, part) in changes {
        let mut given = Given::healthy();
        change(&mut given);
        let report = given.report();
        assert!(
            report
                .findings
                .iter()
                .any(|it| it.standing == *standing && it.about == *about && it.text.contains(part)),
            "{standing:?} {about} {part}:\n{report}"
        );
        assert_eq!(
            report.allows_takeover(),
            *standing != Standing::Forbids,
            "{part}:\n{report}"
        );
    }
}

#[test]
fn whatever_keeps_klamm_from_the_role_for_good_forbids_it() {
    expect(&[
        (
            |given| given.view().migrating = true,
            Standing::Forbids,
            "role",
            "a KRaft migration is under way",
        ),
        (
            |given| given.view().holder = Holder::Kraft,
            Standing::Forbids,
            "role",
            "a KRaft controller holds it",
        ),
        (
            |given| given.seen.role = Err("ZooKeeper refused /controller_epoch: x".to_owned()),
            Standing::Forbids,
            "role",
            "/controller_epoch",
        ),
        (
            |given| drop(given.outcomes.insert(BrokerId(2), answered(Some("A")))),
            Standing::Forbids,
            "brokers",
            "broker 2 has authorizer.class.name=A",
        ),
        (
            |given| {
                let silent = SurveyOutcome::Silent("connection refused".to_owned());
                given.outcomes.insert(BrokerId(2), silent);
            },
            Standing::Forbids,
            "brokers",
            "1 of 2 registered brokers did not answer",
        ),
        (
            |given| {
                let secured = &mut given.seen.brokers[1].broker.endpoints[0];
                secured.security_protocol = SecurityProtocol::Ssl;
            },
            Standing::Forbids,
            "brokers",
            "broker 2 has the listener PLAINTEXT with SSL",
        ),
        (
            |given| given.seen.brokers[0].broker.endpoints[0].listener = "INTERNAL".into(),
            Standing::Forbids,
            "brokers",
            "a listener named INTERNAL",
        ),
    ]);
}

#[test]
fn everything_that_forbids_is_told_at_once() {
    let mut given = Given::healthy();
    for id in [1, 2] {
        given.outcomes.insert(BrokerId(id), answered(Some("A")));
    }
    given.seen.brokers[0].broker.endpoints[0].listener = "INTERNAL".into();
    let report = given.report();
    assert_eq!(report.count(Standing::Forbids), 3, "{report}");
}

#[test]
fn a_role_that_klamm_would_wait_for_forbids_nothing() {
    expect(&[
        (
            |given| given.view().on_hold = true,
            Standing::Note,
            "role",
            "`klamm takeover` lifts it",
        ),
        (
            |given| given.terms.takeover = TakeoverPolicy::Vacant,
            Standing::Note,
            "role",
            "broker 1 holds the role and klamm.takeover=vacant",
        ),
        (
            |given| {
                given.view().holder = Holder::Klamm {
                    id: BrokerId(901),
                    version: 0,
                }
            },
            Standing::Note,
            "role",
            "klamm 901 holds the role",
        ),
        (
            |given| given.view().holder = Holder::Namesake { version: 0 },
            Standing::Note,
            "role",
            "this klamm runs already",
        ),
        (
            |given| given.view().holder = Holder::Nobody,
            Standing::Fine,
            "role",
            "nobody holds it, controller epoch 7: klamm takes it",
        ),
        (
            |given| {
                given.seen.brokers.clear();
                given.view().epoch = None;
            },
            Standing::Note,
            "brokers",
            "none is registered",
        ),
    ]);
}

#[test]
fn what_the_brokers_have_otherwise_is_told_and_forbids_nothing() {
    expect(&[
        (
            |given| given.terms.shared = settings("1"),
            Standing::Differs,
            "setting",
            "num.partitions is 1 here, but 4 on brokers 1, 2",
        ),
        (
            |given| given.terms.shared = settings("1"),
            Standing::Fine,
            "settings",
            "as on 2 brokers: delete.topic.enable",
        ),
        (
            |given| {
                for outcome in given.outcomes.values_mut() {
                    if let SurveyOutcome::Answered {
                        shared, protocol, ..
                    } = outcome
                    {
                        shared.clear();
                        *protocol = None;
                    }
                }
            },
            Standing::Note,
            "settings",
            "no broker says",
        ),
    ]);
}

#[test]
fn what_is_unfinished_or_without_a_leader_is_told() {
    expect(&[
        (
            |given| given.topic("o", ReplicaAssignment::settled(ids([3])), state(3)),
            Standing::Note,
            "offline",
            "1 partition without a leader that is up",
        ),
        (
            |given| given.topic("n", ReplicaAssignment::settled(ids([1])), Read::Missing),
            Standing::Note,
            "new",
            "n-0",
        ),
        (
            |given| given.topic("k", ReplicaAssignment::settled(ids([1, 900])), state(1)),
            Standing::Note,
            "klamms",
            "klamm moves it to a broker: k-0",
        ),
        (
            |given| given.topic("k", ReplicaAssignment::settled(ids([900])), Read::Missing),
            Standing::Note,
            "klamms",
            "a broker takes its place: k-0",
        ),
        (
            |given| {
                let to = ReplicaAssignment::settled(ids([1])).redirect_to(&ids([2]));
                given.topic("m", to, state(1));
            },
            Standing::Note,
            "reassignment",
            "on the way to other replicas; klamm goes on with it: m-0",
        ),
        (
            |given| given.seen.deletions.push(TopicName::new("t")),
            Standing::Note,
            "deletion",
            "1 topic to be deleted; klamm goes on with it: t",
        ),
        (
            |given| {
                given.topic("d", ReplicaAssignment::settled(ids([1, 3])), state(1));
                given.seen.deletions.push(TopicName::new("d"));
            },
            Standing::Note,
            "deletion",
            "d waits: broker 3 hosts a replica and is down",
        ),
        (
            |given| {
                given.seen.deletions.push(TopicName::new("t"));
                given.terms.delete_topic_enable = false;
            },
            Standing::Note,
            "deletion",
            "the requests to delete t are removed",
        ),
        (
            |given| {
                given.seen.preferred = Read::Found(PreferredElectionZnode {
                    partitions: vec![TopicPartition::new(&TopicName::new("p"), 0)],
                    broken: Vec::new(),
                });
                given.topic("p", ReplicaAssignment::settled(ids([2, 1])), state(1));
            },
            Standing::Note,
            "elections",
            "asks for 1 partition: p-0",
        ),
    ]);
}

fn wanted(topic: &str, replicas: BrokerIds) -> Read<ReassignmentZnode> {
    Read::Found(ReassignmentZnode {
        targets: [(TopicPartition::new(&TopicName::new(topic), 0), replicas)].into(),
        broken: vec!["/admin/reassign_partitions: entry 3 has no topic".to_owned()],
        version: 0,
        czxid: 9,
    })
}

fn finalized(feature: &str, level: i16) -> Read<(FeatureZnode, i32)> {
    let znode = FeatureZnode {
        json_version: 2,
        enabled: true,
        levels: [(feature.to_owned(), (level, level))].into(),
    };
    Read::Found((znode, 0))
}

#[test]
fn what_cannot_be_understood_is_told_by_its_node_and_costs_itself() {
    expect(&[
        (
            |given| given.seen.broken.push("/config/topics/t: x".to_owned()),
            Standing::Broken,
            "node",
            "/config/topics/t: x",
        ),
        (
            |given| given.seen.topics[0].1 = Read::Broken("/brokers/topics/t: x".to_owned()),
            Standing::Broken,
            "node",
            "/brokers/topics/t: x",
        ),
        (
            |given| {
                given.seen.topics[0].1 = Read::Broken("/brokers/topics/t: x".to_owned());
                given.seen.deletions.push(TopicName::new("t"));
            },
            Standing::Broken,
            "node",
            "/admin/delete_topics/t: the topic can't be deleted",
        ),
        (
            |given| given.topic("e", ReplicaAssignment::none(), Read::Missing),
            Standing::Broken,
            "node",
            "/brokers/topics/e: partition e-0 is ignored: its replica list is empty",
        ),
        (
            |given| {
                let state = Read::Broken("/brokers/topics/b/partitions/0/state: x".to_owned());
                given.topic("b", ReplicaAssignment::settled(ids([1])), state);
            },
            Standing::Broken,
            "node",
            "/brokers/topics/b/partitions/0/state: x",
        ),
        (
            |given| given.seen.reassignment = wanted("nowhere", ids([1])),
            Standing::Broken,
            "node",
            "partition nowhere-0 is not reassigned to [1]",
        ),
        (
            |given| given.seen.reassignment = wanted("t", ids([2])),
            Standing::Broken,
            "node",
            "entry 3 has no topic",
        ),
        (
            |given| given.seen.reassignment = wanted("t", ids([2])),
            Standing::Note,
            "reassignment",
            "asks for 1 partition more: t-0",
        ),
        (
            |given| given.seen.feature = Read::Broken("/feature: x".to_owned()),
            Standing::Broken,
            "node",
            "/feature: x",
        ),
        (
            |given| {
                given.seen.preferred = Read::Found(PreferredElectionZnode {
                    partitions: vec![TopicPartition::new(&TopicName::new("gone"), 0)],
                    broken: Vec::new(),
                });
            },
            Standing::Broken,
            "node",
            "the preferred leader of gone-0 is not elected",
        ),
        (
            |given| {
                given.seen.brokers.push(registration(3));
                let silent = SurveyOutcome::Silent("connection refused".to_owned());
                given.outcomes.insert(BrokerId(3), silent);
            },
            Standing::Broken,
            "broker",
            "3 at PLAINTEXT://h:9093: doesn't answer: connection refused",
        ),
        (
            |given| {
                given.seen.brokers.push(registration(3));
                let other = SurveyOutcome::NotZooKeeperMode;
                given.outcomes.insert(BrokerId(3), other);
            },
            Standing::Forbids,
            "brokers",
            "broker 3",
        ),
        (
            |given| {
                given.seen.reassignment = Read::Broken("/admin/reassign_partitions: x".to_owned());
            },
            Standing::Broken,
            "node",
            "/admin/reassign_partitions: x",
        ),
        (
            |given| {
                given.seen.preferred =
                    Read::Broken("/admin/preferred_replica_election: x".to_owned());
            },
            Standing::Broken,
            "node",
            "/admin/preferred_replica_election: x",
        ),
        (
            |given| given.seen.feature = finalized("f", 1),
            Standing::Broken,
            "node",
            "broker 1 is kept out of the cluster",
        ),
        (
            |given| given.seen.topics[0].1 = Read::Missing,
            Standing::Fine,
            "topics",
            "0 topics, 0 partitions",
        ),
        (
            |given| {
                given.seen.brokers.clear();
                given.topic("k", ReplicaAssignment::settled(ids([900])), Read::Missing);
            },
            Standing::Broken,
            "node",
            "partition k-0: its replicas [900] are klamms only",
        ),
    ]);
}

#[test]
fn long_lists_stay_readable() {
    let names: Vec<u32> = (0..25).collect();
    let line = listed(&names);
    assert!(line.ends_with("18, 19 and 5 more"), "{line}");
    assert_eq!(listed(&names[..2]), "0, 1");
}

#[test]
fn every_line_begins_with_how_it_stands_and_the_last_one_counts_them() {
    let mut report = Report::default();
    for (standing, about) in [
        (Standing::Fine, "a"),
        (Standing::Note, "b"),
        (Standing::Differs, "c"),
        (Standing::Broken, "d"),
        (Standing::Broken, "e"),
        (Standing::Forbids, "role"),
    ] {
        report.add(standing, about, "x");
    }
    assert_eq!(
        report.to_string(),
        "\
fine     a     x
note     b     x
differs  c     x
broken   d     x
broken   e     x
forbids  role  x
klamm must not take the role: 1 fine, 1 note, 1 differs, 2 broken, 1 forbids"
    );
}
