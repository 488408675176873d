//! Tests cases that a repair must not make worse.

use std::path::{Path, PathBuf};

use crate::common::{
    DIR, assert_names, change, files, forget_manifest, image, key, make_store, quiet, replace, seal_log_header,
};
use filterblock_store::lsm::Durability;
use filterblock_store::repair::{RepairMode, RepairReport};
use filterblock_store::sstable::Loss;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty, Operation};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Field, Options};

fn on(storage: &Faulty) -> Options {
    Options { durability: Durability::Sync, block_size_bytes: 256, ..quiet(storage) }
}

/// Returns whether a doubt of the report names an SST.
fn names_a_table(report: &RepairReport) -> bool {
    report.doubts.iter().any(|doubt| doubt.contains(".sst"))
}

/// A compaction has merged an SST into another one, a snapshot keeps the merged SST, and the
/// manifest is lost. The repair cannot know which of them the store still needs.
#[test]
fn a_merged_sst_that_a_snapshot_keeps_changes_no_key_silently() {
    type Case = (&'static str, bool, fn(&Db), fn(&RepairReport) -> bool);
    let cases: [Case; 3] = [
        ("one deleted key", true, |db| db.delete(&key(5)).unwrap(), names_a_table),
        // The result of the merge overlaps no key of the merged SST, so only the missing manifest
        // casts doubt.
        (
            "all keys deleted, and another put",
            true,
            |db| {
                (0..10).for_each(|i| db.delete(&key(i)).unwrap());
                db.put(&key(50), b"new").unwrap();
            },
            |report| !report.is_complete(),
        ),
        // A compaction takes all of level 0. So a flushed SST was an input of a merge if none of its
        // writes is newer than the merged SST.
        ("a new value above a flushed SST", false, |db| db.put(&key(5), b"new").unwrap(), |_| false),
    ];
    for (what, compacts_first, write, is_in_doubt) in cases {
        let storage = Memory::new();
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        (0..10).for_each(|i| db.put(&key(i), b"old").unwrap());
        if compacts_first {
            db.compact_range(..).unwrap()
        } else {
            db.flush().unwrap()
        }
        let snapshot = db.snapshot();
        write(&db);
        db.compact_range(..).unwrap();
        assert_eq!(files(&storage, Path::new(DIR), ".sst").len(), 2, "{what}");
        let killed = image(&storage);
        let wanted = db.get(&key(5)).unwrap();
        drop(snapshot);
        forget_manifest(&killed);
        let report = Db::repair(DIR, quiet(&killed), RepairMode::Write).unwrap();
        let found = Db::open(DIR, quiet(&killed)).unwrap().get(&key(5)).unwrap();
        assert!(found == wanted || is_in_doubt(&report), "{what}: {found:?}\n{report}");
    }
}

/// Returns a store with forty writes in a log, and the path of an SST with the same writes. The
/// SST has its final name, but the manifest does not name it.
fn flushed_and_not_named() -> (Faulty, PathBuf) {
    let storage = Faulty::new();
    let db = Db::open(DIR, on(&storage)).unwrap();
    (0..40).for_each(|i| db.put(&key(i), b"a value of some length").unwrap());
    storage.record();
    db.flush().unwrap();
    drop(db);
    let moments = storage.moments();
    let is_table = |path: &Path| path.to_string_lossy().contains(".sst");
    let named = moments.iter().position(|moment| moment.operation == Operation::Rename && is_table(&moment.path));
    let crashed = moments[named.unwrap() + 1].after(Crash::Kept, 0);
    let table = files(&crashed, Path::new(DIR), ".sst").remove(0);
    (crashed, table)
}

/// Returns how many of the forty writes are missing.
fn missing(storage: &Faulty) -> usize {
    let db = Db::open(DIR, on(storage)).unwrap();
    (0..40).filter(|&i| db.get(&key(i)).unwrap().is_none()).count()
}

#[test]
fn writes_in_a_log_are_not_lost_with_their_unnamed_table() {
    let (crashed, table) = flushed_and_not_named();
    type Edit = fn(&mut Vec<u8>);
    let edits: [Edit; 3] =
        [|bytes| bytes[100] ^= 1, |bytes| bytes.truncate(bytes.len() - 50), |bytes| bytes.truncate(90)];
    for edit in edits {
        crashed.damage(&table, edit).unwrap();
        assert_eq!(missing(&crashed.after(Crash::Kept, 0)), 0, "opened without a repair");
        for has_manifest in [true, false] {
            let image = crashed.after(Crash::Kept, 0);
            if !has_manifest {
                forget_manifest(&image);
            }
            let report = Db::repair(DIR, on(&image), RepairMode::Write).unwrap();
            assert_eq!(missing(&image), 0, "with a manifest: {has_manifest}; repaired:\n{report}");
        }
    }
}

/// An open that fails at any operation may leave files behind, such as a log without writes. These
/// files must not make a repair lose writes.
#[test]
fn writes_in_a_log_survive_a_failed_open_and_a_repair() {
    let (crashed, table) = flushed_and_not_named();
    crashed.damage(&table, |bytes| bytes[100] ^= 1).unwrap();
    let mut failed = 0;
    for from in 0.. {
        let image = crashed.after(Crash::Kept, 0);
        image.fail(Fault { from: image.operations() + from, kind: FaultKind::Io, is_lasting: true });
        let opened = Db::open(DIR, on(&image)).map(drop);
        image.heal();
        if opened.is_ok() {
            break;
        }
        failed += 1;
        for has_manifest in [true, false] {
            let image = image.after(Crash::Kept, 0);
            if !has_manifest {
                forget_manifest(&image);
            }
            let report = Db::repair(DIR, on(&image), RepairMode::Write).unwrap();
            let lost = report.losses.iter().any(Loss::holds_keys);
            assert_eq!((missing(&image), lost), (0, false), "{from}, with a manifest: {has_manifest}:\n{report}");
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_repeated_repair_puts_no_old_value_above_a_new_one() {
    let storage = Faulty::new();
    let deep = |l0: usize, base: u64| Options {
        auto_compaction: true,
        l0_compaction_trigger: l0,
        level_base_bytes: base,
        ..on(&storage)
    };
    let db = Db::open(DIR, deep(1, 1)).unwrap();
    (0..200).for_each(|i| db.put(&key(i), b"old").unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    let old = files(&storage, Path::new(DIR), ".sst");
    let db = Db::open(DIR, deep(1, 1 << 30)).unwrap();
    (0..200).step_by(40).for_each(|i| db.put(&key(i), b"new").unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let levels: Vec<u64> = db.stats().levels.iter().map(|level| level.tables).collect();
    assert!(old.len() == 1 && levels.len() > 2 && levels[1] == 1 && levels[0] == 0, "{old:?} {levels:?}");
    db.close().unwrap();
    forget_manifest(&storage);
    // The damaged block in the middle holds none of the checked keys.
    storage.damage(&old[0], |bytes| bytes[1_500] ^= 1).unwrap();
    storage.record();
    let whole = Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
    let look = |storage: &Faulty| {
        let db = Db::open(DIR, on(storage)).unwrap();
        (0..200).step_by(40).filter(|&i| db.get(&key(i)).unwrap().as_deref() != Some(b"new")).count()
    };
    assert_eq!(look(&storage), 0, "{whole}");
    for moment in storage.moments() {
        let image = moment.after(Crash::Kept, 0);
        let report = Db::repair(DIR, on(&image), RepairMode::Write).unwrap();
        assert_eq!(look(&image), 0, "{moment:?}:\n{report}");
    }
}

#[test]
fn cut_tables_and_half_a_manifest_repair_to_a_usable_store() {
    let storage = Faulty::new();
    let db = Db::open(DIR, on(&storage)).unwrap();
    db.put(&key(0), b"first").unwrap();
    db.close().unwrap();
    // The manifest of this store begins with a state after one write.
    let db = Db::open(DIR, on(&storage)).unwrap();
    for i in 1..6 {
        (0..20).for_each(|n| db.put(&key(20 * i + n), b"a value of some length").unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    let manifest = files(&storage, Path::new(DIR), "MANIFEST-").remove(0);
    storage.damage(&manifest, |bytes| (200..bytes.len()).for_each(|at| bytes[at] ^= 1)).unwrap();
    for table in files(&storage, Path::new(DIR), ".sst") {
        storage.damage(&table, |bytes| bytes.truncate(bytes.len() - 50)).unwrap();
    }
    let report = Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
    let db = Db::open(DIR, on(&storage)).unwrap();
    assert!((20..120).all(|i| db.get(&key(i)).unwrap().is_some()), "{report}");
}

/// The repair moves all SSTs to level 0, so that the next compaction merges an SST that was
/// written to a deeper level.
#[test]
fn a_merge_after_a_repair_restores_no_deleted_key_silently() {
    let storage = Memory::new();
    let small = || Options { auto_compaction: true, l0_compaction_trigger: 1, level_base_bytes: 1, ..quiet(&storage) };
    let db = Db::open(DIR, small()).unwrap();
    // The second SST meets the first on a deeper level, and the merged SST is written there.
    for _ in 0..2 {
        (0..200).for_each(|i| db.put(&key(i), b"old").unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    assert!(db.stats().levels.len() > 2);
    db.close().unwrap();
    forget_manifest(&storage);
    let report = Db::repair(DIR, quiet(&storage), RepairMode::Write).unwrap();
    assert!(!names_a_table(&report), "{report}");
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    let snapshot = db.snapshot();
    db.delete(&key(5)).unwrap();
    db.compact_range(..).unwrap();
    let killed = image(&storage);
    drop(snapshot);
    assert_eq!(files(&killed, Path::new(DIR), ".sst").len(), 2);
    forget_manifest(&killed);
    let report = Db::repair(DIR, quiet(&killed), RepairMode::Write).unwrap();
    let found = Db::open(DIR, quiet(&killed)).unwrap().get(&key(5)).unwrap();
    assert!(found.is_none() || names_a_table(&report), "{found:?} is back, but no doubt names an SST:\n{report}");
}

#[test]
fn a_file_number_near_the_limit_is_named_as_the_cause() {
    for number in [i64::MAX - 8, i64::MAX] {
        for is_lost in [false, true] {
            let storage = Memory::new();
            make_store(&storage, 3, 10);
            let path = Path::new(DIR).join(format!("{number}.sst"));
            replace(&storage, &path, b"a text of another program");
            if is_lost {
                forget_manifest(&storage);
            }
            let before = storage.list(Path::new(DIR)).unwrap();
            let repair = || Db::repair(DIR, quiet(&storage), RepairMode::Write).map(drop);
            let open = || Db::open(DIR, quiet(&storage)).map(drop);
            let errors = if is_lost { vec![repair(), repair()] } else { vec![open(), open(), repair(), open()] };
            for error in errors.into_iter().map(Result::unwrap_err) {
                assert_names(&error, &path);
                assert!(matches!(error.root(), Error::OutOfNumbers { field: Field::FileNumber, .. }), "{error}");
            }
            assert_eq!(storage.list(Path::new(DIR)).unwrap(), before);
            storage.remove(&path).unwrap();
            if is_lost {
                repair().unwrap();
            }
            assert_eq!(Db::open(DIR, quiet(&storage)).unwrap().scan(..).count(), 30);
        }
    }
}

#[test]
fn unneeded_files_of_another_store_are_listed_and_kept() {
    let (storage, other) = (Memory::new(), Memory::new());
    make_store(&other, 0, 0);
    make_store(&storage, 3, 10);
    // Each open takes new numbers, so the store no longer needs a log or manifest with these names.
    drop(Db::open(DIR, quiet(&storage)).unwrap());
    let names = [files(&other, Path::new(DIR), ".log").remove(0), files(&other, Path::new(DIR), "MANIFEST-").remove(0)];
    let is_kept = || names.iter().all(|path| storage.read(path).unwrap() == other.read(path).unwrap());
    for path in &names {
        assert!(!storage.exists(path).unwrap(), "{}", path.display());
        replace(&storage, path, &other.read(path).unwrap());
    }
    for mode in [RepairMode::DryRun, RepairMode::Write] {
        let report = Db::repair(DIR, quiet(&storage), mode).unwrap();
        let listed: Vec<_> = report.left_alone.iter().map(|(path, _)| path.clone()).collect();
        assert!(report.was_sound() && listed == names && is_kept(), "{mode:?}: {report}");
    }
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    let reports = db.stats().reports;
    let is_reported = |path: &PathBuf| reports.iter().any(|report| report.starts_with(path.to_str().unwrap()));
    assert!(names.iter().all(is_reported) && is_kept(), "{reports:?}");
    assert_eq!(db.scan(..).count(), 30);
}

#[test]
fn a_damaged_log_header_is_reported_as_a_log_header() {
    for keeps_records in [false, true] {
        let storage = Memory::new();
        let db = Db::open(DIR, Options { durability: Durability::Sync, ..quiet(&storage) }).unwrap();
        (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
        let killed = image(&storage);
        let log = files(&killed, Path::new(DIR), ".log").remove(0);
        change(&killed, &log, |bytes| {
            bytes[30] ^= 1;
            bytes.truncate(if keeps_records { bytes.len() } else { 48 });
        });
        let report = Db::repair(DIR, quiet(&killed), RepairMode::DryRun).unwrap();
        let fields = report.losses.iter().map(|loss| match loss.error.root() {
            Error::Corrupt { field, offset } => Some((*field, *offset)),
            _ => None,
        });
        assert!(fields.into_iter().any(|found| found == Some((Field::LogHeader, 0))), "{report}");
        assert!(report.losses[0].to_string().contains("has no sound header"), "{report}");
    }
}

#[test]
fn manifests_of_a_newer_version_are_kept_and_reported_once() {
    let storage = Memory::new();
    make_store(&storage, 3, 10);
    let mut newer = storage.read(&files(&storage, Path::new(DIR), "MANIFEST-").remove(0)).unwrap();
    newer[8] += 1;
    seal_log_header(&mut newer);
    // An open removes stale manifests early if there are more than eight.
    let names: Vec<PathBuf> = (500..510).map(|number| Path::new(DIR).join(format!("MANIFEST-{number:06}"))).collect();
    names.iter().for_each(|path| replace(&storage, path, &newer));
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    assert_eq!(db.scan(..).count(), 30);
    let reports = db.stats().reports;
    for path in &names {
        assert_eq!(storage.read(path).unwrap(), newer, "{}", path.display());
        let of_path = |report: &&String| report.starts_with(path.to_str().unwrap());
        assert_eq!(reports.iter().filter(of_path).count(), 1, "{reports:?}");
    }
}
