//! Describes a layer as a reader sees it: the start of a hash, whether its key was bumped, and the
//! positions of the columns.

use super::hashes::Equation;
use super::hashes::column_group;
use super::{BLOCK_SLOTS, BUCKET_STARTS, GROUP_COLUMNS, LEFT, RIGHT, THRESHOLDS};
use crate::simd::Simd;
use crate::simd::reduce;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// The number of columns of the blocks that do not have one column less.
    pub(super) all: u32,
    /// The share of blocks with one column less, in 65,536ths.
    pub(super) fewer_share: u16,
}

impl Columns {
    pub(super) fn groups(self) -> usize {
        self.all.div_ceil(GROUP_COLUMNS) as usize
    }

    /// Returns the number of columns as a parameter for the trailer.
    pub(super) fn param(self) -> u8 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "columns are 1 to MAX_COLUMNS (32) wherever they are chosen or read"
        )]
        let all = self.all as u8;
        all
    }

    /// Returns the number of columns of a group, in a block with all columns.
    pub(super) fn of_group(self, group: usize) -> usize {
        (self.all as usize).saturating_sub(group * GROUP_COLUMNS as usize).min(GROUP_COLUMNS as usize)
    }

    /// Returns how many of `blocks` blocks have one column less.
    pub(super) fn fewer(self, blocks: usize) -> usize {
        ((blocks as u128 * u128::from(self.fewer_share)) >> 16) as usize
    }
}

/// The whole blocks of a layer or of a single system. In each group of columns, they lie one after
/// the other. In the last group, the first `fewer` blocks have one column less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) count: usize,
    pub(super) fewer: usize,
}

impl Blocks {
    pub(super) fn new(count: usize, columns: Columns) -> Self {
        Self { count, fewer: columns.fewer(count) }
    }

    /// Returns the number of words of a group in front of a block.
    #[inline(always)]
    pub(super) fn words_before(self, block: usize, group_columns: usize, is_last_group: bool) -> usize {
        block * group_columns - if is_last_group { block.min(self.fewer) } else { 0 }
    }

    pub(super) fn len_bytes(self, columns: Columns, group: usize) -> usize {
        8 * self.words_before(self.count, columns.of_group(group), group + 1 == columns.groups())
    }
}

/// The first group of columns of whole blocks. Nearly every query of an absent key reads only this
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FirstGroup {
    /// The offset of the group.
    from: usize,
    columns: usize,
    fewer: usize,
    /// Whether every block has eight columns.
    is_lines: bool,
}

impl FirstGroup {
    pub(super) fn new(from: usize, blocks: Blocks, columns: Columns) -> Self {
        let fewer = if columns.groups() == 1 { blocks.fewer } else { 0 };
        let columns = columns.of_group(0);
        Self { from, columns, fewer, is_lines: columns == 8 && fewer == 0 }
    }

    pub(super) fn is_lines(self) -> bool {
        self.is_lines
    }

    /// Returns whether an equation holds in these columns. All slots of the equation must be in
    /// whole blocks. Returns `true` if bytes are missing.
    #[inline(always)]
    pub(super) fn holds(self, simd: impl Simd, bytes: &[u8], equation: Equation) -> bool {
        let (low, high) = equation.split();
        self.holds_split(simd, bytes, equation.start / BLOCK_SLOTS, (low, high), column_group(equation.sum, 0))
    }

