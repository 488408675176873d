//! A skip list that one thread extends while others read it (Pugh, "Skip lists: a probabilistic
//! alternative to balanced trees", 1990), in safe code.
//!
//! ```text
//! words:  | head: unused (3), next × 20 | prefix (2), version (1), next × height | ...
//! versions:                                              └──▶ bytes of version 0
//! ```
//!
//! A node is a few 32-bit words in one growing array, and a link is an index into this array. A
//! node therefore takes only 20 bytes on average. These bytes include a key prefix, which usually
//! decides a comparison. We rejected `crossbeam-skiplist`, whose nodes are separate allocations:
//! docs/DESIGN.md compares the CPU time of a put.
//!
//! A node is written before it is linked. Links are stored with `Release` and loaded with
//! `Acquire`, so a reader that finds a node sees all of it. Nodes are never removed.

use std::cmp::Ordering as Order;
use std::hint::black_box;
use std::sync::OnceLock;

use crate::codec::{order_prefix, put_u32, put_u64, u32_at, u64_from};
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of levels of a node: enough for 2^20 entries. More entries make the list
/// slower, but not wrong.
const MAX_HEIGHT: u32 = if cfg!(loom) { 2 } else { 20 };
const PREFIX: u32 = 0;
const VERSION: u32 = 2;
const NEXT: u32 = 3;
/// The index of the head. No link leads to the head, so a link of 0 means "no node".
const HEAD: u32 = 0;
/// The number of words from which the list is full. The rest of the index space is for the batch in
/// progress.
const FULL_WORDS: u32 = 1 << 30;

/// An array that grows without moving its elements.
#[derive(Debug)]
struct Chunks<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

/// The binary logarithm of the number of elements of the first chunk.
const FIRST_CHUNK_BITS: u32 = if cfg!(loom) { 3 } else { 8 };
/// The maximum number of chunks. The first chunk has 2^8 elements, and each further chunk twice as
/// many as the chunk before. So 24 chunks hold 2^32 - 2^8 elements. Under loom, they hold fewer.
const CHUNKS: usize = 24;

impl<T: Default> Chunks<T> {
    fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Returns the number of the chunk that holds an index, and the offset in that chunk.
    #[inline]
    fn locate(index: u32) -> (usize, usize) {
        // Add the length of the first chunk: chunk k then begins at 2^(k + FIRST_CHUNK_BITS).
        let shifted = u64::from(index) + (1 << FIRST_CHUNK_BITS);
        let top = 63 - shifted.leading_zeros();
        // The offset fits, because a chunk is in memory.
        let offset = usize::try_from(shifted ^ (1 << top)).unwrap_or(usize::MAX);
        ((top - FIRST_CHUNK_BITS) as usize, offset)
    }

    /// The slice ends with the chunk of `index`. It is empty if the chunk does not exist.
    #[inline]
    fn from(&self, index: u32) -> &[T] {
        let (chunk, offset) = Self::locate(index);
        let chunk = self.chunks.get(chunk).and_then(OnceLock::get);
        chunk.and_then(|chunk| chunk.get(offset..)).unwrap_or_default()
    }

