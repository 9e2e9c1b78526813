//! Brokers that are slow, that leave in order, and that ask klamm for what only a controller gives.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kafka_protocol::messages::InitProducerIdRequest;

use super::acts::{self, PATIENCE, seconds};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::version::KafkaVersion;
use crate::wait::{self, Seen};
use crate::wire::{self, Connection};

pub const PAUSED_BROKER: Story = Story {
    name: "paused-broker",
    about: "a broker is paused with SIGSTOP while others need their controller: nobody waits for it",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: paused_broker,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn paused_broker(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let controller = cluster.zk.controller()?.map(|owner| owner.id);
    let mut others = cluster
        .genuine_ids()
        .into_iter()
        .filter(|id| Some(*id) != controller);
    let paused = others.next().context("no broker to pause")?;
    let killed = others.next().context("no broker to kill")?;
    teller.step(
        "a broker is paused; a topic of the others is served all the same",
        || delays_nobody(cluster, paused),
    )?;
    teller.step(
        "it is paused again and another is killed: the rest leads at once",
        || fails_over_beside(cluster, paused, killed),
    )?;
    teller.step("the paused one goes on and the killed one returns", || {
        let zk = cluster.zk.clone();
        let broker = cluster.broker(paused)?;
        broker.process.resume()?;
        broker.wait_up(&zk)?;
        acts::return_broker(cluster, killed)
    })
}

/// The pause is shorter than the broker's session: it stays registered, and a request to it is under way all the time.
fn delays_nobody(cluster: &mut Cluster, paused: i32) -> Result<Told> {
    let others: Vec<i32> = cluster
        .genuine_ids()
        .into_iter()
        .filter(|id| *id != paused)
        .collect();
    cluster.broker(paused)?.process.pause()?;
    let topic = "beside-the-sleeper";
    let told = create_and_see(cluster, topic, &others);
    // Whatever came of it, the broker goes on.
    cluster.broker(paused)?.process.resume()?;
    let took = told?;
    cluster.wait_all_led(PATIENCE)?;
    acts::flowing(cluster)?;
    ensure!(
        took < acts::session_timeout() / 2,
        "broker {paused} was waited for: the topic was served after {}",
        seconds(took)
    );
    Ok(Told::after(took, format!("broker {paused} was paused")))
}

fn create_and_see(cluster: &mut Cluster, topic: &str, ids: &[i32]) -> Result<Duration> {
    let node = crate::cluster::assignment(ids, ids.len(), 1);
    cluster
        .zk
        .create(&format!("/brokers/topics/{topic}"), &node)?;
    cluster.wait(
        "the topic to be served",
        Duration::from_secs(10),
        |cluster| {
            for (id, address) in cluster.answering_brokers() {
                let view = wire::view(&address)?;
                let led = view
                    .leaders
                    .iter()
                    .filter(|(partition, leader)| partition.topic == topic && **leader >= 0)
                    .count();
                if led < ids.len() {
                    return Ok(Seen::Not(format!(
                        "broker {id} shows {led} of {} partitions as led",
                        ids.len()
                    )));
                }
            }
            Ok(Seen::Done(()))
        },
    )
}

fn fails_over_beside(cluster: &mut Cluster, paused: i32, killed: i32) -> Result<Told> {
    let zk = cluster.zk.clone();
    cluster.broker(paused)?.process.pause()?;
    cluster.broker(killed)?.process.kill()?;
    for id in [paused, killed] {
        cluster.broker(id)?.wait_unregistered(&zk)?;
    }
    let took = cluster.wait_all_led(PATIENCE)?;
    ensure!(
        took < Duration::from_secs(5),
        "with both gone from ZooKeeper it took {} until the rest led: somebody was waited for",
        seconds(took)
    );
    Ok(Told::after(
        took,
        format!("broker {paused} paused, broker {killed} killed; counted from ZooKeeper's notice"),
    ))
}

pub const CONTROLLED_SHUTDOWN: Story = Story {
    name: "controlled-shutdown",
    about: "every broker in turn is stopped gently and returns: no partition is ever without a leader",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: controlled_shutdown,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn controlled_shutdown(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    for id in cluster.genuine_ids() {
        teller.step(&format!("broker {id} is stopped gently"), || {
            acts::stop_gently(cluster, id)
        })?;
        teller.step(&format!("broker {id} returns"), || {
            acts::return_broker(cluster, id)
        })?;
    }
    Ok(())
}

/// A topic that one broker leads alone.
const WIDE: &str = "wide";
const WIDE_PARTITIONS: usize = 1_000;

pub const THOUSAND_LED: Story = Story {
    name: "thousand-led",
    about: "a broker that leads 1,000 partitions is stopped gently: others lead them, and nothing is without a leader",
    pace: Pace::Quick,
    baseline: true,
    plan: Choice::mixed,
    tell: thousand_led,
    klamm_may_log: &[Listed {
        fragments: &["is registered and has not taken"],
        reason: "on a small machine a broker needs more than 30 s to open 1,000 logs",
    }],
    brokers_may_log: &[],
};

fn thousand_led(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let leader = acts::busiest_broker(cluster)?;
    teller.step("a broker leads 1,000 partitions more", || {
        lead_alone(cluster, leader)
    })?;
    teller.step("it is stopped gently", || {
        acts::stop_gently(cluster, leader)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, leader))
}

fn lead_alone(cluster: &mut Cluster, leader: i32) -> Result<Told> {
    let mut replicas: Vec<i32> = cluster.genuine_ids().into_iter().collect();
    replicas.retain(|id| *id != leader);
    let second = replicas.first().copied().context("no second broker")?;
    let node = |partition: usize| (partition.to_string(), serde_json::json!([leader, second]));
    let partitions: serde_json::Map<_, _> = (0..WIDE_PARTITIONS).map(node).collect();
    let node = serde_json::json!({"version": 1, "partitions": partitions}).to_string();
    cluster.zk.create(
        &format!("/config/topics/{WIDE}"),
        br#"{"version":1,"config":{}}"#,
    )?;
    cluster
        .zk
        .create(&format!("/brokers/topics/{WIDE}"), node.as_bytes())?;
    let took = cluster.wait_topic(WIDE, WIDE_PARTITIONS, 2 * PATIENCE)?;
    cluster.wait_all_led(2 * PATIENCE)?;
    cluster.wait_isr_full(2 * PATIENCE)?;
    acts::flowing(cluster)?;
    Ok(Told::after(took, format!("broker {leader}")))
}

pub const IDEMPOTENT_PRODUCER: Story = Story {
    name: "idempotent-producer",
    about: "at IBP 3.9 every broker gets its producer ids from klamm, and no record is doubled over a failover",
    pace: Pace::Quick,
    baseline: true,
    plan: |choice| {
        choice.plan_or(&[
            KafkaVersion::V3_9_2,
            KafkaVersion::V3_9_2,
            KafkaVersion::V3_9_2,
        ])
    },
    tell: idempotent_producer,
    klamm_may_log: &[],
    brokers_may_log: &[],
};

fn idempotent_producer(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("klamm takes over before any producer was there", || {
        acts::takeover(cluster)
    })?;
    teller.step(
        "every broker hands out producer ids of a block of its own",
        || producer_ids(cluster),
    )?;
    teller.step("traffic of an idempotent producer flows", || {
        acts::start_traffic(cluster)
    })?;
    let victim = acts::busiest_broker(cluster)?;
    teller.step("a broker that leads is killed", || {
        acts::kill_broker(cluster, victim)
    })?;
    teller.step("it returns", || acts::return_broker(cluster, victim))
}

/// Asks every broker, and klamm's own listener as a client would that knows no better, for a producer id.
fn producer_ids(cluster: &mut Cluster) -> Result<Told> {
    let mut asked = cluster.answering_brokers();
    if cluster.plan.leading == Leading::Klamm {
        asked.push((FIRST_ID, cluster.klamm(FIRST_ID)?.address.clone()));
    }
    let mut ids = Vec::new();
    for (node, address) in asked {
        let id =
            producer_id(&address).with_context(|| format!("node {node} gives no producer id"))?;
        ensure!(
            !ids.contains(&id),
            "node {node} gave producer id {id}, which another has given"
        );
        ids.push(id);
    }
    let block = cluster.zk.get("/latest_producer_id_block")?;
    ensure!(
        block.is_some(),
        "/latest_producer_id_block does not exist: the ids came from elsewhere"
    );
    Ok(format!("ids {ids:?}").into())
}

/// A broker answers "not yet" (COORDINATOR_LOAD_IN_PROGRESS) while it waits for its block.
fn producer_id(address: &str) -> Result<i64> {
    let mut id = 0;
    wait::until("a producer id", Duration::from_secs(20), || {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000);
        let answer = Connection::open(address)?.call(&request, 1)?;
        if answer.error_code != 0 {
            return Ok(Seen::Not(format!("error {}", answer.error_code)));
        }
        id = answer.producer_id.0;
        Ok(Seen::Done(()))
    })?;
    Ok(id)
}
