//! Tests the filter policies that consider the whole store.

use std::sync::Arc;

use crate::common::{DIR, Random};
use filterblock::{
    FilterKind, FilterOptions, FilterSpec, HashSeed, KeyHash,
    policy::{FilterPolicy, LevelShape, MemoryBudget, Monkey, TableShape},
};
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};
use proptest::prelude::*;

const KINDS: [FilterKind; 3] = [FilterKind::Bloom, FilterKind::BlockedBloom, FilterKind::BumpedRibbon];

fn runs(level: usize, shape: &LevelShape) -> f64 {
    match level {
        _ if shape.num_keys == 0 => 0.0,
        0 => shape.num_tables.max(1) as f64,
        _ => 1.0,
    }
}

/// Returns the expected block reads per get of an absent key.
fn reads(levels: &[LevelShape], specs: &[FilterSpec]) -> f64 {
    levels.iter().zip(specs).enumerate().map(|(i, (level, spec))| runs(i, level) * spec.expected_fpr()).sum()
}

fn bits(levels: &[LevelShape], specs: &[FilterSpec]) -> f64 {
    levels.iter().zip(specs).map(|(level, spec)| level.num_keys as f64 * spec.millibits_per_key() as f64 / 1e3).sum()
}

fn keys(levels: &[LevelShape]) -> f64 {
    levels.iter().map(|level| level.num_keys as f64).sum()
}

/// Returns the shapes of an empty level 0 and of `levels` full deeper levels.
fn full(ratio: u64, levels: u32, first: u64) -> Vec<LevelShape> {
    let level = |i| LevelShape::new(first * ratio.pow(i), 1);
    std::iter::once(LevelShape::default()).chain((0..levels).map(level)).collect()
}

fn any_levels() -> impl Strategy<Value = Vec<LevelShape>> {
    // A level has from zero keys to more keys than any store has. All orders of magnitude are about
    // equally likely.
    let num_keys = prop_oneof![1 => Just(0), 9 => (0u32..60, 1u64..16).prop_map(|(shift, top)| top << shift)];
    let level = (num_keys, 0u64..40).prop_map(|(num_keys, num_tables)| LevelShape::new(num_keys, num_tables));
    proptest::collection::vec(level, 1..8)
}

