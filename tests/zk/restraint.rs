//! Restraint under bad input on genuine servers: the product's own controller over `klamm::zk`, with brokers that only
//! answer the survey. Must never decide what is right: the rows and their outcomes are those of the simulated procedures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use klamm::controller::{ControllerSettings, KafkaController};
use klamm::effect::{Answer, ControlRequests, Incarnation, ReplyTo};
use klamm::event::{ControllerEvent, EventSink, Sweep};
use klamm::machine::candidacy::TakeoverPolicy;
use klamm::machine::mutation_quota::QuotaWindow;
use klamm::machine::topic_creation::TopicDefaults;
use klamm::model::topic_config::BrokerProperties;
use klamm::model::{BrokerEpoch, BrokerId, BrokerRegistration, SharedSettings, TopicId};
use klamm::port::{BrokerSurvey, Brokers, Clock, Ports, Replies, SurveyOutcome};
use klamm::state::ControllerSnapshot;
use klamm::zk::{ZkClient, znode};

use crate::harness::*;
use crate::restraint_table::{Outcome, Row, When, rows};

/// Brokers that run, and of which nothing else is known.
struct Answering(Arc<Events>);

impl Brokers for Answering {
    fn add_broker(&mut self, registration: &BrokerRegistration) {
        self.survey(std::slice::from_ref(registration));
    }

    fn remove_broker(&mut self, _id: BrokerId) {}

    fn move_broker(&mut self, _registration: &BrokerRegistration) {}

    fn send(&mut self, _requests: ControlRequests) {}

    fn survey(&mut self, registrations: &[BrokerRegistration]) {
        for registration in registrations {
            let incarnation = Incarnation {
                broker: registration.broker.id,
                epoch: registration.epoch,
            };
            let outcome = SurveyOutcome::Answered {
                protocol: "3.9".parse().ok(),
                authorizer: None,
                shared: SharedSettings::new(),
            };
            self.0.put(ControllerEvent::BrokerSurveyed(BrokerSurvey {
                incarnation,
                outcome,
            }));
        }
    }

    fn shut_down(&mut self) {}
}

/// Nobody waits for an answer.
struct Nobody;

impl Replies for Nobody {
    fn answer(&mut self, _to: ReplyTo, _answer: Answer) {}

    fn publish(&mut self, _snapshot: ControllerSnapshot) {}
}

/// The system's clock, which the test can put forward.
#[derive(Clone)]
struct Time {
    began: Instant,
    ahead_ms: Arc<AtomicU64>,
}

