//! Tests temporary failures in background threads, such as a full disk or too few file descriptors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{DIR, files, in_time, is_table, key, scan_all, wait_until};
use filterblock_store::lsm::{Durability, Task};
use filterblock_store::storage::faulty::{Crash, Faulty, Operation};
use filterblock_store::{Db, Error, Options};

/// Error numbers of Linux: no space, too many open files in the process or in the system, quota
/// exceeded, I/O error, no memory.
const ERRORS: [i32; 6] = [28, 24, 23, 122, 5, 12];

fn options(storage: &Faulty) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        durability: Durability::Sync,
        hash_seed: Some(7),
        write_buffer_bytes: 4_000,
        l0_compaction_trigger: 2,
        l0_stall_trigger: 3,
        ..Options::default()
    }
}

/// Makes the operation `refused` fail with the error number `errno` on every SST.
fn refuse_tables(storage: &Faulty, refused: Operation, errno: i32) {
    storage.refuse(Some(Arc::new(move |operation, path| (operation == refused && is_table(path)).then_some(errno))));
}

/// The operations by which the store writes a new SST and opens it.
const TABLE_OPERATIONS: [Operation; 5] =
    [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename, Operation::Open];

#[test]
fn a_failing_compaction_refuses_no_write() {
    for (operation, errno) in TABLE_OPERATIONS.into_iter().flat_map(|operation| ERRORS.map(|errno| (operation, errno)))
    {
        let what = format!("{operation:?} fails with {errno}");
        let storage = Faulty::new();
        let db = Db::open(DIR, Options { auto_compaction: false, ..options(&storage) }).unwrap();
        for i in 0..3 {
            db.put(&key(i), b"old").unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        let db = Arc::new(Db::open(DIR, options(&storage)).unwrap());
        refuse_tables(&storage, operation, errno);
        // The store needs a compaction, which fails.
        let writer = Arc::clone(&db);
        in_time("the store", move || (0..20).for_each(|i| writer.put(&key(i), b"new").unwrap()));
        storage.refuse(None);
        let db = in_time("the store", move || {
            db.flush().unwrap();
            db.wait_idle().unwrap();
            db
        });
        assert!(db.stats().compactions > 0, "{what}");
        assert!((0..20).all(|i| db.get(&key(i)).unwrap().unwrap() == b"new"), "{what}");
        drop(db);
        let tables = files(&storage, Path::new(DIR), ".sst").len();
        assert!(tables <= 2, "{what}: files remain: {:?}", files(&storage, Path::new(DIR), ""));
    }
}

#[test]
fn a_failing_flush_is_retried() {
    for (operation, errno) in TABLE_OPERATIONS.into_iter().flat_map(|operation| ERRORS.map(|errno| (operation, errno)))
    {
        let what = format!("{operation:?} fails with {errno}");
        let storage = Faulty::new();
        let db = Db::open(DIR, options(&storage)).unwrap();
        refuse_tables(&storage, operation, errno);
        let mut model = BTreeMap::new();
        // Writes succeed up to the memory bound. Beyond it the store refuses them immediately and
        // gives the reason.
        let (db, refused, written) = in_time("the store", move || {
            for i in 0.. {
                match db.put(&key(i), &[b'v'; 500]) {
                    Ok(()) => drop(model.insert(key(i), vec![b'v'; 500])),
                    Err(error) => return (db, error, model),
                }
            }
            unreachable!()
        });
        let mut model = written;
        assert!(model.len() > 10 && model.len() < 200, "{what}: {}", model.len());
        let number = format!("os error {errno}");
        assert!(refused.to_string().contains(&number), "{what}: {refused}");
        assert!(!matches!(refused.root(), Error::Poisoned { .. }), "{what}: {refused}");
        assert!(db.flush().unwrap_err().to_string().contains(&number), "{what}");
        let refused = db.put(b"another", b"").unwrap_err();
        assert!(
            matches!(refused, Error::BackgroundFails { .. }),
            "{what}: the store accepts writes beyond its memory bound: {refused}"
        );
        let stats = db.stats();
        assert!(stats.background_errors > 0 && stats.reports.is_empty(), "{what}");
        assert_eq!(stats.retrying.iter().map(|retry| retry.task).collect::<Vec<_>>(), [Task::Flush], "{what}");
        assert!(stats.retrying[0].reason.contains(&number), "{what}: {stats:?}");
        assert!(db.wait_idle().unwrap_err().to_string().contains(&number), "{what}");
        assert_eq!(scan_all(&db), model.clone().into_iter().collect::<Vec<_>>(), "{what}");
        let crashed = Db::open(DIR, options(&storage.after(Crash::Dropped, 0))).unwrap();
        assert_eq!(scan_all(&crashed), model.clone().into_iter().collect::<Vec<_>>(), "{what}");
        storage.refuse(None);
        let (db, stored) = in_time("the store", move || {
            if errno == ERRORS[0] {
                // The store retries by itself.
                wait_until(|| db.put(b"later", b"").is_ok());
            } else {
                db.flush().unwrap();
                db.put(b"later", b"").unwrap();
            }
            (db, storage)
        });
        model.insert(b"later".to_vec(), Vec::new());
        in_time("the store", move || {
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert!(db.stats().retrying.is_empty());
            db.close().unwrap();
        });
        let names = files(&stored, Path::new(DIR), ".tmp");
        assert!(names.is_empty(), "{what}: {names:?}");
        assert_eq!(
            scan_all(&Db::open(DIR, options(&stored)).unwrap()),
            model.into_iter().collect::<Vec<_>>(),
            "{what}"
        );
    }
}

#[test]
fn a_store_whose_flushes_fail_forever_closes_at_once() {
    for drops in [false, true] {
        let storage = Faulty::new();
        // Only the log can hold the writes after the close.
        let db = Db::open(DIR, Options { durability: Durability::Buffered, ..options(&storage) }).unwrap();
        let attempts = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&attempts);
        storage.refuse(Some(Arc::new(move |operation, path| {
            let is_refused = operation == Operation::Create && is_table(path);
            is_refused.then(|| {
                count.fetch_add(1, Ordering::Relaxed);
                28
            })
        })));
        (0..20).for_each(|i| db.put(&key(i), &[b'v'; 500]).unwrap());
        let error = in_time("the store", move || match drops {
            true => {
                drop(db);
                None
            }
            false => Some(db.close().unwrap_err()),
        });
        assert!(error.is_none_or(|error| error.to_string().contains("os error 28")));
        // The store does not retry in a tight loop.
        let attempts = attempts.load(Ordering::Relaxed);
        assert!((1..10).contains(&attempts), "{attempts} attempts at the flush");
        storage.refuse(None);
        assert_eq!(scan_all(&Db::open(DIR, options(&storage)).unwrap()).len(), 20);
    }
}

