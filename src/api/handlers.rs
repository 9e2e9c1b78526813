//! What becomes of each request: one table of duties, one function a duty.
//!
//! A request that waits for the controller is always answered in the end: by the controller, or, where that ended, with
//! the error that makes a broker look for the new one. Must never change anything in the cluster itself.
//! Upstream: `KafkaApis.scala`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use klamm_codec::error::Message;
use klamm_codec::refusal::{self, Refusal};
use klamm_codec::version::BrokerVersions;
use klamm_codec::{ApiKey, CodecError, Frame, RequestHeader};
use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

use super::own_configs::Configs;
use super::{ServerContext, advertise, from_controller, own_configs, wire};
use crate::effect::{Answer, ReplyTo};
use crate::event::ControllerEvent;
use crate::model::{BrokerId, KafkaError};
use crate::state::ControllerSnapshot;

/// What the connection does with a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Send this.
    Reply(Frame),
    /// Send this, and read nothing more from the client for so long.
    ReplyAndMute(Frame, Duration),
    /// List the versions that this client may use from now on.
    ListVersions,
    /// Let a genuine broker answer.
    Relay,
    /// Close the connection: the client tries again, mostly elsewhere.
    Close(Unserved),
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Unserved {
    #[error("{0} is for clients, which klamm serves only while it is the controller")]
    StandingBy(ApiKey),
    #[error("{0} is nothing that a broker in ZooKeeper mode serves")]
    Never(ApiKey),
    #[error("{0} without acknowledgement came to a node that leads nothing")]
    NoAnswerWanted(ApiKey),
    #[error("{0} names the configuration of klamm and of others in one request")]
    MixedConfigs(ApiKey),
}

/// Who has to do what about an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    /// ApiVersions.
    ListVersions,
    /// A broker asks its controller.
    AskController,
    /// A client asks its controller.
    AskForClient,
    /// A controller orders a broker.
    PutOffController,
    /// For a transaction's coordinator, or for anybody.
    InitProducerId,
    /// About klamm's own configuration, or about that of topics and of the cluster.
    Configs,
    /// Any genuine broker may answer.
    Relay,
    /// Bound to a leader or coordinator, or asked of all nodes.
    Refuse,
    /// Nobody's here.
    Never,
}

/// Whether requests of this API may go on to a genuine broker.
pub(super) fn may_be_relayed(key: ApiKey) -> bool {
    matches!(
        duty(key),
        Duty::Relay | Duty::InitProducerId | Duty::Configs
    )
}

fn duty(key: ApiKey) -> Duty {
    match key {
        ApiKey::API_VERSIONS => Duty::ListVersions,
        ApiKey::CONTROLLED_SHUTDOWN | ApiKey::ALTER_PARTITION | ApiKey::ALLOCATE_PRODUCER_IDS => {
            Duty::AskController
        }
        ApiKey::LEADER_AND_ISR | ApiKey::STOP_REPLICA | ApiKey::UPDATE_METADATA => {
            Duty::PutOffController
        }
        ApiKey::INIT_PRODUCER_ID => Duty::InitProducerId,
        ApiKey::DESCRIBE_CONFIGS | ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => {
            Duty::Configs
        }
        ApiKey::METADATA
        | ApiKey::FIND_COORDINATOR
        | ApiKey::DESCRIBE_CLUSTER
        | ApiKey::DESCRIBE_ACLS
        | ApiKey::CREATE_ACLS
        | ApiKey::DELETE_ACLS
        | ApiKey::CREATE_DELEGATION_TOKEN
        | ApiKey::RENEW_DELEGATION_TOKEN
        | ApiKey::EXPIRE_DELEGATION_TOKEN
        | ApiKey::DESCRIBE_DELEGATION_TOKEN
        | ApiKey::DESCRIBE_CLIENT_QUOTAS
        | ApiKey::ALTER_CLIENT_QUOTAS
        | ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS => Duty::Relay,
        ApiKey::CREATE_TOPICS
        | ApiKey::CREATE_PARTITIONS
        | ApiKey::DELETE_TOPICS
        | ApiKey::ELECT_LEADERS
        | ApiKey::ALTER_PARTITION_REASSIGNMENTS
        | ApiKey::LIST_PARTITION_REASSIGNMENTS
        | ApiKey::ALTER_USER_SCRAM_CREDENTIALS
        | ApiKey::UPDATE_FEATURES => Duty::AskForClient,
        key if refusal::can_refuse(key) => Duty::Refuse,
        _ => Duty::Never,
    }
}

