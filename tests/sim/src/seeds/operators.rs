//! What operators and clients do: by tools that write ZooKeeper, and by asking the controller.
//!
//! Must never know more than a tool would: it reads ZooKeeper and asks; it never looks into a controller.

use std::collections::BTreeMap;

use klamm::effect::{Incarnation, TopicReference};
use klamm::event::{
    ControllerEvent, CreatePartitionsRequest, CreateTopicsRequest, ElectionType, FeatureUpdate,
    MorePartitions, NewTopic, ScramAlteration, ScramChange, UpgradeType,
};
use klamm::model::{
    BrokerId, BrokerIds, InterBrokerProtocol, ScramCredential, TopicId, TopicName, TopicPartition,
};
use klamm::zk::{paths, znode};

use super::act::Kind;
use super::letters::{MakeEvent, Sender};
use super::simulator::{Deed, Simulator};
use crate::chance::{Chance, Span};
use crate::world::{KLAMM, anonymous};
use crate::zookeeper::CreateMode;

/// Topics share few names, so that one is often deleted and created again.
const NAMES: [&str; 4] = ["t0", "t1", "t2", "t3"];

/// The first protocol whose topics have ids.
const KNOWS_TOPIC_IDS: InterBrokerProtocol = InterBrokerProtocol::new(2, 8, 0);

impl Simulator {
    /// Tries an operator's act.
    pub(super) fn apply_as_operator(&mut self, kind: Kind, chance: &Chance) -> bool {
        match kind {
            Kind::CreateTopicByNode => self.create_topic_by_node(chance, &[]),
            Kind::AutoCreateTopic => {
                // A broker takes every registered node for one that may have replicas.
                let klamms: Vec<i32> = (0..self.climate.klamms as i32)
                    .map(|index| KLAMM + index)
                    .filter(|id| {
                        self.world
                            .zookeeper
                            .look(&paths::broker(BrokerId(*id)))
                            .is_some()
                    })
                    .collect();
                !klamms.is_empty() && self.create_topic_by_node(chance, &klamms)
            }
            Kind::CreateTopicByApi => self.ask_topic(chance),
            Kind::ExpandByNode => self.expand_by_node(chance),
            Kind::ExpandByApi => self.ask_more_partitions(chance),
            Kind::DeleteTopicByNode => self.delete_by_node(chance),
            Kind::DeleteTopicByApi => self.ask_deletion(chance),
            Kind::ReassignByNode => self.reassign_by_node(chance),
            Kind::ReassignByApi => self.ask_reassignment(chance, false),
            Kind::CancelByApi => self.ask_reassignment(chance, true),
            Kind::ListReassignments => self.ask(chance, "the moving partitions", |reply_to| {
                ControllerEvent::ListPartitionReassignments {
                    partitions: None,
                    reply_to,
                }
            }),
            Kind::PreferByNode => self.prefer_by_node(chance),
            Kind::PreferByApi => self.ask_election(chance, ElectionType::Preferred),
            Kind::ElectUncleanly => self.ask_election(chance, ElectionType::Unclean),
            Kind::AllowUnclean => self.allow_unclean(chance),
            Kind::AllowUncleanByDefault => {
                let enabled = *chance
                    .pick(&[None, Some(true), Some(false)])
                    .unwrap_or(&None);
                self.world.configure_unclean("brokers/<default>", enabled);
                true
            }
            Kind::AllocateProducerIds => self.ask_producer_ids(chance),
            Kind::UpdateFeatures => self.ask(chance, "for features", |reply_to| {
                ControllerEvent::UpdateFeatures {
                    updates: vec![FeatureUpdate {
                        feature: "metadata.version".to_owned(),
                        level: 1,
                        upgrade_type: UpgradeType::Upgrade,
                    }],
                    reply_to,
                }
            }),
            Kind::AlterScram => self.ask_scram(chance),
            Kind::LimitCreations => {
                let rate = chance.below(3);
                let config = format!(
                    r#"{{"version":1,"config":{{"controller_mutation_rate":"{rate}.5"}}}}"#
                );
                self.world.configure("clients/c", &config);
                true
            }
            Kind::Compare => self.ask(chance, "whether it knows all", ControllerEvent::Compare),
            Kind::BreakAdminNode => self.break_admin_node(chance),
            Kind::BreakTopicNode => self.break_topic_node(chance),
            Kind::Hold => self.hold(chance),
            Kind::RivalContends => self.rival_contends(chance),
            Kind::ExpireRival => {
                let has_session = self.rival.session().is_some();
                self.rival.expire();
                has_session
            }
            Kind::DeleteController => {
                let is_there = self.world.zookeeper.look(paths::CONTROLLER).is_some();
                self.world.zookeeper.uproot(paths::CONTROLLER);
                is_there
            }
            _ => false,
        }
    }

