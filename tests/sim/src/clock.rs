//! Virtual time, the event queue behind it, and topic ids from a seed.
//!
//! Time moves only when the world moves it, so a test never waits and a run is the same each time. Must never handle an
//! event: it says which is next.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use klamm::event::{ControllerEvent, ControllerEventManager, QueuedEvent, Sweep};
use klamm::model::TopicId;
use klamm::port::Clock;

/// When worlds begin, in milliseconds since 1970.
pub const WORLD_BEGAN_AT_MS: i64 = 1_700_000_000_000;

/// The time of a whole world, shared by all that live in it.
#[derive(Debug, Clone, Default)]
pub struct VirtualTime(Rc<Cell<u64>>);

impl VirtualTime {
    /// Milliseconds since the world began.
    pub fn now_ms(&self) -> u64 {
        self.0.get()
    }

    /// Moves on to `at_ms`; never back.
    pub fn move_to(&self, at_ms: u64) {
        self.0.set(self.0.get().max(at_ms));
    }
}

#[derive(Debug, Default)]
struct Pending {
    queue: ControllerEventManager,
    /// By time due, then by the order in which they were set.
    timers: BTreeMap<(u64, u64), ControllerEvent>,
    timers_set: u64,
    /// A sweep whose time has come is dropped.
    holds_sweeps: bool,
}

/// One controller's event queue and timers. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct SimQueue {
    time: VirtualTime,
    pending: Rc<RefCell<Pending>>,
}

impl SimQueue {
    /// An empty queue.
    pub fn new(time: &VirtualTime) -> SimQueue {
        SimQueue {
            time: time.clone(),
            pending: Rc::default(),
        }
    }

    /// Appends an event.
    pub fn put(&self, event: ControllerEvent) {
        let now_ms = self.time.now_ms();
        self.pending.borrow_mut().queue.put(event, now_ms);
    }

    /// Takes every waiting event out and appends `event`; whoever waits on one of those taken must be answered.
    #[must_use]
    pub fn clear_and_put(&self, event: ControllerEvent) -> Vec<QueuedEvent> {
        let now_ms = self.time.now_ms();
        self.pending.borrow_mut().queue.clear_and_put(event, now_ms)
    }

    /// The oldest event that waits.
    pub fn take(&self) -> Option<ControllerEvent> {
        let taken = self.pending.borrow_mut().queue.take();
        taken.map(|queued| queued.event)
    }

    /// How many events wait, timers not counted.
    pub fn len(&self) -> usize {
        self.pending.borrow().queue.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts `event` into the queue after `delay_ms`; at once if that is 0.
    pub fn schedule(&self, delay_ms: u64, event: ControllerEvent) {
        if delay_ms == 0 {
            self.put(event);
            return;
        }
        let due_ms = self.time.now_ms().saturating_add(delay_ms);
        let mut pending = self.pending.borrow_mut();
        pending.timers_set += 1;
        let key = (due_ms, pending.timers_set);
        pending.timers.insert(key, event);
    }

    /// How many timers run that put this event.
    pub fn timers_of(&self, event: &ControllerEvent) -> usize {
        let pending = self.pending.borrow();
        let timers = pending.timers.values();
        timers.filter(|timer| *timer == event).count()
    }

    /// When the next timer is due.
    pub fn next_due_ms(&self) -> Option<u64> {
        let pending = self.pending.borrow();
        pending.timers.keys().next().map(|(due_ms, _)| *due_ms)
    }

    /// Puts the events whose time has come into the queue.
    pub fn ring(&self) {
        let now_ms = self.time.now_ms();
        let mut pending = self.pending.borrow_mut();
        while let Some(timer) = pending.timers.first_entry() {
            if timer.key().0 > now_ms {
                return;
            }
            let event = timer.remove();
            let is_sweep = event == ControllerEvent::AntiEntropy(Sweep::Begin);
            if !(is_sweep && pending.holds_sweeps) {
                pending.queue.put(event, now_ms);
            }
        }
    }

    /// From now on no sweep begins at its time, nor any later one: each sets the timer of the next.
    pub fn hold_sweeps(&self) {
        self.pending.borrow_mut().holds_sweeps = true;
    }

    /// Loses the events that wait, as if their watches had never fired; timers stay.
    pub fn lose_events(&self) {
        self.pending.borrow_mut().queue = ControllerEventManager::new();
    }

    /// Forgets every event and every timer: the process that had them is gone.
    pub fn forget(&self) {
        *self.pending.borrow_mut() = Pending::default();
    }
}

/// The `Clock` port over virtual time.
#[derive(Debug)]
pub struct SimClock {
    time: VirtualTime,
    queue: SimQueue,
    random: SplitMix64,
}

impl SimClock {
    /// Topic ids follow from `seed`.
    pub fn new(time: &VirtualTime, queue: &SimQueue, seed: u64) -> SimClock {
        SimClock {
            time: time.clone(),
            queue: queue.clone(),
            random: SplitMix64(seed),
        }
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn unix_time_ms(&self) -> i64 {
        WORLD_BEGAN_AT_MS + i64::try_from(self.time.now_ms()).unwrap_or(i64::MAX)
    }

    fn schedule(&mut self, delay_ms: u64, event: ControllerEvent) {
        self.queue.schedule(delay_ms, event);
    }

    fn random(&mut self) -> u32 {
        (self.random.next_bits() >> 32) as u32
    }

    fn topic_id(&mut self) -> TopicId {
        loop {
            let bits =
                u128::from(self.random.next_bits()) << 64 | u128::from(self.random.next_bits());
            if let Some(id) = TopicId::new(bits.to_be_bytes()) {
                return id;
            }
        }
    }
}

/// A small generator of good bits (Steele, Lea, Flood 2014): enough for ids and choices, and the same everywhere.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_ring_in_the_order_of_their_time_and_then_of_their_setting() {
        let time = VirtualTime::default();
        let queue = SimQueue::new(&time);
        queue.schedule(20, ControllerEvent::RereadStates);
        queue.schedule(10, ControllerEvent::Reelect);
        queue.schedule(10, ControllerEvent::TakeoverDue);
        queue.ring();
        assert!(queue.is_empty());
        assert_eq!(queue.next_due_ms(), Some(10));
        time.move_to(10);
        queue.ring();
        assert_eq!(queue.take(), Some(ControllerEvent::Reelect));
        assert_eq!(queue.take(), Some(ControllerEvent::TakeoverDue));
        assert_eq!(queue.take(), None);
        assert_eq!(queue.next_due_ms(), Some(20));
    }

    #[test]
    fn a_sweep_that_is_held_back_never_begins_and_nothing_else_is_held() {
        let time = VirtualTime::default();
        let queue = SimQueue::new(&time);
        queue.schedule(10, ControllerEvent::AntiEntropy(Sweep::Begin));
        queue.schedule(10, ControllerEvent::Reelect);
        queue.hold_sweeps();
        time.move_to(10);
        queue.ring();
        assert_eq!(queue.take(), Some(ControllerEvent::Reelect));
        assert_eq!((queue.take(), queue.next_due_ms()), (None, None));
    }

    #[test]
    fn the_same_seed_gives_the_same_topic_ids() {
        let time = VirtualTime::default();
        let queue = SimQueue::new(&time);
        let ids = |seed| {
            let mut clock = SimClock::new(&time, &queue, seed);
            [clock.topic_id(), clock.topic_id()]
        };
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
        assert_ne!(ids(1)[0], ids(1)[1]);
    }
}