#[test]
fn a_kind_with_few_widths_always_gets_one_of_them() {
    for bits_per_key in [8.0, 12.0, 16.0] {
        let monkey = Monkey::new(FilterKind::BinaryFuse, bits_per_key).unwrap();
        for levels in [full(10, 4, 1_000), full(3, 6, 500), full(2, 5, 77), vec![LevelShape::new(5_000, 7)]] {
            let specs = monkey.specs(&levels);
            assert!(bits(&levels, &specs) <= keys(&levels) * bits_per_key, "{specs:?}");
            let uniform = vec![FilterSpec::bits_per_key(FilterKind::BinaryFuse, bits_per_key).unwrap(); levels.len()];
            assert!(reads(&levels, &specs) <= reads(&levels, &uniform) * 1.000_1, "{specs:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn monkey_stays_within_its_memory_and_never_loses_to_uniform(
        levels in any_levels(), kind in 0..KINDS.len(), bottom in 0..KINDS.len(), millibits in 1_000u32..=100_000,
    ) {
        let bits_per_key = f64::from(millibits) / 1e3;
        let monkey = Monkey::new(KINDS[kind], bits_per_key).unwrap();
        let specs = monkey.specs(&levels);
        prop_assert_eq!(specs.len(), levels.len());
        prop_assert!(bits(&levels, &specs) <= keys(&levels) * bits_per_key * (1.0 + 1e-9));
        let uniform = vec![FilterSpec::bits_per_key(KINDS[kind], bits_per_key).unwrap(); levels.len()];
        // Allow for sizes that are rounded down by up to 0.001 bits per key, and for rounding
        // errors of up to 1e-7 block reads.
        let slack = |reads: f64| reads * 1.001 + 1e-7;
        prop_assert!(reads(&levels, &specs) <= slack(reads(&levels, &uniform)), "{:?}", specs);
        // Filters of two kinds stay within the budget, too.
        let specs = monkey.with_bottom(KINDS[bottom]).unwrap().specs(&levels);
        prop_assert!(bits(&levels, &specs) <= keys(&levels) * bits_per_key * (1.0 + 1e-9));
    }

    #[test]
    fn fprs_are_proportional_to_level_sizes(levels in any_levels(), kind in 0..KINDS.len(), bits in 2.0f64..30.0) {
        let specs = Monkey::new(KINDS[kind], bits).unwrap().specs(&levels);
        let worst = FilterSpec::bits_per_key(KINDS[kind], 1.0).unwrap().expected_fpr();
        let mut per_key = Vec::new();
        for (i, (level, spec)) in levels.iter().zip(&specs).enumerate() {
            let rate = spec.expected_fpr();
            // Skip levels without keys. Also skip FPRs near 1 and near the best possible value,
            // where the policy clips them.
            if level.num_keys > 0 && rate < worst && rate > 2e-9 && spec.millibits_per_key() < 100_000 {
                per_key.push(rate * runs(i, level) / level.num_keys as f64);
            }
        }
        let (least, most) = per_key.iter().fold((f64::MAX, 0.0), |(a, b), &x| (f64::min(a, x), f64::max(b, x)));
        prop_assert!(per_key.is_empty() || most / least < 1.02, "{levels:?} {specs:?}");
    }

    #[test]
    fn a_memory_budget_bounds_the_bits_for_any_store_shape(
        levels in any_levels(), total in 0u64..=1 << 40, in_use in 0u64..=1 << 41, level in 0usize..9, keys in any::<u64>(),
    ) {
        let budget = MemoryBudget::new(FilterKind::Bloom, total).unwrap();
        let spec_of = |levels: &[LevelShape], level| {
            budget.choose(&TableShape::new(keys, level, false).with_levels(levels.to_vec())).unwrap()
        };
        let _ = spec_of(&levels, level);
        let mut used = levels.clone();
        used[0] = used[0].with_filter_bytes(in_use);
        let specs: Vec<_> = (0..used.len()).filter(|&i| used[i].num_keys > 0).map(|i| (i, spec_of(&used, i))).collect();
        let bits: f64 = specs.iter().map(|(i, spec)| used[*i].num_keys as f64 * spec.millibits_per_key() as f64 / 1e3).sum();
        prop_assert!(bits / 8.0 <= total as f64);
        prop_assert!(bits / 8.0 <= (2.0 * total as f64 - in_use as f64).max(0.0));
    }
}

/// Returns the size in bytes of a filter block over `keys` random keys.
fn block_bytes(spec: FilterSpec, keys: u64) -> u64 {
    let mut builder = FilterOptions::new(spec).builder(HashSeed(0)).unwrap();
    (0..keys).for_each(|i| builder.add_hash(KeyHash::from_raw(Random(i).next())));
    builder.finish().unwrap().bytes.len() as u64
}

/// A binary fuse filter of 8-bit fingerprints takes more than 8 bits per key. A budget that counts
/// 8 bits would be exceeded.
#[test]
fn a_memory_budget_holds_for_the_blocks_of_binary_fuse_filters() {
    const FUSE: FilterKind = FilterKind::BinaryFuse;
    let mut bytes_of = std::collections::HashMap::new();
    for (upper, bottom) in [(FUSE, FUSE), (FilterKind::Bloom, FUSE), (FUSE, FilterKind::BumpedRibbon)] {
        let (mut best_use, mut fuse_filters) = (0.0f64, 0);
        for keys_of_table in [10_000, 11_417] {
            // Level 1 has one SST and level 2 has ten.
            let tables = [0, 1, 10];
            let levels: Vec<_> = tables.iter().map(|&tables| LevelShape::new(tables * keys_of_table, tables)).collect();
            for decibits in 20..=250 {
                let total = 11 * keys_of_table * decibits / 80;
                let budget = MemoryBudget::new(upper, total).unwrap().with_bottom(bottom).unwrap();
                let used: u64 = (1..=2)
                    .map(|level| {
                        let table = TableShape::new(keys_of_table, level, level == 2).with_levels(levels.clone());
                        let spec = budget.choose(&table).unwrap();
                        fuse_filters += u64::from(spec.kind() == FUSE);
                        let key = (spec.to_string(), keys_of_table);
                        tables[level] * *bytes_of.entry(key).or_insert_with(|| block_bytes(spec, keys_of_table))
                    })
                    .sum();
                assert!(used <= total, "{upper} over {bottom}: {used} of {total} bytes at {decibits} decibits per key");
                best_use = best_use.max(used as f64 / total as f64);
            }
        }
        println!("{upper} over {bottom}: {fuse_filters} binary fuse filters, at most {best_use:.3} of the budget");
        assert!(
            fuse_filters > 0 && best_use > 0.75,
            "{upper} over {bottom}: {fuse_filters} binary fuse filters, at most {best_use} of the budget"
        );
    }
}

#[test]
fn extreme_shapes_neither_panic_nor_overflow() {
    for kind in KINDS {
        for bits_per_key in [1.0, 100.0] {
            let monkey = Monkey::new(kind, bits_per_key).unwrap();
            for levels in [vec![], vec![LevelShape::default(); 7], vec![LevelShape::new(u64::MAX, u64::MAX); 7]] {
                assert_eq!(monkey.specs(&levels).len(), levels.len());
                for level in [0, 6, 999, 1_000, usize::MAX] {
                    for num_keys in [0, 1, u64::MAX] {
                        let table = TableShape::new(num_keys, level, true).with_levels(levels.clone());
                        assert!(monkey.choose(&table).is_some());
                        for total in [0, 1, 1_000, u64::MAX] {
                            assert!(MemoryBudget::new(kind, total).unwrap().choose(&table).is_some());
                        }
                    }
                }
            }
            // A single level gets the uniform size, or a smaller size if that gives the best
            // possible FPR.
            let one = monkey.specs(&[LevelShape::default(), LevelShape::new(1_000, 1)])[1];
            let least = if bits_per_key == 1.0 { 1_000 } else { 30_000 };
            assert!((least..=100_000).contains(&one.millibits_per_key()), "{one}");
        }
        assert_eq!(Monkey::new(kind, 1.0).unwrap().specs(&full(10, 4, 1_000))[4], FilterSpec::ALWAYS_MAYBE);
        assert!(
            Monkey::new(kind, 0.9).is_err()
                && Monkey::new(kind, 101.0).is_err()
                && Monkey::new(kind, f64::NAN).is_err()
        );
    }
    assert!(Monkey::new(FilterKind::AlwaysMaybe, 10.0).is_err() && MemoryBudget::new(FilterKind::Empty, 10).is_err());
    let monkey = Monkey::new(FilterKind::Bloom, 10.0).unwrap();
    assert!(monkey.with_bottom(FilterKind::AlwaysMaybe).is_err());
    // Without shapes of levels, the policy treats an SST as a store of its own.
    assert_eq!(monkey.choose(&TableShape::new(1_000, 3, true)).unwrap().millibits_per_key(), 10_000);
}

const VALUE: [u8; 40] = [7; 40];

#[test]
fn expected_gains_in_the_design_document_match_monkey() {
    let uniform: FilterSpec = "bloom:10".parse().unwrap();
    let monkey = Monkey::new(FilterKind::Bloom, 10.0).unwrap();
    let gain = |ratio, num_levels| {
        let levels = full(ratio, num_levels, 1_000);
        f64::from(num_levels) * uniform.expected_fpr() / reads(&levels, &monkey.specs(&levels))
    };
    let mut table = String::from("| Size ratio | 2 levels | 3 | 4 | 5 | 6 |\n|---|---|---|---|---|---|\n");
    for ratio in [4, 8, 10, 16] {
        let gains: Vec<String> = (2..=6).map(|levels| format!("{:.1}", gain(ratio, levels))).collect();
        table += &format!("| {ratio} | {} |\n", gains.join(" | "));
    }
    let document = include_str!("../../../../docs/DESIGN.md");
    assert!(document.contains(&table), "docs/DESIGN.md must have\n{table}");
}

/// Returns a key of 16 bytes. The order of the keys is the order of the numbers.
fn ordered_key(i: u64) -> [u8; 16] {
    *format!("{i:016x}").as_bytes().first_chunk().unwrap()
}

/// Returns a key of 16 bytes. All keys differ and are in random order.
fn mixed_key(i: u64) -> [u8; 16] {
    ordered_key(Random(i).next())
}

/// Returns options for small SSTs and for levels of about 500, 5,000 and 50,000 keys.
fn small_levels(storage: &Memory, policy: Arc<dyn FilterPolicy>) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        filter: Some(policy),
        hash_seed: Some(7),
        l0_compaction_trigger: 1,
        table_size_bytes: 15_000,
        // Level 1 has room for two SSTs, each with data padded to 16,384 bytes.
        level_base_bytes: 35_000,
        level_size_ratio: 10,
        ..Options::default()
    }
}

