//! What a tool's answer says, without what differs from run to run: the same under two controllers, or somebody has a
//! reason to wonder. Pure.
//!
//! Taken out are addresses, paths and prefixes of the run, what a case names as chosen or counted by chance, the order of
//! lines (most tools have none), the wording of errors (their names stay), and klamm's own node in lists of nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Tool;
use super::case::Chosen;
use super::host::Ran;

/// What ZooKeeper's old client logs now and then about its own end.
const NOISE: [&str; 2] = ["ClosedSelectorException", "CancelledKeyException"];

/// What can be compared of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub exit: i32,
    /// Classes of exceptions, without their packages; and what a node does not support, of which the client says no class.
    pub errors: BTreeSet<String>,
    /// Sorted.
    pub printed: Vec<String>,
}

/// What is known of the run that the answer comes from.
#[derive(Debug, Clone)]
pub struct Lens {
    /// Longest first: what is replaced, and by what.
    pub names: Vec<(String, &'static str)>,
    pub klamm: i32,
}

/// Reads an answer.
pub fn facts(ran: &Ran, tool: Tool, chosen: Chosen, lens: &Lens) -> Facts {
    let mut errors = BTreeSet::new();
    for line in ran.out.lines().chain(ran.err.lines()) {
        errors.extend(exceptions(line));
        errors.extend(unsupported(line));
    }
    let mut printed: Vec<String> = entries(&ran.out, tool)
        .into_iter()
        .filter(|line| !is_trace(line) && exceptions(line).is_empty())
        .map(|line| lens.named(&line))
        .filter_map(|line| lens.without_klamm(&line))
        .map(|line| comparable(&line, tool, chosen))
        .filter(|line| !line.is_empty())
        .collect();
    printed.sort();
    Facts {
        exit: ran.exit,
        errors,
        printed,
    }
}

/// The lines of an answer; what belongs together is one.
fn entries(out: &str, tool: Tool) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut refused = false;
    for line in out.lines() {
        refused |= line.starts_with("Error reassigning partition(s)");
        match (tool, entries.last_mut()) {
            // A block a broker, with its versions indented.
            (Tool::BrokerApiVersions, Some(block)) if line.starts_with(['\t', ')']) => {
                block.push(' ');
                block.push_str(line);
            }
            // Below its headline: a partition a line, and why.
            (Tool::ReassignPartitions, _) if refused => match line.split_once(": ") {
                Some((partition, _)) => entries.push(format!("{partition}: <message>")),
                None => entries.push(line.to_owned()),
            },
            // What it says while it is under way depends on how long that takes.
            (Tool::ProducerPerfTest, _) if line.contains("records sent") => {
                if line.contains("99.9th") {
                    entries.push(line.split(',').next().unwrap_or(line).to_owned());
                }
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// Names of exception classes in a line.
fn exceptions(line: &str) -> Vec<String> {
    let is_of_name =
        |character: char| character.is_ascii_alphanumeric() || "._$".contains(character);
    line.split(|character| !is_of_name(character))
        .filter_map(|word| word.trim_end_matches('.').rsplit(['.', '$']).next())
        .filter(|name| {
            let stem = name
                .strip_suffix("Exception")
                .or_else(|| name.strip_suffix("Error"));
            stem.is_some_and(|stem| stem.starts_with(|first: char| first.is_ascii_uppercase()))
        })
        .filter(|name| !NOISE.contains(name))
        .map(str::to_owned)
        .collect()
}

/// What the client found no node to be able to do.
fn unsupported(line: &str) -> Option<String> {
    let (_, api) = line.split_once("The node does not support ")?;
    let end = api.find(|character: char| !character.is_ascii_uppercase() && character != '_');
    let api = api.get(..end.unwrap_or(api.len()))?;
    Some(format!("no node supports {api}"))
}

fn is_trace(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || (line.starts_with("... ") && line.ends_with(" more"))
}

impl Lens {
    fn named(&self, line: &str) -> String {
        self.names
            .iter()
            .fold(line.to_owned(), |line, (from, to)| line.replace(from, to))
    }

    /// The line without klamm's node; `None` where it speaks of nothing else.
    fn without_klamm(&self, line: &str) -> Option<String> {
        let id = self.klamm;
        if line.contains(&format!("(id: {id} ")) || line.contains(&format!("for broker {id} are")) {
            return None;
        }
        let mut line = line.to_owned();
        for listed in [format!(",{id}"), format!(", {id}")] {
            line = line.replace(&listed, "");
        }
        Some(line)
    }
}

fn comparable(line: &str, tool: Tool, chosen: Chosen) -> String {
    let line = match tool {
        Tool::LogDirs if line.starts_with('{') => log_dirs(line),
        Tool::LeaderElection | Tool::PreferredReplicaElection => partitions_sorted(line),
        _ => line.to_owned(),
    };
    let line = match chosen {
        Chosen::Nothing => line,
        Chosen::Replicas => ["Leader: ", "Replicas: ", "Isr: ", "\"replicas\":["]
            .into_iter()
            .fold(line, |line, key| counted(&line, key)),
        Chosen::Secrets => ["salt=", "stored_key=", "server_key="]
            .into_iter()
            .fold(line, |line, key| hidden(&line, key, "<secret>")),
        Chosen::Figures => figures(&line),
    };
    let line = hidden(&without_wording(&line), "TopicId: ", "<id>");
    let line = configs_sorted(&isr_sorted(&line));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error is the same in other words.
fn without_wording(line: &str) -> String {
    // kafka-features puts the controller's explanation behind its own sentence.
    if let Some((sentence, _)) = line.split_once(". ")
        && line.starts_with("Could not ")
    {
        return format!("{sentence}. <message>");
    }
    let begins = ["Error", "error", "ERROR", "Failed", "Could not"]
        .iter()
        .any(|word| line.starts_with(word));
    match line.split_once(':') {
        Some((before, _)) if begins => format!("{}: <message>", before.trim_end()),
        _ => line.to_owned(),
    }
}

/// The list of numbers after each `key`, as `edit` makes it.
fn edited(line: &str, key: &str, edit: impl Fn(&str) -> String) -> String {
    let mut parts = line.split(key);
    let mut edited = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|character: char| {
                !character.is_ascii_digit() && character != ',' && character != '-'
            })
            .unwrap_or(part.len());
        let (list, rest) = part.split_at(end);
        edited.push_str(key);
        edited.push_str(&edit(list));
        edited.push_str(rest);
    }
    edited
}

/// How many there are, where which they are was somebody's choice.
fn counted(line: &str, key: &str) -> String {
    edited(line, key, |list| match list {
        "" => String::new(),
        list => format!("<{}>", list.split(',').count()),
    })
}

/// Configurations are told in the order in which the broker that was asked happens to keep them.
fn configs_sorted(line: &str) -> String {
    match line.split_once("Configs:") {
        None => line.to_owned(),
        Some((before, list)) => {
            let mut configs: Vec<&str> = list.trim().split(',').collect();
            configs.sort_unstable();
            format!("{before}Configs: {}", configs.join(","))
        }
    }
}

/// In-sync sets are sets.
fn isr_sorted(line: &str) -> String {
    edited(line, "Isr: ", |list| {
        let mut ids: Vec<&str> = list.split(',').collect();
        ids.sort_unstable();
        ids.join(",")
    })
}

/// What stands after each `key`, as `name`.
fn hidden(line: &str, key: &str, name: &str) -> String {
    let mut parts = line.split(key);
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends =
            |character: char| character.is_whitespace() || character == ',' || character == '}';
        let end = part.find(ends).unwrap_or(part.len());
        hidden.push_str(key);
        hidden.push_str(name);
        hidden.push_str(part.get(end..).unwrap_or_default());
    }
    hidden
}

/// Every number as `#`.
fn figures(line: &str) -> String {
    let mut text = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

/// `… for partitions a-1, b-0` in the order of their names.
fn partitions_sorted(line: &str) -> String {
    match line.split_once(" for partitions ") {
        None => line.to_owned(),
        Some((before, list)) => {
            let mut partitions: Vec<&str> = list.split(", ").collect();
            partitions.sort_unstable();
            format!("{before} for partitions {}", partitions.join(", "))
        }
    }
}

/// What `kafka-log-dirs` tells in JSON: whose logs lie where, and whether they are empty. A node without any log is not
/// told from none.
fn log_dirs(line: &str) -> String {
    let Ok(json) = serde_json::from_str::<Value>(line) else {
        return line.to_owned();
    };
    let list = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let mut told = Vec::new();
    for broker in list(&json, "brokers") {
        let id = broker.get("broker").cloned().unwrap_or_default();
        for directory in list(&broker, "logDirs") {
            let error = directory.get("error").cloned().unwrap_or_default();
            if !error.is_null() {
                told.push(format!("broker {id}: error {error}"));
            }
            for log in list(&directory, "partitions") {
                let text = |key: &str| log.get(key).cloned().unwrap_or_default();
                let size = match log.get("size").and_then(Value::as_i64) {
                    Some(0) => "empty",
                    Some(_) => "not empty",
                    None => "of no size",
                };
                told.push(format!(
                    "broker {id}: {} {size} lag {} future {}",
                    text("partition"),
                    text("offsetLag"),
                    text("isFuture")
                ));
            }
        }
    }
    told.sort();
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lens() -> Lens {
        Lens {
            names: vec![
                ("127.1.2.3".to_owned(), "<ip>"),
                ("p392b".to_owned(), "{t}"),
            ],
            klamm: 900,
        }
    }

    fn said(out: &str, tool: Tool, chosen: Chosen) -> Vec<String> {
        read(out, "", tool, chosen).printed
    }

    fn read(out: &str, err: &str, tool: Tool, chosen: Chosen) -> Facts {
        let ran = Ran {
            exit: 1,
            out: out.to_owned(),
            err: err.to_owned(),
            took: Duration::ZERO,
        };
        facts(&ran, tool, chosen, &lens())
    }

    #[test]
    fn names_of_errors_stay_and_their_wording_goes() {
        let facts = read(
            "Error while executing topic command : Topic 'p392b-x' already exists.\n",
            "[2026-11-30] ERROR org.apache.kafka.common.errors.TopicExistsException: Topic exists.\n\
             \tat kafka.admin.X.f(X.scala:1)\n (kafka.admin.TopicCommand$)\n",
            Tool::Topics,
            Chosen::Nothing,
        );
        assert_eq!(facts.errors, ["TopicExistsException".to_owned()].into());
        assert_eq!(
            facts.printed,
            ["Error while executing topic command: <message>"]
        );
    }

    #[test]
    fn which_partition_cannot_be_moved_stays_and_the_wording_of_why_goes() {
        let tool = Tool::ReassignPartitions;
        let refused = "Error reassigning partition(s):\np392b-x-1: there is no such partition\n";
        assert_eq!(
            said(refused, tool, Chosen::Nothing),
            [
                "Error reassigning partition(s): <message>",
                "{t}-x-1: <message>"
            ]
        );
        let listed = "p392b-x-1: replicas: 2,1. adding: 2.";
        assert_eq!(
            said(listed, tool, Chosen::Nothing),
            ["{t}-x-1: replicas: 2,1. adding: 2."]
        );
    }

    #[test]
    fn what_no_node_supports_is_an_error_by_its_own_name() {
        let line = "Failed to list transactions: The node does not support LIST_TRANSACTIONS. Enable debug logging.\n";
        let facts = read(line, "", Tool::Transactions, Chosen::Nothing);
        assert_eq!(
            facts.errors,
            ["no node supports LIST_TRANSACTIONS".to_owned()].into()
        );
        assert_eq!(facts.printed, ["Failed to list transactions: <message>"]);
    }

    #[test]
    fn why_a_feature_was_not_changed_is_said_in_the_controllers_own_words() {
        for why in [
            "It is not supported.",
            "no broker supports a feature: 3.9 or not",
        ] {
            let line = format!("Could not upgrade no.such.feature to 1. {why}\n");
            let facts = read(&line, "", Tool::Features, Chosen::Nothing);
            assert_eq!(
                facts.printed,
                ["Could not upgrade no.such.feature to 1. <message>"]
            );
        }
    }

    #[test]
    fn an_ordinary_word_is_no_error() {
        assert!(exceptions("Error: 3 Errors, no exception").is_empty());
        assert_eq!(exceptions("x.Y$ZException: a"), ["ZException"]);
    }

    #[test]
    fn addresses_and_prefixes_go_and_lines_are_sorted() {
        assert_eq!(
            said(
                "p392b-z on 127.1.2.3:9092\np392b-a   x\n\n",
                Tool::Topics,
                Chosen::Nothing
            ),
            ["{t}-a x", "{t}-z on <ip>:9092"]
        );
    }

    #[test]
    fn replicas_that_somebody_chose_are_counted_and_others_compared() {
        let line = "\tTopic: t\tPartition: 0\tLeader: 2\tReplicas: 2,3\tIsr: 3,2\n";
        assert_eq!(
            said(line, Tool::Topics, Chosen::Replicas),
            ["Topic: t Partition: 0 Leader: <1> Replicas: <2> Isr: <2>"]
        );
        assert_eq!(
            said(line, Tool::Topics, Chosen::Nothing),
            ["Topic: t Partition: 0 Leader: 2 Replicas: 2,3 Isr: 2,3"]
        );
        assert_eq!(
            said(
                "{\"replicas\":[1,2],\"x\":[3]}",
                Tool::ReassignPartitions,
                Chosen::Replicas
            ),
            ["{\"replicas\":[<2>],\"x\":[3]}"]
        );
    }

    #[test]
    fn topic_ids_go() {
        assert_eq!(
            said(
                "Topic: t\tTopicId: aB3-_x\tPartitionCount: 1\n",
                Tool::Topics,
                Chosen::Nothing
            ),
            ["Topic: t TopicId: <id> PartitionCount: 1"]
        );
    }

    #[test]
    fn a_partition_without_a_leader_is_not_taken_for_one_with() {
        let chosen = |line| said(line, Tool::Topics, Chosen::Replicas);
        assert_ne!(
            chosen("Leader: none\tReplicas: 1"),
            chosen("Leader: 1\tReplicas: 1")
        );
    }

    #[test]
    fn klamms_own_node_goes_from_lists_and_nothing_else_does() {
        assert_eq!(
            said(
                "Clearing broker-level throttles on brokers 1,2,3,900\n\
                 Dynamic configs for broker 900 are:\nDynamic configs for broker 1 are:\n",
                Tool::ReassignPartitions,
                Chosen::Nothing
            ),
            [
                "Clearing broker-level throttles on brokers 1,2,3",
                "Dynamic configs for broker 1 are:"
            ]
        );
        let versions = "127.1.2.3:9092 (id: 1 rack: null) -> (\n\tProduce(0): 0 to 9,\n)\n\
                        127.1.2.3:9192 (id: 900 rack: null) -> (\n\tProduce(0): 0 to 7,\n)\n";
        assert_eq!(
            said(versions, Tool::BrokerApiVersions, Chosen::Nothing),
            ["<ip>:9092 (id: 1 rack: null) -> ( Produce(0): 0 to 9, )"]
        );
    }

    #[test]
    fn of_log_directories_it_is_told_whose_logs_they_have_and_no_paths_or_sizes() {
        let line = r#"{"version":1,"brokers":[
            {"broker":2,"logDirs":[{"logDir":"/x","error":null,"partitions":[{"partition":"t-0","size":77,"offsetLag":0,"isFuture":false}]}]},
            {"broker":900,"logDirs":[{"logDir":"/klamm","error":null,"partitions":[]}]}]}"#
            .replace('\n', "");
        assert_eq!(
            said(&line, Tool::LogDirs, Chosen::Nothing),
            [r#"broker 2: "t-0" not empty lag 0 future false"#]
        );
    }

    #[test]
    fn what_chance_counts_is_not_compared() {
        assert_eq!(
            said(
                "salt=abc=,stored_key=x,iterations=4096",
                Tool::Configs,
                Chosen::Secrets
            ),
            ["salt=<secret>,stored_key=<secret>,iterations=4096"]
        );
        assert_eq!(
            said("1000 4 Empty\n", Tool::Transactions, Chosen::Figures),
            ["# # Empty"]
        );
        let perf = "200 records sent, 3 records/sec (0.1 MB/sec), 4 ms avg latency.\n\
                    300 records sent, 9.5 records/sec, 7 ms 99.9th.\n";
        assert_eq!(
            said(perf, Tool::ProducerPerfTest, Chosen::Nothing),
            ["300 records sent"]
        );
        assert_eq!(
            said(
                "done for partitions b-1, a-0",
                Tool::LeaderElection,
                Chosen::Nothing
            ),
            ["done for partitions a-0, b-1"]
        );
    }
}
