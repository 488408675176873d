//! Keeps the filters of many SSTs in bounded memory: reads each filter when a query first needs it, drops
//! columns of bumped ribbons under pressure, and then filters that are seldom asked.

use std::borrow::Borrow;
use std::collections::BinaryHeap;
use std::error::Error as StdError;
use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use super::bytes::{AlignedBytes, Bound, Room, SharedBytes};
use super::expected::{Expected, OwnExpected};
use super::parsed::ParsedBlock;
use super::part::Verify;
use super::reader::{FilterBlock, TableFilter};
use crate::error::{Error, Field};
use crate::hash::KeyHasher;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A bound on the bytes of filters in memory. Each SST has a [`CachedFilter`], which is read when a query
/// first needs it.
///
/// A host adds the filters to each [`FilterSet`](super::FilterSet) by
/// [`insert_cached`](super::FilterSet::insert_cached). A set asks a loaded filter without a lock. If
/// there is no room for a filter, the set answers [`Answer::Unfiltered`](super::Answer::Unfiltered), and
/// the host reads the SST.
///
/// A set keeps the filters that it has loaded, so filters leave memory only together with sets. If
/// [`needs_rebalance`](Self::needs_rebalance), the host calls [`rebalance`](Self::rebalance), for example
/// in a background thread, and publishes a new set of the same filters. Bytes count until the last set
/// that uses them is dropped, so the bound holds at each moment. The bound does not cover the memory
/// that a set and an SST need without a filter, about half a kilobyte for each SST.
///
/// Clones share the bound.
///
/// ```
/// use std::sync::Arc;
/// use filterblock::{Answer, CachedFilter, FilterCache, FilterHandle, FilterOptions, FilterSet, HashSeed, KeyHasher};
///
/// let (table_id, hasher) = (*b"table 0000000012", KeyHasher::xxh3(HashSeed(1)));
/// let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id).builder(&hasher)?;
/// builder.add(hasher.key(b"apple"));
/// let built = builder.finish()?;
/// let handle = FilterHandle::of(&built, 0, 1);
///
/// let cache = FilterCache::new(64 << 20);
/// // The host passes a function that reads the block, here from a vector.
/// let read = move |bytes: &mut [u8]| -> std::io::Result<()> {
///     bytes.copy_from_slice(&built.bytes);
///     Ok(())
/// };
/// let filter = CachedFilter::new(&cache, handle.len_bytes, &handle.expected(table_id, &hasher), read);
/// let mut set = FilterSet::new(&hasher);
/// let slot = set.insert_cached(Arc::new(filter));
/// assert_eq!(cache.counts().loads, 0);
/// assert_eq!(set.ask(slot, hasher.key(b"plum")), Answer::No);
/// assert_eq!(cache.counts().loads, 1);
/// # Ok::<(), filterblock::Error>(())
/// ```
#[derive(Clone)]
pub struct FilterCache(Arc<Shared>);

struct Shared {
    bound: Arc<Bound>,
    /// The filters that some set has had.
    filters: Mutex<Members>,
    /// Held by a rebalance.
    rebalancing: Mutex<()>,
    /// The number of queries without room since the last rebalance.
    refused_lately: AtomicU64,
    counts: Counts,
}

#[derive(Default)]
struct Members {
    list: Vec<Member>,
    /// The length from which filters that are dropped are taken off the list.
    prune_from: usize,
}

struct Member {
    filter: Weak<CachedFilter>,
    /// No rebalance has seen the filter.
    is_new: bool,
}

#[derive(Default)]
struct Counts {
    queries: AtomicU64,
    refused: AtomicU64,
    loads: AtomicU64,
    failed_loads: AtomicU64,
    damaged: AtomicU64,
    evictions: AtomicU64,
}

