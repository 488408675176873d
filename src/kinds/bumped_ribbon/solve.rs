//! Back-substitution, which computes slots from rows in echelon form, the last slot first.

use super::band::Row;
use super::hashes::column_group;
use super::layer::{Blocks, Columns};
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::codec::put_u64;
use crate::simd::parities;

/// The 64 slots from the last solved slot on. In the word of column `j`, bit `i` is slot `i`.
pub(super) type State = [u64; GROUP_COLUMNS as usize];

/// Solves the rows before the solved rows. `rows[i]` holds the coefficients of slot `i` and the
/// next 63 slots, or 0 if no key determines the slot.
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

/// Solves whole blocks and writes their words of one group.
///
/// `first` is the number of the first block, and `words` begins with that block's words.
#[expect(clippy::indexing_slicing, reason = "the words have at most eight columns and lie within the group")]
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
