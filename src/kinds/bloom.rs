//! The standard Bloom filter (Bloom 1970): `k` bits anywhere in `m`.
//!
//! The i-th bit of a key is `reduce(x_i, m)` with `x_0` the key's hash and `x_(i+1) = mix(x_i)`, an invertible step,
//! so that the probes of one key are as good as independent. Plain double hashing (`h1 + i h2`) is cheaper and is
//! rejected: at ten bits a key it raises the rate from 0.82 % to about 1.1 % when `h2` is short, and it degenerates
//! when `h2` is zero. Bit `i` is bit `i % 8` of byte `i / 8`.

use super::Columns;
use super::contract::{Budget, Budgets, Built, Kind, MANY_KEYS, Planned, TOO_LARGE};
use super::guard::{Checked, Guard};
use super::kind::FilterKind;
use super::lines::scattered_lines;
use super::query::{Query, payload_of};
use super::shape::{Effort, Rounding, Shape};
use super::{math, plain};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::{KeyHash, reduce};
use crate::simd::{Simd, prefetch};

/// See [`FilterKind::Bloom`].
pub(super) struct Bloom;

impl Bloom {
    fn size(budget: Budget, num_keys: u64, rounding: Rounding) -> Option<plain::Size> {
        let granule_len_bytes = match rounding {
            Rounding::Words => 8,
            Rounding::Bytes => 1,
        };
        plain::size(budget, num_keys, granule_len_bytes)
    }
}

impl Kind for Bloom {
    type Geometry = u32;
    const BUDGETS: Budgets = Budgets::ALL;
    const LOWEST_RATE: &'static str = "the lowest rate of bloom is 2.8e-11: of 512 million keys with hashes of 64 bits, so many absent keys have the \
         hash of a present one; use a higher rate";
    const HAS_COMPACT: bool = false;

    fn rate_of_many(millibits: u32) -> f64 {
        let bits = MANY_KEYS / 1000 * u64::from(millibits);
        // Of the other kinds, what equal hashes add is less than they let through anyway, and whole columns and
        // fingerprints are to have whole powers of two.
        math::with_equal_hashes(math::bloom_rate(MANY_KEYS, bits, math::bloom_probes(millibits.into())), MANY_KEYS)
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let size = Self::size(budget, num_keys, Rounding::Words).ok_or(TOO_LARGE)?;
        let probes = math::bloom_probes(size.millibits);
        let fill = math::exact_rate(num_keys * u64::from(probes), size.len_bytes * 8, 1);
        let [lines_if_absent, lines_if_present] = scattered_lines(fill, size.len_bytes, probes);
        let rate = expected_rate(num_keys, size.len_bytes, probes);
        Ok(Planned { lines_if_absent, lines_if_present, ..Planned::in_one_line(size.len_bytes, rate) })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        let (size, mut payload) = plain::payload(Self::size(budget, hashes.len() as u64, effort.rounding))?;
        let probes = math::bloom_probes(size.millibits);
        fill(&mut payload, probes, hashes);
        Ok(Some((plain::shape(FilterKind::Bloom, probes), payload)))
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<u32> {
        plain::parse(shape, num_keys, len_bytes, 1..=math::MAX_BLOOM_PROBES, 1)
    }
}

impl Query for Bloom {
    /// The probes.
    type Asked<'a> = u32;

    #[inline(always)]
    fn may_contain(_: impl Simd, probes: u32, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        may_contain(payload_of(padded, len), probes, hash, &Checked)
    }

    #[inline(always)]
    fn prefetch(_: u32, padded: &[u8], len: usize, hash: KeyHash) {
        // The first position's byte: below the length, which is a usize.
        prefetch(padded, (reduce(hash.raw(), len as u64 * 8) / 8) as usize);
    }

    /// One sound byte with a zero bit is enough: the guard takes part in the query itself.
    #[inline]
    fn may_contain_guarded(
        _: impl FnOnce() -> bool,
        probes: u32,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        _: Columns,
        guard: &impl Guard,
    ) -> bool {
        may_contain(payload_of(padded, len), probes, hash, guard)
    }
}

/// The rate of so many keys in a payload.
pub(super) fn expected_rate(num_keys: u64, len_bytes: u64, probes: u32) -> f64 {
    math::with_equal_hashes(math::bloom_rate(num_keys, len_bytes.saturating_mul(8), probes), num_keys)
}

/// An odd 64-bit constant without a pattern: the 1st output of SplitMix64 seeded with
/// 0xf117e7b10c5 ("filterblocks"), forced odd.
const STEP: u64 = 0x7f7c_8f42_bca8_eb67;

#[inline]
fn mix(x: u64) -> u64 {
    // The multiplication carries low bits up, the shift brings high bits down; reduce() looks at the high ones.
    (x ^ (x >> 32)).wrapping_mul(STEP)
}

/// As many 64-bit numbers as are wanted of a hash, the first of which is the hash itself.
pub(crate) fn mixed(hash: KeyHash) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(hash.raw()), |&x| Some(mix(x)))
}

/// The bits of a key in a filter of `bits` bits.
pub(crate) fn positions(hash: KeyHash, bits: u64, probes: u32) -> impl Iterator<Item = u64> {
    mixed(hash).map(move |x| reduce(x, bits)).take(probes as usize)
}

/// Sets the bits of every hash. `payload` holds `bits` bits, zero at first.
#[expect(clippy::indexing_slicing, reason = "a position is below the bits of a slice")]
fn fill(payload: &mut [u8], probes: u32, hashes: &[KeyHash]) {
    let bits = payload.len() as u64 * 8;
    for &hash in hashes {
        for position in positions(hash, bits, probes) {
            payload[(position / 8) as usize] |= 1 << (position % 8);
        }
    }
}

/// Whether all bits of a key are set. A byte that is not sound counts as set.
#[inline]
fn may_contain(payload: &[u8], probes: u32, hash: KeyHash, guard: &impl Guard) -> bool {
    let bits = payload.len() as u64 * 8;
    let mut x = hash.raw();
    for _ in 0..probes {
        let position = reduce(x, bits);
        // The position is below the number of bits, which a slice can hold: the cast is exact and the byte exists.
        let index = (position / 8) as usize;
        let byte = payload.get(index).copied().unwrap_or(u8::MAX);
        if byte >> (position % 8) & 1 == 0 && guard.sound(index, 1) {
            return false;
        }
        x = mix(x);
    }
    true
}
