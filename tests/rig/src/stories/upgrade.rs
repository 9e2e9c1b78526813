//! The inter-broker protocol rises, one broker after the other, under traffic.

use anyhow::{Context, Result};

use super::acts::{self, PATIENCE};
use super::{Choice, Pace, Story};
use crate::cluster::{Cluster, ClusterPlan};
use crate::teller::{Teller, Told};
use crate::version::{Ibp, KafkaVersion};
use crate::wait::Seen;

const PROTOCOL: &str = "inter.broker.protocol.version";
/// Topics have ids from here on.
const TOPIC_IDS: Ibp = Ibp::new(2, 8);
/// `/feature` is there from here on.
const FEATURES: Ibp = Ibp::new(2, 7);

pub const ROLLING_UPGRADE: Story = Story {
    name: "rolling-upgrade",
    about: "every broker is restarted for each step of the protocol, 2.4 to 2.8 to 3.9: topics get ids, nothing is lost",
    pace: Pace::Slow,
    baseline: true,
    plan,
    tell: rolling_upgrade,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

/// Begins at the lowest step, whatever is chosen. klamm goes by what the brokers say: a protocol in its own file would
/// count more.
fn plan(choice: &Choice) -> ClusterPlan {
    let plan = choice.plan_or(&[KafkaVersion::V3_9_2; 3]);
    let ibp = *steps(&plan.brokers).first().unwrap_or(&plan.ibp);
    ClusterPlan {
        ibp,
        klamm_leaves_out: &[PROTOCOL],
        ..plan
    }
}

/// The protocols that these brokers go through.
fn steps(brokers: &[KafkaVersion]) -> Vec<Ibp> {
    let highest = Ibp::lowest_of(brokers);
    let all = [Ibp::new(2, 3), Ibp::new(2, 4), TOPIC_IDS, Ibp::new(3, 9)];
    let within: Vec<Ibp> = all.into_iter().filter(|ibp| *ibp <= highest).collect();
    // 2.3 is there for those that go no further than 2.4.
    match within.len() {
        0..=2 => within,
        _ => within[1..].to_vec(),
    }
}

fn rolling_upgrade(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let steps = steps(&cluster.plan.brokers);
    for ibp in steps.into_iter().skip(1) {
        for id in cluster.genuine_ids() {
            teller.step(
                &format!("broker {id} is stopped gently for IBP {ibp}"),
                || acts::stop_gently(cluster, id),
            )?;
            teller.step(&format!("broker {id} returns at IBP {ibp}"), || {
                cluster
                    .broker(id)?
                    .set_property(PROTOCOL, &ibp.to_string())?;
                acts::return_broker(cluster, id)
            })?;
        }
        cluster.plan.ibp = ibp;
        teller.step(&format!("ZooKeeper is as IBP {ibp} wants it"), || {
            as_wanted(cluster, ibp)
        })?;
    }
    Ok(())
}

fn as_wanted(cluster: &mut Cluster, ibp: Ibp) -> Result<Told> {
    let took = cluster.wait("the controller to see the protocol", PATIENCE, |cluster| {
        if ibp >= FEATURES && cluster.zk.get("/feature")?.is_none() {
            return Ok(Seen::Not("there is no /feature".to_owned()));
        }
        for topic in cluster.zk.topics()? {
            let path = format!("/brokers/topics/{topic}");
            let (data, _) = cluster.zk.get(&path)?.context("a topic went")?;
            let json: serde_json::Value = serde_json::from_slice(&data)?;
            let has_id = json.get("topic_id").is_some();
            if has_id != (ibp >= TOPIC_IDS) {
                return Ok(Seen::Not(format!("{path} is {json}")));
            }
        }
        Ok(Seen::Done(()))
    })?;
    let topic = format!("made-at-{ibp}").replace('.', "-");
    cluster.create_topic(&topic, 3, 3)?;
    cluster.wait_topic(&topic, 3, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    cluster.traffic()?.add_topic(&topic, 3)?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, format!("{topic} takes records")))
}
