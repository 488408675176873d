//! Tests that the map of level 0 changes no answer, and that reads count the same with it and without
//! it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, Random, change, files, image, key, make_store};
use filterblock::{FilterSpec, Verify, policy::FilterPolicy, policy::TableShape};
use filterblock_store::lsm::{LevelStats, ProbeStats, Snapshot};
use filterblock_store::storage::Memory;
use filterblock_store::{Db, Options};

/// Returns options for a store without automatic compaction that maps two SSTs or more.
fn quiet(storage: &Memory) -> Options {
    Options { run_map_trigger: Some(2), ..common::quiet(storage) }
}

/// Opens a store, and waits until level 0 has its map.
fn open(storage: &Memory, options: Options) -> Db {
    let db = Db::open(DIR, Options { storage: Arc::new(storage.clone()), ..options }).unwrap();
    db.wait_idle().unwrap();
    db
}

fn level_0(db: &Db) -> LevelStats {
    db.stats().levels.first().cloned().unwrap_or_default()
}

/// Returns the counts that do not depend on chance: probes, true positives, degraded, unfiltered.
fn sure(stats: &ProbeStats) -> [u64; 4] {
    [stats.probes, stats.true_positives, stats.degraded, stats.unfiltered]
}

fn keys(range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(key).collect()
}

/// Asks for all keys, one by one and in batches.
fn ask(db: &Db, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let single: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
    assert_eq!(db.multi_get(keys).unwrap(), single);
    single
}