/// Answers requests. One for all connections.
#[derive(Debug)]
pub(super) struct KafkaApis {
    context: ServerContext,
    said: Mutex<BTreeSet<String>>,
}

impl KafkaApis {
    pub(super) fn new(context: ServerContext) -> KafkaApis {
        KafkaApis {
            context,
            said: Mutex::default(),
        }
    }

    pub(super) fn own_id(&self) -> BrokerId {
        self.context.own_id
    }

    pub(super) fn snapshot(&self) -> watch::Ref<'_, ControllerSnapshot> {
        self.context.snapshot.borrow()
    }

    /// Logs at INFO what a retrying client would otherwise repeat without end.
    pub(super) fn say_once(&self, what: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&what) {
            info!("{what}");
            said.insert(what);
        }
    }

    /// The versions that a client may use, which is paired with a broker that understands `pair`, or not paired yet.
    pub(super) fn advertised(&self, pair: Option<&BrokerVersions>) -> BTreeMap<ApiKey, (i16, i16)> {
        advertise::advertised((self.context.common_ranges)(), pair)
    }

    /// Finds the answer to a request. An error closes the connection: the request is malformed.
    pub(super) async fn handle(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Outcome, CodecError> {
        let is_controller = self.snapshot().term.is_some();
        let key = header.key;
        match duty(key) {
            Duty::ListVersions => Ok(Outcome::ListVersions),
            Duty::AskController if is_controller => self
                .ask_controller(header, payload)
                .await
                .map(Outcome::Reply),
            Duty::AskController => not_controller(header).map(Outcome::Reply),
            Duty::PutOffController => put_off_controller(header, payload).map(Outcome::Reply),
            Duty::Never => Ok(Outcome::Close(Unserved::Never(key))),
            _ if !is_controller => Ok(Outcome::Close(Unserved::StandingBy(key))),
            Duty::InitProducerId if wire::is_transactional(header, payload)? => {
                refuse(header, payload)
            }
            Duty::InitProducerId | Duty::Relay => Ok(Outcome::Relay),
            Duty::Configs => Ok(match own_configs::answer(self.own_id(), header, payload)? {
                Configs::OfKlamm(frame) => Outcome::Reply(frame),
                Configs::OfOthers => Outcome::Relay,
                Configs::Mixed => Outcome::Close(Unserved::MixedConfigs(key)),
            }),
            Duty::AskForClient => self.ask_for_client(header, payload).await,
            Duty::Refuse => refuse(header, payload),
        }
    }

    /// Puts a question into the event queue and waits for the controller.
    async fn ask_controller(
        &self,
        header: &RequestHeader,
        payload: &Bytes,
    ) -> Result<Frame, CodecError> {
        match header.key {
            ApiKey::CONTROLLED_SHUTDOWN => {
                let (broker, broker_epoch) = wire::controlled_shutdown_request(header, payload)?;
                let event = |reply_to| ControllerEvent::ControlledShutdown {
                    broker,
                    broker_epoch,
                    reply_to,
                };
                match self.put_and_wait(event).await {
                    Some(Answer::ControlledShutdown(answer)) => {
                        wire::controlled_shutdown_response(header, answer)
                    }
                    other => without_answer(header, other),
                }
            }
            ApiKey::ALTER_PARTITION => {
                let asked = wire::alter_partition_request(header, payload)?;
                let request = asked.request;
                let event =
                    |reply_to| ControllerEvent::AlterPartitionReceived { request, reply_to };
                match self.put_and_wait(event).await {
                    Some(Answer::AlterPartition(answer)) => {
                        wire::alter_partition_response(header, answer, asked.unknown)
                    }
                    other => without_answer(header, other),
                }
            }
            _ => {
                let from = wire::allocate_producer_ids_request(header, payload)?;
                let event = |reply_to| ControllerEvent::AllocateProducerIds { from, reply_to };
                match self.put_and_wait(event).await {
                    Some(Answer::AllocateProducerIds(answer)) => {
                        wire::allocate_producer_ids_response(header, answer)
                    }
                    other => without_answer(header, other),
                }
            }
        }
    }

    /// The controller's answer; `None`: it ended.
    pub(super) async fn put_and_wait(
        &self,
        event: impl FnOnce(ReplyTo) -> ControllerEvent,
    ) -> Option<Answer> {
        let (reply_to, answer) = (self.context.open_slot)();
        self.context.events.put(event(reply_to));
        answer.await.ok()
    }
}

