//! Tests sets of filters, [`SharedBytes`] and [`Reclaimer`].

use filterblock::{
    AlignedBytes, Answer, Error, Expected, FilterBlock, FilterOptions, FilterSet, FilterSlot, HashSeed, KeyHash,
    KeyHasher, Mapped, Populate, Reclaimer, SharedBytes, TableFilter, Verify, WholeKeys,
};
use filterblock_testkit::Random;
use filterblock_testkit::blocks::{BOTH, SEED, SPECS, TABLE, block, built, hash, key, partitioned, spec};
use std::sync::Arc;

const N: usize = 700;
static HASHER: KeyHasher = KeyHasher::xxh3(SEED);

type Filter = Arc<TableFilter<SharedBytes>>;

fn opened(bytes: impl Into<SharedBytes>, verify: Verify) -> Filter {
    Arc::new(FilterBlock::open(bytes.into(), &Expected::of_table(TABLE, &HASHER), verify).into())
}

/// Returns an empty filter. For each [`Verify`], also returns a partitioned filter, a filter that
/// declares prefixes, and filters of every kind except `grafite`.
fn filters() -> Vec<Filter> {
    let mut filters = vec![opened(block("bloom:10", 0), Verify::AtOpen)];
    for verify in BOTH {
        filters.extend(SPECS.iter().map(|text| opened(block(text, N), verify)));
        filters.push(opened(partitioned("blocked-bloom:10", N, 100), verify));
        let both = FilterOptions::new(spec("blocked-bloom:10")).table_id(TABLE);
        let both = both.prefixes_by_host("first-7", WholeKeys::Too);
        filters.push(opened(built(&both, SEED, (0..N).map(key)), verify));
    }
    filters
}

fn hashes() -> Vec<KeyHash> {
    (0..3 * N).map(hash).collect()
}

#[test]
fn sets_answer_like_their_filters() {
    let filters = filters();
    let mut set = FilterSet::new(&HASHER);
    assert!(set.is_empty());
    let slots: Vec<_> = filters.iter().map(|filter| set.insert(filter.clone())).collect();
    assert_eq!((set.len(), set.counts().ready), (filters.len(), filters.len()));
    let hashes = hashes();
    let mut pairs = Vec::new();
    let mut expected = Vec::new();
    for (&slot, filter) in slots.iter().zip(&filters) {
        assert!(Arc::ptr_eq(set.filter(slot).unwrap(), filter));
        let block = filter.ready().unwrap();
        let alone: Vec<Answer> = hashes.iter().map(|&hash| block.may_contain_hash(hash).into()).collect();
        assert!(block.metadata().num_keys == 0 || alone[..N].iter().all(|&answer| answer == Answer::Maybe));
        assert_eq!(hashes.iter().map(|&hash| set.ask_hash(slot, hash)).collect::<Vec<_>>(), alone);
        // The slice has one answer more than there are hashes, and that answer must not change.
        for beyond in [true, false] {
            let mut may_contain = vec![beyond; hashes.len() + 1];
            assert!(set.ask_batch(slot, &hashes, &mut may_contain));
            let expected: Vec<bool> = alone.iter().map(|answer| answer.must_read()).chain([beyond]).collect();
            assert_eq!(may_contain, expected);
        }
        for key in (0..3 * N).map(key) {
            assert_eq!(set.ask(slot, HASHER.key(&key)), block.may_contain(HASHER.key(&key)).into());
        }
        pairs.extend(hashes.iter().map(|&hash| (slot, hash)));
        expected.extend(alone);
    }
    // After this shuffle, neighbouring pairs usually ask different filters. Both vectors get the
    // same order.
    let mut random = Random(5);
    for i in (1..pairs.len()).rev() {
        let other = random.index(i + 1);
        pairs.swap(i, other);
        expected.swap(i, other);
    }
    let mut answers = vec![Answer::Unfiltered; pairs.len()];
    set.ask_pairs(&pairs, &mut answers);
    assert_eq!(answers, expected);
    assert_eq!(set.counts().unfiltered_answers, 0);
}

/// A filter must not be asked with the number of probes of another filter of its kind.
#[test]
fn filters_of_one_kind_and_other_sizes_share_a_set() {
    let sizes = ["3", "10", "24"];
    for kind in ["bloom", "blocked-bloom", "split-block", "split-block-512"] {
        for first in 0..3 {
            let mut set = FilterSet::new(&HASHER);
            for size in sizes.iter().cycle().skip(first).take(3) {
                let filter = opened(block(&format!("{kind}:{size}"), N), Verify::AtOpen);
                let slot = set.insert(filter.clone());
                for hash in hashes() {
                    let alone = filter.ready().unwrap().may_contain_hash(hash);
                    assert_eq!(set.ask_hash(slot, hash), alone.into(), "{kind}:{size}, {first}");
                }
                let mut may_contain = vec![false; N];
                assert!(set.ask_batch(slot, &hashes()[..N], &mut may_contain) && !may_contain.contains(&false));
            }
        }
    }
}

