//! Tests which files a failed open leaves, and which SSTs an open sets aside and a repair removes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{self, DIR, change, contents, files, image, key, quiet, replace, scan_all, synced};
use filterblock::{Error as FilterError, Secret};
use filterblock_store::lsm::LogRecovery;
use filterblock_store::repair::RepairMode;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty, Operation};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Options};

const OPENS: usize = 100;

/// Writes two SSTs, and ten writes that are only in the log.
fn fill(db: &Db) {
    for table in 0..2 {
        (0..10).for_each(|i| db.put(&key(table * 10 + i), b"value").unwrap());
        db.flush().unwrap();
    }
    (20..30).for_each(|i| db.put(&key(i), b"value").unwrap());
}

fn crashed(secret: Option<Secret>) -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, Options { secret, ..synced(&storage) }).unwrap();
    fill(&db);
    // A flush that has just finished may not have removed its log yet.
    common::remove_flushed_logs(&storage);
    image(&storage)
}

fn only(storage: &Memory, kind: &str) -> PathBuf {
    files(storage, Path::new(DIR), kind).remove(0)
}

/// Opens a store many times with this secret. Asserts that each open fails as expected, and that no
/// file changes. With the write buffer of these opens, recovery makes an SST of each log record.
#[track_caller]
fn assert_unchanged(storage: &Memory, secret: Option<&Secret>, is_expected: impl Fn(&Error) -> bool) {
    let before = contents(storage);
    for _ in 0..OPENS {
        let options = Options { secret: secret.cloned(), write_buffer_bytes: 1, ..synced(storage) };
        let error = Db::open(DIR, options).map(drop).unwrap_err();
        assert!(is_expected(&error), "{error}");
    }
    let after = contents(storage);
    assert!(before.keys().eq(after.keys()), "{:?} became {:?}", before.keys(), after.keys());
    assert!(before == after, "bytes changed");
}

#[test]
fn a_damaged_or_newer_file_fails_the_open_and_changes_nothing() {
    type Harm = fn(&mut Vec<u8>);
    let flip_last: Harm = |bytes| *bytes.last_mut().unwrap() ^= 1;
    // In a log, this byte lies in the last record but one.
    let flip_inside: Harm = |bytes| {
        let at = bytes.len() - 60;
        bytes[at] ^= 1;
    };
    let newer_log: Harm = |bytes| {
        bytes[8] = 99;
        common::seal_log_header(bytes);
    };
    let newer_table: Harm = |bytes| {
        let version = bytes.len() - 16;
        bytes[version] = 99;
        common::seal_footer(bytes);
    };
    let harms = [
        (".sst", flip_last, false),
        (".log", flip_inside, false),
        ("MANIFEST-", flip_inside, false),
        ("CURRENT", flip_last, false),
        (".log", newer_log, true),
        ("MANIFEST-", newer_log, true),
        (".sst", newer_table, true),
    ];
    for (kind, harm, is_newer) in harms {
        let storage = crashed(None);
        let path = only(&storage, kind);
        change(&storage, &path, harm);
        assert_unchanged(&storage, None, |error| {
            common::assert_names(error, &path);
            // A repair would destroy sound bytes of a newer version if they counted as damage.
            (error.is_damage(), error.is_unsupported()) == (!is_newer, is_newer)
        });
    }
}

#[test]
fn a_missing_file_fails_the_open_and_changes_nothing() {
    for kind in [".sst", ".log", "MANIFEST-", "CURRENT"] {
        let storage = crashed(None);
        let path = only(&storage, kind);
        storage.remove(&path).unwrap();
        assert_unchanged(&storage, None, |error| {
            common::assert_names(error, if kind == "CURRENT" { Path::new(DIR) } else { &path });
            match error.root() {
                Error::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
                Error::NotAStore => kind == "CURRENT",
                error => error.is_damage(),
            }
        });
    }
}

/// If the manifest is torn, unnamed SSTs are set aside, but only once it is certain that the store
/// opens.
#[test]
fn a_torn_manifest_with_more_damage_changes_nothing() {
    let storage = crashed(None);
    change(&storage, &only(&storage, "MANIFEST-"), |bytes| bytes.extend_from_slice(b"torn"));
    replace(&storage, &Path::new(DIR).join("000040.sst"), b"no table, and not named");
    change(&storage, &only(&storage, ".log"), |bytes| bytes[60] ^= 1);
    assert_unchanged(&storage, None, Error::is_damage);
}

