//! Tests stores whose file numbers or sequence numbers are close to the limit, and logs that go
//! beyond it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use super::manifest::Manifest;
use super::manifest::edit::{MAX_NUMBER, MAX_WRITTEN_NUMBER, StoreState};
use super::wal::{LogId, LogKind, LogWriter};
use super::{Db, LogRecovery, Options, WriteBatch};
use crate::error::{Error, Field};
use crate::storage::{Memory, Storage};

const DIR: &str = "/store";

fn options(storage: &Memory) -> Options {
    Options { storage: Arc::new(storage.clone()), auto_compaction: false, ..Options::default() }
}

/// Creates a store with the keys 0 to 9, applies `change` to the state in its manifest, and returns
/// its storage.
fn store(change: impl FnOnce(&mut StoreState)) -> Memory {
    let storage = Memory::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    (0..10u8).for_each(|i| db.put(&[i], b"value").unwrap());
    db.close().unwrap();
    let mut state = Manifest::recover(&storage, Path::new(DIR), None).unwrap().state;
    state.next_file_number = 101;
    change(&mut state);
    Manifest::create(&storage, Path::new(DIR), 100, &state.snapshot()).unwrap();
    storage
}

fn keys(db: &Db) -> u64 {
    db.scan(..).map(Result::unwrap).count() as u64
}

#[test]
fn a_store_near_the_last_number_is_readable_and_takes_no_write() {
    for number in [MAX_WRITTEN_NUMBER + 2, MAX_NUMBER - 100] {
        for field in [Field::FileNumber, Field::LogSequence] {
            let storage = store(|state| match field {
                Field::FileNumber => state.next_file_number = number,
                _ => state.last_sequence = number,
            });
            for _ in 0..5 {
                let db = Db::open(DIR, options(&storage)).unwrap();
                assert_eq!(keys(&db), 10);
                let copy = || db.checkpoint("/copy").unwrap_err();
                for error in [db.put(b"more", b"").unwrap_err(), db.delete(&[1]).unwrap_err(), copy()] {
                    let named = matches!(error.root(), Error::OutOfNumbers { field: found, .. } if *found == field);
                    assert!(named && !storage.exists(Path::new("/copy")).unwrap(), "{error}");
                }
                db.compact_range(..).unwrap();
                assert!(db.verify().unwrap().is_sound());
                db.close().unwrap();
            }
        }
    }
}

#[test]
fn acknowledged_writes_up_to_the_limit_survive() {
    for field in [Field::FileNumber, Field::LogSequence] {
        let storage = store(|state| match field {
            Field::FileNumber => state.next_file_number = MAX_WRITTEN_NUMBER - 20,
            _ => state.last_sequence = MAX_WRITTEN_NUMBER - 20,
        });
        let mut acknowledged = 10;
        for round in 0..12u8 {
            let db = Db::open(DIR, options(&storage)).unwrap();
            assert_eq!(keys(&db), acknowledged, "round {round}");
            for i in 0..6u8 {
                let mut batch = WriteBatch::new();
                (0..3u8).for_each(|part| batch.put(&[b'k', round, i, part], b"").unwrap());
                match db.write(batch) {
                    Ok(()) => acknowledged += 3,
                    Err(error) => assert!(matches!(error.root(), Error::OutOfNumbers { .. }), "{error}"),
                }
            }
            db.close().unwrap();
        }
        assert!((20..200).contains(&acknowledged), "{acknowledged}");
    }
}

#[test]
fn a_log_that_goes_beyond_the_last_number_is_damaged() {
    for recovery in [LogRecovery::Strict, LogRecovery::Salvage] {
        let mut store_id = [0; 16];
        let storage = store(|state| {
            store_id = state.store_id;
            (state.last_sequence, state.log_number) = (MAX_NUMBER - 1, 100);
        });
        let (path, id) =
            (Path::new(DIR).join("000100.log"), LogId { kind: LogKind::WriteAhead, store_id, number: 100 });
        let mut log = LogWriter::create(&storage, &path, id, MAX_NUMBER).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"").unwrap();
        log.append(MAX_NUMBER, &[batch.encoded()]).unwrap();
        log.sync().unwrap();
        let up_to_the_last = Memory::new();
        up_to_the_last.create_dir_all(Path::new(DIR)).unwrap();
        for name in storage.list(Path::new(DIR)).unwrap() {
            let path = Path::new(DIR).join(name);
            up_to_the_last.create(&path).unwrap().write_all(&storage.read(&path).unwrap()).unwrap();
        }
        let db = Db::open(DIR, Options { recovery, ..options(&up_to_the_last) }).unwrap();
        assert_eq!(db.get(b"a").unwrap(), Some(vec![]));
        drop(db);
        storage.remove(&path).unwrap();
        let mut log = LogWriter::create(&storage, &path, id, MAX_NUMBER).unwrap();
        batch.put(b"b", b"").unwrap();
        log.append(MAX_NUMBER, &[batch.encoded()]).unwrap();
        log.sync().unwrap();
        let error = Db::open(DIR, Options { recovery, ..options(&storage) }).map(drop).unwrap_err();
        let named = matches!(error.root(), Error::Corrupt { field: Field::LogSequence, .. });
        assert!(named && error.to_string().starts_with("/store/000100.log"), "{error}");
    }
}

#[test]
fn a_log_that_begins_beyond_the_last_number_is_damaged() {
    for first in [MAX_NUMBER + 2, u64::MAX] {
        let mut store_id = [0; 16];
        let storage = store(|state| {
            store_id = state.store_id;
            state.log_number = 100;
        });
        let id = LogId { kind: LogKind::WriteAhead, store_id, number: 100 };
        let path = Path::new(DIR).join("000100.log");
        LogWriter::create(&storage, &path, id, first).unwrap().sync().unwrap();
        for recovery in [LogRecovery::Strict, LogRecovery::Salvage] {
            let error = Db::open(DIR, Options { recovery, ..options(&storage) }).map(drop).unwrap_err();
            let named = matches!(error.root(), Error::Corrupt { field: Field::LogSequence, .. });
            assert!(named && error.to_string().starts_with("/store/000100.log"), "{error}");
        }
    }
}
