//! Tests filters with any payload. Every instruction set must give the same answers.

use filterblock::layout::PARTITION_INDEX_TAG;
use filterblock::{Field, FilterBlock, KeyHash, Verify};

use crate::patch::{block_support, sound_block};
use crate::{Input, choose_instruction_set};

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
    let is_index = block_support::get_number(&block, Field::Kind) == PARTITION_INDEX_TAG.into();
    if is_index || input.is_empty() {
        return Vec::new();
    }
    let len = block_support::payload_len(&block).unwrap();
    let front = block.iter_mut().take(len);
    front.zip(input.0.iter().cycle().enumerate()).for_each(|(byte, (i, new))| *byte = new.wrapping_mul(i as u8 | 1));
    block_support::repair_pages(&mut block);
    let filter = FilterBlock::open_any(block.as_slice(), Verify::AtOpen).unwrap();
    let hashes: Vec<KeyHash> = (0..num_keys + 300).map(block_support::hash).collect();
    let mut answers = vec![false; hashes.len()];
    filter.may_contain_batch(&hashes, &mut answers);
    let singly: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain_hash(hash)).collect();
    assert_eq!(answers, singly, "a batch and single queries give different answers");
    answers
}
