//! Makes the keys and values of a benchmark: the loaded keys in loading order, and the present and
//! absent keys of lookups.

use std::collections::HashSet;
use std::path::Path;

use crate::keys::KeyReader;
use crate::prelude::*;
use charts::text::count as count_of;
use filterblock::{HashSeed, KeyHash};
use filterblock_store::lsm::MAX_KEY_LEN_BYTES;

/// The minimum number of keys of `bench point-miss` and `bench load`. With fewer keys, absent keys
/// between the smallest and the largest key may be hard to find.
pub const KEYS_MIN: u64 = 16;
/// The seed of the values. It is an unlikely `--seed`, so that the values do not depend on the
/// hashes in the filters.
const VALUE_SEED: HashSeed = HashSeed(0x5eed_0000_0076_616c);
/// The seed of the hashes in the set of loaded keys. It is an unlikely `--seed`: with the seed of
/// the filters, no absent key with the hash of a loaded key would be drawn.
const SET_SEED: HashSeed = HashSeed(0x5eed_0000_0073_6574);
/// The maximum number of attempts to find one absent key.
const TRIES_MAX: u32 = 10_000;

/// Mixes the bits of a 64-bit integer with one step of SplitMix64 (Steele, Lea, Flood, "Fast
/// splittable pseudorandom number generators", 2014). The function is a bijection.
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A repeatable stream of pseudo-random numbers.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// Returns a number from 0 to `range - 1`, or 0 if `range` is 0.
    pub fn below(&mut self, range: u64) -> u64 {
        // The high half of the product is nearly uniform, and needs no division (Lemire 2019).
        let product = u128::from(self.next()) * u128::from(range);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    fn index(&mut self, len: usize) -> usize {
        // The number is at most `len`, so it fits usize.
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

/// Byte strings stored back to back in one allocation.
#[derive(Default)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.bytes.get(start..end).unwrap_or_default())
    }

    fn get(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(i).and_then(|&end| self.bytes.get(start..end)).unwrap_or_default()
    }
}

/// The keys of a benchmark, in the order in which they are loaded.
pub enum Source {
    /// Distinct pseudo-random keys of 16 bytes. Keys with an index below `count` are loaded. All
    /// other keys are absent.
    Mixed { count: u64, seed: u64, smallest: [u8; 16], largest: [u8; 16] },
    /// The distinct lines of a file, or other distinct keys, in random order.
    Lines { keys: Strings, loaded: HashSet<u64>, smallest: Vec<u8>, largest: Vec<u8> },
}

impl Source {
    pub fn mixed(count: u64, seed: u64) -> Self {
        let (mut smallest, mut largest) = ([0xff; 16], [0; 16]);
        for index in 0..count {
            let key = mixed_key(index, seed);
            smallest = smallest.min(key);
            largest = largest.max(key);
        }
        Self::Mixed { count, seed, smallest, largest }
    }

    /// Reads the first `count` distinct lines of a file, or all, and puts them in random order.
    /// Returns an error if it finds fewer than [`KEYS_MIN`].
    pub fn lines(path: &Path, count: Option<u64>, seed: u64) -> Outcome<Self> {
        let mut read = Strings::default();
        let mut loaded = HashSet::new();
        let mut reader = KeyReader::open_lines(path, MAX_KEY_LEN_BYTES)?;
        // If two distinct lines have the same 64-bit hash, the second is left out. This is expected
        // once in about 4 * 10^7 files of a million lines.
        while let Some(next) = reader.next_key()? {
            if loaded.insert(KeyHash::of(next.key, SET_SEED).raw()) {
                read.push(next.key);
            }
            if count.is_some_and(|count| read.len() as u64 >= count) {
                break;
            }
        }
        if (read.len() as u64) < KEYS_MIN {
            let (path, found) = (path.display(), count_of(read.len() as u64, "distinct key"));
            return fail(format!("{path}: {found} found; give a file with at least {KEYS_MIN}"));
        }
        Ok(Self::shuffled(&read, loaded, seed))
    }

    pub fn listed(keys: &Strings, seed: u64) -> Self {
        let loaded = keys.iter().map(|key| KeyHash::of(key, SET_SEED).raw()).collect();
        Self::shuffled(keys, loaded, seed)
    }

