//! The three requests by which a controller gives its orders, written straight from borrowed views: nothing is
//! allocated for a partition. The bytes are those of kafka-protocol's encoder, which the tests hold them against; in
//! memory the difference is that of a cluster's whole metadata. Versions older than those of [`crate::version`] are not
//! written.
//!
//! A [`ControlRequest`] keeps what differs from broker to broker (controller, epochs, correlation id) apart from the
//! rest, so that one UpdateMetadata body serves all brokers of a version. Upstream counterpart:
//! `AbstractControlRequest` and its three heirs.

mod leader_and_isr;
mod outcome;
mod stop_replica;
mod topics;
mod update_metadata;
mod writer;

pub use leader_and_isr::leader_and_isr;
pub use outcome::{
    LeaderAndIsrOutcome, StopReplicaOutcome, TopicKey, UpdateMetadataOutcome,
    leader_and_isr_outcome, stop_replica_outcome, update_metadata_outcome,
};
pub use stop_replica::{StopReplicaTopicView, StopReplicaView, stop_replica};
pub use update_metadata::UpdateMetadataBody;

use crate::api_key::ApiKey;
use crate::error::{CodecError, Message};
use crate::frame::Frame;
use crate::request::put_header;
use bytes::{BufMut, Bytes, BytesMut};

/// Who gives the order. Never a KRaft controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerView {
    pub controller_id: i32,
    pub controller_epoch: i32,
}

/// One partition, with all that LeaderAndIsr and UpdateMetadata say of it in any version. A version that lacks a field
/// leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionView<'a> {
    pub partition: i32,
    /// Of the controller that last changed the partition's state.
    pub controller_epoch: i32,
    /// -1: none. In UpdateMetadata -2: the topic is being deleted.
    pub leader: i32,
    pub leader_epoch: i32,
    pub isr: &'a [i32],
    /// The version of the state znode.
    pub partition_epoch: i32,
    pub replicas: &'a [i32],
    /// LeaderAndIsr from version 3 on.
    pub adding: &'a [i32],
    /// LeaderAndIsr from version 3 on.
    pub removing: &'a [i32],
    /// LeaderAndIsr only.
    pub is_new: bool,
    /// LeaderAndIsr from version 6 on: the leader was elected uncleanly and is recovering.
    pub recovering: bool,
    /// UpdateMetadata only.
    pub offline_replicas: &'a [i32],
}

/// A topic with its partitions, none of which may be in another view of the same request.
#[derive(Debug, Clone)]
pub struct TopicView<'a, P> {
    pub name: &'a str,
    /// All zero: the topic has none.
    pub id: [u8; 16],
    pub partitions: P,
}

/// Where LeaderAndIsr tells followers to find a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveLeaderView<'a> {
    pub id: i32,
    pub host: &'a str,
    pub port: i32,
}

/// A live broker, as UpdateMetadata tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveBrokerView<'a> {
    pub id: i32,
    pub endpoints: &'a [EndpointView<'a>],
    pub rack: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointView<'a> {
    pub port: i32,
    pub host: &'a str,
    pub listener: &'a str,
    /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// One of the three requests, for one broker, without a correlation id yet. Cloning it copies no body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlRequest {
    message: Message,
    controller: ControllerView,
    broker_epoch: i64,
    /// All that follows the broker epoch.
    tail: Bytes,
}

impl ControlRequest {
    pub fn key(&self) -> ApiKey {
        self.message.key
    }

    pub fn version(&self) -> i16 {
        self.message.version
    }

    /// The bytes of the body that may be shared with other requests.
    pub fn shared_len(&self) -> usize {
        self.tail.len()
    }

    /// The request ready to write: a few bytes of its own, and the body, which is not copied.
    pub fn frame(&self, correlation_id: i32, client_id: &str) -> Result<Frame, CodecError> {
        Frame::build(
            |head| self.put_head(head, correlation_id, client_id),
            self.tail.clone(),
        )
    }

    fn put_head(
        &self,
        head: &mut BytesMut,
        correlation_id: i32,
        client_id: &str,
    ) -> Result<(), CodecError> {
        let Since {
            flexible,
            broker_epoch,
            is_kraft,
            ..
        } = Since::of(self.message.key);
        let version = self.message.version;
        let header_version = if version >= flexible { 2 } else { 1 };
        put_header(
            head,
            self.message,
            header_version,
            correlation_id,
            Some(client_id),
        )?;
        head.put_i32(self.controller.controller_id);
        if version >= is_kraft {
            head.put_u8(0);
        }
        head.put_i32(self.controller.controller_epoch);
        if version >= broker_epoch {
            head.put_i64(self.broker_epoch);
        }
        Ok(())
    }
}

/// The versions from which on the three requests have what they have in common.
struct Since {
    flexible: i16,
    broker_epoch: i16,
    is_kraft: i16,
    grouped: i16,
    topic_id: i16,
}

impl Since {
    fn of(key: ApiKey) -> Since {
        match key {
            ApiKey::LEADER_AND_ISR => Since {
                flexible: 4,
                broker_epoch: 2,
                is_kraft: 7,
                grouped: 2,
                topic_id: 5,
            },
            // StopReplica knows topics by name only.
            ApiKey::STOP_REPLICA => Since {
                flexible: 2,
                broker_epoch: 1,
                is_kraft: 4,
                grouped: 1,
                topic_id: i16::MAX,
            },
            _ => Since {
                flexible: 6,
                broker_epoch: 5,
                is_kraft: 8,
                grouped: 5,
                topic_id: 7,
            },
        }
    }
}

#[cfg(test)]
mod tests;
