//! A controller that slept through the loss of its role and wakes up with work half done.

use anyhow::{Context, Result, bail, ensure};

use super::acts::{self, PATIENCE};
use super::{CANNOT_CONNECT, CONNECTION_LOST, Choice, Pace, SESSION_EXPIRED, Story};
use crate::cluster::Cluster;
use crate::history;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::wait::Seen;
use crate::wire;
use crate::zk::{Epoch, Owner};

pub const ZOMBIE: Story = Story {
    name: "zombie",
    about: "klamm sleeps longer than its session: awake again it writes nothing, nobody obeys it, it rejoins as a candidate",
    pace: Pace::Quick,
    baseline: false,
    plan: Choice::mixed,
    tell: zombie,
    klamm_may_log: &[CONNECTION_LOST, CANNOT_CONNECT, SESSION_EXPIRED],
    brokers_may_log: &[Listed {
        fragments: &["ControllerMovedException", "from an old controller"],
        reason: "what the zombie still had in hand when it woke is refused, as it must be",
    }],
};

/// Topics that klamm is just creating when it falls asleep, and their partitions.
const UNDER_WAY: (usize, usize) = (40, 5);

/// So that its requests' time is up when it wakes: it must read the answers that came meanwhile, and blame no broker.
const SHORTER_THAN_ITS_SLEEP: (&str, &str) = ("controller.socket.timeout.ms", "5000");

fn zombie(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || {
        acts::takeover_with(cluster, &[SHORTER_THAN_ITS_SLEEP])
    })?;
    let term = cluster
        .zk
        .controller()?
        .context("klamm has lost the role by itself")?;
    let mut successor = None;
    teller.step(
        "klamm falls asleep in the middle of its work; a Java broker takes over",
        || {
            let (told, owner) = fall_asleep(cluster)?;
            successor = Some(owner);
            Ok(told)
        },
    )?;
    let successor = successor.context("nobody took over")?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("meanwhile a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step(
        "klamm wakes up, and nobody obeys it before it has the role again",
        || wake_up(cluster),
    )?;
    teller.step(
        "its old session wrote nothing after it lost the role",
        || wrote_nothing(cluster, &term, &successor),
    )?;
    teller.step("the broker returns under the new term", || {
        acts::return_broker(cluster, victim)
    })
}

fn fall_asleep(cluster: &mut Cluster) -> Result<(Told, Owner)> {
    let (topics, partitions) = UNDER_WAY;
    let ids: Vec<i32> = cluster.genuine_ids().into_iter().collect();
    let nodes: Vec<(String, Vec<u8>)> = (0..topics)
        .map(|number| {
            let node = crate::cluster::assignment(&ids, partitions, 3);
            (format!("/brokers/topics/under-way-{number}"), node)
        })
        .collect();
    cluster.zk.create_all(&nodes)?;
    cluster.wait("klamm to be at work", PATIENCE, |cluster| {
        let begun = cluster
            .zk
            .states()?
            .keys()
            .any(|partition| partition.topic.starts_with("under-way"));
        Ok(if begun {
            Seen::Done(())
        } else {
            Seen::Not("none of the topics has a state".to_owned())
        })
    })?;
    cluster.klamm(FIRST_ID)?.process.pause()?;
    let (id, took) = cluster.wait_java_controller(PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    let owner = cluster
        .zk
        .controller()?
        .context("the role is vacant again")?;
    ensure!(
        owner.id == id,
        "the role moved on from {id} to {}",
        owner.id
    );
    Ok((
        Told::after(
            took,
            format!("broker {id}; {topics} topics were being created"),
        ),
        owner,
    ))
}

/// From the moment of waking until klamm holds the role in a new term, no broker may follow it.
fn wake_up(cluster: &mut Cluster) -> Result<Told> {
    let brokers = cluster.answering_brokers();
    let Epoch { epoch, .. } = cluster
        .zk
        .controller_epoch()?
        .context("there is no controller epoch")?;
    cluster.klamm(FIRST_ID)?.process.resume()?;
    let mut looks = 0;
    let took = cluster.wait(
        "klamm to be the controller in a new term",
        2 * PATIENCE,
        |cluster| {
            for (id, address) in &brokers {
                let told = wire::view(address)?.controller;
                let owner = cluster.zk.controller()?;
                looks += 1;
                if told == FIRST_ID && owner.as_ref().is_none_or(|owner| owner.id != FIRST_ID) {
                    return Ok(Seen::Never(format!(
                        "broker {id} follows klamm while {owner:?} holds the role"
                    )));
                }
            }
            let now = cluster
                .zk
                .controller_epoch()?
                .context("there is no controller epoch")?;
            Ok(match cluster.zk.controller()? {
                Some(owner) if owner.id == FIRST_ID && now.epoch > epoch => Seen::Done(()),
                owner => Seen::Not(format!("{owner:?} in epoch {}", now.epoch)),
            })
        },
    )?;
    cluster.wait_all_led(PATIENCE)?;
    acts::flowing(cluster)?;
    Ok(Told::after(
        took,
        format!("looked {looks} times; it has the role again, fairly"),
    ))
}

fn wrote_nothing(cluster: &mut Cluster, term: &Owner, successor: &Owner) -> Result<Told> {
    let transactions = history::transactions(cluster)?;
    let of_old_session = |transaction: &&history::Transaction| transaction.session == term.session;
    let before = transactions
        .iter()
        .filter(of_old_session)
        .filter(|transaction| transaction.is_write())
        .count();
    ensure!(
        before > 0,
        "the transaction log holds no write of klamm's first session, so it proves nothing"
    );
    let late: Vec<_> = transactions
        .iter()
        .filter(of_old_session)
        .filter(|transaction| transaction.is_write() && transaction.zxid > successor.czxid)
        .collect();
    if let Some(first) = late.first() {
        bail!(
            "{} writes of the old session after it lost the role; the first: {first:?}",
            late.len()
        );
    }
    Ok(format!("{before} writes while it held the role, none after").into())
}
