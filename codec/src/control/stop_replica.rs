//! StopReplica, versions 0 to 4. Up to version 2 one flag says for all partitions whether their data goes too, so what
//! differs in it takes two requests: splitting is the caller's, who also must keep their answers apart.

use super::writer::Writer;
use super::{ControlRequest, ControllerView, Since};
use crate::error::{CodecError, Message};
use crate::version::StopReplicaVersion;

/// From here on each partition has its own flag and leader epoch (KIP-570).
const FLAG_EACH: i16 = 3;
const FLAG_ALL: u8 = 1;
const FLAG_NONE: u8 = 0;

/// One replica to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopReplicaView {
    pub partition: i32,
    /// From version 3 on: -1 none known, -2 the topic is being deleted.
    pub leader_epoch: i32,
    /// Whether the replica's data is deleted.
    pub delete: bool,
}

/// A topic with the replicas to stop, none of which may be in another view of the same request.
#[derive(Debug, Clone)]
pub struct StopReplicaTopicView<'a, P> {
    pub name: &'a str,
    pub partitions: P,
}

/// Encodes a request for one broker. Below version 3 all partitions must agree in `delete`; filtered iterators split
/// what does not. Topics without partitions are written as such.
pub fn stop_replica<'a, T, P>(
    version: StopReplicaVersion,
    controller: ControllerView,
    broker_epoch: i64,
    topics: T,
) -> Result<ControlRequest, CodecError>
where
    T: IntoIterator<Item = StopReplicaTopicView<'a, P>, IntoIter: Clone>,
    P: IntoIterator<Item = StopReplicaView, IntoIter: Clone>,
{
    let message = Message::request(StopReplicaVersion::KEY, version.get());
    let mut writer = Writer::new(message, 1024);
    if message.version >= FLAG_EACH {
        put_topics(&mut writer, topics.into_iter())?;
    } else {
        put_flagged(&mut writer, topics.into_iter())?;
    }
    writer.end();
    Ok(ControlRequest {
        message,
        controller,
        broker_epoch,
        tail: writer.finish(),
    })
}

fn put_topics<'a, P>(
    writer: &mut Writer,
    topics: impl Iterator<Item = StopReplicaTopicView<'a, P>> + Clone,
) -> Result<(), CodecError>
where
    P: IntoIterator<Item = StopReplicaView, IntoIter: Clone>,
{
    let announced = topics.clone().count();
    let mut given = 0;
    writer.count(announced)?;
    for topic in topics {
        given += 1;
        writer.string(topic.name)?;
        put_partitions(writer, topic.partitions.into_iter(), |writer, view| {
            writer.i32(view.partition);
            writer.i32(view.leader_epoch);
            writer.bool(view.delete);
            writer.end();
            Ok(())
        })?;
        writer.end();
    }
    writer.counted("topics", announced, given)
}

fn put_partitions(
    writer: &mut Writer,
    partitions: impl Iterator<Item = StopReplicaView> + Clone,
    mut put: impl FnMut(&mut Writer, StopReplicaView) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let announced = partitions.clone().count();
    let mut given = 0;
    writer.count(announced)?;
    for view in partitions {
        given += 1;
        put(writer, view)?;
    }
    writer.counted("partitions", announced, given)
}

/// Versions 0 to 2: the flag for all, and then partitions, grouped from version 1 on.
fn put_flagged<'a, P>(
    writer: &mut Writer,
    topics: impl Iterator<Item = StopReplicaTopicView<'a, P>> + Clone,
) -> Result<(), CodecError>
where
    P: IntoIterator<Item = StopReplicaView, IntoIter: Clone>,
{
    let mut flag = Flag {
        at: writer.leave_byte(),
        value: None,
    };
    if writer.message.version < Since::of(writer.message.key).grouped {
        let room = writer.leave_count();
        let mut count = 0;
        for topic in topics {
            for view in topic.partitions {
                count += 1;
                flag.agree(writer, topic.name, view)?;
                writer.string(topic.name)?;
                writer.i32(view.partition);
            }
        }
        writer.fill_count(room, count)?;
    } else {
        let announced = topics.clone().count();
        let mut given = 0;
        writer.count(announced)?;
        for topic in topics {
            given += 1;
            writer.string(topic.name)?;
            put_partitions(writer, topic.partitions.into_iter(), |writer, view| {
                flag.agree(writer, topic.name, view)?;
                writer.i32(view.partition);
                Ok(())
            })?;
            writer.end();
        }
        writer.counted("topics", announced, given)?;
    }
    writer.fill_byte(
        flag.at,
        if flag.value == Some(true) {
            FLAG_ALL
        } else {
            FLAG_NONE
        },
    );
    Ok(())
}

/// The flag that the first partition sets for all.
struct Flag {
    at: usize,
    value: Option<bool>,
}

impl Flag {
    fn agree(
        &mut self,
        writer: &Writer,
        topic: &str,
        view: StopReplicaView,
    ) -> Result<(), CodecError> {
        if *self.value.get_or_insert(view.delete) == view.delete {
            return Ok(());
        }
        Err(CodecError::StopReplicaMixed {
            version: writer.message.version,
            topic: topic.to_owned(),
            partition: view.partition,
        })
    }
}
