//! Tests that filters save reads and change no answer, whether they are used, ignored, absent or
//! damaged.

use std::path::{Path, PathBuf};

use crate::common::{self, DIR, change, files, filter_range, image, key, quiet};
use filterblock::{PrefixExtractor, Verify};
use filterblock_store::lsm::FilterUse;
use filterblock_store::repair::RepairMode;
use filterblock_store::sstable::FilterMemory;
use filterblock_store::storage::{Disk, IoMode, Memory, Storage};
use filterblock_store::{Db, Options};

/// Flips one bit in the filter of each SST, and returns the paths of the SSTs. `choose` picks the
/// byte from the range of the filter.
fn damage_filters(storage: &Memory, mut choose: impl FnMut(std::ops::Range<usize>) -> usize) -> Vec<PathBuf> {
    let tables = files(storage, Path::new(DIR), ".sst");
    for path in &tables {
        change(storage, path, |bytes| {
            let place = filter_range(bytes);
            assert!(!place.is_empty());
            bytes[choose(place)] ^= 0x10;
        });
    }
    tables
}

/// Creates four SSTs that span the same range, each with every fourth key. All keys greater than
/// `key(4*keys_per_table-1)` are absent, and so are all keys that end in `x`.
fn four_tables(keys_per_table: u64) -> Memory {
    let storage = Memory::new();
    common::make_store(&storage, 4, keys_per_table);
    storage
}

fn absent(i: u64) -> Vec<u8> {
    [key(i).as_slice(), b"x"].concat()
}

#[test]
fn filters_are_queried_and_save_the_reads() {
    let storage = four_tables(1_000);
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    // Start where all four SSTs cover the key.
    assert!((3..3_903).all(|i| db.get(&absent(i)).unwrap().is_none()));
    let stats = db.stats();
    let total = &stats.total;
    assert_eq!((stats.gets, total.points.probes, total.points.true_positives), (3_900, 4 * 3_900, 0), "{total:?}");
    assert_eq!(total.points.true_negatives + total.points.false_positives, total.points.probes);
    assert!(total.points.true_negatives > 4 * 3_900 * 97 / 100, "{total:?}");
    assert_eq!(total.block_reads, total.points.false_positives);
    assert!(total.block_reads < 3_900 / 10, "{total:?}");
    assert_eq!((total.points.degraded, total.points.unfiltered, total.degraded_tables), (0, 0, 0));

    db.reset_stats();
    let keys: Vec<_> = (3..3_903).map(absent).collect();
    assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_none));
    assert_eq!(db.stats().total.points.probes, 4 * 3_900);
    assert!(db.stats().total.block_reads < 3_900 / 10);

    let ignoring = Options { filter_use: FilterUse::Ignore, ..quiet(&image(&storage)) };
    let db = Db::open(DIR, ignoring).unwrap();
    assert!((3..103).all(|i| db.get(&absent(i)).unwrap().is_none()));
    let total = db.stats().total;
    assert_eq!((total.points.probes, total.points.unfiltered, total.block_reads), (0, 400, 400), "{total:?}");
}

#[test]
fn a_flipped_bit_loses_no_key_and_is_reported_once() {
    let sound = four_tables(150);
    let len = filter_range(&sound.read(&files(&sound, Path::new(DIR), ".sst")[0]).unwrap()).len();
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        for at in (0..len).step_by(7).chain((len - 64..len).step_by(2)) {
            let storage = image(&sound);
            let tables = damage_filters(&storage, |place| place.start + at);
            let db = Db::open(DIR, Options { verify, ..quiet(&storage) }).unwrap();
            for round in 0..2 {
                assert!((0..600).all(|i| db.get(&key(i)).unwrap() == Some(key(i))), "{verify:?}, byte {at}");
                assert!((0..590).all(|i| db.get(&absent(i)).unwrap().is_none()), "{verify:?}, byte {at}");
                let stats = db.stats();
                assert_eq!(stats.reports.len(), 4, "round {round}: {:?}", stats.reports);
                for table in &tables {
                    let name = table.to_str().unwrap();
                    let about = stats.reports.iter().filter(|report| report.starts_with(name)).count();
                    assert_eq!(about, 1, "{name}: {:?}", stats.reports);
                }
                assert_eq!(stats.total.degraded_tables, 4);
                if verify == Verify::AtOpen {
                    assert!(stats.total.points.degraded > 590, "{:?}", stats.total);
                }
            }
            assert!(!db.verify().unwrap().is_sound());
            // A merge of SSTs with damaged filters writes sound filters.
            db.compact_range(..).unwrap();
            assert!(db.verify().unwrap().is_sound());
            assert_eq!(db.stats().total.degraded_tables, 0);
        }
    }
}

