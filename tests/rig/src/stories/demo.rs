//! The demo: the whole of it in one go, on one cluster, for somebody who watches.
//!
//! Where the other stories end with the first step that fails, this one goes on: what follows is worth seeing too.

use anyhow::Result;

use super::acts;
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::teller::{Teller, Told};

/// Not one of [`super::STORIES`]: it has a front door of its own, and its parts are told there one by one.
pub const DEMO: Story = Story {
    name: "demo",
    about: "klamm takes over, leads through death and return, dies, returns, and hands back",
    pace: Pace::Slow,
    baseline: true,
    plan: Choice::mixed,
    tell: demo,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn demo(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    // Without traffic there is nothing to prove.
    teller.step("topics are created and traffic flows", || {
        acts::start_traffic(cluster)
    })?;
    let klamm_leads = cluster.plan.leading == Leading::Klamm;
    go_on(teller, acts::takes_over(cluster), || {
        acts::takeover(cluster)
    });
    go_on(teller, "a topic is created by producing to it", || {
        acts::auto_create(cluster, "clicks")
    });
    go_on(
        teller,
        "kafka-topics 2.8.2 --zookeeper creates a topic and expands it",
        || acts::create_and_expand(cluster, "returns"),
    );
    let victim = acts::busiest_broker(cluster)?;
    go_on(
        teller,
        "the broker that leads most is killed with SIGKILL",
        || acts::kill_broker(cluster, victim),
    );
    go_on(teller, "it returns, and every ISR is full", || {
        acts::return_broker(cluster, victim)
    });
    let leaver = acts::busiest_broker(cluster)?;
    go_on(
        teller,
        "a broker is stopped gently, with no leaderless moment",
        || acts::stop_gently(cluster, leaver),
    );
    go_on(teller, "it returns, and every ISR is full", || {
        acts::return_broker(cluster, leaver)
    });
    if klamm_leads {
        go_on(
            teller,
            "klamm is killed with SIGKILL, and a Java broker takes over",
            || acts::kill_klamm(cluster),
        );
        go_on(teller, "klamm takes the role back", || {
            acts::klamm_returns(cluster)
        });
        go_on(teller, "klamm hands the role back", || {
            acts::hand_back(cluster)
        });
    } else {
        let controller = cluster.wait_java_controller(acts::PATIENCE)?.0;
        go_on(
            teller,
            "the controller's broker is killed with SIGKILL",
            || acts::kill_broker(cluster, controller),
        );
        go_on(teller, "it returns, and every ISR is full", || {
            acts::return_broker(cluster, controller)
        });
    }
    Ok(())
}

/// A step that failed is told and counted by the teller; the demo goes on.
fn go_on(teller: &mut Teller, text: &str, act: impl FnOnce() -> Result<Told>) {
    teller.step(text, act).ok();
}
