//! A key's equation, and how the words of two blocks are asked for it.

use super::hashes::{coefficients, fingerprint};
use super::{BLOCK_SLOTS, GROUP_COLUMNS, MAX_COLUMNS};

/// Most groups of columns.
pub(super) const MAX_GROUPS: usize = (MAX_COLUMNS / GROUP_COLUMNS) as usize;

/// How a query of the words of two adjacent blocks is carried out; one type for each instruction set.
pub(in crate::kinds) trait Parities: Copy {
    /// Bit `j` of the answer is the parity of word `j` of `a` under `low` and of word `j` of `b` under `high`.
    fn of_blocks(self, a: &[u8; 64], b: &[u8; 64], low: u64, high: u64) -> u32;
}

/// One key's equation within a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Equation {
    pub(super) start: usize,
    pub(super) coefficients: u64,
    pub(super) sum: u32,
}

impl Equation {
    #[inline(always)]
    pub(super) fn new(start: usize, hash: u64) -> Self {
        Self { start, coefficients: coefficients(hash), sum: fingerprint(hash) }
    }

    /// The coefficients of the slots of the start's block, and of the block behind it.
    #[inline(always)]
    pub(super) fn split(&self) -> (u64, u64) {
        let shift = self.start % BLOCK_SLOTS;
        (self.coefficients << shift, (self.coefficients >> 1) >> (BLOCK_SLOTS - 1 - shift))
    }
}
