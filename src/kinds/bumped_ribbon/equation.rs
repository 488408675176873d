//! The equation of a key.

use super::hashes::{coefficients, fingerprint};
use super::{BLOCK_SLOTS, GROUP_COLUMNS, MAX_COLUMNS};

/// The maximum number of column groups.
pub(super) const MAX_GROUPS: usize = (MAX_COLUMNS / GROUP_COLUMNS) as usize;

/// The equation of a key within a layer: the XOR of the slots that the coefficients select must be
/// `sum`.
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

    /// Returns the coefficients of the slots in the block of the start, and in the next block.
    #[inline(always)]
    pub(super) fn split(&self) -> (u64, u64) {
        let shift = self.start % BLOCK_SLOTS;
        (self.coefficients << shift, (self.coefficients >> 1) >> (BLOCK_SLOTS - 1 - shift))
    }
}
