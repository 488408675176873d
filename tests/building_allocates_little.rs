//! Building a filter takes little memory beyond the hashes and the block: a bumped ribbon works in shards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

#[path = "allocation/of_process.rs"]
mod allocation;
#[path = "block/support.rs"]
mod support;

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use allocation::{LIVE, PEAK};
use filterblock::{FilterBuilder, HashSeed, KeyHash};
use support::{SplitMix, spec};

/// Of all threads: a build may use several. The tests take turns, and the harness itself needs a few hundred bytes.
static TURN: Mutex<()> = Mutex::new(());

/// Debug builds keep beside each hash which hasher made it. The bounds below are those of release builds, and hold there.
const HASH_LEN_BYTES: usize = size_of::<KeyHash>();

/// What debug builds take more for the hashes of `n` keys and to sort them; a vector that doubles is there twice over meanwhile.
const fn debug_bytes(n: usize, is_told: bool) -> usize {
    (HASH_LEN_BYTES - 8) * (n * if is_told { 1 } else { 3 } + (1 << 15))
}

/// Bytes of the block, and the most that were held at once from the builder's first key to the finished block.
struct Cost {
    block: usize,
    peak: usize,
}

/// Adds `n` random keys to a builder that was told their number, or was not.
fn build(spec_text: &str, n: usize, threads: usize, is_told: bool) -> Cost {
    let mut random = SplitMix(9);
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut builder =
        FilterBuilder::new(spec(spec_text), HashSeed(1)).with_threads(NonZeroUsize::new(threads).unwrap());
    if is_told {
        builder.reserve(n);
    }
    (0..n).for_each(|_| builder.add_hash(KeyHash::from_raw(random.next())));
    let block = builder.finish().unwrap();
    Cost { block: block.len(), peak: PEAK.load(Ordering::Relaxed) - before }
}

#[test]
fn the_allocator_counts() {
    let _turn = TURN.lock();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    drop(vec![0u8; 1 << 20]);
    assert!(PEAK.load(Ordering::Relaxed) - before >= 1 << 20);
}

#[test]
fn a_bumped_ribbon_takes_at_most_30_bytes_a_key_in_all() {
    let _turn = TURN.lock();
    for spec in ["bumped-ribbon:8", "bumped-ribbon:fpr=0.01", "bumped-ribbon:16", "bumped-ribbon:fpr=0.01:compact"] {
        for is_told in [false, true] {
            let cost = build(spec, 1_000_000, 1, is_told);
            println!("{spec}, told: {is_told}: {:.2} bytes a key", cost.peak as f64 / 1e6);
            assert!(cost.peak <= 30_000_000 + debug_bytes(1_000_000, is_told), "{spec}: {} bytes at once", cost.peak);
        }
    }
}

#[test]
fn a_bumped_ribbon_takes_2_mb_beside_hashes_and_block_at_most() {
    let _turn = TURN.lock();
    // The compact setting has no shards: it takes the rows of all slots. What grows with the keys is the second layer's
    // columns, which are there twice for a while: from some 15 million keys on that passes what the rows of a shard leave.
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
fn a_thread_more_takes_the_rows_of_its_shard_more() {
    let _turn = TURN.lock();
    let one = build("bumped-ribbon:8", 1_000_000, 1, true).peak;
    let four = build("bumped-ribbon:8", 1_000_000, 4, true).peak;
    println!("one thread {one}, four {four}");
    assert!(four <= one + 3 * (1_200 << 10), "{one} bytes with one thread, {four} with four");
}

#[test]
fn other_kinds_take_no_more_than_they_are_said_to() {
    let _turn = TURN.lock();
    // Hashes and block for all; beside them 20 bytes a slot for a standard ribbon, and for a binary fuse filter 13 bytes a
    // slot.
    let specs = ["bloom:10", "blocked-bloom:10", "split-block:10", "split-block-512:10", "ribbon:8", "binary-fuse:8"];
    for (spec, most) in specs.into_iter().zip([9.3, 9.3, 9.3, 9.3, 31.0, 25.0]) {
        let cost = build(spec, 1_000_000, 1, true);
        println!("{spec}: {:.2} bytes a key", cost.peak as f64 / 1e6);
        assert!(
            cost.peak as f64 <= most * 1e6 + debug_bytes(1_000_000, true) as f64,
            "{spec}: {} bytes at once",
            cost.peak
        );
    }
}
