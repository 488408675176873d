//! Reads full filters and filter partitions of RocksDB. The five bytes of the trailer say how to
//! read the bytes before them.
//!
//! | First byte | Kind | The other four bytes |
//! |---|---|---|
//! | 1 to 127 | legacy Bloom with this many probes | number of lines (u32) |
//! | 0 | always-maybe | not read |
//! | 0xff | `FastLocalBloom` | 0; line length (3 bits) and probes (5 bits); 0; 0 |
//! | 0xfe | ribbon | seed number (u8); number of blocks (24 bits) |
//! | others | reserved: always-maybe | not read |
//!
//! A trailer that begins with 0xff and has other values in the zero bytes is reserved, too.

use super::fast_local_bloom::FastLocalBloom;
use super::kind::{NEW_BLOOM, RIBBON, RocksDbFilterKind, TRAILER_LEN_BYTES};
use super::legacy_bloom::LegacyBloom;
use super::ribbon::Ribbon;
use crate::{ForeignFilterInfo, hash32, xxph3};

/// The always-maybe filter that RocksDB writes if it cannot build another filter.
pub(super) const ALWAYS_MAYBE: [u8; 6] = [0; 6];
const BATCH: usize = 32;

/// A full filter of RocksDB, or one partition, read in place. Any bytes are a valid filter.
#[derive(Debug, Clone, Copy)]
pub struct RocksDbFilter<'a> {
    rule: Rule<'a>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
enum Rule<'a> {
    No,
    Maybe,
    Legacy(LegacyBloom<'a>),
    FastLocal(FastLocalBloom<'a>),
    Ribbon(Ribbon<'a>),
}

impl<'a> RocksDbFilter<'a> {
    /// Reads the filter in `bytes`, which end with the filter's trailer. They do not include the
    /// trailer of the block that contains the filter.
    ///
    /// A filter of five bytes or fewer holds no key. A filter with reserved or inconsistent values
    /// answers "maybe".
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let rule = match bytes.split_last_chunk::<TRAILER_LEN_BYTES>() {
            None | Some(([], _)) => Rule::No,
            Some((payload, trailer)) => Self::rule(payload, *trailer).unwrap_or(Rule::Maybe),
        };
        Self { rule, len: bytes.len() }
    }

    fn rule(payload: &'a [u8], trailer: [u8; TRAILER_LEN_BYTES]) -> Option<Rule<'a>> {
        match trailer {
            [probes @ 1..=127, lines @ ..] => LegacyBloom::new(payload, probes, lines).map(Rule::Legacy),
            [NEW_BLOOM, 0, line_and_probes, 0, 0] => FastLocalBloom::new(payload, line_and_probes).map(Rule::FastLocal),
            [RIBBON, seed, blocks @ ..] => Ribbon::new(payload, seed, blocks).map(Rule::Ribbon),
            _ => None,
        }
    }

    /// Returns the layout. Returns `None` for five bytes or fewer, for an always-maybe filter, and
    /// for reserved or inconsistent values. Every key then has the same answer.
    #[must_use]
    pub fn kind(&self) -> Option<RocksDbFilterKind> {
        match self.rule {
            Rule::No | Rule::Maybe => None,
            Rule::Legacy(_) => Some(RocksDbFilterKind::LegacyBloom),
            Rule::FastLocal(_) => Some(RocksDbFilterKind::FastLocalBloom),
            Rule::Ribbon(_) => Some(RocksDbFilterKind::Ribbon128),
        }
    }

    /// Returns whether `key` may be among the keys that were added. `key` is a user key without
    /// timestamp, or a prefix if the table's filter has prefixes.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        match self.rule {
            Rule::No => false,
            Rule::Maybe => true,
            Rule::Legacy(filter) => filter.may_contain(hash32::rocksdb(key)),
            Rule::FastLocal(filter) => filter.may_contain(xxph3::hash(key)),
            Rule::Ribbon(filter) => filter.may_contain(xxph3::hash(key)),
        }
    }

    /// Writes to `answers` whether each key may be among the added keys, in the order of `keys`. It
    /// stops at the end of the shorter slice.
    pub fn may_contain_batch(&self, keys: &[&[u8]], answers: &mut [bool]) {
        match self.rule {
            Rule::No => answers.iter_mut().zip(keys).for_each(|(answer, _)| *answer = false),
            Rule::Maybe => answers.iter_mut().zip(keys).for_each(|(answer, _)| *answer = true),
            Rule::Legacy(filter) => {
                let ask =
                    |hashes: &[_], answers: &mut [_]| answer_all(hashes, answers, |hash| filter.may_contain(hash));
                in_batches(keys, answers, hash32::rocksdb, |hash| filter.prefetch(hash), ask);
            }
            Rule::FastLocal(filter) => {
                let ask = |hashes: &[_], answers: &mut [_]| filter.may_contain_batch(hashes, answers);
                in_batches(keys, answers, xxph3::hash, |hash| filter.prefetch(hash), ask);
            }
            Rule::Ribbon(filter) => {
                let ask =
                    |hashes: &[_], answers: &mut [_]| answer_all(hashes, answers, |hash| filter.may_contain(hash));
                in_batches(keys, answers, xxph3::hash, |hash| filter.prefetch(hash), ask);
            }
        }
    }

    /// Returns the filter's properties. May read all bytes of the filter.
    #[must_use]
    pub fn info(&self) -> ForeignFilterInfo {
        match self.rule {
            Rule::No => ForeignFilterInfo::constant("rocksdb-no-keys", self.len, 0.0),
            Rule::Maybe => ForeignFilterInfo::constant("rocksdb-always-maybe", self.len, 1.0),
            Rule::Legacy(filter) => filter.info(self.len),
            Rule::FastLocal(filter) => filter.info(self.len),
            Rule::Ribbon(filter) => filter.info(self.len),
        }
    }
}

