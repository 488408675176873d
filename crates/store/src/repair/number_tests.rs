//! Tests the repair of a store whose manifest has impossible file and sequence numbers.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;

use super::RepairMode;
use crate::lsm::parts::Manifest;
use crate::lsm::{Db, Options};
use crate::storage::Memory;

const DIR: &str = "/store";

fn options(storage: &Memory) -> Options {
    Options { storage: Arc::new(storage.clone()), auto_compaction: false, ..Options::default() }
}

#[test]
fn a_repair_ignores_impossible_numbers_in_a_manifest() {
    let storage = Memory::new();
    let db = Db::open(DIR, options(&storage)).unwrap();
    (0..10u8).for_each(|i| db.put(&[i], b"value").unwrap());
    db.close().unwrap();
    let mut state = Manifest::recover(&storage, Path::new(DIR), None).unwrap().state;
    (state.next_file_number, state.last_sequence) = (u64::MAX, u64::MAX - 1);
    Manifest::create(&storage, Path::new(DIR), 100, &state.snapshot()).unwrap();
    assert!(Db::open(DIR, options(&storage)).unwrap_err().is_damage());
    let report = Db::repair(DIR, options(&storage), RepairMode::Write).unwrap();
    assert!(report.new_manifest, "{report}");
    let db = Db::open(DIR, options(&storage)).unwrap();
    db.put(b"more", b"").unwrap();
    assert_eq!(db.scan(..).map(Result::unwrap).count(), 11);
}
