//! Implements the standard Bloom filter (Bloom 1970). A key sets `k` bits anywhere in `m` bits.
//!
//! Probe `i` of a key tests bit `reduce(x_i, m)`, where `x_0` is the key's hash and
//! `x_(i+1) = mix(x_i)`. The step is invertible, and the probes of a key behave as if they were
//! independent. We rejected plain double hashing (`h1 + i h2`), although it is cheaper
//! (docs/DESIGN.md). If `h1` and `h2` have few bits, the FPR exceeds that of independent probes. If
//! `h2` is 0, all probes of a key test one bit.
//!
//! Bit `i` of the payload is bit `i % 8` of byte `i / 8`.

use super::FilterKind;
use super::build::{Blank, PlainSize, SetBits, parse_plain, plain_payload, plain_size};
use super::build::{Effort, Header, Rounding};
use super::filter::{Budget, Built, Filter, Info, KeyBits, MANY_KEYS, Planned, Query, TOO_LARGE, payload_of};
use super::math;
use super::math::scattered_lines;
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::reduce;
use crate::simd::{Simd, prefetch};

pub(crate) struct Bloom;

impl Bloom {
    fn size(budget: Budget, num_keys: u64, rounding: Rounding) -> Option<PlainSize> {
        let granule_len_bytes = match rounding {
            Rounding::Words => 8,
            Rounding::Bytes => 1,
        };
        plain_size(budget, num_keys, granule_len_bytes)
    }
}

impl Filter for Bloom {
    /// The number of probes.
    type Params = u32;

    const INFO: Info = Info {
        name: "bloom",
        description: "bits anywhere in the filter",
        lowest_rate: "the lowest FPR of bloom is 2.8e-11: with 512 million keys and 64-bit hashes, this share of absent \
             keys has the hash of a present key; use a higher FPR",
        has_compact_form: true,
        key_bits: Some(KeyBits { block: None, probe: None }),
        ..Info::COMMON
    };

    const HAS_VECTOR_CODE: bool = false;

    fn rate_of_many(millibits: u32) -> f64 {
        let bits = MANY_KEYS / 1000 * u64::from(millibits);
        // At a high budget, equal hashes dominate the FPR of a standard Bloom filter.
        math::with_equal_hashes(math::bloom_rate(MANY_KEYS, bits, math::bloom_probes(millibits.into())), MANY_KEYS)
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let size = Self::size(budget, num_keys, Rounding::Words).ok_or(TOO_LARGE)?;
        let probes = math::bloom_probes(size.millibits);
        let fill = math::classical_fpr(num_keys * u64::from(probes), size.len_bytes * 8, 1);
        let [lines_if_absent, lines_if_present] = scattered_lines(fill, size.len_bytes, probes);
        let rate = expected_fpr(num_keys, size.len_bytes, probes);
        Ok(Planned { lines_if_absent, lines_if_present, ..Planned::in_one_line(size.len_bytes, rate, probes) })
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], effort: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(blank(budget, hashes.len() as u64, effort.rounding)?.filled_by_distinct(hashes))
    }

    fn blank(budget: Budget, num_keys: u64, rounding: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        blank(budget, num_keys, rounding).map(Some)
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<u32> {
        parse_plain(header, num_keys, len_bytes, 1..=math::MAX_BLOOM_PROBES, 1)
    }

    fn expected_fpr(&probes: &u32, num_keys: u64, payload_len_bytes: u64) -> f64 {
        expected_fpr(num_keys, payload_len_bytes, probes)
    }

    fn probes(&probes: &u32) -> u32 {
        probes
    }

    /// A single zero bit in a valid byte proves that the key is absent, even if other bytes are not
    /// valid.
    #[inline]
    fn is_proven(
        &probes: &u32,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        !may_contain(payload_of(padded, len), probes, hash, |index| is_valid(index, 1))
    }

    /// The proof is a query, so the query is not run twice.
    #[inline]
    fn may_contain_if_valid(
        _: impl FnOnce() -> bool,
        params: &u32,
        padded: &[u8],
        len: usize,
        hash: KeyHash,
        is_valid: impl Fn(usize, usize) -> bool,
    ) -> bool {
        !Self::is_proven(params, padded, len, hash, is_valid)
    }
}

impl Query for Bloom {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(_: impl Simd, &probes: &u32, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        may_contain(payload_of(padded, len), probes, hash, |_| true)
    }

    #[inline(always)]
    fn prefetch(_: &u32, padded: &[u8], len: usize, hash: KeyHash) {
        // The index of the first position's byte is below the length, which is a usize.
        prefetch(padded, (reduce(hash.raw(), len as u64 * 8) / 8) as usize);
    }
}

fn blank(budget: Budget, num_keys: u64, rounding: Rounding) -> std::result::Result<Blank, NoMemory> {
    let (size, payload) = plain_payload(Bloom::size(budget, num_keys, rounding))?;
    Ok(Blank::new::<Bloom>(FilterKind::Bloom, math::bloom_probes(size.millibits), payload))
}

pub(super) fn expected_fpr(num_keys: u64, len_bytes: u64, probes: u32) -> f64 {
    math::with_equal_hashes(math::bloom_rate(num_keys, len_bytes.saturating_mul(8), probes), num_keys)
}

/// The multiplier of [`mix`], an odd 64-bit constant without a pattern: the first output of the
/// generator SplitMix64 with the seed 0xf117e7b10c5 (its digits resemble "filterblocs"), made odd.
const STEP: u64 = 0x7f7c_8f42_bca8_eb67;

#[inline]
fn mix(x: u64) -> u64 {
    // The multiplication carries low bits up, and the shift brings high bits down. reduce() uses
    // the high bits.
    (x ^ (x >> 32)).wrapping_mul(STEP)
}

/// Returns an endless series of 64-bit numbers from a hash. The first number is the hash itself.
#[inline(always)]
pub fn mixed(hash: KeyHash) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(hash.raw()), |&x| Some(mix(x)))
}

/// Returns the bit positions of a key in a filter of `bits` bits.
#[inline(always)]
pub fn positions(hash: KeyHash, bits: u64, probes: u32) -> impl Iterator<Item = u64> {
    mixed(hash).map(move |x| reduce(x, bits)).take(probes as usize)
}

impl SetBits for Bloom {
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the position is below the number of bits")]
    fn set(_: impl Simd, probes: u32, payload: &mut [u8], hash: KeyHash) -> bool {
        let mut were_set = 1;
        for position in positions(hash, payload.len() as u64 * 8, probes) {
            let byte = &mut payload[(position / 8) as usize];
            were_set &= *byte >> (position % 8);
            *byte |= 1 << (position % 8);
        }
        were_set == 1
    }

    #[inline(always)]
    fn prefetch(probes: u32, payload: &[u8], hash: KeyHash) {
        for position in positions(hash, payload.len() as u64 * 8, probes) {
            prefetch(payload, (position / 8) as usize);
        }
    }
}

/// Returns whether all bits of a key are set. All bits of a byte that is missing or not valid count
/// as set.
#[inline]
fn may_contain(payload: &[u8], probes: u32, hash: KeyHash, is_valid: impl Fn(usize) -> bool) -> bool {
    let bits = payload.len() as u64 * 8;
    let mut x = hash.raw();
    for _ in 0..probes {
        let position = reduce(x, bits);
        // The position is below the number of bits of a slice, so the cast is exact and the byte
        // exists.
        let index = (position / 8) as usize;
        let byte = payload.get(index).copied().unwrap_or(u8::MAX);
        if byte >> (position % 8) & 1 == 0 && is_valid(index) {
            return false;
        }
        x = mix(x);
    }
    true
}
