//! A broker that is played by the test, over real sockets, and short ways to write requests.
//!
//! The fake answers ApiVersions as its release would, takes each order from its script, and confirms what the script says
//! nothing of. Nothing here checks anything.

mod channels;
mod retries;
mod surveys;
mod versions;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use klamm_codec::messages::api_versions_response::ApiVersion;
use klamm_codec::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest, StopReplicaResponse,
    UpdateMetadataRequest, UpdateMetadataResponse,
};
use klamm_codec::request::{Api, RequestHeader, decode_request, parse_header};
use klamm_codec::response::encode_response;
use klamm_codec::{ApiKey, FrameCodec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{ChannelConfig, ControllerChannelManager};
use crate::effect::{
    AnnouncedLeadership, ByTopic, Committed, ControlRequests, Incarnation, LeaderAndIsrPartition,
    ReplicaDisposal, StateRead, StopReplicaPartition, UpdateMetadata, UpdateMetadataPartition,
};
use crate::event::{ControllerEvent, EventSink};
use crate::model::{
    Broker, BrokerEpoch, BrokerId, BrokerIds, BrokerRegistration, ControllerEpoch, Endpoint,
    InterBrokerProtocol, LeaderAndIsr, LeaderEpoch, LeaderRecoveryState, PartitionEpoch,
    ReplicaAssignment, SecurityProtocol, TopicId, TopicName,
};
use crate::observe::Metrics;

/// What fails the test if it does not happen: far above what anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What a release lists of the control requests in ApiVersions, highest versions.
pub(super) const V1_0: Release = Release {
    leader_and_isr: 1,
    stop_replica: 0,
    update_metadata: 4,
};
pub(super) const V2_2: Release = Release {
    leader_and_isr: 2,
    stop_replica: 1,
    update_metadata: 5,
};
pub(super) const V2_4: Release = Release {
    leader_and_isr: 4,
    stop_replica: 2,
    update_metadata: 6,
};
pub(super) const V2_6: Release = Release {
    leader_and_isr: 4,
    stop_replica: 3,
    update_metadata: 6,
};
pub(super) const V2_8: Release = Release {
    leader_and_isr: 5,
    stop_replica: 3,
    update_metadata: 7,
};
pub(super) const V3_2: Release = Release {
    leader_and_isr: 6,
    stop_replica: 3,
    update_metadata: 7,
};
pub(super) const V3_9: Release = Release {
    leader_and_isr: 7,
    stop_replica: 4,
    update_metadata: 8,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    pub(super) leader_and_isr: i16,
    pub(super) stop_replica: i16,
    pub(super) update_metadata: i16,
}

impl Release {
    pub(super) fn api_versions(self) -> ApiVersionsResponse {
        let ranges = [
            (ApiKey::LEADER_AND_ISR, self.leader_and_isr),
            (ApiKey::STOP_REPLICA, self.stop_replica),
            (ApiKey::UPDATE_METADATA, self.update_metadata),
            (ApiKey::API_VERSIONS, 3),
            (ApiKey::DESCRIBE_CONFIGS, 4),
        ];
        let keys = ranges.map(|(key, max)| {
            ApiVersion::default()
                .with_api_key(key.0)
                .with_max_version(max)
        });
        ApiVersionsResponse::default().with_api_keys(keys.to_vec())
    }
}

/// What the fake does with one order.
#[derive(Debug)]
pub(super) enum Reply {
    /// Confirms it.
    Confirm,
    /// Confirms it once the test says so.
    ConfirmAfter(oneshot::Receiver<()>),
    /// Answers with this code for the request as a whole.
    Refuse(i16),
    /// Closes the connection.
    Close,
    /// Writes these bytes and closes the connection.
    Write(Vec<u8>),
    /// Looks for a moment whether more comes before the answer, notes it in the order, and confirms.
    ConfirmIfAlone,
    /// Never answers.
    Silence,
}

/// A request that the fake received.
#[derive(Debug)]
pub(super) struct Received {
    /// Which connection it came on, from 0.
    pub(super) connection: usize,
    pub(super) header: RequestHeader,
    pub(super) payload: Bytes,
    /// Whether another came before it was answered (only seen by [`Reply::ConfirmIfAlone`]).
    pub(super) crowded: bool,
}

impl Received {
    pub(super) fn key(&self) -> ApiKey {
        self.header.key
    }

    pub(super) fn version(&self) -> i16 {
        self.header.version
    }

    pub(super) fn read<A: Api>(&self) -> A {
        decode_request::<A>(&self.header, &self.payload).unwrap()
    }

    /// All but the correlation id.
    pub(super) fn content(&self) -> Vec<u8> {
        [&self.payload[..4], &self.payload[8..]].concat()
    }
}

/// How the fake answers what is no order.
#[derive(Debug, Clone)]
pub(super) struct Character {
    /// `None`: it never answers.
    pub(super) api_versions: Option<ApiVersionsResponse>,
    /// `None`: it never answers.
    pub(super) describe_configs: Option<DescribeConfigsResponse>,
}

impl From<Release> for Character {
    fn from(release: Release) -> Character {
        Character {
            api_versions: Some(release.api_versions()),
            describe_configs: Some(DescribeConfigsResponse::default()),
        }
    }
}

/// A broker played by the test.
#[derive(Debug)]
pub(super) struct FakeBroker {
    pub(super) address: SocketAddr,
    script: Arc<Mutex<VecDeque<Reply>>>,
    character: Arc<Mutex<Character>>,
    orders: mpsc::UnboundedReceiver<Received>,
    questions: mpsc::UnboundedReceiver<Received>,
    ends: mpsc::UnboundedReceiver<usize>,
    hang_up: tokio::sync::watch::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeBroker {
    pub(super) async fn start(character: impl Into<Character>) -> FakeBroker {
        FakeBroker::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), character)
    }

    pub(super) fn serve(listener: TcpListener, character: impl Into<Character>) -> FakeBroker {
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(VecDeque::new()));
        let character = Arc::new(Mutex::new(character.into()));
        let (orders_in, orders) = mpsc::unbounded_channel();
        let (questions_in, questions) = mpsc::unbounded_channel();
        let (ends_in, ends) = mpsc::unbounded_channel();
        let (hang_up, hung_up) = tokio::sync::watch::channel(());
        let stage = Stage {
            script: Arc::clone(&script),
            character: Arc::clone(&character),
            orders: orders_in,
            questions: questions_in,
            ends: ends_in,
            hung_up,
        };
        let task = tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(stage.clone().serve(stream, connection));
            }
        });
        FakeBroker {
            address,
            script,
            character,
            orders,
            questions,
            ends,
            hang_up,
            task,
        }
    }

    /// What to do with the next orders.
    pub(super) fn will(&self, replies: impl IntoIterator<Item = Reply>) {
        self.script.lock().unwrap().extend(replies);
    }

    /// The next order will be confirmed when the result is used.
    pub(super) fn will_wait(&self) -> oneshot::Sender<()> {
        let (go, gone) = oneshot::channel();
        self.will([Reply::ConfirmAfter(gone)]);
        go
    }

    pub(super) fn becomes(&self, character: impl Into<Character>) {
        *self.character.lock().unwrap() = character.into();
    }

    /// Closes every connection that waits for a request.
    pub(super) fn hang_up(&self) {
        self.hang_up.send(()).unwrap();
    }

    /// The next order.
    pub(super) async fn order(&mut self) -> Received {
        soon(self.orders.recv()).await.unwrap()
    }

    pub(super) async fn orders(&mut self, count: usize) -> Vec<Received> {
        let mut orders = Vec::new();
        for _ in 0..count {
            orders.push(self.order().await);
        }
        orders
    }

    /// Whether an order is there that was not asked for yet.
    pub(super) fn has_order(&mut self) -> bool {
        !self.orders.is_empty()
    }

    /// The next question: ApiVersions or DescribeConfigs.
    pub(super) async fn question(&mut self) -> Received {
        soon(self.questions.recv()).await.unwrap()
    }

    /// The next connection that ended.
    pub(super) async fn end(&mut self) -> usize {
        soon(self.ends.recv()).await.unwrap()
    }

    pub(super) fn endpoint(&self, listener: &str) -> Endpoint {
        Endpoint {
            listener: listener.into(),
            host: self.address.ip().to_string().into(),
            port: self.address.port().into(),
            security_protocol: SecurityProtocol::Plaintext,
        }
    }

    /// The fake as a broker registers itself.
    pub(super) fn registration(&self, id: i32, epoch: i64) -> BrokerRegistration {
        registration(id, epoch, vec![self.endpoint("INTERNAL")])
    }
}

