//! Tests that a repair can be repeated after a crash or a failed operation.

use std::path::Path;

use crate::common::{self, DIR, files, forget_manifest, key, quiet};
use filterblock_store::lsm::Durability;
use filterblock_store::repair::RepairMode;

use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty};
use filterblock_store::{Db, Options};

fn on(storage: &Faulty) -> Options {
    Options { durability: Durability::Sync, block_size_bytes: 256, ..quiet(storage) }
}

/// Returns a killed store with SSTs in level 1, one SST of deletes and puts in level 0, and more
/// writes in a log. Every SST has a damaged block.
fn damaged_everywhere(with_manifest: bool) -> Faulty {
    let storage = Faulty::new();
    let db = Db::open(DIR, Options { table_size_bytes: 2_000, ..on(&storage) }).unwrap();
    (0..100).for_each(|i| db.put(&key(i), b"a value of some length").unwrap());
    db.compact_range(..).unwrap();
    (20..40).for_each(|i| db.delete(&key(i)).unwrap());
    (40..60).for_each(|i| db.put(&key(i), b"another value").unwrap());
    db.flush().unwrap();
    (70..80).for_each(|i| db.put(&key(i), b"in the log").unwrap());
    let image = storage.after(Crash::Dropped, 0);
    drop(db);
    for table in files(&image, Path::new(DIR), ".sst") {
        image.damage(&table, |bytes| bytes[300] ^= 1).unwrap();
    }
    if !with_manifest {
        forget_manifest(&image);
    }
    image.after(Crash::Kept, 0)
}

fn content(storage: &Faulty) -> Vec<(Vec<u8>, Vec<u8>)> {
    common::scan_all(&Db::open(DIR, on(storage)).unwrap())
}

#[test]
fn a_repair_can_be_repeated_after_a_crash_at_any_point() {
    for with_manifest in [true, false] {
        let storage = damaged_everywhere(with_manifest);
        storage.record();
        Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
        let moments = storage.moments();
        let expected = content(&storage);
        assert!(moments.len() > 20 && expected.len() > 40, "{} {}", moments.len(), expected.len());
        for (seed, moment) in moments.iter().enumerate() {
            for crash in Crash::ALL {
                let image = moment.after(crash, seed as u64);
                let what = format!("with a manifest: {with_manifest}, {moment:?}, {crash:?}");
                Db::repair(DIR, on(&image), RepairMode::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(content(&image) == expected, "{what}");
            }
        }
    }
}

#[test]
fn a_repair_can_be_repeated_after_any_failed_operation() {
    for with_manifest in [true, false] {
        let storage = damaged_everywhere(with_manifest);
        Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
        let (operations, expected) = (storage.operations(), content(&storage));
        for kind in FaultKind::ERRORS {
            for from in 0..operations {
                let storage = damaged_everywhere(with_manifest);
                storage.fail(Fault { from, kind, is_lasting: from % 2 == 0 });
                let failed = Db::repair(DIR, on(&storage), RepairMode::Write);
                let what = format!("with a manifest: {with_manifest}, {kind:?} from {from} on, {:?}", storage.struck());
                storage.heal();
                if let Ok(report) = Db::repair(DIR, on(&storage), RepairMode::Write) {
                    assert!(content(&storage) == expected, "{what}, first {failed:?}, then\n{report}");
                } else {
                    panic!("{what}");
                }
            }
        }
    }
}
