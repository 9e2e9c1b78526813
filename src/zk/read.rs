//! Reads: single ones, watched ones, and thousands in groups.
//!
//! From ZooKeeper 3.6 on nodes are read some hundreds a request, eight requests in flight: thirty times faster than one
//! by one. The crate's buffer grows with the answer, so neither a long child list nor a large group needs a limit here;
//! groups are kept small for the server's sake. Older servers are read one by one, pipelined.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};
use zookeeper_client::{AddWatchMode, CreateMode, Error, MultiReadResult, OneshotWatcher, Stat};

use super::client::{Access, ZkClient, refused};
use super::link::Wire;
use super::paths;
use super::role::watch_existence;
use super::watches::{Armed, Target};
use super::znode;
use crate::effect::{
    ConfigChange, DelegationTokenZnode, ElectionConfig, NotificationName, PreferredElectionZnode,
    Read, ReassignmentZnode, StateRead, TokenId, TopicZnode,
};
use crate::model::{
    BrokerId, BrokerRegistration, ConfigEntity, EntityConfig, SanitizedName, TopicName,
    TopicPartition,
};
use crate::port::{Notification, ZkFault};

/// Small nodes a request: states are some 100 bytes.
const STATES_A_GROUP: usize = 500;
/// Nodes a request that may hold thousands of partitions each.
const TOPICS_A_GROUP: usize = 100;
/// Requests of a group in flight.
const GROUPS_IN_FLIGHT: usize = 8;
/// Single requests in flight.
const SINGLES_IN_FLIGHT: usize = 400;

/// A node as ZooKeeper gave it.
pub(super) enum Node {
    Found(Vec<u8>, Stat),
    Missing,
    /// Why ZooKeeper, or the crate, would not read it.
    Refused(String),
}

impl Node {
    fn from_result(result: Result<(Vec<u8>, Stat), Error>) -> Node {
        match result {
            Ok((data, stat)) => Node::Found(data, stat),
            Err(Error::NoNode) => Node::Missing,
            Err(error) => Node::Refused(error.to_string()),
        }
    }

    fn decoded<T>(&self, path: &str, decode: impl FnOnce(&[u8], &Stat) -> Read<T>) -> Read<T> {
        match self {
            Node::Found(data, stat) => decode(data, stat),
            Node::Missing => Read::Missing,
            Node::Refused(cause) => Read::Broken(format!(
                "{path}: ZooKeeper does not show it: {cause}; check its name and klamm's right to read it"
            )),
        }
    }
}

impl ZkClient {
    /// Creates persistent nodes without content where they are missing. Parents must stand before children.
    pub(super) async fn create_persistent(&self, nodes: &[&str]) -> Result<(), ZkFault> {
        let mut access = Access::default();
        for path in nodes {
            self.create_one(&mut access, path, &[]).await?;
        }
        Ok(())
    }