    fn shuffled(read: &Strings, loaded: HashSet<u64>, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..read.len()).collect();
        let mut random = Random::new(seed);
        for i in (1..order.len()).rev() {
            order.swap(i, random.index(i + 1));
        }
        let mut keys = Strings::default();
        order.iter().for_each(|&i| keys.push(read.get(i)));
        let smallest = keys.iter().min().unwrap_or_default().to_vec();
        let largest = keys.iter().max().unwrap_or_default().to_vec();
        Self::Lines { keys, loaded, smallest, largest }
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::Mixed { count, .. } => *count,
            Self::Lines { keys, .. } => keys.len() as u64,
        }
    }

    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Mixed { count, .. } => count * 16,
            Self::Lines { keys, .. } => keys.bytes.len() as u64,
        }
    }

    /// Returns the generated key with this index. Returns `None` if the keys are not generated.
    /// Keys from index [`Source::len`] on are absent.
    pub fn generated(&self, index: u64) -> Option<[u8; 16]> {
        match self {
            Self::Mixed { seed, .. } => Some(mixed_key(index, *seed)),
            Self::Lines { .. } => None,
        }
    }

    /// Calls `visit` with every loaded key, in loading order.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        match self {
            Self::Mixed { count, seed, .. } => (0..*count).try_for_each(|i| visit(&mixed_key(i, *seed))),
            Self::Lines { keys, .. } => keys.iter().try_for_each(visit),
        }
    }

    pub fn present(&self, len: u64, random: &mut Random) -> Strings {
        let mut chosen = Strings::default();
        for _ in 0..len {
            match self {
                Self::Mixed { count, seed, .. } => chosen.push(&mixed_key(random.below(*count), *seed)),
                Self::Lines { keys, .. } => chosen.push(keys.get(random.index(keys.len()))),
            }
        }
        chosen
    }

    /// Draws `len` absent keys between the smallest and the largest loaded key. Returns an error if
    /// [`TRIES_MAX`] attempts find no such key.
    pub fn absent(&self, len: u64, random: &mut Random) -> Outcome<Strings> {
        let mut chosen = Strings::default();
        let mut key = Vec::new();
        for _ in 0..len {
            let found = (0..TRIES_MAX).any(|_| {
                key.clear();
                self.candidate(random, &mut key);
                self.is_absent_within(&key)
            });
            if !found {
                let why = "--keys: cannot find absent keys between the smallest and the largest key; give a file with \
                           other keys, or omit --keys";
                return fail(why);
            }
            chosen.push(&key);
        }
        Ok(chosen)
    }

    /// Appends to `key` the bytes of a key that is probably absent.
    fn candidate(&self, random: &mut Random, key: &mut Vec<u8>) {
        match self {
            Self::Mixed { count, seed, .. } => {
                let index = count + random.below(1 << 40);
                key.extend_from_slice(&mixed_key(index, *seed));
            }
            // Replaces or inserts one byte of a loaded key, so that the new key resembles loaded
            // keys.
            Self::Lines { keys, .. } => {
                key.extend_from_slice(keys.get(random.index(keys.len())));
                let donor = keys.get(random.index(keys.len()));
                let byte = donor.get(random.index(donor.len())).copied().unwrap_or(b'0');
                let at = random.index(key.len() + 1);
                match key.get_mut(at) {
                    Some(replaced) if random.below(2) == 0 => *replaced = byte,
                    _ => key.insert(at, byte),
                }
            }
        }
    }

    /// Returns whether `key` was not loaded, lies between the smallest and the largest loaded key,
    /// and is short enough for a store. For [`Source::Mixed`] only the range is checked, because a
    /// candidate was never loaded and has 16 bytes.
    fn is_absent_within(&self, key: &[u8]) -> bool {
        match self {
            Self::Mixed { smallest, largest, .. } => key > smallest.as_slice() && key < largest.as_slice(),
            Self::Lines { loaded, smallest, largest, .. } => {
                key > smallest.as_slice()
                    && key < largest.as_slice()
                    && key.len() <= MAX_KEY_LEN_BYTES
                    && !loaded.contains(&KeyHash::of(key, SET_SEED).raw())
            }
        }
    }
}

/// Returns the generated key with this index. Different indexes give different keys, because `mix`
/// is a bijection.
fn mixed_key(index: u64, seed: u64) -> [u8; 16] {
    let high = mix(index ^ mix(seed));
    let mut key = [0; 16];
    let (first, second) = key.split_at_mut(8);
    first.copy_from_slice(&high.to_le_bytes());
    second.copy_from_slice(&mix(high).to_le_bytes());
    key
}

/// Fills `value` with pseudo-random bytes that depend only on `key`.
pub fn fill_value(key: &[u8], value: &mut [u8]) {
    let mut random = Random(KeyHash::of(key, VALUE_SEED).raw());
    for chunk in value.chunks_mut(8) {
        let bytes = random.next().to_le_bytes();
        chunk.copy_from_slice(bytes.get(..chunk.len()).unwrap_or_default());
    }
}
