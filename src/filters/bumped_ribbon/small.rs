//! Builds and queries a single system with any number of slots. The system holds all keys of a
//! small filter, or the keys that the last layer bumped.
//!
//! The number of slots is exact and not rounded to blocks: the columns of the last, short block
//! follow each other bit by bit. With 64 slots or more, an equation has 64 coefficients; with fewer
//! slots, it has one per slot.

use super::band::{Moving, Rows};
use super::band::{State, solve, solve_blocks};
use super::hashes::{Equation, MAX_GROUPS};
use super::hashes::{coefficients, column_group, fingerprint, seeded};
use super::layer::{Blocks, Columns, FirstGroup, Starts};
use super::{BLOCK_SLOTS, GROUP_COLUMNS};
use crate::codec::u64_from;
use crate::hash::KeyHash;
use crate::simd::{NoMemory, try_collect, try_zeros};
use crate::simd::{Simd, parities};

/// A single system as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Small {
    pub(super) slots: usize,
    pub(super) seed: u8,
    pub(super) starts: Starts,
    /// The whole blocks, without the last, short block.
    pub(super) blocks: Blocks,
    /// The offset of each group of columns.
    pub(super) groups: [usize; MAX_GROUPS],
    pub(super) first: FirstGroup,
}

impl Small {
    pub(super) fn new(slots: usize, seed: u8, columns: Columns) -> Self {
        let blocks = Blocks::new(slots / BLOCK_SLOTS, columns);
        let first = FirstGroup::new(0, blocks, columns);
        Self { slots, seed, starts: Starts::new(slots), blocks, groups: [0; MAX_GROUPS], first }
    }

    /// Returns the number of slots in the last, short block.
    pub(super) fn tail(&self) -> usize {
        self.slots % BLOCK_SLOTS
    }

    pub(super) fn len_bytes(&self, columns: Columns, group: usize) -> usize {
        self.blocks.len_bytes(columns, group) + (self.tail() * columns.of_group(group)).div_ceil(8)
    }

    #[inline(always)]
    fn equation(&self, hash: u64) -> Equation {
        // Only slots that exist can have a coefficient.
        let existing = if self.slots < BLOCK_SLOTS { (1 << self.slots) - 1 } else { u64::MAX };
        Equation { start: self.starts.of(hash), coefficients: coefficients(hash) & existing, sum: fingerprint(hash) }
    }

    #[inline(always)]
    pub(super) fn ask(&self, simd: impl Simd, columns: Columns, bytes: &[u8], hash: u64, groups: usize) -> bool {
        let equation = self.equation(seeded(hash, self.seed));
        let is_whole = equation.start / BLOCK_SLOTS + 1 < self.blocks.count;
        if is_whole {
            return self.first.holds(simd, bytes, equation)
                && (groups == 1 || self.ask_slowly(columns, bytes, equation, groups));
        }
        self.ask_slowly(columns, bytes, equation, groups)
    }

    /// Returns whether the equation holds in the first `groups` groups of columns, even if it
    /// reaches the short block. A group with missing bytes counts as a match.
    #[inline(never)]
    fn ask_slowly(&self, columns: Columns, bytes: &[u8], equation: Equation, groups: usize) -> bool {
        let (low, high) = equation.split();
        let block = equation.start / BLOCK_SLOTS;
        (0..groups).all(|group| {
            let is_last = group + 1 == columns.groups();
            let used = columns.of_group(group) - usize::from(is_last && block < self.blocks.fewer);
            let mut words: State = [0; GROUP_COLUMNS as usize];
            for (column, word) in words.iter_mut().enumerate().take(used) {
                let first = self.word(columns, bytes, block, column, group);
                let second = if high == 0 { Some(0) } else { self.word(columns, bytes, block + 1, column, group) };
                let (Some(first), Some(second)) = (first, second) else { return true };
                *word = first & low ^ second & high;
            }
            let differ = parities(&words) ^ column_group(equation.sum, group);
            differ & ((1 << used) - 1) == 0
        })
    }

    /// Returns the slots of one block in one column, or `None` beyond `bytes`.
    #[inline]
    fn word(&self, columns: Columns, bytes: &[u8], block: usize, column: usize, group: usize) -> Option<u64> {
        let of_group = columns.of_group(group);
        let words = self.blocks.words_before(block.min(self.blocks.count), of_group, group + 1 == columns.groups());
        let base = self.groups.get(group)? + 8 * words;
        if block < self.blocks.count {
            return bytes.get(base + 8 * column..)?.first_chunk().map(u64_from);
        }
        let bit = column * self.tail();
        let (low, rest) = bytes.get(base + bit / 8..)?.split_first_chunk()?;
        let shift = bit % 8;
        let word = u64_from(low) >> shift | (u64::from(*rest.first()?) << 1) << (63 - shift);
        Some(word & ((1 << self.tail()) - 1))
    }

    /// Solves the system of these hashes under its seed. Returns the bytes of each group, or `None`
    /// if the system has no solution. `rows` is scratch memory.
    pub(super) fn solve(
        &self,
        columns: Columns,
        hashes: &[KeyHash],
        rows: &mut Rows,
    ) -> Result<Option<Vec<Vec<u8>>>, NoMemory> {
        // The equations are inserted in the order of their starts, which is the order of their
        // hashes. In this order, an equation meets fewer taken rows than in a random order.
        let mut seeded: Vec<u64> = try_collect(hashes.iter().map(|hash| seeded(hash.raw(), self.seed)))?;
        seeded.sort_unstable();
        rows.reset(self.slots)?;
        let wanted = wanted_sums(columns);
        let equations = seeded.into_iter().map(|hash| {
            let Equation { start, coefficients, sum } = self.equation(hash);
            Moving { row: start, coefficients, sum: sum & wanted }
        });
        if !rows.insert_all(equations, self.slots, |_| {}) {
            return Ok(None);
        }
        (0..columns.groups()).map(|group| self.encode(columns, group, rows)).collect::<Result<_, _>>().map(Some)
    }

    #[expect(clippy::indexing_slicing, reason = "the memory has one bit for each slot of each column")]
    fn encode(&self, columns: Columns, group: usize, rows: &Rows) -> Result<Vec<u8>, NoMemory> {
        let mut out: Vec<u8> = try_zeros(self.len_bytes(columns, group))?;
        let whole = self.blocks.count * BLOCK_SLOTS;
        let (rows, tail_rows) = rows.0.split_at(whole);
        let (words, tail) = out.split_at_mut(self.blocks.len_bytes(columns, group));
        let mut state: State = [0; GROUP_COLUMNS as usize];
        let tail_len = self.tail();
        solve(tail_rows, group, &mut state);
        for (column, word) in state.iter().enumerate().take(columns.of_group(group)) {
            for slot in 0..tail_len {
                let bit = column * tail_len + slot;
                tail[bit / 8] |= u8::from(word >> slot & 1 == 1) << (bit % 8);
            }
        }
        solve_blocks(rows, 0, (self.blocks, columns, group), &mut state, words);
        Ok(out)
    }
}

/// Returns the mask of the fingerprint bits for which the filter has columns.
pub(super) fn wanted_sums(columns: Columns) -> u32 {
    // Group 0 uses the highest byte of the fingerprint, group 1 the next lower byte, and so on. The
    // first column of a group uses the lowest bit of the byte.
    (0..columns.groups()).map(|group| ((1u32 << columns.of_group(group)) - 1) << (24 - 8 * group)).sum()
}
