//! What one replica holds on disk: records in the order of their offsets, and how far they are known to be committed.
//!
//! Divergence ends as KIP-101 and KIP-279 mean it to: a follower keeps what it has in common with its leader and nothing
//! else, however many leader epochs lie between. Must never decide who leads. Upstream: `Log.scala` (`UnifiedLog.scala`),
//! `LeaderEpochFileCache.scala`.

use klamm::model::LeaderEpoch;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// Which one it is: no two records of a world have the same.
    pub id: u64,
}

/// The log of one replica.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaLog {
    /// The records; the place of each is its offset.
    pub records: Vec<Record>,
    /// The offset up to which they are known to be committed; never beyond the end.
    pub high_watermark: usize,
}

impl ReplicaLog {
    /// The offset of the record that comes next.
    pub fn end(&self) -> usize {
        self.records.len()
    }

    /// Appends a record as the leader.
    pub fn append(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Where this log and another part.
    pub fn common_end(&self, other: &ReplicaLog) -> usize {
        let pairs = self.records.iter().zip(&other.records);
        pairs.take_while(|(own, its)| own == its).count()
    }

    /// Drops all from `end` on; what was taken for committed may be among it.
    pub fn truncate(&mut self, end: usize) {
        self.records.truncate(end);
        self.high_watermark = self.high_watermark.min(self.end());
    }

    /// Up to `most` records from an offset on; none if the log ends before it.
    pub fn read(&self, from: usize, most: usize) -> &[Record] {
        let rest = self.records.get(from..).unwrap_or_default();
        rest.get(..most).unwrap_or(rest)
    }

    /// Appends what was fetched from the leader, whose high watermark is this.
    pub fn follow(&mut self, fetched: &[Record], leader_high_watermark: usize) {
        self.records.extend_from_slice(fetched);
        self.high_watermark = leader_high_watermark.min(self.end());
    }

    /// As the leader: the high watermark rises to `to`, if that is higher and not beyond the end. The records that were
    /// committed by this.
    pub fn commit(&mut self, to: usize) -> &[Record] {
        let from = self.high_watermark;
        self.high_watermark = to.min(self.end()).max(from);
        self.records
            .get(from..self.high_watermark)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(records: &[(i32, u64)], high_watermark: usize) -> ReplicaLog {
        let records = records.iter().map(|(epoch, id)| record(*epoch, *id));
        ReplicaLog {
            records: records.collect(),
            high_watermark,
        }
    }

    fn record(epoch: i32, id: u64) -> Record {
        Record {
            leader_epoch: LeaderEpoch(epoch),
            id,
        }
    }

    #[test]
    fn a_follower_keeps_what_it_has_in_common_with_its_leader_and_nothing_else() {
        let leader = log(&[(0, 1), (0, 2), (3, 7)], 2);
        let table = [
            (log(&[], 0), 0),
            (log(&[(0, 1)], 1), 1),
            (log(&[(0, 1), (0, 2), (0, 3)], 3), 2),
            (log(&[(0, 1), (0, 2), (1, 4), (2, 5)], 2), 2),
            (log(&[(0, 1), (0, 2), (3, 7), (3, 8)], 4), 3),
            (log(&[(5, 9)], 1), 0),
        ];
        for (mut follower, common) in table {
            let before = follower.clone();
            follower.truncate(follower.common_end(&leader));
            assert_eq!(follower.records, leader.records[..common], "{before:?}");
            let kept = before.high_watermark.min(common);
            assert_eq!(follower.high_watermark, kept, "{before:?}");
        }
    }

    #[test]
    fn a_follower_copies_so_many_and_takes_nothing_for_committed_that_it_lacks() {
        let leader = log(&[(0, 1), (0, 2), (1, 3)], 3);
        let mut follower = ReplicaLog::default();
        follower.follow(leader.read(0, 2), leader.high_watermark);
        assert_eq!(follower, log(&[(0, 1), (0, 2)], 2));
        follower.follow(leader.read(2, 2), leader.high_watermark);
        assert_eq!(follower, leader);
        assert_eq!(leader.read(3, 2), []);
        assert_eq!(leader.read(9, 2), []);
        // Its leader may know less than the one before.
        follower.follow(&[], 1);
        assert_eq!(follower.high_watermark, 1);
    }

    #[test]
    fn what_a_leader_has_committed_is_named_once_and_stays_committed() {
        let mut leader = ReplicaLog::default();
        leader.append(record(0, 1));
        leader.append(record(0, 2));
        assert_eq!(leader.commit(1), [record(0, 1)]);
        assert_eq!(leader.commit(0), []);
        assert_eq!(leader.high_watermark, 1);
        assert_eq!(leader.commit(5), [record(0, 2)]);
        assert_eq!(leader.high_watermark, 2);
    }
}
