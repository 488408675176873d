//! Defines the view of a filter, which answers queries from a payload and a geometry.

use super::binary_fuse::{Slots, Width};
use super::blocked_bloom::BlockedBloom;
use super::bloom::Bloom;
use super::bumped_ribbon::{BumpedRibbon, FlatQuery, Form, Groups, Lines, Words};
use super::constant::{AlwaysMaybe, Empty};
use super::geometry::Geometry;
use super::guard::Guard;
use super::kernels::{BatchKernel, Kernel};
use super::query::Query;
use super::range::Grafite;
use super::ribbon::Ribbon;
use super::split_block::{Lanes, SplitBlock, SplitBlock512};
use crate::hash::KeyHash;

/// A filter that is ready for queries. It borrows a payload and the geometry that was checked
/// against the payload's length.
#[derive(Debug, Clone, Copy)]
pub struct FilterView<'a> {
    geometry: &'a Geometry,
    kernel: Kernel,
    /// The length of the payload.
    len: usize,
    /// The payload and the bytes after it: vector loads may read beyond the payload's end.
    padded: &'a [u8],
}

/// Calls a function of [`Query`] for the kind of a geometry, with the parameters that the kind's
/// queries need.
macro_rules! of_kind {
    ($geometry:expr, $function:ident($($before:expr)?; $($argument:expr),+)) => {
        match $geometry {
            Geometry::Empty => Empty::$function($($before,)? (), $($argument),+),
            Geometry::AlwaysMaybe => AlwaysMaybe::$function($($before,)? (), $($argument),+),
            &Geometry::Bloom { probes } => Bloom::$function($($before,)? probes, $($argument),+),
            &Geometry::BlockedBloom { probes } => BlockedBloom::$function($($before,)? probes, $($argument),+),
            Geometry::SplitBlock { lanes: Lanes::Narrow } => SplitBlock::$function($($before,)? (), $($argument),+),
            Geometry::SplitBlock { lanes: Lanes::Wide } => SplitBlock512::$function($($before,)? (), $($argument),+),
            Geometry::Ribbon(ribbon) => Ribbon::$function($($before,)? ribbon, $($argument),+),
            Geometry::BumpedRibbon(None, ribbon) => BumpedRibbon::$function($($before,)? ribbon, $($argument),+),
            Geometry::BumpedRibbon(Some(flat), ribbon) => match flat.form() {
                Form::Lines => FlatQuery::<Lines>::$function($($before,)? (*flat, ribbon), $($argument),+),
                Form::Words => FlatQuery::<Words>::$function($($before,)? (*flat, ribbon), $($argument),+),
                Form::Groups => FlatQuery::<Groups>::$function($($before,)? (*flat, ribbon), $($argument),+),
            },
            Geometry::BinaryFuse(fuse) => match fuse.width() {
                Width::Eight => Slots::<8>::$function($($before,)? fuse, $($argument),+),
                Width::Twelve => Slots::<12>::$function($($before,)? fuse, $($argument),+),
                Width::Sixteen => Slots::<16>::$function($($before,)? fuse, $($argument),+),
            },
            Geometry::Range(_) => Grafite::$function($($before,)? (), $($argument),+),
        }
    };
}

impl<'a> FilterView<'a> {
    /// Makes a view. `padded` begins with the payload of `len` bytes, and `geometry` was made for
    /// this length. If `padded` has fewer than `len` bytes, answers are "maybe". Without 64 bytes
    /// after the payload, some queries are slower or answer "maybe" needlessly. `kernel` must be
    /// the kernel of `geometry`.
    #[inline]
    pub(crate) fn new(geometry: &'a Geometry, kernel: Kernel, padded: &'a [u8], len: usize) -> Self {
        // If the payload is incomplete, the view drops all of it. Every kind that has a payload
        // answers "maybe" if the payload is empty.
        let (padded, len): (&[u8], _) = if padded.len() < len { (&[], 0) } else { (padded, len) };
        Self { geometry, kernel, len, padded }
    }

    /// Returns `false` if the key was certainly not added, and `true` if it may have been added.
    #[must_use]
    #[inline]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.kernel.may_contain(self.geometry, self.padded, self.len, hash)
    }

    /// Queries a payload that is not completely verified. A byte for which `guard` returns `false`
    /// cannot prove a key absent.
    #[inline]
    pub(crate) fn may_contain_guarded(&self, hash: KeyHash, guard: &impl Guard) -> bool {
        let ask = || self.may_contain_hash(hash);
        of_kind!(self.geometry, may_contain_guarded(ask; self.padded, self.len, hash, guard))
    }

    /// Answers for many keys. A batch is usually faster than single queries.
    ///
    /// `answers[i]` belongs to `hashes[i]`. If the slices differ in length, the answers beyond the
    /// shorter one do not change.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        BatchKernel::of(self.geometry).may_contain_batch(self.geometry, self.padded, self.len, hashes, answers);
    }

    /// Prefetches the first cache lines that a query of `hash` will need.
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
        for (geometry, answer) in [(Geometry::Empty, false), (Geometry::AlwaysMaybe, true)] {
            let view = FilterView::new(&geometry, Kernel::of(&geometry), &[], 0);
            let hash = KeyHash::from_raw(7);
            assert_eq!((view.may_contain_hash(hash), view.may_contain_guarded(hash, &Checked)), (answer, answer));
        }
    }
}
