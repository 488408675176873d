//! Tests that a cache loads filters when they are first needed, keeps them within its bound, and never
//! denies a present key, even if the host's function reads wrong bytes.

use filterblock::{
    Answer, CachedFilter, Expected, FilterBlock, FilterCache, FilterSet, FilterSlot, HashSeed, KeyHasher, SharedBytes,
    TableFilter, Verify, layout,
};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{SEED, TABLE, block_of, hash, partitioned};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn expected(bytes: &[u8]) -> Expected<'_> {
    Expected::of_table(TABLE, &HASHER).with_checksum(layout::checksum_of(bytes).unwrap())
}

/// A filter whose bytes `read` fills in.
fn cached_by(
    cache: &FilterCache,
    bytes: &[u8],
    read: impl Fn(&mut [u8]) -> Outcome + Send + Sync + 'static,
) -> CachedFilter {
    CachedFilter::new(cache, bytes.len() as u64, &expected(bytes), read)
}

fn cached(cache: &FilterCache, bytes: Vec<u8>) -> Arc<CachedFilter> {
    let copy = bytes.clone();
    Arc::new(cached_by(cache, &bytes, move |to| {
        to.copy_from_slice(&copy);
        Ok(())
    }))
}

fn set_of(filters: &[Arc<CachedFilter>]) -> (FilterSet, Vec<FilterSlot>) {
    let mut set = FilterSet::new(&HASHER);
    let slots = filters.iter().map(|filter| set.insert_cached(filter.clone())).collect();
    (set, slots)
}

fn assert_finds(set: &FilterSet, slot: FilterSlot, keys: Range<usize>) {
    let hashes: Vec<_> = keys.map(hash).collect();
    assert!(hashes.iter().all(|&hash| set.ask_hash(slot, hash) != Answer::No));
    let mut answers = vec![false; hashes.len()];
    set.ask_batch(slot, &hashes, &mut answers);
    assert!(answers.iter().all(|&answer| answer));
    let pairs: Vec<_> = hashes.iter().map(|&hash| (slot, hash)).collect();
    let mut answers = vec![Answer::No; hashes.len()];
    set.ask_pairs(&pairs, &mut answers);
    assert!(!answers.contains(&Answer::No));
}

/// The number of columns of a filter in memory.
fn columns(filter: &CachedFilter) -> u32 {
    filter.loaded().map_or(0, |filter| filter.ready().unwrap().metadata().probes)
}

const SPECS: [&str; 6] =
    ["bloom:9", "bloom:10", "blocked-bloom:12", "split-block:12", "bumped-ribbon:8", "binary-fuse:8"];

#[test]
fn filters_are_loaded_at_their_first_use_and_then_stay() {
    for spec in SPECS {
        let cache = FilterCache::new(1 << 20);
        let keys = 0..if spec == "bloom:9" { 0 } else { 1_000 };
        let filters =
            [cached(&cache, block_of(spec, keys.clone(), TABLE)), cached(&cache, partitioned("bloom:10", 900, 300))];
        let (set, slots) = set_of(&filters);
        assert_eq!((cache.counts().loads, cache.counts().bytes, set.counts().not_loaded), (0, 0, 2), "{spec}");
        assert!(set.filter(slots[0]).is_none() && filters[0].loaded().is_none());
        for _ in 0..3 {
            assert_finds(&set, slots[0], keys.clone());
            assert_finds(&set, slots[1], 0..900);
        }
        let counts = cache.counts();
        assert_eq!((counts.loads, counts.filters, counts.resident, counts.refused), (2, 2, 2, 0), "{spec}");
        assert_eq!((set.counts().ready, set.counts().not_loaded), (2, 0));
        // Another set begins with the loaded filters, and both end with their sets.
        let (next, slots) = set_of(&filters);
        assert!(Arc::ptr_eq(next.filter(slots[0]).unwrap(), &filters[0].loaded().unwrap()));
        drop((set, next));
        assert!(cache.counts().bytes > 0);
        drop(filters);
        assert_eq!((cache.counts().bytes, cache.counts().filters), (0, 0), "{spec}");
    }
}

