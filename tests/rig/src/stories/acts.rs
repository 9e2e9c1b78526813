//! What is done in more than one story: each act does one thing to a running cluster, waits for what must come of it,
//! and returns what it took.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::broker::SESSION_TIMEOUT_MS;
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::stories::Leading;
use crate::teller::Told;

/// What a cluster of the rig needs at most to come to rest, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Topics that carry traffic, with their partitions; all have three replicas.
pub const TOPICS: [(&str, usize); 2] = [("orders", 6), ("payments", 4)];
const RECORDS_PER_SECOND: u32 = 200;

/// ZooKeeper notices a death after the session timeout, at the latest one tick of its own after that.
pub fn session_timeout() -> Duration {
    Duration::from_millis(SESSION_TIMEOUT_MS)
}

/// Creates [`TOPICS`] and lets traffic flow.
pub fn start_traffic(cluster: &mut Cluster) -> Result<Told> {
    for (topic, partitions) in TOPICS {
        cluster.create_topic(topic, partitions, 3)?;
        cluster.wait_topic(topic, partitions, PATIENCE)?;
    }
    cluster.wait_all_led(PATIENCE)?;
    cluster.start_traffic(&TOPICS, RECORDS_PER_SECOND)?;
    Ok(format!("{RECORDS_PER_SECOND} records a second with acks=all, read as they come").into())
}

/// How [`takeover`] is told.
pub fn takes_over(cluster: &Cluster) -> &'static str {
    match cluster.plan.leading {
        Leading::Klamm => "klamm takes over",
        Leading::Java => "the Java controller leads",
    }
}

/// klamm is started and takes the role from the Java controller; no partition is ever without a leader.
pub fn takeover(cluster: &mut Cluster) -> Result<Told> {
    takeover_with(cluster, &[])
}

/// [`takeover`] by a klamm that is started with these overrides.
pub fn takeover_with(cluster: &mut Cluster, overrides: &[(&str, &str)]) -> Result<Told> {
    if cluster.plan.leading == Leading::Java {
        return java_leads(cluster);
    }
    let before = cluster
        .zk
        .controller_epoch()?
        .context("the cluster has no controller epoch")?;
    let watch = cluster.watch_leaders();
    cluster.start_klamm(FIRST_ID, overrides)?;
    let role = cluster.wait_controller(FIRST_ID, PATIENCE)?;
    let led = cluster.wait_all_led(PATIENCE)?;
    let after = cluster
        .zk
        .controller_epoch()?
        .context("the controller epoch is gone")?;
    ensure!(
        after.epoch > before.epoch,
        "the controller epoch stayed {}",
        after.epoch
    );
    let leaders = watch.expect_nothing_leaderless()?;
    Ok(Told::after(
        role + led,
        format!(
            "in the role {} after its start, every broker follows {} later; {leaders}",
            seconds(role),
            seconds(led)
        ),
    ))
}

