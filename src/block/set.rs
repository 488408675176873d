//! Asks the filters of many SSTs for keys, prefixes and ranges of keys. Estimates how often each filter
//! of a [`FilterCache`](super::FilterCache) is asked, from a random sample of the queries.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::bytes::{NearBytes, SharedBytes};
use super::cache::{COUNTED_ONE_IN, CachedFilter};
use super::part::{Answer, Part};
use super::reader::{FilterBlock, TableFilter};
use crate::filters::{FilterKind, FilterView, Kernel, Params};
use crate::hash::{Key, KeyHash, KeyHasher};

/// The filters of many SSTs under one hasher. One call asks many filters for one key, one filter
/// for many keys, or many pairs of a filter and a key.
///
/// Most queries of a filter that holds whole keys in one piece and was verified at open need only the
/// payload and a few bytes of the set: 16 for a Bloom filter, 64 for another kind. Queries of other
/// filters take longer, because they go through the [`TableFilter`].
///
/// A host fills a set and then shares it between threads, for example in an `Arc`. For each new
/// version of the store, the host makes a new set. The old and the new set share the filters and
/// their bytes. A [`Reclaimer`](super::Reclaimer) can free the bytes outside the reading threads.
/// Filters of a [`FilterCache`](super::FilterCache) are read when a query first needs them.
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
    /// The payloads and padding of the filters whose params are `common`.
    near: NearBytes,
    /// The params of the first Bloom filter. Bloom filters of one store usually have the same ones, so a
    /// query needs only the place of the payload.
    common: OnceLock<(Params, Kernel)>,
    lines: Vec<OnceLine>,
    /// The filters of the slots, for queries that a line cannot answer.
    entries: Vec<Entry>,
    /// Whether any filter is of a cache, which wants to know the filters that are asked most.
    counts_queries: bool,
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

/// The base of all sets after the numbers are used up. Such a set takes no filter.
const NO_BASE: u64 = u64::MAX << POSITION_BITS;

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

/// The line of a filter, or nothing if the set asks the filter through its [`Entry`] or cannot ask it.
/// A line answers only for a whole filter of keys whose pages need no verification.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OnceLine(OnceLock<Line>);

const _: () = assert!(size_of::<OnceLine>() == 64);

/// Everything that most queries of one filter need except the payload.
#[derive(Debug)]
struct Line {
    /// The payload and the [`PADDING_BYTES`] after it. The length of the payload has no field, because
    /// the line would exceed a cache line.
    padded: SharedBytes,
    params: Params,
    kernel: Kernel,
}

/// Vector loads may read so many bytes beyond the payload. A block that has a payload has as many.
const PADDING_BYTES: usize = 64;

