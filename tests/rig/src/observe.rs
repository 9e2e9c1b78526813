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

/// Nodes by which one thing is asked of the controller, and folders in which many are.
const ASKED: [&str; 2] = [
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
];
const ASKED_IN: [&str; 3] = [
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
];

/// What is still asked of the controller, if anything is.
pub fn asked(zk: &Zk) -> Result<Option<String>> {
    for path in ASKED {
        if zk.get(path)?.is_some() {
            return Ok(Some(format!("{path} is still there")));
        }
    }
    for folder in ASKED_IN {
        let children = zk.children(folder)?;
        if !children.is_empty() {
            return Ok(Some(format!("{folder} still holds {children:?}")));
        }
    }
    Ok(None)
}

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
        self.wait(what, timeout, |cluster| {
            Ok(match cluster.zk.controller()? {
                Some(owner) if fits(owner.id) => Seen::Done(()),
                Some(owner) => Seen::Not(format!("/controller is held by {}", owner.id)),
                None => Seen::Not("/controller is vacant".to_owned()),
            })
        })
    }

    /// Waits until every partition is led by a live genuine broker, in ZooKeeper and in the eyes of the clients of every
    /// broker that answers, and all of these name the holder of the role as controller.
    pub fn wait_all_led(&mut self, timeout: Duration) -> Result<Duration> {
        self.wait("every partition to be led", timeout, |cluster| {
            let answering = cluster.answering_brokers();
            Ok(match not_led(cluster, &answering)? {
                None => Seen::Done(()),
                Some(seen) => Seen::Not(seen),
            })
        })
    }

    /// Waits until the ISR of every partition is all of its replicas.
    pub fn wait_isr_full(&mut self, timeout: Duration) -> Result<Duration> {
        self.wait("every ISR to be full", timeout, |cluster| {
            let assignments = cluster.zk.assignments()?;
            let states = cluster.zk.states()?;
            let mut short = assignments
                .iter()
                .filter(|(partition, _)| cluster.counts(partition))
                .filter_map(|(partition, replicas)| {
                    let isr = states.get(partition).map(|state| &state.isr);
                    let all: BTreeSet<i32> = replicas.iter().copied().collect();
                    (isr != Some(&all)).then(|| format!("{partition} has {isr:?} of {replicas:?}"))
                });
            Ok(match short.next() {
                None => Seen::Done(()),
                Some(first) => Seen::Not(format!("{first}, and {} more are short", short.count())),
            })
        })
    }

    /// Waits until nothing that was asked of the controller is left in ZooKeeper.
    pub fn wait_nothing_asked(&mut self, timeout: Duration) -> Result<Duration> {
        self.wait(
            "nothing to be asked of the controller",
            timeout,
            |cluster| {
                Ok(match asked(&cluster.zk)? {
                    None => Seen::Done(()),
                    Some(seen) => Seen::Not(seen),
                })
            },
        )
    }

    /// Waits until klamm `id` knows what ZooKeeper holds; returns how long that took and what it says.
    pub fn wait_known(&mut self, id: i32, timeout: Duration) -> Result<(Duration, String)> {
        let mut said = String::new();
        let took = self.wait("klamm to know what ZooKeeper holds", timeout, |cluster| {
            let (status, body) = cluster.klamm(id)?.get("/checkz")?;
            body.trim().clone_into(&mut said);
            Ok(match status {
                200 => Seen::Done(()),
                _ => Seen::Not(format!("/checkz answers {status}: {said}")),
            })
        })?;
        Ok((took, said))
    }

    /// Waits until `topic` has `partitions` partitions with a leader each, none of them on an id that is not a genuine
    /// broker's.
    pub fn wait_topic(
        &mut self,
        topic: &str,
        partitions: usize,
        timeout: Duration,
    ) -> Result<Duration> {
        let what = format!("{topic} to have {partitions} led partitions on genuine brokers");
        self.wait(&what, timeout, |cluster| {
            Ok(
                match topic_lacks(&cluster.zk, &cluster.genuine_ids(), topic, partitions)? {
                    None => Seen::Done(()),
                    Some(seen) => Seen::Not(seen),
                },
            )
        })
    }

    /// Asks `probe` until it is done, as long as every process of the cluster lives that ought to.
    ///
    /// # Errors
    /// After `timeout`, with what was seen last; or at once when a process ended by itself.
    pub fn wait(
        &mut self,
        what: &str,
        timeout: Duration,
        mut probe: impl FnMut(&mut Self) -> Result<Seen<()>>,
    ) -> Result<Duration> {
        let (_, took) = wait::until(what, timeout, || match self.check_all_alive() {
            Ok(()) => probe(self),
            Err(ended) => Ok(Seen::Never(format!("{ended:#}"))),
        })?;
        Ok(took)
    }

    /// Lets `duration` pass, during which `must_hold` has to hold at every look and nobody may end by itself.
    ///
    /// # Errors
    /// As soon as it does not hold.
    pub fn hold(
        &mut self,
        why: &str,
        duration: Duration,
        mut must_hold: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < duration {
            self.check_all_alive()?;
            must_hold(self).with_context(|| {
                format!("{why}, but after {:.2} s", started.elapsed().as_secs_f64())
            })?;
            std::thread::sleep(LOOK_PACE);
        }
        Ok(())
    }

    /// No genuine broker, no klamm and no other process of the cluster may end without being asked to.
    ///
    /// # Errors
    /// Names the process, how it ended and its log.
    pub fn check_all_alive(&mut self) -> Result<()> {
        match self.ended_by_themselves().into_iter().next() {
            None => Ok(()),
            Some(ended) => bail!("{ended}"),
        }
    }

    /// The processes that ended without being asked to, each with how it ended and its log.
    pub fn ended_by_themselves(&mut self) -> Vec<String> {
        let brokers = self.brokers.values_mut().map(|broker| &mut broker.process);
        let klamms = self.klamms.values_mut().map(|klamm| &mut klamm.process);
        let traffic = self.traffic.as_mut().map(|traffic| &mut traffic.process);
        brokers
            .chain(klamms)
            .chain(traffic)
            .chain([&mut self.zookeeper.process])
            .filter_map(|process| {
                let status = process.ended_by_itself()?;
                let log = process.log().display();
                Some(format!(
                    "{} ended by itself with {status}; its log: {log}",
                    process.name()
                ))
            })
            .collect()
    }

    /// Starts watching for partitions without a leader.
    pub fn watch_leaders(&mut self) -> LeaderWatch {
        LeaderWatch::start(
            self.zk.another(),
            self.genuine_ids(),
            self.answering_brokers(),
            self.overlooked,
        )
    }
}

