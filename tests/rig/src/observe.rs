//! Waiting for what a cluster must come to, and watching that it never comes to what it must not.
//!
//! Two views count: what ZooKeeper holds, and what every broker that answers tells its clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::Cluster;
use crate::wait::{self, Seen};
use crate::wire;
use crate::zk::{TopicPartition, Zk};

/// Pace of the watcher: some samples within any moment that a client could notice.
const SAMPLE_PACE: Duration = Duration::from_millis(20);

impl Cluster {
    /// Waits until `id` holds the role; returns how long that took.
    pub fn wait_controller(&mut self, id: i32, timeout: Duration) -> Result<Duration> {
        self.wait_role(&format!("{id} to be the controller"), timeout, |holder| {
            holder == id
        })
    }

    /// Waits until one of the genuine brokers holds the role; returns which one and how long that took.
    pub fn wait_java_controller(&mut self, timeout: Duration) -> Result<(i32, Duration)> {
        let genuine = self.genuine_ids();
        let took = self.wait_role("a genuine broker to be the controller", timeout, |holder| {
            genuine.contains(&holder)
        })?;
        let owner = self
            .zk
            .controller()?
            .context("the role was held a moment ago and is vacant now")?;
        Ok((owner.id, took))
    }

    fn wait_role(
        &mut self,
        what: &str,
        timeout: Duration,
        fits: impl Fn(i32) -> bool,
    ) -> Result<Duration> {
        let zk = self.zk.clone();
        let (_, took) = wait::until(what, timeout, || {
            self.check_all_alive()?;
            Ok(match zk.controller()? {
                Some(owner) if fits(owner.id) => Seen::Done(()),
                Some(owner) => Seen::Not(format!("/controller is held by {}", owner.id)),
                None => Seen::Not("/controller is vacant".to_owned()),
            })
        })?;
        Ok(took)
    }

    /// Waits until every partition is led by a live genuine broker, in ZooKeeper and in the eyes of the clients of every
    /// broker that answers, and all of these name the holder of the role as controller.
    pub fn wait_all_led(&mut self, timeout: Duration) -> Result<Duration> {
        let (zk, genuine) = (self.zk.clone(), self.genuine_ids());
        let (_, took) = wait::until("every partition to be led", timeout, || {
            self.check_all_alive()?;
            let answering = self.answering_brokers();
            Ok(match not_led(&zk, &genuine, &answering)? {
                None => Seen::Done(()),
                Some(seen) => Seen::Not(seen),
            })
        })?;
        Ok(took)
    }

    /// Waits until the ISR of every partition is all of its replicas.
    pub fn wait_isr_full(&mut self, timeout: Duration) -> Result<Duration> {
        let zk = self.zk.clone();
        let (_, took) = wait::until("every ISR to be full", timeout, || {
            self.check_all_alive()?;
            let assignments = zk.assignments()?;
            let states = zk.states()?;
            let short: Vec<String> = assignments
                .iter()
                .filter_map(|(partition, replicas)| {
                    let isr = states.get(partition).map(|state| &state.isr);
                    let all: BTreeSet<i32> = replicas.iter().copied().collect();
                    (isr != Some(&all)).then(|| format!("{partition} has {isr:?} of {replicas:?}"))
                })
                .collect();
            Ok(match short.first() {
                None => Seen::Done(()),
                Some(first) => Seen::Not(format!("{} short, {first}", short.len())),
            })
        })?;
        Ok(took)
    }

    /// Waits until `topic` has `partitions` partitions with a leader each, none of them on an id that is not a genuine
    /// broker's.
    pub fn wait_topic(
        &mut self,
        topic: &str,
        partitions: usize,
        timeout: Duration,
    ) -> Result<Duration> {
        let (zk, genuine) = (self.zk.clone(), self.genuine_ids());
        let what = format!("{topic} to have {partitions} led partitions on genuine brokers");
        let (_, took) = wait::until(&what, timeout, || {
            self.check_all_alive()?;
            let assigned: BTreeMap<_, _> = zk
                .assignments()?
                .into_iter()
                .filter(|(partition, _)| partition.topic == topic)
                .collect();
            if assigned.len() != partitions {
                return Ok(Seen::Not(format!(
                    "{} partitions in its node",
                    assigned.len()
                )));
            }
            if let Some((partition, replicas)) = assigned
                .iter()
                .find(|(_, replicas)| replicas.iter().any(|id| !genuine.contains(id)))
            {
                return Ok(Seen::Not(format!(
                    "{partition} is assigned to {replicas:?}"
                )));
            }
            let states = zk.states_of(assigned.keys().cloned())?;
            let led = states
                .values()
                .filter(|state| genuine.contains(&state.leader))
                .count();
            Ok(if led == partitions {
                Seen::Done(())
            } else {
                Seen::Not(format!("{led} are led"))
            })
        })?;
        Ok(took)
    }

    /// No genuine broker, no klamm and no other process of the cluster may end without being asked to.
    ///
    /// # Errors
    /// Names the process, how it ended and its log.
    pub fn check_all_alive(&mut self) -> Result<()> {
        let processes = self
            .brokers
            .values_mut()
            .map(|broker| &mut broker.process)
            .chain(self.klamms.values_mut().map(|klamm| &mut klamm.process))
            .chain(self.traffic.as_mut().map(|traffic| &mut traffic.process))
            .chain([&mut self.zookeeper.process]);
        for process in processes {
            if let Some(status) = process.ended_by_itself() {
                bail!(
                    "{} ended by itself with {status}; its log: {}",
                    process.name(),
                    process.log().display()
                );
            }
        }
        Ok(())
    }

