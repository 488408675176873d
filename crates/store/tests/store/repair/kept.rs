//! Tests `Db::repair` on stores with a missing, cut or changed file.
//!
//! `FILTERBLOCK_EVERY_DAMAGE=1` tries every byte and every length. By default the tests try some of
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use crate::common::{self, DIR, change, contents, files, forget_manifest, image, key, quiet, scan_all};
use filterblock::{FilterSpec, policy::TableShape};
use filterblock_store::lsm::{Durability, Progress};
use filterblock_store::repair::{RepairMode, RepairReport};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;
type Edit<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Returns the distance between the places to damage, which is 1 with `FILTERBLOCK_EVERY_DAMAGE`.
fn step(default: usize) -> usize {
    if std::env::var_os("FILTERBLOCK_EVERY_DAMAGE").is_some() { 1 } else { default }
}

fn options(storage: &Memory) -> Options {
    Options { block_size_bytes: 256, table_size_bytes: 1_200, durability: Durability::Sync, ..quiet(storage) }
}

/// Returns a killed store and its content. The store has three SSTs in level 1, two SSTs in level 0
/// that delete some keys of level 1, and a log that deletes more keys.
fn damaged_soon() -> (Memory, Content) {
    let storage = Memory::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    (0..100).for_each(|i| db.put(&key(i), &[b'a'; 20]).unwrap());
    db.compact_range(..).unwrap();
    (30..60).for_each(|i| db.put(&key(i), &[b'b'; 20]).unwrap());
    (0..12).for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    (55..80).for_each(|i| db.put(&key(i), &[b'c'; 20]).unwrap());
    (36..44).for_each(|i| db.delete(&key(i)).unwrap());
    db.put(&key(5), b"again").unwrap();
    db.flush().unwrap();
    (0..10).for_each(|i| db.put(&key(i * 10), b"log").unwrap());
    (90..94).for_each(|i| db.delete(&key(i)).unwrap());
    common::remove_flushed_logs(&storage);
    let content = scan_all(&db).into_iter().collect();
    (image(&storage), content)
}

/// Repairs a store and checks the result. Returns the report and the keys whose values changed.
fn repair(storage: &Memory, content: &Content, what: &str) -> (RepairReport, Vec<Vec<u8>>) {
    let before = contents(storage);
    let said = Db::repair(DIR, options(storage), RepairMode::DryRun).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(contents(storage), before, "{what}: the dry run changed files");
    let report = Db::repair(DIR, options(storage), RepairMode::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(said.to_string(), report.to_string(), "{what}");
    assert_eq!(said.entries, report.entries, "{what}");
    for (_, kept) in &report.set_aside {
        let is_original = |path: &&PathBuf| common::name(kept).starts_with(common::name(path));
        assert_eq!(storage.read(kept).unwrap(), before[before.keys().find(is_original).unwrap()], "{what}");
    }
    let db = Db::open(DIR, options(storage))
        .unwrap_or_else(|error| panic!("{what}: the repaired store does not open: {error}\n{report}"));
    assert_eq!(db.stats().reports, Vec::<String>::new(), "{what}");
    let verified = db.verify().unwrap();
    assert!(verified.is_sound(), "{what}: {verified:?}");
    let found: Content = scan_all(&db).into_iter().collect();
    assert!((0..100).all(|i| db.get(&key(i)).unwrap().as_ref() == found.get(&key(i))), "{what}");
    db.put(b"on", b"it goes").unwrap();
    db.delete(b"on").unwrap();
    drop(db);
    let again = Db::repair(DIR, options(storage), RepairMode::Write).unwrap();
    assert!(again.was_sound(), "{what}: the second repair found damage:\n{again}");
    let db = Db::open(DIR, options(storage)).unwrap();
    assert_eq!(scan_all(&db).into_iter().collect::<Content>(), found, "{what}: the second repair changed the content");
    let keys: Vec<_> = (0..100).map(key).filter(|key| content.get(key) != found.get(key)).collect();
    assert!(found.keys().all(|key| key.starts_with(b"key")), "{what}");
    for key in &keys {
        let is_told = report.losses.iter().any(|loss| loss.keys.contains(key)) || !report.doubts.is_empty();
        assert!(
            is_told,
            "{what}: key {:?} has the value {:?}, which no loss or doubt covers\n{report}",
            key.escape_ascii().to_string(),
            found.get(key)
        );
        let known = [None, Some(&[b'a'; 20][..]), Some(&[b'b'; 20]), Some(&[b'c'; 20]), Some(b"again"), Some(b"log")];
        assert!(known.contains(&found.get(key).map(Vec::as_slice)), "{what}");
    }
    (report, keys)
}

#[test]
fn a_sound_store_stays_as_it_is() {
    let (storage, content) = damaged_soon();
    let (report, changed) = repair(&storage, &content, "sound");
    assert!(report.was_sound() && report.is_complete() && changed.is_empty(), "{report}");
    assert!(report.tables_kept >= 4 && report.tables_rewritten == 0);
    let reaches_its_end = |told: &[Progress]| {
        let last = told.last().unwrap();
        assert!(told.is_sorted_by_key(|progress| progress.done_bytes) && told.len() > 20, "{told:?}");
        assert!(told.iter().all(|progress| progress.total_bytes == last.done_bytes), "{told:?}");
    };
    let mut told = Vec::new();
    Db::repair_with(DIR, options(&storage), RepairMode::DryRun, &mut |progress| told.push(progress)).unwrap();
    reaches_its_end(&told);
    told.clear();
    Db::open(DIR, options(&storage)).unwrap().verify_with(&mut |progress| told.push(progress)).unwrap();
    reaches_its_end(&told);
    assert!(!storage.exists(&Path::new(DIR).join("lost")).unwrap());
}

#[test]
fn a_damaged_file_named_like_a_removed_sst_is_set_aside() {
    for damaged in [&b"\xa5\x5a damaged"[..], &[0x81; 5_000]] {
        let storage = Memory::new();
        let db = Db::open(DIR, options(&storage)).unwrap();
        (0..100).for_each(|i| db.put(&key(i), &[b'a'; 20]).unwrap());
        db.flush().unwrap();
        let before = files(&storage, Path::new(DIR), ".sst");
        db.compact_range(..).unwrap();
        let content = scan_all(&db).into_iter().collect();
        let storage = image(&storage);
        let after = files(&storage, Path::new(DIR), ".sst");
        let removed = before.into_iter().find(|path| !after.contains(path)).unwrap();
        common::replace(&storage, &removed, damaged);
        // `repair` checks that the second repair finds nothing.
        let (report, changed) = repair(&storage, &content, "a removed SST");
        assert!(report.is_complete() && changed.is_empty(), "{report}");
        assert_eq!(report.set_aside.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&removed], "{report}");
    }
}

