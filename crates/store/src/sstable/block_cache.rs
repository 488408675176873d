//! Caches verified data blocks in memory. Any number of SSTs can share a cache. A cached block may have
//! a search index before its content.
//!
//! ```text
//! number of entries (u16)  length of the common prefix (u8)  common prefix
//! order prefix of each key after the common prefix (u64)*  offset of each entry (u16)*  content
//! ```
//! In a walk from a restart point, each load of a cache line waits for the one before it. The order
//! prefixes lie side by side, so their cache lines load together. With the index, a lookup in a
//! cached block takes about a third of the time that it takes without the index. The ignored test
//! of this file measures both times.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::data_block::{Block, Entry, EntryCursor, shared_len};
use crate::codec::{order_prefix, put_u64, u64_from};
use crate::error::{Error, Field, Result};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The minimum number of content bytes per entry, on average, in an indexed block. The index takes
/// ten bytes per entry, and short entries share cache lines anyway.
const MIN_ENTRY_LEN_BYTES: usize = 48;
/// The maximum length of the common prefix in the index. If the keys share more bytes, the order
/// prefixes begin with the shared bytes beyond this length.
const MAX_COMMON_LEN_BYTES: usize = 40;
const HEAD_LEN_BYTES: usize = 3;
/// The maximum number of order prefixes that a search compares one by one. A binary search first
/// halves the range of order prefixes until it has at most this length.
const COUNTED: usize = 64;
/// The maximum number of cache lines that [`CachedBlock::clone`] loads. The index of a block of 4
/// KiB with entries of 100 bytes takes about that many.
const LOADED_LINES: usize = 8;

/// The value of an entry, or `None` for a tombstone.
type Value<'a> = Option<&'a [u8]>;

#[derive(Debug)]
pub(crate) enum BlockContent {
    /// Content that belongs to one reader.
    Owned(Vec<u8>),
    /// Content that a cache and its readers share.
    Cached(CachedBlock),
}

impl BlockContent {
    pub(super) fn content(&self) -> &[u8] {
        match self {
            Self::Owned(content) => content,
            Self::Cached(block) => block.content(),
        }
    }

    /// Finds the value of a key in the block at `offset` of the file. `None` means that the block
    /// has no entry for the key, and `Some(None)` is a tombstone.
    pub(super) fn find_value<V: FoundValue>(&self, key: &[u8], offset: u64) -> Result<Option<Option<V>>> {
        match self {
            Self::Owned(content) => {
                let found = Block::parse(content, offset)?.find(key)?;
                Ok(found.map(|value| value.map(V::copied)))
            }
            Self::Cached(block) => block.clone().find_value(key, offset),
        }
    }
}

/// The form in which a lookup returns a value: a copy, or a reference that keeps the cached block
/// in memory.
pub(crate) trait FoundValue: Sized {
    /// Copies a value out of memory that belongs to one reader.
    fn copied(value: &[u8]) -> Self;

    /// Converts a value in a cached block to this form.
    fn of_block(value: BlockValue) -> Self;
}

impl FoundValue for Vec<u8> {
    #[inline]
    fn copied(value: &[u8]) -> Self {
        value.to_vec()
    }

    #[inline]
    fn of_block(value: BlockValue) -> Self {
        value.to_vec()
    }
}

/// A value in a cached block. It keeps the block in memory even if the cache drops the block.
pub(crate) struct BlockValue {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl Deref for BlockValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // `CachedBlock::find_value` has checked the range.
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

/// The content of a data block, shared by a cache and its readers.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    /// The index and the content, in one allocation.
    bytes: Arc<[u8]>,
    /// The offset of the content in `bytes`, which is the length of the index. It is 0 if the block
    /// has no index.
    content_at: u32,
}

