//! ZooKeeper of other ages, gone for a while, and behind a network that cuts connections.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE, seconds};
use super::{CANNOT_CONNECT, CONNECTION_LOST, Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::proxy::Proxy;
use crate::teller::{Teller, Told};
use crate::version::KafkaVersion;
use crate::wait::Seen;
use crate::zookeeper::CLIENT_PORT;

pub const ZOOKEEPER_3_5: Story = Story {
    name: "zookeeper-3.5",
    about: "klamm leads on the ZooKeeper 3.5 that came with Kafka 2.4, which has no multi-read",
    pace: Pace::Quick,
    baseline: true,
    plan: |choice| {
        choice
            .plan_or(&[
                KafkaVersion::V2_4_1,
                KafkaVersion::V2_4_1,
                KafkaVersion::V2_8_2,
            ])
            .with_zookeeper(KafkaVersion::V2_4_1)
    },
    tell: zookeeper_3_5,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn zookeeper_3_5(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("a topic is created by producing to it", || {
        acts::auto_create(cluster, "by-producing")
    })?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))?;
    teller.step("it is stopped gently", || {
        acts::stop_gently(cluster, victim)
    })?;
    teller.step("it returns again", || acts::return_broker(cluster, victim))
}

pub const ZOOKEEPER_3_4: Story = Story {
    name: "zookeeper-3.4",
    about: "on ZooKeeper 3.4, which cannot take klamm's transactions, klamm refuses to start and writes nothing",
    pace: Pace::Quick,
    baseline: false,
    // Whatever is chosen: brokers of a release whose ZooKeeper it was.
    plan: |_| {
        Choice::default()
            .plan_of_one(KafkaVersion::V1_1_1)
            .with_zookeeper(KafkaVersion::V1_1_1)
    },
    tell: |teller, cluster| {
        teller.step("klamm refuses to start", || {
            super::refusals::refused(cluster, "on-zookeeper-3.4", &[], &["ZooKeeper", "3.4"])
        })
    },
    klamm_may_log: &[],
    brokers_may_log: &[],
};

/// Much longer than any session.
const OUTAGE_TIME: Duration = Duration::from_secs(90);

pub const OUTAGE: Story = Story {
    name: "zookeeper-outage",
    about: "ZooKeeper is stopped for 90 s under traffic and restarted: klamm leads on, nothing is lost",
    pace: Pace::Slow,
    baseline: true,
    plan: Choice::mixed,
    tell: outage,
    klamm_may_log: &[CONNECTION_LOST, CANNOT_CONNECT],
    brokers_may_log: &[],
};

