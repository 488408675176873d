//! Gives checked access to the bytes of a payload.

use crate::codec::{u16_at, u16_bytes, u32_at, u32_from, u64_bytes, u64_from};
use crate::simd::{Portable, Simd};

/// Tells whether a range of bytes, given by offset and length, has the bytes that the writer wrote.
pub(super) trait IsValid: Fn(usize, usize) -> bool {}

impl<V: Fn(usize, usize) -> bool> IsValid for V {}

/// A payload and the bytes after it. Every function that reads a value returns `None` if the bytes
/// end before the value does, or if they are not valid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a, V> {
    padded: &'a [u8],
    /// The length of the payload.
    len: usize,
    is_valid: &'a V,
}

impl<'a, V: IsValid> Bytes<'a, V> {
    pub(super) fn new(padded: &'a [u8], len: usize, is_valid: &'a V) -> Self {
        Self { padded, len, is_valid }
    }

    /// Returns the `len` bytes from `at` on.
    #[inline(always)]
    pub(super) fn get(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        let bytes = self.padded.get(at..)?.get(..len)?;
        self.are_valid(at, len).then_some(bytes)
    }

    /// Returns the `N` bytes from `at` on. The bytes after the payload belong to no part of the
    /// filter, so no answer depends on them, and they need not be valid.
    #[inline(always)]
    fn chunk<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        let bytes = self.padded.get(at..)?.first_chunk::<N>()?;
        self.are_valid(at, N).then_some(bytes)
    }

    #[inline(always)]
    fn are_valid(&self, at: usize, len: usize) -> bool {
        at >= self.len || (self.is_valid)(at, len.min(self.len - at))
    }

    #[inline(always)]
    fn u32_at(&self, at: usize) -> Option<u32> {
        u32_at(self.chunk::<4>(at)?, 0)
    }

    /// Returns word `index` of the words from `start` on.
    #[inline(always)]
    pub(super) fn word(&self, start: usize, index: u64) -> Option<u64> {
        let at = usize::try_from(index).ok()?.checked_mul(8)?.checked_add(start)?;
        self.chunk::<8>(at).map(u64_from)
    }

    /// Returns the bits from bit `bit` on. Bit 0 is the lowest bit of byte `start`. At least the
    /// lowest 57 bits of the result are valid.
    #[inline(always)]
    fn window(&self, start: usize, bit: u64) -> Option<u64> {
        let at = usize::try_from(bit / 8).ok()?.checked_add(start)?;
        Some(u64_from(self.chunk::<8>(at)?) >> (bit % 8))
    }
}

/// The number of buckets between two ranks.
const STEP: u64 = 256;
/// The number of narrow ranks that share a base.
const STEPS_PER_GROUP: usize = 16;
/// The length of a base and of the ranks that share it.
const GROUP_LEN_BYTES: usize = 4 + 2 * STEPS_PER_GROUP;
/// The maximum number of low bits of a code. A 64-bit word has at least [`WINDOW_BITS`] bits from
/// any bit of its first byte on, so one load gets the low bits of a code.
const MAX_LOW_BITS: u32 = 56;
const WINDOW_BITS: u32 = 57;
/// The number of bytes of the high bits that a query loads at once.
const LOAD_LEN_BYTES: usize = 64;
const LINE_BITS: u32 = 512;

/// The parameters and positions of the parts, within a payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EliasFano {
    pub(super) num_codes: u64,
    /// Every code is less than this number.
    pub(super) universe: u64,
    pub(super) low_bits: u32,
    /// Whether ranks have 32 bits each. The builder chooses this if a group of 4,096 buckets has
    /// 65,536 codes or more.
    pub(super) is_wide: bool,
    highs_at: usize,
    ranks_at: usize,
    lows_at: usize,
    pub(super) end: usize,
}