pub(super) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future)
        .await
        .expect("nothing happened for too long")
}

#[derive(Clone)]
struct Stage {
    script: Arc<Mutex<VecDeque<Reply>>>,
    character: Arc<Mutex<Character>>,
    orders: mpsc::UnboundedSender<Received>,
    questions: mpsc::UnboundedSender<Received>,
    ends: mpsc::UnboundedSender<usize>,
    hung_up: tokio::sync::watch::Receiver<()>,
}

impl Stage {
    async fn serve(mut self, mut stream: TcpStream, connection: usize) {
        self.hung_up.mark_unchanged();
        let mut input = BytesMut::new();
        loop {
            tokio::select! {
                payload = read_payload(&mut stream, &mut input) => {
                    let Some(payload) = payload else { break };
                    let header = parse_header(&payload).unwrap();
                    let order = Received { connection, header, payload, crowded: false };
                    if !self.act(&mut stream, order).await {
                        break;
                    }
                }
                _ = self.hung_up.changed() => break,
            }
        }
        drop(stream);
        let _ = self.ends.send(connection);
    }

    /// Whether the connection goes on.
    async fn act(&self, stream: &mut TcpStream, mut order: Received) -> bool {
        let header = order.header.clone();
        if matches!(header.key, ApiKey::API_VERSIONS | ApiKey::DESCRIBE_CONFIGS) {
            let _ = self.questions.send(order);
            return self.answer_question(stream, &header).await;
        }
        let reply = self
            .script
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Reply::Confirm);
        if matches!(reply, Reply::ConfirmIfAlone) {
            let mut byte = [0];
            let more = stream.peek(&mut byte);
            order.crowded = timeout(Duration::from_millis(30), more).await.is_ok();
        }
        let _ = self.orders.send(order);
        let code = match reply {
            Reply::Confirm | Reply::ConfirmIfAlone => 0,
            Reply::Refuse(code) => code,
            Reply::ConfirmAfter(go) => {
                // The connection may be closed meanwhile: nobody waits for the answer then.
                tokio::select! {
                    _ = go => 0,
                    () = end_of(stream) => return false,
                }
            }
            Reply::Close => return false,
            Reply::Write(bytes) => {
                let _ = stream.write_all(&bytes).await;
                return false;
            }
            Reply::Silence => {
                end_of(stream).await;
                return false;
            }
        };
        stream.write_all(&confirmation(&header, code)).await.is_ok()
    }

    async fn answer_question(&self, stream: &mut TcpStream, header: &RequestHeader) -> bool {
        let Character {
            api_versions,
            describe_configs,
        } = self.character.lock().unwrap().clone();
        let bytes = match header.key {
            ApiKey::API_VERSIONS => {
                api_versions.map(|said| encoded::<ApiVersionsRequest>(header, &said))
            }
            _ => describe_configs.map(|said| encoded::<DescribeConfigsRequest>(header, &said)),
        };
        match bytes {
            Some(bytes) => stream.write_all(&bytes).await.is_ok(),
            None => {
                end_of(stream).await;
                false
            }
        }
    }
}