/// Pace of the looks while something must hold.
const LOOK_PACE: Duration = Duration::from_millis(50);

/// What `topic` lacks to be served; `None` when it is.
fn topic_lacks(
    zk: &Zk,
    genuine: &BTreeSet<i32>,
    topic: &str,
    partitions: usize,
) -> Result<Option<String>> {
    let assigned: BTreeMap<_, _> = zk
        .assignments()?
        .into_iter()
        .filter(|(partition, _)| partition.topic == topic)
        .collect();
    if assigned.len() != partitions {
        return Ok(Some(format!("{} partitions in its node", assigned.len())));
    }
    if let Some((partition, replicas)) = assigned
        .iter()
        .find(|(_, replicas)| replicas.iter().any(|id| !genuine.contains(id)))
    {
        return Ok(Some(format!("{partition} is assigned to {replicas:?}")));
    }
    let states = zk.states_of(assigned.keys().cloned())?;
    let led = states
        .values()
        .filter(|state| genuine.contains(&state.leader))
        .count();
    Ok((led != partitions).then(|| format!("{led} of them are led")))
}

/// What keeps the cluster from being led everywhere; `None` when nothing does. A partition none of whose replicas is
/// registered cannot be led and is passed over.
fn not_led(cluster: &Cluster, answering: &[(i32, String)]) -> Result<Option<String>> {
    let (zk, genuine) = (&cluster.zk, cluster.genuine_ids());
    let Some(owner) = zk.controller()? else {
        return Ok(Some("/controller is vacant".to_owned()));
    };
    let live = zk.broker_ids()?;
    let mut assignments = zk.assignments()?;
    assignments.retain(|partition, replicas| {
        cluster.counts(partition)
            && replicas
                .iter()
                .any(|id| live.contains(id) && genuine.contains(id))
    });
    let states = zk.states_of(assignments.keys().cloned())?;
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
            let told = format!(
                "broker {id} names {} as controller, /controller is {}",
                view.controller, owner.id
            );
            return Ok(Some(told));
        }
        for (partition, state) in &states {
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
    fn start(
        zk: Zk,
        genuine: BTreeSet<i32>,
        brokers: Vec<(i32, String)>,
        overlooked: Option<&'static str>,
    ) -> Self {
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
            if let Some(prefix) = overlooked {
                sightings
                    .leaderless
                    .retain(|partition, _| !partition.topic.starts_with(prefix));
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