#[test]
fn a_log_or_manifest_that_cannot_be_created_is_retried() {
    let storage = Faulty::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    storage.refuse(Some(Arc::new(|operation, path| (operation == Operation::Create && !is_table(path)).then_some(24))));
    let refused = (0..100).map(|i| db.put(&key(i), &[b'v'; 500])).find_map(Result::err).unwrap();
    assert!(refused.to_string().contains("os error 24"), "{refused}");
    assert!(db.flush().unwrap_err().to_string().contains("os error 24"));
    storage.refuse(None);
    (0..100).for_each(|i| db.put(&key(i), &[b'w'; 500]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(scan_all(&Db::open(DIR, options(&storage)).unwrap()).len(), 100);
}

#[test]
fn a_manifest_that_cannot_be_replaced_stays_in_use() {
    // Some of the operations on a new manifest and on `CURRENT.tmp` before the manifest is in
    // force.
    let refusals: [fn(Operation, &Path) -> bool; 5] = [
        |operation, path| operation == Operation::Create && path.to_string_lossy().contains("MANIFEST"),
        |operation, path| operation == Operation::Sync && path.ends_with("MANIFEST-000023"),
        |operation, path| operation == Operation::Create && path.ends_with("CURRENT.tmp"),
        |operation, path| operation == Operation::Write && path.ends_with("CURRENT.tmp"),
        |operation, path| operation == Operation::Sync && path.ends_with("CURRENT.tmp"),
    ];
    for (number, is_refused) in refusals.into_iter().enumerate() {
        let storage = Faulty::new();
        let options = || Options { auto_compaction: false, ..options(&storage) };
        let db = Db::open(DIR, options()).unwrap();
        let manifests = || files(&storage, Path::new(DIR), "MANIFEST-");
        let before = manifests();
        storage.refuse(Some(Arc::new(move |operation, path| is_refused(operation, path).then_some(28))));
        let long = |i: u64| [key(i), vec![b'k'; 60_000]].concat();
        for i in 0..12 {
            db.put(&long(i), b"").unwrap();
            db.flush().unwrap();
        }
        assert!(number == 1 || manifests() == before, "{number}: {:?}", manifests());
        let image = storage.after(Crash::Dropped, 0);
        let crashed = Db::open(DIR, Options { storage: Arc::new(image), ..options() }).unwrap();
        assert_eq!(scan_all(&crashed).len(), 12, "{number}");
        storage.refuse(None);
        db.put(b"", b"").unwrap();
        db.flush().unwrap();
        assert!(manifests().len() == 1 && manifests() != before, "{number}: {:?}", manifests());
        db.close().unwrap();
        assert_eq!(scan_all(&Db::open(DIR, options()).unwrap()).len(), 13, "{number}");
    }
}

#[test]
fn a_failed_directory_sync_refuses_writes_until_reopened() {
    let storage = Faulty::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    db.put(b"key", b"").unwrap();
    // Without a descriptor, the sync did not start, so no data is at risk.
    storage.refuse(Some(Arc::new(|operation, _| (operation == Operation::SyncDir).then_some(24))));
    assert!(db.flush().unwrap_err().to_string().contains("os error 24"));
    storage.refuse(None);
    db.flush().unwrap();
    db.put(b"key", b"").unwrap();
    storage.refuse(Some(Arc::new(|operation, _| (operation == Operation::SyncDir).then_some(5))));
    assert!(db.flush().unwrap_err().to_string().contains("os error 5"));
    storage.refuse(None);
    assert!(matches!(db.put(b"key", b"").unwrap_err(), Error::Poisoned { .. }));
}

#[test]
fn a_file_that_cannot_be_removed_is_removed_later() {
    let storage = Faulty::new();
    let db = Db::open(DIR, Options { auto_compaction: false, ..options(&storage) }).unwrap();
    let obsolete = |kind| files(&storage, Path::new(DIR), kind).len();
    storage.refuse(Some(Arc::new(|operation, _| (operation == Operation::Remove).then_some(5))));
    for i in 0..4 {
        db.put(&key(i), b"").unwrap();
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    wait_until(|| obsolete(".log") == 5 && obsolete(".sst") == 5);
    storage.refuse(None);
    db.put(b"", b"").unwrap();
    db.flush().unwrap();
    wait_until(|| obsolete(".log") == 1 && obsolete(".sst") == 2);
}

#[test]
fn a_filter_that_could_not_be_read_is_read_later() {
    let storage = Faulty::new();
    let options = || Options { auto_compaction: false, ..options(&storage) };
    let db = Db::open(DIR, options()).unwrap();
    (0..1_000).for_each(|i| db.put(&key(i), b"").unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    // The reader reads the footer and the properties before the filter, so the filter is the third
    // read.
    let reads = AtomicU64::new(0);
    storage.refuse(Some(Arc::new(move |operation, path| {
        let is_filter = operation == Operation::ReadAt && is_table(path) && reads.fetch_add(1, Ordering::Relaxed) == 2;
        is_filter.then_some(12)
    })));
    let db = Db::open(DIR, options()).unwrap();
    assert_eq!(db.stats().total.degraded_tables, 1);
    let snapshot = db.snapshot();
    storage.refuse(None);
    // The flush makes the store open the SST again. The write overlaps the SST, so that the
    // compaction below merges both.
    db.put(&key(5), b"").unwrap();
    db.flush().unwrap();
    wait_until(|| db.stats().total.degraded_tables == 0);
    assert!((0..1_000).all(|i| db.get(&key(i)).unwrap().is_some()));
    // The snapshot's SST and the SST that was opened again share one file, which is removed when no
    // reader uses it.
    db.compact_range(..).unwrap();
    assert_eq!(files(&storage, Path::new(DIR), ".sst").len(), 2);
    assert!((0..1_000).all(|i| snapshot.get(&key(i)).unwrap().is_some()));
    drop(snapshot);
    wait_until(|| files(&storage, Path::new(DIR), ".sst").len() == 1);
}

#[test]
fn waiting_writers_share_the_error_of_a_retried_flush() {
    let storage = Faulty::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    refuse_tables(&storage, Operation::Create, 28);
    let db = in_time("the store", move || {
        let write = |writer: u64| {
            let error = (0..).find_map(|i| db.put(&key(writer << 20 | i), &[b'v'; 300]).err()).unwrap();
            assert!(matches!(error, Error::BackgroundFails { .. }), "{error}");
        };
        let write = &write;
        std::thread::scope(|scope| (0..4).for_each(|writer| drop(scope.spawn(move || write(writer)))));
        db
    });
    storage.refuse(None);
    db.flush().unwrap();
    db.put(b"", b"").unwrap();
}

#[test]
fn a_table_that_would_fill_the_disk_leaves_space_for_logs() {
    let storage = Faulty::new();
    let options = || Options { auto_compaction: false, write_buffer_bytes: 1 << 20, ..options(&storage) };
    let db = Db::open(DIR, options()).unwrap();
    for parity in 0..2 {
        (0..1_000).for_each(|i| db.put(&key(2 * i + parity), &[b'v'; 200]).unwrap());
        db.flush().unwrap();
    }
    // The capacity is slightly below the space that the compaction needs.
    storage.set_capacity(Some(db.stats().total.bytes * 2));
    let error = db.compact_range(..).unwrap_err();
    assert!(matches!(error.root(), Error::NoSpace { .. }), "{error}");
    (0..1_000).for_each(|i| db.delete(&key(i)).unwrap());
    // Wait until the obsolete log is removed. A later removal would free space after the
    // measurement.
    wait_until(|| files(&storage, Path::new(DIR), ".log").len() == 1);
    const PLENTY: u64 = 1 << 40;
    storage.set_capacity(Some(PLENTY));
    let used = PLENTY - filterblock_store::storage::Storage::free_bytes(&storage, Path::new(DIR)).unwrap().unwrap();
    storage.set_capacity(Some(used + (60 << 10)));
    // 60 KiB are too little for both the flush and the compaction after it, so one of them must
    // fail.
    let error = db.flush().and_then(|()| db.compact_range(..)).unwrap_err();
    assert!(error.to_string().contains("must be free"), "{error}");
    db.delete(&key(1_000)).unwrap();
    storage.set_capacity(None);
    db.compact_range(..).unwrap();
    assert_eq!(scan_all(&db).len(), 999);
}

#[test]
fn deletes_are_accepted_while_compactions_lack_space() {
    for reopens in [false, true] {
        let storage = Faulty::new();
        let options = || Options {
            write_buffer_bytes: 64 << 10,
            l0_compaction_trigger: 4,
            l0_stall_trigger: 4,
            ..options(&storage)
        };
        let keys = 20_000;
        let mut db = Db::open(DIR, options()).unwrap();
        // The keys are shuffled, so that each compaction merges all SSTs.
        (0..keys).for_each(|i| db.put(&key(i * 7_919 % keys), &[b'v'; 200]).unwrap());
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        // Other programs have filled the disk in the meantime.
        let used = db.stats().total.bytes;
        storage.set_capacity(Some(used * 8 / 5));
        db.close().unwrap();
        db = Db::open(DIR, options()).unwrap();
        let refused = db.put(b"", b"").unwrap_err();
        assert!(matches!(refused.root(), Error::NoSpace { .. }), "{refused}");
        let mut failures = 0;
        for i in 0..keys {
            if reopens && i % (keys / 5) == keys / 10 {
                failures += db.stats().background_errors;
                drop(db);
                db = Db::open(DIR, options()).unwrap();
            }
            db.delete(&key(i)).unwrap_or_else(|error| panic!("delete {i}: {error}"));
        }
        failures += db.stats().background_errors;
        println!("{failures} compactions had no space");
        assert!(failures > 0);
        db.compact_range(..).unwrap();
        assert!(scan_all(&db).is_empty());
        assert!(db.stats().total.bytes < used / 20);
        db.put(b"", b"").unwrap();
        db.close().unwrap();
        assert_eq!(scan_all(&Db::open(DIR, options()).unwrap()).len(), 1);
    }
}

/// Fills a store until it refuses a write. Returns the number of accepted keys and the error.
fn fill(db: &Db, value: &[u8]) -> (u64, Error) {
    for i in 0.. {
        if let Err(error) = db.put(&key(i), value) {
            return (i, error);
        }
    }
    unreachable!()
}

#[test]
fn a_full_store_can_be_emptied() {
    for (durability, reopens) in [(Durability::Sync, true), (Durability::Sync, false), (Durability::Buffered, true)] {
        let capacity = 3 << 20;
        let storage = Faulty::new();
        storage.set_capacity(Some(capacity));
        let options = || Options {
            durability,
            write_buffer_bytes: 64 << 10,
            table_size_bytes: 256 << 10,
            level_base_bytes: 512 << 10,
            l0_compaction_trigger: 4,
            l0_stall_trigger: 8,
            ..options(&storage)
        };
        let mut db = Db::open(DIR, options()).unwrap();
        let (taken, full) = fill(&db, &[b'v'; 200]);
        println!("{taken} keys of 209 bytes on a disk of {capacity}: {full}");
        assert!(taken > 2_000, "{taken}: {full}");
        let is_there = |db: &Db, from: u64| {
            let found: Vec<_> = scan_all(db).into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, (from..taken).map(key).collect::<Vec<_>>());
        };
        is_there(&db, 0);
        for i in 0..taken {
            if reopens && i % (taken / 5) == taken / 10 {
                drop(db);
                db = Db::open(DIR, options()).unwrap();
                is_there(&db, i);
            }
            db.delete(&key(i)).unwrap_or_else(|error| panic!("delete {i} of {taken}: {error}"));
        }
        is_there(&db, taken);
        db.compact_range(..).unwrap();
        db.close().unwrap();
        let db = Db::open(DIR, options()).unwrap();
        is_there(&db, taken);
        db.close().unwrap();
        let left: u64 = files(&storage, Path::new(DIR), "")
            .iter()
            .map(|path| filterblock_store::storage::Storage::read(&storage, path).unwrap().len() as u64)
            .sum();
        assert!(left < 64 << 10, "{left} bytes remain: {:?}", files(&storage, Path::new(DIR), ""));
        let db = Db::open(DIR, options()).unwrap();
        let (again, _) = fill(&db, &[b'v'; 200]);
        assert!(again > taken / 2, "the emptied store accepted only {again} keys, and the new one {taken}");
    }
}
