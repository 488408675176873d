//! A global allocator that refuses large allocations on demand: the n-th of them, or every one from the n-th on.
#![allow(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

thread_local! {
    /// Whether this is the thread of the test harness, which reports the last test while the next one runs.
    static IS_HARNESS: Cell<bool> = const { Cell::new(false) };
    /// Whether the small allocations of this thread are counted and refused too.
    static SMALL_TOO: Cell<bool> = const { Cell::new(false) };
}

/// Whether any thread has allocated yet. The first one is the main thread, where the harness runs.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Smaller allocations succeed, those of messages and of threads, but in [`refuse_small_too`].
pub const LARGE_LEN_BYTES: usize = 1024;

/// What the first element of a vector of eight bytes each takes. Smaller ones are of fixed size, and of texts.
pub const SMALL_LEN_BYTES: usize = 32;

static COUNTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static FOR_EVER: AtomicBool = AtomicBool::new(false);

/// Refuses the large allocation of this number, counted from 0 and of all threads, and all later ones if it is `for_ever`.
pub fn refuse(number: usize, for_ever: bool) {
    // With one test at a time, the harness runs the tests on its own thread.
    IS_HARNESS.set(false);
    FOR_EVER.store(for_ever, Ordering::SeqCst);
    COUNTED.store(0, Ordering::SeqCst);
    REFUSED_FROM.store(number, Ordering::SeqCst);
}

/// Refuses the allocation of this number once, a small one of this thread too, but for the smallest. The allocations behind it
/// succeed, so that an error can be made.
pub fn refuse_small_too(number: usize) {
    SMALL_TOO.set(true);
    refuse(number, false);
}

/// Refuses none any more; gives how many allocations were counted.
pub fn refuse_none() -> usize {
    REFUSED_FROM.store(usize::MAX, Ordering::SeqCst);
    SMALL_TOO.set(false);
    COUNTED.load(Ordering::SeqCst)
}

fn least_len_bytes() -> usize {
    if SMALL_TOO.get() { SMALL_LEN_BYTES } else { LARGE_LEN_BYTES }
}

struct Failing;

// SAFETY: every call that is not refused is passed on to the system's allocator as it came; the counters allocate nothing.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !HAS_BEGUN.swap(true, Ordering::SeqCst) {
            IS_HARNESS.set(true);
        }
        let from = REFUSED_FROM.load(Ordering::SeqCst);
        if from != usize::MAX && !IS_HARNESS.get() && layout.size() >= least_len_bytes() {
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
