//! Tests that a store keeps working in the directory that it opened, even if the directory's name
//! changes, and that it keeps other handles out.

use crate::steps;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{self, batch_of, key, scan_all, scratch};
use filterblock_store::lsm::Durability;
use filterblock_store::{Db, Error, Options, Result};

const CHILD: &str = concat!(module_path!(), "::the_child_process_of_the_relative_path_test");

fn options() -> Options {
    Options { durability: Durability::Sync, auto_compaction: false, ..Options::default() }
}

/// Opens a store and fills it with three overlapping SSTs and some writes that are only in its log.
fn open_filled(dir: &Path, value: &[u8]) -> Db {
    open_with_tables(3, dir, value)
}

fn open_with_tables(tables: u64, dir: &Path, value: &[u8]) -> Db {
    let db = Db::open(dir, options()).unwrap();
    for table in 0..tables {
        // One batch takes only one sync.
        db.write(batch_of((0..300).filter(|i| i % tables == table).map(|i| (key(i), Some(value))))).unwrap();
        db.flush().unwrap();
    }
    (300..310).for_each(|i| db.put(&key(i), value).unwrap());
    db
}

fn assert_holds(db: &Db, value: &[u8], len: u64) {
    let expected: Vec<_> = (0..len).map(|i| (key(i), value.to_vec())).collect();
    assert!(scan_all(db) == expected, "the store does not hold exactly the {len} expected entries");
}

fn bytes_in(dir: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
}

/// Returns the path of one file in `dir` whose name ends with `end`.
fn file_of(dir: &Path, end: &str) -> PathBuf {
    let mut paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_str().unwrap().ends_with(end)).unwrap()
}

/// Moves the directory of an open store away, creates another store at the old path, and uses both.
/// `take_away` moves the directory and returns its new path.
fn try_move(tables: u64, take_away: fn(&Path) -> PathBuf) {
    let temporary = scratch();
    let path = temporary.path().join("parent/store");
    let first = open_filled(&path, b"first");
    let moved = take_away(&path);
    drop(open_with_tables(tables, &path, b"second"));
    let second = bytes_in(&path);
    (310..400).for_each(|i| first.put(&key(i), b"first").unwrap());
    first.flush().unwrap();
    first.compact_range(..).unwrap();
    (400..500).for_each(|i| first.put(&key(i), b"first").unwrap());
    assert!(first.verify().unwrap().is_sound());
    let copy = temporary.path().join("copy");
    first.checkpoint(&copy).unwrap();
    first.close().unwrap();
    assert!(bytes_in(&path) == second, "files of the second store changed");
    assert_holds(&Db::open(&path, options()).unwrap(), b"second", 310);
    assert_holds(&Db::open(&moved, options()).unwrap(), b"first", 500);
    assert_holds(&Db::open(&copy, options()).unwrap(), b"first", 500);
}

#[test]
fn a_moved_store_continues_and_leaves_the_next_store_alone() {
    let moves: [fn(&Path) -> PathBuf; 3] = [
        |path| {
            let moved = path.with_file_name("moved");
            fs::rename(path, &moved).unwrap();
            moved
        },
        // The parent is renamed.
        |path| {
            let parent = path.parent().unwrap();
            fs::rename(parent, parent.with_file_name("elsewhere")).unwrap();
            parent.with_file_name("elsewhere/store")
        },
        // The path becomes a link.
        |path| {
            let (moved, other) = (path.with_file_name("moved"), path.with_file_name("other"));
            fs::rename(path, &moved).unwrap();
            fs::create_dir(&other).unwrap();
            symlink(&other, path).unwrap();
            moved
        },
    ];
    // If the second store has one SST, its files have names that the first store removes, but no
    // names that the first store creates.
    for tables in [3, 1] {
        moves.iter().for_each(|take_away| try_move(tables, *take_away));
    }
}

#[test]
fn a_renamed_store_can_be_copied_to_its_old_path() {
    let temporary = scratch();
    let (path, moved) = (temporary.path().join("store"), temporary.path().join("moved"));
    let db = open_filled(&path, b"value");
    fs::rename(&path, &moved).unwrap();
    db.checkpoint(&path).unwrap();
    assert!(db.verify().unwrap().is_sound());
    drop(db);
    for dir in [&path, &moved] {
        assert_holds(&Db::open(dir, options()).unwrap(), b"value", 310);
    }
}

/// Removes the lock file of a store. Puts an empty file, a dangling link, a directory or nothing in
/// its place, as `how` says.
fn harm_lock(lock: &Path, how: &str) {
    fs::remove_file(lock).unwrap();
    match how {
        "replaced" => fs::write(lock, "").unwrap(),
        "a link" => symlink(lock.with_file_name("../elsewhere"), lock).unwrap(),
        "a directory" => fs::create_dir(lock).unwrap(),
        _ => {}
    }
}

#[test]
fn a_store_without_its_lock_file_still_keeps_others_out() {
    for how in ["removed", "replaced", "a link", "a directory"] {
        let temporary = scratch();
        let path = temporary.path().join("store");
        let db = open_filled(&path, b"value");
        let lock = path.join("LOCK");
        harm_lock(&lock, how);
        for _ in 0..3 {
            let error = Db::open(&path, options()).map(drop).unwrap_err();
            let is_file = ["removed", "replaced"].contains(&how);
            assert!(!is_file || matches!(error.root(), Error::Locked), "{how}: {error}");
            assert!(error.to_string().starts_with(path.to_str().unwrap()), "{how}: {error}");
        }
        (310..410).for_each(|i| db.put(&key(i), b"value").unwrap());
        db.compact_range(..).unwrap();
        drop(db);
        assert!(!temporary.path().join("elsewhere").exists(), "{how}");
        if how == "a link" {
            fs::remove_file(&lock).unwrap();
        }
        if how == "a directory" {
            fs::remove_dir(&lock).unwrap();
        }
        assert_holds(&Db::open(&path, options()).unwrap(), b"value", 410);
    }
}