    /// Returns whether an equation holds in these columns. `low` and `high` are its coefficients in
    /// the block of the start and in the next block. Returns `true` if bytes are missing.
    #[inline(always)]
    pub(super) fn holds_split(
        self,
        simd: impl Simd,
        bytes: &[u8],
        block: usize,
        (low, high): (u64, u64),
        sum: u32,
    ) -> bool {
        if self.is_lines {
            // A block is a cache line, so one bounds check covers both blocks.
            let lines = bytes.get(self.from + 64 * block..).and_then(<[u8]>::first_chunk::<128>);
            let Some((first, second)) = lines.and_then(|lines| lines.split_first_chunk()) else { return true };
            let Some(second) = second.first_chunk() else { return true };
            return simd.parities_of_64(first, second, low, high) == sum;
        }
        let words = block * self.columns - block.min(self.fewer);
        let used = self.columns - usize::from(block < self.fewer);
        let Some(from) = bytes.get(self.from + 8 * words..) else { return true };
        let Some(second) = from.get(8 * used..) else { return true };
        let (Some(first), Some(second)) = (from.first_chunk(), second.first_chunk()) else { return true };
        let differ = simd.parities_of_64(first, second, low, high) ^ sum;
        differ & ((1 << used) - 1) == 0
    }

    /// Returns the blocks and the bytes after them as cache lines. Returns `None` unless every
    /// block is a cache line.
    #[inline(always)]
    pub(super) fn lines(self, bytes: &[u8]) -> Option<&[[u8; 64]]> {
        self.is_lines.then(|| bytes.get(self.from..).unwrap_or_default().as_chunks().0)
    }

    #[inline(always)]
    pub(super) fn offset(self, block: usize) -> usize {
        self.from + 8 * (block * self.columns - block.min(self.fewer))
    }
}

/// The possible starts of keys in a number of slots. A key may start where all its 64 slots exist.
/// With 64 slots or fewer, all keys have the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Starts {
    /// Hashes are reduced to this range, and then the extra starts at both ends are moved to the
    /// first and last start.
    range: u64,
    last: u64,
}

impl Starts {
    pub(super) fn new(slots: usize) -> Self {
        Self::of_slots(slots as u64)
    }

    pub(super) fn of_slots(slots: u64) -> Self {
        Self::with_last(slots.saturating_sub(BLOCK_SLOTS as u64))
    }

    #[inline(always)]
    pub(super) fn with_last(last: u64) -> Self {
        Self { range: if last == 0 { 1 } else { last + 1 + LEFT + RIGHT }, last }
    }

