//! Counts what a thread asks of the allocator, so that a message that costs more than it weighs is noticed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting. A binary that fuzzes has it as its `#[global_allocator]`; elsewhere the count stands
/// still, which [`is_counting`] tells.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// The bytes that this thread has asked for so far, given back or not.
#[must_use]
pub fn allocated_bytes() -> u64 {
    ALLOCATED.with(Cell::get)
}

/// Whether this binary counts at all.
#[must_use]
pub fn is_counting() -> bool {
    let before = allocated_bytes();
    drop(std::hint::black_box(vec![0_u8; 64]));
    allocated_bytes() > before
}

fn count(bytes: usize) {
    // A thread that is about to end has no counter any more, and is none of ours.
    let _ = ALLOCATED.try_with(|allocated| {
        let more = u64::try_from(bytes).unwrap_or(u64::MAX);
        allocated.set(allocated.get().saturating_add(more));
    });
}

// SAFETY: every call goes on to the system's allocator unchanged; counting neither allocates nor unwinds.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
