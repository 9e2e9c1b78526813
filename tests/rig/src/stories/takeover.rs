//! klamm takes the role of a running cluster, loses it by its own death, and hands it back when asked to.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::teller::{Teller, Told};

pub const TAKEOVER: Story = Story {
    name: "takeover",
    about: "klamm takes over a running cluster and leads it through the death and the return of a broker",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: takeover,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn takeover(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    if cluster.plan.leading == Leading::Klamm {
        teller.step("its metrics say that it is the controller", || {
            metrics_of_a_controller(cluster)
        })?;
    }
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

fn metrics_of_a_controller(cluster: &mut Cluster) -> Result<Told> {
    let led = cluster.zk.states()?.len();
    let topics = cluster.zk.topics()?.len();
    let klamm = cluster.klamm(FIRST_ID)?;
    klamm.wait_ready()?;
    for (name, expected) in [
        ("kafka_controller_kafkacontroller_activecontrollercount", 1),
        ("kafka_controller_kafkacontroller_offlinepartitionscount", 0),
        ("kafka_controller_kafkacontroller_globalpartitioncount", led),
        ("kafka_controller_kafkacontroller_globaltopiccount", topics),
    ] {
        let value = klamm.metric(name)?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a test cluster")]
        let expected = expected as f64;
        ensure!(
            (value - expected).abs() < 0.5,
            "{name} is {value}, expected {expected}"
        );
    }
    Ok(format!("{topics} topics, {led} partitions, none offline").into())
}

pub const KLAMM_KILLED: Story = Story {
    name: "klamm-killed",
    about: "SIGKILL of klamm costs one session timeout, then a Java broker leads; klamm returns and leads again",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: klamm_killed,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn klamm_killed(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("klamm is killed and a Java broker takes over", || {
        acts::kill_klamm(cluster)
    })?;
    teller.step("klamm takes the role back", || acts::klamm_returns(cluster))
}

pub const HANDBACK: Story = Story {
    name: "handback",
    about: "the role is handed back and taken again from another shell, and released at SIGTERM",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: handback,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn handback(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("klamm hands the role back", || acts::hand_back(cluster))?;
    teller.step("klamm does not contend while on hold", || {
        does_not_contend(cluster)
    })?;
    teller.step("klamm takes the role again when told to", || {
        takes_again(cluster)
    })?;
    teller.step("SIGTERM releases the role", || released_by_sigterm(cluster))
}

/// The role is made vacant by hand: a klamm on hold must leave it to the brokers.
fn does_not_contend(cluster: &mut Cluster) -> Result<Told> {
    cluster.klamm(FIRST_ID)?.wait_ready()?;
    let before = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    cluster.zk.delete("/controller")?;
    cluster.wait("a new controller epoch", PATIENCE, |cluster| {
        super::role::epoch_above(cluster, before.epoch)
    })?;
    let (id, took) = cluster.wait_java_controller(Duration::from_secs(5))?;
    Ok(Told::after(
        took,
        format!("broker {id} took the vacant role"),
    ))
}

fn takes_again(cluster: &mut Cluster) -> Result<Told> {
    let started = std::time::Instant::now();
    let klamm = cluster
        .klamms
        .get(&FIRST_ID)
        .context("no klamm was started")?;
    klamm.command(&cluster.run, "takeover")?;
    cluster.wait_controller(FIRST_ID, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    let took = started.elapsed();
    ensure!(
        cluster.zk.get("/klamm/hold")?.is_none(),
        "/klamm/hold is still there"
    );
    acts::flowing(cluster)?;
    Ok(Told::after(took, "/klamm/hold is gone"))
}

/// Released means at once: nobody waits for klamm's session to expire.
fn released_by_sigterm(cluster: &mut Cluster) -> Result<Told> {
    let watch = cluster.watch_leaders();
    let started = std::time::Instant::now();
    cluster.klamm(FIRST_ID)?.process.ask_to_stop()?;
    let (id, role) = cluster.wait_java_controller(PATIENCE)?;
    let status = cluster.klamm(FIRST_ID)?.process.wait_end(PATIENCE)?;
    let took = started.elapsed();
    ensure!(status.success(), "klamm ended with {status}");
    ensure!(
        role < acts::session_timeout(),
        "the role was vacant for {}: as long as if klamm had just died",
        seconds(role)
    );
    let registered = cluster.zk.broker_ids()?;
    ensure!(
        !registered.contains(&FIRST_ID),
        "klamm is gone and still registered: {registered:?}"
    );
    cluster.wait_all_led(PATIENCE)?;
    let leaders = watch.expect_nothing_leaderless()?;
    Ok(Told::after(
        took,
        format!(
            "broker {id} had the role after {}; {leaders}",
            seconds(role)
        ),
    ))
}
