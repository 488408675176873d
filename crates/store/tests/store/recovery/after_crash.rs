//! Tests what the next open recovers, refuses and removes after a crash or a clean close.

use std::path::Path;

use crate::common::{self, DIR, change, files, image, key, quiet, replace, scan_all, synced};
use filterblock_store::lsm::LogRecovery;
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Field, Options};

fn log_with_records(storage: &Memory) -> std::path::PathBuf {
    let logs = files(storage, Path::new(DIR), ".log");
    logs.into_iter().find(|log| storage.read(log).unwrap().len() > 48).unwrap()
}

/// Returns a store as a crash leaves it, with ten writes that are only in its log.
fn ten_writes() -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    for i in 0..10 {
        db.put(&key(i), b"value").unwrap();
    }
    image(&storage)
}

#[test]
fn damage_inside_a_log_is_an_error_with_file_and_offset() {
    let crashed = ten_writes();
    let log = log_with_records(&crashed);
    let record_len = (crashed.read(&log).unwrap().len() - 48) / 10;
    let start = 48 + 3 * record_len;
    for at in start..start + record_len {
        let storage = image(&crashed);
        change(&storage, &log, |bytes| bytes[at] ^= 4);
        let error = Db::open(DIR, quiet(&storage)).unwrap_err();
        common::assert_names(&error, &log);
        let offset = match error.root() {
            Error::ChecksumMismatch { field: Field::LogRecord, offset, .. } => *offset,
            Error::Corrupt { field: Field::LogRecord, offset } => *offset,
            other => panic!("{other:?}"),
        };
        assert_eq!(offset, start as u64);
        assert!(error.to_string().contains(&format!("offset {start}")), "{error}");

        let salvage = || Options { recovery: LogRecovery::Salvage, ..quiet(&storage) };
        let db = Db::open(DIR, salvage()).unwrap();
        let left: Vec<_> = scan_all(&db).into_iter().map(|(key, _)| key).collect();
        assert_eq!(left, (0..10).filter(|&i| i != 3).map(key).collect::<Vec<_>>());
        let reports = db.stats().reports;
        assert!(reports.iter().any(|report| report.contains("skipped")), "{reports:?}");
        assert!(reports.iter().any(|report| report.contains(": 1 write is missing before")), "{reports:?}");
        assert!(reports.iter().all(|report| report.starts_with(log.to_str().unwrap())), "{reports:?}");
        db.close().unwrap();
        // After a salvage, the store is sound.
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!((scan_all(&db).len(), db.stats().reports), (9, vec![]));
    }
}

#[test]
fn an_open_removes_leftovers_and_keeps_foreign_files() {
    let storage = Memory::new();
    common::make_store(&storage, 2, 50);
    let dir = Path::new(DIR);
    let table = files(&storage, dir, ".sst").remove(0);
    let manifest = files(&storage, dir, "MANIFEST-").remove(0);
    let leftovers = ["000900.sst", "000901.sst.tmp", "CURRENT.tmp", "000000.log", "MANIFEST-000902"];
    for name in leftovers {
        let like = if name.starts_with("MANIFEST") { &manifest } else { &table };
        let content = if name.ends_with(".log") { Vec::new() } else { storage.read(like).unwrap() };
        replace(&storage, &dir.join(name), &content);
    }
    let foreign = ["notes.txt", "1.sst", "000001.sst.bak", "MANIFEST", "core"];
    for name in foreign {
        replace(&storage, &dir.join(name), b"not ours");
    }
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    assert_eq!((scan_all(&db).len(), db.stats().reports), (100, vec![]));
    for name in leftovers {
        assert!(!storage.exists(&dir.join(name)).unwrap(), "{name} was not removed");
    }
    for name in foreign {
        assert_eq!(storage.read(&dir.join(name)).unwrap(), b"not ours", "{name}");
    }
    // A number that was seen in the directory is not assigned again.
    db.put(b"new", b"").unwrap();
    db.flush().unwrap();
    let names = storage.list(dir).unwrap();
    assert!(names.iter().any(|name| name.ends_with(".sst") && name.as_str() > "000902"), "{names:?}");
}

#[test]
fn unfinished_ssts_do_not_disturb_an_open() {
    let crashed = ten_writes();
    // A crash may have left unfinished SSTs with any of the next numbers. The log must still become
    // an SST.
    for number in 0..20 {
        replace(&crashed, &Path::new(DIR).join(format!("{number:06}.sst.tmp")), b"\0half a table");
    }
    let db = Db::open(DIR, quiet(&crashed)).unwrap();
    assert_eq!(scan_all(&db).len(), 10);
    assert_eq!(files(&crashed, Path::new(DIR), ".tmp"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn file_numbers_too_close_to_the_limit_are_refused() {
    let storage = Memory::new();
    common::make_store(&storage, 1, 10);
    let path = Path::new(DIR).join(format!("{}.log", u64::MAX));
    replace(&storage, &path, b"");
    let error = Db::open(DIR, quiet(&storage)).unwrap_err();
    assert!(matches!(error.root(), Error::Corrupt { field: Field::FileNumber, .. }), "{error}");
    common::assert_names(&error, &path);
    storage.remove(&path).unwrap();
    assert_eq!(scan_all(&Db::open(DIR, quiet(&storage)).unwrap()).len(), 10);
}

#[test]
fn a_clean_close_leaves_no_log_records_and_no_spare_files() {
    let storage = Memory::new();
    for round in 1..=4 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!(db.stats().memory_entries, 0);
        db.put(&key(round), b"").unwrap();
        db.close().unwrap();
        let dir = Path::new(DIR);
        let count = |kind| files(&storage, dir, kind).len() as u64;
        assert_eq!((count(".sst"), count(".log"), count("MANIFEST-"), count(".tmp")), (round, 1, 1, 0));
        assert!(storage.read(&files(&storage, dir, ".log")[0]).unwrap().len() <= 48);
    }
    // Opens without a write leave no spare files either.
    for _ in 0..5 {
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!(scan_all(&db).len(), 4);
        drop(db);
        assert_eq!(storage.list(Path::new(DIR)).unwrap().len(), 4 + 4);
    }
}

#[test]
fn a_long_manifest_is_replaced_in_an_open_store() {
    let storage = Memory::new();
    let db = Db::open(DIR, quiet(&storage)).unwrap();
    let long = |i: u64| [key(i), vec![b'k'; 60_000]].concat();
    for round in 0..4 {
        for i in 0..5 {
            db.put(&long(round * 5 + i), b"value").unwrap();
            db.flush().unwrap();
        }
        db.compact_range(..).unwrap();
        let manifests = files(&storage, Path::new(DIR), "MANIFEST-");
        assert_eq!(manifests.len(), 1);
        assert!(storage.read(&manifests[0]).unwrap().len() < (1 << 20) + 200_000);
    }
    assert_ne!(files(&storage, Path::new(DIR), "MANIFEST-")[0], Path::new(DIR).join("MANIFEST-000001"));
    assert_eq!(scan_all(&Db::open(DIR, quiet(&image(&storage))).unwrap()).len(), 20);
}
