//! Back-substitution: from rows in echelon form to slots, the last one first.

use super::band::Row;
use super::hashes::column_group;
use super::layer::{Blocks, Columns};
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::codec::put_u64;

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

/// The parity of each of eight words, in the bits of the answer.
///
/// Each round folds all words to half their length and puts two into one, so that the eight cost little more than two.
#[inline(always)]
pub(super) fn parities(words: &State) -> u32 {
    let [a, b, c, d, e, f, g, h] = *words;
    let join =
        |low: u64, high: u64, bits: u32, mask: u64| ((low ^ (low >> bits)) & mask) | ((high ^ (high << bits)) & !mask);
    let half = 0x0000_0000_ffff_ffff;
    let quarter = 0x0000_ffff_0000_ffff;
    let eighth = 0x00ff_00ff_00ff_00ff;
    // The bytes of the result belong to words 0 to 7 in this order.
    let low = join(join(a, e, 32, half), join(c, g, 32, half), 16, quarter);
    let high = join(join(b, f, 32, half), join(d, h, 32, half), 16, quarter);
    let mut bytes = join(low, high, 8, eighth);
    bytes ^= bytes >> 4;
    bytes ^= bytes >> 2;
    bytes ^= bytes >> 1;
    // Gathers the lowest bits of the eight bytes into the highest byte.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_are_those_of_counting() {
        let mut x = 1u64;
        for _ in 0..1_000 {
            let words: State = std::array::from_fn(|_| {
                x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ 0x55;
                x
            });
            let counted = words.iter().enumerate().fold(0, |bits, (j, word)| bits | (word.count_ones() & 1) << j);
            assert_eq!(parities(&words), counted);
        }
    }
}
