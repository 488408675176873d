//! Tests caches of filters through the ABI: a function of the caller reads each filter when it is first needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// The bytes of a filter, and the numbers of calls of the source's functions.
struct Disk {
    bytes: Vec<u8>,
    failures: AtomicU64,
    reads: AtomicU64,
    frees: Arc<AtomicU64>,
}

unsafe extern "C" fn read(context: *mut c_void, buffer: *mut c_void, len: usize) -> i32 {
    // SAFETY: the context is a `Disk`, and the library passes a buffer of `len` bytes.
    let (disk, buffer) =
        unsafe { (&*context.cast::<Disk>(), std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len)) };
    disk.reads.fetch_add(1, Ordering::Relaxed);
    if disk.failures.load(Ordering::Relaxed) > 0 {
        disk.failures.fetch_sub(1, Ordering::Relaxed);
        return 5;
    }
    let len = len.min(disk.bytes.len());
    buffer[..len].copy_from_slice(&disk.bytes[..len]);
    0
}

unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: `source` made the pointer from a box, and the library frees it once.
    unsafe { Box::from_raw(context.cast::<Disk>()) }.frees.fetch_add(1, Ordering::Relaxed);
}

fn source(bytes: &[u8], failures: u64, frees: &Arc<AtomicU64>) -> SourceInfo {
    let (failures, reads) = (AtomicU64::new(failures), AtomicU64::new(0));
    let disk = Disk { bytes: bytes.to_vec(), failures, reads, frees: frees.clone() };
    let context = Box::into_raw(Box::new(disk)).cast();
    SourceInfo { read: Some(read), free: Some(free), context, load_on_use: 0 }
}

fn cached(cache: &Cache, len: u64, expected: &ExpectedInfo, source: &SourceInfo) -> Result<*mut Cached, Failed> {
    // SAFETY: the pointers are valid.
    let (filter, error) =
        with_error(|error| unsafe { filterblock_cached_new(Some(cache), len, Some(expected), Some(source), error) });
    result(((!filter.is_null()).then_some(filter), error))
}

fn counts(cache: Option<&Cache>) -> CacheCounts {
    let mut counts = CacheCounts::default();
    // SAFETY: the pointers are valid.
    assert_eq!(unsafe { filterblock_cache_counts(cache, &mut counts) }, cache.is_some());
    counts
}

fn insert(set: &mut Set, filter: *mut Cached) -> Slot {
    // SAFETY: the filter is not freed.
    unsafe { filterblock_set_insert_cached(Some(set), filter) }
}

#[test]
fn a_filter_is_read_when_it_is_first_asked_and_freed_with_its_last_set() {
    let (hasher, frees) = (hasher(), Arc::new(AtomicU64::new(0)));
    let mut builder = builder_of_table("blocked-bloom:10", &hasher);
    (0..500).for_each(|i: u32| add(&mut builder, &i.to_le_bytes()));
    let bytes = finish(&mut builder).unwrap();
    let len = bytes.len() as u64;
    let cache = filterblock_cache_new(1 << 20).unwrap();
    let sources = [source(&bytes, 0, &frees), source(&bytes, 1, &frees), source(&bytes[..40], 0, &frees)];
    let filters = sources.map(|source| cached(&cache, len, &expected(&hasher), &source).unwrap());
    let mut set = filterblock_set_new(Some(&hasher)).unwrap();
    let slots = filters.map(|filter| insert(&mut set, filter));
    assert_eq!((counts(Some(&cache)).filters, counts(Some(&cache)).loads), (3, 0));
    let answers =
        |key: u32| slots.map(|slot| filterblock_set_ask_hash(Some(&set), slot, hash(&hasher, &key.to_le_bytes())));
    use AnswerCode::{Maybe, Unfiltered};
    // The second source fails once, and the third returns too few bytes.
    assert_eq!(answers(1), [Maybe, Unfiltered, Unfiltered]);
    assert_eq!(answers(1), [Maybe, Maybe, Unfiltered]);
    assert!((0..500).all(|key| !answers(key).contains(&AnswerCode::No)));
    assert!((500..600).any(|key| answers(key)[..2] == [AnswerCode::No; 2]));
    let found = counts(Some(&cache));
    assert_eq!((found.loads, found.failed_loads, found.damaged, found.resident), (3, 1, 1, 2));
    assert!(found.bytes >= 2 * len && found.bytes <= found.max_bytes);
    // SAFETY: the context is a `Disk` until the set is freed.
    let reads = sources.map(|source| unsafe { &*source.context.cast::<Disk>() }.reads.load(Ordering::Relaxed));
    assert_eq!(reads, [1, 2, 1]);
    filterblock_cache_rebalance(Some(&cache));
    assert!(!filterblock_cache_needs_rebalance(Some(&cache)));
    // SAFETY: each filter is freed once.
    filters.into_iter().for_each(|filter| unsafe { filterblock_cached_free(filter) });
    assert_eq!((frees.load(Ordering::Relaxed), answers(1)[0]), (0, Maybe));
    filterblock_set_free(Some(set));
    assert_eq!((frees.load(Ordering::Relaxed), counts(Some(&cache)).bytes), (3, 0));
    filterblock_cache_free(Some(cache));
}

