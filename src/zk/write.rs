//! Grouped writes under the fence: each request is one transaction that begins with a check of `/controller_epoch`.
//!
//! A failed transaction names its first failing operation: that one is set aside with its outcome and the rest sent
//! again, so one bad item never costs the others. A write whose answer was lost is read back and compared before it is
//! sent again: by then it may have been performed. Writes of one path keep their order, those of different paths don't.
//! Upstream: `KafkaZkClient.scala`, which sends one transaction a write.

mod removal;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use zookeeper_client::{
    Acls, CheckWriteError, CreateMode, Error, MultiReadResult, MultiWriteResult,
};

use super::client::{Access, ZkClient, refused};
use super::link::Wire;
use super::read::Node;
use super::{paths, znode};
use crate::effect::{Term, ZkOutcome, ZkWrite};
use crate::model::{ConfigEntity, TopicName};
use crate::port::ZkFault;
use removal::{Extent, Removal};

/// Operations a request.
const OPERATIONS_A_GROUP: usize = 400;
/// Bytes a request: well below the server's default of 1 MiB (`jute.maxbuffer`), over which it cuts the connection.
const BYTES_A_GROUP: usize = 700 * 1024;
/// The largest node that is tried: what the default `jute.maxbuffer` takes, less room for paths.
const MAX_NODE_BYTES: usize = 1000 * 1024;
/// Requests in flight.
const GROUPS_IN_FLIGHT: usize = 8;
/// An operation's bytes beside its path and data.
const OPERATION_OVERHEAD: usize = 64;
/// Requests from this size on are suspected when the connection is lost over them again and again.
const SUSPECT_BYTES: usize = 64 * 1024;
/// Lost connections after which a single suspect write is given up.
const MAX_SUSPECT_LOSSES: u32 = 6;

/// One operation of a transaction.
#[derive(Debug, Clone)]
enum Operation {
    /// Create a parent without content; that it exists already is fine.
    CreateParent(String),
    Create(String, Vec<u8>),
    /// Create a child whose name begins so; ZooKeeper numbers it.
    CreateNumbered(String, Vec<u8>),
    Set(String, Vec<u8>, i32),
    /// Set whatever stands there.
    Overwrite(String, Vec<u8>),
    Delete(String),
    /// Delete the very node that was read: it has this version still, and was made by this transaction.
    DeleteRead(String, i32, i64),
}

impl Operation {
    fn path(&self) -> &str {
        match self {
            Operation::CreateParent(path)
            | Operation::Create(path, _)
            | Operation::CreateNumbered(path, _)
            | Operation::Set(path, _, _)
            | Operation::Overwrite(path, _)
            | Operation::Delete(path)
            | Operation::DeleteRead(path, _, _) => path,
        }
    }

    fn bytes(&self) -> usize {
        let data = match self {
            Operation::Create(_, data)
            | Operation::CreateNumbered(_, data)
            | Operation::Set(_, data, _)
            | Operation::Overwrite(_, data) => data.len(),
            Operation::CreateParent(_) | Operation::Delete(_) | Operation::DeleteRead(..) => 0,
        };
        self.path().len() + data + OPERATION_OVERHEAD
    }
}

/// One write of the caller.
#[derive(Debug)]
struct Item {
    /// Its place among the caller's writes.
    index: usize,
    /// The node's missing parent, if it has to be created.
    parent: Option<Operation>,
    /// What goes in the same transaction, before it: nodes to delete, where they are there, notices, where their parent is,
    /// and nodes to create or to overwrite.
    along: Vec<Operation>,
    /// What is asked.
    operation: Operation,
}

impl Item {
    fn new(index: usize, operation: Operation) -> Item {
        Item {
            index,
            parent: None,
            along: Vec::new(),
            operation,
        }
    }

    /// Everything, in the order of the transaction, with its part in the item.
    fn parts(&self) -> impl Iterator<Item = (Part, &Operation)> {
        let parent = self.parent.iter().map(|parent| (Part::Parent, parent));
        let along = self.along.iter().enumerate();
        let along = along.map(|(place, other)| (Part::Along(place), other));
        parent.chain(along).chain([(Part::Itself, &self.operation)])
    }

    fn bytes(&self) -> usize {
        self.parts().map(|(_, operation)| operation.bytes()).sum()
    }

    fn operations(&self) -> usize {
        self.parts().count()
    }
}

/// Which operation of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Parent,
    /// This one of those that go along.
    Along(usize),
    Itself,
}