impl Clone for CachedBlock {
    /// Shares the block, and loads the first [`LOADED_LINES`] cache lines of its index.
    ///
    /// A cache clones the block that it returns. The atomic increment of the reference count can
    /// delay later loads, so the index is loaded before it.
    #[inline]
    fn clone(&self) -> Self {
        let lines = self.parts().0.iter().step_by(64).take(LOADED_LINES);
        std::hint::black_box(lines.fold(0, |all, byte| all | byte));
        Self { bytes: Arc::clone(&self.bytes), content_at: self.content_at }
    }
}

impl CachedBlock {
    /// A malformed block gets no index, so that searches report the damage.
    pub(super) fn new(content: &[u8], offset: u64) -> Self {
        let mut bytes = Vec::new();
        if build_index(content, offset, &mut bytes).is_none() {
            bytes.clear();
        }
        // The index takes less than 64 KiB, so its length fits into `u32`.
        let content_at = u32::try_from(bytes.len()).unwrap_or_default();
        bytes.extend_from_slice(content);
        Self { bytes: bytes.into(), content_at }
    }

    /// Returns the length of content and index in bytes.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at_checked(self.content_at as usize).unwrap_or_default()
    }

    fn content(&self) -> &[u8] {
        self.parts().1
    }

    fn find(&self, key: &[u8], offset: u64) -> Result<Option<Value<'_>>> {
        let (index, content) = self.parts();
        if let Some(index) = Index::parse(index) {
            let Some(tail) = key.strip_prefix(index.common) else { return Ok(None) };
            if let Some(found) = index.find(key, order_prefix(tail), &Block::entries(content, offset))? {
                return Ok(found);
            }
        }
        Block::parse(content, offset)?.find(key)
    }

    /// The result is the same as that of [`Block::find`] in the block at `offset` of the file.
    #[inline]
    pub(super) fn find_value<V: FoundValue>(self, key: &[u8], offset: u64) -> Result<Option<Option<V>>> {
        let range = match self.find(key, offset)? {
            None => return Ok(None),
            Some(None) => return Ok(Some(None)),
            Some(Some(value)) => self.range_of(value).ok_or(Error::Corrupt { field: Field::Value, offset })?,
        };
        Ok(Some(Some(V::of_block(BlockValue { bytes: self.bytes, range }))))
    }

    /// Returns the range of `part` in `bytes`, or `None` if `part` lies in other memory.
    #[inline]
    fn range_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let start = part.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let range = start..start.checked_add(part.len())?;
        (range.end <= self.bytes.len()).then_some(range)
    }
}

struct Index<'a> {
    common: &'a [u8],
    prefixes: &'a [[u8; 8]],
    offsets: &'a [[u8; 2]],
}

impl<'a> Index<'a> {
    /// Returns the parts of an index that [`build_index`] wrote, or `None` if `bytes` is empty.
    #[inline]
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN_BYTES>()?;
        let num_entries = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let (common, rest) = rest.split_at_checked(usize::from(head[2]))?;
        let (prefixes, offsets) = rest.split_at_checked(8 * num_entries)?;
        Some(Self { common, prefixes: prefixes.as_chunks().0, offsets: offsets.as_chunks().0 })
    }

    #[inline]
    fn num_below(&self, prefix: u64) -> usize {
        let is_below = |other: &&[u8; 8]| u64_from(other) < prefix;
        let (mut start, mut rest) = (0, self.prefixes);
        while rest.len() > COUNTED {
            let (low, high) = rest.split_at(rest.len() / 2);
            // If the last prefix of the lower half is below `prefix`, the whole half is below it.
            if low.last().as_ref().is_some_and(is_below) {
                (start, rest) = (start + low.len(), high);
            } else {
                rest = low;
            }
        }
        start + rest.iter().filter(is_below).count()
    }

    /// Finds the value of `key`, which begins with the common prefix and has the order prefix
    /// `prefix` after it. `None` means that the caller must search the block. `Some(None)` means
    /// that the block has no entry for the key, and `Some(Some(None))` is a tombstone.
    #[inline]
    fn find<'b>(&self, key: &[u8], prefix: u64, block: &Block<'b>) -> Result<Option<Option<Value<'b>>>> {
        let start = self.num_below(prefix);
        let (Some(prefixes), Some(offsets)) = (self.prefixes.get(start..), self.offsets.get(start..)) else {
            return Ok(None);
        };
        for (_, &at) in prefixes.iter().zip(offsets).take_while(|(other, _)| u64_from(other) == prefix) {
            let Entry { shared, suffix, value, .. } = block.entry_at(usize::from(u16::from_le_bytes(at)))?;
            // The entry's key and `key` have the same common prefix and the same order prefix. If
            // they also have the same length, they agree in all bytes of these two prefixes. A
            // suffix that begins within or directly after the prefixes then decides.
            if shared > self.common.len() + 8 {
                return Ok(None);
            }
            if shared + suffix.len() == key.len() && key.ends_with(suffix) {
                return Ok(Some(Some(value)));
            }
        }
        Ok(Some(None))
    }
}

