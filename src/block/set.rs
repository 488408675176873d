//! Many filters at once: what a store asks on its way through its SSTs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::part::Part;
use super::shared_bytes::SharedBytes;
use super::table_filter::{Answer, TableFilter};
use crate::error::Error;
use crate::hash::{KeyHash, KeyHasher};
use crate::kinds::{FilterView, Geometry, Kernel};

/// The filters of many tables under one hasher, for one key or for many keys.
///
/// The set keeps one cache line of 64 bytes for each filter. For a filter of whole keys in one piece that was verified
/// at open, the line has all that a query needs but the payload. The set asks other filters as [`TableFilter`] does,
/// which takes longer.
///
/// A host fills a set and then shares it, for example in an `Arc`: the set is `Send` and `Sync`, and queries take
/// `&self`. For each new version of the store the host makes a new set. Both sets share the filters and their bytes.
/// [`Reclaimer`](super::Reclaimer) spares readers the freeing of bytes.
///
/// In doubt the answer is [`Answer::Unfiltered`], and the set counts it: for a filter that is degraded, absent or under
/// another hasher, and for a slot of another set. A query with a hash of another hasher panics in debug builds; release
/// builds cannot see the mistake, and deny keys.
///
/// ```
/// use std::sync::Arc;
/// use filterblock::{
///     Answer, Expected, FilterBlock, FilterBuilder, FilterSet, HashSeed, KeyHasher, SharedBytes, TableFilter, Verify,
/// };
///
/// let hasher = KeyHasher::xxh3(HashSeed(1));
/// let mut set = FilterSet::new(&hasher);
/// let mut slots = Vec::new();
/// for (table_id, key) in [(*b"table 0000000012", b"apple"), (*b"table 0000000013", b"peach")] {
///     let mut builder = FilterBuilder::new("blocked-bloom:16".parse()?, &hasher).with_table_id(table_id);
///     builder.add(key);
///     let bytes = SharedBytes::from(builder.finish()?);
///     let opened = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen);
///     slots.push(set.insert(Arc::new(TableFilter::from(opened))));
/// }
/// slots.push(set.insert(Arc::new(TableFilter::Absent)));
///
/// // One key, all tables: a table that answers `No` needs no read.
/// let hash = hasher.of(b"apple");
/// let mut answers = [Answer::Unfiltered; 3];
/// set.ask_all(hash, &slots, &mut answers);
/// assert_eq!(answers, [Answer::Maybe, Answer::No, Answer::Unfiltered]);
/// assert_eq!(set.counts().unfiltered_answers, 1);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug)]
pub struct FilterSet<E = Error> {
    /// No other set of the process has this number.
    number: u64,
    hasher: KeyHasher,
    lines: Vec<Line>,
    /// The whole of each filter, for all that its line does not answer.
    filters: Vec<Entry<E>>,
    /// Answers of [`Answer::Unfiltered`].
    unfiltered: Unfiltered,
}

/// Where a set keeps a filter. Only the set that returned the slot takes it: any other set answers
/// [`Answer::Unfiltered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterSlot {
    set: u64,
    index: usize,
}

/// What a query of one filter needs.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Line {
    bytes: SharedBytes,
    geometry: Geometry,
    kernel: Kernel,
    /// [`ASK_ENTRY`], which no payload reaches, if the line does not answer.
    payload_len: usize,
}

const _: () = assert!(size_of::<Line>() == 64);

/// The filter is in partitions, of prefixes only, verified on first touch, or not there.
const ASK_ENTRY: usize = usize::MAX;

#[derive(Debug)]
struct Entry<E> {
    filter: Arc<TableFilter<SharedBytes, E>>,
    has_other_hasher: bool,
}

/// The filters of a set by their state, and what they could not answer: [`FilterSet::counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FilterSetCounts {
    /// Filters that answer.
    pub ready: usize,
    /// Filters that cannot be used; [`TableFilter::reason`] tells why.
    pub degraded: usize,
    /// Tables without a filter.
    pub absent: usize,
    /// Filters under another hasher than the set's. They are never asked.
    pub other_hasher: usize,
    /// Pages that queries found damaged so far, in filters of [`Verify::OnFirstTouch`](super::Verify::OnFirstTouch).
    pub damaged_pages: u64,
    /// Answers of [`Answer::Unfiltered`] since the set was made.
    pub unfiltered_answers: u64,
}

