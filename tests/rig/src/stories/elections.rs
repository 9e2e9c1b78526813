//! Leaders that are elected because somebody asks for it, because brokers lead too little, or because there is no better.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Pace, Story};
use crate::cluster::Cluster;
use crate::teller::{Teller, Told};
use crate::tools::Tool;
use crate::version::KafkaVersion;
use crate::wait::Seen;
use crate::wire;
use crate::zk::TopicPartition;

pub const PREFERRED_ELECTION: Story = Story {
    name: "preferred-election",
    about: "the genuine tools of 2.4 (by ZooKeeper) and 3.9 (by the API) bring leaders back to their preferred replicas",
    pace: Pace::Quick,
    baseline: true,
    plan: |choice| Choice::mixed(choice).with_property("auto.leader.rebalance.enable", "false"),
    tell: preferred_election,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn preferred_election(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns, and leads nothing that others took", || {
        acts::return_broker(cluster, victim)?;
        leads_others(cluster, victim)
    })?;
    teller.step(
        "kafka-preferred-replica-election 2.4.1 --zookeeper: it leads again",
        || by_zookeeper(cluster),
    )?;
    teller.step("it is stopped gently", || {
        acts::stop_gently(cluster, victim)
    })?;
    teller.step("it returns again", || {
        acts::return_broker(cluster, victim)?;
        leads_others(cluster, victim)
    })?;
    teller.step(
        "kafka-leader-election 3.9.2 --election-type preferred: it leads again",
        || by_api(cluster),
    )?;
    teller.step("once more, with nothing left to elect", || by_api(cluster))
}

/// Partitions that are not led by the first of their replicas.
fn not_preferred(cluster: &Cluster) -> Result<Vec<TopicPartition>> {
    let states = cluster.zk.states()?;
    let assignments = cluster.zk.assignments()?;
    let differing = assignments.into_iter().filter(|(at, replicas)| {
        states.get(at).map(|state| state.leader) != replicas.first().copied()
    });
    Ok(differing.map(|(at, _)| at).collect())
}

/// The broker is back, and what it led before is led by others.
fn leads_others(cluster: &mut Cluster, victim: i32) -> Result<Told> {
    let given_up = not_preferred(cluster)?.len();
    ensure!(given_up > 0, "nobody took anything of broker {victim}");
    Ok(format!("{given_up} partitions are not led by their preferred replica").into())
}

/// Every leader is the preferred one, in ZooKeeper and for every client.
fn wait_preferred(cluster: &mut Cluster, timeout: Duration) -> Result<Duration> {
    let took = cluster.wait("every preferred replica to lead", timeout, |cluster| {
        let left = not_preferred(cluster)?;
        Ok(match left.first() {
            None => Seen::Done(()),
            Some(first) => Seen::Not(format!("not that of {first} and {} more", left.len() - 1)),
        })
    })?;
    cluster.wait_all_led(PATIENCE)?;
    Ok(took)
}

fn by_zookeeper(cluster: &mut Cluster) -> Result<Told> {
    let connect = format!("{}{}", cluster.zookeeper.connect, cluster.plan.chroot);
    Tool::PreferredReplicaElection.run(
        &cluster.run,
        KafkaVersion::V2_4_1,
        &["--zookeeper", &connect],
    )?;
    let took = wait_preferred(cluster, PATIENCE)?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, "after the tool ended"))
}

fn by_api(cluster: &mut Cluster) -> Result<Told> {
    let said = elect(cluster, "preferred", &["--all-topic-partitions"])?;
    let took = wait_preferred(cluster, PATIENCE)?;
    acts::flowing(cluster)?;
    let first = said.lines().last().unwrap_or_default().to_owned();
    Ok(Told::after(took, first))
}

fn elect(cluster: &Cluster, kind: &str, which: &[&str]) -> Result<String> {
    let bootstrap = cluster.bootstrap();
    let mut arguments = vec![
        "--bootstrap-server",
        bootstrap.as_str(),
        "--election-type",
        kind,
    ];
    arguments.extend_from_slice(which);
    Tool::LeaderElection.run(&cluster.run, KafkaVersion::V3_9_2, &arguments)
}

const CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub const LEADER_BALANCE: Story = Story {
    name: "leader-balance",
    about: "after a restart leaders go back to the preferred replicas by themselves, within an interval of the check",
    pace: Pace::Quick,
    baseline: true,
    plan: |choice| {
        Choice::mixed(choice)
            .with_property("auto.leader.rebalance.enable", "true")
            .with_property("leader.imbalance.check.interval.seconds", "5")
            .with_property("leader.imbalance.per.broker.percentage", "10")
    },
    tell: leader_balance,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn leader_balance(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is stopped gently", || {
        acts::stop_gently(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))?;
    teller.step("it leads again what prefers it, and nobody asked", || {
        let watch = cluster.watch_leaders();
        // A look that comes before a replica is in sync again leaves it to the next one.
        let took = wait_preferred(cluster, 4 * CHECK_INTERVAL)?;
        let leaders = watch.expect_nothing_leaderless()?;
        acts::flowing(cluster)?;
        Ok(Told::after(
            took,
            format!("looked at every {}; {leaders}", seconds(CHECK_INTERVAL)),
        ))
    })
}

/// A topic whose data may be lost.
const RISKY: &str = "risky";
/// Its last in-sync replica, and the one that is out of sync.
const IN_SYNC: i32 = 2;
const BEHIND: i32 = 3;