fn java_leads(cluster: &mut Cluster) -> Result<Told> {
    let (id, _) = cluster.wait_java_controller(PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    Ok(format!("broker {id} is the controller").into())
}

/// The broker that leads the most partitions, without the controller's under Java: the act is about brokers.
pub fn busiest_broker(cluster: &mut Cluster) -> Result<i32> {
    let controller = cluster.zk.controller()?.map(|owner| owner.id);
    let mut led: BTreeMap<i32, usize> = BTreeMap::new();
    for state in cluster.zk.states()?.values() {
        *led.entry(state.leader).or_default() += 1;
    }
    led.into_iter()
        .filter(|(id, _)| Some(*id) != controller && cluster.brokers.contains_key(id))
        .max_by_key(|(_, partitions)| *partitions)
        .map(|(id, _)| id)
        .context("no broker leads anything")
}

/// Whoever else is to lead must be in sync: on a slow machine followers of new partitions take longer to be told of them
/// than their leader waits for them. Where another broker is down nobody can wait for that.
fn others_are_in_sync(cluster: &mut Cluster) -> Result<()> {
    if cluster.answering_brokers().len() == cluster.brokers.len() {
        cluster.wait_isr_full(PATIENCE)?;
    }
    Ok(())
}

/// `id` is killed with SIGKILL: as soon as ZooKeeper has noticed, every partition is led again, and traffic flows.
pub fn kill_broker(cluster: &mut Cluster, id: i32) -> Result<Told> {
    others_are_in_sync(cluster)?;
    let started = Instant::now();
    let zk = cluster.zk.clone();
    let led_before = cluster
        .zk
        .states()?
        .values()
        .filter(|state| state.leader == id)
        .count();
    let broker = cluster.broker(id)?;
    let version = broker.version;
    broker.process.kill()?;
    let noticed = broker.wait_unregistered(&zk)?;
    let led = cluster.wait_all_led(PATIENCE)?;
    let took = started.elapsed();
    flowing(cluster)?;
    Ok(Told::after(
        took,
        format!(
            "broker {id} ({version}) led {led_before} partitions; its session took {}, the new leaders {}",
            seconds(noticed),
            seconds(led)
        ),
    ))
}

/// A broker that was down is started; every ISR is full again.
pub fn return_broker(cluster: &mut Cluster, id: i32) -> Result<Told> {
    let started = Instant::now();
    let zk = cluster.zk.clone();
    let broker = cluster.broker(id)?;
    broker.restart(&zk)?;
    let up = broker.wait_up(&zk)?;
    let full = cluster.wait_isr_full(PATIENCE)?;
    let took = started.elapsed();
    cluster.wait_all_led(PATIENCE)?;
    Ok(Told::after(
        took,
        format!(
            "broker {id} was up after {}, every ISR full {} later",
            seconds(up),
            seconds(full)
        ),
    ))
}

/// `id` is stopped with SIGTERM: it hands over all it leads first, so that no partition is ever without a leader.
pub fn stop_gently(cluster: &mut Cluster, id: i32) -> Result<Told> {
    others_are_in_sync(cluster)?;
    let started = Instant::now();
    let zk = cluster.zk.clone();
    let watch = cluster.watch_leaders();
    let broker = cluster.broker(id)?;
    let version = broker.version;
    let said_before = handed_over(cluster, id)?;
    cluster.broker(id)?.stop()?;
    let took = started.elapsed();
    cluster.broker(id)?.wait_unregistered(&zk)?;
    cluster.wait_all_led(PATIENCE)?;
    let leaders = watch.expect_nothing_leaderless()?;
    ensure!(
        handed_over(cluster, id)? > said_before,
        "broker {id} went without a word that its controlled shutdown succeeded; its log: {}",
        cluster.run.log(&format!("broker-{id}.log")).display()
    );
    flowing(cluster)?;
    Ok(Told::after(
        took,
        format!("broker {id} ({version}); {leaders}"),
    ))
}

/// How often broker `id` has said that its controlled shutdown was granted; otherwise it would have just gone.
fn handed_over(cluster: &Cluster, id: i32) -> Result<usize> {
    // In the words of the releases up to 2.8, and of later ones.
    const GRANTED: [&str; 2] = [
        "Controlled shutdown succeeded",
        "Controlled shutdown request returned successfully",
    ];
    let path = cluster.run.log(&format!("broker-{id}.log"));
    let log = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&log);
    Ok(GRANTED
        .iter()
        .map(|words| text.matches(words).count())
        .sum())
}

