//! What each broker was told of each partition, out of the frames on a tape, in a form that two controllers can be
//! compared by: epochs relative to where the step began, no repeats, steps that only change in-sync replicas folded.
//!
//! Frames are decoded by kafka-protocol, not by klamm's codec: what is under test must not be what tests it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use bytes::Bytes;
use kafka_protocol::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use kafka_protocol::messages::update_metadata_request::UpdateMetadataPartitionState;
use kafka_protocol::messages::{
    LeaderAndIsrRequest, RequestHeader, StopReplicaRequest, UpdateMetadataRequest,
};
use kafka_protocol::protocol::{Decodable, Request};

use crate::tap::{Entry, Said, Way};
use crate::zk::TopicPartition;

/// Leader in UpdateMetadata: the topic is being deleted.
const DURING_DELETE: i32 = -2;

/// What was told, to whom, of which partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub broker: i32,
    pub partition: TopicPartition,
    pub kind: Kind,
}

/// Orders change what a broker does; metadata is what it tells its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// LeaderAndIsr and StopReplica.
    Orders,
    /// UpdateMetadata.
    Metadata,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Orders => "orders",
            Kind::Metadata => "metadata",
        };
        write!(f, "{kind} to broker {} of {}", self.broker, self.partition)
    }
}

/// One thing that was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Led {
        leader: i32,
        /// Since the step began: a race that raised it once more in one step says nothing of the steps that follow.
        epoch: i32,
        isr: Vec<i32>,
    },
    Stop {
        delete: bool,
    },
    BeingDeleted,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Led { leader, epoch, isr } => {
                write!(f, "leader {leader} epoch +{epoch} isr {isr:?}")
            }
            Self::Stop { delete: false } => f.write_str("stop"),
            Self::Stop { delete: true } => f.write_str("stop and delete"),
            Self::BeingDeleted => f.write_str("being deleted"),
        }
    }
}

/// What was told in one step of the script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepTrace {
    pub step: String,
    pub told: BTreeMap<Subject, Vec<Told>>,
}

/// What was told in each step of the script, in order.
///
/// # Errors
/// When a frame cannot be decoded.
pub fn trace(entries: &[Entry]) -> Result<Vec<StepTrace>> {
    let mut tracer = Tracer::default();
    for entry in entries {
        match entry {
            Entry::Step(step) => tracer.begin(step),
            Entry::Forgets(broker) => tracer.known.retain(|subject, _| subject.broker != *broker),
            Entry::Said(said) if said.way == Way::ToBroker => tracer.hear(said)?,
            Entry::Said(_) => {}
        }
    }
    Ok(tracer.steps)
}

#[derive(Default)]
struct Tracer {
    steps: Vec<StepTrace>,
    /// The highest epoch that was heard of each partition.
    highest: BTreeMap<TopicPartition, i32>,
    /// The same as it was when the step began, and the first epoch of a partition that began later.
    at_start: BTreeMap<TopicPartition, i32>,
    /// All that each broker knows since it started, epochs as they were told.
    known: BTreeMap<Subject, Vec<Told>>,
}

impl Tracer {
    fn begin(&mut self, step: &str) {
        self.at_start = self.highest.clone();
        self.steps.push(StepTrace {
            step: step.to_owned(),
            told: BTreeMap::new(),
        });
    }

    fn hear(&mut self, said: &Said) -> Result<()> {
        for (subject, told) in told_by(said)? {
            self.take(subject, told);
        }
        Ok(())
    }

    fn take(&mut self, subject: Subject, told: Told) {
        let known = self.known.entry(subject.clone()).or_default();
        if known.contains(&told) {
            return;
        }
        known.push(told.clone());
        let told = self.relative(&subject.partition, told);
        if let Some(step) = self.steps.last_mut() {
            fold(step.told.entry(subject).or_default(), told);
        }
    }

    fn relative(&mut self, partition: &TopicPartition, told: Told) -> Told {
        let Told::Led { leader, epoch, isr } = told else {
            return told;
        };
        let highest = self.highest.entry(partition.clone()).or_insert(epoch);
        *highest = epoch.max(*highest);
        let start = *self.at_start.entry(partition.clone()).or_insert(epoch);
        Told::Led {
            leader,
            epoch: epoch - start,
            isr,
        }
    }
}

/// Of steps that only change the in-sync replicas the last one counts: who shrinks and grows them when is a matter of
/// timing.
fn fold(told: &mut Vec<Told>, next: Told) {
    if let (Some(Told::Led { leader: last, .. }), Told::Led { leader, .. }) = (told.last(), &next)
        && last == leader
    {
        told.pop();
    }
    told.push(next);
}

