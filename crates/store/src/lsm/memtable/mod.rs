//! The memtable holds the newest writes in memory. It is a skip list in key order, newest version
//! first. For most misses, a small filter in front of the list makes the search unnecessary.

pub(crate) mod skiplist;

use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;

use self::skiplist::{Entry, Node, Place, SkipList};
use crate::error::Result;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use filterblock::KeyHash;

/// The estimated memory per entry in addition to the entry's bytes: the node, the pointer to the
/// entry, and the allocator's header.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The assumed length of an entry, including [`ENTRY_OVERHEAD_BYTES`]. The filter has 16 bits per
/// entry if entries have this length. With shorter entries, its fill ratio is higher: the list is
/// searched more often, but no answer is wrong.
const ENTRY_LEN_BYTES: usize = 128;

/// The maximum number of 64-bit words in the filter. They take 16 MiB, enough for a write buffer of
/// 1 GiB. Without a maximum, the filter for a write buffer of `usize::MAX` bytes would take all
/// memory.
const MAX_FILTER_WORDS: usize = 1 << 21;

/// The maximum number of entries that [`Memtable::for_each_newest`] loads into the processor's
/// cache together.
const WALK_LEN: usize = 32;

/// A Bloom filter that can be read while keys are inserted. It sets up to four bits per key in one
/// 64-bit word.
///
/// Relaxed accesses suffice here. A writer sets the bits before it publishes the write with
/// `Release`, and a reader sees the write with `Acquire` before it queries the bits. A reader that
/// does not see a write yet may miss the bits of this write, too.
#[derive(Debug)]
struct GrowingFilter(Box<[AtomicU64]>);

impl GrowingFilter {
    fn new(capacity_bytes: usize) -> Self {
        let words = (capacity_bytes / ENTRY_LEN_BYTES / 4).clamp(64, MAX_FILTER_WORDS);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the word of a key, and the mask of the key's bits in it. The high bits of the hash
    /// choose the word, and its low bits choose the mask.
    #[inline]
    fn word_and_mask(&self, hash: KeyHash) -> (Option<&AtomicU64>, u64) {
        let raw = hash.raw();
        let bit = |shift: u32| 1u64 << (raw >> shift & 63);
        #[expect(clippy::cast_possible_truncation, reason = "below the slice's length")]
        let word = hash.reduce(self.0.len() as u64) as usize;
        (self.0.get(word), bit(0) | bit(6) | bit(12) | bit(18))
    }

    fn insert(&self, hash: KeyHash) {
        if let (Some(word), mask) = self.word_and_mask(hash) {
            word.fetch_or(mask, Ordering::Relaxed);
        }
    }

    #[inline]
    fn may_contain(&self, hash: KeyHash) -> bool {
        let (word, mask) = self.word_and_mask(hash);
        word.is_none_or(|word| word.load(Ordering::Relaxed) & mask == mask)
    }
}

pub(crate) struct Memtable {
    list: SkipList,
    filter: GrowingFilter,
    len_bytes: AtomicUsize,
    num_entries: AtomicU64,
    smallest_sequence: AtomicU64,
    largest_sequence: AtomicU64,
    /// The number of the log that holds these writes.
    pub(crate) log_number: u64,
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").field("log_number", &self.log_number).field("len_bytes", &self.len_bytes).finish()
    }
}

impl Memtable {
    /// Creates an empty memtable for the writes of log `log_number`. Its filter is made for about
    /// `capacity_bytes` of entries.
    pub(crate) fn new(log_number: u64, capacity_bytes: usize) -> Self {
        Self {
            list: SkipList::new(),
            filter: GrowingFilter::new(capacity_bytes),
            len_bytes: AtomicUsize::new(0),
            num_entries: AtomicU64::new(0),
            smallest_sequence: AtomicU64::new(u64::MAX),
            largest_sequence: AtomicU64::new(0),
            log_number,
        }
    }

