//! Everything that no client should send, at once: it costs its senders their connections, and nobody else anything.
//!
//! What genuine brokers must not get is held back: see [`crate::hostile::frames`].

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::acts::{self, PATIENCE};
use super::{Choice, Pace, Story};
use crate::cluster::Cluster;
use crate::hostile::frames::Behind;
use crate::hostile::{self, Plan};
use crate::klamm::FIRST_ID;
use crate::teller::{Teller, Told};

/// klamm's resident memory may grow by so much while 2,000 connections idle, hundreds don't read, and 100 MiB are
/// announced a hundred times.
const GROWTH_MAX_BYTES: u64 = 128 * 1024 * 1024;
/// An honest client is answered within so long meanwhile, on a machine that brokers and the attack share with klamm.
const HONEST_WAITS: Duration = Duration::from_secs(10);
/// A topic that makes answers about all topics long.
const BIG_TOPIC: (&str, usize) = ("wide", 200);

/// What whoever tells the story may choose.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub frames: usize,
    pub seed: u64,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            frames: 100_000,
            seed: 20_260_101,
        }
    }
}

static SCALE: OnceLock<Scale> = OnceLock::new();

/// Chooses how much is sent, and what, before the story is told.
pub fn choose(scale: Scale) {
    // The first choice stays: a process tells the story once.
    let _ = SCALE.set(scale);
}

pub const HOSTILE: Story = Story {
    name: "hostile",
    about: "100,000 damaged requests, 2 GiB lengths, 2,000 idle connections, slow readers: klamm keeps the role and serves the others",
    pace: Pace::Slow,
    baseline: false,
    plan: Choice::mixed,
    tell,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn tell(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step("a topic of many partitions is there", || {
        let (topic, partitions) = BIG_TOPIC;
        cluster.create_topic(topic, partitions, 3)?;
        cluster.wait_topic(topic, partitions, PATIENCE)?;
        cluster.wait_all_led(PATIENCE)?;
        Ok("")
    })?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    teller.step("hostile clients do what they can", || besiege(cluster))?;
    teller.step("traffic still flows", || {
        Ok(Told::after(acts::flowing(cluster)?, ""))
    })
}

fn besiege(cluster: &mut Cluster) -> Result<Told> {
    let scale = SCALE.get().copied().unwrap_or_default();
    let before = Kept::of(cluster)?;
    let watch = cluster.watch_leaders();
    let klamm = cluster.klamm(FIRST_ID)?;
    let plan = Plan {
        address: klamm.address.clone(),
        seed: scale.seed,
        frames: scale.frames,
        idle: 2_000,
        held: 100,
        behind: Behind::GenuineBrokers,
        honest: |connection| connection.view().map(drop),
        honest_waits: HONEST_WAITS,
        process: Some(klamm.process.pid()),
    };
    let figures = hostile::attack(&plan)?;
    ensure!(
        figures.growth_bytes() <= GROWTH_MAX_BYTES,
        "klamm grew by {} MiB, and at most {} are in order: {figures}",
        figures.growth_bytes() / 1024 / 1024,
        GROWTH_MAX_BYTES / 1024 / 1024,
    );
    cluster.check_all_alive()?;
    before.is_still_so(cluster)?;
    let leaders = watch.expect_nothing_leaderless()?;
    Ok(format!("seed {}: {figures}; {leaders}", scale.seed).into())
}

/// What hostile clients must not change.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    controller: i32,
    controller_epoch: i32,
    topics: BTreeSet<String>,
    brokers: BTreeSet<i32>,
}

impl Kept {
    fn of(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            controller: cluster.zk.controller()?.context("the role is vacant")?.id,
            controller_epoch: cluster
                .zk
                .controller_epoch()?
                .context("there is no controller epoch")?
                .epoch,
            topics: cluster.zk.topics()?,
            brokers: cluster.zk.broker_ids()?,
        })
    }

    fn is_still_so(&self, cluster: &Cluster) -> Result<()> {
        let now = Self::of(cluster)?;
        ensure!(*self == now, "hostile clients changed {self:?} to {now:?}");
        Ok(())
    }
}
