//! Tests logs that are missing, empty, cut or under another number.

use std::path::Path;

use crate::common::{
    DIR, assert_names, change, cut_last_record, files, image, key, quiet, remove_flushed_logs, replace, scan_all,
    synced,
};
use filterblock_store::lsm::LogRecovery;
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Field, Options};

fn salvage(storage: &Memory) -> Options {
    Options { recovery: LogRecovery::Salvage, ..quiet(storage) }
}

/// Returns stores with synced writes that are only in the log, as a killed process leaves them. The
/// stores are a new one, one that was reopened without writes, and one with an SST.
fn killed() -> Vec<Memory> {
    let new = Memory::new();
    let db = Db::open(DIR, synced(&new)).unwrap();
    (0..50).for_each(|i| db.put(&key(i), b"value").unwrap());
    let reopened = Memory::new();
    (0..3).for_each(|_| drop(Db::open(DIR, synced(&reopened)).unwrap()));
    let second = Db::open(DIR, synced(&reopened)).unwrap();
    (0..50).for_each(|i| second.put(&key(i), b"value").unwrap());
    let flushed = image(&new);
    let third = Db::open(DIR, synced(&flushed)).unwrap();
    third.flush().unwrap();
    (50..80).for_each(|i| third.put(&key(i), b"value").unwrap());
    vec![image(&new), image(&reopened), image(&flushed)]
}

#[test]
fn a_log_that_the_manifest_names_must_exist_with_its_header() {
    for crashed in killed() {
        let logs = files(&crashed, Path::new(DIR), ".log");
        assert_eq!(logs.len(), 1);
        let path = &logs[0];
        let full = scan_all(&Db::open(DIR, quiet(&image(&crashed))).unwrap()).len();
        for len in [None, Some(0), Some(1), Some(47)] {
            let storage = image(&crashed);
            match len {
                None => storage.remove(path).unwrap(),
                Some(len) => change(&storage, path, |bytes| bytes.truncate(len)),
            }
            for _ in 0..2 {
                let error = Db::open(DIR, quiet(&storage)).unwrap_err();
                assert!(matches!(error.root(), Error::Corrupt { field: Field::LogHeader, offset: 0 }), "{error}");
                assert_names(&error, path);
            }
            let db = Db::open(DIR, salvage(&storage)).unwrap();
            let reports = db.stats().reports;
            assert!(reports.iter().any(|report| report.contains("missing")), "{len:?} {reports:?}");
            assert!(scan_all(&db).len() < full);
            db.put(b"on", b"").unwrap();
            db.close().unwrap();
            assert_eq!(Db::open(DIR, quiet(&storage)).unwrap().get(b"on").unwrap().unwrap(), b"");
        }
    }
}

#[test]
fn a_clean_store_names_its_log_after_any_number_of_opens() {
    let storage = Memory::new();
    for round in 0..4 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!(db.stats().reports, Vec::<String>::new(), "round {round}");
        // The image is the state that a process leaves if it is killed right after the open.
        assert_eq!(Db::open(DIR, quiet(&image(&storage))).unwrap().stats().reports, Vec::<String>::new());
        if round == 2 {
            db.put(b"key", b"value").unwrap();
            db.checkpoint("/copy").unwrap();
        }
    }
    let copy = Db::open("/copy", quiet(&storage)).unwrap();
    assert_eq!((copy.stats().reports, scan_all(&copy).len()), (vec![], 1));
}

#[test]
fn an_empty_log_after_the_named_one_is_reported() {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    db.put(b"key", b"value").unwrap();
    let crashed = image(&storage);
    let path = Path::new(DIR).join("000009.log");
    crashed.create(&path).unwrap();
    let db = Db::open(DIR, quiet(&crashed)).unwrap();
    assert_eq!(scan_all(&db).len(), 1);
    let reports = db.stats().reports;
    assert!(reports.len() == 1 && reports[0].starts_with("/store/000009.log: "), "{reports:?}");
}

/// Returns a store with ten writes in an SST that the manifest does not name any more, because the
/// manifest's last record was cut off. The log holds `more` later writes.
fn lost_edit(more: u64) -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    (0..10).for_each(|i| db.put(&key(i), b"value").unwrap());
    db.flush().unwrap();
    (10..10 + more).for_each(|i| db.put(&key(i), b"value").unwrap());
    let crashed = image(&storage);
    let manifest = files(&crashed, Path::new(DIR), "MANIFEST-").remove(0);
    change(&crashed, &manifest, cut_last_record);
    remove_flushed_logs(&crashed);
    crashed
}

fn reports_missing(db: &Db, what: &str) -> bool {
    db.stats().reports.iter().any(|report| report.contains(what))
}

#[test]
fn writes_missing_according_to_a_log_header_are_given_up_once() {
    let crashed = lost_edit(0);
    let error = Db::open(DIR, quiet(&image(&crashed))).map(drop).unwrap_err();
    assert!(matches!(error.root(), Error::Corrupt { field: Field::LogHeader, .. }), "{error}");
    let db = Db::open(DIR, salvage(&crashed)).unwrap();
    assert!(reports_missing(&db, "10 writes are missing before"), "{:?}", db.stats().reports);
    db.close().unwrap();
    // Nothing was written after the salvage, so only the manifest records that the writes were
    // given up.
    let db = Db::open(DIR, quiet(&crashed)).unwrap();
    assert_eq!((scan_all(&db), db.stats().reports), (vec![], vec![]));
    assert_eq!(files(&crashed, Path::new(DIR), "unnamed-").len(), 1);
}

/// A log under another number is an error even with salvage.
#[test]
fn a_failed_salvage_gives_nothing_up() {
    let crashed = lost_edit(10);
    let log = files(&crashed, Path::new(DIR), ".log").remove(0);
    let foreign = Path::new(DIR).join("000050.log");
    replace(&crashed, &foreign, &crashed.read(&log).unwrap());
    for _ in 0..2 {
        let error = Db::open(DIR, salvage(&crashed)).unwrap_err();
        assert_names(&error, &foreign);
    }
    crashed.remove(&foreign).unwrap();
    assert!(Db::open(DIR, quiet(&crashed)).is_err());
    let db = Db::open(DIR, salvage(&crashed)).unwrap();
    assert!(reports_missing(&db, "10 writes are missing before"), "{:?}", db.stats().reports);
    assert_eq!(scan_all(&db).len(), 10);
    // The SST may be the only copy of these writes, so it still exists.
    assert_eq!(files(&crashed, Path::new(DIR), "unnamed-").len(), 1);
}
