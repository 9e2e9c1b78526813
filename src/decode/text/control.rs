//! What controller and brokers say to each other, a partition a line, in the words of `kafka-topics` and of the
//! state-change log. Every version of a message reads alike. Pure.

use std::fmt::{Display, Write};

use klamm_codec::tree::Value;
use klamm_codec::{ApiKey, Uuid};

use super::body::{Body, View};
use super::generic;
use crate::decode::words::{count, error_name, id, numbers, quoted, shown};
use crate::model::SecurityProtocol;

/// A leader or leader epoch that says that the topic is being deleted.
const DURING_DELETE: i64 = -2;
/// No leader; of epochs, none.
const NONE: i64 = -1;
/// The leader has yet to learn what was lost in an unclean election (KIP-704).
const RECOVERING: i64 = 1;
/// How many APIs stand on a line of an ApiVersions answer.
const APIS_A_LINE: usize = 6;

pub(super) fn leader_and_isr(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["topic_states", "ungrouped_partition_states"]);
    let leaders = tree.list("live_leaders");
    body.line(1, || {
        let mut text = controller(tree);
        say(&mut text, ", type ", tree.int("type").map(request_type));
        let partitions = count(partitions.len(), "partition");
        format!(
            "{text}; {partitions}, {}",
            count(leaders.len(), "live leader")
        )
    });
    for partition in &partitions {
        body.partition(&partition.topic(view), || {
            let mut text = state(partition, tree, "partition_epoch", view);
            add_list(&mut text, " adding ", partition.value, "adding_replicas");
            add_list(
                &mut text,
                " removing ",
                partition.value,
                "removing_replicas",
            );
            add_flags(&mut text, partition.value);
            text
        });
    }
    for leader in leaders {
        body.line(2, || {
            let host = host_and_port(leader, "host_name", "port");
            format!("live leader {} {host}", number(leader, "broker_id"))
        });
    }
}

pub(super) fn update_metadata(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["topic_states", "ungrouped_partition_states"]);
    let brokers = tree.list("live_brokers");
    body.line(1, || {
        let mut text = controller(tree);
        say(&mut text, ", type ", tree.int("type").map(request_type));
        let partitions = count(partitions.len(), "partition");
        format!("{text}; {partitions}, {}", count(brokers.len(), "broker"))
    });
    for partition in &partitions {
        body.partition(&partition.topic(view), || {
            let mut text = state(partition, tree, "zk_version", view);
            add_list(&mut text, " offline ", partition.value, "offline_replicas");
            text
        });
    }
    for broker in brokers {
        body.line(2, || live_broker(broker));
    }
}

pub(super) fn stop_replica(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["topic_states", "ungrouped_partitions", "topics"]);
    body.line(1, || {
        let controller = controller(tree);
        format!("{controller}; {}", count(partitions.len(), "partition"))
    });
    for partition in &partitions {
        body.partition(&partition.topic(view), || {
            let deletes =
                tree.is_set("delete_partitions") || partition.value.is_set("delete_partition");
            let mut text = partition.name(view);
            text.push_str(if deletes { " delete" } else { " stop" });
            say(
                &mut text,
                " epoch ",
                partition.value.int("leader_epoch").map(special),
            );
            text
        });
    }
}

/// The answers to the three requests of a controller: what went well is counted.
pub(super) fn partition_errors(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["topics", "partition_errors"]);
    if partitions.is_empty() {
        return;
    }
    let is_well = |partition: &&Partition<'_>| partition.value.int("error_code") == Some(0);
    let (well, all) = (
        partitions.iter().filter(is_well).count(),
        count(partitions.len(), "partition"),
    );
    body.line(1, || {
        if well == partitions.len() {
            format!("answer: {all} without error")
        } else {
            format!("answer: {well} of {all} without error")
        }
    });
    for partition in partitions.iter().filter(|partition| !is_well(partition)) {
        body.partition(&partition.topic(view), || {
            format!("{} {}", partition.name(view), error(partition.value, view))
        });
    }
}

pub(super) fn from_broker(tree: &Value, body: &mut Body<'_>) {
    body.line(1, || broker(tree));
}

pub(super) fn remaining(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["remaining_partitions"]);
    match partitions.len() {
        // An answer that refuses says nothing of what the broker leads.
        0 if tree.int("error_code") != Some(0) => {}
        0 => body.line(1, || "answer: leads no partition any more".to_owned()),
        still => body.line(1, || {
            format!("answer: still leads {}", count(still, "partition"))
        }),
    }
    for partition in &partitions {
        body.partition(&partition.topic(view), || partition.name(view));
    }
}