    // --- asking

    /// A client asks a klamm: the one in office, if one is.
    fn ask(
        &mut self,
        chance: &Chance,
        about: &str,
        event: impl FnOnce(klamm::effect::ReplyTo) -> ControllerEvent + 'static,
    ) -> bool {
        self.ask_as(Sender::Client, chance, about, event)
    }

    /// The same, by one who makes something of the answer.
    fn ask_as(
        &mut self,
        sender: Sender,
        chance: &Chance,
        about: &str,
        event: impl FnOnce(klamm::effect::ReplyTo) -> ControllerEvent + 'static,
    ) -> bool {
        let all: Vec<usize> = (0..self.world.klamms.len()).collect();
        let index = self
            .klamm_in_office()
            .or_else(|| chance.pick(&all).copied());
        let event: MakeEvent = Box::new(event);
        index.is_some_and(|index| self.write_to(index, sender, about.to_owned(), event))
    }

    fn ask_topic(&mut self, chance: &Chance) -> bool {
        let name = self.some_name(chance);
        let is_given = chance.once_in(3);
        let assignments = match is_given {
            true => (0..1 + chance.below(3) as i32)
                .map(|index| (index, self.some_replicas(chance)))
                .collect(),
            false => Vec::new(),
        };
        let topic = NewTopic {
            name: TopicName::new(name),
            num_partitions: (!is_given).then(|| 1 + chance.below(3) as i32),
            replication_factor: (!is_given).then(|| 1 + chance.below(3) as i16),
            assignments,
            configs: Vec::new(),
        };
        let (timeout_ms, validate_only) = (timeout(chance), chance.once_in(8));
        let mut claimant = anonymous();
        claimant.client_id = "c".to_owned();
        let sender = match validate_only {
            true => Sender::Client,
            false => self.maker(name, 1),
        };
        let about = format!("to create {name}");
        self.ask_as(sender, chance, &about, move |reply_to| {
            ControllerEvent::CreateTopics {
                request: CreateTopicsRequest {
                    topics: vec![topic],
                    timeout_ms,
                    validate_only,
                },
                claimant,
                reply_to,
            }
        })
    }

    fn ask_more_partitions(&mut self, chance: &Chance) -> bool {
        let name = self.some_name(chance);
        let count = 2 + chance.below(4);
        let topic = MorePartitions {
            topic: TopicName::new(name),
            count: count as i32,
            assignments: None,
        };
        let timeout_ms = timeout(chance);
        self.ask_as(
            self.maker(name, count as usize),
            chance,
            &format!("for more partitions of {name}"),
            move |reply_to| ControllerEvent::CreatePartitions {
                request: CreatePartitionsRequest {
                    topics: vec![topic],
                    timeout_ms,
                    validate_only: false,
                },
                claimant: anonymous(),
                reply_to,
            },
        )
    }

    /// Who wants a topic of this name to have so many partitions.
    fn maker(&self, name: &str, count: usize) -> Sender {
        let topic = TopicName::new(name);
        let times_gone = self.checks.times_gone(&topic);
        Sender::Making {
            topic,
            count,
            times_gone,
        }
    }

    fn ask_deletion(&mut self, chance: &Chance) -> bool {
        let name = TopicName::new(self.some_name(chance));
        let timeout_ms = timeout(chance);
        let made_at = self.world.zookeeper.look(&paths::topic(&name));
        let made_at = made_at.map(|node| node.stat().czxid);
        let sender = match made_at.filter(|_| timeout_ms > 0) {
            Some(made_at) => Sender::Deleting(name.clone(), made_at),
            None => Sender::Client,
        };
        let about = format!("to delete {name}");
        self.ask_as(sender, chance, &about, move |reply_to| {
            ControllerEvent::DeleteTopics {
                topics: vec![TopicReference::Name(name)],
                timeout_ms,
                claimant: anonymous(),
                reply_to,
            }
        })
    }

    fn ask_reassignment(&mut self, chance: &Chance, cancels: bool) -> bool {
        let partitions = chance.some_of(&self.partitions(), 1 + chance.below(2) as usize);
        if partitions.is_empty() {
            return false;
        }
        let is_any_moving = partitions.iter().any(|at| self.is_moving(at));
        let targets: BTreeMap<TopicPartition, Option<Vec<BrokerId>>> = partitions
            .into_iter()
            .map(|at| (at, (!cancels).then(|| self.some_replicas(chance))))
            .collect();
        let asked = self.ask(chance, &format!("to move {targets:?}"), move |reply_to| {
            ControllerEvent::AlterPartitionReassignments { targets, reply_to }
        });
        asked && (!cancels || is_any_moving)
    }

