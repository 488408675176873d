//! After a sync that failed, the operating system may go on showing bytes that no later sync brings to the disk. A store
//! that is opened again, without a crash between, must not put anything behind them.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;

use common::{DIR, key};
use filterblock::lsm::Durability;
use filterblock::storage::faulty::{Crash, Fault, FaultKind, Faulty};
use filterblock::{Db, Options, Result};

fn options(storage: &Faulty) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        durability: Durability::Sync,
        hash_seed: Some(7),
        auto_compaction: false,
        ..Options::default()
    }
}

/// Writes and flushes keys; those that were acknowledged.
fn live(storage: &Faulty, keys: std::ops::Range<u64>) -> Result<Vec<u64>> {
    let db = Db::open(DIR, options(storage))?;
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
fn whichever_sync_fails_the_store_opened_again_outlives_a_power_failure() {
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
            let db = Db::open(DIR, options(&storage.after(crash, from)))
                .unwrap_or_else(|error| panic!("{crash:?} after {:?} failed: {error}", storage.struck()));
            let lost: Vec<_> = acknowledged.iter().filter(|&&i| db.get(&key(i)).unwrap().is_none()).collect();
            assert!(lost.is_empty(), "{crash:?} after {:?} failed: {lost:?} lost", storage.struck());
        }
    }
    assert!(struck > 30, "{struck}");
}
