//! Tests that a set counts the queries of its filters, and drops columns of filters under a budget.

use filterblock::{
    AlignedBytes, Answer, Error, Expected, FilterBlock, FilterSet, FilterSlot, KeyHasher, SharedBytes, TableFilter,
    Verify,
};
use filterblock_testkit::blocks::{SEED, TABLE, block_of, hash, partitioned};
use std::ops::Range;
use std::sync::Arc;

static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

fn opened(bytes: impl Into<SharedBytes>, verify: Verify) -> Arc<TableFilter<SharedBytes>> {
    Arc::new(FilterBlock::open(bytes.into(), &Expected::of_table(TABLE, &HASHER), verify).into())
}

fn heap(spec: &str, keys: Range<usize>) -> Arc<TableFilter<SharedBytes>> {
    opened(AlignedBytes::copy_of(&block_of(spec, keys, TABLE)).unwrap(), Verify::AtOpen)
}

fn columns(set: &FilterSet, slot: FilterSlot) -> u32 {
    set.filter(slot).unwrap().ready().unwrap().metadata().probes
}

fn assert_finds(set: &FilterSet, slot: FilterSlot, keys: Range<usize>) {
    let hashes: Vec<_> = keys.map(hash).collect();
    assert!(hashes.iter().all(|&hash| set.ask_hash(slot, hash) != Answer::No));
    let mut answers = vec![false; hashes.len()];
    set.ask_batch(slot, &hashes, &mut answers);
    assert!(answers.iter().all(|&answer| answer));
}

#[test]
fn queries_are_counted_by_filter() {
    let filter = heap("bumped-ribbon:8", 0..1_000);
    let (mut silent, mut set) = (FilterSet::new(&HASHER), FilterSet::new(&HASHER).counting_queries());
    // The set counts a random sample of one query in 64. A round over the 64 filters has 128
    // queries, so counting every 64th query would always count the same two filters.
    let slots: Vec<_> = (0..64).map(|_| set.insert(filter.clone())).collect();
    let silent_slot = silent.insert(filter.clone());
    for i in 0..400_000 {
        let _ = silent.ask_hash(silent_slot, hash(i));
        // The first 32 filters are asked once in each round, the others three times.
        let slot = slots[i % 64];
        for _ in 0..if i % 64 < 32 { 1 } else { 3 } {
            let _ = set.ask_hash(slot, hash(i));
        }
    }
    assert_eq!((silent.queries(silent_slot), set.queries(silent_slot), silent.queries(slots[0])), (0, 0, 0));
    for (i, &slot) in slots.iter().enumerate() {
        let asked = if i < 32 { 6_250.0 } else { 3.0 * 6_250.0 };
        let off = (set.queries(slot) as f64 - asked) / (8.0 * f64::sqrt(asked));
        assert!(off.abs() < 5.0, "filter {i}: {off} standard deviations");
    }
    let hashes: Vec<_> = (0..100).map(hash).collect();
    let (before, mut answers) = (set.queries(slots[0]), [false; 100]);
    (0..1_000).for_each(|_| assert!(set.ask_batch(slots[0], &hashes, &mut answers)));
    let counted = set.queries(slots[0]) - before;
    assert!((90_000..130_000).contains(&counted), "{counted}");
    set.add_queries(slots[1], u64::MAX);
    set.add_queries(slots[1], 7);
    assert_eq!(set.queries(slots[1]), u64::MAX);
}

#[test]
fn filters_that_are_asked_less_lose_more_columns() {
    let mut set = FilterSet::new(&HASHER);
    let ranges: Vec<_> = (0..6).map(|i| i * 10_000..(i + 1) * 10_000).collect();
    let slots: Vec<_> = ranges.iter().map(|keys| set.insert(heap("bumped-ribbon:12", keys.clone()))).collect();
    for (i, &slot) in slots.iter().enumerate() {
        set.add_queries(slot, 1_000 << (2 * i));
    }
    let whole = set.len_bytes();
    assert_eq!(set.shrink_to(whole).num_shrunk, 0);
    for share in [9, 7, 5, 3, 1] {
        let limit = whole * share / 10;
        let done = set.shrink_to(limit);
        assert!(done.len_bytes <= limit && done.len_bytes + 1_300 > limit, "{share}: {done:?} {limit}");
        assert_eq!((done.len_bytes, done.num_failed), (set.len_bytes(), 0));
        let found: Vec<_> = slots.iter().map(|&slot| columns(&set, slot)).collect();
        println!("{share} tenths: {found:?}");
        assert!(found.is_sorted(), "{found:?}");
        // If one filter is asked four times as often as another, it keeps about two columns more.
        let may_differ = |pair: &[u32]| (1..=3).contains(&(pair[1] - pair[0])) || pair[0] == 1 || pair[1] == 12;
        assert!(found.windows(2).all(may_differ), "{found:?}");
        slots.iter().zip(&ranges).for_each(|(&slot, keys)| assert_finds(&set, slot, keys.clone()));
    }
    let least = set.shrink_to(0);
    assert!(slots.iter().all(|&slot| columns(&set, slot) == 1) && least.len_bytes > 0);
    assert_eq!(set.shrink_to(0).num_shrunk, 0);
    slots.iter().zip(&ranges).for_each(|(&slot, keys)| assert_finds(&set, slot, keys.clone()));
    // One column denies about half of the absent keys.
    let denied = (70_000..80_000).filter(|&i| set.ask_hash(slots[0], hash(i)) == Answer::No).count();
    assert!((4_600..5_400).contains(&denied), "{denied}");
}