/// klamm is killed with SIGKILL: a genuine broker takes the role as soon as ZooKeeper has noticed.
pub fn kill_klamm(cluster: &mut Cluster) -> Result<Told> {
    let started = Instant::now();
    let before = cluster
        .zk
        .controller_epoch()?
        .context("the cluster has no controller epoch")?;
    let watch = cluster.watch_leaders();
    cluster.klamm(FIRST_ID)?.process.kill()?;
    let (id, role) = cluster.wait_java_controller(PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    let took = started.elapsed();
    let after = cluster
        .zk
        .controller_epoch()?
        .context("the controller epoch is gone")?;
    ensure!(
        after.epoch > before.epoch,
        "the controller epoch stayed {}",
        after.epoch
    );
    let registered = cluster.zk.broker_ids()?;
    ensure!(
        !registered.contains(&FIRST_ID),
        "klamm is dead and still registered: {registered:?}"
    );
    let leaders = watch.expect_nothing_leaderless()?;
    flowing(cluster)?;
    let slack = Duration::from_secs(3);
    ensure!(
        role < session_timeout() + slack,
        "the role was vacant for {}, more than one session timeout of {}",
        seconds(role),
        seconds(session_timeout())
    );
    Ok(Told::after(
        took,
        format!(
            "broker {id} had the role after {}; {leaders}",
            seconds(role)
        ),
    ))
}

/// A klamm that was killed is started again and takes the role back from the Java controller.
pub fn klamm_returns(cluster: &mut Cluster) -> Result<Told> {
    let started = Instant::now();
    let watch = cluster.watch_leaders();
    cluster.klamm(FIRST_ID)?.process.restart()?;
    let role = cluster.wait_controller(FIRST_ID, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    let took = started.elapsed();
    let leaders = watch.expect_nothing_leaderless()?;
    flowing(cluster)?;
    Ok(Told::after(
        took,
        format!("in the role after {}; {leaders}", seconds(role)),
    ))
}

/// `klamm handback` from another shell: a genuine broker holds the role when it returns, and klamm leaves it there.
pub fn hand_back(cluster: &mut Cluster) -> Result<Told> {
    let watch = cluster.watch_leaders();
    let took = {
        let klamm = cluster
            .klamms
            .get(&FIRST_ID)
            .context("no klamm was started")?;
        klamm.command(&cluster.run, "handback")?
    };
    let owner = cluster
        .zk
        .controller()?
        .context("klamm handback returned while the role was vacant")?;
    ensure!(
        cluster.brokers.contains_key(&owner.id),
        "klamm handback returned while {} held the role, which is no genuine broker",
        owner.id
    );
    ensure!(
        cluster.zk.get("/klamm/hold")?.is_some(),
        "klamm handback left no /klamm/hold: klamm may take the role again"
    );
    let registered = cluster.zk.broker_ids()?;
    ensure!(
        !registered.contains(&FIRST_ID),
        "klamm gave the role back and is still registered: {registered:?}"
    );
    cluster.wait_all_led(PATIENCE)?;
    let leaders = watch.expect_nothing_leaderless()?;
    flowing(cluster)?;
    Ok(Told::after(
        took,
        format!("broker {} has the role; {leaders}", owner.id),
    ))
}

/// A topic that does not exist is produced to: a broker creates it, and it is served without a replica on klamm.
pub fn auto_create(cluster: &mut Cluster, topic: &str) -> Result<Told> {
    let started = Instant::now();
    // num.partitions of the rig's brokers.
    let partitions = 4;
    cluster.traffic()?.add_topic(topic, partitions)?;
    cluster.wait_topic(topic, partitions, PATIENCE)?;
    flowing(cluster)?;
    Ok(Told::after(
        started.elapsed(),
        format!("{topic} has {partitions} partitions, all on genuine brokers, and takes records"),
    ))
}

/// kafka-topics of 2.8.2 creates a topic through ZooKeeper and expands it.
pub fn create_and_expand(cluster: &mut Cluster, topic: &str) -> Result<Told> {
    let replication = cluster.brokers.len().min(3).to_string();
    let create = [
        "--create",
        "--topic",
        topic,
        "--partitions",
        "3",
        "--replication-factor",
        replication.as_str(),
    ];
    cluster.topics_by_zookeeper(&create)?;
    let created = cluster.wait_topic(topic, 3, PATIENCE)?;
    cluster.topics_by_zookeeper(&["--alter", "--topic", topic, "--partitions", "6"])?;
    let expanded = cluster.wait_topic(topic, 6, PATIENCE)?;
    cluster.wait_all_led(PATIENCE)?;
    cluster.traffic()?.add_topic(topic, 6)?;
    flowing(cluster)?;
    Ok(Told::after(
        created + expanded,
        format!(
            "3 partitions led {} after the tool ended, 6 {} after",
            seconds(created),
            seconds(expanded)
        ),
    ))
}

/// Every partition with traffic takes records acknowledged after this call.
pub fn flowing(cluster: &mut Cluster) -> Result<Duration> {
    match &mut cluster.traffic {
        Some(traffic) => traffic.wait_flowing(PATIENCE),
        None => Ok(Duration::ZERO),
    }
}

pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