#[test]
fn a_filter_is_loaded_at_the_use_that_the_host_wants() {
    let cache = FilterCache::new(1 << 20);
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    let copy = bytes.clone();
    let filter = cached_by(&cache, &bytes, move |to| {
        to.copy_from_slice(&copy);
        Ok(())
    });
    let (set, slots) = set_of(&[Arc::new(filter.load_on_use(3))]);
    let loads = [1, 2, 3, 4].map(|_| {
        let _ = set.ask_hash(slots[0], hash(1));
        cache.counts().loads
    });
    assert_eq!(loads, [0, 0, 1, 1]);
    assert_eq!(set.counts().unfiltered_answers, 2);
}

#[test]
fn the_bound_holds_for_filters_of_any_kind() {
    for spec in ["bloom:10", "blocked-bloom:12", "binary-fuse:8", "bumped-ribbon:12"] {
        let blocks: Vec<_> = (0..20).map(|i| block_of(spec, i * 500..(i + 1) * 500, TABLE)).collect();
        let whole: u64 = blocks.iter().map(|block| block.len() as u64 + 63).sum();
        for tenths in [0, 1, 5, 9, 10] {
            let cache = FilterCache::new(whole * tenths / 10);
            let filters: Vec<_> = blocks.iter().map(|block| cached(&cache, block.clone())).collect();
            let (mut set, mut slots) = set_of(&filters);
            for round in 0..3 {
                for (i, &slot) in slots.iter().enumerate() {
                    assert_finds(&set, slot, i * 500..(i + 1) * 500);
                    assert!(cache.counts().bytes <= cache.counts().max_bytes, "{spec} {tenths} {round}");
                }
                assert!(tenths == 10 || round > 0 || set.counts().unfiltered_answers > 0);
                cache.rebalance();
                assert!(cache.counts().bytes <= cache.counts().max_bytes, "{spec} {tenths} {round}");
                (set, slots) = set_of(&filters);
            }
            let resident = cache.counts().resident;
            assert!(resident <= 20 * tenths / 10 || spec == "bumped-ribbon:12", "{spec} {tenths}: {resident}");
            assert!(tenths < 10 || resident == 20, "{spec}: {resident}");
        }
    }
}

#[test]
fn a_ribbon_loses_columns_before_a_filter_leaves() {
    // Two ribbons that are asked often, two that are asked seldom, and a Bloom filter.
    let cache = FilterCache::new(80_000);
    let specs = ["bumped-ribbon:16", "bumped-ribbon:16", "bumped-ribbon:16", "bumped-ribbon:16", "blocked-bloom:16"];
    let range = |i: usize| i * 10_000..(i + 1) * 10_000;
    let filters: Vec<_> =
        specs.iter().enumerate().map(|(i, spec)| cached(&cache, block_of(spec, range(i), TABLE))).collect();
    let (mut set, mut slots) = set_of(&filters);
    for _ in 0..6 {
        for i in 0..400_000 {
            for filter in if i % 16 == 0 { 0..5 } else { 0..2 } {
                let _ = set.ask_hash(slots[filter], hash(1_000_000 + i));
            }
        }
        cache.rebalance();
        (set, slots) = set_of(&filters);
        assert!(cache.counts().bytes <= 80_000);
    }
    slots.iter().enumerate().for_each(|(i, &slot)| assert_finds(&set, slot, range(i)));
    let found: Vec<_> = filters[..4].iter().map(|filter| columns(filter)).collect();
    assert!(found[2].min(found[3]) >= 2 && found[0].min(found[1]) > found[2].max(found[3]), "{found:?}");
    assert_eq!(cache.counts().resident, 5, "{:?}", cache.counts());
}

#[test]
fn a_filter_longer_than_the_bound_leaves_the_others_alone() {
    for (long, short) in [("bumped-ribbon:12", "bumped-ribbon:10"), ("blocked-bloom:12", "blocked-bloom:12")] {
        let blocks: Vec<_> = (0..10).map(|i| block_of(short, i * 500..(i + 1) * 500, TABLE)).collect();
        let cache = FilterCache::new(blocks.iter().map(|block| block.len() as u64 + 63).sum());
        let mut filters: Vec<_> = blocks.into_iter().map(|block| cached(&cache, block)).collect();
        filters.push(cached(&cache, block_of(long, 0..20_000, TABLE)));
        for round in 0..4 {
            let (set, slots) = set_of(&filters);
            for i in 0..40_000 {
                let _ = set.ask_hash(slots[i % 11], hash(i));
            }
            assert_eq!(cache.counts().resident, 10, "{long} {round}");
            assert!(!cache.rebalance(), "nothing changes");
        }
    }
}

