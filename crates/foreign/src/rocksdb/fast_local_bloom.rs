//! Reads and builds `FastLocalBloom`, RocksDB's Bloom filter in tables of `format_version` 5 and
//! newer.
//!
//! ```text
//! hash ──low half × lines──▶ line of 512 bits
//!      ──high half──▶ x: its top 9 bits select a bit of the line;
//!                        for the next probe, x is multiplied by GOLDEN_RATIO
//! ```
//! The layout of a line is that of [`FilterKind::BlockedBloom`](filterblock::FilterKind). The hash
//! function, the choice of the line and the multipliers differ.

use super::kind::{NEW_BLOOM, RocksDbFilterKind, TRAILER_LEN_BYTES};
use crate::ForeignFilterInfo;
use filterblock_simd::{Isa, Simd, kernels, prefetch};

/// The length of a line, which is a cache line.
const LINE_LEN_BYTES: usize = 64;
/// The factor from one probe to the next: 2^32 divided by the golden ratio.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;
const MAX_PROBES: u8 = 30;
/// The number of probes that a kernel tests at once.
const ROUND: u32 = 16;
/// The maximum length of a payload that RocksDB builds.
const MAX_LEN_BYTES: u64 = 0xffff_ffc0;

/// The multipliers of the first sixteen probes.
const POWERS: [u32; ROUND as usize] = {
    let mut powers = [1u32; ROUND as usize];
    let mut i = 1;
    while i < powers.len() {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            powers[i] = powers[i - 1].wrapping_mul(GOLDEN_RATIO);
        }
        i += 1;
    }
    powers
};
/// The factor from the first to the seventeenth probe.
const NEXT_ROUND: u32 = GOLDEN_RATIO.wrapping_pow(ROUND);

kernels! {
    struct Kernel[];
    |simd|

    fn may_contain(lines: &[[u8; LINE_LEN_BYTES]], probes: u32, hash: u64) -> bool {
        all_set(simd, lines, probes, hash)
    }

    /// Writes the answer for each hash to `answers`. It stops at the end of the shorter slice.
    fn may_contain_batch(lines: &[[u8; LINE_LEN_BYTES]], probes: u32, hashes: &[u64], answers: &mut [bool]) {
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = all_set(simd, lines, probes, hash);
        }
    }
}

/// Returns whether all probed bits are set in the line of a key. Without lines the answer is
/// "maybe".
#[inline(always)]
fn all_set(simd: impl Simd, lines: &[[u8; LINE_LEN_BYTES]], probes: u32, hash: u64) -> bool {
    let Some(line) = lines.get(line_number(hash, lines.len())) else { return true };
    let x = high_half(hash);
    simd.all_set_in_line(line, x, &POWERS, probes.min(ROUND))
        && (probes <= ROUND || simd.all_set_in_line(line, x.wrapping_mul(NEXT_ROUND), &POWERS, probes - ROUND))
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FastLocalBloom<'a> {
    lines: &'a [[u8; LINE_LEN_BYTES]],
    payload_len: usize,
    probes: u8,
    kernel: Kernel,
}

impl<'a> FastLocalBloom<'a> {
    /// Returns the filter in `payload`. It ignores bytes after the last whole line.
    ///
    /// Returns `None` if a line does not have 64 bytes, or if the number of probes is not 1 to 30.
    /// Also returns `None` if the payload has no whole line, or has 4 GiB or more.
    pub(super) fn new(payload: &'a [u8], line_and_probes: u8) -> Option<Self> {
        // The upper three bits encode the length of a line, 0 for 64 bytes. So if a line is longer
        // than 64 bytes, the byte exceeds `MAX_PROBES`.
        let probes = (1..=MAX_PROBES).contains(&line_and_probes).then_some(line_and_probes)?;
        u32::try_from(payload.len()).ok()?;
        let (lines, _) = payload.as_chunks();
        (!lines.is_empty()).then_some(Self {
            lines,
            payload_len: payload.len(),
            probes,
            kernel: Kernel::new(Isa::detect()),
        })
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let line = line_number(hash, self.lines.len());
        // A line in a file is not aligned, so it may span two cache lines.
        prefetch(self.lines.as_flattened(), line * LINE_LEN_BYTES);
        prefetch(self.lines.as_flattened(), line * LINE_LEN_BYTES + LINE_LEN_BYTES - 1);
    }

    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        self.kernel.may_contain(self.lines, self.probes.into(), hash)
    }

    /// Writes the answer for each hash to `answers`. It stops at the end of the shorter slice.
    #[inline]
    pub(super) fn may_contain_batch(&self, hashes: &[u64], answers: &mut [bool]) {
        self.kernel.may_contain_batch(self.lines, self.probes.into(), hashes, answers);
    }

    pub(super) fn info(&self, len: usize) -> ForeignFilterInfo {
        let lines = self.lines.as_flattened();
        let info = ForeignFilterInfo::blocked(
            RocksDbFilterKind::FastLocalBloom.name(),
            len,
            lines,
            LINE_LEN_BYTES,
            1,
            self.probes.into(),
        );
        ForeignFilterInfo { payload_len_bytes: self.payload_len as u64, ..info }
    }
}

