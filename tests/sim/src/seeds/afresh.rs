//! What a world at rest is asked afresh, while no klamm sweeps: a watch that nobody armed again shows here and nowhere else.
//!
//! One thing after another, each to be done and all at rest again in good time. Must never ask where something else is still
//! under way, and must never let a sweep do what a watch should have brought about.

use std::collections::BTreeMap;

use klamm::effect::{Answer, ReplyTo, TopicReference};
use klamm::event::{
    ControllerEvent, CreatePartitionsRequest, CreateTopicsRequest, MorePartitions, NewTopic,
};
use klamm::model::{BrokerId, BrokerIds, TopicName, TopicPartition};
use klamm::zk::{paths, znode};

use super::letters::{Sender, says_made};
use super::simulator::Simulator;
use crate::chance::Chance;
use crate::world::anonymous;

/// The topic that tools make, and the one that a client makes. No act knows these names.
const BY_NODE: &str = "afresh";
const BY_API: &str = "anew";

/// How long anything may take that is asked of a world at rest: less than from one sweep to the next.
const PATIENCE_MS: u64 = 30_000;

/// How long an old broker may wait for an answer before somebody restarts it.
const WEDGED_MS: u64 = 10_000;

/// Within so long a klamm sweeps once, all slices included.
const SWEEP_MS: u64 = 61_000;

/// How often it is looked at.
const LOOK_MS: u64 = 500;

/// What of a wish is not done yet, in words.
type Left<'a> = &'a dyn Fn(&Simulator) -> Vec<String>;

impl Simulator {
    /// Asks one thing after another.
    ///
    /// # Errors
    /// What is not done in time.
    pub(super) fn ask_afresh(&mut self) -> Result<(), String> {
        self.let_refusals_be_made_up_for();
        for klamm in &self.world.klamms {
            klamm.queue.hold_sweeps();
        }
        let chance = Chance::of(self.seed, "afresh");
        let brokers = self.climate.brokers.iter().map(|broker| broker.id);
        let ids: Vec<i32> = brokers.collect();
        let ids = chance.some_of(&ids, ids.len());
        // A shrunk or kept story may have fewer brokers than the draws.
        let &[first, second, ..] = ids.as_slice() else {
            return Ok(());
        };
        let third = ids.get(2).copied().unwrap_or(second);
        self.make_by_node(&chance, [first, second])?;
        self.grow_by_node(first)?;
        self.move_by_node(BTreeMap::from([
            (at(BY_NODE, 0), BrokerIds::from([third, first])),
            (at(BY_NODE, 2), BrokerIds::from([second, first])),
        ]))?;
        self.prefer_afresh()?;
        self.lose_a_leader(&chance)?;
        self.make_by_api()?;
        self.grow_by_api()?;
        self.delete_by_tool()?;
        self.delete_by_client()?;
        self.trace
            .count("worlds at rest that did all that was asked afresh");
        Ok(())
    }

    /// A look that ZooKeeper refused is taken again at the next sweep and not before, as klamm says of itself.
    fn let_refusals_be_made_up_for(&mut self) {
        let in_office = self
            .klamm_in_office()
            .map(|index| &self.world.klamms[index]);
        if in_office.is_some_and(|klamm| klamm.zk().faults().has_refused()) {
            self.run_until(self.now_ms() + SWEEP_MS);
        }
    }

    fn make_by_node(&mut self, chance: &Chance, on: [i32; 2]) -> Result<(), String> {
        let id = self.some_id_of_topic(chance);
        let reversed = [on[1], on[0]];
        self.world.write_topic(BY_NODE, id, &[&on, &reversed]);
        self.must_be_done("to create a topic by node", &|world| {
            world.lacks(BY_NODE, 2)
        })
    }

    fn grow_by_node(&mut self, on: i32) -> Result<(), String> {
        self.world.add_partition(BY_NODE, &[on]);
        self.must_be_done("to add a partition by node", &|world| {
            world.lacks(BY_NODE, 3)
        })
    }

