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
//!
//! Each SST has the pointers to its cached blocks beside their places in the file, so a read needs no
//! hash table. The cache itself has only two queues that choose what to evict: S3-FIFO (Yang et al.,
//! "FIFO queues are all you need for cache eviction", SOSP 2023).

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::data_block::{Block, Entry, EntryCursor, shared_len};
use super::layout::Handle;
use crate::codec::{order_prefix, put_u64, u64_from};
use crate::error::{Error, Field, Result};
use arc_swap::ArcSwapAny;
use triomphe::ThinArc;

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
/// The maximum number of cache lines that [`CachedBlock::touch`] loads. The index of a block of 4
/// KiB with entries of 100 bytes takes about that many.
const LOADED_LINES: usize = 8;

/// The value of an entry, or `None` for a tombstone.
type Value<'a> = Option<&'a [u8]>;

#[derive(Debug)]
pub(crate) enum BlockContent {
    /// Content that belongs to one reader.
    Owned(Vec<u8>),
    /// Content that a cache and its readers share.
    Cached(SharedBlock),
}

impl BlockContent {
    pub(super) fn content(&self) -> &[u8] {
        match self {
            Self::Owned(content) => content,
            Self::Cached(block) => CachedBlock(block).content(),
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
            Self::Cached(block) => CachedBlock(block).find_value(key, offset),
        }
    }
}

/// The form in which a lookup returns a value: a copy, or a reference that keeps the cached block
/// in memory.
pub(crate) trait FoundValue: Sized {
    /// Copies a value out of memory that belongs to one reader.
    fn copied(value: &[u8]) -> Self;

    /// Converts a value in a cached block to this form. Returns `None` if the block does not hold `value`.
    fn of_block(block: CachedBlock<'_>, value: &[u8]) -> Option<Self>;
}

impl FoundValue for Vec<u8> {
    #[inline]
    fn copied(value: &[u8]) -> Self {
        value.to_vec()
    }

    #[inline]
    fn of_block(_: CachedBlock<'_>, value: &[u8]) -> Option<Self> {
        Some(value.to_vec())
    }
}

/// A value in a cached block. It keeps the block in memory even if the cache drops the block.
pub(crate) struct BlockValue {
    block: SharedBlock,
    range: Range<usize>,
}

impl BlockValue {
    /// Returns `None` if `value` does not lie in the block.
    #[inline]
    pub(crate) fn new(block: CachedBlock<'_>, value: &[u8]) -> Option<Self> {
        let bytes = &block.0.slice;
        let start = value.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
        let range = start..start.checked_add(value.len())?;
        (range.end <= bytes.len()).then(|| Self { block: block.shared(), range })
    }
}

impl Deref for BlockValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // `BlockValue::new` has checked the range.
        self.block.slice.get(self.range.clone()).unwrap_or_default()
    }
}

/// The index and the content of a data block in one allocation, shared by a cache and its readers.
pub(crate) type SharedBlock = ThinArc<Head, u8>;

/// A [`SharedBlock`] that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedBlock<'a>(&'a SharedBlock);

/// The beginning of the memory of a block. Index and content follow.
#[derive(Debug)]
pub(crate) struct Head {
    /// The length of the index. It is 0 if the block has no index.
    content_at: u32,
    /// The number of reads since the cache last considered the block for eviction, at most [`MAX_READS`].
    reads: AtomicU8,
}

const MAX_READS: u8 = 3;

/// Copies the content of the data block at `offset` of the file and adds an index. A malformed block gets
/// no index, so that searches report the damage.
pub(super) fn shared_block(content: &[u8], offset: u64) -> SharedBlock {
    let mut bytes = Vec::new();
    if build_index(content, offset, &mut bytes).is_none() {
        bytes.clear();
    }
    // The index takes less than 64 KiB, so its length fits into `u32`.
    let content_at = u32::try_from(bytes.len()).unwrap_or_default();
    bytes.extend_from_slice(content);
    ThinArc::from_header_and_slice(Head { content_at, reads: AtomicU8::new(0) }, &bytes)
}

