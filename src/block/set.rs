//! Asks the filters of many SSTs for keys, prefixes and ranges of keys. Estimates how often each filter
//! is asked, from a random sample of the queries.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::bytes::SharedBytes;
use super::part::{Answer, Part};
use super::reader::TableFilter;
use crate::filters::{FilterView, Kernel, Params};
use crate::hash::{Key, KeyHash, KeyHasher};

/// The filters of many SSTs under one hasher. One call asks many filters for one key, one filter
/// for many keys, or many pairs of a filter and a key.
///
/// The set keeps one cache line of 64 bytes for each filter. If the filter holds whole keys in one
/// piece and was verified at open, most queries need only this cache line and the payload. Queries
/// of other filters take longer, because they go through the [`TableFilter`].
///
/// A host fills a set and then shares it between threads, for example in an `Arc`. For each new
/// version of the store, the host makes a new set. The old and the new set share the filters and
/// their bytes. A [`Reclaimer`](super::Reclaimer) can free the bytes outside the reading threads.
///
/// If no usable filter can be asked, the set answers [`Answer::Unfiltered`] and counts the answer.
/// This happens, for example, for a filter that is degraded, absent, under another hasher or
/// without whole keys, and for a slot of another set. If a hash comes from another hasher, debug
/// builds panic, unless [`KeyHash::from_raw`] made the hash. Release builds do not detect this
/// mistake, and may deny present keys.
///
/// ```
/// use std::sync::Arc;
/// use filterblock::{
///     Answer, Expected, FilterBlock, FilterOptions, FilterSet, HashSeed, KeyHasher, SharedBytes, TableFilter, Verify,
/// };
///
/// let hasher = KeyHasher::xxh3(HashSeed(1));
/// let mut set = FilterSet::new(&hasher);
/// let mut slots = Vec::new();
/// for (table_id, key) in [(*b"table 0000000012", b"apple"), (*b"table 0000000013", b"peach")] {
///     let mut builder = FilterOptions::new("blocked-bloom:16".parse()?).table_id(table_id).builder(&hasher)?;
///     builder.add(hasher.key(key));
///     let bytes = SharedBytes::from(builder.finish()?.bytes);
///     let opened = FilterBlock::open(bytes, &Expected::of_table(table_id, &hasher), Verify::AtOpen);
///     slots.push(set.insert(Arc::new(TableFilter::from(opened))));
/// }
/// slots.push(set.insert(Arc::new(TableFilter::Absent)));
///
/// // One key, all SSTs: the host need not read an SST that answers `No`.
/// let key = hasher.key(b"apple");
/// let answers: Vec<Answer> = slots.iter().map(|&slot| set.ask(slot, key)).collect();
/// assert_eq!(answers, [Answer::Maybe, Answer::No, Answer::Unfiltered]);
/// assert_eq!(set.counts().unfiltered_answers, 1);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Debug)]
pub struct FilterSet {
    /// The slot of position 0. It is unique among the sets of the process.
    base: u64,
    hasher: KeyHasher,
    lines: Vec<Line>,
    /// The filters of the slots, for queries that a line cannot answer.
    pub(super) filters: Vec<Entry>,
    pub(super) queries: QueryCounts,
    unfiltered: Unfiltered,
}

/// The position of a filter in a set. Only the set that returned the slot accepts it: any other set
/// answers [`Answer::Unfiltered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterSlot(
    /// The number of the set and, in the low [`POSITION_BITS`], the position of the filter. So one
    /// subtraction and one comparison refuse the slots of other sets and positions beyond the end.
    u64,
);

/// A set has at most 2^24 slots. At a million sets a second, the numbers of 40 bits last 12 days.
const POSITION_BITS: u32 = 24;

impl FilterSlot {
    /// Returns the slot as two integers, for callers in other languages. The integers have no
    /// meaning apart from [`from_raw`](Self::from_raw). Two zeros are not a slot of any set.
    #[doc(hidden)]
    #[must_use]
    pub const fn to_raw(self) -> [u64; 2] {
        [self.0 >> POSITION_BITS, self.0 & ((1 << POSITION_BITS) - 1)]
    }

    /// Returns the slot from the two integers that [`to_raw`](Self::to_raw) returned. If other
    /// integers are given, every set answers [`Answer::Unfiltered`], unless the integers happen to
    /// be a slot of the set.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_raw([set, position]: [u64; 2]) -> Self {
        match set >> (64 - POSITION_BITS) == 0 && position >> POSITION_BITS == 0 {
            true => Self(set << POSITION_BITS | position),
            false => Self(0),
        }
    }
}

/// Everything that most queries of one filter need except the payload.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Line {
    bytes: SharedBytes,
    params: Params,
    kernel: Kernel,
    /// The length of the payload, or [`ASK_ENTRY`] if the line cannot answer. No payload is so
    /// long.
    payload_len: usize,
}