    /// Adds one version; a `value` of `None` is a tombstone. Only one thread at a time may call
    /// this, with increasing sequence numbers.
    ///
    /// # Errors
    /// Returns [`crate::Error::InvalidArgument`] if the memtable holds too many versions.
    /// [`Memtable::is_full`] returns `true` long before that.
    pub(crate) fn insert(&self, key: &[u8], value: Option<&[u8]>, hash: KeyHash, sequence: u64) -> Result<()> {
        let version = Entry::new(key, value, sequence);
        let len = version.len_bytes();
        self.filter.insert(hash);
        self.list.insert(version)?;
        self.len_bytes.fetch_add(len + ENTRY_OVERHEAD_BYTES, Ordering::Relaxed);
        self.smallest_sequence.fetch_min(sequence, Ordering::Relaxed);
        self.largest_sequence.fetch_max(sequence, Ordering::Relaxed);
        self.num_entries.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The memtable must be replaced, whatever the size of the write buffer.
    pub(crate) fn is_full(&self) -> bool {
        self.list.is_full()
    }

    /// Returns the newest version of `key` up to `sequence`, and its node.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: KeyHash, sequence: u64) -> Option<(Node, &Entry)> {
        // An empty memtable, as after a flush, must not cost a cache miss in its filter.
        if !self.is_empty() && self.filter.may_contain(hash) { self.search(key, sequence) } else { None }
    }

    fn search(&self, key: &[u8], sequence: u64) -> Option<(Node, &Entry)> {
        let node = self.list.first_from(&Place::new(key, sequence))?;
        let version = self.list.version(node)?;
        (version.key() == key).then_some((node, version))
    }

    pub(crate) fn version(&self, node: Node) -> Option<&Entry> {
        self.list.version(node)
    }

