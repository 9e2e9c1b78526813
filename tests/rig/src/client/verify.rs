//! The central check: every acknowledged record is in the log, at the offset it was acknowledged for, once, in order.
//!
//! Pure: it judges what the client reported and asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::zk::TopicPartition;

/// Values are numbers that rise by one for each record sent to a partition.
pub type Value = u64;

/// What may stand in the log more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// A producer that is not idempotent writes a record again when the answer to its first try was lost. Both copies
    /// are in the log; only one offset was acknowledged.
    OfRetries,
    Never,
}

/// What the client reported about one partition.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// In the order of the acknowledgements.
    pub acknowledged: Vec<(i64, Value)>,
    /// What the continuous reader saw at each offset: a second, different value at an offset is a broken promise.
    pub read: BTreeMap<i64, BTreeSet<Value>>,
    /// What stands in the log at the end.
    pub log: BTreeMap<i64, Value>,
    /// Records that the client gave up on. They may stand in the log or not.
    pub failed: BTreeSet<Value>,
}

/// One thing that is not as promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Acknowledged for this offset, which holds nothing or another record.
    Lost {
        offset: i64,
        value: Value,
        holds: Option<Value>,
    },
    /// The record stands in the log more than once although nothing excuses it.
    Duplicate { value: Value, offsets: Vec<i64> },
    /// A later record was acknowledged for an earlier offset.
    Reordered { earlier: Value, later: Value },
    /// A consumer read a record that is no longer there: it was handed out and then taken back.
    TakenBack {
        offset: i64,
        read: Value,
        holds: Option<Value>,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holding = |holds: &Option<Value>| {
            holds.map_or("nothing".to_owned(), |value| format!("record {value}"))
        };
        match self {
            Self::Lost {
                offset,
                value,
                holds,
            } => {
                write!(
                    f,
                    "record {value} was acknowledged at offset {offset}, which holds {}",
                    holding(holds)
                )
            }
            Self::Duplicate { value, offsets } => {
                write!(f, "record {value} stands at the offsets {offsets:?}")
            }
            Self::Reordered { earlier, later } => {
                write!(f, "record {later} stands before record {earlier}")
            }
            Self::TakenBack {
                offset,
                read,
                holds,
            } => {
                write!(
                    f,
                    "record {read} was read at offset {offset}, which now holds {}",
                    holding(holds)
                )
            }
        }
    }
}

/// The verdict on a whole run.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub acknowledged: usize,
    /// Records that the continuous reader saw.
    pub read: usize,
    /// Copies that retries left, where they are excused.
    pub copies: usize,
    /// Records that the client gave up on: no promise is broken, but nobody likes it.
    pub failed: usize,
    pub faults: Vec<(TopicPartition, Fault)>,
}

impl Verdict {
    pub fn lost(&self) -> usize {
        self.faults
            .iter()
            .filter(|(_, fault)| matches!(fault, Fault::Lost { .. }))
            .count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged, {} lost, {} read",
            self.acknowledged,
            self.lost(),
            self.read
        )?;
        let others = self.faults.len() - self.lost();
        if others > 0 {
            write!(f, ", {others} duplicated, out of order or taken back")?;
        }
        if self.copies > 0 {
            write!(f, ", {} copies by retries", self.copies)?;
        }
        if self.failed > 0 {
            write!(f, ", {} given up by the client", self.failed)?;
        }
        Ok(())
    }
}

/// Judges all partitions.
pub fn verify(partitions: &BTreeMap<TopicPartition, Records>, duplicates: Duplicates) -> Verdict {
    let mut verdict = Verdict::default();
    for (partition, records) in partitions {
        verdict.acknowledged += records.acknowledged.len();
        verdict.read += records.read.len();
        verdict.failed += records.failed.len();
        let (repeated, copies) = duplicated(records, duplicates);
        verdict.copies += copies;
        let faults = lost(records)
            .chain(repeated)
            .chain(reordered(records))
            .chain(taken_back(records));
        verdict
            .faults
            .extend(faults.map(|fault| (partition.clone(), fault)));
    }
    verdict
}

fn lost(records: &Records) -> impl Iterator<Item = Fault> {
    records.acknowledged.iter().filter_map(|(offset, value)| {
        let holds = records.log.get(offset).copied();
        (holds != Some(*value)).then_some(Fault::Lost {
            offset: *offset,
            value: *value,
            holds,
        })
    })
}

fn duplicated(records: &Records, duplicates: Duplicates) -> (Vec<Fault>, usize) {
    let mut offsets: BTreeMap<Value, Vec<i64>> = BTreeMap::new();
    for (offset, value) in &records.log {
        offsets.entry(*value).or_default().push(*offset);
    }
    let mut acknowledgements: BTreeMap<Value, usize> = BTreeMap::new();
    for (_, value) in &records.acknowledged {
        *acknowledgements.entry(*value).or_default() += 1;
    }
    let mut faults = Vec::new();
    let mut copies = 0;
    for (value, offsets) in offsets.into_iter().filter(|(_, offsets)| offsets.len() > 1) {
        let acknowledged_once = acknowledgements.get(&value).is_none_or(|times| *times == 1);
        if duplicates == Duplicates::OfRetries && acknowledged_once {
            copies += offsets.len() - 1;
        } else {
            faults.push(Fault::Duplicate { value, offsets });
        }
    }
    (faults, copies)
}