    /// Creates one persistent node where it is missing.
    pub(super) async fn create_one(
        &self,
        access: &mut Access,
        path: &str,
        data: &[u8],
    ) -> Result<(), ZkFault> {
        let created = self.until_answered(access, async |wire| {
            let options = CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
            wire.client.create(path, data, &options).await
        });
        match created.await? {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Reads one node; a refusal fails the access.
    pub(super) async fn node(
        &self,
        access: &mut Access,
        path: &str,
    ) -> Result<Option<(Vec<u8>, Stat)>, ZkFault> {
        let read = self.until_answered(access, async |wire| wire.client.get_data(path).await);
        match read.await? {
            Ok(node) => Ok(Some(node)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Reads one node and understands it.
    pub(super) async fn read_one<T>(
        &self,
        path: &str,
        decode: impl FnOnce(&[u8], i32) -> Read<T>,
    ) -> Result<Read<T>, ZkFault> {
        let access = &mut Access::default();
        let read = self.until_answered(access, async |wire| wire.client.get_data(path).await);
        let node = Node::from_result(read.await?);
        Ok(node.decoded(path, |data, stat| decode(data, stat.version)))
    }

    /// Lists children, arming the watch where one is wanted; `None`: there is no such node.
    pub(super) async fn list(
        &self,
        path: &str,
        watch: Option<Target>,
    ) -> Result<Option<Vec<String>>, ZkFault> {
        let access = &mut Access::default();
        let listed = self.until_answered(access, async |wire| {
            armed(self, wire, watch.as_ref(), async |arm| match arm {
                true => {
                    let (names, watcher) = wire.client.list_and_watch_children(path).await?;
                    Ok((names, Some(watcher)))
                }
                false => Ok((wire.client.list_children(path).await?, None)),
            })
            .await
        });
        match listed.await? {
            Ok(names) => Ok(Some(names)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Reads one node, arming the watch on its content.
    async fn watched_node(
        &self,
        access: &mut Access,
        path: &str,
        target: &Target,
    ) -> Result<Node, ZkFault> {
        let read = self.until_answered(access, async |wire| {
            armed(self, wire, Some(target), async |arm| match arm {
                true => {
                    let (data, stat, watcher) = wire.client.get_and_watch_data(path).await?;
                    Ok(((data, stat), Some(watcher)))
                }
                false => Ok((wire.client.get_data(path).await?, None)),
            })
            .await
        });
        Ok(Node::from_result(read.await?))
    }

    /// Reads many nodes, `group` of them a request. One outcome a path, in order.
    pub(super) async fn nodes(
        &self,
        access: Access,
        paths: &[String],
        group: usize,
    ) -> Result<Vec<Node>, ZkFault> {
        let groups: Vec<Vec<Node>> = stream::iter(paths.chunks(group))
            .map(|paths| self.group(access, paths))
            .buffered(GROUPS_IN_FLIGHT)
            .try_collect()
            .await?;
        Ok(groups.into_iter().flatten().collect())
    }

    async fn group(&self, mut access: Access, paths: &[String]) -> Result<Vec<Node>, ZkFault> {
        while self.reads_in_groups() {
            let read = self.until_answered(&mut access, async |wire| read_group(wire, paths).await);
            match read.await? {
                Ok(nodes) => return Ok(nodes),
                Err(Error::Unimplemented) => self.shared().is_older_than_thought(),
                Err(error) => {
                    let refusal = |_| Node::Refused(error.to_string());
                    return Ok(paths.iter().map(refusal).collect());
                }
            }
        }
        let single = async |path: &String| {
            let mut access = access;
            let read =
                self.until_answered(&mut access, async |wire| wire.client.get_data(path).await);
            Ok(Node::from_result(read.await?))
        };
        let reads = stream::iter(paths).map(single);
        reads.buffered(SINGLES_IN_FLIGHT).try_collect().await
    }

    /// Reads many nodes and understands each, group by group: what was read is dropped as soon as it is understood.
    async fn many<K, T>(
        &self,
        keys: &[K],
        group: usize,
        path: impl Fn(&K) -> String,
        decode: impl Fn(&K, &str, &[u8], &Stat) -> Read<T>,
    ) -> Result<Vec<Read<T>>, ZkFault> {
        let access = Access::default();
        let (path, decode) = (&path, &decode);
        let read = async |keys: &[K]| {
            let paths: Vec<String> = keys.iter().map(path).collect();
            let nodes = self.group(access, &paths).await?;
            let understood = |((key, path), node): ((&K, &String), Node)| {
                node.decoded(path, |data, stat| decode(key, path, data, stat))
            };
            let reads = keys.iter().zip(&paths).zip(nodes).map(understood);
            Ok(reads.collect())
        };
        let groups = stream::iter(keys.chunks(group)).map(read);
        let reads: Vec<Vec<Read<T>>> = groups.buffered(GROUPS_IN_FLIGHT).try_collect().await?;
        Ok(reads.into_iter().flatten().collect())
    }

    pub(super) async fn read_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Read<StateRead>>, ZkFault> {
        self.many(
            partitions,
            STATES_A_GROUP,
            paths::state,
            |_, path, data, stat| znode::decode_state(path, data, stat.version),
        )
        .await
    }

    pub(super) async fn read_topic_configs(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<ElectionConfig>>, ZkFault> {
        let configs = self.many(
            names,
            STATES_A_GROUP,
            paths::topic_config,
            |_, path, data, _| znode::decode_election_config(path, data),
        );
        let empty = |config| match config {
            Read::Missing => Read::Found(ElectionConfig::default()),
            other => other,
        };
        Ok(configs.await?.into_iter().map(empty).collect())
    }

    pub(super) async fn read_entity_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Result<Vec<Read<(EntityConfig, i32)>>, ZkFault> {
        self.many(
            entities,
            STATES_A_GROUP,
            paths::entity_config,
            |_, path, data, stat| znode::decode_entity_config(path, data, stat.version),
        )
        .await
    }

    /// A user whose name is too long for its clients to be asked for together with those of others is listed alone.
    pub(super) async fn read_quota_entities(&self) -> Result<Vec<ConfigEntity>, ZkFault> {
        let names = |listed: Option<Vec<String>>| {
            let listed = listed.unwrap_or_default().into_iter();
            listed.map(|name| SanitizedName::read(&name))
        };
        let users: Vec<SanitizedName> = names(self.list(paths::USERS, None).await?).collect();
        let clients = names(self.list(paths::CLIENTS, None).await?);
        let asked = users.iter().filter(|user| !user.is_too_long());
        let asked: Vec<&SanitizedName> = asked.collect();
        let parents: Vec<String> = asked
            .iter()
            .map(|user| paths::clients_of_user(user))
            .collect();
        let of_users = self.children_of(Access::default(), &parents).await?;
        let of_users = asked.into_iter().zip(of_users).flat_map(|(user, clients)| {
            names(clients).map(|client| ConfigEntity::UserClient(user.clone(), client))
        });
        let mut entities: Vec<ConfigEntity> = of_users.collect();
        entities.extend(clients.map(ConfigEntity::Client));
        entities.extend(users.into_iter().map(ConfigEntity::User));
        Ok(entities)
    }

    /// Topic nodes without watches.
    pub(super) async fn unwatched_topics(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
        self.many(
            names,
            TOPICS_A_GROUP,
            paths::topic,
            |_, path, data, stat| znode::decode_topic(path, data, stat.version),
        )
        .await
    }

    pub(super) async fn read_topics(
        &self,
        names: &[TopicName],
    ) -> Result<Vec<Read<TopicZnode>>, ZkFault> {
        if self.watch_topics_recursively().await? {
            return self.unwatched_topics(names).await;
        }
        let access = Access::default();
        let single = async |name: &TopicName| {
            let mut access = access;
            let path = paths::topic(name);
            let target = Target::Topic(name.clone());
            let node = self.watched_node(&mut access, &path, &target).await?;
            Ok(node.decoded(&path, |data, stat| {
                znode::decode_topic(&path, data, stat.version)
            }))
        };
        let reads = stream::iter(names).map(single);
        reads.buffered(SINGLES_IN_FLIGHT).try_collect().await
    }

    pub(super) async fn read_topic_names(&self) -> Result<Vec<TopicName>, ZkFault> {
        let watch = match self.watch_topics_recursively().await? {
            true => None,
            false => Some(Target::TopicNames),
        };
        let names = self.list(paths::TOPICS, watch).await?.unwrap_or_default();
        Ok(names.iter().map(|name| TopicName::new(name)).collect())
    }

    /// Makes sure that the recursive watch on topics stands; `false`: this ZooKeeper knows none.
    async fn watch_topics_recursively(&self) -> Result<bool, ZkFault> {
        let access = &mut Access::default();
        if !self.reads_in_groups() {
            return Ok(false);
        }
        let watches = &self.shared().watches;
        let added = self.until_answered(access, async |wire| {
            if watches.must_arm_recursive(wire.generation) {
                let mode = AddWatchMode::PersistentRecursive;
                let watcher = wire.client.watch(paths::TOPICS, mode).await?;
                wire.listen(Armed::Topics(watcher));
                watches.recursive_is_armed(wire.generation);
            }
            Ok(())
        });
        match added.await? {
            Ok(()) => Ok(true),
            Err(Error::Unimplemented) => {
                self.shared().is_older_than_thought();
                Ok(false)
            }
            Err(error) => Err(refused(paths::TOPICS, error)),
        }
    }

    pub(super) async fn read_brokers(
        &self,
    ) -> Result<Vec<(BrokerId, Read<BrokerRegistration>)>, ZkFault> {
        let children = self
            .list(paths::BROKER_IDS, Some(Target::BrokerIds))
            .await?;
        let mut ids = BTreeSet::new();
        for name in children.unwrap_or_default() {
            match paths::id_of_child(&name) {
                Some(id) => _ = ids.insert(id),
                None => tracing::warn!(
                    "{}/{name} is no broker's registration: its name is no id; delete it",
                    paths::BROKER_IDS
                ),
            }
        }
        let single = async |id: BrokerId| Ok((id, self.read_broker(id).await?));
        let reads = stream::iter(ids).map(single);
        let brokers: Vec<_> = reads.buffered(SINGLES_IN_FLIGHT).try_collect().await?;
        self.note_registrations(&brokers);
        Ok(brokers)
    }

    pub(super) async fn read_broker(
        &self,
        id: BrokerId,
    ) -> Result<Read<BrokerRegistration>, ZkFault> {
        let access = &mut Access::default();
        let path = paths::broker(id);
        let node = self
            .watched_node(access, &path, &Target::Broker(id))
            .await?;
        Ok(node.decoded(&path, |data, stat| {
            znode::decode_broker(&path, id, data, stat.czxid)
        }))
    }

    pub(super) async fn read_klamm_ids(&self) -> Result<BTreeSet<BrokerId>, ZkFault> {
        let children = self.list(paths::KLAMM_IDS, Some(Target::KlammIds)).await?;
        let names = children.unwrap_or_default();
        let ids = names.iter().filter_map(|name| paths::id_of_child(name));
        Ok(ids.collect())
    }

    pub(super) async fn read_preferred_election(
        &self,
    ) -> Result<Read<PreferredElectionZnode>, ZkFault> {
        const PATH: &str = paths::PREFERRED_REPLICA_ELECTION;
        let access = &mut Access::default();
        // It is missing most of the time: its creation is what the watch is for.
        let exists = self.until_answered(access, async |wire| {
            watch_existence(self, wire, PATH, Target::PreferredElection).await
        });
        if !exists.await?.map_err(|error| refused(PATH, error))? {
            return Ok(Read::Missing);
        }
        self.read_one(PATH, |data, _| znode::decode_preferred_election(PATH, data))
            .await
    }

    pub(super) async fn read_config_change_names(&self) -> Result<Vec<NotificationName>, ZkFault> {
        let names = self
            .list(paths::CONFIG_CHANGES, Some(Target::ConfigChanges))
            .await?;
        Ok(names
            .unwrap_or_default()
            .into_iter()
            .map(NotificationName)
            .collect())
    }

    pub(super) async fn read_config_changes(
        &self,
        names: &[NotificationName],
    ) -> Result<Vec<Read<ConfigChange>>, ZkFault> {
        self.many(
            names,
            STATES_A_GROUP,
            paths::config_change,
            |_, path, data, _| znode::decode_config_change(path, data),
        )
        .await
    }

    pub(super) async fn read_partition_reassignment(
        &self,
    ) -> Result<Read<ReassignmentZnode>, ZkFault> {
        const PATH: &str = paths::REASSIGN_PARTITIONS;
        let access = &mut Access::default();
        let exists = self.until_answered(access, async |wire| {
            watch_existence(self, wire, PATH, Target::Reassignment).await
        });
        if !exists.await?.map_err(|error| refused(PATH, error))? {
            return Ok(Read::Missing);
        }
        let read = self.until_answered(access, async |wire| wire.client.get_data(PATH).await);
        let node = Node::from_result(read.await?);
        Ok(node.decoded(PATH, |data, stat| {
            Read::Found(znode::decode_reassignment(
                PATH,
                data,
                stat.version,
                stat.czxid,
            ))
        }))
    }

    pub(super) async fn read_delegation_tokens(
        &self,
    ) -> Result<Vec<(TokenId, Read<DelegationTokenZnode>)>, ZkFault> {
        let children = self.list(paths::DELEGATION_TOKENS, None).await?;
        let mut tokens: Vec<TokenId> = children
            .unwrap_or_default()
            .into_iter()
            .map(TokenId)
            .collect();
        tokens.sort();
        let reads = self
            .many(
                &tokens,
                STATES_A_GROUP,
                paths::delegation_token,
                |_, path, data, stat| znode::decode_token(path, data, stat.version, stat.czxid),
            )
            .await?;
        Ok(tokens.into_iter().zip(reads).collect())
    }

    pub(super) async fn read_isr_changes(
        &self,
    ) -> Result<Vec<Notification<Vec<TopicPartition>>>, ZkFault> {
        self.notifications(
            paths::ISR_CHANGE_NOTIFICATION,
            Target::IsrChanges,
            paths::isr_change,
            znode::decode_isr_change,
        )
        .await
    }

    pub(super) async fn read_log_dir_events(&self) -> Result<Vec<Notification<BrokerId>>, ZkFault> {
        self.notifications(
            paths::LOG_DIR_EVENT_NOTIFICATION,
            Target::LogDirEvents,
            paths::log_dir_event,
            znode::decode_log_dir_event,
        )
        .await
    }

    async fn notifications<T>(
        &self,
        parent: &str,
        target: Target,
        path: impl Fn(&NotificationName) -> String,
        decode: impl Fn(&str, &[u8]) -> Read<T>,
    ) -> Result<Vec<Notification<T>>, ZkFault> {
        let children = self.list(parent, Some(target)).await?;
        let mut names: Vec<NotificationName> = children
            .unwrap_or_default()
            .into_iter()
            .map(NotificationName)
            .collect();
        names.sort();
        let contents = self
            .many(&names, STATES_A_GROUP, path, |_, path, data, _| {
                decode(path, data)
            })
            .await?;
        let both = names.into_iter().zip(contents);
        Ok(both
            .map(|(name, content)| Notification { name, content })
            .collect())
    }
}

/// Reads with a watch if `target` isn't armed on this connection yet; a read that failed armed nothing.
pub(super) async fn armed<T>(
    client: &ZkClient,
    wire: &Wire,
    target: Option<&Target>,
    read: impl AsyncFnOnce(bool) -> Result<(T, Option<OneshotWatcher>), Error>,
) -> Result<T, Error> {
    let watches = &client.shared().watches;
    let arming = target.filter(|target| watches.must_arm(wire.generation, target));
    match read(arming.is_some()).await {
        Ok((value, watcher)) => {
            if let (Some(target), Some(watcher)) = (arming, watcher) {
                wire.listen(Armed::OneShot(target.clone(), watcher));
            }
            Ok(value)
        }
        Err(error) => {
            if let Some(target) = arming {
                watches.disarm(wire.generation, target);
            }
            Err(error)
        }
    }
}

/// One request for many nodes. A path that the crate refuses costs only itself.
async fn read_group(wire: &Wire, paths: &[String]) -> Result<Vec<Node>, Error> {
    let mut reader = wire.client.new_multi_reader();
    let asked: Vec<Result<(), Error>> =
        paths.iter().map(|path| reader.add_get_data(path)).collect();
    let mut answers = reader.commit().await?.into_iter();
    let nodes = asked.into_iter().map(|asked| match asked {
        Err(error) => Ok(Node::Refused(error.to_string())),
        Ok(()) => match answers.next() {
            Some(MultiReadResult::Data { data, stat }) => Ok(Node::Found(data, stat)),
            Some(MultiReadResult::Error { err }) => Ok(Node::from_result(Err(err))),
            _ => Err(Error::UnexpectedError(
                "a group of reads was answered in part".to_owned(),
            )),
        },
    });
    nodes.collect()
}
