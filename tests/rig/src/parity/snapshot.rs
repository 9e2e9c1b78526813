//! What can be seen of a cluster at rest: every znode and what every broker tells its clients, in a form that two
//! clusters can be compared by. Times, random ids and the absolute values of epochs are taken out; nothing else is.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::script::OPENED_LISTENER;
use crate::wire;
use crate::zk::TopicPartition;

/// Epochs as they were before a step, by znode.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    controller_epoch: i64,
    leader_epochs: BTreeMap<String, i64>,
}

/// What can be seen, by what it is about.
pub type Snapshot = BTreeMap<String, String>;

impl Origin {
    /// The epochs of the cluster as it is now.
    ///
    /// # Errors
    /// When ZooKeeper cannot be read.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        let mut origin = Self {
            controller_epoch: cluster
                .zk
                .controller_epoch()?
                .context("the cluster has no controller epoch")?
                .epoch
                .into(),
            leader_epochs: BTreeMap::new(),
        };
        for (path, (data, _)) in cluster.zk.nodes()? {
            if let Some(epoch) = object(&data).and_then(|json| json.get("leader_epoch")?.as_i64()) {
                origin.leader_epochs.insert(path, epoch);
            }
        }
        Ok(origin)
    }
}

/// What can be seen now.
///
/// # Errors
/// When ZooKeeper or a broker cannot be asked.
pub fn snapshot(cluster: &mut Cluster, origin: &Origin) -> Result<Snapshot> {
    let mut seen = Snapshot::new();
    let address = cluster.run.address.to_string();
    for (path, (data, stat)) in cluster.zk.nodes()? {
        let mut text = comparable(&path, &data, origin).replace(&address, "<address>");
        if stat.ephemeral_owner != 0 {
            text.push_str(" (ephemeral)");
        }
        seen.insert(format!("znode {path}"), text);
    }
    let owner = cluster.zk.controller()?.map(|owner| owner.id);
    for (id, listener) in cluster.answering_brokers() {
        let view = wire::view(&listener).with_context(|| format!("broker {id}"))?;
        seen.insert(
            format!("clients of broker {id} about nodes"),
            format!("{:?}", view.nodes),
        );
        let controller = if Some(view.controller) == owner {
            "the controller".to_owned()
        } else {
            view.controller.to_string()
        };
        seen.insert(
            format!("clients of broker {id} about the controller"),
            controller,
        );
        if let Some(opened) = opened_listener(cluster, id)? {
            let nodes = wire::view(&opened).with_context(|| format!("broker {id} at {opened}"))?;
            seen.insert(
                format!("clients of broker {id} at its opened listener about nodes"),
                format!("{:?}", nodes.nodes),
            );
        }
        for (partition, leader) in &view.leaders {
            let told = format!(
                "leader {leader} isr {:?} replicas {:?} offline {:?}",
                of(&view.isr, partition),
                of(&view.replicas, partition),
                of(&view.offline, partition)
            );
            seen.insert(format!("clients of broker {id} about {partition}"), told);
        }
    }
    Ok(seen)
}

/// `host:port` of the listener that the script had the broker open.
fn opened_listener(cluster: &Cluster, id: i32) -> Result<Option<String>> {
    let registration = cluster.zk.registration(id)?;
    let endpoints = registration.map(|it| it.endpoints()).unwrap_or_default();
    let of_it = |endpoint: &String| {
        let (name, address) = endpoint.split_once("://")?;
        (name == OPENED_LISTENER).then(|| address.to_owned())
    };
    Ok(endpoints.iter().find_map(of_it))
}

fn of<T: Clone + Default>(map: &BTreeMap<TopicPartition, T>, partition: &TopicPartition) -> T {
    map.get(partition).cloned().unwrap_or_default()
}

fn object(data: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(data).ok()
}

/// A znode's data without what differs from run to run.
fn comparable(path: &str, data: &[u8], origin: &Origin) -> String {
    if path == "/controller_epoch" {
        let epoch = String::from_utf8_lossy(data).trim().parse::<i64>().ok();
        if let Some(epoch) = epoch {
            return format!("{:+}", epoch - origin.controller_epoch);
        }
    }
    let Some(json) = object(data) else {
        return String::from_utf8_lossy(data).into_owned();
    };
    // In the order of their names: no reader depends on the order of a JSON object.
    let sorted: BTreeMap<String, Value> = json
        .into_iter()
        .map(|(key, value)| {
            let value = comparable_value(path, &key, value, origin);
            (key, value)
        })
        .collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

fn comparable_value(path: &str, key: &str, value: Value, origin: &Origin) -> Value {
    let since = |first: i64| match value.as_i64() {
        Some(epoch) => Value::from(format!("{:+}", epoch - first)),
        None => value.clone(),
    };
    match key {
        "timestamp" => Value::from("<time>"),
        "topic_id" => Value::from("<id>"),
        "id" if path == "/cluster/id" => Value::from("<id>"),
        "controller_epoch" => since(origin.controller_epoch),
        "leader_epoch" => since(origin.leader_epochs.get(path).copied().unwrap_or(0)),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_ids_and_the_absolute_values_of_epochs_are_taken_out() {
        let origin = Origin {
            controller_epoch: 3,
            leader_epochs: BTreeMap::from([("/t/state".to_owned(), 5)]),
        };
        let state =
            br#"{"version":1,"leader":2,"leader_epoch":7,"controller_epoch":4,"isr":[2,1]}"#;
        assert_eq!(
            comparable("/t/state", state, &origin),
            r#"{"controller_epoch":"+1","isr":[2,1],"leader":2,"leader_epoch":"+2","version":1}"#
        );
        assert_eq!(comparable("/controller_epoch", b"4", &origin), "+1");
        assert_eq!(
            comparable("/c", br#"{"timestamp":"17","brokerid":1}"#, &origin),
            r#"{"brokerid":1,"timestamp":"<time>"}"#
        );
        assert_eq!(comparable("/plain", b"text", &origin), "text");
    }
}