#[test]
fn filters_that_cannot_shrink_stay_as_they_are() {
    let mut set = FilterSet::new(&HASHER);
    let n = 10_000;
    let mut damaged = block_of("bumped-ribbon:12", 0..n, TABLE);
    damaged[100] ^= 1;
    let other = KeyHasher::xxh3(filterblock::HashSeed(99));
    let mut foreign =
        filterblock::FilterOptions::new("bumped-ribbon:12".parse().unwrap()).table_id(TABLE).builder(&other).unwrap();
    (0..n).for_each(|i| foreign.add(foreign.hasher().key(&filterblock_testkit::blocks::key(i))));
    let foreign = AlignedBytes::copy_of(&foreign.finish().unwrap().bytes).unwrap();
    let foreign = FilterBlock::open(foreign.into(), &Expected::of_table(TABLE, &other), Verify::AtOpen);
    let filters = [
        heap("blocked-bloom:12", 0..n),
        opened(partitioned("bumped-ribbon:12", n, 3_000), Verify::AtOpen),
        opened(damaged, Verify::OnFirstTouch),
        Arc::new(TableFilter::Absent),
        Arc::new(TableFilter::Degraded(Arc::new(Error::TooLarge { what: "test" }))),
        Arc::new(foreign.into()),
        opened(block_of("bumped-ribbon:12", 0..n, TABLE), Verify::OnFirstTouch),
        heap("bumped-ribbon:12", 0..n),
    ];
    let slots = filters.clone().map(|filter| set.insert(filter));
    let before = set.counts();
    let done = set.shrink_to(0);
    assert_eq!((done.num_failed, done.num_shrunk), (1, 3), "{done:?}");
    assert_eq!((set.counts().ready, set.counts().other_hasher), (before.ready, before.other_hasher));
    for (i, (&slot, filter)) in slots.iter().zip(&filters).enumerate() {
        assert_eq!(Arc::ptr_eq(set.filter(slot).unwrap(), filter), i < 5, "filter {i}");
        assert_finds(&set, slot, 0..n);
    }
    assert_eq!(set.ask_hash(slots[5], hash(1)), Answer::Unfiltered);
    // The caller's own filter keeps its columns.
    assert_eq!(filters[7].ready().unwrap().metadata().probes, 12);
}

#[test]
fn a_filter_that_fails_leaves_the_budget_to_the_others() {
    let mut set = FilterSet::new(&HASHER);
    let mut damaged = block_of("bumped-ribbon:12", 0..10_000, TABLE);
    damaged[100] ^= 1;
    let _ = set.insert(opened(damaged, Verify::OnFirstTouch));
    let sound = set.insert(heap("bumped-ribbon:12", 0..10_000));
    let limit = set.len_bytes() * 3 / 4;
    let done = set.shrink_to(limit);
    assert!(done.num_shrunk == 1 && done.num_failed == 1 && done.len_bytes <= limit, "{done:?}");
    assert!(columns(&set, sound) < 7);
}

#[cfg(feature = "mmap")]
#[test]
fn copies_on_the_heap_replace_mapped_filters() {
    use filterblock::Mapped;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    std::fs::write(&path, block_of("bumped-ribbon:20", 0..10_000, TABLE)).unwrap();
    let mut set = FilterSet::new(&HASHER);
    let slots =
        [Verify::AtOpen, Verify::OnFirstTouch].map(|verify| set.insert(opened(Mapped::open(&path).unwrap(), verify)));
    // The copies verify the pages that they need, and together take no more than the limit.
    let limit = set.len_bytes() / 4;
    let done = set.shrink_to(limit);
    assert!(done.len_bytes <= limit && (done.num_shrunk, done.num_failed) == (2, 0), "{done:?}");
    slots.iter().for_each(|&slot| assert_finds(&set, slot, 0..10_000));
}