/// Until the other side closes (or says more, unasked).
async fn end_of(stream: &TcpStream) {
    let _ = stream.peek(&mut [0]).await;
}

async fn read_payload(stream: &mut TcpStream, input: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(payload) = FrameCodec::default().split(input).unwrap() {
            return Some(payload);
        }
        match stream.read_buf(input).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

pub(super) fn encoded<A: Api>(header: &RequestHeader, response: &A::Response) -> Bytes {
    encode_response::<A>(header.version, header.correlation_id, response)
        .unwrap()
        .to_bytes()
}

fn confirmation(header: &RequestHeader, code: i16) -> Bytes {
    match header.key {
        ApiKey::LEADER_AND_ISR => {
            let said = LeaderAndIsrResponse::default().with_error_code(code);
            encoded::<LeaderAndIsrRequest>(header, &said)
        }
        ApiKey::STOP_REPLICA => {
            let said = StopReplicaResponse::default().with_error_code(code);
            encoded::<StopReplicaRequest>(header, &said)
        }
        _ => {
            let said = UpdateMetadataResponse::default().with_error_code(code);
            encoded::<UpdateMetadataRequest>(header, &said)
        }
    }
}

/// A manager, and the events that come out of it.
pub(super) struct Node {
    pub(super) manager: ControllerChannelManager,
    pub(super) metrics: Arc<Metrics>,
    events: mpsc::UnboundedReceiver<ControllerEvent>,
}

struct Events(mpsc::UnboundedSender<ControllerEvent>);

impl EventSink for Events {
    fn put(&self, event: ControllerEvent) {
        let _ = self.0.send(event);
    }

    fn clear_and_put(
        &self,
        event: ControllerEvent,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.put(event);
        Box::pin(std::future::ready(()))
    }
}

pub(super) fn config() -> ChannelConfig {
    ChannelConfig::new(BrokerId(1000), "INTERNAL")
}

impl Node {
    pub(super) fn new() -> Node {
        Node::with(config())
    }

    pub(super) fn with(config: ChannelConfig) -> Node {
        let (sink, events) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::default());
        let manager = ControllerChannelManager::new(
            config,
            Handle::current(),
            Arc::new(Events(sink)),
            Arc::clone(&metrics),
        );
        Node {
            manager,
            metrics,
            events,
        }
    }

    pub(super) async fn event(&mut self) -> ControllerEvent {
        soon(self.events.recv()).await.unwrap()
    }

    /// The next event that is no survey.
    pub(super) async fn answer(&mut self) -> ControllerEvent {
        loop {
            match self.event().await {
                ControllerEvent::BrokerSurveyed(_) => {}
                other => return other,
            }
        }
    }
}

