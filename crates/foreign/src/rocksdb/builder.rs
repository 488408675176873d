//! Builds RocksDB's filters, byte for byte.

use super::fast_local_bloom;
use super::filter::ALWAYS_MAYBE;
use super::kind::{NEW_BLOOM, RocksDbFilterKind, TRAILER_LEN_BYTES};
use super::legacy_bloom;
use super::ribbon::RibbonSizes;
use crate::{hash32, xxph3};

/// The minimum number of bits per key. For fewer, RocksDB writes no filter.
const LEAST_BITS_PER_KEY: f64 = 0.5;
const MOST_BITS_PER_KEY: f64 = 100.0;

/// The options of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RocksDbFilterOptions {
    /// The layout. As in RocksDB, `Ribbon128` gives a `FastLocalBloom` filter for more than 950
    /// million keys, and for few keys if the Bloom filter is shorter. A failed build has this
    /// result too: see [`RocksDbFilterBuilder::finish`].
    pub kind: RocksDbFilterKind,
    /// Bits per key, as given to RocksDB's policy. As in RocksDB, a value from 0.5 to 1 counts as
    /// 1, and a value above 100 or a NaN counts as 100. For a value below 0.5, RocksDB writes no
    /// filter, and this builder returns an always-maybe filter.
    ///
    /// `FastLocalBloom` rounds the value to a thousandth, and `LegacyBloom` to a whole number. A
    /// ribbon filter has about the false-positive rate of a `FastLocalBloom` filter with this many
    /// bits per key, and usually needs fewer bits.
    pub bits_per_key: f64,
    /// RocksDB's option `optimize_filters_for_memory`. If it is on, the number of probes of a
    /// `FastLocalBloom` filter follows from its length after rounding to whole lines. If RocksDB's
    /// allocator reports the usable size of an allocation, RocksDB also changes the length. This
    /// builder does not change the length.
    pub optimize_for_memory: bool,
    /// Whether a Bloom filter without keys has a trailer. RocksDB 7.8.3 writes only the trailer
    /// (`true`). RocksDB 11.8.1 writes no bytes (`false`). A ribbon filter without keys has no
    /// bytes in either case.
    pub trailer_without_keys: bool,
}

impl Default for RocksDbFilterOptions {
    fn default() -> Self {
        Self {
            kind: RocksDbFilterKind::FastLocalBloom,
            bits_per_key: 10.0,
            optimize_for_memory: false,
            trailer_without_keys: false,
        }
    }
}

/// Builds a full filter or one filter partition as RocksDB does, byte for byte.
#[derive(Debug, Clone)]
pub struct RocksDbFilterBuilder {
    options: RocksDbFilterOptions,
    hashes: Vec<u64>,
}

impl RocksDbFilterBuilder {
    /// Starts a filter with `options`.
    #[must_use]
    pub fn new(options: RocksDbFilterOptions) -> Self {
        Self { options, hashes: Vec::new() }
    }

    /// Adds a key or a prefix. Add keys and prefixes in the order of the table, because the first
    /// one affects the seed and the size of a ribbon filter. A key or prefix that equals the one
    /// added just before does not count. Do not add a prefix that equals the prefix before it, even
    /// if a key lies between: RocksDB leaves it out.
    pub fn add(&mut self, key: &[u8]) {
        let hash = match self.options.kind {
            RocksDbFilterKind::LegacyBloom => hash32::rocksdb(key).into(),
            RocksDbFilterKind::FastLocalBloom | RocksDbFilterKind::Ribbon128 => xxph3::hash(key),
        };
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Returns the number of added keys and prefixes. If the same key or prefix was added several
    /// times in a row, it counts once.
    #[must_use]
    pub fn num_entries(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the filter's bytes with its trailer, and resets the builder to no keys and the same
    /// options.
    ///
    /// If there is no memory for a ribbon filter, or none of the 256 seeds has a solution, the
    /// result is a Bloom filter. [`RocksDbFilter::kind`](super::RocksDbFilter::kind) tells which
    /// kind it is. If there is no memory for a Bloom filter, the process aborts, as with any `Vec`.
    ///
    /// # Panics
    /// On a platform of 32 bits, panics if a Bloom filter would have 2 GiB or more.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let Some(bits_per_key) = clamped(self.options.bits_per_key) else {
            self.hashes.clear();
            return ALWAYS_MAYBE.to_vec();
        };
        let filter = self.build(bits_per_key);
        self.hashes.clear();
        filter
    }

    fn build(&self, bits_per_key: f64) -> Vec<u8> {
        let (options, hashes) = (&self.options, &self.hashes[..]);
        let millibits = millibits(bits_per_key);
        let whole_bits = (millibits + 500) / 1000;
        let probes = fast_local_bloom::probes(millibits.into());
        let Some(&first) = hashes.first() else {
            return match options.kind {
                RocksDbFilterKind::LegacyBloom if options.trailer_without_keys => legacy_bloom::build(&[], whole_bits),
                RocksDbFilterKind::FastLocalBloom if options.trailer_without_keys => vec![NEW_BLOOM, 0, probes, 0, 0],
                _ => Vec::new(),
            };
        };
        let num_keys = hashes.len() as u64;
        match options.kind {
            RocksDbFilterKind::LegacyBloom => legacy_bloom::build(hashes, whole_bits),
            RocksDbFilterKind::FastLocalBloom => {
                fast_local_bloom::build(hashes, millibits, options.optimize_for_memory)
            }
            RocksDbFilterKind::Ribbon128 => {
                let bloom_len = fast_local_bloom::payload_len_bytes(num_keys, millibits) + TRAILER_LEN_BYTES as u64;
                RibbonSizes::new(num_keys, bits_per_key, probes, first)
                    .filter(|sizes| !sizes.lose_to(bloom_len))
                    .and_then(|sizes| sizes.build(hashes))
                    .unwrap_or_else(|| fast_local_bloom::build(hashes, millibits, options.optimize_for_memory))
            }
        }
    }
}

/// Returns the bits per key, limited to the range from 1 to 100 as in RocksDB. Returns `None` if
/// RocksDB writes no filter.
fn clamped(bits_per_key: f64) -> Option<f64> {
    if bits_per_key < LEAST_BITS_PER_KEY {
        None
    } else if bits_per_key < MOST_BITS_PER_KEY {
        Some(bits_per_key.max(1.0))
    } else {
        // NaN takes this branch too.
        Some(MOST_BITS_PER_KEY)
    }
}

/// Returns the bits per key in thousandths, rounded as in RocksDB, which adds 0.500001 instead of
/// 0.5.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1,000 to 100,000")]
fn millibits(bits_per_key: f64) -> u32 {
    (bits_per_key * 1000.0 + 0.500_001) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_per_key_are_rounded_to_thousandths() {
        for millibits_given in 1_000..=100_000 {
            // For many thousandths, the nearest `f64` is slightly below the decimal value.
            assert_eq!(millibits(f64::from(millibits_given) / 1000.0), millibits_given);
        }
        assert_eq!((millibits(10.000_4), millibits(10.000_5)), (10_000, 10_001));
    }
}
