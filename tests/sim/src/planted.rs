//! Faults of the ZooKeeper port that the seeded worlds must find, beside those of the controller.
//!
//! Compiled for the proof alone. Must never be planted anywhere else.

use std::cell::Cell;

thread_local! {
    static UNFENCED: Cell<bool> = const { Cell::new(false) };
}

/// From now on writes on this thread are performed whoever is the controller, or again only under the term's epoch.
pub fn plant_unfenced(is_unfenced: bool) {
    UNFENCED.set(is_unfenced);
}

/// Whether the check of the epoch is dropped.
pub(crate) fn is_unfenced() -> bool {
    UNFENCED.get()
}