/// What one frame tells.
fn told_by(said: &Said) -> Result<Vec<(Subject, Told)>> {
    let mut told = Vec::new();
    let subject = |topic: &str, partition: i32, kind: Kind| Subject {
        broker: said.broker,
        partition: TopicPartition::new(topic, partition),
        kind,
    };
    match said.key {
        LeaderAndIsrRequest::KEY => {
            let request: LeaderAndIsrRequest = decode(said)?;
            for state in &request.ungrouped_partition_states {
                told.push((
                    subject(&state.topic_name, state.partition_index, Kind::Orders),
                    led(state),
                ));
            }
            for topic in &request.topic_states {
                for state in &topic.partition_states {
                    told.push((
                        subject(&topic.topic_name, state.partition_index, Kind::Orders),
                        led(state),
                    ));
                }
            }
        }
        StopReplicaRequest::KEY => {
            let request: StopReplicaRequest = decode(said)?;
            for stop in stops(&request) {
                let (topic, partition, delete) = stop;
                told.push((
                    subject(&topic, partition, Kind::Orders),
                    Told::Stop { delete },
                ));
            }
        }
        UpdateMetadataRequest::KEY => {
            let request: UpdateMetadataRequest = decode(said)?;
            for state in &request.ungrouped_partition_states {
                told.push((
                    subject(&state.topic_name, state.partition_index, Kind::Metadata),
                    shown(state),
                ));
            }
            for topic in &request.topic_states {
                for state in &topic.partition_states {
                    told.push((
                        subject(&topic.topic_name, state.partition_index, Kind::Metadata),
                        shown(state),
                    ));
                }
            }
        }
        _ => {}
    }
    Ok(told)
}

fn led(state: &LeaderAndIsrPartitionState) -> Told {
    Told::Led {
        leader: state.leader.0,
        epoch: state.leader_epoch,
        isr: state.isr.iter().map(|id| id.0).collect(),
    }
}

fn shown(state: &UpdateMetadataPartitionState) -> Told {
    if state.leader.0 == DURING_DELETE {
        return Told::BeingDeleted;
    }
    Told::Led {
        leader: state.leader.0,
        epoch: state.leader_epoch,
        isr: state.isr.iter().map(|id| id.0).collect(),
    }
}

/// The three layouts of StopReplica: version 0, 1 and 2, 3 and 4.
fn stops(request: &StopReplicaRequest) -> Vec<(String, i32, bool)> {
    let mut stops = Vec::new();
    for partition in &request.ungrouped_partitions {
        stops.push((
            partition.topic_name.to_string(),
            partition.partition_index,
            request.delete_partitions,
        ));
    }
    for topic in &request.topics {
        for partition in &topic.partition_indexes {
            stops.push((
                topic.name.to_string(),
                *partition,
                request.delete_partitions,
            ));
        }
    }
    for topic in &request.topic_states {
        for state in &topic.partition_states {
            stops.push((
                topic.topic_name.to_string(),
                state.partition_index,
                state.delete_partition,
            ));
        }
    }
    stops
}

fn decode<R: Request + Decodable>(said: &Said) -> Result<R> {
    let mut bytes: Bytes = said.payload.clone();
    RequestHeader::decode(&mut bytes, R::header_version(said.version))
        .and_then(|_| R::decode(&mut bytes, said.version))
        .with_context(|| {
            format!(
                "a request of key {} version {} to broker {} cannot be decoded",
                said.key, said.version, said.broker
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(leader: i32, epoch: i32, isr: &[i32]) -> Told {
        Told::Led {
            leader,
            epoch,
            isr: isr.to_vec(),
        }
    }

    #[test]
    fn epochs_count_from_where_their_step_began() {
        let mut tracer = Tracer::default();
        let subject = Subject {
            broker: 1,
            partition: TopicPartition::new("t", 0),
            kind: Kind::Orders,
        };
        for (step, told) in [
            ("created", led(1, 7, &[1, 2])),
            ("died", led(2, 9, &[2])),
            ("returned", led(2, 9, &[2])),
            ("elected", led(1, 10, &[2, 1])),
        ] {
            tracer.begin(step);
            tracer.take(subject.clone(), told);
        }
        let told: Vec<_> = tracer
            .steps
            .iter()
            .map(|step| step.told.get(&subject).cloned().unwrap_or_default())
            .collect();
        assert_eq!(
            told,
            [
                vec![led(1, 0, &[1, 2])],
                vec![led(2, 2, &[2])],
                vec![],
                vec![led(1, 1, &[2, 1])],
            ]
        );
    }

    #[test]
    fn changes_of_the_isr_alone_fold_to_the_last_and_changes_of_the_leader_stay() {
        let mut told = Vec::new();
        for next in [
            led(1, 0, &[1, 2, 3]),
            led(1, 1, &[1, 2]),
            led(2, 2, &[2]),
            led(2, 2, &[2, 1]),
            Told::Stop { delete: false },
            led(2, 3, &[2]),
        ] {
            fold(&mut told, next);
        }
        assert_eq!(
            told,
            [
                led(1, 1, &[1, 2]),
                led(2, 2, &[2, 1]),
                Told::Stop { delete: false },
                led(2, 3, &[2]),
            ]
        );
    }
}
