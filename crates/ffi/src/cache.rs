//! Bounds the memory of filters, and reads each one by a function of the caller when a query first needs it.
#![expect(unsafe_code, reason = "exported functions take pointers of the caller, and call its functions")]

use std::ffi::c_void;
use std::sync::Arc;

use filterblock::{CachedFilter, FilterCache};

use crate::border;
use crate::error::{ErrorInfo, Failure};
use crate::expected::ExpectedInfo;
use crate::raw;
use crate::set::{NO_SLOT, Set, Slot};

/// A bound on the bytes of filters in memory. Any number of threads may use a cache at once. It lives until
/// you have freed it, its filters, and the sets that have them.
pub struct Cache(FilterCache);

/// The filter of one SST in a cache. Keep the handle as long as the SST, and add it to each set that has the
/// SST.
// The handle is a pointer into an `Arc`, so sets can share the filter.
#[repr(transparent)]
pub struct Cached(CachedFilter);

/// The function that reads a filter. Initialise the struct with zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SourceInfo {
    /// Fills `buffer` with the `len` bytes of the filter, and returns 0. Any other result is an error of the
    /// caller, and later queries try again. The library calls the function in a thread that asks the filter
    /// or calls `filterblock_cache_rebalance`, one call at a time for one filter. It must not wait for
    /// another thread that asks filters. It must not unwind. It must not be NULL.
    pub read: Option<unsafe extern "C" fn(context: *mut c_void, buffer: *mut c_void, len: usize) -> i32>,
    /// Frees `context` after the last call of `read`, in any thread, perhaps during a call of this library. It
    /// must not wait for a lock that the caller holds then. It may be NULL.
    pub free: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Passed to both functions. Both may be called in any thread.
    pub context: *mut c_void,
    /// The number of the query that reads the filter. 0 and 1 mean the first query.
    pub load_on_use: u32,
}

/// A source whose context is freed with it.
struct Source(SourceInfo);

// SAFETY: the header asks for functions that may be called in any thread.
unsafe impl Send for Source {}
// SAFETY: the header asks for functions that may be called in any thread, and filters call `read` one at a
// time.
unsafe impl Sync for Source {}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(free) = self.0.free {
            // SAFETY: the header asks for a function that frees the context, and this is its only call.
            unsafe { free(self.0.context) };
        }
    }
}

impl Source {
    fn read(&self, bytes: &mut [u8]) -> Result<(), String> {
        let read = self.0.read.ok_or("the source has no function `read`")?;
        // SAFETY: the header asks for a valid function, and the buffer has `len` writable bytes.
        match unsafe { read(self.0.context, bytes.as_mut_ptr().cast(), bytes.len()) } {
            0 => Ok(()),
            code => Err(format!("the function that reads the filter returned {code}")),
        }
    }
}

/// The state and the history of a cache.
#[repr(C)]
#[derive(Default)]
pub struct CacheCounts {
    /// The bound in bytes.
    pub max_bytes: u64,
    /// The bytes of the filters in memory, which never exceed the bound.
    pub bytes: u64,
    /// The number of filters that sets have had and that are not freed.
    pub filters: u64,
    /// The number of these filters that are in memory.
    pub resident: u64,
    /// The number of queries for keys, estimated from a sample of one query in 256.
    pub queries: u64,
    /// The number of queries that no filter answered because there was no room for it.
    pub refused: u64,
    /// The number of filters that were read, again included.
    pub loads: u64,
    /// The number of reads that failed.
    pub failed_loads: u64,
    /// The number of reads that found a damaged filter or another SST's.
    pub damaged: u64,
    /// The number of filters that left memory, or lost columns in it.
    pub evictions: u64,
}

/// Makes a cache whose filters take at most `max_bytes` bytes of memory together. Returns a handle for
/// `filterblock_cache_free`, or NULL after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_cache_new(max_bytes: u64) -> Option<Box<Cache>> {
    border::or(None, || Some(Box::new(Cache(FilterCache::new(max_bytes)))))
}

/// Frees the handle of a cache. NULL is fine. Filters of the cache stay usable. Freeing twice is undefined
/// behaviour.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_cache_free(cache: Option<Box<Cache>>) {
    border::or((), || drop(cache));
}