const _: () = assert!(size_of::<Line>() == 64);

/// The `payload_len` of a filter that the set asks through its [`Entry`], or cannot ask. A line
/// answers only for a whole filter of keys whose pages need no verification.
const ASK_ENTRY: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) filter: Arc<TableFilter<SharedBytes>>,
    has_other_hasher: bool,
}

/// The numbers of filters by state, of damaged pages, and of queries that no filter answered: see
/// [`FilterSet::counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FilterSetCounts {
    /// The number of filters that can be asked.
    pub ready: usize,
    /// The number of filters that cannot be used. [`TableFilter::reason`] returns the cause.
    pub degraded: usize,
    /// The number of SSTs without a filter.
    pub absent: usize,
    /// The number of filters under another hasher than the set's. The set never asks these filters.
    pub other_hasher: usize,
    /// The number of damaged pages that queries have found so far in the ready filters. Queries
    /// find damage only in pages that are verified on first touch
    /// ([`Verify::OnFirstTouch`](super::Verify::OnFirstTouch)).
    pub damaged_pages: u64,
    /// The number of [`Answer::Unfiltered`] answers since the set was created.
    pub unfiltered_answers: u64,
}

impl FilterSet {
    /// Creates an empty set for filters whose keys were hashed with `hasher`.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        // No set has the number 0: see `FilterSlot::to_raw`.
        static SETS_MADE: AtomicU64 = AtomicU64::new(1);
        let base = SETS_MADE.fetch_add(1, Ordering::Relaxed) << POSITION_BITS;
        let hasher = hasher.clone();
        let (unfiltered, queries) = (Unfiltered::default(), QueryCounts::default());
        Self { base, hasher, lines: Vec::new(), filters: Vec::new(), queries, unfiltered }
    }

    /// Adds a filter and returns its slot. Beyond 2^24 filters, the set answers
    /// [`Answer::Unfiltered`] for the returned slots.
    ///
    /// A filter under another hasher than the set's would deny present keys. The set accepts such a
    /// filter, never asks it, and counts it in [`FilterSetCounts::other_hasher`].
    pub fn insert(&mut self, filter: Arc<TableFilter<SharedBytes>>) -> FilterSlot {
        let (line, entry) = self.line_and_entry(filter);
        self.lines.push(line);
        self.filters.push(entry);
        self.queries.push();
        let position = self.lines.len() as u64 - 1;
        FilterSlot(if position >> POSITION_BITS == 0 { self.base + position } else { 0 })
    }

    fn line_and_entry(&self, filter: Arc<TableFilter<SharedBytes>>) -> (Line, Entry) {
        let identity = self.hasher.identity();
        let has_other_hasher = filter.ready().is_some_and(|block| block.hasher().identity() != identity);
        let line =
            filter.ready().filter(|_| !has_other_hasher).and_then(|block| block.whole_filter().and_then(Line::new));
        (line.unwrap_or_else(Line::of_entry), Entry { filter, has_other_hasher })
    }

    /// Replaces the filter at `index` with another filter of the same keys.
    pub(super) fn set(&mut self, index: usize, filter: Arc<TableFilter<SharedBytes>>) {
        let (new_line, new_entry) = self.line_and_entry(filter);
        if let (Some(line), Some(entry)) = (self.lines.get_mut(index), self.filters.get_mut(index)) {
            (*line, *entry) = (new_line, new_entry);
        }
    }

    /// Returns the hasher that keys must be hashed with to ask this set.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether the set has no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the filter at `slot`, or `None` for a slot of another set.
    #[must_use]
    pub fn filter(&self, slot: FilterSlot) -> Option<&Arc<TableFilter<SharedBytes>>> {
        Some(&self.entry(slot)?.filter)
    }

    fn entry(&self, slot: FilterSlot) -> Option<&Entry> {
        self.filters.get(self.position(slot))
    }

    /// Returns a position beyond the end for a slot of another set.
    #[inline(always)]
    pub(super) fn position(&self, slot: FilterSlot) -> usize {
        usize::try_from(slot.0.wrapping_sub(self.base)).unwrap_or(usize::MAX)
    }

    #[inline(always)]
    fn line(&self, slot: FilterSlot) -> Option<&Line> {
        self.lines.get(self.position(slot)).filter(|line| line.payload_len != ASK_ENTRY)
    }

    /// Asks one filter for a whole key. If the filter has partitions, the key chooses the partition.
    ///
    /// The key must come from [`FilterSet::hasher`] or an equal hasher. Debug builds panic otherwise.
    #[must_use]
    #[inline]
    pub fn ask(&self, slot: FilterSlot, key: Key<'_>) -> Answer {
        self.ask_line(slot, key.hash()).unwrap_or_else(|| self.ask_entry(slot, Some(key), key.hash()))
    }

    /// Returns `None` if only the [`TableFilter`] can answer.
    #[inline(always)]
    fn ask_line(&self, slot: FilterSlot, hash: KeyHash) -> Option<Answer> {
        self.hasher.debug_check(hash);
        let position = self.position(slot);
        self.queries.count(position, 1);
        let line = self.lines.get(position)?;
        if !line.may_contain(hash) {
            return Some(Answer::No);
        }
        // A line that cannot answer is an always-maybe filter. So most queries need not compare its length.
        (line.payload_len != ASK_ENTRY).then_some(Answer::Maybe)
    }

    /// Asks one filter for a whole key by its hash alone. If the filter has partitions, the set asks
    /// them one by one until one answers "maybe". A range filter answers [`Answer::Unfiltered`],
    /// because it stores no hashes.
    ///
    /// The hash must come from [`FilterSet::hasher`] or an equal hasher. Debug builds panic
    /// otherwise, unless [`KeyHash::from_raw`] made the hash.
    #[must_use]
    #[inline(always)]
    pub fn ask_hash(&self, slot: FilterSlot, hash: KeyHash) -> Answer {
        self.ask_line(slot, hash).unwrap_or_else(|| self.ask_entry(slot, None, hash))
    }

    /// Asks a filter through its [`TableFilter`], and counts [`Answer::Unfiltered`]. This function
    /// is not inlined: inlining would take registers from the loops over lines.
    #[cold]
    #[inline(never)]
    fn ask_entry(&self, slot: FilterSlot, key: Option<Key<'_>>, hash: KeyHash) -> Answer {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        let answer = match (entry, key) {
            (Some(entry), Some(key)) => entry.filter.ask(key),
            (Some(entry), None) => entry.filter.ask_hash(hash),
            (None, _) => Answer::Unfiltered,
        };
        if answer == Answer::Unfiltered {
            self.unfiltered.count();
        }
        answer
    }

    /// Asks one filter for a prefix that `extractor` took. A filter without prefixes of this extractor
    /// answers [`Answer::Unfiltered`]. The prefix must come from [`FilterSet::hasher`] or an equal
    /// hasher.
    #[must_use]
    pub fn ask_prefix(&self, slot: FilterSlot, extractor: &str, prefix: Key<'_>) -> Answer {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        match entry.and_then(|entry| entry.filter.ready()).filter(|block| block.knows_prefixes_of(extractor)) {
            Some(block) => block.may_contain_prefix(extractor, prefix).into(),
            None => {
                self.unfiltered.count();
                Answer::Unfiltered
            }
        }
    }

    /// Asks one filter for the keys between two bounds: see
    /// [`FilterBlock::may_contain_range`](super::FilterBlock::may_contain_range). A filter without
    /// a usable range filter answers [`Answer::Unfiltered`].
    #[must_use]
    pub fn ask_range(&self, slot: FilterSlot, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Answer {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        let answer = entry.map_or(Answer::Unfiltered, |entry| entry.filter.ask_range(lower, upper));
        if answer == Answer::Unfiltered {
            self.unfiltered.count();
        }
        answer
    }

    /// Asks one filter for many keys: `may_contain[i]` is `false` if the key of `hashes[i]` is
    /// certainly not in the SST. If the slices differ in length, the answers beyond the shorter
    /// slice do not change.
    ///
    /// Returns `false` if no usable filter was asked. Then all answers are `true`, and each one is
    /// counted as [`Answer::Unfiltered`].
    pub fn ask_batch(&self, slot: FilterSlot, hashes: &[KeyHash], may_contain: &mut [bool]) -> bool {
        hashes.iter().for_each(|&hash| self.hasher.debug_check(hash));
        self.queries.count(self.position(slot), hashes.len().min(may_contain.len()));
        // Kernels write booleans. Converting each boolean to an `Answer` would take a second pass
        // over the answers.
        let Some(line) = self.line(slot) else { return self.ask_entry_batch(slot, hashes, may_contain) };
        line.view().may_contain_batch(hashes, may_contain);
        true
    }

    #[cold]
    #[inline(never)]
    fn ask_entry_batch(&self, slot: FilterSlot, hashes: &[KeyHash], may_contain: &mut [bool]) -> bool {
        let entry = self.entry(slot).filter(|entry| !entry.has_other_hasher);
        let block = entry.and_then(|entry| entry.filter.ready()).filter(|block| !block.never_denies_hashes());
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

    /// Asks many pairs of a filter and a key: `answers[i]` belongs to `queries[i]`. If the slices
    /// differ in length, the answers beyond the shorter slice do not change.
    ///
    /// Prefetches the first cache lines of up to 32 queries before it answers the first of these
    /// queries.
    pub fn ask_pairs(&self, queries: &[(FilterSlot, KeyHash)], answers: &mut [Answer]) {
        for (queries, answers) in queries.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            queries.iter().for_each(|&(slot, hash)| self.prefetch(slot, hash));
            for (answer, &(slot, hash)) in answers.iter_mut().zip(queries) {
                *answer = self.ask_hash(slot, hash);
            }
        }
    }

    /// Prefetches the first cache lines that a query of `hash` will read in this filter. Does
    /// nothing for a filter that is asked through its [`TableFilter`].
    #[inline]
    pub fn prefetch(&self, slot: FilterSlot, hash: KeyHash) {
        if let Some(line) = self.line(slot) {
            line.view().prefetch(hash);
        }
    }

    /// Counts the filters by state, the damaged pages that queries have found, and the queries that
    /// no filter answered. Takes time linear in the numbers of filters, partitions, and pages that
    /// are verified on first touch.
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

/// The number of queries whose cache lines are prefetched together.
const BATCH: usize = 32;

impl Line {
    /// Creates the line of a filter. Returns `None` if the filter does not lie within the bytes.
    fn new((bytes, part): (&SharedBytes, &Part)) -> Option<Self> {
        let bytes = bytes.after(part.start)?;
        Some(Self { bytes, params: part.params.clone(), kernel: part.kernel, payload_len: part.len })
    }

    fn of_entry() -> Self {
        let params = Params::AlwaysMaybe(());
        let kernel = Kernel::of(&params);
        Self { bytes: SharedBytes::from(&[][..]), params, kernel, payload_len: ASK_ENTRY }
    }

    #[inline(always)]
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.kernel.may_contain(&self.params, self.bytes.as_ref(), self.payload_len, hash)
    }

    #[inline]
    fn view(&self) -> FilterView<'_> {
        FilterView::new(&self.params, self.kernel, self.bytes.as_ref(), self.payload_len)
    }
}

