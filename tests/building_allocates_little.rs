//! Tests that builds stay within limits on their peak memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use filterblock::{FilterOptions, HashSeed, KeyHash};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_process::{LIVE, PEAK, PerProcess};
use filterblock_testkit::blocks::spec;

#[global_allocator]
static ALLOCATOR: PerProcess = PerProcess;

/// The lock that lets only one test run at a time, because the counters cover all threads.
static TURN: Mutex<()> = Mutex::new(());

/// The length of a hash in bytes. In debug builds, each hash also has a tag of its hasher. So the
/// bounds of the tests are those of release builds plus [`debug_bytes`].
const HASH_LEN_BYTES: usize = size_of::<KeyHash>();

/// Returns the additional memory of debug builds in bytes, for the hashes of `n` keys and for
/// sorting. If `is_told` is `false`, the builder did not reserve memory for `n` keys, so its vector
/// grows. While it grows, the old and the new vector exist together.
const fn debug_bytes(n: usize, is_told: bool) -> usize {
    (HASH_LEN_BYTES - 8) * (n * if is_told { 1 } else { 3 } + (1 << 15))
}

/// The length of the block, and the peak memory from the creation of the builder to the finished
/// block, both in bytes.
struct Cost {
    block: usize,
    peak: usize,
}

/// Builds a filter of `n` random keys. If `is_told` is `true`, reserves memory for the keys first.
fn build(spec_text: &str, n: usize, threads: usize, is_told: bool) -> Cost {
    let mut random = Random(9);
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut builder =
        FilterOptions::new(spec(spec_text)).threads(NonZeroUsize::new(threads).unwrap()).builder(HashSeed(1)).unwrap();
    if is_told {
        builder.reserve(n);
    }
    (0..n).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
    let block = builder.finish().unwrap().bytes;
    Cost { block: block.len(), peak: PEAK.load(Ordering::Relaxed) - before }
}

#[test]
fn the_test_allocator_counts_peak_bytes() {
    let _turn = TURN.lock();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    drop(vec![0u8; 1 << 20]);
    assert!(PEAK.load(Ordering::Relaxed) - before >= 1 << 20);
}

#[test]
fn a_bumped_ribbon_build_takes_at_most_30_bytes_per_key() {
    let _turn = TURN.lock();
    for spec in ["bumped-ribbon:8", "bumped-ribbon:fpr=0.01", "bumped-ribbon:16", "bumped-ribbon:fpr=0.01:compact"] {
        for is_told in [false, true] {
            let cost = build(spec, 1_000_000, 1, is_told);
            println!("{spec}, told: {is_told}: {:.2} bytes per key", cost.peak as f64 / 1e6);
            assert!(cost.peak <= 30_000_000 + debug_bytes(1_000_000, is_told), "{spec}: peak of {} bytes", cost.peak);
        }
    }
}

#[test]
fn a_bumped_ribbon_takes_at_most_2_mib_beyond_hashes_and_block() {
    let _turn = TURN.lock();
    // A ribbon with `:compact` has no shards and needs rows for all slots, so it is not tested
    // here. With many more keys than here, a build may exceed this limit.
    for spec in ["bumped-ribbon:8", "bumped-ribbon:fpr=0.01", "bumped-ribbon:12.3"] {
        for n in [10_000, 100_000, 1_000_000, 4_000_000] {
            let cost = build(spec, n, 1, true);
            let beyond = cost.peak.saturating_sub(cost.block + HASH_LEN_BYTES * n);
            println!("{spec}, {n} keys: {beyond} bytes beyond");
            assert!(
                beyond <= (2 << 20) + debug_bytes(0, true),
                "{spec}, {n} keys: {beyond} bytes beyond the hashes and the block"
            );
        }
    }
}

#[test]
fn each_added_thread_takes_only_the_rows_of_its_shard() {
    let _turn = TURN.lock();
    let one = build("bumped-ribbon:8", 1_000_000, 1, true).peak;
    let four = build("bumped-ribbon:8", 1_000_000, 4, true).peak;
    println!("one thread {one}, four {four}");
    assert!(four <= one + 3 * (1_200 << 10), "{one} bytes with one thread, {four} with four");
}

#[test]
fn builds_of_other_kinds_stay_within_their_memory_bounds() {
    let _turn = TURN.lock();
    // Each of these kinds needs memory for the hashes and the block. A standard ribbon and a binary
    // fuse filter also take memory for each slot.
    let specs = ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10", "ribbon:8", "binary-fuse:8"];
    for (spec, most) in specs.into_iter().zip([9.4, 9.4, 9.4, 9.4, 31.0, 25.0]) {
        let cost = build(spec, 1_000_000, 1, true);
        println!("{spec}: {:.2} bytes per key", cost.peak as f64 / 1e6);
        assert!(
            cost.peak as f64 <= most * 1e6 + debug_bytes(1_000_000, true) as f64,
            "{spec}: peak of {} bytes",
            cost.peak
        );
    }
}
