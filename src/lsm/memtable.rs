//! The newest writes, in memory: a skip list in key order, newest version first, with a small filter before it, so that
//! a miss does not pay for a search of the list.

use std::borrow::Borrow;
use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_skiplist::SkipSet;

use crate::codec::{order_prefix, put_u32, put_u64, u32_at, u64_from};
use crate::hash::{KeyHash, reduce};

/// What an entry costs besides its bytes: the node, its tower, and the allocation's header.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The filter has sixteen bits for each entry of so many bytes that fit the write buffer. Smaller entries make it
/// fuller: more searches of the list, no wrong answer.
const ENTRY_LEN_BYTES: usize = 128;

/// 16 MiB, enough for a write buffer of a gigabyte: "no limit" as its size must not ask for all memory there is.
const MAX_FILTER_WORDS: usize = 1 << 21;

/// One version of one key.
///
/// Small, because the list keeps it inside its node: a search then touches one cache line a node, not two. Inserting
/// into a hundred thousand entries cost a third more with the number and the lengths as fields.
struct Entry {
    prefix: u64,
    /// Sequence number (8 bytes), key length with [`IS_VALUE`] (4 bytes), key, value.
    bytes: Box<[u8]>,
}

const HEADER_LEN_BYTES: usize = 12;

/// The bit of a key's length that says that there is a value and not a removal.
const IS_VALUE: u32 = 1 << 31;

/// What orders versions: key ascending, then newest first. Lets the list be searched with a borrowed key.
trait Versioned {
    fn prefix(&self) -> u64;
    fn key(&self) -> &[u8];
    fn sequence(&self) -> u64;
}

impl Versioned for Entry {
    fn prefix(&self) -> u64 {
        self.prefix
    }

    fn key(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN_BYTES..self.key_end()).unwrap_or_default()
    }

    fn sequence(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, u64_from)
    }
}

impl Entry {
    fn new(key: &[u8], value: Option<&[u8]>, sequence: u64) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES + key.len() + value.map_or(0, <[u8]>::len));
        put_u64(&mut bytes, sequence);
        #[expect(clippy::cast_possible_truncation, reason = "keys have at most MAX_KEY_LEN_BYTES")]
        put_u32(&mut bytes, key.len() as u32 | if value.is_some() { IS_VALUE } else { 0 });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.unwrap_or_default());
        Self { prefix: order_prefix(key), bytes: bytes.into_boxed_slice() }
    }

    fn len_and_flag(&self) -> u32 {
        u32_at(&self.bytes, 8).unwrap_or(0)
    }

    fn key_end(&self) -> usize {
        HEADER_LEN_BYTES + (self.len_and_flag() & !IS_VALUE) as usize
    }

    fn value(&self) -> Option<&[u8]> {
        let is_value = self.len_and_flag() & IS_VALUE != 0;
        is_value.then(|| self.bytes.get(self.key_end()..).unwrap_or_default())
    }
}

fn compare<A: Versioned + ?Sized, B: Versioned + ?Sized>(a: &A, b: &B) -> Order {
    // The prefix decides nearly always, without touching the key's own cache line.
    a.prefix().cmp(&b.prefix()).then_with(|| a.key().cmp(b.key())).then_with(|| b.sequence().cmp(&a.sequence()))
}

macro_rules! ordered {
    ($type:ty) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                compare(self, other) == Order::Equal
            }
        }
        impl Eq for $type {}
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Order> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Order {
                compare(self, other)
            }
        }
    };
}
ordered!(Entry);
ordered!(dyn Versioned + '_);

impl<'a> Borrow<dyn Versioned + 'a> for Entry {
    fn borrow(&self) -> &(dyn Versioned + 'a) {
        self
    }
}

/// A place between versions.
struct Place<'a> {
    prefix: u64,
    key: &'a [u8],
    sequence: u64,
}

impl<'a> Place<'a> {
    fn new(key: &'a [u8], sequence: u64) -> Self {
        Self { prefix: order_prefix(key), key, sequence }
    }
}