/// An SST that a torn manifest does not name keeps its name until the next manifest is in force. A
/// repair finds the SST only under that name.
#[test]
fn a_manifest_that_cannot_be_created_sets_no_sst_aside() {
    let memory = Memory::new();
    let db = Db::open(DIR, synced(&memory)).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    common::remove_flushed_logs(&memory);
    let torn = image(&memory);
    change(&torn, &only(&torn, "MANIFEST-"), |bytes| bytes.truncate(bytes.len() - 3));
    let refused = [
        (Operation::Create, "MANIFEST-"),
        (Operation::Write, "MANIFEST-"),
        (Operation::Sync, "MANIFEST-"),
        (Operation::Create, "CURRENT.tmp"),
        (Operation::Sync, "CURRENT.tmp"),
        (Operation::Rename, "CURRENT.tmp"),
    ];
    for (operation, file) in refused {
        let faulty = Faulty::new();
        faulty.create_dir_all(Path::new(DIR)).unwrap();
        contents(&torn).iter().for_each(|(path, bytes)| replace(&faulty, path, bytes));
        // A failed open leaves the lock file behind, so the test creates the lock file first.
        replace(&faulty, &Path::new(DIR).join("LOCK"), b"");
        let before = contents(&faulty);
        let is_it = move |done: Operation, path: &Path| {
            let is_file = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(file));
            (done == operation && is_file).then_some(28)
        };
        faulty.refuse(Some(Arc::new(is_it)));
        let salvage = || Options { recovery: LogRecovery::Salvage, ..synced(&faulty) };
        Db::open(DIR, salvage()).map(drop).unwrap_err();
        faulty.refuse(None);
        assert!(contents(&faulty) == before, "{operation:?} of {file}");
        let report = Db::repair(DIR, synced(&faulty), RepairMode::Write).unwrap();
        assert!(report.is_complete(), "{operation:?} of {file}: {report}");
        assert_eq!(scan_all(&Db::open(DIR, synced(&faulty)).unwrap()).len(), 2);
    }
}

#[test]
fn a_wrong_secret_fails_the_open_and_changes_nothing() {
    let secrets = [1, 2].map(|fill| Secret::new(&[fill; 16]).unwrap());
    let storage = crashed(Some(secrets[0].clone()));
    assert_unchanged(&storage, Some(&secrets[1]), Error::is_secret_mismatch);
    assert_unchanged(&storage, None, Error::is_secret_mismatch);
    assert_unchanged(&crashed(None), Some(&secrets[1]), |error| {
        matches!(error.root(), Error::Filter(FilterError::Invalid { what: "secret", .. }))
    });
}

/// Returns stores as a killed process leaves them: not created yet, with much to recover, with
/// nothing to recover, and with a torn manifest.
fn killed() -> Vec<Faulty> {
    let new = Faulty::new();
    new.create_dir_all(Path::new("/")).unwrap();
    let full = Faulty::new();
    let db = Db::open(DIR, synced(&full)).unwrap();
    fill(&db);
    let closed = full.after(Crash::Kept, 0);
    drop(Db::open(DIR, synced(&closed)).unwrap());
    let torn = full.after(Crash::Kept, 0);
    torn.damage(&files(&torn, Path::new(DIR), "MANIFEST-").remove(0), |bytes| bytes.extend_from_slice(b"torn"))
        .unwrap();
    vec![new, full.after(Crash::Kept, 0), closed, torn]
}

#[test]
fn an_open_that_fails_at_any_step_does_not_accumulate_files() {
    let mut failed = 0;
    for (nth, store) in killed().iter().enumerate() {
        let num_before = store.list(Path::new(DIR)).map_or(4, |names| names.len());
        let num_keys = if nth == 0 { 0 } else { 30 };
        for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::Late] {
            for k in 0.. {
                let image = store.after(Crash::Kept, 0);
                let mut has_struck = false;
                for _ in 0..OPENS / 4 {
                    let from = image.operations() + k;
                    image.fail(Fault { from, kind, is_lasting: false });
                    let opened = Db::open(DIR, synced(&image));
                    image.heal();
                    has_struck |= !image.struck().is_empty();
                    failed += u64::from(opened.is_err());
                    if opened.is_ok() {
                        break;
                    }
                }
                let names = image.list(Path::new(DIR)).unwrap_or_default();
                assert!(names.len() <= num_before + 12, "{kind:?} at {k}: {names:?}");
                let db = Db::open(DIR, synced(&image)).unwrap();
                assert_eq!(scan_all(&db).len(), num_keys, "{kind:?} at {k}");
                drop(db);
                let names = image.list(Path::new(DIR)).unwrap();
                assert!(names.len() <= num_before + 1, "{kind:?} at {k}: {names:?}");
                if !has_struck {
                    break;
                }
            }
        }
    }
    assert!(failed > 1_000, "{failed}");
}