/// Counts [`Answer::Unfiltered`] answers. Each thread adds to one of eight cache lines. If all
/// threads added to one cache line, they would wait for each other.
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

/// The mean number of queries for each counted query, and the weight of a counted query. Counting
/// every query would load one more cache line per query.
pub(super) const COUNTED_ONE_IN: u32 = 64;

/// The number of queries of each filter, estimated from a random sample.
#[derive(Debug, Default)]
pub(super) struct QueryCounts {
    pub(super) is_on: bool,
    counts: Vec<AtomicU64>,
}

thread_local! {
    /// The number of queries that this thread skips before it counts a query, and the state of a
    /// random number generator. The number of skipped queries is random: if it were fixed, a thread
    /// that asks 64 filters in turn would always count the same filter.
    static UNCOUNTED: Cell<(u32, u32)> = Cell::new(start());
}

/// Returns the initial `UNCOUNTED` of a thread. The state differs between threads. Otherwise,
/// threads that live only for a few queries could all count the same filters.
fn start() -> (u32, u32) {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    let state = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9);
    ((state >> 16) % (2 * COUNTED_ONE_IN - 1), state)
}

impl QueryCounts {
    pub(super) fn push(&mut self) {
        self.counts.push(AtomicU64::new(0));
    }

    /// Counts a random sample of `queries` queries of the filter at `index`. Does nothing if the
    /// set does not count queries.
    #[inline(always)]
    pub(super) fn count(&self, index: usize, queries: usize) {
        if self.is_on {
            let (left, state) = UNCOUNTED.get();
            match (left as usize).checked_sub(queries) {
                #[expect(clippy::cast_possible_truncation, reason = "at most `left`")]
                Some(left) => UNCOUNTED.set((left as u32, state)),
                None => self.count_sampled(index, queries),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn count_sampled(&self, index: usize, mut queries: usize) {
        let (mut left, mut state) = UNCOUNTED.get();
        let mut samples = 0;
        while let Some(after) = queries.checked_sub(left as usize + 1) {
            (queries, samples) = (after, samples + 1);
            // The linear congruential generator of "Numerical Recipes". Its high bits are random
            // enough to break up patterns. 0 to 126 queries are skipped before each counted query,
            // so one query in 64 is counted on average.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            left = (state >> 16) % (2 * COUNTED_ONE_IN - 1);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most `left`")]
        UNCOUNTED.set((left - queries as u32, state));
        self.add(index, samples * u64::from(COUNTED_ONE_IN));
    }

    pub(super) fn of(&self, index: usize) -> u64 {
        self.counts.get(index).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, index: usize, queries: u64) {
        if let Some(count) = self.counts.get(index) {
            let add = |count: u64| Some(count.saturating_add(queries));
            // The closure never returns `None`, so the update never fails.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }
}
