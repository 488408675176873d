//! A global allocator that refuses large allocations on demand: the n-th of them, or every one from the n-th on.
#![allow(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Smaller allocations always succeed: those of messages, of threads and of the test harness.
pub const LARGE_LEN_BYTES: usize = 1024;

static COUNTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static FOR_EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the thread allocated while none was refused, and did not itself ask for refusals: it is the test harness.
    static IS_SPARED: Cell<bool> = const { Cell::new(false) };
}

/// Refuses the large allocation of this number, counted from 0 and of this thread and those that it starts, and all later ones if it is `for_ever`.
pub fn refuse(number: usize, for_ever: bool) {
    IS_SPARED.set(false);
    FOR_EVER.store(for_ever, Ordering::SeqCst);
    COUNTED.store(0, Ordering::SeqCst);
    REFUSED_FROM.store(number, Ordering::SeqCst);
}

/// Refuses none any more; gives how many large allocations were asked for.
pub fn refuse_none() -> usize {
    REFUSED_FROM.store(usize::MAX, Ordering::SeqCst);
    COUNTED.load(Ordering::SeqCst)
}

struct Failing;

// SAFETY: every call that is not refused is passed on to the system's allocator as it came; the counters allocate nothing.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let from = REFUSED_FROM.load(Ordering::SeqCst);
        if from == usize::MAX {
            IS_SPARED.set(true);
        } else if layout.size() >= LARGE_LEN_BYTES && !IS_SPARED.get() {
            let number = COUNTED.fetch_add(1, Ordering::SeqCst);
            if number == from || number > from && FOR_EVER.load(Ordering::SeqCst) {
                return std::ptr::null_mut();
            }
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;