#[test]
fn a_long_filter_that_is_seldom_asked_leaves_the_others_alone() {
    for keys in [4_000, 8_000] {
        let blocks: Vec<_> = (0..10).map(|i| block_of("bumped-ribbon:10", i * 1_000..(i + 1) * 1_000, TABLE)).collect();
        let cache = FilterCache::new(blocks.iter().map(|block| block.len() as u64 + 63).sum());
        let mut filters: Vec<_> = blocks.into_iter().map(|block| cached(&cache, block)).collect();
        filters.push(cached(&cache, block_of("bumped-ribbon:10", 20_000..20_000 + keys, TABLE)));
        for _ in 0..4 {
            let (set, slots) = set_of(&filters);
            for i in 0..400_000 {
                let _ = set.ask_hash(slots[if i % 100 == 0 { 10 } else { i % 10 }], hash(i));
            }
            cache.rebalance();
        }
        let (set, slots) = set_of(&filters);
        (0..10).for_each(|i| assert_finds(&set, slots[i], i * 1_000..(i + 1) * 1_000));
        let counts = cache.counts();
        assert!(counts.resident >= 10 && counts.bytes > counts.max_bytes / 2, "{keys}: {counts:?}");
    }
}

#[test]
fn a_filter_that_fails_and_is_kept_out_is_not_read() {
    let block = |i: usize| block_of("bumped-ribbon:10", i * 500..(i + 1) * 500, TABLE);
    let cache = FilterCache::new(3 * (block(0).len() as u64 + 63));
    let mut filters: Vec<_> = (0..6).map(|i| cached(&cache, block(i))).collect();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let failing = cached_by(&cache, &block(6), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(std::io::Error::other("the disk is gone").into())
    });
    filters.push(Arc::new(failing));
    let mut before = 0;
    for round in 0..6 {
        let (set, slots) = set_of(&filters);
        for i in 0..200_000 {
            // The failing filter is asked seldom, so it is the first that a plan keeps out.
            let filter = if i % 97 == 0 { 6 } else { i % 6 };
            assert_ne!(set.ask_hash(slots[filter], hash(filter * 500 + i % 500)), Answer::No);
        }
        assert_eq!(cache.counts().failed_loads, reads.load(Ordering::Relaxed) as u64, "{round}");
        before = before.max(reads.load(Ordering::Relaxed));
        cache.rebalance();
    }
    assert!(before < 12, "{before}");
}

#[test]
fn filters_that_are_asked_often_replace_those_that_are_not() {
    let block = |i: usize| block_of("blocked-bloom:12", i * 1_000..(i + 1) * 1_000, TABLE);
    let cache = FilterCache::new(10 * (block(0).len() as u64 + 63));
    let filters: Vec<_> = (0..30).map(|i| cached(&cache, block(i))).collect();
    let (mut set, mut slots) = set_of(&filters);
    for part in [0..10, 10..20, 20..30] {
        let mut rounds = 0;
        while !part.clone().all(|i| set.filter(slots[i]).is_some()) {
            rounds += 1;
            assert!(rounds < 40, "{part:?}: {:?}", cache.counts());
            while !cache.needs_rebalance() {
                for i in part.clone() {
                    let _ = set.ask_hash(slots[i], hash(i));
                }
                if part.clone().all(|i| set.filter(slots[i]).is_some()) {
                    break;
                }
            }
            cache.rebalance();
            (set, slots) = set_of(&filters);
            (0..30).for_each(|i| assert_finds(&set, slots[i], i * 1_000..i * 1_000 + 10));
        }
    }
    let counts = cache.counts();
    assert!(counts.evictions >= 20 && counts.bytes <= counts.max_bytes && counts.queries > 0, "{counts:?}");
}