#[test]
fn a_directory_without_a_store_is_refused_unchanged() {
    let storage = Memory::new();
    assert!(matches!(Db::repair(DIR, quiet(&storage), RepairMode::Write).unwrap_err().root(), Error::Io(_)));
    storage.create_dir_all(Path::new(DIR)).unwrap();
    common::replace(&storage, &Path::new(DIR).join("notes"), b"precious");
    let error = Db::repair(DIR, quiet(&storage), RepairMode::Write).unwrap_err();
    assert!(matches!(error.root(), Error::NotAStore), "{error}");
    assert_eq!(storage.list(Path::new(DIR)).unwrap(), ["notes"]);
    let (storage, _) = damaged_soon();
    let _open = Db::open(DIR, quiet(&storage)).unwrap();
    let error = Db::repair(DIR, quiet(&storage), RepairMode::DryRun).unwrap_err();
    assert!(matches!(error.root(), Error::Locked), "{error}");
}

/// Returns whether the report has no loss of keys and no doubt. Without a manifest, the report must
/// have exactly one doubt, which is about all SSTs of level 1 and deeper levels.
fn nothing_is_in_doubt(report: &RepairReport, without_manifest: bool) -> bool {
    let is_of_all = |doubt: &String| doubt.contains("no manifest says which SSTs");
    report.losses.iter().all(|loss| !loss.holds_keys())
        && report.doubts.len() == usize::from(without_manifest)
        && report.doubts.iter().all(is_of_all)
}

#[test]
fn a_store_without_manifest_or_current_loses_nothing() {
    let (sound, content) = damaged_soon();
    let (manifest, current) = (files(&sound, Path::new(DIR), "MANIFEST-").remove(0), Path::new(DIR).join("CURRENT"));
    for gone in [vec![&manifest], vec![&current], vec![&manifest, &current]] {
        let storage = image(&sound);
        gone.iter().for_each(|path| storage.remove(path).unwrap());
        let (report, changed) = repair(&storage, &content, &format!("{gone:?}"));
        assert!(changed.is_empty() && nothing_is_in_doubt(&report, gone.contains(&&manifest)), "{gone:?}\n{report}");
        assert!(!report.was_sound() && report.new_manifest && report.tables_rewritten == 0);
    }
}

