//! Who holds the role when somebody meddles with it, and when there are two klamms.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::teller::{Teller, Told};
use crate::wait::Seen;

pub const CONTROLLER_DELETED: Story = Story {
    name: "controller-deleted",
    about: "/controller is deleted by hand: a new term begins, nothing is leaderless, klamm has the role in the end",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: controller_deleted,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn controller_deleted(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    for time in [
        "/controller is deleted by hand",
        "/controller is deleted once more",
    ] {
        teller.step(time, || delete_controller(cluster))?;
    }
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

fn delete_controller(cluster: &mut Cluster) -> Result<Told> {
    let before = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    let watch = cluster.watch_leaders();
    cluster.zk.delete("/controller")?;
    let vacant = cluster.wait("a new controller epoch", PATIENCE, |cluster| {
        epoch_above(cluster, before.epoch)
    })?;
    if cluster.plan.leading == Leading::Klamm {
        // A Java broker may have been faster; klamm, which is to hold the role always, takes it from there.
        cluster.wait_controller(FIRST_ID, PATIENCE)?;
    }
    cluster.wait_all_led(PATIENCE)?;
    let leaders = watch.expect_nothing_leaderless()?;
    acts::flowing(cluster)?;
    let owner = cluster.zk.controller()?.context("the role is vacant")?;
    Ok(format!(
        "a new term after {}; {} holds the role; {leaders}",
        seconds(vacant),
        owner.id
    )
    .into())
}

/// Done when the controller epoch is above `epoch` and somebody holds the role.
pub fn epoch_above(cluster: &mut Cluster, epoch: i32) -> Result<Seen<()>> {
    let now = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    Ok(match cluster.zk.controller()? {
        Some(_) if now.epoch > epoch => Seen::Done(()),
        owner => Seen::Not(format!("epoch {}, held by {owner:?}", now.epoch)),
    })
}

/// Done when the controller epoch is above `epoch`, whether or not somebody holds the role by now.
pub fn epoch_moved(cluster: &mut Cluster, epoch: i32) -> Result<Seen<()>> {
    let now = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    Ok(if now.epoch > epoch {
        Seen::Done(())
    } else {
        Seen::Not(format!("epoch {}", now.epoch))
    })
}

/// The id of the second klamm.
const SECOND_ID: i32 = FIRST_ID + 1;

pub const STANDBY: Story = Story {
    name: "standby",
    about: "two klamms never fight: one leads, one stands by, and the standby takes over when the first dies",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: standby,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn standby(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("a second klamm stands by", || {
        stands_by(cluster, SECOND_ID, FIRST_ID)
    })?;
    teller.step("the first dies and the second takes over", || {
        standby_takes_over(cluster)
    })?;
    teller.step("the first returns and stands by", || {
        cluster.klamm(FIRST_ID)?.process.restart()?;
        is_standby(cluster, FIRST_ID, SECOND_ID)
    })?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

fn stands_by(cluster: &mut Cluster, id: i32, active: i32) -> Result<Told> {
    cluster.start_klamm(id, &[])?;
    is_standby(cluster, id, active)
}

/// `id` is ready, registers nothing, and leaves the role to `active`, though it has had the time to take it.
fn is_standby(cluster: &mut Cluster, id: i32, active: i32) -> Result<Told> {
    let before = cluster.zk.controller()?.context("the role is vacant")?;
    cluster.klamm(id)?.wait_ready()?;
    // Longer than klamm.takeover.delay.ms, after which it would take the role from a Java broker.
    cluster.hold(
        "a standby must not contend",
        Duration::from_secs(8),
        |cluster| {
            let owner = cluster.zk.controller()?;
            ensure!(
                owner.as_ref() == Some(&before),
                "the role moved from {before:?} to {owner:?}"
            );
            let registered = cluster.zk.broker_ids()?;
            ensure!(
                !registered.contains(&id),
                "the standby {id} is registered: {registered:?}"
            );
            Ok(())
        },
    )?;
    let active_count = "kafka_controller_kafkacontroller_activecontrollercount";
    for (klamm, expected) in [(id, 0.0), (active, 1.0)] {
        let value = cluster.klamm(klamm)?.metric(active_count)?;
        ensure!(
            (value - expected).abs() < 0.5,
            "{active_count} of klamm {klamm} is {value}, expected {expected}"
        );
    }
    let marked = cluster.zk.klamm_ids()?;
    ensure!(
        marked.contains(&id),
        "/klamm/ids has {marked:?} and not {id}"
    );
    Ok(format!("{id} is ready, {active} keeps the role").into())
}

fn standby_takes_over(cluster: &mut Cluster) -> Result<Told> {
    let started = std::time::Instant::now();
    let watch = cluster.watch_leaders();
    cluster.klamm(FIRST_ID)?.process.kill()?;
    cluster.wait_controller(SECOND_ID, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    let took = started.elapsed();
    let leaders = watch.expect_nothing_leaderless()?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, leaders))
}
