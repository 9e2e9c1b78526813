//! The rig's own small Kafka client: asks a broker which versions it speaks and what it tells clients about the cluster.
//!
//! It talks to genuine brokers and to klamm alike, on the crate's plain encoders and not on klamm's codec: what is
//! under test must not be what tests it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use crate::zk::TopicPartition;

const TIMEOUT: Duration = Duration::from_secs(3);
/// Spoken by every broker from 1.0 to 3.9.
const API_VERSIONS_VERSION: i16 = 0;
const METADATA_VERSION: i16 = 5;
/// Far above what any cluster of the rig answers.
const ANSWER_MAX: usize = 64 << 20;

/// What one node tells clients about the cluster.
#[derive(Debug, Clone)]
pub struct ClientView {
    pub controller: i32,
    pub nodes: BTreeSet<i32>,
    /// The leader of each partition, -1 for none.
    pub leaders: BTreeMap<TopicPartition, i32>,
    pub isr: BTreeMap<TopicPartition, BTreeSet<i32>>,
    /// Of each partition, in their order.
    pub replicas: BTreeMap<TopicPartition, Vec<i32>>,
    /// Of each partition, those that are not served.
    pub offline: BTreeMap<TopicPartition, BTreeSet<i32>>,
}

impl ClientView {
    pub fn leaderless(&self) -> Vec<&TopicPartition> {
        self.leaders
            .iter()
            .filter(|(_, leader)| **leader < 0)
            .map(|(partition, _)| partition)
            .collect()
    }
}

/// A connection to one node.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    correlation_id: i32,
}

impl Connection {
    /// Connects to `host:port`, an IP address.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_within(address, TIMEOUT)
    }

    /// [`Connection::open`] by somebody who waits so long for it, and for each answer.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn open_within(address: &str, timeout: Duration) -> Result<Self> {
        let socket: SocketAddr = address
            .parse()
            .with_context(|| format!("{address} is not ip:port"))?;
        let stream = TcpStream::connect_timeout(&socket, timeout)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            correlation_id: 0,
        })
    }

    /// The range of versions that the node speaks, by API key.
    ///
    /// # Errors
    /// When it does not answer, or with an error.
    pub fn api_versions(&mut self) -> Result<BTreeMap<i16, (i16, i16)>> {
        let answer = self.call(&ApiVersionsRequest::default(), API_VERSIONS_VERSION)?;
        ensure!(
            answer.error_code == 0,
            "ApiVersions was answered with error {}",
            answer.error_code
        );
        Ok(answer
            .api_keys
            .iter()
            .map(|key| (key.api_key, (key.min_version, key.max_version)))
            .collect())
    }

    /// All topics as the node shows them to clients; creates none.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn view(&mut self) -> Result<ClientView> {
        let request = MetadataRequest::default()
            .with_topics(None)
            .with_allow_auto_topic_creation(false);
        Ok(view_of(&self.call(&request, METADATA_VERSION)?))
    }

    /// Sends `request` and waits for its answer.
    ///
    /// # Errors
    /// When the connection breaks, the answer is late, or it cannot be decoded.
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("klamm-rig")));
        let mut frame = BytesMut::new();
        frame.extend_from_slice(&[0; 4]);
        header.encode(&mut frame, R::header_version(version))?;
        request.encode(&mut frame, version)?;
        let length = i32::try_from(frame.len() - 4).context("the request is too long")?;
        if let Some(prefix) = frame.get_mut(..4) {
            prefix.copy_from_slice(&length.to_be_bytes());
        }
        self.stream.write_all(&frame)?;
        let mut answer = self.read_frame()?;
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))?;
        ensure!(
            header.correlation_id == self.correlation_id,
            "an answer to request {} came where one to {} was due",
            header.correlation_id,
            self.correlation_id
        );
        R::Response::decode(&mut answer, version)
    }

    fn read_frame(&mut self) -> Result<Bytes> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let length =
            usize::try_from(i32::from_be_bytes(prefix)).context("a negative frame length")?;
        ensure!(length <= ANSWER_MAX, "an answer of {length} bytes");
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        let frame = Bytes::from(frame);
        ensure!(frame.remaining() >= 4, "an answer without a correlation id");
        Ok(frame)
    }
}

/// What the node at `address` tells clients.
///
/// # Errors
/// As [`Connection::open`] and [`Connection::view`].
pub fn view(address: &str) -> Result<ClientView> {
    Connection::open(address)?
        .view()
        .with_context(|| format!("{address} does not answer Metadata"))
}

fn view_of(answer: &MetadataResponse) -> ClientView {
    let mut leaders = BTreeMap::new();
    let mut isr = BTreeMap::new();
    let mut replicas = BTreeMap::new();
    let mut offline = BTreeMap::new();
    for topic in &answer.topics {
        let Some(name) = &topic.name else { continue };
        for partition in &topic.partitions {
            let key = TopicPartition::new(name, partition.partition_index);
            leaders.insert(key.clone(), partition.leader_id.0);
            isr.insert(
                key.clone(),
                partition.isr_nodes.iter().map(|id| id.0).collect(),
            );
            replicas.insert(
                key.clone(),
                partition.replica_nodes.iter().map(|id| id.0).collect(),
            );
            offline.insert(
                key,
                partition.offline_replicas.iter().map(|id| id.0).collect(),
            );
        }
    }
    ClientView {
        controller: answer.controller_id.0,
        nodes: answer
            .brokers
            .iter()
            .map(|broker| broker.node_id.0)
            .collect(),
        leaders,
        isr,
        replicas,
        offline,
    }
}
