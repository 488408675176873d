//! Computes the size of RocksDB's ribbon filters, and builds them.
//!
//! Sizes come from floating-point numbers, rounded as RocksDB rounds them. RocksDB uses `exp`, `ln`
//! and `pow` of its platform, and so does this crate. A platform that rounds the last digit
//! differently could change a size slightly. Readers take the size from the filter's bytes.

use super::{BLOCK_SLOTS, MAX_COLUMNS, Rows, WORD_LEN_BYTES, trailer};
use crate::rocksdb::kind::TRAILER_LEN_BYTES;
use filterblock_simd::ribbon::{self, Layout};
use filterblock_simd::try_zeros;

/// The maximum number of keys of a ribbon filter. For more keys, RocksDB writes a Bloom filter.
const MAX_KEYS: u64 = 950_000_000;
/// Below this number of slots, RocksDB writes a Bloom filter if it is smaller than the ribbon
/// filter.
const SMALL_SLOTS: u64 = 1024;
const LINE_BITS: f64 = 512.0;
/// The logarithm of e to the base 2, with the digits in RocksDB's source.
#[expect(clippy::approx_constant, reason = "the digits in RocksDB's source")]
const LOG2_E: f64 = 1.442_695_040_9;

/// `KEYS_BY_LOG2_SLOTS[i]`: the number of keys in 2^(8 + i) slots for which one seed in twenty has
/// no solution. RocksDB's authors measured these numbers.
const KEYS_BY_LOG2_SLOTS: [f64; 10] =
    [248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126506.0];
const FIRST_LOG2: u32 = 8;
/// The increase in slots per key with each further doubling of the slots.
const GROWTH: f64 = 0.0038;

/// Returns the number of keys that fit in 2^`log2_slots` slots. It is 0 for fewer than 256 slots.
fn keys_of_power(log2_slots: u32) -> f64 {
    let Some(i) = log2_slots.checked_sub(FIRST_LOG2) else { return 0.0 };
    if let Some(&keys) = KEYS_BY_LOG2_SLOTS.get(i as usize) {
        return keys;
    }
    let slots_per_key = 131_072.0 / 126_506.0 - 17.0 * GROWTH + f64::from(log2_slots) * GROWTH;
    f64::from(log2_slots).exp2() / slots_per_key
}

/// Returns the number of slots for `num_keys` keys, which must be 1 or more. The slots are whole
/// blocks, at least two.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "logarithms and rounded sizes are small")]
fn num_slots(num_keys: u64) -> u64 {
    let keys = num_keys as f64;
    let mut log2 = (keys.ln() * LOG2_E + 0.5) as u32;
    let here = keys_of_power(log2);
    let slots = if here == 0.0 {
        256
    } else {
        let (lower, upper) = if keys < here {
            log2 -= 1;
            (keys_of_power(log2), here)
        } else {
            (here, keys_of_power(log2 + 1))
        };
        let power = f64::from(log2).exp2();
        let share = (keys - lower) / (upper - lower);
        (share * power + power + 0.999_999_999) as u64
    };
    slots.next_multiple_of(BLOCK_SLOTS).max(2 * BLOCK_SLOTS)
}

/// Returns the largest number of keys for which RocksDB uses at most this many slots.
pub(super) fn most_keys(slots: u64) -> u64 {
    let (mut fits, mut too_many) = (0, slots + 1);
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        if num_slots(middle) <= slots { fits = middle } else { too_many = middle }
    }
    fits
}

/// Returns the false-positive rate that RocksDB computes for its Bloom filter. It is the mean rate
/// of two lines. One line has one standard deviation more keys than the average line, and the other
/// has one standard deviation fewer.
fn bloom_rate(bits_per_key: f64, probes: u8) -> f64 {
    let probes = f64::from(probes);
    let rate = |keys: f64| (1.0 - (-probes / (LINE_BITS / keys)).exp()).powf(probes);
    let keys = LINE_BITS / bits_per_key;
    let deviation = keys.sqrt();
    (rate(keys + deviation) + rate(keys - deviation)) / 2.0
}

/// The size of a ribbon filter.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RibbonSizes {
    slots: u64,
    words: u64,
}

