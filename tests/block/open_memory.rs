//! Opening a block, however hostile, takes no more memory than the block has bytes, and 4 KiB; and 200 bytes for each
//! partition that is a ribbon.

use crate::allocation::{LIVE, PEAK};
use crate::support::{SplitMix, block, corpus, mutate, partitioned, put_number, repair_pages};
use filterblock::{Error, Field, FilterBlock, HashSeed, PartitionedBuilder, Verify};

/// The most memory that opening `bytes` holds at once.
fn peak_of_opening(bytes: &[u8], verify: Verify) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    let opened = FilterBlock::open_any(bytes, verify);
    let peak = PEAK.get() - before;
    drop(opened);
    assert_eq!(LIVE.get(), before, "everything is given back");
    usize::try_from(peak).unwrap()
}

fn is_frugal(bytes: &[u8]) {
    is_frugal_but_for("", bytes, 0);
}

fn is_frugal_but_for(what: &str, bytes: &[u8], more: usize) {
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let peak = peak_of_opening(bytes, verify);
        assert!(peak <= bytes.len() + 4096 + more, "{peak} bytes for a block of {}, {verify:?} {what}", bytes.len());
    }
}

#[test]
fn the_allocator_counts() {
    let before = LIVE.get();
    PEAK.set(before);
    drop(vec![0u8; 10_000]);
    assert!(PEAK.get() - before >= 10_000);
}

#[test]
fn a_large_filter_opens_in_a_few_bytes() {
    let bytes = block("blocked-bloom:10", 1_000_000);
    assert!(peak_of_opening(&bytes, Verify::AtOpen) < 1_024);
    // Two bits a page.
    assert!(peak_of_opening(&bytes, Verify::OnFirstTouch) < 1_024);
}

#[test]
fn sound_blocks_of_every_shape_open_within_their_size() {
    corpus().iter().for_each(|bytes| is_frugal(bytes));
}

#[test]
fn the_smallest_partitions_cost_no_more_than_their_bytes() {
    // Each partition takes a trailer and a few bytes of the index, and an entry in memory.
    for spec in ["full", "bloom:1", "blocked-bloom:1", "split-block:1", "split-block-512:1", "binary-fuse:8"] {
        is_frugal_but_for(spec, &partitioned(spec, 20_000, 1), 0);
    }
    // The least that an index holds for a partition, besides: two bytes and a short key.
    let mut builder = PartitionedBuilder::new("full".parse().unwrap(), HashSeed(7), 1);
    (0..100_000u32).for_each(|i| builder.add(&[(i >> 16) as u8, (i >> 8) as u8, i as u8]).unwrap());
    is_frugal(&builder.finish().unwrap());
    // A ribbon's geometry is longer than its few bits.
    for spec in ["ribbon:1", "bumped-ribbon:1"] {
        is_frugal_but_for(spec, &partitioned(spec, 20_000, 1), 20_000 * 200);
        is_frugal_but_for(spec, &partitioned(spec, 200_000, 2_000), 0);
    }
}

#[test]
fn an_index_of_a_million_entries_of_nothing_costs_nothing() {
    // With nothing in front of the index, and with room for a thousand partitions.
    for room in [0, 64_000] {
        let mut bytes = vec![0; room + 6_000_000 + 6_000_000_usize.div_ceil(4096) * 4];
        bytes.extend_from_slice(&partitioned("bloom:10", 0, 1));
        put_number(&mut bytes, Field::PayloadLen, 6_000_000);
        repair_pages(&mut bytes);
        assert!(matches!(
            FilterBlock::open_any(bytes.as_slice(), Verify::AtOpen),
            Err(Error::Corrupt { field: Field::Length, .. })
        ));
        is_frugal(&bytes);
    }
}

#[test]
fn hostile_lengths_cost_no_more_than_the_bytes_there_are() {
    let mut random = SplitMix(3);
    let corpus = corpus();
    for round in 0..40_000 {
        let mut bytes = corpus[round % corpus.len()].clone();
        mutate(&mut bytes, &mut random);
        is_frugal(&bytes);
    }
}
