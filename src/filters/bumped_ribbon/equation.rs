//! Defines the equation of a key.

use super::hashes::{coefficients, fingerprint};
use super::{GROUP_COLUMNS, MAX_COLUMNS};

/// The maximum number of column groups.
pub(super) const MAX_GROUPS: usize = (MAX_COLUMNS / GROUP_COLUMNS) as usize;

/// The equation of a key within a layer or a single system: the XOR of the slots that the
/// coefficients select must be `sum`.
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
        // Both operations use the start modulo 64. The shift drops the bits that cross into the
        // next block, and the rotation moves them to the low end. The XOR of the two results leaves
        // only these bits.
        #[expect(clippy::cast_possible_truncation, reason = "only the start modulo 64 counts")]
        let shift = self.start as u32;
        let low = self.coefficients.wrapping_shl(shift);
        (low, self.coefficients.rotate_left(shift % u64::BITS) ^ low)
    }
}
