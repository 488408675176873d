//! Implements the blocked Bloom filter (Putze, Sanders, Singler 2007). All bits of a key lie in one
//! 512-bit line, so a query of an aligned payload has at most one cache miss.
//!
//! ```text
//! hash ──reduce──▶ line               (high bits: sorted hashes fill the lines from front to back)
//!      ──fold────▶ 32 bits f ──× MULTIPLIERS[i]──▶ top 9 bits: 4 choose a word of the line, 5 a bit of the word
//! ```
//! A line is sixteen little-endian 32-bit words. At 10 bits per key and with many keys, the FPR is
//! 0.966 %. The FPR of [`super::bloom`], which spreads a key's bits over the whole filter, is
//! 0.819 %.

use super::FilterKind;
use super::build::{Blank, SetBits, parse_plain, plain_payload, plain_size};
use super::build::{Effort, Header, Rounding};
use super::filter::{
    Budget, Built, Filter, Info, KeyBits, MANY_KEYS, Planned, Query, TOO_LARGE, in_batches, payload_of,
};
use super::math;
use crate::error::Result;
use crate::hash::KeyHash;
use crate::simd::NoMemory;
use crate::simd::reduce;
use crate::simd::{Simd, prefetch};

/// The length of a line, which fills one cache line.
pub(crate) const LINE_LEN_BYTES: usize = 64;

pub(crate) struct BlockedBloom;

impl Filter for BlockedBloom {
    /// The number of probes.
    type Params = u32;

    const INFO: Info = Info {
        name: "blocked-bloom",
        description: "all bits of a key in one 512-bit cache line",
        lowest_rate: "the lowest FPR of blocked-bloom is 1.5e-9, at 100 bits per key: for each key in a cache line, one \
             absent key in 2^32 has the same bits; use bumped-ribbon (2.4e-10 at the lowest) or bloom (2.8e-11)",
        has_compact_form: true,
        key_bits: Some(KeyBits { block: Some(math::LINE_BITS), probe: Some(math::LINE_BITS) }),
        ..Info::COMMON
    };

    fn rate_of_many(millibits: u32) -> f64 {
        let lines = MANY_KEYS / 1000 * u64::from(millibits) / math::LINE_BITS;
        math::blocked_bloom_rate(MANY_KEYS, lines, math::line_probes(millibits.into()))
    }

    fn plan(budget: Budget, num_keys: u64) -> std::result::Result<Planned, &'static str> {
        let size = plain_size(budget, num_keys, LINE_LEN_BYTES as u64).ok_or(TOO_LARGE)?;
        let probes = math::line_probes(size.millibits);
        Ok(Planned::in_one_line(size.len_bytes, expected_fpr(num_keys, size.len_bytes, probes), probes))
    }

    fn build(budget: Budget, hashes: &mut [KeyHash], _: Effort) -> std::result::Result<Option<Built>, NoMemory> {
        Ok(blank(budget, hashes.len() as u64)?.filled_by_distinct(hashes))
    }

    fn blank(budget: Budget, num_keys: u64, _: Rounding) -> std::result::Result<Option<Blank>, NoMemory> {
        blank(budget, num_keys).map(Some)
    }

    fn parse(header: &Header<'_>, num_keys: u64, len_bytes: u64) -> Result<u32> {
        parse_plain(header, num_keys, len_bytes, 1..=math::MAX_LINE_PROBES, LINE_LEN_BYTES as u64)
    }

    /// The formula includes absent keys with the line and the fold of a present key. Absent keys
    /// with the hash of a present key are among them.
    fn expected_fpr(&probes: &u32, num_keys: u64, payload_len_bytes: u64) -> f64 {
        expected_fpr(num_keys, payload_len_bytes, probes)
    }

    fn probes(&probes: &u32) -> u32 {
        probes
    }

    #[inline]
    fn is_proven(_: &u32, _: &[u8], len: usize, hash: KeyHash, is_valid: impl Fn(usize, usize) -> bool) -> bool {
        is_valid(line_offset::<LINE_LEN_BYTES>(len, hash), LINE_LEN_BYTES)
    }
}

fn blank(budget: Budget, num_keys: u64) -> std::result::Result<Blank, NoMemory> {
    let (size, payload) = plain_payload(plain_size(budget, num_keys, LINE_LEN_BYTES as u64))?;
    Ok(Blank::new::<BlockedBloom>(FilterKind::BlockedBloom, math::line_probes(size.millibits), payload))
}

/// The number of keys in one prefetching pass. It is large enough to hide a cache miss, and small
/// enough that all lines of a pass stay in the first-level cache.
pub(super) const BATCH: usize = 32;

impl Query for BlockedBloom {
    type Filter = Self;

    #[inline(always)]
    fn may_contain(simd: impl Simd, &probes: &u32, padded: &[u8], len: usize, hash: KeyHash) -> bool {
        // A constant number of probes would save five of thirty instructions, but no time.
        let Some(line) = line_within(padded, len, hash) else { return true };
        simd.all_set_in_line(line, fold(hash), &MULTIPLIERS, probes)
    }

