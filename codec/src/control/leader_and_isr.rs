//! LeaderAndIsr, versions 1 to 7. Its body is of one broker: each is told of the partitions that it hosts.

use super::topics::put_topics;
use super::writer::Writer;
use super::{ControlRequest, ControllerView, LiveLeaderView, PartitionView, TopicView};
use crate::error::{CodecError, Message};
use crate::version::LeaderAndIsrVersion;

const REASSIGNMENT: i16 = 3;
const TYPE: i16 = 5;
const RECOVERY: i16 = 6;

/// Encodes a request for one broker. Below version 6 nothing is said of a recovery, below 5 nothing of topic ids.
pub fn leader_and_isr<'a, T, P>(
    version: LeaderAndIsrVersion,
    controller: ControllerView,
    broker_epoch: i64,
    topics: T,
    live_leaders: &[LiveLeaderView<'_>],
) -> Result<ControlRequest, CodecError>
where
    T: IntoIterator<Item = TopicView<'a, P>, IntoIter: ExactSizeIterator>,
    P: IntoIterator<Item = PartitionView<'a>, IntoIter: ExactSizeIterator>,
{
    let message = Message::request(LeaderAndIsrVersion::KEY, version.get());
    let mut writer = Writer::new(message, 4096);
    if message.version >= TYPE {
        // The type: a ZooKeeper-mode controller has no full requests (0 is "unknown").
        writer.raw(&[0]);
    }
    put_topics(&mut writer, topics.into_iter(), put_partition)?;
    put_live_leaders(&mut writer, live_leaders)?;
    writer.end();
    Ok(ControlRequest {
        message,
        controller,
        broker_epoch,
        tail: writer.finish(),
    })
}

fn put_partition(writer: &mut Writer, view: &PartitionView<'_>) -> Result<(), CodecError> {
    let version = writer.message.version;
    writer.four([
        view.partition,
        view.controller_epoch,
        view.leader,
        view.leader_epoch,
    ]);
    writer.i32s(view.isr)?;
    writer.i32(view.partition_epoch);
    writer.i32s(view.replicas)?;
    if version >= REASSIGNMENT {
        writer.i32s(view.adding)?;
        writer.i32s(view.removing)?;
    }
    writer.bool(view.is_new);
    if version >= RECOVERY {
        writer.bool(view.recovering);
    }
    writer.end();
    Ok(())
}

fn put_live_leaders(writer: &mut Writer, leaders: &[LiveLeaderView<'_>]) -> Result<(), CodecError> {
    writer.count(leaders.len())?;
    for leader in leaders {
        writer.i32(leader.id);
        writer.string(leader.host)?;
        writer.i32(leader.port);
        writer.end();
    }
    Ok(())
}