    fn is_moving(&self, at: &TopicPartition) -> bool {
        let topic = self.world.readable_topic(at.topic.as_str());
        let assignment = topic.and_then(|topic| topic.partitions.get(&at.partition).cloned());
        assignment.is_some_and(|assignment| assignment.is_being_reassigned())
    }

    fn ask_election(&mut self, chance: &Chance, election: ElectionType) -> bool {
        let known = self.partitions();
        let asked = chance.some_of(&known, 2);
        let partitions = (!chance.once_in(3)).then_some(asked);
        if election == ElectionType::Unclean {
            let now_ms = self.now_ms();
            self.checks.unclean_was_asked(partitions.as_deref(), now_ms);
        }
        let timeout_ms = timeout(chance);
        self.ask(
            chance,
            &format!("for leaders of {partitions:?}"),
            move |reply_to| ControllerEvent::ElectLeaders {
                partitions,
                election,
                timeout_ms,
                reply_to,
            },
        )
    }

    fn ask_producer_ids(&mut self, chance: &Chance) -> bool {
        let Some(broker) = chance.pick(&self.climate.brokers).map(|broker| broker.id) else {
            return false;
        };
        let from: Incarnation = self.world.incarnation(broker);
        self.ask(
            chance,
            &format!("for producer ids of broker {broker}"),
            move |reply_to| ControllerEvent::AllocateProducerIds { from, reply_to },
        )
    }

    fn ask_scram(&mut self, chance: &Chance) -> bool {
        let change = match chance.once_in(3) {
            true => ScramChange::Delete,
            false => ScramChange::Upsert {
                iterations: 4_096,
                credential: Some(ScramCredential::new("credential".to_owned())),
            },
        };
        let alteration = ScramAlteration {
            user: "alice".to_owned(),
            mechanism: 1,
            change,
        };
        self.ask(chance, "for other credentials", move |reply_to| {
            ControllerEvent::AlterUserScramCredentials {
                alterations: vec![alteration],
                reply_to,
            }
        })
    }

    // --- by node

    fn create_topic_by_node(&mut self, chance: &Chance, klamms: &[i32]) -> bool {
        let name = self.some_name(chance);
        let path = paths::topic(&TopicName::new(name));
        let is_marked = self
            .world
            .zookeeper
            .look(&paths::topic_deletion(&TopicName::new(name)));
        if self.world.zookeeper.look(&path).is_some() || is_marked.is_some() {
            return false;
        }
        let count = 1 + chance.below(3);
        let lists: Vec<Vec<i32>> = (0..count)
            .map(|_| {
                let mut replicas: Vec<i32> =
                    self.some_replicas(chance).iter().map(|id| id.0).collect();
                if let Some(klamm) = chance.pick(klamms) {
                    let place = chance.below(replicas.len() as u64 + 1) as usize;
                    replicas.insert(place, *klamm);
                }
                replicas
            })
            .collect();
        let lists: Vec<&[i32]> = lists.iter().map(Vec::as_slice).collect();
        self.trace
            .line(self.now_ms(), format_args!("  {name} on {lists:?}"));
        let id = self.some_id_of_topic(chance);
        self.world.write_topic(name, id, &lists);
        true
    }

    /// The id that a tool gives a topic, if it gives it one.
    pub(super) fn some_id_of_topic(&self, chance: &Chance) -> Option<TopicId> {
        let has_id = self.protocol() >= KNOWS_TOPIC_IDS && !chance.once_in(3);
        has_id.then(|| some_topic_id(chance)).flatten()
    }

    fn expand_by_node(&mut self, chance: &Chance) -> bool {
        let Some(name) = self.some_topic(chance) else {
            return false;
        };
        let replicas = self.some_replicas(chance);
        let replicas: Vec<i32> = replicas.iter().map(|id| id.0).collect();
        self.world.add_partition(&name, &replicas);
        true
    }

    fn delete_by_node(&mut self, chance: &Chance) -> bool {
        let Some(name) = self.some_topic(chance) else {
            return false;
        };
        let path = paths::topic_deletion(&TopicName::new(&name));
        if self.world.zookeeper.look(&path).is_none() {
            self.world.zookeeper.poke(&path, b"");
        }
        true
    }

    fn reassign_by_node(&mut self, chance: &Chance) -> bool {
        let partitions = chance.some_of(&self.partitions(), 1 + chance.below(3) as usize);
        let is_free = self
            .world
            .zookeeper
            .look(paths::REASSIGN_PARTITIONS)
            .is_none();
        if partitions.is_empty() || !is_free {
            return false;
        }
        let targets: BTreeMap<TopicPartition, BrokerIds> = partitions
            .into_iter()
            .map(|at| {
                let ids = self.some_replicas(chance);
                let ids: Vec<i32> = ids.iter().map(|id| id.0).collect();
                (at, BrokerIds::from(ids.as_slice()))
            })
            .collect();
        self.trace
            .line(self.now_ms(), format_args!("  {targets:?}"));
        let data = znode::encode_reassignment(&targets);
        self.world.zookeeper.poke(paths::REASSIGN_PARTITIONS, &data);
        true
    }

