//! Implements the split-block Bloom filter. A block has eight lanes, and a key sets one bit in each
//! lane.
//!
//! ```text
//! hash ──reduce──▶ block
//!      ──fold────▶ 32 bits f ──× MULTIPLIERS[i]──▶ the top 5 or 6 bits: a bit of lane i
//! ```
//! A block has eight 32-bit lanes (half a cache line) or eight 64-bit lanes (a whole cache line).
//! Every lane holds exactly one bit of a key, so a query needs no permutation. The FPR is higher
//! than that of [`super::blocked_bloom`], which may set any bits of a line. At 10 bits per key, it
//! is 1.265 % with narrow lanes and 1.049 % with wide lanes, compared with 0.966 %. We rejected
//! sixteen lanes of 32 bits, which have an FPR of 3.8 % at 10 bits per key.
//!
//! Apache Parquet, Impala and Kudu use the form with 32-bit lanes (described by Jim Apple in
//! "Stretching your data with Taffy filters", 2022). The multipliers differ, so the formats are not
//! compatible.

use super::blank::{Blank, SetBits};
use super::blocked_bloom::{BATCH, MULTIPLIERS, fold, line_number, line_offset, line_within};
use super::contract::{Budget, Budgets, Built, Kind, MANY_KEYS, Planned, TOO_LARGE};
use super::guard::{Guard, or_maybe};
use super::kind::FilterKind;
use super::query::{Query, in_batches, payload_of};
use super::shape::{Effort, Rounding, Shape};
use super::{math, plain};
use crate::bits::NoMemory;
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::{Simd, prefetch};

pub(super) struct SplitBlock;
pub(super) struct SplitBlock512;

impl Kind for SplitBlock {
    type Geometry = Lanes;
    const BUDGETS: Budgets = Budgets::ALL;
    const LOWEST_RATE: &'static str = "the lowest FPR of split-block is 1.3e-7, at 100 bits per key: a key has only 8 bits in a block; use \
         bumped-ribbon (2.4e-10 at the lowest) or bloom (2.8e-11)";
    const HAS_COMPACT: bool = false;

    fn rate_of_many(millibits: u32) -> f64 {
        rate_of_many(Lanes::Narrow, millibits)
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        plan(Lanes::Narrow, budget, num_keys)
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(blank::<Self>(Lanes::Narrow, budget, hashes.len() as u64)?.filled_by_distinct(hashes))
    }

    fn blank(budget: Budget, num_keys: u64, _: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        blank::<Self>(Lanes::Narrow, budget, num_keys).map(Some)
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Lanes> {
        parse(Lanes::Narrow, shape, num_keys, len_bytes)
    }
}

impl Kind for SplitBlock512 {
    type Geometry = Lanes;
    const BUDGETS: Budgets = Budgets::ALL;
    const LOWEST_RATE: &'static str = "the lowest FPR of split-block-512 is 2.7e-8, at 100 bits per key: a key has only 8 bits in a block; use \
         bumped-ribbon (2.4e-10 at the lowest) or bloom (2.8e-11)";
    const HAS_COMPACT: bool = false;

    fn rate_of_many(millibits: u32) -> f64 {
        rate_of_many(Lanes::Wide, millibits)
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        plan(Lanes::Wide, budget, num_keys)
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(blank::<Self>(Lanes::Wide, budget, hashes.len() as u64)?.filled_by_distinct(hashes))
    }

    fn blank(budget: Budget, num_keys: u64, _: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        blank::<Self>(Lanes::Wide, budget, num_keys).map(Some)
    }

    fn fallback_rate(_: Budget) -> Option<f64> {
        None
    }

    fn parse(shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Lanes> {
        parse(Lanes::Wide, shape, num_keys, len_bytes)
    }
}

impl Query for SplitBlock {
    type Asked<'a> = ();

    #[inline(always)]
    fn may_contain(simd: impl Simd, (): (), padded: &[u8], len: usize, hash: KeyHash) -> bool {
        let Some(block) = line_within(padded, len, hash) else { return true };
        simd.all_set_in_lanes_of_32(block, fold(hash), multipliers())
    }

    #[inline(always)]
    fn may_contain_batch(simd: impl Simd, (): (), padded: &[u8], len: usize, hashes: &[KeyHash], answers: &mut [bool]) {
        in_batches::<Self, BATCH>(simd, (), payload_of(padded, len), hashes, answers);
    }

    #[inline(always)]
    fn prefetch((): (), padded: &[u8], len: usize, hash: KeyHash) {
        prefetch(padded, Lanes::Narrow.block_offset(len, hash));
    }

    #[inline]
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        (): (),
        _: &[u8],
        len: usize,
        hash: KeyHash,
        guard: &impl Guard,
    ) -> bool {
        or_maybe(ask(), guard, || Lanes::Narrow.is_sound(len, hash, guard))
    }
}

impl Query for SplitBlock512 {
    type Asked<'a> = ();

    #[inline(always)]
    fn may_contain(simd: impl Simd, (): (), padded: &[u8], len: usize, hash: KeyHash) -> bool {
        let Some(block) = line_within(padded, len, hash) else { return true };
        simd.all_set_in_lanes_of_64(block, fold(hash), multipliers())
    }