    pub(super) fn last(self) -> u64 {
        self.last
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "at most `last`, which fits in a usize for each caller")]
    pub(super) fn of(self, hash: u64) -> usize {
        reduce(hash, self.range).saturating_sub(LEFT).min(self.last) as usize
    }

    /// Returns the starts of many hashes. For each hash, the function computes two products of
    /// 32-bit numbers, which vector instructions can do, instead of one product of 64-bit numbers.
    /// Returns `None` if there are too many slots for this method.
    #[inline(always)]
    pub(super) fn of_many<const N: usize>(self, hashes: &[u64; N]) -> Option<[u64; N]> {
        let range = u64::from(u32::try_from(self.range).ok()?);
        let last = self.last;
        let mut starts = [0; N];
        // This is a loop, because `map` of a long array is compiled as a separate function, without
        // the instruction set of the caller.
        for (start, hash) in starts.iter_mut().zip(hashes) {
            // Each product is at most (2^32 - 1)^2. So the sum is below (2^32 - 1)^2 + 2^32, and
            // does not overflow.
            let reduced = ((hash >> 32) * range + (((hash & u64::from(u32::MAX)) * range) >> 32)) >> 32;
            *start = (reduced.max(LEFT) - LEFT).min(last);
        }
        Some(starts)
    }

    /// Returns the smallest hash whose start is at least `start`, or `None` if there is none.
    pub(super) fn least_hash(self, start: u64) -> Option<u64> {
        if start == 0 {
            return Some(0);
        }
        if start > self.last {
            return None;
        }
        // reduce(h) >= t holds exactly if h >= ceil(t * 2^64 / range).
        let scaled = (u128::from(start + LEFT) << 64).div_ceil(u128::from(self.range));
        u64::try_from(scaled).ok()
    }

    /// Returns the share of hashes whose start is below `slot`.
    pub(super) fn share_below(self, slot: u64) -> f64 {
        match slot {
            0 => 0.0,
            slot if slot > self.last => 1.0,
            slot => (slot + LEFT) as f64 / self.range as f64,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most `last + 1`, and `last` was made from a usize")]
    pub(super) fn buckets(self) -> usize {
        (self.last / BUCKET_STARTS as u64 + 1) as usize
    }
}

/// Returns the length of the bump bits: two bits per bucket.
pub(super) fn bumps_len_bytes(buckets: usize) -> usize {
    buckets.div_ceil(4)
}

/// Returns the index of the byte that holds the bits of a start's bucket.
#[inline(always)]
pub(super) fn bump_byte(start: usize) -> usize {
    start / (4 * BUCKET_STARTS)
}

/// [`THRESHOLDS`] packed into one word: a shift is cheaper than a load.
const PACKED: u32 =
    THRESHOLDS[0] as u32 | (THRESHOLDS[1] as u32) << 8 | (THRESHOLDS[2] as u32) << 16 | (THRESHOLDS[3] as u32) << 24;

/// Returns whether the key with this start was bumped. `byte` holds the two bits of its bucket.
#[inline(always)]
pub(super) fn is_bumped(byte: u8, start: usize) -> bool {
    let bits = u32::from(byte) >> (2 * (start / BUCKET_STARTS % 4)) & 3;
    #[expect(clippy::cast_possible_truncation, reason = "less than 128")]
    let from_first = (start % BUCKET_STARTS) as u32;
    from_first < (PACKED >> (8 * bits) & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_hash_is_the_first_hash_with_its_start() {
        // The last size exists only with 64-bit addresses.
        let huge = 1usize.checked_shl(40).map(|slots| slots + 64);
        for slots in [65, 66, 128, 1_000, 4_096, 1 << 20].into_iter().chain(huge) {
            let starts = Starts::new(slots);
            for start in (1..300).chain([starts.last / 2, starts.last]).filter(|&start| start <= starts.last) {
                let least = starts.least_hash(start).unwrap();
                assert!(
                    starts.of(least) as u64 >= start && (least == 0 || (starts.of(least - 1) as u64) < start),
                    "{slots} {start}"
                );
            }
            assert_eq!(starts.least_hash(starts.last + 1), None);
            let hashes: [u64; 64] =
                std::array::from_fn(|i| (i as u64).wrapping_mul(0x0410_4104_1041_0411).wrapping_sub(i as u64 % 3));
            match starts.of_many(&hashes) {
                Some(many) => assert_eq!(many, hashes.map(|hash| starts.of(hash) as u64), "{slots}"),
                None => assert!(slots > u32::MAX as usize),
            }
            assert_eq!((starts.of(0), starts.of(u64::MAX) as u64), (0, starts.last));
        }
    }

    #[test]
    fn share_below_agrees_with_the_least_hash() {
        for slots in [1, 64, 65, 128, 1_000, 65_536] {
            let starts = Starts::new(slots);
            for slot in (0..slots).step_by(slots / 50 + 1).chain(slots.saturating_sub(66)..=slots) {
                let wanted = match starts.least_hash(slot as u64) {
                    Some(least) => least as f64 / 2f64.powi(64),
                    None => 1.0,
                };
                let found = starts.share_below(slot as u64);
                assert!((found - wanted).abs() < 1e-12, "{slot} of {slots}: {found} for {wanted}");
            }
        }
    }

    #[test]
    fn two_bits_select_the_threshold() {
        for bits in 0..4u8 {
            for start in 0..512 {
                let byte = bits << (2 * (start / 128 % 4));
                let others = 0x55 & !(3 << (2 * (start / 128 % 4)));
                assert_eq!(is_bumped(byte | others, start), start % 128 < usize::from(THRESHOLDS[usize::from(bits)]));
            }
        }
    }
}