#[test]
fn a_cut_or_flipped_manifest_costs_no_key() {
    let (sound, content) = damaged_soon();
    let paths = ["MANIFEST-", "CURRENT"].map(|kind| files(&sound, Path::new(DIR), kind).remove(0));
    for path in paths {
        let len = sound.read(&path).unwrap().len();
        for at in 0..len {
            let edits: [(&str, Edit<'_>); 3] = [
                ("cut", &|bytes| bytes.truncate(at)),
                ("flipped", &|bytes| bytes[at] ^= 1 << (at % 8)),
                ("zeroed", &|bytes| bytes[at..].fill(0)),
            ];
            // By default, each place gets one kind of damage.
            for (what, edit) in edits.into_iter().skip(at % step(3)).step_by(step(3)) {
                let storage = image(&sound);
                change(&storage, &path, edit);
                let what = format!("{} {what} at {at}", path.display());
                let (report, changed) = repair(&storage, &content, &what);
                assert!(changed.is_empty(), "{what}: {changed:?}\n{report}");
            }
        }
    }
}

/// Returns one in `step` offsets of an SST. If `step` is not 1, leaves out most of the zeros that lie
/// before the filter.
fn places(table: &[u8], step: usize) -> impl Iterator<Item = usize> {
    let zeros = common::footer_number(table, 16) + 64..common::filter_range(table).start.saturating_sub(64);
    (0..table.len()).step_by(step).filter(move |at| step == 1 || !zeros.contains(at))
}

#[test]
fn a_bit_flipped_in_a_table_costs_at_most_the_keys_of_its_block() {
    let (sound, content) = damaged_soon();
    for path in files(&sound, Path::new(DIR), ".sst") {
        let bytes = sound.read(&path).unwrap();
        let data_len = common::footer_number(&bytes, 16);
        for at in places(&bytes, step(7)) {
            let storage = image(&sound);
            change(&storage, &path, |bytes| bytes[at] ^= 1 << (at % 8));
            let what = format!("{}, bit flipped at {at}", path.display());
            let (report, changed) = repair(&storage, &content, &what);
            // A block has at most 16 entries, and no other part of the file holds entries.
            assert!(
                changed.len() <= if at < data_len { 16 } else { 0 },
                "{what}: {} keys changed\n{report}",
                changed.len()
            );
            assert!(report.is_complete() == (at >= data_len), "{what}\n{report}");
            assert!(report.losses.iter().all(|loss| loss.error.to_string().starts_with(path.to_str().unwrap())));
            assert_eq!((report.tables_rewritten, report.tables_lost), (1, 0), "{what}\n{report}");
        }
    }
}

#[test]
fn a_cut_table_keeps_its_whole_blocks() {
    let (sound, content) = damaged_soon();
    for path in files(&sound, Path::new(DIR), ".sst") {
        let bytes = sound.read(&path).unwrap();
        let data_len = common::footer_number(&bytes, 16);
        for cut in places(&bytes, step(13)) {
            let storage = image(&sound);
            change(&storage, &path, |bytes| bytes.truncate(cut));
            let what = format!("{} cut at {cut}", path.display());
            let (report, changed) = repair(&storage, &content, &what);
            assert!(cut < data_len || changed.is_empty() && report.is_complete(), "{what}\n{report}");
            if report.tables_rewritten == 1 && cut < data_len {
                // The loss begins after the keys in the blocks before the cut.
                let loss = report.losses.iter().find(|loss| loss.holds_keys()).unwrap();
                assert!(!loss.keys.contains(b"key000000") || cut < 700, "{what}: {loss}");
            }
        }
    }
}

#[test]
fn a_missing_or_zeroed_table_loses_only_its_key_range() {
    let (sound, content) = damaged_soon();
    for path in files(&sound, Path::new(DIR), ".sst") {
        for is_missing in [true, false] {
            let storage = image(&sound);
            match is_missing {
                true => storage.remove(&path).unwrap(),
                false => change(&storage, &path, |bytes| bytes.fill(0)),
            }
            let (report, changed) = repair(&storage, &content, &format!("{} gone", path.display()));
            assert_eq!((report.tables_lost, report.losses.len(), report.doubts.len()), (1, 1, 0), "{report}");
            assert!(report.losses[0].error.to_string().starts_with(path.to_str().unwrap()), "{report}");
            assert!(!changed.is_empty() || report.losses[0].keys.contains(&key(0)));
            assert!(!report.losses[0].keys.contains(b"zzz"), "{report}");
        }
    }
}

#[test]
fn a_renamed_table_loses_nothing() {
    let (sound, content) = damaged_soon();
    let paths = files(&sound, Path::new(DIR), ".sst");
    let check = |storage: &Memory, tables: u64, what: &str| {
        assert!(Db::open(DIR, options(storage)).is_err(), "{what}");
        let (report, changed) = repair(storage, &content, what);
        assert!(report.is_complete() && changed.is_empty(), "{what}: {changed:?}\n{report}");
        assert_eq!((report.tables_rewritten, report.tables_lost), (tables, 0), "{what}\n{report}");
    };
    for (i, path) in paths.iter().enumerate() {
        let own = sound.read(path).unwrap();
        for other in &paths[i + 1..] {
            let storage = image(&sound);
            common::replace(&storage, path, &sound.read(other).unwrap());
            common::replace(&storage, other, &own);
            check(&storage, 2, &format!("{} and {} swapped", path.display(), other.display()));
        }
        let storage = image(&sound);
        storage.rename(path, &Path::new(DIR).join("000900.sst")).unwrap();
        check(&storage, 1, &format!("{} has a free name", path.display()));
    }
    // Each SST has the name of the next one.
    let storage = image(&sound);
    for (path, next) in paths.iter().zip(paths.iter().cycle().skip(1)) {
        common::replace(&storage, next, &sound.read(path).unwrap());
    }
    check(&storage, paths.len() as u64, "all SSTs have other names");
}

#[test]
fn a_table_that_replaced_another_one_costs_only_the_other_one() {
    let (sound, content) = damaged_soon();
    let paths = files(&sound, Path::new(DIR), ".sst");
    for (i, path) in paths.iter().enumerate() {
        let other = &paths[(i + 1) % paths.len()];
        for is_copy in [true, false] {
            let storage = image(&sound);
            common::replace(&storage, other, &sound.read(path).unwrap());
            if !is_copy {
                storage.remove(path).unwrap();
            }
            let what = format!("{} in place of {}, copied: {is_copy}", path.display(), other.display());
            let (report, _) = repair(&storage, &content, &what);
            assert_eq!((report.tables_rewritten, report.tables_lost), (u64::from(!is_copy), 1), "{what}\n{report}");
        }
    }
}

/// Without the footer, the repair cannot find the index. It then searches for blocks by their
/// checksums. After a damaged block, it tries only the offsets at which a block may begin.
#[test]
fn blocks_after_damage_are_found_without_an_index() {
    for compression in [filterblock_store::sstable::Compression::None, filterblock_store::sstable::Compression::Lz4] {
        let storage = Memory::new();
        let options = || Options { compression, ..quiet(&storage) };
        let db = Db::open(DIR, options()).unwrap();
        (0..3_000).for_each(|i| db.put(&key(i), format!("value {i} {}", "-".repeat(60)).as_bytes()).unwrap());
        db.close().unwrap();
        let path = files(&storage, Path::new(DIR), ".sst").remove(0);
        let len = storage.read(&path).unwrap().len();
        change(&storage, &path, |bytes| {
            bytes.truncate(len - 112);
            bytes[10_000..10_010].fill(0xff);
        });
        let report = Db::repair(DIR, options(), RepairMode::Write).unwrap();
        let db = Db::open(DIR, options()).unwrap();
        let lost: Vec<u64> = (0..3_000).filter(|i| db.get(&key(*i)).unwrap().is_none()).collect();
        assert!(!lost.is_empty() && lost.len() < 250, "{}\n{report}", lost.len());
        assert!(lost.iter().all(|&i| report.losses[0].keys.contains(&key(i))), "{report}");
        assert_eq!(report.losses.iter().filter(|loss| loss.holds_keys()).count(), 1, "{report}");
    }
}

#[test]
fn a_flipped_or_cut_log_loses_a_write_or_its_end_with_report() {
    let (sound, content) = damaged_soon();
    let path = files(&sound, Path::new(DIR), ".log").remove(0);
    let len = sound.read(&path).unwrap().len();
    for at in (0..len).step_by(step(3)) {
        let storage = image(&sound);
        change(&storage, &path, |bytes| bytes[at] ^= 1 << (at % 8));
        let (report, changed) = repair(&storage, &content, &format!("log flipped at {at}"));
        assert!(changed.len() <= 1 && !report.losses.is_empty(), "{at}: {changed:?}\n{report}");
    }
    for at in 0..len {
        let storage = image(&sound);
        change(&storage, &path, |bytes| bytes.truncate(at));
        let before = Db::repair(DIR, options(&storage), RepairMode::DryRun).unwrap();
        let report = Db::repair(DIR, options(&storage), RepairMode::Write).unwrap();
        assert_eq!(before.to_string(), report.to_string());
        let db = Db::open(DIR, options(&storage)).unwrap();
        // A cut at the end of a record leaves no trace.
        assert!(report.losses.len() == 1 || at >= 48, "{at}\n{report}");
        assert!((94..100).all(|i| db.get(&key(i)).unwrap().is_some()));
    }
    let storage = image(&sound);
    storage.remove(&path).unwrap();
    let (report, _) = repair(&storage, &content, "log missing");
    assert!(report.losses[0].error.to_string().starts_with(path.to_str().unwrap()), "{report}");
}

/// A memtable is flushed during a compaction. The SSTs that the compaction writes after the flush
/// have higher numbers but older content.
#[test]
fn a_flush_during_a_compaction_is_newer_despite_a_lower_number() {
    let storage = Memory::new();
    let (compacting, is_compacting) = mpsc::channel::<()>();
    let (flushed, is_flushed) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(Some((compacting, is_flushed)));
    let policy = move |shape: &TableShape| {
        if shape.level == 1
            && let Some((compacting, is_flushed)) = gate.lock().unwrap().take()
        {
            compacting.send(()).unwrap();
            is_flushed.recv().unwrap();
        }
        Some("blocked-bloom:10".parse::<FilterSpec>().unwrap())
    };
    let db = Db::open(DIR, Options { filter: Some(Arc::new(policy)), ..options(&storage) }).unwrap();
    (0..100).for_each(|i| db.put(&key(i), &[b'a'; 20]).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| db.compact_range(..).unwrap());
        is_compacting.recv().unwrap();
        (0..100).step_by(2).for_each(|i| db.delete(&key(i)).unwrap());
        (1..100).step_by(4).for_each(|i| db.put(&key(i), &[b'b'; 20]).unwrap());
        db.flush().unwrap();
        flushed.send(()).unwrap();
    });
    let content: Content = scan_all(&db).into_iter().collect();
    db.close().unwrap();
    forget_manifest(&storage);
    let (report, changed) = repair(&storage, &content, "no manifest");
    assert!(changed.is_empty() && nothing_is_in_doubt(&report, true), "{changed:?}\n{report}");
}

