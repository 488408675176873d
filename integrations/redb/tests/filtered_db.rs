//! Tests [`FilteredDb`].
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use filterblock_redb::{FilteredDb, Opened};
use proptest::prelude::*;
use redb::{Database, TableDefinition};

fn key(number: u32) -> Vec<u8> {
    format!("key {number:08}").into_bytes()
}

fn insert(db: &FilteredDb, numbers: impl IntoIterator<Item = u32>) {
    let mut writer = db.begin_write().unwrap();
    numbers.into_iter().for_each(|number| writer.insert(&key(number), &number.to_le_bytes()).unwrap());
    writer.commit().unwrap();
}

/// Removes a key. Returns whether the key was present.
fn remove(db: &FilteredDb, number: u32) -> bool {
    let mut writer = db.begin_write().unwrap();
    let was_present = writer.remove(&key(number)).unwrap();
    writer.commit().unwrap();
    was_present
}

/// Returns the number of keys whose value a read does not find.
fn missing(db: &FilteredDb, numbers: impl IntoIterator<Item = u32>) -> usize {
    let reader = db.begin_read().unwrap();
    let found = |number: u32| reader.get(&key(number)).unwrap() == Some(number.to_le_bytes().to_vec());
    numbers.into_iter().filter(|&number| !found(number)).count()
}

fn filter_path(path: &Path) -> PathBuf {
    path.with_extension("redb.filter")
}

/// Opens a database whose saved filter must be refused for this reason. Asserts that no key is lost.
fn assert_refused(path: &Path, why: &str, numbers: impl IntoIterator<Item = u32>) {
    let db = FilteredDb::open_saved(path).unwrap();
    assert!(matches!(db.opened(), Opened::Refused(reason) if reason.contains(why)), "{:?}", db.opened());
    assert_eq!(missing(&db, numbers), 0);
}

/// Makes a database with 1,000 keys and a saved filter. Returns the path of the database.
fn saved(dir: &Path) -> PathBuf {
    let path = dir.join("data.redb");
    let mut db = FilteredDb::open(&path).unwrap();
    insert(&db, 0..1_000);
    db.save().unwrap();
    path
}

#[test]
fn saved_filter_is_used_after_a_clean_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    let db = FilteredDb::open_saved(&path).unwrap();
    assert!(matches!(db.opened(), Opened::Saved), "{:?}", db.opened());
    assert_eq!(missing(&db, 0..1_000), 0);
    assert_eq!(db.with_filter_set(|set| set.counts().unfiltered_answers), 0);
}

#[test]
fn saved_filter_is_used_after_commits_without_new_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    let mut db = FilteredDb::open_saved(&path).unwrap();
    assert!(remove(&db, 7));
    db.save().unwrap();
    drop(db);
    let db = FilteredDb::open_saved(&path).unwrap();
    assert!(matches!(db.opened(), Opened::Saved), "{:?}", db.opened());
    assert_eq!(missing(&db, (0..7).chain(8..1_000)), 0);
    assert!(db.begin_read().unwrap().get(&key(7)).unwrap().is_none());
}

#[test]
fn saved_filter_of_an_older_generation_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    insert(&FilteredDb::open_saved(&path).unwrap(), 1_000..1_010);
    assert_refused(&path, "table id", 0..1_010);
}

#[test]
fn saved_filter_of_another_history_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    let backup = std::fs::read(&path).unwrap();
    // Makes two histories with the same numbers of commits and keys.
    let mut db = FilteredDb::open_saved(&path).unwrap();
    insert(&db, 1_000..1_010);
    db.save().unwrap();
    drop(db);
    let filter = std::fs::read(filter_path(&path)).unwrap();
    std::fs::write(&path, backup).unwrap();
    insert(&FilteredDb::open(&path).unwrap(), 2_000..2_010);
    std::fs::write(filter_path(&path), filter).unwrap();
    assert_refused(&path, "table id", (0..1_000).chain(2_000..2_010));
}

