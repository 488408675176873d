//! Back-substitution: from rows in echelon form to slots, the last one first.

use super::band::Row;
use super::hashes::column_group;
use super::layer::{Blocks, Columns};
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::codec::put_u64;
use crate::simd::parities;

/// The 64 slots from the last solved one on: of column `j`, bit `i` is the `i`-th slot.
pub(super) type State = [u64; GROUP_COLUMNS as usize];

/// Solves the rows before those solved so far; `rows[i]` holds the coefficients of slot `i` and its 63 followers, or 0
/// where no key decides the slot.
pub(super) fn solve(rows: &[Row], group: usize, state: &mut State) {
    for row in rows.iter().rev() {
        let sum = column_group(row.sum, group);
        for word in state.iter_mut() {
            *word <<= 1;
        }
        let bits = parities(&state.map(|word| word & row.coefficients)) ^ sum;
        for (j, word) in state.iter_mut().enumerate() {
            *word |= u64::from(bits >> j & 1);
        }
    }
}

/// Solves whole blocks and writes the words of one group, in front of those of the blocks behind.
///
/// `first` is the number of the first block, `words` where its words begin.
#[expect(clippy::indexing_slicing, reason = "words of at most eight columns, within those of the group")]
pub(super) fn solve_blocks(
    rows: &[Row],
    first: usize,
    (blocks, columns, group): (Blocks, Columns, usize),
    state: &mut State,
    words: &mut [u8],
) {
    let of_group = columns.of_group(group);
    let is_last = group + 1 == columns.groups();
    let base = blocks.words_before(first, of_group, is_last);
    let pieces = rows.chunks_exact(BLOCK_SLOTS).enumerate().rev();
    let mut text = Vec::with_capacity(BLOCK_SLOTS);
    for (i, rows) in pieces {
        solve(rows, group, state);
        let from = (blocks.words_before(first + i, of_group, is_last) - base) * 8;
        let to = (blocks.words_before(first + i + 1, of_group, is_last) - base) * 8;
        text.clear();
        state.iter().for_each(|&word| put_u64(&mut text, word));
        words[from..to].copy_from_slice(&text[..to - from]);
    }
}
