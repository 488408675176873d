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

use super::blocked_bloom::{BATCH, MULTIPLIERS, fold, line_number, line_offset, line_within};
use super::build::{Blank, SetBits, parse_plain, plain_payload, plain_size};
use super::build::{Effort, Header, Rounding};
use super::filter::{
    Budget, Built, Filter, Info, KeyBits, MANY_KEYS, Planned, Query, TOO_LARGE, in_batches, payload_of,
};
use super::{FilterKind, math};
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::{Simd, prefetch};

/// The number of lanes of a block, which is also the number of bits that a key sets.
const LANES: usize = math::LANES as usize;

/// A filter whose blocks have `LEN` bytes: 32 or 64. (The length and not the width of a lane is the
/// parameter, because the type of a block needs it.)
pub(crate) struct SplitBlock<const LEN: usize>;

impl<const LEN: usize> SplitBlock<LEN> {
    const KIND: FilterKind = if LEN == 32 { FilterKind::SplitBlock } else { FilterKind::SplitBlock512 };
    /// The width of a lane in bits.
    const LANE_BITS: u32 = if LEN == 32 { 32 } else { 64 };
    const KEY_BITS: Option<KeyBits> =
        Some(KeyBits { block: Some(8 * LEN as u64), probe: Some(Self::LANE_BITS as u64) });
}

impl<const LEN: usize> Filter for SplitBlock<LEN> {
    type Params = ();

    const INFO: Info = match LEN {
        32 => Info {
            name: "split-block",
            description: "one bit of a key in each 32-bit lane of a 256-bit block",
            lowest_rate: "the lowest FPR of split-block is 1.3e-7, at 100 bits per key: a key has only 8 bits in a \
                 block; use bumped-ribbon (2.4e-10 at the lowest) or bloom (2.8e-11)",
            key_bits: Self::KEY_BITS,
            ..Info::COMMON
        },
        _ => Info {
            name: "split-block-512",
            description: "one bit of a key in each 64-bit lane of a 512-bit cache line",
            lowest_rate: "the lowest FPR of split-block-512 is 2.7e-8, at 100 bits per key: a key has only 8 bits in a \
                 block; use bumped-ribbon (2.4e-10 at the lowest) or bloom (2.8e-11)",
            key_bits: Self::KEY_BITS,
            ..Info::COMMON
        },
    };
    const ONLY: Option<&'static ()> = Some(&());

    fn rate_of_many(millibits: u32) -> f64 {
        let blocks = MANY_KEYS / 1000 * u64::from(millibits) / (8 * LEN as u64);
        math::split_block_rate(MANY_KEYS, blocks, Self::LANE_BITS)
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let size = plain_size(budget, num_keys, LEN as u64).ok_or(TOO_LARGE)?;
        Ok(Planned::in_one_line(size.len_bytes, Self::expected_fpr(&(), num_keys, size.len_bytes), math::LANES))
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(blank::<LEN>(budget, hashes.len() as u64)?.filled_by_distinct(hashes))
    }

    fn blank(budget: Budget, num_keys: u64, _: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        blank::<LEN>(budget, num_keys).map(Some)
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<()> {
        parse_plain(header, num_keys, len_bytes, math::LANES..=math::LANES, LEN as u64).map(|_| ())
    }

    /// The formula includes absent keys with the block and the fold of a present key. Absent keys
    /// with the hash of a present key are among them.
    fn expected_fpr((): &(), num_keys: u64, payload_len_bytes: u64) -> f64 {
        math::split_block_rate(num_keys, payload_len_bytes / LEN as u64, Self::LANE_BITS)
    }

    fn probes((): &()) -> u32 {
        math::LANES
    }

    #[inline]
    fn is_proven((): &(), _: &[u8], len: usize, hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        is_valid(line_offset::<LEN>(len, hash), LEN)
    }
}

fn blank<const LEN: usize>(budget: Budget, num_keys: u64) -> std::result::Result<Blank, NoMemory> {
    let (_, payload) = plain_payload(plain_size(budget, num_keys, LEN as u64))?;
    Ok(Blank::new::<SplitBlock<LEN>>(SplitBlock::<LEN>::KIND, math::LANES, payload))
}

impl<const LEN: usize> Query for SplitBlock<LEN> {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(simd: impl Simd, (): &(), padded: &[u8], len: usize, hash: KeyHash) -> bool {
        let Some(block) = line_within::<LEN>(padded, len, hash) else { return true };
        match block.first_chunk() {
            Some(wide) => simd.all_set_in_lanes_of_64(wide, fold(hash), multipliers()),
            None => {
                block.first_chunk().is_none_or(|block| simd.all_set_in_lanes_of_32(block, fold(hash), multipliers()))
            }
        }
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        (): &(),
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        in_batches::<Self, BATCH>(simd, &(), payload_of(padded, len), hashes, answers);
    }

    #[inline(always)]
    fn prefetch((): &(), padded: &[u8], len: usize, hash: KeyHash) {
        prefetch(padded, line_offset::<LEN>(len, hash));
    }
}

/// Returns one multiplier for each lane: the first eight multipliers of the blocked Bloom filter.
#[inline]
fn multipliers() -> &'static [u32; LANES] {
    const { MULTIPLIERS.first_chunk().expect("MULTIPLIERS has sixteen values") }
}

impl<const LEN: usize> SetBits for SplitBlock<LEN> {
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the number is below that of the blocks")]
    fn set(simd: impl Simd, _: u32, payload: &mut [u8], hash: KeyHash) -> bool {
        let number = line_number(payload.len() / LEN, hash);
        let block = &mut payload.as_chunks_mut::<LEN>().0[number];
        if let Some(wide) = block.first_chunk_mut() {
            return simd.set_in_lanes_of_64(wide, fold(hash), multipliers());
        }
        let narrow = block.first_chunk_mut().expect("a block has 32 or 64 bytes");
        simd.set_in_lanes_of_32(narrow, fold(hash), multipliers())
    }

    #[inline(always)]
    fn prefetch(_: u32, payload: &[u8], hash: KeyHash) {
        prefetch(payload, line_offset::<LEN>(payload.len(), hash));
    }
}
