//! Tests that the golden stores open: their manifest, `CURRENT`, SSTs, and a log that was never
//! replayed.
//!
//! Until the first release, the golden stores are made again for each change of the layout. Then
//! version 1 is frozen: if this test fails after that, the code is wrong, or a version 2 is needed.
//! docs/TESTING.md has the commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use filterblock::{HashKind, Secret};
use filterblock_store::lsm::Durability;
use filterblock_store::{Db, Error, Options};

/// A store without a secret, a store whose keys are hashed with SipHash-1-3 and a secret, and a
/// store whose filters hold prefixes.
const STORES: [&str; 3] = ["v1-store", "v1-store-siphash", "v1-store-prefixes"];

const EXTRACTOR: &str = "fixed:10";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Three generations of writes: in an SST of level 1, in an SST of level 0, and in the log. A later
/// generation overwrites a part of the earlier ones. The number `n` means that a generation writes
/// every `n`-th key.
const GENERATIONS: [(&str, usize); 3] = [("level 1", 1), ("level 0", 3), ("log", 7)];

fn key(i: usize) -> Vec<u8> {
    if i == 0 { Vec::new() } else { format!("golden/{i:04}").into_bytes() }
}

/// Returns the entries of a generation: every `step`-th of 300 keys. One in five of them is a
/// tombstone.
fn generation(name: &str, step: usize) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    (0..300).step_by(step).enumerate().map(move |(nth, i)| {
        let value = format!("{name} {i} {}", "-".repeat(i % 13)).into_bytes();
        (key(i), (nth % 5 != 4).then_some(value))
    })
}

fn expected() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut content = BTreeMap::new();
    for (key, value) in GENERATIONS.into_iter().flat_map(|(name, step)| generation(name, step)) {
        match value {
            Some(value) => content.insert(key, value),
            None => content.remove(&key),
        };
    }
    content
}

fn options(name: &str) -> Options {
    let secret = name.ends_with("-siphash").then(|| Secret::new(b"sixteen and good").unwrap());
    // `prefix_extractor` stays unset: a store opens with the extractor that it was created with.
    Options {
        secret,
        create_if_missing: false,
        hash_seed: Some(0x0123_4567_89ab_cdef),
        durability: Durability::Sync,
        auto_compaction: false,
        strict_filters: true,
        ..Options::default()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "LOCK" {
            fs::write(to.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

fn check(db: &Db) {
    let expected = expected();
    for i in 0..300 {
        assert_eq!(db.get(&key(i)).unwrap().as_ref(), expected.get(&key(i)), "key {i}");
    }
    assert_eq!(db.get(b"golden/0299-").unwrap(), None);
    let scanned: BTreeMap<_, _> = db.scan(..).collect::<Result<_, _>>().unwrap();
    assert_eq!(scanned, expected);
    let report = db.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(db.stats().reports.is_empty(), "{:?}", db.stats().reports);
}

#[test]
fn a_store_of_version_1_opens_with_every_key_and_its_log() {
    STORES.iter().for_each(|name| opens_with_every_key_and_its_log(name));
}

fn opens_with_every_key_and_its_log(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    copy(&golden(name), &path);
    let db = Db::open(&path, options(name)).unwrap();
    let levels: Vec<u64> = db.stats().levels.iter().map(|level| level.tables).collect();
    assert_eq!(levels[..2], [2, 1], "expected one SST per level, and one SST for the log's writes");
    check(&db);
    if name.ends_with("-prefixes") {
        assert_eq!(db.stats().prefix_extractor.as_deref(), Some(EXTRACTOR));
        // One of the SSTs holds only the writes of the log.
        assert_eq!(db.stats().total.tables_without_prefixes, 0);
        let num_present = expected().keys().filter(|key| key.starts_with(b"golden/015")).count();
        assert_eq!(db.scan_prefix(b"golden/015").count(), num_present);
        assert_eq!(db.scan_prefix(b"golden/01x").count(), 0);
        let prefixes = db.stats().total.prefixes;
        assert_eq!(prefixes.true_negatives + prefixes.false_positives, 3, "{prefixes:?}");
    }
    let snapshot = db.snapshot();
    assert_eq!(snapshot.get(&key(7)).unwrap().as_ref(), expected().get(&key(7)));
    drop(snapshot);
    db.close().unwrap();
    // The store opens again after the current code has written to it.
    let db = Db::open(&path, options(name)).unwrap();
    db.compact_range(..).unwrap();
    check(&db);
}

#[test]
fn the_golden_stores_hold_the_files_they_are_meant_to_test() {
    STORES.iter().for_each(|name| holds_the_files_it_is_meant_to_test(name));
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(STORES[1]), dir.path());
    let error = Db::open(dir.path(), options(STORES[0])).unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::Filter(filterblock::Error::Secret { hash: HashKind::SipHash13, given: None, .. })
        ),
        "{error}"
    );
}

fn holds_the_files_it_is_meant_to_test(name: &str) {
    let mut names: Vec<String> =
        fs::read_dir(golden(name)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.iter().filter(|name| name.ends_with(".sst")).count(), 2, "{names:?}");
    assert!(names.contains(&"CURRENT".to_owned()) && names.iter().any(|name| name.starts_with("MANIFEST-")));
    let log = names.iter().find(|name| name.ends_with(".log")).unwrap();
    // The last generation is only in the log.
    let in_log = fs::read(golden(name).join(log)).unwrap();
    assert!(in_log.windows(7).any(|window| window == b"log 35 "));
}

/// Creates the missing golden stores: `cargo test -p filterblock-store --test store golden --
/// --ignored`.
#[test]
#[ignore = "writes the missing stores in tests/golden"]
fn make_missing_golden_stores() {
    STORES.iter().filter(|name| !golden(name).exists()).for_each(|name| make(name));
}

fn make(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let extractor = if store.ends_with("-prefixes") { EXTRACTOR } else { "none" };
    let prefix_extractor = extractor.parse().unwrap();
    let db = Db::open(&path, Options { create_if_missing: true, prefix_extractor, ..options(store) }).unwrap();
    for (name, step) in GENERATIONS {
        db.write(common::batch_of(generation(name, step))).unwrap();
        match name {
            "level 1" => db.compact_range(..).unwrap(),
            "level 0" => db.flush().unwrap(),
            _ => {}
        }
    }
    check(&db);
    // Copy the files as a crash would leave them. A close would flush the log to an SST.
    copy(&path, &golden(store));
}