#[test]
fn saved_filter_is_not_used_after_an_insert_by_redb_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    let db = Database::open(&path).unwrap();
    let write = db.begin_write().unwrap();
    let table = TableDefinition::<&[u8], &[u8]>::new("data");
    write.open_table(table).unwrap().insert(&key(5_000)[..], &5_000u32.to_le_bytes()[..]).unwrap();
    write.commit().unwrap();
    drop(db);
    assert_refused(&path, "", (0..1_000).chain([5_000]));
}

#[test]
fn damaged_saved_filter_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path());
    let whole = std::fs::read(filter_path(&path)).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damaged =
        [flipped(0), flipped(whole.len() / 2), flipped(whole.len() - 1), whole[..100].to_vec(), vec![0; 1_100]];
    for bytes in damaged {
        std::fs::write(filter_path(&path), bytes).unwrap();
        assert_refused(&path, "", 0..1_000);
    }
}

#[test]
fn older_snapshot_still_sees_a_removed_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = FilteredDb::open(dir.path().join("data.redb")).unwrap();
    insert(&db, 0..100);
    let older = db.begin_read().unwrap();
    assert!(remove(&db, 7));
    assert!(older.get(&key(7)).unwrap().is_some());
    assert!(db.begin_read().unwrap().get(&key(7)).unwrap().is_none());
}

#[test]
fn dropped_writer_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = FilteredDb::open(dir.path().join("data.redb")).unwrap();
    let mut writer = db.begin_write().unwrap();
    writer.insert(b"a", b"1").unwrap();
    drop(writer);
    assert!(db.begin_read().unwrap().get(b"a").unwrap().is_none());
}

#[test]
fn many_new_keys_become_separate_filters() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = FilteredDb::open(dir.path().join("data.redb")).unwrap();
    insert(&db, 0..70_000);
    insert(&db, 70_000..150_000);
    assert_eq!(db.with_filter_set(|set| set.len()), 3);
    assert_eq!(missing(&db, 0..150_000), 0);
    db.rebuild().unwrap();
    assert_eq!(db.with_filter_set(|set| set.len()), 1);
    assert_eq!(missing(&db, 0..150_000), 0);
    // The filter passes 0.39 % of absent keys.
    let passed = (200_000..210_000).filter(|&number| db.may_contain(&key(number)));
    assert!(passed.count() < 100);
}

#[test]
fn readers_find_every_committed_key_during_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = FilteredDb::open(dir.path().join("data.redb")).unwrap();
    let committed = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for batch in 0..20 {
                insert(&db, batch * 10_000..(batch + 1) * 10_000);
                committed.store((batch + 1) * 10_000, std::sync::atomic::Ordering::Release);
            }
        });
        let mut lost = 0;
        let mut end = 0;
        while end < 200_000 {
            end = committed.load(std::sync::atomic::Ordering::Acquire);
            lost += missing(&db, (0..end).step_by(97));
        }
        assert_eq!(lost, 0);
    });
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u32>),
    Remove(u32),
    Rebuild,
    Save,
    Reopen,
    ReopenSaved,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(0..200u32, 0..20).prop_map(Step::Insert),
        2 => (0..200u32).prop_map(Step::Remove),
        1 => Just(Step::Rebuild),
        1 => Just(Step::Save),
        1 => Just(Step::Reopen),
        1 => Just(Step::ReopenSaved),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn filtered_db_agrees_with_a_map(steps in prop::collection::vec(step(), 1..25)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.redb");
        let mut db = FilteredDb::open(&path).unwrap();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(numbers) => {
                    insert(&db, numbers.iter().copied());
                    model.extend(numbers.into_iter().map(|number| (number, ())));
                }
                Step::Remove(number) => prop_assert_eq!(remove(&db, number), model.remove(&number).is_some()),
                Step::Rebuild => db.rebuild().unwrap(),
                Step::Save => db.save().unwrap(),
                Step::Reopen => {
                    drop(db);
                    db = FilteredDb::open(&path).unwrap();
                }
                Step::ReopenSaved => {
                    drop(db);
                    db = FilteredDb::open_saved(&path).unwrap();
                }
            }
            let reader = db.begin_read().unwrap();
            for number in 0..200 {
                prop_assert_eq!(reader.get(&key(number)).unwrap().is_some(), model.contains_key(&number));
            }
        }
    }
}
