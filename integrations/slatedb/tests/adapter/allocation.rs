//! Tests that decoding a filter copies its bytes once, and that a query allocates nothing.

use filterblock_slatedb::Filters;
use filterblock_testkit::allocation::of_thread::{ALLOCATIONS, PerThread};
use slatedb::bytes::Bytes;
use slatedb::{FilterQuery, ValueDeletable};

use crate::common::entry;
use crate::policy::encoded;

#[global_allocator]
static ALLOCATOR: PerThread = PerThread;

/// Runs `work`. Returns its result, the number of its allocations, and their total length in bytes.
fn allocated_by<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    ALLOCATIONS.set((0, 0, 0));
    let result = work();
    let (calls, bytes, _) = ALLOCATIONS.get();
    (result, calls, bytes)
}

#[test]
fn decode_copies_the_bytes_once_and_queries_copy_nothing() {
    for spec in ["bloom:10", "blocked-bloom:10", "bumped-ribbon:7", "binary-fuse:8"] {
        let filters = Filters::new(spec.parse().unwrap());
        let policy = filters.policies().remove(0);
        let mut builder = policy.builder();
        for i in 0..100_000u32 {
            let key = Bytes::copy_from_slice(&i.to_le_bytes());
            builder.add_entry(&entry(key, ValueDeletable::Tombstone));
        }
        let bytes = encoded(&*builder.build());

        drop(policy.decode(&bytes)); // detects the processor's instruction set once
        // Decoding allocates the copy, bytes for its alignment, and a few small objects.
        for (given, what) in [(bytes.clone(), "sound"), (vec![0; bytes.len()], "zeroed")] {
            let (filter, calls, allocated) = allocated_by(|| policy.decode(&given));
            let extra = allocated - given.len();
            println!("{spec}, {what}: {} bytes, {calls} allocations, {extra} bytes more", given.len());
            assert!((1..2_048).contains(&extra) && calls <= 12, "{spec}, {what}: {calls}, {extra}");

            let (clamped, _, allocated) = allocated_by(|| filter.clamp_allocated_size());
            assert!(allocated < 64, "{spec}, {what}: {allocated}");
            let query = FilterQuery::point(Bytes::from_static(b"absent"));
            let (_, calls, _) = allocated_by(|| clamped.might_match(&query));
            assert_eq!(calls, 0, "{spec}, {what}");
        }
    }
}
