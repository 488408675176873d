//! The view of a filter: queries of bytes under a geometry.

use super::Columns;
use super::binary_fuse::{Slots, Width};
use super::blocked_bloom::BlockedBloom;
use super::bloom::Bloom;
use super::bumped_ribbon::BumpedRibbon;
use super::constant::{Empty, Full};
use super::geometry::Geometry;
use super::guard::Guard;
use super::kernels::{BatchKernel, Kernel};
use super::query::Query;
use super::ribbon::Ribbon;
use super::split_block::{Lanes, SplitBlock, SplitBlock512};
use crate::hash::KeyHash;

/// A filter ready to be asked: a borrow of a payload and of the geometry that was checked against its length.
#[derive(Debug, Clone, Copy)]
pub struct FilterView<'a> {
    geometry: &'a Geometry,
    kernel: Kernel,
    /// Of the payload.
    len: usize,
    /// The payload and what lies behind it: vector loads may reach beyond the payload's end.
    padded: &'a [u8],
}

/// Calls a function of [`Query`] of the kind of a geometry, with what the kind's queries need of it.
macro_rules! of_kind {
    ($geometry:expr, $function:ident($($before:expr)?; $($argument:expr),+)) => {
        match $geometry {
            Geometry::Empty => Empty::$function($($before,)? (), $($argument),+),
            Geometry::Full => Full::$function($($before,)? (), $($argument),+),
            &Geometry::Bloom { probes } => Bloom::$function($($before,)? probes, $($argument),+),
            &Geometry::BlockedBloom { probes } => BlockedBloom::$function($($before,)? probes, $($argument),+),
            Geometry::SplitBlock { lanes: Lanes::Narrow } => SplitBlock::$function($($before,)? (), $($argument),+),
            Geometry::SplitBlock { lanes: Lanes::Wide } => SplitBlock512::$function($($before,)? (), $($argument),+),
            Geometry::Ribbon(ribbon) => Ribbon::$function($($before,)? ribbon, $($argument),+),
            Geometry::BumpedRibbon(_, ribbon) => BumpedRibbon::$function($($before,)? ribbon, $($argument),+),
            Geometry::BinaryFuse(fuse) => match fuse.width() {
                Width::Eight => Slots::<8>::$function($($before,)? fuse, $($argument),+),
                Width::Twelve => Slots::<12>::$function($($before,)? fuse, $($argument),+),
                Width::Sixteen => Slots::<16>::$function($($before,)? fuse, $($argument),+),
            },
        }
    };
}

impl<'a> FilterView<'a> {
    /// `padded` begins with the payload, of `len` bytes, for whose length `geometry` was made; where it is shorter, answers are
    /// "maybe". With 64 bytes behind the payload every query takes the fast way. The kernel is the geometry's.
    #[inline]
    pub(crate) fn new(geometry: &'a Geometry, kernel: Kernel, padded: &'a [u8], len: usize) -> Self {
        // Where not all is there, nothing is: every kind takes that for "maybe".
        let (padded, len): (&[u8], _) = if padded.len() < len { (&[], 0) } else { (padded, len) };
        Self { geometry, kernel, len, padded }
    }

    /// `false` if the key was certainly not added; `true` if it may have been.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.kernel.may_contain(self.geometry, self.padded, self.len, hash)
    }

    /// The same from some of the filter's columns, if its kind has any.
    #[must_use]
    #[inline]
    pub fn may_contain_with(&self, hash: KeyHash, columns: Columns) -> bool {
        match (self.geometry, columns) {
            (Geometry::BumpedRibbon(None, ribbon), Columns::First) => ribbon.first_may_contain(self.padded, hash),
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
            ) => self.may_contain_hash(hash),
        }
    }

    /// The same over a payload that is not wholly checked: what `guard` does not vouch for cannot deny a key.
    ///
    /// A call of its own: what it needs would otherwise take registers from the queries of a checked payload.
    #[inline(never)]
    pub(crate) fn may_contain_with_guarded(&self, hash: KeyHash, columns: Columns, guard: &impl Guard) -> bool {
        self.guarded(hash, columns, guard)
    }

    /// The same of all columns.
    #[inline]
    pub(crate) fn may_contain_guarded(&self, hash: KeyHash, guard: &impl Guard) -> bool {
        self.guarded(hash, Columns::All, guard)
    }

    #[inline(always)]
    fn guarded(&self, hash: KeyHash, columns: Columns, guard: &impl Guard) -> bool {
        let ask = || self.may_contain_with(hash, columns);
        of_kind!(self.geometry, may_contain_guarded(ask; self.padded, self.len, hash, columns, guard))
    }

    /// Answers for many keys at once, faster than one by one: cache misses overlap, and what the keys have in common is
    /// computed once.
    ///
    /// `answers[i]` belongs to `hashes[i]`; answers beyond the shorter of the two slices are left alone.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        BatchKernel::of(self.geometry).may_contain_batch(self.geometry, self.padded, self.len, hashes, answers);
    }

    /// Starts to bring the first cache line that a query of `hash` will read into the cache.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        of_kind!(self.geometry, prefetch(; self.padded, self.len, hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Checked;

    #[test]
    fn filters_without_bits_answer_with_and_without_a_guard() {
        for (geometry, answer) in [(Geometry::Empty, false), (Geometry::Full, true)] {
            let view = FilterView::new(&geometry, Kernel::of(&geometry), &[], 0);
            let hash = KeyHash::from_raw(7);
            assert_eq!((view.may_contain_hash(hash), view.may_contain_guarded(hash, &Checked)), (answer, answer));
        }
    }
}