/// Writes the index of the content to `bytes`. Returns `None` if the block gets no index. The
/// content of `bytes` is then undefined.
fn build_index(content: &[u8], offset: u64, bytes: &mut Vec<u8>) -> Option<()> {
    u16::try_from(content.len()).ok()?;
    let block = Block::parse(content, offset).ok()?;
    // With sound restart points, a search by the index and a search by the restart points find the
    // same entry.
    block.check_restarts().ok()?;
    let mut entry = EntryCursor::default();
    entry.last(&block).ok()?;
    let (first, _) = block.restart_entry(0).ok()?;
    let common = first.get(..shared_len(first, entry.key()).min(MAX_COMMON_LEN_BYTES))?;
    let mut offsets = Vec::new();
    bytes.extend_from_slice(&[0, 0, u8::try_from(common.len()).ok()?]);
    bytes.extend_from_slice(common);
    entry.first(&block).ok()?;
    loop {
        // The cursor returns an error for keys that do not ascend, so all keys begin with the
        // common prefix of the first key and the last key.
        put_u64(bytes, order_prefix(entry.key().get(common.len()..)?));
        offsets.push(u16::try_from(entry.offset()).ok()?);
        if !entry.advance(&block).ok()? {
            break;
        }
    }
    let num_entries = u16::try_from(offsets.len()).ok()?;
    bytes.get_mut(..2)?.copy_from_slice(&num_entries.to_le_bytes());
    bytes.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
    (offsets.len() * MIN_ENTRY_LEN_BYTES <= content.len()).then_some(())
}

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
    use crate::sstable::data_block::BlockBuilder;
    use filterblock::KeyHash;

    /// Returns keys that begin with `front`. Some of them have equal order prefixes, and some
    /// differ only in trailing zeros.
    fn keys(front: &str) -> Vec<Vec<u8>> {
        let tails: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghi",
            b"abcdefghijklmnop",
            b"b",
            b"bb",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        tails.iter().map(|tail| [front.as_bytes(), tail].concat()).collect()
    }

    fn block_of(keys: &[Vec<u8>], restart_interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(restart_interval);
        for (i, key) in keys.iter().enumerate() {
            let value = format!("{i:060}");
            builder.add(key, (i % 5 != 3).then_some(value.as_bytes())).unwrap();
        }
        builder.finish().to_vec()
    }

    #[test]
    fn an_indexed_block_finds_what_its_content_holds() {
        let fronts = ["", "p", "a prefix of more than forty bytes, which the index cuts"];
        for (front, interval) in fronts.into_iter().flat_map(|front| [1, 3, 16].map(|interval| (front, interval))) {
            let all = keys(front);
            // Try every subset of the keys, so that each key is in some blocks and not in others.
            for subset in 0u32..1 << all.len() {
                let held: Vec<_> = (0..all.len()).filter(|i| subset >> i & 1 == 1).map(|i| all[i].clone()).collect();
                let content = block_of(&held, interval);
                let cached = CachedBlock::new(&content, 7);
                assert_eq!(cached.content(), content);
                let block = Block::parse(&content, 7).unwrap();
                for key in all.iter().chain(&keys("q")) {
                    assert_eq!(cached.find(key, 7).unwrap(), block.find(key).unwrap(), "{key:?} among {held:?}");
                }
            }
        }
    }

    #[test]
    fn a_long_block_is_halved_and_counted() {
        let key = |number: usize| format!("{number:05}").into_bytes();
        let keys: Vec<_> = (0..900).map(|i| key(i * 7)).collect();
        let content = block_of(&keys, 16);
        let cached = CachedBlock::new(&content, 0);
        assert_eq!(cached.content_at as usize, HEAD_LEN_BYTES + 1 + 10 * 900);
        let block = Block::parse(&content, 0).unwrap();
        for number in 0..6_400 {
            let found = cached.find(&key(number), 0).unwrap();
            assert_eq!(found, block.find(&key(number)).unwrap());
            assert_eq!(found.is_some(), number % 7 == 0 && number < 6_300);
        }
    }

    #[test]
    fn blocks_that_gain_nothing_get_no_index() {
        let mut builder = BlockBuilder::new(16);
        (100..300).for_each(|i| builder.add(i.to_string().as_bytes(), Some(b"short")).unwrap());
        let long = block_of(&(1_000..2_500).map(|i| i.to_string().into_bytes()).collect::<Vec<_>>(), 16);
        assert!(long.len() > 65_535);
        for content in [builder.finish(), &long, BlockBuilder::new(1).finish()] {
            let cached = CachedBlock::new(content, 0);
            assert_eq!((cached.content_at, cached.len_bytes()), (0, content.len()));
        }
    }

    #[test]
    fn malformed_blocks_answer_as_without_a_cache() {
        let content = block_of(&keys("p"), 4);
        for (at, bit) in (0..content.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << bit;
            let cached = CachedBlock::new(&damaged, 0);
            for key in keys("p") {
                let plain = Block::parse(&damaged, 0).and_then(|block| block.find(&key));
                let found = cached.find(&key, 0);
                assert_eq!(found.is_err(), plain.is_err(), "bit {bit} of byte {at}, {key:?}");
                assert_eq!(found.ok(), plain.ok(), "bit {bit} of byte {at}, {key:?}");
            }
        }
    }

    /// Measures lookups in cached blocks with and without the index, and prints the numbers of
    /// docs/DESIGN.md.
    #[test]
    #[ignore = "a measurement"]
    fn block_content_lookups_with_and_without_the_index() {
        let key = |number: usize| format!("{:016x}", number.wrapping_mul(0x9e37_79b9) ^ number << 40);
        let blocks: Vec<[CachedBlock; 2]> = (0..30_000)
            .map(|block| {
                let mut keys: Vec<_> = (0..35).map(|i| key(block * 35 + i)).collect();
                keys.sort();
                let mut builder = BlockBuilder::new(16);
                keys.iter().for_each(|key| builder.add(key.as_bytes(), Some(&[7; 100])).unwrap());
                let indexed = CachedBlock::new(builder.finish(), 0);
                let plain = CachedBlock { bytes: indexed.content().into(), content_at: 0 };
                [indexed, plain]
            })
            .collect();
        for round in 0..3 {
            for (which, name) in ["with the index", "without"].into_iter().enumerate() {
                let start = std::time::Instant::now();
                for i in 0..500_000usize {
                    let number = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (30_000 * 35);
                    let block = blocks[number / 35][which].clone();
                    assert!(block.find(key(number).as_bytes(), 0).unwrap().is_some());
                }
                println!("round {round}, {name}: {:.0} ns", start.elapsed().as_nanos() as f64 / 5e5);
            }
        }
    }

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