impl<E> FilterSet<E> {
    /// An empty set for filters whose keys `hasher` hashes.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        static SETS_MADE: AtomicU64 = AtomicU64::new(0);
        let number = SETS_MADE.fetch_add(1, Ordering::Relaxed);
        let hasher = hasher.clone();
        Self { number, hasher, lines: Vec::new(), filters: Vec::new(), unfiltered: Unfiltered::default() }
    }

    /// Adds a filter and returns its slot.
    ///
    /// A filter under another hasher than the set's would deny keys. The set takes such a filter, never asks it, and
    /// counts it in [`FilterSetCounts::other_hasher`].
    pub fn insert(&mut self, filter: Arc<TableFilter<SharedBytes, E>>) -> FilterSlot {
        let identity = self.hasher.identity();
        let has_other_hasher = filter.ready().is_some_and(|block| block.hasher().identity() != identity);
        let line = filter.ready().filter(|_| !has_other_hasher).and_then(|block| block.whole_filter().map(Line::new));
        self.lines.push(line.unwrap_or_else(Line::of_entry));
        self.filters.push(Entry { filter, has_other_hasher });
        FilterSlot { set: self.number, index: self.lines.len() - 1 }
    }

    /// What keys must be hashed by to ask this set.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the set has no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The filter that was inserted at a slot; `None` for a slot of another set.
    #[must_use]
    pub fn filter(&self, slot: FilterSlot) -> Option<&Arc<TableFilter<SharedBytes, E>>> {
        Some(&self.entry(slot)?.filter)
    }

    fn entry(&self, slot: FilterSlot) -> Option<&Entry<E>> {
        if slot.set == self.number { self.filters.get(slot.index) } else { None }
    }

    #[inline(always)]
    fn line(&self, slot: FilterSlot) -> Option<&Line> {
        if slot.set != self.number {
            return None;
        }
        self.lines.get(slot.index).filter(|line| line.payload_len != ASK_ENTRY)
    }

    /// Asks one filter for a whole key, hashed by the set's hasher. [`FilterSet::ask_hashed_key`] asks many filters without
    /// hashing the key again.
    #[must_use]
    #[inline]
    pub fn ask_key(&self, slot: FilterSlot, key: &[u8]) -> Answer {
        self.ask_hashed_key(slot, key, self.hasher.of(key))
    }

    /// Asks one filter for a whole key by its hash. A filter in partitions is asked in all of them.
    #[must_use]
    #[inline(always)]
    pub fn ask(&self, slot: FilterSlot, hash: KeyHash) -> Answer {
        self.hasher.debug_check(hash);
        match self.line(slot) {
            Some(line) => line.may_contain(hash).into(),
            None => self.ask_entry(slot, None, hash),
        }
    }

    /// Asks one filter for a whole key and its hash: the key chooses the partition, if the filter has partitions.
    #[must_use]
    #[inline]
    pub fn ask_hashed_key(&self, slot: FilterSlot, key: &[u8], hash: KeyHash) -> Answer {
        self.hasher.debug_check_of(key, hash);
        match self.line(slot) {
            Some(line) => line.may_contain(hash).into(),
            None => self.ask_entry(slot, Some(key), hash),
        }
    }

    /// A call of its own, so that the loops over lines keep their registers.
    #[cold]
    #[inline(never)]
    fn ask_entry(&self, slot: FilterSlot, key: Option<&[u8]>, hash: KeyHash) -> Answer {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        let answer = match (entry.map(|entry| entry.filter.as_ref()), key) {
            (Some(TableFilter::Ready(block)), Some(key)) if !block.knows_no_key() => {
                block.may_contain_hashed_key(key, hash).into()
            }
            (Some(filter), None) => filter.ask_hash(hash),
            (Some(_) | None, _) => Answer::Unfiltered,
        };
        if answer == Answer::Unfiltered {
            self.unfiltered.count();
        }
        answer
    }

    /// Asks one filter for a prefix that `extractor` took, hashed by the set's hasher. A filter without prefixes of this
    /// extractor answers [`Answer::Unfiltered`].
    #[must_use]
    pub fn ask_prefix(&self, slot: FilterSlot, extractor: &str, prefix: &[u8]) -> Answer {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        match entry.and_then(|entry| entry.filter.ready()).filter(|block| block.knows_prefixes_of(extractor)) {
            Some(block) => block.may_contain_prefix(extractor, prefix).into(),
            None => {
                self.unfiltered.count();
                Answer::Unfiltered
            }
        }
    }

    /// Asks many filters for one key: `answers[i]` is that of `slots[i]`. Answers beyond the shorter slice stay as they
    /// are.
    pub fn ask_all(&self, hash: KeyHash, slots: &[FilterSlot], answers: &mut [Answer]) {
        for (answer, &slot) in answers.iter_mut().zip(slots) {
            *answer = self.ask(slot, hash);
        }
    }

    /// Asks one filter for many keys: `may_contain[i]` is `false` if the key of `hashes[i]` is certainly not in the table. Answers
    /// beyond the shorter slice stay as they are.
    ///
    /// Returns `false` if there was no filter that could have denied a key: then all answers are `true`, and each is counted as
    /// [`Answer::Unfiltered`].
    pub fn ask_batch(&self, slot: FilterSlot, hashes: &[KeyHash], may_contain: &mut [bool]) -> bool {
        hashes.iter().for_each(|&hash| self.hasher.debug_check(hash));
        // Booleans, as kernels write them: to turn each into an `Answer` cost a batch over 36 filters 8 %.
        let Some(line) = self.line(slot) else { return self.ask_entry_batch(slot, hashes, may_contain) };
        line.view().may_contain_batch(hashes, may_contain);
        true
    }

    #[cold]
    #[inline(never)]
    fn ask_entry_batch(&self, slot: FilterSlot, hashes: &[KeyHash], may_contain: &mut [bool]) -> bool {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        let block = entry.and_then(|entry| entry.filter.ready()).filter(|block| !block.knows_no_key());
        if let Some(block) = block {
            block.may_contain_batch(hashes, may_contain);
            return true;
        }
        for (answer, _) in may_contain.iter_mut().zip(hashes) {
            *answer = true;
            self.unfiltered.count();
        }
        false
    }

    /// Asks many filters for many keys: `answers[i]` is that of filter and key `queries[i]`. The first cache line of
    /// each of 32 queries is on its way before the first is answered. Answers beyond the shorter slice stay as they
    /// are.
    pub fn ask_pairs(&self, queries: &[(FilterSlot, KeyHash)], answers: &mut [Answer]) {
        for (queries, answers) in queries.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            queries.iter().for_each(|&(slot, hash)| self.prefetch(slot, hash));
            for (answer, &(slot, hash)) in answers.iter_mut().zip(queries) {
                *answer = self.ask(slot, hash);
            }
        }
    }

    /// Starts to bring the first cache line that a query reads into the processor's cache.
    #[inline]
    pub fn prefetch(&self, slot: FilterSlot, hash: KeyHash) {
        if let Some(line) = self.line(slot) {
            line.view().prefetch(hash);
        }
    }

    /// The filters by their state, and what they could not answer so far. Takes time linear in the number of filters.
    #[must_use]
    pub fn counts(&self) -> FilterSetCounts {
        let mut counts = FilterSetCounts { unfiltered_answers: self.unfiltered.total(), ..FilterSetCounts::default() };
        for entry in &self.filters {
            match entry.filter.as_ref() {
                TableFilter::Ready(_) if entry.has_other_hasher => counts.other_hasher += 1,
                TableFilter::Ready(block) => {
                    counts.ready += 1;
                    counts.damaged_pages += block.damaged_pages();
                }
                TableFilter::Degraded(_) => counts.degraded += 1,
                TableFilter::Absent => counts.absent += 1,
            }
        }
        counts
    }
}