#[test]
fn a_lock_that_is_not_a_regular_file_is_refused_and_named() {
    for how in ["a link", "a directory"] {
        let temporary = scratch();
        let path = temporary.path().join("store");
        drop(open_filled(&path, b"value"));
        let lock = path.join("LOCK");
        harm_lock(&lock, how);
        let before = fs::read_dir(&path).unwrap().count();
        let error = Db::open(&path, options()).map(drop).unwrap_err();
        common::assert_names(&error, &lock);
        assert_eq!(fs::read_dir(&path).unwrap().count(), before);
        assert!(!temporary.path().join("elsewhere").exists(), "{how}");
    }
}

#[test]
fn a_directory_with_two_names_is_opened_once() {
    let temporary = scratch();
    let (path, alias) = (temporary.path().join("store"), temporary.path().join("alias"));
    let db = open_filled(&path, b"value");
    symlink(&path, &alias).unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let error = Db::open(&alias, options()).map(drop).unwrap_err();
    assert!(matches!(error.root(), Error::Locked), "{error}");
    // The handle owns the lock, so its drop frees the lock although a snapshot still reads the
    // files.
    let snapshot = db.snapshot();
    drop(db);
    assert_holds(&Db::open(&alias, options()).unwrap(), b"value", 310);
    assert_eq!(snapshot.get(&key(0)).unwrap().unwrap(), b"value");
}

#[test]
fn a_removed_directory_is_an_error_and_never_a_success() {
    type Act = fn(&Db, &Path) -> Result<()>;
    let acts: [(&str, Act); 4] = [
        ("a synced write", |db, _| db.put(b"key", b"value")),
        ("a flush", |db, _| db.flush()),
        ("a compaction", |db, _| db.compact_range(..)),
        ("a checkpoint", |db, copy| db.checkpoint(copy)),
    ];
    for is_made_anew in [false, true] {
        for (what, act) in acts {
            let temporary = scratch();
            let path = temporary.path().join("store");
            let db = open_filled(&path, b"value");
            fs::remove_dir_all(&path).unwrap();
            if is_made_anew {
                fs::create_dir(&path).unwrap();
            }
            let result = act(&db, &temporary.path().join("copy"));
            assert!(result.is_err(), "{what} succeeded");
            assert!(db.close().is_err(), "the close after {what} succeeded");
            assert_eq!(path.exists(), is_made_anew);
            assert!(!is_made_anew || bytes_in(&path).is_empty(), "{what} made files");
        }
    }
}

#[test]
fn a_log_that_lost_its_name_acknowledges_nothing() {
    for is_replaced in [false, true] {
        let temporary = scratch();
        let path = temporary.path().join("store");
        let db = open_filled(&path, b"value");
        let log = file_of(&path, ".log");
        let bytes = fs::read(&log).unwrap();
        fs::remove_file(&log).unwrap();
        if is_replaced {
            fs::write(&log, &bytes).unwrap();
        }
        let error = db.put(b"key", b"value").unwrap_err();
        common::assert_names(&error, &log);
        assert!(matches!(db.put(b"key", b"value").unwrap_err().root(), Error::Poisoned { .. }));
        drop(db);
        if is_replaced {
            assert_holds(&Db::open(&path, options()).unwrap(), b"value", 310);
        }
    }
}

#[test]
fn an_sst_replaced_under_a_store_is_reported_and_never_copied() {
    let temporary = scratch();
    let path = temporary.path().join("store");
    let db = open_filled(&path, b"value");
    let sst = file_of(&path, ".sst");
    let bytes = fs::read(&sst).unwrap();
    fs::remove_file(&sst).unwrap();
    fs::write(&sst, &bytes[..bytes.len() - 1]).unwrap();
    let report = db.verify().unwrap();
    assert!(report.damage.iter().any(|error| error.to_string().starts_with(sst.to_str().unwrap())), "{report:?}");
    common::assert_names(&db.checkpoint(temporary.path().join("copy")).unwrap_err(), &sst);
    // Reads continue with the opened file, and a compaction writes its content to a new SST.
    assert_holds(&db, b"value", 310);
    db.compact_range(..).unwrap();
    assert!(db.verify().unwrap().is_sound());
    db.close().unwrap();
    assert_holds(&Db::open(&path, options()).unwrap(), b"value", 310);
}

#[test]
fn the_child_process_of_the_relative_path_test() {
    let Some((_, dir)) = steps::order() else { return };
    // The working directory belongs to the whole process, so this test runs in its own process.
    std::env::set_current_dir(&dir).unwrap();
    let db = open_filled(Path::new("store"), b"value");
    std::env::set_current_dir(dir.join("other")).unwrap();
    drop(open_filled(Path::new("store"), b"another"));
    (310..400).for_each(|i| db.put(&key(i), b"value").unwrap());
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert!(db.verify().unwrap().is_sound());
    db.checkpoint("copy").unwrap();
    db.close().unwrap();
    steps::say("closed");
}

#[test]
fn a_relative_path_survives_a_change_of_directory() {
    let temporary = scratch();
    let dir = temporary.path();
    fs::create_dir(dir.join("other")).unwrap();
    let child = steps::this_program(&[], CHILD, &format!("relative:{}", dir.display())).output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(said.contains("closed"), "{said}");
    assert_holds(&Db::open(dir.join("store"), options()).unwrap(), b"value", 400);
    assert_holds(&Db::open(dir.join("other/copy"), options()).unwrap(), b"value", 400);
    assert_holds(&Db::open(dir.join("other/store"), options()).unwrap(), b"another", 310);
}
