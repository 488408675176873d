//! A global allocator that fails allocations on demand.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

thread_local! {
    /// The value of [`CALLS`] when this thread last called [`refuse`], or else when it first
    /// allocated. It is 0 before both.
    static BORN: Cell<usize> = const { Cell::new(0) };
    /// Whether small allocations of this thread are counted and can fail, too.
    static SMALL_TOO: Cell<bool> = const { Cell::new(false) };
}

/// The number of calls of [`refuse`], plus 1. Allocations fail only in the thread that called
/// [`refuse`] last, and in threads that first allocated after this call. This rule excludes the
/// main thread of the test harness and the threads of earlier tests.
static CALLS: AtomicUsize = AtomicUsize::new(1);

/// The minimum length of a large allocation in bytes. Smaller allocations are not counted and
/// succeed, except after [`refuse_small_too`].
pub const LARGE_LEN_BYTES: usize = 1024;

/// The minimum length in bytes of an allocation that counts after [`refuse_small_too`]. The first
/// allocation of a growing vector of 8-byte elements has this length.
pub const SMALL_LEN_BYTES: usize = 32;

static COUNTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static FOR_EVER: AtomicBool = AtomicBool::new(false);

/// Lets the next `number` large allocations succeed, and makes the large allocation after them
/// fail. If `for_ever` is `true`, all later large allocations fail, too. Only allocations of this
/// thread and of threads that start after this call count.
pub fn refuse(number: usize, for_ever: bool) {
    BORN.set(CALLS.fetch_add(1, Ordering::SeqCst) + 1);
    FOR_EVER.store(for_ever, Ordering::SeqCst);
    COUNTED.store(0, Ordering::SeqCst);
    REFUSED_FROM.store(number, Ordering::SeqCst);
}

/// Works like [`refuse`] for one failure, but in this thread, allocations of [`SMALL_LEN_BYTES`] or
/// more count. Allocations after the failure succeed, so that the tested code can build its error.
pub fn refuse_small_too(number: usize) {
    SMALL_TOO.set(true);
    refuse(number, false);
}

/// Lets all allocations succeed again. Returns the number of allocations that were counted since
/// the last call of [`refuse`].
pub fn refuse_none() -> usize {
    REFUSED_FROM.store(usize::MAX, Ordering::SeqCst);
    SMALL_TOO.set(false);
    COUNTED.load(Ordering::SeqCst)
}

fn least_len_bytes() -> usize {
    if SMALL_TOO.get() { SMALL_LEN_BYTES } else { LARGE_LEN_BYTES }
}

/// Fails on demand, and otherwise allocates by the system's allocator.
pub struct Failing;

// SAFETY: a call returns NULL, or passes its arguments to the system's allocator unchanged. The
// counters allocate nothing.
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
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}
