//! A global allocator that refuses large allocations on demand: the n-th of them, or every one from the n-th on.
#![allow(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

thread_local! {
    /// The number of calls of [`refuse`] when this thread first allocated; 0 if it has not.
    static BORN: Cell<usize> = const { Cell::new(0) };
    /// Whether the small allocations of this thread are counted and refused too.
    static SMALL_TOO: Cell<bool> = const { Cell::new(false) };
}

/// The number of calls of [`refuse`], and 1. Refused are the thread that called last and the threads that began since: not the
/// harness, and not the thread of an earlier test, which reports its result while the next test runs.
static CALLS: AtomicUsize = AtomicUsize::new(1);

/// Smaller allocations succeed, those of messages and of threads, but in [`refuse_small_too`].
pub const LARGE_LEN_BYTES: usize = 1024;

/// What the first element of a vector of eight bytes each takes. Smaller ones are of fixed size, and of texts.
pub const SMALL_LEN_BYTES: usize = 32;

static COUNTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static FOR_EVER: AtomicBool = AtomicBool::new(false);

/// Refuses the large allocation of this number, counted from 0 and of all threads, and all later ones if it is `for_ever`.
pub fn refuse(number: usize, for_ever: bool) {
    BORN.set(CALLS.fetch_add(1, Ordering::SeqCst) + 1);
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
        let calls = CALLS.load(Ordering::SeqCst);
        if BORN.get() == 0 {
            BORN.set(calls);
        }
        let from = REFUSED_FROM.load(Ordering::SeqCst);
        if from != usize::MAX && BORN.get() == calls && layout.size() >= least_len_bytes() {
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