pub(super) fn incarnation(id: i32, epoch: i64) -> Incarnation {
    Incarnation {
        broker: BrokerId(id),
        epoch: BrokerEpoch(epoch),
    }
}

pub(super) fn registration(id: i32, epoch: i64, endpoints: Vec<Endpoint>) -> BrokerRegistration {
    BrokerRegistration {
        broker: Broker {
            id: BrokerId(id),
            endpoints,
            rack: None,
            features: BTreeMap::new(),
        },
        epoch: BrokerEpoch(epoch),
        json_version: 5,
    }
}

/// What ZooKeeper holds of a partition: leader, leader epoch, isr.
pub(super) fn committed(leader: i32, leader_epoch: i32, isr: &[i32]) -> Committed<LeaderAndIsr> {
    StateRead {
        leader_and_isr: LeaderAndIsr {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            isr: BrokerIds::from(isr),
            leader_recovery_state: LeaderRecoveryState::Recovered,
        },
        controller_epoch: ControllerEpoch(4),
        partition_epoch: PartitionEpoch(leader_epoch + 10),
    }
    .into()
}

pub(super) fn topic_id(of: &str) -> TopicId {
    let mut id = [0xab; 16];
    for (byte, letter) in id.iter_mut().zip(of.bytes()) {
        *byte = letter;
    }
    TopicId::new(id).unwrap()
}