/// Tests keys in batches. It hashes all keys of a batch and prefetches their parts of the filter
/// before it tests the first key.
#[inline(always)]
fn in_batches<H: Copy + Default>(
    keys: &[&[u8]],
    answers: &mut [bool],
    hash: impl Fn(&[u8]) -> H,
    prefetch: impl Fn(H),
    may_contain: impl Fn(&[H], &mut [bool]),
) {
    let mut hashes = [H::default(); BATCH];
    for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        for (slot, key) in hashes.iter_mut().zip(keys) {
            *slot = hash(key);
            prefetch(*slot);
        }
        let asked = keys.len().min(answers.len());
        may_contain(hashes.get(..asked).unwrap_or_default(), answers);
    }
}

#[inline(always)]
fn answer_all<H: Copy>(hashes: &[H], answers: &mut [bool], may_contain: impl Fn(H) -> bool) {
    for (answer, &hash) in answers.iter_mut().zip(hashes) {
        *answer = may_contain(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_bytes_or_fewer_deny_every_key_and_six_zeros_none() {
        for len in 0..=5 {
            for byte in [0, 1, 6, NEW_BLOOM, RIBBON] {
                assert!(!RocksDbFilter::new(&vec![byte; len]).may_contain(b"key"), "{len} bytes of {byte:#x}");
            }
        }
        assert!(RocksDbFilter::new(&ALWAYS_MAYBE).may_contain(b"key"));
        assert_eq!(RocksDbFilter::new(&ALWAYS_MAYBE).info().expected_fpr, 1.0);
    }

    #[test]
    fn reserved_values_answer_maybe() {
        let payload = [0u8; 256];
        for trailer in [[0x80, 0, 6, 0, 0], [0xfd, 0, 6, 0, 0], [NEW_BLOOM, 1, 6, 0, 0], [NEW_BLOOM, 0, 0x26, 0, 0]]
            .into_iter()
            .chain([
                [NEW_BLOOM, 0, 0, 0, 0],
                [NEW_BLOOM, 0, 31, 0, 0],
                [NEW_BLOOM, 0, 6, 1, 0],
                [NEW_BLOOM, 0, 6, 0, 1],
            ])
            .chain([[RIBBON, 0, 0, 0, 0], [RIBBON, 0, 1, 0, 0], [6, 0, 0, 0, 0], [6, 3, 0, 0, 0]])
        {
            let bytes = [&payload[..], &trailer].concat();
            let filter = RocksDbFilter::new(&bytes);
            assert!(filter.kind().is_none(), "{trailer:x?}");
            assert!((0..100).all(|i| filter.may_contain(format!("key-{i}").as_bytes())), "{trailer:x?}");
        }
    }
}