#[test]
fn sets_count_unfiltered_answers() {
    let mut set = FilterSet::new(&HASHER);
    let other = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let foreign = built(&FilterOptions::new(spec("blocked-bloom:10")).table_id(TABLE), &other, [key(1)]);
    let foreign = FilterBlock::open(foreign.into(), &Expected::of_table(TABLE, &other), Verify::AtOpen);
    let damaged = opened(vec![0; 100], Verify::AtOpen);
    assert!(damaged.reason().unwrap().downcast_ref::<Error>().unwrap().is_damage());
    let slots = [Arc::new(foreign.into()), damaged, Arc::new(TableFilter::Absent)].map(|filter| set.insert(filter));
    for (i, &slot) in slots.iter().enumerate() {
        let hash = HASHER.of(&key(i));
        assert_eq!([set.ask_hash(slot, hash), set.ask(slot, HASHER.key(&key(i)))], [Answer::Unfiltered; 2]);
        let mut may_contain = [false; 3];
        assert!(!set.ask_batch(slot, &[hash, hash], &mut may_contain));
        assert_eq!(may_contain, [true, true, false]);
    }
    let counts = set.counts();
    assert_eq!((counts.ready, counts.degraded, counts.absent, counts.other_hasher), (0, 1, 1, 1));
    assert_eq!(counts.unfiltered_answers, 3 * 4);
}

#[test]
fn slots_pass_through_integers() {
    let filters = filters();
    let mut set = FilterSet::new(&HASHER);
    for filter in &filters {
        let slot = set.insert(filter.clone());
        assert_eq!(FilterSlot::from_raw(slot.to_raw()), slot);
        let [number, index] = slot.to_raw();
        // These pairs of integers are not slots of this set.
        for raw in [[0, 0], [0, index], [number + 1, index], [number, index + 1], [number, u64::MAX]] {
            let other = FilterSlot::from_raw(raw);
            assert!(set.filter(other).is_none(), "{raw:?}");
            assert_eq!(set.ask(other, HASHER.key(b"absent")), Answer::Unfiltered, "{raw:?}");
        }
    }
    assert_eq!(FilterSet::new(&HASHER).insert(filters[0].clone()).to_raw()[1], 0);
}

#[test]
fn slots_of_another_set_are_unfiltered() {
    // At the same index, the other set has an empty filter, which would deny the key.
    let [mut first, mut second] = [FilterSet::new(&HASHER), FilterSet::new(&HASHER)];
    let slot = first.insert(opened(block("blocked-bloom:10", N), Verify::AtOpen));
    second.insert(opened(block("blocked-bloom:10", 0), Verify::AtOpen));
    let hash = HASHER.of(&key(1));
    assert_eq!((first.ask_hash(slot, hash), second.ask_hash(slot, hash)), (Answer::Maybe, Answer::Unfiltered));
    assert_eq!(second.ask(slot, HASHER.key(&key(1))), Answer::Unfiltered);
    let (mut of_batch, mut of_pairs) = ([false], [Answer::No]);
    assert!(!second.ask_batch(slot, &[hash], &mut of_batch) && of_batch[0]);
    second.ask_pairs(&[(slot, hash)], &mut of_pairs);
    assert_eq!(of_pairs, [Answer::Unfiltered]);
    assert!(second.filter(slot).is_none());
    assert_eq!((first.counts().unfiltered_answers, second.counts().unfiltered_answers), (0, 4));
}

#[test]
fn sets_answer_for_prefixes_like_their_filters() {
    let mut set = FilterSet::new(&HASHER);
    let mut prefixes = FilterOptions::new(spec("blocked-bloom:16"))
        .table_id(TABLE)
        .prefixes_by_host("first-7", WholeKeys::Not)
        .builder(SEED)
        .unwrap();
    prefixes.add_prefix(prefixes.hasher().key(&key(1)[..7]));
    let expected = Expected::of_table(TABLE, &HASHER).with_prefixes("first-7");
    let prefixes = FilterBlock::open(prefixes.finish().unwrap().bytes.into(), &expected, Verify::AtOpen).unwrap();
    let of_prefixes = set.insert(Arc::new(TableFilter::Ready(prefixes)));
    let of_keys = set.insert(opened(block("blocked-bloom:10", N), Verify::AtOpen));
    let absent = set.insert(Arc::new(TableFilter::Absent));
    let ask = |slot, extractor, prefix: &[u8]| set.ask_prefix(slot, extractor, set.hasher().key(prefix));
    assert_eq!(
        (ask(of_prefixes, "first-7", &key(1)[..7]), ask(of_prefixes, "first-7", b"no such")),
        (Answer::Maybe, Answer::No)
    );
    assert_eq!(set.counts().unfiltered_answers, 0);
    // No filter can answer these queries.
    let hash = HASHER.of(b"no such");
    let mut of_batch = [false];
    assert!(!set.ask_batch(of_prefixes, &[hash], &mut of_batch) && of_batch[0]);
    let unknown = [
        ask(of_prefixes, "first-5", b"no su"),
        ask(of_keys, "first-7", b"no such"),
        ask(absent, "first-7", b"no such"),
        set.ask_hash(of_prefixes, hash),
        set.ask(of_prefixes, HASHER.key(b"no such")),
        set.filter(of_prefixes).unwrap().ask(HASHER.key(b"no such")),
    ];
    assert_eq!(unknown, [Answer::Unfiltered; 6]);
    // The set does not count the last query, which asks the filter itself.
    assert_eq!(set.counts().unfiltered_answers, 6);
    assert_eq!(
        (set.ask(of_keys, HASHER.key(&key(1))), set.ask(of_keys, HASHER.key(b"no such"))),
        (Answer::Maybe, Answer::No)
    );
}

