//! Tests that decoding a filter copies its bytes once, and that a query allocates nothing.
#![allow(unsafe_code, reason = "a global allocator needs unsafe code")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use filterblock_slatedb::Filters;
use slatedb::bytes::Bytes;
use slatedb::{FilterQuery, RowEntry, ValueDeletable};

thread_local! {
    // The counters are per thread, because the test harness allocates in other threads.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged. The counters are plain cells that
// allocate nothing and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may allocate memory after its thread-local values are gone.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, which is that of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`. Returns its result, the number of its allocations, and their total length in bytes.
fn counted<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = (CALLS.get(), BYTES.get());
    let result = work();
    (result, CALLS.get() - before.0, BYTES.get() - before.1)
}

#[test]
fn decode_copies_the_bytes_once_and_queries_copy_nothing() {
    for spec in ["bloom:10", "blocked-bloom:10", "bumped-ribbon:7", "binary-fuse:8"] {
        let filters = Filters::new(spec.parse().unwrap());
        let policy = filters.policies().remove(0);
        let mut builder = policy.builder();
        for i in 0..100_000u32 {
            let key = Bytes::copy_from_slice(&i.to_le_bytes());
            builder.add_entry(&RowEntry {
                key,
                value: ValueDeletable::Tombstone,
                seq: 1,
                create_ts: None,
                expire_ts: None,
            });
        }
        let mut bytes = Vec::new();
        builder.build().encode(&mut bytes);

        drop(policy.decode(&bytes)); // detects the processor's instruction set once
        // Decoding allocates the copy, bytes for its alignment, and a few small objects.
        for (given, what) in [(bytes.clone(), "sound"), (vec![0; bytes.len()], "zeroed")] {
            let (filter, calls, allocated) = counted(|| policy.decode(&given));
            let extra = allocated - given.len();
            println!("{spec}, {what}: {} bytes, {calls} allocations, {extra} bytes more", given.len());
            assert!((1..2_048).contains(&extra) && calls <= 12, "{spec}, {what}: {calls}, {extra}");

            let (clamped, _, allocated) = counted(|| filter.clamp_allocated_size());
            assert!(allocated < 64, "{spec}, {what}: {allocated}");
            let query = FilterQuery::point(Bytes::from_static(b"absent"));
            let (_, calls, _) = counted(|| clamped.might_match(&query));
            assert_eq!(calls, 0, "{spec}, {what}");
        }
    }
}