#[test]
fn a_damaged_page_costs_only_the_reads_it_would_have_saved() {
    let sound = four_tables(20_000);
    let storage = image(&sound);
    let tables = files(&storage, Path::new(DIR), ".sst");
    let mut page = 0;
    change(&storage, &tables[0], |bytes| {
        let place = filter_range(bytes);
        assert!(place.len() > 5 * 4096);
        page = place.start + 2 * 4096;
        bytes[page + 77] ^= 1;
    });
    let db = Db::open(DIR, Options { verify: Verify::OnFirstTouch, ..quiet(&storage) }).unwrap();
    assert_eq!(db.stats().reports, Vec::<String>::new());
    assert!((0..80_000).all(|i| db.get(&key(i)).unwrap() == Some(key(i))));
    db.reset_stats();
    assert!((0..70_000).all(|i| db.get(&absent(i)).unwrap().is_none()));
    let stats = db.stats();
    assert_eq!((stats.reports.len(), stats.total.degraded_tables), (1, 1), "{:?}", stats.reports);
    assert!(stats.reports[0].starts_with(tables[0].to_str().unwrap()), "{:?}", stats.reports);
    assert!(stats.reports[0].contains(&format!("checksum of page at offset {page} ")), "{:?}", stats.reports);
    // A "maybe" from a damaged page does not count as a false positive.
    let expected = stats.total.points.expected_false_positives;
    assert!(
        (stats.total.points.false_positives as f64) < expected * 1.5 && stats.total.points.degraded > 2_000,
        "{:?}",
        stats.total
    );
    // About one page in six of one filter in four answers "maybe".
    assert!((6_000..25_000).contains(&stats.total.block_reads), "{:?}", stats.total);
}

#[test]
fn strict_filters_make_damage_an_error_that_names_the_file() {
    let sound = four_tables(20_000);
    let storage = image(&sound);
    let tables = damage_filters(&storage, |place| place.start + 4096);
    let strict = |verify| Options { verify, strict_filters: true, ..quiet(&storage) };
    let error = Db::open(DIR, strict(Verify::AtOpen)).unwrap_err();
    assert!(error.is_damage(), "{error}");
    assert!(tables.iter().any(|table| error.to_string().starts_with(&format!("{}: ", table.display()))), "{error}");

    let db = Db::open(DIR, strict(Verify::OnFirstTouch)).unwrap();
    let results: Vec<_> = (0..2_000).map(|i| db.get(&key(i))).collect();
    let errors: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(!errors.is_empty(), "no read reported the damaged page");
    for error in errors {
        assert!(error.is_damage(), "{error}");
        assert!(tables.iter().any(|table| error.to_string().starts_with(&format!("{}: ", table.display()))), "{error}");
    }
    // Every successful read returns the right value.
    assert!(results.iter().zip(0..).all(|(result, i)| result.as_ref().map_or(true, |value| *value == Some(key(i)))));
    // The damage of ignored filters does not matter.
    let ignoring = Options { filter_use: FilterUse::Ignore, ..strict(Verify::OnFirstTouch) };
    drop(db);
    let db = Db::open(DIR, ignoring).unwrap();
    assert!((0..2_000).all(|i| db.get(&key(i)).unwrap() == Some(key(i))));
    drop(db);
    // Without damage, strict filters change no answer.
    let db = Db::open(DIR, Options { strict_filters: true, ..quiet(&sound) }).unwrap();
    assert!((0..2_000).all(|i| db.get(&key(i)).unwrap() == Some(key(i))));
}