impl EliasFano {
    /// Places the parts from `start` on. Returns `None` if the parameters are invalid, or if the
    /// length does not fit the address space.
    pub(super) fn new(start: usize, num_codes: u64, universe: u64, low_bits: u32, is_wide: bool) -> Option<Self> {
        if low_bits > MAX_LOW_BITS || num_codes > u32::MAX.into() {
            return None;
        }
        let sizes = Sizes::of(num_codes, universe, low_bits, is_wide)?;
        let after = |at: usize, len: u64| at.checked_add(usize::try_from(len).ok()?);
        let highs_at = start;
        let ranks_at = after(highs_at, sizes.highs)?;
        let lows_at = after(ranks_at, sizes.ranks)?;
        let end = after(lows_at, sizes.lows)?;
        Some(Self { num_codes, universe, low_bits, is_wide, highs_at, ranks_at, lows_at, end })
    }

    /// Returns the number of low bits per code for which the parts are the shortest.
    pub(super) fn best_low_bits(num_codes: u64, universe: u64) -> u32 {
        let len = |&low_bits: &u32| len_bits(num_codes, universe, low_bits);
        (0..=MAX_LOW_BITS).min_by_key(len).unwrap_or_default()
    }

    /// Returns whether a code lies in `from..=to`. Returns `None` if a byte is missing or not
    /// sound, or if the query finds a contradiction between the parts.
    #[inline(always)]
    pub(super) fn any<V: IsValid>(&self, simd: impl Simd, bytes: &Bytes<'_, V>, from: u64, to: u64) -> Option<bool> {
        let bucket = from >> self.low_bits;
        let at = self.bucket_start(simd, bytes, bucket)?;
        let ones = bytes.window(self.highs_at, at)?.trailing_ones();
        if bucket != to >> self.low_bits || ones > 2 {
            return self.search(bytes, from, to, at);
        }
        // Most buckets have up to two codes. Both are compared without a branch.
        let (first, low, width) = (at.checked_sub(bucket)?, from & self.low_mask(), to - from);
        let one = self.low(bytes, first)?;
        let other = if self.low_bits <= WINDOW_BITS / 2 {
            bytes.window(self.lows_at, first.wrapping_mul(self.low_bits.into()))? >> self.low_bits & self.low_mask()
        } else {
            self.low(bytes, first + 1)?
        };
        let (one, other) = (one.wrapping_sub(low) <= width, other.wrapping_sub(low) <= width);
        Some((ones > 0) & one | (ones > 1) & other)
    }