/// The acknowledged records must stand in the order of their numbers.
fn reordered(records: &Records) -> impl Iterator<Item = Fault> {
    let by_offset: BTreeMap<i64, Value> = records.acknowledged.iter().copied().collect();
    let values: Vec<Value> = by_offset.into_values().collect();
    values
        .windows(2)
        .filter_map(|pair| match pair {
            [first, second] if second < first => Some(Fault::Reordered {
                earlier: *second,
                later: *first,
            }),
            _ => None,
        })
        .collect::<Vec<_>>()
        .into_iter()
}

fn taken_back(records: &Records) -> impl Iterator<Item = Fault> {
    records.read.iter().flat_map(|(offset, values)| {
        let holds = records.log.get(offset).copied();
        values
            .iter()
            .filter(move |value| holds != Some(**value))
            .map(move |value| Fault::TakenBack {
                offset: *offset,
                read: *value,
                holds,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition where records 1 to 4 were acknowledged at 0 to 3, read and kept.
    fn sound() -> Records {
        Records {
            acknowledged: vec![(0, 1), (1, 2), (2, 3), (3, 4)],
            read: (0..4)
                .map(|offset| (offset, BTreeSet::from([offset as Value + 1])))
                .collect(),
            log: (0..4).map(|offset| (offset, offset as Value + 1)).collect(),
            failed: BTreeSet::new(),
        }
    }

    fn faults(records: Records, duplicates: Duplicates) -> Vec<Fault> {
        let partitions = BTreeMap::from([(TopicPartition::new("topic", 0), records)]);
        verify(&partitions, duplicates)
            .faults
            .into_iter()
            .map(|(_, fault)| fault)
            .collect()
    }

    #[test]
    fn a_sound_log_has_no_fault() {
        assert_eq!(faults(sound(), Duplicates::Never), []);
        assert_eq!(faults(sound(), Duplicates::OfRetries), []);
    }

    #[test]
    fn an_acknowledged_record_cut_off_the_log_is_lost() {
        let mut records = sound();
        records.log.remove(&3);
        records.read.remove(&3);
        assert_eq!(
            faults(records, Duplicates::Never),
            [Fault::Lost {
                offset: 3,
                value: 4,
                holds: None
            }]
        );
    }

    #[test]
    fn an_acknowledged_record_overwritten_by_another_leader_is_lost() {
        let mut records = sound();
        records.log.insert(3, 9);
        records.read.remove(&3);
        assert_eq!(
            faults(records, Duplicates::OfRetries),
            [Fault::Lost {
                offset: 3,
                value: 4,
                holds: Some(9)
            }]
        );
    }

    #[test]
    fn a_record_at_the_wrong_offset_does_not_count_as_kept() {
        let mut records = sound();
        records.acknowledged = vec![(0, 1), (1, 2), (2, 3), (7, 4)];
        assert_eq!(
            faults(records, Duplicates::Never),
            [Fault::Lost {
                offset: 7,
                value: 4,
                holds: None
            }]
        );
    }

    #[test]
    fn a_copy_is_excused_by_a_retry_but_not_for_an_idempotent_producer() {
        let mut records = sound();
        records.log.insert(4, 4);
        records.read.insert(4, BTreeSet::from([4]));
        assert_eq!(faults(records.clone(), Duplicates::OfRetries), []);
        assert_eq!(
            faults(records, Duplicates::Never),
            [Fault::Duplicate {
                value: 4,
                offsets: vec![3, 4]
            }]
        );
    }

    #[test]
    fn a_record_acknowledged_twice_is_no_retry() {
        let mut records = sound();
        records.log.insert(4, 4);
        records.acknowledged.push((4, 4));
        assert_eq!(
            faults(records, Duplicates::OfRetries),
            [Fault::Duplicate {
                value: 4,
                offsets: vec![3, 4]
            }]
        );
    }

    #[test]
    fn records_in_another_order_than_sent_are_seen() {
        let mut records = sound();
        records.acknowledged = vec![(0, 1), (2, 2), (1, 3), (3, 4)];
        records.log = BTreeMap::from([(0, 1), (1, 3), (2, 2), (3, 4)]);
        records.read.clear();
        assert_eq!(
            faults(records, Duplicates::Never),
            [Fault::Reordered {
                earlier: 2,
                later: 3
            }]
        );
    }

    #[test]
    fn a_record_that_was_handed_to_a_consumer_and_then_replaced_is_seen() {
        let mut records = sound();
        records.read.insert(4, BTreeSet::from([5, 6]));
        records.log.insert(4, 6);
        assert_eq!(
            faults(records, Duplicates::Never),
            [Fault::TakenBack {
                offset: 4,
                read: 5,
                holds: Some(6)
            }]
        );
    }
}
