//! The listener as clients and brokers see it, over loopback sockets.

mod hostile;
mod relayed;
mod served;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use klamm_codec::messages::{ApiVersionsRequest, ApiVersionsResponse, api_versions_response};
use klamm_codec::request::{Api, encode_request, parse_header};
use klamm_codec::response::{correlation_id, decode_response, encode_response};
use klamm_codec::{ApiKey, FrameCodec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::config::Listener;
use crate::effect::Term;
use crate::event::ControllerEvent;
use crate::model::{
    Broker, BrokerEpoch, BrokerRegistration, ControllerEpoch, Endpoint, SecurityProtocol,
};

/// An address of its own for a test in which a port must stay free once it is given up.
const APART: &str = "127.71.18.3";
const KLAMM: BrokerId = BrokerId(100);

/// Fails a test that would hang.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("within 20 s")
}

/// The event queue, as the test holds it.
struct Events(mpsc::UnboundedSender<ControllerEvent>);

impl EventSink for Events {
    fn put(&self, event: ControllerEvent) {
        let _ = self.0.send(event);
    }

    fn clear_and_put(&self, _: ControllerEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        unreachable!("the listener only puts")
    }
}

#[derive(Clone, Default)]
struct Slots(Arc<Mutex<BTreeMap<ReplyTo, oneshot::Sender<Answer>>>>);

impl Slots {
    fn open(&self) -> (ReplyTo, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut slots = self.0.lock().unwrap();
        let name = ReplyTo(slots.keys().next_back().map_or(0, |last| last.0 + 1));
        slots.insert(name, sender);
        (name, receiver)
    }

    fn answer(&self, to: ReplyTo, answer: Answer) {
        let slot = self.0.lock().unwrap().remove(&to).unwrap();
        let _ = slot.send(answer);
    }