/// The state and the history of a cache: see [`FilterCache::counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FilterCacheCounts {
    /// The bound in bytes.
    pub max_bytes: u64,
    /// The bytes of the filters in memory. This number never exceeds the bound.
    pub bytes: u64,
    /// The number of filters that sets have.
    pub filters: u64,
    /// The number of these filters that are in memory.
    pub resident: u64,
    /// The number of queries, estimated from a sample of one query in 256.
    pub queries: u64,
    /// The number of queries that no filter answered because there was no room for the filter.
    pub refused: u64,
    /// The number of filters that were read, again included.
    pub loads: u64,
    /// The number of reads that failed. Later queries try again, each time after more queries.
    pub failed_loads: u64,
    /// The number of reads that found a damaged filter or another SST's. Such a filter is not read again.
    pub damaged: u64,
    /// The number of filters that left memory, or lost columns in it.
    pub evictions: u64,
}

/// The mean number of queries for each counted query, and the weight of a counted query. A counted query
/// loads three more cache lines, so a query in 64 would slow down a set of 16,000 filters by a tenth.
pub(super) const COUNTED_ONE_IN: u32 = 256;

/// The least number of refused queries after which a rebalance pays.
const MIN_REFUSED: u64 = 1_024;
/// A rebalance looks at each filter. So it waits for this many refused queries for each filter.
const REFUSED_PER_FILTER: u64 = 64;

impl FilterCache {
    /// Creates a cache whose filters take at most `max_bytes` bytes of memory together.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            bound: Bound::new(max_bytes),
            filters: Mutex::default(),
            rebalancing: Mutex::new(()),
            refused_lately: AtomicU64::new(0),
            counts: Counts::default(),
        }))
    }

    /// Returns the bound in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.0.bound.max_bytes
    }

    /// Returns the state and the history of the cache. Takes time linear in the number of filters.
    #[must_use]
    pub fn counts(&self) -> FilterCacheCounts {
        let filters = self.filters();
        let Shared { bound, counts, .. } = self.0.as_ref();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FilterCacheCounts {
            max_bytes: bound.max_bytes,
            bytes: bound.used(),
            filters: filters.len() as u64,
            resident: filters.iter().filter(|(filter, _)| filter.is_ready()).count() as u64,
            queries: read(&counts.queries),
            refused: read(&counts.refused),
            loads: read(&counts.loads),
            failed_loads: read(&counts.failed_loads),
            damaged: read(&counts.damaged),
            evictions: read(&counts.evictions),
        }
    }

    /// Returns whether many queries found no room for their filters since the last
    /// [`rebalance`](Self::rebalance).
    #[must_use]
    pub fn needs_rebalance(&self) -> bool {
        let refused = self.0.refused_lately.load(Ordering::Relaxed);
        refused >= MIN_REFUSED && refused / REFUSED_PER_FILTER >= lock(&self.0.filters).list.len() as u64
    }

    /// Decides anew which filters stay in memory, and with how many columns. It first gives up the bytes
    /// that save the fewest reads, by the queries so far. Older queries count less.
    ///
    /// Returns whether a filter changed. Then the host should publish a new set: the bytes become free when
    /// the host drops the sets that use them. The call may read filters that get columns back. If another
    /// thread is rebalancing, the call does nothing.
    pub fn rebalance(&self) -> bool {
        // A poisoned lock guards no data.
        let _rebalancing = match self.0.rebalancing.try_lock() {
            Ok(guard) => guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return false,
        };
        self.0.refused_lately.store(0, Ordering::Relaxed);
        let filters = self.filters();
        let known = filters.iter().filter(|(_, is_new)| !is_new);
        let sum = known.clone().map(|(filter, _)| filter.queries()).fold(0, u64::saturating_add);
        // A new filter may hold the keys of filters that were asked often, after a compaction.
        let mean = sum / (known.count() as u64).max(1);
        for (filter, is_new) in &filters {
            let queries = filter.queries();
            filter.queries.store(queries - queries.div_ceil(8), Ordering::Relaxed);
            if *is_new {
                filter.add_queries_uncounted(mean);
            }
        }
        lock(&self.0.filters).list.iter_mut().for_each(|member| member.is_new = false);
        let filters: Vec<_> = filters.into_iter().map(|(filter, _)| filter).collect();
        let planned = plan(&filters, self.max_bytes());
        let changes = || filters.iter().zip(&planned);
        changes().for_each(|(filter, &level)| filter.wanted.store(level, Ordering::Relaxed));
        // First the changes that free memory.
        let adapt = |is_out: bool| {
            let planned = changes().filter(move |&(_, &level)| (level == 0) == is_out);
            planned.filter(|(filter, _)| filter.adapt()).count()
        };
        adapt(true) + adapt(false) > 0
    }

    /// Returns the filters that are not dropped, and whether each is new to [`Self::rebalance`].
    fn filters(&self) -> Vec<(Arc<CachedFilter>, bool)> {
        // A filter must not be dropped under the lock.
        let mut alive = Vec::new();
        lock(&self.0.filters).list.retain(|member| {
            let filter = member.filter.upgrade();
            let is_alive = filter.is_some();
            alive.extend(filter.map(|filter| (filter, member.is_new)));
            is_alive
        });
        alive
    }

    fn room(&self, bytes: u64) -> Result<Room, NotLoaded> {
        self.0.bound.room(bytes).ok_or(NotLoaded::NoRoom)
    }
}

