//! The pages `/metrics`, `/healthz`, `/readyz`, `/livez` and `/checkz`.
//!
//! They only read: nothing that a client sends here changes anything. No authentication, so the address is the
//! operator's choice (`klamm.http.listen`). Upstream counterpart: none; brokers have JMX.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::exposition;
use super::health::{self, Health, HealthSnapshot, Readiness};
use super::metrics::Metrics;
use crate::config::HostPort;
use crate::effect::{Answer, Compared};

/// What the pages are made of.
#[derive(Debug, Clone)]
pub struct Observed {
    pub metrics: Arc<Metrics>,
    pub health: watch::Receiver<HealthSnapshot>,
    /// Compares what the controller knows with ZooKeeper.
    pub compare: Compare,
}

/// Asks the controller for a comparison with ZooKeeper; the receiver fails where the controller ended.
#[derive(Clone)]
pub struct Compare(pub Arc<dyn Fn() -> oneshot::Receiver<Answer> + Send + Sync>);

impl fmt::Debug for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compare")
    }
}

/// Binds the address of `klamm.http.listen`.
///
/// # Errors
/// What the system says, with the address in front.
pub async fn bind(address: &HostPort) -> io::Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port))
        .await
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("klamm.http.listen={address}: {error}"),
            )
        })
}

/// How long a request at hand may hold up the end of the process.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until `stop` is cancelled; requests at hand are answered before it returns, but nobody is waited for long.
///
/// # Errors
/// Only if the listener itself breaks.
pub async fn serve(
    listener: TcpListener,
    observed: Observed,
    stop: CancellationToken,
) -> io::Result<()> {
    let server = axum::serve(listener, router(observed))
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let patience = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        served = server => served,
        () = patience => Ok(()),
    }
}

fn router(observed: Observed) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/livez", get(livez))
        .route("/checkz", get(checkz))
        .with_state(observed)
}

async fn metrics(State(observed): State<Observed>) -> Response {
    let text = observed.metrics.expose_at(Instant::now());
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}

async fn healthz(State(observed): State<Observed>) -> Response {
    let snapshot = observed.health.borrow().clone();
    match serde_json::to_string(&Health::gather(
        &snapshot,
        &observed.metrics,
        Instant::now(),
    )) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn readyz(State(observed): State<Observed>) -> Response {
    let readiness = observed.health.borrow().readiness();
    match readiness {
        Readiness::Ready => "ready\n".into_response(),
        Readiness::NotReady(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        )
            .into_response(),
    }
}

async fn livez(State(observed): State<Observed>) -> Response {
    if health::is_alive(&observed.metrics, Instant::now()) {
        "alive\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the event at hand has been running for minutes\n",
        )
            .into_response()
    }
}