#[test]
fn a_filter_that_does_not_fit_is_not_asked() {
    let (hasher, frees) = (hasher(), Arc::new(AtomicU64::new(0)));
    let mut builder = builder_of_table("blocked-bloom:10", &hasher);
    (0..500).for_each(|i: u32| add(&mut builder, &i.to_le_bytes()));
    let bytes = finish(&mut builder).unwrap();
    let cache = filterblock_cache_new(100).unwrap();
    let filter = cached(&cache, bytes.len() as u64, &expected(&hasher), &source(&bytes, 0, &frees)).unwrap();
    let mut set = filterblock_set_new(Some(&hasher)).unwrap();
    let slot = insert(&mut set, filter);
    for key in 0..5_000u32 {
        let answer = filterblock_set_ask_hash(Some(&set), slot, hash(&hasher, &key.to_le_bytes()));
        assert_eq!(answer, AnswerCode::Unfiltered);
    }
    let found = counts(Some(&cache));
    assert_eq!((found.bytes, found.loads, found.refused), (0, 0, 5_000));
    assert!(filterblock_cache_needs_rebalance(Some(&cache)));
    filterblock_cache_rebalance(Some(&cache));
    filterblock_set_free(Some(set));
    // SAFETY: the filter is freed once.
    unsafe { filterblock_cached_free(filter) };
    filterblock_cache_free(Some(cache));
    assert_eq!(frees.load(Ordering::Relaxed), 1);
}

#[test]
fn wrong_arguments_are_refused_and_the_context_stays_with_the_caller() {
    let (hasher, frees) = (hasher(), Arc::new(AtomicU64::new(0)));
    let cache = filterblock_cache_new(1 << 20).unwrap();
    let good = source(&[1], 0, &frees);
    let any = ExpectedInfo { flags: FILTERBLOCK_EXPECT_ANY_TABLE, ..expected(&hasher) };
    let unknown = ExpectedInfo { flags: 1 << 31, ..expected(&hasher) };
    let no_hasher = ExpectedInfo { hasher: ptr::null(), ..expected(&hasher) };
    for (expected, source, code) in [
        (&any, good, Code::Invalid),
        (&unknown, good, Code::Invalid),
        (&no_hasher, good, Code::NullArgument),
        (&expected(&hasher), SourceInfo { read: None, ..good }, Code::NullArgument),
    ] {
        assert_eq!(cached(&cache, 100, expected, &source).unwrap_err().code, code);
    }
    assert_eq!(frees.load(Ordering::Relaxed), 0);
    // SAFETY: NULL is fine, and the context is freed once.
    unsafe {
        assert!(filterblock_cached_new(None, 1, Some(&any), Some(&good), ptr::null_mut()).is_null());
        assert!(filterblock_cached_new(Some(&cache), 1, None, Some(&good), ptr::null_mut()).is_null());
        assert!(filterblock_cached_new(Some(&cache), 1, Some(&any), None, ptr::null_mut()).is_null());
        filterblock_cached_free(ptr::null_mut());
        let mut set = filterblock_set_new(Some(&hasher)).unwrap();
        for slot in [
            filterblock_set_insert_cached(Some(&mut set), ptr::null()),
            filterblock_set_insert_cached(None, ptr::null()),
        ] {
            assert_eq!((slot.set, slot.index), (0, 0));
        }
        filterblock_set_free(Some(set));
        free(good.context);
    }
    filterblock_cache_free(None);
    filterblock_cache_rebalance(None);
    assert!(!filterblock_cache_needs_rebalance(None) && counts(None).max_bytes == 0);
    filterblock_cache_free(Some(cache));
}
