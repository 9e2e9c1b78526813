//! x
use anyhow::Result;
use klamm_rig::cluster::*;
use klamm_rig::version::*;
use std::time::*;
fn main() -> Result<()> {
    klamm_rig::interrupt::arm();
    let v: Vec<KafkaVersion> = std::env::args()
        .nth(1)
        .unwrap()
        .split(',')
        .map(|v| v.parse().unwrap())
        .collect();
    let ibp = std::env::args()
        .nth(2)
        .map(|v| v.parse().unwrap())
        .unwrap_or(Ibp::lowest_of(&v));
    let t = Instant::now();
    let mut c = Cluster::start("baseline", ClusterPlan::new(&v, ibp))?;
    println!("up {:?} {}", t.elapsed(), c.run.directory().display());
    c.create_topic("alpha", 6, 3)?;
    println!(
        "topic {:?}",
        c.wait_topic("alpha", 6, Duration::from_secs(20))?
    );
    println!("led {:?}", c.wait_all_led(Duration::from_secs(20))?);
    c.start_traffic(&[("alpha", 6)], 300)?;
    println!("traffic {:?}", t.elapsed());
    let (id, _) = c.wait_java_controller(Duration::from_secs(1))?;
    let victim = if id == 1 { 2 } else { 1 };
    c.broker(victim)?.process.kill()?;
    let zk = c.zk.clone();
    println!(
        "unregistered {:?}",
        c.broker(victim)?.wait_unregistered(&zk)?
    );
    println!("led {:?}", c.wait_all_led(Duration::from_secs(20))?);
    println!(
        "flowing {:?}",
        c.traffic()?.wait_flowing(Duration::from_secs(60))?
    );
    c.broker(victim)?.restart(&zk)?;
    println!("up {:?}", c.broker(victim)?.wait_up(&zk)?);
    println!("isr {:?}", c.wait_isr_full(Duration::from_secs(60))?);
    let w = c.watch_leaders();
    c.broker(victim)?.stop()?;
    println!("{}", w.expect_nothing_leaderless()?);
    c.broker(victim)?.restart(&zk)?;
    println!("isr {:?}", c.wait_isr_full(Duration::from_secs(60))?);
    println!("{}", c.finish_traffic()?);
    Ok(())
}