#[test]
fn sets_count_damaged_pages_of_first_touch() {
    let mut bytes = block("blocked-bloom:10", N);
    bytes[70] ^= 1;
    let mut set = FilterSet::new(&HASHER);
    let slot = set.insert(opened(bytes, Verify::OnFirstTouch));
    assert!(hashes().iter().all(|&hash| set.ask_hash(slot, hash) == Answer::Maybe));
    assert_eq!((set.counts().ready, set.counts().damaged_pages), (1, 1));
}

#[cfg(debug_assertions)]
#[test]
fn sets_check_the_hasher_in_debug_builds() {
    let mut set = FilterSet::new(&HASHER);
    let slot = set.insert(opened(block("blocked-bloom:10", N), Verify::AtOpen));
    let other = KeyHasher::xxh3(HashSeed(SEED.0 + 1));
    let hash = other.of(&key(1));
    let asks: [&dyn Fn() -> Answer; 3] = [&|| set.ask_hash(slot, hash), &|| set.ask(slot, other.key(b"key")), &|| {
        set.ask_batch(slot, &[hash], &mut [false]);
        Answer::Maybe
    }];
    for ask in asks {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask)).is_err());
    }
}

#[test]
fn shared_bytes_keep_their_address_in_every_holder() {
    let bytes = block("blocked-bloom:10", N);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("block");
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let holders = [
        SharedBytes::from(bytes.clone()),
        SharedBytes::from(AlignedBytes::copy_of(&bytes).unwrap()),
        SharedBytes::from(Mapped::region(&file, 0, bytes.len(), Populate::Yes).unwrap()),
        SharedBytes::from(&*Vec::leak(bytes.clone())),
        SharedBytes::from(Arc::<[u8]>::from(bytes.as_slice())),
        SharedBytes::from(Vec::new()),
    ];
    let reclaimer = Reclaimer::default();
    for (i, shared) in holders.into_iter().enumerate() {
        let address = shared.as_ref().as_ptr();
        let clone = shared.clone();
        // A clone still refers to the bytes, so `freed_by` must have no effect.
        let boxed = Box::new(shared.freed_by(&reclaimer));
        assert_eq!((boxed.as_ref().as_ref().as_ptr(), clone.as_ref().as_ptr()), (address, address), "{i}");
        assert!(i == 5 || clone.as_ref() == bytes);
        drop(clone);
        let alone = boxed.freed_by(&reclaimer);
        assert!(i == 5 || alone.as_ref() == bytes);
        assert_eq!((alone.as_ref().as_ptr(), reclaimer.reclaim()), (address, 0), "{i}");
        drop(alone);
        assert_eq!((reclaimer.reclaim(), reclaimer.reclaim()), (1, 0), "{i}");
    }
}

#[test]
fn a_reclaimer_keeps_no_more_than_its_limit() {
    let reclaimer = Reclaimer::with_limit(250);
    let drop_one = || drop(SharedBytes::from(vec![0; 100]).freed_by(&reclaimer));
    drop_one();
    drop_one();
    assert_eq!(reclaimer.waiting_bytes(), 200);
    drop_one();
    assert_eq!((reclaimer.waiting_bytes(), reclaimer.reclaim()), (0, 0));
}

#[test]
fn readers_free_no_bytes_while_sets_are_replaced() {
    let reclaimer = Reclaimer::default();
    let current = std::sync::Mutex::new(Arc::new(FilterSet::new(&HASHER)));
    let done = std::sync::atomic::AtomicBool::new(false);
    let freed: usize = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let set = current.lock().unwrap().clone();
                    assert!(set.counts().ready < 2);
                }
            });
        }
        let freed = (0..200)
            .map(|_| {
                let bytes = SharedBytes::from(block("blocked-bloom:10", 50)).freed_by(&reclaimer);
                let mut next = FilterSet::new(&HASHER);
                let slot = next.insert(opened(bytes, Verify::AtOpen));
                assert_eq!(next.ask_hash(slot, HASHER.of(&key(7))), Answer::Maybe);
                *current.lock().unwrap() = Arc::new(next);
                reclaimer.reclaim()
            })
            .sum();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        freed
    });
    drop(current);
    assert_eq!(freed + reclaimer.reclaim(), 200, "this thread must free each filter once");
}
