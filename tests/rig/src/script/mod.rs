//! The script that the Java controller and klamm are both put through: what is done to a cluster, step by step, as data.
//!
//! `cargo rig capture` records the Java controller's part of it; `cargo rig parity` plays it under both and compares.
//! Whoever teaches klamm an operation adds its steps here, and both follow.

mod duties;
pub mod play;
pub mod settle;

use std::fmt;

use crate::cluster::{ClusterPlan, Start};
use crate::stories::Leading;
use crate::tap::Tape;
use crate::version::{Ibp, KafkaVersion};

/// The broker that holds the role wherever the Java controller leads. No step stops it.
pub const JAVA_CONTROLLER: i32 = 1;
/// Brokers that the steps name.
pub const BROKERS: usize = 3;

/// The replicas of each partition of a topic, partition 0 first.
pub type Assignment = &'static [&'static [i32]];

/// One thing that is done to the cluster, which then comes to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The role changes hands while all is quiet.
    Takeover,
    /// As the tools do it: the topic's node.
    CreateTopic(&'static str, Assignment),
    /// The topic's node with more partitions: the whole new assignment.
    ExpandTopic(&'static str, Assignment),
    /// A producer asks this broker for an id.
    AskProducerId(i32),
    /// SIGKILL.
    Kill(i32),
    /// SIGTERM: a controlled shutdown.
    Stop(i32),
    /// The broker comes back.
    Start(i32),
    /// `/admin/reassign_partitions`.
    Reassign(&'static str, i32, &'static [i32]),
    /// `/admin/preferred_replica_election`.
    ElectPreferred(&'static str, i32),
    /// `/admin/delete_topics/T`.
    DeleteTopic(&'static str),
    /// AlterPartitionReassignments.
    AskToReassign(&'static str, i32, &'static [i32]),
    /// `/admin/reassign_partitions` with a target that is down, and its cancellation by AlterPartitionReassignments as soon
    /// as it has begun.
    ReassignInVain(&'static str, i32, &'static [i32]),
    /// ElectLeaders of preferred leaders.
    AskToElect(&'static str, i32),
    /// DeleteTopics.
    AskToDelete(&'static str),
    /// `unclean.leader.election.enable=true` in the topic's configuration, with the notice that tools write beside it.
    AllowUnclean(&'static str),
    /// The broker comes back to a log directory that fails, with all its replicas in it, and an empty one beside it. The
    /// next [`Step::Start`] finds the directory mended.
    StartWithFailedLogs(i32),
    /// The running broker opens one more listener, by its dynamic configuration.
    OpenListener(i32),
    /// A delegation token whose time is up is put into ZooKeeper.
    ExpireToken(&'static str),
    /// UpdateFeatures of one that nobody supports.
    AskToFinalize(&'static str),
}

/// The name of the listener that [`Step::OpenListener`] opens.
pub const OPENED_LISTENER: &str = "OPENED";

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Takeover => f.write_str("the role changes hands"),
            Self::CreateTopic(topic, assignment) => {
                write!(f, "topic {topic} is created with {assignment:?}")
            }
            Self::ExpandTopic(topic, assignment) => {
                write!(f, "topic {topic} is expanded to {assignment:?}")
            }
            Self::AskProducerId(id) => write!(f, "broker {id} is asked for a producer id"),
            Self::Kill(id) => write!(f, "broker {id} dies"),
            Self::Stop(id) => write!(f, "broker {id} is stopped gently"),
            Self::Start(id) => write!(f, "broker {id} returns"),
            Self::Reassign(topic, partition, replicas) => {
                write!(f, "{topic}-{partition} is reassigned to {replicas:?}")
            }
            Self::ElectPreferred(topic, partition) => {
                write!(f, "the preferred leader of {topic}-{partition} is elected")
            }
            Self::DeleteTopic(topic) => write!(f, "topic {topic} is deleted"),
            Self::AskToReassign(topic, partition, replicas) => write!(
                f,
                "the controller is asked to reassign {topic}-{partition} to {replicas:?}"
            ),
            Self::ReassignInVain(topic, partition, replicas) => write!(
                f,
                "{topic}-{partition} is reassigned to {replicas:?}, of which not all live, and that is cancelled"
            ),
            Self::AskToElect(topic, partition) => write!(
                f,
                "the controller is asked for the preferred leader of {topic}-{partition}"
            ),
            Self::AskToDelete(topic) => {
                write!(f, "the controller is asked to delete topic {topic}")
            }
            Self::AllowUnclean(topic) => {
                write!(f, "topic {topic} allows unclean leader election")
            }
            Self::StartWithFailedLogs(id) => {
                write!(
                    f,
                    "broker {id} returns, and the directory of its logs fails"
                )
            }
            Self::OpenListener(id) => write!(f, "broker {id} opens a listener"),
            Self::ExpireToken(token) => write!(f, "delegation token {token} expires"),
            Self::AskToFinalize(feature) => {
                write!(f, "the controller is asked to finalize feature {feature}")
            }
        }
    }
}

/// What there is before the first step, made under the Java controller.
pub const BEFORE: &[Step] = &[
    Step::CreateTopic("orders", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]),
    // Nobody else can lead it: it goes without a leader when broker 3 goes.
    Step::CreateTopic("lone", &[&[3]]),
];

/// What every release can do.
pub const STEPS: &[Step] = &[
    Step::Takeover,
    Step::CreateTopic("fresh", &[&[1, 2, 3], &[2, 3, 1]]),
    Step::ExpandTopic("fresh", &[&[1, 2, 3], &[2, 3, 1], &[3, 2, 1]]),
    Step::CreateTopic("pair", &[&[2, 3], &[3, 2]]),
    Step::AskProducerId(2),
    Step::Kill(3),
    // Created while a replica is down.
    Step::CreateTopic("late", &[&[3, 1], &[1, 3]]),
    Step::Start(3),
    Step::Stop(2),
    Step::Start(2),
    // One after the other: the pair's last in-sync replica stays in the ISR without leading.
    Step::Kill(3),
    Step::Kill(2),
    Step::Start(3),
    Step::Start(2),
    Step::ElectPreferred("orders", 1),
    Step::Reassign("pair", 0, &[2, 1]),
];

/// What releases from 2.4 on can do: not in the captures, which begin with 1.1.
pub const SINCE_2_4: &[Step] = &[
    Step::AskToReassign("orders", 0, &[2, 3]),
    Step::AskToReassign("orders", 0, &[1, 2, 3]),
    Step::AskToElect("orders", 2),
    Step::Kill(3),
    Step::ReassignInVain("pair", 0, &[3, 1]),
    // The last in-sync replica of pair-1 dies, and one that is behind returns.
    Step::Kill(2),
    Step::Start(3),
    Step::AllowUnclean("pair"),
    Step::Start(2),
    Step::AskToDelete("late"),
];

/// The quiet duties of the role: not in the captures, which are about partitions.
pub const DUTIES: &[Step] = &[
    Step::Kill(3),
    // It may lead nothing, not even what only it holds.
    Step::StartWithFailedLogs(3),
    Step::Kill(3),
    Step::Start(3),
    Step::OpenListener(2),
    Step::ExpireToken("stale"),
];

/// What clusters at inter-broker protocol 2.7 and above can do besides.
pub const SINCE_IBP_2_7: &[Step] = &[Step::AskToFinalize("novelty")];

/// The end, which takes away what earlier steps need.
pub const LAST: &[Step] = &[Step::DeleteTopic("fresh")];

/// The cluster that the script is played on; `tape` hears what its brokers are told.
///
/// # Errors
/// When there are fewer brokers than the steps name.
pub fn plan(brokers: &[KafkaVersion], ibp: Ibp, tape: &Tape) -> anyhow::Result<ClusterPlan> {
    anyhow::ensure!(
        brokers.len() >= BROKERS,
        "the script needs {BROKERS} brokers, and {} are given",
        brokers.len()
    );
    Ok(ClusterPlan {
        leading: Leading::Java,
        tape: Some(tape.clone()),
        start: Start::OneByOne,
        ..ClusterPlan::new(brokers, ibp)
    }
    // Elections that nobody asked for would come in between at a time of their own.
    .with_property("auto.leader.rebalance.enable", "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_takes_the_java_controller_away_and_every_broker_is_back_at_the_end() {
        let mut down = std::collections::BTreeSet::new();
        let all = [BEFORE, STEPS, SINCE_2_4, DUTIES, SINCE_IBP_2_7, LAST];
        for step in all.into_iter().flatten() {
            match step {
                Step::Kill(id) | Step::Stop(id) => {
                    assert_ne!(*id, JAVA_CONTROLLER, "{step}");
                    assert!(down.insert(*id), "{step}");
                }
                Step::Start(id) | Step::StartWithFailedLogs(id) => {
                    assert!(down.remove(id), "{step}");
                }
                _ => {}
            }
        }
        assert!(down.is_empty(), "{down:?}");
    }
}
