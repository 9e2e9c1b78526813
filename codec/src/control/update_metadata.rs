//! UpdateMetadata, versions 4 to 8. All brokers of a version are told the same but for their epoch, so the body is
//! encoded once and shared.

use super::topics::put_topics;
use super::writer::Writer;
use super::{
    ControlRequest, ControllerView, EndpointView, LiveBrokerView, PartitionView, TopicView,
};
use crate::error::{CodecError, Message};
use crate::version::UpdateMetadataVersion;
use bytes::Bytes;

/// What all brokers of one version are told. Cloning it copies no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMetadataBody {
    version: UpdateMetadataVersion,
    controller: ControllerView,
    shared: Bytes,
}

impl UpdateMetadataBody {
    /// The tagged field `type` of version 8 is left out: its default says that the update is not a full one of KRaft.
    pub fn encode<'a, T, P>(
        version: UpdateMetadataVersion,
        controller: ControllerView,
        topics: T,
        live_brokers: &[LiveBrokerView<'_>],
    ) -> Result<UpdateMetadataBody, CodecError>
    where
        T: IntoIterator<Item = TopicView<'a, P>, IntoIter: ExactSizeIterator>,
        P: IntoIterator<Item = PartitionView<'a>, IntoIter: ExactSizeIterator>,
    {
        let message = Message::request(UpdateMetadataVersion::KEY, version.get());
        let mut writer = Writer::new(message, 4096);
        put_topics(&mut writer, topics.into_iter(), put_partition)?;
        put_live_brokers(&mut writer, live_brokers)?;
        writer.end();
        Ok(UpdateMetadataBody {
            version,
            controller,
            shared: writer.finish(),
        })
    }

    /// The request for one incarnation of a broker.
    pub fn request(&self, broker_epoch: i64) -> ControlRequest {
        ControlRequest {
            message: Message::request(UpdateMetadataVersion::KEY, self.version.get()),
            controller: self.controller,
            broker_epoch,
            tail: self.shared.clone(),
        }
    }

    pub fn version(&self) -> UpdateMetadataVersion {
        self.version
    }
}

fn put_partition(writer: &mut Writer, view: &PartitionView<'_>) -> Result<(), CodecError> {
    writer.four([
        view.partition,
        view.controller_epoch,
        view.leader,
        view.leader_epoch,
    ]);
    writer.i32s(view.isr)?;
    writer.i32(view.partition_epoch);
    writer.i32s(view.replicas)?;
    writer.i32s(view.offline_replicas)?;
    writer.end();
    Ok(())
}

fn put_live_brokers(writer: &mut Writer, brokers: &[LiveBrokerView<'_>]) -> Result<(), CodecError> {
    writer.count(brokers.len())?;
    for broker in brokers {
        writer.i32(broker.id);
        writer.count(broker.endpoints.len())?;
        for endpoint in broker.endpoints {
            put_endpoint(writer, endpoint)?;
        }
        writer.nullable_string(broker.rack)?;
        writer.end();
    }
    Ok(())
}

fn put_endpoint(writer: &mut Writer, endpoint: &EndpointView<'_>) -> Result<(), CodecError> {
    writer.i32(endpoint.port);
    writer.string(endpoint.host)?;
    writer.string(endpoint.listener)?;
    writer.i16(endpoint.security_protocol);
    writer.end();
    Ok(())
}