impl<'a> CachedBlock<'a> {
    fn parts(self) -> (&'a [u8], &'a [u8]) {
        self.0.slice.split_at_checked(self.0.header.header.content_at as usize).unwrap_or_default()
    }

    fn content(self) -> &'a [u8] {
        self.parts().1
    }

    pub(super) fn shared(self) -> SharedBlock {
        SharedBlock::clone(self.0)
    }

    fn find(self, key: &[u8], offset: u64) -> Result<Option<Value<'a>>> {
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
        let Some(found) = self.find(key, offset)? else { return Ok(None) };
        let convert = |value| V::of_block(self, value).ok_or(Error::Corrupt { field: Field::Value, offset });
        found.map(convert).transpose().map(Some)
    }

    /// Counts a read, and loads the first [`LOADED_LINES`] cache lines of the index together. A search
    /// would load them one after the other.
    #[inline]
    fn touch(self) {
        let lines = self.parts().0.iter().step_by(64).take(LOADED_LINES);
        std::hint::black_box(lines.fold(0, |all, byte| all | byte));
        let reads = &self.0.header.header.reads;
        let count = reads.load(Ordering::Relaxed);
        if count < MAX_READS {
            reads.store(count + 1, Ordering::Relaxed);
        }
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

/// The places of the data blocks of an SST in its file, and the blocks that a cache holds.
#[derive(Default)]
pub(super) struct Blocks {
    slots: Box<[Slot]>,
    /// The cache of the first read through a cache. Reads through another cache pass it by.
    cache: OnceLock<Arc<Shared>>,
}

struct Slot {
    offset: u64,
    /// The length in the file, or 0 for a place that [`Blocks::handle`] does not return.
    len_bytes: u32,
    /// The number of the eviction that removed the block, or 0.
    evicted: AtomicU32,
    cached: ArcSwapAny<Option<SharedBlock>>,
}

impl Blocks {
    /// Creates the list without cached blocks. Each place is `None` if it is malformed.
    pub(super) fn new(places: impl Iterator<Item = Option<Handle>>) -> Arc<Self> {
        let slot = |place: Option<Handle>| {
            let Handle { offset, len_bytes } = place.unwrap_or_default();
            let len_bytes = u32::try_from(len_bytes).unwrap_or_default();
            Slot { offset, len_bytes, evicted: AtomicU32::new(0), cached: ArcSwapAny::default() }
        };
        Arc::new(Self { slots: places.map(slot).collect(), cache: OnceLock::new() })
    }

    /// Returns the place of a block, or `None` if the place is malformed or very long.
    #[inline]
    pub(super) fn handle(&self, position: usize) -> Option<Handle> {
        let slot = self.slots.get(position).filter(|slot| slot.len_bytes > 0)?;
        Some(Handle { offset: slot.offset, len_bytes: slot.len_bytes.into() })
    }

    /// Returns the slot of a block if this list belongs to `cache`.
    #[inline]
    fn slot(&self, position: usize, cache: &BlockCache) -> Option<&Slot> {
        self.cache.get().filter(|own| Arc::ptr_eq(own, &cache.0))?;
        self.slots.get(position)
    }

    pub(super) fn is_cached(&self, position: usize, cache: &BlockCache) -> bool {
        self.slot(position, cache).is_some_and(|slot| slot.cached.load().is_some())
    }

    /// Passes the block to `read` if the cache holds it. Takes no lock.
    #[inline]
    pub(super) fn read<T>(
        &self,
        position: usize,
        cache: &BlockCache,
        read: impl FnOnce(CachedBlock<'_>) -> T,
    ) -> Option<T> {
        let block = self.slot(position, cache)?.cached.load();
        let block = CachedBlock(block.as_ref()?);
        block.touch();
        Some(read(block))
    }

    /// Adds a block to the cache. A block that is longer than the cache stays outside.
    pub(super) fn insert(self: &Arc<Self>, position: usize, cache: &BlockCache, block: &SharedBlock) {
        self.cache.get_or_init(|| Arc::clone(&cache.0));
        let (Some(slot), Ok(position)) = (self.slot(position, cache), u32::try_from(position)) else { return };
        let held = Held { blocks: Arc::downgrade(self), position, len_bytes: weight_of(block) };
        // The evicted blocks are freed after the lock is released.
        let _evicted = cache.0.insert(slot, held, block);
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let Some(cache) = self.cache.get() else { return };
        let held = self.slots.iter().filter_map(|slot| slot.cached.load().as_ref().map(weight_of));
        cache.len_bytes.fetch_sub(held.sum::<u64>(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("len", &self.slots.len()).finish_non_exhaustive()
    }
}

/// An estimate of the memory of a cached block in addition to its content and search index.
const ENTRY_OVERHEAD_BYTES: u64 = 80;

fn weight_of(block: &SharedBlock) -> u64 {
    block.slice.len() as u64 + ENTRY_OVERHEAD_BYTES
}

/// A cache of data blocks with a limit on its size in bytes. Any number of SSTs can share it. An SST
/// uses the cache of its first read through a cache; later reads of this SST through another cache read
/// the file.
pub struct BlockCache(Arc<Shared>);

struct Shared {
    max_bytes: u64,
    len_bytes: AtomicU64,
    queues: Mutex<Queues>,
}

/// The cached blocks in the order in which the cache considers their eviction.
#[derive(Default)]
struct Queues {
    /// The blocks that were read once. They take about a tenth of the cache, so that a scan evicts few others.
    new: VecDeque<Held>,
    new_len_bytes: u64,
    main: VecDeque<Held>,
    /// The number of evictions from `new`.
    num_evicted: u32,
    /// The number of elements at which those of dropped SSTs are removed.
    sweep_at: usize,
}

struct Held {
    blocks: Weak<Blocks>,
    position: u32,
    len_bytes: u64,
}

impl BlockCache {
    /// Creates a cache that uses at most about `capacity_bytes` of memory.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let queues = Mutex::default();
        Self(Arc::new(Shared { max_bytes: capacity_bytes, len_bytes: AtomicU64::new(0), queues }))
    }

    /// Returns the approximate memory in use, in bytes: the blocks with their search indexes, and
    /// 80 bytes per block.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.len_bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn insert(&self, slot: &Slot, held: Held, block: &SharedBlock) -> Vec<SharedBlock> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len_bytes > self.max_bytes || slot.cached.load().is_some() {
            return Vec::new();
        }
        slot.cached.store(Some(block.clone()));
        self.len_bytes.fetch_add(held.len_bytes, Ordering::Relaxed);
        let evicted = slot.evicted.load(Ordering::Relaxed);
        let age = queues.num_evicted.wrapping_sub(evicted) as usize;
        if evicted != 0 && age <= queues.main.len() {
            queues.main.push_back(held);
        } else {
            queues.new_len_bytes += held.len_bytes;
            queues.new.push_back(held);
        }
        queues.sweep();
        self.evict(&mut queues)
    }

    fn evict(&self, queues: &mut Queues) -> Vec<SharedBlock> {
        let mut evicted = Vec::new();
        while self.len_bytes.load(Ordering::Relaxed) > self.max_bytes {
            let is_new = queues.new_len_bytes > self.max_bytes / 10 || queues.main.is_empty();
            let Some(held) = (if is_new { queues.new.pop_front() } else { queues.main.pop_front() }) else { break };
            if is_new {
                queues.new_len_bytes -= held.len_bytes;
            }
            // A dropped SST has given its bytes back.
            let Some(blocks) = held.blocks.upgrade() else { continue };
            let Some(slot) = blocks.slots.get(held.position as usize) else { continue };
            let reads = slot.cached.load().as_ref().map_or(0, |block| {
                let reads = &block.header.header.reads;
                let count = reads.load(Ordering::Relaxed);
                reads.store(count.saturating_sub(u8::from(!is_new)), Ordering::Relaxed);
                count
            });
            if reads > 0 {
                queues.main.push_back(held);
                continue;
            }
            if is_new {
                queues.num_evicted = queues.num_evicted.wrapping_add(1);
                slot.evicted.store(queues.num_evicted, Ordering::Relaxed);
            }
            evicted.extend(slot.cached.swap(None));
            self.len_bytes.fetch_sub(held.len_bytes, Ordering::Relaxed);
        }
        evicted
    }
}

impl Queues {
    /// Removes the elements of dropped SSTs once the queues have doubled.
    fn sweep(&mut self) {
        if self.new.len() + self.main.len() <= self.sweep_at {
            return;
        }
        let is_alive = |held: &Held| held.blocks.strong_count() > 0;
        self.new.retain(is_alive);
        self.main.retain(is_alive);
        self.new_len_bytes = self.new.iter().map(|held| held.len_bytes).sum();
        self.sweep_at = 2 * (self.new.len() + self.main.len()) + 1024;
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("bytes", &self.len_bytes()).finish_non_exhaustive()
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
                let shared = shared_block(&content, 7);
                let cached = CachedBlock(&shared);
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
        let shared = shared_block(&content, 0);
        let cached = CachedBlock(&shared);
        assert_eq!(cached.parts().0.len(), HEAD_LEN_BYTES + 1 + 10 * 900);
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
            let shared = shared_block(content, 0);
            assert_eq!(CachedBlock(&shared).parts(), (&[][..], content));
        }
    }

    #[test]
    fn malformed_blocks_answer_as_without_a_cache() {
        let content = block_of(&keys("p"), 4);
        for (at, bit) in (0..content.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << bit;
            let shared = shared_block(&damaged, 0);
            let cached = CachedBlock(&shared);
            for key in keys("p") {
                let plain = Block::parse(&damaged, 0).and_then(|block| block.find(&key));
                let found = cached.find(&key, 0);
                assert_eq!(found.is_err(), plain.is_err(), "bit {bit} of byte {at}, {key:?}");
                assert_eq!(found.ok(), plain.ok(), "bit {bit} of byte {at}, {key:?}");
            }
        }
    }

    fn blocks(len: usize) -> Arc<Blocks> {
        Blocks::new((0..len).map(|_| None))
    }

    fn byte_of(number: usize) -> u8 {
        number.to_le_bytes()[0]
    }

    /// Inserts a block of 1,000 bytes, all of them the same.
    fn insert(blocks: &Arc<Blocks>, position: usize, cache: &BlockCache, number: usize) {
        let content = [byte_of(number); 1000];
        blocks.insert(position, cache, &shared_block(&content, 0));
    }

    fn first_byte(blocks: &Blocks, position: usize, cache: &BlockCache) -> Option<u8> {
        blocks.read(position, cache, |block| block.content()[0])
    }

    #[test]
    fn a_cache_stays_within_its_limit_and_keeps_what_is_read_often() {
        let cache = BlockCache::new(100 * 1080);
        let (often, once) = (blocks(50), blocks(5000));
        for round in 0..5000 {
            for position in 0..50 {
                if first_byte(&often, position, &cache).is_none() {
                    assert!(round < 2, "a block that is read often was evicted");
                    insert(&often, position, &cache, position);
                }
                assert_eq!(first_byte(&often, position, &cache), Some(byte_of(position)));
            }
            insert(&once, round, &cache, 7);
            assert_eq!(first_byte(&once, round, &cache), Some(7));
            assert!(cache.len_bytes() <= 100 * 1080);
            assert_eq!(cache.len_bytes() % 1080, 0);
        }
        drop(often);
        assert!(cache.len_bytes() <= 50 * 1080, "a dropped SST gives its memory back");
        drop(once);
        assert_eq!(cache.len_bytes(), 0);
    }

    #[test]
    fn an_evicted_block_that_returns_soon_is_kept() {
        let cache = BlockCache::new(100 * 1080);
        let blocks = blocks(1000);
        let fill = |range: Range<usize>| range.for_each(|position| insert(&blocks, position, &cache, 1));
        let held = |range: Range<usize>| range.filter(|&position| blocks.is_cached(position, &cache)).count();
        fill(0..100);
        fill(100..110);
        // The first ten blocks have left, and come back as blocks that were read twice.
        assert_eq!(held(0..10), 0);
        (10..100).for_each(|position| assert!(first_byte(&blocks, position, &cache).is_some()));
        fill(200..210);
        fill(100..105);
        fill(300..900);
        assert!(held(100..105) >= 4);
        assert!(held(10..100) >= 80);
    }

    #[test]
    fn the_queues_forget_dropped_ssts() {
        let cache = BlockCache::new(1 << 30);
        for _ in 0..20_000 {
            insert(&blocks(1), 0, &cache, 1);
        }
        assert_eq!(cache.len_bytes(), 0);
        assert!(cache.0.queues.lock().unwrap().new.len() <= 1025);
    }

    #[test]
    fn an_sst_uses_one_cache_and_a_cache_may_be_too_small() {
        let (cache, other, small) = (BlockCache::new(1 << 20), BlockCache::new(1 << 20), BlockCache::new(1079));
        let blocks_of_one = blocks(2);
        insert(&blocks_of_one, 0, &cache, 1);
        insert(&blocks_of_one, 0, &other, 2);
        insert(&blocks_of_one, 0, &cache, 3);
        assert_eq!((first_byte(&blocks_of_one, 0, &cache), first_byte(&blocks_of_one, 0, &other)), (Some(1), None));
        assert_eq!((cache.len_bytes(), other.len_bytes()), (1080, 0));
        let blocks = blocks(1);
        insert(&blocks, 0, &small, 1);
        assert_eq!((first_byte(&blocks, 0, &small), small.len_bytes()), (None, 0));
    }

    #[test]
    fn threads_read_what_they_insert() {
        let cache = BlockCache::new(200 * 1080);
        let blocks = blocks(1000);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (blocks, cache) = (&blocks, &cache);
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let position = (mixed(i << 8 | thread) % 1000) as usize;
                        match first_byte(blocks, position, cache) {
                            Some(byte) => assert_eq!(byte, byte_of(position)),
                            None => insert(blocks, position, cache, position),
                        }
                    }
                });
            }
        });
        let held = (0..1000).filter(|&position| blocks.is_cached(position, &cache)).count() as u64;
        assert!(held <= 200);
        assert_eq!(cache.len_bytes(), held * 1080);
    }

    /// Measures lookups in cached blocks with and without the index, and prints the numbers of
    /// docs/DESIGN.md.
    #[test]
    #[ignore = "a measurement"]
    fn block_content_lookups_with_and_without_the_index() {
        let key = |number: usize| format!("{:016x}", number.wrapping_mul(0x9e37_79b9) ^ number << 40);
        let blocks: Vec<[SharedBlock; 2]> = (0..30_000)
            .map(|block| {
                let mut keys: Vec<_> = (0..35).map(|i| key(block * 35 + i)).collect();
                keys.sort();
                let mut builder = BlockBuilder::new(16);
                keys.iter().for_each(|key| builder.add(key.as_bytes(), Some(&[7; 100])).unwrap());
                let content = builder.finish();
                let head = Head { content_at: 0, reads: AtomicU8::new(0) };
                [shared_block(content, 0), SharedBlock::from_header_and_slice(head, content)]
            })
            .collect();
        for round in 0..3 {
            for (which, name) in ["with the index", "without"].into_iter().enumerate() {
                let start = std::time::Instant::now();
                for i in 0..500_000usize {
                    let number = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (30_000 * 35);
                    let block = CachedBlock(&blocks[number / 35][which]);
                    block.touch();
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

        fn admits(&mut self, place: (u64, u64)) -> bool {
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
        let content = shared_block(&[0; 4096], 0);
        let blocks = [BLOCKS_THAT_FIT * 20, READS].map(|len| Blocks::new((0..len).map(|_| None)));
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
            let [list, position] = [place.0, place.1].map(|number| usize::try_from(number).unwrap());
            let blocks = &blocks[list];
            if blocks.read(position, &cache, |_| ()).is_some() {
                hits += 1;
            } else if admission.as_mut().is_none_or(|admission| admission.admits(place)) {
                blocks.insert(
                    position,
                    &cache,
                    &SharedBlock::from_header_and_slice(
                        Head { content_at: 0, reads: AtomicU8::new(0) },
                        &content.slice,
                    ),
                );
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
