//! Tests that a repair can be repeated after a crash or a failed operation.

use std::path::Path;

use crate::common::{self, DIR, files, key, quiet};
use filterblock_store::lsm::Durability;
use filterblock_store::repair::RepairMode;
use filterblock_store::storage::Storage;
use filterblock_store::storage::faulty::{Crash, Fault, FaultKind, Faulty};
use filterblock_store::{Db, Options};

fn on(storage: &Faulty) -> Options {
    Options { durability: Durability::Sync, block_size_bytes: 256, ..quiet(storage) }
}

/// What each store of these tests has lost.
const GONE: [&[&str]; 3] = [&[], &["CURRENT"], &["CURRENT", "MANIFEST-"]];

/// Returns a killed store with SSTs in level 1, one SST of deletes and puts in level 0, and more
/// writes in a log. Every SST has a damaged block, and the log has a damaged record. The files whose
/// names begin as in `gone` are missing.
fn damaged_everywhere(gone: &[&str]) -> Faulty {
    let storage = Faulty::new();
    let db = Db::open(DIR, Options { table_size_bytes: 2_000, ..on(&storage) }).unwrap();
    (0..100).for_each(|i| db.put(&key(i), b"a value of some length").unwrap());
    db.compact_range(..).unwrap();
    (20..40).for_each(|i| db.delete(&key(i)).unwrap());
    (40..60).for_each(|i| db.put(&key(i), b"another value").unwrap());
    db.flush().unwrap();
    (70..80).for_each(|i| db.put(&key(i), b"in the log").unwrap());
    common::remove_flushed_logs(&storage);
    let image = storage.after(Crash::Kept, 0);
    let paths = |kind| files(&image, Path::new(DIR), kind);
    paths(".sst").iter().for_each(|path| image.damage(path, |bytes| bytes[300] ^= 1).unwrap());
    image.damage(&paths(".log")[0], |bytes| bytes[120] ^= 1).unwrap();
    gone.iter().flat_map(|kind| paths(kind)).for_each(|path| image.remove(&path).unwrap());
    image.after(Crash::Kept, 0)
}

/// Returns the content of a repaired store. Asserts that a copy of a damaged SST is kept.
fn content(storage: &Faulty, what: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lost = files(storage, &Path::new(DIR).join("lost"), ".sst");
    assert!(!lost.is_empty(), "{what}");
    common::scan_all(&Db::open(DIR, on(storage)).unwrap())
}

#[test]
fn a_repair_can_be_repeated_after_a_crash_at_any_point() {
    for gone in GONE {
        let storage = damaged_everywhere(gone);
        storage.record();
        let report = Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
        let moments = storage.moments();
        let expected = content(&storage, "whole");
        assert!(moments.len() > 20 && expected.len() > 40, "{} {}", moments.len(), expected.len());
        assert!(!report.is_complete(), "{report}");
        for (seed, moment) in moments.iter().enumerate() {
            for crash in Crash::ALL {
                let image = moment.after(crash, seed as u64);
                let what = format!("without {gone:?}, {moment:?}, {crash:?}");
                Db::repair(DIR, on(&image), RepairMode::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(content(&image, &what) == expected, "{what}");
            }
        }
    }
}

#[test]
fn a_repair_of_swapped_ssts_can_be_repeated_after_a_crash_at_any_point() {
    let storage = Faulty::new();
    let db = Db::open(DIR, Options { table_size_bytes: 2_000, ..on(&storage) }).unwrap();
    (0..100).for_each(|i| db.put(&key(i), b"a value of some length").unwrap());
    db.compact_range(..).unwrap();
    (20..40).for_each(|i| db.delete(&key(i)).unwrap());
    db.flush().unwrap();
    let (expected, image) = (common::scan_all(&db), storage.after(Crash::Kept, 0));
    let (tables, aside) = (files(&image, Path::new(DIR), ".sst"), Path::new(DIR).join("aside"));
    for (from, to) in [(&tables[0], &aside), (&tables[1], &tables[0]), (&aside, &tables[1])] {
        image.rename(from, to).unwrap();
    }
    let storage = image.after(Crash::Kept, 0);
    storage.record();
    Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
    for (seed, moment) in storage.moments().iter().enumerate() {
        for crash in Crash::ALL {
            let image = moment.after(crash, seed as u64);
            let what = format!("{moment:?}, {crash:?}");
            // Only the log that the repair created may be damaged.
            Db::repair(DIR, on(&image), RepairMode::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(content(&image, &what) == expected, "{what}");
        }
    }
}

#[test]
fn a_repair_can_be_repeated_after_any_failed_operation() {
    for gone in GONE {
        let damaged = damaged_everywhere(gone);
        let storage = damaged.after(Crash::Kept, 0);
        Db::repair(DIR, on(&storage), RepairMode::Write).unwrap();
        let (operations, expected) = (storage.operations(), content(&storage, "whole"));
        for (kind, from) in FaultKind::ERRORS.into_iter().flat_map(|kind| (0..operations).map(move |from| (kind, from)))
        {
            let storage = damaged.after(Crash::Kept, 0);
            storage.fail(Fault { from, kind, is_lasting: from % 2 == 0 });
            let failed = Db::repair(DIR, on(&storage), RepairMode::Write);
            let what = format!("without {gone:?}, {kind:?} from {from} on, {:?}, {failed:?}", storage.struck());
            storage.heal();
            Db::repair(DIR, on(&storage), RepairMode::Write).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(content(&storage, &what) == expected, "{what}");
        }
    }
}