#[test]
fn queries_are_counted_by_filter() {
    let cache = FilterCache::new(1 << 30);
    let block = block_of("bumped-ribbon:8", 0..1_000, TABLE);
    // The set counts a random sample of one query in 256. A round over the 64 filters has 128
    // queries, so counting every 256th query would always count the same filter.
    let filters: Vec<_> = (0..64).map(|_| cached(&cache, block.clone())).collect();
    let (set, slots) = set_of(&filters);
    for i in 0..400_000 {
        // The first 32 filters are asked once in each round, the others three times.
        for _ in 0..if i % 64 < 32 { 1 } else { 3 } {
            let _ = set.ask_hash(slots[i % 64], hash(i));
        }
    }
    for (i, filter) in filters.iter().enumerate() {
        let asked = if i < 32 { 6_250.0 } else { 3.0 * 6_250.0 };
        let off = (filter.queries() as f64 - asked) / (16.0 * f64::sqrt(asked));
        assert!(off.abs() < 5.0, "filter {i}: {off} standard deviations");
    }
    let hashes: Vec<_> = (0..100).map(hash).collect();
    let (before, mut answers) = (filters[0].queries(), [false; 100]);
    (0..1_000).for_each(|_| assert!(set.ask_batch(slots[0], &hashes, &mut answers)));
    let counted = filters[0].queries() - before;
    assert!((75_000..125_000).contains(&counted), "{counted}");
}

#[test]
fn many_threads_wait_for_one_load() {
    let cache = FilterCache::new(1 << 20);
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    let (reads, copy) = (Arc::new(AtomicUsize::new(0)), bytes.clone());
    let (counted, (go, wait)) = (reads.clone(), mpsc::channel());
    let wait = std::sync::Mutex::new(wait);
    let slow = Arc::new(cached_by(&cache, &bytes, move |to| {
        counted.fetch_add(1, Ordering::Relaxed);
        wait.lock().unwrap().recv().unwrap();
        to.copy_from_slice(&copy);
        Ok(())
    }));
    let (set, slots) = set_of(&[slow, cached(&cache, bytes)]);
    let started = Barrier::new(9);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                let (set, slots, started) = (&set, &slots, &started);
                scope.spawn(move || {
                    started.wait();
                    assert_eq!(set.ask_hash(slots[0], hash(i)), Answer::Maybe);
                })
            })
            .collect();
        started.wait();
        // Other filters are loaded and asked meanwhile.
        assert_finds(&set, slots[1], 0..1_000);
        go.send(()).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!((reads.load(Ordering::Relaxed), cache.counts().loads), (1, 2));
}

#[test]
fn a_function_that_fails_is_called_again_after_more_and_more_queries() {
    let cache = FilterCache::new(1 << 20);
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    let (calls, copy) = (Arc::new(AtomicU64::new(0)), bytes.clone());
    let counted = calls.clone();
    let filter = Arc::new(cached_by(&cache, &bytes, move |to| {
        if counted.fetch_add(1, Ordering::Relaxed) < 5 {
            return Err(std::io::Error::other("the disk is gone").into());
        }
        to.copy_from_slice(&copy);
        Ok(())
    }));
    let (set, slots) = set_of(std::slice::from_ref(&filter));
    let mut answers = Vec::new();
    while calls.load(Ordering::Relaxed) < 6 {
        answers.push((set.ask_hash(slots[0], hash(1)), calls.load(Ordering::Relaxed)));
        assert!(calls.load(Ordering::Relaxed) > 5 || filter.failure().unwrap().to_string().contains("is gone"));
        assert!(cache.counts().bytes == 0 || filter.loaded().is_some());
    }
    // The gaps between two calls have 0, 1, 3, 7 and 15 queries.
    let first = |call| answers.iter().position(|&(_, calls)| calls == call).unwrap();
    assert_eq!([1, 2, 3, 4, 5, 6].map(first), [0, 1, 3, 7, 15, 31]);
    assert!(answers[..31].iter().all(|&(answer, _)| answer == Answer::Unfiltered));
    assert_eq!(set.ask_hash(slots[0], hash(1)), Answer::Maybe);
    assert_eq!((cache.counts().failed_loads, cache.counts().loads), (5, 1));
}

