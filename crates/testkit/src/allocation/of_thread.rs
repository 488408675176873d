//! A global allocator that counts the memory of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // The counters are per thread, because the test harness allocates in other threads.

    /// The bytes that this thread has allocated, less the bytes that it has freed.
    pub static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The maximum of [`LIVE`] since a test last set `PEAK`.
    pub static PEAK: Cell<isize> = const { Cell::new(0) };
    /// The number of allocations, their bytes together, and the bytes of the largest.
    pub static ALLOCATIONS: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

/// Counts memory, and allocates by the system's allocator.
pub struct PerThread;

fn count(change: isize) {
    // On some platforms, a thread that ends frees memory after its thread-local values are gone.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged. The counters are plain cells that
// allocate nothing and have no destructor.
unsafe impl GlobalAlloc for PerThread {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        let _ = ALLOCATIONS.try_with(|found| {
            let (calls, bytes, largest) = found.get();
            found.set((calls + 1, bytes + layout.size(), largest.max(layout.size())));
        });
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}