/// Loads keys. After each group it flushes and waits for all compactions, so that every
/// execution of the test makes the same SSTs.
fn load(db: &Db, keys: impl Iterator<Item = [u8; 16]>, group: u64, mut after_group: impl FnMut(&Db)) {
    for (i, key) in (1..).zip(keys) {
        db.put(&key, &VALUE).unwrap();
        if i % group == 0 {
            db.flush().unwrap();
            db.wait_idle().unwrap();
            after_group(db);
        }
    }
}

struct Measured {
    keys: Vec<u64>,
    filter_bytes: u64,
    reads: u64,
    expected: f64,
}

fn absent_reads_of_three_levels(policy: Arc<dyn FilterPolicy>) -> Measured {
    const KEYS: u64 = 60_000;
    // Most keys are loaded in bulk and move down to level 3. They get the filters that the policy
    // chooses for the deepest of three full levels. The other keys pass through all levels, so that
    // nearly all SSTs are rewritten.
    const BULK: u64 = 48_000;
    const LAST: u64 = 250;
    const GETS: u64 = 100_000;
    let storage = Memory::new();
    let options = || small_levels(&storage, Arc::clone(&policy));
    let deepest = policy.choose(&TableShape::new(50_000, 3, true).with_levels(full(10, 3, 500)));
    let bulk = Options {
        filter: Some(Arc::new(deepest.unwrap())),
        write_buffer_bytes: 1 << 30,
        table_size_bytes: 60_000,
        ..options()
    };
    let db = Db::open(DIR, bulk).unwrap();
    (0..BULK).for_each(|i| db.put(&mixed_key(i), &VALUE).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    let db = Db::open(DIR, options()).unwrap();
    load(&db, (BULK..KEYS - LAST).map(mixed_key), LAST, |_| {});
    db.close().unwrap();
    // The test compares full levels. A level 1 of this size accepts the last SST without another
    // compaction, which would leave level 1 partly empty.
    let db = Db::open(DIR, Options { level_base_bytes: 70_000, ..options() }).unwrap();
    load(&db, (KEYS - LAST..KEYS).map(mixed_key), LAST, |_| {});
    db.reset_stats();
    assert!((KEYS..KEYS + GETS).all(|i| db.get(&mixed_key(i)).unwrap().is_none()));
    let stats = db.stats();
    assert_eq!((stats.gets, stats.memory_hits, stats.total.points.true_positives), (GETS, 0, 0));
    assert_eq!(stats.total.block_reads, stats.total.points.false_positives);
    Measured {
        keys: stats.levels.iter().map(|level| level.keys).collect(),
        filter_bytes: stats.total.filter_bytes,
        reads: stats.total.block_reads,
        expected: stats.total.points.expected_false_positives,
    }
}

#[test]
fn monkey_reads_fewer_blocks_with_the_same_memory() {
    let uniform: FilterSpec = "bloom:10".parse().unwrap();
    let uniform = absent_reads_of_three_levels(Arc::new(uniform));
    let monkey = absent_reads_of_three_levels(Arc::new(Monkey::new(FilterKind::Bloom, 10.0).unwrap()));
    for Measured { keys, filter_bytes, reads, expected } in [&uniform, &monkey] {
        println!("{keys:?} keys, {filter_bytes} bytes of filters, {reads} block reads, {expected:.0} expected");
        assert_eq!((keys.len(), keys[0]), (4, 0));
        assert!(keys[1..].windows(2).all(|pair| (6..=13).contains(&(pair[1] / pair[0]))), "{keys:?}");
        assert!((*reads as f64 - expected).abs() < 5.0 * expected.sqrt());
    }
    let memory = monkey.filter_bytes as f64 / uniform.filter_bytes as f64;
    let gain = uniform.reads as f64 / monkey.reads as f64;
    println!("block reads divided by {gain:.2}, memory multiplied by {memory:.4}");
    assert!((0.98..=1.01).contains(&memory) && gain >= 1.9, "{gain} {memory}");
}

/// Loads keys under a memory budget. Returns the maximum size of all filters during the load and
/// their size after a full compaction, both in bytes. The third number is the number of compactions
/// that a second full compaction runs.
fn filter_bytes_under(total: u64, keys: impl Iterator<Item = [u8; 16]>) -> (u64, u64, u64) {
    let storage = Memory::new();
    let budget = MemoryBudget::new(FilterKind::Bloom, total).unwrap();
    let small = small_levels(&storage, Arc::new(budget));
    let db = Db::open(DIR, Options { table_size_bytes: 30_000, level_base_bytes: 70_000, ..small }).unwrap();
    let mut most = 0;
    load(&db, keys, 500, |db| most = most.max(db.stats().total.filter_bytes));
    db.compact_range(..).unwrap();
    db.wait_idle().unwrap();
    let (after, compactions) = (db.stats().total.filter_bytes, db.stats().compactions);
    db.compact_range(..).unwrap();
    (most, after, db.stats().compactions - compactions)
}

#[test]
fn a_memory_budget_holds_after_a_compaction_and_nearly_before() {
    const TOTAL: u64 = 100_000;
    // The budget is 10 bits for each of 80,000 keys, including the overhead of such small filters.
    let (most, after, again) = filter_bytes_under(TOTAL, (0..80_000).map(mixed_key));
    println!("random order: at most {most}, {after} after a compaction, then {again} compactions");
    assert!(most <= TOTAL * 11 / 10 && (TOTAL * 3 / 4..=TOTAL).contains(&after) && again == 0);
    // Keys in sorted order never cause a rewrite by themselves.
    let (most, after, again) = filter_bytes_under(TOTAL, (0..80_000).map(ordered_key));
    println!("in order: at most {most}, {after} after a compaction, then {again} compactions");
    assert!(most <= 2 * TOTAL && (TOTAL * 3 / 4..=TOTAL).contains(&after) && again == 0);
}

#[test]
fn a_full_compaction_gives_ssts_the_filters_of_a_new_policy() {
    let storage = Memory::new();
    let open = |spec: &str| {
        let spec: FilterSpec = spec.parse().unwrap();
        Db::open(DIR, Options { l0_compaction_trigger: 4, ..small_levels(&storage, Arc::new(spec)) }).unwrap()
    };
    let db = open("bloom:10");
    load(&db, (0..2_000).map(mixed_key), 125, |_| {});
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let mut filter_bytes = Vec::new();
    // The changes from one filter to the next are: none, slightly smaller, much larger, slightly
    // larger, another kind.
    for (spec, is_new) in
        [("bloom:10", false), ("bloom:9.5", true), ("bloom:20", true), ("bloom:22", false), ("always-maybe", true)]
    {
        let db = open(spec);
        db.compact_range(..).unwrap();
        let stats = db.stats();
        assert_eq!(stats.compactions > 0, is_new, "{spec}");
        assert_eq!(stats.total.keys, 2_000);
        assert!((0..2_000).all(|i| db.get(&mixed_key(i)).unwrap().is_some()));
        filter_bytes.push(stats.total.filter_bytes);
        db.close().unwrap();
    }
    assert!(filter_bytes[1] < filter_bytes[0] && filter_bytes[2] > filter_bytes[0] * 3 / 2, "{filter_bytes:?}");
}