type Outcomes = Vec<(usize, ZkOutcome)>;

impl ZkClient {
    pub(super) async fn write_fenced(
        &self,
        term: &Term,
        writes: &[ZkWrite],
    ) -> Result<Vec<ZkOutcome>, ZkFault> {
        let mut access = Access::default();
        self.wire(&mut access).await?;
        let mut outcomes: Vec<Option<ZkOutcome>> = vec![None; writes.len()];
        let mut items = Vec::with_capacity(writes.len());
        let mut removals = Vec::new();
        for (index, write) in writes.iter().enumerate() {
            let (along, operation) = match asked(write) {
                Asked::One(operation) => (Vec::new(), operation),
                Asked::Two(first, operation) => (vec![first], operation),
                Asked::Removal(removal) => {
                    removals.push((index, removal));
                    continue;
                }
            };
            let refusal = along.iter().chain([&operation]).find_map(too_large);
            match refusal {
                Some(refusal) => outcomes[index] = Some(refusal),
                None => items.push(Item {
                    along,
                    ..Item::new(index, operation)
                }),
            }
        }
        self.find_missing_parents(access, term, writes, &mut items)
            .await?;
        for wave in waves(items) {
            for (index, outcome) in self.write_groups(access, term, wave).await? {
                outcomes[index] = Some(outcome);
            }
        }
        for (index, outcome) in self.remove_topics(access, term, removals).await? {
            outcomes[index] = Some(outcome);
        }
        let unanswered = || ZkOutcome::Refused("the write was not performed".to_owned());
        let all = outcomes.into_iter();
        Ok(all
            .map(|outcome| outcome.unwrap_or_else(unanswered))
            .collect())
    }