pub const UNCLEAN_ELECTION: Story = Story {
    name: "unclean-election",
    about: "unclean election is allowed at run time, for a topic, for the cluster and for one command, and takes effect at once",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: unclean_election,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn unclean_election(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("a topic is on two brokers", || {
        cluster.zk.create(
            &format!("/config/topics/{RISKY}"),
            br#"{"version":1,"config":{}}"#,
        )?;
        let node = br#"{"version":1,"partitions":{"0":[2,3],"1":[3,2]}}"#;
        cluster
            .zk
            .create(&format!("/brokers/topics/{RISKY}"), node)?;
        Ok(Told::after(cluster.wait_topic(RISKY, 2, PATIENCE)?, ""))
    })?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step(
        "the last in-sync replica dies, another returns: nobody leads",
        || lose_the_in_sync(cluster),
    )?;
    teller.step(
        "the topic allows unclean election: the other leads at once",
        || {
            let changed = configure_topic(
                cluster,
                "--add-config",
                "unclean.leader.election.enable=true",
            )?;
            led_uncleanly(cluster, changed)
        },
    )?;
    teller.step("it is not allowed any more; the broker returns", || {
        configure_topic(cluster, "--delete-config", "unclean.leader.election.enable")?;
        return_in_sync(cluster)
    })?;
    teller.step(
        "the same again: nobody leads, and the last in-sync replica is kept",
        || lose_the_in_sync(cluster),
    )?;
    teller.step(
        "the cluster allows unclean election: the other leads at once",
        || {
            let changed = configure_default(
                cluster,
                "--add-config",
                "unclean.leader.election.enable=true",
            )?;
            led_uncleanly(cluster, changed)
        },
    )?;
    teller.step("it is not allowed any more; the broker returns", || {
        configure_default(cluster, "--delete-config", "unclean.leader.election.enable")?;
        return_in_sync(cluster)
    })?;
    teller.step("the same once more", || lose_the_in_sync(cluster))?;
    teller.step(
        "kafka-leader-election 3.9.2 --election-type unclean: the other leads",
        || {
            for partition in ["0", "1"] {
                elect(
                    cluster,
                    "unclean",
                    &["--topic", RISKY, "--partition", partition],
                )?;
            }
            led_uncleanly(cluster, Instant::now())
        },
    )?;
    teller.step("the broker returns", || return_in_sync(cluster))
}

fn risky(partition: i32) -> TopicPartition {
    TopicPartition::new(RISKY, partition)
}

/// Kills the one, then the other, and starts the one again.
fn lose_the_in_sync(cluster: &mut Cluster) -> Result<Told> {
    let zk = cluster.zk.clone();
    cluster.overlooked = Some(RISKY);
    cluster.broker(BEHIND)?.process.kill()?;
    cluster.broker(BEHIND)?.wait_unregistered(&zk)?;
    wait_states(cluster, "the in-sync replica to lead alone", |state| {
        state.leader == IN_SYNC && state.isr == [IN_SYNC].into()
    })?;
    cluster.broker(IN_SYNC)?.process.kill()?;
    cluster.broker(IN_SYNC)?.wait_unregistered(&zk)?;
    wait_states(cluster, "nobody to lead", |state| state.leader == -1)?;
    let broker = cluster.broker(BEHIND)?;
    broker.restart(&zk)?;
    let up = broker.wait_up(&zk)?;
    // It was heard of, and is not elected.
    cluster.wait(
        "the returned broker to be told of its topics",
        PATIENCE,
        |cluster| {
            let address = cluster.broker(BEHIND)?.address.clone();
            let known = wire::view(&address)?.leaders.contains_key(&risky(0));
            Ok(if known {
                Seen::Done(())
            } else {
                Seen::Not("nothing yet".to_owned())
            })
        },
    )?;
    let states = cluster.zk.states()?;
    for partition in [0, 1] {
        let state = states.get(&risky(partition)).context("no state")?;
        ensure!(
            state.leader == -1 && state.isr == [IN_SYNC].into(),
            "{} is {state:?}",
            risky(partition)
        );
    }
    Ok(Told::after(up, "until the other was up"))
}

fn wait_states(
    cluster: &mut Cluster,
    what: &str,
    fits: impl Fn(&crate::zk::PartitionState) -> bool,
) -> Result<Duration> {
    cluster.wait(what, PATIENCE, |cluster| {
        let states = cluster.zk.states_of([risky(0), risky(1)])?;
        let left: BTreeMap<_, _> = states.iter().filter(|(_, state)| !fits(state)).collect();
        Ok(if states.len() == 2 && left.is_empty() {
            Seen::Done(())
        } else {
            Seen::Not(format!("{left:?}"))
        })
    })
}

/// Returns when the change was made.
fn configure_topic(cluster: &Cluster, how: &str, what: &str) -> Result<Instant> {
    let bootstrap = cluster.bootstrap();
    configure(
        cluster,
        &[
            "--bootstrap-server",
            &bootstrap,
            "--alter",
            "--entity-type",
            "topics",
            "--entity-name",
            RISKY,
            how,
            what,
        ],
    )
}

fn configure_default(cluster: &Cluster, how: &str, what: &str) -> Result<Instant> {
    let bootstrap = cluster.bootstrap();
    configure(
        cluster,
        &[
            "--bootstrap-server",
            &bootstrap,
            "--alter",
            "--entity-type",
            "brokers",
            "--entity-default",
            how,
            what,
        ],
    )
}

fn configure(cluster: &Cluster, arguments: &[&str]) -> Result<Instant> {
    Tool::Configs.run(&cluster.run, KafkaVersion::V2_8_2, arguments)?;
    Ok(Instant::now())
}

/// Both partitions are led by the replica that was out of sync.
fn led_uncleanly(cluster: &mut Cluster, since: Instant) -> Result<Told> {
    wait_states(cluster, "the other replica to lead", |state| {
        state.leader == BEHIND && state.isr == [BEHIND].into()
    })?;
    let took = since.elapsed();
    ensure!(
        took < Duration::from_secs(5),
        "it took {} after the tool had ended",
        seconds(took)
    );
    Ok(Told::after(took, "after the tool ended"))
}

fn return_in_sync(cluster: &mut Cluster) -> Result<Told> {
    cluster.overlooked = None;
    acts::return_broker(cluster, IN_SYNC)
}
