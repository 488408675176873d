//! Queries a range filter: turns the two bounds into codes, and asks for these codes. The query of a
//! verified payload is compiled for every instruction set.
//!
//! Codes are hashes of integers. Within a stretch, they keep the order of the integers until they wrap
//! around.
//!
//! ```text
//! stretch(x) = x >> stretch_bits
//! code(x)    = (q(stretch(x)) + the low bits of x) mod universe
//! ```
//! `q` is pairwise independent. So a key outside the stretch of a range of `l` codes hits the range
//! with a probability of about `l / universe`, for any data and queries: see [`MAX_CODES`]. A key
//! in the stretch never hits a range that does not contain the key. (Costa, Ferragina, Vinciguerra,
//! "Grafite: taming adversarial queries with optimal range filters", 2024. Their stretches have the
//! length of the universe. Here, the length is a power of two, so a shift replaces a division of
//! 128 bits.)

use std::ops::Bound;

use super::Geometry;
use super::MAX_CODES;
use super::elias_fano::{Bytes, IsValid};
use crate::hash::KeyHasher;
use crate::simd::{Isa, Portable, Simd, kernels};

/// The Mersenne prime 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;
/// The number of bits of a piece. The hash splits an integer into pieces that are below the prime.
const PIECE_BITS: u32 = 60;
const PIECE: u64 = (1 << PIECE_BITS) - 1;

/// The parameters of a pairwise independent hash function. They come from the key hasher, so that a
/// secret protects them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeHash {
    factors: [u64; 2],
    addend: u64,
}

impl RangeHash {
    /// The keys whose hashes give the parameters.
    const NAMES: [&'static [u8]; 3] = [b"filterblock range 0", b"filterblock range 1", b"filterblock range 2"];

    pub(crate) fn of(hasher: &KeyHasher) -> Self {
        let [one, two, addend] = Self::NAMES.map(|name| fold(hasher.of(name).raw() >> 3));
        Self { factors: [one, two], addend }
    }

    /// Hashes an integer below 2^120 to a number below `universe`. The universe must be at most
    /// [`MAX_CODES`].
    #[inline(always)]
    fn of_stretch(&self, stretch: u128, universe: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the pieces are meant")]
        self.of_pieces(stretch as u64 & PIECE, (stretch >> PIECE_BITS) as u64 & PIECE, universe)
    }

    #[inline(always)]
    fn of_pieces(&self, low: u64, high: u64, universe: u64) -> u64 {
        let [one, two] = self.factors;
        // Each product is below 2^62, so the sums stay below 2^64.
        let mut sum = product(one, low) + self.addend;
        if high != 0 {
            sum = fold(sum) + product(two, high);
        }
        #[expect(clippy::cast_possible_truncation, reason = "below the universe")]
        let reduced = ((u128::from(fold(sum)) * u128::from(universe)) >> 61) as u64;
        reduced
    }
}

/// Multiplies modulo the prime, without the final reduction: the result is below 2^62.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the parts are meant")]
fn product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64 & PRIME) + (product >> 61) as u64
}

/// Reduces modulo the prime.
#[inline(always)]
fn fold(value: u64) -> u64 {
    let value = (value & PRIME) + (value >> 61);
    if value >= PRIME { value - PRIME } else { value }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Codes {
    pub(super) universe: u64,
    pub(super) stretch_bits: u32,
}

impl Codes {
    /// Chooses the stretches for `num_codes` codes of integers from 0 to `last`.
    ///
    /// If all integers fit into the universe, one stretch holds them all and the universe shrinks
    /// to their number. Then different integers have different codes, so answers about integers are
    /// exact. Otherwise a stretch has at least `universe / num_codes` integers, or is the largest
    /// that fits into the universe.
    pub(super) fn new(universe: u64, num_codes: u64, last: u128) -> Self {
        if let Some(span) = u64::try_from(last).ok().and_then(|last| last.checked_add(1))
            && span <= universe
        {
            return Self { universe: span, stretch_bits: u64::BITS - (span - 1).leading_zeros() };
        }
        let least = universe.div_ceil(num_codes.max(1));
        let stretch_bits = (u64::BITS - (least - 1).leading_zeros()).min(universe.ilog2());
        Self { universe, stretch_bits }
    }

    /// Returns whether the parameters are in range, and whether codes of integers from 0 to `last`
    /// are below twice the universe before they are reduced.
    pub(super) fn are_valid(&self, last: u128) -> bool {
        let is_in_range = (1..=MAX_CODES).contains(&self.universe) && self.stretch_bits <= MAX_CODES.ilog2();
        is_in_range && (1 << self.stretch_bits <= self.universe || last < self.universe.into())
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "stretches have at most MAX_CODES integers")]
    fn low(&self, x: u128) -> u64 {
        x as u64 & ((1 << self.stretch_bits) - 1)
    }

    #[inline(always)]
    pub(super) fn code(&self, hash: &RangeHash, x: u128) -> u64 {
        let code = hash.of_stretch(x >> self.stretch_bits, self.universe) + self.low(x);
        if code >= self.universe { code - self.universe } else { code }
    }

    /// Returns the result of [`Codes::code`] for an integer of 64 bits.
    #[inline(always)]
    pub(super) fn short_code(&self, hash: &RangeHash, x: u64) -> u64 {
        let stretch = x >> self.stretch_bits;
        let code = hash.of_pieces(stretch & PIECE, stretch >> PIECE_BITS, self.universe);
        let code = code + (x & ((1 << self.stretch_bits) - 1));
        if code >= self.universe { code - self.universe } else { code }
    }

    /// Returns the first and the last code of `from..=to` if the codes are one interval. Returns
    /// `None` in the rare case that the integers lie in several stretches or the codes wrap around.
    #[inline(always)]
    pub(super) fn interval(&self, hash: &RangeHash, from: u128, to: u128) -> Option<(u64, u64)> {
        if from >> self.stretch_bits != to >> self.stretch_bits {
            return None;
        }
        let start = self.code(hash, from);
        let end = start + (self.low(to) - self.low(from));
        (end < self.universe).then_some((start, end))
    }

    /// Returns the result of [`Codes::interval`] for integers of 64 bits.
    #[inline(always)]
    fn short_interval(&self, hash: &RangeHash, from: u64, to: u64) -> Option<(u64, u64)> {
        if from >> self.stretch_bits != to >> self.stretch_bits {
            return None;
        }
        let start = self.short_code(hash, from);
        let end = start + (to - from);
        (end < self.universe).then_some((start, end))
    }

    /// Returns the codes of `from..=to` as up to four intervals. Returns `None` for a range over
    /// more than two stretches.
    pub(super) fn intervals(&self, hash: &RangeHash, from: u128, to: u128) -> Option<[Option<(u64, u64)>; 4]> {
        let (first, last) = (from >> self.stretch_bits, to >> self.stretch_bits);
        if last - first > 1 {
            return None;
        }
        let whole = last << self.stretch_bits;
        // If the integers lie in one stretch, there is no second part.
        let parts = if first == last { [Some((from, to)), None] } else { [Some((from, whole - 1)), Some((whole, to))] };
        let universe = self.universe;
        let of_part = |part: Option<(u128, u128)>| {
            let Some((from, to)) = part else { return [None; 2] };
            let start = self.code(hash, from);
            let end = start + (self.low(to) - self.low(from));
            // An interval that wraps around becomes two intervals.
            let wrapped = end.checked_sub(universe).map(|end| (0, end));
            [Some((start, end.min(universe - 1))), wrapped]
        };
        let [[a, b], [c, d]] = parts.map(of_part);
        Some([a, b, c, d])
    }
}

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