pub(super) fn producer_ids(tree: &Value, body: &mut Body<'_>) {
    let (first, length) = (
        number(tree, "producer_id_start"),
        number(tree, "producer_id_len"),
    );
    body.line(1, || match length {
        0 => "answer: no producer ids".to_owned(),
        _ => format!(
            "answer: producer ids {first} to {}",
            first.saturating_add(length).saturating_sub(1)
        ),
    });
}

pub(super) fn alter_partition(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    body.line(1, || broker(tree));
    for partition in &partitions(tree, &["topics"]) {
        body.partition(&partition.topic(view), || {
            let value = partition.value;
            let mut text = partition.name(view);
            say(&mut text, " leader epoch ", value.int("leader_epoch"));
            add_list(&mut text, " new isr ", value, "new_isr");
            if let Some(isr) = value.get("new_isr_with_epochs") {
                let members: Vec<String> = isr.items().iter().map(isr_member).collect();
                let _ = write!(text, " new isr [{}]", members.join(","));
            }
            say(&mut text, " partition epoch ", value.int("partition_epoch"));
            add_flags(&mut text, value);
            text
        });
    }
}

pub(super) fn altered(tree: &Value, body: &mut Body<'_>) {
    let view = body.view;
    let partitions = partitions(tree, &["topics"]);
    if partitions.is_empty() {
        return;
    }
    body.line(1, || "answer:".to_owned());
    for partition in &partitions {
        body.partition(&partition.topic(view), || {
            let value = partition.value;
            let mut text = partition.name(view);
            if value.int("error_code") != Some(0) {
                let _ = write!(text, " {}", error(value, view));
                return text;
            }
            say(&mut text, " leader ", value.int("leader_id").map(special));
            say(&mut text, " epoch ", value.int("leader_epoch"));
            add_list(&mut text, " isr ", value, "isr");
            say(&mut text, " partition epoch ", value.int("partition_epoch"));
            add_flags(&mut text, value);
            text
        });
    }
}

pub(super) fn api_versions(tree: &Value, body: &mut Body<'_>) {
    let rest: Vec<(&'static str, Value)> = tree
        .fields()
        .iter()
        .filter(|(name, _)| *name != "api_keys")
        .cloned()
        .collect();
    generic::message("answer", &Value::Record(rest), body);
    for apis in tree.list("api_keys").chunks(APIS_A_LINE) {
        body.line(2, || apis.iter().map(api).collect::<Vec<_>>().join(", "));
    }
}

fn api(api: &Value) -> String {
    let key = ApiKey(i16::try_from(number(api, "api_key")).unwrap_or(-1));
    format!(
        "{key} {}-{}",
        number(api, "min_version"),
        number(api, "max_version")
    )
}

// ---------------------------------------------------------------------------------------------------------------------
// Partitions

/// A partition in a message, whichever way its version groups them.
#[derive(Debug)]
struct Partition<'a> {
    /// Holds the topic's name or id.
    group: &'a Value,
    /// Holds all else; where a version has nothing else, its number.
    value: &'a Value,
}

/// All partitions in the lists that a message has in one version or another: by topic, or one by one.
fn partitions<'a>(tree: &'a Value, lists: &[&str]) -> Vec<Partition<'a>> {
    let mut partitions = Vec::new();
    for group in lists.iter().flat_map(|list| tree.list(list)) {
        let nested = [
            "partition_states",
            "partition_errors",
            "partitions",
            "partition_indexes",
        ];
        match nested.iter().find_map(|list| group.get(list)) {
            Some(inner) => {
                partitions.extend(inner.items().iter().map(|value| Partition { group, value }))
            }
            None => partitions.push(Partition {
                group,
                value: group,
            }),
        }
    }
    partitions
}

impl Partition<'_> {
    /// The topic's name, or the id that stands for it in the capture.
    fn topic(&self, view: View<'_>) -> String {
        match view.names.of(self.group) {
            Some(name) => name.to_owned(),
            None => self.group.uuid("topic_id").map(id).unwrap_or_default(),
        }
    }

    fn name(&self, view: View<'_>) -> String {
        let partition = match self.value {
            Value::Int(partition) => *partition,
            value => number(value, "partition_index"),
        };
        format!("{}-{partition}", shown(&self.topic(view)))
    }
}

