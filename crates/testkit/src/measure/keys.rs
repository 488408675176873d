//! Makes keys and questions. A key is a function of its number, so a benchmark need not store keys.

use xxhash_rust::xxh3::xxh3_64;

/// A key of sixteen pseudo-random bytes.
pub type Key = [u8; 16];

/// The lowest number of an absent key. No filter has a key with this or a higher number.
pub const ABSENT: u64 = 1 << 60;

/// Mixes the bits of a number. The function is a bijection: Stafford's mixer 13 of 64 bits, as in
/// SplitMix64.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the key with this number. Different numbers give different keys.
#[inline]
pub fn key(number: u64) -> Key {
    let (low, high) = (mix(number), mix(number ^ (1 << 63)));
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// Returns the hash of a key. All filters that take hashes get this hash.
#[inline]
pub fn hash_of(key: &Key) -> u64 {
    xxh3_64(key)
}

/// A stream of pseudo-random numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Returns the next number of the stream, scaled to be below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        let product = u128::from(mix(self.0)) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }
}

/// The share of queries that ask for present keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Absent keys.
    Negative,
    /// Present keys.
    Positive,
    /// Absent and present keys, each with a probability of one half.
    Mixed,
}

impl Mix {
    pub fn name(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::Positive => "positive",
            Self::Mixed => "mixed",
        }
    }
}

/// The keys of several filters. The keys of filter `i` have the numbers from `starts[i]` to
/// `starts[i + 1] - 1`.
pub struct Ranges {
    starts: Vec<u64>,
}

impl Ranges {
    /// Returns the ranges of `filters` filters with `n` keys each.
    pub fn equal(filters: usize, n: usize) -> Self {
        Self { starts: (0..=filters as u64).map(|i| i * n as u64).collect() }
    }

    /// Returns the ranges of `filters` filters with 0.6 `n` to 1.4 `n` keys each.
    pub fn uneven(filters: usize, n: usize) -> Self {
        let mut random = Random::new(40);
        let mut starts = vec![0];
        let mut start = 0;
        for _ in 0..filters {
            start += n as u64 * 6 / 10 + random.below(n as u64 * 8 / 10 + 1);
            starts.push(start);
        }
        Self { starts }
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn keys(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    pub fn of(&self, filter: usize) -> std::ops::Range<u64> {
        self.starts[filter]..self.starts[filter + 1]
    }

    /// Returns `count` questions, each with a random filter and the number of a key. Absent keys
    /// have the numbers from `ABSENT + first` on.
    pub fn questions(&self, mix: Mix, count: usize, first: u64) -> Vec<(u32, u64)> {
        let mut random = Random::new(mix as u64 + 1 + (first << 2));
        let question = |number: usize| {
            let filter = random.below(self.len() as u64);
            let range = self.of(usize::try_from(filter).unwrap_or(0));
            let present = match mix {
                Mix::Negative => false,
                Mix::Positive => true,
                Mix::Mixed => random.below(2) == 1,
            };
            let key = if present {
                range.start + random.below(range.end - range.start)
            } else {
                ABSENT + first + number as u64
            };
            (u32::try_from(filter).unwrap_or(0), key)
        };
        (0..count).map(question).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_questions_are_about_the_filters_own_keys() {
        let ranges = Ranges::uneven(7, 100);
        for (filter, key) in ranges.questions(Mix::Positive, 1_000, 0) {
            assert!(ranges.of(filter as usize).contains(&key));
        }
        assert!(ranges.questions(Mix::Negative, 1_000, 0).iter().all(|&(_, key)| key >= ABSENT));
        let mixed = ranges.questions(Mix::Mixed, 10_000, 0);
        let present = mixed.iter().filter(|&&(_, key)| key < ABSENT).count();
        assert!((4_700..5_300).contains(&present), "{present}");
    }

    #[test]
    fn uneven_filters_stay_within_forty_per_cent() {
        let ranges = Ranges::uneven(1_000, 10_000);
        for filter in 0..ranges.len() {
            let range = ranges.of(filter);
            assert!((6_000..=14_000).contains(&(range.end - range.start)));
        }
    }
}