fn outage(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("ZooKeeper is stopped for 90 s", || {
        cluster.zookeeper.stop()?;
        let acknowledged = cluster.traffic()?.acknowledged();
        cluster.hold(
            "an outage of ZooKeeper must end nobody",
            OUTAGE_TIME,
            |_| Ok(()),
        )?;
        let during = cluster.traffic()?.acknowledged() - acknowledged;
        Ok(format!("{during} records were acknowledged meanwhile"))
    })?;
    teller.step(
        "ZooKeeper returns, and all is led and in sync again",
        || {
            let started = Instant::now();
            cluster.zookeeper.restart()?;
            if cluster.plan.leading == Leading::Klamm {
                cluster.wait_controller(FIRST_ID, 2 * PATIENCE)?;
            } else {
                cluster.wait_java_controller(2 * PATIENCE)?;
            }
            every_broker_registered(cluster)?;
            cluster.wait_all_led(PATIENCE)?;
            cluster.wait_isr_full(PATIENCE)?;
            let took = started.elapsed();
            acts::flowing(cluster)?;
            Ok(Told::after(took, ""))
        },
    )?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

fn every_broker_registered(cluster: &mut Cluster) -> Result<Duration> {
    cluster.wait("every broker to be registered", PATIENCE, |cluster| {
        let registered = cluster.zk.broker_ids()?;
        let missing: Vec<i32> = cluster
            .genuine_ids()
            .difference(&registered)
            .copied()
            .collect();
        Ok(if missing.is_empty() {
            Seen::Done(())
        } else {
            Seen::Not(format!("{missing:?} are not"))
        })
    })
}

const CUTS: usize = 20;
/// Watches on so many topics do not fit into one request when a client comes back.
const REGISTERED_TOPICS: usize = 5_000;
const TOPICS_AT_ONCE: usize = 500;

pub const CONNECTION_CUTS: Story = Story {
    name: "connection-cuts",
    about: "klamm's connection to ZooKeeper is cut 20 times under traffic with 5,000 topics: it keeps the role and misses nothing",
    pace: Pace::Slow,
    baseline: false,
    plan: |choice| {
        choice.plan_or(&[
            KafkaVersion::V3_9_2,
            KafkaVersion::V3_9_2,
            KafkaVersion::V3_9_2,
        ])
    },
    tell: connection_cuts,
    klamm_may_log: &[
        CONNECTION_LOST,
        CANNOT_CONNECT,
        Listed {
            fragments: &["has not taken LeaderAndIsr", "no answer"],
            reason: "on a small machine a broker opens its share of 5,000 logs for longer than a request may take",
        },
    ],
    brokers_may_log: &[],
};

fn connection_cuts(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step("klamm takes over, connected through a proxy", || {
        take_over_by_proxy(cluster)
    })?;
    teller.step("5,000 topics are created", || register_topics(cluster))?;
    teller.step(
        "the connection is cut 20 times; each time a new topic is served",
        || cut_again_and_again(cluster),
    )?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

fn take_over_by_proxy(cluster: &mut Cluster) -> Result<Told> {
    let proxy = Proxy::start(
        cluster.run.address.port(CLIENT_PORT + 1),
        cluster.zookeeper.connect.clone(),
    )?;
    let connect = format!("{}{}", proxy.address, cluster.plan.chroot);
    cluster.proxy = Some(proxy);
    cluster.start_klamm(FIRST_ID, &[("zookeeper.connect", &connect)])?;
    let took = cluster.wait_controller(FIRST_ID, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    Ok(Told::after(took, format!("by {connect}")))
}

fn register_topics(cluster: &mut Cluster) -> Result<Told> {
    let ids: Vec<i32> = cluster.genuine_ids().into_iter().collect();
    let nodes: Vec<(String, Vec<u8>)> = (0..REGISTERED_TOPICS)
        .map(|number| {
            let home = ids.get(number % ids.len().max(1)).copied().unwrap_or(1);
            (
                format!("/brokers/topics/registered-topic-of-common-length-{number:04}"),
                crate::cluster::assignment(&[home], 1, 1),
            )
        })
        .collect();
    // In parts, as tools create them: one request that opens thousands of logs keeps a broker busy for a minute.
    for some in nodes.chunks(TOPICS_AT_ONCE) {
        cluster.zk.create_all(some)?;
        cluster.wait_all_led(3 * PATIENCE)?;
    }
    acts::flowing(cluster)?;
    Ok("led, and known to every broker".into())
}

fn cut_again_and_again(cluster: &mut Cluster) -> Result<Told> {
    let term = cluster.zk.controller()?.context("the role is vacant")?;
    let mut slowest = Duration::ZERO;
    for cut in 1..=CUTS {
        let accepted = proxy(cluster)?.accepted();
        let ended = proxy(cluster)?.cut();
        ensure!(ended > 0, "cut {cut} met no connection");
        cluster.wait(
            "klamm to connect again",
            Duration::from_secs(15),
            |cluster| {
                let now = proxy(cluster)?.accepted();
                Ok(if now > accepted {
                    Seen::Done(())
                } else {
                    Seen::Not("no new connection".to_owned())
                })
            },
        )?;
        let topic = format!("after-cut-{cut}");
        cluster.create_topic(&topic, 2, 3)?;
        slowest = slowest.max(
            cluster
                .wait_topic(&topic, 2, PATIENCE)
                .with_context(|| format!("after cut {cut}"))?,
        );
        let now = cluster.zk.controller()?.context("the role is vacant")?;
        ensure!(
            now == term,
            "after cut {cut} the role is not what it was: {term:?} became {now:?}"
        );
    }
    acts::flowing(cluster)?;
    Ok(Told::after(
        slowest,
        format!(
            "the role was kept; the slowest new topic took {}",
            seconds(slowest)
        ),
    ))
}

fn proxy(cluster: &Cluster) -> Result<&Proxy> {
    cluster.proxy.as_ref().context("no proxy was started")
}
