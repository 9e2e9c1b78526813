//! Plays steps on a running cluster, and leaves a mark on the tape before each.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, DeleteTopicsRequest, ElectLeadersRequest,
    InitProducerIdRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use serde_json::json;

use super::{Assignment, JAVA_CONTROLLER, Step, duties};
use crate::cluster::Cluster;
use crate::klamm::FIRST_ID;
use crate::stories::Leading;
use crate::tap::Tape;
use crate::wait::Seen;
use crate::wire::Connection;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long the controller may take.
pub(super) const REQUEST_TIMEOUT_MS: i32 = 60_000;
/// Spoken by every broker from 1.0 to 3.9.
const INIT_PRODUCER_ID_VERSION: i16 = 0;
/// Error codes of a broker that has not got its ids yet: it asks for them when it is first asked.
const NOT_YET: [i16; 2] = [14, 15];

/// Does what the step says under the controller that `leading` names; returns what the controller answered where it was
/// asked. What must come of the step is waited for by [`super::settle::settle`].
///
/// # Errors
/// When it cannot be done.
pub fn play(
    cluster: &mut Cluster,
    step: Step,
    leading: Leading,
    tape: &Tape,
) -> Result<Option<String>> {
    tape.step(&step.to_string());
    let answer = match step {
        Step::AskToFinalize(feature) => Some(duties::ask_to_finalize(cluster, feature)?),
        step => {
            act(cluster, step, leading, tape)?;
            None
        }
    };
    Ok(answer)
}

fn act(cluster: &mut Cluster, step: Step, leading: Leading, tape: &Tape) -> Result<()> {
    match step {
        Step::Takeover => take_over(cluster, leading),
        Step::CreateTopic(topic, assignment) => create(cluster, topic, assignment),
        Step::ExpandTopic(topic, assignment) => expand(cluster, topic, assignment),
        Step::AskProducerId(id) => ask_producer_id(cluster, id),
        Step::Kill(id) => {
            cluster.broker(id)?.process.kill()?;
            let zk = cluster.zk.clone();
            cluster.broker(id)?.wait_unregistered(&zk).map(drop)
        }
        Step::Stop(id) => {
            cluster.broker(id)?.stop()?;
            let zk = cluster.zk.clone();
            cluster.broker(id)?.wait_unregistered(&zk).map(drop)
        }
        Step::StartWithFailedLogs(id) => {
            duties::fail_logs(cluster, id)?;
            start(cluster, id, tape)
        }
        Step::Start(id) => {
            duties::mend_logs(cluster, id)?;
            start(cluster, id, tape)
        }
        Step::Reassign(topic, partition, replicas) => reassign(cluster, topic, partition, replicas),
        Step::ElectPreferred(topic, partition) => cluster.zk.create(
            "/admin/preferred_replica_election",
            &text(&json!({
                "version": 1,
                "partitions": [{"topic": topic, "partition": partition}],
            })),
        ),
        Step::DeleteTopic(topic) => cluster
            .zk
            .create(&format!("/admin/delete_topics/{topic}"), b""),
        Step::AskToReassign(topic, partition, replicas) => {
            ask_to_reassign(cluster, topic, partition, Some(replicas))
        }
        Step::ReassignInVain(topic, partition, replicas) => {
            reassign(cluster, topic, partition, replicas)?;
            let begun = r#""adding_replicas":{"#;
            cluster.wait("the reassignment to begin", PATIENCE, |cluster| {
                let node = cluster.zk.get(&format!("/brokers/topics/{topic}"))?;
                let data = node.map(|(data, _)| data).unwrap_or_default();
                let text = String::from_utf8_lossy(&data).into_owned();
                let moves = text
                    .split_once(begun)
                    .is_some_and(|(_, rest)| !rest.starts_with('}'));
                Ok(if moves {
                    Seen::Done(())
                } else {
                    Seen::Not(text)
                })
            })?;
            ask_to_reassign(cluster, topic, partition, None)
        }
        Step::AskToElect(topic, partition) => ask_to_elect(cluster, topic, partition),
        Step::AskToDelete(topic) => ask_to_delete(cluster, topic),
        Step::AllowUnclean(topic) => allow_unclean(cluster, topic),
        Step::OpenListener(id) => duties::open_listener(cluster, id),
        Step::ExpireToken(token) => duties::expire_token(cluster, token),
        Step::AskToFinalize(feature) => duties::ask_to_finalize(cluster, feature).map(drop),
    }
}