/// What LeaderAndIsr and UpdateMetadata have in common.
fn state(partition: &Partition<'_>, tree: &Value, version: &str, view: View<'_>) -> String {
    let value = partition.value;
    let mut text = partition.name(view);
    say(&mut text, " leader ", value.int("leader").map(special));
    say(&mut text, " epoch ", value.int("leader_epoch"));
    add_list(&mut text, " isr ", value, "isr");
    add_list(&mut text, " replicas ", value, "replicas");
    say(&mut text, " zk version ", value.int(version));
    let decided_in = value.int("controller_epoch");
    if decided_in != tree.int("controller_epoch") {
        say(&mut text, " controller epoch ", decided_in);
    }
    let topic_id = partition
        .group
        .uuid("topic_id")
        .filter(|id| *id != Uuid::nil());
    say(&mut text, " topic id ", topic_id.map(id));
    text
}

fn add_flags(text: &mut String, partition: &Value) {
    if partition.int("leader_recovery_state") == Some(RECOVERING) {
        text.push_str(" recovering");
    }
    if partition.is_set("is_new") {
        text.push_str(" new");
    }
}

/// A list of ids, where the version has one; lists of what isn't so are left out.
fn add_list(text: &mut String, words: &str, partition: &Value, name: &str) {
    let may_be_empty = ["isr", "replicas", "new_isr"].contains(&name);
    if let Some(list) = partition.get(name)
        && (may_be_empty || !list.items().is_empty())
    {
        say(text, words, Some(numbers(list.items())));
    }
}

fn isr_member(member: &Value) -> String {
    match member.int("broker_epoch") {
        Some(NONE) | None => number(member, "broker_id").to_string(),
        Some(epoch) => format!("{}@{epoch}", number(member, "broker_id")),
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

fn controller(tree: &Value) -> String {
    let kind = if tree.is_set("is_k_raft_controller") {
        "KRaft controller"
    } else {
        "controller"
    };
    let mut text = format!(
        "{kind} {} epoch {}",
        number(tree, "controller_id"),
        number(tree, "controller_epoch")
    );
    say(&mut text, ", broker epoch ", tree.int("broker_epoch"));
    text
}

fn broker(tree: &Value) -> String {
    let mut text = format!("broker {}", number(tree, "broker_id"));
    say(&mut text, " broker epoch ", tree.int("broker_epoch"));
    text
}

fn live_broker(broker: &Value) -> String {
    let mut text = format!("broker {}", number(broker, "id"));
    if broker.get("v0_host").is_some() {
        let _ = write!(text, " {}", host_and_port(broker, "v0_host", "v0_port"));
    }
    for endpoint in broker.list("endpoints") {
        let _ = write!(text, " {}", listener(endpoint));
    }
    say(&mut text, " rack ", broker.text("rack").map(quoted));
    text
}

fn listener(endpoint: &Value) -> String {
    let code = number(endpoint, "security_protocol");
    let protocol = [
        SecurityProtocol::Plaintext,
        SecurityProtocol::Ssl,
        SecurityProtocol::SaslPlaintext,
        SecurityProtocol::SaslSsl,
    ]
    .into_iter()
    .find(|protocol| i64::from(protocol.code()) == code)
    .map_or_else(
        || format!("protocol {code}"),
        |protocol| protocol.name().to_owned(),
    );
    let host = host_and_port(endpoint, "host", "port");
    match endpoint.text("listener") {
        Some(name) if name != protocol => format!("{}://{host} ({protocol})", shown(name)),
        _ => format!("{protocol}://{host}"),
    }
}

fn host_and_port(node: &Value, host: &str, port: &str) -> String {
    let (host, port) = (node.text(host).unwrap_or_default(), number(node, port));
    if host.contains(':') {
        format!("[{}]:{port}", shown(host))
    } else {
        format!("{}:{port}", shown(host))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

fn error(value: &Value, view: View<'_>) -> String {
    view.style
        .paint
        .wrong(&error_name(number(value, "error_code")))
}

fn number(record: &Value, field: &str) -> i64 {
    record.int(field).unwrap_or(NONE)
}

/// A leader or leader epoch, with its meaning where it is none.
fn special(number: i64) -> String {
    match number {
        NONE => "none".to_owned(),
        DURING_DELETE => format!("{DURING_DELETE} (topic being deleted)"),
        _ => number.to_string(),
    }
}

/// KIP-866 and KIP-516: whether a request holds all that its receiver should have.
fn request_type(number: i64) -> String {
    match number {
        0 => "unknown".to_owned(),
        1 => "incremental".to_owned(),
        2 => "full".to_owned(),
        other => other.to_string(),
    }
}

fn say(text: &mut String, words: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        let _ = write!(text, "{words}{value}");
    }
}