/// More than 64 runs, tombstones, SSTs with ranges of their own, and SSTs without a filter.
#[test]
fn reads_count_the_same_with_and_without_the_map() {
    let storage = Memory::new();
    let without_some = |shape: &TableShape| (shape.num_keys != 58).then(|| "blocked-bloom:16".parse().unwrap());
    let options =
        |run_map_trigger| Options { filter: Some(Arc::new(without_some)), run_map_trigger, ..quiet(&storage) };
    for has_unfiltered in [false, true] {
        let db = open(&storage, options(Some(2)));
        for run in 0..50u64 {
            // Each other SST overlaps all others; the rest has a range of its own.
            let key_of = |i: u64| if run % 2 == 0 { i * 50 + run } else { run * 60 + i };
            let len = if has_unfiltered && run % 10 == 3 { 57 } else { 60 };
            (0..len).for_each(|i| db.put(&key(key_of(i)), &key(run)).unwrap());
            db.delete(&key(run)).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        let storage = image(&storage);
        let (with, without) = (open(&storage, options(Some(2))), open(&image(&storage), options(None)));
        let keys = keys(0..4_000);
        assert_eq!(ask(&with, &keys), ask(&without, &keys));
        let (with, without) = (level_0(&with), level_0(&without));
        let num_unfiltered = if has_unfiltered { 5 } else { 0 };
        assert_eq!((with.mapped_tables, without.mapped_tables), (with.tables - num_unfiltered, 0));
        assert_eq!(sure(&with.points), sure(&without.points), "{with:?}\n{without:?}");
        assert!(with.points.probes > 100_000 && with.points.true_positives > 4_000);
        let (found, expected) = (with.points.false_positives as f64, with.points.expected_false_positives);
        assert!(found < expected * 2.0 + 20.0 && expected > 0.0, "{found} false positives, {expected} expected");
        assert!(expected < without.points.expected_false_positives / 3.0);
    }
}

#[test]
fn a_miss_through_100_runs_reads_almost_no_block() {
    let storage = Memory::new();
    make_store(&storage, 100, 200);
    let db = open(&storage, quiet(&storage));
    let absent: Vec<_> = (100..19_900).map(|i| [key(i), b"x".to_vec()].concat()).collect();
    assert!(ask(&db, &keys(0..20_000)).iter().zip(0..).all(|(value, i)| *value == Some(key(i))));
    let one_by_one = || assert!(absent.iter().all(|key| db.get(key).unwrap().is_none()));
    let in_batches = || assert!(db.multi_get(&absent).unwrap().iter().all(Option::is_none));
    for ask_absent in [&one_by_one as &dyn Fn(), &in_batches] {
        db.reset_stats();
        ask_absent();
        let level = level_0(&db);
        // All SSTs cover all keys, so each get counts each SST once, also after a false positive.
        assert_eq!((level.mapped_tables, level.points.probes), (100, 100 * absent.len() as u64));
        assert!(level.points.false_positives > 0 && level.block_reads == level.points.false_positives, "{level:?}");
        assert!(level.block_reads * 1_000 <= absent.len() as u64, "{level:?}");
        assert!(level.map_memory_bytes * 8 <= 36 * 20_000 + 8_000, "{level:?}");
    }
}

/// A map numbers 256 runs. The oldest SSTs are asked by their filters.
#[test]
fn more_runs_than_a_map_can_number_are_asked_by_their_filters() {
    let storage = Memory::new();
    let db = open(&storage, quiet(&storage));
    for run in 0..300u64 {
        (0..20).for_each(|i| db.put(&key(i * 300 + run), &key(run)).unwrap());
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let check = |db: &Db| {
        let level = level_0(db);
        assert!(level.tables == 300 && (190..=256).contains(&level.mapped_tables), "{level:?}");
        assert!(ask(db, &keys(0..6_000)).iter().zip(0..).all(|(value, i)| *value == Some(key(i % 300))));
    };
    check(&db);
    db.close().unwrap();
    let db = open(&storage, quiet(&storage));
    check(&db);
    assert_eq!(level_0(&db).mapped_tables, 256);
}

#[test]
fn an_sst_whose_keys_cannot_be_read_is_asked_by_its_filter() {
    let storage = Memory::new();
    make_store(&storage, 6, 100);
    let damaged = files(&storage, Path::new(DIR), ".sst")[2].clone();
    change(&storage, &damaged, |bytes| bytes[40] ^= 1);
    let db = open(&storage, quiet(&storage));
    assert_eq!((level_0(&db).tables, level_0(&db).mapped_tables), (6, 5));
    let mut errors = 0;
    for i in 0..600 {
        match db.get(&key(i)) {
            Ok(value) => assert_eq!(value, Some(key(i))),
            Err(error) => {
                assert!(error.is_damage() && error.to_string().starts_with(damaged.to_str().unwrap()), "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > 10, "{errors}");
}

#[test]
fn the_map_stays_within_the_memory_budget_of_the_filters() {
    let storage = Memory::new();
    make_store(&storage, 8, 2_000);
    let filters = level_0(&open(&image(&storage), quiet(&storage))).filter_memory_bytes;
    let map = level_0(&open(&image(&storage), quiet(&storage))).map_memory_bytes;
    for (budget, is_mapped) in [(filters / 2, false), (filters + map, false), (filters + 2 * map + 12_000, true)] {
        let db = open(&image(&storage), Options { filter_memory_budget: Some(budget), ..quiet(&storage) });
        let level = level_0(&db);
        assert_eq!(level.mapped_tables, if is_mapped { 8 } else { 0 }, "{budget}: {level:?}");
        assert!(!is_mapped || level.filter_memory_bytes + level.map_memory_bytes <= budget, "{level:?}");
        assert!(ask(&db, &keys(0..16_000)).iter().all(Option::is_some));
        // The SSTs of flushes obey the budget, too.
        (0..2_000).for_each(|i| db.put(&key(20_000 + i), b"").unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let level = level_0(&db);
        assert!(level.map_memory_bytes == 0 || level.filter_memory_bytes + level.map_memory_bytes <= budget);
        assert!(ask(&db, &keys(20_000..22_000)).iter().all(Option::is_some));
    }
}

/// A map that is made and then does not fit must not be made again and again.
#[test]
fn small_stores_with_small_budgets_come_to_rest() {
    for (tables, keys_per_table) in [(2, 1), (2, 2), (3, 4), (12, 1), (23, 1), (39, 1)] {
        let storage = Memory::new();
        make_store(&storage, tables, keys_per_table);
        let filters = level_0(&open(&image(&storage), quiet(&storage))).filter_memory_bytes;
        for room in [0, 70, 100, 190, 300, 8_000, 8_300, 8_600, 9_000, 20_000] {
            let budget = if room == 0 { 1 } else { filters + room };
            let options = Options { filter_memory_budget: Some(budget), ..quiet(&storage) };
            let db = open(&image(&storage), options);
            for i in 0..4 {
                db.put(b"hot", &key(i)).unwrap();
                db.flush().unwrap();
                db.wait_idle().unwrap();
            }
            let keys = keys(0..tables * keys_per_table);
            assert!(ask(&db, &keys).iter().zip(0..).all(|(value, i)| *value == Some(key(i))));
            let level = level_0(&db);
            assert!(
                level.mapped_tables == 0 || level.filter_memory_bytes + level.map_memory_bytes <= budget,
                "{level:?}"
            );
        }
    }
}

#[test]
fn few_ssts_are_asked_by_their_filters() {
    let storage = Memory::new();
    make_store(&storage, 11, 50);
    let db = open(&storage, common::quiet(&storage));
    assert_eq!((level_0(&db).mapped_tables, level_0(&db).map_memory_bytes), (0, 0));
    db.put(b"one more", b"").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(level_0(&db).mapped_tables, 12);
    assert!(ask(&db, &keys(0..550)).iter().zip(0..).all(|(value, i)| *value == Some(key(i))));
}

#[test]
fn a_store_closes_while_its_map_is_made() {
    let storage = Memory::new();
    make_store(&storage, 10, 3_000);
    for i in 0..30 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        if i % 3 > 0 {
            assert_eq!(db.get(&key(i)).unwrap(), Some(key(i)));
        }
        db.close().unwrap();
    }
}

/// The keys of a history. Few keys share runs; the other half stays absent.
const KEYS: u64 = 24;

/// The content that a reader must find.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store with a small history: flushes, compactions, reopens, crashes and damaged filters.
struct History {
    storage: Memory,
    options: Options,
    db: Option<Db>,
    model: Model,
    snapshot: Option<(Snapshot, Model)>,
    random: Random,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let storage = Memory::new();
        let filter = ["blocked-bloom:16", "bumped-ribbon:8", "bloom:3", "split-block:10"][random.below(4) as usize];
        let filter: FilterSpec = filter.parse().unwrap();
        let filter: Arc<dyn FilterPolicy> = match random.below(3) {
            // Some SSTs have no filter.
            0 => Arc::new(move |shape: &TableShape| (!shape.num_keys.is_multiple_of(3)).then_some(filter)),
            _ => Arc::new(filter),
        };
        let extractor = if random.below(4) == 0 { "fixed:4" } else { "none" };
        let options = Options {
            filter: Some(filter),
            prefix_extractor: extractor.parse().unwrap(),
            auto_compaction: random.below(4) == 0,
            l0_compaction_trigger: 3,
            write_buffer_bytes: 1 << 14,
            block_size_bytes: 256,
            verify: if random.below(2) == 0 { Verify::AtOpen } else { Verify::OnFirstTouch },
            ..quiet(&storage)
        };
        let mut history = Self { storage, options, db: None, model: Model::new(), snapshot: None, random };
        history.reopen();
        history
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        let options = Options { storage: Arc::new(self.storage.clone()), ..self.options.clone() };
        self.db = Some(Db::open(DIR, options).unwrap());
    }

    fn step(&mut self) {
        let key = key(self.random.below(KEYS) * 2);
        match self.random.below(40) {
            0..16 => {
                let value = self.random.next().to_le_bytes().to_vec();
                self.db().put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
            16..22 => {
                self.db().delete(&key).unwrap();
                self.model.remove(&key);
            }
            22..32 => self.db().flush().unwrap(),
            32 => self.db().compact_range(..).unwrap(),
            33 => self.db().compact_range(..=key.as_slice()).unwrap(),
            34..37 => self.db().wait_idle().unwrap(),
            37 => self.snapshot = Some((self.db().snapshot(), self.model.clone())),
            38 => {
                self.snapshot = None;
                self.db.take().unwrap().close().unwrap();
                self.damage();
                self.reopen();
            }
            _ => {
                // A crash that loses nothing. The old store closes later. A compaction must not remove
                // files while they are copied.
                self.snapshot = None;
                self.db().flush().unwrap();
                self.db().wait_idle().unwrap();
                let storage = image(&self.storage);
                self.storage = storage;
                self.damage();
                self.reopen();
            }
        }
    }

    /// Flips a bit anywhere in the filter of some SSTs.
    fn damage(&mut self) {
        for path in files(&self.storage, Path::new(DIR), ".sst") {
            if self.random.below(8) == 0 {
                change(&self.storage, &path, |bytes| {
                    let filter = common::filter_range(bytes);
                    if !filter.is_empty() {
                        bytes[filter.start + self.random.below(filter.len() as u64) as usize] ^= 1;
                    }
                });
            }
        }
    }

    fn check(&self) {
        let keys = keys(0..2 * KEYS);
        let wanted: Vec<_> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        assert_eq!(ask(self.db(), &keys), wanted);
        let mut backwards: Vec<_> = self.db().scan(..).rev().map(Result::unwrap).collect();
        backwards.reverse();
        assert_eq!(common::scan_all(self.db()), backwards);
        assert!(self.model.clone().into_iter().eq(backwards));
        if let Some((snapshot, model)) = &self.snapshot {
            let wanted: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
            assert_eq!(snapshot.multi_get(&keys).unwrap(), wanted, "a snapshot differs");
            let single: Vec<_> = keys.iter().map(|key| snapshot.get(key).unwrap()).collect();
            assert_eq!(single, wanted, "a snapshot differs");
        }
    }

    /// Compares the answers and the counts with those of the same files without the map.
    fn compare(&self) {
        self.db().flush().unwrap();
        self.db().wait_idle().unwrap();
        let storage = image(&self.storage);
        let options = Options { auto_compaction: false, ..self.options.clone() };
        let without = open(&storage, Options { run_map_trigger: None, ..options });
        let keys = keys(0..2 * KEYS);
        self.db().reset_stats();
        assert_eq!(ask(self.db(), &keys), ask(&without, &keys));
        // On the first touch, only the filters that were asked are known to be damaged.
        if self.options.prefix_extractor.to_string() == "none" && self.options.verify == Verify::AtOpen {
            let (with, without) = (level_0(self.db()), level_0(&without));
            assert_eq!(sure(&with.points), sure(&without.points), "{with:?}\n{without:?}");
        }
    }
}

fn run_histories(seeds: std::ops::Range<u64>) {
    let mut most_mapped = 0;
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            for _ in 0..30 {
                history.step();
                if history.random.below(6) == 0 {
                    history.check();
                }
            }
            history.check();
            if seed % 8 == 0 {
                history.compare();
            }
            level_0(history.db()).mapped_tables
        });
        let Ok(mapped) = outcome else { panic!("the history with seed {seed} failed") };
        most_mapped = most_mapped.max(mapped);
    }
    assert!(most_mapped >= 4, "no history used a map of more than {most_mapped} SSTs");
}

/// `FILTERBLOCK_HISTORIES` sets the number of histories; the default is 400.
#[test]
fn random_histories_find_every_key() {
    let count = std::env::var("FILTERBLOCK_HISTORIES").map_or(400, |text| text.parse().unwrap());
    std::thread::scope(|scope| {
        for range in [0..count / 2, count / 2..count] {
            scope.spawn(move || run_histories(range));
        }
    });
}