fn start(cluster: &mut Cluster, id: i32, tape: &Tape) -> Result<()> {
    tape.forgets(id);
    let zk = cluster.zk.clone();
    let broker = cluster.broker(id)?;
    broker.restart(&zk)?;
    broker.wait_up(&zk).map(drop)
}

fn reassign(cluster: &Cluster, topic: &str, partition: i32, replicas: &[i32]) -> Result<()> {
    cluster.zk.create(
        "/admin/reassign_partitions",
        &text(&json!({
            "version": 1,
            "partitions": [{"topic": topic, "partition": partition, "replicas": replicas}],
        })),
    )
}

/// A connection to whoever holds the role.
pub(super) fn controller(cluster: &mut Cluster) -> Result<Connection> {
    let owner = cluster.zk.controller()?.context("/controller is vacant")?;
    let address = match cluster.klamms.get(&owner.id) {
        Some(klamm) => klamm.address.clone(),
        None => cluster.broker(owner.id)?.address.clone(),
    };
    Connection::open(&address)
}

fn ask_to_reassign(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    replicas: Option<&[i32]>,
) -> Result<()> {
    use kafka_protocol::messages::alter_partition_reassignments_request::{
        ReassignablePartition, ReassignableTopic,
    };
    let replicas = replicas.map(|ids| ids.iter().map(|id| BrokerId(*id)).collect());
    let partition = ReassignablePartition::default()
        .with_partition_index(partition)
        .with_replicas(replicas);
    let topic = ReassignableTopic::default()
        .with_name(name(topic))
        .with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(REQUEST_TIMEOUT_MS)
        .with_topics(vec![topic]);
    let answer = controller(cluster)?.call(&request, 0)?;
    let codes = answer
        .responses
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|said| said.error_code));
    no_error([answer.error_code].into_iter().chain(codes))
}

fn ask_to_elect(cluster: &mut Cluster, topic: &str, partition: i32) -> Result<()> {
    use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
    let topic = TopicPartitions::default()
        .with_topic(name(topic))
        .with_partitions(vec![partition]);
    let request = ElectLeadersRequest::default()
        .with_election_type(0)
        .with_timeout_ms(REQUEST_TIMEOUT_MS)
        .with_topic_partitions(Some(vec![topic]));
    let answer = controller(cluster)?.call(&request, 2)?;
    let codes = answer
        .replica_election_results
        .iter()
        .flat_map(|topic| topic.partition_result.iter().map(|said| said.error_code));
    no_error([answer.error_code].into_iter().chain(codes))
}

fn ask_to_delete(cluster: &mut Cluster, topic: &str) -> Result<()> {
    let request = DeleteTopicsRequest::default()
        .with_timeout_ms(REQUEST_TIMEOUT_MS)
        .with_topic_names(vec![name(topic)]);
    let answer = controller(cluster)?.call(&request, 4)?;
    no_error(answer.responses.iter().map(|said| said.error_code))
}

