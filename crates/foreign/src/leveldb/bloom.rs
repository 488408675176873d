//! Reads and builds LevelDB's Bloom filter, `leveldb.BuiltinBloomFilter2`. It is an array of bits,
//! followed by one byte with the number of probes.
//!
//! The bits of a key lie anywhere in the array, at `(hash + i * step) % bits` for probe `i`, where
//! `step` is the rotated hash. The hash has 32 bits. It is weak: if keys are consecutive numbers,
//! absent keys that are similar to them often get the answer "maybe".

use crate::ForeignFilterInfo;
use crate::hash32::{self, Remainder, probe_sequence};
use filterblock_simd::prefetch;

/// The maximum number of probes. LevelDB reserves larger numbers for later formats.
const MAX_PROBES: u8 = 30;
const MIN_BITS: usize = 64;
/// The number of probes per bit per key: ln 2, as LevelDB rounds it.
const PROBES_PER_BIT: f64 = 0.69;
/// The number of keys whose first probes are prefetched before the first key is tested.
const BATCH: usize = 32;

/// A filter of LevelDB, read in place. Any bytes are a valid filter.
#[derive(Debug, Clone, Copy)]
pub struct LevelDbBloom<'a> {
    rule: Rule<'a>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
enum Rule<'a> {
    No,
    Maybe,
    Probe { bits: &'a [u8], position: Remainder, probes: u32 },
}

impl<'a> LevelDbBloom<'a> {
    /// Reads the filter in `bytes`, which begin with its first bit and end with the number of
    /// probes.
    ///
    /// A filter of fewer than two bytes holds no key. A filter with 0 probes or more than 30 probes
    /// answers "maybe".
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let rule = match bytes.split_last() {
            None | Some((_, [])) => Rule::No,
            Some((&probes, bits)) => match Remainder::by(bits.len() as u64 * 8) {
                Some(position) if (1..=MAX_PROBES).contains(&probes) => {
                    Rule::Probe { bits, position, probes: u32::from(probes) }
                }
                _ => Rule::Maybe,
            },
        };
        Self { rule, len: bytes.len() }
    }

    /// Returns whether `key` may be among the keys that were added.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        match self.rule {
            Rule::No => false,
            Rule::Maybe => true,
            Rule::Probe { .. } => self.may_contain_hash(hash32::leveldb(key)),
        }
    }

    #[inline]
    fn may_contain_hash(&self, hash: u32) -> bool {
        match self.rule {
            Rule::No => false,
            Rule::Maybe => true,
            Rule::Probe { bits, position, probes } => probe_sequence(hash, probes).all(|number| {
                let bit = position.of(number);
                bits.get(bit as usize / 8).is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
            }),
        }
    }

    /// Writes to `answers` whether each key may be among the added keys, in the order of `keys`. It
    /// stops at the end of the shorter slice.
    pub fn may_contain_batch(&self, keys: &[&[u8]], answers: &mut [bool]) {
        let mut hashes = [0; BATCH];
        for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = hash32::leveldb(key);
                if let Rule::Probe { bits, position, .. } = self.rule {
                    prefetch(bits, position.of(*hash) as usize / 8);
                }
            }
            for ((answer, _), &hash) in answers.iter_mut().zip(keys).zip(&hashes) {
                *answer = self.may_contain_hash(hash);
            }
        }
    }

    /// Returns the filter's properties. Reads all bytes of the filter.
    #[must_use]
    pub fn info(&self) -> ForeignFilterInfo {
        const KIND: &str = "leveldb-bloom";
        match self.rule {
            Rule::No => ForeignFilterInfo::constant(KIND, self.len, 0.0),
            Rule::Maybe => ForeignFilterInfo::constant(KIND, self.len, 1.0),
            Rule::Probe { bits, probes, .. } => ForeignFilterInfo {
                blocks: None,
                block_len_bytes: None,
                ..ForeignFilterInfo::blocked(KIND, self.len, bits, bits.len(), 1, probes)
            },
        }
    }
}

/// Builds a filter as LevelDB does, byte for byte.
#[derive(Debug, Clone)]
pub struct LevelDbBloomBuilder {
    bits_per_key: u32,
    hashes: Vec<u32>,
}

impl LevelDbBloomBuilder {
    /// Starts a filter of `bits_per_key` bits per key. The filter has at least 64 bits. It has 1 to
    /// 30 probes.
    #[must_use]
    pub fn new(bits_per_key: u32) -> Self {
        Self { bits_per_key, hashes: Vec::new() }
    }

    /// Adds a key. In a database this is the user key, without sequence number and type. Add the
    /// key once for each of its versions, as LevelDB does, because the number of added keys decides
    /// the length of the filter.
    pub fn add(&mut self, key: &[u8]) {
        self.hashes.push(hash32::leveldb(key));
    }

    /// Returns the number of added keys.
    #[must_use]
    pub fn num_keys(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the filter's bytes, and resets the builder to no keys and the same bits per key.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and clamp limits the result")]
        #[expect(clippy::cast_sign_loss, reason = "the product is never negative")]
        let probes = ((f64::from(self.bits_per_key) * PROBES_PER_BIT) as u8).clamp(1, MAX_PROBES);
        let bits = self.hashes.len().saturating_mul(self.bits_per_key as usize).max(MIN_BITS);
        let payload_len = bits.div_ceil(8);
        // With room for the number of probes, the vector does not grow to twice its size.
        let mut filter = vec![0; payload_len + 1];
        filter.truncate(payload_len);
        if let Some(position) = Remainder::by(filter.len() as u64 * 8) {
            for bit in self.hashes.iter().flat_map(|&hash| probe_sequence(hash, u32::from(probes))) {
                let bit = position.of(bit);
                if let Some(byte) = filter.get_mut(bit as usize / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
        filter.push(probes);
        self.hashes.clear();
        filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_one_key_has_the_bits_of_leveldb() {
        let mut builder = LevelDbBloomBuilder::new(10);
        builder.add(b"key-00000000");
        assert_eq!(builder.finish(), [0x20, 0x08, 0x02, 0, 0, 0, 0x08, 0x82, 6]);
        assert_eq!(builder.finish(), [0, 0, 0, 0, 0, 0, 0, 0, 6], "without keys");
    }
}