#[test]
fn wrong_bytes_never_deny_a_key_and_are_read_once() {
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    let other = block_of("blocked-bloom:12", 5_000..6_000, *b"another table id");
    let stale = block_of("blocked-bloom:12", 5_000..6_000, TABLE);
    let flipped = |at: usize| bytes.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == at)).collect::<Vec<_>>();
    let mut wrong = vec![vec![0; bytes.len()], flipped(3), flipped(bytes.len() - 1), other, stale];
    // Bytes that the function does not fill stay zero.
    wrong.push(bytes[..bytes.len() / 2].to_vec());
    for (i, wrong) in wrong.into_iter().enumerate() {
        let cache = FilterCache::new(1 << 20);
        let filter = Arc::new(cached_by(&cache, &bytes, move |to| {
            let len = to.len().min(wrong.len());
            to[..len].copy_from_slice(&wrong[..len]);
            Ok(())
        }));
        let (set, slots) = set_of(std::slice::from_ref(&filter));
        for _ in 0..3 {
            assert_finds(&set, slots[0], 0..1_000);
            assert_eq!(set.ask_hash(slots[0], hash(7_000)), Answer::Unfiltered, "case {i}");
        }
        let counts = cache.counts();
        assert_eq!((counts.loads, counts.damaged, counts.bytes, set.counts().degraded), (1, 1, 0, 1), "case {i}");
        assert!(matches!(filter.loaded().as_deref(), Some(TableFilter::Degraded(_))));
        cache.rebalance();
        assert_eq!(cache.counts().loads, 1);
    }
}

#[test]
fn a_filter_in_memory_stays_if_its_file_is_damaged_later() {
    let block = |i: usize| block_of("bumped-ribbon:10", i * 500..(i + 1) * 500, TABLE);
    let mut damaged_copies = 0;
    for tenths in 52..80 {
        let cache = FilterCache::new((block(0).len() as u64 + 63) * tenths / 10);
        let (bytes, is_damaged) = (block(0), Arc::new(AtomicUsize::new(0)));
        let (copy, damage) = (bytes.clone(), is_damaged.clone());
        let first = Arc::new(cached_by(&cache, &bytes, move |to| {
            to.copy_from_slice(&copy);
            to[3] ^= damage.load(Ordering::Relaxed) as u8;
            Ok(())
        }));
        let mut filters: Vec<_> =
            [first.clone()].into_iter().chain((1..10).map(|i| cached(&cache, block(i)))).collect();
        let (mut set, mut slots) = set_of(&filters);
        for _ in 0..3 {
            for i in 0..40_000 {
                let _ = set.ask_hash(slots[i % 10], hash(1_000_000 + i));
            }
            cache.rebalance();
            (set, slots) = set_of(&filters);
        }
        slots.iter().enumerate().for_each(|(i, &slot)| assert_finds(&set, slot, i * 500..(i + 1) * 500));
        if first.loaded().is_none() {
            continue;
        }
        // There is room for all columns of the other filters. But the set keeps the copies with fewer columns.
        is_damaged.store(1, Ordering::Relaxed);
        filters.truncate(5);
        (set, slots) = set_of(&filters);
        for _ in 0..4 {
            cache.rebalance();
            assert!(columns(&first) > 0, "{tenths}");
        }
        damaged_copies += cache.counts().damaged;
        slots.iter().enumerate().for_each(|(i, &slot)| assert_finds(&set, slot, i * 500..(i + 1) * 500));
    }
    assert!(damaged_copies > 0, "no rebalance reads a damaged file");
}

#[test]
fn impossible_lengths_and_other_hashers_are_refused() {
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    for max_bytes in [0, 1 << 20, u64::MAX] {
        for len in [1 << 40, u64::MAX / 2, u64::MAX - 10, u64::MAX] {
            let cache = FilterCache::new(max_bytes);
            let read = |_: &mut [u8]| -> Outcome { panic!("no such length") };
            let (set, slots) = set_of(&[Arc::new(CachedFilter::new(&cache, len, &expected(&bytes), read))]);
            if max_bytes < len {
                assert_eq!(set.ask_hash(slots[0], hash(1)), Answer::Unfiltered, "{len}");
                assert_eq!((cache.counts().bytes, cache.counts().refused), (0, 1));
            }
        }
    }
    let cache = FilterCache::new(1 << 20);
    let mut other = FilterSet::new(&KeyHasher::xxh3(HashSeed(99)));
    let slot = other.insert_cached(cached(&cache, bytes));
    let key = other.hasher().of(b"key");
    assert_eq!((other.ask_hash(slot, key), other.counts().other_hasher), (Answer::Unfiltered, 1));
    assert_eq!(cache.counts().loads, 0);
}

