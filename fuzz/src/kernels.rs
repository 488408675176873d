//! Tests filters with any payload. Every instruction set must give the same answers.

use filterblock::layout::{PAGE_LEN_BYTES, PARTITION_INDEX_TAG};
use filterblock::{Field, FilterBlock, KeyHash, Verify};

use crate::patch::sound_block;
use crate::{Input, choose_instruction_set};
use filterblock_testkit::blocks;

/// Returns the answers of a filter. The front of the input describes the shape of the filter, and
/// the rest gives the bytes of the payload. Returns no answers for a partition index, or if the
/// input has no rest.
///
/// `FILTERBLOCK_ISA` chooses the kernels once for a process. tests/replay.rs compares processes.
pub fn kernels(data: &[u8]) -> Vec<bool> {
    choose_instruction_set();
    let mut input = Input(data);
    let (mut block, num_keys) = sound_block(&mut input);
    // The payload of a partition index is not a filter, and the block does not begin with it.
    let is_index = blocks::get_number(&block, Field::Kind) == u64::from(PARTITION_INDEX_TAG);
    if is_index || input.is_empty() {
        return Vec::new();
    }
    let len = blocks::payload_len(&block).unwrap();
    let sound = block.clone();
    let front = block.iter_mut().take(len);
    front.zip(input.0.iter().cycle().enumerate()).for_each(|(byte, (i, new))| *byte = new.wrapping_mul(i as u8 | 1));
    deny_only_by_sound_pages(&sound, &block, len, input.0, num_keys);
    blocks::repair_pages(&mut block);
    let filter = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
    let hashes: Vec<KeyHash> = (0..num_keys + 300).map(blocks::hash).collect();
    let mut answers = vec![false; hashes.len()];
    filter.may_contain_batch(&hashes, &mut answers);
    let singly: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain_hash(hash)).collect();
    assert_eq!(answers, singly, "a batch and single queries give different answers");
    answers
}

/// Asks a sound block, of which some pages are those of another payload. A filter that verifies its
/// pages on first touch may say "absent" only if the sound block does: a "maybe" that became "absent"
/// rests on a byte that the query did not verify.
fn deny_only_by_sound_pages(sound: &[u8], other: &[u8], len: usize, choice: &[u8], num_keys: usize) {
    let mut mixed = sound.to_vec();
    let pages = mixed[..len].chunks_mut(PAGE_LEN_BYTES).zip(other[..len].chunks(PAGE_LEN_BYTES));
    for ((page, other), choice) in pages.zip(choice.iter().cycle()) {
        if choice % 2 == 0 {
            page.copy_from_slice(other);
        }
    }
    let sound = FilterBlock::open_any(sound, Verify::AtOpen).unwrap();
    let mixed = FilterBlock::open_any(mixed, Verify::OnFirstTouch).unwrap();
    for hash in (0..num_keys + 300).map(blocks::hash) {
        assert!(mixed.may_contain_hash(hash) || !sound.may_contain_hash(hash), "an answer rests on unverified bytes");
    }
}