/// If the properties of SSTs are damaged and no manifest names the SSTs, a repair cannot know their
/// levels and sequence numbers. It takes the SST with the higher number as newer, and reports this
/// guess as a doubt.
#[test]
fn tables_with_damaged_properties_are_ordered_by_their_numbers() {
    let storage = Memory::new();
    storage.create_dir_all(Path::new(DIR)).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-store");
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let to = Path::new(DIR).join(path.file_name().unwrap());
        common::replace(&storage, &to, &std::fs::read(&path).unwrap());
    }
    let whole = scan_all(&Db::open(DIR, quiet(&image(&storage))).unwrap());
    for path in files(&storage, Path::new(DIR), ".sst") {
        change(&storage, &path, |table| {
            let properties = common::footer_number(table, 56);
            table[properties] ^= 1;
        });
    }
    forget_manifest(&storage);
    let report = Db::repair(DIR, quiet(&storage), RepairMode::Write).unwrap();
    assert!(!report.is_complete(), "{report}");
    let doubt = "/store/000007.sst: taken as newer than /store/000005.sst, whose key range overlaps; if this order is \
                 wrong, old values or deleted keys have come back; check the keys of both SSTs";
    assert_eq!(report.doubts, [doubt]);
    assert_eq!(scan_all(&Db::open(DIR, quiet(&storage)).unwrap()), whole);
    // The repaired store has copies of both SSTs. The numbers of the originals order them, but the
    // doubt names the copies.
    let tables = files(&storage, Path::new(DIR), ".sst");
    forget_manifest(&storage);
    let report = Db::repair(DIR, quiet(&storage), RepairMode::Write).unwrap();
    let [doubt] = report.doubts.as_slice() else { panic!("{report}") };
    assert_eq!(tables.iter().filter(|path| doubt.contains(path.to_str().unwrap())).count(), 2, "{doubt}");
    assert_eq!(scan_all(&Db::open(DIR, quiet(&storage)).unwrap()), whole);
}