#[inline]
fn high_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns the line of a key, from the low half of its hash. There are fewer than 2^32 lines.
#[inline]
fn line_number(hash: u64, lines: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * lines as u64) >> 32) as usize
}

/// Returns the total length in bytes of all lines for `num_keys` keys. It is a multiple of a line's
/// length, and at most [`MAX_LEN_BYTES`].
pub(super) fn payload_len_bytes(num_keys: u64, millibits_per_key: u32) -> u64 {
    let bytes = u128::from(num_keys) * u128::from(millibits_per_key);
    let bytes = u64::try_from(bytes.div_ceil(8000)).unwrap_or(u64::MAX).min(MAX_LEN_BYTES);
    bytes.next_multiple_of(LINE_LEN_BYTES as u64)
}

/// Returns the number of probes for a budget in thousandths of a bit per key. RocksDB's authors
/// chose these numbers by simulation.
pub(super) fn probes(millibits_per_key: u64) -> u8 {
    const STEPS: [u64; 12] = [2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501];
    let step = STEPS.iter().zip(1..).find(|&(&most, _)| millibits_per_key <= most);
    match step {
        Some((_, probes)) => probes,
        #[expect(clippy::cast_possible_truncation, reason = "at most 23")]
        None if millibits_per_key <= 50_000 => ((millibits_per_key - 1) / 2000 - 1) as u8,
        None => 24,
    }
}

/// Builds the filter of `hashes`, with its trailer.
///
/// With `optimize_for_memory`, the number of probes follows from the bits per key after the length
/// is rounded up to whole lines.
///
/// # Panics
/// Panics if the filter is longer than `isize::MAX` bytes, which only a platform of 32 bits can
/// reach. If there is no memory for a shorter filter, the process aborts.
pub(super) fn build(hashes: &[u64], millibits_per_key: u32, optimize_for_memory: bool) -> Vec<u8> {
    let len = payload_len_bytes(hashes.len() as u64, millibits_per_key);
    let probes = match len.saturating_mul(8000).checked_div(hashes.len() as u64) {
        Some(millibits) if optimize_for_memory => probes(millibits),
        _ => probes(millibits_per_key.into()),
    };
    // If the length exceeds the address space, it becomes `usize::MAX`. `vec!` panics for this
    // length, as for any length above `isize::MAX`. With room for the trailer, the vector does not
    // grow to twice its size.
    let payload_len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut filter = vec![0; payload_len.saturating_add(TRAILER_LEN_BYTES)];
    filter.truncate(payload_len);
    let (lines, _) = filter.as_chunks_mut::<LINE_LEN_BYTES>();
    let num_lines = lines.len();
    for &hash in hashes {
        let Some(line) = lines.get_mut(line_number(hash, num_lines)) else { continue };
        let mut x = high_half(hash);
        for _ in 0..probes {
            let bit = x >> 23;
            if let Some(byte) = line.get_mut(bit as usize / 8) {
                *byte |= 1 << (bit % 8);
            }
            x = x.wrapping_mul(GOLDEN_RATIO);
        }
    }
    filter.extend_from_slice(&[NEW_BLOOM, 0, probes, 0, 0]);
    filter
}

#[cfg(test)]
mod tests {
    use super::super::legacy_bloom;
    use super::*;
    use crate::leveldb::LevelDbBloomBuilder;

    #[test]
    fn multipliers_are_the_powers_of_the_golden_ratio() {
        assert_eq!(POWERS[..4], [1, 0x9e37_79b9, 0xe35e_67b1, 0x7342_97e9]);
        assert_eq!(POWERS[8], 0xab25_f4c1, "RocksDB continues from this power after eight probes");
        assert_eq!((0..ROUND).fold(1u32, |x, _| x.wrapping_mul(GOLDEN_RATIO)), NEXT_ROUND);
    }

    #[test]
    fn bloom_filters_have_no_spare_capacity() {
        let mut leveldb = LevelDbBloomBuilder::new(10);
        (0..1000u32).for_each(|i| leveldb.add(&i.to_le_bytes()));
        for filter in [build(&[1; 1000], 10_000, false), legacy_bloom::build(&[1; 1000], 10), leveldb.finish()] {
            assert_eq!(filter.capacity(), filter.len());
        }
    }

    #[test]
    fn probes_change_at_the_bits_per_key_of_rocksdb() {
        for (millibits, expected) in [
            (0, 1),
            (2080, 1),
            (2081, 2),
            (10_000, 6),
            (10_071, 7),
            (25_501, 12),
            (25_502, 11),
            (28_001, 13),
            (50_000, 23),
            (50_001, 24),
            (u64::MAX, 24),
        ] {
            assert_eq!(probes(millibits), expected, "{millibits}");
        }
    }
}