/// Costs the controller a reading of the whole cluster, some tenths of a second at 100,000 partitions.
async fn checkz(State(observed): State<Observed>) -> Response {
    let not_controller = |why: &str| {
        let text = format!("not compared: {why}\n");
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    };
    let compared = match (observed.compare.0)().await {
        Ok(Answer::Compare(Ok(compared))) => compared,
        Ok(Answer::Compare(Err(_))) => return not_controller("this klamm is not the controller"),
        Ok(_) | Err(_) => return not_controller("the controller has ended"),
    };
    let Compared {
        topics,
        partitions,
        differences,
    } = compared;
    if differences.is_empty() {
        return format!("as in ZooKeeper: {topics} topics, {partitions} partitions\n")
            .into_response();
    }
    let mut text = format!("{} differences from ZooKeeper:\n", differences.len());
    for difference in differences {
        text.push_str(&difference);
        text.push('\n');
    }
    (StatusCode::CONFLICT, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;
    use crate::effect::Term;
    use crate::model::{BrokerId, ControllerEpoch, KafkaError};
    use crate::observe::health::SessionState;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(
                format!("{request} HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n").as_bytes(),
            )
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn compared(differences: &[&str]) -> Compared {
        Compared {
            topics: 2,
            partitions: 7,
            differences: differences.iter().map(ToString::to_string).collect(),
        }
    }

    #[tokio::test]
    async fn the_pages_follow_the_snapshot_and_the_server_stops_when_told() {
        let listener = bind(&HostPort {
            host: "127.0.0.1".to_owned(),
            port: 0,
        })
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, health) = watch::channel(HealthSnapshot::starting(BrokerId(900)));
        let stop = CancellationToken::new();
        let answers = [
            Answer::Compare(Ok(compared(&[]))),
            Answer::Compare(Ok(compared(&["/brokers/ids/6: gone"]))),
            Answer::Compare(Err(KafkaError::NOT_CONTROLLER)),
        ];
        let answers = Mutex::new(VecDeque::from(answers));
        let compare = Compare(Arc::new(move || {
            let (sender, receiver) = oneshot::channel();
            // Without an answer left the controller has ended.
            if let Some(answer) = answers.lock().unwrap().pop_front() {
                sender.send(answer).unwrap();
            }
            receiver
        }));
        let observed = Observed {
            metrics: Arc::default(),
            health,
            compare,
        };
        let server = tokio::spawn(serve(listener, observed, stop.clone()));

        let answer = ask(address, "GET /readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("session is connecting\n"),
            "{answer}"
        );
        sender.send_modify(|snapshot| {
            snapshot.session = SessionState::Connected;
            snapshot.controller.term = Some(Term {
                epoch: ControllerEpoch(3),
                epoch_zk_version: 2,
            });
            snapshot.controller.is_loaded = true;
        });
        let answer = ask(address, "GET /readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nready\n"),
            "{answer}"
        );
        let answer = ask(address, "GET /healthz").await;
        assert!(
            answer.contains("application/json") && answer.contains("\"controller_epoch\":3"),
            "{answer}"
        );
        let answer = ask(address, "GET /metrics").await;
        assert!(
            answer.contains("version=0.0.4")
                && answer.contains("\nkafka_controller_kafkacontroller_"),
            "{answer}"
        );
        assert!(
            ask(address, "GET /livez")
                .await
                .starts_with("HTTP/1.1 200 ")
        );
        for expected in [
            ("200", "as in ZooKeeper: 2 topics, 7 partitions\n"),
            (
                "409",
                "1 differences from ZooKeeper:\n/brokers/ids/6: gone\n",
            ),
            ("503", "not compared: this klamm is not the controller\n"),
            ("503", "not compared: the controller has ended\n"),
        ] {
            let answer = ask(address, "GET /checkz").await;
            let (status, body) = expected;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with(body),
                "{answer}"
            );
        }
        assert!(
            ask(address, "POST /metrics")
                .await
                .starts_with("HTTP/1.1 405 ")
        );
        assert!(
            ask(address, "GET /nothing")
                .await
                .starts_with("HTTP/1.1 404 ")
        );

        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_never_finishes_its_request_does_not_hold_up_the_end() {
        let listener = bind(&HostPort {
            host: "127.0.0.1".to_owned(),
            port: 0,
        })
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        let (_sender, health) = watch::channel(HealthSnapshot::starting(BrokerId(900)));
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(
            listener,
            Observed {
                metrics: Arc::default(),
                health,
                compare: Compare(Arc::new(|| oneshot::channel().1)),
            },
            stop.clone(),
        ));
        let mut stuck = TcpStream::connect(address).await.unwrap();
        stuck.write_all(b"GET /met").await.unwrap();
        assert!(
            ask(address, "GET /livez")
                .await
                .starts_with("HTTP/1.1 200 ")
        );
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), server)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let taken = bind(&HostPort {
            host: "127.0.0.1".to_owned(),
            port: 0,
        })
        .await
        .unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(&HostPort {
            host: "127.0.0.1".to_owned(),
            port,
        })
        .await
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("klamm.http.listen=127.0.0.1:{port}: ")),
            "{error}"
        );
    }
}