    fn move_by_node(&mut self, targets: BTreeMap<TopicPartition, BrokerIds>) -> Result<(), String> {
        let data = znode::encode_reassignment(&targets);
        self.world.zookeeper.poke(paths::REASSIGN_PARTITIONS, &data);
        self.must_be_done("to move partitions by node", &|world| {
            let elsewhere = targets.iter().filter_map(|(at, target)| {
                let topic = world.world.readable_topic(at.topic.as_str())?;
                let replicas = &topic.partitions.get(&at.partition)?.replicas;
                (replicas != target).then(|| format!("{at} is on {replicas}, not on {target}"))
            });
            elsewhere.collect()
        })
    }

    fn prefer_afresh(&mut self) -> Result<(), String> {
        let entries = (0..3)
            .map(|index| format!(r#"{{"topic":"{BY_NODE}","partition":{index}}}"#))
            .collect::<Vec<String>>();
        let data = format!(r#"{{"version":1,"partitions":[{}]}}"#, entries.join(","));
        self.world
            .zookeeper
            .poke(paths::PREFERRED_REPLICA_ELECTION, data.as_bytes());
        self.must_be_done("for preferred leaders by node", &|world| {
            let preferred = |at: &TopicPartition| {
                let topic = world.world.readable_topic(at.topic.as_str())?;
                topic.partitions.get(&at.partition)?.replicas.iter().next()
            };
            let others = (0..3).map(|index| at(BY_NODE, index)).filter_map(|at| {
                let (leader, preferred) = (world.leader_of(&at), preferred(&at));
                (leader != preferred).then(|| format!("{at} is led by {leader:?}"))
            });
            others.collect()
        })
    }

    /// A broker that leads goes, others lead in its place, and it comes back.
    fn lose_a_leader(&mut self, chance: &Chance) -> Result<(), String> {
        let leaders = (0..3).filter_map(|index| self.leader_of(&at(BY_NODE, index)));
        let leaders: Vec<BrokerId> = leaders.collect();
        let Some(&lost) = chance.pick(&leaders) else {
            return Err(format!("{BY_NODE} has no leader at all"));
        };
        let led: Vec<TopicPartition> = self.partitions();
        let led = led.into_iter().filter(|at| {
            let state = self.world.state(&at.to_string());
            state.is_some_and(|state| {
                let state = state.leader_and_isr;
                state.leader() == Some(lost) && state.isr.iter().any(|id| id != lost)
            })
        });
        let led: Vec<TopicPartition> = led.collect();
        self.world.kill(lost.0);
        let left = |world: &Simulator| {
            let still = led.iter().filter(|at| {
                let leader = world.leader_of(at);
                leader.is_none() || leader == Some(lost)
            });
            still
                .map(|at| format!("{at} is led by {:?}", world.leader_of(at)))
                .collect()
        };
        self.must_come_about("to lead what a dead broker led", false, &left)?;
        self.start_broker(lost.0);
        self.must_be_done("to take a broker back", &|_| Vec::new())
    }

    // --- by API

    fn make_by_api(&mut self) -> Result<(), String> {
        let topic = NewTopic {
            name: TopicName::new(BY_API),
            num_partitions: Some(2),
            replication_factor: Some(2),
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: PATIENCE_MS as i32,
            validate_only: false,
        };
        let event = move |reply_to| ControllerEvent::CreateTopics {
            request,
            claimant: anonymous(),
            reply_to,
        };
        self.ask_of_klamm("to create a topic by API", event)?;
        self.must_be_done("to create a topic by API", &|world| {
            let mut left = world.lacks(BY_API, 2);
            left.extend(world.was_not_told(says_made));
            left
        })
    }

    fn grow_by_api(&mut self) -> Result<(), String> {
        let request = CreatePartitionsRequest {
            topics: vec![MorePartitions {
                topic: TopicName::new(BY_API),
                count: 3,
                assignments: None,
            }],
            timeout_ms: PATIENCE_MS as i32,
            validate_only: false,
        };
        let event = move |reply_to| ControllerEvent::CreatePartitions {
            request,
            claimant: anonymous(),
            reply_to,
        };
        self.ask_of_klamm("to add a partition by API", event)?;
        self.must_be_done("to add a partition by API", &|world| {
            let mut left = world.lacks(BY_API, 3);
            left.extend(world.was_not_told(says_made));
            left
        })
    }

    fn delete_by_tool(&mut self) -> Result<(), String> {
        let path = paths::topic_deletion(&TopicName::new(BY_NODE));
        self.world.zookeeper.poke(&path, b"");
        self.must_be_done("to delete a topic by node", &|world| {
            world.is_left_of(BY_NODE)
        })
    }

    fn delete_by_client(&mut self) -> Result<(), String> {
        let event = |reply_to| ControllerEvent::DeleteTopics {
            topics: vec![TopicReference::Name(TopicName::new(BY_API))],
            timeout_ms: PATIENCE_MS as i32,
            claimant: anonymous(),
            reply_to,
        };
        self.ask_of_klamm("to delete a topic by API", event)?;
        self.must_be_done("to delete a topic by API", &|world| {
            let mut left = world.is_left_of(BY_API);
            left.extend(world.was_not_told(|answer| {
                matches!(answer, Answer::DeleteTopics(Ok(said))
                    if said.iter().all(|topic| topic.result.is_ok()))
            }));
            left
        })
    }

    fn ask_of_klamm(
        &mut self,
        about: &str,
        event: impl FnOnce(ReplyTo) -> ControllerEvent + 'static,
    ) -> Result<(), String> {
        self.heard_afresh = None;
        let about = about.to_owned();
        let asked = self.klamm_in_office().is_some_and(|index| {
            self.write_to(index, Sender::Afresh, about.clone(), Box::new(event))
        });
        match asked {
            true => Ok(()),
            false => Err(format!("nobody can be asked afresh {about}")),
        }
    }

    // --- waiting

    /// What was asked must be done, and all at rest.
    fn must_be_done(&mut self, what: &str, left: Left<'_>) -> Result<(), String> {
        self.must_come_about(what, true, left)
    }

    /// What was asked must be done; `rests`: and all must be at rest.
    fn must_come_about(&mut self, what: &str, rests: bool, left: Left<'_>) -> Result<(), String> {
        let began_ms = self.now_ms();
        self.trace.line(began_ms, format_args!("afresh {what}"));
        loop {
            self.run_until(self.now_ms() + LOOK_MS);
            let mut found = left(self);
            if found.is_empty() && rests {
                found = self.unrest();
            }
            if found.is_empty() {
                return Ok(());
            }
            let waited_ms = self.now_ms() - began_ms;
            if waited_ms >= PATIENCE_MS {
                let limit_s = PATIENCE_MS / 1_000;
                let found = found.join("\n");
                return Err(format!(
                    "asked afresh {what}, it is not done in {limit_s} s:\n{found}"
                ));
            }
            if waited_ms >= WEDGED_MS && rests {
                self.restart_wedged_brokers();
            }
        }
    }

    // --- what is so

    fn leader_of(&self, at: &TopicPartition) -> Option<BrokerId> {
        self.world.state(&at.to_string())?.leader_and_isr.leader()
    }

    /// The partitions of a topic, of so many, that nobody leads.
    fn lacks(&self, topic: &str, count: i32) -> Vec<String> {
        let all = (0..count).map(|index| at(topic, index));
        let led = |at: &TopicPartition| self.leader_of(at).is_some();
        let unled = all.filter(|at| !led(at));
        unled.map(|at| format!("nobody leads {at}")).collect()
    }

    fn was_not_told(&self, is_success: impl Fn(&Answer) -> bool) -> Option<String> {
        let heard = self.heard_afresh.as_ref();
        let succeeded = heard.is_some_and(|answer| answer.as_ref().is_some_and(is_success));
        (!succeeded).then(|| format!("whoever asked was answered {heard:?}"))
    }

    /// What is left of a topic that was deleted.
    fn is_left_of(&self, topic: &str) -> Vec<String> {
        let name = TopicName::new(topic);
        let mut left = Vec::new();
        for path in [
            paths::topic(&name),
            paths::topic_deletion(&name),
            paths::topic_config(&name),
        ] {
            if self.world.zookeeper.look(&path).is_some() {
                left.push(format!("{path} is still there"));
            }
        }
        for broker in self.world.cluster.borrow().values() {
            let id = broker.id;
            if broker.logs.keys().any(|at| at.topic == name) {
                left.push(format!("broker {id} keeps logs of {topic}"));
            }
            if broker.cache.keys().any(|at| at.topic == name) {
                left.push(format!("broker {id} tells clients of {topic}"));
            }
        }
        left
    }
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(&TopicName::new(topic), partition)
}