    fn prefer_by_node(&mut self, chance: &Chance) -> bool {
        let partitions = chance.some_of(&self.partitions(), 2);
        let is_free = self
            .world
            .zookeeper
            .look(paths::PREFERRED_REPLICA_ELECTION)
            .is_none();
        if partitions.is_empty() || !is_free {
            return false;
        }
        let entries: Vec<String> = partitions
            .iter()
            .map(|at| format!(r#"{{"topic":"{}","partition":{}}}"#, at.topic, at.partition))
            .collect();
        let data = format!(r#"{{"version":1,"partitions":[{}]}}"#, entries.join(","));
        self.world
            .zookeeper
            .poke(paths::PREFERRED_REPLICA_ELECTION, data.as_bytes());
        true
    }

    fn allow_unclean(&mut self, chance: &Chance) -> bool {
        let Some(name) = self.some_topic(chance) else {
            return false;
        };
        let enabled = *chance
            .pick(&[None, Some(true), Some(true), Some(false)])
            .unwrap_or(&None);
        self.world
            .configure_unclean(&format!("topics/{name}"), enabled);
        true
    }

    fn break_admin_node(&mut self, chance: &Chance) -> bool {
        let nonsense = *chance
            .pick(&[
                "",
                "{",
                r#"{"version":1,"partitions":[{"topic":"t0"}]}"#,
                "[]",
            ])
            .unwrap_or(&"");
        let nodes = [
            paths::REASSIGN_PARTITIONS,
            paths::PREFERRED_REPLICA_ELECTION,
        ];
        let parents = [
            paths::ISR_CHANGE_NOTIFICATION,
            paths::LOG_DIR_EVENT_NOTIFICATION,
            paths::CONFIG_CHANGES,
        ];
        let hand = self.world.zookeeper.connect_deaf();
        let written = match chance.once_in(2) {
            true => {
                let node = *chance.pick(&nodes).unwrap_or(&paths::REASSIGN_PARTITIONS);
                hand.create(node, nonsense.as_bytes(), CreateMode::Persistent)
            }
            false => {
                let parent = *chance.pick(&parents).unwrap_or(&paths::CONFIG_CHANGES);
                let node = format!("{parent}/nonsense_");
                hand.create(&node, nonsense.as_bytes(), CreateMode::PersistentSequential)
            }
        };
        hand.close();
        written.is_ok()
    }

    fn break_topic_node(&mut self, chance: &Chance) -> bool {
        let Some(name) = self.some_topic(chance) else {
            return false;
        };
        let path = paths::topic(&TopicName::new(&name));
        let Some(node) = self.world.zookeeper.look(&path) else {
            return false;
        };
        self.world.zookeeper.poke(&path, b"{nonsense");
        let deed = Deed::MendTopic(name, node.data().to_vec());
        self.plan(chance.within(Span::new(100, 5_000)), deed);
        true
    }

    fn hold(&mut self, chance: &Chance) -> bool {
        if self.world.zookeeper.look(paths::KLAMM_HOLD).is_some() {
            return false;
        }
        self.world.zookeeper.poke(paths::KLAMM_HOLD, b"");
        self.checks.hold_was_put(self.now_ms());
        self.plan(chance.within(Span::new(1_000, 50_000)), Deed::LiftHold);
        true
    }

    // --- choices

    fn protocol(&self) -> InterBrokerProtocol {
        crate::world::protocol(&self.climate.protocol)
    }

    fn some_name(&self, chance: &Chance) -> &'static str {
        chance.pick(&NAMES).copied().unwrap_or(NAMES[0])
    }

    /// A topic whose node can be read.
    fn some_topic(&self, chance: &Chance) -> Option<String> {
        let names = self.world.zookeeper.look_children(paths::TOPICS);
        let names: Vec<String> = names
            .into_iter()
            .filter(|name| self.world.readable_topic(name).is_some())
            .collect();
        chance.pick(&names).cloned()
    }

    fn some_replicas(&self, chance: &Chance) -> Vec<BrokerId> {
        let brokers = self.climate.brokers.iter();
        let ids: Vec<BrokerId> = brokers.map(|broker| BrokerId(broker.id)).collect();
        chance.some_of(&ids, 1 + chance.below(3) as usize)
    }
}

fn timeout(chance: &Chance) -> i32 {
    *chance.pick(&[0, 1_000, 30_000]).unwrap_or(&0)
}

fn some_topic_id(chance: &Chance) -> Option<TopicId> {
    let bits = u128::from(chance.bits()) << 64 | u128::from(chance.bits());
    TopicId::new(bits.to_be_bytes())
}