    /// Returns the same as [`Chunks::from`], and creates the chunk if it does not exist.
    fn make(&self, index: u32) -> &[T] {
        let (chunk, offset) = Self::locate(index);
        let make = || (0..1u64 << FIRST_CHUNK_BITS << chunk).map(|_| T::default()).collect();
        self.chunks.get(chunk).and_then(|slot| slot.get_or_init(make).get(offset..)).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) struct SkipList {
    words: Chunks<AtomicU32>,
    versions: Chunks<OnceLock<Entry>>,
    num_words: AtomicU32,
    num_versions: AtomicU32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(u32);

impl SkipList {
    pub(crate) fn new() -> Self {
        let list = Self {
            words: Chunks::new(),
            versions: Chunks::new(),
            num_words: AtomicU32::new(NEXT + MAX_HEIGHT),
            num_versions: AtomicU32::new(0),
        };
        list.words.make(HEAD);
        list
    }

    pub(crate) fn is_full(&self) -> bool {
        self.num_words.load(Ordering::Relaxed) >= FULL_WORDS
    }

    /// Adds a version. Only one thread at a time may call this function: a second caller could undo
    /// links of the first. Returns an error if the 32-bit index space is used up.
    pub(crate) fn insert(&self, version: Entry) -> Result<()> {
        let mut before = [HEAD; MAX_HEIGHT as usize];
        self.search(&version.place(), &mut before);
        let number = self.num_versions.load(Ordering::Relaxed);
        let height = Self::height(number);
        let (node, words) = self.allocate(NEXT + height)?;
        let prefix = version.prefix();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the prefix")]
        let head = [(prefix >> 32) as u32, prefix as u32, number];
        for (word, value) in words.iter().zip(head) {
            word.store(value, Ordering::Relaxed);
        }
        // The number is new, so the slot is empty.
        let _ = self.versions.make(number).first().map(|slot| slot.set(version));
        self.num_versions.store(number + 1, Ordering::Relaxed);
        for (level, &before) in before.iter().enumerate().take(height as usize) {
            if let Some(word) = words.get(NEXT as usize + level) {
                word.store(self.next(before, level), Ordering::Relaxed);
            }
        }
        for (level, &before) in before.iter().enumerate().take(height as usize) {
            if let Some(word) = self.words.from(before).get(NEXT as usize + level) {
                word.store(node, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Returns the height of a node: one in two nodes has a second level, one in four a third. The
    /// bits of a mixed counter decide.
    fn height(number: u32) -> u32 {
        let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        1 + (mixed >> 32).trailing_zeros().min(MAX_HEIGHT - 1)
    }

    /// Allocates `len` words for a node within one chunk. Returns the index of the first word, and
    /// the words from there to the end of the chunk.
    fn allocate(&self, len: u32) -> Result<(u32, &[AtomicU32])> {
        let full = || Error::InvalidArgument {
            what: "batch",
            reason: "the batch has too many writes for one memtable; write several batches".into(),
        };
        let mut index = self.num_words.load(Ordering::Relaxed);
        let mut words = self.words.make(index);
        if words.len() < len as usize {
            // The rest of a chunk stays unused if it is too short.
            index = u32::try_from(words.len()).ok().and_then(|rest| index.checked_add(rest)).ok_or_else(full)?;
            words = self.words.make(index);
        }
        let end = index.checked_add(len).ok_or_else(full)?;
        let number = self.num_versions.load(Ordering::Relaxed);
        if words.len() < len as usize || number == u32::MAX {
            return Err(full());
        }
        self.num_words.store(end, Ordering::Relaxed);
        Ok((index, words))
    }

    #[inline]
    fn next(&self, node: u32, level: usize) -> u32 {
        Self::link(self.words.from(node), level)
    }

    /// Returns the link at a level of the node that begins with `words`.
    #[inline]
    fn link(words: &[AtomicU32], level: usize) -> u32 {
        words.get(NEXT as usize + level).map_or(HEAD, |word| word.load(Ordering::Acquire))
    }

    #[inline]
    fn is_before(&self, words: &[AtomicU32], place: &Place<'_>) -> bool {
        let word = |i: u32| words.get(i as usize).map_or(0, |word| word.load(Ordering::Relaxed));
        let prefix = u64::from(word(PREFIX)) << 32 | u64::from(word(PREFIX + 1));
        if prefix != place.prefix {
            return prefix < place.prefix;
        }
        self.version_in(words).is_some_and(|version| version.place() < *place)
    }

    /// Returns the first node that does not sort before `place`. Sets `before[level]` to the last
    /// node of that level that sorts before `place`. [`HEAD`] stands for "no node".
    fn search(&self, place: &Place<'_>, before: &mut [u32; MAX_HEIGHT as usize]) -> u32 {
        let (mut node, mut words) = (HEAD, self.words.from(HEAD));
        let mut behind = HEAD;
        for (level, before) in before.iter_mut().enumerate().rev() {
            loop {
                let next = Self::link(words, level);
                // The search in the level above may have found that `next` does not sort before
                // `place`. Do not compare it again.
                if next == HEAD || next == behind {
                    behind = next;
                    break;
                }
                let next_words = self.words.from(next);
                // If the next node does not sort before `place`, the search continues one level
                // below. Load the next node of that level now, so that both loads overlap.
                let below = level.checked_sub(1).map_or(next, |below| Self::link(words, below));
                if below != next {
                    black_box(self.words.from(below).first().map(|word| word.load(Ordering::Relaxed)));
                }
                if !self.is_before(next_words, place) {
                    behind = next;
                    break;
                }
                (node, words) = (next, next_words);
            }
            *before = node;
        }
        behind
    }

    #[inline]
    pub(crate) fn version(&self, Node(node): Node) -> Option<&Entry> {
        self.version_in(self.words.from(node))
    }

    #[inline]
    fn version_in(&self, words: &[AtomicU32]) -> Option<&Entry> {
        let number = words.get(VERSION as usize)?.load(Ordering::Relaxed);
        self.versions.from(number).first()?.get()
    }

    /// Returns the first node that does not sort before `place`, or `None` if all nodes do.
    pub(crate) fn first_from(&self, place: &Place<'_>) -> Option<Node> {
        Self::found(self.search(place, &mut [HEAD; MAX_HEIGHT as usize]))
    }

    /// Returns the last node that sorts before `place`, or `None` if no node does.
    pub(crate) fn last_before(&self, place: &Place<'_>) -> Option<Node> {
        let mut before = [HEAD; MAX_HEIGHT as usize];
        self.search(place, &mut before);
        before.first().and_then(|&node| Self::found(node))
    }

    pub(crate) fn first(&self) -> Option<Node> {
        Self::found(self.next(HEAD, 0))
    }

    pub(crate) fn last(&self) -> Option<Node> {
        let mut node = HEAD;
        for level in (0..MAX_HEIGHT as usize).rev() {
            loop {
                let next = self.next(node, level);
                if next == HEAD {
                    break;
                }
                node = next;
            }
        }
        Self::found(node)
    }

    pub(crate) fn after(&self, Node(node): Node) -> Option<Node> {
        Self::found(self.next(node, 0))
    }

    fn found(node: u32) -> Option<Node> {
        (node != HEAD).then_some(Node(node))
    }
}

const HEADER_LEN_BYTES: usize = 12;

/// The flag in the key length: set for a value, clear for a tombstone.
const IS_VALUE: u32 = 1 << 31;

const CACHE_LINE_LEN_BYTES: usize = 64;
/// The maximum number of cache lines that [`Entry::touch`] reads one by one. The processor usually
/// prefetches the following lines by itself.
const TOUCHED_LINES: usize = 4;

/// One version of a key in one allocation: sequence number (8 bytes), key length with [`IS_VALUE`]
/// (4 bytes), key, value.
#[derive(Debug)]
pub(crate) struct Entry(Box<[u8]>);

impl Entry {
    pub(crate) fn new(key: &[u8], value: Option<&[u8]>, sequence: u64) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES + key.len() + value.map_or(0, <[u8]>::len));
        put_u64(&mut bytes, sequence);
        #[expect(clippy::cast_possible_truncation, reason = "keys have at most MAX_KEY_LEN_BYTES")]
        put_u32(&mut bytes, key.len() as u32 | if value.is_some() { IS_VALUE } else { 0 });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.unwrap_or_default());
        Self(bytes.into_boxed_slice())
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads one byte of each of the first [`TOUCHED_LINES`] cache lines, and the last byte, so
    /// that these lines are loaded into the cache. The result has no meaning. A caller passes it to
    /// `black_box`, so that the compiler keeps the reads.
    pub(crate) fn touch(&self) -> u8 {
        let lines = self.0.iter().step_by(CACHE_LINE_LEN_BYTES).take(TOUCHED_LINES);
        lines.fold(self.0.last().copied().unwrap_or(0), |sum, byte| sum.wrapping_add(*byte))
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.0.first_chunk().map_or(0, u64_from)
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.0.get(HEADER_LEN_BYTES..self.key_end()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        let is_value = self.len_and_flag() & IS_VALUE != 0;
        is_value.then(|| self.0.get(self.key_end()..).unwrap_or_default())
    }

    pub(crate) fn prefix(&self) -> u64 {
        order_prefix(self.key())
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place::new(self.key(), self.sequence())
    }

    fn len_and_flag(&self) -> u32 {
        u32_at(&self.0, 8).unwrap_or(0)
    }

    fn key_end(&self) -> usize {
        HEADER_LEN_BYTES + (self.len_and_flag() & !IS_VALUE) as usize
    }
}

/// The position of a version in the sort order, whether or not the version exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) prefix: u64,
    key: &'a [u8],
    sequence: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn new(key: &'a [u8], sequence: u64) -> Self {
        Self { prefix: order_prefix(key), key, sequence }
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Order {
        // Newest first: the greater sequence number sorts first.
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key.cmp(other.key))
            .then_with(|| other.sequence.cmp(&self.sequence))
    }
}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn key_of(i: u64) -> Vec<u8> {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).to_string().into_bytes()
    }

    #[test]
    fn indexes_fill_chunks_without_a_gap() {
        let mut expected = (0, 0);
        for index in 0..100_000u32 {
            let (chunk, offset) = Chunks::<u8>::locate(index);
            if (chunk, offset) != expected {
                assert_eq!((chunk, offset), (expected.0 + 1, 0), "{index}");
                assert_eq!(expected.1, 1 << (expected.0 + FIRST_CHUNK_BITS as usize));
            }
            expected = (chunk, offset + 1);
        }
        assert_eq!(Chunks::<u8>::locate(u32::MAX).0, CHUNKS);
        assert_eq!(Chunks::<u8>::locate(u32::MAX - 256).0, CHUNKS - 1);
    }

    #[test]
    fn the_list_orders_and_searches_like_a_sorted_set() {
        let list = SkipList::new();
        let mut model = BTreeSet::new();
        for i in 0..3_000u64 {
            let (key, sequence) = (key_of(i % 1_000), i + 1);
            list.insert(Entry::new(&key, Some(b"v"), sequence)).unwrap();
            model.insert((key, std::cmp::Reverse(sequence)));
        }
        let mut node = list.first();
        for (key, sequence) in &model {
            let version = list.version(node.unwrap()).unwrap();
            assert_eq!((version.key(), version.sequence()), (key.as_slice(), sequence.0));
            node = list.after(node.unwrap());
        }
        assert_eq!(node, None);
        for i in 0..1_500u64 {
            let key = key_of(i);
            for sequence in [0, 1, 1_500, 5_000] {
                let at = (key.clone(), std::cmp::Reverse(sequence));
                let read = |node: Option<Node>| {
                    let version = list.version(node?)?;
                    Some((version.key().to_vec(), std::cmp::Reverse(version.sequence())))
                };
                let place = Place::new(&key, sequence);
                assert_eq!(read(list.first_from(&place)).as_ref(), model.range(&at..).next());
                assert_eq!(read(list.last_before(&place)).as_ref(), model.range(..&at).next_back());
            }
        }
        assert_eq!(list.version(list.last().unwrap()).unwrap().key(), model.last().unwrap().0);
    }

    #[test]
    fn readers_see_whole_versions_in_order_while_one_thread_writes() {
        const VERSIONS: u64 = 20_000;
        let (list, done) = (SkipList::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..VERSIONS {
                    let key = key_of(i);
                    list.insert(Entry::new(&key, Some(&key), i + 1)).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen_before = 0;
                    while !done.load(Ordering::Acquire) {
                        let (mut node, mut seen, mut last) = (list.first(), 0, Vec::new());
                        while let Some(found) = node {
                            let version = list.version(found).unwrap();
                            assert_eq!(version.value(), Some(version.key()));
                            assert!(last.as_slice() < version.key());
                            last = version.key().to_vec();
                            seen += 1;
                            node = list.after(found);
                        }
                        assert!(seen >= seen_before, "a version that was seen has disappeared");
                        seen_before = seen;
                    }
                });
            }
        });
    }
}
