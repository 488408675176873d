//! Tests what the next open recovers, refuses and removes after a crash or a clean close.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, Random, change, files, image, key, quiet, replace, scan_all};
use filterblock_store::lsm::{Durability, LogRecovery, WriteBatch};
use filterblock_store::storage::{Memory, Storage};
use filterblock_store::{Db, Error, Field, Options};

fn sync(storage: &Memory) -> Options {
    Options { durability: Durability::Sync, ..quiet(storage) }
}

fn log_with_records(storage: &Memory) -> std::path::PathBuf {
    let logs = files(storage, Path::new(DIR), ".log");
    logs.into_iter().find(|log| storage.read(log).unwrap().len() > 48).unwrap()
}

/// Returns a store as a crash leaves it, with ten writes that are only in its log.
fn ten_writes() -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, sync(&storage)).unwrap();
    for i in 0..10 {
        db.put(&key(i), b"value").unwrap();
    }
    image(&storage)
}

#[test]
fn a_log_cut_in_its_last_record_loses_it_and_reports_that() {
    let crashed = ten_writes();
    let log = log_with_records(&crashed);
    let whole = crashed.read(&log).unwrap();
    let record_len = (whole.len() - 48) / 10;
    for cut in 1..=record_len {
        let storage = image(&crashed);
        change(&storage, &log, |bytes| bytes.truncate(whole.len() - cut));
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!(scan_all(&db).len(), 9, "cut by {cut}");
        let reports = db.stats().reports;
        // If the cut is at the end of a record, nothing shows that there was another record.
        assert_eq!(reports.len(), usize::from(cut < record_len), "{reports:?}");
        for report in reports {
            assert!(report.starts_with(log.to_str().unwrap()) && report.contains("cut off"), "{report}");
        }
        db.put(b"more", b"").unwrap();
        db.close().unwrap();
        let db = Db::open(DIR, quiet(&storage)).unwrap();
        assert_eq!((scan_all(&db).len(), db.stats().reports), (10, vec![]));
    }
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
fn an_open_after_a_failed_open_replays_each_write_once() {
    let crashed = ten_writes();
    let log = log_with_records(&crashed);
    let whole = crashed.read(&log).unwrap();
    let record_len = (whole.len() - 48) / 10;
    for damaged in 0..9 {
        let storage = image(&crashed);
        // With this write buffer, each record becomes an SST.
        let small = || Options { write_buffer_bytes: 1, ..quiet(&storage) };
        change(&storage, &log, |bytes| bytes[48 + damaged * record_len + 30] ^= 1);
        Db::open(DIR, small()).unwrap_err();
        assert_eq!(files(&storage, Path::new(DIR), ".sst"), Vec::<std::path::PathBuf>::new(), "{damaged}");
        change(&storage, &log, |bytes| bytes.copy_from_slice(&whole));
        let db = Db::open(DIR, small()).unwrap();
        let total = db.stats().total;
        assert_eq!((total.tables, total.keys, scan_all(&db).len()), (10, 10, 10), "{damaged}");
    }
}

/// The positions of the batch's writes exceed the memory for sorting, so recovery reads the log
/// more than once. The hashes of the batch's keys exceed the memory for a filter.
#[test]
fn a_huge_batch_is_recovered_whole_and_gets_a_filter_in_a_merge() {
    let storage = Memory::new();
    let db = Db::open(DIR, sync(&storage)).unwrap();
    db.put(&key(1), b"before").unwrap();
    let (mut batch, mut random) = (WriteBatch::new(), Random(5));
    let mut model = BTreeMap::from([(key(1), b"before".to_vec())]);
    for i in 0..30_000u32 {
        let key = key(random.below(20_000));
        if i % 5 == 0 {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            batch.put(&key, &i.to_le_bytes()[..2]).unwrap();
            model.insert(key, i.to_le_bytes()[..2].to_vec());
        }
    }
    db.write(batch).unwrap();
    db.put(&key(2), b"after").unwrap();
    model.insert(key(2), b"after".to_vec());
    let expected: Vec<_> = model.into_iter().collect();
    let crashed = image(&storage);
    let db = Db::open(DIR, Options { write_buffer_bytes: 1, ..quiet(&crashed) }).unwrap();
    assert!(scan_all(&db) == expected);
    // The SSTs hold the write before the batch, the batch, and the write after the batch.
    assert_eq!(db.stats().total.tables, 3);
    let unfiltered = |db: &Db| {
        let before = db.stats().total.points.unfiltered;
        assert_eq!(db.get(b"key000100 and more").unwrap(), None);
        db.stats().total.points.unfiltered - before
    };
    assert_eq!(unfiltered(&db), 1);
    db.compact_range(..).unwrap();
    assert_eq!(unfiltered(&db), 0);
    assert!(scan_all(&db) == expected);
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
fn a_crash_at_any_step_of_a_creation_leaves_a_usable_directory() {
    let storage = Memory::new();
    drop(Db::open(DIR, quiet(&storage)).unwrap());
    let dir = Path::new(DIR);
    // `created` lists the files in the order of their creation. The store exists once
    // `CURRENT.tmp` is renamed to `CURRENT`.
    for count in 0..=4 {
        let crashed = image(&storage);
        let created = ["LOCK", "MANIFEST-000001", "CURRENT.tmp", "CURRENT", "000002.log"];
        replace(&crashed, &dir.join("CURRENT.tmp"), &crashed.read(&dir.join("CURRENT")).unwrap());
        for name in &created[count..] {
            crashed.remove(&dir.join(name)).unwrap();
        }
        if count == 4 {
            // The manifest names the log in its second record, once the log exists. So without the
            // log, the manifest has only its first record.
            change(&crashed, &dir.join("MANIFEST-000001"), |bytes| {
                let payload_len = u32::from_le_bytes(bytes[48..52].try_into().unwrap());
                bytes.truncate(48 + 24 + payload_len as usize);
            });
        }
        let db = Db::open(DIR, sync(&crashed)).unwrap();
        db.put(b"key", b"value").unwrap();
        let again = image(&crashed);
        drop(db);
        for storage in [crashed, again] {
            let db = Db::open(DIR, quiet(&storage)).unwrap();
            assert_eq!(db.get(b"key").unwrap().unwrap(), b"value", "crash after {count} files");
            assert!(!storage.exists(&dir.join("CURRENT.tmp")).unwrap());
        }
    }
    // The first manifest may be torn, as long as it is not in force.
    let crashed = image(&storage);
    crashed.remove(&dir.join("CURRENT")).unwrap();
    crashed.remove(&dir.join("000002.log")).unwrap();
    change(&crashed, &dir.join("MANIFEST-000001"), |bytes| bytes.truncate(30));
    Db::open(DIR, quiet(&crashed)).unwrap();
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
fn a_copy_at_any_moment_holds_all_earlier_acknowledged_writes() {
    let storage = Memory::new();
    let options = || Options {
        auto_compaction: true,
        write_buffer_bytes: 3_000,
        table_size_bytes: 4_000,
        level_base_bytes: 8_000,
        l0_compaction_trigger: 2,
        ..sync(&storage)
    };
    let db = Db::open(DIR, options()).unwrap();
    let mut random = Random(1);
    let mut images = Vec::new();
    let mut written = Vec::new();
    for i in 0..600u64 {
        let k = random.below(100);
        let mut batch = WriteBatch::new();
        batch.put(&key(k), &i.to_le_bytes()).unwrap();
        batch.put(&key(k + 1000), &i.to_le_bytes()).unwrap();
        db.write(batch).unwrap();
        written.push(k);
        if i % 5 == 0 {
            // A crash happens at one moment, but a copy takes time. If files are added or removed
            // meanwhile, the copy may be a state that never existed.
            let names = |storage: &Memory| storage.list(Path::new(DIR)).unwrap();
            let (before, copy) = (names(&storage), image(&storage));
            if before == names(&storage) && before == names(&copy) {
                images.push((written.len(), copy));
            }
        }
    }
    db.close().unwrap();
    assert!(images.len() > 30, "{}", images.len());
    for (len, crashed) in images {
        // A copy may hold only the beginning of an SST, of a log record or of a manifest edit.
        let db = Db::open(DIR, Options { storage: Arc::new(crashed.clone()), ..options() }).unwrap();
        for (i, k) in written[..len].iter().enumerate() {
            let (a, b) = (db.get(&key(*k)).unwrap().unwrap(), db.get(&key(k + 1000)).unwrap().unwrap());
            assert_eq!(a, b, "only half of a batch is present");
            assert!(u64::from_le_bytes(a.try_into().unwrap()) >= i as u64);
        }
        assert!(db.verify().unwrap().is_sound());
        assert!(db.stats().reports.iter().all(|report| report.contains("cut off")), "{:?}", db.stats().reports);
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