impl RibbonSizes {
    /// Computes the size of a filter that has the FPR of a `FastLocalBloom` filter with this
    /// budget, but at least 2^-32. The high half of the first key's hash decides how to round the
    /// number of blocks with one column less than the other blocks.
    ///
    /// Returns `None` for no keys and for more than [`MAX_KEYS`] keys.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of the number of blocks")]
    pub(in super::super) fn new(num_keys: u64, bits_per_key: f64, bloom_probes: u8, first_hash: u64) -> Option<Self> {
        if !(1..=MAX_KEYS).contains(&num_keys) {
            return None;
        }
        let slots = num_slots(num_keys);
        let blocks = slots / BLOCK_SLOTS;
        let rate = bloom_rate(bits_per_key, bloom_probes);
        let one_in = 1.0 / rate;
        if one_in > f64::from(u32::MAX) {
            return Some(Self { slots, words: blocks * MAX_COLUMNS });
        }
        let columns = u64::from((one_in as u64).max(1).ilog2());
        let (most, least) = ((-(columns as f64)).exp2(), (-((columns + 1) as f64)).exp2());
        // RocksDB uses `1.0 / one_in`, which can differ from `rate` in the last digit.
        let share = (1.0 / one_in - least) / (most - least);
        let rounding = ((first_hash >> 32) as f64 + 0.5) / 4_294_967_296.0;
        let starts = slots - (BLOCK_SLOTS - 1);
        let narrow = ((share * starts as f64 + rounding) / BLOCK_SLOTS as f64) as u64;
        Some(Self { slots, words: blocks * columns + blocks.saturating_sub(narrow) })
    }

    /// Returns whether RocksDB writes a Bloom filter of this length (with trailer) instead of the
    /// ribbon filter.
    pub(in super::super) fn lose_to(&self, bloom_len_bytes: u64) -> bool {
        self.slots < SMALL_SLOTS && bloom_len_bytes < self.len_bytes()
    }

    fn len_bytes(&self) -> u64 {
        self.words * WORD_LEN_BYTES as u64 + TRAILER_LEN_BYTES as u64
    }

    /// Builds the filter of `hashes`, with its trailer. Returns `None` if `hashes` are empty, if
    /// none of the 256 seeds has a solution, or if no memory is left.
    ///
    /// The low byte of the first hash is the first seed to try.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most 32 columns, blocks fit 24 bits, only the low byte counts"
    )]
    pub(in super::super) fn build(&self, hashes: &[u64]) -> Option<Vec<u8>> {
        let blocks = self.slots / BLOCK_SLOTS;
        let columns = self.words.div_ceil(blocks);
        let layout = Layout { columns: columns as u32, narrow: columns * blocks - self.words, blocks, seed: 0 };
        let first_seed = *hashes.first()? as u8;
        for i in 0..=u8::MAX {
            let seed = first_seed.wrapping_add(i);
            let rows = Rows::new(seed, layout.starts());
            // If memory is missing for one seed, it is missing for all: every seed takes the same
            // amount.
            let solved = ribbon::solve(&layout, hashes.iter().map(|&hash| rows.of(hash)), try_zeros).ok()?;
            if let Some(mut filter) = solved {
                filter.try_reserve_exact(TRAILER_LEN_BYTES).ok()?;
                filter.extend_from_slice(&trailer(seed, blocks as u32));
                return Some(filter);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocksdb::fast_local_bloom::probes;

    #[test]
    fn rates_and_sizes_are_those_of_rocksdb() {
        for (bits, one_in) in [
            (10u32, 104.902_353_487_828_18),
            (5, 10.788_342_018_508_663),
            (16, 1_255.053_208_612_682_3),
            (1, 1.582_876_459_968_701_7),
        ] {
            let rate = bloom_rate(bits.into(), probes(u64::from(bits) * 1000));
            assert_eq!(1.0 / rate, one_in, "{bits}");
        }
        for (keys, slots, bytes) in [
            (300, 384, 336),
            (1000, 1024, 880),
            (5000, 5120, 4352),
            (20_000, 20_608, 17_472),
            (126_507, 131_200, 111_200),
            (1_000_000, 1_047_552, 887_792),
        ] {
            let sizes = RibbonSizes::new(keys, 10.0, 6, 0).unwrap();
            let fewest = RibbonSizes::new(keys, 10.0, 6, u64::MAX).unwrap();
            assert_eq!(sizes.slots, slots, "{keys}");
            let range = fewest.words * 16..=sizes.words * 16;
            assert!(range.contains(&bytes), "{keys}: {bytes} of {range:?}");
            assert!(num_slots(most_keys(slots)) <= slots && num_slots(most_keys(slots) + 1) > slots, "{keys}");
        }
    }

    #[test]
    fn the_first_hash_decides_how_columns_are_rounded() {
        let words = |num_keys, first_hash| RibbonSizes::new(num_keys, 10.0, 6, first_hash).unwrap().words;
        let undecided: Vec<u64> = (1..2_000).map(|i| i * 130).filter(|&n| words(n, 0) != words(n, u64::MAX)).collect();
        // A rounding difference of one start changes the number of narrow blocks for about one in
        // 128 values of `num_keys`.
        assert!((4..60).contains(&undecided.len()), "{undecided:?}");
        for num_keys in undecided {
            assert_eq!(words(num_keys, 0), words(num_keys, u64::MAX) + 1, "{num_keys}");
            assert_eq!(words(num_keys, 0), words(num_keys, u64::from(u32::MAX)), "{num_keys}: by the high half alone");
        }
    }
}
