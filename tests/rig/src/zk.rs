//! What the cluster's ZooKeeper holds: the rig's way to see what really is, and to do what an operator does by hand.
//!
//! Reads through one session of its own, which it opens again when it was lost. Nothing here watches: the waits ask
//! again and again, so that what they see does not hang on a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::runtime::Runtime;
use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests that are sent before the first answer is waited for.
const UNDER_WAY: usize = 500;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A partition's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: &str, partition: i32) -> Self {
        Self {
            topic: topic.to_owned(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Who holds `/controller`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub id: i32,
    /// The session that the node lives by.
    pub session: i64,
    /// Tells one holding of the role from the next.
    pub czxid: i64,
}

/// `/controller_epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    pub epoch: i32,
    pub version: i32,
}

/// `/brokers/ids/N`.
#[derive(Debug, Clone)]
pub struct Registration {
    pub session: i64,
    pub czxid: i64,
    pub json: Value,
}

impl Registration {
    /// Its endpoints as they are registered: `NAME://host:port`.
    pub fn endpoints(&self) -> Vec<String> {
        let listed = self.json.get("endpoints").and_then(Value::as_array);
        let texts = listed.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

/// `/brokers/topics/T/partitions/P/state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    pub leader: i32,
    pub leader_epoch: i32,
    pub controller_epoch: i32,
    pub isr: BTreeSet<i32>,
    pub version: i32,
}

/// A reader of one cluster's ZooKeeper; clones share a session.
#[derive(Clone)]
pub struct Zk {
    connect: String,
    client: Arc<Mutex<Option<Client>>>,
}

impl fmt::Debug for Zk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zk({})", self.connect)
    }
}

impl Zk {
    /// A reader of `host:port[/chroot]`; connects with the first read.
    pub fn new(connect: &str) -> Self {
        Self {
            connect: connect.to_owned(),
            client: Arc::default(),
        }
    }

    /// Another session to the same ZooKeeper.
    pub fn another(&self) -> Self {
        Self::new(&self.connect)
    }

    /// Every node with the transaction that changed it last: two equal trees mean that nothing was written in between.
    pub fn tree(&self) -> Result<BTreeMap<String, i64>> {
        let nodes = self.nodes()?.into_iter();
        Ok(nodes.map(|(path, (_, stat))| (path, stat.mzxid)).collect())
    }

    /// Every node but ZooKeeper's own, with what it holds.
    pub fn nodes(&self) -> Result<BTreeMap<String, (Vec<u8>, Stat)>> {
        let mut nodes = BTreeMap::new();
        let mut level = vec![String::new()];
        while !level.is_empty() {
            let mut below = Vec::new();
            for (path, children) in level.iter().zip(self.children_of_all(&level)?) {
                below.extend(children.iter().map(|child| format!("{path}/{child}")));
            }
            // ZooKeeper's own.
            below.retain(|path| !path.starts_with("/zookeeper"));
            for (index, data, stat) in self.get_all(&below)? {
                if let Some(path) = below.get(index) {
                    nodes.insert(path.clone(), (data, stat));
                }
            }
            level = below;
        }
        Ok(nodes)
    }