#[test]
fn filters_on_disk_behave_alike_in_every_read_mode() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let options = || Options { auto_compaction: false, ..Options::default() };
    let db = Db::open(dir, options()).unwrap();
    (0..20_000).for_each(|i| db.put(&key(i), &key(i)).unwrap());
    db.close().unwrap();
    let table = files(&Disk, dir, ".sst").remove(0);
    change(&Disk, &table, |bytes| {
        let place = filter_range(bytes);
        bytes[place.start + 3 * 4096] ^= 8;
    });
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        for filter_memory in [FilterMemory::Mapped, FilterMemory::Heap] {
            for io in [IoMode::Buffered, IoMode::Direct] {
                let db = Db::open(dir, Options { verify, filter_memory, io, ..options() }).unwrap();
                assert!((0..20_000).step_by(3).all(|i| db.get(&key(i)).unwrap() == Some(key(i))));
                assert!((0..19_999).step_by(30).all(|i| db.get(&absent(i)).unwrap().is_none()));
                let stats = db.stats();
                assert_eq!((stats.reports.len(), stats.total.degraded_tables), (1, 1), "{:?}", stats.reports);
                let spared = stats.total.points.true_negatives > 0;
                assert_eq!(spared, verify == Verify::OnFirstTouch, "{:?}", stats.total);
                drop(db);
                let strict = Options { verify, filter_memory, io, strict_filters: true, ..options() };
                // Query absent keys, because only absent keys certainly reach the damaged page: a
                // page is verified before one of its zero bits denies a key.
                let ask = |db: Db| (0..20_000).try_for_each(|i| db.get(&absent(i)).map(drop));
                let result = Db::open(dir, strict).and_then(ask);
                common::assert_names(&result.unwrap_err(), &table);
            }
        }
    }
}

/// The builder of the filter panics, and the store writes its SSTs without a filter.
#[test]
fn a_filter_that_cannot_be_built_refuses_no_write() {
    // The hook of panics prints nothing for `resume_unwind`.
    let panics = |taken: &[u8]| if taken == key(500) { std::panic::resume_unwind(Box::new(())) } else { Some(3) };
    let memory = Memory::new();
    let extractor = PrefixExtractor::named("panics", panics).unwrap();
    let db = Db::open(DIR, Options { prefix_extractor: extractor.into(), ..quiet(&memory) }).unwrap();
    let write = |from: u64| {
        (from..from + 400).for_each(|i| db.put(&key(i), b"value").unwrap());
        db.flush().unwrap();
    };
    let get_all = || (0..800).for_each(|i| assert_eq!(db.get(&key(i)).unwrap().as_deref(), Some(&b"value"[..]), "{i}"));
    write(0);
    assert!(db.stats().reports.is_empty());
    write(400);
    get_all();
    let reports = db.stats().reports;
    assert!(reports.len() == 1 && reports[0].contains(": written without a filter: a call that adds a key panicked"));
    db.compact_range(..).unwrap();
    get_all();
    let stats = db.stats();
    assert_eq!((stats.reports.len(), stats.failed_filters), (2, 2), "{:?}", stats.reports);
    assert!(db.get(b"key000500x").unwrap().is_none());
    assert_eq!(db.stats().total.points.unfiltered, stats.total.points.unfiltered + 1);
    db.close().unwrap();
    // A repair writes an SST anew whose index is damaged, and says that the new one has no filter.
    for path in files(&memory, Path::new(DIR), ".sst") {
        change(&memory, &path, |bytes| {
            let index = common::footer_number(bytes, 40);
            bytes[index] ^= 1;
        });
    }
    let extractor = PrefixExtractor::named("panics", panics).unwrap();
    let with_bug = Options { prefix_extractor: extractor.into(), ..quiet(&memory) };
    let report = Db::repair(DIR, with_bug, RepairMode::Write).unwrap();
    let told =
        report.doubts.iter().filter(|doubt| doubt.contains(": written without a filter: a call that adds a key"));
    assert_eq!((told.count(), report.tables_rewritten), (1, 1), "{report}");
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    assert!((0..800).all(|i| db.get(&key(i)).unwrap().is_some()));
    assert!(db.get(b"key").unwrap().is_none());
}
