//! A control request as it reaches one broker, and as a line of text that tests compare.
//!
//! Must never judge a request: brokers do.

use std::fmt::Write as _;
use std::sync::Arc;

use klamm::effect::{
    AnnouncedLeadership, ByTopic, ControlRequests, LeaderAndIsrPartition, ReplicaDisposal,
    StopReplicaPartition, UpdateMetadataPartition,
};
use klamm::model::{
    Broker, BrokerEpoch, BrokerId, ControllerEpoch, InterBrokerProtocol, LeaderRecoveryState,
};

/// One request to one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The epoch of the controller that sends it.
    pub controller_epoch: ControllerEpoch,
    /// The incarnation of the broker that it is meant for.
    pub broker_epoch: BrokerEpoch,
    /// The cluster's protocol when it was sent.
    pub protocol: InterBrokerProtocol,
    /// What it says.
    pub body: Body,
}

/// What a request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Lead or follow these.
    LeaderAndIsr(Vec<ByTopic<LeaderAndIsrPartition>>),
    /// Who is alive, and who leads these.
    UpdateMetadata {
        /// Every broker that clients may be sent to.
        live_brokers: Arc<[Broker]>,
        /// Comes back with the answer.
        number: u64,
        /// The partitions.
        topics: Arc<[ByTopic<UpdateMetadataPartition>]>,
    },
    /// Stop these.
    StopReplica(Vec<ByTopic<StopReplicaPartition>>),
}

/// The bodies of a batch for one broker, in the order in which they must be sent.
pub fn bodies_for(id: BrokerId, requests: &ControlRequests) -> Vec<Body> {
    let mut bodies = Vec::new();
    if let Some(topics) = requests.leader_and_isr.get(&id) {
        bodies.push(Body::LeaderAndIsr(topics.clone()));
    }
    let update = requests.update_metadata.as_ref();
    if let Some(update) = update.filter(|update| update.to.contains(&id)) {
        bodies.push(Body::UpdateMetadata {
            live_brokers: requests.live_brokers.clone(),
            number: update.number,
            topics: update.topics.clone(),
        });
    }
    if let Some(topics) = requests.stop_replica.get(&id) {
        bodies.push(Body::StopReplica(topics.clone()));
    }
    bodies
}

impl Body {
    /// The letter that stands for it in a line of text.
    pub fn letter(&self) -> char {
        match self {
            Body::LeaderAndIsr(_) => 'L',
            Body::UpdateMetadata { .. } => 'U',
            Body::StopReplica(_) => 'S',
        }
    }

    /// What it says, in short: `t-0 leader 1 isr [1,2] le 0 new`, `alive [1,2] t-0 …`, `t-0 le 1 delete`.
    pub fn summary(&self) -> String {
        match self {
            Body::LeaderAndIsr(topics) => list(topics, leader_and_isr_text),
            Body::UpdateMetadata {
                live_brokers,
                topics,
                ..
            } => {
                let mut alive: Vec<String> =
                    live_brokers.iter().map(|b| b.id.to_string()).collect();
                alive.sort_by_key(|id| (id.len(), id.clone()));
                let partitions = list(topics, update_metadata_text);
                let space = if partitions.is_empty() { "" } else { " " };
                format!("alive [{}]{space}{partitions}", alive.join(","))
            }
            Body::StopReplica(topics) => list(topics, |p| {
                let what = match p.disposal {
                    ReplicaDisposal::Keep => "keep",
                    ReplicaDisposal::Delete => "delete",
                };
                (p.partition, format!("le {} {what}", p.leader_epoch))
            }),
        }
    }
}

fn list<T>(topics: &[ByTopic<T>], text: impl Fn(&T) -> (i32, String)) -> String {
    let mut all = Vec::new();
    for ByTopic {
        topic, partitions, ..
    } in topics
    {
        for partition in partitions {
            let (index, text) = text(partition);
            all.push(format!("{topic}-{index} {text}"));
        }
    }
    all.join(", ")
}

fn leader_and_isr_text(p: &LeaderAndIsrPartition) -> (i32, String) {
    let mut text = format!(
        "leader {} isr {} le {}",
        p.state.leader, p.state.isr, p.state.leader_epoch
    );
    // Writing to a string can't fail.
    if !p.assignment.adding.is_empty() {
        let _ = write!(text, " adding {}", p.assignment.adding);
    }
    if !p.assignment.removing.is_empty() {
        let _ = write!(text, " removing {}", p.assignment.removing);
    }
    if p.state.leader_recovery_state == LeaderRecoveryState::Recovering {
        text.push_str(" recovering");
    }
    if p.is_new {
        text.push_str(" new");
    }
    (p.partition, text)
}

fn update_metadata_text(p: &UpdateMetadataPartition) -> (i32, String) {
    let mut text = match &p.leadership {
        AnnouncedLeadership::Committed(state) => {
            format!(
                "leader {} isr {} le {}",
                state.leader, state.isr, state.leader_epoch
            )
        }
        AnnouncedLeadership::DuringDelete(_) => "deleting".to_owned(),
    };
    if !p.offline_replicas.is_empty() {
        let _ = write!(text, " offline {}", p.offline_replicas);
    }
    (p.partition, text)
}

/// A batch as lines, in the order of sending: the kind, who gets the same, and what it says. `L{1,2} t-0 leader 1 …`.
pub fn batch_lines(requests: &ControlRequests, recipients: &[BrokerId]) -> Vec<String> {
    let mut lines: Vec<(char, Vec<BrokerId>, String)> = Vec::new();
    for letter in ['L', 'U', 'S'] {
        for id in recipients {
            for body in bodies_for(*id, requests) {
                if body.letter() != letter {
                    continue;
                }
                let summary = body.summary();
                match lines
                    .iter_mut()
                    .find(|line| line.0 == letter && line.2 == summary)
                {
                    Some((_, ids, _)) => ids.push(*id),
                    None => lines.push((letter, vec![*id], summary)),
                }
            }
        }
    }
    lines
        .into_iter()
        .map(|(letter, ids, summary)| {
            let ids: Vec<String> = ids.iter().map(BrokerId::to_string).collect();
            format!("{letter}{{{}}} {summary}", ids.join(","))
        })
        .collect()
}
