//! The array of topics with their partitions that LeaderAndIsr and UpdateMetadata share: flat in the oldest versions,
//! grouped by topic later, with topic ids in the newest.

use super::writer::Writer;
use super::{PartitionView, Since, TopicView};
use crate::error::CodecError;

/// Writes the topics, each partition by `put_partition`.
pub(super) fn put_topics<'a, P>(
    writer: &mut Writer,
    topics: impl ExactSizeIterator<Item = TopicView<'a, P>>,
    put_partition: impl Fn(&mut Writer, &PartitionView<'_>) -> Result<(), CodecError>,
) -> Result<(), CodecError>
where
    P: IntoIterator<Item = PartitionView<'a>, IntoIter: ExactSizeIterator>,
{
    let Since {
        grouped, topic_id, ..
    } = Since::of(writer.message.key);
    if writer.message.version < grouped {
        return put_ungrouped(writer, topics, put_partition);
    }
    let announced = topics.len();
    let mut given = 0;
    writer.count(announced)?;
    for topic in topics {
        given += 1;
        writer.string(topic.name)?;
        if writer.message.version >= topic_id {
            writer.raw(&topic.id);
        }
        put_partitions(writer, topic.partitions.into_iter(), &put_partition)?;
        writer.end();
    }
    writer.counted("topics", announced, given)
}

fn put_partitions<'a>(
    writer: &mut Writer,
    partitions: impl ExactSizeIterator<Item = PartitionView<'a>>,
    put_partition: impl Fn(&mut Writer, &PartitionView<'_>) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let announced = partitions.len();
    let mut given = 0;
    writer.count(announced)?;
    for partition in partitions {
        given += 1;
        put_partition(writer, &partition)?;
    }
    writer.counted("partitions", announced, given)
}

/// The topic's name is repeated with each of its partitions.
fn put_ungrouped<'a, P>(
    writer: &mut Writer,
    topics: impl Iterator<Item = TopicView<'a, P>>,
    put_partition: impl Fn(&mut Writer, &PartitionView<'_>) -> Result<(), CodecError>,
) -> Result<(), CodecError>
where
    P: IntoIterator<Item = PartitionView<'a>>,
{
    let room = writer.leave_count();
    let mut count = 0;
    for topic in topics {
        for partition in topic.partitions {
            count += 1;
            writer.string(topic.name)?;
            put_partition(writer, &partition)?;
        }
    }
    writer.fill_count(room, count)
}
