//! Tests stores that are reopened without a crash after a failed sync or another failed operation,
//! and `Db::verify` after a failed sync.

use crate::common::{DIR, batch_of, key, synced};
use filterblock_store::lsm::Durability;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty, Operation};
use filterblock_store::{Db, Result};

/// Opens a store, writes and flushes keys, and compacts. Returns the acknowledged keys.
fn live(storage: &Faulty, keys: std::ops::Range<u64>) -> Result<Vec<u64>> {
    let db = Db::open(DIR, synced(storage))?;
    let mut acknowledged = Vec::new();
    for i in keys {
        if db.put(&key(i), b"value").is_ok() {
            acknowledged.push(i);
        }
        let _ = db.flush();
    }
    let _ = db.compact_range(..);
    Ok(acknowledged)
}

#[test]
fn a_reopened_store_survives_a_power_failure_after_any_bad_sync() {
    let storage = Faulty::new();
    live(&storage, 0..4).unwrap();
    let mut struck = 0;
    for from in 0..storage.operations() {
        let storage = Faulty::new();
        storage.fail(Fault { from, kind: FaultKind::Io, is_lasting: false });
        let mut acknowledged = live(&storage, 0..4).unwrap_or_default();
        struck += storage.struck().len();
        storage.heal();
        acknowledged.extend(live(&storage, 4..8).unwrap());
        for crash in Crash::ALL {
            let db = Db::open(DIR, synced(&storage.after(crash, from)))
                .unwrap_or_else(|error| panic!("{crash:?} after {:?} failed: {error}", storage.struck()));
            let lost: Vec<_> = acknowledged.iter().filter(|&&i| db.get(&key(i)).unwrap().is_none()).collect();
            assert!(
                lost.is_empty(),
                "{crash:?} after {:?} failed: acknowledged keys {lost:?} are lost",
                storage.struck()
            );
        }
    }
    assert!(struck > 30, "{struck}");
}

#[test]
fn a_recovery_from_unsynced_pages_survives_a_power_failure() {
    let storage = Faulty::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    for i in 0..8 {
        let durability = if i < 4 { Durability::Sync } else { Durability::Buffered };
        db.write_with(batch_of([(key(i), Some("value"))]), durability).unwrap();
    }
    // `verify` passes the buffered records to the operating system. From then on, they are only in
    // the page cache, where a recovery finds them.
    assert!(db.verify().unwrap().is_sound());
    storage.fail(Fault { from: storage.operations(), kind: FaultKind::Io, is_lasting: false });
    db.flush().unwrap_err();
    drop(db);
    assert!(matches!(storage.struck()[..], [(Operation::Sync, _)]), "{:?}", storage.struck());
    storage.heal();
    storage.record();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    assert!((0..8).all(|i| db.get(&key(i)).unwrap().is_some()));
    drop(db);
    let moments = storage.moments();
    assert!(moments.len() > 10, "{}", moments.len());
    for moment in moments {
        for crash in Crash::ALL {
            let db = Db::open(DIR, synced(&moment.after(crash, 1)))
                .unwrap_or_else(|error| panic!("{crash:?} {moment:?}: {error}"));
            assert!((0..4).all(|i| db.get(&key(i)).unwrap().is_some()), "{crash:?} {moment:?}");
        }
    }
}

#[test]
fn verify_reports_a_log_after_a_failed_sync() {
    let storage = Faulty::new();
    let db = Db::open(DIR, synced(&storage)).unwrap();
    db.put(&key(0), b"value").unwrap();
    assert!(db.verify().unwrap().is_sound());
    storage.fail(Fault { from: storage.operations(), kind: FaultKind::Io, is_lasting: true });
    assert!(db.put(&key(1), b"value").is_err());
    storage.heal();
    let report = db.verify().unwrap();
    assert!(report.damage.iter().any(|error| error.to_string().contains(".log")), "{report:?}");
}
