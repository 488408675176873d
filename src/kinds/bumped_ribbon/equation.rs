//! A key's equation.

use super::hashes::{coefficients, fingerprint};
use super::{BLOCK_SLOTS, GROUP_COLUMNS, MAX_COLUMNS};

/// Most groups of columns.
pub(super) const MAX_GROUPS: usize = (MAX_COLUMNS / GROUP_COLUMNS) as usize;

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
