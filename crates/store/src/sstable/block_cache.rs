//! Verified data blocks kept in memory, shared by any number of tables.

use std::fmt;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The content of a data block on the heap: checked, unpacked.
pub(super) type BlockContent = Arc<Vec<u8>>;

/// Which block: the number of the open table (never used twice in a process) and the block's offset.
type Place = (u64, u64);

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Place, BlockContent> for Bytes {
    fn weight(&self, _: &Place, content: &BlockContent) -> u64 {
        content.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// What an entry takes beside the block's content, roughly: key, pointer, counters, hash table slot.
const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// A cache of data blocks, bounded in bytes.
pub struct BlockCache(Cache<Place, BlockContent, Bytes>);

impl BlockCache {
    /// A cache of at most about `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let estimated_blocks = usize::try_from(capacity_bytes / 4096).unwrap_or(usize::MAX).clamp(1, 1 << 24);
        Self(Cache::with_weighter(estimated_blocks, capacity_bytes, Bytes))
    }

    /// The bytes in use.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(super) fn get(&self, table: u64, offset: u64) -> Option<BlockContent> {
        self.0.get(&(table, offset))
    }

    pub(super) fn insert(&self, table: u64, offset: u64, content: BlockContent) {
        self.0.insert((table, offset), content);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("blocks", &self.0.len()).field("bytes", &self.0.weight()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::KeyHash;

    const BLOCKS_THAT_FIT: u64 = 5_000;
    const READS: u64 = 2_000_000;

    fn mixed(x: u64) -> u64 {
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A Bloom filter of the blocks that were missed of late, in two generations: a block is let in at its second miss.
    struct Admission {
        generations: [Vec<u64>; 2],
        missed: u64,
    }

    impl Admission {
        /// Eight bits for each of as many misses as blocks fit twice.
        fn new() -> Self {
            let words = vec![0; (BLOCKS_THAT_FIT * 2 * 8 / 64) as usize];
            Self { generations: [words.clone(), words], missed: 0 }
        }

        fn admits(&mut self, place: Place) -> bool {
            self.missed += 1;
            if self.missed.is_multiple_of(BLOCKS_THAT_FIT * 2) {
                self.generations.swap(0, 1);
                self.generations[0].fill(0);
            }
            let hash = mixed(place.0 ^ mixed(place.1));
            let word = usize::try_from(KeyHash::from_raw(hash).reduce(self.generations[0].len() as u64)).unwrap();
            let mask = (0..4).map(|i| 1 << (hash >> (6 * i) & 63)).fold(0, |mask: u64, bit| mask | bit);
            let seen = self.generations.iter().any(|words| words[word] & mask == mask);
            self.generations[0][word] |= mask;
            seen
        }
    }

    /// The share of reads that a cache answers, when a share of them, `once`, is of blocks never read again, and the rest
    /// by Zipf's law over twenty times as many blocks as fit.
    fn hit_ratio(once: f64, exponent: f64, mut admission: Option<Admission>) -> f64 {
        let content = Arc::new(vec![0; 4096]);
        let cache = BlockCache::new(BLOCKS_THAT_FIT * (4096 + ENTRY_OVERHEAD_BYTES));
        let mut sums = vec![0.0];
        for rank in 1..=BLOCKS_THAT_FIT * 20 {
            sums.push(sums.last().unwrap() + (rank as f64).powf(-exponent));
        }
        let total = *sums.last().unwrap();
        let share = |x: u64| (x >> 11) as f64 / (1u64 << 53) as f64;
        let mut hits = 0;
        for i in 0..READS {
            let place = match share(mixed(2 * i)) < once {
                true => (1, i),
                false => (0, sums.partition_point(|&sum| sum <= share(mixed(2 * i + 1)) * total) as u64),
            };
            if cache.get(place.0, place.1).is_some() {
                hits += 1;
            } else if admission.as_mut().is_none_or(|admission| admission.admits(place)) {
                cache.insert(place.0, place.1, Arc::clone(&content));
            }
        }
        hits as f64 / READS as f64
    }

    /// The figures of docs/DESIGN.md.
    #[test]
    #[ignore = "a measurement"]
    fn what_an_admission_filter_before_the_cache_would_gain() {
        for once in [0.0, 0.25, 0.5, 0.75] {
            for exponent in [0.7, 0.9, 1.1] {
                let plain = hit_ratio(once, exponent, None) * 100.0;
                let filtered = hit_ratio(once, exponent, Some(Admission::new())) * 100.0;
                println!(
                    "once {once:.2}, Zipf {exponent}: hits {plain:.2} %, with an admission filter {filtered:.2} %"
                );
            }
        }
    }
}