    /// Starts watching for partitions without a leader.
    pub fn watch_leaders(&mut self) -> LeaderWatch {
        LeaderWatch::start(
            self.zk.another(),
            self.genuine_ids(),
            self.answering_brokers(),
        )
    }
}

/// What keeps the cluster from being led everywhere; `None` when nothing does.
fn not_led(
    zk: &Zk,
    genuine: &BTreeSet<i32>,
    answering: &[(i32, String)],
) -> Result<Option<String>> {
    let Some(owner) = zk.controller()? else {
        return Ok(Some("/controller is vacant".to_owned()));
    };
    let live = zk.broker_ids()?;
    let assignments = zk.assignments()?;
    let states = zk.states()?;
    for partition in assignments.keys() {
        let Some(state) = states.get(partition) else {
            return Ok(Some(format!("{partition} has no state")));
        };
        if !live.contains(&state.leader) || !genuine.contains(&state.leader) {
            return Ok(Some(format!(
                "{partition} has leader {}, live are {live:?}",
                state.leader
            )));
        }
    }
    for (id, address) in answering {
        let view = wire::view(address).with_context(|| format!("broker {id}"))?;
        if view.controller != owner.id {
            return Ok(Some(format!(
                "broker {id} names {} as controller, /controller is {}",
                view.controller, owner.id
            )));
        }
        for (partition, state) in states
            .iter()
            .filter(|(partition, _)| assignments.contains_key(*partition))
        {
            let told = view.leaders.get(partition).copied();
            if told != Some(state.leader) {
                return Ok(Some(format!(
                    "broker {id} tells leader {told:?} of {partition}, which is {}",
                    state.leader
                )));
            }
        }
    }
    Ok(None)
}

/// Samples ZooKeeper and the brokers' answers to clients all the time, until asked what it saw.
#[derive(Debug)]
pub struct LeaderWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sightings>,
}

/// What a [`LeaderWatch`] saw.
#[derive(Debug, Default)]
pub struct Sightings {
    /// Samples of ZooKeeper, and of a broker's answer to clients.
    pub samples_zookeeper: u32,
    pub samples_clients: u32,
    /// Each partition seen without a leader: when first, since the watch began, and how.
    pub leaderless: BTreeMap<TopicPartition, (Duration, String)>,
}

impl LeaderWatch {
    fn start(zk: Zk, genuine: BTreeSet<i32>, brokers: Vec<(i32, String)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            let mut sightings = Sightings::default();
            let mut turn = brokers.iter().cycle();
            while !stopped.load(Ordering::Relaxed) {
                sample_zookeeper(&zk, &genuine, started, &mut sightings);
                if let Some((id, address)) = turn.next() {
                    sample_clients(*id, address, started, &mut sightings);
                }
                std::thread::sleep(SAMPLE_PACE);
            }
            sightings
        });
        Self { stop, thread }
    }

    /// Ends the watch.
    ///
    /// # Errors
    /// When a partition was seen without a leader, or too little was seen to say so.
    pub fn expect_nothing_leaderless(self) -> Result<String> {
        self.stop.store(true, Ordering::Relaxed);
        let sightings = self
            .thread
            .join()
            .map_err(|_| anyhow::anyhow!("the leader watch panicked"))?;
        if let Some((partition, (at, how))) =
            sightings.leaderless.iter().min_by_key(|(_, (at, _))| *at)
        {
            bail!(
                "{} partitions were leaderless; the first was {partition} after {:.2} s: {how}",
                sightings.leaderless.len(),
                at.as_secs_f64()
            );
        }
        ensure!(
            sightings.samples_zookeeper > 0 && sightings.samples_clients > 0,
            "nothing leaderless was seen, but hardly anything was seen at all: {sightings:?}"
        );
        Ok(format!(
            "nothing leaderless in {} samples",
            sightings.samples_zookeeper + sightings.samples_clients
        ))
    }
}

/// A failed read is no sample; that enough were taken is checked at the end.
fn sample_zookeeper(zk: &Zk, genuine: &BTreeSet<i32>, started: Instant, sightings: &mut Sightings) {
    // The registrations are read first: a leader that was gone already when the states were read is a real gap.
    let Ok(live) = zk.broker_ids() else { return };
    let Ok(states) = zk.states() else { return };
    sightings.samples_zookeeper += 1;
    for (partition, state) in states {
        if !(live.contains(&state.leader) && genuine.contains(&state.leader)) {
            let how = format!(
                "its state names leader {}, registered are {live:?}",
                state.leader
            );
            sightings
                .leaderless
                .entry(partition)
                .or_insert((started.elapsed(), how));
        }
    }
}

fn sample_clients(id: i32, address: &str, started: Instant, sightings: &mut Sightings) {
    let Ok(view) = wire::view(address) else {
        return;
    };
    sightings.samples_clients += 1;
    for partition in view.leaderless() {
        let how = format!("broker {id} told its clients so");
        sightings
            .leaderless
            .entry(partition.clone())
            .or_insert((started.elapsed(), how));
    }
}