    /// Writes items of which no two concern one path.
    async fn write_groups(
        &self,
        access: Access,
        term: &Term,
        items: Vec<Item>,
    ) -> Result<Outcomes, ZkFault> {
        let groups = groups(items).into_iter();
        let sent = stream::iter(groups.map(|group| self.write_group(access, term, group)));
        let outcomes: Vec<Outcomes> = sent.buffered(GROUPS_IN_FLIGHT).try_collect().await?;
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Sends one group until each of its items has an outcome.
    async fn write_group(
        &self,
        mut access: Access,
        term: &Term,
        mut items: Vec<Item>,
    ) -> Result<Outcomes, ZkFault> {
        let mut outcomes = Outcomes::with_capacity(items.len());
        let (mut losses, mut failures) = (0, 0);
        while !items.is_empty() {
            let wire = self.wire(&mut access).await?;
            let sending = a_part_if_suspect(&items, losses);
            match self.timed(commit(&wire, term, &items[..sending])).await {
                Ok(versions) => {
                    losses = 0;
                    let sent = items.drain(..sending).zip(versions);
                    outcomes.extend(
                        sent.map(|(item, version)| (item.index, ZkOutcome::Written { version })),
                    );
                }
                Err(Failure::Fenced) => return Err(ZkFault::Fenced),
                Err(Failure::Check(error)) => return Err(refused(paths::CONTROLLER_EPOCH, error)),
                Err(Failure::Operation {
                    position,
                    part,
                    error,
                }) => {
                    set_aside(&mut items, position, part, &error, &mut outcomes);
                    failures += 1;
                    if failures > 1 {
                        items = self.without_doomed(access, items, &mut outcomes).await?;
                    }
                }
                Err(Failure::Request(error)) if wire.is_loss(&error) => {
                    self.lost(&mut access, &wire);
                    losses += 1;
                    let alone = (sending == 1).then(|| items[0].index);
                    items = self.settle(access, items, &mut outcomes).await?;
                    if let Some(first) = items.first()
                        && alone == Some(first.index)
                        && is_given_up(first, losses)
                    {
                        losses = 0;
                        outcomes.push((first.index, given_up(first, &error)));
                        items.remove(0);
                    }
                }
                Err(Failure::Request(error)) => {
                    let refusal = |item: Item| {
                        let path = item.operation.path();
                        (item.index, ZkOutcome::Refused(format!("{path}: {error}")))
                    };
                    outcomes.extend(items.drain(..sending).map(refusal));
                }
            }
        }
        Ok(outcomes)
    }

    /// After a lost answer: reads back what was to be written. Returns the items that are still to be performed.
    async fn settle(
        &self,
        access: Access,
        items: Vec<Item>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<Item>, ZkFault> {
        self.without(performed, access, items, outcomes).await
    }

    /// Where one item after the other fails a group: finds all that will, so that not each costs a transaction.
    async fn without_doomed(
        &self,
        access: Access,
        items: Vec<Item>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<Item>, ZkFault> {
        self.without(doomed, access, items, outcomes).await
    }

    /// Reads the items' nodes, and sets those aside whose outcome they show.
    async fn without(
        &self,
        outcome: fn(&Operation, &Node) -> Option<ZkOutcome>,
        access: Access,
        items: Vec<Item>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<Item>, ZkFault> {
        let path = |item: &Item| item.operation.path().to_owned();
        let paths: Vec<String> = items.iter().map(path).collect();
        let nodes = self.nodes(access, &paths, OPERATIONS_A_GROUP).await?;
        let mut remaining = Vec::new();
        for (item, node) in items.into_iter().zip(&nodes) {
            match outcome(&item.operation, node) {
                Some(outcome) => outcomes.push((item.index, outcome)),
                None => remaining.push(item),
            }
        }
        Ok(remaining)
    }

    /// Before states are created: lists the partitions that topics have nodes for, creates missing `…/partitions`, and
    /// notes which items must create `…/partitions/P` along with the state.
    async fn find_missing_parents(
        &self,
        access: Access,
        term: &Term,
        writes: &[ZkWrite],
        items: &mut [Item],
    ) -> Result<(), ZkFault> {
        let creates = |write: &ZkWrite| match write {
            ZkWrite::CreateState { partition, .. } => Some(partition.clone()),
            _ => None,
        };
        let topics: BTreeSet<TopicName> = writes
            .iter()
            .filter_map(|write| creates(write).map(|partition| partition.topic))
            .collect();
        if topics.is_empty() {
            return Ok(());
        }
        let topics: Vec<TopicName> = topics.into_iter().collect();
        let parents: Vec<String> = topics.iter().map(paths::partitions).collect();
        let children = self.children_of(access, &parents).await?;
        let missing = parents.iter().zip(&children).enumerate();
        let missing = missing.filter(|(_, (_, children))| children.is_none());
        let create = missing
            .map(|(index, (path, _))| Item::new(index, Operation::CreateParent(path.clone())));
        // Whether it worked is seen by the states: a topic that is gone has no place for them.
        self.write_groups(access, term, create.collect()).await?;
        let present: BTreeMap<TopicName, BTreeSet<String>> = topics
            .into_iter()
            .zip(children)
            .map(|(topic, children)| (topic, children.into_iter().flatten().collect()))
            .collect();
        for item in items {
            let Some(partition) = creates(&writes[item.index]) else {
                continue;
            };
            let names = present.get(&partition.topic);
            if !names.is_some_and(|names| names.contains(&partition.partition.to_string())) {
                item.parent = Some(Operation::CreateParent(paths::partition(&partition)));
            }
        }
        Ok(())
    }

    /// The children of many nodes; `None`: there is no such node, or it can't be listed.
    pub(super) async fn children_of(
        &self,
        access: Access,
        parents: &[String],
    ) -> Result<Vec<Option<Vec<String>>>, ZkFault> {
        if !self.reads_in_groups() {
            let list = async |parent: &String| match self.list(parent, None).await {
                Err(ZkFault::Refused { .. }) => Ok(None),
                other => other,
            };
            let lists = stream::iter(parents).map(list);
            return lists.buffered(OPERATIONS_A_GROUP).try_collect().await;
        }
        let group = async |parents: &[String]| {
            let mut access = access;
            let read = self.until_answered(&mut access, async |wire| {
                let mut reader = wire.client.new_multi_reader();
                let ask = |parent: &String| reader.add_get_children(parent).is_ok();
                let asked: Vec<bool> = parents.iter().map(ask).collect();
                let mut answers = reader.commit().await?.into_iter();
                let answer = |asked: bool| {
                    if asked {
                        children(answers.next()?)
                    } else {
                        None
                    }
                };
                Ok(asked.into_iter().map(answer).collect::<Vec<_>>())
            });
            let first = parents.first().map_or(paths::TOPICS, String::as_str);
            read.await?.map_err(|error| refused(first, error))
        };
        // A topic may have thousands of partitions: small groups keep the answers small.
        let groups = stream::iter(parents.chunks(50)).map(group);
        let lists: Vec<Vec<_>> = groups.buffered(GROUPS_IN_FLIGHT).try_collect().await?;
        Ok(lists.into_iter().flatten().collect())
    }
}

fn children(answer: MultiReadResult) -> Option<Vec<String>> {
    match answer {
        MultiReadResult::Children { children } => Some(children),
        _ => None,
    }
}

/// What a write comes down to.
enum Asked {
    One(Operation),
    /// The first goes along with the second, where it can.
    Two(Operation, Operation),
    Removal(Removal),
}

fn asked(write: &ZkWrite) -> Asked {
    Asked::One(match write {
        ZkWrite::DeleteTopic(topic) => {
            return Asked::Removal(Removal {
                topic: topic.clone(),
                extent: Extent::Everything,
            });
        }
        ZkWrite::DeleteTopicRemains(topic) => {
            return Asked::Removal(Removal {
                topic: topic.clone(),
                extent: Extent::Remains,
            });
        }
        ZkWrite::CreateTopic {
            topic,
            topic_id,
            replicas,
            config,
        } => {
            return Asked::Two(
                Operation::Create(
                    paths::topic_config(topic),
                    znode::encode_topic_config(config),
                ),
                Operation::Create(
                    paths::topic(topic),
                    znode::encode_new_topic(*topic_id, replicas),
                ),
            );
        }
        ZkWrite::CreateTopicDeletion(topic) => {
            Operation::Create(paths::topic_deletion(topic), Vec::new())
        }
        ZkWrite::ExpireDelegationToken { token, read } => {
            let notice = znode::encode_token_change(token);
            return Asked::Two(
                Operation::CreateNumbered(paths::TOKEN_CHANGE.to_owned(), notice),
                Operation::DeleteRead(paths::delegation_token(token), read.version, read.czxid),
            );
        }
        ZkWrite::WriteUserConfig {
            user,
            config,
            expected,
        } => {
            let entity = ConfigEntity::User(user.clone());
            let path = paths::entity_config(&entity);
            let data = znode::encode_topic_config(&config.0);
            let notice = znode::encode_config_change(&entity.path());
            return Asked::Two(
                Operation::CreateNumbered(paths::CONFIG_CHANGE.to_owned(), notice),
                match expected {
                    Some(version) => Operation::Set(path, data, *version),
                    None => Operation::Create(path, data),
                },
            );
        }
        ZkWrite::DeleteTopicDeletion(topic) => Operation::Delete(paths::topic_deletion(topic)),
        ZkWrite::CreateState {
            partition,
            leader_and_isr,
            controller_epoch,
        } => Operation::Create(
            paths::state(partition),
            znode::encode_state(leader_and_isr, *controller_epoch),
        ),
        ZkWrite::SetState {
            partition,
            leader_and_isr,
            controller_epoch,
            expected,
        } => Operation::Set(
            paths::state(partition),
            znode::encode_state(leader_and_isr, *controller_epoch),
            expected.0,
        ),
        ZkWrite::SetTopic { topic, znode } => Operation::Set(
            paths::topic(topic),
            znode::encode_topic(znode),
            znode.version,
        ),
        ZkWrite::DeleteIsrChangeNotification(name) => Operation::Delete(paths::isr_change(name)),
        ZkWrite::DeleteLogDirEventNotification(name) => {
            Operation::Delete(paths::log_dir_event(name))
        }
        ZkWrite::DeletePreferredReplicaElection => {
            Operation::Delete(paths::PREFERRED_REPLICA_ELECTION.to_owned())
        }
        ZkWrite::SetPartitionReassignment { targets, expected } => Operation::Set(
            paths::REASSIGN_PARTITIONS.to_owned(),
            znode::encode_reassignment(targets),
            *expected,
        ),
        ZkWrite::DeletePartitionReassignment { expected, czxid } => {
            Operation::DeleteRead(paths::REASSIGN_PARTITIONS.to_owned(), *expected, *czxid)
        }
        ZkWrite::CreateFeature(znode) => {
            Operation::Create(paths::FEATURE.to_owned(), znode::encode_feature(znode))
        }
        ZkWrite::SetFeature { znode, expected } => Operation::Set(
            paths::FEATURE.to_owned(),
            znode::encode_feature(znode),
            *expected,
        ),
        ZkWrite::SetProducerIdBlock { block, expected } => Operation::Set(
            paths::PRODUCER_ID_BLOCK.to_owned(),
            znode::encode_producer_id_block(block),
            *expected,
        ),
    })
}

fn too_large(operation: &Operation) -> Option<ZkOutcome> {
    let bytes = operation.bytes();
    (bytes > MAX_NODE_BYTES).then(|| {
        ZkOutcome::Refused(format!(
            "{}: its {bytes} bytes are more than ZooKeeper takes in one request (1 MiB, jute.maxbuffer)",
            operation.path()
        ))
    })
}

/// Writes of one path in their order: the first of each, then the second of each, and so on.
fn waves(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut waves: Vec<Vec<Item>> = Vec::new();
    for item in items {
        let wave = seen.entry(item.operation.path().to_owned()).or_insert(0);
        if waves.len() == *wave {
            waves.push(Vec::new());
        }
        waves[*wave].push(item);
        *wave += 1;
    }
    waves
}

/// Neighbours together, as many as one request holds.
fn groups(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut groups: Vec<Vec<Item>> = Vec::new();
    let (mut bytes, mut operations) = (0, 0);
    for item in items {
        bytes += item.bytes();
        operations += item.operations();
        let fits = bytes <= BYTES_A_GROUP && operations <= OPERATIONS_A_GROUP;
        match groups.last_mut() {
            Some(group) if fits => group.push(item),
            _ => {
                (bytes, operations) = (item.bytes(), item.operations());
                groups.push(vec![item]);
            }
        }
    }
    groups
}

/// How many of `items` to send: all, unless large requests were lost more than once; then ever fewer.
fn a_part_if_suspect(items: &[Item], losses: u32) -> usize {
    let bytes: usize = items.iter().map(Item::bytes).sum();
    match losses {
        0 | 1 => items.len(),
        _ if bytes < SUSPECT_BYTES => items.len(),
        more => (items.len() >> (more - 1).min(16)).max(1),
    }
}

fn is_given_up(item: &Item, losses: u32) -> bool {
    item.bytes() >= SUSPECT_BYTES && losses >= MAX_SUSPECT_LOSSES
}

fn given_up(item: &Item, error: &Error) -> ZkOutcome {
    ZkOutcome::Refused(format!(
        "{}: the connection was lost each time it was written ({error}); it may be larger than ZooKeeper's jute.maxbuffer",
        item.operation.path()
    ))
}

/// Why a transaction was not performed, or may not have been.
enum Failure {
    /// The epoch's version is another one.
    Fenced,
    /// The epoch could not be checked.
    Check(Error),
    /// This item can't be written.
    Operation {
        position: usize,
        part: Part,
        error: Error,
    },
    /// The request as a whole failed.
    Request(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Request(error)
    }
}

/// Sends one transaction; returns the version of each item's node.
async fn commit(wire: &Wire, term: &Term, items: &[Item]) -> Result<Vec<i32>, Failure> {
    let fence = Some(term.epoch_zk_version);
    let mut writer = wire
        .client
        .new_check_writer(paths::CONTROLLER_EPOCH, fence)?;
    let create = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let numbered = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let mut owners = Vec::with_capacity(items.len() * 2);
    for (position, item) in items.iter().enumerate() {
        for (part, operation) in item.parts() {
            let added = match operation {
                Operation::CreateParent(path) => writer.add_create(path, &[], &create),
                Operation::Create(path, data) => writer.add_create(path, data, &create),
                Operation::CreateNumbered(path, data) => writer.add_create(path, data, &numbered),
                Operation::Set(path, data, version) => {
                    writer.add_set_data(path, data, Some(*version))
                }
                Operation::Overwrite(path, data) => writer.add_set_data(path, data, None),
                Operation::Delete(path) => writer.add_delete(path, None),
                Operation::DeleteRead(path, version, _) => writer.add_delete(path, Some(*version)),
            };
            added.map_err(|error| Failure::Operation {
                position,
                part: Part::Itself,
                error,
            })?;
            owners.push((position, part));
        }
    }
    let results = writer.commit().await.map_err(|error| match error {
        // The node that holds the fence is gone: nobody can say whose term this is.
        CheckWriteError::CheckFailed {
            source: Error::BadVersion | Error::NoNode,
        } => Failure::Fenced,
        CheckWriteError::CheckFailed { source } => Failure::Check(source),
        CheckWriteError::OperationFailed { index, source } => match owners.get(index) {
            Some((position, part)) => Failure::Operation {
                position: *position,
                part: *part,
                error: source,
            },
            None => Failure::Request(source),
        },
        CheckWriteError::RequestFailed { source } => Failure::Request(source),
    })?;
    let mut versions = vec![0; items.len()];
    for ((position, part), result) in owners.into_iter().zip(results) {
        if let (Part::Itself, MultiWriteResult::SetData { stat }) = (part, result) {
            versions[position] = stat.version;
        }
    }
    Ok(versions)
}

/// Takes the item that failed a transaction out of the group, with what became of it. A parent that exists already
/// costs nothing but the next try; one that can't be created stands for its whole topic.
fn set_aside(
    items: &mut Vec<Item>,
    position: usize,
    part: Part,
    error: &Error,
    outcomes: &mut Outcomes,
) {
    if let Part::Along(place) = part
        && adapt(&mut items[position].along, place, error)
    {
        return;
    }
    let outcome = |path: &str| match error {
        Error::BadVersion => ZkOutcome::VersionConflict,
        Error::NodeExists => ZkOutcome::AlreadyExists,
        Error::NoNode => ZkOutcome::Missing,
        other => ZkOutcome::Refused(format!("{path}: {other}")),
    };
    if part == Part::Parent && *error == Error::NodeExists {
        items[position].parent = None;
        return;
    }
    let failed = items.remove(position);
    if matches!(failed.operation, Operation::CreateParent(_)) && *error == Error::NodeExists {
        // The parent was all that was asked for.
        outcomes.push((failed.index, ZkOutcome::Written { version: 0 }));
        return;
    }
    outcomes.push((failed.index, outcome(failed.operation.path())));
    let grandparent = |item: &Item| {
        let parent = item.parent.as_ref().map(Operation::path);
        parent.and_then(|path| path.rsplit_once('/').map(|(above, _)| above.to_owned()))
    };
    let at_parent = part == Part::Parent;
    let Some(without_place) = at_parent.then(|| grandparent(&failed)).flatten() else {
        return;
    };
    items.retain(|item| {
        let shares_it = grandparent(item).as_ref() == Some(&without_place);
        if shares_it {
            outcomes.push((item.index, outcome(item.operation.path())));
        }
        !shares_it
    });
}

/// Fits what goes along to what is there. `false`: it can't be had otherwise.
fn adapt(along: &mut Vec<Operation>, place: usize, error: &Error) -> bool {
    let instead = match (&along[place], error) {
        // It is gone already, or nobody listens.
        (
            Operation::Delete(_) | Operation::DeleteRead(..) | Operation::CreateNumbered(..),
            Error::NoNode,
        ) => {
            along.remove(place);
            return true;
        }
        (Operation::Create(path, data), Error::NodeExists) => {
            Operation::Overwrite(path.clone(), data.clone())
        }
        (Operation::Overwrite(path, data), Error::NoNode) => {
            Operation::Create(path.clone(), data.clone())
        }
        _ => return false,
    };
    along[place] = instead;
    true
}

/// What a write will end in, as far as its node shows before it is sent.
fn doomed(operation: &Operation, node: &Node) -> Option<ZkOutcome> {
    match (operation, node) {
        (Operation::Create(..), Node::Found(..)) => Some(ZkOutcome::AlreadyExists),
        (Operation::Set(..) | Operation::Delete(_) | Operation::DeleteRead(..), Node::Missing) => {
            Some(ZkOutcome::Missing)
        }
        (
            Operation::Set(_, _, expected) | Operation::DeleteRead(_, expected, _),
            Node::Found(_, stat),
        ) => (stat.version != *expected).then_some(ZkOutcome::VersionConflict),
        _ => None,
    }
}

/// What a write whose answer was lost has ended in; `None`: it was not performed. Nobody else writes the very bytes that
/// we write under our epoch.
fn performed(operation: &Operation, node: &Node) -> Option<ZkOutcome> {
    let written = |version| Some(ZkOutcome::Written { version });
    match (operation, node) {
        (Operation::CreateParent(_), Node::Found(..))
        | (Operation::Delete(_) | Operation::DeleteRead(..), Node::Missing) => written(0),
        // Gone, and made anew by somebody: that one is not ours to delete.
        (Operation::DeleteRead(_, _, made_by), Node::Found(_, stat)) if stat.czxid != *made_by => {
            written(0)
        }
        (Operation::Create(_, data), Node::Found(found, stat)) if data == found => {
            written(stat.version)
        }
        (Operation::Set(_, data, expected), Node::Found(found, stat))
            if data == found && stat.version == expected.wrapping_add(1) =>
        {
            written(stat.version)
        }
        (Operation::Delete(_), _) => None,
        (other, node) => doomed(other, node),
    }
}

#[cfg(test)]
mod tests;