fn no_error(codes: impl Iterator<Item = i16>) -> Result<()> {
    let refused: Vec<i16> = codes.filter(|code| *code != 0).collect();
    ensure!(refused.is_empty(), "the controller answers {refused:?}");
    Ok(())
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// As kafka-configs does it that speaks to ZooKeeper. Nothing else shows that the controller has yet to hear of it.
fn allow_unclean(cluster: &mut Cluster, topic: &str) -> Result<()> {
    let config = json!({"version": 1, "config": {"unclean.leader.election.enable": "true"}});
    cluster
        .zk
        .set(&format!("/config/topics/{topic}"), &text(&config))?;
    let notice = json!({"version": 2, "entity_path": format!("topics/{topic}")});
    cluster
        .zk
        .create_sequential("/config/changes/config_change_", &text(&notice))?;
    let what = format!("every partition of {topic} to be led");
    cluster
        .wait(&what, PATIENCE, |cluster| {
            let states = cluster.zk.states()?;
            let mut of_topic = states.iter().filter(|(at, _)| at.topic == topic);
            Ok(match of_topic.find(|(_, state)| state.leader < 0) {
                None => Seen::Done(()),
                Some((at, _)) => Seen::Not(format!("{at} is not")),
            })
        })
        .map(drop)
}

/// Under Java the role goes to [`JAVA_CONTROLLER`]: the other candidates sleep while it is vacant.
fn take_over(cluster: &mut Cluster, leading: Leading) -> Result<()> {
    if leading == Leading::Klamm {
        let overrides = duties::listeners_of_klamm(cluster);
        let overrides: Vec<(&str, &str)> = overrides
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        cluster.start_klamm(FIRST_ID, &overrides)?;
        return cluster.wait_controller(FIRST_ID, PATIENCE).map(drop);
    }
    let others: Vec<i32> = cluster
        .genuine_ids()
        .into_iter()
        .filter(|id| *id != JAVA_CONTROLLER)
        .collect();
    let former = cluster.zk.controller()?;
    for id in &others {
        cluster.broker(*id)?.process.pause()?;
    }
    let taken = cluster.zk.delete("/controller").and_then(|()| {
        let what = format!("broker {JAVA_CONTROLLER} to take the role");
        cluster.wait(&what, PATIENCE, |cluster| {
            Ok(match cluster.zk.controller()? {
                Some(owner) if owner.id == JAVA_CONTROLLER && Some(&owner) != former.as_ref() => {
                    Seen::Done(())
                }
                owner => Seen::Not(format!("/controller is {owner:?}")),
            })
        })
    });
    for id in &others {
        cluster.broker(*id)?.process.resume()?;
    }
    taken.map(drop)
}

fn create(cluster: &Cluster, topic: &str, assignment: Assignment) -> Result<()> {
    cluster.zk.create(
        &format!("/config/topics/{topic}"),
        &text(&json!({"version": 1, "config": {}})),
    )?;
    cluster.zk.create(
        &format!("/brokers/topics/{topic}"),
        &text(&json!({"version": 1, "partitions": partitions(assignment)})),
    )
}

/// Keeps what else the node holds: a topic id, and what a reassignment left.
fn expand(cluster: &Cluster, topic: &str, assignment: Assignment) -> Result<()> {
    let path = format!("/brokers/topics/{topic}");
    let (data, _) = cluster
        .zk
        .get(&path)?
        .with_context(|| format!("there is no {path} to expand"))?;
    let mut node: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&data).with_context(|| format!("{path} holds no JSON object"))?;
    node.insert("partitions".to_owned(), partitions(assignment));
    cluster.zk.set(&path, &text(&node.into()))
}

fn ask_producer_id(cluster: &mut Cluster, id: i32) -> Result<()> {
    let address = cluster.broker(id)?.address.clone();
    let request = InitProducerIdRequest::default().with_transactional_id(None);
    let what = format!("broker {id} to give a producer id");
    cluster
        .wait(&what, PATIENCE, |_| {
            let answer = Connection::open(&address)?.call(&request, INIT_PRODUCER_ID_VERSION)?;
            Ok(match answer.error_code {
                0 => Seen::Done(()),
                code if NOT_YET.contains(&code) => Seen::Not(format!("error {code}")),
                code => Seen::Never(format!("it answered with error {code}")),
            })
        })
        .map(drop)
}

fn partitions(assignment: Assignment) -> serde_json::Value {
    let numbered = assignment.iter().enumerate();
    numbered
        .map(|(partition, replicas)| (partition.to_string(), json!(replicas)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub(super) fn text(json: &serde_json::Value) -> Vec<u8> {
    json.to_string().into_bytes()
}