#[test]
fn a_function_may_panic_or_ask_the_filter_itself() {
    let cache = FilterCache::new(1 << 20);
    let bytes = block_of("blocked-bloom:12", 0..1_000, TABLE);
    let (calls, copy) = (AtomicUsize::new(0), bytes.clone());
    let asked: Arc<std::sync::Mutex<Option<(Arc<FilterSet>, FilterSlot)>>> = Arc::default();
    let asks = asked.clone();
    let filter = Arc::new(cached_by(&cache, &bytes, move |to| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first call panics");
        let (set, slot) = asks.lock().unwrap().clone().unwrap();
        assert_eq!(set.ask_hash(slot, hash(1)), Answer::Unfiltered);
        to.copy_from_slice(&copy);
        Ok(())
    }));
    let (set, slots) = set_of(std::slice::from_ref(&filter));
    let set = Arc::new(set);
    *asked.lock().unwrap() = Some((set.clone(), slots[0]));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| set.ask_hash(slots[0], hash(1))));
    assert!(panicked.is_err() && filter.failure().unwrap().to_string().contains("panicked"));
    assert_eq!(cache.counts().bytes, 0);
    assert_finds(&set, slots[0], 0..1_000);
    assert_eq!((cache.counts().loads, cache.counts().failed_loads, set.counts().ready), (1, 1, 1));
    asked.lock().unwrap().take();
}

#[test]
fn threads_ask_while_the_cache_is_rebalanced() {
    let block = |i: usize| block_of("bumped-ribbon:10", i * 500..(i + 1) * 500, TABLE);
    let cache = FilterCache::new(6 * block(0).len() as u64);
    let filters: Vec<_> = (0..16).map(|i| cached(&cache, block(i))).collect();
    let current = std::sync::Mutex::new(Arc::new(set_of(&filters)));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, current, cache) = (&is_over, &current, &cache);
        for thread in 0..3 {
            scope.spawn(move || {
                let mut i = thread;
                while !is_over.load(Ordering::Relaxed) {
                    let now = current.lock().unwrap().clone();
                    for _ in 0..2_000 {
                        i += 7;
                        let (filter, key) = (i % 16, i % 500);
                        assert_ne!(now.0.ask_hash(now.1[filter], hash(filter * 500 + key)), Answer::No);
                    }
                    assert!(cache.counts().bytes <= cache.counts().max_bytes);
                }
            });
        }
        for _ in 0..60 {
            cache.rebalance();
            *current.lock().unwrap() = Arc::new(set_of(&filters));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop((current, filters));
    assert_eq!(cache.counts().bytes, 0);
}