pub(super) fn of_topic<T>(name: &str, partitions: Vec<T>) -> ByTopic<T> {
    ByTopic {
        topic: TopicName::new(name),
        topic_id: Some(topic_id(name)),
        partitions,
    }
}

pub(super) fn led(partition: i32, leader: i32, leader_epoch: i32) -> LeaderAndIsrPartition {
    LeaderAndIsrPartition {
        partition,
        state: committed(leader, leader_epoch, &[1, 2]),
        assignment: ReplicaAssignment::settled([1, 2, 3].into()),
        is_new: false,
    }
}

pub(super) fn announced(partition: i32, leader: i32, leader_epoch: i32) -> UpdateMetadataPartition {
    UpdateMetadataPartition {
        partition,
        leadership: AnnouncedLeadership::Committed(committed(leader, leader_epoch, &[1, 2])),
        replicas: [1, 2, 3].into(),
        offline_replicas: [3].into(),
    }
}

pub(super) fn dying(partition: i32) -> UpdateMetadataPartition {
    UpdateMetadataPartition {
        leadership: AnnouncedLeadership::DuringDelete(committed(1, 5, &[1, 2])),
        ..announced(partition, 1, 5)
    }
}

pub(super) fn stop(
    partition: i32,
    leader_epoch: i32,
    disposal: ReplicaDisposal,
) -> StopReplicaPartition {
    StopReplicaPartition {
        partition,
        leader_epoch: LeaderEpoch(leader_epoch),
        disposal,
    }
}

/// The number of every UpdateMetadata here: it must come back with the answer.
pub(super) const NUMBER: u64 = 7;

/// A batch with nothing in it, in controller epoch 7 under the newest protocol.
pub(super) fn batch() -> ControlRequests {
    let endpoint = |host: &str| Endpoint {
        listener: "INTERNAL".into(),
        host: host.into(),
        port: 9092,
        security_protocol: SecurityProtocol::Plaintext,
    };
    let live =
        [(1, "one"), (2, "two")].map(|(id, host)| registration(id, 0, vec![endpoint(host)]).broker);
    ControlRequests {
        controller_epoch: ControllerEpoch(7),
        protocol: InterBrokerProtocol::NEWEST,
        live_brokers: Arc::from(live.to_vec()),
        leader_and_isr: BTreeMap::new(),
        update_metadata: None,
        stop_replica: BTreeMap::new(),
    }
}

pub(super) fn leader_and_isr(
    to: i32,
    topics: Vec<ByTopic<LeaderAndIsrPartition>>,
) -> ControlRequests {
    ControlRequests {
        leader_and_isr: [(BrokerId(to), topics)].into(),
        ..batch()
    }
}

pub(super) fn update_metadata(
    to: &[i32],
    topics: Vec<ByTopic<UpdateMetadataPartition>>,
) -> ControlRequests {
    let to = to.iter().map(|id| BrokerId(*id)).collect();
    let update = UpdateMetadata {
        to,
        number: NUMBER,
        topics: Arc::from(topics),
    };
    ControlRequests {
        update_metadata: Some(update),
        ..batch()
    }
}

pub(super) fn stop_replica(to: i32, topics: Vec<ByTopic<StopReplicaPartition>>) -> ControlRequests {
    ControlRequests {
        stop_replica: [(BrokerId(to), topics)].into(),
        ..batch()
    }
}

/// An UpdateMetadata of one partition, told from others by its leader epoch.
pub(super) fn marked(to: &[i32], mark: i32) -> ControlRequests {
    update_metadata(to, vec![of_topic("orders", vec![announced(0, 1, mark)])])
}

/// The leader epoch that tells it.
pub(super) fn mark(order: &Received) -> i32 {
    let update: UpdateMetadataRequest = order.read();
    let grouped = update
        .topic_states
        .iter()
        .flat_map(|topic| &topic.partition_states);
    grouped
        .chain(&update.ungrouped_partition_states)
        .next()
        .unwrap()
        .leader_epoch
}