    /// The controller ends without an answer.
    fn drop_all(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// A klamm's listener with everything round it.
struct Node {
    addresses: BTreeMap<String, SocketAddr>,
    events: mpsc::UnboundedReceiver<ControllerEvent>,
    slots: Slots,
    snapshot: watch::Sender<ControllerSnapshot>,
    ranges: Arc<Mutex<BTreeMap<ApiKey, (i16, i16)>>>,
    handle: ServerHandle,
}

impl Node {
    /// The controller, with these live brokers.
    async fn leading(brokers: &[BrokerRegistration]) -> Node {
        Node::start(Limits::default(), &["CLIENTS"], snapshot(true, brokers)).await
    }

    async fn start(limits: Limits, listeners: &[&str], snapshot: ControllerSnapshot) -> Node {
        let listeners: Vec<Listener> = listeners.iter().map(|name| any_port(name)).collect();
        Node::start_on(limits, &listeners, snapshot).await
    }

    async fn start_on(
        limits: Limits,
        listeners: &[Listener],
        snapshot: ControllerSnapshot,
    ) -> Node {
        Node::start_captured(limits, listeners, snapshot, CaptureTap::default()).await
    }

    async fn start_captured(
        limits: Limits,
        listeners: &[Listener],
        snapshot: ControllerSnapshot,
        capture: CaptureTap,
    ) -> Node {
        let bound = bind(listeners).await.unwrap();
        let addresses = bound
            .addresses()
            .map(|(name, address)| (name.to_owned(), address))
            .collect();
        let (put, events) = mpsc::unbounded_channel();
        let (snapshot, latest) = watch::channel(snapshot);
        let slots = Slots::default();
        let ranges: Arc<Mutex<BTreeMap<_, _>>> = Arc::default();
        let (opening, common) = (slots.clone(), Arc::clone(&ranges));
        let handle = bound.serve(ServerContext {
            own_id: KLAMM,
            events: Arc::new(Events(put)),
            open_slot: Arc::new(move || opening.open()),
            snapshot: latest,
            common_ranges: Arc::new(move || common.lock().unwrap().clone()),
            limits,
            capture,
        });
        Node {
            addresses,
            events,
            slots,
            snapshot,
            ranges,
            handle,
        }
    }

    /// What the brokers have in common from now on.
    fn list(&self, ranges: &[(ApiKey, (i16, i16))]) {
        *self.ranges.lock().unwrap() = ranges.iter().copied().collect();
    }

    async fn connect(&self) -> Client {
        self.connect_to("CLIENTS").await
    }

    async fn connect_to(&self, listener: &str) -> Client {
        Client::connect(self.addresses[listener]).await
    }

    async fn next_event(&mut self) -> ControllerEvent {
        soon(self.events.recv()).await.unwrap()
    }
}

fn any_port(name: &str) -> Listener {
    Listener {
        name: name.to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 0,
    }
}

fn snapshot(leading: bool, brokers: &[BrokerRegistration]) -> ControllerSnapshot {
    let term = Term {
        epoch: ControllerEpoch(3),
        epoch_zk_version: 3,
    };
    ControllerSnapshot {
        term: leading.then_some(term),
        is_loaded: leading,
        brokers: Arc::from(brokers),
        ..ControllerSnapshot::default()
    }
}

fn registration(id: i32, listeners: &[(&str, SocketAddr)]) -> BrokerRegistration {
    let endpoints = listeners.iter().map(|(listener, address)| Endpoint {
        listener: Arc::from(*listener),
        host: Arc::from(address.ip().to_string()),
        port: i32::from(address.port()),
        security_protocol: SecurityProtocol::Plaintext,
    });
    let endpoints = endpoints.collect();
    let broker = Broker {
        id: BrokerId(id),
        endpoints,
        rack: None,
        features: BTreeMap::new(),
    };
    BrokerRegistration {
        broker,
        epoch: BrokerEpoch(1),
        json_version: 5,
    }
}

/// Any program that speaks Kafka's protocol.
struct Client {
    stream: TcpStream,
    input: BytesMut,
}

impl Client {
    async fn connect(address: SocketAddr) -> Client {
        let stream = soon(TcpStream::connect(address)).await.unwrap();
        Client {
            stream,
            input: BytesMut::new(),
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    async fn ask<A: Api>(&mut self, version: i16, correlation: i32, request: &A) {
        self.write(&framed(version, correlation, request)).await;
    }

    /// The next answer, or `None` where the connection was closed.
    async fn answer(&mut self) -> Option<Bytes> {
        soon(async {
            loop {
                if let Some(payload) = FrameCodec::default().split(&mut self.input).unwrap() {
                    return Some(payload);
                }
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        })
        .await
    }

    /// Asks and decodes the answer.
    async fn call<A: Api>(&mut self, version: i16, correlation: i32, request: &A) -> A::Response {
        self.ask(version, correlation, request).await;
        let payload = self
            .answer()
            .await
            .expect("an answer, not a closed connection");
        assert_eq!(correlation_id(&payload), Ok(correlation));
        decode_response::<A>(version, &payload).unwrap()
    }

    /// Asks, and sees the connection closed.
    async fn is_closed_on<A: Api>(&mut self, version: i16, request: &A) {
        self.ask(version, 9, request).await;
        assert_eq!(self.answer().await, None, "{}", A::KEY);
    }

    async fn api_versions(&mut self) -> ApiVersionsResponse {
        self.call(0, 1, &ApiVersionsRequest::default()).await
    }
}

fn framed<A: Api>(version: i16, correlation: i32, request: &A) -> Bytes {
    encode_request(version, correlation, Some("test"), request)
        .unwrap()
        .to_bytes()
}

/// The versions of each API that a broker says it understands.
type Understood = &'static [(ApiKey, (i16, i16))];

/// A broker that says what it understands and answers each other request with the correlation id and the request itself,
/// so that what went through a relay can be told byte by byte.
struct EchoBroker {
    address: SocketAddr,
    task: JoinHandle<()>,
    /// Each connection that was made to it.
    connections: mpsc::UnboundedReceiver<Paired>,
}

/// The broker's end of one connection.
struct Paired {
    task: JoinHandle<()>,
}

impl Paired {
    /// The broker closes this connection.
    fn cut(self) {
        self.task.abort();
    }

    /// Returns when the other side has closed it.
    async fn ended(self) {
        soon(self.task).await.unwrap();
    }
}

impl EchoBroker {
    async fn start() -> EchoBroker {
        EchoBroker::answering(echo).await
    }

    /// A broker that answers a request by what `answer` makes of it; an empty answer: not at all.
    async fn answering(answer: fn(&Bytes) -> Vec<u8>) -> EchoBroker {
        EchoBroker::spawn(&RELEASE, answer).await
    }

    async fn understanding(understood: Understood) -> EchoBroker {
        EchoBroker::spawn(understood, echo).await
    }

    async fn spawn(understood: Understood, answer: fn(&Bytes) -> Vec<u8>) -> EchoBroker {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (made, connections) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let task = tokio::spawn(echo_all(stream, understood, answer));
                let _ = made.send(Paired { task });
            }
        });
        EchoBroker {
            address,
            task,
            connections,
        }
    }

    fn registered(&self, id: i32) -> BrokerRegistration {
        registration(id, &[("CLIENTS", self.address)])
    }

    async fn paired(&mut self) -> Paired {
        soon(self.connections.recv()).await.unwrap()
    }
}

impl Drop for EchoBroker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an EchoBroker understands unless told otherwise: all that is relayed to it here.
const RELEASE: [(ApiKey, (i16, i16)); 9] = [
    (ApiKey::METADATA, (0, 12)),
    (ApiKey::FIND_COORDINATOR, (0, 4)),
    (ApiKey::INIT_PRODUCER_ID, (0, 4)),
    (ApiKey::DESCRIBE_ACLS, (0, 3)),
    (ApiKey::CREATE_ACLS, (0, 3)),
    (ApiKey::DELETE_ACLS, (0, 3)),
    (ApiKey::DESCRIBE_CONFIGS, (0, 4)),
    (ApiKey::ALTER_CONFIGS, (0, 2)),
    (ApiKey::DESCRIBE_CLUSTER, (0, 1)),
];

fn versions_answer(request: &Bytes, understood: Understood) -> Vec<u8> {
    let apis = understood.iter().map(|(key, (min, max))| {
        let api = api_versions_response::ApiVersion::default().with_api_key(key.0);
        api.with_min_version(*min).with_max_version(*max)
    });
    let response = ApiVersionsResponse::default().with_api_keys(apis.collect());
    let header = parse_header(request).unwrap();
    let answer = encode_response::<ApiVersionsRequest>(0, header.correlation_id, &response);
    answer.unwrap().to_bytes().to_vec()
}

async fn echo_all(mut stream: TcpStream, understood: Understood, answer: fn(&Bytes) -> Vec<u8>) {
    let mut input = BytesMut::new();
    loop {
        match FrameCodec::default().split(&mut input) {
            Ok(Some(request)) => {
                let key = parse_header(&request).unwrap().key;
                let answer = match key {
                    ApiKey::API_VERSIONS => versions_answer(&request, understood),
                    _ => answer(&request),
                };
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
            Ok(None) => match stream.read_buf(&mut input).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            Err(_) => return,
        }
    }
}

/// The whole answer, its length prefix included.
fn echo(request: &Bytes) -> Vec<u8> {
    let length = (request.len() as i32 + 4).to_be_bytes();
    [&length[..], &request[4..8], request].concat()
}

/// What [`echo`] answers to this frame, as a client takes it off the wire.
fn echoed(frame: &Bytes) -> Bytes {
    Bytes::from(echo(&frame.slice(4..))).slice(4..)
}
