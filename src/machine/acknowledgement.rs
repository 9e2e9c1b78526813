//! Which brokers have heard of what: UpdateMetadata is numbered, and each broker answers in the order of sending.
//!
//! Must never take silence for consent: only an answer without error counts. Counterpart upstream: the controller's own
//! metadata cache, by which `DelayedCreatePartitions` knows that a topic is there; a klamm has none, and a client may ask
//! any broker next.

use std::collections::BTreeMap;

use crate::effect::Incarnation;

/// How long the others may take once one broker has heard of something: a broker that hangs must not hold up everybody.
pub const STRAGGLERS_MS: u64 = 1_000;

/// The numbers of what was sent and answered.
#[derive(Debug, Clone, Default)]
pub struct MetadataAcknowledgements {
    last: u64,
    brokers: BTreeMap<Incarnation, Progress>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    sent: u64,
    answered: u64,
}

impl MetadataAcknowledgements {
    /// The number of an UpdateMetadata that goes to these; 1 and up.
    pub fn number(&mut self, to: impl IntoIterator<Item = Incarnation>) -> u64 {
        self.last += 1;
        for broker in to {
            self.brokers.entry(broker).or_default().sent = self.last;
        }
        self.last
    }

    /// A broker took the UpdateMetadata with this number, and with it all before.
    pub fn acknowledge(&mut self, from: Incarnation, number: u64) {
        if let Some(progress) = self.brokers.get_mut(&from) {
            progress.answered = progress.answered.max(number);
        }
    }

    /// Forgets incarnations that are gone.
    pub fn retain(&mut self, is_registered: impl Fn(Incarnation) -> bool) {
        self.brokers.retain(|broker, _| is_registered(*broker));
    }

    /// The term is over: nobody is waited for. Numbers go on, so that answers that come late say nothing in the next.
    pub fn forget(&mut self) {
        self.brokers.clear();
    }

    /// What was sent so far, to be waited for.
    pub fn announcement(&self) -> Announcement {
        let sent = self.brokers.iter();
        Announcement {
            to: sent
                .map(|(broker, progress)| (*broker, progress.sent))
                .collect(),
            first_heard_at_ms: None,
        }
    }
}

/// Something that brokers were told, until they have heard it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    to: BTreeMap<Incarnation, u64>,
    first_heard_at_ms: Option<u64>,
}

/// Who has heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nobody yet.
    ByNobody,
    /// Some, and the others have time left: [`STRAGGLERS_MS`] from the first on.
    BySome,
    /// All that are still there, or those that answer at all.
    Enough,
}

impl Announcement {
    /// Who has heard of it by now. Brokers that are gone need not: they are told everything when they come back.
    pub fn heard(&mut self, acknowledgements: &MetadataAcknowledgements, now_ms: u64) -> Heard {
        let known = &acknowledgements.brokers;
        self.to.retain(|broker, _| known.contains_key(broker));
        let has_heard = |(broker, number): &(&Incarnation, &u64)| {
            known
                .get(*broker)
                .is_some_and(|progress| progress.answered >= **number)
        };
        let count = self.to.iter().filter(has_heard).count();
        if count == self.to.len() {
            return Heard::Enough;
        }
        match self.first_heard_at_ms {
            None if count == 0 => Heard::ByNobody,
            None => {
                self.first_heard_at_ms = Some(now_ms);
                Heard::BySome
            }
            Some(first_ms) if now_ms.saturating_sub(first_ms) >= STRAGGLERS_MS => Heard::Enough,
            Some(_) => Heard::BySome,
        }
    }

    /// When nobody is waited for any more; none: nobody has heard of it, as far as was looked.
    pub fn stragglers_due_at_ms(&self) -> Option<u64> {
        let first_ms = self.first_heard_at_ms?;
        Some(first_ms.saturating_add(STRAGGLERS_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BrokerEpoch, BrokerId};

    fn broker(id: i32) -> Incarnation {
        Incarnation {
            broker: BrokerId(id),
            epoch: BrokerEpoch(1),
        }
    }

    #[test]
    fn something_is_heard_once_every_broker_answered_what_was_sent_last_before_it() {
        let mut acknowledgements = MetadataAcknowledgements::default();
        let first = acknowledgements.number([broker(1), broker(2)]);
        let second = acknowledgements.number([broker(2)]);
        let mut told = acknowledgements.announcement();
        let later = acknowledgements.number([broker(1), broker(2)]);
        assert_eq!(told.heard(&acknowledgements, 0), Heard::ByNobody);
        acknowledgements.acknowledge(broker(2), first);
        assert_eq!(told.heard(&acknowledgements, 10), Heard::ByNobody);
        acknowledgements.acknowledge(broker(2), second);
        assert_eq!(told.stragglers_due_at_ms(), None);
        assert_eq!(told.heard(&acknowledgements, 20), Heard::BySome);
        assert_eq!(told.heard(&acknowledgements, 30), Heard::BySome);
        acknowledgements.acknowledge(broker(1), later);
        assert_eq!(told.heard(&acknowledgements, 40), Heard::Enough);
    }

    #[test]
    fn a_broker_that_hangs_holds_nobody_up_for_longer_than_a_second() {
        let mut acknowledgements = MetadataAcknowledgements::default();
        let number = acknowledgements.number([broker(1), broker(2)]);
        let mut told = acknowledgements.announcement();
        assert_eq!(told.heard(&acknowledgements, 60_000), Heard::ByNobody);
        acknowledgements.acknowledge(broker(1), number);
        assert_eq!(told.heard(&acknowledgements, 60_500), Heard::BySome);
        assert_eq!(told.stragglers_due_at_ms(), Some(61_500));
        assert_eq!(told.heard(&acknowledgements, 61_499), Heard::BySome);
        assert_eq!(told.heard(&acknowledgements, 61_500), Heard::Enough);
    }

    #[test]
    fn a_broker_that_is_gone_is_not_waited_for_and_its_next_life_owes_nothing() {
        let mut acknowledgements = MetadataAcknowledgements::default();
        let number = acknowledgements.number([broker(1), broker(2)]);
        let mut told = acknowledgements.announcement();
        acknowledgements.acknowledge(broker(1), number);
        let reborn = Incarnation {
            epoch: BrokerEpoch(2),
            ..broker(2)
        };
        acknowledgements.retain(|broker| broker.broker != BrokerId(2));
        acknowledgements.number([reborn]);
        assert_eq!(told.heard(&acknowledgements, 0), Heard::Enough);
    }
}