#[derive(Debug)]
struct Entry {
    /// The filter. It is empty until a query has loaded a filter of a cache.
    filter: OnceLock<Arc<TableFilter<SharedBytes>>>,
    cached: Option<Arc<CachedFilter>>,
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
    /// The number of filters of a [`FilterCache`](super::FilterCache) that no query of this set has
    /// loaded.
    pub not_loaded: usize,
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
        let number = SETS_MADE.fetch_add(1, Ordering::Relaxed);
        let base = number.min(u64::MAX >> POSITION_BITS) << POSITION_BITS;
        let (hasher, unfiltered) = (hasher.clone(), Unfiltered::default());
        let (near, common) = (NearBytes::default(), OnceLock::new());
        Self { base, hasher, near, common, lines: Vec::new(), entries: Vec::new(), counts_queries: false, unfiltered }
    }

    /// Adds a filter and returns its slot. A set takes 2^24 filters. It does not keep a further one, and
    /// answers [`Answer::Unfiltered`] for its slot.
    ///
    /// A filter under another hasher than the set's would deny present keys. The set accepts such a
    /// filter, never asks it, and counts it in [`FilterSetCounts::other_hasher`].
    pub fn insert(&mut self, filter: Arc<TableFilter<SharedBytes>>) -> FilterSlot {
        let has_other_hasher = filter.ready().is_some_and(|block| self.is_other(block.hasher()));
        self.push(Entry { filter: filter.into(), cached: None, has_other_hasher })
    }

    /// Adds a filter of a [`FilterCache`](super::FilterCache) and returns its slot, as
    /// [`insert`](Self::insert) does. Adding reads nothing. A query that needs the filter loads it. From
    /// then on, this set asks the filter without a lock, even if the filter leaves the cache.
    pub fn insert_cached(&mut self, filter: Arc<CachedFilter>) -> FilterSlot {
        CachedFilter::register(&filter);
        self.counts_queries = true;
        let has_other_hasher = self.is_other(filter.hasher());
        let loaded = filter.loaded().map(OnceLock::from).unwrap_or_default();
        self.push(Entry { filter: loaded, cached: Some(filter), has_other_hasher })
    }

    fn is_other(&self, hasher: &KeyHasher) -> bool {
        hasher.identity() != self.hasher.identity()
    }

    fn push(&mut self, entry: Entry) -> FilterSlot {
        let position = self.lines.len();
        // A further position would be that of a slot of another set.
        if position >> POSITION_BITS != 0 || self.base == NO_BASE {
            return FilterSlot(0);
        }
        self.near.push_empty();
        self.lines.push(OnceLine::default());
        if let Some(block) = entry.usable() {
            self.add_line(position, block);
        }
        self.entries.push(entry);
        FilterSlot(self.base + position as u64)
    }

    /// Adds the line of a filter, if its queries need no more. Another thread may have added it.
    fn add_line(&self, position: usize, block: &FilterBlock<SharedBytes>) {
        let (Some(OnceLine(line)), Some(new)) = (self.lines.get(position), Line::new(block)) else { return };
        use FilterKind::{BlockedBloom, Bloom, SplitBlock, SplitBlock512};
        if matches!(new.params.kind(), Bloom | BlockedBloom | SplitBlock | SplitBlock512) {
            let (common, _) = self.common.get_or_init(|| (new.params.clone(), new.kernel));
            if new.params == *common {
                self.near.set(position, new.padded.clone());
            }
        }
        let _ = line.set(new);
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

    /// Returns the filter at `slot`. Returns `None` for a slot of another set, and for a filter that no
    /// query of this set has loaded.
    #[must_use]
    pub fn filter(&self, slot: FilterSlot) -> Option<&Arc<TableFilter<SharedBytes>>> {
        self.entries.get(self.position(slot))?.filter.get()
    }

    /// Returns the filter at `slot` for a query, and loads it if it is a filter of a cache. Returns
    /// `None` if the set must not ask it.
    fn usable(&self, slot: FilterSlot) -> Option<&TableFilter<SharedBytes>> {
        let position = self.position(slot);
        let entry = self.entries.get(position).filter(|entry| !entry.has_other_hasher)?;
        if let Some(filter) = entry.filter.get() {
            return Some(filter);
        }
        let filter = entry.cached.as_ref()?.load()?;
        let filter = entry.filter.get_or_init(|| filter);
        if let Some(block) = entry.usable() {
            self.add_line(position, block);
        }
        Some(filter)
    }

    /// Returns a position beyond the end for a slot of another set.
    #[inline(always)]
    fn position(&self, slot: FilterSlot) -> usize {
        usize::try_from(slot.0.wrapping_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// Returns a filter whose queries need no more than its line. Returns `None` for any other filter.
    #[inline(always)]
    fn view(&self, slot: FilterSlot) -> Option<FilterView<'_>> {
        let position = self.position(slot);
        if let Some((params, kernel)) = self.common.get() {
            let padded = self.near.get(position);
            if let Some(len) = padded.len().checked_sub(PADDING_BYTES) {
                return Some(FilterView::new(params, *kernel, padded, len));
            }
        }
        let line = self.lines.get(position)?.0.get()?;
        let padded = line.padded.as_ref();
        Some(FilterView::new(&line.params, line.kernel, padded, padded.len() - PADDING_BYTES))
    }

    /// Counts a sample of the queries, if any filter is of a cache.
    #[inline(always)]
    fn count(&self, slot: FilterSlot, queries: usize) {
        if self.counts_queries && is_sampled(queries) {
            self.count_sampled(slot, queries);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_sampled(&self, slot: FilterSlot, queries: usize) {
        take_sample(queries, |_| self.add_queries(slot));
    }

    #[cold]
    #[inline(never)]
    fn count_sampled_pairs(&self, queries: &[(FilterSlot, KeyHash)]) {
        let count = |&(slot, _): &(FilterSlot, KeyHash)| self.add_queries(slot);
        take_sample(queries.len(), |place| queries.get(place).into_iter().for_each(count));
    }

    /// Counts a query that stands for others.
    fn add_queries(&self, slot: FilterSlot) {
        let counted = u64::from(COUNTED_ONE_IN);
        if let Some(cached) = self.entries.get(self.position(slot)).and_then(|entry| entry.cached.as_ref()) {
            cached.add_queries(counted);
        }
    }

    /// Asks one filter for a whole key. If the filter has partitions, the key chooses the partition.
    ///
    /// The key must come from [`FilterSet::hasher`] or an equal hasher. Debug builds panic otherwise.
    #[must_use]
    #[inline]
    pub fn ask(&self, slot: FilterSlot, key: Key<'_>) -> Answer {
        self.hasher.debug_check(key.hash());
        self.count(slot, 1);
        match self.view(slot) {
            Some(filter) => filter.may_contain_hash(key.hash()).into(),
            None => self.ask_entry(slot, Some(key), key.hash()),
        }
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
        self.count(slot, 1);
        self.ask_hash_uncounted(slot, hash)
    }

    #[inline(always)]
    fn ask_hash_uncounted(&self, slot: FilterSlot, hash: KeyHash) -> Answer {
        self.hasher.debug_check(hash);
        match self.view(slot) {
            Some(filter) => filter.may_contain_hash(hash).into(),
            None => self.ask_entry(slot, None, hash),
        }
    }

    /// Asks a filter through its [`TableFilter`], and counts [`Answer::Unfiltered`]. This function
    /// is not inlined: inlining would take registers from the loops over lines.
    #[cold]
    #[inline(never)]
    fn ask_entry(&self, slot: FilterSlot, key: Option<Key<'_>>, hash: KeyHash) -> Answer {
        let answer = match (self.usable(slot), key) {
            (Some(filter), Some(key)) => filter.ask(key),
            (Some(filter), None) => filter.ask_hash(hash),
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
        self.count(slot, 1);
        let block = self.usable(slot).and_then(TableFilter::ready);
        match block.filter(|block| block.knows_prefixes_of(extractor)) {
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
        self.count(slot, 1);
        let answer = self.usable(slot).map_or(Answer::Unfiltered, |filter| filter.ask_range(lower, upper));
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
        self.count(slot, hashes.len().min(may_contain.len()));
        // Kernels write booleans. Converting each boolean to an `Answer` would take a second pass
        // over the answers.
        let Some(filter) = self.view(slot) else { return self.ask_entry_batch(slot, hashes, may_contain) };
        filter.may_contain_batch(hashes, may_contain);
        true
    }

    #[cold]
    #[inline(never)]
    fn ask_entry_batch(&self, slot: FilterSlot, hashes: &[KeyHash], may_contain: &mut [bool]) -> bool {
        let block = self.usable(slot).and_then(TableFilter::ready);
        if let Some(block) = block.filter(|block| !block.never_denies_hashes()) {
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
            if self.counts_queries && is_sampled(queries.len().min(answers.len())) {
                self.count_sampled_pairs(queries.get(..answers.len()).unwrap_or(queries));
            }
            for (answer, &(slot, hash)) in answers.iter_mut().zip(queries) {
                *answer = self.ask_hash_uncounted(slot, hash);
            }
        }
    }

    /// Prefetches the first cache lines that a query of `hash` will read in this filter. Does
    /// nothing for a filter that is asked through its [`TableFilter`].
    #[inline]
    pub fn prefetch(&self, slot: FilterSlot, hash: KeyHash) {
        if let Some(filter) = self.view(slot) {
            filter.prefetch(hash);
        }
    }

    /// Returns the length in bytes of the blocks of all [`TableFilter::Ready`] filters together.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let ready = self.entries.iter().filter_map(|entry| entry.filter.get()?.ready());
        ready.map(|block| block.metadata().block_len_bytes).fold(0, u64::saturating_add)
    }

    /// Counts the filters by state, the damaged pages that queries have found, and the queries that
    /// no filter answered. Takes time linear in the numbers of filters, partitions, and pages that
    /// are verified on first touch.
    #[must_use]
    pub fn counts(&self) -> FilterSetCounts {
        let mut counts = FilterSetCounts { unfiltered_answers: self.unfiltered.total(), ..FilterSetCounts::default() };
        for entry in &self.entries {
            match entry.filter.get().map(Arc::as_ref) {
                _ if entry.has_other_hasher => counts.other_hasher += 1,
                None => counts.not_loaded += 1,
                Some(TableFilter::Ready(block)) => {
                    counts.ready += 1;
                    counts.damaged_pages += block.damaged_pages();
                }
                Some(TableFilter::Degraded(_)) => counts.degraded += 1,
                Some(TableFilter::Absent) => counts.absent += 1,
            }
        }
        counts
    }
}

/// The number of queries whose cache lines are prefetched together.
const BATCH: usize = 32;

impl Entry {
    /// Returns the filter if it is in memory and the set may ask it.
    fn usable(&self) -> Option<&FilterBlock<SharedBytes>> {
        self.filter.get().filter(|_| !self.has_other_hasher)?.ready()
    }
}

impl Line {
    /// Creates the line of a filter. Returns `None` if the filter has no payload, or if its queries
    /// need more than a line.
    fn new(block: &FilterBlock<SharedBytes>) -> Option<Self> {
        let (bytes, part): (&SharedBytes, &Part) = block.whole_filter()?;
        let padded = bytes.within(part.start, part.len.checked_add(PADDING_BYTES)?)?;
        Some(Self { padded, params: part.params.clone(), kernel: part.kernel })
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

thread_local! {
    /// The number of queries that this thread skips before it counts a query. The number is random: if it
    /// were fixed, a thread that asks 256 filters in turn would always count the same filter.
    ///
    /// The initial value is constant, because an access then needs no check whether it is initialized.
    static UNCOUNTED: Cell<usize> = const { Cell::new(0) };
    /// The state of the random number generator, or 0 at the start.
    static RANDOM: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the sample has any of these queries. Then [`take_sample`] must follow.
#[inline(always)]
fn is_sampled(queries: usize) -> bool {
    let left = UNCOUNTED.get();
    if left < queries {
        return true;
    }
    UNCOUNTED.set(left - queries);
    false
}

/// Passes the place of each of these queries that is in the sample to `count`.
fn take_sample(queries: usize, mut count: impl FnMut(usize)) {
    /// Starts the generators of threads differently. Otherwise, threads that live only for a few queries
    /// could all count the same filters.
    static THREADS: AtomicU32 = AtomicU32::new(0);
    let (mut left, mut state, mut asked) = (UNCOUNTED.get(), RANDOM.get(), 0);
    let skip = |state: &mut u32| {
        // The linear congruential generator of "Numerical Recipes". Its high bits are random enough to
        // break up patterns. 0 to 510 queries are skipped before each counted query, so one query in 256
        // is counted on average.
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((*state >> 16) % (2 * COUNTED_ONE_IN - 1)) as usize
    };
    if state == 0 {
        state = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9);
        left = skip(&mut state);
    }
    while asked + left < queries {
        count(asked + left);
        asked += left + 1;
        left = skip(&mut state);
    }
    UNCOUNTED.set(asked + left - queries);
    RANDOM.set(state);
}
