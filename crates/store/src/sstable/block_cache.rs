//! Caches verified data blocks in memory. Any number of SSTs can share a cache.

use std::fmt;

use super::block_content::CachedBlock;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The identity of a block: a number that the process gives to each opened SST and never reuses,
/// and the offset of the block in the file.
type Place = (u64, u64);

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Place, CachedBlock> for Bytes {
    fn weight(&self, _: &Place, block: &CachedBlock) -> u64 {
        block.len_bytes() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// An estimate of the memory of a cache entry in addition to the block's content and search index.
const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// A cache of data blocks with a limit on its size in bytes. Any number of SSTs can share it.
pub struct BlockCache(Cache<Place, CachedBlock, Bytes>);

impl BlockCache {
    /// Creates a cache that uses at most about `capacity_bytes` of memory.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let estimated_blocks = usize::try_from(capacity_bytes / 4096).unwrap_or(usize::MAX).clamp(1, 1 << 24);
        Self(Cache::with_weighter(estimated_blocks, capacity_bytes, Bytes))
    }

    /// Returns the approximate memory in use, in bytes: the blocks with their search indexes, and
    /// 80 bytes per block.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(super) fn get(&self, table: u64, offset: u64) -> Option<CachedBlock> {
        self.0.get(&(table, offset))
    }

    pub(super) fn contains(&self, table: u64, offset: u64) -> bool {
        self.0.contains_key(&(table, offset))
    }

    pub(super) fn insert(&self, table: u64, offset: u64, block: CachedBlock) {
        self.0.insert((table, offset), block);
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

    /// A Bloom filter of recent cache misses, in two generations. It admits a block that it already
    /// holds.
    struct Admission {
        generations: [Vec<u64>; 2],
        missed: u64,
    }

    impl Admission {
        /// Creates an empty filter. Each generation has eight bits per miss, for twice as many
        /// misses as blocks fit into the cache.
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

    /// Returns the share of reads that the cache answers. The share `once` of all reads is for
    /// blocks that are read only once. The other reads follow Zipf's law over twenty times as many
    /// blocks as fit.
    fn hit_ratio(once: f64, exponent: f64, mut admission: Option<Admission>) -> f64 {
        let content = CachedBlock::new(&[0; 4096], 0);
        let cache = BlockCache::new(BLOCKS_THAT_FIT * (4096 + ENTRY_OVERHEAD_BYTES));
        let mut cumulative = vec![0.0];
        for rank in 1..=BLOCKS_THAT_FIT * 20 {
            cumulative.push(cumulative.last().unwrap() + (rank as f64).powf(-exponent));
        }
        let total = *cumulative.last().unwrap();
        let share = |x: u64| (x >> 11) as f64 / (1u64 << 53) as f64;
        let mut hits = 0;
        for i in 0..READS {
            let place = match share(mixed(2 * i)) < once {
                true => (1, i),
                false => (0, cumulative.partition_point(|&weight| weight <= share(mixed(2 * i + 1)) * total) as u64),
            };
            if cache.get(place.0, place.1).is_some() {
                hits += 1;
            } else if admission.as_mut().is_none_or(|admission| admission.admits(place)) {
                cache.insert(place.0, place.1, content.clone());
            }
        }
        hits as f64 / READS as f64
    }

    /// Measures the share of hits with and without an admission filter, and prints the numbers of
    /// docs/DESIGN.md.
    #[test]
    #[ignore = "a measurement"]
    fn block_cache_gain_from_an_admission_filter() {
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
