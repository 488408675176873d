//! Queries a range filter. The query of a verified payload is compiled for every instruction set.

use std::ops::Bound;

use super::bytes::{Bytes, IsValid};
use super::codes::RangeHash;
use super::record::Geometry;
use crate::simd::{Isa, Portable, Simd, kernels};

kernels! {
    /// The query of a range filter, as a function pointer.
    pub(crate) struct RangeKernel[];
    |simd|

    /// Returns `false` if certainly no added key lies between the bounds, and `true` if one may.
    /// The payload must be verified. If bytes that the answer needs are missing or contradict each
    /// other, the answer is `true`, unless the range is empty. It is `true` for a reversed range.
    fn may_contain(
        geometry: &Geometry, hash: &RangeHash, padded: &[u8], len: usize, lower: Bound<&[u8]>, upper: Bound<&[u8]>
    ) -> bool {
        geometry.may_contain(simd, hash, &Bytes::new(padded, len, &|_, _| true), lower, upper).unwrap_or_else(|| !is_empty(lower, upper))
    }
}

impl RangeKernel {
    /// Returns the kernel for the instruction set that [`Isa::detect`] selects.
    pub(crate) fn detect() -> Self {
        Self::on(Isa::detect())
    }

    pub(super) fn on(isa: Isa) -> Self {
        Self::new(isa)
    }
}

impl Geometry {
    /// Answers for a payload that is not completely verified. The query uses no bytes for which
    /// `is_valid` returns `false`.
    pub(crate) fn may_contain_if_valid(
        &self,
        hash: &RangeHash,
        padded: &[u8],
        len: usize,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        self.may_contain(Portable, hash, &Bytes::new(padded, len, &is_valid), lower, upper)
            .unwrap_or_else(|| !is_empty(lower, upper))
    }

    /// Returns `Some(false)` if certainly no added key lies between the bounds, and `Some(true)` if
    /// one may. Returns `None` if a byte is missing or not valid, or if the payload contradicts
    /// itself.
    #[inline(always)]
    fn may_contain<V: IsValid>(
        &self,
        simd: impl Simd,
        hash: &RangeHash,
        bytes: &Bytes<'_, V>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Option<bool> {
        // Integers of 64 bits take far fewer instructions than integers of 128 bits.
        let short = if self.is_short { self.mapping.short_between(bytes, lower, upper) } else { None };
        let (offsets, interval) = if let Some((from, to)) = short {
            // The integers keep the order of the keys, so a reversed range has no second integer.
            if from >= to && is_reversed(lower, upper) {
                return Some(true);
            }
            if from > to {
                return Some(false);
            }
            let (first, last) = (from >> self.dropped_bits, to >> self.dropped_bits);
            #[expect(clippy::cast_possible_truncation, reason = "`is_short` is for cells of 64 bits")]
            let (first_key, last_key) = (self.first as u64, self.last as u64);
            if last < first_key || first > last_key {
                return Some(false);
            }
            if first <= first_key || last >= last_key {
                return Some(!is_empty(lower, upper));
            }
            let (first, last) = (first - first_key, last - first_key);
            ((first.into(), last.into()), self.codes.short_interval(hash, first, last))
        } else {
            let (from, to) = self.mapping.between(bytes, lower, upper)?;
            if from + 1 >= to && is_reversed(lower, upper) {
                return Some(true);
            }
            if from >= to {
                return Some(false);
            }
            let (first, last) = (from >> self.dropped_bits, (to - 1) >> self.dropped_bits);
            if last < self.first || first > self.last {
                return Some(false);
            }
            // The first and the last cell are never empty: the first and the last key lie in them.
            if first <= self.first || last >= self.last {
                return Some(!is_empty(lower, upper));
            }
            let (first, last) = (first - self.first, last - self.first);
            ((first, last), self.codes.interval(hash, first, last))
        };
        let answer = match interval {
            Some((from, to)) => self.parts.any(simd, bytes, from, to)?,
            None => self.may_contain_parts(hash, bytes, offsets)?,
        };
        // The bounds of an empty range may have a common cell. The check comes last, because only
        // the answer "maybe" needs it.
        Some(answer && !is_empty(lower, upper))
    }

    /// Answers for cells that lie in several stretches, or whose codes wrap around.
    #[cold]
    #[inline(never)]
    fn may_contain_parts<V: IsValid>(
        &self,
        hash: &RangeHash,
        bytes: &Bytes<'_, V>,
        (first, last): (u128, u128),
    ) -> Option<bool> {
        let Some(intervals) = self.codes.intervals(hash, first, last) else { return Some(true) };
        for (from, to) in intervals.into_iter().flatten() {
            if self.parts.any(Portable, bytes, from, to)? {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Returns whether the range is empty: the bounds are equal and one of them is excluded, or only the
/// upper bound is given and excludes the empty key. Returns `false` for other bounds, even if no key
/// fits between them.
#[inline(always)]
pub(crate) fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
        | (Bound::Excluded(lower), Bound::Included(upper)) => lower == upper,
        (Bound::Unbounded, Bound::Excluded(upper)) => upper.is_empty(),
        (Bound::Included(_), Bound::Included(_)) | (_, Bound::Unbounded) | (Bound::Unbounded, _) => false,
    }
}

/// Returns whether the lower bound is above the upper bound. The caller may have exchanged the
/// bounds by mistake, so the answer for such a range is "maybe".
#[inline(always)]
pub(crate) fn is_reversed(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper) | Bound::Excluded(upper)) => {
            lower > upper
        }
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
