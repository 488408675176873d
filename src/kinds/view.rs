//! The view of a filter: queries of bytes under a geometry.

use super::arch::{self, Ask, Isa};
use super::blocked_bloom::{self, LINE_LEN_BYTES};
use super::bumped_ribbon::Columns;
use super::geometry::Geometry;
use super::guard::{Checked, Guard};
use super::{bloom, split_block};
use crate::hash::KeyHash;
use crate::simd;

/// A filter ready to be asked: a borrow of a payload and of the geometry that was checked against its length.
#[derive(Debug, Clone, Copy)]
pub struct FilterView<'a> {
    geometry: &'a Geometry,
    ask: Ask,
    isa: Isa,
    payload: &'a [u8],
    /// The payload and what lies behind it: vector loads may reach beyond the payload's end.
    padded: &'a [u8],
}

impl<'a> FilterView<'a> {
    /// `padded` begins with the payload, of `len` bytes, for whose length `geometry` was made; where it is shorter, answers are
    /// "maybe". With 64 bytes behind the payload every query takes the fast way.
    #[inline]
    pub(crate) fn new(geometry: &'a Geometry, ask: Ask, isa: Isa, padded: &'a [u8], len: usize) -> Self {
        // Where not all is there, nothing is: every kind takes that for "maybe".
        let padded = if padded.len() < len { &[] } else { padded };
        Self { geometry, ask, isa, payload: padded.get(..len).unwrap_or_default(), padded }
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.ask.may_contain(self.geometry, self.padded, self.payload.len(), hash)
    }

    /// The same from some of the filter's columns, if its kind has any.
    #[must_use]
    #[inline]
    pub fn may_contain_with(&self, hash: KeyHash, columns: Columns) -> bool {
        match columns {
            Columns::All => self.may_contain_hash(hash),
            Columns::First => self.may_contain_with_guarded(hash, columns, &Checked),
        }
    }

    #[inline]
    pub(crate) fn may_contain_with_guarded(&self, hash: KeyHash, columns: Columns, guard: &impl Guard) -> bool {
        match (self.geometry, columns) {
            (Geometry::BumpedRibbon(_, ribbon), Columns::First) => {
                ribbon.first_may_contain(self.isa, self.padded, hash, guard)
            }
            (
                Geometry::Empty
                | Geometry::Full
                | Geometry::Bloom { .. }
                | Geometry::BlockedBloom { .. }
                | Geometry::SplitBlock { .. }
                | Geometry::Ribbon(_)
                | Geometry::BumpedRibbon(..)
                | Geometry::BinaryFuse(_),
                Columns::All | Columns::First,
            ) => self.may_contain_guarded(hash, guard),
        }
    }

    /// The same over a payload that is not wholly checked: what `guard` does not vouch for cannot deny a key.
    pub(crate) fn may_contain_guarded(&self, hash: KeyHash, guard: &impl Guard) -> bool {
        match *self.geometry {
            Geometry::Empty => false,
            Geometry::Full => true,
            Geometry::Bloom { probes } => bloom::may_contain(self.payload, probes, hash, guard),
            Geometry::BlockedBloom { probes } => {
                blocked_bloom::may_contain(self.isa, self.payload, probes, hash, guard)
            }
            Geometry::SplitBlock { lanes } => split_block::may_contain(self.isa, lanes, self.payload, hash, guard),
            Geometry::Ribbon(ref ribbon) => ribbon.may_contain(self.isa, self.payload, hash, guard),
            Geometry::BumpedRibbon(_, ref ribbon) => ribbon.may_contain(self.isa, self.padded, hash, guard),
            Geometry::BinaryFuse(ref fuse) => fuse.may_contain(self.payload, hash, guard),
        }
    }

    /// Answers for many keys at once, faster than one by one: cache misses overlap and the kernel is chosen once.
    ///
    /// `answers[i]` belongs to `hashes[i]`; answers beyond the shorter of the two slices are left alone.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        match *self.geometry {
            Geometry::BlockedBloom { probes } => {
                return arch::lines_may_contain(self.isa, self.payload, probes, hashes, answers);
            }
            Geometry::SplitBlock { lanes } => {
                return arch::blocks_may_contain(self.isa, lanes, self.payload, hashes, answers);
            }
            Geometry::BumpedRibbon(_, ref ribbon) => {
                return ribbon.may_contain_batch(self.isa, self.padded, hashes, answers);
            }
            Geometry::BinaryFuse(ref fuse) => return fuse.may_contain_batch(self.payload, hashes, answers),
            Geometry::Empty | Geometry::Full | Geometry::Bloom { .. } | Geometry::Ribbon(_) => {}
        }
        for &hash in hashes {
            self.prefetch(hash);
        }
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = self.may_contain_hash(hash);
        }
    }

    /// Starts to bring the first cache line that a query of `hash` will read into the cache.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        match *self.geometry {
            Geometry::Empty | Geometry::Full => {}
            #[expect(clippy::cast_possible_truncation, reason = "an offset within the payload")]
            Geometry::Bloom { .. } => simd::prefetch(self.payload, bloom::first_byte(self.payload, hash) as usize),
            Geometry::BlockedBloom { .. } => {
                simd::prefetch(self.payload, blocked_bloom::line_offset::<LINE_LEN_BYTES>(self.payload, hash));
            }
            Geometry::SplitBlock { lanes } => simd::prefetch(self.payload, lanes.block_offset(self.payload, hash)),
            Geometry::BinaryFuse(ref fuse) => fuse.prefetch(self.payload, hash),
            Geometry::Ribbon(ref ribbon) => simd::prefetch(self.payload, ribbon.first_byte(hash)),
            Geometry::BumpedRibbon(_, ref ribbon) => simd::prefetch(self.padded, ribbon.first_byte(hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_without_bits_answer_with_and_without_a_guard() {
        for (geometry, answer) in [(Geometry::Empty, false), (Geometry::Full, true)] {
            let view = FilterView::new(&geometry, Ask::new(&geometry, Isa::PORTABLE), Isa::PORTABLE, &[], 0);
            let hash = KeyHash::from_raw(7);
            assert_eq!((view.may_contain_hash(hash), view.may_contain_guarded(hash, &Checked)), (answer, answer));
        }
    }
}