/// Returns a store with ten writes in its log, a torn manifest, and an SST that the manifest does
/// not name. The SST holds these ten writes and `more` other writes.
fn torn_with_table(more: u64) -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
    let crashed = image(&storage);
    (10..10 + more).for_each(|i| db.put(&key(i), b"value").unwrap());
    db.flush().unwrap();
    let table = only(&storage, ".sst");
    replace(&crashed, &table, &storage.read(&table).unwrap());
    change(&crashed, &only(&crashed, "MANIFEST-"), |bytes| bytes.extend_from_slice(b"torn"));
    crashed
}

#[test]
fn an_sst_whose_writes_are_all_elsewhere_is_not_set_aside() {
    let storage = torn_with_table(0);
    let db = Db::open(DIR, synced(&storage)).unwrap();
    assert_eq!(scan_all(&db).len(), 10);
    assert_eq!(files(&storage, Path::new(DIR), "unnamed-"), Vec::<PathBuf>::new());
    assert_eq!(files(&storage, Path::new(DIR), ".sst").len(), 1);
}

#[test]
fn an_sst_that_may_be_the_only_copy_is_set_aside() {
    // This SST has writes that the log does not hold.
    let newer = torn_with_table(5);
    // This SST is damaged, so its content is unknown.
    let damaged = torn_with_table(0);
    change(&damaged, &only(&damaged, ".sst"), |bytes| *bytes.last_mut().unwrap() ^= 1);
    // This SST belongs to another store.
    let foreign = torn_with_table(0);
    let other = Memory::new();
    let db = Db::open(DIR, synced(&other)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    replace(&foreign, &only(&foreign, ".sst"), &other.read(&only(&other, ".sst")).unwrap());
    for storage in [newer, damaged, foreign] {
        let table = contents(&storage).remove(&only(&storage, ".sst")).unwrap();
        for _ in 0..3 {
            let db = Db::open(DIR, synced(&storage)).unwrap();
            assert_eq!(scan_all(&db).len(), 10);
        }
        let aside = files(&storage, Path::new(DIR), "unnamed-");
        assert_eq!(aside.len(), 1);
        assert!(storage.read(&aside[0]).unwrap() == table);
    }
}

/// Opens the store three times. Asserts that it has `left` entries, and that one SST is set aside.
fn assert_set_aside(storage: &Memory, recovery: LogRecovery, left: usize) {
    for _ in 0..3 {
        let db = Db::open(DIR, Options { recovery, ..synced(storage) }).unwrap();
        assert_eq!(scan_all(&db).len(), left);
        assert_eq!(files(storage, Path::new(DIR), "unnamed-").len(), 1);
    }
}

/// Returns a store of ten writes after a crash between a flush and its edit: the log has the writes,
/// and so has an SST that the manifest does not name. Also returns the path of this SST.
fn crashed_in_a_flush() -> (Memory, PathBuf) {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
    let crashed = image(&storage);
    db.flush().unwrap();
    let table = only(&storage, ".sst");
    replace(&crashed, &table, &storage.read(&table).unwrap());
    (crashed, table)
}

/// A crash came between a flush and its edit, and the log was damaged later. So the SST that the
/// manifest does not name holds the only copy of some writes, and no later record shows a gap.
#[test]
fn a_damaged_log_sets_the_unnamed_sst_aside() {
    let (crashed, _) = crashed_in_a_flush();
    let log = only(&crashed, ".log");
    for recovery in [LogRecovery::Strict, LogRecovery::Salvage] {
        let damaged = image(&crashed);
        change(&damaged, &log, |bytes| *bytes.last_mut().unwrap() ^= 1);
        assert_set_aside(&damaged, recovery, 9);
    }
    crashed.remove(&log).unwrap();
    assert_set_aside(&crashed, LogRecovery::Salvage, 0);
}

/// A crash came between a flush and its edit, and left part of one more record in the log. The SST
/// that the manifest does not name holds only writes that the log has, too.
#[test]
fn a_crash_in_a_flush_is_reported_by_its_torn_log_alone() {
    let (crashed, table) = crashed_in_a_flush();
    change(&crashed, &only(&crashed, ".log"), |bytes| bytes.extend_from_slice(&[1; 5]));
    let db = Db::open(DIR, synced(&crashed)).unwrap();
    assert_eq!(scan_all(&db).len(), 10);
    let reports = db.stats().reports;
    assert!(reports.len() == 1 && reports[0].contains("cut off"), "{reports:?}");
    assert!(!crashed.exists(&table).unwrap());
}

/// Another program's file has the name of the newest log, whose writes are in an SST that the
/// manifest does not name.
#[test]
fn a_foreign_log_sets_the_unnamed_sst_aside() {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
    let crashed = image(&storage);
    db.flush().unwrap();
    let log = files(&storage, Path::new(DIR), ".log").pop().unwrap();
    assert!(!crashed.exists(&log).unwrap());
    (10..20).for_each(|i| db.put(&key(i), b"value").unwrap());
    db.flush().unwrap();
    let table = files(&storage, Path::new(DIR), ".sst").pop().unwrap();
    replace(&crashed, &table, &storage.read(&table).unwrap());
    replace(&crashed, &log, b"The text of a person, who chose this name.\n");
    assert_set_aside(&crashed, LogRecovery::Salvage, 10);
}

#[test]
fn a_repair_removes_and_reports_set_aside_ssts_known_elsewhere() {
    let storage = torn_with_table(0);
    let table = storage.read(&only(&storage, ".sst")).unwrap();
    let number = only(&storage, ".sst").file_name().unwrap().to_str().unwrap().to_owned();
    Db::repair(DIR, synced(&storage), RepairMode::Write).unwrap();
    let names = ["", ".2", ".3"].map(|nth| Path::new(DIR).join(format!("unnamed-{number}{nth}")));
    names.iter().for_each(|path| replace(&storage, path, &table));
    // A directory with such a name is not an SST and must not fail the repair.
    storage.create_dir_all(&Path::new(DIR).join("unnamed-000777.sst")).unwrap();
    let report = Db::repair(DIR, synced(&storage), RepairMode::Write).unwrap();
    assert!(report.is_complete() && report.removed == names, "{report}");
    assert!(names.iter().all(|path| report.to_string().contains(path.to_str().unwrap())), "{report}");
    assert_eq!(files(&storage, Path::new(DIR), "unnamed-").len(), 1);
    // The number in the name of a set-aside SST is not assigned again.
    replace(&storage, &names[0].with_file_name("unnamed-000900.sst"), b"kept");
    let db = Db::open(DIR, synced(&storage)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    let tables = files(&storage, Path::new(DIR), ".sst");
    assert!(
        tables
            .iter()
            .any(|path| path > &Path::new(DIR).join("000900.sst") && !path.to_str().unwrap().contains("unnamed"))
    );
}

#[test]
fn a_repair_removes_a_set_aside_sst_once_its_writes_are_known() {
    let storage = torn_with_table(5);
    let aside = |storage: &Memory| files(storage, Path::new(DIR), "unnamed-").len();
    let repair = || Db::repair(DIR, synced(&storage), RepairMode::Write).unwrap();
    drop(Db::open(DIR, synced(&storage)).unwrap());
    // At the first repair, the store lacks five of the SST's writes. At the second repair, the
    // store has another value for one key. At the third repair, it has all writes of the SST.
    for (value, is_kept) in [(None, true), (Some(b"other"), true), (Some(b"value"), false)] {
        if let Some(value) = value {
            let db = Db::open(DIR, synced(&storage)).unwrap();
            (10..14).for_each(|i| db.put(&key(i), b"value").unwrap());
            db.put(&key(14), value).unwrap();
        }
        repair();
        assert_eq!(aside(&storage), usize::from(is_kept), "{value:?}");
    }
    assert_eq!(scan_all(&Db::open(DIR, synced(&storage)).unwrap()).len(), 15);
}

/// Cuts the manifest of a cleanly closed store at every length above the header, including the ends
/// of edits, where the cut leaves no trace.
#[test]
fn lost_manifest_edits_are_noticed_and_tables_are_kept() {
    let storage = Memory::new();
    for round in 0..4 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        (0..10).for_each(|i| db.put(&key(round * 10 + i), b"value").unwrap());
        db.close().unwrap();
    }
    let sound = image(&storage);
    let manifest = files(&sound, Path::new(DIR), "MANIFEST-").remove(0);
    let tables = files(&sound, Path::new(DIR), ".sst");
    assert_eq!(tables.len(), 4);
    for cut in 49..sound.read(&manifest).unwrap().len() {
        let storage = image(&sound);
        change(&storage, &manifest, |bytes| bytes.truncate(cut));
        for _ in 0..2 {
            let error = Db::open(DIR, quiet(&storage)).unwrap_err();
            assert!(error.is_damage(), "cut at {cut}: {error}");
        }
        let kept = |storage: &Memory| files(storage, Path::new(DIR), ".sst").len();
        assert_eq!(kept(&storage), 4, "cut at {cut}: {:?}", storage.list(Path::new(DIR)));
        // A salvage sets unnamed SSTs aside instead of removing them.
        let salvage = Options { recovery: LogRecovery::Salvage, ..quiet(&storage) };
        if let Ok(db) = Db::open(DIR, salvage) {
            assert!(!db.stats().reports.is_empty(), "cut at {cut}");
            assert_eq!(scan_all(&db).len() % 10, 0);
            db.put(b"more", b"").unwrap();
            db.close().unwrap();
            assert_eq!(kept(&storage), 4 + 1, "cut at {cut}: {:?}", storage.list(Path::new(DIR)));
            let db = Db::open(DIR, quiet(&storage)).unwrap();
            assert_eq!(db.stats().reports, Vec::<String>::new());
        }
    }
}
