//! A global allocator that counts the memory of all threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes that are allocated now.
pub static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The maximum of [`LIVE`] since a test last set `PEAK`.
pub static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts memory, and allocates by the system's allocator.
pub struct PerProcess;

// SAFETY: every call goes to the system's allocator unchanged. The counters allocate nothing.
unsafe impl GlobalAlloc for PerProcess {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}