impl Versioned for Place<'_> {
    fn prefix(&self) -> u64 {
        self.prefix
    }

    fn key(&self) -> &[u8] {
        self.key
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// A Bloom filter that grows while it is read: four bits of a key in one 64-bit word.
///
/// Bits are set before their write is published with `Release` ordering and asked after that was seen with `Acquire`,
/// so relaxed accesses suffice here; a reader that does not see a write yet may miss its bits too.
#[derive(Debug)]
struct GrowingFilter(Box<[AtomicU64]>);

impl GrowingFilter {
    fn new(capacity_bytes: usize) -> Self {
        let words = (capacity_bytes / ENTRY_LEN_BYTES / 4).clamp(64, MAX_FILTER_WORDS);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// High bits choose the word, low bits the four within it.
    #[inline]
    fn word_and_mask(&self, hash: KeyHash) -> (Option<&AtomicU64>, u64) {
        let raw = hash.raw();
        let bit = |shift: u32| 1u64 << (raw >> shift & 63);
        #[expect(clippy::cast_possible_truncation, reason = "below the slice's length")]
        let word = reduce(raw, self.0.len() as u64) as usize;
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

/// Writes that are not in a table yet.
pub(super) struct Memtable {
    entries: SkipSet<Entry>,
    filter: GrowingFilter,
    len_bytes: AtomicUsize,
    num_entries: AtomicU64,
    smallest_sequence: AtomicU64,
    largest_sequence: AtomicU64,
    /// The log that holds its writes.
    pub(super) log_number: u64,
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").field("log_number", &self.log_number).field("len_bytes", &self.len_bytes).finish()
    }
}

impl Memtable {
    /// An empty one for the writes of log `log_number`, that is to grow to about `capacity_bytes`.
    pub(super) fn new(log_number: u64, capacity_bytes: usize) -> Self {
        Self {
            entries: SkipSet::new(),
            filter: GrowingFilter::new(capacity_bytes),
            len_bytes: AtomicUsize::new(0),
            num_entries: AtomicU64::new(0),
            smallest_sequence: AtomicU64::new(u64::MAX),
            largest_sequence: AtomicU64::new(0),
            log_number,
        }
    }

    /// Adds one version; `None` is a removal. One thread at a time adds, with growing sequence numbers.
    pub(super) fn insert(&self, key: &[u8], value: Option<&[u8]>, hash: KeyHash, sequence: u64) {
        let entry = Entry::new(key, value, sequence);
        let len = entry.bytes.len();
        self.filter.insert(hash);
        self.entries.insert(entry);
        self.len_bytes.fetch_add(len + ENTRY_OVERHEAD_BYTES, Ordering::Relaxed);
        self.smallest_sequence.fetch_min(sequence, Ordering::Relaxed);
        self.largest_sequence.fetch_max(sequence, Ordering::Relaxed);
        self.num_entries.fetch_add(1, Ordering::Release);
    }

    /// The newest version of `key` up to `sequence`: outside `None` if there is none, inside `None` if it is a removal.
    #[inline]
    pub(super) fn get(&self, key: &[u8], hash: KeyHash, sequence: u64) -> Option<Option<Vec<u8>>> {
        // An empty memtable, as after a flush, must not cost the cache line of its filter.
        if !self.is_empty() && self.filter.may_contain(hash) { self.search(key, sequence) } else { None }
    }

    fn search(&self, key: &[u8], sequence: u64) -> Option<Option<Vec<u8>>> {
        let place = Place::new(key, sequence);
        let entry = self.entries.lower_bound(Bound::Included(&place as &dyn Versioned))?;
        (entry.value().key() == key).then(|| entry.value().value().map(<[u8]>::to_vec))
    }

    /// Memory in use, about.
    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes.load(Ordering::Relaxed)
    }

    /// Versions of all keys.
    pub(super) fn num_entries(&self) -> u64 {
        self.num_entries.load(Ordering::Acquire)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// The oldest and the newest sequence number in it; of no meaning when it is empty.
    pub(super) fn sequences(&self) -> (u64, u64) {
        (self.smallest_sequence.load(Ordering::Relaxed), self.largest_sequence.load(Ordering::Relaxed))
    }

    /// Hands the newest version of each key to `visit`, in key order.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub(super) fn for_each_newest<E>(
        &self,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last: Option<crossbeam_skiplist::set::Entry<'_, Entry>> = None;
        for entry in &self.entries {
            if last.as_ref().is_none_or(|last| last.value().key() != entry.value().key()) {
                visit(entry.value().key(), entry.value().value())?;
                last = Some(entry);
            }
        }
        Ok(())
    }
}

/// Moves over the keys of a memtable as of one sequence number.
#[derive(Debug)]
pub(super) struct MemtableCursor {
    table: Arc<Memtable>,
    sequence: u64,
    /// The key and the version at hand.
    current: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>, sequence: u64) -> Self {
        Self { table, sequence, current: None }
    }

    pub(super) fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.current.as_ref().map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// To the first key that is not below `bound`.
    pub(super) fn seek_forward(&mut self, bound: Bound<&[u8]>) {
        // The newest version of a key comes first, the place behind all its versions has number 0.
        let place = match bound {
            Bound::Included(key) => Some((key, u64::MAX)),
            Bound::Excluded(key) => Some((key, 0)),
            Bound::Unbounded => None,
        };
        let mut entry = match place {
            Some((key, sequence)) => {
                let place = Place::new(key, sequence);
                self.table.entries.lower_bound(Bound::Excluded(&place as &dyn Versioned))
            }
            None => self.table.entries.front(),
        };
        self.current = None;
        while let Some(found) = entry {
            let key = found.value().key();
            if let Some(value) = self.table.search(key, self.sequence) {
                self.current = Some((key.to_vec(), value));
                return;
            }
            let behind = Place::new(key, 0);
            entry = self.table.entries.lower_bound(Bound::Excluded(&behind as &dyn Versioned));
        }
    }

    /// To the last key that is not above `bound`.
    pub(super) fn seek_backward(&mut self, bound: Bound<&[u8]>) {
        let place = match bound {
            Bound::Included(key) => Some((key, 0)),
            Bound::Excluded(key) => Some((key, u64::MAX)),
            Bound::Unbounded => None,
        };
        let mut entry = match place {
            Some((key, sequence)) => {
                let place = Place::new(key, sequence);
                self.table.entries.upper_bound(Bound::Excluded(&place as &dyn Versioned))
            }
            None => self.table.entries.back(),
        };
        self.current = None;
        while let Some(found) = entry {
            let key = found.value().key();
            if let Some(value) = self.table.search(key, self.sequence) {
                self.current = Some((key.to_vec(), value));
                return;
            }
            let before = Place::new(key, u64::MAX);
            entry = self.table.entries.upper_bound(Bound::Excluded(&before as &dyn Versioned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashSeed;

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
            table.insert(key, value, hash(key), i as u64 + 1);
        }
        table
    }

    #[test]
    fn a_read_sees_the_newest_version_up_to_its_sequence_number() {
        let table = filled();
        let get = |key: &[u8], sequence| table.get(key, hash(key), sequence);
        assert_eq!(get(b"b", 1), None);
        assert_eq!(get(b"b", 2), Some(Some(b"1".to_vec())));
        assert_eq!(get(b"b", 4), Some(None));
        assert_eq!(get(b"b", 9), Some(Some(b"3".to_vec())));
        assert_eq!(get(b"a", 9), Some(None));
        assert_eq!(get(b"", 1), Some(Some(b"empty".to_vec())));
        assert_eq!(get(b"c", 9), None);
    }

    #[test]
    fn cursors_move_both_ways_over_what_a_sequence_number_sees() {
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

    #[test]
    fn a_flush_gets_one_version_of_each_key() {
        let mut keys = Vec::new();
        filled()
            .for_each_newest(|key, value| {
                keys.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(keys.len(), 4);
        assert_eq!(keys[2], (b"b".to_vec(), Some(b"3".to_vec())));
    }
}