    /// Answers like [`EliasFano::any`] for every case. `at` is the start of the bucket of `from`.
    #[cold]
    #[inline(never)]
    fn search<V: IsValid>(&self, bytes: &Bytes<'_, V>, from: u64, to: u64, at: u64) -> Option<bool> {
        let (first_bucket, last_bucket) = (from >> self.low_bits, to >> self.low_bits);
        let mut low = at.checked_sub(first_bucket)?;
        let mut high = self.bucket_end(bytes, at)?.checked_sub(first_bucket)?;
        let end = high;
        if end > self.num_codes {
            return None;
        }
        // The loop finds the first code of the bucket that is not below `from`.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.low(bytes, middle)? < from & self.low_mask() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low < end {
            return Some(first_bucket < last_bucket || self.low(bytes, low)? <= to & self.low_mask());
        }
        if first_bucket == last_bucket {
            return Some(false);
        }
        // A code lies in the range if there are codes between the two buckets, or if the first code
        // of the last bucket is at most `to`.
        let at = self.bucket_start(Portable, bytes, last_bucket)?;
        let next = at.checked_sub(last_bucket)?;
        if next != end {
            return (next > end).then_some(true);
        }
        let has_code = bytes.window(self.highs_at, at)? & 1 == 1;
        Some(has_code && self.low(bytes, next)? <= to & self.low_mask())
    }

    fn low_mask(&self) -> u64 {
        (1 << self.low_bits) - 1
    }

    #[inline(always)]
    fn low<V: IsValid>(&self, bytes: &Bytes<'_, V>, i: u64) -> Option<u64> {
        Some(bytes.window(self.lows_at, i.wrapping_mul(self.low_bits.into()))? & self.low_mask())
    }

    /// Returns the number of codes below bucket `STEP * step`.
    #[inline(always)]
    fn rank<V: IsValid>(&self, bytes: &Bytes<'_, V>, step: u64) -> Option<u64> {
        let index = usize::try_from(step).ok()?;
        if self.is_wide {
            return bytes.u32_at(self.ranks_at + index * 4).map(u64::from);
        }
        let group = bytes.chunk::<GROUP_LEN_BYTES>(self.ranks_at + index / STEPS_PER_GROUP * GROUP_LEN_BYTES)?;
        let (base, differences) = group.split_first_chunk()?;
        Some(u64::from(u32_from(base)) + u64::from(u16_at(differences, index % STEPS_PER_GROUP * 2)?))
    }

    /// Returns the position of a bucket's first bit among the high bits: after the zeros of all
    /// buckets before it.
    #[inline(always)]
    fn bucket_start<V: IsValid>(&self, simd: impl Simd, bytes: &Bytes<'_, V>, bucket: u64) -> Option<u64> {
        let step = bucket / STEP;
        let from = self.rank(bytes, step)? + step * STEP;
        let first = usize::try_from(from / 64).ok()?;
        let Some(line) = bytes.chunk::<LOAD_LEN_BYTES>(self.highs_at + first * 8) else {
            return self.bucket_start_from(bytes, from, bucket % STEP);
        };
        // The line begins with the word of `from`, so zeros before `from` in this word count, too.
        let front = !u64_from(line.first_chunk()?) & !(u64::MAX << (from % 64));
        let wanted = (bucket % STEP) as u32 + front.count_ones();
        // The first bucket begins at bit 0. Every other bucket begins after a zero. If `wanted` is
        // 0, this zero is the last bit before the line.
        let behind = if wanted == 0 { 0 } else { simd.select_zero_in_line(line, wanted - 1) + 1 };
        if behind > LINE_BITS {
            return self.bucket_start_from(bytes, from, bucket % STEP);
        }
        Some(first as u64 * 64 + u64::from(behind))
    }

    /// Returns the position after `wanted` zeros from position `from` on. The function reads as
    /// many words as needed.
    #[cold]
    #[inline(never)]
    fn bucket_start_from<V: IsValid>(&self, bytes: &Bytes<'_, V>, from: u64, wanted: u64) -> Option<u64> {
        let Some(mut wanted) = wanted.checked_sub(1) else { return Some(from) };
        let mut index = from / 64;
        let mut zeros = !bytes.word(self.highs_at, index)? & u64::MAX << (from % 64);
        while u64::from(zeros.count_ones()) <= wanted {
            wanted -= u64::from(zeros.count_ones());
            index += 1;
            zeros = !bytes.word(self.highs_at, index)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below the 64 ones of a word")]
        Some(index * 64 + u64::from(Portable.select(zeros, wanted as u32)) + 1)
    }

    /// Returns the position of the zero that ends the bucket with a bit at position `at`.
    fn bucket_end<V: IsValid>(&self, bytes: &Bytes<'_, V>, at: u64) -> Option<u64> {
        let ones = bytes.window(self.highs_at, at)?.trailing_ones();
        if ones < WINDOW_BITS {
            return Some(at + u64::from(ones));
        }
        let mut index = at / 64;
        let mut zeros = !bytes.word(self.highs_at, index)? & u64::MAX << (at % 64);
        while zeros == 0 {
            index += 1;
            zeros = !bytes.word(self.highs_at, index)?;
        }
        Some(index * 64 + u64::from(zeros.trailing_zeros()))
    }

    /// Writes the parts of sorted, distinct codes into a payload of zeros. Panics if the payload or the
    /// codes do not fit these parameters.
    pub(super) fn write(&self, payload: &mut [u8], codes: impl Iterator<Item = u64>) {
        let mut writer = Writer { parts: self, payload, next_step: 0, lows: 0, num_lows: 0, lows_at: self.lows_at };
        let mut count = 0;
        for code in codes {
            writer.put(count, code);
            count += 1;
        }
        assert_eq!(count, self.num_codes, "the parameters are for another number of codes");
        writer.finish(count);
    }
}

