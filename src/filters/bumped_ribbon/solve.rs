//! Implements back-substitution, which computes slots from rows in echelon form, the last slot
//! first.

use super::band::Row;
use super::hashes::column_group;
use super::layer::{Blocks, Columns};
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::codec::put_u64;
use crate::simd::{Isa, Simd, kernels};

/// The 64 slots from the most recently solved slot on. Word `j` belongs to column `j` of a group.
/// Bit 0 of a word belongs to that slot, and the higher bits belong to the slots after it.
pub(super) type State = [u64; GROUP_COLUMNS as usize];

kernels! {
    /// The function of back-substitution, compiled for this processor.
    struct Solve[];
    |simd|

    /// Solves `rows`, from the last to the first. The rows after `rows` must be solved already;
    /// `state` holds their slots. `rows[i]` holds the coefficients of slot `i` and the next 63
    /// slots, or 0 if no key determines the slot.
    fn solve(rows: &[Row], group: usize, state: &mut State) {
        simd.substitute(state, Steps { rows: rows.iter(), group });
    }
}

/// The steps that solve rows, the last row first. A `map` with a closure would not be inlined.
struct Steps<'a> {
    rows: std::slice::Iter<'a, Row>,
    group: usize,
}

impl Iterator for Steps<'_> {
    type Item = (u64, u8);

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a group has eight columns")]
    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next_back().map(|row| (row.coefficients, column_group(row.sum, self.group) as u8))
    }
}

/// Solves `rows` with the kernel that [`Isa::detect`] selects: see [`Solve::solve`].
pub(super) fn solve(rows: &[Row], group: usize, state: &mut State) {
    Solve::new(Isa::detect()).solve(rows, group, state);
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