impl Time {
    fn begin() -> Time {
        Time {
            began: Instant::now(),
            ahead_ms: Arc::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        let passed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        passed_ms + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn put_forward(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

/// Timers ring when the test takes the next event.
struct Timers {
    time: Time,
    events: Arc<Events>,
    waiting: Arc<Mutex<Vec<(u64, ControllerEvent)>>>,
    ids: u8,
}

impl Clock for Timers {
    fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn unix_time_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn schedule(&mut self, delay_ms: u64, event: ControllerEvent) {
        match delay_ms {
            0 => self.events.put(event),
            _ => {
                let due_ms = self.now_ms() + delay_ms;
                self.waiting.lock().unwrap().push((due_ms, event));
            }
        }
    }

    fn topic_id(&mut self) -> TopicId {
        self.ids = self.ids.wrapping_add(1);
        TopicId::new([self.ids.max(1); 16]).unwrap()
    }

    fn random(&mut self) -> u32 {
        self.ids = self.ids.wrapping_add(1);
        u32::from(self.ids)
    }
}

/// The controller, and what was put into its queue.
struct Node {
    controller: KafkaController<ZkClient, Answering, Nobody, Timers>,
    events: Arc<Events>,
    taken: usize,
    time: Time,
    waiting: Arc<Mutex<Vec<(u64, ControllerEvent)>>>,
}

impl Node {
    fn over(cluster: &Fixture) -> Node {
        let time = Time::begin();
        let waiting = Arc::default();
        let ports = Ports {
            zk: cluster.zk.clone(),
            brokers: Answering(Arc::clone(&cluster.events)),
            replies: Nobody,
            clock: Timers {
                time: time.clone(),
                events: Arc::clone(&cluster.events),
                waiting: Arc::clone(&waiting),
                ids: 0,
            },
        };
        let settings = ControllerSettings {
            own_id: KLAMM,
            listeners: klamm(KLAMM).endpoints,
            takeover: TakeoverPolicy::Always,
            takeover_delay_ms: 0,
            protocol: None,
            unclean_leader_election_enable: false,
            delete_topic_enable: true,
            shared: SharedSettings::new(),
            topic_defaults: TopicDefaults {
                num_partitions: 1,
                replication_factor: 1,
                broker: BrokerProperties::default(),
            },
            quota_window: QuotaWindow::default(),
            anti_entropy_period_ms: 3_600_000,
            token_expiry_check_interval_ms: Some(1),
            leader_balance: None,
        };
        Node {
            controller: KafkaController::new(settings, ports),
            events: Arc::clone(&cluster.events),
            taken: 0,
            time,
            waiting,
        }
    }

    /// Processes what waits now.
    async fn work(&mut self) {
        let now_ms = self.time.now_ms();
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        for (due_ms, event) in waiting {
            match due_ms <= now_ms {
                true => self.events.put(event),
                false => self.waiting.lock().unwrap().push((due_ms, event)),
            }
        }
        loop {
            let waiting = self.events.seen_since(self.taken);
            if waiting.is_empty() {
                return;
            }
            for event in waiting {
                self.taken += 1;
                let stop = self.controller.process(event).await;
                assert_eq!(stop, None);
            }
        }
    }

    /// Works until it is so.
    async fn until(&mut self, what: &str, mut probe: impl AsyncFnMut() -> bool) {
        until(what, async || {
            self.work().await;
            probe().await
        })
        .await;
    }

    fn is_active(&self) -> bool {
        self.controller.context().term().is_some()
    }
}

/// What was logged as a warning or an error.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Heard {
    fn names(&self, path: &str) -> bool {
        String::from_utf8_lossy(&self.0.lock().unwrap()).contains(path)
    }
}

/// Brokers 1 and 2, and dark-0 [3,1], whose election asks for configurations.
async fn register(cluster: &Fixture) {
    let others = &cluster.others;
    for id in [1, 2] {
        let registration = znode::encode_broker(&klamm(BrokerId(id)), 5, 0);
        let path = format!("/brokers/ids/{id}");
        others
            .create(&path, &registration, &PERSISTENT)
            .await
            .unwrap();
    }
    write(cluster, "/latest_producer_id_block", b"").await;
    write(
        cluster,
        "/brokers/topics/dark",
        br#"{"version":1,"partitions":{"0":[3,1]}}"#,
    )
    .await;
    let led_by_3 = br#"{"controller_epoch":0,"leader":3,"version":1,"leader_epoch":0,"isr":[3]}"#;
    write(cluster, "/brokers/topics/dark/partitions/0/state", led_by_3).await;
}

/// Writes a node, and the parents that it lacks.
async fn write(cluster: &Fixture, path: &str, content: &[u8]) {
    let others = &cluster.others;
    let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
    for parent in parents.filter(|parent| !parent.is_empty()) {
        if others.check_stat(parent).await.unwrap().is_none() {
            others.create(parent, &[], &PERSISTENT).await.unwrap();
        }
    }
    match others.check_stat(path).await.unwrap() {
        Some(_) => _ = others.set_data(path, content, None).await.unwrap(),
        None => _ = others.create(path, content, &PERSISTENT).await.unwrap(),
    }
}

/// What makes the controller look at every node.
async fn look(cluster: &Fixture) {
    let notice = "/config/changes/config_change_".to_owned();
    let numbered = zookeeper_client::CreateMode::PersistentSequential
        .with_acls(zookeeper_client::Acls::anyone_all());
    let others = &cluster.others;
    for entity in ["topics/dark", "brokers/<default>"] {
        let text = znode::encode_config_change(entity);
        others.create(&notice, &text, &numbered).await.unwrap();
    }
    // A broker that comes is held against the finalized features.
    let (registration, _) = others.get_data("/brokers/ids/2").await.unwrap();
    others.delete("/brokers/ids/2", None).await.unwrap();
    others
        .create("/brokers/ids/2", &registration, &PERSISTENT)
        .await
        .unwrap();
    let stat = others.check_stat("/brokers/ids/1").await.unwrap().unwrap();
    let from = Incarnation {
        broker: BrokerId(1),
        epoch: BrokerEpoch(stat.czxid),
    };
    let events = &cluster.events;
    events.put(ControllerEvent::AllocateProducerIds {
        from,
        reply_to: ReplyTo(0),
    });
    events.put(ControllerEvent::RereadStates);
    events.put(ControllerEvent::BrokerChange);
    events.put(ControllerEvent::UpdateFeatures {
        updates: Vec::new(),
        reply_to: ReplyTo(0),
    });
    events.put(ControllerEvent::AntiEntropy(Sweep::Begin));
}

async fn is_led(cluster: &Fixture, topic: &str) -> bool {
    let path = format!("/brokers/topics/{topic}/partitions/0/state");
    match cluster.others.get_data(&path).await {
        Ok((data, _)) => {
            let text = String::from_utf8(data).unwrap();
            assert!(text.contains(r#""leader":1"#), "{topic}: {text}");
            true
        }
        Err(_) => false,
    }
}

async fn epoch(cluster: &Fixture) -> String {
    let (data, _) = cluster.others.get_data("/controller_epoch").await.unwrap();
    String::from_utf8(data).unwrap()
}

/// One row: a healthy topic is led beside it, in the same term, and the row has its outcome.
async fn holds(cluster: &Fixture, node: &mut Node, heard: &Heard, row: &Row) {
    let about = format!("{} ({})", row.path, row.what);
    write(cluster, &row.path, &row.content).await;
    leads_beside(cluster, node, &format!("healthy-{}", row.number), &about).await;
    node.until(&format!("the outcome of {about}"), async || {
        let is_there = cluster
            .others
            .check_stat(&row.path)
            .await
            .unwrap()
            .is_some();
        match row.outcome {
            Outcome::Named => heard.names(&row.path) && is_there,
            Outcome::Removed => heard.names(&row.path) && !is_there,
            Outcome::Served => !is_there,
            Outcome::Taken => is_there,
        }
    })
    .await;
    assert!(node.is_active(), "{about}");
    assert_eq!(epoch(cluster).await, "1", "{about}");
}

/// A topic that is created now is led, in the first term.
async fn leads_beside(cluster: &Fixture, node: &mut Node, topic: &str, about: &str) {
    look(cluster).await;
    let path = format!("/brokers/topics/{topic}");
    write(cluster, &path, br#"{"version":1,"partitions":{"0":[1,2]}}"#).await;
    node.until(&format!("a healthy topic beside {about}"), async || {
        is_led(cluster, topic).await
    })
    .await;
    assert!(node.is_active(), "{about}");
    assert_eq!(epoch(cluster).await, "1", "{about}");
}

async fn every_row_holds(server: &'static str) {
    let heard = Heard::default();
    let into = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || into.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let cluster = Fixture::at(server).await;
    register(&cluster).await;
    let mut node = Node::over(&cluster);
    cluster.events.put(ControllerEvent::Startup);
    let began = Instant::now();
    while !node.is_active() {
        assert!(began.elapsed() < Duration::from_secs(20), "never elected");
        node.work().await;
        tokio::task::yield_now().await;
    }
    let mut all = rows();
    all.retain(|row| row.node.when == When::Always);
    for row in &all {
        holds(&cluster, &mut node, &heard, row).await;
    }
    for row in &all {
        write(&cluster, &row.path, &row.content).await;
    }
    leads_beside(&cluster, &mut node, "healthy-together", "all rows together").await;
    node.time.put_forward(Duration::from_secs(60));
    leads_beside(&cluster, &mut node, "healthy-later", "all, a minute later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_node_costs_nothing_but_itself_and_is_named() {
    every_row_holds(modern()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_node_costs_nothing_but_itself_on_zookeeper_3_5() {
    every_row_holds(old()).await;
}