/// Returns whether ascending codes need ranks of 32 bits.
pub(super) fn needs_wide_ranks(codes: impl Iterator<Item = u64>, low_bits: u32) -> bool {
    let (mut base, mut base_count) = (0, 0u64);
    codes.zip(0u64..).any(|(code, i)| {
        let of_code = (code >> low_bits) / (STEP * STEPS_PER_GROUP as u64);
        if of_code != base {
            (base, base_count) = (of_code, i);
        }
        i - base_count >= u16::MAX.into()
    })
}

/// Returns the length in bits of all parts with narrow ranks, before the parts are rounded up.
pub(super) fn len_bits(num_codes: u64, universe: u64, low_bits: u32) -> u128 {
    let buckets = u128::from(universe.saturating_sub(1) >> low_bits) + 1;
    let steps = buckets / u128::from(STEP) + 1;
    u128::from(num_codes) * u128::from(low_bits) + u128::from(num_codes) + buckets + steps * 18
}

struct Sizes {
    highs: u64,
    ranks: u64,
    lows: u64,
}

impl Sizes {
    fn of(num_codes: u64, universe: u64, low_bits: u32, is_wide: bool) -> Option<Self> {
        let buckets = (universe.checked_sub(1)? >> low_bits) + 1;
        let steps = buckets / STEP + 1;
        let ranks = if is_wide { steps * 4 } else { steps.div_ceil(STEPS_PER_GROUP as u64) * GROUP_LEN_BYTES as u64 };
        let highs = num_codes.checked_add(buckets)?.div_ceil(64) * 8;
        Some(Self { highs, ranks, lows: num_codes.checked_mul(low_bits.into())?.div_ceil(8) })
    }
}

struct Writer<'a> {
    parts: &'a EliasFano,
    payload: &'a mut [u8],
    /// The number of the next rank to write.
    next_step: u64,
    /// Low bits that do not fill a word yet.
    lows: u64,
    num_lows: u32,
    lows_at: usize,
}

#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "the payload has room for all codes")]
impl Writer<'_> {
    #[inline]
    fn put(&mut self, i: u64, code: u64) {
        let (bucket, bits) = (code >> self.parts.low_bits, self.parts.low_bits);
        while self.next_step * STEP <= bucket {
            self.put_rank(i);
        }
        let at = bucket + i;
        self.payload[self.parts.highs_at + (at / 8) as usize] |= 1 << (at % 8);
        let low = code & self.parts.low_mask();
        self.lows |= low << self.num_lows;
        self.num_lows += bits;
        if self.num_lows >= 64 {
            self.payload[self.lows_at..][..8].copy_from_slice(&u64_bytes(self.lows));
            self.lows_at += 8;
            self.num_lows -= 64;
            self.lows = low >> (bits - self.num_lows);
        }
    }

    /// Writes `count` as the next rank: the number of codes in the buckets below the rank's bucket.
    fn put_rank(&mut self, count: u64) {
        let index = self.next_step as usize;
        self.next_step += 1;
        let mut set = |at: usize, bytes: &[u8]| self.payload[at..at + bytes.len()].copy_from_slice(bytes);
        // There are fewer than 2^32 codes.
        let count = count as u32;
        let [a, b, c, d, ..] = u64_bytes(count.into());
        if self.parts.is_wide {
            return set(self.parts.ranks_at + index * 4, &[a, b, c, d]);
        }
        let base_at = self.parts.ranks_at + index / STEPS_PER_GROUP * GROUP_LEN_BYTES;
        let number = index % STEPS_PER_GROUP;
        if number == 0 {
            set(base_at, &[a, b, c, d]);
        }
        let base = u32_at(self.payload, base_at).expect("the group was just written");
        let delta = u16::try_from(count - base).expect("larger ranks are wide");
        let at = base_at + 4 + number * 2;
        self.payload[at..at + 2].copy_from_slice(&u16_bytes(delta));
    }

    fn finish(mut self, count: u64) {
        let buckets = ((self.parts.universe - 1) >> self.parts.low_bits) + 1;
        while self.next_step < buckets / STEP + 1 {
            self.put_rank(count);
        }
        let rest = self.num_lows.div_ceil(8) as usize;
        self.payload[self.lows_at..self.lows_at + rest].copy_from_slice(&u64_bytes(self.lows)[..rest]);
    }
}
