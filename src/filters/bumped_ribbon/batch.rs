//! Queries up to 32 keys at once. The first step is plain arithmetic on arrays, which compilers
//! turn into vector code. Some filters, and batches of fewer than eight keys, are queried key by
//! key.
//!
//! ```text
//! starts, coefficients, sums of all keys  ->  bumped or not  ->  cache lines of each key  ->  bumped keys, one by one
//! ```
//! In filters with more than eight columns, keys whose first eight columns match read further
//! columns, also one by one.

use super::BLOCK_SLOTS;
use super::flat::holds_in_words;
use super::hashes::{coefficients, column_group, fingerprint};
use super::layer::{FirstGroup, bump_byte, is_bumped};
use super::read::Geometry;
use crate::hash::KeyHash;
use crate::simd::{RESIDENT_LEN_BYTES, Simd, prefetch};

/// The maximum number of keys of one call.
pub(super) const KEYS: usize = 32;

impl Geometry {
    /// Answers for the first `answers.len()` keys. There must be at most [`KEYS`] answers. There
    /// must not be more answers than keys, because the extra answers would be overwritten.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a start is the index of a slot in memory")]
    #[expect(clippy::indexing_slicing, reason = "the arrays have KEYS elements, and indices are below KEYS")]
    pub(super) fn ask_batch(&self, simd: impl Simd, bytes: &[u8], hashes: &[KeyHash], answers: &mut [bool]) {
        let groups = self.groups();
        let mut raw = [0; KEYS];
        raw.iter_mut().zip(hashes).for_each(|(raw, hash)| *raw = hash.raw());
        let asked_and_starts =
            self.layers.first().and_then(|layer| Some((layer.asked, layer.asked.starts.of_many(&raw)?)));
        let Some((asked, starts)) = asked_and_starts.filter(|_| self.is_worth_it(hashes.len(), bytes)) else {
            for (answer, &hash) in answers.iter_mut().zip(hashes) {
                *answer = self.ask(simd, bytes, hash, groups);
            }
            return;
        };
        let group = asked.group;
        // These are loops, because `map` of an array this long is compiled as a separate function,
        // without the instruction set of `simd`.
        let (mut low, mut high, mut sums) = ([0; KEYS], [0; KEYS], [0; KEYS]);
        for i in 0..KEYS {
            let (all, shift) = (coefficients(raw[i]), starts[i] % BLOCK_SLOTS as u64);
            low[i] = all << shift;
            high[i] = (all >> 1) >> (BLOCK_SLOTS as u64 - 1 - shift);
            sums[i] = column_group(fingerprint(raw[i]), 0);
        }
        prefetch_blocks(bytes, group, starts.iter().take(hashes.len()));
        let mut bumps = [0; KEYS];
        for (byte, &start) in bumps.iter_mut().zip(&starts) {
            *byte = bytes.get(asked.bumps + bump_byte(start as usize)).copied().unwrap_or_default();
        }
        let mut bumped = 0u32;
        for i in 0..KEYS {
            bumped |= u32::from(is_bumped(bumps[i], starts[i] as usize)) << i;
        }
        let mut bumped = bumped & (u32::MAX >> KEYS.saturating_sub(hashes.len()));
        let block = |i: usize| starts[i] as usize / BLOCK_SLOTS;
        match group.lines(bytes) {
            Some(lines) => {
                for (i, answer) in answers.iter_mut().enumerate().take(KEYS) {
                    let Some([first, second]) = lines.get(block(i)..).and_then(<[_]>::first_chunk) else {
                        *answer = true;
                        continue;
                    };
                    *answer = simd.parities_of_64(first, second, low[i], high[i]) == sums[i];
                }
            }
            None => {
                for (i, answer) in answers.iter_mut().enumerate().take(KEYS) {
                    *answer = group.holds_split(simd, bytes, block(i), (low[i], high[i]), sums[i]);
                }
            }
        }
        if groups > 1 {
            for (i, answer) in answers.iter_mut().take(KEYS).enumerate().filter(|(_, answer)| **answer) {
                *answer = match self.layers.first() {
                    Some(layer) if groups == 2 => {
                        let place = layer.words(self.columns, block(i), (1, &layer.groups[1]));
                        holds_in_words(simd, bytes, place, (low[i], high[i]), column_group(fingerprint(raw[i]), 1))
                    }
                    _ => self.others_hold(simd, bytes, raw[i], groups),
                };
            }
        }
        while bumped != 0 {
            let i = bumped.trailing_zeros() as usize;
            bumped &= bumped - 1;
            if let Some(answer) = answers.get_mut(i) {
                *answer = self.ask_slowly(simd, bytes, KeyHash::from_raw(raw[i]), groups);
            }
        }
    }

    /// Returns whether the batch has enough keys to be faster than single queries, and `bytes` has
    /// at least 64 bytes after the payload. Without these bytes, loads at the end of the payload
    /// would fail.
    #[inline(always)]
    fn is_worth_it(&self, keys: usize, bytes: &[u8]) -> bool {
        keys >= KEYS / 4 && bytes.len() >= self.payload_len + BLOCK_SLOTS
    }
}

/// For each start, prefetches the two blocks that a query reads, if `bytes` has more than
/// [`RESIDENT_LEN_BYTES`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a start is the index of a slot in memory")]
fn prefetch_blocks<'a>(bytes: &[u8], group: FirstGroup, starts: impl Iterator<Item = &'a u64>) {
    if bytes.len() > RESIDENT_LEN_BYTES {
        for &start in starts {
            let at = group.offset(start as usize / BLOCK_SLOTS);
            prefetch(bytes, at);
            prefetch(bytes, at + BLOCK_SLOTS);
        }
    }
}
