//! Builds filters by setting bits, for the kinds that need no other step. The hashes may come in
//! any order and with repetitions.
//!
//! The size of a filter follows from the number of *distinct* hashes. Sorting the hashes only to
//! count them would take several times as long as setting the bits. Instead, the first pass notes
//! every hash whose bits are all set already as a suspect. Every repeated hash is a suspect. A
//! second pass counts how often the suspects occur. If hashes are repeated, the bits are set once
//! more, in a filter that is sized for the distinct hashes (`fill.rs`).

use super::FilterKind;
use super::shape::Shape;
use crate::bits::{try_push, try_zeros};
use crate::hash::KeyHash;
use crate::simd::{Isa, RESIDENT_LEN_BYTES, Simd, kernels};

/// A kind that is built by setting bits.
pub(super) trait SetBits {
    /// Sets the bits of a hash. `payload` must be the whole payload. Returns whether all of these
    /// bits were already set.
    fn set(simd: impl Simd, probes: u32, payload: &mut [u8], hash: KeyHash) -> bool;

    /// Prefetches the cache lines that have the bits of a hash.
    fn prefetch(probes: u32, payload: &[u8], hash: KeyHash);
}

/// The number of hashes between the prefetch of a hash and the setting of its bits.
const DISTANCE: usize = 16;

kernels! {
    /// The function that sets the bits of many hashes, compiled for this processor.
    struct Fill[K: SetBits];
    |simd|

    /// Sets the bits of all hashes and adds to `suspects` the hashes whose bits were all set
    /// before. Stops and returns `false` as soon as there are too many suspects, or if there is no
    /// memory for one.
    fn fill(probes: u32, payload: &mut [u8], hashes: &[KeyHash], suspects: &mut Suspects) -> bool {
        let is_large = payload.len() > RESIDENT_LEN_BYTES;
        for (i, &hash) in hashes.iter().enumerate() {
            if is_large && let Some(&later) = hashes.get(i + DISTANCE) {
                K::prefetch(probes, payload, later);
            }
            if K::set(simd, probes, payload, hash) && !suspects.add(hash) {
                return false;
            }
        }
        true
    }
}

/// A filter without keys, of a kind that is built by setting bits.
#[derive(Debug)]
pub(crate) struct Blank {
    kind: FilterKind,
    probes: u32,
    payload: Vec<u8>,
    fill: Fill,
}

impl Blank {
    /// Makes a filter without keys. `payload` must have the length that the kind plans, and must be
    /// all zero.
    pub(super) fn new<K: SetBits>(kind: FilterKind, probes: u32, payload: Vec<u8>) -> Self {
        Self { kind, probes, payload, fill: Fill::new::<K>(Isa::detect()) }
    }

    /// Sets the bits of all hashes. Returns `None` if there are too many suspects, or if there is
    /// no memory for them.
    pub(super) fn filled(mut self, hashes: &[KeyHash], suspects: &mut Suspects) -> Option<(Shape, Vec<u8>)> {
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_BLOOM_PROBES")]
        let probes = self.probes as u8;
        let is_filled = self.fill.fill(self.probes, &mut self.payload, hashes, suspects);
        is_filled.then(|| (Shape::plain(self.kind, probes), self.payload))
    }

    /// Sets the bits of all hashes and notes no suspects. The result is never `None`.
    pub(super) fn filled_by_distinct(self, hashes: &[KeyHash]) -> Option<(Shape, Vec<u8>)> {
        self.filled(hashes, &mut Suspects::ignored())
    }
}

/// The hashes that may be repetitions: all their bits were set before.
#[derive(Debug)]
pub(super) struct Suspects {
    found: Vec<KeyHash>,
    /// The maximum number of suspects, or `None` if no suspects are noted.
    most: Option<usize>,
}

impl Suspects {
    /// The minimum number of hashes per suspect. Below it, the build sorts the hashes.
    const HASHES_PER_SUSPECT: usize = 16;
    /// The minimum number of bits per suspect in the table in which the second pass looks up each
    /// hash.
    const TABLE_BITS: usize = 128;

    pub(super) fn of(hashes: usize) -> Self {
        Self { found: Vec::new(), most: Some(hashes / Self::HASHES_PER_SUSPECT) }
    }

    fn ignored() -> Self {
        Self { found: Vec::new(), most: None }
    }

    /// Notes a suspect, unless suspects are ignored. Returns `false` if there are too many, or if
    /// there is no memory for it.
    #[cold]
    #[inline(never)]
    fn add(&mut self, hash: KeyHash) -> bool {
        self.most.is_none_or(|most| self.found.len() < most && try_push(&mut self.found, hash).is_ok())
    }

    /// Counts the hashes that repeat an earlier one. Returns `None` if there is no memory for the
    /// table.
    pub(super) fn repetitions(mut self, hashes: &[KeyHash]) -> Option<u64> {
        if self.found.is_empty() {
            return Some(0);
        }
        self.found.sort_unstable();
        self.found.dedup();
        let table = Table::of(&self.found)?;
        let occurrences =
            hashes.iter().filter(|hash| table.has(**hash) && self.found.binary_search(hash).is_ok()).count();
        // Each suspect occurs at least once.
        Some((occurrences - self.found.len()) as u64)
    }
}

/// A bitmap that contains all given hashes, and a few other hashes by chance. The low bits of a
/// hash select its bit. If the low bits are badly spread, only the speed suffers.
struct Table {
    words: Vec<u64>,
    /// One less than the number of words, which is a power of two.
    mask: u64,
}

impl Table {
    fn of(hashes: &[KeyHash]) -> Option<Self> {
        let words = (hashes.len() * Suspects::TABLE_BITS / 64).next_power_of_two();
        let mut table = Self { words: try_zeros(words).ok()?, mask: words as u64 - 1 };
        for &hash in hashes {
            let at = table.word_of(hash);
            if let Some(word) = table.words.get_mut(at) {
                *word |= 1 << (hash.raw() % 64);
            }
        }
        Some(table)
    }

    #[inline(always)]
    fn word_of(&self, hash: KeyHash) -> usize {
        (hash.raw() >> 6 & self.mask) as usize
    }

    /// Returns whether the bitmap may contain the hash.
    #[inline(always)]
    fn has(&self, hash: KeyHash) -> bool {
        self.words.get(self.word_of(hash)).is_none_or(|word| word >> (hash.raw() % 64) & 1 == 1)
    }
}