fn without_answer(header: &RequestHeader, other: Option<Answer>) -> Result<Frame, CodecError> {
    match other {
        None => not_controller(header),
        Some(other) => Err(other_answer(header, &other)),
    }
}

/// An answer that isn't one to this question: a fault of klamm's own.
pub(super) fn other_answer(header: &RequestHeader, other: &Answer) -> CodecError {
    CodecError::NotEncodable {
        message: Message::response(header.key, header.version),
        detail: format!("the controller answered another question: {other:?}"),
    }
}

/// The error by which each of the three makes a broker look for the controller again. The body of the request is not
/// looked at.
fn not_controller(header: &RequestHeader) -> Result<Frame, CodecError> {
    match header.key {
        ApiKey::CONTROLLED_SHUTDOWN => {
            wire::controlled_shutdown_response(header, Err(KafkaError::STALE_CONTROLLER_EPOCH))
        }
        ApiKey::ALTER_PARTITION => {
            wire::alter_partition_response(header, Err(KafkaError::NOT_CONTROLLER), Vec::new())
        }
        _ => wire::allocate_producer_ids_response(header, Err(KafkaError::NOT_CONTROLLER)),
    }
}

fn put_off_controller(header: &RequestHeader, payload: &Bytes) -> Result<Frame, CodecError> {
    match header.key {
        ApiKey::LEADER_AND_ISR => from_controller::leader_and_isr(header, payload),
        ApiKey::STOP_REPLICA => from_controller::stop_replica(header, payload),
        _ => from_controller::update_metadata(header, payload),
    }
}

/// Whether a topic exists isn't known here: the client finds out when it looks for the leader, as it is told to.
fn refuse(header: &RequestHeader, payload: &Bytes) -> Result<Outcome, CodecError> {
    let refusal = Refusal {
        topic: &|_| KafkaError::NOT_LEADER_OR_FOLLOWER.0,
        coordinator: KafkaError::NOT_COORDINATOR.0,
    };
    Ok(match refusal::refuse(header, payload, &refusal)? {
        refusal::Answer::Reply(frame) => Outcome::Reply(frame),
        refusal::Answer::Close => Outcome::Close(Unserved::NoAnswerWanted(header.key)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_that_a_zookeeper_mode_broker_lists_has_its_duty() {
        let with = |wanted: Duty| -> Vec<i16> {
            (0..=90)
                .filter(|key| duty(ApiKey(*key)) == wanted)
                .collect()
        };
        assert_eq!(with(Duty::ListVersions), [18]);
        assert_eq!(with(Duty::AskController), [7, 56, 67]);
        assert_eq!(with(Duty::PutOffController), [4, 5, 6]);
        assert_eq!(with(Duty::InitProducerId), [22]);
        assert_eq!(with(Duty::Configs), [32, 33, 44]);
        assert_eq!(
            with(Duty::Relay),
            [3, 10, 29, 30, 31, 38, 39, 40, 41, 48, 49, 50, 60]
        );
        assert_eq!(
            with(Duty::Refuse),
            [
                0, 1, 2, 8, 9, 11, 12, 13, 14, 15, 16, 21, 23, 24, 25, 26, 27, 28, 34, 35, 42, 47,
                61, 65, 66, 68, 69
            ]
        );
        assert_eq!(with(Duty::AskForClient), [19, 20, 37, 43, 45, 46, 51, 57]);
        // SASL on a PLAINTEXT listener, KRaft, the migration to it, telemetry, share groups, and what no release knows.
        assert_eq!(
            with(Duty::Never),
            [
                17, 36, 52, 53, 54, 55, 58, 59, 62, 63, 64, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
                80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90
            ]
        );
    }
}