impl fmt::Debug for FilterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterCache").field("bound", &self.0.bound).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Failure = Arc<dyn StdError + Send + Sync>;
type Read = dyn Fn(&mut [u8]) -> Result<(), Box<dyn StdError + Send + Sync>> + Send + Sync;
type Loaded = Arc<TableFilter<SharedBytes>>;

/// The filter of one SST in a [`FilterCache`]. The host keeps it in an `Arc` as long as the SST, and adds
/// it to each [`FilterSet`](super::FilterSet) that has the SST.
///
/// A filter that cannot be read or that is damaged never denies a key. If the read fails, later queries
/// try again, each time after twice as many queries. A damaged filter is not read again.
pub struct CachedFilter {
    cache: FilterCache,
    len_bytes: u64,
    expected: OwnExpected,
    read: Box<Read>,
    load_on_use: u32,
    /// An estimate of the number of queries. Each rebalance takes an eighth off.
    queries: AtomicU64,
    /// The level that the last plan has chosen: see [`Shape`]. A higher level than the highest stands for
    /// the highest.
    wanted: AtomicU32,
    /// The sizes, after the first load.
    shape: OnceLock<Shape>,
    is_member: AtomicBool,
    /// A read that should have given columns back has found damage.
    cannot_grow: AtomicBool,
    state: Mutex<State>,
    /// Wakes the threads that wait for the end of a load.
    is_done: Condvar,
}

enum State {
    /// The filter is not in memory. `uses` queries have asked for it.
    Out { uses: u32 },
    /// The thread is reading the filter.
    Loading(ThreadId),
    /// The last `failures` loads failed. The next `skips` queries do not load.
    Failed { failures: u32, skips: u32, reason: Failure },
    /// The filter, which is ready or degraded, and its level.
    In(Loaded, u32),
}

/// The levels at which a filter can be in memory. At level 0 it is out, and at the highest it is whole. If
/// it can drop columns, the levels between are the numbers of columns of its copies.
#[derive(Debug, Clone)]
struct Shape {
    /// The FPR of the whole filter.
    fpr: f64,
    /// The bytes of the filter in memory at each level, which ascend.
    bytes: Vec<u64>,
    /// Whether the whole filter has a range filter beside it, which no lower level has.
    has_ranges: bool,
}

impl Shape {
    fn of(block: &FilterBlock<SharedBytes>) -> Self {
        let whole = block.metadata().block_len_bytes;
        let copies =
            (1..block.columns_to_drop_from().unwrap_or(1)).map(|columns| block.len_with(columns).unwrap_or(whole));
        let bytes = copies.chain([whole]).map(AlignedBytes::allocated);
        let has_ranges = block.metadata().ranges_len_bytes > 0;
        Self { fpr: block.expected_fpr(), bytes: [0].into_iter().chain(bytes).collect(), has_ranges }
    }

    /// Returns a guess at the sizes of a filter that was never loaded, from those of another filter. A host
    /// usually builds filters of one kind.
    fn guess(len_bytes: u64, like: Option<&Self>) -> Self {
        let whole = AlignedBytes::allocated(len_bytes);
        let Some(Self { fpr, bytes, has_ranges }) = like else {
            return Self { fpr: 0.01, bytes: vec![0, whole], has_ranges: false };
        };
        let ratio = whole as f64 / bytes.last().copied().unwrap_or_default().max(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length, not negative")]
        Self {
            fpr: *fpr,
            bytes: bytes.iter().map(|&bytes| (bytes as f64 * ratio) as u64).collect(),
            has_ranges: *has_ranges,
        }
    }

    fn highest(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX).saturating_sub(1)
    }