    /// Returns the approximate memory use of the entries in bytes, without the filter.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn num_entries(&self) -> u64 {
        self.num_entries.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// They have no meaning if the memtable is empty.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.smallest_sequence.load(Ordering::Relaxed), self.largest_sequence.load(Ordering::Relaxed))
    }

    /// Passes the newest version of each key to `visit`, in key order.
    pub(crate) fn for_each_newest(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        let mut last: Option<&[u8]> = None;
        let mut node = self.list.first();
        let mut versions = Vec::with_capacity(WALK_LEN);
        while node.is_some() {
            versions.clear();
            while let Some(found) = node
                && versions.len() < WALK_LEN
            {
                versions.extend(self.list.version(found));
                node = self.list.after(found);
            }
            // Neighbours in the list may be far apart in memory. The loads in `touch` do not depend
            // on each other, so the processor can overlap them.
            black_box(versions.iter().fold(0, |sum: u8, version| sum.wrapping_add(version.touch())));
            for version in &versions {
                if last != Some(version.key()) {
                    visit(version.key(), version.value())?;
                    last = Some(version.key());
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct MemtableCursor {
    table: Arc<Memtable>,
    sequence: u64,
    current: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl MemtableCursor {
    pub(crate) fn new(table: Arc<Memtable>, sequence: u64) -> Self {
        Self { table, sequence, current: None }
    }

    pub(crate) fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.current.as_ref().map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    pub(crate) fn seek_forward(&mut self, bound: Bound<&[u8]>) {
        let list = &self.table.list;
        // The newest version of a key comes first. Sequence number 0 sorts after all versions of a
        // key.
        let node = match bound {
            Bound::Included(key) => list.first_from(&Place::new(key, u64::MAX)),
            Bound::Excluded(key) => list.first_from(&Place::new(key, 0)),
            Bound::Unbounded => list.first(),
        };
        self.current = self.visible_from(node, |key| list.first_from(&Place::new(key, 0)));
    }

    pub(crate) fn seek_backward(&mut self, bound: Bound<&[u8]>) {
        let list = &self.table.list;
        let node = match bound {
            Bound::Included(key) => list.last_before(&Place::new(key, 0)),
            Bound::Excluded(key) => list.last_before(&Place::new(key, u64::MAX)),
            Bound::Unbounded => list.last(),
        };
        self.current = self.visible_from(node, |key| list.last_before(&Place::new(key, u64::MAX)));
    }

    /// If no version of the key of `node` is visible, continues with the next key in the direction of `next`.
    fn visible_from(
        &self,
        mut node: Option<Node>,
        next: impl Fn(&[u8]) -> Option<Node>,
    ) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        loop {
            let key = self.table.list.version(node?)?.key();
            if let Some((_, version)) = self.table.search(key, self.sequence) {
                return Some((key.to_vec(), version.value().map(<[u8]>::to_vec)));
            }
            node = next(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filterblock::HashSeed;

    fn hash(key: &[u8]) -> KeyHash {
        KeyHash::of(key, HashSeed(1))
    }

    fn filled() -> Memtable {
        let table = Memtable::new(1, 1 << 16);
        let writes: [(&[u8], Option<&[u8]>); 6] = [
            (b"", Some(b"empty")),
            (b"b", Some(b"1")),
            (b"a", None),
            (b"b", None),
            (b"b", Some(b"3")),
            (b"longer than a prefix", Some(b"")),
        ];
        for (i, (key, value)) in writes.into_iter().enumerate() {
            table.insert(key, value, hash(key), i as u64 + 1).unwrap();
        }
        table
    }

    #[test]
    fn a_read_sees_the_newest_version_up_to_its_sequence_number() {
        let table = filled();
        let value = |version: &Entry| version.value().map(<[u8]>::to_vec);
        let get = |key: &[u8], sequence| table.get(key, hash(key), sequence).map(|(_, version)| value(version));
        assert_eq!(get(b"b", 1), None);
        assert_eq!(get(b"b", 2), Some(Some(b"1".to_vec())));
        assert_eq!(get(b"b", 4), Some(None));
        assert_eq!(get(b"b", 9), Some(Some(b"3".to_vec())));
        assert_eq!(get(b"a", 9), Some(None));
        assert_eq!(get(b"", 1), Some(Some(b"empty".to_vec())));
        assert_eq!(get(b"c", 9), None);
    }

    #[test]
    fn cursors_move_both_ways_over_the_visible_versions() {
        let table = Arc::new(filled());
        let mut cursor = MemtableCursor::new(Arc::clone(&table), 4);
        let mut seen = Vec::new();
        cursor.seek_forward(Bound::Unbounded);
        while let Some((key, value)) = cursor.entry() {
            seen.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            let key = key.to_vec();
            cursor.seek_forward(Bound::Excluded(&key));
        }
        assert_eq!(seen, [(vec![], Some(b"empty".to_vec())), (b"a".to_vec(), None), (b"b".to_vec(), None)]);
        cursor.seek_backward(Bound::Unbounded);
        while let Some((key, value)) = cursor.entry() {
            assert_eq!(seen.pop().unwrap(), (key.to_vec(), value.map(<[u8]>::to_vec)));
            let key = key.to_vec();
            cursor.seek_backward(Bound::Excluded(&key));
        }
        assert!(seen.is_empty());
        cursor.seek_forward(Bound::Included(b"aa"));
        assert_eq!(cursor.entry().unwrap().0, b"b");
        cursor.seek_backward(Bound::Included(b"aa"));
        assert_eq!(cursor.entry().unwrap().0, b"a");
    }

    /// Measures misses with and without the filter, and prints the numbers that docs/DESIGN.md
    /// records.
    #[test]
    #[ignore = "a measurement"]
    fn measure_what_the_filter_saves_per_miss() {
        for num_keys in [1_000u64, 10_000, 100_000, 500_000] {
            let table = Memtable::new(1, 64 << 20);
            let key = |i: u64| KeyHash::of(&i.to_le_bytes(), HashSeed(9)).raw().to_le_bytes();
            for i in 0..num_keys {
                table.insert(&key(i), Some(&[7; 100]), hash(&key(i)), i + 1).unwrap();
            }
            let absent: Vec<_> = (num_keys..num_keys + 200_000).map(|i| (key(i), hash(&key(i)))).collect();
            let mut times = [std::time::Duration::MAX; 2];
            for _ in 0..5 {
                let begin = std::time::Instant::now();
                let found = absent.iter().filter(|(key, hash)| table.get(key, *hash, u64::MAX).is_some()).count();
                times[0] = times[0].min(begin.elapsed());
                let begin = std::time::Instant::now();
                let searched = absent.iter().filter(|(key, _)| table.search(key, u64::MAX).is_some()).count();
                times[1] = times[1].min(begin.elapsed());
                assert_eq!((found, searched), (0, 0));
            }
            let passed = absent.iter().filter(|(_, hash)| table.filter.may_contain(*hash)).count();
            let [with, without] = times.map(|time| time.as_nanos() as f64 / absent.len() as f64);
            let rate = passed as f64 * 100.0 / absent.len() as f64;
            println!(
                "{num_keys} keys: {with:.1} ns per miss, {without:.0} without the filter; {rate:.2} % pass the filter"
            );
        }
    }

    #[test]
    fn a_flush_gets_one_version_of_each_key() {
        let mut keys = Vec::new();
        filled()
            .for_each_newest(|key, value| {
                keys.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                Ok(())
            })
            .unwrap();
        assert_eq!(keys.len(), 4);
        assert_eq!(keys[2], (b"b".to_vec(), Some(b"3".to_vec())));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use filterblock::HashSeed;

    fn hash(key: &[u8]) -> KeyHash {
        KeyHash::of(key, HashSeed(1))
    }

    /// Writes as a store does: inserts the write into the memtable and then publishes its sequence
    /// number.
    fn write(table: &Memtable, visible: &AtomicU64, key: &[u8], sequence: u64) {
        table.insert(key, Some(key), hash(key), sequence).unwrap();
        visible.store(sequence, Ordering::Release);
    }

    #[test]
    fn a_read_finds_every_write_whose_number_it_has_seen() {
        model(|table, visible| {
            let sequence = visible.load(Ordering::Acquire);
            for (number, key) in [(1, b"b"), (2, b"a")] {
                let found = table.get(key, hash(key), sequence);
                assert_eq!(found.is_some(), number <= sequence, "write {number}, read at sequence number {sequence}");
                assert!(found.is_none_or(|(_, version)| version.value() == Some(key)));
            }
        });
    }

    #[test]
    fn a_walk_sees_whole_versions_and_every_published_write() {
        model(|table, visible| {
            let sequence = visible.load(Ordering::Acquire);
            let mut seen = Vec::new();
            let mut node = table.list.first();
            while let Some(found) = node {
                let version = table.list.version(found).expect("a linked node must have its version");
                assert_eq!(version.value(), Some(version.key()));
                seen.push(version.key().to_vec());
                node = table.list.after(found);
            }
            assert!(
                seen.is_sorted_by(|a, b| a < b) && seen.len() as u64 >= sequence,
                "read at sequence number {sequence}: {seen:?}"
            );
        });
    }

    /// Runs a thread that writes two keys and a thread that calls `read`, in every order with at
    /// most three preemptions.
    fn model(read: impl Fn(&Memtable, &AtomicU64) + Send + Sync + 'static) {
        let read = Arc::new(read);
        let mut builder = loom::model::Builder::new();
        // Musuvathi and Qadeer ("Iterative context bounding", 2007) found all their bugs with at
        // most two preemptions. Without a bound, this model takes hours.
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = loom::sync::Arc::new((Memtable::new(1, 0), AtomicU64::new(0)));
            let (for_writer, read) = (shared.clone(), read.clone());
            let writer = loom::thread::spawn(move || {
                let (table, visible) = &*for_writer;
                write(table, visible, b"b", 1);
                write(table, visible, b"a", 2);
            });
            read(&shared.0, &shared.1);
            writer.join().unwrap();
        });
    }
}