/// Makes the filter of an SST, without reading it. `len` is the length of the filter in bytes. `expected`
/// must name the SST.
///
/// Returns a handle for `filterblock_cached_free`, or NULL and an error. After an error, `source.free` is not
/// called. A filter that cannot be read or that is damaged is found by the first query that needs it: the
/// answer is `FILTERBLOCK_ANSWER_UNFILTERED`, and the cache counts it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_cached_new(
    cache: Option<&Cache>,
    len: u64,
    expected: Option<&ExpectedInfo>,
    source: Option<&SourceInfo>,
    error: *mut ErrorInfo,
) -> *mut Cached {
    // SAFETY: the header asks for valid pointers.
    let made = unsafe {
        border::report(error, || {
            let Cache(cache) = cache.ok_or(Failure::Null("cache"))?;
            let expected = expected.ok_or(Failure::Null("expected"))?;
            let source = source.ok_or(Failure::Null("source"))?;
            if expected.is_any_table() {
                let reason = "expected.flags has FILTERBLOCK_EXPECT_ANY_TABLE; set table_id instead";
                return Err(Failure::Invalid(reason));
            }
            source.read.ok_or(Failure::Null("source.read"))?;
            let expected = expected.read()?;
            let owned = Source(*source);
            let filter = CachedFilter::new(cache, len, &expected, move |bytes: &mut [u8]| owned.read(bytes));
            Ok(Arc::new(filter.load_on_use(source.load_on_use)))
        })
    };
    made.map_or(std::ptr::null_mut(), |filter| Arc::into_raw(filter).cast_mut().cast())
}

/// Frees the handle of a filter. NULL is fine. Sets that have the filter keep it. Freeing twice is undefined
/// behaviour.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_cached_free(filter: *mut Cached) {
    if !filter.is_null() {
        // SAFETY: `filterblock_cached_new` made the pointer from an `Arc` of this type, and the caller frees
        // it once.
        border::or((), || drop(unsafe { Arc::from_raw(filter.cast::<CachedFilter>().cast_const()) }));
    }
}

/// Adds a filter of a cache to a set, without reading it, and returns its slot. The set shares the filter.
/// Returns a slot of zeros if a pointer is NULL, or after a panic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_set_insert_cached(set: Option<&mut Set>, filter: *const Cached) -> Slot {
    let Some(Set(set)) = set.filter(|_| !filter.is_null()) else { return NO_SLOT };
    let filter = filter.cast::<CachedFilter>();
    // SAFETY: the pointer came from `Arc::into_raw` and is not freed yet. The set gets its own reference.
    let filter = unsafe {
        Arc::increment_strong_count(filter);
        Arc::from_raw(filter)
    };
    border::or(NO_SLOT, || set.insert_cached(filter).into())
}

/// Returns whether many queries found no room for their filters since the last rebalance. Returns `false` if
/// `cache` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_cache_needs_rebalance(cache: Option<&Cache>) -> bool {
    border::or(false, || cache.is_some_and(|Cache(cache)| cache.needs_rebalance()))
}

/// Decides anew which filters stay in memory, by the queries so far. Then make a new set of the same filters,
/// and free the old one: only then do the bytes of filters that leave become free. Returns whether a filter
/// changed; otherwise no new set is needed. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn filterblock_cache_rebalance(cache: Option<&Cache>) -> bool {
    border::or(false, || cache.is_some_and(|Cache(cache)| cache.rebalance()))
}

/// Sets `counts` to the counts of the cache, or to zeros if `cache` is NULL. Takes time linear in the number of
/// filters. Returns `false` if `cache` or `counts` is NULL, and `true` otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filterblock_cache_counts(cache: Option<&Cache>, counts: *mut CacheCounts) -> bool {
    let found = border::or(CacheCounts::default(), || cache.map(CacheCounts::of).unwrap_or_default());
    // SAFETY: the header asks for valid pointers.
    unsafe { raw::write(counts, found) && cache.is_some() }
}

impl CacheCounts {
    fn of(Cache(cache): &Cache) -> Self {
        let counts = cache.counts();
        Self {
            max_bytes: counts.max_bytes,
            bytes: counts.bytes,
            filters: counts.filters,
            resident: counts.resident,
            queries: counts.queries,
            refused: counts.refused,
            loads: counts.loads,
            failed_loads: counts.failed_loads,
            damaged: counts.damaged,
            evictions: counts.evictions,
        }
    }
}