    #[inline(always)]
    fn may_contain_batch(simd: impl Simd, (): (), padded: &[u8], len: usize, hashes: &[KeyHash], answers: &mut [bool]) {
        in_batches::<Self, BATCH>(simd, (), payload_of(padded, len), hashes, answers);
    }

    #[inline(always)]
    fn prefetch((): (), padded: &[u8], len: usize, hash: KeyHash) {
        prefetch(padded, Lanes::Wide.block_offset(len, hash));
    }

    #[inline]
    fn may_contain_guarded(
        ask: impl FnOnce() -> bool,
        (): (),
        _: &[u8],
        len: usize,
        hash: KeyHash,
        guard: &impl Guard,
    ) -> bool {
        or_maybe(ask(), guard, || Lanes::Wide.is_sound(len, hash, guard))
    }
}

fn rate_of_many(lanes: Lanes, millibits: u32) -> f64 {
    let blocks = MANY_KEYS / 1000 * u64::from(millibits) / (u64::from(math::LANES) * u64::from(lanes.bits()));
    math::split_block_rate(MANY_KEYS, blocks, lanes.bits())
}

fn plan(lanes: Lanes, budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
    let size = plain::size(budget, num_keys, lanes.block_len_bytes() as u64).ok_or(TOO_LARGE)?;
    Ok(Planned::in_one_line(size.len_bytes, expected_fpr(lanes, num_keys, size.len_bytes), math::LANES))
}

fn blank<K: SetBits>(lanes: Lanes, budget: Budget, num_keys: u64) -> std::result::Result<Blank, NoMemory> {
    let (_, payload) = plain::payload(plain::size(budget, num_keys, lanes.block_len_bytes() as u64))?;
    Ok(Blank::new::<K>(lanes.kind(), math::LANES, payload))
}

fn parse(lanes: Lanes, shape: &Shape, num_keys: u64, len_bytes: u64) -> Result<Lanes> {
    plain::parse(shape, num_keys, len_bytes, math::LANES..=math::LANES, lanes.block_len_bytes() as u64)?;
    Ok(lanes)
}

/// Returns the expected FPR of a filter with `num_keys` keys in a payload of `len_bytes`.
pub(super) fn expected_fpr(lanes: Lanes, num_keys: u64, len_bytes: u64) -> f64 {
    math::split_block_rate(num_keys, len_bytes / lanes.block_len_bytes() as u64, lanes.bits())
}

/// The number of lanes of a block, which is also the number of bits that a key sets.
const LANES: usize = math::LANES as usize;
/// The length of a block of narrow lanes: half a cache line.
const NARROW_LEN_BYTES: usize = LANES * 4;
/// The length of a block of wide lanes: a cache line.
const WIDE_LEN_BYTES: usize = LANES * 8;

/// The width of the lanes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

impl Lanes {
    fn kind(self) -> FilterKind {
        match self {
            Self::Narrow => FilterKind::SplitBlock,
            Self::Wide => FilterKind::SplitBlock512,
        }
    }

    /// Returns the width of a lane in bits.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Narrow => 32,
            Self::Wide => 64,
        }
    }

    pub(super) fn block_len_bytes(self) -> usize {
        match self {
            Self::Narrow => NARROW_LEN_BYTES,
            Self::Wide => WIDE_LEN_BYTES,
        }
    }

    /// Returns the offset of the block of a key, in a payload of `len` bytes.
    #[inline]
    fn block_offset(self, len: usize, hash: KeyHash) -> usize {
        match self {
            Self::Narrow => line_offset::<NARROW_LEN_BYTES>(len, hash),
            Self::Wide => line_offset::<WIDE_LEN_BYTES>(len, hash),
        }
    }

    /// Returns whether the block of a key is sound.
    #[inline]
    fn is_sound(self, len: usize, hash: KeyHash, guard: &impl Guard) -> bool {
        guard.sound(self.block_offset(len, hash), self.block_len_bytes())
    }
}

/// Returns one multiplier for each lane: the first eight multipliers of the blocked Bloom filter.
#[inline]
fn multipliers() -> &'static [u32; LANES] {
    const { MULTIPLIERS.first_chunk().expect("MULTIPLIERS has sixteen values") }
}

impl SetBits for SplitBlock {
    #[inline(always)]
    fn set(simd: impl Simd, _: u32, payload: &mut [u8], hash: KeyHash) -> bool {
        let number = line_number(payload.len() / NARROW_LEN_BYTES, hash);
        let Some(block) = payload.as_chunks_mut().0.get_mut(number) else { return false };
        simd.set_in_lanes_of_32(block, fold(hash), multipliers())
    }

    #[inline(always)]
    fn prefetch(_: u32, payload: &[u8], hash: KeyHash) {
        prefetch(payload, Lanes::Narrow.block_offset(payload.len(), hash));
    }
}

impl SetBits for SplitBlock512 {
    #[inline(always)]
    fn set(simd: impl Simd, _: u32, payload: &mut [u8], hash: KeyHash) -> bool {
        let number = line_number(payload.len() / WIDE_LEN_BYTES, hash);
        let Some(block) = payload.as_chunks_mut().0.get_mut(number) else { return false };
        simd.set_in_lanes_of_64(block, fold(hash), multipliers())
    }

    #[inline(always)]
    fn prefetch(_: u32, payload: &[u8], hash: KeyHash) {
        prefetch(payload, Lanes::Wide.block_offset(payload.len(), hash));
    }
}