    fn bytes_at(&self, level: u32) -> u64 {
        self.bytes.get(level as usize).or(self.bytes.last()).copied().unwrap_or_default()
    }

    fn fpr_at(&self, level: u32) -> f64 {
        match level {
            0 => 1.0,
            _ if level >= self.highest() => self.fpr,
            _ => 0.5f64.powi(level.cast_signed()).max(self.fpr),
        }
    }
}

enum NotLoaded {
    NoRoom,
    Failed(Failure),
}

impl From<Error> for NotLoaded {
    fn from(error: Error) -> Self {
        Self::Failed(Arc::new(error))
    }
}

impl CachedFilter {
    /// Creates the filter of an SST, without reading it. `len_bytes` is the length of the block, and
    /// `expected` is what the host knows about it: see [`FilterHandle`](super::FilterHandle). `read` fills
    /// the buffer, which is `len_bytes` long, with the block.
    ///
    /// `read` may be called in any thread that asks the filter. The other threads that ask the filter
    /// wait. If `read` asks the filter itself, the answer is
    /// [`Answer::Unfiltered`](super::Answer::Unfiltered). It must not wait for another thread that asks
    /// filters of the cache: both could wait for ever. If `read` panics, the load has failed, and the
    /// panic goes on in its thread.
    #[must_use]
    pub fn new<E: Into<Box<dyn StdError + Send + Sync>>>(
        cache: &FilterCache,
        len_bytes: u64,
        expected: &Expected<'_>,
        read: impl Fn(&mut [u8]) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            cache: cache.clone(),
            len_bytes,
            expected: expected.to_own(),
            read: Box::new(move |bytes| read(bytes).map_err(Into::into)),
            load_on_use: 1,
            queries: AtomicU64::new(0),
            wanted: AtomicU32::new(u32::MAX),
            shape: OnceLock::new(),
            is_member: AtomicBool::new(false),
            cannot_grow: AtomicBool::new(false),
            state: Mutex::new(State::Out { uses: 0 }),
            is_done: Condvar::new(),
        }
    }

    /// Loads the filter only when it is asked for the `number`-th time. Until then, the host reads the
    /// SST. So a scan over many SSTs does not read filters that are asked once. The default is 1.
    #[must_use]
    pub fn load_on_use(self, number: u32) -> Self {
        Self { load_on_use: number, ..self }
    }

    /// Returns the filter if it is in memory. A damaged filter is
    /// [`TableFilter::Degraded`](super::TableFilter::Degraded).
    #[must_use]
    pub fn loaded(&self) -> Option<Arc<TableFilter<SharedBytes>>> {
        match &*lock(&self.state) {
            State::In(filter, _) => Some(Arc::clone(filter)),
            State::Out { .. } | State::Loading(_) | State::Failed { .. } => None,
        }
    }

    /// Returns the error of the last read, if it failed.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        match &*lock(&self.state) {
            State::Failed { reason, .. } => Some(Arc::clone(reason)),
            State::Out { .. } | State::Loading(_) | State::In(..) => None,
        }
    }

    /// Returns an estimate of the number of queries. Older queries count less. The estimate
    /// comes from a sample of one query in 256, so an estimate of `n` has a standard deviation of about
    /// `16 * sqrt(n)`.
    #[must_use]
    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    pub(super) fn add_queries(&self, queries: u64) {
        self.add_queries_uncounted(queries);
        self.cache.0.counts.queries.fetch_add(queries, Ordering::Relaxed);
    }

    fn add_queries_uncounted(&self, queries: u64) {
        // If two threads add at once, one number may get lost. An atomic addition would wait for the
        // cache line, which is seldom near, before the thread could go on.
        self.queries.store(self.queries().saturating_add(queries), Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.loaded().is_some_and(|filter| filter.ready().is_some())
    }

    pub(super) fn hasher(&self) -> &KeyHasher {
        self.expected.borrowed().hasher()
    }

    /// Makes the filter count in the plans of its cache.
    pub(super) fn register(this: &Arc<Self>) {
        if !this.is_member.swap(true, Ordering::Relaxed) {
            let mut members = lock(&this.cache.0.filters);
            if members.list.len() >= members.prune_from {
                members.list.retain(|member| member.filter.strong_count() > 0);
                members.prune_from = 2 * members.list.len() + 64;
            }
            members.list.push(Member { filter: Arc::downgrade(this), is_new: true });
        }
    }

    /// Returns the filter for a query, and reads it if it is not in memory. Returns `None` if there is no
    /// room for it or if it cannot be read.
    pub(super) fn load(&self) -> Option<Arc<TableFilter<SharedBytes>>> {
        let mut state = lock(&self.state);
        let mut has_waited = false;
        let own_id = thread::current().id();
        while matches!(&*state, State::Loading(by) if *by != own_id) {
            state = self.is_done.wait(state).unwrap_or_else(PoisonError::into_inner);
            has_waited = true;
        }
        let wanted = self.wanted.load(Ordering::Relaxed);
        let failures = match &mut *state {
            State::In(filter, _) => return Some(Arc::clone(filter)),
            // The function that reads the filter asks it.
            State::Loading(_) => return None,
            State::Out { .. } if has_waited => return self.refuse(),
            State::Failed { .. } if has_waited => return None,
            State::Out { .. } if wanted == 0 => return self.refuse(),
            State::Failed { .. } if wanted == 0 => {
                // The failure no longer says why the filter is out.
                let earlier = mem::replace(&mut *state, State::Out { uses: self.load_on_use });
                drop(state);
                drop(earlier);
                return self.refuse();
            }
            State::Out { uses } if uses.saturating_add(1) < self.load_on_use => {
                *uses += 1;
                return None;
            }
            State::Out { .. } => 0,
            State::Failed { skips, .. } if *skips > 0 => {
                *skips -= 1;
                return None;
            }
            State::Failed { failures, .. } => *failures,
        };
        let Ok(room) = self.cache.room(AlignedBytes::allocated(self.len_bytes)) else { return self.refuse() };
        let earlier = mem::replace(&mut *state, State::Loading(own_id));
        drop(state);
        // The drop of an error of the host may panic, and must not happen under the lock.
        let mut load = Load { filter: self, failures, next: None };
        drop(earlier);
        load.next = Some(match self.read_filter(wanted, room) {
            Ok((filter, level)) => State::In(Arc::new(filter), level),
            Err(NotLoaded::Failed(reason)) => self.failed(failures, reason),
            Err(NotLoaded::NoRoom) => {
                let _: Option<Loaded> = self.refuse();
                State::Out { uses: self.load_on_use }
            }
        });
        drop(load);
        self.loaded()
    }

    /// Counts a query without room.
    fn refuse(&self) -> Option<Loaded> {
        self.cache.0.counts.refused.fetch_add(1, Ordering::Relaxed);
        self.cache.0.refused_lately.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn failed(&self, failures: u32, reason: Failure) -> State {
        self.cache.0.counts.failed_loads.fetch_add(1, Ordering::Relaxed);
        State::Failed { failures: failures.saturating_add(1), skips: (1 << failures.min(10)) - 1, reason }
    }

    /// Reads the filter and copies it to a level above 0, or keeps it whole. `room` is that of the whole
    /// filter.
    fn read_filter(&self, level: u32, room: Room) -> Result<(TableFilter<SharedBytes>, u32), NotLoaded> {
        let len = usize::try_from(self.len_bytes).map_err(|_| Error::TooLarge { what: "a filter block" })?;
        let read = |bytes: &mut [u8]| (self.read)(bytes).map_err(|error| NotLoaded::Failed(error.into()));
        let bytes = SharedBytes::in_room(AlignedBytes::filled_by(len, read)?, room);
        self.cache.0.counts.loads.fetch_add(1, Ordering::Relaxed);
        let block = match FilterBlock::open(bytes, &self.expected.borrowed(), Verify::AtOpen) {
            Ok(block) => block,
            Err(error @ Error::TooLarge { .. }) => return Err(error.into()),
            Err(error) => {
                self.cache.0.counts.damaged.fetch_add(1, Ordering::Relaxed);
                return Ok((TableFilter::Degraded(Arc::new(error)), 1));
            }
        };
        let shape = self.shape.get_or_init(|| Shape::of(&block));
        // Without room for the columns beside it, the filter stays whole until the next plan.
        if level < shape.highest()
            && let Ok(gathering) = self.cache.room(gathered(shape.bytes_at(level)))
        {
            return Ok((TableFilter::Ready(self.copy(block, level, gathering)?), level));
        }
        Ok((TableFilter::Ready(block), shape.highest()))
    }

    /// Copies the columns of a level that lies between out and whole. Drops `block` as early as possible.
    /// `gathering` is room for the columns.
    fn copy(
        &self,
        block: impl Borrow<FilterBlock<SharedBytes>>,
        level: u32,
        gathering: Room,
    ) -> Result<FilterBlock<SharedBytes>, NotLoaded> {
        let columns = block.borrow().bytes_of_columns(level)?.ok_or(Error::corrupt(Field::Params))?;
        drop(block);
        // For a moment, the columns are in memory twice: as they were gathered, and aligned.
        let room = self.cache.room(AlignedBytes::allocated(columns.len() as u64))?;
        let copy = SharedBytes::in_room(AlignedBytes::copy_of(&columns)?, room);
        drop((columns, gathering));
        Ok(ParsedBlock::open(copy, Verify::AtOpen)?.bind_to(self.hasher())?)
    }

    /// Changes the filter in memory to the level of the last plan, and returns whether it changed. Only
    /// [`FilterCache::rebalance`] calls this function, one thread at a time.
    fn adapt(&self) -> bool {
        let in_memory = match &*lock(&self.state) {
            State::In(filter, level) => Some((Arc::clone(filter), *level)),
            State::Out { .. } | State::Loading(_) | State::Failed { .. } => None,
        };
        let (Some((filter, level)), Some(shape)) = (in_memory, self.shape.get()) else { return false };
        let wanted = self.wanted.load(Ordering::Relaxed).min(shape.highest());
        let next = match filter.ready() {
            Some(block) if wanted < level => {
                self.cache.0.counts.evictions.fetch_add(1, Ordering::Relaxed);
                let copy = || self.copy(block, wanted, self.cache.room(gathered(shape.bytes_at(wanted)))?);
                match (wanted > 0).then(copy) {
                    Some(Ok(copy)) => State::In(Arc::new(TableFilter::Ready(copy)), wanted),
                    // If there is no room for the copy, the next query reads the filter again.
                    Some(Err(_)) | None => State::Out { uses: self.load_on_use },
                }
            }
            // One column more is not worth a read, but a range filter is.
            Some(_) if wanted > level + 1 || wanted > level && shape.has_ranges && wanted == shape.highest() => {
                let Some(next) = self.grown(wanted, shape.bytes_at(level)) else { return false };
                let is_out = matches!(next, State::Out { .. });
                self.cache.0.counts.evictions.fetch_add(u64::from(is_out), Ordering::Relaxed);
                next
            }
            Some(_) | None => return false,
        };
        // No other thread changes a filter that is in memory.
        *lock(&self.state) = next;
        true
    }

    /// Returns the next state of a filter that takes `bytes` now and gets columns back. Returns `None` if
    /// it cannot grow.
    fn grown(&self, wanted: u32, bytes: u64) -> Option<State> {
        // The next query would find only the damaged file.
        if self.cannot_grow.load(Ordering::Relaxed) {
            return None;
        }
        let (whole, shape) = (AlignedBytes::allocated(self.len_bytes), self.shape.get()?);
        let columns = if wanted < shape.highest() { gathered(shape.bytes_at(wanted)) } else { 0 };
        let used = self.cache.0.bound.used().saturating_add(whole).saturating_add(columns);
        if used > self.cache.max_bytes() {
            // If only the present copy is in the way, the next query reads the filter, after the host has
            // dropped the sets that use the copy.
            let fits = used.saturating_sub(bytes) <= self.cache.max_bytes();
            return fits.then_some(State::Out { uses: self.load_on_use });
        }
        match self.cache.room(whole).and_then(|room| self.read_filter(wanted, room)) {
            Ok((filter @ TableFilter::Ready(_), level)) => Some(State::In(Arc::new(filter), level)),
            Err(NotLoaded::NoRoom) => None,
            // The file is damaged now, or cannot be read. The copy in memory is sound.
            Ok(_) => {
                self.cannot_grow.store(true, Ordering::Relaxed);
                None
            }
            Err(NotLoaded::Failed(_)) => {
                self.cache.0.counts.failed_loads.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Returns the bytes that gathered columns take, with the spare capacity for the longest extension.
fn gathered(bytes: u64) -> u64 {
    bytes.saturating_add(512)
}

impl fmt::Debug for CachedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedFilter").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

/// A load in progress. Dropping it stores the outcome, also after a panic, and wakes the threads that wait.
struct Load<'a> {
    filter: &'a CachedFilter,
    failures: u32,
    next: Option<State>,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let panicked =
            || self.filter.failed(self.failures, Arc::from(Box::from("the function that reads it panicked")));
        let next = self.next.take().unwrap_or_else(panicked);
        *lock(&self.filter.state) = next;
        self.filter.is_done.notify_all();
    }
}

/// Returns the level of each filter at which all filters together fit in `max_bytes`.
fn plan(filters: &[Arc<CachedFilter>], max_bytes: u64) -> Vec<u32> {
    let mut unchanged = vec![u32::MAX; filters.len()];
    let known = filters.iter().find_map(|filter| filter.shape.get());
    let mut steps = Vec::with_capacity(filters.len());
    for (index, filter) in filters.iter().enumerate() {
        let (loaded, queries) = (filter.loaded(), filter.queries());
        let in_memory = loaded.is_some();
        // A filter that nobody asks may enter if there is room. A degraded filter takes no room.
        if !in_memory && queries == 0 || loaded.is_some_and(|filter| filter.ready().is_none()) {
            continue;
        }
        let shape = filter.shape.get().cloned().unwrap_or_else(|| Shape::guess(filter.len_bytes, known));
        let level = shape.highest();
        // Even a filter that loses columns is read whole.
        if shape.bytes_at(level) > max_bytes {
            unchanged.get_mut(index).into_iter().for_each(|planned| *planned = 0);
            continue;
        }
        // Without this bonus, chance would exchange filters that are asked equally often. It is three
        // standard deviations of the estimate.
        let bonus = if in_memory { 3.0 * 16.0 * (queries as f64).sqrt() } else { 0.0 };
        let queries = queries.saturating_add(COUNTED_ONE_IN.into()) as f64 + bonus;
        steps.push(Step { index, level, queries, shape, is_whole_or_out: false });
    }
    let sum = steps.iter().map(Step::bytes).fold(0, u64::saturating_add);
    if sum <= max_bytes {
        return unchanged;
    }
    // A filter that loses columns needs room for its whole form while it is read. If the plan reserves room
    // for a filter that it then gives up, longer filters than the others must be whole or out.
    let (mut reserved, mut longest) = (0, u64::MAX);
    for round in 0.. {
        let mut steps = steps.clone();
        steps.iter_mut().for_each(|step| step.is_whole_or_out = step.bytes() > longest);
        let room = if reserved > 0 { gathered(reserved) } else { 0 };
        let planned = plan_within(steps.clone(), sum, max_bytes.saturating_sub(room), unchanged.clone());
        let is_partial =
            |step: &&Step| planned.get(step.index).is_some_and(|&level| level > 0 && level < step.shape.highest());
        let needed = steps.iter().filter(is_partial).map(Step::bytes).max().unwrap_or_default();
        match needed.cmp(&reserved) {
            std::cmp::Ordering::Equal => return planned,
            std::cmp::Ordering::Greater => reserved = needed,
            // Each round of this kind makes `longest` shorter, so the loop ends. A few rounds are enough.
            std::cmp::Ordering::Less if round < MAX_ROUNDS => (reserved, longest) = (needed, needed),
            std::cmp::Ordering::Less => (reserved, longest) = (0, 0),
        }
    }
    unchanged
}

/// After this many rounds of a plan, each filter is whole or out.
const MAX_ROUNDS: u32 = 16;

/// Takes the steps that cost least until the filters fit in `limit`. Then takes filters back that were
/// given up before a larger one, and fit.
fn plan_within(steps: Vec<Step>, mut sum: u64, limit: u64, mut planned: Vec<u32>) -> Vec<u32> {
    let mut out = Vec::new();
    let mut heap: BinaryHeap<_> = steps.into_iter().filter_map(Step::down).collect();
    while sum > limit {
        let Some(Down { saved, step, .. }) = heap.pop() else { break };
        sum = sum.saturating_sub(saved);
        if let Some(level) = planned.get_mut(step.index) {
            *level = step.level;
        }
        match step.level {
            0 => out.push((step.index, step.shape.bytes_at(step.shape.highest()))),
            _ => heap.extend(step.down()),
        }
    }
    for (index, bytes) in out.into_iter().rev() {
        if let (Some(level), true) = (planned.get_mut(index), sum.saturating_add(bytes) <= limit) {
            (*level, sum) = (u32::MAX, sum + bytes);
        }
    }
    planned
}

/// The state of a filter while levels are chosen.
#[derive(Clone)]
struct Step {
    index: usize,
    level: u32,
    queries: f64,
    shape: Shape,
    /// The filter must not lose columns.
    is_whole_or_out: bool,
}

/// The step to the next lower level, and what it saves and costs.
struct Down {
    /// The number of false positives that the step adds for each freed byte.
    cost: f64,
    saved: u64,
    step: Step,
}

impl Step {
    fn bytes(&self) -> u64 {
        self.shape.bytes_at(self.level)
    }

    /// Returns `None` at level 0.
    fn down(self) -> Option<Down> {
        let (below, shape) = (self.level.checked_sub(1)?, &self.shape);
        let level = if self.is_whole_or_out { 0 } else { below };
        let saved = self.bytes().saturating_sub(shape.bytes_at(level));
        let added = self.queries * (shape.fpr_at(level) - shape.fpr_at(self.level));
        Some(Down { cost: added / saved.max(1) as f64, saved, step: Step { level, ..self } })
    }
}

/// The step that costs least is the greatest. If two cost the same, the index decides, so that each run of
/// the program has the same order.
impl Ord for Down {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.cost.total_cmp(&self.cost).then(other.step.index.cmp(&self.step.index))
    }
}

impl PartialOrd for Down {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Down {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Down {}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::block::{Answer, FilterOptions, FilterSet};
    use crate::hash::HashSeed;

    #[test]
    fn one_thread_reads_for_all_that_wait() {
        let hasher = KeyHasher::xxh3(HashSeed(1));
        let table_id = *b"table 0000000012";
        let options = FilterOptions::new("blocked-bloom:10".parse().unwrap()).table_id(table_id);
        let mut builder = options.builder(&hasher).unwrap();
        builder.add(hasher.key(b"apple"));
        let bytes = builder.finish().unwrap().bytes;
        let key = hasher.of(b"apple");
        loom::model(move || {
            let cache = FilterCache::new(1 << 20);
            let reads = Arc::new(AtomicU32::new(0));
            let (counted, copy) = (reads.clone(), bytes.clone());
            let read = move |to: &mut [u8]| -> std::io::Result<()> {
                counted.fetch_add(1, Ordering::Relaxed);
                to.copy_from_slice(&copy);
                Ok(())
            };
            let expected = Expected::of_table(table_id, &hasher);
            let filter = Arc::new(CachedFilter::new(&cache, bytes.len() as u64, &expected, read));
            let mut set = FilterSet::new(&hasher);
            let slot = set.insert_cached(filter.clone());
            let set = Arc::new(set);
            let other = set.clone();
            let thread = thread::spawn(move || other.ask_hash(slot, key));
            assert!(set.ask_hash(slot, key) == Answer::Maybe);
            assert!(thread.join().unwrap() == Answer::Maybe);
            assert_eq!(reads.load(Ordering::Relaxed), 1);
            drop(set);
            drop(filter);
            assert_eq!(cache.counts().bytes, 0);
        });
    }
}