    #[inline(always)]
    fn may_contain_batch(
        simd: impl Simd,
        probes: &u32,
        padded: &[u8],
        len: usize,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        in_batches::<Self, BATCH>(simd, probes, payload_of(padded, len), hashes, answers);
    }

    #[inline(always)]
    fn prefetch(_: &u32, padded: &[u8], len: usize, hash: KeyHash) {
        prefetch(padded, line_offset::<LINE_LEN_BYTES>(len, hash));
    }
}

pub(super) fn expected_fpr(num_keys: u64, len_bytes: u64, probes: u32) -> f64 {
    math::blocked_bloom_rate(num_keys, len_bytes / LINE_LEN_BYTES as u64, probes)
}

/// The multiplier that folds the hash: output 2 of the generator that [`super::bloom`] names, made
/// odd.
const FOLD: u64 = 0xdd22_899b_0135_a30f;

/// One multiplier per probe: the high halves of outputs 3 to 18 of the generator that
/// [`super::bloom`] names, made odd.
pub(super) const MULTIPLIERS: [u32; 16] = [
    0xf6bc_24af,
    0x4a1e_9ce9,
    0xbe14_b421,
    0x19e5_02c9,
    0xdda0_7c5f,
    0xfd40_4fb5,
    0x4931_2a99,
    0xd6b4_5697,
    0x2792_576b,
    0x60ba_4a0f,
    0x6eb2_989f,
    0xed9d_7417,
    0x8d76_82f9,
    0xc582_d8e9,
    0x2671_a42d,
    0xa9ee_fdb7,
];

/// Returns the 32 bits that select the bits within a line or block.
#[inline]
pub(super) fn fold(hash: KeyHash) -> u32 {
    (hash.raw().wrapping_mul(FOLD) >> 32) as u32
}

/// Returns which of `lines` lines has the bits of a key. The first line is line 0.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the result is below the number of lines, which is a usize")]
pub(super) fn line_number(lines: usize, hash: KeyHash) -> usize {
    reduce(hash.raw(), lines as u64) as usize
}

/// Returns the offset of the line of a key, in a payload of `len` bytes with lines of `LEN` bytes.
#[inline]
pub(super) fn line_offset<const LEN: usize>(len: usize, hash: KeyHash) -> usize {
    line_number(len / LEN, hash) * LEN
}

/// Returns the line of a key. The payload is the first `len` bytes of `padded`. Returns `None` if
/// `padded` ends before the line does.
#[inline]
pub(super) fn line_within<const LEN: usize>(padded: &[u8], len: usize, hash: KeyHash) -> Option<&[u8; LEN]> {
    // With the bound counted in lines, the bounds check is one comparison.
    padded.as_chunks().0.get(line_number(len / LEN, hash))
}

impl SetBits for BlockedBloom {
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the number is below that of the lines")]
    fn set(simd: impl Simd, probes: u32, payload: &mut [u8], hash: KeyHash) -> bool {
        let number = line_number(payload.len() / LINE_LEN_BYTES, hash);
        let line = &mut payload.as_chunks_mut().0[number];
        simd.set_in_line(line, fold(hash), &MULTIPLIERS, probes)
    }

    #[inline(always)]
    fn prefetch(_: u32, payload: &[u8], hash: KeyHash) {
        prefetch(payload, line_offset::<LINE_LEN_BYTES>(payload.len(), hash));
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::{MOST, bits, hash_families, independence};
    use super::*;

    /// Returns the word of each probe, and the bit within the word.
    fn positions(hash: KeyHash, probes: u32) -> impl Iterator<Item = (usize, u32)> {
        let folded = fold(hash);
        MULTIPLIERS.iter().take(probes as usize).map(move |&multiplier| {
            let product = folded.wrapping_mul(multiplier);
            ((product >> 28) as usize, product >> 23 & 31)
        })
    }

    /// Returns the words of the probes, four bits each.
    fn words(hash: u64) -> u64 {
        positions(KeyHash::from_raw(hash), 16).fold(0, |all, (word, _)| all << 4 | word as u64)
    }

    #[test]
    fn lines_words_and_bits_of_real_hashes_look_random() {
        for (name, hashes) in hash_families() {
            let mut found = Vec::new();
            for skipped in [0, 8] {
                let positions = hashes.iter().map(|&hash| {
                    let positions = positions(KeyHash::from_raw(hash), 16).skip(skipped).take(8);
                    positions.fold(0u128, |all, (word, bit)| all << 9 | (word as u128) << 5 | u128::from(bit))
                });
                let (balance, correlation) = bits(positions, 72);
                found.extend([balance, correlation]);
            }
            let words: Vec<u64> = hashes.iter().map(|&hash| words(hash)).collect();
            for probe in (0..64).step_by(4) {
                for line in (32..64).step_by(4) {
                    found.push(independence(
                        words.iter().zip(&hashes).map(|(words, hash)| (words >> probe, hash >> line)),
                    ));
                }
                for other in (0..probe).step_by(4) {
                    found.push(independence(words.iter().map(|words| (words >> probe, words >> other))));
                }
            }
            let worst = found.into_iter().fold(0.0, f64::max);
            println!("{name}: {worst:.1}");
            assert!(worst < MOST, "{name}: {worst}");
        }
    }
}