    /// Runs `operation` on a live session; a lost one is replaced and the operation tried once more.
    fn ask<T>(&self, operation: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T> {
        let runtime = runtime()?;
        runtime.block_on(async {
            for last in [false, true] {
                let client = self.session().await?;
                let outcome = tokio::time::timeout(OPERATION_TIMEOUT, operation(&client)).await;
                match outcome {
                    Ok(Ok(value)) => return Ok(value),
                    Ok(Err(
                        Error::SessionExpired | Error::ClientClosed | Error::ConnectionLoss,
                    ))
                    | Err(_)
                        if !last =>
                    {
                        self.forget();
                    }
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => bail!(
                        "ZooKeeper at {} gave no answer within {OPERATION_TIMEOUT:?}",
                        self.connect
                    ),
                }
            }
            bail!("ZooKeeper at {} cannot be read", self.connect)
        })
    }

    async fn session(&self) -> Result<Client> {
        if let Some(client) = self.locked().as_ref() {
            return Ok(client.clone());
        }
        let connecting = Client::connector()
            .with_session_timeout(SESSION_TIMEOUT)
            .with_connection_timeout(Duration::from_secs(2))
            .connect(&self.connect);
        let client = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .with_context(|| format!("ZooKeeper at {} does not answer", self.connect))?
            .with_context(|| format!("cannot connect to ZooKeeper at {}", self.connect))?;
        *self.locked() = Some(client.clone());
        Ok(client)
    }

    fn forget(&self) {
        *self.locked() = None;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data of a node, or `None` where there is no such node.
    pub fn get(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>> {
        self.ask(async |client| none_if_missing(client.get_data(path).await))
            .with_context(|| format!("cannot read {path}"))
    }

    /// The children of a node; none where there is no such node.
    pub fn children(&self, path: &str) -> Result<Vec<String>> {
        let children = self
            .ask(async |client| none_if_missing(client.list_children(path).await))
            .with_context(|| format!("cannot list {path}"))?;
        Ok(children.unwrap_or_default())
    }

    /// Reads many nodes, many requests under way at once; missing ones are left out.
    pub fn get_all(&self, paths: &[String]) -> Result<Vec<(usize, Vec<u8>, Stat)>> {
        let mut found = Vec::with_capacity(paths.len());
        for (number, some) in paths.chunks(UNDER_WAY).enumerate() {
            let read = self.ask(async |client| {
                // The client sends a request when the future is made: all are on the wire before the first wait.
                let reads: Vec<_> = some.iter().map(|path| client.get_data(path)).collect();
                let mut found = Vec::with_capacity(reads.len());
                for (index, read) in reads.into_iter().enumerate() {
                    if let Some((data, stat)) = none_if_missing(read.await)? {
                        found.push((number * UNDER_WAY + index, data, stat));
                    }
                }
                Ok(found)
            });
            found.extend(read.context("cannot read the nodes")?);
        }
        Ok(found)
    }

    fn children_of_all(&self, paths: &[String]) -> Result<Vec<Vec<String>>> {
        let mut found = Vec::with_capacity(paths.len());
        for some in paths.chunks(UNDER_WAY) {
            let read = self.ask(async |client| {
                let root = |path: &String| {
                    if path.is_empty() {
                        "/".to_owned()
                    } else {
                        path.clone()
                    }
                };
                let reads: Vec<_> = some
                    .iter()
                    .map(|path| client.get_children(&root(path)))
                    .collect();
                let mut found = Vec::with_capacity(reads.len());
                for read in reads {
                    let children = none_if_missing(read.await)?.map(|(children, _)| children);
                    found.push(children.unwrap_or_default());
                }
                Ok(found)
            });
            found.extend(read.context("cannot list the nodes")?);
        }
        Ok(found)
    }

    /// Creates a persistent node.
    pub fn create(&self, path: &str, data: &[u8]) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.ask(async |client| client.create(path, data, &options).await.map(|_| ()))
            .with_context(|| format!("cannot create {path}"))
    }

    /// Creates a persistent node whose name ZooKeeper ends with a number of its own.
    pub fn create_sequential(&self, prefix: &str, data: &[u8]) -> Result<()> {
        let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
        self.ask(async |client| client.create(prefix, data, &options).await.map(|_| ()))
            .with_context(|| format!("cannot create {prefix}…"))
    }

    /// Creates many persistent nodes, many requests under way at once.
    pub fn create_all(&self, nodes: &[(String, Vec<u8>)]) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for some in nodes.chunks(UNDER_WAY) {
            self.ask(async |client| {
                let writes: Vec<_> = some
                    .iter()
                    .map(|(path, data)| client.create(path, data, &options))
                    .collect();
                for write in writes {
                    match write.await {
                        // What a first try created before its connection broke.
                        Ok(_) | Err(Error::NodeExists) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            })
            .context("cannot create the nodes")?;
        }
        Ok(())
    }

    /// Overwrites a node whatever its version.
    pub fn set(&self, path: &str, data: &[u8]) -> Result<()> {
        self.ask(async |client| client.set_data(path, data, None).await.map(|_| ()))
            .with_context(|| format!("cannot write {path}"))
    }

    /// Deletes a node whatever its version; content if it is gone already.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.ask(async |client| none_if_missing(client.delete(path, None).await))
            .map(|_| ())
            .with_context(|| format!("cannot delete {path}"))
    }

    /// Who holds the role; `None` while it is vacant.
    pub fn controller(&self) -> Result<Option<Owner>> {
        let Some((data, stat)) = self.get("/controller")? else {
            return Ok(None);
        };
        let json = parse("/controller", &data)?;
        Ok(Some(Owner {
            id: int(&json, "brokerid")?,
            session: stat.ephemeral_owner,
            czxid: stat.czxid,
        }))
    }

    /// The controller epoch; `None` before the first controller.
    pub fn controller_epoch(&self) -> Result<Option<Epoch>> {
        let Some((data, stat)) = self.get("/controller_epoch")? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&data).into_owned();
        let epoch = text
            .trim()
            .parse()
            .with_context(|| format!("/controller_epoch holds `{text}`"))?;
        Ok(Some(Epoch {
            epoch,
            version: stat.version,
        }))
    }

    /// The ids under `/brokers/ids`, a klamm's among them.
    pub fn broker_ids(&self) -> Result<BTreeSet<i32>> {
        ids(self.children("/brokers/ids")?)
    }

    /// One broker's registration, or `None` when it is not registered.
    pub fn registration(&self, id: i32) -> Result<Option<Registration>> {
        let path = format!("/brokers/ids/{id}");
        let Some((data, stat)) = self.get(&path)? else {
            return Ok(None);
        };
        Ok(Some(Registration {
            session: stat.ephemeral_owner,
            czxid: stat.czxid,
            json: parse(&path, &data)?,
        }))
    }

    /// The ids that klamms have marked as theirs.
    pub fn klamm_ids(&self) -> Result<BTreeSet<i32>> {
        ids(self.children("/klamm/ids")?)
    }

    pub fn topics(&self) -> Result<BTreeSet<String>> {
        Ok(self.children("/brokers/topics")?.into_iter().collect())
    }

    /// The replicas of every partition whose topic node can be read; broken nodes are left out, as klamm must.
    pub fn assignments(&self) -> Result<BTreeMap<TopicPartition, Vec<i32>>> {
        let topics: Vec<String> = self.topics()?.into_iter().collect();
        self.assignments_of(&topics)
    }

    /// The replicas of every partition of `topics`; as [`Zk::assignments`].
    pub fn assignments_of(&self, topics: &[String]) -> Result<BTreeMap<TopicPartition, Vec<i32>>> {
        let paths: Vec<String> = topics
            .iter()
            .map(|topic| format!("/brokers/topics/{topic}"))
            .collect();
        let mut assignments = BTreeMap::new();
        for (index, data, _) in self.get_all(&paths)? {
            let (Some(topic), Ok(json)) =
                (topics.get(index), serde_json::from_slice::<Value>(&data))
            else {
                continue;
            };
            let Some(partitions) = json.get("partitions").and_then(Value::as_object) else {
                continue;
            };
            for (partition, replicas) in partitions {
                let (Ok(partition), Some(replicas)) = (partition.parse(), replicas.as_array())
                else {
                    continue;
                };
                let replicas = replicas.iter().filter_map(as_id).collect();
                assignments.insert(TopicPartition::new(topic, partition), replicas);
            }
        }
        Ok(assignments)
    }

    /// The state of every partition that has one, whether or not its topic's assignment can be read.
    pub fn states(&self) -> Result<BTreeMap<TopicPartition, PartitionState>> {
        let topics: Vec<String> = self.topics()?.into_iter().collect();
        let folders: Vec<String> = topics
            .iter()
            .map(|topic| format!("/brokers/topics/{topic}/partitions"))
            .collect();
        let mut partitions = Vec::new();
        for (topic, children) in topics.iter().zip(self.children_of_all(&folders)?) {
            partitions.extend(
                children
                    .iter()
                    .filter_map(|child| Some(TopicPartition::new(topic, child.parse().ok()?))),
            );
        }
        self.states_of(partitions)
    }

    /// The states of `partitions`; those without one are left out.
    pub fn states_of(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, PartitionState>> {
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let paths: Vec<String> = partitions.iter().map(state_path).collect();
        let mut states = BTreeMap::new();
        for (index, data, stat) in self.get_all(&paths)? {
            let (Some(partition), Some(path)) = (partitions.get(index), paths.get(index)) else {
                continue;
            };
            states.insert(
                partition.clone(),
                partition_state(path, &data, stat.version)?,
            );
        }
        Ok(states)
    }
}

/// Where a partition's state is kept.
pub fn state_path(partition: &TopicPartition) -> String {
    format!(
        "/brokers/topics/{}/partitions/{}/state",
        partition.topic, partition.partition
    )
}

fn partition_state(path: &str, data: &[u8], version: i32) -> Result<PartitionState> {
    let json = parse(path, data)?;
    let isr = json
        .get("isr")
        .and_then(Value::as_array)
        .with_context(|| format!("{path} holds no isr"))?;
    Ok(PartitionState {
        leader: int(&json, "leader")?,
        leader_epoch: int(&json, "leader_epoch")?,
        controller_epoch: int(&json, "controller_epoch")?,
        isr: isr.iter().filter_map(as_id).collect(),
        version,
    })
}

fn none_if_missing<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(path: &str, data: &[u8]) -> Result<Value> {
    serde_json::from_slice(data)
        .with_context(|| format!("{path} holds no JSON: {}", String::from_utf8_lossy(data)))
}

fn int(json: &Value, field: &str) -> Result<i32> {
    json.get(field)
        .and_then(as_id)
        .with_context(|| format!("no `{field}` in {json}"))
}

fn as_id(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

fn ids(children: Vec<String>) -> Result<BTreeSet<i32>> {
    children
        .iter()
        .map(|child| {
            child
                .parse()
                .with_context(|| format!("`{child}` is not an id"))
        })
        .collect()
}

/// One small runtime for all sessions of the process: the stories themselves are plain blocking code.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .ok()
        })
        .as_ref()
        .context("cannot start the runtime of the ZooKeeper sessions")
}
