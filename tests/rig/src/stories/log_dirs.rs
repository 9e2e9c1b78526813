//! A log directory that fails under a running broker.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::acts::{self, PATIENCE};
use super::{Choice, Leading, Pace, Story};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::log_rule::Listed;
use crate::teller::{Teller, Told};
use crate::wait::Seen;
use crate::zk::TopicPartition;

pub const FAILED_LOG_DIR: Story = Story {
    name: "failed-log-dir",
    about: "one of a broker's two log directories fails: others lead what was in it, and it is in sync again when it is mended",
    pace: Pace::Quick,
    baseline: true,
    plan: |choice| {
        Choice::mixed(choice)
            .with_property("log.dirs", "{data}/one,{data}/two")
            // New segments, for which the directory is needed, every moment.
            .with_property("log.segment.bytes", "20000")
    },
    tell: failed_log_dir,
    klamm_may_log: &[Listed {
        fragments: &["log director"],
        reason: "klamm says which broker's log directory failed",
    }],
    brokers_may_log: &[
        Listed {
            fragments: &["KafkaStorageException"],
            reason: "the directory fails",
        },
        Listed {
            fragments: &["LogDirFailureChannel", "Not a directory"],
            reason: "the same, where it is noticed first",
        },
        Listed {
            fragments: &["ClosedChannelException"],
            reason: "the lock on the directory is released twice, the second time as the broker stops",
        },
    ],
};

fn failed_log_dir(teller: &mut Teller, cluster: &mut Cluster) -> Result<()> {
    teller.step("traffic flows", || acts::start_traffic(cluster))?;
    teller.step(acts::takes_over(cluster), || acts::takeover(cluster))?;
    let victim = acts::busiest_broker(cluster)?;
    let mut failed = None;
    teller.step(
        "the folder of a partition that a broker leads becomes a plain file",
        || {
            let folder = led_folder(cluster, victim)?;
            let told = fail(cluster, victim, &folder)?;
            failed = Some(folder);
            Ok(told)
        },
    )?;
    let folder = failed.context("no directory failed")?;
    teller.step("others lead all that was in the directory", || {
        others_lead(cluster, victim, &folder)
    })?;
    teller.step(
        "the directory is mended, the broker restarted: every ISR is full",
        || mend(cluster, victim, &folder),
    )
}

/// The folder of a partition with traffic that the broker leads, in the directory that holds more than this one.
fn led_folder(cluster: &mut Cluster, id: i32) -> Result<PathBuf> {
    let states = cluster.zk.states()?;
    let data = cluster.run.data(&format!("broker-{id}"));
    let led = states.iter().filter(|(_, state)| state.leader == id);
    for (partition, _) in led.filter(|(at, _)| acts::TOPICS.iter().any(|(t, _)| at.topic == *t)) {
        for directory in ["one", "two"] {
            let folder = data.join(directory).join(partition.to_string());
            if folder.is_dir() {
                return Ok(folder);
            }
        }
    }
    bail!("broker {id} leads nothing with traffic")
}

/// Where the folder is kept meanwhile: outside of the log directories.
fn kept(cluster: &Cluster, folder: &std::path::Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default();
    cluster.run.data("kept").join(name)
}

fn fail(cluster: &mut Cluster, id: i32, folder: &std::path::Path) -> Result<Told> {
    let kept = kept(cluster, folder);
    let parent = kept.parent().context("no parent")?;
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    fs::rename(folder, &kept).with_context(|| folder.display().to_string())?;
    fs::write(folder, b"no folder").with_context(|| folder.display().to_string())?;
    let partition = partition_of(folder)?;
    let took = cluster.wait("somebody else to lead it", PATIENCE, |cluster| {
        let state = cluster
            .zk
            .states_of([partition.clone()])?
            .remove(&partition);
        Ok(match state {
            Some(state) if state.leader >= 0 && state.leader != id => Seen::Done(()),
            state => Seen::Not(format!("{partition} is {state:?}")),
        })
    })?;
    Ok(Told::after(took, format!("broker {id}, {partition}")))
}

fn partition_of(folder: &std::path::Path) -> Result<TopicPartition> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let (topic, index) = name
        .rsplit_once('-')
        .with_context(|| format!("{name} is no partition's folder"))?;
    Ok(TopicPartition::new(topic, index.parse()?))
}

/// What the failed directory holds.
fn in_directory_of(folder: &std::path::Path) -> Result<Vec<TopicPartition>> {
    let directory = folder.parent().context("no directory")?;
    let listed = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut partitions = vec![partition_of(folder)?];
    for entry in listed {
        let path = entry?.path();
        if path.is_dir() && !path.to_string_lossy().ends_with("-delete") {
            partitions.extend(partition_of(&path).ok());
        }
    }
    Ok(partitions)
}

/// The broker stays, and leads on in its other directory.
fn others_lead(cluster: &mut Cluster, id: i32, folder: &std::path::Path) -> Result<Told> {
    let lost = in_directory_of(folder)?;
    let took = cluster.wait("the others to lead", PATIENCE, |cluster| {
        let states = cluster.zk.states_of(lost.iter().cloned())?;
        let left = states
            .iter()
            .find(|(_, state)| state.leader == id || state.leader < 0 || state.isr.contains(&id));
        Ok(match left {
            None => Seen::Done(()),
            Some((at, state)) => Seen::Not(format!("{at} is {state:?}")),
        })
    })?;
    cluster.wait_all_led(PATIENCE)?;
    acts::flowing(cluster)?;
    ensure!(
        cluster.zk.broker_ids()?.contains(&id),
        "broker {id} went with its directory"
    );
    if cluster.plan.leading == Leading::Klamm {
        let name = "kafka_controller_kafkacontroller_offlinepartitionscount";
        let offline = cluster.klamm(FIRST_ID)?.metric(name)?;
        ensure!(offline == 0.0, "{name} is {offline}");
    }
    Ok(Told::after(
        took,
        format!("{} partitions were in it", lost.len()),
    ))
}

fn mend(cluster: &mut Cluster, id: i32, folder: &std::path::Path) -> Result<Told> {
    cluster.broker(id)?.stop()?;
    fs::remove_file(folder).with_context(|| folder.display().to_string())?;
    let kept = kept(cluster, folder);
    fs::rename(&kept, folder).with_context(|| kept.display().to_string())?;
    acts::return_broker(cluster, id)
}