/// Queries under way at once where memory is waited for.
const BATCH: usize = 32;

impl Line {
    fn new((bytes, part): (&SharedBytes, &Part)) -> Self {
        Self { bytes: bytes.clone(), geometry: part.geometry.clone(), kernel: part.kernel, payload_len: part.len }
    }

    fn of_entry() -> Self {
        let geometry = Geometry::Full;
        let kernel = Kernel::of(&geometry);
        Self { bytes: SharedBytes::from(&[][..]), geometry, kernel, payload_len: ASK_ENTRY }
    }

    #[inline(always)]
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.kernel.may_contain(&self.geometry, self.bytes.as_ref(), self.payload_len, hash)
    }

    #[inline]
    fn view(&self) -> FilterView<'_> {
        FilterView::new(&self.geometry, self.kernel, self.bytes.as_ref(), self.payload_len)
    }
}

/// Counts answers. Each thread adds to one of several cache lines: reads of a store without filters would otherwise wait for one
/// another.
#[derive(Debug, Default)]
struct Unfiltered([OnOneLine; 8]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct OnOneLine(AtomicU64);

impl Unfiltered {
    fn count(&self) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let number = NUMBER.try_with(|number| *number).unwrap_or_default();
        if let Some(OnOneLine(count)) = self.0.get(number % self.0.len()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|OnOneLine(count)| count.load(Ordering::Relaxed)).sum()
    }
}
