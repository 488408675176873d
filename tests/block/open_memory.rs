//! Tests the memory limit of opening a block, even a hostile block: the block's length plus 4 KiB.
//! Each partition that is a ribbon or a range filter may take 200 bytes more.

use filterblock::{Error, Field, FilterBlock, FilterOptions, Verify};
use filterblock_testkit::Random;
use filterblock_testkit::allocation::of_thread::{LIVE, PEAK};
use filterblock_testkit::blocks::{
    BOTH, SEED, block, built, built_in_partitions, corpus, key, mutate, partitioned, put_number, repair_pages, spec,
};

/// Returns the peak memory, in bytes, that opening `bytes` allocates. Asserts that dropping the
/// block frees all of the memory.
fn peak_of_opening(bytes: &[u8], verify: Verify) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    let opened = FilterBlock::open_any(bytes, verify);
    let peak = PEAK.get() - before;
    drop(opened);
    assert_eq!(LIVE.get(), before, "opening and dropping a block leaks memory");
    usize::try_from(peak).unwrap()
}

/// Returns the blocks of the common corpus, and range filters.
fn corpus_with_ranges() -> Vec<Vec<u8>> {
    let whole = built(&FilterOptions::new(spec("grafite:fpr=0.01")), SEED, (0..500).map(key));
    corpus().into_iter().chain([whole, partitioned("grafite:10", 1_000, 100)]).collect()
}

fn assert_frugal(bytes: &[u8]) {
    assert_frugal_with_extra("", bytes, 0);
}

fn assert_frugal_with_extra(what: &str, bytes: &[u8], more: usize) {
    for verify in BOTH {
        let peak = peak_of_opening(bytes, verify);
        assert!(
            peak <= bytes.len() + 4096 + more,
            "peak of {peak} bytes for a block of {} bytes, {verify:?} {what}",
            bytes.len()
        );
    }
}

#[test]
fn the_test_allocator_counts_live_and_peak_bytes() {
    let before = LIVE.get();
    PEAK.set(before);
    drop(vec![0u8; 10_000]);
    assert!(PEAK.get() - before >= 10_000);
}

#[test]
fn a_large_filter_opens_with_less_than_a_kibibyte() {
    let bytes = block("blocked-bloom:10", 1_000_000);
    assert!(peak_of_opening(&bytes, Verify::AtOpen) < 1_024);
    // With `OnFirstTouch`, the states of the pages take two bits per page.
    assert!(peak_of_opening(&bytes, Verify::OnFirstTouch) < 1_024);
}

#[test]
fn sound_blocks_open_within_the_memory_limit() {
    corpus_with_ranges().iter().for_each(|bytes| assert_frugal(bytes));
}

#[test]
fn the_smallest_partitions_open_within_the_memory_limit() {
    // Each partition has a trailer and an index entry on disk, and an entry in memory.
    for text in ["always-maybe", "bloom:1", "blocked-bloom:1", "split-block:1", "split-block-512:1", "binary-fuse:8"] {
        assert_frugal_with_extra(text, &partitioned(text, 20_000, 1), 0);
    }
    // Always-maybe filters with short keys have very small index entries.
    let keys = (0..100_000u32).map(|i| [(i >> 16) as u8, (i >> 8) as u8, i as u8]);
    assert_frugal(&built_in_partitions(&FilterOptions::new(spec("always-maybe")), SEED, 1, keys));
    // The geometry of a ribbon takes more memory than its few bits.
    for spec in ["ribbon:1", "bumped-ribbon:1"] {
        assert_frugal_with_extra(spec, &partitioned(spec, 20_000, 1), 20_000 * 200);
        assert_frugal_with_extra(spec, &partitioned(spec, 200_000, 2_000), 0);
    }
}

#[test]
fn partitions_of_range_filters_open_within_the_limit() {
    // The geometry of a range filter takes more memory than its few bits.
    for (spec, keys, partition_keys) in [
        ("grafite:1", 20_000, 1),
        ("grafite:50", 20_000, 1),
        ("grafite:fpr=0.01", 20_000, 1),
        ("grafite:L=1024:fpr=0.01", 20_000, 1),
        ("grafite:1", 20_000, 2),
        ("grafite:1", 200_000, 2_000),
    ] {
        let num_partitions = keys / partition_keys;
        assert_frugal_with_extra(spec, &partitioned(spec, keys, partition_keys), num_partitions * 200);
    }
    assert_frugal_with_extra("grafite:10", &partitioned("grafite:10", 200_000, 2_000), 0);
}

#[test]
fn a_hostile_index_of_a_million_entries_keeps_the_memory_limit() {
    // The first file has no bytes before the index, the second has room for a thousand partitions.
    for room in [0, 64_000] {
        let mut bytes = vec![0; room + 6_000_000 + 6_000_000_usize.div_ceil(4096) * 4];
        bytes.extend_from_slice(&partitioned("bloom:10", 0, 1));
        put_number(&mut bytes, Field::PayloadLen, 6_000_000);
        repair_pages(&mut bytes);
        assert!(matches!(
            FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen),
            Err(Error::Corrupt { field: Field::Length, .. })
        ));
        assert_frugal(&bytes);
    }
}

#[test]
fn hostile_lengths_keep_the_memory_limit() {
    let mut random = Random(3);
    let corpus = corpus_with_ranges();
    for round in 0..40_000 {
        let mut bytes = corpus[round % corpus.len()].clone();
        mutate(&mut bytes, &mut random);
        assert_frugal(&bytes);
    }
}