/// Prints the numbers of docs/BENCHMARKS.md: absent keys, each asked of one filter of many. The last column is the
/// time divided by that of a set without a cache.
#[test]
#[ignore = "a measurement"]
fn hit_rate_and_time_by_the_number_of_filters() {
    const KEYS: usize = 1_000;
    const QUERIES: usize = 1_000_000;
    println!(
        "| Filters | Kind | Skew | Bound | Answered | SST reads a miss | Time of a filter's answer |\n|---|---|---|---|---|---|---|"
    );
    for count in [1, 10, 100, 1_000, 10_000, 100_000] {
        for (spec, zipf) in [("blocked-bloom:10", 0.0), ("blocked-bloom:10", 1.0), ("bumped-ribbon:8", 1.0)] {
            let blocks: Vec<_> =
                (0..count).map(|i| Arc::new(block_of(spec, i * KEYS..(i + 1) * KEYS, TABLE))).collect();
            let whole: u64 = blocks.iter().map(|block| block.len() as u64 + 63).sum();
            let mut sums = vec![0.0];
            (1..=count).for_each(|rank| sums.push(sums.last().unwrap() + (rank as f64).powf(-zipf)));
            let mut random = Random(7);
            // The most popular filters are not the first ones.
            let mut places: Vec<_> = (0..count).collect();
            (1..count).for_each(|i| places.swap(i, random.index(i + 1)));
            let queries: Vec<_> = (0..QUERIES)
                .map(|i| {
                    let share = random.share() * sums[count];
                    (places[sums.partition_point(|&sum| sum <= share) - 1], hash(usize::MAX / 2 + i))
                })
                .collect();
            let plain: Vec<_> = blocks
                .iter()
                .map(|block| {
                    Arc::new(TableFilter::from(FilterBlock::open(
                        SharedBytes::from(block.to_vec()),
                        &expected(block),
                        Verify::AtOpen,
                    )))
                })
                .collect();
            let mut set = FilterSet::new(&HASHER);
            let slots: Vec<_> = plain.iter().map(|filter| set.insert(filter.clone())).collect();
            let time = |set: &FilterSet, slots: &[FilterSlot]| {
                let start = std::time::Instant::now();
                let mut answers = [0u64; 3];
                for &(place, hash) in &queries {
                    answers[set.ask_hash(slots[place], hash) as usize] += 1;
                }
                (start.elapsed().as_nanos() as f64 / QUERIES as f64, answers)
            };
            for tenths in [10, 5, 1] {
                let cache = FilterCache::new(whole * tenths / 10);
                let filters: Vec<_> = blocks
                    .iter()
                    .map(|block| {
                        let copy = block.clone();
                        Arc::new(cached_by(&cache, block, move |to| {
                            to.copy_from_slice(&copy);
                            Ok(())
                        }))
                    })
                    .collect();
                let (mut cached, mut slots_of_cached) = set_of(&filters);
                for _ in 0..12 {
                    time(&cached, &slots_of_cached);
                    if cache.needs_rebalance() && cache.rebalance() {
                        (cached, slots_of_cached) = set_of(&filters);
                    }
                }
                let mut ratios = [0.0; 3];
                let mut answers = [0; 3];
                for ratio in &mut ratios {
                    let (of_plain, _) = time(&set, &slots);
                    let (of_cached, counted) = time(&cached, &slots_of_cached);
                    (*ratio, answers) = (of_cached / of_plain, counted);
                }
                ratios.sort_by(f64::total_cmp);
                assert!(cache.counts().bytes <= cache.counts().max_bytes);
                let share = |answer: Answer| answers[answer as usize] as f64 / QUERIES as f64;
                println!(
                    "| {count} | `{spec}` | {} | {tenths}/10 | {:.1} % | {:.4} | {:.2} |",
                    if zipf > 0.0 { "Zipf 1.0" } else { "uniform" },
                    100.0 * (1.0 - share(Answer::Unfiltered)),
                    1.0 - share(Answer::No),
                    ratios[1],
                );
            }
        }
    }
}

#[test]
fn an_error_whose_drop_panics_does_not_block_the_filter() {
    #[derive(Debug)]
    struct Bomb;
    impl std::fmt::Display for Bomb {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bomb")
        }
    }
    impl std::error::Error for Bomb {}
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop of the host's error")
        }
    }
    let (cache, bytes) = (FilterCache::new(1 << 20), block_of("blocked-bloom:12", 0..1_000, TABLE));
    let (calls, copy) = (AtomicUsize::new(0), bytes.clone());
    let filter = cached_by(&cache, &bytes, move |to| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Bomb.into());
        }
        to.copy_from_slice(&copy);
        Ok(())
    });
    let (set, slots) = set_of(&[Arc::new(filter)]);
    let (set, slot) = (Arc::new(set), slots[0]);
    assert_eq!(set.ask_hash(slot, hash(1)), Answer::Unfiltered);
    let again = || set.ask_hash(slot, hash(1));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err());
    let (sender, receiver) = mpsc::channel();
    let other = set.clone();
    std::thread::spawn(move || (0..4).try_for_each(|_| sender.send(other.ask_hash(slot, hash(1)))));
    for _ in 0..4 {
        assert!(receiver.recv_timeout(std::time::Duration::from_secs(60)).is_ok(), "the filter is loading for ever");
    }
    assert_finds(&set, slot, 0..1_000);
}
